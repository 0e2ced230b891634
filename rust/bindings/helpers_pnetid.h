/* SPDX-License-Identifier: GPL-2.0 */
/* The generic netlink family of the table of physical networks, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_PNETID_H
#define RDMA_SOCK_HELPERS_PNETID_H

#include <linux/netlink.h>
#include <linux/skbuff.h>
#include <net/net_namespace.h>

int rdma_sock_helper_pnetid_put(struct sk_buff *skb, const struct netlink_callback *cb,
				const void *body, size_t len);
int rdma_sock_helper_pnetid_reply(void *reply, const void *body, size_t len);
int rdma_sock_helper_pnetid_register(int (*dump)(struct sk_buff *skb,
						 struct netlink_callback *cb),
				     int (*find)(struct net *net, const char *id,
						 void *reply),
				     int (*change)(struct net *net, u8 command,
						   const char *id, const char *netdev,
						   const char *device, const u8 *port));
void rdma_sock_helper_pnetid_unregister(void);

#endif
