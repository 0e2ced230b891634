// SPDX-License-Identifier: GPL-2.0
/* TCP segments that a netfilter hook sees, as functions Rust can call. */

#include "helpers_skb.h"

#include <net/inet6_hashtables.h>
#include <net/inet_hashtables.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>
#include <net/tcp.h>

/* linux/skbuff.h, net/ip.h, net/ipv6.h, linux/tcp.h */

struct sock *rdma_sock_helper_skb_sk(const struct sk_buff *skb)
{
	return skb->sk;
}

u8 *rdma_sock_helper_skb_tcp(const struct sk_buff *skb)
{
	return skb_transport_header(skb);
}

u32 rdma_sock_helper_skb_tail_len(const struct sk_buff *skb)
{
	return skb->len - skb_transport_offset(skb);
}

/* A tunnel sends what it wraps as a segment of the same sock, with the same transport header. */
bool rdma_sock_helper_skb_is_plain_tcp(const struct sk_buff *skb, u8 pf)
{
	int at = skb_network_offset(skb);
	__be16 fragment;
	u8 next;

	if (!skb_transport_header_was_set(skb) || skb_is_nonlinear(skb) || skb_is_gso(skb))
		return false;
	if (pf == NFPROTO_IPV6) {
		next = ipv6_hdr(skb)->nexthdr;
		at = ipv6_skip_exthdr(skb, at + sizeof(struct ipv6hdr), &next, &fragment);
	} else {
		next = ip_hdr(skb)->protocol;
		at += ip_hdrlen(skb);
	}
	return next == IPPROTO_TCP && at == skb_transport_offset(skb);
}

bool rdma_sock_helper_sk_is_tcp(const struct sock *sk)
{
	return sk_is_tcp(sk);
}

u8 *rdma_sock_helper_skb_append(struct sk_buff *skb, u32 len)
{
	/* A copy of its own: the clone on the retransmit queue stays as it is. */
	if (pskb_expand_head(skb, 0, len, GFP_ATOMIC))
		return NULL;
	return skb_put(skb, len);
}

void rdma_sock_helper_skb_lengthen(struct sk_buff *skb, u8 pf)
{
	if (pf == NFPROTO_IPV6) {
		ipv6_hdr(skb)->payload_len =
			htons(skb->len - skb_network_offset(skb) -
			      sizeof(struct ipv6hdr));
	} else {
		ip_hdr(skb)->tot_len = htons(skb->len - skb_network_offset(skb));
		ip_send_check(ip_hdr(skb));
	}
}

void rdma_sock_helper_skb_tcp_csum(struct sk_buff *skb, u8 pf)
{
	u32 offset = skb_transport_offset(skb);
	u32 len = skb->len - offset;
	struct tcphdr *th = tcp_hdr(skb);
	__wsum sum = 0;

	th->check = 0;
	if (skb->ip_summed != CHECKSUM_PARTIAL)
		sum = skb_checksum(skb, offset, len, 0);
	if (pf == NFPROTO_IPV6)
		th->check = tcp_v6_check(len, &ipv6_hdr(skb)->saddr,
					 &ipv6_hdr(skb)->daddr, sum);
	else
		th->check = tcp_v4_check(len, ip_hdr(skb)->saddr,
					 ip_hdr(skb)->daddr, sum);
	if (skb->ip_summed == CHECKSUM_PARTIAL)
		th->check = ~th->check;
}

bool rdma_sock_helper_skb_pull_tcp(struct sk_buff *skb, u8 pf, u32 *offset)
{
	struct tcphdr *th;
	int start = skb_network_offset(skb);

	if (pf == NFPROTO_IPV6) {
		u8 next = ipv6_hdr(skb)->nexthdr;
		__be16 fragment;

		start = ipv6_skip_exthdr(skb, start + sizeof(struct ipv6hdr),
					 &next, &fragment);
		if (start < 0 || next != IPPROTO_TCP)
			return false;
	} else {
		if (ip_hdr(skb)->protocol != IPPROTO_TCP)
			return false;
		start += ip_hdrlen(skb);
	}
	if (!pskb_may_pull(skb, start + sizeof(*th)))
		return false;
	th = (struct tcphdr *)(skb->data + start);
	*offset = start;
	/* Only the answer to a SYN is of interest; leave all else alone. */
	if (!th->syn || !th->ack || th->rst || th->fin || th->doff < 5)
		return false;
	return pskb_may_pull(skb, start + th->doff * 4);
}

u32 rdma_sock_helper_skb_header(const struct sk_buff *skb, u32 offset, u8 *to)
{
	const struct tcphdr *th = (struct tcphdr *)(skb->data + offset);

	memcpy(to, th, th->doff * 4);
	return th->doff * 4;
}

struct sock *rdma_sock_helper_skb_lookup(struct net *net, struct sk_buff *skb,
					 u8 pf, u32 offset)
{
	const struct tcphdr *th = (struct tcphdr *)(skb->data + offset);

#if IS_ENABLED(CONFIG_IPV6)
	if (pf == NFPROTO_IPV6)
		return __inet6_lookup_established(net, &ipv6_hdr(skb)->saddr,
						  th->source,
						  &ipv6_hdr(skb)->daddr,
						  ntohs(th->dest),
						  inet6_iif(skb), inet6_sdif(skb));
#endif
	return __inet_lookup_established(net, ip_hdr(skb)->saddr, th->source,
					 ip_hdr(skb)->daddr, ntohs(th->dest),
					 inet_iif(skb), inet_sdif(skb));
}

void rdma_sock_helper_sock_gen_put(struct sock *sk)
{
	sock_gen_put(sk);
}
