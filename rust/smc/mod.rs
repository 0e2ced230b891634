// SPDX-License-Identifier: GPL-2.0

//! SMC-R sockets: the engine around the protocol core.
//!
//! Source: RFC 7609.
//!
//! # The life of a connection
//!
//! A socket of ours *is* a TCP socket with other operations (`ops.rs`). At `connect` it gets a
//! [`connection::Connection`] and the SYN the SMC option (`option.rs`); nothing else differs from
//! TCP until both sides have shown the option. Then the work item of the connection runs the CLC
//! handshake over the TCP connection (`handshake.rs`), the server's inside a child that accept
//! does not see yet (`listen.rs`). Our end of the deal, made in `prepare.rs`, is a place in a link
//! group (`link_group.rs`), an element of one of its RMBs (`rmb.rs`), a send buffer and a token
//! (`tokens.rs`). A new group brings its link up by LLC messages (`llc.rs`). When the handshake
//! ends well, the connection gets its data side (`data.rs`): `tx.rs` copies user data into the
//! send buffer, from where it goes by RDMA write into the peer's RMBE; `rx.rs` copies the data out
//! of ours; CDC messages (`link.rs`) carry the cursors. Close and abort are decided by the core and
//! performed by the work item of the connection. A failure before that leaves a TCP socket behind.

#![deny(unsafe_code)]

mod accept_queue;
mod account;
mod admin;
mod client;
mod conn;
mod connection;
mod contention;
mod context;
mod copy;
mod device;
mod engine;
mod flags;
mod group;
mod handshake;
mod lent_pages;
mod listed;
mod listen;
mod ops;
mod policy;
mod print;
mod quota;
mod rx;
mod stats;
mod tx;
mod update;
mod zerocopy;

use self::{
    admin::{
        netns::{
            Files,
            Namespaces, //
        },
        procfs::ProcDir, //
    },
    client::SmcClient,
    engine::{
        Engine,
        Published, //
    },
    handshake::option::SmcPolicy,
    ops::SmcOps, //
};
use crate::kapi::{
    net::{
        family::Registration as Family,
        netns::NetRegistration,
        option::{
            Backend,
            Kind, //
        },
        proc::NetProc, //
    },
    verbs::client::Registration, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Address family of SMC sockets.
const AF_SMC: u16 = 43;
/// Protocol number of SMC sockets in the Internet families.
const IPPROTO_SMC: u16 = 256;

/// SMC-R, registered. Dropping it takes the fields down in their order: first no new sockets, then
/// the link groups, then the devices, last the engine.
pub(crate) struct Smc {
    /// The settings of each network namespace.
    _files: NetRegistration<Files>,
    /// The socket family and protocol.
    _family: Family<SmcOps>,
    /// The back end of the TCP option.
    _option: Backend<SmcPolicy>,
    /// Files in `/proc/net/rdma_sock`.
    _proc: NetProc<ProcDir>,
    /// Ends the link groups.
    _groups: Groups,
    /// Follows the network namespaces.
    _nets: NetRegistration<Namespaces>,
    /// The client of the verbs core.
    _client: Registration<SmcClient>,
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
    pub(crate) fn new(backend: Kind) -> Result<Self> {
        let engine = Engine::new()?;
        let published = Published::new(&engine);
        let client = Registration::new(c"rdma_sock")?;
        let groups = Groups(engine);
        let nets = NetRegistration::new()?;
        let proc = NetProc::new()?;
        let option = Backend::register(backend)?;
        let family = Family::new(AF_SMC, IPPROTO_SMC)?;
        let files = NetRegistration::new()?;
        Ok(Self {
            _files: files,
            _family: family,
            _option: option,
            _proc: proc,
            _nets: nets,
            _groups: groups,
            _client: client,
            _engine: published,
        })
    }
}
