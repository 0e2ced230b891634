// SPDX-License-Identifier: GPL-2.0
/* Sides, queue pairs and rings that a program fills by hand. */

#define _GNU_SOURCE

#include "user_rings.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/ib_user_verbs.h>

struct side sides[2];

void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("# user_rings: ");
	vprintf(format, args);
	printf("\n");
	va_end(args);
	exit(1);
}

/* The mappings of rings of this process, in the order of their addresses. */
int rings(struct ring *found, int room)
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
struct ring new_ring(const struct ring *before, int count, unsigned int bits)
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
}

void open_side(struct side *side, const char *name, int gid_index)
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

struct shared new_shared(struct side *side)
{
	struct ring before[64];
	int count = rings(before, 64);
	struct shared shared;

	shared.srq = ibv_create_srq(side->pd, &(struct ibv_srq_init_attr){
		.attr = { .max_wr = DEPTH, .max_sge = 1 } });
	CHECK(shared.srq);
	shared.receives = new_ring(before, count, 6);
	CHECK(shared.receives.buf->index_mask == DEPTH);
	return shared;
}

void free_shared(struct shared *shared)
{
	CHECK(!ibv_destroy_srq(shared->srq));
}

static struct end make_end(struct side *side, enum ibv_qp_type type, struct shared *shared,
			   bool signal_all)
{
	struct ring before[64];
	int count = rings(before, 64);
	struct end end = { .side = side };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234 };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	end.cq = ibv_create_cq(side->ctx, 63, NULL, side->channel, 0);
	CHECK(end.cq);
	end.completions = new_ring(before, count, 6);
	count = rings(before, 64);
	end.qp = ibv_create_qp(side->pd, &(struct ibv_qp_init_attr){
		.send_cq = end.cq, .recv_cq = end.cq, .qp_type = type,
		.sq_sig_all = signal_all,
		.srq = shared ? shared->srq : NULL,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1 } });
	CHECK(end.qp);
	end.sends = new_ring(before, count, 8);
	end.receives = shared ? shared->receives : new_ring(before, count, 6);
	CHECK(end.sends.buf->index_mask == DEPTH);
	if (type == IBV_QPT_UD) {
		mask |= IBV_QP_QKEY;
	} else {
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL |
				       IBV_ACCESS_FLUSH_PERSISTENT;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	CHECK(!ibv_modify_qp(end.qp, &attr, mask));
	return end;
}

struct end new_sharing_end(struct side *side, enum ibv_qp_type type, struct shared *shared)
{
	return make_end(side, type, shared, true);
}

struct end new_quiet_end(struct side *side)
{
	return make_end(side, IBV_QPT_RC, NULL, false);
}

struct end new_end(struct side *side, enum ibv_qp_type type)
{
	return new_sharing_end(side, type, NULL);
}

enum ibv_mtu path_mtu = IBV_MTU_1024;

struct ibv_qp_attr way_to(struct end *end, struct end *peer)
{
	return (struct ibv_qp_attr){
		.path_mtu = path_mtu, .dest_qp_num = peer->qp->qp_num,
		.max_dest_rd_atomic = 1, .max_rd_atomic = 1, .min_rnr_timer = 1,
		.timeout = 15, .retry_cnt = 7, .rnr_retry = 7,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = peer->side->gid, .hop_limit = 1,
				      .sgid_index = end->side->gid_index } } };
}

void begin_to_receive(struct end *end, struct ibv_qp_attr attr)
{
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	attr.qp_state = IBV_QPS_RTR;
	if (end->qp->qp_type != IBV_QPT_UC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	CHECK(!ibv_modify_qp(end->qp, &attr, mask));
}

void begin_to_send(struct end *end, struct ibv_qp_attr attr)
{
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	attr.qp_state = IBV_QPS_RTS;
	if (end->qp->qp_type != IBV_QPT_UC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	CHECK(!ibv_modify_qp(end->qp, &attr, mask));
}

void connect_end(struct end *end, struct end *peer)
{
	begin_to_receive(end, way_to(end, peer));
	begin_to_send(end, way_to(end, peer));
}

struct ibv_qp_attr new_hasty_pair(struct end *ends, int timeout, int retries)
{
	struct ibv_qp_attr attr;

	for (int i = 0; i < 2; i++)
		ends[i] = new_end(&sides[i], IBV_QPT_RC);
	connect_end(&ends[1], &ends[0]);
	attr = way_to(&ends[0], &ends[1]);
	attr.timeout = timeout;
	attr.retry_cnt = retries;
	return attr;
}

void set_state(struct end *end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE));
}

struct ibv_qp_attr attributes(struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	memset(&attr, 0xff, sizeof(attr));
	CHECK(!ibv_query_qp(end->qp, &attr, 0xfffff, &init));
	return attr;
}

void join(struct end *ends)
{
	for (int i = 0; i < 2; i++)
		connect_end(&ends[i], &ends[1 - i]);
}

void new_pair(struct end *ends)
{
	for (int i = 0; i < 2; i++)
		ends[i] = new_end(&sides[i], IBV_QPT_RC);
	join(ends);
}

void free_end(struct end *end)
{
	CHECK(!ibv_destroy_qp(end->qp));
	CHECK(!ibv_destroy_cq(end->cq));
}

void free_pair(struct end *ends)
{
	free_end(&ends[0]);
	free_end(&ends[1]);
}

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* The next completion; a status of -1 if there is none in time. */
struct ibv_wc completion(struct end *end, double seconds)
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
int ring_doorbell(struct end *end, uint32_t count)
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

struct rxe_send_wqe *send_slot(struct end *end)
{
	struct rxe_queue_buf *buf = end->sends.buf;

	return (void *)(buf->data + ((size_t)(buf->producer_index & DEPTH) << 8));
}

/* A request that is in order: a SEND of 8 octets. */
struct rxe_send_wqe *prepare(struct end *end)
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

struct rxe_send_wqe *prepare_remote(struct end *end, int opcode, uint64_t addr, uint32_t key,
				    uint32_t len)
{
	struct rxe_send_wqe *wqe = prepare(end);

	wqe->wr.opcode = opcode;
	wqe->wr.wr.rdma.remote_addr = addr;
	wqe->wr.wr.rdma.rkey = key;
	wqe->dma.length = len;
	wqe->dma.sge[0].length = len;
	return wqe;
}

void produce(struct rxe_queue_buf *buf)
{
	__atomic_store_n(&buf->producer_index, (buf->producer_index + 1) & DEPTH,
			 __ATOMIC_RELEASE);
}

void post_receive(struct end *end, uint64_t addr, uint32_t len, uint32_t lkey,
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
void expect_send(struct end *end, int status, const char *what, uint32_t value)
{
	struct ibv_wc wc;

	produce(end->sends.buf);
	CHECK(!ring_doorbell(end, 0));
	wc = completion(end, 10);
	if ((int)wc.status != status || wc.wr_id != 0x5157 || wc.qp_num != end->qp->qp_num)
		fail("%s %#x: status %d, number %#lx, want %d", what, value, wc.status,
		     (unsigned long)wc.wr_id, status);
}

void post_prepared(struct end *end)
{
	produce(end->sends.buf);
	CHECK(!ring_doorbell(end, 0));
}

struct ibv_wc expect_completion(struct end *end, int status, uint64_t id, const char *what)
{
	struct ibv_wc wc = completion(end, 10);

	if ((int)wc.status != status || wc.wr_id != id || wc.qp_num != end->qp->qp_num)
		fail("%s: status %d, number %#lx, want %d", what, wc.status,
		     (unsigned long)wc.wr_id, status);
	return wc;
}

/* A pair that nothing was done to still carries data. */
void expect_service(void)
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

int next_event(struct side *side, struct ibv_async_event *event, int milliseconds)
{
	struct pollfd wait = { .fd = side->ctx->async_fd, .events = POLLIN };

	if (poll(&wait, 1, milliseconds) != 1)
		return -1;
	CHECK(!ibv_get_async_event(side->ctx, event));
	ibv_ack_async_event(event);
	return event->event_type;
}

int next_event_of(struct end *end, int milliseconds)
{
	struct ibv_async_event event;
	int type = next_event(end->side, &event, milliseconds);

	if (type >= 0)
		CHECK(event.element.qp == end->qp);
	return type;
}

bool has_event(struct side *side, int milliseconds)
{
	struct ibv_async_event event;

	return next_event(side, &event, milliseconds) >= 0;
}

void await_event(struct side *side, struct ibv_async_event *event, int type)
{
	int found;

	do {
		found = next_event(side, event, 10000);
		if (found < 0)
			fail("no event %d", type);
	} while (found != type);
}

void await_change(void)
{
	char line[16];

	printf("ready\n");
	fflush(stdout);
	CHECK(fgets(line, sizeof(line), stdin));
}

static volatile bool stop;
static pthread_t scribbler;

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

void start_scribbling(struct end *ends)
{
	stop = false;
	CHECK(!pthread_create(&scribbler, NULL, scribble, ends));
}

void stop_scribbling(void)
{
	stop = true;
	CHECK(!pthread_join(scribbler, NULL));
}
