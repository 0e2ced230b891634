// SPDX-License-Identifier: GPL-2.0

//! Acknowledgements, responses, and a peer that is silent.

use super::*;

/// RNIC-REQ-05.
#[test]
fn answer_outside_of_the_flight_is_ignored() {
    let mut bench = SendBench::new(CONFIG);
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

/// RNIC-REQ-07: whatever number of messages an answer has, its PSN says what it acknowledges.
#[test]
fn message_number_of_an_answer_completes_nothing() {
    for msn in [0, 1, 2, 4, 5, 0x7f_ffff, 0xff_ffff] {
        let mut bench = SendBench::new(CONFIG);
        for kind in [Send, Write, CompareSwap, Send] {
            bench.post(kind, 8);
        }
        bench.sent();
        let aeth = |syndrome| Aeth {
            syndrome: Some(syndrome),
            msn,
        };
        let ack = aeth(Syndrome::ACK);
        let (now, psns) = (bench.now, [0, 1, 2, 3].map(|number| bench.psn(number)));
        assert_eq!(
            bench.core.handle_ack(now, psns[0], &ack, false),
            AnswerEffect::Progress
        );
        assert_eq!(bench.completed(), [(0, OK, true)]);
        assert_eq!(
            bench.core.handle_ack(now, psns[0], &ack, false),
            AnswerEffect::Duplicate
        );
        assert_eq!(bench.completed(), []);
        let rnr = aeth(Syndrome::RnrNak(RnrTimer::LONGEST));
        assert_eq!(
            bench.core.handle_ack(now, psns[1], &rnr, false),
            AnswerEffect::Wait
        );
        assert_eq!(bench.completed(), []);
        bench.now = bench.core.poll_timeout().unwrap();
        bench.core.handle_timeout(bench.now);
        bench.sent();
        bench.core.handle_ack(bench.now, psns[1], &ack, false);
        assert_eq!(bench.completed(), [(1, OK, true)]);
        assert!(bench
            .core
            .handle_atomic_ack(bench.now, psns[2], &ack)
            .is_ok());
        assert_eq!(bench.completed(), [(2, OK, true)]);
        bench.core.handle_ack(bench.now, psns[3], &ack, false);
        assert_eq!(bench.completed(), [(3, OK, true)]);
    }
}

/// RNIC-TMO-04, RNIC-REQ-14: the middle of a message is repeated.
#[test]
fn sequence_nak_repeats_from_the_missing_packet() {
    let mut bench = SendBench::new(CONFIG);
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
    let mut bench = SendBench::new(CONFIG);
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
    let mut bench = SendBench::new(CONFIG);
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

/// RNIC-REQ-03, RNIC-REQ-04.
#[test]
fn ack_does_not_complete_a_read() {
    let mut bench = SendBench::new(CONFIG);
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
    let mut bench = SendBench::new(CONFIG);
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
    let mut bench = SendBench::new(CONFIG);
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
    type Case = (WorkKind, u32, fn(&mut SendBench));
    let cases: [Case; 8] = [
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
        let mut bench = SendBench::new(CONFIG);
        bench.post(kind, len);
        bench.sent();
        answer(&mut bench);
        assert_eq!(bench.completed(), [(0, WorkStatus::BadRespErr, true)]);
    }
}

/// RNIC-RDA-07, RNIC-RDA-09, RNIC-RDA-10.
#[test]
fn responses_complete_atomics_flush_and_atomic_write() {
    let mut bench = SendBench::new(CONFIG);
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

/// RNIC-FLOW-04, RNIC-FLOW-05.
#[test]
fn rnr_nak_holds_the_message_for_the_coded_time() {
    let mut bench = SendBench::new(CONFIG);
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
        let mut bench = SendBench::new(CONFIG);
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

/// RNIC-STAT-01: those for what is in flight.
#[test]
fn naks_of_the_peer_are_counted_by_their_codes() {
    let codes = [
        NakCode::Sequence,
        NakCode::InvalidRequest,
        NakCode::RemoteAccess,
        NakCode::RemoteOperational,
    ];
    let mut sum = NakCounts::default();
    for code in codes {
        let mut bench = SendBench::new(CONFIG);
        bench.post(Send, 1);
        bench.sent();
        bench.nak(7, code);
        assert_eq!(bench.core.stats().naks, NakCounts::default());
        bench.nak(0, code);
        let naks = bench.core.stats().naks;
        sum.sequence += naks.sequence;
        sum.invalid += naks.invalid;
        sum.access += naks.access;
        sum.operational += naks.operational;
        assert_eq!(bench.core.take_stats().naks, naks);
        assert_eq!(bench.core.take_stats(), RequesterStats::default());
    }
    let once = NakCounts {
        sequence: 1,
        invalid: 1,
        access: 1,
        operational: 1,
    };
    assert_eq!(sum, once);
}

/// RNIC-RSP-21: a key may go between two responses.
#[test]
fn nak_within_a_read_fails_the_read() {
    let mut bench = SendBench::new(CONFIG);
    bench.post(Read, 3 * FULL);
    bench.sent();
    assert!(bench.read_response(0, Position::First, 256).is_ok());
    assert_eq!(bench.nak(2, NakCode::RemoteAccess), AnswerEffect::Failure);
    assert_eq!(bench.completed(), [(0, WorkStatus::RemAccessErr, true)]);
}

/// RNIC-REQ-03.
#[test]
fn nak_beyond_a_missing_response_repeats_the_read() {
    let mut bench = SendBench::new(CONFIG);
    bench.post(Read, 1);
    bench.post(Send, 1);
    bench.sent();
    assert_eq!(bench.nak(1, NakCode::RemoteAccess), AnswerEffect::Repeat);
    assert_eq!(bench.rnr(1), AnswerEffect::Nothing);
    assert_eq!(bench.sent(), [(0, 0, 1, true), (1, 1, 1, true)]);
}

/// RNIC-REQ-10: data of a READ cannot be stored.
#[test]
fn failed_delivery_fails_the_read() {
    let mut bench = SendBench::new(CONFIG);
    bench.post(Read, 1);
    bench.post(Read, 1);
    bench.sent();
    let delivery = bench.read_response(0, Position::Only, 1).unwrap();
    bench.core.fail(delivery.msg, Reason::SinkDenied);
    assert_eq!(
        bench.completed(),
        [(0, WorkStatus::LocProtErr, true), (1, FLUSHED, true)]
    );
}

/// RNIC-FLOW-04, RNIC-ERR-01: the NAK acknowledges the last request before a local failure.
#[test]
fn rnr_nak_of_a_failed_queue_starts_no_timer() {
    let mut bench = SendBench::new(CONFIG);
    bench.post(Send, 1);
    let bad = bench.post(Send, 1);
    bench.sent();
    bench.core.fail(bad, Reason::SourceDenied);
    assert_eq!(bench.rnr(1), AnswerEffect::Failure);
    assert!(bench.core.is_failed());
    assert_eq!(bench.core.poll_timeout(), None);
    assert_eq!(
        bench.completed(),
        [(0, OK, true), (1, WorkStatus::LocProtErr, true)]
    );
}
