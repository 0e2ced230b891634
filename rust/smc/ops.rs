// SPDX-License-Identifier: GPL-2.0

//! Socket calls. What is not overridden here, or not in an SMC mode, is TCP's.

use super::{
    connection::{
        Connection,
        Mode, //
    },
    engine::engine,
    flags::*,
    listen,
    policy,
    rx,
    stats::Side,
    tx, //
};
use crate::{
    kapi::{
        base::module::{
            is_exiting,
            random_u32, //
        },
        compat::errno::{
            EALREADY,
            ECONNRESET,
            EINPROGRESS,
            ENOPROTOOPT,
            ENOTCONN,
            EOPNOTSUPP, //
        },
        net::{
            msg::{
                AcceptArg,
                ConnectFlags,
                Name,
                NameBuf,
                RecvMsg,
                SendMsg, //
            },
            ops::{
                SocketOps,
                Splice, //
            },
            poll::{
                Events,
                PollTable, //
            },
            sock::TcpState,
            socket::{
                Accepted,
                Closing,
                NewSocket,
                Socket,
                SocketState, //
            },
            sockopt::{
                put_user_int,
                GetOpt,
                SetOpt,
                SOL_SMC,
                SOL_SOCKET,
                SOL_TCP, //
            },
        },
    },
    proto::stream::{
        poll::{
            self,
            Mask,
            State, //
        },
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

/// The socket operations of SMC sockets.
pub(crate) struct SmcOps;

/// `shutdown` for receiving.
const SHUT_RD: i32 = 0;
/// `shutdown` for sending.
const SHUT_WR: i32 = 1;
/// `shutdown` for both.
const SHUT_RDWR: i32 = 2;

fn context(sock: &Socket) -> Option<Arc<Connection>> {
    sock.context::<Connection>().map(Arc::from)
}

/// The context of a socket, made at its first use. `None` leaves the socket to TCP: without memory
/// or when something else owns the sock.
fn context_or_new(sock: &Socket, side: Side) -> Option<Arc<Connection>> {
    if let Some(connection) = context(sock) {
        return Some(connection);
    }
    let connection = Connection::new(&engine()?, sock.sk_ref(), side).ok()?;
    if sock.attach(connection.clone()).is_err() {
        connection.finish();
        return context(sock);
    }
    Some(connection)
}

/// Why a connection is not even offered to the peer.
fn opt_out(connection: &Connection, name: &Name) -> Option<Reason> {
    let sk = &connection.sk;
    if !connection.engine.devices.serve(sk.net_cookie()) {
        return Some(Reason::NoSmcrDevice);
    }
    policy::refusal_to(sk, name)
}

/// Waits for the end of `connect`. EAGAIN when the time is over.
fn wait_settled(sock: &Socket, connection: &Connection, timeo: &mut isize) -> Result {
    if !connection.is_pending() {
        return Ok(());
    }
    if *timeo == 0 {
        return Err(EAGAIN);
    }
    sock.wait(timeo, || !connection.is_pending())
}

/// Breaks off a handshake that is under way. Returns whether the peer goes on with it, so that TCP
/// cannot be used. A handshake that has succeeded meanwhile stays: the mode is [`Mode::Smc`] then.
fn break_off(connection: &Arc<Connection>) -> bool {
    let broken_off = connection.cancel_handshake();
    if connection.look(|_| ()).is_some() {
        connection.set_mode(Mode::Smc);
    }
    broken_off
}

/// TCP has left the listening state: so does the engine.
fn stop_listening(sock: &Socket, connection: &Arc<Connection>) {
    if connection.mode() == Mode::Listening && sock.sk().tcp_state() != TcpState::Listen {
        listen::close(connection);
    }
}

/// connect() to no address, which takes a TCP socket back to its beginning.
fn dissolve(sock: &Socket, name: &Name, flags: ConnectFlags) -> Result {
    let Some(connection) = context(sock) else {
        return sock.inet_connect(name, flags.raw());
    };
    if connection.is_pending() {
        break_off(&connection);
    }
    if connection.mode() == Mode::Smc {
        return Err(EINVAL);
    }
    let result = sock.inet_connect(name, flags.raw());
    stop_listening(sock, &connection);
    if connection.mode() == Mode::Tcp {
        sock.disable_option();
    }
    result
}

/// Starts `connect` with the option on the SYN. Returns whether it did; if not, it is TCP's.
fn begin(
    sock: &Socket,
    connection: &Arc<Connection>,
    name: &Name,
    flags: ConnectFlags,
) -> Result<bool> {
    if let Some(reason) = opt_out(connection, name) {
        // An attempt that failed has left it on.
        sock.disable_option();
        connection.fall_back(reason);
        return Ok(false);
    }
    if !connection.change_mode(Mode::Tcp, Mode::Connecting) {
        return Err(EALREADY);
    }
    sock.enable_option(random_u32());
    match sock.inet_connect(name, flags.with_nonblock().raw()) {
        Err(error) if error != EINPROGRESS => {
            connection.change_mode(Mode::Connecting, Mode::Tcp);
            sock.disable_option();
            return Err(error);
        }
        _ => {}
    }
    // TCP may have been quicker than the mode.
    connection.kick_handshake();
    Ok(true)
}

fn close_smc(sock: Closing<'_>, connection: &Arc<Connection>) -> Result {
    let linger = sock.sk().linger();
    // The detached is in its place before the core may find that all is over.
    let mut detached = connection.detached.lock();
    let mut abort = linger == Some(0);
    match sock.detach() {
        Ok(owned) => *detached = Some(owned),
        Err((_, sock)) => {
            // Without memory the TCP connection cannot wait for the SMC side.
            abort = true;
            sock.inet_release()?;
        }
    }
    let orphan = connection.net.count_orphan(&connection.engine.quotas);
    // As TCP does, whose limit is `tcp_max_orphans`.
    abort |= !orphan.is_within_limit();
    let _ = connection.update(|data, now| {
        data.orphan = Some(orphan);
        if abort {
            data.core.abort(now);
        }
        data.core.close(now);
    });
    // As in TCP, a task that exits does not linger: no signal would end the wait.
    let linger = linger.filter(|timeo| *timeo > 0 && !is_exiting());
    if let (Some(mut timeo), Some(sock)) = (linger, detached.as_ref()) {
        // The result does not matter: the time is over, or a signal came, or all is sent.
        let _ = sock.wait(&mut timeo, || {
            connection
                .look(|data| data.core.is_drained() || data.core.is_closed())
                .unwrap_or(true)
        });
    }
    drop(detached);
    connection.kick_closing();
    Ok(())
}

impl SocketOps for SmcOps {
    fn release(sock: Closing<'_>) -> Result {
        let Some(connection) = context(&sock) else {
            return sock.inet_release();
        };
        match connection.mode() {
            Mode::Connecting | Mode::Negotiating => {
                break_off(&connection);
            }
            Mode::Listening => listen::close(&connection),
            Mode::Tcp | Mode::Smc => {}
        }
        if connection.look(|_| ()).is_some() {
            return close_smc(sock, &connection);
        }
        connection.finish();
        sock.inet_release()
    }

    fn connect(sock: &Socket, name: &Name, flags: ConnectFlags) -> Result {
        if name.family() == Some(AF_UNSPEC) {
            return dissolve(sock, name, flags);
        }
        let Some(connection) = context_or_new(sock, Side::Client) else {
            return sock.inet_connect(name, flags.raw());
        };
        let idle =
            sock.state() == SocketState::Unconnected && sock.sk().tcp_state() == TcpState::Close;
        if connection.mode() == Mode::Tcp && idle {
            // Like TCP, which sees the answer only after this call.
            if begin(sock, &connection, name, flags)? && flags.nonblock() {
                return Err(EINPROGRESS);
            }
        }
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
        }
        // TCP knows how it went, or goes on alone.
        sock.inet_connect(name, flags.raw())
    }

    fn listen(sock: &Socket, backlog: i32) -> Result {
        let Some(connection) = context_or_new(sock, Side::Server) else {
            return sock.inet_listen(backlog);
        };
        let new = connection.change_mode(Mode::Tcp, Mode::Listening);
        if new {
            listen::open(&connection);
            sock.enable_option(0);
        }
        let result = sock.inet_listen(backlog);
        if result.is_err() && new {
            connection.change_mode(Mode::Listening, Mode::Tcp);
            sock.disable_option();
        }
        connection.kick_handshake();
        result
    }

    fn accept<'a>(
        sock: &Socket,
        newsock: NewSocket<'a>,
        arg: &mut AcceptArg,
    ) -> Result<Accepted<'a>> {
        let listener = match context(sock) {
            Some(connection) if connection.mode() == Mode::Listening => connection,
            _ => return sock.inet_accept(newsock, arg),
        };
        let mut timeo = sock.sk().rcvtimeo(arg.nonblock());
        loop {
            if sock.sk().tcp_state() != TcpState::Listen {
                return Err(EINVAL);
            }
            if let Some(child) = listen::next(&listener) {
                let detached = child.detached.lock().take();
                // A child that ended in the queue has none.
                if let Some(detached) = detached {
                    return Ok(detached.into_socket(sock, newsock));
                }
                continue;
            }
            if timeo == 0 {
                return Err(EAGAIN);
            }
            sock.wait_exclusive(&mut timeo, || {
                listen::is_ready(&listener) || listener.sk.tcp_state() != TcpState::Listen
            })?;
        }
    }

    fn getname(sock: &Socket, name: &mut NameBuf, peer: i32) -> Result<usize> {
        let pending = context(sock).is_some_and(|connection| connection.is_pending());
        if pending && peer == 1 {
            return Err(ENOTCONN);
        }
        sock.inet_getname(name, peer)
    }

    fn poll(sock: &Socket, table: &PollTable) -> Events {
        let Some(connection) = context(sock) else {
            return sock.inet_poll(table);
        };
        match connection.mode() {
            Mode::Tcp => {
                let events = sock.inet_poll(table);
                if !connection.is_doubtful() || !events.intersects(Events::IN) {
                    return events;
                }
                connection.judge_first();
                sock.inet_poll(table)
            }
            Mode::Listening if sock.sk().tcp_state() != TcpState::Listen => sock.inet_poll(table),
            Mode::Listening => {
                table.wait(sock);
                events_of(State::Listening {
                    ready: listen::is_ready(&connection),
                })
            }
            Mode::Connecting | Mode::Negotiating => {
                table.wait(sock);
                // The mode may have changed before the wait was entered.
                if connection.is_pending() {
                    events_of(State::Connecting)
                } else {
                    Self::poll(sock, table)
                }
            }
            Mode::Smc => {
                table.wait(sock);
                let mut events = events_of(poll_state(sock, &connection));
                if !events.intersects(Events::OUT) {
                    connection.want_room();
                    // Room may have come before the wish for it.
                    events = events_of(poll_state(sock, &connection));
                }
                if !events.intersects(table.wanted()) {
                    tx::before_sleep(&connection);
                }
                events
            }
        }
    }

    fn ioctl(sock: &Socket, cmd: u32, arg: usize) -> Result<i32> {
        let connection = match context(sock) {
            Some(connection) if connection.mode() == Mode::Smc => connection,
            _ => return sock.inet_ioctl(cmd, arg),
        };
        let answer = match cmd {
            SIOCINQ => {
                let inline = sock.sk().urgent_inline();
                connection.look(|data| {
                    let before = data.core.recv_until_mark(0).filter(|_| !inline);
                    before.unwrap_or(data.core.recv_available())
                })
            }
            // A program that polls SIOCOUTQ until it is 0 depends on a signalled chain.
            SIOCOUTQ => connection.update(|data, _| {
                data.core.want_completion();
                data.core.outstanding()
            }),
            SIOCOUTQNSD => connection.look(|data| data.core.unsent()),
            SIOCATMARK => connection.look(|data| u32::from(data.core.is_at_mark())),
            _ => return sock.inet_ioctl(cmd, arg),
        };
        put_user_int(arg, i32::try_from(answer.unwrap_or(0)).unwrap_or(i32::MAX))?;
        Ok(0)
    }

    fn shutdown(sock: &Socket, how: i32) -> Result {
        if !(SHUT_RD..=SHUT_RDWR).contains(&how) {
            return Err(EINVAL);
        }
        let Some(connection) = context(sock) else {
            return sock.inet_shutdown(how);
        };
        if connection.is_pending() && break_off(&connection) {
            // For the user this is SYN-SENT still, where TCP gives the attempt up.
            sock.sk().abort(ECONNRESET);
            return Ok(());
        }
        if connection.mode() != Mode::Smc {
            let result = sock.inet_shutdown(how);
            stop_listening(sock, &connection);
            sock.sk().wake_state();
            return result;
        }
        let open = connection.update(|data, _| {
            let open = data.core.is_connected();
            match how {
                _ if !open => {}
                SHUT_RD => data.core.shutdown_read(),
                SHUT_WR => data.core.shutdown_write(),
                _ => data.core.shutdown_both(),
            }
            open
        });
        if open != Some(true) {
            return Err(ENOTCONN);
        }
        sock.sk().wake_state();
        Ok(())
    }

    fn setsockopt(sock: &Socket, opt: &mut SetOpt) -> Result {
        let (level, name) = (opt.level, opt.name);
        if level == SOL_SMC {
            if name != SMC_LIMIT_HS {
                return Err(EOPNOTSUPP);
            }
            let on = opt.read_int()? != 0;
            let connection = context_or_new(sock, Side::Client).ok_or(ENOMEM)?;
            listen::limit(&connection, on);
            return Ok(());
        }
        let result = sock.inet_setsockopt(opt);
        let connection = context(sock);
        if let Some(connection) = &connection {
            connection.unlocked();
        }
        result?;
        if let (SOL_SOCKET, SO_KEEPALIVE) | (SOL_TCP, TCP_KEEPIDLE) = (level, name) {
            if let Some(connection) = &connection {
                connection.set_keepalive();
            }
        }
        if level == SOL_TCP && (name == TCP_CORK || name == TCP_NODELAY) {
            if let Some(connection) = &connection {
                let sk = sock.sk();
                // As in TCP, TCP_NODELAY flushes even corked data.
                if connection.mode() == Mode::Smc && (!sk.corked() || sk.nodelay()) {
                    tx::push(connection, sk.corked());
                }
            }
        }
        Ok(())
    }

    fn getsockopt(sock: &Socket, opt: &mut GetOpt) -> Result {
        if opt.level == SOL_TCP && opt.name == TCP_ZEROCOPY_RECEIVE {
            if let Some(connection) = context(sock) {
                connection.judge_late();
                if !connection.has_plain_queue() {
                    // As of a socket that is no TCP socket.
                    return Err(ENOPROTOOPT);
                }
            }
        }
        if opt.level != SOL_SMC {
            let result = sock.inet_getsockopt(opt);
            if let Some(connection) = context(sock) {
                connection.unlocked();
            }
            return result;
        }
        opt.room()?;
        if opt.name != SMC_LIMIT_HS {
            return Err(EOPNOTSUPP);
        }
        let connection = context_or_new(sock, Side::Client).ok_or(ENOMEM)?;
        opt.write_int(connection.limits.load(Relaxed).into())
    }

    fn sendmsg(sock: &Socket, msg: &mut SendMsg<'_>) -> Result<usize> {
        let Some(connection) = context(sock) else {
            return sock.inet_sendmsg(msg);
        };
        if connection.is_pending() {
            let mut timeo = sock.sk().sndtimeo(msg.nonblock());
            wait_settled(sock, &connection, &mut timeo)?;
        }
        if connection.mode() == Mode::Smc {
            let result = tx::send(sock, &connection, msg);
            connection.unlocked();
            return result;
        }
        if connection.mode() == Mode::Tcp && msg.flags() & MSG_FASTOPEN != 0 {
            // TCP connects by this call, after an attempt that failed and has left the option on.
            sock.disable_option();
        }
        let sent = sock.inet_sendmsg(msg)?;
        count_tcp(&connection, sent);
        Ok(sent)
    }

    fn recvmsg(sock: &Socket, msg: &mut RecvMsg<'_>) -> Result<usize> {
        let Some(connection) = context(sock) else {
            return sock.inet_recvmsg(msg);
        };
        let flags = msg.flags();
        if connection.is_pending() {
            let mut timeo = sock.sk().rcvtimeo(msg.nonblock());
            wait_settled(sock, &connection, &mut timeo)?;
        }
        if connection.mode() == Mode::Smc && flags & MSG_ERRQUEUE == 0 {
            let result = rx::recv(sock, &connection, msg);
            connection.unlocked();
            return result;
        }
        if connection.is_doubtful() && flags & MSG_ERRQUEUE == 0 {
            let mut timeo = sock.sk().rcvtimeo(msg.nonblock());
            connection.await_first(sock, &mut timeo)?;
        }
        let received = sock.inet_recvmsg(msg)?;
        if flags & (MSG_PEEK | MSG_ERRQUEUE) == 0 {
            count_tcp(&connection, received);
        }
        Ok(received)
    }

    fn splice_read(sock: &Socket, splice: &mut Splice) -> Result<usize> {
        match context(sock) {
            Some(connection) if connection.mode() != Mode::Tcp || connection.is_doubtful() => {
                splice.copy()
            }
            _ => sock.inet_splice_read(splice),
        }
    }

    fn peek_len(sock: &Socket) -> Result<usize> {
        match context(sock) {
            Some(connection) if connection.mode() == Mode::Smc => {
                let available = connection.look(|data| data.core.recv_available());
                Ok(usize::try_from(available.unwrap_or(0)).unwrap_or(usize::MAX))
            }
            _ => sock.inet_peek_len(),
        }
    }

    fn allows_read_sock(sock: &Socket) -> bool {
        context(sock).is_none_or(|connection| connection.has_plain_queue())
    }

    fn allows_mmap(sock: &Socket) -> bool {
        Self::allows_read_sock(sock)
    }
}

fn count_tcp(connection: &Connection, bytes: usize) {
    let bytes = u64::try_from(bytes).unwrap_or(0);
    let _ = connection.tcp_bytes.fetch_add(bytes, Relaxed);
}

/// The events of poll for the state of a socket.
fn events_of(state: State) -> Events {
    let mask = state.mask();
    let names = [
        (Mask::READABLE, Events::IN | Events::RDNORM),
        (Mask::URGENT, Events::PRI),
        (Mask::WRITABLE, Events::OUT | Events::WRNORM),
        (Mask::ERROR, Events::ERR),
        (Mask::HANGUP, Events::HUP),
        (Mask::READ_HANGUP, Events::RDHUP),
    ];
    let reported = names.iter().filter(|(report, _)| mask.contains(*report));
    reported.fold(Events::NONE, |all, (_, events)| all | *events)
}

/// The state of a connection that uses SMC-R.
fn poll_state(sock: &Socket, connection: &Connection) -> State {
    let sk = sock.sk();
    let error = sk.err() != 0;
    if error {
        // A reset sets the error and then the state, as one for callers with the lock.
        drop(sk.lock());
    }
    let found = poll::Socket {
        low_water: u32::try_from(sk.rcvlowat(false, usize::MAX)).unwrap_or(1),
        error,
        error_queue: sk.has_error_queue(),
        closed: sk.tcp_state() == TcpState::Close,
    };
    let state = connection.look(|data| data.core.poll_state(&found));
    state.unwrap_or(State::Gone)
}
