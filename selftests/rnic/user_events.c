// SPDX-License-Identifier: GPL-2.0
/* Events of queue pairs and completion queues, and completions in the rings of a program. */

#define _GNU_SOURCE

#include "user_rings.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 100
#define MESSAGES 20000

/* The peer refuses what is prepared, and learns of that by an event or by the receive request. */
static void refuse(struct end *ends, int status, int event, int receive)
{
	expect_send(&ends[0], status, "refused", event);
	if (receive)
		expect_completion(&ends[1], receive, 0x5257, "receive request of a refused one");
	else
		CHECK(next_event_of(&ends[1], 10000) == event);
	CHECK(attributes(&ends[1]).qp_state == IBV_QPS_ERR);
	/* Events that are not fetched go with the queue pair. */
	CHECK(!has_event(&sides[1], 50));
	free_pair(ends);
}

/* RNIC-RSP-11. */
void refusals(void)
{
	uint64_t there = (uintptr_t)sides[1].memory;
	struct rxe_send_wqe *wqe;
	struct end ends[2];

	new_pair(ends);
	prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, there, sides[1].mr->rkey ^ UNKNOWN_KEY, 8);
	refuse(ends, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, 0);

	new_pair(ends);
	prepare_remote(&ends[0], IBV_WR_RDMA_READ, there + REGION, sides[1].mr->rkey, 8);
	refuse(ends, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, 0);

	new_pair(ends);
	wqe = prepare_remote(&ends[0], IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 8);
	wqe->wr.wr.atomic.remote_addr = there + 1;
	wqe->wr.wr.atomic.rkey = sides[1].mr->rkey;
	refuse(ends, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, 0);

	/* Those of messages that have taken a receive request. */
	new_pair(ends);
	post_receive(&ends[1], there, 8, sides[1].mr->lkey, 1);
	prepare_remote(&ends[0], IBV_WR_SEND, 0, 0, 9);
	refuse(ends, IBV_WC_REM_INV_REQ_ERR, 0, IBV_WC_LOC_LEN_ERR);

	new_pair(ends);
	post_receive(&ends[1], there, 8, sides[1].mr->lkey, 1);
	prepare_remote(&ends[0], IBV_WR_RDMA_WRITE_WITH_IMM, there,
		       sides[1].mr->rkey ^ UNKNOWN_KEY, 8);
	refuse(ends, IBV_WC_REM_ACCESS_ERR, 0, IBV_WC_REM_ACCESS_ERR);
	expect_service();
}

/* Waits for an event of a completion queue of side 1; whether there is one. */
static bool is_notified(struct end *end, int milliseconds)
{
	struct ibv_comp_channel *channel = sides[1].channel;
	struct pollfd wait = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (!poll(&wait, 1, milliseconds))
		return false;
	CHECK(!ibv_get_cq_event(channel, &cq, &context));
	CHECK(cq == end->cq);
	ibv_ack_cq_events(cq, 1);
	return true;
}

/* A message of side 0 with those flags arrives. */
static void receive(struct end *ends, uint32_t opcode, uint32_t len, uint32_t flags)
{
	uint64_t there = (uintptr_t)sides[1].memory;

	post_receive(&ends[1], there, len, sides[1].mr->lkey, 1);
	prepare_remote(&ends[0], opcode, there, sides[1].mr->rkey, len)->wr.send_flags |= flags;
	expect_send(&ends[0], IBV_WC_SUCCESS, "message", opcode);
	expect_completion(&ends[1], IBV_WC_SUCCESS, 0x5257, "message");
}

/* RNIC-HDR-06, RNIC-CQ-06, RNIC-ERR-08: which messages end a wait for a solicited completion. */
void solicited(void)
{
	static const uint32_t opcodes[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
					    IBV_WR_RDMA_WRITE_WITH_IMM };
	uint64_t there = (uintptr_t)sides[1].memory;
	struct end ends[2];

	sides[1].channel = ibv_create_comp_channel(sides[1].ctx);
	CHECK(sides[1].channel);
	new_pair(ends);
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		for (uint32_t len = 8; len <= 3000; len += 2992) {
			CHECK(!ibv_req_notify_cq(ends[1].cq, 1));
			receive(ends, opcodes[i], len, 0);
			CHECK(!is_notified(&ends[1], 50));
			receive(ends, opcodes[i], len, IBV_SEND_SOLICITED);
			CHECK(is_notified(&ends[1], 10000));
			/* A wish for less does not replace the other, and there is one event. */
			CHECK(!ibv_req_notify_cq(ends[1].cq, 0));
			CHECK(!ibv_req_notify_cq(ends[1].cq, 1));
			receive(ends, opcodes[i], len, 0);
			CHECK(is_notified(&ends[1], 10000));
			receive(ends, opcodes[i], len, IBV_SEND_SOLICITED);
			CHECK(!is_notified(&ends[1], 50));
		}
	}
	/* A request that is flushed counts as solicited. */
	CHECK(!ibv_req_notify_cq(ends[1].cq, 1));
	post_receive(&ends[1], there, 8, sides[1].mr->lkey, 1);
	set_state(&ends[1], IBV_QPS_ERR);
	CHECK(is_notified(&ends[1], 10000));
	expect_completion(&ends[1], IBV_WC_WR_FLUSH_ERR, 0x5257, "flushed");
	free_pair(ends);
	CHECK(!ibv_destroy_comp_channel(sides[1].channel));
}

/* Completions that were seen, each before the next message, and those that there are in all. */
static _Atomic uint32_t seen, last = UINT32_MAX;

/* Reads completions of side 1 as soon as the index says that they are there. */
static void *watch(void *argument)
{
	struct end *end = argument;
	struct rxe_queue_buf *buf = end->completions.buf;
	uint32_t mask = buf->index_mask;

	for (uint32_t round = 0; round < last; round++) {
		volatile struct ib_uverbs_wc *wc;
		uint32_t next = (round + 1) & mask;
		double limit = now() + 10;

		wc = (void *)(buf->data + ((size_t)(round & mask) << 6));
		while (__atomic_load_n(&buf->producer_index, __ATOMIC_ACQUIRE) != next)
			if (round == last)
				return NULL;
			else if (now() > limit)
				fail("no completion %u", round);
		CHECK(wc->wr_id == 0x5257 && wc->status == IBV_WC_SUCCESS && wc->byte_len == 8);
		CHECK(wc->opcode == IBV_WC_RECV && wc->qp_num == end->qp->qp_num);
		CHECK(*(volatile uint64_t *)sides[1].memory == round);
		__atomic_store_n(&buf->consumer_index, next, __ATOMIC_RELEASE);
		seen = round + 1;
	}
	return NULL;
}

/*
 * RNIC-CQ-02: the ring has the completion, and the memory the message, once the index says so; and
 * what a program writes to the index does not count.
 */
void completion_indices(void)
{
	struct rxe_queue_buf *buf;
	struct end ends[2];
	pthread_t thread;
	uint32_t mask, round;
	double limit = now() + 5;

	new_pair(ends);
	buf = ends[1].completions.buf;
	mask = buf->index_mask;
	CHECK(!pthread_create(&thread, NULL, watch, &ends[1]));
	for (round = 0; round < MESSAGES && now() < limit; round++) {
		struct ib_uverbs_wc *wc = (void *)(buf->data + ((size_t)(round & mask) << 6));
		uint32_t wrong = round * 0x9e3779b9u;

		memset(wc, 0x5a, sizeof(*wc));
		*(uint64_t *)sides[0].memory = round;
		if (round % 2 && wrong != ((round + 1) & mask))
			__atomic_store_n(&buf->producer_index, wrong, __ATOMIC_RELEASE);
		post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
		prepare(&ends[0]);
		post_prepared(&ends[0]);
		expect_completion(&ends[0], IBV_WC_SUCCESS, 0x5157, "send");
		while (seen <= round)
			sched_yield();
	}
	last = round;
	CHECK(!pthread_join(thread, NULL));
	free_pair(ends);
}

/* A receive request in the ring of a failed queue pair is flushed. */
static void expect_flush(struct end *end)
{
	post_receive(end, (uintptr_t)end->side->memory, 8, end->side->mr->lkey, 1);
	expect_completion(end, IBV_WC_WR_FLUSH_ERR, 0x5257, "flushed");
}

/* RNIC-ERR-07: without a system call at first, later with one. */
void failed_rings(void)
{
	struct end ends[2];
	double since;

	new_pair(ends);
	post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
	set_state(&ends[1], IBV_QPS_ERR);
	since = now();
	expect_completion(&ends[1], IBV_WC_WR_FLUSH_ERR, 0x5257, "at the transition");
	while (now() < since + 0.5)
		expect_flush(&ends[1]);
	prepare(&ends[1]);
	produce(ends[1].sends.buf);
	expect_completion(&ends[1], IBV_WC_WR_FLUSH_ERR, 0x5157, "send request");

	/* Long after that nothing looks at the ring, but for calls. */
	post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
	expect_completion(&ends[1], IBV_WC_WR_FLUSH_ERR, 0x5257, "flushed");
	usleep(1000000 * (since + 1.2 - now()));
	for (int round = 0; round < ROUNDS; round++) {
		post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
		if (round % 2)
			CHECK(!ring_doorbell(&ends[1], 0));
		else
			CHECK(!ibv_req_notify_cq(ends[1].cq, 0));
		expect_completion(&ends[1], IBV_WC_WR_FLUSH_ERR, 0x5257, "by a call");
	}
	free_pair(ends);
	expect_service();
}
