// SPDX-License-Identifier: GPL-2.0

//! Calls that wait for data or for room: they spin as long as the core says, and then sleep.

use super::{
    calls::{
        Direction,
        Rare, //
    },
    connection::{
        Connection,
        Protocol, //
    },
    context::now, //
};
use crate::{
    kapi::net::{
        sock::SockGuard,
        socket::Socket, //
    },
    proto::base::time::Duration,
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// Waits for `timeo` jiffies at most until `is_over`, of which those used are subtracted. The lock is released
/// meanwhile. Whatever makes `is_over` true must be news of the connection. Context: may sleep.
///
/// # Errors
///
/// `EAGAIN` when the time is over, or that of a signal.
pub(crate) fn wait<P: Protocol>(
    sock: &Socket,
    connection: &Arc<Connection<P>>,
    direction: Direction,
    guard: &mut SockGuard<'_>,
    timeo: &mut isize,
    is_over: impl Fn() -> bool,
) -> Result {
    let most = P::longest_spin(connection);
    let spins = &connection.spins;
    let spin = spins.load(direction);
    let (start, limit) = (now(), spin.limit(most));
    if limit == Duration::ZERO {
        sock.wait_unlocking(guard, timeo, |_| is_over())?;
        spins.store(direction, spin.slept(now().saturating_since(start), most));
        return Ok(());
    }
    connection.calls.count_rare(Rare::Spin);
    let mut seen = None;
    let is_hit = sock.spin(guard, limit.as_nanos(), || {
        // Without news, the loop leaves the lock to the other side.
        let news = connection.news.load(Relaxed);
        seen.replace(news) != Some(news) && is_over()
    });
    if is_hit {
        spins.store(direction, spin.hit(now().saturating_since(start)));
        return Ok(());
    }
    connection.calls.count_rare(Rare::SpinInVain);
    spins.store(direction, spin.miss());
    sock.wait_unlocking(guard, timeo, |_| is_over())
}
