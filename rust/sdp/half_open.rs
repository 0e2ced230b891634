// SPDX-License-Identifier: GPL-2.0

//! Set-ups of children that are under way, with the places that a peer and a listener have for them.

use crate::{
    kapi::compat::errno::ENOBUFS,
    proto::{
        base::quota::is_one_peer,
        sdp::admission::HalfOpens, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// A set-up that is under way.
struct HalfOpenEntry {
    id: u64,
    port: u16,
    peer: [u8; 16],
}

/// What is under way, and the id of the next one.
struct HalfOpenList {
    entries: KVec<HalfOpenEntry>,
    next: u64,
}

/// The set-ups of a namespace that are under way.
#[pin_data]
pub(super) struct HalfOpenTable {
    #[pin]
    list: Mutex<HalfOpenList>,
}

impl HalfOpenTable {
    /// None is under way. Context: may sleep.
    pub(super) fn new() -> Result<Arc<Self>> {
        let empty = HalfOpenList {
            entries: KVec::new(),
            next: 0,
        };
        let list = new_mutex!(empty, "rdma_sock_sdp_half_open");
        Arc::pin_init(pin_init!(Self { list <- list }), GFP_KERNEL)
    }

    /// Begins a set-up for a listener on `port` with a peer, whose IPv4 address is in mapped form.
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if there are too many; `ENOMEM`.
    pub(super) fn begin(self: &Arc<Self>, port: u16, peer: [u8; 16]) -> Result<HalfOpenPlace> {
        let list = &mut *self.list.lock();
        let mut counts = HalfOpens::default();
        for entry in &list.entries {
            counts.count(entry.port == port, is_one_peer(&entry.peer, &peer));
        }
        if !counts.allows_another() {
            return Err(ENOBUFS);
        }
        let id = list.next;
        let entry = HalfOpenEntry { id, port, peer };
        list.entries.push(entry, GFP_KERNEL)?;
        list.next = id.wrapping_add(1);
        Ok(HalfOpenPlace {
            table: self.clone(),
            id,
        })
    }
}

/// The place of a set-up, until it is dropped. Context of the drop: it may sleep.
pub(super) struct HalfOpenPlace {
    table: Arc<HalfOpenTable>,
    id: u64,
}

impl Drop for HalfOpenPlace {
    fn drop(&mut self) {
        let mut list = self.table.list.lock();
        list.entries.retain(|entry| entry.id != self.id);
    }
}
