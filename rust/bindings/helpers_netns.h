/* SPDX-License-Identifier: GPL-2.0 */
/* Network namespaces, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_NETNS_H
#define RDMA_SOCK_HELPERS_NETNS_H

#include <linux/sysctl.h>
#include <net/net_namespace.h>

struct net *rdma_sock_helper_get_net(struct net *net);
void rdma_sock_helper_put_net(struct net *net);
u64 rdma_sock_helper_net_cookie(const struct net *net);
bool rdma_sock_helper_is_init_net(const struct net *net);
struct ctl_table_header *
rdma_sock_helper_register_net_sysctl(struct net *net, const char *path,
				     const struct ctl_table *table,
				     size_t entries);

#endif /* RDMA_SOCK_HELPERS_NETNS_H */
