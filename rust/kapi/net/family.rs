// SPDX-License-Identifier: GPL-2.0

//! Registration of socket families whose socks are TCP socks.
//!
//! A sock of ours is created by `inet_create()` from a private copy of TCP's `struct proto`. The
//! copy shares everything with the original, but has this module as its owner and an initialisation
//! of its own, which makes the sock a TCP sock at once: protocol 6, TCP's `struct proto`. All that
//! remains of us is `sk_prot_creator`, until [`Socket::settle`] puts that right, too.
//!
//! C headers: [`include/net/protocol.h`](srctree/include/net/protocol.h),
//! [`include/linux/net.h`](srctree/include/linux/net.h)

use super::{
    addr::{
        AF_INET,
        AF_INET6, //
    },
    ops::{
        OpsVTable,
        SocketOps, //
    },
    socket::Socket,
};
use crate::{
    bindings,
    kapi::compat::errno::{
        EAFNOSUPPORT,
        EPROTONOSUPPORT,
        ESOCKTNOSUPPORT, //
    },
};
use core::{
    marker::PhantomData,
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
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

/// `SOCK_STREAM`, `IPPROTO_TCP`.
const SOCK_STREAM: i16 = 1;
const IPPROTO_TCP: u16 = 6;
/// `INET_PROTOSW_ICSK`.
const PROTOSW_ICSK: u8 = 4;

/// Registrations that can exist at a time.
const PLACES: usize = 4;

/// The registered tables, for [`create`].
static TABLES: [AtomicPtr<Tables>; PLACES] = [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];

/// The type of a family's `create`.
type CreateFn =
    unsafe extern "C" fn(*mut kb::net, *mut kb::socket, ffi::c_int, ffi::c_int) -> ffi::c_int;

/// The `create` of the registration at each place. The kernel does not pass the number of the
/// family.
const CREATE: [CreateFn; PLACES] = [create::<0>, create::<1>, create::<2>, create::<3>];

/// The tables at a place; null for none. Context: any.
fn tables_at(place: usize) -> *mut Tables {
    TABLES.get(place).map_or(ptr::null_mut(), |tables| {
        // Pairs with the `AcqRel` in `FamilyRegistration::new`.
        tables.load(Ordering::Acquire)
    })
}

/// The tables the kernel keeps pointers to. They are never freed: see the drop of [`FamilyRegistration`].
struct Tables {
    /// For sockets of IPv4, of IPv6, and of the family of our own.
    ops: [kb::proto_ops; 3],
    prot: [Opaque<bindings::proto>; 2],
    protosw: [Opaque<bindings::inet_protosw>; 2],
    family: kb::net_proto_family,
    ipproto: i32,
}

/// How far a registration has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FamilyStage {
    Nothing,
    Inet,
    Inet6,
    Family,
}

/// A registered family and internet protocol, whose sockets the engine `T` serves.
///
/// Dropping it ends the creation of sockets; no socket may exist then, which the module references
/// that sockets hold see to.
///
/// # Invariants
///
/// `tables` came from a `KBox` and is never freed; `stage` shows which of them are registered.
/// `TABLES` has it at `place`, of which no other registration has the same.
pub(crate) struct FamilyRegistration<T: SocketOps> {
    tables: *mut Tables,
    place: usize,
    stage: FamilyStage,
    _engine: PhantomData<T>,
}

// SAFETY: Nothing of it depends on the thread.
unsafe impl<T: SocketOps> Send for FamilyRegistration<T> {}
// SAFETY: As above; there are no methods.
unsafe impl<T: SocketOps> Sync for FamilyRegistration<T> {}

impl<T: SocketOps> FamilyRegistration<T> {
    /// Registers `socket(family, SOCK_STREAM, 0)` (IPv4) and 1 (IPv6), and
    /// `socket(AF_INET or AF_INET6, SOCK_STREAM, ipproto)`.
    ///
    /// Fails with `EBUSY` if the family is taken. Context: may sleep.
    pub(crate) fn new(family: u16, ipproto: u16) -> Result<Self> {
        // SAFETY: The tables and protocols of TCP live as long as the kernel.
        let (inet, inet6, tcp, tcpv6): (&kb::proto_ops, &kb::proto_ops, _, _) = unsafe {
            (
                &*bindings::rdma_sock_helper_inet_ops().cast(),
                &*bindings::rdma_sock_helper_inet6_ops().cast(),
                bindings::rdma_sock_helper_tcp_prot(),
                bindings::rdma_sock_helper_tcpv6_prot(),
            )
        };
        let tables = KBox::new(
            Tables {
                ops: [
                    OpsVTable::<T>::table(inet, AF_INET),
                    OpsVTable::<T>::table(inet6, AF_INET6),
                    OpsVTable::<T>::table(inet, family),
                ],
                prot: [Opaque::zeroed(), Opaque::zeroed()],
                protosw: [Opaque::zeroed(), Opaque::zeroed()],
                family: kb::net_proto_family {
                    family: i32::from(family),
                    create: None,
                    // SAFETY: Always safe to call.
                    owner: unsafe { bindings::rdma_sock_helper_this_module() }.cast(),
                },
                ipproto: i32::from(ipproto),
            },
            GFP_KERNEL,
        )?;
        let mut this = Self::place(tables)?;
        this.register(ipproto, [tcp, tcpv6])?;
        Ok(this)
    }

    /// Enters the tables at a free place. Context: any.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there is none.
    fn place(mut tables: KBox<Tables>) -> Result<Self> {
        for (place, (entry, create)) in TABLES.iter().zip(CREATE).enumerate() {
            tables.family.create = Some(create);
            let raw = KBox::into_raw(tables);
            let entered =
                entry.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Relaxed);
            if entered.is_ok() {
                // INVARIANT: Nothing is registered yet, and the place was free.
                return Ok(Self {
                    tables: raw,
                    place,
                    stage: FamilyStage::Nothing,
                    _engine: PhantomData,
                });
            }
            // SAFETY: It came from `into_raw` above, and the place did not take it.
            tables = unsafe { KBox::from_raw(raw) };
        }
        Err(ENOSPC)
    }

    /// Registers the tables. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the family is taken, or those of the kernel. Dropping the registration undoes what
    /// was done.
    fn register(&mut self, ipproto: u16, [tcp, tcpv6]: [*mut bindings::proto; 2]) -> Result {
        let tables = self.tables;
        // SAFETY: The tables do not move. `tcp` and `tcpv6` are TCP's protocols. What is registered
        // is in the order of `FamilyStage`, and undone by `drop`.
        unsafe {
            let [prot, prot6] = &(*tables).prot;
            bindings::rdma_sock_helper_proto_copy(prot.get(), tcp, Some(init));
            bindings::rdma_sock_helper_proto_copy(prot6.get(), tcpv6, Some(init));
            let [sw, sw6] = &(*tables).protosw;
            let [ops, ops6, _] = &(*tables).ops;
            for (sw, prot, ops) in [(sw, prot, ops), (sw6, prot6, ops6)] {
                let sw = sw.get();
                (*sw).type_ = SOCK_STREAM.unsigned_abs();
                (*sw).protocol = ipproto;
                (*sw).prot = prot.get();
                (*sw).ops = ptr::from_ref(ops).cast();
                (*sw).flags = PROTOSW_ICSK;
            }
            bindings::rdma_sock_helper_hide_init();
            bindings::inet_register_protosw(sw.get());
            self.stage = FamilyStage::Inet;
            to_result(bindings::inet6_register_protosw(sw6.get()))?;
            self.stage = FamilyStage::Inet6;
            to_result(kb::sock_register(&raw const (*tables).family)).map_err(|err| {
                if err == EEXIST {
                    EBUSY
                } else {
                    err
                }
            })?;
            self.stage = FamilyStage::Family;
        }
        Ok(())
    }
}

impl<T: SocketOps> Drop for FamilyRegistration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. The functions wait for the lookup of a socket call that
        // found the tables, but not for what the call does next: `sk_alloc` may sleep before it
        // asks for a reference to the module, which it does not get while the module goes. So the
        // tables stay, and are TCP's when the module is gone: a call that comes late makes a TCP
        // socket. Left is the window of every module, a few instructions between the load of the
        // owner and its use.
        unsafe {
            let [sw, sw6] = &(*self.tables).protosw;
            if self.stage >= FamilyStage::Family {
                kb::sock_unregister((*self.tables).family.family);
            }
            if self.stage >= FamilyStage::Inet6 {
                bindings::inet6_unregister_protosw(sw6.get());
            }
            if self.stage >= FamilyStage::Inet {
                bindings::inet_unregister_protosw(sw.get());
            }
            if let Some(entry) = TABLES.get(self.place) {
                entry.store(ptr::null_mut(), Ordering::Release);
            }
            bindings::synchronize_net();
            let inet: *const kb::proto_ops = bindings::rdma_sock_helper_inet_ops().cast();
            let inet6: *const kb::proto_ops = bindings::rdma_sock_helper_inet6_ops().cast();
            (&raw mut (*self.tables).ops).write([*inet, *inet6, *inet]);
            let [prot, prot6] = &(*self.tables).prot;
            let tcp = bindings::rdma_sock_helper_tcp_prot();
            bindings::rdma_sock_helper_proto_restore(prot.get(), tcp);
            let tcpv6 = bindings::rdma_sock_helper_tcpv6_prot();
            bindings::rdma_sock_helper_proto_restore(prot6.get(), tcpv6);
            bindings::rdma_sock_helper_not_leaked(self.tables.cast());
        }
    }
}

/// Whether the operations of a socket are ours.
pub(super) fn is_ours(ops: *const kb::proto_ops) -> bool {
    (0..PLACES).any(|place| {
        let tables = tables_at(place);
        // SAFETY: The tables of a registration are never freed.
        !tables.is_null() && unsafe { (*tables).ops.as_ptr_range().contains(&ops) }
    })
}

/// The `init` of our copies of TCP's protocols: makes the sock TCP's.
///
/// # Safety
///
/// Called by `inet_create` with a new sock made from one of the copies.
unsafe extern "C" fn init(sk: *mut kb::sock) -> ffi::c_int {
    let sk = sk.cast();
    // SAFETY: `inet_create` calls this with a new sock made from one of our copies.
    unsafe {
        let v6 = bindings::rdma_sock_helper_tcpv6_prot();
        let prot = if bindings::rdma_sock_helper_same_slab(sk, v6) {
            v6
        } else {
            bindings::rdma_sock_helper_tcp_prot()
        };
        bindings::rdma_sock_helper_set_prot(sk, prot);
        bindings::rdma_sock_helper_set_protocol(sk, IPPROTO_TCP);
        bindings::rdma_sock_helper_proto_init(prot, sk)
    }
}

/// The `create` of the family at a place: a socket of the internet family lends its sock.
///
/// # Safety
///
/// Called by `__sock_create` with a new socket.
unsafe extern "C" fn create<const PLACE: usize>(
    net: *mut kb::net,
    sock: *mut kb::socket,
    protocol: ffi::c_int,
    kern: ffi::c_int,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The socket is new.
        if unsafe { (*sock).type_ } != SOCK_STREAM {
            return Err(ESOCKTNOSUPPORT);
        }
        let family = match protocol {
            0 => AF_INET,
            1 => AF_INET6,
            _ => return Err(EPROTONOSUPPORT),
        };
        let tables = tables_at(PLACE);
        if tables.is_null() {
            return Err(EAFNOSUPPORT);
        }
        let mut lender = ptr::null_mut();
        // SAFETY: The arguments are the caller's; `lender` is a place for the result. The tables
        // stay, because the caller holds a reference to the module.
        to_result(unsafe {
            kb::__sock_create(
                net,
                i32::from(family),
                i32::from(SOCK_STREAM),
                (*tables).ipproto,
                &mut lender,
                kern,
            )
        })?;
        // SAFETY: Both sockets are known to this function alone. The lender has a TCP sock, the
        // other none.
        unsafe {
            let sk = (*lender).sk.cast::<bindings::sock>();
            (*lender).sk = ptr::null_mut();
            (*sock).state = kb::socket_state_SS_UNCONNECTED;
            let [_, _, ops] = &(*tables).ops;
            (*sock).ops = ops;
            bindings::rdma_sock_helper_set_zerocopy(
                sock.cast(),
                bindings::rdma_sock_helper_zerocopy(lender.cast()),
            );
            bindings::rdma_sock_helper_lock_sock(sk);
            bindings::rdma_sock_helper_sock_graft(sk, sock.cast());
            bindings::rdma_sock_helper_release_sock(sk);
            kb::sock_release(lender);
            // The caller holds a reference to the module until the socket has its own.
            Socket::from_raw(sock).settle();
        }
        Ok(0)
    })
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_sock_kapi_net_family)]
mod tests {
    use super::*;

    /// An engine that leaves all calls to TCP.
    struct PlainOps;

    impl SocketOps for PlainOps {}

    // Families that no protocol of the kernel has, and protocols beside those of the engines.
    const FIRST: (u16, u16) = (25, 259);
    const SECOND: (u16, u16) = (28, 258);

    /// A socket of a family, closed on drop.
    struct Made(*mut kb::socket);

    impl Made {
        fn new(family: u16) -> Result<Self> {
            let mut sock = ptr::null_mut();
            // SAFETY: The initial namespace always exists; `sock` is a place for the result.
            to_result(unsafe {
                kb::__sock_create(
                    &raw mut kb::init_net,
                    i32::from(family),
                    i32::from(SOCK_STREAM),
                    0,
                    &mut sock,
                    1,
                )
            })?;
            Ok(Self(sock))
        }

        fn ops(&self) -> *const kb::proto_ops {
            // SAFETY: The socket is this object's.
            unsafe { (*self.0).ops }
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            // SAFETY: The socket is this object's, and not used any longer.
            unsafe { kb::sock_release(self.0) };
        }
    }

    #[test]
    fn two_families_at_a_time_have_their_own_operations() -> Result {
        let first = FamilyRegistration::<PlainOps>::new(FIRST.0, FIRST.1)?;
        let second = FamilyRegistration::<PlainOps>::new(SECOND.0, SECOND.1)?;
        assert!(first.place != second.place);
        let sockets = [Made::new(FIRST.0)?, Made::new(SECOND.0)?];
        assert!(sockets.iter().all(|made| is_ours(made.ops())));
        assert!(sockets[0].ops() != sockets[1].ops());
        drop(sockets);
        drop(first);
        assert!(Made::new(FIRST.0).is_err());
        assert!(is_ours(Made::new(SECOND.0)?.ops()));
        Ok(())
    }

    #[test]
    fn refused_registrations_take_no_place() -> Result {
        let _first = FamilyRegistration::<PlainOps>::new(FIRST.0, FIRST.1)?;
        for _ in 0..=PLACES {
            let again = FamilyRegistration::<PlainOps>::new(FIRST.0, SECOND.1);
            assert!(again.is_err_and(|error| error == EBUSY));
        }
        drop(FamilyRegistration::<PlainOps>::new(SECOND.0, SECOND.1)?);
        Ok(())
    }
}
