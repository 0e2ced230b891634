/* SPDX-License-Identifier: GPL-2.0 */
/* TCP socks whose connection is not one of TCP. */
#ifndef RDMA_SOCK_HELPERS_CHILD_H
#define RDMA_SOCK_HELPERS_CHILD_H

#include <net/sock.h>

struct socket *rdma_sock_helper_new_child(struct sock *listener, int *err);
void rdma_sock_helper_set_addrs(struct sock *sk, const u8 *local, __be16 sport, const u8 *peer,
				__be16 dport);
bool rdma_sock_helper_takes_ipv4(const struct sock *sk);
u16 rdma_sock_helper_bound_port(const struct sock *sk);
void rdma_sock_helper_set_socket_state(struct socket *sock, int state);
int rdma_sock_helper_pre_connect(struct sock *sk, void *addr, int len);
int rdma_sock_helper_start_connect(struct sock *sk, void *addr, int len);
void rdma_sock_helper_set_err(struct sock *sk, int err);

#endif
