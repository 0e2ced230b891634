// SPDX-License-Identifier: GPL-2.0
/*
 * Connections of all kinds, without end; each follows the plan of its seed (plan.h) in a process of
 * its own, and leaves a record (record.h).
 *
 * traffic serve NAME=VALUE...   take connections, until SIGTERM
 * traffic call NAME=VALUE...    make connections, until SIGTERM
 * traffic churn NAME=VALUE...   each with a listener of its own, from rs-a to rs-b, with moments
 *                               when there is no socket at all
 * traffic one seed=N ...        make that connection, and no other
 * traffic show seed=N ...       the plan of that connection
 *
 * records=FILE, port=N (the first of the listeners' ports), to=IPV4, to6=IPV6, seed=N, parallel=N,
 * largest=N (octets of a stream), ipv6=0|1, patience=N (seconds without progress after which a
 * connection counts as stuck), pace=N (ms between two new connections), ready=N (a descriptor that
 * is written to as soon as the listeners are there)
 */

#define _GNU_SOURCE
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "path.h"
#include "plan.h"
#include "record.h"
#include "ways.h"

#define MAX_PARALLEL 64
#define HEADER_CHECK 0x50a4ULL

static const char *records_path = "records", *to = "127.0.0.1", *to6 = "::1";
static unsigned long long base_seed = 1;
static int first_port = 7000, parallel = 8, patience = 60, pace = 20, ready = -1;
static struct limits limits = { 1 << 20, true };

static struct record *table;
static sig_atomic_t ending_soon;

/* --- one end of a connection ------------------------------------------------------------------ */

struct end {
	int fd;
	int side;
	struct plan plan;
	struct record *record;
	pthread_mutex_t lock;	/* of an early end */
};

static void let_fail(const struct end *end)
{
	int fd;

	if (!end->plan.side[end->side].fails)
		return;
	fd = open("/proc/thread-self/make-it-fail", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "1", 1) != 1)
		end->record->retries++;
	close(fd);
}

static void set_number(int fd, int level, int name, int value)
{
	/* A refused setting keeps its value. */
	(void)!setsockopt(fd, level, name, &value, sizeof(value));
}

/* Limits every wait, and detects a peer that has disappeared. */
static void set_bounds(int fd)
{
	struct timeval tick = { TICK / 1000, TICK % 1000 * 1000 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tick, sizeof(tick));
	set_number(fd, SOL_SOCKET, SO_OOBINLINE, 1);
	set_number(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_number(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
	set_number(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
	set_number(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
	set_number(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 40000);
	set_number(fd, IPPROTO_TCP, TCP_SYNCNT, 3);
}

static void set_options(int fd, const struct side_plan *side)
{
	if (side->nodelay)
		set_number(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	if (side->corks)
		set_number(fd, IPPROTO_TCP, TCP_CORK, 1);
	if (side->sndbuf)
		set_number(fd, SOL_SOCKET, SO_SNDBUF, side->sndbuf);
	if (side->rcvbuf)
		set_number(fd, SOL_SOCKET, SO_RCVBUF, side->rcvbuf);
	if (side->writes == OTHER && side->lends)
		set_number(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
}

static void set_linger(int fd, int seconds)
{
	struct linger linger = { 1, seconds };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

/* Whether an error ends the connection. After other errors the program repeats the call. */
static bool is_final(struct end *end, int error)
{
	switch (error) {
	case EINTR:
	case EAGAIN:
		return false;
	case ENOMEM:
	case ENOBUFS:
		end->record->retries++;
		usleep(10000);
		return false;
	default:
		return true;
	}
}

/* The planned early end, which any thread of the connection may reach. */
static void maybe_end(struct end *end)
{
	const struct side_plan *side = &end->plan.side[end->side];

	if (side->ending < ABORTS || end->record->sent + end->record->got < side->ends_after)
		return;
	pthread_mutex_lock(&end->lock);
	end->record->end = now_ms();
	end->record->state = OVER;
	if (side->ending == ABORTS)
		set_linger(end->fd, 0);
	if (side->ending == IS_KILLED)
		raise(SIGKILL);
	_exit(0);
}

static void maybe_pause(const struct side_plan *side, struct dice *dice)
{
	if (side->pause && percent(dice, 3))
		usleep(1000 * (1 + below(dice, side->pause)));
}

/*
 * Allocates memory with its pages. User-Mode Linux panics when it finds no page table for user
 * memory that it copies to (maybe_map() of 7.3), as after an injected failure of its allocation.
 */
static char *with_pages(size_t size)
{
	char *data = malloc(size);

	if (data)
		memset(data, 1, size);
	return data;
}

static __u64 seed_of_stream(const struct end *end, int writer)
{
	return mixed(end->plan.seed + 1 + writer);
}

/* Writes the octets of the stream up to `whole`; false if the connection ended. */
static bool write_up_to(struct end *end, struct tools *t, char *data, __u64 whole)
{
	const struct side_plan *side = &end->plan.side[end->side];
	struct record *record = end->record;

	while (record->sent < whole) {
		size_t part = 1 + below(&t->dice, side->largest_part), done = 0;

		if (part > whole - record->sent)
			part = whole - record->sent;
		fill_from(data, part, seed_of_stream(end, end->side), record->sent);
		while (done < part) {
			ssize_t n;

			record->sending = record->sent + part - done;
			n = write_some(t, side->writes, data + done, part - done);
			if (n < 0 && is_final(end, errno)) {
				record->send_error = errno;
				return false;
			}
			if (n > 0) {
				done += n;
				record->sent += n;
				record->progress = now_ms();
			}
			maybe_end(end);
		}
		while (t->lent != t->returned && await_memory(t)) {
			if (is_final(end, errno)) {
				record->send_error = errno;
				return false;
			}
		}
		maybe_pause(side, &t->dice);
	}
	record->sending = record->sent;
	return true;
}

/*
 * Reads and compares up to `whole`, or to the end of the stream; false if the connection ended
 * before.
 */
static bool read_up_to(struct end *end, struct tools *t, char *data, __u64 whole)
{
	const struct side_plan *side = &end->plan.side[end->side];
	struct record *record = end->record;

	while (record->got < whole) {
		size_t part = 1 + below(&t->dice, side->largest_part), same;
		ssize_t n;

		if (part > whole - record->got)
			part = whole - record->got;
		n = read_some(t, side->reads, data, part);
		if (n < 0) {
			if (!is_final(end, errno))
				continue;
			record->receive_error = errno;
			return false;
		}
		if (!n) {
			record->saw_end = 1;
			return false;
		}
		same = same_from(data, n, seed_of_stream(end, !end->side), record->got);
		record->got += same;
		if (same != (size_t)n) {
			record->wrong_at = record->got;
			printf("soak: LOST: seed %llu: octet %llu to the %s is %02x\n",
			       record->seed, record->got,
			       end->side == SERVER ? "server" : "client",
			       (unsigned char)data[same]);
			return false;
		}
		record->progress = now_ms();
		maybe_end(end);
		maybe_pause(side, &t->dice);
	}
	return true;
}

static void *write_stream(void *arg)
{
	struct end *end = arg;
	const struct side_plan *side = &end->plan.side[end->side];
	char *data = with_pages(LARGEST_PART);
	struct tools t;

	if (!data || open_tools(&t, end->fd, side->writes, false, end->plan.seed + end->side)) {
		end->record->send_error = ENOMEM;
		free(data);
		return NULL;
	}
	t.lends = side->writes == OTHER && side->lends;
	let_fail(end);
	maybe_end(end);
	if (write_up_to(end, &t, data, end->plan.size[end->side]) && side->ending != CLOSES &&
	    side->ending != LINGERS)
		end->record->shut = !shutdown(end->fd, SHUT_WR);
	close_tools(&t);
	free(data);
	return NULL;
}

static void *read_stream(void *arg)
{
	struct end *end = arg;
	const struct side_plan *side = &end->plan.side[end->side];
	char *data = with_pages(LARGEST_PART);
	struct tools t;

	if (!data || open_tools(&t, end->fd, side->reads, true, end->plan.seed + 2 + end->side)) {
		end->record->receive_error = ENOMEM;
		free(data);
		return NULL;
	}
	let_fail(end);
	/* Reads to the end of the stream, which must come at the planned position. */
	read_up_to(end, &t, data, ~0ULL);
	close_tools(&t);
	free(data);
	return NULL;
}

/* Requests and answers, in turn. */
static void talk(struct end *end)
{
	const struct side_plan *side = &end->plan.side[end->side];
	struct dice dice = { .state = mixed(end->plan.seed + 77) };
	struct tools in = { .pipe = { -1, -1 } }, out = in;
	char *data = with_pages(LARGEST_PART);
	__u64 due[2] = {};
	unsigned int n, turn;
	bool goes_on = true;

	if (!data || open_tools(&out, end->fd, side->writes, false, end->plan.seed) ||
	    open_tools(&in, end->fd, side->reads, true, end->plan.seed)) {
		end->record->send_error = ENOMEM;
		goto out;
	}
	out.lends = side->writes == OTHER && side->lends;
	for (n = 0; n < end->plan.rounds && goes_on; n++) {
		for (turn = 0; turn < 2 && goes_on; turn++) {
			due[turn] += 1 + below(&dice, percent(&dice, 90) ? 200 : 20000);
			if ((int)turn == end->side)
				goes_on = write_up_to(end, &out, data, due[turn]);
			else
				goes_on = read_up_to(end, &in, data, due[turn]);
		}
	}
	if (goes_on) {
		end->record->shut = !shutdown(end->fd, SHUT_WR);
		read_up_to(end, &in, data, ~0ULL);
	}
out:
	close_tools(&in);
	close_tools(&out);
	free(data);
}

static void note_mode(struct end *end)
{
	char line[sizeof(conn_line)];
	FILE *f = fopen("/proc/thread-self/net/rdma_sock/conns", "re");
	int local = local_port(end->fd), peer = peer_port(end->fd);

	end->record->mode = BY_TCP;
	/* Without the module there is no such file. */
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		if (strstr(line, " mode=smc ") && has_port(line, " local=", local) &&
		    has_port(line, " peer=", peer))
			end->record->mode = BY_RDMA;
	}
	fclose(f);
}

/* Runs the plan on an established connection. Does not return. */
static void run_end(struct end *end)
{
	const struct side_plan *side = &end->plan.side[end->side];
	pthread_t reader, writer;
	bool only_writes = side->ending == CLOSES || side->ending == LINGERS;
	bool has_reader = false, has_writer;

	end->record->state = OPEN;
	end->record->ending = side->ending;
	set_options(end->fd, side);
	note_mode(end);
	pthread_mutex_init(&end->lock, NULL);
	if (side->ending == LINGERS)
		set_linger(end->fd, 5);
	if (end->plan.rounds) {
		talk(end);
	} else {
		has_writer = !pthread_create(&writer, NULL, write_stream, end);
		if (!only_writes)
			has_reader = !pthread_create(&reader, NULL, read_stream, end);
		if (!has_writer || (!only_writes && !has_reader)) {
			/* No memory: the other end gets a reset. */
			end->record->send_error = ENOMEM;
			set_linger(end->fd, 0);
			_exit(0);
		}
		pthread_join(writer, NULL);
		if (has_reader)
			pthread_join(reader, NULL);
	}
	/* A close that drops sent octets: the other end must get an error. */
	if (only_writes && !end->record->send_error)
		end->record->shut = 1;
	close(end->fd);
	end->record->end = now_ms();
	end->record->state = OVER;
	_exit(0);
}

/* --- the client ------------------------------------------------------------------------------- */

static union address where(const struct kind *kind, int port)
{
	union address address = {};

	if (kind->ip == AF_INET) {
		address.in.sin_family = AF_INET;
		address.in.sin_port = htons(port);
		inet_pton(AF_INET, to, &address.in.sin_addr);
	} else {
		address.in6.sin6_family = AF_INET6;
		address.in6.sin6_port = htons(port);
		inet_pton(AF_INET6, to6, &address.in6.sin6_addr);
	}
	return address;
}

/* A socket of the kind; a TCP socket without the module. */
static int socket_of(const struct kind *kind, enum side side)
{
	int fd = -1;

	if (kind->engine[side] != TCP)
		fd = socket(kind->family, SOCK_STREAM | SOCK_CLOEXEC, kind->protocol);
	if (fd < 0)
		fd = socket(kind->ip, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	return fd;
}

static int send_header(int fd, __u64 seed)
{
	__u64 header[2] = { seed, mixed(seed + HEADER_CHECK) };
	size_t at = 0;

	while (at < sizeof(header)) {
		ssize_t n = send(fd, (char *)header + at, sizeof(header) - at, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR && errno != EAGAIN && errno != ENOMEM &&
		    errno != ENOBUFS)
			return -1;
		at += n > 0 ? n : 0;
	}
	return 0;
}

/* connect() with the time limit of any call. */
static int connect_in_time(int fd, const union address *address, socklen_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t length = sizeof(int);
	int error = 0;

	if (!connect(fd, &address->sa, size))
		return 0;
	if (errno != EINPROGRESS && errno != EAGAIN && errno != EINTR)
		return -1;
	if (poll(&p, 1, patience * 500) <= 0) {
		errno = ETIMEDOUT;
		return -1;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length))
		return -1;
	errno = error;
	return error ? -1 : 0;
}

static void run_client(struct record *record, __u64 seed, int port)
{
	struct end end = { .side = CLIENT, .record = record, .plan = plan_of(seed, &limits) };
	struct kind kind = kind_of(end.plan.sockets);
	union address address = where(&kind, port);

	record->pid = getpid();
	record->seed = seed;
	let_fail(&end);
	end.fd = socket_of(&kind, CLIENT);
	if (end.fd < 0) {
		record->connect_error = errno;
		_exit(0);
	}
	set_bounds(end.fd);
	if (end.plan.side[CLIENT].rcvbuf)
		set_number(end.fd, SOL_SOCKET, SO_RCVBUF, end.plan.side[CLIENT].rcvbuf);
	if (connect_in_time(end.fd, &address, address_size(&kind))) {
		record->connect_error = errno;
		record->end = now_ms();
		_exit(0);
	}
	if (send_header(end.fd, seed)) {
		record->send_error = errno;
		record->state = OPEN;
		record->end = now_ms();
		_exit(0);
	}
	run_end(&end);
}

/* --- the server ------------------------------------------------------------------------------- */

static void run_server(struct record *record, int fd)
{
	struct end end = { .side = SERVER, .record = record, .fd = fd };
	__u64 header[2], patient_until = now_ms() + patience * 1000ULL;
	size_t at = 0;

	record->pid = getpid();
	set_bounds(fd);
	while (at < sizeof(header) && now_ms() < patient_until) {
		ssize_t n = recv(fd, (char *)header + at, sizeof(header) - at, 0);

		if (!n || (n < 0 && is_final(&end, errno))) {
			record->receive_error = n ? errno : ENODATA;
			record->end = now_ms();
			_exit(0);
		}
		at += n > 0 ? n : 0;
	}
	if (at < sizeof(header)) {
		record->receive_error = ETIMEDOUT;
		record->end = now_ms();
		_exit(0);
	}
	if (header[1] != mixed(header[0] + HEADER_CHECK)) {
		record->wrong_at = 0;
		record->end = now_ms();
		printf("soak: LOST: the first octets of a connection: %016llx %016llx\n", header[0],
		       header[1]);
		_exit(0);
	}
	record->seed = header[0];
	record->progress = now_ms();
	end.plan = plan_of(record->seed, &limits);
	let_fail(&end);
	run_end(&end);
}

/* The listener for connections of these sockets. */
static int port_of_sockets(enum sockets sockets)
{
	switch (sockets) {
	case SMC6:
		return first_port + 1;
	case FAMILY4:
		return first_port + 2;
	case TO_TCP:
		return first_port + 3;
	default:
		return first_port;
	}
}

static int listener_of(const struct kind *kind, int port)
{
	union address address = {};
	int fd = socket_of(kind, SERVER);

	if (fd < 0)
		return -1;
	address.sa.sa_family = kind->ip;
	address.in.sin_port = htons(port);
	set_number(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	set_number(fd, SOL_SOCKET, SO_OOBINLINE, 1);
	if (bind(fd, &address.sa, address_size(kind)) || listen(fd, 64)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* --- the parents ------------------------------------------------------------------------------ */

struct child {
	pid_t pid;
	struct record *record;
};

static struct child children[MAX_PARALLEL];
static int running;

static void show_stacks(pid_t pid)
{
	char command[200];

	snprintf(command, sizeof(command),
		 "cd /proc/%d/task; cat */syscall */stack 2>/dev/null | sed 's/^/soak:   /'", pid);
	fflush(stdout);
	if (system(command))
		printf("soak: no stacks of %d\n", pid);
}

/* Reaps children, and kills those that hang. */
static void look_after_children(void)
{
	__u64 now = now_ms();
	int n;

	for (n = 0; n < MAX_PARALLEL; n++) {
		struct child *child = &children[n];

		if (!child->pid)
			continue;
		if (waitpid(child->pid, NULL, WNOHANG) == child->pid) {
			if (!child->record->end)
				child->record->end = now;
			child->pid = 0;
			running--;
			continue;
		}
		if (child->record->stuck ||
		    now < child->record->progress + patience * 1000ULL)
			continue;
		child->record->stuck = 1;
		printf("soak: STUCK: seed %llu: the %s has sent %llu and got %llu\n",
		       child->record->seed, child->record->server ? "server" : "client",
		       child->record->sent, child->record->got);
		show_stacks(child->pid);
		kill(child->pid, SIGKILL);
	}
}

/* Forks a child with a record; in the child the record, in the parent NULL. */
static struct record *begin_child(int server)
{
	struct record *record = NULL;
	pid_t pid;
	int n;

	for (n = 0; n < MAX_PARALLEL && children[n].pid; n++)
		;
	if (n < MAX_PARALLEL)
		record = new_record(table, server);
	if (!record) {
		ending_soon = 1;
		return NULL;
	}
	fflush(stdout);
	pid = fork();
	if (!pid) {
		signal(SIGTERM, SIG_DFL);
		return record;
	}
	if (pid < 0) {
		record->connect_error = errno;
		record->end = now_ms();
		return NULL;
	}
	children[n] = (struct child){ pid, record };
	running++;
	return NULL;
}

/* Waits for a signal, of a child or to end, for up to `ms` milliseconds. */
static void await_signal(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
	sigset_t none;

	sigemptyset(&none);
	ppoll(NULL, 0, &t, &none);
}

static int call(void)
{
	__u64 count = 0;

	while (!ending_soon || running) {
		if (!ending_soon && running < parallel) {
			__u64 seed = mixed(base_seed + count++);
			struct plan plan = plan_of(seed, &limits);
			struct record *record = begin_child(0);

			if (record)
				run_client(record, seed, port_of_sockets(plan.sockets));
			await_signal(pace);
		} else {
			await_signal(TICK);
		}
		look_after_children();
	}
	return 0;
}

/* Repeats one connection, for a closer look. */
static int one(void)
{
	struct plan plan = plan_of(base_seed, &limits);
	struct record *record = begin_child(0);

	if (record)
		run_client(record, base_seed, port_of_sockets(plan.sockets));
	while (running) {
		await_signal(TICK);
		look_after_children();
	}
	return 0;
}

static int serve(void)
{
	static const enum sockets sockets[] = { SMC4, SMC6, FAMILY4, TO_TCP };
	struct pollfd listeners[4];
	int n, count = 0, fd;
	sigset_t none;

	sigemptyset(&none);
	for (n = 0; n < 4; n++) {
		struct kind kind = kind_of(sockets[n]);

		if (sockets[n] == SMC6 && !limits.ipv6)
			continue;
		listeners[count].events = POLLIN;
		listeners[count].fd = listener_of(&kind, port_of_sockets(sockets[n]));
		if (listeners[count++].fd < 0) {
			printf("soak: cannot listen on %d: %m\n", port_of_sockets(sockets[n]));
			return 1;
		}
	}
	if (ready >= 0) {
		(void)!write(ready, "x", 1);
		close(ready);
	}
	while (!ending_soon || running) {
		struct timespec tick = { 1, 0 };
		bool full = ending_soon || running >= MAX_PARALLEL;
		int ready = ppoll(listeners, full ? 0 : count, &tick, &none);

		for (n = 0; ready > 0 && n < count; n++) {
			struct record *record;

			if (!(listeners[n].revents & POLLIN))
				continue;
			fd = accept4(listeners[n].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			if (fd < 0)
				continue;
			fcntl(fd, F_SETFL, 0);
			record = begin_child(1);
			if (record) {
				for (n = 0; n < count; n++)
					close(listeners[n].fd);
				run_server(record, fd);
			}
			close(fd);
		}
		look_after_children();
	}
	return 0;
}

/* Runs one connection with its own listener, from rs-a to rs-b. */
static void churn_one(__u64 seed)
{
	struct plan plan = plan_of(seed, &limits);
	struct kind kind = kind_of(plan.sockets);
	struct pollfd p = { .events = POLLIN };
	struct record *record;
	int port, fd;

	enter(SERVER);
	p.fd = listener_of(&kind, 0);
	if (p.fd < 0)
		return;
	port = local_port(p.fd);
	record = begin_child(1);
	if (record) {
		fd = -1;
		/* The client may have had no memory. */
		if (poll(&p, 1, patience * 500) > 0)
			fd = accept4(p.fd, NULL, NULL, SOCK_CLOEXEC);
		close(p.fd);
		if (fd >= 0)
			run_server(record, fd);
		_exit(0);
	}
	close(p.fd);
	enter(CLIENT);
	record = begin_child(0);
	if (record)
		run_client(record, seed, port);
}

static int churn(void)
{
	__u64 count = 0;

	while (!ending_soon || running) {
		while (!ending_soon && running < 2 * parallel)
			churn_one(mixed(base_seed + count++));
		while (running) {
			await_signal(TICK);
			look_after_children();
		}
		await_signal(pace);
	}
	return 0;
}

/* --- */

/* Prints a plan. */
static int show(void)
{
	static const char * const ways[] = {
		"plain", "vector", "polled", "spliced", "ring", "more/peek", "other/edge",
	};
	static const char * const endings[] = {
		"well", "closes", "lingers", "aborts", "killed", "stops",
	};
	struct plan plan = plan_of(base_seed, &limits);
	int side;

	printf("sockets %d, rounds %u\n", plan.sockets, plan.rounds);
	for (side = 0; side < 2; side++) {
		struct side_plan *s = &plan.side[side];

		printf("%s: %llu octets, writes %s, reads %s, lends %d, corks %d, ",
		       side ? "server" : "client", plan.size[side], ways[s->writes],
		       ways[s->reads], s->lends, s->corks);
		printf("parts %llu, pause %u, sndbuf %d, rcvbuf %d, %s after %llu\n",
		       s->largest_part, s->pause, s->sndbuf, s->rcvbuf, endings[s->ending],
		       s->ends_after);
	}
	return 0;
}

static void note_signal(int number)
{
	if (number == SIGTERM)
		ending_soon = 1;
}

static void read_word(const char *word)
{
	const char *value = strchr(word, '=');
	size_t n = value ? value - word : 0;
	const struct {
		const char *name;
		int *number;
	} numbers[] = {
		{ "port", &first_port }, { "parallel", &parallel }, { "patience", &patience },
		{ "pace", &pace }, { "ready", &ready },
	};
	size_t i;

	for (i = 0; n && i < sizeof(numbers) / sizeof(*numbers); i++) {
		if (strlen(numbers[i].name) == n && !strncmp(word, numbers[i].name, n)) {
			*numbers[i].number = atoi(value + 1);
			return;
		}
	}
	if (!strncmp(word, "records=", 8))
		records_path = value + 1;
	else if (!strncmp(word, "to=", 3))
		to = value + 1;
	else if (!strncmp(word, "to6=", 4))
		to6 = value + 1;
	else if (!strncmp(word, "seed=", 5))
		base_seed = strtoull(value + 1, NULL, 0);
	else if (!strncmp(word, "largest=", 8))
		limits.largest = strtoull(value + 1, NULL, 0);
	else if (!strncmp(word, "ipv6=", 5))
		limits.ipv6 = atoi(value + 1);
	else
		exit(2);
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_handler = note_signal };
	sigset_t blocked;
	int n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (n = 2; n < argc; n++)
		read_word(argv[n]);
	if (argc > 1 && !strcmp(argv[1], "show"))
		return show();
	/* Both signals arrive only while the parent waits. */
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGCHLD, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	table = open_records(records_path);
	if (!table) {
		perror(records_path);
		return 1;
	}
	if (argc > 1 && !strcmp(argv[1], "serve"))
		return serve();
	if (argc > 1 && !strcmp(argv[1], "call"))
		return call();
	if (argc > 1 && !strcmp(argv[1], "churn"))
		return churn();
	if (argc > 1 && !strcmp(argv[1], "one"))
		return one();
	return 2;
}
