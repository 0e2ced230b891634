// SPDX-License-Identifier: GPL-2.0
/* Memory of programs: what can be registered, and how a device reads and writes it. */

#define _GNU_SOURCE

#include "user_rings.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
/* Messages of each length that is polled for. */
#define ROUNDS 200

/* Posts a WRITE or READ of the first side and checks how it completes. */
static void expect_remote(struct end *end, int opcode, uint64_t addr, uint32_t key, uint32_t len,
			  int status)
{
	prepare_remote(end, opcode, addr, key, len);
	expect_send(end, status, "octets", len);
}

/* RNIC-DATA-01: pinned pages stay the memory of their region, whatever is mapped. */
void unmapped_memory(void)
{
	int rw = PROT_READ | PROT_WRITE;
	uint8_t *memory = mmap(NULL, 2 * PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t addr = (uintptr_t)memory;
	struct end ends[2];
	struct ibv_mr *mr;

	CHECK(memory != MAP_FAILED);
	memset(memory, 0x77, 2 * PAGE);
	mr = ibv_reg_mr(sides[1].pd, memory, 2 * PAGE, ALL);
	CHECK(mr);
	CHECK(!munmap(memory, 2 * PAGE));
	new_pair(ends);
	expect_remote(&ends[0], IBV_WR_RDMA_READ, addr, mr->rkey, 2 * PAGE, IBV_WC_SUCCESS);
	CHECK(sides[0].memory[0] == 0x77 && sides[0].memory[2 * PAGE - 1] == 0x77);
	for (int round = 1; round < 40; round++) {
		memset(sides[0].memory, round, 2 * PAGE);
		expect_remote(&ends[0], IBV_WR_RDMA_WRITE, addr, mr->rkey, 2 * PAGE,
			      IBV_WC_SUCCESS);
		memset(sides[0].memory, 0, 2 * PAGE);
		expect_remote(&ends[0], IBV_WR_RDMA_READ, addr, mr->rkey, 2 * PAGE,
			      IBV_WC_SUCCESS);
		for (int i = 0; i < 2 * PAGE; i++)
			CHECK(sides[0].memory[i] == round);
	}
	free_pair(ends);
	CHECK(!ibv_dereg_mr(mr));
	expect_service();
}

/* RNIC-DATA-03: the octets of a packet are moved as by memmove(). */
void overlaps(void)
{
	static const int distances[] = { 1, 7, 8, 64, 500, 1023, -1, -7, -8, -64, -500, -1023 };
	struct end end = new_end(&sides[0], IBV_QPT_RC);
	uint8_t *from = sides[0].memory + PAGE, want[4 * PAGE];

	connect_end(&end, &end);
	for (int round = 0; round < 10; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(distances); i++) {
			uint8_t *to = from + distances[i];

			for (size_t at = 0; at < sizeof(want); at++)
				sides[0].memory[at] = at * 7 + at / 256 + round;
			memcpy(want, sides[0].memory, sizeof(want));
			memmove(want + PAGE + distances[i], want + PAGE, 1024);
			prepare_remote(&end, IBV_WR_RDMA_WRITE, (uintptr_t)to, sides[0].mr->rkey,
				       1024)->dma.sge[0].addr = (uintptr_t)from;
			expect_send(&end, IBV_WC_SUCCESS, "distance", distances[i]);
			CHECK(!memcmp(want, sides[0].memory, sizeof(want)));
		}
	}
	free_end(&end);
}

/* The message that a thread waits for, and the number of the last one that it has seen. */
struct polled {
	uint8_t *begin;
	size_t len;
	int seen;
	/* The word at the end was another one, or an octet before it had not arrived. */
	int torn, early;
};

/* Keeps the calling thread on a processor, if there is that. */
static void stay_on(int number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

/* Reads the last word of a message until it changes, and all other octets then. */
static void *poll_last_word(void *argument)
{
	struct polled *polled = argument;
	uint64_t *last = (uint64_t *)(polled->begin + polled->len - 8), was = 0;

	stay_on(1);
	for (int round = 1; round <= ROUNDS; round++) {
		uint64_t want = 0x0101010101010101ull * (uint8_t)round, word;

		for (int spins = 1;; spins++) {
			word = __atomic_load_n(last, __ATOMIC_ACQUIRE);
			if (word != was)
				break;
			/* A guest may have a part of a processor only. */
			if (spins % 100000 == 0)
				usleep(20);
		}
		polled->torn += word != want;
		for (size_t at = 0; at < polled->len - 8; at++)
			polled->early += ((volatile uint8_t *)polled->begin)[at] != (uint8_t)round;
		was = want;
		__atomic_store_n(&polled->seen, round, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* RNIC-DATA-02: a program that sees the last word of a WRITE sees all of it. */
void polled_octets(void)
{
	static const size_t lengths[] = { 8, 60, 1024, REGION / 2 };

	stay_on(0);
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct polled polled = { .len = lengths[i] };
		struct end ends[2];
		pthread_t thread;

		memset(sides[1].memory, 0, REGION);
		polled.begin = sides[1].memory + REGION / 2 - lengths[i];
		new_pair(ends);
		CHECK(!pthread_create(&thread, NULL, poll_last_word, &polled));
		for (int round = 1; round <= ROUNDS; round++) {
			double limit = now() + 20;

			memset(sides[0].memory, round, lengths[i]);
			expect_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)polled.begin,
				      sides[1].mr->rkey, lengths[i], IBV_WC_SUCCESS);
			while (__atomic_load_n(&polled.seen, __ATOMIC_ACQUIRE) < round) {
				CHECK(now() < limit);
				usleep(10);
			}
		}
		CHECK(!pthread_join(thread, NULL));
		if (polled.torn || polled.early)
			fail("length %zu: %d words in parts, %d octets too early", lengths[i],
			     polled.torn, polled.early);
		free_pair(ends);
	}
}

/* An errno of a registration; 0 and the region if it succeeds. */
static int try_register(struct ibv_mr **mr, void *addr, size_t len, int access)
{
	errno = 0;
	*mr = ibv_reg_mr(sides[1].pd, addr, len, access);
	return *mr ? 0 : errno;
}

/* RNIC-MR-10. */
void ranges(void)
{
	void *readable = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *base = sides[1].memory;
	struct ibv_mr *mr;

	CHECK(readable != MAP_FAILED);
	/* No octets: no key for any of them. */
	for (int first = 0; first < 2; first++) {
		uint64_t addr = (uintptr_t)base + first;
		struct end ends[2];

		CHECK(!try_register(&mr, base + first, 0, ALL));
		new_pair(ends);
		expect_remote(&ends[0], IBV_WR_RDMA_WRITE, addr, mr->rkey, 0, IBV_WC_SUCCESS);
		expect_remote(&ends[0], IBV_WR_RDMA_WRITE, addr, mr->rkey, 1,
			      IBV_WC_REM_ACCESS_ERR);
		free_pair(ends);
		CHECK(!ibv_dereg_mr(mr));
	}
	/* Over the end of all addresses, and where nothing is mapped. */
	CHECK(try_register(&mr, (void *)~0xfffull, 2 * PAGE, ALL) == EINVAL);
	CHECK(try_register(&mr, base, ~0ull, ALL) == EINVAL);
	CHECK(try_register(&mr, base, ~0ull - (uintptr_t)base + 1, ALL));
	CHECK(try_register(&mr, (void *)PAGE, PAGE, ALL) == EFAULT);
	/* Memory that is only read need not be writable. */
	CHECK(try_register(&mr, readable, PAGE, IBV_ACCESS_LOCAL_WRITE) == EFAULT);
	CHECK(!try_register(&mr, readable, PAGE, IBV_ACCESS_REMOTE_READ));
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!munmap(readable, PAGE));
	expect_service();
}

/* RNIC-MR-01, RNIC-MR-09. */
void rights(void)
{
	static const struct {
		int access, error;
	} list[] = {
		{ IBV_ACCESS_REMOTE_WRITE, EINVAL },
		{ IBV_ACCESS_REMOTE_ATOMIC, EINVAL },
		{ IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, EINVAL },
		{ IBV_ACCESS_ON_DEMAND, EOPNOTSUPP },
		{ ALL | IBV_ACCESS_ON_DEMAND, EOPNOTSUPP },
		{ ALL | 1 << 12, EINVAL },
		{ ALL | 1 << 19, EINVAL },
		{ 0, 0 },
		{ IBV_ACCESS_REMOTE_READ, 0 },
		{ ALL | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND, 0 },
		/* Those that may be ignored. */
		{ ALL | IBV_ACCESS_RELAXED_ORDERING, 0 },
		{ ALL | 1 << 29, 0 },
	};
	struct ibv_alloc_dm_attr device_memory = { .length = PAGE };
	struct ibv_mr *mr;

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		int error = try_register(&mr, sides[1].memory, PAGE, list[i].access);

		if (error != list[i].error)
			fail("access %#x: error %d, want %d", list[i].access, error,
			     list[i].error);
		if (mr)
			CHECK(!ibv_dereg_mr(mr));
	}
	errno = 0;
	CHECK(!ibv_reg_dmabuf_mr(sides[1].pd, 0, PAGE, 0, sides[1].ctx->cmd_fd, ALL));
	CHECK(errno == EOPNOTSUPP);
	errno = 0;
	CHECK(!ibv_alloc_dm(sides[1].ctx, &device_memory) && errno == EOPNOTSUPP);
}

/* Fails if memory has an address of the kernel; a word of ones is none. */
static void expect_no_address(const void *memory, size_t len, const char *what)
{
	for (size_t at = 0; at + 8 <= len; at++) {
		uint64_t word;

		memcpy(&word, (const uint8_t *)memory + at, sizeof(word));
		/* The high half of all addresses, as the processors have it. */
		if (at % 4 == 0 && word >> 47 == 0x1ffff && word != ~0ull)
			fail("%s: %#llx at %zu", what, (unsigned long long)word, at);
	}
}

/* RNIC-SEC-07: rings are zeros at first, and get no addresses of the kernel. */
void kernel_addresses(void)
{
	struct end ends[2];

	for (int i = 0; i < 2; i++) {
		struct ring *list[3];

		ends[i] = new_end(&sides[i], IBV_QPT_RC);
		list[0] = &ends[i].sends;
		list[1] = &ends[i].receives;
		list[2] = &ends[i].completions;
		for (int j = 0; j < 3; j++) {
			for (size_t at = sizeof(*list[j]->buf); at < list[j]->len; at++)
				CHECK(!((uint8_t *)list[j]->buf)[at]);
		}
	}
	join(ends);
	for (int round = 0; round < 40; round++) {
		post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
		prepare(&ends[0]);
		expect_send(&ends[0], IBV_WC_SUCCESS, "message", round);
		CHECK(completion(&ends[1], 10).status == IBV_WC_SUCCESS);
		expect_remote(&ends[0], IBV_WR_RDMA_READ, (uintptr_t)sides[1].memory,
			      sides[1].mr->rkey, 8, IBV_WC_SUCCESS);
	}
	/* Those of errors, too. */
	post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
	expect_remote(&ends[0], IBV_WR_RDMA_WRITE, 0, 0, 8, IBV_WC_REM_ACCESS_ERR);
	CHECK(completion(&ends[1], 10).status == IBV_WC_WR_FLUSH_ERR);
	for (int i = 0; i < 2; i++) {
		expect_no_address(ends[i].sends.buf, ends[i].sends.len, "sends");
		expect_no_address(ends[i].receives.buf, ends[i].receives.len, "receives");
		expect_no_address(ends[i].completions.buf, ends[i].completions.len,
				  "completions");
	}
	free_pair(ends);
}
