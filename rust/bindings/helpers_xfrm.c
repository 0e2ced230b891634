// SPDX-License-Identifier: GPL-2.0
/* IPsec of a sock, as functions Rust can call. */

#include "helpers_xfrm.h"

#include <linux/in.h>
#include <linux/in6.h>
#include <linux/socket.h>
#include <net/dst.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/route.h>
#include <net/sock.h>
#include <net/xfrm.h>

#ifdef CONFIG_XFRM

bool rdma_sock_helper_xfrm_socket(const struct sock *sk)
{
	return rcu_access_pointer(sk->sk_policy[XFRM_POLICY_IN]) ||
	       rcu_access_pointer(sk->sk_policy[XFRM_POLICY_OUT]);
}

bool rdma_sock_helper_xfrm_path(struct sock *sk)
{
	const struct dst_entry *dst;
	bool found;

	rcu_read_lock();
	dst = rcu_dereference(sk->sk_dst_cache);
	found = dst && dst_xfrm(dst);
	rcu_read_unlock();
	return found;
}

/* A route that drops everything stands for keys that have not been agreed on. */
static bool is_protected(struct dst_entry *dst)
{
	bool found = dst_xfrm(dst) || dst->output == dst_discard_out;

	dst_release(dst);
	return found;
}

static bool route4(struct sock *sk, __be32 daddr, __be16 dport)
{
	const struct inet_sock *inet = inet_sk(sk);
	struct flowi4 fl4;
	struct rtable *rt;

	rt = ip_route_connect(&fl4, daddr, inet->inet_saddr,
			      READ_ONCE(sk->sk_bound_dev_if), IPPROTO_TCP,
			      inet->inet_sport, dport, sk);
	return !IS_ERR(rt) && is_protected(&rt->dst);
}

static bool route6(struct sock *sk, const struct sockaddr_in6 *to)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct flowi6 fl6 = {
		.flowi6_proto = IPPROTO_TCP,
		.daddr = to->sin6_addr,
		.saddr = sk->sk_v6_rcv_saddr,
		.flowi6_oif = READ_ONCE(sk->sk_bound_dev_if) ?: to->sin6_scope_id,
		.flowi6_mark = READ_ONCE(sk->sk_mark),
		.fl6_dport = to->sin6_port,
		.fl6_sport = inet_sk(sk)->inet_sport,
		.flowi6_uid = sk_uid(sk),
	};
	struct dst_entry *dst;

	security_sk_classify_flow(sk, flowi6_to_flowi_common(&fl6));
	dst = ip6_dst_lookup_flow(sock_net(sk), sk, &fl6, NULL);
	return !IS_ERR(dst) && is_protected(dst);
#else
	return false;
#endif
}

bool rdma_sock_helper_xfrm_route(struct sock *sk,
				 const struct sockaddr_unsized *addr, int len)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

	if (!READ_ONCE(sock_net(sk)->xfrm.policy_count[XFRM_POLICY_OUT]))
		return false;
	if (len >= (int)sizeof(*in) && in->sin_family == AF_INET)
		return route4(sk, in->sin_addr.s_addr, in->sin_port);
	if (len < SIN6_LEN_RFC2133 || in6->sin6_family != AF_INET6)
		return false;
	if (ipv6_addr_v4mapped(&in6->sin6_addr))
		return route4(sk, in6->sin6_addr.s6_addr32[3], in6->sin6_port);
	return len >= (int)sizeof(*in6) && route6(sk, in6);
}

#else

bool rdma_sock_helper_xfrm_socket(const struct sock *sk)
{
	return false;
}

bool rdma_sock_helper_xfrm_path(struct sock *sk)
{
	return false;
}

bool rdma_sock_helper_xfrm_route(struct sock *sk,
				 const struct sockaddr_unsized *addr, int len)
{
	return false;
}

#endif
