// SPDX-License-Identifier: GPL-2.0
/* Events for tracing, as functions Rust can call. */

#include "helpers_trace.h"

#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>

#define CREATE_TRACE_POINTS
#include "rdma_sock_trace.h"

/* The name of a device with a nul. */
struct name {
	char text[IB_DEVICE_NAME_MAX];
};

static struct name name_of(const u8 *device, size_t len)
{
	struct name name = {};

	memcpy(name.text, device, min(len, sizeof(name.text) - 1));
	return name;
}

bool rdma_sock_helper_traces_sent(void)
{
	return trace_smc_tx_sendmsg_enabled();
}

bool rdma_sock_helper_traces_received(void)
{
	return trace_smc_rx_recvmsg_enabled();
}

void rdma_sock_helper_trace_sent(const struct sock *sk, size_t octets, const u8 *device,
				 size_t len)
{
	struct name name = name_of(device, len);

	trace_smc_tx_sendmsg(sk, sock_net(sk)->net_cookie, octets, name.text);
}

void rdma_sock_helper_trace_received(const struct sock *sk, size_t octets, const u8 *device,
				     size_t len)
{
	struct name name = name_of(device, len);

	trace_smc_rx_recvmsg(sk, sock_net(sk)->net_cookie, octets, name.text);
}

void rdma_sock_helper_trace_fallback(const struct sock *sk, u32 reason)
{
	trace_smc_switch_to_fallback(sk, sock_net(sk)->net_cookie, reason);
}

void rdma_sock_helper_trace_link_down(const void *link, const void *group, u64 net_cookie,
				      int state, const u8 *device, size_t len)
{
	struct name name = name_of(device, len);

	trace_smcr_link_down(link, group, net_cookie, state, name.text,
			     __builtin_return_address(0));
}
