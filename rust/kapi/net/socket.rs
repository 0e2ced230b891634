// SPDX-License-Identifier: GPL-2.0

//! `struct socket`: the side of a sock that a program holds, and what delegates its calls to TCP.
//!
//! C header: [`include/linux/net.h`](srctree/include/linux/net.h)

use super::{
    addr::{
        AF_INET,
        AF_INET6, //
    },
    events::Attachment,
    msg::{
        Name,
        NameBuf, //
    },
    sock::{
        Family,
        Sock, //
    },
};
use crate::{
    bindings,
    kapi::{
        base::module::ModuleRef,
        compat::errno::EOPNOTSUPP, //
    },
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr, //
};
use kernel::{
    bindings as kb,
    error::to_result,
    prelude::*,
    sync::aref::ARef,
    types::Opaque, //
};

/// `SOCK_STREAM`, `IPPROTO_TCP`, `O_NONBLOCK` of this architecture's file flags.
const SOCK_STREAM: i32 = 1;
const IPPROTO_TCP: i32 = 6;

/// `socket_state`: what the program did with the socket, as TCP's calls see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketState {
    /// Nothing yet, or disconnected.
    Unconnected,
    /// A connect() is under way.
    Connecting,
    /// Connected.
    Connected,
    /// A disconnect is under way.
    Disconnecting,
}

/// A socket during one call of a program.
///
/// # Invariants
///
/// The `struct socket` is valid and has a full TCP sock, which stays while a reference to this
/// object exists.
#[repr(transparent)]
pub(crate) struct Socket(Opaque<kb::socket>);

impl Socket {
    /// # Safety
    ///
    /// `raw` must be a socket with a TCP sock, both staying for `'a`.
    pub(super) unsafe fn from_raw<'a>(raw: *mut kb::socket) -> &'a Self {
        // SAFETY: By this function's contract; `Socket` is transparent.
        // INVARIANT: By this function's contract.
        unsafe { &*raw.cast() }
    }

    /// The pointer for C.
    pub(super) fn as_raw(&self) -> *mut kb::socket {
        self.0.get()
    }

    /// The sock.
    pub(crate) fn sk(&self) -> &Sock {
        // SAFETY: By the type invariants the socket has a sock, which stays for this borrow.
        unsafe { Sock::from_raw((*self.as_raw()).sk.cast()) }
    }

    /// The sock, as a reference to keep.
    pub(crate) fn sk_ref(&self) -> ARef<Sock> {
        self.sk().to_ref()
    }

    /// What the program did with the socket. Stable under the lock of the sock.
    pub(crate) fn state(&self) -> SocketState {
        // SAFETY: By the type invariants the socket is valid.
        match unsafe { ptr::read_volatile(&raw const (*self.as_raw()).state) } {
            kb::socket_state_SS_CONNECTING => SocketState::Connecting,
            kb::socket_state_SS_CONNECTED => SocketState::Connected,
            kb::socket_state_SS_DISCONNECTING => SocketState::Disconnecting,
            _ => SocketState::Unconnected,
        }
    }

    /// The operations of TCP for this sock.
    pub(super) fn inet(&self) -> &'static kb::proto_ops {
        // SAFETY: The two tables live as long as the kernel.
        unsafe {
            &*match self.sk().family() {
                Family::V6 => bindings::rdma_sock_helper_inet6_ops(),
                Family::V4 => bindings::rdma_sock_helper_inet_ops(),
            }
            .cast()
        }
    }

    /// Gives the sock back to TCP: from here on it does not hold this module, which the socket
    /// does.
    ///
    /// Until then the module must not go because the sock was created from a copy of TCP's protocol
    /// that is in this module, see [`super::family`]. Time-wait buckets of the connection would
    /// hold the module for a minute otherwise. Context: may sleep.
    pub(super) fn settle(&self) {
        let sk = self.sk().as_raw();
        // SAFETY: The sock is valid.
        if !unsafe { bindings::rdma_sock_helper_is_borrowed(sk) } {
            return;
        }
        let guard = self.sk().lock();
        // SAFETY: The sock is valid and locked. The two protocols of TCP live as long as the
        // kernel, and the one whose slab the sock was made from is the one that may free it.
        let was_borrowed = unsafe {
            let borrowed = bindings::rdma_sock_helper_is_borrowed(sk);
            if borrowed {
                let v6 = bindings::rdma_sock_helper_tcpv6_prot();
                let prot = if bindings::rdma_sock_helper_same_slab(sk, v6) {
                    v6
                } else {
                    bindings::rdma_sock_helper_tcp_prot()
                };
                bindings::rdma_sock_helper_set_prot_creator(sk, prot);
            }
            borrowed
        };
        drop(guard);
        if was_borrowed {
            // SAFETY: This is the reference `sk_alloc` took for the sock. The socket this call is
            // made on holds another one.
            unsafe { bindings::rdma_sock_helper_module_put() };
        }
    }

    // TCP's own operations, with the same `struct socket`.

    /// bind() of TCP.
    pub(crate) fn inet_bind(&self, name: &Name) -> Result {
        let op = self.inet().bind.ok_or(EOPNOTSUPP)?;
        // SAFETY: The socket is valid, `name` holds the address as the caller of bind gave it.
        to_result(unsafe { op(self.as_raw(), name.raw, name.len) })
    }

    /// connect() of TCP: waits unless `flags` has O_NONBLOCK.
    pub(crate) fn inet_connect(&self, name: &Name, flags: i32) -> Result {
        let op = self.inet().connect.ok_or(EOPNOTSUPP)?;
        // SAFETY: As for bind.
        to_result(unsafe { op(self.as_raw(), name.raw, name.len, flags) })
    }

    /// listen() of TCP.
    pub(crate) fn inet_listen(&self, backlog: i32) -> Result {
        let op = self.inet().listen.ok_or(EOPNOTSUPP)?;
        // SAFETY: The socket is valid.
        to_result(unsafe { op(self.as_raw(), backlog) })
    }

    /// shutdown() of TCP; `how` is 0 for reading, 1 for writing, 2 for both.
    pub(crate) fn inet_shutdown(&self, how: i32) -> Result {
        let op = self.inet().shutdown.ok_or(EOPNOTSUPP)?;
        // SAFETY: The socket is valid.
        to_result(unsafe { op(self.as_raw(), how) })
    }

    /// getsockname() (`peer` 0), getpeername() (1) of TCP; returns the length of the address.
    pub(crate) fn inet_getname(&self, buf: &mut NameBuf, peer: i32) -> Result<usize> {
        let op = self.inet().getname.ok_or(EOPNOTSUPP)?;
        // SAFETY: The socket is valid, and the buffer has room for every address.
        let len = unsafe { op(self.as_raw(), buf.raw, peer) };
        to_result(len)?;
        Ok(usize::try_from(len).unwrap_or(0))
    }

    /// ioctl() of TCP.
    pub(crate) fn inet_ioctl(&self, cmd: u32, arg: usize) -> Result<i32> {
        let op = self.inet().ioctl.ok_or(ENOTTY)?;
        // SAFETY: The socket is valid; `arg` is the user's, as it must be.
        let ret = unsafe { op(self.as_raw(), cmd, arg) };
        to_result(ret).map(|()| ret)
    }

    /// ioctl() of TCP for 32-bit programs.
    #[cfg(CONFIG_COMPAT)]
    pub(crate) fn inet_compat_ioctl(&self, cmd: u32, arg: usize) -> Result<i32> {
        let op = self.inet().compat_ioctl.ok_or(ENOTTY)?;
        // SAFETY: As for ioctl.
        let ret = unsafe { op(self.as_raw(), cmd, arg) };
        to_result(ret).map(|()| ret)
    }
}

impl Sock {
    /// Takes an established connection of a listener.
    ///
    /// The child belongs to no program yet: no memory cgroup is charged for it, and its user is the
    /// listener's.
    ///
    /// Context: may sleep. It does not wait for the lock of the listener.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is none, `EBUSY` if a program has the lock of the listener, `EINVAL` if
    /// the sock does not listen, `ENOMEM`.
    pub(crate) fn accept_child(&self) -> Result<DetachedSocket> {
        let mut detached = Bare::new(self)?;
        let mut err = 0;
        let guard = self.try_lock()?;
        // SAFETY: The sock is valid and locked.
        let child = unsafe { bindings::rdma_sock_helper_take_child(self.as_raw(), &mut err) };
        drop(guard);
        if child.is_null() {
            to_result(err)?;
            return Err(EAGAIN);
        }
        // SAFETY: The child is a full TCP sock which is ours now; the detached has none. No program
        // has the child, so its lock is free.
        unsafe {
            bindings::rdma_sock_helper_lock_sock(child);
            bindings::rdma_sock_helper_sock_graft(child, detached.raw.cast());
            (*detached.raw).state = kb::socket_state_SS_CONNECTED;
            // As TCP sets it on the sockets it makes itself.
            bindings::rdma_sock_helper_set_zerocopy(detached.raw.cast(), true);
            bindings::rdma_sock_helper_release_sock(child);
        }
        Ok(detached.fill())
    }
}

/// A `struct socket` without a sock and without a file.
struct Bare {
    raw: *mut kb::socket,
    module: Option<ModuleRef>,
}

impl Bare {
    /// Makes one fit for the sock `like`. Context: may sleep.
    fn new(like: &Sock) -> Result<Self> {
        let module = ModuleRef::new().ok_or(ENODEV)?;
        let mut raw = ptr::null_mut();
        let family = match like.family() {
            Family::V4 => AF_INET,
            Family::V6 => AF_INET6,
        };
        // SAFETY: `raw` is a place for the result.
        to_result(unsafe {
            kb::sock_create_lite(i32::from(family), SOCK_STREAM, IPPROTO_TCP, &mut raw)
        })?;
        // SAFETY: The socket was just made. Its inode takes the user of the sock it is made for.
        unsafe { bindings::rdma_sock_helper_set_inode_uid(raw.cast(), like.as_raw()) };
        Ok(Self {
            raw,
            module: Some(module),
        })
    }

    /// Makes it a detached. The caller has put a sock on it.
    fn fill(&mut self) -> DetachedSocket {
        let raw = core::mem::replace(&mut self.raw, ptr::null_mut());
        // SAFETY: The caller has put a TCP sock on the socket.
        let ops = unsafe { Socket::from_raw(raw) }.inet();
        // SAFETY: The socket is not published. The operations are TCP's, so that the release of
        // the detached is TCP's close; `owner` of them is the kernel itself.
        unsafe { (*raw).ops = ops };
        // INVARIANT: The socket is valid, has a sock, and is ours.
        DetachedSocket {
            raw,
            _module: self.module.take(),
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: The socket has no sock and no file and is ours.
            unsafe { kb::sock_release(self.raw) }
        }
    }
}

/// A socket that no program holds: a connection not accepted yet, or one that is closed in the
/// background. Dropping it closes the TCP connection.
///
/// # Invariants
///
/// `raw` is a socket without a file, with a TCP sock and TCP's operations, owned by this object.
pub(crate) struct DetachedSocket {
    raw: *mut kb::socket,
    _module: Option<ModuleRef>,
}

// SAFETY: Sockets may be used and released from any thread.
unsafe impl Send for DetachedSocket {}
// SAFETY: As above.
unsafe impl Sync for DetachedSocket {}

impl core::ops::Deref for DetachedSocket {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        // SAFETY: By the type invariants; the sock only leaves when the detached is consumed.
        unsafe { Socket::from_raw(self.raw) }
    }
}

impl DetachedSocket {
    /// # Safety
    ///
    /// `raw` must be a socket without a file, with a TCP sock and TCP's operations. The caller owns it,
    /// and gives it away.
    pub(super) unsafe fn from_raw(raw: *mut kb::socket, module: ModuleRef) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            raw,
            _module: Some(module),
        }
    }

    /// Hands the connection to the socket of a program that called accept() on `listener`.
    ///
    /// Context: may sleep.
    pub(crate) fn into_socket<'a>(self, listener: &Socket, newsock: NewSocket<'a>) -> Accepted<'a> {
        let sk = self.sk().to_ref();
        let guard = sk.lock();
        // SAFETY: The sock is locked; by its invariants `newsock` has none; the detached is this
        // one's.
        unsafe {
            Attachment::carry(&sk, self.raw, newsock.raw, || {
                (*self.raw).sk = ptr::null_mut();
                bindings::rdma_sock_helper_inet_accept_graft(
                    listener.as_raw().cast(),
                    newsock.raw.cast(),
                    sk.as_raw(),
                );
            })
        };
        drop(guard);
        // INVARIANT: The graft has put the sock on the socket.
        Accepted {
            raw: newsock.raw,
            _call: PhantomData,
        }
    }
}

impl Drop for DetachedSocket {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the socket is ours; its sock may have gone to a program.
        // The attachment goes first; `sock_release` then closes the TCP connection.
        unsafe {
            let sk = (*self.raw).sk;
            if !sk.is_null() {
                let sk = Sock::from_raw(sk.cast());
                Attachment::remove(sk, self.raw);
                let guard = sk.lock();
                // No program waits for this close: a connection that was never accepted has
                // SO_LINGER of its listener, and a program that closed another has lingered before.
                if sk.linger().is_some_and(|time| time != 0) {
                    bindings::rdma_sock_helper_sock_no_linger(sk.as_raw());
                }
                drop(guard);
            }
            kb::sock_release(self.raw);
        }
    }
}

/// The new socket of the accept() that runs for `'a`: no sock yet. It takes one sock, and becomes
/// an [`Accepted`] by that.
///
/// # Invariants
///
/// `raw` is the second argument of a running `accept` operation and has no sock. There is one
/// object for each such operation.
pub(crate) struct NewSocket<'a> {
    raw: *mut kb::socket,
    _call: PhantomData<fn(&'a ()) -> &'a ()>,
}

impl<'a> NewSocket<'a> {
    /// # Safety
    ///
    /// `raw` must be the second argument of an `accept` operation that runs for `'a`, and this be
    /// the only object for it.
    pub(super) unsafe fn from_raw(raw: *mut kb::socket) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            raw,
            _call: PhantomData,
        }
    }

    /// accept() of TCP on `listener`.
    pub(super) fn inet_accept(
        self,
        listener: &Socket,
        arg: *mut kb::proto_accept_arg,
    ) -> Result<Accepted<'a>> {
        let op = listener.inet().accept.ok_or(EOPNOTSUPP)?;
        // SAFETY: Both sockets are those of a running operation, and so is the argument.
        to_result(unsafe { op(listener.as_raw(), self.raw, arg) })?;
        // INVARIANT: TCP has put a sock on the socket.
        let accepted = Accepted {
            raw: self.raw,
            _call: PhantomData,
        };
        // TCP may have kept the SYN while the listener was the engine's.
        accepted.sk().take_syn();
        Ok(accepted)
    }
}

/// The new socket of an accept() that has its sock: proof that the call has succeeded.
///
/// # Invariants
///
/// `raw` is the second argument of the `accept` operation that runs for `'a`, and has a TCP sock.
#[must_use]
pub(crate) struct Accepted<'a> {
    raw: *mut kb::socket,
    _call: PhantomData<fn(&'a ()) -> &'a ()>,
}

impl Accepted<'_> {
    fn sk(&self) -> &Sock {
        // SAFETY: By the type invariants. No program knows the socket before the operation ends.
        unsafe { Sock::from_raw((*self.raw).sk.cast()) }
    }
}

/// A socket that its program has closed, during the release. No other call of it is running.
///
/// Dropping it closes the TCP connection, as [`Self::inet_release`].
///
/// # Invariants
///
/// `0` is the argument of a running `release` operation and has its sock.
pub(crate) struct Closing<'a>(&'a Socket);

impl core::ops::Deref for Closing<'_> {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        self.0
    }
}

impl<'a> Closing<'a> {
    /// # Safety
    ///
    /// `socket` must be the argument of a running `release` operation, and this be the only object
    /// for it.
    pub(super) unsafe fn new(socket: &'a Socket) -> Self {
        // INVARIANT: By this function's contract.
        Self(socket)
    }

    /// Takes the sock away from the socket, with its context, to close it later.
    /// Context: may sleep.
    ///
    /// TCP will not linger then: its close must not wait, as no program waits for it. A linger time
    /// of zero, which asks for a reset, stays.
    ///
    /// On failure (memory) the socket is as it was.
    pub(crate) fn detach(self) -> Result<DetachedSocket, (Error, Self)> {
        let mut detached = match Bare::new(self.sk()) {
            Ok(detached) => detached,
            Err(err) => return Err((err, self)),
        };
        self.settle();
        let sk = self.sk().to_ref();
        let from = self.as_raw();
        let guard = sk.lock();
        // SAFETY: The sock is locked; the new socket has none; by the type invariants no other call
        // is running on the old one.
        unsafe {
            Attachment::carry(&sk, from, detached.raw, || {
                (*detached.raw).state = (*from).state;
                (*from).sk = ptr::null_mut();
                bindings::rdma_sock_helper_sock_graft(sk.as_raw(), detached.raw.cast());
            })
        };
        drop(guard);
        // The socket has no sock any longer, so there is nothing to close.
        core::mem::forget(self);
        Ok(detached.fill())
    }

    /// Closes the TCP connection as close() of a TCP socket does, lingering if the user wants it.
    ///
    /// The context is dropped before. Context: may sleep.
    pub(crate) fn inet_release(self) -> Result {
        let this = ManuallyDrop::new(self);
        // SAFETY: The object is used no more, and not dropped.
        unsafe { this.close() }
    }

    /// # Safety
    ///
    /// The object must not be used afterwards, not even by its drop.
    unsafe fn close(&self) -> Result {
        // SAFETY: By the type invariants no other call is running on the socket.
        unsafe { Attachment::remove(self.sk(), self.as_raw()) };
        self.settle();
        let op = self.inet().release.ok_or(EOPNOTSUPP)?;
        // SAFETY: As above; the socket is valid and has its sock.
        to_result(unsafe { op(self.as_raw()) })
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        // SAFETY: This is the drop. The result of a close has no meaning.
        let _ = unsafe { self.close() };
    }
}
