// SPDX-License-Identifier: GPL-2.0

//! Times of the wall clock, in UTC.

use std::{
    fmt,
    time::{
        Duration,
        SystemTime,
        UNIX_EPOCH, //
    },
};

const SECONDS_OF_A_DAY: u64 = 86400;

/// A time of the wall clock.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Utc(Duration);

impl Utc {
    /// The present time.
    pub(crate) fn now() -> Self {
        Self(
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        )
    }

    /// The time this long before.
    pub(crate) fn before(self, age: Duration) -> Self {
        Self(self.0.saturating_sub(age))
    }

    /// The time of the day with microseconds, like `17:23:11.004711Z`.
    pub(crate) fn time_of_day(self) -> String {
        let second = self.0.as_secs() % SECONDS_OF_A_DAY;
        format!(
            "{:02}:{:02}:{:02}.{:06}Z",
            second / 3600,
            second / 60 % 60,
            second % 60,
            self.0.subsec_micros()
        )
    }

    /// Year, month and day.
    fn date(self) -> (u64, u64, u64) {
        let mut day = self.0.as_secs() / SECONDS_OF_A_DAY;
        let mut year = 1970;
        while day >= days_of_year(year) {
            day -= days_of_year(year);
            year += 1;
        }
        let mut month = 1;
        while day >= days_of_month(year, month) {
            day -= days_of_month(year, month);
            month += 1;
        }
        (year, month, day + 1)
    }
}

/// As RFC 3339 writes it, like `2026-11-25T17:23:11.004711Z`.
impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        write!(f, "{year:04}-{month:02}-{day:02}T{}", self.time_of_day())
    }
}

fn is_leap(year: u64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

fn days_of_year(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_written_as_the_standard_does() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(Utc(Duration::from_secs(seconds)).to_string(), text);
        }
        let time = Utc(Duration::from_micros(4711));
        assert_eq!(time.time_of_day(), "00:00:00.004711Z");
        assert_eq!(time.before(Duration::from_secs(1)), Utc(Duration::ZERO));
    }
}
