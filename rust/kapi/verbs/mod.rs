// SPDX-License-Identifier: GPL-2.0

//! RDMA devices and verbs objects.
//!
//! | C object        | Rust type                   | Freed by                                        |
//! |-----------------|-----------------------------|-------------------------------------------------|
//! | `ib_client`     | [`client::ClientRegistration`]    | its `Drop`; removes every device first          |
//! | `ib_device`     | [`device::Device`]          | last `Arc`; usable while a [`device::Lease`] is |
//! | `ib_pd`         | [`pd::Pd`]                  | last `Arc`; holds a lease                       |
//! | `ib_cq`         | `cq::Cq`                    | last `Arc`, held by its queue pair              |
//! | `ib_qp`         | `qp::Qp`                    | [`channel::Channel::shutdown`]                  |
//! | `ib_mr`         | [`mr::Mr`]                  | its `Drop`; holds its memory and its `Pd`       |
//! | `ib_mr` (pages) | `user_region::FastMr`       | its `Drop`; holds its `Pd`                      |
//! | DMA mapping     | `dma::Mapping`              | its `Drop`; holds a lease                       |
//! | `ib_cm_id`      | `cm::CmHandle`, `CmListener`| their `Drop`; hold a lease                      |
//! | `rdma_cm_id`    | `cm::RdmaIdHandle`          | its `Drop`                                      |
//!
//! Everything that needs the driver holds a lease of the device, and the removal of a device waits
//! for the last lease. So nothing here can be used after the driver is gone.

pub(crate) mod channel;
mod chunk_mapping;
pub(crate) mod client;
#[cfg_attr(
    not(CONFIG_RDMA_SOCK_KUNIT_TEST),
    expect(
        dead_code,
        unused_imports,
        reason = "SDP over RoCE uses a part; used by KUnit tests"
    )
)]
pub(crate) mod cm;
pub(crate) mod config;
mod cq;
pub(crate) mod device;
pub(super) mod dma;
mod fast_reg;
#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
mod loopback;
mod messages;
pub(crate) mod mr;
pub(crate) mod pd;
mod port;
mod posted;
mod qp;
pub(crate) mod read;
mod recv;
pub(crate) mod sendbuf;
mod slot;
pub(crate) mod user_pages;
pub(crate) mod user_region;
pub(crate) mod wc;
