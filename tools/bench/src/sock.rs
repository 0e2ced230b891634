// SPDX-License-Identifier: GPL-2.0

//! Stream sockets of TCP, of SMC and of SDP, which differ by what `socket()` is asked for and by nothing else;
//! and local ones, which have a path where those have an address.

use anyhow::{
    Context,
    Result, //
};
use rustix::{
    io::Errno,
    net::{
        accept_with,
        bind,
        connect,
        listen,
        socket_with,
        sockopt,
        AddressFamily,
        Protocol,
        SocketAddrUnix,
        SocketFlags,
        SocketType, //
    },
};
use std::{
    fs,
    net::{
        SocketAddr,
        TcpListener,
        TcpStream, //
    },
    num::NonZeroU32,
};

const AF_SMC: u16 = 43;
const IPPROTO_SMC: NonZeroU32 = NonZeroU32::new(256).unwrap();
const IPPROTO_SDP: NonZeroU32 = NonZeroU32::new(257).unwrap();
const SMCPROTO_SMC6: NonZeroU32 = NonZeroU32::new(1).unwrap();

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Which sockets to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Family {
    /// TCP.
    Tcp,
    /// SMC, by its own address family.
    Smc,
    /// SMC, as a protocol of the internet families.
    SmcProto,
    /// SDP, as a protocol of the internet families.
    Sdp,
    /// Local sockets, which have no network and no device. Only the port of an address means something.
    Unix,
}

impl Family {
    /// Its name in a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Smc => "smc",
            Self::SmcProto => "smc-proto",
            Self::Sdp => "sdp",
            Self::Unix => "unix",
        }
    }
}

/// Where local sockets are, the same in all network namespaces.
fn path(addr: SocketAddr) -> String {
    format!("/tmp/bench-{}", addr.port())
}

fn new(family: Family, addr: SocketAddr) -> Result<rustix::fd::OwnedFd> {
    let inet = if addr.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let (family, protocol) = match family {
        Family::Tcp => (inet, None),
        Family::Smc => {
            let six = addr.is_ipv6().then_some(SMCPROTO_SMC6);
            (AddressFamily::from_raw(AF_SMC), six)
        }
        Family::SmcProto => (inet, Some(IPPROTO_SMC)),
        Family::Sdp => (inet, Some(IPPROTO_SDP)),
        Family::Unix => (AddressFamily::UNIX, None),
    };
    socket_with(
        family,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        protocol.map(Protocol::from_raw),
    )
    .context("socket")
}

/// A connection to `peer`.
pub fn dial(family: Family, peer: SocketAddr) -> Result<TcpStream> {
    let fd = new(family, peer)?;
    match family {
        Family::Unix => connect(&fd, &SocketAddrUnix::new(path(peer))?),
        _ => connect(&fd, &peer),
    }
    .context("connect")?;
    Ok(TcpStream::from(fd))
}

/// A listening socket.
pub fn serve(family: Family, at: SocketAddr) -> Result<TcpListener> {
    let fd = new(family, at)?;
    if family == Family::Unix {
        let path = path(at);
        // That of a server before; there may be none.
        let _ = fs::remove_file(&path);
        bind(&fd, &SocketAddrUnix::new(path)?).context("bind")?;
    } else {
        sockopt::set_socket_reuseaddr(&fd, true).context("SO_REUSEADDR")?;
        bind(&fd, &at).context("bind")?;
    }
    listen(&fd, BACKLOG).context("listen")?;
    Ok(TcpListener::from(fd))
}

/// The next connection, of any family.
pub fn accept(listener: &TcpListener) -> Result<TcpStream, Errno> {
    accept_with(listener, SocketFlags::CLOEXEC).map(TcpStream::from)
}

/// Sets or clears `TCP_CORK`.
pub fn cork(stream: &TcpStream, on: bool) -> Result<()> {
    sockopt::set_tcp_cork(stream, on).context("TCP_CORK")
}

/// Lets this process have as many files open as it may.
pub fn many_files() -> Result<()> {
    use rustix::process::{
        getrlimit,
        setrlimit,
        Resource,
        Rlimit, //
    };
    let now = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    setrlimit(Resource::Nofile, wanted).context("RLIMIT_NOFILE")
}
