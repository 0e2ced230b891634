// SPDX-License-Identifier: GPL-2.0
/*
 * Paths to TCP's receive queue that bypass the operations of a socket: io_uring's zero-copy
 * receive, TCP_ZEROCOPY_RECEIVE with mmap(). With SMC-R that queue holds handshake messages, or
 * nothing, so these paths are refused. Without SMC-R they work as on any TCP socket.
 */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <liburing.h>
#include <linux/tcp.h>
#include <sys/mman.h>

#include "conn.h"

#ifndef SOL_TCP
#define SOL_TCP 6
#endif

static int page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

/* An errno, 0 for success. */
static int map(int fd)
{
	void *p = mmap(NULL, page_size(), PROT_READ, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return errno;
	munmap(p, page_size());
	return 0;
}

/* Receives up to `size` bytes by copying, as they do not fill a page; the number, or -errno. */
static int zerocopy(int fd, void *to, int size)
{
	struct tcp_zerocopy_receive zc = {
		.copybuf_address = (unsigned long)to,
		.copybuf_len = size,
	};
	socklen_t len = sizeof(zc);

	if (getsockopt(fd, SOL_TCP, TCP_ZEROCOPY_RECEIVE, &zc, &len))
		return -errno;
	return zc.copybuf_len;
}

TEST_F(conn, mapping_of_a_connection)
{
	EXPECT_EQ(is_carried(self->kind) ? ENODEV : 0, map(self->client));
	EXPECT_EQ(is_carried(self->kind) ? ENODEV : 0, map(self->server));
}

TEST_F(kind, mapping_of_a_fresh_socket)
{
	int fd = new_socket(self->kind, CLIENT, 0);

	EXPECT_EQ(0, map(fd));
	close(fd);
}

TEST_F(conn, zerocopy_receive_of_a_connection)
{
	char buf[64] = "", data[8];
	int result;

	ASSERT_EQ(5, send(self->client, "hello", 5, 0));
	ASSERT_EQ(5, recv(self->server, data, 5, MSG_PEEK | MSG_WAITALL));
	result = zerocopy(self->server, buf, sizeof(buf));
	if (is_carried(self->kind)) {
		EXPECT_EQ(-ENOPROTOOPT, result);
		ASSERT_EQ(5, recv(self->server, buf, 5, 0));
	} else {
		EXPECT_EQ(5, result);
	}
	EXPECT_EQ(0, memcmp(buf, "hello", 5));
}

/* A peer that agrees to SMC-R and stalls: later handshake messages must not reach other readers. */
TEST_F(kind, zerocopy_receive_during_the_handshake)
{
	int listener, client, n, result = 0;
	char buf[64];

	if (!is_carried(self->kind))
		return;
	listener = new_listener(self->kind, 1, NULL);
	for (n = 0; n < 30; n++) {
		client = new_socket(self->kind, CLIENT, SOCK_NONBLOCK);
		ASSERT_EQ(-1, connect_to(self->kind, client, listener));
		do {
			result = zerocopy(client, buf, sizeof(buf));
			EXPECT_EQ(-ENOPROTOOPT, result);
		} while (!await_events(client, POLLOUT, 0));
		ASSERT_EQ(0, close(accept(listener, NULL, NULL)));
		close(client);
	}
	close(listener);
}

#ifdef IORING_OP_RECV_ZC
#define RECV_ZC IORING_OP_RECV_ZC
#else
#define RECV_ZC 58
#endif

/*
 * The kernel first looks for a receive queue of a network device, which no device has here. The
 * request fails with another errno than with such a queue, and must not consume data.
 */
TEST_F(conn, request_for_zero_copy_receive_takes_nothing)
{
	struct __kernel_timespec limit = { .tv_sec = 5 };
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	char buf[8] = "";

	if (io_uring_queue_init(8, &ring, 0))
		SKIP(return, "no io_uring here");
	ASSERT_EQ(5, send(self->client, "hello", 5, 0));
	ASSERT_EQ(5, recv(self->server, buf, 5, MSG_PEEK | MSG_WAITALL));
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_rw(RECV_ZC, sqe, self->server, NULL, 0, 0);
	sqe->ioprio = 2 /* IORING_RECV_MULTISHOT */;
	io_uring_submit(&ring);
	ASSERT_EQ(0, io_uring_wait_cqe_timeout(&ring, &cqe, &limit));
	EXPECT_GT(0, cqe->res);
	io_uring_cqe_seen(&ring, cqe);
	EXPECT_EQ(5, recv(self->server, buf, 5, 0));
	EXPECT_EQ(0, memcmp(buf, "hello", 5));
	io_uring_queue_exit(&ring);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
