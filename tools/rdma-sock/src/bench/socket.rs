// SPDX-License-Identifier: GPL-2.0

//! Sockets of each transport, and what carries their connections.

use anyhow::{
    Context,
    Result, //
};
use clap::ValueEnum;
use rustix::{
    fd::OwnedFd,
    fs::fstat,
    io::Errno,
    net::{
        bind,
        connect,
        listen,
        socket_with,
        sockopt::{
            set_ipv6_v6only,
            set_socket_reuseaddr,
            set_socket_timeout,
            Timeout, //
        },
        AddressFamily,
        Protocol,
        SocketFlags,
        SocketType, //
    },
};
use serde::Serialize;
use std::{
    net::{
        SocketAddr,
        TcpListener,
        TcpStream, //
    },
    num::NonZeroU32,
    time::Duration,
};

use super::hello::Mode;
use crate::{
    proto::Proto,
    snapshot::Sources, //
};

/// Time after which a silent peer counts as gone.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;

/// A kind of socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    /// TCP
    Tcp,
    /// SMC-R
    Smc,
    /// SDP
    Sdp,
}

impl Transport {
    /// All of them, in the order of their ports.
    pub(super) const ALL: [Self; 3] = [Self::Tcp, Self::Smc, Self::Sdp];

    /// The name in output.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Smc => "smc",
            Self::Sdp => "sdp",
        }
    }

    /// Its port, behind that of TCP.
    pub(super) fn port(self, first: u16) -> u16 {
        first.saturating_add(match self {
            Self::Tcp => 0,
            Self::Smc => 1,
            Self::Sdp => 2,
        })
    }

    /// What carries its connections if they are as asked for.
    pub(super) fn mode(self) -> Mode {
        match self {
            Self::Tcp => Mode::Tcp,
            Self::Smc => Mode::Smc,
            Self::Sdp => Mode::Sdp,
        }
    }

    fn protocol(self) -> Option<Protocol> {
        let proto = match self {
            Self::Tcp => return None,
            Self::Smc => Proto::Smc,
            Self::Sdp => Proto::Sdp,
        };
        let [number, _] = proto.numbers();
        NonZeroU32::new(number).map(Protocol::from_raw)
    }

    /// Makes a socket; the error for a protocol that the kernel lacks says so.
    fn socket(self, address: SocketAddr) -> Result<OwnedFd> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC;
        match socket_with(family, SocketType::STREAM, flags, self.protocol()) {
            Err(Errno::PROTONOSUPPORT) => {
                Err(Errno::PROTONOSUPPORT).context("the module rdma_sock is not loaded here")
            }
            result => result.context("cannot make a socket"),
        }
    }

    /// Connects, and gives up if the peer is silent.
    pub(super) fn connect(self, peer: SocketAddr) -> Result<TcpStream> {
        let fd = self.socket(peer)?;
        // The limit of connect(2) is that of sending.
        set_socket_timeout(&fd, Timeout::Send, Some(PATIENCE))?;
        connect(&fd, &peer).with_context(|| format!("cannot connect to {peer}"))?;
        let stream = TcpStream::from(fd);
        prepare(&stream)?;
        Ok(stream)
    }

    /// Listens.
    pub(super) fn listen(self, address: SocketAddr) -> Result<TcpListener> {
        let fd = self.socket(address)?;
        set_socket_reuseaddr(&fd, true)?;
        if address.is_ipv6() {
            // Another socket listens on the same port of IPv4.
            set_ipv6_v6only(&fd, true)?;
        }
        bind(&fd, &address).with_context(|| format!("cannot use {address}"))?;
        listen(&fd, BACKLOG).with_context(|| format!("cannot listen on {address}"))?;
        Ok(TcpListener::from(fd))
    }
}

/// Sets what both ends of a measurement set.
pub(super) fn prepare(stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(())
}

/// What carries a connection, by the tables of the module.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Carrier {
    /// What carries it.
    pub(super) mode: Mode,
    /// Code of the reason for TCP.
    pub(super) reason: Option<u32>,
    /// RDMA device.
    pub(super) dev: Option<String>,
    /// Payload sent by RDMA, in bytes.
    pub(super) tx_bytes: u64,
    /// Payload received by RDMA, in bytes.
    pub(super) rx_bytes: u64,
}

impl Carrier {
    /// Looks up a socket that was made for a transport.
    pub(super) fn find(
        sources: &Sources,
        transport: Transport,
        stream: &TcpStream,
    ) -> Result<Self> {
        let inode = fstat(stream)?.st_ino;
        let connections = sources.connections()?;
        let found = connections.iter().find(|conn| conn.ino == Some(inode));
        let Some(conn) = found else {
            // The module does not list plain TCP.
            let mode = match transport {
                Transport::Tcp => Mode::Tcp,
                _ => Mode::Unknown,
            };
            return Ok(Self {
                mode,
                reason: None,
                dev: None,
                tx_bytes: 0,
                rx_bytes: 0,
            });
        };
        let mode = match conn.mode.as_deref() {
            Some("smc") => Mode::Smc,
            Some("sdp") => Mode::Sdp,
            Some("tcp") => Mode::Tcp,
            _ => Mode::Unknown,
        };
        Ok(Self {
            mode,
            reason: conn.reason_code(),
            dev: conn.dev.clone(),
            tx_bytes: conn.tx_bytes.unwrap_or_default(),
            rx_bytes: conn.rx_bytes.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::{
        fs,
        net::Ipv4Addr,
        path::Path, //
    };

    /// Makes the tables of the module have a line for a socket.
    pub(crate) fn list(root: &Path, stream: &TcpStream, words: &str) -> Sources {
        let sources = Sources::below(root);
        let folder = sources.proc.join("net/rdma_sock");
        fs::create_dir_all(&folder).unwrap();
        let line = format!(
            "role=client {words} ino={}\n",
            fstat(stream).unwrap().st_ino
        );
        fs::write(folder.join("conns"), line).unwrap();
        sources
    }

    #[test]
    fn carrier_is_that_of_the_table() {
        let listener = Transport::Tcp
            .listen((Ipv4Addr::LOCALHOST, 0).into())
            .unwrap();
        let stream = Transport::Tcp
            .connect(listener.local_addr().unwrap())
            .unwrap();
        let root = tempfile::tempdir().unwrap();
        let absent = Sources::below(root.path());
        let find = |sources: &Sources, transport| {
            let carrier = Carrier::find(sources, transport, &stream).unwrap();
            (carrier.mode, carrier.reason, carrier.tx_bytes)
        };
        assert_eq!(find(&absent, Transport::Tcp), (Mode::Tcp, None, 0));
        assert_eq!(find(&absent, Transport::Smc), (Mode::Unknown, None, 0));
        let sources = list(root.path(), &stream, "mode=tcp reason=0x03010000");
        assert_eq!(
            find(&sources, Transport::Smc),
            (Mode::Tcp, Some(0x0301_0000), 0)
        );
        let sources = list(root.path(), &stream, "mode=smc dev=rxe0 tx_bytes=5");
        assert_eq!(find(&sources, Transport::Tcp), (Mode::Smc, None, 5));
    }

    #[test]
    fn ports_follow_each_other() {
        let ports = Transport::ALL.map(|transport| transport.port(7470));
        assert_eq!(ports, [7470, 7471, 7472]);
    }

    #[test]
    fn closed_port_is_an_error_with_its_address() {
        let listener = Transport::Tcp
            .listen((Ipv4Addr::LOCALHOST, 0).into())
            .unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let error = Transport::Tcp.connect(address).unwrap_err();
        assert!(format!("{error:#}").contains(&address.to_string()));
    }
}
