// SPDX-License-Identifier: GPL-2.0

//! What an administrator reads and sets: files in `/proc` and settings, per network namespace.

pub(super) mod commands;
pub(super) mod diag;
pub(super) mod eid;
pub(super) mod netns;
pub(super) mod pnetid;
pub(super) mod pnets;
pub(super) mod procfs;
pub(super) mod sysctl;
