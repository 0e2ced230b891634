// SPDX-License-Identifier: GPL-2.0
/*
 * poll(), select() and epoll, level and edge triggered, on connections. The tests wait for the
 * event where the time differs from TCP.
 */

#define RS_WITH_SDP
#define RS_WITH_DUAL

#include <kselftest_harness.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "conn.h"

#define ALL (POLLIN | POLLOUT | POLLRDHUP | POLLPRI)

TEST_F(conn, idle_is_writable_only)
{
	EXPECT_EQ(POLLOUT, await_events(self->client, ALL, 5000));
	EXPECT_EQ(POLLOUT, await_events(self->server, ALL, 5000));
	EXPECT_EQ(0, await_events(self->server, POLLIN, 0));
}

TEST_F(conn, data_make_readable)
{
	char c;

	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	EXPECT_EQ(POLLIN, await_events(self->server, POLLIN, 5000));
	EXPECT_EQ(POLLIN | POLLOUT, await_events(self->server, ALL, 0));
	ASSERT_EQ(1, recv(self->server, &c, 1, 0));
	EXPECT_EQ(0, await_events(self->server, POLLIN, 0));
}

TEST_F(conn, poll_is_woken)
{
	pid_t child = fork();
	char c;

	if (!child) {
		poll(NULL, 0, 50);
		_exit(send(self->client, "x", 1, 0) != 1);
	}
	EXPECT_EQ(POLLIN, await_events(self->server, POLLIN, 10000));
	EXPECT_EQ(1, recv(self->server, &c, 1, MSG_DONTWAIT));
}

TEST_F(conn, full_is_not_writable_until_read)
{
	long long total = send_until_full(self->client);

	ASSERT_LT(0, total);
	EXPECT_EQ(0, await_events(self->client, POLLOUT, 0));
	EXPECT_EQ(total, receive_and_drop(self->server, total));
	EXPECT_EQ(POLLOUT, await_events(self->client, POLLOUT, 5000));
}

TEST_F(conn, poll_for_room_is_woken)
{
	long long total = send_until_full(self->client);
	pid_t child = fork();
	int status;

	if (!child) {
		poll(NULL, 0, 50);
		_exit(receive_and_drop(self->server, total) != total);
	}
	EXPECT_EQ(POLLOUT, await_events(self->client, POLLOUT, 10000));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_F(conn, half_closed_by_the_peer)
{
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(POLLIN, await_events(self->server, POLLIN, 5000));
	EXPECT_EQ(POLLIN | POLLRDHUP | POLLOUT, await_events(self->server, ALL, 0));
	EXPECT_EQ(POLLOUT, await_events(self->client, ALL, 0));
}

TEST_F(conn, half_closed_by_itself)
{
	ASSERT_EQ(0, shutdown(self->client, SHUT_RD));
	EXPECT_EQ(POLLIN | POLLRDHUP | POLLOUT, await_events(self->client, ALL, 0));
	EXPECT_EQ(POLLOUT, await_events(self->server, ALL, 0));
}

TEST_F(conn, closed_in_both_directions)
{
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	ASSERT_EQ(POLLIN, await_events(self->server, POLLIN, 5000));
	ASSERT_EQ(0, shutdown(self->server, SHUT_WR));
	EXPECT_EQ(POLLHUP | ALL, (await_events(self->server, ALL, 0) | POLLPRI));
	EXPECT_EQ(POLLIN, await_events(self->client, POLLIN, 5000) & POLLIN);
	EXPECT_EQ(POLLHUP | ALL, (await_events(self->client, ALL, 0) | POLLPRI));
}

TEST_F(conn, select_sees_the_same)
{
	struct timeval limit = { .tv_sec = 5 };
	fd_set in, out;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(self->server, &in);
	FD_SET(self->server, &out);
	ASSERT_EQ(1, select(self->server + 1, &in, &out, NULL, &limit));
	EXPECT_FALSE(FD_ISSET(self->server, &in));
	EXPECT_TRUE(FD_ISSET(self->server, &out));
	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	FD_ZERO(&in);
	FD_SET(self->server, &in);
	ASSERT_EQ(1, select(self->server + 1, &in, NULL, NULL, &limit));
	EXPECT_TRUE(FD_ISSET(self->server, &in));
}

static int new_epoll(int fd, __u32 events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		return -1;
	return epoll;
}

/* The events of a single descriptor; 0 after the time limit. */
static __u32 epoll_events(int epoll, int timeout)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, timeout) == 1 ? event.events : 0;
}

TEST_F(conn, epoll_level)
{
	int epoll = new_epoll(self->server, EPOLLIN);
	char c;

	ASSERT_LE(0, epoll);
	EXPECT_EQ(0, epoll_events(epoll, 0));
	ASSERT_EQ(2, send(self->client, "xy", 2, 0));
	EXPECT_EQ(EPOLLIN, epoll_events(epoll, 5000));
	ASSERT_EQ(1, recv(self->server, &c, 1, 0));
	EXPECT_EQ(EPOLLIN, epoll_events(epoll, 5000));
	ASSERT_EQ(1, recv(self->server, &c, 1, 0));
	EXPECT_EQ(0, epoll_events(epoll, 0));
	close(epoll);
}

TEST_F(conn, epoll_edge_of_data)
{
	int epoll = new_epoll(self->server, EPOLLIN | EPOLLET);
	char c;

	ASSERT_LE(0, epoll);
	EXPECT_EQ(0, epoll_events(epoll, 0));
	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	EXPECT_EQ(EPOLLIN, epoll_events(epoll, 5000));
	EXPECT_EQ(0, epoll_events(epoll, 100));
	/* New data are a new edge, although the old data are unread. */
	ASSERT_EQ(1, send(self->client, "y", 1, 0));
	EXPECT_EQ(EPOLLIN, epoll_events(epoll, 5000));
	ASSERT_EQ(1, recv(self->server, &c, 1, 0));
	EXPECT_EQ(0, epoll_events(epoll, 0));
	ASSERT_EQ(1, recv(self->server, &c, 1, 0));
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(EPOLLIN, epoll_events(epoll, 5000));
	close(epoll);
}

TEST_F(conn, epoll_edge_of_room)
{
	long long total = send_until_full(self->client);
	int epoll = new_epoll(self->client, EPOLLOUT | EPOLLET);

	ASSERT_LE(0, epoll);
	EXPECT_EQ(0, epoll_events(epoll, 0));
	/* Only a refused writer gets an edge; a little room does not count as writable. */
	while (send(self->client, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
		total++;
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(total, receive_and_drop(self->server, total));
	EXPECT_EQ(EPOLLOUT, epoll_events(epoll, 5000));
	EXPECT_EQ(1, send(self->client, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
	close(epoll);
}

/* The loop of every event-driven server: read to EAGAIN, then wait for the next edge. */
TEST_F(conn, epoll_edge_loses_nothing)
{
	enum { SIZE = 2 << 20 };
	int epoll = new_epoll(self->server, EPOLLIN | EPOLLRDHUP | EPOLLET);
	char *out = malloc(SIZE), *in = malloc(SIZE);
	size_t got = 0;
	bool end = false;
	pid_t child;

	fill(out, SIZE, 11);
	child = fork();
	if (!child) {
		struct bytes sizes = bytes_of(5);
		size_t sent = 0;

		while (sent < SIZE) {
			size_t part = next_random(&sizes) % 30000 + 1;

			if (part > SIZE - sent)
				part = SIZE - sent;
			if (send_all(self->client, out + sent, part))
				_exit(1);
			sent += part;
		}
		shutdown(self->client, SHUT_WR);
		_exit(0);
	}
	while (!end) {
		ASSERT_NE(0, epoll_events(epoll, 10000)) {
			TH_LOG("no edge after %zu bytes", got);
		}
		for (;;) {
			ssize_t n = recv(self->server, in + got, SIZE - got + 1, MSG_DONTWAIT);

			if (n < 0) {
				ASSERT_EQ(EAGAIN, errno);
				break;
			}
			if (!n) {
				end = true;
				break;
			}
			got += n;
		}
	}
	EXPECT_EQ(SIZE, got);
	EXPECT_EQ(0, memcmp(in, out, SIZE));
	EXPECT_SENT(self, SIZE);
	waitpid(child, NULL, 0);
	close(epoll);
	free(out);
	free(in);
}

/* The loop of a writer: write to EAGAIN, then wait for the next edge. */
TEST_F(conn, epoll_edge_of_a_writer_loses_nothing)
{
	enum { SIZE = 2 << 20 };
	int epoll = new_epoll(self->client, EPOLLOUT | EPOLLET), status;
	char *out = malloc(SIZE), *in;
	size_t sent = 0;
	pid_t child;

	fill(out, SIZE, 12);
	child = fork();
	if (!child) {
		close(self->client);
		in = malloc(SIZE);
		if (recv_all(self->server, in, SIZE) != SIZE)
			_exit(1);
		_exit(memcmp(in, out, SIZE) != 0);
	}
	while (sent < SIZE) {
		ASSERT_NE(0, epoll_events(epoll, 10000)) {
			TH_LOG("no edge after %zu bytes", sent);
		}
		while (sent < SIZE) {
			ssize_t n = send(self->client, out + sent, SIZE - sent,
					 MSG_DONTWAIT | MSG_NOSIGNAL);

			if (n < 0) {
				ASSERT_EQ(EAGAIN, errno);
				break;
			}
			sent += n;
		}
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_SENT(self, SIZE);
	close(epoll);
	free(out);
}

TEST_F(conn, epoll_oneshot)
{
	int epoll = new_epoll(self->server, EPOLLIN | EPOLLONESHOT);
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };

	ASSERT_LE(0, epoll);
	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	EXPECT_EQ(EPOLLIN, epoll_events(epoll, 5000));
	EXPECT_EQ(0, epoll_events(epoll, 0));
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_MOD, self->server, &event));
	EXPECT_EQ(EPOLLIN, epoll_events(epoll, 5000));
	close(epoll);
}

/* A socket registered before connect(), as event-driven clients do it. */
TEST_F(kind, epoll_through_connect)
{
	int listener = new_listener(self->kind, 4, NULL), server;
	int client = new_socket(self->kind, CLIENT, SOCK_NONBLOCK);
	int accepts = new_epoll(listener, EPOLLIN | EPOLLET);
	int epoll = new_epoll(client, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
	int error = -1;
	socklen_t size = sizeof(error);
	__u32 events;

	ASSERT_LE(0, epoll);
	/* A socket without a connection is hung up. */
	EXPECT_EQ(EPOLLOUT | EPOLLHUP, epoll_events(epoll, 0));
	if (connect_to(self->kind, client, listener))
		ASSERT_EQ(EINPROGRESS, errno);
	EXPECT_EQ(EPOLLIN, epoll_events(accepts, 5000));
	server = accept(listener, NULL, NULL);
	ASSERT_LE(0, server);
	do {
		events = epoll_events(epoll, 5000);
		ASSERT_NE(0, events);
	} while (!(events & EPOLLOUT));
	ASSERT_EQ(0, getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &size));
	EXPECT_EQ(0, error);
	EXPECT_PATH(self->kind, client, server);
	ASSERT_EQ(1, send(server, "x", 1, 0));
	do {
		events = epoll_events(epoll, 5000);
		ASSERT_NE(0, events);
	} while (!(events & EPOLLIN));
	ASSERT_EQ(0, close(server));
	do {
		events = epoll_events(epoll, 5000);
		ASSERT_NE(0, events);
	} while (!(events & EPOLLRDHUP));
	close(epoll);
	close(accepts);
	close(client);
	close(listener);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
