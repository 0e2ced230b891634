// SPDX-License-Identifier: GPL-2.0

//! How a connection moves from one link to another.
//!
//! Source: RFC 7609 sections 2.3 and 4.6 (`SMCR-FOV-01..22`). The link group decides; the core of
//! the connection (`proto::cdc`) knows what has to be said and repeated on the new link. Each side
//! moves its own direction by itself (`SMCR-FOV-02`, `SMCR-FOV-18`).

use crate::{
    kapi::verbs::sendbuf::SendBuffer,
    proto::smc::{
        cdc,
        clc::LlcOutcome,
        llc::LinkSlot, //
    },
    smc::{
        group::{
            completions::ChainOwner,
            member::Member,
            route::{
                Next,
                PeerElement,
                Route, //
            },
        },
        setup::SmcConnection, //
    },
    sock::zerocopy::copy, //
};
use core::mem::replace;
use kernel::{
    prelude::*,
    sync::Arc, //
};

impl ChainOwner for SmcConnection {
    fn on_cdc(self: Arc<Self>, msg: &cdc::Msg, link: LinkSlot) {
        self.receive_cdc(msg, link);
    }

    fn on_sent(self: Arc<Self>, token: cdc::Token, good: bool) {
        self.sent(token, good);
    }

    fn on_turn(self: Arc<Self>) -> bool {
        self.transmit()
    }
}

impl Member for SmcConnection {
    fn chain_owner(self: Arc<Self>) -> Arc<dyn ChainOwner> {
        self
    }

    fn on_group_changed(self: Arc<Self>) {
        self.kick_setup();
    }

    fn on_first_contact(self: Arc<Self>, outcome: LlcOutcome) {
        self.llc_outcome(outcome);
    }

    fn link_down(self: Arc<Self>, slot: LinkSlot) {
        let dropped = self.update(|data, _| {
            let binding = data.binding.as_mut()?;
            if binding.route.slot() == slot {
                data.core.handle_link_paused();
            } else if binding.next.as_ref().is_some_and(|next| next.is_on(slot)) {
                // It was about to move there.
                return binding.next.replace(Next::Stay);
            }
            None
        });
        if dropped.flatten().is_some() {
            self.move_if_idle();
        }
    }

    fn reroute(self: Arc<Self>, route: Route) {
        let old = self.update(|data, _| match data.binding.as_mut() {
            Some(binding) => {
                data.core.handle_link_switched();
                (
                    Some(replace(&mut binding.route, route)),
                    binding.next.take(),
                )
            }
            None => (Some(route), None),
        });
        drop(old);
        self.copy_recalled();
    }

    fn migrate(self: Arc<Self>, route: Route) {
        let old = self.update(|data, _| {
            let Some(binding) = data.binding.as_mut() else {
                return Some(Next::Route(route));
            };
            data.core.handle_link_leaving();
            binding.next.replace(Next::Route(route))
        });
        drop(old);
        self.move_if_idle();
    }

    fn link_lost(self: Arc<Self>) {
        let _ = self.update(|data, _| data.core.handle_link_lost());
        self.kick_setup();
    }

    fn reset(self: Arc<Self>) {
        let _ = self.update(|data, now| data.core.handle_tcp_reset(now));
    }

    fn slot(&self) -> Option<LinkSlot> {
        self.look(|data| data.binding.as_ref().map(|binding| binding.route.slot()))?
    }

    fn peer_element(&self) -> Option<PeerElement> {
        self.look(|data| data.peer_element)
    }

    fn send_buffer(&self) -> Option<Arc<SendBuffer>> {
        self.look(|data| data.binding.as_ref().map(|binding| binding.sendbuf.clone()))?
    }
}

impl SmcConnection {
    /// Moves to the route given to [`Member::migrate`], if no chain is in flight.
    /// Context: may sleep.
    pub(crate) fn move_if_idle(self: &Arc<Self>) {
        let old = self.update(|data, _| {
            if !data.may_move() {
                return None;
            }
            let binding = data.binding.as_mut()?;
            let next = binding.next.take()?;
            data.core.handle_link_switched();
            match next {
                Next::Route(route) => Some(replace(&mut binding.route, route)),
                Next::Stay => None,
            }
        });
        drop(old);
        self.copy_recalled();
    }

    /// After a move: copies pages lent to the old link into the send buffer, so that the new link
    /// can send them. Context: may sleep.
    fn copy_recalled(self: &Arc<Self>) {
        loop {
            let found = self.look(|data| {
                let part = data.core.poll_recall()?;
                let lent = data.lent_pages.get(part.place)?.clone();
                Some((part, lent, data.binding.as_ref()?.sendbuf.clone()))
            });
            let Some((part, lent, buffer)) = found.flatten() else {
                return;
            };
            if copy(&lent, part.skip, &buffer, &part.to).is_err() {
                // Cannot be: the part and its place in the ring have the same size.
                pr_err!("lent memory does not fit its place in the send ring\n");
                let _ = self.update(|data, now| data.core.abort(now));
                return;
            }
            let _ = self.update(|data, _| data.core.handle_copied(&part));
        }
    }
}
