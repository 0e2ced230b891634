// SPDX-License-Identifier: GPL-2.0

//! The LLC side of a link group: its links, its timers, and the dispatch of messages, RFC 7609,
//! sections 3.3 and C.7.
//!
//! The engine feeds in what happened (`handle_*`) and what it wants (the other methods), after each
//! takes out [`LlcAction`]s until there are none, and arms a timer for `poll_timeout`.

use core::ops::DerefMut;

use super::{
    action::{
        Cause,
        Fail,
        LlcAction,
        LlcKind,
        Role, //
    },
    attempts::Attempts,
    delete_link::{
        DeleteLink,
        DeleteReason, //
    },
    flow::{
        admit,
        FlowVerdict,
        LlcRequest,
        RunningFlow, //
    },
    link::{
        Leave,
        LinkRecord,
        LinkSlot,
        LocalLink,
        PeerLink,
        RecordState,
        MAX_LINKS, //
    },
    local_rmbs::LocalRmbs,
    msg::{
        Layout,
        LlcBody, //
    },
    phase::LinkPhase,
    rkey::Exchange,
    rkey_recv::Continued,
    rtoken::{
        Entry,
        PeerRmbId,
        RTokenTable,
        TableFull, //
    },
};
use crate::proto::{
    base::{
        queue::ArrayQueue,
        time::{
            earliest,
            Duration,
            Instant, //
        },
    },
    smc::wire::{
        LinkNum,
        RToken, //
    },
};

/// Most actions that wait to be taken out. One input causes at most a handful for each link.
const ACTIONS: usize = 24;

/// Most requests that wait for the end of an exchange. Notices that find no room are lost, which
/// the peer has to expect (DEP-14).
const DELAYED: usize = 2;

/// How long to wait (C.7, AMB-36).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupTimers {
    /// For each answer of the peer in first contact (TMR-02).
    pub(crate) first_contact: Duration,
    /// After this time without a reply a server repeats CONFIRM LINK: a client whose own
    /// engine was not ready yet may have dropped it. Less than half of [`Self::first_contact`].
    pub(crate) repeat_confirm: Duration,
    /// Of a client, for CONFIRM LINK after SMC Confirm, and for ADD LINK after its reply (TMR-04,
    /// TMR-13). Longer than the server waits, so that a Decline of the server arrives before the
    /// client gives up: Declines of both that cross end the connection.
    pub(crate) client_contact: Duration,
    /// For any other reply.
    pub(crate) reply: Duration,
    /// For that reply if other things keep arriving on the link, in addition.
    pub(crate) patience: Duration,
    /// Until a link on which nothing arrives is tested; zero for never (KAL-02).
    pub(crate) idle_test: Duration,
    /// Until a buffer that the peer refused for now is announced again (LLF-65), each time twice as
    /// long.
    pub(crate) rkey_retry: Duration,
    /// Until a server whose group has a single link tries again to add one, each time twice as
    /// long; zero for never (TMR-30).
    pub(crate) add_retry: Duration,
}

impl Default for GroupTimers {
    /// What Linux uses, where it has the same timer (DEP-12).
    fn default() -> Self {
        Self {
            first_contact: Duration::from_secs(5),
            repeat_confirm: Duration::from_secs(2),
            client_contact: Duration::from_secs(10),
            reply: Duration::from_secs(2),
            patience: Duration::from_secs(30),
            idle_test: Duration::from_secs(30),
            rkey_retry: Duration::from_millis(50),
            add_retry: Duration::from_secs(60),
        }
    }
}

/// What a link group is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupConfig {
    /// This side's role, the same for the life of the group (LGR-02).
    pub(crate) role: Role,
    /// This side's end of the first link.
    pub(crate) local: LocalLink,
    /// The peer's end of the first link.
    pub(crate) peer: PeerLink,
    /// Number a server gives the first link, not 0 (AMB-35). A client learns it.
    pub(crate) number: LinkNum,
    /// How many links this side supports, not counting an asymmetric one: 2 to 8, or 1 for no
    /// attempt at a second one (LLC-110).
    pub(crate) max_links: u8,
    /// How many connections are told in CONFIRM LINK: of SMC-Rv2, else 0.
    pub(crate) max_conns: u8,
    /// There is no router between both; told in SMC-Rv2 only.
    pub(crate) direct: bool,
    /// How messages are laid out, and how to take what the peer does.
    pub(crate) layout: Layout,
    /// How long to wait.
    pub(crate) timers: GroupTimers,
}

/// The LLC side of a link group. `S` is the storage for what is known of the buffers of a side.
pub(crate) struct Group<S> {
    pub(super) role: Role,
    pub(super) layout: Layout,
    direct: bool,
    pub(super) timers: GroupTimers,
    /// How many links the group may have: first what this side supports, then what both do
    /// (LGR-11).
    pub(super) max_links: u8,
    pub(super) max_conns: u8,
    /// The peer's CONFIRM LINK did not say that there are none (DEP-1).
    pub(super) eye_catchers: bool,
    pub(super) phase: LinkPhase,
    pub(super) links: [Option<LinkRecord>; MAX_LINKS],
    /// Tells the next link from others in its place.
    pub(super) next_serial: u16,
    pub(super) attempts: Attempts,
    pub(super) rkeys: Exchange,
    pub(super) own: LocalRmbs<S>,
    pub(super) rtokens: RTokenTable<S>,
    /// The buffer whose CONFIRM RKEY will be continued (LLF-62).
    pub(super) continued: Option<Continued>,
    delayed: ArrayQueue<(LinkSlot, DeleteLink), DELAYED>,
    /// How many idle links were tested.
    pub(super) tests: u64,
    actions: ArrayQueue<LlcAction, ACTIONS>,
    /// The long message that waits for the engine.
    long: Option<LlcBody>,
    /// The action behind which there is none.
    last: Option<LlcAction>,
}

impl<S: DerefMut<Target = [Entry]>> Group<S> {
    /// Makes a link group with its first link, and with room for the peer's buffers in `peer` and
    /// for those of this side in `own`. Nothing happens before [`Self::start`].
    pub(crate) fn new(config: &GroupConfig, peer: S, own: S) -> Self {
        let mut links = [const { None }; MAX_LINKS];
        if let Some(first) = links.first_mut() {
            let slot = LinkSlot::FIRST;
            *first = Some(LinkRecord::new(
                slot,
                config.local,
                config.peer,
                config.number,
            ));
        }
        Self {
            role: config.role,
            layout: config.layout,
            direct: config.direct,
            timers: config.timers,
            max_links: config.max_links,
            max_conns: config.max_conns,
            eye_catchers: false,
            phase: LinkPhase::Idle,
            links,
            next_serial: 1,
            attempts: Attempts::new(config.number),
            rkeys: Exchange::new(),
            own: LocalRmbs::new(own),
            rtokens: RTokenTable::new(peer),
            continued: None,
            delayed: ArrayQueue::new(),
            tests: 0,
            actions: ArrayQueue::new(),
            long: None,
            last: None,
        }
    }

    /// Takes in a message that arrived on a link: any SEND that is not CDC.
    pub(crate) fn handle_message(&mut self, now: Instant, slot: LinkSlot, octets: &[u8]) {
        if self.is_over() || self.link(slot).is_none() {
            return;
        }
        self.touch(now, slot);
        match LlcBody::parse(octets, self.layout) {
            Ok(message) => {
                self.layout = self.layout.shown_by(octets);
                if !message.is_request() {
                    if let Some(link) = self.link_mut(slot) {
                        link.late = None;
                    }
                }
                self.dispatch(now, slot, &message, octets);
            }
            Err(error) => self.fail(now, slot, Cause::Malformed(error)),
        }
        self.advance(now);
    }

    /// Passes a message on to the exchange it belongs to. In SMC-Rv2 some go on in `octets`.
    fn dispatch(&mut self, now: Instant, slot: LinkSlot, message: &LlcBody, octets: &[u8]) {
        let Some(link) = self.link(slot) else {
            return;
        };
        let (pending, works) = (link.is_pending(), link.works());
        let given_up = self.role == Role::Client && link.is_given_up() && message.is_request();
        match message {
            // LLC-06.
            LlcBody::Optional(_) => {}
            LlcBody::ConfirmLink(confirm) => self.on_confirm_link(now, slot, confirm),
            // LLF-01: nothing else flows on a link that is not proven.
            _ if pending => self.fail(now, slot, Cause::Unexpected(message.name())),
            LlcBody::DeleteLink(delete) => self.on_delete_link(now, slot, delete),
            // ERR-33: the server will learn, or has learnt, that the link goes.
            _ if !works || given_up => {}
            LlcBody::TestLink(test) => self.on_test_link(now, slot, test),
            // The group is about to end, and the peer knows or will know.
            _ if self.is_ending() => {}
            LlcBody::AddLink(add) => self.on_add_link(now, slot, add, octets),
            LlcBody::AddLinkCont(keys) => self.on_add_link_cont(now, slot, keys),
            LlcBody::ConfirmRkey(rkey) => self.on_confirm_rkey(now, slot, rkey),
            LlcBody::ConfirmRkeyCont(rkey) => self.on_confirm_rkey_cont(now, slot, rkey),
            LlcBody::DeleteRkey(rkey) => self.on_delete_rkey(now, slot, rkey, octets),
            // That there will be no link is no news.
            LlcBody::RequestAddLink(request) if request.reply => {}
            LlcBody::RequestAddLink(_) if self.role == Role::Server => {
                self.on_link_request(slot, true);
            }
            LlcBody::RequestAddLink(_) => {
                self.fail(now, slot, Cause::Unexpected(message.name()));
            }
        }
    }

    /// Takes in that a message was sent and that the peer's device has it.
    pub(crate) fn handle_sent(&mut self, now: Instant, slot: LinkSlot, kind: LlcKind) {
        if self.link(slot).is_none() || self.is_over() {
            return;
        }
        match kind {
            LlcKind::ConfirmLink | LlcKind::ConfirmLinkReply => self.on_confirm_link_sent(),
            LlcKind::DeleteLinkReply => self.on_delete_reply_delivered(now, slot),
            LlcKind::DeleteGroup => self.on_delete_group_sent(),
            // These wait for a reply, or for nothing.
            LlcKind::AddLink
            | LlcKind::AddLinkCont
            | LlcKind::Notice
            | LlcKind::DeleteLink
            | LlcKind::Rkey
            | LlcKind::TestLink
            | LlcKind::Reply => {}
        }
        self.advance(now);
    }

    /// Takes in that a message could not be sent (TMR-03).
    pub(crate) fn handle_send_failed(&mut self, now: Instant, slot: LinkSlot, kind: LlcKind) {
        if kind == LlcKind::DeleteLinkReply && self.link(slot).is_some() {
            self.on_delete_reply_delivered(now, slot);
        }
        self.fail(now, slot, Cause::SendFailed(kind));
        self.advance(now);
    }

    /// Takes in that a link has failed, whatever showed it.
    pub(crate) fn handle_link_down(&mut self, now: Instant, slot: LinkSlot) {
        self.fail(now, slot, Cause::LinkFailed);
        self.advance(now);
    }

    /// Takes in that time has passed. Calls that are too early do nothing.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.on_phase_timeout(now);
        self.on_add_timeout(now);
        self.on_retry_timeout(now);
        self.on_rkey_timeout(now);
        for index in 0..self.links.len() {
            if let Some(slot) = self
                .links
                .get(index)
                .and_then(|link| Some(link.as_ref()?.slot))
            {
                self.on_link_timeout(now, slot);
            }
        }
        self.advance(now);
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.is_over() {
            return None;
        }
        let idle = self.idle_test();
        let own = earliest(self.phase.deadline(), self.rkeys.deadline());
        let own = earliest(own, self.phase.repeat_at());
        let own = earliest(own, self.attempts.deadline());
        self.links
            .iter()
            .flatten()
            .map(|link| link.deadline(idle))
            .fold(own, earliest)
    }

    /// The next thing to do.
    #[must_use]
    pub(crate) fn poll_action(&mut self) -> Option<LlcAction> {
        self.actions.pop().or_else(|| self.last.take())
    }

    /// The buffer of the peer that an SMC Accept or Confirm names by its token on a link. One that
    /// is not known is entered: in first contact nothing else announces it.
    ///
    /// # Errors
    ///
    /// `TableFull` when the peer has too many (RMB-03, FBK-17).
    pub(crate) fn peer_rmb(
        &mut self,
        slot: LinkSlot,
        token: RToken,
    ) -> Result<PeerRmbId, TableFull> {
        self.rtokens.insert(slot, token)
    }

    /// The buffer of the peer that lies exactly there on a link, if the peer has announced it.
    pub(crate) fn known_rmb(&self, slot: LinkSlot, token: RToken) -> Option<PeerRmbId> {
        let id = self.rtokens.find(slot, token.rkey)?;
        self.peer_token(id, slot)
            .filter(|known| *known == token)
            .map(|_| id)
    }

    /// Where a buffer of the peer lies on a link (FOV-22).
    pub(crate) fn peer_token(&self, id: PeerRmbId, slot: LinkSlot) -> Option<RToken> {
        self.rtokens.get(id, slot)
    }

    /// Whether first contact is over and the group is not.
    pub(crate) const fn is_ready(&self) -> bool {
        matches!(self.phase, LinkPhase::Ready)
    }

    /// Whether the group is dead.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.phase, LinkPhase::Over)
    }

    /// Whether elements of either side begin with an eye catcher, and cursors behind it (RMB-12,
    /// DEP-1). Known when first contact is over.
    pub(crate) const fn has_eye_catchers(&self) -> bool {
        self.eye_catchers
    }

    /// Whether connections may use a link.
    pub(crate) fn is_active(&self, slot: LinkSlot) -> bool {
        self.active().any(|active| active == slot)
    }

    /// The links that connections may use.
    pub(crate) fn active(&self) -> impl Iterator<Item = LinkSlot> + '_ {
        let alive = !self.is_over();
        let active = self
            .slots()
            .filter(move |(_, link)| alive && link.is_active());
        active.map(|(slot, _)| slot)
    }

    /// The number of a link on the wire.
    pub(crate) fn number(&self, slot: LinkSlot) -> Option<LinkNum> {
        self.link(slot).map(|link| link.number)
    }

    /// The peer's name of a link, for people.
    pub(crate) fn peer_uid(&self, slot: LinkSlot) -> Option<u32> {
        self.link(slot)?.peer_uid
    }

    /// Whether the end of the whole group is under way: no other connection may join (LLF-44,
    /// LLF-45).
    pub(crate) const fn is_ending(&self) -> bool {
        matches!(self.phase, LinkPhase::Ending { .. })
    }

    /// A link.
    pub(super) fn link(&self, slot: LinkSlot) -> Option<&LinkRecord> {
        let link = self.links.get(slot.index())?.as_ref();
        link.filter(|link| link.slot == slot)
    }

    /// A link, to change it.
    pub(super) fn link_mut(&mut self, slot: LinkSlot) -> Option<&mut LinkRecord> {
        let link = self.links.get_mut(slot.index())?.as_mut();
        link.filter(|link| link.slot == slot)
    }

    /// All links with their slots.
    pub(super) fn slots(&self) -> impl Iterator<Item = (LinkSlot, &LinkRecord)> {
        self.links.iter().flatten().map(|link| (link.slot, link))
    }

    /// The link with a number.
    pub(super) fn slot_of(&self, number: LinkNum) -> Option<LinkSlot> {
        self.slots()
            .find(|(_, link)| link.number == number)
            .map(|(slot, _)| slot)
    }

    /// A link on which requests may be sent (LLC-04).
    pub(super) fn active_slot(&self) -> Option<LinkSlot> {
        self.slots()
            .find(|(_, link)| link.is_active())
            .map(|(slot, _)| slot)
    }

    /// The exchange that is running (COL-01). A client that has asked for the end of a link does
    /// not run one by that (LLF-40).
    fn running(&self) -> RunningFlow {
        let deletes = |link: &LinkRecord| match (self.role, link.state) {
            (Role::Server, RecordState::Leaving { stage, .. }) => {
                matches!(stage, Leave::Asked { .. })
            }
            (Role::Client, RecordState::Leaving { stage, .. }) => {
                matches!(stage, Leave::Replied { .. })
            }
            _ => false,
        };
        if self.phase.is_first_contact() || self.attempts.adding.is_some() {
            RunningFlow::AddLink
        } else if self.slots().any(|(_, link)| deletes(link)) {
            RunningFlow::DeleteLink
        } else if self.rkeys.is_waiting() {
            RunningFlow::Rkey
        } else {
            RunningFlow::Nothing
        }
    }

    /// What to do with a request of the peer.
    pub(super) fn admit(&self, request: LlcRequest) -> FlowVerdict {
        admit(self.role, self.running(), request, self.is_lenient())
    }

    /// Keeps a request until the running exchange is over.
    pub(super) fn delay(&mut self, slot: LinkSlot, delete: DeleteLink) {
        // Lost when there is no room, as notices may be.
        let _ = self.delayed.push((slot, delete));
    }

    /// Goes on with what waited for the end of an exchange.
    pub(super) fn advance(&mut self, now: Instant) {
        if self.role == Role::Client && self.is_ready() {
            // Notices are no exchanges: they do not wait.
            while self.start_delete(now) {}
            self.send_notice();
        }
        while self.is_ready() && self.running() == RunningFlow::Nothing {
            let went_on = self.start_delete(now)
                || self.start_delayed(now)
                || (self.attempts.wanted && self.start_add(now));
            if !went_on {
                break;
            }
        }
        if self.is_ready() && self.running() == RunningFlow::Nothing {
            self.start_rkey(now);
        }
    }

    /// Does what a client wanted while something else was going on. Says whether there was
    /// anything.
    fn start_delayed(&mut self, now: Instant) -> bool {
        let Some((slot, delete)) = self.delayed.pop() else {
            return false;
        };
        let answer = self.active_slot().unwrap_or(slot);
        if self.link(slot).is_some_and(LinkRecord::works) {
            self.on_delete_one(now, slot, &delete);
        } else {
            self.on_delete_one(now, answer, &delete);
        }
        true
    }

    /// Server: adds a link if that is of use. Says whether it does.
    fn start_add(&mut self, now: Instant) -> bool {
        self.attempts.wanted = false;
        if self.role == Role::Client || !self.may_add() {
            self.refuse_request();
            return false;
        }
        self.begin_add(now);
        true
    }

    /// Adds something to do.
    pub(super) fn act(&mut self, action: LlcAction) {
        if self.is_over() {
            return;
        }
        if self.actions.push(action).is_err() {
            let cause = Cause::Overflow;
            self.finish(if self.phase.is_first_contact() {
                LlcAction::FirstContactFailed(Fail::Abort(cause.reason()))
            } else {
                LlcAction::Terminate { cause }
            });
        }
    }

    /// Sends a message.
    pub(super) fn send(&mut self, slot: LinkSlot, message: &LlcBody, kind: LlcKind) {
        if let Some(msg) = message.emit(self.layout) {
            self.act(LlcAction::Send { slot, msg, kind });
        }
    }

    /// Ends everything with the last action.
    pub(super) fn finish(&mut self, last: LlcAction) {
        if !self.is_over() {
            self.phase = LinkPhase::Over;
            self.last = Some(last);
        }
    }

    /// Sends a message that may be longer than others.
    pub(super) fn send_long(&mut self, slot: LinkSlot, message: LlcBody, kind: LlcKind) {
        self.long = Some(message);
        self.act(LlcAction::SendLong { slot, kind });
    }

    /// Writes the message of [`LlcAction::SendLong`] and gives its length. `None` if the group has
    /// withdrawn it, or there is no room: it is at most [`LONG_BYTES`](super::LONG_BYTES) long.
    pub(crate) fn write_long(&mut self, buf: &mut [u8]) -> Option<usize> {
        let message = self.long.take()?;
        message.emit_long(self.layout, self.direct, self.own_pairs(), buf)
    }

    /// Ends the group: tells the peer if possible, then [`LlcAction::Terminate`] (LGR-23). Before
    /// first contact is over that fails instead.
    pub(crate) fn terminate(&mut self, now: Instant, reason: DeleteReason, orderly: bool) {
        let cause = Cause::Ended(reason);
        if self.phase.is_first_contact() {
            self.finish(LlcAction::FirstContactFailed(self.phase.verdict(cause)));
        } else if self.is_ready() {
            self.end_group(now, reason, orderly, cause);
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_group))]
mod tests {
    use super::*;
    use crate::proto::smc::llc::testing::{
        add_link,
        after,
        confirm_link,
        deliver,
        ended,
        ready,
        sent,
        test,
        TestGroup,
        DATA,
        START, //
    };

    /// The group is built on the stack of its maker.
    #[test]
    fn group_is_small() {
        assert!(size_of::<TestGroup<'_>>() <= 4096);
    }

    /// FOV-19.
    #[test]
    fn group_dies_with_its_only_link() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Client, &mut places);
        group.handle_link_down(START, LinkSlot::FIRST);
        ended(&mut group, Cause::LinkFailed);
        // What comes later is of no interest.
        group.handle_link_down(START, LinkSlot::FIRST);
        deliver(&mut group, START, &test(false, DATA));
        group.test_link(START, LinkSlot::FIRST, DATA);
        group.handle_timeout(after(1000));
        assert_eq!(group.poll_action(), None);
    }

    /// TMR-03.
    #[test]
    fn failed_send_is_the_end_of_the_link() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Client, &mut places);
        group.handle_send_failed(START, LinkSlot::FIRST, LlcKind::Reply);
        ended(&mut group, Cause::SendFailed(LlcKind::Reply));
    }

    /// ERR-40, ERR-41.
    #[test]
    fn unknown_message_is_the_end_of_the_link() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Client, &mut places);
        group.handle_message(START, LinkSlot::FIRST, &[5; 44]);
        let error = super::super::msg::LlcParseError::UnknownOpcode(5);
        ended(&mut group, Cause::Malformed(error));
    }

    /// LLC-06.
    #[test]
    fn optional_messages_are_passed_over() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Client, &mut places);
        group.handle_message(START, LinkSlot::FIRST, &[0xa0; 44]);
        assert_eq!(group.poll_action(), None);
        assert!(group.is_ready());
    }

    /// ERR-41: what belongs to another time is the end of the link.
    #[test]
    fn messages_out_of_place_are_the_end_of_the_link() {
        let mut places = [Entry::EMPTY; 2];
        for role in [Role::Client, Role::Server] {
            let mut group = ready(role, &mut places);
            let confirm = confirm_link(super::super::testing::other(role));
            deliver(&mut group, START, &LlcBody::ConfirmLink(confirm));
            ended(&mut group, Cause::Unexpected("CONFIRM LINK"));
        }
    }

    /// ERR-41: only a client replies to ADD LINK.
    #[test]
    fn client_gets_no_reply_to_add_link() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Client, &mut places);
        deliver(&mut group, START, &LlcBody::AddLink(add_link(Role::Client)));
        ended(&mut group, Cause::Unexpected("ADD LINK"));
    }

    /// An engine that takes nothing away is told so, and the group does not grow.
    #[test]
    fn too_many_actions_end_the_group() {
        let mut places = [Entry::EMPTY; 2];
        let mut group = ready(Role::Client, &mut places);
        for _ in 0..=ACTIONS {
            deliver(&mut group, START, &test(false, DATA));
        }
        for _ in 0..ACTIONS {
            assert!(sent(&mut group).is_some());
        }
        let cause = Cause::Overflow;
        assert_eq!(group.poll_action(), Some(LlcAction::Terminate { cause }));
        assert_eq!(group.poll_action(), None);
    }
}
