// SPDX-License-Identifier: GPL-2.0

//! Every order of adverts, reads, refusals and cancels, searched exhaustively (R-2, R-7, the table
//! of cancels against everything).
//!
//! Buffers are posted and data is consumed at once, keys are invalidated as early as possible. What
//! remains is searched in every order: messages are sent, arrive, reads begin and complete, the
//! source cancels, the sink refuses, either side has another control message to send.

use super::*;
use crate::proto::sdp::msg::HalfMode;
use std::{
    collections::{
        HashMap,
        HashSet,
        VecDeque, //
    },
    hash::{
        Hash,
        Hasher, //
    },
};

const NOW: Instant = Instant::from_nanos(1);
const SIZE: u32 = 1024;

/// A message in flight.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Flight {
    octets: Vec<u8>,
    invalidate: Option<u32>,
}

/// One side.
#[derive(Clone)]
struct Side {
    conn: SdpConn,
    /// What it has sent and the other has not received.
    wire: VecDeque<Flight>,
    /// Reads that it has begun: STag and octets.
    reads: VecDeque<(u32, u32)>,
    /// Octets that it has received.
    got: u64,
    /// Keys that the other may use.
    keys: Vec<u32>,
    /// How often it may still cancel, refuse, send a control message, advertise again.
    cancels: u8,
    refusals: u8,
    controls: u8,
    rekeys: u8,
}

/// What a side does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Send,
    Receive,
    ReadDone,
    ReadAll,
    ReadOne,
    Cancel,
    Refuse,
    Control,
}

/// What must happen sooner or later.
const DUTIES: [Deed; 3] = [Deed::Send, Deed::Receive, Deed::ReadDone];
/// What may happen.
const CHOICES: [Deed; 5] = [
    Deed::ReadAll,
    Deed::ReadOne,
    Deed::Cancel,
    Deed::Refuse,
    Deed::Control,
];

/// A side, and what it does.
type Act = (usize, Deed);

#[derive(Clone)]
struct World {
    sides: [Side; 2],
}

/// Which rules of ours are followed by which side, and what may happen.
#[derive(Clone, Copy)]
struct Setting {
    bufs: u16,
    reserve: [bool; 2],
    spares: [bool; 2],
    /// Octets of the extents of each side.
    extents: [&'static [u32]; 2],
    mode: HalfMode,
    cancels: [u8; 2],
    refusals: [u8; 2],
    controls: [u8; 2],
    rekeys: u8,
}

impl Side {
    /// Does what costs nothing: posts, consumes, invalidates, gives memory back.
    fn settle(&mut self) {
        while let SinkItem::Octets { len, .. } = self.conn.next_received() {
            self.got += u64::from(len);
            let _ = self.conn.consumed(NOW, len);
        }
        let wanted = self.conn.wanted_buffers();
        self.conn.handle_posted(wanted);
        while let Some(place) = self.conn.poll_invalidate() {
            self.conn.handle_invalidated(place);
            // The key of an extent is that of its place, and of how often it had one.
            self.keys.retain(|key| key % 16 != place as u32);
            if self.rekeys > 0
                && self
                    .conn
                    .rekey(place, 16 * u32::from(self.rekeys) + place as u32)
            {
                self.rekeys -= 1;
            }
        }
        while self.conn.poll_release().is_some() {}
        self.conn.check();
    }

    /// Sends one message, if there is one.
    fn transmit(&mut self) -> bool {
        let Some(out) = self.conn.poll_transmit(NOW) else {
            return false;
        };
        let mut octets = out.header.as_slice().to_vec();
        let len = match out.payload {
            PayloadFrom::Nothing => 0,
            PayloadFrom::Ring([a, b]) => a.len + b.len,
            PayloadFrom::Lent { len, .. } => len,
        };
        octets.resize(octets.len() + len as usize, 0);
        if out.register.is_some() {
            let stag = u32::from_be_bytes(octets[20..24].try_into().unwrap());
            self.keys.push(stag);
        }
        self.wire.push_back(Flight {
            octets,
            invalidate: out.invalidate,
        });
        self.conn.handle_sent(NOW, out.token);
        self.settle();
        true
    }
}

impl World {
    fn new(setting: &Setting) -> Self {
        let side = |at: usize| {
            let terms = terms(SdpTransport::Annex, at, setting.bufs, SIZE);
            let config = SdpConfig {
                ring: 4096,
                wraps: true,
                most_buffer: 64 << 10,
                threshold: 2,
                nudges: 0,
                timers: ConnTimers::DEFAULT,
            };
            let mut conn = SdpConn::new(NOW, config, &terms);
            conn.break_rules(setting.reserve[at], setting.spares[at]);
            Side {
                conn,
                wire: VecDeque::new(),
                reads: VecDeque::new(),
                got: 0,
                keys: vec![],
                cancels: setting.cancels[at],
                refusals: setting.refusals[at],
                controls: setting.controls[at],
                rekeys: setting.rekeys,
            }
        };
        let mut world = Self {
            sides: [side(0), side(1)],
        };
        for (side, extents) in world.sides.iter_mut().zip(setting.extents) {
            if setting.mode == HalfMode::Pipelined && !extents.is_empty() {
                side.conn.want_mode(setting.mode);
                assert!(side.transmit());
            }
        }
        while world.deliver(0) || world.deliver(1) {}
        for (side, extents) in world.sides.iter_mut().zip(setting.extents) {
            for (place, len) in extents.iter().enumerate() {
                let lent = side.conn.lend(NOW, *len, 0, Some(place as u32));
                assert_eq!(lent, Some(place));
            }
        }
        world
    }

    /// Hands the oldest message of a side to the other.
    fn deliver(&mut self, from: usize) -> bool {
        let Some(flight) = self.sides[from].wire.pop_front() else {
            return false;
        };
        let to = &mut self.sides[1 - from];
        if let Some(stag) = flight.invalidate {
            to.keys.retain(|key| *key != stag);
        }
        let buffer = RxBuffer {
            slot: 0,
            size: SIZE,
            octets: &flight.octets,
            invalidated: flight.invalidate,
        };
        to.conn
            .handle_message(NOW, buffer)
            .expect("a peer that keeps the rules");
        to.settle();
        true
    }

    fn begin_read(&mut self, at: usize, room: u32) -> bool {
        let side = &mut self.sides[at];
        match side.conn.begin_read(NOW, ReadTo::Reader, room) {
            Some(op) => {
                side.reads.push_back((op.advert.stag, op.advert.len));
                side.settle();
                true
            }
            None => false,
        }
    }

    fn complete_read(&mut self, at: usize) -> bool {
        let Some((stag, len)) = self.sides[at].reads.pop_front() else {
            return false;
        };
        assert!(
            self.sides[1 - at].keys.contains(&stag),
            "memory was given back while it was read"
        );
        let side = &mut self.sides[at];
        assert_eq!(side.conn.handle_read(NOW), len);
        side.got += u64::from(len);
        side.settle();
        true
    }

    /// Adds the world after `act`, if that changes it.
    fn branch(&self, next: &mut Vec<(Act, World)>, act: Act) {
        if self.may(act) {
            let mut world = self.clone();
            if world.act(act) {
                next.push((act, world));
            }
        }
    }

    /// Whether it makes sense to try.
    fn may(&self, (at, deed): Act) -> bool {
        let side = &self.sides[at];
        match deed {
            Deed::Send => true,
            Deed::Receive => !self.sides[1 - at].wire.is_empty(),
            Deed::ReadDone => !side.reads.is_empty(),
            Deed::ReadAll | Deed::ReadOne => side.conn.refused_and_adverts().1 > 0,
            Deed::Cancel => side.cancels > 0 && side.conn.adverts_and_cancel().0 > 0,
            Deed::Refuse => side.refusals > 0 && side.conn.refused_and_adverts().1 > 0,
            Deed::Control => side.controls > 0,
        }
    }

    /// Does it; whether anything has changed.
    fn act(&mut self, (at, deed): Act) -> bool {
        let side = &mut self.sides[at];
        match deed {
            Deed::Send => return side.transmit(),
            Deed::Receive => return self.deliver(1 - at),
            Deed::ReadDone => return self.complete_read(at),
            Deed::ReadAll => return self.begin_read(at, u32::MAX),
            Deed::ReadOne => return self.begin_read(at, 1),
            Deed::Cancel => {
                side.cancels -= 1;
                side.conn.revoke_sources(NOW);
            }
            Deed::Refuse => {
                side.refusals -= 1;
                side.conn.refuse_advert(NOW);
            }
            Deed::Control => {
                side.controls -= 1;
                let mode = match side.conn.send_mode() {
                    HalfMode::Pipelined => HalfMode::Combined,
                    _ => HalfMode::Pipelined,
                };
                side.conn.want_mode(mode);
            }
        }
        true
    }

    /// Whether both sides agree, when nothing is in flight.
    fn agrees(&self) -> bool {
        [0, 1].into_iter().all(|at| {
            let (us, them) = (&self.sides[at], &self.sides[1 - at]);
            let (sent, owed) = us.conn.sent_and_owed();
            let (adverts, cancel) = us.conn.adverts_and_cancel();
            let (refused, peer_adverts) = them.conn.refused_and_adverts();
            !cancel && sent == them.got && owed == refused && adverts == peer_adverts
        })
    }

    fn key(&self) -> impl Hash + Eq {
        self.sides.clone().map(|side| {
            (
                side.conn.key(),
                side.wire,
                side.reads,
                (side.got, side.keys),
                (side.cancels, side.refusals, side.controls, side.rekeys),
            )
        })
    }
}

/// What a search has found.
struct Found {
    states: usize,
    /// Ways to states where nothing can happen, and something should.
    stuck: Vec<Vec<Act>>,
}

/// Searches from a start; `choices` may happen besides the duties.
fn search(start: World) -> Found {
    let mut seen = HashSet::new();
    let mut ways: HashMap<usize, (usize, Act)> = HashMap::new();
    let mut todo = VecDeque::from([(0_usize, start.clone())]);
    seen.insert(hash(&start));
    let mut states = 1;
    let mut stuck = vec![];
    while let Some((id, world)) = todo.pop_back() {
        let mut next = vec![];
        assert!(states < 400_000, "the search does not end");
        for deed in DUTIES {
            world.branch(&mut next, (0, deed));
            world.branch(&mut next, (1, deed));
        }
        if next.is_empty() && !world.agrees() {
            let mut way = vec![];
            let mut at = id;
            while let Some((before, step)) = ways.get(&at) {
                way.push(*step);
                at = *before;
            }
            way.reverse();
            stuck.push(way);
        }
        for deed in CHOICES {
            world.branch(&mut next, (0, deed));
            world.branch(&mut next, (1, deed));
        }
        for (step, world) in next {
            if seen.insert(hash(&world)) {
                ways.insert(states, (id, step));
                todo.push_back((states, world));
                states += 1;
            }
        }
    }
    Found { states, stuck }
}

/// A fast hash of 128 bits, which stands for a state.
#[derive(Clone, Copy, Default)]
struct StateHash([u64; 2]);

impl Hasher for StateHash {
    fn finish(&self) -> u64 {
        self.0[0]
    }

    fn write(&mut self, octets: &[u8]) {
        for chunk in octets.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let [a, b] = self.0;
        self.0 = [
            (a.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            (b.rotate_left(23) ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93),
        ];
    }
}

fn hash(world: &World) -> [u64; 2] {
    let mut hasher = StateHash::default();
    world.key().hash(&mut hasher);
    hasher.0
}

/// Both sides have an advert of the other, and read it.
fn crossed(setting: &Setting) -> World {
    let mut world = World::new(setting);
    for at in [0, 1] {
        assert!(world.sides[at].transmit());
    }
    for at in [0, 1] {
        assert!(world.deliver(at));
    }
    for at in [0, 1] {
        assert!(world.begin_read(at, u32::MAX));
    }
    world
}

const CROSSED: Setting = Setting {
    bufs: 3,
    reserve: [true; 2],
    spares: [true; 2],
    extents: [&[600], &[600]],
    mode: HalfMode::Combined,
    cancels: [1, 1],
    refusals: [0, 0],
    controls: [1, 1],
    rekeys: 0,
};

// the test of the test. By the text of the draft two cancels that cross can end in a
// deadlock, and the search has to find it.
#[test]
fn crossed_cancels_without_our_rules_can_deadlock() {
    let found = search(crossed(&Setting {
        reserve: [false; 2],
        spares: [false; 2],
        ..CROSSED
    }));
    assert!(!found.stuck.is_empty(), "{} states", found.states);
    let cancels = |way: &Vec<Act>| [0, 1].map(|at| way.contains(&(at, Deed::Cancel)));
    assert!(found.stuck.iter().all(|way| cancels(way) == [true; 2]));
}

// SDP-CRED-42, SDP-CRED-43: R-2 alone, R-3 alone, and both.
#[test]
fn crossed_cancels_with_our_rules_never_deadlock() {
    for (reserve, spares) in [(true, false), (false, true), (true, true)] {
        let found = search(crossed(&Setting {
            reserve: [reserve; 2],
            spares: [spares; 2],
            ..CROSSED
        }));
        assert!(found.states > 500, "{} states", found.states);
        assert_eq!(found.stuck.first(), None, "R-2 {reserve}, R-3 {spares}");
    }
}

const ONE_WAY: Setting = Setting {
    bufs: 3,
    reserve: [true; 2],
    spares: [true; 2],
    extents: [&[2, 2], &[]],
    mode: HalfMode::Pipelined,
    cancels: [1, 0],
    refusals: [0, 1],
    controls: [0, 0],
    rekeys: 0,
};

// SDP-SRCX-03 to SDP-SRCX-12, SDP-SRCX-14, SDP-SRCX-15, SDP-SRCX-17, SDP-LK-6, SDP-LK-7, TST-171 to
// TST-173, TST-175, R-5, R-7.
#[test]
fn cancel_against_reads_and_refusals_of_three_adverts_agrees() {
    let found = search(World::new(&Setting {
        extents: [&[2, 2, 2], &[]],
        bufs: 4,
        ..ONE_WAY
    }));
    assert!(found.states > 1000, "{} states", found.states);
    assert_eq!(found.stuck.first(), None);
}

#[test]
fn two_cancels_and_an_advert_that_is_sent_again_agree() {
    let found = search(World::new(&Setting {
        cancels: [2, 0],
        refusals: [0, 2],
        rekeys: 1,
        ..ONE_WAY
    }));
    assert!(found.states > 1000, "{} states", found.states);
    assert_eq!(found.stuck.first(), None);
}

// The same in Combined Mode, with payload in front and other data behind.
#[test]
fn cancels_in_combined_mode_agree() {
    let found = search(World::new(&Setting {
        extents: [&[514, 1], &[]],
        mode: HalfMode::Combined,
        cancels: [2, 0],
        refusals: [0, 2],
        rekeys: 1,
        ..ONE_WAY
    }));
    assert!(found.states > 1000, "{} states", found.states);
    assert_eq!(found.stuck.first(), None);
}
