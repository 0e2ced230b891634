// SPDX-License-Identifier: GPL-2.0
/* Control messages of recvmsg(), as functions Rust can call. */

#include "helpers_cmsg.h"

#include <linux/tcp.h>
#include <net/scm.h>
#include <net/tcp.h>

bool rdma_sock_helper_wants_inq(const struct sock *sk)
{
	return tcp_sk(sk)->recvmsg_inq;
}

bool rdma_sock_helper_msg_wants_inq(const struct msghdr *msg)
{
	return msg->msg_get_inq;
}

void rdma_sock_helper_msg_put_inq(struct msghdr *msg, int inq, bool cmsg)
{
	msg->msg_inq = inq;
	if (cmsg)
		put_cmsg(msg, SOL_TCP, TCP_CM_INQ, sizeof(inq), &inq);
}

/* Those two flags are what makes the stack give packets a time for this sock. */
bool rdma_sock_helper_wants_time(const struct sock *sk)
{
	return sock_flag(sk, SOCK_RCVTSTAMP) || sock_flag(sk, SOCK_TIMESTAMPING_RX_SOFTWARE);
}

static void put_timestamp(struct msghdr *msg, const struct sock *sk, struct timespec64 ts)
{
	bool new = sock_flag(sk, SOCK_TSTAMP_NEW);

	if (sock_flag(sk, SOCK_RCVTSTAMPNS) && new) {
		struct __kernel_timespec value = { ts.tv_sec, ts.tv_nsec };

		put_cmsg(msg, SOL_SOCKET, SO_TIMESTAMPNS_NEW, sizeof(value), &value);
	} else if (sock_flag(sk, SOCK_RCVTSTAMPNS)) {
		struct __kernel_old_timespec value = { ts.tv_sec, ts.tv_nsec };

		put_cmsg(msg, SOL_SOCKET, SO_TIMESTAMPNS_OLD, sizeof(value), &value);
	} else if (new) {
		struct __kernel_sock_timeval value = { ts.tv_sec, ts.tv_nsec / NSEC_PER_USEC };

		put_cmsg(msg, SOL_SOCKET, SO_TIMESTAMP_NEW, sizeof(value), &value);
	} else {
		struct __kernel_old_timeval value = { ts.tv_sec, ts.tv_nsec / NSEC_PER_USEC };

		put_cmsg(msg, SOL_SOCKET, SO_TIMESTAMP_OLD, sizeof(value), &value);
	}
}

/* As tcp_recv_timestamp() does it, for a time of the system clock. */
void rdma_sock_helper_msg_put_time(struct msghdr *msg, const struct sock *sk, u64 ns)
{
	struct scm_timestamping_internal times = { .ts = { ns_to_ktime(ns) } };
	u32 flags = READ_ONCE(sk->sk_tsflags);

	if (sock_flag(sk, SOCK_RCVTSTAMP))
		put_timestamp(msg, sk, ns_to_timespec64(ns));
	if (!(flags & SOF_TIMESTAMPING_SOFTWARE))
		return;
	if ((flags & SOF_TIMESTAMPING_OPT_RX_FILTER) && !(flags & SOF_TIMESTAMPING_RX_SOFTWARE))
		return;
	if (sock_flag(sk, SOCK_TSTAMP_NEW))
		put_cmsg_scm_timestamping64(msg, &times);
	else
		put_cmsg_scm_timestamping(msg, &times);
}

/* TCP takes control messages of the level SOL_SOCKET, and says EINVAL to wrong ones. */
int rdma_sock_helper_check_control(struct sock *sk, struct msghdr *msg)
{
	struct sockcm_cookie cookie = { .tsflags = READ_ONCE(sk->sk_tsflags) };

	if (!msg->msg_controllen)
		return 0;
	return sock_cmsg_send(sk, msg, &cookie) ? -EINVAL : 0;
}
