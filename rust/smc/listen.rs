// SPDX-License-Identifier: GPL-2.0

//! Listeners: children taken from TCP, their handshakes, and the queue that accept empties.
//!
//! Source: RFC 7609 section 3.5.1.1 (`SMCR-TCP-19`): a connection reaches the application only
//! when its handshake is over. A child whose client offered no SMC-R reaches it at once.

use super::{
    accept_queue::AcceptQueue,
    connection::{
        Connection,
        Mode, //
    },
    stats::Side, //
};
use crate::{
    kapi::{
        base::time::jiffies_from_ns,
        compat::errno::{
            ECONNABORTED,
            ECONNRESET,
            ENOBUFS, //
        },
        net::socket::DetachedSocket, //
    },
    proto::stream::{
        accept,
        reason::Reason, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

impl AcceptQueue<Connection> {
    /// The handshake of a child of `listener`, whose queue this is, is over.
    fn forget(&mut self, listener: &Connection, child: &Arc<Connection>) {
        self.pending.retain(|known| !Arc::ptr_eq(known, child));
        self.adjust_offer(listener);
    }

    /// Lets `listener`, whose queue this is, offer SMC-R or not, now that the queue has changed.
    fn adjust_offer(&self, listener: &Connection) {
        let limits = listener.limits.load(Relaxed);
        let withholds = accept::withholds_offer(self.pending.len(), backlog(listener), limits);
        listener.sk.withhold_option(withholds);
    }
}

/// How many connections may wait for accept. Context: any.
fn backlog(listener: &Connection) -> usize {
    usize::try_from(listener.sk.max_backlog()).unwrap_or(usize::MAX)
}

/// Sets whether a listener limits its handshakes, now or once it listens. Context: may sleep.
pub(crate) fn limit(listener: &Connection, on: bool) {
    listener.limits.store(on, Relaxed);
    listener.accepts.lock().adjust_offer(listener);
}

/// Takes children from TCP's queue as long as accept has not enough of them; the others stay with
/// TCP and count against its backlog. A child with a handshake under way takes no place of the
/// backlog, so peers that stall keep no child from accept. Runs on the workqueue.
pub(crate) fn take_children(listener: &Arc<Connection>) {
    loop {
        {
            let queue = listener.accepts.lock();
            if queue.closed || queue.ready.len() > backlog(listener) {
                return;
            }
        }
        let detached = match listener.sk.accept_child() {
            Ok(detached) => detached,
            Err(error) if error == EBUSY => return listener.retry_handshake(),
            Err(error) => {
                listener.handshake_contention.over();
                if error != EAGAIN {
                    // There is no event for free memory.
                    let delay = jiffies_from_ns(accept::MEMORY_RETRY.as_nanos());
                    listener.handshake_work.arm(
                        listener,
                        &listener.engine.context.handshakes,
                        delay,
                    );
                }
                return;
            }
        };
        listener.handshake_contention.over();
        // A child that cannot be served is closed by dropping its detached.
        let _ = take_child(listener, detached);
    }
}

fn take_child(listener: &Arc<Connection>, detached: DetachedSocket) -> Result {
    let sk = detached.sk_ref();
    let agreed = sk.take_syn();
    let child = Connection::new(&listener.engine, sk, Side::Server)?;
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
    let result = result.and_then(|()| {
        if agreed {
            child.negotiate()
        } else {
            child.fall_back(Reason::PeerNoSmc);
            deliver(&child);
            Ok(())
        }
    });
    if result.is_err() {
        discard(&child);
    }
    result
}

/// A child is ready for accept. Context: may sleep.
pub(crate) fn deliver(child: &Arc<Connection>) {
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

/// The handshake of a child has failed. Context: may sleep.
pub(crate) fn discard(child: &Arc<Connection>) {
    let listener = child.listener.lock().take();
    if let Some(listener) = listener {
        listener.accepts.lock().forget(&listener, child);
        // There is room again.
        listener.kick_handshake();
    }
    drop_child(child);
}

/// Ends a child that no call will accept: like TCP, with a reset.
fn drop_child(child: &Arc<Connection>) {
    let smc = child.update(|data, now| data.core.abort(now)).is_some();
    let closed = child.update(|data, now| data.core.close(now)).is_some();
    child.sk.abort(ECONNRESET);
    if !(smc && closed) {
        child.finish();
    }
}

/// Takes the next connection for accept. Context: may sleep.
pub(crate) fn next(listener: &Arc<Connection>) -> Option<Arc<Connection>> {
    let child = listener.accepts.lock().ready.remove(0).ok()?;
    // TCP may have more.
    listener.kick_handshake();
    Some(child)
}

/// Whether accept would find something. Context: may sleep.
pub(crate) fn is_ready(listener: &Connection) -> bool {
    !listener.accepts.lock().ready.is_empty()
}

/// The socket listens (again).
pub(crate) fn open(listener: &Connection) {
    listener.accepts.lock().closed = false;
}

/// Ends the listener's handshakes and resets its children. Waits for its work item.
/// Context: may sleep.
pub(crate) fn close(listener: &Arc<Connection>) {
    let (ready, pending) = {
        let mut queue = listener.accepts.lock();
        queue.closed = true;
        (
            core::mem::take(&mut queue.ready),
            core::mem::take(&mut queue.pending),
        )
    };
    listener.change_mode(Mode::Listening, Mode::Tcp);
    listener.handshake_work.cancel_sync();
    for child in ready {
        drop_child(&child);
    }
    for child in pending {
        let listener = child.listener.lock().take();
        // Without its listener here, the child is being delivered or discarded at this moment.
        if listener.is_some() {
            child.cancel_handshake();
            drop_child(&child);
        }
    }
}
