// SPDX-License-Identifier: GPL-2.0

//! The wait of a sender of packets until the network of this host has room for them.
//!
//! C header: [`include/linux/wait.h`](srctree/include/linux/wait.h)

use super::sender::Sender;
use crate::{
    bindings,
    kapi::base::sync::is_part_of, //
};
use core::{
    ffi::c_void,
    marker::PhantomData,
    ptr::null_mut,
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
};
use kernel::{
    bindings as kb,
    container_of,
    ffi,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// An object that sends packets by a [`SendRoom`] of its own.
pub(crate) trait AwaitRoom: Send + Sync + 'static {
    /// There is room again. Context: any. The caller holds a lock with interrupts off, so this only queues a
    /// work item, which has a reference of its own.
    fn room(self: &Arc<Self>);
}

/// A sender embedded in the object that sends by it, which it keeps alive while that waits for room.
///
/// # Invariants
///
/// `owner` is null, or came from [`Arc::into_raw`], and that reference belongs to the wait. It is not null while
/// `entry` is on the queue of the sender's socket.
#[pin_data]
pub(crate) struct SendRoom<T: AwaitRoom> {
    sender: Sender,
    #[pin]
    entry: Opaque<kb::wait_queue_entry>,
    owner: AtomicPtr<T>,
    _owner: PhantomData<fn(T)>,
}

// SAFETY: Wait queues may be used from any thread, and `T` is `Send` and `Sync`.
unsafe impl<T: AwaitRoom> Send for SendRoom<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: AwaitRoom> Sync for SendRoom<T> {}

impl<T: AwaitRoom> SendRoom<T> {
    /// A sender that does not wait.
    pub(crate) fn new(sender: Sender) -> impl PinInit<Self> {
        pin_init!(Self {
            sender,
            entry <- Opaque::ffi_init(|slot: *mut kb::wait_queue_entry| {
                // SAFETY: `slot` is valid for writes, and `woken_raw` is a function for exactly this field.
                unsafe {
                    bindings::rdma_sock_helper_sender_init_wait(slot.cast(), Some(Self::woken_raw))
                }
            }),
            owner: AtomicPtr::new(null_mut()),
            _owner: PhantomData,
        })
    }

    /// The sender.
    pub(crate) fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Whether packets may leave. If not, `owner` learns once that they may. Context: softirq. Not for two
    /// callers at a time.
    ///
    /// `owner` must be the object this is a field of.
    pub(crate) fn has_room(&self, owner: &Arc<T>) -> bool {
        self.sender.has_room() || !self.wait(owner)
    }

    /// Waits from here on, unless there is room. Returns whether it waits.
    fn wait(&self, owner: &Arc<T>) -> bool {
        // Outside of its owner it could be freed while it waits.
        assert!(is_part_of(self, owner));
        self.end_wait();
        // INVARIANT: The reference is for the wait that begins below. Only this function stores one, and there
        // is none: the entry is on no queue, so that nothing calls `woken_raw`.
        let raw = Arc::into_raw(owner.clone()).cast_mut();
        self.owner.store(raw, Ordering::Release);
        let sock = self.sender.as_raw();
        // SAFETY: The socket is valid. The entry was set up by `new` and stays where it is: by the type
        // invariants there is a reference to its owner as long as it is on the queue.
        let waits =
            unsafe { bindings::rdma_sock_helper_sender_wait(sock, self.entry.get().cast()) };
        if !waits {
            self.end_wait();
        }
        waits
    }

    /// Ends a wait: `owner` learns of nothing. Context: any.
    ///
    /// The caller has a reference to the owner.
    pub(crate) fn end_wait(&self) {
        let sock = self.sender.as_raw();
        // SAFETY: As in `wait`. An entry that is on no queue is an empty list.
        unsafe { bindings::rdma_sock_helper_sender_end_wait(sock, self.entry.get().cast()) };
        drop(self.take_owner());
    }

    /// The reference of a wait that has ended.
    fn take_owner(&self) -> Option<Arc<T>> {
        // INVARIANT: The reference is the caller's. The entry has left the queue.
        let raw = self.owner.swap(null_mut(), Ordering::Acquire);
        // SAFETY: By the type invariants.
        (!raw.is_null()).then(|| unsafe { Arc::from_raw(raw) })
    }

    /// # Safety
    ///
    /// Called by the wait queue code with the `entry` of such an object, and the queue locked.
    unsafe extern "C" fn woken_raw(
        entry: *mut kb::wait_queue_entry,
        _mode: ffi::c_uint,
        _flags: ffi::c_int,
        _key: *mut c_void,
    ) -> ffi::c_int {
        // SAFETY: By this function's contract. By the type invariants the object is there until its
        // reference is taken below, and `Opaque` is transparent.
        let this = unsafe { &*container_of!(Opaque::cast_from(entry), Self, entry) };
        // SAFETY: The entry is on the queue, which is locked.
        unsafe { bindings::rdma_sock_helper_sender_woken(entry.cast()) };
        if let Some(owner) = this.take_owner() {
            T::room(&owner);
        }
        0
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_kapi_send_room)]
mod tests {
    use super::*;
    use crate::kapi::net::{
        packet::TxPacket,
        sender::with_sender, //
    };
    use core::sync::atomic::AtomicU32;

    /// A program that sends packets.
    #[pin_data]
    struct Program {
        #[pin]
        room: SendRoom<Program>,
        calls: AtomicU32,
    }

    impl AwaitRoom for Program {
        fn room(self: &Arc<Self>) {
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Program {
        fn new(sender: Sender) -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    room <- SendRoom::new(sender),
                    calls: AtomicU32::new(0),
                }),
                GFP_KERNEL,
            )
        }

        /// Packets that the network holds, as many as it takes.
        ///
        /// # Errors
        ///
        /// `E2BIG` if they are too many.
        fn fill(self: &Arc<Self>) -> Result<KVec<TxPacket>> {
            const LEN: usize = 4_096;
            let mut held = KVec::new();
            while self.room.has_room(self) {
                let packet = TxPacket::new(LEN).ok_or(ENOMEM)?;
                if held.len() * LEN >= 1 << 20 || !packet.charge_of_test(self.room.sender()) {
                    return Err(E2BIG);
                }
                held.push(packet, GFP_KERNEL)?;
            }
            Ok(held)
        }

        fn calls(&self) -> u32 {
            self.calls.load(Ordering::Relaxed)
        }
    }

    /// RNIC-REQ-16.
    #[test]
    fn full_sender_learns_once_of_each_room() -> Result {
        with_sender(|sender| {
            let program = Program::new(sender)?;
            for round in 0..3 {
                let mut held = program.fill()?;
                assert!(held.len() > 32);
                // A wait that lasts is one wait.
                assert!(!program.room.has_room(&program));
                assert_eq!(program.calls(), round);
                drop(held.pop());
                assert_eq!(program.calls(), round + 1);
                assert!(program.room.has_room(&program));
                drop(held);
                assert_eq!(program.calls(), round + 1);
            }
            Ok(())
        })
    }

    /// RNIC-REQ-16: the end of a queue pair ends its wait.
    #[test]
    fn wait_that_was_ended_calls_nothing() -> Result {
        with_sender(|sender| {
            let program = Program::new(sender)?;
            let held = program.fill()?;
            assert!(!program.room.has_room(&program));
            program.room.end_wait();
            drop(held);
            assert_eq!(program.calls(), 0);
            assert!(program.room.has_room(&program));
            Ok(())
        })
    }

    /// Packets outlive their sender.
    #[test]
    fn packets_under_way_keep_what_pays_for_them() -> Result {
        with_sender(|sender| {
            let program = Program::new(sender)?;
            let held = program.fill()?;
            program.room.end_wait();
            drop(program);
            drop(held);
            Ok(())
        })
    }
}
