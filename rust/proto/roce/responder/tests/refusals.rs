// SPDX-License-Identifier: GPL-2.0

//! Requests that are refused, and the first check that refuses them.

use super::*;

/// Refuses a request, and checks that the queue pair ends with one NAK.
fn refused(mut bench: ReceiveBench, header: RequestHeader, nak: Syndrome) -> Settled {
    let expected = bench.core.expected_psn();
    let ruling = bench.request(header);
    let Ruling::Done(settled) = ruling else {
        panic!("{ruling:?}");
    };
    assert_eq!(settled.nak, Some(nak));
    assert!(settled.failed && bench.core.is_failed());
    assert_eq!(
        bench.ack().map(|ack| (ack.0, ack.1)),
        Some((number(expected), nak))
    );
    assert_eq!(bench.ack(), None);
    let again = bench.request(self::header(Opcode::RcSendOnly, 0, 1));
    assert_eq!(again, Ruling::Drop(DropReason::Closed));
    settled
}

/// A responder that has begun a message.
fn within(first: RequestHeader) -> ReceiveBench {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(first);
    bench
}

/// RNIC-RSP-03, RNIC-RSP-11.
#[test]
fn packet_out_of_its_message_is_an_invalid_request() {
    let write = || ranged(Opcode::RcWriteFirst, 0, FULL, 0, 600);
    let fresh = || ReceiveBench::new(CONFIG);
    let cases = [
        (fresh(), header(Opcode::RcSendMiddle, 0, FULL)),
        (fresh(), header(Opcode::RcSendLast, 0, 1)),
        (fresh(), header(Opcode::RcWriteLastImm, 0, 1)),
        (
            within(write()),
            ranged(Opcode::RcWriteFirst, 1, FULL, 0, 600),
        ),
        (within(write()), header(Opcode::RcSendMiddle, 1, FULL)),
        (within(write()), header(Opcode::RcSendOnly, 1, 1)),
        (within(write()), read(1, 0, 8)),
        (within(write()), atomic(1, 8)),
    ];
    for (bench, header) in cases {
        let settled = refused(bench, header, INVALID);
        assert_eq!(settled.event, Some(QpEvent::RequestError));
        assert_eq!(settled.receive, None);
    }
    // A receive buffer reports the error instead.
    let bench = within(header(Opcode::RcSendFirst, 0, FULL));
    let settled = refused(bench, header(Opcode::RcWriteMiddle, 1, FULL), INVALID);
    assert_eq!(settled.event, None);
    assert_eq!(settled.receive.unwrap().status(), WorkStatus::RemInvReqErr);
}

/// RNIC-RSP-04, RNIC-RDA-09, RNIC-RDA-10.
#[test]
fn operation_without_permission_is_an_invalid_request() {
    let none = ResponderConfig {
        access: RemoteAccess::default(),
        ..CONFIG
    };
    let cases = [
        (none, ranged(Opcode::RcWriteOnly, 0, 4, 0, 4)),
        (none, read(0, 0, 4)),
        (none, atomic(0, 8)),
        (none, ranged(Opcode::RcAtomicWrite, 0, 8, 8, 8)),
        (none, flush(0, Feth::GLOBAL, Feth::RANGE)),
        (CONFIG, atomic(0, 4)),
        (CONFIG, ranged(Opcode::RcAtomicWrite, 0, 8, 12, 8)),
        (CONFIG, flush(0, 4, Feth::RANGE)),
        (CONFIG, flush(0, Feth::GLOBAL | 8, Feth::RANGE)),
        (CONFIG, flush(0, 0, Feth::RANGE)),
        (CONFIG, flush(0, Feth::GLOBAL, 2)),
    ];
    for (config, header) in cases {
        refused(ReceiveBench::new(config), header, INVALID);
    }
    ReceiveBench::new(none).accept(header(Opcode::RcSendOnly, 0, 4));
}

/// RNIC-QPS-02, RNIC-RSP-04.
#[test]
fn permission_that_is_taken_away_refuses_the_next_request() {
    let write = |number| ranged(Opcode::RcWriteOnly, number, 4, 0, 4);
    let mut bench = ReceiveBench::new(CONFIG);
    assert!(!bench.accept(write(0)).failed);
    let timer = RnrTimer::new(3).unwrap();
    bench.core.permit(RemoteAccess::default(), timer);
    // A message without a receive buffer shows the other time.
    bench.request(header(Opcode::RcSendOnly, 1, 4));
    bench.core.refuse_receive();
    assert_eq!(bench.ack(), Some((1, Syndrome::RnrNak(timer), 1)));
    refused(bench, write(1), INVALID);
}

/// RNIC-RSP-05, RNIC-PSN-03, RNIC-PSN-05.
#[test]
fn wrong_length_is_an_invalid_request() {
    let cases = [
        header(Opcode::RcSendFirst, 0, FULL - 1),
        header(Opcode::RcSendFirst, 0, FULL + 1),
        header(Opcode::RcSendOnly, 0, FULL + 1),
        ranged(Opcode::RcWriteOnly, 0, 4, 0, 5),
        ranged(Opcode::RcWriteOnly, 0, 4, 0, 3),
        ranged(Opcode::RcWriteFirst, 0, FULL, 0, FULL - 1),
        ranged(Opcode::RcWriteFirst, 0, FULL, 0, (1 << 31) + 1),
        read(0, 0, (1 << 31) + 1),
        ranged(Opcode::RcReadRequest, 0, 4, 0, 8),
        ranged(Opcode::RcAtomicWrite, 0, 4, 0, 4),
        ranged(Opcode::RcAtomicWrite, 0, 8, 0, 16),
    ];
    for header in cases {
        refused(ReceiveBench::new(CONFIG), header, INVALID);
    }
    let write = |total| within(ranged(Opcode::RcWriteFirst, 0, FULL, 0, total));
    let middle = |len| header(Opcode::RcWriteMiddle, 1, len);
    let last = |len| header(Opcode::RcWriteLast, 1, len);
    for (bench, header) in [
        (write(600), middle(FULL - 1)),
        (write(300), middle(FULL)),
        (write(300), last(43)),
        (write(300), last(45)),
        (write(256), last(0)),
        (write(600), last(FULL + 1)),
    ] {
        refused(bench, header, INVALID);
    }
}

/// RNIC-HDR-03.
#[test]
fn unknown_opcode_is_an_invalid_request_in_its_turn() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(header(Opcode::RcSendOnly, 0, 1));
    let psn = |number| CONFIG.first_psn.after(number);
    assert_eq!(
        bench.core.handle_unknown(psn(0)),
        Ruling::Drop(DropReason::Forgotten)
    );
    bench.core.handle_unknown(psn(2));
    assert_eq!(bench.ack(), Some((1, SEQUENCE, 1)));
    bench.core.handle_unknown(psn(1));
    assert_eq!(bench.ack(), Some((1, INVALID, 1)));
}

/// RNIC-RSP-06, RNIC-FLOW-07.
#[test]
fn missing_receive_buffer_advances_nothing() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.request(header(Opcode::RcSendOnly, 0, 1));
    let ruling = bench.core.refuse_receive();
    assert!(matches!(
        ruling,
        Ruling::Done(Settled { nak: Some(RNR), .. })
    ));
    // The packets behind it are not reported as out of sequence.
    let behind = bench.request(header(Opcode::RcSendOnly, 1, 1));
    assert_eq!(behind, Ruling::Drop(DropReason::Sequence));
    assert_eq!(bench.ack(), Some((0, RNR, 0)));
    assert_eq!(bench.ack(), None);
    bench.request(header(Opcode::RcSendOnly, 0, 1));
    bench.core.refuse_receive();
    assert_eq!(bench.ack(), Some((0, RNR, 0)));
    let settled = bench.accept(header(Opcode::RcSendOnly, 0, 1));
    assert!(settled.receive.is_some());
    assert_eq!(bench.core.stats().rnr_naks, 2);
}

/// RNIC-RSP-06: in mid-message too.
#[test]
fn missing_buffer_for_an_immediate_stores_no_data() {
    let mut bench = within(ranged(Opcode::RcWriteFirst, 0, FULL, 0, 300));
    let mut last = header(Opcode::RcWriteLastImm, 1, 44);
    last.ext.imm = Some([0; 4]);
    assert_eq!(bench.request(last), Ruling::NeedReceive);
    bench.core.refuse_receive();
    assert_eq!(bench.ack(), Some((1, RNR, 0)));
    assert!(bench.accept(last).receive.is_some());
}

/// RNIC-RSP-07, RNIC-RSP-11.
#[test]
fn refused_key_is_an_access_error() {
    for header in [
        ranged(Opcode::RcWriteOnly, 0, 4, 0, 4),
        read(0, 0, 4),
        atomic(0, 8),
        ranged(Opcode::RcAtomicWrite, 0, 8, 8, 8),
        flush(0, Feth::GLOBAL, Feth::REGION),
    ] {
        let mut bench = ReceiveBench::new(CONFIG);
        assert!(matches!(bench.request(header), Ruling::NeedKey(_)));
        let Ruling::Done(settled) = bench.core.refuse_key() else {
            panic!("not done");
        };
        assert_eq!(settled.event, Some(QpEvent::AccessError));
        assert_eq!(bench.ack(), Some((0, ACCESS, 0)));
    }
    // The immediate has taken a receive buffer, which reports the error.
    let mut bench = ReceiveBench::new(CONFIG);
    bench.request(ranged(Opcode::RcWriteOnlyImm, 0, 4, 0, 4));
    assert!(matches!(bench.core.grant_receive(0), Ruling::NeedKey(_)));
    let Ruling::Done(settled) = bench.core.refuse_key() else {
        panic!("not done");
    };
    assert_eq!(settled.event, None);
    assert_eq!(settled.receive.unwrap().status(), WorkStatus::RemAccessErr);
}

/// RNIC-RSP-09.
#[test]
fn send_longer_than_its_buffer_is_refused() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.request(header(Opcode::RcSendFirst, 0, FULL));
    bench.core.grant_receive(FULL + 1);
    bench.core.executed(Ok(()));
    let settled = refused(bench, header(Opcode::RcSendLast, 1, 2), INVALID);
    assert_eq!(settled.receive.unwrap().status(), WorkStatus::LocLenErr);
    assert_eq!(settled.event, None);
}

/// RNIC-RSP-10, RNIC-RSP-18, RNIC-RSP-21.
#[test]
fn failed_execution_ends_the_queue_pair() {
    let operational = Syndrome::Nak(NakCode::RemoteOperational);
    for (error, nak, status) in [
        (
            ExecuteError::ReceiveFault,
            Some(operational),
            WorkStatus::LocProtErr,
        ),
        (ExecuteError::NotInvalidated, None, WorkStatus::RemInvReqErr),
    ] {
        let mut bench = ReceiveBench::new(CONFIG);
        let mut send = header(Opcode::RcSendOnlyInv, 0, 4);
        send.ext.invalidate = Some(KEY);
        bench.request(send);
        let ruling = bench.core.grant_receive(10);
        assert!(matches!(
            ruling,
            Ruling::Place(Placement {
                invalidate: Some(KEY),
                ..
            })
        ));
        let Ruling::Done(settled) = bench.core.executed(Err(error)) else {
            panic!("not done");
        };
        assert_eq!(settled.nak, nak);
        assert_eq!(settled.receive.unwrap().status(), status);
        assert_eq!(bench.ack(), nak.map(|nak| (0, nak, 0)));
        assert!(bench.core.is_failed());
    }
    let mut bench = within(ranged(Opcode::RcWriteFirst, 0, FULL, 0, 300));
    bench.request(header(Opcode::RcWriteLast, 1, 44));
    bench.core.executed(Err(ExecuteError::KeyGone));
    assert_eq!(bench.ack(), Some((1, ACCESS, 0)));
}

/// RNIC-STAT-01.
#[test]
fn naks_are_counted_by_their_codes_when_they_are_sent() {
    let gap = || {
        let mut bench = ReceiveBench::new(CONFIG);
        bench.request(header(Opcode::RcSendOnly, 1, 1));
        bench
    };
    // The missing packet comes before the NAK is sent.
    let mut bench = gap();
    bench.accept(header(Opcode::RcSendOnly, 0, 1));
    assert_eq!(bench.ack(), None);
    assert_eq!(bench.core.stats().naks, NakCounts::default());
    let mut bench = gap();
    bench.ack();
    bench.request(header(Opcode::RcSendOnly, 2, 1));
    assert_eq!(bench.ack(), None);
    bench.request(read(0, 0, (1 << 31) + 1));
    bench.ack();
    let counts = NakCounts {
        sequence: 1,
        invalid: 1,
        ..NakCounts::default()
    };
    assert_eq!(bench.core.take_stats().naks, counts);
    assert_eq!(bench.core.take_stats(), ResponderStats::default());
    for (error, counts) in [
        (
            ExecuteError::KeyGone,
            NakCounts {
                access: 1,
                ..NakCounts::default()
            },
        ),
        (
            ExecuteError::ReceiveFault,
            NakCounts {
                operational: 1,
                ..NakCounts::default()
            },
        ),
        (ExecuteError::NotInvalidated, NakCounts::default()),
    ] {
        let mut bench = ReceiveBench::new(CONFIG);
        bench.request(header(Opcode::RcSendOnly, 0, 4));
        bench.core.grant_receive(9);
        bench.core.executed(Err(error));
        bench.ack();
        assert_eq!(bench.core.stats().naks, counts);
    }
}

/// RNIC-UD-10: errors of the peer are silent.
#[test]
fn invalid_request_on_an_unreliable_connection_is_dropped() {
    let dropped = Ruling::Drop(DropReason::Incomplete);
    let mut bench = ReceiveBench::new(UC);
    assert_eq!(bench.request(header(Opcode::UcSendLast, 0, 1)), dropped);
    bench.request(ranged(Opcode::UcWriteOnly, 1, 4, 0, 4));
    assert_eq!(bench.core.refuse_key(), dropped);
    bench.request(header(Opcode::UcSendOnly, 2, 4));
    assert_eq!(bench.core.refuse_receive(), dropped);
    bench.request(header(Opcode::UcSendOnly, 3, 4));
    assert_eq!(bench.core.grant_receive(3), dropped);
    assert!(!bench.core.is_failed());
    // An abandoned message does not continue.
    assert_eq!(
        bench.request(header(Opcode::UcSendMiddle, 4, FULL)),
        dropped
    );
    let write = ranged(Opcode::UcWriteOnly, 5, 4, 0, 4);
    assert_eq!(bench.accept(write), Settled::default());
}
