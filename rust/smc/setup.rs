// SPDX-License-Identifier: GPL-2.0

//! SMC-R's own part of a connection, and the connections that have it.

use super::{
    engine::Engine,
    handshake::state::{
        Handshake,
        Mail, //
    },
    net::NetState, //
};
use crate::{
    kapi::base::sync::{
        new_spinlock_bh,
        SpinLockBh, //
    },
    sock::connection::Connection, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// A connection that offers, or uses, SMC-R.
pub(crate) type SmcConnection = Connection<SmcSetup>;

/// SMC-R's own part of a connection: its handshake and where it belongs.
#[pin_data]
pub(crate) struct SmcSetup {
    /// The registries of the host.
    pub(crate) engine: Arc<Engine>,
    /// The network namespace.
    pub(crate) net: Arc<NetState>,
    /// The handshake, while there is one. Taken first of all locks.
    #[pin]
    pub(crate) handshake: Mutex<Option<KBox<Handshake>>>,
    /// Messages from others to the handshake.
    #[pin]
    pub(crate) mail: SpinLockBh<Mail>,
}

impl SmcSetup {
    /// The part of a connection without a handshake. Context: may sleep.
    pub(crate) fn new(engine: &Arc<Engine>, net: &Arc<NetState>) -> impl PinInit<Self> {
        let (engine, net) = (engine.clone(), net.clone());
        pin_init!(Self {
            engine,
            net,
            handshake <- new_mutex!(None, "rdma_sock_handshake"),
            mail <- new_spinlock_bh!(Mail::new(), "rdma_sock_mail"),
        })
    }
}
