// SPDX-License-Identifier: GPL-2.0

//! Network namespaces.
//!
//! C header: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use crate::bindings;
use core::{
    marker::PhantomData,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    bindings as kb,
    error::{
        from_result,
        to_result, //
    },
    ffi,
    prelude::*,
    types::Opaque, //
};

/// A reference to a network namespace, which lives as long as there is one.
///
/// # Invariants
///
/// The pointer is valid and this object owns a reference.
pub(crate) struct NetRef(NonNull<kb::net>);

// SAFETY: References to namespaces may be used and dropped anywhere.
unsafe impl Send for NetRef {}
// SAFETY: As above.
unsafe impl Sync for NetRef {}

impl NetRef {
    /// # Safety
    ///
    /// `net` must be a namespace to which the caller has a reference.
    pub(super) unsafe fn get(net: *mut kb::net) -> Self {
        // SAFETY: By this function's contract.
        unsafe { bindings::rdma_sock_helper_get_net(net) };
        // INVARIANT: The reference was just taken. `sock_net()` is never null.
        // SAFETY: As above.
        Self(unsafe { NonNull::new_unchecked(net) })
    }

    /// # Safety
    ///
    /// `net` must be a namespace with a reference that the caller owns, which becomes this object's.
    pub(in crate::kapi) unsafe fn from_owned(net: NonNull<kb::net>) -> Self {
        // INVARIANT: By this function's contract.
        Self(net)
    }

    /// The pointer for C.
    pub(in crate::kapi) fn as_raw(&self) -> *mut kb::net {
        self.0.as_ptr()
    }
}

impl Clone for NetRef {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariants there is a reference.
        unsafe { Self::get(self.as_raw()) }
    }
}

impl Deref for NetRef {
    type Target = Net;

    fn deref(&self) -> &Net {
        // SAFETY: By the type invariants the namespace lives as long as this reference, and `Net` is
        // transparent.
        unsafe { &*self.as_raw().cast::<Net>() }
    }
}

impl PartialEq for NetRef {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for NetRef {}

impl Drop for NetRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_sock_helper_put_net(self.as_raw()) }
    }
}

/// What happens to network namespaces. All functions may sleep.
pub(crate) trait NetOps: Send + Sync + 'static {
    /// A namespace exists: once for each, now or when it is made.
    fn init(net: &Net) -> Result;

    /// A namespace goes away, or the registration.
    fn exit(net: &Net);
}

/// A network namespace that is there for the time of a call.
///
/// # Invariants
///
/// The namespace is valid for the lifetime of the reference.
#[repr(transparent)]
pub(crate) struct Net(Opaque<kb::net>);

impl Net {
    /// The namespace that the host began with.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(crate) fn initial() -> &'static Self {
        // SAFETY: This namespace always exists, and `Net` is transparent.
        unsafe { &*bindings::rdma_sock_helper_init_net().cast::<Self>() }
    }

    /// The pointer for C.
    pub(in crate::kapi) fn as_raw(&self) -> *mut kb::net {
        self.0.get()
    }

    /// Whether it is the one the host began with.
    pub(crate) fn is_initial(&self) -> bool {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_sock_helper_is_init_net(self.as_raw()) }
    }

    /// The cookie, a number that is unique to this namespace.
    pub(crate) fn cookie(&self) -> u64 {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_sock_helper_net_cookie(self.as_raw()) }
    }
}

/// A registered [`NetOps`].
///
/// # Invariants
///
/// `ops` is registered.
pub(crate) struct NetRegistration<T: NetOps> {
    ops: KBox<Opaque<bindings::pernet_operations>>,
    _ops: PhantomData<T>,
}

// SAFETY: The operations are only used by the kernel, under its own lock.
unsafe impl<T: NetOps> Send for NetRegistration<T> {}
// SAFETY: As above.
unsafe impl<T: NetOps> Sync for NetRegistration<T> {}

impl<T: NetOps> NetRegistration<T> {
    /// Registers the operations and runs `init` for the namespaces that exist. Context: may sleep.
    pub(crate) fn new() -> Result<Self> {
        let ops = KBox::new(Opaque::<bindings::pernet_operations>::zeroed(), GFP_KERNEL)?;
        // SAFETY: The operations are ours, and do not move or go before they are unregistered.
        unsafe {
            (*ops.get()).init = Some(Self::init);
            (*ops.get()).exit = Some(Self::exit);
            to_result(bindings::register_pernet_subsys(ops.get()))?;
        }
        // INVARIANT: Just registered.
        Ok(Self {
            ops,
            _ops: PhantomData,
        })
    }

    /// # Safety
    ///
    /// Called by the kernel with a namespace.
    unsafe extern "C" fn init(net: *mut kb::net) -> ffi::c_int {
        // SAFETY: The kernel gives a valid namespace. `Net` is transparent.
        from_result(|| T::init(unsafe { &*net.cast() }).map(|()| 0))
    }

    /// # Safety
    ///
    /// Called by the kernel with a namespace that was given to `init`.
    unsafe extern "C" fn exit(net: *mut kb::net) {
        // SAFETY: As above.
        T::exit(unsafe { &*net.cast() })
    }
}

impl<T: NetOps> Drop for NetRegistration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::unregister_pernet_subsys(self.ops.get()) }
    }
}
