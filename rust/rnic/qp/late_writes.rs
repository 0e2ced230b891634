// SPDX-License-Identifier: GPL-2.0

//! Octets of an RDMA WRITE that a device with a late profile has not placed so far.
//!
//! They are those of one message. The device places the last ones first, before anything that tells
//! a program of them: a receive completion, an acknowledgement, a response, an atomic operation.

use crate::{
    kapi::base::module::random_u32,
    proto::base::time::{
        Duration,
        Instant, //
    },
};
use core::mem::take;
use kernel::prelude::*;

/// Pieces of a message that wait, at most.
const MOST: usize = 64;

/// Least nanoseconds that they wait, and most beyond these.
const WAIT: (u32, u32) = (20_000, 300_000);

/// A piece of a message.
pub(super) struct LateWrite {
    /// The key of the memory.
    pub(super) key: u32,
    /// Where it goes to.
    pub(super) addr: u64,
    /// The octets.
    pub(super) octets: KVVec<u8>,
}

/// The pieces of a message, and until when they wait.
pub(super) struct LateWrites {
    pieces: KVec<LateWrite>,
    until: Option<Instant>,
}

impl LateWrites {
    /// None.
    pub(super) const fn new() -> Self {
        Self {
            pieces: KVec::new(),
            until: None,
        }
    }

    /// Copies a piece. Returns whether it waits; if not, there is no room for it.
    pub(super) fn push(&mut self, key: u32, addr: u64, octets: &[u8]) -> bool {
        if self.pieces.len() >= MOST {
            return false;
        }
        let mut copy = KVVec::new();
        let copied = copy.extend_from_slice(octets, GFP_ATOMIC).is_ok();
        let piece = LateWrite {
            key,
            addr,
            octets: copy,
        };
        copied && self.pieces.push(piece, GFP_ATOMIC).is_ok()
    }

    /// Takes all pieces, the first ones first.
    pub(super) fn take(&mut self) -> KVec<LateWrite> {
        self.until = None;
        take(&mut self.pieces)
    }

    /// Whether nothing waits, or has waited for its time. That begins with the first call.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        if self.pieces.is_empty() {
            return true;
        }
        let (least, most) = WAIT;
        let more = random_u32().checked_rem(most).unwrap_or(0);
        let wait = Duration::from_nanos(u64::from(least.saturating_add(more)));
        let until = *self.until.get_or_insert(now.saturating_add(wait));
        until <= now
    }

    /// When the wait is over.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_late_writes)]
mod tests {
    use super::*;

    #[test]
    fn pieces_wait_once_and_come_back_in_their_order() {
        let mut writes = LateWrites::new();
        let now = Instant::from_nanos(5_000_000);
        assert!(writes.is_due(now) && writes.poll_timeout().is_none());
        for addr in 0..3 {
            assert!(writes.push(7, addr, &[1, 2]));
        }
        assert!(!writes.is_due(now));
        let until = writes.poll_timeout().unwrap();
        assert!(until > now && !writes.is_due(now) && writes.poll_timeout() == Some(until));
        assert!(writes.is_due(until));
        let pieces = writes.take();
        assert!(pieces.iter().map(|piece| piece.addr).eq(0..3));
        assert!(pieces
            .iter()
            .all(|piece| piece.key == 7 && piece.octets.len() == 2));
        assert!(writes.is_due(now) && writes.poll_timeout().is_none());
    }

    /// RNIC-LIM-05.
    #[test]
    fn room_is_bounded() {
        let mut writes = LateWrites::new();
        assert!((0..MOST).all(|_| writes.push(1, 0, &[])));
        assert!(!writes.push(1, 0, &[]));
        assert!(writes.take().len() == MOST && writes.push(1, 0, &[]));
    }
}
