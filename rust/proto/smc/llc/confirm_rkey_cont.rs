// SPDX-License-Identifier: GPL-2.0

//! LLC CONFIRM RKEY CONTINUATION, RFC 7609, section A.3.6: keys of an announced buffer on the links
//! that did not fit into CONFIRM RKEY.

use zerocopy::transmute;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{
    confirm_rkey::{
        Other,
        RawOther,
        NEGATIVE, //
    },
    msg::{
        LlcHeader,
        Octets, //
    },
};

/// A CONFIRM RKEY CONTINUATION as sent. The figure in the RFC draws the first token an octet
/// shorter than the others, which cannot be: three of 13 octets fill the message (AMB-13).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    header: LlcHeader,
    left: u8,
    others: [RawOther; 3],
}

/// CONFIRM RKEY CONTINUATION, LLC-801 to LLC-808.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConfirmRkeyCont {
    /// Whether this is the reply.
    pub(crate) reply: bool,
    /// In a reply: the buffer was not taken in.
    pub(crate) negative: bool,
    /// Number of links that are yet to come, with those in here (LLC-805).
    pub(crate) left: u8,
    /// The buffer on the first three of them (LLC-806 to LLC-808).
    pub(crate) others: [Other; 3],
}

impl ConfirmRkeyCont {
    /// Octet 0 (LLC-801).
    pub(super) const OPCODE: u8 = 8;

    /// Reads one.
    pub(super) fn parse(octets: &Octets) -> Self {
        let raw: Raw = transmute!(*octets);
        Self {
            reply: raw.header.reply(),
            negative: raw.header.has(NEGATIVE),
            left: raw.left,
            others: raw.others.map(Other::from_raw),
        }
    }

    /// Writes it.
    pub(super) fn emit(&self) -> Octets {
        let negative = if self.negative { NEGATIVE } else { 0 };
        transmute!(Raw {
            header: LlcHeader::new(Self::OPCODE, self.reply, negative),
            left: self.left,
            others: self.others.map(Other::raw),
        })
    }
}
