// SPDX-License-Identifier: GPL-2.0

//! Memory that RDMA devices read and write.
//!
//! | Type | Purpose | Writer |
//! |--------------------------|--------------------------------------|------------------------------|
//! | [`sendbuf::SendBuffer`]  | source of RDMA writes and messages   | the CPU; devices read        |
//! | [`region::PeerMemory`]   | target of a peer's RDMA writes       | the peer at any time         |
//! | [`user_pages::LentMemory`] | source of RDMA writes and messages | the program it belongs to    |
//!
//! No type ever gives out a reference into its memory: data is copied in or out by pointer, so the
//! compiler assumes nothing about octets that a peer or a program may change.

pub(super) mod block;
pub(crate) mod cgroup;
pub(super) mod chunks;
pub(crate) mod region;

use crate::bindings;
use kernel::{
    alloc::KBox,
    page::PAGE_SIZE, //
};

/// What is dropped when memory is free again, for its owner to take note.
pub(crate) type OnFree = KBox<dyn Send + Sync>;

/// The memory of this host in KiB. Context: any.
pub(crate) fn host_kbytes() -> u64 {
    // SAFETY: No requirements.
    let pages = unsafe { bindings::rdma_sock_helper_totalram_pages() };
    u64::try_from(pages.saturating_mul(PAGE_SIZE / 1024)).unwrap_or(u64::MAX)
}
