// SPDX-License-Identifier: GPL-2.0

//! Counters over some seconds.

use anyhow::Result;
use std::{
    thread,
    time::{
        Duration,
        Instant, //
    },
};

use crate::snapshot::{
    Sources,
    Statistics, //
};

/// Number of intervals between samples, and the shortest one.
const INTERVALS: u32 = 60;
const SHORTEST: Duration = Duration::from_millis(100);

/// Counters at one moment.
pub(super) struct Sample {
    /// Time since the first sample.
    pub(super) at: Duration,
    /// The counters.
    pub(super) statistics: Statistics,
}

/// Several samples, at least two.
pub(super) struct Samples {
    /// The first.
    pub(super) first: Sample,
    /// The others, in their order.
    pub(super) others: Vec<Sample>,
}

impl Samples {
    /// Takes them in this time.
    pub(super) fn take(sources: &Sources, length: Duration) -> Result<Self> {
        let interval = length.checked_div(INTERVALS).unwrap_or_default();
        let interval = interval.max(SHORTEST);
        let start = Instant::now();
        let sample = || -> Result<Sample> {
            Ok(Sample {
                at: start.elapsed(),
                statistics: sources.statistics()?,
            })
        };
        let first = sample()?;
        let mut others = Vec::new();
        loop {
            let left = length.saturating_sub(start.elapsed());
            thread::sleep(interval.min(left));
            others.push(sample()?);
            if start.elapsed() >= length {
                return Ok(Self { first, others });
            }
        }
    }

    /// The last one.
    pub(super) fn last(&self) -> &Sample {
        self.others.last().unwrap_or(&self.first)
    }

    /// The values of a counter by the seconds.
    pub(super) fn values(&self, counter: &str) -> Vec<(f64, f64)> {
        let point = |sample: &Sample| {
            let value = sample.statistics.count(counter);
            (sample.at.as_secs_f64(), value as f64)
        };
        self.all().map(point).collect()
    }

    /// How much the sum of counters grows in a second, by the seconds.
    pub(super) fn rates(&self, counters: &[&str]) -> Vec<(f64, f64)> {
        let sum = |sample: &Sample| -> u64 {
            let counts = counters.iter().map(|name| sample.statistics.count(name));
            counts.fold(0, u64::saturating_add)
        };
        let rate = |(before, after): (&Sample, &Sample)| {
            let seconds = after.at.saturating_sub(before.at).as_secs_f64();
            // A module that was loaded again counts from 0.
            let growth = sum(after).saturating_sub(sum(before)) as f64;
            (seconds > 0.0).then(|| (after.at.as_secs_f64(), growth / seconds))
        };
        self.all()
            .zip(&self.others)
            .filter_map(|(before, after)| rate((before, after)))
            .collect()
    }

    fn all(&self) -> impl Iterator<Item = &Sample> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64, bytes: u64) -> Sample {
        let mut statistics = Statistics::default();
        statistics.counters.insert("tx_bytes".into(), bytes.into());
        statistics.counters.insert("rx_bytes".into(), 1.into());
        Sample {
            at: Duration::from_secs(second),
            statistics,
        }
    }

    #[test]
    fn rate_is_the_growth_in_a_second() {
        let samples = Samples {
            first: sample(0, 100),
            others: vec![sample(2, 300), sample(3, 250), sample(3, 260)],
        };
        let rates = samples.rates(&["tx_bytes", "rx_bytes", "absent"]);
        assert_eq!(rates, [(2.0, 100.0), (3.0, 0.0)]);
        assert_eq!(samples.values("tx_bytes").len(), 4);
        assert_eq!(samples.last().statistics.count("tx_bytes"), 260);
    }

    #[test]
    fn samples_are_taken_to_the_end_of_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let sources = Sources::below(folder.path());
        let samples = Samples::take(&sources, Duration::from_millis(1)).unwrap();
        assert_eq!(samples.others.len(), 1);
        assert!(samples.last().at >= Duration::from_millis(1));
    }
}
