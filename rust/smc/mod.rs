// SPDX-License-Identifier: GPL-2.0

//! SMC-R sockets: the engine around the protocol core.
//!
//! Source: RFC 7609.
//!
//! # The life of a connection
//!
//! A socket of ours *is* a TCP socket with other operations (`sock::ops`). At `connect` it gets a
//! [`setup::SmcConnection`] and the SYN the SMC option (`handshake::option`); nothing else differs
//! from TCP until both sides have shown the option. Then the work item of the connection runs the
//! CLC handshake over the TCP connection (`handshake::negotiation`), the server's inside a child
//! that accept does not see yet (`sock::listen`). This side's part, made in `handshake::prepare`,
//! is a use of a link of a link group (`group::link_group`), an element of one of its RMBs
//! (`group::rmb`), a send buffer and a token (`group::tokens`). A new group brings its link up by
//! LLC messages (`group::llc`). When the handshake ends well, the connection gets its data side
//! (`conn::data`): `sock::tx` copies user data into the send buffer, from where it goes by RDMA
//! write into the peer's RMBE; `sock::rx` copies the data out of ours; CDC messages
//! (`group::completions`) carry the cursors. The core decides close and abort, and the work item of
//! the connection performs them (`conn::ending`). A failure before that leaves a TCP socket behind.
//!
//! | Object                    | Held by                                                          |
//! |---------------------------|------------------------------------------------------------------|
//! | [`engine::Engine`]        | connections, and callbacks that come without context             |
//! | [`setup::SmcConnection`]  | its sock, its group's tokens, send slots, work items             |
//! | `group::LinkGroup`        | the registry, its connections, its links until they are shut     |
//! | `conn::Data`              | its connection                                                   |
//!
//! | Runs in                   | What                                                             |
//! |---------------------------|------------------------------------------------------------------|
//! | calls of a program        | the socket engine, see `sock`                                    |
//! | work items of connections | `handshake`, `conn::ending`                                      |
//! | work items of groups      | `group::{llc, rmbs, retired}`                                    |
//! | softirq                   | `group::completions`, `conn::messages`                           |

#![deny(unsafe_code)]

mod admin;
mod conn;
mod engine;
mod group;
mod handshake;
mod net;
mod protocol;
mod setup;

use self::{
    admin::{
        commands::SmcCommands,
        diag::Sockets,
        netns::{
            Files,
            Namespaces, //
        },
        pnetid::SmcPnets,
        procfs::ProcDir, //
    },
    engine::{
        Engine,
        Published, //
    },
    handshake::option::SmcPolicy, //
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
        diag::DiagRegistration,
        family::{
            FamilyRegistration as Family,
            SocketFamily, //
        },
        genl::FamilyOfCommands,
        netns::NetRegistration,
        option::{
            Backend,
            BackendKind, //
        },
        pnetid::FamilyOfPnets,
        proc::NetProc, //
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

pub(crate) use self::setup::SmcSetup;

/// The address family of SMC sockets, by protocol 0 for IPv4 and 1 for IPv6.
static AF_SMC: [SocketFamily; 1] = [SocketFamily {
    number: 43,
    protocols: &[(0, AF_INET), (1, AF_INET6)],
    is_optional: false,
}];
/// Protocol number of SMC sockets in the Internet families.
const IPPROTO_SMC: u16 = 256;

/// SMC-R, registered. Dropping it takes the fields down in their order: first no new sockets, then
/// the link groups, then the events of devices, last the engine.
pub(crate) struct Smc {
    /// Lists the sockets for tools.
    _diag: Option<DiagRegistration<Sockets>>,
    /// Answers the commands of tools.
    _commands: Option<FamilyOfCommands<SmcCommands>>,
    /// Changes the tables of physical networks.
    _pnets: Option<FamilyOfPnets<SmcPnets>>,
    /// The settings of each network namespace.
    _files: NetRegistration<Files>,
    /// The socket family and protocol.
    _family: Family<StreamOps<SmcSetup>>,
    /// The back end of the TCP option.
    _option: Backend<SmcPolicy>,
    /// Files in `/proc/net/rdma_sock`.
    _proc: NetProc<ProcDir>,
    /// Ends the link groups.
    _groups: Groups,
    /// Follows the network namespaces.
    _nets: NetRegistration<Namespaces>,
    /// Events of ports for the link groups.
    _user: UserRegistration,
    /// The engine, published for callbacks.
    _engine: Published,
}

/// Ends the link groups, with a message to each peer.
struct Groups(Arc<Engine>);

impl Drop for Groups {
    fn drop(&mut self) {
        // No socket is left, or the module could not be unloaded.
        self.0.groups.dismiss_all(|_| true);
    }
}

impl Smc {
    /// Registers everything. Context: may sleep.
    pub(crate) fn new(
        backend: BackendKind,
        fabric: &FabricRegistration,
        directory: &Arc<Directory>,
        rules: &Arc<Rules>,
    ) -> Result<Self> {
        let engine = Engine::new(&fabric.fabric, directory, rules)?;
        let published = Published::new(&engine);
        let user = UserRegistration::new(&fabric.fabric, engine.groups.clone())?;
        let groups = Groups(engine);
        let nets = NetRegistration::new()?;
        let proc = NetProc::new()?;
        let option = Backend::register(backend)?;
        let family = Family::new(&AF_SMC, IPPROTO_SMC)?;
        let files = NetRegistration::new()?;
        let diag = DiagRegistration::new()?;
        if diag.is_none() {
            pr_warn!("another module lists the sockets of family 43: smcss does not show ours\n");
        }
        let commands = FamilyOfCommands::new()?;
        if commands.is_none() {
            pr_warn!("another module has SMC_GEN_NETLINK: smcr and smcd do not show this one\n");
        }
        let pnets = FamilyOfPnets::new()?;
        if pnets.is_none() {
            pr_warn!("another module has SMC_PNETID: smc_pnet does not change this one\n");
        }
        Ok(Self {
            _diag: diag,
            _commands: commands,
            _pnets: pnets,
            _files: files,
            _family: family,
            _option: option,
            _proc: proc,
            _nets: nets,
            _groups: groups,
            _user: user,
            _engine: published,
        })
    }
}
