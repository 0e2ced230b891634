// SPDX-License-Identifier: GPL-2.0
/* All calls that send and receive on a connection, with vectors, flags, time limits and signals. */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "conn.h"

/* API-02. */
TEST_F(conn, send_and_recv_both_ways)
{
	char buf[64] = "";

	ASSERT_EQ(5, send(self->client, "hello", 5, 0));
	ASSERT_EQ(5, recv(self->server, buf, sizeof(buf), 0));
	EXPECT_EQ(0, memcmp(buf, "hello", 5));
	ASSERT_EQ(6, send(self->server, "answer", 6, 0));
	ASSERT_EQ(6, recv(self->client, buf, sizeof(buf), 0));
	EXPECT_EQ(0, memcmp(buf, "answer", 6));
	EXPECT_SENT(self, 11);
}

TEST_F(conn, write_and_read)
{
	char buf[64] = "";

	ASSERT_EQ(3, write(self->client, "abc", 3));
	ASSERT_EQ(1, read(self->server, buf, 1));
	ASSERT_EQ(2, read(self->server, buf + 1, sizeof(buf) - 1));
	EXPECT_EQ(0, memcmp(buf, "abc", 3));
	EXPECT_SENT(self, 3);
}

TEST_F(conn, sends_of_nothing_send_nothing)
{
	char c;

	EXPECT_EQ(0, send(self->client, "", 0, 0));
	EXPECT_EQ(0, write(self->client, "", 0));
	EXPECT_EQ(-1, recv(self->server, &c, 1, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_SENT(self, 0);
}

TEST_F(conn, vectors)
{
	char a[3], b[1], c[100];
	struct iovec out[] = { { "one", 3 }, { "", 0 }, { "twothree", 8 } };
	struct iovec in[] = { { a, sizeof(a) }, { b, sizeof(b) }, { c, sizeof(c) } };

	ASSERT_EQ(11, writev(self->client, out, 3));
	ASSERT_EQ(11, readv(self->server, in, 3));
	EXPECT_EQ(0, memcmp(a, "one", 3));
	EXPECT_EQ('t', b[0]);
	EXPECT_EQ(0, memcmp(c, "wothree", 7));
	EXPECT_SENT(self, 11);
}

/* API-02. */
TEST_F(conn, sendmsg_and_recvmsg_with_many_vectors)
{
	enum { PARTS = 300 };
	static char out[PARTS][7], in[PARTS * 7];
	struct iovec vectors[PARTS], back[2] = { { in, 1000 }, { in + 1000, sizeof(in) - 1000 } };
	struct msghdr msg = { .msg_iov = vectors, .msg_iovlen = PARTS };
	struct sockaddr_storage name;
	struct msghdr got = { .msg_iov = back, .msg_iovlen = 2, .msg_name = &name,
			      .msg_namelen = sizeof(name), .msg_flags = -1 };
	int n;

	fill(out, sizeof(out), 1);
	for (n = 0; n < PARTS; n++)
		vectors[n] = (struct iovec){ out[n], sizeof(out[n]) };
	ASSERT_EQ((ssize_t)sizeof(out), sendmsg(self->client, &msg, 0));
	ASSERT_EQ((ssize_t)sizeof(in), recvmsg(self->server, &got, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(in, out, sizeof(in)));
	/* A stream has neither names nor message boundaries. */
	EXPECT_EQ(0, got.msg_namelen);
	EXPECT_EQ(0, got.msg_flags & (MSG_TRUNC | MSG_EOR | MSG_CTRUNC));
	EXPECT_SENT(self, sizeof(out));
}

/* API-02. */
TEST_F(conn, sendmmsg_and_recvmmsg)
{
	char in[2][3];
	struct iovec out_iov[] = { { "abc", 3 }, { "def", 3 } };
	struct iovec in_iov[] = { { in[0], 3 }, { in[1], 3 } };
	struct mmsghdr out[2] = {}, got[2] = {};
	int n;

	for (n = 0; n < 2; n++) {
		out[n].msg_hdr.msg_iov = &out_iov[n];
		out[n].msg_hdr.msg_iovlen = 1;
		got[n].msg_hdr.msg_iov = &in_iov[n];
		got[n].msg_hdr.msg_iovlen = 1;
	}
	ASSERT_EQ(2, sendmmsg(self->client, out, 2, 0));
	EXPECT_EQ(3, out[0].msg_len);
	ASSERT_EQ(2, recvmmsg(self->server, got, 2, MSG_WAITALL, NULL));
	EXPECT_EQ(0, memcmp(in, "abcdef", 6));
	EXPECT_SENT(self, 6);
}

TEST_F(conn, sendto_with_an_address_is_refused_or_ignored_as_by_tcp)
{
	union address address = address_of(self->kind, SERVER, local_port(self->listener));
	char c;

	/* On Linux a connected stream socket ignores the address. */
	ASSERT_EQ(1, sendto(self->client, "x", 1, 0, &address.sa, address_size(self->kind)));
	ASSERT_EQ(1, recv(self->server, &c, 1, 0));
	EXPECT_EQ('x', c);
}

TEST_F(conn, peek_leaves_the_data)
{
	char buf[16];

	ASSERT_EQ(10, send(self->client, "0123456789", 10, 0));
	ASSERT_EQ(10, recv(self->server, buf, 10, MSG_PEEK | MSG_WAITALL));
	ASSERT_EQ(4, recv(self->server, buf, 4, MSG_PEEK));
	EXPECT_EQ(0, memcmp(buf, "0123", 4));
	ASSERT_EQ(4, recv(self->server, buf, 4, 0));
	EXPECT_EQ(0, memcmp(buf, "0123", 4));
	ASSERT_EQ(6, recv(self->server, buf, sizeof(buf), MSG_PEEK));
	EXPECT_EQ(0, memcmp(buf, "456789", 6));
	ASSERT_EQ(6, recv(self->server, buf, sizeof(buf), 0));
	EXPECT_EQ(-1, recv(self->server, buf, 1, MSG_PEEK | MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_SENT(self, 10);
}

struct late {
	int fd;
	const char *data;
	pthread_barrier_t *before;
};

static void *send_late(void *arg)
{
	struct late *late = arg;

	pthread_barrier_wait(late->before);
	send_all(late->fd, late->data, strlen(late->data));
	return NULL;
}

TEST_F(conn, waitall_waits_for_all)
{
	pthread_barrier_t barrier;
	struct late late = { self->client, "56789", &barrier };
	pthread_t thread;
	char buf[16];

	pthread_barrier_init(&barrier, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, send_late, &late));
	ASSERT_EQ(5, send(self->client, "01234", 5, 0));
	pthread_barrier_wait(&barrier);
	ASSERT_EQ(10, recv(self->server, buf, 10, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "0123456789", 10));
	pthread_join(thread, NULL);
}

TEST_F(conn, waitall_ends_with_the_stream)
{
	char buf[16];

	ASSERT_EQ(5, send(self->client, "01234", 5, 0));
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	ASSERT_EQ(5, recv(self->server, buf, 10, MSG_WAITALL));
	EXPECT_EQ(0, recv(self->server, buf, 10, MSG_WAITALL));
}

TEST_F(conn, dontwait)
{
	char c;

	EXPECT_EQ(-1, recv(self->server, &c, 1, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, fcntl(self->server, F_SETFL, O_NONBLOCK));
	EXPECT_EQ(-1, read(self->server, &c, 1));
	EXPECT_EQ(EAGAIN, errno);
}

TEST_F(conn, trunc_discards)
{
	char buf[16] = "................";

	ASSERT_EQ(10, send(self->client, "0123456789", 10, 0));
	ASSERT_EQ(POLLIN, await_events(self->server, POLLIN, 5000));
	ASSERT_EQ(4, recv(self->server, buf, 4, MSG_TRUNC | MSG_WAITALL));
	EXPECT_EQ('.', buf[0]);
	ASSERT_EQ(6, recv(self->server, buf, 6, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "456789", 6));
	EXPECT_SENT(self, 10);
}

TEST_F(conn, more_is_sent_with_what_follows)
{
	char buf[16];

	ASSERT_EQ(3, send(self->client, "abc", 3, MSG_MORE));
	ASSERT_EQ(3, send(self->client, "def", 3, 0));
	ASSERT_EQ(6, recv(self->server, buf, 6, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "abcdef", 6));
	EXPECT_SENT(self, 6);
}

TEST_F(conn, more_alone_is_sent_before_the_end)
{
	char buf[16];

	ASSERT_EQ(3, send(self->client, "abc", 3, MSG_MORE));
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	ASSERT_EQ(3, recv(self->server, buf, sizeof(buf), MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "abc", 3));
}

TEST_F(conn, recv_time_limit)
{
	struct timeval limit = { .tv_usec = 50000 }, back;
	socklen_t size = sizeof(back);
	char c, few[5];
	long long start;

	ASSERT_EQ(0, setsockopt(self->server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	ASSERT_EQ(0, getsockopt(self->server, SOL_SOCKET, SO_RCVTIMEO, &back, &size));
	EXPECT_EQ(0, back.tv_sec);
	EXPECT_LE(50000, back.tv_usec);
	start = tick_ms();
	EXPECT_EQ(-1, recv(self->server, &c, 1, 0));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_LE(40, tick_ms() - start);
	EXPECT_GT(10000, tick_ms() - start);
	/* WAITALL returns the octets that arrived before the limit. */
	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	ASSERT_EQ(POLLIN, await_events(self->server, POLLIN, 5000));
	EXPECT_EQ(1, recv(self->server, few, sizeof(few), MSG_WAITALL));
}

TEST_F(conn, send_time_limit)
{
	struct timeval limit = { .tv_usec = 50000 };
	static char chunk[65536];

	ASSERT_EQ(0, setsockopt(self->client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)));
	ASSERT_LT(0, send_until_full(self->client));
	/* Some room may still appear. */
	while (send(self->client, chunk, sizeof(chunk), MSG_NOSIGNAL) > 0)
		;
	EXPECT_EQ(EAGAIN, errno);
}

TEST_F(conn, send_fills_up_and_goes_on_when_read)
{
	long long sent = send_until_full(self->client);
	char c;

	ASSERT_LT(0, sent);
	EXPECT_EQ(0, await_events(self->client, POLLOUT, 0));
	EXPECT_EQ(sent, receive_and_drop(self->server, sent));
	EXPECT_EQ(POLLOUT, await_events(self->client, POLLOUT, 5000));
	EXPECT_EQ(1, send(self->client, "x", 1, MSG_DONTWAIT));
	EXPECT_EQ(1, recv(self->server, &c, 1, 0));
	EXPECT_SENT(self, sent + 1);
}

static void nothing(int number)
{
}

/* Calls a handler every 20 ms, so that a signal also interrupts a call that starts late. */
static void interrupt_soon(bool restart)
{
	struct sigaction action = { .sa_handler = nothing, .sa_flags = restart ? SA_RESTART : 0 };
	struct itimerval timer = { { 0, 20000 }, { 0, 20000 } };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

TEST_F(conn, recv_is_interrupted)
{
	char c;

	interrupt_soon(false);
	EXPECT_EQ(-1, recv(self->server, &c, 1, 0));
	EXPECT_EQ(EINTR, errno);
}

TEST_F(conn, send_is_interrupted)
{
	static char chunk[1 << 20];

	ASSERT_LT(0, send_until_full(self->client));
	interrupt_soon(false);
	/* Some room may still appear. */
	while (send(self->client, chunk, sizeof(chunk), MSG_NOSIGNAL) > 0)
		;
	EXPECT_EQ(EINTR, errno);
}

TEST_F(conn, interrupted_send_returns_the_sent_bytes)
{
	static char chunk[16 << 20];
	ssize_t n;

	interrupt_soon(false);
	n = send(self->client, chunk, sizeof(chunk), MSG_NOSIGNAL);
	EXPECT_LT(0, n);
	EXPECT_GT((ssize_t)sizeof(chunk), n);
}

TEST_F(conn, recv_is_restarted)
{
	struct timeval limit = { .tv_sec = 10 };
	char c;

	/* A call with a time limit is not restarted: signal(7). */
	ASSERT_EQ(0, setsockopt(self->server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	interrupt_soon(true);
	EXPECT_EQ(-1, recv(self->server, &c, 1, 0));
	EXPECT_EQ(EINTR, errno);
	limit.tv_sec = 0;
	ASSERT_EQ(0, setsockopt(self->server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	switch (fork()) {
	case 0:
		/* Longer than several signals. */
		poll(NULL, 0, 100);
		_exit(send(self->client, "x", 1, 0) != 1);
	default:
		EXPECT_EQ(1, recv(self->server, &c, 1, 0));
	}
}

TEST_F(conn, bad_pointers)
{
	char c;

	EXPECT_EQ(-1, send(self->client, (void *)8, 1, 0));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	ASSERT_EQ(POLLIN, await_events(self->server, POLLIN, 5000));
	EXPECT_EQ(-1, recv(self->server, (void *)8, 1, 0));
	EXPECT_EQ(EFAULT, errno);
	/* The undelivered octets are still there. */
	EXPECT_EQ(1, recv(self->server, &c, 1, MSG_DONTWAIT));
	EXPECT_EQ('x', c);
}

TEST_F(conn, seeking_is_refused)
{
	char c;

	EXPECT_EQ(-1, lseek(self->client, 0, SEEK_SET));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(-1, pread(self->client, &c, 1, 0));
	EXPECT_EQ(ESPIPE, errno);
}

TEST_F(kind, io_needs_a_connection)
{
	int fd = new_socket(self->kind, CLIENT, 0);
	char c;

	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, recv(fd, &c, 1, 0));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(-1, send(fd, "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(-1, shutdown(fd, SHUT_WR));
	EXPECT_EQ(ENOTCONN, errno);
	close(fd);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
