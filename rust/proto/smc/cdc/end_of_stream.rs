// SPDX-License-Identifier: GPL-2.0

//! What a reader finds behind the last data: the end of the stream only if all data has come.

use super::{
    testing::{
        connection,
        T0, //
    },
    CloseError,
    Conn,
    Msg,
    Receive,
    Violation, //
};
fn pair() -> (Conn, Conn) {
    (connection(), connection())
}

/// The next message of `from`, on its link.
fn next(from: &mut Conn) -> Msg {
    let transmit = from.poll_transmit(T0).unwrap();
    from.handle_sent(T0, transmit.token);
    Msg::parse(&transmit.cdc).unwrap()
}

/// Two connections; 100 octets of the first have arrived.
fn with_data() -> (Conn, Conn) {
    let (mut a, mut b) = pair();
    a.write(T0, 100);
    b.handle_cdc(T0, &next(&mut a)).unwrap();
    (a, b)
}

/// The messages with 50 octets more, and with the end of the first one's stream.
fn rest(a: &mut Conn) -> (Msg, Msg) {
    a.write(T0, 50);
    let data = next(a);
    a.close(T0);
    (data, next(a))
}

/// Checks that a reader of `b` without data waits until the error is reported, and then gets it.
fn finds_the_error(mut b: Conn) {
    assert_eq!(b.recv_state(), Receive::More);
    assert!(b.report_error(true).is_some());
    assert_eq!(b.recv_state(), Receive::Failed);
}

#[test]
fn reader_after_all_data_finds_the_end() {
    let (mut a, mut b) = with_data();
    let (data, end) = rest(&mut a);
    b.handle_cdc(T0, &data).unwrap();
    b.handle_cdc(T0, &end).unwrap();
    b.read(150);
    assert_eq!(b.recv_state(), Receive::Eof);
}

#[test]
fn end_that_is_known_before_the_link_is_lost_stays_the_end() {
    let (mut a, mut b) = with_data();
    let (data, end) = rest(&mut a);
    b.handle_cdc(T0, &data).unwrap();
    b.handle_cdc(T0, &end).unwrap();
    b.handle_link_lost();
    assert_eq!(b.recv_available(), 150);
    assert_eq!(b.recv_state(), Receive::Eof);
}

#[test]
fn end_that_comes_behind_an_abort_is_an_error() {
    let (mut a, mut b) = with_data();
    let (_, end) = rest(&mut a);
    b.abort(T0);
    let _ = b.handle_cdc(T0, &end);
    b.read(100);
    finds_the_error(b);
}

#[test]
fn end_in_the_message_of_an_abort_is_an_error() {
    let (mut a, mut b) = with_data();
    let (_, mut end) = rest(&mut a);
    end.flags.abort = true;
    let _ = b.handle_cdc(T0, &end);
    assert_eq!(b.error(), Some(CloseError::Reset));
    finds_the_error(b);
}

#[test]
fn end_in_front_of_a_lost_element_is_an_error() {
    let (mut a, mut b) = with_data();
    let (data, end) = rest(&mut a);
    b.handle_cdc(T0, &data).unwrap();
    b.handle_cdc(T0, &end).unwrap();
    assert_eq!(b.handle_eye_catcher_lost(T0), Err(Violation::EyeCatcher));
    assert_eq!(b.recv_available(), 0);
    finds_the_error(b);
}

/// A message that follows `end` and announces 10 octets behind the end of data.
fn more(mut end: Msg) -> Msg {
    end.seq = end.seq.wrapping_add(1);
    end.produced.offset += 10;
    end
}

#[test]
fn end_that_was_read_before_a_violation_stays_the_end() {
    let (mut a, mut b) = with_data();
    let (data, end) = rest(&mut a);
    b.handle_cdc(T0, &data).unwrap();
    b.handle_cdc(T0, &end).unwrap();
    b.read(150);
    assert_eq!(b.handle_cdc(T0, &more(end)), Err(Violation::Producer));
    assert_eq!(b.recv_state(), Receive::Eof);
}

#[test]
fn end_behind_data_that_a_violation_took_is_an_error() {
    let (mut a, mut b) = with_data();
    let (data, end) = rest(&mut a);
    b.handle_cdc(T0, &data).unwrap();
    b.handle_cdc(T0, &end).unwrap();
    assert_eq!(b.handle_cdc(T0, &more(end)), Err(Violation::Producer));
    assert_eq!(b.recv_available(), 0);
    finds_the_error(b);
}
