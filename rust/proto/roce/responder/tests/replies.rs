// SPDX-License-Identifier: GPL-2.0

//! Responses, acknowledgements, and duplicates.

use super::*;

/// RNIC-RSP-16: one acknowledgement for a batch.
#[test]
fn acks_of_a_batch_are_coalesced() {
    let mut bench = ReceiveBench::new(CONFIG);
    for number in 0..5 {
        bench.accept(asking(header(Opcode::RcSendOnly, number, 1)));
    }
    assert_eq!(bench.ack(), Some((4, Syndrome::ACK, 5)));
    assert_eq!(bench.ack(), None);
    bench.accept(header(Opcode::RcSendOnly, 5, 1));
    assert_eq!(bench.ack(), None);
}

/// RNIC-RSP-12, RNIC-RSP-15.
#[test]
fn duplicate_send_is_acknowledged_with_the_newest_psn() {
    let mut bench = ReceiveBench::new(CONFIG);
    for number in 0..3 {
        bench.accept(header(Opcode::RcSendOnly, number, 1));
    }
    bench.accept(header(Opcode::RcSendFirst, 3, FULL));
    let settled = bench.accept(header(Opcode::RcSendOnly, 1, 1));
    assert!(settled.duplicate && settled.receive.is_none());
    assert_eq!(bench.ack(), Some((3, Syndrome::ACK, 3)));
    // A packet of the middle is acknowledged if it asks for it.
    bench.accept(header(Opcode::RcSendFirst, 3, FULL));
    assert_eq!(bench.ack(), None);
    bench.accept(asking(header(Opcode::RcSendFirst, 3, FULL)));
    assert_eq!(bench.ack(), Some((3, Syndrome::ACK, 3)));
    bench.accept(header(Opcode::RcSendLast, 4, 1));
}

/// RNIC-LIM-05: whatever the peer asks for, there is a response for each resource and one more reply.
#[test]
fn replies_that_wait_are_bounded_by_the_resources() {
    let mut bench = ReceiveBench::new(CONFIG);
    let replies = |bench: &mut ReceiveBench| {
        let mut count = 0;
        while bench.core.poll_reply(100).is_some() {
            count += 1;
        }
        count
    };
    bench.accept(read(0, 0x1000, FULL));
    bench.accept(atomic(1, 8));
    for number in 2..1_000 {
        bench.accept(asking(header(Opcode::RcSendOnly, number, 1)));
    }
    // Duplicates of all of them.
    for number in 2..1_000 {
        bench.accept(asking(header(Opcode::RcSendOnly, number, 1)));
        bench.accept(read(0, 0x1000, FULL));
        bench.accept(atomic(1, 8));
    }
    assert_eq!(bench.core.replies_due(), 3);
    assert_eq!(replies(&mut bench), 3);
    // Requests without a receive buffer wait in no list: their sender repeats them.
    for _ in 0..1_000 {
        let ruling = bench.request(header(Opcode::RcSendOnly, 1_000, 1));
        assert_eq!(ruling, Ruling::NeedReceive);
        bench.core.refuse_receive();
        let behind = bench.request(header(Opcode::RcSendOnly, 1_001, 1));
        assert_eq!(behind, Ruling::Drop(DropReason::Sequence));
    }
    assert_eq!(bench.core.stats().rnr_naks, 1_000);
    assert_eq!(replies(&mut bench), 1);
    assert_eq!(bench.core.replies_due(), 0);
}

/// RNIC-RDA-01, RNIC-RDA-02, RNIC-RDA-03.
#[test]
fn responses_leave_in_order_and_before_later_acks() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(asking(header(Opcode::RcSendOnly, 0, 1)));
    bench.accept(read(1, 0x1000, 3 * FULL));
    bench.accept(atomic(4, 8));
    bench.accept(asking(header(Opcode::RcSendOnly, 5, 1)));
    assert_eq!(bench.read(2), (1, 0x1000, 0, 2));
    assert_eq!(bench.read(2), (3, 0x1000, 2, 1));
    assert!(matches!(
        bench.core.poll_reply(1),
        Some(ReplyPacket::Atomic { psn, msn: 3, original: 99 }) if number(psn) == 4
    ));
    assert_eq!(bench.ack(), Some((5, Syndrome::ACK, 4)));
    assert_eq!(bench.ack(), None);
}

/// RNIC-RDA-12.
#[test]
fn request_within_a_long_response_waits_for_its_end() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(read(0, 0x1000, 5 * FULL));
    assert_eq!(bench.core.poll_reply(0), None);
    assert_eq!(bench.core.replies_due(), 5);
    assert_eq!(bench.read(2), (0, 0x1000, 0, 2));
    bench.accept(asking(header(Opcode::RcSendOnly, 5, 1)));
    assert_eq!(bench.core.replies_due(), 4);
    bench.accept(read(6, 0x8000, 2 * FULL));
    // The response acknowledges the SEND before it.
    assert_eq!(bench.core.replies_due(), 5);
    assert_eq!(bench.core.poll_reply(0), None);
    assert_eq!(bench.read(2), (2, 0x1000, 2, 2));
    assert_eq!(bench.read(2), (4, 0x1000, 4, 1));
    assert_eq!(bench.read(1), (6, 0x8000, 0, 1));
    assert_eq!(bench.read(1), (7, 0x8000, 1, 1));
    assert_eq!(bench.core.poll_reply(1), None);
}

/// RNIC-RDA-01.
#[test]
fn more_reads_than_resources_are_an_invalid_request() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(read(0, 0, 4));
    bench.accept(read(1, 0, 4));
    bench.read(9);
    bench.accept(read(2, 0, 4));
    let settled = {
        let Ruling::Done(settled) = bench.request(read(3, 0, 4)) else {
            panic!("not done");
        };
        settled
    };
    assert_eq!(settled.nak, Some(INVALID));
    // Responses to earlier requests precede the NAK.
    assert_eq!(bench.read(9).0, 1);
    assert_eq!(bench.read(9).0, 2);
    assert_eq!(bench.ack(), Some((3, INVALID, 3)));
    assert_eq!(bench.ack(), None);
    let mut none = Responder::new(&CONFIG, Vec::new());
    assert!(matches!(
        none.handle_request(&read(0, 0, 4)),
        Ruling::Done(Settled {
            nak: Some(INVALID),
            ..
        })
    ));
}

/// RNIC-RSP-13, RNIC-RSP-15.
#[test]
fn duplicate_read_is_executed_within_its_first_range() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(read(0, 0x1000, 4 * FULL));
    assert_eq!(bench.read(9), (0, 0x1000, 0, 4));
    bench.accept(header(Opcode::RcSendOnly, 4, 1));
    // The rest, from the second packet on.
    assert!(bench.accept(read(1, 0x1100, 3 * FULL)).duplicate);
    assert_eq!(bench.read(2), (1, 0x1100, 0, 2));
    assert_eq!(bench.read(2), (3, 0x1100, 2, 1));
    let forgotten = Ruling::Drop(DropReason::Forgotten);
    for other in [
        read(1, 0x1000, 3 * FULL),
        read(1, 0x1100, 3 * FULL + 1),
        read(0, 0x1001, 4),
        read(4, 0x1400, 0),
        RequestHeader {
            psn: CONFIG.first_psn.previous(),
            ..read(0, 0x1000, 4)
        },
    ] {
        assert_eq!(bench.request(other), forgotten);
    }
    let mut other_key = read(0, 0x1000, 4);
    other_key.ext.reth = Some(Reth {
        vaddr: 0x1000,
        rkey: RKey::new(8),
        len: 4,
    });
    assert_eq!(bench.request(other_key), forgotten);
    assert_eq!(number(bench.core.expected_psn()), 5);
    assert_eq!(bench.core.poll_reply(1), None);
}

/// RNIC-RDA-03: the requester goes back, and asks for everything behind again.
#[test]
fn repeated_response_restarts_later_ones() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(read(0, 0x1000, 2 * FULL));
    bench.accept(read(2, 0x2000, 3 * FULL));
    assert_eq!(bench.read(9), (0, 0x1000, 0, 2));
    assert_eq!(bench.read(1), (2, 0x2000, 0, 1));
    bench.accept(read(1, 0x1100, FULL));
    assert_eq!(bench.read(9), (1, 0x1100, 0, 1));
    assert_eq!(bench.read(9), (2, 0x2000, 0, 3));
}

/// RNIC-RDA-01: a spurious duplicate does not take the place of a new request.
#[test]
fn repeated_response_makes_room_for_a_new_request() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(read(0, 0x1000, 4));
    bench.accept(read(1, 0x2000, 4));
    bench.read(9);
    bench.read(9);
    bench.accept(read(0, 0x1000, 4));
    bench.accept(read(2, 0x3000, 4));
    assert_eq!(bench.read(9), (2, 0x3000, 0, 1));
    assert_eq!(bench.core.poll_reply(1), None);
}

/// RNIC-RSP-14, RNIC-RDA-08.
#[test]
fn duplicate_atomic_gets_the_recorded_value() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(atomic(0, 8));
    bench.accept(ranged(Opcode::RcAtomicWrite, 1, 8, 16, 8));
    for _ in 0..2 {
        assert!(matches!(
            bench.core.poll_reply(9),
            Some(ReplyPacket::Atomic {
                msn: 1,
                original: 99,
                ..
            })
        ));
        assert!(matches!(
            bench.core.poll_reply(9),
            Some(ReplyPacket::Empty { psn, msn: 2 }) if number(psn) == 1
        ));
        assert_eq!(bench.core.poll_reply(9), None);
        assert!(bench.accept(atomic(0, 8)).duplicate);
        assert!(
            bench
                .accept(ranged(Opcode::RcAtomicWrite, 1, 8, 16, 8))
                .duplicate
        );
    }
    // Two more requests, and the ring has forgotten the first two.
    let mut bench = ReceiveBench::new(CONFIG);
    for number in 0..3 {
        bench.accept(atomic(number, 8));
        bench.core.poll_reply(9);
    }
    assert_eq!(
        bench.request(atomic(0, 8)),
        Ruling::Drop(DropReason::Forgotten)
    );
    // A request of another kind has no record.
    assert_eq!(
        bench.request(ranged(Opcode::RcAtomicWrite, 2, 8, 16, 8)),
        Ruling::Drop(DropReason::Forgotten)
    );
}

/// RNIC-RDA-10.
#[test]
fn flush_is_answered_by_an_empty_response() {
    let mut bench = ReceiveBench::new(CONFIG);
    assert!(matches!(
        bench.request(flush(0, Feth::GLOBAL, Feth::RANGE)),
        Ruling::NeedKey(RemoteRange {
            right: RemoteRight::FlushRange,
            len: 64,
            ..
        })
    ));
    assert!(matches!(bench.core.grant_key(), Ruling::Flush(_)));
    bench.core.executed(Ok(()));
    assert!(matches!(
        bench.core.poll_reply(9),
        Some(ReplyPacket::Empty { msn: 1, .. })
    ));
}

/// RNIC-RDA-10.
#[test]
fn flush_to_persistence_needs_a_right_of_its_own() {
    for placement in [Feth::PERSISTENT, Feth::GLOBAL | Feth::PERSISTENT] {
        for level in [Feth::RANGE, Feth::REGION] {
            let mut bench = ReceiveBench::new(CONFIG);
            assert!(matches!(
                bench.request(flush(0, placement, level)),
                Ruling::NeedKey(RemoteRange {
                    right: RemoteRight::Persist,
                    ..
                })
            ));
        }
    }
}

/// RNIC-RSP-21, RNIC-ERR-02.
#[test]
fn key_that_goes_during_a_response_ends_the_queue_pair() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(read(0, 0x1000, 3 * FULL));
    bench.accept(header(Opcode::RcSendFirst, 3, FULL));
    let Some(ReplyPacket::Read(burst)) = bench.core.poll_reply(9) else {
        panic!("no response");
    };
    let settled = bench.core.read_failed(&burst, burst.psn.after(1));
    assert!(settled.failed);
    assert_eq!(settled.event, Some(QpEvent::AccessError));
    assert_eq!(settled.receive.unwrap().status(), WorkStatus::WrFlushErr);
    assert_eq!(bench.ack(), Some((1, ACCESS, 1)));
    assert_eq!(bench.ack(), None);
}

/// RNIC-RSP-13.
#[test]
fn key_that_goes_during_a_repeated_response_is_no_error() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(read(0, 0x1000, 3 * FULL));
    bench.read(9);
    bench.accept(read(0, 0x1000, 3 * FULL));
    let Some(ReplyPacket::Read(burst)) = bench.core.poll_reply(1) else {
        panic!("no response");
    };
    let settled = bench.core.read_failed(&burst, burst.psn);
    assert!(!settled.failed && settled.duplicate);
    assert_eq!(bench.core.poll_reply(9), None);
    bench.accept(header(Opcode::RcSendOnly, 3, 1));
}

/// RNIC-ERR-02, RNIC-ERR-05.
#[test]
fn flush_silences_the_responder() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(read(0, 0, 4));
    bench.accept(asking(header(Opcode::RcSendFirst, 1, FULL)));
    assert!(bench.core.flush());
    assert!(!bench.core.flush());
    assert_eq!(bench.core.poll_reply(9), None);
    assert_eq!(
        bench.request(header(Opcode::RcSendLast, 2, 1)),
        Ruling::Drop(DropReason::Closed)
    );
}

/// RNIC-REQ-04, RNIC-RSP-16: a response acknowledges all earlier requests.
#[test]
fn response_replaces_an_earlier_ack() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(asking(header(Opcode::RcSendOnly, 0, 1)));
    bench.accept(asking(read(1, 0x1000, 4)));
    assert_eq!(bench.read(9), (1, 0x1000, 0, 1));
    assert_eq!(bench.core.poll_reply(9), None);
}
