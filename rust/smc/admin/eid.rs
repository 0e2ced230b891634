// SPDX-License-Identifier: GPL-2.0

//! The enterprise identifiers of a network namespace: without one there is no SMC-R version 2.
//!
//! There is none from the start, as with the C implementation. Two machines of ours in one subnet
//! then use version 1; as soon as both have a common identifier, they use version 2.

use crate::proto::smc::clc::{
    Eid,
    EidList, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// The identifiers of a namespace that has some.
struct NetEids {
    cookie: u64,
    list: EidList,
}

/// The identifiers of all namespaces.
#[pin_data]
pub(crate) struct Eids {
    #[pin]
    nets: Mutex<KVec<NetEids>>,
}

impl Eids {
    /// No namespace has any. Context: may sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let nets = new_mutex!(KVec::new(), "rdma_sock_eids");
        Arc::pin_init(pin_init!(Self { nets <- nets }), GFP_KERNEL)
    }

    /// The identifiers of a namespace. Context: may sleep.
    pub(crate) fn of(&self, net_cookie: u64) -> EidList {
        let nets = self.nets.lock();
        let found = nets.iter().find(|net| net.cookie == net_cookie);
        found.map_or(EidList::EMPTY, |net| net.list)
    }

    /// Adds an identifier to those of a namespace. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the namespace has it, `ERANGE` if it has as many as there may be.
    pub(crate) fn add(&self, net_cookie: u64, eid: Eid) -> Result {
        self.change(net_cookie, |list| {
            if list.as_slice().contains(&eid) {
                return Err(EEXIST);
            }
            list.push(eid).map_err(|_| ERANGE)
        })
    }

    /// Takes an identifier from those of a namespace. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the namespace does not have it.
    pub(crate) fn remove(&self, net_cookie: u64, eid: Eid) -> Result {
        self.change(net_cookie, |list| {
            *list = list.without(eid).ok_or(ENOENT)?;
            Ok(())
        })
    }

    /// Changes the identifiers of a namespace under the lock.
    fn change(&self, net_cookie: u64, f: impl FnOnce(&mut EidList) -> Result) -> Result {
        let mut nets = self.nets.lock();
        let found = nets.iter().find(|net| net.cookie == net_cookie);
        let mut list = found.map_or(EidList::EMPTY, |net| net.list);
        f(&mut list)?;
        nets.retain(|net| net.cookie != net_cookie);
        if !list.is_empty() {
            let net = NetEids {
                cookie: net_cookie,
                list,
            };
            nets.push(net, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// Sets the identifiers of a namespace for later handshakes. Context: may sleep.
    pub(crate) fn set(&self, net_cookie: u64, list: EidList) -> Result {
        self.change(net_cookie, |known| {
            *known = list;
            Ok(())
        })
    }
}
