// SPDX-License-Identifier: GPL-2.0
/* Building, sending and receiving single IP packets, as functions Rust can call. */

#include "helpers_packet.h"

#include <linux/etherdevice.h>
#include <linux/if_ether.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/dst_metadata.h>
#include <net/ip.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/route.h>
#include <net/sock.h>

/* Room for the link layer, VLAN tags and IPsec in front of a packet. */
#define PACKET_HEADROOM LL_MAX_HEADER

/* A packet of that many octets, which the caller fills in from the network header on. */
struct sk_buff *rdma_sock_helper_packet_alloc(unsigned int len, u8 **octets)
{
	struct sk_buff *skb;

	skb = alloc_skb(PACKET_HEADROOM + len, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_reserve(skb, PACKET_HEADROOM);
	skb_reset_network_header(skb);
	*octets = skb_put(skb, len);
	return skb;
}

/* Pages of one packet: the longest one, from the transport header on, needs two. */
#define PACKET_PAGE_ORDER get_order(2 * SZ_4K)

struct page *rdma_sock_helper_packet_page_alloc(void)
{
	return alloc_pages(GFP_ATOMIC | __GFP_NOWARN | __GFP_COMP,
			   PACKET_PAGE_ORDER);
}

void rdma_sock_helper_packet_page_put(struct page *page)
{
	put_page(page);
}

/*
 * A packet whose first octets, from the network header on, are its own, and whose other octets are
 * in the page. NULL without memory, if the page is too small, or if anything else has a reference.
 */
struct sk_buff *rdma_sock_helper_packet_alloc_on(struct page *page,
						 unsigned int head,
						 unsigned int len, u8 **octets,
						 u8 **rest)
{
	struct sk_buff *skb;

	if (len > PAGE_SIZE << PACKET_PAGE_ORDER || page_ref_count(page) != 1)
		return NULL;
	skb = rdma_sock_helper_packet_alloc(head, octets);
	if (!skb)
		return NULL;
	get_page(page);
	skb_add_rx_frag(skb, 0, page, 0, len, PAGE_SIZE << PACKET_PAGE_ORDER);
	*rest = page_address(page);
	return skb;
}

/*
 * The page that all octets of a received packet but its headers are in, with a reference; NULL if
 * there is no such page.
 */
struct page *rdma_sock_helper_packet_page(const struct sk_buff *skb)
{
	struct page *page;

	if (skb_shinfo(skb)->nr_frags != 1 || skb_has_frag_list(skb) ||
	    !skb_frags_readable(skb))
		return NULL;
	page = skb_frag_page(&skb_shinfo(skb)->frags[0]);
	if (!page)
		return NULL;
	get_page(page);
	return page;
}

void rdma_sock_helper_packet_free(struct sk_buff *skb)
{
	kfree_skb(skb);
}

/* Octets of packets that pass the network together: with a link header, no device has too many. */
#define RUN_MAX_LEN (GSO_LEGACY_MAX_SIZE - LL_MAX_HEADER - 1)

/*
 * Appends a packet of the same addresses and ports to another one, and to those that follow that.
 * The list is one for the kernel's segmentation, which takes it apart again and changes none of the
 * octets but the identification of IPv4: that has to be the next one already. Takes the packet,
 * unless there are too many octets, or more in the packet than in the first one.
 */
bool rdma_sock_helper_packet_append(struct sk_buff *first,
				    struct sk_buff **last, struct sk_buff *next)
{
	unsigned int headers = rdma_sock_packet_headers(first);

	if (skb_is_nonlinear(next) || next->len > skb_headlen(first) ||
	    next->len <= headers || skb_shinfo(first)->nr_frags ||
	    first->len + next->len - headers > RUN_MAX_LEN)
		return false;
	skb_set_transport_header(next, headers - sizeof(struct udphdr));
	skb_pull(next, headers);
	if (*last)
		(*last)->next = next;
	else
		skb_shinfo(first)->frag_list = next;
	*last = next;
	first->data_len += next->len;
	first->len += next->len;
	first->truesize += next->truesize;
	skb_shinfo(first)->gso_segs++;
	return true;
}

/* Makes a list of packets one for the kernel's segmentation. The transport header is known. */
static void close_list(struct sk_buff *skb)
{
	struct skb_shared_info *info = skb_shinfo(skb);

	if (!info->frag_list)
		return;
	info->gso_segs++;
	info->gso_size = skb_headlen(skb) - rdma_sock_packet_headers(skb);
	info->gso_type = SKB_GSO_UDP_L4 | SKB_GSO_FRAGLIST;
	/* There is none, and nothing to compute before a device that takes the list as it is. */
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	udp_hdr(skb)->len = htons(skb->len - skb_transport_offset(skb));
}

/*
 * Whether a route leaves by the device that has the source address. One to an address of this host
 * leaves by the loopback device, or by the L3 master of the device: `local` permits that.
 */
static bool route_fits(const struct dst_entry *dst, struct net_device *dev,
		       bool local)
{
	if (dst->error)
		return false;
	if (dst->dev->flags & IFF_LOOPBACK ||
	    dst->dev->ifindex == l3mdev_master_ifindex(dev))
		return local;
	return dst->dev == dev;
}

/* The device that a route must leave by, or its L3 master, which has routes of its own. */
static int route_oif(struct net_device *dev)
{
	return l3mdev_master_ifindex(dev) ?: dev->ifindex;
}

/* Octets of memory of the packets of a sender that the network of this host holds. */
#define SENDER_ROOM SZ_1M

/*
 * A socket in whose name packets leave, and that pays for them. They may be as long as their
 * device's MTU, whatever path MTU this host was told: any host can forge such news.
 */
struct sock *rdma_sock_helper_sender_open(bool v6)
{
	struct socket *sock;
	int err;

	err = sock_create_kern(&init_net, v6 ? AF_INET6 : AF_INET, SOCK_DGRAM,
			       IPPROTO_UDP, &sock);
	if (err)
		return ERR_PTR(err);
	/* One for IPv6 sends packets of IPv4, too. */
	WRITE_ONCE(inet_sk(sock->sk)->pmtudisc, IP_PMTUDISC_PROBE);
	if (v6)
		WRITE_ONCE(inet6_sk(sock->sk)->pmtudisc, IPV6_PMTUDISC_PROBE);
	/* Such a socket is writeable, and says so, up to half of this. */
	WRITE_ONCE(sock->sk->sk_sndbuf, 2 * SENDER_ROOM);
	return sock->sk;
}

/* Packets that are under way keep the memory of the socket. */
void rdma_sock_helper_sender_close(struct sock *sk)
{
	sock_release(sk->sk_socket);
}

bool rdma_sock_helper_sender_has_room(const struct sock *sk)
{
	return sock_writeable(sk);
}

void rdma_sock_helper_sender_init_wait(struct wait_queue_entry *entry,
				       wait_queue_func_t func)
{
	init_waitqueue_func_entry(entry, func);
	INIT_LIST_HEAD(&entry->entry);
}

/* Waits for room from here on, unless there is some: then nothing may come that ends the wait. */
bool rdma_sock_helper_sender_wait(struct sock *sk,
				  struct wait_queue_entry *entry)
{
	struct wait_queue_head *head = sk_sleep(sk);
	unsigned long flags;

	spin_lock_irqsave(&head->lock, flags);
	if (list_empty(&entry->entry))
		__add_wait_queue(head, entry);
	spin_unlock_irqrestore(&head->lock, flags);
	/* Pairs with the barrier of skwq_has_sleeper(). */
	smp_mb();
	return !sock_writeable(sk);
}

/* The function of an entry was called, with the queue locked: the wait is over. */
void rdma_sock_helper_sender_woken(struct wait_queue_entry *entry)
{
	list_del_init(&entry->entry);
}

/* Ends a wait. On return the function of the entry does not run. */
void rdma_sock_helper_sender_end_wait(struct sock *sk,
				      struct wait_queue_entry *entry)
{
	struct wait_queue_head *head = sk_sleep(sk);
	unsigned long flags;

	spin_lock_irqsave(&head->lock, flags);
	list_del_init(&entry->entry);
	spin_unlock_irqrestore(&head->lock, flags);
}

/*
 * Sends a packet that begins with an IPv4 header, in the name of a socket. Consumes it. With
 * `local` the destination may be an address of this host.
 */
int rdma_sock_helper_packet_send_v4(struct sk_buff *skb,
				    struct net_device *dev, struct sock *sender,
				    bool local)
{
	struct net *net = dev_net(dev);
	struct iphdr *iph = ip_hdr(skb);
	struct flowi4 fl4 = {
		.flowi4_oif = route_oif(dev),
		.flowi4_proto = IPPROTO_UDP,
		.saddr = iph->saddr,
		.daddr = iph->daddr,
	};
	struct rtable *rt;

	skb_set_transport_header(skb, sizeof(*iph));
	fl4.fl4_sport = udp_hdr(skb)->source;
	fl4.fl4_dport = udp_hdr(skb)->dest;
	rt = ip_route_output_flow(net, &fl4, NULL);
	if (IS_ERR(rt)) {
		kfree_skb(skb);
		return PTR_ERR(rt);
	}
	if (!route_fits(&rt->dst, dev, local)) {
		ip_rt_put(rt);
		kfree_skb(skb);
		return -ENETUNREACH;
	}
	skb->dev = dev;
	skb->protocol = htons(ETH_P_IP);
	skb_dst_set(skb, &rt->dst);
	memset(IPCB(skb), 0, sizeof(*IPCB(skb)));
	close_list(skb);
	skb_set_owner_w(skb, sender);
	return ip_local_out(net, sender, skb);
}

/* The same for an IPv6 header. */
int rdma_sock_helper_packet_send_v6(struct sk_buff *skb,
				    struct net_device *dev, struct sock *sender,
				    bool local)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct net *net = dev_net(dev);
	struct ipv6hdr *ip6h = ipv6_hdr(skb);
	struct flowi6 fl6 = {
		/* A link-local address is one of a device, not of its master. */
		.flowi6_oif = ipv6_addr_type(&ip6h->daddr) & IPV6_ADDR_LINKLOCAL ?
				      dev->ifindex : route_oif(dev),
		.flowi6_proto = IPPROTO_UDP,
		.saddr = ip6h->saddr,
		.daddr = ip6h->daddr,
	};
	struct dst_entry *dst;

	skb_set_transport_header(skb, sizeof(*ip6h));
	fl6.fl6_sport = udp_hdr(skb)->source;
	fl6.fl6_dport = udp_hdr(skb)->dest;
	dst = ip6_dst_lookup_flow(net, NULL, &fl6, NULL);
	if (IS_ERR(dst)) {
		kfree_skb(skb);
		return PTR_ERR(dst);
	}
	if (!route_fits(dst, dev, local)) {
		dst_release(dst);
		kfree_skb(skb);
		return -ENETUNREACH;
	}
	skb->dev = dev;
	skb->protocol = htons(ETH_P_IPV6);
	skb_dst_set(skb, dst);
	memset(IP6CB(skb), 0, sizeof(*IP6CB(skb)));
	close_list(skb);
	skb_set_owner_w(skb, sender);
	return ip6_local_out(net, sender, skb);
#else
	kfree_skb(skb);
	return -EAFNOSUPPORT;
#endif
}

/* Sends a packet behind an Ethernet header, or to this host itself. Consumes it. */
int rdma_sock_helper_packet_send_eth(struct sk_buff *skb,
				     struct net_device *dev, u16 type,
				     const u8 *dmac, struct sock *sender)
{
	skb->dev = dev;
	skb->protocol = htons(type);
	/* An Ethernet does not return a packet to its sender. */
	if (dev->flags & IFF_LOOPBACK ||
	    ether_addr_equal_unaligned(dmac, dev->dev_addr)) {
		skb_reset_mac_header(skb);
		skb_reset_transport_header(skb);
		return netif_rx(skb);
	}
	if (dev_hard_header(skb, dev, type, dmac, dev->dev_addr, skb->len) < 0) {
		kfree_skb(skb);
		return -EINVAL;
	}
	skb_set_owner_w(skb, sender);
	return dev_queue_xmit(skb);
}

/*
 * The octets of a received packet from the network header on. The packet may wait afterwards. Fails
 * without memory.
 */
bool rdma_sock_helper_packet_view(struct sk_buff *skb, const u8 **octets,
				  unsigned int *len)
{
	if (skb_linearize(skb))
		return false;
	/* It may wait, and these may belong to others. */
	skb_orphan(skb);
	skb_dst_drop(skb);
	nf_reset_ct(skb);
	*octets = skb_network_header(skb);
	*len = skb_tail_pointer(skb) - skb_network_header(skb);
	return true;
}

/* Whether IP has put a packet together from fragments. */
bool rdma_sock_helper_packet_was_cut(const struct sk_buff *skb)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (skb->protocol == htons(ETH_P_IPV6))
		return IP6CB(skb)->flags & IP6SKB_FRAGMENTED;
#endif
	return skb->protocol == htons(ETH_P_IP) && IPCB(skb)->frag_max_size;
}

/* Takes a packet out of a list. Returns the packets that follow it. */
struct sk_buff *rdma_sock_helper_packet_unlink(struct sk_buff *skb)
{
	struct sk_buff *next = skb->next;

	skb_mark_not_on_list(skb);
	return next;
}

/* Frees the packets of a list. */
void rdma_sock_helper_packets_free(struct sk_buff *first)
{
	kfree_skb_list(first);
}

/* A packet that no other handler reads; NULL, and it is freed, without memory. */
struct sk_buff *rdma_sock_helper_packet_unshare(struct sk_buff *skb)
{
	return skb_share_check(skb, GFP_ATOMIC);
}

/*
 * The device that a packet arrived on, also where IP has put its L3 master in place of it. The
 * master for a packet of this host.
 */
struct net_device *rdma_sock_helper_packet_dev(const struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	int index = 0;

	if (!dev || !netif_is_l3_master(dev))
		return dev;
	if (skb->protocol == htons(ETH_P_IP))
		index = inet_sdif(skb);
	else if (skb->protocol == htons(ETH_P_IPV6))
		index = inet6_sdif(skb);
	return index ? dev_get_by_index_rcu(dev_net(dev), index) : dev;
}

/*
 * Whether a packet that arrived on one device is for an address of another, or of a VLAN of that:
 * the same device, a VLAN of it, or, from this host, the loopback device of its namespace or its L3
 * master.
 */
bool rdma_sock_helper_dev_reaches(const struct net_device *arrived,
				  const struct net_device *dev)
{
	if (!net_eq(dev_net(arrived), dev_net(dev)))
		return false;
	return arrived == dev || arrived->flags & IFF_LOOPBACK ||
	       arrived->ifindex == l3mdev_master_ifindex_rcu(dev) ||
	       (is_vlan_dev(arrived) && vlan_dev_real_dev(arrived) == dev);
}

#if IS_ENABLED(CONFIG_KUNIT)
/* Makes a packet one of a socket, with a route and with the state of a connection. */
bool rdma_sock_helper_test_packet_hold(struct sk_buff *skb, struct sock *sk)
{
	struct metadata_dst *dst = metadata_dst_alloc(0, METADATA_MACSEC, GFP_KERNEL);

	if (!dst)
		return false;
	skb_set_owner_w(skb, sk);
	skb_dst_set(skb, &dst->dst);
	skb_set_nfct(skb, IP_CT_UNTRACKED);
	return true;
}

/* Whether a packet holds none of them. */
bool rdma_sock_helper_test_packet_is_free(const struct sk_buff *skb)
{
	return !skb->sk && !skb->destructor && !skb_dst(skb) && !skb_get_nfct(skb);
}
#endif
