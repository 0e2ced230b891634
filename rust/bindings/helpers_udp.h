/* SPDX-License-Identifier: GPL-2.0 */
/* UDP sockets of the kernel itself. IPv4 addresses are given as mapped ones. */
#ifndef RDMA_SOCK_HELPERS_UDP_H
#define RDMA_SOCK_HELPERS_UDP_H

#include <linux/net.h>
#include <net/net_namespace.h>

struct net *rdma_sock_helper_maybe_get_net(struct net *net);

int rdma_sock_helper_udp_create(struct net *net, u16 family, int rcvbuf,
				struct socket **res);
int rdma_sock_helper_udp_bind(struct socket *sock, const u8 *ip, __be16 port,
			      u32 scope);
int rdma_sock_helper_udp_connect(struct socket *sock, const u8 *ip, __be16 port,
				 u32 scope);
int rdma_sock_helper_udp_send(struct socket *sock, const void *data, size_t len);
int rdma_sock_helper_udp_send_to(struct socket *sock, const void *data,
				 size_t len, const u8 *to, __be16 port,
				 const u8 *from, u32 scope);
int rdma_sock_helper_udp_recv(struct socket *sock, void *room, size_t len,
			      u8 *from, __be16 *port, u8 *to, u32 *scope,
			      bool *direct);

#endif /* RDMA_SOCK_HELPERS_UDP_H */
