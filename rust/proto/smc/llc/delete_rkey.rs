// SPDX-License-Identifier: GPL-2.0

//! LLC DELETE RKEY, RFC 7609, section A.3.7: withdraws up to eight buffers.
//!
//! In SMC-Rv2 it withdraws up to 255, and the reply counts those that were not known. Nine keys are
//! within the first 44 octets, the others follow.

use zerocopy::{byteorder::network_endian::U32, transmute};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{
    confirm_rkey::NEGATIVE,
    msg::{
        Layout,
        LlcHeader,
        LlcParseError,
        Octets,
        MESSAGE_BYTES, //
    },
};
use crate::proto::base::verbs::RKey;

/// Most buffers one message withdraws (LLC-905).
pub(crate) const MAX_KEYS: u8 = 8;

/// Keys within the first 44 octets of a message of SMC-Rv2.
const INLINE_KEYS: usize = 9;

/// Octets before the first key.
const HEAD_BYTES: usize = 8;

/// Octets of a key.
const KEY_BYTES: usize = 4;

/// A DELETE RKEY as sent.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    header: LlcHeader,
    count: u8,
    error_mask: u8,
    reserved1: [u8; 2],
    /// In version 1 the last place is reserved.
    keys: [U32; INLINE_KEYS],
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
    /// In a negative reply: a bit for each buffer that was not known, the first one 0x80 (LLC-906);
    /// in SMC-Rv2 their number.
    pub(crate) error_mask: u8,
    /// Their keys on the link that carries the message (LLC-908), the first nine of them.
    keys: [RKey; INLINE_KEYS],
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
            keys: [key, none, none, none, none, none, none, none, none],
        }
    }

    /// The keys of the buffers, each with its bit in the error mask of version 1.
    pub(super) fn keys(&self) -> impl Iterator<Item = (RKey, u8)> {
        let bits = (0..=u8::BITS).map(|at| 0x80_u8.checked_shr(at).unwrap_or(0));
        self.keys
            .into_iter()
            .zip(bits)
            .take(usize::from(self.count))
    }

    /// How many keys there are.
    pub(super) const fn count(&self) -> u8 {
        self.count
    }

    /// Whether all keys are within the first 44 octets. A reply of SMC-Rv2 has none.
    pub(super) fn is_short(&self) -> bool {
        self.reply || usize::from(self.count) <= INLINE_KEYS
    }

    /// The keys behind the 44th octet of a message of SMC-Rv2.
    pub(super) fn further_keys(octets: &[u8]) -> impl Iterator<Item = RKey> + '_ {
        let behind = octets.get(MESSAGE_BYTES..).unwrap_or_default();
        behind.chunks_exact(KEY_BYTES).filter_map(|key| {
            let key = <[u8; KEY_BYTES]>::try_from(key).ok()?;
            Some(RKey::new(u32::from_be_bytes(key)))
        })
    }

    /// The reply, with a bit for each buffer that was not known.
    pub(super) const fn reply(&self, error_mask: u8) -> Self {
        let mut reply = *self;
        reply.reply = true;
        reply.negative = error_mask != 0;
        reply.error_mask = error_mask;
        reply
    }

    /// The reply of SMC-Rv2, in which the keys are not repeated, with the number of those that
    /// were not known.
    pub(super) const fn reply_v2(&self, unknown: u8) -> Self {
        let mut reply = Self::request(RKey::new(0));
        reply.reply = true;
        reply.negative = unknown != 0;
        reply.count = self.count;
        reply.error_mask = unknown;
        reply
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// `LlcParseError::Count` for no key, or for more than the message holds.
    pub(super) fn parse(octets: &Octets) -> Result<Self, LlcParseError> {
        let mut message = Self::read(octets);
        if !(1..=MAX_KEYS).contains(&message.count) {
            return Err(LlcParseError::Count);
        }
        if let Some(reserved) = message.keys.last_mut() {
            *reserved = RKey::new(0);
        }
        Ok(message)
    }

    /// Reads one of SMC-Rv2 that is `length` octets long in all.
    ///
    /// # Errors
    ///
    /// `LlcParseError::Count` for a request without keys, or with more than there are octets for. A
    /// reply does not repeat the keys.
    pub(super) fn parse_v2(octets: &Octets, length: usize) -> Result<Self, LlcParseError> {
        let message = Self::read(octets);
        let room = length.saturating_sub(HEAD_BYTES) / KEY_BYTES;
        let fits = message.count != 0 && usize::from(message.count) <= room;
        if message.reply || fits {
            Ok(message)
        } else {
            Err(LlcParseError::Count)
        }
    }

    /// Reads the fields.
    fn read(octets: &Octets) -> Self {
        let raw: Raw = transmute!(*octets);
        Self {
            reply: raw.header.reply(),
            negative: raw.header.has(NEGATIVE),
            count: raw.count,
            error_mask: raw.error_mask,
            keys: raw.keys.map(|key| RKey::new(key.get())),
        }
    }

    /// Writes it.
    pub(super) fn emit(&self, layout: Layout) -> Octets {
        let negative = if self.negative { NEGATIVE } else { 0 };
        let mut keys = self.keys.map(|key| U32::new(key.get()));
        if let (false, Some(reserved)) = (layout.is_v2(), keys.last_mut()) {
            *reserved = U32::new(0);
        }
        transmute!(Raw {
            header: LlcHeader::new(Self::OPCODE, self.reply, negative),
            count: self.count,
            error_mask: self.error_mask,
            reserved1: [0; 2],
            keys,
        })
    }
}
