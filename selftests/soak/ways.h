/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ways to write to a socket, and to read from it. Each call moves some octets, or fails with errno;
 * EAGAIN means that one wait timed out. No wait is longer than TICK.
 */

#ifndef RS_WAYS_H
#define RS_WAYS_H

#include <linux/errqueue.h>
#include <liburing.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "plan.h"

#define TICK 1000	/* ms */
#define LARGEST_PART 300000

struct tools {
	int fd;
	int pipe[2];
	int memory;	/* a file without a name */
	int epoll;
	struct io_uring ring;
	bool has_ring;
	bool lends;
	bool dry;	/* empty since the last edge */
	__u32 lent;	/* calls without a copy */
	__u32 returned;
	size_t in_pipe;
	struct dice dice;
};

static inline void close_tools(struct tools *t)
{
	int fds[] = { t->pipe[0], t->pipe[1], t->memory, t->epoll };
	int n;

	for (n = 0; n < 4; n++) {
		if (fds[n] >= 0)
			close(fds[n]);
	}
	if (t->has_ring)
		io_uring_queue_exit(&t->ring);
}

/* Opens the tools of a way; -1 with errno. */
static inline int open_tools(struct tools *t, int fd, enum way way, bool reads, __u64 seed)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET };
	int error;

	*t = (struct tools){ .fd = fd, .pipe = { -1, -1 }, .memory = -1, .epoll = -1 };
	t->dice.state = mixed(seed);
	if (way == SPLICED) {
		if (pipe2(t->pipe, O_CLOEXEC))
			return -1;
		t->memory = memfd_create("soak", MFD_CLOEXEC);
		if (t->memory < 0)
			return -1;
	}
	if (way == RING) {
		error = io_uring_queue_init(4, &t->ring, 0);
		t->has_ring = !error;
		errno = -error;
		return error ? -1 : 0;
	}
	if (way == EDGE && reads) {
		t->epoll = epoll_create1(EPOLL_CLOEXEC);
		return t->epoll < 0 ? -1 : epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &event);
	}
	return 0;
}

/* Waits for events on the socket; -1 with EAGAIN after the time limit. */
static inline int await_socket(struct tools *t, short events)
{
	struct pollfd p = { .fd = t->fd, .events = events };

	if (poll(&p, 1, TICK) > 0)
		return 0;
	errno = EAGAIN;
	return -1;
}

/* Performs one request of the ring. The completion is awaited, as the memory is reused. */
static inline ssize_t by_ring(struct tools *t)
{
	struct io_uring_cqe *cqe;
	ssize_t n;

	n = io_uring_submit(&t->ring);
	if (n >= 0) {
		do {
			n = io_uring_wait_cqe(&t->ring, &cqe);
		} while (n == -EINTR);
	}
	if (n < 0) {
		errno = -n;
		return -1;
	}
	n = cqe->res;
	io_uring_cqe_seen(&t->ring, cqe);
	if (n >= 0)
		return n;
	errno = -n;
	return -1;
}

/* Waits until the kernel has released all lent memory; -1 after the time limit. */
static inline int await_memory(struct tools *t)
{
	char control[128], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct sock_extended_err *err;

	while (t->returned != t->lent) {
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		if (recvmsg(t->fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
			if (errno != EAGAIN || await_socket(t, 0))
				return -1;
			/* A broken socket is always ready; the completion comes a little later. */
			usleep(1000);
			continue;
		}
		err = (struct sock_extended_err *)CMSG_DATA(CMSG_FIRSTHDR(&msg));
		t->returned += err->ee_data - err->ee_info + 1;
	}
	return 0;
}

static inline ssize_t write_vector(struct tools *t, const char *data, size_t size)
{
	struct iovec iov[8];
	struct msghdr msg = { .msg_iov = iov };
	size_t at = 0;

	while (at < size && msg.msg_iovlen < 8) {
		size_t n = 1 + below(&t->dice, size - at);

		iov[msg.msg_iovlen].iov_base = (char *)data + at;
		iov[msg.msg_iovlen++].iov_len = n;
		at += n;
	}
	return sendmsg(t->fd, &msg, MSG_NOSIGNAL);
}

/* Writes through a pipe, or from a file. Octets in the pipe must be sent before the next ones. */
static inline ssize_t write_spliced(struct tools *t, const char *data, size_t size)
{
	off_t at = 0;
	ssize_t n;

	if (!t->in_pipe && percent(&t->dice, 50)) {
		/* The last pages may still be in flight: give the file new ones. */
		n = ftruncate(t->memory, 0) ? -1 : pwrite(t->memory, data, size, 0);
		return n < 0 ? n : sendfile(t->fd, t->memory, &at, n);
	}
	if (!t->in_pipe) {
		n = write(t->pipe[1], data, size < 60000 ? size : 60000);
		if (n < 0)
			return n;
		t->in_pipe = n;
	}
	n = splice(t->pipe[0], NULL, t->fd, NULL, t->in_pipe, 0);
	if (n > 0)
		t->in_pipe -= n;
	return n;
}

/* Writes some octets of `data`. */
static inline ssize_t write_some(struct tools *t, int way, const char *data, size_t size)
{
	struct io_uring_sqe *sqe;
	ssize_t n;

	switch (way) {
	case VECTOR:
		return write_vector(t, data, size);
	case POLLED:
		n = send(t->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0 || errno != EAGAIN)
			return n;
		if (await_socket(t, POLLOUT))
			return -1;
		return send(t->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
	case SPLICED:
		return write_spliced(t, data, size);
	case RING:
		sqe = io_uring_get_sqe(&t->ring);
		io_uring_prep_send(sqe, t->fd, data, size, MSG_NOSIGNAL);
		return by_ring(t);
	case MORE:
		return send(t->fd, data, size, MSG_NOSIGNAL |
			    (percent(&t->dice, 70) ? MSG_MORE : 0));
	case OTHER:
		if (t->lends) {
			n = send(t->fd, data, size, MSG_ZEROCOPY | MSG_NOSIGNAL);
			t->lent += n >= 0;
			return n;
		}
		if (percent(&t->dice, 5))
			return send(t->fd, data, 1, MSG_OOB | MSG_NOSIGNAL);
		return send(t->fd, data, size, MSG_NOSIGNAL);
	default:
		return percent(&t->dice, 50) ? write(t->fd, data, size) :
					       send(t->fd, data, size, MSG_NOSIGNAL);
	}
}

static inline ssize_t read_vector(struct tools *t, char *data, size_t size)
{
	size_t half = below(&t->dice, size);
	struct iovec iov[2] = { { data, half }, { data + half, size - half } };

	return readv(t->fd, iov, 2);
}

static inline ssize_t read_spliced(struct tools *t, char *data, size_t size)
{
	ssize_t n = splice(t->fd, NULL, t->pipe[1], NULL, size < 60000 ? size : 60000, 0);

	return n > 0 ? read(t->pipe[0], data, n) : n;
}

/* Peeks first, and takes exactly the octets that it saw. */
static inline ssize_t read_peeking(struct tools *t, char *data, size_t size)
{
	ssize_t n = recv(t->fd, data, size, MSG_PEEK), taken;
	char *seen;

	if (n <= 0)
		return n;
	seen = malloc(n);
	if (!seen)
		return recv(t->fd, data, size, 0);
	memcpy(seen, data, n);
	taken = recv(t->fd, data, n, 0);
	if (taken > 0 && memcmp(seen, data, taken)) {
		/* Makes the comparison with the stream fail, at the first octet. */
		data[0] ^= 1;
	}
	free(seen);
	return taken;
}

/* Reads until the socket is empty, and then waits for an edge, so that a lost edge shows. */
static inline ssize_t read_edge(struct tools *t, char *data, size_t size)
{
	struct epoll_event event;
	ssize_t n;

	if (t->dry && epoll_wait(t->epoll, &event, 1, TICK) <= 0) {
		errno = EAGAIN;
		return -1;
	}
	n = recv(t->fd, data, size, MSG_DONTWAIT);
	t->dry = n < 0 && errno == EAGAIN;
	return n;
}

/* Reads some octets; 0 at the end of the stream. */
static inline ssize_t read_some(struct tools *t, int way, char *data, size_t size)
{
	struct io_uring_sqe *sqe;

	switch (way) {
	case VECTOR:
		return read_vector(t, data, size);
	case POLLED:
		if (await_socket(t, POLLIN | POLLRDHUP))
			return -1;
		return recv(t->fd, data, size, MSG_DONTWAIT);
	case SPLICED:
		return read_spliced(t, data, size);
	case RING:
		sqe = io_uring_get_sqe(&t->ring);
		io_uring_prep_recv(sqe, t->fd, data, size, 0);
		return by_ring(t);
	case PEEK:
		return read_peeking(t, data, size);
	case EDGE:
		return read_edge(t, data, size);
	default:
		return percent(&t->dice, 30) ? recv(t->fd, data, size, MSG_WAITALL) :
					       read(t->fd, data, size);
	}
}

#endif
