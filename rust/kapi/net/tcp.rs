// SPDX-License-Identifier: GPL-2.0

//! What only a TCP sock has: its stream used by the kernel, options, the path it takes.
//!
//! C headers: [`include/linux/tcp.h`](srctree/include/linux/tcp.h),
//! [`include/net/tcp.h`](srctree/include/net/tcp.h)

use super::{
    netdev::Egress,
    sock::Sock, //
};
use crate::bindings;
use kernel::{
    error::to_result,
    prelude::*,
    sync::rcu, //
};

impl Sock {
    /// Sends what fits now; `EAGAIN` if nothing does, `EPIPE` after a shutdown. No signal is raised.
    ///
    /// May sleep for the lock.
    pub(crate) fn try_send(&self, data: &[u8]) -> Result<usize> {
        // SAFETY: The sock is valid; the data is only read, and for the time of the call.
        let ret = unsafe {
            bindings::rdma_sock_helper_sk_sendmsg(
                self.as_raw(),
                data.as_ptr().cast_mut().cast(),
                data.len(),
            )
        };
        Self::count(ret)
    }

    /// Receives what is there; `EAGAIN` if nothing is, `Ok(0)` after the peer's FIN.
    ///
    /// May sleep for the lock.
    pub(crate) fn try_recv(&self, room: &mut [u8]) -> Result<usize> {
        self.receive(room, false)
    }

    /// As [`Self::try_recv`], but leaves what it gives to be received again.
    ///
    /// May sleep for the lock.
    pub(crate) fn try_peek(&self, room: &mut [u8]) -> Result<usize> {
        self.receive(room, true)
    }

    fn receive(&self, room: &mut [u8], peek: bool) -> Result<usize> {
        // SAFETY: The sock is valid, and `room` is writable for the time of the call.
        let ret = unsafe {
            bindings::rdma_sock_helper_sk_recvmsg(
                self.as_raw(),
                room.as_mut_ptr().cast(),
                room.len(),
                peek,
            )
        };
        Self::count(ret)
    }

    fn count(ret: i32) -> Result<usize> {
        to_result(ret)?;
        Ok(usize::try_from(ret).unwrap_or(0))
    }

    /// The octets that were received and not read. Any context.
    pub(crate) fn unread(&self) -> usize {
        // SAFETY: The sock is valid.
        usize::try_from(unsafe { bindings::rdma_sock_helper_tcp_inq(self.as_raw()) }).unwrap_or(0)
    }

    /// Sends the FIN: no more octets will follow on the TCP connection. May sleep.
    pub(crate) fn shutdown_send(&self) {
        let guard = self.lock();
        // SAFETY: The sock is valid and locked.
        unsafe { bindings::rdma_sock_helper_tcp_shutdown_send(guard.as_raw()) }
    }

    /// Ends the connection with a RST and leaves `err` for the user. May sleep.
    pub(crate) fn abort(&self, err: Error) {
        // SAFETY: The sock is valid and not locked by this thread. The result only tells that it was
        // closed already.
        unsafe {
            bindings::tcp_abort(self.as_raw(), err.to_errno().checked_abs().unwrap_or(0));
        }
    }

    /// Whether segments are signed (TCP-MD5 or TCP-AO). Any context.
    pub(crate) fn has_md5_or_ao(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_tcp_signed(self.as_raw()) }
    }

    /// Whether TCP_NODELAY is on. Any context.
    pub(crate) fn nodelay(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_tcp_nodelay(self.as_raw()) }
    }

    /// Whether TCP_CORK is on. Any context.
    pub(crate) fn corked(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_tcp_corked(self.as_raw()) }
    }

    /// Whether the user puts the connection together from parts (TCP_REPAIR). Any context.
    pub(crate) fn is_in_repair(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_tcp_repair(self.as_raw()) }
    }

    /// Whether the user wants the first data on the SYN (TCP_FASTOPEN_CONNECT). Any context.
    pub(crate) fn is_fastopen_wanted(&self) -> bool {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_tcp_fastopen_connect(self.as_raw()) }
    }

    /// The device the connection leaves by, if it is known. Any context.
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

    /// Copies the TCP options of the SYN that made this child; returns their length, 0 if the SYN
    /// was not kept. Any context, but not concurrently with [`Self::drop_saved_syn`].
    pub(crate) fn saved_syn_options(&self, room: &mut [u8; 40]) -> usize {
        let mut len = 0;
        // SAFETY: The sock is valid; by this function's contract nobody frees the copy.
        let header = unsafe {
            let saved = bindings::rdma_sock_helper_tcp_saved_syn(self.as_raw());
            if saved.is_null() {
                return 0;
            }
            let at = bindings::rdma_sock_helper_saved_syn_tcp(saved, &mut len);
            core::slice::from_raw_parts(at, usize::try_from(len).unwrap_or(0))
        };
        let options = header.get(20..).unwrap_or(&[]);
        let len = options.len().min(room.len());
        for (to, from) in room.iter_mut().zip(options) {
            *to = *from;
        }
        len
    }
}
