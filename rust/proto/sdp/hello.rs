// SPDX-License-Identifier: GPL-2.0

//! Hello and HelloAck, draft 6.2.1 and 6.2.2, and their forms on InfiniBand.
//!
//! ```text
//!   form      Hello  HelloAck  version  where the fields are
//!   annex     92     196       2.2      IP addresses and port, no IRD and ORD
//!   draft     32     28        1.1      IRD and ORD; the layout is one of two
//! ```
//!
//! Private data of a connection manager is handed up as a whole field, so that the octets may be
//! more than the message (SDP-BSDH-24 cannot hold).

use super::{
    profile::WireLayout,
    serial::Serial,
    wire::{
        Bsdh,
        BsdhFlags,
        Mid,
        BSDH_LEN,
        MAX_LEN,
        MIN_BUFFER,
        MIN_BUFS, //
    },
};
use core::net::{
    IpAddr,
    Ipv4Addr,
    Ipv6Addr, //
};
use zerocopy::{
    byteorder::network_endian::{
        U16,
        U32, //
    },
    FromBytes,
    IntoBytes, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// Octets of the longest Hello, which is that of InfiniBand.
pub(crate) const MAX_HELLO: usize = 92;
/// Octets of the longest HelloAck, which is that of InfiniBand.
pub(crate) const MAX_HELLO_ACK: usize = 196;

/// Octets of a Hello of the draft (SDP-HH-04).
const DRAFT_HELLO: usize = 32;
/// Octets of a HelloAck of the draft (SDP-HAH-03).
const DRAFT_HELLO_ACK: usize = 28;
/// Shortest Hello of InfiniBand: up to ExtMaxAdverts.
const LEAST_ANNEX_HELLO: u32 = 68;
/// Shortest HelloAck of InfiniBand: up to ActRcvSz.
const LEAST_ANNEX_ACK: u32 = 24;

/// Which of the forms a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelloForm {
    /// InfiniBand and RoCE.
    Annex,
    /// The draft, in a layout.
    Draft(WireLayout),
}

impl HelloForm {
    /// Layout of the headers, also of all later messages.
    pub(crate) const fn layout(self) -> WireLayout {
        match self {
            Self::Annex => WireLayout::IdFirst,
            Self::Draft(layout) => layout,
        }
    }

    /// Major and minor version (SDP-HH-06, SDP-HH-08).
    const fn version(self) -> (u8, u8) {
        match self {
            Self::Annex => (2, 2),
            Self::Draft(_) => (1, 1),
        }
    }
}

/// Why a set-up message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelloFault {
    /// Too short, or of a length that no form has.
    Length,
    /// Not the message that is due (SDP-CONN-32).
    Mid,
    /// A major version that is not supported (SDP-HH-07, SDP-HAH-06).
    Version,
    /// No adverts (SDP-HH-12, SDP-HAH-10).
    Adverts,
    /// No RDMA Reads in one of the directions (SDP-CONN-10, SDP-CONN-23).
    Reads,
    /// A size of receive buffers that cannot be (SDP-HH-20).
    BufferSize,
    /// Fewer than three receive buffers (AMB-07).
    Bufs,
    /// No IP version that is known, or no port.
    Address,
}

/// RDMA Reads in flight that a peer takes and sends at most (SDP-HH-16, SDP-HH-17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadDepths {
    /// LocIRD: reads of the other peer.
    pub(crate) ird: u16,
    /// LocORD: its own reads.
    pub(crate) ord: u16,
}

/// The addresses in a Hello of InfiniBand. They are a claim that the engine checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HelloAddrs {
    /// TCP port of the sender.
    pub(crate) port: u16,
    /// IP address of the sender.
    pub(crate) source: IpAddr,
    /// IP address that the sender connects to.
    pub(crate) destination: IpAddr,
}

/// What only one of the forms has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelloRest {
    /// InfiniBand: the depths travel in the CM REQ.
    Annex {
        /// INVALIDATE_CAP: the sender takes Send with Invalidate.
        invalidates: bool,
        /// EXTENDED_MAXADVERTS: the message has the 16-bit number of adverts.
        extended: bool,
        /// The addresses.
        addrs: HelloAddrs,
    },
    /// The draft.
    Draft(ReadDepths),
}

/// Opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SdpHello {
    /// Receive buffers posted (SDP-CRED-06).
    pub(crate) bufs: u16,
    /// Minor version; no reason to refuse (SDP-HH-09).
    pub(crate) minor: u8,
    /// Adverts that the sender takes at a time (SDP-HH-10).
    pub(crate) max_adverts: u16,
    /// Size of the receive buffers that the sender would like, in octets (SDP-HH-13).
    pub(crate) desired_size: u32,
    /// Size of the sender's own receive buffers, in octets (SDP-HH-15).
    pub(crate) local_size: u32,
    /// What only one of the forms has.
    pub(crate) rest: HelloRest,
}

/// Accepts a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SdpHelloAck {
    /// Receive buffers posted (SDP-CRED-06).
    pub(crate) bufs: u16,
    /// Minor version; no reason to refuse (SDP-HAH-08).
    pub(crate) minor: u8,
    /// Adverts that the sender takes at a time (SDP-HAH-09).
    pub(crate) max_adverts: u16,
    /// Size of the sender's receive buffers, in octets (SDP-HAH-11).
    pub(crate) actual_size: u32,
    /// Depths, in the form of the draft only.
    pub(crate) depths: Option<ReadDepths>,
}

/// Octets of a set-up message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HelloOctets<const N: usize> {
    octets: [u8; N],
    len: usize,
}

impl<const N: usize> HelloOctets<N> {
    /// The octets.
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or(&[])
    }

    /// Joins the headers.
    fn new(bsdh: [u8; BSDH_LEN], extended: &[u8], len: usize) -> Self {
        let mut octets = [0; N];
        let parts = bsdh.iter().chain(extended);
        for (to, from) in octets.iter_mut().zip(parts) {
            *to = *from;
        }
        Self { octets, len }
    }
}

/// HH of InfiniBand behind the BSDH; what is not named is zero.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAnnexHello {
    /// Major version, then minor.
    version: u8,
    /// IP version, then capabilities.
    ipv_caps: u8,
    reserved: u8,
    /// Adverts, if they fit.
    max_adverts: u8,
    /// Wanted size of the other's receive buffers.
    desired_size: U32,
    /// Size of the receive buffers.
    local_size: U32,
    /// TCP port of the sender.
    port: U16,
    reserved2: U16,
    /// IP address of the sender.
    source: [u8; 16],
    /// IP address of the receiver.
    destination: [u8; 16],
    reserved3: U16,
    /// Adverts, if the capability says so.
    ext_max_adverts: U16,
    fill: [u8; 24],
}

/// HAH of InfiniBand behind the BSDH, up to its last field.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAnnexAck {
    version: u8,
    ipv_caps: u8,
    reserved: u8,
    max_adverts: u8,
    actual_size: U32,
}

/// HH of the draft behind the BSDH. The layout decides what is where in `lead` and `depths`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDraftHello {
    lead: [u8; 4],
    desired_size: U32,
    local_size: U32,
    depths: [U16; 2],
}

/// HAH of the draft behind the BSDH.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDraftAck {
    lead: [u8; 4],
    actual_size: U32,
    depths: [U16; 2],
}

const IPV4: u8 = 4;
const IPV6: u8 = 6;
const INVALIDATE_CAP: u8 = 1;
const EXTENDED_MAXADVERTS: u8 = 2;

/// The BSDH of a set-up message: no flags, no numbers (SDP-HH-04, SDP-HAH-03).
fn bsdh(mid: Mid, bufs: u16, len: usize, layout: WireLayout) -> [u8; BSDH_LEN] {
    let bsdh = Bsdh {
        code: mid.code(),
        flags: BsdhFlags::default(),
        bufs,
        // Exact: no form has more than 196 octets.
        len: u32::try_from(len).unwrap_or(0),
        mseq: Serial::new(0),
        mseq_ack: Serial::new(0),
    };
    bsdh.emit(layout)
}

/// The first word of HH and HAH of the draft: versions and adverts.
fn draft_lead(max_adverts: u16, layout: WireLayout) -> [u8; 4] {
    let [high, low] = max_adverts.to_be_bytes();
    match layout {
        WireLayout::IdFirst => [0x11, 0, high, low],
        WireLayout::IdLast => [high, low, 0, 0x11],
    }
}

/// Reads that word: major version, minor version, adverts.
fn read_draft_lead(lead: [u8; 4], layout: WireLayout) -> (u8, u8, u16) {
    match (layout, lead) {
        (WireLayout::IdFirst, [version, _, high, low]) => {
            (version >> 4, version & 0xf, u16::from_be_bytes([high, low]))
        }
        (WireLayout::IdLast, [high, low, _, version]) => {
            (version & 0xf, version >> 4, u16::from_be_bytes([high, low]))
        }
    }
}

impl ReadDepths {
    /// Order on the wire (AMB-73).
    fn raw(self, layout: WireLayout) -> [U16; 2] {
        let (ird, ord) = (U16::new(self.ird), U16::new(self.ord));
        match layout {
            WireLayout::IdFirst => [ord, ird],
            WireLayout::IdLast => [ird, ord],
        }
    }

    fn from_raw(raw: [U16; 2], layout: WireLayout) -> Result<Self, HelloFault> {
        let [first, second] = raw.map(U16::get);
        let (ird, ord) = match layout {
            WireLayout::IdFirst => (second, first),
            WireLayout::IdLast => (first, second),
        };
        if ird > 0 && ord > 0 {
            Ok(Self { ird, ord })
        } else {
            Err(HelloFault::Reads)
        }
    }
}

/// An address takes its last octets; those of version 4 have twelve of zero in front.
fn raw_addr(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(addr) => {
            let [a, b, c, d] = addr.octets();
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
        }
        IpAddr::V6(addr) => addr.octets(),
    }
}

fn read_addr(raw: [u8; 16], ipv: u8) -> Result<IpAddr, HelloFault> {
    match ipv {
        IPV4 => {
            let [.., a, b, c, d] = raw;
            Ok(Ipv4Addr::new(a, b, c, d).into())
        }
        IPV6 => Ok(Ipv6Addr::from(raw).into()),
        _ => Err(HelloFault::Address),
    }
}

/// What both messages and all forms must have.
fn check(bufs: u16, max_adverts: u16, size: u32) -> Result<(), HelloFault> {
    if max_adverts == 0 {
        Err(HelloFault::Adverts)
    } else if !(MIN_BUFFER..=MAX_LEN).contains(&size) {
        Err(HelloFault::BufferSize)
    } else if bufs < MIN_BUFS {
        Err(HelloFault::Bufs)
    } else {
        Ok(())
    }
}

impl SdpHello {
    /// Whether the peer, by what it says, implements all of the draft. Stacks of OFED take a
    /// single advert and have no capabilities.
    pub(crate) const fn is_full(&self) -> bool {
        match self.rest {
            HelloRest::Annex { extended, .. } => extended && self.max_adverts > 1,
            HelloRest::Draft(_) => true,
        }
    }

    /// Finds the form and reads the message (SDP-WIRE-02). `literal`: the layout with the message
    /// identifier last is taken too.
    pub(crate) fn parse(octets: &[u8], literal: bool) -> Result<(HelloForm, Self), HelloFault> {
        let lead = octets.first_chunk::<4>().ok_or(HelloFault::Length)?;
        let layout = match lead {
            // Bufs is never zero, so the zeroes are the identifier and the flags.
            [0, 0, _, _] => WireLayout::IdFirst,
            [_, _, 0, 0] if literal => WireLayout::IdLast,
            _ => return Err(HelloFault::Mid),
        };
        let (bsdh, rest) = Bsdh::parse(octets, layout).ok_or(HelloFault::Length)?;
        let len = usize::try_from(bsdh.len).map_err(|_| HelloFault::Length)?;
        if len > octets.len() {
            return Err(HelloFault::Length);
        }
        let draft = bsdh.len == 32;
        let annex = layout == WireLayout::IdFirst && (LEAST_ANNEX_HELLO..=92).contains(&bsdh.len);
        let (form, hello) = if draft {
            (
                HelloForm::Draft(layout),
                Self::parse_draft(&bsdh, rest, layout)?,
            )
        } else if annex {
            (HelloForm::Annex, Self::parse_annex(&bsdh, rest)?)
        } else {
            return Err(HelloFault::Length);
        };
        check(hello.bufs, hello.max_adverts, hello.local_size)?;
        Ok((form, hello))
    }

    fn parse_draft(bsdh: &Bsdh, rest: &[u8], layout: WireLayout) -> Result<Self, HelloFault> {
        let (raw, _) = RawDraftHello::ref_from_prefix(rest).map_err(|_| HelloFault::Length)?;
        let (major, minor, max_adverts) = read_draft_lead(raw.lead, layout);
        if major != HelloForm::Draft(layout).version().0 {
            return Err(HelloFault::Version);
        }
        Ok(Self {
            bufs: bsdh.bufs,
            minor,
            max_adverts,
            desired_size: raw.desired_size.get(),
            local_size: raw.local_size.get(),
            rest: HelloRest::Draft(ReadDepths::from_raw(raw.depths, layout)?),
        })
    }

    fn parse_annex(bsdh: &Bsdh, rest: &[u8]) -> Result<Self, HelloFault> {
        // The fill may be missing; it says nothing.
        let mut fields = [0; MAX_HELLO - BSDH_LEN];
        for (to, from) in fields.iter_mut().zip(rest) {
            *to = *from;
        }
        let raw = RawAnnexHello::ref_from_bytes(&fields).map_err(|_| HelloFault::Length)?;
        if raw.version >> 4 != HelloForm::Annex.version().0 {
            return Err(HelloFault::Version);
        }
        let (ipv, caps) = (raw.ipv_caps >> 4, raw.ipv_caps & 0xf);
        let extended = caps & EXTENDED_MAXADVERTS != 0;
        let addrs = HelloAddrs {
            port: raw.port.get(),
            source: read_addr(raw.source, ipv)?,
            destination: read_addr(raw.destination, ipv)?,
        };
        if addrs.port == 0 {
            return Err(HelloFault::Address);
        }
        if raw.max_adverts == 0 {
            return Err(HelloFault::Adverts);
        }
        Ok(Self {
            bufs: bsdh.bufs,
            minor: raw.version & 0xf,
            max_adverts: if extended {
                raw.ext_max_adverts.get()
            } else {
                u16::from(raw.max_adverts)
            },
            desired_size: raw.desired_size.get(),
            local_size: raw.local_size.get(),
            rest: HelloRest::Annex {
                invalidates: caps & INVALIDATE_CAP != 0,
                extended,
                addrs,
            },
        })
    }

    /// The octets to send. `layout` is that of the draft's form; the other has one only.
    pub(crate) fn emit(&self, layout: WireLayout) -> HelloOctets<MAX_HELLO> {
        match self.rest {
            HelloRest::Draft(depths) => {
                let raw = RawDraftHello {
                    lead: draft_lead(self.max_adverts, layout),
                    desired_size: U32::new(self.desired_size),
                    local_size: U32::new(self.local_size),
                    depths: depths.raw(layout),
                };
                let bsdh = bsdh(Mid::Hello, self.bufs, DRAFT_HELLO, layout);
                HelloOctets::new(bsdh, raw.as_bytes(), DRAFT_HELLO)
            }
            HelloRest::Annex {
                invalidates,
                extended,
                addrs,
            } => {
                let ipv = match addrs.source {
                    IpAddr::V4(_) => IPV4,
                    IpAddr::V6(_) => IPV6,
                };
                let cap = |set, bit| if set { bit } else { 0 };
                let caps = cap(invalidates, INVALIDATE_CAP) | cap(extended, EXTENDED_MAXADVERTS);
                let raw = RawAnnexHello {
                    version: 0x22,
                    ipv_caps: (ipv << 4) | caps,
                    reserved: 0,
                    max_adverts: u8::try_from(self.max_adverts).unwrap_or(u8::MAX),
                    desired_size: U32::new(self.desired_size),
                    local_size: U32::new(self.local_size),
                    port: U16::new(addrs.port),
                    reserved2: U16::ZERO,
                    source: raw_addr(addrs.source),
                    destination: raw_addr(addrs.destination),
                    reserved3: U16::ZERO,
                    ext_max_adverts: U16::new(if extended { self.max_adverts } else { 0 }),
                    fill: [0; 24],
                };
                let bsdh = bsdh(Mid::Hello, self.bufs, MAX_HELLO, WireLayout::IdFirst);
                HelloOctets::new(bsdh, raw.as_bytes(), MAX_HELLO)
            }
        }
    }
}

impl SdpHelloAck {
    /// Reads the answer to a Hello of the given form.
    pub(crate) fn parse(octets: &[u8], form: HelloForm) -> Result<Self, HelloFault> {
        let layout = form.layout();
        let (bsdh, rest) = Bsdh::parse(octets, layout).ok_or(HelloFault::Length)?;
        if bsdh.code != Mid::HelloAck.code() {
            return Err(HelloFault::Mid);
        }
        let len = usize::try_from(bsdh.len).map_err(|_| HelloFault::Length)?;
        if len > octets.len() {
            return Err(HelloFault::Length);
        }
        let (major, ack) = match form {
            HelloForm::Draft(layout) => {
                let (raw, _) =
                    RawDraftAck::ref_from_prefix(rest).map_err(|_| HelloFault::Length)?;
                if len != DRAFT_HELLO_ACK {
                    return Err(HelloFault::Length);
                }
                let (major, minor, max_adverts) = read_draft_lead(raw.lead, layout);
                let depths = ReadDepths::from_raw(raw.depths, layout);
                let ack = Self {
                    bufs: bsdh.bufs,
                    minor,
                    max_adverts,
                    actual_size: raw.actual_size.get(),
                    depths: depths.as_ref().ok().copied(),
                };
                if major == form.version().0 {
                    depths?;
                }
                (major, ack)
            }
            HelloForm::Annex => {
                let (raw, _) =
                    RawAnnexAck::ref_from_prefix(rest).map_err(|_| HelloFault::Length)?;
                if !(LEAST_ANNEX_ACK..=196).contains(&bsdh.len) {
                    return Err(HelloFault::Length);
                }
                let ack = Self {
                    bufs: bsdh.bufs,
                    minor: raw.version & 0xf,
                    max_adverts: u16::from(raw.max_adverts),
                    actual_size: raw.actual_size.get(),
                    depths: None,
                };
                (raw.version >> 4, ack)
            }
        };
        if major != form.version().0 {
            return Err(HelloFault::Version);
        }
        check(ack.bufs, ack.max_adverts, ack.actual_size)?;
        Ok(ack)
    }

    /// The octets to send in the form of the Hello.
    pub(crate) fn emit(&self, form: HelloForm) -> HelloOctets<MAX_HELLO_ACK> {
        match form {
            HelloForm::Draft(layout) => {
                let depths = self.depths.unwrap_or(ReadDepths { ird: 1, ord: 1 });
                let raw = RawDraftAck {
                    lead: draft_lead(self.max_adverts, layout),
                    actual_size: U32::new(self.actual_size),
                    depths: depths.raw(layout),
                };
                let bsdh = bsdh(Mid::HelloAck, self.bufs, DRAFT_HELLO_ACK, layout);
                HelloOctets::new(bsdh, raw.as_bytes(), DRAFT_HELLO_ACK)
            }
            HelloForm::Annex => {
                let raw = RawAnnexAck {
                    version: 0x22,
                    ipv_caps: 0,
                    reserved: 0,
                    max_adverts: u8::try_from(self.max_adverts).unwrap_or(u8::MAX),
                    actual_size: U32::new(self.actual_size),
                };
                let layout = WireLayout::IdFirst;
                let bsdh = bsdh(Mid::HelloAck, self.bufs, MAX_HELLO_ACK, layout);
                HelloOctets::new(bsdh, raw.as_bytes(), MAX_HELLO_ACK)
            }
        }
    }
}

#[cfg(test)]
mod vectors;
