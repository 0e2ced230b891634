// SPDX-License-Identifier: GPL-2.0
/* Urgent data, with the semantics of TCP. */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>

#include "conn.h"

static int at_mark(int fd)
{
	int at = -1;

	return ioctl(fd, SIOCATMARK, &at) ? -1 : at;
}

static int unread(int fd)
{
	int count = -1;

	return ioctl(fd, SIOCINQ, &count) ? -1 : count;
}

static void keep_inline(int fd)
{
	int on = 1;

	setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
}

/* Reads byte by byte up to the mark; the number of bytes, or -1 if there are more than `room`. */
static int read_to_mark(int fd, char *buf, int room)
{
	int count = 0;

	while (at_mark(fd) != 1) {
		if (count == room || recv(fd, buf + count, 1, 0) != 1)
			return -1;
		count++;
	}
	return count;
}

/* URG-01, URG-02, URG-04, URG-08 */
TEST_F(conn, the_byte_is_out_of_band)
{
	char buf[16];

	ASSERT_EQ(2, send(self->client, "ab", 2, 0));
	ASSERT_EQ(1, send(self->client, "X", 1, MSG_OOB));
	ASSERT_EQ(2, send(self->client, "cd", 2, 0));
	ASSERT_EQ(POLLPRI, await_events(self->server, POLLPRI, 5000));
	EXPECT_EQ(0, at_mark(self->server));
	EXPECT_EQ(2, unread(self->server));
	/* A read ends at the mark. */
	EXPECT_EQ(2, recv(self->server, buf, sizeof(buf), 0));
	EXPECT_EQ(0, memcmp(buf, "ab", 2));
	EXPECT_EQ(1, at_mark(self->server));
	EXPECT_EQ(1, recv(self->server, buf, sizeof(buf), MSG_OOB));
	EXPECT_EQ('X', buf[0]);
	EXPECT_EQ(0, await_events(self->server, POLLPRI, 0));
	EXPECT_EQ(1, at_mark(self->server));
	EXPECT_EQ(2, recv(self->server, buf, 2, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "cd", 2));
	EXPECT_EQ(0, at_mark(self->server));
	EXPECT_SENT(self, 5);
}

/* URG-09 */
TEST_F(conn, the_byte_may_be_skipped)
{
	char buf[16];

	ASSERT_EQ(3, send(self->client, "abX", 3, MSG_OOB));
	ASSERT_EQ(2, send(self->client, "cd", 2, 0));
	ASSERT_EQ(POLLPRI, await_events(self->server, POLLPRI, 5000));
	EXPECT_EQ(2, recv(self->server, buf, sizeof(buf), 0));
	EXPECT_EQ(0, memcmp(buf, "ab", 2));
	EXPECT_EQ(2, recv(self->server, buf, 2, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "cd", 2));
	EXPECT_EQ(EINVAL, last_errno(recv(self->server, buf, 1, MSG_OOB)));
	EXPECT_EQ(0, await_events(self->server, POLLPRI, 0));
}

/* A reader that ignores the urgent byte gets all other bytes. */
TEST_F(conn, the_byte_keeps_nothing_back)
{
	char buf[16];

	ASSERT_EQ(1, send(self->client, "X", 1, MSG_OOB));
	ASSERT_EQ(3, send(self->client, "abc", 3, 0));
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(POLLIN, await_events(self->server, POLLIN, 5000) & POLLIN);
	EXPECT_EQ(3, recv(self->server, buf, 3, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "abc", 3));
	EXPECT_EQ(0, recv(self->server, buf, sizeof(buf), 0));
}

TEST_F(conn, the_byte_alone_is_nothing_to_read)
{
	char c;

	ASSERT_EQ(1, send(self->client, "X", 1, MSG_OOB));
	ASSERT_EQ(POLLPRI, await_events(self->server, POLLPRI | POLLIN, 5000));
	EXPECT_EQ(EAGAIN, last_errno(recv(self->server, &c, 1, MSG_DONTWAIT)));
}

TEST_F(conn, the_byte_in_line)
{
	char buf[16];

	keep_inline(self->server);
	ASSERT_EQ(3, send(self->client, "abX", 3, MSG_OOB));
	ASSERT_EQ(2, send(self->client, "cd", 2, 0));
	ASSERT_EQ(POLLPRI, await_events(self->server, POLLPRI, 5000));
	EXPECT_EQ(EINVAL, last_errno(recv(self->server, buf, 1, MSG_OOB)));
	EXPECT_EQ(2, recv(self->server, buf, sizeof(buf), 0));
	EXPECT_EQ(0, memcmp(buf, "ab", 2));
	EXPECT_EQ(1, at_mark(self->server));
	EXPECT_EQ(POLLIN | POLLPRI, await_events(self->server, POLLIN | POLLPRI, 0));
	EXPECT_EQ(3, recv(self->server, buf, 3, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "Xcd", 3));
	EXPECT_EQ(0, at_mark(self->server));
}

TEST_F(conn, fetching_the_byte)
{
	char c = 0;
	struct iovec vec = { .iov_base = &c, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &vec, .msg_iovlen = 1 };

	EXPECT_EQ(EINVAL, last_errno(recv(self->server, &c, 1, MSG_OOB)));
	ASSERT_EQ(1, send(self->client, "X", 1, MSG_OOB));
	ASSERT_EQ(POLLPRI, await_events(self->server, POLLPRI, 5000));
	EXPECT_EQ(1, recv(self->server, &c, 1, MSG_OOB | MSG_PEEK));
	EXPECT_EQ('X', c);
	c = 0;
	EXPECT_EQ(1, recvmsg(self->server, &msg, MSG_OOB));
	EXPECT_EQ('X', c);
	EXPECT_EQ(MSG_OOB, msg.msg_flags & (MSG_OOB | MSG_TRUNC));
	EXPECT_EQ(EINVAL, last_errno(recv(self->server, &c, 1, MSG_OOB)));
	/* The next mark is a new one. */
	ASSERT_EQ(1, send(self->client, "Y", 1, MSG_OOB));
	ASSERT_EQ(POLLPRI, await_events(self->server, POLLPRI, 5000));
	EXPECT_EQ(1, recv(self->server, &c, 1, MSG_OOB));
	EXPECT_EQ('Y', c);
}

/*
 * URG-03, URG-07: a mark that the reader has not reached gives way to a newer one, and its byte
 * becomes data.
 */
TEST_F(conn, only_the_last_mark_counts)
{
	char buf[16], c;

	ASSERT_EQ(4, send(self->client, "abcX", 4, MSG_OOB));
	ASSERT_EQ(POLLPRI, await_events(self->server, POLLPRI, 5000));
	ASSERT_EQ(4, send(self->client, "defY", 4, MSG_OOB));
	ASSERT_EQ(3, send(self->client, "ghi", 3, 0));
	do
		c = 0;
	while (recv(self->server, &c, 1, MSG_OOB | MSG_PEEK) == 1 && c == 'X');
	EXPECT_EQ(7, read_to_mark(self->server, buf, sizeof(buf)));
	EXPECT_EQ(0, memcmp(buf, "abcXdef", 7));
	EXPECT_EQ(1, recv(self->server, &c, 1, MSG_OOB));
	EXPECT_EQ('Y', c);
	EXPECT_EQ(3, recv(self->server, buf, 3, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "ghi", 3));
}

/* The byte of the old mark is gone when a new one comes while the reader is at the old mark. */
TEST_F(conn, new_mark_replaces_the_one_at_the_reader)
{
	char buf[16], c = 0;

	ASSERT_EQ(3, send(self->client, "abX", 3, MSG_OOB));
	ASSERT_EQ(POLLPRI, await_events(self->server, POLLPRI, 5000));
	ASSERT_EQ(2, recv(self->server, buf, sizeof(buf), 0));
	ASSERT_EQ(3, send(self->client, "cdY", 3, MSG_OOB));
	do
		c = 0;
	while (recv(self->server, &c, 1, MSG_OOB | MSG_PEEK) != 1 || c == 'X');
	EXPECT_EQ('Y', c);
	EXPECT_EQ(2, read_to_mark(self->server, buf, sizeof(buf)));
	EXPECT_EQ(0, memcmp(buf, "cd", 2));
}

static volatile sig_atomic_t urgent_signals;

static void count_urgent(int number)
{
	urgent_signals++;
}

/* URG-04 */
TEST_F(conn, sigurg_goes_to_the_owner)
{
	sigset_t blocked, old;
	char c;
	int i;

	urgent_signals = 0;
	signal(SIGURG, count_urgent);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGURG);
	sigprocmask(SIG_BLOCK, &blocked, &old);
	/* A socket without an owner sends no signal. */
	ASSERT_EQ(1, send(self->client, "X", 1, MSG_OOB));
	ASSERT_EQ(POLLPRI, await_events(self->server, POLLPRI, 5000));
	ASSERT_EQ(0, fcntl(self->server, F_SETOWN, getpid()));
	ASSERT_EQ(1, recv(self->server, &c, 1, MSG_OOB));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(3, send(self->client, "abX", 3, MSG_OOB));
		while (urgent_signals == i)
			sigsuspend(&old);
		EXPECT_EQ(i + 1, urgent_signals);
		ASSERT_EQ(POLLPRI, await_events(self->server, POLLPRI, 5000));
		EXPECT_EQ(2, read(self->server, (char [16]) {}, 16));
		EXPECT_EQ(1, recv(self->server, &c, 1, MSG_OOB));
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	EXPECT_EQ(5, urgent_signals);
	signal(SIGURG, SIG_DFL);
}

TEST_F(conn, select_has_an_exception)
{
	struct timeval timeout = { .tv_sec = 5 };
	fd_set readers, exceptions;
	char c;

	FD_ZERO(&readers);
	FD_ZERO(&exceptions);
	FD_SET(self->server, &readers);
	FD_SET(self->server, &exceptions);
	ASSERT_EQ(1, send(self->client, "X", 1, MSG_OOB));
	ASSERT_EQ(1, select(self->server + 1, &readers, NULL, &exceptions, &timeout));
	EXPECT_TRUE(FD_ISSET(self->server, &exceptions));
	EXPECT_FALSE(FD_ISSET(self->server, &readers));
	EXPECT_EQ(1, recv(self->server, &c, 1, MSG_OOB));
}

TEST_F(conn, epoll_reports_every_mark)
{
	struct epoll_event event = { .events = EPOLLPRI | EPOLLET };
	int epoll = epoll_create1(0), i;
	char c;

	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, self->server, &event));
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(1, send(self->client, "XY" + i % 2, 1, MSG_OOB));
		do {
			ASSERT_EQ(1, epoll_wait(epoll, &event, 1, 5000));
			EXPECT_EQ(EPOLLPRI, event.events);
		} while (recv(self->server, &c, 1, MSG_OOB) < 0);
		EXPECT_EQ("XY"[i % 2], c);
	}
	close(epoll);
}

/* Marks in an endless stream, in line: no byte is lost or duplicated. */
TEST_F(conn, a_stream_with_many_marks)
{
	enum { SIZE = 1 << 19 };
	char *out = malloc(SIZE), *in = malloc(SIZE), c;
	int status, at, count, step = 0;
	pid_t child;

	fill(out, SIZE, 11);
	keep_inline(self->server);
	child = fork();
	if (!child) {
		close(self->server);
		for (at = 0; at < SIZE; at += count) {
			count = 1 + at * 7 % 9000;
			if (count > SIZE - at)
				count = SIZE - at;
			if (send(self->client, out + at, count, step++ % 3 ? 0 : MSG_OOB) != count)
				_exit(1);
		}
		_exit(0);
	}
	close(self->client);
	EXPECT_EQ(SIZE, recv_all(self->server, in, SIZE));
	EXPECT_EQ(0, memcmp(in, out, SIZE));
	EXPECT_EQ(0, recv(self->server, &c, 1, 0));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_SENT(self, SIZE);
	free(out);
	free(in);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
