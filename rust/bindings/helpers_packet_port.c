// SPDX-License-Identifier: GPL-2.0
/* UDP ports whose packets a function takes, single or as they arrive: functions Rust can call. */

#include "helpers_packet.h"

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netfilter.h>
#include <linux/slab.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/sock.h>
#include <net/udp_tunnel.h>
#include <net/xfrm.h>

/*
 * A UDP socket that gives all packets to a function, in softirq. Packets that a driver brings one
 * after another come to `join` before, if that is given.
 */
struct sock *rdma_sock_helper_udp_port_open(struct net *net, u16 port, bool v6,
					    rdma_sock_encap_rcv receive,
					    rdma_sock_gro_rcv join)
{
	struct udp_port_cfg port_cfg = {
		.family = v6 ? AF_INET6 : AF_INET,
		.ipv6_v6only = v6,
		.local_udp_port = htons(port),
	};
	struct udp_tunnel_sock_cfg tunnel_cfg = {
		.encap_type = 1,
		.encap_rcv = receive,
		.gro_receive = join,
	};
	struct socket *sock;
	int err;

	err = udp_sock_create(net, &port_cfg, &sock);
	if (err)
		return ERR_PTR(err);
	setup_udp_tunnel_sock(net, sock->sk, &tunnel_cfg);
	return sock->sk;
}

void rdma_sock_helper_udp_port_close(struct sock *sk)
{
	udp_tunnel_sock_release(sk);
}

#if IS_ENABLED(CONFIG_NETFILTER)
/* Takes packets that arrive together for a UDP port, before UDP separates them. */
struct rdma_sock_run_hook {
	struct nf_hook_ops ops;
	struct net *net;
	__be16 port;
	rdma_sock_run_rcv receive;
};

/* Whether a packet that arrives begins with headers of IP and UDP for a port, and no others. */
static bool is_for_port(const struct sk_buff *skb, __be16 port)
{
	const struct udphdr *uh;

	if (skb_headlen(skb) < sizeof(struct iphdr))
		return false;
	if (skb_headlen(skb) < rdma_sock_packet_headers(skb))
		return false;
	if (ip_hdr(skb)->version == 4) {
		if (ip_hdr(skb)->ihl != 5 || ip_is_fragment(ip_hdr(skb)) ||
		    ip_hdr(skb)->protocol != IPPROTO_UDP)
			return false;
	} else if (ipv6_hdr(skb)->nexthdr != IPPROTO_UDP) {
		return false;
	}
	uh = (const void *)(skb->data + rdma_sock_packet_headers(skb) - sizeof(*uh));
	/* Of a checksum UDP takes care. */
	return uh->dest == port && !uh->check;
}

/*
 * Whether a packet is a list whose octets are nowhere else, and that UDP would give to the socket
 * of the port: none with another socket, with a connection that has to be confirmed, or of an L3
 * master, for which a setting of the namespace decides.
 */
static bool is_own_list(const struct sk_buff *skb, unsigned int headers)
{
	const struct skb_shared_info *info = skb_shinfo(skb);
	const struct sk_buff *next;

	if (info->nr_frags || skb_cloned(skb) || skb->sk || skb_nfct(skb) ||
	    netif_is_l3_master(skb->dev))
		return false;
	skb_walk_frags(skb, next)
		if (skb_cloned(next) || skb_is_nonlinear(next) ||
		    skb_headroom(next) < headers)
			return false;
	return true;
}

/* Writes the lengths of a packet, and its identification behind those before it. */
static void finish_headers(struct sk_buff *skb, unsigned int index)
{
	struct iphdr *iph = ip_hdr(skb);
	struct udphdr *uh = udp_hdr(skb);

	uh->len = htons(skb->len - skb_transport_offset(skb));
	if (iph->version == 4) {
		iph->tot_len = htons(skb->len);
		iph->id = htons(ntohs(iph->id) + index);
		ip_send_check(iph);
	} else {
		ipv6_hdr(skb)->payload_len = uh->len;
	}
}

/* Makes packets of a list, linked by their `next`. Each has the headers of the first one. */
static void separate_list(struct sk_buff *skb, unsigned int headers)
{
	struct sk_buff *next = skb_shinfo(skb)->frag_list;
	unsigned int index = 0;

	skb_orphan(skb);
	skb_set_transport_header(skb, headers - sizeof(struct udphdr));
	skb_shinfo(skb)->frag_list = NULL;
	skb_gso_reset(skb);
	skb->next = next;
	for (; next; next = next->next) {
		skb->len -= next->len;
		skb->data_len -= next->len;
		skb->truesize -= next->truesize;
		skb_push(next, headers);
		memcpy(next->data, skb->data, headers);
		memcpy(next->cb, skb->cb, sizeof(next->cb));
		skb_reset_network_header(next);
		skb_set_transport_header(next, headers - sizeof(struct udphdr));
		next->dev = skb->dev;
		next->protocol = skb->protocol;
		finish_headers(next, ++index);
	}
	finish_headers(skb, 0);
}

static unsigned int take_run(void *priv, struct sk_buff *skb,
			     const struct nf_hook_state *state)
{
	const struct rdma_sock_run_hook *hook = priv;
	unsigned int headers;

	if (!skb_is_gso(skb) || !skb_has_frag_list(skb) ||
	    !(skb_shinfo(skb)->gso_type & SKB_GSO_FRAGLIST) ||
	    !is_for_port(skb, hook->port))
		return NF_ACCEPT;
	headers = rdma_sock_packet_headers(skb);
	if (!is_own_list(skb, headers))
		return NF_ACCEPT;
	/* As UDP does. */
	if (state->pf == NFPROTO_IPV4 ?
		    !xfrm4_policy_check(NULL, XFRM_POLICY_IN, skb) :
		    !xfrm6_policy_check(NULL, XFRM_POLICY_IN, skb))
		return NF_DROP;
	separate_list(skb, headers);
	hook->receive(skb);
	return NF_STOLEN;
}

/* Behind all filters. */
struct rdma_sock_run_hook *rdma_sock_helper_run_hook_add(struct net *net,
							 u16 port, bool v6,
							 rdma_sock_run_rcv receive)
{
	struct rdma_sock_run_hook *hook;
	int err;

	hook = kzalloc_obj(*hook, GFP_KERNEL);
	if (!hook)
		return ERR_PTR(-ENOMEM);
	hook->ops.hook = take_run;
	hook->ops.priv = hook;
	hook->ops.pf = v6 ? NFPROTO_IPV6 : NFPROTO_IPV4;
	hook->ops.hooknum = NF_INET_LOCAL_IN;
	hook->ops.priority = INT_MAX;
	hook->net = net;
	hook->port = htons(port);
	hook->receive = receive;
	err = nf_register_net_hook(net, &hook->ops);
	if (err) {
		kfree(hook);
		return ERR_PTR(err);
	}
	return hook;
}

/* The function may run until readers of RCU are over. */
void rdma_sock_helper_run_hook_remove(struct rdma_sock_run_hook *hook)
{
	if (hook)
		nf_unregister_net_hook(hook->net, &hook->ops);
}

void rdma_sock_helper_run_hook_free(struct rdma_sock_run_hook *hook)
{
	kfree(hook);
}
#else
struct rdma_sock_run_hook *rdma_sock_helper_run_hook_add(struct net *net,
							 u16 port, bool v6,
							 rdma_sock_run_rcv receive)
{
	return NULL;
}

void rdma_sock_helper_run_hook_remove(struct rdma_sock_run_hook *hook)
{
}

void rdma_sock_helper_run_hook_free(struct rdma_sock_run_hook *hook)
{
}
#endif
