// SPDX-License-Identifier: GPL-2.0

//! The socket engine: sockets of any stream protocol over RDMA.
//!
//! A socket of ours *is* a TCP socket with other operations. Its [`connection::Mode`] selects what
//! serves a call: TCP's own operations, or this engine.
//!
//! | Object                     | Held by                                                        |
//! |----------------------------|----------------------------------------------------------------|
//! | [`connection::Connection`] | the sock's attachment, the list of its namespace, work items   |
//! | [`stream::Stream`]         | its connection, under the stream lock                          |
//! | `AcceptQueue`              | its listener                                                   |
//! | [`stats::NetStats`]        | its connections, the protocol                                  |
//! | [`context::Context`]       | all connections                                                |
//! | [`rules::Rules`]           | the engines of all protocols                                   |
//!
//! | Runs in                    | What                                                           |
//! |----------------------------|----------------------------------------------------------------|
//! | calls of a program         | `ops`, `connect`, `tx`, `rx`, `waiting`, `zerocopy`            |
//! | work item of the set-up    | `work`: the protocol's set-up, `listen`                        |
//! | work item of the end       | `work`: timers and the end, by the protocol                    |
//! | wakes of TCP, in softirq   | `connection`: TCP's events only kick work items                |
//!
//! | Input                      | Function                                                       |
//! |----------------------------|----------------------------------------------------------------|
//! | a call                     | [`ops::StreamOps`], or one of two by `dual`                    |
//! | a message, a completion    | [`connection::Connection::update`], called by the protocol     |
//! | a timer                    | the work item of the end                                       |
//! | an event of TCP            | `TcpEvents` of the connection                                  |

#![deny(unsafe_code)]

pub(crate) mod accept_queue;
pub(crate) mod calls;
mod capture;
pub(crate) mod connect;
pub(crate) mod connection;
mod contention;
pub(crate) mod context;
mod copy;
pub(crate) mod directory;
pub(crate) mod dual;
pub(crate) mod lent_pages;
mod listed;
pub(crate) mod listen;
pub(crate) mod ops;
mod options;
pub(crate) mod policy;
pub(crate) mod print;
pub(crate) mod rules;
mod rx;
mod spins;
pub(crate) mod stats;
pub(crate) mod stream;
mod tx;
mod update;
mod waiting;
mod work;
pub(crate) mod zerocopy;
