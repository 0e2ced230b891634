// SPDX-License-Identifier: GPL-2.0
/* TCP socks whose connection is not one of TCP. */

#include "helpers_child.h"

#include <linux/bpf-cgroup.h>
#include <linux/net.h>
#include <linux/security.h>
#include <net/inet_common.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include <net/tcp.h>

/* The flags of a sock that a child has from its listener. */
static const enum sock_flags inherited[] = {
	SOCK_DBG,	  SOCK_KEEPOPEN,	 SOCK_LINGER,	  SOCK_LOCALROUTE,
	SOCK_URGINLINE,	  SOCK_ZEROCOPY,	 SOCK_RCVTSTAMP, SOCK_RCVTSTAMPNS,
	SOCK_TSTAMP_NEW, SOCK_TIMESTAMPING_ANY, SOCK_RCVMARK,	  SOCK_RCVPRIORITY,
};

static void inherit_sock(struct sock *sk, const struct sock *from)
{
	unsigned long times = from->sk_flags & SK_FLAGS_TIMESTAMP;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(inherited); i++)
		sock_valbool_flag(sk, inherited[i], sock_flag(from, inherited[i]));
	if (times && !(sk->sk_flags & SK_FLAGS_TIMESTAMP))
		net_enable_timestamp();
	sk->sk_flags |= times;
	WRITE_ONCE(sk->sk_tsflags, READ_ONCE(from->sk_tsflags));
	WRITE_ONCE(sk->sk_rcvbuf, READ_ONCE(from->sk_rcvbuf));
	WRITE_ONCE(sk->sk_sndbuf, READ_ONCE(from->sk_sndbuf));
	sk->sk_userlocks |= from->sk_userlocks & (SOCK_SNDBUF_LOCK | SOCK_RCVBUF_LOCK);
	WRITE_ONCE(sk->sk_rcvlowat, READ_ONCE(from->sk_rcvlowat));
	WRITE_ONCE(sk->sk_rcvtimeo, READ_ONCE(from->sk_rcvtimeo));
	WRITE_ONCE(sk->sk_sndtimeo, READ_ONCE(from->sk_sndtimeo));
	sk->sk_lingertime = from->sk_lingertime;
	WRITE_ONCE(sk->sk_priority, READ_ONCE(from->sk_priority));
	WRITE_ONCE(sk->sk_mark, READ_ONCE(from->sk_mark));
	WRITE_ONCE(sk->sk_bound_dev_if, READ_ONCE(from->sk_bound_dev_if));
	WRITE_ONCE(sk->sk_incoming_cpu, READ_ONCE(from->sk_incoming_cpu));
	WRITE_ONCE(sk->sk_uid, READ_ONCE(from->sk_uid));
#ifdef CONFIG_NET_RX_BUSY_POLL
	WRITE_ONCE(sk->sk_ll_usec, READ_ONCE(from->sk_ll_usec));
#endif
}

static void inherit_tcp(struct sock *sk, const struct sock *from)
{
	struct inet_sock *inet = inet_sk(sk);
	const struct inet_sock *listener = inet_sk(from);
	struct tcp_sock *tp = tcp_sk(sk);
	const struct tcp_sock *parent = tcp_sk(from);

	WRITE_ONCE(inet->tos, READ_ONCE(listener->tos));
	WRITE_ONCE(inet->uc_ttl, READ_ONCE(listener->uc_ttl));
	inet_assign_bit(RECVERR, sk, inet_test_bit(RECVERR, from));
	inet_assign_bit(FREEBIND, sk, inet_test_bit(FREEBIND, from));
	tp->nonagle = parent->nonagle;
	WRITE_ONCE(tp->keepalive_time, READ_ONCE(parent->keepalive_time));
	WRITE_ONCE(tp->keepalive_intvl, READ_ONCE(parent->keepalive_intvl));
	WRITE_ONCE(tp->keepalive_probes, READ_ONCE(parent->keepalive_probes));
	WRITE_ONCE(tp->notsent_lowat, READ_ONCE(parent->notsent_lowat));
	WRITE_ONCE(tp->linger2, READ_ONCE(parent->linger2));
	tp->recvmsg_inq = parent->recvmsg_inq;
	WRITE_ONCE(inet_csk(sk)->icsk_user_timeout, READ_ONCE(inet_csk(from)->icsk_user_timeout));
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		inet6_sk(sk)->tclass = inet6_sk(from)->tclass;
		inet6_sk(sk)->hop_limit = inet6_sk(from)->hop_limit;
		inet6_assign_bit(RECVERR6, sk, inet6_test_bit(RECVERR6, from));
		sk->sk_ipv6only = from->sk_ipv6only;
	}
#endif
}

struct socket *rdma_sock_helper_new_child(struct sock *listener, int *err)
{
	struct socket *sock;

	*err = __sock_create(sock_net(listener), listener->sk_family, SOCK_STREAM, IPPROTO_TCP,
			     &sock, 1);
	if (*err)
		return NULL;
	/* It is a program's from accept on, and keeps the namespace as those are. */
	sk_net_refcnt_upgrade(sock->sk);
	lock_sock(sock->sk);
	inherit_sock(sock->sk, listener);
	inherit_tcp(sock->sk, listener);
	security_sk_clone(listener, sock->sk);
	release_sock(sock->sk);
	return sock;
}

/* Addresses for getsockname() and getpeername(). IPv4 addresses are given as mapped ones. */
void rdma_sock_helper_set_addrs(struct sock *sk, const u8 *local, __be16 sport, const u8 *peer,
				__be16 dport)
{
	struct inet_sock *inet = inet_sk(sk);

	inet->inet_sport = sport;
	inet->inet_dport = dport;
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		memcpy(&sk->sk_v6_rcv_saddr, local, sizeof(sk->sk_v6_rcv_saddr));
		inet6_sk(sk)->saddr = sk->sk_v6_rcv_saddr;
		memcpy(&sk->sk_v6_daddr, peer, sizeof(sk->sk_v6_daddr));
		return;
	}
#endif
	memcpy(&inet->inet_rcv_saddr, local + 12, sizeof(inet->inet_rcv_saddr));
	inet->inet_saddr = inet->inet_rcv_saddr;
	memcpy(&inet->inet_daddr, peer + 12, sizeof(inet->inet_daddr));
}

bool rdma_sock_helper_takes_ipv4(const struct sock *sk)
{
	return sk->sk_family == AF_INET || !ipv6_only_sock(sk);
}

/* inet_num is only that of a bound sock. */
u16 rdma_sock_helper_bound_port(const struct sock *sk)
{
	return READ_ONCE(inet_sk(sk)->inet_num);
}

void rdma_sock_helper_set_socket_state(struct socket *sock, int state)
{
	sock->state = state;
}

/* Asks the programs of the cgroup, which may change the address. */
int rdma_sock_helper_pre_connect(struct sock *sk, void *addr, int len)
{
	if (!BPF_CGROUP_PRE_CONNECT_ENABLED(sk) || !sk->sk_prot->pre_connect)
		return 0;
	return sk->sk_prot->pre_connect(sk, addr, len);
}

/* With the lock of the sock held. Begins and does not wait: -EINPROGRESS is success. */
int rdma_sock_helper_start_connect(struct sock *sk, void *addr, int len)
{
	struct socket *sock = sk->sk_socket;

	if (!sock)
		return -ENOTCONN;
	sock->state = SS_UNCONNECTED;
	return __inet_stream_connect(sock, addr, len, O_NONBLOCK, 0);
}

void rdma_sock_helper_set_err(struct sock *sk, int err)
{
	WRITE_ONCE(sk->sk_err, err);
}
