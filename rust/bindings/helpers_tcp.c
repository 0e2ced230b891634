// SPDX-License-Identifier: GPL-2.0
/*
 * The stream of a TCP sock that the kernel itself uses.
 *
 * All functions want the lock of the sock, and none of them gives it back meanwhile: a work item
 * that took the lock without waiting must not wait for it here.
 */

#include "helpers_tcp.h"

#include <linux/bpf.h>
#include <linux/skbuff.h>
#include <linux/uio.h>
#include <net/inet_connection_sock.h>
#include <net/inet_hashtables.h>
#include <net/request_sock.h>
#include <net/tcp.h>

/* As inet_csk_accept() does it, which takes the lock itself. */
struct sock *rdma_sock_helper_take_child(struct sock *sk, int *err)
{
	struct request_sock_queue *queue = &inet_csk(sk)->icsk_accept_queue;
	struct request_sock *req;
	struct sock *child;

	if (sk->sk_state != TCP_LISTEN) {
		*err = -EINVAL;
		return NULL;
	}
	req = reqsk_queue_remove(queue, sk);
	if (!req) {
		*err = -EAGAIN;
		return NULL;
	}
	child = req->sk;
	if (tcp_rsk(req)->tfo_listener) {
		spin_lock_bh(&queue->fastopenq.lock);
		if (tcp_rsk(req)->tfo_listener) {
			/* reqsk_fastopen_remove() frees the request when the last ACK comes. */
			req->sk = NULL;
			req = NULL;
		}
		spin_unlock_bh(&queue->fastopenq.lock);
	}
	/* reqsk_put(), which modules cannot call. */
	if (req)
		sock_gen_put(req_to_sk(req));
	inet_init_csk_locks(child);
	*err = 0;
	return child;
}

int rdma_sock_helper_stream_send(struct sock *sk, void *data, size_t len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec = { .iov_base = data, .iov_len = len };

	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, len);
	return tcp_sendmsg_locked(sk, &msg, len);
}

/* What a receive that found no octets returns, in the order of tcp_recvmsg(). */
static int stream_end(struct sock *sk)
{
	if (sock_flag(sk, SOCK_DONE))
		return 0;
	if (sk->sk_err)
		return sock_error(sk);
	if (sk->sk_shutdown & RCV_SHUTDOWN)
		return 0;
	if (sk->sk_state == TCP_CLOSE)
		return -ENOTCONN;
	return -EAGAIN;
}

static int copy_piece(read_descriptor_t *desc, struct sk_buff *skb,
		      unsigned int offset, size_t len)
{
	int ret;

	len = min(len, desc->count);
	ret = skb_copy_bits(skb, offset, desc->arg.data, len);
	if (ret < 0)
		return ret;
	desc->arg.data += len;
	desc->count -= len;
	return len;
}

int rdma_sock_helper_stream_recv(struct sock *sk, void *data, size_t len)
{
	read_descriptor_t desc = { .arg.data = data, .count = len };
	int ret = tcp_read_sock(sk, &desc, copy_piece);

	return ret ? ret : stream_end(sk);
}

/* tcp_recv_skb() would take what is behind the first segment off the queue. */
int rdma_sock_helper_stream_peek(struct sock *sk, void *data, size_t len)
{
	u32 seq = tcp_sk(sk)->copied_seq;
	struct sk_buff *skb;
	size_t done = 0;

	skb_queue_walk(&sk->sk_receive_queue, skb) {
		u32 offset = seq - TCP_SKB_CB(skb)->seq;
		size_t count;

		if (TCP_SKB_CB(skb)->tcp_flags & TCPHDR_SYN)
			offset--;
		if (offset >= skb->len)
			continue;
		count = min_t(size_t, skb->len - offset, len - done);
		if (skb_copy_bits(skb, offset, data + done, count) < 0)
			break;
		done += count;
		seq += count;
		if (done == len)
			break;
	}
	if (done)
		return done;
	/* The error stays for the call that reads. */
	if (sk->sk_err && !sock_flag(sk, SOCK_DONE))
		return -sk->sk_err;
	return stream_end(sk);
}

#ifndef CONFIG_BPF_SYSCALL
#error "tcp_abort() with the lock held needs CONFIG_BPF_SYSCALL"
#endif

/* In the context of a BPF program tcp_abort() relies on the lock of its caller. */
void rdma_sock_helper_stream_abort(struct sock *sk, int err)
{
	struct bpf_run_ctx ctx = {};
	struct bpf_run_ctx *old = bpf_set_run_ctx(&ctx);

	tcp_abort(sk, err);
	bpf_reset_run_ctx(old);
	/* A read takes the queue before the error, and messages of the engine are not for it. */
	if (sk->sk_state == TCP_CLOSE) {
		__skb_queue_purge(&sk->sk_receive_queue);
		WRITE_ONCE(tcp_sk(sk)->copied_seq, tcp_sk(sk)->rcv_nxt);
	}
}

void rdma_sock_helper_set_missing_err(struct sock *sk, int err)
{
	if (sk->sk_state == TCP_CLOSE && !sk->sk_err)
		WRITE_ONCE(sk->sk_err, err);
}
