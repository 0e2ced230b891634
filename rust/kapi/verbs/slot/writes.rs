// SPDX-License-Identifier: GPL-2.0

//! The requests of the RDMA writes in front of messages, and the pieces of memory they read.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::bindings;
use core::{
    cell::UnsafeCell,
    ptr::null_mut, //
};
use kernel::prelude::*;

/// The writes of all send slots, as many for each, and the pieces of memory they are read from.
pub(in crate::kapi::verbs) struct WriteRequests {
    wrs: KVVec<UnsafeCell<bindings::ib_rdma_wr>>,
    sges: KVVec<UnsafeCell<bindings::ib_sge>>,
    max_wrs: usize,
    max_sges: usize,
}

impl WriteRequests {
    /// For `slots` slots of `writes` writes from a source of `pieces` pieces. Context: may sleep.
    pub(in crate::kapi::verbs) fn new(slots: usize, writes: usize, pieces: usize) -> Result<Self> {
        // Where one write ends and the next begins, a lent piece belongs to both.
        let max_sges = match writes.checked_sub(1) {
            Some(borders) => pieces.checked_add(borders).ok_or(EINVAL)?,
            None => 0,
        };
        Ok(Self {
            wrs: zeroed(slots, writes)?,
            sges: zeroed(slots, max_sges)?,
            max_wrs: writes,
            max_sges,
        })
    }

    /// The part of a slot.
    pub(in crate::kapi::verbs) fn of_slot(&self, index: u16) -> Result<SlotWrites> {
        Ok(SlotWrites {
            wrs: part(&self.wrs, index, self.max_wrs)?,
            sges: part(&self.sges, index, self.max_sges)?,
            max_wrs: self.max_wrs,
            max_sges: self.max_sges,
        })
    }
}

/// `slots` times `each` requests or pieces. Context: may sleep.
fn zeroed<R: Default>(slots: usize, each: usize) -> Result<KVVec<UnsafeCell<R>>> {
    let count = slots.checked_mul(each).ok_or(EINVAL)?;
    let mut all = KVVec::with_capacity(count, GFP_KERNEL)?;
    for _ in 0..count {
        all.push(UnsafeCell::default(), GFP_KERNEL)?;
    }
    Ok(all)
}

/// The first of the `each` requests or pieces of a slot.
fn part<R>(all: &[UnsafeCell<R>], index: u16, each: usize) -> Result<*mut R> {
    let first = usize::from(index).checked_mul(each).ok_or(EINVAL)?;
    let end = first.checked_add(each).ok_or(EINVAL)?;
    let part = all.get(first..end).ok_or(EINVAL)?;
    Ok(UnsafeCell::raw_get(part.as_ptr()))
}

/// The writes of one slot: `max_wrs` requests and `max_sges` pieces.
#[derive(Clone, Copy)]
pub(in crate::kapi::verbs) struct SlotWrites {
    pub(super) wrs: *mut bindings::ib_rdma_wr,
    pub(super) sges: *mut bindings::ib_sge,
    pub(super) max_wrs: usize,
    pub(super) max_sges: usize,
}

impl SlotWrites {
    /// No writes, for a slot that is not built.
    pub(super) const NONE: Self = Self {
        wrs: null_mut(),
        sges: null_mut(),
        max_wrs: 0,
        max_sges: 0,
    };
}
