// SPDX-License-Identifier: GPL-2.0

//! LLC ADD LINK CONTINUATION, RFC 7609, section A.3.3: keys of the sender's buffers on a new link.

use zerocopy::{
    byteorder::network_endian::{U32, U64},
    transmute, //
};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::msg::{
    LlcHeader,
    Octets, //
};
use crate::proto::{
    base::verbs::RKey,
    smc::wire::{
        LinkNum,
        RToken, //
    },
};

/// A pair as sent.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPair {
    reference: U32,
    rkey: U32,
    vaddr: U64,
}

/// An ADD LINK CONTINUATION as sent.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    header: LlcHeader,
    number: u8,
    left: u8,
    reserved1: [u8; 2],
    pairs: [RawPair; 2],
    reserved2: [u8; 4],
}

/// Token of one buffer on the new link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RTokenPair {
    /// The buffer's key on the link that carries the message (LLC-311).
    pub(crate) reference: RKey,
    /// The buffer on the new link (LLC-312, LLC-313).
    pub(crate) token: RToken,
}

/// ADD LINK CONTINUATION, LLC-301 to LLC-310.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddLinkCont {
    /// Whether this is the reply.
    pub(crate) reply: bool,
    /// Number of the new link (LLC-305).
    pub(crate) number: LinkNum,
    /// Number of buffers that the sender has yet to announce, with those in here (LLC-306).
    pub(crate) left: u8,
    /// The first two of them; zero where `left` is smaller (LLC-308, LLC-309).
    pub(crate) pairs: [RTokenPair; 2],
}

impl AddLinkCont {
    /// Octet 0 (LLC-301).
    pub(super) const OPCODE: u8 = 3;

    /// Reads one.
    pub(super) fn parse(octets: &Octets) -> Self {
        let raw: Raw = transmute!(*octets);
        Self {
            reply: raw.header.reply(),
            number: LinkNum::new(raw.number),
            left: raw.left,
            pairs: raw.pairs.map(|pair| RTokenPair {
                reference: RKey::new(pair.reference.get()),
                token: RToken {
                    rkey: RKey::new(pair.rkey.get()),
                    vaddr: pair.vaddr.get(),
                },
            }),
        }
    }

    /// Writes it.
    pub(super) fn emit(&self) -> Octets {
        transmute!(Raw {
            header: LlcHeader::new(Self::OPCODE, self.reply, 0),
            number: self.number.get(),
            left: self.left,
            reserved1: [0; 2],
            pairs: self.pairs.map(|pair| RawPair {
                reference: U32::new(pair.reference.get()),
                rkey: U32::new(pair.token.rkey.get()),
                vaddr: U64::new(pair.token.vaddr),
            }),
            reserved2: [0; 4],
        })
    }
}
