// SPDX-License-Identifier: GPL-2.0

//! Small writes of a continuous writer are coalesced for a short time (WIN-10).
//!
//! Coalescing while earlier data is in flight is not enough where the link is as quick as the
//! writer, or shares its processor. There each write finds the link idle, and costs two work
//! requests, their acknowledgments and a wake-up of the reader. A burst is a run of writes, each
//! soon after the one before, without an answer of the peer meanwhile. From its third write on,
//! data is held until [`Coalescer::BYTES`] are there, the hold time is over, or the application turns
//! to reading: it sleeps until data comes, or polls for data. A writer that polls between its
//! writes is not flushed by that. With TCP_NODELAY, a write waits for a completion but never for
//! more data.
//!
//! The next burst is predicted to be as long as the last: its first write is held already, and its
//! last one flushes.
//!
//! Both the hold time and "soon" are four chain times of this link, so they are short where the
//! link is quick. Late in a long burst the hold time is sixteen chain times. A link that completes
//! a chain before the next write is not quick because of that: the device has worked, or the reader
//! has run, in the time of the writer. So the time by which a chain delays the next write counts as
//! its chain time too, if it is longer.

use crate::proto::base::time::{
    Duration,
    Instant, //
};

/// Writes of a burst before one is held.
const RUN: u8 = 2;
/// Writes after which a burst is long, with a longer hold time.
const LONG: u8 = 32;
/// Shortest burst, in writes, that predicts another.
const ROW: u8 = 4;
/// Assumed time of a chain before one was measured, and its upper bound.
const FIRST: Duration = Duration::from_micros(25);
const MOST: Duration = Duration::from_micros(125);
/// Gap between two writes from which on the application is assumed to pause.
const PAUSE: Duration = Duration::from_micros(500);

/// The mean of samples so far and a new one, which counts a fourth and not more than [`MOST`].
fn mean(so_far: Duration, sample: Duration) -> Duration {
    let sum = so_far
        .saturating_mul(3)
        .saturating_add(core::cmp::min(sample, MOST));
    Duration::from_nanos(sum.as_nanos().checked_div(4).unwrap_or(0))
}

/// The state of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coalescer {
    /// Time of the last write of the burst; `None` between bursts.
    last: Option<Instant>,
    /// Writes of the burst before the last one.
    run: u8,
    /// The application has read without success since the last write.
    looked: bool,
    /// Writes of the burst that followed a read without success.
    looks: u8,
    /// Predicted length of the burst in writes: that of the burst before.
    expected: u8,
    /// End of the hold time, if data is held.
    until: Option<Instant>,
    /// The chain that is being measured: its number, and the time of its post.
    measured: Option<(u64, Instant)>,
    /// Mean time from the post of a chain to its completion.
    cost: Duration,
    /// A chain with data was posted since the last write.
    is_posted: bool,
    /// The last gap between two writes without a chain between them.
    gap: Option<Duration>,
    /// Mean time by which a chain makes the gap longer.
    delay: Duration,
}

impl Coalescer {
    /// Bytes that are not held, however fresh they are.
    pub(crate) const BYTES: u32 = 16 << 10;

    pub(crate) const fn new() -> Self {
        Self {
            last: None,
            run: 0,
            looked: false,
            looks: 0,
            expected: 0,
            until: None,
            measured: None,
            cost: FIRST,
            is_posted: false,
            gap: None,
            delay: Duration::ZERO,
        }
    }

    /// Longest gap between two writes of a burst.
    fn soon(&self) -> Duration {
        core::cmp::max(self.cost, self.delay).saturating_mul(4)
    }

    /// The hold time.
    fn time(&self) -> Duration {
        let soon = self.soon();
        if self.run < LONG {
            soon
        } else {
            soon.saturating_mul(4)
        }
    }

    /// Starts the measurement of a signalled chain.
    pub(crate) fn note_posted(&mut self, now: Instant, number: u64) {
        self.measured.get_or_insert((number, now));
    }

    /// Ends the measurement: the chain `number` and all before it have completed.
    pub(crate) fn note_completed(&mut self, now: Instant, number: u64) {
        if let Some((_, posted)) = self.measured.take_if(|(posted, _)| *posted <= number) {
            self.cost = mean(self.cost, now.saturating_since(posted));
        }
    }

    /// Notes a chain with data, which ends the hold time.
    pub(crate) fn note_chain(&mut self) {
        self.is_posted = true;
        self.end();
    }

    /// Learns from the gap before a write of a burst.
    fn note_gap(&mut self, gap: Option<Duration>) {
        let is_posted = core::mem::take(&mut self.is_posted);
        let Some(gap) = gap.filter(|gap| *gap < PAUSE) else {
            return;
        };
        if !is_posted {
            self.gap = Some(gap);
        } else if let Some(usual) = self.gap {
            self.delay = mean(self.delay, gap.saturating_sub(usual));
        }
    }

    /// Drops the measurement: posted chains do not complete.
    pub(crate) fn forget(&mut self) {
        self.measured = None;
    }

    /// Notes a write of the application; with `wait` it may be held.
    pub(crate) fn note_write(&mut self, now: Instant, wait: bool) {
        let gap = self.last.map(|last| now.saturating_since(last));
        self.note_gap(gap);
        if gap.is_some_and(|gap| gap <= self.soon()) {
            self.run = self.run.saturating_add(1);
            self.looks = self.looks.saturating_add(self.looked.into());
        } else {
            self.end_row();
            self.run = 0;
            self.looks = 0;
        }
        self.looked = false;
        self.last = Some(now);
        // The length of a burst beyond the counter is not known.
        if self.row() == self.expected && self.expected < u8::MAX {
            self.end();
        } else if wait && self.goes_on() && self.until.is_none() {
            self.until = Some(now.saturating_add(self.time()));
        }
    }

    /// Writes of the burst so far.
    const fn row(&self) -> u8 {
        self.run.saturating_add(1)
    }

    /// Ends the burst, if there is one, and predicts the next.
    fn end_row(&mut self) {
        if self.last.take().is_some() {
            self.expected = self.row();
        }
    }

    /// Whether the writer is within a burst that will go on.
    pub(crate) const fn goes_on(&self) -> bool {
        self.run >= RUN || (self.expected >= ROW && self.row() < self.expected)
    }

    /// Notes an answer of the peer, which ends the burst.
    pub(crate) fn note_answer(&mut self) {
        self.end_row();
    }

    /// Notes a read that found no data. The application is assumed to wait for an answer, so the
    /// held data is flushed, unless the application polls and writes by turns.
    pub(crate) fn note_look(&mut self) {
        self.looked = true;
        if self.looks < RUN {
            self.end();
        }
    }

    /// Whether data is held.
    pub(crate) fn is_on(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// The end of the hold time.
    pub(crate) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Ends the hold time.
    pub(crate) fn end(&mut self) {
        self.until = None;
    }
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    reason = "this is a test: to panic is how it fails"
)]
mod tests {
    use super::*;
    use crate::proto::{
        smc::cdc::{
            Conn,
            ConnConfig,
            Msg,
            Token,
            Transmit, //
        },
        stream::signals::tests::conn, //
    };
    use std::collections::VecDeque;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    /// Sends what can go, which arrives at once.
    fn deliver(now: Instant, from: &mut Conn, to: &mut Conn) -> Option<Transmit> {
        let transmit = from.poll_transmit(now)?;
        to.handle_cdc(now, &Msg::parse(&transmit.cdc).unwrap())
            .unwrap();
        to.read(to.recv_available());
        if let Some(update) = to.poll_transmit(now) {
            from.handle_cdc(now, &Msg::parse(&update.cdc).unwrap())
                .unwrap();
        }
        Some(transmit)
    }

    /// Completes the chains whose time has come.
    fn complete(now: u64, conn: &mut Conn, done: &mut VecDeque<(u64, Token)>) {
        while done.front().is_some_and(|(when, _)| *when <= now) {
            conn.handle_sent(at(now), done.pop_front().unwrap().1);
        }
    }

    /// Writes of `size` bytes, `gap` microseconds after each other, over a link that takes `lag`;
    /// returns how many chains there were, and the longest time that something waited.
    fn stream(size: u32, gap: u64, lag: u64, set: impl Fn(&mut Conn)) -> (u32, u64) {
        let (mut a, mut b) = (conn(ConnConfig::CORK_BYTES), conn(ConnConfig::CORK_BYTES));
        let (mut chains, mut longest, mut since) = (0, 0, None);
        let mut done = VecDeque::new();
        for now in 0..gap * WRITES {
            a.handle_coalesced(at(now));
            complete(now, &mut a, &mut done);
            if now % gap == 0 {
                set(&mut a);
                a.write(at(now), size);
                since.get_or_insert(now);
            }
            if let Some(transmit) = deliver(at(now), &mut a, &mut b) {
                done.push_back((now + lag, transmit.token));
                chains += 1;
                longest = longest.max(now - since.take().unwrap());
            }
        }
        (chains, longest)
    }

    const WRITES: u64 = 1_000;

    // WIN-10.
    #[test]
    fn stream_of_small_writes_is_coalesced() {
        // With completions alone it would be as many chains as the link can do, or writes.
        let (chains, longest) = stream(64, 10, 20, |_| {});
        assert!(chains < 40 && longest <= 400, "{chains} {longest}");
        let (chains, longest) = stream(64, 10, 9, |_| {});
        assert!(chains < 100 && longest <= 400, "{chains} {longest}");
        let (chains, longest) = stream(64, 10, 5_000, |_| {});
        assert!(chains < 40 && longest <= 5_500, "{chains} {longest}");
    }

    #[test]
    fn quick_link_gets_nearly_every_write_at_once() {
        // The first chains measure the link.
        let (chains, longest) = stream(64, 10, 2, |_| {});
        assert!(chains > 850 && longest <= 150, "{chains} {longest}");
    }

    /// Writes of 64 bytes, 10 us apart, over a link that completes a chain at once in `busy` us of the writer's
    /// time; returns how many chains the last 500 of 1000 writes were.
    fn displaced(busy: u64) -> u32 {
        let (mut a, mut b) = (conn(ConnConfig::CORK_BYTES), conn(ConnConfig::CORK_BYTES));
        let (mut now, mut chains) = (0, 0);
        for n in 0..WRITES {
            for step in 0..=10 {
                a.handle_coalesced(at(now));
                if step == 10 {
                    a.write(at(now), 64);
                }
                if let Some(sent) = deliver(at(now), &mut a, &mut b) {
                    a.handle_sent(at(now), sent.token);
                    chains += u32::from(n >= WRITES / 2);
                    now += busy;
                }
                now += u64::from(step < 10);
            }
        }
        chains
    }

    // WIN-10.
    #[test]
    fn chain_that_delays_the_writer_is_not_quick() {
        // It completes at once in any case.
        assert!(displaced(0) > 400);
        let (some, many) = (displaced(20), displaced(80));
        assert!(some < 60 && many < 15, "{some} {many}");
    }

    // WIN-10.
    #[test]
    fn writer_that_became_slow_is_delayed_for_a_few_writes_only() {
        let (mut a, mut b) = (conn(ConnConfig::CORK_BYTES), conn(ConnConfig::CORK_BYTES));
        let (mut now, mut late) = (0, 0);
        for gap in [vec![10; 100], vec![101; 100]].concat() {
            let start = now;
            while now < start + gap {
                a.handle_coalesced(at(now));
                if let Some(sent) = deliver(at(now), &mut a, &mut b) {
                    a.handle_sent(at(now), sent.token);
                    late += u32::from(gap == 101 && now > start);
                }
                now += 1;
            }
            a.write(at(now), 64);
        }
        assert!(late < 10, "{late}");
    }

    #[test]
    fn hold_time_of_a_long_burst_is_longer() {
        let (_, longest) = rows(&[u64::from(LONG)], 2);
        assert!(longest <= 101, "{longest}");
        let (_, longest) = rows(&[500], 2);
        assert!(longest > 101 && longest <= 400, "{longest}");
    }

    #[test]
    fn slow_writer_is_not_delayed() {
        assert_eq!(stream(64, 101, 40, |_| {}), (1_000, 0));
    }

    #[test]
    fn large_writes_are_not_held() {
        assert_eq!(stream(16 << 10, 10, 9, |_| {}), (1_000, 0));
    }

    // The link has the next part when it is done with one.
    #[test]
    fn full_part_is_posted_while_another_is_in_flight() {
        let (mut a, mut b) = (conn(ConnConfig::CORK_BYTES), conn(ConnConfig::CORK_BYTES));
        // Nothing completes meanwhile.
        let mut parts = Vec::new();
        for _ in 0..64 {
            a.write(at(0), 1 << 10);
            if let Some(part) = deliver(at(0), &mut a, &mut b) {
                parts.push(part.writes()[0].len);
            }
        }
        let waited = parts.iter().skip_while(|len| **len < Coalescer::BYTES);
        assert!(parts.len() < 8 && waited.count() >= 3, "{parts:?}");
    }

    #[test]
    fn nodelay_write_waits_for_completions_only() {
        let nodelay = |a: &mut Conn| a.set_nodelay(true);
        assert_eq!(stream(64, 10, 9, nodelay), (1_000, 0));
        let (chains, longest) = stream(64, 10, 40, nodelay);
        assert!(chains < 270 && longest <= 40, "{chains} {longest}");
    }

    #[test]
    fn corked_data_is_not_coalesced_by_time() {
        let (mut a, mut b) = (conn(ConnConfig::CORK_BYTES), conn(ConnConfig::CORK_BYTES));
        a.set_corked(true);
        for n in 0..100 {
            a.write(at(n), 64);
            assert!(a.poll_coalesced().is_none() && !a.holds_back());
        }
        a.set_corked(false);
        let all = deliver(at(100), &mut a, &mut b).unwrap();
        assert_eq!(all.writes()[0].len, 6_400);
    }

    #[test]
    fn answer_ends_the_burst() {
        let (mut a, mut b) = (conn(ConnConfig::CORK_BYTES), conn(ConnConfig::CORK_BYTES));
        for n in 0..100 {
            let now = at(n * 40);
            for _ in 0..2 {
                a.write(now, 64);
                let sent = deliver(now, &mut a, &mut b).unwrap();
                a.handle_sent(now, sent.token);
            }
            b.write(now, 64);
            // Not the first write of a burst, but an answer to received data.
            b.flush();
            assert!(deliver(now, &mut b, &mut a).is_some());
        }
    }

    /// Bursts of `sizes` writes, `gap` microseconds apart, over a link that takes 20 us; the peer
    /// answers each. Returns the chains of the last burst, and its longest hold time in us.
    fn rows(sizes: &[u64], gap: u64) -> (u64, u64) {
        let (mut a, mut b) = (conn(ConnConfig::CORK_BYTES), conn(ConnConfig::CORK_BYTES));
        let (mut now, mut chains, mut longest) = (0, 0, 0);
        let mut done = VecDeque::new();
        for size in sizes {
            (chains, longest) = (0, 0);
            let (mut since, end) = (None, now + size * gap + 1_000);
            for (n, now) in (now..end).enumerate() {
                let n = u64::try_from(n).unwrap();
                a.handle_coalesced(at(now));
                complete(now, &mut a, &mut done);
                if n % gap == 0 && n / gap < *size {
                    a.write(at(now), 64);
                    since.get_or_insert(now);
                }
                while let Some(sent) = deliver(at(now), &mut a, &mut b) {
                    done.push_back((now + 20, sent.token));
                    longest = longest.max(now - since.take().unwrap());
                    chains += 1;
                }
            }
            now = end;
            b.write(at(now), 64);
            b.flush();
            deliver(at(now), &mut b, &mut a).unwrap();
        }
        (chains, longest)
    }

    // WIN-10.
    #[test]
    fn burst_like_the_one_before_is_one_chain() {
        assert!(rows(&[16], 2).0 > 2);
        // The last write flushes, not the timer.
        assert_eq!(rows(&[16, 16], 2), (1, 30));
        assert_eq!(rows(&[16, 16, 16], 2), (1, 30));
        // If the prediction fails, the timer flushes.
        let (chains, longest) = rows(&[16, 5], 2);
        assert!(chains == 1 && longest <= 101, "{chains} {longest}");
        assert_eq!(rows(&[16, 5, 1, 1], 2), (1, 0));
        // Those are pairs of a request.
        assert_eq!(rows(&[2, 2, 2], 2).1, 0);
    }

    #[test]
    fn long_burst_is_coalesced_to_its_end() {
        let (first, _) = rows(&[2_000], 2);
        let (chains, longest) = rows(&[2_000, 2_000], 2);
        assert!(chains <= first && longest <= 400, "{chains} {longest}");
    }

    #[test]
    fn burst_ends_with_a_long_gap() {
        assert_eq!(rows(&[16, 16, 16], 150), (16, 0));
        let (chains, longest) = rows(&[16, 1, 16], 150);
        assert_eq!((chains, longest), (16, 0));
    }

    fn gathering() -> (Conn, Instant) {
        let (mut a, mut b) = (conn(ConnConfig::CORK_BYTES), conn(ConnConfig::CORK_BYTES));
        for n in 1..=3 {
            assert!(a.poll_coalesced().is_none());
            a.write(at(n), 64);
            let sent = deliver(at(n), &mut a, &mut b);
            assert_eq!(sent.is_some(), n < 3);
            if let Some(sent) = sent.filter(|_| n == 2) {
                a.handle_sent(at(n), sent.token);
            }
        }
        (a, a.poll_coalesced().unwrap())
    }

    #[test]
    fn hold_ends_with_time_with_reading_and_with_the_stream() {
        let (mut a, until) = gathering();
        assert!(until > at(3) && until <= at(103));
        a.handle_coalesced(at(4));
        assert!(!a.wants_transmit(at(4)));
        a.handle_coalesced(until);
        assert!(a.wants_transmit(until));
        assert!(a.poll_coalesced().is_none());

        let (mut a, _) = gathering();
        assert!(a.holds_back());
        a.flush();
        assert!(!a.holds_back());
        assert!(a.poll_coalesced().is_none() && a.wants_transmit(at(5)));

        let (mut a, _) = gathering();
        a.shutdown_write();
        assert!(a.wants_transmit(at(5)));

        let (mut a, _) = gathering();
        a.write_urgent(at(5), 1);
        assert!(a.wants_transmit(at(5)));
    }

    #[test]
    fn reader_waits_for_completions_only() {
        let (mut a, _) = gathering();
        a.on_empty_read();
        assert!(a.poll_coalesced().is_none() && a.wants_transmit(at(4)));

        let on_its_way = a.poll_transmit(at(4)).unwrap();
        a.write(at(5), 64);
        assert!(a.poll_coalesced().is_some());
        a.on_empty_read();
        assert!(a.poll_coalesced().is_none() && !a.wants_transmit(at(6)));
        a.handle_sent(at(7), on_its_way.token);
        assert!(a.wants_transmit(at(7)));
    }

    #[test]
    fn writer_that_polls_between_writes_is_coalesced() {
        let (chains, longest) = stream(64, 10, 9, Conn::on_empty_read);
        assert!(chains < 100 && longest <= 400, "{chains} {longest}");
        // It may be otherwise the next time.
        let (mut a, _) = gathering();
        a.on_empty_read();
        for (n, ends) in [(10, true), (20, false), (30, false), (10_000, true)] {
            if let Some(sent) = a.poll_transmit(at(n)) {
                a.handle_sent(at(n), sent.token);
            }
            for more in 0..3 {
                a.write(at(n + more), 64);
            }
            assert!(a.poll_coalesced().is_some());
            a.on_empty_read();
            assert_eq!(a.poll_coalesced().is_none(), ends, "{n}");
        }
    }

    #[test]
    fn coalescing_can_be_turned_off() {
        let (mut a, mut b) = (conn(0), conn(0));
        for n in 0..100 {
            a.write(at(n), 64);
            assert!(a.poll_coalesced().is_none());
            let sent = deliver(at(n), &mut a, &mut b).unwrap();
            a.handle_sent(at(n), sent.token);
        }
    }

    #[test]
    fn refused_chain_is_replayed_on_the_next_link() {
        let (mut a, until) = gathering();
        a.handle_coalesced(until);
        let refused = a.poll_transmit(until).unwrap();
        a.handle_post_failed(refused.token);
        assert!(!a.wants_transmit(until) && a.poll_coalesced().is_none());
        a.handle_link_switched();
        assert!(a.poll_transmit(until).unwrap().token.is_validation());
        let replay = a.poll_transmit(until).unwrap();
        assert_eq!(
            replay.writes().last().map(end),
            refused.writes().last().map(end)
        );
    }

    fn end(write: &crate::proto::smc::cdc::WriteSeg) -> u32 {
        write.dst_off + write.len
    }
}
