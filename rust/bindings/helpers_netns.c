// SPDX-License-Identifier: GPL-2.0
/* Network namespaces, as functions Rust can call. */

#include "helpers_netns.h"

struct net *rdma_sock_helper_get_net(struct net *net)
{
	return get_net(net);
}

void rdma_sock_helper_put_net(struct net *net)
{
	put_net(net);
}

u64 rdma_sock_helper_net_cookie(const struct net *net)
{
	return net->net_cookie;
}

bool rdma_sock_helper_is_init_net(const struct net *net)
{
	return net_eq(net, &init_net);
}

/*
 * Some kernels take a table that is not const, because they make unsafe entries
 * read-only. So the memory has to be writable.
 */
struct ctl_table_header *
rdma_sock_helper_register_net_sysctl(struct net *net, const char *path,
				     const struct ctl_table *table,
				     size_t entries)
{
	return register_net_sysctl_sz(net, path, (void *)table, entries);
}
