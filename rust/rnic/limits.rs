// SPDX-License-Identifier: GPL-2.0

//! The limits of a device (RNIC-LIM-01).

/// Queue pairs of a device.
pub(super) const MAX_QP: u32 = 65_536;
/// Work requests of a queue.
pub(super) const MAX_QP_WR: u32 = 16_384;
/// Scatter/gather elements of a work request.
pub(super) const MAX_SGE: u32 = 16;
/// Octets of a message that a work request can contain.
pub(super) const MAX_INLINE: u32 = 256;
/// Shared receive queues of a device.
pub(super) const MAX_SRQ: u32 = 65_536;
/// Completion queues of a device.
pub(super) const MAX_CQ: u32 = 65_536;
/// Entries of a completion queue.
pub(super) const MAX_CQE: u32 = 32_767;
/// Memory regions of a device.
pub(super) const MAX_MR: u32 = 1 << 20;
/// Memory windows of a device.
pub(super) const MAX_MW: u32 = 1 << 20;
/// Memory regions and windows of a device.
pub(super) const MAX_KEYS: u32 = MAX_MR + MAX_MW;
/// Octets of a memory region.
pub(super) const MAX_MR_SIZE: u64 = (1 << 48) - 1;
/// Page sizes of a memory region: powers of two from 4 KiB to 2 GiB.
pub(super) const PAGE_SIZES: u64 = 0xffff_f000;
/// Protection domains of a device.
pub(super) const MAX_PD: u32 = 1 << 20;
/// Address handles of a device.
pub(super) const MAX_AH: u32 = 32_767;
/// READs and atomics in flight on a queue pair.
pub(super) const MAX_RD_ATOMIC: u32 = 128;
/// Pages of a fast registration.
pub(super) const MAX_FAST_REG_PAGES: u32 = 2_048;
/// Code of the time that the device takes to acknowledge, 4 ms (RNIC-TMO-07).
pub(super) const ACK_DELAY: u8 = 10;
/// Octets of the headers of a packet, for the choice of the payload's length (RNIC-IP-12).
pub(super) const HEADER_ROOM: u32 = 80;
