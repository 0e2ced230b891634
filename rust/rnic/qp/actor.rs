// SPDX-License-Identifier: GPL-2.0

//! The work item of a queue pair (RNIC-RUN-01): everything that its protocol state does.

use super::{
    direct::Way,
    events::{
        set_result,
        PendingEvents, //
    },
    pair::{
        Core,
        QueuePair, //
    },
};
use crate::{
    kapi::{
        base::{
            time::now_ns,
            work::Run, //
        },
        ibdev::{
            CompletedOp,
            Completion,
            CompletionStatus,
            QpAsyncEvent,
            RecvWr, //
        },
    },
    proto::{
        base::time::{
            earliest,
            Duration,
            Instant, //
        },
        roce::{
            budget::RunBudget,
            reason::Reason,
            state::QpState, //
        },
    },
    rnic::{
        counters::Counter,
        cq::NewCompletion,
        numbers::PacketReceiver, //
    },
};
use core::sync::atomic::Ordering;
use kernel::sync::Arc;

/// Receive work requests that a run flushes.
const FLUSHES: u32 = 1_024;

/// How often rings in state ERR are flushed, and how long: afterwards only if the program calls
/// (RNIC-ERR-07).
const FLUSH_INTERVAL: Duration = Duration::from_millis(10);
const FLUSH_TIME: Duration = Duration::from_millis(1_000);

impl Run<0> for QueuePair {
    /// Runs in softirq.
    fn run(this: Arc<Self>) {
        let mut events = PendingEvents::default();
        let mut core = this.core.lock();
        if core.dead {
            return;
        }
        this.count(Counter::Runs);
        let now = Instant::from_nanos(now_ns());
        let (more, given) = this.step(&mut core, &mut events, now);
        this.set_timer(&mut core, now);
        drop(core);
        if let Some(peer) = given {
            peer.wake();
        }
        this.report(&events);
        if more {
            this.kick();
        }
    }
}

impl QueuePair {
    /// Does what there is to do, up to the budget in each direction (RNIC-RUN-04). Returns whether there may
    /// be more, and the queue pair that it gave packets to.
    fn step(
        self: &Arc<Self>,
        core: &mut Core,
        events: &mut PendingEvents,
        now: Instant,
    ) -> (bool, Option<Arc<dyn PacketReceiver>>) {
        let unread = self.take_packets(core, events, now);
        // The program gets them before packets are sent.
        self.flush_completions(core, events);
        if self.expired.swap(false, Ordering::Acquire) {
            core.armed = None;
        }
        self.expire(core, now);
        let unread = self.take_posts(core, events) || unread;
        let way = self.choose_way(core, now);
        self.note_nearness(core);
        let half = core.responder.as_ref();
        let replies = half.map_or(0, |half| half.replies_due());
        let mut budget = RunBudget::new(self.room_on(&way), replies);
        let outlet = way.outlet(self, now);
        self.transmit(core, now, outlet, &mut budget);
        budget.end_requests();
        // An acknowledgement says that the octets are there.
        if self.kind.is_connected() && core.late.is_due(now) {
            self.place_late(core, events);
            self.reply(core, events, outlet, &mut budget);
        }
        let sent = budget.has_sent();
        if sent && matches!(way, Way::Prove) {
            self.note_proof(core, now);
        }
        self.complete_sends(core, events);
        let sends_failed = core.requester.as_ref().is_some_and(|half| half.is_failed());
        let receives_failed = core.responder.as_ref().is_some_and(|half| half.is_failed());
        if (sends_failed || receives_failed) && core.state.receives() {
            self.fail(core, receives_failed);
            self.complete_sends(core, events);
        }
        let flushing = core.state == QpState::Err && self.flush(core, events);
        self.flush_completions(core, events);
        self.note_progress(core, events);
        self.count_events(core);
        let more = unread || flushing || budget.is_spent();
        let given = match way {
            Way::Direct(peer) if sent => Some(peer),
            _ => None,
        };
        (more, given)
    }

    /// Packets that this run may send. The network of this host takes none while it holds many.
    fn room_on(self: &Arc<Self>, way: &Way) -> u32 {
        let is_open = matches!(way, Way::Direct(_)) || self.room.has_room(self);
        if is_open {
            way.room(RunBudget::PACKETS)
        } else {
            0
        }
    }

    /// Handles packets that arrived. Returns whether there are more than the budget.
    fn take_packets(
        self: &Arc<Self>,
        core: &mut Core,
        events: &mut PendingEvents,
        now: Instant,
    ) -> bool {
        let mut handled = 0_u32;
        while handled < RunBudget::PACKETS {
            // The lock is not held while the packet is handled.
            let arrived = self.inbox.lock().pop();
            let Some(arrived) = arrived else {
                return false;
            };
            handled = handled.saturating_add(arrived.packets());
            if core.state.receives() {
                self.take_packet(core, events, now, &arrived);
            } else {
                self.count(Counter::DropState);
            }
            // Another run handles the next one.
            if !self.domain.node.runtime().paths().coalesce && self.owes_reply(core) {
                return true;
            }
        }
        true
    }

    /// Whether the peer waits for a reply.
    fn owes_reply(&self, core: &Core) -> bool {
        core.responder
            .as_ref()
            .is_some_and(|half| half.replies_due() > 0)
    }

    /// Handles the expiry of the timers of the sending half.
    fn expire(&self, core: &mut Core, now: Instant) {
        if let Some(requester) = &mut core.requester {
            if requester.poll_timeout().is_some_and(|due| due <= now) {
                requester.handle_timeout(now);
            }
        }
    }

    /// Arms the timer for the next expiry.
    fn set_timer(self: &Arc<Self>, core: &mut Core, now: Instant) {
        let due = core.requester.as_ref().and_then(|half| half.poll_timeout());
        let due = earliest(due, core.late.poll_timeout());
        let due = earliest(due, self.next_flush(core, now));
        let Some(due) = earliest(due, core.held) else {
            return;
        };
        // An expiry that comes too early arms the timer again.
        if core.armed.is_none_or(|armed| due < armed) {
            core.armed = Some(due);
            self.alarm.rearm(self, due.saturating_since(now).as_nanos());
        }
    }

    /// The next time to flush rings in state ERR: a program fills its receive ring without a call
    /// (RNIC-ERR-07).
    fn next_flush(&self, core: &mut Core, now: Instant) -> Option<Instant> {
        if core.state != QpState::Err || core.rings.is_none() {
            return None;
        }
        let since = match core.failed {
            Some(since) => since,
            None => {
                core.failed = Some(now);
                self.send_cq.note_failed(self.number);
                self.recv_cq.note_failed(self.number);
                now
            }
        };
        (now < since.saturating_add(FLUSH_TIME)).then(|| now.saturating_add(FLUSH_INTERVAL))
    }

    /// Enters state ERR after one half failed (RNIC-ERR-05). Unless `whole`, only a send request did, and
    /// an unreliable service goes on to receive (RNIC-UD-11).
    pub(super) fn fail(&self, core: &mut Core, whole: bool) {
        let next = if whole {
            QpState::Err
        } else {
            QpState::after_send_error(self.service())
        };
        if let Some(requester) = &mut core.requester {
            requester.flush();
        }
        if let Some(responder) = core.responder.as_mut().filter(|_| next == QpState::Err) {
            // A responder that failed has a NAK to send.
            if !responder.is_failed() {
                responder.flush();
            }
        }
        core.state = match core.state {
            QpState::Reset | QpState::Init => core.state,
            _ => next,
        };
        if core.state == QpState::Err {
            drop(core.late.take());
        }
        self.apply_posting(core.state);
    }

    /// Completes all requests with a flush error (RNIC-ERR-01, RNIC-ERR-02). Returns whether there may be
    /// more than the budget: a program may fill its ring meanwhile (RNIC-SEC-06).
    fn flush(&self, core: &mut Core, events: &mut PendingEvents) -> bool {
        if let Some(wr) = core.receiving.take() {
            self.complete_receive(core, &wr, false, events, |completion| {
                set_result(completion, Err(Reason::Flushed));
            });
        }
        // What waits in a shared queue is for others.
        if self.srq.is_some() && !core.last_receive {
            core.last_receive = true;
            events.last_receive = true;
        }
        for _ in 0..FLUSHES {
            let Some(wr) = self.next_receive(core) else {
                return false;
            };
            self.complete_receive(core, &wr, false, events, |completion| {
                set_result(completion, Err(Reason::Flushed));
            });
        }
        true
    }

    /// Completes a receive request; `change` says how it differs from an empty message, and
    /// `solicited` whether the sender asked for an event.
    pub(super) fn complete_receive(
        &self,
        core: &mut Core,
        wr: &RecvWr,
        solicited: bool,
        events: &mut PendingEvents,
        change: impl FnOnce(&mut Completion),
    ) {
        let mut completion = self.completion(wr.id, CompletedOp::Receive);
        change(&mut completion);
        if completion.status == CompletionStatus::Success {
            self.count(Counter::Receives);
        }
        let rings = core.rings.as_mut();
        if let Some(receives) = rings.and_then(|rings| rings.receives.as_mut()) {
            receives.release();
        }
        let new = NewCompletion {
            completion,
            solicited,
        };
        if !core.received.add(&self.recv_cq, new) {
            events.fatal = true;
        }
    }

    /// Gives the completions that wait to their queues. A request that failed comes before what is flushed
    /// for it.
    fn flush_completions(&self, core: &mut Core, events: &mut PendingEvents) {
        let sent = core.sent.flush(&self.send_cq);
        let received = core.received.flush(&self.recv_cq);
        if !sent || !received {
            events.fatal = true;
        }
    }

    /// A successful completion without data.
    pub(super) fn completion(&self, id: u64, op: CompletedOp) -> Completion {
        Completion {
            id,
            status: CompletionStatus::Success,
            reason: 0,
            op,
            len: 0,
            qp: self.handle.token(),
            qpn: self.number.get(),
            imm: None,
            invalidated: None,
            datagram: None,
        }
    }

    /// Notes events that follow from the state, and fails if a completion queue overflowed
    /// (RNIC-ERR-09). A queue pair that had failed before reports nothing: a program could fill the memory of
    /// the kernel with such events, one for each doorbell.
    fn note_progress(&self, core: &mut Core, events: &mut PendingEvents) {
        events.fatal = events.fatal && core.state.receives();
        if events.fatal {
            self.fail(core, true);
        }
        let established = core
            .responder
            .as_mut()
            .is_some_and(|half| half.take_established());
        // RNIC-RSP-19.
        if established && core.state == QpState::Rtr {
            events.established = true;
        }
        let drained = core
            .requester
            .as_ref()
            .is_some_and(|half| half.is_drained());
        if core.draining && drained {
            core.draining = false;
            events.drained = core.reports_drained;
        }
    }

    /// Reports events to the program (RNIC-EVT-02).
    fn report(&self, events: &PendingEvents) {
        let list = [
            (events.established, QpAsyncEvent::Established),
            (events.drained, QpAsyncEvent::Drained),
            (events.fatal, QpAsyncEvent::Fatal),
            (events.request_error, QpAsyncEvent::RequestError),
            (events.access_error, QpAsyncEvent::AccessError),
            (events.last_receive, QpAsyncEvent::LastReceive),
        ];
        for (happened, event) in list {
            if happened {
                self.handle.dispatch(event);
            }
        }
    }
}
