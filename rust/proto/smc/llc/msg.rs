// SPDX-License-Identifier: GPL-2.0

//! The LLC messages as one type, and what they have in common, RFC 7609, sections 3.3 and A.3.
//!
//! Every message is a SEND of exactly 44 octets (GEN-08). Octet 0 is the opcode, octet 1 the
//! length, the top bit of octet 3 tells a reply from a request (LLC-01). Nothing here can panic,
//! whatever the octets.
//!
//! In SMC-Rv2 the opcode says so in its high half, the length takes octets 1 and 2, and a few
//! messages go on behind the 44th octet.

use zerocopy::FromBytes;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{
    add_link::AddLink,
    add_link_cont::{
        AddLinkCont,
        RTokenPair, //
    },
    add_link_ext,
    confirm_link::ConfirmLink,
    confirm_rkey::ConfirmRkey,
    confirm_rkey_cont::ConfirmRkeyCont,
    delete_link::DeleteLink,
    delete_rkey::DeleteRkey,
    request_add_link::RequestAddLink,
    test_link::TestLink, //
};

/// Length of every message in octets (GEN-08, LLC-01), in SMC-Rv2 that of its part which is always
/// there.
pub(crate) const MESSAGE_BYTES: usize = 44;

/// A message as sent.
pub(crate) type Octets = [u8; MESSAGE_BYTES];

/// The length as it stands in octet 1.
const LENGTH: u8 = 44;

/// The same in octets 1 and 2 of SMC-Rv2.
const LENGTH_V2: u16 = 44;

/// Set in the flags of a reply (LLC-01).
const REPLY: u8 = 0x80;

/// Top two bits of the opcode: which kind of message this is (GEN-12).
const CLASS_MASK: u8 = 0xc0;

/// Class of messages that a receiver may ignore (LLC-06).
const CLASS_OPTIONAL: u8 = 0x80;

/// In the high half of the opcode: the message is one of SMC-Rv2.
const V2: u8 = 0x20;

/// How messages are laid out. The two sides have to agree on it beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As in RFC 7609, Figure 32 (LLC-207).
    #[cfg_attr(
        not(any(test, fuzzing, CONFIG_RDMA_SOCK_KUNIT_TEST)),
        expect(dead_code, reason = "all peers known so far are of the other kind")
    )]
    Rfc,
    /// As Linux sends it: two reserved octets follow the MAC in ADD LINK (DEP-2).
    Linux,
    /// As in SMC-Rv2. A group begins with this one.
    V2,
    /// The same with numbers of two octets in little endian: Linux sends them in the order of its
    /// processor, and reads the count of keys like that.
    V2Little,
}

impl Layout {
    /// Whether it is one of SMC-Rv2.
    pub(crate) const fn is_v2(self) -> bool {
        matches!(self, Self::V2 | Self::V2Little)
    }

    /// The layout to answer a message with: in SMC-Rv2 its length shows the order of octets that
    /// the peer uses, if it is the length of the message.
    pub(super) fn shown_by(self, octets: &[u8]) -> Self {
        match (self, octets) {
            (Self::V2 | Self::V2Little, [_, a, b, ..]) => {
                let fits = |stated: u16| usize::from(stated) == octets.len();
                if fits(u16::from_be_bytes([*a, *b])) {
                    Self::V2
                } else if fits(u16::from_le_bytes([*a, *b])) {
                    Self::V2Little
                } else {
                    self
                }
            }
            _ => self,
        }
    }

    /// How a number of two octets is sent.
    pub(super) const fn number(self, value: u16) -> [u8; 2] {
        match self {
            Self::V2Little => value.to_le_bytes(),
            _ => value.to_be_bytes(),
        }
    }

    /// The meaning of two octets.
    pub(super) const fn value(self, octets: [u8; 2]) -> u16 {
        match self {
            Self::V2Little => u16::from_le_bytes(octets),
            _ => u16::from_be_bytes(octets),
        }
    }
}

/// Why octets are no LLC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LlcParseError {
    /// The payload, or the length it states, is not what it has to be.
    Length,
    /// The opcode is neither known nor optional (LLC-07).
    UnknownOpcode(u8),
    /// A count is outside of what its message can hold.
    Count,
}

/// An LLC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LlcBody {
    /// Proves that a link works (A.3.1).
    ConfirmLink(ConfirmLink),
    /// Starts a further link (A.3.2).
    AddLink(AddLink),
    /// Tells the keys of the buffers on a new link (A.3.3).
    AddLinkCont(AddLinkCont),
    /// Ends a link or the link group (A.3.4).
    DeleteLink(DeleteLink),
    /// Announces a buffer (A.3.5).
    ConfirmRkey(ConfirmRkey),
    /// Asks whether the link is alive (A.3.8).
    TestLink(TestLink),
    /// Keys of an announced buffer on yet more links (A.3.6).
    ConfirmRkeyCont(ConfirmRkeyCont),
    /// Withdraws buffers (A.3.7).
    DeleteRkey(DeleteRkey),
    /// Asks for another link; only in SMC-Rv2.
    RequestAddLink(RequestAddLink),
    /// A message of unknown meaning that may be ignored, with its opcode (LLC-06).
    Optional(u8),
}

impl LlcBody {
    /// Reads the message that is all of `octets`.
    ///
    /// # Errors
    ///
    /// After any error the link counts as down (LLC-07, ERR-40, ERR-41).
    pub(crate) fn parse(octets: &[u8], layout: Layout) -> Result<Self, LlcParseError> {
        let opcode = *octets.first().ok_or(LlcParseError::Length)?;
        if opcode & CLASS_MASK == CLASS_OPTIONAL {
            return Ok(Self::Optional(opcode));
        }
        if layout.is_v2() {
            return Self::parse_v2(octets, opcode);
        }
        let octets = Octets::read_from_bytes(octets).map_err(|_| LlcParseError::Length)?;
        let [_, length, ..] = octets;
        let message = match opcode {
            ConfirmLink::OPCODE => Self::ConfirmLink(ConfirmLink::parse(&octets)),
            AddLink::OPCODE => Self::AddLink(AddLink::parse(&octets, layout)),
            AddLinkCont::OPCODE => Self::AddLinkCont(AddLinkCont::parse(&octets)),
            DeleteLink::OPCODE => Self::DeleteLink(DeleteLink::parse(&octets)),
            ConfirmRkey::OPCODE => Self::ConfirmRkey(ConfirmRkey::parse(&octets)?),
            TestLink::OPCODE => Self::TestLink(TestLink::parse(&octets)),
            ConfirmRkeyCont::OPCODE => Self::ConfirmRkeyCont(ConfirmRkeyCont::parse(&octets)),
            DeleteRkey::OPCODE => Self::DeleteRkey(DeleteRkey::parse(&octets)?),
            unknown => return Err(LlcParseError::UnknownOpcode(unknown)),
        };
        if length != LENGTH {
            return Err(LlcParseError::Length);
        }
        Ok(message)
    }

    /// Reads a message of SMC-Rv2, whose length may be in either order of octets.
    fn parse_v2(octets: &[u8], opcode: u8) -> Result<Self, LlcParseError> {
        let (head, _) = Octets::read_from_prefix(octets).map_err(|_| LlcParseError::Length)?;
        let [_, a, b, flags, ..] = head;
        let fits = |stated: u16| usize::from(stated) == octets.len();
        // Linux refuses with the first octets of the request: their length is that of all of it, and
        // the reason is written over one half of an octet of that.
        let refuses = opcode ^ V2 == AddLink::OPCODE
            && AddLink::is_refusal(flags)
            && octets.len() == MESSAGE_BYTES;
        if !fits(u16::from_be_bytes([a, b])) && !fits(u16::from_le_bytes([a, b])) && !refuses {
            return Err(LlcParseError::Length);
        }
        // The reason of a refused ADD LINK has no place beside the length.
        let mut plain = head;
        let [_, _, code, ..] = &mut plain;
        *code = 0;
        match opcode ^ V2 {
            ConfirmLink::OPCODE => Ok(Self::ConfirmLink(ConfirmLink::parse(&plain))),
            AddLink::OPCODE => Ok(Self::AddLink(AddLink::parse(&plain, Layout::V2))),
            DeleteLink::OPCODE => Ok(Self::DeleteLink(DeleteLink::parse(&plain))),
            ConfirmRkey::OPCODE => ConfirmRkey::parse(&plain).map(Self::ConfirmRkey),
            TestLink::OPCODE => Ok(Self::TestLink(TestLink::parse(&plain))),
            ConfirmRkeyCont::OPCODE => Ok(Self::ConfirmRkeyCont(ConfirmRkeyCont::parse(&plain))),
            DeleteRkey::OPCODE => DeleteRkey::parse_v2(&plain, octets.len()).map(Self::DeleteRkey),
            RequestAddLink::OPCODE => {
                let [_, _, _, flags, ..] = head;
                RequestAddLink::parse(octets, flags & REPLY != 0).map(Self::RequestAddLink)
            }
            _ => Err(LlcParseError::UnknownOpcode(opcode)),
        }
    }

    /// Writes the message, of an ADD LINK that goes on behind the 44th octet the part before. `None`
    /// for a REQUEST ADD LINK or DELETE RKEY that has more than 44, and for an optional one, which
    /// this side never sends.
    pub(crate) fn emit(&self, layout: Layout) -> Option<Octets> {
        let mut octets = match self {
            Self::ConfirmLink(message) => message.emit(),
            Self::AddLink(message) => message.emit(layout),
            Self::AddLinkCont(message) => message.emit(),
            Self::DeleteLink(message) => message.emit(),
            Self::ConfirmRkey(message) => message.emit(),
            Self::TestLink(message) => message.emit(),
            Self::ConfirmRkeyCont(message) => message.emit(),
            Self::DeleteRkey(message) if message.is_short() => message.emit(layout),
            Self::RequestAddLink(message) => {
                let mut buf = [0; MESSAGE_BYTES];
                message.emit(layout, &mut buf)?;
                buf
            }
            Self::DeleteRkey(_) | Self::Optional(_) => return None,
        };
        if layout.is_v2() {
            mark_v2(&mut octets, LENGTH_V2, layout);
        }
        Some(octets)
    }

    /// Writes a message of SMC-Rv2 whole. `None` if there is no room.
    pub(super) fn emit_long(
        &self,
        layout: Layout,
        direct: bool,
        pairs: impl Iterator<Item = RTokenPair>,
        buf: &mut [u8],
    ) -> Option<usize> {
        let mut len = MESSAGE_BYTES;
        match self {
            Self::RequestAddLink(message) => return message.emit(layout, buf),
            Self::AddLink(message) if message.refusal.is_none() => {
                let behind = buf.get_mut(MESSAGE_BYTES..)?;
                let more = add_link_ext::emit(direct, message.gid, pairs, layout, behind)?;
                len = len.checked_add(more)?;
            }
            _ => {}
        }
        let head = buf.get_mut(..MESSAGE_BYTES)?;
        head.copy_from_slice(&self.emit(layout)?);
        mark_v2(head, u16::try_from(len).ok()?, layout);
        Some(len)
    }

    /// Whether it wants something, rather than being an answer.
    pub(super) const fn is_request(&self) -> bool {
        !match self {
            Self::ConfirmLink(message) => message.reply,
            Self::AddLink(message) => message.reply,
            Self::AddLinkCont(message) => message.reply,
            Self::DeleteLink(message) => message.reply,
            Self::ConfirmRkey(message) => message.reply,
            Self::ConfirmRkeyCont(message) => message.reply,
            Self::DeleteRkey(message) => message.reply,
            Self::TestLink(message) => message.reply,
            Self::RequestAddLink(message) => message.reply,
            Self::Optional(_) => false,
        }
    }

    /// The name the RFC gives this message.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::ConfirmLink(_) => "CONFIRM LINK",
            Self::AddLink(_) => "ADD LINK",
            Self::AddLinkCont(_) => "ADD LINK CONTINUATION",
            Self::DeleteLink(_) => "DELETE LINK",
            Self::ConfirmRkey(_) => "CONFIRM RKEY",
            Self::TestLink(_) => "TEST LINK",
            Self::ConfirmRkeyCont(_) => "CONFIRM RKEY CONTINUATION",
            Self::DeleteRkey(_) => "DELETE RKEY",
            Self::RequestAddLink(_) => "REQUEST ADD LINK",
            Self::Optional(_) => "optional message",
        }
    }
}

/// Turns the header of a message into one of SMC-Rv2.
fn mark_v2(octets: &mut [u8], length: u16, layout: Layout) {
    if let [opcode, a, b, ..] = octets {
        *opcode |= V2;
        [*a, *b] = layout.number(length);
    }
}

/// First four octets of every message (LLC-01).
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct LlcHeader {
    /// Which message this is.
    opcode: u8,
    /// 44.
    length: u8,
    /// Reserved, except in ADD LINK.
    pub(super) code: u8,
    /// `REPLY` and flags of the message.
    pub(super) flags: u8,
}

impl LlcHeader {
    /// Makes the header of a message whose own flags are `flags`.
    pub(super) const fn new(opcode: u8, reply: bool, flags: u8) -> Self {
        Self {
            opcode,
            length: LENGTH,
            code: 0,
            flags: if reply { flags | REPLY } else { flags },
        }
    }

    /// Writes the header of a message of SMC-Rv2 that is all of `buf`.
    pub(super) fn write_v2(self, layout: Layout, buf: &mut [u8]) -> Option<()> {
        let length = u16::try_from(buf.len()).ok()?;
        *buf.first_mut()? = self.opcode;
        *buf.get_mut(3)? = self.flags;
        mark_v2(buf, length, layout);
        Some(())
    }

    /// Whether the message is a reply.
    pub(super) const fn reply(&self) -> bool {
        self.has(REPLY)
    }

    /// Whether a bit of `mask` is set in the flags.
    pub(super) const fn has(&self, mask: u8) -> bool {
        self.flags & mask != 0
    }
}

#[cfg(test)]
mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is received, reading it does not panic, and what was read means the same when
        /// it is sent on.
        #[test]
        fn parsed_message_can_be_emitted(
            opcode in 0..10_u8,
            mut octets in proptest::collection::vec(any::<u8>(), 0..50),
            layout in 0..4_usize,
            shape in any::<bool>(),
        ) {
            let layouts = [Layout::Rfc, Layout::Linux, Layout::V2, Layout::V2Little];
            let layout = layouts[layout];
            if shape {
                octets.resize(MESSAGE_BYTES, 0);
                octets[0] = opcode;
                octets[1] = LENGTH;
                octets[4] %= 10;
                if layout.is_v2() {
                    mark_v2(&mut octets, LENGTH_V2, layout);
                }
            }
            if let Ok(message) = LlcBody::parse(&octets, layout) {
                if let Some(sent) = message.emit(layout) {
                    prop_assert_eq!(LlcBody::parse(&sent, layout), Ok(message));
                    prop_assert_eq!(sent[3] & REPLY, octets[3] & REPLY);
                }
            }
        }
    }
}
