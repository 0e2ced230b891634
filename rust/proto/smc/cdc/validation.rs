// SPDX-License-Identifier: GPL-2.0

//! The first message on another link, which says how far the old one must have delivered, RFC 7609,
//! section 4.6.1.

use super::{
    msg::Msg,
    recv::{
        order,
        Order, //
    },
};
use crate::proto::base::time::Instant;

/// A validation message that announced more than had arrived (FOV-10).
///
/// The RFC would reset at once. But the two links have their own queues of completions, and what
/// the old one has delivered may wait in its queue while the new one's is looked at. So its
/// messages get a short time to arrive; the next message of the peer is held back meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validation {
    /// The number that must be reached.
    pub(super) number: u16,
    /// The number that must be reached next: the peer has moved again, and the message of that
    /// number has not arrived.
    pub(super) then: Option<u16>,
    /// The newest message beyond `number`.
    pub(super) held: Option<Msg>,
    pub(super) deadline: Instant,
}

impl Validation {
    /// Holds a message back if it is beyond the number. Returns whether it is.
    pub(super) fn hold(&mut self, message: &Msg) -> bool {
        if order(self.number, message.seq) == Order::Old {
            return false;
        }
        if self.then == Some(message.seq) {
            self.then = None;
        }
        let newest = self.held.map_or(self.number, |held| held.seq);
        if order(newest, message.seq) == Order::New {
            self.held = Some(*message);
        }
        true
    }

    /// The peer has moved again.
    pub(super) fn extend(&mut self, number: u16) {
        let seen = self.held.map_or(self.number, |held| held.seq);
        if order(seen, number) == Order::New {
            self.then = Some(number);
        }
    }
}
