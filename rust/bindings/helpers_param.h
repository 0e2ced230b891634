/* SPDX-License-Identifier: GPL-2.0 */
/* Parameters of rdma_soft that a user may change while it is loaded, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_PARAM_H
#define RDMA_SOCK_HELPERS_PARAM_H

#include <linux/types.h>

bool rdma_sock_helper_param_direct(void);

#endif /* RDMA_SOCK_HELPERS_PARAM_H */
