// SPDX-License-Identifier: GPL-2.0

//! Messages that a peer of the same kernel executes without packets (RNIC-DIR-02 to RNIC-DIR-04).

use super::{
    AnswerEffect,
    DirectSend,
    Requester,
    SendPhase,
    SendRecord, //
};
use crate::proto::{
    base::time::Instant,
    roce::{
        aeth::{
            NakCode,
            Syndrome, //
        },
        opcode::Service,
        reason::Reason,
        work::MsgId, //
    },
};
use core::ops::DerefMut;

impl<S: DerefMut<Target = [SendRecord]>> Requester<S> {
    /// The next message, if nothing is in flight and it may start now (RNIC-DIR-02).
    pub(crate) fn poll_direct(&self) -> Option<DirectSend> {
        let record = self.ring.get(self.cursor)?;
        let idle = self.phase == SendPhase::Active
            && self.config.service == Service::Rc
            && self.failure.is_none()
            && self.executing.is_none()
            && !self.retry.is_waiting()
            && self.una == self.sent
            && self.acked == self.cursor
            && self.cursor_off == 0;
        let possible = record.refused.is_none() && !record.work.kind.is_local();
        (idle && possible).then_some(DirectSend {
            msg: MsgId(self.cursor),
            work: record.work,
            psns: record.psns,
        })
    }

    /// The peer executed the message of [`Requester::poll_direct`]: everything advances as if its
    /// packets had been acknowledged (RNIC-DIR-03).
    pub(crate) fn complete_direct(&mut self, now: Instant, msg: MsgId) {
        let Some(direct) = self.poll_direct().filter(|direct| direct.msg == msg) else {
            return;
        };
        let before = self.una;
        self.ring.set_done(msg.0);
        self.cursor = self.cursor.wrapping_add(1);
        self.una = self.una.after(direct.psns);
        self.sent = self.una;
        self.after_progress(now, before);
    }

    /// The peer refused the message of [`Requester::poll_direct`], as it would have by a NAK
    /// (RNIC-DIR-04).
    pub(crate) fn refuse_direct(
        &mut self,
        now: Instant,
        msg: MsgId,
        syndrome: Syndrome,
    ) -> AnswerEffect {
        if self.poll_direct().is_none_or(|direct| direct.msg != msg) {
            return AnswerEffect::Nothing;
        }
        let reason = match syndrome {
            Syndrome::RnrNak(timer) => return self.wait_for_receive(now, timer),
            Syndrome::Nak(NakCode::InvalidRequest) => Reason::PeerInvalid,
            Syndrome::Nak(NakCode::RemoteAccess) => Reason::PeerAccess,
            Syndrome::Nak(NakCode::RemoteOperational) => Reason::PeerOperation,
            Syndrome::Nak(NakCode::Sequence) | Syndrome::Ack(_) => return AnswerEffect::Nothing,
        };
        self.fail_at(msg.0, reason);
        AnswerEffect::Failure
    }

    /// The peer has a receive buffer again: the wait of a direct message ends (RNIC-DIR-10).
    pub(crate) fn wake(&mut self) {
        self.retry.resume();
    }
}
