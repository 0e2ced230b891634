// SPDX-License-Identifier: GPL-2.0

//! An established connection: the only type of the protocol that an engine needs.
//!
//! Inputs are `handle_x` methods and the commands of the application. After each the engine calls
//! [`SdpConn::poll_transmit`], [`SdpConn::poll_invalidate`] and [`SdpConn::poll_release`] until
//! they return `None`, posts [`SdpConn::wanted_buffers`], takes [`SdpConn::take_events`], and arms
//! its timer by [`SdpConn::poll_timeout`].
//!
//! nothing that is due is kept as a message. `poll_transmit` chooses by the state of that
//! moment, and formats the header then, so that what has become wrong is not sent. The engine
//! posts under the lock that it holds for the call (SDP-ORD-01).

mod commands;
mod receive;
mod transmit;

pub(crate) use self::{
    receive::RxBuffer,
    transmit::{
        Outbound,
        SdpToken, //
    }, //
};
use super::{
    credit::{
        CreditNeed,
        RxWindow,
        TxCredit, //
    },
    meter::SdpMeter,
    msg::HalfMode,
    oob::UrgentRx,
    persist::{
        PersistStep,
        PersistTests,
        PersistTimer,
        Waiter, //
    },
    profile::{
        Dialect,
        Profile,
        SdpTransport, //
    },
    resize::{
        Resize,
        SizeRequest, //
    },
    setup::{
        SdpTerms,
        SetupRole, //
    },
    sink::Sink,
    source::{
        Source,
        SourceLimits, //
    },
    suspend::Suspend,
    teardown::{
        EndError,
        EndTimers,
        Teardown, //
    },
};
use crate::proto::{
    base::time::{
        earliest,
        Duration,
        Instant, //
    },
    stream::{
        coalesce::Coalescer,
        keepalive::Keepalive,
        urgent::UrgentReader, //
    },
};

/// How long a connection waits for its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnTimers {
    /// For an answer to an advert, before it is taken back.
    pub(crate) advert: Duration,
    /// For a reader, when both ends have an advert out (SDP-DL-02).
    pub(crate) dead: Duration,
    /// For the end of a cancel, before the connection is aborted.
    pub(crate) cancel: Duration,
    /// For the first message of the peer, before ours is repeated.
    pub(crate) first: Duration,
    /// For an acknowledgement that data waits for, before the accepting end asks for it.
    pub(crate) ask: Duration,
    /// For a suspension (SDP-TMR-9).
    pub(crate) suspend: Duration,
    /// Least time from one suspension to the next.
    pub(crate) suspend_interval: Duration,
    /// For the end.
    pub(crate) end: EndTimers,
    /// For credits.
    pub(crate) persist: PersistTests,
}

impl ConnTimers {
    /// Corked data is sent after this time, as TCP does.
    pub(crate) const CORK: Duration = Duration::from_millis(200);
    /// After a refusal, memory is not asked for again in this time.
    pub(crate) const MEMORY_PAUSE: Duration = Duration::from_secs(1);

    /// The timers in use unless the engine changes them.
    pub(crate) const DEFAULT: Self = Self {
        advert: Duration::from_secs(1),
        dead: Duration::from_millis(100),
        cancel: Duration::from_secs(10),
        first: Duration::from_millis(200),
        ask: Duration::from_millis(5),
        suspend: Duration::from_secs(30),
        suspend_interval: Duration::from_secs(10),
        end: EndTimers::DEFAULT,
        persist: PersistTests::DEFAULT,
    };
}

/// What a connection starts with, besides the terms of the set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SdpConfig {
    /// Octets of the send ring.
    pub(crate) ring: u32,
    /// The device can gather a message from two pieces of the send ring.
    pub(crate) wraps: bool,
    /// Octets of the largest receive buffers that the engine can post, and of those that it asks the peer
    /// for.
    pub(crate) most_buffer: u32,
    /// Lent memory of at least this number of octets is advertised.
    pub(crate) threshold: u32,
    /// Repetitions of the first message, for a driver that loses it.
    pub(crate) nudges: u8,
    /// The timers.
    pub(crate) timers: ConnTimers,
}

/// What inputs have changed. The engine acts on each flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SdpEvents {
    /// There is something to read: data, an advert, the end.
    pub(crate) readable: bool,
    /// There is room to write.
    pub(crate) writable: bool,
    /// The peer has announced urgent data.
    pub(crate) urgent: bool,
    /// The connection is broken or over.
    pub(crate) over: bool,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SdpConn {
    /// Layout, numbers and dialect.
    profile: Profile,
    /// Which end this is.
    role: SetupRole,
    /// The peer takes Send with Invalidate.
    invalidates: bool,
    /// What it was made with.
    config: SdpConfig,
    /// What our messages may use.
    tx: TxCredit,
    /// What the peer's messages may use.
    rx: RxWindow,
    /// Our sending half.
    source: Source,
    /// Our receiving half.
    sink: Sink,
    /// The end.
    end: Teardown,
    /// The size of our receive buffers.
    resize: Resize,
    /// Our request for larger ones of the peer.
    request: SizeRequest,
    /// A move of the peer.
    suspend: Suspend,
    /// Announcements of the peer.
    announced: UrgentRx,
    /// The urgent octet as the reader sees it.
    urgent: UrgentReader,
    /// An urgent octet has just come, and the engine has no copy of it.
    is_urgent_new: bool,
    /// Octets that the reader has consumed.
    read: u64,
    /// What is measured.
    meter: SdpMeter,
    /// Coalescing of small writes by time.
    coalescer: Coalescer,
    /// The timer of an idle connection.
    keepalive: Keepalive,
    /// The peer has to be tested.
    is_probing: bool,
    /// A test without a message is under way.
    is_probe_out: bool,
    /// The tests of a peer that gives no credits.
    persist: PersistTimer,
    /// How long data may wait without any progress (TCP_USER_TIMEOUT).
    patience: Option<Duration>,
    /// When that has taken too long.
    stall_at: Option<Instant>,
    /// Octets that the peer had when that timer was started.
    progress: u64,
    /// The device has tried in vain to reach the peer.
    is_silent: bool,
    /// The second credit is kept for reports.
    keeps_reserve: bool,
    /// Our first message has to be sent at once.
    is_opening: bool,
    /// Repetitions of it that are left.
    nudges: u8,
    /// When the first message is repeated.
    nudge_at: Option<Instant>,
    /// When adverts without an answer are taken back.
    advert_at: Option<Instant>,
    /// When an advert of the peer is refused, since ours waits too.
    dead_at: Option<Instant>,
    /// When a cancel has taken too long.
    cancel_at: Option<Instant>,
    /// When the accepting end asks for an acknowledgement.
    ask_at: Option<Instant>,
    /// An acknowledgement is asked for.
    is_asking: bool,
    /// A read waits for credits.
    is_read_blocked: bool,
    /// Changes since [`Self::take_events`].
    events: SdpEvents,
}

impl SdpConn {
    /// A connection whose set-up is over.
    ///
    /// Nothing is out that a timer is for. The value is large: it is made where the caller has it.
    pub(crate) fn new(_now: Instant, config: SdpConfig, terms: &SdpTerms) -> Self {
        let timers = config.timers;
        let is_iwcm = terms.profile.transport == SdpTransport::Iwcm;
        Self {
            profile: terms.profile,
            role: terms.role,
            invalidates: terms.invalidates,
            config,
            tx: Self::credit(terms),
            rx: Self::window(terms),
            source: Source::new(config.ring, Self::limits(&config, terms), 0),
            sink: Sink::new(terms.adverts, terms.depths.ord),
            end: Teardown::new(timers.end),
            resize: Resize::new(terms.size, config.most_buffer),
            request: SizeRequest::new(config.most_buffer, terms.peer_size),
            suspend: Suspend::new(timers.suspend, timers.suspend_interval),
            announced: UrgentRx::default(),
            urgent: UrgentReader::NONE,
            is_urgent_new: false,
            read: 0,
            meter: SdpMeter::default(),
            coalescer: Coalescer::new(),
            keepalive: Keepalive::default(),
            is_probing: false,
            is_probe_out: false,
            persist: PersistTimer::default(),
            patience: None,
            stall_at: None,
            progress: 0,
            is_silent: false,
            keeps_reserve: true,
            is_opening: is_iwcm && terms.role == SetupRole::Connecting,
            nudges: if is_iwcm { config.nudges } else { 0 },
            nudge_at: None,
            advert_at: None,
            dead_at: None,
            cancel_at: None,
            ask_at: None,
            is_asking: false,
            is_read_blocked: false,
            events: SdpEvents::default(),
        }
    }

    fn credit(terms: &SdpTerms) -> TxCredit {
        let used = terms.profile.acks_in_band() && terms.role == SetupRole::Accepting;
        TxCredit::new(terms.profile.first_mseq, terms.peer_bufs, used)
    }

    fn window(terms: &SdpTerms) -> RxWindow {
        let used = terms.profile.acks_in_band() && terms.role == SetupRole::Connecting;
        RxWindow::new(terms.bufs, used)
    }

    fn limits(config: &SdpConfig, terms: &SdpTerms) -> SourceLimits {
        SourceLimits {
            peer_size: terms.peer_size,
            peer_adverts: terms.peer_adverts,
            adverts: terms.adverts,
            threshold: config.threshold,
            can_change_mode: terms.profile.dialect == Dialect::Full,
            wraps: config.wraps,
        }
    }

    /// Over MPA the connecting end has to send first (SDP-IB-25, R-6).
    fn open(&mut self, now: Instant) {
        let is_iwcm = self.profile.transport == SdpTransport::Iwcm;
        self.is_opening = is_iwcm && self.role == SetupRole::Connecting;
        self.nudges = if is_iwcm { self.config.nudges } else { 0 };
        self.nudge_at = None;
        self.rearm(now);
    }

    /// Takes what the inputs since the last call have changed.
    pub(crate) fn take_events(&mut self) -> SdpEvents {
        core::mem::take(&mut self.events)
    }

    /// A new link continues the connection, after [`Self::poll_move`] (SDP-DS-4, AMB-49). `wraps`: as in
    /// [`SdpConfig`].
    pub(crate) fn resume(&mut self, now: Instant, terms: &SdpTerms, wraps: bool) {
        if !self.is_moving() {
            return;
        }
        self.config.wraps = wraps;
        self.profile = terms.profile;
        self.role = terms.role;
        self.invalidates = terms.invalidates;
        self.tx = Self::credit(terms);
        let most = self.rx.most();
        self.rx = Self::window(terms);
        self.rx.let_grow(most);
        self.source.resume(Self::limits(&self.config, terms));
        self.sink.resume(terms.adverts, terms.depths.ord);
        self.resize = Resize::new(terms.size, self.config.most_buffer);
        self.request = SizeRequest::new(self.config.most_buffer, terms.peer_size);
        self.end.resume();
        self.suspend.resume();
        self.meter.resume();
        self.coalescer.forget();
        self.end_hold();
        self.is_probe_out = false;
        self.events.writable = true;
        self.open(now);
    }

    // Time.

    /// Starts and stops timers by what is out.
    fn rearm(&mut self, now: Instant) {
        let set = |timer: &mut Option<Instant>, runs: bool, span: Duration| {
            let until = timer.unwrap_or(now.saturating_add(span));
            *timer = runs.then_some(until);
        };
        let timers = self.config.timers;
        let is_live = self.end.is_live();
        let source = &self.source;
        let waits = source.has_adverts() && !source.is_cancel_due() && !source.is_cancel_open();
        let is_dead = source.has_adverts() && self.sink.is_waiting();
        set(&mut self.advert_at, is_live && waits, timers.advert);
        set(&mut self.dead_at, is_live && is_dead, timers.dead);
        set(
            &mut self.cancel_at,
            is_live && self.source.is_cancel_open(),
            timers.cancel,
        );
        let is_first = self.nudges > 0 && self.tx.sent() > 0 && self.rx.received() == 0;
        // The connecting end asks at once. If both did, each would always be a message behind.
        let lacks = self.tx.lacks_ack() && self.role == SetupRole::Accepting;
        let waits = lacks && self.source.has_plan() && !self.is_asking;
        set(&mut self.ask_at, is_live && waits, timers.ask);
        set(&mut self.nudge_at, is_live && is_first, timers.first);
        let (progress, waits) = self.source.progress();
        if progress != self.progress || !waits || !is_live {
            self.progress = progress;
            self.stall_at = None;
        }
        self.persist
            .rearm(now, &timers.persist, self.waiter(), progress);
        if let Some(patience) = self.patience.filter(|_| waits && is_live) {
            let until = now.saturating_add(patience);
            self.stall_at = self.stall_at.or(Some(until));
        }
    }

    /// How the connection waits for credits, if it does. An orphan has no time for anything else either.
    fn waiter(&self) -> Option<Waiter> {
        let is_ending = self.end.is_disconn_due();
        if self.end.is_released() {
            return is_ending.then_some(Waiter::Orphan);
        }
        let has_more = self.source.has_unsent() || is_ending;
        let waits = has_more && !self.tx.permits(CreditNeed::Payload, false, false);
        (waits && self.end.is_live()).then_some(Waiter::Open)
    }

    /// A timer may have expired.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let is_over = |timer: Option<Instant>| timer.is_some_and(|at| at <= now);
        if is_over(self.advert_at) {
            let _ = self.source.revoke();
        }
        if is_over(self.dead_at) {
            self.sink.refuse();
        }
        if is_over(self.nudge_at) {
            self.nudge_at = None;
            self.nudges = self.nudges.saturating_sub(1);
            self.is_opening = true;
        }
        if is_over(self.ask_at) {
            self.ask_at = None;
            self.is_asking = true;
        }
        self.handle_coalesced(now);
        if self.keepalive.handle_timeout(now).is_some() {
            self.is_probing = true;
        }
        let tests = self.config.timers.persist;
        let step = self.persist.handle_timeout(now, &tests);
        self.is_probing |= step == PersistStep::Test;
        let is_stalled = is_over(self.stall_at) || step == PersistStep::GiveUp;
        let gives_up = is_over(self.suspend.poll_timeout()) || is_stalled;
        if is_over(self.cancel_at) || gives_up {
            self.break_off(now, EndError::TimedOut);
        }
        self.end.handle_timeout(now);
        self.note_end();
        self.rearm(now);
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let suspend = self.suspend.poll_timeout();
        [
            self.advert_at,
            self.dead_at,
            self.cancel_at,
            self.nudge_at,
            self.ask_at,
            self.stall_at,
            self.persist.poll_timeout(),
            self.keepalive.poll_timeout().filter(|_| self.end.is_live()),
            suspend.filter(|_| self.end.is_live()),
        ]
        .into_iter()
        .fold(self.end.poll_timeout(), earliest)
    }

    /// The earlier of [`Self::poll_timeout`] and [`Self::poll_coalesced`].
    #[cfg(any(test, fuzzing))]
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        earliest(self.poll_timeout(), self.poll_coalesced())
    }

    /// Mode of the half-connection where we send.
    pub(crate) const fn send_mode(&self) -> HalfMode {
        self.source.mode()
    }

    /// Checks what holds at any time.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn check(&self) {
        self.source.check();
        self.sink.check();
        assert_eq!(self.rx.is_held(), self.sink.is_draining());
    }

    /// Receive buffers that are posted, as the connection counts them.
    #[cfg(test)]
    pub(crate) fn posted(&self) -> u64 {
        self.rx.posted()
    }

    /// Octets of our stream that the peer has, as far as we know, and those that it has refused to
    /// read and that were not sent.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn sent_and_owed(&self) -> (u64, u64) {
        self.source.sent_and_owed()
    }

    /// Octets that we have refused to read and that have not come, and adverts of the peer.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn refused_and_adverts(&self) -> (u64, usize) {
        self.sink.refused_and_adverts()
    }

    /// Adverts of ours that are not processed, and whether a cancel is not.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn adverts_and_cancel(&self) -> (usize, bool) {
        self.source.adverts_and_cancel()
    }

    /// SinkAvail adverts of the peer that are queued.
    #[cfg(test)]
    pub(crate) fn sink_avails(&self) -> usize {
        self.source.sink_avails()
    }

    /// All state that a search tells apart, while no time passes.
    #[cfg(test)]
    pub(crate) fn key(&self) -> impl core::hash::Hash + Eq + Clone {
        let end = self.end.state();
        (self.tx, self.rx, self.source, self.sink, end)
    }

    /// Leaves out rules of ours, to show why they must be followed.
    #[cfg(test)]
    pub(crate) fn break_rules(&mut self, reserve: bool, spares: bool) {
        self.keeps_reserve = reserve;
        if !spares {
            self.rx.drop_spares();
        }
    }

    /// Starts all counters near their wrap, as the peer must do too.
    #[cfg(test)]
    pub(crate) fn start_at(&mut self, first: u32, peer_first: u32, bufs: u16) {
        use super::serial::Serial;
        self.tx = TxCredit::new(Serial::new(first), bufs, false);
        self.rx.expect_first(Serial::new(peer_first));
    }
}

#[cfg(test)]
mod tests;
