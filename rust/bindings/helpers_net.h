/* SPDX-License-Identifier: GPL-2.0 */
/* Inline functions, macros and fields of the network stack, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_NET_H
#define RDMA_SOCK_HELPERS_NET_H

#include <linux/fs.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/proc_fs.h>
#include <linux/tcp.h>
#include <linux/wait.h>
#include <net/net_namespace.h>
#include <net/protocol.h>
#include <net/sock.h>

/* net/sock.h: life and lock */
void rdma_sock_helper_sock_hold(struct sock *sk);
void rdma_sock_helper_sock_put(struct sock *sk);
void rdma_sock_helper_lock_sock(struct sock *sk);
bool rdma_sock_helper_trylock_sock(struct sock *sk);
void rdma_sock_helper_release_sock(struct sock *sk);
void rdma_sock_helper_callback_lock(struct sock *sk);
void rdma_sock_helper_callback_unlock(struct sock *sk);
void rdma_sock_helper_sock_graft(struct sock *sk, struct socket *sock);
struct socket *rdma_sock_helper_sk_socket(const struct sock *sk);
void *rdma_sock_helper_user_data(const struct sock *sk);
void rdma_sock_helper_set_user_data(struct sock *sk, void *tagged);

/* net/sock.h: fields */
u16 rdma_sock_helper_sk_family(const struct sock *sk);
u8 rdma_sock_helper_sk_state(const struct sock *sk);
int rdma_sock_helper_sk_err(const struct sock *sk);
int rdma_sock_helper_sock_error(struct sock *sk);
bool rdma_sock_helper_has_error_queue(const struct sock *sk);
bool rdma_sock_helper_urg_inline(const struct sock *sk);
int rdma_sock_helper_peek_offset(const struct sock *sk, int flags);
void rdma_sock_helper_peek_offset_fwd(struct sock *sk, int count);
void rdma_sock_helper_peek_offset_bwd(struct sock *sk, int count);
u8 rdma_sock_helper_sk_userlocks(const struct sock *sk);
int rdma_sock_helper_sk_sndbuf(const struct sock *sk);
int rdma_sock_helper_sk_rcvbuf(const struct sock *sk);
long rdma_sock_helper_sndtimeo(const struct sock *sk, bool noblock);
long rdma_sock_helper_rcvtimeo(const struct sock *sk, bool noblock);
int rdma_sock_helper_rcvlowat(const struct sock *sk, bool waitall, int len);
bool rdma_sock_helper_can_busy_loop(struct sock *sk);
unsigned long rdma_sock_helper_busy_loop_start(void);
bool rdma_sock_helper_busy_loop_end(struct sock *sk, unsigned long start);
bool rdma_sock_helper_is_alone(void);
int rdma_sock_helper_intr_errno(long timeo);
unsigned long rdma_sock_helper_lingertime(const struct sock *sk);
bool rdma_sock_helper_sock_linger(const struct sock *sk);
void rdma_sock_helper_sock_no_linger(struct sock *sk);
u32 rdma_sock_helper_max_ack_backlog(const struct sock *sk);
u32 rdma_sock_helper_sk_uid(const struct sock *sk);
u64 rdma_sock_helper_sk_ino(const struct sock *sk);

/* net/sock.h: messages, wakes */
void rdma_sock_helper_send_sigurg(struct sock *sk);
struct wait_queue_head *rdma_sock_helper_sleepers(const struct sock *sk);
unsigned long rdma_sock_helper_wq_lock(struct wait_queue_head *head);
void rdma_sock_helper_wq_unlock(struct wait_queue_head *head, unsigned long flags);
void rdma_sock_helper_wake_locked(struct wait_queue_head *head);
void rdma_sock_helper_wake_locked_key(struct wait_queue_head *head,
				      unsigned int events);
void rdma_sock_helper_wake_async(struct sock *sk, int how, int band);
void rdma_sock_helper_poll_wait(struct file *file, struct socket *sock,
				struct poll_table_struct *table);
unsigned int rdma_sock_helper_poll_wanted(const struct poll_table_struct *table);

/* net/sock.h, net/tcp.h: the protocol of a sock */
struct proto *rdma_sock_helper_tcp_prot(void);
struct proto *rdma_sock_helper_tcpv6_prot(void);
void rdma_sock_helper_proto_copy(struct proto *to, const struct proto *from,
				 int (*init)(struct sock *sk));
void rdma_sock_helper_proto_restore(struct proto *to, const struct proto *from);
void rdma_sock_helper_not_leaked(const void *object);
int rdma_sock_helper_proto_init(struct proto *prot, struct sock *sk);
bool rdma_sock_helper_is_borrowed(const struct sock *sk);
bool rdma_sock_helper_same_slab(const struct sock *sk, const struct proto *prot);
void rdma_sock_helper_set_prot(struct sock *sk, struct proto *prot);
void rdma_sock_helper_set_prot_creator(struct sock *sk, struct proto *prot);
void rdma_sock_helper_set_protocol(struct sock *sk, u16 protocol);
const struct proto_ops *rdma_sock_helper_inet_ops(void);
const struct proto_ops *rdma_sock_helper_inet6_ops(void);
void rdma_sock_helper_inet_accept_graft(struct socket *listener,
					struct socket *newsock, struct sock *sk);

/* linux/net.h */
void rdma_sock_helper_set_inode_uid(struct socket *sock, const struct sock *sk);
void rdma_sock_helper_set_zerocopy(struct socket *sock, bool on);
bool rdma_sock_helper_zerocopy(const struct socket *sock);
void rdma_sock_helper_set_own_options(struct socket *sock);
int rdma_sock_helper_sock_setsockopt(struct socket *sock, int name,
				     const void *value, unsigned int len);
int rdma_sock_helper_sockptr_int(int *to, const void *from, unsigned int len);
void rdma_sock_helper_want_space_signal(struct sock *sk);
struct module *rdma_sock_helper_this_module(void);

/* linux/tcp.h, net/tcp.h, net/inet_sock.h */
int rdma_sock_helper_tcp_inq(struct sock *sk);
void rdma_sock_helper_tcp_shutdown_send(struct sock *sk);
bool rdma_sock_helper_tcp_signed(const struct sock *sk);
bool rdma_sock_helper_tcp_nodelay(const struct sock *sk);
bool rdma_sock_helper_tcp_corked(const struct sock *sk);
u32 rdma_sock_helper_tcp_keepalive(const struct sock *sk);
bool rdma_sock_helper_tcp_repair(const struct sock *sk);
bool rdma_sock_helper_tcp_fastopen_connect(const struct sock *sk);
u32 rdma_sock_helper_tcp_write_seq(const struct sock *sk);
u8 rdma_sock_helper_tcp_save_syn(const struct sock *sk);
void rdma_sock_helper_tcp_set_save_syn(struct sock *sk, u8 value);
void rdma_sock_helper_tcp_swap_save_syn(struct sock *sk, u8 from, u8 to);
u32 rdma_sock_helper_tcp_syn_options(const struct sock *sk, u8 *to);
void rdma_sock_helper_tcp_saved_syn_free(struct sock *sk);
bool rdma_sock_helper_has_syn_smc(void);
bool rdma_sock_helper_syn_smc(const struct sock *sk);
bool rdma_sock_helper_rx_smc(const struct sock *sk);
void rdma_sock_helper_set_syn_smc(struct sock *sk, bool on);
void rdma_sock_helper_set_hs_congested(struct sock *sk, bool (*congested)(const struct sock *sk));
void rdma_sock_helper_have_smc(bool on);
void rdma_sock_helper_local_addr(const struct sock *sk, u8 *ip, __be16 *port,
				 u32 *scope);
void rdma_sock_helper_peer_addr(const struct sock *sk, u8 *ip, __be16 *port,
				u32 *scope);

/* net/dst.h, linux/if_vlan.h, linux/inetdevice.h, net/addrconf.h: all under rcu_read_lock() */
struct net_device *rdma_sock_helper_egress(struct sock *sk, u32 *mtu);
struct net_device *rdma_sock_helper_vlan_base(struct net_device *dev, u16 *vlan);
u32 rdma_sock_helper_dev_ifindex(const struct net_device *dev);
bool rdma_sock_helper_dev_is_loopback(const struct net_device *dev);
bool rdma_sock_helper_dev_mac(const struct net_device *dev, u8 *mac);
int rdma_sock_helper_ipv4_prefix(const struct net_device *dev, u32 addr_be,
				 u32 *net_be, u8 *len);
u32 rdma_sock_helper_ipv6_prefixes(const struct net_device *dev, u8 *prefixes,
				   u8 *lens, u32 room);

/* net/net_namespace.h */
struct net *rdma_sock_helper_sock_net(const struct sock *sk);
struct net *rdma_sock_helper_seq_net(struct seq_file *seq);
struct net *rdma_sock_helper_seq_file_net(struct file *file);
struct proc_dir_entry *rdma_sock_helper_proc_mkdir(struct net *net,
						   const char *name);
void rdma_sock_helper_proc_rmdir(struct net *net, const char *name);
struct proc_dir_entry *
rdma_sock_helper_proc_single(const char *name, struct proc_dir_entry *parent,
			     int (*show)(struct seq_file *, void *),
			     int (*write)(struct file *, char *, size_t));

/* linux/uaccess.h */
int rdma_sock_helper_get_user_int(int *value, const int __user *from);
int rdma_sock_helper_put_user_int(int value, int __user *to);

/* linux/net.h: struct proto_accept_arg */
int rdma_sock_helper_accept_flags(const struct proto_accept_arg *arg);

/* linux/wait.h */
void rdma_sock_helper_init_wait_func(struct wait_queue_entry *entry,
				     wait_queue_func_t func);
bool rdma_sock_helper_signal_pending(void);
void rdma_sock_helper_wake_one(struct wait_queue_head *head);

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
struct sock *rdma_sock_helper_rsk_listener(struct sock *sk);
u32 rdma_sock_helper_rsk_syn_options(struct sock *sk, u8 *to);

/* linux/rcupdate.h */
void rdma_sock_helper_kfree_rcu(struct rcu_head *head, void *object);

#endif /* RDMA_SOCK_HELPERS_NET_H */
