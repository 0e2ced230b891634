// SPDX-License-Identifier: GPL-2.0
/*
 * io_uring's zero-copy receive reads the queue of any sock whose protocol receives by
 * tcp_recvmsg(), and asks no operation of the socket. Such a sock of ours has a protocol that
 * receives by another function while its queue is not for the program, and is TCP's own in all
 * else.
 */

#include "helpers_hide.h"

#include <net/tcp.h>
#include <net/transp_v6.h>

static struct proto hidden, hidden6;

static int hidden_recvmsg(struct sock *sk, struct msghdr *msg, size_t len, int flags)
{
	return tcp_prot.recvmsg(sk, msg, len, flags);
}

static void copy(struct proto *to, const struct proto *from)
{
	*to = *from;
	to->recvmsg = hidden_recvmsg;
}

/* Before the first socket; later calls find it done. */
void rdma_sock_helper_hide_init(void)
{
	if (hidden.recvmsg)
		return;
	copy(&hidden6, &tcpv6_prot);
	copy(&hidden, &tcp_prot);
}

bool rdma_sock_helper_is_hidden(const struct sock *sk)
{
	const struct proto *prot = READ_ONCE(sk->sk_prot);

	return prot == &hidden || prot == &hidden6;
}

/* An IPv6 sock that becomes an IPv4 one (IPV6_ADDRFORM) meanwhile keeps its protocol. */
void rdma_sock_helper_hide_queue(struct sock *sk, bool on)
{
	if (on) {
		cmpxchg(&sk->sk_prot, &tcp_prot, &hidden);
		cmpxchg(&sk->sk_prot, &tcpv6_prot, &hidden6);
	} else {
		cmpxchg(&sk->sk_prot, &hidden, &tcp_prot);
		cmpxchg(&sk->sk_prot, &hidden6, &tcpv6_prot);
	}
}
