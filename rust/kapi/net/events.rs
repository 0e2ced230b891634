// SPDX-License-Identifier: GPL-2.0

//! What TCP reports about a sock, and the context an engine keeps with it.
//!
//! All that TCP has to say (data, room, state, error) ends in a wake of the wait queue of the
//! `struct socket`. An [`Attachment`] puts one entry in front of all others on that queue, so it
//! sees every wake first and may stop it. The function pointers of the sock stay as they are:
//! nothing is inherited by the children of a listener, which may end at a listener that is not
//! ours, and nothing has to be put back when another layer (kTLS, a sockmap) has put its own there.
//!
//! C headers: [`include/linux/wait.h`](srctree/include/linux/wait.h),
//! [`include/net/sock.h`](srctree/include/net/sock.h)

use super::{
    poll::Events,
    sock::Sock,
    socket::Socket, //
};
use crate::bindings;
use core::{
    any::TypeId,
    ffi::c_void,
    mem::offset_of,
    ptr,
    sync::atomic::AtomicU32, //
};
use kernel::{
    container_of,
    ffi,
    prelude::*,
    sync::{
        rcu,
        Arc,
        ArcBorrow, //
    },
    types::Opaque, //
};

/// What happens to a wake of TCP after the engine has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Readers, writers and pollers of the socket are woken.
    Default,
    /// They sleep on. The engine wakes them by [`Sock::wake_readable`] and so on when it is time.
    Suppress,
}

/// The events of a TCP sock.
///
/// All functions are called with the wait queue of the socket locked and interrupts off, in any
/// context. They may use atomics and queue work. They must not take locks, and must not wake a
/// socket.
pub(crate) trait TcpEvents: Sized + Send + Sync + 'static {
    /// Data, a FIN, or (listener) a connection arrived.
    fn data_ready(_this: ArcBorrow<'_, Self>) -> Wake {
        Wake::Default
    }

    /// The TCP state changed.
    fn state_change(_this: ArcBorrow<'_, Self>) -> Wake {
        Wake::Default
    }

    /// An error is pending.
    fn error_report(_this: ArcBorrow<'_, Self>) -> Wake {
        Wake::Default
    }

    /// There is room to send again, after a send found none.
    fn write_space(_this: ArcBorrow<'_, Self>) -> Wake {
        Wake::Default
    }
}

/// The event a wake stands for.
#[derive(Clone, Copy)]
enum WakeEvent {
    Data,
    State,
    Error,
    Space,
}

impl WakeEvent {
    /// Decodes the key of a wake, see `sock_def_readable()` and its neighbours.
    fn from_key(key: *mut c_void) -> Self {
        let events = Events::from_bits(key as usize as u32);
        if events.intersects(Events::ERR) {
            WakeEvent::Error
        } else if events.intersects(Events::IN) {
            WakeEvent::Data
        } else if events.intersects(Events::OUT) {
            WakeEvent::Space
        } else {
            WakeEvent::State
        }
    }
}

/// `SK_USER_DATA_NOCOPY` alone: how `sk_user_data` is tagged when it is ours. Children of a
/// listener do not inherit it. Other modules may use the same tag, so the object behind it has to
/// have [`on_wake`] where ours has it.
const TAG: usize = 1;
/// `SK_USER_DATA_PTRMASK`, inverted.
const TAG_MASK: usize = 7;

/// The first members of a `wait_queue_entry`, which distinguish an [`Attachment`] from other
/// objects.
#[repr(C)]
struct Head {
    flags: ffi::c_uint,
    private: usize,
    func: usize,
}

const _: () = {
    assert!(offset_of!(Attachment, entry) == 0);
    assert!(offset_of!(Head, func) == offset_of!(kernel::bindings::wait_queue_entry, func));
};

/// The type of a wake function.
type WakeFn = unsafe extern "C" fn(
    *mut kernel::bindings::wait_queue_entry,
    ffi::c_uint,
    ffi::c_int,
    *mut c_void,
) -> ffi::c_int;

/// The context of an engine on a sock, and the entry on the wait queue of its socket.
///
/// It stays with the sock until the socket is released and is then freed after a grace period.
///
/// # Invariants
///
/// - `data` came from `Arc::<T>::into_raw` and owns a reference, until the attachment is removed;
///   `id` and `call` belong to the same `T`.
/// - `entry` is on the wait queue of the socket of the sock exactly if `queued` is set; both only
///   change while the socket is used exclusively or under `sk_callback_lock`.
#[repr(C, align(8))]
pub(super) struct Attachment {
    entry: Opaque<kernel::bindings::wait_queue_entry>,
    rcu: Opaque<kernel::bindings::callback_head>,
    id: TypeId,
    data: *const c_void,
    call: unsafe fn(*const c_void, WakeEvent) -> Wake,
    free: unsafe fn(*const c_void),
    /// Set while this module itself wakes the queue. Protected by the lock of the queue.
    quiet: core::cell::UnsafeCell<bool>,
    /// Protected by `sk_callback_lock`.
    queued: core::cell::UnsafeCell<bool>,
    /// What the option back ends keep here, see [`super::option`].
    pub(super) option: AtomicU32,
    /// The nonce of the connection, see [`super::option`].
    pub(super) nonce: AtomicU32,
}

/// # Safety
///
/// `data` must come from `Arc::<T>::into_raw`, and its reference must not be dropped meanwhile.
unsafe fn call<T: TcpEvents>(data: *const c_void, event: WakeEvent) -> Wake {
    // SAFETY: By this function's contract.
    let this = unsafe { ArcBorrow::<T>::from_raw(data.cast()) };
    match event {
        WakeEvent::Data => T::data_ready(this),
        WakeEvent::State => T::state_change(this),
        WakeEvent::Error => T::error_report(this),
        WakeEvent::Space => T::write_space(this),
    }
}

/// # Safety
///
/// `data` must come from `Arc::<T>::into_raw`; its reference is dropped.
unsafe fn free<T: TcpEvents>(data: *const c_void) {
    // SAFETY: By this function's contract.
    drop(unsafe { Arc::<T>::from_raw(data.cast()) });
}

/// The wake function of all attachments.
///
/// # Safety
///
/// Called by the wait queue code with the `entry` of an [`Attachment`], and the queue locked.
unsafe extern "C" fn on_wake(
    entry: *mut kernel::bindings::wait_queue_entry,
    _mode: ffi::c_uint,
    _flags: ffi::c_int,
    key: *mut c_void,
) -> ffi::c_int {
    // SAFETY: By this function's contract the entry is in an attachment, which cannot be removed
    // while the queue is locked.
    let this = unsafe { &*container_of!(Opaque::cast_from(entry), Attachment, entry) };
    // SAFETY: The lock of the queue is held, which protects the field.
    if unsafe { *this.quiet.get() } {
        return 0;
    }
    // SAFETY: By the type invariants, and because the attachment is not removed yet.
    match unsafe { (this.call)(this.data, WakeEvent::from_key(key)) } {
        Wake::Default => 0,
        // A negative result ends the walk over the queue, and this entry is the first.
        Wake::Suppress => -1,
    }
}

/// Wakes the waiters for `events` on the wait queue of `sock` (all waiters for `None`), except the
/// attachment.
pub(super) fn wake_others(sock: &Sock, events: Option<Events>) {
    let _guard = rcu::read_lock();
    // SAFETY: The sock is valid and this is an RCU read section.
    let head = unsafe { bindings::rdma_sock_helper_sleepers(sock.as_raw()) };
    if head.is_null() {
        return;
    }
    // SAFETY: The queue is in a socket, which is freed after a grace period.
    let flags = unsafe { bindings::rdma_sock_helper_wq_lock(head) };
    // SAFETY: The queue is locked.
    let first = unsafe { first_attachment(head.cast()) };
    // SAFETY: The lock of the queue, which protects `quiet`, is held; the attachment cannot go.
    let set_quiet = |on| unsafe {
        if let Some(first) = first {
            *(*first).quiet.get() = on;
        }
    };
    set_quiet(true);
    // SAFETY: The queue is valid and locked.
    unsafe {
        match events {
            None => bindings::rdma_sock_helper_wake_locked(head),
            Some(events) => bindings::rdma_sock_helper_wake_locked_key(head, events.bits()),
        }
    }
    set_quiet(false);
    // SAFETY: Taken above.
    unsafe { bindings::rdma_sock_helper_wq_unlock(head, flags) };
}

/// The attachment on a queue. It is always the first entry.
///
/// # Safety
///
/// The queue must be locked.
unsafe fn first_attachment(
    head: *mut kernel::bindings::wait_queue_head,
) -> Option<*const Attachment> {
    // SAFETY: By this function's contract the list does not change.
    unsafe {
        let list = &raw mut (*head).head;
        let first = (*list).next;
        if first == list {
            return None;
        }
        let entry = container_of!(first, kernel::bindings::wait_queue_entry, entry);
        let ours: unsafe extern "C" fn(_, _, _, _) -> _ = on_wake;
        ((*entry).func.is_some_and(|f| ptr::fn_addr_eq(f, ours)))
            .then(|| container_of!(Opaque::cast_from(entry), Attachment, entry))
    }
}

impl Attachment {
    /// The attachment of a sock, if it has one. It is valid until the end of the RCU read section
    /// or, for the caller of a socket operation, of the operation.
    pub(super) fn of(sk: *mut bindings::sock) -> *const Attachment {
        // SAFETY: The callers pass a valid full sock.
        let tagged = unsafe { bindings::rdma_sock_helper_user_data(sk) } as usize;
        let this = (tagged & !TAG_MASK) as *const Attachment;
        if tagged & TAG_MASK != TAG || this.is_null() {
            return ptr::null();
        }
        // SAFETY: With the tag this is an object that its module frees after a grace period, like
        // ours. It is larger than the first members of a wait-queue entry, which are read as plain
        // words.
        let func = unsafe { ptr::read_volatile((&raw const (*this).entry).cast::<Head>()) }.func;
        let ours: WakeFn = on_wake;
        if func == ours as usize {
            this
        } else {
            ptr::null()
        }
    }

    /// Puts the entry on the queue of `socket`, whose options of the level `SOL_SOCKET` come to its
    /// own operations from now on.
    ///
    /// # Safety
    ///
    /// `this` must be the attachment of the sock of `socket`, and `sk_callback_lock` be held.
    unsafe fn enqueue(this: *const Self, socket: *mut kernel::bindings::socket) {
        // SAFETY: By this function's contract; the entry is not on a queue if `queued` is false.
        unsafe {
            if !*(*this).queued.get() {
                *(*this).queued.get() = true;
                bindings::rdma_sock_helper_set_own_options(socket.cast());
                kernel::bindings::add_wait_queue_priority(
                    &raw mut (*socket).wq.wait,
                    (*this).entry.get(),
                );
            }
        }
    }

    /// Takes the entry off the queue of `socket`. No callback runs after return.
    ///
    /// # Safety
    ///
    /// As for [`Self::enqueue`].
    unsafe fn dequeue(this: *const Self, socket: *mut kernel::bindings::socket) -> bool {
        // SAFETY: By this function's contract; the entry is on this queue if `queued` is true.
        unsafe {
            let was = *(*this).queued.get();
            if was {
                *(*this).queued.get() = false;
                kernel::bindings::remove_wait_queue(
                    &raw mut (*socket).wq.wait,
                    (*this).entry.get(),
                );
            }
            was
        }
    }

    /// Removes the attachment of the sock of `socket`, if there is one, before it is released.
    ///
    /// # Safety
    ///
    /// No other call of the socket may be running or begin. `sk` must be the sock of `socket`.
    pub(super) unsafe fn remove(sk: &Sock, socket: *mut kernel::bindings::socket) {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_callback_lock(sk.as_raw()) };
        let mut this = Self::of(sk.as_raw());
        if this.is_null() {
            // Another module may have overwritten `sk_user_data` without a check. The entry is
            // still there. SAFETY: The socket is valid by this function's contract.
            unsafe {
                let head = &raw mut (*socket).wq.wait;
                let flags = bindings::rdma_sock_helper_wq_lock(head.cast());
                this = first_attachment(head).unwrap_or(ptr::null());
                bindings::rdma_sock_helper_wq_unlock(head.cast(), flags);
            }
        } else {
            // SAFETY: The sock is valid and `sk_callback_lock` held.
            unsafe { bindings::rdma_sock_helper_set_user_data(sk.as_raw(), ptr::null_mut()) };
        }
        if !this.is_null() {
            // SAFETY: `sk_callback_lock` is held.
            unsafe { Self::dequeue(this, socket) };
        }
        // From here on the sock may outlive this module, see `Sock::hide_queue`.
        sk.show_queue();
        // SAFETY: Taken above.
        unsafe { bindings::rdma_sock_helper_callback_unlock(sk.as_raw()) };
        if this.is_null() {
            return;
        }
        // SAFETY: The attachment has left its queue and its sock, and by this function's contract
        // no operation uses it. Hooks may still read the atomics in an RCU read section, so the
        // memory is freed after a grace period.
        unsafe {
            ((*this).free)((*this).data);
            bindings::rdma_sock_helper_kfree_rcu((*this).rcu.get().cast(), this.cast_mut().cast());
        }
    }

    /// Moves the sock of `from` with its attachment to `to`, by `graft`.
    ///
    /// # Safety
    ///
    /// The lock of the sock must be held, no other call of `from` may be running or begin, `to`
    /// must have no sock, and `graft` must put the sock on `to`.
    pub(super) unsafe fn carry(
        sk: &Sock,
        from: *mut kernel::bindings::socket,
        to: *mut kernel::bindings::socket,
        graft: impl FnOnce(),
    ) {
        let this = Self::of(sk.as_raw());
        let mut queued = false;
        if !this.is_null() {
            // SAFETY: The sock is valid, the attachment is the sock's.
            unsafe {
                bindings::rdma_sock_helper_callback_lock(sk.as_raw());
                queued = Self::dequeue(this, from);
                bindings::rdma_sock_helper_callback_unlock(sk.as_raw());
            }
        }
        graft();
        if queued {
            // SAFETY: As above, and `to` is the socket of the sock now.
            unsafe {
                bindings::rdma_sock_helper_callback_lock(sk.as_raw());
                Self::enqueue(this, to);
                bindings::rdma_sock_helper_callback_unlock(sk.as_raw());
                // Report now the events that the move kept back. Later ones wait for the lock.
                if !bindings::rdma_sock_helper_sk_is_quiet(sk.as_raw()) {
                    for event in [WakeEvent::Data, WakeEvent::State] {
                        let _ = ((*this).call)((*this).data, event);
                    }
                }
            }
        }
    }
}

impl Sock {
    /// Keeps TCP's receive queue from io_uring, which reads it past the operations of the socket,
    /// if the sock has a context.
    ///
    /// Context: any. Interrupts must be on. Never called from [`TcpEvents`] callbacks.
    pub(crate) fn hide_queue(&self) {
        // SAFETY: By the type invariants the sock is valid.
        if unsafe { bindings::rdma_sock_helper_is_hidden(self.as_raw()) } {
            return;
        }
        // SAFETY: The sock is valid, and what is locked here is unlocked at the end. The protocol
        // that the sock gets is in this module. The context shows that the socket, or a detached,
        // holds the module; its removal, which is kept away by the lock, gives TCP's protocol back.
        unsafe {
            bindings::rdma_sock_helper_callback_lock(self.as_raw());
            if !Attachment::of(self.as_raw()).is_null() {
                bindings::rdma_sock_helper_hide_queue(self.as_raw(), true);
            }
            bindings::rdma_sock_helper_callback_unlock(self.as_raw());
        }
    }

    /// Undoes [`Self::hide_queue`].
    ///
    /// Context: any.
    pub(crate) fn show_queue(&self) {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_hide_queue(self.as_raw(), false) }
    }
}

impl Socket {
    /// Binds `context` to the sock and lets it see the events, until the sock is released.
    ///
    /// Fails with `EBUSY` if the sock has a context already, or belongs to a BPF map or another
    /// layer: then it has to be left alone.
    pub(crate) fn attach<T: TcpEvents>(&self, context: Arc<T>) -> Result {
        let sk = self.sk();
        let att = KBox::new(
            Attachment {
                entry: Opaque::zeroed(),
                rcu: Opaque::zeroed(),
                id: TypeId::of::<T>(),
                data: ptr::null(),
                call: call::<T>,
                free: free::<T>,
                quiet: core::cell::UnsafeCell::new(false),
                queued: core::cell::UnsafeCell::new(false),
                option: AtomicU32::new(0),
                nonce: AtomicU32::new(0),
            },
            GFP_KERNEL,
        )?;
        let att = KBox::into_raw(att);
        // SAFETY: `att` is valid and not published yet.
        // INVARIANT: `data` owns the reference of `context`, and belongs to `T` like `call`.
        unsafe {
            (*att).data = Arc::into_raw(context).cast();
            bindings::rdma_sock_helper_init_wait_func((*att).entry.get().cast(), Some(on_wake));
        }
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_callback_lock(sk.as_raw()) };
        // SAFETY: As above.
        let free_slot = unsafe { bindings::rdma_sock_helper_user_data(sk.as_raw()) }.is_null();
        if free_slot {
            // SAFETY: `sk_callback_lock` is held, and `att` is the attachment of the sock.
            unsafe {
                bindings::rdma_sock_helper_set_user_data(
                    sk.as_raw(),
                    (att as usize | TAG) as *mut c_void,
                );
                Attachment::enqueue(att, self.as_raw());
            }
        }
        // SAFETY: Taken above.
        unsafe { bindings::rdma_sock_helper_callback_unlock(sk.as_raw()) };
        if free_slot {
            return Ok(());
        }
        // SAFETY: `att` was not published.
        unsafe {
            free::<T>((*att).data);
            drop(KBox::from_raw(att));
        }
        Err(EBUSY)
    }

    /// The context given to [`Self::attach`], if there is one and it is a `T`.
    pub(crate) fn context<T: TcpEvents>(&self) -> Option<ArcBorrow<'_, T>> {
        let att = Attachment::of(self.sk().as_raw());
        if att.is_null() {
            return None;
        }
        // SAFETY: The attachment lives until the release of the socket, which cannot begin while
        // this borrow of the socket lives. If it is a `T`, `data` came from `Arc::<T>::into_raw`.
        unsafe { ((*att).id == TypeId::of::<T>()).then(|| ArcBorrow::from_raw((*att).data.cast())) }
    }

    /// The word of the option back ends, see [`super::option`].
    pub(super) fn option_word<R>(&self, f: impl FnOnce(&AtomicU32, &AtomicU32) -> R) -> Option<R> {
        let att = Attachment::of(self.sk().as_raw());
        // SAFETY: As in `context`.
        (!att.is_null()).then(|| unsafe { f(&(*att).option, &(*att).nonce) })
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_sock_kapi_net_events)]
mod tests {
    use super::*;

    /// Memory that is larger than a sock, of which only the user data are looked at.
    type SockMemory = [u64; 512];
    const FUNC: usize = offset_of!(Head, func) / size_of::<usize>();

    // The tag alone is that of `net/smc`, too.
    #[test]
    fn user_data_of_other_modules_is_no_attachment() -> Result {
        let mut memory = KBox::new([0u64; 512] as SockMemory, GFP_KERNEL)?;
        let sk: *mut bindings::sock = memory.as_mut_ptr().cast();
        let mut object = KBox::new([0usize; 8], GFP_KERNEL)?;
        let address = object.as_mut_ptr() as usize;
        let ours: WakeFn = on_wake;
        let set = |tagged: usize| {
            // SAFETY: The memory has room for a sock.
            unsafe { bindings::rdma_sock_helper_set_user_data(sk, tagged as *mut c_void) }
        };
        for (func, tagged, found) in [
            (0, 0, false),
            (0, TAG, false),
            (0, address | TAG, false),
            (usize::MAX, address | TAG, false),
            (ours as usize, address | TAG_MASK, false),
            (ours as usize, address, false),
            (ours as usize, address | TAG, true),
        ] {
            object[FUNC] = func;
            set(tagged);
            let att = Attachment::of(sk);
            assert_eq!(!att.is_null(), found);
            assert!(!found || att as usize == address);
        }
        set(0);
        Ok(())
    }
}
