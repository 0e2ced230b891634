// SPDX-License-Identifier: GPL-2.0

//! LLC ADD LINK, RFC 7609, section A.3.2: starts a further link, or refuses to.

use zerocopy::transmute;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::msg::{
    Layout,
    LlcHeader,
    Octets, //
};
use crate::proto::{
    base::verbs::{
        Gid,
        Mac,
        Mtu,
        Psn,
        Qpn, //
    },
    smc::wire::LinkNum, //
};

/// Flag of a reply that refuses the link (LLC-205).
const REJECTED: u8 = 0x40;

/// The half octet that holds the reason of a refusal, and the one that holds the MTU.
const LOW_HALF: u8 = 0x0f;

/// What describes the sender's end of the new link.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct LinkEnd {
    gid: [u8; 16],
    qpn: [u8; 3],
    number: u8,
    mtu: u8,
    psn: [u8; 3],
}

/// An ADD LINK as the RFC draws it.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRfc {
    header: LlcHeader,
    mac: [u8; 6],
    end: LinkEnd,
    reserved: [u8; 10],
}

/// An ADD LINK as Linux sends it (DEP-2).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLinux {
    header: LlcHeader,
    mac: [u8; 6],
    gap: [u8; 2],
    end: LinkEnd,
    reserved: [u8; 8],
}

/// Why a link is refused (LLC-204).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no second path, code 1 (LLF-12).
    NoAlternatePath,
    /// The request named a reserved MTU, code 2 (ERR-31).
    InvalidMtu,
    /// Another code of the peer.
    Other(u8),
}

impl Refusal {
    /// Reads the code in the low half of `code`.
    const fn from_code(code: u8) -> Self {
        match code & LOW_HALF {
            1 => Self::NoAlternatePath,
            2 => Self::InvalidMtu,
            other => Self::Other(other),
        }
    }

    /// The code on the wire.
    const fn code(self) -> u8 {
        match self {
            Self::NoAlternatePath => 1,
            Self::InvalidMtu => 2,
            Self::Other(code) => code & LOW_HALF,
        }
    }
}

/// ADD LINK, LLC-201 to LLC-213.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddLink {
    /// Whether this is the reply.
    pub(crate) reply: bool,
    /// Why the new link is refused, in a reply that does so (LLF-16).
    pub(crate) refusal: Option<Refusal>,
    /// The sender's port for the new link (LLC-206).
    pub(crate) mac: Mac,
    /// The sender's port for the new link (LLC-207).
    pub(crate) gid: Gid,
    /// The sender's queue pair for the new link (LLC-208).
    pub(crate) qpn: Qpn,
    /// Number of the new link, assigned by the server (LLC-209).
    pub(crate) number: LinkNum,
    /// Largest MTU of the sender; `None` for a reserved value (LLC-211, ERR-31).
    pub(crate) mtu: Option<Mtu>,
    /// The packet number the sender starts with (LLC-212).
    pub(crate) psn: Psn,
}

impl AddLink {
    /// Octet 0 (LLC-201).
    pub(super) const OPCODE: u8 = 2;

    /// Whether the flags of the header say that it refuses a link.
    pub(super) const fn is_refusal(flags: u8) -> bool {
        flags & REJECTED != 0
    }

    /// Reads one.
    pub(super) fn parse(octets: &Octets, layout: Layout) -> Self {
        let (header, mac, end) = match layout {
            Layout::Rfc => {
                let raw: RawRfc = transmute!(*octets);
                (raw.header, raw.mac, raw.end)
            }
            Layout::Linux | Layout::V2 | Layout::V2Little => {
                let raw: RawLinux = transmute!(*octets);
                (raw.header, raw.mac, raw.end)
            }
        };
        Self {
            reply: header.reply(),
            refusal: header
                .has(REJECTED)
                .then(|| Refusal::from_code(header.code)),
            mac: Mac::new(mac),
            gid: Gid::new(end.gid),
            qpn: Qpn::from_octets(end.qpn),
            number: LinkNum::new(end.number),
            mtu: Mtu::from_code(end.mtu & LOW_HALF),
            psn: Psn::from_octets(end.psn),
        }
    }

    /// Writes it.
    pub(super) fn emit(&self, layout: Layout) -> Octets {
        let mut header = LlcHeader::new(Self::OPCODE, self.reply, 0);
        if let Some(refusal) = self.refusal {
            header.flags |= REJECTED;
            header.code = refusal.code();
        }
        let mac = self.mac.get();
        let end = LinkEnd {
            gid: self.gid.get(),
            qpn: self.qpn.octets(),
            number: self.number.get(),
            mtu: self.mtu.map_or(0, Mtu::code),
            psn: self.psn.octets(),
        };
        match layout {
            Layout::Rfc => transmute!(RawRfc {
                header,
                mac,
                end,
                reserved: [0; 10],
            }),
            Layout::Linux | Layout::V2 | Layout::V2Little => transmute!(RawLinux {
                header,
                mac,
                gap: [0; 2],
                end,
                reserved: [0; 8],
            }),
        }
    }
}
