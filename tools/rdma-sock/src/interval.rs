// SPDX-License-Identifier: GPL-2.0

//! Intervals on the command line.

use anyhow::{
    bail,
    Result, //
};
use std::{
    fmt,
    str::FromStr,
    time::Duration, //
};

const SHORTEST: f64 = 0.1;
const LONGEST: f64 = 86400.0;

/// The time between two reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval(f64);

impl Interval {
    /// The interval as a duration.
    pub(crate) fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }
}

impl FromStr for Interval {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse::<f64>() {
            Ok(seconds) if (SHORTEST..=LONGEST).contains(&seconds) => Ok(Self(seconds)),
            _ => bail!("not a number of seconds from {SHORTEST} to {LONGEST}"),
        }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_a_number_of_seconds_in_bounds() {
        let half: Interval = "0.5".parse().unwrap();
        assert_eq!(half.duration(), Duration::from_millis(500));
        assert_eq!("2".parse::<Interval>().unwrap().to_string(), "2");
        for text in ["", "0", "-1", "NaN", "inf", "1e9", "2s"] {
            assert!(text.parse::<Interval>().is_err(), "{text}");
        }
    }
}
