// SPDX-License-Identifier: GPL-2.0
/* Sockets shared by processes: fork(), passed descriptors, exec(). */

#define RS_WITH_SDP
#define RS_WITH_DUAL

#include <kselftest_harness.h>
#include <signal.h>
#include <sys/un.h>

#include "conn.h"

/* GEN-02. */
TEST_F(conn, child_uses_the_connection)
{
	pid_t child = fork();
	int status;
	char c;

	if (!child) {
		if (send(self->client, "c", 1, 0) != 1)
			_exit(1);
		_exit(recv(self->client, &c, 1, 0) != 1 || c != 's');
	}
	ASSERT_EQ(1, recv(self->server, &c, 1, 0));
	EXPECT_EQ('c', c);
	ASSERT_EQ(1, send(self->server, "s", 1, 0));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	/* The exit of the child has not closed the connection. */
	ASSERT_EQ(1, send(self->client, "p", 1, 0));
	ASSERT_EQ(1, recv(self->server, &c, 1, 0));
	EXPECT_EQ('p', c);
}

TEST_F(conn, last_process_closes_the_connection)
{
	pid_t child = fork();
	char c;

	if (!child) {
		/* The child's descriptor outlives that of the parent. */
		recv(self->client, &c, 1, 0);
		_exit(0);
	}
	ASSERT_EQ(0, close(self->client));
	EXPECT_EQ(0, await_events(self->server, POLLIN, 100));
	ASSERT_EQ(1, send(self->server, "x", 1, 0));
	EXPECT_EQ(0, recv(self->server, &c, 1, 0));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
}

TEST_F(conn, shutdown_is_for_all_processes)
{
	pid_t child = fork();
	char c;

	if (!child)
		_exit(shutdown(self->client, SHUT_WR) != 0);
	EXPECT_EQ(0, recv(self->server, &c, 1, 0));
	EXPECT_EQ(-1, send(self->client, "x", 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	ASSERT_EQ(child, waitpid(child, NULL, 0));
}

static int send_fd(int via, int fd)
{
	char space[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { "f", 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space,
			      .msg_controllen = sizeof(space) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	return sendmsg(via, &msg, 0) == 1 ? 0 : -1;
}

static int recv_fd(int via)
{
	char space[CMSG_SPACE(sizeof(int))] = {}, c;
	struct iovec iov = { &c, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space,
			      .msg_controllen = sizeof(space) };
	int fd;

	if (recvmsg(via, &msg, 0) != 1 || !CMSG_FIRSTHDR(&msg))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
	return fd;
}

/* GEN-02. */
TEST_F(conn, connection_is_passed_to_another_process)
{
	int pair[2], status, fd;
	pid_t child;
	char c;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	child = fork();
	if (!child) {
		close(self->client);
		close(self->server);
		close(self->listener);
		fd = recv_fd(pair[1]);
		if (fd < 0)
			_exit(1);
		if (recv(fd, &c, 1, 0) != 1 || c != 'x')
			_exit(2);
		_exit(send(fd, "y", 1, 0) != 1);
	}
	ASSERT_EQ(0, send_fd(pair[0], self->server));
	/* The message holds the socket, whether it is in flight or received. */
	ASSERT_EQ(0, close(self->server));
	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	ASSERT_EQ(1, recv(self->client, &c, 1, 0));
	EXPECT_EQ('y', c);
	EXPECT_EQ(0, recv(self->client, &c, 1, 0));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_F(conn, connection_lost_in_a_message_is_closed)
{
	int pair[2];
	char c;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	ASSERT_EQ(0, send_fd(pair[0], self->server));
	ASSERT_EQ(0, close(self->server));
	EXPECT_EQ(0, await_events(self->client, POLLIN, 0));
	close(pair[0]);
	close(pair[1]);
	EXPECT_EQ(POLLIN, await_events(self->client, POLLIN, 5000) & POLLIN);
	EXPECT_EQ(0, recv(self->client, &c, 1, 0));
}

TEST_F(kind, listener_is_passed_to_another_process)
{
	int pair[2], listener = new_listener(self->kind, 4, NULL), client, fd, status;
	pid_t child;
	char c;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	child = fork();
	if (!child) {
		close(listener);
		fd = accept(recv_fd(pair[1]), NULL, NULL);
		_exit(fd < 0 || send(fd, "x", 1, 0) != 1);
	}
	ASSERT_EQ(0, send_fd(pair[0], listener));
	client = new_socket(self->kind, CLIENT, 0);
	ASSERT_EQ(0, connect_to(self->kind, client, listener)) {
		TH_LOG("connect: %m");
	}
	ASSERT_EQ(1, recv(client, &c, 1, 0));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	close(client);
	close(listener);
}

/* The executed program echoes, as those of inetd do. */
TEST_F(conn, connection_survives_exec)
{
	char buf[16];
	pid_t child = fork();
	int status;

	if (!child) {
		close(self->client);
		dup2(self->server, 0);
		dup2(self->server, 1);
		close(self->server);
		execlp("head", "head", "-c", "5", (char *)NULL);
		_exit(127);
	}
	close(self->server);
	self->server = -1;
	ASSERT_EQ(5, send(self->client, "hello", 5, 0));
	EXPECT_EQ(5, recv(self->client, buf, 5, MSG_WAITALL));
	EXPECT_EQ(0, memcmp(buf, "hello", 5));
	EXPECT_EQ(0, recv(self->client, buf, 1, 0));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_SENT(self, 10);
}

TEST_F(conn, exec_closes_marked_descriptors)
{
	char c;
	pid_t child;

	ASSERT_EQ(0, fcntl(self->server, F_SETFD, FD_CLOEXEC));
	child = fork();
	if (!child) {
		execlp("sleep", "sleep", "100", (char *)NULL);
		_exit(127);
	}
	close(self->server);
	self->server = -1;
	EXPECT_EQ(0, recv(self->client, &c, 1, 0));
	kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, NULL, 0));
}

TEST_F(kind, processes_share_a_listener)
{
	enum { CHILDREN = 4, CLIENTS = 40 };
	int listener = new_listener(self->kind, CLIENTS, NULL), n, status;
	pid_t children[CHILDREN];
	char c;

	for (n = 0; n < CHILDREN; n++) {
		children[n] = fork();
		if (children[n])
			continue;
		for (;;) {
			int fd = accept(listener, NULL, NULL);

			if (fd < 0)
				_exit(1);
			if (recv(fd, &c, 1, 0) != 1)
				_exit(2);
			c++;
			if (send(fd, &c, 1, 0) != 1)
				_exit(3);
			close(fd);
		}
	}
	for (n = 0; n < CLIENTS; n++) {
		int fd = new_socket(self->kind, CLIENT, 0);

		ASSERT_EQ(0, connect_to(self->kind, fd, listener));
		c = n;
		ASSERT_EQ(1, send(fd, &c, 1, 0));
		ASSERT_EQ(1, recv(fd, &c, 1, 0));
		EXPECT_EQ(n + 1, c);
		close(fd);
	}
	for (n = 0; n < CHILDREN; n++) {
		ASSERT_EQ(0, kill(children[n], SIGKILL));
		ASSERT_EQ(children[n], waitpid(children[n], &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
	}
	close(listener);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
