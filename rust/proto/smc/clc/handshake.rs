// SPDX-License-Identifier: GPL-2.0

//! What both sides of the CLC handshake share, RFC 7609, section 3.5 and appendix C.

use super::{
    decline::Decline,
    error::Reserved,
    message::ClcMessage, //
};
use crate::proto::{
    base::time::Duration,
    stream::reason::Reason, //
};

/// How long the handshake waits. The RFC names no values (AMB-36); the defaults fit deployed peers
/// (DEP-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClcTimers {
    /// For the peer's next message, and for TCP to take one of ours (CLC-10).
    pub(crate) clc: Duration,
    /// For this side to prepare its end. Shorter than the peer's wait, so that it still gets an
    /// answer.
    pub(crate) prepare: Duration,
    /// For the LLC exchange of a first contact. Its steps have timers of their own; this one is
    /// longer than their sum.
    pub(crate) llc: Duration,
}

impl ClcTimers {
    /// The default values.
    pub(crate) const DEFAULT: Self = Self {
        clc: Duration::from_secs(6),
        prepare: Duration::from_secs(5),
        llc: Duration::from_secs(40),
    };
}

/// How a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClcOutcome {
    /// The connection is carried by SMC-R; from now on no data may arrive on TCP.
    Smc,
    /// The connection is carried by TCP, from the octet behind the last CLC message on.
    Fallback {
        /// Our reason, or the diagnosis of the peer.
        reason: Reason,
        /// It was the peer that declined.
        by_peer: bool,
        /// The peer does not know the link group that this side meant to use; it must go (CLC-402).
        out_of_sync: bool,
    },
    /// At the server: the client did not begin, so the connection is carried by TCP.
    NoProposal {
        /// It has not sent anything yet. Should a Proposal come after all, it must not reach the
        /// application.
        silent: bool,
    },
    /// The TCP connection must be reset.
    Abort(Reason),
}

impl ClcOutcome {
    /// This side declined.
    pub(super) const fn declined(reason: Reason) -> Self {
        Self::Fallback {
            reason,
            by_peer: false,
            out_of_sync: false,
        }
    }

    /// The peer declined.
    pub(super) const fn declined_by_peer(decline: &Decline) -> Self {
        Self::Fallback {
            reason: decline.reason,
            by_peer: true,
            out_of_sync: decline.out_of_sync,
        }
    }
}

/// How the LLC exchange of a first contact ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LlcOutcome {
    /// The link is confirmed and the attempt to add another one is over.
    Ready,
    /// It failed where falling back is still possible (FBK-07 to FBK-10).
    Decline(Reason),
    /// It failed where it is not (FBK-16).
    Abort(Reason),
}

/// Most octets of a message this side sends: a Proposal with eight prefixes and eight names.
const MESSAGE_BYTES: usize = 524;

/// The octets of one message, to be sent on the TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes {
    buf: [u8; MESSAGE_BYTES],
    len: usize,
}

impl Bytes {
    /// Writes a message. `None` cannot happen: there is room for all of them.
    pub(super) fn of(message: &ClcMessage) -> Option<Self> {
        let mut buf = [0; MESSAGE_BYTES];
        let len = message.emit(&mut buf)?;
        Some(Self { buf, len })
    }

    /// The octets.
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }
}

/// The diagnosis for a Decline that answers a reserved value (CLC-08).
pub(super) const fn reserved_reason(value: Reserved) -> Reason {
    match value {
        Reserved::Version(_) => Reason::VersionMismatch,
        Reserved::Transport(_) => Reason::ModeUnsupported,
        Reserved::Extension => Reason::NoV2Extension,
    }
}

/// Messages for the tests of both sides.
#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
pub(super) mod examples {
    use crate::proto::{
        base::verbs::{
            Gid,
            Mac,
            Mtu,
            Psn,
            Qpn,
            RKey, //
        },
        smc::{
            clc::{
                Answer,
                Decline,
                Endpoint,
                Networks,
                Prefix6,
                Prefix6List,
                Proposal,
                Version, //
            },
            wire::{
                AlertToken,
                BufSize,
                PeerId,
                RmbeIndex, //
            },
        },
        stream::reason::Reason, //
    };

    /// The client's stack.
    pub(crate) const CLIENT: PeerId = PeerId::new([0x12, 0x34, 2, 0, 0, 0, 11, 1]);
    /// The server's stack.
    pub(crate) const SERVER: PeerId = PeerId::new([0x56, 0x78, 2, 0, 0, 0, 10, 1]);

    /// The first element of a buffer.
    const FIRST: RmbeIndex = match RmbeIndex::new(1) {
        Some(index) => index,
        None => unreachable!(),
    };

    /// An end; its MTU may be a reserved value.
    pub(crate) fn endpoint(good_mtu: bool) -> Endpoint {
        Endpoint {
            gid: Gid::new([0xfe; 16]),
            mac: Mac::new([2, 0, 0, 0, 10, 1]),
            qpn: Qpn::new(8),
            rkey: RKey::new(0x1122_3344),
            rmbe_index: FIRST,
            alert_token: AlertToken::new(0xa000_0001),
            buf_size: BufSize::for_bytes(65536),
            mtu: good_mtu.then_some(Mtu::M1024),
            vaddr: 0x7000_0000_0000,
            psn: Psn::new(0xabcd),
        }
    }

    /// A Proposal.
    pub(crate) fn proposal() -> Proposal {
        Proposal {
            peer: CLIENT,
            gid: Gid::new([0xfe; 16]),
            mac: Mac::new([2, 0, 0, 0, 11, 1]),
            v1: Some(Networks::V6(Prefix6List::new(Prefix6::ANY))),
            v2: None,
        }
    }

    /// An Accept.
    pub(crate) fn accept(first_contact: bool, good_mtu: bool) -> Answer {
        Answer {
            peer: SERVER,
            first_contact,
            endpoint: endpoint(good_mtu),
            v2: None,
        }
    }

    /// A Confirm.
    pub(crate) fn confirm(good_mtu: bool) -> Answer {
        Answer {
            peer: CLIENT,
            first_contact: false,
            endpoint: endpoint(good_mtu),
            v2: None,
        }
    }

    /// A Decline of the peer for lack of memory.
    pub(crate) fn decline() -> Decline {
        Decline::new(SERVER, Reason::Memory, Version::V1)
    }
}
