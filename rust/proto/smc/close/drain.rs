// SPDX-License-Identifier: GPL-2.0

//! How long a released connection has for its data.

use super::*;

const START: Instant = Instant::from_nanos(1_000_000_000);
const TIMERS: CloseTimers = CloseTimers {
    drain: Duration::from_secs(120),
    drain_all: Duration::from_secs(600),
    ..CloseTimers::DEFAULT
};

fn after(seconds: u64) -> Instant {
    START.saturating_add(Duration::from_secs(seconds))
}

fn released() -> Close {
    let mut close = Close::new(TIMERS);
    close.close(START, false);
    close
}

#[test]
fn data_that_stands_still_is_given_up_after_the_short_time() {
    let mut close = released();
    assert_eq!(close.poll_timeout(), Some(after(120)));
    assert!(close.handle_timeout(after(120), false));
    assert_eq!(close.state(), CloseState::PeerAbortWait);
    assert_eq!(close.error(), Some(CloseError::TimedOut));
}

#[test]
fn peer_that_takes_little_at_a_time_is_given_up_after_the_long_time() {
    let mut close = released();
    for second in (100..600).step_by(100) {
        close.progress(after(second));
        assert_eq!(close.poll_timeout(), Some(after(600.min(second + 120))));
        assert!(!close.handle_timeout(after(second), false));
    }
    assert!(close.handle_timeout(after(600), false));
    assert_eq!(close.state(), CloseState::PeerAbortWait);
    assert_eq!(close.error(), Some(CloseError::TimedOut));
}

#[test]
fn data_that_is_gone_ends_both_times() {
    let mut close = released();
    close.progress(after(100));
    close.handle_announced(after(150), CloseNotice::Closed);
    assert_eq!(close.poll_timeout(), Some(after(210)));
    close.progress(after(200));
    assert_eq!(close.poll_timeout(), Some(after(210)));
}
