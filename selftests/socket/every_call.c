// SPDX-License-Identifier: GPL-2.0
/*
 * Every flag of send() and recv(), every ioctl of tcp(7) and socket(7), and every event of poll():
 * compared with the reference engine in the same state.
 */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "compare.h"
#include "message.h"

#define QUIET (MSG_DONTWAIT | MSG_NOSIGNAL)

/* Flags that programs may use, and some that none may. */
static const struct flag {
	const char *name;
	int flag;
} flags[] = {
	{ "none", 0 },
	{ "OOB", MSG_OOB },
	{ "PEEK", MSG_PEEK },
	{ "DONTROUTE", MSG_DONTROUTE },
	{ "CTRUNC", MSG_CTRUNC },
	{ "PROXY", 0x10 },
	{ "TRUNC", MSG_TRUNC },
	{ "EOR", MSG_EOR },
	{ "WAITALL", MSG_WAITALL },
	{ "FIN", MSG_FIN },
	{ "SYN", MSG_SYN },
	{ "CONFIRM", MSG_CONFIRM },
	{ "RST", MSG_RST },
	{ "ERRQUEUE", MSG_ERRQUEUE },
	{ "NOSIGNAL", MSG_NOSIGNAL },
	{ "MORE", MSG_MORE },
	{ "WAITFORONE", MSG_WAITFORONE },
	{ "BATCH", 0x40000 },
	{ "SOCK_DEVMEM", 0x2000000 },
	{ "ZEROCOPY", MSG_ZEROCOPY },
	{ "CMSG_CLOEXEC", MSG_CMSG_CLOEXEC },
	{ "PEEK and TRUNC", MSG_PEEK | MSG_TRUNC },
	{ "OOB and PEEK", MSG_OOB | MSG_PEEK },
};

static struct outcome write_one(int fd, const char *data, int size, int flags)
{
	struct outcome outcome = { .size = -1 };

	outcome.result = send(fd, data, size, flags | QUIET);
	outcome.error = outcome.result < 0 ? errno : 0;
	return outcome;
}

/* Receives a message; its flags and sizes are the first octets of the outcome's data. */
static struct outcome read_one(int fd, int size, int flags)
{
	struct outcome outcome = { .size = -1 };
	struct message message;

	outcome.result = receive_message(fd, &message, size, flags | MSG_DONTWAIT);
	outcome.error = message.error;
	if (outcome.result < 0)
		return outcome;
	memcpy(outcome.data, &message.header.msg_flags, 4);
	memcpy(outcome.data + 4, &message.header.msg_namelen, 4);
	memcpy(outcome.data + 8, &message.header.msg_controllen, 4);
	memcpy(outcome.data + 12, message.data, 20);
	outcome.size = 32;
	return outcome;
}

static int bytes_waiting(int fd)
{
	int count = -1;

	return ioctl(fd, SIOCINQ, &count) ? -1 : count;
}

TEST_F(both, reads_of_nothing)
{
	struct outcome a, b;
	size_t n;

	for (n = 0; n < ARRAY_SIZE(flags); n++) {
		a = read_one(self->reference.near, 8, flags[n].flag);
		b = read_one(self->tested.near, 8, flags[n].flag);
		EXPECT_EQ(0, differs(self->state, flags[n].name, n, &a, &b, true));
		a = read_one(self->reference.near, 0, flags[n].flag);
		b = read_one(self->tested.near, 0, flags[n].flag);
		EXPECT_EQ(0, differs(self->state, flags[n].name, -n, &a, &b, true));
	}
}

TEST_F(both, reads_of_data)
{
	struct outcome a, b;
	size_t n;

	if (self->state != CONNECTED && self->state != SHUT && self->state != FAILED_OVER)
		return;
	for (n = 0; n < ARRAY_SIZE(flags); n++) {
		ASSERT_EQ(10, send(self->reference.far, "0123456789", 10, 0));
		ASSERT_EQ(10, send(self->tested.far, "0123456789", 10, 0));
		ASSERT_TRUE(await_bytes(self->reference.near, 10));
		ASSERT_TRUE(await_bytes(self->tested.near, 10));
		a = read_one(self->reference.near, 4, flags[n].flag);
		b = read_one(self->tested.near, 4, flags[n].flag);
		EXPECT_EQ(0, differs(self->state, flags[n].name, n, &a, &b, true));
		EXPECT_EQ(bytes_waiting(self->reference.near), bytes_waiting(self->tested.near)) {
			TH_LOG("flag %s", flags[n].name);
		}
		a = read_one(self->reference.near, 20, 0);
		b = read_one(self->tested.near, 20, 0);
		EXPECT_EQ(0, differs(self->state, "rest after", n, &a, &b, true));
	}
}

TEST_F(both, writes)
{
	struct outcome a, b;
	size_t n;

	for (n = 0; n < ARRAY_SIZE(flags); n++) {
		/* Urgent data has tests of its own, and the next tests stop at it. */
		if (flags[n].flag & MSG_OOB && self->state != SHUT && self->state != RESET)
			continue;
		a = write_one(self->reference.near, "abc", 3, flags[n].flag);
		b = write_one(self->tested.near, "abc", 3, flags[n].flag);
		EXPECT_EQ(0, differs(self->state, flags[n].name, n, &a, &b, true));
		a = write_one(self->reference.near, "", 0, flags[n].flag);
		b = write_one(self->tested.near, "", 0, flags[n].flag);
		EXPECT_EQ(0, differs(self->state, flags[n].name, -n, &a, &b, true));
	}
	if (self->reference.far >= 0 && self->state != SHUT) {
		char left[2][128] = {};
		int one, two;

		write_one(self->reference.near, "end", 3, 0);
		write_one(self->tested.near, "end", 3, 0);
		shutdown(self->reference.near, SHUT_WR);
		shutdown(self->tested.near, SHUT_WR);
		one = recv_all(self->reference.far, left[0], 128);
		two = recv_all(self->tested.far, left[1], 128);
		EXPECT_EQ(one, two);
		EXPECT_EQ(0, memcmp(left[0], left[1], sizeof(left[0])));
	}
}

/* Bad addresses fail as with TCP. */
TEST_F(both, bad_addresses)
{
	struct outcome a, b;

	a = write_one(self->reference.near, (void *)8, 3, 0);
	b = write_one(self->tested.near, (void *)8, 3, 0);
	EXPECT_EQ(0, differs(self->state, "send from nowhere", 0, &a, &b, true));
	if (self->state == CONNECTED) {
		ASSERT_EQ(4, send(self->reference.far, "data", 4, 0));
		ASSERT_EQ(4, send(self->tested.far, "data", 4, 0));
		ASSERT_TRUE(await_bytes(self->reference.near, 4));
		ASSERT_TRUE(await_bytes(self->tested.near, 4));
		EXPECT_EQ(-1, recv(self->reference.near, (void *)8, 4, 0));
		EXPECT_EQ(EFAULT, errno);
		EXPECT_EQ(-1, recv(self->tested.near, (void *)8, 4, 0));
		EXPECT_EQ(EFAULT, errno);
		EXPECT_EQ(4, bytes_waiting(self->reference.near));
		EXPECT_EQ(4, bytes_waiting(self->tested.near));
	}
}

static const struct request {
	const char *name;
	unsigned long request;
} requests[] = {
	{ "FIONREAD", FIONREAD },
	{ "SIOCOUTQ", SIOCOUTQ },
	{ "SIOCOUTQNSD", SIOCOUTQNSD },
	{ "SIOCATMARK", SIOCATMARK },
	{ "SIOCGPGRP", SIOCGPGRP },
	{ "FIOGETOWN", FIOGETOWN },
	{ "SIOCGSTAMP", 0x8906 },
	{ "SIOCGSTAMPNS", 0x8907 },
	{ "SIOCGIFCOUNT", 0x8938 },
	{ "SIOCINQ and one", SIOCINQ + 100 },
	{ "SIOCSPGRP", SIOCSPGRP },
	{ "FIOSETOWN", FIOSETOWN },
	{ "FIOASYNC", FIOASYNC },
	{ "FIONBIO", FIONBIO },
	{ "SIOCADDRT", 0x890b },
	{ "SIOCPROTOPRIVATE", 0x89e0 },
	{ "SIOCPROTOPRIVATE and 1", 0x89e1 },
	{ "SIOCDEVPRIVATE", 0x89f0 },
	{ "TIOCGWINSZ", 0x5413 },
	{ "nothing", 0 },
};

static struct outcome request(int fd, unsigned long number, void *value)
{
	struct outcome outcome = { .size = 4 };
	int zero = 0;

	outcome.result = ioctl(fd, number, value ?: (void *)&zero);
	outcome.error = outcome.result < 0 ? errno : 0;
	memcpy(outcome.data, &zero, 4);
	return outcome;
}

TEST_F(both, ioctls)
{
	struct outcome a, b;
	size_t n;

	for (n = 0; n < ARRAY_SIZE(requests); n++) {
		a = request(self->reference.near, requests[n].request, NULL);
		b = request(self->tested.near, requests[n].request, NULL);
		/* TCP counts its FIN until the acknowledgment. */
		EXPECT_EQ(0, differs(self->state, requests[n].name, n, &a, &b,
				     requests[n].request != SIOCOUTQ || self->state != SHUT));
		if (requests[n].request == 0x8938)
			continue;
		a = request(self->reference.near, requests[n].request, (void *)8);
		b = request(self->tested.near, requests[n].request, (void *)8);
		EXPECT_EQ(0, differs(self->state, requests[n].name, -n, &a, &b, true));
	}
}

TEST_F(both, events_of_poll)
{
	int bit;

	for (bit = 0; bit < 15; bit++) {
		struct pollfd p[] = {
			{ self->reference.near, 1 << bit }, { self->tested.near, 1 << bit },
		};

		ASSERT_LE(0, poll(p, 2, 0));
		EXPECT_EQ(p[0].revents, p[1].revents) {
			TH_LOG("%s: event %#x", state_names[self->state], 1 << bit);
		}
	}
}

/* The address of the peer if `peer`, else of the socket. */
static int name_of(int fd, int peer, struct sockaddr *address, socklen_t *size)
{
	if (peer)
		return getpeername(fd, address, size);
	return getsockname(fd, address, size);
}

TEST_F(both, names)
{
	struct outcome a = {}, b = {};
	union address address;
	socklen_t size;
	int which;

	for (which = 0; which < 2; which++) {
		size = sizeof(address);
		a.result = name_of(self->reference.near, which, &address.sa, &size);
		a.error = a.result ? errno : 0;
		a.size = a.result ? -1 : (int)size;
		size = sizeof(address);
		b.result = name_of(self->tested.near, which, &address.sa, &size);
		b.error = b.result ? errno : 0;
		b.size = b.result ? -1 : (int)size;
		EXPECT_EQ(0, differs(self->state, "name", which, &a, &b, false));
	}
}

/* Calls that do not fit the state. */
TEST_F(both, calls_out_of_place)
{
	static const int how[] = { 3, -1, SHUT_RD, SHUT_WR, SHUT_RDWR };
	struct outcome a = { .size = -1 }, b = { .size = -1 };
	size_t n;

	a.result = listen(self->reference.near, 1);
	a.error = a.result ? errno : 0;
	b.result = listen(self->tested.near, 1);
	b.error = b.result ? errno : 0;
	EXPECT_EQ(0, differs(self->state, "listen", 0, &a, &b, false));
	if (a.result) {
		a.result = accept4(self->reference.near, NULL, NULL, SOCK_NONBLOCK);
		a.error = errno;
		b.result = accept4(self->tested.near, NULL, NULL, SOCK_NONBLOCK);
		b.error = errno;
		EXPECT_EQ(0, differs(self->state, "accept", 0, &a, &b, false));
	}
	for (n = 0; n < ARRAY_SIZE(how); n++) {
		/* With both ends closed TCP keeps the socket until its FIN is acknowledged. */
		if (self->state == HALF_CLOSED && how[n] == SHUT_RDWR)
			break;
		a.result = shutdown(self->reference.near, how[n]);
		a.error = a.result ? errno : 0;
		b.result = shutdown(self->tested.near, how[n]);
		b.error = b.result ? errno : 0;
		EXPECT_EQ(0, differs(self->state, "shutdown", how[n], &a, &b, false));
	}
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
