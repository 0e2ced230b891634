// SPDX-License-Identifier: GPL-2.0

//! Memory shared with a program in user space that holds a ring of slots (RNIC-UAPI-01).

use crate::{
    kapi::ibdev::UserRing,
    proto::roce::ring::{
        RingShape,
        PRODUCER_AT,
        SHAPE_AT, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A ring whose shape the library knows.
pub(super) struct ShapedRing {
    /// Its memory.
    pub(super) memory: Arc<UserRing>,
    /// Its shape.
    pub(super) shape: RingShape,
}

impl ShapedRing {
    /// Tells the library the shape of a new ring.
    ///
    /// # Errors
    ///
    /// `EINVAL` for memory that is too short.
    pub(super) fn new(memory: Arc<UserRing>, shape: RingShape) -> Result<Self> {
        let [bits, mask] = shape.words();
        let mut words = [0; 8];
        let (first, last) = words.split_at_mut(4);
        first.copy_from_slice(&bits.to_ne_bytes());
        last.copy_from_slice(&mask.to_ne_bytes());
        memory.store(SHAPE_AT, &words).map_err(|_| EINVAL)?;
        Ok(Self { memory, shape })
    }

    /// Appends `count` slots, from the index `from` on, to an empty ring whose producer is at `at`, and
    /// returns where its producer is then. `slot` has room for the octets that count of each.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they do not fit.
    pub(super) fn append_to(
        &self,
        to: &Self,
        count: u32,
        (mut from, mut at): (u32, u32),
        slot: &mut [u8],
    ) -> Result<u32> {
        if count > to.shape.entries() {
            return Err(EINVAL);
        }
        for _ in 0..count {
            let (old, new) = (self.shape.slot_at(from), to.shape.slot_at(at));
            self.memory.load(old, slot).map_err(|_| EINVAL)?;
            to.memory.store(new, slot).map_err(|_| EINVAL)?;
            from = self.shape.after(from);
            at = to.shape.after(at);
        }
        let stored = to.memory.store_index(PRODUCER_AT, at);
        stored.map(|()| at).map_err(|_| EINVAL)
    }
}
