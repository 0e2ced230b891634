// SPDX-License-Identifier: GPL-2.0

//! A crowd of clients that connect at once to a server with room for some set-ups at a time.
//!
//! Requests, answers and set-ups take their time. The server admits and refuses as a listener does.

use super::{
    for_seeds,
    Duration,
    Instant,
    ReadDepths,
    Rng,
    SdpTransport, //
};
use crate::proto::sdp::{
    admission::HalfOpens,
    hello::{
        HelloAddrs,
        HelloOctets,
        MAX_HELLO,
        MAX_HELLO_ACK, //
    },
    setup::{
        Accepting,
        Connecting,
        Discovery,
        FallBackReason,
        SdpOffer,
        SetupRefusal,
        SetupStep,
        SetupTimers, //
    },
};
use std::{
    cmp::Reverse,
    collections::{
        BTreeMap,
        BinaryHeap, //
    },
    net::Ipv4Addr,
};

const CM: ReadDepths = ReadDepths { ird: 8, ord: 8 };
/// The longest time that a client may need, by the timers and the pauses of a set-up, if the server
/// accepts others meanwhile.
const LONGEST: Duration = Duration::from_millis(10_100);
/// The same, if the server accepts none.
const LONGEST_ALONE: Duration = Duration::from_millis(2100);
/// More events than any run has.
const EVENTS: usize = 100_000;

/// What a run is about.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    clients: usize,
    /// Hosts that the clients are on.
    hosts: usize,
    /// Places of the server besides those of its rules, if there are fewer.
    room: usize,
    /// Range of the time from the admission to the end of a set-up, in milliseconds.
    set_up: (u64, u64),
    /// Range of the time of a datagram, in microseconds.
    way: (u64, u64),
}

/// What happens at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The client begins, or a timer of it may be due.
    Wake,
    /// Its address and route are resolved.
    Resolved,
    /// Its request, the number of which is given, reaches the server.
    Request(u32),
    /// The server has made the link of the request, and replies.
    Ready(u32),
    /// The reply reaches the client.
    Reply(u32),
    /// The refusal reaches the client.
    Refusal(u32),
    /// RTU reaches the server.
    Up(u32),
}

/// How a client's set-up has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Sdp,
    Tcp(FallBackReason),
}

/// The end of a client that found no room.
const BUSY: End = End::Tcp(FallBackReason::Refused(SetupRefusal::Busy));

struct Client {
    connecting: Connecting,
    host: usize,
    began: Instant,
    /// The number of its link, which counts its requests.
    link: u32,
    hello: Option<HelloOctets<MAX_HELLO>>,
    end: Option<(End, Instant)>,
}

/// A set-up that the server has admitted.
struct Admitted {
    accepting: Accepting,
    ack: HelloOctets<MAX_HELLO_ACK>,
}

fn offer() -> SdpOffer {
    SdpOffer {
        transport: SdpTransport::Annex,
        bufs: 13,
        size: 16384,
        desired_size: 16384,
        max_adverts: 16,
        depths: CM,
        invalidates: true,
        addrs: HelloAddrs {
            port: 40000,
            source: Ipv4Addr::new(10, 0, 0, 1).into(),
            destination: Ipv4Addr::new(10, 0, 0, 2).into(),
        },
    }
}

struct Run {
    crowd: Crowd,
    rng: Rng,
    now: Instant,
    queue: BinaryHeap<Reverse<(Instant, usize, Event)>>,
    clients: Vec<Client>,
    /// By client and link.
    admitted: BTreeMap<(usize, u32), Admitted>,
    /// When the server last accepted a client of each host.
    signs: Vec<Option<Instant>>,
    most: usize,
    refused: usize,
}

impl Run {
    fn new(crowd: Crowd, seed: u64) -> Self {
        let start = Instant::from_nanos(1);
        let mut run = Self {
            crowd,
            rng: Rng::new(seed),
            now: start,
            queue: BinaryHeap::new(),
            clients: Vec::new(),
            admitted: BTreeMap::new(),
            signs: vec![None; crowd.hosts],
            most: 0,
            refused: 0,
        };
        for client in 0..crowd.clients {
            // Threads of a program do not begin at the very same time.
            let began = start.saturating_add(Duration::from_micros(run.rng.range(0, 20_000)));
            run.clients.push(Client {
                connecting: Connecting::new(began, SetupTimers::ANNEX, offer(), Discovery::Try),
                host: client % crowd.hosts,
                began,
                link: 0,
                hello: None,
                end: None,
            });
            run.queue.push(Reverse((began, client, Event::Wake)));
        }
        run
    }

    fn after(&mut self, micros: (u64, u64), client: usize, event: Event) {
        let span = Duration::from_micros(self.rng.range(micros.0, micros.1));
        let at = self.now.saturating_add(span);
        self.queue.push(Reverse((at, client, event)));
    }

    /// Whether the listener has room for another set-up of the client's host.
    fn has_room(&self, client: usize) -> bool {
        let host = self.clients[client].host;
        let mut counts = HalfOpens::default();
        for (other, _) in self.admitted.keys() {
            counts.count(true, self.clients[*other].host == host);
        }
        self.admitted.len() < self.crowd.room && counts.allows_another()
    }

    fn serve(&mut self, client: usize, link: u32) {
        if !self.has_room(client) {
            self.refused += 1;
            return self.after(self.crowd.way, client, Event::Refusal(link));
        }
        let hello = self.clients[client].hello.expect("a Hello was sent");
        let mut accepting = Accepting::new(self.now, SetupTimers::DEFAULT, offer(), false);
        accepting.handle_hello(self.now, hello.as_slice(), CM);
        let Some(SetupStep::AcceptLink(ack)) = accepting.poll_step() else {
            panic!("the Hello of a client was not taken");
        };
        self.admitted
            .insert((client, link), Admitted { accepting, ack });
        self.most = self.most.max(self.admitted.len());
        let (least, most) = self.crowd.set_up;
        self.after((least * 1000, most * 1000), client, Event::Ready(link));
    }

    fn handle(&mut self, client: usize, event: Event) {
        let now = self.now;
        let way = self.crowd.way;
        if matches!(event, Event::Wake | Event::Refusal(_)) {
            let client = &mut self.clients[client];
            if let Some(sign) = self.signs[client.host] {
                client.connecting.handle_sign_of_life(sign);
            }
        }
        match event {
            Event::Wake => self.clients[client].connecting.handle_timeout(now),
            Event::Resolved => self.clients[client].connecting.handle_resolved(now),
            Event::Request(link) => return self.serve(client, link),
            Event::Ready(link) => return self.after(way, client, Event::Reply(link)),
            Event::Up(link) => {
                if let Some(mut admitted) = self.admitted.remove(&(client, link)) {
                    admitted.accepting.handle_link_up();
                    let step = admitted.accepting.poll_step();
                    assert!(matches!(step, Some(SetupStep::Established(_))));
                }
                return;
            }
            // Those of a link that the client has closed find no link.
            Event::Reply(link) | Event::Refusal(link) if link != self.clients[client].link => {}
            Event::Reply(link) => {
                let ack = self.admitted.get(&(client, link)).map(|known| known.ack);
                if let Some(ack) = ack {
                    let connecting = &mut self.clients[client].connecting;
                    connecting.handle_hello_ack(ack.as_slice(), CM);
                }
            }
            Event::Refusal(_) => {
                let connecting = &mut self.clients[client].connecting;
                connecting.handle_refused(now, SetupRefusal::Busy);
            }
        }
        self.perform(client);
    }

    /// Does what the client wants.
    fn perform(&mut self, client: usize) {
        let way = self.crowd.way;
        while let Some(step) = self.clients[client].connecting.poll_step() {
            let link = self.clients[client].link;
            match step {
                SetupStep::Resolve(_) => self.after((10, 1000), client, Event::Resolved),
                SetupStep::OpenLink(hello) => {
                    self.clients[client].link += 1;
                    self.clients[client].hello = Some(hello);
                    self.after(way, client, Event::Request(link + 1));
                }
                SetupStep::CloseLink => {
                    // The server finds out by the connection manager.
                    self.admitted.remove(&(client, link));
                }
                SetupStep::Established(_) => {
                    self.after(way, client, Event::Up(link));
                    self.signs[self.clients[client].host] = Some(self.now);
                    self.clients[client].end = Some((End::Sdp, self.now));
                }
                SetupStep::FallBack(reason) => {
                    self.clients[client].end = Some((End::Tcp(reason), self.now));
                }
                SetupStep::AskPortMapper | SetupStep::AcceptLink(_) | SetupStep::RejectLink(_) => {
                    panic!("{step:?}")
                }
            }
        }
        if let Some(at) = self.clients[client].connecting.poll_timeout() {
            self.queue.push(Reverse((at, client, Event::Wake)));
        }
    }

    /// Runs until nothing is left to happen. Nothing may wait for anything then.
    fn run(mut self) -> Self {
        let mut events = 0;
        while let Some(Reverse((at, client, event))) = self.queue.pop() {
            self.now = at;
            self.handle(client, event);
            events += 1;
            assert!(events < EVENTS, "the set-ups do not end");
        }
        for (number, client) in self.clients.iter().enumerate() {
            let (end, at) = client.end.expect("every set-up ends");
            let took = at.saturating_since(client.began);
            let longest = match self.signs[client.host] {
                Some(_) => LONGEST,
                None => LONGEST_ALONE,
            };
            assert!(took <= longest, "client {number}: {end:?} after {took:?}");
            assert_eq!(client.connecting.poll_timeout(), None);
        }
        assert!(self.admitted.is_empty(), "set-ups are left at the server");
        self
    }

    /// How the clients have ended.
    fn ends(&self) -> impl Iterator<Item = End> + '_ {
        let ends = self.clients.iter().filter_map(|client| client.end);
        ends.map(|(end, _)| end)
    }

    /// Clients that came to SDP.
    fn by_sdp(&self) -> usize {
        self.ends().filter(|end| *end == End::Sdp).count()
    }
}

/// As many clients as a test of two kernels has.
const CROWD: Crowd = Crowd {
    clients: 200,
    hosts: 1,
    room: usize::MAX,
    set_up: (1, 40),
    way: (20, 2000),
};

// SDP-SEC-02.
#[test]
fn crowd_of_one_host_all_comes_to_sdp() {
    for_seeds(300, |seed| {
        let run = Run::new(CROWD, seed).run();
        assert_eq!(run.by_sdp(), CROWD.clients);
        assert!(run.refused > 0, "there was room for all at once");
        assert!(run.most <= 32, "{} places of one host", run.most);
    });
}

#[test]
fn crowd_of_many_hosts_all_comes_to_sdp() {
    for_seeds(300, |seed| {
        let crowd = Crowd { hosts: 20, ..CROWD };
        let run = Run::new(crowd, seed).run();
        assert_eq!(run.by_sdp(), crowd.clients);
        assert!(run.most <= 64, "{} places of the listener", run.most);
    });
}

// The first clients are accepted only after most pauses of the others.
#[test]
fn crowd_of_a_slow_host_all_comes_to_sdp() {
    for_seeds(100, |seed| {
        let crowd = Crowd {
            clients: 100,
            set_up: (800, 1500),
            ..CROWD
        };
        let run = Run::new(crowd, seed).run();
        assert_eq!(run.by_sdp(), crowd.clients);
    });
}

#[test]
fn crowd_before_a_full_listener_ends_by_tcp_in_time() {
    for_seeds(100, |seed| {
        let run = Run::new(Crowd { room: 0, ..CROWD }, seed).run();
        assert!(run.ends().all(|end| end == BUSY));
    });
}

#[test]
fn crowd_beyond_the_room_ends_by_tcp_in_time() {
    for_seeds(300, |seed| {
        let crowd = Crowd {
            room: 2,
            set_up: (50, 300),
            ..CROWD
        };
        let run = Run::new(crowd, seed).run();
        assert!(run.ends().any(|end| end == End::Sdp));
        assert!(run.ends().any(|end| end == BUSY));
        assert!(run.ends().all(|end| end == End::Sdp || end == BUSY));
        assert!(run.most <= crowd.room);
    });
}
