// SPDX-License-Identifier: GPL-2.0

//! A socket as the engine sees it: what it is doing, and the pieces of each stage.
//!
//! The object is the context of a TCP sock (see `kapi::net::events`), made at the first connect or
//! listen. Its mode decides what answers a socket call: the TCP stack for [`Mode::Tcp`], this
//! engine for the others. A connection that fell back is a TCP socket and nothing else.

use super::{
    accept_queue::AcceptQueue,
    conn::data::{
        DataSlot,
        Trigger, //
    },
    contention::Contention,
    context::now,
    engine::Engine,
    handshake::state::{
        Handshake,
        Mail, //
    },
    stats::{
        NetState,
        Side, //
    },
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
                Deferred,
                Run, //
            },
        },
        compat::errno::{
            ECONNABORTED,
            ECONNRESET, //
        },
        net::{
            events::{
                TcpEvents,
                Wake, //
            },
            sock::{
                Sock,
                TcpState, //
            },
            socket::DetachedSocket, //
        },
    },
    proto::{
        base::time::earliest,
        smc::{
            cdc::{
                Ending,
                Error as CoreError,
                Tcp,
                TcpFound, //
            },
            clc::LlcOutcome, //
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

/// Work item of the handshake and of the accept queue.
pub(crate) const HANDSHAKE: u64 = 0;
/// Work item of timers and of the end of a connection.
pub(crate) const CLOSING: u64 = 1;

/// The part that answers a socket call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The TCP stack: nothing asked for yet, fallen back, or over.
    Tcp,
    /// `connect` is under way in TCP, with the option on the SYN.
    Connecting,
    /// TCP is established; CLC and LLC messages flow.
    Negotiating,
    /// Data flows by RDMA.
    Smc,
    /// A listener.
    Listening,
}

impl Mode {
    const fn code(self) -> u32 {
        match self {
            Self::Tcp => 0,
            Self::Connecting => 1,
            Self::Negotiating => 2,
            Self::Smc => 3,
            Self::Listening => 4,
        }
    }

    const fn from_code(code: u32) -> Self {
        match code {
            1 => Self::Connecting,
            2 => Self::Negotiating,
            3 => Self::Smc,
            4 => Self::Listening,
            _ => Self::Tcp,
        }
    }

    /// Text for `/proc`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Connecting | Self::Negotiating => "pending",
            Self::Smc => "smc",
            Self::Listening => "listen",
        }
    }
}

/// The engine's side of a socket.
#[pin_data]
pub(crate) struct Connection {
    /// The TCP sock it is the context of.
    pub(crate) sk: ARef<Sock>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) net: Arc<NetState>,
    /// Which end it is.
    pub(crate) side: Side,
    mode: Atomic<u32>,
    /// Why it fell back, as a code of `proto::reason`; 0 if it did not.
    reason: Atomic<u32>,
    /// Payload that went over TCP.
    pub(crate) tcp_bytes: Atomic<u64>,
    /// What comes first on TCP may be a Proposal that is late, see `late.rs`.
    pub(super) doubtful: Atomic<bool>,
    /// The handshake, while there is one. Taken first of all locks.
    #[pin]
    pub(super) handshake: Mutex<Option<KBox<Handshake>>>,
    #[pin]
    pub(super) mail: SpinLockBh<Mail>,
    #[pin]
    pub(super) handshake_work: Deferred<Connection, HANDSHAKE>,
    /// The sock lock as `handshake_work` finds it.
    pub(super) handshake_contention: Contention,
    /// The errno with which `handshake_work` must reset the TCP connection, as soon as it gets the
    /// sock lock; 0 if it must not.
    pub(super) doomed: Atomic<i32>,
    /// The data path. See `data.rs`.
    #[pin]
    pub(crate) data: SpinLockBh<DataSlot>,
    /// Grows whenever a reader may find something new.
    pub(super) news: Atomic<u32>,
    /// A writer or poller found no room since the last wake for room. TCP clears its own flag
    /// (`SOCK_NOSPACE`) for room of its own, so it cannot serve for both.
    wants_room: Atomic<bool>,
    #[pin]
    pub(super) work: Deferred<Connection, CLOSING>,
    /// The sock lock as `work` finds it.
    pub(super) closing_contention: Contention,
    /// Ends the gathering of small pieces.
    #[pin]
    pub(super) alarm: Alarm<Connection>,
    /// The socket, while no file has it: before accept, and after close.
    #[pin]
    pub(super) detached: Mutex<Option<DetachedSocket>>,
    /// As a listener it withholds the offer of SMC-R while many handshakes are under way.
    pub(super) limits: Atomic<bool>,
    /// Connections ready for accept, of a listener.
    #[pin]
    pub(super) accepts: Mutex<AcceptQueue<Connection>>,
    /// The listener that waits for this connection.
    #[pin]
    pub(super) listener: SpinLockBh<Option<Arc<Connection>>>,
    _module: ModuleRef,
}

impl Connection {
    /// Makes a context in [`Mode::Tcp`] and enters it in its namespace's list. Context: may sleep.
    pub(crate) fn new(engine: &Arc<Engine>, sk: ARef<Sock>, side: Side) -> Result<Arc<Self>> {
        let net = engine.nets.state(sk.net_cookie())?;
        let module = ModuleRef::new().ok_or(ENODEV)?;
        let limits = net.settings.limits_handshakes();
        let connection = Arc::pin_init(
            pin_init!(Self {
                sk,
                engine: engine.clone(),
                net,
                side,
                mode: Atomic::new(Mode::Tcp.code()),
                reason: Atomic::new(0u32),
                tcp_bytes: Atomic::new(0u64),
                doubtful: Atomic::new(false),
                handshake <- new_mutex!(None, "rdma_sock_handshake"),
                mail <- new_spinlock_bh!(Mail::new(), "rdma_sock_mail"),
                handshake_work <- new_deferred!("rdma_sock_handshake_work"),
                handshake_contention: Contention::new(),
                doomed: Atomic::new(0i32),
                data <- new_spinlock_bh!(
                    DataSlot { early: None, data: None },
                    "rdma_sock_data",
                ),
                news: Atomic::new(0u32),
                wants_room: Atomic::new(false),
                work <- new_deferred!("rdma_sock_connection_work"),
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

    /// Whether what comes on TCP is, for sure, data for the program.
    pub(super) fn has_plain_queue(&self) -> bool {
        matches!(self.mode(), Mode::Tcp | Mode::Listening) && !self.is_doubtful()
    }

    /// Keeps TCP's queue from io_uring while it may hold messages of the handshake, or nothing ever.
    /// For the modes that hide, it runs where the sock's own function does.
    pub(super) fn show_queue(&self) {
        match self.has_plain_queue() {
            true => self.sk.show_queue(),
            false => self.sk.hide_queue(),
        }
    }

    /// Whether SMC-R is being negotiated.
    pub(crate) fn is_negotiating(&self) -> bool {
        self.mode() == Mode::Negotiating
    }

    /// Whether `connect` has neither succeeded nor failed yet.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.mode(), Mode::Connecting | Mode::Negotiating)
    }

    /// Asks for a wake when there is room to send. The caller then looks for room again, as it may
    /// have come before. It is in a call of the socket.
    ///
    /// Context: any.
    pub(super) fn want_room(&self) {
        self.wants_room.store(true, Relaxed);
        self.sk.want_space_signal();
    }

    /// There is room to send: wakes the callers of [`Self::want_room`]. As with TCP, room that was
    /// not missed makes no edge.
    ///
    /// Context: any.
    pub(super) fn room_came(&self) {
        // The lock of the core, taken by both sides in between, orders this after `want_room`.
        if self.wants_room.load(Relaxed) && self.wants_room.xchg(false, Full) {
            self.sk.wake_writable();
        }
    }

    /// Code of the reason for which the connection fell back, 0 if it did not.
    pub(crate) fn reason_code(&self) -> u32 {
        self.reason.load(Relaxed)
    }

    /// From now on the socket is a TCP socket. Counted once. Context: any.
    pub(crate) fn fall_back(&self, reason: Reason) {
        self.reason.store(reason.code(), Relaxed);
        self.net.count_fallback(self.side, reason);
        self.set_mode(Mode::Tcp);
    }

    /// Runs the handshake (or a listener's accept queue) soon. Context: any.
    pub(crate) fn kick_handshake(self: &Arc<Self>) {
        self.handshake_work
            .kick(self, &self.engine.context.handshakes);
    }

    /// Runs what is due at the end of the connection soon. Context: any.
    pub(crate) fn kick_closing(self: &Arc<Self>) {
        self.work.kick(self, &self.engine.context.closings);
    }

    /// The LLC side of first contact has come to an end. Context: any.
    pub(crate) fn llc_outcome(self: &Arc<Self>, outcome: LlcOutcome) {
        self.mail.lock().llc = Some(outcome);
        self.kick_handshake();
    }

    /// Runs the work item of the handshake again when the sock lock may be free.
    ///
    /// Context: any. Only that work item calls it.
    pub(super) fn retry_handshake(self: &Arc<Self>) {
        let delay = jiffies_from_ns(self.handshake_contention.missed().as_nanos());
        self.handshake_work
            .arm(self, &self.engine.context.handshakes, delay);
    }

    /// Runs the work item of the end again when the sock lock may be free.
    ///
    /// Context: any. Only that work item calls it.
    pub(super) fn retry_closing(self: &Arc<Self>) {
        let now = now();
        let at = now.saturating_add(self.closing_contention.missed());
        let mut slot = self.data.lock();
        if let Some(data) = slot.data.as_mut() {
            let at = earliest(data.armed, Some(at)).unwrap_or(at);
            data.armed = Some(at);
            let delay = at.saturating_since(now).as_nanos();
            // With the lock held: the timer is what `armed` says.
            self.work
                .arm(self, &self.engine.context.closings, jiffies_from_ns(delay));
        }
    }

    /// Kicks the work items that found the sock locked. A call of the program that had the lock calls
    /// it at its end.
    ///
    /// Context: any.
    pub(super) fn unlocked(self: &Arc<Self>) {
        if self.handshake_contention.is_missed() {
            self.kick_handshake();
        }
        if self.closing_contention.is_missed() {
            self.kick_closing();
        }
    }

    /// Ends the connection's SMC side: releases everything it holds of the group.
    ///
    /// Context: may sleep.
    fn release_data(self: &Arc<Self>) {
        let take = || {
            let data = self.data.lock().data.take()?;
            let counters = data.counters;
            Some((data, counters))
        };
        let Some(mut data) = self.net.end(take) else {
            return;
        };
        let known = data.group.tokens.lock().remove(data.token);
        drop(known);
        if let Some(binding) = data.binding.take() {
            if !data.core.is_forced() {
                binding.rmbe.retire();
            }
        }
        let group = data.group.clone();
        drop(data);
        group.connection_left();
    }

    /// Releases the parts of the device after the link is lost; received data stays.
    ///
    /// Context: may sleep.
    fn release_device(self: &Arc<Self>) {
        let binding = {
            let mut slot = self.data.lock();
            slot.data
                .as_mut()
                .filter(|data| data.group.phase() == super::group::link_group::Phase::Dead)
                .and_then(|data| data.binding.take())
        };
        drop(binding);
    }

    /// Takes the connection out of the namespace's list and ends what is left of it. Called once,
    /// when the socket is closed and the SMC side is over. Context: may sleep.
    pub(crate) fn finish(self: &Arc<Self>) {
        // A timer that is still armed would only keep the object and the module.
        self.work.cancel();
        self.handshake_work.cancel();
        self.release_data();
        self.net.leave(&**self);
        let detached = self.detached.lock().take();
        drop(detached);
    }
}

impl Run<CLOSING> for Connection {
    fn run(this: Arc<Self>) {
        let found = this.update_in(Trigger::Closing, |data, now| {
            data.armed = None;
            let violation = data.core.handle_timeout(now).err();
            let idle = data.keepalive.handle_timeout(now);
            (data.core.poll_ending(), violation, idle)
        });
        let Some(((ending, violation, idle), _)) = found else {
            return;
        };
        if let Some(violation) = violation {
            this.report(violation);
        }
        this.move_if_idle();
        this.release_device();
        if ending.silent {
            // The peer may be gone with its link.
            if let Some(group) = this.look(|data| data.group.clone()) {
                group.test_links();
            }
        }
        if let Some(idle) = idle {
            this.check_link(idle);
        }
        if this.end_tcp(&ending).is_err() {
            return this.retry_closing();
        }
        this.closing_contention.over();
        this.report_error(&ending);
        if ending.released {
            this.finish_unless_it_lingers();
        }
    }
}

impl TcpEvents for Connection {
    fn data_ready(this: ArcBorrow<'_, Self>) -> Wake {
        match this.mode() {
            Mode::Tcp => Wake::Default,
            Mode::Connecting | Mode::Negotiating | Mode::Listening => {
                Arc::from(this).kick_handshake();
                Wake::Suppress
            }
            // A FIN or unexpected payload: the work item looks.
            Mode::Smc => {
                let this: Arc<Self> = this.into();
                this.tcp_event();
                Wake::Suppress
            }
        }
    }

    fn state_change(this: ArcBorrow<'_, Self>) -> Wake {
        match this.mode() {
            Mode::Tcp | Mode::Listening => Wake::Default,
            Mode::Connecting => {
                if this.sk.tcp_state() == TcpState::Close {
                    // TCP itself failed, and tells.
                    this.change_mode(Mode::Connecting, Mode::Tcp);
                    return Wake::Default;
                }
                Arc::from(this).kick_handshake();
                Wake::Suppress
            }
            Mode::Negotiating => {
                Arc::from(this).kick_handshake();
                Wake::Suppress
            }
            Mode::Smc => {
                let this: Arc<Self> = this.into();
                this.tcp_event();
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
            Mode::Connecting | Mode::Smc => Wake::Suppress,
            Mode::Negotiating => {
                Arc::from(this).kick_handshake();
                Wake::Suppress
            }
            Mode::Tcp | Mode::Listening => Wake::Default,
        }
    }
}

impl Connection {
    /// Something happened on the idle TCP connection below SMC-R. Interrupts are off here.
    fn tcp_event(self: &Arc<Self>) {
        self.kick_handshake();
    }

    /// Takes the step of the idle TCP connection that is due.
    ///
    /// It does not wait for the sock lock. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a program has the sock lock; nothing is done then.
    fn end_tcp(&self, ending: &Ending) -> Result {
        let Some(tcp) = ending.tcp else {
            return Ok(());
        };
        let mut sk = self.sk.try_lock()?;
        match tcp {
            Tcp::Keep => {}
            Tcp::Fin => sk.shutdown_send(),
            Tcp::Reset => {
                let error = ending.error.map(errno);
                sk.abort(error.unwrap_or(ECONNRESET));
                if let Some(error) = error {
                    // TCP may have ended in order before.
                    sk.set_missing_err(error);
                }
            }
        }
        // With the lock, so that `watch_tcp` never takes the end for the peer's.
        if let Some(data) = self.data.lock().data.as_mut() {
            data.core.handle_tcp_done(tcp);
        }
        Ok(())
    }

    /// Tells the core that the sock has the error, if it has, and wakes all sleepers.
    ///
    /// Context: any.
    fn report_error(&self, ending: &Ending) {
        if ending.error.is_none() {
            return;
        }
        let closed = self.sk.tcp_state() == TcpState::Close;
        let reported = match self.data.lock().data.as_mut() {
            Some(data) => data.core.report_error(closed).is_some(),
            None => false,
        };
        if reported {
            self.sk.wake_state();
        }
    }

    /// Ends what is left of a released connection. A close that lingers has the detached, and kicks
    /// the work item at its end.
    ///
    /// Context: may sleep.
    fn finish_unless_it_lingers(self: &Arc<Self>) {
        let detached = self.detached.try_lock();
        if detached.is_some() {
            drop(detached);
            self.finish();
        }
    }

    /// Looks at the idle TCP connection (`SMCR-TCR-03..09`).
    ///
    /// It does not wait for the sock lock. Context: may sleep.
    pub(super) fn watch_tcp(self: &Arc<Self>) {
        let found = {
            // While a segment is processed, its FIN looks like an octet of payload.
            let Ok(sk) = self.sk.try_lock() else {
                return self.retry_handshake();
            };
            match sk.tcp_state() {
                TcpState::Close => TcpFound::Closed {
                    error: sk.err() != 0,
                },
                TcpState::CloseWait | TcpState::LastAck | TcpState::Closing => TcpFound::Fin,
                _ => TcpFound::Open {
                    payload: sk.unread() != 0,
                },
            }
        };
        self.handshake_contention.over();
        let _ = self.update(|data, now| data.core.handle_tcp(now, found));
    }
}

/// The errno of an error the core latched.
pub(crate) fn errno(error: CoreError) -> Error {
    match error {
        CoreError::Reset => ECONNRESET,
        CoreError::Pipe => EPIPE,
        CoreError::Aborted => ECONNABORTED,
        CoreError::TimedOut => ETIMEDOUT,
    }
}
