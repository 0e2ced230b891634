// SPDX-License-Identifier: GPL-2.0

//! Answers of the peer: acknowledgements, responses, and their absence (RNIC-REQ-03 to RNIC-REQ-07,
//! RNIC-RDA-05, RNIC-RDA-06, RNIC-TMO-04).

use super::{
    retry::Retry,
    AnswerEffect,
    Delivery,
    Requester,
    SendRecord, //
};
use crate::proto::{
    base::{
        time::Instant,
        verbs::Psn, //
    },
    roce::{
        aeth::{
            NakCode,
            RnrTimer,
            Syndrome, //
        },
        header::Aeth,
        opcode::{
            Position,
            Service, //
        },
        psn::ExtPsn,
        reason::Reason,
        work::{
            MsgId,
            WorkKind, //
        },
    },
};
use core::ops::DerefMut;

impl<S: DerefMut<Target = [SendRecord]>> Requester<S> {
    /// A PSN of an answer, if a packet with it is in flight.
    fn answered(&mut self, psn: Psn) -> Result<ExtPsn, AnswerEffect> {
        if self.is_failed() || self.config.service != Service::Rc {
            return Err(AnswerEffect::Nothing);
        }
        let psn = self.una.nearest(psn);
        if psn < self.una {
            self.stats.duplicate_answers = self.stats.duplicate_answers.wrapping_add(1);
            return Err(AnswerEffect::Duplicate);
        }
        if psn >= self.sent {
            self.stats.ghost_answers = self.stats.ghost_answers.wrapping_add(1);
            return Err(AnswerEffect::Ghost);
        }
        self.retry.on_answer();
        Ok(psn)
    }

    /// Repeats packets after a loss, or gives up for `reason`.
    pub(super) fn repeat(&mut self, decision: Retry, reason: Reason) -> AnswerEffect {
        match decision {
            Retry::Repeat => {
                self.go_back();
                AnswerEffect::Repeat
            }
            Retry::Ignore => AnswerEffect::Nothing,
            Retry::GiveUp => {
                self.fail_at(self.acked, reason);
                AnswerEffect::Failure
            }
        }
    }

    /// A response is missing (RNIC-REQ-03).
    fn imply_nak(&mut self) -> AnswerEffect {
        self.stats.implied_naks = self.stats.implied_naks.wrapping_add(1);
        let decision = self.retry.on_loss(self.una);
        self.repeat(decision, Reason::Losses)
    }

    /// Handles an acknowledgement, positive or negative (RNIC-REQ-03 to RNIC-REQ-07). `near` says whether it
    /// came past the network.
    ///
    /// Credits and MSN are ignored: a peer without a receive buffer answers with an RNR NAK
    /// (RNIC-FLOW-03).
    pub(crate) fn handle_ack(
        &mut self,
        now: Instant,
        psn: Psn,
        aeth: &Aeth,
        near: bool,
    ) -> AnswerEffect {
        let psn = match self.answered(psn) {
            Ok(psn) => psn,
            Err(effect) => return effect,
        };
        match aeth.syndrome {
            Some(Syndrome::Ack(_)) => {
                let to = psn.after(1);
                let progress = self.acknowledge(now, to);
                if self.una < to && !self.is_failed() {
                    return self.imply_nak();
                }
                if progress {
                    AnswerEffect::Progress
                } else {
                    AnswerEffect::Nothing
                }
            }
            Some(Syndrome::Nak(code)) => self.handle_nak(now, psn, code),
            Some(Syndrome::RnrNak(timer)) => {
                self.stats.rnr_naks = self.stats.rnr_naks.wrapping_add(1);
                self.acknowledge(now, psn);
                // The acknowledgement may have ended the queue at a local failure.
                if self.is_failed() {
                    return AnswerEffect::Failure;
                }
                if self.una < psn {
                    return self.imply_nak();
                }
                self.wait_for_receive(now, timer, near)
            }
            None => {
                self.fail_at(self.acked, Reason::BadSyndrome);
                AnswerEffect::Failure
            }
        }
    }

    /// The peer has no receive buffer (RNIC-FLOW-04).
    pub(super) fn wait_for_receive(
        &mut self,
        now: Instant,
        timer: RnrTimer,
        near: bool,
    ) -> AnswerEffect {
        match self.retry.on_rnr(now, timer, near) {
            Retry::Repeat => {
                self.go_back();
                AnswerEffect::Wait
            }
            Retry::Ignore => AnswerEffect::Nothing,
            Retry::GiveUp => {
                self.fail_at(self.acked, Reason::PeerNotReady);
                AnswerEffect::Failure
            }
        }
    }

    /// Handles a NAK for packet `psn`, which acknowledges all earlier ones.
    fn handle_nak(&mut self, now: Instant, psn: ExtPsn, code: NakCode) -> AnswerEffect {
        self.acknowledge(now, psn);
        if self.is_failed() {
            return AnswerEffect::Failure;
        }
        self.stats.naks.count(code);
        let refuses = match self.ring.get(self.acked) {
            // Within the responses of a READ, whether or not the earlier ones arrived.
            Some(record) => record.contains(psn),
            None => false,
        };
        let reason = match code {
            NakCode::Sequence => {
                if self.una < psn {
                    return self.imply_nak();
                }
                let decision = self.retry.on_loss(self.una);
                return self.repeat(decision, Reason::Losses);
            }
            _ if !refuses => return self.imply_nak(),
            NakCode::InvalidRequest => Reason::PeerInvalid,
            NakCode::RemoteAccess => Reason::PeerAccess,
            NakCode::RemoteOperational => Reason::PeerOperation,
        };
        self.fail_at(self.acked, reason);
        AnswerEffect::Failure
    }

    /// The request that a response with this PSN is for: all earlier ones are acknowledged
    /// (RNIC-REQ-04), and it is the response that comes next (RNIC-RDA-05).
    fn expect_response(
        &mut self,
        now: Instant,
        psn: Psn,
    ) -> Result<(ExtPsn, SendRecord), AnswerEffect> {
        let psn = self.answered(psn)?;
        self.acknowledge(now, psn);
        if self.is_failed() {
            return Err(AnswerEffect::Failure);
        }
        if self.una < psn {
            return Err(self.imply_nak());
        }
        match self.ring.get(self.acked) {
            Some(record) if record.contains(psn) => Ok((psn, record)),
            _ => Err(AnswerEffect::Nothing),
        }
    }

    /// The peer's response is not one to the request (RNIC-RDA-06).
    fn bad_response(&mut self, reason: Reason) -> AnswerEffect {
        self.fail_at(self.acked, reason);
        AnswerEffect::Failure
    }

    /// A response packet of the oldest request arrived; the last one completes it.
    fn accept_response(&mut self, now: Instant, psn: ExtPsn, last: bool) {
        let before = self.una;
        self.una = psn.after(1);
        // A repetition that has not come to this request has not counted it.
        if self.cursor > self.acked {
            self.response_psns = self.response_psns.saturating_sub(1);
            if last {
                self.responses = self.responses.saturating_sub(1);
            }
        }
        if last {
            self.ring.set_done(self.acked);
            self.acked = self.acked.wrapping_add(1);
        }
        self.after_progress(now, before);
    }

    /// Handles a packet of a READ response, also the empty one that answers FLUSH and ATOMIC WRITE.
    ///
    /// # Errors
    ///
    /// The effect of a packet that carries no data for this requester.
    pub(crate) fn handle_read_response(
        &mut self,
        now: Instant,
        psn: Psn,
        position: Position,
        aeth: Option<&Aeth>,
        len: usize,
    ) -> Result<Delivery, AnswerEffect> {
        let (psn, record) = self.expect_response(now, psn)?;
        let total = match record.work.kind {
            WorkKind::Read => record.work.len,
            WorkKind::AtomicWrite | WorkKind::Flush => 0,
            _ => return Err(self.bad_response(Reason::OtherResponse)),
        };
        let offset = self.config.mtu.octets_of(psn.since(record.first));
        let last = psn.after(1) == record.end();
        let expected = total.saturating_sub(offset).min(self.config.mtu.octets());
        let positive = match aeth {
            Some(aeth) => matches!(aeth.syndrome, Some(Syndrome::Ack(_))),
            None => position == Position::Middle,
        };
        if !positive {
            return Err(self.bad_response(Reason::BadSyndrome));
        }
        // A repeated READ starts with FIRST or ONLY where the message is in its middle.
        if position.ends() != last || usize::try_from(expected) != Ok(len) {
            return Err(self.bad_response(Reason::BadResponse));
        }
        let msg = MsgId(self.acked);
        self.accept_response(now, psn, last);
        Ok(Delivery {
            msg,
            offset,
            len: expected,
            last,
        })
    }

    /// Handles the answer to an atomic operation, and returns the request to which the previous
    /// value belongs (RNIC-RDA-07).
    ///
    /// # Errors
    ///
    /// The effect of a packet that carries no value for this requester.
    pub(crate) fn handle_atomic_ack(
        &mut self,
        now: Instant,
        psn: Psn,
        aeth: &Aeth,
    ) -> Result<MsgId, AnswerEffect> {
        let (psn, record) = self.expect_response(now, psn)?;
        let positive = matches!(aeth.syndrome, Some(Syndrome::Ack(_)));
        if !positive {
            return Err(self.bad_response(Reason::BadSyndrome));
        }
        if !record.work.kind.is_atomic() {
            return Err(self.bad_response(Reason::OtherResponse));
        }
        let msg = MsgId(self.acked);
        self.accept_response(now, psn, true);
        Ok(msg)
    }
}
