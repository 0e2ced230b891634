// SPDX-License-Identifier: GPL-2.0

//! LLC messages and flows on a link, RFC 7609, sections 3.3 and 3.5 and appendix A.3.
//!
//! | What                                                       | File                      |
//! |------------------------------------------------------------|---------------------------|
//! | The messages                                               | [`msg`] and one file each |
//! | The link group: inputs, outputs, timers, TEST LINK         | [`group`]                 |
//! | CONFIRM LINK and the attempt for a second link             | `first_contact`           |
//! | How far a group is, and what a failure then means          | `phase`                   |
//! | DELETE LINK                                                | `teardown`                |
//! | CONFIRM RKEY and DELETE RKEY                               | `rkey`                    |
//! | What happens when exchanges collide                        | `flow`                    |
//! | Where the peer's buffers are                               | [`rtoken`]                |
//! | What the engine is asked to do                             | [`action`]                |

pub(crate) mod action;
mod add_link;
mod add_link_cont;
mod confirm_link;
mod confirm_rkey;
mod confirm_rkey_cont;
mod delete_link;
mod delete_rkey;
mod first_contact;
mod flow;
pub(crate) mod group;
pub(crate) mod link;
pub(crate) mod msg;
mod phase;
pub(crate) mod rkey;
pub(crate) mod rtoken;
mod teardown;
mod test_link;

#[cfg(test)]
mod abuse;
#[cfg(test)]
mod sim;
#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
mod testing;

pub(crate) use action::{Action, Fail, Kind, RmbId, Role};
pub(crate) use delete_link::DeleteReason;
pub(crate) use first_contact::LinkOffer;
pub(crate) use group::{Config, Group, Timers};
pub(crate) use link::{LocalLink, PeerLink, Slot};
pub(crate) use msg::Layout;
pub(crate) use rtoken::PeerRmbId;
