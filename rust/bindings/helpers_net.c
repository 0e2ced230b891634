// SPDX-License-Identifier: GPL-2.0
/* Inline functions, macros and fields of the network stack, as functions Rust can call. */

#include "helpers_net.h"

#include <linux/kmemleak.h>
#include <linux/sched/signal.h>
#include <linux/seq_file_net.h>
#include <linux/uaccess.h>
#include <net/inet_common.h>
#include <net/ipv6.h>
#include <net/tcp.h>
#include <net/transp_v6.h>

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

/* linux/rcupdate.h */

void rdma_sock_helper_kfree_rcu(struct rcu_head *head, void *object)
{
	kvfree_call_rcu((void *)head, object);
}
