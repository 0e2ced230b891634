// SPDX-License-Identifier: GPL-2.0

//! Routes the actions of a link group to its engine, and the engine's answers back.
//!
//! The kernel's engine, both simulations and the fuzzer implement [`Host`], so that the tests run the
//! routing which the kernel runs.

use core::ops::DerefMut;

use super::{
    action::{
        Cause,
        Fail,
        LlcAction,
        LlcKind,
        RmbId, //
    },
    add::{
        LinkOffer,
        PeerOffer, //
    },
    group::Group,
    link::LinkSlot,
    msg::Octets,
    rtoken::Entry, //
};
use crate::proto::{
    base::time::Instant,
    stream::reason::Reason, //
};

/// The result of a request, or `None` if the engine calls the input of the group later.
pub(crate) type HostAnswer<T> = Option<T>;

/// The engine of a link group: it performs what the group asks for.
pub(crate) trait Host {
    /// Memory for the tables of RMBs.
    type Rows: DerefMut<Target = [Entry]>;

    /// The group; `None` once the engine has dropped it.
    fn group(&mut self) -> Option<&mut Group<Self::Rows>>;

    /// The present time.
    fn now(&self) -> Instant;

    /// Sees each action before it is performed.
    fn observe(&mut self, _action: &LlcAction) {}

    /// Posts a message, or queues it on the link, and reports its completion by `handle_sent` or
    /// `handle_send_failed` with `kind`. `false` if neither is possible.
    fn send(&mut self, slot: LinkSlot, kind: LlcKind, msg: &Octets) -> bool;

    /// As [`Self::send`], of the message that [`Group::write_long`] gives. SMC-Rv2 only.
    fn send_long(&mut self, slot: LinkSlot, kind: LlcKind) -> bool;

    /// Moves the queue pair of the link to RTS; late answers by `handle_rts`. Client only.
    fn move_to_rts(&mut self, slot: LinkSlot) -> HostAnswer<Result<(), Reason>>;

    /// Connects the queue pair that was offered and moves it to RTS; late answers by `handle_rts`.
    /// Server only.
    fn connect_link(&mut self, slot: LinkSlot, peer: &PeerOffer) -> HostAnswer<Result<(), Reason>>;

    /// Creates a queue pair for another link, with keys of all RMBs; `Some(None)` if no port is good
    /// for it; late answers by `offer_link`. With `only_new`, only a port without a link is. Server
    /// only.
    fn offer_link(&mut self, slot: LinkSlot, only_new: bool) -> HostAnswer<Option<LinkOffer>>;

    /// As [`Self::offer_link`], of a queue pair that can receive from `peer`; late answers by
    /// `accept_link`. Client only.
    fn accept_link(
        &mut self,
        slot: LinkSlot,
        peer: &PeerOffer,
        only_new: bool,
    ) -> HostAnswer<Option<LinkOffer>>;

    /// Lets connections use the link.
    fn link_up(&mut self, slot: LinkSlot);

    /// Frees the queue pair of a link that was never proven.
    fn drop_link(&mut self, slot: LinkSlot);

    /// Frees the queue pair of a link that is down.
    fn link_down(&mut self, slot: LinkSlot, cause: Cause);

    /// Moves all connections from the link to others. If `orderly`, what was posted still completes.
    fn move_connections(&mut self, from: LinkSlot, orderly: bool);

    /// Calls `request_link` with the ports that have no link. Client only.
    fn suggest_link(&mut self);

    /// Lets data flow: first contact is complete.
    fn ready(&mut self);

    /// Frees the group: first contact failed. The last action.
    fn first_contact_failed(&mut self, fail: Fail);

    /// Lets connections use the RMB.
    fn rkey_confirmed(&mut self, id: RmbId);

    /// Frees the RMB: the peer has refused it.
    fn rkey_rejected(&mut self, id: RmbId);

    /// Frees the RMB: the peer has forgotten it.
    fn rkey_deleted(&mut self, id: RmbId);

    /// Resets all connections and frees the group. The last action.
    fn terminate(&mut self, cause: Cause);
}

/// Performs all actions of the group. The engine calls it after every input.
pub(crate) fn drive<H: Host>(host: &mut H) {
    while step(host) {}
}

/// Performs the next action of the group. `false` if there is none.
pub(crate) fn step<H: Host>(host: &mut H) -> bool {
    let Some(action) = host.group().and_then(|group| group.poll_action()) else {
        return false;
    };
    host.observe(&action);
    perform(host, action);
    true
}

fn perform<H: Host>(host: &mut H, action: LlcAction) {
    match action {
        LlcAction::Send { slot, msg, kind } => {
            let sent = host.send(slot, kind, &msg);
            check_sent(host, slot, kind, sent);
        }
        LlcAction::SendLong { slot, kind } => {
            let sent = host.send_long(slot, kind);
            check_sent(host, slot, kind, sent);
        }
        LlcAction::MoveToRts { slot } => {
            let answer = host.move_to_rts(slot);
            answer_rts(host, slot, answer);
        }
        LlcAction::ConnectLink { slot, peer } => {
            let answer = host.connect_link(slot, &peer);
            answer_rts(host, slot, answer);
        }
        LlcAction::OfferLink { slot, only_new } => {
            if let Some(offer) = host.offer_link(slot, only_new) {
                feed(host, |group, now| group.offer_link(now, slot, offer));
            }
        }
        LlcAction::AcceptLink {
            slot,
            peer,
            only_new,
        } => {
            if let Some(offer) = host.accept_link(slot, &peer, only_new) {
                feed(host, |group, now| group.accept_link(now, slot, offer));
            }
        }
        LlcAction::LinkUp { slot } => host.link_up(slot),
        LlcAction::DropLink { slot } => host.drop_link(slot),
        LlcAction::LinkDown { slot, cause } => host.link_down(slot, cause),
        LlcAction::MoveConnections { from, orderly } => host.move_connections(from, orderly),
        LlcAction::SuggestLink => host.suggest_link(),
        LlcAction::Ready => host.ready(),
        LlcAction::FirstContactFailed(fail) => host.first_contact_failed(fail),
        LlcAction::RkeyConfirmed(id) => host.rkey_confirmed(id),
        LlcAction::RkeyRejected(id) => host.rkey_rejected(id),
        LlcAction::RkeyDeleted(id) => host.rkey_deleted(id),
        LlcAction::Terminate { cause } => host.terminate(cause),
    }
}

/// One input of the group at the present time.
fn feed<H: Host>(host: &mut H, input: impl FnOnce(&mut Group<H::Rows>, Instant)) {
    let now = host.now();
    if let Some(group) = host.group() {
        input(group, now);
    }
}

fn check_sent<H: Host>(host: &mut H, slot: LinkSlot, kind: LlcKind, sent: bool) {
    if !sent {
        feed(host, |group, now| group.handle_send_failed(now, slot, kind));
    }
}

fn answer_rts<H: Host>(host: &mut H, slot: LinkSlot, answer: HostAnswer<Result<(), Reason>>) {
    if let Some(result) = answer {
        feed(host, |group, now| group.handle_rts(now, slot, result));
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::testing::*,
        *, //
    };
    use crate::proto::smc::llc::Role;

    /// An engine with one link that sends nothing.
    struct Mute<'a> {
        group: Option<Group<&'a mut [Entry]>>,
        /// Drops the group at this action.
        drops_at: fn(&LlcAction) -> bool,
        done: Vec<LlcAction>,
    }

    impl<'a> Host for Mute<'a> {
        type Rows = &'a mut [Entry];

        fn group(&mut self) -> Option<&mut Group<&'a mut [Entry]>> {
            self.group.as_mut()
        }

        fn now(&self) -> Instant {
            START
        }

        fn observe(&mut self, action: &LlcAction) {
            self.done.push(*action);
            if (self.drops_at)(action) {
                self.group = None;
            }
        }

        fn send(&mut self, _: LinkSlot, _: LlcKind, _: &Octets) -> bool {
            false
        }

        fn send_long(&mut self, _: LinkSlot, _: LlcKind) -> bool {
            false
        }

        fn move_to_rts(&mut self, _: LinkSlot) -> HostAnswer<Result<(), Reason>> {
            Some(Err(Reason::Internal))
        }

        fn connect_link(&mut self, _: LinkSlot, _: &PeerOffer) -> HostAnswer<Result<(), Reason>> {
            Some(Err(Reason::Internal))
        }

        fn offer_link(&mut self, _: LinkSlot, _: bool) -> HostAnswer<Option<LinkOffer>> {
            Some(None)
        }

        fn accept_link(
            &mut self,
            _: LinkSlot,
            _: &PeerOffer,
            _: bool,
        ) -> HostAnswer<Option<LinkOffer>> {
            Some(None)
        }

        fn link_up(&mut self, _: LinkSlot) {}
        fn drop_link(&mut self, _: LinkSlot) {}
        fn link_down(&mut self, _: LinkSlot, _: Cause) {}
        fn move_connections(&mut self, _: LinkSlot, _: bool) {}
        fn suggest_link(&mut self) {}
        fn ready(&mut self) {}
        fn first_contact_failed(&mut self, _: Fail) {}
        fn rkey_confirmed(&mut self, _: RmbId) {}
        fn rkey_rejected(&mut self, _: RmbId) {}
        fn rkey_deleted(&mut self, _: RmbId) {}
        fn terminate(&mut self, _: Cause) {}
    }

    fn run(role: Role, drops_at: fn(&LlcAction) -> bool) -> Vec<LlcAction> {
        let mut rows = [Entry::EMPTY; 8];
        let mut group = new(role, &mut rows);
        group.start(START);
        if role == Role::Client {
            let confirm = confirm_link(Role::Server);
            deliver(
                &mut group,
                START,
                &super::super::msg::LlcBody::ConfirmLink(confirm),
            );
        }
        let mut host = Mute {
            group: Some(group),
            drops_at,
            done: Vec::new(),
        };
        drive(&mut host);
        host.done
    }

    #[test]
    fn message_without_a_place_fails_first_contact() {
        let done = run(Role::Server, |_| false);
        assert!(matches!(
            done[..],
            [
                LlcAction::Send { .. },
                LlcAction::FirstContactFailed(Fail::Decline(Reason::TimeoutConfirmLink))
            ]
        ));
    }

    #[test]
    fn refused_queue_pair_fails_first_contact() {
        let done = run(Role::Client, |_| false);
        assert!(matches!(
            done[..],
            [
                LlcAction::MoveToRts { .. },
                LlcAction::FirstContactFailed(Fail::Decline(Reason::Internal))
            ]
        ));
    }

    #[test]
    fn dropped_group_gets_no_answer() {
        let done = run(Role::Server, |action| {
            matches!(action, LlcAction::Send { .. })
        });
        assert_eq!(done.len(), 1);
    }
}
