// SPDX-License-Identifier: GPL-2.0
/* Routes and neighbours, as functions Rust can call. */

#include "helpers_route.h"

#include <net/arp.h>
#include <net/ip6_route.h>
#include <net/route.h>

/*
 * The address of the neighbour that packets to an address go to first. One that is not known yet is
 * asked for, and -EAGAIN returned.
 */
static int neighbour_address(struct dst_entry *dst, const void *to, u8 *mac)
{
	struct neighbour *neigh;
	int ret = 0;

	neigh = dst_neigh_lookup(dst, to);
	if (!neigh)
		return -ENOENT;
	if (neigh->dev->addr_len != ETH_ALEN) {
		ret = -ENOENT;
	} else if (READ_ONCE(neigh->nud_state) & NUD_VALID) {
		neigh_ha_snapshot(mac, neigh, neigh->dev);
	} else {
		neigh_event_send(neigh, NULL);
		ret = -EAGAIN;
	}
	neigh_release(neigh);
	return ret;
}

/* Whether the route has a gateway and, if so, the address of that. */
int rdma_sock_helper_next_hop(struct net *net, __be32 from, __be32 to, u8 *mac,
			      bool *gateway)
{
	struct flowi4 flow = { .saddr = from, .daddr = to };
	struct rtable *route;
	int ret = 0;

	route = ip_route_output_flow(net, &flow, NULL);
	if (IS_ERR(route))
		return PTR_ERR(route);
	*gateway = route->rt_uses_gateway;
	if (*gateway)
		ret = neighbour_address(&route->dst, &flow.daddr, mac);
	ip_rt_put(route);
	return ret;
}

/* The same with the 16 octets of IPv6 addresses. */
int rdma_sock_helper_next_hop6(struct net *net, const u8 *from, const u8 *to, u8 *mac,
			       bool *gateway)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct flowi6 flow = {};
	struct dst_entry *dst;
	int ret;

	memcpy(&flow.saddr, from, sizeof(flow.saddr));
	memcpy(&flow.daddr, to, sizeof(flow.daddr));
	dst = ip6_route_output(net, NULL, &flow);
	ret = dst->error;
	if (!ret) {
		*gateway = dst_rt6_info(dst)->rt6i_flags & RTF_GATEWAY;
		if (*gateway)
			ret = neighbour_address(dst, &flow.daddr, mac);
	}
	dst_release(dst);
	return ret;
#else
	return -EAFNOSUPPORT;
#endif
}
