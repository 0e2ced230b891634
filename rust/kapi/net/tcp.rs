// SPDX-License-Identifier: GPL-2.0

//! What only a TCP sock has: its stream used by the kernel, options, the path it takes.
//!
//! C headers: [`include/linux/tcp.h`](srctree/include/linux/tcp.h),
//! [`include/net/tcp.h`](srctree/include/net/tcp.h)

use super::{
    netdev::{
        Egress,
        Stack, //
    },
    sock::{
        Sock,
        SockGuard, //
    },
};
use crate::bindings;
use kernel::{
    error::to_result,
    prelude::*,
    sync::rcu, //
};

impl Sock {
    /// The octets that were received and not read. Context: any.
    pub(crate) fn unread(&self) -> usize {
        // SAFETY: The sock is valid.
        usize::try_from(unsafe { bindings::rdma_sock_helper_tcp_inq(self.as_raw()) }).unwrap_or(0)
    }

    /// Ends the connection with a RST and leaves `err` for the user.
    ///
    /// Context: may sleep. It waits for the lock, so work items use it only for a sock without a
    /// file.
    pub(crate) fn abort(&self, err: Error) {
        self.lock().abort(err);
    }

    /// Whether segments are signed (TCP-MD5 or TCP-AO). Context: any.
    pub(crate) fn has_md5_or_ao(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_tcp_signed(self.as_raw()) }
    }

    /// Whether TCP_NODELAY is on. Context: any.
    pub(crate) fn nodelay(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_tcp_nodelay(self.as_raw()) }
    }

    /// Whether TCP_CORK is on. Context: any.
    pub(crate) fn corked(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_tcp_corked(self.as_raw()) }
    }

    /// Whether the user puts the connection together from parts (TCP_REPAIR). Context: any.
    pub(crate) fn is_in_repair(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_tcp_repair(self.as_raw()) }
    }

    /// Whether the user wants the first data on the SYN (TCP_FASTOPEN_CONNECT). Context: any.
    pub(crate) fn is_fastopen_wanted(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_tcp_fastopen_connect(self.as_raw()) }
    }

    /// The device the connection leaves by, if it is known. Context: any.
    pub(crate) fn egress(&self) -> Option<Egress> {
        let _guard = rcu::read_lock();
        let mut mtu = 0;
        // SAFETY: The sock is valid, and this is an RCU read section.
        let dev = unsafe { bindings::rdma_sock_helper_egress(self.as_raw(), &mut mtu) };
        if dev.is_null() {
            return None;
        }
        // SAFETY: The device stays for the RCU read section.
        unsafe { Egress::of(dev, mtu) }
    }

    /// The names of that device and of the one at the bottom of it. Context: any.
    pub(crate) fn stack(&self) -> Option<Stack> {
        let _guard = rcu::read_lock();
        let mut mtu = 0;
        // SAFETY: The sock is valid, and this is an RCU read section.
        let dev = unsafe { bindings::rdma_sock_helper_egress(self.as_raw(), &mut mtu) };
        if dev.is_null() {
            return None;
        }
        // SAFETY: The device stays for the RCU read section.
        Some(unsafe { Stack::of(dev) })
    }
}

/// The stream, used by the kernel itself with the lock held. Nothing here waits for the peer, or
/// gives the lock back meanwhile.
impl SockGuard<'_> {
    /// Sends as much as fits now; returns how much. Raises no signal.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if nothing fits, `EPIPE` after a shutdown, the error of the connection.
    pub(crate) fn send(&mut self, data: &[u8]) -> Result<usize> {
        // SAFETY: The sock is valid and locked; the data is only read, and for the time of the
        // call.
        Self::count(unsafe {
            bindings::rdma_sock_helper_stream_send(
                self.as_raw(),
                data.as_ptr().cast_mut().cast(),
                data.len(),
            )
        })
    }

    /// Receives what has come, up to the size of `room`; returns how much, 0 after the peer's FIN.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if nothing has come, the error of the connection.
    pub(crate) fn recv(&mut self, room: &mut [u8]) -> Result<usize> {
        // SAFETY: The sock is valid and locked, and `room` is writable for the time of the call.
        Self::count(unsafe {
            bindings::rdma_sock_helper_stream_recv(
                self.as_raw(),
                room.as_mut_ptr().cast(),
                room.len(),
            )
        })
    }

    /// As [`Self::recv`], but leaves the octets to be received again.
    pub(crate) fn peek(&mut self, room: &mut [u8]) -> Result<usize> {
        // SAFETY: The sock is valid and locked, and `room` is writable for the time of the call.
        Self::count(unsafe {
            bindings::rdma_sock_helper_stream_peek(
                self.as_raw(),
                room.as_mut_ptr().cast(),
                room.len(),
            )
        })
    }

    fn count(ret: i32) -> Result<usize> {
        to_result(ret)?;
        Ok(usize::try_from(ret)?)
    }

    /// Sends the FIN: no more octets will follow on the TCP connection.
    pub(crate) fn shutdown_send(&mut self) {
        // SAFETY: The sock is valid and locked.
        unsafe { bindings::rdma_sock_helper_tcp_shutdown_send(self.as_raw()) }
    }

    /// Leaves `err` for the user of a connection that has ended without an error.
    pub(crate) fn set_missing_err(&mut self, err: Error) {
        let errno = err.to_errno().saturating_neg();
        // SAFETY: The sock is valid and locked.
        unsafe { bindings::rdma_sock_helper_set_missing_err(self.as_raw(), errno) }
    }

    /// Ends the connection with a RST and leaves `err` for the user; nothing if it has ended. Octets
    /// that were not read are dropped.
    pub(crate) fn abort(&mut self, err: Error) {
        let errno = err.to_errno().saturating_neg();
        // SAFETY: The sock is valid and locked.
        unsafe { bindings::rdma_sock_helper_stream_abort(self.as_raw(), errno) }
    }
}
