// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues whose ring is filled by hand, and completion queues that are resized. */

#include "user_rings.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Two pairs; the second side takes its receive requests from a shared queue. */
struct group {
	struct shared shared;
	struct end left[2], right[2];
};

static void new_group(struct group *group)
{
	group->shared = new_shared(&sides[1]);
	for (int i = 0; i < 2; i++) {
		struct end *left = &group->left[i], *right = &group->right[i];

		*left = new_end(&sides[0], IBV_QPT_RC);
		*right = new_sharing_end(&sides[1], IBV_QPT_RC, &group->shared);
		connect_end(left, right);
		connect_end(right, left);
	}
}

static void free_group(struct group *group)
{
	for (int i = 0; i < 2; i++) {
		free_end(&group->left[i]);
		free_end(&group->right[i]);
	}
	free_shared(&group->shared);
}

/* Posts a receive request with a number of its own, by the library. */
static void post_shared(struct group *group, uint64_t id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)sides[1].memory + 4096, .length = 8,
			       .lkey = sides[1].mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	CHECK(!ibv_post_srq_recv(group->shared.srq, &wr, &bad));
}

/* Sends on a pair; the request with that number receives. */
static void expect_receive(struct group *group, int pair, uint64_t id)
{
	struct ibv_wc wc;

	memset(sides[0].memory, (int)id + 1, 8);
	prepare(&group->left[pair]);
	expect_send(&group->left[pair], IBV_WC_SUCCESS, "to a shared queue", id);
	wc = completion(&group->right[pair], 10);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == id && wc.byte_len == 8);
	CHECK(wc.qp_num == group->right[pair].qp->qp_num);
	CHECK(!memcmp(sides[0].memory, sides[1].memory + 4096, 8));
}

/* RNIC-SRQ-01, RNIC-SRQ-02, RNIC-SRQ-04: each request serves one of the queue pairs. */
void shared_queues(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(sides[1].ctx);
	struct side other = sides[1];
	struct ibv_srq_attr attr;
	struct group group;
	struct end ends[2];
	struct ibv_wc wc;

	new_group(&group);
	for (int round = 0; round < 40; round++) {
		post_shared(&group, round);
		expect_receive(&group, round % 2, round);
	}
	CHECK(!ibv_query_srq(group.shared.srq, &attr));
	CHECK(attr.max_wr == DEPTH && attr.max_sge >= 1 && attr.srq_limit == 0);
	CHECK(ibv_destroy_srq(group.shared.srq) == EBUSY);
	/* What waits serves the other queue pair after the first is gone. */
	post_shared(&group, 7);
	free_end(&group.right[0]);
	expect_receive(&group, 1, 7);
	group.right[0] = new_sharing_end(&sides[1], IBV_QPT_RC, &group.shared);
	/* A queue pair of another domain: the keys are those of the queue. */
	CHECK(pd);
	other.pd = pd;
	ends[0] = new_end(&sides[0], IBV_QPT_RC);
	ends[1] = new_sharing_end(&other, IBV_QPT_RC, &group.shared);
	join(ends);
	post_shared(&group, 8);
	prepare(&ends[0]);
	expect_send(&ends[0], IBV_WC_SUCCESS, "to another domain", 0);
	wc = completion(&ends[1], 10);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 8);
	other.mr = ibv_reg_mr(pd, other.memory, REGION, IBV_ACCESS_LOCAL_WRITE);
	CHECK(other.mr);
	post_receive(&ends[1], (uintptr_t)other.memory, 8, other.mr->lkey, 1);
	prepare(&ends[0]);
	expect_send(&ends[0], IBV_WC_REM_OP_ERR, "key of another domain", 0);
	wc = completion(&ends[1], 10);
	CHECK(wc.status == IBV_WC_LOC_PROT_ERR);
	free_pair(ends);
	CHECK(!ibv_dereg_mr(other.mr));
	CHECK(!ibv_dealloc_pd(pd));
	free_group(&group);
}

/* The events of the second side that are there within a time. */
static int events(struct ibv_srq *srq, int milliseconds)
{
	struct pollfd wait = { .fd = sides[1].ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	int count = 0;

	while (poll(&wait, 1, count ? 0 : milliseconds) == 1) {
		CHECK(!ibv_get_async_event(sides[1].ctx, &event));
		CHECK(event.event_type == IBV_EVENT_COMM_EST ||
		      event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
		if (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED) {
			CHECK(event.element.srq == srq);
			count++;
		}
		ibv_ack_async_event(&event);
	}
	return count;
}

/* RNIC-SRQ-03. */
void shared_limits(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 3 };
	struct group group;

	new_group(&group);
	for (int i = 0; i < 5; i++)
		post_shared(&group, i);
	CHECK(!ibv_modify_srq(group.shared.srq, &attr, IBV_SRQ_LIMIT));
	CHECK(!ibv_query_srq(group.shared.srq, &attr));
	CHECK(attr.srq_limit == 3);
	expect_receive(&group, 0, 0);
	expect_receive(&group, 1, 1);
	CHECK(events(group.shared.srq, 0) == 0);
	expect_receive(&group, 0, 2);
	CHECK(events(group.shared.srq, 10000) == 1);
	CHECK(!ibv_query_srq(group.shared.srq, &attr));
	CHECK(attr.srq_limit == 0);
	/* Once. */
	expect_receive(&group, 1, 3);
	CHECK(events(group.shared.srq, 0) == 0);
	attr.srq_limit = DEPTH + 1;
	CHECK(ibv_modify_srq(group.shared.srq, &attr, IBV_SRQ_LIMIT) == EINVAL);
	free_group(&group);
}

/* Changes the number of requests. The library maps another ring then. */
static int resize_shared(struct group *group, uint32_t count)
{
	struct ibv_srq_attr attr = { .max_wr = count };
	int err = ibv_modify_srq(group->shared.srq, &attr, IBV_SRQ_MAX_WR);

	if (!err) {
		CHECK(!ibv_query_srq(group->shared.srq, &attr));
		CHECK(attr.max_wr >= count);
	}
	return err;
}

/* RNIC-SRQ-01: requests stay, in their order. */
void shared_sizes(void)
{
	static const uint32_t bad[] = { 0, 16385, 1u << 31, 0xffffffff };
	struct group group;
	int id = 0;

	new_group(&group);
	for (int i = 0; i < 10; i++)
		post_shared(&group, i);
	for (; id < 2; id++)
		expect_receive(&group, 0, id);
	CHECK(!resize_shared(&group, 40));
	for (int i = 10; i < 40; i++)
		post_shared(&group, i);
	/* Now there are more than a smaller ring holds. */
	CHECK(resize_shared(&group, 15) == EINVAL);
	for (; id < 30; id++)
		expect_receive(&group, id % 2, id);
	CHECK(!resize_shared(&group, 10));
	for (; id < 40; id++)
		expect_receive(&group, id % 2, id);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(resize_shared(&group, bad[i]) == EINVAL);
	post_shared(&group, id);
	expect_receive(&group, 0, id);
	free_group(&group);
}

/* RNIC-SEC-04, RNIC-SEC-05, RNIC-SEC-06: anything in the ring of a shared queue. */
void shared_hostile(void)
{
	static const uint32_t values[] = { 1, 7, 15, 16, 17, 0x7fffffff, 0x80000000, 0xffffffff };
	double limit = now() + 10;
	struct group group;
	struct ibv_wc wc;

	for (size_t i = 0; i < 2 * ARRAY_SIZE(values); i++) {
		struct rxe_queue_buf *buf;

		new_group(&group);
		buf = group.shared.receives.buf;
		if (i % 2)
			buf->consumer_index = values[i / 2];
		else
			buf->producer_index = values[i / 2];
		for (int j = 0; j < 2; j++) {
			prepare(&group.left[j]);
			produce(group.left[j].sends.buf);
			CHECK(!ring_doorbell(&group.left[j], 0));
		}
		/* The requests are zeros: they have no room. */
		if (!(i % 2) && values[i / 2] & DEPTH) {
			wc = completion(&group.left[0], 10);
			CHECK(wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_SUCCESS);
		}
		free_group(&group);
	}
	/* The shape in the ring is for the library only, and elements are counted. */
	new_group(&group);
	group.shared.receives.buf->log2_elem_size = 31;
	group.shared.receives.buf->index_mask = 0xffffffff;
	for (int i = 0; i < 40; i++) {
		post_receive(&group.right[0], (uintptr_t)sides[1].memory + 4096, 8,
			     sides[1].mr->lkey, 1);
		expect_receive(&group, i % 2, 0x5257);
	}
	post_receive(&group.right[0], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1u << 31);
	prepare(&group.left[0]);
	expect_send(&group.left[0], IBV_WC_REM_INV_REQ_ERR, "receive without room", 0);
	free_group(&group);
	while (now() < limit) {
		struct ibv_srq_attr attr;
		struct end ends[2];

		new_group(&group);
		ends[0] = group.right[0];
		ends[1] = group.right[1];
		start_scribbling(ends);
		for (int i = 0; i < 1000; i++) {
			post_receive(&ends[0], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
			attr.srq_limit = i % (DEPTH + 1);
			CHECK(!ibv_modify_srq(group.shared.srq, &attr, IBV_SRQ_LIMIT));
			prepare(&group.left[i % 2]);
			produce(group.left[i % 2].sends.buf);
			CHECK(!ring_doorbell(&group.left[i % 2], 0));
		}
		stop_scribbling();
		free_group(&group);
	}
	expect_service();
}

/* Posts a receive request with a number of its own, by the library. */
static void post_numbered(struct end *end, uint64_t id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->side->memory, .length = 8,
			       .lkey = end->side->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	CHECK(!ibv_post_recv(end->qp, &wr, &bad));
}

/* RNIC-CQ-10: completions stay, in their order, and others follow them. */
void resizes(void)
{
	static const int bad[] = { 0, 32768, 1 << 30, -1 };
	struct end ends[2];
	uint64_t posted = 0, received = 0;
	struct ibv_wc wc;

	new_pair(ends);
	for (int round = 0; round < 3; round++) {
		/* The last round begins in mid-ring. */
		static const int sizes[] = { 40, 200, 25 };

		for (int i = 0; i < 20; i++) {
			post_numbered(&ends[1], posted++);
			prepare(&ends[0]);
			expect_send(&ends[0], IBV_WC_SUCCESS, "before a resize", i);
		}
		CHECK(ibv_resize_cq(ends[1].cq, 5) == EINVAL);
		for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
			CHECK(ibv_resize_cq(ends[1].cq, bad[i]));
		CHECK(!ibv_resize_cq(ends[1].cq, sizes[round]));
		CHECK(ends[1].cq->cqe >= sizes[round] && ends[1].cq->cqe < 2 * sizes[round] + 2);
		for (int i = 0; i < 3; i++) {
			memset(sides[0].memory, (int)posted, 8);
			post_numbered(&ends[1], posted++);
			prepare(&ends[0]);
			expect_send(&ends[0], IBV_WC_SUCCESS, "after a resize", i);
			CHECK(!memcmp(sides[0].memory, sides[1].memory, 8));
		}
		for (int i = 0; i < 23; i++) {
			wc = completion(&ends[1], 10);
			CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
			CHECK(wc.wr_id == received++ && wc.qp_num == ends[1].qp->qp_num);
		}
		CHECK((int)completion(&ends[1], 0.01).status == -1);
	}
	/* What the program says of its consumption is only masked. */
	((volatile struct rxe_queue_buf *)ends[0].completions.buf)->consumer_index = 0xffffffff;
	(void)ibv_resize_cq(ends[0].cq, 70);
	free_pair(ends);
	expect_service();
}
