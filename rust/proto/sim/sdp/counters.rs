// SPDX-License-Identifier: GPL-2.0

//! A peer that advertises memory for RDMA Write while we send data and adverts of our own, searched
//! exhaustively (SDP-MDL-1): both ends agree on which adverts are stale, and no octet is lost or
//! comes twice.

use super::*;
use crate::proto::sdp::{
    msg::{
        Advert,
        Body,
        HalfMode,
        SdpMessage, //
    },
    profile::WireLayout,
    serial::Serial,
    wire::BsdhFlags,
};
use std::{
    collections::{
        HashSet,
        VecDeque, //
    },
    hash::{
        DefaultHasher,
        Hash,
        Hasher, //
    },
};

const NOW: Instant = Instant::from_nanos(1);
const BUFS: u16 = 40;
const SIZE: u32 = 1024;

/// The peer as a Data Sink, written from the draft.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Peer {
    mode: HalfMode,
    /// SinkAvail that are out.
    out: u32,
    /// NonDiscards.
    non_discards: u32,
    /// Octets that each SrcAvail has left, the oldest first.
    adverts: VecDeque<u32>,
    /// Octets that have to come as Data.
    owed: u32,
    got: u64,
    sent: u32,
    received: u32,
}

/// What each side may still do.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Budget {
    writes: u8,
    lends: u8,
    changes: u8,
    adverts: u8,
    refusals: u8,
}

#[derive(Clone)]
struct World {
    conn: SdpConn,
    peer: Peer,
    budget: Budget,
    /// Messages of ours, and of the peer.
    ours: VecDeque<Vec<u8>>,
    theirs: VecDeque<Vec<u8>>,
    stag: u32,
}

impl Peer {
    fn message(&mut self, body: Body) -> Vec<u8> {
        self.sent += 1;
        let message = SdpMessage {
            flags: BsdhFlags::default(),
            bufs: BUFS,
            mseq: Serial::new(self.sent),
            mseq_ack: Serial::new(self.received),
            body,
            payload: 0,
        };
        message.emit(WireLayout::IdFirst).as_slice().to_vec()
    }

    /// Takes a message of ours, and checks that it may come.
    fn receive(&mut self, octets: &[u8]) {
        let message = SdpMessage::parse(octets, WireLayout::IdFirst).unwrap();
        self.received += 1;
        if message.payload > 0 {
            let is_free = self.adverts.is_empty() || message.payload <= self.owed;
            assert!(is_free, "payload behind a SrcAvail");
            self.owed = self.owed.saturating_sub(message.payload);
            self.got += u64::from(message.payload);
            match self.out {
                0 => self.non_discards += 1,
                _ => self.out -= 1,
            }
        }
        match message.body {
            Body::SrcAvail(advert) => {
                assert_eq!(message.payload == 0, self.mode == HalfMode::Pipelined);
                let is_second = self.mode == HalfMode::Combined && !self.adverts.is_empty();
                assert!(!is_second, "a second SrcAvail");
                // A SinkAvail of ours wins, and the advert is dropped.
                if self.out == 0 {
                    self.adverts.push_back(advert.len - message.payload);
                } else {
                    self.adverts.clear();
                }
            }
            Body::ModeChange { mode, .. } => {
                self.mode = mode;
                self.out = 0;
            }
            Body::SinkCancelAck => panic!("nothing was cancelled"),
            _ => {}
        }
    }
}

impl World {
    fn new(budget: Budget) -> Self {
        let config = SdpConfig {
            ring: 4096,
            wraps: true,
            most_buffer: 64 << 10,
            threshold: 4,
            nudges: 0,
            timers: ConnTimers::DEFAULT,
        };
        let mut conn = SdpConn::new(NOW, config, &terms(SdpTransport::Annex, 0, BUFS, SIZE));
        conn.want_mode(HalfMode::Pipelined);
        let mut world = Self {
            conn,
            peer: Peer {
                mode: HalfMode::Combined,
                out: 0,
                non_discards: 0,
                adverts: VecDeque::new(),
                owed: 0,
                got: 0,
                sent: 0,
                received: 0,
            },
            budget,
            ours: VecDeque::new(),
            theirs: VecDeque::new(),
            stag: 1,
        };
        assert!(world.transmit() && world.deliver());
        world
    }

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
        self.ours.push_back(octets);
        self.conn.handle_sent(NOW, out.token);
        self.settle();
        true
    }

    /// Keys are invalidated at once, and replaced.
    fn settle(&mut self) {
        while let Some(place) = self.conn.poll_invalidate() {
            self.conn.handle_invalidated(place);
            self.conn.rekey(place, self.stag);
            self.stag += 1;
        }
        while self.conn.poll_release().is_some() {}
        let wanted = self.conn.wanted_buffers();
        self.conn.handle_posted(wanted);
        self.conn.check();
    }

    fn deliver(&mut self) -> bool {
        let Some(octets) = self.ours.pop_front() else {
            return false;
        };
        self.peer.receive(&octets);
        true
    }

    fn hear(&mut self) -> bool {
        let Some(octets) = self.theirs.pop_front() else {
            return false;
        };
        let buffer = RxBuffer {
            slot: 0,
            size: SIZE,
            octets: &octets,
            invalidated: None,
        };
        self.conn
            .handle_message(NOW, buffer)
            .expect("both agree on what is out");
        self.settle();
        true
    }

    fn tell(&mut self, body: Body) -> bool {
        let octets = self.peer.message(body);
        self.theirs.push_back(octets);
        true
    }

    /// Does one of nine things; whether that was possible.
    fn act(&mut self, what: usize) -> bool {
        let take = |left: &mut u8| {
            let may = *left > 0;
            *left = left.saturating_sub(1);
            may
        };
        match what {
            0 => self.transmit(),
            1 => self.deliver(),
            2 => self.hear(),
            3 => match self.peer.adverts.pop_front() {
                Some(left) if self.peer.owed == 0 => {
                    self.peer.got += u64::from(left);
                    self.tell(Body::RdmaRdCompl(left))
                }
                _ => false,
            },
            4 => {
                let may = take(&mut self.budget.writes);
                self.conn.write(NOW, u32::from(may));
                may
            }
            5 => {
                let may = take(&mut self.budget.lends);
                self.stag += 1;
                may && self.conn.lend(NOW, 4, 0, Some(self.stag)).is_some()
            }
            6 => {
                let may = take(&mut self.budget.changes);
                if may {
                    self.conn.want_mode(match self.conn.send_mode() {
                        HalfMode::Pipelined => HalfMode::Combined,
                        _ => HalfMode::Pipelined,
                    });
                }
                may
            }
            7 => {
                let may = self.peer.mode == HalfMode::Pipelined
                    && self.peer.adverts.is_empty()
                    && self.peer.out < 3
                    && take(&mut self.budget.adverts);
                if may {
                    self.peer.out += 1;
                    let advert = Advert {
                        len: 5000,
                        stag: 1,
                        va: 0,
                    };
                    let non_discards = self.peer.non_discards;
                    self.tell(Body::SinkAvail {
                        advert,
                        non_discards,
                    });
                }
                may
            }
            8 => {
                let may = !self.peer.adverts.is_empty() && take(&mut self.budget.refusals);
                if may {
                    self.peer.owed += self.peer.adverts.pop_front().unwrap();
                    self.tell(Body::SendSm);
                }
                may
            }
            _ => false,
        }
    }

    /// Whether both sides agree, when nothing is in flight.
    fn agrees(&self) -> bool {
        let (sent, owed) = self.conn.sent_and_owed();
        sent == self.peer.got
            && owed == u64::from(self.peer.owed)
            && self.conn.adverts_and_cancel().0 == self.peer.adverts.len()
            && self.conn.sink_avails() == self.peer.out as usize
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.conn.key().hash(&mut hasher);
        self.peer.hash(&mut hasher);
        self.budget.hash(&mut hasher);
        self.ours.hash(&mut hasher);
        self.theirs.hash(&mut hasher);
        hasher.finish()
    }
}

fn search(budget: Budget) -> usize {
    let start = World::new(budget);
    let mut seen = HashSet::from([start.key()]);
    let mut todo = vec![start];
    while let Some(world) = todo.pop() {
        assert!(seen.len() < 200_000, "the search does not end");
        let mut is_quiet = true;
        for what in 0..9 {
            let mut next = world.clone();
            if next.act(what) {
                is_quiet &= what > 2;
                if seen.insert(next.key()) {
                    todo.push(next);
                }
            }
        }
        assert!(!is_quiet || world.agrees(), "the ends do not agree");
    }
    seen.len()
}

// SDP-STALE-01, SDP-STALE-05 to SDP-STALE-08, SDP-STALE-11 to SDP-STALE-13, SDP-MODE-25,
// SDP-MODE-27, SDP-MODE-31, SDP-FBS-01, SDP-FBS-02, TST-152, TST-154 to TST-156, R-9.
#[test]
fn stale_adverts_are_the_same_for_both_ends() {
    let states = search(Budget {
        writes: 2,
        lends: 2,
        changes: 0,
        adverts: 2,
        refusals: 1,
    });
    assert!(states > 1000, "{states} states");
}

// SDP-F28, SDP-MT-54 to SDP-MT-57, SDP-MT-61, SDP-MT-65, TST-158, TST-204, TST-205, TST-207.
#[test]
fn adverts_around_a_change_of_mode_are_the_same_for_both_ends() {
    // The second: adverts of both modes are out at once.
    for (writes, lends, adverts) in [(2, 1, 3), (0, 2, 2)] {
        let states = search(Budget {
            writes,
            lends,
            changes: 2,
            adverts,
            refusals: 1,
        });
        assert!(states > 1000, "{states} states");
    }
}
