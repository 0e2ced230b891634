// SPDX-License-Identifier: GPL-2.0
/* What goes on without an end: requests whose receive request comes late, failed queue pairs. */

#define _GNU_SOURCE

#include "user_rings.h"

#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAIRS 8
#define CALLS 200000
#define DOORBELLS 1000
#define SOON_ROUNDS 6
/* Seconds, of code 0. */
#define LONGEST_WAIT 0.65536

/* RNIC-FLOW-04: repetitions without an end, on the processor of a program, leave it most of it. */
void late_receives(void)
{
	struct end pairs[PAIRS][2];
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	CHECK(!sched_setaffinity(0, sizeof(set), &set));
	for (int i = 0; i < PAIRS; i++)
		new_pair(pairs[i]);
	for (int i = 0; i < PAIRS; i++) {
		prepare(&pairs[i][0]);
		produce(pairs[i][0].sends.buf);
		CHECK(!ring_doorbell(&pairs[i][0], 0));
	}
	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	for (int i = 0; i < PAIRS; i++) {
		struct ibv_wc wc;

		CHECK((int)completion(&pairs[i][0], 0).status == -1);
		post_receive(&pairs[i][1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
		wc = completion(&pairs[i][0], 10);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 0x5157);
		wc = completion(&pairs[i][1], 10);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 0x5257);
		free_pair(pairs[i]);
	}
}

/*
 * RNIC-DIR-10: messages to a receiver without a request, which asks for the longest wait. Prints
 * how many of them arrived sooner.
 */
void soon_asked(void)
{
	struct ibv_qp_attr attr;
	struct end ends[2];
	int soon = 0;

	for (int i = 0; i < 2; i++)
		ends[i] = new_end(&sides[i], IBV_QPT_RC);
	attr = way_to(&ends[1], &ends[0]);
	attr.min_rnr_timer = 0;
	begin_to_receive(&ends[1], attr);
	begin_to_send(&ends[1], attr);
	connect_end(&ends[0], &ends[1]);
	for (int round = 0; round < SOON_ROUNDS; round++) {
		double begun = now();

		prepare(&ends[0]);
		post_prepared(&ends[0]);
		CHECK((int)completion(&ends[0], 0.01).status == -1);
		post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
		expect_completion(&ends[0], IBV_WC_SUCCESS, 0x5157, "late receive");
		expect_completion(&ends[1], IBV_WC_SUCCESS, 0x5257, "late receive");
		soon += now() - begun < LONGEST_WAIT;
	}
	printf("%d\n", soon);
	free_pair(ends);
}

/* RNIC-ERR-09: each doorbell of a failed queue pair gives completions, but no other event. */
void full_completions(void)
{
	struct ibv_async_event found;
	int event, broken = 0, failed = 0;
	struct end ends[2];

	new_pair(ends);
	prepare(&ends[0])->wr.opcode = 0xff;
	expect_send(&ends[0], IBV_WC_LOC_QP_OP_ERR, "opcode", 0xff);
	for (int i = 0; i < DOORBELLS; i++) {
		prepare(&ends[0]);
		produce(ends[0].sends.buf);
		CHECK(!ring_doorbell(&ends[0], 0));
	}
	event = next_event(&sides[0], &found, 10000);
	for (; event >= 0; event = next_event(&sides[0], &found, 0)) {
		broken += event == IBV_EVENT_CQ_ERR;
		failed += event == IBV_EVENT_QP_FATAL;
	}
	if (broken != 1 || failed > 1)
		fail("%d events of the completion queue, %d of the queue pair", broken, failed);
	free_pair(ends);
	expect_service();
}
