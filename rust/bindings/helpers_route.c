// SPDX-License-Identifier: GPL-2.0
/* Routes and neighbours, as functions Rust can call. */

#include "helpers_route.h"

#include <net/arp.h>
#include <net/route.h>

/*
 * Whether the route has a gateway and, if so, the address of that. One that is not known yet is
 * asked for, and -EAGAIN returned.
 */
int rdma_sock_helper_next_hop(struct net *net, __be32 from, __be32 to, u8 *mac,
			      bool *gateway)
{
	struct flowi4 flow = { .saddr = from, .daddr = to };
	struct neighbour *neigh;
	struct rtable *route;
	int ret = 0;

	route = ip_route_output_flow(net, &flow, NULL);
	if (IS_ERR(route))
		return PTR_ERR(route);
	*gateway = route->rt_uses_gateway;
	if (!*gateway)
		goto out;
	neigh = dst_neigh_lookup(&route->dst, &flow.daddr);
	if (!neigh || neigh->dev->addr_len != ETH_ALEN) {
		if (neigh)
			neigh_release(neigh);
		ret = -ENOENT;
		goto out;
	}
	if (READ_ONCE(neigh->nud_state) & NUD_VALID) {
		neigh_ha_snapshot(mac, neigh, neigh->dev);
	} else {
		neigh_event_send(neigh, NULL);
		ret = -EAGAIN;
	}
	neigh_release(neigh);
out:
	ip_rt_put(route);
	return ret;
}
