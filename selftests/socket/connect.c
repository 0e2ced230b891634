// SPDX-License-Identifier: GPL-2.0
/* connect() and accept(): blocking, non-blocking, with a time limit, interrupted, and refused. */

#define RS_WITH_SDP
#define RS_WITH_DUAL

#include <kselftest_harness.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "conn.h"

static int socket_error(int fd)
{
	int value = -1;
	socklen_t size = sizeof(value);

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &size);
	return value;
}

static void nothing(int number)
{
}

static void interrupt_soon(void)
{
	struct sigaction action = { .sa_handler = nothing };
	struct itimerval timer = { { 0, 20000 }, { 0, 20000 } };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/*
 * Drops what connections of a kind begin with, so that connect() has to wait: SYNs to the server,
 * or with SDP the packets of RoCE, in which the request is.
 */
static int drop_setups_for_a_while(const struct kind *kind, bool on, bool ends)
{
	const char *what = "tcp flags & (syn | ack) == syn";
	char command[512];

	if (!on)
		return system("ip netns exec rs-b nft delete table inet rs");
	/*
	 * A client of SDP repeats its request each 0.4 seconds and gives up after 2. So the rule
	 * may have to end before, wherever this program stands still meanwhile.
	 */
	if (carrier_of(kind) == SDP)
		what = ends ? "udp dport @roce" : "udp dport 4791";
	snprintf(command, sizeof(command),
		 "ip netns exec rs-b nft -f - <<-END\n"
		 "table inet rs {\n"
		 "	set roce {\n"
		 "		type inet_service\n"
		 "		flags timeout\n"
		 "		elements = { 4791 timeout 1s500ms }\n"
		 "	}\n"
		 "	chain input {\n"
		 "		type filter hook input priority -300\n"
		 "		%s drop\n"
		 "	}\n"
		 "}\n"
		 "END\n", what);
	return system(command);
}

static int drop_setups(const struct kind *kind, bool on)
{
	return drop_setups_for_a_while(kind, on, false);
}

TEST_F(kind, non_blocking)
{
	int listener = new_listener(self->kind, 1, NULL);
	int fd = new_socket(self->kind, CLIENT, SOCK_NONBLOCK), server, error;

	ASSERT_LE(0, fd);
	error = last_errno(connect_to(self->kind, fd, listener));
	ASSERT_EQ(EINPROGRESS, error);
	/* A second call during the handshake reports that; the handshake may have ended. */
	error = last_errno(connect_to(self->kind, fd, listener));
	EXPECT_TRUE(error == EALREADY || error == 0);
	EXPECT_EQ(POLLOUT, await_events(fd, POLLOUT, 5000));
	EXPECT_EQ(0, socket_error(fd));
	/* The first call after the handshake reports success, unless the second call above did. */
	EXPECT_EQ(0, error ? last_errno(connect_to(self->kind, fd, listener)) : 0);
	EXPECT_EQ(EISCONN, last_errno(connect_to(self->kind, fd, listener)));
	server = accept(listener, NULL, NULL);
	ASSERT_LE(0, server);
	EXPECT_PATH(self->kind, fd, server);
	/* The socket is still non-blocking; the accepted socket is not. */
	EXPECT_EQ(O_NONBLOCK, fcntl(fd, F_GETFL) & O_NONBLOCK);
	EXPECT_EQ(0, fcntl(server, F_GETFL) & O_NONBLOCK);
	close(fd);
	close(server);
	close(listener);
}

TEST_F(kind, second_connect)
{
	int listener = new_listener(self->kind, 1, NULL);
	int fd = new_socket(self->kind, CLIENT, 0);

	ASSERT_EQ(0, connect_to(self->kind, fd, listener));
	EXPECT_EQ(EISCONN, last_errno(connect_to(self->kind, fd, listener)));
	close(fd);
	close(listener);
}

TEST_F(kind, refused)
{
	int fd, listener = new_listener(self->kind, 1, NULL);
	union address address = address_of(self->kind, SERVER, local_port(listener));

	close(listener);
	fd = new_socket(self->kind, CLIENT, 0);
	EXPECT_EQ(ECONNREFUSED, last_errno(connect(fd, &address.sa, address_size(self->kind))));
	EXPECT_EQ(0, socket_error(fd));
	/* The same socket can try again. */
	EXPECT_EQ(ECONNREFUSED, last_errno(connect(fd, &address.sa, address_size(self->kind))));
	close(fd);
}

TEST_F(kind, refused_while_not_blocking)
{
	int fd, events, round, listener = new_listener(self->kind, 1, NULL);
	union address address = address_of(self->kind, SERVER, local_port(listener));

	close(listener);
	/*
	 * First a poller that sleeps. Then those that poll also while TCP handles the reset, which
	 * sets the error before the rest.
	 */
	for (round = 0; round < 300; round++) {
		fd = new_socket(self->kind, CLIENT, SOCK_NONBLOCK);
		ASSERT_EQ(EINPROGRESS,
			  last_errno(connect(fd, &address.sa, address_size(self->kind))));
		do {
			events = await_events(fd, POLLOUT | POLLIN | POLLRDHUP, round ? 0 : 5000);
		} while (!events && round);
		ASSERT_EQ(POLLERR | POLLHUP | POLLRDHUP | POLLIN | POLLOUT, events) {
			TH_LOG("round %d", round);
		}
		EXPECT_EQ(ECONNREFUSED, socket_error(fd));
		EXPECT_EQ(0, socket_error(fd));
		close(fd);
	}
}

/* Accepts a connection, which has the expected path, and closes it. */
static void expect_accepted(struct __test_metadata *_metadata, const struct kind *kind, int fd,
			    int listener)
{
	int server = accept(listener, NULL, NULL);

	ASSERT_LE(0, server);
	EXPECT_PATH(kind, fd, server);
	close(fd);
	close(server);
}

static void spin(long microseconds)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000 <
		 microseconds);
}

/* What is left of an attempt that TCP refused does not end the next one. */
TEST_F(kind, refusals_before_a_success)
{
	int listener = new_listener(self->kind, 1, NULL), other = new_listener(self->kind, 1, NULL);
	union address closed = address_of(self->kind, SERVER, local_port(other));
	int fd, round;

	close(other);
	for (round = 0; round < 200 && !_metadata->exit_code; round++) {
		fd = new_socket(self->kind, CLIENT, 0);
		ASSERT_EQ(ECONNREFUSED,
			  last_errno(connect(fd, &closed.sa, address_size(self->kind))));
		/* Between the call that failed and its work item. */
		spin(round);
		ASSERT_EQ(0, last_errno(connect_to(self->kind, fd, listener)));
		expect_accepted(_metadata, self->kind, fd, listener);
	}
	close(listener);
}

TEST_F(kind, retry_after_refusal)
{
	int listener = new_listener(self->kind, 1, NULL);
	union address address = address_of(self->kind, SERVER, local_port(listener));
	int fd = new_socket(self->kind, CLIENT, 0), server;
	char c;

	close(listener);
	ASSERT_EQ(ECONNREFUSED, last_errno(connect(fd, &address.sa, address_size(self->kind))));
	listener = new_socket(self->kind, SERVER, 0);
	ASSERT_EQ(0, bind(listener, &address.sa, address_size(self->kind)));
	ASSERT_EQ(0, listen(listener, 1));
	ASSERT_EQ(0, connect(fd, &address.sa, address_size(self->kind)));
	server = accept(listener, NULL, NULL);
	ASSERT_LE(0, server);
	EXPECT_PATH(self->kind, fd, server);
	EXPECT_EQ(1, send(server, "x", 1, 0));
	EXPECT_EQ(1, recv(fd, &c, 1, 0));
	close(fd);
	close(server);
	close(listener);
}

TEST_F(kind, no_route)
{
	int fd = new_socket(self->kind, CLIENT, 0);
	union address address = address_of(self->kind, SERVER, 1);

	/* Documentation prefixes, to which there is no route. */
	if (self->kind->ip == AF_INET)
		inet_pton(AF_INET, "192.0.2.1", &address.in.sin_addr);
	else
		inet_pton(AF_INET6, "2001:db8::1", &address.in6.sin6_addr);
	EXPECT_EQ(ENETUNREACH, last_errno(connect(fd, &address.sa, address_size(self->kind))));
	close(fd);
}

TEST_F(kind, bad_addresses_for_connect)
{
	int fd = new_socket(self->kind, CLIENT, 0);
	union address address = address_of(self->kind, SERVER, 1);
	socklen_t size = address_size(self->kind);

	EXPECT_EQ(EINVAL, last_errno(connect(fd, &address.sa, 2)));
	EXPECT_EQ(EFAULT, last_errno(connect(fd, (void *)8, size)));
	address.sa.sa_family = AF_UNIX;
	EXPECT_EQ(EAFNOSUPPORT, last_errno(connect(fd, &address.sa, size)));
	close(fd);
}

TEST_F(kind, time_limit_and_signal)
{
	struct timeval limit = { .tv_usec = 50000 };
	int listener = new_listener(self->kind, 1, NULL);
	int fd = new_socket(self->kind, CLIENT, 0);

	ASSERT_EQ(0, drop_setups(self->kind, true));
	ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)));
	EXPECT_EQ(EINPROGRESS, last_errno(connect_to(self->kind, fd, listener)));
	limit.tv_usec = 0;
	ASSERT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)));
	interrupt_soon();
	/* Waits for the same connection, until the signal. */
	EXPECT_EQ(EINTR, last_errno(connect_to(self->kind, fd, listener)));
	ASSERT_EQ(0, fcntl(fd, F_SETFL, O_NONBLOCK));
	EXPECT_EQ(EALREADY, last_errno(connect_to(self->kind, fd, listener)));
	EXPECT_EQ(0, await_events(fd, POLLIN | POLLOUT, 0));
	/* close() does not wait for the handshake. */
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(0, drop_setups(self->kind, false));
	close(listener);
}

TEST_F(kind, connect_goes_on_after_a_signal)
{
	int listener = new_listener(self->kind, 1, NULL);
	int fd = new_socket(self->kind, CLIENT, 0);
	struct itimerval off = {};

	ASSERT_EQ(0, drop_setups_for_a_while(self->kind, true, true));
	interrupt_soon();
	EXPECT_EQ(EINTR, last_errno(connect_to(self->kind, fd, listener)));
	setitimer(ITIMER_REAL, &off, NULL);
	EXPECT_EQ(0, drop_setups(self->kind, false));
	/* The next SYN, after a second, or request passes. */
	EXPECT_EQ(0, last_errno(connect_to(self->kind, fd, listener)));
	expect_accepted(_metadata, self->kind, fd, listener);
	close(listener);
}

TEST_F(kind, unspecified_address_takes_the_connection_attempt_back)
{
	int listener = new_listener(self->kind, 1, NULL);
	int fd = new_socket(self->kind, CLIENT, SOCK_NONBLOCK);
	struct sockaddr nowhere = { .sa_family = AF_UNSPEC };

	ASSERT_EQ(0, drop_setups(self->kind, true));
	ASSERT_EQ(EINPROGRESS, last_errno(connect_to(self->kind, fd, listener)));
	EXPECT_EQ(0, last_errno(connect(fd, &nowhere, sizeof(nowhere))));
	ASSERT_EQ(0, drop_setups(self->kind, false));
	ASSERT_EQ(0, fcntl(fd, F_SETFL, 0));
	EXPECT_EQ(0, last_errno(connect_to(self->kind, fd, listener)));
	expect_accepted(_metadata, self->kind, fd, listener);
	close(listener);
}

TEST_F(kind, shutdown_of_the_listener_ends_it)
{
	int listener = new_listener(self->kind, 1, NULL);
	int fd = new_socket(self->kind, CLIENT, 0);
	union address address = address_of(self->kind, SERVER, local_port(listener));

	ASSERT_EQ(0, shutdown(listener, SHUT_RDWR));
	EXPECT_EQ(EINVAL, last_errno(accept(listener, NULL, NULL)));
	EXPECT_EQ(ECONNREFUSED, last_errno(connect(fd, &address.sa, address_size(self->kind))));
	close(fd);
	close(listener);
}

static void *accept_one(void *arg)
{
	long result = accept(*(int *)arg, NULL, NULL);

	return (void *)(result < 0 ? -errno : result);
}

TEST_F(kind, shutdown_wakes_accept)
{
	int listener = new_listener(self->kind, 1, NULL);
	pthread_t thread;
	void *result;

	ASSERT_EQ(0, pthread_create(&thread, NULL, accept_one, &listener));
	/* The outcome is the same whether accept() sleeps already or not. */
	usleep(20000);
	ASSERT_EQ(0, shutdown(listener, SHUT_RD));
	ASSERT_EQ(0, pthread_join(thread, &result));
	EXPECT_EQ(-EINVAL, (long)result);
	close(listener);
}

TEST_F(kind, accept_without_a_client)
{
	struct timeval limit = { .tv_usec = 50000 };
	int listener = new_listener(self->kind, 1, NULL);

	ASSERT_EQ(0, setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	EXPECT_EQ(EAGAIN, last_errno(accept(listener, NULL, NULL)));
	limit.tv_usec = 0;
	ASSERT_EQ(0, setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	interrupt_soon();
	EXPECT_EQ(EINTR, last_errno(accept(listener, NULL, NULL)));
	ASSERT_EQ(0, fcntl(listener, F_SETFL, O_NONBLOCK));
	EXPECT_EQ(EAGAIN, last_errno(accept(listener, NULL, NULL)));
	close(listener);
}

TEST_F(kind, accept_gives_names_and_flags)
{
	int listener = new_listener(self->kind, 4, NULL), client, server;
	union address address, own;
	socklen_t size = sizeof(address);

	client = new_socket(self->kind, CLIENT, 0);
	ASSERT_EQ(0, connect_to(self->kind, client, listener));
	memset(&address, 0, sizeof(address));
	server = accept4(listener, &address.sa, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
	ASSERT_LE(0, server);
	EXPECT_EQ(address_size(self->kind), size);
	EXPECT_EQ(local_port(client), port_of(&address));
	own = address_of(self->kind, CLIENT, port_of(&address));
	EXPECT_TRUE(same_host(&own, &address));
	EXPECT_EQ(O_NONBLOCK, fcntl(server, F_GETFL) & O_NONBLOCK);
	EXPECT_EQ(FD_CLOEXEC, fcntl(server, F_GETFD));
	EXPECT_EQ(EINVAL, last_errno(accept4(listener, NULL, NULL, 0x4)));
	close(server);
	close(client);
	close(listener);
}

TEST_F(kind, listener_is_readable_with_a_client_waiting)
{
	int listener = new_listener(self->kind, 4, NULL), client, server;

	EXPECT_EQ(0, await_events(listener, POLLIN, 0));
	client = new_socket(self->kind, CLIENT, 0);
	ASSERT_EQ(0, connect_to(self->kind, client, listener));
	EXPECT_EQ(POLLIN, await_events(listener, POLLIN, 5000));
	server = accept(listener, NULL, NULL);
	ASSERT_LE(0, server);
	EXPECT_EQ(0, await_events(listener, POLLIN, 0));
	close(server);
	close(client);
	close(listener);
}

/* TCP-19, RDV-28. */
TEST_F(kind, data_and_end_before_accept)
{
	int listener = new_listener(self->kind, 4, NULL), client, server;
	char buf[16];

	client = new_socket(self->kind, CLIENT, 0);
	ASSERT_EQ(0, connect_to(self->kind, client, listener));
	ASSERT_EQ(5, send(client, "early", 5, 0));
	ASSERT_EQ(0, close(client));
	server = accept(listener, NULL, NULL);
	ASSERT_LE(0, server);
	EXPECT_EQ(5, recv(server, buf, sizeof(buf), MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "early", 5));
	EXPECT_EQ(0, recv(server, buf, sizeof(buf), 0));
	close(server);
	close(listener);
}

TEST_F(kind, closing_the_listener_resets_waiting_connections)
{
	int listener = new_listener(self->kind, 4, NULL), client, events;
	char c;

	client = new_socket(self->kind, CLIENT, 0);
	ASSERT_EQ(0, connect_to(self->kind, client, listener));
	ASSERT_EQ(0, close(listener));
	events = await_events(client, POLLIN | POLLRDHUP, 5000);
	EXPECT_EQ(POLLIN | POLLRDHUP, events & (POLLIN | POLLRDHUP));
	EXPECT_EQ(ECONNRESET, last_errno(recv(client, &c, 1, 0)));
	close(client);
}

TEST_F(kind, listener_outlives_what_it_accepted_and_the_other_way_round)
{
	int listener = new_listener(self->kind, 4, NULL), clients[3], servers[3], n;
	char c;

	for (n = 0; n < 3; n++) {
		clients[n] = new_socket(self->kind, CLIENT, 0);
		ASSERT_EQ(0, connect_to(self->kind, clients[n], listener));
		servers[n] = accept(listener, NULL, NULL);
		ASSERT_LE(0, servers[n]);
	}
	close(servers[0]);
	EXPECT_EQ(0, recv(clients[0], &c, 1, 0));
	close(listener);
	for (n = 1; n < 3; n++) {
		EXPECT_EQ(1, send(servers[n], "x", 1, 0));
		EXPECT_EQ(1, recv(clients[n], &c, 1, 0));
		EXPECT_PATH(self->kind, clients[n], servers[n]);
		close(servers[n]);
	}
	for (n = 0; n < 3; n++)
		close(clients[n]);
}

TEST_F(kind, closing_while_connecting)
{
	int n, error, listener = new_listener(self->kind, 64, NULL);

	for (n = 0; n < 20; n++) {
		int fd = new_socket(self->kind, CLIENT, SOCK_NONBLOCK);

		ASSERT_LE(0, fd);
		error = last_errno(connect_to(self->kind, fd, listener));
		ASSERT_EQ(EINPROGRESS, error);
		/* At different points of the handshake. */
		usleep(n * 500);
		ASSERT_EQ(0, close(fd));
	}
	/* The listener still works. It may return the abandoned connections first. */
	error = new_socket(self->kind, CLIENT, 0);
	ASSERT_EQ(0, connect_to(self->kind, error, listener));
	for (n = 0; n < 21; n++) {
		int fd = accept(listener, NULL, NULL);
		union address address;
		socklen_t size = sizeof(address);

		ASSERT_LE(0, fd);
		if (!getpeername(fd, &address.sa, &size) &&
		    port_of(&address) == local_port(error)) {
			EXPECT_PATH(self->kind, error, fd);
			close(fd);
			break;
		}
		close(fd);
	}
	EXPECT_GT(21, n);
	close(error);
	close(listener);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
