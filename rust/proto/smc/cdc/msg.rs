// SPDX-License-Identifier: GPL-2.0

//! The CDC message, RFC 7609, A.4, figure 41 (CDC-01 to CDC-21).

use crate::proto::smc::{
    cursor,
    wire::AlertToken, //
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

/// Octets of every CDC message (GEN-08).
pub(crate) const LEN: usize = 44;

/// First octet of a CDC message, which distinguishes it from LLC messages (CDC-01, GEN-12).
pub(crate) const TYPE: u8 = 0xfe;

/// Second octet: the length (CDC-02).
const LENGTH: u8 = 44;

/// A cursor on the wire (CDC-05 to CDC-10).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawCursor {
    reserved: [u8; 2],
    wrap: U16,
    offset: U32,
}

/// The octets of a message.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    /// Message type.
    kind: u8,
    /// Length of the message in octets.
    length: u8,
    /// Sequence number.
    seq: U16,
    /// Alert token of the receiver's connection.
    token: U32,
    /// Producer cursor of the sender.
    produced: RawCursor,
    /// Consumer cursor of the sender.
    consumed: RawCursor,
    /// Flags of the sender as a producer: B, P, U, R, F.
    producer_flags: u8,
    /// Flags of the connection's state: D, C, A.
    state_flags: u8,
    /// Zero.
    reserved: [u8; 18],
}

/// The flags of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// B: the sender can write no more and needs a window update (CDC-11).
    pub(crate) blocked: bool,
    /// P: urgent data is pending (CDC-12).
    pub(crate) urgent_pending: bool,
    /// U: urgent data ends at the producer cursor (CDC-13).
    pub(crate) urgent_present: bool,
    /// R: the sender asks for a consumer cursor (CDC-14).
    pub(crate) update_requested: bool,
    /// F: failover validation (CDC-15).
    pub(crate) failover: bool,
    /// D: the sender will write no more (CDC-17).
    pub(crate) done: bool,
    /// C: the sender has closed (CDC-18).
    pub(crate) closed: bool,
    /// A: the sender aborts (CDC-19).
    pub(crate) abort: bool,
}

impl Flags {
    const B: u8 = 0x80;
    const P: u8 = 0x40;
    const U: u8 = 0x20;
    const R: u8 = 0x10;
    const F: u8 = 0x08;
    const D: u8 = 0x80;
    const C: u8 = 0x40;
    const A: u8 = 0x20;

    /// Reads the two octets; reserved bits are ignored (CDC-16, CDC-20, GEN-09).
    const fn from_octets(producer: u8, state: u8) -> Self {
        Self {
            blocked: producer & Self::B != 0,
            urgent_pending: producer & Self::P != 0,
            urgent_present: producer & Self::U != 0,
            update_requested: producer & Self::R != 0,
            failover: producer & Self::F != 0,
            done: state & Self::D != 0,
            closed: state & Self::C != 0,
            abort: state & Self::A != 0,
        }
    }

    /// The two octets.
    pub(super) const fn octets(self) -> [u8; 2] {
        const fn bit(set: bool, mask: u8) -> u8 {
            if set {
                mask
            } else {
                0
            }
        }
        [
            bit(self.blocked, Self::B)
                | bit(self.urgent_pending, Self::P)
                | bit(self.urgent_present, Self::U)
                | bit(self.update_requested, Self::R)
                | bit(self.failover, Self::F),
            bit(self.done, Self::D) | bit(self.closed, Self::C) | bit(self.abort, Self::A),
        ]
    }
}

/// A CDC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Msg {
    /// Number of the message in its connection and direction, from 1 (CDC-03).
    pub(crate) seq: u16,
    /// The connection, by the token its receiver chose (CDC-04).
    pub(crate) token: AlertToken,
    /// Where the sender will write next, in the receiver's element (CDC-06, CDC-07).
    pub(crate) produced: cursor::Wire,
    /// What the sender will read next, in its own element (CDC-09, CDC-10).
    pub(crate) consumed: cursor::Wire,
    /// The flags (CDC-11 to CDC-19).
    pub(crate) flags: Flags,
}

/// Why octets are no CDC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CdcParseError {
    /// There are not 44 of them, or the message says so (CDC-02).
    Length,
    /// The first octet is not that of a CDC message (CDC-01).
    Type,
}

impl Msg {
    /// Reads a message of exactly 44 octets. Cursors are checked by the connection they belong to.
    pub(crate) fn parse(octets: &[u8]) -> Result<Self, CdcParseError> {
        let raw = Raw::ref_from_bytes(octets).map_err(|_| CdcParseError::Length)?;
        if raw.kind != TYPE {
            return Err(CdcParseError::Type);
        }
        if raw.length != LENGTH {
            return Err(CdcParseError::Length);
        }
        Ok(Self {
            seq: raw.seq.get(),
            token: AlertToken::new(raw.token.get()),
            produced: raw.produced.into(),
            consumed: raw.consumed.into(),
            flags: Flags::from_octets(raw.producer_flags, raw.state_flags),
        })
    }

    /// The octets to send.
    pub(crate) fn emit(&self) -> [u8; LEN] {
        let [producer_flags, state_flags] = self.flags.octets();
        let raw = Raw {
            kind: TYPE,
            length: LENGTH,
            seq: U16::new(self.seq),
            token: U32::new(self.token.get()),
            produced: self.produced.into(),
            consumed: self.consumed.into(),
            producer_flags,
            state_flags,
            reserved: [0; 18],
        };
        let mut octets = [0; LEN];
        // Cannot fail: the sizes are equal, as the tests show.
        let _ = raw.write_to(&mut octets);
        octets
    }
}

impl From<RawCursor> for cursor::Wire {
    fn from(raw: RawCursor) -> Self {
        Self {
            wrap: raw.wrap.get(),
            offset: raw.offset.get(),
        }
    }
}

impl From<cursor::Wire> for RawCursor {
    fn from(wire: cursor::Wire) -> Self {
        Self {
            reserved: [0; 2],
            wrap: U16::new(wire.wrap),
            offset: U32::new(wire.offset),
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_cdc_msg))]
mod tests {
    use super::*;

    const TOKEN: AlertToken = AlertToken::new(0xa000_0001);
    const NONE: Flags = Flags::from_octets(0, 0);

    fn msg(seq: u16, produced: (u16, u32), flags: Flags) -> Msg {
        Msg {
            seq,
            token: TOKEN,
            produced: cursor::Wire {
                wrap: produced.0,
                offset: produced.1,
            },
            consumed: cursor::Wire { wrap: 0, offset: 4 },
            flags,
        }
    }

    /// The vectors VEC-20 to VEC-25 have zeroes from octet 26 on.
    fn octets(head: [u8; 26]) -> [u8; LEN] {
        let mut octets = [0; LEN];
        for (to, from) in octets.iter_mut().zip(head) {
            *to = from;
        }
        octets
    }

    fn check(message: Msg, head: [u8; 26]) {
        assert_eq!(message.emit(), octets(head));
        assert_eq!(Msg::parse(&octets(head)), Ok(message));
    }

    // VEC-20, CDC-01, CDC-02, CDC-03, CDC-04, CDC-06, CDC-07, CDC-09, CDC-10, TST-032.
    #[test]
    fn data_message_has_the_octets_of_vec_20() {
        check(
            msg(1, (0, 1004), NONE),
            [
                0xfe, 0x2c, 0, 1, 0xa0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x03, 0xec, 0, 0, 0, 0, 0, 0, 0,
                4, 0, 0,
            ],
        );
    }

    // VEC-21, CDC-11.
    #[test]
    fn full_window_has_the_octets_of_vec_21() {
        let flags = Flags {
            blocked: true,
            ..NONE
        };
        check(
            msg(7, (2, 1004), flags),
            [
                0xfe, 0x2c, 0, 7, 0xa0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0x03, 0xec, 0, 0, 0, 0, 0, 0, 0,
                4, 0x80, 0,
            ],
        );
    }

    // VEC-22, CDC-12, CDC-13.
    #[test]
    fn urgent_message_has_the_octets_of_vec_22() {
        let flags = Flags {
            urgent_pending: true,
            urgent_present: true,
            ..NONE
        };
        check(
            msg(9, (1, 1500), flags),
            [
                0xfe, 0x2c, 0, 9, 0xa0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0x05, 0xdc, 0, 0, 0, 0, 0, 0, 0,
                4, 0x60, 0,
            ],
        );
    }

    // VEC-23, CDC-15.
    #[test]
    fn failover_message_has_the_octets_of_vec_23() {
        let mut message = msg(
            9,
            (0, 0),
            Flags {
                failover: true,
                ..NONE
            },
        );
        message.consumed.offset = 0;
        check(
            message,
            [
                0xfe, 0x2c, 0, 9, 0xa0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0x08, 0,
            ],
        );
    }

    // VEC-24, CDC-17, CDC-18.
    #[test]
    fn close_message_has_the_octets_of_vec_24() {
        let flags = Flags {
            done: true,
            closed: true,
            ..NONE
        };
        check(
            msg(10, (1, 2500), flags),
            [
                0xfe, 0x2c, 0, 0x0a, 0xa0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0x09, 0xc4, 0, 0, 0, 0, 0, 0,
                0, 4, 0, 0xc0,
            ],
        );
    }

    // VEC-25, CDC-19.
    #[test]
    fn abort_message_has_the_octets_of_vec_25() {
        let flags = Flags {
            abort: true,
            ..NONE
        };
        check(
            msg(11, (1, 2500), flags),
            [
                0xfe, 0x2c, 0, 0x0b, 0xa0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0x09, 0xc4, 0, 0, 0, 0, 0, 0,
                0, 4, 0, 0x20,
            ],
        );
    }

    // CDC-11..15, CDC-17..19, TST-032.
    #[test]
    fn every_combination_of_flags_survives() {
        for producer in (0..=0xf8).step_by(8) {
            for state in (0..=0xe0).step_by(32) {
                let flags = Flags::from_octets(producer, state);
                assert_eq!(flags.octets(), [producer, state]);
                let message = msg(1, (0, 4), flags);
                assert_eq!(Msg::parse(&message.emit()), Ok(message));
            }
        }
    }

    // CDC-05, CDC-08, CDC-16, CDC-20, CDC-21, TST-032.
    #[test]
    fn reserved_bits_are_ignored() {
        let plain = msg(3, (1, 77), NONE);
        let mut octets = plain.emit();
        for (at, octet) in octets.iter_mut().enumerate() {
            match at {
                8 | 9 | 16 | 17 | 26.. => *octet = 0xff,
                24 => *octet = 0x07,
                25 => *octet = 0x1f,
                _ => {}
            }
        }
        assert_eq!(Msg::parse(&octets), Ok(plain));
    }

    // GEN-08, CDC-01, CDC-02, TST-149.
    #[test]
    fn other_lengths_and_types_are_refused() {
        let good = msg(1, (0, 4), NONE).emit();
        for len in 0..LEN {
            assert_eq!(
                good.get(..len).map(Msg::parse),
                Some(Err(CdcParseError::Length))
            );
        }
        assert_eq!(Msg::parse(&[0xfe; 45]), Err(CdcParseError::Length));
        for value in 0..=u8::MAX {
            let mut bad = good;
            if let Some(kind) = bad.first_mut() {
                *kind = value;
            }
            assert_eq!(Msg::parse(&bad).is_ok(), value == TYPE);
            let mut bad = good;
            if let Some(length) = bad.get_mut(1) {
                *length = value;
            }
            assert_eq!(Msg::parse(&bad).is_ok(), value == LENGTH);
        }
    }
}
