/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixtures with one variant per kind of connection: `kind` is the kind alone, `conn` a connection
 * whose engine was checked. Programs include kselftest_harness.h before this file. Their main()
 * calls run_in_namespaces() in place of TEST_HARNESS_MAIN.
 */

#ifndef RS_CONN_H
#define RS_CONN_H

#include <time.h>

#include "bytes.h"
#include "kind.h"
#include "path.h"
#include "variants.h"

/* Seconds that suffice on kernels with every checker; only a test that hangs reaches them. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 120

FIXTURE(kind) {
	const struct kind *kind;
};

RS_VARIANTS(kind);

FIXTURE_SETUP(kind)
{
	self->kind = &variant->kind;
}

FIXTURE_TEARDOWN(kind)
{
}

FIXTURE(conn) {
	const struct kind *kind;
	int listener;
	int client;
	int server;
	long long rdma_before;
};

RS_VARIANTS(conn);

/* Set by programs that need options before the connection is made. */
static void (*prepare_listener)(int fd);
static void (*prepare_client)(int fd);

/*
 * Milliseconds of the clock that the tick advances. Limits of sockets are counted in ticks too: one
 * that began before a late tick ends early by every other clock.
 */
static inline long long tick_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/*
 * Starts a process that receives `size` bytes, compares them and awaits the end of the stream. It
 * closes the other end, and exits with 0 if all bytes are right.
 */
static inline pid_t compare_in_child(int fd, int not_fd, const void *data, size_t size)
{
	pid_t child = fork();
	char *in, c;

	if (child)
		return child;
	close(not_fd);
	in = malloc(size);
	if (recv_all(fd, in, size) != (ssize_t)size)
		_exit(1);
	if (memcmp(in, data, size))
		_exit(2);
	_exit(recv(fd, &c, 1, 0) ? 3 : 0);
}

/* The engine `carrier` carries the data of a socket. */
#define EXPECT_CARRIER(side, fd, carrier)					\
	EXPECT_EQ(carrier, engine_of_mode(mode_of_fd(side, fd))) {		\
		TH_LOG("side %d: %s", side, conn_line);				\
	}

/* The engine of the kind carries a connection, given by its two sockets. */
#define EXPECT_PATH(kind, client, server) do {					\
	EXPECT_CARRIER(CLIENT, client, carrier_of(kind));			\
	EXPECT_CARRIER(SERVER, server, carrier_of(kind));			\
} while (0)

/* Data go by RDMA exactly if the kind demands it, and each byte is sent once. */
#define EXPECT_SENT(self, size)							\
	EXPECT_EQ(is_carried((self)->kind) ? (long long)(size) : 0,		\
		  rdma_bytes() - (self)->rdma_before)

FIXTURE_SETUP(conn)
{
	const struct kind *kind = &variant->kind;

	self->kind = kind;
	self->rdma_before = rdma_bytes_at_rest();
	ASSERT_LE(0, self->rdma_before);
	self->listener = new_listener(kind, 16, prepare_listener);
	ASSERT_LE(0, self->listener);
	self->client = new_socket(kind, CLIENT, 0);
	ASSERT_LE(0, self->client);
	if (prepare_client)
		prepare_client(self->client);
	ASSERT_EQ(0, connect_to(kind, self->client, self->listener)) {
		TH_LOG("connect: %m");
	}
	self->server = accept(self->listener, NULL, NULL);
	ASSERT_LE(0, self->server);
	EXPECT_PATH(kind, self->client, self->server);
}

FIXTURE_TEARDOWN(conn)
{
	close(self->client);
	close(self->server);
	close(self->listener);
}

static void remove_namespaces(void)
{
	if (system("./netns.sh down"))
		fprintf(stderr, "# netns.sh down failed\n");
}

/*
 * Why this program cannot run here, or NULL. Without the module every connection would fall back,
 * and the tests of fallback would prove nothing.
 */
static inline const char *absence_of_module(void)
{
	int fd;

	if (geteuid())
		return "needs root";
	if (!smc_wanted())
		return NULL;
	fd = socket(AF_SMC, SOCK_STREAM, 0);
	if (fd < 0)
		return "there is no module rdma_sock here";
	close(fd);
	return NULL;
}

/* Runs the tests in the namespaces of netns.sh, which it makes and removes; the status for exit. */
static int run_in_namespaces(int argc, char **argv)
{
	const char *reason = absence_of_module();

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (reason) {
		ksft_print_header();
		ksft_exit_skip("%s\n", reason);
	}
	if (system("./netns.sh up")) {
		ksft_print_header();
		ksft_exit_fail_msg("no network namespaces\n");
	}
	/*
	 * These programs are not about the question whether a host has SDP. If its answer took more
	 * than 150 ms, the host would have none for 30 seconds.
	 */
	if (system("for n in rs-a rs-b; do ip netns exec $n sh -c '"
		   "[ ! -e /proc/sys/net/rdma_sock/sdp_probe ] || "
		   "echo cm >/proc/sys/net/rdma_sock/sdp_probe'; done"))
		ksft_print_msg("hosts are asked whether they have SDP\n");
	atexit(remove_namespaces);
	return test_harness_run(argc, argv);
}

#endif
