// SPDX-License-Identifier: GPL-2.0

//! Adding a link, the client's part, RFC 7609, sections 3.5.1.6.1 and 3.5.5.1.2.

use core::ops::DerefMut;

use super::{
    action::{
        Cause,
        LlcAction,
        LlcKind,
        Role, //
    },
    add::{
        refusal,
        AddStage,
        Adding,
        LinkOffer,
        PeerOffer, //
    },
    add_link::AddLink,
    group::Group,
    link::{
        LinkSlot,
        Port, //
    },
    msg::LlcBody,
    phase::LinkPhase,
    request_add_link::{
        RequestAddLink,
        MAX_GIDS, //
    },
    rtoken::Entry,
    shape::Shape, //
};
use crate::proto::{
    base::{
        time::Instant,
        verbs::{
            Psn,
            Qpn, //
        },
    },
    smc::wire::LinkNum, //
};

/// Ports without a link, which the client must announce to the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct AcceptNotice {
    ports: [Option<Port>; MAX_GIDS],
}

impl<S: DerefMut<Target = [Entry]>> Group<S> {
    /// Takes in that there are local ports which no link uses. A server adds a link if that is of
    /// use, a client asks for one (LLF-20, LLF-24, TMR-30).
    pub(crate) fn request_link(&mut self, now: Instant, ports: &[Port]) {
        match self.role {
            Role::Server => self.attempts.wanted |= !ports.is_empty(),
            Role::Client if ports.is_empty() => {}
            Role::Client => {
                let mut notice = AcceptNotice {
                    ports: [None; MAX_GIDS],
                };
                for (place, port) in notice.ports.iter_mut().zip(ports) {
                    *place = Some(*port);
                }
                self.attempts.announce(notice);
            }
        }
        self.advance(now);
    }

    /// Client: asks for a link if that is due (LLF-24, LLF-26). No answer is waited for (LLF-27).
    pub(super) fn send_notice(&mut self) {
        let (Some(notice), Some(carrier)) = (self.attempts.take_notice(), self.active_slot())
        else {
            return;
        };
        if !self.may_add() {
            return;
        }
        let mut ports = notice.ports.iter().flatten();
        if self.layout.is_v2() {
            let request = RequestAddLink::request(ports.map(|port| port.gid));
            return self.send_long(carrier, LlcBody::RequestAddLink(request), LlcKind::Notice);
        }
        let Some(port) = ports.next() else {
            return;
        };
        // AMB-42.
        let request = AddLink {
            reply: false,
            refusal: None,
            mac: port.mac,
            gid: port.gid,
            qpn: Qpn::new(0),
            number: LinkNum::new(0),
            mtu: None,
            psn: Psn::new(0),
        };
        self.send(carrier, &LlcBody::AddLink(request), LlcKind::Notice);
    }

    /// ADD LINK arrived.
    pub(super) fn on_add_link(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        message: &AddLink,
        octets: &[u8],
    ) {
        match (self.role, message.reply) {
            (Role::Client, false) => self.on_add_link_request(now, slot, message, octets),
            (Role::Server, false) => self.on_link_request(slot, false),
            (Role::Server, true) => self.on_add_link_reply(now, slot, message, octets),
            (Role::Client, true) => self.fail(now, slot, Cause::Unexpected("ADD LINK")),
        }
    }

    /// The server wants another link.
    fn on_add_link_request(
        &mut self,
        now: Instant,
        carrier: LinkSlot,
        message: &AddLink,
        octets: &[u8],
    ) {
        if self.attempts.adding.is_some() {
            // The server knows that the attempt before is over.
            self.give_up(now);
        }
        if matches!(self.phase, LinkPhase::AwaitAdd { .. }) {
            self.phase = LinkPhase::Second;
        }
        // COL-32: it goes ahead of what this side has asked for.
        self.attempts.cancel_retry();
        let wanted = PeerOffer::of(message).filter(|_| {
            self.has_room() && self.slot_of(message.number).is_none() && !self.is_ending()
        });
        let (Some(wanted), Some(slot)) = (wanted, self.free_slot()) else {
            return self.refuse(carrier, message);
        };
        let deadline = now.saturating_add(self.stage_time(AddStage::Keys));
        self.set_adding(slot, carrier, deadline);
        if let Some(adding) = &mut self.attempts.adding {
            adding.number = message.number;
            adding.wanted = Some(wanted);
        }
        if self.layout.is_v2() {
            self.learn_pairs(carrier, slot, octets);
        }
        // LLF-12 to LLF-14. A port of this side may carry another link if that makes the first
        // asymmetric link, or if the link makes two symmetric ones out of asymmetric ones.
        let links = self.active_links();
        let local = self.link(carrier).map(|link| link.local);
        let new_there = local.is_some_and(|local| !links.has_peer(self.ends(&local, &wanted.link)));
        let only_new = match links.shape() {
            Shape::None | Shape::Single | Shape::AsymmetricPeer => !new_there,
            _ => true,
        };
        self.act(LlcAction::AcceptLink {
            slot,
            peer: wanted,
            only_new,
        });
    }

    /// Refuses a link (LLF-16). FBK-12: in first contact the connection stays with RDMA.
    fn refuse(&mut self, carrier: LinkSlot, message: &AddLink) {
        if let Some(link) = self.link(carrier) {
            let reply = LlcBody::AddLink(refusal(message, &link.local));
            self.send(carrier, &reply, LlcKind::Reply);
        }
        if self.phase == LinkPhase::Second {
            self.become_ready();
        }
    }

    /// Takes in what the engine has made for the link the server wants, if anything (LLF-15).
    pub(crate) fn accept_link(&mut self, now: Instant, slot: LinkSlot, offer: Option<LinkOffer>) {
        if self.attempts.at(slot, AddStage::Asking).is_some() && self.role == Role::Client {
            self.accept_link_with(now, slot, offer);
        } else if offer.is_some() {
            // Too late.
            self.act(LlcAction::DropLink { slot });
        }
        self.advance(now);
    }

    /// Answers ADD LINK with what the engine has made.
    pub(super) fn accept_link_with(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        offer: Option<LinkOffer>,
    ) {
        let Some(Adding {
            carrier,
            number,
            wanted: Some(wanted),
            ..
        }) = self.attempts.adding
        else {
            return;
        };
        let accepted = offer.filter(|offer| {
            self.fits(slot, &offer.local, &wanted.link) && self.enter_link(slot, offer, wanted.link)
        });
        if offer.is_some() && accepted.is_none() {
            self.act(LlcAction::DropLink { slot });
        }
        let Some(offer) = accepted else {
            self.rtokens.forget_link(slot);
            self.attempts.adding = None;
            return self.refuse(
                carrier,
                &AddLink {
                    reply: false,
                    refusal: None,
                    mac: wanted.link.mac,
                    gid: wanted.link.gid,
                    qpn: wanted.link.qpn,
                    number,
                    mtu: Some(wanted.mtu),
                    psn: wanted.psn,
                },
            );
        };
        let listed = self.own.list(carrier, slot);
        if let Some(adding) = &mut self.attempts.adding {
            adding.left = listed;
        }
        let reply = AddLink {
            reply: true,
            refusal: None,
            mac: offer.local.mac,
            gid: offer.local.gid,
            qpn: offer.local.qpn,
            number,
            mtu: Some(offer.mtu),
            psn: offer.psn,
        };
        self.send_add_link(carrier, reply, LlcKind::Reply);
        if self.layout.is_v2() {
            self.confirm_added(now);
        } else {
            self.set_stage(now, AddStage::Keys);
        }
    }
}
