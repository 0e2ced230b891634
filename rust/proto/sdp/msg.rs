// SPDX-License-Identifier: GPL-2.0

//! The messages of an established connection, draft 6.2.3 to 6.5.2.
//!
//! Hello and HelloAck have forms of their own, see [`hello`](super::hello).

use super::{
    profile::WireLayout,
    serial::Serial,
    wire::{
        Bsdh,
        BsdhFlags,
        Mid,
        BSDH_LEN,
        MAX_LEN,
        MIN_BUFFER, //
    },
};
use zerocopy::{
    byteorder::network_endian::{
        U32,
        U64, //
    },
    FromBytes,
    Immutable,
    IntoBytes, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// Octets of the longest headers: those of SinkAvail.
pub(crate) const MAX_HEADER: usize = 36;

/// The mode of a half-connection (SDP-MCH-04, SDP-CONST-18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HalfMode {
    /// Bcopy only.
    Buffered,
    /// Bcopy and a single Read Zcopy.
    Combined,
    /// Everything, and several at a time.
    Pipelined,
}

impl HalfMode {
    /// Reads the three bits; `None` for reserved values (SDP-MCH-07).
    const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::Buffered),
            1 => Some(Self::Combined),
            2 => Some(Self::Pipelined),
            _ => None,
        }
    }

    /// The three bits.
    const fn bits(self) -> u8 {
        match self {
            Self::Buffered => 0,
            Self::Combined => 1,
            Self::Pipelined => 2,
        }
    }
}

/// Memory that its owner offers: a range of an STag (SDP-SRC-05 to SDP-SRC-07, SDP-SNK-04 to
/// SDP-SNK-07).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Advert {
    /// Octets, at least 1 and at most 2^31 (SDP-SRC-04).
    pub(crate) len: u32,
    /// Steering tag; the R_Key on InfiniBand.
    pub(crate) stag: u32,
    /// Tagged offset of the first octet.
    pub(crate) va: u64,
}

impl Advert {
    /// Whether the range is one that can exist (SDP-ERR-09).
    const fn is_valid(self) -> bool {
        // `u64::from` is not const; the last octet must have an address.
        let len = self.len;
        if len == 0 || len > MAX_LEN {
            return false;
        }
        let [a, b, c, d] = len.wrapping_sub(1).to_le_bytes();
        let last = u64::from_le_bytes([a, b, c, d, 0, 0, 0, 0]);
        self.va.checked_add(last).is_some()
    }
}

/// What a message says beyond its base header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// The sender has no more data (SDP-DISC-01).
    DisConn,
    /// The sender aborts after its DisConn (SDP-ABRT-01).
    AbortConn,
    /// The rest of the oldest SrcAvail must come as Data (SDP-SSM-01).
    SendSm,
    /// Octets written into the oldest SinkAvail (SDP-WRC-03).
    RdmaWrCompl(u32),
    /// Octets read from the oldest SrcAvail since the report before (SDP-RDC-03, SDP-RZK-14).
    RdmaRdCompl(u32),
    /// New mode of a half-connection (SDP-MCH-01).
    ModeChange {
        /// S: the half-connection is the one where the receiver of the message is Data Source.
        receiver_sends: bool,
        /// The new mode.
        mode: HalfMode,
    },
    /// Every SrcAvail that is not processed is taken back (SDP-SRCC-01).
    SrcAvailCancel,
    /// Every SinkAvail that is not processed is taken back (SDP-SNKC-01).
    SinkAvailCancel,
    /// Answers SinkAvailCancel (SDP-SNKA-01).
    SinkCancelAck,
    /// Wanted size of the receive buffers (SDP-CRB-03).
    ChRcvBuf(u32),
    /// New size of the receive buffers (SDP-CRB-04).
    ChRcvBufAck(u32),
    /// Suspends the connection; the port to connect to afterwards (SDP-SUS-02).
    SuspComm(u16),
    /// The connection is suspended (SDP-SCA-01).
    SuspCommAck,
    /// Memory to write to (SDP-SNK-01).
    SinkAvail {
        /// The memory.
        advert: Advert,
        /// Messages with payload that used up no earlier SinkAvail (SDP-SNK-08).
        non_discards: u32,
    },
    /// Memory to read from (SDP-SRC-01).
    SrcAvail(Advert),
    /// Data of the stream, or nothing but credits (SDP-DATA-03).
    Data,
}

impl Body {
    /// The message type.
    pub(crate) const fn mid(&self) -> Mid {
        match self {
            Self::DisConn => Mid::DisConn,
            Self::AbortConn => Mid::AbortConn,
            Self::SendSm => Mid::SendSm,
            Self::RdmaWrCompl(_) => Mid::RdmaWrCompl,
            Self::RdmaRdCompl(_) => Mid::RdmaRdCompl,
            Self::ModeChange { .. } => Mid::ModeChange,
            Self::SrcAvailCancel => Mid::SrcAvailCancel,
            Self::SinkAvailCancel => Mid::SinkAvailCancel,
            Self::SinkCancelAck => Mid::SinkCancelAck,
            Self::ChRcvBuf(_) => Mid::ChRcvBuf,
            Self::ChRcvBufAck(_) => Mid::ChRcvBufAck,
            Self::SuspComm(_) => Mid::SuspComm,
            Self::SuspCommAck => Mid::SuspCommAck,
            Self::SinkAvail { .. } => Mid::SinkAvail,
            Self::SrcAvail(_) => Mid::SrcAvail,
            Self::Data => Mid::Data,
        }
    }
}

/// Why octets are no message of a connection. Each is a violation (SDP-ABT-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Shorter than its headers, or of another length than it says (SDP-ERR-02).
    Length,
    /// A reserved or experimental identifier (SDP-ERR-01).
    Mid(u8),
    /// Hello or HelloAck (SDP-ERR-16).
    SetUp,
    /// Data behind a message that carries none (SDP-ERR-02).
    Payload,
    /// An advert of no octets, of too many, beyond the address space, or shorter than its payload
    /// (SDP-ERR-09, SDP-SRC-08).
    Advert,
    /// A reserved mode (SDP-MCH-07).
    Mode,
    /// A size of receive buffers below 37 octets or above 2^31 (SDP-ERR-18).
    BufferSize,
    /// Other constants than those of SuspComm, or no port (SDP-ERR-19).
    Suspend,
    /// OOB_PRES without an octet of Data that it marks (SDP-ERR-15).
    Urgent,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SdpMessage {
    /// The flags.
    pub(crate) flags: BsdhFlags,
    /// Receive buffers that the sender has posted.
    pub(crate) bufs: u16,
    /// Number of the message.
    pub(crate) mseq: Serial,
    /// Number of the last message that the sender has received.
    pub(crate) mseq_ack: Serial,
    /// What the message says.
    pub(crate) body: Body,
    /// Octets of payload behind the headers.
    pub(crate) payload: u32,
}

/// Headers as they go on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderOctets {
    octets: [u8; MAX_HEADER],
    len: usize,
}

impl HeaderOctets {
    /// The octets.
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or(&[])
    }
}

/// SrcAH, and the first part of SinkAH (SDP-SRC-02, SDP-SNK-02).
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAdvert {
    len: U32,
    stag: U32,
    va: U64,
}

impl RawAdvert {
    fn get(&self) -> Result<Advert, Malformed> {
        let advert = Advert {
            len: self.len.get(),
            stag: self.stag.get(),
            va: self.va.get(),
        };
        if advert.is_valid() {
            Ok(advert)
        } else {
            Err(Malformed::Advert)
        }
    }

    fn new(advert: Advert) -> Self {
        Self {
            len: U32::new(advert.len),
            stag: U32::new(advert.stag),
            va: U64::new(advert.va),
        }
    }
}

/// SinkAH (SDP-SNK-02).
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSink {
    advert: RawAdvert,
    non_discards: U32,
}

/// SuspCH. The layout decides what is where in `tail` (SDP-SUS-01, AMB-02).
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuspend {
    zero: U32,
    tail: [u8; 4],
}

/// The second constant of SuspComm (SDP-SUS-04).
const SUSPEND: [u8; 2] = [0, 1];

impl SdpMessage {
    /// Octets of the headers.
    pub(crate) const fn header_len(&self) -> usize {
        BSDH_LEN.saturating_add(self.body.mid().extended_len())
    }

    /// Reads a message from the octets of one receive, and checks all that needs no state.
    pub(crate) fn parse(octets: &[u8], layout: WireLayout) -> Result<Self, Malformed> {
        Self::parse_head(octets, octets.len(), layout)
    }

    /// As [`Self::parse`], of a message of `total` octets that begins with `head`: all of it, or
    /// at least [`MAX_HEADER`] octets.
    pub(crate) fn parse_head(
        head: &[u8],
        total: usize,
        layout: WireLayout,
    ) -> Result<Self, Malformed> {
        let (bsdh, rest) = Bsdh::parse(head, layout).ok_or(Malformed::Length)?;
        if usize::try_from(bsdh.len) != Ok(total) || total < head.len() {
            return Err(Malformed::Length);
        }
        let mid = Mid::from_code(bsdh.code).ok_or(Malformed::Mid(bsdh.code))?;
        let (extended, _) = rest
            .split_at_checked(mid.extended_len())
            .ok_or(Malformed::Length)?;
        if matches!(mid, Mid::Hello | Mid::HelloAck) {
            return Err(Malformed::SetUp);
        }
        let header = BSDH_LEN.saturating_add(mid.extended_len());
        let payload = total.checked_sub(header).ok_or(Malformed::Length)?;
        if payload != 0 && !mid.may_carry_data() {
            return Err(Malformed::Payload);
        }
        let payload = u32::try_from(payload).map_err(|_| Malformed::Length)?;
        let body = Self::body(mid, extended, layout)?;
        match body {
            Body::SrcAvail(advert) if payload > advert.len => return Err(Malformed::Advert),
            Body::Data if payload > 0 => {}
            _ if bsdh.flags.urgent_present => return Err(Malformed::Urgent),
            _ => {}
        }
        Ok(Self {
            flags: bsdh.flags,
            bufs: bsdh.bufs,
            mseq: bsdh.mseq,
            mseq_ack: bsdh.mseq_ack,
            body,
            payload,
        })
    }

    /// Reads an extended header.
    fn body(mid: Mid, octets: &[u8], layout: WireLayout) -> Result<Body, Malformed> {
        let number = || {
            U32::read_from_bytes(octets)
                .map(U32::get)
                .map_err(|_| Malformed::Length)
        };
        let size = || match number()? {
            size @ MIN_BUFFER..=MAX_LEN => Ok(size),
            _ => Err(Malformed::BufferSize),
        };
        Ok(match mid {
            Mid::Hello | Mid::HelloAck => return Err(Malformed::SetUp),
            Mid::DisConn => Body::DisConn,
            Mid::AbortConn => Body::AbortConn,
            Mid::SendSm => Body::SendSm,
            Mid::RdmaWrCompl => Body::RdmaWrCompl(number()?),
            Mid::RdmaRdCompl => Body::RdmaRdCompl(number()?),
            Mid::ModeChange => Self::mode_change(octets, layout)?,
            Mid::SrcAvailCancel => Body::SrcAvailCancel,
            Mid::SinkAvailCancel => Body::SinkAvailCancel,
            Mid::SinkCancelAck => Body::SinkCancelAck,
            Mid::ChRcvBuf => Body::ChRcvBuf(size()?),
            Mid::ChRcvBufAck => Body::ChRcvBufAck(size()?),
            Mid::SuspComm => Self::suspend(octets, layout)?,
            Mid::SuspCommAck => Body::SuspCommAck,
            Mid::SinkAvail => {
                let raw = RawSink::ref_from_bytes(octets).map_err(|_| Malformed::Length)?;
                Body::SinkAvail {
                    advert: raw.advert.get()?,
                    non_discards: raw.non_discards.get(),
                }
            }
            Mid::SrcAvail => {
                let raw = RawAdvert::ref_from_bytes(octets).map_err(|_| Malformed::Length)?;
                Body::SrcAvail(raw.get()?)
            }
            Mid::Data => Body::Data,
        })
    }

    /// Reads an MCH; its reserved bits are ignored (SDP-MCH-06).
    fn mode_change(octets: &[u8], layout: WireLayout) -> Result<Body, Malformed> {
        let (receiver_sends, bits) = match (layout, octets) {
            (WireLayout::IdFirst, [first, _, _, _]) => (first & 0x80 != 0, (first >> 4) & 7),
            (WireLayout::IdLast, [_, _, _, last]) => (last & 0x01 != 0, (last >> 1) & 7),
            _ => return Err(Malformed::Length),
        };
        let mode = HalfMode::from_bits(bits).ok_or(Malformed::Mode)?;
        Ok(Body::ModeChange {
            receiver_sends,
            mode,
        })
    }

    /// Reads a SuspCH.
    fn suspend(octets: &[u8], layout: WireLayout) -> Result<Body, Malformed> {
        let raw = RawSuspend::ref_from_bytes(octets).map_err(|_| Malformed::Length)?;
        let [a, b, c, d] = raw.tail;
        let (constant, port) = match layout {
            WireLayout::IdFirst => ([a, b], [c, d]),
            WireLayout::IdLast => ([c, d], [a, b]),
        };
        let port = u16::from_be_bytes(port);
        if raw.zero.get() != 0 || constant != SUSPEND || port == 0 {
            return Err(Malformed::Suspend);
        }
        Ok(Body::SuspComm(port))
    }

    /// The headers to send in front of the payload.
    pub(crate) fn emit(&self, layout: WireLayout) -> HeaderOctets {
        let mid = self.body.mid();
        let len = self.header_len();
        let bsdh = Bsdh {
            code: mid.code(),
            flags: self.flags,
            bufs: self.bufs,
            // Exact: no payload reaches the sizes at which this would saturate.
            len: u32::try_from(len)
                .unwrap_or(u32::MAX)
                .saturating_add(self.payload),
            mseq: self.mseq,
            mseq_ack: self.mseq_ack,
        };
        let mut octets = [0; MAX_HEADER];
        if let Some((base, extended)) = octets.split_first_chunk_mut::<BSDH_LEN>() {
            *base = bsdh.emit(layout);
            self.emit_extended(extended, layout);
        }
        HeaderOctets { octets, len }
    }

    /// Writes the extended header.
    fn emit_extended(&self, to: &mut [u8], layout: WireLayout) {
        match self.body {
            Body::RdmaWrCompl(number)
            | Body::RdmaRdCompl(number)
            | Body::ChRcvBuf(number)
            | Body::ChRcvBufAck(number) => put(to, &U32::new(number)),
            Body::ModeChange {
                receiver_sends,
                mode,
            } => {
                let s = u8::from(receiver_sends);
                let octets = match layout {
                    WireLayout::IdFirst => [(s << 7) | (mode.bits() << 4), 0, 0, 0],
                    WireLayout::IdLast => [0, 0, 0, (mode.bits() << 1) | s],
                };
                put(to, &octets);
            }
            Body::SuspComm(port) => {
                let [high, low] = port.to_be_bytes();
                let [zero, one] = SUSPEND;
                let raw = RawSuspend {
                    zero: U32::ZERO,
                    tail: match layout {
                        WireLayout::IdFirst => [zero, one, high, low],
                        WireLayout::IdLast => [high, low, zero, one],
                    },
                };
                put(to, &raw);
            }
            Body::SinkAvail {
                advert,
                non_discards,
            } => {
                let raw = RawSink {
                    advert: RawAdvert::new(advert),
                    non_discards: U32::new(non_discards),
                };
                put(to, &raw);
            }
            Body::SrcAvail(advert) => put(to, &RawAdvert::new(advert)),
            Body::DisConn
            | Body::AbortConn
            | Body::SendSm
            | Body::SrcAvailCancel
            | Body::SinkAvailCancel
            | Body::SinkCancelAck
            | Body::SuspCommAck
            | Body::Data => {}
        }
    }
}

/// Writes `raw` to the start of `to`.
fn put(to: &mut [u8], raw: &(impl IntoBytes + Immutable + ?Sized)) {
    // Cannot fail: there is room for the longest extended header, as the tests show.
    let _ = raw.write_to_prefix(to);
}

#[cfg(test)]
mod vectors;
