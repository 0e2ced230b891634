// SPDX-License-Identifier: GPL-2.0

//! The protocol core: formats and state machines of SMC-R, RFC 7609, without any input or output.
//!
//! Everything here takes octets, events and the time as arguments and answers with values; nothing
//! locks, allocates, prints, sleeps or looks at a clock. The engines in `smc` own all effects. The
//! same files are compiled into the module and, by `tools/host`, into a host crate where they are
//! tested with properties and simulated peers.
//!
//! | What                                             | RFC 7609        | File            |
//! |--------------------------------------------------|-----------------|-----------------|
//! | Time, queues and retries of any protocol         | -               | [`base`]        |
//! | Numbers and addresses that appear in messages    | appendix A      | [`wire`]        |
//! | TCP option that offers SMC-R                     | 3.1, A.1        | [`tcpopt`]      |
//! | CLC handshake on the TCP connection              | 3.5, A.2, C     | [`clc`]         |
//! | How many handshakes a listener has at a time     | 3.5.1.1         | [`accept`]      |
//! | LLC messages and flows on a link                 | 3.3, 3.5, A.3   | [`llc`]         |
//! | CDC messages, cursors and windows                | 4, A.4          | [`cdc`], [`cursor`] |
//! | Normal and abnormal close                        | 4.7, 4.8        | [`close`]       |
//! | Which hosts a link group is known to be with    | -               | [`hosts`]       |
//! | Byte streams of any protocol                     | -               | [`stream`]      |
//! | Whether an idle connection still has a peer      | 4.5.3           | [`keepalive`]   |
//! | Sizes of the buffers of a connection              | 4.2             | [`buffer_sizing`] |
//! | Which elements of an RMB are free                | 4.4             | [`elements`]    |
//! | How much a namespace, a peer and the host get    | -               | [`quota`]       |
//! | Why a connection is not, or no longer, SMC-R     | A.2.5           | [`reason`]      |
//!
//! Inputs are methods `handle_x(now, …)`, outputs are `poll_x()`; plain verbs are commands of the
//! layer above. References such as `CLC-101` name rows of the project's requirement list.

#![forbid(unsafe_code)]

pub(crate) mod accept;
pub(crate) mod base;
pub(crate) mod buffer_sizing;
pub(crate) mod cdc;
pub(crate) mod clc;
pub(crate) mod close;
pub(crate) mod cursor;
pub(crate) mod elements;
pub(crate) mod hosts;
pub(crate) mod keepalive;
pub(crate) mod llc;
pub(crate) mod quota;
pub(crate) mod reason;
pub(crate) mod stream;
pub(crate) mod tcpopt;
pub(crate) mod wire;

#[cfg(test)]
mod sim;
