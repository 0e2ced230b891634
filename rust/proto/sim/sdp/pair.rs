// SPDX-License-Identifier: GPL-2.0

//! Two ends and the link between them, in virtual time. Each step does one thing that can happen.

use super::{
    end::{
        Habits,
        Manners,
        SdpEnd, //
    },
    *,
};
use crate::proto::sdp::{
    conn::SdpToken,
    teardown::EndState, //
};
use std::collections::VecDeque;

/// A message that is posted and not received.
struct Posted {
    header: Vec<u8>,
    payload: PayloadFrom,
    invalidate: Option<u32>,
    signal: bool,
    token: SdpToken,
}

/// An RDMA Read in flight, with its octets as soon as the peer's device has read them.
struct InFlight {
    op: ReadOp,
    octets: Option<Vec<u8>>,
}

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) terms: [SdpTerms; 2],
    pub(super) config: SdpConfig,
    pub(super) habits: [Habits; 2],
    /// Numbers of the first messages, if they are not those of the profile.
    pub(super) first: Option<[u32; 2]>,
    /// Each side follows.
    pub(super) rules: [bool; 2],
    /// Receive buffers that the pool of each side may grow to.
    pub(super) most_bufs: [u16; 2],
    /// The link breaks at some time.
    pub(super) breaks: bool,
}

/// Two ends.
pub(super) struct SdpPair {
    rng: Rng,
    pub(super) now: Instant,
    pub(super) ends: [SdpEnd; 2],
    wires: [VecDeque<Posted>; 2],
    /// Completions that the ends have not seen.
    done: [VecDeque<(SdpToken, bool)>; 2],
    reads: [VecDeque<InFlight>; 2],
    breaks: bool,
    is_down: bool,
    /// Messages by side.
    pub(super) messages: [u64; 2],
    /// Most receive buffers that were posted, by side.
    pub(super) most_posted: [u64; 2],
    /// Tests of the link by side.
    pub(super) tests: [u64; 2],
    /// The link carries nothing from now on.
    is_cut: bool,
    /// When the devices notice that.
    notice_at: Option<Instant>,
}

/// How long a device sends again what the other does not answer.
pub(super) const DEVICE_TRIES: Duration = Duration::from_secs(4);

/// Messages posted and not received, at most.
const DEPTH: usize = 12;

impl SdpPair {
    pub(super) fn new(seed: u64, scene: &Scene) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let end = |side: usize| {
            let terms = &scene.terms[side];
            let mut conn = SdpConn::new(now, scene.config, terms);
            if let Some(first) = scene.first {
                conn.start_at(first[side], first[1 - side], terms.peer_bufs);
            }
            let rules = scene.rules[side];
            conn.break_rules(rules, rules);
            conn.let_pool_grow(scene.most_bufs[side]);
            let habits = scene.habits[side];
            SdpEnd::new(side, conn, habits, scene.config.ring)
        };
        Self {
            rng: Rng::new(seed),
            now,
            ends: [end(0), end(1)],
            wires: Default::default(),
            done: Default::default(),
            reads: Default::default(),
            breaks: scene.breaks,
            is_down: false,
            messages: [0; 2],
            most_posted: [0; 2],
            tests: [0; 2],
            is_cut: false,
            notice_at: None,
        }
    }

    /// Posts a message of a side.
    fn transmit(&mut self, at: usize) -> bool {
        if self.wires[at].len() >= DEPTH {
            return false;
        }
        let Some(out) = self.ends[at].conn.poll_transmit(self.now) else {
            return self.test(at);
        };
        self.note_posted();
        if let Some(place) = out.register {
            self.ends[at].register(place);
        }
        self.messages[at] += 1;
        self.wires[at].push_back(Posted {
            header: out.header.as_slice().to_vec(),
            payload: out.payload,
            invalidate: out.invalidate,
            signal: out.signal,
            token: out.token,
        });
        true
    }

    /// Posts a test of a side, which needs no receive buffer.
    fn test(&mut self, at: usize) -> bool {
        let Some(token) = self.ends[at].conn.poll_test(self.now) else {
            return false;
        };
        self.tests[at] += 1;
        self.note_posted();
        if !self.is_cut {
            self.done[at].push_back((token, true));
        }
        true
    }

    /// A device has something in flight.
    fn note_posted(&mut self) {
        if self.is_cut && self.notice_at.is_none() {
            self.notice_at = Some(self.now.saturating_add(DEVICE_TRIES));
        }
    }

    /// The link carries nothing from now on.
    pub(super) fn cut(&mut self) {
        self.is_cut = true;
    }

    /// The oldest message of a side is received; memory is read only now.
    fn deliver(&mut self, from: usize) -> bool {
        if self.is_cut {
            return false;
        }
        let Some(message) = self.wires[from].pop_front() else {
            return false;
        };
        let mut octets = message.header;
        octets.extend(self.ends[from].payload(&message.payload));
        self.done[from].push_back((message.token, message.signal));
        let to = &mut self.ends[1 - from];
        if let Some(stag) = message.invalidate {
            to.invalidate_by_peer(stag);
        }
        let slot = to.posted.pop_front().expect("a posted receive buffer");
        let buffer = to.buffers.get_mut(&slot).unwrap();
        assert!(octets.len() <= buffer.len(), "message fits its buffer");
        buffer[..octets.len()].copy_from_slice(&octets);
        let plan = to.conn.handle_message(
            self.now,
            RxBuffer {
                slot,
                size: buffer.len() as u32,
                octets: &octets,
                invalidated: message.invalidate,
            },
        );
        match plan.expect("a peer that keeps the rules") {
            RxPlan::Free => drop(to.buffers.remove(&slot)),
            RxPlan::Queue { off, len } => assert!(off + len == octets.len() as u32),
            RxPlan::Append {
                slot: other,
                at,
                off,
                len,
            } => {
                to.buffers.remove(&slot);
                let payload = &octets[off as usize..][..len as usize];
                to.buffers.get_mut(&other).unwrap()[at as usize..][..len as usize]
                    .copy_from_slice(payload);
            }
        }
        true
    }

    /// A side sees the completions up to the next one that it has asked for.
    fn complete_send(&mut self, at: usize) -> bool {
        while let Some((token, signal)) = self.done[at].pop_front() {
            if signal {
                self.ends[at].conn.handle_sent(self.now, token);
                return true;
            }
        }
        false
    }

    /// The peer's device serves the next read of a side.
    fn serve_read(&mut self, at: usize) -> bool {
        let next = self.reads[at].iter().position(|read| read.octets.is_none());
        let Some(next) = next else {
            return false;
        };
        let octets = self.ends[1 - at].read_by_peer(&self.reads[at][next].op);
        self.reads[at][next].octets = Some(octets);
        true
    }

    fn complete_read(&mut self, at: usize) -> bool {
        if self.reads[at]
            .front()
            .is_none_or(|read| read.octets.is_none())
        {
            return false;
        }
        let read = self.reads[at].pop_front().unwrap();
        self.ends[at].complete(self.now, &read.op, read.octets.unwrap());
        true
    }

    fn read(&mut self, at: usize) -> bool {
        match self.ends[at].read(&mut self.rng, self.now) {
            None => false,
            Some(None) => true,
            Some(Some(op)) => {
                self.reads[at].push_back(InFlight { op, octets: None });
                true
            }
        }
    }

    /// The link goes down for both.
    fn go_down(&mut self) {
        self.is_down = true;
        for at in [0, 1] {
            while self.complete_send(at) {}
            self.wires[at].clear();
            self.reads[at].clear();
            self.ends[at].link_down(self.now);
            self.ends[at].wake();
        }
    }

    /// Does one thing; whether there was one that needs no time.
    pub(super) fn step(&mut self) -> bool {
        let at = self.rng.range(0, 1) as usize;
        self.now = self
            .now
            .saturating_add(Duration::from_micros(self.rng.range(0, 20)));
        if self.is_down {
            return self.read(at) || self.read(1 - at);
        }
        for end in &mut self.ends {
            end.interfere(&mut self.rng, self.now);
            let _ = end.reclaim();
        }
        if self.breaks && self.rng.one_in(400) {
            self.go_down();
            return true;
        }
        // A random one of the things that can happen, then the others in order.
        let first = self.rng.range(0, 17) as usize;
        let did = (0..18).any(|next| {
            let next = (first + next) % 18;
            let at = next % 2;
            match next / 2 {
                0 => self.transmit(at),
                1 => self.deliver(at),
                2 => self.complete_send(at),
                3 => self.serve_read(at),
                4 => self.complete_read(at),
                5 => self.read(at),
                6 => self.ends[at].write(&mut self.rng, self.now),
                7 => self.ends[at].invalidated(&mut self.rng),
                _ => self.ends[at].post(),
            }
        });
        for at in [0, 1] {
            let end = &mut self.ends[at];
            end.wake();
            end.conn.check();
            self.most_posted[at] = self.most_posted[at].max(end.conn.posted());
            // After an abort messages are not counted.
            if !matches!(
                end.conn.state(),
                EndState::Closed | EndState::Aborting { .. }
            ) {
                assert_eq!(end.conn.posted(), end.posted.len() as u64);
            }
            if end.conn.poll_take_down() {
                // What it sent may or may not arrive.
                while self.rng.one_in(2) && self.deliver(at) {}
                self.go_down();
                return true;
            }
        }
        did
    }

    /// Time passes: a little, or until something expires.
    pub(super) fn wait(&mut self) -> bool {
        let timers = self.ends.iter().filter_map(|end| end.conn.next_timeout());
        let Some(next) = timers.chain(self.notice_at).min() else {
            return false;
        };
        self.now = self.now.max(next);
        if self.notice_at.is_some_and(|at| at <= self.now) {
            self.notice_at = None;
            for end in &mut self.ends {
                end.conn.handle_silence();
            }
            self.go_down();
            return true;
        }
        for end in &mut self.ends {
            end.conn.handle_timeout(self.now);
            end.wake();
        }
        true
    }

    /// Whether both are over.
    fn is_over(&self) -> bool {
        let closed = |end: &SdpEnd| end.conn.state() == EndState::Closed && end.has_closed;
        self.is_down && self.ends.iter().all(closed)
    }

    /// Runs to the end.
    pub(super) fn run(&mut self) {
        for _ in 0..400_000 {
            if self.is_over() {
                return;
            }
            if self.step() {
                if self.rng.one_in(500) {
                    let jump = self.rng.range(1, 120);
                    self.now = self.now.saturating_add(Duration::from_millis(jump));
                    let late = |end: &SdpEnd| {
                        let at = end.conn.next_timeout();
                        at.is_some_and(|at| at <= self.now)
                    };
                    if self.ends.iter().any(late) {
                        self.wait();
                    }
                }
                continue;
            }
            // An application that closes at some time does so.
            let undecided =
                |end: &SdpEnd| end.habits.manners != Manners::HalfClose && !end.has_closed;
            if !self.wait() && !self.ends.iter().any(undecided) {
                let states = [0, 1].map(|at| self.ends[at].conn.state());
                let written = [0, 1].map(|at| self.ends[at].written);
                let read = [0, 1].map(|at| self.ends[at].read);
                assert!(
                    self.is_over(),
                    "stalled: {states:?}, written {written:?}, read {read:?}"
                );
            }
        }
        panic!("does not end");
    }
}
