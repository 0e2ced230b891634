// SPDX-License-Identifier: GPL-2.0

//! A connection after its rendezvous: sending, receiving and closing.
//!
//! Every method takes constant time and allocates nothing: a connection lives inside a spinlock
//! that is taken in process and in softirq context. After any input the engine calls
//! [`Conn::poll_transmit`] until it returns `None`, arms a timer by [`Conn::poll_timeout`], and
//! acts on [`Conn::take_events`].

mod ending;
mod reading;
mod shown;
mod tcp;

pub(crate) use self::{
    shown::Report,
    tcp::{
        Ending,
        TcpFound, //
    },
};
use super::{
    events::{
        SendError,
        Violation, //
    },
    msg::{
        self,
        Flags,
        Msg, //
    },
    recv::{
        order,
        Order,
        Receiver, //
    },
    send::{
        SendPolicy,
        Sender,
        Token,
        WriteSeg,
        MAX_WRITES, //
    },
    validation::Validation, //
};
use crate::proto::{
    base::time::{
        earliest,
        Duration,
        Instant, //
    },
    smc::{
        close::{
            Close,
            CloseError,
            CloseNotice,
            CloseState,
            CloseTimers,
            Notices,
            Tcp, //
        },
        cursor::Ring,
        wire::AlertToken, //
    },
    stream::{
        events::StreamEvents,
        positions::Segment,
        zerocopy::{
            LentSource,
            Recalled,
            LEAST, //
        },
    },
};

/// What a connection starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnConfig {
    /// The token the peer chose, which our messages carry (CDC-04, AMB-07).
    pub(crate) token: AlertToken,
    /// Bytes of the send ring.
    pub(crate) sndbuf: u32,
    /// Bytes of our element, as announced (AMB-27).
    pub(crate) local_rmbe: u32,
    /// Bytes of the peer's element, as it announced.
    pub(crate) peer_rmbe: u32,
    /// Bytes at the start of either element that carry no data: 0, or 4 with eye catchers (DEP-1).
    pub(crate) origin: u32,
    /// Less than this waits while earlier data is in flight; 0 turns that off (WIN-10).
    pub(crate) cork_bytes: u32,
    /// The most bytes of one [`Transmit`]; 0 means no limit.
    pub(crate) max_write: u32,
    /// The timers.
    pub(crate) timers: CloseTimers,
}

impl ConnConfig {
    /// A good value for [`Self::cork_bytes`].
    #[cfg(test)]
    pub(crate) const CORK_BYTES: u32 = 64 << 10;

    /// A good value for [`Self::max_write`].
    pub(crate) const MAX_WRITE: u32 = 128 << 10;
}

/// Writes and the CDC message behind them, to be posted in this order as one chain (CDC-32).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmit {
    /// The writes; only the first `n` are valid.
    writes: [WriteSeg; MAX_WRITES],
    /// Number of valid writes.
    n: usize,
    /// The CDC message.
    pub(crate) cdc: [u8; msg::LEN],
    /// Identifies the chain at its completion, see [`Conn::handle_sent`].
    pub(crate) token: Token,
    /// Whether the last work request must be signalled. Otherwise the completion of any later chain
    /// stands for this one.
    pub(crate) signal: bool,
    /// The lent part that the writes read, one behind the other; `None` for the send ring.
    pub(crate) source: Option<LentSource>,
}

impl Transmit {
    /// The writes, in order.
    pub(crate) fn writes(&self) -> &[WriteSeg] {
        self.writes.get(..self.n).unwrap_or(&[])
    }
}

/// What to send next.
enum Plan {
    /// The validation message.
    Validate,
    /// The replay of all chains that may not have been delivered.
    Replay,
    /// This number of bytes, and perhaps an announcement.
    Chain(u32, Option<CloseNotice>),
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conn {
    /// The alert token by which the peer knows this connection.
    token: AlertToken,
    /// The sending direction.
    tx: Sender,
    /// The receiving direction.
    rx: Receiver,
    /// The close state machine.
    close: Close,
    /// What the engine has done to the TCP connection.
    tcp_done: Tcp,
    /// Longest time that a [`Validation`] may wait.
    patience: Duration,
    /// A validation message of the peer that waits for earlier messages.
    validation: Option<Validation>,
    /// Changes since [`Self::take_events`].
    events: StreamEvents,
    /// Flags of the peer's last message.
    heard: Flags,
    /// Flags of ours.
    said: Flags,
}

impl Conn {
    /// A connection whose rendezvous is over; `None` if a buffer has no room for data.
    pub(crate) fn new(config: &ConnConfig) -> Option<Self> {
        let policy = SendPolicy {
            cork_bytes: config.cork_bytes,
            max_write: config.max_write,
            cork_time: config.timers.cork,
        };
        let ring = Ring::new(0, config.sndbuf)?;
        let peer = Ring::new(config.origin, config.peer_rmbe)?;
        let local = Ring::new(config.origin, config.local_rmbe)?;
        Some(Self {
            token: config.token,
            tx: Sender::new(ring, peer, policy),
            rx: Receiver::new(local),
            close: Close::new(config.timers),
            tcp_done: Tcp::Keep,
            patience: config.timers.validation,
            validation: None,
            events: StreamEvents::default(),
            heard: Flags::default(),
            said: Flags::default(),
        })
    }

    /// Takes what the inputs since the last call have changed. The engine acts on each flag.
    pub(crate) fn take_events(&mut self) -> StreamEvents {
        core::mem::take(&mut self.events)
    }

    // Sending.

    /// Whether the application may write.
    pub(crate) fn can_send(&self) -> Result<(), SendError> {
        if self.close.unreported_error().is_some() {
            Err(SendError::Unreported)
        } else if self.close.is_open_for_sending() {
            Ok(())
        } else {
            Err(SendError::Pipe)
        }
    }

    /// Free bytes of the send ring.
    pub(crate) fn send_room(&self) -> u32 {
        self.tx.room()
    }

    /// Where to copy up to `want` bytes to; less if there is no room. The second part may be empty.
    pub(crate) fn send_segments(&self, want: u32) -> [Segment; 2] {
        self.tx.segments(want)
    }

    /// Accepts `count` bytes, which the engine has copied to where [`Self::send_segments`] said. If
    /// the peer has closed, the connection breaks here: as in TCP, not before a write (CLS-65).
    pub(crate) fn write(&mut self, now: Instant, count: u32) {
        let before = self.observable();
        if count > 0 && self.close.is_open_for_sending() {
            self.tx.accept(now, count);
            self.close.handle_unsent(now);
        }
        self.note_changes(before);
    }

    /// How many of `want` bytes the application may lend, so that they are not copied; 0 if none.
    pub(crate) fn lendable(&self, want: u32) -> u32 {
        let most = core::cmp::min(want, self.tx.room());
        if self.tx.can_borrow() && most >= LEAST {
            most
        } else {
            0
        }
    }

    /// Accepts `count` bytes that the application lends, at most [`Self::lendable`]. Returns the
    /// number of the part, less than [`MAX_LENT`](crate::proto::stream::zerocopy::MAX_LENT). `None`: the core has
    /// taken nothing, and the engine must copy the bytes.
    pub(crate) fn lend(&mut self, now: Instant, count: u32) -> Option<usize> {
        let before = self.observable();
        let mut place = None;
        if self.close.is_open_for_sending() {
            place = self.tx.borrow(now, count);
        }
        if place.is_some() {
            self.close.handle_unsent(now);
        }
        self.note_changes(before);
        place
    }

    /// Whether part `place` is still needed, but for requests that were posted.
    pub(crate) fn is_lent(&self, place: usize) -> bool {
        self.tx.lent().has(place)
    }

    /// A part that the engine must copy into the send ring before anything more is sent: the link
    /// that read it is gone. The engine calls this after [`Self::handle_link_switched`] until it
    /// returns `None`.
    pub(crate) fn poll_recall(&self) -> Option<Recalled> {
        self.tx.recalled()
    }

    /// The engine has copied that part.
    pub(crate) fn handle_copied(&mut self, part: &Recalled) {
        self.tx.take_back(part);
    }

    /// Like [`Self::write`], and the last of the bytes is urgent (URG-01).
    pub(crate) fn write_urgent(&mut self, now: Instant, count: u32) {
        self.write(now, count);
        if self.close.is_open_for_sending() {
            self.tx.mark_urgent();
        }
    }

    /// Sets whether the application corks (MSG_MORE, TCP_CORK): it has more data to write.
    pub(crate) fn set_corked(&mut self, corked: bool) {
        self.tx.set_corked(corked);
    }

    /// Sets whether the next write must not be delayed (TCP_NODELAY).
    pub(crate) fn set_nodelay(&mut self, nodelay: bool) {
        self.tx.set_nodelay(nodelay);
    }

    /// When to call [`Self::handle_coalesced`], which is a matter of microseconds: small pieces are
    /// being gathered.
    pub(crate) fn poll_coalesced(&self) -> Option<Instant> {
        self.tx.gathered_until()
    }

    /// Small pieces have been gathered for long enough, if it is that late.
    pub(crate) fn handle_coalesced(&mut self, now: Instant) {
        if self.tx.gathered_until().is_some_and(|at| at <= now) {
            self.tx.end_gathering();
        }
    }

    /// A read found no data while small writes are coalesced: probably no write follows, so that
    /// they wait for nothing but a completion.
    pub(crate) fn on_empty_read(&mut self) {
        self.tx.note_look();
    }

    /// Whether something that was written waits for more of it, or for a completion.
    pub(crate) fn holds_back(&self) -> bool {
        self.tx.holds_back()
    }

    /// Nothing written so far waits for more data or for completions.
    pub(crate) fn flush(&mut self) {
        self.tx.flush();
    }

    /// Whether [`Self::poll_transmit`] returns a chain.
    #[cfg(any(test, fuzzing, CONFIG_RDMA_SOCK_KUNIT_TEST))]
    pub(crate) fn wants_transmit(&self, now: Instant) -> bool {
        self.plan(now).is_some()
    }

    /// What a message would carry. `None` if there is no reason for one.
    fn plan(&self, now: Instant) -> Option<Plan> {
        if self.tx.is_paused() || self.tx.lent().is_recalled() || self.close.is_lost() {
            return None;
        }
        if self.tx.is_leaving() {
            // After C or A there is nothing more to say, and both ask for a completion.
            let due = self.tx.is_completion_due() && !self.close.is_silent();
            return due.then_some(Plan::Chain(0, None));
        }
        // Also after C or A, if they may have been lost.
        if self.tx.is_replay_due() || !self.close.is_silent() {
            if self.tx.is_validation_due() {
                return Some(Plan::Validate);
            }
            if self.tx.is_replay_due() {
                return Some(Plan::Replay);
            }
        }
        if self.close.is_silent() {
            return None;
        }
        if !self.close.is_alive() {
            let notice = self.close.due(false)?;
            return Some(Plan::Chain(0, Some(notice)));
        }
        let eager = !self.close.is_open_for_sending()
            || self.tx.cork_deadline().is_some_and(|at| at <= now);
        let count = self.tx.sendable(now, eager);
        let notice = self.close.due(count == self.tx.unsent());
        // A peer that writes no more has no use for space.
        let update =
            !self.close.peer_is_done() && self.rx.is_update_due(self.tx.is_completion_coming());
        let other = self.tx.is_urgent_due() || self.tx.is_completion_due();
        if count > 0 || notice.is_some() || update || other {
            Some(Plan::Chain(count, notice))
        } else {
            None
        }
    }

    /// The next chain to post, with the send slot that `reserve` returns. `None`: there is no
    /// reason for a chain, or no slot. The engine calls this until it returns `None`. A chain that
    /// the link refuses goes back by [`Self::handle_post_failed`].
    #[must_use = "the chain counts as sent"]
    pub(crate) fn poll_transmit_into<S>(
        &mut self,
        now: Instant,
        reserve: impl FnOnce() -> Option<S>,
    ) -> Option<(S, Transmit)> {
        let plan = self.plan(now)?;
        let slot = reserve()?;
        Some((slot, self.transmit(now, plan)?))
    }

    /// The same for callers that always have a send slot.
    #[cfg(any(test, fuzzing, CONFIG_RDMA_SOCK_KUNIT_TEST))]
    #[must_use = "the chain counts as sent"]
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let ((), transmit) = self.poll_transmit_into(now, || Some(()))?;
        Some(transmit)
    }

    /// Makes the chain that `plan` describes. It counts as posted.
    fn transmit(&mut self, now: Instant, plan: Plan) -> Option<Transmit> {
        let mut source = None;
        let (writes, n) = match plan {
            Plan::Validate => return Some(self.transmit_validation()),
            Plan::Replay => self.tx.retake()?,
            Plan::Chain(count, notice) => {
                // The end waits for its message, and a peer that is blocked gets small updates at
                // the pace of completions.
                let signal = notice.is_some()
                    || self.rx.is_blocked()
                    || self.tx.is_urgent_due()
                    || self.tx.is_completion_due();
                source = self.tx.source(count);
                let taken = self.tx.take(now, count, signal)?;
                if let Some(notice) = notice {
                    self.close.handle_announced(now, notice);
                }
                taken
            }
        };
        let sent = self.close.sent();
        // CDC-39.
        self.rx.set_reported(self.rx.consumed());
        let (urgent_pending, urgent_present) = self.tx.tell_urgent();
        let message = Msg {
            seq: self.tx.seq(),
            token: self.token,
            produced: self.tx.produced().wire(),
            consumed: self.rx.consumed().wire(),
            flags: Flags {
                // A writer that has shut down is not blocked.
                blocked: self.tx.is_blocked() && sent == Notices::default(),
                urgent_pending,
                urgent_present,
                update_requested: self.tx.is_stopped(),
                done: sent.done,
                closed: sent.closed,
                abort: sent.abort,
                ..Flags::default()
            },
        };
        self.said = message.flags;
        Some(Transmit {
            writes,
            n,
            cdc: message.emit(),
            token: self.tx.token(sent.abort),
            signal: self.tx.is_signalled(),
            source,
        })
    }

    /// The message that opens a new link. Only its number counts (CDC-44).
    fn transmit_validation(&mut self) -> Transmit {
        let (seq, token) = self.tx.take_validation();
        let message = Msg {
            seq,
            token: self.token,
            produced: self.tx.produced().wire(),
            consumed: self.rx.reported().wire(),
            flags: Flags {
                failover: true,
                ..Flags::default()
            },
        };
        Transmit {
            writes: [WriteSeg::default(); MAX_WRITES],
            n: 0,
            cdc: message.emit(),
            token,
            signal: true,
            source: None,
        }
    }

    /// The link has refused the last chain, so it is broken: nothing is sent until
    /// [`Self::handle_link_switched`]. The replay repeats the chain (FOV-12), as it does for a
    /// chain that the link has lost. Earlier chains still come back from the link.
    pub(crate) fn handle_post_failed(&mut self, token: Token) {
        let before = self.observable();
        self.tx.refused(token);
        self.note_changes(before);
    }

    /// A chain was completed, and with it, by the order of the link, all before it. Each chain with
    /// [`Transmit::signal`] must be completed in the end, be it by a later one: data and the end of
    /// an abort wait for it. When the others come back does not matter.
    pub(crate) fn handle_sent(&mut self, now: Instant, token: Token) {
        let before = self.observable();
        let Some(writable) = self.tx.complete(now, token) else {
            return self.note_changes(before);
        };
        if token.abort {
            self.close.handle_abort_sent();
        }
        self.close.progress(now);
        self.events.writable |= writable;
        self.note_changes(before);
    }

    /// A chain came back from a link that is dead, delivered or not. Nothing more is sent over that
    /// link.
    pub(crate) fn handle_sent_flushed(&mut self, token: Token) {
        let before = self.observable();
        self.tx.flushed(token);
        self.note_changes(before);
    }

    /// The link is dead or about to go: nothing is sent until [`Self::handle_link_switched`].
    pub(crate) fn handle_link_paused(&mut self) {
        self.tx.pause();
    }

    /// The connection is about to move off a link that works: from here on it sends only messages
    /// that make this link complete the chains in flight.
    pub(crate) fn handle_link_leaving(&mut self) {
        self.tx.leave();
    }

    /// A caller polls [`Self::outstanding`] until everything has arrived: request a completion.
    pub(crate) fn want_completion(&mut self) {
        self.tx.want_completion();
    }

    /// Whether the link has work requests of this connection.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.tx.is_in_flight()
    }

    /// The connection sends over another link from now on (FOV-04). Only when the old one is done
    /// with it: all its chains have completed, or never will (FOV-06, AMB-31).
    pub(crate) fn handle_link_switched(&mut self) {
        let before = self.observable();
        self.tx.switch();
        self.note_changes(before);
    }

    /// Bytes not yet handed to the link (SIOCOUTQNSD).
    pub(crate) fn unsent(&self) -> u32 {
        self.tx.unsent()
    }

    /// Bytes that have not arrived in the peer's element for sure (SIOCOUTQ).
    pub(crate) fn outstanding(&self) -> u32 {
        self.tx.uncompleted()
    }

    /// Whether the peer has as many unread bytes as its element holds, as far as known.
    pub(crate) fn is_peer_full(&self) -> bool {
        self.tx.is_peer_full()
    }

    /// Bytes that the peer's application has not read, as far as known.
    #[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
    pub(crate) fn unconsumed(&self) -> u32 {
        self.tx.unconsumed()
    }

    /// Whether all data and announcements have arrived: what a lingering close waits for.
    pub(crate) fn is_drained(&self) -> bool {
        self.tx.unsent() == 0 && !self.tx.is_undelivered() && self.close.due(true).is_none()
    }

    // Receiving.

    /// Takes in a message of the peer. After a violation, too, there is something to transmit.
    pub(crate) fn handle_cdc(&mut self, now: Instant, message: &Msg) -> Result<(), Violation> {
        if message.flags.failover {
            // CDC-44, CDC-45.
            self.handle_validation(now, message.seq);
            return Ok(());
        }
        if self
            .validation
            .as_mut()
            .is_some_and(|validation| validation.hold(message))
        {
            return Ok(());
        }
        self.take_in(now, message)?;
        match self.validation {
            Some(validation) if self.rx.order(validation.number) == Order::Old => {
                self.validated(now, validation)
            }
            _ => Ok(()),
        }
    }

    /// The messages that `validation` waited for are there: handles the held one.
    fn validated(&mut self, now: Instant, validation: Validation) -> Result<(), Violation> {
        let mut held = validation.held;
        self.validation = validation.then.map(|number| Validation {
            number,
            then: None,
            // Beyond that number, too, it is held back still.
            held: held.take_if(|held| order(number, held.seq) == Order::New),
            deadline: now.saturating_add(self.patience),
        });
        match held {
            Some(held) => self.take_in(now, &held),
            None => Ok(()),
        }
    }

    /// The peer has moved to another link. The messages that it knows to be delivered must be here
    /// (FOV-08 to FOV-10).
    fn handle_validation(&mut self, now: Instant, number: u16) {
        if !self.close.is_alive() {
            return;
        }
        self.rx.begin_replay();
        if self.rx.order(number) == Order::Old {
            return;
        }
        match self.validation.as_mut() {
            Some(validation) => validation.extend(number),
            None => {
                self.validation = Some(Validation {
                    number,
                    then: None,
                    held: None,
                    deadline: now.saturating_add(self.patience),
                });
            }
        }
    }

    /// Takes in a message that is no validation message.
    fn take_in(&mut self, now: Instant, message: &Msg) -> Result<(), Violation> {
        let before = self.observable();
        let flags = message.flags;
        if self.close.state() == CloseState::Closed || self.rx.order(message.seq) == Order::Old {
            return Ok(());
        }
        self.heard = flags;
        let notices = Notices {
            done: flags.done,
            closed: flags.closed,
            abort: flags.abort,
        };
        if !self.close.is_alive() {
            // CLS-75, ABT-03.
            self.rx.set_seq(message.seq);
            self.close.handle_notices(now, notices, false);
            self.note_changes(before);
            return Ok(());
        }
        let (mut count, mut urgent, mut roomy) = (0, false, false);
        match (
            self.rx.check_produced(message.produced),
            self.tx.check_acked(message.consumed),
        ) {
            // Data behind the end of the stream.
            (Some(produced), Some(_)) if self.close.peer_is_done() && self.rx.is_more(produced) => {
                return self.violate(now, Violation::Producer);
            }
            (Some(produced), Some(acked)) => {
                (count, urgent) = self.rx.take_in(message.seq, produced, flags);
                let (progress, writable) = self.tx.set_acked(acked);
                if progress {
                    self.close.progress(now);
                }
                roomy = writable;
            }
            // The cursors of a peer that aborts need not be valid.
            _ if flags.abort => self.rx.set_seq(message.seq),
            (None, _) => return self.violate(now, Violation::Producer),
            (_, None) => return self.violate(now, Violation::Consumer),
        }
        if count > 0 {
            self.tx.note_answer();
            if self.close.refuses_data() {
                self.close.abort(now, CloseError::Reset);
            }
        }
        let was_done = self.close.peer_is_done();
        self.close
            .handle_notices(now, notices, self.tx.unsent() > 0);
        self.events.readable |= count > 0 || was_done != self.close.peer_is_done();
        self.events.writable |= roomy;
        self.events.urgent |= urgent;
        self.note_changes(before);
        Ok(())
    }

    /// Begins the abort that a violation calls for. A reader that had all data before the end of
    /// the stream goes on finding that end.
    fn violate(&mut self, now: Instant, violation: Violation) -> Result<(), Violation> {
        let before = self.observable();
        if self.rx.available() > 0 {
            self.close.spoil_stream();
        }
        self.rx.spoil();
        self.validation = None;
        self.close.abort(now, CloseError::Reset);
        self.note_changes(before);
        // Each sleeper must learn that nothing more comes.
        self.events = StreamEvents {
            readable: true,
            writable: true,
            closing: true,
            error: true,
            ..self.events
        };
        Err(violation)
    }

    /// The eye catcher of our element has been written over (RMB-14, ABT-01): what else was is not
    /// known.
    ///
    /// # Errors
    ///
    /// Always; the connection is aborting.
    pub(crate) fn handle_eye_catcher_lost(&mut self, now: Instant) -> Result<(), Violation> {
        self.violate(now, Violation::EyeCatcher)
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        earliest(
            earliest(self.close.poll_timeout(), self.tx.cork_deadline()),
            self.validation.map(|validation| validation.deadline),
        )
    }

    /// The earlier of [`Self::poll_timeout`] and [`Self::poll_coalesced`].
    #[cfg(any(test, fuzzing))]
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        earliest(self.poll_timeout(), self.poll_coalesced())
    }

    /// A deadline may have passed. As with [`Self::handle_cdc`], there is something to transmit
    /// after a violation, too.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Result<(), Violation> {
        if self
            .validation
            .is_some_and(|validation| validation.deadline <= now)
        {
            return self.violate(now, Violation::FailoverLoss);
        }
        let before = self.observable();
        if self.tx.cork_deadline().is_some_and(|at| at <= now) {
            self.tx.flush();
        }
        self.handle_coalesced(now);
        self.events.closing |= self.close.handle_timeout(now, self.rx.is_stalling());
        self.note_changes(before);
        Ok(())
    }
}
