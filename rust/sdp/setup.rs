// SPDX-License-Identifier: GPL-2.0

//! SDP's own part of a connection, and the connections that have it.

use super::{
    attempt::SdpAttempt,
    engine::SdpEngine,
    link::SdpLink,
    mail::Mailbox,
    net::SdpNet, //
};
use crate::{
    kapi::net::sock::Sock,
    sock::{
        connection::Connection,
        stats::Side, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        Mutex, //
    },
};

/// A connection that tries, or uses, SDP.
pub(super) type SdpConnection = Connection<SdpSetup>;

/// SDP's own part of a connection.
#[pin_data]
pub(crate) struct SdpSetup {
    /// The registries of the host.
    pub(super) engine: Arc<SdpEngine>,
    /// The network namespace.
    pub(super) net: Arc<SdpNet>,
    /// The set-up, while there is one. Taken before `link`. Handlers of the connection managers do
    /// not take it, as the drop of an id waits for them.
    #[pin]
    pub(super) attempt: Mutex<Option<SdpAttempt>>,
    /// What handlers have left.
    pub(super) mail: Arc<Mailbox>,
    /// The link of a connection that has its data side. Handlers do not take it.
    #[pin]
    pub(super) link: Mutex<SdpLink>,
}

impl SdpSetup {
    /// The part of a connection without a set-up. Context: may sleep.
    pub(super) fn new(
        engine: &Arc<SdpEngine>,
        net: &Arc<SdpNet>,
        mail: Arc<Mailbox>,
    ) -> impl PinInit<Self> {
        let (engine, net) = (engine.clone(), net.clone());
        pin_init!(Self {
            engine,
            net,
            attempt <- new_mutex!(None, "rdma_sock_sdp_attempt"),
            mail,
            link <- new_mutex!(SdpLink::NONE, "rdma_sock_sdp_link"),
        })
    }
}

/// Makes the context of a socket. Context: may sleep.
pub(super) fn make(
    engine: &Arc<SdpEngine>,
    sk: ARef<Sock>,
    side: Side,
) -> Result<Arc<SdpConnection>> {
    let net = engine.nets.state(&sk.net())?;
    let setup = SdpSetup::new(engine, &net, Mailbox::new()?);
    Connection::new(&engine.context, &net.stats, sk, side, false, setup)
}
