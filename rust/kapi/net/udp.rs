// SPDX-License-Identifier: GPL-2.0

//! UDP sockets of the kernel itself, in a network namespace that may exit.
//!
//! Such a socket keeps the memory of its namespace, and does not delay its exit. So the owner drops
//! all sockets and the [`UdpNet`] of a namespace before its
//! [`NetOps::exit`](super::netns::NetOps::exit) returns: the protocols go after that.
//!
//! Datagrams and errors end in a wake of the wait queue of the `struct socket`, as those of TCP do
//! (see [`super::events`]). A [`UdpSocket`] has one entry on that queue. The lock of the queue keeps
//! the entry from leaving while a callback runs, so no callback runs after the drop, and none has to
//! be waited for by a grace period.
//!
//! A connected socket takes datagrams of its peer only, and the ICMP error of a closed port comes
//! back as `ECONNREFUSED`. A socket that is not connected sees no ICMP error.
//!
//! C headers: [`include/linux/net.h`](srctree/include/linux/net.h),
//! [`include/linux/wait.h`](srctree/include/linux/wait.h)

use super::{
    addr::{
        Addr,
        AF_INET,
        AF_INET6, //
    },
    netns::{
        Net,
        NetRef, //
    },
    poll::Events,
    sock::Family, //
};
use crate::{
    bindings,
    kapi::compat::errno::ENETDOWN, //
};
use core::{
    ffi::c_void,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    bindings as kb,
    container_of,
    error::to_result,
    ffi,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    types::Opaque, //
};

/// Octets that wait to be received, with their overhead, at most about twice as many.
const RECEIVE_BYTES: i32 = 64 << 10;

/// The owner of a [`UdpSocket`].
pub(crate) trait UdpEvents: Send + Sync + 'static {
    /// A datagram has come, or an error is pending.
    ///
    /// Runs in any context, with the wait queue of the socket locked and interrupts off. The
    /// function may use atomics and queue work. It takes no lock and does not use the socket.
    fn udp_event(this: ArcBorrow<'_, Self>);
}

/// A namespace in which sockets can be made until it exits.
///
/// # Invariants
///
/// The socket is bound to nothing, and stays so. It keeps the memory of its namespace.
pub(crate) struct UdpNet(RawUdp);

impl UdpNet {
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(net: &Net) -> Result<Arc<Self>> {
        // INVARIANT: The socket is new.
        let this = Self(RawUdp::new(net, Family::V4)?);
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// The namespace, unless its exit has begun. A reference delays the exit, so it is for the time
    /// of a call. Context: any.
    fn get(&self) -> Result<NetRef> {
        // SAFETY: The sock is valid, and keeps the memory of its namespace.
        let net = unsafe {
            bindings::rdma_sock_helper_maybe_get_net(bindings::rdma_sock_helper_sock_net(
                self.0.sk(),
            ))
        };
        // SAFETY: If the pointer is not null, the reference was just taken and is ours.
        NonNull::new(net).map_or(Err(ENETDOWN), |net| Ok(unsafe { NetRef::from_owned(net) }))
    }
}

/// A `struct socket` with an UDP sock.
///
/// # Invariants
///
/// The pointer is such a socket without a file, owned by this object.
struct RawUdp(NonNull<kb::socket>);

// SAFETY: Sockets may be used and released from any thread.
unsafe impl Send for RawUdp {}
// SAFETY: As above.
unsafe impl Sync for RawUdp {}

impl RawUdp {
    fn new(net: &Net, family: Family) -> Result<Self> {
        let number = match family {
            Family::V4 => AF_INET,
            Family::V6 => AF_INET6,
        };
        let mut raw = null_mut();
        // SAFETY: The namespace is valid for the time of the call, and `raw` is a place for the
        // result.
        to_result(unsafe {
            bindings::rdma_sock_helper_udp_create(net.as_raw(), number, RECEIVE_BYTES, &mut raw)
        })?;
        // INVARIANT: The socket was just made, and nothing else has the pointer.
        Ok(Self(NonNull::new(raw.cast()).ok_or(ENOMEM)?))
    }

    fn as_raw(&self) -> *mut bindings::socket {
        self.0.as_ptr().cast()
    }

    fn sk(&self) -> *mut bindings::sock {
        // SAFETY: By the type invariants the socket has its sock.
        unsafe { (*self.0.as_ptr()).sk.cast() }
    }

    /// The head of the wait queue.
    fn queue(&self) -> *mut kb::wait_queue_head {
        // SAFETY: By the type invariants the socket is valid.
        unsafe { &raw mut (*self.0.as_ptr()).wq.wait }
    }
}

impl Drop for RawUdp {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the socket is ours.
        unsafe { kb::sock_release(self.0.as_ptr()) }
    }
}

/// The entry on the wait queue of a socket.
#[pin_data]
struct UdpWatch<T: UdpEvents> {
    #[pin]
    entry: Opaque<kb::wait_queue_entry>,
    owner: Arc<T>,
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UdpReceived {
    /// Octets in the caller's buffer. Those beyond its size are lost.
    pub(crate) len: usize,
    /// The sender.
    pub(crate) from: Addr,
    /// The address that the datagram was sent to; the port is 0.
    pub(crate) to: Addr,
    /// That is an address of this host, and no group or broadcast address.
    pub(crate) is_direct: bool,
}

/// A UDP socket for one IP version, with an owner that learns of events.
///
/// # Invariants
///
/// `watch.entry` is on the wait queue of `raw` until the drop.
pub(crate) struct UdpSocket<T: UdpEvents> {
    raw: RawUdp,
    watch: Pin<KBox<UdpWatch<T>>>,
    net: Arc<UdpNet>,
}

// SAFETY: Sockets and wait queues may be used from any thread, and `T` is `Send` and `Sync`.
unsafe impl<T: UdpEvents> Send for UdpSocket<T> {}
// SAFETY: As above.
unsafe impl<T: UdpEvents> Sync for UdpSocket<T> {}

impl<T: UdpEvents> UdpSocket<T> {
    /// A socket that is not bound. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` if the host has no IPv6, `ENETDOWN` if the namespace exits, `ENOMEM`.
    pub(crate) fn new(net: &Arc<UdpNet>, family: Family, owner: Arc<T>) -> Result<Self> {
        let raw = RawUdp::new(&*net.get()?, family)?;
        let watch = KBox::pin_init(
            pin_init!(UdpWatch {
                entry <- Opaque::ffi_init(|slot: *mut kb::wait_queue_entry| {
                    // SAFETY: `slot` is valid for writes, and `on_wake` is a function for exactly
                    // this field.
                    unsafe {
                        bindings::rdma_sock_helper_init_wait_func(
                            slot.cast(),
                            Some(Self::on_wake),
                        )
                    }
                }),
                owner,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The socket is valid, and the entry was initialised. It is pinned, and leaves the
        // queue before it or the socket is freed.
        unsafe { kb::add_wait_queue(raw.queue(), watch.entry.get()) };
        // INVARIANT: The entry was just put on the queue.
        Ok(Self {
            raw,
            watch,
            net: net.clone(),
        })
    }

    /// # Safety
    ///
    /// Called by the wait queue code with the `entry` of a [`UdpWatch`], and the queue locked.
    unsafe extern "C" fn on_wake(
        entry: *mut kb::wait_queue_entry,
        _mode: ffi::c_uint,
        _flags: ffi::c_int,
        key: *mut c_void,
    ) -> ffi::c_int {
        // Room to send is no event: each datagram that has left would be one.
        let events = Events::from_bits(key as usize as u32);
        if !events.intersects(Events::IN) && !events.intersects(Events::ERR) {
            return 0;
        }
        // SAFETY: By this function's contract. The entry cannot leave while the queue is locked, and
        // `Opaque` is transparent.
        let watch = unsafe { &*container_of!(Opaque::cast_from(entry), UdpWatch<T>, entry) };
        T::udp_event(watch.owner.as_arc_borrow());
        0
    }

    /// Gives the socket a local address; port 0 lets the kernel choose one. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, `EADDRNOTAVAIL`, `EINVAL` if it has one, `ENETDOWN` if the namespace exits.
    pub(crate) fn bind(&self, addr: &Addr) -> Result {
        let _net = self.net.get()?;
        let (ip, port, scope) = parts(addr);
        // SAFETY: The socket is valid, and the address has the size that the function reads.
        to_result(unsafe {
            bindings::rdma_sock_helper_udp_bind(self.raw.as_raw(), ip.as_ptr(), port, scope)
        })
    }

    /// Fixes the peer, and the local address if there is none. Sends nothing. Context: may sleep.
    ///
    /// # Errors
    ///
    /// Those of the route, for example `ENETUNREACH`; `ENETDOWN` if the namespace exits.
    pub(crate) fn connect(&self, addr: &Addr) -> Result {
        let _net = self.net.get()?;
        let (ip, port, scope) = parts(addr);
        // SAFETY: As for `bind`.
        to_result(unsafe {
            bindings::rdma_sock_helper_udp_connect(self.raw.as_raw(), ip.as_ptr(), port, scope)
        })
    }

    /// The local address. Context: any.
    pub(crate) fn local_addr(&self) -> Addr {
        let (mut ip, mut port, mut scope) = ([0; 16], 0, 0);
        // SAFETY: The sock is valid, and the places to write to have the sizes that the function
        // wants.
        unsafe {
            bindings::rdma_sock_helper_local_addr(
                self.raw.sk(),
                ip.as_mut_ptr(),
                &mut port,
                &mut scope,
            );
        }
        Addr::from_mapped(ip, u16::from_be(port), scope, self.is_v4())
    }

    /// Sends a datagram to the peer of a connected socket. Context: may sleep. It does not wait.
    ///
    /// # Errors
    ///
    /// `ECONNREFUSED` and other errors that ICMP has reported since the last call; `EAGAIN`,
    /// `ENOBUFS` or `ENOMEM` if there is no memory now; those of the route.
    pub(crate) fn send(&self, data: &[u8]) -> Result {
        let _net = self.net.get()?;
        // SAFETY: The socket is valid, and the data is only read.
        to_result(unsafe {
            bindings::rdma_sock_helper_udp_send(self.raw.as_raw(), data.as_ptr().cast(), data.len())
        })
    }

    /// Sends a datagram to `to` from the local address `from`, whose port does not count.
    /// Context: may sleep. It does not wait.
    ///
    /// # Errors
    ///
    /// As for [`Self::send`], without those of ICMP.
    pub(crate) fn send_to(&self, data: &[u8], to: &Addr, from: &Addr) -> Result {
        let _net = self.net.get()?;
        let (ip, port, scope) = parts(to);
        let from = from.ip_mapped();
        // SAFETY: As for `send`, and the addresses have the size that the function reads.
        to_result(unsafe {
            bindings::rdma_sock_helper_udp_send_to(
                self.raw.as_raw(),
                data.as_ptr().cast(),
                data.len(),
                ip.as_ptr(),
                port,
                from.as_ptr(),
                scope,
            )
        })
    }

    /// Receives a datagram. Context: may sleep. It does not wait.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is none; for a connected socket, the error that ICMP has reported.
    pub(crate) fn recv(&self, room: &mut [u8]) -> Result<UdpReceived> {
        let (mut from, mut to) = ([0; 16], [0; 16]);
        let (mut port, mut scope, mut is_direct) = (0, 0, false);
        // SAFETY: The socket is valid, `room` is writable for the time of the call, and the other
        // places have the sizes that the function writes.
        let len = unsafe {
            bindings::rdma_sock_helper_udp_recv(
                self.raw.as_raw(),
                room.as_mut_ptr().cast(),
                room.len(),
                from.as_mut_ptr(),
                &mut port,
                to.as_mut_ptr(),
                &mut scope,
                &mut is_direct,
            )
        };
        to_result(len)?;
        let is_v4 = self.is_v4();
        Ok(UdpReceived {
            len: usize::try_from(len)?,
            from: Addr::from_mapped(from, u16::from_be(port), scope, is_v4),
            to: Addr::from_mapped(to, 0, scope, is_v4),
            is_direct,
        })
    }

    fn is_v4(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_sk_family(self.raw.sk()) == AF_INET }
    }
}

/// The address in its IPv6 form, the port in network order, the scope.
fn parts(addr: &Addr) -> ([u8; 16], u16, u32) {
    let (port, scope) = match *addr {
        Addr::V4 { port, .. } => (port, 0),
        Addr::V6 { port, scope, .. } => (port, scope),
    };
    (addr.ip_mapped(), port.to_be(), scope)
}

impl<T: UdpEvents> Drop for UdpSocket<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the entry is on this queue. The function takes the lock of
        // the queue, so it returns when no callback runs.
        unsafe { kb::remove_wait_queue(self.raw.queue(), self.watch.entry.get()) };
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
mod tests;
