/* SPDX-License-Identifier: GPL-2.0 */
/* References to network devices and their notifications, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_NETDEV_H
#define RDMA_SOCK_HELPERS_NETDEV_H

#include <linux/netdevice.h>

/* The events that rdma_soft.ko follows. */
enum rdma_sock_netdev_event {
	RDMA_SOCK_NETDEV_UNREGISTER = NETDEV_UNREGISTER,
	RDMA_SOCK_NETDEV_UP = NETDEV_UP,
	RDMA_SOCK_NETDEV_DOWN = NETDEV_DOWN,
	RDMA_SOCK_NETDEV_CHANGE = NETDEV_CHANGE,
	RDMA_SOCK_NETDEV_CHANGEMTU = NETDEV_CHANGEMTU,
	RDMA_SOCK_NETDEV_CHANGEADDR = NETDEV_CHANGEADDR,
};

/* The kinds of network devices that carry RoCE. */
enum rdma_sock_netdev_kind {
	RDMA_SOCK_NETDEV_OTHER,
	RDMA_SOCK_NETDEV_ETHERNET,
	RDMA_SOCK_NETDEV_LOOPBACK,
	RDMA_SOCK_NETDEV_RAW_IP,
};

void rdma_sock_helper_dev_hold(struct net_device *dev);
void rdma_sock_helper_dev_put(struct net_device *dev);
unsigned int rdma_sock_helper_dev_mtu(const struct net_device *dev);
bool rdma_sock_helper_dev_address(const struct net_device *dev, u8 *mac);
bool rdma_sock_helper_dev_is_active(const struct net_device *dev);
bool rdma_sock_helper_dev_is_registered(const struct net_device *dev);
enum rdma_sock_netdev_kind
rdma_sock_helper_dev_kind(const struct net_device *dev);
struct net *rdma_sock_helper_dev_get_net(const struct net_device *dev);
void rdma_sock_helper_rtnl_lock(void);
void rdma_sock_helper_rtnl_unlock(void);
struct net_device *rdma_sock_helper_notifier_dev(void *info);

#endif /* RDMA_SOCK_HELPERS_NETDEV_H */
