// SPDX-License-Identifier: GPL-2.0
/* Inline functions, macros and fields of the network stack, as functions Rust can call. */

#include "helpers_net.h"

#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/kmemleak.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/seq_file_net.h>
#include <linux/uaccess.h>
#include <net/addrconf.h>
#include <net/busy_poll.h>
#include <net/dst.h>
#include <net/inet6_hashtables.h>
#include <net/inet_common.h>
#include <net/inet_hashtables.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>
#include <net/tcp.h>
#include <net/transp_v6.h>

/* net/sock.h: life and lock */

void rdma_sock_helper_sock_hold(struct sock *sk)
{
	sock_hold(sk);
}

void rdma_sock_helper_sock_put(struct sock *sk)
{
	sock_put(sk);
}

void rdma_sock_helper_lock_sock(struct sock *sk)
{
	lock_sock(sk);
}

bool rdma_sock_helper_trylock_sock(struct sock *sk)
{
	bool taken;

	spin_lock_bh(&sk->sk_lock.slock);
	taken = !sk->sk_lock.owned;
	if (taken) {
		sk->sk_lock.owned = 1;
		mutex_acquire(&sk->sk_lock.dep_map, 0, 1, _RET_IP_);
	}
	spin_unlock_bh(&sk->sk_lock.slock);
	return taken;
}

void rdma_sock_helper_release_sock(struct sock *sk)
{
	release_sock(sk);
}

void rdma_sock_helper_callback_lock(struct sock *sk)
{
	write_lock_bh(&sk->sk_callback_lock);
}

void rdma_sock_helper_callback_unlock(struct sock *sk)
{
	write_unlock_bh(&sk->sk_callback_lock);
}

void rdma_sock_helper_sock_graft(struct sock *sk, struct socket *sock)
{
	sock_graft(sk, sock);
}

struct socket *rdma_sock_helper_sk_socket(const struct sock *sk)
{
	return READ_ONCE(sk->sk_socket);
}

void *rdma_sock_helper_user_data(const struct sock *sk)
{
	return rcu_dereference_raw(__sk_user_data(sk));
}

void rdma_sock_helper_set_user_data(struct sock *sk, void *tagged)
{
	rcu_assign_pointer(__sk_user_data(sk), tagged);
}

/* net/sock.h: fields */

u16 rdma_sock_helper_sk_family(const struct sock *sk)
{
	return READ_ONCE(sk->sk_family);
}

u8 rdma_sock_helper_sk_state(const struct sock *sk)
{
	/* Pairs with the release in inet_sk_state_store(). */
	return smp_load_acquire(&sk->sk_state);
}

int rdma_sock_helper_sk_err(const struct sock *sk)
{
	return READ_ONCE(sk->sk_err);
}

int rdma_sock_helper_sock_error(struct sock *sk)
{
	return sock_error(sk);
}

bool rdma_sock_helper_has_error_queue(const struct sock *sk)
{
	return !skb_queue_empty_lockless(&sk->sk_error_queue);
}

bool rdma_sock_helper_urg_inline(const struct sock *sk)
{
	return sock_flag(sk, SOCK_URGINLINE);
}

int rdma_sock_helper_peek_offset(const struct sock *sk, int flags)
{
	return sk_peek_offset(sk, flags);
}

void rdma_sock_helper_peek_offset_fwd(struct sock *sk, int count)
{
	sk_peek_offset_fwd(sk, count);
}

void rdma_sock_helper_peek_offset_bwd(struct sock *sk, int count)
{
	sk_peek_offset_bwd(sk, count);
}

u8 rdma_sock_helper_sk_userlocks(const struct sock *sk)
{
	return READ_ONCE(sk->sk_userlocks);
}

int rdma_sock_helper_sk_sndbuf(const struct sock *sk)
{
	return READ_ONCE(sk->sk_sndbuf);
}

int rdma_sock_helper_sk_rcvbuf(const struct sock *sk)
{
	return READ_ONCE(sk->sk_rcvbuf);
}

long rdma_sock_helper_sndtimeo(const struct sock *sk, bool noblock)
{
	return sock_sndtimeo(sk, noblock);
}

long rdma_sock_helper_rcvtimeo(const struct sock *sk, bool noblock)
{
	return sock_rcvtimeo(sk, noblock);
}

int rdma_sock_helper_rcvlowat(const struct sock *sk, bool waitall, int len)
{
	return sock_rcvlowat(sk, waitall, len);
}

bool rdma_sock_helper_can_busy_loop(struct sock *sk)
{
	return sk_can_busy_loop(sk);
}

unsigned long rdma_sock_helper_busy_loop_start(void)
{
	return busy_loop_current_time();
}

bool rdma_sock_helper_busy_loop_end(struct sock *sk, unsigned long start)
{
	return sk_busy_loop_timeout(sk, start) || signal_pending(current);
}

bool rdma_sock_helper_is_alone(void)
{
	cpu_relax();
	return single_task_running();
}

int rdma_sock_helper_intr_errno(long timeo)
{
	return sock_intr_errno(timeo);
}

unsigned long rdma_sock_helper_lingertime(const struct sock *sk)
{
	return READ_ONCE(sk->sk_lingertime);
}

bool rdma_sock_helper_sock_linger(const struct sock *sk)
{
	return sock_flag(sk, SOCK_LINGER);
}

void rdma_sock_helper_sock_no_linger(struct sock *sk)
{
	sock_reset_flag(sk, SOCK_LINGER);
}

u32 rdma_sock_helper_max_ack_backlog(const struct sock *sk)
{
	return READ_ONCE(sk->sk_max_ack_backlog);
}

u32 rdma_sock_helper_sk_uid(const struct sock *sk)
{
	return from_kuid_munged(sock_net(sk)->user_ns, sk_uid(sk));
}

u64 rdma_sock_helper_sk_ino(const struct sock *sk)
{
	return sock_i_ino(sk);
}

/* net/sock.h: messages, wakes */

void rdma_sock_helper_send_sigurg(struct sock *sk)
{
	/* Keeps the socket and its file where they are, as sock_orphan() takes the lock. */
	read_lock_bh(&sk->sk_callback_lock);
	sk_send_sigurg(sk);
	read_unlock_bh(&sk->sk_callback_lock);
}

struct wait_queue_head *rdma_sock_helper_sleepers(const struct sock *sk)
{
	struct socket_wq *wq = rcu_dereference(sk->sk_wq);

	return skwq_has_sleeper(wq) ? &wq->wait : NULL;
}

unsigned long rdma_sock_helper_wq_lock(struct wait_queue_head *head)
{
	unsigned long flags;

	spin_lock_irqsave(&head->lock, flags);
	return flags;
}

void rdma_sock_helper_wq_unlock(struct wait_queue_head *head, unsigned long flags)
{
	spin_unlock_irqrestore(&head->lock, flags);
}

void rdma_sock_helper_wake_locked(struct wait_queue_head *head)
{
	__wake_up_locked(head, TASK_INTERRUPTIBLE, 0);
}

void rdma_sock_helper_wake_locked_key(struct wait_queue_head *head,
				      unsigned int events)
{
	__wake_up_locked_key(head, TASK_INTERRUPTIBLE,
			     poll_to_key((__force __poll_t)events));
}

void rdma_sock_helper_wake_async(struct sock *sk, int how, int band)
{
	rcu_read_lock();
	sk_wake_async_rcu(sk, how, band);
	rcu_read_unlock();
}

void rdma_sock_helper_poll_wait(struct file *file, struct socket *sock,
				struct poll_table_struct *table)
{
	sock_poll_wait(file, sock, table);
}

unsigned int rdma_sock_helper_poll_wanted(const struct poll_table_struct *table)
{
	return (__force unsigned int)poll_requested_events(table);
}

/* net/sock.h, net/tcp.h: the protocol of a sock */

struct proto *rdma_sock_helper_tcp_prot(void)
{
	return &tcp_prot;
}

struct proto *rdma_sock_helper_tcpv6_prot(void)
{
	return &tcpv6_prot;
}

void rdma_sock_helper_proto_copy(struct proto *to, const struct proto *from,
				 int (*init)(struct sock *sk))
{
	*to = *from;
	to->owner = THIS_MODULE;
	to->init = init;
}

/* A socket call that found @to before it was unregistered makes a TCP socket of it. */
void rdma_sock_helper_proto_restore(struct proto *to, const struct proto *from)
{
	WRITE_ONCE(to->init, from->init);
	/* Operations of sockets and the function come before the owner that vouches for them. */
	smp_wmb();
	WRITE_ONCE(to->owner, from->owner);
}

void rdma_sock_helper_not_leaked(const void *object)
{
	kmemleak_not_leak(object);
}

int rdma_sock_helper_proto_init(struct proto *prot, struct sock *sk)
{
	return prot->init(sk);
}

bool rdma_sock_helper_is_borrowed(const struct sock *sk)
{
	return READ_ONCE(sk->sk_prot_creator)->owner == THIS_MODULE;
}

bool rdma_sock_helper_same_slab(const struct sock *sk, const struct proto *prot)
{
	return READ_ONCE(sk->sk_prot_creator)->slab == prot->slab;
}

void rdma_sock_helper_set_prot(struct sock *sk, struct proto *prot)
{
	WRITE_ONCE(sk->sk_prot, prot);
}

void rdma_sock_helper_set_prot_creator(struct sock *sk, struct proto *prot)
{
	WRITE_ONCE(sk->sk_prot_creator, prot);
}

void rdma_sock_helper_set_protocol(struct sock *sk, u16 protocol)
{
	sk->sk_protocol = protocol;
}

const struct proto_ops *rdma_sock_helper_inet_ops(void)
{
	return &inet_stream_ops;
}

const struct proto_ops *rdma_sock_helper_inet6_ops(void)
{
	return &inet6_stream_ops;
}

void rdma_sock_helper_inet_accept_graft(struct socket *listener,
					struct socket *newsock, struct sock *sk)
{
	__inet_accept(listener, newsock, sk);
}

/* linux/net.h */

void rdma_sock_helper_set_inode_uid(struct socket *sock, const struct sock *sk)
{
	SOCK_INODE(sock)->i_uid = sk_uid(sk);
}

void rdma_sock_helper_set_zerocopy(struct socket *sock, bool on)
{
	assign_bit(SOCK_SUPPORT_ZC, &sock->flags, on);
}

bool rdma_sock_helper_zerocopy(const struct socket *sock)
{
	return test_bit(SOCK_SUPPORT_ZC, &sock->flags);
}

void rdma_sock_helper_set_own_options(struct socket *sock)
{
	set_bit(SOCK_CUSTOM_SOCKOPT, &sock->flags);
}

/* @value points to a sockptr_t. */
int rdma_sock_helper_sock_setsockopt(struct socket *sock, int name,
				     const void *value, unsigned int len)
{
	return sock_setsockopt(sock, SOL_SOCKET, name,
			       *(const sockptr_t *)value, len);
}

/* @from points to a sockptr_t. */
int rdma_sock_helper_sockptr_int(int *to, const void *from, unsigned int len)
{
	if (len < sizeof(*to))
		return -EINVAL;
	return copy_from_sockptr(to, *(const sockptr_t *)from, sizeof(*to)) ? -EFAULT : 0;
}

void rdma_sock_helper_want_space_signal(struct sock *sk)
{
	sk_set_bit(SOCKWQ_ASYNC_NOSPACE, sk);
}

struct module *rdma_sock_helper_this_module(void)
{
	return THIS_MODULE;
}

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

/* net/net_namespace.h */

struct net *rdma_sock_helper_sock_net(const struct sock *sk)
{
	return sock_net(sk);
}

struct net *rdma_sock_helper_seq_net(struct seq_file *seq)
{
	return seq_file_single_net(seq);
}

struct net *rdma_sock_helper_seq_file_net(struct file *file)
{
	struct net *net = seq_file_single_net(file->private_data);

	return ns_capable(net->user_ns, CAP_NET_ADMIN) ? net : NULL;
}

struct proc_dir_entry *rdma_sock_helper_proc_mkdir(struct net *net,
						   const char *name)
{
	return proc_net_mkdir(net, name, net->proc_net);
}

void rdma_sock_helper_proc_rmdir(struct net *net, const char *name)
{
	remove_proc_subtree(name, net->proc_net);
}

struct proc_dir_entry *
rdma_sock_helper_proc_single(const char *name, struct proc_dir_entry *parent,
			     int (*show)(struct seq_file *, void *),
			     int (*write)(struct file *, char *, size_t))
{
	return proc_create_net_single_write(name, write ? 0644 : 0444, parent,
					    show, write, NULL);
}

/* linux/uaccess.h */

int rdma_sock_helper_get_user_int(int *value, const int __user *from)
{
	return get_user(*value, from);
}

int rdma_sock_helper_put_user_int(int value, int __user *to)
{
	return put_user(value, to);
}

/* linux/net.h: struct proto_accept_arg */

int rdma_sock_helper_accept_flags(const struct proto_accept_arg *arg)
{
	return arg->flags;
}

/* linux/wait.h */

void rdma_sock_helper_init_wait_func(struct wait_queue_entry *entry,
				     wait_queue_func_t func)
{
	init_waitqueue_func_entry(entry, func);
	entry->private = current;
	INIT_LIST_HEAD(&entry->entry);
}

bool rdma_sock_helper_signal_pending(void)
{
	return signal_pending(current);
}

void rdma_sock_helper_wake_one(struct wait_queue_head *head)
{
	wake_up_interruptible(head);
}

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

/* linux/rcupdate.h */

void rdma_sock_helper_kfree_rcu(struct rcu_head *head, void *object)
{
	kvfree_call_rcu((void *)head, object);
}
