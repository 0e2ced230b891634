// SPDX-License-Identifier: GPL-2.0

//! LLC CONFIRM LINK, RFC 7609, section A.3.1: proves that a link works.

use zerocopy::{byteorder::network_endian::U32, transmute};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::msg::{
    LlcHeader,
    Octets, //
};
use crate::proto::{
    base::verbs::{
        Gid,
        Mac,
        Qpn, //
    },
    smc::wire::LinkNum, //
};

/// Flags that say that elements have no eye catcher; either of them suffices (DEP-1).
const NO_EYE_CATCHER: u8 = 0x03;

/// A CONFIRM LINK as sent.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    header: LlcHeader,
    mac: [u8; 6],
    gid: [u8; 16],
    qpn: [u8; 3],
    number: u8,
    uid: U32,
    max_links: u8,
    max_conns: u8,
    reserved: [u8; 8],
}

/// CONFIRM LINK, LLC-101 to LLC-111.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConfirmLink {
    /// Whether this is the reply.
    pub(crate) reply: bool,
    /// Whether the sender's elements have no eye catcher, so that cursors start at 0 (DEP-1).
    pub(crate) no_eye_catcher: bool,
    /// The sender's port on this link (LLC-105).
    pub(crate) mac: Mac,
    /// The sender's port on this link (LLC-106).
    pub(crate) gid: Gid,
    /// The sender's queue pair of this link (LLC-107).
    pub(crate) qpn: Qpn,
    /// Number of the link, assigned by the server (LLC-108).
    pub(crate) number: LinkNum,
    /// The sender's own name of the link, for people only (LLC-109, LNK-03).
    pub(crate) uid: u32,
    /// How many links the sender supports; 0 from a client means as many as the server (LLC-110).
    pub(crate) max_links: u8,
    /// How many connections the sender has in the group at most; only in SMC-Rv2, else 0.
    pub(crate) max_conns: u8,
}

impl ConfirmLink {
    /// Octet 0 (LLC-101).
    pub(super) const OPCODE: u8 = 1;

    /// Reads one.
    pub(super) fn parse(octets: &Octets) -> Self {
        let raw: Raw = transmute!(*octets);
        Self {
            reply: raw.header.reply(),
            no_eye_catcher: raw.header.has(NO_EYE_CATCHER),
            mac: Mac::new(raw.mac),
            gid: Gid::new(raw.gid),
            qpn: Qpn::from_octets(raw.qpn),
            number: LinkNum::new(raw.number),
            uid: raw.uid.get(),
            max_links: raw.max_links,
            max_conns: raw.max_conns,
        }
    }

    /// Writes it.
    pub(super) fn emit(&self) -> Octets {
        let flags = if self.no_eye_catcher {
            NO_EYE_CATCHER
        } else {
            0
        };
        transmute!(Raw {
            header: LlcHeader::new(Self::OPCODE, self.reply, flags),
            mac: self.mac.get(),
            gid: self.gid.get(),
            qpn: self.qpn.octets(),
            number: self.number.get(),
            uid: U32::new(self.uid),
            max_links: self.max_links,
            max_conns: self.max_conns,
            reserved: [0; 8],
        })
    }
}
