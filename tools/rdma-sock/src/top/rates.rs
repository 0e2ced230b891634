// SPDX-License-Identifier: GPL-2.0

//! Rates from the counters of two snapshots.

use std::{
    collections::HashMap,
    hash::Hash,
    time::Duration, //
};

/// The last value of each counter.
#[derive(Debug)]
pub(super) struct Rates<K> {
    before: HashMap<K, u64>,
    now: HashMap<K, u64>,
    elapsed: Option<Duration>,
}

impl<K: Eq + Hash> Rates<K> {
    /// Makes a table without counters.
    pub(super) fn new() -> Self {
        Self {
            before: HashMap::new(),
            now: HashMap::new(),
            elapsed: None,
        }
    }

    /// Begins a round, this long after the last one. Counters that the last round did not have are
    /// forgotten.
    pub(super) fn begin(&mut self, elapsed: Option<Duration>) {
        self.before = std::mem::take(&mut self.now);
        self.elapsed = elapsed;
    }

    /// Notes the value of a counter; its rate in bytes per second.
    ///
    /// The rate is 0 in its first round, and after a reset of the counter.
    pub(super) fn note(&mut self, key: K, value: u64) -> u64 {
        let rate = match (self.before.get(&key), self.elapsed) {
            (Some(before), Some(elapsed)) if !elapsed.is_zero() => {
                value.saturating_sub(*before) as f64 / elapsed.as_secs_f64()
            }
            _ => 0.0,
        };
        self.now.insert(key, value);
        rate as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Option<Duration> = Some(Duration::from_millis(500));

    #[test]
    fn rate_is_the_growth_in_a_second() {
        let mut rates = Rates::new();
        rates.begin(None);
        assert_eq!(rates.note("a", 100), 0);
        rates.begin(HALF);
        assert_eq!(rates.note("a", 150), 100);
        assert_eq!(rates.note("b", 1 << 30), 0, "the first value");
        rates.begin(HALF);
        assert_eq!(rates.note("a", 10), 0, "a reset");
    }

    #[test]
    fn counter_that_was_absent_begins_anew() {
        let mut rates = Rates::new();
        rates.begin(None);
        rates.note("a", 100);
        rates.begin(HALF);
        rates.begin(HALF);
        assert_eq!(rates.note("a", 200), 0);
    }

    #[test]
    fn no_time_gives_no_rate() {
        let mut rates = Rates::new();
        rates.begin(None);
        rates.note("a", 1);
        rates.begin(Some(Duration::ZERO));
        assert_eq!(rates.note("a", 2), 0);
    }
}
