// SPDX-License-Identifier: GPL-2.0

//! Performs the actions of one side of the simulation, and checks that the side may ask for them.

use super::{
    engine::{
        Known,
        Outcome,
        Peer, //
    },
    fabric::{
        End,
        QpStage, //
    },
    Event,
    World,
    CLIENT, //
};
use crate::proto::{
    base::time::Instant,
    smc::llc::{
        action::{
            Cause,
            Fail,
            LlcAction,
            LlcKind,
            RmbId, //
        },
        add::{
            LinkOffer,
            PeerOffer, //
        },
        driver::{
            Host,
            HostAnswer, //
        },
        group::Group,
        link::LinkSlot,
        rtoken::Entry,
        shape::Shape,
        LONG_BYTES, //
    },
    stream::reason::Reason, //
};

/// The engine of one side. All its answers are late.
pub(super) struct Engine<'a> {
    pub(super) world: &'a mut World,
    pub(super) side: usize,
}

impl Engine<'_> {
    fn peer(&mut self) -> &mut Peer {
        &mut self.world.peers[self.side]
    }

    fn end(&mut self, slot: LinkSlot) -> &mut End {
        self.peer().device.at(slot).expect("the link is there")
    }

    fn finish(&mut self, before: Outcome, after: Outcome) {
        let peer = self.peer();
        assert_eq!(peer.outcome, before);
        peer.outcome = after;
        peer.device.ends.clear();
    }
}

impl Host for Engine<'_> {
    type Rows = Vec<Entry>;

    fn group(&mut self) -> Option<&mut Group<Vec<Entry>>> {
        Some(&mut self.peer().group)
    }

    fn now(&self) -> Instant {
        self.world.now
    }

    fn observe(&mut self, action: &LlcAction) {
        let side = self.side;
        assert!(
            matches!(self.peer().outcome, Outcome::Open | Outcome::Ready),
            "{action:?} follows the last action"
        );
        self.world.trace(format_args!("side {side}: {action:?}"));
    }

    fn send(&mut self, slot: LinkSlot, kind: LlcKind, msg: &[u8; 44]) -> bool {
        self.world.post(self.side, slot, msg.to_vec(), kind);
        true
    }

    fn send_long(&mut self, slot: LinkSlot, kind: LlcKind) -> bool {
        assert!(self.world.layout.is_v2());
        let mut buf = vec![0xff; LONG_BYTES];
        let len = self.peer().group.write_long(&mut buf);
        buf.truncate(len.expect("it fits"));
        self.world.post(self.side, slot, buf, kind);
        true
    }

    fn move_to_rts(&mut self, slot: LinkSlot) -> HostAnswer<Result<(), Reason>> {
        assert_eq!(self.side, CLIENT);
        let world = &mut *self.world;
        let delay = world.random.span(world.latency);
        let good = !world.random.percent(2);
        world.disturbed |= !good && slot == LinkSlot::FIRST;
        world.at(delay, Event::Rts(self.side, slot, good));
        None
    }

    fn connect_link(&mut self, slot: LinkSlot, peer: &PeerOffer) -> HostAnswer<Result<(), Reason>> {
        assert_ne!(self.side, CLIENT);
        let end = self.end(slot);
        end.peer = Some(peer.link.qpn.get());
        end.stage = QpStage::Receives;
        let world = &mut *self.world;
        let delay = world.random.span(world.latency);
        let good = !world.random.percent(4);
        world.at(delay, Event::Rts(self.side, slot, good));
        None
    }

    fn offer_link(&mut self, slot: LinkSlot, only_new: bool) -> HostAnswer<Option<LinkOffer>> {
        assert_ne!(self.side, CLIENT);
        self.world.ask(self.side, slot, None, only_new);
        None
    }

    fn accept_link(
        &mut self,
        slot: LinkSlot,
        peer: &PeerOffer,
        only_new: bool,
    ) -> HostAnswer<Option<LinkOffer>> {
        assert_eq!(self.side, CLIENT);
        self.world.ask(self.side, slot, Some(*peer), only_new);
        None
    }

    fn link_up(&mut self, slot: LinkSlot) {
        let kind = self.peer().group.kind();
        if kind != Shape::Symmetric && kind != Shape::Single {
            self.world.note("asymmetric");
        }
        self.world.note("link up");
        let end = self.end(slot);
        assert!(!end.up && !end.left);
        end.up = true;
        // Some connections go there.
        let World { random, peers, .. } = &mut *self.world;
        let peer = &mut peers[self.side];
        for connection in &mut peer.connections {
            if random.percent(50) && peer.group.is_active(slot) {
                *connection = slot;
            }
        }
    }

    fn drop_link(&mut self, slot: LinkSlot) {
        let end = self.peer().device.free(slot);
        assert!(!end.expect("there is something to free").up);
    }

    fn link_down(&mut self, slot: LinkSlot, _: Cause) {
        let peer = self.peer();
        let end = peer.device.free(slot);
        assert!(end.expect("there is something to free").up);
        assert!(
            peer.group.is_over() || !peer.connections.contains(&slot),
            "connections are left"
        );
    }

    fn move_connections(&mut self, from: LinkSlot, orderly: bool) {
        self.world
            .note(if orderly { "moved orderly" } else { "moved" });
        let end = self.end(from);
        assert!(end.up && !end.left);
        end.left = true;
        let World { random, peers, .. } = &mut *self.world;
        let peer = &mut peers[self.side];
        let active: Vec<_> = peer.group.active().collect();
        for connection in &mut peer.connections {
            if *connection == from {
                *connection = random.pick(&active).expect("there is a link to go to");
            }
        }
    }

    fn suggest_link(&mut self) {
        assert_eq!(self.side, CLIENT);
        self.world.note("suggested");
        self.world.request_link(self.side);
    }

    fn ready(&mut self) {
        let peer = self.peer();
        assert_eq!(peer.outcome, Outcome::Open);
        peer.outcome = Outcome::Ready;
        peer.was_ready = true;
        peer.connections = vec![LinkSlot::FIRST; 3];
        if let Some(end) = peer.device.at(LinkSlot::FIRST) {
            end.up = true;
        }
    }

    fn first_contact_failed(&mut self, fail: Fail) {
        let after = match fail {
            Fail::Decline(_) => Outcome::Declined,
            Fail::Abort(_) => Outcome::Aborted,
        };
        self.finish(Outcome::Open, after);
    }

    fn rkey_confirmed(&mut self, RmbId(rmb): RmbId) {
        let before = self.peer().rmbs.insert(rmb, Known::Confirmed);
        assert_eq!(before, Some(Known::Confirming));
        self.world.check_known(self.side, rmb, false);
    }

    fn rkey_rejected(&mut self, RmbId(rmb): RmbId) {
        assert_eq!(self.peer().rmbs.remove(&rmb), Some(Known::Confirming));
    }

    fn rkey_deleted(&mut self, RmbId(rmb): RmbId) {
        assert_eq!(self.peer().rmbs.remove(&rmb), Some(Known::Deleting));
    }

    fn terminate(&mut self, _: Cause) {
        self.finish(Outcome::Ready, Outcome::Terminated);
    }
}
