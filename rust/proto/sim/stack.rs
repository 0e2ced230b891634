// SPDX-License-Identifier: GPL-2.0

//! Two whole stacks: CLC handshakes on simulated TCP, LLC and data on one simulated link, from the
//! first contact to the end of the link group.
//!
//! Each side has a small engine that does what the real one does: it owns buffers of two elements,
//! announces further ones before it offers them, keeps messages that come too early, and falls back
//! or gives up when its machines say so.

mod engine;

use self::engine::Engine;
use super::{
    app::{
        App,
        End, //
    },
    for_seeds,
    host::{
        alert,
        gid,
        mac,
        peer_id,
        Done,
        Half,
        Host,
        Packet,
        CLIENT,
        ELEMENTS,
        SIZE, //
    },
    Rng, //
};
use crate::proto::{
    base::{
        time::{
            Duration,
            Instant, //
        },
        verbs::{
            Mtu,
            Psn,
            Qpn, //
        },
    },
    smc::{
        cdc::{
            CloseTimers,
            Conn,
            ConnConfig,
            Msg,
            TcpFound, //
        },
        clc::{
            self,
            client::Client,
            server::Server,
            Assembler,
            ClcMessage,
            ClcOutcome,
            ClcRequest,
            LlcOutcome,
            Machine,
            Networks,
            Prefix4,
            Prepared,
            Proposal, //
        },
        llc::{
            driver,
            DeleteReason,
            LinkSlot,
            RmbId, //
        },
        wire::RToken, //
    },
    stream::reason::Reason, //
};
use std::collections::VecDeque;

struct World {
    /// Source of all choices.
    rng: Rng,
    /// Simulated time.
    now: Instant,
    /// Both stacks.
    hosts: [Host; 2],
    /// Number of connections in this run.
    connections: usize,
    /// One handshake in this number fails for lack of memory.
    refusals: u64,
    /// Steps until the link dies.
    fuse: Option<u64>,
    /// The link has died.
    link_down: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Open,
    Clc(usize),
    Tcp(usize),
    App(usize),
    Pump(usize),
    Llc,
    Rts,
    Carry,
    Complete,
    Receive,
}

impl World {
    fn new(seed: u64, faulty: bool) -> Self {
        let mut rng = Rng::new(seed);
        let connections = rng.range(1, 7) as usize;
        let refusals = rng.pick(&[1_000_000, 4]);
        let fuse = faulty.then(|| rng.range(0, 3_000));
        Self {
            rng,
            now: Instant::from_nanos(1),
            hosts: [Host::new(), Host::new()],
            connections,
            refusals,
            fuse,
            link_down: false,
        }
    }

    /// A connection over TCP has come about.
    fn open(&mut self) {
        let proposal = Proposal {
            peer: peer_id(CLIENT),
            gid: gid(CLIENT),
            mac: mac(CLIENT),
            v1: Some(Networks::V4(Prefix4::new([192, 0, 2, 0], 24).unwrap())),
            v2: None,
        };
        let now = self.now;
        for side in [0, 1] {
            let machine = if side == CLIENT {
                Machine::Client(Client::new(now, clc::ClcTimers::DEFAULT, proposal))
            } else {
                Machine::Server(Server::new(now, clc::ClcTimers::DEFAULT, peer_id(side)))
            };
            let app = App::new(&mut self.rng, side, End::HalfClose, 4_096);
            let sndbuf = self.rng.pick(&[100, 5_000, 16_384]);
            self.hosts[side].ends.push(Half {
                machine,
                assembler: Box::new(Assembler::new()),
                stream: VecDeque::new(),
                awaits_rmb: None,
                first_contact: false,
                links: false,
                element: None,
                peer: None,
                outcome: None,
                early: None,
                conn: None,
                tcp_reset: false,
                app,
                ring: vec![0; sndbuf],
                pending: false,
                released: false,
            });
        }
    }

    fn is_enabled(&self, side: usize, step: Step) -> bool {
        let host = &self.hosts[side];
        match step {
            // The engine lets one handshake at a time make a first contact.
            Step::Open => {
                side == CLIENT
                    && host.ends.len() < self.connections
                    && self
                        .hosts
                        .iter()
                        .all(|h| h.ready || h.ends.iter().all(|end| end.outcome.is_some()))
            }
            Step::Clc(c) => host.ends[c].outcome.is_none() && host.ends[c].awaits_rmb.is_none(),
            Step::Tcp(c) => {
                let end = &host.ends[c];
                end.machine.expects_message() && end.outcome.is_none() && !end.stream.is_empty()
            }
            Step::App(c) => {
                let end = &host.ends[c];
                end.conn.is_some()
                    && (end.app.wants_write() || end.app.wants_read() || end.app.wants_end())
            }
            Step::Pump(c) => host.ends[c].pending && host.slots() >= 4 && !self.link_down,
            Step::Llc => host.group.is_some(),
            Step::Rts => host.rts,
            Step::Carry => {
                !host.out.is_empty() && (self.hosts[1 - side].connected || self.link_down)
            }
            Step::Complete => !host.done.is_empty(),
            Step::Receive => !host.inbox.is_empty() && host.group.is_some(),
        }
    }

    fn run(&mut self) {
        for _ in 0..2_000_000_u32 {
            if self.is_over() {
                return;
            }
            self.burn();
            let mut steps = Vec::new();
            for side in [0, 1] {
                let each = |make: fn(usize) -> Step| (0..self.hosts[side].ends.len()).map(make);
                let all = [Step::Open, Step::Llc, Step::Rts]
                    .into_iter()
                    .chain([Step::Carry, Step::Complete, Step::Receive])
                    .chain(each(Step::Clc))
                    .chain(each(Step::Tcp))
                    .chain(each(Step::App))
                    .chain(each(Step::Pump));
                steps.extend(
                    all.filter(|step| self.is_enabled(side, *step))
                        .map(|step| (side, step)),
                );
            }
            let pause = Duration::from_nanos(self.rng.range(0, 2_000));
            self.now = self.now.saturating_add(pause);
            // Taking actions is always possible, and changes nothing when there is none: time has
            // to pass as well.
            if steps
                .iter()
                .all(|(_, s)| matches!(s, Step::Llc | Step::Clc(_)))
            {
                for &(side, step) in &steps {
                    self.step(side, step);
                }
                let pause = Duration::from_millis(self.rng.range(1, 50));
                self.now = self.now.saturating_add(pause);
            } else {
                let (side, step) = self.rng.pick(&steps);
                self.step(side, step);
            }
            self.timers();
        }
        for host in &self.hosts {
            for end in &host.ends {
                eprintln!("{:?} {:?} {:?}", end.outcome, end.conn, end.app);
            }
        }
        panic!("no end");
    }

    /// All connections are over; then the server ends the group, and both forget it.
    fn is_over(&mut self) -> bool {
        let [a, b] = &self.hosts;
        if a.ends.len() < self.connections
            || [a, b]
                .iter()
                .any(|h| h.ends.iter().any(|end| !end.released))
        {
            return false;
        }
        if [a, b].iter().all(|h| h.over || h.group.is_none()) {
            return true;
        }
        let now = self.now;
        let server = &mut self.hosts[1 - CLIENT];
        if let (Some(group), true) = (server.group.as_mut(), server.ready) {
            if !group.is_over() {
                server.ready = false;
                group.terminate(now, DeleteReason::Operator, true);
            }
        }
        false
    }

    /// Lets the link die when its time has come.
    fn burn(&mut self) {
        match &mut self.fuse {
            Some(0) => {}
            Some(left) => {
                *left -= 1;
                return;
            }
            None => return,
        }
        self.fuse = None;
        self.link_down = true;
        for side in [0, 1] {
            if let Some(group) = self.hosts[side].group.as_mut() {
                group.handle_link_down(self.now, LinkSlot::FIRST);
            }
        }
    }

    fn timers(&mut self) {
        let now = self.now;
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        for side in [0, 1] {
            if let Some(group) = self.hosts[side].group.as_mut() {
                if due(group.poll_timeout()) {
                    group.handle_timeout(now);
                }
            }
            for c in 0..self.hosts[side].ends.len() {
                let end = &mut self.hosts[side].ends[c];
                if due(end.machine.poll_timeout()) {
                    end.machine.handle_timeout(now);
                }
                if end
                    .conn
                    .as_ref()
                    .is_some_and(|conn| due(conn.next_timeout()))
                {
                    end.conn.as_mut().unwrap().handle_timeout(now).unwrap();
                    self.note(side, c);
                }
            }
        }
    }

    fn step(&mut self, side: usize, step: Step) {
        let now = self.now;
        match step {
            Step::Open => self.open(),
            Step::Clc(c) => self.clc(side, c),
            Step::Tcp(c) => self.read(side, c),
            Step::App(c) => self.app(side, c),
            Step::Pump(c) => self.pump(side, c),
            Step::Llc => self.llc(side),
            Step::Rts => {
                self.hosts[side].rts = false;
                if let Some(group) = self.hosts[side].group.as_mut() {
                    group.handle_rts(now, LinkSlot::FIRST, Ok(()));
                }
            }
            Step::Carry => self.carry(side),
            Step::Complete => match self.hosts[side].done.pop_front().unwrap() {
                Done::Llc(kind) => {
                    if let Some(group) = self.hosts[side].group.as_mut() {
                        if self.link_down {
                            group.handle_send_failed(now, LinkSlot::FIRST, kind);
                        } else {
                            group.handle_sent(now, LinkSlot::FIRST, kind);
                        }
                    }
                }
                Done::Cdc(c, token) => {
                    let conn = self.hosts[side].ends[c].conn.as_mut().unwrap();
                    if self.link_down {
                        conn.handle_sent_flushed(token);
                    } else {
                        conn.handle_sent(now, token);
                    }
                    self.note(side, c);
                }
            },
            Step::Receive => self.receive(side),
        }
    }

    /// Reads from TCP what the handshake may read.
    fn read(&mut self, side: usize, c: usize) {
        let now = self.now;
        let most = self.rng.range(1, 80) as usize;
        let end = &mut self.hosts[side].ends[c];
        let room = end.assembler.room();
        let count = room.len().min(end.stream.len()).min(most);
        for (to, from) in room.iter_mut().zip(end.stream.drain(..count)) {
            *to = from;
        }
        let message = end.assembler.filled(count).expect("a good message");
        if let Some(ClcMessage::Accept(answer) | ClcMessage::Confirm(answer)) = &message {
            end.peer = Some(answer.endpoint);
        }
        end.machine.handle_octets(now, Ok(message));
    }

    /// Does what a handshake wants.
    fn clc(&mut self, side: usize, c: usize) {
        let now = self.now;
        let refuse = self.rng.one_in(self.refusals);
        let [one, two] = &mut self.hosts;
        let (host, peer) = if side == 0 { (one, two) } else { (two, one) };
        let end = &mut host.ends[c];
        let Some(action) = end.machine.poll_action() else {
            return;
        };
        match action {
            clc::ClcAction::Send(bytes) => {
                peer.ends[c].stream.extend(bytes.as_slice());
                end.machine.handle_sent(now);
            }
            clc::ClcAction::Prepare(_) if refuse || self.link_down => {
                end.machine.handle_prepared(now, Err(Reason::Memory));
            }
            clc::ClcAction::Prepare(ClcRequest::Accept(accept)) => {
                if accept.first_contact {
                    host.make_group(side, &accept.endpoint);
                    host.group.as_mut().unwrap().start(now);
                } else if !host.ready {
                    end.machine.handle_prepared(now, Err(Reason::OutOfSync));
                    return;
                }
                self.prepare(side, c, accept.first_contact);
            }
            clc::ClcAction::Prepare(ClcRequest::Proposal(_)) => {
                let first_contact = host.group.is_none();
                self.prepare(side, c, first_contact);
            }
            clc::ClcAction::Connect(confirm) => {
                if end.first_contact {
                    host.make_group(side, &confirm.endpoint);
                }
                host.ends[c].machine.handle_connected(now, Ok(()));
            }
            clc::ClcAction::StartLlc => {
                end.links = true;
                if side != CLIENT {
                    host.group.as_mut().unwrap().start(now);
                }
            }
            clc::ClcAction::Done(outcome) => self.done(side, c, outcome),
        }
    }

    /// Reserves what an end needs; on a link that exists, a new buffer is announced first.
    fn prepare(&mut self, side: usize, c: usize, first_contact: bool) {
        let now = self.now;
        let host = &mut self.hosts[side];
        let (rmb, element) = host.reserve(side);
        host.ends[c].element = Some((rmb, element));
        host.ends[c].first_contact = first_contact;
        host.tokens.insert(alert(side, c), c);
        if first_contact {
            // Accept and Confirm announce it.
            host.rmbs[rmb].usable = true;
            host.tell_first_rmb();
        } else if !host.rmbs[rmb].usable {
            host.ends[c].awaits_rmb = Some(rmb);
            if element == 0 {
                let tokens = [(LinkSlot::FIRST, host.rmbs[rmb].token)];
                let group = host.group.as_mut().unwrap();
                assert!(group.confirm_rkey(now, RmbId(rmb as u16), &tokens).is_ok());
            }
            return;
        }
        self.prepared(side, c);
    }

    fn prepared(&mut self, side: usize, c: usize) {
        let now = self.now;
        let host = &mut self.hosts[side];
        host.ends[c].awaits_rmb = None;
        let endpoint = host.endpoint(side, c);
        let end = &mut host.ends[c];
        let first_contact = end.first_contact;
        let prepared = Prepared {
            endpoint,
            first_contact,
            v2: None,
        };
        end.machine.handle_prepared(now, Ok(prepared));
    }

    /// A handshake is over.
    fn done(&mut self, side: usize, c: usize, outcome: ClcOutcome) {
        let now = self.now;
        let host = &mut self.hosts[side];
        assert!(host.ends[c].outcome.is_none());
        host.ends[c].outcome = Some(outcome);
        if outcome != ClcOutcome::Smc {
            if host.ends[c].first_contact {
                // What was made for it goes with it (FBK-19).
                *host = Host {
                    ends: std::mem::take(&mut host.ends),
                    ..Host::new()
                };
                host.ends[c].element = None;
            }
            host.release(side, c);
            if matches!(outcome, ClcOutcome::Abort(_)) {
                let peer = &mut self.hosts[1 - side].ends[c];
                if peer.outcome.is_none() {
                    peer.machine.handle_eof(now);
                }
                if let Some(conn) = peer.conn.as_mut() {
                    conn.handle_tcp(now, TcpFound::Closed { error: true });
                    peer.tcp_reset = true;
                    self.note(1 - side, c);
                }
            }
            return;
        }
        let end = &host.ends[c];
        let peer = end.peer.unwrap();
        let token = RToken {
            rkey: peer.rkey,
            vaddr: peer.vaddr,
        };
        let config = ConnConfig {
            token: peer.alert_token,
            sndbuf: end.ring.len() as u32,
            local_rmbe: SIZE.bytes(),
            peer_rmbe: peer.buf_size.bytes(),
            origin: 0,
            cork_bytes: ConnConfig::CORK_BYTES,
            max_write: ConnConfig::MAX_WRITE,
            timers: CloseTimers::DEFAULT,
        };
        let group = host.group.as_mut().unwrap();
        let known = group.peer_rmb(LinkSlot::FIRST, token).unwrap();
        assert_eq!(group.peer_token(known, LinkSlot::FIRST), Some(token));
        let mut conn = Conn::new(&config).unwrap();
        if let Some(early) = host.ends[c].early.take() {
            conn.handle_cdc(now, &early).unwrap();
        }
        if host.over || self.link_down {
            conn.handle_link_lost();
        }
        host.ends[c].conn = Some(conn);
        self.note(side, c);
    }

    fn app(&mut self, side: usize, c: usize) {
        let now = self.now;
        let rng = &mut self.rng;
        let host = &mut self.hosts[side];
        let end = &mut host.ends[c];
        let conn = end.conn.as_mut().unwrap();
        let (rmb, element) = end.element.unwrap();
        let size = SIZE.bytes() as usize;
        let memory = &host.rmbs[rmb].memory[element * size..][..size];
        let mut doings = Vec::new();
        doings.extend(end.app.wants_write().then_some(0));
        doings.extend(end.app.wants_read().then_some(1));
        doings.extend(end.app.wants_end().then_some(2));
        match rng.pick(&doings) {
            0 => end.app.write(rng, now, conn, &mut end.ring, None),
            1 => end.app.read(rng, conn, memory),
            _ => end.app.finish(now, conn),
        }
        self.note(side, c);
    }

    fn note(&mut self, side: usize, c: usize) {
        let host = &mut self.hosts[side];
        let end = &mut host.ends[c];
        let conn = end.conn.as_mut().unwrap();
        end.app.wake(conn.take_events());
        if let Some(tcp) = conn.poll_ending().tcp {
            conn.handle_tcp_done(tcp);
        }
        end.app.report_error(conn, end.tcp_reset);
        end.pending |= conn.wants_transmit(self.now);
        if conn.is_released() && !end.released {
            host.release(side, c);
            self.retire(side);
        }
    }

    /// Deletes an unused buffer now and then.
    fn retire(&mut self, side: usize) {
        let (now, unlucky) = (self.now, self.rng.one_in(2));
        let host = &mut self.hosts[side];
        let Some(group) = host.group.as_mut() else {
            return;
        };
        for (number, rmb) in host.rmbs.iter_mut().enumerate() {
            let idle = rmb.usable && !rmb.deleting && rmb.used == [false; ELEMENTS];
            if idle && unlucky && host.ready {
                rmb.deleting = group.delete_rkey(now, RmbId(number as u16));
            }
        }
    }

    fn pump(&mut self, side: usize, c: usize) {
        let host = &mut self.hosts[side];
        while host.slots() >= 4 {
            let end = &mut host.ends[c];
            let Some(transmit) = end.conn.as_mut().unwrap().poll_transmit(self.now) else {
                end.pending = false;
                break;
            };
            let peer = end.peer.unwrap();
            let token = RToken {
                rkey: peer.rkey,
                vaddr: peer.vaddr
                    + u64::from(peer.rmbe_index.get() - 1) * u64::from(peer.buf_size.bytes()),
            };
            for write in transmit.writes() {
                host.out.push_back(Packet::Write(c, *write, token));
            }
            let done = Done::Cdc(c, transmit.token);
            host.out.push_back(Packet::Send(transmit.cdc, done));
        }
        self.note(side, c);
    }

    /// The link carries the next packet.
    fn carry(&mut self, side: usize) {
        let [one, two] = &mut self.hosts;
        let (host, peer) = if side == 0 { (one, two) } else { (two, one) };
        match host.out.pop_front().unwrap() {
            Packet::Write(..) if self.link_down => {}
            Packet::Write(c, write, token) => {
                let rmb = peer
                    .rmbs
                    .iter_mut()
                    .find(|rmb| rmb.token.rkey == token.rkey)
                    .expect("a known key");
                assert!(!rmb.deleting, "a write to a buffer that was withdrawn");
                let offset = (token.vaddr - rmb.token.vaddr) as usize + write.dst_off as usize;
                let ring = &host.ends[c].ring[write.src_off as usize..];
                let bytes = &ring[..write.len as usize];
                rmb.memory[offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            Packet::Send(octets, done) => {
                if !self.link_down {
                    peer.inbox.push_back(octets);
                }
                host.done.push_back(done);
            }
        }
    }

    /// A message came in on the link.
    fn receive(&mut self, side: usize) {
        let now = self.now;
        let host = &mut self.hosts[side];
        let octets = host.inbox.pop_front().unwrap();
        let Ok(message) = Msg::parse(&octets) else {
            let group = host.group.as_mut().unwrap();
            group.handle_message(now, LinkSlot::FIRST, &octets);
            return;
        };
        // A stale token touches nothing (CDC-36).
        let Some(&c) = host.tokens.get(&message.token.get()) else {
            return;
        };
        match host.ends[c].conn.as_mut() {
            None => host.ends[c].early = Some(message),
            Some(conn) => {
                conn.handle_cdc(now, &message).unwrap();
                self.note(side, c);
            }
        }
    }

    /// Performs the next action of the link group.
    fn llc(&mut self, side: usize) {
        driver::step(&mut Engine { world: self, side });
    }
}

#[test]
fn handshake_data_and_end_fit_together() {
    for_seeds(60, |seed| {
        let mut world = World::new(seed, false);
        world.run();
        let [a, b] = &world.hosts;
        let mut carried = 0;
        for (one, two) in a.ends.iter().zip(&b.ends) {
            match (one.outcome, two.outcome) {
                (Some(ClcOutcome::Smc), Some(ClcOutcome::Smc)) => {
                    carried += 1;
                    assert_eq!(one.app.read, two.app.to_write);
                    assert_eq!(two.app.read, one.app.to_write);
                    assert!(one.app.error.is_none() && two.app.error.is_none());
                }
                (Some(ClcOutcome::Fallback { .. }), Some(ClcOutcome::Fallback { .. })) => {
                    assert!(world.refusals < 1_000_000);
                }
                other => panic!("the sides disagree: {other:?}"),
            }
        }
        assert!(carried > 0 || world.refusals < 1_000_000);
        assert!(a.tokens.is_empty() && b.tokens.is_empty());
    });
}

#[test]
fn a_lost_link_leaves_nothing_behind() {
    for_seeds(60, |seed| {
        let mut world = World::new(seed, true);
        world.run();
        for host in &world.hosts {
            assert!(host.tokens.is_empty());
            assert!(host.ends.iter().all(|end| end.outcome.is_some()));
        }
    });
}
