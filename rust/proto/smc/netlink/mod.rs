// SPDX-License-Identifier: GPL-2.0

//! What the administrator's tools read from the kernel: the octets of messages on netlink.
//!
//! Formats: `include/uapi/linux/{smc,smc_diag}.h`. Numbers are in the order of the host's octets.

pub(crate) mod attributes;
pub(crate) mod commands;
pub(crate) mod counts;
pub(crate) mod diag;
pub(crate) mod groups;
pub(crate) mod pnetid;
