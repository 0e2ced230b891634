// SPDX-License-Identifier: GPL-2.0

//! The software RNIC: the parts of the module, and the order in which they start and stop.
//!
//! The module shares the sources below `kapi` and `proto` with `rdma_sock`; each module compiles its
//! own copy of the files that it mounts. The unit tests of these files run in `rdma_sock` only.

#![crate_name = "rdma_soft"]

use kapi::base::work::WorkQueue;
use kernel::prelude::*;

mod bindings;

/// Safe abstractions over the kernel.
mod kapi {
    #[expect(
        dead_code,
        unused_imports,
        unused_macros,
        reason = "the device that uses it does not exist yet"
    )]
    pub(crate) mod base;

    pub(crate) mod compat;

    /// Network namespaces and addresses. The other files of the folder are about TCP sockets that a
    /// program has opened.
    #[expect(dead_code, reason = "the device that uses it does not exist yet")]
    pub(crate) mod net {
        pub(crate) mod addr;
        pub(crate) mod netns;
    }
}

/// Protocol cores, without any input or output.
mod proto {
    #![forbid(unsafe_code)]

    #[expect(dead_code, reason = "the protocol that uses it does not exist yet")]
    pub(crate) mod base;
}

module! {
    type: RdmaSoftModule,
    name: "rdma_soft",
    authors: ["The rdma-sock developers"],
    description: "Software RNIC",
    license: "GPL",
}

/// The loaded module.
struct RdmaSoftModule {
    /// Runs the work items of the module. Dropping it waits for them.
    _queue: WorkQueue,
}

impl kernel::Module for RdmaSoftModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _queue: WorkQueue::new(c"rdma_soft")?,
        })
    }
}
