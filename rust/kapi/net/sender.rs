// SPDX-License-Identifier: GPL-2.0

//! A socket that packets leave by, and that pays for them.
//!
//! C header: [`include/net/sock.h`](srctree/include/net/sock.h)

use crate::{
    bindings,
    kapi::{
        base::work::{
            new_deferred,
            Deferred,
            Run,
            WorkQueue, //
        },
        compat::errno::EAFNOSUPPORT, //
    },
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A socket in whose name packets of all namespaces leave, and that pays for them (RNIC-REQ-16). The MTU of
/// their device bounds their length, and no path MTU that this host was told by ICMP (RNIC-IP-13).
///
/// It may be dropped in any context: a work item closes the socket, which may sleep.
pub(crate) struct Sender {
    socket: Arc<SenderSocket>,
    queue: WorkQueue,
}

impl Sender {
    /// Opens the socket, for both versions of IP where there are two. A work item of `queue` closes it.
    /// Context: may sleep.
    ///
    /// `queue` should outlive the sender, and be flushed before it ends.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn open(queue: &WorkQueue) -> Result<Self> {
        let socket = Arc::try_pin_init(
            try_pin_init!(SenderSocket {
                sock: SenderSocket::open()?,
                close <- new_deferred!("rdma_soft_sender"),
            }),
            GFP_KERNEL,
        )?;
        let queue = queue.clone();
        Ok(Self { socket, queue })
    }

    /// Whether the network of this host holds so few of its packets that others may leave. Context: any.
    pub(crate) fn has_room(&self) -> bool {
        // SAFETY: By the type invariants of the socket, which is closed after this is dropped.
        unsafe { bindings::rdma_sock_helper_sender_has_room(self.as_raw()) }
    }

    /// The socket, which is valid as long as this object.
    pub(super) fn as_raw(&self) -> *mut bindings::sock {
        self.socket.sock.as_ptr()
    }
}

impl Drop for Sender {
    /// Context: any. Packets under way keep the memory of the socket.
    fn drop(&mut self) {
        self.socket.close.kick(&self.socket, &self.queue);
    }
}

/// The socket of a [`Sender`].
///
/// # Invariants
///
/// `sock` is a socket of this object's own, which is valid until `close` runs. Only the end of its only
/// [`Sender`] kicks that.
#[pin_data]
struct SenderSocket {
    sock: NonNull<bindings::sock>,
    #[pin]
    close: Deferred<SenderSocket>,
}

// SAFETY: Sockets may be closed from any thread.
unsafe impl Send for SenderSocket {}
// SAFETY: Packets only read its settings, which are constant, and its counts are atomic.
unsafe impl Sync for SenderSocket {}

impl SenderSocket {
    /// Opens a socket. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn open() -> Result<NonNull<bindings::sock>> {
        match Self::of_version(true) {
            Err(err) if err == EAFNOSUPPORT => Self::of_version(false),
            opened => opened,
        }
    }

    fn of_version(ipv6: bool) -> Result<NonNull<bindings::sock>> {
        // SAFETY: The helper has no preconditions.
        let sock = unsafe { bindings::rdma_sock_helper_sender_open(ipv6) };
        NonNull::new(kernel::error::from_err_ptr(sock)?).ok_or(ENOMEM)
    }
}

impl Run<0> for SenderSocket {
    /// Closes the socket.
    fn run(this: Arc<Self>) {
        // SAFETY: By the type invariants the socket is valid, and its sender, which alone used it, is gone.
        // This is the only run.
        unsafe { bindings::rdma_sock_helper_sender_close(this.sock.as_ptr()) };
    }
}

/// Calls `test` with a sender, which is closed when this returns.
///
/// # Errors
///
/// Those of `test`, and `ENOMEM`.
#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
pub(super) fn with_sender(test: impl FnOnce(Sender) -> Result) -> Result {
    let queue = WorkQueue::new(c"rdma_soft_test")?;
    let outcome = Sender::open(&queue).and_then(test);
    // A work item must not drop the last reference to its queue.
    queue.flush();
    outcome
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_kapi_sender)]
mod tests {
    use super::*;
    use crate::kapi::base::sync::new_spinlock_bh;

    /// A queue pair may end in the run of its peer, which holds a lock of softirqs.
    #[test]
    fn sender_dropped_with_softirqs_off_is_closed_by_a_work_item() -> Result {
        with_sender(|sender| {
            let socket = sender.socket.clone();
            let queue = sender.queue.clone();
            let lock = KBox::pin_init(new_spinlock_bh!((), "rdma_soft_test_sender"), GFP_KERNEL)?;
            let locked = lock.lock();
            drop(sender);
            drop(locked);
            queue.flush();
            // The work item has run, and has dropped its reference.
            assert!(Arc::into_unique_or_drop(socket).is_some());
            Ok(())
        })
    }
}
