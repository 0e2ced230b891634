// SPDX-License-Identifier: GPL-2.0
/*
 * A peer that is gone, or does not read: SO_KEEPALIVE and TCP_USER_TIMEOUT, with TCP's results.
 * SMC-R tests its links; see hostile/peer_failure.py.
 */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <netinet/tcp.h>

#include "conn.h"

/* Packets of the client do not reach the server's host, or do again. */
static int silence(bool on)
{
	if (!on)
		return system("ip netns exec rs-b nft delete table inet rs");
	return system("ip netns exec rs-b nft -f - <<-END\n"
		      "table inet rs {\n"
		      "	chain input {\n"
		      "		type filter hook input priority -300\n"
		      "		ip saddr 10.9.0.1 drop\n"
		      "		ip6 saddr fd09::1 drop\n"
		      "	}\n"
		      "}\n"
		      "END\n");
}

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

static int error_of(int fd)
{
	int error = -1;
	socklen_t size = sizeof(error);

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) ? -1 : error;
}

static bool is_tested(const struct kind *kind)
{
	return carrier_of(kind) != SMC && engine_of(kind, CLIENT) != SMC &&
	       engine_of(kind, SERVER) != SMC;
}

TEST_F(conn, silent_peer_ends_an_idle_connection)
{
	if (!is_tested(self->kind))
		return;
	ASSERT_EQ(0, set(self->client, SOL_SOCKET, SO_KEEPALIVE, 1));
	ASSERT_EQ(0, set(self->client, IPPROTO_TCP, TCP_KEEPIDLE, 1));
	ASSERT_EQ(0, set(self->client, IPPROTO_TCP, TCP_KEEPINTVL, 1));
	ASSERT_EQ(0, set(self->client, IPPROTO_TCP, TCP_KEEPCNT, 2));
	/* A peer that lives answers. */
	EXPECT_EQ(0, await_events(self->client, POLLIN, 2500));
	ASSERT_EQ(0, silence(true));
	EXPECT_LT(0, await_events(self->client, POLLIN, 60000));
	EXPECT_EQ(ETIMEDOUT, last_errno(recv(self->client, (char [1]) {}, 1, MSG_DONTWAIT)));
	EXPECT_EQ(0, recv(self->client, (char [1]) {}, 1, MSG_DONTWAIT));
	EXPECT_EQ(0, silence(false));
}

TEST_F(conn, data_for_a_silent_peer_times_out)
{
	if (!is_tested(self->kind))
		return;
	/* TCP has its own patience of minutes; the device of SDP needs no limit. */
	ASSERT_EQ(0, set(self->client, IPPROTO_TCP, TCP_USER_TIMEOUT,
			 is_carried(self->kind) ? 60000 : 2000));
	ASSERT_EQ(0, silence(true));
	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	EXPECT_EQ(POLLERR, await_events(self->client, POLLERR, 60000) & POLLERR);
	EXPECT_EQ(ETIMEDOUT, error_of(self->client));
	EXPECT_EQ(EPIPE, last_errno(send(self->client, "x", 1, MSG_NOSIGNAL)));
	EXPECT_EQ(0, silence(false));
}

TEST_F(conn, late_reader_ends_a_connection_with_a_user_timeout)
{
	static char data[65536];

	if (!is_tested(self->kind))
		return;
	ASSERT_EQ(0, set(self->client, IPPROTO_TCP, TCP_USER_TIMEOUT, 1500));
	/* Until the peer has no room either: the socket has none for a while. */
	do {
		while (send(self->client, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
			;
	} while (await_events(self->client, POLLOUT, 500) == POLLOUT);
	EXPECT_EQ(POLLERR, await_events(self->client, POLLERR, 60000) & POLLERR);
	EXPECT_EQ(ETIMEDOUT, error_of(self->client));
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
