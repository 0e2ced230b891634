// SPDX-License-Identifier: GPL-2.0

//! The base transport header (BTH) and the extension headers behind it (RNIC-HDR-01, RNIC-HDR-02).

use super::aeth::Syndrome;
use crate::proto::base::verbs::{
    Psn,
    Qpn,
    RKey, //
};
use zerocopy::{
    byteorder::network_endian::{
        U16,
        U32,
        U64, //
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

/// Octets of the BTH.
pub(crate) const BTH_LEN: usize = 12;

/// The partition key of RoCE: the default partition, full membership (RNIC-HDR-05).
pub(crate) const DEFAULT_PKEY: u16 = 0xffff;

/// The bit of a partition key that says full membership.
const FULL_MEMBER: u16 = 0x8000;

/// The octets of the BTH.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBth {
    /// Operation, position and companion.
    opcode: u8,
    /// SE b7, MigReq b6, PadCnt b5-4, TVer b3-0.
    flags: u8,
    /// Partition key.
    pkey: U16,
    /// FECN b7, BECN b6, reserved.
    congestion: u8,
    /// Destination queue pair.
    dest_qp: [u8; 3],
    /// AckReq b7, reserved.
    ack_req: u8,
    /// Packet sequence number.
    psn: [u8; 3],
}

/// The base transport header (RNIC-HDR-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bth {
    /// Code of the operation, defined or not.
    pub(crate) code: u8,
    /// SE: the receiver is asked for a solicited completion (RNIC-HDR-06).
    pub(crate) solicited: bool,
    /// MigReq: 1 on all packets of this device; ignored on reception (RNIC-HDR-05).
    pub(crate) migrated: bool,
    /// Octets of padding behind the payload, 0 to 3 (RNIC-HDR-04).
    pub(crate) pad: u8,
    /// Version of the transport; 0 is the only one (RNIC-HDR-05).
    pub(crate) version: u8,
    /// Partition key.
    pub(crate) pkey: u16,
    /// FECN: a switch saw congestion.
    pub(crate) fecn: bool,
    /// BECN: the receiver of this packet is asked to slow down.
    pub(crate) becn: bool,
    /// Queue pair that the packet is for.
    pub(crate) dest_qp: Qpn,
    /// AckReq: the responder is asked to acknowledge.
    pub(crate) ack_req: bool,
    /// Sequence number.
    pub(crate) psn: Psn,
}

impl Bth {
    /// A header as this device sends it, with every flag off (RNIC-HDR-05).
    pub(crate) const fn new(code: u8, dest_qp: Qpn, psn: Psn) -> Self {
        Self {
            code,
            solicited: false,
            migrated: true,
            pad: 0,
            version: 0,
            pkey: DEFAULT_PKEY,
            fecn: false,
            becn: false,
            dest_qp,
            ack_req: false,
            psn,
        }
    }

    /// Splits the header off the front of `octets`; `None` if they are too few. Reserved bits are
    /// ignored.
    pub(crate) fn parse(octets: &[u8]) -> Option<(Self, &[u8])> {
        let (raw, rest) = RawBth::ref_from_prefix(octets).ok()?;
        let bth = Self {
            code: raw.opcode,
            solicited: raw.flags & 0x80 != 0,
            migrated: raw.flags & 0x40 != 0,
            pad: (raw.flags >> 4) & 3,
            version: raw.flags & 0x0f,
            pkey: raw.pkey.get(),
            fecn: raw.congestion & 0x80 != 0,
            becn: raw.congestion & 0x40 != 0,
            dest_qp: Qpn::from_octets(raw.dest_qp),
            ack_req: raw.ack_req & 0x80 != 0,
            psn: Psn::from_octets(raw.psn),
        };
        Some((bth, rest))
    }

    /// The octets to send. Bits of `pad` and `version` that do not fit are dropped.
    pub(crate) fn emit(&self) -> [u8; BTH_LEN] {
        const fn bit(set: bool, mask: u8) -> u8 {
            if set {
                mask
            } else {
                0
            }
        }
        let raw = RawBth {
            opcode: self.code,
            flags: bit(self.solicited, 0x80)
                | bit(self.migrated, 0x40)
                | ((self.pad & 3) << 4)
                | (self.version & 0x0f),
            pkey: U16::new(self.pkey),
            congestion: bit(self.fecn, 0x80) | bit(self.becn, 0x40),
            dest_qp: self.dest_qp.octets(),
            ack_req: bit(self.ack_req, 0x80),
            psn: self.psn.octets(),
        };
        let mut octets = [0; BTH_LEN];
        // Cannot fail: the sizes are equal, as the tests show.
        let _ = raw.write_to(&mut octets);
        octets
    }

    /// Whether the partition key is the default one, with full membership on at least one side
    /// (RNIC-HDR-05). This side is a full member.
    pub(crate) const fn is_of_partition(&self) -> bool {
        self.pkey | FULL_MEMBER == DEFAULT_PKEY
    }
}

/// Range of the responder's memory (RETH).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reth {
    /// Virtual address of the first octet.
    pub(crate) vaddr: u64,
    /// Key of the memory region or window.
    pub(crate) rkey: RKey,
    /// Length of the whole message in octets.
    pub(crate) len: u32,
}

/// Operands of an atomic operation (AtomicETH).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtomicEth {
    /// Virtual address of the word.
    pub(crate) vaddr: u64,
    /// Key of the memory region or window.
    pub(crate) rkey: RKey,
    /// The new value of CMP SWAP, or the number that FETCH ADD adds.
    pub(crate) swap_add: u64,
    /// The value that CMP SWAP compares with.
    pub(crate) compare: u64,
}

/// Acknowledgement (AETH).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aeth {
    /// The syndrome octet; `None` if it is reserved (RNIC-FLOW-01).
    pub(crate) syndrome: Option<Syndrome>,
    /// Messages that the responder completed, 24 bits.
    pub(crate) msn: u32,
}

/// Datagram header (DETH).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deth {
    /// Key of the destination queue pair.
    pub(crate) qkey: u32,
    /// Queue pair that sent the datagram.
    pub(crate) src_qp: Qpn,
}

/// Scope of a FLUSH (FETH, annex A19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Feth {
    /// Placement types, 4 bits: [`Feth::GLOBAL`], [`Feth::PERSISTENT`].
    pub(crate) placement: u8,
    /// Selectivity level, 2 bits: [`Feth::RANGE`] or [`Feth::REGION`].
    pub(crate) level: u8,
}

impl Feth {
    /// Placement type: globally visible.
    pub(crate) const GLOBAL: u8 = 1;
    /// Placement type: persistent.
    pub(crate) const PERSISTENT: u8 = 2;
    /// The highest number of placement types.
    pub(crate) const MAX_PLACEMENT: u8 = 0xf;
    /// The highest level that the header has room for.
    pub(crate) const MAX_LEVEL: u8 = 3;
    /// Level: the range of the RETH.
    pub(crate) const RANGE: u8 = 0;
    /// Level: the whole memory region.
    pub(crate) const REGION: u8 = 1;
}

/// A header with a fixed number of octets.
pub(crate) trait ExtensionHeader: Sized {
    /// Splits the header off the front of `octets`; `None` if they are too few.
    fn take(octets: &[u8]) -> Option<(Self, &[u8])>;

    /// Writes the header at the front of `octets` and returns the rest; `None` without room.
    fn put<'a>(&self, octets: &'a mut [u8]) -> Option<&'a mut [u8]>;
}

/// Implements [`ExtensionHeader`] by the octets of a raw struct.
macro_rules! extension {
    ($name:ty, $raw:ident, |$from:ident| $parse:expr, |$to:ident| $emit:expr) => {
        impl ExtensionHeader for $name {
            fn take(octets: &[u8]) -> Option<(Self, &[u8])> {
                let ($from, rest) = $raw::ref_from_prefix(octets).ok()?;
                Some(($parse, rest))
            }

            fn put<'a>(&self, octets: &'a mut [u8]) -> Option<&'a mut [u8]> {
                let $to = self;
                let (room, rest) = $raw::mut_from_prefix(octets).ok()?;
                *room = $emit;
                Some(rest)
            }
        }
    };
}

/// The octets of a RETH.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawReth {
    vaddr: U64,
    rkey: U32,
    len: U32,
}

extension!(
    Reth,
    RawReth,
    |raw| Self {
        vaddr: raw.vaddr.get(),
        rkey: RKey::new(raw.rkey.get()),
        len: raw.len.get(),
    },
    |reth| RawReth {
        vaddr: U64::new(reth.vaddr),
        rkey: U32::new(reth.rkey.get()),
        len: U32::new(reth.len),
    }
);

/// The octets of an AtomicETH.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAtomicEth {
    vaddr: U64,
    rkey: U32,
    swap_add: U64,
    compare: U64,
}

extension!(
    AtomicEth,
    RawAtomicEth,
    |raw| Self {
        vaddr: raw.vaddr.get(),
        rkey: RKey::new(raw.rkey.get()),
        swap_add: raw.swap_add.get(),
        compare: raw.compare.get(),
    },
    |atomic| RawAtomicEth {
        vaddr: U64::new(atomic.vaddr),
        rkey: U32::new(atomic.rkey.get()),
        swap_add: U64::new(atomic.swap_add),
        compare: U64::new(atomic.compare),
    }
);

/// The octets of an AETH.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAeth {
    syndrome: u8,
    msn: [u8; 3],
}

/// A syndrome that no decoder accepts, for an AETH without one.
const RESERVED_SYNDROME: u8 = 0x7f;

extension!(
    Aeth,
    RawAeth,
    |raw| Self {
        syndrome: Syndrome::from_octet(raw.syndrome),
        msn: Psn::from_octets(raw.msn).get(),
    },
    |aeth| RawAeth {
        syndrome: aeth.syndrome.map_or(RESERVED_SYNDROME, Syndrome::octet),
        msn: Psn::new(aeth.msn).octets(),
    }
);

/// The octets of a DETH.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDeth {
    qkey: U32,
    reserved: u8,
    src_qp: [u8; 3],
}

extension!(
    Deth,
    RawDeth,
    |raw| Self {
        qkey: raw.qkey.get(),
        src_qp: Qpn::from_octets(raw.src_qp),
    },
    |deth| RawDeth {
        qkey: U32::new(deth.qkey),
        reserved: 0,
        src_qp: deth.src_qp.octets(),
    }
);

/// The octets of a FETH: level b5-4 and placement b3-0 of the last one.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawFeth {
    reserved: [u8; 3],
    scope: u8,
}

extension!(
    Feth,
    RawFeth,
    |raw| Self {
        placement: raw.scope & 0x0f,
        level: (raw.scope >> 4) & 3,
    },
    |feth| RawFeth {
        reserved: [0; 3],
        scope: ((feth.level & 3) << 4) | (feth.placement & 0x0f),
    }
);

/// The octets of an ImmDt or IETH.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawWord([u8; 4]);

// Immediate data is passed on as it is (RNIC-REQ-13).
extension!([u8; 4], RawWord, |raw| raw.0, |word| RawWord(*word));

extension!(
    RKey,
    RawWord,
    |raw| RKey::new(u32::from_be_bytes(raw.0)),
    |key| RawWord(key.get().to_be_bytes())
);

/// The octets of an AtomicAckETH.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawOriginal(U64);

extension!(u64, RawOriginal, |raw| raw.0.get(), |value| RawOriginal(
    U64::new(*value)
));

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_header))]
mod tests {
    use super::*;

    /// RNIC-HDR-01.
    #[test]
    fn bth_with_every_flag_has_the_octets_of_the_standard() {
        let bth = Bth {
            code: 0x05,
            solicited: true,
            migrated: true,
            pad: 3,
            version: 0,
            pkey: 0x1234,
            fecn: true,
            becn: true,
            dest_qp: Qpn::new(0x01_0203),
            ack_req: true,
            psn: Psn::new(0x0a_0b0c),
        };
        let octets = [
            0x05, 0xf0, 0x12, 0x34, 0xc0, 1, 2, 3, 0x80, 0x0a, 0x0b, 0x0c,
        ];
        assert_eq!(bth.emit(), octets);
        assert_eq!(Bth::parse(&octets), Some((bth, &[][..])));
    }

    /// RNIC-HDR-05.
    #[test]
    fn reserved_bits_of_bth_are_ignored() {
        let plain = Bth::new(0x04, Qpn::new(7), Psn::new(9));
        let mut octets = plain.emit();
        octets[4] |= 0x3f;
        octets[8] |= 0x7f;
        assert_eq!(Bth::parse(&octets), Some((plain, &[][..])));
        assert_eq!(plain.emit()[1], 0x40);
    }

    /// RNIC-HDR-07.
    #[test]
    fn bth_with_too_few_octets_is_refused() {
        let octets = [0; BTH_LEN];
        for len in 0..BTH_LEN {
            assert!(octets.get(..len).and_then(Bth::parse).is_none());
        }
    }

    /// RNIC-HDR-05.
    #[test]
    fn partition_is_matched_by_its_low_bits() {
        let mut bth = Bth::new(0x04, Qpn::new(7), Psn::new(9));
        for (pkey, ours) in [(0xffff, true), (0x7fff, true), (0xfffe, false), (0, false)] {
            bth.pkey = pkey;
            assert_eq!(bth.is_of_partition(), ours);
        }
    }

    /// Emits a header, compares its octets, and parses them with two octets behind.
    fn check<H: ExtensionHeader + PartialEq, const N: usize>(header: H, expected: [u8; N]) {
        let mut room = [0xee; 40];
        assert_eq!(header.put(&mut room).map(|rest| rest.len()), Some(40 - N));
        assert_eq!(room.get(..N), Some(&expected[..]));
        assert_eq!(room.get(N), Some(&0xee));
        assert!(
            H::take(&room).is_some_and(|(parsed, rest)| parsed == header && rest.len() == 40 - N)
        );
        for len in 0..N {
            assert!(expected.get(..len).and_then(H::take).is_none());
            let mut short = [0; 40];
            assert!(short
                .get_mut(..len)
                .and_then(|room| header.put(room))
                .is_none());
        }
    }

    /// RNIC-HDR-02.
    #[test]
    fn extension_headers_have_the_octets_of_the_standard() {
        check(
            Reth {
                vaddr: 0x1122_3344_5566_7788,
                rkey: RKey::new(0x0a01),
                len: 16,
            },
            [
                0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0x0a, 0x01, 0, 0, 0, 16,
            ],
        );
        check(
            AtomicEth {
                vaddr: 8,
                rkey: RKey::new(0x0102_0304),
                swap_add: 5,
                compare: 6,
            },
            [
                0, 0, 0, 0, 0, 0, 0, 8, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6,
            ],
        );
        check(
            Aeth {
                syndrome: Some(Syndrome::ACK),
                msn: 0x01_0203,
            },
            [0x1f, 1, 2, 3],
        );
        check(
            Aeth {
                syndrome: None,
                msn: 1,
            },
            [0x7f, 0, 0, 1],
        );
        check(
            Deth {
                qkey: 0x8001_0000,
                src_qp: Qpn::new(1),
            },
            [0x80, 1, 0, 0, 0, 0, 0, 1],
        );
        check(
            Feth {
                placement: Feth::GLOBAL,
                level: Feth::REGION,
            },
            [0, 0, 0, 0x11],
        );
        check([1_u8, 2, 3, 4], [1, 2, 3, 4]);
        check(RKey::new(0x0102_0304), [1, 2, 3, 4]);
        check(0x0102_0304_0506_0708_u64, [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
