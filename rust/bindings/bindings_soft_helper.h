/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The headers whose interfaces are bound for rdma_soft.ko, see rust/Kbuild for the names that are
 * taken from them.
 */

#include "helpers_crc32.h"
#include "helpers_ibdev.h"
#include "helpers_netdev.h"
#include "helpers_netns.h"
#include "helpers_packet.h"
#include "helpers_param.h"
#include "helpers_percpu.h"
#include "helpers_sys.h"
#include "helpers_uverbs.h"
