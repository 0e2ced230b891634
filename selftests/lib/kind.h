/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kinds of sockets to test: the ways to ask for one, on both sides or on one only. What is not a
 * socket of the module is a plain TCP socket, so that the expectations of a test are first of all
 * tried on TCP. SMC=0 in the environment makes all of them plain TCP.
 *
 * The client is in the network namespace rs-a, the server in rs-b, as lib/netns.sh makes them.
 */

#ifndef RS_KIND_H
#define RS_KIND_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef AF_SMC
#define AF_SMC 43
#endif
#ifndef IPPROTO_SMC
#define IPPROTO_SMC 256
#endif

enum side { CLIENT, SERVER };

struct kind {
	int family;	/* what socket() is asked for */
	int protocol;
	int ip;		/* the family of its addresses */
	bool smc[2];	/* is the client, is the server such a socket? */
};

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static inline bool smc_wanted(void)
{
	const char *value = getenv("SMC");

	return !value || strcmp(value, "0");
}

static inline bool is_smc(const struct kind *kind, enum side side)
{
	return smc_wanted() && kind->smc[side];
}

/* Do the data of a connection between both sides go by RDMA? */
static inline bool is_carried(const struct kind *kind)
{
	return is_smc(kind, CLIENT) && is_smc(kind, SERVER);
}

/* Moves this thread to the namespace of that side. */
static inline void enter(enum side side)
{
	static int fds[2] = { -1, -1 };
	static const char * const paths[] = { "/run/netns/rs-a", "/run/netns/rs-b" };

	if (fds[side] < 0)
		fds[side] = open(paths[side], O_RDONLY | O_CLOEXEC);
	if (fds[side] < 0 || setns(fds[side], CLONE_NEWNET)) {
		perror(paths[side]);
		_exit(1);
	}
}

static inline socklen_t address_size(const struct kind *kind)
{
	return kind->ip == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* The address of that side, with a port in host order. */
static inline union address address_of(const struct kind *kind, enum side side, int port)
{
	union address address = {};

	if (kind->ip == AF_INET) {
		address.in.sin_family = AF_INET;
		address.in.sin_port = htons(port);
		inet_pton(AF_INET, side == CLIENT ? "10.9.0.1" : "10.9.0.2", &address.in.sin_addr);
	} else {
		address.in6.sin6_family = AF_INET6;
		address.in6.sin6_port = htons(port);
		inet_pton(AF_INET6, side == CLIENT ? "fd09::1" : "fd09::2", &address.in6.sin6_addr);
	}
	return address;
}

static inline int port_of(const union address *address)
{
	/* The port is at the same place in both. */
	return ntohs(address->in.sin_port);
}

static inline int local_port(int fd)
{
	union address address;
	socklen_t size = sizeof(address);

	if (getsockname(fd, &address.sa, &size))
		return -1;
	return port_of(&address);
}

static inline int peer_port(int fd)
{
	union address address;
	socklen_t size = sizeof(address);

	if (getpeername(fd, &address.sa, &size))
		return -1;
	return port_of(&address);
}

/* Are these the same host, whatever the ports? */
static inline bool same_host(const union address *a, const union address *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr));
}

/* A new socket of that side; `flags` as in the type for socket(). */
static inline int new_socket(const struct kind *kind, enum side side, int flags)
{
	enter(side);
	if (is_smc(kind, side))
		return socket(kind->family, SOCK_STREAM | flags, kind->protocol);
	return socket(kind->ip, SOCK_STREAM | flags, IPPROTO_TCP);
}

/* Binds a socket of that side to its address and a free port. */
static inline int bind_any(const struct kind *kind, enum side side, int fd)
{
	union address address = address_of(kind, side, 0);

	return bind(fd, &address.sa, address_size(kind));
}

/* A listening socket on a free port of the server; `prepare` may be NULL. */
static inline int new_listener(const struct kind *kind, int backlog, void (*prepare)(int fd))
{
	int fd = new_socket(kind, SERVER, 0);

	if (fd < 0)
		return -1;
	if (prepare)
		prepare(fd);
	if (bind_any(kind, SERVER, fd) || listen(fd, backlog)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Connects a socket of the client to a listener of the server. */
static inline int connect_to(const struct kind *kind, int fd, int listener)
{
	union address address = address_of(kind, SERVER, local_port(listener));

	return connect(fd, &address.sa, address_size(kind));
}

#endif
