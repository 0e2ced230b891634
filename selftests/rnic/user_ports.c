// SPDX-License-Identifier: GPL-2.0
/* Events of queue pairs and ports, and what changes below connections. */

#include "user_rings.h"

#include <string.h>

/* Octets behind which a WRITE of a test goes, so that its octets are known. */
#define TARGET 4096

/* Waits for an event of a queue pair. */
static void expect_event(struct end *end, int type)
{
	struct ibv_async_event event;

	await_event(end->side, &event, type);
	CHECK(event.element.qp == end->qp);
}

/* The first message arrives before its receiver can send. */
static void established(void)
{
	struct end ends[2];

	for (int i = 0; i < 2; i++)
		ends[i] = new_end(&sides[i], IBV_QPT_RC);
	begin_to_receive(&ends[1], way_to(&ends[1], &ends[0]));
	connect_end(&ends[0], &ends[1]);
	post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
	prepare(&ends[0]);
	expect_send(&ends[0], IBV_WC_SUCCESS, "early message", 0);
	expect_event(&ends[1], IBV_EVENT_COMM_EST);
	begin_to_send(&ends[1], way_to(&ends[1], &ends[0]));
	free_pair(ends);
}

/* Requests that were posted before the change of state are finished before the event. */
static void drained(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_async_event event;
	struct end ends[2];

	new_pair(ends);
	prepare(&ends[0]);
	produce(ends[0].sends.buf);
	CHECK(!ring_doorbell(&ends[0], 0));
	CHECK(!ibv_modify_qp(ends[0].qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	CHECK(next_event(&sides[0], &event, 100) < 0);
	post_receive(&ends[1], (uintptr_t)sides[1].memory, 8, sides[1].mr->lkey, 1);
	expect_event(&ends[0], IBV_EVENT_SQ_DRAINED);
	CHECK(completion(&ends[0], 10).status == IBV_WC_SUCCESS);
	free_pair(ends);
}

/* What a peer must not ask for. */
static void refused(void)
{
	uint64_t base = (uintptr_t)sides[1].memory;
	struct rxe_send_wqe *wqe;
	struct end ends[2];

	new_pair(ends);
	wqe = prepare(&ends[0]);
	wqe->wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wqe->wr.wr.atomic.remote_addr = base + 1;
	wqe->wr.wr.atomic.rkey = sides[1].mr->rkey;
	expect_send(&ends[0], IBV_WC_REM_INV_REQ_ERR, "address of no word", 1);
	expect_event(&ends[1], IBV_EVENT_QP_REQ_ERR);
	free_pair(ends);
	new_pair(ends);
	prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, base, sides[1].mr->rkey ^ UNKNOWN_KEY, 8);
	expect_send(&ends[0], IBV_WC_REM_ACCESS_ERR, "unknown key", 0);
	expect_event(&ends[1], IBV_EVENT_QP_ACCESS_ERR);
	free_pair(ends);
}

/* A queue of completions that is full takes its queue pair along. */
static void full(void)
{
	struct ibv_async_event event;
	struct end ends[2];

	new_pair(ends);
	/* One more than the queue holds. */
	for (int i = 0; i < 64; i++) {
		double limit = now() + 10;
		uint32_t before = ends[0].sends.buf->consumer_index;

		prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory,
			       sides[1].mr->rkey, 8);
		produce(ends[0].sends.buf);
		CHECK(!ring_doorbell(&ends[0], 0));
		while (((volatile struct rxe_queue_buf *)ends[0].sends.buf)->consumer_index ==
		       before)
			CHECK(now() < limit);
	}
	/* The order of both is not defined. */
	for (int seen = 0; seen != 3;) {
		int type = next_event(&sides[0], &event, 10000);

		CHECK(type == IBV_EVENT_CQ_ERR || type == IBV_EVENT_QP_FATAL);
		if (type == IBV_EVENT_CQ_ERR)
			CHECK(event.element.cq == ends[0].cq);
		else
			CHECK(event.element.qp == ends[0].qp);
		seen |= type == IBV_EVENT_CQ_ERR ? 1 : 2;
	}
	free_pair(ends);
}

/* RNIC-EVT-01, RNIC-EVT-02: no event of a queue pair follows its end. */
void queue_pair_events(void)
{
	struct ibv_async_event event;

	established();
	drained();
	refused();
	full();
	expect_service();
	for (int i = 0; i < 2; i++)
		CHECK(next_event(&sides[i], &event, 50) < 0);
}

/* RNIC-EVT-01: the caller takes the port of side 0 down and up again. */
void port_events(void)
{
	struct ibv_async_event event;

	await_change();
	await_event(&sides[0], &event, IBV_EVENT_PORT_ERR);
	CHECK(event.element.port_num == 1);
	await_change();
	await_event(&sides[0], &event, IBV_EVENT_PORT_ACTIVE);
	CHECK(event.element.port_num == 1);
	/* The caller adds an address. */
	await_change();
	await_event(&sides[0], &event, IBV_EVENT_GID_CHANGE);
}

/* RNIC-NET-04: the caller removes the address of side 0. */
void lost_address(void)
{
	struct end ends[2];

	new_pair(ends);
	/* The way is used before. */
	memset(sides[0].memory, 1, 8);
	prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory + TARGET,
		       sides[1].mr->rkey, 8);
	expect_send(&ends[0], IBV_WC_SUCCESS, "with the address", 0);
	await_change();
	/* What arrives is dropped: no octet of it is placed. */
	memset(sides[0].memory + TARGET, 2, 8);
	memset(sides[1].memory, 3, 8);
	prepare_remote(&ends[1], IBV_WR_RDMA_WRITE, (uintptr_t)sides[0].memory + TARGET,
		       sides[0].mr->rkey, 8);
	expect_send(&ends[1], IBV_WC_RETRY_EXC_ERR, "to no address", 0);
	CHECK(sides[0].memory[TARGET] == 2);
	/* What is sent is lost. */
	memset(sides[0].memory, 4, 8);
	prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory + TARGET,
		       sides[1].mr->rkey, 8);
	expect_send(&ends[0], IBV_WC_RETRY_EXC_ERR, "from no address", 0);
	CHECK(sides[1].memory[TARGET] == 1);
	free_pair(ends);
}

/* RNIC-IP-09: the caller gives the peer's address a route by another device. */
void lost_route(void)
{
	struct end ends[2];

	new_pair(ends);
	prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory,
		       sides[1].mr->rkey, 8);
	expect_send(&ends[0], IBV_WC_SUCCESS, "by its device", 0);
	await_change();
	prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory,
		       sides[1].mr->rkey, 8);
	expect_send(&ends[0], IBV_WC_RETRY_EXC_ERR, "by another device", 0);
	free_pair(ends);
}

/* RNIC-IP-09: an address of this host that no device has. What is sent there is lost. */
void nowhere(void)
{
	/* fd09:8::1 */
	static const union ibv_gid address = { .raw = { 0xfd, 0x09, 0, 8, [15] = 1 } };
	struct ibv_qp_attr attr;
	struct end ends[2];

	attr = new_hasty_pair(ends, 10, 1);
	attr.ah_attr.grh.dgid = address;
	begin_to_receive(&ends[0], attr);
	begin_to_send(&ends[0], attr);
	prepare(&ends[0]);
	expect_send(&ends[0], IBV_WC_RETRY_EXC_ERR, "nowhere", 0);
	free_pair(ends);
}

/* RNIC-NET-06: the caller makes both network devices too small for packets of the path MTU. */
void smaller_mtu(void)
{
	struct end pairs[2][2];
	struct ibv_async_event event;
	struct ibv_port_attr port;

	path_mtu = IBV_MTU_2048;
	for (int i = 0; i < 2; i++)
		new_pair(pairs[i]);
	CHECK(!ibv_query_port(sides[0].ctx, 1, &port) && port.active_mtu == IBV_MTU_4096);
	await_change();
	CHECK(!ibv_query_port(sides[0].ctx, 1, &port) && port.active_mtu == IBV_MTU_1024);
	prepare_remote(&pairs[0][0], IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory,
		       sides[1].mr->rkey, 2048);
	expect_send(&pairs[0][0], IBV_WC_RETRY_EXC_ERR, "packet that is too long", 2048);
	prepare_remote(&pairs[1][0], IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory,
		       sides[1].mr->rkey, 512);
	expect_send(&pairs[1][0], IBV_WC_SUCCESS, "short packet", 512);
	for (int i = 0; i < 2; i++)
		CHECK(next_event(&sides[i], &event, 0) < 0);
	for (int i = 0; i < 2; i++)
		free_pair(pairs[i]);
}

/* Data until the caller takes the device away. */
void stream(void)
{
	struct end ends[2];

	new_pair(ends);
	for (int round = 0;; round++) {
		prepare_remote(&ends[0], IBV_WR_RDMA_WRITE, (uintptr_t)sides[1].memory,
			       sides[1].mr->rkey, REGION);
		produce(ends[0].sends.buf);
		if (ring_doorbell(&ends[0], 0) ||
		    completion(&ends[0], 5).status != IBV_WC_SUCCESS)
			break;
		if (round == 10)
			await_change();
	}
}

/* RNIC-LIFE-04: a packet leaves its queue pair behind. The caller makes the network slow. */
void packets_under_way(void)
{
	struct end ends[2];

	new_pair(ends);
	prepare(&ends[0]);
	produce(ends[0].sends.buf);
	CHECK(!ring_doorbell(&ends[0], 0));
	CHECK((int)completion(&ends[0], 0.1).status == -1);
	free_pair(ends);
}
