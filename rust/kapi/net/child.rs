// SPDX-License-Identifier: GPL-2.0

//! Sockets whose connection is not one of TCP: children of a listener, and clients.
//!
//! Their TCP sock stays closed while data flows. It has the options of the program, the addresses of
//! the connection, and its errors.
//!
//! C header: [`include/net/inet_sock.h`](srctree/include/net/inet_sock.h)

use super::{
    addr::Addr,
    msg::OwnedName,
    sock::{
        Sock,
        SockGuard, //
    },
    socket::{
        DetachedSocket,
        Socket,
        SocketState, //
    },
};
use crate::{
    bindings,
    kapi::{
        base::module::ModuleRef,
        compat::errno::EINPROGRESS, //
    },
};
use core::ptr;
use kernel::{
    bindings as kb,
    error::to_result,
    prelude::*, //
};

impl Sock {
    /// Makes a connected socket with the options of this listener, as TCP does for a connection.
    ///
    /// No program has it so far: no memory cgroup is charged for it, and its user is the
    /// listener's.
    ///
    /// Context: may sleep. It does not wait for the lock of the listener.
    ///
    /// # Errors
    ///
    /// `ENODEV` while the module goes; `ENOMEM`; those of security modules.
    pub(crate) fn new_child(&self, local: &Addr, peer: &Addr) -> Result<DetachedSocket> {
        let module = ModuleRef::new().ok_or(ENODEV)?;
        let mut err = 0;
        // SAFETY: The sock is valid.
        let raw = unsafe { bindings::rdma_sock_helper_new_child(self.as_raw(), &mut err) };
        to_result(err)?;
        let raw: *mut kb::socket = raw.cast();
        // SAFETY: The socket was just made, with a TCP sock and TCP's operations. No program has it.
        unsafe {
            bindings::rdma_sock_helper_set_inode_uid(raw.cast(), self.as_raw());
            (*raw).state = kb::socket_state_SS_CONNECTED;
            bindings::rdma_sock_helper_set_zerocopy(raw.cast(), true);
        }
        // SAFETY: As above; this function owns the socket.
        let child = unsafe { DetachedSocket::from_raw(raw, module) };
        child.sk().lock().set_addrs(local, peer);
        Ok(child)
    }

    /// Whether a listener takes connections of IPv4. Context: any.
    pub(crate) fn takes_ipv4(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_takes_ipv4(self.as_raw()) }
    }

    /// The port that the program has bound; 0 for none. Context: any.
    pub(crate) fn bound_port(&self) -> u16 {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_bound_port(self.as_raw()) }
    }
}

impl Socket {
    /// Sets what the program did with the socket, as the calls of TCP see it.
    ///
    /// The caller has the lock of the sock, or is the only call that changes the state. Context: any.
    pub(crate) fn set_state(&self, state: SocketState) {
        let state = match state {
            SocketState::Unconnected => kb::socket_state_SS_UNCONNECTED,
            SocketState::Connecting => kb::socket_state_SS_CONNECTING,
            SocketState::Connected => kb::socket_state_SS_CONNECTED,
            SocketState::Disconnecting => kb::socket_state_SS_DISCONNECTING,
        };
        // SAFETY: By the type invariants the socket is valid.
        unsafe { ptr::write_volatile(&raw mut (*self.as_raw()).state, state) };
    }
}

impl SockGuard<'_> {
    /// Sets the addresses that getsockname() and getpeername() report, of a sock that TCP does not
    /// connect.
    pub(crate) fn set_addrs(&mut self, local: &Addr, peer: &Addr) {
        let (from, to) = (local.ip_mapped(), peer.ip_mapped());
        // SAFETY: The sock is valid and locked, and both addresses have 16 octets.
        unsafe {
            bindings::rdma_sock_helper_set_addrs(
                self.as_raw(),
                from.as_ptr(),
                local.port().to_be(),
                to.as_ptr(),
                peer.port().to_be(),
            );
        }
    }

    /// Has the BPF programs of the cgroup look at an address that a program connects to. They may
    /// change it, or refuse it.
    ///
    /// # Errors
    ///
    /// That of a program.
    pub(crate) fn pre_connect(&mut self, name: &mut OwnedName) -> Result {
        let (raw, len) = name.as_raw();
        // SAFETY: The sock is valid and locked; the name has room for any address.
        to_result(unsafe { bindings::rdma_sock_helper_pre_connect(self.as_raw(), raw, len) })
    }

    /// Begins to connect by TCP, and does not wait. A sock without a socket is refused.
    ///
    /// # Errors
    ///
    /// Those of TCP. `EINPROGRESS` is none.
    pub(crate) fn start_connect(&mut self, name: &OwnedName) -> Result {
        // BPF programs may change the address.
        let mut name = *name;
        let (raw, len) = name.as_raw();
        // SAFETY: The sock is valid and locked. The name has room for any address.
        let errno = unsafe { bindings::rdma_sock_helper_start_connect(self.as_raw(), raw, len) };
        match to_result(errno) {
            Err(error) if error != EINPROGRESS => Err(error),
            _ => Ok(()),
        }
    }

    /// Leaves `err` for the user.
    pub(crate) fn set_err(&mut self, err: Error) {
        let errno = err.to_errno().saturating_neg();
        // SAFETY: The sock is valid and locked.
        unsafe { bindings::rdma_sock_helper_set_err(self.as_raw(), errno) }
    }
}
