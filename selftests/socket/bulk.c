// SPDX-License-Identifier: GPL-2.0
/* Large streams and many connections, with every byte compared. */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <pthread.h>

#include "conn.h"

/* One direction of a connection: a thread sends, another one receives and compares. */
struct stream {
	int from;
	int to;
	size_t size;
	size_t max_part;
	__u64 seed;
	const char *data;
	const char *error;
};

static void *send_stream(void *arg)
{
	struct stream *s = arg;
	struct bytes parts = bytes_of(s->seed);
	size_t sent = 0;

	while (sent < s->size) {
		size_t part = next_random(&parts) % s->max_part + 1;

		if (part > s->size - sent)
			part = s->size - sent;
		if (send_all(s->from, s->data + sent, part)) {
			s->error = "send failed";
			return NULL;
		}
		sent += part;
	}
	if (shutdown(s->from, SHUT_WR))
		s->error = "shutdown failed";
	return NULL;
}

static void *receive_stream(void *arg)
{
	struct stream *s = arg;
	struct bytes parts = bytes_of(s->seed + 1);
	char *in = malloc(s->max_part);
	size_t got = 0;

	while (!s->error) {
		ssize_t n = recv(s->to, in, next_random(&parts) % s->max_part + 1, 0);

		if (n <= 0) {
			if (n < 0)
				s->error = "recv failed";
			else if (got != s->size)
				s->error = "too few bytes";
			break;
		}
		if (got + n > s->size)
			s->error = "too many bytes";
		else if (memcmp(in, s->data + got, n))
			s->error = "other bytes";
		got += n;
	}
	free(in);
	return NULL;
}

/* Runs streams at the same time; the first error. */
static const char *run_streams(struct stream *streams, int count)
{
	pthread_t senders[2], receivers[2];
	const char *error = NULL;
	int n;

	for (n = 0; n < count; n++) {
		char *data = malloc(streams[n].size);

		fill(data, streams[n].size, streams[n].seed);
		streams[n].data = data;
		streams[n].error = NULL;
	}
	for (n = 0; n < count; n++) {
		pthread_create(&receivers[n], NULL, receive_stream, &streams[n]);
		pthread_create(&senders[n], NULL, send_stream, &streams[n]);
	}
	for (n = 0; n < count; n++) {
		pthread_join(senders[n], NULL);
		pthread_join(receivers[n], NULL);
		if (streams[n].error)
			error = streams[n].error;
		free((char *)streams[n].data);
	}
	return error;
}

#define EXPECT_STREAMS(streams, count) do {					\
	const char *error = run_streams(streams, count);			\
										\
	EXPECT_EQ(NULL, error) {						\
		TH_LOG("%s", error);						\
	}									\
} while (0)

/* GEN-01, TST-003. */
TEST_F_TIMEOUT(conn, both_ways_in_parts_of_all_sizes, 100)
{
	struct stream streams[] = {
		{ self->client, self->server, 8 << 20, 1 << 20, 101 },
		{ self->server, self->client, 8 << 20, 1 << 20, 102 },
	};

	EXPECT_STREAMS(streams, 2);
	EXPECT_SENT(self, 2 * (8 << 20));
}

TEST_F_TIMEOUT(conn, both_ways_in_tiny_parts, 100)
{
	struct stream streams[] = {
		{ self->client, self->server, 40000, 17, 103 },
		{ self->server, self->client, 40000, 17, 104 },
	};

	EXPECT_STREAMS(streams, 2);
	EXPECT_SENT(self, 2 * 40000);
}

/* Requests of every size around the powers of two in sequence, each with an answer. */
TEST_F_TIMEOUT(conn, request_and_response_of_each_size, 100)
{
	enum { MAX = (256 << 10) + 1 };
	char *out = malloc(MAX), *in = malloc(MAX);
	long long total = 0;
	pid_t child;
	int status;

	fill(out, MAX, 105);
	child = fork();
	if (!child) {
		close(self->client);
		for (;;) {
			ssize_t n = recv(self->server, in, MAX, 0);

			if (n <= 0)
				_exit(n != 0);
			if (send_all(self->server, in, n))
				_exit(2);
		}
	}
	for (int power = 1; power < MAX; power *= 2) {
		for (int size = power > 1 ? power - 1 : 1; size <= power + 1; size++) {
			pid_t sender = -1;

			memset(in, 0, size);
			/* Read meanwhile what the echo cannot take at once. */
			if (size > 8192) {
				sender = fork();
				if (!sender)
					_exit(send_all(self->client, out, size) != 0);
			} else {
				ASSERT_EQ(0, send_all(self->client, out, size));
			}
			ASSERT_EQ(size, recv_all(self->client, in, size));
			ASSERT_EQ(0, memcmp(in, out, size));
			if (sender > 0)
				waitpid(sender, NULL, 0);
			total += 2 * size;
		}
	}
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_SENT(self, total);
	free(out);
	free(in);
}

static void small_receive_buffer(int fd)
{
	int size = 8192;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

/* RMB-11, WIN-12, API-04, TST-002. */
TEST_F_TIMEOUT(kind, small_receive_buffers, 100)
{
	int listener = new_listener(self->kind, 4, small_receive_buffer);
	int client = new_socket(self->kind, CLIENT, 0), server;
	long long before = rdma_bytes_at_rest();

	small_receive_buffer(client);
	ASSERT_EQ(0, connect_to(self->kind, client, listener));
	server = accept(listener, NULL, NULL);
	ASSERT_LE(0, server);
	EXPECT_PATH(self->kind, client, server);

	struct stream streams[] = {
		{ client, server, 2 << 20, 100000, 106 },
		{ server, client, 2 << 20, 100000, 107 },
	};

	EXPECT_STREAMS(streams, 2);
	EXPECT_EQ(is_carried(self->kind) ? 4 << 20 : 0, rdma_bytes() - before);
	close(client);
	close(server);
	close(listener);
}

/* A slow reader closes the window again and again. */
/* WIN-03, WIN-11. */
TEST_F_TIMEOUT(conn, slow_reader, 100)
{
	enum { SIZE = 1 << 20 };
	char *out = malloc(SIZE), *in = malloc(SIZE);
	size_t sent = 0, got = 0;
	struct bytes parts = bytes_of(9);

	fill(out, SIZE, 108);
	while (got < SIZE) {
		size_t part = next_random(&parts) % 3000 + 1;
		ssize_t n;

		/* Send as much as the connection takes... */
		while (sent < SIZE) {
			n = send(self->client, out + sent, SIZE - sent, MSG_DONTWAIT);
			if (n < 0) {
				ASSERT_EQ(EAGAIN, errno);
				break;
			}
			sent += n;
		}
		/* ... and receive a little. */
		if (part > SIZE - got)
			part = SIZE - got;
		n = recv(self->server, in + got, part, MSG_DONTWAIT);
		if (n < 0) {
			/* All bytes were read before the sender knew of the room. */
			struct pollfd polled[2] = {
				{ .fd = self->server, .events = POLLIN },
				{ .fd = self->client, .events = sent < SIZE ? POLLOUT : 0 },
			};

			ASSERT_EQ(EAGAIN, errno);
			ASSERT_LT(0, poll(polled, 2, 10000)) {
				TH_LOG("nothing moves: %zu sent, %zu received", sent, got);
			}
			continue;
		}
		ASSERT_LT(0, n);
		got += n;
	}
	EXPECT_EQ(0, memcmp(in, out, SIZE));
	EXPECT_SENT(self, SIZE);
	free(out);
	free(in);
}

/* WIN-09, TST-137. */
TEST_F_TIMEOUT(conn, one_byte_at_a_time, 100)
{
	enum { COUNT = 5000 };
	int n;
	char c;

	for (n = 0; n < COUNT; n++) {
		c = n * 7;
		ASSERT_EQ(1, send(self->client, &c, 1, 0));
		c = 0;
		ASSERT_EQ(1, recv(self->server, &c, 1, 0));
		ASSERT_EQ((char)(n * 7), c);
	}
	EXPECT_SENT(self, COUNT);
}

/* A blocked direction does not delay the other one. */
TEST_F(conn, blocked_direction_does_not_block_the_other)
{
	int n;
	char c;

	ASSERT_LT(0, send_until_full(self->client));
	for (n = 0; n < 1000; n++) {
		c = n;
		ASSERT_EQ(1, send(self->server, &c, 1, 0));
		ASSERT_EQ(1, recv(self->client, &c, 1, 0));
		ASSERT_EQ((char)n, c);
	}
}

FIXTURE(many) {
	const struct kind *kind;
	int listener;
	pid_t server;
	long long before;
};

RS_VARIANTS_OF_KINDS(many);

/* Echoes each connection until the end of the stream. */
static void serve(int listener)
{
	static char buf[65536];

	for (;;) {
		int fd = accept(listener, NULL, NULL);
		ssize_t n;

		if (fd < 0)
			_exit(1);
		if (fork()) {
			close(fd);
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
			continue;
		}
		while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
			if (send_all(fd, buf, n))
				_exit(1);
		}
		_exit(n != 0);
	}
}

FIXTURE_SETUP(many)
{
	self->kind = &variant->kind;
	self->before = rdma_bytes_at_rest();
	ASSERT_LE(0, self->before);
	self->listener = new_listener(self->kind, 512, NULL);
	ASSERT_LE(0, self->listener);
	self->server = fork();
	if (!self->server)
		serve(self->listener);
}

FIXTURE_TEARDOWN(many)
{
	kill(self->server, SIGKILL);
	waitpid(self->server, NULL, 0);
	close(self->listener);
}

/* Runs a short connection; the failed step, or NULL. */
static const char *one_connection(const struct kind *kind, int listener, size_t size, __u64 seed)
{
	static __thread char out[20000], in[20000];
	int fd = new_socket(kind, CLIENT, 0);
	const char *error = NULL;

	if (fd < 0)
		return "socket";
	fill(out, size, seed);
	if (connect_to(kind, fd, listener))
		error = "connect";
	else if (engine_of_mode(mode_of_fd(CLIENT, fd)) != carrier_of(kind))
		error = "another engine";
	else if (send_all(fd, out, size))
		error = "send";
	else if (recv_all(fd, in, size) != (ssize_t)size)
		error = "recv";
	else if (memcmp(in, out, size))
		error = "other bytes";
	else if (shutdown(fd, SHUT_WR) || recv(fd, in, 1, 0))
		error = "end";
	close(fd);
	return error;
}

TEST_F_TIMEOUT(many, a_thousand_one_after_the_other, 240)
{
	long long total = 0;
	int n;

	for (n = 0; n < 1000; n++) {
		size_t size = (n * 37) % 9000 + 1;
		const char *error = one_connection(self->kind, self->listener, size, n);

		ASSERT_EQ(NULL, error) {
			TH_LOG("connection %d: %s: %m; %s", n, error, conn_line);
		}
		total += 2 * size;
	}
	EXPECT_EQ(is_carried(self->kind) ? total : 0, rdma_bytes() - self->before) {
		print_reasons();
	}
}

struct worker {
	const struct kind *kind;
	int listener;
	int number;
	pthread_barrier_t *barrier;
	const char *error;
};

#define WORKER_SIZE 15000

/* All threads connect before the first one sends. */
static void *work(void *arg)
{
	static __thread char out[WORKER_SIZE], in[WORKER_SIZE];
	struct worker *w = arg;
	int fd = new_socket(w->kind, CLIENT, 0);

	fill(out, sizeof(out), w->number);
	if (fd < 0 || connect_to(w->kind, fd, w->listener))
		w->error = "connect";
	pthread_barrier_wait(w->barrier);
	if (w->error)
		;
	else if (send_all(fd, out, sizeof(out)))
		w->error = "send";
	else if (recv_all(fd, in, sizeof(in)) != (ssize_t)sizeof(in))
		w->error = "recv";
	else if (memcmp(in, out, sizeof(in)))
		w->error = "other bytes";
	pthread_barrier_wait(w->barrier);
	close(fd);
	return NULL;
}

/*
 * Clients that used TCP since the listener accepted no connection of SDP in the time of a set-up:
 * a machine that is slow enough serves a part of a crowd in this way.
 */
static long long crowded_out(void)
{
	return counted(CLIENT, "sdp_fallback_reason_7f00010b") +
	       counted(CLIENT, "sdp_fallback_reason_7f000105");
}

/* RMB-04, RDV-20, TCP-20. */
TEST_F_TIMEOUT(many, two_hundred_at_once, 240)
{
	enum { COUNT = 200 };
	static struct worker workers[COUNT];
	pthread_t threads[COUNT];
	pthread_barrier_t barrier;
	long long before = crowded_out(), by_tcp = COUNT;
	int n;

	pthread_barrier_init(&barrier, NULL, COUNT);
	for (n = 0; n < COUNT; n++) {
		workers[n] = (struct worker){ self->kind, self->listener, n, &barrier };
		ASSERT_EQ(0, pthread_create(&threads[n], NULL, work, &workers[n]));
	}
	for (n = 0; n < COUNT; n++) {
		ASSERT_EQ(0, pthread_join(threads[n], NULL));
		EXPECT_EQ(NULL, workers[n].error) {
			TH_LOG("connection %d: %s", n, workers[n].error);
		}
	}
	/* A reason is counted for each client that uses TCP, and most use RDMA. */
	if (is_carried(self->kind)) {
		by_tcp = crowded_out() - before;
		EXPECT_LE(by_tcp, COUNT / 2);
	}
	EXPECT_EQ((COUNT - by_tcp) * 2 * WORKER_SIZE, rdma_bytes() - self->before) {
		print_reasons();
	}
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
