// SPDX-License-Identifier: GPL-2.0

//! The software RNIC: the parts of the module, and the order in which they start and stop.
//!
//! The module shares the sources below `kapi` and `proto` with `rdma_sock`; each module compiles its
//! own copy of the files that it mounts. The unit tests of these files run in `rdma_sock` only.

#![crate_name = "rdma_soft"]

use kapi::compat::parameter::copied;
use kernel::prelude::*;

mod bindings;

/// Safe abstractions over the kernel.
mod kapi {
    #[expect(dead_code, reason = "the other module uses the rest")]
    pub(crate) mod base;

    pub(crate) mod compat;

    pub(crate) mod ibdev;

    /// Network namespaces and devices. The other files of the folder are about TCP sockets that a
    /// program has opened.
    pub(crate) mod net {
        pub(crate) mod netdev_events;
        pub(crate) mod netdev_ref;
        #[expect(dead_code, reason = "the other module uses the rest")]
        pub(crate) mod netns;
        pub(crate) mod packet;
        pub(crate) mod packet_port;
        pub(crate) mod send_room;
        pub(crate) mod sender;
    }
}

/// Protocol cores, without any input or output.
#[expect(dead_code, unused_imports, reason = "the device uses a part so far")]
mod proto {
    #![forbid(unsafe_code)]

    pub(crate) mod base;
    pub(crate) mod roce;
}

mod rnic;

module! {
    type: RdmaSoftModule,
    name: "rdma_soft",
    authors: ["The rdma-sock developers"],
    description: "Software RNIC",
    license: "GPL",
    alias: ["rdma-link-rsoft"],
    params: {
        roce: u8 {
            default: 3,
            description: "RoCE of new devices: 1 version 1, 2 version 2, 3 both",
        },
        together: u8 {
            default: 1,
            description: "Packets of a message by RoCE version 2 pass the network stack: 1 together, 0 one by one",
        },
        hook: u8 {
            default: 1,
            description: "Packets that arrive together are taken: 1 together, before UDP, 0 one by one",
        },
        strict: u8 {
            default: 0,
            description: "For tests, limits and habits of an adapter: 0 none, 1 mlx5, 2 bnxt_re, 3 irdma, 4 hns",
        },
        dma: u8 {
            default: 0,
            description: "For tests, memory of the kernel's programs is mapped as for an adapter: 1 yes, 0 no",
        },
        plain: u8 {
            default: 0,
            description: "For measurements, a sum of what is off: 1 runs in softirq, 2 common acknowledgments, 4 common completions, 8 own checksums, 16 joined arrivals",
        },
    },
}

/// The loaded module.
struct RdmaSoftModule {
    _rnic: rnic::Rnic,
}

impl kernel::Module for RdmaSoftModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _rnic: rnic::Rnic::new(&rnic::Settings {
                roce: copied(module_parameters::roce.value()),
                together: copied(module_parameters::together.value()),
                hook: copied(module_parameters::hook.value()),
                strict: copied(module_parameters::strict.value()),
                dma: copied(module_parameters::dma.value()),
                plain: copied(module_parameters::plain.value()),
            })?,
        })
    }
}
