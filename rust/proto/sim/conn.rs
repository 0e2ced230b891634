// SPDX-License-Identifier: GPL-2.0

//! Two connections over a reliable link: data, windows, and every way to end.
//!
//! A link keeps the order of chains; beyond that everything may happen at any time: a write is
//! placed long before its message is looked at, completions are late, TCP overtakes RDMA, messages
//! of a new link overtake those of the old one. Each direction has its own link, which may die at
//! any moment: then any number of its chains have been placed, the last one perhaps in part, and
//! any number of those were completed. A connection may also leave a link that works. Completions
//! come for chains that ask for them, and stand for all before; others come back by chance, as
//! those of another connection on the link would have it, or not at all. Checked after each step:
//! writes stay inside the free part of the peer's element, the send ring is not reused while the
//! link may read it, bytes are the right ones. Checked in the end: both sides are released, and
//! what was promised was delivered.

use super::{
    app::{
        pattern,
        App,
        End,
        Parts, //
    },
    Rng, //
};
use crate::proto::{
    base::time::{
        Duration,
        Instant, //
    },
    smc::{
        cdc::{
            CloseError,
            CloseTimers,
            Conn,
            ConnConfig,
            Msg,
            Tcp,
            TcpFound,
            Token,
            Violation,
            WriteSeg, //
        },
        wire::AlertToken, //
    },
    stream::poll::Mask, //
};
use std::{
    collections::VecDeque,
    rc::Rc, //
};

/// What a seed may do besides moving data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    /// The link is lost.
    LinkLoss,
    /// A middlebox resets the TCP connection.
    TcpReset,
    /// Links die, up to this number of times, and others take over.
    Failover(u64),
    /// The same once, but the link has completed what it never placed.
    FailoverLoss,
}

/// How the link of one direction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Up,
    /// It works, and is left as soon as it has given back what it has.
    Leaving,
    /// It is dead; the engine has yet to notice.
    Dead,
    /// The engine has noticed.
    Noticed,
}

/// A chain in flight.
struct Chain {
    /// The writes, in order.
    writes: Vec<WriteSeg>,
    /// The CDC message behind them.
    cdc: [u8; 44],
    /// Identifies the chain at its completion.
    token: Token,
    /// It asks for a completion.
    signal: bool,
    /// Position in the stream of its first byte.
    start: u64,
    /// What it is read from, if that was lent, without what lies in front of it.
    lent: Option<(Rc<[u8]>, usize)>,
}

impl Chain {
    /// What the link reads at byte `at` of the chain, which is byte `i` of `write`.
    fn read(&self, ring: &[u8], at: usize, write: &WriteSeg, i: u32) -> u8 {
        match &self.lent {
            Some((octets, skip)) => octets[skip + at],
            None => ring[(write.src_off + i) as usize],
        }
    }
}

/// A chain that comes back from a dead link, and whether it is known to be delivered.
struct Return {
    token: Token,
    good: bool,
}

/// One side.
pub(super) struct Side {
    /// The core.
    pub(super) conn: Conn,
    /// The application.
    pub(super) app: App,
    /// The send ring.
    ring: Vec<u8>,
    /// The parts lent by the application.
    parts: Parts,
    /// The receive element that the peer writes.
    element: Vec<u8>,
    /// Offset of the first octet of data in the element.
    origin: u32,
    /// Send slots of the link.
    slots: usize,
    /// No other connection signals on the link, so unsignalled chains wait for a signalled one.
    alone: bool,
    /// There is something to transmit, as events said.
    pending: bool,
    /// Chains that the link has taken and not placed.
    wire: VecDeque<Chain>,
    /// Bytes of data that the link has taken in all.
    posted: u64,
    /// Bytes placed in the peer's element.
    placed: u64,
    /// Completions that were not looked at, with what the link has read for them.
    done: VecDeque<(Chain, Vec<u8>)>,
    /// Messages of the peer that were not looked at, by the link they came over.
    arrived: Vec<VecDeque<[u8; 44]>>,
    /// The link of this direction, by number, and how it is.
    link: usize,
    /// State of that link.
    link_state: LinkState,
    /// What a dead link has yet to give back.
    returning: VecDeque<Return>,
    /// The last chain came back undelivered.
    undelivered: bool,
    /// A dead link has refused a chain since the last move.
    refused: bool,
    /// What a new link has to carry first.
    validate: bool,
    /// The new link must carry the replay.
    replay: bool,
    /// What the peer did to the TCP connection, and the engine has yet to see.
    tcp_in: VecDeque<Tcp>,
    /// What the engine has seen of that.
    tcp_seen: Tcp,
    /// What the engine has done to the TCP connection.
    pub(super) tcp_out: Tcp,
    /// A lingering close would be over.
    lingered: bool,
    /// The engine has reported the loss of the last link.
    pub(super) lost: bool,
}

impl Side {
    fn in_flight(&self) -> usize {
        self.wire.len() + self.done.len() + self.returning.len()
    }

    /// Whether the link signals the completion of a chain.
    fn tells(&self, chain: &Chain) -> bool {
        chain.signal || !self.alone
    }

    /// Whether the link, which asks for a completion at least for every other slot, asks now.
    fn asks(&self) -> bool {
        let chains = self.done.iter().map(|(chain, _)| chain).chain(&self.wire);
        chains.rev().take_while(|chain| !chain.signal).count() >= self.slots / 2
    }

    fn works(&self) -> bool {
        matches!(self.link_state, LinkState::Up | LinkState::Leaving)
    }

    /// Whether the TCP connection is closed.
    fn is_tcp_closed(&self) -> bool {
        match (self.tcp_seen, self.tcp_out) {
            (Tcp::Reset, _) | (_, Tcp::Reset) => true,
            (seen, done) => seen == Tcp::Fin && done == Tcp::Fin,
        }
    }
}

pub(super) struct World {
    /// Source of all choices.
    rng: Rng,
    /// Simulated time.
    now: Instant,
    /// Both sides.
    pub(super) sides: [Side; 2],
    /// The trouble of this run.
    trouble: Trouble,
    /// Steps until it strikes.
    fuse: u64,
    /// The trouble has struck the only link.
    pub(super) link_down: bool,
    /// Links that died.
    pub(super) deaths: u64,
    /// Moves of a connection to another link.
    pub(super) moves: u64,
    /// Chains that were completed and are not there.
    pub(super) swallowed: u64,
    /// Chains that dead links refused.
    pub(super) refused: u64,
    /// Chains that read lent parts.
    pub(super) lent: u64,
    /// Lent parts that were copied.
    pub(super) copied: u64,
    /// The run had to wait for a deadline other than that of corking.
    pub(super) waited: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    Read,
    Finish,
    Pump,
    Place,
    Complete,
    Arrive,
    Tcp,
    LinkLost,
    Notice,
    Return,
    Switch,
    Copy,
}

const STEPS: [Step; 13] = [
    Step::Write,
    Step::Read,
    Step::Finish,
    Step::Pump,
    Step::Place,
    Step::Complete,
    Step::Arrive,
    Step::Tcp,
    Step::LinkLost,
    Step::Notice,
    Step::Return,
    Step::Switch,
    Step::Copy,
];

impl World {
    pub(super) fn new(seed: u64, ends: [End; 2], trouble: Trouble) -> Self {
        let mut rng = Rng::new(seed);
        let origin = rng.pick(&[0, 0, 4]);
        let mut size = |low| match rng.range(0, 3) {
            0 => rng.bytes(low, 40),
            1 => rng.bytes(low, 1_000),
            2 => 1_024,
            _ => rng.bytes(1_000, 20_000),
        };
        let elements = [size(origin + 1), size(origin + 1)];
        let rings = [size(1), size(1)];
        let side = |rng: &mut Rng, me: usize| {
            let config = ConnConfig {
                token: AlertToken::new(me as u32),
                sndbuf: rings[me],
                local_rmbe: elements[me],
                peer_rmbe: elements[1 - me],
                origin,
                cork_bytes: rng.pick(&[0, 1, 100, 5_000, ConnConfig::CORK_BYTES]),
                max_write: rng.pick(&[0, 0, 1, 500, ConnConfig::MAX_WRITE]),
                timers: CloseTimers::DEFAULT,
            };
            Side {
                conn: Conn::new(&config).unwrap(),
                app: App::new(rng, me, ends[me], elements[me] - origin),
                ring: vec![0xee; rings[me] as usize],
                parts: Parts::default(),
                element: vec![0xdd; elements[me] as usize],
                origin,
                slots: rng.pick(&[1, 2, 4, 16, 64]),
                alone: !rng.one_in(3),
                pending: false,
                wire: VecDeque::new(),
                posted: 0,
                placed: 0,
                done: VecDeque::new(),
                arrived: vec![VecDeque::new()],
                link: 0,
                link_state: LinkState::Up,
                returning: VecDeque::new(),
                undelivered: false,
                refused: false,
                validate: false,
                replay: false,
                tcp_in: VecDeque::new(),
                tcp_seen: Tcp::Keep,
                tcp_out: Tcp::Keep,
                lingered: false,
                lost: false,
            }
        };
        let sides = [side(&mut rng, 0), side(&mut rng, 1)];
        let fuse = rng.range(0, 2_000);
        Self {
            rng,
            now: Instant::from_nanos(1),
            sides,
            trouble,
            fuse,
            link_down: false,
            deaths: 0,
            moves: 0,
            swallowed: 0,
            refused: 0,
            lent: 0,
            copied: 0,
            waited: false,
        }
    }

    fn is_enabled(&self, me: usize, step: Step) -> bool {
        let side = &self.sides[me];
        match step {
            Step::Write => side.app.wants_write(),
            Step::Read => side.app.wants_read(),
            Step::Finish => side.app.wants_end(),
            Step::Pump => side.pending && !side.lost && side.in_flight() < side.slots,
            Step::Place => !self.link_down && side.works() && !side.wire.is_empty(),
            Step::Complete => {
                side.done.iter().any(|(chain, _)| side.tells(chain))
                    || (side.lost && side.in_flight() > 0)
            }
            Step::Arrive => side.arrived.iter().any(|queue| !queue.is_empty()),
            Step::Tcp => !side.tcp_in.is_empty(),
            Step::LinkLost => self.link_down && !side.lost,
            Step::Notice => side.link_state == LinkState::Dead,
            Step::Return => !side.returning.is_empty(),
            Step::Switch => match side.link_state {
                LinkState::Noticed => !side.conn.is_in_flight(),
                LinkState::Leaving => side.in_flight() == 0 && !side.conn.is_in_flight(),
                LinkState::Up | LinkState::Dead => false,
            },
            Step::Copy => side.conn.poll_recall().is_some(),
        }
    }

    pub(super) fn run(&mut self) {
        for _ in 0..3_000_000_u32 {
            if self
                .sides
                .iter()
                .all(|s| s.app.closed && s.conn.is_released())
            {
                for side in &self.sides {
                    assert_eq!(side.conn.unreported_error(), None, "{}", self.log());
                }
                return;
            }
            self.trouble();
            let mut enabled = Vec::new();
            for me in [0, 1] {
                for step in STEPS {
                    if self.is_enabled(me, step) {
                        enabled.push((me, step));
                    }
                }
            }
            let pause = Duration::from_nanos(self.rng.range(0, 5_000));
            self.now = self.now.saturating_add(pause);
            if enabled.is_empty() {
                self.wait();
            } else {
                let (me, step) = self.rng.pick(&enabled);
                self.step(me, step);
            }
            for me in [0, 1] {
                if self.sides[me]
                    .conn
                    .next_timeout()
                    .is_some_and(|at| at <= self.now)
                {
                    match self.sides[me].conn.handle_timeout(self.now) {
                        Err(Violation::FailoverLoss) if self.swallowed > 0 => {}
                        result => result.unwrap(),
                    }
                    self.note(me);
                }
                self.check(me);
            }
        }
        panic!("no end: {:?} {:?}", self.sides[0].conn, self.sides[1].conn);
    }

    /// Nothing can happen but the passing of time.
    fn wait(&mut self) {
        let deadline = self
            .sides
            .iter()
            .filter_map(|s| s.conn.next_timeout())
            .min();
        let Some(deadline) = deadline else {
            panic!(
                "stalled: {:#?} {:#?} {:?} {:?}",
                self.sides[0].conn, self.sides[1].conn, self.sides[0].app, self.sides[1].app
            );
        };
        if deadline > self.now.saturating_add(CloseTimers::DEFAULT.cork) {
            self.waited = true;
        }
        self.now = std::cmp::max(self.now, deadline);
    }

    fn trouble(&mut self) {
        if self.trouble == Trouble::None {
            return;
        }
        if self.fuse > 0 {
            self.fuse -= 1;
            return;
        }
        self.trouble = match self.trouble {
            Trouble::Failover(count) => {
                // Soon again, perhaps before the first move is over.
                self.fuse = self.rng.range(0, 40) * self.rng.range(1, 20);
                let side = self.rng.range(0, 2);
                for me in [0, 1] {
                    match self.rng.one_in(3) {
                        _ if side == me => {}
                        true => self.leave(me as usize),
                        false => self.kill(me as usize, false),
                    }
                }
                match count {
                    1 => Trouble::None,
                    count => Trouble::Failover(count - 1),
                }
            }
            Trouble::FailoverLoss => {
                let me = self.rng.pick(&[0, 1]);
                self.kill(me, true);
                Trouble::None
            }
            trouble => trouble,
        };
        match self.trouble {
            Trouble::None | Trouble::Failover(_) | Trouble::FailoverLoss => return,
            Trouble::LinkLoss => self.link_down = true,
            Trouble::TcpReset => {
                let to = self.rng.pick(&[0, 1]);
                self.sides[to].tcp_in.push_back(Tcp::Reset);
            }
        }
        self.trouble = Trouble::None;
    }

    fn step(&mut self, me: usize, step: Step) {
        let (now, rng) = (self.now, &mut self.rng);
        let side = &mut self.sides[me];
        match step {
            Step::Write => {
                let Side {
                    app,
                    conn,
                    ring,
                    parts,
                    ..
                } = side;
                app.write(rng, now, conn, ring, Some(parts))
            }
            Step::Read => side.app.read(rng, &mut side.conn, &side.element),
            Step::Finish => side.app.finish(now, &mut side.conn),
            Step::Pump => return self.pump(me),
            Step::Place => return self.place(me),
            Step::Complete => return self.complete(me),
            Step::Arrive => {
                let links: Vec<usize> = (0..side.arrived.len())
                    .filter(|link| !side.arrived[*link].is_empty())
                    .collect();
                let octets = side.arrived[rng.pick(&links)].pop_front().unwrap();
                let message = Msg::parse(&octets).unwrap();
                assert_eq!(message.token, AlertToken::new(1 - me as u32));
                side.conn.handle_cdc(now, &message).unwrap();
            }
            Step::Tcp => {
                side.tcp_seen = side.tcp_in.pop_front().unwrap();
                let found = match side.tcp_seen {
                    Tcp::Fin if side.tcp_out == Tcp::Fin => TcpFound::Closed { error: false },
                    Tcp::Fin => TcpFound::Fin,
                    _ => TcpFound::Closed { error: true },
                };
                side.conn.handle_tcp(now, found);
            }
            Step::LinkLost => {
                side.lost = true;
                side.conn.handle_link_lost();
            }
            Step::Notice => {
                side.link_state = LinkState::Noticed;
                side.conn.handle_link_paused();
            }
            Step::Return => {
                let back = side.returning.pop_front().unwrap();
                if !back.token.is_validation() {
                    side.undelivered = !back.good || side.refused;
                }
                if back.good {
                    side.conn.handle_sent(now, back.token);
                } else {
                    side.conn.handle_sent_flushed(back.token);
                }
            }
            Step::Switch => {
                self.moves += 1;
                side.link += 1;
                side.link_state = LinkState::Up;
                side.validate = true;
                side.replay = side.undelivered;
                side.refused = false;
                let (from, to) = self.both(me);
                to.arrived.push(VecDeque::new());
                from.conn.handle_link_switched();
            }
            Step::Copy => {
                let part = side.conn.poll_recall().unwrap();
                let octets = side.parts[part.place].as_ref().unwrap();
                let mut octets = octets[part.skip as usize..].iter();
                for segment in part.to {
                    for offset in segment.off..segment.off + segment.len {
                        side.ring[offset as usize] = *octets.next().unwrap();
                    }
                }
                assert!(octets.next().is_none());
                self.copied += 1;
                side.conn.handle_copied(&part);
            }
        }
        self.note(me);
    }

    /// Acts on events as the engine does.
    fn note(&mut self, me: usize) {
        let side = &mut self.sides[me];
        let events = side.conn.take_events();
        side.app.wake(events);
        side.pending |= side.conn.wants_transmit(self.now);
        for (place, part) in side.parts.iter_mut().enumerate() {
            *part = part.take().filter(|_| side.conn.is_lent(place));
        }
        if events.error {
            assert!(side.conn.unreported_error().is_some());
        }
        let lingered = side.app.closed && side.conn.is_drained();
        if lingered && !side.lingered {
            assert!(events.closing, "drained without an event");
        }
        side.lingered = lingered;
        let ending = side.conn.poll_ending();
        if let Some(tcp) = ending.tcp {
            assert!(events.closing, "a change of TCP without an event");
            assert!(side.tcp_out != Tcp::Reset, "a reset cannot be taken back");
            assert!(tcp != Tcp::Keep, "nor can a FIN");
            assert_eq!(ending.silent, side.conn.is_forced());
            side.tcp_out = tcp;
            side.conn.handle_tcp_done(tcp);
            self.sides[1 - me].tcp_in.push_back(tcp);
        }
        let side = &mut self.sides[me];
        let closed = side.is_tcp_closed();
        side.app.report_error(&mut side.conn, closed);
    }

    /// Posts what there is, as long as there are slots.
    fn pump(&mut self, me: usize) {
        let side = &mut self.sides[me];
        while side.in_flight() < side.slots {
            let Some(transmit) = side.conn.poll_transmit(self.now) else {
                side.pending = false;
                break;
            };
            let writes = transmit.writes().to_vec();
            let count = writes.iter().map(|w| u64::from(w.len)).sum::<u64>();
            let flags = Msg::parse(&transmit.cdc).unwrap().flags;
            assert_eq!(flags.failover, std::mem::take(&mut side.validate));
            if flags.failover {
                assert_eq!(count, 0);
            } else if !std::mem::take(&mut side.replay) {
                side.posted += count;
            }
            // What is written again ends where the last writes did.
            let start = side.posted - count;
            if transmit.source.is_some() {
                assert!(transmit.signal && count > 0);
                self.lent += 1;
            }
            let lent = transmit.source.map(|source| {
                let part = side.parts[source.place]
                    .as_ref()
                    .expect("a part that is lent");
                (part.clone(), source.skip as usize)
            });
            if side.works() {
                let signal = transmit.signal || side.asks();
                side.wire.push_back(Chain {
                    writes,
                    cdc: transmit.cdc,
                    token: transmit.token,
                    signal,
                    start,
                    lent,
                });
            } else if self.rng.one_in(2) {
                // The dead link refuses it.
                self.refused += 1;
                side.refused |= !transmit.token.is_validation();
                side.undelivered |= side.refused;
                side.conn.handle_post_failed(transmit.token);
            } else {
                side.returning.push_back(Return {
                    token: transmit.token,
                    good: false,
                });
            }
        }
        self.note(me);
    }

    /// A connection is to leave the link of a direction, which works.
    fn leave(&mut self, me: usize) {
        let side = &mut self.sides[me];
        if side.link_state == LinkState::Up {
            side.link_state = LinkState::Leaving;
            side.conn.handle_link_leaving();
            // The engine looks after every input.
            side.pending = true;
        }
    }

    /// The link of a direction dies. Some of its chains are placed still, the last perhaps in part;
    /// some completions come through. With `lies`, also of chains that are nowhere.
    fn kill(&mut self, me: usize, lies: bool) {
        if !self.sides[me].works() {
            return;
        }
        self.deaths += 1;
        if !lies {
            for _ in 0..self.rng.range(0, self.sides[me].wire.len() as u64) {
                self.place(me);
            }
        }
        let good = self.sides[me].done.len() as u64;
        let good = match lies {
            // All that was placed, and one that was not.
            true if !self.sides[me].wire.is_empty() => {
                self.swallowed += 1;
                let side = &mut self.sides[me];
                let chain = &side.wire[0];
                let end = chain.start + chain.writes.iter().map(|w| u64::from(w.len)).sum::<u64>();
                side.placed = side.placed.max(end);
                good + 1
            }
            true => good,
            false => {
                // The last signalled chain, and all before it.
                let good = self.rng.range(0, good) as usize;
                let side = &self.sides[me];
                let known = |n: &usize| *n == 0 || side.tells(&side.done[*n - 1].0);
                (0..=good).rev().find(known).unwrap() as u64
            }
        };
        let part = self.rng.range(0, 3);
        let (from, to) = self.both(me);
        let tokens = from.done.iter().map(|(chain, _)| chain.token);
        let tokens = tokens.chain(from.wire.iter().map(|chain| chain.token));
        from.returning = (0..)
            .zip(tokens)
            .map(|(n, token)| Return {
                token,
                good: n < good,
            })
            .collect();
        if let Some(chain) = from.wire.front().filter(|_| part > 0 && !lies) {
            // Its message does not arrive.
            let count = chain.writes.iter().map(|w| w.len).sum::<u32>() / 3 * part as u32;
            Self::write(
                me,
                chain,
                count,
                from.origin,
                &from.ring,
                &mut from.placed,
                to,
            );
        }
        from.wire.clear();
        from.done.clear();
        from.link_state = LinkState::Dead;
    }

    /// The sending and the receiving side of a direction.
    fn both(&mut self, me: usize) -> (&mut Side, &mut Side) {
        let (left, right) = self.sides.split_at_mut(1);
        match me {
            0 => (&mut left[0], &mut right[0]),
            _ => (&mut right[0], &mut left[0]),
        }
    }

    /// Carries out the first `count` bytes of the writes of a chain; returns the bytes.
    fn write(
        me: usize,
        chain: &Chain,
        mut count: u32,
        origin: u32,
        ring: &[u8],
        placed: &mut u64,
        to: &mut Side,
    ) -> Vec<u8> {
        let capacity = (to.element.len() - origin as usize) as u64;
        let mut position = chain.start;
        let mut read = Vec::new();
        for write in &chain.writes {
            assert!(write.len > 0, "an empty write");
            for i in 0..write.len.min(count) {
                let byte = chain.read(ring, read.len(), write, i);
                let offset = (write.dst_off + i) as usize;
                // Where the byte belongs, computed in another way than by cursors.
                let expected = u64::from(origin) + position % capacity;
                assert_eq!(offset as u64, expected, "a write to the wrong place");
                assert!(
                    position < to.app.read + capacity,
                    "a write over unread data"
                );
                assert!(*placed <= position + capacity, "a write over newer data");
                assert_eq!(byte, pattern(me, position), "wrong data");
                to.element[offset] = byte;
                position += 1;
                *placed = position.max(*placed);
                read.push(byte);
            }
            count -= write.len.min(count);
        }
        read
    }

    /// The link carries out a chain.
    fn place(&mut self, me: usize) {
        let (from, to) = self.both(me);
        let chain = from.wire.pop_front().unwrap();
        assert!(chain.writes.is_empty() || chain.start <= from.placed);
        let read = Self::write(
            me,
            &chain,
            u32::MAX,
            from.origin,
            &from.ring,
            &mut from.placed,
            to,
        );
        to.arrived[from.link].push_back(chain.cdc);
        from.done.push_back((chain, read));
    }

    /// The engine learns of completions, perhaps of several at once.
    fn complete(&mut self, me: usize) {
        let now = self.now;
        let consumed = self.sides[1 - me].app.read;
        let side = &mut self.sides[me];
        if side.lost {
            let token = match side.done.pop_front() {
                Some((chain, _)) => chain.token,
                None => side.wire.pop_front().unwrap().token,
            };
            side.conn.handle_sent_flushed(token);
            return self.note(me);
        }
        let told: Vec<usize> = (0..side.done.len())
            .filter(|n| side.tells(&side.done[*n].0))
            .collect();
        let last = self.rng.pick(&told);
        let mut token = None;
        for _ in 0..=last {
            let (chain, read) = side.done.pop_front().unwrap();
            // Until now the link might have read it again, which matters if the peer's application
            // has not read it.
            let mut read = (chain.start..).zip(read);
            for write in &chain.writes {
                for i in 0..write.len {
                    let (position, byte) = read.next().unwrap();
                    assert!(
                        position < consumed
                            || chain.lent.is_some()
                            || side.ring[(write.src_off + i) as usize] == byte,
                        "the send ring was reused too early"
                    );
                }
            }
            side.undelivered &= chain.token.is_validation();
            token = Some(chain.token);
        }
        side.conn.handle_sent(now, token.unwrap());
        // A freed slot lets a waiting engine go on by itself.
        self.note(me);
    }

    /// What holds after every step.
    fn check(&self, me: usize) {
        let (side, peer) = (&self.sides[me], &self.sides[1 - me]);
        assert!(
            side.pending || side.lost || !side.conn.wants_transmit(self.now),
            "something to transmit without an event: {:#?}",
            side.conn
        );
        assert!(side.app.read <= peer.app.written);
        assert!(side.app.read + u64::from(side.conn.recv_available()) <= peer.placed);
        let mask = side.conn.poll_mask(1);
        if side.conn.unreported_error().is_some() {
            assert_eq!(mask, Mask::NONE);
            assert!(!side.is_tcp_closed(), "an error that no call reports");
        } else if side.conn.error().is_some() {
            assert!(mask.contains(Mask::READABLE | Mask::WRITABLE));
        }
        // Without an error, the end of the stream comes behind all data.
        let whole = side.app.saw_eof
            && side.app.error.is_none()
            && side.conn.error().is_none()
            && side.app.end != End::ShutdownBoth
            && peer.app.end != End::Abort;
        if whole && self.trouble == Trouble::None && side.conn.is_connected() {
            assert_eq!(
                side.app.read, peer.app.written,
                "data was lost before the end"
            );
        }
    }

    pub(super) fn log(&self) -> String {
        let [a, b] = &self.sides;
        format!("{:?}\n{:?}\n{:?}\n{:?}", a.app, a.conn, b.app, b.conn)
    }
}
