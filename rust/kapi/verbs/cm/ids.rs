// SPDX-License-Identifier: GPL-2.0

//! Finds the receiver of an event by the number that its id has as context.
//!
//! `ib_cm` keeps no reference to an id while it reports that a message was not answered: the id may be
//! destroyed meanwhile, with its context. A pointer would dangle then; a number finds nothing.

use crate::{
    bindings,
    kapi::compat::errno::ECANCELED, //
};
use core::{
    hint,
    ptr::without_provenance_mut,
    sync::atomic::{
        AtomicU8,
        Ordering, //
    },
};
use kernel::{
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    rbtree::RBTree,
    sync::{
        global_lock,
        Arc, //
    },
};

/// Receives the events of an id.
pub(super) trait CmReceiver: Send + Sync {
    /// Handles an event and returns what the connection manager gets: not 0 makes it destroy `raw`.
    /// Context: may sleep.
    ///
    /// # Safety
    ///
    /// Called by the handler of an id whose context is the key of this receiver, with the arguments of
    /// the connection manager.
    unsafe fn receive(&self, raw: *mut bindings::ib_cm_id, event: &bindings::ib_cm_event) -> c_int;
}

/// The receivers of all ids.
struct CmReceivers {
    last: usize,
    by_key: RBTree<usize, Arc<dyn CmReceiver>>,
}

global_lock! {
    // SAFETY: `with_receivers` initialises it before its first use.
    unsafe(uninit) static RECEIVERS: Mutex<Option<CmReceivers>> = None;
}

/// No task has begun to initialise the lock.
const NEW: u8 = 0;
/// A task initialises the lock.
const BEGUN: u8 = 1;
/// The lock can be used.
const READY: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(NEW);

/// Runs `f` with the receivers locked. Context: may sleep.
fn with_receivers<R>(f: impl FnOnce(&mut Option<CmReceivers>) -> R) -> R {
    loop {
        match STATE.compare_exchange(NEW, BEGUN, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                // SAFETY: The state leaves `NEW` once, so this is called once, and uses come after
                // `READY`.
                unsafe { RECEIVERS.init() };
                STATE.store(READY, Ordering::Release);
                break;
            }
            Err(READY) => break,
            // The other task needs a few instructions.
            Err(_) => hint::spin_loop(),
        }
    }
    f(&mut RECEIVERS.lock())
}

/// The number of a receiver; it is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CmKey(usize);

impl CmKey {
    /// As the context of an id.
    pub(super) fn as_context(self) -> *mut c_void {
        without_provenance_mut(self.0)
    }

    /// Adds a receiver. Context: may sleep.
    pub(super) fn register(receiver: Arc<dyn CmReceiver>) -> Result<Self> {
        with_receivers(|receivers| {
            let receivers = receivers.get_or_insert_with(|| CmReceivers {
                last: 0,
                by_key: RBTree::new(),
            });
            let key = receivers.last.checked_add(1).ok_or(EOVERFLOW)?;
            receivers
                .by_key
                .try_create_and_insert(key, receiver, GFP_KERNEL)?;
            receivers.last = key;
            Ok(Self(key))
        })
    }

    /// Finds the receiver of an id with this context. Context: may sleep.
    pub(super) fn find(context: *mut c_void) -> Option<Arc<dyn CmReceiver>> {
        with_receivers(|receivers| receivers.as_ref()?.by_key.get(&context.addr()).cloned())
    }

    /// Takes the receiver away. Context: may sleep.
    pub(super) fn remove(self) {
        let receiver = with_receivers(|receivers| receivers.as_mut()?.by_key.remove(&self.0));
        // May end the context, which may do anything: the lock is free.
        drop(receiver);
    }
}

/// The handler of all ids of this module.
///
/// # Safety
///
/// Called by `ib_cm`: both pointers are valid, and `raw` has a key as context.
pub(super) unsafe extern "C" fn handle_event(
    raw: *mut bindings::ib_cm_id,
    event: *const bindings::ib_cm_event,
) -> c_int {
    // SAFETY: By this function's contract.
    let (context, event) = unsafe { ((*raw).context, &*event) };
    let brings_id = matches!(
        event.event,
        bindings::ib_cm_event_type_IB_CM_REQ_RECEIVED
            | bindings::ib_cm_event_type_IB_CM_SIDR_REQ_RECEIVED
    );
    match CmKey::find(context) {
        // SAFETY: By this function's contract, and as the key is the context of the id.
        Some(receiver) => unsafe { receiver.receive(raw, event) },
        // No handle refers to an id that a request has brought.
        None if brings_id => ECANCELED.to_errno(),
        // The drop of the handle is about to destroy it.
        None => 0,
    }
}
