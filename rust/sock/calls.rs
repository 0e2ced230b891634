// SPDX-License-Identifier: GPL-2.0

//! Calls that send and receive by RDMA, counted by connection.

use crate::proto::stream::sizes::{
    class_of,
    CLASSES, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// A direction of data, and its place in the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Receiving.
    Rx,
    /// Sending.
    Tx,
}

/// Calls that receive and that send.
#[derive(Clone, Copy, Default)]
pub(crate) struct Calls {
    /// All of them.
    pub(crate) calls: [u64; 2],
    /// Those that moved something, by class of size.
    pub(crate) sizes: [[u64; CLASSES]; 2],
}

impl Calls {
    /// Adds another set.
    pub(crate) fn add(&mut self, other: &Self) {
        let sizes = self.sizes.as_flattened_mut().iter_mut();
        let own = self.calls.iter_mut().chain(sizes);
        let added = other.calls.iter().chain(other.sizes.as_flattened());
        for (count, more) in own.zip(added) {
            *count = count.wrapping_add(*more);
        }
    }
}

/// The counts of a direction.
struct Counts {
    calls: Atomic<u64>,
    sizes: [Atomic<u64>; CLASSES],
}

impl Counts {
    const fn new() -> Self {
        Self {
            calls: Atomic::new(0),
            sizes: [const { Atomic::new(0) }; CLASSES],
        }
    }
}

/// The calls of a connection. Those that count hold the lock of the sock.
pub(crate) struct CallCounts {
    rx: Counts,
    tx: Counts,
}

/// Counts one more. The lock of the sock keeps other calls from changing the count.
fn bump(count: &Atomic<u64>) {
    count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
}

impl CallCounts {
    /// No calls yet.
    pub(crate) const fn new() -> Self {
        Self {
            rx: Counts::new(),
            tx: Counts::new(),
        }
    }

    /// Counts a call; `size` is 0 if it has moved nothing. With the lock of the sock.
    pub(crate) fn count(&self, direction: Direction, size: usize) {
        let counts = match direction {
            Direction::Rx => &self.rx,
            Direction::Tx => &self.tx,
        };
        bump(&counts.calls);
        let class = u64::try_from(size).ok().and_then(class_of);
        if let Some(count) = class.and_then(|class| counts.sizes.get(class)) {
            bump(count);
        }
    }

    /// The counts. Context: any.
    pub(crate) fn read(&self) -> Calls {
        let sizes = |counts: &Counts| {
            let mut read = [0; CLASSES];
            for (to, from) in read.iter_mut().zip(&counts.sizes) {
                *to = from.load(Relaxed);
            }
            read
        };
        Calls {
            calls: [self.rx.calls.load(Relaxed), self.tx.calls.load(Relaxed)],
            sizes: [sizes(&self.rx), sizes(&self.tx)],
        }
    }
}
