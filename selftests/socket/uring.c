// SPDX-License-Identifier: GPL-2.0
/* io_uring: connect, accept, send, recv, poll, cancel, and close with requests in progress. */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <liburing.h>

#include "conn.h"

static struct io_uring ring;

/* The kernel may lack io_uring, or forbid it. */
static int open_ring(void)
{
	return io_uring_queue_init(32, &ring, 0);
}

static struct io_uring_sqe *request(__u64 tag)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	sqe->user_data = tag;
	return sqe;
}

/* The preparing functions reset the tag. */
static void submit(struct io_uring_sqe *sqe, __u64 tag)
{
	sqe->user_data = tag;
	io_uring_submit(&ring);
}

/* The result of the next completion, whose tag it stores; -ETIME after the time limit. */
static int completion(__u64 *tag, int seconds)
{
	struct __kernel_timespec limit = { .tv_sec = seconds };
	struct io_uring_cqe *cqe;
	int error = io_uring_wait_cqe_timeout(&ring, &cqe, &limit);

	if (error)
		return error;
	if (tag)
		*tag = cqe->user_data;
	error = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	return error;
}

TEST_F(conn, send_and_recv)
{
	struct io_uring_sqe *sqe;
	char buf[16] = "";
	__u64 tag;

	if (open_ring())
		SKIP(return, "no io_uring here");
	/* There is no data: the request waits. */
	sqe = request(0);
	io_uring_prep_recv(sqe, self->server, buf, sizeof(buf), 0);
	submit(sqe, 1);
	EXPECT_EQ(-ETIME, completion(NULL, 0));
	sqe = request(0);
	io_uring_prep_send(sqe, self->client, "hello", 5, 0);
	submit(sqe, 2);
	EXPECT_EQ(5, completion(&tag, 5));
	EXPECT_EQ(5, completion(&tag, 5));
	EXPECT_EQ(0, memcmp(buf, "hello", 5));
	EXPECT_SENT(self, 5);
}

TEST_F(conn, messages_with_vectors)
{
	struct iovec out[] = { { "abc", 3 }, { "defgh", 5 } };
	struct msghdr out_msg = { .msg_iov = out, .msg_iovlen = 2 };
	char a[2], b[10];
	struct iovec in[] = { { a, 2 }, { b, 6 } };
	struct msghdr in_msg = { .msg_iov = in, .msg_iovlen = 2 };
	struct io_uring_sqe *sqe;

	if (open_ring())
		SKIP(return, "no io_uring here");
	sqe = request(0);
	io_uring_prep_sendmsg(sqe, self->client, &out_msg, 0);
	submit(sqe, 1);
	EXPECT_EQ(8, completion(NULL, 5));
	sqe = request(0);
	io_uring_prep_recvmsg(sqe, self->server, &in_msg, MSG_WAITALL);
	submit(sqe, 2);
	EXPECT_EQ(8, completion(NULL, 5));
	EXPECT_EQ(0, memcmp(a, "ab", 2));
	EXPECT_EQ(0, memcmp(b, "cdefgh", 6));
	EXPECT_SENT(self, 8);
}

TEST_F(conn, read_and_write)
{
	struct io_uring_sqe *sqe;
	char buf[8];

	if (open_ring())
		SKIP(return, "no io_uring here");
	sqe = request(0);
	io_uring_prep_write(sqe, self->client, "xyz", 3, 0);
	submit(sqe, 1);
	EXPECT_EQ(3, completion(NULL, 5));
	sqe = request(0);
	io_uring_prep_read(sqe, self->server, buf, sizeof(buf), 0);
	submit(sqe, 2);
	EXPECT_EQ(3, completion(NULL, 5));
	EXPECT_EQ(0, memcmp(buf, "xyz", 3));
}

TEST_F(kind, connect_and_accept)
{
	int listener = new_listener(self->kind, 4, NULL);
	int client = new_socket(self->kind, CLIENT, 0), server = -1, n, result;
	union address address = address_of(self->kind, SERVER, local_port(listener));
	struct io_uring_sqe *sqe;
	__u64 tag;
	char c;

	if (open_ring())
		SKIP(return, "no io_uring here");
	sqe = request(0);
	io_uring_prep_accept(sqe, listener, NULL, NULL, SOCK_CLOEXEC);
	submit(sqe, 1);
	sqe = request(0);
	io_uring_prep_connect(sqe, client, &address.sa, address_size(self->kind));
	submit(sqe, 2);
	for (n = 0; n < 2; n++) {
		result = completion(&tag, 10);
		ASSERT_LE(0, result) {
			TH_LOG("request %d: %s", (int)tag, strerror(-result));
		}
		if (tag == 1)
			server = result;
	}
	ASSERT_LE(0, server);
	EXPECT_EQ(FD_CLOEXEC, fcntl(server, F_GETFD));
	EXPECT_PATH(self->kind, client, server);
	ASSERT_EQ(1, send(client, "x", 1, 0));
	EXPECT_EQ(1, recv(server, &c, 1, 0));
	close(client);
	close(server);
	close(listener);
}

TEST_F(kind, connect_is_refused)
{
	int listener = new_listener(self->kind, 4, NULL);
	union address address = address_of(self->kind, SERVER, local_port(listener));
	int client = new_socket(self->kind, CLIENT, 0);
	struct io_uring_sqe *sqe;

	if (open_ring())
		SKIP(return, "no io_uring here");
	close(listener);
	sqe = request(0);
	io_uring_prep_connect(sqe, client, &address.sa, address_size(self->kind));
	submit(sqe, 1);
	EXPECT_EQ(-ECONNREFUSED, completion(NULL, 10));
	close(client);
}

TEST_F(kind, multishot_accept)
{
	enum { CLIENTS = 10 };
	int listener = new_listener(self->kind, CLIENTS, NULL), clients[CLIENTS], n;
	struct io_uring_sqe *sqe;

	if (open_ring())
		SKIP(return, "no io_uring here");
	sqe = request(0);
	io_uring_prep_multishot_accept(sqe, listener, NULL, NULL, 0);
	submit(sqe, 1);
	for (n = 0; n < CLIENTS; n++) {
		clients[n] = new_socket(self->kind, CLIENT, 0);
		ASSERT_EQ(0, connect_to(self->kind, clients[n], listener));
	}
	for (n = 0; n < CLIENTS; n++) {
		int server = completion(NULL, 10);

		ASSERT_LE(0, server);
		EXPECT_CARRIER(SERVER, server, carrier_of(self->kind));
		close(server);
		close(clients[n]);
	}
	close(listener);
}

TEST_F(conn, cancelled_recv_takes_nothing)
{
	struct io_uring_sqe *sqe;
	int n, result;
	__u64 tag;
	char c;

	if (open_ring())
		SKIP(return, "no io_uring here");
	sqe = request(0);
	io_uring_prep_recv(sqe, self->server, &c, 1, 0);
	submit(sqe, 1);
	sqe = request(0);
	io_uring_prep_cancel64(sqe, 1, 0);
	submit(sqe, 2);
	for (n = 0; n < 2; n++) {
		result = completion(&tag, 5);
		EXPECT_EQ(tag == 1 ? -ECANCELED : 0, result);
	}
	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	EXPECT_EQ(1, recv(self->server, &c, 1, 0));
}

TEST_F(conn, end_of_the_stream_completes_recv)
{
	struct io_uring_sqe *sqe;
	char c;

	if (open_ring())
		SKIP(return, "no io_uring here");
	sqe = request(0);
	io_uring_prep_recv(sqe, self->server, &c, 1, 0);
	submit(sqe, 1);
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(0, completion(NULL, 5));
}

TEST_F(conn, polled_events)
{
	struct io_uring_sqe *sqe;

	if (open_ring())
		SKIP(return, "no io_uring here");
	sqe = request(0);
	io_uring_prep_poll_add(sqe, self->server, POLLIN);
	submit(sqe, 1);
	EXPECT_EQ(-ETIME, completion(NULL, 0));
	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	EXPECT_EQ(POLLIN, completion(NULL, 5) & POLLIN);
}

/* Both directions at once, with several sizes in flight. */
TEST_F(conn, much_data)
{
	enum { SIZE = 1 << 20, PART = 48 * 1024 };
	char *out = malloc(SIZE), *in = malloc(SIZE);
	size_t sent = 0, got = 0;
	bool sending = false, receiving = false;

	if (open_ring())
		SKIP(return, "no io_uring here");
	fill(out, SIZE, 31);
	while (got < SIZE) {
		struct io_uring_sqe *sqe;
		__u64 tag;
		int result;

		if (!sending && sent < SIZE) {
			sqe = request(0);
			io_uring_prep_send(sqe, self->client, out + sent,
					   SIZE - sent < PART ? SIZE - sent : PART, 0);
			submit(sqe, 1);
			sending = true;
		}
		if (!receiving) {
			sqe = request(0);
			io_uring_prep_recv(sqe, self->server, in + got, SIZE - got, 0);
			submit(sqe, 2);
			receiving = true;
		}
		result = completion(&tag, 10);
		ASSERT_LT(0, result);
		if (tag == 1) {
			sent += result;
			sending = false;
		} else {
			got += result;
			receiving = false;
		}
	}
	EXPECT_EQ(0, memcmp(in, out, SIZE));
	EXPECT_SENT(self, SIZE);
	free(out);
	free(in);
}

/* The ring holds the file when the program ends. */
TEST_F(conn, close_with_a_request_in_progress)
{
	struct io_uring_sqe *sqe;
	char c;

	if (open_ring())
		SKIP(return, "no io_uring here");
	sqe = request(0);
	io_uring_prep_recv(sqe, self->server, &c, 1, 0);
	submit(sqe, 1);
	ASSERT_EQ(0, close(self->server));
	io_uring_queue_exit(&ring);
	EXPECT_EQ(0, recv(self->client, &c, 1, 0));
}

/* The result of the next completion, with its flags. */
static int completion_flags(__u32 *flags)
{
	struct __kernel_timespec limit = { .tv_sec = 5 };
	struct io_uring_cqe *cqe;
	int result = io_uring_wait_cqe_timeout(&ring, &cqe, &limit);

	if (result)
		return result;
	*flags = cqe->flags;
	result = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	return result;
}

/* A flag reports unread data after a receive, also the end of the stream. */
TEST_F(conn, recv_flag_reports_unread_data)
{
	struct io_uring_sqe *sqe;
	__u32 flags = 0;
	char buf[16];

	if (open_ring())
		SKIP(return, "no io_uring here");
	ASSERT_EQ(8, send(self->client, "12345678", 8, 0));
	ASSERT_EQ(8, recv(self->server, buf, 8, MSG_PEEK | MSG_WAITALL));
	sqe = request(0);
	io_uring_prep_recv(sqe, self->server, buf, 5, MSG_PEEK);
	submit(sqe, 1);
	EXPECT_EQ(5, completion_flags(&flags));
	EXPECT_EQ(IORING_CQE_F_SOCK_NONEMPTY, flags & IORING_CQE_F_SOCK_NONEMPTY);
	sqe = request(0);
	io_uring_prep_recv(sqe, self->server, buf, 5, 0);
	submit(sqe, 1);
	EXPECT_EQ(5, completion_flags(&flags));
	EXPECT_EQ(IORING_CQE_F_SOCK_NONEMPTY, flags & IORING_CQE_F_SOCK_NONEMPTY);
	sqe = request(0);
	io_uring_prep_recv(sqe, self->server, buf, 5, 0);
	submit(sqe, 1);
	EXPECT_EQ(3, completion_flags(&flags));
	EXPECT_EQ(0, flags & IORING_CQE_F_SOCK_NONEMPTY);
	ASSERT_EQ(1, send(self->client, "x", 1, 0));
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(POLLRDHUP, await_events(self->server, POLLRDHUP, 5000));
	sqe = request(0);
	io_uring_prep_recv(sqe, self->server, buf, 5, 0);
	submit(sqe, 1);
	EXPECT_EQ(1, completion_flags(&flags));
	EXPECT_EQ(IORING_CQE_F_SOCK_NONEMPTY, flags & IORING_CQE_F_SOCK_NONEMPTY);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
