/* SPDX-License-Identifier: GPL-2.0 */
/* What recvmsg() tells beside the data. */
#ifndef RDMA_SOCK_HELPERS_CMSG_H
#define RDMA_SOCK_HELPERS_CMSG_H

#include <linux/socket.h>
#include <net/sock.h>

bool rdma_sock_helper_wants_inq(const struct sock *sk);
bool rdma_sock_helper_msg_wants_inq(const struct msghdr *msg);
bool rdma_sock_helper_wants_time(const struct sock *sk);
void rdma_sock_helper_msg_put_time(struct msghdr *msg, const struct sock *sk, u64 ns);
int rdma_sock_helper_check_control(struct sock *sk, struct msghdr *msg);
void rdma_sock_helper_msg_put_inq(struct msghdr *msg, int inq, bool cmsg);

#endif /* RDMA_SOCK_HELPERS_CMSG_H */
