/* SPDX-License-Identifier: GPL-2.0 */
/* The stream of a TCP sock that the kernel itself uses, with the lock of the sock held. */
#ifndef RDMA_SOCK_HELPERS_TCP_H
#define RDMA_SOCK_HELPERS_TCP_H

#include <net/sock.h>

struct sock *rdma_sock_helper_take_child(struct sock *sk, int *err);
int rdma_sock_helper_stream_send(struct sock *sk, void *data, size_t len);
int rdma_sock_helper_stream_recv(struct sock *sk, void *data, size_t len);
int rdma_sock_helper_stream_peek(struct sock *sk, void *data, size_t len);
void rdma_sock_helper_stream_abort(struct sock *sk, int err);
void rdma_sock_helper_set_missing_err(struct sock *sk, int err);

#endif
