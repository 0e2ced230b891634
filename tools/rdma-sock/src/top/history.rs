// SPDX-License-Identifier: GPL-2.0

//! The last values of a rate, and small curves of them.

use std::collections::VecDeque;

/// Bars of rising height.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The last values, the newest at the end.
#[derive(Clone, Debug)]
pub(super) struct History {
    values: VecDeque<u64>,
    room: usize,
}

impl History {
    /// Makes a history of this many values.
    pub(super) fn new(room: usize) -> Self {
        Self {
            values: VecDeque::with_capacity(room),
            room,
        }
    }

    /// Adds a value; the oldest one goes if there is no room.
    pub(super) fn push(&mut self, value: u64) {
        while self.values.len() >= self.room.max(1) {
            self.values.pop_front();
        }
        self.values.push_back(value);
    }

    /// The newest value; 0 at the start.
    pub(super) fn last(&self) -> u64 {
        self.values.back().copied().unwrap_or_default()
    }

    /// The newest values, as many as `width` columns show, at their right end.
    pub(super) fn columns(&self, width: usize) -> Vec<u64> {
        let missing = width.saturating_sub(self.values.len());
        let skipped = self.values.len().saturating_sub(width);
        let values = self.values.iter().skip(skipped).copied();
        std::iter::repeat_n(0, missing).chain(values).collect()
    }

    /// A curve of that width in one line of text. A value of 0 is blank.
    pub(super) fn curve(&self, width: usize) -> String {
        let columns = self.columns(width);
        let highest = columns.iter().copied().max().unwrap_or_default().max(1);
        let bar = |value: &u64| match value {
            0 => ' ',
            value => {
                // At least the lowest bar, and the highest for the highest value.
                let step = (u128::from(*value) * BARS.len() as u128).div_ceil(highest.into());
                BARS[(step.saturating_sub(1) as usize).min(BARS.len() - 1)]
            }
        };
        columns.iter().map(bar).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_value_goes_when_the_room_is_full() {
        let mut history = History::new(3);
        assert_eq!(history.last(), 0);
        for value in 1..=5 {
            history.push(value);
        }
        assert_eq!(history.columns(5), [0, 0, 3, 4, 5]);
        assert_eq!(history.columns(2), [4, 5]);
        assert_eq!(history.last(), 5);
    }

    #[test]
    fn curve_is_as_high_as_its_highest_value() {
        let mut history = History::new(8);
        for value in [0, 1, u64::MAX / 2, u64::MAX] {
            history.push(value);
        }
        assert_eq!(history.curve(5), "  ▁▄█");
        assert_eq!(History::new(4).curve(3), "   ");
    }
}
