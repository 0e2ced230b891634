// SPDX-License-Identifier: GPL-2.0
/* References to network devices and their notifications, as functions Rust can call. */

#include "helpers_netdev.h"

#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/rtnetlink.h>

void rdma_sock_helper_dev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

void rdma_sock_helper_dev_put(struct net_device *dev)
{
	dev_put(dev);
}

unsigned int rdma_sock_helper_dev_mtu(const struct net_device *dev)
{
	return READ_ONCE(dev->mtu);
}

/* Whether the device has an Ethernet address of its own, and that address. */
bool rdma_sock_helper_dev_address(const struct net_device *dev, u8 *mac)
{
	if (dev->addr_len != ETH_ALEN || is_zero_ether_addr(dev->dev_addr))
		return false;
	ether_addr_copy(mac, dev->dev_addr);
	return true;
}

bool rdma_sock_helper_dev_is_active(const struct net_device *dev)
{
	return netif_running(dev) && netif_carrier_ok(dev);
}

/* Stable only while the caller has the RTNL. */
bool rdma_sock_helper_dev_is_registered(const struct net_device *dev)
{
	return dev->reg_state == NETREG_REGISTERED;
}

enum rdma_sock_netdev_kind
rdma_sock_helper_dev_kind(const struct net_device *dev)
{
	if (is_vlan_dev(dev))
		return RDMA_SOCK_NETDEV_OTHER;
	switch (dev->type) {
	case ARPHRD_ETHER:
		return RDMA_SOCK_NETDEV_ETHERNET;
	case ARPHRD_LOOPBACK:
		return RDMA_SOCK_NETDEV_LOOPBACK;
	case ARPHRD_NONE:
		return RDMA_SOCK_NETDEV_RAW_IP;
	default:
		return RDMA_SOCK_NETDEV_OTHER;
	}
}

struct net *rdma_sock_helper_dev_get_net(const struct net_device *dev)
{
	return get_net(dev_net(dev));
}

void rdma_sock_helper_rtnl_lock(void)
{
	rtnl_lock();
}

void rdma_sock_helper_rtnl_unlock(void)
{
	rtnl_unlock();
}

struct net_device *rdma_sock_helper_notifier_dev(void *info)
{
	return netdev_notifier_info_to_dev(info);
}
