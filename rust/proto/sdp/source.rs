// SPDX-License-Identifier: GPL-2.0

//! The half of a connection where we send: the stream, our SrcAvail adverts, and what the peer
//! does with them, draft 9.1, 9.2 and 9.5 (SDP-RZS-*, SDP-SRCX-*, SDP-MODE-*).
//!
//! ```text
//!   freed <= sent <= written                positions of the stream
//!            sent .. owed_to                must go as Data, the peer has refused to read it
//!            sent .. end of last advert     the peer reads, one advert after the other
//! ```
//!
//! `sent` counts what the peer has: payload that was sent, and what it has reported as read. It
//! never goes back, so that octets of a cancelled advert simply are unsent data again.

mod modes;

use super::{
    discards::{
        Discards,
        SinkAvailFate,
        MAX_ADVERTS, //
    },
    extents::Extents,
    fifo::Fifo,
    msg::{
        Advert,
        HalfMode, //
    },
    oob::UrgentTx,
    policy,
    violation::SdpViolation,
    wire::MAX_LEN, //
};
use crate::proto::stream::{
    coalesce::Coalescer,
    positions::{
        distance,
        Segment, //
    },
};

/// Payload of a SrcAvail in Combined Mode, at most (SDP-MODE-13 leaves it open).
const SAMPLE: u32 = 512;

/// A SrcAvail of ours that is not processed (SDP-ST-11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OwnAdvert {
    /// Place of its extent.
    place: usize,
    /// Its key.
    stag: u32,
    /// Stream position behind its last octet.
    end: u64,
    /// It was sent in Pipelined Mode, without payload.
    is_bare: bool,
    /// Messages with payload that were sent up to it.
    payloads: u64,
}

/// Where a SrcAvailCancel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SourceCancel {
    /// There is none.
    None,
    /// It has to be sent.
    Wanted,
    /// It was message `count`.
    Sent { count: u64 },
}

/// Where octets of the stream are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadFrom {
    /// Nowhere: there is no payload.
    Nothing,
    /// The send ring. The second piece may be empty.
    Ring([Segment; 2]),
    /// Memory that the application has lent.
    Lent {
        /// Its place.
        place: usize,
        /// Offset of the first octet.
        off: u64,
        /// Octets.
        len: u32,
    },
}

/// A Data message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataPlan {
    /// Octets of payload.
    pub(super) len: u32,
    /// Where they are.
    pub(super) from: PayloadFrom,
}

/// A SrcAvail to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdvertPlan {
    /// Place of the extent, whose key is registered with the message.
    pub(super) place: usize,
    /// What is advertised.
    pub(super) advert: Advert,
    /// Octets of payload.
    pub(super) payload: u32,
    /// Where they are.
    pub(super) from: PayloadFrom,
    /// Stream position behind the last octet.
    end: u64,
}

/// What limits our sending besides credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SourceLimits {
    /// Size of the peer's receive buffers in octets.
    pub(super) peer_size: u32,
    /// Adverts that the peer takes at a time.
    pub(super) peer_adverts: u16,
    /// Adverts that we take at a time.
    pub(super) adverts: u16,
    /// Extents of at least this number of octets are advertised (SDP-BUFP-09).
    pub(super) threshold: u32,
    /// The peer takes ModeChange.
    pub(super) can_change_mode: bool,
    /// A message may lie in two pieces of the ring.
    pub(super) wraps: bool,
}

/// Our sending half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source {
    limits: SourceLimits,
    /// Octets of the send ring.
    ring: u32,
    /// Octets that the application has written.
    written: u64,
    /// Octets that the peer has, or will have when what was posted arrives.
    sent: u64,
    /// Octets whose memory is no longer read.
    freed: u64,
    /// The peer has refused adverts up to here.
    owed_to: u64,
    /// Our mode.
    mode: HalfMode,
    /// The mode to change to, when that is allowed.
    wanted: Option<HalfMode>,
    /// SendSm in a row.
    refusals: u32,
    /// What is read where the application has it.
    extents: Extents,
    /// What the peer reads, the oldest first.
    adverts: Fifo<OwnAdvert, MAX_ADVERTS>,
    /// Taking them back.
    cancel: SourceCancel,
    /// A SendSm for a cancel that was over before, if one comes (R-5).
    late: Option<u64>,
    /// SinkAvail adverts of the peer.
    discards: Discards,
    /// SinkCancelAck has to be sent (SDP-SNKX-09).
    owes_cancel_ack: bool,
    /// Urgent octets.
    urgent: UrgentTx,
    /// Small data waits for more of it.
    is_corked: bool,
    /// Small data does not even wait for the completion of data in flight.
    is_prompt: bool,
    /// Small data waits for more of it, for a short time.
    is_held: bool,
    /// Message count of the last payload that was sent.
    last_payload: u64,
    /// Message count of the last payload whose completion was asked for.
    last_signalled: u64,
    /// Message count of the last one that is known to be completed.
    completed: u64,
    /// Message count of the last one that the peer has acknowledged.
    acked: u64,
    /// Octets sent since a completion was asked for.
    unsignalled: u32,
}

impl Source {
    pub(super) fn new(ring: u32, limits: SourceLimits, potential: u32) -> Self {
        Self {
            limits,
            ring,
            written: 0,
            sent: 0,
            freed: 0,
            owed_to: 0,
            mode: HalfMode::Combined,
            wanted: None,
            refusals: 0,
            extents: Extents::new(),
            adverts: Fifo::new(),
            cancel: SourceCancel::None,
            late: None,
            discards: Discards::new(potential),
            owes_cancel_ack: false,
            urgent: UrgentTx::new(),
            is_corked: false,
            is_prompt: false,
            is_held: false,
            last_payload: 0,
            last_signalled: 0,
            completed: 0,
            acked: 0,
            unsignalled: 0,
        }
    }

    // The application's side.

    /// Free octets of the send ring.
    pub(super) fn room(&self) -> u32 {
        self.capacity().saturating_sub(self.outstanding())
    }

    /// Octets that were written and whose memory is not free.
    pub(super) fn outstanding(&self) -> u32 {
        distance(self.freed, self.written)
    }

    /// Octets that the send ring takes. A full ring is a number of full messages, if few octets are
    /// lost by that: the rest would travel as a message of its own with each turn of the ring.
    fn capacity(&self) -> u32 {
        let message = self.payload_limit();
        let rest = self.ring.checked_rem(message).unwrap_or(0);
        let is_poor = self.ring > message && rest < message >> 3;
        if is_poor {
            self.ring.saturating_sub(rest)
        } else {
            self.ring
        }
    }

    /// Changes the size of the send ring, which must be empty; whether it was.
    pub(super) fn resize_ring(&mut self, ring: u32) -> bool {
        let is_empty = self.freed == self.written;
        if is_empty {
            self.ring = ring;
        }
        is_empty
    }

    /// Pieces of the ring that begin at a position.
    fn pieces(&self, at: u64, len: u32) -> [Segment; 2] {
        let off = at.checked_rem(u64::from(self.ring)).unwrap_or(0);
        // Exact: less than the ring.
        let off = u32::try_from(off).unwrap_or(0);
        let first = core::cmp::min(len, self.ring.saturating_sub(off));
        [
            Segment { off, len: first },
            Segment {
                off: 0,
                len: len.saturating_sub(first),
            },
        ]
    }

    /// Where to copy up to `want` octets to.
    pub(super) fn segments(&self, want: u32) -> [Segment; 2] {
        self.pieces(self.written, core::cmp::min(want, self.room()))
    }

    /// Accepts octets that the engine has copied.
    pub(super) fn accept(&mut self, count: u32) {
        let count = core::cmp::min(count, self.room());
        self.written = self.written.saturating_add(u64::from(count));
    }

    /// Octets that may be lent: they take room of the ring, though none of its memory.
    pub(super) fn lendable(&self, want: u32) -> u32 {
        if self.extents.has_room() {
            core::cmp::min(want, self.room())
        } else {
            0
        }
    }

    /// Accepts octets that the application lends; gives their place. `stag`: the key by which they
    /// may be advertised, and `va` the tagged offset of the first.
    pub(super) fn lend(&mut self, count: u32, va: u64, stag: Option<u32>) -> Option<usize> {
        if count == 0 || self.lendable(count) < count {
            return None;
        }
        let end = self.written.saturating_add(u64::from(count));
        let place = self.extents.add(self.written, end, va, stag)?;
        self.written = end;
        Some(place)
    }

    /// The last octet that was written is urgent (SDP-OOB-02).
    pub(super) fn mark_urgent(&mut self) {
        if let Some(at) = self.written.checked_sub(1) {
            if at >= self.frontier() {
                self.urgent.mark(at);
            }
        }
    }

    /// Small data waits for more of it.
    pub(super) const fn is_corked(&self) -> bool {
        self.is_corked
    }

    /// Small data goes at once from now on, or waits while data is in flight.
    pub(super) fn set_prompt(&mut self, prompt: bool) {
        self.is_prompt = prompt;
    }

    /// Whether small data may wait.
    pub(super) const fn is_patient(&self) -> bool {
        !self.is_corked && !self.is_prompt
    }

    /// Whether small data waits for a completion that will come: that of the last payload.
    pub(super) fn is_gathering(&self) -> bool {
        !self.is_prompt && self.last_signalled == self.last_payload && self.is_in_flight()
    }

    /// Whether the last payload may not have arrived.
    pub(super) fn is_in_flight(&self) -> bool {
        self.last_payload > core::cmp::max(self.completed, self.acked)
    }

    pub(super) fn set_corked(&mut self, corked: bool) {
        self.is_corked = corked;
    }

    /// Sets whether a few small writes wait for more of them.
    pub(super) fn set_held(&mut self, held: bool) {
        self.is_held = held;
    }

    /// Takes unsent octets of the last extent back; gives their number. `None`: the peer may still
    /// read them, or has refused to, so that they have to be sent.
    pub(super) fn retract(&mut self, place: usize) -> Option<u64> {
        let extent = self.extents.get(place)?;
        let kept = core::cmp::max(core::cmp::max(self.sent, self.owed_to), extent.start);
        if extent.end != self.written || self.frontier() > kept {
            return None;
        }
        let count = extent.end.checked_sub(kept)?;
        self.extents.cut(place, kept);
        self.written = kept;
        self.urgent.cut(kept);
        Some(count)
    }

    /// Whether all of the stream is sent, and the peer has all of it (SDP-CLS-06).
    pub(super) fn is_drained(&self) -> bool {
        self.sent == self.written && self.adverts.is_empty() && self.cancel == SourceCancel::None
    }

    /// Whether nothing is left to be sent; what the peer reads counts as sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.frontier() < self.written
    }

    /// Octets that are neither sent nor advertised.
    pub(super) fn unsent(&self) -> u64 {
        self.written.saturating_sub(self.frontier())
    }

    // Planning.

    /// Where data begins that is neither sent nor advertised.
    fn frontier(&self) -> u64 {
        let advertised = self.adverts.back().map_or(0, |advert| advert.end);
        core::cmp::max(self.sent, advertised)
    }

    /// Whether a SrcAvail of ours is out.
    pub(super) const fn has_adverts(&self) -> bool {
        !self.adverts.is_empty()
    }

    /// Whether OOB_PEND goes with the next message.
    pub(super) fn is_urgent_due(&self) -> bool {
        self.urgent.is_due(self.frontier())
    }

    /// A message with OOB_PEND was sent.
    pub(super) fn on_urgent_sent(&mut self) {
        self.urgent.on_announced();
    }

    /// The SrcAvail to send next, if one may be sent and is worth it.
    pub(super) fn next_advert(&self) -> Option<AdvertPlan> {
        let may = match self.mode {
            HalfMode::Buffered => false,
            HalfMode::Combined => self.adverts.is_empty(),
            HalfMode::Pipelined => self.adverts.len() < MAX_ADVERTS,
        };
        // Data of a refused advert has followed those that are out: a SinkAvail that it uses up
        // may make the peer drop these, and none that comes later (R-9).
        let is_behind = self
            .adverts
            .front()
            .is_some_and(|advert| advert.payloads < self.discards.payloads());
        let is_full = self.adverts.len() >= usize::from(self.limits.peer_adverts);
        if !may
            || is_full
            || is_behind
            || self.sent < self.owed_to
            || self.cancel != SourceCancel::None
            || self.discards.len() > 0
        {
            return None;
        }
        let start = self.frontier();
        let (place, extent) = self.extents.at(start)?;
        let (stag, va) = self.extents.key_at(place, start)?;
        let mut end = core::cmp::min(extent.end, start.saturating_add(u64::from(MAX_LEN)));
        if let Some(at) = self.urgent.next_at(start) {
            // The urgent octet goes by Data (SDP-OOB-13).
            end = core::cmp::min(end, at);
        }
        let len = u32::try_from(end.checked_sub(start)?).ok()?;
        if len < self.limits.threshold || len < 2 {
            return None;
        }
        let payload = match self.mode {
            HalfMode::Pipelined => 0,
            _ => {
                let fits = self.limits.peer_size.saturating_sub(32);
                let most = core::cmp::min(fits, SAMPLE);
                core::cmp::min(most, len.saturating_sub(1))
            }
        };
        Some(AdvertPlan {
            place,
            advert: Advert { len, stag, va },
            payload,
            from: match payload {
                0 => PayloadFrom::Nothing,
                len => PayloadFrom::Lent {
                    place,
                    off: start.saturating_sub(extent.start),
                    len,
                },
            },
            end,
        })
    }

    /// The Data to send next, with at least one octet (SDP-MODE-14, SDP-MODE-19, SDP-MODE-20).
    pub(super) fn next_data(&self) -> Option<DataPlan> {
        let limit = if self.adverts.is_empty() {
            self.written
        } else {
            self.owed_to
        };
        // While a cancel has to be sent or answered, adverts are out.
        let most = self.payload_limit();
        let mut len = core::cmp::min(distance(self.sent, limit), most);
        if let Some(boundary) = self.extents.boundary(self.sent) {
            len = core::cmp::min(len, distance(self.sent, boundary));
        }
        let mut is_marked = false;
        if let Some(at) = self.urgent.next_at(self.sent) {
            let cut = distance(self.sent, at).saturating_add(1);
            is_marked = cut <= len;
            len = core::cmp::min(len, cut);
        }
        // No more comes to a message that fills the ring.
        let full = core::cmp::min(most, self.ring);
        let is_small = len < full && self.sent >= self.owed_to && !is_marked;
        let is_held = self.is_held && len < Coalescer::BYTES;
        if len == 0 || is_small && (self.is_corked || is_held || self.is_gathering()) {
            return None;
        }
        let from = match self.extents.at(self.sent) {
            Some((place, extent)) => PayloadFrom::Lent {
                place,
                off: self.sent.saturating_sub(extent.start),
                len,
            },
            None => {
                let [first, second] = self.pieces(self.sent, len);
                if self.limits.wraps || second.len == 0 {
                    PayloadFrom::Ring([first, second])
                } else {
                    len = first.len;
                    PayloadFrom::Ring([first, Segment::default()])
                }
            }
        };
        Some(DataPlan { len, from })
    }

    /// Whether a SrcAvail or Data waits for nothing but credits.
    pub(super) fn has_plan(&self) -> bool {
        self.next_advert().is_some() || self.next_data().is_some()
    }

    /// Data was posted as message `count`. Whether its last octet is urgent.
    pub(super) fn on_data_sent(&mut self, plan: &DataPlan, count: u64) -> bool {
        self.on_payload_sent(plan.len, count);
        self.urgent.on_data(self.sent)
    }

    fn on_payload_sent(&mut self, len: u32, count: u64) {
        self.sent = self.sent.saturating_add(u64::from(len));
        self.unsignalled = self.unsignalled.saturating_add(len);
        self.last_payload = count;
        self.discards.on_payload();
    }

    /// Whether the message just posted asks for a completion: memory waits for it.
    pub(super) fn take_signal(&mut self, from: &PayloadFrom) -> bool {
        // The last copied octets in front of lent ones: no later completion may come in time.
        let is_lent =
            matches!(from, PayloadFrom::Lent { .. }) || self.extents.at(self.sent).is_some();
        // Small data waits for the completion of what was sent before it.
        let is_last = distance(self.sent, self.written) < self.payload_limit();
        let due = is_lent || is_last || self.unsignalled >= self.ring >> 2;
        if due {
            self.unsignalled = 0;
            self.last_signalled = self.last_payload;
        }
        due
    }

    /// A SrcAvail was posted as message `count`.
    pub(super) fn on_advert_sent(&mut self, plan: &AdvertPlan, count: u64) {
        if plan.payload > 0 {
            self.on_payload_sent(plan.payload, count);
        }
        let advert = OwnAdvert {
            place: plan.place,
            stag: plan.advert.stag,
            end: plan.end,
            is_bare: plan.payload == 0,
            payloads: self.discards.payloads(),
        };
        // Always fits: the plan has looked for room.
        let _ = self.adverts.push(advert);
        self.extents.on_advertised(plan.place);
    }

    /// Stream position that a completion of the message just posted stands for.
    pub(super) const fn position(&self) -> u64 {
        self.sent
    }

    /// Octets that the peer is known to have, and whether there are others (TCP_USER_TIMEOUT).
    pub(super) const fn progress(&self) -> (u64, bool) {
        (self.freed, self.freed < self.written)
    }

    /// Octets of payload in a message, at most.
    pub(super) const fn payload_limit(&self) -> u32 {
        self.limits.peer_size.saturating_sub(16)
    }

    /// Octets of a receive buffer of the peer.
    pub(super) const fn peer_size(&self) -> u32 {
        self.limits.peer_size
    }

    /// The peer has receive buffers of another size.
    pub(super) fn set_peer_size(&mut self, octets: u32) {
        self.limits.peer_size = octets;
    }

    /// Message `count`, posted when the stream was at `to`, has completed, and all before it.
    pub(super) fn on_completed(&mut self, count: u64, to: u64) {
        self.completed = core::cmp::max(self.completed, count);
        self.freed = core::cmp::max(self.freed, to);
        self.on_idle();
    }

    /// When no payload is in flight, all that the peer has is free.
    fn on_idle(&mut self) {
        if self.completed >= self.last_payload {
            self.freed = self.sent;
        }
    }

    // What the peer says.

    /// RdmaRdCompl (SDP-RZS-06, SDP-RZS-07, SDP-RZS-17).
    pub(super) fn handle_report(
        &mut self,
        count: u32,
        invalidated: Option<u32>,
    ) -> Result<(), SdpViolation> {
        let head = *self.adverts.front().ok_or(SdpViolation::NoSrcAvail)?;
        // What was refused before has to go first (SDP-RZK-19).
        let left = head
            .end
            .checked_sub(core::cmp::max(self.sent, self.owed_to));
        if self.sent < self.owed_to || left.is_none_or(|left| u64::from(count) > left) {
            return Err(SdpViolation::ReadTooMuch);
        }
        let is_final = left == Some(u64::from(count));
        if let Some(stag) = invalidated {
            if !is_final || stag != head.stag || !self.extents.is_out(head.place, stag) {
                return Err(SdpViolation::Invalidated);
            }
        }
        self.sent = self.sent.saturating_add(u64::from(count));
        self.refusals = 0;
        self.on_idle();
        if is_final {
            let _ = self.adverts.pop();
            match invalidated {
                Some(_) => self.extents.on_remote_invalidate(head.place),
                None => self.extents.revoke(head.place),
            }
            self.end_cancel_if_idle();
        }
        Ok(())
    }

    /// The cancel is processed when no advert is left, whatever message did it (AMB-13).
    fn end_cancel_if_idle(&mut self) {
        if self.adverts.is_empty() {
            if let SourceCancel::Sent { count } = self.cancel {
                self.late = Some(count);
            }
            self.cancel = SourceCancel::None;
        }
    }

    /// SendSm, in a message that acknowledges `acked` messages (SDP-RZS-13, SDP-SRCX-12,
    /// SDP-SRCX-14, AMB-12).
    pub(super) fn handle_refusal(&mut self, acked: u64) -> Result<(), SdpViolation> {
        if self.adverts.is_empty() {
            return match self.late.take() {
                Some(count) if acked >= count => Ok(()),
                _ => Err(SdpViolation::NoSrcAvail),
            };
        }
        match self.cancel {
            SourceCancel::Sent { count } if acked >= count => {
                self.void_adverts();
                self.cancel = SourceCancel::None;
                self.late = None;
            }
            _ => {
                if let Some(head) = self.adverts.pop() {
                    self.extents.revoke(head.place);
                    self.owed_to = head.end;
                }
                self.refusals = self.refusals.saturating_add(1);
                if self.limits.can_change_mode {
                    let wanted = policy::after_refusals(self.mode, self.refusals);
                    self.wanted = wanted.or(self.wanted);
                }
                self.end_cancel_if_idle();
            }
        }
        Ok(())
    }

    /// Makes data of all adverts again (SDP-LS-5, SDP-LS-6, SDP-MODE-32).
    fn void_adverts(&mut self) {
        while let Some(advert) = self.adverts.pop() {
            self.extents.revoke(advert.place);
        }
    }

    /// SinkAvail (SDP-MODE-25 to SDP-MODE-27, SDP-MODE-31, SDP-MT-56). Its payload is for the
    /// other half.
    pub(super) fn handle_sink_avail(&mut self, non_discards: u32) -> Result<(), SdpViolation> {
        let fate = match self.mode {
            HalfMode::Pipelined => {
                if self.discards.len() >= usize::from(self.limits.adverts) {
                    return Err(SdpViolation::TooManyAdverts);
                }
                let fate = self.discards.handle_sink_avail(non_discards);
                fate.ok_or(SdpViolation::TooManyAdverts)?
            }
            HalfMode::Combined => {
                let fate = self.discards.handle_late(non_discards);
                fate.ok_or(SdpViolation::SinkAvailMode)?
            }
            HalfMode::Buffered => return Err(SdpViolation::SinkAvailMode),
        };
        let head = self.adverts.front();
        let is_void = head.is_some_and(|advert| match fate {
            SinkAvailFate::Fresh => advert.is_bare,
            SinkAvailFate::Stale { by } => advert.is_bare && advert.payloads < by,
        });
        if is_void {
            self.void_adverts();
            self.end_cancel_if_idle();
        }
        Ok(())
    }

    /// SinkAvailCancel (SDP-SNKX-02, SDP-SNKX-04, SDP-SNKX-09).
    pub(super) fn handle_sink_cancel(&mut self) {
        self.owes_cancel_ack |= self.discards.cancel();
    }

    /// Whether SinkCancelAck has to be sent.
    pub(super) const fn owes_cancel_ack(&self) -> bool {
        self.owes_cancel_ack
    }

    /// SinkCancelAck was posted.
    pub(super) fn on_cancel_ack_sent(&mut self) {
        self.owes_cancel_ack = false;
    }

    /// The peer has acknowledged this count of messages.
    pub(super) fn on_acked(&mut self, acked: u64) {
        self.acked = acked;
        self.discards.on_acked(acked);
    }

    // Taking adverts back.

    /// Takes all adverts back (SDP-SRCX-01). Whether the peer has to answer first.
    pub(super) fn revoke(&mut self) -> bool {
        if !self.adverts.is_empty() && self.cancel == SourceCancel::None {
            self.cancel = SourceCancel::Wanted;
        }
        self.cancel != SourceCancel::None
    }

    /// Whether SrcAvailCancel has to be sent.
    pub(super) fn is_cancel_due(&self) -> bool {
        self.cancel == SourceCancel::Wanted
    }

    /// Whether SrcAvailCancel was sent and is not processed.
    pub(super) const fn is_cancel_open(&self) -> bool {
        matches!(self.cancel, SourceCancel::Sent { .. })
    }

    /// SrcAvailCancel was posted as message `count`.
    pub(super) fn on_cancel_sent(&mut self, count: u64) {
        self.cancel = SourceCancel::Sent { count };
        self.late = None;
    }

    // Memory.

    /// An extent whose key the engine has to invalidate.
    pub(super) fn poll_invalidate(&mut self) -> Option<usize> {
        self.extents.poll_invalidate()
    }

    /// The key is invalid.
    pub(super) fn on_invalidated(&mut self, place: usize) {
        self.extents.on_invalidated(place);
    }

    /// Gives an extent a fresh key.
    pub(super) fn rekey(&mut self, place: usize, stag: u32) -> bool {
        self.extents.rekey(place, stag)
    }

    /// An extent that is no longer used.
    pub(super) fn poll_release(&mut self) -> Option<usize> {
        self.extents.poll_release(self.freed)
    }

    /// Whether the application has lent nothing.
    pub(super) fn has_lent(&self) -> bool {
        !self.extents.is_empty()
    }

    /// The link is down and drained: nothing is sent from here on, and no memory is used.
    pub(super) fn on_link_down(&mut self) {
        self.void_adverts();
        self.extents.on_link_down();
        self.cancel = SourceCancel::None;
        self.freed = self.written;
        self.sent = self.written;
    }

    /// A new link continues the stream: adverts are cancelled, counters start again (SDP-DUP-05,
    /// SDP-DS-4, AMB-49).
    pub(super) fn resume(&mut self, limits: SourceLimits) {
        self.void_adverts();
        self.extents.on_link_down();
        self.freed = self.sent;
        let old = *self;
        *self = Self {
            written: old.written,
            sent: old.sent,
            freed: old.freed,
            extents: old.extents,
            urgent: old.urgent,
            is_corked: old.is_corked,
            is_prompt: old.is_prompt,
            ..Self::new(old.ring, limits, 0)
        };
    }

    /// Octets that the peer has, and those that it has refused and that were not sent.
    #[cfg(any(test, fuzzing))]
    pub(super) fn sent_and_owed(&self) -> (u64, u64) {
        (self.sent, self.owed_to.saturating_sub(self.sent))
    }

    /// SinkAvail adverts of the peer that are queued.
    #[cfg(test)]
    pub(super) fn sink_avails(&self) -> usize {
        self.discards.len()
    }

    /// Adverts that are not processed, and whether a cancel is not.
    #[cfg(any(test, fuzzing))]
    pub(super) fn adverts_and_cancel(&self) -> (usize, bool) {
        (self.adverts.len(), self.cancel != SourceCancel::None)
    }

    /// Checks what holds at any time.
    #[cfg(any(test, fuzzing))]
    pub(super) fn check(&self) {
        assert!(self.freed <= self.sent && self.sent <= self.written);
        assert!(self.frontier() <= self.written);
        assert!(self.adverts.len() <= usize::from(self.limits.peer_adverts));
    }
}
