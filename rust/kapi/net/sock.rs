// SPDX-License-Identifier: GPL-2.0

//! `struct sock`: the state of a TCP connection, shared by reference count.
//!
//! What needs the `struct socket` around it (waiting, events, calls of the user) is in
//! [`super::socket`]; what is special to TCP is in [`super::tcp`].
//!
//! C header: [`include/net/sock.h`](srctree/include/net/sock.h)

use super::{
    addr::{
        Addr,
        AF_INET6, //
    },
    events,
    netns::NetRef,
    poll::Events, //
};
use crate::{
    bindings,
    kapi::mem::cgroup::MemCgroup, //
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::aref::{
        ARef,
        AlwaysRefCounted, //
    },
    types::{
        NotThreadSafe,
        Opaque, //
    },
};

/// `SOCK_SNDBUF_LOCK`: the user chose the size of the send buffer.
const SNDBUF_LOCKED: u8 = 1;
/// `SOCK_RCVBUF_LOCK`: the user chose the size of the receive buffer.
const RCVBUF_LOCKED: u8 = 2;
/// `SOCK_WAKE_IO`, `SOCK_WAKE_WAITD`, `SOCK_WAKE_SPACE`.
const WAKE_IO: i32 = 0;
const WAKE_WAITD: i32 = 1;
const WAKE_SPACE: i32 = 2;
/// `POLL_IN`, `POLL_OUT`, `POLL_ERR` of `siginfo`.
const POLL_IN: i32 = 1;
const POLL_OUT: i32 = 2;

/// The internet protocol of a sock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4.
    V4,
    /// IPv6, possibly with an IPv4-mapped address.
    V6,
}

/// The state of the TCP state machine, `include/net/tcp_states.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpState {
    /// Data can flow both ways.
    Established,
    /// The SYN was sent.
    SynSent,
    /// A SYN was received (simultaneous open, or early child of TCP Fast Open).
    SynRecv,
    /// Our FIN was sent.
    FinWait1,
    /// Our FIN was acknowledged.
    FinWait2,
    /// Waiting for old segments to die.
    TimeWait,
    /// Not connected.
    Close,
    /// The peer's FIN was received.
    CloseWait,
    /// The peer's FIN was received, then ours was sent: it awaits its acknowledgment.
    LastAck,
    /// Accepting connections.
    Listen,
    /// Both FINs crossed: ours awaits its acknowledgment.
    Closing,
    /// A request sock: the peer's ACK of the SYN-ACK is missing.
    NewSynRecv,
    /// A state that is not known here.
    Unknown(u8),
}

impl TcpState {
    /// The number that programs know it by.
    pub(crate) fn code(self) -> u8 {
        match self {
            TcpState::Established => 1,
            TcpState::SynSent => 2,
            TcpState::SynRecv => 3,
            TcpState::FinWait1 => 4,
            TcpState::FinWait2 => 5,
            TcpState::TimeWait => 6,
            TcpState::Close => 7,
            TcpState::CloseWait => 8,
            TcpState::LastAck => 9,
            TcpState::Listen => 10,
            TcpState::Closing => 11,
            TcpState::NewSynRecv => 12,
            TcpState::Unknown(code) => code,
        }
    }

    fn from_raw(raw: u8) -> Self {
        match raw {
            1 => TcpState::Established,
            2 => TcpState::SynSent,
            3 => TcpState::SynRecv,
            4 => TcpState::FinWait1,
            5 => TcpState::FinWait2,
            6 => TcpState::TimeWait,
            7 => TcpState::Close,
            8 => TcpState::CloseWait,
            9 => TcpState::LastAck,
            10 => TcpState::Listen,
            11 => TcpState::Closing,
            12 => TcpState::NewSynRecv,
            other => TcpState::Unknown(other),
        }
    }
}

/// A TCP `struct sock`.
///
/// # Invariants
///
/// The object is a full TCP sock (no request sock, no time-wait bucket) with a reference count.
#[repr(transparent)]
pub(crate) struct Sock(Opaque<bindings::sock>);

// SAFETY: A sock may be used from any thread; what is not atomic is behind its lock.
unsafe impl Send for Sock {}
// SAFETY: As above.
unsafe impl Sync for Sock {}

// SAFETY: `sock_hold` and `sock_put` count references of the sock, which lives until the last one
// is gone. By the type invariants all instances are counted.
unsafe impl AlwaysRefCounted for Sock {
    fn inc_ref(&self) {
        // SAFETY: The reference `self` shows that the count is not zero.
        unsafe { bindings::rdma_sock_helper_sock_hold(self.as_raw()) }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: By this function's contract the caller gives up a reference it owns.
        unsafe { bindings::rdma_sock_helper_sock_put(obj.as_ptr().cast()) }
    }
}

impl Sock {
    /// # Safety
    ///
    /// `raw` must be a full TCP sock that lives for `'a`.
    pub(super) unsafe fn from_raw<'a>(raw: *mut bindings::sock) -> &'a Self {
        // SAFETY: By this function's contract; `Sock` is transparent.
        // INVARIANT: By this function's contract.
        unsafe { &*raw.cast() }
    }

    /// The pointer for C.
    pub(super) fn as_raw(&self) -> *mut bindings::sock {
        self.0.get()
    }

    /// A reference that can be kept.
    pub(crate) fn to_ref(&self) -> ARef<Sock> {
        ARef::from(self)
    }

    /// Takes the lock of the sock. Context: may sleep.
    pub(crate) fn lock(&self) -> SockGuard<'_> {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_lock_sock(self.as_raw()) };
        // INVARIANT: The lock was just taken by this thread.
        SockGuard {
            sock: self,
            _not_send: NotThreadSafe,
        }
    }

    /// Takes the lock of the sock unless it is taken: a program can keep it for any time by a page
    /// fault that it does not resolve. Does not wait, but is for process context only.
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the lock is taken.
    pub(crate) fn try_lock(&self) -> Result<SockGuard<'_>> {
        // SAFETY: By the type invariants the sock is valid.
        if !unsafe { bindings::rdma_sock_helper_trylock_sock(self.as_raw()) } {
            return Err(EBUSY);
        }
        // INVARIANT: The lock was just taken by this thread.
        Ok(SockGuard {
            sock: self,
            _not_send: NotThreadSafe,
        })
    }

    /// The internet protocol. Context: any.
    pub(crate) fn family(&self) -> Family {
        // SAFETY: By the type invariants the sock is valid.
        match unsafe { bindings::rdma_sock_helper_sk_family(self.as_raw()) } {
            AF_INET6 => Family::V6,
            _ => Family::V4,
        }
    }

    /// The TCP state. Without the lock it may change at once. Context: any.
    pub(crate) fn tcp_state(&self) -> TcpState {
        // SAFETY: By the type invariants the sock is valid.
        TcpState::from_raw(unsafe { bindings::rdma_sock_helper_sk_state(self.as_raw()) })
    }

    /// The pending error as a positive errno, 0 if there is none. Context: any.
    pub(crate) fn err(&self) -> i32 {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_sk_err(self.as_raw()) }
    }

    /// Takes the pending error and clears it, as SO_ERROR does. Context: any.
    pub(crate) fn take_err(&self) -> Result {
        // SAFETY: By the type invariants the sock is valid.
        kernel::error::to_result(unsafe { bindings::rdma_sock_helper_sock_error(self.as_raw()) })
    }

    /// Whether there are messages for MSG_ERRQUEUE. Context: any.
    pub(crate) fn has_error_queue(&self) -> bool {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_has_error_queue(self.as_raw()) }
    }

    /// Whether urgent data stays in the stream (SO_OOBINLINE). Context: any.
    pub(crate) fn urgent_inline(&self) -> bool {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_urg_inline(self.as_raw()) }
    }

    /// How long the connection may be idle before the peer is asked whether it lives, in
    /// milliseconds (SO_KEEPALIVE with TCP_KEEPIDLE); `None` without keepalive. Context: any.
    pub(crate) fn keepalive_ms(&self) -> Option<u32> {
        // SAFETY: By the type invariants the sock is valid.
        let idle = unsafe { bindings::rdma_sock_helper_tcp_keepalive(self.as_raw()) };
        (idle != 0).then_some(idle)
    }

    /// How long data may wait without an acknowledgement, in milliseconds (TCP_USER_TIMEOUT); `None`
    /// without a limit of the program. Context: any.
    pub(crate) fn user_timeout_ms(&self) -> Option<u32> {
        // SAFETY: By the type invariants the sock is valid.
        let time = unsafe { bindings::rdma_sock_helper_tcp_user_timeout(self.as_raw()) };
        (time != 0).then_some(time)
    }

    /// How often a peer is tested that lets a closed connection wait, before it is given up
    /// (`tcp_orphan_retries`). Context: any.
    pub(crate) fn orphan_retries(&self) -> u8 {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_tcp_orphan_retries(self.as_raw()) }
    }

    /// Signals urgent data to the owner of the socket (SIGURG), as TCP does. Never called from
    /// [`super::events::TcpEvents`] callbacks. Context: any.
    pub(crate) fn signal_urgent(&self) {
        // SAFETY: By the type invariants the sock is valid; the function takes the lock it needs.
        unsafe { bindings::rdma_sock_helper_send_sigurg(self.as_raw()) }
    }

    /// Where a peek starts, behind the first unread octet (SO_PEEK_OFF). Context: any.
    pub(crate) fn peek_offset(&self, flags: u32) -> usize {
        // SAFETY: By the type invariants the sock is valid.
        let offset = unsafe { bindings::rdma_sock_helper_peek_offset(self.as_raw(), flags as i32) };
        usize::try_from(offset).unwrap_or(0)
    }

    /// A peek has seen `count` octets. Context: any.
    pub(crate) fn peeked(&self, count: usize) {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_peek_offset_fwd(self.as_raw(), count) }
    }

    /// A receive has taken `count` octets. Context: any.
    pub(crate) fn unpeeked(&self, count: usize) {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_peek_offset_bwd(self.as_raw(), count) }
    }

    /// Wakes readers, pollers and SIGIO, as TCP does when data arrived.
    ///
    /// Context: any. Never called from [`super::events::TcpEvents`] callbacks.
    pub(crate) fn wake_readable(&self) {
        self.wake(
            Events::IN | Events::PRI | Events::RDNORM | Events::RDBAND,
            WAKE_WAITD,
            POLL_IN,
        );
    }

    /// Wakes writers, pollers and SIGIO, as TCP does when there is room to send.
    ///
    /// Context: any. Never called from [`super::events::TcpEvents`] callbacks.
    pub(crate) fn wake_writable(&self) {
        self.wake(
            Events::OUT | Events::WRNORM | Events::WRBAND,
            WAKE_SPACE,
            POLL_OUT,
        );
    }

    /// Asks for a SIGIO with the next [`Self::wake_writable`], for a caller that found no room and
    /// holds a reference to the socket.
    ///
    /// Context: any. Only during a call of the socket.
    pub(crate) fn want_space_signal(&self) {
        // SAFETY: By the type invariants the sock is valid; its socket stays for the call.
        unsafe { bindings::rdma_sock_helper_want_space_signal(self.as_raw()) }
    }

    /// Wakes every waiter once and sends SIGIO, as TCP does when a connect() has succeeded.
    ///
    /// Context: any. Never called from [`super::events::TcpEvents`] callbacks.
    pub(crate) fn wake_connected(&self) {
        events::wake_others(self, None);
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_wake_async(self.as_raw(), WAKE_IO, POLL_OUT) };
    }

    /// Wakes all waiters, as TCP does when the connection changes its state.
    ///
    /// Context: any. Never called from [`super::events::TcpEvents`] callbacks.
    pub(crate) fn wake_state(&self) {
        // Without a mask of events every waiter looks again.
        events::wake_others(self, None);
    }

    fn wake(&self, events: Events, how: i32, band: i32) {
        events::wake_others(self, Some(events));
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_wake_async(self.as_raw(), how, band) };
    }

    /// The address of this end. Context: any.
    pub(crate) fn local_addr(&self) -> Addr {
        self.addr(bindings::rdma_sock_helper_local_addr)
    }

    /// The address of the other end. Context: any.
    pub(crate) fn peer_addr(&self) -> Addr {
        self.addr(bindings::rdma_sock_helper_peer_addr)
    }

    fn addr(
        &self,
        get: unsafe extern "C" fn(*const bindings::sock, *mut u8, *mut bindings::__be16, *mut u32),
    ) -> Addr {
        let (mut ip, mut port, mut scope) = ([0; 16], 0, 0);
        // SAFETY: By the type invariants the sock is valid, and the places to write to have the
        // sizes the two functions given above want.
        unsafe { get(self.as_raw(), ip.as_mut_ptr(), &mut port, &mut scope) };
        Addr::from_mapped(ip, u16::from_be(port), scope, self.family() == Family::V4)
    }

    /// The size of the send buffer if the user chose one (SO_SNDBUF). Context: any.
    pub(crate) fn sndbuf_user(&self) -> Option<usize> {
        // SAFETY: By the type invariants the sock is valid.
        let size = unsafe { bindings::rdma_sock_helper_sk_sndbuf(self.as_raw()) };
        self.userlocks(SNDBUF_LOCKED)
            .then(|| usize::try_from(size).unwrap_or(0))
    }

    /// The size of the receive buffer if the user chose one (SO_RCVBUF). Context: any.
    pub(crate) fn rcvbuf_user(&self) -> Option<usize> {
        // SAFETY: By the type invariants the sock is valid.
        let size = unsafe { bindings::rdma_sock_helper_sk_rcvbuf(self.as_raw()) };
        self.userlocks(RCVBUF_LOCKED)
            .then(|| usize::try_from(size).unwrap_or(0))
    }

    /// Has SO_SNDBUF and SO_RCVBUF return the sizes of other buffers in octets, doubled as for TCP's own.
    /// TCP carries no data of the program after this call. Context: any.
    pub(crate) fn show_buffers(&self, sndbuf: u32, rcvbuf: u32) {
        let doubled = |octets: u32| i32::try_from(octets.saturating_mul(2)).unwrap_or(i32::MAX);
        // SAFETY: By the type invariants the sock is valid. TCP takes any size, and reads it once at a time.
        unsafe {
            bindings::rdma_sock_helper_sk_set_buffers(
                self.as_raw(),
                doubled(sndbuf),
                doubled(rcvbuf),
            )
        };
    }

    fn userlocks(&self, bit: u8) -> bool {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_sk_userlocks(self.as_raw()) & bit != 0 }
    }

    /// How long a send may wait, in jiffies: SO_SNDTIMEO, or 0 without blocking. Context: any.
    pub(crate) fn sndtimeo(&self, nonblock: bool) -> isize {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_sndtimeo(self.as_raw(), nonblock) }
    }

    /// How long a receive may wait, in jiffies: SO_RCVTIMEO, or 0 without blocking. Context: any.
    pub(crate) fn rcvtimeo(&self, nonblock: bool) -> isize {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_rcvtimeo(self.as_raw(), nonblock) }
    }

    /// How many octets a receive of `len` waits for (SO_RCVLOWAT, MSG_WAITALL). Context: any.
    pub(crate) fn rcvlowat(&self, waitall: bool, len: usize) -> usize {
        let len = i32::try_from(len).unwrap_or(i32::MAX);
        // SAFETY: By the type invariants the sock is valid.
        let want = unsafe { bindings::rdma_sock_helper_rcvlowat(self.as_raw(), waitall, len) };
        usize::try_from(want).unwrap_or(1)
    }

    /// The time of SO_LINGER in jiffies, if it is on. Context: any.
    pub(crate) fn linger(&self) -> Option<isize> {
        // SAFETY: By the type invariants the sock is valid.
        let (on, time) = unsafe {
            (
                bindings::rdma_sock_helper_sock_linger(self.as_raw()),
                bindings::rdma_sock_helper_lingertime(self.as_raw()),
            )
        };
        on.then(|| isize::try_from(time).unwrap_or(isize::MAX))
    }

    /// The backlog given to listen(). Context: any.
    pub(crate) fn max_backlog(&self) -> u32 {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_max_ack_backlog(self.as_raw()) }
    }

    /// The user the socket belongs to, as its network namespace sees it. Context: any.
    pub(crate) fn uid(&self) -> u32 {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_sk_uid(self.as_raw()) }
    }

    /// The inode number of the socket, 0 if there is none now. Context: any.
    pub(crate) fn ino(&self) -> u64 {
        // SAFETY: By the type invariants the sock is valid.
        unsafe { bindings::rdma_sock_helper_sk_ino(self.as_raw()) }
    }

    /// The network namespace. Context: any.
    pub(crate) fn net(&self) -> NetRef {
        // SAFETY: By the type invariants the sock is valid; a user's sock holds its namespace.
        unsafe { NetRef::get(bindings::rdma_sock_helper_sock_net(self.as_raw())) }
    }

    /// The memory cgroup that is charged for the socket: that of the program that made it. The root
    /// for a connection that was not accepted yet. Context: any.
    pub(crate) fn mem_cgroup(&self) -> MemCgroup {
        // SAFETY: By the type invariants the sock is valid. The result comes with a reference.
        unsafe { MemCgroup::from_raw(bindings::rdma_sock_helper_sk_memcg(self.as_raw())) }
    }

    /// The cookie of the network namespace, a number unique to it. Context: any.
    pub(crate) fn net_cookie(&self) -> u64 {
        // SAFETY: By the type invariants the sock is valid, and so is its namespace.
        unsafe {
            bindings::rdma_sock_helper_net_cookie(bindings::rdma_sock_helper_sock_net(
                self.as_raw(),
            ))
        }
    }
}

/// The held lock of a [`Sock`]; released on drop.
///
/// # Invariants
///
/// This thread owns the lock of the sock.
pub(crate) struct SockGuard<'a> {
    sock: &'a Sock,
    _not_send: NotThreadSafe,
}

impl SockGuard<'_> {
    /// Runs `f` without the lock.
    pub(super) fn unlocked<R>(&mut self, f: impl FnOnce() -> R) -> R {
        // SAFETY: By the type invariants this thread owns the lock.
        unsafe { bindings::rdma_sock_helper_release_sock(self.sock.as_raw()) };
        let result = f();
        // SAFETY: The sock is valid; the lock is taken again to keep the type invariant.
        unsafe { bindings::rdma_sock_helper_lock_sock(self.sock.as_raw()) };
        result
    }
}

impl core::ops::Deref for SockGuard<'_> {
    type Target = Sock;

    fn deref(&self) -> &Sock {
        self.sock
    }
}

impl Drop for SockGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this thread owns the lock.
        unsafe { bindings::rdma_sock_helper_release_sock(self.sock.as_raw()) }
    }
}
