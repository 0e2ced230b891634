// SPDX-License-Identifier: GPL-2.0

//! Order and limits of packets, local requests, and states of the queue.

use super::*;

/// RNIC-REQ-01, RNIC-REQ-02, RNIC-PSN-02, RNIC-PSN-06.
#[test]
fn messages_leave_in_order_with_contiguous_psns() {
    let mut bench = SendBench::new(CONFIG);
    bench.post(Send, 2 * FULL + 1);
    bench.post(Write, 0);
    assert_eq!(bench.sent(), [(0, 0, 3, true), (1, 3, 1, true)]);
    assert_eq!(bench.core.next_psn(), Psn::new(2));
    assert_eq!(bench.completed(), []);
    assert_eq!(bench.ack(3), AnswerEffect::Progress);
    assert_eq!(bench.completed(), [(0, OK, true), (1, OK, true)]);
    assert_eq!(bench.core.poll_timeout(), None);
}

/// RNIC-HDR-06.
#[test]
fn only_the_end_of_a_received_message_is_solicited() {
    let kinds = [
        (Send, true),
        (SendImm, true),
        (SendInv, true),
        (WriteImm, true),
        (Write, false),
        (Read, false),
        (AtomicWrite, false),
    ];
    for (kind, solicits) in kinds {
        for solicited in [false, true] {
            let mut bench = SendBench::new(CONFIG);
            let len = if kind == AtomicWrite { 8 } else { 3 * FULL };
            let work = Work {
                solicited,
                ..Work::new(kind, len)
            };
            bench.core.post(work).unwrap();
            // Packets of a message leave in two bursts, of which the last one ends it.
            let mut last = None;
            while let Some(SendStep::Packets(burst)) = bench.core.poll_transmit(bench.now, 2) {
                assert!(!burst.solicits() || burst.ends_message());
                last = Some(burst);
            }
            assert_eq!(last.unwrap().solicits(), solicits && solicited, "{kind:?}");
        }
    }
}

/// RNIC-REQ-02, RNIC-REQ-06.
#[test]
fn unsignaled_messages_ask_for_one_ack_at_the_end() {
    let mut bench = SendBench::new(CONFIG);
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
    let mut bench = SendBench::new(CONFIG);
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

/// RNIC-TX-06.
#[test]
fn congestion_halves_the_window_until_an_answer() {
    let mut bench = SendBench::new(CONFIG);
    bench.post(Write, 40 * FULL);
    assert_eq!(bench.sent(), [(0, 0, 4, true), (0, 4, 4, true)]);
    bench.ack(7);
    let step = bench.core.poll_transmit(bench.now, 2);
    assert!(matches!(
        step,
        Some(SendStep::Packets(Burst { packets: 2, .. }))
    ));
    bench.core.handle_congestion();
    // Half of 8, of which 2 are in flight.
    assert_eq!(bench.sent(), [(0, 10, 1, true), (0, 11, 1, true)]);
    assert_eq!(bench.sent(), []);
    bench.ack(9);
    assert_eq!(bench.sent(), [(0, 12, 4, true), (0, 16, 2, true)]);
}

/// RNIC-PSN-04.
#[test]
fn window_in_octets_always_has_one_packet() {
    let mut bench = SendBench::new(RequesterConfig {
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
    let mut bench = SendBench::new(CONFIG);
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

/// RNIC-REQ-08.
#[test]
fn fenced_request_waits_for_earlier_reads() {
    let mut bench = SendBench::new(CONFIG);
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
    let mut bench = SendBench::new(CONFIG);
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
    bench.core.local_done(third, Err(Reason::NotInvalidated));
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

/// RNIC-REQ-10, RNIC-ERR-01: earlier requests are completed first.
#[test]
fn local_failure_waits_for_earlier_requests() {
    let mut bench = SendBench::new(CONFIG);
    bench.post(Send, 1);
    let bad = bench.post(Send, 2 * FULL);
    bench.post(Send, 1);
    let step = bench.core.poll_transmit(bench.now, 9);
    assert!(matches!(step, Some(SendStep::Packets(_))));
    assert_eq!(bench.core.poll_transmit(bench.now, 1).map(|_| ()), Some(()));
    bench.core.fail(bad, Reason::SourceDenied);
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
    let mut bench = SendBench::new(CONFIG);
    bench.post(Send, 1);
    let bad = bench.post(Send, 1);
    bench.sent();
    bench.core.fail(bad, Reason::SourceDenied);
    bench.nak(0, NakCode::InvalidRequest);
    assert_eq!(
        bench.completed(),
        [(0, WorkStatus::RemInvReqErr, true), (1, FLUSHED, true)]
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
        (CONFIG, WorkKind::Malformed, 0, WorkStatus::LocQpOpErr),
        (ud, WorkKind::Malformed, 0, WorkStatus::LocQpOpErr),
        (uc, Read, 8, WorkStatus::LocQpOpErr),
        (uc, SendInv, 8, WorkStatus::LocQpOpErr),
        (ud, Write, 8, WorkStatus::LocQpOpErr),
        (ud, Send, FULL + 1, WorkStatus::LocLenErr),
    ];
    for (config, kind, len, status) in cases {
        let mut bench = SendBench::new(config);
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
    let mut bench = SendBench::new(CONFIG);
    bench.post(Read, (1 << 31) - FULL);
    bench.post(Read, 1);
    assert_eq!(bench.sent(), [(0, 0, 1, true)]);
    assert!(bench.read_response(0, Position::First, 256).is_ok());
    assert_eq!(bench.sent(), [(1, 0x7f_ffff, 1, true)]);
}

/// RNIC-ERR-05.
#[test]
fn flush_keeps_what_is_acknowledged() {
    let mut bench = SendBench::new(CONFIG);
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
    let mut bench = SendBench::new(CONFIG);
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
    let mut bench = SendBench::new(RequesterConfig {
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
    bench.core.fail(bad, Reason::SourceDenied);
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
    let mut bench = SendBench::new(CONFIG);
    for _ in 0..16 {
        bench.post(Send, 1);
    }
    assert_eq!(bench.core.post(Work::new(Send, 1)), Err(PostError::Full));
}
