/* SPDX-License-Identifier: GPL-2.0 */
/* The generic netlink family of SMC, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_GENL_H
#define RDMA_SOCK_HELPERS_GENL_H

#include <linux/netlink.h>
#include <linux/skbuff.h>
#include <net/net_namespace.h>

u8 rdma_sock_helper_genl_command(struct netlink_callback *cb);
int rdma_sock_helper_genl_put(struct sk_buff *skb, const struct netlink_callback *cb,
			      u8 command, const void *body, size_t len);
int rdma_sock_helper_genl_register(int (*dump)(struct sk_buff *skb,
					       struct netlink_callback *cb),
				   int (*change)(struct net *net, u8 command,
						 const void *value, size_t len));
void rdma_sock_helper_genl_unregister(void);

#endif
