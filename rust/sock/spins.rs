// SPDX-License-Identifier: GPL-2.0

//! Whether calls of a connection spin, by direction.

use super::calls::Direction;
use crate::proto::stream::spin::Spin;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// What the last waits of a connection were like. Of two calls that wait at a time, the later one counts.
pub(crate) struct Spins {
    rx: Atomic<i64>,
    tx: Atomic<i64>,
}

impl Spins {
    pub(crate) const fn new() -> Self {
        let code = Spin::new().code();
        Self {
            rx: Atomic::new(code),
            tx: Atomic::new(code),
        }
    }

    fn of(&self, direction: Direction) -> &Atomic<i64> {
        match direction {
            Direction::Rx => &self.rx,
            Direction::Tx => &self.tx,
        }
    }

    /// That of calls in a direction. Context: any.
    pub(crate) fn load(&self, direction: Direction) -> Spin {
        Spin::of_code(self.of(direction).load(Relaxed))
    }

    /// Sets it after a wait. Context: any.
    pub(crate) fn store(&self, direction: Direction, spin: Spin) {
        self.of(direction).store(spin.code(), Relaxed);
    }
}
