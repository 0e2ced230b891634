// SPDX-License-Identifier: GPL-2.0

//! Registration of memory by a work request.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    mr::Mr,
    wc::WcStatus, //
};
use crate::bindings;
use core::mem::ManuallyDrop;
use kernel::{
    container_of,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Mutex,
        MutexGuard, //
    },
    time::msecs_to_jiffies,
    types::Opaque, //
};

/// How long a registration may take before the queue pair is given up.
const PATIENCE_MS: u32 = 5000;

/// Posts registrations one at a time and waits for them.
///
/// # Invariants
///
/// A work request that names `cqe` exists only while `busy` is locked.
#[pin_data]
pub(super) struct FastReg {
    #[pin]
    busy: Mutex<()>,
    #[pin]
    cqe: Opaque<bindings::ib_cqe>,
    #[pin]
    done: Opaque<bindings::completion>,
    status: Atomic<u32>,
}

// SAFETY: The C objects are used under `busy` and by the completion handler of the one request.
unsafe impl Send for FastReg {}
// SAFETY: As for `Send`.
unsafe impl Sync for FastReg {}

impl FastReg {
    /// Nothing is being registered.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            busy <- new_mutex!((), "rdma_sock_fast_reg"),
            cqe <- Opaque::ffi_init(|slot: *mut bindings::ib_cqe| {
                // SAFETY: `slot` is valid for writes.
                unsafe { (*slot).done = Some(Self::done_raw) }
            }),
            done <- Opaque::ffi_init(|slot: *mut bindings::completion| {
                // SAFETY: `slot` is valid for writes and pinned.
                unsafe { bindings::init_completion(slot) }
            }),
            status: Atomic::new(0),
        })
    }

    /// Registers `mr`, unless it is. `post` posts one request; if it returned success, the request is
    /// completed some time, at the latest after `give_up`. Context: may sleep.
    ///
    /// # Errors
    ///
    /// As of [`Self::run`].
    pub(super) fn register(
        self: Pin<&Self>,
        mr: &Mr,
        post: impl FnOnce(*const bindings::ib_send_wr) -> Result,
        give_up: impl FnOnce(),
    ) -> Result {
        let busy = self.busy.lock();
        if mr.is_active() {
            return Ok(());
        }
        let mut wr = bindings::ib_reg_wr {
            mr: mr.as_raw(),
            key: mr.rkey(),
            access: mr.access().flags()?,
            ..Default::default()
        };
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_REG_MR;
        self.run_locked(&busy, &raw mut wr.wr, post, give_up)?;
        mr.set_active();
        Ok(())
    }

    /// Posts the request `wr` and waits for its end. `post` and `give_up` as in [`Self::register`].
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// That of `post`; `EIO` if the request failed; `ETIMEDOUT` after `give_up`.
    pub(super) fn run(
        self: Pin<&Self>,
        wr: *mut bindings::ib_send_wr,
        post: impl FnOnce(*const bindings::ib_send_wr) -> Result,
        give_up: impl FnOnce(),
    ) -> Result {
        self.run_locked(&self.busy.lock(), wr, post, give_up)
    }

    fn run_locked(
        self: Pin<&Self>,
        _busy: &MutexGuard<'_, ()>,
        wr: *mut bindings::ib_send_wr,
        post: impl FnOnce(*const bindings::ib_send_wr) -> Result,
        give_up: impl FnOnce(),
    ) -> Result {
        // SAFETY: Our callers pass a request of their own.
        unsafe {
            (*wr).send_flags |= bindings::ib_send_flags_IB_SEND_SIGNALED;
            (*wr).__bindgen_anon_1.wr_cqe = ManuallyDrop::new(self.cqe.get());
        }
        // SAFETY: By the type invariants no request can complete it now: `busy` is locked.
        unsafe { bindings::init_completion(self.done.get()) };
        post(wr)?;

        // SAFETY: Initialised above.
        let in_time = unsafe {
            bindings::wait_for_completion_timeout(self.done.get(), msecs_to_jiffies(PATIENCE_MS))
        } != 0;
        if !in_time {
            give_up();
            // The region must not be given up while the device works on it.
            // SAFETY: Initialised above.
            unsafe { bindings::wait_for_completion(self.done.get()) };
        }
        match WcStatus::check(self.status.load(Relaxed)) {
            Ok(()) => Ok(()),
            Err(_) if !in_time => Err(ETIMEDOUT),
            Err(_) => Err(EIO),
        }
    }

    /// `ib_cqe::done`.
    ///
    /// # Safety
    ///
    /// Called by the core for the completion of a request of [`Self::run_locked`].
    unsafe extern "C" fn done_raw(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
        // SAFETY: The completion is valid, and its `ib_cqe` is the field of a `FastReg`, because only
        // `new` installs this function. That exists while a caller waits in `run_locked`.
        let this = unsafe {
            let cqe = *(*wc).__bindgen_anon_1.wr_cqe;
            &*container_of!(Opaque::cast_from(cqe).cast_mut(), Self, cqe)
        };
        // SAFETY: The completion is valid.
        this.status.store(unsafe { (*wc).status }, Relaxed);
        // SAFETY: Initialised by `run_locked`. The waiter may go on from here.
        unsafe { bindings::complete(this.done.get()) };
    }
}
