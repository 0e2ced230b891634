// SPDX-License-Identifier: GPL-2.0
/* Options and flags that affect an engine beyond TCP. */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "conn.h"

#ifndef SO_BUSY_POLL
#define SO_BUSY_POLL 46
#endif

static int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

static int count_of(int fd, unsigned long what)
{
	int count = -1;

	return ioctl(fd, what, &count) ? -1 : count;
}

/* Waits until `size` octets can be read, which a poll would not show. */
static void await_unread(int fd, int count)
{
	while (count_of(fd, SIOCINQ) < count)
		poll(NULL, 0, 1);
}

TEST_F(conn, poll_respects_the_low_water_mark)
{
	char buf[100];

	ASSERT_EQ(0, set_int(self->server, SOL_SOCKET, SO_RCVLOWAT, 100));
	memset(buf, 'x', sizeof(buf));
	ASSERT_EQ(60, send(self->client, buf, 60, 0));
	await_unread(self->server, 60);
	EXPECT_EQ(0, await_events(self->server, POLLIN, 0));
	ASSERT_EQ(40, send(self->client, buf, 40, 0));
	EXPECT_EQ(POLLIN, await_events(self->server, POLLIN, 5000));
	EXPECT_EQ(100, recv(self->server, buf, 100, 0));
	/* The end of the stream wakes a reader, whatever the low-water mark. */
	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(POLLIN, await_events(self->server, POLLIN, 5000));
}

TEST_F(conn, nodelay_flushes_corked_data)
{
	char buf[16];

	ASSERT_EQ(0, set_int(self->client, SOL_TCP, TCP_CORK, 1));
	ASSERT_EQ(4, send(self->client, "held", 4, 0));
	ASSERT_EQ(0, set_int(self->client, SOL_TCP, TCP_NODELAY, 1));
	EXPECT_EQ(0, count_of(self->client, SIOCOUTQNSD));
	EXPECT_EQ(4, recv(self->server, buf, 4, MSG_WAITALL));
}

TEST_F(conn, uncorking_pushes)
{
	char buf[16];

	ASSERT_EQ(0, set_int(self->client, SOL_TCP, TCP_CORK, 1));
	ASSERT_EQ(4, send(self->client, "held", 4, 0));
	ASSERT_EQ(0, set_int(self->client, SOL_TCP, TCP_CORK, 0));
	EXPECT_EQ(0, count_of(self->client, SIOCOUTQNSD));
	EXPECT_EQ(4, recv(self->server, buf, 4, MSG_WAITALL));
}

TEST_F(conn, a_peek_goes_on_from_its_offset)
{
	char buf[8];

	ASSERT_EQ(6, send(self->client, "abcdef", 6, 0));
	await_unread(self->server, 6);
	if (set_int(self->server, SOL_SOCKET, SO_PEEK_OFF, 1))
		SKIP(return, "TCP has no SO_PEEK_OFF here");
	EXPECT_EQ(2, recv(self->server, buf, 2, MSG_PEEK));
	EXPECT_EQ(0, memcmp(buf, "bc", 2));
	EXPECT_EQ(2, recv(self->server, buf, 2, MSG_PEEK));
	EXPECT_EQ(0, memcmp(buf, "de", 2));
	EXPECT_EQ(2, recv(self->server, buf, 2, 0));
	EXPECT_EQ(0, memcmp(buf, "ab", 2));
	EXPECT_EQ(1, recv(self->server, buf, 8, MSG_PEEK));
	EXPECT_EQ('f', buf[0]);
	EXPECT_EQ(EAGAIN, last_errno(recv(self->server, buf, 8, MSG_PEEK | MSG_DONTWAIT)));
	EXPECT_EQ(4, recv(self->server, buf, 8, 0));
	EXPECT_EQ(0, memcmp(buf, "cdef", 4));
}

TEST_F(conn, a_peek_waits_for_all)
{
	char buf[8];
	pid_t child;
	int status;

	ASSERT_EQ(3, send(self->client, "abc", 3, 0));
	await_unread(self->server, 3);
	child = fork();
	if (!child) {
		poll(NULL, 0, 20);
		_exit(send(self->client, "def", 3, 0) != 3);
	}
	EXPECT_EQ(6, recv(self->server, buf, 6, MSG_PEEK | MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "abcdef", 6));
	EXPECT_EQ(6, recv(self->server, buf, 6, 0));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_F(conn, truncation_throws_away)
{
	char buf[8] = "........";

	ASSERT_EQ(6, send(self->client, "abcdef", 6, 0));
	await_unread(self->server, 6);
	EXPECT_EQ(4, recv(self->server, buf, 4, MSG_TRUNC));
	EXPECT_EQ(0, memcmp(buf, "........", 8));
	EXPECT_EQ(2, recv(self->server, buf, 8, 0));
	EXPECT_EQ(0, memcmp(buf, "ef", 2));
}

TEST_F(conn, a_reader_that_polls_busily_does_not_sleep)
{
	struct rusage before, after;
	pid_t child;
	int status;
	char c;

	if (set_int(self->server, SOL_SOCKET, SO_BUSY_POLL, 2000000))
		SKIP(return, "TCP has no SO_BUSY_POLL here");
	child = fork();
	if (!child) {
		for (int i = 0; i < 100; i++) {
			poll(NULL, 0, 2);
			if (send(self->client, "x", 1, 0) != 1)
				_exit(1);
		}
		_exit(shutdown(self->client, SHUT_WR));
	}
	ASSERT_EQ(0, getrusage(RUSAGE_THREAD, &before));
	for (int i = 0; i < 100; i++)
		ASSERT_EQ(1, recv(self->server, &c, 1, 0));
	EXPECT_EQ(0, recv(self->server, &c, 1, 0));
	ASSERT_EQ(0, getrusage(RUSAGE_THREAD, &after));
	/* The TCP connection on this test's devices cannot busy-poll. */
	if (is_carried(self->kind))
		EXPECT_GT(80, after.ru_nvcsw - before.ru_nvcsw);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_F(conn, tcp_info_of_a_connection)
{
	struct tcp_info info = {};
	socklen_t size = sizeof(info);

	ASSERT_EQ(0, getsockopt(self->client, SOL_TCP, TCP_INFO, &info, &size));
	EXPECT_EQ(TCP_ESTABLISHED, info.tcpi_state);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
