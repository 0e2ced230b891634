// SPDX-License-Identifier: GPL-2.0

//! The set-up of a connection while it is under way.

use super::{
    half_open::HalfOpenPlace,
    link::SdpLink,
    mail::Mailbox, //
};
use crate::{
    kapi::{
        net::{
            addr::Addr,
            msg::OwnedName, //
        },
        verbs::{
            cm::RdmaIdHandle,
            device::Device, //
        },
    },
    proto::{
        sdp::{
            hello::{
                HelloOctets,
                MAX_HELLO_ACK, //
            },
            setup::{
                Accepting,
                Connecting, //
            },
        },
        stream::reason::Reason, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// How far the outcome of a client's set-up is performed.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// There is none so far.
    Open,
    /// The link is up.
    Up,
    /// TCP has to connect.
    Tcp(Reason),
}

/// What a set-up is for.
pub(super) enum Purpose {
    /// A connection to the address that the program gave.
    Connect(OwnedName),
    /// A new link of a connection whose peer has moved.
    Move,
}

/// The set-up of a client.
pub(super) struct Opening {
    /// What it is for.
    pub(super) purpose: Purpose,
    /// The address of the peer, as the programs of the socket's cgroup want it.
    pub(super) target: Addr,
    /// The address of this host.
    pub(super) local: Option<Addr>,
    /// The decisions.
    pub(super) connecting: Connecting,
    /// What has become of it.
    pub(super) outcome: Outcome,
    /// Resolves the address.
    pub(super) resolver: Option<RdmaIdHandle<Mailbox>>,
    /// The link.
    pub(super) link: SdpLink,
    /// Sequence number of the peer's first packet.
    pub(super) psn: u32,
}

impl Opening {
    /// A set-up that has only begun.
    pub(super) fn new(purpose: Purpose, target: Addr, connecting: Connecting) -> Self {
        Self {
            purpose,
            target,
            local: None,
            connecting,
            outcome: Outcome::Open,
            resolver: None,
            link: SdpLink::NONE,
            psn: 0,
        }
    }
}

/// The set-up of a child.
pub(super) struct Accepted {
    /// The decisions.
    pub(super) accepting: Accepting,
    /// HelloAck, until it is sent.
    pub(super) answer: Option<HelloOctets<MAX_HELLO_ACK>>,
    /// The device that the request came to.
    pub(super) device: Arc<Device>,
    /// Its port.
    pub(super) port: u32,
    /// The link.
    pub(super) link: SdpLink,
    /// Counts the set-up while it is under way.
    pub(super) _place: HalfOpenPlace,
}

/// A set-up that is under way.
pub(super) enum SdpAttempt {
    /// That of a client.
    Opening(KBox<Opening>),
    /// That of the child of a listener.
    Accepting(KBox<Accepted>),
}

impl SdpAttempt {
    /// Gives up what the set-up has on its device. Context: may sleep.
    pub(super) fn lose_device(&mut self) {
        match self {
            Self::Opening(opening) => opening.link.take_down(),
            Self::Accepting(accepted) => accepted.link.take_down(),
        }
    }
}
