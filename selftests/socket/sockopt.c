// SPDX-License-Identifier: GPL-2.0
/* Socket options and ioctls before, during and after the handshake. */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>

#include "conn.h"

#ifndef SOL_TCP
#define SOL_TCP 6
#endif
#ifndef TCP_ULP
#define TCP_ULP 31
#endif

static int get(int fd, int level, int name)
{
	int value = -1;
	socklen_t size = sizeof(value);

	if (getsockopt(fd, level, name, &value, &size))
		return -errno;
	return value;
}

static int set(int fd, int level, int name, int value)
{
	return last_errno(setsockopt(fd, level, name, &value, sizeof(value)));
}

static int ask(int fd, unsigned long request)
{
	int value = -1;

	if (ioctl(fd, request, &value))
		return -errno;
	return value;
}

struct option {
	int level;
	int name;
	int value;
};

/* Options whose value reads back as it was set. */
static const struct option options[] = {
	{ SOL_TCP, TCP_NODELAY, 1 },
	{ SOL_TCP, TCP_NODELAY, 0 },
	{ SOL_TCP, TCP_CORK, 1 },
	{ SOL_TCP, TCP_CORK, 0 },
	{ SOL_TCP, TCP_KEEPIDLE, 77 },
	{ SOL_TCP, TCP_KEEPINTVL, 7 },
	{ SOL_TCP, TCP_KEEPCNT, 5 },
	{ SOL_TCP, TCP_USER_TIMEOUT, 12345 },
	{ SOL_TCP, TCP_QUICKACK, 1 },
	{ SOL_SOCKET, SO_KEEPALIVE, 1 },
	{ SOL_SOCKET, SO_KEEPALIVE, 0 },
	{ SOL_SOCKET, SO_PRIORITY, 3 },
	{ SOL_SOCKET, SO_MARK, 42 },
	{ SOL_SOCKET, SO_OOBINLINE, 1 },
	{ SOL_SOCKET, SO_RCVLOWAT, 1 },
};

TEST_F(kind, options_of_a_fresh_socket)
{
	int fd = new_socket(self->kind, CLIENT, 0);
	size_t n;

	for (n = 0; n < ARRAY_SIZE(options); n++) {
		const struct option *o = &options[n];

		EXPECT_EQ(0, set(fd, o->level, o->name, o->value));
		EXPECT_EQ(o->value, get(fd, o->level, o->name));
	}
	EXPECT_EQ(0, set(fd, SOL_SOCKET, SO_REUSEADDR, 1));
	EXPECT_EQ(1, get(fd, SOL_SOCKET, SO_REUSEADDR));
	close(fd);
}

/* API-03, API-05, API-06, TST-144. */
TEST_F(conn, options_of_a_connection)
{
	char buf[4];
	size_t n;

	for (n = 0; n < ARRAY_SIZE(options); n++) {
		const struct option *o = &options[n];

		EXPECT_EQ(0, set(self->client, o->level, o->name, o->value));
		EXPECT_EQ(o->value, get(self->client, o->level, o->name));
	}
	/* None of these calls has damaged the connection. */
	ASSERT_EQ(4, send(self->client, "abcd", 4, 0));
	EXPECT_EQ(4, recv(self->server, buf, 4, MSG_WAITALL));
	EXPECT_SENT(self, 4);
}

/* API-03, API-06. */
TEST_F(kind, options_of_ip)
{
	int fd = new_socket(self->kind, CLIENT, 0);

	if (self->kind->ip == AF_INET) {
		EXPECT_EQ(0, set(fd, IPPROTO_IP, IP_TOS, 0x10));
		EXPECT_EQ(0x10, get(fd, IPPROTO_IP, IP_TOS));
		EXPECT_EQ(0, set(fd, IPPROTO_IP, IP_TTL, 33));
		EXPECT_EQ(33, get(fd, IPPROTO_IP, IP_TTL));
	} else {
		EXPECT_EQ(0, set(fd, IPPROTO_IPV6, IPV6_TCLASS, 0x10));
		EXPECT_EQ(0x10, get(fd, IPPROTO_IPV6, IPV6_TCLASS));
		EXPECT_EQ(0, set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1));
		EXPECT_EQ(1, get(fd, IPPROTO_IPV6, IPV6_V6ONLY));
	}
	close(fd);
}

TEST_F(kind, bad_options)
{
	int fd = new_socket(self->kind, CLIENT, 0), value = 1;
	socklen_t size = sizeof(value);

	EXPECT_EQ(ENOPROTOOPT, set(fd, SOL_SOCKET, 9999, 1));
	EXPECT_EQ(ENOPROTOOPT, set(fd, SOL_TCP, 9999, 1));
	EXPECT_EQ(EINVAL, last_errno(setsockopt(fd, SOL_TCP, TCP_NODELAY, &value, 1)));
	EXPECT_EQ(EFAULT, last_errno(setsockopt(fd, SOL_TCP, TCP_NODELAY, (void *)8, 4)));
	EXPECT_EQ(EINVAL, set(fd, SOL_TCP, TCP_KEEPIDLE, 0));
	EXPECT_EQ(ENOPROTOOPT, last_errno(getsockopt(fd, SOL_TCP, 9999, &value, &size)));
	EXPECT_EQ(EFAULT, last_errno(getsockopt(fd, SOL_TCP, TCP_NODELAY, (void *)8, &size)));
	close(fd);
}

/* API-04, TST-144. */
TEST_F(kind, buffer_sizes_are_doubled)
{
	int fd = new_socket(self->kind, CLIENT, 0);

	EXPECT_EQ(0, set(fd, SOL_SOCKET, SO_SNDBUF, 40000));
	EXPECT_EQ(80000, get(fd, SOL_SOCKET, SO_SNDBUF));
	EXPECT_EQ(0, set(fd, SOL_SOCKET, SO_RCVBUF, 40000));
	EXPECT_EQ(80000, get(fd, SOL_SOCKET, SO_RCVBUF));
	close(fd);
}

TEST_F(kind, upper_layer_protocols_are_refused)
{
	int fd = new_socket(self->kind, CLIENT, 0);

	if (engine_of(self->kind, CLIENT) == SMC) {
		EXPECT_EQ(EOPNOTSUPP, last_errno(setsockopt(fd, SOL_TCP, TCP_ULP, "tls", 4)));
	} else {
		/* Fails for lack of tls, or of a connection. */
		EXPECT_NE(0, last_errno(setsockopt(fd, SOL_TCP, TCP_ULP, "tls", 4)));
	}
	close(fd);
}

TEST_F(conn, upper_layer_protocols_are_refused_on_connections)
{
	int error;
	char c;

	if (engine_of(self->kind, CLIENT) == SMC) {
		error = last_errno(setsockopt(self->client, SOL_TCP, TCP_ULP, "tls", 4));
		EXPECT_EQ(EOPNOTSUPP, error);
	}
	EXPECT_EQ(1, send(self->client, "x", 1, 0));
	EXPECT_EQ(1, recv(self->server, &c, 1, 0));
}

TEST_F(conn, tcp_info_of_a_connection)
{
	struct tcp_info info = {};
	socklen_t size = sizeof(info);

	ASSERT_EQ(0, getsockopt(self->client, SOL_TCP, TCP_INFO, &info, &size));
	EXPECT_EQ(1 /* TCP_ESTABLISHED */, info.tcpi_state);
	EXPECT_LT(0, info.tcpi_snd_mss);
}

TEST_F(conn, listener_options_are_inherited)
{
	int fd, server;

	ASSERT_EQ(0, set(self->listener, SOL_SOCKET, SO_KEEPALIVE, 1));
	ASSERT_EQ(0, set(self->listener, SOL_TCP, TCP_KEEPIDLE, 99));
	ASSERT_EQ(0, set(self->listener, SOL_TCP, TCP_NODELAY, 1));
	fd = new_socket(self->kind, CLIENT, 0);
	ASSERT_EQ(0, connect_to(self->kind, fd, self->listener));
	server = accept(self->listener, NULL, NULL);
	ASSERT_LE(0, server);
	EXPECT_EQ(1, get(server, SOL_SOCKET, SO_KEEPALIVE));
	EXPECT_EQ(99, get(server, SOL_TCP, TCP_KEEPIDLE));
	EXPECT_EQ(1, get(server, SOL_TCP, TCP_NODELAY));
	close(fd);
	close(server);
}

TEST_F(conn, bytes_to_read)
{
	char buf[8];

	EXPECT_EQ(0, ask(self->server, FIONREAD));
	ASSERT_EQ(5, send(self->client, "12345", 5, 0));
	ASSERT_EQ(5, recv(self->server, buf, 5, MSG_PEEK | MSG_WAITALL));
	EXPECT_EQ(5, ask(self->server, FIONREAD));
	ASSERT_EQ(2, recv(self->server, buf, 2, 0));
	EXPECT_EQ(3, ask(self->server, SIOCINQ));
	ASSERT_EQ(3, recv(self->server, buf, 3, 0));
	EXPECT_EQ(0, ask(self->server, SIOCINQ));
}

TEST_F(conn, unsent_and_unacknowledged_bytes_are_counted)
{
	static char chunk[65536];
	long long total, got = 0;
	int before, after;

	EXPECT_EQ(0, ask(self->client, SIOCOUTQ));
	EXPECT_EQ(0, ask(self->client, SIOCOUTQNSD));
	total = send_until_full(self->client);
	before = ask(self->client, SIOCOUTQ);
	/* The peer's room is full, so not all data can have been sent. */
	EXPECT_LT(0, before);
	EXPECT_LT(0, ask(self->client, SIOCOUTQNSD));
	EXPECT_LE(ask(self->client, SIOCOUTQNSD), before);
	while (got < total) {
		ssize_t n = recv(self->server, chunk, sizeof(chunk), 0);

		ASSERT_LT(0, n);
		got += n;
	}
	/* The last acknowledgment has to return. Each answer lets the engine look for it. */
	do {
		after = ask(self->client, SIOCOUTQ);
		ASSERT_EQ(1, send(self->server, "x", 1, 0));
		ASSERT_EQ(1, recv(self->client, chunk, 1, 0));
	} while (after && ++got < total + 1000);
	EXPECT_EQ(0, after);
	EXPECT_EQ(0, ask(self->client, SIOCOUTQNSD));
}

TEST_F(conn, other_ioctls)
{
	int on = 1;
	char c;

	EXPECT_EQ(0, ioctl(self->server, FIONBIO, &on));
	EXPECT_EQ(EAGAIN, last_errno(recv(self->server, &c, 1, 0)));
	EXPECT_EQ(ENOTTY, last_errno(ioctl(self->server, TIOCGWINSZ, &on)));
	EXPECT_EQ(EFAULT, last_errno(ioctl(self->server, FIONREAD, (void *)8)));
	EXPECT_EQ(0, ask(self->server, SIOCATMARK));
}

TEST_F(kind, low_water_mark)
{
	int listener = new_listener(self->kind, 1, NULL);
	int client = new_socket(self->kind, CLIENT, 0), server;
	char buf[8];

	ASSERT_EQ(0, connect_to(self->kind, client, listener));
	server = accept(listener, NULL, NULL);
	ASSERT_LE(0, server);
	ASSERT_EQ(0, set(server, SOL_SOCKET, SO_RCVLOWAT, 4));
	ASSERT_EQ(3, send(client, "abc", 3, 0));
	ASSERT_EQ(3, recv(server, buf, 3, MSG_PEEK | MSG_WAITALL));
	ASSERT_EQ(1, send(client, "d", 1, 0));
	EXPECT_EQ(POLLIN, await_events(server, POLLIN, 5000));
	/* Waits for `count` octets, and no longer. */
	EXPECT_EQ(4, recv(server, buf, sizeof(buf), 0));
	close(client);
	close(server);
	close(listener);
}

TEST_F(conn, cork_holds_back_until_it_is_taken_away)
{
	char buf[8];

	ASSERT_EQ(0, set(self->client, SOL_TCP, TCP_CORK, 1));
	ASSERT_EQ(3, send(self->client, "abc", 3, 0));
	ASSERT_EQ(3, send(self->client, "def", 3, 0));
	ASSERT_EQ(0, set(self->client, SOL_TCP, TCP_CORK, 0));
	EXPECT_EQ(6, recv(self->server, buf, 6, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "abcdef", 6));
	EXPECT_SENT(self, 6);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
