// SPDX-License-Identifier: GPL-2.0

//! Where a link group is in its life, and what two connections of it have in common.

use crate::proto::{
    base::verbs::Gid,
    smc::{
        clc::Version,
        wire::PeerId, //
    },
};

/// Where a group is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupPhase {
    /// First contact is under way.
    Forming,
    /// Connections may use it.
    Ready,
    /// Over.
    Dead,
}

impl GroupPhase {
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::Forming => 0,
            Self::Ready => 1,
            Self::Dead => 2,
        }
    }

    /// Text for `/proc`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Forming => "forming",
            Self::Ready => "active",
            Self::Dead => "dead",
        }
    }
}

/// What makes two connections share a group (`SMCR-LGR-02`, `SMCR-AMB-41`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// Cookie of the network namespace: groups are never shared between namespaces.
    pub(crate) net: u64,
    /// The stack at the other end.
    pub(crate) peer: PeerId,
    /// VLAN of the IP connections.
    pub(crate) vlan: Option<u16>,
    /// Version of SMC-R.
    pub(crate) version: Version,
    /// The port the peer suggested to a server, in version 2: its stack may not have a name then.
    pub(crate) suggested: Option<Gid>,
}
