// SPDX-License-Identifier: GPL-2.0

//! What calls find between the failure of a connection and the moment the socket has the error.

use super::{
    Config,
    Conn,
    Error,
    Receive,
    SendError,
    Tcp,
    Timers, //
};
use crate::proto::{
    base::time::Instant,
    stream::poll::{
        self,
        Mask, //
    },
    wire::AlertToken, //
};

const T0: Instant = Instant::from_nanos(1_000);

/// A socket whose TCP connection was reset.
const RESET: poll::Socket = poll::Socket {
    low_water: 1,
    error: true,
    error_queue: false,
    closed: true,
};

fn connection() -> Conn {
    let config = Config {
        token: AlertToken::new(7),
        sndbuf: 65_536,
        local_rmbe: 65_536,
        peer_rmbe: 65_536,
        origin: 0,
        cork_bytes: 0,
        max_write: 0,
        timers: Timers::DEFAULT,
    };
    Conn::new(&config).unwrap()
}

#[test]
fn calls_before_the_report_wait() {
    let mut conn = connection();
    conn.handle_tcp_reset(T0);
    assert_eq!(conn.unreported_error(), Some(Error::Reset));
    assert_eq!(conn.recv_state(), Receive::More);
    assert_eq!(conn.can_send(), Err(SendError::Unreported));
    assert_eq!(conn.poll_state(&RESET), poll::State::Failing);
}

#[test]
fn calls_after_the_report_fail() {
    let mut conn = connection();
    conn.handle_tcp_reset(T0);
    assert_eq!(conn.report_error(), Some(Error::Reset));
    assert_eq!(conn.unreported_error(), None);
    assert_eq!(conn.recv_state(), Receive::Failed);
    assert_eq!(conn.can_send(), Err(SendError::Pipe));
    let all = Mask::READABLE | Mask::WRITABLE | Mask::HANGUP | Mask::READ_HANGUP;
    assert_eq!(conn.poll_state(&RESET).mask(), all | Mask::ERROR);
    // A call has taken the error.
    let socket = poll::Socket {
        error: false,
        ..RESET
    };
    assert_eq!(conn.poll_state(&socket).mask(), all);
}

#[test]
fn report_without_an_error_does_nothing() {
    let mut conn = connection();
    assert_eq!(conn.report_error(), None);
    conn.abort(T0);
    assert_eq!(conn.report_error(), Some(Error::Aborted));
}

#[test]
fn later_failure_after_the_report_is_not_reported() {
    let mut conn = connection();
    conn.handle_tcp_reset(T0);
    assert_eq!(conn.report_error(), Some(Error::Reset));
    conn.handle_link_lost();
    assert_eq!(conn.unreported_error(), None);
    assert_eq!(conn.recv_state(), Receive::Failed);
    assert_eq!(conn.tcp(), Tcp::Reset);
}

#[test]
fn reader_that_was_shut_does_not_wait_for_the_report() {
    let mut conn = connection();
    conn.shutdown_read();
    conn.handle_tcp_reset(T0);
    assert_eq!(conn.recv_state(), Receive::Eof);
    assert_eq!(conn.can_send(), Err(SendError::Unreported));
}

#[test]
fn writer_that_was_shut_waits_for_the_report() {
    let mut conn = connection();
    conn.shutdown_write();
    assert_eq!(conn.can_send(), Err(SendError::Pipe));
    conn.handle_tcp_reset(T0);
    assert_eq!(conn.can_send(), Err(SendError::Unreported));
    conn.report_error();
    assert_eq!(conn.can_send(), Err(SendError::Pipe));
}

#[test]
fn poll_of_a_reset_that_the_core_has_not_seen_reports_nothing() {
    let conn = connection();
    assert_eq!(conn.poll_mask(1), Mask::WRITABLE);
    assert_eq!(conn.poll_state(&RESET), poll::State::Failing);
}

#[test]
fn poll_of_a_pending_error_without_a_reset_reports_it() {
    let conn = connection();
    let socket = poll::Socket {
        closed: false,
        ..RESET
    };
    let mask = conn.poll_state(&socket).mask();
    assert_eq!(mask, Mask::WRITABLE | Mask::ERROR);
}

#[test]
fn poll_of_a_closed_tcp_connection_without_an_error_reports_the_stream() {
    let conn = connection();
    let socket = poll::Socket {
        error: false,
        ..RESET
    };
    assert_eq!(conn.poll_state(&socket).mask(), Mask::WRITABLE);
}
