// SPDX-License-Identifier: GPL-2.0

//! A connection as its link group sees it: the group names no connection type.
//!
//! Source: RFC 7609 sections 2.3, 4.6, 4.7 (`SMCR-FOV-01..06`, `SMCR-CDC-30..37`).

use super::{
    completions::ChainOwner,
    route::{
        PeerElement,
        Route, //
    },
};
use crate::{
    kapi::verbs::sendbuf::SendBuffer,
    proto::smc::{
        clc::LlcOutcome,
        llc::LinkSlot, //
    },
};
use kernel::sync::Arc;

/// A connection of a link group. The group holds it from its token on until the token ends.
///
/// Methods that may need the connection later take their own reference.
pub(crate) trait Member: ChainOwner {
    /// The same connection for the completions of a link. Context: any.
    fn chain_owner(self: Arc<Self>) -> Arc<dyn ChainOwner>;

    /// The RMBs or the phase of the group have changed, for which the handshake may wait.
    /// Context: any.
    fn on_group_changed(self: Arc<Self>);

    /// First contact of the group that the connection has founded is over. Context: any.
    fn on_first_contact(self: Arc<Self>, outcome: LlcOutcome);

    /// A link has failed or is about to go. A connection that sends on it posts nothing more; for
    /// its user this is a pause. Context: may sleep.
    fn link_down(self: Arc<Self>, slot: LinkSlot);

    /// The connection goes on over `route` (`SMCR-FOV-04`): the old link has given back all that
    /// was posted on it. Context: may sleep.
    fn reroute(self: Arc<Self>, route: Route);

    /// The connection goes on over `route` when nothing is in flight on the old link, which works
    /// (`SMCR-FOV-03`, `SMCR-FOV-06`). The newest call counts. Context: may sleep.
    fn migrate(self: Arc<Self>, route: Route);

    /// The last link of the group is dead. Context: may sleep.
    fn link_lost(self: Arc<Self>);

    /// The connection ends as by a reset of the peer. Context: any.
    fn reset(self: Arc<Self>);

    /// The link that the connection writes by. Context: any.
    fn slot(&self) -> Option<LinkSlot>;

    /// The element of the peer that it writes to. Context: any.
    fn peer_element(&self) -> Option<PeerElement>;

    /// Its send buffer, while it has a link. Context: any.
    fn send_buffer(&self) -> Option<Arc<SendBuffer>>;
}

/// Whether both are the same connection.
pub(crate) fn is_same(one: &Arc<dyn Member>, other: &Arc<dyn Member>) -> bool {
    // The table of methods may exist more than once; the object does not.
    core::ptr::addr_eq(&raw const **one, &raw const **other)
}
