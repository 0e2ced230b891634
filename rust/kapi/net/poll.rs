// SPDX-License-Identifier: GPL-2.0

//! Poll events and the table of a poller.
//!
//! C header: [`include/linux/poll.h`](srctree/include/linux/poll.h)

use super::socket::Socket;
use crate::bindings;

/// A set of poll events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Events(u32);

impl Events {
    /// No event.
    pub(crate) const NONE: Self = Self(0);
    /// There is something to read, or a connection to accept.
    pub(crate) const IN: Self = Self(0x1);
    /// There is urgent data.
    pub(crate) const PRI: Self = Self(0x2);
    /// There is room to write.
    pub(crate) const OUT: Self = Self(0x4);
    /// An error is pending.
    pub(crate) const ERR: Self = Self(0x8);
    /// Both directions are shut.
    pub(crate) const HUP: Self = Self(0x10);
    /// Normal data can be read.
    pub(crate) const RDNORM: Self = Self(0x40);
    /// Priority data can be read.
    pub(crate) const RDBAND: Self = Self(0x80);
    /// Normal data can be written.
    pub(crate) const WRNORM: Self = Self(0x100);
    /// Priority data can be written.
    pub(crate) const WRBAND: Self = Self(0x200);
    /// The peer has shut down its direction.
    pub(crate) const RDHUP: Self = Self(0x2000);

    /// From the bits of C.
    pub(super) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits for C.
    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    /// Whether any event of `other` is in this set.
    pub(crate) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl core::ops::BitOr for Events {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl core::ops::BitOrAssign for Events {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The table of one call of poll, which a poller uses to be woken later.
///
/// # Invariants
///
/// The pointers are the arguments of a `poll` operation that is running; `table` may be null.
pub(crate) struct PollTable {
    pub(super) file: *mut kernel::bindings::file,
    pub(super) table: *mut kernel::bindings::poll_table_struct,
}

impl PollTable {
    /// Adds the poller to the wait queue of `socket`, before its state is looked at.
    pub(crate) fn wait(&self, socket: &Socket) {
        // SAFETY: By the type invariants `file` and `table` are valid; the socket outlives the
        // poller, because its file does.
        unsafe {
            bindings::rdma_sock_helper_poll_wait(
                self.file.cast(),
                socket.as_raw().cast(),
                self.table.cast(),
            )
        }
    }

    /// The events that the poller asked for; all if it did not say.
    pub(crate) fn wanted(&self) -> Events {
        // SAFETY: By the type invariants `table` is valid or null, which means all.
        Events::from_bits(unsafe { bindings::rdma_sock_helper_poll_wanted(self.table.cast()) })
    }
}
