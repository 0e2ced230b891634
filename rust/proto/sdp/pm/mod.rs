// SPDX-License-Identifier: GPL-2.0

//! The Port Mapper, draft 7: over UDP port 3935 a client finds out whether and where a TCP service
//! is there by SDP (SDP-PM-*).
//!
//! | What                                             | Draft           | File          |
//! |--------------------------------------------------|-----------------|---------------|
//! | The message                                      | 7.3             | [`msg`]       |
//! | The client's transaction                         | 7.5.1           | [`client`]    |
//! | The server's transactions                        | 7.5.2           | [`server`]    |
//! | What is known of hosts and services              | 7.3.1.4         | [`reach`]     |
//! | What connections that wait learn, and when       | -               | [`inquiry`]   |

pub(crate) mod client;
pub(crate) mod inquiry;
pub(crate) mod msg;
pub(crate) mod reach;
pub(crate) mod server;
