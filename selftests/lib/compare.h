/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two sockets in the same state, one of an engine and one of its reference: a test makes each
 * call on both, and compares the outcomes. Programs include kselftest_harness.h before this file.
 */

#ifndef RS_COMPARE_H
#define RS_COMPARE_H

#include "conn.h"

enum state { FRESH, LISTENING, CONNECTED, SHUT, HALF_CLOSED, RESET, FAILED_OVER };

static const char * const state_names[] = {
	"fresh", "listening", "connected", "shut", "half closed", "reset",
	"failed over"
};

/* The socket under test, and the others of its connection. */
struct ends {
	int near;
	int far;
	int listener;
};

/* The outcome of a call. */
struct outcome {
	int result;
	int error;	/* errno, 0 after success */
	int size;	/* of `data`, -1 without data */
	unsigned char data[256];
};

/* The device by which the connection of a client's socket writes. */
static inline void device_of(int fd, char device[16])
{
	const char *found;

	device[0] = 0;
	mode_of_fd(CLIENT, fd);
	found = strstr(conn_line, " dev=");
	if (found && sscanf(found, " dev=%15s", device) != 1)
		device[0] = 0;
}

/* Removes the client's device; the connection moves to the other one. */
static inline bool fail_over(int fd)
{
	char before[16], now[16], command[64];
	int tries;

	/* Each waits for 10 seconds. A link whose set-up failed is tried again after a minute. */
	for (tries = 0; system("./second_device.sh links"); tries++) {
		if (tries == 8)
			return false;
	}
	device_of(fd, before);
	snprintf(command, sizeof(command), "./second_device.sh lose %s", before);
	if (!before[0] || system(command))
		return false;
	/* No event announces that the connection has moved. */
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

	/* No event announces the acknowledgment. */
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
	if (state == FAILED_OVER && is_carried(kind) && system("./second_device.sh up"))
		return false;
	if (connect_to(kind, ends->near, ends->listener))
		return false;
	ends->far = accept(ends->listener, NULL, NULL);
	if (ends->far < 0)
		return false;
	if (engine_of_mode(mode_of_fd(CLIENT, ends->near)) != carrier_of(kind))
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

/* Compares two outcomes, and prints a difference; how many there are. */
static inline int differs(enum state state, const char *what, int number,
			  const struct outcome *reference, const struct outcome *tested,
			  bool with_data)
{
	if (same(reference, tested, with_data))
		return 0;
	printf("# %s: %s %d: reference %d (%s, size %d, %#x), tested %d (%s, size %d, %#x)\n",
	       state_names[state], what, number, reference->result, strerror(reference->error),
	       reference->size, first_int(reference), tested->result, strerror(tested->error),
	       tested->size, first_int(tested));
	return 1;
}

/* A variant for each state and each row of the table of kinds that has a reference. */
FIXTURE(both) {
	struct kind reference_kind;
	struct kind tested_kind;
	enum state state;
	struct ends reference;
	struct ends tested;
};

FIXTURE_VARIANT(both) {
	struct kind kind;
	enum engine reference;
	enum state state;
};

#define RS_STATE(fixture, name, suffix, value, reference, ...)				\
	FIXTURE_VARIANT_ADD(fixture, name##_##suffix) { __VA_ARGS__, reference, value }

/* Where no other device takes over. */
#define RS_STATES_OF_ONE_DEVICE(fixture, name, reference, ...)				\
	RS_STATE(fixture, name, fresh, FRESH, reference, __VA_ARGS__);			\
	RS_STATE(fixture, name, listening, LISTENING, reference, __VA_ARGS__);		\
	RS_STATE(fixture, name, connected, CONNECTED, reference, __VA_ARGS__);		\
	RS_STATE(fixture, name, shut, SHUT, reference, __VA_ARGS__);			\
	RS_STATE(fixture, name, half_closed, HALF_CLOSED, reference, __VA_ARGS__);	\
	RS_STATE(fixture, name, reset, RESET, reference, __VA_ARGS__)

#define RS_STATES(fixture, name, reference, ...)					\
	RS_STATES_OF_ONE_DEVICE(fixture, name, reference, __VA_ARGS__);			\
	RS_STATE(fixture, name, failed_over, FAILED_OVER, reference, __VA_ARGS__)

/* By the last column of the table: no variants, or one for each state. */
#define RS_STATES_NONE(fixture, name, ...)
#define RS_STATES_TCP(fixture, name, ...) RS_STATES(fixture, name, TCP, __VA_ARGS__)
#define RS_STATES_TCP_OF_ONE_DEVICE(fixture, name, ...)					\
	RS_STATES_OF_ONE_DEVICE(fixture, name, TCP, __VA_ARGS__)

#define RS_COMPARED(fixture, name, family, number, ip, client, server, reference)	\
	RS_STATES_##reference(fixture, name, { family, number, ip, { client, server } })

RS_KINDS(RS_COMPARED, both);

FIXTURE_SETUP(both)
{
	enum engine reference = variant->reference;

	self->state = variant->state;
	self->tested_kind = variant->kind;
	self->reference_kind = (struct kind){ .ip = variant->kind.ip,
					      .engine = { reference, reference } };
	ASSERT_TRUE(bring_to(&self->reference, &self->reference_kind, self->state));
	ASSERT_TRUE(bring_to(&self->tested, &self->tested_kind, self->state));
}

FIXTURE_TEARDOWN(both)
{
	leave(&self->reference);
	leave(&self->tested);
	if (self->state == FAILED_OVER)
		EXPECT_EQ(0, system("./second_device.sh down"));
}

#endif
