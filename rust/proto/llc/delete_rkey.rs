// SPDX-License-Identifier: GPL-2.0

//! LLC DELETE RKEY, RFC 7609, section A.3.7: withdraws up to eight buffers.

use zerocopy::{byteorder::network_endian::U32, transmute};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{
    confirm_rkey::NEGATIVE,
    msg::{Header, Octets, ParseError}, //
};
use crate::proto::wire::RKey;

/// Most buffers one message withdraws (LLC-905).
pub(crate) const MAX_KEYS: u8 = 8;

/// A DELETE RKEY as sent.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    header: Header,
    count: u8,
    error_mask: u8,
    reserved1: [u8; 2],
    keys: [U32; 8],
    reserved2: [u8; 4],
}

/// DELETE RKEY, LLC-901 to LLC-909.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeleteRkey {
    /// Whether this is the reply.
    pub(crate) reply: bool,
    /// In a reply: not all of the buffers were known.
    pub(crate) negative: bool,
    /// How many buffers are withdrawn, 1 to 8 (LLC-905).
    count: u8,
    /// In a negative reply: a bit for each buffer that was not known, the first one 0x80 (LLC-906).
    pub(crate) error_mask: u8,
    /// Their keys on the link that carries the message (LLC-908).
    keys: [RKey; 8],
}

impl DeleteRkey {
    /// Octet 0 (LLC-901).
    pub(super) const OPCODE: u8 = 9;

    /// A request to withdraw one buffer.
    pub(super) const fn request(key: RKey) -> Self {
        let none = RKey::new(0);
        Self {
            reply: false,
            negative: false,
            count: 1,
            error_mask: 0,
            keys: [key, none, none, none, none, none, none, none],
        }
    }

    /// The keys of the buffers, each with its bit in the error mask.
    pub(super) fn keys(&self) -> impl Iterator<Item = (RKey, u8)> {
        let bits = (0..8_u32).map(|at| 0x80_u8 >> at);
        self.keys
            .into_iter()
            .zip(bits)
            .take(usize::from(self.count))
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// `ParseError::Count` for no key, or for more than the message holds.
    pub(super) fn parse(octets: &Octets) -> Result<Self, ParseError> {
        let raw: Raw = transmute!(*octets);
        if !(1..=MAX_KEYS).contains(&raw.count) {
            return Err(ParseError::Count);
        }
        Ok(Self {
            reply: raw.header.reply(),
            negative: raw.header.has(NEGATIVE),
            count: raw.count,
            error_mask: raw.error_mask,
            keys: raw.keys.map(|key| RKey::new(key.get())),
        })
    }

    /// Writes it.
    pub(super) fn emit(&self) -> Octets {
        let negative = if self.negative { NEGATIVE } else { 0 };
        transmute!(Raw {
            header: Header::new(Self::OPCODE, self.reply, negative),
            count: self.count,
            error_mask: self.error_mask,
            reserved1: [0; 2],
            keys: self.keys.map(|key| U32::new(key.get())),
            reserved2: [0; 4],
        })
    }
}
