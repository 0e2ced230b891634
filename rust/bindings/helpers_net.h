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

/* linux/rcupdate.h */
void rdma_sock_helper_kfree_rcu(struct rcu_head *head, void *object);

#endif
