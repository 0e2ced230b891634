// SPDX-License-Identifier: GPL-2.0

//! SDP sockets: the engine around the protocol core.
//!
//! Source: draft-pinkerton-iwarp-sdp-01, and the form that it has on InfiniBand and RoCE.
//!
//! # The life of a connection
//!
//! A socket of ours *is* a TCP socket with other operations (`sock::ops`). While data flows by RDMA
//! its TCP is closed: there is nothing on it that two ends would have to agree on. `connect` tries SDP
//! first (`opening`): it resolves the address of the peer, and sends a Hello with the request of
//! the connection manager. If that fails, TCP connects as if SDP had not been tried.
//!
//! A listener listens in TCP, and in the connection manager of each device (`services`) under the
//! service id of its port. A request (`listening`) becomes a child that accept does not see yet
//! (`accepting`), and reaches accept when the link is up. The listener may be a socket that serves
//! clients of another protocol, too. Sysctls (`settings`) say which peers and ports there are, and a
//! peer has few set-ups under way at a time (`half_open`).
//!
//! The data side (`data`) copies into the send ring, from where the device sends it with the headers
//! that the core makes. Received messages stay in their buffers until a reader has copied them out.
//! The core decides the end, and the work item of the connection performs it (`ending`). When the peer moves
//! its end to another port, a new link takes the place of the old one (`moving`).
//!
//! | Object                    | Held by                                                          |
//! |---------------------------|------------------------------------------------------------------|
//! | `engine::SdpEngine`       | connections, and callbacks that come without context             |
//! | `setup::SdpConnection`    | its sock, its id of the connection manager, its channel          |
//! | `setup::SdpLink`          | the set-up, then the connection, until `ending` takes it down    |
//! | `data::SdpData`           | its connection                                                   |
//!
//! | Runs in                   | What                                                             |
//! |---------------------------|------------------------------------------------------------------|
//! | calls of a program        | the socket engine, see `sock`                                    |
//! | work items of connections | `opening`, `accepting`, `ending`, `moving`                       |
//! | handlers of the connection manager | `services`, `listening` (a request), `mail` (the rest)   |
//! | softirq                   | `messages`                                                       |

#![deny(unsafe_code)]

mod accepting;
mod addr;
mod attempt;
mod conn;
mod data;
mod ending;
mod engine;
mod growing;
mod growth;
mod half_open;
mod link;
mod links;
mod listening;
mod mail;
mod messages;
mod moving;
mod namespaces;
mod net;
mod offer;
mod opening;
mod portmap;
mod prefer;
mod protocol;
mod reach;
mod services;
mod settings;
mod setup;
mod stream;
#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
mod test_client;

use self::{
    engine::{
        PublishedSdp,
        SdpEngine, //
    },
    namespaces::SdpNamespaces,
    services::DeviceChanges, //
};
use crate::{
    fabric::client::{
        FabricRegistration,
        UserRegistration, //
    },
    kapi::net::{
        addr::{
            AF_INET,
            AF_INET6, //
        },
        family::{
            FamilyRegistration,
            SocketFamily, //
        },
        netns::NetRegistration, //
    },
    sock::{
        directory::Directory,
        ops::StreamOps,
        rules::Rules, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

pub(crate) use self::setup::SdpSetup;

/// Numbers of the families of programs that were made for other implementations.
const AF_INET_SDP: u16 = 27;
const AF_INET6_SDP: u16 = 28;
/// Protocol number of TCP.
const IPPROTO_TCP: i32 = 6;
/// These families. They take the protocol arguments of TCP sockets. The kernel has other uses for
/// the numbers, which need no sockets so far.
static FAMILIES: [SocketFamily; 2] = [
    SocketFamily {
        number: AF_INET_SDP,
        protocols: &[(0, AF_INET), (IPPROTO_TCP, AF_INET)],
        is_optional: true,
    },
    SocketFamily {
        number: AF_INET6_SDP,
        protocols: &[(0, AF_INET6), (IPPROTO_TCP, AF_INET6)],
        is_optional: true,
    },
];
/// Protocol number of SDP sockets in the Internet families.
const IPPROTO_SDP: u16 = 257;

/// SDP, registered. Dropping it takes the fields down in their order: first no new sockets, then the
/// events of devices, last the engine.
pub(crate) struct Sdp {
    /// The socket family and protocol.
    _family: FamilyRegistration<StreamOps<SdpSetup>>,
    /// Follows the network namespaces.
    _nets: NetRegistration<SdpNamespaces>,
    /// Devices that come and go.
    _user: UserRegistration,
    /// The engine, published for callbacks.
    _engine: PublishedSdp,
}

impl Sdp {
    /// Registers everything; the families of their own only if the host has use for them.
    /// Context: may sleep.
    pub(crate) fn new(
        fabric: &FabricRegistration,
        directory: &Arc<Directory>,
        rules: &Arc<Rules>,
        has_families: bool,
    ) -> Result<Self> {
        let engine = SdpEngine::new(&fabric.fabric, directory, rules)?;
        let published = PublishedSdp::new(&engine);
        let changes = DeviceChanges {
            services: engine.services.clone(),
            reach: engine.nets.clone(),
        };
        let changes = Arc::new(changes, GFP_KERNEL)?;
        let user = UserRegistration::new(&fabric.fabric, changes)?;
        let nets = NetRegistration::new()?;
        let families: &[SocketFamily] = if has_families { &FAMILIES } else { &[] };
        let family = FamilyRegistration::new(families, IPPROTO_SDP)?;
        Ok(Self {
            _family: family,
            _nets: nets,
            _user: user,
            _engine: published,
        })
    }
}
