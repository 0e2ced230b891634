/* SPDX-License-Identifier: GPL-2.0 */
/* Events for tracing, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_TRACE_H
#define RDMA_SOCK_HELPERS_TRACE_H

#include <net/sock.h>

bool rdma_sock_helper_traces_sent(void);
bool rdma_sock_helper_traces_received(void);
void rdma_sock_helper_trace_sent(const struct sock *sk, size_t octets, const u8 *device,
				 size_t len);
void rdma_sock_helper_trace_received(const struct sock *sk, size_t octets, const u8 *device,
				     size_t len);
void rdma_sock_helper_trace_fallback(const struct sock *sk, u32 reason);
void rdma_sock_helper_trace_link_down(const void *link, const void *group, u64 net_cookie,
				      int state, const u8 *device, size_t len);

#endif
