// SPDX-License-Identifier: GPL-2.0

//! A peer that may be gone: keepalive, TCP_USER_TIMEOUT, and a device that gives up. Figures.

use super::{
    at,
    Script, //
};
use crate::proto::{
    base::time::Duration,
    sdp::{
        msg::Body,
        teardown::EndError, //
    },
};

const SECOND: Option<Duration> = Some(Duration::from_secs(1));

// SDP-KA-01, SDP-KA-03.
#[test]
fn idle_connection_tests_its_peer_without_a_message() {
    let mut script = Script::new();
    script.conn.set_patience(at(0), SECOND, None);
    script.wait(900);
    script.data(1).unwrap();
    script.wait(900);
    assert!(!script.conn.has_test());
    assert_eq!(script.conn.poll_timeout(), Some(at(1900)));
    script.wait(100);
    assert!(script.conn.has_test() && !script.conn.has_due());
    let token = script.conn.poll_test(at(1900)).unwrap();
    assert!(!script.conn.has_test());
    script.conn.handle_sent(at(1950), token);
    assert_eq!(script.conn.poll_timeout(), Some(at(2900)));
    script.wait(1000);
    assert!(!script.conn.has_test());
    script.conn.set_patience(at(2900), None, None);
    assert_eq!(script.conn.poll_timeout(), None);
}

// A message that goes anyway stands for the test.
#[test]
fn message_that_is_due_is_the_test() {
    let mut script = Script::new();
    script.conn.set_patience(at(0), SECOND, None);
    script.conn.write(at(0), 1);
    script.wait(1000);
    assert!(!script.conn.has_test());
    let (_, out) = script.hear_all().unwrap();
    assert!(out.signal && !script.conn.has_test());
}

#[test]
fn data_without_progress_ends_the_connection_in_time() {
    let mut script = Script::new();
    script.conn.set_patience(at(0), None, SECOND);
    assert_eq!(script.conn.poll_timeout(), None);
    script.conn.write(at(0), 3000);
    let (_, first) = script.hear_all().unwrap();
    script.wait(500);
    script.conn.handle_sent(at(500), first.token);
    assert_eq!(script.conn.poll_timeout(), Some(at(1500)));
    script.wait(900);
    assert_eq!(script.conn.read_error(), None);
    script.wait(100);
    assert_eq!(script.conn.read_error(), Some(EndError::TimedOut));
    assert!(script.conn.poll_take_down());
}

#[test]
fn sent_data_needs_no_patience() {
    let mut script = Script::new();
    script.conn.set_patience(at(0), None, SECOND);
    script.conn.write(at(0), 3000);
    script.hear();
    assert_eq!(script.conn.poll_timeout(), None);
}

// SDP-ERRNO-9.
#[test]
fn link_that_the_device_gave_up_has_timed_out() {
    let mut script = Script::new();
    script.conn.handle_silence();
    script.conn.handle_link_down(at(1));
    assert_eq!(script.conn.read_error(), Some(EndError::TimedOut));
}

#[test]
fn figures_are_those_of_the_connection() {
    let mut script = Script::new();
    script.conn.set_prompt(true);
    script.conn.write(at(0), 1500);
    let (_, first) = script.hear_all().unwrap();
    let (_, last) = script.hear_all().unwrap();
    assert!(first.signal && last.signal);
    script.wait(3);
    script.conn.handle_sent(at(3), first.token);
    script.conn.handle_sent(at(3), last.token);
    script.data(7).unwrap();
    script.conn.write(at(3), 1);
    let info = script.conn.info(at(4));
    assert_eq!((info.send_mss, info.recv_mss), (1000, 1000));
    assert_eq!((info.in_flight, info.window, info.unsent), (0, 10, 1));
    assert_eq!(info.send_window, 8000);
    let meter = info.meter;
    assert_eq!((meter.sent, meter.acked, meter.received), (1500, 1500, 7));
    assert_eq!((meter.messages_out, meter.messages_in), (2, 1));
    assert_eq!((meter.data_out, meter.data_in), (2, 1));
    assert_eq!(meter.rtt, Duration::from_millis(3));
    assert_eq!(meter.since_sent, Duration::from_millis(4));
}

/// A connection that has used all credits of its peer but the last two, with nothing in flight.
fn without_credits() -> Script {
    let mut script = Script::new();
    script.conn.write(at(0), 60_000);
    script.hear();
    assert!(script.conn.has_unsent() && !script.conn.has_due());
    script
}

// SDP-KA-01, SDP-KA-03: the test needs no credit where a message would need one.
#[test]
fn keepalive_without_credits_tests_the_link() {
    let mut script = Script::new();
    script.bufs = 1;
    script.data(1).unwrap();
    script.conn.write(at(0), 60_000);
    script.hear();
    script.conn.set_patience(at(0), SECOND, None);
    assert!(!script.conn.has_test());
    script.wait(1000);
    assert!(!script.conn.has_due() && script.conn.has_test());
    let token = script.conn.poll_test(at(1000)).unwrap();
    // One at a time.
    script.wait(1000);
    assert!(!script.conn.has_test());
    script.conn.handle_sent(at(2000), token);
    assert!(script.conn.has_test());
}

/// Time passes, and each timer is handled when it expires. Tests succeed.
fn pass(script: &mut Script, span: Duration) {
    let end = script.now.saturating_add(span);
    while let Some(next) = script.conn.poll_timeout().filter(|next| *next <= end) {
        script.now = next;
        script.conn.handle_timeout(next);
        while let Some(token) = script.conn.poll_test(next) {
            script.conn.handle_sent(next, token);
        }
    }
    script.now = end;
}

#[test]
fn credits_now_and_then_keep_an_orphan() {
    let mut script = without_credits();
    script.conn.close(at(0));
    let mut left = script.conn.unsent();
    while left > 0 {
        pass(&mut script, Duration::from_secs(100));
        assert_eq!(script.conn.read_error(), None);
        script.tell(Body::Data).unwrap();
        script.hear();
        assert!(script.conn.unsent() < left);
        left = script.conn.unsent();
    }
}

#[test]
fn messages_without_credits_do_not_keep_an_orphan() {
    let mut script = without_credits();
    script.conn.set_orphan_tests(3);
    script.conn.close(at(0));
    script.bufs = 2;
    for _ in 0..37 {
        pass(&mut script, Duration::from_millis(100));
        script.tell(Body::Data).unwrap();
        script.hear();
    }
    assert_eq!(script.conn.read_error(), None);
    pass(&mut script, Duration::from_millis(100));
    assert_eq!(script.conn.read_error(), Some(EndError::TimedOut));
    assert!(script.conn.poll_take_down());
}

#[test]
fn writer_without_credits_tests_its_peer() {
    let mut script = without_credits();
    assert_eq!(script.conn.poll_timeout(), Some(at(250)));
    script.wait(250);
    assert!(script.conn.has_test());
    let token = script.conn.poll_test(at(250)).unwrap();
    script.conn.handle_sent(at(251), token);
    assert_eq!(script.conn.poll_timeout(), Some(at(750)));
    // With credits nothing is left to test.
    while script.conn.has_unsent() {
        script.tell(Body::Data).unwrap();
        script.hear();
    }
    assert_eq!(script.conn.poll_timeout(), None);
}
