// SPDX-License-Identifier: GPL-2.0
/*
 * Every socket option by its number: read with several sizes, set and cleared, and compared with
 * the reference engine in the same state. The table below lists options whose value describes
 * packets or the socket itself, and intended differences.
 */

#define RS_WITH_SDP

#include <kselftest_harness.h>

#include "compare.h"

enum how {
	SAME,
	ANY_VALUE,	/* the value is not compared */
	TUNED,		/* the value is compared once it was set: TCP adapts it to its segments */
	OTHER,		/* differs on purpose; documented in usage.rst */
};

struct exception {
	int level;
	int name;
	enum how how;
};

static const struct exception exceptions[] = {
	{ SOL_SOCKET, 28 /* SO_PEERNAME */, ANY_VALUE },
	{ SOL_SOCKET, 49 /* SO_INCOMING_CPU */, ANY_VALUE },
	{ SOL_SOCKET, 55 /* SO_MEMINFO */, ANY_VALUE },
	{ SOL_SOCKET, 56 /* SO_INCOMING_NAPI_ID */, ANY_VALUE },
	{ SOL_SOCKET, 57 /* SO_COOKIE */, ANY_VALUE },
	{ SOL_SOCKET, 77 /* SO_PEERPIDFD */, ANY_VALUE },
	{ IPPROTO_TCP, 11 /* TCP_INFO */, ANY_VALUE },
	/* Its value describes the last segments. */
	{ IPPROTO_TCP, 12 /* TCP_QUICKACK */, ANY_VALUE },
	{ IPPROTO_TCP, 24 /* TCP_TIMESTAMP */, ANY_VALUE },
	{ IPPROTO_TCP, 26 /* TCP_CC_INFO */, ANY_VALUE },
	/* No upper layers (kTLS). */
	{ IPPROTO_TCP, 31 /* TCP_ULP */, OTHER },
	/* TCP's queue is not accessible to the program. */
	{ IPPROTO_TCP, 35 /* TCP_ZEROCOPY_RECEIVE */, OTHER },
	/* These need a cached route, which a connection without packets may have lost. */
	{ IPPROTO_IP, 14 /* IP_MTU */, OTHER },
	{ IPPROTO_IPV6, 24 /* IPV6_MTU */, OTHER },
	{ IPPROTO_IPV6, 61 /* IPV6_PATHMTU */, OTHER },
	/* The local port. */
	{ IPPROTO_IP, 52 /* IP_PROTOCOL */, ANY_VALUE },
	/* The TCP connection stays established, with IPv6. */
	{ IPPROTO_IPV6, 1 /* IPV6_ADDRFORM */, OTHER },
};

/* Those of SMC-R, whose buffers are of a size of their own, come first. */
static const struct exception smc_exceptions[] = {
	{ SOL_SOCKET, SO_SNDBUF, TUNED },
	{ SOL_SOCKET, SO_RCVBUF, TUNED },
};

/* Those of SDP, whose TCP has no segments, come first. */
static const struct exception sdp_exceptions[] = {
	{ SOL_SOCKET, SO_SNDBUF, TUNED },
	/* Payload of a message. */
	{ IPPROTO_TCP, 2 /* TCP_MAXSEG */, ANY_VALUE },
	{ IPPROTO_TCP, 10 /* TCP_WINDOW_CLAMP */, TUNED },
};

static enum how find(const struct exception *exception, size_t count, int level, int name)
{
	for (; count; count--, exception++) {
		if (exception->level == level && exception->name == name)
			return exception->how;
	}
	return SAME;
}

static enum how how_to_compare(enum engine engine, int level, int name)
{
	enum how how = SAME;

	if (engine == SMC)
		how = find(smc_exceptions, ARRAY_SIZE(smc_exceptions), level, name);
	if (engine == SDP)
		how = find(sdp_exceptions, ARRAY_SIZE(sdp_exceptions), level, name);
	return how == SAME ? find(exceptions, ARRAY_SIZE(exceptions), level, name) : how;
}

static struct outcome get(int fd, int level, int name, int room)
{
	struct outcome outcome = {};
	socklen_t size = room;

	outcome.result = getsockopt(fd, level, name, outcome.data, &size);
	outcome.error = outcome.result ? errno : 0;
	outcome.size = outcome.result ? -1 : (int)size;
	return outcome;
}

static struct outcome set(int fd, int level, int name, const void *value, int size)
{
	struct outcome outcome = { .size = -1 };

	outcome.result = setsockopt(fd, level, name, value, size);
	outcome.error = outcome.result ? errno : 0;
	return outcome;
}

static const int sizes[] = { 0, 1, 4, 256, -1 };

/* Compares one option; the number of differences. */
static int compare_option(enum state state, enum engine engine, int reference, int tested,
			  int level, int name)
{
	static const int values[] = { 1, 0 };
	enum how how = how_to_compare(engine, level, name);
	struct outcome a, b;
	int count = 0;
	size_t n;

	if (how == OTHER)
		return 0;
	for (n = 0; n < ARRAY_SIZE(sizes); n++) {
		a = get(reference, level, name, sizes[n]);
		b = get(tested, level, name, sizes[n]);
		count += differs(state, "get", name, &a, &b, how == SAME);
	}
	a = set(reference, level, name, "", 1);
	b = set(tested, level, name, "", 1);
	count += differs(state, "set of one octet", name, &a, &b, true);
	a = set(reference, level, name, (void *)8, 4);
	b = set(tested, level, name, (void *)8, 4);
	count += differs(state, "set from nowhere", name, &a, &b, true);
	for (n = 0; n < ARRAY_SIZE(values); n++) {
		a = set(reference, level, name, &values[n], sizeof(values[n]));
		b = set(tested, level, name, &values[n], sizeof(values[n]));
		count += differs(state, "set", name, &a, &b, true);
		a = get(reference, level, name, sizeof(int));
		b = get(tested, level, name, sizeof(int));
		count += differs(state, "get again", name, &a, &b,
				 how == SAME || how == TUNED);
	}
	return count;
}

static int compare_level(FIXTURE_DATA(both) const *self, int level, int last)
{
	int count = 0, name;

	for (name = 0; name <= last; name++)
		count += compare_option(self->state, engine_of(&self->tested_kind, CLIENT),
					self->reference.near, self->tested.near, level, name);
	return count;
}

/* Fails unless both connections carry data in both directions, or fail with the same error. */
static void expect_same_traffic(struct __test_metadata *_metadata, struct ends *reference,
				struct ends *tested)
{
	char a[8] = "", b[8] = "";
	ssize_t n, m;

	n = send(reference->near, "there", 5, MSG_DONTWAIT | MSG_NOSIGNAL);
	m = send(tested->near, "there", 5, MSG_DONTWAIT | MSG_NOSIGNAL);
	EXPECT_EQ(n, m);
	if (n == 5) {
		EXPECT_EQ(5, recv(reference->far, a, 5, MSG_WAITALL));
		EXPECT_EQ(5, recv(tested->far, b, 5, MSG_WAITALL));
		EXPECT_EQ(0, memcmp(a, b, 5));
	}
}

TEST_F(both, options_of_sockets)
{
	EXPECT_EQ(0, compare_level(self, SOL_SOCKET, 100));
	expect_same_traffic(_metadata, &self->reference, &self->tested);
}

TEST_F(both, options_of_tcp)
{
	EXPECT_EQ(0, compare_level(self, IPPROTO_TCP, 60));
	expect_same_traffic(_metadata, &self->reference, &self->tested);
}

TEST_F(both, options_of_ip)
{
	EXPECT_EQ(0, compare_level(self, IPPROTO_IP, 64));
	expect_same_traffic(_metadata, &self->reference, &self->tested);
}

TEST_F(both, options_of_ipv6)
{
	EXPECT_EQ(0, compare_level(self, IPPROTO_IPV6, 90));
	expect_same_traffic(_metadata, &self->reference, &self->tested);
}

/* Levels that a TCP socket does not have. */
TEST_F(both, options_of_other_levels)
{
	static const int levels[] = { 17, 132, 255, 263, 284, 999 };
	struct outcome a, b;
	size_t n;

	for (n = 0; n < ARRAY_SIZE(levels); n++) {
		a = get(self->reference.near, levels[n], 1, 4);
		b = get(self->tested.near, levels[n], 1, 4);
		EXPECT_EQ(0, differs(self->state, "get of level", levels[n], &a, &b, true));
		a = set(self->reference.near, levels[n], 1, &levels[n], 4);
		b = set(self->tested.near, levels[n], 1, &levels[n], 4);
		EXPECT_EQ(0, differs(self->state, "set of level", levels[n], &a, &b, true));
	}
}

/* The errors are those of net/smc. */
TEST_F(both, options_of_smc)
{
	int fd = self->tested.near, one = 1, name;
	struct outcome a, b;

	if (engine_of(&self->tested_kind, CLIENT) != SMC) {
		/* Not a level of the socket. */
		a = get(self->reference.near, 286, 1, 4);
		b = get(fd, 286, 1, 4);
		EXPECT_EQ(0, differs(self->state, "get of level", 286, &a, &b, true));
		a = set(self->reference.near, 286, 1, &one, 4);
		b = set(fd, 286, 1, &one, 4);
		EXPECT_EQ(0, differs(self->state, "set of level", 286, &a, &b, true));
		return;
	}
	for (name = 0; name < 8; name++) {
		if (name == 1 /* SMC_LIMIT_HS */)
			continue;
		EXPECT_EQ(EOPNOTSUPP, set(fd, 286, name, &one, sizeof(one)).error);
		EXPECT_EQ(EOPNOTSUPP, set(fd, 286, name, NULL, 0).error);
		EXPECT_EQ(EOPNOTSUPP, get(fd, 286, name, 4).error);
		EXPECT_EQ(EINVAL, get(fd, 286, name, -1).error);
		EXPECT_EQ(-1, getsockopt(fd, 286, name, &one, (socklen_t *)8));
		EXPECT_EQ(EFAULT, errno);
	}
	EXPECT_EQ(EINVAL, set(fd, 286, 1, &one, 3).error);
	EXPECT_EQ(EFAULT, set(fd, 286, 1, (void *)8, 4).error);
	EXPECT_EQ(0, set(fd, 286, 1, &one, 4).error);
	EXPECT_EQ(1, first_int(&(struct outcome){ .data = { get(fd, 286, 1, 4).data[0] } }));
	EXPECT_EQ(4, get(fd, 286, 1, 256).size);
	EXPECT_EQ(2, get(fd, 286, 1, 2).size);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
