/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Streams of bytes that a seed determines, and calls that send, receive and wait on a socket.
 */

#ifndef RS_BYTES_H
#define RS_BYTES_H

#include <errno.h>
#include <linux/types.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

struct bytes {
	__u64 state;
};

static inline __u64 next_random(struct bytes *bytes)
{
	bytes->state ^= bytes->state << 13;
	bytes->state ^= bytes->state >> 7;
	bytes->state ^= bytes->state << 17;
	return bytes->state;
}

/* A stream for a seed. The state is never 0, from which the generator would not move. */
static inline struct bytes bytes_of(__u64 seed)
{
	struct bytes bytes = { .state = seed * 2 + 0x9e3779b97f4a7c15 };

	next_random(&bytes);
	return bytes;
}

/* Fills a buffer from a seed. */
static inline void fill(void *to, size_t size, __u64 seed)
{
	struct bytes bytes = bytes_of(seed);
	unsigned char *p = to;
	__u64 word = 0;
	size_t n;

	for (n = 0; n < size; n++) {
		if (n % 8 == 0)
			word = next_random(&bytes);
		p[n] = word >> (n % 8 * 8);
	}
}

/* Sends a whole buffer; 0, or -1 with errno. */
static inline int send_all(int fd, const void *from, size_t size)
{
	const char *p = from;

	while (size) {
		ssize_t n = send(fd, p, size, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		p += n;
		size -= n;
	}
	return 0;
}

/* Receives until `size` bytes or the end of the stream; the number of bytes, or -1 with errno. */
static inline ssize_t recv_all(int fd, void *to, size_t size)
{
	char *p = to;
	size_t got = 0;

	while (got < size) {
		ssize_t n = recv(fd, p + got, size - got, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (!n)
			break;
		got += n;
	}
	return got;
}

/* The errno of a call that returned `result`; 0 after success. */
static inline int last_errno(ssize_t result)
{
	return result < 0 ? errno : 0;
}

/* Waits for events; the events, 0 after the time limit, or -1. */
static inline int await_events(int fd, int events, int timeout)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n = poll(&p, 1, timeout);

	return n <= 0 ? n : p.revents;
}

/* Waits until `count` bytes can be read, at most 256. */
static inline bool await_bytes(int fd, int count)
{
	char buf[256];

	return recv(fd, buf, count, MSG_PEEK | MSG_WAITALL) == count;
}

/* Sends until the socket is not writable for 300 ms; the number of bytes, or -1 after an error. */
static inline long long send_until_full(int fd)
{
	static char chunk[65536];
	long long total = 0;
	ssize_t n;

	do {
		while ((n = send(fd, chunk, sizeof(chunk), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
			total += n;
		if (n == 0 || errno != EAGAIN)
			return -1;
		/* Bytes in flight become room as the peer takes them. */
	} while (await_events(fd, POLLOUT, 300) == POLLOUT);
	return total;
}

/* Sends as send_until_full(), and then single bytes until the socket refuses one. */
static inline long long send_until_refused(int fd)
{
	long long total = send_until_full(fd);

	while (send(fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
		total++;
	return total;
}

/* Receives and drops `size` bytes; fewer after the end of the stream or an error. */
static inline long long receive_and_drop(int fd, long long size)
{
	static char chunk[65536];
	long long total = 0;

	while (total < size) {
		ssize_t n = recv(fd, chunk, sizeof(chunk), 0);

		if (n <= 0)
			break;
		total += n;
	}
	return total;
}

#endif
