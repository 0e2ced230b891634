// SPDX-License-Identifier: GPL-2.0

//! The Sockets Direct Protocol: the engine around the protocol core. So far its discovery.
//!
//! Source: draft-pinkerton-iwarp-sdp-01, section 7.
//!
//! | Object                 | Held by                                                             |
//! |------------------------|---------------------------------------------------------------------|
//! | `portmap::PortMapper`  | its registration, its sockets until that is dropped, its work item  |
//! | `reach::ReachTable`    | the state of its namespace, connections, inquiries under way        |
//! | `reach::Inquiry`       | its table, its socket, connections that wait, its work item         |
//!
//! | Runs in                | What                                                                |
//! |------------------------|---------------------------------------------------------------------|
//! | work items             | all that sends and receives                                         |
//! | calls of a program     | `reach::ReachTable::ask`                                            |
//! | softirq                | events of UDP sockets, which only kick a work item                  |

#![deny(unsafe_code)]

pub(crate) mod addr;
pub(crate) mod portmap;
pub(crate) mod reach;
#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
mod test_client;
