// SPDX-License-Identifier: GPL-2.0

//! A link group whose peer, and whose engine, do whatever they like: it keeps its promises to the
//! engine all the same.

use proptest::prelude::*;

use super::{
    action::{Action, Kind, RmbId, Role},
    delete_link::DeleteReason,
    group::Group,
    link::Slot,
    rtoken::Entry,
    testing::{config, confirm_link, offer, other, token, START},
};
use crate::proto::{
    llc::msg::{Layout, Message},
    reason::Reason,
    time::{Duration, Instant},
};

/// Something that happens to a group.
#[derive(Clone, Debug)]
enum Step {
    Start,
    /// The CONFIRM LINK that fits.
    Confirm,
    /// A message with a valid opcode and length, else arbitrary.
    Message(u8, Vec<u8>),
    /// Arbitrary octets.
    Octets(Vec<u8>),
    Sent(Kind),
    SendFailed(Kind),
    LinkDown(u8),
    Rts(bool),
    Offer,
    Pass(u64),
    ConfirmRkey(u16),
    DeleteRkey(u16),
    Test,
    Terminate,
    PeerRmb(u32),
    /// The engine takes away this many actions.
    Drain(u8),
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::ConfirmLink),
        Just(Kind::ConfirmLinkReply),
        Just(Kind::AddLink),
        Just(Kind::DeleteLink),
        Just(Kind::DeleteLinkReply),
        Just(Kind::DeleteGroup),
        Just(Kind::Rkey),
        Just(Kind::TestLink),
        Just(Kind::Reply),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let body = || proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 42);
    prop_oneof![
        4 => Just(Step::Start),
        6 => Just(Step::Confirm),
        16 => (1..10_u8, body()).prop_map(|(opcode, body)| Step::Message(opcode, body)),
        1 => proptest::collection::vec(any::<u8>(), 0..50).prop_map(Step::Octets),
        6 => kinds().prop_map(Step::Sent),
        1 => kinds().prop_map(Step::SendFailed),
        1 => (0..4_u8).prop_map(Step::LinkDown),
        4 => any::<bool>().prop_map(Step::Rts),
        4 => Just(Step::Offer),
        3 => (0..40_000_u64).prop_map(Step::Pass),
        4 => any::<u16>().prop_map(Step::ConfirmRkey),
        2 => any::<u16>().prop_map(Step::DeleteRkey),
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
}

impl Engine {
    /// Takes an action away and checks that it may come.
    fn take(&mut self, role: Role) -> Option<Action> {
        let action = self.group.poll_action()?;
        assert!(!self.last, "{action:?} behind the last action");
        match action {
            Action::Send { msg, .. } => {
                // What a group sends can be read.
                assert!(Message::parse(&msg, Layout::Linux).is_ok());
            }
            Action::MoveToRts { .. } => assert_eq!(role, Role::Client),
            Action::OfferLink | Action::DropOffer => assert_eq!(role, Role::Server),
            Action::Ready => {
                assert!(!self.ready);
                self.ready = true;
            }
            Action::FirstContactFailed(_) => {
                assert!(!self.ready);
                self.last = true;
            }
            Action::Terminate { .. } => {
                assert!(self.ready);
                self.last = true;
            }
            Action::LinkDown { .. }
            | Action::RkeyConfirmed(_)
            | Action::RkeyRejected(_)
            | Action::RkeyDeleted(_) => assert!(self.ready),
        }
        Some(action)
    }

    fn step(&mut self, role: Role, step: &Step) {
        let (group, now, slot) = (&mut self.group, self.now, Slot::FIRST);
        match step {
            Step::Start => group.start(now),
            Step::Confirm => {
                let message = Message::ConfirmLink(confirm_link(other(role)));
                if let Some(octets) = message.emit(Layout::Linux) {
                    group.handle_message(now, slot, &octets);
                }
            }
            Step::Message(opcode, body) => {
                let mut octets = vec![*opcode, 44];
                octets.extend(body);
                group.handle_message(now, slot, &octets);
            }
            Step::Octets(octets) => group.handle_message(now, slot, octets),
            Step::Sent(kind) => group.handle_sent(now, slot, *kind),
            Step::SendFailed(kind) => group.handle_send_failed(now, slot, *kind),
            Step::LinkDown(index) => {
                if let Some(slot) = Slot::new(*index) {
                    group.handle_link_down(now, slot);
                }
            }
            Step::Rts(good) => {
                let result = if *good {
                    Ok(())
                } else {
                    Err(Reason::ReadyLink)
                };
                group.handle_rts(now, slot, result);
            }
            Step::Offer => group.offer_link(now, offer()),
            Step::Pass(millis) => {
                self.now = now.saturating_add(Duration::from_millis(*millis));
                group.handle_timeout(self.now);
                if let Some(deadline) = group.poll_timeout() {
                    assert!(deadline > self.now, "timer does not move");
                }
            }
            Step::ConfirmRkey(id) => {
                let tokens = [(slot, token(u32::from(*id)))];
                let _ = group.confirm_rkey(now, RmbId(*id), &tokens);
            }
            Step::DeleteRkey(id) => {
                let tokens = [(slot, token(u32::from(*id)))];
                let _ = group.delete_rkey(now, RmbId(*id), &tokens);
            }
            Step::Test => group.test_link(now, slot, [3; 16]),
            Step::Terminate => group.terminate(now, DeleteReason::Operator, false),
            Step::PeerRmb(rkey) => {
                if let Ok(id) = group.peer_rmb(slot, token(*rkey)) {
                    assert_eq!(group.peer_token(id, slot), Some(token(*rkey)));
                }
            }
            Step::Drain(count) => {
                for _ in 0..*count {
                    self.take(role);
                }
            }
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
        steps in proptest::collection::vec(steps(), 0..60),
    ) {
        let role = if server { Role::Server } else { Role::Client };
        let mut engine = Engine {
            group: Group::new(&config(role), vec![Entry::EMPTY; 3]),
            now: START,
            ready: false,
            last: false,
        };
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
