// SPDX-License-Identifier: GPL-2.0

//! The receiving half of a connected queue pair: rulings on requests, and replies (RNIC-RSP,
//! RNIC-RDA, RNIC-FLOW).
//!
//! The device calls [`Responder::handle_request`] for each packet, follows the [`Ruling`], and
//! reports the result, which leads to the next ruling. The order of the checks is that of the rows
//! RNIC-RSP-01 to RNIC-RSP-08:
//!
//! ```text
//!   service -> PSN -> opcode sequence -> permission -> length -> receive buffer -> key -> execute
//!                |                                       NeedReceive ---^    NeedKey --^      |
//!                +-> duplicate, or sequence NAK                       Place, Atomic, Flush <--+
//! ```
//!
//! Nothing changes before a request is executed, so a request that is refused for want of a receive
//! buffer comes again as if it were new (RNIC-FLOW-07).
//!
//! | What                                    | File        |
//! |-----------------------------------------|-------------|
//! | Settings, inputs and rulings            | `types`     |
//! | Checks of headers, and refusals         | `checks`    |
//! | READs and atomics, and their responses  | `resources` |
//!
//! At the end of a batch of packets the device sends the packets of [`Responder::poll_reply`] until
//! `None`: responses in the order of their requests, then one acknowledgement for everything
//! (RNIC-RSP-16, RNIC-RDA-03). A receive buffer comes from a receive queue or from a shared one
//! alike.

mod checks;
mod resources;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use self::{
    resources::Resource,
    types::{
        AtomicOperation,
        AtomicTask,
        DropReason,
        ExecuteError,
        Placement,
        PlacementTarget,
        QpEvent,
        ReadBurst,
        ReceiveCompletion,
        RemoteAccess,
        RemoteRange,
        RemoteRight,
        ReplyPacket,
        RequestHeader,
        ResponderConfig,
        ResponderStats,
        Ruling,
        Settled, //
    },
};

use self::{
    checks::{
        fits,
        follows,
        is_recorded,
        permits,
        range_of,
        refusal_of,
        Inbound,
        RequestRefusal, //
    },
    resources::{
        RecordedAnswer,
        Resources, //
    },
};
use super::{
    aeth::{
        NakCode,
        RnrTimer,
        Syndrome, //
    },
    opcode::{
        Companion,
        Operation,
        Service, //
    },
    reason::Reason,
    work::{
        WorkStatus,
        MAX_MESSAGE, //
    },
};
use crate::proto::base::verbs::{
    Psn,
    RKey, //
};
use core::{
    mem::take,
    ops::DerefMut, //
};

/// The answer that the current request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RulingStage {
    Receive,
    Key,
    Execute,
    Atomic,
}

/// The request that is being ruled on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Current {
    header: RequestHeader,
    stage: RulingStage,
    /// PSNs that it takes.
    psns: u32,
}

/// Whether requests are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceivePhase {
    Open,
    /// A NAK ends the queue pair; it is sent behind the responses to earlier requests.
    Closing,
    /// Nothing is sent or received.
    Closed,
}

/// The receiving half of a queue pair. See the module.
pub(crate) struct Responder<S> {
    /// Settings.
    config: ResponderConfig,
    /// READs and atomics.
    resources: Resources<S>,
    /// Whether requests are executed.
    phase: ReceivePhase,
    /// The PSN that comes next.
    expected: Psn,
    /// Messages that were executed, 24 bits (RNIC-RSP-17).
    msn: u32,
    /// The message that has begun.
    message: Option<Inbound>,
    /// Octets of the receive buffer that was taken for the current or the next message.
    receive: Option<u32>,
    /// The request that is being ruled on.
    current: Option<Current>,
    /// Whether the requester knows from where to repeat (RNIC-RSP-02, RNIC-FLOW-07).
    nak_sent: bool,
    /// A NAK to be sent, with its PSN.
    nak: Option<(Psn, Syndrome)>,
    /// Whether an acknowledgement is due (RNIC-RSP-16).
    ack_due: bool,
    /// Whether packets are dropped until a message starts (RNIC-UD-10).
    dropping: bool,
    /// Whether a first valid packet arrived that was not reported (RNIC-RSP-19).
    established: Option<bool>,
    /// Counters.
    stats: ResponderStats,
}

impl<S: DerefMut<Target = [Resource]>> Responder<S> {
    /// Makes a responder in state RTR. The requester may have as many READs and the like in flight
    /// as `resources` has elements (RNIC-RDA-01).
    pub(crate) fn new(config: &ResponderConfig, resources: S) -> Self {
        Self {
            config: *config,
            resources: Resources::new(resources, config.mtu),
            phase: ReceivePhase::Open,
            expected: config.first_psn,
            msn: 0,
            message: None,
            receive: None,
            current: None,
            nak_sent: false,
            nak: None,
            ack_due: false,
            dropping: false,
            established: None,
            stats: ResponderStats::default(),
        }
    }

    /// Changes the permitted operations, and the time that the peer waits for a receive buffer, of
    /// requests from now on (RNIC-QPS-02, RNIC-RSP-04).
    pub(crate) fn permit(&mut self, access: RemoteAccess, rnr_timer: RnrTimer) {
        self.config.access = access;
        self.config.rnr_timer = rnr_timer;
    }

    /// The PSN that comes next (RNIC-PSN-06).
    pub(crate) const fn expected_psn(&self) -> Psn {
        self.expected
    }

    /// Whether the queue pair is in state ERR.
    pub(crate) fn is_failed(&self) -> bool {
        self.phase != ReceivePhase::Open
    }

    /// Events since [`Self::take_stats`] was called last.
    pub(crate) const fn stats(&self) -> &ResponderStats {
        &self.stats
    }

    /// Takes these events, to be added to the counters of the device.
    pub(crate) fn take_stats(&mut self) -> ResponderStats {
        take(&mut self.stats)
    }

    /// Whether the first valid packet has arrived since the last call; true at most once
    /// (RNIC-RSP-19).
    pub(crate) fn take_established(&mut self) -> bool {
        if self.established == Some(false) {
            self.established = Some(true);
            return true;
        }
        false
    }

    /// Rules on a request packet (RNIC-RSP-01 to RNIC-RSP-08).
    pub(crate) fn handle_request(&mut self, header: &RequestHeader) -> Ruling {
        let opcode = header.opcode;
        if self.phase != ReceivePhase::Open || self.current.is_some() {
            return Ruling::Drop(DropReason::Closed);
        }
        if opcode.service() != self.config.service || opcode.operation().is_response() {
            return Ruling::Drop(DropReason::Service);
        }
        self.established.get_or_insert(false);
        if self.config.service == Service::Uc {
            if let Some(reason) = self.resynchronize(header) {
                return Ruling::Drop(reason);
            }
        } else {
            let end = header.psn.after(header.packets.saturating_sub(1));
            match header.psn.distance(self.expected) {
                0 => self.nak_sent = false,
                1.. => return self.out_of_sequence(),
                // The requester repeats the rest of a run that was executed in part.
                _ if end.distance(self.expected) >= 0 => return self.out_of_sequence(),
                _ => return self.duplicate(header),
            }
        }
        let psns = match header.ext.reth {
            Some(reth) if opcode.operation() == Operation::ReadRequest => {
                self.config.mtu.packets(reth.len)
            }
            _ => header.packets,
        };
        self.start(header, psns)
    }

    /// Rules on a packet of a reliable connection whose opcode is not in the table (RNIC-HDR-03).
    pub(crate) fn handle_unknown(&mut self, psn: Psn) -> Ruling {
        if self.phase != ReceivePhase::Open || self.current.is_some() {
            return Ruling::Drop(DropReason::Closed);
        }
        if self.config.service != Service::Rc {
            return Ruling::Drop(DropReason::Service);
        }
        match psn.distance(self.expected) {
            0 => self.refuse(RequestRefusal::invalid(Reason::UnknownOpcode)),
            1.. => self.out_of_sequence(),
            _ => Ruling::Drop(DropReason::Forgotten),
        }
    }

    /// Finds the next message of an unreliable connection behind a gap (RNIC-UD-10).
    fn resynchronize(&mut self, header: &RequestHeader) -> Option<DropReason> {
        let starts = header.opcode.position().starts();
        if header.psn != self.expected {
            self.dropping = true;
        }
        if starts {
            self.dropping = false;
            self.message = None;
        }
        self.expected = header.psn;
        if self.dropping {
            self.message = None;
            self.expected = header.psn.after(1);
            return Some(DropReason::Incomplete);
        }
        None
    }

    /// A packet is missing (RNIC-RSP-02).
    fn out_of_sequence(&mut self) -> Ruling {
        self.stats.out_of_sequence = self.stats.out_of_sequence.wrapping_add(1);
        if self.nak_sent {
            return Ruling::Drop(DropReason::Sequence);
        }
        let syndrome = Syndrome::Nak(NakCode::Sequence);
        self.nak_sent = true;
        self.nak = Some((self.expected, syndrome));
        Ruling::Done(Settled {
            nak: Some(syndrome),
            ..Settled::default()
        })
    }

    /// A packet was executed before (RNIC-RSP-12 to RNIC-RSP-15).
    fn duplicate(&mut self, header: &RequestHeader) -> Ruling {
        self.stats.duplicates = self.stats.duplicates.wrapping_add(1);
        let psn = header.psn;
        let known = match header.opcode.operation() {
            Operation::Send | Operation::Write => {
                if header.ack_req || header.opcode.position().ends() {
                    self.ack_due = true;
                }
                true
            }
            Operation::ReadRequest => match &header.ext.reth {
                Some(reth) => self.resources.repeat_read(psn, reth),
                None => false,
            },
            Operation::CompareSwap | Operation::FetchAdd => self.resources.repeat_answer(psn, true),
            _ => self.resources.repeat_answer(psn, false),
        };
        if known {
            Ruling::Done(Settled {
                duplicate: true,
                ..Settled::default()
            })
        } else {
            Ruling::Drop(DropReason::Forgotten)
        }
    }

    /// Why the headers alone make a request invalid.
    fn objection(&self, header: &RequestHeader) -> Option<Reason> {
        let message = self.message.as_ref();
        if !follows(message, header) {
            return Some(Reason::OutOfOrder);
        }
        if !permits(&self.config.access, header) {
            return Some(Reason::NotPermitted);
        }
        if !fits(message, self.config.mtu, header) {
            return Some(Reason::BadLength);
        }
        let recorded = is_recorded(header.opcode.operation());
        (recorded && !self.resources.has_room()).then_some(Reason::TooManyReads)
    }

    /// Checks everything that needs no answer of the device.
    fn start(&mut self, header: &RequestHeader, psns: u32) -> Ruling {
        if let Some(reason) = self.objection(header) {
            return self.refuse(RequestRefusal::invalid(reason));
        }
        let current = Current {
            header: *header,
            stage: RulingStage::Receive,
            psns,
        };
        self.current = Some(current);
        if header.consumes_receive() && self.receive.is_none() {
            return Ruling::NeedReceive;
        }
        self.check_receive(current)
    }

    /// The request that waits for an answer of this kind.
    fn waiting(&self, stage: RulingStage) -> Option<Current> {
        self.current.filter(|current| current.stage == stage)
    }

    /// The device has taken a receive buffer of `len` octets.
    pub(crate) fn grant_receive(&mut self, len: u32) -> Ruling {
        let Some(current) = self.waiting(RulingStage::Receive) else {
            return Ruling::Drop(DropReason::Idle);
        };
        self.receive = Some(len);
        self.check_receive(current)
    }

    /// There is no receive buffer (RNIC-RSP-06, RNIC-FLOW-07).
    pub(crate) fn refuse_receive(&mut self) -> Ruling {
        if self.waiting(RulingStage::Receive).is_none() {
            return Ruling::Drop(DropReason::Idle);
        }
        self.current = None;
        if self.config.service == Service::Uc {
            return self.abandon();
        }
        self.stats.rnr_naks = self.stats.rnr_naks.wrapping_add(1);
        let syndrome = Syndrome::RnrNak(self.config.rnr_timer);
        self.nak_sent = true;
        self.nak = Some((self.expected, syndrome));
        Ruling::Done(Settled {
            nak: Some(syndrome),
            ..Settled::default()
        })
    }

    /// Checks the length of the receive buffer, then the key (RNIC-RSP-07, RNIC-RSP-09).
    fn check_receive(&mut self, current: Current) -> Ruling {
        let header = &current.header;
        if header.opcode.operation() == Operation::Send {
            let received = self.message.map_or(0, |message| message.received);
            let needed = received.checked_add(header.len);
            let capacity = self.receive.unwrap_or(0);
            if needed.is_none_or(|needed| needed > capacity || needed > MAX_MESSAGE) {
                return self.refuse(RequestRefusal::TOO_LONG);
            }
        }
        match range_of(header) {
            Some(range) => {
                self.current = Some(Current {
                    stage: RulingStage::Key,
                    ..current
                });
                Ruling::NeedKey(range)
            }
            None => self.execute(current),
        }
    }

    /// The key permits the access.
    pub(crate) fn grant_key(&mut self) -> Ruling {
        match self.waiting(RulingStage::Key) {
            Some(current) => self.execute(current),
            None => Ruling::Drop(DropReason::Idle),
        }
    }

    /// The key does not permit the access (RNIC-RSP-07).
    pub(crate) fn refuse_key(&mut self) -> Ruling {
        match self.waiting(RulingStage::Key) {
            Some(_) => self.refuse(RequestRefusal::access(Reason::KeyRefused)),
            None => Ruling::Drop(DropReason::Idle),
        }
    }

    /// Asks the device to execute the request, or records it.
    fn execute(&mut self, current: Current) -> Ruling {
        let header = current.header;
        let offset = self.message.map_or(0, |message| message.received);
        let reth = header.ext.reth;
        let ruling = match header.opcode.operation() {
            Operation::Send => Ruling::Place(Placement {
                target: PlacementTarget::Receive,
                offset,
                len: header.len,
                word: false,
                invalidate: header
                    .ext
                    .invalidate
                    .filter(|_| header.opcode.companion() == Companion::Invalidate),
            }),
            Operation::CompareSwap | Operation::FetchAdd => {
                return self.execute_atomic(current);
            }
            Operation::ReadRequest => {
                let answer = reth.map_or(RecordedAnswer::Empty, RecordedAnswer::Read);
                return self.complete_recorded(current, answer);
            }
            Operation::Flush => match range_of(&header) {
                Some(range) => Ruling::Flush(range),
                None => return self.complete_recorded(current, RecordedAnswer::Empty),
            },
            operation => {
                let reth = reth.or(self.message.and_then(|message| message.reth));
                let (vaddr, rkey) = reth.map_or((0, RKey::new(0)), |reth| (reth.vaddr, reth.rkey));
                Ruling::Place(Placement {
                    target: PlacementTarget::Memory(vaddr, rkey),
                    offset,
                    len: header.len,
                    word: operation == Operation::AtomicWrite,
                    invalidate: None,
                })
            }
        };
        self.current = Some(Current {
            stage: RulingStage::Execute,
            ..current
        });
        ruling
    }

    /// Asks the device for an atomic operation.
    fn execute_atomic(&mut self, current: Current) -> Ruling {
        let Some(eth) = current.header.ext.atomic else {
            return self.refuse(RequestRefusal::invalid(Reason::Inconsistent));
        };
        self.current = Some(Current {
            stage: RulingStage::Atomic,
            ..current
        });
        Ruling::Atomic(AtomicTask {
            vaddr: eth.vaddr,
            rkey: eth.rkey,
            operation: match current.header.opcode.operation() {
                Operation::CompareSwap => AtomicOperation::CompareSwap {
                    compare: eth.compare,
                    swap: eth.swap_add,
                },
                _ => AtomicOperation::FetchAdd(eth.swap_add),
            },
        })
    }

    /// The device has executed the request, or failed to.
    pub(crate) fn executed(&mut self, result: Result<(), ExecuteError>) -> Ruling {
        let Some(current) = self.waiting(RulingStage::Execute) else {
            return Ruling::Drop(DropReason::Idle);
        };
        match result {
            Ok(()) => match current.header.opcode.operation() {
                Operation::Flush | Operation::AtomicWrite => {
                    self.complete_recorded(current, RecordedAnswer::Empty)
                }
                _ => self.complete(current),
            },
            Err(error) => self.fail(error),
        }
    }

    /// A request could not be executed.
    fn fail(&mut self, error: ExecuteError) -> Ruling {
        match refusal_of(error) {
            Some(refusal) => self.refuse(refusal),
            None => {
                // As if it had not arrived.
                self.current = None;
                Ruling::Drop(DropReason::SourceGone)
            }
        }
    }

    /// The device has executed an atomic operation and returns the previous value of the word, or
    /// the key is gone (RNIC-RDA-07, RNIC-RDA-08).
    pub(crate) fn executed_atomic(&mut self, result: Result<u64, ExecuteError>) -> Ruling {
        let Some(current) = self.waiting(RulingStage::Atomic) else {
            return Ruling::Drop(DropReason::Idle);
        };
        match result {
            Ok(original) => self.complete_recorded(current, RecordedAnswer::Original(original)),
            Err(error) => self.fail(error),
        }
    }

    /// Completes a request that gets a response, which acknowledges all earlier requests too.
    fn complete_recorded(&mut self, current: Current, answer: RecordedAnswer) -> Ruling {
        let msn = after_message(self.msn);
        self.resources.insert(self.expected, msn, answer);
        // The response acknowledges them.
        self.ack_due = false;
        self.complete(current)
    }

    /// Counts a request that was executed, and completes the receive buffer at its end
    /// (RNIC-RSP-08, RNIC-RSP-17).
    fn complete(&mut self, current: Current) -> Ruling {
        let header = &current.header;
        let operation = header.opcode.operation();
        self.current = None;
        self.nak = None;
        self.expected = self.expected.after(current.psns);
        if header.ack_req && self.config.service == Service::Rc && !is_recorded(operation) {
            self.ack_due = true;
        }
        let begun = self.message.take().unwrap_or(Inbound {
            operation,
            reth: header.ext.reth,
            received: 0,
        });
        let received = begun.received.saturating_add(header.len);
        if !header.opcode.position().ends() {
            self.message = Some(Inbound { received, ..begun });
            return Ruling::Done(Settled::default());
        }
        self.msn = after_message(self.msn);
        self.stats.messages = self.stats.messages.wrapping_add(1);
        let write = operation == Operation::Write;
        let companion = header.opcode.companion();
        let reports = operation == Operation::Send || companion == Companion::Immediate;
        let receive = self.receive.take_if(|_| reports);
        Ruling::Done(Settled {
            receive: receive.map(|_| ReceiveCompletion {
                result: Ok(()),
                len: received,
                write,
                imm: header.ext.imm.filter(|_| companion == Companion::Immediate),
                invalidated: header
                    .ext
                    .invalidate
                    .filter(|_| companion == Companion::Invalidate),
                solicited: header.solicited,
            }),
            ..Settled::default()
        })
    }

    /// Ends the queue pair because of a request (RNIC-RSP-11).
    fn refuse(&mut self, refusal: RequestRefusal) -> Ruling {
        self.current = None;
        // Only the memory of the application itself ends an unreliable connection.
        let local = refusal.reason.status() == WorkStatus::LocProtErr || refusal.nak.is_none();
        if self.config.service == Service::Uc && !local {
            return self.abandon();
        }
        let nak = refusal.nak.map(Syndrome::Nak);
        self.phase = ReceivePhase::Closed;
        self.nak = None;
        self.ack_due = false;
        self.message = None;
        if let (Some(syndrome), Service::Rc) = (nak, self.config.service) {
            self.phase = ReceivePhase::Closing;
            self.nak = Some((self.expected, syndrome));
        }
        let receive = self.receive.take();
        Ruling::Done(Settled {
            event: refusal.event.filter(|_| receive.is_none()),
            receive: receive.map(|_| failed_receive(refusal.reason)),
            nak,
            failed: true,
            duplicate: false,
        })
    }

    /// Drops the rest of a message of an unreliable connection. Its receive buffer serves the next
    /// message (RNIC-UD-10).
    fn abandon(&mut self) -> Ruling {
        self.message = None;
        self.dropping = true;
        self.expected = self.expected.after(1);
        Ruling::Drop(DropReason::Incomplete)
    }

    /// Counts a NAK that the requester gets.
    fn count_nak(&mut self, syndrome: Syndrome) {
        if let Syndrome::Nak(code) = syndrome {
            self.stats.naks.count(code);
        }
    }

    /// Packets that [`Self::poll_reply`] gives at most, unless there is news.
    pub(crate) fn replies_due(&self) -> u32 {
        if self.phase == ReceivePhase::Closed {
            return 0;
        }
        let last = self.nak.is_some() || self.ack_due;
        self.resources.unsent().saturating_add(u32::from(last))
    }

    /// The next packets for the requester, at most `room` (RNIC-RSP-16, RNIC-RDA-03).
    pub(crate) fn poll_reply(&mut self, room: u32) -> Option<ReplyPacket> {
        if self.phase == ReceivePhase::Closed || room == 0 {
            return None;
        }
        if let Some(reply) = self.resources.poll(room) {
            return Some(reply);
        }
        let (psn, syndrome) = match self.nak.take() {
            Some(nak) => {
                if self.phase == ReceivePhase::Closing {
                    self.phase = ReceivePhase::Closed;
                }
                // A sequence NAK acknowledges all that an acknowledgement would.
                nak
            }
            None if self.ack_due => (self.expected.previous(), Syndrome::ACK),
            None => return None,
        };
        self.ack_due = false;
        self.count_nak(syndrome);
        self.stats.acks = self.stats.acks.wrapping_add(1);
        Some(ReplyPacket::Ack {
            psn,
            syndrome,
            msn: self.msn,
        })
    }

    /// Packet `psn` of a READ response cannot be sent: its key is gone (RNIC-RSP-21). A repeated
    /// response is dropped (RNIC-RSP-13).
    pub(crate) fn read_failed(&mut self, burst: &ReadBurst, psn: Psn) -> Settled {
        if self.phase == ReceivePhase::Closed {
            return Settled::default();
        }
        if burst.repeated {
            self.resources.drop_response(psn);
            return Settled {
                duplicate: true,
                ..Settled::default()
            };
        }
        self.resources.clear();
        // The receive buffer is of another message: it is flushed, and an event reports the READ.
        let receive = self.receive.take();
        let was_open = self.phase == ReceivePhase::Open;
        let mut settled = Settled {
            failed: true,
            ..Settled::default()
        };
        let refusal = RequestRefusal::access(Reason::KeyGone);
        if let Ruling::Done(refused) = self.refuse(refusal) {
            if was_open {
                settled = refused;
            }
        }
        settled.receive = receive.map(|_| failed_receive(Reason::Flushed));
        // This NAK comes first, and is the last packet.
        self.nak = Some((psn, Syndrome::Nak(NakCode::RemoteAccess)));
        self.phase = ReceivePhase::Closing;
        settled
    }

    /// Enters state ERR: nothing is sent or received any longer (RNIC-ERR-05). Returns whether a
    /// receive buffer was taken, which the device flushes before all others (RNIC-ERR-02).
    pub(crate) fn flush(&mut self) -> bool {
        self.phase = ReceivePhase::Closed;
        self.resources.clear();
        self.nak = None;
        self.ack_due = false;
        self.message = None;
        self.current = None;
        self.receive.take().is_some()
    }
}

/// The number of messages after one more, 24 bits.
const fn after_message(msn: u32) -> u32 {
    Psn::new(msn).after(1).get()
}

/// The completion of a receive buffer with an error; nothing but its reason is valid (RNIC-ERR-04).
const fn failed_receive(reason: Reason) -> ReceiveCompletion {
    ReceiveCompletion {
        result: Err(reason),
        len: 0,
        write: false,
        imm: None,
        invalidated: None,
        solicited: true,
    }
}
