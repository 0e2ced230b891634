/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's CRC-32, as functions Rust can call. */
#ifndef RDMA_SOCK_HELPERS_CRC32_H
#define RDMA_SOCK_HELPERS_CRC32_H

#include <linux/types.h>

bool rdma_sock_helper_crc32_is_fast(void);
u32 rdma_sock_helper_crc32(u32 crc, const u8 *octets, size_t len);

#endif /* RDMA_SOCK_HELPERS_CRC32_H */
