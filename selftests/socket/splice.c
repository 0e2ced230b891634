// SPDX-License-Identifier: GPL-2.0
/*
 * splice() and sendfile() between connections, pipes and files.
 */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <sys/sendfile.h>

#include "conn.h"

#define SIZE (700 * 1024 + 77)

/* A file in memory with known bytes. */
static int new_file(const void *data, size_t size)
{
	int fd = memfd_create("selftest", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET))
		return -1;
	return fd;
}

TEST_F(conn, sendfile)
{
	char *data = malloc(SIZE);
	off_t offset = 0;
	int file, status;
	pid_t child;

	fill(data, SIZE, 21);
	file = new_file(data, SIZE);
	ASSERT_LE(0, file);
	child = compare_in_child(self->server, self->client, data, SIZE);
	while (offset < SIZE) {
		ssize_t n = sendfile(self->client, file, &offset, SIZE - offset);

		ASSERT_LT(0, n);
	}
	EXPECT_EQ(0, sendfile(self->client, file, &offset, 10));
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_SENT(self, SIZE);
	close(file);
	free(data);
}

TEST_F(conn, file_changed_after_sendfile_returns_may_not_change_what_was_read)
{
	char in[5000], data[5000];
	off_t offset = 0;
	int file;

	fill(data, sizeof(data), 22);
	file = new_file(data, sizeof(data));
	ASSERT_LE(0, file);
	ASSERT_EQ((ssize_t)sizeof(data), sendfile(self->client, file, &offset, sizeof(data)));
	ASSERT_EQ((ssize_t)sizeof(in), recv_all(self->server, in, sizeof(in)));
	ASSERT_EQ(0, ftruncate(file, 0));
	EXPECT_EQ(0, memcmp(in, data, sizeof(in)));
	close(file);
}

TEST_F(conn, sendfile_to_a_full_connection)
{
	size_t size = 8 << 20;
	int file = memfd_create("selftest", MFD_CLOEXEC), n;
	off_t offset = 0;

	ASSERT_EQ(0, ftruncate(file, size));
	ASSERT_EQ(0, fcntl(self->client, F_SETFL, O_NONBLOCK));
	for (n = 0; n < 1000; n++) {
		if (sendfile(self->client, file, &offset, size - offset) < 0)
			break;
	}
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_GT((off_t)size, offset);
	close(file);
}

/* From one side through a pipe to a file. */
/* API-02. */
TEST_F(conn, splice_to_a_file)
{
	char *data = malloc(SIZE), *in = malloc(SIZE);
	int file = memfd_create("selftest", MFD_CLOEXEC), pipes[2];
	ssize_t total = 0, n, m;
	pid_t child;

	fill(data, SIZE, 23);
	ASSERT_EQ(0, pipe(pipes));
	child = fork();
	if (!child)
		_exit(send_all(self->client, data, SIZE) || shutdown(self->client, SHUT_WR));
	while ((n = splice(self->server, NULL, pipes[1], NULL, 65536, SPLICE_F_MOVE)) > 0) {
		while (n) {
			m = splice(pipes[0], NULL, file, NULL, n, SPLICE_F_MOVE);
			ASSERT_LT(0, m);
			n -= m;
			total += m;
		}
	}
	EXPECT_EQ(0, n);
	EXPECT_EQ(SIZE, total);
	EXPECT_EQ(SIZE, pread(file, in, SIZE, 0));
	EXPECT_EQ(0, memcmp(in, data, SIZE));
	EXPECT_SENT(self, SIZE);
	waitpid(child, NULL, 0);
	close(file);
	free(data);
	free(in);
}

/* From a file through a pipe to the other side. */
TEST_F(conn, splice_from_a_file)
{
	char *data = malloc(SIZE);
	int file, pipes[2], status;
	ssize_t n, m;
	pid_t child;

	fill(data, SIZE, 24);
	file = new_file(data, SIZE);
	ASSERT_LE(0, file);
	ASSERT_EQ(0, pipe(pipes));
	child = compare_in_child(self->server, self->client, data, SIZE);
	while ((n = splice(file, NULL, pipes[1], NULL, 65536, 0)) > 0) {
		while (n) {
			m = splice(pipes[0], NULL, self->client, NULL, n, SPLICE_F_MORE);
			ASSERT_LT(0, m);
			n -= m;
		}
	}
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_SENT(self, SIZE);
	close(file);
	free(data);
}

/* A proxy: all data from one connection to another, in the kernel. */
TEST_F(conn, splice_from_connection_to_connection)
{
	char *data = malloc(SIZE);
	int client, server, pipes[2], status;
	pid_t sender, receiver;
	ssize_t n, m;

	fill(data, SIZE, 25);
	ASSERT_EQ(0, pipe(pipes));
	client = new_socket(self->kind, CLIENT, 0);
	ASSERT_EQ(0, connect_to(self->kind, client, self->listener));
	server = accept(self->listener, NULL, NULL);
	ASSERT_LE(0, server);
	sender = fork();
	if (!sender)
		_exit(send_all(self->client, data, SIZE) || shutdown(self->client, SHUT_WR));
	receiver = compare_in_child(client, server, data, SIZE);
	while ((n = splice(self->server, NULL, pipes[1], NULL, 32768, 0)) > 0) {
		while (n) {
			m = splice(pipes[0], NULL, server, NULL, n, 0);
			ASSERT_LT(0, m);
			n -= m;
		}
	}
	ASSERT_EQ(0, shutdown(server, SHUT_WR));
	ASSERT_EQ(receiver, waitpid(receiver, &status, 0));
	EXPECT_EQ(0, status);
	waitpid(sender, NULL, 0);
	EXPECT_SENT(self, 2 * SIZE);
	close(client);
	close(server);
	free(data);
}

TEST_F(conn, splice_without_data)
{
	int pipes[2];

	ASSERT_EQ(0, pipe(pipes));
	/* SPLICE_F_NONBLOCK affects the pipe. */
	ASSERT_EQ(0, fcntl(self->server, F_SETFL, O_NONBLOCK));
	EXPECT_EQ(-1, splice(self->server, NULL, pipes[1], NULL, 100, SPLICE_F_NONBLOCK));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	ASSERT_EQ(POLLIN, await_events(self->server, POLLIN, 5000));
	EXPECT_EQ(0, splice(self->server, NULL, pipes[1], NULL, 100, SPLICE_F_NONBLOCK));
}

TEST_F(conn, splice_does_not_wait_for_more)
{
	char buf[16];
	int pipes[2];

	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(3, send(self->client, "abc", 3, 0));
	EXPECT_EQ(3, splice(self->server, NULL, pipes[1], NULL, 1000, 0));
	EXPECT_EQ(3, read(pipes[0], buf, sizeof(buf)));
	EXPECT_EQ(0, memcmp(buf, "abc", 3));
}

TEST_F(conn, tee_of_spliced_data)
{
	int a[2], b[2];
	char buf[16];

	ASSERT_EQ(0, pipe(a));
	ASSERT_EQ(0, pipe(b));
	ASSERT_EQ(3, send(self->client, "abc", 3, 0));
	ASSERT_EQ(3, splice(self->server, NULL, a[1], NULL, 3, 0));
	ASSERT_EQ(3, tee(a[0], b[1], 3, 0));
	/* The second copy is intact after the connection is gone. */
	ASSERT_EQ(3, read(a[0], buf, 3));
	close(self->server);
	close(self->client);
	ASSERT_EQ(3, read(b[0], buf, 3));
	EXPECT_EQ(0, memcmp(buf, "abc", 3));
	self->client = -1;
	self->server = -1;
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
