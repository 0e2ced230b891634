// SPDX-License-Identifier: GPL-2.0
/* Memory windows: what the peer may do by their keys, and what it may do no longer. */

#include "user_rings.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The range of a window in the memory of side 1. */
#define FIRST 4096
#define LENGTH 64

#define WRITES IBV_ACCESS_REMOTE_WRITE
#define READS IBV_ACCESS_REMOTE_READ

/* A region of side 1 that gives the peer no right itself, and a window. */
struct view {
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	/* The key of the window now. */
	uint32_t key;
};

static uint64_t address(uint64_t offset)
{
	return (uintptr_t)sides[1].memory + offset;
}

static struct view new_view(enum ibv_mw_type type)
{
	struct view view;

	view.mr = ibv_reg_mr(sides[1].pd, sides[1].memory, REGION,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	CHECK(view.mr);
	view.mw = ibv_alloc_mw(sides[1].pd, type);
	CHECK(view.mw);
	view.key = view.mw->rkey;
	return view;
}

static void free_view(struct view *view)
{
	CHECK(!ibv_dealloc_mw(view->mw));
	CHECK(!ibv_dereg_mr(view->mr));
}

/* A request of side 1 that binds the range to the next key. */
static struct rxe_send_wqe *prepare_bind(struct end *end, struct view *view, uint32_t access)
{
	struct rxe_send_wqe *wqe = prepare(end);

	wqe->wr.opcode = IBV_WR_BIND_MW;
	wqe->wr.wr.mw.addr = address(FIRST);
	wqe->wr.wr.mw.length = LENGTH;
	wqe->wr.wr.mw.mr_lkey = view->mr->lkey;
	wqe->wr.wr.mw.mw_rkey = view->key;
	wqe->wr.wr.mw.rkey = ibv_inc_rkey(view->key);
	wqe->wr.wr.mw.access = access;
	return wqe;
}

static void bind(struct end *end, struct view *view, uint32_t access)
{
	prepare_bind(end, view, access);
	expect_send(end, IBV_WC_SUCCESS, "binding", access);
	view->key = ibv_inc_rkey(view->key);
}

/* Side 0 accesses eight octets of side 1. */
static void expect_access(struct end *ends, uint32_t opcode, uint32_t key, uint64_t addr,
			  int status)
{
	struct rxe_send_wqe *wqe;

	memset(sides[0].memory, 0x66, 8);
	memset(sides[1].memory, 0x77, 2 * FIRST);
	wqe = prepare(&ends[0]);
	wqe->wr.opcode = opcode;
	wqe->wr.wr.rdma.remote_addr = addr;
	wqe->wr.wr.rdma.rkey = key;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wqe->wr.wr.atomic.rkey = key;
	expect_send(&ends[0], status, "access", opcode);
	for (int i = 0; i < 2 * FIRST && status != IBV_WC_SUCCESS; i++)
		CHECK(sides[1].memory[i] == 0x77);
	if (status != IBV_WC_SUCCESS)
		CHECK(sides[0].memory[0] == 0x66);
	else if (opcode == IBV_WR_RDMA_WRITE)
		CHECK(!memcmp(sides[0].memory, sides[1].memory + FIRST, 8));
	else
		CHECK(sides[0].memory[0] == 0x77);
}

/* As above, on a pair of its own, as a refusal ends a pair. */
static void expect_refusal(uint32_t opcode, uint32_t key, uint64_t addr)
{
	struct end ends[2];

	new_pair(ends);
	expect_access(ends, opcode, key, addr, IBV_WC_REM_ACCESS_ERR);
	free_pair(ends);
}

/* RNIC-MR-14: a window of type 1, for all queue pairs of the domain. */
void windows_of_type_1(void)
{
	struct view view = new_view(IBV_MW_TYPE_1);
	struct end ends[2];

	expect_refusal(IBV_WR_RDMA_WRITE, view.key, address(FIRST));
	new_pair(ends);
	bind(&ends[1], &view, WRITES);
	expect_access(ends, IBV_WR_RDMA_WRITE, view.key, address(FIRST), IBV_WC_SUCCESS);
	free_pair(ends);
	new_pair(ends);
	expect_access(ends, IBV_WR_RDMA_WRITE, view.key, address(FIRST), IBV_WC_SUCCESS);
	expect_refusal(IBV_WR_RDMA_WRITE, view.key - 1, address(FIRST));
	expect_refusal(IBV_WR_RDMA_WRITE, view.mr->rkey, address(FIRST));
	expect_refusal(IBV_WR_RDMA_WRITE, view.key, address(FIRST - 1));
	expect_refusal(IBV_WR_RDMA_WRITE, view.key, address(FIRST + LENGTH - 7));
	expect_refusal(IBV_WR_RDMA_WRITE, view.key, 0);
	expect_refusal(IBV_WR_RDMA_READ, view.key, address(FIRST));
	expect_refusal(IBV_WR_ATOMIC_FETCH_AND_ADD, view.key, address(FIRST));
	/* Bound again, with other rights. */
	bind(&ends[1], &view, READS);
	expect_access(ends, IBV_WR_RDMA_READ, view.key, address(FIRST), IBV_WC_SUCCESS);
	expect_refusal(IBV_WR_RDMA_WRITE, view.key, address(FIRST));
	expect_refusal(IBV_WR_RDMA_READ, view.key - 1, address(FIRST));
	CHECK(ibv_dereg_mr(view.mr) == EINVAL);
	/* To nothing. */
	prepare_bind(&ends[1], &view, 0)->wr.wr.mw.length = 0;
	expect_send(&ends[1], IBV_WC_SUCCESS, "end of a binding", 0);
	view.key = ibv_inc_rkey(view.key);
	expect_refusal(IBV_WR_RDMA_READ, view.key, address(FIRST));
	expect_refusal(IBV_WR_RDMA_READ, view.key - 1, address(FIRST));
	free_pair(ends);
	free_view(&view);
	/* By the library. */
	view = new_view(IBV_MW_TYPE_1);
	new_pair(ends);
	CHECK(!ibv_bind_mw(ends[1].qp, view.mw, &(struct ibv_mw_bind){
		.wr_id = 9, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = view.mr, .addr = address(FIRST), .length = LENGTH,
			       .mw_access_flags = WRITES } }));
	CHECK(completion(&ends[1], 10).opcode == IBV_WC_BIND_MW);
	expect_access(ends, IBV_WR_RDMA_WRITE, view.mw->rkey, address(FIRST), IBV_WC_SUCCESS);
	/* It has no state in which it is bound to nothing after an invalidation. */
	prepare(&ends[1])->wr.opcode = IBV_WR_LOCAL_INV;
	send_slot(&ends[1])->wr.ex.invalidate_rkey = view.mw->rkey;
	expect_send(&ends[1], IBV_WC_LOC_QP_OP_ERR, "invalidation of type 1", 0);
	free_pair(ends);
	view.key = view.mw->rkey;
	CHECK(!ibv_dealloc_mw(view.mw));
	expect_refusal(IBV_WR_RDMA_WRITE, view.key, address(FIRST));
	CHECK(!ibv_dereg_mr(view.mr));
}

/* RNIC-MR-14, RNIC-MR-08: a window of type 2, for the queue pair that binds it. */
void windows_of_type_2(void)
{
	for (int way = 0; way < 4; way++) {
		struct view view = new_view(IBV_MW_TYPE_2);
		struct end ends[2];
		struct ibv_wc wc;

		new_pair(ends);
		bind(&ends[1], &view, WRITES | READS);
		expect_access(ends, IBV_WR_RDMA_WRITE, view.key, address(FIRST), IBV_WC_SUCCESS);
		expect_access(ends, IBV_WR_RDMA_READ, view.key, address(FIRST + LENGTH - 8),
			      IBV_WC_SUCCESS);
		expect_refusal(IBV_WR_RDMA_WRITE, view.key, address(FIRST));
		CHECK(ibv_dereg_mr(view.mr) == EINVAL);
		switch (way) {
		case 0:
			prepare(&ends[1])->wr.opcode = IBV_WR_LOCAL_INV;
			send_slot(&ends[1])->wr.ex.invalidate_rkey = view.key;
			expect_send(&ends[1], IBV_WC_SUCCESS, "local invalidation", 0);
			break;
		case 1:
			post_receive(&ends[1], address(0), 8, sides[1].mr->lkey, 1);
			prepare(&ends[0])->wr.opcode = IBV_WR_SEND_WITH_INV;
			send_slot(&ends[0])->wr.ex.invalidate_rkey = view.key;
			expect_send(&ends[0], IBV_WC_SUCCESS, "remote invalidation", 0);
			wc = completion(&ends[1], 10);
			CHECK(wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_WITH_INV);
			CHECK(wc.invalidated_rkey == view.key);
			break;
		case 2:
			prepare_bind(&ends[1], &view, READS);
			expect_send(&ends[1], IBV_WC_MW_BIND_ERR, "second binding", 0);
			free_pair(ends);
			free_view(&view);
			continue;
		case 3:
			CHECK(!ibv_dealloc_mw(view.mw));
			expect_access(ends, IBV_WR_RDMA_WRITE, view.key, address(FIRST),
				      IBV_WC_REM_ACCESS_ERR);
			free_pair(ends);
			CHECK(!ibv_dereg_mr(view.mr));
			continue;
		}
		/* Bound again, from address 0 on. */
		bind(&ends[1], &view, WRITES | IBV_ACCESS_ZERO_BASED);
		expect_access(ends, IBV_WR_RDMA_WRITE, view.key, 0, IBV_WC_SUCCESS);
		expect_access(ends, IBV_WR_RDMA_WRITE, view.key, LENGTH - 7,
			      IBV_WC_REM_ACCESS_ERR);
		free_pair(ends);
		free_view(&view);
	}
	for (int way = 0; way < 2; way++) {
		struct view view = new_view(IBV_MW_TYPE_2);
		struct end ends[2];

		new_pair(ends);
		bind(&ends[1], &view, WRITES);
		prepare(&ends[1])->wr.opcode = IBV_WR_LOCAL_INV;
		send_slot(&ends[1])->wr.ex.invalidate_rkey = view.key;
		expect_send(&ends[1], IBV_WC_SUCCESS, "local invalidation", 0);
		expect_access(ends, IBV_WR_RDMA_WRITE, view.key - way, address(FIRST),
			      IBV_WC_REM_ACCESS_ERR);
		free_pair(ends);
		free_view(&view);
	}
}

/* Changes that no binding permits. */
static void spoil(struct rxe_send_wqe *wqe, int way, const struct view *view,
		  struct ibv_mr *readable)
{
	switch (way) {
	case 0:
		wqe->wr.wr.mw.mw_rkey ^= 1;
		break;
	case 1:
		wqe->wr.wr.mw.mw_rkey = view->mr->rkey;
		break;
	case 2:
		wqe->wr.wr.mw.mw_rkey = 0xffffffff;
		break;
	case 3:
		wqe->wr.wr.mw.mr_lkey ^= 1;
		break;
	case 4:
		wqe->wr.wr.mw.mr_lkey = view->key;
		break;
	case 5:
		wqe->wr.wr.mw.mr_lkey = LOCAL_DMA_KEY;
		break;
	/* A region that is not for windows, and one that is not written. */
	case 6:
		wqe->wr.wr.mw.mr_lkey = sides[1].mr->lkey;
		break;
	case 7:
		wqe->wr.wr.mw.mr_lkey = readable->lkey;
		break;
	case 8:
		wqe->wr.wr.mw.addr = address(0) - 1;
		break;
	case 9:
		wqe->wr.wr.mw.addr = address(REGION - LENGTH + 1);
		break;
	case 10:
		wqe->wr.wr.mw.length = ~0ull;
		break;
	case 11:
		wqe->wr.wr.mw.length = 1ull << 63;
		break;
	case 12:
		wqe->wr.wr.mw.access = IBV_ACCESS_FLUSH_GLOBAL;
		break;
	case 13:
		wqe->wr.wr.mw.access = IBV_ACCESS_MW_BIND;
		break;
	case 14:
		wqe->wr.wr.mw.access = 0x80000000;
		break;
	}
}

/* RNIC-MR-14, RNIC-MR-09, RNIC-SEC-03. */
void windows_refused(void)
{
	static const enum ibv_mw_type types[] = { IBV_MW_TYPE_1, IBV_MW_TYPE_2 };
	struct ibv_mr *readable = ibv_reg_mr(sides[1].pd, sides[1].memory, REGION,
					     IBV_ACCESS_MW_BIND);
	struct ibv_pd *pd = ibv_alloc_pd(sides[1].ctx);
	struct side other = sides[1];

	CHECK(readable && pd);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct view view = new_view(types[i]);
		struct end ends[2];

		for (int way = 0; way < 15; way++) {
			new_pair(ends);
			spoil(prepare_bind(&ends[1], &view, WRITES), way, &view, readable);
			expect_send(&ends[1], IBV_WC_MW_BIND_ERR, "spoilt binding", way);
			free_pair(ends);
		}
		new_pair(ends);
		if (types[i] == IBV_MW_TYPE_1)
			prepare_bind(&ends[1], &view, WRITES | IBV_ACCESS_ZERO_BASED);
		else
			prepare_bind(&ends[1], &view, WRITES)->wr.wr.mw.length = 0;
		expect_send(&ends[1], IBV_WC_MW_BIND_ERR, "binding of the other type", types[i]);
		free_pair(ends);
		/* By a queue pair of another domain. */
		other.pd = pd;
		ends[0] = new_end(&sides[0], IBV_QPT_RC);
		ends[1] = new_end(&other, IBV_QPT_RC);
		join(ends);
		prepare_bind(&ends[1], &view, WRITES);
		expect_send(&ends[1], IBV_WC_MW_BIND_ERR, "binding of another domain", types[i]);
		free_pair(ends);
		/* The key of a window is none for requests of its own side. */
		new_pair(ends);
		bind(&ends[1], &view, WRITES | READS);
		prepare(&ends[1])->dma.sge[0].lkey = view.key;
		send_slot(&ends[1])->dma.sge[0].addr = address(FIRST);
		expect_send(&ends[1], IBV_WC_LOC_PROT_ERR, "window as a local key", types[i]);
		free_pair(ends);
		free_view(&view);
	}
	CHECK(!ibv_dereg_mr(readable));
	CHECK(!ibv_dealloc_pd(pd));
	expect_service();
}

/* A process dies with windows that are bound, made before their regions and after. */
void windows_of_the_dead(void)
{
	for (int round = 0; round < 4; round++) {
		pid_t child = fork();
		int status;

		CHECK(child >= 0);
		if (!child) {
			struct view view, early;
			struct end ends[2];

			for (int i = 0; i < 2; i++)
				open_side(&sides[i], ibv_get_device_name(sides[i].ctx->device),
					  sides[i].gid_index);
			early = new_view(round % 2 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
			view = new_view(IBV_MW_TYPE_2);
			new_pair(ends);
			CHECK(!ibv_dereg_mr(early.mr));
			early.mr = view.mr;
			bind(&ends[1], &early, WRITES);
			bind(&ends[1], &view, WRITES);
			for (;;)
				expect_access(ends, IBV_WR_RDMA_WRITE, early.key, address(FIRST),
					      IBV_WC_SUCCESS);
		}
		usleep(50000 + 10000 * round);
		CHECK(!kill(child, SIGKILL));
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	expect_service();
}
