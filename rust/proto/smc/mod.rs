// SPDX-License-Identifier: GPL-2.0

//! SMC-R: formats and state machines of RFC 7609.
//!
//! | What                                             | RFC 7609        | File            |
//! |--------------------------------------------------|-----------------|-----------------|
//! | Numbers and addresses that appear in messages    | appendix A      | [`wire`]        |
//! | TCP option that offers SMC-R                     | 3.1, A.1        | [`tcpopt`]      |
//! | CLC handshake on the TCP connection              | 3.5, A.2, C     | [`clc`]         |
//! | LLC messages and flows on a link                 | 3.3, 3.5, A.3   | [`llc`]         |
//! | CDC messages, cursors and windows                | 4, A.4          | [`cdc`], [`cursor`] |
//! | Normal and abnormal close                        | 4.7, 4.8        | [`close`]       |
//! | Which hosts a link group is known to be with     | -               | [`hosts`]       |
//! | Sizes of the buffers of a connection             | 4.2             | [`buffer_sizing`] |
//! | Which elements of an RMB are free                | 4.4             | [`elements`]    |
//! | Names that assign ports to network devices       | -               | [`pnet`]        |

pub(crate) mod buffer_kind;
pub(crate) mod buffer_sizing;
pub(crate) mod cdc;
pub(crate) mod clc;
pub(crate) mod close;
pub(crate) mod cursor;
pub(crate) mod elements;
pub(crate) mod hosts;
pub(crate) mod llc;
pub(crate) mod netlink;
pub(crate) mod pnet;
pub(crate) mod tcpopt;
pub(crate) mod wire;
