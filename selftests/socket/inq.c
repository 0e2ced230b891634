// SPDX-License-Identifier: GPL-2.0
/*
 * TCP_INQ: the number of unread octets in a control message of recvmsg(). The expected numbers are
 * those of TCP, with which the tests run too.
 */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>

#include "conn.h"
#include "message.h"

#ifndef SOL_TCP
#define SOL_TCP 6
#endif

/* No control message came. */
#define NO_INQ (-1000)

struct result {
	ssize_t size;
	int inq;
};

/* Receives a message with room for `size` bytes; a negative size is a negative errno. */
static struct result receive(int fd, size_t size, int flags)
{
	struct message message;
	struct result result = { .size = receive_message(fd, &message, size, flags),
				 .inq = NO_INQ };
	struct cmsghdr *cmsg;

	if (result.size < 0) {
		result.size = -message.error;
		return result;
	}
	cmsg = CMSG_FIRSTHDR(&message.header);
	if (cmsg && cmsg->cmsg_level == SOL_TCP && cmsg->cmsg_type == TCP_CM_INQ &&
	    cmsg->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&result.inq, CMSG_DATA(cmsg), sizeof(int));
	return result;
}

#define EXPECT_RESULT(wanted_size, wanted_inq, call) do {		\
	struct result got = (call);					\
									\
	EXPECT_EQ(wanted_size, got.size);				\
	EXPECT_EQ(wanted_inq, got.inq);					\
} while (0)

static int set_inq(int fd, int on)
{
	return setsockopt(fd, SOL_TCP, TCP_INQ, &on, sizeof(on));
}

static int get_inq(int fd)
{
	int on = -1;
	socklen_t size = sizeof(on);

	return getsockopt(fd, SOL_TCP, TCP_INQ, &on, &size) ? -errno : on;
}

TEST_F(conn, option_is_off_and_can_be_switched)
{
	EXPECT_EQ(0, get_inq(self->server));
	ASSERT_EQ(3, send(self->client, "abc", 3, 0));
	EXPECT_RESULT(3, NO_INQ, receive(self->server, 10, 0));
	ASSERT_EQ(0, set_inq(self->server, 1));
	EXPECT_EQ(1, get_inq(self->server));
	EXPECT_EQ(-1, set_inq(self->server, 2));
	EXPECT_EQ(EINVAL, errno);
	ASSERT_EQ(3, send(self->client, "abc", 3, 0));
	EXPECT_RESULT(3, 0, receive(self->server, 10, 0));
	ASSERT_EQ(0, set_inq(self->server, 0));
	ASSERT_EQ(3, send(self->client, "abc", 3, 0));
	EXPECT_RESULT(3, NO_INQ, receive(self->server, 10, 0));
}

TEST_F(conn, rest_is_counted)
{
	char data[100] = "";

	ASSERT_EQ(0, set_inq(self->server, 1));
	EXPECT_RESULT(-EAGAIN, NO_INQ, receive(self->server, 10, MSG_DONTWAIT));
	ASSERT_EQ(100, send(self->client, data, 100, 0));
	ASSERT_TRUE(await_bytes(self->server, 100));
	EXPECT_RESULT(10, 100, receive(self->server, 10, MSG_PEEK));
	EXPECT_RESULT(40, 60, receive(self->server, 40, 0));
	EXPECT_RESULT(20, 40, receive(self->server, 20, MSG_TRUNC));
	EXPECT_RESULT(40, 40, receive(self->server, 50, MSG_PEEK));
	EXPECT_RESULT(40, 0, receive(self->server, 50, 0));
	EXPECT_RESULT(-EAGAIN, NO_INQ, receive(self->server, 10, MSG_DONTWAIT));
}

TEST_F(conn, read_of_no_bytes)
{
	ASSERT_EQ(0, set_inq(self->server, 1));
	EXPECT_RESULT(-EAGAIN, NO_INQ, receive(self->server, 0, MSG_DONTWAIT));
	ASSERT_EQ(3, send(self->client, "abc", 3, 0));
	EXPECT_RESULT(0, 3, receive(self->server, 0, 0));
	EXPECT_RESULT(3, 0, receive(self->server, 3, 0));
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_RESULT(0, 1, receive(self->server, 0, 0));
}

/* The end of the stream counts as one octet, so that a program that reads until 0 finds it. */
TEST_F(conn, end_of_the_stream_is_something_to_read)
{
	ASSERT_EQ(0, set_inq(self->server, 1));
	ASSERT_EQ(10, send(self->client, "0123456789", 10, 0));
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(POLLRDHUP, await_events(self->server, POLLRDHUP, 5000));
	EXPECT_RESULT(4, 7, receive(self->server, 4, 0));
	EXPECT_RESULT(6, 1, receive(self->server, 6, 0));
	EXPECT_RESULT(0, 1, receive(self->server, 6, 0));
	EXPECT_RESULT(0, 1, receive(self->server, 6, MSG_PEEK));
}

TEST_F(conn, own_end_is_nothing_to_read)
{
	ASSERT_EQ(0, set_inq(self->server, 1));
	ASSERT_EQ(0, shutdown(self->server, SHUT_RD));
	EXPECT_RESULT(0, 0, receive(self->server, 6, 0));
}

TEST_F(conn, reset_leaves_nothing)
{
	struct linger linger = { .l_onoff = 1 };

	ASSERT_EQ(0, set_inq(self->server, 1));
	ASSERT_EQ(0, setsockopt(self->client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	ASSERT_EQ(0, close(self->client));
	self->client = -1;
	EXPECT_LT(0, await_events(self->server, POLLRDHUP, 5000));
	EXPECT_RESULT(-ECONNRESET, NO_INQ, receive(self->server, 6, 0));
	EXPECT_RESULT(0, 0, receive(self->server, 6, 0));
}

/* The urgent byte counts until the reader has passed it. */
TEST_F(conn, urgent_byte_is_counted)
{
	ASSERT_EQ(0, set_inq(self->server, 1));
	ASSERT_EQ(3, send(self->client, "abC", 3, MSG_OOB));
	EXPECT_LT(0, await_events(self->server, POLLPRI, 5000));
	ASSERT_TRUE(await_bytes(self->server, 2));
	EXPECT_RESULT(1, 3, receive(self->server, 1, MSG_OOB));
	EXPECT_RESULT(2, 1, receive(self->server, 10, 0));
	ASSERT_EQ(2, send(self->client, "de", 2, 0));
	ASSERT_TRUE(await_bytes(self->server, 2));
	EXPECT_RESULT(2, 0, receive(self->server, 10, 0));
}

TEST_F(conn, message_without_room_for_control)
{
	char data[4];
	struct iovec vec = { data, 2 };
	struct msghdr msg = { .msg_iov = &vec, .msg_iovlen = 1 };

	ASSERT_EQ(0, set_inq(self->server, 1));
	ASSERT_EQ(4, send(self->client, "abcd", 4, 0));
	ASSERT_TRUE(await_bytes(self->server, 4));
	ASSERT_EQ(2, recvmsg(self->server, &msg, 0));
	EXPECT_EQ(MSG_CTRUNC, msg.msg_flags & MSG_CTRUNC);
	ASSERT_EQ(2, recv(self->server, data, 4, 0));
}

/* The number is never lower than the unread octets, as in the kernel's mptcp_inq selftest. */
TEST_F(conn, numbers_of_a_stream_add_up)
{
	enum { SIZE = 300000 };
	static char out[SIZE];
	char buf[256];
	size_t got = 0;
	pid_t child;

	ASSERT_EQ(0, set_inq(self->server, 1));
	fill(out, SIZE, 3);
	child = fork();
	if (!child) {
		close(self->server);
		_exit(send_all(self->client, out, SIZE) ? 1 : 0);
	}
	while (got < SIZE) {
		struct result result = receive(self->server, 1 + got % sizeof(buf), 0);
		int now = -1;

		ASSERT_LT(0, result.size);
		got += result.size;
		ASSERT_LE(0, result.inq);
		ASSERT_LE((size_t)result.inq, SIZE - got);
		ASSERT_EQ(0, ioctl(self->server, SIOCINQ, &now));
		/* More octets may have arrived since. */
		ASSERT_LE(result.inq, now);
	}
	EXPECT_EQ(SIZE, got);
	EXPECT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_SENT(self, SIZE);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
