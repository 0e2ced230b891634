// SPDX-License-Identifier: GPL-2.0

//! What a connection measures of itself, for `TCP_INFO`.
//!
//! The device of the peer confirms a message, and its completion says so. The span between a message
//! that asks for a completion and that completion is a round trip.

use crate::proto::{
    base::time::Instant,
    stream::info::{
        since,
        MeterFigures,
        RttEstimate, //
    }, //
};

/// The measurements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SdpMeter {
    rtt: RttEstimate,
    /// Count of the message whose completion is awaited, and when it was posted.
    probe: Option<(u64, Instant)>,
    /// When payload was sent last.
    sent_at: Option<Instant>,
    /// When payload came last.
    received_at: Option<Instant>,
    /// When a message with payload before it was confirmed last.
    acked_at: Option<Instant>,
    /// Octets of payload sent.
    sent: u64,
    /// Octets of payload that the peer has.
    acked: u64,
    /// Octets of payload that have come.
    received: u64,
    /// Messages with payload sent.
    data_out: u32,
    /// Messages with payload that have come.
    data_in: u32,
    /// Count of the last message that is known to have arrived.
    completed: u64,
}

impl SdpMeter {
    /// Message `count` was posted with `payload` octets; it asks for a completion if it `signals`.
    pub(super) fn on_sent(&mut self, now: Instant, count: u64, payload: u32, signals: bool) {
        if signals && self.probe.is_none() {
            self.probe = Some((count, now));
        }
        if payload > 0 {
            self.sent = self.sent.saturating_add(u64::from(payload));
            self.data_out = self.data_out.wrapping_add(1);
            self.sent_at = Some(now);
        }
    }

    /// Message `count`, posted when the stream was at `position`, has completed.
    pub(super) fn on_completed(&mut self, now: Instant, count: u64, position: u64) {
        self.completed = core::cmp::max(self.completed, count);
        if position > self.acked {
            self.acked = position;
            self.acked_at = Some(now);
        }
        if let Some((awaited, posted)) = self.probe.filter(|(awaited, _)| *awaited <= count) {
            self.probe = None;
            // That of a later message stands for it, and is too late.
            if awaited == count {
                self.rtt.add(now.saturating_since(posted));
            }
        }
    }

    /// A message has come with `payload` octets for this end.
    pub(super) fn on_received(&mut self, now: Instant, payload: u32) {
        if payload > 0 {
            self.received = self.received.saturating_add(u64::from(payload));
            self.data_in = self.data_in.wrapping_add(1);
            self.received_at = Some(now);
        }
    }

    /// Messages that are not known to have arrived, of `sent` messages.
    pub(super) fn in_flight(&self, sent: u64, acked: u64) -> u32 {
        let arrived = core::cmp::max(self.completed, acked);
        u32::try_from(sent.saturating_sub(arrived)).unwrap_or(u32::MAX)
    }

    /// A new link counts messages from the start.
    pub(super) fn resume(&mut self) {
        self.probe = None;
        self.completed = 0;
    }

    /// The figures, with the counts of messages.
    pub(super) fn figures(&self, now: Instant, out: u64, came: u64) -> MeterFigures {
        let [rtt, rtt_var, rtt_min] = self.rtt.get();
        // The counters of TCP have 32 bits, and wrap.
        let wrapped = |count: u64| u32::try_from(count & u64::from(u32::MAX)).unwrap_or(0);
        MeterFigures {
            rtt,
            rtt_var,
            rtt_min,
            since_sent: since(now, self.sent_at),
            since_received: since(now, self.received_at),
            since_acked: since(now, self.acked_at),
            sent: self.sent,
            acked: core::cmp::min(self.acked, self.sent),
            received: self.received,
            messages_out: wrapped(out),
            messages_in: wrapped(came),
            data_out: self.data_out,
            data_in: self.data_in,
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_sdp_meter))]
mod tests {
    use super::*;
    use crate::proto::base::time::Duration;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(0).saturating_add(Duration::from_micros(micros))
    }

    fn rtt(meter: &SdpMeter) -> Duration {
        meter.figures(at(0), 0, 0).rtt
    }

    #[test]
    fn completion_of_the_awaited_message_is_a_round_trip() {
        let mut meter = SdpMeter::default();
        meter.on_sent(at(1), 1, 10, false);
        meter.on_sent(at(2), 2, 10, true);
        meter.on_sent(at(3), 3, 10, true);
        meter.on_completed(at(7), 2, 20);
        assert_eq!(rtt(&meter), Duration::from_micros(5));
        assert_eq!(meter.in_flight(3, 1), 1);
        let figures = meter.figures(at(9), 3, 0);
        assert_eq!(
            [figures.sent, figures.acked, figures.data_out.into()],
            [30, 20, 3]
        );
        assert_eq!(figures.since_acked, Duration::from_micros(2));
        assert_eq!(figures.since_sent, Duration::from_micros(6));
    }

    #[test]
    fn completion_of_a_later_message_is_none() {
        let mut meter = SdpMeter::default();
        meter.on_sent(at(1), 1, 10, true);
        meter.on_completed(at(50), 2, 10);
        assert_eq!(rtt(&meter), Duration::ZERO);
        meter.on_sent(at(60), 3, 10, true);
        meter.on_completed(at(61), 3, 20);
        assert_eq!(rtt(&meter), Duration::from_micros(1));
    }

    #[test]
    fn payload_that_comes_is_counted() {
        let mut meter = SdpMeter::default();
        meter.on_received(at(5), 0);
        assert_eq!(meter.figures(at(9), 0, 1).since_received, Duration::ZERO);
        meter.on_received(at(6), 70);
        let figures = meter.figures(at(9), 0, 2);
        assert_eq!((figures.received, figures.data_in), (70, 1));
        assert_eq!(figures.messages_in, 2);
        assert_eq!(figures.since_received, Duration::from_micros(3));
    }
}
