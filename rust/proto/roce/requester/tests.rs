// SPDX-License-Identifier: GPL-2.0

//! Traces of one requester: what it sends, how it takes answers, and in which order it completes.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "this is a test: to panic is how it fails"
)]

use super::*;
use crate::proto::{
    base::time::Duration,
    roce::{
        aeth::{
            NakCode,
            RnrTimer,
            Syndrome, //
        },
        header::Aeth,
        opcode::Position,
        work::WorkKind::*, //
    },
    wire::Mtu,
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
struct Bench {
    core: Requester<Vec<SendRecord>>,
    config: RequesterConfig,
    now: Instant,
}

impl Bench {
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
        self.core.handle_ack(self.now, self.psn(number), &aeth)
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
            .map(|done| (done.msg.0, done.status, done.reported))
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

/// RNIC-REQ-01, RNIC-REQ-02, RNIC-PSN-02, RNIC-PSN-06.
#[test]
fn messages_leave_in_order_with_contiguous_psns() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Send, 2 * FULL + 1);
    bench.post(Write, 0);
    assert_eq!(bench.sent(), [(0, 0, 3, true), (1, 3, 1, true)]);
    assert_eq!(bench.core.next_psn(), Psn::new(2));
    assert_eq!(bench.completed(), []);
    assert_eq!(bench.ack(3), AnswerEffect::Progress);
    assert_eq!(bench.completed(), [(0, OK, true), (1, OK, true)]);
    assert_eq!(bench.core.poll_timeout(), None);
}

/// RNIC-REQ-02, RNIC-REQ-06.
#[test]
fn unsignaled_messages_ask_for_one_ack_at_the_end() {
    let mut bench = Bench::new(CONFIG);
    bench.post_unsignaled(Send, 1);
    bench.post_unsignaled(Send, 1);
    bench.post_unsignaled(Send, 1);
    assert_eq!(
        bench.sent(),
        [(0, 0, 1, false), (1, 1, 1, false), (2, 2, 1, true)]
    );
    bench.ack(1);
    assert_eq!(bench.completed(), [(0, OK, false), (1, OK, false)]);
    bench.ack(2);
    assert_eq!(bench.completed(), [(2, OK, false)]);
}

/// RNIC-REQ-02, RNIC-PSN-04: an AckReq at half a window and at its end.
#[test]
fn closed_window_opens_with_an_ack() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Write, 20 * FULL);
    assert_eq!(bench.sent(), [(0, 0, 4, true), (0, 4, 4, true)]);
    assert_eq!(bench.ack(2), AnswerEffect::Progress);
    assert_eq!(bench.sent(), [(0, 8, 3, true)]);
    bench.ack(10);
    assert_eq!(bench.sent(), [(0, 11, 4, true), (0, 15, 4, true)]);
    bench.ack(18);
    assert_eq!(bench.sent(), [(0, 19, 1, true)]);
    bench.ack(19);
    assert_eq!(bench.completed(), [(0, OK, true)]);
}

/// RNIC-PSN-04.
#[test]
fn window_in_octets_always_has_one_packet() {
    let mut bench = Bench::new(RequesterConfig {
        window_octets: 1,
        ..CONFIG
    });
    bench.post(Send, 2 * FULL);
    assert_eq!(bench.sent(), [(0, 0, 1, true)]);
    bench.ack(0);
    assert_eq!(bench.sent(), [(0, 1, 1, true)]);
}

/// RNIC-RUN-04: the device limits a burst.
#[test]
fn room_of_the_device_limits_a_burst() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Send, 3 * FULL);
    let step = bench.core.poll_transmit(bench.now, 2);
    assert!(matches!(
        step,
        Some(SendStep::Packets(Burst {
            packets: 2,
            offset: 0,
            ack_req: false,
            ..
        }))
    ));
    assert_eq!(bench.core.poll_transmit(bench.now, 0), None);
    assert_eq!(bench.sent(), [(0, 2, 1, true)]);
}

/// RNIC-REQ-05.
#[test]
fn answer_outside_of_the_flight_is_ignored() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Send, 1);
    bench.post(Send, 1);
    assert_eq!(bench.ack(0), AnswerEffect::Ghost);
    bench.sent();
    assert_eq!(bench.ack(2), AnswerEffect::Ghost);
    assert_eq!(bench.ack(0), AnswerEffect::Progress);
    assert_eq!(bench.ack(0), AnswerEffect::Duplicate);
    assert_eq!(
        bench.nak(0, NakCode::InvalidRequest),
        AnswerEffect::Duplicate
    );
    assert_eq!(bench.ack(0x80_0001), AnswerEffect::Duplicate);
    assert_eq!(bench.ack(0x80_0000), AnswerEffect::Ghost);
    assert_eq!(bench.completed(), [(0, OK, true)]);
    assert_eq!(bench.core.stats().duplicate_answers, 3);
    assert_eq!(bench.core.stats().ghost_answers, 3);
}

/// RNIC-TMO-04, RNIC-REQ-14: the middle of a message is repeated.
#[test]
fn sequence_nak_repeats_from_the_missing_packet() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Send, 5 * FULL);
    bench.sent();
    assert_eq!(bench.nak(2, NakCode::Sequence), AnswerEffect::Repeat);
    assert_eq!(bench.nak(2, NakCode::Sequence), AnswerEffect::Nothing);
    assert_eq!(bench.sent(), [(0, 2, 3, true)]);
    // A late ACK overtakes the repetition.
    assert_eq!(bench.nak(3, NakCode::Sequence), AnswerEffect::Repeat);
    assert_eq!(bench.ack(3), AnswerEffect::Progress);
    assert_eq!(bench.sent(), [(0, 4, 1, true)]);
}

/// RNIC-TMO-01, RNIC-TMO-02, RNIC-TMO-05, RNIC-ERR-01.
#[test]
fn silent_peer_ends_the_queue_after_all_retries() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Send, 1);
    bench.post(Send, 5 * FULL);
    bench.post(Send, 1);
    bench.sent();
    assert_eq!(
        bench.core.poll_timeout(),
        Some(bench.now.saturating_add(TIMEOUT))
    );
    bench.ack(0);
    for _ in 0..2 {
        assert_eq!(bench.expire(), AnswerEffect::Repeat);
        // A probe of three packets.
        assert_eq!(bench.sent(), [(1, 1, 3, true)]);
    }
    assert_eq!(bench.expire(), AnswerEffect::Failure);
    assert_eq!(bench.sent(), []);
    assert!(bench.core.is_failed());
    assert_eq!(
        bench.completed(),
        [
            (0, OK, true),
            (1, WorkStatus::RetryExcErr, true),
            (2, FLUSHED, true)
        ]
    );
    assert_eq!(bench.core.poll_timeout(), None);
    // RNIC-ERR-06.
    bench.post_unsignaled(Send, 1);
    assert_eq!(bench.completed(), [(3, FLUSHED, true)]);
}

/// RNIC-TMO-03, RNIC-TMO-05.
#[test]
fn progress_clears_the_retry_count_and_the_probe() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Send, 8 * FULL);
    bench.sent();
    for number in 0..5 {
        assert_eq!(bench.expire(), AnswerEffect::Repeat);
        assert_eq!(bench.expire_after_send(), AnswerEffect::Repeat);
        assert_eq!(bench.ack(number), AnswerEffect::Progress);
    }
    let left = 8 - 5;
    assert_eq!(bench.sent(), [(0, 5, left, true)]);
}

impl Bench {
    /// Sends what may be sent, and lets the timer expire.
    fn expire_after_send(&mut self) -> AnswerEffect {
        self.sent();
        self.expire()
    }
}

/// RNIC-REQ-03, RNIC-REQ-04.
#[test]
fn ack_does_not_complete_a_read() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Send, 1);
    bench.post(Read, 3 * FULL);
    bench.post(Send, 1);
    assert_eq!(
        bench.sent(),
        [(0, 0, 1, true), (1, 1, 1, true), (2, 4, 1, true)]
    );
    // The ACK of the last message says that the responses were lost.
    assert_eq!(bench.ack(4), AnswerEffect::Repeat);
    assert_eq!(bench.core.stats().implied_naks, 1);
    assert_eq!(bench.completed(), [(0, OK, true)]);
    assert_eq!(bench.sent(), [(1, 1, 1, true), (2, 4, 1, true)]);
    let delivery = bench.read_response(1, Position::First, 256).unwrap();
    assert_eq!((delivery.offset, delivery.last), (0, false));
    assert_eq!(
        bench
            .read_response(2, Position::Middle, 256)
            .unwrap()
            .offset,
        256
    );
    assert_eq!(bench.completed(), []);
    let delivery = bench.read_response(3, Position::Last, 256).unwrap();
    assert_eq!(
        (delivery.offset, delivery.len, delivery.last),
        (512, 256, true)
    );
    assert_eq!(bench.completed(), [(1, OK, true)]);
    bench.ack(4);
    assert_eq!(bench.completed(), [(2, OK, true)]);
}

/// RNIC-REQ-04.
#[test]
fn read_response_acknowledges_earlier_requests() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Send, 1);
    bench.post(Read, 1);
    bench.sent();
    assert!(bench.read_response(1, Position::Only, 1).is_ok());
    assert_eq!(bench.completed(), [(0, OK, true), (1, OK, true)]);
    assert_eq!(bench.core.poll_timeout(), None);
}

/// RNIC-RDA-05: a READ asks only for the rest, and starts with FIRST again.
#[test]
fn lost_read_response_repeats_the_rest_of_the_read() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Read, 4 * FULL);
    bench.sent();
    assert!(bench.read_response(0, Position::First, 256).is_ok());
    assert_eq!(
        bench.read_response(2, Position::Middle, 256),
        Err(AnswerEffect::Repeat)
    );
    assert_eq!(
        bench.read_response(3, Position::Last, 256),
        Err(AnswerEffect::Nothing)
    );
    let Some(SendStep::Packets(burst)) = bench.core.poll_transmit(bench.now, 9) else {
        panic!("no request");
    };
    assert_eq!((burst.offset, burst.rest, burst.packets), (256, 768, 1));
    assert_eq!(burst.psn, bench.psn(1));
    assert_eq!(
        bench.read_response(0, Position::First, 256),
        Err(AnswerEffect::Duplicate)
    );
    assert!(bench.read_response(1, Position::First, 256).is_ok());
    assert!(bench.read_response(2, Position::Middle, 256).is_ok());
    assert!(bench.read_response(3, Position::Last, 256).is_ok());
    assert_eq!(bench.completed(), [(0, OK, true)]);
}

/// RNIC-RDA-06, RNIC-FLOW-01.
#[test]
fn response_of_another_size_or_kind_ends_the_queue() {
    let cases: [(WorkKind, u32, fn(&mut Bench)); 8] = [
        (Read, FULL + 1, |bench| {
            bench.read_response(0, Position::First, 255).unwrap_err();
        }),
        (Read, FULL + 1, |bench| {
            bench.read_response(0, Position::Only, 256).unwrap_err();
        }),
        (Read, FULL, |bench| {
            bench.read_response(0, Position::First, 256).unwrap_err();
        }),
        (Read, 8, |bench| {
            bench.atomic_ack(0).unwrap_err();
        }),
        (FetchAdd, 8, |bench| {
            bench.read_response(0, Position::Only, 8).unwrap_err();
        }),
        (AtomicWrite, 8, |bench| {
            bench.read_response(0, Position::Only, 8).unwrap_err();
        }),
        (Send, 8, |bench| {
            bench.read_response(0, Position::Only, 8).unwrap_err();
        }),
        (Send, 8, |bench| {
            bench.answer(0, None);
        }),
    ];
    for (kind, len, answer) in cases {
        let mut bench = Bench::new(CONFIG);
        bench.post(kind, len);
        bench.sent();
        answer(&mut bench);
        assert_eq!(bench.completed(), [(0, WorkStatus::BadRespErr, true)]);
    }
}

/// RNIC-RDA-07, RNIC-RDA-09, RNIC-RDA-10.
#[test]
fn responses_complete_atomics_flush_and_atomic_write() {
    let mut bench = Bench::new(CONFIG);
    bench.post(FetchAdd, 8);
    bench.post(CompareSwap, 8);
    bench.post(AtomicWrite, 8);
    bench.post(Flush, 4_000);
    // RNIC-REQ-15: two in flight.
    assert_eq!(bench.sent(), [(0, 0, 1, true), (1, 1, 1, true)]);
    assert_eq!(bench.atomic_ack(0).unwrap().get(), 0);
    assert_eq!(bench.sent(), [(2, 2, 1, true)]);
    assert_eq!(bench.atomic_ack(1).unwrap().get(), 1);
    assert!(bench.read_response(2, Position::Only, 0).is_ok());
    assert_eq!(bench.sent(), [(3, 3, 1, true)]);
    assert!(bench.read_response(3, Position::Only, 0).is_ok());
    assert_eq!(bench.completed().len(), 4);
}

/// RNIC-REQ-08.
#[test]
fn fenced_request_waits_for_earlier_reads() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Read, 1);
    let fenced = Work {
        fence: true,
        ..Work::new(Send, 1)
    };
    bench.core.post(fenced).unwrap();
    assert_eq!(bench.sent(), [(0, 0, 1, true)]);
    assert!(bench.read_response(0, Position::Only, 1).is_ok());
    assert_eq!(bench.sent(), [(1, 1, 1, true)]);
}

/// RNIC-REQ-08, RNIC-REQ-11.
#[test]
fn local_requests_execute_in_order() {
    let mut bench = Bench::new(CONFIG);
    bench.post(RegMr, 0);
    bench.post_unsignaled(Send, 1);
    bench.post(RegMr, 0);
    bench.post(LocalInv, 0);
    bench.post(Send, 1);
    let first = bench.local().unwrap();
    assert_eq!(bench.core.poll_transmit(bench.now, 9), None);
    bench.core.local_done(first, Ok(()));
    assert_eq!(bench.completed(), [(0, OK, true)]);
    // The SEND asks for an ACK, as a local request follows.
    assert!(matches!(
        bench.core.poll_transmit(bench.now, 9),
        Some(SendStep::Packets(Burst { ack_req: true, .. }))
    ));
    let second = bench.local().unwrap();
    bench.core.local_done(second, Ok(()));
    // The invalidation waits for the ACK, and a repetition does not execute REG_MR again.
    assert_eq!(bench.local(), None);
    assert_eq!(bench.expire(), AnswerEffect::Repeat);
    assert_eq!(bench.sent(), [(1, 0, 1, true)]);
    bench.ack(0);
    let third = bench.local().unwrap();
    assert_eq!(third.get(), 3);
    bench.core.local_done(third, Err(WorkStatus::LocQpOpErr));
    assert_eq!(
        bench.completed(),
        [
            (1, OK, false),
            (2, OK, true),
            (3, WorkStatus::LocQpOpErr, true),
            (4, FLUSHED, true)
        ]
    );
}

/// RNIC-FLOW-04, RNIC-FLOW-05.
#[test]
fn rnr_nak_holds_the_message_for_the_coded_time() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Send, 1);
    bench.post(Send, 2 * FULL);
    bench.sent();
    assert_eq!(bench.rnr(1), AnswerEffect::Wait);
    assert_eq!(bench.completed(), [(0, OK, true)]);
    assert_eq!(bench.sent(), []);
    let end = bench.now.saturating_add(Duration::from_micros(1_280));
    assert_eq!(bench.core.poll_timeout(), Some(end));
    bench.expire();
    assert_eq!(bench.sent(), [(1, 1, 2, true)]);
    assert_eq!(bench.rnr(1), AnswerEffect::Failure);
    assert_eq!(bench.completed(), [(1, WorkStatus::RnrRetryExcErr, true)]);
}

/// RNIC-ERR-03, RNIC-ERR-01.
#[test]
fn nak_fails_its_request_and_acknowledges_earlier_ones() {
    for (code, status) in [
        (NakCode::InvalidRequest, WorkStatus::RemInvReqErr),
        (NakCode::RemoteAccess, WorkStatus::RemAccessErr),
        (NakCode::RemoteOperational, WorkStatus::RemOpErr),
    ] {
        let mut bench = Bench::new(CONFIG);
        bench.post_unsignaled(Send, 1);
        bench.post_unsignaled(Write, 3 * FULL);
        bench.post(Send, 1);
        bench.sent();
        assert_eq!(bench.nak(2, code), AnswerEffect::Failure);
        assert_eq!(
            bench.completed(),
            [(0, OK, false), (1, status, true), (2, FLUSHED, true)]
        );
    }
}

/// RNIC-RSP-21: a key may go between two responses.
#[test]
fn nak_within_a_read_fails_the_read() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Read, 3 * FULL);
    bench.sent();
    assert!(bench.read_response(0, Position::First, 256).is_ok());
    assert_eq!(bench.nak(2, NakCode::RemoteAccess), AnswerEffect::Failure);
    assert_eq!(bench.completed(), [(0, WorkStatus::RemAccessErr, true)]);
}

/// RNIC-REQ-03.
#[test]
fn nak_beyond_a_missing_response_repeats_the_read() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Read, 1);
    bench.post(Send, 1);
    bench.sent();
    assert_eq!(bench.nak(1, NakCode::RemoteAccess), AnswerEffect::Repeat);
    assert_eq!(bench.rnr(1), AnswerEffect::Nothing);
    assert_eq!(bench.sent(), [(0, 0, 1, true), (1, 1, 1, true)]);
}

/// RNIC-REQ-10, RNIC-ERR-01: earlier requests are completed first.
#[test]
fn local_failure_waits_for_earlier_requests() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Send, 1);
    let bad = bench.post(Send, 2 * FULL);
    bench.post(Send, 1);
    let step = bench.core.poll_transmit(bench.now, 9);
    assert!(matches!(step, Some(SendStep::Packets(_))));
    assert_eq!(bench.core.poll_transmit(bench.now, 1).map(|_| ()), Some(()));
    bench.core.fail(bad, WorkStatus::LocProtErr);
    assert!(!bench.core.is_failed());
    assert_eq!(bench.completed(), []);
    // Packets of the failed message are not repeated.
    assert_eq!(bench.sent(), [(0, 0, 1, true)]);
    bench.ack(0);
    assert!(bench.core.is_failed());
    assert_eq!(
        bench.completed(),
        [
            (0, OK, true),
            (1, WorkStatus::LocProtErr, true),
            (2, FLUSHED, true)
        ]
    );
}

/// RNIC-ERR-01: an earlier failure is the first.
#[test]
fn earlier_failure_replaces_a_later_one() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Send, 1);
    let bad = bench.post(Send, 1);
    bench.sent();
    bench.core.fail(bad, WorkStatus::LocProtErr);
    bench.nak(0, NakCode::InvalidRequest);
    assert_eq!(
        bench.completed(),
        [(0, WorkStatus::RemInvReqErr, true), (1, FLUSHED, true)]
    );
}

/// RNIC-REQ-10: data of a READ cannot be stored.
#[test]
fn failed_delivery_fails_the_read() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Read, 1);
    bench.post(Read, 1);
    bench.sent();
    let delivery = bench.read_response(0, Position::Only, 1).unwrap();
    bench.core.fail(delivery.msg, WorkStatus::LocProtErr);
    assert_eq!(
        bench.completed(),
        [(0, WorkStatus::LocProtErr, true), (1, FLUSHED, true)]
    );
}

/// RNIC-PSN-05, RNIC-QPS-01, RNIC-UD-01.
#[test]
fn impossible_requests_fail_in_their_turn() {
    let uc = RequesterConfig {
        service: Service::Uc,
        ..CONFIG
    };
    let ud = RequesterConfig {
        service: Service::Ud,
        ..CONFIG
    };
    let no_reads = RequesterConfig {
        max_rd_atomic: 0,
        ..CONFIG
    };
    let cases = [
        (CONFIG, Send, (1 << 31) + 1, WorkStatus::LocLenErr),
        (CONFIG, Read, 1 << 31, WorkStatus::LocLenErr),
        (CONFIG, FetchAdd, 4, WorkStatus::LocLenErr),
        (CONFIG, AtomicWrite, 16, WorkStatus::LocLenErr),
        (no_reads, Read, 8, WorkStatus::LocQpOpErr),
        (uc, Read, 8, WorkStatus::LocQpOpErr),
        (uc, SendInv, 8, WorkStatus::LocQpOpErr),
        (ud, Write, 8, WorkStatus::LocQpOpErr),
        (ud, Send, FULL + 1, WorkStatus::LocLenErr),
    ];
    for (config, kind, len, status) in cases {
        let mut bench = Bench::new(config);
        bench.post(Send, 1);
        bench.post(kind, len);
        bench.post(Send, 1);
        assert_eq!(bench.sent().len(), 1);
        bench.ack(0);
        assert_eq!(
            bench.completed(),
            [(0, OK, true), (1, status, true), (2, FLUSHED, true)]
        );
    }
}

/// RNIC-PSN-04: the responses of two READs do not fit into half the circle.
#[test]
fn reads_beyond_half_the_circle_wait() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Read, (1 << 31) - FULL);
    bench.post(Read, 1);
    assert_eq!(bench.sent(), [(0, 0, 1, true)]);
    assert!(bench.read_response(0, Position::First, 256).is_ok());
    assert_eq!(bench.sent(), [(1, 0x7f_ffff, 1, true)]);
}

/// RNIC-ERR-05.
#[test]
fn flush_keeps_what_is_acknowledged() {
    let mut bench = Bench::new(CONFIG);
    bench.post(Send, 1);
    bench.post(Send, 1);
    bench.sent();
    bench.ack(0);
    bench.core.flush();
    assert_eq!(bench.ack(1), AnswerEffect::Nothing);
    assert_eq!(bench.completed(), [(0, OK, true), (1, FLUSHED, true)]);
    assert_eq!(bench.core.poll_timeout(), None);
    assert!(!bench.core.resume());
}

/// RNIC-QPS-05.
#[test]
fn paused_queue_finishes_what_has_started() {
    let mut bench = Bench::new(CONFIG);
    bench.post_unsignaled(Send, 1);
    bench.post(Send, 10 * FULL);
    // The first message and a part of the second; the first asks for no ACK.
    assert!(bench.core.poll_transmit(bench.now, 1).is_some());
    bench.core.pause();
    assert_eq!(bench.sent(), [(0, 0, 1, true)]);
    assert!(!bench.core.is_drained());
    bench.ack(0);
    assert!(bench.core.is_drained());
    assert_eq!(bench.completed(), [(0, OK, false)]);
    assert!(bench.core.resume());
    assert_eq!(bench.sent(), [(1, 1, 4, true), (1, 5, 4, true)]);
    bench.core.pause();
    bench.ack(8);
    assert_eq!(bench.sent(), [(1, 9, 2, true)]);
    bench.ack(10);
    assert!(bench.core.is_drained());
}

/// RNIC-UD-05, RNIC-UD-10, RNIC-UD-11.
#[test]
fn unreliable_queue_completes_at_transmission_and_recovers() {
    let mut bench = Bench::new(RequesterConfig {
        service: Service::Uc,
        ..CONFIG
    });
    bench.post(Send, 5 * FULL);
    let bad = bench.post(Send, 1);
    bench.post(Send, 1);
    assert!(bench.core.poll_transmit(bench.now, 100).is_some());
    assert_eq!(bench.completed(), []);
    assert!(bench.core.poll_transmit(bench.now, 100).is_some());
    assert_eq!(bench.completed(), [(0, OK, true)]);
    assert_eq!(bench.core.poll_timeout(), None);
    assert!(bench.core.poll_transmit(bench.now, 100).is_some());
    bench.core.fail(bad, WorkStatus::LocProtErr);
    assert!(bench.core.is_failed());
    assert!(!bench.core.resume());
    assert_eq!(
        bench.completed(),
        [(1, WorkStatus::LocProtErr, true), (2, FLUSHED, true)]
    );
    assert!(bench.core.resume());
    bench.post(Send, 1);
    assert_eq!(bench.sent(), [(3, 6, 1, false)]);
    assert_eq!(bench.completed(), [(3, OK, true)]);
}

#[test]
fn full_queue_takes_no_more_work() {
    let mut bench = Bench::new(CONFIG);
    for _ in 0..16 {
        bench.post(Send, 1);
    }
    assert_eq!(bench.core.post(Work::new(Send, 1)), Err(PostError::Full));
}

/// RNIC-DIR-02, RNIC-DIR-03, RNIC-DIR-04.
#[test]
fn direct_message_advances_like_packets() {
    let mut bench = Bench::new(CONFIG);
    let first = bench.post(Write, 3 * FULL);
    let second = bench.post(Read, 2 * FULL);
    bench.post(Send, 1);
    let direct = bench.core.poll_direct().unwrap();
    assert_eq!((direct.msg, direct.psns), (first, 3));
    bench.core.complete_direct(bench.now, first);
    bench.core.complete_direct(bench.now, first);
    assert_eq!(bench.completed(), [(0, OK, true)]);
    let direct = bench.core.poll_direct().unwrap();
    assert_eq!((direct.msg, direct.psns), (second, 2));
    bench.core.complete_direct(bench.now, second);
    // The wire goes on where the direct path ended, and then nothing is direct.
    assert_eq!(bench.sent(), [(2, 5, 1, true)]);
    bench.post(Send, 1);
    assert!(bench.core.poll_direct().is_none());
    bench.ack(5);
    assert_eq!(bench.core.poll_direct().map(|direct| direct.msg.0), Some(3));
}

/// RNIC-DIR-04, RNIC-DIR-10.
#[test]
fn refused_direct_message_fails_like_a_nak() {
    let mut bench = Bench::new(CONFIG);
    let msg = bench.post(Send, 1);
    let rnr = Syndrome::RnrNak(RnrTimer::new(14).unwrap());
    let effect = bench.core.refuse_direct(bench.now, msg, rnr);
    assert_eq!(effect, AnswerEffect::Wait);
    assert!(bench.core.poll_direct().is_none());
    bench.core.wake();
    assert!(bench.core.poll_direct().is_some());
    let nak = Syndrome::Nak(NakCode::RemoteAccess);
    bench.core.refuse_direct(bench.now, msg, nak);
    assert_eq!(bench.completed(), [(0, WorkStatus::RemAccessErr, true)]);
}
