/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixtures: `kind` is only a kind of socket, `conn` is a connection that is known to go the way it
 * has to. Both for tests of kselftest_harness.h, which is to be included before; their main() calls
 * run_in_namespaces() in place of TEST_HARNESS_MAIN.
 */

#ifndef RS_CONN_H
#define RS_CONN_H

#include <poll.h>

#include "bytes.h"
#include "kind.h"
#include "path.h"

/* Enough for kernels full of checkers; it only matters to tests that hang. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 120

FIXTURE(kind) {
	const struct kind *kind;
};

#define RS_FIXTURE kind
#include "variants.h"

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

#define RS_FIXTURE conn
#include "variants.h"

/* For programs that need options before the connection is made. */
static void (*prepare_listener)(int fd);
static void (*prepare_client)(int fd);

/*
 * A process that receives `size` bytes, compares them and awaits the end of the stream. It exits
 * with 0 if all is right, and has no use for the other end.
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

/* Waits for events; what poll() returned. */
static inline int await_events(int fd, int events, int timeout)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n = poll(&p, 1, timeout);

	return n <= 0 ? n : p.revents;
}

#define EXPECT_MODE(side, fd, carried) do {					\
	const char *mode = mode_of_fd(side, fd);				\
										\
	if (carried) {								\
		EXPECT_STREQ("smc", mode) {					\
			TH_LOG("side %d: %s", side, conn_line);			\
		}								\
	} else {								\
		EXPECT_STRNE("smc", mode);					\
	}									\
} while (0)

/* The two sockets of a connection are in the mode that their kind has to lead to. */
#define EXPECT_PATH(kind, client, server) do {					\
	EXPECT_MODE(CLIENT, client, is_carried(kind));				\
	EXPECT_MODE(SERVER, server, is_carried(kind));				\
} while (0)

/* Data go by RDMA if and only if they have to, and not twice. */
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

/* SMC is tested only where there is the module: without, everything would be a fallback. */
static inline const char *why_not_here(void)
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

/* To be called by main(). */
static int run_in_namespaces(int argc, char **argv)
{
	const char *reason = why_not_here();

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (reason) {
		ksft_print_header();
		ksft_exit_skip("%s\n", reason);
	}
	if (system("./netns.sh up")) {
		ksft_print_header();
		ksft_exit_fail_msg("no network namespaces\n");
	}
	atexit(remove_namespaces);
	return test_harness_run(argc, argv);
}

#endif
