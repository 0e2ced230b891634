/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two sockets in the same state, one of TCP and one of ours: every call is made on both, and what
 * comes of it is compared. For tests of kselftest_harness.h, which is to be included before.
 */

#ifndef RS_COMPARE_H
#define RS_COMPARE_H

#include "conn.h"

enum state { FRESH, LISTENING, CONNECTED, SHUT, HALF_CLOSED, RESET, FAILED_OVER };

static const char * const state_names[] = {
	"fresh", "listening", "connected", "shut", "half closed", "reset",
	"failed over"
};

/* The socket that calls are made on, and the others of its connection. */
struct ends {
	int near;
	int far;
	int listener;
};

/* What came of a call. */
struct outcome {
	int result;
	int error;	/* errno, 0 after success */
	int size;	/* of `data`, -1 without data */
	unsigned char data[256];
};

/* The device by which the connection of a socket of the client's side writes now. */
static inline void device_of(int fd, char device[16])
{
	const char *found;

	device[0] = 0;
	mode_of_fd(CLIENT, fd);
	found = strstr(conn_line, " dev=");
	if (found && sscanf(found, " dev=%15s", device) != 1)
		device[0] = 0;
}

/* The client loses the device by which it writes; the connection goes on by the other one. */
static inline bool fail_over(int fd)
{
	char before[16], now[16], command[64];
	int tries;

	if (system("./second.sh links"))
		return false;
	device_of(fd, before);
	snprintf(command, sizeof(command), "./second.sh lose %s", before);
	if (!before[0] || system(command))
		return false;
	/* Nothing tells a program that its connection has moved. */
	for (tries = 0; tries < 2000; tries++) {
		device_of(fd, now);
		if (now[0] && strcmp(now, before))
			return true;
		usleep(10000);
	}
	return false;
}

/*
 * Waits until the peer's TCP has acknowledged our FIN. That ACK may be delayed, and a
 * segment that comes while a program has IPV6_RECVPKTINFO on changes IPV6_MULTICAST_IF.
 */
static inline bool fin_is_acknowledged(int fd)
{
	int tries;

	/* Nothing tells a program that it has come. */
	for (tries = 0; tries < 5000; tries++) {
		unsigned char state;
		socklen_t size = sizeof(state);

		if (getsockopt(fd, IPPROTO_TCP, 11 /* TCP_INFO */, &state, &size))
			return false;
		if (state == 5 /* TCP_FIN_WAIT2 */)
			return true;
		usleep(1000);
	}
	return false;
}

static inline bool bring_to(struct ends *ends, const struct kind *kind, enum state state)
{
	struct linger linger = { .l_onoff = 1 };

	*ends = (struct ends){ -1, -1, -1 };
	ends->near = new_socket(kind, CLIENT, 0);
	if (state == FRESH)
		return ends->near >= 0;
	ends->listener = new_listener(kind, 4, NULL);
	if (state == LISTENING) {
		close(ends->near);
		ends->near = ends->listener;
		ends->listener = -1;
		return ends->near >= 0;
	}
	if (state == FAILED_OVER && is_carried(kind) && system("./second.sh up"))
		return false;
	if (connect_to(kind, ends->near, ends->listener))
		return false;
	ends->far = accept(ends->listener, NULL, NULL);
	if (ends->far < 0 || (is_carried(kind) && strcmp("smc", mode_of_fd(CLIENT, ends->near))))
		return false;
	switch (state) {
	case SHUT:
		return !shutdown(ends->near, SHUT_WR) &&
		       await_events(ends->far, POLLRDHUP, 5000) > 0 &&
		       (is_carried(kind) || fin_is_acknowledged(ends->near));
	case HALF_CLOSED:
		return !shutdown(ends->far, SHUT_WR) &&
		       await_events(ends->near, POLLRDHUP, 5000) > 0;
	case RESET:
		setsockopt(ends->far, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		close(ends->far);
		ends->far = -1;
		return await_events(ends->near, POLLHUP, 5000) & POLLHUP;
	case FAILED_OVER:
		return !is_carried(kind) || fail_over(ends->near);
	default:
		return true;
	}
}

static inline void leave(struct ends *ends)
{
	close(ends->near);
	close(ends->far);
	close(ends->listener);
}

static inline bool same(const struct outcome *a, const struct outcome *b, bool with_data)
{
	if (a->result != b->result || a->error != b->error || a->size != b->size)
		return false;
	return !with_data || a->size <= 0 || !memcmp(a->data, b->data, a->size);
}

static inline int first_int(const struct outcome *outcome)
{
	int value = 0;

	memcpy(&value, outcome->data, sizeof(value));
	return value;
}

/* Compares, and counts and prints a difference. */
static inline int differs(enum state state, const char *what, int number, const struct outcome *tcp,
			  const struct outcome *ours, bool with_data)
{
	if (same(tcp, ours, with_data))
		return 0;
	printf("# %s: %s %d: TCP %d (%s, size %d, %#x), ours %d (%s, size %d, %#x)\n",
	       state_names[state], what, number, tcp->result, strerror(tcp->error), tcp->size,
	       first_int(tcp), ours->result, strerror(ours->error), ours->size, first_int(ours));
	return 1;
}

/* The states as variants; both ends are of the two kinds. */
FIXTURE(both) {
	struct kind tcp_kind;
	struct kind our_kind;
	enum state state;
	struct ends tcp;
	struct ends ours;
};

FIXTURE_VARIANT(both) {
	enum state state;
	int ip;
};

#define RS_STATE(name, value)						\
	FIXTURE_VARIANT_ADD(both, name) { value, AF_INET };		\
	FIXTURE_VARIANT_ADD(both, name##_6) { value, AF_INET6 }

RS_STATE(fresh, FRESH);
RS_STATE(listening, LISTENING);
RS_STATE(connected, CONNECTED);
RS_STATE(shut, SHUT);
RS_STATE(half_closed, HALF_CLOSED);
RS_STATE(reset, RESET);
RS_STATE(failed_over, FAILED_OVER);

FIXTURE_SETUP(both)
{
	self->state = variant->state;
	self->tcp_kind = (struct kind){ variant->ip, 0, variant->ip, { false, false } };
	self->our_kind = (struct kind){ variant->ip, IPPROTO_SMC, variant->ip, { true, true } };
	ASSERT_TRUE(bring_to(&self->tcp, &self->tcp_kind, self->state));
	ASSERT_TRUE(bring_to(&self->ours, &self->our_kind, self->state));
}

FIXTURE_TEARDOWN(both)
{
	leave(&self->tcp);
	leave(&self->ours);
	if (self->state == FAILED_OVER)
		EXPECT_EQ(0, system("./second.sh down"));
}

#endif
