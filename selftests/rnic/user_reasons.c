// SPDX-License-Identifier: GPL-2.0
/* Why requests fail: completions carry a code in vendor_err. */

#include "user_rings.h"

#include <string.h>

/* Codes of Documentation/soft-rnic.rst. */
#define MALFORMED 0x101
#define NO_READS 0x103
#define SOURCE_DENIED 0x106
#define SINK_DENIED 0x107
#define NOT_INVALIDATED 0x109
#define NOT_BOUND 0x10a
#define PEER_INVALID 0x201
#define PEER_ACCESS 0x202
#define PEER_OPERATION 0x203
#define PEER_NOT_READY 0x204
#define NO_ANSWER 0x205
#define KEY_REFUSED 0x306
#define RECEIVE_TOO_SHORT 0x308
#define RECEIVE_DENIED 0x309
#define KEY_KEPT 0x30a
#define FLUSHED 0x401

/* A key of nothing. */
#define BAD_KEY 0xdead0000

/* The next completion is one with that status and reason. */
static void expect_reason(struct end *end, const char *what, int status, uint64_t id,
			  uint32_t reason)
{
	struct ibv_wc wc = expect_completion(end, status, id, what);

	if (wc.vendor_err != reason)
		fail("%s: reason %#x, want %#x", what, wc.vendor_err, reason);
}

/* A receive request of the peer. */
static void give(struct end *end, uint32_t len, uint32_t lkey)
{
	post_receive(end, (uintptr_t)end->side->memory, len, lkey, 1);
}

static void malformed(struct end *ends)
{
	prepare(&ends[0])->wr.opcode = 0xff;
}

static void read_from(struct end *ends)
{
	prepare_remote(&ends[0], IBV_WR_RDMA_READ, (uintptr_t)sides[1].memory,
		       sides[1].mr->rkey, 8);
}

static void bad_source(struct end *ends)
{
	prepare(&ends[0])->dma.sge[0].lkey = BAD_KEY;
}

/* Memory that may be read only. */
static struct ibv_mr *constant;

static void bad_sink(struct end *ends)
{
	read_from(ends);
	send_slot(&ends[0])->dma.sge[0].lkey = constant->lkey;
}

static void bad_invalidation(struct end *ends)
{
	prepare(&ends[0])->wr.opcode = IBV_WR_LOCAL_INV;
	send_slot(&ends[0])->wr.ex.invalidate_rkey = BAD_KEY;
}

static void bad_binding(struct end *ends)
{
	struct rxe_send_wqe *wqe = prepare(&ends[0]);

	wqe->wr.opcode = IBV_WR_BIND_MW;
	wqe->wr.wr.mw.addr = (uintptr_t)sides[0].memory;
	wqe->wr.wr.mw.length = 8;
	wqe->wr.wr.mw.mr_lkey = sides[0].mr->lkey;
	wqe->wr.wr.mw.mw_rkey = BAD_KEY;
	wqe->wr.wr.mw.rkey = BAD_KEY + 1;
}

static void bad_key(struct end *ends)
{
	prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory, BAD_KEY, 8);
}

static void bad_key_of_an_immediate(struct end *ends)
{
	give(&ends[1], 8, sides[1].mr->lkey);
	prepare_remote(&ends[0], IBV_WR_RDMA_WRITE_WITH_IMM, (uintptr_t)sides[1].memory,
		       BAD_KEY, 8);
}

static void short_buffer(struct end *ends)
{
	give(&ends[1], 7, sides[1].mr->lkey);
	prepare(&ends[0]);
}

static void bad_buffer(struct end *ends)
{
	give(&ends[1], 8, BAD_KEY);
	prepare(&ends[0]);
}

static void bad_remote_invalidation(struct end *ends)
{
	give(&ends[1], 8, sides[1].mr->lkey);
	prepare(&ends[0])->wr.opcode = IBV_WR_SEND_WITH_INV;
	send_slot(&ends[0])->wr.ex.invalidate_rkey = BAD_KEY;
}

static void no_buffer(struct end *ends)
{
	prepare(&ends[0]);
}

static void silent_peer(struct end *ends)
{
	set_state(&ends[1], IBV_QPS_RESET);
	prepare(&ends[0]);
}

static const struct {
	const char *name;
	void (*prepare)(struct end *ends);
	/* Of the request. */
	int status;
	uint32_t reason;
	/* Of the receive request that it takes. */
	int receive_status;
	uint32_t receive_reason;
	/* READs that may be in flight. */
	int reads;
	/* Whether no answer comes, so that it should not be awaited for long. */
	bool silent;
} failures[] = {
	{ "malformed", malformed, IBV_WC_LOC_QP_OP_ERR, MALFORMED, 0, 0, 1 },
	{ "no READs", read_from, IBV_WC_LOC_QP_OP_ERR, NO_READS, 0, 0, 0 },
	{ "bad source", bad_source, IBV_WC_LOC_PROT_ERR, SOURCE_DENIED, 0, 0, 1 },
	{ "bad sink", bad_sink, IBV_WC_LOC_PROT_ERR, SINK_DENIED, 0, 0, 1 },
	{ "bad invalidation", bad_invalidation, IBV_WC_LOC_QP_OP_ERR, NOT_INVALIDATED, 0, 0, 1 },
	{ "bad binding", bad_binding, IBV_WC_MW_BIND_ERR, NOT_BOUND, 0, 0, 1 },
	{ "bad key", bad_key, IBV_WC_REM_ACCESS_ERR, PEER_ACCESS, 0, 0, 1 },
	{ "bad key of an immediate", bad_key_of_an_immediate, IBV_WC_REM_ACCESS_ERR, PEER_ACCESS,
	  IBV_WC_REM_ACCESS_ERR, KEY_REFUSED, 1 },
	{ "short buffer", short_buffer, IBV_WC_REM_INV_REQ_ERR, PEER_INVALID,
	  IBV_WC_LOC_LEN_ERR, RECEIVE_TOO_SHORT, 1 },
	{ "bad buffer", bad_buffer, IBV_WC_REM_OP_ERR, PEER_OPERATION,
	  IBV_WC_LOC_PROT_ERR, RECEIVE_DENIED, 1 },
	/* The receiver does not tell why it ends (RNIC-RSP-18). */
	{ "bad remote invalidation", bad_remote_invalidation, IBV_WC_RETRY_EXC_ERR, NO_ANSWER,
	  IBV_WC_REM_INV_REQ_ERR, KEY_KEPT, 1, true },
	{ "no buffer", no_buffer, IBV_WC_RNR_RETRY_EXC_ERR, PEER_NOT_READY, 0, 0, 1 },
	{ "silent peer", silent_peer, IBV_WC_RETRY_EXC_ERR, NO_ANSWER, 0, 0, 1, true },
};

/* A pair whose first end fails soon, as far as nothing but a failure is awaited. */
static void new_impatient_pair(struct end *ends, int reads, bool silent)
{
	struct ibv_qp_attr attr;

	for (int i = 0; i < 2; i++)
		ends[i] = new_end(&sides[i], IBV_QPT_RC);
	attr = way_to(&ends[0], &ends[1]);
	attr.max_rd_atomic = reads;
	attr.rnr_retry = 0;
	if (silent) {
		attr.timeout = 12;
		attr.retry_cnt = 2;
	}
	begin_to_receive(&ends[0], attr);
	begin_to_send(&ends[0], attr);
	connect_end(&ends[1], &ends[0]);
}

/* RNIC-ERR-04. */
void reasons(void)
{
	struct end ends[2];

	constant = ibv_reg_mr(sides[0].pd, sides[0].memory, REGION, IBV_ACCESS_REMOTE_READ);
	CHECK(constant);
	for (size_t i = 0; i < ARRAY_SIZE(failures); i++) {
		new_impatient_pair(ends, failures[i].reads, failures[i].silent);
		failures[i].prepare(ends);
		produce(ends[0].sends.buf);
		/* One behind it. */
		prepare(&ends[0]);
		post_prepared(&ends[0]);
		expect_reason(&ends[0], failures[i].name, failures[i].status, 0x5157,
			      failures[i].reason);
		expect_reason(&ends[0], failures[i].name, IBV_WC_WR_FLUSH_ERR, 0x5157, FLUSHED);
		if (failures[i].receive_status)
			expect_reason(&ends[1], failures[i].name, failures[i].receive_status,
				      0x5257, failures[i].receive_reason);
		free_pair(ends);
	}
	/* What succeeds has no reason, and what the program itself ends has one, too. */
	new_pair(ends);
	give(&ends[1], 8, sides[1].mr->lkey);
	prepare(&ends[0]);
	post_prepared(&ends[0]);
	expect_reason(&ends[0], "success", IBV_WC_SUCCESS, 0x5157, 0);
	expect_reason(&ends[1], "success", IBV_WC_SUCCESS, 0x5257, 0);
	give(&ends[1], 8, sides[1].mr->lkey);
	set_state(&ends[1], IBV_QPS_ERR);
	expect_reason(&ends[1], "end", IBV_WC_WR_FLUSH_ERR, 0x5257, FLUSHED);
	free_pair(ends);
	CHECK(!ibv_dereg_mr(constant));
	expect_service();
}
