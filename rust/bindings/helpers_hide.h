/* SPDX-License-Identifier: GPL-2.0 */
/* TCP socks whose receive queue is not for the program that has the socket. */
#ifndef RDMA_SOCK_HELPERS_HIDE_H
#define RDMA_SOCK_HELPERS_HIDE_H

#include <net/sock.h>

void rdma_sock_helper_hide_init(void);
bool rdma_sock_helper_is_hidden(const struct sock *sk);
void rdma_sock_helper_hide_queue(struct sock *sk, bool on);

#endif /* RDMA_SOCK_HELPERS_HIDE_H */
