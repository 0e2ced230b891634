// SPDX-License-Identifier: GPL-2.0

//! Which chains ask for a completion (CDC-32).
//!
//! A completion costs an interrupt, and most say nothing new: the peer's next message acknowledges
//! the data, and a later completion stands for all earlier ones. So a chain asks for one only for
//! these waiters:
//!
//! - the end of the connection: messages that announce D, C or A;
//! - data that the application wrote and that does not fit: the rest, or the next write, may have
//!   to wait for the link rather than for the peer;
//! - a writer: at most an eighth of the send ring is posted without. At most half a ring is held
//!   back for more to come, so that three eighths are free in any case, which is more than the third
//!   that makes a socket writable;
//! - small writes that are coalesced while a chain is in flight: nothing is held back unless a
//!   completion is coming. A writer that runs ahead of completions asks for each. One that does not
//!   is trusted: with each chain that found nothing in flight, the run of unsignalled chains may be
//!   one longer before another asks in order to find out;
//! - the repetition after a move, on which the send ring depends;
//! - the move itself, and programs that ask for the data in flight: they find out later. Then a
//!   message without news goes, for the sake of its completion.
//!
//! The link asks for one now and then by itself, to get its slots back.

/// With less trust each chain asks.
const CALM: u8 = 2;
/// The most trust: one less than this number of data chains may follow a first before another asks.
const TRUST: u8 = 9;

/// The completions asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signals {
    /// Number of the last chain that asked.
    last: u64,
    /// Position in the send ring where its data ends.
    end: u64,
    /// Confidence that the writer does not run ahead of completions, up to [`TRUST`].
    trust: u8,
    /// The writer ran ahead since the last data chain, so the next one carries held data.
    ahead: bool,
    /// Data chains since the last signalled one, or since one that found nothing in flight.
    quiet: u8,
    /// A waiter needs the completion of unsignalled chains.
    wanted: bool,
}

impl Signals {
    pub(crate) const fn new() -> Self {
        Self {
            last: 0,
            end: 0,
            trust: CALM.saturating_sub(1),
            ahead: false,
            quiet: 0,
            wanted: false,
        }
    }

    /// The chain `number`, whose data ends at `end`, asks.
    pub(crate) fn ask(&mut self, number: u64, end: u64) {
        self.last = number;
        self.end = end;
        self.quiet = 0;
        self.wanted = false;
    }

    /// Whether a chain after `returned` has asked.
    pub(crate) const fn are_coming(&self, returned: u64) -> bool {
        self.last > returned
    }

    /// Whether the chain `number` is the last that asked.
    pub(crate) const fn is_last(&self, number: u64) -> bool {
        self.last == number
    }

    /// Notes a waiter for all chains so far.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// All chains have completed, so no waiter is left.
    pub(crate) fn settle(&mut self) {
        self.wanted = false;
    }

    /// Whether a waiter needs a completion.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// The application writes before a completion that is coming, or an answer, has come.
    pub(crate) fn note_ahead(&mut self) {
        self.trust = 0;
        self.ahead = true;
    }

    /// Notes a chain with data; `alone` says that nothing was in flight for sure.
    pub(crate) fn note_data(&mut self, alone: bool) {
        let ahead = core::mem::take(&mut self.ahead);
        if !alone {
            self.quiet = self.quiet.saturating_add(1);
            return;
        }
        self.quiet = 0;
        if !ahead {
            self.trust = core::cmp::min(self.trust.saturating_add(1), TRUST);
        }
    }

    /// Whether the next piece may have to wait for the chain just noted.
    pub(crate) const fn is_pace_due(&self) -> bool {
        self.trust < CALM || self.quiet.saturating_add(1) >= self.trust
    }

    /// Bytes up to `end` that no completion in flight will free; the ring is free up to `freed`.
    pub(crate) fn unsure(&self, freed: u64, end: u64) -> u32 {
        crate::proto::stream::positions::distance(core::cmp::max(self.end, freed), end)
    }
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    reason = "this is a test: to panic is how it fails"
)]
pub(crate) mod tests {
    use crate::proto::{
        base::time::{
            Duration,
            Instant, //
        },
        smc::{
            cdc::{
                CloseTimers,
                Conn,
                ConnConfig,
                Msg,
                Transmit, //
            },
            wire::AlertToken, //
        },
    };

    const NOW: Instant = Instant::from_nanos(1);
    const RING: u32 = 64 << 10;

    pub(crate) fn conn(cork_bytes: u32) -> Conn {
        let config = ConnConfig {
            token: AlertToken::new(1),
            sndbuf: RING,
            local_rmbe: RING,
            peer_rmbe: RING,
            origin: 0,
            cork_bytes,
            max_write: ConnConfig::MAX_WRITE,
            timers: CloseTimers::DEFAULT,
        };
        Conn::new(&config).unwrap()
    }

    fn pair() -> (Conn, Conn) {
        (conn(ConnConfig::CORK_BYTES), conn(ConnConfig::CORK_BYTES))
    }

    fn send(from: &mut Conn, to: &mut Conn, count: u32) -> Transmit {
        send_at(NOW, from, to, count)
    }

    fn send_at(now: Instant, from: &mut Conn, to: &mut Conn, count: u32) -> Transmit {
        from.write(now, count);
        let transmit = from.poll_transmit(now).unwrap();
        deliver(to, &transmit);
        transmit
    }

    fn deliver(to: &mut Conn, transmit: &Transmit) {
        let message = Msg::parse(&transmit.cdc).unwrap();
        to.handle_cdc(NOW, &message).unwrap();
        to.read(to.recv_available());
    }

    // CDC-32.
    #[test]
    fn answers_take_the_place_of_completions() {
        let (mut a, mut b) = pair();
        for _ in 0..100 {
            assert!(!send(&mut a, &mut b, 4_096).signal);
            assert!(!send(&mut b, &mut a, 4_096).signal);
            // What the peer has consumed has arrived.
            assert_eq!((a.send_room(), a.outstanding()), (RING, 0));
        }
    }

    // WIN-09, WIN-10.
    #[test]
    fn a_writer_that_runs_ahead_is_held_back_by_completions() {
        let (mut a, mut b) = pair();
        assert!(!send(&mut a, &mut b, 64).signal);
        let second = send(&mut a, &mut b, 64);
        assert!(second.signal);
        a.write(NOW, 64);
        assert!(!a.wants_transmit(NOW));
        // Late enough for the hold time to be over.
        let later = NOW.saturating_add(Duration::from_millis(1));
        a.handle_sent(later, second.token);
        assert!(a.wants_transmit(later));
        let rest = a.poll_transmit(later).unwrap();
        assert!(rest.signal);
        deliver(&mut b, &rest);
        // Once it is known, the first of the next burst asks already.
        for _ in 0..10 {
            send(&mut b, &mut a, 64);
            let first = send(&mut a, &mut b, 64);
            a.write(NOW, 64);
            assert!(first.signal && !a.wants_transmit(NOW));
            a.handle_sent(NOW, first.token);
            let rest = a.poll_transmit(NOW).unwrap();
            assert!(rest.signal);
            deliver(&mut b, &rest);
        }
        // Until there are bursts no more.
        send(&mut b, &mut a, 64);
        assert!(send(&mut a, &mut b, 64).signal);
        for _ in 0..10 {
            send(&mut b, &mut a, 64);
            assert!(!send(&mut a, &mut b, 64).signal);
        }
    }

    // CDC-32: one way, but never ahead of completions.
    #[test]
    fn a_writer_that_takes_its_time_is_trusted() {
        let (mut a, mut b) = pair();
        let mut asked = 0;
        for n in 0..400 {
            let now = NOW.saturating_add(Duration::from_millis(n));
            let transmit = send_at(now, &mut a, &mut b, 16);
            if transmit.signal {
                asked += 1;
                a.handle_sent(NOW, transmit.token);
            }
        }
        assert!(asked <= 50, "{asked}");
    }

    #[test]
    fn want_of_a_completion_makes_a_message() {
        let (mut a, mut b) = pair();
        a.want_completion();
        assert!(!a.wants_transmit(NOW));
        assert!(!send(&mut a, &mut b, 64).signal);
        assert_eq!(a.outstanding(), 64);
        a.want_completion();
        assert!(a.wants_transmit(NOW));
        let message = a.poll_transmit(NOW).unwrap();
        assert!(message.signal && message.writes().is_empty());
        a.want_completion();
        assert!(!a.wants_transmit(NOW));
        a.handle_sent(NOW, message.token);
        assert_eq!(a.outstanding(), 0);
        a.want_completion();
        assert!(!a.wants_transmit(NOW));
    }

    // FOV-03, FOV-06.
    #[test]
    fn move_off_a_link_makes_a_message() {
        let (mut a, mut b) = pair();
        assert!(!send(&mut a, &mut b, 64).signal);
        a.handle_link_leaving();
        a.write(NOW, 64);
        let message = a.poll_transmit(NOW).unwrap();
        assert!(message.signal && message.writes().is_empty());
        assert!(a.poll_transmit(NOW).is_none());
        a.handle_sent(NOW, message.token);
        assert!(!a.is_in_flight() && !a.wants_transmit(NOW));
        a.handle_link_switched();
        let validation = a.poll_transmit(NOW).unwrap();
        assert!(validation.token.is_validation());
        assert_eq!(a.poll_transmit(NOW).unwrap().writes().len(), 1);
    }

    // WIN-09: a third of the ring is free in any case.
    #[test]
    fn writer_never_waits_for_an_unsignalled_chain() {
        for piece in [1, 100, 1_000, 5_000, 8_191, 8_192, 30_000] {
            let (mut a, mut b) = pair();
            let mut quiet = 0;
            for _ in 0..RING / 2 / piece {
                a.write(NOW, piece);
                a.flush();
                let transmit = a.poll_transmit(NOW).unwrap();
                deliver(&mut b, &transmit);
                quiet = if transmit.signal { 0 } else { quiet + piece };
                assert!(quiet < RING / 8);
            }
        }
    }

    // FOV-12, FOV-14: replayed bytes stay in the ring, though the peer has consumed them.
    #[test]
    fn send_ring_is_kept_until_the_replay_completes() {
        let (mut a, mut b) = pair();
        let lost = send(&mut a, &mut b, 4_096);
        a.handle_sent_flushed(lost.token);
        a.handle_link_switched();
        assert!(a.poll_transmit(NOW).unwrap().token.is_validation());
        let again = a.poll_transmit(NOW).unwrap();
        assert!(again.signal && again.writes().len() == 1);
        send(&mut b, &mut a, 64);
        assert_eq!(a.outstanding(), 4_096);
        a.handle_sent(NOW, again.token);
        assert_eq!(a.outstanding(), 0);
    }

    // FOV-06, FOV-07.
    #[test]
    fn later_chains_stand_for_earlier_ones_of_the_same_link() {
        let (mut a, mut b) = pair();
        let one = send(&mut a, &mut b, 64).token;
        let two = send(&mut a, &mut b, 64).token;
        assert!(two.supersedes(one) && !one.supersedes(two));
        a.handle_sent_flushed(two);
        a.handle_link_switched();
        let validation = a.poll_transmit(NOW).unwrap().token;
        let again = a.poll_transmit(NOW).unwrap().token;
        assert!(!validation.supersedes(two) && !again.supersedes(two));
        assert!(again.supersedes(validation));
    }

    // FOV-06, FOV-12.
    #[test]
    fn chain_that_a_link_refused_does_not_stand_for_earlier_ones() {
        let (mut a, mut b) = pair();
        let posted = send(&mut a, &mut b, 64).token;
        a.write(NOW, 64);
        a.flush();
        let refused = a.poll_transmit(NOW).unwrap().token;
        a.handle_post_failed(refused);
        assert!(a.is_in_flight() && !a.wants_transmit(NOW));
        a.handle_sent_flushed(posted);
        assert!(!a.is_in_flight() && a.outstanding() == 128);
        a.handle_link_switched();
        assert!(a.poll_transmit(NOW).unwrap().token.is_validation());
        let replay = a.poll_transmit(NOW).unwrap();
        assert_eq!(
            replay.writes().iter().map(|write| write.len).sum::<u32>(),
            128
        );
    }
}
