// SPDX-License-Identifier: GPL-2.0

//! Calls that wait for data or for room: they spin as long as the core says, and then sleep.

use super::{
    calls::Direction,
    connection::{
        Connection,
        Protocol, //
    },
    context::now, //
};
use crate::{
    kapi::net::{
        sock::SockGuard,
        socket::Socket,
        wait::SpinEnd, //
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
    if most == Duration::ZERO {
        return sock.wait_unlocking(guard, timeo, |_| is_over());
    }
    let spins = &connection.spins;
    let spin = spins.load(direction);
    let (start, limit) = (now(), spin.limit(most));
    let mut seen = None;
    let end = sock.spin(guard, limit.as_nanos(), || {
        // Without news, the loop leaves the lock to the other side.
        let news = connection.news.load(Relaxed);
        seen.replace(news) != Some(news) && is_over()
    });
    let next = match end {
        SpinEnd::Over => {
            spins.store(direction, spin.hit());
            return Ok(());
        }
        SpinEnd::Late if limit != Duration::ZERO => Some(spin.miss()),
        SpinEnd::Late | SpinEnd::Unwanted => None,
    };
    sock.wait_unlocking(guard, timeo, |_| is_over())?;
    let slept = || spin.slept(now().saturating_since(start), most);
    spins.store(direction, next.unwrap_or_else(slept));
    Ok(())
}
