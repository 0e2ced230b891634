// SPDX-License-Identifier: GPL-2.0

//! connect(): its beginning, the wait for its end, and what breaks it off.

use super::{
    connection::{
        Connection,
        Mode,
        Protocol, //
    },
    listen,
    stats::Side, //
};
use crate::kapi::{
    compat::errno::{
        EALREADY,
        EINPROGRESS,
        EISCONN, //
    },
    net::{
        msg::{
            ConnectFlags,
            Name, //
        },
        sock::TcpState,
        socket::{
            Socket,
            SocketState, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The context of a socket. Context: any.
pub(crate) fn context<P: Protocol>(sock: &Socket) -> Option<Arc<Connection<P>>> {
    sock.context::<Connection<P>>().map(Arc::from)
}

/// The context of a socket, made at its first use. `None` leaves the socket to TCP: without memory
/// or when something else owns the sock. Context: may sleep.
pub(crate) fn context_or_new<P: Protocol>(sock: &Socket, side: Side) -> Option<Arc<Connection<P>>> {
    if let Some(connection) = context(sock) {
        return Some(connection);
    }
    let connection = P::connection(sock.sk_ref(), side).ok()?;
    if sock.attach(connection.clone()).is_err() {
        connection.finish();
        return context(sock);
    }
    Some(connection)
}

/// Waits for the end of `connect`. Context: may sleep.
///
/// # Errors
///
/// `EAGAIN` when the time is over, or that of a signal.
pub(crate) fn wait_settled<P: Protocol>(
    sock: &Socket,
    connection: &Connection<P>,
    timeo: &mut isize,
) -> Result {
    if !connection.is_pending() {
        return Ok(());
    }
    if *timeo == 0 {
        return Err(EAGAIN);
    }
    sock.wait(timeo, || !connection.is_pending())
}

/// Breaks off a set-up that is under way. Returns whether the peer goes on with it, so that TCP
/// cannot be used. A set-up that has succeeded meanwhile stays: the mode is [`Mode::Stream`] then.
/// Context: may sleep.
pub(crate) fn break_off<P: Protocol>(sock: &Socket, connection: &Arc<Connection<P>>) -> bool {
    let broken_off = connection.cancel_setup();
    if connection.look(|_| ()).is_some() {
        connection.set_mode(Mode::Stream);
    } else if P::BESIDE_TCP {
        sock.set_state(SocketState::Unconnected);
    }
    broken_off
}

/// TCP has left the listening state: so does the engine. Context: may sleep.
pub(crate) fn stop_listening<P: Protocol>(sock: &Socket, connection: &Arc<Connection<P>>) {
    if connection.mode() == Mode::Listening && sock.sk().tcp_state() != TcpState::Listen {
        listen::close(connection);
    }
}

/// connect() to no address, which takes a TCP socket back to its beginning. Context: may sleep.
pub(crate) fn dissolve<P: Protocol>(sock: &Socket, name: &Name, flags: ConnectFlags) -> Result {
    let Some(connection) = context::<P>(sock) else {
        return sock.inet_connect(name, flags.raw());
    };
    if connection.is_pending() {
        break_off(sock, &connection);
    }
    if connection.mode() == Mode::Stream {
        return Err(EINVAL);
    }
    let result = sock.inet_connect(name, flags.raw());
    stop_listening(sock, &connection);
    if connection.mode() == Mode::Tcp {
        P::withdraw(sock);
    }
    result
}

/// Waits for what an attempt that failed has left: calls of TCP, and the work item. Either would take the next
/// attempt for that one while TCP is closed. Context: may sleep.
fn forget_attempt<P: Protocol>(sock: &Socket, connection: &Connection<P>) {
    // TCP has it while it calls.
    drop(sock.sk().lock());
    // In this mode it is not kicked.
    connection.cancel_setup_work();
}

/// Starts `connect` with the offer of the protocol. Returns whether it did; if not, it is TCP's.
fn begin<P: Protocol>(
    sock: &Socket,
    connection: &Arc<Connection<P>>,
    name: &Name,
    flags: ConnectFlags,
) -> Result<bool> {
    if let Some(reason) = P::opt_out(connection, name) {
        // An attempt that failed has left it on.
        P::withdraw(sock);
        connection.fall_back(reason);
        return Ok(false);
    }
    if P::BESIDE_TCP {
        return begin_beside(sock, connection, name);
    }
    if !connection.change_mode(Mode::Tcp, Mode::Connecting) {
        return Err(EALREADY);
    }
    P::offer(sock, Side::Client);
    match sock.inet_connect(name, flags.with_nonblock().raw()) {
        Err(error) if error != EINPROGRESS => {
            connection.change_mode(Mode::Connecting, Mode::Tcp);
            P::withdraw(sock);
            return Err(error);
        }
        _ => {}
    }
    // TCP may have been quicker than the mode.
    connection.kick_setup();
    Ok(true)
}

/// Starts `connect` beside TCP. Returns whether it did; if not, it is TCP's.
fn begin_beside<P: Protocol>(
    sock: &Socket,
    connection: &Arc<Connection<P>>,
    name: &Name,
) -> Result<bool> {
    if !connection.change_mode(Mode::Tcp, Mode::Negotiating) {
        return Err(EALREADY);
    }
    sock.set_state(SocketState::Connecting);
    if let Err(reason) = P::open(connection, name) {
        sock.set_state(SocketState::Unconnected);
        connection.fall_back(reason);
        return Ok(false);
    }
    connection.kick_setup();
    Ok(true)
}

/// What connect() returns for a connection that was opened beside TCP, once its set-up is over.
/// `None` if TCP is to say. Context: may sleep.
fn outcome_beside<P: Protocol>(sock: &Socket, connection: &Connection<P>) -> Option<Result> {
    let guard = sock.sk().lock();
    if connection.mode() != Mode::Stream {
        // TCP reports how its attempt went, but for an error that it found at once.
        let began = sock.state() != SocketState::Unconnected;
        return if began {
            None
        } else {
            guard.take_err().err().map(Err)
        };
    }
    if sock.state() == SocketState::Connected {
        return Some(Err(EISCONN));
    }
    sock.set_state(SocketState::Connected);
    Some(Ok(()))
}

/// Ends connect() by TCP after a wait that left `timeo` of the time of the call: TCP would give itself
/// all of it. Context: may sleep.
fn finish_by_tcp(sock: &Socket, name: &Name, flags: ConnectFlags, mut timeo: isize) -> Result {
    let connects = || {
        let state = sock.sk().tcp_state();
        matches!(state, TcpState::SynSent | TcpState::SynRecv)
    };
    if !connects() {
        return sock.inet_connect(name, flags.raw());
    }
    match sock.wait(&mut timeo, || !connects()) {
        // TCP says that it still connects.
        Err(error) if error != EAGAIN => Err(error),
        _ => sock.inet_connect(name, flags.with_nonblock().raw()),
    }
}

/// connect() to an address. Context: may sleep.
pub(crate) fn connect<P: Protocol>(sock: &Socket, name: &Name, flags: ConnectFlags) -> Result {
    let Some(connection) = context_or_new::<P>(sock, Side::Client) else {
        return sock.inet_connect(name, flags.raw());
    };
    let idle = sock.state() == SocketState::Unconnected && sock.sk().tcp_state() == TcpState::Close;
    let mut begun = false;
    if connection.mode() == Mode::Tcp && idle {
        // Like TCP, which sees the answer only after this call.
        connection.begin_connect();
        forget_attempt(sock, &connection);
        begun = begin(sock, &connection, name, flags)?;
        if begun && flags.nonblock() {
            return Err(EINPROGRESS);
        }
    }
    let mut waited = None;
    if connection.is_pending() {
        let mut timeo = sock.sk().sndtimeo(flags.nonblock());
        match wait_settled(sock, &connection, &mut timeo) {
            Ok(()) => {}
            Err(error) if error == EAGAIN => {
                return Err(if flags.nonblock() {
                    EALREADY
                } else {
                    EINPROGRESS
                });
            }
            Err(error) => return Err(error),
        }
        waited = Some(timeo);
    }
    connection.end_connect();
    if P::BESIDE_TCP {
        if let Some(outcome) = outcome_beside(sock, &connection) {
            return outcome;
        }
    }
    // TCP knows how it went, or goes on alone.
    let result = match waited.filter(|_| P::BESIDE_TCP) {
        Some(timeo) => finish_by_tcp(sock, name, flags, timeo),
        None => sock.inet_connect(name, flags.raw()),
    };
    match result {
        // The attempt is this call's own, whichever part of it the time ended in.
        Err(error) if error == EALREADY && begun => Err(EINPROGRESS),
        result => result,
    }
}
