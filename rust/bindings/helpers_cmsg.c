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
