// SPDX-License-Identifier: GPL-2.0

//! Performs the actions of a link group in the simulation of whole stacks, which has one link.

use super::{
    super::host::{
        Done,
        Host as Stack,
        Packet,
        ELEMENTS, //
    },
    World, //
};
use crate::proto::{
    base::time::Instant,
    smc::{
        clc::LlcOutcome,
        llc::{
            action::{
                Cause,
                Fail,
                LlcKind, //
            },
            driver::{
                Host,
                HostAnswer, //
            },
            rtoken::Entry,
            Group,
            LinkOffer,
            LinkSlot,
            PeerOffer,
            RmbId, //
        },
    },
    stream::reason::Reason, //
};

/// The engine of one side.
pub(super) struct Engine<'a> {
    pub(super) world: &'a mut World,
    pub(super) side: usize,
}

impl Engine<'_> {
    fn stack(&mut self) -> &mut Stack {
        &mut self.world.hosts[self.side]
    }
}

impl Host for Engine<'_> {
    type Rows = Vec<Entry>;

    fn group(&mut self) -> Option<&mut Group<Vec<Entry>>> {
        self.stack().group.as_mut()
    }

    fn now(&self) -> Instant {
        self.world.now
    }

    fn send(&mut self, _: LinkSlot, kind: LlcKind, msg: &[u8; 44]) -> bool {
        let packet = Packet::Send(*msg, Done::Llc(kind));
        self.stack().out.push_back(packet);
        true
    }

    fn send_long(&mut self, _: LinkSlot, _: LlcKind) -> bool {
        unreachable!("there is one link")
    }

    fn move_to_rts(&mut self, _: LinkSlot) -> HostAnswer<Result<(), Reason>> {
        self.stack().rts = true;
        None
    }

    fn connect_link(&mut self, _: LinkSlot, _: &PeerOffer) -> HostAnswer<Result<(), Reason>> {
        unreachable!("there is one link")
    }

    // One port on each side: there is no other link.
    fn offer_link(&mut self, _: LinkSlot, _: bool) -> HostAnswer<Option<LinkOffer>> {
        Some(None)
    }

    fn accept_link(
        &mut self,
        _: LinkSlot,
        _: &PeerOffer,
        _: bool,
    ) -> HostAnswer<Option<LinkOffer>> {
        Some(None)
    }

    fn link_up(&mut self, _: LinkSlot) {
        unreachable!("there is one link")
    }

    fn drop_link(&mut self, _: LinkSlot) {
        unreachable!("there is one link")
    }

    fn link_down(&mut self, _: LinkSlot, _: Cause) {}

    fn move_connections(&mut self, _: LinkSlot, _: bool) {
        unreachable!("there is one link")
    }

    fn suggest_link(&mut self) {}

    fn ready(&mut self) {
        let now = self.now();
        self.stack().ready = true;
        self.stack().tell_llc(now, LlcOutcome::Ready);
    }

    fn first_contact_failed(&mut self, fail: Fail) {
        let now = self.now();
        let outcome = match fail {
            Fail::Decline(reason) => LlcOutcome::Decline(reason),
            Fail::Abort(reason) => LlcOutcome::Abort(reason),
        };
        self.stack().tell_llc(now, outcome);
        self.stack().over = true;
    }

    fn rkey_confirmed(&mut self, RmbId(rmb): RmbId) {
        let rmb = usize::from(rmb);
        self.stack().rmbs[rmb].usable = true;
        for c in 0..self.stack().ends.len() {
            if self.stack().ends[c].awaits_rmb == Some(rmb) {
                self.world.prepared(self.side, c);
            }
        }
    }

    fn rkey_rejected(&mut self, _: RmbId) {
        panic!("the peer has room");
    }

    fn rkey_deleted(&mut self, RmbId(rmb): RmbId) {
        let rmb = &self.stack().rmbs[usize::from(rmb)];
        assert!(rmb.deleting && rmb.used == [false; ELEMENTS]);
    }

    fn terminate(&mut self, _: Cause) {
        let now = self.now();
        self.stack().over = true;
        self.stack().ready = false;
        for c in 0..self.stack().ends.len() {
            let end = &mut self.stack().ends[c];
            if end.awaits_rmb.take().is_some() {
                end.machine.handle_prepared(now, Err(Reason::NoActiveLink));
            }
            if let Some(conn) = end.conn.as_mut() {
                conn.handle_link_lost();
                self.world.note(self.side, c);
            }
        }
    }
}
