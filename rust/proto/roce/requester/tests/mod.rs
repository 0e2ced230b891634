// SPDX-License-Identifier: GPL-2.0

//! Traces of one requester: its packets, its reactions to answers, and its completions.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "this is a test: to panic is how it fails"
)]

mod answers;
mod reasons;
mod transmit;

use super::*;
use crate::proto::{
    base::{
        time::Duration,
        verbs::Mtu, //
    },
    roce::{
        aeth::{
            NakCode,
            NakCounts,
            RnrTimer,
            Syndrome, //
        },
        header::Aeth,
        opcode::Position,
        work::{
            WorkKind::*,
            WorkStatus, //
        },
    },
};

/// Octets of a full packet.
const FULL: u32 = 256;
/// The retransmission timer.
const TIMEOUT: Duration = Duration::from_millis(1);

const CONFIG: RequesterConfig = RequesterConfig {
    service: Service::Rc,
    mtu: Mtu::M256,
    first_psn: Psn::new(0xff_fffe),
    max_rd_atomic: 2,
    retry: RetryLimits {
        timeout: Some(TIMEOUT),
        retries: 2,
        rnr_retries: 1,
        probe: 3,
    },
    window_packets: 8,
    window_octets: 1 << 20,
};

/// A requester whose packets are numbered from 0.
struct SendBench {
    core: Requester<Vec<SendRecord>>,
    config: RequesterConfig,
    now: Instant,
}

impl SendBench {
    fn new(config: RequesterConfig) -> Self {
        Self {
            core: Requester::new(&config, vec![SendRecord::EMPTY; 16]),
            config,
            now: Instant::from_nanos(1),
        }
    }

    fn post(&mut self, kind: WorkKind, len: u32) -> MsgId {
        self.core.post(Work::new(kind, len)).unwrap()
    }

    fn post_unsignaled(&mut self, kind: WorkKind, len: u32) -> MsgId {
        let work = Work {
            signaled: false,
            ..Work::new(kind, len)
        };
        self.core.post(work).unwrap()
    }

    fn psn(&self, number: u32) -> Psn {
        self.config.first_psn.after(number)
    }

    /// The bursts that are sent now: message, first packet, packets, AckReq.
    fn sent(&mut self) -> Vec<(u64, i32, u32, bool)> {
        let mut bursts = Vec::new();
        while let Some(step) = self.core.poll_transmit(self.now, 100) {
            let SendStep::Packets(burst) = step else {
                panic!("{step:?}");
            };
            let number = burst.psn.distance(self.config.first_psn);
            bursts.push((burst.msg.0, number, burst.packets, burst.ack_req));
        }
        bursts
    }

    fn answer(&mut self, number: u32, syndrome: Option<Syndrome>) -> AnswerEffect {
        let aeth = Aeth { syndrome, msn: 0 };
        self.core
            .handle_ack(self.now, self.psn(number), &aeth, false)
    }

    fn ack(&mut self, number: u32) -> AnswerEffect {
        self.answer(number, Some(Syndrome::ACK))
    }

    fn nak(&mut self, number: u32, code: NakCode) -> AnswerEffect {
        self.answer(number, Some(Syndrome::Nak(code)))
    }

    fn rnr(&mut self, number: u32) -> AnswerEffect {
        let timer = RnrTimer::new(14).unwrap();
        self.answer(number, Some(Syndrome::RnrNak(timer)))
    }

    fn read_response(
        &mut self,
        number: u32,
        position: Position,
        len: usize,
    ) -> Result<Delivery, AnswerEffect> {
        let aeth = Aeth {
            syndrome: Some(Syndrome::ACK),
            msn: 0,
        };
        let aeth = Some(&aeth).filter(|_| position != Position::Middle);
        self.core
            .handle_read_response(self.now, self.psn(number), position, aeth, len)
    }

    fn atomic_ack(&mut self, number: u32) -> Result<MsgId, AnswerEffect> {
        let aeth = Aeth {
            syndrome: Some(Syndrome::ACK),
            msn: 0,
        };
        self.core
            .handle_atomic_ack(self.now, self.psn(number), &aeth)
    }

    fn local(&mut self) -> Option<MsgId> {
        match self.core.poll_transmit(self.now, 100)? {
            SendStep::Local(msg) => Some(msg),
            SendStep::Packets(burst) => panic!("{burst:?}"),
        }
    }

    /// All completions: number, status, whether it is reported.
    fn completed(&mut self) -> Vec<(u64, WorkStatus, bool)> {
        std::iter::from_fn(|| self.core.poll_complete())
            .map(|done| (done.msg.0, done.status(), done.reported))
            .collect()
    }

    /// Lets the next timer expire.
    fn expire(&mut self) -> AnswerEffect {
        self.now = self.core.poll_timeout().unwrap();
        self.core.handle_timeout(self.now)
    }
}

const OK: WorkStatus = WorkStatus::Success;
const FLUSHED: WorkStatus = WorkStatus::WrFlushErr;

impl SendBench {
    /// Sends all packets that fit the window, and lets the timer expire.
    fn expire_after_send(&mut self) -> AnswerEffect {
        self.sent();
        self.expire()
    }
}
