// SPDX-License-Identifier: GPL-2.0

//! Settings, inputs and rulings of a [`Responder`](super::Responder).

use crate::proto::{
    base::verbs::{
        Mtu,
        Psn,
        RKey, //
    },
    roce::{
        aeth::{
            NakCounts,
            RnrTimer,
            Syndrome, //
        },
        header::Aeth,
        opcode::{
            Companion,
            Opcode,
            Operation,
            Position,
            Service, //
        },
        packet::{
            Extensions,
            RocePacket, //
        },
        plan::MessagePlan,
        reason::Reason,
        work::{
            WorkKind,
            WorkStatus, //
        },
    },
};

/// Operations that the application permits to the peer (RNIC-RSP-04).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemoteAccess {
    /// WRITE and ATOMIC WRITE.
    pub(crate) write: bool,
    /// READ.
    pub(crate) read: bool,
    /// CMP SWAP and FETCH ADD.
    pub(crate) atomic: bool,
    /// FLUSH for global visibility.
    pub(crate) flush: bool,
}

/// The settings of a responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponderConfig {
    /// Service of the queue pair: reliable or unreliable connection.
    pub(crate) service: Service,
    /// Path MTU.
    pub(crate) mtu: Mtu,
    /// PSN of the first packet (RNIC-PSN-06).
    pub(crate) first_psn: Psn,
    /// Permitted operations.
    pub(crate) access: RemoteAccess,
    /// The time that the peer waits for a receive buffer (RNIC-RSP-06).
    pub(crate) rnr_timer: RnrTimer,
}

/// A request packet without its payload, or a run of packets of one message (RNIC-DIR-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestHeader {
    /// Opcode.
    pub(crate) opcode: Opcode,
    /// Sequence number, of a run that of the first packet.
    pub(crate) psn: Psn,
    /// Packets: more than 1 for a run, which leaves out the network.
    pub(crate) packets: u32,
    /// Whether the requester asks for an acknowledgement.
    pub(crate) ack_req: bool,
    /// Whether the receive completion is solicited (RNIC-CQ-06).
    pub(crate) solicited: bool,
    /// Extension headers.
    pub(crate) ext: Extensions,
    /// Octets of the payload.
    pub(crate) len: u32,
}

impl RequestHeader {
    /// The header of a packet that was parsed.
    pub(crate) fn new(packet: &RocePacket<'_>) -> Self {
        Self {
            opcode: packet.opcode,
            psn: packet.bth.psn,
            packets: 1,
            ack_req: packet.bth.ack_req,
            solicited: packet.bth.solicited,
            ext: packet.ext,
            // A longer payload than any packet has is one that no check accepts.
            len: u32::try_from(packet.payload.len()).unwrap_or(u32::MAX),
        }
    }

    /// Whether the packet consumes a receive buffer (RNIC-RSP-06).
    pub(super) fn consumes_receive(&self) -> bool {
        match self.opcode.operation() {
            Operation::Send => self.opcode.position().starts(),
            _ => self.opcode.companion() == Companion::Immediate,
        }
    }
}

/// Why a packet has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropReason {
    /// The queue pair receives nothing (RNIC-RSP-01).
    Closed,
    /// The opcode is one of another service, or of a response (RNIC-RSP-01).
    Service,
    /// A packet before it is missing, and the requester knows (RNIC-RSP-02).
    Sequence,
    /// A duplicate of a request that is no longer recorded (RNIC-RSP-13, RNIC-RSP-14).
    Forgotten,
    /// Part of a message of an unreliable connection that is incomplete or refused (RNIC-UD-10).
    Incomplete,
    /// The octets of a run are gone before it was executed (RNIC-DIR-11). It counts as lost.
    SourceGone,
    /// No packet is being ruled on.
    Idle,
}

/// The right that a key must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoteRight {
    /// To write.
    Write,
    /// To read.
    Read,
    /// To execute atomic operations.
    Atomic,
    /// To flush the range.
    FlushRange,
    /// To flush the region that the key names; the range does not matter.
    FlushRegion,
    /// To make data persistent, which a key permits only for memory that survives a loss of power.
    Persist,
}

/// A range of this side's memory that the peer names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemoteRange {
    /// First octet.
    pub(crate) vaddr: u64,
    /// Key.
    pub(crate) rkey: RKey,
    /// Octets.
    pub(crate) len: u32,
    /// The right that is needed.
    pub(crate) right: RemoteRight,
}

/// The memory that payload goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacementTarget {
    /// The receive buffer of the message.
    Receive,
    /// Memory that the peer named: address and key of the message.
    Memory(u64, RKey),
}

/// Payload to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The memory.
    pub(crate) target: PlacementTarget,
    /// Offset in it.
    pub(crate) offset: u32,
    /// Octets, which may be 0.
    pub(crate) len: u32,
    /// Whether it must become visible at once, by one store of eight octets (RNIC-RDA-09).
    pub(crate) word: bool,
    /// A key to invalidate once everything is stored (RNIC-RSP-18).
    pub(crate) invalidate: Option<RKey>,
}

/// An atomic operation on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtomicTask {
    /// Address of the word, aligned to 8.
    pub(crate) vaddr: u64,
    /// Key.
    pub(crate) rkey: RKey,
    /// The operation.
    pub(crate) operation: AtomicOperation,
}

/// The change of the word by an atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOperation {
    /// Stores `swap` if the word is equal to `compare`.
    CompareSwap {
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// Adds a number, modulo 2^64.
    FetchAdd(u64),
}

/// A decision on a request. All but [`Ruling::Drop`] and [`Ruling::Done`] ask the device for
/// something, and the answer leads to the next ruling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// Nothing happens.
    Drop(DropReason),
    /// Take a receive buffer: `grant_receive` or `refuse_receive`.
    NeedReceive,
    /// Check a key: `grant_key` or `refuse_key`.
    NeedKey(RemoteRange),
    /// Copy the payload: `executed`.
    Place(Placement),
    /// Execute an atomic operation: `executed_atomic`.
    Atomic(AtomicTask),
    /// Make earlier writes visible: `executed` (RNIC-RDA-10).
    Flush(RemoteRange),
    /// The request is over.
    Done(Settled),
}

/// Why a request could not be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecuteError {
    /// The memory of the receive buffer cannot be written (RNIC-RSP-10).
    ReceiveFault,
    /// The key was invalidated in mid-message (RNIC-RSP-21).
    KeyGone,
    /// The key of the message cannot be invalidated (RNIC-RSP-18).
    NotInvalidated,
    /// The octets of a run are gone (RNIC-DIR-11).
    SourceGone,
}

/// An asynchronous event of the queue pair (RNIC-RSP-11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpEvent {
    /// The peer sent an invalid request.
    RequestError,
    /// The peer named memory that it may not access.
    AccessError,
}

/// A completed receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveCompletion {
    /// Success, or why it failed. Then nothing else is valid (RNIC-ERR-04).
    pub(crate) result: Result<(), Reason>,
    /// Octets of the message (RNIC-RSP-20).
    pub(crate) len: u32,
    /// Whether the message was a WRITE, which leaves the buffer untouched.
    pub(crate) write: bool,
    /// Immediate data.
    pub(crate) imm: Option<[u8; 4]>,
    /// The key that was invalidated.
    pub(crate) invalidated: Option<RKey>,
    /// Whether the completion is solicited.
    pub(crate) solicited: bool,
}

impl ReceiveCompletion {
    /// The status (RNIC-ERR-03).
    pub(crate) const fn status(&self) -> WorkStatus {
        WorkStatus::of(self.result)
    }
}

/// The result of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// A receive buffer that is complete.
    pub(crate) receive: Option<ReceiveCompletion>,
    /// The refusal, which is queued for sending.
    pub(crate) nak: Option<Syndrome>,
    /// An event for the application.
    pub(crate) event: Option<QpEvent>,
    /// Whether the queue pair enters state ERR.
    pub(crate) failed: bool,
    /// Whether the request was executed before (RNIC-RSP-12 to RNIC-RSP-15).
    pub(crate) duplicate: bool,
}

/// Packets of a READ response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadBurst {
    /// Address of the first octet of the response, which has offset 0 in the plan.
    pub(crate) vaddr: u64,
    /// Key; its validity is checked for each chunk (RNIC-RSP-21).
    pub(crate) rkey: RKey,
    /// Opcodes, offsets and lengths of the packets.
    pub(crate) plan: MessagePlan,
    /// The first packet of the plan.
    pub(crate) index: u32,
    /// Number of packets.
    pub(crate) packets: u32,
    /// PSN of the first packet.
    pub(crate) psn: Psn,
    /// MSN of the acknowledgement in FIRST, LAST and ONLY.
    pub(crate) msn: u32,
    /// Whether the requester was sent this response before.
    pub(crate) repeated: bool,
}

impl ReadBurst {
    /// The headers behind the BTH. The opcode of a packet says whether it has them.
    pub(crate) fn extensions(&self) -> Extensions {
        Extensions {
            aeth: Some(Aeth {
                syndrome: Some(Syndrome::ACK),
                msn: self.msn,
            }),
            ..Extensions::default()
        }
    }
}

/// Packets for the requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyPacket {
    /// Part of a READ response. If the memory cannot be read: `read_failed`.
    Read(ReadBurst),
    /// The answer to an atomic operation.
    Atomic {
        /// PSN of the request.
        psn: Psn,
        /// MSN.
        msn: u32,
        /// Previous value of the word.
        original: u64,
    },
    /// An empty READ response, which answers FLUSH and ATOMIC WRITE.
    Empty {
        /// PSN of the request.
        psn: Psn,
        /// MSN.
        msn: u32,
    },
    /// An acknowledgement, positive or negative.
    Ack {
        /// PSN that it is about.
        psn: Psn,
        /// Syndrome.
        syndrome: Syndrome,
        /// MSN.
        msn: u32,
    },
}

/// Events for statistics (RNIC-STAT-01).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponderStats {
    /// Messages that were executed.
    pub(crate) messages: u64,
    /// Duplicate packets.
    pub(crate) duplicates: u64,
    /// Packets behind a missing one.
    pub(crate) out_of_sequence: u64,
    /// RNR NAKs.
    pub(crate) rnr_naks: u64,
    /// NAKs sent, other than for want of a receive buffer.
    pub(crate) naks: NakCounts,
    /// Acknowledgements that were sent.
    pub(crate) acks: u64,
}
