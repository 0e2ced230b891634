// SPDX-License-Identifier: GPL-2.0
/* Packets that a driver brings one after another, and that pass the network together: for Rust. */

#include "helpers_packet.h"

#include <net/gro.h>

/* The first octet behind the UDP header of a packet in GRO; -1 if there is none. */
int rdma_sock_helper_packet_gro_octet(struct sk_buff *skb)
{
	unsigned int offset = skb_gro_offset(skb);
	const u8 *octet = skb_gro_header(skb, offset + 1, offset);

	return octet ? *octet : -1;
}

/*
 * Copies a packet to one piece, which its receiver needs anyway, unless it is one. The octets that
 * GRO has looked at may be elsewhere then.
 */
static void make_whole(struct sk_buff *skb)
{
	if (!skb_is_nonlinear(skb) || skb_linearize(skb))
		return;
	NAPI_GRO_CB(skb)->frag0 = NULL;
	NAPI_GRO_CB(skb)->frag0_len = 0;
}

/* Whether a packet is one piece, and IP and UDP have the only headers behind that of its link. */
static bool is_plain(const struct sk_buff *skb, bool v6, unsigned int headers)
{
	unsigned int offset = skb_gro_offset(skb);
	const u8 *ip;

	if (offset < headers || offset >= skb_headlen(skb) || skb_is_nonlinear(skb) ||
	    skb_is_gso(skb) || skb_cloned(skb) ||
	    (skb->destructor && skb->destructor != sock_wfree))
		return false;
	ip = skb->data + offset - headers;
	if (v6 ? ((const struct ipv6hdr *)ip)->nexthdr != IPPROTO_UDP : *ip != 0x45)
		return false;
	/* The hook takes no list with a checksum of UDP. */
	return !((const struct udphdr *)(skb->data + offset) - 1)->check;
}

/* Whether a packet has the headers that the kernel makes for it when it separates the list. */
static bool continues(const struct sk_buff *first, const struct sk_buff *skb, bool v6,
		      unsigned int headers)
{
	const u8 *a = first->data + skb_gro_offset(skb) - headers;
	const u8 *b = skb->data + skb_gro_offset(skb) - headers;

	if (v6) {
		const struct ipv6hdr *one = (const void *)a, *other = (const void *)b;

		return *(const __be32 *)one == *(const __be32 *)other &&
		       one->hop_limit == other->hop_limit;
	} else {
		const struct iphdr *one = (const void *)a, *other = (const void *)b;

		return one->tos == other->tos && one->ttl == other->ttl &&
		       one->frag_off == other->frag_off &&
		       other->id == htons(ntohs(one->id) + NAPI_GRO_CB(first)->count);
	}
}

/* Appends a packet to a list, of which one has to find room for a length of 16 bits. */
static bool append(struct sk_buff *first, struct sk_buff *skb)
{
	unsigned int len = skb_gro_len(skb);

	if (len > skb_shinfo(first)->gso_size || first->len + len > GSO_LEGACY_MAX_SIZE - 1 ||
	    skb->sk != first->sk || skb->destructor != first->destructor)
		return false;
	/* The first packet has the memory of all. */
	skb->sk = NULL;
	skb->destructor = NULL;
	skb_pull(skb, skb_gro_offset(skb));
	if (NAPI_GRO_CB(first)->last == first)
		skb_shinfo(first)->frag_list = skb;
	else
		NAPI_GRO_CB(first)->last->next = skb;
	NAPI_GRO_CB(first)->last = skb;
	NAPI_GRO_CB(first)->count++;
	first->data_len += skb->len;
	first->len += skb->len;
	first->truesize += skb->truesize;
	NAPI_GRO_CB(skb)->same_flow = 1;
	return true;
}

/*
 * GRO for a UDP port: appends a packet to the one of the same addresses and ports in `head`. A
 * packet that `goes_on`, as another of its message follows, waits for that. The first packet
 * becomes the list that UDP makes of packets that this host forwards: the kernel separates it
 * where it has to. Returns a packet that waits for no others, or NULL.
 */
struct sk_buff *rdma_sock_helper_packet_join(const struct sock *sk, struct list_head *head,
					     struct sk_buff *skb, bool goes_on)
{
	bool v6 = sk->sk_family == AF_INET6;
	unsigned int headers = (v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) +
			       sizeof(struct udphdr);
	struct sk_buff *first, *p;
	bool joins;

	first = NULL;
	list_for_each_entry(p, head, list) {
		if (NAPI_GRO_CB(p)->same_flow) {
			first = p;
			break;
		}
	}
	if (goes_on || first)
		make_whole(skb);
	joins = !NAPI_GRO_CB(skb)->flush && is_plain(skb, v6, headers);
	if (first && joins && continues(first, skb, v6, headers) && append(first, skb))
		return goes_on && skb->len == skb_shinfo(first)->gso_size ? NULL : first;
	if (joins && goes_on) {
		NAPI_GRO_CB(skb)->encap_mark = 0;
		NAPI_GRO_CB(skb)->is_flist = 1;
	} else {
		NAPI_GRO_CB(skb)->flush = 1;
	}
	return first;
}
