// SPDX-License-Identifier: GPL-2.0

//! LLC DELETE LINK, RFC 7609, section A.3.4: ends one link or the whole link group.

use zerocopy::{byteorder::network_endian::U32, transmute};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::msg::{
    LlcHeader,
    Octets, //
};
use crate::proto::smc::wire::LinkNum;

/// Flag: all links, that is the link group (LLC-404).
const ALL: u8 = 0x40;

/// Flag: the links still work (LLC-404).
const ORDERLY: u8 = 0x20;

/// A DELETE LINK as sent.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    header: LlcHeader,
    number: u8,
    reason: U32,
    reserved: [u8; 35],
}

/// Why a link or the link group ends (LLC-406).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteReason {
    /// The path is lost, for example because the device failed (AMB-11).
    LostPath,
    /// An operator wants it.
    Operator,
    /// The implementation wants it, for example because the link was not used.
    Inactivity,
    /// The peer broke the protocol.
    ProtocolViolation,
    /// A symmetric link replaces this asymmetric one (LLF-52).
    NoAsymmetric,
    /// In a reply: there is no link of that number (ERR-35, ERR-36).
    UnknownLink,
    /// Another code of the peer; replies carry 0.
    Other(u32),
}

impl DeleteReason {
    /// Reads a code. Total: unknown ones are kept (AMB-11).
    pub(crate) const fn from_code(code: u32) -> Self {
        match code {
            0x0001_0000 => Self::LostPath,
            0x0002_0000 => Self::Operator,
            0x0003_0000 => Self::Inactivity,
            0x0004_0000 => Self::ProtocolViolation,
            0x0005_0000 => Self::NoAsymmetric,
            0x0010_0000 => Self::UnknownLink,
            other => Self::Other(other),
        }
    }

    /// The code on the wire.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::LostPath => 0x0001_0000,
            Self::Operator => 0x0002_0000,
            Self::Inactivity => 0x0003_0000,
            Self::ProtocolViolation => 0x0004_0000,
            Self::NoAsymmetric => 0x0005_0000,
            Self::UnknownLink => 0x0010_0000,
            Self::Other(code) => code,
        }
    }
}

/// DELETE LINK, LLC-401 to LLC-407.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeleteLink {
    /// Whether this is the reply.
    pub(crate) reply: bool,
    /// Whether the whole link group ends.
    pub(crate) all: bool,
    /// Whether the link still works.
    pub(crate) orderly: bool,
    /// The link to end; 0 with `all` (LLC-405).
    pub(crate) number: LinkNum,
    /// Why (LLC-406).
    pub(crate) reason: DeleteReason,
}

impl DeleteLink {
    /// Octet 0 (LLC-401).
    pub(super) const OPCODE: u8 = 4;

    /// Reads one.
    pub(super) fn parse(octets: &Octets) -> Self {
        let raw: Raw = transmute!(*octets);
        Self {
            reply: raw.header.reply(),
            all: raw.header.has(ALL),
            orderly: raw.header.has(ORDERLY),
            number: LinkNum::new(raw.number),
            reason: DeleteReason::from_code(raw.reason.get()),
        }
    }

    /// Writes it.
    pub(super) fn emit(&self) -> Octets {
        let all = if self.all { ALL } else { 0 };
        let orderly = if self.orderly { ORDERLY } else { 0 };
        transmute!(Raw {
            header: LlcHeader::new(Self::OPCODE, self.reply, all | orderly),
            number: self.number.get(),
            reason: U32::new(self.reason.code()),
            reserved: [0; 35],
        })
    }
}
