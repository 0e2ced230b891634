// SPDX-License-Identifier: GPL-2.0

//! Small pieces of a writer that goes on and on are gathered for a short time (WIN-10).
//!
//! Collecting while earlier data is on its way is not enough where the link is as quick as the
//! writer, or has the same processor: then each piece finds the link idle, however small it is, and
//! costs two work requests, their acknowledgements, and the waking of the reader. A writer is taken
//! to go on if it has written several times in a row, each soon after the one before, without
//! having been answered meanwhile. From then on a piece waits for others until there is enough, the
//! time is over, or the application turns to reading: sleeps until something comes, or looks for
//! it, unless it is one that looks and writes by turns. Who wants no delay is not made to wait for
//! others, only for a completion.
//!
//! Who wrote several in a row, and then paused or was answered, is expected to do the same again:
//! of the next row the first waits already, and the last ends the waiting.
//!
//! The time, and what is soon, is four times that which the link takes for a chain, so that it is
//! short where the link is quick; of a writer that has gone on for long it is four times as much.

use crate::proto::base::time::{
    Duration,
    Instant, //
};

/// Writes in a row before anything waits.
const RUN: u8 = 2;
/// After so many there is no hurry.
const LONG: u8 = 32;
/// A row of so many is expected to come again.
const ROW: u8 = 4;
/// What a chain is thought to take before one was measured, and at most.
const FIRST: Duration = Duration::from_micros(25);
const MOST: Duration = Duration::from_micros(125);

/// The state of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gather {
    /// The last write, and how many before it followed each other soon.
    last: Option<Instant>,
    run: u8,
    /// The application has looked for an answer since the last write; and how often in the row it
    /// had, and wrote on all the same.
    looked: bool,
    looks: u8,
    /// How many writes the row before had.
    expected: u8,
    /// Until when what is there waits.
    until: Option<Instant>,
    /// A chain that is being measured: its number, and when it was posted.
    measured: Option<(u64, Instant)>,
    /// What chains take.
    cost: Duration,
}

impl Gather {
    /// As much does not wait.
    pub(super) const BYTES: u32 = 16 << 10;

    pub(super) const fn new() -> Self {
        Self {
            last: None,
            run: 0,
            looked: false,
            looks: 0,
            expected: 0,
            until: None,
            measured: None,
            cost: FIRST,
        }
    }

    /// After what time a write does not follow the one before any more.
    const fn soon(&self) -> Duration {
        self.cost.saturating_mul(4)
    }

    /// How long a piece waits.
    const fn time(&self) -> Duration {
        let soon = self.soon();
        if self.run < LONG {
            soon
        } else {
            soon.saturating_mul(4)
        }
    }

    /// A chain was posted that will tell of its completion.
    pub(super) fn note_posted(&mut self, now: Instant, number: u64) {
        self.measured.get_or_insert((number, now));
    }

    /// A chain was completed, and with it all before it.
    pub(super) fn note_completed(&mut self, now: Instant, number: u64) {
        if let Some((_, posted)) = self.measured.take_if(|(posted, _)| *posted <= number) {
            let took = core::cmp::min(now.saturating_since(posted), MOST);
            let sum = self.cost.saturating_mul(3).as_nanos();
            let mean = sum.saturating_add(took.as_nanos()).checked_div(4);
            self.cost = Duration::from_nanos(mean.unwrap_or(0));
        }
    }

    /// Chains do not come back any more.
    pub(super) fn forget(&mut self) {
        self.measured = None;
    }

    /// The application has written; with `wait` it may wait for more.
    pub(super) fn note_write(&mut self, now: Instant, wait: bool) {
        let soon = |last| now.saturating_since(last) <= self.soon();
        if self.last.is_some_and(soon) {
            self.run = self.run.saturating_add(1);
            self.looks = self.looks.saturating_add(self.looked.into());
        } else {
            self.end_row();
            self.run = 0;
            self.looks = 0;
        }
        self.looked = false;
        self.last = Some(now);
        // Of what is too long to be counted the end is not known.
        if self.row() == self.expected && self.expected < u8::MAX {
            self.end();
        } else if wait && self.goes_on() && self.until.is_none() {
            self.until = Some(now.saturating_add(self.time()));
        }
    }

    /// How many writes the row has.
    const fn row(&self) -> u8 {
        self.run.saturating_add(1)
    }

    /// The row that was being written is over, if there was one.
    fn end_row(&mut self) {
        if self.last.take().is_some() {
            self.expected = self.row();
        }
    }

    /// Whether the writer is one that goes on.
    pub(super) const fn goes_on(&self) -> bool {
        self.run >= RUN || (self.expected >= ROW && self.row() < self.expected)
    }

    /// The peer has answered all there was.
    pub(super) fn note_answer(&mut self) {
        self.end_row();
    }

    /// The application has looked for an answer, and there was none. It is thought to wait for one,
    /// so that what is there waits no longer; unless it is one that looks and writes by turns.
    pub(super) fn note_look(&mut self) {
        self.looked = true;
        if self.looks < RUN {
            self.end();
        }
    }

    /// Whether what is there waits.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Until when.
    pub(super) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// It waits no longer.
    pub(super) fn end(&mut self) {
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
    use crate::proto::cdc::{
        signals::tests::conn,
        Config,
        Conn,
        Msg,
        Token,
        Transmit, //
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

    /// Tells of the chains that are over.
    fn complete(now: u64, conn: &mut Conn, done: &mut VecDeque<(u64, Token)>) {
        while done.front().is_some_and(|(when, _)| *when <= now) {
            conn.handle_sent(at(now), done.pop_front().unwrap().1);
        }
    }

    /// Writes of `size` bytes, `gap` microseconds after each other, over a link that takes `lag`;
    /// returns how many chains there were, and the longest time that something waited.
    fn stream(size: u32, gap: u64, lag: u64, set: impl Fn(&mut Conn)) -> (u32, u64) {
        let (mut a, mut b) = (conn(Config::CORK_BYTES), conn(Config::CORK_BYTES));
        let (mut chains, mut longest, mut since) = (0, 0, None);
        let mut done = VecDeque::new();
        for now in 0..gap * WRITES {
            a.handle_gathered(at(now));
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
    fn a_stream_of_small_pieces_is_gathered() {
        // With completions alone it would be as many chains as the link can do, or writes.
        let (chains, longest) = stream(64, 10, 20, |_| {});
        assert!(chains < 40 && longest <= 400, "{chains} {longest}");
        let (chains, longest) = stream(64, 10, 9, |_| {});
        assert!(chains < 100 && longest <= 400, "{chains} {longest}");
        let (chains, longest) = stream(64, 10, 5_000, |_| {});
        assert!(chains < 40 && longest <= 5_500, "{chains} {longest}");
    }

    #[test]
    fn a_quick_link_is_used() {
        // How quick it is, the first pieces tell.
        let (chains, longest) = stream(64, 10, 2, |_| {});
        assert!(chains > 850 && longest <= 150, "{chains} {longest}");
    }

    #[test]
    fn only_who_goes_on_for_long_waits_long() {
        let (_, longest) = rows(&[u64::from(LONG)], 2);
        assert!(longest <= 101, "{longest}");
        let (_, longest) = rows(&[500], 2);
        assert!(longest > 101 && longest <= 400, "{longest}");
    }

    #[test]
    fn who_takes_his_time_is_not_held_up() {
        assert_eq!(stream(64, 101, 40, |_| {}), (1_000, 0));
    }

    #[test]
    fn much_does_not_wait() {
        assert_eq!(stream(16 << 10, 10, 9, |_| {}), (1_000, 0));
    }

    #[test]
    fn who_wants_no_delay_waits_for_the_link_alone() {
        let nodelay = |a: &mut Conn| a.set_nodelay(true);
        assert_eq!(stream(64, 10, 9, nodelay), (1_000, 0));
        let (chains, longest) = stream(64, 10, 40, nodelay);
        assert!(chains < 270 && longest <= 40, "{chains} {longest}");
    }

    #[test]
    fn who_corks_is_left_alone() {
        let (mut a, mut b) = (conn(Config::CORK_BYTES), conn(Config::CORK_BYTES));
        a.set_corked(true);
        for n in 0..100 {
            a.write(at(n), 64);
            assert!(a.poll_gathered().is_none() && !a.holds_back());
        }
        a.set_corked(false);
        let all = deliver(at(100), &mut a, &mut b).unwrap();
        assert_eq!(all.writes()[0].len, 6_400);
    }

    #[test]
    fn an_answer_begins_anew() {
        let (mut a, mut b) = (conn(Config::CORK_BYTES), conn(Config::CORK_BYTES));
        for n in 0..100 {
            let now = at(n * 40);
            for _ in 0..2 {
                a.write(now, 64);
                let sent = deliver(now, &mut a, &mut b).unwrap();
                a.handle_sent(now, sent.token);
            }
            b.write(now, 64);
            // Not as the first of a run, but as an answer to what has come.
            b.flush();
            assert!(deliver(now, &mut b, &mut a).is_some());
        }
    }

    /// Rows of so many writes, `gap` microseconds after each other, over a link that takes 20; each
    /// is answered after a while. The chains of the last row, and the longest time that something
    /// waited in it.
    fn rows(sizes: &[u64], gap: u64) -> (u64, u64) {
        let (mut a, mut b) = (conn(Config::CORK_BYTES), conn(Config::CORK_BYTES));
        let (mut now, mut chains, mut longest) = (0, 0, 0);
        let mut done = VecDeque::new();
        for size in sizes {
            (chains, longest) = (0, 0);
            let (mut since, end) = (None, now + size * gap + 1_000);
            for (n, now) in (now..end).enumerate() {
                let n = u64::try_from(n).unwrap();
                a.handle_gathered(at(now));
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
    fn a_row_like_the_one_before_is_one_chain() {
        assert!(rows(&[16], 2).0 > 2);
        // It ends with the last, not with the time.
        assert_eq!(rows(&[16, 16], 2), (1, 30));
        assert_eq!(rows(&[16, 16, 16], 2), (1, 30));
        // Who does otherwise is helped by the time.
        let (chains, longest) = rows(&[16, 5], 2);
        assert!(chains == 1 && longest <= 101, "{chains} {longest}");
        assert_eq!(rows(&[16, 5, 1, 1], 2), (1, 0));
        // Those are pairs of a request.
        assert_eq!(rows(&[2, 2, 2], 2).1, 0);
    }

    #[test]
    fn a_long_row_is_gathered_to_its_end() {
        let (first, _) = rows(&[2_000], 2);
        let (chains, longest) = rows(&[2_000, 2_000], 2);
        assert!(chains <= first && longest <= 400, "{chains} {longest}");
    }

    #[test]
    fn a_row_is_what_follows_soon() {
        assert_eq!(rows(&[16, 16, 16], 150), (16, 0));
        let (chains, longest) = rows(&[16, 1, 16], 150);
        assert_eq!((chains, longest), (16, 0));
    }

    fn gathering() -> (Conn, Instant) {
        let (mut a, mut b) = (conn(Config::CORK_BYTES), conn(Config::CORK_BYTES));
        for n in 1..=3 {
            assert!(a.poll_gathered().is_none());
            a.write(at(n), 64);
            let sent = deliver(at(n), &mut a, &mut b);
            assert_eq!(sent.is_some(), n < 3);
            if let Some(sent) = sent.filter(|_| n == 2) {
                a.handle_sent(at(n), sent.token);
            }
        }
        (a, a.poll_gathered().unwrap())
    }

    #[test]
    fn it_ends_with_time_with_reading_and_with_the_stream() {
        let (mut a, until) = gathering();
        assert!(until > at(3) && until <= at(103));
        a.handle_gathered(at(4));
        assert!(!a.wants_transmit(at(4)));
        a.handle_gathered(until);
        assert!(a.wants_transmit(until));
        assert!(a.poll_gathered().is_none());

        let (mut a, _) = gathering();
        assert!(a.holds_back());
        a.flush();
        assert!(!a.holds_back());
        assert!(a.poll_gathered().is_none() && a.wants_transmit(at(5)));

        let (mut a, _) = gathering();
        a.shutdown_write();
        assert!(a.wants_transmit(at(5)));

        let (mut a, _) = gathering();
        a.write_urgent(at(5), 1);
        assert!(a.wants_transmit(at(5)));
    }

    #[test]
    fn who_has_looked_for_an_answer_waits_for_the_link_alone() {
        let (mut a, _) = gathering();
        a.on_empty_read();
        assert!(a.poll_gathered().is_none() && a.wants_transmit(at(4)));

        let on_its_way = a.poll_transmit(at(4)).unwrap();
        a.write(at(5), 64);
        assert!(a.poll_gathered().is_some());
        a.on_empty_read();
        assert!(a.poll_gathered().is_none() && !a.wants_transmit(at(6)));
        a.handle_sent(at(7), on_its_way.token);
        assert!(a.wants_transmit(at(7)));
    }

    #[test]
    fn who_looks_and_writes_by_turns_goes_on() {
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
            assert!(a.poll_gathered().is_some());
            a.on_empty_read();
            assert_eq!(a.poll_gathered().is_none(), ends, "{n}");
        }
    }

    #[test]
    fn it_can_be_turned_off() {
        let (mut a, mut b) = (conn(0), conn(0));
        for n in 0..100 {
            a.write(at(n), 64);
            assert!(a.poll_gathered().is_none());
            let sent = deliver(at(n), &mut a, &mut b).unwrap();
            a.handle_sent(at(n), sent.token);
        }
    }

    #[test]
    fn refused_chain_is_replayed_on_the_next_link() {
        let (mut a, until) = gathering();
        a.handle_gathered(until);
        let refused = a.poll_transmit(until).unwrap();
        a.handle_post_failed(refused.token);
        assert!(!a.wants_transmit(until) && a.poll_gathered().is_none());
        a.handle_link_switched();
        assert!(a.poll_transmit(until).unwrap().token.is_validation());
        let replay = a.poll_transmit(until).unwrap();
        assert_eq!(
            replay.writes().last().map(end),
            refused.writes().last().map(end)
        );
    }

    fn end(write: &crate::proto::cdc::send::WriteSeg) -> u32 {
        write.dst_off + write.len
    }
}
