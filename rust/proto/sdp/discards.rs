// SPDX-License-Identifier: GPL-2.0

//! SinkAvail adverts of the peer, and which of them are stale, draft 9.5.1 (SDP-STALE-*).
//!
//! A Data message that crosses a SinkAvail uses the advertised buffer up. Both ends count messages
//! with payload, so that the source finds out which adverts that concerns. This implementation
//! sends no RDMA Write: it lets each SinkAvail become stale by the next Data (SDP-FBS-01).

use super::fifo::Fifo;

/// Adverts of either kind at a time, in either direction.
pub(crate) const MAX_ADVERTS: usize = 16;

/// What becomes of a SinkAvail that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SinkAvailFate {
    /// It was used up by our message with payload of this number (SDP-STALE-07). The peer has
    /// dropped each SrcAvail that we sent before that message.
    Stale {
        /// Number of the message among those with payload.
        by: u64,
    },
    /// It is valid: SrcAvail adverts of ours are void (SDP-MODE-25 to SDP-MODE-27).
    Fresh,
}

/// The window after ModeChange to Combined, until the peer has it (SDP-MT-61).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Window {
    /// Count of the ModeChange message.
    change: u64,
    /// The counter as it was then.
    frozen: u32,
    /// Messages with payload sent by then.
    payloads: u64,
}

/// The queue and its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Discards {
    /// NonDiscards of each SinkAvail that is queued.
    queue: Fifo<u32, MAX_ADVERTS>,
    /// PND: messages with payload that may have used up no SinkAvail (SDP-STALE-05).
    potential: u32,
    /// Messages with payload sent.
    payloads: u64,
    window: Option<Window>,
}

/// The message that used a SinkAvail up: the first of those that the peer had not counted.
fn used_up_by(payloads: u64, potential: u32, non_discards: u32) -> u64 {
    let uncounted = u64::from(potential.wrapping_sub(non_discards));
    payloads.saturating_sub(uncounted).saturating_add(1)
}

impl Discards {
    pub(super) const fn new(potential: u32) -> Self {
        Self {
            queue: Fifo::new(),
            potential,
            payloads: 0,
            window: None,
        }
    }

    /// A message of ours with payload is sent, of whatever type (SDP-STALE-06, SDP-STALE-13).
    pub(super) fn on_payload(&mut self) {
        self.potential = self.potential.wrapping_add(1);
        self.payloads = self.payloads.saturating_add(1);
        self.drop_stale();
    }

    /// Messages with payload sent so far.
    pub(super) const fn payloads(&self) -> u64 {
        self.payloads
    }

    /// Drops stale adverts from the head of the queue, each once and in order (SDP-STALE-08).
    fn drop_stale(&mut self) {
        while self
            .queue
            .front()
            .is_some_and(|&count| count != self.potential)
        {
            let _ = self.queue.pop();
            self.potential = self.potential.wrapping_sub(1);
        }
    }

    /// A SinkAvail has come in Pipelined Mode; `None` if there is no room for it.
    pub(super) fn handle_sink_avail(&mut self, non_discards: u32) -> Option<SinkAvailFate> {
        if !self.queue.push(non_discards) {
            return None;
        }
        // Stale ones in front of it are gone since the last message with payload.
        let by = used_up_by(self.payloads, self.potential, non_discards);
        self.drop_stale();
        Some(if self.queue.is_empty() {
            SinkAvailFate::Stale { by }
        } else {
            SinkAvailFate::Fresh
        })
    }

    /// Number of adverts that are queued.
    pub(super) const fn len(&self) -> usize {
        self.queue.len()
    }

    /// Drops what is queued: the stale ones first, so that the counter stays right (SDP-SNKX-12).
    /// Whether others were dropped.
    pub(super) fn cancel(&mut self) -> bool {
        self.drop_stale();
        let had = !self.queue.is_empty();
        self.queue.clear();
        had
    }

    /// ModeChange to Combined is message `change` of ours (SDP-MT-54, SDP-MT-61). Whether valid
    /// adverts were dropped.
    pub(super) fn leave_pipelined(&mut self, change: u64) -> bool {
        let had = self.cancel();
        self.window = Some(Window {
            change,
            frozen: self.potential,
            payloads: self.payloads,
        });
        had
    }

    /// The peer has acknowledged this count of messages (SDP-MT-53).
    pub(super) fn on_acked(&mut self, acked: u64) {
        if self.window.is_some_and(|window| window.change <= acked) {
            self.window = None;
        }
    }

    /// Whether the peer may still send SinkAvail although the mode is Combined.
    pub(super) const fn is_leaving(&self) -> bool {
        self.window.is_some()
    }

    /// A SinkAvail has come in that time; `None` if it is over (SDP-MT-56, SDP-MT-65).
    pub(super) fn handle_late(&mut self, non_discards: u32) -> Option<SinkAvailFate> {
        let window = self.window.as_mut()?;
        if non_discards == window.frozen {
            return Some(SinkAvailFate::Fresh);
        }
        let by = used_up_by(window.payloads, window.frozen, non_discards);
        window.frozen = window.frozen.wrapping_sub(1);
        self.potential = self.potential.wrapping_sub(1);
        Some(SinkAvailFate::Stale { by })
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_sdp_discards))]
mod tests {
    use super::*;

    // SDP-STALE-05 to SDP-STALE-09, TST-150: the worked example of the draft.
    #[test]
    fn two_of_three_adverts_are_stale_after_two_messages() {
        let mut discards = Discards::new(0);
        discards.on_payload();
        discards.on_payload();
        let fates = [0; 3].map(|count| discards.handle_sink_avail(count));
        let stale = |by| Some(SinkAvailFate::Stale { by });
        assert_eq!(fates, [stale(1), stale(2), Some(SinkAvailFate::Fresh)]);
        assert_eq!((discards.len(), discards.potential), (1, 0));
    }

    // SDP-STALE-12, SDP-FBS-02, TST-153.
    #[test]
    fn data_makes_the_head_stale_also_across_the_wrap() {
        for start in [0, u32::MAX, u32::MAX - 1] {
            let mut discards = Discards::new(start);
            for _ in 0..3 {
                let fate = discards.handle_sink_avail(start);
                assert_eq!(fate, Some(SinkAvailFate::Fresh));
            }
            for left in [2, 1, 0] {
                discards.on_payload();
                assert_eq!((discards.len(), discards.potential), (left, start));
            }
            discards.on_payload();
            assert_eq!(discards.potential, start.wrapping_add(1));
        }
    }

    // SDP-MT-61, SDP-MT-65, SDP-MDL-1.
    #[test]
    fn late_advert_is_checked_against_the_frozen_counter() {
        let mut discards = Discards::new(0);
        discards.on_payload();
        assert!(!discards.leave_pipelined(9));
        discards.on_payload();
        // Sent before the peer had the first of the messages.
        assert_eq!(
            discards.handle_late(0),
            Some(SinkAvailFate::Stale { by: 1 })
        );
        assert_eq!(discards.handle_late(0), Some(SinkAvailFate::Fresh));
        assert_eq!(discards.potential, 1);
        discards.on_acked(8);
        assert!(discards.is_leaving());
        discards.on_acked(9);
        assert_eq!(discards.handle_late(0), None);
    }

    // SDP-SNKX-02, SDP-SNKX-04, SDP-SNKX-08, SDP-SNKX-12.
    #[test]
    fn cancel_drops_stale_adverts_first() {
        let mut discards = Discards::new(0);
        assert!(!discards.cancel());
        let _ = discards.handle_sink_avail(0);
        let _ = discards.handle_sink_avail(0);
        assert!(discards.cancel());
        assert_eq!((discards.len(), discards.potential), (0, 0));
    }

    #[test]
    fn more_adverts_than_there_is_room_for_are_none() {
        let mut discards = Discards::new(0);
        for _ in 0..MAX_ADVERTS {
            assert!(discards.handle_sink_avail(0).is_some());
        }
        assert_eq!(discards.handle_sink_avail(0), None);
    }
}
