// SPDX-License-Identifier: GPL-2.0

//! A link group whose peer, and whose engine, do whatever they like: it keeps its promises to the
//! engine all the same.

use proptest::prelude::*;

use super::{
    action::{
        LlcAction,
        LlcKind,
        RmbId,
        Role, //
    },
    delete_link::DeleteReason,
    group::Group,
    link::{
        LinkSlot,
        LocalLink,
        MAX_LINKS, //
    },
    msg::{
        Layout,
        LlcBody, //
    },
    rtoken::Entry,
    testing::{
        config,
        confirm_link,
        offer,
        other,
        token,
        START, //
    },
    LinkOffer, //
};
use crate::proto::{
    base::time::{
        Duration,
        Instant, //
    },
    stream::reason::Reason, //
};

/// Something that happens to a group.
#[derive(Clone, Debug)]
enum Step {
    Start,
    /// The CONFIRM LINK that fits.
    Confirm,
    /// A message with a valid opcode and length, else arbitrary, on some link.
    Message(u8, u8, Vec<u8>),
    /// What was sent last, as a reply or else changed in an octet.
    Echo(u8, u8, u8),
    /// Arbitrary octets.
    Octets(u8, Vec<u8>),
    Sent(u8, LlcKind),
    SendFailed(u8, LlcKind),
    LinkDown(u8),
    Rts(u8, bool),
    /// An end for another link, on one of some ports.
    Offer(u8, bool),
    Request,
    DeleteLink(u8, bool),
    Pass(u64),
    ConfirmRkey(u16),
    DeleteRkey(u16),
    Test,
    Terminate,
    PeerRmb(u32),
    /// The engine takes away this many actions.
    Drain(u8),
}

fn kinds() -> impl Strategy<Value = LlcKind> {
    prop_oneof![
        Just(LlcKind::ConfirmLink),
        Just(LlcKind::ConfirmLinkReply),
        Just(LlcKind::AddLink),
        Just(LlcKind::AddLinkCont),
        Just(LlcKind::Notice),
        Just(LlcKind::DeleteLink),
        Just(LlcKind::DeleteLinkReply),
        Just(LlcKind::DeleteGroup),
        Just(LlcKind::Rkey),
        Just(LlcKind::TestLink),
        Just(LlcKind::Reply),
    ]
}

/// Which of the links that were ever named, from the latest.
fn links() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(0_u8), 3 => Just(1), 1 => 0..6_u8]
}

fn steps() -> impl Strategy<Value = Step> {
    let body = || proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 42);
    prop_oneof![
        4 => Just(Step::Start),
        6 => Just(Step::Confirm),
        16 => (links(), 1..10_u8, body()).prop_map(|(l, o, b)| Step::Message(l, o, b)),
        16 => (links(), 0..44_u8, any::<u8>()).prop_map(|(l, at, x)| Step::Echo(l, at, x)),
        1 => (links(), proptest::collection::vec(any::<u8>(), 0..50))
            .prop_map(|(l, o)| Step::Octets(l, o)),
        6 => (links(), kinds()).prop_map(|(l, k)| Step::Sent(l, k)),
        1 => (links(), kinds()).prop_map(|(l, k)| Step::SendFailed(l, k)),
        1 => links().prop_map(Step::LinkDown),
        6 => (links(), any::<bool>()).prop_map(|(l, good)| Step::Rts(l, good)),
        8 => (0..4_u8, any::<bool>()).prop_map(|(port, good)| Step::Offer(port, good)),
        3 => Just(Step::Request),
        1 => (links(), any::<bool>()).prop_map(|(l, o)| Step::DeleteLink(l, o)),
        3 => (0..40_000_u64).prop_map(Step::Pass),
        4 => (0..40_u16).prop_map(Step::ConfirmRkey),
        2 => (0..40_u16).prop_map(Step::DeleteRkey),
        2 => Just(Step::Test),
        1 => Just(Step::Terminate),
        2 => (0..8_u32).prop_map(Step::PeerRmb),
        8 => (0..4_u8).prop_map(Step::Drain),
    ]
}

/// A group and what its engine has seen of it.
struct Engine {
    group: Group<Vec<Entry>>,
    now: Instant,
    ready: bool,
    last: bool,
    /// All links there ever were, the latest first.
    links: Vec<LinkSlot>,
    /// Those that have an end.
    held: Vec<LinkSlot>,
    /// The link an end is wanted for.
    asked: Option<LinkSlot>,
    /// What was sent last.
    sent: Vec<u8>,
}

impl Engine {
    /// Takes an action away and checks that it may come.
    fn take(&mut self, role: Role) -> Option<LlcAction> {
        let action = self.group.poll_action()?;
        assert!(!self.last, "{action:?} behind the last action");
        match action {
            LlcAction::Send { msg, .. } => {
                // What a group sends can be read.
                assert!(LlcBody::parse(&msg, self.group.layout).is_ok());
                self.sent = msg.to_vec();
            }
            LlcAction::SendLong { .. } => {
                let mut buf = vec![0; super::LONG_BYTES];
                if let Some(len) = self.group.write_long(&mut buf) {
                    buf.truncate(len);
                    assert!(LlcBody::parse(&buf, self.group.layout).is_ok());
                    self.sent = buf;
                }
            }
            LlcAction::MoveToRts { .. } | LlcAction::SuggestLink => assert_eq!(role, Role::Client),
            LlcAction::ConnectLink { .. } => assert_eq!(role, Role::Server),
            LlcAction::OfferLink { slot, .. } | LlcAction::AcceptLink { slot, .. } => {
                let offers = matches!(action, LlcAction::OfferLink { .. });
                assert_eq!(offers, role == Role::Server);
                assert!(!self.links.contains(&slot), "{slot:?} is used again");
                self.links.insert(0, slot);
                self.asked = Some(slot);
            }
            LlcAction::Ready => {
                assert!(!self.ready);
                self.ready = true;
            }
            LlcAction::FirstContactFailed(_) => {
                assert!(!self.ready);
                self.last = true;
            }
            LlcAction::Terminate { .. } => {
                assert!(self.ready);
                self.last = true;
            }
            LlcAction::LinkDown { slot, .. } => {
                assert!(self.ready);
                let at = self.held.iter().position(|held| *held == slot);
                self.held.remove(at.expect("what goes was there"));
            }
            LlcAction::DropLink { slot } => {
                let at = self.held.iter().position(|held| *held == slot);
                self.held.remove(at.expect("what goes was there"));
            }
            LlcAction::LinkUp { slot } => assert!(self.held.contains(&slot)),
            LlcAction::MoveConnections { from, .. } => assert!(self.held.contains(&from)),
            LlcAction::RkeyConfirmed(_)
            | LlcAction::RkeyRejected(_)
            | LlcAction::RkeyDeleted(_) => {
                assert!(self.ready);
            }
        }
        assert!(self.held.len() <= MAX_LINKS);
        Some(action)
    }

    /// One of the links there ever were.
    fn link(&self, at: u8) -> LinkSlot {
        let last = self.links.len().saturating_sub(1);
        self.links[usize::from(at).min(last)]
    }

    fn step(&mut self, role: Role, step: &Step) {
        let (now, slot) = (self.now, LinkSlot::FIRST);
        let of = |at: &u8| self.link(*at);
        let (mut sent, v2) = (self.sent.clone(), self.group.layout.is_v2());
        match step {
            Step::Start => self.group.start(now),
            Step::Confirm => {
                let message = LlcBody::ConfirmLink(confirm_link(other(role)));
                if let Some(octets) = message.emit(self.group.layout) {
                    self.group.handle_message(now, slot, &octets);
                }
            }
            Step::Message(at, opcode, body) => {
                let slot = of(at);
                let mut octets = vec![*opcode, 44];
                octets.extend(body);
                if v2 {
                    octets[0] |= 0x20;
                    octets[2] = 0;
                }
                self.group.handle_message(now, slot, &octets);
            }
            Step::Echo(at, which, xor) => {
                let slot = of(at);
                if let Some(octet) = sent.get_mut(usize::from(*which)) {
                    if *which % 4 == 0 {
                        *octet ^= xor;
                    }
                    sent[3] ^= 0x80;
                    self.group.handle_message(now, slot, &sent);
                }
            }
            Step::Octets(at, octets) => {
                let slot = of(at);
                self.group.handle_message(now, slot, octets);
            }
            Step::Sent(at, kind) => {
                let slot = of(at);
                self.group.handle_sent(now, slot, *kind);
            }
            Step::SendFailed(at, kind) => {
                let slot = of(at);
                self.group.handle_send_failed(now, slot, *kind);
            }
            Step::LinkDown(at) => {
                let slot = of(at);
                self.group.handle_link_down(now, slot);
            }
            Step::Rts(at, good) => {
                let slot = of(at);
                let result = if *good {
                    Ok(())
                } else {
                    Err(Reason::ReadyLink)
                };
                self.group.handle_rts(now, slot, result);
            }
            Step::Offer(port, good) => self.offer(role, *port, *good),
            Step::Request => self.group.request_link(now, &[offer().local.port()]),
            Step::DeleteLink(at, orderly) => {
                let slot = of(at);
                let reason = DeleteReason::Operator;
                self.group.delete_link(now, slot, reason, *orderly);
            }
            Step::Pass(millis) => {
                self.now = now.saturating_add(Duration::from_millis(*millis));
                self.group.handle_timeout(self.now);
                if let Some(deadline) = self.group.poll_timeout() {
                    assert!(deadline > self.now, "timer does not move");
                }
            }
            Step::ConfirmRkey(id) => {
                let tokens: Vec<_> = self
                    .held
                    .iter()
                    .map(|slot| (*slot, token(u32::from(*id))))
                    .collect();
                let _ = self.group.confirm_rkey(now, RmbId(*id), &tokens);
            }
            Step::DeleteRkey(id) => {
                let _ = self.group.delete_rkey(now, RmbId(*id));
            }
            Step::Test => self.group.test_link(now, slot, [3; 16]),
            Step::Terminate => self.group.terminate(now, DeleteReason::Operator, false),
            Step::PeerRmb(rkey) => {
                if let Ok(id) = self.group.peer_rmb(slot, token(*rkey)) {
                    assert_eq!(self.group.peer_token(id, slot), Some(token(*rkey)));
                }
            }
            Step::Drain(count) => {
                for _ in 0..*count {
                    self.take(role);
                }
            }
        }
    }

    /// Answers the last question for an end.
    fn offer(&mut self, role: Role, port: u8, good: bool) {
        let Some(slot) = self.asked.take() else {
            return;
        };
        let good = good && !self.last && !self.group.is_over();
        for id in (0..40).filter(|_| good) {
            self.group.set_token(RmbId(id), slot, token(u32::from(id)));
        }
        let mut local: LocalLink = offer().local;
        let mut octets = local.mac.get();
        octets[5] = port;
        local.mac = crate::proto::base::verbs::Mac::new(octets);
        let offer = good.then_some(LinkOffer { local, ..offer() });
        if good {
            self.held.push(slot);
        }
        match role {
            Role::Client => self.group.accept_link(self.now, slot, offer),
            Role::Server => self.group.offer_link(self.now, slot, offer),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Whatever happens, actions come in a sensible order, timers move on, and a group that is over
    /// stays so.
    #[test]
    fn nothing_confuses_a_group(
        server in any::<bool>(),
        drain in any::<bool>(),
        layout in 0..3_usize,
        steps in proptest::collection::vec(steps(), 0..60),
    ) {
        let role = if server { Role::Server } else { Role::Client };
        let rows = || vec![Entry::EMPTY; 3];
        let mut engine = Engine {
            group: Group::new(&config(role), rows(), rows()),
            now: START,
            ready: false,
            last: false,
            links: vec![LinkSlot::FIRST],
            held: vec![LinkSlot::FIRST],
            asked: None,
            sent: Vec::new(),
        };
        engine.group.layout = [Layout::Rfc, Layout::Linux, Layout::V2][layout];
        for step in &steps {
            let over = engine.group.is_over();
            engine.step(role, step);
            while drain && engine.take(role).is_some() {}
            prop_assert!(!over || engine.group.is_over());
        }
        while engine.take(role).is_some() {}
        prop_assert_eq!(engine.last, engine.group.is_over());
        prop_assert!(engine.group.poll_timeout().is_none() || !engine.last);
    }
}
