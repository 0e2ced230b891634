// SPDX-License-Identifier: GPL-2.0

//! Decisions about a byte stream that are the same for any protocol below.
//!
//! | What                                                | File          |
//! |-----------------------------------------------------|---------------|
//! | Positions of bytes, and parts of buffers            | [`positions`] |
//! | Small writes that are held until there are more     | [`coalesce`]  |
//! | Which posted chains ask for a completion            | [`signals`]   |
//! | Data that is sent without a copy                    | [`zerocopy`]  |
//! | Events for the engine, and what a reader finds      | [`events`]    |
//! | What poll reports                                   | [`poll`]      |
//! | What `TCP_INFO` reports                             | [`info`]      |
//! | When received bytes came                            | [`arrivals`]  |
//! | Where the last urgent byte is                       | [`urgent`]    |
//! | Whether an idle connection still has a peer         | [`keepalive`] |
//! | How many handshakes a listener has at a time        | [`accept`]    |
//! | Why a connection is not, or no longer, over RDMA    | [`reason`]    |
//! | Which connections an administrator lets use RDMA    | [`rules`]     |
//! | How long a wait spins before it sleeps              | [`spin`]      |

pub(crate) mod accept;
pub(crate) mod arrivals;
pub(crate) mod coalesce;
pub(crate) mod events;
pub(crate) mod info;
pub(crate) mod keepalive;
pub(crate) mod poll;
pub(crate) mod positions;
pub(crate) mod reason;
pub(crate) mod rules;
pub(crate) mod signals;
pub(crate) mod sizes;
pub(crate) mod spin;
pub(crate) mod urgent;
pub(crate) mod zerocopy;
