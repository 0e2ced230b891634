// SPDX-License-Identifier: GPL-2.0

//! The syndrome of an acknowledgement: credits, RNR times and NAK codes (RNIC-FLOW-01).

use crate::proto::base::time::Duration;

/// Waiting times of the RNR codes, in microseconds (RNIC-FLOW-04).
const RNR_MICROS: [u32; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840,
    5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840,
    245_760, 327_680, 491_520,
];

/// Receive credits of the codes below 31 (RNIC-FLOW-03).
const CREDITS: [u16; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536,
    2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768,
];

/// The time that a responder asks a requester to wait for a receive buffer: a code of 5 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RnrTimer(u8);

impl RnrTimer {
    /// The longest time, which has code 0.
    pub(crate) const LONGEST: Self = Self(0);

    /// Makes one of a code; `None` above 31.
    pub(crate) const fn new(code: u8) -> Option<Self> {
        if code < 32 {
            Some(Self(code))
        } else {
            None
        }
    }

    /// The code.
    pub(crate) const fn code(self) -> u8 {
        self.0
    }

    /// The time (RNIC-FLOW-04).
    pub(crate) fn duration(self) -> Duration {
        let micros = RNR_MICROS.get(usize::from(self.0)).copied();
        // Cannot be absent: the code is below 32.
        Duration::from_micros(u64::from(micros.unwrap_or_default()))
    }
}

/// The receive credits that a responder reports: a code of 5 bits (RNIC-FLOW-02, RNIC-FLOW-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credits(u8);

impl Credits {
    /// No limit, which this device always reports (RNIC-FLOW-02).
    pub(crate) const UNLIMITED: Self = Self(31);

    /// The number of messages beyond the MSN, `None` without a limit.
    pub(crate) fn limit(self) -> Option<u16> {
        CREDITS.get(usize::from(self.0)).copied()
    }
}

/// Defines the NAK codes and the functions between number, name and meaning.
macro_rules! nak_codes {
    ($($(#[$doc:meta])* $variant:ident $code:literal $name:literal;)*) => {
        /// Why a responder refuses a request (RNIC-FLOW-01, RNIC-GEN-06).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum NakCode {
            $($(#[$doc])* $variant,)*
        }

        impl NakCode {
            /// All codes.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Decodes the number in the syndrome; `None` for a reserved one.
            pub(crate) const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The number in the syndrome.
            pub(crate) const fn code(self) -> u8 {
                match self {
                    $(Self::$variant => $code,)*
                }
            }

            /// The name, for logs and counters.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

nak_codes! {
    /// A packet is missing.
    Sequence 0 "PSN sequence error";
    /// The request is not one that the queue pair can execute.
    InvalidRequest 1 "invalid request";
    /// Key, rights or range do not permit the request.
    RemoteAccess 2 "remote access error";
    /// The responder cannot complete the request.
    RemoteOperational 3 "remote operational error";
}

/// NAKs by their codes, for statistics (RNIC-STAT-01).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NakCounts {
    /// A packet is missing.
    pub(crate) sequence: u64,
    /// Invalid requests.
    pub(crate) invalid: u64,
    /// Access that is not permitted.
    pub(crate) access: u64,
    /// Requests that could not be completed.
    pub(crate) operational: u64,
}

impl NakCounts {
    /// Counts one.
    pub(crate) fn count(&mut self, code: NakCode) {
        let number = match code {
            NakCode::Sequence => &mut self.sequence,
            NakCode::InvalidRequest => &mut self.invalid,
            NakCode::RemoteAccess => &mut self.access,
            NakCode::RemoteOperational => &mut self.operational,
        };
        *number = number.wrapping_add(1);
    }
}

/// The syndrome of an AETH (RNIC-FLOW-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syndrome {
    /// Positive acknowledgement.
    Ack(Credits),
    /// The receiver has no receive buffer.
    RnrNak(RnrTimer),
    /// Negative acknowledgement.
    Nak(NakCode),
}

impl Syndrome {
    /// Positive acknowledgement without a limit of credits.
    pub(crate) const ACK: Self = Self::Ack(Credits::UNLIMITED);

    /// The high bits of a positive acknowledgement.
    const ACKS: u8 = 0x00;
    /// The high bits of an RNR NAK.
    const RNR_NAKS: u8 = 0x20;
    /// The high bits of a NAK.
    const NAKS: u8 = 0x60;

    /// Decodes the octet; `None` for a reserved value.
    pub(crate) const fn from_octet(octet: u8) -> Option<Self> {
        let value = octet & 0x1f;
        match octet & 0xe0 {
            Self::ACKS => Some(Self::Ack(Credits(value))),
            Self::RNR_NAKS => Some(Self::RnrNak(RnrTimer(value))),
            Self::NAKS => match NakCode::from_code(value) {
                Some(code) => Some(Self::Nak(code)),
                None => None,
            },
            _ => None,
        }
    }

    /// The octet.
    pub(crate) const fn octet(self) -> u8 {
        match self {
            Self::Ack(credits) => Self::ACKS | credits.0,
            Self::RnrNak(timer) => Self::RNR_NAKS | timer.0,
            Self::Nak(code) => Self::NAKS | code.code(),
        }
    }

    /// The name, for logs and counters.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ack(_) => "acknowledgement",
            Self::RnrNak(_) => "receiver not ready",
            Self::Nak(code) => code.name(),
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_aeth))]
mod tests {
    use super::*;

    /// RNIC-FLOW-01, RNIC-GEN-06.
    #[test]
    fn every_syndrome_survives_and_reserved_ones_are_refused() {
        for octet in 0..=u8::MAX {
            let defined = matches!(octet, 0x00..=0x3f | 0x60..=0x63);
            match Syndrome::from_octet(octet) {
                Some(syndrome) => {
                    assert!(defined);
                    assert_eq!(syndrome.octet(), octet);
                    assert_eq!(
                        syndrome.name(),
                        match octet {
                            0x00..=0x1f => "acknowledgement",
                            0x20..=0x3f => "receiver not ready",
                            0x60 => "PSN sequence error",
                            0x61 => "invalid request",
                            0x62 => "remote access error",
                            _ => "remote operational error",
                        }
                    );
                }
                None => assert!(!defined),
            }
        }
        assert_eq!(Syndrome::ACK.octet(), 0x1f);
        assert_eq!(Syndrome::Nak(NakCode::Sequence).octet(), 0x60);
        assert_eq!(Syndrome::Nak(NakCode::RemoteOperational).octet(), 0x63);
    }

    /// RNIC-GEN-06.
    #[test]
    fn each_nak_code_has_a_number_and_a_name_of_its_own() {
        let mut count = 0;
        for number in 0..=u8::MAX {
            let Some(code) = NakCode::from_code(number) else {
                continue;
            };
            assert_eq!(code.code(), number);
            assert_eq!(
                Syndrome::from_octet(0x60 | number),
                Some(Syndrome::Nak(code))
            );
            let same = |other: &&NakCode| other.name() == code.name();
            assert_eq!(NakCode::ALL.iter().filter(same).count(), 1);
            count += 1;
        }
        assert_eq!(count, NakCode::ALL.len());
    }

    /// RNIC-FLOW-04.
    #[test]
    fn rnr_time_of_code_zero_is_the_longest() {
        let time = |code| RnrTimer::new(code).map(RnrTimer::duration);
        assert_eq!(time(0), Some(Duration::from_micros(655_360)));
        assert_eq!(time(1), Some(Duration::from_micros(10)));
        assert_eq!(time(14), Some(Duration::from_micros(1_280)));
        assert_eq!(time(31), Some(Duration::from_micros(491_520)));
        assert_eq!(time(32), None);
        for code in 2..32 {
            assert!(time(code) > time(code - 1));
        }
    }

    /// RNIC-FLOW-02, RNIC-FLOW-03.
    #[test]
    fn credit_code_31_has_no_limit() {
        assert_eq!(Credits::UNLIMITED.limit(), None);
        assert_eq!(Credits(0).limit(), Some(0));
        assert_eq!(Credits(5).limit(), Some(6));
        assert_eq!(Credits(30).limit(), Some(32_768));
    }
}
