// SPDX-License-Identifier: GPL-2.0

//! How much memory a connection has, and how much it may have.

use crate::{
    kapi::verbs::{
        channel::WriteSource,
        sendbuf::SendBuffer, //
    },
    proto::base::time::Instant,
    sock::context::now, //
};
use kernel::sync::Arc;

/// Octets of the send ring of a new connection.
pub(super) const FIRST_RING: usize = 16 << 10;
/// Octets of the send ring of a socket without SO_SNDBUF.
const RING: usize = 128 << 10;
/// Most octets of a send ring.
const MOST_RING: usize = 4 << 20;

/// How large the memory of a connection may become.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Receive buffers that the peer may fill.
    pub(super) credits: u16,
    /// All receive buffers.
    pub(super) buffers: u16,
    /// Octets of the send ring.
    pub(super) ring: usize,
}

/// Octets that the send ring may grow to, of a socket whose SO_SNDBUF is `sndbuf`, if it has one.
pub(super) fn most_ring(sndbuf: Option<usize>) -> usize {
    let ring = sndbuf.unwrap_or(RING).clamp(FIRST_RING, MOST_RING);
    ring.checked_next_power_of_two().unwrap_or(MOST_RING)
}

/// A send ring, and the same as the device reads it.
pub(super) type Ring = (Arc<SendBuffer>, WriteSource);

/// What a connection has of its memory, and what it waits for.
pub(super) struct Growth {
    /// How much it may have.
    pub(super) room: Room,
    /// Receive buffers that there are.
    pub(super) buffers: u16,
    /// The work item is to add some.
    pub(super) is_asked: bool,
    /// The next send ring, until the one in use is empty.
    pub(super) next_ring: Option<Ring>,
    /// There was no memory: when to ask again.
    pub(super) after: Option<Instant>,
}

impl Growth {
    /// A connection with `buffers` receive buffers.
    pub(super) fn new(room: Room, buffers: u16) -> Self {
        Self {
            room,
            buffers,
            is_asked: false,
            next_ring: None,
            after: None,
        }
    }

    /// Whether writers wait for the next ring.
    pub(super) fn is_changing(&self) -> bool {
        self.next_ring.is_some()
    }

    /// Takes the next ring out, if there is one.
    pub(super) fn take_ring(&mut self) -> Option<Ring> {
        self.next_ring.take()
    }

    /// Whether memory may be asked for.
    pub(super) fn may_ask(&self) -> bool {
        self.after.is_none_or(|after| after <= now())
    }
}
