// SPDX-License-Identifier: GPL-2.0

//! Responder resources: the latest READs and atomics, for their responses and for duplicates
//! (RNIC-RDA-01, RNIC-RDA-03, RNIC-RDA-08, RNIC-RSP-13, RNIC-RSP-14).

use super::types::{
    ReadBurst,
    ReplyPacket, //
};
use crate::proto::{
    base::verbs::{
        Mtu,
        Psn,
        RKey, //
    },
    roce::{
        header::Reth,
        opcode::{
            Companion,
            Operation,
            Service, //
        },
        plan::MessagePlan, //
    },
};
use core::ops::DerefMut;

/// The answer that a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordedAnswer {
    /// Memory of this side.
    Read(Reth),
    /// The previous value of a word.
    Original(u64),
    /// Nothing but an acknowledgement.
    Empty,
}

/// A response that is not yet sent completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unsent {
    /// PSNs of the request before the first packet of the response.
    from: u32,
    /// Octets of the response.
    len: u32,
    /// Packets of the response that were sent.
    sent: u32,
}

/// A recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordedRequest {
    answer: RecordedAnswer,
    /// First PSN.
    psn: Psn,
    /// MSN as of the completion of the request (RNIC-RDA-02).
    msn: u32,
    unsent: Option<Unsent>,
    /// Whether the response was sent completely at least once.
    answered: bool,
}

/// A place for one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource(Option<RecordedRequest>);

impl Resource {
    /// A place that is not used.
    pub(crate) const EMPTY: Self = Self(None);
}

/// The recorded requests, the oldest of which makes room for the next one.
pub(super) struct Resources<S> {
    places: S,
    /// The place of the oldest request, which is used next.
    next: usize,
    mtu: Mtu,
    /// False only if every response was sent, which spares a search.
    pending: bool,
}

impl<S: DerefMut<Target = [Resource]>> Resources<S> {
    /// Makes an empty ring with exactly the places given (RNIC-RDA-01).
    pub(super) fn new(mut places: S, mtu: Mtu) -> Self {
        places.fill(Resource::EMPTY);
        Self {
            places,
            next: 0,
            mtu,
            pending: false,
        }
    }

    /// The records from the oldest to the newest.
    fn records(&mut self) -> impl Iterator<Item = &mut RecordedRequest> {
        let (newer, older) = self
            .places
            .split_at_mut_checked(self.next)
            .unwrap_or_default();
        older
            .iter_mut()
            .chain(newer)
            .filter_map(|place| place.0.as_mut())
    }

    /// Whether a new request has a place: the oldest one was answered (RNIC-RDA-01).
    ///
    /// A repeated response that is not yet sent does not count. A requester that starts the next
    /// request has the oldest response.
    pub(super) fn has_room(&self) -> bool {
        match self.places.get(self.next) {
            Some(Resource(Some(record))) => record.answered,
            Some(Resource(None)) => true,
            None => false,
        }
    }

    /// Records a request whose response is sent next.
    pub(super) fn insert(&mut self, psn: Psn, msn: u32, answer: RecordedAnswer) {
        let len = match answer {
            RecordedAnswer::Read(reth) => reth.len,
            RecordedAnswer::Original(_) | RecordedAnswer::Empty => 0,
        };
        let record = RecordedRequest {
            answer,
            psn,
            msn,
            unsent: Some(Unsent {
                from: 0,
                len,
                sent: 0,
            }),
            answered: false,
        };
        self.pending = true;
        if let Some(place) = self.places.get_mut(self.next) {
            *place = Resource(Some(record));
            let next = self.next.wrapping_add(1);
            self.next = if next < self.places.len() { next } else { 0 };
        }
    }

    /// Whether a response is not yet sent completely (RNIC-RDA-03).
    fn is_pending(&self) -> bool {
        self.pending
            && self
                .places
                .iter()
                .any(|place| place.0.is_some_and(|record| record.unsent.is_some()))
    }

    /// Packets of the responses that are not yet sent.
    pub(super) fn unsent(&self) -> u32 {
        if !self.pending {
            return 0;
        }
        let unsent = |place: &Resource| place.0.and_then(|record| record.unsent);
        self.places
            .iter()
            .filter_map(unsent)
            .map(|unsent| self.mtu.packets(unsent.len).saturating_sub(unsent.sent))
            .fold(0, u32::saturating_add)
    }

    /// Sends a response again. Later ones start anew, as the requester ignores the rest of one
    /// whose start it has not accepted.
    fn repeat(&mut self, psn: Psn, unsent: Unsent) {
        self.pending = true;
        let mut behind = false;
        for record in self.records() {
            if behind {
                if let Some(later) = &mut record.unsent {
                    later.sent = 0;
                }
            }
            if record.psn == psn {
                record.unsent = Some(unsent);
                behind = true;
            }
        }
    }

    /// Handles a duplicate READ (RNIC-RSP-13). Returns whether it is recorded.
    pub(super) fn repeat_read(&mut self, psn: Psn, reth: &Reth) -> bool {
        let mtu = self.mtu;
        let found = self.records().find_map(|record| {
            let RecordedAnswer::Read(original) = record.answer else {
                return None;
            };
            let from = u32::try_from(psn.distance(record.psn)).ok()?;
            let skipped = mtu.octets_of(from);
            let rest = original.len.checked_sub(skipped)?;
            let inside = from < mtu.packets(original.len)
                && reth.rkey == original.rkey
                && reth.vaddr == original.vaddr.wrapping_add(u64::from(skipped))
                && reth.len <= rest;
            inside.then_some((record.psn, from))
        });
        if let Some((first, from)) = found {
            let unsent = Unsent {
                from,
                len: reth.len,
                sent: 0,
            };
            self.repeat(first, unsent);
        }
        found.is_some()
    }

    /// Handles a duplicate of another request (RNIC-RSP-14). Returns whether it is recorded.
    pub(super) fn repeat_answer(&mut self, psn: Psn, atomic: bool) -> bool {
        let found = self.records().any(|record| {
            record.psn == psn
                && match record.answer {
                    RecordedAnswer::Original(_) => atomic,
                    RecordedAnswer::Empty => !atomic,
                    RecordedAnswer::Read(_) => false,
                }
        });
        if found {
            let unsent = Unsent {
                from: 0,
                len: 0,
                sent: 0,
            };
            self.repeat(psn, unsent);
        }
        found
    }

    /// The next packets of the oldest response, at most `room`.
    pub(super) fn poll(&mut self, room: u32) -> Option<ReplyPacket> {
        if !self.is_pending() {
            self.pending = false;
            return None;
        }
        let mtu = self.mtu;
        let record = self.records().find(|record| record.unsent.is_some())?;
        let mut unsent = record.unsent.filter(|_| room > 0)?;
        let (psn, msn) = (record.psn, record.msn);
        let packet = match record.answer {
            RecordedAnswer::Original(original) => ReplyPacket::Atomic { psn, msn, original },
            RecordedAnswer::Empty => ReplyPacket::Empty { psn, msn },
            RecordedAnswer::Read(reth) => {
                let skipped = u64::from(mtu.octets_of(unsent.from));
                let plan = MessagePlan {
                    service: Service::Rc,
                    operation: Operation::ReadResponse,
                    companion: Companion::Nothing,
                    len: unsent.len,
                    mtu,
                };
                let left = plan.packets().saturating_sub(unsent.sent);
                let burst = ReadBurst {
                    vaddr: reth.vaddr.wrapping_add(skipped),
                    rkey: reth.rkey,
                    plan,
                    index: unsent.sent,
                    packets: left.min(room),
                    psn: psn.after(unsent.from).after(unsent.sent),
                    msn,
                    repeated: record.answered,
                };
                unsent.sent = unsent.sent.saturating_add(burst.packets);
                if burst.packets < left {
                    record.unsent = Some(unsent);
                    return Some(ReplyPacket::Read(burst));
                }
                ReplyPacket::Read(burst)
            }
        };
        record.unsent = None;
        record.answered = true;
        Some(packet)
    }

    /// Drops the unsent rest of the response that has `psn`.
    pub(super) fn drop_response(&mut self, psn: Psn) {
        let mtu = self.mtu;
        for record in self.records() {
            if let RecordedAnswer::Read(reth) = record.answer {
                let distance = u32::try_from(psn.distance(record.psn));
                if distance.is_ok_and(|distance| distance < mtu.packets(reth.len)) {
                    record.unsent = None;
                }
            }
        }
    }

    /// Drops all responses that were not sent.
    pub(super) fn clear(&mut self) {
        self.places.fill(Resource::EMPTY);
        self.pending = false;
    }
}
