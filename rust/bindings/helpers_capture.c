// SPDX-License-Identifier: GPL-2.0
/* The event with payload, as functions Rust can call. */

#include "helpers_capture.h"

#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>

/* What the event says: a part of the stream of a connection, with both ends. */
struct rdma_sock_payload {
	u64 net_cookie;
	u64 inode;
	/* Octets of this direction in front of the part. */
	u64 position;
	struct in6_addr addr, peer;
	u16 port, peer_port;
	bool sent;
	const u8 *octets;
	size_t len;
};

#define CREATE_TRACE_POINTS
#include "rdma_sock_capture.h"

static void set_addresses(struct rdma_sock_payload *payload, const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		payload->addr = sk->sk_v6_rcv_saddr;
		payload->peer = sk->sk_v6_daddr;
		return;
	}
#endif
	ipv6_addr_set_v4mapped(inet_sk(sk)->inet_rcv_saddr, &payload->addr);
	ipv6_addr_set_v4mapped(inet_sk(sk)->inet_daddr, &payload->peer);
}

bool rdma_sock_helper_captures(void)
{
	return trace_rdma_sock_payload_enabled();
}

/* The caller holds the sock lock. */
void rdma_sock_helper_capture(const struct sock *sk, bool sent, u64 position, const u8 *octets,
			      size_t len)
{
	const struct socket *sock = sk->sk_socket;
	struct rdma_sock_payload payload = {
		.net_cookie = sock_net(sk)->net_cookie,
		.inode = sock ? SOCK_INODE((struct socket *)sock)->i_ino : 0,
		.position = position,
		.port = inet_sk(sk)->inet_num,
		.peer_port = ntohs(inet_sk(sk)->inet_dport),
		.sent = sent,
		.octets = octets,
		.len = len,
	};

	set_addresses(&payload, sk);
	trace_rdma_sock_payload(&payload);
}
