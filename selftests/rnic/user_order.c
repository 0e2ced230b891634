// SPDX-License-Identifier: GPL-2.0
/* Messages of several packets, READs and atomic operations: the order of their execution. */

#include "user_rings.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Octets of a message of three packets. */
#define LONG 3000
#define HALF (REGION / 2)
#define ADDS 2000

/* Waits for the first packet of a message that lacks a receive request. */
static void await_octet(volatile uint8_t *octet, uint8_t value)
{
	double limit = now() + 10;

	while (*octet != value)
		CHECK(now() < limit);
}

/* RNIC-RSP-20. */
void immediates(void)
{
	uint8_t *there = sides[1].memory, *buffer = there + HALF;
	struct end ends[2];

	new_pair(ends);
	for (int round = 1; round < 50; round++) {
		struct ibv_wc wc;

		memset(sides[0].memory, round, LONG);
		memset(there, 0, LONG);
		memset(buffer, 0x77, LONG);
		prepare_remote(&ends[0], IBV_WR_RDMA_WRITE_WITH_IMM, (uintptr_t)there,
			       sides[1].mr->rkey, LONG);
		send_slot(&ends[0])->wr.ex.imm_data = round << 16;
		post_prepared(&ends[0]);
		/* Only the last packet needs a receive request. */
		await_octet(&there[2047], round);
		CHECK(!there[2048] && (int)completion(&ends[0], 0).status == -1);
		post_receive(&ends[1], (uintptr_t)buffer, 16, sides[1].mr->lkey, 1);
		expect_completion(&ends[0], IBV_WC_SUCCESS, 0x5157, "immediate");
		wc = expect_completion(&ends[1], IBV_WC_SUCCESS, 0x5257, "immediate");
		CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.byte_len == LONG);
		CHECK(wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == (uint32_t)round << 16);
		CHECK(!memcmp(sides[0].memory, there, LONG) && !there[LONG]);
		for (int i = 0; i < LONG; i++)
			CHECK(buffer[i] == 0x77);
	}
	free_pair(ends);
}

/* RNIC-RSP-21: the key of a message goes away between two packets. */
void lost_keys(void)
{
	uint8_t *there = sides[1].memory;

	for (int round = 1; round < 20; round++) {
		struct ibv_mr *mr = ibv_reg_mr(sides[1].pd, there, LONG,
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		struct end ends[2];

		CHECK(mr);
		new_pair(ends);
		memset(sides[0].memory, round, LONG);
		memset(there, 0, LONG);
		prepare_remote(&ends[0], IBV_WR_RDMA_WRITE_WITH_IMM, (uintptr_t)there, mr->rkey,
			       LONG);
		post_prepared(&ends[0]);
		await_octet(&there[2047], round);
		CHECK(!ibv_dereg_mr(mr));
		post_receive(&ends[1], (uintptr_t)there + HALF, 8, sides[1].mr->lkey, 1);
		expect_completion(&ends[0], IBV_WC_REM_ACCESS_ERR, 0x5157, "lost key");
		expect_completion(&ends[1], IBV_WC_REM_ACCESS_ERR, 0x5257, "lost key");
		CHECK(!there[2048] && there[0] == round);
		free_pair(ends);
	}
	expect_service();
}

/* Eight READs, of which `most` may be under way, to a queue pair that takes three. */
static bool are_executed(int most)
{
	bool executed = true;
	struct ibv_qp_attr attr;
	struct end ends[2];

	for (int i = 0; i < 2; i++)
		ends[i] = new_end(&sides[i], IBV_QPT_RC);
	attr = way_to(&ends[0], &ends[1]);
	attr.max_rd_atomic = most;
	begin_to_receive(&ends[0], attr);
	begin_to_send(&ends[0], attr);
	attr = way_to(&ends[1], &ends[0]);
	attr.max_dest_rd_atomic = 3;
	begin_to_receive(&ends[1], attr);
	begin_to_send(&ends[1], attr);
	for (int i = 0; i < 8; i++) {
		prepare_remote(&ends[0], IBV_WR_RDMA_READ, (uintptr_t)sides[1].memory,
			       sides[1].mr->rkey, HALF);
		produce(ends[0].sends.buf);
	}
	CHECK(!ring_doorbell(&ends[0], 0));
	for (int i = 0; i < 8; i++) {
		struct ibv_wc wc = completion(&ends[0], 10);

		if (wc.status == IBV_WC_SUCCESS)
			continue;
		CHECK(wc.status == (executed ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_WR_FLUSH_ERR));
		executed = false;
	}
	if (!executed)
		CHECK(next_event_of(&ends[1], 10000) == IBV_EVENT_QP_REQ_ERR);
	free_pair(ends);
	return executed;
}

/* RNIC-RDA-01: a limit that is no power of two is not rounded. */
void many_reads(void)
{
	double limit = now() + 20;

	for (int round = 0; round < 50; round++)
		CHECK(are_executed(3));
	/* The fourth one may come after the first one's response was sent. */
	while (are_executed(4))
		CHECK(now() < limit);
	expect_service();
}

/* RNIC-RDA-04: a READ finds what the WRITE and the SEND before it have left. */
void reads_behind_writes(void)
{
	uint8_t *here = sides[0].memory, *there = sides[1].memory;
	struct end ends[2];

	new_pair(ends);
	for (int round = 1; round < 200; round++) {
		bool sends = round % 2;

		memset(here, round, HALF);
		if (sends)
			post_receive(&ends[1], (uintptr_t)there, HALF, sides[1].mr->lkey, 1);
		prepare_remote(&ends[0], sends ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, (uintptr_t)there,
			       sides[1].mr->rkey, HALF);
		produce(ends[0].sends.buf);
		prepare_remote(&ends[0], IBV_WR_RDMA_READ, (uintptr_t)there, sides[1].mr->rkey,
			       HALF);
		send_slot(&ends[0])->dma.sge[0].addr += HALF;
		post_prepared(&ends[0]);
		for (int i = 0; i < 2; i++)
			expect_completion(&ends[0], IBV_WC_SUCCESS, 0x5157, "READ behind another");
		if (sends)
			expect_completion(&ends[1], IBV_WC_SUCCESS, 0x5257, "SEND");
		CHECK(!memcmp(here, here + HALF, HALF));
	}
	free_pair(ends);
}

/* An atomic operation on a word; its former value. */
static uint64_t change_word(struct end *end, uint32_t opcode, uint64_t addr, uint32_t key,
			    uint64_t add, uint64_t swap)
{
	struct rxe_send_wqe *wqe = prepare_remote(end, opcode, 0, 0, 8);

	wqe->wr.wr.atomic.remote_addr = addr;
	wqe->wr.wr.atomic.rkey = key;
	wqe->wr.wr.atomic.compare_add = add;
	wqe->wr.wr.atomic.swap = swap;
	expect_send(end, IBV_WC_SUCCESS, "atomic operation", opcode);
	return *(uint64_t *)end->side->memory;
}

static _Atomic uint64_t *word;

/* A processor that changes the word meanwhile. */
static void *add_to_word(void *unused)
{
	(void)unused;
	for (int i = 0; i < 100 * ADDS; i++)
		atomic_fetch_add(word, 1ull << 32);
	return NULL;
}

/* RNIC-RDA-07: values in the order of the host, and exclusive against processors and devices. */
void atomics(void)
{
	uint64_t other = 0xfedcba9876543210ull, add = 0x0102030405060708ull;
	struct ibv_mr *mrs[2];
	struct end ends[2];
	pthread_t thread;

	for (int i = 0; i < 2; i++) {
		struct ibv_device_attr attr;

		CHECK(!ibv_query_device(sides[i].ctx, &attr));
		CHECK(attr.atomic_cap == IBV_ATOMIC_GLOB);
	}
	word = aligned_alloc(4096, 4096);
	CHECK(word);
	*word = other;
	/* One word, in regions of two devices. */
	for (int i = 0; i < 2; i++) {
		mrs[i] = ibv_reg_mr(sides[i].pd, (void *)word, 4096,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
		CHECK(mrs[i]);
	}
	new_pair(ends);
	for (int i = 0; i < 2; i++) {
		uint32_t key = mrs[1 - i]->rkey;
		uint64_t at = (uintptr_t)word, was;

		*word = other;
		was = change_word(&ends[i], IBV_WR_ATOMIC_FETCH_AND_ADD, at, key, add, 0);
		CHECK(was == other && *word == other + add);
		was = change_word(&ends[i], IBV_WR_ATOMIC_CMP_AND_SWP, at, key, other, 1);
		CHECK(was == other + add && *word == other + add);
		was = change_word(&ends[i], IBV_WR_ATOMIC_CMP_AND_SWP, at, key, other + add, 5);
		CHECK(was == other + add && *word == 5);
		was = change_word(&ends[i], IBV_WR_ATOMIC_FETCH_AND_ADD, at, key, -6ull, 0);
		CHECK(was == 5 && *word == -1ull);
	}
	*word = 0;
	CHECK(!pthread_create(&thread, NULL, add_to_word, NULL));
	for (int i = 0; i < ADDS; i++) {
		for (int j = 0; j < 2; j++) {
			prepare_remote(&ends[j], IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 8);
			send_slot(&ends[j])->wr.wr.atomic.remote_addr = (uintptr_t)word;
			send_slot(&ends[j])->wr.wr.atomic.rkey = mrs[1 - j]->rkey;
			send_slot(&ends[j])->wr.wr.atomic.compare_add = 1;
			post_prepared(&ends[j]);
		}
		for (int j = 0; j < 2; j++)
			expect_completion(&ends[j], IBV_WC_SUCCESS, 0x5157, "addition");
	}
	CHECK(!pthread_join(thread, NULL));
	if (*word != ((100ull * ADDS) << 32) + 2 * ADDS)
		fail("the sum is %#lx", (unsigned long)*word);
	free_pair(ends);
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_dereg_mr(mrs[i]));
	free((void *)word);
}

/* RNIC-TMO-06: queue pairs go away while their timer is armed, or expires. */
void armed_timers(void)
{
	for (int round = 0; round < 400; round++) {
		struct end ends[2];

		new_pair(ends);
		/* Without a receive request it is repeated each ten microseconds. */
		prepare(&ends[0]);
		post_prepared(&ends[0]);
		usleep(round % 100);
		free_end(&ends[0]);
		free_end(&ends[1]);
	}
	expect_service();
}
