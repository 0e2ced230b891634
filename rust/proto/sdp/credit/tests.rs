// SPDX-License-Identifier: GPL-2.0

//! Credits by the table of draft 10.5, and numbers that wrap.

use super::*;

const STARTS: [u32; 5] = [0, 1, 5, u32::MAX, u32::MAX - 3];

fn tx(first: u32, bufs: u16) -> TxCredit {
    TxCredit::new(Serial::new(first), bufs, false)
}

fn rx(first: u32, bufs: u16) -> RxWindow {
    let mut rx = RxWindow::new(bufs, false);
    rx.expect_first(Serial::new(first));
    rx
}

// SDP-CRED-30 to SDP-CRED-33, SDP-CRED-36, SDP-CRED-37, SDP-CRED-42, TST-041, R-2.
#[test]
fn credits_permit_what_the_table_says() {
    use CreditNeed::{
        Completion,
        Control,
        Payload, //
    };
    for credit in 0..6 {
        let tx = tx(1, credit);
        for gives in [false, true] {
            for reserved in [false, true] {
                let permits = |need| tx.permits(need, gives, reserved);
                assert_eq!(permits(Payload), credit >= 3);
                assert_eq!(permits(Completion), credit >= 2 || credit == 1 && gives);
                let control = credit >= 2 || credit == 1 && gives;
                let control = if reserved { credit >= 3 } else { control };
                assert_eq!(permits(Control), control);
            }
        }
    }
}

// SDP-CRED-01, SDP-CRED-04, SDP-BSDH-19, SDP-BSDH-20, TST-047.
#[test]
fn credit_is_bufs_without_what_is_not_acknowledged() {
    for first in STARTS {
        let mut tx = tx(first, 9);
        for count in 0..5 {
            assert_eq!(tx.on_send(false), Serial::new(first).plus(count));
        }
        assert_eq!(tx.available(), 4);
        let ack = Serial::new(first).plus(2);
        assert_eq!(tx.handle_header(10, ack), Ok(()));
        assert_eq!((tx.acked(), tx.available()), (3, 8));
        // SDP-CRED-05.
        assert_eq!(tx.handle_header(1, ack), Ok(()));
        assert_eq!(tx.available(), 0);
    }
}

// SDP-CRED-03, SDP-ERR-04, TST-045.
#[test]
fn acknowledgement_out_of_range_is_refused() {
    for first in STARTS {
        let mut tx = tx(first, 9);
        for _ in 0..5 {
            tx.on_send(false);
        }
        let ack = |count| Serial::of_count(Serial::new(first), count);
        assert_eq!(tx.handle_header(9, ack(3)), Ok(()));
        for bad in [0, 1, 2, 6, 7, 1 << 31] {
            let mut copy = tx;
            assert_eq!(copy.handle_header(9, ack(bad)), Err(CreditFault::Ack));
            assert_eq!(copy, tx);
        }
        for good in 3..=5 {
            assert_eq!(tx.handle_header(9, ack(good)), Ok(()));
        }
    }
}

// AMB-05, TST-051.
#[test]
fn ambiguous_acknowledgement_puts_no_more_than_bufs_in_flight() {
    let mut tx = tx(0, 3);
    tx.on_send(false);
    assert_eq!(tx.handle_header(3, Serial::new(0)), Ok(()));
    // The formula would say 3; nothing of ours may have arrived.
    assert_eq!(tx.available(), 2);
    tx.on_send(false);
    tx.on_send(false);
    assert_eq!(tx.handle_header(3, Serial::new(0)), Ok(()));
    assert_eq!(tx.available(), 0);
    assert_eq!(tx.handle_header(3, Serial::new(1)), Ok(()));
    assert_eq!(tx.available(), 2);
    assert_eq!(tx.handle_header(3, Serial::new(0)), Err(CreditFault::Ack));
}

// SDP-CRED-09, SDP-IB-04, TST-032.
#[test]
fn answer_in_band_uses_a_credit_of_both() {
    assert_eq!(TxCredit::new(Serial::new(0), 3, true).available(), 2);
    let rx = RxWindow::new(3, true);
    assert_eq!(rx.peer_credit(), 2);
    assert_eq!(rx.wanted(0), 1);
}

// SDP-ORD-02, AMB-04, TST-035, TST-046.
#[test]
fn first_message_has_number_zero_or_one() {
    for (mseq, good) in [(0, true), (1, true), (2, false), (u32::MAX, false)] {
        let mut rx = RxWindow::new(8, false);
        let found = rx.on_receive(Serial::new(mseq), true);
        assert_eq!(found.is_ok(), good);
        if good {
            let next = Serial::new(mseq).plus(1);
            assert_eq!(
                rx.on_receive(next.plus(1), false),
                Err(CreditFault::Sequence)
            );
            assert_eq!(
                rx.on_receive(next.minus(1), false),
                Err(CreditFault::Sequence)
            );
            assert_eq!(rx.on_receive(next, false), Ok(()));
        }
    }
}

// SDP-BSDH-16, SDP-BSDH-21, SDP-BSDH-22, TST-047.
#[test]
fn header_tells_buffers_and_last_number() {
    assert_eq!(RxWindow::new(8, false).on_header(), (8, Serial::new(0)));
    for first in STARTS {
        let mut rx = rx(first, 8);
        for count in 0..6 {
            let mseq = Serial::new(first).plus(count);
            assert_eq!(rx.on_receive(mseq, false), Ok(()));
            assert_eq!(rx.on_header(), (7 - count as u16, mseq));
        }
        rx.on_post(3);
        assert_eq!(rx.on_header(), (5, Serial::new(first).plus(5)));
    }
}

// SDP-ERR-20, SDP-CRED-30.
#[test]
fn message_without_a_buffer_for_it_is_refused() {
    let mut rx = rx(1, 3);
    assert_eq!(rx.on_receive(Serial::new(1), true), Ok(()));
    let payload = rx.on_receive(Serial::new(2), true);
    assert_eq!(payload, Err(CreditFault::Reserve));
    assert_eq!(rx.on_receive(Serial::new(2), false), Ok(()));
    assert_eq!(rx.on_receive(Serial::new(3), false), Ok(()));
    let overrun = rx.on_receive(Serial::new(4), false);
    assert_eq!(overrun, Err(CreditFault::Overrun));
}

// AMB-05: a peer that counts from 0 may have been given one credit too many.
#[test]
fn payload_in_the_reserve_is_accepted_before_the_first_certain_acknowledgement() {
    let mut rx = RxWindow::new(3, false);
    assert_eq!(rx.on_receive(Serial::new(0), true), Ok(()));
    assert_eq!(rx.on_receive(Serial::new(1), true), Ok(()));
    rx.on_header();
    let payload = rx.on_receive(Serial::new(2), true);
    assert_eq!(payload, Err(CreditFault::Reserve));
}

// SDP-CRED-34, SDP-CRED-38, SDP-CRED-41.
#[test]
fn update_is_due_when_the_peer_has_one_credit_or_half_is_new() {
    let mut rx = rx(1, 8);
    for count in 1..=3 {
        assert_eq!(rx.on_receive(Serial::new(count), false), Ok(()));
        rx.on_post(1);
        assert!(rx.gives() && !rx.wants_update());
    }
    assert_eq!(rx.on_receive(Serial::new(4), false), Ok(()));
    rx.on_post(1);
    assert!(rx.wants_update());
    rx.on_header();
    assert!(!rx.gives() && !rx.wants_update());
    // Buffers that hold data: nothing to give, however few credits the peer has.
    for count in 5..=11 {
        assert_eq!(rx.on_receive(Serial::new(count), false), Ok(()));
        assert!(!rx.wants_update());
    }
    assert_eq!(rx.peer_credit(), 1);
    rx.on_post(1);
    assert!(rx.wants_update());
}

// SDP-CRED-23, TST-044.
#[test]
fn idle_peers_stop_updating_each_other() {
    for bufs in 3..12 {
        let mut ends = [(tx(1, bufs), rx(1, bufs)), (tx(1, bufs), rx(1, bufs))];
        let mut updates = 0;
        let mut from = 0;
        // An unsolicited update starts it.
        loop {
            let (tx, rx) = &mut ends[from];
            let mseq = tx.on_send(false);
            let (bufs, ack) = rx.on_header();
            from = 1 - from;
            let (tx, rx) = &mut ends[from];
            assert_eq!(rx.on_receive(mseq, false), Ok(()));
            assert_eq!(tx.handle_header(bufs, ack), Ok(()));
            rx.on_post(rx.wanted(0));
            if !rx.wants_update() {
                break;
            }
            updates += 1;
            assert!(updates < 4, "{bufs} buffers");
        }
    }
}

// SDP-SRCX-06, SDP-SRCX-15, SDP-BSDH-21.
#[test]
fn held_acknowledgement_stays_before_the_cancel() {
    for first in STARTS {
        let mut rx = rx(first, 8);
        let mseq = |count| Serial::of_count(Serial::new(first), count);
        for count in 1..=3 {
            assert_eq!(rx.on_receive(mseq(count), false), Ok(()));
        }
        rx.hold_before(rx.received());
        assert_eq!(rx.on_header().1, mseq(2));
        assert_eq!(rx.on_receive(mseq(4), false), Ok(()));
        assert_eq!(rx.on_header().1, mseq(2));
        rx.release();
        assert_eq!(rx.on_header().1, mseq(4));
    }
}

// SDP-CRED-43, AMB-15, R-3.
#[test]
fn message_held_back_is_made_up_for_by_a_spare_buffer() {
    let mut rx = rx(1, 4);
    let post = |rx: &mut RxWindow| {
        let wanted = rx.wanted(0);
        rx.on_post(wanted);
        wanted
    };
    assert_eq!(rx.on_receive(Serial::new(1), false), Ok(()));
    assert_eq!(post(&mut rx), 1);
    rx.on_header();
    rx.hold_before(1);
    for count in 2..20 {
        assert_eq!(rx.on_receive(Serial::new(count), false), Ok(()));
        // The message itself, and a spare for it while there are spares.
        let want = match count {
            2 => 3,
            3..=8 => 2,
            _ => 1,
        };
        assert_eq!(post(&mut rx), want, "message {count}");
        if count <= 8 {
            // As if nothing were held back: the edge grows by one with each message.
            assert!(rx.gives());
            let (bufs, ack) = rx.on_header();
            assert_eq!(u32::from(bufs) + ack.get(), count + 4);
        }
    }
    rx.release();
    assert_eq!(post(&mut rx), 0);
}

// SDP-BSDH-17.
#[test]
fn no_more_than_65535_buffers_are_counted() {
    let mut rx = rx(1, 10);
    rx.on_post(u16::MAX);
    assert_eq!(rx.on_header().0, u16::MAX);
}

// AMB-06, SDP-CRED-21, TST-032.
#[test]
fn peer_that_cannot_send_data_any_longer_gets_an_update() {
    let mut rx = RxWindow::new(3, true);
    rx.on_post(rx.wanted(0));
    assert!(rx.wants_update());
    rx.on_header();
    assert!(!rx.wants_update());
    for (payload, want) in [(true, true), (false, false)] {
        let mut rx = RxWindow::new(3, false);
        rx.expect_first(Serial::new(1));
        assert_eq!(rx.on_receive(Serial::new(1), payload), Ok(()));
        rx.on_post(1);
        assert_eq!(rx.wants_update(), want);
    }
}

// AMB-05: the first two messages of a peer with three buffers.
#[test]
fn peer_that_counts_from_zero_learns_of_its_second_message() {
    let mut tx = tx(0, 3);
    let mut rx = RxWindow::new(3, false);
    assert_eq!(rx.on_receive(tx.on_send(false), true), Ok(()));
    rx.on_post(1);
    // An acknowledgement of message 0 alone would not help.
    assert!(!rx.gives() && !rx.wants_update());
    assert!(tx.lacks_ack());
    assert_eq!(rx.on_receive(tx.on_send(false), false), Ok(()));
    rx.on_post(1);
    assert!(rx.wants_update() && !tx.lacks_ack());
    let (bufs, ack) = rx.on_header();
    assert_eq!(tx.handle_header(bufs, ack), Ok(()));
    assert_eq!(tx.available(), 3);
}

// R-8, SDP-CRED-21.
#[test]
fn data_that_waits_for_an_acknowledgement_alone_asks_for_it_once() {
    for (bufs, asks) in [(2, false), (3, true), (4, false)] {
        let mut tx = tx(1, 9);
        tx.on_send(true);
        tx.on_send(false);
        assert_eq!(tx.handle_header(bufs, Serial::new(1)), Ok(()));
        assert_eq!(tx.lacks_ack(), asks);
        tx.on_send(true);
        assert!(!tx.lacks_ack());
    }
    let mut tx = tx(1, 2);
    assert_eq!(tx.handle_header(2, Serial::new(0)), Ok(()));
    assert!(!tx.lacks_ack());
}

// SDP-CRED-21: the reader has emptied one of the buffers.
#[test]
fn peer_with_credit_for_no_data_learns_of_the_third_buffer() {
    let mut rx = rx(1, 3);
    assert_eq!(rx.on_receive(Serial::new(1), true), Ok(()));
    rx.on_header();
    assert!(!rx.wants_update());
    rx.on_post(1);
    assert!(rx.wants_update());
    rx.on_header();
    assert!(!rx.wants_update());
}

// SDP-BSDH-17: a pool grows when the peer may send no more data, to its limit and no further.
#[test]
fn pool_grows_when_credits_for_data_run_out() {
    let mut rx = RxWindow::new(4, false);
    rx.let_grow(13);
    let mut mseq = 0;
    let mut receive = |rx: &mut RxWindow, payload| {
        mseq += 1;
        rx.on_receive(Serial::new(mseq), payload)
    };
    receive(&mut rx, true).unwrap();
    assert_eq!((rx.pool(), rx.wanted(1)), (4, 0));
    receive(&mut rx, true).unwrap();
    assert_eq!((rx.pool(), rx.wanted(2)), (8, 4));
    rx.on_post(4);
    let _ = rx.on_header();
    for queued in 3..=6 {
        receive(&mut rx, true).unwrap();
        assert_eq!(rx.pool(), if queued < 6 { 8 } else { 13 });
    }
    assert_eq!(rx.wanted(6), 5);
    // There is no memory: the pool is as it was, and asks again later.
    rx.limit(8);
    assert_eq!((rx.pool(), rx.wanted(6)), (8, 0));
}

#[test]
fn messages_without_payload_do_not_grow_the_pool() {
    let mut rx = RxWindow::new(4, false);
    rx.let_grow(13);
    for mseq in 1..=3 {
        rx.on_receive(Serial::new(mseq), false).unwrap();
    }
    assert_eq!(rx.pool(), 4);
    assert_eq!(RxWindow::new(10, false).pool(), 10);
}
