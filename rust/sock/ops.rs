// SPDX-License-Identifier: GPL-2.0

//! Socket calls. A call that is not overridden here, or not in a mode of this engine, is TCP's.

use super::{
    calls::Rare,
    connect::{
        break_off,
        connect,
        context,
        context_or_new,
        dissolve,
        stop_listening,
        wait_settled, //
    },
    connection::{
        Connection,
        Mode,
        Protocol, //
    },
    context::now,
    listen,
    options::{
        self,
        show_segment, //
    },
    rx,
    stats::Side,
    stream::Stream,
    tx, //
};
use crate::{
    kapi::{
        base::module::is_exiting,
        compat::errno::{
            ECONNRESET,
            ENOPROTOOPT,
            ENOTCONN, //
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
                Socket, //
            },
            sockopt::{
                put_user_int,
                GetOpt,
                SetOpt,
                SOL_SOCKET,
                SOL_TCP, //
            },
            uapi::*, //
        },
    },
    proto::stream::{
        info::TAIL_OFFSET,
        poll::{
            self,
            Mask,
            PollState, //
        },
    },
};
use core::marker::PhantomData;
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// The socket operations of a protocol.
pub(crate) struct StreamOps<P>(PhantomData<fn(P)>);

/// getpeername().
const PEER_NAME: i32 = 1;
/// The name of the peer for accept(), which TCP knows in any state.
const CHILD_NAME: i32 = 2;

/// `shutdown` for receiving.
const SHUT_RD: i32 = 0;
/// `shutdown` for sending.
const SHUT_WR: i32 = 1;
/// `shutdown` for both.
const SHUT_RDWR: i32 = 2;

/// Closes a socket whose data flows by RDMA.
fn close_stream<P: Protocol>(sock: Closing<'_>, connection: &Arc<Connection<P>>) -> Result {
    let linger = sock.sk().linger();
    // The detached is in its place before the core may find that all is over.
    let mut detached = connection.detached.lock();
    let mut abort = linger == Some(0);
    match sock.detach() {
        Ok(owned) => *detached = Some(owned),
        Err((_, sock)) => {
            // Without memory the TCP connection cannot wait for the stream.
            abort = true;
            sock.inet_release()?;
        }
    }
    P::close(connection, abort);
    // As in TCP, a task that exits does not linger: no signal would end the wait.
    let linger = linger.filter(|timeo| *timeo > 0 && !is_exiting());
    if let (Some(mut timeo), Some(sock)) = (linger, detached.as_ref()) {
        // The result does not matter: the time is over, or a signal came, or all is sent.
        let _ = sock.wait(&mut timeo, || {
            connection
                .look(|stream| stream.is_drained() || stream.is_closed())
                .unwrap_or(true)
        });
    }
    drop(detached);
    connection.kick_closing();
    Ok(())
}

impl<P: Protocol> SocketOps for StreamOps<P> {
    const ALIASES: &'static [(u16, u16)] = P::ALIASES;

    fn release(sock: Closing<'_>) -> Result {
        let Some(connection) = context::<P>(&sock) else {
            return sock.inet_release();
        };
        match connection.mode() {
            Mode::Connecting | Mode::Negotiating => {
                break_off(&sock, &connection);
            }
            Mode::Listening => listen::close(&connection),
            Mode::Tcp | Mode::Stream => {
                // Calls of listen() at a time, of which one failed, may have left it.
                if listen::service_name(&connection).is_some() {
                    listen::close(&connection);
                }
            }
        }
        if connection.look(|_| ()).is_some() {
            return close_stream(sock, &connection);
        }
        connection.finish();
        sock.inet_release()
    }

    fn bind(sock: &Socket, name: &Name) -> Result {
        let connection = context::<P>(sock).filter(|_| P::BESIDE_TCP);
        // TCP is closed and may have no port.
        if connection.is_some_and(|conn| conn.is_pending() || conn.mode() == Mode::Stream) {
            return Err(EINVAL);
        }
        sock.inet_bind(name)
    }

    fn connect(sock: &Socket, name: &Name, flags: ConnectFlags) -> Result {
        if name.family() == Some(AF_UNSPEC) {
            return dissolve::<P>(sock, name, flags);
        }
        connect::<P>(sock, name, flags)
    }

    fn listen(sock: &Socket, backlog: i32) -> Result {
        let Some(connection) = context_or_new::<P>(sock, Side::Server) else {
            return sock.inet_listen(backlog);
        };
        let new = connection.change_mode(Mode::Tcp, Mode::Listening);
        if new {
            listen::open(&connection);
            P::offer(sock, Side::Server);
        }
        let result = sock.inet_listen(backlog);
        if result.is_err() && new {
            connection.change_mode(Mode::Listening, Mode::Tcp);
            P::withdraw(sock);
        }
        if result.is_ok() {
            listen::serve::<P, P>(&connection);
        }
        connection.kick_setup();
        result
    }

    fn accept<'a>(
        sock: &Socket,
        newsock: NewSocket<'a>,
        arg: &mut AcceptArg,
    ) -> Result<Accepted<'a>> {
        let listener = match context::<P>(sock) {
            Some(connection) if connection.mode() == Mode::Listening => connection,
            _ => return sock.inet_accept(newsock, arg),
        };
        let mut timeo = sock.sk().rcvtimeo(arg.nonblock());
        loop {
            if sock.sk().tcp_state() != TcpState::Listen {
                return Err(EINVAL);
            }
            if let Some(child) = listen::next(&listener) {
                // A child that ended in the queue has none.
                if let Some(detached) = child.take_socket() {
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
        let connection = context::<P>(sock);
        if peer == PEER_NAME {
            let pending = connection.as_ref().is_some_and(|conn| conn.is_pending());
            if pending {
                return Err(ENOTCONN);
            }
            let open = connection.and_then(|conn| conn.look(|stream| !stream.is_closed()));
            if P::BESIDE_TCP && open == Some(true) {
                return sock.inet_getname(name, CHILD_NAME);
            }
        }
        sock.inet_getname(name, peer)
    }

    fn poll(sock: &Socket, table: &PollTable) -> Events {
        let Some(connection) = context::<P>(sock) else {
            return sock.inet_poll(table);
        };
        match connection.mode() {
            Mode::Tcp => {
                let events = tcp_events(sock, table);
                if !connection.is_doubtful() || !events.intersects(Events::IN) {
                    return events;
                }
                P::judge_first(&connection);
                tcp_events(sock, table)
            }
            Mode::Listening if sock.sk().tcp_state() != TcpState::Listen => sock.inet_poll(table),
            Mode::Listening => {
                table.wait(sock);
                events_of(PollState::Listening {
                    ready: listen::is_ready(&connection),
                })
            }
            Mode::Connecting | Mode::Negotiating => {
                table.wait(sock);
                // The mode may have changed before the wait was entered.
                if connection.is_pending() {
                    events_of(PollState::Connecting)
                } else {
                    Self::poll(sock, table)
                }
            }
            Mode::Stream => {
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
        let connection = match context::<P>(sock) {
            Some(connection) if connection.mode() == Mode::Stream => connection,
            _ => return sock.inet_ioctl(cmd, arg),
        };
        let answer = match cmd {
            SIOCINQ => {
                let inline = sock.sk().urgent_inline();
                connection.look(|stream| {
                    let before = stream.recv_until_mark(0).filter(|_| !inline);
                    before.unwrap_or(stream.recv_available())
                })
            }
            // A program that polls SIOCOUTQ until it is 0 depends on a signalled chain.
            SIOCOUTQ => connection.update(|stream, _| stream.outstanding()),
            SIOCOUTQNSD => connection.look(Stream::unsent),
            SIOCATMARK => connection.look(|stream| u32::from(stream.is_at_mark())),
            _ => return sock.inet_ioctl(cmd, arg),
        };
        put_user_int(arg, i32::try_from(answer.unwrap_or(0)).unwrap_or(i32::MAX))?;
        Ok(0)
    }

    fn shutdown(sock: &Socket, how: i32) -> Result {
        if !(SHUT_RD..=SHUT_RDWR).contains(&how) {
            return Err(EINVAL);
        }
        let Some(connection) = context::<P>(sock) else {
            return sock.inet_shutdown(how);
        };
        if connection.is_pending() && break_off(sock, &connection) {
            // For the user this is SYN-SENT still, where TCP gives the attempt up.
            sock.sk().abort(ECONNRESET);
            return Ok(());
        }
        if connection.mode() != Mode::Stream {
            let result = sock.inet_shutdown(how);
            stop_listening(sock, &connection);
            sock.sk().wake_state();
            return result;
        }
        let open = connection.update(|stream, _| {
            let open = stream.is_connected();
            if open {
                stream.shutdown(how != SHUT_WR, how != SHUT_RD);
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
        if level == P::LEVEL {
            return P::set_option(sock, opt);
        }
        let connection = context::<P>(sock);
        if let Some(connection) = &connection {
            options::refuse_connected(connection, opt)?;
        }
        let result = sock.inet_setsockopt(opt);
        if let Some(connection) = &connection {
            connection.unlocked();
        }
        result?;
        if let (SOL_SOCKET, SO_KEEPALIVE) | (SOL_TCP, TCP_KEEPIDLE | TCP_USER_TIMEOUT) =
            (level, name)
        {
            if let Some(connection) = &connection {
                connection.set_keepalive();
            }
        }
        if level == SOL_TCP && (name == TCP_CORK || name == TCP_NODELAY) {
            if let Some(connection) = &connection {
                let sk = sock.sk();
                // As in TCP, TCP_NODELAY flushes even corked data.
                if connection.mode() == Mode::Stream {
                    if name == TCP_NODELAY && sk.nodelay() {
                        connection.calls.count_rare(Rare::Nodelay);
                    } else if name == TCP_CORK && !sk.corked() {
                        connection.calls.count_rare(Rare::Uncork);
                    }
                    if !sk.corked() || sk.nodelay() {
                        tx::push(connection, sk.corked());
                    }
                }
            }
        }
        Ok(())
    }

    fn getsockopt(sock: &Socket, opt: &mut GetOpt) -> Result {
        if opt.level == SOL_TCP && opt.name == TCP_ZEROCOPY_RECEIVE {
            if let Some(connection) = context::<P>(sock) {
                connection.judge_late();
                if !connection.has_plain_queue() {
                    // As of a socket that is no TCP socket.
                    return Err(ENOPROTOOPT);
                }
            }
        }
        if opt.level == P::LEVEL {
            return P::get_option(sock, opt);
        }
        let result = sock.inet_getsockopt(opt);
        if let Some(connection) = context::<P>(sock) {
            connection.unlocked();
            match (opt.level, opt.name) {
                (SOL_TCP, TCP_INFO) if result.is_ok() => show_info(&connection, opt)?,
                (SOL_TCP, TCP_MAXSEG) if result.is_ok() => show_segment(&connection, opt, now())?,
                _ => {}
            }
        }
        result
    }

    fn sendmsg(sock: &Socket, msg: &mut SendMsg<'_>) -> Result<usize> {
        let Some(connection) = context::<P>(sock) else {
            return sock.inet_sendmsg(msg);
        };
        if connection.is_pending() {
            let mut timeo = sock.sk().sndtimeo(msg.nonblock());
            wait_settled(sock, &connection, &mut timeo)?;
        }
        if connection.mode() == Mode::Stream {
            let result = tx::send(sock, &connection, msg);
            connection.unlocked();
            return result;
        }
        if connection.mode() == Mode::Tcp && msg.flags() & MSG_FASTOPEN != 0 {
            // TCP connects by this call, after an attempt that failed and has left the option on.
            P::withdraw(sock);
        }
        let sent = sock.inet_sendmsg(msg)?;
        count_tcp(&connection, sent);
        Ok(sent)
    }

    fn recvmsg(sock: &Socket, msg: &mut RecvMsg<'_>) -> Result<usize> {
        let Some(connection) = context::<P>(sock) else {
            return sock.inet_recvmsg(msg);
        };
        let flags = msg.flags();
        if connection.is_pending() {
            let mut timeo = sock.sk().rcvtimeo(msg.nonblock());
            wait_settled(sock, &connection, &mut timeo)?;
        }
        if connection.mode() == Mode::Stream && flags & MSG_ERRQUEUE == 0 {
            let result = rx::recv(sock, &connection, msg);
            connection.unlocked();
            return result;
        }
        if connection.is_doubtful() && flags & MSG_ERRQUEUE == 0 {
            let mut timeo = sock.sk().rcvtimeo(msg.nonblock());
            await_first(sock, &connection, &mut timeo)?;
        }
        let received = sock.inet_recvmsg(msg)?;
        if flags & (MSG_PEEK | MSG_ERRQUEUE) == 0 {
            count_tcp(&connection, received);
        }
        Ok(received)
    }

    fn splice_read(sock: &Socket, splice: &mut Splice) -> Result<usize> {
        match context::<P>(sock) {
            Some(connection) if connection.mode() != Mode::Tcp || connection.is_doubtful() => {
                if connection.mode() == Mode::Stream {
                    connection.calls.count_rare(Rare::Splice);
                }
                splice.copy()
            }
            _ => sock.inet_splice_read(splice),
        }
    }

    fn peek_len(sock: &Socket) -> Result<usize> {
        match context::<P>(sock) {
            Some(connection) if connection.mode() == Mode::Stream => {
                let available = connection.look(Stream::recv_available);
                Ok(usize::try_from(available.unwrap_or(0)).unwrap_or(usize::MAX))
            }
            _ => sock.inet_peek_len(),
        }
    }

    fn allows_read_sock(sock: &Socket) -> bool {
        context::<P>(sock).is_none_or(|connection| connection.has_plain_queue())
    }

    fn allows_mmap(sock: &Socket) -> bool {
        Self::allows_read_sock(sock)
    }
}

/// Waits until the first octets of TCP may be read. Context: may sleep.
///
/// # Errors
///
/// `EAGAIN` when time is up, that of a signal, like a read.
fn await_first<P: Protocol>(
    sock: &Socket,
    connection: &Connection<P>,
    timeo: &mut isize,
) -> Result {
    sock.wait(timeo, || {
        P::judge_first(connection);
        !connection.is_doubtful()
    })
}

/// Puts the figures of a connection that TCP does not carry into those of TCP.
fn show_info<P: Protocol>(connection: &Connection<P>, opt: &mut GetOpt) -> Result {
    let now = now();
    let found = connection.look(|stream| stream.shown_state().zip(stream.info(now)));
    if let Some((state, info)) = found.flatten() {
        opt.replace(0, &info.head(state.code()))?;
        opt.replace(TAIL_OFFSET, &info.tail())?;
    }
    Ok(())
}

/// Counts bytes that went over TCP.
fn count_tcp<P: Protocol>(connection: &Connection<P>, bytes: usize) {
    let bytes = u64::try_from(bytes).unwrap_or(0);
    let _ = connection.tcp_bytes.fetch_add(bytes, Relaxed);
}

/// What TCP reports. Context: may sleep.
///
/// A reset sets the error, then the state, then the ends of both directions. A poller that comes
/// in between finds a part of them, and so lets the reset finish.
fn tcp_events(sock: &Socket, table: &PollTable) -> Events {
    let events = sock.inet_poll(table);
    if sock.sk().err() == 0 {
        return events;
    }
    drop(sock.sk().lock());
    sock.inet_poll(table)
}

/// The events of poll for the state of a socket.
fn events_of(state: PollState) -> Events {
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

/// The state of a connection whose data flows by RDMA.
fn poll_state<P: Protocol>(sock: &Socket, connection: &Connection<P>) -> PollState {
    let sk = sock.sk();
    let look = || {
        connection.look(|stream| {
            // With the lock of the stream: the sock gets an error before the stream counts as failed.
            let error = sk.err() != 0;
            let state = stream.poll_state(&poll::PolledSocket {
                low_water: u32::try_from(sk.rcvlowat(false, usize::MAX)).unwrap_or(1),
                error,
                error_queue: sk.has_error_queue(),
                closed: sk.tcp_state() == TcpState::Close,
            });
            (state, error)
        })
    };
    let mut found = look();
    if let Some((_, true)) = found {
        // A reset sets the error and then the state, as one for callers with the lock.
        drop(sk.lock());
        found = look();
    }
    found.map_or(PollState::Gone, |(state, _)| state)
}
