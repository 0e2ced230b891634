/* SPDX-License-Identifier: GPL-2.0 */
/* Building, sending and receiving single IP packets, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_PACKET_H
#define RDMA_SOCK_HELPERS_PACKET_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <linux/wait.h>
#include <net/udp_tunnel.h>

/* Octets of an IP packet up to the payload of UDP. */
static inline unsigned int rdma_sock_packet_headers(const struct sk_buff *skb)
{
	unsigned int len = ip_hdr(skb)->version == 4 ? sizeof(struct iphdr) :
						       sizeof(struct ipv6hdr);

	return len + sizeof(struct udphdr);
}

struct sk_buff *rdma_sock_helper_packet_alloc(unsigned int len,
					      u8 **octets);
void rdma_sock_helper_packet_free(struct sk_buff *skb);
bool rdma_sock_helper_packet_append(struct sk_buff *first,
				    struct sk_buff **last,
				    struct sk_buff *next);

struct page *rdma_sock_helper_packet_page_alloc(void);
void rdma_sock_helper_packet_page_put(struct page *page);
struct sk_buff *rdma_sock_helper_packet_alloc_on(struct page *page,
						 unsigned int head,
						 unsigned int len, u8 **octets,
						 u8 **rest);
struct page *rdma_sock_helper_packet_page(const struct sk_buff *skb);

struct sock *rdma_sock_helper_sender_open(bool v6);
void rdma_sock_helper_sender_close(struct sock *sk);
bool rdma_sock_helper_sender_has_room(const struct sock *sk);
void rdma_sock_helper_sender_init_wait(struct wait_queue_entry *entry,
				       wait_queue_func_t func);
bool rdma_sock_helper_sender_wait(struct sock *sk,
				  struct wait_queue_entry *entry);
void rdma_sock_helper_sender_woken(struct wait_queue_entry *entry);
void rdma_sock_helper_sender_end_wait(struct sock *sk,
				      struct wait_queue_entry *entry);
int rdma_sock_helper_packet_send_v4(struct sk_buff *skb,
				    struct net_device *dev, struct sock *sender,
				    bool local);
int rdma_sock_helper_packet_send_v6(struct sk_buff *skb,
				    struct net_device *dev, struct sock *sender,
				    bool local);
int rdma_sock_helper_packet_send_eth(struct sk_buff *skb,
				     struct net_device *dev, u16 type,
				     const u8 *dmac, struct sock *sender);

/* A received packet, from its IP header on. */
bool rdma_sock_helper_packet_view(struct sk_buff *skb, const u8 **octets,
				  unsigned int *len);
bool rdma_sock_helper_packet_was_cut(const struct sk_buff *skb);
struct sk_buff *rdma_sock_helper_packet_unlink(struct sk_buff *skb);
void rdma_sock_helper_packets_free(struct sk_buff *first);
struct sk_buff *rdma_sock_helper_packet_unshare(struct sk_buff *skb);
struct net_device *rdma_sock_helper_packet_dev(const struct sk_buff *skb);

int rdma_sock_helper_packet_gro_octet(struct sk_buff *skb);
struct sk_buff *rdma_sock_helper_packet_join(const struct sock *sk, struct list_head *head,
					     struct sk_buff *skb, bool goes_on);

typedef int (*rdma_sock_encap_rcv)(struct sock *sk, struct sk_buff *skb);
typedef struct sk_buff *(*rdma_sock_gro_rcv)(struct sock *sk, struct list_head *head,
					     struct sk_buff *skb);

struct sock *rdma_sock_helper_udp_port_open(struct net *net, u16 port, bool v6,
					    rdma_sock_encap_rcv receive,
					    rdma_sock_gro_rcv join);
void rdma_sock_helper_udp_port_close(struct sock *sk);

struct rdma_sock_run_hook;

typedef void (*rdma_sock_run_rcv)(struct sk_buff *first);

struct rdma_sock_run_hook *rdma_sock_helper_run_hook_add(struct net *net,
							 u16 port, bool v6,
							 rdma_sock_run_rcv receive);
void rdma_sock_helper_run_hook_remove(struct rdma_sock_run_hook *hook);
void rdma_sock_helper_run_hook_free(struct rdma_sock_run_hook *hook);

bool rdma_sock_helper_dev_reaches(const struct net_device *arrived,
				  const struct net_device *dev);

#if IS_ENABLED(CONFIG_KUNIT)
bool rdma_sock_helper_test_packet_hold(struct sk_buff *skb, struct sock *sk);
bool rdma_sock_helper_test_packet_is_free(const struct sk_buff *skb);
#endif

#endif /* RDMA_SOCK_HELPERS_PACKET_H */
