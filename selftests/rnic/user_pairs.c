// SPDX-License-Identifier: GPL-2.0
/* Queue pairs: how they are made, their states, and what a query shows of them. */

#include "user_rings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rdma/ib_user_verbs.h>

/* Octets of a message of three packets. */
#define LONG 3000
/* Types that only the kernel has. */
#define QPT_XRC_SEND 9
/* A flag that uverbs passes on. */
#define CREATE_BLOCK_LOOPBACK 2

/* RNIC-RSP-01: a sender gets no answer in the states INIT, RESET and ERR of its peer. */
void silent_states(void)
{
	static const enum ibv_qp_state list[] = { IBV_QPS_INIT, IBV_QPS_RESET, IBV_QPS_ERR };

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		struct ibv_qp_attr attr;
		struct end ends[2];

		for (int j = 0; j < 2; j++)
			ends[j] = new_end(&sides[j], IBV_QPT_RC);
		attr = way_to(&ends[0], &ends[1]);
		attr.timeout = 10;
		attr.retry_cnt = 2;
		begin_to_receive(&ends[0], attr);
		begin_to_send(&ends[0], attr);
		if (list[i] != IBV_QPS_INIT) {
			connect_end(&ends[1], &ends[0]);
			set_state(&ends[1], list[i]);
		}
		memset(sides[0].memory, 0x11, 8);
		memset(sides[1].memory, 0x22, 8);
		if (list[i] == IBV_QPS_INIT)
			post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
		prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory,
			       sides[1].mr->rkey, 8);
		produce(ends[0].sends.buf);
		prepare(&ends[0]);
		post_prepared(&ends[0]);
		expect_completion(&ends[0], IBV_WC_RETRY_EXC_ERR, 0x5157, "to a silent state");
		expect_completion(&ends[0], IBV_WC_WR_FLUSH_ERR, 0x5157, "behind it");
		CHECK(sides[1].memory[0] == 0x22);
		CHECK((int)completion(&ends[1], 0).status == -1);
		CHECK(attributes(&ends[1]).qp_state == list[i]);
		free_pair(ends);
	}
	expect_service();
}

/* A SEND of three packets from one end to the other, where a receive request waits. */
static void expect_message(struct end *from, struct end *to)
{
	memset(from->side->memory, from->side->memory[0] + 1, LONG);
	post_receive(to, (uintptr_t)to->side->memory + 8192, LONG, to->side->mr->lkey, 1);
	prepare_remote(from, IBV_WR_SEND, 0, 0, LONG);
	expect_send(from, IBV_WC_SUCCESS, "message", LONG);
	CHECK(expect_completion(to, IBV_WC_SUCCESS, 0x5257, "message").byte_len == LONG);
	CHECK(!memcmp(from->side->memory, to->side->memory + 8192, LONG));
}

/* Pauses the send queue, which asks for an event or not. */
static void pause_sends(struct end *end, bool asks)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = asks };

	CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
}

/* RNIC-QPS-05: the numbers of both directions differ, and begin near the end of the circle. */
void states(void)
{
	static const uint32_t psns[2] = { 0xfffffe, 0x123456 };
	struct ibv_qp_attr attr[2];
	struct end ends[2];

	for (int i = 0; i < 2; i++)
		ends[i] = new_end(&sides[i], IBV_QPT_RC);
	for (int i = 0; i < 2; i++) {
		attr[i] = way_to(&ends[i], &ends[1 - i]);
		attr[i].sq_psn = psns[i];
		attr[i].rq_psn = psns[1 - i];
		begin_to_receive(&ends[i], attr[i]);
	}
	/* In state RTR a message arrives, and none is sent. */
	begin_to_send(&ends[0], attr[0]);
	expect_message(&ends[0], &ends[1]);
	CHECK(next_event_of(&ends[1], 10000) == IBV_EVENT_COMM_EST);
	prepare(&ends[1]);
	CHECK(ring_doorbell(&ends[1], 0) == EINVAL);
	begin_to_send(&ends[1], attr[1]);
	expect_message(&ends[1], &ends[0]);
	expect_message(&ends[0], &ends[1]);

	for (int asks = 0; asks < 2; asks++) {
		/* A message that has begun ends in state SQD, and the queue is drained then. */
		prepare(&ends[0]);
		post_prepared(&ends[0]);
		while (attributes(&ends[0]).sq_psn == attributes(&ends[1]).rq_psn)
			usleep(100);
		pause_sends(&ends[0], asks);
		CHECK(attributes(&ends[0]).qp_state == IBV_QPS_SQD);
		CHECK(attributes(&ends[0]).sq_draining == 1);
		CHECK(!has_event(&sides[0], 0));
		post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
		expect_completion(&ends[0], IBV_WC_SUCCESS, 0x5157, "begun before SQD");
		expect_completion(&ends[1], IBV_WC_SUCCESS, 0x5257, "begun before SQD");
		if (asks)
			CHECK(next_event_of(&ends[0], 10000) == IBV_EVENT_SQ_DRAINED);
		while (attributes(&ends[0]).sq_draining)
			usleep(100);
		/* No other begins, and the queue pair still receives. */
		post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
		prepare(&ends[0]);
		post_prepared(&ends[0]);
		expect_message(&ends[1], &ends[0]);
		CHECK((int)completion(&ends[1], 0.1).status == -1);
		CHECK(!has_event(&sides[0], 0));
		set_state(&ends[0], IBV_QPS_RTS);
		expect_completion(&ends[0], IBV_WC_SUCCESS, 0x5157, "posted in SQD");
		expect_completion(&ends[1], IBV_WC_SUCCESS, 0x5257, "posted in SQD");
		expect_message(&ends[0], &ends[1]);
	}
	free_pair(ends);
}

/* RNIC-IP-02: messages with a traffic class. Prints the hop limit, which is that of the route. */
void marked(void)
{
	struct ibv_qp_attr attr;
	struct end ends[2];

	for (int i = 0; i < 2; i++) {
		ends[i] = new_end(&sides[i], IBV_QPT_RC);
		if (i)
			connect_end(&ends[1], &ends[0]);
	}
	attr = way_to(&ends[0], &ends[1]);
	attr.ah_attr.grh.traffic_class = 0xba;
	begin_to_receive(&ends[0], attr);
	begin_to_send(&ends[0], attr);
	printf("%u\n", attributes(&ends[0]).ah_attr.grh.hop_limit);
	for (int round = 0; round < 5; round++)
		expect_message(&ends[0], &ends[1]);
	free_pair(ends);
}

/* RNIC-QPS-06. */
void all_attributes(void)
{
	struct ibv_qp_attr want, got;
	struct end ends[2];

	for (int i = 0; i < 2; i++)
		ends[i] = new_end(&sides[i], IBV_QPT_RC);
	CHECK(attributes(&ends[0]).qp_state == IBV_QPS_INIT);
	want = way_to(&ends[0], &ends[1]);
	want.path_mtu = IBV_MTU_512;
	want.rq_psn = 0x111111;
	want.sq_psn = 0xfffffe;
	want.max_dest_rd_atomic = 5;
	want.max_rd_atomic = 3;
	want.min_rnr_timer = 13;
	want.timeout = 17;
	want.retry_cnt = 4;
	want.rnr_retry = 6;
	want.ah_attr.grh.traffic_class = 0x48;
	begin_to_receive(&ends[0], want);
	CHECK(attributes(&ends[0]).qp_state == IBV_QPS_RTR);
	begin_to_send(&ends[0], want);
	got = attributes(&ends[0]);
	CHECK(got.qp_state == IBV_QPS_RTS && got.cur_qp_state == IBV_QPS_RTS);
	CHECK(got.sq_draining == 0 && got.port_num == 1 && got.pkey_index == 0);
	CHECK(got.path_mtu == IBV_MTU_512 && got.dest_qp_num == ends[1].qp->qp_num);
	CHECK(got.rq_psn == 0x111111 && got.sq_psn == 0xfffffe);
	CHECK(got.max_dest_rd_atomic == 5 && got.max_rd_atomic == 3);
	CHECK(got.min_rnr_timer == 13 && got.timeout == 17);
	CHECK(got.retry_cnt == 4 && got.rnr_retry == 6);
	CHECK(got.qp_access_flags == (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				      IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL |
				      IBV_ACCESS_FLUSH_PERSISTENT));
	CHECK(got.cap.max_send_wr == DEPTH && got.cap.max_recv_wr == DEPTH);
	CHECK(got.cap.max_send_sge >= 1 && got.cap.max_recv_sge >= 1);
	CHECK(got.ah_attr.is_global && got.ah_attr.port_num == 1);
	CHECK(!memcmp(&got.ah_attr.grh.dgid, &sides[1].gid, sizeof(sides[1].gid)));
	CHECK(got.ah_attr.grh.sgid_index == sides[0].gid_index);
	/* The verbs core has replaced the hop limit by that of the route. */
	CHECK(got.ah_attr.grh.hop_limit > 0 && got.ah_attr.grh.traffic_class == 0x48);
	/* Six packets there, and six back. */
	want = way_to(&ends[1], &ends[0]);
	want.path_mtu = IBV_MTU_512;
	want.rq_psn = 0xfffffe;
	want.sq_psn = 0x111111;
	begin_to_receive(&ends[1], want);
	begin_to_send(&ends[1], want);
	expect_message(&ends[0], &ends[1]);
	expect_message(&ends[1], &ends[0]);
	got = attributes(&ends[0]);
	CHECK(got.sq_psn == 4 && got.rq_psn == 0x111117);
	set_state(&ends[0], IBV_QPS_ERR);
	CHECK(attributes(&ends[0]).qp_state == IBV_QPS_ERR);
	free_pair(ends);
}

/* Makes a queue pair by a system call of its own; an errno. */
static int create_with_flags(uint32_t flags)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_ex_cmd_hdr ex;
		struct ib_uverbs_ex_create_qp qp;
	} cmd = {
		.hdr = { .command = IB_USER_VERBS_CMD_FLAG_EXTENDED |
				    IB_USER_VERBS_EX_CMD_CREATE_QP },
	};
	struct {
		struct ib_uverbs_ex_create_qp_resp qp;
		struct rxe_create_qp_resp driver;
	} resp = {};
	struct ibv_cq *cq = ibv_create_cq(sides[0].ctx, 63, NULL, NULL, 0);

	CHECK(cq);
	cmd.hdr.in_words = sizeof(cmd.qp) / 8;
	cmd.hdr.out_words = sizeof(resp.qp) / 8;
	cmd.ex.provider_out_words = sizeof(resp.driver) / 8;
	cmd.ex.response = (uintptr_t)&resp;
	cmd.qp.pd_handle = sides[0].pd->handle;
	cmd.qp.send_cq_handle = cq->handle;
	cmd.qp.recv_cq_handle = cq->handle;
	cmd.qp.max_send_wr = 1;
	cmd.qp.max_recv_wr = 1;
	cmd.qp.max_send_sge = 1;
	cmd.qp.max_recv_sge = 1;
	cmd.qp.qp_type = IBV_QPT_RC;
	cmd.qp.create_flags = flags;
	return write(sides[0].ctx->cmd_fd, &cmd, sizeof(cmd)) == sizeof(cmd) ? 0 : errno;
}

/* RNIC-QPS-01: the types that there are not. */
static void other_types(void)
{
	static const int types[] = { IBV_QPT_RAW_PACKET, QPT_XRC_SEND, IBV_QPT_DRIVER };
	struct ibv_cq *cq = ibv_create_cq(sides[0].ctx, 63, NULL, NULL, 0);

	CHECK(cq);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = cq, .recv_cq = cq, .qp_type = types[i],
			.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
				 .max_recv_sge = 1 } };

		errno = 0;
		if (ibv_create_qp(sides[0].pd, &init) || errno != EOPNOTSUPP)
			fail("type %#x: errno %d", types[i], errno);
	}
	CHECK(!ibv_destroy_cq(cq));
}

/* RNIC-QPS-08: completions of requests that do not ask for one, by `all` of the queue pair. */
static void signals(bool all)
{
	struct end ends[2];

	for (int i = 0; i < 2; i++)
		ends[i] = all ? new_end(&sides[i], IBV_QPT_RC) : new_quiet_end(&sides[i]);
	join(ends);
	for (int i = 0; i < 2; i++) {
		prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory,
			       sides[1].mr->rkey, 8);
		if (!i)
			send_slot(&ends[0])->wr.send_flags = 0;
		send_slot(&ends[0])->wr.wr_id = i;
		post_prepared(&ends[0]);
	}
	if (all)
		expect_completion(&ends[0], IBV_WC_SUCCESS, 0, "unsignaled");
	expect_completion(&ends[0], IBV_WC_SUCCESS, 1, "signaled");
	CHECK((int)completion(&ends[0], 0).status == -1);
	free_pair(ends);
}

/* RNIC-QPS-08. */
void creation(void)
{
	struct ibv_cq *cq = ibv_create_cq(sides[0].ctx, 63, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 5, .max_recv_wr = 9, .max_send_sge = 1,
			 .max_recv_sge = 3, .max_inline_data = 30 } };
	struct ibv_qp *qp;

	other_types();
	CHECK(create_with_flags(0) == 0);
	CHECK(create_with_flags(CREATE_BLOCK_LOOPBACK) == EOPNOTSUPP);
	/* Rings have a power of two of slots, of which one stays empty. */
	CHECK(cq);
	qp = ibv_create_qp(sides[0].pd, &init);
	CHECK(qp);
	CHECK(init.cap.max_send_wr == 7 && init.cap.max_recv_wr == 15);
	CHECK(init.cap.max_send_sge >= 1 && init.cap.max_recv_sge >= 3);
	CHECK(init.cap.max_inline_data >= 30);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_cq(cq));
	signals(true);
	signals(false);
}

/*
 * RNIC-LIM-02: queues beyond the limits are refused. Makes the largest ones, prints the octets of
 * their rings, and waits for a line.
 */
void large_rings(void)
{
	static const uint32_t bad[] = { 1, 1u << 10, 1u << 17, 1u << 30, 0x7fffffff };
	struct ibv_device_attr most;
	struct ibv_qp_init_attr init;
	struct ibv_cq *cq = NULL;
	struct ring list[64];
	size_t octets = 0;
	char line[8];

	CHECK(!ibv_query_device(sides[0].ctx, &most));
	for (int i = 0; i < 16; i++) {
		cq = ibv_create_cq(sides[0].ctx, most.max_cqe, NULL, NULL, 0);
		CHECK(cq);
	}
	init = (struct ibv_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = most.max_qp_wr, .max_recv_wr = most.max_qp_wr,
			 .max_send_sge = most.max_sge, .max_recv_sge = most.max_sge } };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct ibv_srq_init_attr shared = { .attr = { .max_sge = 1 } };

		for (int which = 0; which < 4; which++) {
			struct ibv_qp_init_attr beyond = init;
			uint32_t *caps[] = { &beyond.cap.max_send_wr, &beyond.cap.max_recv_wr,
					     &beyond.cap.max_send_sge, &beyond.cap.max_recv_sge };

			*caps[which] += bad[i];
			CHECK(!ibv_create_qp(sides[0].pd, &beyond) && errno == EINVAL);
		}
		shared.attr.max_wr = most.max_srq_wr + bad[i];
		CHECK(!ibv_create_srq(sides[0].pd, &shared) && errno == EINVAL);
		CHECK(!ibv_create_cq(sides[0].ctx, most.max_cqe + bad[i], NULL, NULL, 0));
		CHECK(errno == EINVAL);
	}
	CHECK(ibv_create_qp(sides[0].pd, &init));
	for (int i = 0, count = rings(list, 64); i < count; i++)
		octets += list[i].len;
	printf("%zu\n", octets);
	fflush(stdout);
	CHECK(fgets(line, sizeof(line), stdin));
}
