// SPDX-License-Identifier: GPL-2.0
/* FLUSH and ATOMIC WRITE in rings that a program fills by hand. */
#include <errno.h>
#include <string.h>

#include "user_rings.h"

/* In the rings; libibverbs numbers them anew. */
#define OPCODE_FLUSH 14
#define OPCODE_ATOMIC_WRITE 15

/* What of the peer's memory, and in which way. */
struct flush {
	uint64_t addr;
	uint32_t len, key;
	uint8_t placement, level;
};

/* Posts a FLUSH on a new pair and checks how it completes. */
static void flush(const struct flush *what, int status, const char *name)
{
	struct rxe_send_wqe *wqe;
	struct end ends[2];

	new_pair(ends);
	wqe = prepare(&ends[0]);
	wqe->wr.opcode = OPCODE_FLUSH;
	wqe->wr.wr.flush.remote_addr = what->addr;
	wqe->wr.wr.flush.length = what->len;
	wqe->wr.wr.flush.rkey = what->key;
	wqe->wr.wr.flush.type = what->placement;
	wqe->wr.wr.flush.level = what->level;
	expect_send(&ends[0], status, name, what->placement << 8 | what->level);
	free_pair(ends);
}

/* RNIC-RDA-10. */
void flushes(void)
{
	uint64_t base = (uintptr_t)sides[1].memory;
	struct ibv_mr *mr = ibv_reg_mr(sides[1].pd, sides[1].memory, REGION,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_FLUSH_GLOBAL);
	struct ibv_mr *gone = ibv_reg_mr(sides[1].pd, sides[1].memory, REGION,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_FLUSH_GLOBAL);
	struct flush range, bad;

	CHECK(mr && gone);
	/* A region that is persistent is not offered. */
	CHECK(!ibv_reg_mr(sides[1].pd, sides[1].memory, REGION,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_FLUSH_PERSISTENT));
	range = (struct flush){ base + 8, 64, mr->rkey, 1, 0 };
	flush(&range, IBV_WC_SUCCESS, "range");
	bad = range;
	bad.len = 0;
	flush(&bad, IBV_WC_SUCCESS, "nothing");
	bad = (struct flush){ ~0ull, ~0u, mr->rkey, 1, 1 };
	flush(&bad, IBV_WC_SUCCESS, "region");

	bad = range;
	bad.addr = base + REGION - 63;
	flush(&bad, IBV_WC_REM_ACCESS_ERR, "range over the end");
	for (bad = range; bad.level < 2; bad.level++) {
		bad.key = gone->rkey ^ UNKNOWN_KEY;
		flush(&bad, IBV_WC_REM_ACCESS_ERR, "unknown key");
		bad.key = sides[1].mr->rkey;
		flush(&bad, IBV_WC_REM_ACCESS_ERR, "region without the right");
		bad.key = mr->rkey;
		for (bad.placement = 2; bad.placement < 4; bad.placement++)
			flush(&bad, IBV_WC_REM_ACCESS_ERR, "persistence");
		bad.placement = 1;
	}
	bad = range;
	CHECK(!ibv_dereg_mr(gone));
	bad.key = gone->rkey;
	flush(&bad, IBV_WC_REM_ACCESS_ERR, "key of the dead");

	bad = range;
	bad.placement = 0;
	flush(&bad, IBV_WC_REM_INV_REQ_ERR, "no placement");
	bad.placement = 4;
	flush(&bad, IBV_WC_REM_INV_REQ_ERR, "unknown placement");
	bad = range;
	bad.level = 2;
	flush(&bad, IBV_WC_REM_INV_REQ_ERR, "unknown level");
	/* What the header has no room for is never sent. */
	bad.level = 4;
	flush(&bad, IBV_WC_LOC_QP_OP_ERR, "level of more bits");
	bad = range;
	bad.placement = 0x11;
	flush(&bad, IBV_WC_LOC_QP_OP_ERR, "placement of more bits");
	CHECK(!ibv_dereg_mr(mr));
	expect_service();
}

/* Posts an ATOMIC WRITE on a new pair and checks how it completes. */
static void store(uint64_t addr, uint32_t key, uint32_t len, uint64_t word, int status,
		  const char *name)
{
	struct rxe_send_wqe *wqe;
	struct end ends[2];

	new_pair(ends);
	wqe = prepare(&ends[0]);
	wqe->wr.opcode = OPCODE_ATOMIC_WRITE;
	wqe->wr.wr.rdma.remote_addr = addr;
	wqe->wr.wr.rdma.rkey = key;
	wqe->dma.length = len;
	memcpy(wqe->dma.atomic_wr, &word, sizeof(word));
	expect_send(&ends[0], status, name, len);
	free_pair(ends);
}

/* RNIC-RDA-09. */
void words(void)
{
	static const uint32_t lengths[] = { 0, 1, 4, 7, 9, 16, 1u << 31, ~0u };
	const uint64_t word = 0x0123456789abcdefull;
	uint64_t *memory = (uint64_t *)sides[1].memory;
	uint64_t base = (uintptr_t)memory;
	uint32_t key = sides[1].mr->rkey;

	memset(memory, 0x55, 32);
	store(base + 8, key, 8, word, IBV_WC_SUCCESS, "word");
	CHECK(memory[0] == 0x5555555555555555ull && memory[2] == memory[0]);
	CHECK(memory[1] == word);
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
		store(base, key, lengths[i], word, IBV_WC_LOC_QP_OP_ERR, "length");
	for (unsigned int i = 1; i < 8; i++)
		store(base + i, key, 8, word, IBV_WC_REM_INV_REQ_ERR, "address");
	store(base + REGION, key, 8, word, IBV_WC_REM_ACCESS_ERR, "address behind the end");
	store(base, key ^ UNKNOWN_KEY, 8, word, IBV_WC_REM_ACCESS_ERR, "unknown key");
	CHECK(memory[0] == 0x5555555555555555ull && memory[1] == word);
	expect_service();
}
