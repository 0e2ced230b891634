/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The headers whose interfaces are bound for rdma_sock.ko, see rust/Kbuild for the names that are
 * taken from them.
 */

#include <linux/dma-mapping.h>
#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/tcp.h>
#include <net/inet_connection_sock.h>
#include <net/inet_sock.h>
#include <net/protocol.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include "helpers_capture.h"
#include "helpers_child.h"
#include "helpers_cm.h"
#include "helpers_cmsg.h"
#include "helpers_genl.h"
#include "helpers_hide.h"
#include "helpers_inet.h"
#include "helpers_memory.h"
#include "helpers_net.h"
#include "helpers_netlink.h"
#include "helpers_netns.h"
#include "helpers_pages.h"
#include "helpers_pnetid.h"
#include "helpers_rdma.h"
#include "helpers_route.h"
#include "helpers_skb.h"
#include "helpers_sock.h"
#include "helpers_sys.h"
#include "helpers_tcp.h"
#include "helpers_trace.h"
#include "helpers_udp.h"
#include "helpers_xfrm.h"
