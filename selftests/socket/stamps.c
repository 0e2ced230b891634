// SPDX-License-Identifier: GPL-2.0
/*
 * Control messages with times: SO_TIMESTAMP and SO_TIMESTAMPING in recvmsg(), and those that
 * sendmsg() refuses.
 */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <time.h>

#include "conn.h"
#include "message.h"

#define NANO 1000000000LL

/* The times of one message in nanoseconds, 0 without that control message. */
struct stamps {
	ssize_t size;
	long long micro, nano, software;
};

static struct stamps receive(int fd, size_t size, int flags)
{
	struct message message;
	struct stamps stamps = { .size = receive_message(fd, &message, size, flags) };
	struct cmsghdr *cmsg;

	if (stamps.size < 0)
		return stamps;
	for (cmsg = CMSG_FIRSTHDR(&message.header); cmsg;
	     cmsg = CMSG_NXTHDR(&message.header, cmsg)) {
		void *data = CMSG_DATA(cmsg);

		if (cmsg->cmsg_level != SOL_SOCKET)
			continue;
		if (cmsg->cmsg_type == SCM_TIMESTAMP) {
			struct timeval *tv = data;

			stamps.micro = tv->tv_sec * NANO + tv->tv_usec * 1000;
		} else if (cmsg->cmsg_type == SCM_TIMESTAMPNS) {
			struct timespec *ts = data;

			stamps.nano = ts->tv_sec * NANO + ts->tv_nsec;
		} else if (cmsg->cmsg_type == SCM_TIMESTAMPING) {
			struct scm_timestamping *ts = data;

			stamps.software = ts->ts[0].tv_sec * NANO + ts->ts[0].tv_nsec;
		}
	}
	return stamps;
}

static int set(int fd, int name, int value)
{
	return setsockopt(fd, SOL_SOCKET, name, &value, sizeof(value)) ? errno : 0;
}

static long long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * NANO + ts.tv_nsec;
}

TEST_F(conn, no_time_unless_asked_for)
{
	struct stamps stamps;

	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	stamps = receive(self->server, 1, 0);
	EXPECT_EQ(1, stamps.size);
	EXPECT_EQ(0, stamps.micro);
	EXPECT_EQ(0, stamps.nano);
	EXPECT_EQ(0, stamps.software);
}

/* Each message has its own time, that of its arrival and not of the read. */
TEST_F(conn, time_is_that_of_the_arrival)
{
	long long start, middle, end;
	struct stamps stamps;

	ASSERT_EQ(0, set(self->server, SO_TIMESTAMPNS, 1));
	start = now();
	ASSERT_EQ(2, send(self->client, "ab", 2, 0));
	ASSERT_TRUE(await_bytes(self->server, 2));
	middle = now();
	usleep(2000);
	ASSERT_EQ(2, send(self->client, "cd", 2, 0));
	ASSERT_TRUE(await_bytes(self->server, 4));
	end = now();
	usleep(2000);
	stamps = receive(self->server, 1, MSG_PEEK);
	EXPECT_EQ(1, stamps.size);
	/* TCP may have joined the second packet to the first, whose time changes then. */
	EXPECT_LE(start, stamps.nano);
	EXPECT_GE(is_carried(self->kind) ? middle : end, stamps.nano);
	stamps = receive(self->server, 2, 0);
	EXPECT_EQ(2, stamps.size);
	EXPECT_LE(start, stamps.nano);
	EXPECT_GE(is_carried(self->kind) ? middle : end, stamps.nano);
	EXPECT_EQ(0, stamps.micro);
	EXPECT_EQ(0, stamps.software);
	stamps = receive(self->server, 2, 0);
	EXPECT_EQ(2, stamps.size);
	EXPECT_LE(middle, stamps.nano);
	EXPECT_GE(end, stamps.nano);
}

TEST_F(conn, read_over_two_messages_has_the_later_time)
{
	struct stamps stamps;
	long long middle;

	ASSERT_EQ(0, set(self->server, SO_TIMESTAMPNS, 1));
	ASSERT_EQ(2, send(self->client, "ab", 2, 0));
	ASSERT_TRUE(await_bytes(self->server, 2));
	middle = now();
	ASSERT_EQ(2, send(self->client, "cd", 2, 0));
	ASSERT_TRUE(await_bytes(self->server, 4));
	stamps = receive(self->server, 4, 0);
	EXPECT_EQ(4, stamps.size);
	EXPECT_LE(middle, stamps.nano);
}

TEST_F(conn, time_in_microseconds)
{
	struct stamps stamps;
	long long start = now();

	ASSERT_EQ(0, set(self->server, SO_TIMESTAMP, 1));
	ASSERT_EQ(2, send(self->client, "ab", 2, 0));
	stamps = receive(self->server, 2, 0);
	EXPECT_LE(start / 1000 * 1000, stamps.micro);
	EXPECT_GE(now(), stamps.micro);
	EXPECT_EQ(0, stamps.nano);
	ASSERT_EQ(0, set(self->server, SO_TIMESTAMP, 0));
	ASSERT_EQ(2, send(self->client, "ab", 2, 0));
	stamps = receive(self->server, 2, 0);
	EXPECT_EQ(0, stamps.micro);
}

TEST_F(conn, software_time)
{
	int flags = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
	struct stamps stamps;
	long long start = now();

	ASSERT_EQ(0, set(self->server, SO_TIMESTAMPING, flags));
	ASSERT_EQ(2, send(self->client, "ab", 2, 0));
	stamps = receive(self->server, 2, 0);
	EXPECT_LE(start, stamps.software);
	EXPECT_GE(now(), stamps.software);
	EXPECT_EQ(0, stamps.nano);
	EXPECT_EQ(0, stamps.micro);
}

static int send_with(int fd, int level, int type, size_t size)
{
	char control[CMSG_SPACE(16)] = "";
	struct iovec vec = { "x", 1 };
	struct msghdr msg = {
		.msg_iov = &vec,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = CMSG_SPACE(size),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(size);
	return sendmsg(fd, &msg, MSG_NOSIGNAL) < 0 ? errno : 0;
}

TEST_F(conn, control_messages_of_a_writer_are_checked)
{
	char buf[8];

	EXPECT_EQ(EINVAL, send_with(self->client, SOL_SOCKET, 9999, 4));
	EXPECT_EQ(EINVAL, send_with(self->client, SOL_SOCKET, SO_MARK, 1));
	/* TCP ignores other levels. */
	EXPECT_EQ(0, send_with(self->client, IPPROTO_IP, 9999, 4));
	EXPECT_EQ(0, send_with(self->client, SOL_SOCKET, SO_MARK, 4));
	EXPECT_EQ(2, recv(self->server, buf, 2, MSG_WAITALL));
	EXPECT_SENT(self, 2);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
