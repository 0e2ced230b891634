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
    array,
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
const PLACES: usize = 5;

/// The registered tables, for [`create`].
static TABLES: [AtomicPtr<Tables>; PLACES] = [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];

/// The type of a family's `create`.
type CreateFn =
    unsafe extern "C" fn(*mut kb::net, *mut kb::socket, ffi::c_int, ffi::c_int) -> ffi::c_int;

/// Families of our own that a registration can have.
const FAMILIES: usize = 2;

/// The `create` of each family of the registration at each place. The kernel does not pass the
/// number of the family.
const CREATE: [[CreateFn; FAMILIES]; PLACES] = [
    [create::<0, 0>, create::<0, 1>],
    [create::<1, 0>, create::<1, 1>],
    [create::<2, 0>, create::<2, 1>],
    [create::<3, 0>, create::<3, 1>],
    [create::<4, 0>, create::<4, 1>],
];

/// A socket family of our own.
#[derive(Clone, Copy)]
pub(crate) struct SocketFamily {
    /// Its number.
    pub(crate) number: u16,
    /// The protocol arguments of `socket` that it takes, each with the Internet family of the socket.
    pub(crate) protocols: &'static [(i32, u16)],
    /// Whether the registration does without it if the number is taken.
    pub(crate) is_optional: bool,
}

/// The tables at a place; null for none. Context: any.
fn tables_at(place: usize) -> *mut Tables {
    TABLES.get(place).map_or(ptr::null_mut(), |tables| {
        // Pairs with the `AcqRel` in `FamilyRegistration::new`.
        tables.load(Ordering::Acquire)
    })
}

/// The tables the kernel keeps pointers to. They are never freed: see the drop of [`FamilyRegistration`].
struct Tables {
    /// For sockets of IPv4, of IPv6, and of the families of our own.
    ops: [kb::proto_ops; 2],
    own_ops: [kb::proto_ops; FAMILIES],
    prot: [Opaque<bindings::proto>; 2],
    protosw: [Opaque<bindings::inet_protosw>; 2],
    families: [kb::net_proto_family; FAMILIES],
    /// The families of our own, no more than [`FAMILIES`].
    own: &'static [SocketFamily],
    ipproto: i32,
}

/// How far the registration of the Internet protocol has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FamilyStage {
    Nothing,
    Inet,
    Inet6,
}

/// An Internet protocol and its families of our own, registered, whose sockets the engine `T` serves.
///
/// Dropping it ends the creation of sockets; no socket may exist then, which the module references
/// that sockets hold see to.
///
/// # Invariants
///
/// `tables` came from a `KBox` and is never freed; `stage` and `has_family` show which of them are
/// registered. `TABLES` has it at `place`, of which no other registration has the same.
pub(crate) struct FamilyRegistration<T: SocketOps> {
    tables: *mut Tables,
    place: usize,
    stage: FamilyStage,
    has_family: [bool; FAMILIES],
    _engine: PhantomData<T>,
}

// SAFETY: Nothing of it depends on the thread.
unsafe impl<T: SocketOps> Send for FamilyRegistration<T> {}
// SAFETY: As above; there are no methods.
unsafe impl<T: SocketOps> Sync for FamilyRegistration<T> {}

impl<T: SocketOps> FamilyRegistration<T> {
    /// Registers `socket(AF_INET or AF_INET6, SOCK_STREAM, ipproto)`, and up to [`FAMILIES`] families
    /// of our own. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a family is taken that is not optional, `EINVAL` for too many families.
    pub(crate) fn new(own: &'static [SocketFamily], ipproto: u16) -> Result<Self> {
        if own.len() > FAMILIES {
            return Err(EINVAL);
        }
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
                ],
                own_ops: array::from_fn(|n| {
                    let number = own.get(n).map_or(AF_INET, |family| family.number);
                    OpsVTable::<T>::table(inet, number)
                }),
                prot: [Opaque::zeroed(), Opaque::zeroed()],
                protosw: [Opaque::zeroed(), Opaque::zeroed()],
                families: array::from_fn(|n| kb::net_proto_family {
                    family: own.get(n).map_or(0, |family| i32::from(family.number)),
                    create: None,
                    // SAFETY: Always safe to call.
                    owner: unsafe { bindings::rdma_sock_helper_this_module() }.cast(),
                }),
                own,
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
            for (family, create) in tables.families.iter_mut().zip(create) {
                family.create = Some(create);
            }
            let raw = KBox::into_raw(tables);
            let entered =
                entry.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Relaxed);
            if entered.is_ok() {
                // INVARIANT: Nothing is registered yet, and the place was free.
                return Ok(Self {
                    tables: raw,
                    place,
                    stage: FamilyStage::Nothing,
                    has_family: [false; FAMILIES],
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
    /// `EBUSY` if a family is taken that is not optional, or those of the kernel. Dropping the registration undoes what
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
            let [ops, ops6] = &(*tables).ops;
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
            let families = (*tables).own.iter().zip(&(*tables).families);
            for ((own, family), has_family) in families.zip(&mut self.has_family) {
                match to_result(kb::sock_register(family)) {
                    Ok(()) => *has_family = true,
                    Err(err) if err == EEXIST && own.is_optional => {}
                    Err(err) if err == EEXIST => return Err(EBUSY),
                    Err(err) => return Err(err),
                }
            }
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
            for (family, has_family) in (*self.tables).families.iter().zip(self.has_family) {
                if has_family {
                    kb::sock_unregister(family.family);
                }
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
            (&raw mut (*self.tables).ops).write([*inet, *inet6]);
            (&raw mut (*self.tables).own_ops).write([*inet; FAMILIES]);
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
        !tables.is_null()
            // SAFETY: The tables of a registration are never freed.
            && unsafe {
                (*tables).ops.as_ptr_range().contains(&ops)
                    || (*tables).own_ops.as_ptr_range().contains(&ops)
            }
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

/// The `create` of a family of the registration at a place: a socket of the internet family lends its sock.
///
/// # Safety
///
/// Called by `__sock_create` with a new socket.
unsafe extern "C" fn create<const PLACE: usize, const OWN: usize>(
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
        let tables = tables_at(PLACE);
        if tables.is_null() {
            return Err(EAFNOSUPPORT);
        }
        // SAFETY: The tables stay, because the caller holds a reference to the module.
        let families = unsafe { &(*tables).own };
        let own = families.get(OWN).ok_or(EAFNOSUPPORT)?;
        let known = own.protocols.iter().find(|(number, _)| *number == protocol);
        let &(_, family) = known.ok_or(EPROTONOSUPPORT)?;
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
            let ops = &(*tables).own_ops;
            (*sock).ops = ops.get(OWN).map_or(ptr::null(), ptr::from_ref);
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
    use crate::kapi::net::sock::Family;

    /// An engine that leaves all calls to TCP.
    struct PlainOps;

    impl SocketOps for PlainOps {}

    // Families that no protocol of the kernel has, and protocols beside those of the engines.
    const FIRST: (u16, u16) = (25, 260);
    const SECOND: (u16, u16) = (22, 259);
    /// A protocol argument of the second family.
    const SIX: i32 = 6;

    const fn family(number: u16, is_optional: bool) -> SocketFamily {
        SocketFamily {
            number,
            protocols: &[(0, AF_INET), (SIX, AF_INET6)],
            is_optional,
        }
    }

    static FIRST_OWN: [SocketFamily; 1] = [family(FIRST.0, false)];
    static SECOND_OWN: [SocketFamily; 1] = [family(SECOND.0, false)];
    static BOTH_OWN: [SocketFamily; 2] = [family(FIRST.0, true), family(SECOND.0, true)];
    static THREE_OWN: [SocketFamily; 3] = [family(FIRST.0, true); 3];

    /// A socket of a family, closed on drop.
    struct Made(*mut kb::socket);

    impl Made {
        fn new(family: u16) -> Result<Self> {
            Self::with(family, 0)
        }

        fn with(family: u16, protocol: i32) -> Result<Self> {
            let mut sock = ptr::null_mut();
            // SAFETY: The initial namespace always exists; `sock` is a place for the result.
            to_result(unsafe {
                kb::__sock_create(
                    &raw mut kb::init_net,
                    i32::from(family),
                    i32::from(SOCK_STREAM),
                    protocol,
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

    impl Made {
        fn is_inet6(&self) -> bool {
            // SAFETY: The socket is this object's, and has a sock.
            let family = unsafe { Socket::from_raw(self.0) }.sk().family();
            matches!(family, Family::V6)
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
        let first = FamilyRegistration::<PlainOps>::new(&FIRST_OWN, FIRST.1)?;
        let second = FamilyRegistration::<PlainOps>::new(&SECOND_OWN, SECOND.1)?;
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
        let _first = FamilyRegistration::<PlainOps>::new(&FIRST_OWN, FIRST.1)?;
        for _ in 0..=PLACES {
            let again = FamilyRegistration::<PlainOps>::new(&FIRST_OWN, SECOND.1);
            assert!(again.is_err_and(|error| error == EBUSY));
        }
        drop(FamilyRegistration::<PlainOps>::new(&SECOND_OWN, SECOND.1)?);
        Ok(())
    }

    #[test]
    fn protocol_argument_decides_the_internet_family() -> Result {
        let _both = FamilyRegistration::<PlainOps>::new(&BOTH_OWN, FIRST.1)?;
        for number in [FIRST.0, SECOND.0] {
            let sockets = [Made::new(number)?, Made::with(number, SIX)?];
            assert!(sockets.iter().all(|made| is_ours(made.ops())));
            assert_eq!(sockets.each_ref().map(Made::is_inet6), [false, true]);
            let refused = Made::with(number, 1);
            assert!(refused.is_err_and(|error| error == EPROTONOSUPPORT));
        }
        Ok(())
    }

    #[test]
    fn taken_optional_family_stays_with_its_owner() -> Result {
        let first = FamilyRegistration::<PlainOps>::new(&FIRST_OWN, FIRST.1)?;
        let both = FamilyRegistration::<PlainOps>::new(&BOTH_OWN, SECOND.1)?;
        assert_eq!(both.has_family, [false, true]);
        drop(both);
        assert!(Made::new(SECOND.0).is_err());
        assert!(is_ours(Made::new(FIRST.0)?.ops()));
        drop(first);
        assert!(Made::new(FIRST.0).is_err());
        Ok(())
    }

    #[test]
    fn too_many_families_are_refused() {
        let three = FamilyRegistration::<PlainOps>::new(&THREE_OWN, FIRST.1);
        assert!(three.is_err_and(|error| error == EINVAL));
    }
}
