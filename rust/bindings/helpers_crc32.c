// SPDX-License-Identifier: GPL-2.0
/* The kernel's CRC-32, as functions Rust can call. */

#include "helpers_crc32.h"

#include <linux/bits.h>
#include <linux/crc32.h>

/* Whether it is more than a table of octets. */
bool rdma_sock_helper_crc32_is_fast(void)
{
	return crc32_optimizations() & CRC32_LE_OPTIMIZATION;
}

u32 rdma_sock_helper_crc32(u32 crc, const u8 *octets, size_t len)
{
	return crc32_le(crc, octets, len);
}
