/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Inline functions, macros and fields of the connection managers' headers as functions that Rust
 * can call.
 */
#ifndef RDMA_SOCK_HELPERS_CM_H
#define RDMA_SOCK_HELPERS_CM_H

#include <rdma/ib_cm.h>
#include <rdma/rdma_cm.h>

struct rdma_cm_id *rdma_sock_helper_rdma_create_id(struct net *net, rdma_cm_event_handler handler,
						   void *context, enum rdma_ucm_port_space ps);
void *rdma_sock_helper_rdma_cm_context(struct rdma_cm_id *id);
void rdma_sock_helper_rdma_cm_adopt(struct rdma_cm_id *id, rdma_cm_event_handler handler,
				    void *context);
struct ib_device *rdma_sock_helper_rdma_cm_device(struct rdma_cm_id *id);
struct ib_device *rdma_sock_helper_rdma_cm_keep_device(struct rdma_cm_id *id);
u32 rdma_sock_helper_rdma_cm_port(struct rdma_cm_id *id);
const struct sa_path_rec *rdma_sock_helper_rdma_cm_path(struct rdma_cm_id *id);
const struct ib_gid_attr *rdma_sock_helper_rdma_cm_sgid_attr(struct rdma_cm_id *id);
struct net *rdma_sock_helper_init_net(void);

#endif /* RDMA_SOCK_HELPERS_CM_H */
