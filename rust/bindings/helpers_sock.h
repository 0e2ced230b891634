/* SPDX-License-Identifier: GPL-2.0 */
/* Inline functions and fields of a struct sock, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_SOCK_H
#define RDMA_SOCK_HELPERS_SOCK_H

#include <linux/fs.h>
#include <linux/net.h>
#include <linux/wait.h>
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
bool rdma_sock_helper_sk_is_quiet(const struct sock *sk);
int rdma_sock_helper_sock_error(struct sock *sk);
bool rdma_sock_helper_has_error_queue(const struct sock *sk);
bool rdma_sock_helper_urg_inline(const struct sock *sk);
int rdma_sock_helper_peek_offset(const struct sock *sk, int flags);
void rdma_sock_helper_peek_offset_fwd(struct sock *sk, int count);
void rdma_sock_helper_peek_offset_bwd(struct sock *sk, int count);
u8 rdma_sock_helper_sk_userlocks(const struct sock *sk);
int rdma_sock_helper_sk_sndbuf(const struct sock *sk);
int rdma_sock_helper_sk_rcvbuf(const struct sock *sk);
void rdma_sock_helper_sk_set_buffers(struct sock *sk, int sndbuf, int rcvbuf);
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
u32 rdma_sock_helper_sk_bound(const struct sock *sk);
u8 rdma_sock_helper_sk_shutdown(const struct sock *sk);
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

#endif
