// SPDX-License-Identifier: GPL-2.0
/* Unreliable connections: messages arrive whole or not at all, and failed sends do not end them. */

#include "user_rings.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* Octets of a message of five packets. */
#define LONG 5000
#define BUFFER 8192

static void new_unreliable_pair(struct end *ends)
{
	for (int i = 0; i < 2; i++)
		ends[i] = new_end(&sides[i], IBV_QPT_UC);
	join(ends);
}

/* A request of that many octets from the beginning of the memory. */
static struct rxe_send_wqe *prepare_long(struct end *end, uint32_t opcode, uint32_t len)
{
	struct rxe_send_wqe *wqe = prepare(end);

	wqe->wr.opcode = opcode;
	wqe->wr.wr.rdma.remote_addr = (uintptr_t)sides[1].memory + BUFFER;
	wqe->wr.wr.rdma.rkey = sides[1].mr->rkey;
	wqe->dma.length = len;
	wqe->dma.sge[0].length = len;
	return wqe;
}

static void post_buffer(struct end *end)
{
	post_receive(end, (uintptr_t)end->side->memory + BUFFER, BUFFER, end->side->mr->lkey, 1);
}

static void fill(int value)
{
	memset(sides[0].memory, value, LONG);
	memset(sides[1].memory + BUFFER, 0, BUFFER);
}

static bool arrived(uint32_t len)
{
	return !memcmp(sides[0].memory, sides[1].memory + BUFFER, len) &&
	       !sides[1].memory[BUFFER + len];
}

/* A message arrives, which `opcode` of the completion says. */
static void expect_message(struct end *ends, uint32_t opcode, uint32_t len, int completed)
{
	struct ibv_wc wc;

	fill(opcode + 1);
	post_buffer(&ends[1]);
	prepare_long(&ends[0], opcode, len)->wr.ex.imm_data = 0x12345678;
	expect_send(&ends[0], IBV_WC_SUCCESS, "unreliable", opcode);
	wc = completion(&ends[1], 10);
	CHECK(wc.status == IBV_WC_SUCCESS && (int)wc.opcode == completed && wc.byte_len == len);
	if (opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		CHECK(wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == 0x12345678);
	CHECK(arrived(len));
}

static enum ibv_qp_state state(struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

/* RNIC-UD-10: messages on a good network. */
void unreliable_messages(void)
{
	static const uint32_t lengths[] = { 1, 8, 1024, 1025, LONG };
	struct end ends[2];

	new_unreliable_pair(ends);
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		expect_message(ends, IBV_WR_SEND, lengths[i], IBV_WC_RECV);
		expect_message(ends, IBV_WR_SEND_WITH_IMM, lengths[i], IBV_WC_RECV);
		expect_message(ends, IBV_WR_RDMA_WRITE_WITH_IMM, lengths[i],
			       IBV_WC_RECV_RDMA_WITH_IMM);
		fill(77);
		prepare_long(&ends[0], IBV_WR_RDMA_WRITE, lengths[i]);
		expect_send(&ends[0], IBV_WC_SUCCESS, "WRITE", lengths[i]);
		for (double limit = now() + 10; !arrived(lengths[i]); usleep(100))
			CHECK(now() < limit);
	}
	free_pair(ends);
}

/* RNIC-UD-10: what the peer cannot take is lost without a word. */
void unreliable_refusals(void)
{
	struct end ends[2];

	new_unreliable_pair(ends);
	/* No receive request. */
	fill(1);
	prepare_long(&ends[0], IBV_WR_SEND, LONG);
	expect_send(&ends[0], IBV_WC_SUCCESS, "without a receive request", 0);
	/* No event tells the sender that packets have arrived. */
	usleep(200000);
	expect_message(ends, IBV_WR_SEND, LONG, IBV_WC_RECV);
	/* No such key, and a range that ends outside. */
	fill(2);
	prepare_long(&ends[0], IBV_WR_RDMA_WRITE, LONG)->wr.wr.rdma.rkey ^= UNKNOWN_KEY;
	expect_send(&ends[0], IBV_WC_SUCCESS, "with a bad key", 0);
	prepare_long(&ends[0], IBV_WR_RDMA_WRITE, LONG)->wr.wr.rdma.remote_addr =
		(uintptr_t)sides[1].memory + REGION - 4;
	expect_send(&ends[0], IBV_WC_SUCCESS, "beyond the end", 0);
	usleep(200000);
	CHECK(!sides[1].memory[BUFFER] && !sides[1].memory[REGION - 1]);
	expect_message(ends, IBV_WR_RDMA_WRITE_WITH_IMM, LONG, IBV_WC_RECV_RDMA_WITH_IMM);
	/* Longer than the buffer, which serves the next message. */
	post_receive(&ends[1], (uintptr_t)sides[1].memory + BUFFER, 100, sides[1].mr->lkey, 1);
	prepare_long(&ends[0], IBV_WR_SEND, LONG);
	expect_send(&ends[0], IBV_WC_SUCCESS, "too long", 0);
	CHECK((int)completion(&ends[1], 0.05).status == -1);
	prepare(&ends[0]);
	expect_send(&ends[0], IBV_WC_SUCCESS, "short enough", 0);
	CHECK(completion(&ends[1], 10).byte_len == 8);
	CHECK(state(&ends[0]) == IBV_QPS_RTS && state(&ends[1]) == IBV_QPS_RTS);
	free_pair(ends);
}

/*
 * RNIC-UD-11, RNIC-QPS-01: after a send failed the queue pair receives, and sends again when told
 * to.
 */
void unreliable_failures(void)
{
	static const uint32_t bad[] = { IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
					IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV, 31 };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };
	struct end ends[2];

	new_unreliable_pair(ends);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct ibv_wc wc;

		prepare(&ends[0])->wr.opcode = bad[i];
		expect_send(&ends[0], IBV_WC_LOC_QP_OP_ERR, "unreliable", bad[i]);
		prepare(&ends[0]);
		expect_send(&ends[0], IBV_WC_WR_FLUSH_ERR, "after", bad[i]);
		CHECK(state(&ends[0]) == IBV_QPS_SQE);
		post_receive(&ends[0], (uintptr_t)sides[0].memory, 8, sides[0].mr->lkey, 1);
		prepare(&ends[1]);
		expect_send(&ends[1], IBV_WC_SUCCESS, "to a queue pair in state SQE", 0);
		wc = completion(&ends[0], 10);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
		CHECK(!ibv_modify_qp(ends[0].qp, &rts, IBV_QP_STATE));
		expect_message(ends, IBV_WR_SEND, LONG, IBV_WC_RECV);
	}
	/* A receive request whose memory is not there ends both halves. */
	post_receive(&ends[1], (uintptr_t)sides[1].memory - 8, 8, sides[1].mr->lkey, 1);
	post_buffer(&ends[1]);
	prepare(&ends[0]);
	expect_send(&ends[0], IBV_WC_SUCCESS, "to bad memory", 0);
	CHECK(completion(&ends[1], 10).status == IBV_WC_LOC_PROT_ERR);
	CHECK(completion(&ends[1], 10).status == IBV_WC_WR_FLUSH_ERR);
	CHECK(state(&ends[1]) == IBV_QPS_ERR && state(&ends[0]) == IBV_QPS_RTS);
	free_pair(ends);
}

static volatile bool stop_failing;

/* Requests that fail, one after the other. */
static void *fail_on(void *argument)
{
	struct end *end = argument;
	struct ibv_wc wc;

	while (!stop_failing) {
		prepare(end)->wr.opcode = IBV_WR_RDMA_READ;
		produce(end->sends.buf);
		CHECK(!ring_doorbell(end, 0));
		while (!ibv_poll_cq(end->cq, 1, &wc))
			;
		CHECK(wc.status != IBV_WC_SUCCESS);
	}
	return NULL;
}

/* RNIC-QPS-02: a change that is legal in both states is made, also while the queue pair fails. */
void unreliable_changes(void)
{
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct end ends[2];
	pthread_t failing;
	double limit;

	new_unreliable_pair(ends);
	stop_failing = false;
	CHECK(!pthread_create(&failing, NULL, fail_on, &ends[0]));
	limit = now() + 3;
	while (now() < limit)
		CHECK(!ibv_modify_qp(ends[0].qp, &rts, IBV_QP_STATE));
	CHECK(!ibv_modify_qp(ends[0].qp, &err, IBV_QP_STATE));
	stop_failing = true;
	CHECK(!pthread_join(failing, NULL));
	CHECK(state(&ends[0]) == IBV_QPS_ERR);
	free_pair(ends);
}

/* RNIC-UD-10: the caller lets the network lose packets. */
void unreliable_losses(void)
{
	int received = 0;
	struct end ends[2];

	new_unreliable_pair(ends);
	for (int i = 0; i < 300; i++) {
		struct ibv_wc wc;

		/* One buffer at a time: it serves the next message that arrives whole. */
		if (ends[1].receives.buf->producer_index == ends[1].receives.buf->consumer_index)
			post_buffer(&ends[1]);
		fill(i);
		prepare_long(&ends[0], IBV_WR_SEND_WITH_IMM, LONG)->wr.ex.imm_data = i;
		expect_send(&ends[0], IBV_WC_SUCCESS, "lossy", i);
		/* The one before may have been late. */
		do {
			wc = completion(&ends[1], 0.02);
		} while (wc.status == IBV_WC_SUCCESS && (int)wc.imm_data < i);
		if ((int)wc.status == -1)
			continue;
		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == LONG);
		CHECK((int)wc.imm_data == i && arrived(LONG));
		received++;
	}
	if (received < 50 || received > 250)
		fail("%d of 300 messages arrived", received);
	CHECK(state(&ends[1]) == IBV_QPS_RTS);
	free_pair(ends);
}

/* Posts a message of as many packets as the memory has room for. */
static void post_largest(struct end *ends, uint32_t imm)
{
	post_buffer(&ends[1]);
	prepare_long(&ends[0], IBV_WR_RDMA_WRITE_WITH_IMM, REGION - BUFFER)->wr.ex.imm_data = imm;
	post_prepared(&ends[0]);
}

/* RNIC-REQ-16: the network takes packets slowly, and loses those that are too many. */
void unreliable_paced(void)
{
	struct end ends[2];

	new_unreliable_pair(ends);
	for (uint32_t round = 1; round < 4; round++) {
		memset(sides[0].memory, round, REGION - BUFFER);
		for (uint32_t i = 0; i < DEPTH - 1; i++)
			post_largest(ends, round << 8 | i);
		for (uint32_t i = 0; i < DEPTH - 1; i++) {
			struct ibv_wc wc = completion(&ends[1], 20);

			CHECK(wc.status == IBV_WC_SUCCESS && wc.imm_data == (round << 8 | i));
			CHECK(completion(&ends[0], 1).status == IBV_WC_SUCCESS);
		}
		CHECK(!memcmp(sides[0].memory, sides[1].memory + BUFFER, REGION - BUFFER));
	}
	free_pair(ends);
}

/* RNIC-REQ-16, RNIC-LIFE-04: the network takes no packet any longer, and the sender goes. */
void unreliable_stuck(void)
{
	struct end ends[2];
	int sent = 0;

	new_unreliable_pair(ends);
	for (uint32_t i = 0; i < DEPTH - 1; i++)
		post_largest(ends, i);
	while (completion(&ends[0], 1).status == IBV_WC_SUCCESS)
		sent++;
	CHECK(sent > 0 && sent < DEPTH - 1);
	free_pair(ends);
}
