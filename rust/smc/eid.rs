// SPDX-License-Identifier: GPL-2.0

//! The enterprise identifiers of a network namespace: without one there is no SMC-R version 2.
//!
//! There is none from the start, as with the C implementation. Two machines of ours in one subnet
//! then use version 1; as soon as both have a common identifier, they use version 2.

use super::{
    engine,
    Engine, //
};
use crate::{
    kapi::net::proc::{
        SeqFile,
        SeqShow,
        SeqWrite, //
    },
    proto::clc::{
        Eid,
        EidList, //
    },
};
use kernel::{
    prelude::*,
    seq_print, //
};

/// The identifiers of a namespace that has some.
pub(super) struct NetEids {
    cookie: u64,
    list: EidList,
}

impl Engine {
    /// The identifiers of a namespace. Sleeps.
    pub(crate) fn eids(&self, net_cookie: u64) -> EidList {
        let nets = self.eids.lock();
        let found = nets.iter().find(|net| net.cookie == net_cookie);
        found.map_or(EidList::EMPTY, |net| net.list)
    }

    /// Sets the identifiers of a namespace, for what comes from now on. Sleeps.
    pub(crate) fn set_eids(&self, net_cookie: u64, list: EidList) -> Result {
        let mut nets = self.eids.lock();
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
}

/// `/proc/net/rdma_sock/ueids`: one identifier a line. What is written takes the place of all.
pub(super) struct Ueids;

impl SeqShow for Ueids {
    const NAME: &'static CStr = c"ueids";

    fn show(net: u64, m: &SeqFile) -> Result {
        let engine = engine().ok_or(ENODEV)?;
        for eid in engine.eids(net).as_slice() {
            seq_print!(m, "{}\n", core::str::from_utf8(eid.name()).unwrap_or("?"));
        }
        Ok(())
    }
}

impl SeqWrite for Ueids {
    /// # Errors
    ///
    /// `EINVAL` for what is no identifier, `E2BIG` for more than eight.
    fn write(net: u64, text: &[u8]) -> Result {
        let mut list = EidList::EMPTY;
        let words = text.split(u8::is_ascii_whitespace);
        for word in words.filter(|word| !word.is_empty()) {
            let eid = Eid::new(word).ok_or(EINVAL)?;
            if !list.as_slice().contains(&eid) {
                list.push(eid).map_err(|_| E2BIG)?;
            }
        }
        engine().ok_or(ENODEV)?.set_eids(net, list)
    }
}
