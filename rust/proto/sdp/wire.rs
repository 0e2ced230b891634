// SPDX-License-Identifier: GPL-2.0

//! The base header of every SDP message, draft 6.1 (SDP-BSDH-*), and the message identifiers.

use super::{
    profile::WireLayout,
    serial::Serial, //
};
use zerocopy::{
    byteorder::network_endian::U32,
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

/// Octets of a BSDH (SDP-CONST-01).
pub(crate) const BSDH_LEN: usize = 16;

/// The largest advert and the largest receive buffer, in octets (SDP-CONST-10).
pub(crate) const MAX_LEN: u32 = 1 << 31;

/// The smallest receive buffer, in octets: the longest header and one octet (SDP-BUFP-07).
pub(crate) const MIN_BUFFER: u32 = 37;

/// Fewest receive buffers posted at the start (SDP-BUFP-04, SDP-CRED-07, AMB-07).
pub(crate) const MIN_BUFS: u16 = 3;

/// The type of a message (SDP-MID-*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mid {
    /// Opens a connection.
    Hello,
    /// Accepts a connection.
    HelloAck,
    /// The sender has no more data.
    DisConn,
    /// The sender aborts after its DisConn.
    AbortConn,
    /// The rest of the oldest SrcAvail must come as Data.
    SendSm,
    /// RDMA Writes into the oldest SinkAvail are done.
    RdmaWrCompl,
    /// RDMA Reads of the oldest SrcAvail are done.
    RdmaRdCompl,
    /// The Mode Master changes the mode of a half-connection.
    ModeChange,
    /// Every SrcAvail that is not processed is taken back.
    SrcAvailCancel,
    /// Every SinkAvail that is not processed is taken back.
    SinkAvailCancel,
    /// Answers SinkAvailCancel.
    SinkCancelAck,
    /// Asks for receive buffers of another size.
    ChRcvBuf,
    /// Answers ChRcvBuf.
    ChRcvBufAck,
    /// Asks to suspend the connection.
    SuspComm,
    /// Answers SuspComm.
    SuspCommAck,
    /// Offers memory for RDMA Write.
    SinkAvail,
    /// Offers memory for RDMA Read.
    SrcAvail,
    /// Data of the stream, or an update of credits.
    Data,
}

impl Mid {
    /// Every identifier, in the order of its number.
    #[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
    pub(crate) const ALL: [Self; 18] = [
        Self::Hello,
        Self::HelloAck,
        Self::DisConn,
        Self::AbortConn,
        Self::SendSm,
        Self::RdmaWrCompl,
        Self::RdmaRdCompl,
        Self::ModeChange,
        Self::SrcAvailCancel,
        Self::SinkAvailCancel,
        Self::SinkCancelAck,
        Self::ChRcvBuf,
        Self::ChRcvBufAck,
        Self::SuspComm,
        Self::SuspCommAck,
        Self::SinkAvail,
        Self::SrcAvail,
        Self::Data,
    ];

    /// Reads an identifier; `None` for reserved and experimental ones (SDP-MID-93).
    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::Hello,
            0x01 => Self::HelloAck,
            0x02 => Self::DisConn,
            0x03 => Self::AbortConn,
            0x04 => Self::SendSm,
            0x05 => Self::RdmaWrCompl,
            0x06 => Self::RdmaRdCompl,
            0x07 => Self::ModeChange,
            0x08 => Self::SrcAvailCancel,
            0x09 => Self::SinkAvailCancel,
            0x0a => Self::SinkCancelAck,
            0x0b => Self::ChRcvBuf,
            0x0c => Self::ChRcvBufAck,
            0x0d => Self::SuspComm,
            0x0e => Self::SuspCommAck,
            0xfd => Self::SinkAvail,
            0xfe => Self::SrcAvail,
            0xff => Self::Data,
            _ => return None,
        })
    }

    /// The identifier on the wire (SDP-MID-90).
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Hello => 0x00,
            Self::HelloAck => 0x01,
            Self::DisConn => 0x02,
            Self::AbortConn => 0x03,
            Self::SendSm => 0x04,
            Self::RdmaWrCompl => 0x05,
            Self::RdmaRdCompl => 0x06,
            Self::ModeChange => 0x07,
            Self::SrcAvailCancel => 0x08,
            Self::SinkAvailCancel => 0x09,
            Self::SinkCancelAck => 0x0a,
            Self::ChRcvBuf => 0x0b,
            Self::ChRcvBufAck => 0x0c,
            Self::SuspComm => 0x0d,
            Self::SuspCommAck => 0x0e,
            Self::SinkAvail => 0xfd,
            Self::SrcAvail => 0xfe,
            Self::Data => 0xff,
        }
    }

    /// Octets of the extended header, without those of Hello and HelloAck, whose length depends on
    /// their form (SDP-MID-90).
    pub(crate) const fn extended_len(self) -> usize {
        match self {
            Self::RdmaWrCompl
            | Self::RdmaRdCompl
            | Self::ModeChange
            | Self::ChRcvBuf
            | Self::ChRcvBufAck => 4,
            Self::SuspComm => 8,
            Self::SrcAvail => 16,
            Self::SinkAvail => 20,
            _ => 0,
        }
    }

    /// Whether data of the stream may follow the headers (SDP-DATA-04).
    pub(crate) const fn may_carry_data(self) -> bool {
        matches!(self, Self::Data | Self::SrcAvail | Self::SinkAvail)
    }

    /// Whether the message is sent with the solicited event, whatever it carries (SDP-SE-T1 to
    /// SDP-SE-T3).
    pub(crate) const fn is_solicited(self) -> bool {
        matches!(
            self,
            Self::HelloAck
                | Self::AbortConn
                | Self::SendSm
                | Self::RdmaWrCompl
                | Self::RdmaRdCompl
                | Self::SrcAvailCancel
                | Self::SinkAvailCancel
                | Self::SinkCancelAck
                | Self::SuspComm
                | Self::SuspCommAck
        )
    }
}

/// The flags of a BSDH (SDP-BSDH-02 to SDP-BSDH-15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BsdhFlags {
    /// OOB_PRES: the last octet of the payload is urgent.
    pub(crate) urgent_present: bool,
    /// OOB_PEND: the sender has urgent data.
    pub(crate) urgent_pending: bool,
    /// REQ_PIPE: the Mode Slave prefers Pipelined Mode.
    pub(crate) wants_pipelined: bool,
}

impl BsdhFlags {
    const PRESENT: u8 = 0x01;
    const PENDING: u8 = 0x02;
    const PIPELINED: u8 = 0x04;

    /// Reads the octet; the reserved bits are ignored (SDP-BSDH-02).
    const fn from_octet(octet: u8) -> Self {
        Self {
            urgent_present: octet & Self::PRESENT != 0,
            urgent_pending: octet & Self::PENDING != 0,
            wants_pipelined: octet & Self::PIPELINED != 0,
        }
    }

    /// The octet.
    const fn octet(self) -> u8 {
        const fn bit(set: bool, mask: u8) -> u8 {
            if set {
                mask
            } else {
                0
            }
        }
        bit(self.urgent_present, Self::PRESENT)
            | bit(self.urgent_pending, Self::PENDING)
            | bit(self.wants_pipelined, Self::PIPELINED)
    }
}

/// The octets of a BSDH. The layout decides what is where in `lead`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBsdh {
    lead: [u8; 4],
    len: U32,
    mseq: U32,
    mseq_ack: U32,
}

/// The base header (SDP-BSDH-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bsdh {
    /// Message type, as it is on the wire.
    pub(crate) code: u8,
    /// The flags.
    pub(crate) flags: BsdhFlags,
    /// Receive buffers that the sender has posted (SDP-BSDH-16).
    pub(crate) bufs: u16,
    /// Octets of the message with all headers (SDP-BSDH-18).
    pub(crate) len: u32,
    /// Number of the message.
    pub(crate) mseq: Serial,
    /// Number of the last message that the sender has received (SDP-BSDH-21).
    pub(crate) mseq_ack: Serial,
}

impl Bsdh {
    /// Reads the header in front of `octets`; `None` if they are too short. Gives the rest too.
    pub(crate) fn parse(octets: &[u8], layout: WireLayout) -> Option<(Self, &[u8])> {
        let (raw, rest) = RawBsdh::ref_from_prefix(octets).ok()?;
        let [code, flags, high, low] = match (layout, raw.lead) {
            (WireLayout::IdFirst, lead) => lead,
            (WireLayout::IdLast, [high, low, flags, code]) => [code, flags, high, low],
        };
        let bsdh = Self {
            code,
            flags: BsdhFlags::from_octet(flags),
            bufs: u16::from_be_bytes([high, low]),
            len: raw.len.get(),
            mseq: Serial::new(raw.mseq.get()),
            mseq_ack: Serial::new(raw.mseq_ack.get()),
        };
        Some((bsdh, rest))
    }

    /// The octets to send.
    pub(crate) fn emit(&self, layout: WireLayout) -> [u8; BSDH_LEN] {
        let [high, low] = self.bufs.to_be_bytes();
        let flags = self.flags.octet();
        let raw = RawBsdh {
            lead: match layout {
                WireLayout::IdFirst => [self.code, flags, high, low],
                WireLayout::IdLast => [high, low, flags, self.code],
            },
            len: U32::new(self.len),
            mseq: U32::new(self.mseq.get()),
            mseq_ack: U32::new(self.mseq_ack.get()),
        };
        let mut octets = [0; BSDH_LEN];
        // Cannot fail: the sizes are equal, as the tests show.
        let _ = raw.write_to(&mut octets);
        octets
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_sdp_wire))]
mod tests {
    use super::*;

    fn bsdh() -> Bsdh {
        Bsdh {
            code: 0xff,
            flags: BsdhFlags::from_octet(3),
            bufs: 64,
            len: 17,
            mseq: Serial::new(6),
            mseq_ack: Serial::new(4),
        }
    }

    // SDP-BSDH-01, SDP-WIRE-01, SDP-GEN-15.
    #[test]
    fn base_header_has_the_octets_of_both_layouts() {
        let rest = [0, 0, 0, 17, 0, 0, 0, 6, 0, 0, 0, 4];
        for (layout, lead) in [
            (WireLayout::IdFirst, [0xff, 0x03, 0x00, 0x40]),
            (WireLayout::IdLast, [0x00, 0x40, 0x03, 0xff]),
        ] {
            let octets = bsdh().emit(layout);
            assert_eq!(octets.split_at(4), (&lead[..], &rest[..]));
            assert_eq!(Bsdh::parse(&octets, layout), Some((bsdh(), &[][..])));
        }
    }

    #[test]
    fn short_header_is_none() {
        let octets = bsdh().emit(WireLayout::IdFirst);
        for len in 0..BSDH_LEN {
            assert!(Bsdh::parse(&octets[..len], WireLayout::IdFirst).is_none());
        }
    }

    // SDP-BSDH-02.
    #[test]
    fn reserved_flags_are_ignored_and_sent_as_zero() {
        for octet in 0..=u8::MAX {
            assert_eq!(BsdhFlags::from_octet(octet).octet(), octet & 7);
        }
    }

    // SDP-MID-90, SDP-MID-0F, SDP-MID-10, SDP-MID-40, SDP-MID-80, SDP-MID-93.
    #[test]
    fn identifiers_are_those_of_the_draft() {
        for code in 0..=u8::MAX {
            let known = matches!(code, 0x00..=0x0e | 0xfd..=0xff);
            let mid = Mid::from_code(code);
            assert_eq!(mid.is_some(), known);
            if let Some(mid) = mid {
                assert_eq!(mid.code(), code);
            }
        }
        assert_eq!(Mid::ALL.map(Mid::code), {
            [
                0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xfd, 0xfe, 0xff,
            ]
        });
    }

    // SDP-SE-01, SDP-SE-02.
    #[test]
    fn messages_that_end_a_wait_are_solicited() {
        let solicited = [1, 3, 4, 5, 6, 8, 9, 10, 13, 14];
        for mid in Mid::ALL {
            assert_eq!(mid.is_solicited(), solicited.contains(&mid.code()));
        }
    }
}
