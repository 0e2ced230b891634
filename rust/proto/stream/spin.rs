// SPDX-License-Identifier: GPL-2.0

//! How long a call that waits for the peer spins before it sleeps.
//!
//! A program that sleeps until a device has brought an answer often takes longer to wake than the answer took
//! to come. So a wait behind a short one spins first, as a virtual processor does that halts. Where a spin is
//! in vain, the next short waits sleep at once, and the more of them the less often spins succeed.

use crate::proto::base::time::Duration;

/// Microseconds that a call may spin before it sleeps.
pub(crate) struct SpinLimit;

impl SpinLimit {
    /// Unless an administrator says otherwise. It covers an exchange with a near host.
    pub(crate) const DEFAULT: i32 = 100;
    /// The most.
    pub(crate) const MOST: i32 = 10_000;

    /// The span of a number of microseconds.
    pub(crate) fn span(micros: i32) -> Duration {
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// Reads a decimal number, which white space may surround. `None` for other text, and beyond [`Self::MOST`].
    pub(crate) fn from_text(text: &[u8]) -> Option<i32> {
        let text = text.trim_ascii();
        if text.is_empty() {
            return None;
        }
        text.iter().try_fold(0i32, |number, octet| {
            let digit = char::from(*octet).to_digit(10)?;
            let digit = i32::try_from(digit).ok()?;
            let number = number.checked_mul(10)?.checked_add(digit)?;
            (number <= Self::MOST).then_some(number)
        })
    }
}

/// What a spin in vain adds to the doubt. One that succeeds takes 1 off, so that of three spins two have to.
const MISS: u8 = 2;

/// The most doubt.
const MOST_DOUBT: u8 = 6;

/// What the last waits of a connection, in one direction, were like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spin {
    /// The logarithm of the waits that sleep after a spin in vain, at most [`MOST_DOUBT`].
    doubt: u8,
    /// Short waits to come before a wait spins.
    rests: u8,
}

impl Spin {
    /// That of a connection that has not waited yet. Its first wait sleeps.
    pub(crate) const fn new() -> Self {
        Self { doubt: 0, rests: 1 }
    }

    /// How long a wait spins of the time `most` that an administrator allows.
    pub(crate) fn limit(self, most: Duration) -> Duration {
        match self.rests {
            0 => most,
            _ => Duration::ZERO,
        }
    }

    /// After a wait that was over while it spun.
    pub(crate) fn hit(self) -> Self {
        Self {
            doubt: self.doubt.saturating_sub(1),
            rests: 0,
        }
    }

    /// After a spin for all of its time, behind which the call sleeps.
    pub(crate) fn miss(self) -> Self {
        let doubt = self.doubt.saturating_add(MISS).min(MOST_DOUBT);
        Self {
            doubt,
            rests: 1u8.checked_shl(doubt.into()).unwrap_or(u8::MAX),
        }
    }

    /// After a wait of `time` that slept at once, with the time to wake.
    pub(crate) fn slept(self, time: Duration, most: Duration) -> Self {
        let short = u8::from(time <= most);
        Self {
            rests: self.rests.saturating_sub(short),
            ..self
        }
    }

    /// One that [`Self::code`] made.
    pub(crate) const fn of_code(code: i32) -> Self {
        let [_, _, doubt, rests] = code.to_be_bytes();
        Self { doubt, rests }
    }

    /// All of it in a number.
    pub(crate) const fn code(self) -> i32 {
        i32::from_be_bytes([0, 0, self.doubt, self.rests])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_micros(50);
    const SHORT: Duration = Duration::from_micros(50);
    const LONG: Duration = Duration::from_micros(51);

    fn spins(spin: Spin) -> bool {
        spin.limit(MOST) == MOST
    }

    /// The number of short waits until one spins.
    fn rests(mut spin: Spin) -> u32 {
        let mut count = 0;
        while !spins(spin) {
            assert_eq!(spin.limit(MOST), Duration::ZERO);
            spin = spin.slept(SHORT, MOST);
            count += 1;
        }
        count
    }

    #[test]
    fn limit_is_a_decimal_number() {
        for (text, expected) in [
            ("0", Some(0)),
            (" 50\n", Some(50)),
            ("0010000", Some(10_000)),
            ("10001", None),
            ("99999999999", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1 2", None),
            ("0x10", None),
        ] {
            assert_eq!(SpinLimit::from_text(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn first_wait_sleeps() {
        assert!(!spins(Spin::new()));
    }

    #[test]
    fn wait_behind_short_one_spins() {
        assert!(spins(Spin::new().slept(SHORT, MOST)));
    }

    #[test]
    fn wait_behind_long_one_sleeps() {
        assert!(!spins(Spin::new().slept(LONG, MOST)));
    }

    #[test]
    fn long_wait_of_one_that_spins_changes_nothing() {
        // Another task wanted the processor, so the wait did not spin for all of its time.
        let spin = Spin::new().hit();
        assert_eq!(spin.slept(LONG, MOST), spin);
    }

    #[test]
    fn spins_in_vain_make_more_and_more_waits_sleep() {
        let mut spin = Spin::new();
        for expected in [4, 16, 64, 64] {
            spin = spin.miss();
            assert_eq!(rests(spin), expected);
        }
    }

    #[test]
    fn spins_that_succeed_two_of_three_times_go_on() {
        let mut spin = Spin::new();
        for _ in 0..100 {
            spin = spin.miss().hit().hit();
        }
        assert_eq!(spin.doubt, 0);
        for _ in 0..100 {
            spin = spin.miss().hit();
        }
        assert!(rests(spin.miss()) > 30);
    }

    #[test]
    fn no_time_allowed_never_spins() {
        let spin = Spin::new().hit();
        assert_eq!(spin.limit(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn code_round_trip_is_equal() {
        let mut spin = Spin::new();
        for _ in 0..9 {
            assert_eq!(Spin::of_code(spin.code()), spin);
            spin = spin.miss();
        }
    }
}
