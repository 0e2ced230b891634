// SPDX-License-Identifier: GPL-2.0

//! Every input in every state of the set-up.

use super::*;
use std::net::Ipv4Addr;

const TRANSPORTS: [SdpTransport; 3] = [
    SdpTransport::Annex,
    SdpTransport::Iwcm,
    SdpTransport::Strict,
];
const TIMERS: SetupTimers = SetupTimers::DEFAULT;
const CM: ReadDepths = ReadDepths { ird: 5, ord: 6 };

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn offer(transport: SdpTransport) -> SdpOffer {
    SdpOffer {
        transport,
        bufs: 13,
        size: 16384,
        desired_size: 16384,
        max_adverts: 16,
        depths: ReadDepths { ird: 8, ord: 4 },
        invalidates: true,
        addrs: HelloAddrs {
            port: 40000,
            source: Ipv4Addr::new(10, 0, 0, 1).into(),
            destination: Ipv4Addr::new(10, 0, 0, 2).into(),
        },
    }
}

fn hello_octets(transport: SdpTransport) -> Vec<u8> {
    let connecting = Connecting::new(at(0), TIMERS, offer(transport), Discovery::Try);
    let hello = connecting.hello().emit(WireLayout::IdFirst);
    hello.as_slice().to_vec()
}

fn ack_octets(transport: SdpTransport) -> Vec<u8> {
    let mut accepting = Accepting::new(at(0), TIMERS, offer(transport), false);
    accepting.handle_hello(at(0), &hello_octets(transport), CM);
    match accepting.poll_step() {
        Some(SetupStep::AcceptLink(ack)) => ack.as_slice().to_vec(),
        other => panic!("{other:?}"),
    }
}

/// A step without what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Ask,
    Resolve,
    Open,
    Accept,
    Reject,
    Close,
    Established,
    FallBack(FallBackReason),
}

fn did(step: SetupStep) -> Did {
    match step {
        SetupStep::AskPortMapper => Did::Ask,
        SetupStep::Resolve(_) => Did::Resolve,
        SetupStep::OpenLink(_) => Did::Open,
        SetupStep::AcceptLink(_) => Did::Accept,
        SetupStep::RejectLink(_) => Did::Reject,
        SetupStep::CloseLink => Did::Close,
        SetupStep::Established(_) => Did::Established,
        SetupStep::FallBack(reason) => Did::FallBack(reason),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Asking,
    AskingThenTry,
    Resolving,
    Opening,
    Pausing,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Mapped,
    Resolved,
    Unresolved,
    GoodAck,
    BadAck,
    OutOfPlace,
    Refused,
    Stale,
    NoMemory,
    LinkDown,
    TooEarly,
    Timeout,
}

const INPUTS: [Input; 12] = [
    Input::Mapped,
    Input::Resolved,
    Input::Unresolved,
    Input::GoodAck,
    Input::BadAck,
    Input::OutOfPlace,
    Input::Refused,
    Input::Stale,
    Input::NoMemory,
    Input::LinkDown,
    Input::TooEarly,
    Input::Timeout,
];

/// A client in a state, and the time when it came there.
fn client(transport: SdpTransport, state: Client) -> (Connecting, Instant) {
    let discovery = match state {
        Client::AskingThenTry => Discovery::AskThenTry,
        _ => Discovery::Ask,
    };
    let mut client = Connecting::new(at(0), TIMERS, offer(transport), discovery);
    let mut now = at(0);
    if !matches!(state, Client::Asking | Client::AskingThenTry) {
        now = at(10);
        client.handle_mapped(now);
        if state != Client::Resolving {
            now = at(20);
            client.handle_resolved(now);
            if state == Client::Pausing {
                client.handle_refused(now, SetupRefusal::Stale);
            } else if state != Client::Opening {
                client.handle_hello_ack(&ack_octets(transport), CM);
            }
        }
    }
    while client.poll_step().is_some() {}
    (client, now)
}

/// What the table of the design says.
fn expected(state: Client, input: Input) -> Vec<Did> {
    use FallBackReason as Why;
    let fall_back = |reason| vec![Did::FallBack(reason)];
    let close = |reason| vec![Did::Close, Did::FallBack(reason)];
    match (state, input) {
        (Client::Done, _) | (_, Input::TooEarly) => vec![],
        (Client::Asking | Client::AskingThenTry, Input::Mapped) => vec![Did::Resolve],
        (Client::Asking, Input::Timeout) => fall_back(Why::Silent),
        (Client::AskingThenTry, Input::Timeout) => vec![Did::Resolve],
        (Client::Resolving, Input::Resolved) => vec![Did::Open],
        (Client::Resolving, Input::Unresolved) => vec![Did::Resolve],
        (Client::Resolving, Input::LinkDown | Input::Timeout) => fall_back(Why::Unresolved),
        (Client::Opening, Input::GoodAck) => vec![Did::Established],
        (Client::Opening, Input::BadAck) => close(Why::Answer(HelloFault::Bufs)),
        (Client::Opening, Input::OutOfPlace) => close(Why::OutOfPlace),
        (Client::Opening, Input::LinkDown) => close(Why::LinkDown),
        (Client::Opening, Input::Timeout) => close(Why::Timeout),
        (Client::Opening, Input::Stale) => vec![Did::Close],
        (Client::Opening, Input::NoMemory) => close(Why::Memory),
        (_, Input::NoMemory) => fall_back(Why::Memory),
        (Client::Pausing, Input::Timeout) => vec![Did::Open],
        (Client::Pausing, _) => vec![],
        (_, Input::Stale) => fall_back(Why::Refused(SetupRefusal::Stale)),
        (_, Input::Refused) => fall_back(Why::Refused(SetupRefusal::Rejected)),
        _ => vec![],
    }
}

// SDP-CS-1 to SDP-CS-6, SDP-CONN-01, SDP-CONN-09, SDP-CONN-23, SDP-CONN-30, SDP-CONN-32.
#[test]
fn connecting_end_does_what_the_table_says() {
    let states = [
        Client::Asking,
        Client::AskingThenTry,
        Client::Resolving,
        Client::Opening,
        Client::Pausing,
        Client::Done,
    ];
    for transport in TRANSPORTS {
        let good = ack_octets(transport);
        let mut bad = good.clone();
        bad[2..4].fill(0);
        for state in states {
            for input in INPUTS {
                let (mut client, since) = client(transport, state);
                let deadline = client.poll_timeout();
                assert_eq!(deadline.is_none(), state == Client::Done);
                let now = deadline.unwrap_or(since);
                match input {
                    Input::Mapped => client.handle_mapped(since),
                    Input::Resolved => client.handle_resolved(since),
                    Input::Unresolved => client.handle_unresolved(since),
                    Input::GoodAck => client.handle_hello_ack(&good, CM),
                    Input::BadAck => client.handle_hello_ack(&bad, CM),
                    Input::OutOfPlace => client.handle_out_of_place(),
                    Input::Refused => client.handle_refused(now, SetupRefusal::Rejected),
                    Input::Stale => client.handle_refused(since, SetupRefusal::Stale),
                    Input::NoMemory => client.handle_no_memory(),
                    Input::LinkDown => client.handle_link_down(),
                    Input::TooEarly => {
                        client.handle_timeout(Instant::from_nanos(now.as_nanos().saturating_sub(1)))
                    }
                    Input::Timeout => client.handle_timeout(now),
                }
                let mut steps = vec![];
                while let Some(step) = client.poll_step() {
                    steps.push(did(step));
                }
                let want = expected(state, input);
                assert_eq!(steps, want, "{transport:?} {state:?} {input:?}");
                let over = matches!(want.last(), Some(Did::Established | Did::FallBack(_)));
                let is_done = client.poll_timeout().is_none();
                assert_eq!(is_done, over || state == Client::Done);
            }
        }
    }
}

#[test]
fn connecting_end_waits_as_long_as_its_timers_say() {
    for (state, span) in [
        (Client::Asking, TIMERS.probe),
        (Client::Resolving, TIMERS.resolve),
        (Client::Opening, TIMERS.attempt),
    ] {
        let (client, since) = client(SdpTransport::Annex, state);
        assert_eq!(client.poll_timeout(), Some(since.saturating_add(span)));
    }
}

fn steps(client: &mut Connecting) -> Vec<Did> {
    core::iter::from_fn(|| client.poll_step())
        .map(did)
        .collect()
}

// A queue pair number of an older connection, and a listener without room, are not the last word.
#[test]
fn refusal_that_passes_leads_to_another_link() {
    for refusal in [SetupRefusal::Stale, SetupRefusal::Busy] {
        let (mut client, mut now) = client(SdpTransport::Annex, Client::Opening);
        let mut millis = 0;
        for pause in [10, 20, 40, 80, 160, 320, 640, 640] {
            client.handle_refused(now, refusal);
            assert_eq!(steps(&mut client), [Did::Close]);
            // A late sign of the link that was refused.
            client.handle_link_down();
            client.handle_refused(now, SetupRefusal::Rejected);
            assert_eq!(steps(&mut client), []);
            now = client.poll_timeout().unwrap();
            client.handle_timeout(now);
            assert_eq!(steps(&mut client), [Did::Open]);
            millis += pause;
            assert_eq!(now, at(20 + millis));
        }
        // The last link is accepted, or not.
        let mut accepted = client.clone();
        accepted.handle_hello_ack(&ack_octets(SdpTransport::Annex), CM);
        assert_eq!(steps(&mut accepted), [Did::Established]);
        client.handle_refused(now, refusal);
        let reason = FallBackReason::Refused(refusal);
        assert_eq!(steps(&mut client), [Did::FallBack(reason)]);
        assert_eq!(client.poll_timeout(), None);
    }
}

#[test]
fn further_links_do_not_prolong_the_attempt() {
    let (mut client, since) = client(SdpTransport::Annex, Client::Opening);
    let deadline = since.saturating_add(TIMERS.attempt);
    client.handle_refused(since, SetupRefusal::Stale);
    let resumed = client.poll_timeout().unwrap();
    client.handle_timeout(resumed);
    assert_eq!(client.poll_timeout(), Some(deadline));
    // No time is left for another pause.
    client.handle_refused(deadline, SetupRefusal::Busy);
    let reason = FallBackReason::Refused(SetupRefusal::Busy);
    assert_eq!(
        steps(&mut client),
        [Did::Close, Did::Open, Did::FallBack(reason)]
    );
}

// Two hundred clients that connect at once, on a slow host.
#[test]
fn host_that_accepts_others_is_given_time_up_to_a_limit() {
    let (mut client, since) = client(SdpTransport::Annex, Client::Opening);
    let after = |span: Duration| since.saturating_add(span);
    // A sign of before is none.
    client.handle_sign_of_life(at(0));
    assert_eq!(client.poll_timeout(), Some(after(TIMERS.attempt)));
    for secs in [1, 2, 5] {
        let sign = after(Duration::from_secs(secs));
        client.handle_sign_of_life(sign);
        let deadline = sign.saturating_add(TIMERS.attempt);
        client.handle_timeout(Instant::from_nanos(deadline.as_nanos() - 1));
        assert_eq!(client.poll_timeout(), Some(deadline));
    }
    client.handle_sign_of_life(after(TIMERS.crowd));
    assert_eq!(client.poll_timeout(), Some(after(TIMERS.crowd)));
    assert_eq!(steps(&mut client), []);
    client.handle_timeout(after(TIMERS.crowd));
    let reason = FallBackReason::Timeout;
    assert_eq!(steps(&mut client), [Did::Close, Did::FallBack(reason)]);
    client.handle_sign_of_life(after(TIMERS.crowd));
    assert_eq!(client.poll_timeout(), None);
}

#[test]
fn busy_listener_that_accepts_others_is_asked_again_up_to_the_limit() {
    let (mut client, since) = client(SdpTransport::Annex, Client::Opening);
    let limit = since.saturating_add(TIMERS.crowd);
    let (mut now, mut links) = (since, 1);
    loop {
        client.handle_sign_of_life(now);
        client.handle_refused(now, SetupRefusal::Busy);
        if client.poll_timeout().is_none() {
            break;
        }
        // It may accept another one during the pause as well.
        client.handle_sign_of_life(now.saturating_add(Duration::from_millis(5)));
        assert_eq!(steps(&mut client), [Did::Close]);
        now = client.poll_timeout().unwrap();
        client.handle_timeout(now);
        assert_eq!(steps(&mut client), [Did::Open]);
        links += 1;
    }
    let reason = FallBackReason::Refused(SetupRefusal::Busy);
    assert_eq!(steps(&mut client), [Did::FallBack(reason)]);
    // Pauses of 10 to 320 ms, 630 ms in all, and 14 of 640 ms.
    assert_eq!(links, 1 + 6 + 14);
    assert!(now < limit);
}

// A resolver may miss the answer of the neighbour until the end of its time.
#[test]
fn address_that_is_not_resolved_in_time_is_tried_for_longer_until_the_deadline() {
    let (mut client, since) = client(SdpTransport::Annex, Client::Asking);
    client.handle_mapped(since);
    let mut now = since;
    for millis in [20, 40, 80, 160, 320, 320] {
        let within = Duration::from_millis(millis);
        assert_eq!(client.poll_step(), Some(SetupStep::Resolve(within)));
        now = now.saturating_add(within);
        client.handle_unresolved(now);
    }
    let deadline = since.saturating_add(TIMERS.resolve);
    assert_eq!(client.poll_timeout(), Some(deadline));
    assert_eq!(steps(&mut client), [Did::Resolve]);
    client.handle_unresolved(deadline);
    assert_eq!(steps(&mut client), []);
    client.handle_timeout(deadline);
    let reason = FallBackReason::Unresolved;
    assert_eq!(steps(&mut client), [Did::FallBack(reason)]);
}

#[test]
fn refusal_that_stays_means_tcp_at_once() {
    for refusal in [
        SetupRefusal::Denied,
        SetupRefusal::Absent,
        SetupRefusal::Rejected,
        SetupRefusal::NoListener,
    ] {
        let (mut client, since) = client(SdpTransport::Annex, Client::Opening);
        client.handle_refused(since, refusal);
        let reason = FallBackReason::Refused(refusal);
        assert_eq!(steps(&mut client), [Did::FallBack(reason)]);
    }
}

#[test]
fn discovery_without_port_mapper_resolves_at_once() {
    let offer = offer(SdpTransport::Annex);
    let mut client = Connecting::new(at(0), TIMERS, offer, Discovery::Try);
    assert_eq!(client.poll_step().map(did), Some(Did::Resolve));
    let mut client = Connecting::new(at(0), TIMERS, offer, Discovery::Ask);
    assert_eq!(client.poll_step(), Some(SetupStep::AskPortMapper));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Child {
    Listening,
    Accepted,
    Done,
}

// SDP-CS-7 to SDP-CS-9, SDP-CONN-01, SDP-CONN-10, SDP-CONN-14, SDP-CONN-30, SDP-CONN-32 to
// SDP-CONN-34.
#[test]
fn accepting_end_does_what_the_table_says() {
    #[derive(Clone, Copy, Debug)]
    enum Event {
        Hello,
        BadHello,
        LinkUp,
        LinkDown,
        Timeout,
    }
    use Event::{
        BadHello,
        Hello,
        LinkDown,
        LinkUp,
        Timeout, //
    };
    let table = [
        (Child::Listening, Hello, Some(Did::Accept)),
        (Child::Listening, BadHello, Some(Did::Reject)),
        (Child::Listening, LinkUp, None),
        (Child::Listening, LinkDown, Some(Did::Close)),
        (Child::Listening, Timeout, Some(Did::Close)),
        (Child::Accepted, Hello, Some(Did::Close)),
        (Child::Accepted, BadHello, Some(Did::Close)),
        (Child::Accepted, LinkUp, Some(Did::Established)),
        (Child::Accepted, LinkDown, Some(Did::Close)),
        (Child::Accepted, Timeout, Some(Did::Close)),
        (Child::Done, Hello, None),
        (Child::Done, BadHello, None),
        (Child::Done, LinkUp, None),
        (Child::Done, LinkDown, None),
        (Child::Done, Timeout, None),
    ];
    for transport in TRANSPORTS {
        let good = hello_octets(transport);
        let mut bad = good.clone();
        bad[16] = 0;
        for (state, event, want) in table {
            let mut child = Accepting::new(at(0), TIMERS, offer(transport), false);
            if state != Child::Listening {
                assert!(child.handle_hello(at(1), &good, CM).is_some());
                assert!(child.poll_step().is_some());
            }
            if state == Child::Done {
                child.handle_link_up();
                assert!(child.poll_step().is_some());
            }
            match event {
                Hello => drop(child.handle_hello(at(2), &good, CM)),
                BadHello => drop(child.handle_hello(at(2), &bad, CM)),
                LinkUp => child.handle_link_up(),
                LinkDown => child.handle_link_down(),
                Timeout => {
                    let due = child.poll_timeout().unwrap_or(at(0));
                    let early = Instant::from_nanos(due.as_nanos().saturating_sub(1));
                    child.handle_timeout(early);
                    assert!(child.poll_step().is_none());
                    child.handle_timeout(due);
                }
            }
            let found = child.poll_step().map(did);
            assert_eq!(found, want, "{transport:?} {state:?} {event:?}");
            assert!(child.poll_step().is_none());
        }
    }
}

/// Terms of both ends after a set-up.
fn set_up(client: SdpOffer, server: SdpOffer) -> (SdpTerms, SdpTerms) {
    let mut connecting = Connecting::new(at(0), TIMERS, client, Discovery::Try);
    let mut accepting = Accepting::new(at(0), TIMERS, server, false);
    let _ = connecting.poll_step();
    connecting.handle_resolved(at(1));
    let Some(SetupStep::OpenLink(hello)) = connecting.poll_step() else {
        panic!("no Hello");
    };
    accepting.handle_hello(at(2), hello.as_slice(), client.depths);
    let Some(SetupStep::AcceptLink(ack)) = accepting.poll_step() else {
        panic!("no HelloAck");
    };
    let depths = match accepting.state {
        AcceptingState::Accepted(terms) => terms.depths,
        _ => panic!("not accepted"),
    };
    connecting.handle_hello_ack(ack.as_slice(), depths);
    accepting.handle_link_up();
    match (connecting.poll_step(), accepting.poll_step()) {
        (Some(SetupStep::Established(ours)), Some(SetupStep::Established(theirs))) => {
            (ours, theirs)
        }
        other => panic!("{other:?}"),
    }
}

// SDP-CONN-18, SDP-CONN-19, SDP-CONN-26, SDP-CONN-27, AMB-56, TST-026.
#[test]
fn read_depths_of_both_ends_fit() {
    for transport in TRANSPORTS {
        for (client, server) in [((8, 4), (8, 4)), ((1, 16), (3, 2)), ((9, 1), (1, 9))] {
            let with = |(ird, ord)| SdpOffer {
                depths: ReadDepths { ird, ord },
                ..offer(transport)
            };
            let (ours, theirs) = set_up(with(client), with(server));
            assert!(ours.depths.ord <= theirs.depths.ird);
            assert!(theirs.depths.ord <= ours.depths.ird);
            assert!(ours.depths.ord > 0 && theirs.depths.ord > 0);
            assert!(ours.depths.ird <= client.0 && ours.depths.ord <= client.1);
            assert!(theirs.depths.ird <= server.0 && theirs.depths.ord <= server.1);
        }
    }
}

// SDP-CRED-06, SDP-HH-01, SDP-HH-14, SDP-HAH-11, SDP-CONN-02.
#[test]
fn terms_of_each_end_are_those_of_the_other() {
    for transport in TRANSPORTS {
        let client = SdpOffer {
            bufs: 9,
            size: 4096,
            desired_size: 3000,
            ..offer(transport)
        };
        let (ours, theirs) = set_up(client, offer(transport));
        assert_eq!((ours.peer_bufs, ours.peer_size), (13, 4096));
        assert_eq!((theirs.bufs, theirs.size), (13, 4096));
        assert_eq!((theirs.peer_bufs, theirs.peer_size), (9, 4096));
        assert_eq!((ours.bufs, ours.size), (9, 4096));
        assert_eq!(ours.profile.first_mseq, theirs.profile.first_mseq);
        assert_eq!(ours.profile.dialect, Dialect::Full);
        assert_eq!(theirs.profile.dialect, Dialect::Full);
        assert_eq!(ours.role, SetupRole::Connecting);
        assert_eq!(theirs.role, SetupRole::Accepting);
    }
}

// AMB-74: a stack of OFED over iWARP puts the Hello of InfiniBand into the MPA request.
#[test]
fn hello_of_infiniband_over_iwarp_is_answered_in_its_form() {
    let mut child = Accepting::new(at(0), TIMERS, offer(SdpTransport::Iwcm), false);
    let hello = hello_octets(SdpTransport::Annex);
    assert!(child.handle_hello(at(0), &hello, CM).is_some());
    let Some(SetupStep::AcceptLink(ack)) = child.poll_step() else {
        panic!("not accepted");
    };
    assert_eq!(ack.as_slice().len(), MAX_HELLO_ACK);
    child.handle_link_up();
    let Some(SetupStep::Established(terms)) = child.poll_step() else {
        panic!("not established");
    };
    assert_eq!(terms.profile.first_mseq.get(), 1);
}

#[test]
fn peer_with_a_single_advert_on_infiniband_is_combined_only() {
    let ofed = SdpOffer {
        max_adverts: 1,
        ..offer(SdpTransport::Annex)
    };
    let (ours, _) = set_up(offer(SdpTransport::Annex), ofed);
    assert_eq!(ours.profile.dialect, Dialect::CombinedOnly);
    let (_, theirs) = set_up(ofed, offer(SdpTransport::Annex));
    assert_eq!(theirs.profile.dialect, Dialect::CombinedOnly);
}

// SDP-HH-14: a hint never makes buffers larger than ours or smaller than the floor.
#[test]
fn wanted_size_is_a_hint() {
    for (own, desired, size) in [
        (16384, 0, 2048),
        (16384, 4096, 4096),
        (16384, 4097, 8192),
        (16384, 1 << 31, 16384),
        (16384, u32::MAX, 16384),
        (37, 1, 37),
    ] {
        assert_eq!(accepted_size(own, desired), size);
    }
}

/// What a Hello and its answer of the draft say of reads.
fn depths_on_the_wire(client: ReadDepths, server: ReadDepths) -> [ReadDepths; 2] {
    let with = |depths| SdpOffer {
        depths,
        ..offer(SdpTransport::Iwcm)
    };
    let connecting = Connecting::new(at(0), TIMERS, with(client), Discovery::Try);
    let octets = connecting.hello().emit(WireLayout::IdFirst);
    let (form, hello) = SdpHello::parse(octets.as_slice(), false).unwrap();
    let HelloRest::Draft(asked) = hello.rest else {
        panic!("{form:?}");
    };
    let mut accepting = Accepting::new(at(0), TIMERS, with(server), false);
    accepting.handle_hello(at(0), octets.as_slice(), CM);
    let Some(SetupStep::AcceptLink(ack)) = accepting.poll_step() else {
        panic!("no HelloAck");
    };
    let ack = SdpHelloAck::parse(ack.as_slice(), form).unwrap();
    [asked, ack.depths.unwrap()]
}

// SDP-HH-16, SDP-HH-17, SDP-HAH-12, SDP-HAH-13, SDP-CONN-05, SDP-CONN-17.
#[test]
fn depths_in_the_messages_are_never_zero_nor_above_those_of_the_device() {
    let sizes = [1, 2, 4, 16];
    let all = sizes.map(|ird| sizes.map(|ord| ReadDepths { ird, ord }));
    for client in all.into_iter().flatten() {
        for server in all.into_iter().flatten() {
            let [asked, told] = depths_on_the_wire(client, server);
            assert_eq!(asked, client);
            assert!((1..=server.ird).contains(&told.ird));
            assert!((1..=server.ord.min(client.ird)).contains(&told.ord));
            assert!(told.ird >= server.ird.min(client.ord));
        }
    }
}

// SDP-CONN-12, SDP-CONN-13, SDP-CONN-24, SDP-CONN-25, TST-023, TST-025: there is one minor version,
// so that the lower one is the same protocol.
#[test]
fn other_minor_version_changes_nothing() {
    for minor in [0, 2, 15] {
        let mut hello = hello_octets(SdpTransport::Iwcm);
        hello[16] = 0x10 | minor;
        let mut child = Accepting::new(at(0), TIMERS, offer(SdpTransport::Iwcm), false);
        assert!(child.handle_hello(at(0), &hello, CM).is_some());
        let Some(SetupStep::AcceptLink(ack)) = child.poll_step() else {
            panic!("not accepted");
        };
        assert_eq!(ack.as_slice()[16], 0x11);
        let mut ack = ack.as_slice().to_vec();
        ack[16] = 0x10 | minor;
        let (mut client, _) = client(SdpTransport::Iwcm, Client::Opening);
        client.handle_hello_ack(&ack, CM);
        assert_eq!(client.poll_step().map(did), Some(Did::Established));
    }
}

// SDP-WIRE-02, TST-007.
#[test]
fn hello_with_its_identifier_last_is_answered_in_its_layout() {
    let connecting = Connecting::new(at(0), TIMERS, offer(SdpTransport::Iwcm), Discovery::Try);
    let hello = connecting.hello().emit(WireLayout::IdLast);
    let mut child = Accepting::new(at(0), TIMERS, offer(SdpTransport::Iwcm), true);
    assert!(child.handle_hello(at(0), hello.as_slice(), CM).is_some());
    let Some(SetupStep::AcceptLink(ack)) = child.poll_step() else {
        panic!("not accepted");
    };
    assert_eq!(ack.as_slice()[..4], [0, 13, 0, 1]);
    child.handle_link_up();
    let Some(SetupStep::Established(terms)) = child.poll_step() else {
        panic!("not established");
    };
    assert_eq!(terms.profile.layout, WireLayout::IdLast);
}
