// SPDX-License-Identifier: GPL-2.0

//! A socket as the engine sees it: what it is doing, and the pieces of each stage.
//!
//! The object is the context of a TCP sock (see `kapi::net::events`), made at the first connect or
//! listen. Its mode decides what answers a socket call: the TCP stack for [`Mode::Tcp`], this
//! engine for the others. A connection that fell back is a TCP socket and nothing else.

use super::{
    accept_queue::{
        AcceptQueue,
        Listener,
        Service, //
    },
    calls::CallCounts,
    contention::Contention,
    context::{
        now,
        Context, //
    },
    spins::Spins,
    stats::{
        NetStats,
        Side, //
    },
    stream::Stream, //
};
use crate::{
    kapi::{
        base::{
            alarm::Alarm,
            module::ModuleRef,
            sync::{
                new_spinlock_bh,
                SpinLockBh, //
            },
            time::jiffies_from_ns,
            work::{
                new_deferred,
                Deferred, //
            },
        },
        compat::errno::{
            ECONNRESET,
            ENOPROTOOPT, //
        },
        net::{
            events::{
                TcpEvents,
                Wake, //
            },
            msg::{
                Name,
                OwnedName, //
            },
            proc::SeqFile,
            sock::{
                Sock,
                TcpState, //
            },
            socket::{
                DetachedSocket,
                Socket, //
            },
            sockopt::{
                GetOpt,
                SetOpt, //
            },
            trace::Moved,
        },
    },
    proto::{
        base::time::{
            earliest,
            Duration,
            Instant, //
        },
        stream::reason::Reason, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc,
        ArcBorrow,
        Mutex, //
    },
};

/// Work item of the set-up, of the accept queue, and of what TCP reports later.
pub(crate) const SETUP: u64 = 0;
/// Work item of timers and of the end of a connection.
pub(crate) const CLOSING: u64 = 1;

/// The part that answers a socket call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The TCP stack: nothing asked for yet, fallen back, or over.
    Tcp,
    /// `connect` is under way in TCP, with the offer of the protocol.
    Connecting,
    /// Both sides offer the protocol, and its set-up runs.
    Negotiating,
    /// Data flows by RDMA.
    Stream,
    /// A listener.
    Listening,
}

impl Mode {
    const fn code(self) -> u32 {
        match self {
            Self::Tcp => 0,
            Self::Connecting => 1,
            Self::Negotiating => 2,
            Self::Stream => 3,
            Self::Listening => 4,
        }
    }

    const fn from_code(code: u32) -> Self {
        match code {
            1 => Self::Connecting,
            2 => Self::Negotiating,
            3 => Self::Stream,
            4 => Self::Listening,
            _ => Self::Tcp,
        }
    }
}

/// A protocol, as the socket engine uses it. The value is its own part of a connection.
pub(crate) trait Protocol: Send + Sync + Sized + 'static {
    /// The data side of its connections.
    type Stream: Stream<Owner = Connection<Self>>;
    /// Name of the protocol in `/proc`.
    const NAME: &'static str;
    /// Level of its socket options.
    const LEVEL: i32;
    /// Address families that stand for others in the addresses that programs give.
    const ALIASES: &'static [(u16, u16)] = &[];
    /// Connections are opened beside TCP, which stays closed while data flows by RDMA. Otherwise TCP
    /// carries the offer, and stays connected.
    const BESIDE_TCP: bool;
    /// Why a connection of a listener is one of TCP, if its client did not agree to the protocol.
    const NOT_AGREED: Reason;

    /// Makes the context of a socket. Context: may sleep.
    fn connection(sk: ARef<Sock>, side: Side) -> Result<Arc<Connection<Self>>>;

    /// Makes the context of a child of `listener`. Context: may sleep.
    fn child(listener: &Connection<Self>, sk: ARef<Sock>) -> Result<Arc<Connection<Self>>>;

    // The offer. A protocol beside TCP has `open`, `is_preferred` and `serve`; another has the calls that
    // put an option of TCP on its sockets. The defaults do nothing.

    /// The reason for which a connection to `name` is not even offered. Context: may sleep.
    fn opt_out(connection: &Connection<Self>, name: &Name) -> Option<Reason>;

    /// Whether a socket that may use this protocol or another one connects to `name` by this one.
    /// It does not wait for a peer. Context: may sleep.
    fn is_preferred(_sk: &Sock, _name: &Name) -> bool {
        false
    }

    /// Begins the set-up of a connection beside TCP to `name`. Context: may sleep.
    ///
    /// # Errors
    ///
    /// The reason for which the connection is one of TCP.
    fn open(_connection: &Arc<Connection<Self>>, _name: &Name) -> Result<(), Reason> {
        Err(Self::NOT_AGREED)
    }

    /// Puts the offer on a socket that connects, or listens. Context: may sleep.
    fn offer(_sock: &Socket, _side: Side) {}

    /// Brings children to a listener beside TCP, which has its port. The listener may be a socket of
    /// another protocol. `None` if clients of this one have to use TCP. Context: may sleep.
    fn serve(_listener: Arc<dyn Listener>) -> Option<Arc<dyn Service>> {
        None
    }

    /// Takes the offer off a socket. Context: may sleep.
    fn withdraw(_sock: &Socket) {}

    /// Sets whether a listener withholds the offer. Context: may sleep.
    fn withhold(_sk: &Sock, _withholds: bool) {}

    /// Whether the client of a child, new from TCP, agreed to the protocol. Context: may sleep.
    fn agreed(_sk: &Sock) -> bool {
        false
    }

    // The set-up. It does not wait for the sock lock.

    /// Goes on with the set-up: TCP has something, or a timer is due. Context: may sleep.
    fn step(connection: &Arc<Connection<Self>>);

    /// Begins the server's side for a child that [agreed](Self::agreed). Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if children of TCP have no set-up.
    fn negotiate(_child: &Arc<Connection<Self>>) -> Result {
        Err(EINVAL)
    }

    /// Ends the set-up, whose work item does not run. Returns whether it was under way.
    /// Context: may sleep.
    fn cancel(connection: &Arc<Connection<Self>>) -> bool;

    /// Looks at the first octets of a TCP connection that is [`Connection::is_doubtful`].
    /// Context: may sleep.
    fn judge_first(_connection: &Connection<Self>) {}

    /// The connection is about to be one of TCP. Context: any.
    fn fell_back(_connection: &Connection<Self>, _reason: Reason) {}

    // The data side.

    /// A call has moved octets. Context: any.
    fn moved(_connection: &Connection<Self>, _how: Moved, _octets: usize) {}

    /// How long a call may spin before it sleeps; zero for not at all. Context: any.
    fn longest_spin(connection: &Connection<Self>) -> Duration;

    /// A writer has found no room, and has the socket locked. Context: may sleep.
    fn has_no_room(_connection: &Arc<Connection<Self>>) {}

    /// The work item of the set-up runs though data flows by RDMA: TCP has reported something, or the
    /// connection needs a new link. It does not wait for the sock lock. Context: may sleep.
    fn after_setup(_connection: &Arc<Connection<Self>>) {}

    /// The program has closed the socket; `abort` asks for a reset. Context: may sleep.
    fn close(connection: &Arc<Connection<Self>>, abort: bool);

    /// A timer of the stream is due, or its end has something to do.
    /// It does not wait for the sock lock. Context: may sleep.
    fn closing(connection: &Arc<Connection<Self>>);

    /// Frees a stream that is over. Context: may sleep.
    fn release(stream: KBox<Self::Stream>);

    // Administration.

    /// setsockopt at [`Self::LEVEL`]. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT` if the protocol has no such option.
    fn set_option(_sock: &Socket, _opt: &mut SetOpt) -> Result {
        Err(ENOPROTOOPT)
    }

    /// getsockopt at [`Self::LEVEL`]. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT` if the protocol has no such option.
    fn get_option(_sock: &Socket, _opt: &mut GetOpt) -> Result {
        Err(ENOPROTOOPT)
    }

    /// Prints more fields of a connection's row in `/proc`. Context: may sleep.
    fn print(connection: &Connection<Self>, m: &SeqFile);
}

/// What the stream lock of a connection protects.
pub(crate) struct StreamSlot<S: Stream> {
    /// What came before the stream existed.
    pub(crate) early: S::Early,
    /// The time that the timer of the end is armed for.
    pub(crate) armed: Option<Instant>,
    /// The data side, while there is one.
    pub(crate) stream: Option<KBox<S>>,
}

/// The engine's side of a socket.
#[pin_data]
pub(crate) struct Connection<P: Protocol> {
    /// The TCP sock it is the context of.
    pub(crate) sk: ARef<Sock>,
    /// Work queues and the log limit.
    pub(crate) context: Arc<Context>,
    /// Counts of the namespace.
    pub(crate) net: Arc<NetStats>,
    /// The protocol's own part.
    #[pin]
    pub(crate) protocol: P,
    /// Which end it is.
    pub(crate) side: Side,
    /// The [`Mode`], as a number.
    mode: Atomic<u32>,
    /// Why it fell back, as a code of [`Reason`]; 0 if it did not.
    reason: Atomic<u32>,
    /// The peer has asked for that, and the reason is its own.
    by_peer: Atomic<bool>,
    /// Bytes of payload that went over TCP.
    pub(crate) tcp_bytes: Atomic<u64>,
    /// Calls that send and receive by RDMA.
    pub(crate) calls: CallCounts,
    /// The first octets on TCP may be a message of the protocol that is late.
    doubtful: Atomic<bool>,
    /// Runs the set-up.
    #[pin]
    pub(crate) setup_work: Deferred<Connection<P>, SETUP>,
    /// A call of `connect` has returned the outcome, or a SIGIO has announced it. Held while the
    /// signal is sent: as with TCP, none comes for an outcome that the program knows from the call.
    #[pin]
    told: SpinLockBh<bool>,
    /// The sock lock as `setup_work` finds it.
    setup_contention: Contention,
    /// The errno with which `setup_work` must reset the TCP connection, as soon as it gets the sock
    /// lock; 0 if it must not.
    doomed: Atomic<i32>,
    /// The data side.
    #[pin]
    pub(crate) stream: SpinLockBh<StreamSlot<P::Stream>>,
    /// Grows whenever a reader or writer may find something new.
    pub(crate) news: Atomic<u32>,
    /// What the last waits were like.
    pub(crate) spins: Spins,
    /// A writer or poller found no room since the last wake for room. TCP clears its own flag
    /// (`SOCK_NOSPACE`) for room of its own, so it cannot serve for both.
    wants_room: Atomic<bool>,
    /// Runs timers and the end.
    #[pin]
    pub(crate) closing_work: Deferred<Connection<P>, CLOSING>,
    /// The sock lock as `closing_work` finds it.
    closing_contention: Contention,
    /// Sends coalesced data.
    #[pin]
    pub(crate) alarm: Alarm<Connection<P>>,
    /// The socket, while no file has it: before accept, and after close.
    #[pin]
    pub(crate) detached: Mutex<Option<DetachedSocket>>,
    /// As a listener it withholds its offer while many set-ups are under way.
    pub(crate) limits: Atomic<bool>,
    /// Connections ready for accept, of a listener.
    #[pin]
    pub(crate) accepts: Mutex<AcceptQueue>,
    /// The listener that waits for this connection.
    #[pin]
    pub(crate) listener: SpinLockBh<Option<Arc<dyn Listener>>>,
    _module: ModuleRef,
}

impl<P: Protocol> Connection<P> {
    /// Makes a context in [`Mode::Tcp`] and enters it in its namespace's list. As a listener it
    /// `limits` set-ups. Context: may sleep.
    pub(crate) fn new(
        context: &Arc<Context>,
        net: &Arc<NetStats>,
        sk: ARef<Sock>,
        side: Side,
        limits: bool,
        protocol: impl PinInit<P>,
    ) -> Result<Arc<Self>> {
        let module = ModuleRef::new().ok_or(ENODEV)?;
        let empty = StreamSlot {
            early: Default::default(),
            armed: None,
            stream: None,
        };
        let connection = Arc::pin_init(
            pin_init!(Self {
                sk,
                context: context.clone(),
                net: net.clone(),
                protocol <- protocol,
                side,
                mode: Atomic::new(Mode::Tcp.code()),
                reason: Atomic::new(0u32),
                by_peer: Atomic::new(false),
                tcp_bytes: Atomic::new(0u64),
                calls: CallCounts::new(),
                doubtful: Atomic::new(false),
                setup_work <- new_deferred!("rdma_sock_setup_work"),
                told <- new_spinlock_bh!(false, "rdma_sock_told"),
                setup_contention: Contention::new(),
                doomed: Atomic::new(0i32),
                stream <- new_spinlock_bh!(empty, "rdma_sock_stream"),
                news: Atomic::new(0u32),
                spins: Spins::new(),
                wants_room: Atomic::new(false),
                closing_work <- new_deferred!("rdma_sock_closing_work"),
                closing_contention: Contention::new(),
                alarm <- Alarm::new(),
                detached <- new_mutex!(None, "rdma_sock_detached"),
                limits: Atomic::new(limits),
                accepts <- new_mutex!(AcceptQueue::new(), "rdma_sock_accepts"),
                listener <- new_spinlock_bh!(None, "rdma_sock_listener"),
                _module: module,
            }),
            GFP_KERNEL,
        )?;
        connection.net.enter(connection.clone())?;
        Ok(connection)
    }

    /// What the socket is doing. Context: any.
    pub(crate) fn mode(&self) -> Mode {
        // Pairs with the `Release` in `set_mode`.
        Mode::from_code(self.mode.load(Acquire))
    }

    /// Changes the mode. Context: any.
    pub(crate) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode.code(), Release);
        self.show_queue();
    }

    /// Changes the mode if it is still `from`. Context: any.
    pub(crate) fn change_mode(&self, from: Mode, to: Mode) -> bool {
        let changed = self.mode.cmpxchg(from.code(), to.code(), Full).is_ok();
        if changed {
            self.show_queue();
        }
        changed
    }

    /// Whether what comes on TCP is, for sure, data for the program. Context: any.
    pub(crate) fn has_plain_queue(&self) -> bool {
        matches!(self.mode(), Mode::Tcp | Mode::Listening) && !self.is_doubtful()
    }

    /// Keeps TCP's queue from io_uring while it may hold messages of the protocol, or nothing ever.
    /// For the modes that hide, it runs where the sock's own function does.
    fn show_queue(&self) {
        if self.has_plain_queue() {
            self.sk.show_queue()
        } else {
            self.sk.hide_queue()
        }
    }

    /// Whether the protocol is being set up.
    pub(crate) fn is_negotiating(&self) -> bool {
        self.mode() == Mode::Negotiating
    }

    /// Whether `connect` has neither succeeded nor failed yet.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.mode(), Mode::Connecting | Mode::Negotiating)
    }

    /// Whether the first octets on TCP have yet to be looked at. Context: any.
    pub(crate) fn is_doubtful(&self) -> bool {
        // Readers that race inspect the same octets: none is consumed before.
        self.doubtful.load(Relaxed)
    }

    /// Sets whether the first octets on TCP have yet to be looked at. Context: any.
    pub(crate) fn set_doubtful(&self, doubtful: bool) {
        self.doubtful.store(doubtful, Relaxed);
        self.show_queue();
    }

    /// Looks at the first octets if that has to be done. Context: may sleep.
    pub(crate) fn judge_late(&self) {
        if self.is_doubtful() {
            P::judge_first(self);
        }
    }

    /// Asks for a wake when there is room to send. The caller then looks for room again, as it may
    /// have come before. It is in a call of the socket.
    ///
    /// Context: any.
    pub(crate) fn want_room(&self) {
        self.wants_room.store(true, Relaxed);
        self.sk.want_space_signal();
    }

    /// There is room to send: wakes the callers of [`Self::want_room`]. As with TCP, room that was
    /// not missed makes no edge.
    ///
    /// Context: any.
    pub(crate) fn room_came(&self) {
        // The stream lock, taken by both sides in between, orders this after `want_room`.
        if self.wants_room.load(Relaxed) && self.wants_room.xchg(false, Full) {
            self.sk.wake_writable();
        }
    }

    /// Code of the reason for which the connection fell back, 0 if it did not.
    pub(crate) fn reason_code(&self) -> u32 {
        self.reason.load(Relaxed)
    }

    /// Whether the peer has asked for the fallback. Context: any.
    pub(crate) fn is_declined_by_peer(&self) -> bool {
        self.by_peer.load(Relaxed)
    }

    /// From now on the socket is a TCP socket. Counted once. Context: any.
    pub(crate) fn fall_back(&self, reason: Reason) {
        self.fall_back_for(reason, false);
    }

    /// As [`Self::fall_back`]; `by_peer` says that the peer has asked for it. Context: any.
    pub(crate) fn fall_back_for(&self, reason: Reason, by_peer: bool) {
        self.by_peer.store(by_peer, Relaxed);
        self.reason.store(reason.code(), Relaxed);
        self.net.count_fallback(self.side, reason, by_peer);
        P::fell_back(self, reason);
        self.set_mode(Mode::Tcp);
    }

    /// A call of `connect` begins. Context: any.
    pub(crate) fn begin_connect(&self) {
        *self.told.lock() = false;
    }

    /// A call of `connect` returns the outcome of the set-up. Context: any.
    pub(crate) fn end_connect(&self) {
        *self.told.lock() = true;
    }

    /// The set-up of a client is over: wakes pollers and the call that waits in `connect`, and sends SIGIO
    /// if no such call has returned. Context: any.
    pub(crate) fn tell_connected(&self) {
        let mut told = self.told.lock();
        if core::mem::replace(&mut *told, true) {
            self.sk.wake_state();
        } else {
            self.sk.wake_connected();
        }
    }

    /// A client's connection is TCP after all: wakes the call that waits in `connect`.
    /// Context: any.
    pub(crate) fn settle_for_tcp(&self, reason: Reason) {
        self.fall_back(reason);
        self.tell_connected();
    }

    /// A connection that was opened beside TCP is TCP after all: begins to connect to `name`, and
    /// wakes the call that waits in `connect`.
    ///
    /// It does not wait for the sock lock. Context: may sleep. Only the work item of the set-up calls
    /// it, and calls it again after an error.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a program has the sock lock; the work item runs again.
    pub(crate) fn open_tcp(self: &Arc<Self>, name: &OwnedName, reason: Reason) -> Result {
        let Ok(mut sk) = self.sk.try_lock() else {
            self.retry_setup();
            return Err(EBUSY);
        };
        self.setup_locked();
        if let Err(error) = sk.start_connect(name) {
            sk.set_err(error);
        }
        // TCP's state is set before a poll finds the mode.
        self.fall_back(reason);
        drop(sk);
        self.tell_connected();
        Ok(())
    }

    /// Runs the set-up (or a listener's accept queue) soon. Context: any.
    pub(crate) fn kick_setup(self: &Arc<Self>) {
        self.setup_work.kick(self, &self.context.setups);
    }

    /// Runs the set-up at `at`, if it does not run earlier. Context: any.
    pub(crate) fn arm_setup(self: &Arc<Self>, at: Instant) {
        let delay = at.saturating_since(now()).as_nanos();
        self.setup_work
            .arm(self, &self.context.setups, jiffies_from_ns(delay));
    }

    /// Runs what is due at the end of the connection soon. Context: any.
    pub(crate) fn kick_closing(self: &Arc<Self>) {
        self.closing_work.kick(self, &self.context.closings);
    }

    /// Notes that the set-up found the sock lock taken; returns when it tries again.
    ///
    /// Context: any. Only the work item of the set-up calls it.
    pub(crate) fn setup_missed(&self) -> Instant {
        now().saturating_add(self.setup_contention.missed())
    }

    /// Runs the set-up again when the sock lock may be free.
    ///
    /// Context: any. Only that work item calls it.
    pub(crate) fn retry_setup(self: &Arc<Self>) {
        self.arm_setup(self.setup_missed());
    }

    /// Notes that the set-up had the sock lock, or wants it no longer. Context: any.
    pub(crate) fn setup_locked(&self) {
        self.setup_contention.over();
    }

    /// Runs the work item of the end again when the sock lock may be free.
    ///
    /// Context: any. Only that work item calls it.
    pub(crate) fn retry_closing(self: &Arc<Self>) {
        let now = now();
        let at = now.saturating_add(self.closing_contention.missed());
        let mut slot = self.stream.lock();
        if slot.stream.is_some() {
            let at = earliest(slot.armed, Some(at)).unwrap_or(at);
            slot.armed = Some(at);
            let delay = at.saturating_since(now).as_nanos();
            // With the lock held: the timer is what `armed` says.
            self.closing_work
                .arm(self, &self.context.closings, jiffies_from_ns(delay));
        }
    }

    /// Notes that the work item of the end had the sock lock. Context: any.
    pub(crate) fn closing_locked(&self) {
        self.closing_contention.over();
    }

    /// Kicks the work items that found the sock locked. A call of the program that had the lock calls
    /// it at its end.
    ///
    /// Context: any.
    pub(crate) fn unlocked(self: &Arc<Self>) {
        if self.setup_contention.is_missed() {
            self.kick_setup();
        }
        if self.closing_contention.is_missed() {
            self.kick_closing();
        }
    }

    /// Whether the TCP connection waits for its reset. Context: any.
    pub(crate) fn is_doomed(&self) -> bool {
        self.doomed.load(Relaxed) != 0
    }

    /// Resets the TCP connection of a client; the mode stays until that is done.
    ///
    /// Context: may sleep. It does not wait for the sock lock.
    pub(crate) fn doom(self: &Arc<Self>, error: Error) {
        self.doomed.store(error.to_errno(), Relaxed);
        self.reset_doomed();
    }

    /// Resets the TCP connection if it is doomed, as soon as the sock lock is free.
    ///
    /// Context: may sleep. It does not wait for the sock lock.
    pub(crate) fn reset_doomed(self: &Arc<Self>) {
        let Ok(mut sk) = self.sk.try_lock() else {
            return self.retry_setup();
        };
        self.setup_locked();
        let errno = self.doomed.xchg(0, Relaxed);
        // A call that cancels the set-up may have taken over.
        if errno == 0 {
            return;
        }
        let has_ended = self.sk.tcp_state() == TcpState::Close;
        self.set_mode(Mode::Tcp);
        sk.abort(Error::from_errno(errno));
        if has_ended {
            // The peer was quicker. Its reset has woken nothing, and the set-up has read the error.
            sk.set_missing_err(ECONNRESET);
            drop(sk);
            self.sk.wake_state();
        }
    }

    /// The user closes the socket while the set-up runs, or its listener goes away. Waits for the
    /// work item of the set-up. Returns whether it broke off a dialogue that the peer goes on with,
    /// so that TCP cannot be used. Context: may sleep.
    pub(crate) fn cancel_setup(self: &Arc<Self>) -> bool {
        self.set_mode(Mode::Tcp);
        self.cancel_setup_work();
        let broken_off = P::cancel(self);
        let doomed = self.doomed.xchg(0, Relaxed) != 0;
        broken_off || doomed
    }

    /// Cancels the work item of the set-up, and waits for its end if it runs. Context: may sleep.
    pub(crate) fn cancel_setup_work(&self) {
        self.setup_work.cancel_sync();
    }

    /// Takes the connection out of the namespace's list and ends what is left of it. Called once,
    /// when the socket is closed and its stream is over. Context: may sleep.
    pub(crate) fn finish(self: &Arc<Self>) {
        // A timer that is still armed would only keep the object and the module.
        self.closing_work.cancel();
        self.setup_work.cancel();
        self.end_stream();
        self.net.leave(&**self);
        let detached = self.detached.lock().take();
        drop(detached);
    }

    /// Frees the stream, if there is one, which is over. Context: may sleep.
    pub(crate) fn end_stream(&self) {
        let take = || {
            let stream = self.stream.lock().stream.take()?;
            let traffic = stream.traffic();
            Some((stream, traffic))
        };
        if let Some(stream) = self.net.end(take) {
            P::release(stream);
        }
    }

    /// Whether a program has the socket: it was accepted, and is not closed. Context: may sleep.
    pub(crate) fn has_file(&self) -> bool {
        // A close that lingers has the lock.
        let detached = self.detached.try_lock();
        detached.is_some_and(|detached| detached.is_none())
    }

    /// Ends what is left of a connection whose stream is over, or tries again later: a close that lingers
    /// has the detached socket, and so has a listing for a moment.
    ///
    /// Context: may sleep. Only the work item of the end calls it.
    pub(crate) fn finish_unless_it_lingers(self: &Arc<Self>) {
        let detached = self.detached.try_lock();
        if detached.is_some() {
            drop(detached);
            self.finish();
        } else {
            self.retry_closing();
        }
    }
}

impl<P: Protocol> TcpEvents for Connection<P> {
    fn data_ready(this: ArcBorrow<'_, Self>) -> Wake {
        if this.mode() == Mode::Tcp {
            return Wake::Default;
        }
        // The work item looks: at a message, a child, a FIN or unexpected payload.
        Arc::from(this).kick_setup();
        Wake::Suppress
    }

    fn state_change(this: ArcBorrow<'_, Self>) -> Wake {
        match this.mode() {
            Mode::Tcp | Mode::Listening => Wake::Default,
            Mode::Connecting => {
                if this.sk.tcp_state() == TcpState::Close {
                    // TCP itself failed, and reports it.
                    this.change_mode(Mode::Connecting, Mode::Tcp);
                    return Wake::Default;
                }
                Arc::from(this).kick_setup();
                Wake::Suppress
            }
            Mode::Negotiating => {
                Arc::from(this).kick_setup();
                Wake::Suppress
            }
            Mode::Stream => {
                Arc::from(this).kick_setup();
                Wake::Default
            }
        }
    }

    fn error_report(this: ArcBorrow<'_, Self>) -> Wake {
        Self::state_change(this)
    }

    fn write_space(this: ArcBorrow<'_, Self>) -> Wake {
        match this.mode() {
            // Room of the idle TCP connection is no room for its user.
            Mode::Connecting | Mode::Stream => Wake::Suppress,
            Mode::Negotiating => {
                Arc::from(this).kick_setup();
                Wake::Suppress
            }
            Mode::Tcp | Mode::Listening => Wake::Default,
        }
    }
}
