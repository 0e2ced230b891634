// SPDX-License-Identifier: GPL-2.0
/*
 * A program that fills the rings of its queue pairs by hand, against what the library does.
 *
 *	user_rings DEVICE INDEX DEVICE INDEX CASE
 *
 * The devices are joined, and each INDEX is that of an address with RoCE v2. Exit status 0 means
 * that the kernel answered as the case wants; what differs is printed.
 */

#define _GNU_SOURCE

#include "user_rings.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/ib_user_verbs.h>

#define SECONDS_MAX 60

/* RNIC-SEC-02, RNIC-SEC-03. */
static void opcodes(void)
{
	static const uint32_t bad[] = { 10, 11, 12, 13, 16, 31, 32, 0x20, 0xf0, 0xff,
					0x100, 1u << 31, 0xffffffff };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct end ends[2];

		new_pair(ends);
		prepare(&ends[0])->wr.opcode = bad[i];
		expect_send(&ends[0], IBV_WC_LOC_QP_OP_ERR, "opcode", bad[i]);
		/* The queue pair is in state ERR. */
		prepare(&ends[0]);
		expect_send(&ends[0], IBV_WC_WR_FLUSH_ERR, "after opcode", bad[i]);
		free_pair(ends);
	}
}

/* RNIC-SEC-04, RNIC-UAPI-08, RNIC-UAPI-09. */
static void sizes(void)
{
	struct end ends[2];

	static const uint32_t counts[] = { 17, 18, 1000, 1u << 31, 0xffffffff };

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		new_pair(ends);
		prepare(&ends[0])->dma.num_sge = counts[i];
		expect_send(&ends[0], IBV_WC_LOC_QP_OP_ERR, "elements", counts[i]);
		free_pair(ends);
		new_pair(ends);
		prepare(&ends[0])->dma.length = counts[i] + 240;
		send_slot(&ends[0])->wr.send_flags |= IBV_SEND_INLINE;
		expect_send(&ends[0], IBV_WC_LOC_QP_OP_ERR, "inline data", counts[i]);
		free_pair(ends);
	}
	for (uint32_t flag = 32; flag; flag <<= 1) {
		new_pair(ends);
		prepare(&ends[0])->wr.send_flags |= flag;
		expect_send(&ends[0], IBV_WC_LOC_QP_OP_ERR, "flag", flag);
		free_pair(ends);
	}
	new_pair(ends);
	prepare(&ends[0])->wr.opcode = IBV_WR_RDMA_READ;
	send_slot(&ends[0])->wr.send_flags |= IBV_SEND_INLINE;
	expect_send(&ends[0], IBV_WC_LOC_QP_OP_ERR, "inline READ", 0);
	free_pair(ends);
}

/* RNIC-MR-04, RNIC-MR-12. */
static void elements(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(sides[0].ctx);
	struct ibv_mr *other, *gone;
	struct end ends[2];
	struct {
		uint64_t addr;
		uint32_t len, lkey;
	} bad[7];
	uint64_t base = (uintptr_t)sides[0].memory;

	CHECK(pd);
	other = ibv_reg_mr(pd, sides[0].memory, REGION, IBV_ACCESS_LOCAL_WRITE);
	CHECK(other);
	gone = ibv_reg_mr(sides[0].pd, sides[0].memory, REGION, IBV_ACCESS_LOCAL_WRITE);
	CHECK(gone);
	bad[0] = (typeof(bad[0])){ base - 1, 8, sides[0].mr->lkey };
	bad[1] = (typeof(bad[0])){ base + REGION - 7, 8, sides[0].mr->lkey };
	bad[2] = (typeof(bad[0])){ ~0ull - 3, 8, sides[0].mr->lkey };
	bad[3] = (typeof(bad[0])){ base, 8, other->lkey };
	bad[4] = (typeof(bad[0])){ base, 8, gone->lkey };
	bad[5] = (typeof(bad[0])){ 0xffff888000000000ull, 8, LOCAL_DMA_KEY };
	bad[6] = (typeof(bad[0])){ 0x60000000, 8, LOCAL_DMA_KEY };
	CHECK(!ibv_dereg_mr(gone));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rxe_send_wqe *wqe;
		struct ibv_wc wc;

		new_pair(ends);
		post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
		wqe = prepare(&ends[0]);
		wqe->dma.sge[0].addr = bad[i].addr;
		wqe->dma.sge[0].length = bad[i].len;
		wqe->dma.sge[0].lkey = bad[i].lkey;
		expect_send(&ends[0], IBV_WC_LOC_PROT_ERR, "element", i);
		free_pair(ends);
		/* The same as the room of a receive request. */
		new_pair(ends);
		post_receive(&ends[0], bad[i].addr, bad[i].len, bad[i].lkey, 1);
		prepare(&ends[1]);
		expect_send(&ends[1], IBV_WC_REM_OP_ERR, "room", i);
		wc = completion(&ends[0], 10);
		if (wc.status != IBV_WC_LOC_PROT_ERR && wc.status != IBV_WC_LOC_QP_OP_ERR)
			fail("room %zu: status %d", i, wc.status);
		free_pair(ends);
	}
	/* Nor is it a key for the peer. */
	new_pair(ends);
	prepare(&ends[0])->wr.opcode = IBV_WR_RDMA_WRITE;
	send_slot(&ends[0])->wr.wr.rdma.remote_addr = 0x60000000;
	send_slot(&ends[0])->wr.wr.rdma.rkey = LOCAL_DMA_KEY;
	expect_send(&ends[0], IBV_WC_REM_ACCESS_ERR, "key for the peer", LOCAL_DMA_KEY);
	free_pair(ends);
	/* A receive request with too many elements has no room. */
	new_pair(ends);
	post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1u << 31);
	prepare(&ends[0]);
	expect_send(&ends[0], IBV_WC_REM_INV_REQ_ERR, "receive without room", 0);
	free_pair(ends);
	CHECK(!ibv_dereg_mr(other));
	CHECK(!ibv_dealloc_pd(pd));
}

/* RNIC-AH-02. */
static void handles(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1,
				    .grh = { .dgid = sides[1].gid, .hop_limit = 1,
					     .sgid_index = sides[0].gid_index } };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };
	struct ibv_pd *pd = ibv_alloc_pd(sides[0].ctx);
	uint32_t numbers[] = { 0, 1, 2, 0x7fffffff, 0xffffffff };
	struct ibv_ah *ah;

	CHECK(pd);
	/* Number 1 of another protection domain. */
	ah = ibv_create_ah(pd, &attr);
	CHECK(ah);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		struct end end = new_end(&sides[0], IBV_QPT_UD);
		struct rxe_send_wqe *wqe;

		CHECK(!ibv_modify_qp(end.qp, &rtr, IBV_QP_STATE));
		CHECK(!ibv_modify_qp(end.qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN));
		wqe = prepare(&end);
		wqe->wr.wr.ud.remote_qpn = 2;
		wqe->wr.wr.ud.ah_num = numbers[i];
		memset(&wqe->wr.wr.ud.av, 0x5a, sizeof(wqe->wr.wr.ud.av));
		expect_send(&end, IBV_WC_LOC_QP_OP_ERR, "address handle", numbers[i]);
		free_end(&end);
	}
	CHECK(!ibv_destroy_ah(ah));
	CHECK(!ibv_dealloc_pd(pd));
}

/* RNIC-SEC-05, RNIC-SEC-06, RNIC-CQ-03: no index that a program writes harms another queue. */
static void indices(void)
{
	static const uint32_t values[] = { 1, 7, 15, 16, 17, 0x7fffffff, 0x80000000, 0xffffffff };

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		for (int which = 0; which < 6; which++) {
			struct end ends[2];
			struct ring *ring;

			new_pair(ends);
			ring = which < 2 ? &ends[0].sends :
			       which < 4 ? &ends[1].receives : &ends[0].completions;
			if (which % 2)
				ring->buf->consumer_index = values[i];
			else
				ring->buf->producer_index = values[i];
			prepare(&ends[0]);
			produce(ends[0].sends.buf);
			CHECK(!ring_doorbell(&ends[0], 0));
			/* The library would follow the index out of the ring. */
			usleep(5000);
			free_pair(ends);
		}
	}
	expect_service();
}

/* RNIC-SEC-05: the shape in a ring is for the library only. */
static void shapes(void)
{
	struct end ends[2];

	new_pair(ends);
	for (int i = 0; i < 2; i++) {
		struct ring *list[] = { &ends[i].sends, &ends[i].receives };

		for (int j = 0; j < 2; j++) {
			list[j]->buf->log2_elem_size = 31;
			list[j]->buf->index_mask = 0xffffffff;
		}
	}
	for (int round = 0; round < 40; round++) {
		struct ibv_wc wc;

		post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
		prepare(&ends[0]);
		expect_send(&ends[0], IBV_WC_SUCCESS, "shape", round);
		wc = completion(&ends[1], 10);
		CHECK(wc.status == IBV_WC_SUCCESS);
	}
	free_pair(ends);
}

/* A request that the core builds from a system call is refused: it could name any memory. */
static void requests(void)
{
	struct end ends[2];
	struct ibv_wc wc;

	new_pair(ends);
	CHECK(ring_doorbell(&ends[0], 1) == EINVAL);
	wc = completion(&ends[0], 0.1);
	CHECK((int)wc.status == -1);
	free_pair(ends);
	/* Before state RTS nothing is sent. */
	ends[0] = new_end(&sides[0], IBV_QPT_RC);
	prepare(&ends[0]);
	produce(ends[0].sends.buf);
	CHECK(ring_doorbell(&ends[0], 0) == EINVAL);
	wc = completion(&ends[0], 0.1);
	CHECK((int)wc.status == -1);
	free_end(&ends[0]);
}

/* Makes a protection domain with eight octets for the driver; an errno. */
static int new_domain(uint64_t request, uint64_t *answer)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_alloc_pd pd;
		uint64_t request;
	} cmd = { .request = request };
	struct {
		struct ib_uverbs_alloc_pd_resp pd;
		uint32_t answer[2];
	} resp;

	memset(&resp, 0xff, sizeof(resp));
	cmd.hdr.command = IB_USER_VERBS_CMD_ALLOC_PD;
	cmd.hdr.in_words = sizeof(cmd) / 4;
	cmd.hdr.out_words = sizeof(resp) / 4;
	cmd.pd.response = (uintptr_t)&resp;
	if (write(sides[0].ctx->cmd_fd, &cmd, sizeof(cmd)) != sizeof(cmd))
		return errno;
	memcpy(answer, resp.answer, sizeof(*answer));
	return 0;
}

/* RNIC-UAPI-03: the driver takes zeros only, and clears the room for its answer. */
static void data(void)
{
	uint64_t answer = 1;

	CHECK(!new_domain(0, &answer) && answer == 0);
	CHECK(new_domain(1, &answer) == EOPNOTSUPP);
	CHECK(new_domain(1ull << 56, &answer) == EOPNOTSUPP);
}

/* RNIC-UAPI-04. */
static void mappings(void)
{
	struct end end = new_end(&sides[0], IBV_QPT_RC);
	int fd = sides[0].ctx->cmd_fd, rw = PROT_READ | PROT_WRITE;
	struct ring ring = end.sends;
	volatile uint32_t *word;
	void *again;

	CHECK(mmap(NULL, ring.len, rw, MAP_PRIVATE, fd, ring.offset) == MAP_FAILED);
	CHECK(mmap(NULL, ring.len, rw | PROT_EXEC, MAP_SHARED, fd, ring.offset) == MAP_FAILED);
	CHECK(mmap(NULL, ring.len + 4096, rw, MAP_SHARED, fd, ring.offset) == MAP_FAILED);
	CHECK(mmap(NULL, 4096, rw, MAP_SHARED, fd, ring.offset + 4096) == MAP_FAILED);
	CHECK(mmap(NULL, 4096, rw, MAP_SHARED, fd, 1ull << 40) == MAP_FAILED);
	again = mmap(NULL, ring.len, rw, MAP_SHARED, fd, ring.offset);
	CHECK(again != MAP_FAILED);
	CHECK(mprotect(again, ring.len, PROT_READ | PROT_EXEC));
	CHECK(mremap(again, ring.len, 2 * ring.len, MREMAP_MAYMOVE) == MAP_FAILED);
	free_end(&end);
	/* The mapping outlives the queue pair, and nothing else can map it any longer. */
	CHECK(mmap(NULL, ring.len, rw, MAP_SHARED, fd, ring.offset) == MAP_FAILED);
	word = again;
	for (size_t i = 0; i < ring.len / 4; i++)
		word[i] = 0xa5a5a5a5;
	CHECK(word[ring.len / 4 - 1] == 0xa5a5a5a5);
	CHECK(!munmap(again, ring.len));
}

/* RNIC-SEC-01, RNIC-SEC-04: rings are overwritten while the kernel reads them. */
static void overwrites(void)
{
	double limit = now() + 10;

	for (int round = 0; now() < limit; round++) {
		struct end ends[2];

		new_pair(ends);
		start_scribbling(ends);
		for (int i = 0; i < 2000 && now() < limit; i++) {
			post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
			prepare(&ends[0]);
			produce(ends[0].sends.buf);
			CHECK(!ring_doorbell(&ends[0], 0));
			prepare(&ends[1]);
			produce(ends[1].sends.buf);
			CHECK(!ring_doorbell(&ends[1], 0));
		}
		stop_scribbling();
		free_pair(ends);
	}
	expect_service();
}

/* A process dies with its rings mapped and traffic under way. */
static void deaths(void)
{
	for (int round = 0; round < 10; round++) {
		pid_t child = fork();
		int status;

		CHECK(child >= 0);
		if (!child) {
			struct shared shared;
			struct end ends[2];

			for (int i = 0; i < 2; i++)
				open_side(&sides[i], ibv_get_device_name(sides[i].ctx->device),
					  sides[i].gid_index);
			shared = new_shared(&sides[1]);
			ends[0] = new_end(&sides[0], IBV_QPT_RC);
			ends[1] = new_sharing_end(&sides[1], IBV_QPT_RC, &shared);
			join(ends);
			for (;;) {
				struct rxe_send_wqe *wqe = prepare(&ends[0]);

				wqe->wr.opcode = IBV_WR_RDMA_WRITE;
				wqe->wr.wr.rdma.remote_addr = (uintptr_t)sides[1].memory;
				wqe->wr.wr.rdma.rkey = sides[1].mr->rkey;
				wqe->dma.length = REGION;
				wqe->dma.sge[0].length = REGION;
				expect_send(&ends[0], IBV_WC_SUCCESS, "WRITE", 0);
			}
		}
		usleep(50000 + 10000 * round);
		CHECK(!kill(child, SIGKILL));
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	expect_service();
}

/* RNIC-UAPI-06: the device goes away under the open context: its memory stays, its calls fail. */
static void removal(void)
{
	struct end ends[2];
	struct ibv_async_event event;
	struct pollfd wait = { .fd = sides[0].ctx->async_fd, .events = POLLIN };

	new_pair(ends);
	/* The caller removes the device of side 0. */
	await_change();
	CHECK(poll(&wait, 1, SECONDS_MAX * 1000) == 1);
	CHECK(!ibv_get_async_event(sides[0].ctx, &event));
	CHECK(event.event_type == IBV_EVENT_DEVICE_FATAL ||
	      event.event_type == IBV_EVENT_QP_FATAL);
	memset(ends[0].sends.buf, 0x5a, ends[0].sends.len);
	CHECK(ring_doorbell(&ends[0], 0) == EIO);
	CHECK(mmap(NULL, ends[0].sends.len, PROT_READ, MAP_SHARED, sides[0].ctx->cmd_fd,
		   ends[0].sends.offset) == MAP_FAILED);
}

/*
 * Two queue pairs that name each other and each other's addresses, while no packet gets from one
 * to the other: what one sends is lost.
 */
static void isolated(void)
{
	struct end ends[2];

	new_pair(ends);
	post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
	prepare(&ends[0]);
	expect_send(&ends[0], IBV_WC_RETRY_EXC_ERR, "isolated", 0);
	CHECK((int)completion(&ends[1], 0.2).status == -1);
	free_pair(ends);
}

/* A queue pair that is its own peer: messages come back, and each one completes at both ends. */
static void itself(void)
{
	struct end end = new_end(&sides[0], IBV_QPT_RC);
	int ends[2] = {};

	connect_end(&end, &end);
	for (int round = 0; round < 400; round++) {
		memset(sides[0].memory, round + 1, 8);
		post_receive(&end, (uintptr_t)sides[0].memory + 4096, 8, sides[0].mr->lkey, 1);
		prepare(&end);
		produce(end.sends.buf);
		CHECK(!ring_doorbell(&end, 0));
		for (int i = 0; i < 2; i++) {
			struct ibv_wc wc = completion(&end, 10);

			CHECK(wc.status == IBV_WC_SUCCESS);
			ends[wc.wr_id == 0x5257]++;
		}
		CHECK(ends[0] == round + 1 && ends[1] == round + 1);
		CHECK(!memcmp(sides[0].memory, sides[0].memory + 4096, 8));
	}
	free_end(&end);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "bystander", expect_service }, { "opcodes", opcodes }, { "sizes", sizes },
	{ "elements", elements }, { "handles", handles }, { "indices", indices },
	{ "shapes", shapes }, { "requests", requests }, { "data", data }, { "mappings", mappings },
	{ "overwrites", overwrites }, { "deaths", deaths }, { "removal", removal },
	{ "shared queues", shared_queues }, { "shared limits", shared_limits },
	{ "shared sizes", shared_sizes }, { "shared hostile", shared_hostile },
	{ "resizes", resizes }, { "unreliable messages", unreliable_messages },
	{ "unreliable refusals", unreliable_refusals },
	{ "unreliable failures", unreliable_failures },
	{ "unreliable changes", unreliable_changes },
	{ "unreliable losses", unreliable_losses }, { "windows of type 1", windows_of_type_1 },
	{ "windows of type 2", windows_of_type_2 }, { "windows refused", windows_refused },
	{ "windows of the dead", windows_of_the_dead }, { "flushes", flushes },
	{ "words", words }, { "isolated", isolated },
	{ "late receives", late_receives }, { "soon asked", soon_asked },
	{ "full completions", full_completions },
	{ "itself", itself }, { "late octets", late_octets },
	{ "late completions", late_completions }, { "silent states", silent_states },
	{ "states", states }, { "marked", marked },
	{ "large rings", large_rings }, { "attributes", all_attributes }, { "creation", creation },
	{ "refusals", refusals }, { "immediates", immediates }, { "lost keys", lost_keys },
	{ "many reads", many_reads }, { "reads behind writes", reads_behind_writes },
	{ "atomics", atomics }, { "completion indices", completion_indices },
	{ "armed timers", armed_timers }, { "solicited", solicited },
	{ "failed rings", failed_rings },
	{ "unmapped memory", unmapped_memory },
	{ "overlaps", overlaps }, { "polled octets", polled_octets }, { "ranges", ranges },
	{ "rights", rights }, { "kernel addresses", kernel_addresses },
	{ "events", queue_pair_events }, { "port events", port_events },
	{ "lost address", lost_address },
	{ "smaller MTU", smaller_mtu }, { "stream", stream },
	{ "packets under way", packets_under_way }, { "unreliable paced", unreliable_paced },
	{ "unreliable stuck", unreliable_stuck }, { "reasons", reasons },
	{ "long writes", long_writes }, { "long reads", long_reads },
	{ "short writes", short_writes },
	{ "shared runs", shared_runs }, { "lost peers", lost_peers },
	{ "fair pairs", fair_pairs }, { "nowhere", nowhere },
	{ "lost route", lost_route },
};

int main(int argc, char **argv)
{
	if (argc != 6)
		fail("usage: %s DEVICE INDEX DEVICE INDEX CASE", argv[0]);
	for (int i = 0; i < 2; i++)
		open_side(&sides[i], argv[1 + 2 * i], atoi(argv[2 + 2 * i]));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (!strcmp(cases[i].name, argv[5])) {
			cases[i].run();
			return 0;
		}
	}
	fail("no case %s", argv[5]);
}
