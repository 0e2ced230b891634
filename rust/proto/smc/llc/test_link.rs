// SPDX-License-Identifier: GPL-2.0

//! LLC TEST LINK, RFC 7609, section A.3.8: asks whether the link is alive.

use zerocopy::transmute;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::msg::{
    LlcHeader,
    Octets, //
};

/// Octets the sender chooses and the reply repeats (LLC-705).
pub(crate) type UserData = [u8; 16];

/// A TEST LINK as sent.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    header: LlcHeader,
    user_data: UserData,
    reserved: [u8; 24],
}

/// TEST LINK, LLC-701 to LLC-706.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TestLink {
    /// Whether this is the reply.
    pub(crate) reply: bool,
    /// What the sender chose (LLF-81).
    pub(crate) user_data: UserData,
}

impl TestLink {
    /// Octet 0 (LLC-701).
    pub(super) const OPCODE: u8 = 7;

    /// Reads one.
    pub(super) fn parse(octets: &Octets) -> Self {
        let raw: Raw = transmute!(*octets);
        Self {
            reply: raw.header.reply(),
            user_data: raw.user_data,
        }
    }

    /// Writes it.
    pub(super) fn emit(&self) -> Octets {
        transmute!(Raw {
            header: LlcHeader::new(Self::OPCODE, self.reply, 0),
            user_data: self.user_data,
            reserved: [0; 24],
        })
    }
}
