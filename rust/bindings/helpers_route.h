/* SPDX-License-Identifier: GPL-2.0 */
#ifndef RDMA_SOCK_HELPERS_ROUTE_H
#define RDMA_SOCK_HELPERS_ROUTE_H

#include <linux/types.h>

struct net;

/* net/route.h, net/neighbour.h */
int rdma_sock_helper_next_hop(struct net *net, __be32 from, __be32 to, u8 *mac,
			      bool *gateway);
/* net/ip6_route.h */
int rdma_sock_helper_next_hop6(struct net *net, const u8 *from, const u8 *to, u8 *mac,
			       bool *gateway);

#endif /* RDMA_SOCK_HELPERS_ROUTE_H */
