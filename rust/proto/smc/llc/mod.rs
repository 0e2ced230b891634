// SPDX-License-Identifier: GPL-2.0

//! LLC messages and flows on a link, RFC 7609, sections 3.3 and 3.5 and appendix A.3.
//!
//! | What                                                       | File                      |
//! |------------------------------------------------------------|---------------------------|
//! | The messages                                               | [`msg`] and one file each |
//! | The messages octet for octet, as tests                     | `vectors`                 |
//! | The link group: inputs, outputs, timers                    | [`group`]                 |
//! | TEST LINK, and patience with a busy peer                   | `liveness`                |
//! | CONFIRM LINK, and what makes a group ready                 | `first_contact`           |
//! | Adding a link: the server's part, the client's, the keys   | `add`, `accept`, `keys`   |
//! | The attempt that runs, and the time of the next one        | `attempts`                |
//! | Which links may be beside each other                       | [`shape`]                 |
//! | How far a group is, and what a failure then means          | `phase`                   |
//! | DELETE LINK for one link, and for all                      | `links`, `teardown`       |
//! | CONFIRM RKEY and DELETE RKEY, sent and received            | `rkey`, `rkey_recv`       |
//! | What happens when exchanges collide                        | `flow`                    |
//! | Where the buffers of both sides are                        | `local_rmbs`, [`rtoken`]  |
//! | What the engine is asked to do, and its answers            | [`action`], [`driver`]    |
//! | Which connection a token names, and which link it uses    | [`tokens`], [`balance`]   |
//! | When RMBs are made and returned                            | [`rmb_pool`]              |
//! | How long a group without connections is kept               | [`lifetime`]              |

mod accept;
pub(crate) mod action;
pub(crate) mod add;
mod add_link;
mod add_link_cont;
mod add_link_ext;
mod attempts;
pub(crate) mod balance;
mod confirm_link;
mod confirm_rkey;
mod confirm_rkey_cont;
mod delete_link;
mod delete_rkey;
pub(crate) mod driver;
mod first_contact;
mod flow;
pub(crate) mod group;
mod keys;
pub(crate) mod lifetime;
pub(crate) mod link;
mod links;
mod liveness;
mod local_rmbs;
pub(crate) mod msg;
mod phase;
mod request_add_link;
mod rkey;
mod rkey_recv;
pub(crate) mod rmb_pool;
pub(crate) mod rtoken;
pub(crate) mod shape;
mod teardown;
mod test_link;
pub(crate) mod tokens;

#[cfg(test)]
mod abuse;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod sim;
#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
mod testing;
#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
mod vectors;

pub(crate) use self::action::{Fail, LlcKind, RmbId, Role};
pub(crate) use self::add::{LinkOffer, PeerOffer};
pub(crate) use self::add_link_ext::MAX_BYTES as LONG_BYTES;
pub(crate) use self::delete_link::DeleteReason;
pub(crate) use self::group::{Group, GroupConfig, GroupTimers};
pub(crate) use self::link::{LinkSlot, LocalLink, PeerLink, Port};
pub(crate) use self::msg::Layout;
pub(crate) use self::rtoken::PeerRmbId;
pub(crate) use self::shape::Shape;
