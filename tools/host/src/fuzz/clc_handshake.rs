// SPDX-License-Identifier: GPL-2.0

//! Both sides of the CLC handshake against a peer that sends anything and an engine that answers
//! anything: each ends exactly once.

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
        clc::{
            client::Client,
            server::Server,
            Answer,
            ClcAction,
            ClcMessage,
            ClcOutcome,
            ClcTimers,
            Endpoint,
            LlcOutcome,
            Prepared,
            Version, //
        },
        wire::{
            AlertToken,
            BufSize,
            PeerId,
            RmbeIndex, //
        },
    },
    stream::reason::Reason, //
};

/// Octets of a peer: 0 to 3 a message it might send, else what the input says.
fn message(input: &mut Input<'_>, end: Endpoint) -> [u8; 68] {
    const EYE: [u8; 4] = crate::proto::smc::wire::EYE_CATCHER;
    let mut octets = [0; 68];
    let kind = input.byte();
    let peer = PeerId::new([1; 8]);
    let accept = Answer {
        peer,
        first_contact: kind & 0x10 != 0,
        endpoint: end,
        v2: None,
    };
    let confirm = Answer {
        first_contact: false,
        ..accept
    };
    let reason = Reason::from_code(u32::from(kind) << 24);
    let decline = crate::proto::smc::clc::Decline::new(peer, reason, Version::V1);
    let written = match kind % 8 {
        0..=2 => ClcMessage::Accept(accept).emit(&mut octets),
        3..=4 => ClcMessage::Confirm(confirm).emit(&mut octets),
        5 => ClcMessage::Decline(decline).emit(&mut octets),
        6 => {
            // The shortest Proposal; its networks are all zero.
            octets[..8].copy_from_slice(&[EYE[0], EYE[1], EYE[2], EYE[3], 1, 0, 52, 0x10]);
            octets[48..52].copy_from_slice(&EYE);
            Some(52)
        }
        _ => {
            octets = input.array();
            Some(68)
        }
    };
    // Sometimes damaged.
    if kind & 0x80 != 0 {
        let at = usize::from(input.byte()) % octets.len();
        octets[at] = input.byte();
    }
    assert!(written.is_some());
    octets
}

/// Reads what [`message`] made.
fn parse(octets: &[u8]) -> Result<ClcMessage, crate::proto::smc::clc::ClcError> {
    let len = usize::from(octets[6]).min(octets.len());
    ClcMessage::parse(&octets[..len])
}

/// This side's end of the connection.
fn end(input: &mut Input<'_>) -> Option<Endpoint> {
    Some(Endpoint {
        gid: Gid::new([1; 16]),
        mac: Mac::new([2; 6]),
        qpn: Qpn::new(3),
        rkey: RKey::new(4),
        rmbe_index: RmbeIndex::new(5)?,
        alert_token: AlertToken::new(6),
        buf_size: BufSize::MIN,
        mtu: Mtu::from_code(input.byte() % 7),
        vaddr: 7,
        psn: Psn::new(8),
    })
}

/// The end of an LLC exchange.
fn llc(choice: u8) -> LlcOutcome {
    match choice % 3 {
        0 => LlcOutcome::Ready,
        1 => LlcOutcome::Decline(Reason::ReadyLink),
        _ => LlcOutcome::Abort(Reason::TimeoutAddLink),
    }
}

/// Counts ends; what was agreed must have been possible.
fn note(ends: &mut u32, outcome: ClcOutcome, confirmed: bool) {
    *ends = ends.saturating_add(1);
    assert!(outcome != ClcOutcome::Smc || confirmed);
}

/// A client and a server, each for itself, with the same events.
pub fn clc_handshake(octets: &[u8]) {
    let mut input = Input::new(octets);
    let Some(end) = end(&mut input) else {
        return;
    };
    let mut now = Instant::from_nanos(1);
    let Some(ClcMessage::Proposal(proposal)) = parse(&message(&mut Input::new(&[6]), end)).ok()
    else {
        return;
    };
    let mut client = Client::new(now, ClcTimers::DEFAULT, proposal);
    let mut server = Server::new(now, ClcTimers::DEFAULT, PeerId::new([9; 8]));
    let (mut client_ends, mut server_ends) = (0, 0);
    let (mut confirmed, mut accepted) = (false, false);

    while !input.is_empty() {
        let choice = input.byte();
        match choice % 8 {
            0..=1 => match parse(&message(&mut input, end)) {
                Ok(message) => {
                    client.handle_message(now, &message);
                    server.handle_message(now, &message);
                }
                Err(error) => {
                    client.handle_error(now, error);
                    server.handle_error(now, error);
                }
            },
            2 => {
                match client.poll_action() {
                    Some(ClcAction::Send(bytes)) => {
                        let sent = ClcMessage::parse(bytes.as_slice());
                        confirmed |= matches!(sent, Ok(ClcMessage::Confirm(_)));
                        assert!(sent.is_ok());
                    }
                    Some(ClcAction::Done(outcome)) => {
                        note(&mut client_ends, outcome, confirmed);
                    }
                    _ => {}
                }
                match server.poll_action() {
                    Some(ClcAction::Send(bytes)) => {
                        let sent = ClcMessage::parse(bytes.as_slice());
                        accepted |= matches!(sent, Ok(ClcMessage::Accept(_)));
                        assert!(sent.is_ok());
                    }
                    Some(ClcAction::Done(outcome)) => {
                        note(&mut server_ends, outcome, accepted);
                    }
                    _ => {}
                }
            }
            3 => {
                client.handle_sent(now);
                server.handle_sent(now);
            }
            4 => {
                let first_contact = choice & 0x10 != 0;
                let ok = choice & 0x20 == 0;
                let mine = Prepared {
                    endpoint: end,
                    first_contact,
                    v2: None,
                };
                client.handle_prepared(now, ok.then_some(mine).ok_or(Reason::OutOfSync));
                server.handle_prepared(now, ok.then_some(mine).ok_or(Reason::Memory));
            }
            5 => {
                let ok = choice & 0x10 == 0;
                server.handle_connected(now, ok.then_some(()).ok_or(Reason::ReadyLink));
            }
            6 => {
                client.handle_llc(now, llc(choice >> 3));
                server.handle_llc(now, llc(choice >> 3));
            }
            _ if choice == 0xff => {
                client.handle_eof(now);
                server.handle_eof(now);
            }
            _ => {
                now = now.saturating_add(Duration::from_secs(u64::from(choice >> 4)));
                client.handle_timeout(now);
                server.handle_timeout(now);
            }
        }
        assert!(client_ends == 0 || !client.expects_message());
        assert!(server_ends == 0 || !server.expects_message());
    }

    // Left alone, both end by their timers.
    for _ in 0..4 {
        if let Some(deadline) = client.poll_timeout() {
            client.handle_timeout(deadline);
        }
        if let Some(deadline) = server.poll_timeout() {
            server.handle_timeout(deadline);
        }
        if let Some(ClcAction::Done(outcome)) = client.poll_action() {
            note(&mut client_ends, outcome, true);
        }
        if let Some(ClcAction::Done(outcome)) = server.poll_action() {
            note(&mut server_ends, outcome, true);
        }
    }
    assert_eq!((client_ends, server_ends), (1, 1));
    assert_eq!((client.poll_timeout(), server.poll_timeout()), (None, None));
}
