/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bytes to send and to compare: a stream that is known by its seed, sent and received in full.
 */

#ifndef RS_BYTES_H
#define RS_BYTES_H

#include <errno.h>
#include <linux/types.h>
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

/* The same seed gives the same stream; it never starts at zero, where it would stay. */
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

/* Sends all; 0, or -1 with errno. */
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

/* Receives until `size` bytes or the end of the stream; how many, or -1 with errno. */
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

#endif
