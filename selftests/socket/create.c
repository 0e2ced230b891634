// SPDX-License-Identifier: GPL-2.0
/* socket(), bind(), listen(), and the names of sockets, with all their errors. */

#define RS_WITH_SDP
#define RS_WITH_OFED

#include <kselftest_harness.h>

#include "conn.h"

TEST(arguments_of_af_smc)
{
	int fd;

	if (!smc_wanted())
		SKIP(return, "SMC is off");
	EXPECT_EQ(ESOCKTNOSUPPORT, last_errno(socket(AF_SMC, SOCK_DGRAM, 0)));
	EXPECT_EQ(ESOCKTNOSUPPORT, last_errno(socket(AF_SMC, SOCK_SEQPACKET, 0)));
	EXPECT_EQ(EPROTONOSUPPORT, last_errno(socket(AF_SMC, SOCK_STREAM, 2)));
	EXPECT_EQ(EPROTONOSUPPORT, last_errno(socket(AF_SMC, SOCK_STREAM, IPPROTO_TCP)));
	EXPECT_EQ(EPROTONOSUPPORT, last_errno(socket(AF_SMC, SOCK_STREAM, IPPROTO_SMC)));
	EXPECT_EQ(EINVAL, last_errno(socket(AF_SMC, SOCK_STREAM | 0x100000, 0)));
	fd = socket(AF_SMC, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 1);
	ASSERT_LE(0, fd);
	EXPECT_EQ(O_NONBLOCK, fcntl(fd, F_GETFL) & O_NONBLOCK);
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	close(fd);
}

/* API-01. */
TEST(arguments_of_ipproto_smc)
{
	if (!smc_wanted())
		SKIP(return, "SMC is off");
	EXPECT_NE(0, last_errno(socket(AF_INET, SOCK_DGRAM, IPPROTO_SMC)));
	EXPECT_NE(0, last_errno(socket(AF_INET6, SOCK_DGRAM, IPPROTO_SMC)));
	EXPECT_NE(0, last_errno(socket(AF_UNIX, SOCK_STREAM, IPPROTO_SMC)));
}

TEST(arguments_of_af_inet_sdp)
{
	static const int families[] = { AF_INET_SDP, AF_INET6_SDP };
	static const int domains[] = { AF_INET, AF_INET6 };
	int n, fd, value, protocol;
	socklen_t size;

	if (!smc_wanted())
		SKIP(return, "SDP is off");
	for (n = 0; n < 2; n++) {
		EXPECT_EQ(ESOCKTNOSUPPORT, last_errno(socket(families[n], SOCK_DGRAM, 0)));
		EXPECT_EQ(ESOCKTNOSUPPORT, last_errno(socket(families[n], SOCK_SEQPACKET, 0)));
		EXPECT_EQ(EPROTONOSUPPORT, last_errno(socket(families[n], SOCK_STREAM, 1)));
		EXPECT_EQ(EPROTONOSUPPORT,
			  last_errno(socket(families[n], SOCK_STREAM, IPPROTO_SDP)));
		for (protocol = 0; protocol <= IPPROTO_TCP; protocol += IPPROTO_TCP) {
			fd = socket(families[n], SOCK_STREAM | SOCK_CLOEXEC, protocol);
			ASSERT_LE(0, fd);
			size = sizeof(value);
			ASSERT_EQ(0, getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &size));
			EXPECT_EQ(domains[n], value);
			EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
			close(fd);
		}
	}
}

/* Programs that know only these families give their addresses as well. */
TEST(addresses_of_af_inet_sdp)
{
	static const struct kind kinds[] = {
		{ AF_INET_SDP, 0, AF_INET, { SDP, SDP } },
		{ AF_INET6_SDP, 0, AF_INET6, { SDP, SDP } },
		{ AF_INET, IPPROTO_SDP, AF_INET, { SDP, SDP } },
	};
	static const int names[] = { AF_INET_SDP, AF_INET6_SDP, AF_INET_SDP };
	union address address;
	socklen_t size;
	char octet = 0;
	int n;

	if (!smc_wanted())
		SKIP(return, "SDP is off");
	for (n = 0; n < 3; n++) {
		const struct kind *kind = &kinds[n], tcp = { kind->ip, 0, kind->ip, { TCP, TCP } };
		int listener = new_listener(&tcp, 1, NULL), client = new_socket(&tcp, CLIENT, 0);
		int server;

		/*
		 * The ends know each other's link addresses: those of IPv6 may be later than the
		 * answer of the Port Mapper, for which a client waits 150 ms.
		 */
		ASSERT_EQ(0, connect_to(&tcp, client, listener));
		close(client);
		close(listener);
		listener = new_socket(kind, SERVER, 0);
		address = address_of(kind, SERVER, 0);
		address.sa.sa_family = names[n];
		ASSERT_EQ(0, bind(listener, &address.sa, address_size(kind)));
		ASSERT_EQ(0, listen(listener, 1));
		size = sizeof(address);
		ASSERT_EQ(0, getsockname(listener, &address.sa, &size));
		EXPECT_EQ(kind->ip, address.sa.sa_family);
		client = new_socket(kind, CLIENT, 0);
		address.sa.sa_family = names[n];
		ASSERT_EQ(0, connect(client, &address.sa, address_size(kind)));
		server = accept(listener, NULL, NULL);
		ASSERT_LE(0, server);
		EXPECT_PATH(kind, client, server);
		size = sizeof(address);
		ASSERT_EQ(0, getpeername(client, &address.sa, &size));
		EXPECT_EQ(kind->ip, address.sa.sa_family);
		ASSERT_EQ(1, send(client, "s", 1, 0));
		ASSERT_EQ(1, recv(server, &octet, 1, 0));
		EXPECT_EQ('s', octet);
		close(client);
		close(server);
		close(listener);
	}
	/* The other family, and that of an SMC socket, are none. */
	n = new_socket(&kinds[0], SERVER, 0);
	address = address_of(&kinds[0], SERVER, 0);
	address.sa.sa_family = AF_INET6_SDP;
	EXPECT_NE(0, last_errno(bind(n, &address.sa, sizeof(address))));
	close(n);
	n = socket(AF_SMC, SOCK_STREAM, 0);
	address.sa.sa_family = AF_INET_SDP;
	EXPECT_EQ(EAFNOSUPPORT, last_errno(bind(n, &address.sa, sizeof(address))));
	close(n);
}

TEST(socketpair_is_refused)
{
	int fds[2];

	if (!smc_wanted())
		SKIP(return, "SMC is off");
	EXPECT_EQ(EOPNOTSUPP, last_errno(socketpair(AF_SMC, SOCK_STREAM, 0, fds)));
	EXPECT_EQ(EOPNOTSUPP, last_errno(socketpair(AF_INET, SOCK_STREAM, IPPROTO_SMC, fds)));
}

TEST(many_sockets_come_and_go)
{
	struct kind kinds[] = {
		{ AF_INET, IPPROTO_SMC, AF_INET, { SMC, SMC } },
		{ AF_SMC, 1, AF_INET6, { SMC, SMC } },
	};
	int n, fds[500];

	for (n = 0; n < 500; n++) {
		fds[n] = new_socket(&kinds[n % 2], CLIENT, 0);
		ASSERT_LE(0, fds[n]);
	}
	for (n = 0; n < 500; n++)
		ASSERT_EQ(0, close(fds[n]));
}

TEST_F(kind, unbound_socket_has_the_zero_name)
{
	int fd = new_socket(self->kind, SERVER, 0), value;
	union address address;
	socklen_t size = sizeof(address);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, getsockname(fd, &address.sa, &size));
	EXPECT_EQ(address_size(self->kind), size);
	EXPECT_EQ(self->kind->ip, address.sa.sa_family);
	EXPECT_EQ(0, port_of(&address));
	size = sizeof(address);
	EXPECT_EQ(ENOTCONN, last_errno(getpeername(fd, &address.sa, &size)));
	size = sizeof(value);
	ASSERT_EQ(0, getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &size));
	EXPECT_EQ(SOCK_STREAM, value);
	ASSERT_EQ(0, getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size));
	EXPECT_EQ(0, value);
	ASSERT_EQ(0, getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &size));
	EXPECT_EQ(0, value);
	close(fd);
}

TEST_F(kind, bind_and_getsockname)
{
	int fd = new_socket(self->kind, SERVER, 0), other;
	union address address;
	socklen_t size = sizeof(address);
	union address wanted = address_of(self->kind, SERVER, 0);

	ASSERT_EQ(0, bind_any(self->kind, SERVER, fd));
	ASSERT_EQ(0, getsockname(fd, &address.sa, &size));
	EXPECT_LT(0, port_of(&address));
	EXPECT_TRUE(same_host(&wanted, &address));
	/* A second bind() fails, and so does one to a used address. */
	EXPECT_EQ(EINVAL, last_errno(bind_any(self->kind, SERVER, fd)));
	other = new_socket(self->kind, SERVER, 0);
	EXPECT_EQ(EADDRINUSE, last_errno(bind(other, &address.sa, size)));
	close(fd);
	EXPECT_EQ(0, bind(other, &address.sa, size));
	close(other);
}

TEST_F(kind, bad_addresses_for_bind)
{
	int fd = new_socket(self->kind, SERVER, 0);
	union address address = address_of(self->kind, CLIENT, 0);
	socklen_t size = address_size(self->kind);

	EXPECT_EQ(EADDRNOTAVAIL, last_errno(bind(fd, &address.sa, size)));
	address = address_of(self->kind, SERVER, 0);
	EXPECT_EQ(EINVAL, last_errno(bind(fd, &address.sa, size - 8)));
	EXPECT_EQ(EFAULT, last_errno(bind(fd, (void *)8, size)));
	address.sa.sa_family = AF_UNIX;
	EXPECT_EQ(EAFNOSUPPORT, last_errno(bind(fd, &address.sa, size)));
	/* The socket still works after all these errors. */
	EXPECT_EQ(0, bind_any(self->kind, SERVER, fd));
	close(fd);
}

TEST_F(kind, listen_makes_a_listener)
{
	int fd = new_socket(self->kind, SERVER, 0), value;
	socklen_t size = sizeof(value);

	ASSERT_EQ(0, bind_any(self->kind, SERVER, fd));
	ASSERT_EQ(0, listen(fd, 1));
	ASSERT_EQ(0, getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size));
	EXPECT_EQ(1, value);
	/* A second listen() changes the length of the queue. */
	EXPECT_EQ(0, listen(fd, 100));
	EXPECT_EQ(0, await_events(fd, POLLIN | POLLOUT, 0));
	EXPECT_EQ(EISCONN, last_errno(connect_to(self->kind, fd, fd)));
	EXPECT_EQ(ENOTCONN, last_errno(recv(fd, &value, 1, MSG_DONTWAIT)));
	EXPECT_EQ(EPIPE, last_errno(send(fd, &value, 1, MSG_NOSIGNAL | MSG_DONTWAIT)));
	close(fd);
}

TEST_F(kind, listen_without_bind_takes_a_port)
{
	int fd = new_socket(self->kind, SERVER, 0);

	ASSERT_EQ(0, listen(fd, 1));
	EXPECT_LT(0, local_port(fd));
	close(fd);
}

TEST_F(kind, listen_on_a_taken_address_is_refused)
{
	int listener = new_listener(self->kind, 1, NULL);
	int fd = new_socket(self->kind, SERVER, 0);
	union address address;

	ASSERT_LE(0, listener);
	address = address_of(self->kind, SERVER, local_port(listener));
	EXPECT_EQ(EADDRINUSE, last_errno(bind(fd, &address.sa, address_size(self->kind))));
	close(fd);
	close(listener);
}

TEST_F(kind, two_listeners_share_a_port)
{
	int fds[2], n, one = 1, client, served = 0;
	union address address = address_of(self->kind, SERVER, 0);

	for (n = 0; n < 2; n++) {
		fds[n] = new_socket(self->kind, SERVER, SOCK_NONBLOCK);
		ASSERT_EQ(0, setsockopt(fds[n], SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)));
		ASSERT_EQ(0, bind(fds[n], &address.sa, address_size(self->kind)));
		ASSERT_EQ(0, listen(fds[n], 8));
		address = address_of(self->kind, SERVER, local_port(fds[n]));
	}
	client = new_socket(self->kind, CLIENT, 0);
	ASSERT_EQ(0, connect(client, &address.sa, address_size(self->kind)));
	while (!served) {
		struct pollfd polled[2] = { { fds[0], POLLIN }, { fds[1], POLLIN } };

		ASSERT_LT(0, poll(polled, 2, 5000));
		for (n = 0; n < 2; n++) {
			int fd = accept(fds[n], NULL, NULL);

			if (fd < 0)
				continue;
			served++;
			EXPECT_PATH(self->kind, client, fd);
			close(fd);
		}
	}
	EXPECT_EQ(1, served);
	close(client);
	close(fds[0]);
	close(fds[1]);
}

/* API-01. */
TEST_F(conn, names_of_both_ends_agree)
{
	union address a, b;
	socklen_t size = sizeof(a);

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	ASSERT_EQ(0, getsockname(self->client, &a.sa, &size));
	EXPECT_EQ(address_size(self->kind), size);
	ASSERT_EQ(0, getpeername(self->server, &b.sa, &size));
	EXPECT_EQ(address_size(self->kind), size);
	EXPECT_EQ(0, memcmp(&a, &b, sizeof(a)));
	ASSERT_EQ(0, getsockname(self->server, &a.sa, &size));
	ASSERT_EQ(0, getpeername(self->client, &b.sa, &size));
	EXPECT_EQ(0, memcmp(&a, &b, sizeof(a)));
	EXPECT_EQ(local_port(self->listener), port_of(&a));
	/* A short buffer gets a part of the name, and the full size. */
	size = 4;
	ASSERT_EQ(0, getsockname(self->client, &a.sa, &size));
	EXPECT_EQ(address_size(self->kind), size);
}

TEST_F(conn, connected_socket_refuses_bind_and_listen)
{
	EXPECT_EQ(EINVAL, last_errno(bind_any(self->kind, CLIENT, self->client)));
	EXPECT_EQ(EINVAL, last_errno(listen(self->client, 1)));
	EXPECT_EQ(EINVAL, last_errno(accept(self->client, NULL, NULL)));
	/* The socket still works. */
	EXPECT_EQ(1, send(self->client, "x", 1, 0));
	EXPECT_EQ(POLLIN, await_events(self->server, POLLIN, 5000));
}

int main(int argc, char **argv)
{
	return run_in_namespaces(argc, argv);
}
