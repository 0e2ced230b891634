// SPDX-License-Identifier: GPL-2.0

//! Numbers of the socket interface that an engine reads.

/// Urgent data (`MSG_OOB`).
pub(crate) const MSG_OOB: u32 = 0x1;
/// Look without taking (`MSG_PEEK`).
pub(crate) const MSG_PEEK: u32 = 0x2;
/// Throw the data away (`MSG_TRUNC` on a stream).
pub(crate) const MSG_TRUNC: u32 = 0x20;
/// Wait for all of it (`MSG_WAITALL`).
pub(crate) const MSG_WAITALL: u32 = 0x100;
/// Read the error queue (`MSG_ERRQUEUE`).
pub(crate) const MSG_ERRQUEUE: u32 = 0x2000;
/// The pages of the message may be kept (`MSG_SPLICE_PAGES`).
pub(crate) const MSG_SPLICE_PAGES: u32 = 0x800_0000;
/// Connect by the first send (`MSG_FASTOPEN`).
pub(crate) const MSG_FASTOPEN: u32 = 0x2000_0000;
/// More is coming (`MSG_MORE`).
pub(crate) const MSG_MORE: u32 = 0x8000;

/// Unread bytes (`SIOCINQ`, `FIONREAD`).
pub(crate) const SIOCINQ: u32 = 0x541b;
/// Bytes not acknowledged by the peer (`SIOCOUTQ`).
pub(crate) const SIOCOUTQ: u32 = 0x5411;
/// Bytes not sent yet (`SIOCOUTQNSD`).
pub(crate) const SIOCOUTQNSD: u32 = 0x894b;
/// Whether the urgent mark is next (`SIOCATMARK`).
pub(crate) const SIOCATMARK: u32 = 0x8905;

/// `SO_KEEPALIVE`.
pub(crate) const SO_KEEPALIVE: i32 = 9;
/// `TCP_NODELAY`.
pub(crate) const TCP_NODELAY: i32 = 1;
/// `TCP_CORK`.
pub(crate) const TCP_CORK: i32 = 3;
/// `TCP_INFO`.
pub(crate) const TCP_INFO: i32 = 11;
/// `TCP_ZEROCOPY_RECEIVE`.
pub(crate) const TCP_ZEROCOPY_RECEIVE: i32 = 35;
/// `TCP_KEEPIDLE`.
pub(crate) const TCP_KEEPIDLE: i32 = 4;
/// `TCP_MAXSEG`.
pub(crate) const TCP_MAXSEG: i32 = 2;
/// `TCP_WINDOW_CLAMP`.
pub(crate) const TCP_WINDOW_CLAMP: i32 = 10;
/// `TCP_QUEUE_SEQ`.
pub(crate) const TCP_QUEUE_SEQ: i32 = 21;
/// `TCP_FASTOPEN`.
pub(crate) const TCP_FASTOPEN: i32 = 23;
/// `TCP_FASTOPEN_CONNECT`.
pub(crate) const TCP_FASTOPEN_CONNECT: i32 = 30;
/// `TCP_FASTOPEN_NO_COOKIE`.
pub(crate) const TCP_FASTOPEN_NO_COOKIE: i32 = 34;
/// `TCP_AO_ADD_KEY`.
pub(crate) const TCP_AO_ADD_KEY: i32 = 38;
/// `TCP_AO_DEL_KEY`.
pub(crate) const TCP_AO_DEL_KEY: i32 = 39;
/// `TCP_AO_INFO`.
pub(crate) const TCP_AO_INFO: i32 = 40;
/// `IPV6_V6ONLY`.
pub(crate) const IPV6_V6ONLY: i32 = 26;
/// `TCP_USER_TIMEOUT`.
pub(crate) const TCP_USER_TIMEOUT: i32 = 18;

/// Whether a listener limits its handshakes (`SMC_LIMIT_HS`).
pub(crate) const SMC_LIMIT_HS: i32 = 1;

/// `AF_UNSPEC`, which asks `connect` to dissolve a connection.
pub(crate) const AF_UNSPEC: u16 = 0;
