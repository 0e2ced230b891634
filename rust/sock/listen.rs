// SPDX-License-Identifier: GPL-2.0

//! Listeners: children taken from TCP, their set-up, and the queue that accept empties.
//!
//! Source: RFC 7609 section 3.5.1.1 (`SMCR-TCP-19`): a connection reaches the application only
//! when its set-up is over. A child whose client did not agree to the protocol reaches it at once.

use super::{
    accept_queue::AcceptQueue,
    connection::{
        Connection,
        Mode,
        Protocol, //
    },
    context::now,
    stream::Stream, //
};
use crate::{
    kapi::{
        compat::errno::{
            ECONNABORTED,
            ECONNRESET,
            ENOBUFS, //
        },
        net::socket::DetachedSocket, //
    },
    proto::stream::accept,
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

impl<P: Protocol> AcceptQueue<Connection<P>> {
    /// The set-up of a child of `listener`, whose queue this is, is over.
    fn forget(&mut self, listener: &Connection<P>, child: &Arc<Connection<P>>) {
        self.pending.retain(|known| !Arc::ptr_eq(known, child));
        self.adjust_offer(listener);
    }

    /// Sets whether `listener`, whose queue this is, offers the protocol, after a change of the
    /// queue.
    fn adjust_offer(&self, listener: &Connection<P>) {
        let limits = listener.limits.load(Relaxed);
        let withholds = accept::withholds_offer(self.pending.len(), backlog(listener), limits);
        P::withhold(&listener.sk, withholds);
    }
}

/// How many connections may wait for accept. Context: any.
fn backlog<P: Protocol>(listener: &Connection<P>) -> usize {
    usize::try_from(listener.sk.max_backlog()).unwrap_or(usize::MAX)
}

/// Sets whether a listener limits its set-ups, now or once it listens. Context: may sleep.
pub(crate) fn limit<P: Protocol>(listener: &Connection<P>, on: bool) {
    listener.limits.store(on, Relaxed);
    listener.accepts.lock().adjust_offer(listener);
}

/// Takes children from TCP's queue as long as accept has not enough of them; the others stay with
/// TCP and count against its backlog. A child whose set-up is under way takes no place of the
/// backlog, so peers that stall keep no child from accept. Runs on the workqueue.
pub(crate) fn take_children<P: Protocol>(listener: &Arc<Connection<P>>) {
    loop {
        {
            let queue = listener.accepts.lock();
            if queue.closed || queue.ready.len() > backlog(listener) {
                return;
            }
        }
        let detached = match listener.sk.accept_child() {
            Ok(detached) => detached,
            Err(error) if error == EBUSY => return listener.retry_setup(),
            Err(error) => {
                listener.setup_locked();
                if error != EAGAIN {
                    // There is no event for free memory.
                    listener.arm_setup(now().saturating_add(accept::MEMORY_RETRY));
                }
                return;
            }
        };
        listener.setup_locked();
        // A child that cannot be served is closed by dropping its detached.
        let _ = take_child(listener, detached);
    }
}

fn take_child<P: Protocol>(listener: &Arc<Connection<P>>, detached: DetachedSocket) -> Result {
    let agreed = P::agreed(&detached.sk_ref());
    let child = enter_child(listener, detached, agreed)?;
    if !agreed {
        child.fall_back(P::NOT_AGREED);
        deliver(&child);
        return Ok(());
    }
    let result = P::negotiate(&child);
    if result.is_err() {
        discard(&child);
    }
    result
}

/// Makes a connection of `listener` whose socket is `detached`, and enters it in the queue. It takes
/// part in the set-up of the protocol, or not. Context: may sleep.
///
/// # Errors
///
/// `ECONNABORTED` if the listener is closed, `ENOBUFS` if too many set-ups are under way, `ENOMEM`.
pub(crate) fn enter_child<P: Protocol>(
    listener: &Arc<Connection<P>>,
    detached: DetachedSocket,
    agreed: bool,
) -> Result<Arc<Connection<P>>> {
    let child = P::child(listener, detached.sk_ref())?;
    let attached = detached.attach(child.clone());
    *child.detached.lock() = Some(detached);
    *child.listener.lock() = Some(listener.clone());
    let result = attached.and_then(|()| {
        let mut queue = listener.accepts.lock();
        if queue.closed {
            return Err(ECONNABORTED);
        }
        if agreed && accept::refuses_handshake(queue.pending.len(), backlog(listener)) {
            return Err(ENOBUFS);
        }
        queue.ready.reserve(1, GFP_KERNEL)?;
        queue.pending.push(child.clone(), GFP_KERNEL)?;
        queue.adjust_offer(listener);
        Ok(())
    });
    if let Err(error) = result {
        discard(&child);
        return Err(error);
    }
    Ok(child)
}

/// A child is ready for accept. Context: may sleep.
pub(crate) fn deliver<P: Protocol>(child: &Arc<Connection<P>>) {
    let listener = child.listener.lock().take();
    let queued = listener.as_ref().is_some_and(|listener| {
        let mut queue = listener.accepts.lock();
        queue.forget(listener, child);
        !queue.closed && queue.ready.push(child.clone(), GFP_KERNEL).is_ok()
    });
    match listener {
        Some(listener) if queued => listener.sk.wake_readable(),
        _ => drop_child(child),
    }
}

/// The set-up of a child has failed. Context: may sleep.
pub(crate) fn discard<P: Protocol>(child: &Arc<Connection<P>>) {
    let listener = child.listener.lock().take();
    if let Some(listener) = listener {
        listener.accepts.lock().forget(&listener, child);
        // There is room again.
        listener.kick_setup();
    }
    drop_child(child);
}

/// Ends a child that no call will accept: like TCP, with a reset.
fn drop_child<P: Protocol>(child: &Arc<Connection<P>>) {
    let aborted = child.update(|stream, now| stream.abort(now)).is_some();
    let closed = child.update(|stream, now| stream.close(now)).is_some();
    child.sk.abort(ECONNRESET);
    if !(aborted && closed) {
        child.finish();
    }
}

/// Whether as many connections wait for accept as may. Context: may sleep.
pub(crate) fn is_full<P: Protocol>(listener: &Connection<P>) -> bool {
    listener.accepts.lock().ready.len() > backlog(listener)
}

/// Takes the next connection for accept. Context: may sleep.
pub(crate) fn next<P: Protocol>(listener: &Arc<Connection<P>>) -> Option<Arc<Connection<P>>> {
    let child = listener.accepts.lock().ready.remove(0).ok()?;
    // TCP may have more.
    listener.kick_setup();
    Some(child)
}

/// Whether accept would find something. Context: may sleep.
pub(crate) fn is_ready<P: Protocol>(listener: &Connection<P>) -> bool {
    !listener.accepts.lock().ready.is_empty()
}

/// The socket listens (again).
pub(crate) fn open<P: Protocol>(listener: &Connection<P>) {
    listener.accepts.lock().closed = false;
}

/// Ends the set-ups of the listener and resets its children. Waits for its work item.
/// Context: may sleep.
pub(crate) fn close<P: Protocol>(listener: &Arc<Connection<P>>) {
    let (ready, pending) = {
        let mut queue = listener.accepts.lock();
        queue.closed = true;
        (
            core::mem::take(&mut queue.ready),
            core::mem::take(&mut queue.pending),
        )
    };
    listener.change_mode(Mode::Listening, Mode::Tcp);
    P::stops_listening(listener);
    listener.setup_work.cancel_sync();
    for child in ready {
        drop_child(&child);
    }
    for child in pending {
        let listener = child.listener.lock().take();
        // Without its listener here, the child is being delivered or discarded at this moment.
        if listener.is_some() {
            child.cancel_setup();
            drop_child(&child);
        }
    }
}
