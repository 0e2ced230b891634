// SPDX-License-Identifier: GPL-2.0

//! When the requester repeats packets, and when it gives up (RNIC-TMO-01 to RNIC-TMO-05,
//! RNIC-FLOW-04, RNIC-FLOW-05, RNIC-DIR-10).

use crate::proto::{
    base::time::{
        earliest,
        Duration,
        Instant, //
    },
    roce::{
        aeth::RnrTimer,
        psn::ExtPsn, //
    },
};

/// The standard lets a timer run up to four times as long as its code says (RNIC-TMO-01). Expiries in a row
/// use that: a peer in software stands still for seconds when its machine has no processor for it.
const MAX_STRETCH: u8 = 2;
/// The RNR retry count that means no limit (RNIC-FLOW-05).
const RNR_ENDLESS: u8 = 7;
/// RNR NAKs in a row stretch a shorter wait up to this one: each doubles it. A peer that never posts a
/// receive request would otherwise occupy a processor.
const RNR_STRETCHED: Duration = Duration::from_millis(1);
/// Doublings that take the shortest wait there.
const RNR_DOUBLINGS: u8 = 7;
/// The first wait for a peer of this kernel, where a repetition costs little (RNIC-DIR-10).
const RNR_NEAR: Duration = Duration::from_micros(20);

/// The local ACK timeout of a code of 5 bits: 4.096 us times 2^code, `None` for code 0, which
/// means never (RNIC-TMO-01).
pub(crate) fn ack_timeout(code: u8) -> Option<Duration> {
    let code = code & 0x1f;
    (code != 0).then(|| Duration::from_ack_code(code))
}

/// Limits of retries, as the application set them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryLimits {
    /// Time without progress after which packets are repeated; `None` for never.
    pub(crate) timeout: Option<Duration>,
    /// Repetitions in a row without progress. 7 means seven (RNIC-TMO-02).
    pub(crate) retries: u8,
    /// RNR NAKs in a row for the same request. 7 means no limit (RNIC-FLOW-05).
    pub(crate) rnr_retries: u8,
    /// Packets after a time-out until the peer answers (RNIC-TMO-05).
    pub(crate) probe: u32,
}

/// The decision on a failed transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// Repeat from the oldest packet without an acknowledgement.
    Repeat,
    /// A repetition from there is under way.
    Ignore,
    /// The limit is exceeded.
    GiveUp,
}

/// Timers and counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryState {
    /// Settings.
    limits: RetryLimits,
    /// Expiry of the retransmission timer.
    deadline: Option<Instant>,
    /// End of the wait that an RNR NAK asked for.
    rnr_until: Option<Instant>,
    /// Repetitions since the last progress.
    retries: u8,
    /// Expiries of the retransmission timer since the last progress.
    expiries: u8,
    /// End of the wait of the RNR NAK that counted last.
    rnr_counted: Option<Instant>,
    /// RNR NAKs since the last progress that count: one for each time that the peer asked for.
    rnr_retries: u8,
    /// RNR NAKs since the last progress.
    rnr_naks: u8,
    /// The PSN from which packets were repeated last, until there is progress.
    repeated: Option<ExtPsn>,
    /// Packets that may be sent until the peer answers.
    probe: Option<u32>,
    /// The network of this host lost packets since the peer answered last.
    congested: bool,
}

impl RetryState {
    /// Makes the state of a queue pair without packets in flight.
    pub(super) const fn new(limits: RetryLimits) -> Self {
        Self {
            limits,
            deadline: None,
            rnr_until: None,
            retries: 0,
            expiries: 0,
            rnr_counted: None,
            rnr_retries: 0,
            rnr_naks: 0,
            repeated: None,
            probe: None,
            congested: false,
        }
    }

    /// The network of this host lost a packet.
    pub(super) fn on_congestion(&mut self) {
        self.congested = true;
    }

    /// Whether the network of this host lost packets since the peer answered last.
    pub(super) const fn is_congested(&self) -> bool {
        self.congested
    }

    /// Whether an RNR NAK forbids to send.
    pub(super) const fn is_waiting(&self) -> bool {
        self.rnr_until.is_some()
    }

    /// Packets that may be sent until the peer answers; `None` for no limit.
    pub(super) const fn probe(&self) -> Option<u32> {
        self.probe
    }

    /// The next expiry.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        earliest(self.deadline, self.rnr_until)
    }

    /// Stops everything.
    pub(super) fn stop(&mut self) {
        self.deadline = None;
        self.rnr_until = None;
        self.congested = false;
    }

    /// Restarts the timer (RNIC-TMO-01), which doubles with each expiry in a row, twice at most.
    fn restart(&mut self, now: Instant) {
        let times = 1 << self.expiries.min(MAX_STRETCH);
        let time = self.limits.timeout.map(|time| time.saturating_mul(times));
        self.deadline = time.map(|time| now.saturating_add(time));
    }

    /// Packets were sent.
    pub(super) fn on_transmit(&mut self, now: Instant, packets: u32) {
        self.restart(now);
        if let Some(probe) = &mut self.probe {
            *probe = probe.saturating_sub(packets);
        }
    }

    /// The peer answered something about packets in flight.
    pub(super) fn on_answer(&mut self) {
        self.probe = None;
        self.congested = false;
    }

    /// A new PSN was acknowledged (RNIC-TMO-03); `outstanding` if others were not.
    pub(super) fn on_progress(&mut self, now: Instant, outstanding: bool) {
        self.retries = 0;
        self.expiries = 0;
        self.rnr_counted = None;
        self.rnr_retries = 0;
        self.rnr_naks = 0;
        self.repeated = None;
        self.rnr_until = None;
        self.probe = None;
        self.congested = false;
        if outstanding {
            self.restart(now);
        } else {
            self.deadline = None;
        }
    }

    /// Counts a repetition from `oldest`.
    fn count(&mut self, oldest: ExtPsn) -> Retry {
        if self.retries >= self.limits.retries {
            return Retry::GiveUp;
        }
        self.retries = self.retries.saturating_add(1);
        self.repeated = Some(oldest);
        Retry::Repeat
    }

    /// A sequence NAK, or an answer that shows that a response is missing (RNIC-TMO-04).
    pub(super) fn on_loss(&mut self, oldest: ExtPsn) -> Retry {
        if self.rnr_until.is_some() || self.repeated == Some(oldest) {
            return Retry::Ignore;
        }
        self.count(oldest)
    }

    /// An RNR NAK (RNIC-FLOW-04). A peer that is `near` is asked again soon, and not only after the time of
    /// its NAK; the NAKs within that time count as one (RNIC-DIR-10).
    pub(super) fn on_rnr(&mut self, now: Instant, timer: RnrTimer, near: bool) -> Retry {
        if self.rnr_until.is_some() {
            return Retry::Ignore;
        }
        let coded = timer.duration();
        if self.rnr_counted.is_none_or(|until| until <= now) {
            let limit = self.limits.rnr_retries;
            if limit != RNR_ENDLESS && self.rnr_retries >= limit {
                return Retry::GiveUp;
            }
            self.rnr_retries = self.rnr_retries.saturating_add(1);
            self.rnr_counted = Some(now.saturating_add(coded));
        }
        let times = 1 << self.rnr_naks.min(RNR_DOUBLINGS);
        self.rnr_naks = self.rnr_naks.saturating_add(1);
        let stretched = |wait: Duration| wait.saturating_mul(times).min(RNR_STRETCHED);
        let mut wait = coded.max(stretched(coded));
        if near {
            wait = wait.min(stretched(RNR_NEAR));
        }
        self.deadline = None;
        self.rnr_until = Some(now.saturating_add(wait));
        Retry::Repeat
    }

    /// Whether the retransmission timer has expired; ends an RNR wait that is over. The expired
    /// timer is stopped: the repetition starts it again.
    pub(super) fn handle_timeout(&mut self, now: Instant, oldest: ExtPsn) -> Retry {
        if self.rnr_until.is_some_and(|until| until <= now) {
            self.rnr_until = None;
        }
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return Retry::Ignore;
        }
        self.deadline = None;
        self.expiries = self.expiries.saturating_add(1);
        let retry = self.count(oldest);
        self.probe = Some(self.limits.probe.max(1));
        retry
    }
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_retry))]
mod tests {
    use super::*;
    use crate::proto::base::verbs::Psn;

    const OLDEST: ExtPsn = ExtPsn::start(Psn::new(5));
    const LIMITS: RetryLimits = RetryLimits {
        timeout: Some(Duration::from_millis(1)),
        retries: 2,
        rnr_retries: 1,
        probe: 16,
    };

    /// A time in microseconds.
    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    /// RNIC-TMO-01.
    #[test]
    fn timeout_doubles_with_its_code() {
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(1), Some(Duration::from_nanos(8_192)));
        assert_eq!(ack_timeout(14), Some(Duration::from_nanos(67_108_864)));
        assert_eq!(ack_timeout(31), Some(Duration::from_nanos(4_096 << 31)));
        assert_eq!(ack_timeout(32), None);
    }

    /// RNIC-TMO-02: the count of repetitions is the one that was set, and progress clears it.
    #[test]
    fn repetitions_without_progress_are_limited() {
        let mut retry = RetryState::new(RetryLimits {
            retries: 3,
            ..LIMITS
        });
        let rounds = [
            (0, 1_000, Retry::Repeat),
            (1_000, 3_000, Retry::Repeat),
            (3_000, 7_000, Retry::Repeat),
            // Four times the time of the code is the most.
            (7_000, 11_000, Retry::GiveUp),
        ];
        for (from, until, expected) in rounds {
            retry.on_transmit(at(from), 1);
            assert_eq!(retry.poll_timeout(), Some(at(until)));
            assert_eq!(retry.handle_timeout(at(until - 1), OLDEST), Retry::Ignore);
            assert_eq!(retry.handle_timeout(at(until), OLDEST), expected);
        }
        retry.on_progress(at(19_000), true);
        assert_eq!(retry.poll_timeout(), Some(at(20_000)));
        assert_eq!(retry.handle_timeout(at(20_000), OLDEST), Retry::Repeat);
        retry.on_progress(at(21_000), false);
        assert_eq!(retry.poll_timeout(), None);
    }

    /// RNIC-TMO-04.
    #[test]
    fn second_nak_for_the_same_psn_is_ignored() {
        let mut retry = RetryState::new(LIMITS);
        assert_eq!(retry.on_loss(OLDEST), Retry::Repeat);
        assert_eq!(retry.on_loss(OLDEST), Retry::Ignore);
        assert_eq!(retry.on_loss(OLDEST.after(1)), Retry::Repeat);
        assert_eq!(retry.on_loss(OLDEST.after(2)), Retry::GiveUp);
    }

    /// RNIC-FLOW-04, RNIC-FLOW-05.
    #[test]
    fn rnr_naks_without_progress_are_limited() {
        let mut retry = RetryState::new(LIMITS);
        let timer = RnrTimer::new(14);
        let Some(timer) = timer else {
            return assert!(timer.is_some());
        };
        retry.on_transmit(at(0), 1);
        assert_eq!(retry.on_rnr(at(10), timer, false), Retry::Repeat);
        // The retransmission timer rests meanwhile.
        assert_eq!(retry.poll_timeout(), Some(at(1_290)));
        assert_eq!(retry.on_rnr(at(20), timer, false), Retry::Ignore);
        assert_eq!(retry.handle_timeout(at(1_289), OLDEST), Retry::Ignore);
        assert!(retry.is_waiting());
        assert_eq!(retry.handle_timeout(at(1_290), OLDEST), Retry::Ignore);
        assert!(!retry.is_waiting());
        assert_eq!(retry.on_rnr(at(1_300), timer, false), Retry::GiveUp);
    }

    /// Lets the wait for a receive buffer end.
    fn end_wait(retry: &mut RetryState) {
        let until = retry.poll_timeout();
        let ended = until.map(|until| retry.handle_timeout(until, OLDEST));
        assert_eq!(ended, Some(Retry::Ignore));
        assert!(!retry.is_waiting());
    }

    /// RNIC-FLOW-05.
    #[test]
    fn rnr_retry_of_seven_has_no_limit() {
        let mut retry = RetryState::new(RetryLimits {
            rnr_retries: 7,
            ..LIMITS
        });
        for _ in 0..100 {
            let timer = RnrTimer::new(1);
            assert_eq!(
                timer.map(|timer| retry.on_rnr(at(0), timer, false)),
                Some(Retry::Repeat)
            );
            end_wait(&mut retry);
        }
    }

    /// RNIC-FLOW-04: the wait is the one of the code at least, and a short one grows.
    #[test]
    fn rnr_naks_in_a_row_stretch_the_wait_to_a_millisecond() {
        let mut retry = RetryState::new(RetryLimits {
            rnr_retries: 7,
            ..LIMITS
        });
        let waits = [
            // Codes 1, 8 and 18: 10 us, 160 us and 5120 us.
            (1, [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]),
            (8, [160, 320, 640, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000]),
            (18, [5_120; 9]),
        ];
        for (code, waits) in waits {
            for wait in waits {
                let timer = RnrTimer::new(code);
                assert_eq!(
                    timer.map(|timer| retry.on_rnr(at(7), timer, false)),
                    Some(Retry::Repeat)
                );
                assert_eq!(retry.poll_timeout(), Some(at(7 + wait)));
                end_wait(&mut retry);
            }
            // Progress ends the row.
            retry.on_progress(at(9), false);
        }
    }

    /// RNIC-DIR-10: a near peer is asked soon, and its NAKs count by the time of their code.
    #[test]
    fn near_peer_without_a_receive_is_asked_soon_and_fails_as_a_far_one() {
        let mut retry = RetryState::new(LIMITS);
        // Code 19: 7680 us. One retry is permitted.
        let Some(timer) = RnrTimer::new(19) else {
            return assert!(RnrTimer::new(19).is_some());
        };
        let mut now = 0;
        for wait in [
            20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000,
        ] {
            assert_eq!(retry.on_rnr(at(now), timer, true), Retry::Repeat);
            now += wait;
            assert_eq!(retry.poll_timeout(), Some(at(now)));
            end_wait(&mut retry);
        }
        assert!(now > 7_680);
        assert_eq!(retry.on_rnr(at(now), timer, true), Retry::GiveUp);
        // A shorter wait of the peer stays as short.
        retry.on_progress(at(now), false);
        let short = RnrTimer::new(1).map(|timer| retry.on_rnr(at(now), timer, true));
        assert_eq!(short, Some(Retry::Repeat));
        assert_eq!(retry.poll_timeout(), Some(at(now + 10)));
    }

    /// RNIC-TMO-05.
    #[test]
    fn probe_after_timeout_ends_with_an_answer() {
        let mut retry = RetryState::new(LIMITS);
        retry.on_transmit(at(0), 1);
        assert_eq!(retry.probe(), None);
        assert_eq!(retry.handle_timeout(at(1_000), OLDEST), Retry::Repeat);
        assert_eq!(retry.probe(), Some(16));
        retry.on_transmit(at(1_000), 10);
        assert_eq!(retry.probe(), Some(6));
        retry.on_answer();
        assert_eq!(retry.probe(), None);
    }

    /// RNIC-TMO-01.
    #[test]
    fn timeout_zero_never_expires() {
        let mut retry = RetryState::new(RetryLimits {
            timeout: None,
            ..LIMITS
        });
        retry.on_transmit(at(0), 1);
        assert_eq!(retry.poll_timeout(), None);
        assert_eq!(
            retry.handle_timeout(at(u64::MAX / 1_000), OLDEST),
            Retry::Ignore
        );
    }
}
