// SPDX-License-Identifier: GPL-2.0
/* TCP_INFO: the figures of a connection of TCP or SDP. With SMC-R they are of its idle TCP. */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <linux/tcp.h>

#include "conn.h"

static struct tcp_info info_of(int fd)
{
	struct tcp_info info = {};
	socklen_t size = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size))
		info.tcpi_state = 255;
	return info;
}

TEST_F(conn, figures_follow_the_data)
{
	struct tcp_info client, server;
	char buf[5000] = "";
	int tries;

	if (carrier_of(self->kind) == SMC)
		return;
	ASSERT_EQ(0, send_all(self->client, buf, 5000));
	ASSERT_EQ(5000, recv_all(self->server, buf, 5000));
	/* No event announces the acknowledgment. */
	for (tries = 0; tries < 5000; tries++) {
		client = info_of(self->client);
		if (client.tcpi_bytes_acked >= 5000)
			break;
		usleep(1000);
	}
	server = info_of(self->server);
	EXPECT_EQ(1, client.tcpi_state);
	EXPECT_EQ(5000, client.tcpi_bytes_sent - client.tcpi_bytes_retrans);
	/* TCP counts its SYN. */
	EXPECT_LE(5000, client.tcpi_bytes_acked);
	EXPECT_GE(5001, client.tcpi_bytes_acked);
	EXPECT_EQ(0, client.tcpi_bytes_received);
	EXPECT_EQ(5000, server.tcpi_bytes_received);
	EXPECT_EQ(0, server.tcpi_bytes_sent);
	EXPECT_EQ(0, client.tcpi_notsent_bytes);
	EXPECT_EQ(0, client.tcpi_unacked);
	EXPECT_LT(0, client.tcpi_data_segs_out);
	EXPECT_LT(0, server.tcpi_data_segs_in);
	EXPECT_LE(client.tcpi_data_segs_out, client.tcpi_segs_out);
	EXPECT_LT(0, client.tcpi_rtt);
	EXPECT_GT(10000000, client.tcpi_rtt);
	EXPECT_LE(client.tcpi_min_rtt, client.tcpi_rtt * 8);
	EXPECT_LE(500, client.tcpi_snd_mss);
	EXPECT_LT(0, client.tcpi_snd_cwnd);
	EXPECT_LT(0, client.tcpi_rto);
}

TEST_F(conn, data_that_is_not_read_shows)
{
	struct tcp_info info;
	long long sent;

	if (carrier_of(self->kind) == SMC)
		return;
	sent = send_until_full(self->client);
	info = info_of(self->client);
	EXPECT_LT(0, info.tcpi_notsent_bytes);
	EXPECT_EQ(sent, (long long)(info.tcpi_bytes_sent - info.tcpi_bytes_retrans) +
			info.tcpi_notsent_bytes);
	EXPECT_GE(info.tcpi_bytes_sent, info.tcpi_bytes_acked ? info.tcpi_bytes_acked - 1 : 0);
}

/* As many octets as the program has room for. */
TEST_F(conn, short_room_is_filled)
{
	unsigned char buf[8] = { [1] = 0xaa, [2] = 0xaa };
	socklen_t size = 1;

	ASSERT_EQ(0, getsockopt(self->client, IPPROTO_TCP, TCP_INFO, buf, &size));
	EXPECT_EQ(1, size);
	EXPECT_EQ(1, buf[0]);
	EXPECT_EQ(0xaa, buf[1]);
	EXPECT_EQ(0xaa, buf[2]);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
