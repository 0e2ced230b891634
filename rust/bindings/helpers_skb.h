/* SPDX-License-Identifier: GPL-2.0 */
/* TCP segments that a netfilter hook sees, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_SKB_H
#define RDMA_SOCK_HELPERS_SKB_H

#include <linux/netfilter.h>
#include <linux/skbuff.h>
#include <net/sock.h>

/* linux/skbuff.h, net/ip.h, net/ipv6.h, linux/tcp.h: outgoing and incoming segments */
struct sock *rdma_sock_helper_skb_sk(const struct sk_buff *skb);
u8 *rdma_sock_helper_skb_tcp(const struct sk_buff *skb);
u32 rdma_sock_helper_skb_tail_len(const struct sk_buff *skb);
bool rdma_sock_helper_skb_is_plain_tcp(const struct sk_buff *skb, u8 pf);
bool rdma_sock_helper_sk_is_tcp(const struct sock *sk);
u8 *rdma_sock_helper_skb_append(struct sk_buff *skb, u32 len);
void rdma_sock_helper_skb_lengthen(struct sk_buff *skb, u8 pf);
void rdma_sock_helper_skb_tcp_csum(struct sk_buff *skb, u8 pf);
bool rdma_sock_helper_skb_pull_tcp(struct sk_buff *skb, u8 pf, u32 *offset);
u32 rdma_sock_helper_skb_header(const struct sk_buff *skb, u32 offset, u8 *to);
struct sock *rdma_sock_helper_skb_lookup(struct net *net, struct sk_buff *skb,
					 u8 pf, u32 offset);
void rdma_sock_helper_sock_gen_put(struct sock *sk);

#endif
