// SPDX-License-Identifier: GPL-2.0

//! Two link groups that talk to each other while both want things, links break and time passes, in
//! any order: nothing follows the last action of a side, both come to rest, and if nothing broke they
//! agree on their links and know all buffers of each other.

use std::collections::VecDeque;

use super::input::Input;
use crate::proto::{
    base::{
        time::{
            Duration,
            Instant, //
        },
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
                LlcAction, //
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
            rtoken::Entry,
            DeleteReason,
            Layout,
            LinkOffer,
            LlcKind,
            PeerOffer,
            RmbId,
            Role, //
        },
        wire::{
            LinkNum,
            RToken, //
        },
    },
    stream::reason::Reason, //
};

const CLIENT: usize = 0;
const SERVER: usize = 1;
/// Most buffers of a side.
const RMBS: u16 = 12;
/// More rounds than any exchange needs that comes to an end.
const ROUNDS: usize = 2000;

/// A queue pair.
#[derive(Clone, Copy)]
struct End {
    slot: LinkSlot,
    port: u8,
    qpn: u32,
    peer: Option<u32>,
    dead: bool,
}

/// One side with its engine.
struct Side {
    /// The core.
    group: Group<Vec<Entry>>,
    /// The queue pairs.
    ends: Vec<End>,
    /// Number of ports.
    ports: u8,
    /// Number of the next queue pair.
    next_qpn: u32,
    /// Numbers of its buffers.
    rmbs: Vec<u16>,
    /// The core has ended the group.
    over: bool,
}

/// A message in flight.
struct Post {
    from: usize,
    qpn: u32,
    slot: LinkSlot,
    octets: [u8; 44],
    kind: LlcKind,
}

/// Both sides, and what is between them.
struct World {
    sides: [Side; 2],
    now: Instant,
    wire: VecDeque<Post>,
    /// Something happened that two sides need not survive.
    disturbed: bool,
}

/// The port of a side.
fn port(side: usize, number: u8) -> Port {
    let host = u8::from(side == SERVER);
    let mut gid = [3; 16];
    gid[14..].copy_from_slice(&[host, number]);
    Port {
        mac: Mac::new([2, 2, 2, 2, host, number]),
        gid: Gid::new(gid),
    }
}

/// Where a buffer lies on a link.
fn token(side: usize, rmb: u16, qpn: u32) -> RToken {
    let base = if side == CLIENT {
        0x1000_0000
    } else {
        0x2000_0000
    };
    RToken {
        rkey: RKey::new(base + (qpn << 8) + u32::from(rmb)),
        vaddr: u64::from(rmb) << 20,
    }
}

/// The local half of a link.
fn local(side: usize, number: u8, qpn: u32) -> LocalLink {
    let Port { mac, gid } = port(side, number);
    LocalLink {
        mac,
        gid,
        qpn: Qpn::new(qpn),
        uid: qpn,
    }
}

/// The engine of one side, which answers at once.
struct Engine<'a> {
    world: &'a mut World,
    side: usize,
}

impl Engine<'_> {
    fn side(&mut self) -> &mut Side {
        &mut self.world.sides[self.side]
    }

    fn end(&mut self, slot: LinkSlot) -> &mut End {
        let end = self.side().ends.iter_mut().find(|end| end.slot == slot);
        end.expect("a link that is there")
    }
}

impl Host for Engine<'_> {
    type Rows = Vec<Entry>;

    fn group(&mut self) -> Option<&mut Group<Vec<Entry>>> {
        Some(&mut self.side().group)
    }

    fn now(&self) -> Instant {
        self.world.now
    }

    fn observe(&mut self, action: &LlcAction) {
        assert!(!self.side().over, "{action:?} follows the end");
    }

    fn send(&mut self, slot: LinkSlot, kind: LlcKind, msg: &[u8; 44]) -> bool {
        let qpn = self.end(slot).qpn;
        self.world.wire.push_back(Post {
            from: self.side,
            qpn,
            slot,
            octets: *msg,
            kind,
        });
        true
    }

    fn send_long(&mut self, _: LinkSlot, _: LlcKind) -> bool {
        panic!("both sides speak version 1");
    }

    fn move_to_rts(&mut self, _: LinkSlot) -> HostAnswer<Result<(), Reason>> {
        Some(Ok(()))
    }

    fn connect_link(&mut self, slot: LinkSlot, peer: &PeerOffer) -> HostAnswer<Result<(), Reason>> {
        self.end(slot).peer = Some(peer.link.qpn.get());
        Some(Ok(()))
    }

    fn offer_link(&mut self, slot: LinkSlot, only_new: bool) -> HostAnswer<Option<LinkOffer>> {
        let side = self.side;
        Some(self.side().make(side, slot, None, only_new))
    }

    fn accept_link(
        &mut self,
        slot: LinkSlot,
        peer: &PeerOffer,
        only_new: bool,
    ) -> HostAnswer<Option<LinkOffer>> {
        let (side, peer) = (self.side, Some(peer.link.qpn.get()));
        Some(self.side().make(side, slot, peer, only_new))
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

    fn first_contact_failed(&mut self, _: Fail) {
        self.side().over = true;
    }

    fn rkey_confirmed(&mut self, _: RmbId) {}

    fn rkey_rejected(&mut self, RmbId(id): RmbId) {
        self.side().rmbs.retain(|rmb| *rmb != id);
    }

    fn rkey_deleted(&mut self, id: RmbId) {
        self.rkey_rejected(id);
    }

    fn terminate(&mut self, _: Cause) {
        self.side().over = true;
    }
}

impl World {
    /// Two sides before first contact, with `ports` ports each.
    fn new(ports: [u8; 2], max_links: [u8; 2]) -> Self {
        let sides = [CLIENT, SERVER].map(|side| {
            let qpns = [0x10, 0x11];
            let (own, theirs) = (qpns[side], qpns[1 - side]);
            let Port { mac, gid } = port(1 - side, 0);
            let config = GroupConfig {
                role: [Role::Client, Role::Server][side],
                local: local(side, 0, own),
                peer: PeerLink {
                    mac,
                    gid,
                    qpn: Qpn::new(theirs),
                },
                number: LinkNum::new(1),
                max_links: max_links[side],
                max_conns: 0,
                direct: true,
                layout: Layout::Linux,
                timers: GroupTimers {
                    idle_test: Duration::ZERO,
                    add_retry: Duration::ZERO,
                    ..GroupTimers::default()
                },
            };
            let rows = || vec![Entry::EMPTY; 16];
            let mut group = Group::new(&config, rows(), rows());
            let known = group.own_rmb(RmbId(0), LinkSlot::FIRST, token(side, 0, own));
            assert_eq!(known, Ok(()));
            let known = group.peer_rmb(LinkSlot::FIRST, token(1 - side, 0, theirs));
            assert!(known.is_ok());
            Side {
                group,
                ends: vec![End {
                    slot: LinkSlot::FIRST,
                    port: 0,
                    qpn: own,
                    peer: Some(theirs),
                    dead: false,
                }],
                ports: ports[side],
                next_qpn: 0x20 + side as u32,
                rmbs: vec![0],
                over: false,
            }
        });
        Self {
            sides,
            now: Instant::from_nanos(1_000_000_000),
            wire: VecDeque::new(),
            disturbed: false,
        }
    }

    /// One input of a side, and all that it wants then.
    fn input(&mut self, side: usize, feed: impl FnOnce(&mut Group<Vec<Entry>>, Instant)) {
        feed(&mut self.sides[side].group, self.now);
        drive(&mut Engine { world: self, side });
    }

    /// Carries a message, of one of the links, to where it belongs.
    fn carry(&mut self, choice: usize) {
        // On a link they keep their order.
        let firsts: Vec<usize> = (0..self.wire.len())
            .filter(|at| {
                let this = &self.wire[*at];
                let mut before = self.wire.iter().take(*at);
                !before.any(|post| (post.from, post.qpn) == (this.from, this.qpn))
            })
            .collect();
        if firsts.is_empty() {
            return;
        }
        let post = self.wire.remove(firsts[choice % firsts.len()]);
        let Some(post) = post else { return };
        let (from, to) = (post.from, 1 - post.from);
        let sender = self.sides[from].ends.iter().find(|end| end.qpn == post.qpn);
        let there = sender.filter(|end| !end.dead).and_then(|end| {
            let mut ends = self.sides[to].ends.iter();
            ends.find(|other| Some(other.qpn) == end.peer && other.peer == Some(end.qpn))
        });
        match there.filter(|end| !end.dead).map(|end| end.slot) {
            Some(slot) => {
                self.input(to, |group, now| {
                    group.handle_message(now, slot, &post.octets)
                });
                self.input(from, |group, now| {
                    group.handle_sent(now, post.slot, post.kind)
                });
            }
            None => self.input(from, |group, now| {
                group.handle_send_failed(now, post.slot, post.kind);
            }),
        }
    }

    /// The next timer of either side goes off. Says whether there was one.
    fn expire(&mut self) -> bool {
        let timers = self
            .sides
            .iter()
            .filter_map(|side| side.group.poll_timeout());
        let Some(next) = timers.min() else {
            return false;
        };
        self.now = self.now.max(next);
        for side in [CLIENT, SERVER] {
            self.input(side, |group, now| group.handle_timeout(now));
        }
        true
    }

    /// A link dies. A side that does not notice finds out when it sends.
    fn kill(&mut self, side: usize, choice: u8) {
        let count = self.sides[side].ends.len();
        if count == 0 {
            return;
        }
        self.disturbed = true;
        let end = &mut self.sides[side].ends[usize::from(choice >> 2) % count];
        end.dead = true;
        let (slot, qpn, peer) = (end.slot, end.qpn, end.peer);
        let mut ends = self.sides[1 - side].ends.iter_mut();
        let other = ends.find(|end| Some(end.qpn) == peer && end.peer == Some(qpn));
        let other = other.map(|end| {
            end.dead = true;
            end.slot
        });
        if choice & 1 != 0 {
            self.input(side, |group, now| group.handle_link_down(now, slot));
        }
        if let (Some(slot), true) = (other, choice & 2 != 0) {
            self.input(1 - side, |group, now| group.handle_link_down(now, slot));
        }
    }

    /// The engine of a side wants something.
    fn command(&mut self, side: usize, input: &mut Input<'_>) {
        let now = self.now;
        match input.byte() % 8 {
            0..=2 => {
                let free = (0..RMBS).find(|rmb| !self.sides[side].rmbs.contains(rmb));
                let Some(rmb) = free else { return };
                let it = &mut self.sides[side];
                let tokens = it.ends.iter();
                let tokens: Vec<_> = tokens
                    .map(|end| (end.slot, token(side, rmb, end.qpn)))
                    .collect();
                let active = it.group.active().count();
                if active > 0 && it.group.confirm_rkey(now, RmbId(rmb), &tokens).is_ok() {
                    it.rmbs.push(rmb);
                }
                self.input(side, |_, _| ());
            }
            3 => {
                let count = self.sides[side].rmbs.len();
                if count > 1 {
                    let at = 1 + usize::from(input.byte()) % (count - 1);
                    let id = RmbId(self.sides[side].rmbs[at]);
                    self.input(side, |group, now| {
                        group.delete_rkey(now, id);
                    });
                }
            }
            4 => {
                let number = input.byte() % self.sides[side].ports;
                self.input(side, |group, now| {
                    group.request_link(now, &[port(side, number)]);
                });
            }
            5 => {
                let active: Vec<_> = self.sides[side].group.active().collect();
                let choice = input.byte();
                if active.len() > 1 {
                    let slot = active[usize::from(choice >> 1) % active.len()];
                    // Both may take away another one at the same time.
                    self.disturbed = true;
                    self.input(side, |group, now| {
                        let reason = DeleteReason::Operator;
                        group.delete_link(now, slot, reason, choice & 1 != 0);
                    });
                }
            }
            6 => {
                let active: Vec<_> = self.sides[side].group.active().collect();
                if let Some(slot) = active.last().copied() {
                    let data = input.array();
                    self.input(side, |group, now| group.test_link(now, slot, data));
                }
            }
            _ if input.byte() == 0 => {
                self.disturbed = true;
                self.input(side, |group, now| {
                    group.terminate(now, DeleteReason::Operator, true);
                });
            }
            _ => {}
        }
    }

    /// Everything that is under way comes to its end.
    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            if !self.wire.is_empty() {
                self.carry(0);
            } else if !self.expire() {
                return;
            }
        }
        panic!("they do not come to rest");
    }

    /// Both sides have the same links, and know the buffers of each other there.
    fn agree(&mut self) {
        for side in [CLIENT, SERVER] {
            assert!(
                self.sides[side].group.is_ready(),
                "first contact came to nothing"
            );
            let active: Vec<_> = self.sides[side].group.active().collect();
            assert_eq!(active.len(), self.sides[side].ends.len());
            assert_eq!(active.len(), self.sides[1 - side].ends.len());
            for end in self.sides[side].ends.clone() {
                let other = &mut self.sides[1 - side];
                let mut ends = other.ends.iter();
                let there = ends.find(|there| Some(there.qpn) == end.peer);
                let there = there.expect("the link has two ends").slot;
                for rmb in self.sides[side].rmbs.clone() {
                    let wanted = token(side, rmb, end.qpn);
                    let other = &mut self.sides[1 - side];
                    // One that is known by its key is the same on all links.
                    let id = other.group.peer_rmb(there, wanted).expect("there is room");
                    for (slot, place) in self.sides[side].places(rmb, side, &self.sides[1 - side]) {
                        let known = self.sides[1 - side].group.peer_token(id, slot);
                        assert_eq!(known, Some(place), "buffer {rmb}");
                    }
                }
            }
        }
    }
}

impl Side {
    /// Where a buffer lies on each link, by the other side's name of the link.
    fn places(&self, rmb: u16, side: usize, other: &Self) -> Vec<(LinkSlot, RToken)> {
        let ends = self.ends.iter().filter_map(|end| {
            let mut ends = other.ends.iter();
            let there = ends.find(|there| Some(there.qpn) == end.peer)?;
            Some((there.slot, token(side, rmb, end.qpn)))
        });
        ends.collect()
    }

    /// The engine makes an end on a port without a link, else on one that has one.
    fn make(
        &mut self,
        side: usize,
        slot: LinkSlot,
        peer: Option<u32>,
        only_new: bool,
    ) -> Option<LinkOffer> {
        let free = |number: &u8| self.ends.iter().all(|end| end.port != *number);
        let used = self.ends.first().map(|end| end.port);
        let number = (0..self.ports).find(free).or(used.filter(|_| !only_new))?;
        let qpn = self.next_qpn;
        self.next_qpn += 2;
        self.ends.push(End {
            slot,
            port: number,
            qpn,
            peer,
            dead: false,
        });
        for rmb in &self.rmbs {
            let place = token(side, *rmb, qpn);
            self.group.set_token(RmbId(*rmb), slot, place);
        }
        Some(LinkOffer {
            local: local(side, number, qpn),
            psn: Psn::new(qpn),
            mtu: Mtu::M1024,
        })
    }
}

/// Any sequence of events of two sides.
pub fn llc_pair(octets: &[u8]) {
    let mut input = Input::new(octets);
    let [shape, limits] = input.array();
    let ports = [1 + shape % 4, 1 + (shape >> 2) % 4];
    let max_links = [1 + limits % 8, 1 + (limits >> 3) % 8];
    let mut world = World::new(ports, max_links);
    for side in [SERVER, CLIENT] {
        world.input(side, |group, now| group.start(now));
    }
    while !input.is_empty() {
        let choice = input.byte();
        let side = usize::from(choice >> 7);
        match choice % 16 {
            0..=8 => world.carry(usize::from(choice >> 4)),
            9..=12 => world.command(side, &mut input),
            13 => {
                // A side that waits for a message in flight may time out.
                world.disturbed |= !world.wire.is_empty();
                let span = Duration::from_millis(u64::from(input.short()) >> 3);
                world.now = world.now.saturating_add(span);
                for side in [CLIENT, SERVER] {
                    world.input(side, |group, now| group.handle_timeout(now));
                }
            }
            14 if input.byte() % 4 == 0 => world.kill(side, input.byte()),
            15 => world.settle(),
            _ => {}
        }
    }
    world.settle();
    // Each side that has not noticed the death of a link does now.
    for side in [CLIENT, SERVER] {
        for end in world.sides[side].ends.clone() {
            if end.dead {
                world.input(side, |group, now| group.handle_link_down(now, end.slot));
            }
        }
    }
    world.settle();
    if !world.disturbed {
        world.agree();
    }
}
