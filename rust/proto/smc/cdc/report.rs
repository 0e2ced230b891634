// SPDX-License-Identifier: GPL-2.0

//! How a failure reaches the socket, and what calls find before and after.

use super::{
    testing::{
        connection,
        T0, //
    },
    CloseError,
    Ending,
    Receive,
    SendError,
    Tcp,
    TcpFound, //
};
use crate::proto::stream::poll::{
    self,
    Mask, //
};

/// A socket whose TCP connection was reset.
const RESET: poll::PolledSocket = poll::PolledSocket {
    low_water: 1,
    error: true,
    error_queue: false,
    closed: true,
};

#[test]
fn calls_before_the_report_wait() {
    let mut conn = connection();
    conn.handle_tcp_reset(T0);
    assert_eq!(conn.unreported_error(), Some(CloseError::Reset));
    assert_eq!(conn.recv_state(), Receive::More);
    assert_eq!(conn.can_send(), Err(SendError::Unreported));
    assert_eq!(conn.poll_state(&RESET), poll::PollState::Failing);
}

#[test]
fn calls_after_the_report_fail() {
    let mut conn = connection();
    conn.handle_tcp_reset(T0);
    assert_eq!(conn.report_error(true), Some(CloseError::Reset));
    assert_eq!(conn.unreported_error(), None);
    assert_eq!(conn.recv_state(), Receive::Failed);
    assert_eq!(conn.can_send(), Err(SendError::Pipe));
    let all = Mask::READABLE | Mask::WRITABLE | Mask::HANGUP | Mask::READ_HANGUP;
    assert_eq!(conn.poll_state(&RESET).mask(), all | Mask::ERROR);
    // A call has taken the error.
    let socket = poll::PolledSocket {
        error: false,
        ..RESET
    };
    assert_eq!(conn.poll_state(&socket).mask(), all);
}

#[test]
fn report_without_an_error_does_nothing() {
    let mut conn = connection();
    assert_eq!(conn.report_error(true), None);
    conn.abort(T0);
    assert_eq!(conn.report_error(true), Some(CloseError::Aborted));
}

#[test]
fn later_failure_after_the_report_is_not_reported() {
    let mut conn = connection();
    conn.handle_tcp_reset(T0);
    assert_eq!(conn.report_error(true), Some(CloseError::Reset));
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
    conn.report_error(true);
    assert_eq!(conn.can_send(), Err(SendError::Pipe));
}

#[test]
fn poll_of_a_reset_that_the_core_has_not_seen_reports_nothing() {
    let conn = connection();
    assert_eq!(conn.poll_mask(1), Mask::WRITABLE);
    assert_eq!(conn.poll_state(&RESET), poll::PollState::Failing);
}

#[test]
fn poll_of_a_pending_error_without_a_reset_reports_it() {
    let conn = connection();
    let socket = poll::PolledSocket {
        closed: false,
        ..RESET
    };
    let mask = conn.poll_state(&socket).mask();
    assert_eq!(mask, Mask::WRITABLE | Mask::ERROR);
}

#[test]
fn poll_of_a_closed_tcp_connection_without_an_error_reports_the_stream() {
    let conn = connection();
    let socket = poll::PolledSocket {
        error: false,
        ..RESET
    };
    assert_eq!(conn.poll_state(&socket).mask(), Mask::WRITABLE);
}

#[test]
fn error_before_the_end_of_tcp_is_not_reported() {
    let mut conn = connection();
    conn.handle_tcp_reset(T0);
    assert_eq!(conn.report_error(false), None);
    assert_eq!(conn.unreported_error(), Some(CloseError::Reset));
    conn.handle_tcp_done(Tcp::Fin);
    assert_eq!(conn.report_error(false), None);
    conn.handle_tcp_done(Tcp::Reset);
    assert_eq!(conn.report_error(false), Some(CloseError::Reset));
}

#[test]
fn engine_that_has_reset_tcp_has_nothing_to_do() {
    let mut conn = connection();
    conn.handle_link_lost();
    let ending = Ending {
        tcp: Some(Tcp::Reset),
        error: Some(CloseError::Reset),
        silent: true,
        released: false,
    };
    assert_eq!(conn.poll_ending(), ending);
    conn.handle_tcp_done(Tcp::Reset);
    conn.report_error(false);
    conn.close(T0);
    let ending = Ending {
        tcp: None,
        error: None,
        silent: false,
        released: true,
    };
    assert_eq!(conn.poll_ending(), ending);
}

#[test]
fn tcp_connection_that_ends_is_judged_by_what_was_done_to_it() {
    let closed = |error| TcpFound::Closed { error };
    let [quiet, payload] = [false, true].map(|payload| TcpFound::Open { payload });
    let rows = [
        (Tcp::Keep, quiet, None),
        (Tcp::Keep, payload, Some(CloseError::Aborted)),
        (Tcp::Keep, TcpFound::Fin, None),
        (Tcp::Keep, closed(false), Some(CloseError::Reset)),
        (Tcp::Keep, closed(true), Some(CloseError::Reset)),
        (Tcp::Fin, quiet, None),
        (Tcp::Fin, payload, Some(CloseError::Aborted)),
        (Tcp::Fin, TcpFound::Fin, None),
        (Tcp::Fin, closed(false), None),
        (Tcp::Fin, closed(true), Some(CloseError::Reset)),
        (Tcp::Reset, quiet, None),
        (Tcp::Reset, payload, None),
        (Tcp::Reset, TcpFound::Fin, None),
        (Tcp::Reset, closed(false), None),
        (Tcp::Reset, closed(true), None),
    ];
    for (done, found, error) in rows {
        let mut conn = connection();
        conn.handle_tcp_done(done);
        conn.handle_tcp(T0, found);
        assert_eq!(conn.error(), error, "{done:?} {found:?}");
        // Without a FIN, nothing has a deadline but an abort.
        let fin = found == TcpFound::Fin || (done, found) == (Tcp::Fin, closed(false));
        let timed = error.is_some() || fin && done != Tcp::Reset;
        assert_eq!(conn.poll_timeout().is_some(), timed, "{done:?} {found:?}");
    }
}
