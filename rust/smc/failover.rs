// SPDX-License-Identifier: GPL-2.0

//! How a connection moves from one link to another.
//!
//! Source: RFC 7609 sections 2.3 and 4.6 (`SMCR-FOV-01..22`). The link group decides; the core of the
//! connection (`proto::cdc`) knows what has to be said and repeated on the new link. Each side moves
//! its own direction by itself (`SMCR-FOV-02`, `SMCR-FOV-18`).

use super::{
    connection::Connection,
    data::Data,
    route::Route, //
};
use crate::proto::llc::Slot;
use core::mem::replace;
use kernel::sync::Arc;

/// Where a connection is to send as soon as nothing is on its way any more.
pub(crate) enum Next {
    /// Over another link.
    Route(Route),
    /// Where it is: what it was to move to is gone.
    Stay,
}

impl Next {
    fn is_on(&self, slot: Slot) -> bool {
        matches!(self, Self::Route(route) if route.slot() == slot)
    }
}

impl Data {
    /// Whether the connection is to move, and nothing of it is on its way any more.
    pub(super) fn may_move(&self) -> bool {
        !self.core.is_in_flight() && self.hold.as_ref().is_some_and(|hold| hold.next.is_some())
    }
}

impl Connection {
    /// A link has failed or is about to go. If the connection sends on it, it posts nothing more;
    /// for its user this is but a pause. Returns whether it is concerned. Process context.
    pub(crate) fn link_down(self: &Arc<Self>, slot: Slot) -> bool {
        let outcome = self.update(|data, _| {
            let mut outcome = (false, None);
            if let Some(hold) = data.hold.as_mut() {
                outcome.0 = hold.route.slot() == slot;
                if outcome.0 {
                    data.core.handle_link_paused();
                } else if hold.next.as_ref().is_some_and(|next| next.is_on(slot)) {
                    // It was about to move there.
                    outcome.1 = hold.next.replace(Next::Stay);
                }
            }
            outcome
        });
        let Some((concerned, dropped)) = outcome else {
            return false;
        };
        if dropped.is_some() {
            self.move_if_idle();
        }
        concerned
    }

    /// Goes on over `route` (`SMCR-FOV-04`). The old link has given back everything that was posted
    /// on it. Process context.
    pub(crate) fn reroute(self: &Arc<Self>, route: Route) {
        let old = self.update(|data, _| match data.hold.as_mut() {
            Some(hold) => {
                data.core.handle_link_switched();
                (Some(replace(&mut hold.route, route)), hold.next.take())
            }
            None => (Some(route), None),
        });
        drop(old);
        self.copy_recalled();
    }

    /// Goes on over `route` as soon as nothing is on its way over the old link, which works
    /// (`SMCR-FOV-03`, `SMCR-FOV-06`). The newest wish counts. Process context.
    pub(crate) fn migrate(self: &Arc<Self>, route: Route) {
        let old = self.update(|data, _| {
            let Some(hold) = data.hold.as_mut() else {
                return Some(Next::Route(route));
            };
            data.core.handle_link_leaving();
            hold.next.replace(Next::Route(route))
        });
        drop(old);
        self.move_if_idle();
    }

    /// Does what [`Self::migrate`] asked for, if it is time. Process context.
    pub(super) fn move_if_idle(self: &Arc<Self>) {
        let old = self.update(|data, _| {
            if !data.may_move() {
                return None;
            }
            let hold = data.hold.as_mut()?;
            let next = hold.next.take()?;
            data.core.handle_link_switched();
            match next {
                Next::Route(route) => Some(replace(&mut hold.route, route)),
                Next::Stay => None,
            }
        });
        drop(old);
        self.copy_recalled();
    }
}
