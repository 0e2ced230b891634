// SPDX-License-Identifier: GPL-2.0
/*
 * Edges: the events of a connection in an edge-triggered epoll set, and their order. The
 * expectations are those of TCP, with which the tests run too.
 */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <time.h>

#include "conn.h"

#define EDGES (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

/* Milliseconds in which a late edge would show. */
#define QUIET 100

static int new_set(void)
{
	return epoll_create1(EPOLL_CLOEXEC);
}

static int add_to(int set, int fd, __u32 events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
}

/* The events of the next report, which must be about `fd` alone; 0 if none comes in time. */
static __u32 next_edge(int set, int fd, int timeout)
{
	struct epoll_event events[4];
	int n = epoll_wait(set, events, 4, timeout);

	if (n == 0)
		return 0;
	return n == 1 && events[0].data.fd == fd ? events[0].events : ~0U;
}

TEST_F(conn, registration_reports_room_once)
{
	int set = new_set();

	ASSERT_EQ(0, add_to(set, self->client, EDGES));
	EXPECT_EQ(EPOLLOUT, next_edge(set, self->client, 5000));
	EXPECT_EQ(0, next_edge(set, self->client, QUIET));
	ASSERT_EQ(0, add_to(set, self->server, EDGES));
	EXPECT_EQ(EPOLLOUT, next_edge(set, self->server, 5000));
	EXPECT_EQ(0, next_edge(set, self->server, QUIET));
	close(set);
}

/* A poll that found room asks neither TCP nor the peer for an edge. */
TEST_F(conn, traffic_of_a_writer_with_room_makes_no_edge)
{
	int set = new_set(), n;
	char buf[100];

	ASSERT_EQ(0, add_to(set, self->client, EDGES));
	EXPECT_EQ(EPOLLOUT, next_edge(set, self->client, 5000));
	for (n = 0; n < 50; n++) {
		ASSERT_EQ(sizeof(buf), send(self->client, buf, sizeof(buf), 0));
		ASSERT_EQ(sizeof(buf), recv(self->server, buf, sizeof(buf), MSG_WAITALL));
	}
	EXPECT_EQ(0, next_edge(set, self->client, QUIET));
	close(set);
}

TEST_F(conn, data_are_one_edge_each_and_report_room)
{
	int set = new_set();
	char buf[16];

	ASSERT_EQ(0, add_to(set, self->server, EDGES));
	EXPECT_EQ(EPOLLOUT, next_edge(set, self->server, 5000));
	ASSERT_EQ(6, send(self->client, "Hello!", 6, 0));
	EXPECT_EQ(EPOLLIN | EPOLLOUT, next_edge(set, self->server, 5000));
	EXPECT_EQ(0, next_edge(set, self->server, QUIET));
	ASSERT_EQ(6, recv(self->server, buf, sizeof(buf), 0));
	EXPECT_EQ(0, next_edge(set, self->server, QUIET));
	ASSERT_EQ(8, send(self->client, "world!!!", 8, 0));
	EXPECT_EQ(EPOLLIN | EPOLLOUT, next_edge(set, self->server, 5000));
	EXPECT_EQ(0, next_edge(set, self->server, QUIET));
	close(set);
}

/* One edge when there is room again, and none for data read after that. */
TEST_F(conn, room_after_a_refusal_is_one_edge)
{
	int set = new_set();
	long long total;

	ASSERT_EQ(0, add_to(set, self->client, EPOLLOUT | EPOLLET));
	EXPECT_EQ(EPOLLOUT, next_edge(set, self->client, 5000));
	total = send_until_refused(self->client);
	EXPECT_EQ(0, next_edge(set, self->client, 0));
	EXPECT_EQ(total, receive_and_drop(self->server, total));
	EXPECT_EQ(EPOLLOUT, next_edge(set, self->client, 5000));
	EXPECT_EQ(0, next_edge(set, self->client, QUIET));
	close(set);
}

/* The writer filled the buffers and was not refused, but a poll found no room. */
TEST_F(conn, room_after_a_poll_without_room_is_one_edge)
{
	int set = new_set();
	long long total = send_until_refused(self->client);

	ASSERT_EQ(0, add_to(set, self->client, EPOLLOUT | EPOLLET));
	EXPECT_EQ(0, next_edge(set, self->client, 0));
	EXPECT_EQ(total, receive_and_drop(self->server, total));
	EXPECT_EQ(EPOLLOUT, next_edge(set, self->client, 5000));
	EXPECT_EQ(0, next_edge(set, self->client, QUIET));
	close(set);
}

TEST_F(conn, end_of_the_peer_is_one_edge)
{
	int set = new_set();

	ASSERT_EQ(0, add_to(set, self->server, EDGES));
	EXPECT_EQ(EPOLLOUT, next_edge(set, self->server, 5000));
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(EPOLLIN | EPOLLOUT | EPOLLRDHUP, next_edge(set, self->server, 5000));
	EXPECT_EQ(0, next_edge(set, self->server, QUIET));
	close(set);
}

/* As CPython's test_epoll.TestEPoll.test_control_and_wait does it. */
TEST_F(kind, control_and_wait)
{
	int listener = new_listener(self->kind, 1, NULL), server, set, client, n;
	struct epoll_event events[4], event = { .events = EPOLLOUT };
	__u32 seen[2] = {};

	client = new_socket(self->kind, CLIENT, SOCK_NONBLOCK);
	ASSERT_EQ(-1, connect_to(self->kind, client, listener));
	ASSERT_EQ(EINPROGRESS, errno);
	server = accept(listener, NULL, NULL);
	ASSERT_LE(0, server);
	set = new_set();
	ASSERT_EQ(0, add_to(set, server, EPOLLIN | EPOLLOUT | EPOLLET));
	ASSERT_EQ(0, add_to(set, client, EPOLLIN | EPOLLOUT | EPOLLET));
	/* The client may have its last step before it. Each end has one edge. */
	for (n = 0; n < 2; n++) {
		ASSERT_EQ(1, epoll_wait(set, events, 1, 5000));
		EXPECT_EQ(EPOLLOUT, events[0].events);
		seen[events[0].data.fd == client]++;
	}
	EXPECT_EQ(1, seen[0]);
	EXPECT_EQ(1, seen[1]);
	EXPECT_EQ(0, epoll_wait(set, events, 4, QUIET));
	ASSERT_EQ(6, send(client, "Hello!", 6, 0));
	ASSERT_EQ(8, send(server, "world!!!", 8, 0));
	for (n = 0; n < 2; n++) {
		ASSERT_EQ(1, epoll_wait(set, events, 1, 5000));
		EXPECT_EQ(EPOLLIN | EPOLLOUT, events[0].events);
		seen[events[0].data.fd == client]++;
	}
	EXPECT_EQ(2, seen[0]);
	EXPECT_EQ(2, seen[1]);
	ASSERT_EQ(0, epoll_ctl(set, EPOLL_CTL_DEL, client, NULL));
	event.data.fd = server;
	ASSERT_EQ(0, epoll_ctl(set, EPOLL_CTL_MOD, server, &event));
	EXPECT_EQ(EPOLLOUT, next_edge(set, server, 0));
	close(set);
	close(client);
	close(server);
	close(listener);
}

/* The end of connect() is one edge for a socket registered before it. */
TEST_F(kind, connect_is_one_edge)
{
	int listener = new_listener(self->kind, 1, NULL), server, set = new_set(), client, n;

	for (n = 0; n < 20; n++) {
		client = new_socket(self->kind, CLIENT, SOCK_NONBLOCK);
		ASSERT_EQ(-1, connect_to(self->kind, client, listener));
		ASSERT_EQ(EINPROGRESS, errno);
		ASSERT_EQ(0, add_to(set, client, EDGES));
		EXPECT_EQ(EPOLLOUT, next_edge(set, client, 5000));
		server = accept(listener, NULL, NULL);
		ASSERT_LE(0, server);
		EXPECT_EQ(0, next_edge(set, client, 20));
		close(client);
		close(server);
	}
	close(set);
	close(listener);
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
	signals++;
}

/* SIGIO for room comes only to a writer that found none. */
TEST_F(conn, sigio_for_room_only_after_a_refusal)
{
	struct sigaction action = { .sa_handler = count_signal, .sa_flags = SA_RESTART };
	int flags = fcntl(self->client, F_GETFL), n;
	long long total;
	char buf[100];

	sigaction(SIGIO, &action, NULL);
	signals = 0;
	ASSERT_EQ(0, fcntl(self->client, F_SETOWN, getpid()));
	ASSERT_EQ(0, fcntl(self->client, F_SETFL, flags | O_ASYNC));
	for (n = 0; n < 20; n++) {
		ASSERT_EQ(sizeof(buf), send(self->client, buf, sizeof(buf), 0));
		ASSERT_EQ(sizeof(buf), recv(self->server, buf, sizeof(buf), MSG_WAITALL));
	}
	usleep(QUIET * 1000);
	EXPECT_EQ(0, signals);
	total = send_until_refused(self->client);
	signals = 0;
	EXPECT_EQ(total, receive_and_drop(self->server, total));
	/* The signal arrives while this process sleeps, or has arrived before. */
	for (n = 0; n < 100 && !signals; n++)
		usleep(50 * 1000);
	EXPECT_LT(0, signals);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
