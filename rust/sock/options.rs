// SPDX-License-Identifier: GPL-2.0

//! Options of a connected socket whose TCP is closed, with the results of a connected TCP.

use super::{
    connection::{
        Connection,
        Protocol, //
    },
    stream::Stream, //
};
use crate::{
    kapi::{
        compat::errno::EISCONN,
        net::{
            sock::{
                Family,
                TcpState, //
            },
            sockopt::{
                GetOpt,
                SetOpt,
                SOL_IPV6,
                SOL_TCP, //
            },
            uapi::*, //
        },
    },
    proto::base::time::Instant, //
};
use kernel::prelude::*;

/// Refuses an option as TCP does when it is connected. Context: may sleep.
///
/// # Errors
///
/// `EINVAL`, `EISCONN` and `EPERM` as TCP has them; `EFAULT` for a bad address.
pub(super) fn refuse_connected<P: Protocol>(connection: &Connection<P>, opt: &SetOpt) -> Result {
    if !P::BESIDE_TCP {
        return Ok(());
    }
    let state = connection.look(Stream::shown_state).flatten();
    if state.is_none_or(|state| state == TcpState::Close) {
        return Ok(());
    }
    let is_v6 = connection.sk.family() == Family::V6;
    let error = match (opt.level, opt.name) {
        (SOL_TCP, TCP_FASTOPEN | TCP_FASTOPEN_CONNECT | TCP_FASTOPEN_NO_COOKIE) => EINVAL,
        // The socket has a port, though that of its TCP is closed.
        (SOL_IPV6, IPV6_V6ONLY) if is_v6 => EINVAL,
        (SOL_TCP, TCP_AO_ADD_KEY | TCP_AO_DEL_KEY | TCP_AO_INFO) => EISCONN,
        (SOL_TCP, TCP_QUEUE_SEQ) => EPERM,
        (SOL_TCP, TCP_WINDOW_CLAMP) if opt.read_int()? == 0 => EINVAL,
        _ => return Ok(()),
    };
    opt.read_int()?;
    Err(error)
}

/// Replaces what TCP says of its segments by what the stream knows. Context: may sleep.
///
/// # Errors
///
/// `EFAULT` for a bad address.
pub(super) fn show_segment<P: Protocol>(
    connection: &Connection<P>,
    opt: &mut GetOpt,
    now: Instant,
) -> Result {
    let info = connection.look(|stream| stream.info(now)).flatten();
    match info {
        Some(info) => opt.replace(0, &info.send_mss.to_ne_bytes()),
        None => Ok(()),
    }
}
