// SPDX-License-Identifier: GPL-2.0

//! A packet from its base transport header to the padding: parsing and writing (RNIC-HDR-02 to
//! RNIC-HDR-08). The invariant CRC behind it is in [`icrc`](super::icrc).

use super::{
    header::{
        Aeth,
        AtomicEth,
        Bth,
        Deth,
        ExtensionHeader,
        Feth,
        Reth,
        BTH_LEN, //
    },
    opcode::{
        Companion,
        Opcode,
        Operation, //
    },
};
use crate::proto::base::verbs::RKey;

/// Octets of padding that complete `len` to a multiple of four (RNIC-HDR-04).
pub(crate) const fn pad_of(len: usize) -> u8 {
    // The low bits of the negated length, which fit.
    let [low, ..] = len.wrapping_neg().to_le_bytes();
    low & 3
}

/// Why octets are no packet. All but [`PacketError::Opcode`] are dropped (RNIC-RSP-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketError {
    /// They end within a header.
    Truncated,
    /// The version of the transport is not 0 (RNIC-HDR-05).
    Version,
    /// The opcode is not in the table; a reliable connection answers it (RNIC-HDR-03).
    Opcode(Bth),
    /// More padding than payload, or no multiple of four (RNIC-HDR-04).
    Padding,
    /// Another partition (RNIC-HDR-05).
    Partition,
}

/// The extension headers of a packet, present according to the opcode (RNIC-HDR-02).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extensions {
    /// Datagram header of UD.
    pub(crate) deth: Option<Deth>,
    /// Scope of a FLUSH.
    pub(crate) feth: Option<Feth>,
    /// Range of WRITE FIRST and ONLY, READ, FLUSH and ATOMIC WRITE.
    pub(crate) reth: Option<Reth>,
    /// Operands of CMP SWAP and FETCH ADD.
    pub(crate) atomic: Option<AtomicEth>,
    /// Acknowledgement of all responses but READ MIDDLE.
    pub(crate) aeth: Option<Aeth>,
    /// Previous value of the word, in an atomic acknowledgement.
    pub(crate) original: Option<u64>,
    /// Immediate data, as it is on the wire.
    pub(crate) imm: Option<[u8; 4]>,
    /// Key that the receiver invalidates.
    pub(crate) invalidate: Option<RKey>,
}

/// The set of extension headers that an opcode has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeaderSet {
    /// Datagram header.
    deth: bool,
    /// Scope of a FLUSH.
    feth: bool,
    /// Range of memory.
    reth: bool,
    /// Operands of an atomic operation.
    atomic: bool,
    /// Acknowledgement.
    aeth: bool,
    /// Previous value of a word.
    original: bool,
    /// Immediate data.
    imm: bool,
    /// Key to invalidate.
    invalidate: bool,
}

impl HeaderSet {
    /// The headers behind the BTH of `opcode`.
    const fn of(opcode: Opcode) -> Self {
        let starts = opcode.position().starts();
        let ends = opcode.position().ends();
        let operation = opcode.operation();
        Self {
            deth: matches!(opcode, Opcode::UdSendOnly | Opcode::UdSendOnlyImm),
            feth: matches!(operation, Operation::Flush),
            reth: match operation {
                Operation::Write => starts,
                Operation::ReadRequest | Operation::Flush | Operation::AtomicWrite => true,
                _ => false,
            },
            atomic: matches!(operation, Operation::CompareSwap | Operation::FetchAdd),
            aeth: match operation {
                Operation::Acknowledge | Operation::AtomicAcknowledge => true,
                Operation::ReadResponse => starts || ends,
                _ => false,
            },
            original: matches!(operation, Operation::AtomicAcknowledge),
            imm: matches!(opcode.companion(), Companion::Immediate),
            invalidate: matches!(opcode.companion(), Companion::Invalidate),
        }
    }

    /// Their octets.
    const fn len(self) -> usize {
        const fn octets(present: bool, len: usize) -> usize {
            if present {
                len
            } else {
                0
            }
        }
        // No overflow: at most 100 octets in all.
        octets(self.deth, 8)
            .wrapping_add(octets(self.feth, 4))
            .wrapping_add(octets(self.reth, 16))
            .wrapping_add(octets(self.atomic, 28))
            .wrapping_add(octets(self.aeth, 4))
            .wrapping_add(octets(self.original, 8))
            .wrapping_add(octets(self.imm, 4))
            .wrapping_add(octets(self.invalidate, 4))
    }
}

/// Octets of the extension headers of `opcode` (RNIC-HDR-07).
pub(crate) const fn extension_len(opcode: Opcode) -> usize {
    HeaderSet::of(opcode).len()
}

/// Octets of a packet from the base header to the padding, with `len` octets of payload.
pub(crate) fn transport_len(opcode: Opcode, len: usize) -> usize {
    BTH_LEN
        .saturating_add(extension_len(opcode))
        .saturating_add(len)
        .saturating_add(usize::from(pad_of(len)))
}

/// The base header of a packet with `len` octets of payload: with the code of `opcode`, and its padding.
pub(crate) fn base_header(bth: &Bth, opcode: Opcode, len: usize) -> Bth {
    Bth {
        code: opcode.code(),
        pad: pad_of(len),
        ..*bth
    }
}

/// Takes a header if it is present.
fn take<H: ExtensionHeader>(present: bool, octets: &[u8]) -> Option<(Option<H>, &[u8])> {
    if present {
        let (header, rest) = H::take(octets)?;
        Some((Some(header), rest))
    } else {
        Some((None, octets))
    }
}

/// Writes a header if it is present; `None` if it is absent or there is no room.
fn put<H: ExtensionHeader>(
    present: bool,
    header: Option<H>,
    octets: &mut [u8],
) -> Option<&mut [u8]> {
    if present {
        header?.put(octets)
    } else {
        Some(octets)
    }
}

impl Extensions {
    /// Splits the headers of `opcode` off the front of `octets`.
    fn parse(opcode: Opcode, octets: &[u8]) -> Option<(Self, &[u8])> {
        let layout = HeaderSet::of(opcode);
        let (deth, rest) = take(layout.deth, octets)?;
        let (feth, rest) = take(layout.feth, rest)?;
        let (reth, rest) = take(layout.reth, rest)?;
        let (atomic, rest) = take(layout.atomic, rest)?;
        let (aeth, rest) = take(layout.aeth, rest)?;
        let (original, rest) = take(layout.original, rest)?;
        let (imm, rest) = take(layout.imm, rest)?;
        let (invalidate, rest) = take(layout.invalidate, rest)?;
        let extensions = Self {
            deth,
            feth,
            reth,
            atomic,
            aeth,
            original,
            imm,
            invalidate,
        };
        Some((extensions, rest))
    }

    /// Writes the headers of `opcode` and returns the rest of `octets`; `None` if there is no room
    /// or a header is absent that the opcode has.
    fn emit<'a>(&self, opcode: Opcode, octets: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let layout = HeaderSet::of(opcode);
        let rest = put(layout.deth, self.deth, octets)?;
        let rest = put(layout.feth, self.feth, rest)?;
        let rest = put(layout.reth, self.reth, rest)?;
        let rest = put(layout.atomic, self.atomic, rest)?;
        let rest = put(layout.aeth, self.aeth, rest)?;
        let rest = put(layout.original, self.original, rest)?;
        let rest = put(layout.imm, self.imm, rest)?;
        put(layout.invalidate, self.invalidate, rest)
    }
}

/// A packet without its invariant CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RocePacket<'a> {
    /// Base transport header. Its code is that of `opcode`.
    pub(crate) bth: Bth,
    /// The decoded opcode.
    pub(crate) opcode: Opcode,
    /// Extension headers.
    pub(crate) ext: Extensions,
    /// Payload without padding.
    pub(crate) payload: &'a [u8],
}

impl<'a> RocePacket<'a> {
    /// Reads the octets from the BTH to the padding, for a queue pair of this device.
    ///
    /// # Errors
    ///
    /// In the order of checks: too short, version, partition, opcode, extension headers, padding.
    pub(crate) fn parse(octets: &'a [u8]) -> Result<Self, PacketError> {
        let (bth, rest) = Bth::parse(octets).ok_or(PacketError::Truncated)?;
        if bth.version != 0 {
            return Err(PacketError::Version);
        }
        if !bth.is_of_partition() {
            return Err(PacketError::Partition);
        }
        let opcode = Opcode::from_code(bth.code).ok_or(PacketError::Opcode(bth))?;
        let (ext, rest) = Extensions::parse(opcode, rest).ok_or(PacketError::Truncated)?;
        if rest.len() & 3 != 0 {
            return Err(PacketError::Padding);
        }
        let len = rest.len().checked_sub(usize::from(bth.pad));
        let payload = len.and_then(|len| rest.get(..len));
        Ok(Self {
            bth,
            opcode,
            ext,
            payload: payload.ok_or(PacketError::Padding)?,
        })
    }

    /// Writes the headers without the payload and returns their octets.
    ///
    /// The opcode replaces the code of the BTH, and the padding count follows from `payload_len`.
    /// `None` if `buf` is too short or an extension header is absent.
    pub(crate) fn emit_headers(
        bth: &Bth,
        opcode: Opcode,
        ext: &Extensions,
        payload_len: usize,
        buf: &mut [u8],
    ) -> Option<usize> {
        let room = buf.len();
        let bth = base_header(bth, opcode, payload_len);
        let (first, rest) = buf.split_first_chunk_mut()?;
        *first = bth.emit();
        let rest = ext.emit(opcode, rest)?;
        room.checked_sub(rest.len())
    }

    /// Writes the packet and returns its octets; `None` if `buf` is too short or an extension
    /// header is absent.
    pub(crate) fn emit(&self, buf: &mut [u8]) -> Option<usize> {
        let len = self.payload.len();
        let headers = Self::emit_headers(&self.bth, self.opcode, &self.ext, len, buf)?;
        let end = headers.checked_add(len)?;
        buf.get_mut(headers..end)?.copy_from_slice(self.payload);
        let padded = end.checked_add(usize::from(pad_of(len)))?;
        buf.get_mut(end..padded)?.fill(0);
        Some(padded)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_packet))]
mod tests {
    use super::*;
    use crate::proto::{
        base::verbs::{
            Psn,
            Qpn, //
        },
        roce::aeth::Syndrome, //
    };

    /// All extension headers.
    const FULL: Extensions = Extensions {
        deth: Some(Deth {
            qkey: 0x1111_1111,
            src_qp: Qpn::new(2),
        }),
        feth: Some(Feth {
            placement: Feth::GLOBAL,
            level: Feth::RANGE,
        }),
        reth: Some(Reth {
            vaddr: 0x1122_3344_5566_7788,
            rkey: RKey::new(0xa01),
            len: 5,
        }),
        atomic: Some(AtomicEth {
            vaddr: 0x10,
            rkey: RKey::new(7),
            swap_add: 8,
            compare: 9,
        }),
        aeth: Some(Aeth {
            syndrome: Some(Syndrome::ACK),
            msn: 3,
        }),
        original: Some(0x0102_0304_0506_0708),
        imm: Some([1, 2, 3, 4]),
        invalidate: Some(RKey::new(0x0506_0708)),
    };

    /// The headers of `FULL` that an opcode has.
    fn headers_of(opcode: Opcode) -> Extensions {
        let layout = HeaderSet::of(opcode);
        Extensions {
            deth: FULL.deth.filter(|_| layout.deth),
            feth: FULL.feth.filter(|_| layout.feth),
            reth: FULL.reth.filter(|_| layout.reth),
            atomic: FULL.atomic.filter(|_| layout.atomic),
            aeth: FULL.aeth.filter(|_| layout.aeth),
            original: FULL.original.filter(|_| layout.original),
            imm: FULL.imm.filter(|_| layout.imm),
            invalidate: FULL.invalidate.filter(|_| layout.invalidate),
        }
    }

    /// RNIC-HDR-02: the octets behind the BTH, by the table of the standard.
    #[test]
    fn extension_octets_of_every_opcode_are_those_of_the_table() {
        for &opcode in Opcode::ALL {
            let expected = match opcode.code() {
                0x00..=0x02 | 0x04 | 0x07 | 0x08 | 0x0e => 0,
                0x03 | 0x05 | 0x09 | 0x16 | 0x17 => 4,
                0x06 | 0x0a | 0x0c | 0x1d => 16,
                0x0b | 0x1c => 20,
                0x0d | 0x0f | 0x10 | 0x11 => 4,
                0x12 => 12,
                0x13 | 0x14 => 28,
                0x20..=0x22 | 0x24 | 0x27 | 0x28 => 0,
                0x23 | 0x25 | 0x29 => 4,
                0x26 | 0x2a => 16,
                0x2b => 20,
                0x64 => 8,
                0x65 => 12,
                _ => 0,
            };
            assert_eq!(extension_len(opcode), expected);
        }
    }

    /// RNIC-HDR-04, RNIC-HDR-08.
    #[test]
    fn every_opcode_with_every_padding_survives() {
        for &opcode in Opcode::ALL {
            for len in 0..6 {
                let packet = RocePacket {
                    bth: Bth {
                        pad: pad_of(len),
                        ..Bth::new(opcode.code(), Qpn::new(0x10_0011), Psn::new(7))
                    },
                    opcode,
                    ext: headers_of(opcode),
                    payload: [9; 6].get(..len).unwrap_or(&[]),
                };
                let mut buf = [0xee; 64];
                let octets = packet.emit(&mut buf);
                let expected = 12 + extension_len(opcode) + len.next_multiple_of(4);
                assert_eq!(octets, Some(expected));
                let octets = buf.get(..expected).unwrap_or(&[]);
                assert_eq!(RocePacket::parse(octets), Ok(packet));
                // RNIC-HDR-07: a packet that ends early is not read.
                for short in 0..12 + extension_len(opcode) {
                    assert_eq!(
                        octets.get(..short).map(RocePacket::parse),
                        Some(Err(PacketError::Truncated))
                    );
                }
                assert_eq!(
                    packet.emit(buf.get_mut(..expected - 1).unwrap_or(&mut [])),
                    None
                );
            }
        }
    }

    #[test]
    fn absent_extension_header_is_not_written() {
        let bth = Bth::new(0x0a, Qpn::new(1), Psn::new(0));
        let packet = RocePacket {
            bth,
            opcode: Opcode::RcWriteOnly,
            ext: Extensions::default(),
            payload: &[],
        };
        assert_eq!(packet.emit(&mut [0; 64]), None);
    }

    /// A SEND ONLY of the octets behind its header.
    fn send(change: fn(&mut Bth), payload: &[u8]) -> Result<usize, PacketError> {
        let mut bth = Bth::new(0x04, Qpn::new(1), Psn::new(0));
        change(&mut bth);
        let mut buf = [0; 40];
        for (to, from) in buf.iter_mut().zip(bth.emit().iter().chain(payload)) {
            *to = *from;
        }
        let octets = buf.get(..12 + payload.len()).unwrap_or(&[]);
        RocePacket::parse(octets).map(|packet| packet.payload.len())
    }

    /// RNIC-HDR-04, RNIC-HDR-05, RNIC-RSP-01.
    #[test]
    fn malformed_packets_are_refused_by_their_first_error() {
        assert_eq!(send(|_| {}, &[1; 8]), Ok(8));
        assert_eq!(send(|bth| bth.pad = 3, &[1; 8]), Ok(5));
        assert_eq!(send(|bth| bth.migrated = false, &[1; 8]), Ok(8));
        assert_eq!(send(|bth| bth.version = 1, &[]), Err(PacketError::Version));
        assert_eq!(
            send(|bth| bth.pkey = 0x8001, &[]),
            Err(PacketError::Partition)
        );
        assert_eq!(send(|bth| bth.pad = 1, &[]), Err(PacketError::Padding));
        assert_eq!(send(|_| {}, &[1; 7]), Err(PacketError::Padding));
        assert!(matches!(
            send(|bth| bth.code = 0x15, &[]),
            Err(PacketError::Opcode(Bth { code: 0x15, .. }))
        ));
    }
}
