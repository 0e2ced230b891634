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
    smc::engine::engine, //
};
use kernel::prelude::*;

/// Follows network namespaces.
pub(crate) struct Namespaces;

impl NetOps for Namespaces {
    fn init(net: &Net) -> Result {
        // The rest of the state is made by the first socket.
        engine().ok_or(ENODEV)?.sysctls.add(net)
    }

    fn exit(net: &Net) {
        // No socket of the namespace is left; its idle link groups go with it.
        if let Some(engine) = engine() {
            let cookie = net.cookie();
            engine.groups.terminate_all(|group| group.key.net == cookie);
            engine.nets.forget(cookie);
            engine.sysctls.remove(cookie);
            // Removing needs no memory.
            let _ = engine.eids.set(cookie, EidList::EMPTY);
        }
    }
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
