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

/// What few calls do or find, and its place in the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rare {
    /// It was splice() from the socket.
    Splice,
    /// It took TCP_CORK back.
    Uncork,
    /// It set TCP_NODELAY.
    Nodelay,
    /// It sent or read an urgent byte.
    Urgent,
    /// It sent more than the peer's buffer holds.
    ExceedsPeer,
    /// It sent more than this side's buffer holds.
    ExceedsBuffer,
    /// It had to wait as the peer has a buffer full of unread data.
    PeerFull,
    /// It found no room to send.
    NoRoom,
    /// It had no room for all that there was to read.
    ReadsPart,
    /// It found the receive buffer full.
    ReadsFull,
    /// It waited and spun.
    Spin,
    /// It slept behind such a spin.
    SpinInVain,
}

/// Number of [`Rare`].
const RARE: usize = 12;

impl Rare {
    const fn index(self) -> usize {
        match self {
            Self::Splice => 0,
            Self::Uncork => 1,
            Self::Nodelay => 2,
            Self::Urgent => 3,
            Self::ExceedsPeer => 4,
            Self::ExceedsBuffer => 5,
            Self::PeerFull => 6,
            Self::NoRoom => 7,
            Self::ReadsPart => 8,
            Self::ReadsFull => 9,
            Self::Spin => 10,
            Self::SpinInVain => 11,
        }
    }
}

/// Calls that receive and that send.
#[derive(Clone, Copy, Default)]
pub(crate) struct Calls {
    /// All of them.
    pub(crate) calls: [u64; 2],
    /// Those that moved something, by class of size.
    pub(crate) sizes: [[u64; CLASSES]; 2],
    /// Those that did something rare.
    rare: [u64; RARE],
}

impl Calls {
    /// Adds another set.
    pub(crate) fn add(&mut self, other: &Self) {
        let sizes = self.sizes.as_flattened_mut().iter_mut();
        let own = self.calls.iter_mut().chain(sizes).chain(&mut self.rare);
        let sizes = other.sizes.as_flattened();
        let added = other.calls.iter().chain(sizes).chain(&other.rare);
        for (count, more) in own.zip(added) {
            *count = count.wrapping_add(*more);
        }
    }

    /// How many calls did that.
    pub(crate) fn rare(&self, what: Rare) -> u64 {
        self.rare.get(what.index()).copied().unwrap_or(0)
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
    rare: [Atomic<u64>; RARE],
    /// Octets of the buffers: to receive, to send, the peer's; 0 until they are known.
    buffers: [Atomic<u32>; 3],
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
            rare: [const { Atomic::new(0) }; RARE],
            buffers: [const { Atomic::new(0) }; 3],
        }
    }

    /// The connection has buffers of that many octets: to receive, to send, the peer's.
    /// Context: any.
    pub(crate) fn set_buffers(&self, sizes: [u32; 3]) {
        for (buffer, size) in self.buffers.iter().zip(sizes) {
            buffer.store(size, Relaxed);
        }
    }

    /// Counts a call that did something rare. Context: any.
    pub(crate) fn count_rare(&self, what: Rare) {
        if let Some(count) = self.rare.get(what.index()) {
            // The number orders no other access.
            let _ = count.fetch_add(1, Relaxed);
        }
    }

    /// Judges a call that sends `size` octets by the buffers. Context: any.
    pub(crate) fn judge_send(&self, size: usize) {
        let [_, own, peer] = &self.buffers;
        let exceeds = |buffer: &Atomic<u32>| {
            let buffer = usize::try_from(buffer.load(Relaxed)).unwrap_or(0);
            buffer != 0 && size > buffer
        };
        if exceeds(own) {
            self.count_rare(Rare::ExceedsBuffer);
        }
        if exceeds(peer) {
            self.count_rare(Rare::ExceedsPeer);
        }
    }

    /// Judges a call that has room for `size` octets and finds `available`. Context: any.
    pub(crate) fn judge_read(&self, size: usize, available: u32) {
        let [own, ..] = &self.buffers;
        if own.load(Relaxed) == available {
            self.count_rare(Rare::ReadsFull);
        }
        if usize::try_from(available).is_ok_and(|available| available > size) {
            self.count_rare(Rare::ReadsPart);
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
        let mut rare = [0; RARE];
        for (to, from) in rare.iter_mut().zip(&self.rare) {
            *to = from.load(Relaxed);
        }
        Calls {
            rare,
            calls: [self.rx.calls.load(Relaxed), self.tx.calls.load(Relaxed)],
            sizes: [sizes(&self.rx), sizes(&self.tx)],
        }
    }
}
