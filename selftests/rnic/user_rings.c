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

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>

/* Octets of each side's region. */
#define REGION 65536
/* Work requests of each queue: rings of 16 slots. */
#define DEPTH 15
/* The local key of the device, which only the kernel may use. */
#define LOCAL_DMA_KEY 1
#define SECONDS_MAX 60

/* A ring of the calling process. */
struct ring {
	struct rxe_queue_buf *buf;
	size_t len;
	off_t offset;
};

/* A device with what a queue pair needs. */
struct side {
	struct ibv_context *ctx;
	int gid_index;
	union ibv_gid gid;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t *memory;
};

/* A queue pair with its rings. */
struct end {
	struct side *side;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ring sends, receives, completions;
};

static struct side sides[2];

static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("# user_rings: ");
	vprintf(format, args);
	printf("\n");
	va_end(args);
	exit(1);
}

#define CHECK(condition) do {						\
	if (!(condition))						\
		fail("line %d: %s (errno %d)", __LINE__, #condition, errno); \
} while (0)

/* The mappings of rings of this process, in the order of their addresses. */
static int rings(struct ring *found, int room)
{
	unsigned long begin, end, offset;
	char line[512], rights[8];
	FILE *maps = fopen("/proc/self/maps", "r");
	int count = 0;

	CHECK(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "/uverbs") ||
		    sscanf(line, "%lx-%lx %7s %lx", &begin, &end, rights, &offset) != 4)
			continue;
		CHECK(count < room);
		found[count].buf = (struct rxe_queue_buf *)begin;
		found[count].len = end - begin;
		found[count].offset = offset;
		count++;
	}
	fclose(maps);
	return count;
}

/* The ring with slots of that size that was not there before. */
static struct ring new_ring(const struct ring *before, int count, unsigned int bits)
{
	struct ring now[64];
	int number = rings(now, 64);

	for (int i = 0; i < number; i++) {
		bool old = false;

		for (int j = 0; j < count; j++)
			old = old || before[j].buf == now[i].buf;
		if (!old && now[i].buf->log2_elem_size == bits)
			return now[i];
	}
	fail("no ring with slots of 1 << %u octets", bits);
	return (struct ring){};
}

static void open_side(struct side *side, const char *name, int gid_index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list);
	for (int i = 0; list[i]; i++) {
		if (!strcmp(ibv_get_device_name(list[i]), name))
			side->ctx = ibv_open_device(list[i]);
	}
	CHECK(side->ctx);
	ibv_free_device_list(list);
	side->gid_index = gid_index;
	CHECK(!ibv_query_gid(side->ctx, 1, gid_index, &side->gid));
	side->pd = ibv_alloc_pd(side->ctx);
	CHECK(side->pd);
	side->memory = aligned_alloc(4096, REGION);
	CHECK(side->memory);
	memset(side->memory, 0, REGION);
	side->mr = ibv_reg_mr(side->pd, side->memory, REGION,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(side->mr);
}

static struct end new_end(struct side *side, enum ibv_qp_type type)
{
	struct ring before[64];
	int count = rings(before, 64);
	struct end end = { .side = side };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234 };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	end.cq = ibv_create_cq(side->ctx, 63, NULL, NULL, 0);
	CHECK(end.cq);
	end.completions = new_ring(before, count, 6);
	count = rings(before, 64);
	end.qp = ibv_create_qp(side->pd, &(struct ibv_qp_init_attr){
		.send_cq = end.cq, .recv_cq = end.cq, .qp_type = type, .sq_sig_all = 1,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1 } });
	CHECK(end.qp);
	end.sends = new_ring(before, count, 8);
	end.receives = new_ring(before, count, 6);
	CHECK(end.sends.buf->index_mask == DEPTH);
	if (type == IBV_QPT_UD) {
		mask |= IBV_QP_QKEY;
	} else {
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				       IBV_ACCESS_REMOTE_ATOMIC;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	CHECK(!ibv_modify_qp(end.qp, &attr, mask));
	return end;
}

static void connect_end(struct end *end, struct end *peer)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp->qp_num, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = peer->side->gid, .hop_limit = 1,
				      .sgid_index = end->side->gid_index } } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 7,
				   .rnr_retry = 7, .max_rd_atomic = 1 };

	CHECK(!ibv_modify_qp(end->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			     IBV_QP_MIN_RNR_TIMER));
	CHECK(!ibv_modify_qp(end->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void new_pair(struct end *ends)
{
	for (int i = 0; i < 2; i++)
		ends[i] = new_end(&sides[i], IBV_QPT_RC);
	for (int i = 0; i < 2; i++)
		connect_end(&ends[i], &ends[1 - i]);
}

static void free_end(struct end *end)
{
	CHECK(!ibv_destroy_qp(end->qp));
	CHECK(!ibv_destroy_cq(end->cq));
}

static void free_pair(struct end *ends)
{
	free_end(&ends[0]);
	free_end(&ends[1]);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* The next completion; a status of -1 if there is none in time. */
static struct ibv_wc completion(struct end *end, double seconds)
{
	struct ibv_wc wc = { .status = -1 };
	double limit = now() + seconds;

	while (now() < limit) {
		int count = ibv_poll_cq(end->cq, 1, &wc);

		CHECK(count >= 0);
		if (count)
			return wc;
		usleep(100);
	}
	wc.status = -1;
	return wc;
}

/* Whatever the library thinks of it, the doorbell is one system call. */
static int ring_doorbell(struct end *end, uint32_t count)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_send post;
		struct ib_uverbs_send_wr wr;
		struct ib_uverbs_sge sge;
	} cmd = { .hdr = { .command = IB_USER_VERBS_CMD_POST_SEND } };
	struct ib_uverbs_post_send_resp resp = {};
	size_t len = count ? sizeof(cmd) : offsetof(typeof(cmd), wr);

	cmd.hdr.in_words = len / 4;
	cmd.hdr.out_words = sizeof(resp) / 4;
	cmd.post.response = (uintptr_t)&resp;
	cmd.post.qp_handle = end->qp->handle;
	cmd.post.wr_count = count;
	cmd.post.sge_count = count;
	cmd.post.wqe_size = sizeof(cmd.wr);
	cmd.wr.opcode = IBV_WR_SEND;
	cmd.wr.num_sge = count;
	cmd.sge.addr = (uintptr_t)end->side->memory;
	cmd.sge.length = 8;
	cmd.sge.lkey = LOCAL_DMA_KEY;
	return write(end->side->ctx->cmd_fd, &cmd, len) == (ssize_t)len ? 0 : errno;
}

static struct rxe_send_wqe *send_slot(struct end *end)
{
	struct rxe_queue_buf *buf = end->sends.buf;

	return (void *)(buf->data + ((size_t)(buf->producer_index & DEPTH) << 8));
}

/* A request that is in order: a SEND of 8 octets. */
static struct rxe_send_wqe *prepare(struct end *end)
{
	struct rxe_send_wqe *wqe = send_slot(end);

	memset(wqe, 0, 256);
	wqe->wr.wr_id = 0x5157;
	wqe->wr.opcode = IBV_WR_SEND;
	wqe->wr.send_flags = IBV_SEND_SIGNALED;
	wqe->dma.length = 8;
	wqe->dma.num_sge = 1;
	wqe->dma.sge[0].addr = (uintptr_t)end->side->memory;
	wqe->dma.sge[0].length = 8;
	wqe->dma.sge[0].lkey = end->side->mr->lkey;
	return wqe;
}

static void produce(struct rxe_queue_buf *buf)
{
	__atomic_store_n(&buf->producer_index, (buf->producer_index + 1) & DEPTH,
			 __ATOMIC_RELEASE);
}

static void post_receive(struct end *end, uint64_t addr, uint32_t len, uint32_t lkey,
			 uint32_t count)
{
	struct rxe_queue_buf *buf = end->receives.buf;
	struct rxe_recv_wqe *wqe = (void *)(buf->data +
					    ((size_t)(buf->producer_index & DEPTH) << 6));

	memset(wqe, 0, 64);
	wqe->wr_id = 0x5257;
	wqe->dma.length = len;
	wqe->dma.num_sge = count;
	wqe->dma.sge[0].addr = addr;
	wqe->dma.sge[0].length = len;
	wqe->dma.sge[0].lkey = lkey;
	produce(buf);
}

/* Posts the prepared request and checks how it completes. */
static void expect_send(struct end *end, int status, const char *what, uint32_t value)
{
	struct ibv_wc wc;

	produce(end->sends.buf);
	CHECK(!ring_doorbell(end, 0));
	wc = completion(end, 10);
	if ((int)wc.status != status || wc.wr_id != 0x5157 || wc.qp_num != end->qp->qp_num)
		fail("%s %#x: status %d, number %#lx, want %d", what, value, wc.status,
		     (unsigned long)wc.wr_id, status);
}

/* A pair that nothing was done to still carries data. */
static void expect_service(void)
{
	struct end ends[2];
	struct ibv_wc wc;

	new_pair(ends);
	for (int round = 0; round < 40; round++) {
		memset(sides[0].memory, round + 1, 8);
		post_receive(&ends[1], (uintptr_t)sides[1].memory + 4096, 8, sides[1].mr->lkey, 1);
		prepare(&ends[0]);
		expect_send(&ends[0], IBV_WC_SUCCESS, "bystander", round);
		wc = completion(&ends[1], 10);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 0x5257);
		CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == 8);
		CHECK(!memcmp(sides[0].memory, sides[1].memory + 4096, 8));
	}
	free_pair(ends);
}

/* RNIC-SEC-02, RNIC-SEC-03. */
static void opcodes(void)
{
	static const uint32_t bad[] = { 8, 10, 11, 12, 13, 14, 15, 16, 31, 32, 0x20, 0xf0, 0xff,
					0x100, 1u << 31, 0xffffffff };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
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

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
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
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
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
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
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

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
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

static volatile bool stop;

/* Fills rings with anything while they are in use. */
static void *scribble(void *argument)
{
	struct end *ends = argument;
	uint32_t state = 1;

	while (!stop) {
		struct ring *list[] = { &ends[0].sends, &ends[0].receives, &ends[1].sends,
					&ends[1].receives, &ends[0].completions };
		struct ring *ring;
		size_t at;

		state = state * 1664525 + 1013904223;
		ring = list[(state >> 8) % 5];
		at = (state >> 11) % (ring->len / 4);
		state = state * 1664525 + 1013904223;
		/* Mostly values that pass a check now and then. */
		((volatile uint32_t *)ring->buf)[at] = state >> (state >> 27);
	}
	return NULL;
}

/* RNIC-SEC-01, RNIC-SEC-04: rings are overwritten while the kernel reads them. */
static void overwrites(void)
{
	double limit = now() + 10;

	for (int round = 0; now() < limit; round++) {
		struct end ends[2];
		pthread_t thread;

		new_pair(ends);
		stop = false;
		CHECK(!pthread_create(&thread, NULL, scribble, ends));
		for (int i = 0; i < 2000; i++) {
			post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
			prepare(&ends[0]);
			produce(ends[0].sends.buf);
			CHECK(!ring_doorbell(&ends[0], 0));
			prepare(&ends[1]);
			produce(ends[1].sends.buf);
			CHECK(!ring_doorbell(&ends[1], 0));
		}
		stop = true;
		CHECK(!pthread_join(thread, NULL));
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
			struct end ends[2];

			for (int i = 0; i < 2; i++)
				open_side(&sides[i], ibv_get_device_name(sides[i].ctx->device),
					  sides[i].gid_index);
			new_pair(ends);
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
	char line[8];

	new_pair(ends);
	printf("ready\n");
	fflush(stdout);
	/* The other side removes the device of side 0 and writes a line. */
	CHECK(fgets(line, sizeof(line), stdin));
	CHECK(poll(&wait, 1, SECONDS_MAX * 1000) == 1);
	CHECK(!ibv_get_async_event(sides[0].ctx, &event));
	CHECK(event.event_type == IBV_EVENT_DEVICE_FATAL ||
	      event.event_type == IBV_EVENT_QP_FATAL);
	memset(ends[0].sends.buf, 0x5a, ends[0].sends.len);
	CHECK(ring_doorbell(&ends[0], 0) == EIO);
	CHECK(mmap(NULL, ends[0].sends.len, PROT_READ, MAP_SHARED, sides[0].ctx->cmd_fd,
		   ends[0].sends.offset) == MAP_FAILED);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "bystander", expect_service }, { "opcodes", opcodes }, { "sizes", sizes },
	{ "elements", elements }, { "handles", handles }, { "indices", indices },
	{ "shapes", shapes }, { "requests", requests }, { "data", data }, { "mappings", mappings },
	{ "overwrites", overwrites }, { "deaths", deaths }, { "removal", removal },
};

int main(int argc, char **argv)
{
	if (argc != 6)
		fail("usage: %s DEVICE INDEX DEVICE INDEX CASE", argv[0]);
	for (int i = 0; i < 2; i++)
		open_side(&sides[i], argv[1 + 2 * i], atoi(argv[2 + 2 * i]));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!strcmp(cases[i].name, argv[5])) {
			cases[i].run();
			return 0;
		}
	}
	fail("no case %s", argv[5]);
}
