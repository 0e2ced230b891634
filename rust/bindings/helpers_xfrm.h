/* SPDX-License-Identifier: GPL-2.0 */
#ifndef RDMA_SOCK_HELPERS_XFRM_H
#define RDMA_SOCK_HELPERS_XFRM_H

#include <linux/types.h>

struct sock;
struct sockaddr_unsized;

/* net/xfrm.h: IPsec. Without it in the kernel nothing is protected. */
bool rdma_sock_helper_xfrm_socket(const struct sock *sk);
bool rdma_sock_helper_xfrm_path(struct sock *sk);
bool rdma_sock_helper_xfrm_route(struct sock *sk,
				 const struct sockaddr_unsized *addr, int len);

#endif /* RDMA_SOCK_HELPERS_XFRM_H */
