// SPDX-License-Identifier: GPL-2.0
/* Parameters of rdma_soft that a user may change while it is loaded, as functions Rust can call. */

#include "helpers_param.h"

#include <linux/compiler.h>
#include <linux/moduleparam.h>

static bool direct = true;
module_param(direct, bool, 0644);
MODULE_PARM_DESC(direct, "Packets between queue pairs of this host: 1 as memory once their way is proven, 0 always by the network");

bool rdma_sock_helper_param_direct(void)
{
	return READ_ONCE(direct);
}
