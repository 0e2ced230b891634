// SPDX-License-Identifier: GPL-2.0
/* Fields of a TCP sock, its addresses and its path, as functions Rust can call. */

#include "helpers_inet.h"

#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/uaccess.h>
#include <net/addrconf.h>
#include <net/dst.h>
#include <net/ipv6.h>
#include <net/tcp.h>

/* linux/tcp.h, net/tcp.h, net/inet_sock.h */

void rdma_sock_helper_tcp_shutdown_send(struct sock *sk)
{
	sk->sk_shutdown |= SEND_SHUTDOWN;
	if (sk->sk_prot->shutdown)
		sk->sk_prot->shutdown(sk, SEND_SHUTDOWN);
}

int rdma_sock_helper_tcp_inq(struct sock *sk)
{
	return tcp_inq(sk);
}

bool rdma_sock_helper_tcp_signed(const struct sock *sk)
{
#ifdef CONFIG_TCP_MD5SIG
	if (rcu_access_pointer(tcp_sk(sk)->md5sig_info))
		return true;
#endif
#ifdef CONFIG_TCP_AO
	if (rcu_access_pointer(tcp_sk(sk)->ao_info))
		return true;
#endif
	return false;
}

bool rdma_sock_helper_tcp_nodelay(const struct sock *sk)
{
	return tcp_sk(sk)->nonagle & TCP_NAGLE_OFF;
}

bool rdma_sock_helper_tcp_corked(const struct sock *sk)
{
	return tcp_sk(sk)->nonagle & TCP_NAGLE_CORK;
}

/* In milliseconds, 0 without SO_KEEPALIVE. */
u32 rdma_sock_helper_tcp_keepalive(const struct sock *sk)
{
	if (!sock_flag(sk, SOCK_KEEPOPEN))
		return 0;
	return jiffies_to_msecs(keepalive_time_when(tcp_sk(sk)));
}

/* In milliseconds, 0 without TCP_USER_TIMEOUT. */
u32 rdma_sock_helper_tcp_user_timeout(const struct sock *sk)
{
	return READ_ONCE(inet_csk(sk)->icsk_user_timeout);
}

/* How often TCP tests the peer of a closed connection, as in tcp_orphan_retries(). */
u8 rdma_sock_helper_tcp_orphan_retries(const struct sock *sk)
{
	u8 retries = READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_orphan_retries);

	/* Without a number of the administrator. */
	return retries ? retries : 8;
}

bool rdma_sock_helper_tcp_repair(const struct sock *sk)
{
	return tcp_sk(sk)->repair;
}

bool rdma_sock_helper_tcp_fastopen_connect(const struct sock *sk)
{
	return tcp_sk(sk)->fastopen_connect;
}

u32 rdma_sock_helper_tcp_write_seq(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->write_seq);
}

u8 rdma_sock_helper_tcp_save_syn(const struct sock *sk)
{
	return tcp_sk(sk)->save_syn;
}

void rdma_sock_helper_tcp_set_save_syn(struct sock *sk, u8 value)
{
	tcp_sk(sk)->save_syn = value;
}

void rdma_sock_helper_tcp_swap_save_syn(struct sock *sk, u8 from, u8 to)
{
	spin_lock_bh(&sk->sk_lock.slock);
	if (!sock_owned_by_user(sk) && tcp_sk(sk)->save_syn == from)
		tcp_sk(sk)->save_syn = to;
	spin_unlock_bh(&sk->sk_lock.slock);
}

/*
 * Copies the TCP options in a saved SYN to @to, which has room for 40 octets; returns their length.
 * @saved need not be valid: then the result means nothing.
 */
static u32 saved_syn_options(const struct saved_syn *saved, u8 *to)
{
	struct saved_syn head;
	u32 len;

	if (!saved || copy_from_kernel_nofault(&head, saved, sizeof(head)))
		return 0;
	if (head.mac_hdrlen > U16_MAX || head.network_hdrlen > U16_MAX ||
	    head.tcp_hdrlen <= sizeof(struct tcphdr) || head.tcp_hdrlen > 60)
		return 0;
	len = head.tcp_hdrlen - sizeof(struct tcphdr);
	if (copy_from_kernel_nofault(to, saved->data + head.mac_hdrlen + head.network_hdrlen +
					     sizeof(struct tcphdr), len))
		return 0;
	return len;
}

u32 rdma_sock_helper_tcp_syn_options(const struct sock *sk, u8 *to)
{
	return saved_syn_options(tcp_sk(sk)->saved_syn, to);
}

void rdma_sock_helper_tcp_saved_syn_free(struct sock *sk)
{
	tcp_saved_syn_free(tcp_sk(sk));
}

bool rdma_sock_helper_has_syn_smc(void)
{
	return IS_ENABLED(CONFIG_SMC);
}

bool rdma_sock_helper_syn_smc(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_SMC)
	return READ_ONCE(tcp_sk(sk)->syn_smc);
#else
	return false;
#endif
}

void rdma_sock_helper_set_hs_congested(struct sock *sk, bool (*congested)(const struct sock *sk))
{
#if IS_ENABLED(CONFIG_SMC)
	tcp_sk(sk)->smc_hs_congested = congested;
#endif
}

bool rdma_sock_helper_rx_smc(const struct sock *sk)
{
	return tcp_sk(sk)->rx_opt.smc_ok;
}

void rdma_sock_helper_set_syn_smc(struct sock *sk, bool on)
{
#if IS_ENABLED(CONFIG_SMC)
	tcp_sk(sk)->syn_smc = on;
#endif
}

void rdma_sock_helper_have_smc(bool on)
{
#if IS_ENABLED(CONFIG_SMC)
	if (on)
		static_branch_enable(&tcp_have_smc);
	else
		static_branch_disable(&tcp_have_smc);
#endif
}

/* IPv4 addresses are given as mapped ones. */
static void put_addr(const struct sock *sk, bool peer, u8 *ip, u32 *scope)
{
	struct in6_addr *to = (struct in6_addr *)ip;

	*scope = 0;
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		const struct in6_addr *from = &sk->sk_v6_daddr;

		if (!peer)
			from = ipv6_addr_any(&sk->sk_v6_rcv_saddr) ?
				       &inet6_sk(sk)->saddr :
				       &sk->sk_v6_rcv_saddr;
		*to = *from;
		if (ipv6_addr_type(from) & IPV6_ADDR_LINKLOCAL)
			*scope = READ_ONCE(sk->sk_bound_dev_if);
		return;
	}
#endif
	ipv6_addr_set_v4mapped(peer ? inet_sk(sk)->inet_daddr :
				      inet_sk(sk)->inet_rcv_saddr ?:
					      inet_sk(sk)->inet_saddr,
			       to);
}

void rdma_sock_helper_local_addr(const struct sock *sk, u8 *ip, __be16 *port,
				 u32 *scope)
{
	put_addr(sk, false, ip, scope);
	*port = READ_ONCE(inet_sk(sk)->inet_sport);
}

void rdma_sock_helper_peer_addr(const struct sock *sk, u8 *ip, __be16 *port,
				u32 *scope)
{
	put_addr(sk, true, ip, scope);
	*port = READ_ONCE(inet_sk(sk)->inet_dport);
}

struct sock *rdma_sock_helper_rsk_listener(struct sock *sk)
{
	if (sk->sk_state != TCP_NEW_SYN_RECV)
		return NULL;
	return inet_reqsk(sk)->rsk_listener;
}

/*
 * When the request becomes a connection, tcp_move_syn() moves the copy to the child, whose owners
 * free it at any time, without a grace period. No lock excludes that while a SYN-ACK answers a
 * repeated SYN. But the request loses its pointer before the child can free the copy, and never
 * gets another one: octets read while the pointer stayed the same are those of the SYN.
 */
u32 rdma_sock_helper_rsk_syn_options(struct sock *sk, u8 *to)
{
	struct request_sock *req = inet_reqsk(sk);
	const struct saved_syn *saved = READ_ONCE(req->saved_syn);
	u32 len = saved_syn_options(saved, to);

	/* Octets that their next owner wrote come with the pointer that was taken away before. */
	smp_rmb();
	return READ_ONCE(req->saved_syn) == saved ? len : 0;
}

/* net/dst.h, linux/if_vlan.h, linux/inetdevice.h, net/addrconf.h */

struct net_device *rdma_sock_helper_egress(struct sock *sk, u32 *mtu)
{
	struct dst_entry *dst = rcu_dereference(sk->sk_dst_cache);

	if (!dst)
		return NULL;
	*mtu = dst_mtu(dst);
	return dst_dev_rcu(dst);
}

struct net_device *rdma_sock_helper_vlan_base(struct net_device *dev, u16 *vlan)
{
	if (!is_vlan_dev(dev))
		return NULL;
	*vlan = vlan_dev_vlan_id(dev);
	return vlan_dev_real_dev(dev);
}

/*
 * The device at the bottom of those that a device is stacked on: the first one of each level, as
 * net/smc does. The VLAN is that of the first of them with one, else no number of a VLAN.
 */
struct net_device *rdma_sock_helper_lowest_dev(struct net_device *dev, u16 *vlan)
{
	u8 levels = READ_ONCE(dev->lower_level);

	*vlan = VLAN_N_VID;
	for (;;) {
		struct list_head *at = &dev->adj_list.lower;
		struct net_device *lower;

		if (*vlan == VLAN_N_VID && is_vlan_dev(dev))
			*vlan = vlan_dev_vlan_id(dev);
		lower = levels-- ? netdev_next_lower_dev_rcu(dev, &at) : NULL;
		if (!lower)
			return dev;
		dev = lower;
	}
}

/* A name that is changed meanwhile is part of both. */
void rdma_sock_helper_dev_name(const struct net_device *dev, char *name)
{
	strscpy(name, dev->name, IFNAMSIZ);
}

u32 rdma_sock_helper_dev_ifindex(const struct net_device *dev)
{
	return READ_ONCE(dev->ifindex);
}

bool rdma_sock_helper_dev_is_loopback(const struct net_device *dev)
{
	return READ_ONCE(dev->flags) & IFF_LOOPBACK;
}

bool rdma_sock_helper_dev_mac(const struct net_device *dev, u8 *mac)
{
	if (dev->addr_len != ETH_ALEN)
		return false;
	memcpy(mac, dev->dev_addr, ETH_ALEN);
	return true;
}

int rdma_sock_helper_ipv4_prefix(const struct net_device *dev, u32 addr_be,
				 u32 *net_be, u8 *len)
{
	struct in_device *in_dev = __in_dev_get_rcu(dev);
	const struct in_ifaddr *ifa;

	if (!in_dev)
		return -ENODEV;
	in_dev_for_each_ifa_rcu(ifa, in_dev) {
		if (!inet_ifa_match((__force __be32)addr_be, ifa))
			continue;
		*net_be = (__force u32)(ifa->ifa_address & ifa->ifa_mask);
		*len = ifa->ifa_prefixlen;
		return 0;
	}
	return -ENOENT;
}

u32 rdma_sock_helper_ipv6_prefixes(const struct net_device *dev, u8 *prefixes,
				   u8 *lens, u32 room)
{
	u32 count = 0;
#if IS_ENABLED(CONFIG_IPV6)
	struct inet6_dev *in6_dev = __in6_dev_get(dev);
	struct inet6_ifaddr *ifa;

	if (!in6_dev)
		return 0;
	list_for_each_entry_rcu(ifa, &in6_dev->addr_list, if_list) {
		if (count == room)
			break;
		if (ipv6_addr_type(&ifa->addr) & IPV6_ADDR_LINKLOCAL)
			continue;
		ipv6_addr_prefix((struct in6_addr *)(prefixes + 16 * count),
				 &ifa->addr, ifa->prefix_len);
		lens[count++] = ifa->prefix_len;
	}
#endif
	return count;
}
