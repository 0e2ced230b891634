/* SPDX-License-Identifier: GPL-2.0 */
/* The event with payload, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_CAPTURE_H
#define RDMA_SOCK_HELPERS_CAPTURE_H

#include <net/sock.h>

bool rdma_sock_helper_captures(void);
void rdma_sock_helper_capture(const struct sock *sk, bool sent, u64 position, const u8 *octets,
			      size_t len);

#endif
