// SPDX-License-Identifier: GPL-2.0
/*
 * The ends of connections: shutdown() of either direction by either side, close() in all its forms,
 * and their effects on the peer.
 */

#define RS_WITH_SDP
#define RS_WITH_DUAL

#include <kselftest_harness.h>
#include <pthread.h>
#include <signal.h>

#include "conn.h"

/* Sends until it fails; the error. A reset may be in flight for a while. */
static int send_error(int fd)
{
	for (;;) {
		if (send(fd, "x", 1, MSG_NOSIGNAL) < 0)
			return errno;
		if (await_events(fd, POLLERR | POLLHUP, 10) < 0)
			return -1;
	}
}

/* CLS-01, CLS-04, CLS-06, CLS-10. */
TEST_F(conn, shutdown_for_writing)
{
	char buf[16];

	ASSERT_EQ(8, send(self->client, "question", 8, 0));
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(8, recv(self->server, buf, sizeof(buf), MSG_WAITALL));
	EXPECT_EQ(0, recv(self->server, buf, sizeof(buf), 0));
	EXPECT_EQ(0, recv(self->server, buf, sizeof(buf), 0));
	EXPECT_EQ(EPIPE, last_errno(send(self->client, "x", 1, MSG_NOSIGNAL)));
	/* The other direction is open. */
	ASSERT_EQ(6, send(self->server, "answer", 6, 0));
	EXPECT_EQ(6, recv(self->client, buf, 6, MSG_WAITALL));
	ASSERT_EQ(0, shutdown(self->server, SHUT_WR));
	EXPECT_EQ(0, recv(self->client, buf, sizeof(buf), 0));
	EXPECT_SENT(self, 14);
}

/* CLS-59, TST-026. */
TEST_F(conn, half_close_with_much_to_answer)
{
	enum { SIZE = 3 << 20 };
	char *out = malloc(SIZE), *in = malloc(SIZE), c;
	pid_t child;
	int status;

	fill(out, SIZE, 7);
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	child = fork();
	if (!child) {
		close(self->client);
		if (recv(self->server, &c, 1, 0))
			_exit(1);
		if (send_all(self->server, out, SIZE))
			_exit(2);
		_exit(0);
	}
	close(self->server);
	EXPECT_EQ(SIZE, recv_all(self->client, in, SIZE));
	EXPECT_EQ(0, memcmp(in, out, SIZE));
	EXPECT_EQ(0, recv(self->client, &c, 1, 0));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_SENT(self, SIZE);
	free(out);
	free(in);
}

/* CLS-01. */
TEST_F(conn, shutdown_for_reading)
{
	char buf[16];

	ASSERT_EQ(0, shutdown(self->server, SHUT_RD));
	EXPECT_EQ(0, recv(self->server, buf, sizeof(buf), 0));
	EXPECT_EQ(0, recv(self->server, buf, sizeof(buf), MSG_DONTWAIT));
	/* The peer is not notified, and the other direction is open. */
	EXPECT_EQ(0, last_errno(send(self->client, "x", 1, MSG_NOSIGNAL)));
	ASSERT_EQ(1, send(self->server, "y", 1, 0));
	EXPECT_EQ(1, recv(self->client, buf, 1, 0));
	EXPECT_EQ('y', buf[0]);
}

TEST_F(conn, data_before_shutdown_for_reading_stay)
{
	char buf[16];

	ASSERT_EQ(3, send(self->client, "abc", 3, 0));
	ASSERT_EQ(POLLIN, await_events(self->server, POLLIN, 5000));
	ASSERT_EQ(0, shutdown(self->server, SHUT_RD));
	EXPECT_EQ(3, recv(self->server, buf, sizeof(buf), 0));
	EXPECT_EQ(0, recv(self->server, buf, sizeof(buf), 0));
}

TEST_F(conn, shutdown_of_both_directions)
{
	char c;

	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	ASSERT_EQ(0, shutdown(self->client, SHUT_RDWR));
	EXPECT_EQ(0, recv(self->client, &c, 1, 0));
	EXPECT_EQ(EPIPE, last_errno(send(self->client, "x", 1, MSG_NOSIGNAL)));
	EXPECT_EQ(1, recv(self->server, &c, 1, 0));
	EXPECT_EQ(0, recv(self->server, &c, 1, 0));
}

/* CLS-07, CLS-10, TST-026. */
TEST_F(conn, shutdown_by_both_sides)
{
	char c;

	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	ASSERT_EQ(0, shutdown(self->server, SHUT_WR));
	EXPECT_EQ(0, recv(self->client, &c, 1, 0));
	EXPECT_EQ(0, recv(self->server, &c, 1, 0));
	EXPECT_EQ(EPIPE, last_errno(send(self->client, "x", 1, MSG_NOSIGNAL)));
	EXPECT_EQ(EPIPE, last_errno(send(self->server, "x", 1, MSG_NOSIGNAL)));
}

TEST_F(conn, shutdown_with_a_wrong_argument)
{
	EXPECT_EQ(EINVAL, last_errno(shutdown(self->client, 3)));
	EXPECT_EQ(EINVAL, last_errno(shutdown(self->client, -1)));
	EXPECT_EQ(1, send(self->client, "x", 1, MSG_NOSIGNAL));
}

static int signals;

static void count_signal(int number)
{
	signals++;
}

TEST_F(conn, sigpipe)
{
	signals = 0;
	signal(SIGPIPE, count_signal);
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(EPIPE, last_errno(send(self->client, "x", 1, MSG_NOSIGNAL)));
	EXPECT_EQ(0, signals);
	EXPECT_EQ(EPIPE, last_errno(send(self->client, "x", 1, 0)));
	EXPECT_EQ(1, signals);
	EXPECT_EQ(EPIPE, last_errno(write(self->client, "x", 1)));
	EXPECT_EQ(2, signals);
}

/* CLS-06. */
TEST_F(conn, close_ends_the_stream_after_its_data)
{
	char buf[16];

	ASSERT_EQ(3, send(self->client, "abc", 3, 0));
	ASSERT_EQ(0, close(self->client));
	EXPECT_EQ(3, recv(self->server, buf, sizeof(buf), MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "abc", 3));
	EXPECT_EQ(0, recv(self->server, buf, sizeof(buf), 0));
	EXPECT_SENT(self, 3);
}

/* CLS-03. */
TEST_F(conn, close_delivers_data_beyond_the_peers_room)
{
	enum { SIZE = 4 << 20 };
	char *out = malloc(SIZE), *in = malloc(SIZE), c;
	ssize_t sent, total = 0;

	fill(out, SIZE, 3);
	while (total < SIZE) {
		sent = send(self->client, out + total, SIZE - total, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0)
			break;
		total += sent;
	}
	ASSERT_LT(0, total);
	/* close() does not wait without SO_LINGER. */
	ASSERT_EQ(0, close(self->client));
	EXPECT_EQ(total, recv_all(self->server, in, SIZE));
	EXPECT_EQ(0, memcmp(in, out, total));
	EXPECT_EQ(0, recv(self->server, &c, 1, 0));
	EXPECT_SENT(self, total);
	free(out);
	free(in);
}

/* CLS-05. */
TEST_F(conn, send_after_the_peers_close_fails)
{
	int error;

	ASSERT_EQ(0, close(self->server));
	error = send_error(self->client);
	EXPECT_TRUE(error == EPIPE || error == ECONNRESET);
	/* Later calls return EPIPE. */
	EXPECT_EQ(EPIPE, last_errno(send(self->client, "x", 1, MSG_NOSIGNAL)));
}

/* CLS-02, ABT-06, TST-141. */
TEST_F(conn, close_with_unread_data_resets)
{
	int events;
	char c;

	ASSERT_EQ(3, send(self->client, "abc", 3, 0));
	ASSERT_EQ(POLLIN, await_events(self->server, POLLIN, 5000));
	ASSERT_EQ(0, close(self->server));
	events = await_events(self->client, POLLIN, 5000);
	EXPECT_EQ(POLLIN | POLLERR | POLLHUP, events);
	EXPECT_EQ(ECONNRESET, last_errno(recv(self->client, &c, 1, 0)));
	/* The error is reported once; then the stream is at its end. */
	EXPECT_EQ(0, recv(self->client, &c, 1, 0));
	EXPECT_EQ(EPIPE, last_errno(send(self->client, "x", 1, MSG_NOSIGNAL)));
}

/* ABT-01, ABT-02, TST-142. */
TEST_F(conn, linger_zero_resets)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 0 };
	int error = 0;
	socklen_t size = sizeof(error);

	ASSERT_EQ(0, setsockopt(self->server, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	ASSERT_EQ(0, close(self->server));
	EXPECT_EQ(POLLERR, await_events(self->client, POLLIN, 5000) & POLLERR);
	ASSERT_EQ(0, getsockopt(self->client, SOL_SOCKET, SO_ERROR, &error, &size));
	EXPECT_EQ(ECONNRESET, error);
	ASSERT_EQ(0, getsockopt(self->client, SOL_SOCKET, SO_ERROR, &error, &size));
	EXPECT_EQ(0, error);
}

/*
 * The poller that sees an error also gets it, and only once. The reset arrives by TCP and by the
 * engine; the poller does not sleep, and so tests every moment between them.
 */
TEST_F(conn, reset_is_reported_once_and_completely)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 0 };
	int i, error, again, client, server, events;
	socklen_t size = sizeof(error);

	for (i = 0; i < 50; i++) {
		client = new_socket(self->kind, CLIENT, 0);
		ASSERT_EQ(0, connect_to(self->kind, client, self->listener));
		server = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, server);
		ASSERT_EQ(0, setsockopt(server, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
		ASSERT_EQ(0, close(server));
		do {
			events = await_events(client, POLLIN, 0);
		} while (!events);
		EXPECT_EQ(POLLIN | POLLERR | POLLHUP, events) {
			TH_LOG("connection %d", i);
		}
		ASSERT_EQ(0, getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &size));
		EXPECT_EQ(ECONNRESET, error) {
			TH_LOG("connection %d", i);
		}
		/* With the end of the stream the second reset has arrived too. */
		EXPECT_EQ(0, recv(client, &again, 1, 0));
		poll(NULL, 0, 2);
		ASSERT_EQ(0, getsockopt(client, SOL_SOCKET, SO_ERROR, &again, &size));
		EXPECT_EQ(0, again) {
			TH_LOG("connection %d", i);
		}
		EXPECT_EQ(EPIPE, last_errno(send(client, "x", 1, MSG_NOSIGNAL)));
		close(client);
	}
}

TEST_F(conn, reset_wakes_a_reader)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 0 };
	pid_t child = fork();
	int status;
	char c;

	if (!child) {
		close(self->client);
		setsockopt(self->server, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		/* After this the parent has the last reference, unless it closed. */
		poll(NULL, 0, 50);
		_exit(0);
	}
	/* The exit of the child is the last close. */
	ASSERT_EQ(0, close(self->server));
	EXPECT_EQ(ECONNRESET, last_errno(recv(self->client, &c, 1, 0)));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_F(conn, reset_wakes_a_writer)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 0 };
	static char chunk[1 << 20];
	pid_t child;
	ssize_t n;

	send_until_full(self->client);
	child = fork();
	if (!child) {
		close(self->client);
		setsockopt(self->server, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		poll(NULL, 0, 50);
		_exit(0);
	}
	ASSERT_EQ(0, close(self->server));
	do {
		n = send(self->client, chunk, sizeof(chunk), MSG_NOSIGNAL);
	} while (n > 0);
	EXPECT_TRUE(errno == ECONNRESET || errno == EPIPE);
	ASSERT_EQ(child, waitpid(child, NULL, 0));
}

TEST_F(conn, linger_waits_for_the_reader)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 10 };
	static char buf[65536];
	long long total = 0, sent = 0;
	pid_t child;
	int status;

	ASSERT_EQ(0, setsockopt(self->client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	for (;;) {
		ssize_t n = send(self->client, buf, sizeof(buf), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0)
			break;
		sent += n;
	}
	child = fork();
	if (!child) {
		ssize_t n;

		close(self->client);
		while ((n = recv(self->server, buf, sizeof(buf), 0)) > 0)
			total += n;
		_exit(n || total != sent);
	}
	close(self->server);
	/* close() returns when the other kernel has all data, long before the limit. */
	total = tick_ms();
	EXPECT_EQ(0, close(self->client));
	EXPECT_GT(9000, tick_ms() - total);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_F(conn, linger_ends_after_its_time)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 1 };
	long long start;

	ASSERT_EQ(0, setsockopt(self->client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	send_until_full(self->client);
	start = tick_ms();
	EXPECT_EQ(0, close(self->client));
	EXPECT_LE(900, tick_ms() - start);
	EXPECT_GT(5000, tick_ms() - start);
}

static void *recv_one(void *arg)
{
	char c;
	long n = recv(*(int *)arg, &c, 1, 0);

	return (void *)(n < 0 ? -errno : n);
}

TEST_F(conn, shutdown_wakes_the_own_reader)
{
	pthread_t thread;
	void *result;

	ASSERT_EQ(0, pthread_create(&thread, NULL, recv_one, &self->client));
	/* The outcome is the same whether the writer sleeps already or not. */
	usleep(20000);
	ASSERT_EQ(0, shutdown(self->client, SHUT_RD));
	ASSERT_EQ(0, pthread_join(thread, &result));
	EXPECT_EQ(0, (long)result);
}

TEST_F(conn, end_of_the_stream_wakes_a_reader)
{
	pthread_t thread;
	void *result;

	ASSERT_EQ(0, pthread_create(&thread, NULL, recv_one, &self->client));
	usleep(20000);
	ASSERT_EQ(0, shutdown(self->server, SHUT_WR));
	ASSERT_EQ(0, pthread_join(thread, &result));
	EXPECT_EQ(0, (long)result);
}

/* AMB-22. */
TEST_F(conn, killed_process_ends_the_stream)
{
	pid_t child = fork();
	char c;

	if (!child) {
		close(self->client);
		pause();
		_exit(0);
	}
	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	ASSERT_EQ(POLLIN, await_events(self->server, POLLIN, 5000));
	close(self->server);
	self->server = -1;
	ASSERT_EQ(0, kill(child, SIGKILL));
	/* The client had not read. */
	EXPECT_EQ(ECONNRESET, last_errno(recv(self->client, &c, 1, 0)));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
}

/* The connections of a side that go by RDMA, with any engine. */
static long long counted_conns(enum side side)
{
	long long sdp = counter(side, "sdp_active_conns");

	return counter(side, "active_conns") + (sdp < 0 ? 0 : sdp);
}

/* A closed connection still exchanges messages with its peer. No event announces its end. */
static long long active_conns(enum side side, long long wanted)
{
	long long end = tick_ms() + 10000;

	while (counted_conns(side) != wanted && tick_ms() < end)
		poll(NULL, 0, 10);
	return counted_conns(side);
}

TEST_F(conn, counters_follow_the_life_of_connections)
{
	int carried = is_carried(self->kind);

	EXPECT_EQ(carried, active_conns(CLIENT, carried));
	EXPECT_EQ(carried, active_conns(SERVER, carried));
	EXPECT_EQ(0, close(self->client));
	EXPECT_EQ(0, close(self->server));
	self->client = -1;
	self->server = -1;
	EXPECT_EQ(0, active_conns(CLIENT, 0));
	EXPECT_EQ(0, active_conns(SERVER, 0));
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
