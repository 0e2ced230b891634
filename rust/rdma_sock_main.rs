// SPDX-License-Identifier: GPL-2.0

//! TCP socket programs over RDMA: what the module consists of, and in which order it starts and
//! stops.

#![crate_name = "rdma_sock"]

use kernel::prelude::*;

mod bindings;
mod fabric;
mod kapi;
mod proto;
mod sdp;
mod smc;
mod sock;

module! {
    type: RdmaSockModule,
    name: "rdma_sock",
    authors: ["The rdma-sock developers"],
    description: "TCP socket programs over RDMA (SMC-R, RFC 7609)",
    license: "GPL",
    alias: [
        "net-pf-43",
        "net-pf-2-proto-256-type-1",
        "net-pf-10-proto-256-type-1",
        "net-pf-16-proto-4-type-43",
        "net-pf-16-proto-16-family-SMC_GEN_NETLINK",
        "net-pf-16-proto-16-family-SMC_PNETID",
        "net-pf-27",
        "net-pf-28",
        "net-pf-2-proto-257-type-1",
        "net-pf-10-proto-257-type-1",
        "net-pf-2-proto-258-type-1",
        "net-pf-10-proto-258-type-1",
    ],
    params: {
        option_backend: i32 {
            default: 0,
            description: "TCP option by: 0 the kernel's TCP if it can, 1 the kernel's TCP, 2 netfilter",
        },
        sdp_family: i32 {
            default: 1,
            description: "SDP also by the families 27 and 28: 1 yes, 0 no",
        },
    },
}

/// The loaded module.
struct RdmaSockModule {
    /// Sockets of both protocols, which end first.
    _dual: sock::dual::Dual<smc::SmcSetup, sdp::SdpSetup>,
    /// SDP.
    _sdp: sdp::Sdp,
    /// SMC-R.
    _smc: smc::Smc,
    /// The devices of the host.
    _fabric: fabric::client::FabricRegistration,
}

impl kernel::Module for RdmaSockModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let backend = match module_parameters::option_backend.value() {
            0 => kapi::net::option::BackendKind::Auto,
            1 => kapi::net::option::BackendKind::Kernel,
            2 => kapi::net::option::BackendKind::Netfilter,
            _ => return Err(EINVAL),
        };
        let has_families = match module_parameters::sdp_family.value() {
            0 => false,
            1 => true,
            _ => return Err(EINVAL),
        };
        let fabric = fabric::client::FabricRegistration::new()?;
        let directory = sock::directory::Directory::new()?;
        let rules = sock::rules::Rules::new()?;
        let smc = smc::Smc::new(backend, &fabric, &directory, &rules)?;
        let sdp = sdp::Sdp::new(&fabric, &directory, &rules, has_families)?;
        let dual = sock::dual::Dual::new()?;
        Ok(Self {
            _dual: dual,
            _sdp: sdp,
            _smc: smc,
            _fabric: fabric,
        })
    }
}
