// SPDX-License-Identifier: GPL-2.0

//! The kernel's routine for CRC-32.
//!
//! C header: [`include/linux/crc32.h`](srctree/include/linux/crc32.h)

use crate::bindings;

/// Whether the routine uses instructions of the processor for this. Context: any.
pub(crate) fn is_fast() -> bool {
    // SAFETY: The helper has no preconditions.
    unsafe { bindings::rdma_sock_helper_crc32_is_fast() }
}

/// The state of a checksum after more octets, without the inversions. Context: any.
pub(crate) fn update(state: u32, octets: &[u8]) -> u32 {
    // SAFETY: The octets are valid for reads of their length.
    unsafe { bindings::rdma_sock_helper_crc32(state, octets.as_ptr(), octets.len()) }
}
