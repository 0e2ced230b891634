// SPDX-License-Identifier: GPL-2.0
/* Transmission without a copy: MSG_ZEROCOPY, sendfile() and io_uring's SEND_ZC. */

#define RS_WITH_SDP

#include <kselftest_harness.h>
#include <liburing.h>
#include <linux/errqueue.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "conn.h"

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif

#define PART (96 * 1024)
#define LARGE (3 << 20)

/* The bytes sent so far without a copy. */
static long long lent_bytes(void)
{
	return both_sides("tx_zerocopy_bytes");
}

/* Whether the engine sends from the memory of the program. SDP copies. */
static bool lends(const struct kind *kind)
{
	return carrier_of(kind) == SMC;
}

static int use_zerocopy(int fd)
{
	int one = 1;

	return setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one));
}

/* Memory of whole pages, which can be unmapped one by one. */
static char *new_pages(size_t size)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Takes the next completion: the first and the last call that it covers. False if there is none. */
static bool completion(int fd, unsigned int *first, unsigned int *last, int *copied)
{
	char control[256];
	struct msghdr msg = { .msg_control = control, .msg_controllen = sizeof(control) };
	struct sock_extended_err err;
	struct cmsghdr *cmsg;

	if (recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return false;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (!cmsg)
		return false;
	memcpy(&err, CMSG_DATA(cmsg), sizeof(err));
	if (err.ee_errno || err.ee_origin != SO_EE_ORIGIN_ZEROCOPY)
		return false;
	*first = err.ee_info;
	*last = err.ee_data;
	*copied |= err.ee_code & SO_EE_CODE_ZEROCOPY_COPIED;
	return true;
}

/*
 * Waits until all calls from number `from` to `to` are completed, in any order. Returns whether any
 * of them was copied, or -1.
 */
static int await_completions(int fd, unsigned int from, unsigned int to)
{
	bool *done = calloc(to + 1, sizeof(*done));
	unsigned int left = to + 1 - from, first, last;
	int copied = 0, patience = 10000;

	while (left) {
		if (!(await_events(fd, 0, 10000) & POLLERR))
			break;
		if (!completion(fd, &first, &last, &copied)) {
			/* A broken socket is always ready to poll. */
			if (!patience--)
				break;
			poll(NULL, 0, 1);
			continue;
		}
		for (; first <= last && first >= from && last <= to && !done[first]; first++) {
			done[first] = true;
			left--;
		}
		if (first <= last)
			break;
	}
	free(done);
	return left ? -1 : copied;
}

static int result_of(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(conn, much)
{
	long long before = lent_bytes();
	char *data = new_pages(LARGE);
	unsigned int calls = 0;
	size_t sent = 0;
	pid_t child;
	int copied;

	fill(data, LARGE, 41);
	ASSERT_EQ(0, use_zerocopy(self->client));
	child = compare_in_child(self->server, self->client, data, LARGE);
	while (sent < LARGE) {
		/* Start at any offset in a page. */
		size_t want = sent % 3 ? 70001 : 200003;
		ssize_t n;

		if (want > LARGE - sent)
			want = LARGE - sent;
		n = send(self->client, data + sent, want, MSG_ZEROCOPY);
		ASSERT_LT(0, n);
		sent += n;
		calls++;
	}
	copied = await_completions(self->client, 0, calls - 1);
	ASSERT_LE(0, copied);
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(0, result_of(child));
	EXPECT_SENT(self, LARGE);
	if (lends(self->kind)) {
		EXPECT_EQ(0, copied);
		/* Only the end of each call may be copied. */
		EXPECT_LT(LARGE - (int)calls * 8192, lent_bytes() - before);
	}
	munmap(data, LARGE);
}

/* Completions of consecutive calls come in order. */
TEST_F(conn, in_order)
{
	enum { COUNT = 3, SIZE = 10000 };
	unsigned int next = 0, first, last;
	char *out = malloc(COUNT * SIZE), *in = malloc(COUNT * SIZE);
	int i, copied = 0;

	fill(out, COUNT * SIZE, 5);
	ASSERT_EQ(0, use_zerocopy(self->client));
	for (i = 0; i < COUNT; i++)
		ASSERT_EQ(SIZE, send(self->client, out + i * SIZE, SIZE, MSG_ZEROCOPY));
	ASSERT_EQ(COUNT * SIZE, recv_all(self->server, in, COUNT * SIZE));
	EXPECT_EQ(0, memcmp(in, out, COUNT * SIZE));
	/* Completions may be coalesced. */
	while (next < COUNT) {
		ASSERT_EQ(POLLERR, await_events(self->client, 0, 5000) & POLLERR);
		ASSERT_TRUE(completion(self->client, &first, &last, &copied));
		EXPECT_EQ(next, first);
		EXPECT_LE(first, last);
		next = last + 1;
	}
	EXPECT_EQ(COUNT, next);
	EXPECT_FALSE(completion(self->client, &first, &last, &copied));
	EXPECT_EQ(0, await_events(self->client, 0, 0));
	free(out);
	free(in);
}

TEST_F(conn, without_the_option)
{
	unsigned int first, last;
	char buf[4];
	int copied;

	ASSERT_EQ(4, send(self->client, "data", 4, MSG_ZEROCOPY));
	EXPECT_EQ(4, recv(self->server, buf, 4, MSG_WAITALL));
	EXPECT_FALSE(completion(self->client, &first, &last, &copied));
}

/* A call that sends nothing has no completion. */
TEST_F(conn, a_call_that_fails)
{
	unsigned int first, last;
	int copied;

	ASSERT_EQ(0, use_zerocopy(self->client));
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	ASSERT_EQ(-1, send(self->client, "x", 1, MSG_ZEROCOPY | MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_FALSE(completion(self->client, &first, &last, &copied));
}

TEST_F(conn, memory_may_change_after_the_completion)
{
	char *data = new_pages(PART), *out = malloc(PART), *in = malloc(PART);
	int i;

	ASSERT_EQ(0, use_zerocopy(self->client));
	for (i = 0; i < 10; i++) {
		fill(out, PART, 50 + i);
		memcpy(data, out, PART);
		ASSERT_EQ(PART, send(self->client, data, PART, MSG_ZEROCOPY));
		ASSERT_LE(0, await_completions(self->client, i, i));
		memset(data, 0xee, PART);
		ASSERT_EQ(PART, recv_all(self->server, in, PART));
		ASSERT_EQ(0, memcmp(in, out, PART));
	}
	munmap(data, PART);
	free(out);
	free(in);
}

/* Pages stay pinned, whatever happens to their addresses. */
TEST_F(conn, memory_may_be_unmapped_at_once)
{
	char *data, *out = malloc(PART), *in = malloc(PART);
	int i;

	ASSERT_EQ(0, use_zerocopy(self->client));
	for (i = 0; i < 10; i++) {
		data = new_pages(PART);
		fill(data, PART, 60 + i);
		memcpy(out, data, PART);
		ASSERT_EQ(PART, send(self->client, data, PART, MSG_ZEROCOPY));
		munmap(data, PART);
		data = new_pages(PART);
		memset(data, 0xdd, PART);
		ASSERT_EQ(PART, recv_all(self->server, in, PART));
		ASSERT_EQ(0, memcmp(in, out, PART));
		munmap(data, PART);
	}
	ASSERT_LE(0, await_completions(self->client, 0, 9));
	free(out);
	free(in);
}

TEST_F(conn, little_is_copied)
{
	char out[1000], in[1000];

	fill(out, sizeof(out), 42);
	ASSERT_EQ(0, use_zerocopy(self->client));
	ASSERT_EQ(1000, send(self->client, out, sizeof(out), MSG_ZEROCOPY));
	ASSERT_EQ(1000, recv_all(self->server, in, sizeof(in)));
	EXPECT_EQ(0, memcmp(in, out, sizeof(out)));
	if (is_carried(self->kind)) {
		EXPECT_EQ(1, await_completions(self->client, 0, 0));
	} else {
		EXPECT_LE(0, await_completions(self->client, 0, 0));
	}
}

/* Pinned and copied pieces of all sizes arrive in the order of the writes. */
TEST_F(conn, mixed)
{
	char *data = new_pages(LARGE);
	struct bytes random = bytes_of(43);
	unsigned int calls = 0;
	size_t sent = 0;
	pid_t child;

	fill(data, LARGE, 43);
	ASSERT_EQ(0, use_zerocopy(self->client));
	child = compare_in_child(self->server, self->client, data, LARGE);
	while (sent < LARGE) {
		size_t want = next_random(&random) % (next_random(&random) % 2 ? 100 : 60000) + 1;
		int flags = next_random(&random) % 2 ? MSG_ZEROCOPY : 0;
		ssize_t n;

		if (next_random(&random) % 4 == 0)
			flags |= MSG_MORE;
		if (want > LARGE - sent)
			want = LARGE - sent;
		n = send(self->client, data + sent, want, flags);
		ASSERT_LT(0, n);
		sent += n;
		calls += !!(flags & MSG_ZEROCOPY);
	}
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(0, result_of(child));
	ASSERT_LE(0, await_completions(self->client, 0, calls - 1));
	EXPECT_SENT(self, LARGE);
	munmap(data, LARGE);
}

TEST_F(conn, vectors)
{
	enum { COUNT = 40 };
	size_t size = 0, at = 0;
	struct iovec vec[COUNT];
	struct msghdr msg = { .msg_iov = vec, .msg_iovlen = COUNT };
	char *data, *in;
	int i;

	for (i = 0; i < COUNT; i++)
		size += (i % 5 + 1) * 777;
	data = new_pages(size);
	in = malloc(size);
	fill(data, size, 44);
	for (i = 0; i < COUNT; i++) {
		vec[i].iov_base = data + at;
		vec[i].iov_len = (i % 5 + 1) * 777;
		at += vec[i].iov_len;
	}
	ASSERT_EQ(0, use_zerocopy(self->client));
	ASSERT_EQ((ssize_t)size, sendmsg(self->client, &msg, MSG_ZEROCOPY));
	ASSERT_EQ((ssize_t)size, recv_all(self->server, in, size));
	EXPECT_EQ(0, memcmp(in, data, size));
	EXPECT_LE(0, await_completions(self->client, 0, 0));
	munmap(data, size);
	free(in);
}

/* The readable part is sent, and the next call fails, as with a copy. */
TEST_F(conn, unmapped_end_of_memory_is_an_error)
{
	char *data = new_pages(2 * PART), *in = malloc(PART);
	ssize_t n;

	fill(data, PART, 45);
	ASSERT_EQ(0, munmap(data + PART, PART));
	ASSERT_EQ(0, use_zerocopy(self->client));
	n = send(self->client, data, 2 * PART, MSG_ZEROCOPY);
	if (is_carried(self->kind)) {
		EXPECT_EQ(PART, n);
	}
	ASSERT_EQ(-1, send(self->client, data + PART, PART, MSG_ZEROCOPY));
	EXPECT_EQ(EFAULT, errno);
	if (n > 0) {
		EXPECT_EQ(n, recv_all(self->server, in, n));
		EXPECT_EQ(0, memcmp(in, data, n));
	}
	munmap(data, PART);
	free(in);
}

/* A blocked writer is woken; a non-blocking one gets EAGAIN. */
TEST_F(conn, late_reader_blocks_the_writer)
{
	struct timeval limit = { .tv_usec = 300000 }, none = {};
	char *data = new_pages(LARGE);
	size_t sent = 0;
	unsigned int calls = 0;
	pid_t child;
	ssize_t n;

	fill(data, LARGE, 46);
	ASSERT_EQ(0, use_zerocopy(self->client));
	/* Data in flight become room as the peer takes them: wait for the last of it. */
	ASSERT_EQ(0, setsockopt(self->client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)));
	while ((n = send(self->client, data + sent, LARGE - sent, MSG_ZEROCOPY)) > 0) {
		sent += n;
		calls++;
		if (sent == LARGE)
			break;
	}
	if (is_carried(self->kind)) {
		ASSERT_EQ(-1, n);
		ASSERT_EQ(EAGAIN, errno);
		EXPECT_EQ(-1, send(self->client, data + sent, LARGE - sent,
				   MSG_ZEROCOPY | MSG_DONTWAIT));
		EXPECT_EQ(EAGAIN, errno);
		EXPECT_EQ(0, await_events(self->client, POLLOUT, 0) & POLLOUT);
	}
	ASSERT_EQ(0, setsockopt(self->client, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none)));
	child = compare_in_child(self->server, self->client, data, LARGE);
	while (sent < LARGE) {
		n = send(self->client, data + sent, LARGE - sent, MSG_ZEROCOPY);
		ASSERT_LT(0, n);
		sent += n;
		calls++;
	}
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(0, result_of(child));
	EXPECT_LE(0, await_completions(self->client, 0, calls - 1));
	munmap(data, LARGE);
}

/* A reset also completes calls whose data can no longer be sent. */
TEST_F(conn, reset_by_the_reader)
{
	struct linger linger = { .l_onoff = 1 };
	char *data = new_pages(LARGE);
	unsigned int calls = 0;
	ssize_t n;

	ASSERT_EQ(0, use_zerocopy(self->client));
	while ((n = send(self->client, data, PART, MSG_ZEROCOPY | MSG_DONTWAIT)) > 0)
		calls++;
	ASSERT_LT(0, calls);
	ASSERT_EQ(0, setsockopt(self->server, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	ASSERT_EQ(0, close(self->server));
	EXPECT_LE(0, await_completions(self->client, 0, calls - 1));
	self->server = socket(AF_INET, SOCK_STREAM, 0);
	munmap(data, LARGE);
}

/* Data sent before close() arrive, although their process and its memory are gone. */
TEST_F(conn, the_writer_is_gone)
{
	char *data = malloc(PART), *in = malloc(PART);
	pid_t child;
	char c;

	fill(data, PART, 47);
	ASSERT_EQ(0, use_zerocopy(self->client));
	child = fork();
	if (!child) {
		char *pages = new_pages(PART);

		close(self->server);
		memcpy(pages, data, PART);
		_exit(send(self->client, pages, PART, MSG_ZEROCOPY) != PART);
	}
	ASSERT_EQ(0, close(self->client));
	EXPECT_EQ(0, result_of(child));
	EXPECT_EQ(PART, recv_all(self->server, in, PART));
	EXPECT_EQ(0, memcmp(in, data, PART));
	EXPECT_EQ(0, recv(self->server, &c, 1, 0));
	self->client = socket(AF_INET, SOCK_STREAM, 0);
	free(data);
	free(in);
}

TEST_F(conn, a_file)
{
	int file = memfd_create("selftest", MFD_CLOEXEC);
	long long before = lent_bytes();
	char *data = malloc(LARGE);
	off_t offset = 0;
	pid_t child;

	fill(data, LARGE, 48);
	ASSERT_LE(0, file);
	ASSERT_EQ(LARGE, write(file, data, LARGE));
	child = compare_in_child(self->server, self->client, data, LARGE);
	while (offset < LARGE)
		ASSERT_LT(0, sendfile(self->client, file, &offset, LARGE - offset));
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(0, result_of(child));
	EXPECT_SENT(self, LARGE);
	if (lends(self->kind)) {
		EXPECT_LT(LARGE / 2, lent_bytes() - before);
	}
	close(file);
	free(data);
}

/* The first half is sent from ordinary memory, the other from registered buffers. */
TEST_F(conn, io_uring)
{
	char *data = new_pages(LARGE);
	struct iovec vec = { .iov_base = data, .iov_len = LARGE };
	long long before = lent_bytes();
	struct io_uring ring;
	size_t sent = 0;
	pid_t child;

	if (io_uring_queue_init(8, &ring, 0))
		SKIP(return, "no io_uring here");
	fill(data, LARGE, 49);
	ASSERT_EQ(0, io_uring_register_buffers(&ring, &vec, 1));
	child = compare_in_child(self->server, self->client, data, LARGE);
	while (sent < LARGE) {
		size_t want = LARGE - sent < PART ? LARGE - sent : PART;
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
		struct io_uring_cqe *cqe;
		bool more = true;

		io_uring_prep_send_zc(sqe, self->client, data + sent, want, 0,
				      IORING_SEND_ZC_REPORT_USAGE);
		if (sent > LARGE / 2) {
			sqe->ioprio |= IORING_RECVSEND_FIXED_BUF;
			sqe->buf_index = 0;
		}
		ASSERT_EQ(1, io_uring_submit(&ring));
		while (more) {
			ASSERT_EQ(0, io_uring_wait_cqe(&ring, &cqe));
			more = cqe->flags & IORING_CQE_F_MORE;
			if (cqe->flags & IORING_CQE_F_NOTIF) {
				if (lends(self->kind) && want >= 8192) {
					EXPECT_EQ(0, cqe->res);
				}
			} else {
				ASSERT_LT(0, cqe->res);
				sent += cqe->res;
			}
			io_uring_cqe_seen(&ring, cqe);
		}
	}
	ASSERT_EQ(0, shutdown(self->client, SHUT_WR));
	EXPECT_EQ(0, result_of(child));
	EXPECT_SENT(self, LARGE);
	if (lends(self->kind)) {
		EXPECT_LT(LARGE * 3 / 4, lent_bytes() - before);
	}
	io_uring_queue_exit(&ring);
	munmap(data, LARGE);
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
