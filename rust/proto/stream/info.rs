// SPDX-License-Identifier: GPL-2.0

//! What `TCP_INFO` reports of a connection that TCP does not carry: the octets of `struct tcp_info`.
//!
//! C header: [`include/uapi/linux/tcp.h`](srctree/include/uapi/linux/tcp.h)

use crate::proto::base::time::{
    Duration,
    Instant, //
};
use zerocopy_derive::{
    Immutable,
    IntoBytes, //
};

/// Octets of [`InfoHead`].
pub(crate) const HEAD_LEN: usize = 104;
/// Octets of [`InfoTail`].
pub(crate) const TAIL_LEN: usize = 120;
/// Offset of the octets of [`InfoTail`]. The pacing rates of the socket lie before it.
pub(crate) const TAIL_OFFSET: usize = 120;

/// The figures of a connection. Times are spans up to now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamInfo {
    /// Time after which a message is sent again.
    pub(crate) rto: Duration,
    /// Octets of payload in a message that this end sends, at most.
    pub(crate) send_mss: u32,
    /// The same for the peer.
    pub(crate) recv_mss: u32,
    /// Messages of this end that are in flight.
    pub(crate) in_flight: u32,
    /// Messages that may be in flight.
    pub(crate) window: u32,
    /// Octets that this end may send now.
    pub(crate) send_window: u32,
    /// Octets that the peer may send now.
    pub(crate) recv_window: u32,
    /// Octets that wait to be sent.
    pub(crate) unsent: u32,
    /// What was measured.
    pub(crate) meter: MeterFigures,
}

/// What a connection has measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MeterFigures {
    /// Smoothed round trip time, zero before the first measurement.
    pub(crate) rtt: Duration,
    /// Its variation.
    pub(crate) rtt_var: Duration,
    /// The shortest round trip.
    pub(crate) rtt_min: Duration,
    /// Since data was sent.
    pub(crate) since_sent: Duration,
    /// Since data came.
    pub(crate) since_received: Duration,
    /// Since the arrival of data of this end was confirmed.
    pub(crate) since_acked: Duration,
    /// Octets of payload sent.
    pub(crate) sent: u64,
    /// Octets of these that the peer has.
    pub(crate) acked: u64,
    /// Octets of payload that have come.
    pub(crate) received: u64,
    /// Messages sent.
    pub(crate) messages_out: u32,
    /// Messages that have come.
    pub(crate) messages_in: u32,
    /// Messages with payload sent.
    pub(crate) data_out: u32,
    /// Messages with payload that have come.
    pub(crate) data_in: u32,
}

/// The first part of `struct tcp_info`.
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
struct InfoHead {
    state: u8,
    /// Congestion, retransmits, probes, backoff, options, window scale, flags: none of them.
    flags: [u8; 7],
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    /// Selective acknowledgements, losses, retransmissions, forward acknowledgements: none.
    losses: [u32; 4],
    last_data_sent: u32,
    /// TCP does not remember it.
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
}

/// The part behind the pacing rates.
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
struct InfoTail {
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    /// Rate, and times of sending: not measured.
    rates: [u64; 4],
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    /// Duplicates, reordering, and segments that came out of order: none.
    disorder: [u32; 3],
    snd_wnd: u32,
    rcv_wnd: u32,
    rehash: u32,
}

/// `TCP_INFINITE_SSTHRESH` of Linux: there was no loss.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// Microseconds of a span, rounded up: zero means not measured.
fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_nanos().div_ceil(1000)).unwrap_or(u32::MAX)
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

impl StreamInfo {
    /// The first octets of `struct tcp_info`, for a TCP state.
    pub(crate) fn head(&self, state: u8) -> [u8; HEAD_LEN] {
        let meter = &self.meter;
        let head = InfoHead {
            state,
            rto: micros(self.rto),
            snd_mss: self.send_mss,
            rcv_mss: self.recv_mss,
            unacked: self.in_flight,
            last_data_sent: millis(meter.since_sent),
            last_data_recv: millis(meter.since_received),
            last_ack_recv: millis(meter.since_acked),
            pmtu: self.send_mss,
            rcv_ssthresh: self.recv_window,
            rtt: micros(meter.rtt),
            rttvar: micros(meter.rtt_var),
            snd_ssthresh: NO_THRESHOLD,
            snd_cwnd: self.window,
            advmss: self.recv_mss,
            rcv_space: self.recv_window,
            ..InfoHead::default()
        };
        zerocopy::transmute!(head)
    }

    /// The octets of `struct tcp_info` from [`TAIL_OFFSET`] on.
    pub(crate) fn tail(&self) -> [u8; TAIL_LEN] {
        let meter = &self.meter;
        let tail = InfoTail {
            bytes_acked: meter.acked,
            bytes_received: meter.received,
            segs_out: meter.messages_out,
            segs_in: meter.messages_in,
            notsent_bytes: self.unsent,
            min_rtt: match meter.rtt_min {
                Duration::ZERO => u32::MAX,
                least => micros(least),
            },
            data_segs_in: meter.data_in,
            data_segs_out: meter.data_out,
            delivered: meter.data_out.saturating_sub(self.in_flight),
            bytes_sent: meter.sent,
            snd_wnd: self.send_window,
            rcv_wnd: self.recv_window,
            ..InfoTail::default()
        };
        zerocopy::transmute!(tail)
    }
}

/// The smoothed round trip time, as in RFC 6298.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RttEstimate {
    smoothed: u64,
    variation: u64,
    least: u64,
}

impl RttEstimate {
    /// Takes in a measurement.
    pub(crate) fn add(&mut self, span: Duration) {
        // Zero means none.
        let sample = core::cmp::max(span.as_nanos(), 1);
        if self.smoothed == 0 {
            *self = Self {
                smoothed: sample,
                variation: sample >> 1,
                least: sample,
            };
            return;
        }
        let change = self.smoothed.abs_diff(sample);
        let kept = self.variation.saturating_sub(self.variation >> 2);
        self.variation = kept.saturating_add(change >> 2);
        let kept = self.smoothed.saturating_sub(self.smoothed >> 3);
        self.smoothed = core::cmp::max(kept.saturating_add(sample >> 3), 1);
        self.least = core::cmp::min(self.least, sample);
    }

    /// The estimate, its variation, and the shortest measurement; zeros before the first.
    pub(crate) const fn get(&self) -> [Duration; 3] {
        [
            Duration::from_nanos(self.smoothed),
            Duration::from_nanos(self.variation),
            Duration::from_nanos(self.least),
        ]
    }
}

/// The span from an event to now; zero before the first.
pub(crate) fn since(now: Instant, event: Option<Instant>) -> Duration {
    event.map_or(Duration::ZERO, |event| now.saturating_since(event))
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_stream_info))]
mod tests {
    use super::*;

    fn word(octets: &[u8], at: usize) -> u32 {
        let word = octets.get(at..).and_then(|rest| rest.first_chunk());
        u32::from_ne_bytes(*word.unwrap_or(&[0; 4]))
    }

    fn long(octets: &[u8], at: usize) -> u64 {
        let long = octets.get(at..).and_then(|rest| rest.first_chunk());
        u64::from_ne_bytes(*long.unwrap_or(&[0; 8]))
    }

    // The offsets are those of include/uapi/linux/tcp.h.
    #[test]
    fn figures_lie_at_their_offsets() {
        let span = Duration::from_micros;
        let info = StreamInfo {
            rto: span(268_435),
            send_mss: 1,
            recv_mss: 2,
            in_flight: 3,
            window: 4,
            send_window: 5,
            recv_window: 6,
            unsent: 7,
            meter: MeterFigures {
                rtt: span(8),
                rtt_var: span(9),
                rtt_min: span(10),
                since_sent: span(11_000),
                since_received: span(12_000),
                since_acked: span(13_000),
                sent: 14,
                acked: 15,
                received: 16,
                messages_out: 17,
                messages_in: 18,
                data_out: 19,
                data_in: 20,
            },
        };
        let head = info.head(8);
        assert_eq!(head.first(), Some(&8));
        let words = [
            (8, 268_435),
            (16, 1),
            (20, 2),
            (24, 3),
            (44, 11),
            (52, 12),
            (56, 13),
            (68, 8),
            (72, 9),
            (76, NO_THRESHOLD),
            (80, 4),
            (84, 2),
            (96, 6),
            (100, 0),
        ];
        for (at, value) in words {
            assert_eq!(word(&head, at), value);
        }
        let tail = info.tail();
        let longs = [(120, 15), (128, 16), (200, 14)];
        for (at, value) in longs {
            assert_eq!(long(&tail, at - TAIL_OFFSET), value);
        }
        let words = [
            (136, 17),
            (140, 18),
            (144, 7),
            (148, 10),
            (152, 20),
            (156, 19),
            (192, 16),
            (228, 5),
            (232, 6),
        ];
        for (at, value) in words {
            assert_eq!(word(&tail, at - TAIL_OFFSET), value);
        }
    }

    #[test]
    fn connection_without_measurement_has_no_least_time() {
        let tail = StreamInfo::default().tail();
        assert_eq!(word(&tail, 148 - TAIL_OFFSET), u32::MAX);
        assert_eq!(
            RttEstimate::default().get(),
            [Duration::ZERO; 3] //
        );
    }

    // RFC 6298, section 2.
    #[test]
    fn estimate_follows_the_measurements() {
        let mut rtt = RttEstimate::default();
        rtt.add(Duration::from_nanos(800));
        let nanos = |rtt: &RttEstimate| rtt.get().map(Duration::as_nanos);
        assert_eq!(nanos(&rtt), [800, 400, 800]);
        rtt.add(Duration::from_nanos(1600));
        assert_eq!(nanos(&rtt), [900, 500, 800]);
        rtt.add(Duration::from_nanos(100));
        assert_eq!(nanos(&rtt), [800, 575, 100]);
        rtt.add(Duration::ZERO);
        assert_eq!(rtt.get().map(|span| span == Duration::ZERO), [false; 3]);
    }
}
