// SPDX-License-Identifier: GPL-2.0

//! TCP socket programs over RDMA: what the module consists of, and in which order it starts and stops.

#![crate_name = "rdma_sock"]

use kernel::prelude::*;

mod bindings;
mod kapi;
mod proto;

module! {
    type: RdmaSockModule,
    name: "rdma_sock",
    authors: ["The rdma-sock developers"],
    description: "TCP socket programs over RDMA (SMC-R, RFC 7609)",
    license: "GPL",
}

/// The loaded module.
struct RdmaSockModule;

impl kernel::Module for RdmaSockModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(RdmaSockModule)
    }
}
