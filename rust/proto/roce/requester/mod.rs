// SPDX-License-Identifier: GPL-2.0

//! The sending half of a queue pair: which packets to send, and when a work request is complete
//! (RNIC-REQ, RNIC-TMO, RNIC-ERR-01).
//!
//! The device posts work and calls, in this order and after each input:
//! [`Requester::poll_transmit`] until `None`, [`Requester::poll_complete`] until `None`,
//! [`Requester::poll_timeout`].
//!
//! ```text
//!   records:   head  <=  acked  <=  tail          head: oldest record without a completion
//!   PSNs:      una   <=  sent   <=  tail_psn      acked: oldest record that is not done
//!              una   <=  cursor <=  sent          una: oldest PSN without an acknowledgement
//! ```
//!
//! To repeat packets is to move the cursor back to `una`: payload is read again from the memory of
//! the application (RNIC-REQ-14). Responses of READ and the like move `una` packet by packet, so a
//! repeated READ asks only for the rest (RNIC-RDA-05).
//!
//! A local failure stops the cursor. Earlier requests are still completed, with all their retries,
//! before the queue fails; so the first failing request is the one with the error status
//! (RNIC-ERR-01).
//!
//! | What                                    | File        |
//! |-----------------------------------------|-------------|
//! | Settings, steps and results             | `types`     |
//! | The send queue                          | `queue`     |
//! | Timers and counters                     | `retry`     |
//! | Acknowledgements and responses          | `answers`   |
//!
//! Unreliable services use the same queue: their packets count as acknowledged when the device has
//! them (RNIC-UD-05, RNIC-UD-10).

mod answers;
mod queue;
mod retry;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use self::{
    queue::SendRecord,
    retry::{
        ack_timeout,
        RetryLimits, //
    },
    types::{
        AnswerEffect,
        Burst,
        Delivery,
        PostError,
        RequesterConfig,
        RequesterStats,
        SendCompletion,
        SendStep, //
    },
};

use self::{
    queue::SendRing,
    retry::{
        Retry,
        RetryState, //
    },
};
use super::{
    opcode::{
        Operation,
        Service, //
    },
    plan::MessagePlan,
    psn::ExtPsn,
    reason::Reason,
    work::{
        MsgId,
        Work,
        WorkKind,
        MAX_MESSAGE, //
    },
};
use crate::proto::base::{
    time::Instant,
    verbs::Psn, //
};
use core::{
    mem::take,
    ops::DerefMut, //
};

/// Most PSNs in flight (RNIC-PSN-04).
const MAX_OUTSTANDING: u32 = Psn::HALF.wrapping_sub(1);

/// The state of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendPhase {
    /// Messages start.
    Active,
    /// Messages that have started are finished (SQD).
    Paused,
    /// Record `from` fails for `reason`, all later ones are flushed.
    Failed { from: u64, reason: Reason },
}

/// The sending half of a queue pair. See the module.
pub(crate) struct Requester<S> {
    /// Settings.
    config: RequesterConfig,
    /// Posted requests.
    ring: SendRing<S>,
    /// Whether messages start.
    phase: SendPhase,
    /// Timers and counters of retries.
    retry: RetryState,
    /// First record that is not done.
    acked: u64,
    /// Oldest PSN without an acknowledgement.
    una: ExtPsn,
    /// The record that is sent next.
    cursor: u64,
    /// PSNs of that record that the cursor has passed.
    cursor_off: u32,
    /// The PSN behind the newest packet that was ever sent.
    sent: ExtPsn,
    /// PSN of the next message that is posted.
    tail_psn: ExtPsn,
    /// READs and the like between `una` and the cursor.
    responses: u32,
    /// Their PSNs, from `una` on.
    response_psns: u32,
    /// Packets since the last one with AckReq.
    unrequested: u32,
    /// The local request that the device executes.
    executing: Option<u64>,
    /// A request that failed while earlier ones are in flight.
    failure: Option<(u64, Reason)>,
    /// Counters.
    stats: RequesterStats,
}

impl<S: DerefMut<Target = [SendRecord]>> Requester<S> {
    /// Makes a requester in state RTS, with a place for each element of `records`.
    pub(crate) fn new(config: &RequesterConfig, records: S) -> Self {
        let start = ExtPsn::start(config.first_psn);
        Self {
            config: *config,
            ring: SendRing::new(records),
            phase: SendPhase::Active,
            retry: RetryState::new(config.retry),
            acked: 0,
            una: start,
            cursor: 0,
            cursor_off: 0,
            sent: start,
            tail_psn: start,
            responses: 0,
            response_psns: 0,
            unrequested: 0,
            executing: None,
            failure: None,
            stats: RequesterStats::default(),
        }
    }

    /// The PSN of the next new packet (RNIC-PSN-06).
    pub(crate) fn next_psn(&self) -> Psn {
        self.sent.psn()
    }

    /// Whether requests are flushed: the queue pair is in state ERR, or SQE if it is unreliable.
    pub(crate) const fn is_failed(&self) -> bool {
        matches!(self.phase, SendPhase::Failed { .. })
    }

    /// Whether all messages that have started are complete while no other may start
    /// (RNIC-QPS-05).
    pub(crate) fn is_drained(&self) -> bool {
        self.phase == SendPhase::Paused
            && self.una == self.sent
            && self.executing.is_none()
            && self.acked >= self.cursor
            && self.cursor_off == 0
    }

    /// Events since [`Self::take_stats`] was called last.
    pub(crate) const fn stats(&self) -> &RequesterStats {
        &self.stats
    }

    /// Takes these events, to be added to the counters of the device.
    pub(crate) fn take_stats(&mut self) -> RequesterStats {
        take(&mut self.stats)
    }

    /// Appends a work request (RNIC-REQ-01). On a failed queue it is flushed (RNIC-ERR-06).
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    pub(crate) fn post(&mut self, work: Work) -> Result<MsgId, PostError> {
        let refused = self.refusal(&work);
        let psns = match work.kind {
            _ if refused.is_some() => 0,
            kind if kind.is_local() => 0,
            WorkKind::Send
            | WorkKind::SendImm
            | WorkKind::SendInv
            | WorkKind::Write
            | WorkKind::WriteImm
            | WorkKind::Read => self.config.mtu.packets(work.len),
            _ => 1,
        };
        let record = SendRecord {
            work,
            first: self.tail_psn,
            psns,
            refused,
            done: false,
        };
        let id = self.ring.push(record).map_err(|_| PostError::Full)?;
        self.tail_psn = record.end();
        Ok(MsgId(id))
    }

    /// Why a request can never be executed.
    fn refusal(&self, work: &Work) -> Option<Reason> {
        let kind = work.kind;
        if kind == WorkKind::Malformed {
            return Some(Reason::Malformed);
        }
        let possible = match self.config.service {
            Service::Rc => true,
            Service::Uc => matches!(
                kind,
                WorkKind::Send
                    | WorkKind::SendImm
                    | WorkKind::Write
                    | WorkKind::WriteImm
                    | WorkKind::RegMr
                    | WorkKind::LocalInv
                    | WorkKind::BindMw
            ),
            Service::Ud => matches!(kind, WorkKind::Send | WorkKind::SendImm),
            Service::Cnp => false,
        };
        if !possible {
            return Some(Reason::OtherService);
        }
        if kind.awaits_response() && self.config.max_rd_atomic == 0 {
            return Some(Reason::NoReads);
        }
        let packets = self.config.mtu.packets(work.len);
        let fits = match self.config.service {
            // RNIC-UD-01.
            Service::Ud => packets == 1,
            // All responses of a READ are in flight at a time.
            _ if kind == WorkKind::Read => packets <= MAX_OUTSTANDING,
            _ => true,
        };
        // RNIC-PSN-05.
        if !fits || work.len > MAX_MESSAGE {
            return Some(Reason::TooLong);
        }
        let exact = !kind.is_atomic() && kind != WorkKind::AtomicWrite || work.len == 8;
        (!exact).then_some(Reason::NoWord)
    }

    /// The packets of a message.
    fn plan(&self, work: &Work) -> Option<MessagePlan> {
        let (operation, companion) = work.kind.operation()?;
        let len = match operation {
            Operation::Send | Operation::Write | Operation::AtomicWrite => work.len,
            _ => 0,
        };
        Some(MessagePlan {
            service: self.config.service,
            operation,
            companion,
            len,
            mtu: self.config.mtu,
        })
    }

    /// Most packets in flight (RNIC-PSN-04), half as many while the network of this host loses packets.
    fn window(&self) -> u32 {
        let full = self.config.mtu.packets(self.config.window_octets);
        let window = self.config.window_packets.min(full);
        let window = if self.retry.is_congested() {
            window >> 1
        } else {
            window
        };
        window.max(1)
    }

    /// The network of this host did not take a packet that was sent. It counts as lost (RNIC-TX-06).
    pub(crate) fn handle_congestion(&mut self) {
        self.retry.on_congestion();
    }

    /// The PSN at the cursor.
    fn position(&self) -> ExtPsn {
        match self.ring.get(self.cursor) {
            Some(record) => record.first.after(self.cursor_off),
            None => self.tail_psn,
        }
    }

    /// Whether a message has sent a packet before.
    fn has_started(&self, record: &SendRecord) -> bool {
        record.first < self.sent
    }

    /// Whether no limit or order keeps a READ or the like back (RNIC-REQ-15, RNIC-PSN-04).
    fn response_fits(&self, record: &SendRecord) -> bool {
        self.responses < self.config.max_rd_atomic
            && record.end().since(self.una) <= MAX_OUTSTANDING
    }

    /// Whether a record starts without an acknowledgement of earlier ones.
    fn follows_freely(&self, id: u64) -> bool {
        let Some(record) = self.ring.get(id) else {
            return false;
        };
        let may_start = self.phase == SendPhase::Active || self.has_started(&record);
        may_start
            && record.refused.is_none()
            && self.failure.is_none_or(|(failed, _)| id < failed)
            && !record.work.kind.is_local()
            && !(record.work.fence && self.responses > 0)
            && (!record.work.kind.awaits_response() || self.response_fits(&record))
    }

    /// The next step: at most `room` packets, or a local request.
    pub(crate) fn poll_transmit(&mut self, now: Instant, room: u32) -> Option<SendStep> {
        loop {
            if self.is_failed() || self.executing.is_some() || self.retry.is_waiting() || room == 0
            {
                return None;
            }
            let record = self.ring.get(self.cursor)?;
            if record.done {
                // A local request that was executed before packets were repeated.
                self.cursor = self.cursor.wrapping_add(1);
                self.cursor_off = 0;
                continue;
            }
            if self
                .failure
                .is_some_and(|(failed, _)| self.cursor >= failed)
            {
                return None;
            }
            let starts = self.cursor_off == 0 && !self.has_started(&record);
            if starts && self.phase == SendPhase::Paused {
                return None;
            }
            if let Some(reason) = record.refused {
                // Earlier packets may have to be repeated.
                self.fail_at(self.cursor, reason);
                continue;
            }
            // RNIC-REQ-08.
            if self.cursor_off == 0 && record.work.fence && self.responses > 0 {
                return None;
            }
            let kind = record.work.kind;
            if kind.is_local() {
                if kind.awaits_earlier() && self.acked < self.cursor {
                    return None;
                }
                self.executing = Some(self.cursor);
                return Some(SendStep::Local(MsgId(self.cursor)));
            }
            let burst = if kind.awaits_response() {
                self.request_response(&record)?
            } else {
                self.request_packets(&record, room)?
            };
            self.retry.on_transmit(now, burst.packets);
            self.sent = self.sent.max(self.position());
            if self.config.service != Service::Rc {
                self.acknowledge_unreliable();
            }
            return Some(SendStep::Packets(burst));
        }
    }

    /// A burst at the cursor.
    fn burst(&self, record: &SendRecord, packets: u32, ack_req: bool) -> Option<Burst> {
        let offset = self.config.mtu.octets_of(self.cursor_off);
        Some(Burst {
            msg: MsgId(self.cursor),
            work: record.work,
            plan: self.plan(&record.work)?,
            index: if record.work.kind.awaits_response() {
                0
            } else {
                self.cursor_off
            },
            packets,
            psn: record.first.after(self.cursor_off).psn(),
            offset,
            rest: record.work.len.saturating_sub(offset),
            ack_req,
        })
    }

    /// The request of a READ or the like, or of its rest.
    fn request_response(&mut self, record: &SendRecord) -> Option<Burst> {
        if !self.response_fits(record) || self.retry.probe() == Some(0) {
            return None;
        }
        let burst = self.burst(record, 1, true)?;
        let psns = record.psns.saturating_sub(self.cursor_off);
        self.responses = self.responses.saturating_add(1);
        self.response_psns = self.response_psns.saturating_add(psns);
        self.unrequested = 0;
        self.cursor = self.cursor.wrapping_add(1);
        self.cursor_off = 0;
        Some(burst)
    }

    /// The next packets of a SEND or WRITE.
    fn request_packets(&mut self, record: &SendRecord, room: u32) -> Option<Burst> {
        let outstanding = self.position().since(self.una);
        let in_flight = outstanding.saturating_sub(self.response_psns);
        let window = self.window();
        let space = window
            .saturating_sub(in_flight)
            .min(MAX_OUTSTANDING.saturating_sub(outstanding))
            .min(self.retry.probe().unwrap_or(u32::MAX));
        let half = (window >> 1).max(1);
        let until_request = half.saturating_sub(self.unrequested).max(1);
        let left = record.psns.saturating_sub(self.cursor_off);
        let packets = room.min(space).min(until_request).min(left);
        if packets == 0 {
            return None;
        }
        let ends = packets == left;
        let next = self.cursor.wrapping_add(1);
        let unreliable = self.config.service != Service::Rc;
        // RNIC-REQ-02: the peer acknowledges at least here.
        let ack_req = !unreliable
            && (packets == space
                || packets == until_request
                || ends && (record.work.signaled || !self.follows_freely(next)));
        let burst = self.burst(record, packets, ack_req)?;
        self.unrequested = if ack_req {
            0
        } else {
            self.unrequested.saturating_add(packets)
        };
        if ends {
            self.cursor = next;
            self.cursor_off = 0;
        } else {
            self.cursor_off = self.cursor_off.saturating_add(packets);
        }
        Some(burst)
    }

    /// Counts everything before the cursor as acknowledged (RNIC-UD-05).
    fn acknowledge_unreliable(&mut self) {
        while self.acked < self.cursor {
            self.ring.set_done(self.acked);
            self.acked = self.acked.wrapping_add(1);
        }
        self.una = self.position();
        self.unrequested = 0;
        self.retry.stop();
    }

    /// Moves past records that are done.
    fn skip_done(&mut self) {
        while self.ring.get(self.acked).is_some_and(|record| record.done) {
            self.acked = self.acked.wrapping_add(1);
        }
        if self.failure.is_some_and(|(failed, _)| self.acked >= failed) {
            self.settle();
        }
    }

    /// Ends the queue at a request that failed.
    fn settle(&mut self) {
        if let Some((from, reason)) = self.failure.take() {
            self.phase = SendPhase::Failed { from, reason };
            self.retry.stop();
        }
    }

    /// Lets a request fail as soon as all earlier ones are complete.
    fn fail_at(&mut self, id: u64, reason: Reason) {
        if self.is_failed() || self.failure.is_some_and(|(failed, _)| failed <= id) {
            return;
        }
        self.failure = Some((id, reason));
        self.skip_done();
        self.solicit();
    }

    /// Repeats packets if none of them asks for the acknowledgement that the queue waits for.
    fn solicit(&mut self) {
        if self.unrequested > 0 && self.una < self.position() && !self.is_failed() {
            self.go_back();
        }
    }

    /// PSNs of the oldest record that are acknowledged.
    fn passed(&self) -> u32 {
        match self.ring.get(self.acked) {
            Some(record) => self.una.since(record.first),
            None => 0,
        }
    }

    /// Moves the cursor to the oldest PSN without an acknowledgement (RNIC-TMO-04).
    fn go_back(&mut self) {
        self.skip_done();
        self.cursor = self.acked;
        self.cursor_off = self.passed();
        self.responses = 0;
        self.response_psns = 0;
        self.unrequested = 0;
        self.stats.repeats = self.stats.repeats.wrapping_add(1);
    }

    /// Moves the cursor forward if an acknowledgement overtook it.
    fn catch_up(&mut self) {
        let passed = self.passed();
        if self.cursor < self.acked || self.cursor == self.acked && self.cursor_off < passed {
            self.cursor = self.acked;
            self.cursor_off = passed;
        }
    }

    /// Acknowledges all PSNs before `to`, up to the first response that is missing. Returns whether
    /// there was progress.
    fn acknowledge(&mut self, now: Instant, to: ExtPsn) -> bool {
        let before = self.una;
        while let Some(record) = self.ring.get(self.acked) {
            if !record.done {
                if record.work.kind.is_local() || record.work.kind.awaits_response() {
                    break;
                }
                if record.end() > to {
                    self.una = self.una.max(to.min(record.end()));
                    break;
                }
                self.ring.set_done(self.acked);
                self.una = record.end();
            }
            self.acked = self.acked.wrapping_add(1);
        }
        self.after_progress(now, before)
    }

    /// Updates everything that depends on the oldest PSN, if it has moved.
    fn after_progress(&mut self, now: Instant, before: ExtPsn) -> bool {
        let progress = self.una > before;
        if progress {
            self.retry.on_progress(now, self.una < self.sent);
        }
        self.skip_done();
        self.catch_up();
        progress
    }

    /// The next time at which [`Requester::handle_timeout`] has work.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.retry.poll_timeout()
    }

    /// Handles an expiry: ends an RNR wait, or repeats packets (RNIC-TMO-01, RNIC-FLOW-04).
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> AnswerEffect {
        if self.is_failed() {
            return AnswerEffect::Nothing;
        }
        let decision = self.retry.handle_timeout(now, self.una);
        if decision != Retry::Ignore {
            self.stats.timeouts = self.stats.timeouts.wrapping_add(1);
        }
        self.repeat(decision, Reason::NoAnswer)
    }

    /// Takes the result of a local request: success, or why it fails (RNIC-REQ-12).
    pub(crate) fn local_done(&mut self, msg: MsgId, result: Result<(), Reason>) {
        if self.executing != Some(msg.0) {
            return;
        }
        self.executing = None;
        match result {
            Ok(()) => {
                self.ring.set_done(msg.0);
                self.skip_done();
                self.catch_up();
            }
            Err(reason) => self.fail_at(msg.0, reason),
        }
    }

    /// Lets a request fail: its memory cannot be read or written (RNIC-REQ-10). No further packet
    /// of it is sent.
    pub(crate) fn fail(&mut self, msg: MsgId, reason: Reason) {
        if self.ring.get(msg.0).is_some() {
            self.fail_at(msg.0, reason);
        }
    }

    /// Flushes everything that is not complete: the queue pair enters state ERR (RNIC-ERR-05).
    pub(crate) fn flush(&mut self) {
        if !self.is_failed() {
            self.skip_done();
            self.failure = None;
            self.phase = SendPhase::Failed {
                from: self.acked,
                reason: Reason::Flushed,
            };
            self.retry.stop();
        }
    }

    /// Starts no further message (SQD, RNIC-QPS-05).
    pub(crate) fn pause(&mut self) {
        if self.phase == SendPhase::Active {
            self.phase = SendPhase::Paused;
            self.solicit();
        }
    }

    /// Starts messages again: RTS after SQD, or after SQE once everything is flushed
    /// (RNIC-UD-11). Returns whether that is possible.
    pub(crate) fn resume(&mut self) -> bool {
        match self.phase {
            SendPhase::Active => true,
            SendPhase::Paused => {
                self.phase = SendPhase::Active;
                true
            }
            SendPhase::Failed { .. } => {
                let flushed = self.ring.head() == self.ring.tail();
                if self.config.service == Service::Rc || !flushed {
                    return false;
                }
                self.phase = SendPhase::Active;
                self.acked = self.ring.tail();
                self.cursor = self.ring.tail();
                self.cursor_off = 0;
                // Flushed messages have sent nothing.
                self.tail_psn = self.sent;
                self.una = self.sent;
                self.executing = None;
                true
            }
        }
    }

    /// The next completion, in the order of posting (RNIC-REQ-06, RNIC-ERR-01).
    pub(crate) fn poll_complete(&mut self) -> Option<SendCompletion> {
        let id = self.ring.head();
        let record = self.ring.get(id)?;
        let result = match self.phase {
            SendPhase::Failed { from, reason } if id == from => Err(reason),
            SendPhase::Failed { from, .. } if id > from => Err(Reason::Flushed),
            // A request that failed after its last response waits for the state of the queue.
            _ if id < self.acked => Ok(()),
            _ => return None,
        };
        self.ring.pop();
        Some(SendCompletion {
            msg: MsgId(id),
            result,
            reported: record.work.signaled || result.is_err(),
        })
    }
}
