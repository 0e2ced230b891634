// SPDX-License-Identifier: GPL-2.0

//! Two link groups, their engines, and the wire between them.

use std::collections::VecDeque;

use crate::proto::{
    base::{
        time::Instant,
        verbs::{
            Gid,
            Mac,
            Mtu,
            Psn,
            Qpn,
            RKey, //
        },
    },
    smc::{
        llc::{
            action::{
                Cause,
                Fail,
                LlcAction,
                LlcKind,
                RmbId,
                Role, //
            },
            add::{
                LinkOffer,
                PeerOffer, //
            },
            driver::{
                drive,
                Host,
                HostAnswer, //
            },
            group::{
                Group,
                GroupConfig,
                GroupTimers, //
            },
            link::{
                LinkSlot,
                LocalLink,
                PeerLink,
                Port, //
            },
            msg::Layout,
            rtoken::Entry,
            testing::{
                after,
                START, //
            },
        },
        wire::{
            LinkNum,
            RToken, //
        },
    },
    stream::reason::Reason, //
};

/// Whether a message of a side, by opcode and whether it is a reply, is meant.
pub(super) type Filter = fn(usize, u8, bool) -> bool;

pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;
/// Octet 0 of the messages.
pub(super) const CONFIRM: u8 = 1;
pub(super) const ADD: u8 = 2;
pub(super) const CONT: u8 = 3;
pub(super) const DELETE: u8 = 4;
pub(super) const RKEY: u8 = 6;
pub(super) const RKEY_CONT: u8 = 8;

/// A queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) slot: LinkSlot,
    pub(super) port: u8,
    pub(super) qpn: u32,
    pub(super) peer: Option<u32>,
}

/// One side with its engine.
pub(super) struct Side {
    pub(super) group: Group<Vec<Entry>>,
    pub(super) ends: Vec<End>,
    pub(super) ports: u8,
    /// A port that is gone for good.
    pub(super) dead: Option<u8>,
    pub(super) qpn: u32,
    pub(super) rmbs: Vec<u16>,
    /// What was asked for, besides messages.
    pub(super) done: Vec<LlcAction>,
}

/// What a message was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) from: usize,
    pub(super) slot: LinkSlot,
    pub(super) kind: u8,
    pub(super) reply: bool,
    pub(super) octets: [u8; 44],
}

/// Both sides and the wire.
pub(super) struct Pair {
    pub(super) sides: [Side; 2],
    pub(super) now: Instant,
    pub(super) wire: VecDeque<(usize, LinkSlot, [u8; 44], LlcKind)>,
    pub(super) seen: Vec<Seen>,
    /// Messages that reach the other's device and are not looked at: (from, octet 0, reply).
    pub(super) deaf: Filter,
    pub(super) layout: Layout,
}

pub(super) fn port(side: usize, number: u8) -> Port {
    let last = if side == CLIENT { 0x0b } else { 0x0a };
    Port {
        mac: Mac::new([2, 0, 0, 0, last, number]),
        gid: Gid::new([
            0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, number, last, 1,
        ]),
    }
}

pub(super) fn token(side: usize, rmb: u16, qpn: u32) -> RToken {
    let base = if side == CLIENT {
        0x1000_0000
    } else {
        0x2000_0000
    };
    RToken {
        rkey: RKey::new(base + (qpn << 12) + u32::from(rmb)),
        vaddr: u64::from(rmb + 1) << 20,
    }
}

impl Side {
    pub(super) fn end(&self, slot: LinkSlot) -> Option<End> {
        self.ends.iter().copied().find(|end| end.slot == slot)
    }

    pub(super) fn active(&self) -> usize {
        self.group.active().count()
    }

    pub(super) fn did(&self, wanted: impl Fn(&LlcAction) -> bool) -> bool {
        self.done.iter().any(wanted)
    }
}

impl Pair {
    /// Two sides before first contact, with numbers of ports and links for each.
    pub(super) fn new(ports: [u8; 2], max_links: [u8; 2], layout: Layout) -> Self {
        let sides = [CLIENT, SERVER].map(|side| {
            let (here, there) = (port(side, 0), port(1 - side, 0));
            let qpn = 0x10 + side as u32;
            let config = GroupConfig {
                role: if side == CLIENT {
                    Role::Client
                } else {
                    Role::Server
                },
                local: LocalLink {
                    mac: here.mac,
                    gid: here.gid,
                    qpn: Qpn::new(qpn),
                    uid: qpn,
                },
                peer: PeerLink {
                    mac: there.mac,
                    gid: there.gid,
                    qpn: Qpn::new(0x11 - side as u32),
                },
                number: LinkNum::new(1),
                max_links: max_links[side],
                max_conns: 0,
                direct: true,
                layout,
                timers: GroupTimers::default(),
            };
            let rows = || vec![Entry::EMPTY; 16];
            let mut group = Group::new(&config, rows(), rows());
            assert_eq!(
                group.own_rmb(RmbId(0), LinkSlot::FIRST, token(side, 0, qpn)),
                Ok(())
            );
            let theirs = token(1 - side, 0, 0x11 - side as u32);
            assert!(group.peer_rmb(LinkSlot::FIRST, theirs).is_ok());
            Side {
                group,
                ends: vec![End {
                    slot: LinkSlot::FIRST,
                    port: 0,
                    qpn,
                    peer: Some(0x11 - side as u32),
                }],
                ports: ports[side],
                dead: None,
                qpn: 0x20 + side as u32,
                rmbs: vec![0],
                done: Vec::new(),
            }
        });
        Self {
            sides,
            now: START,
            wire: VecDeque::new(),
            seen: Vec::new(),
            deaf: |_, _, _| false,
            layout,
        }
    }

    /// First contact is over.
    pub(super) fn ready(ports: [u8; 2], max_links: [u8; 2]) -> Self {
        let mut pair = Self::new(ports, max_links, Layout::Linux);
        pair.start();
        pair.settle();
        for side in &pair.sides {
            assert!(side.did(|action| *action == LlcAction::Ready));
            assert!(side.group.is_ready());
        }
        pair
    }

    pub(super) fn start(&mut self) {
        for side in [SERVER, CLIENT] {
            self.input(side, |group, now| group.start(now));
        }
    }

    /// One input and all that follows on that side.
    pub(super) fn input(
        &mut self,
        side: usize,
        feed: impl FnOnce(&mut Group<Vec<Entry>>, Instant),
    ) {
        feed(&mut self.sides[side].group, self.now);
        self.drain(side);
    }

    fn drain(&mut self, side: usize) {
        drive(&mut Engine { pair: self, side });
    }

    /// The engine makes an end on a port without a link, else on one that has one.
    fn make(
        &mut self,
        side: usize,
        slot: LinkSlot,
        peer: Option<u32>,
        only_new: bool,
    ) -> Option<LinkOffer> {
        let it = &mut self.sides[side];
        let free = |port: &u8| it.ends.iter().all(|end| end.port != *port);
        let unused = (0..it.ports).find(|port| it.dead != Some(*port) && free(port));
        let used = it.ends.first().map(|end| end.port).filter(|_| !only_new);
        let number = unused.or(used)?;
        let qpn = it.qpn;
        it.qpn += 2;
        it.ends.push(End {
            slot,
            port: number,
            qpn,
            peer,
        });
        for rmb in it.rmbs.clone() {
            it.group.set_token(RmbId(rmb), slot, token(side, rmb, qpn));
        }
        let port = port(side, number);
        Some(LinkOffer {
            local: LocalLink {
                mac: port.mac,
                gid: port.gid,
                qpn: Qpn::new(qpn),
                uid: qpn,
            },
            psn: Psn::new(qpn),
            mtu: Mtu::M1024,
        })
    }

    /// Carries messages until there are none.
    pub(super) fn settle(&mut self) {
        let mut steps = 0;
        while let Some((from, slot, octets, kind)) = self.wire.pop_front() {
            let to = 1 - from;
            let qpn = self.sides[from].end(slot).and_then(|end| end.peer);
            let there = self.sides[to]
                .ends
                .iter()
                .find(|end| Some(end.qpn) == qpn)
                .map(|end| end.slot);
            let Some(there) = there else {
                self.input(from, |group, now| group.handle_send_failed(now, slot, kind));
                continue;
            };
            if !(self.deaf)(from, octets[0], octets[3] & 0x80 != 0) {
                self.input(to, |group, now| group.handle_message(now, there, &octets));
            }
            self.input(from, |group, now| group.handle_sent(now, slot, kind));
            steps += 1;
            assert!(
                steps < 1_000,
                "the exchange does not end: {:?}",
                self.seen.last()
            );
        }
    }

    /// Carries the one message that waits, and leaves what it causes.
    pub(super) fn settle_one(&mut self) {
        if let Some((from, slot, octets, kind)) = self.wire.pop_front() {
            let qpn = self.sides[from].end(slot).and_then(|end| end.peer);
            let to = 1 - from;
            let there = self.sides[to].ends.iter().find(|end| Some(end.qpn) == qpn);
            if let Some(there) = there.map(|end| end.slot) {
                self.input(to, |group, now| group.handle_message(now, there, &octets));
            }
            self.input(from, |group, now| group.handle_sent(now, slot, kind));
        }
    }

    /// Lets time pass, with all timers in it.
    pub(super) fn pass(&mut self, secs: u64) {
        let end = self.now.saturating_add(after(secs).saturating_since(START));
        for _ in 0..1_000 {
            self.settle();
            let next = self
                .sides
                .iter()
                .filter_map(|side| side.group.poll_timeout());
            let Some(next) = next.min().filter(|at| *at <= end) else {
                self.now = end;
                return;
            };
            self.now = core::cmp::max(self.now, next);
            for side in [CLIENT, SERVER] {
                if self.sides[side]
                    .group
                    .poll_timeout()
                    .is_some_and(|at| at <= self.now)
                {
                    self.input(side, |group, now| group.handle_timeout(now));
                }
            }
        }
        panic!("the timers do not come to rest");
    }

    /// The ports of the first link become unusable.
    pub(super) fn lose_first_ports(&mut self) {
        for side in &mut self.sides {
            side.dead = Some(0);
        }
    }

    /// Another port of a side, of which its engine tells.
    pub(super) fn add_port(&mut self, side: usize) {
        let number = self.sides[side].ports;
        self.sides[side].ports += 1;
        self.input(side, |group, now| {
            group.request_link(now, &[port(side, number)])
        });
        self.settle();
    }

    /// Another buffer of a side, made known to the peer.
    pub(super) fn add_rmb(&mut self, side: usize) {
        let rmb = self.sides[side].rmbs.len() as u16;
        let ends = self.sides[side].ends.clone();
        let tokens: Vec<_> = ends
            .iter()
            .map(|end| (end.slot, token(side, rmb, end.qpn)))
            .collect();
        self.sides[side].rmbs.push(rmb);
        self.input(side, |group, now| {
            assert_eq!(group.confirm_rkey(now, RmbId(rmb), &tokens), Ok(()));
        });
        self.settle();
        let confirmed = |action: &LlcAction| *action == LlcAction::RkeyConfirmed(RmbId(rmb));
        assert!(self.sides[side].did(confirmed));
    }

    /// What was said since a moment, as (from, octet 0, reply).
    pub(super) fn said(&self, since: usize) -> Vec<(usize, u8, bool)> {
        let seen = self.seen[since..].iter();
        seen.map(|seen| (seen.from, seen.kind, seen.reply))
            .collect()
    }

    /// Both know all buffers of each other on all links.
    pub(super) fn all_known(&mut self) {
        for side in [CLIENT, SERVER] {
            for end in self.sides[side].ends.clone() {
                let there = self.sides[1 - side]
                    .ends
                    .iter()
                    .find(|other| Some(other.qpn) == end.peer)
                    .map(|other| other.slot)
                    .expect("the link has two ends");
                for rmb in self.sides[side].rmbs.clone() {
                    let wanted = token(side, rmb, end.qpn);
                    let other = &mut self.sides[1 - side].group;
                    let id = other.rtokens.find(there, wanted.rkey).expect("it is known");
                    assert_eq!(other.peer_token(id, there), Some(wanted));
                }
            }
        }
    }
}

/// The engine of one side, which answers at once.
struct Engine<'a> {
    pair: &'a mut Pair,
    side: usize,
}

impl Engine<'_> {
    fn side(&mut self) -> &mut Side {
        &mut self.pair.sides[self.side]
    }
}

impl Host for Engine<'_> {
    type Rows = Vec<Entry>;

    fn group(&mut self) -> Option<&mut Group<Vec<Entry>>> {
        Some(&mut self.side().group)
    }

    fn now(&self) -> Instant {
        self.pair.now
    }

    fn observe(&mut self, action: &LlcAction) {
        if !matches!(action, LlcAction::Send { .. }) {
            self.side().done.push(*action);
        }
    }

    fn send(&mut self, slot: LinkSlot, kind: LlcKind, msg: &[u8; 44]) -> bool {
        self.pair.seen.push(Seen {
            from: self.side,
            slot,
            kind: msg[0],
            reply: msg[3] & 0x80 != 0,
            octets: *msg,
        });
        self.pair.wire.push_back((self.side, slot, *msg, kind));
        true
    }

    fn send_long(&mut self, _: LinkSlot, _: LlcKind) -> bool {
        panic!("no scenario is of SMC-Rv2");
    }

    fn move_to_rts(&mut self, _: LinkSlot) -> HostAnswer<Result<(), Reason>> {
        Some(Ok(()))
    }

    fn connect_link(&mut self, slot: LinkSlot, peer: &PeerOffer) -> HostAnswer<Result<(), Reason>> {
        let ends = self.side().ends.iter_mut();
        ends.filter(|end| end.slot == slot)
            .for_each(|end| end.peer = Some(peer.link.qpn.get()));
        Some(Ok(()))
    }

    fn offer_link(&mut self, slot: LinkSlot, only_new: bool) -> HostAnswer<Option<LinkOffer>> {
        Some(self.pair.make(self.side, slot, None, only_new))
    }

    fn accept_link(
        &mut self,
        slot: LinkSlot,
        peer: &PeerOffer,
        only_new: bool,
    ) -> HostAnswer<Option<LinkOffer>> {
        let peer = Some(peer.link.qpn.get());
        Some(self.pair.make(self.side, slot, peer, only_new))
    }

    fn link_up(&mut self, _: LinkSlot) {}

    fn drop_link(&mut self, slot: LinkSlot) {
        self.side().ends.retain(|end| end.slot != slot);
    }

    fn link_down(&mut self, slot: LinkSlot, _: Cause) {
        self.drop_link(slot);
    }

    fn move_connections(&mut self, _: LinkSlot, _: bool) {}
    fn suggest_link(&mut self) {}
    fn ready(&mut self) {}
    fn first_contact_failed(&mut self, _: Fail) {}
    fn rkey_confirmed(&mut self, _: RmbId) {}
    fn rkey_rejected(&mut self, _: RmbId) {}
    fn rkey_deleted(&mut self, _: RmbId) {}
    fn terminate(&mut self, _: Cause) {}
}
