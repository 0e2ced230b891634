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
    wire::AlertToken, //
};

const T0: Instant = Instant::from_nanos(1_000);

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
    assert!(conn.is_reset_under_way(true));
}

#[test]
fn calls_after_the_report_fail() {
    let mut conn = connection();
    conn.handle_tcp_reset(T0);
    assert_eq!(conn.report_error(), Some(Error::Reset));
    assert_eq!(conn.unreported_error(), None);
    assert_eq!(conn.recv_state(), Receive::Failed);
    assert_eq!(conn.can_send(), Err(SendError::Pipe));
    assert!(!conn.is_reset_under_way(true));
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
fn reset_of_tcp_that_the_core_has_not_seen_is_under_way() {
    let mut conn = connection();
    assert!(!conn.is_reset_under_way(false));
    assert!(conn.is_reset_under_way(true));
    conn.handle_tcp_reset(T0);
    assert!(conn.is_reset_under_way(true));
    conn.report_error();
    assert!(!conn.is_reset_under_way(true));
}
