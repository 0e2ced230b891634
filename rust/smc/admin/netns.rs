// SPDX-License-Identifier: GPL-2.0

//! Network namespaces come and go.

use crate::{
    kapi::net::{
        netns::{
            Net,
            NetOps, //
        },
        sysctl::SysctlTable, //
    },
    proto::smc::clc::EidList,
    smc::{
        engine::{
            engine,
            Engine, //
        },
        net::NetLimits, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Follows network namespaces.
pub(crate) struct Namespaces;

impl NetOps for Namespaces {
    fn init(net: &Net) -> Result {
        let engine = engine().ok_or(ENODEV)?;
        engine.sysctls.add(net)?;
        // The rest of the state is made by the first socket.
        let entered = enter_limits(&engine, net.cookie());
        if entered.is_err() {
            engine.sysctls.remove(net.cookie());
        }
        entered
    }

    fn exit(net: &Net) {
        // No socket of the namespace is left; its idle link groups go with it.
        if let Some(engine) = engine() {
            let cookie = net.cookie();
            engine.groups.terminate_all(|group| group.key.net == cookie);
            engine.nets.forget(cookie);
            engine.quotas.forget(cookie);
            engine.sysctls.remove(cookie);
            engine.pnets.forget(cookie);
            engine.rules.forget(cookie);
            // Removing needs no memory.
            let _ = engine.eids.set(cookie, EidList::EMPTY);
        }
    }
}

/// Makes the accounts of a namespace, which all protocols share.
fn enter_limits(engine: &Engine, cookie: u64) -> Result {
    let limits = NetLimits {
        own: engine.sysctls.of(cookie)?,
        host: engine.sysctls.host.clone(),
    };
    engine.quotas.enter(cookie, Arc::new(limits, GFP_KERNEL)?)
}

/// The files. They come after the family is ours: the C implementation has files of these names.
pub(crate) struct Files;

impl NetOps for Files {
    fn init(net: &Net) -> Result {
        let engine = engine().ok_or(ENODEV)?;
        let cookie = net.cookie();
        let table = SysctlTable::new(net, engine.sysctls.of(cookie)?)?;
        engine.sysctls.set_table(cookie, Some(table));
        Ok(())
    }

    fn exit(net: &Net) {
        if let Some(engine) = engine() {
            engine.sysctls.set_table(net.cookie(), None);
        }
    }
}
