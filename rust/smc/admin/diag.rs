// SPDX-License-Identifier: GPL-2.0

//! The sockets of a network namespace, for `smcss`.

use crate::{
    kapi::net::{
        addr::Addr,
        diag::SocketLister,
        netlink::{
            Dump,
            Progress, //
        },
        sock::TcpState, //
    },
    proto::smc::netlink::{
        attributes::Attributes,
        diag::{
            encode,
            Carrier,
            DiagAddress,
            DiagConnection,
            DiagLink,
            DiagSocket,
            DiagState,
            Wants,
            MAX_BYTES,
            PEER_DECLINED, //
        },
    },
    smc::{
        engine::engine,
        group::{
            completions::LinkHandler,
            link_group::LinkGroup, //
        },
        setup::SmcConnection, //
    },
    sock::connection::Mode, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Lists the sockets that have a [`SmcConnection`].
pub(crate) struct Sockets;

impl SocketLister for Sockets {
    const FAMILY: u8 = 43;

    fn list(dump: &mut Dump) -> Result<Progress> {
        let engine = engine().ok_or(ENODEV)?;
        let Some(net) = engine.nets.find(dump.net().cookie()) else {
            return Ok(Progress::Done);
        };
        let wants = Wants::of_request(dump.request());
        // The number of the last socket shown: others come and go.
        let mut last = *dump.place();
        while let Some((number, listed)) = net.stats.after(last) {
            if let Some(connection) = listed.as_any().downcast_ref::<SmcConnection>() {
                if put(dump, connection, wants) == Err(EMSGSIZE) {
                    return Ok(Progress::Full);
                }
            }
            last = number;
            *dump.place() = last;
        }
        Ok(Progress::Done)
    }
}

fn place(addr: Addr) -> DiagAddress {
    match addr {
        Addr::V4 { ip, port } => DiagAddress::v4(ip, port),
        Addr::V6 { ip, port, .. } => DiagAddress { ip, port },
    }
}

/// What a connection by RDMA shows.
struct Stream {
    state: DiagState,
    shutdown: u8,
    connection: DiagConnection,
    group: Arc<LinkGroup>,
    handler: Option<Arc<LinkHandler>>,
}

fn stream(connection: &SmcConnection) -> Option<Stream> {
    connection.look(|data| {
        let (receive, send) = data.core.shut();
        let handler = data.binding.as_ref().map(|binding| binding.route.handler());
        Stream {
            state: DiagState::Close(data.core.state()),
            shutdown: u8::from(receive) | u8::from(send) << 1,
            connection: DiagConnection {
                token: data.token.get(),
                report: data.core.report(),
            },
            group: data.group.clone(),
            handler: handler.cloned(),
        }
    })
}

/// The state of a socket that is one of TCP.
fn tcp_state(connection: &SmcConnection) -> DiagState {
    match connection.sk.tcp_state() {
        TcpState::Listen => DiagState::Listen,
        TcpState::Close | TcpState::TimeWait if connection.reason_code() != 0 => DiagState::Closed,
        TcpState::Close | TcpState::TimeWait => DiagState::Init,
        _ => DiagState::Active,
    }
}

/// The diagnosis of a fallback as tools read it: the reason of this side and that of the peer.
fn fallback(connection: &SmcConnection) -> (u32, u32) {
    match connection.reason_code() {
        code if connection.is_declined_by_peer() => (PEER_DECLINED, code),
        code => (code, 0),
    }
}

#[inline(never)]
fn put(dump: &mut Dump, connection: &SmcConnection, wants: Wants) -> Result {
    let sk = &connection.sk;
    let stream = stream(connection);
    let (state, carrier) = match (connection.mode(), &stream) {
        (Mode::Stream, Some(stream)) => (stream.state, Carrier::Smcr),
        (Mode::Listening, _) => (DiagState::Listen, Carrier::Smcr),
        (Mode::Connecting | Mode::Negotiating, _) => (DiagState::Init, Carrier::Smcr),
        (Mode::Tcp | Mode::Stream, _) => {
            let is_open = matches!(tcp_state(connection), DiagState::Listen | DiagState::Active);
            let fell_back = connection.reason_code() != 0;
            let carrier = if is_open || fell_back {
                Carrier::Tcp
            } else {
                Carrier::Smcr
            };
            (tcp_state(connection), carrier)
        }
    };
    let shutdown = stream.as_ref().map(|stream| stream.shutdown);
    let socket = DiagSocket {
        state,
        carrier,
        local: place(sk.local_addr()),
        peer: place(sk.peer_addr()),
        ifindex: sk.bound_ifindex(),
        cookie: sk.cookie(),
        uid: dump.uid(sk),
        // Without a file the socket is one of this module.
        inode: if connection.has_file() { sk.ino() } else { 0 },
        shutdown: shutdown.unwrap_or_else(|| sk.shutdown_bits()),
        fallback: fallback(connection),
    };
    let stream = stream.filter(|_| carrier == Carrier::Smcr);
    let shown = stream.as_ref().map(|stream| &stream.connection);
    let shown = shown.filter(|_| wants.connection);
    let mut room = [0; MAX_BYTES];
    let mut message = Attributes::new(&mut room);
    match stream.as_ref().filter(|_| wants.group) {
        Some(stream) => with_link(stream, |link| encode(&mut message, &socket, shown, link)),
        None => encode(&mut message, &socket, shown, None),
    }
    dump.put(0, message.finish().ok_or(EINVAL)?)
}

/// Runs `f` with the link that the connection writes by.
fn with_link<R>(stream: &Stream, f: impl FnOnce(Option<&DiagLink<'_>>) -> R) -> R {
    let inner = stream.group.inner.lock();
    let slot = stream.handler.as_ref().map(|handler| handler.slot());
    let Some(link) = slot.and_then(|slot| inner.link(slot)) else {
        return f(None);
    };
    let number = inner.llc.as_ref().and_then(|llc| llc.number(link.slot));
    let name = link.path.device.name();
    f(Some(&DiagLink {
        number: number.map_or(0, |number| number.get()),
        device: name.as_bytes(),
        port: u8::try_from(link.path.port).unwrap_or(0),
        gid: link.path.gid.gid,
        peer_gid: link.peer_gid(),
        role: stream.group.role,
    }))
}
