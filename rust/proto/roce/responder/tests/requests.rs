// SPDX-License-Identifier: GPL-2.0

//! Requests that are executed, in order and out of order.

use super::*;

/// RNIC-RSP-08, RNIC-RSP-16, RNIC-RSP-17, RNIC-HDR-06.
#[test]
fn send_of_three_packets_completes_one_buffer() {
    let mut bench = ReceiveBench::new(CONFIG);
    assert_eq!(
        bench.request(header(Opcode::RcSendFirst, 0, FULL)),
        Ruling::NeedReceive
    );
    let place = |offset, len| {
        Ruling::Place(Placement {
            target: PlacementTarget::Receive,
            offset,
            len,
            word: false,
            invalidate: None,
        })
    };
    assert_eq!(bench.core.grant_receive(600), place(0, FULL));
    assert_eq!(
        bench.core.executed(Ok(())),
        Ruling::Done(Settled::default())
    );
    let middle = bench.request(header(Opcode::RcSendMiddle, 1, FULL));
    assert_eq!(middle, place(256, FULL));
    assert_eq!(
        bench.core.executed(Ok(())),
        Ruling::Done(Settled::default())
    );
    assert_eq!(bench.ack(), None);
    let mut last = asking(header(Opcode::RcSendLastImm, 2, 88));
    last.ext.imm = Some([9; 4]);
    last.solicited = true;
    assert_eq!(bench.request(last), place(512, 88));
    let expected = ReceiveCompletion {
        result: Ok(()),
        len: 600,
        write: false,
        imm: Some([9; 4]),
        invalidated: None,
        solicited: true,
    };
    let Ruling::Done(settled) = bench.core.executed(Ok(())) else {
        panic!("not done");
    };
    assert_eq!(settled.receive, Some(expected));
    assert_eq!(bench.ack(), Some((2, Syndrome::ACK, 1)));
    assert_eq!(bench.ack(), None);
}

/// RNIC-RSP-20.
#[test]
fn write_with_immediate_takes_its_buffer_at_the_end() {
    let mut bench = ReceiveBench::new(CONFIG);
    let first = ranged(Opcode::RcWriteFirst, 0, FULL, 0x1000, 300);
    let range = RemoteRange {
        vaddr: 0x1000,
        rkey: KEY,
        len: 300,
        right: RemoteRight::Write,
    };
    assert_eq!(bench.request(first), Ruling::NeedKey(range));
    assert!(matches!(
        bench.core.grant_key(),
        Ruling::Place(Placement {
            target: PlacementTarget::Memory(0x1000, KEY),
            offset: 0,
            ..
        })
    ));
    bench.core.executed(Ok(()));
    let mut last = header(Opcode::RcWriteLastImm, 1, 44);
    last.ext.imm = Some([1; 4]);
    assert_eq!(bench.request(last), Ruling::NeedReceive);
    assert!(matches!(
        bench.core.grant_receive(0),
        Ruling::Place(Placement {
            target: PlacementTarget::Memory(0x1000, KEY),
            offset: 256,
            len: 44,
            ..
        })
    ));
    let Ruling::Done(settled) = bench.core.executed(Ok(())) else {
        panic!("not done");
    };
    let done = settled.receive.unwrap();
    assert_eq!((done.len, done.write, done.imm), (300, true, Some([1; 4])));
}

/// RNIC-RSP-07: a range of nothing is not checked.
#[test]
fn request_of_length_zero_needs_no_key() {
    let mut bench = ReceiveBench::new(CONFIG);
    let write = bench.request(ranged(Opcode::RcWriteOnly, 0, 0, 0, 0));
    assert!(matches!(write, Ruling::Place(Placement { len: 0, .. })));
    bench.core.executed(Ok(()));
    assert!(matches!(bench.request(read(1, 0, 0)), Ruling::Done(_)));
    assert_eq!(bench.read(9), (1, 0, 0, 1));
}

/// RNIC-RSP-01.
#[test]
fn packet_of_another_service_is_dropped() {
    let mut bench = ReceiveBench::new(CONFIG);
    for opcode in [
        Opcode::UcSendOnly,
        Opcode::UdSendOnly,
        Opcode::Cnp,
        Opcode::RcAcknowledge,
        Opcode::RcReadResponseOnly,
        Opcode::RcAtomicAcknowledge,
    ] {
        assert_eq!(
            bench.request(header(opcode, 0, 0)),
            Ruling::Drop(DropReason::Service)
        );
    }
    assert!(!bench.core.take_established());
    assert_eq!(bench.core.expected_psn(), CONFIG.first_psn);
}

/// RNIC-RSP-19.
#[test]
fn first_valid_packet_is_reported_once() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(header(Opcode::RcSendOnly, 0, 1));
    assert!(bench.core.take_established());
    bench.accept(header(Opcode::RcSendOnly, 1, 1));
    assert!(!bench.core.take_established());
}

/// RNIC-RSP-02.
#[test]
fn gap_causes_one_nak_until_it_is_filled() {
    let mut bench = ReceiveBench::new(CONFIG);
    for number in [2, 3, 0x7f_ffff] {
        bench.request(header(Opcode::RcSendOnly, number, 1));
    }
    assert_eq!(bench.ack(), Some((0, SEQUENCE, 0)));
    assert_eq!(bench.ack(), None);
    bench.accept(header(Opcode::RcSendOnly, 0, 1));
    assert_eq!(bench.ack(), None);
    bench.request(header(Opcode::RcSendOnly, 2, 1));
    assert_eq!(bench.ack(), Some((1, SEQUENCE, 1)));
    assert_eq!(bench.core.stats().out_of_sequence, 4);
}

/// RNIC-RSP-02: a NAK that was not sent in time is stale.
#[test]
fn expected_packet_cancels_a_sequence_nak() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.request(header(Opcode::RcSendOnly, 1, 1));
    bench.accept(asking(header(Opcode::RcSendOnly, 0, 1)));
    assert_eq!(bench.ack(), Some((0, Syndrome::ACK, 1)));
}

#[test]
fn answer_that_is_not_asked_for_does_nothing() {
    let mut bench = ReceiveBench::new(CONFIG);
    let idle = Ruling::Drop(DropReason::Idle);
    assert_eq!(bench.core.grant_receive(9), idle);
    assert_eq!(bench.core.refuse_receive(), idle);
    assert_eq!(bench.core.grant_key(), idle);
    assert_eq!(bench.core.refuse_key(), idle);
    assert_eq!(bench.core.executed(Ok(())), idle);
    assert_eq!(bench.core.executed_atomic(Ok(1)), idle);
    bench.request(header(Opcode::RcSendOnly, 0, 1));
    assert_eq!(bench.core.executed(Ok(())), idle);
    assert!(bench.accept_granted().receive.is_some());
}

/// RNIC-UD-10.
#[test]
fn gap_on_an_unreliable_connection_drops_one_message() {
    let mut bench = ReceiveBench::new(UC);
    bench.accept(header(Opcode::UcSendFirst, 0, FULL));
    let dropped = Ruling::Drop(DropReason::Incomplete);
    assert_eq!(
        bench.request(header(Opcode::UcSendMiddle, 2, FULL)),
        dropped
    );
    assert_eq!(bench.request(header(Opcode::UcSendLast, 3, 1)), dropped);
    // The buffer of the lost message serves the next one, from its start.
    let next = bench.request(asking(header(Opcode::UcSendOnly, 7, 5)));
    assert!(matches!(
        next,
        Ruling::Place(Placement {
            offset: 0,
            len: 5,
            ..
        })
    ));
    let Ruling::Done(settled) = bench.core.executed(Ok(())) else {
        panic!("not done");
    };
    assert_eq!(settled.receive.unwrap().len, 5);
    assert_eq!(bench.core.poll_reply(9), None);
    assert_eq!(
        bench.request(header(Opcode::UcSendOnly, 8, 1)),
        Ruling::NeedReceive
    );
}

/// RNIC-DIR-03, RNIC-DIR-04.
#[test]
fn run_of_packets_advances_as_its_packets_do() {
    let mut bench = ReceiveBench::new(CONFIG);
    let whole = ranged(Opcode::RcWriteOnly, 0, 3 * FULL - 1, 0x1000, 3 * FULL - 1);
    let Ruling::NeedKey(range) = bench.request(run(3, whole)) else {
        panic!("no key needed");
    };
    assert_eq!(range.len, 3 * FULL - 1);
    assert!(matches!(
        bench.core.grant_key(),
        Ruling::Place(Placement {
            offset: 0,
            len: 767,
            ..
        })
    ));
    bench.core.executed(Ok(()));
    assert_eq!(number(bench.core.expected_psn()), 3);
    // Packets and runs alternate within a message.
    bench.accept(header(Opcode::RcSendFirst, 3, FULL));
    let last = bench.accept(asking(run(2, header(Opcode::RcSendLast, 4, FULL + 1))));
    assert_eq!(last.receive.unwrap().len, 2 * FULL + 1);
    bench.accept(run(2, header(Opcode::RcSendFirst, 6, 2 * FULL)));
    let last = bench.accept(asking(header(Opcode::RcSendLast, 8, 1)));
    assert_eq!(last.receive.unwrap().len, 2 * FULL + 1);
    assert_eq!(bench.ack(), Some((8, Syndrome::ACK, 3)));
}

/// RNIC-DIR-03, RNIC-RSP-05: a run has the octets of its packets.
#[test]
fn run_with_too_few_or_too_many_octets_is_refused() {
    for (opcode, packets, len) in [
        (Opcode::RcSendOnly, 2, FULL),
        (Opcode::RcSendOnly, 2, 2 * FULL + 1),
        (Opcode::RcSendFirst, 3, 3 * FULL - 1),
        (Opcode::RcSendFirst, 3, 2 * FULL),
    ] {
        let mut bench = ReceiveBench::new(CONFIG);
        bench.request(run(packets, header(opcode, 0, len)));
        assert_eq!(
            bench.ack(),
            Some((0, INVALID, 0)),
            "{opcode:?} {packets} {len}"
        );
    }
    for len in [FULL, 2 * FULL + 1] {
        let mut bench = ReceiveBench::new(CONFIG);
        bench.accept(header(Opcode::RcSendFirst, 0, FULL));
        bench.request(run(2, header(Opcode::RcSendLast, 1, len)));
        assert_eq!(bench.ack(), Some((1, INVALID, 0)), "{len}");
    }
}

/// RNIC-RSP-02, RNIC-RSP-12: of a run that was executed in part, the rest is asked for.
#[test]
fn run_that_was_executed_before_is_a_duplicate() {
    let mut bench = ReceiveBench::new(CONFIG);
    bench.accept(run(3, header(Opcode::RcSendFirst, 0, 3 * FULL)));
    let again = bench.accept(run(3, header(Opcode::RcSendFirst, 0, 3 * FULL)));
    assert!(again.duplicate);
    bench.request(run(4, header(Opcode::RcSendFirst, 0, 4 * FULL)));
    let sequence = Syndrome::Nak(NakCode::Sequence);
    assert_eq!(bench.ack(), Some((3, sequence, 0)));
    bench.accept(asking(header(Opcode::RcSendLast, 3, 1)));
    assert_eq!(bench.ack(), Some((3, Syndrome::ACK, 1)));
}

/// RNIC-DIR-11: the octets of a run may be gone when it is executed.
#[test]
fn run_without_its_octets_counts_as_lost() {
    let mut bench = ReceiveBench::new(CONFIG);
    let send = asking(run(2, header(Opcode::RcSendOnly, 0, 2 * FULL)));
    bench.request(send);
    bench.core.grant_receive(9_999);
    let gone = Ruling::Drop(DropReason::SourceGone);
    assert_eq!(bench.core.executed(Err(ExecuteError::SourceGone)), gone);
    assert_eq!(bench.ack(), None);
    assert!(!bench.core.is_failed());
    // It comes again, and has the receive buffer already.
    assert!(matches!(bench.request(send), Ruling::Place(_)));
    bench.core.executed(Ok(()));
    assert_eq!(bench.ack(), Some((1, Syndrome::ACK, 1)));
}
