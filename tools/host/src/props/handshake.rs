// SPDX-License-Identifier: GPL-2.0

//! Properties of the CLC handshake: a client and a server over two octet streams, with engines that
//! decide, delay and fail at random.

use super::clc::{
    endpoint,
    peer,
    proposal, //
};
use crate::proto::{
    base::time::{
        Duration,
        Instant, //
    },
    smc::{
        clc::{
            client::Client,
            server::Server,
            Answer,
            Assembler,
            ClcAction,
            ClcError,
            ClcMessage,
            ClcOutcome,
            ClcRequest,
            ClcTimers,
            Endpoint,
            LlcOutcome,
            Prepared,
            Proposal,
            ProtocolError,
            Reserved, //
        },
        wire::PeerId, //
    },
    stream::reason::Reason, //
};
use proptest::{
    collection::vec,
    prelude::*, //
};
use std::collections::VecDeque;

/// What the application sends once it may.
const DATA: &[u8] = b"data of the application";

/// How the engines behave in one run.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// The server makes a new link.
    first_contact: bool,
    /// The client has the link the server reuses.
    client_has_link: bool,
    /// The client declines in place of the Proposal.
    client_opens: bool,
    /// Preparation succeeds at the client; otherwise it is short of memory.
    client_prepares: bool,
    /// Preparation succeeds at the server; otherwise it is short of memory.
    server_prepares: bool,
    /// The server connects the link; otherwise that fails.
    server_connects: bool,
    /// Outcome of the LLC exchange: 0 ready, 1 client declines, 2 server declines, 3 client aborts.
    llc: u8,
}

/// One direction of the TCP connection.
type Stream = VecDeque<u8>;

/// What both sides have in common.
struct Side {
    assembler: Box<Assembler>,
    outcome: Option<ClcOutcome>,
}

impl Side {
    fn new() -> Self {
        Self {
            assembler: Box::new(Assembler::new()),
            outcome: None,
        }
    }

    /// Reads what the machine may read, at most `step` octets.
    fn read(&mut self, stream: &mut Stream, step: usize) -> Option<Result<ClcMessage, ClcError>> {
        let room = self.assembler.room();
        let count = room.len().min(step).min(stream.len());
        for (to, from) in room.iter_mut().zip(stream.drain(..count)) {
            *to = from;
        }
        self.assembler.filled(count).transpose()
    }

    /// Notes how it ended, and lets the application write when it may.
    fn done(&mut self, outcome: ClcOutcome, stream: &mut Stream) {
        assert!(self.outcome.is_none(), "a handshake ends once");
        assert!(!self.assembler.is_started(), "octets were lost");
        self.outcome = Some(outcome);
        if matches!(outcome, ClcOutcome::Fallback { .. }) {
            stream.extend(DATA);
        }
    }
}

/// Runs a handshake; `choices` picks the side that moves and how far. Returns both outcomes.
fn run(
    plan: Plan,
    proposal: Proposal,
    server_id: PeerId,
    end: Endpoint,
    choices: &[u8],
) -> (ClcOutcome, ClcOutcome) {
    let now = Instant::from_nanos(1);
    let (mut upstream, mut downstream) = (Stream::new(), Stream::new());
    let mut client = if plan.client_opens {
        Client::new(now, ClcTimers::DEFAULT, proposal)
    } else {
        Client::declining(now, ClcTimers::DEFAULT, proposal.peer, Reason::NoSmcrDevice)
    };
    let mut server = Server::new(now, ClcTimers::DEFAULT, server_id);
    let (mut at_client, mut at_server) = (Side::new(), Side::new());
    let (mut client_links, mut server_links) = (false, false);
    let mut choices = choices.iter().copied().cycle();

    for _ in 0..4000 {
        if let (Some(one), Some(two)) = (at_client.outcome, at_server.outcome) {
            check_streams(
                one,
                two,
                upstream.make_contiguous(),
                downstream.make_contiguous(),
            );
            return (one, two);
        }
        let choice = choices.next().unwrap_or(0);
        let step = usize::from(choice >> 2).max(1);
        match choice % 4 {
            0 => match client.poll_action() {
                Some(ClcAction::Send(bytes)) => {
                    upstream.extend(bytes.as_slice());
                    client.handle_sent(now);
                }
                Some(ClcAction::Prepare(ClcRequest::Accept(Answer { first_contact, .. }))) => {
                    let result = match (first_contact, plan.client_has_link) {
                        _ if !plan.client_prepares => Err(Reason::Memory),
                        (false, false) => Err(Reason::OutOfSync),
                        _ => Ok(Prepared {
                            endpoint: end,
                            first_contact,
                            v2: None,
                        }),
                    };
                    client.handle_prepared(now, result);
                }
                Some(ClcAction::StartLlc) => client_links = true,
                Some(ClcAction::Done(outcome)) => at_client.done(outcome, &mut upstream),
                Some(ClcAction::Prepare(_) | ClcAction::Connect(_)) => {
                    panic!("that is for servers")
                }
                None => {}
            },
            1 => match server.poll_action() {
                Some(ClcAction::Send(bytes)) => {
                    downstream.extend(bytes.as_slice());
                    server.handle_sent(now);
                }
                Some(ClcAction::Prepare(got)) => {
                    assert_eq!(got, ClcRequest::Proposal(proposal));
                    let result = if plan.server_prepares {
                        Ok(Prepared {
                            endpoint: end,
                            first_contact: plan.first_contact,
                            v2: None,
                        })
                    } else {
                        Err(Reason::DifferentPrefix)
                    };
                    server.handle_prepared(now, result);
                }
                Some(ClcAction::Connect(confirm)) => {
                    assert_eq!(confirm.endpoint, end);
                    let result = if plan.server_connects {
                        Ok(())
                    } else {
                        Err(Reason::ReadyLink)
                    };
                    server.handle_connected(now, result);
                }
                Some(ClcAction::StartLlc) => server_links = true,
                Some(ClcAction::Done(outcome)) => at_server.done(outcome, &mut downstream),
                None => {}
            },
            2 if client.expects_message() => match at_client.read(&mut downstream, step) {
                Some(Ok(message)) => client.handle_message(now, &message),
                Some(Err(error)) => client.handle_error(now, error),
                None => {}
            },
            3 if server.expects_message() => match at_server.read(&mut upstream, step) {
                Some(Ok(message)) => server.handle_message(now, &message),
                Some(Err(error)) => server.handle_error(now, error),
                None => {}
            },
            _ => {}
        }
        // The exchange on the link, once both have joined it.
        if client_links && server_links {
            (client_links, server_links) = (false, false);
            match plan.llc {
                0 => {
                    client.handle_llc(now, LlcOutcome::Ready);
                    server.handle_llc(now, LlcOutcome::Ready);
                }
                1 => client.handle_llc(now, LlcOutcome::Decline(Reason::ReadyLink)),
                2 => server.handle_llc(now, LlcOutcome::Decline(Reason::ReadyLink)),
                _ => client.handle_llc(now, LlcOutcome::Abort(Reason::TimeoutAddLink)),
            }
        }
        // A reset reaches the other side.
        if matches!(at_client.outcome, Some(ClcOutcome::Abort(_))) && at_server.outcome.is_none() {
            server.handle_eof(now);
        }
        if matches!(at_server.outcome, Some(ClcOutcome::Abort(_))) && at_client.outcome.is_none() {
            client.handle_eof(now);
        }
    }
    panic!(
        "{} and {}: no end",
        client.state_name(),
        server.state_name()
    );
}

/// After a fallback, exactly the application's data is on the streams.
fn check_streams(client: ClcOutcome, server: ClcOutcome, upstream: &[u8], downstream: &[u8]) {
    if matches!(client, ClcOutcome::Fallback { .. })
        && matches!(server, ClcOutcome::Fallback { .. })
    {
        assert_eq!(upstream, DATA);
        assert_eq!(downstream, DATA);
    }
    if client == ClcOutcome::Smc && server == ClcOutcome::Smc {
        assert!(upstream.is_empty() && downstream.is_empty());
    }
}

/// A random event for a machine on its own.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a handful live at a time, and copies keep the test simple"
)]
enum Event {
    Message(ClcMessage),
    NoMessage,
    Reserved,
    Eof,
    Prepared(bool, bool),
    Connected(bool),
    Llc(u8),
    Sent,
    Take,
    Wait(u64),
}

/// Any event.
fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => super::clc::message().prop_map(Event::Message),
        1 => Just(Event::NoMessage),
        1 => Just(Event::Reserved),
        1 => Just(Event::Eof),
        3 => (any::<bool>(), any::<bool>()).prop_map(|(ok, new)| Event::Prepared(ok, new)),
        3 => any::<bool>().prop_map(Event::Connected),
        3 => (0..3_u8).prop_map(Event::Llc),
        5 => Just(Event::Sent),
        8 => Just(Event::Take),
        2 => (0..8_u64).prop_map(Event::Wait),
    ]
}

/// An end that is ready.
fn prepared(endpoint: Endpoint, first_contact: bool) -> Prepared {
    Prepared {
        endpoint,
        first_contact,
        v2: None,
    }
}

/// The outcome of an LLC exchange by number.
fn llc(number: u8) -> LlcOutcome {
    match number {
        0 => LlcOutcome::Ready,
        1 => LlcOutcome::Decline(Reason::ReadyLink),
        _ => LlcOutcome::Abort(Reason::TimeoutAddLink),
    }
}

proptest! {
    // CLC-04, CLC-11, CLC-410, CLC-412, CLC-414, RDV-02, FBK-04..06, FBK-13, FBK-18, TST-104,
    // TST-106.
    #[test]
    fn both_sides_agree_on_the_outcome(
        flags in any::<[bool; 6]>(),
        llc in 0..4_u8,
        proposal in proposal(),
        server_id in peer(),
        end in endpoint(),
        choices in vec(any::<u8>(), 16..200),
    ) {
        // Both sides get a turn.
        let choices: Vec<u8> = choices.into_iter().chain([0xfc, 0xfd, 0xfe, 0xff]).collect();
        let [first_contact, client_has_link, client_opens, client_prepares, server_prepares, server_connects] = flags;
        let plan = Plan {
            first_contact,
            client_has_link,
            client_opens,
            client_prepares,
            server_prepares,
            server_connects,
            llc,
        };
        let (client, server) = run(plan, proposal, server_id, end, &choices);
        let fallback = |outcome| matches!(outcome, ClcOutcome::Fallback { .. });
        let abort = |outcome| matches!(outcome, ClcOutcome::Abort(_));
        if !client_opens || !server_prepares {
            prop_assert!(fallback(client) && fallback(server));
        } else if first_contact && end.mtu.is_none() {
            prop_assert!(fallback(client) && fallback(server));
        } else if !client_prepares || (!first_contact && !client_has_link) {
            prop_assert!(fallback(client) && fallback(server));
            let out_of_sync = matches!(server, ClcOutcome::Fallback { out_of_sync: true, .. });
            prop_assert_eq!(out_of_sync, client_prepares);
        } else if first_contact {
            match (server_connects, llc) {
                (true, 0) => prop_assert!(client == ClcOutcome::Smc && server == ClcOutcome::Smc),
                (true, 3) => prop_assert!(abort(client) && abort(server)),
                _ => prop_assert!(fallback(client) && fallback(server)),
            }
        } else if server_connects {
            prop_assert!(client == ClcOutcome::Smc && server == ClcOutcome::Smc);
        } else {
            // The client was done with its Confirm; the reset ends its connection later.
            prop_assert!(client == ClcOutcome::Smc && abort(server));
        }
    }

    #[test]
    fn client_ends_once_whatever_happens(
        proposal in proposal(),
        end in endpoint(),
        events in vec(event(), 0..40),
    ) {
        let mut now = Instant::from_nanos(1);
        let mut client = Client::new(now, ClcTimers::DEFAULT, proposal);
        let mut ends = 0;
        for event in events {
            match event {
                Event::Message(message) => client.handle_message(now, &message),
                Event::NoMessage => client.handle_error(now, ProtocolError::EyeCatcher.into()),
                Event::Reserved => client.handle_error(now, Reserved::Version(3).into()),
                Event::Eof => client.handle_eof(now),
                Event::Prepared(true, first_contact) => {
                    client.handle_prepared(now, Ok(prepared(end, first_contact)));
                }
                Event::Prepared(false, _) => client.handle_prepared(now, Err(Reason::Memory)),
                Event::Connected(_) => {}
                Event::Llc(number) => client.handle_llc(now, llc(number)),
                Event::Sent => client.handle_sent(now),
                Event::Take => {
                    ends += u32::from(matches!(client.poll_action(), Some(ClcAction::Done(_))));
                }
                Event::Wait(secs) => {
                    now = now.saturating_add(Duration::from_secs(secs));
                    client.handle_timeout(now);
                }
            }
        }
        // Left alone it ends by its timers.
        for _ in 0..4 {
            if let Some(deadline) = client.poll_timeout() {
                client.handle_timeout(deadline);
            }
            ends += u32::from(matches!(client.poll_action(), Some(ClcAction::Done(_))));
        }
        prop_assert_eq!(ends, 1);
        prop_assert_eq!(client.poll_timeout(), None);
    }

    #[test]
    fn server_ends_once_whatever_happens(
        server_id in peer(),
        end in endpoint(),
        events in vec(event(), 0..40),
    ) {
        let mut now = Instant::from_nanos(1);
        let mut server = Server::new(now, ClcTimers::DEFAULT, server_id);
        let mut ends = 0;
        for event in events {
            match event {
                Event::Message(message) => server.handle_message(now, &message),
                Event::NoMessage => server.handle_error(now, ProtocolError::EyeCatcher.into()),
                Event::Reserved => server.handle_error(now, Reserved::Version(3).into()),
                Event::Eof => server.handle_eof(now),
                Event::Prepared(true, first_contact) => {
                    server.handle_prepared(now, Ok(prepared(end, first_contact)));
                }
                Event::Prepared(false, _) => server.handle_prepared(now, Err(Reason::Memory)),
                Event::Connected(true) => server.handle_connected(now, Ok(())),
                Event::Connected(false) => server.handle_connected(now, Err(Reason::ReadyLink)),
                Event::Llc(number) => server.handle_llc(now, llc(number)),
                Event::Sent => server.handle_sent(now),
                Event::Take => {
                    ends += u32::from(matches!(server.poll_action(), Some(ClcAction::Done(_))));
                }
                Event::Wait(secs) => {
                    now = now.saturating_add(Duration::from_secs(secs));
                    server.handle_timeout(now);
                }
            }
        }
        // Left alone it ends by its timers.
        for _ in 0..4 {
            if let Some(deadline) = server.poll_timeout() {
                server.handle_timeout(deadline);
            }
            ends += u32::from(matches!(server.poll_action(), Some(ClcAction::Done(_))));
        }
        prop_assert_eq!(ends, 1);
        prop_assert_eq!(server.poll_timeout(), None);
    }
}
