/* SPDX-License-Identifier: GPL-2.0 */
/* Requests and replies on netlink, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_NETLINK_H
#define RDMA_SOCK_HELPERS_NETLINK_H

#include <linux/netlink.h>
#include <linux/skbuff.h>
#include <net/sock.h>

struct genl_family;

/* A dump under way. */
u64 *rdma_sock_helper_dump_place(struct netlink_callback *cb);
struct net *rdma_sock_helper_dump_net(const struct netlink_callback *cb);
const void *rdma_sock_helper_dump_request(const struct netlink_callback *cb,
					  size_t *len);
u32 rdma_sock_helper_dump_uid(const struct netlink_callback *cb,
			      const struct sock *sk);
size_t rdma_sock_helper_skb_len(const struct sk_buff *skb);
void rdma_sock_helper_skb_cut(struct sk_buff *skb, size_t len);

/* A message of a generic netlink family, for the other files here. */
int rdma_sock_genl_append(struct sk_buff *skb, u32 portid, u32 seq,
			  const struct genl_family *family, u8 command,
			  const void *body, size_t len);

/* linux/sock_diag.h */
u64 rdma_sock_helper_sk_cookie(struct sock *sk);
int rdma_sock_helper_diag_put(struct sk_buff *skb, const struct netlink_callback *cb,
			      const void *body, size_t len);
int rdma_sock_helper_diag_register(u8 family,
				   int (*dump)(struct sk_buff *skb,
					       struct netlink_callback *cb));
void rdma_sock_helper_diag_unregister(void);

#endif
