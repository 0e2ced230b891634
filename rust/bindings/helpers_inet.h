/* SPDX-License-Identifier: GPL-2.0 */
/* Fields of a TCP sock, its addresses and its path, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_INET_H
#define RDMA_SOCK_HELPERS_INET_H

#include <linux/netdevice.h>
#include <linux/tcp.h>
#include <net/sock.h>

/* linux/tcp.h, net/tcp.h, net/inet_sock.h */
int rdma_sock_helper_tcp_inq(struct sock *sk);
void rdma_sock_helper_tcp_shutdown_send(struct sock *sk);
bool rdma_sock_helper_tcp_signed(const struct sock *sk);
bool rdma_sock_helper_tcp_nodelay(const struct sock *sk);
bool rdma_sock_helper_tcp_corked(const struct sock *sk);
u32 rdma_sock_helper_tcp_keepalive(const struct sock *sk);
u32 rdma_sock_helper_tcp_user_timeout(const struct sock *sk);
u8 rdma_sock_helper_tcp_orphan_retries(const struct sock *sk);
bool rdma_sock_helper_tcp_repair(const struct sock *sk);
bool rdma_sock_helper_tcp_fastopen_connect(const struct sock *sk);
u32 rdma_sock_helper_tcp_write_seq(const struct sock *sk);
u8 rdma_sock_helper_tcp_save_syn(const struct sock *sk);
void rdma_sock_helper_tcp_set_save_syn(struct sock *sk, u8 value);
void rdma_sock_helper_tcp_swap_save_syn(struct sock *sk, u8 from, u8 to);
u32 rdma_sock_helper_tcp_syn_options(const struct sock *sk, u8 *to);
void rdma_sock_helper_tcp_saved_syn_free(struct sock *sk);
bool rdma_sock_helper_has_syn_smc(void);
bool rdma_sock_helper_syn_smc(const struct sock *sk);
bool rdma_sock_helper_rx_smc(const struct sock *sk);
void rdma_sock_helper_set_syn_smc(struct sock *sk, bool on);
void rdma_sock_helper_set_hs_congested(struct sock *sk, bool (*congested)(const struct sock *sk));
void rdma_sock_helper_have_smc(bool on);
void rdma_sock_helper_local_addr(const struct sock *sk, u8 *ip, __be16 *port,
				 u32 *scope);
void rdma_sock_helper_peer_addr(const struct sock *sk, u8 *ip, __be16 *port,
				u32 *scope);
struct sock *rdma_sock_helper_rsk_listener(struct sock *sk);
u32 rdma_sock_helper_rsk_syn_options(struct sock *sk, u8 *to);

/* net/dst.h, linux/if_vlan.h, linux/inetdevice.h, net/addrconf.h: all under rcu_read_lock() */
struct net_device *rdma_sock_helper_egress(struct sock *sk, u32 *mtu);
struct net_device *rdma_sock_helper_vlan_base(struct net_device *dev, u16 *vlan);
struct net_device *rdma_sock_helper_lowest_dev(struct net_device *dev, u16 *vlan);
void rdma_sock_helper_dev_name(const struct net_device *dev, char *name);
u32 rdma_sock_helper_dev_ifindex(const struct net_device *dev);
bool rdma_sock_helper_dev_is_loopback(const struct net_device *dev);
bool rdma_sock_helper_dev_mac(const struct net_device *dev, u8 *mac);
int rdma_sock_helper_ipv4_prefix(const struct net_device *dev, u32 addr_be,
				 u32 *net_be, u8 *len);
u32 rdma_sock_helper_ipv6_prefixes(const struct net_device *dev, u8 *prefixes,
				   u8 *lens, u32 room);

#endif
