// SPDX-License-Identifier: GPL-2.0

//! The statistics of a few measurements.

use serde::{
    Deserialize,
    Serialize, //
};

/// The value below which the part `q` of `sorted` lies, between neighbours by their distance.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let low = at.floor() as usize;
    let high = at.ceil() as usize;
    let part = at - low as f64;
    Some(sorted[low] + (sorted[high] - sorted[low]) * part)
}

/// Several measurements of the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The one in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many there are.
    pub rounds: usize,
}

impl Summary {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median: quantile(&sorted, 0.5)?,
            min: *sorted.first()?,
            max: *sorted.last()?,
            rounds: sorted.len(),
        })
    }

    /// Half of the distance between the largest and the smallest, as a part of the median.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 {
            return 0.0;
        }
        (self.max - self.min) / 2.0 / self.median
    }
}

/// The median of the ratios of values that were measured in the same round. The rounds of both must
/// be sorted.
pub fn paired_ratio(ours: &[(u32, f64)], others: &[(u32, f64)]) -> Option<Summary> {
    let ratios: Vec<f64> = ours
        .iter()
        .filter_map(|(round, value)| {
            let (_, other) = others.iter().find(|(known, _)| known == round)?;
            (*other > 0.0).then(|| value / other)
        })
        .collect();
    Summary::of(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), Some(2.5));
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.0), Some(1.0));
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 1.0), Some(3.0));
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 2.0), Some(3.0));
    }

    #[test]
    fn summaries() {
        assert_eq!(Summary::of(&[]), None);
        let summary = Summary::of(&[30.0, 10.0, 20.0]).unwrap();
        assert_eq!(summary.median, 20.0);
        assert_eq!((summary.min, summary.max, summary.rounds), (10.0, 30.0, 3));
        assert_eq!(summary.spread(), 0.5);
        assert_eq!(Summary::of(&[0.0, 0.0]).unwrap().spread(), 0.0);
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let ours = [(1, 10.0), (2, 20.0), (3, 40.0)];
        let others = [(1, 5.0), (3, 10.0), (4, 1.0)];
        let ratio = paired_ratio(&ours, &others).unwrap();
        assert_eq!(ratio.rounds, 2);
        assert_eq!(ratio.median, 3.0);
        assert_eq!(paired_ratio(&ours, &[]), None);
        assert_eq!(paired_ratio(&ours, &[(1, 0.0)]), None);
    }
}
