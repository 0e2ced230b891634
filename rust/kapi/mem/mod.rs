// SPDX-License-Identifier: GPL-2.0

//! Memory that RDMA devices read and write.
//!
//! | Type                     | What it is                           | Who may write it             |
//! |--------------------------|--------------------------------------|------------------------------|
//! | [`sendbuf::SendBuffer`]  | source of RDMA writes                | the CPU; devices read        |
//! | [`region::PeerMemory`]   | target of a peer's RDMA writes       | the peer at any time         |
//! | [`lent::Lent`]           | source of RDMA writes                | the program it belongs to    |
//!
//! No type ever gives out a reference into its memory: data is copied in or out by pointer, so
//! nothing is assumed about octets that somebody else may change.

pub(super) mod block;
pub(crate) mod lent;
pub(crate) mod region;
pub(crate) mod sendbuf;
