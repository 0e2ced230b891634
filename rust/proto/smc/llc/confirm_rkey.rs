// SPDX-License-Identifier: GPL-2.0

//! LLC CONFIRM RKEY, RFC 7609, section A.3.5: announces a new buffer on every link.

use zerocopy::{
    byteorder::network_endian::{U32, U64},
    transmute, //
};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::msg::{
    LlcHeader,
    LlcParseError,
    Octets, //
};
use crate::proto::{
    base::verbs::RKey,
    smc::wire::{
        LinkNum,
        RToken, //
    },
};

/// Flag of a reply: the buffer was not taken in (LLC-604).
pub(super) const NEGATIVE: u8 = 0x20;

/// Flag of a negative reply: a configuration change is running, try again behind it (LLC-604).
const RETRY: u8 = 0x10;

/// Most links a link group has besides the one that carries the message (LLC-605).
const MAX_OTHERS: u8 = 7;

/// A token as sent.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawToken {
    rkey: U32,
    vaddr: U64,
}

impl RawToken {
    /// What it means.
    const fn get(self) -> RToken {
        RToken {
            rkey: RKey::new(self.rkey.get()),
            vaddr: self.vaddr.get(),
        }
    }

    /// How `token` is sent.
    const fn new(token: RToken) -> Self {
        Self {
            rkey: U32::new(token.rkey.get()),
            vaddr: U64::new(token.vaddr),
        }
    }
}

/// Token on another link, as sent, 13 octets (LLC-611 to LLC-613, AMB-13).
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawOther {
    number: u8,
    token: RawToken,
}

/// Token of the buffer on a link other than the one that carries the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Other {
    /// The link (LLC-611).
    pub(crate) number: LinkNum,
    /// The buffer on it (LLC-612, LLC-613).
    pub(crate) token: RToken,
}

impl Other {
    /// Fills a place that is not used.
    pub(crate) const NONE: Self = Self {
        number: LinkNum::new(0),
        token: RToken {
            rkey: RKey::new(0),
            vaddr: 0,
        },
    };

    /// Reads one.
    pub(super) const fn from_raw(raw: RawOther) -> Self {
        Self {
            number: LinkNum::new(raw.number),
            token: raw.token.get(),
        }
    }

    /// How it is sent.
    pub(super) const fn raw(self) -> RawOther {
        RawOther {
            number: self.number.get(),
            token: RawToken::new(self.token),
        }
    }
}

/// A CONFIRM RKEY as sent.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    header: LlcHeader,
    count: u8,
    token: RawToken,
    others: [RawOther; 2],
    reserved: u8,
}

/// CONFIRM RKEY, LLC-601 to LLC-610.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConfirmRkey {
    /// Whether this is the reply.
    pub(crate) reply: bool,
    /// In a reply: the buffer was not taken in.
    pub(crate) negative: bool,
    /// In a negative reply: try again when the link group has settled (LLF-65).
    pub(crate) retry: bool,
    /// Number of other links in the exchange; those that do not fit in here follow in
    /// CONFIRM RKEY CONTINUATION (LLC-605, AMB-12).
    pub(crate) count: u8,
    /// The buffer on the link that carries the message (LLC-606, LLC-607).
    pub(crate) token: RToken,
    /// The buffer on the first two other links (LLC-608, LLC-609).
    pub(crate) others: [Other; 2],
}

impl ConfirmRkey {
    /// Octet 0 (LLC-601).
    pub(super) const OPCODE: u8 = 6;

    /// Reads one.
    ///
    /// # Errors
    ///
    /// `LlcParseError::Count` when there are more other links than a link group can have.
    pub(super) fn parse(octets: &Octets) -> Result<Self, LlcParseError> {
        let raw: Raw = transmute!(*octets);
        if raw.count > MAX_OTHERS {
            return Err(LlcParseError::Count);
        }
        Ok(Self {
            reply: raw.header.reply(),
            negative: raw.header.has(NEGATIVE),
            retry: raw.header.has(RETRY),
            count: raw.count,
            token: raw.token.get(),
            others: raw.others.map(Other::from_raw),
        })
    }

    /// Writes it.
    pub(super) fn emit(&self) -> Octets {
        let negative = if self.negative { NEGATIVE } else { 0 };
        let retry = if self.retry { RETRY } else { 0 };
        transmute!(Raw {
            header: LlcHeader::new(Self::OPCODE, self.reply, negative | retry),
            count: self.count,
            token: RawToken::new(self.token),
            others: self.others.map(Other::raw),
            reserved: 0,
        })
    }
}
