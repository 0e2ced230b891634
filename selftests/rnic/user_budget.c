// SPDX-License-Identifier: GPL-2.0
/* The packets of a run of a queue pair: long messages, and queue pairs beside each other. */

#include "user_rings.h"

/* Messages without an end go on until the others have done that. */
#define ROUNDS 200
#define READS 20
/* Bursts of short WRITEs. */
#define SHORT_ROUNDS 20
#define LOST_ROUNDS 12
/* Each fails by chance in one of some hundred times on a busy machine. */
#define TRIES 5

/* RNIC-RUN-04: DEPTH messages of 256 packets by one doorbell. The last one completes visibly. */
void long_writes(void)
{
	struct end ends[2];

	path_mtu = IBV_MTU_256;
	for (int i = 0; i < 2; i++)
		ends[i] = new_quiet_end(&sides[i]);
	join(ends);
	for (int i = 0; i < DEPTH; i++) {
		prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory,
			       sides[1].mr->rkey, REGION);
		if (i < DEPTH - 1)
			send_slot(&ends[0])->wr.send_flags = 0;
		produce(ends[0].sends.buf);
	}
	CHECK(!ring_doorbell(&ends[0], 0));
	expect_completion(&ends[0], IBV_WC_SUCCESS, 0x5157, "long WRITE");
	free_pair(ends);
}

/* WRITEs of one packet each, DEPTH with one doorbell. */
void short_writes(void)
{
	struct end ends[2];

	new_pair(ends);
	for (int round = 0; round < SHORT_ROUNDS; round++) {
		for (int i = 0; i < DEPTH; i++) {
			prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory,
				       sides[1].mr->rkey, 8);
			produce(ends[0].sends.buf);
		}
		CHECK(!ring_doorbell(&ends[0], 0));
		for (int i = 0; i < DEPTH; i++)
			expect_completion(&ends[0], IBV_WC_SUCCESS, 0x5157, "short WRITE");
	}
	printf("%d\n", SHORT_ROUNDS * DEPTH);
	free_pair(ends);
}

/* RNIC-RUN-04, RNIC-RDA-12: responses of 256 packets. */
void long_reads(void)
{
	struct end ends[2];

	path_mtu = IBV_MTU_256;
	new_pair(ends);
	for (int i = 0; i < DEPTH; i++) {
		prepare_remote(&ends[0], IBV_WR_RDMA_READ, (uintptr_t)sides[1].memory,
			       sides[1].mr->rkey, REGION);
		expect_send(&ends[0], IBV_WC_SUCCESS, "long READ", i);
	}
	free_pair(ends);
}

/* The next completion that is there, which must be a success. */
static bool has_completed(struct end *end)
{
	struct ibv_wc wc;
	int count = ibv_poll_cq(end->cq, 1, &wc);

	CHECK(count >= 0);
	if (count && wc.status != IBV_WC_SUCCESS)
		fail("status %d of %#lx", wc.status, (unsigned long)wc.wr_id);
	return count > 0;
}

/* Fills a send queue of side 0 with WRITEs. Returns how many are under way then. */
static int refill(struct end *end, int under_way)
{
	if (under_way >= DEPTH)
		return under_way;
	for (; under_way < DEPTH; under_way++) {
		prepare_remote(end, IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory,
			       sides[1].mr->rkey, REGION);
		produce(end->sends.buf);
	}
	CHECK(!ring_doorbell(end, 0));
	return under_way;
}

/*
 * Completions of side 0 beside DEPTH - 1 READs of its memory, while it has WRITEs to send without
 * an end. The READs wait for a receive request, which side 0 has when it begins.
 */
static int writes_beside_reads(void)
{
	/* Side 0 has a completion for its receive request as well. */
	int reads = 0, writes = 0, under_way = 1;
	struct end ends[2];
	double limit;

	new_pair(ends);
	prepare(&ends[1]);
	produce(ends[1].sends.buf);
	for (int i = 1; i < DEPTH; i++) {
		prepare_remote(&ends[1], IBV_WR_RDMA_READ, (uintptr_t)sides[0].memory,
			       sides[0].mr->rkey, REGION);
		produce(ends[1].sends.buf);
	}
	CHECK(!ring_doorbell(&ends[1], 0));
	post_receive(&ends[0], (uintptr_t)sides[0].memory, 8, sides[0].mr->lkey, 1);
	limit = now() + 60;
	while (reads < DEPTH) {
		if (now() > limit)
			fail("%d WRITEs, %d READs", writes, reads);
		under_way = refill(&ends[0], under_way);
		for (; has_completed(&ends[0]); under_way--)
			writes++;
		/* The message before the READs completes as well. */
		reads += has_completed(&ends[1]);
	}
	free_pair(ends);
	return writes;
}

/*
 * RNIC-RDA-12: READs and WRITEs share the runs of a queue pair. A try proves nothing if this
 * program sleeps while the READs are answered, before it has posted a WRITE.
 */
void shared_runs(void)
{
	int writes = 0;

	path_mtu = IBV_MTU_256;
	for (int i = 0; i < TRIES && writes < 2; i++)
		writes = writes_beside_reads();
	if (writes < 2)
		fail("%d completions beside the READs", writes);
}

/* RNIC-DIR-05, RNIC-DIR-11: a queue pair that goes while its peer sends WRITEs to it. */
void lost_peers(void)
{
	for (int round = 0; round < LOST_ROUNDS; round++) {
		int under_way, status = IBV_WC_SUCCESS;
		struct ibv_qp_attr attr;
		struct end ends[2];

		attr = new_hasty_pair(ends, 14, 2);
		begin_to_receive(&ends[0], attr);
		begin_to_send(&ends[0], attr);
		under_way = refill(&ends[0], 0);
		/* Not always in the same moment. */
		for (int i = 0; i < round; i++) {
			CHECK(completion(&ends[0], 10).status == IBV_WC_SUCCESS);
			under_way = refill(&ends[0], under_way - 1);
		}
		free_end(&ends[1]);
		for (; under_way; under_way--) {
			int found = completion(&ends[0], 10).status;

			if (found == IBV_WC_SUCCESS)
				CHECK(status == IBV_WC_SUCCESS);
			else
				CHECK(found == (status == IBV_WC_SUCCESS ? IBV_WC_RETRY_EXC_ERR :
									   IBV_WC_WR_FLUSH_ERR));
			status = found;
		}
		if (status == IBV_WC_SUCCESS) {
			refill(&ends[0], DEPTH - 1);
			expect_completion(&ends[0], IBV_WC_RETRY_EXC_ERR, 0x5157, "lost peer");
		}
		free_end(&ends[0]);
	}
	expect_service();
}

static void send_ping(struct end *from, struct end *to)
{
	post_receive(to, (uintptr_t)to->side->memory, 8, to->side->mr->lkey, 1);
	prepare(from);
	post_prepared(from);
}

/*
 * RNIC-RUN-04, RNIC-RDA-12, RNIC-DIR-13: a queue pair that has WRITEs to send without an end
 * still answers READs of its peer, and another pair exchanges its messages meanwhile.
 */
void fair_pairs(void)
{
	int writes = 0, under_way = 0, reads = 0, rounds = 0, pings = 0;
	struct end busy[2], quick[2];
	double limit = now() + 60;

	new_pair(busy);
	new_pair(quick);
	prepare_remote(&busy[1], IBV_WR_RDMA_READ, (uintptr_t)sides[0].memory, sides[0].mr->rkey,
		       REGION);
	post_prepared(&busy[1]);
	send_ping(&quick[0], &quick[1]);
	while (reads < READS || rounds < ROUNDS) {
		if (now() > limit)
			fail("%d WRITEs, %d READs, %d rounds", writes, reads, rounds);
		while (has_completed(&busy[0])) {
			under_way--;
			writes++;
		}
		under_way = refill(&busy[0], under_way);
		if (has_completed(&busy[1])) {
			reads++;
			prepare_remote(&busy[1], IBV_WR_RDMA_READ, (uintptr_t)sides[0].memory,
				       sides[0].mr->rkey, REGION);
			post_prepared(&busy[1]);
		}
		/* A message has arrived when both of its requests are complete. */
		pings += has_completed(&quick[0]) + has_completed(&quick[1]);
		if (pings == 2) {
			pings = 0;
			rounds++;
			send_ping(&quick[rounds % 2], &quick[(rounds + 1) % 2]);
		}
	}
	CHECK(writes > 0);
	free_pair(busy);
	free_pair(quick);
}
