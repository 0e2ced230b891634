// SPDX-License-Identifier: GPL-2.0

//! Listeners: children taken from TCP or brought by a service, their set-up, and the queue that accept
//! empties.
//!
//! Source: RFC 7609 section 3.5.1.1 (`SMCR-TCP-19`): a connection reaches the application only
//! when its set-up is over. A child whose client did not agree to the protocol reaches it at once.

use super::{
    accept_queue::{
        AcceptQueue,
        Child,
        Listener, //
    },
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
        net::{
            sock::Sock,
            socket::DetachedSocket, //
        },
    },
    proto::stream::accept::{
        self,
        Room, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc,
        Mutex, //
    },
};

impl<P: Protocol> Child for Connection<P> {
    fn take_socket(&self) -> Option<DetachedSocket> {
        self.detached.lock().take()
    }

    fn end_ready(self: Arc<Self>) {
        drop_child(&self);
    }

    fn end_pending(self: Arc<Self>) {
        let listener = self.listener.lock().take();
        // Without its listener here, the child is being delivered or discarded at this moment.
        if listener.is_some() {
            self.cancel_setup();
            drop_child(&self);
        }
    }
}

impl<P: Protocol> Listener for Connection<P> {
    fn sk(&self) -> &Sock {
        &self.sk
    }

    fn accepts(&self) -> &Mutex<AcceptQueue> {
        &self.accepts
    }

    fn limits(&self) -> bool {
        self.limits.load(Relaxed)
    }

    fn withhold(&self, withholds: bool) {
        P::withhold(&self.sk, withholds);
    }

    fn kick(self: Arc<Self>) {
        self.kick_setup();
    }
}

/// Sets whether `listener`, whose queue this is, offers its protocol in TCP, after a change of the queue.
/// Returns whether it takes the next child from TCP.
fn adjust_offer(queue: &mut AcceptQueue, listener: &dyn Listener) -> Room {
    let backlog = backlog(listener.sk());
    let now = now();
    let ready = queue.ready();
    queue.fullness.update(ready, backlog, now);
    let withholds = accept::withholds_offer(queue.pending(), backlog, listener.limits());
    listener.withhold(withholds || queue.fullness.is_overdue(now));
    queue.fullness.room(ready, backlog, now)
}

/// How many connections of a listener may wait for accept. Context: any.
fn backlog(listener: &Sock) -> usize {
    usize::try_from(listener.max_backlog()).unwrap_or(usize::MAX)
}

/// Sets whether a listener limits its set-ups, now or once it listens. Context: may sleep.
pub(crate) fn limit<P: Protocol>(listener: &Connection<P>, on: bool) {
    listener.limits.store(on, Relaxed);
    adjust_offer(&mut listener.accepts.lock(), listener);
}

/// Takes children from TCP's queue as long as accept has not enough of them; the others stay with
/// TCP and count against its backlog, for as long as their clients wait. A child whose set-up is
/// under way takes no place of the backlog, so peers that stall keep no child from accept. Runs on
/// the workqueue.
pub(crate) fn take_children<P: Protocol>(listener: &Arc<Connection<P>>) {
    loop {
        {
            let mut queue = listener.accepts.lock();
            if queue.closed {
                return;
            }
            // The backlog may be overdue since the last change of the queue.
            match adjust_offer(&mut queue, &**listener) {
                Room::Free => {}
                Room::From(at) => return listener.arm_setup(at),
                Room::Full => return,
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
    let sk = detached.sk_ref();
    let agreed = P::agreed(&sk);
    let child = P::child(listener, sk)?;
    enter_child(listener.clone(), &child, detached, agreed)?;
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

/// Enters a child of `listener`, whose socket is `detached`, in the queue. The child takes part in the
/// set-up of its protocol, or not. After an error the child has ended. Context: may sleep.
///
/// # Errors
///
/// `ECONNABORTED` if the listener is closed, `ENOBUFS` if too many set-ups are under way, `ENOMEM`.
pub(crate) fn enter_child<P: Protocol>(
    listener: Arc<dyn Listener>,
    child: &Arc<Connection<P>>,
    detached: DetachedSocket,
    agreed: bool,
) -> Result {
    let attached = detached.attach(child.clone());
    *child.detached.lock() = Some(detached);
    *child.listener.lock() = Some(listener.clone());
    let result = attached.and_then(|()| {
        let mut queue = listener.accepts().lock();
        if queue.closed {
            return Err(ECONNABORTED);
        }
        let backlog = backlog(listener.sk());
        if agreed && accept::refuses_handshake(queue.pending(), backlog) {
            return Err(ENOBUFS);
        }
        queue.enter(child.clone())?;
        adjust_offer(&mut queue, &*listener);
        Ok(())
    });
    if result.is_err() {
        discard(child);
    }
    result
}

/// The set-up of a child is over. Returns its listener, unless that ends the child at this moment, and
/// whether the child is ready for accept. Context: may sleep.
fn leave<P: Protocol>(child: &Connection<P>, ready: bool) -> Option<(Arc<dyn Listener>, bool)> {
    let listener = child.listener.lock().take()?;
    let mut queue = listener.accepts().lock();
    let place = queue.leave(child);
    let is_ready = ready && place.is_some_and(|place| queue.admit(place).is_ok());
    adjust_offer(&mut queue, &*listener);
    drop(queue);
    Some((listener, is_ready))
}

/// A child is ready for accept. Context: may sleep.
pub(crate) fn deliver<P: Protocol>(child: &Arc<Connection<P>>) {
    match leave(child, true) {
        Some((listener, true)) => listener.sk().wake_readable(),
        _ => drop_child(child),
    }
}

/// The set-up of a child has failed. Context: may sleep.
pub(crate) fn discard<P: Protocol>(child: &Arc<Connection<P>>) {
    if let Some((listener, _)) = leave(child, false) {
        // There is room again.
        listener.kick();
    }
    drop_child(child);
}

/// Ends a child that no call will accept: like TCP, with a reset.
fn drop_child<P: Protocol>(child: &Arc<Connection<P>>) {
    // In one step: the work item of the end frees what it finds both over and closed.
    let ended = child.update(|stream, now| {
        stream.abort(now);
        stream.close(now);
    });
    child.sk.abort(ECONNRESET);
    if ended.is_none() {
        child.finish();
    }
}

/// Whether as many connections wait for accept as may. Context: may sleep.
pub(crate) fn is_full(listener: &dyn Listener) -> bool {
    listener.accepts().lock().ready() > backlog(listener.sk())
}

/// Takes the next connection for accept. Context: may sleep.
pub(crate) fn next<P: Protocol>(listener: &Arc<Connection<P>>) -> Option<Arc<dyn Child>> {
    let (child, was_full) = {
        let mut queue = listener.accepts.lock();
        let was_full = queue.ready() > backlog(&listener.sk);
        let child = queue.next()?;
        if was_full {
            adjust_offer(&mut queue, &**listener);
        }
        (child, was_full)
    };
    // TCP may have more, for which there was no place.
    if was_full {
        listener.kick_setup();
    }
    Some(child)
}

/// How many connections wait for accept. Context: may sleep.
pub(crate) fn ready<P: Protocol>(listener: &Connection<P>) -> usize {
    listener.accepts.lock().ready()
}

/// Whether accept would find something. Context: may sleep.
pub(crate) fn is_ready<P: Protocol>(listener: &Connection<P>) -> bool {
    ready(listener) != 0
}

/// The socket listens (again).
pub(crate) fn open<P: Protocol>(listener: &Connection<P>) {
    listener.accepts.lock().closed = false;
}

/// The socket listens: TCP has its port. Has the protocol `P` bring children to it from now on, which may
/// be another one than that of the socket. Context: may sleep.
pub(crate) fn serve<P: Protocol, L: Protocol>(listener: &Arc<Connection<L>>) {
    if listener.accepts.lock().service.is_some() {
        return;
    }
    // Without memory, clients use TCP.
    let Some(service) = P::serve(listener.clone()) else {
        return;
    };
    let unused = {
        let mut queue = listener.accepts.lock();
        // Another call was quicker, or has closed the listener meanwhile.
        if queue.closed || queue.service.is_some() {
            Some(service)
        } else {
            queue.service.replace(service)
        }
    };
    // Without the lock of the queue, which those wait for that this waits for.
    drop(unused);
}

/// The name of the protocol that brings children beside TCP. Context: may sleep.
pub(crate) fn service_name<P: Protocol>(listener: &Connection<P>) -> Option<&'static str> {
    let queue = listener.accepts.lock();
    queue.service.as_ref().map(|service| service.name())
}

/// Ends the service and the set-ups of the listener, and resets its children. Waits for its work item.
/// Context: may sleep.
pub(crate) fn close<P: Protocol>(listener: &Arc<Connection<P>>) {
    let (ready, pending, service) = listener.accepts.lock().close();
    listener.change_mode(Mode::Listening, Mode::Tcp);
    drop(service);
    listener.setup_work.cancel_sync();
    for place in ready {
        place.child.end_ready();
    }
    for place in pending {
        place.child.end_pending();
    }
}
