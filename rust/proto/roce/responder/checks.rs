// SPDX-License-Identifier: GPL-2.0

//! The checks of a request that need nothing but its headers, and the ways to refuse it
//! (RNIC-RSP-03 to RNIC-RSP-05, RNIC-RSP-11).

use super::types::{
    ExecuteError,
    QpEvent,
    RemoteAccess,
    RemoteRange,
    RemoteRight,
    RequestHeader, //
};
use crate::proto::{
    base::verbs::Mtu,
    roce::{
        aeth::NakCode,
        header::{
            Feth,
            Reth, //
        },
        opcode::{
            Operation,
            Position, //
        },
        reason::Reason,
        work::MAX_MESSAGE, //
    },
};

/// Octets of an atomic operand.
const WORD: u32 = 8;

/// A message of several packets that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inbound {
    /// SEND or WRITE.
    pub(super) operation: Operation,
    /// Range of a WRITE.
    pub(super) reth: Option<Reth>,
    /// Octets that are in memory.
    pub(super) received: u32,
}

/// How a request that cannot be executed ends (RNIC-RSP-11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestRefusal {
    /// Code for the requester; `None` if it is not informed (RNIC-RSP-18).
    pub(super) nak: Option<NakCode>,
    /// Why, for the receive buffer if the message has one.
    pub(super) reason: Reason,
    /// Event if it has none.
    pub(super) event: Option<QpEvent>,
}

impl RequestRefusal {
    /// The request is invalid.
    pub(super) const fn invalid(reason: Reason) -> Self {
        Self {
            nak: Some(NakCode::InvalidRequest),
            reason,
            event: Some(QpEvent::RequestError),
        }
    }

    /// The memory may not be accessed.
    pub(super) const fn access(reason: Reason) -> Self {
        Self {
            nak: Some(NakCode::RemoteAccess),
            reason,
            event: Some(QpEvent::AccessError),
        }
    }

    /// The receive buffer is too short (RNIC-RSP-09).
    pub(super) const TOO_LONG: Self = Self {
        nak: Some(NakCode::InvalidRequest),
        reason: Reason::ReceiveTooShort,
        event: None,
    };
    /// The receive buffer cannot be written (RNIC-RSP-10).
    pub(super) const FAULT: Self = Self {
        nak: Some(NakCode::RemoteOperational),
        reason: Reason::ReceiveDenied,
        event: None,
    };
    /// The key cannot be invalidated (RNIC-RSP-18).
    pub(super) const NOT_INVALIDATED: Self = Self {
        nak: None,
        reason: Reason::KeyKept,
        event: None,
    };
}

/// Whether the packet continues the message, or starts one after the last (RNIC-RSP-03).
pub(super) fn follows(message: Option<&Inbound>, header: &RequestHeader) -> bool {
    let operation = header.opcode.operation();
    match message {
        None => header.opcode.position().starts(),
        Some(message) => !header.opcode.position().starts() && message.operation == operation,
    }
}

/// Whether the queue pair executes such operations (RNIC-RSP-04, RNIC-RDA-10).
pub(super) fn permits(access: &RemoteAccess, header: &RequestHeader) -> bool {
    let aligned = |vaddr: u64| vaddr & 7 == 0;
    match header.opcode.operation() {
        Operation::Send => true,
        Operation::Write => access.write,
        Operation::ReadRequest => access.read,
        Operation::CompareSwap | Operation::FetchAdd => {
            access.atomic && header.ext.atomic.is_some_and(|eth| aligned(eth.vaddr))
        }
        Operation::AtomicWrite => {
            access.write && header.ext.reth.is_some_and(|reth| aligned(reth.vaddr))
        }
        Operation::Flush => {
            const PLACEMENTS: u8 = Feth::GLOBAL | Feth::PERSISTENT;
            let scope = |feth: Feth| {
                let placed = feth.placement != 0 && feth.placement & !PLACEMENTS == 0;
                placed && feth.level <= Feth::REGION
            };
            access.flush && header.ext.feth.is_some_and(scope)
        }
        _ => false,
    }
}

/// Whether payload and length of the message agree (RNIC-RSP-05, RNIC-PSN-03, RNIC-PSN-05).
pub(super) fn fits(message: Option<&Inbound>, mtu: Mtu, header: &RequestHeader) -> bool {
    // All packets of a run are full but the last one of the message, which is not empty.
    let full = mtu.octets_of(header.packets);
    let before = mtu.octets_of(header.packets.saturating_sub(1));
    let len = header.len;
    let position = header.opcode.position();
    let payload = match position {
        Position::First | Position::Middle => len == full,
        Position::Last => before < len && len <= full,
        Position::Only => (before < len || before == 0) && len <= full,
    };
    let reth = header.ext.reth;
    let whole = match header.opcode.operation() {
        Operation::Write => {
            let received = message.map_or(0, |message| message.received);
            let reth = reth.or(message.and_then(|message| message.reth));
            let sum = received.checked_add(len);
            reth.zip(sum).is_some_and(|(reth, sum)| {
                let exact = sum == reth.len || !position.ends();
                reth.len <= MAX_MESSAGE && sum <= reth.len && exact
            })
        }
        Operation::ReadRequest => len == 0 && reth.is_some_and(|reth| reth.len <= MAX_MESSAGE),
        Operation::AtomicWrite => len == WORD && reth.is_some_and(|reth| reth.len == WORD),
        Operation::Send => true,
        _ => len == 0,
    };
    payload && whole
}

/// Whether a request is recorded for its response (RNIC-RDA-01).
pub(super) const fn is_recorded(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::ReadRequest
            | Operation::CompareSwap
            | Operation::FetchAdd
            | Operation::AtomicWrite
            | Operation::Flush
    )
}

/// The memory that a request names, if the device must check it (RNIC-RSP-07).
pub(super) fn range_of(header: &RequestHeader) -> Option<RemoteRange> {
    if let Some(eth) = header.ext.atomic {
        return Some(RemoteRange {
            vaddr: eth.vaddr,
            rkey: eth.rkey,
            len: WORD,
            right: RemoteRight::Atomic,
        });
    }
    let reth = header.ext.reth?;
    let right = match header.opcode.operation() {
        Operation::ReadRequest => RemoteRight::Read,
        Operation::Flush => match header.ext.feth {
            Some(feth) if feth.placement & Feth::PERSISTENT != 0 => RemoteRight::Persist,
            Some(feth) if feth.level == Feth::REGION => RemoteRight::FlushRegion,
            _ => RemoteRight::FlushRange,
        },
        _ => RemoteRight::Write,
    };
    let whole = matches!(right, RemoteRight::FlushRegion | RemoteRight::Persist);
    let named = reth.len > 0 || whole;
    named.then_some(RemoteRange {
        vaddr: reth.vaddr,
        rkey: reth.rkey,
        len: reth.len,
        right,
    })
}

/// How a request ends that could not be executed; `None` if it counts as lost.
pub(super) const fn refusal_of(error: ExecuteError) -> Option<RequestRefusal> {
    match error {
        ExecuteError::ReceiveFault => Some(RequestRefusal::FAULT),
        ExecuteError::KeyGone => Some(RequestRefusal::access(Reason::KeyGone)),
        ExecuteError::NotInvalidated => Some(RequestRefusal::NOT_INVALIDATED),
        ExecuteError::SourceGone => None,
    }
}
