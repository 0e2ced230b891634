// SPDX-License-Identifier: GPL-2.0
/* Inline functions and fields of a struct sock, as functions Rust can call. */

#include "helpers_sock.h"

#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <net/busy_poll.h>
#include <net/sock.h>

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

/* Whether a connection has nothing to report. The sock must be locked. */
bool rdma_sock_helper_sk_is_quiet(const struct sock *sk)
{
	return sk->sk_state == TCP_ESTABLISHED && !READ_ONCE(sk->sk_err) &&
	       !READ_ONCE(sk->sk_shutdown) &&
	       skb_queue_empty_lockless(&sk->sk_receive_queue);
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

void rdma_sock_helper_sk_set_buffers(struct sock *sk, int sndbuf, int rcvbuf)
{
	WRITE_ONCE(sk->sk_sndbuf, sndbuf);
	WRITE_ONCE(sk->sk_rcvbuf, rcvbuf);
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

u32 rdma_sock_helper_sk_bound(const struct sock *sk)
{
	return READ_ONCE(sk->sk_bound_dev_if);
}

u8 rdma_sock_helper_sk_shutdown(const struct sock *sk)
{
	return READ_ONCE(sk->sk_shutdown);
}
