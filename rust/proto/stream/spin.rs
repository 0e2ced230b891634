// SPDX-License-Identifier: GPL-2.0

//! How long a call that waits for the peer spins before it sleeps.
//!
//! A program that sleeps until a device has brought an answer often takes longer to wake than the answer took
//! to come. So a wait behind short ones spins first, as a virtual processor does that halts. A spin helps if
//! what the call waits for comes sooner than it does to calls that sleep. Where a spin is in vain, the next
//! short waits sleep at once, and the more of them the less often spins help.

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

/// What a spin in vain adds to the doubt. One that helps takes 1 off, so that of three spins two have to.
const MISS: u8 = 2;

/// The most doubt.
const MOST_DOUBT: u8 = 6;

/// Short waits that sleep, so that spins can be compared with them: those at first, and after each
/// 256 spins that help.
const SAMPLES: u8 = 4;

/// What the last waits of a connection, in one direction, were like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spin {
    /// The logarithm of the waits that sleep after a spin in vain, at most [`MOST_DOUBT`].
    doubt: u8,
    /// Short waits to come before a wait spins.
    rests: u8,
    /// Spins that helped, one behind the other.
    run: u8,
    /// Mean time of the last short waits that slept, in nanoseconds. 0 before the first.
    mean: u32,
}

impl Spin {
    /// That of a connection that has not waited yet.
    pub(crate) const fn new() -> Self {
        Self {
            doubt: 0,
            rests: SAMPLES,
            run: 0,
            mean: 0,
        }
    }

    /// How long a wait spins of the time `most` that an administrator allows.
    pub(crate) fn limit(self, most: Duration) -> Duration {
        match self.rests {
            0 => most,
            _ => Duration::ZERO,
        }
    }

    /// After a wait of `time` that was over while it spun. The spin helps if waits that sleep take longer, by an
    /// eighth at least.
    pub(crate) fn hit(self, time: Duration) -> Self {
        let longest = u64::from(self.mean.saturating_sub(self.mean / 8));
        if time.as_nanos() > longest {
            return self.miss();
        }
        let run = self.run.wrapping_add(1);
        Self {
            doubt: self.doubt.saturating_sub(1),
            rests: if run == 0 { SAMPLES } else { 0 },
            run,
            ..self
        }
    }

    /// After a spin that time, a signal or another task ended, behind which the call sleeps.
    pub(crate) fn miss(self) -> Self {
        let doubt = self.doubt.saturating_add(MISS).min(MOST_DOUBT);
        Self {
            doubt,
            rests: 1u8.checked_shl(doubt.into()).unwrap_or(u8::MAX),
            run: 0,
            ..self
        }
    }

    /// After a wait of `time` that slept at once, with the time to wake.
    pub(crate) fn slept(self, time: Duration, most: Duration) -> Self {
        if time > most {
            return self;
        }
        let nanos = u32::try_from(time.as_nanos()).unwrap_or(u32::MAX);
        let mean = match self.mean {
            0 => nanos,
            mean => mean.saturating_sub(mean / 4).saturating_add(nanos / 4),
        };
        Self {
            rests: self.rests.saturating_sub(1),
            mean,
            ..self
        }
    }

    /// One that [`Self::code`] made.
    pub(crate) const fn of_code(code: i64) -> Self {
        let [_, doubt, rests, run, mean @ ..] = code.to_be_bytes();
        Self {
            doubt,
            rests,
            run,
            mean: u32::from_be_bytes(mean),
        }
    }

    /// All of it in a number.
    pub(crate) const fn code(self) -> i64 {
        let [a, b, c, d] = self.mean.to_be_bytes();
        i64::from_be_bytes([0, self.doubt, self.rests, self.run, a, b, c, d])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_micros(50);
    const LONG: Duration = Duration::from_micros(51);
    /// Of waits that sleep, and of spins that are shorter by an eighth, and by less.
    const SHORT: Duration = Duration::from_micros(40);
    const SOON: Duration = Duration::from_micros(35);
    const NOT_SOON: Duration = Duration::from_micros(36);

    fn spins(spin: Spin) -> bool {
        spin.limit(MOST) == MOST
    }

    /// The number of waits of [`SHORT`] until one spins.
    fn rests(spin: &mut Spin) -> u32 {
        let mut count = 0;
        while !spins(*spin) {
            assert_eq!(spin.limit(MOST), Duration::ZERO);
            *spin = spin.slept(SHORT, MOST);
            count += 1;
        }
        count
    }

    /// That of a connection whose next wait spins, behind waits of [`SHORT`].
    fn settled() -> Spin {
        let mut spin = Spin::new();
        rests(&mut spin);
        spin
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
    fn first_waits_sleep() {
        assert_eq!(rests(&mut Spin::new()), u32::from(SAMPLES));
    }

    #[test]
    fn long_wait_changes_nothing() {
        assert_eq!(Spin::new().slept(LONG, MOST), Spin::new());
    }

    #[test]
    fn wait_where_no_time_is_allowed_changes_nothing() {
        assert_eq!(Spin::new().slept(SHORT, Duration::ZERO), Spin::new());
        assert_eq!(settled().limit(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn run_of_spins_ends_with_waits_that_sleep() {
        let mut spin = settled();
        for _ in 0..10 {
            for _ in 0..256 {
                assert!(spins(spin));
                spin = spin.hit(SOON);
            }
            assert_eq!(rests(&mut spin), u32::from(SAMPLES));
        }
    }

    #[test]
    fn spins_in_vain_make_more_and_more_waits_sleep() {
        for in_vain in [Spin::miss, |spin: Spin| spin.hit(NOT_SOON)] {
            let mut spin = settled();
            for expected in [4, 16, 64, 64] {
                spin = in_vain(spin);
                assert_eq!(rests(&mut spin), expected);
            }
        }
    }

    #[test]
    fn spins_that_help_two_of_three_times_go_on() {
        let mut spin = settled();
        for _ in 0..100 {
            spin = spin.miss().hit(SOON).hit(SOON);
        }
        assert_eq!(spin.doubt, 0);
        for _ in 0..100 {
            spin = spin.miss().hit(SOON);
        }
        assert!(rests(&mut spin.miss()) > 30);
    }

    #[test]
    fn spin_is_compared_with_the_last_waits_that_slept() {
        // An exchange that takes a tenth of the time.
        let fast = |time: Duration| Duration::from_nanos(time.as_nanos() / 10);
        let mut spin = settled().hit(fast(NOT_SOON)).miss();
        for _ in 0..40 {
            spin = spin.slept(fast(SHORT), MOST);
        }
        assert_eq!(spin.hit(fast(NOT_SOON)).rests, spin.miss().rests);
        assert_eq!(spin.hit(fast(SOON)).rests, 0);
    }

    #[test]
    fn code_round_trip_is_equal() {
        let mut spin = settled();
        for _ in 0..9 {
            assert_eq!(Spin::of_code(spin.code()), spin);
            spin = spin.hit(SOON).miss().slept(SHORT, MOST).hit(SOON);
        }
    }
}
