// SPDX-License-Identifier: GPL-2.0
/* UDP sockets of the kernel itself, as functions Rust can call. */

#include "helpers_udp.h"

#include <net/ip.h>
#include <net/ipv6.h>
#include <net/sock.h>

struct net *rdma_sock_helper_maybe_get_net(struct net *net)
{
	return maybe_get_net(net);
}

/* The socket holds the memory of the namespace, and does not keep it from its exit. */
int rdma_sock_helper_udp_create(struct net *net, u16 family, int rcvbuf,
				struct socket **res)
{
	struct sock *sk;
	int err;

	err = sock_create_kern(net, family, SOCK_DGRAM, IPPROTO_UDP, res);
	if (err)
		return err;
	sk = (*res)->sk;
	sock_set_rcvbuf(sk, rcvbuf);
	if (family == AF_INET6) {
		ip6_sock_set_v6only(sk);
		ip6_sock_set_recvpktinfo(sk);
	} else {
		ip_sock_set_pktinfo(sk);
	}
	return 0;
}

static __be32 v4_of(const u8 *ip)
{
	return ((const struct in6_addr *)ip)->s6_addr32[3];
}

static int put_name(const struct socket *sock, struct sockaddr_storage *name,
		    const u8 *ip, __be16 port, u32 scope)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)name;
	struct sockaddr_in *v4 = (struct sockaddr_in *)name;

	memset(name, 0, sizeof(*name));
	if (sock->sk->sk_family == AF_INET6) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = port;
		v6->sin6_addr = *(const struct in6_addr *)ip;
		v6->sin6_scope_id = scope;
		return sizeof(*v6);
	}
	v4->sin_family = AF_INET;
	v4->sin_port = port;
	v4->sin_addr.s_addr = v4_of(ip);
	return sizeof(*v4);
}

int rdma_sock_helper_udp_bind(struct socket *sock, const u8 *ip, __be16 port,
			      u32 scope)
{
	struct sockaddr_storage name;
	int len = put_name(sock, &name, ip, port, scope);

	return kernel_bind(sock, (void *)&name, len);
}

int rdma_sock_helper_udp_connect(struct socket *sock, const u8 *ip, __be16 port,
				 u32 scope)
{
	struct sockaddr_storage name;
	int len = put_name(sock, &name, ip, port, scope);

	return kernel_connect(sock, (void *)&name, len, O_NONBLOCK);
}

int rdma_sock_helper_udp_send(struct socket *sock, const void *data, size_t len)
{
	struct kvec vec = { .iov_base = (void *)data, .iov_len = len };
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };

	return kernel_sendmsg(sock, &msg, &vec, 1, len);
}

/* Room for the control message that has the local address of a datagram. */
union pktinfo {
	struct cmsghdr head;
	u8 room[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

/* The datagram leaves from the address @from, and for a link-local one by the interface @scope. */
int rdma_sock_helper_udp_send_to(struct socket *sock, const void *data,
				 size_t len, const u8 *to, __be16 port,
				 const u8 *from, u32 scope)
{
	struct kvec vec = { .iov_base = (void *)data, .iov_len = len };
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct sockaddr_storage name;
	union pktinfo control = {};

	msg.msg_namelen = put_name(sock, &name, to, port, scope);
	msg.msg_name = &name;
	msg.msg_control = &control;
	if (sock->sk->sk_family == AF_INET6) {
		struct in6_pktinfo *info = CMSG_DATA(&control.head);

		control.head.cmsg_level = SOL_IPV6;
		control.head.cmsg_type = IPV6_PKTINFO;
		control.head.cmsg_len = CMSG_LEN(sizeof(*info));
		msg.msg_controllen = CMSG_SPACE(sizeof(*info));
		info->ipi6_addr = *(const struct in6_addr *)from;
		info->ipi6_ifindex = scope;
	} else {
		struct in_pktinfo *info = CMSG_DATA(&control.head);

		control.head.cmsg_level = SOL_IP;
		control.head.cmsg_type = IP_PKTINFO;
		control.head.cmsg_len = CMSG_LEN(sizeof(*info));
		msg.msg_controllen = CMSG_SPACE(sizeof(*info));
		info->ipi_spec_dst.s_addr = v4_of(from);
	}
	return kernel_sendmsg(sock, &msg, &vec, 1, len);
}

/* @direct: the datagram was sent to an address of this host, and not to a group. */
int rdma_sock_helper_udp_recv(struct socket *sock, void *room, size_t len,
			      u8 *from, __be16 *port, u8 *to, u32 *scope,
			      bool *direct)
{
	struct kvec vec = { .iov_base = room, .iov_len = len };
	union pktinfo control = {};
	struct sockaddr_storage name = {};
	struct msghdr msg = {
		.msg_name = &name,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int ret;

	ret = kernel_recvmsg(sock, &msg, &vec, 1, len, MSG_DONTWAIT);
	if (ret < 0)
		return ret;
	*direct = false;
	*scope = 0;
	if (sock->sk->sk_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const void *)&name;
		const struct in6_pktinfo *info = CMSG_DATA(&control.head);

		*port = v6->sin6_port;
		*scope = v6->sin6_scope_id;
		*(struct in6_addr *)from = v6->sin6_addr;
		*(struct in6_addr *)to = info->ipi6_addr;
		*direct = control.head.cmsg_level == SOL_IPV6 &&
			  control.head.cmsg_type == IPV6_PKTINFO &&
			  !ipv6_addr_is_multicast(&info->ipi6_addr);
	} else {
		const struct sockaddr_in *v4 = (const void *)&name;
		const struct in_pktinfo *info = CMSG_DATA(&control.head);

		*port = v4->sin_port;
		ipv6_addr_set_v4mapped(v4->sin_addr.s_addr, (struct in6_addr *)from);
		ipv6_addr_set_v4mapped(info->ipi_addr.s_addr, (struct in6_addr *)to);
		*direct = control.head.cmsg_level == SOL_IP &&
			  control.head.cmsg_type == IP_PKTINFO &&
			  info->ipi_addr.s_addr == info->ipi_spec_dst.s_addr;
	}
	return ret;
}
