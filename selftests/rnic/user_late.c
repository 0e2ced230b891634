// SPDX-License-Identifier: GPL-2.0
/* Octets and completions that a device with a late profile shows later than it could. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "user_rings.h"

#define PAGE 4096

/* Two pages that are the same memory: what was placed last is what stays. */
static uint8_t *new_mirror(void)
{
	int fd = memfd_create("mirror", 0), rw = PROT_READ | PROT_WRITE;
	uint8_t *base = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(fd >= 0 && !ftruncate(fd, PAGE) && base != MAP_FAILED);
	for (int i = 0; i < 2; i++)
		CHECK(mmap(base + i * PAGE, PAGE, rw, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
	CHECK(!close(fd));
	return base;
}

/* The first octets of a message are placed last, and all before its completion. */
void late_octets(void)
{
	uint8_t *mirror = new_mirror();
	struct ibv_mr *mr = ibv_reg_mr(sides[1].pd, mirror, 2 * PAGE,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct rxe_send_wqe *wqe;
	struct end ends[2];

	CHECK(mr);
	new_pair(ends);
	for (int round = 1; round < 40; round++) {
		memset(sides[0].memory, round, PAGE);
		memset(sides[0].memory + PAGE, 128 + round, PAGE);
		prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)mirror, mr->rkey, 2 * PAGE);
		expect_send(&ends[0], IBV_WC_SUCCESS, "write", round);
		CHECK(!memcmp(mirror, sides[0].memory, PAGE));
	}
	/* Messages stay in their order. */
	for (int round = 1; round < 40; round++) {
		memset(sides[0].memory, round, PAGE);
		prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)mirror, mr->rkey, PAGE);
		produce(ends[0].sends.buf);
		memset(sides[0].memory + PAGE, 128 + round, PAGE);
		wqe = prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)mirror, mr->rkey,
				     PAGE);
		wqe->dma.sge[0].addr += PAGE;
		produce(ends[0].sends.buf);
		CHECK(!ring_doorbell(&ends[0], 0));
		for (int i = 0; i < 2; i++)
			CHECK(completion(&ends[0], 10).status == IBV_WC_SUCCESS);
		CHECK(!memcmp(mirror, sides[0].memory + PAGE, PAGE));
	}
	free_pair(ends);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!munmap(mirror, 2 * PAGE));
	expect_service();
}

/* The octets come before their completion, and queues overtake each other. */
void late_completions(void)
{
	volatile uint8_t *target = sides[1].memory;
	int waited = 0, overtaken[2] = {};
	struct end pairs[2][2];
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++)
		new_pair(pairs[i]);
	for (int round = 1; round < 200; round++) {
		int done[2] = {};

		memset(sides[0].memory, round, 8);
		for (int i = 0; i < 2; i++) {
			prepare_remote(&pairs[i][0], IBV_WR_RDMA_WRITE,
				       (uintptr_t)target + 64 * i, sides[1].mr->rkey, 8);
			produce(pairs[i][0].sends.buf);
			CHECK(!ring_doorbell(&pairs[i][0], 0));
		}
		while (!done[0] || !done[1]) {
			for (int i = 0; i < 2; i++) {
				if (done[i])
					continue;
				/* Read first, so that it cannot have come after the completion. */
				bool arrived = target[64 * i + 7] == (uint8_t)round;

				if (!ibv_poll_cq(pairs[i][0].cq, 1, &wc)) {
					waited += arrived;
					continue;
				}
				CHECK(wc.status == IBV_WC_SUCCESS);
				CHECK(target[64 * i + 7] == (uint8_t)round);
				overtaken[i] += !done[!i];
				done[i] = 1;
			}
		}
	}
	CHECK(waited > 0 && overtaken[0] > 0 && overtaken[1] > 0);
	for (int i = 0; i < 2; i++)
		free_pair(pairs[i]);
}
