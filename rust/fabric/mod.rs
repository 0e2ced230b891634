// SPDX-License-Identifier: GPL-2.0

//! The shared device side: ports of RDMA devices, and the memory that connections take.
//!
//! | What                                              | File        |
//! |---------------------------------------------------|-------------|
//! | Devices, ports, and the port of a connection      | [`ports`]   |
//! | Devices come, change and go                       | [`client`]  |
//! | The payer of buffers and its limits               | [`quota`]   |
//! | Counts of which shares are taken                  | [`account`] |

#![deny(unsafe_code)]

pub(crate) mod account;
pub(crate) mod client;
pub(crate) mod ports;
pub(crate) mod quota;
