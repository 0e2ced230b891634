/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kinds of connections: how a program asks for the socket of either side, and the engine that
 * carries its data. lib/variants.h has the table of all kinds. SMC=0 in the environment makes every
 * socket a plain TCP socket, so that the expectations of a test can be tried on TCP alone.
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
/* The numbers of OFED's SDP, which are AF_IB and AF_MPLS of the kernel. */
#ifndef AF_INET_SDP
#define AF_INET_SDP 27
#define AF_INET6_SDP 28
#endif
#ifndef IPPROTO_SMC
#define IPPROTO_SMC 256
#endif
#ifndef IPPROTO_SDP
#define IPPROTO_SDP 257
#endif
/* Sockets of both, whose listeners serve the clients of both. */
#ifndef IPPROTO_DUAL
#define IPPROTO_DUAL 258
#endif
/* Protocols of the client's and of the server's socket, in one number. */
#define RS_BOTH_ENDS(client, server) ((client) | (server) << 16)

enum side { CLIENT, SERVER };

/* The protocols that carry data. NONE follows the last one. */
enum engine { TCP, SMC, SDP, NONE };

struct kind {
	int family;			/* of the socket() call */
	int protocol;			/* of the socket() call, or RS_BOTH_ENDS() */
	int ip;				/* the family of the addresses */
	enum engine engine[2];		/* of the client's and of the server's socket */
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

/* The engine that the socket of a side asks for. */
static inline enum engine engine_of(const struct kind *kind, enum side side)
{
	return smc_wanted() ? kind->engine[side] : TCP;
}

/* The engine that carries the data of a connection: TCP unless both sides ask for the same. */
static inline enum engine carrier_of(const struct kind *kind)
{
	enum engine client = engine_of(kind, CLIENT);

	return client == engine_of(kind, SERVER) ? client : TCP;
}

/* Do the data of a connection go by RDMA? */
static inline bool is_carried(const struct kind *kind)
{
	return carrier_of(kind) != TCP;
}

/* The mode of a connection that the engine carries, as in the file `conns`. */
static const char * const mode_names[] = { [TCP] = "tcp", [SMC] = "smc", [SDP] = "sdp" };

/* The engine of a mode of the file `conns`. TCP also for a handshake, or for an unlisted socket. */
static inline enum engine engine_of_mode(const char *mode)
{
	enum engine engine;

	for (engine = SMC; engine < NONE; engine++) {
		if (!strcmp(mode_names[engine], mode))
			return engine;
	}
	return TCP;
}

/* Moves this thread to the namespace of a side. */
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

/* The address of a side, with a port in host order. */
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
	/* Both structures have the port at the same place. */
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

/* The protocol argument of a side's socket() call. */
static inline int protocol_of(const struct kind *kind, enum side side)
{
	int server = kind->protocol >> 16;

	return server && side == SERVER ? server : kind->protocol & 0xffff;
}

/* A new socket of a side; `flags` are those in the type argument of socket(). */
static inline int new_socket(const struct kind *kind, enum side side, int flags)
{
	enter(side);
	if (engine_of(kind, side) != TCP)
		return socket(kind->family, SOCK_STREAM | flags, protocol_of(kind, side));
	return socket(kind->ip, SOCK_STREAM | flags, IPPROTO_TCP);
}

/* Binds a socket of a side to the address of that side and a free port. */
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
