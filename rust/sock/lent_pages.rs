// SPDX-License-Identifier: GPL-2.0

//! Pages that programs have lent to a connection for sending without a copy.
//!
//! A part is held here until its octets have arrived, and by each request that reads it until that
//! is complete, whichever is later. Only then its owner is told.

use crate::{
    kapi::verbs::user_pages::LentMemory,
    proto::stream::zerocopy::MAX_LENT, //
};
use kernel::sync::Arc;

/// The lent parts of a connection, at the places that its core names.
#[derive(Default)]
pub(crate) struct LentPages {
    places: [Option<Arc<LentMemory>>; MAX_LENT],
    /// How many of the places hold a part.
    count: usize,
}

/// Parts that are finished. The caller drops them without locks, which notifies their owners.
pub(crate) type Finished = [Option<Arc<LentMemory>>; MAX_LENT];

impl LentPages {
    /// The part at a place.
    pub(crate) fn get(&self, place: usize) -> Option<&Arc<LentMemory>> {
        self.places.get(place)?.as_ref()
    }

    /// Holds a part at a place.
    pub(crate) fn put(&mut self, place: usize, lent: Arc<LentMemory>) {
        if let Some(slot) = self.places.get_mut(place) {
            *slot = Some(lent);
            self.count = self.count.saturating_add(1);
        }
    }

    /// Takes out the parts that are finished: at places that are not `lent`.
    pub(crate) fn take_finished(&mut self, lent: impl Fn(usize) -> bool) -> Option<Finished> {
        if self.count == 0 {
            return None;
        }
        let mut finished = Finished::default();
        for (place, (part, finished)) in self.places.iter_mut().zip(&mut finished).enumerate() {
            if !lent(place) {
                *finished = part.take();
            }
        }
        let gone = finished.iter().flatten().count();
        self.count = self.count.saturating_sub(gone);
        (gone != 0).then_some(finished)
    }
}
