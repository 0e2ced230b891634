// SPDX-License-Identifier: GPL-2.0
/*
 * Inline functions, macros and fields of the connection managers' headers as functions that Rust
 * can call. There is no logic here.
 */

#include <net/net_namespace.h>

#include "helpers_cm.h"

struct rdma_cm_id *rdma_sock_helper_rdma_create_id(struct net *net, rdma_cm_event_handler handler,
						   void *context, enum rdma_ucm_port_space ps)
{
	return rdma_create_id(net, handler, context, ps, IB_QPT_RC);
}

void *rdma_sock_helper_rdma_cm_context(struct rdma_cm_id *id)
{
	return id->context;
}

void rdma_sock_helper_rdma_cm_adopt(struct rdma_cm_id *id, rdma_cm_event_handler handler,
				    void *context)
{
	id->context = context;
	id->event_handler = handler;
}

struct ib_device *rdma_sock_helper_rdma_cm_device(struct rdma_cm_id *id)
{
	return id->device;
}

/* Takes a reference to the registration of the id's device, if it has one. */
struct ib_device *rdma_sock_helper_rdma_cm_keep_device(struct rdma_cm_id *id)
{
	struct ib_device *device = id->device;

	return device && ib_device_try_get(device) ? device : NULL;
}

u32 rdma_sock_helper_rdma_cm_port(struct rdma_cm_id *id)
{
	return id->port_num;
}

const struct sa_path_rec *rdma_sock_helper_rdma_cm_path(struct rdma_cm_id *id)
{
	return id->route.path_rec;
}

const struct ib_gid_attr *rdma_sock_helper_rdma_cm_sgid_attr(struct rdma_cm_id *id)
{
	return id->route.addr.dev_addr.sgid_attr;
}

struct net *rdma_sock_helper_init_net(void)
{
	return &init_net;
}
