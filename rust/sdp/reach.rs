// SPDX-License-Identifier: GPL-2.0

//! What a network namespace knows of services of other hosts, and the inquiries about them.
//!
//! A connection asks. If the answer is not known the connection waits, and an [`Inquiry`] asks the
//! Port Mapper of the host by a socket of its own, which is connected: ICMP errors come to it, and
//! datagrams of other hosts do not. The inquiry has a work item for all of that. At its end the table
//! keeps the outcome, and the connections get their answers. The core decides: `proto::sdp::pm::reach`
//! what is known, `proto::sdp::pm::inquiry` what connections wait for.
//!
//! Everything that changes is behind one spinlock, which is not held across calls of sockets, of
//! waiters, or of the kernel's allocator.
//!
//! The end ([`ReachTable::close`]): new questions get TCP for an answer; the inquiries leave the
//! table, their sockets are dropped, their work items have ended; the connections that waited get TCP.

use super::addr::{
    from_pm,
    to_pm, //
};
use crate::{
    kapi::{
        base::{
            module::random_u32,
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
            ECONNREFUSED,
            ENETDOWN,
            ENOBUFS, //
        },
        net::{
            addr::Addr,
            netns::Net,
            sock::Family,
            udp::{
                UdpEvents,
                UdpNet,
                UdpSocket, //
            },
        },
    },
    proto::{
        base::time::Instant,
        sdp::pm::{
            client::{
                PmOutcome,
                PmTimers, //
            },
            inquiry::{
                InquiryStep,
                PmInquiry,
                ReachAnswer, //
            },
            msg::{
                PmAddr,
                PmMessage,
                PORT, //
            },
            reach::{
                HostEntry,
                Reach,
                ReachAdvice,
                ServiceEntry, //
            },
        }, //
    },
    sock::context::{
        now,
        Context, //
    },
};
use core::net::IpAddr;
use kernel::{
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

/// Datagrams that one run handles.
const BUDGET: usize = 16;

/// Octets of a datagram that are looked at.
const ROOM: usize = 64;

/// A connection that waits for an answer.
pub(crate) trait ReachWaiter: Send + Sync + 'static {
    /// The answer to [`ReachTable::ask`]: where to connect to by SDP, or `None` for TCP. Called once
    /// for each time that `ask` returned [`Known::Asking`].
    ///
    /// Called by a work item or by [`ReachTable::close`], with no lock held. Context: may sleep. It
    /// must not wait for a peer or a program; an implementation keeps the answer and kicks its own
    /// work item.
    fn answered(self: &Arc<Self>, at: Option<Addr>);

    /// The host has not answered for as long as a connection waits: TCP. Called in the place of
    /// [`Self::answered`].
    fn not_answered(self: &Arc<Self>) {
        self.answered(None);
    }
}

/// What is known of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It is there by SDP.
    Sdp(Addr),
    /// It is not, or nothing is known and asking makes no sense.
    Tcp,
    /// [`ReachWaiter::answered`] gives the answer.
    Asking,
}

/// Parameters of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReachParams {
    /// UDP port of the Port Mappers of other hosts (SDP-PMF-20).
    pub(crate) port: u16,
    /// SDP has other ports than TCP, as over iWARP: a host that speaks SDP is asked for each service.
    pub(crate) maps_ports: bool,
    /// How an inquiry asks, and for how long connections wait.
    pub(crate) timers: PmTimers,
    /// Hosts that are remembered.
    pub(crate) hosts: usize,
    /// Services that are remembered.
    pub(crate) services: usize,
    /// Inquiries at a time, each with a socket.
    pub(crate) inquiries: usize,
    /// Connections that wait at a time.
    pub(crate) waiters: usize,
}

impl ReachParams {
    /// For RoCE and InfiniBand.
    pub(crate) const DEFAULT: Self = Self {
        port: PORT,
        maps_ports: false,
        timers: PmTimers::DEFAULT,
        hosts: 512,
        services: 512,
        inquiries: 64,
        waiters: 512,
    };
}

/// A connection that waits.
struct Waiting<W: ReachWaiter> {
    inquiry: Arc<Inquiry<W>>,
    question: Question,
    waiter: Arc<W>,
}

/// What a connection asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Question {
    service: PmAddr,
    /// Address and port of the connection; the address may be unspecified.
    client: PmAddr,
}

/// An inquiry in the table.
struct Running<W: ReachWaiter> {
    inquiry: Arc<Inquiry<W>>,
    core: PmInquiry,
    /// From the first run on.
    socket: Option<Arc<UdpSocket<Inquiry<W>>>>,
}

type Cache = Reach<KVVec<Option<HostEntry>>, KVVec<Option<ServiceEntry>>>;

struct ReachState<W: ReachWaiter> {
    cache: Cache,
    /// Has room for all that there may be, as `waiting`.
    running: KVVec<Running<W>>,
    waiting: KVVec<Waiting<W>>,
    /// Handle of the next transaction (SDP-PMC-07).
    handle: u64,
    /// For new sockets; `None` after the end.
    net: Option<Arc<UdpNet>>,
}

/// What a namespace knows, and its inquiries.
#[pin_data]
pub(crate) struct ReachTable<W: ReachWaiter> {
    context: Arc<Context>,
    params: ReachParams,
    #[pin]
    state: SpinLockBh<ReachState<W>>,
}

/// A question to the Port Mapper of a host.
#[pin_data]
pub(crate) struct Inquiry<W: ReachWaiter> {
    table: Arc<ReachTable<W>>,
    question: Question,
    #[pin]
    work: Deferred<Self>,
}

/// What became of a question.
enum Decision {
    Known(Known),
    /// A new inquiry was begun.
    Begun,
    /// It takes a new inquiry.
    Missing,
}

impl<W: ReachWaiter> ReachTable<W> {
    /// A table that knows nothing, whose inquiries run on `context.setups`. Context: may sleep.
    ///
    /// [`Self::close`] must be called before the `NetOps::exit` of `net` returns.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        net: &Net,
        context: &Arc<Context>,
        params: &ReachParams,
    ) -> Result<Arc<Self>> {
        let hosts = KVVec::from_elem(None, params.hosts, GFP_KERNEL)?;
        let services = KVVec::from_elem(None, params.services, GFP_KERNEL)?;
        let state = ReachState {
            cache: Reach::new(hosts, services),
            running: KVVec::with_capacity(params.inquiries, GFP_KERNEL)?,
            waiting: KVVec::with_capacity(params.waiters, GFP_KERNEL)?,
            handle: (u64::from(random_u32()) << 32) | u64::from(random_u32()),
            net: Some(UdpNet::new(net)?),
        };
        Arc::pin_init(
            pin_init!(Self {
                context: context.clone(),
                params: *params,
                state <- new_spinlock_bh!(state, "rdma_sock_reach"),
            }),
            GFP_KERNEL,
        )
    }

    /// Asks where `service` is by SDP, for a connection from `client`, whose port is bound
    /// (SDP-PMC-14) and whose address may be unspecified.
    ///
    /// `waiter` is kept until it was answered: after `timers.patience` if the host is not known, at
    /// the end of the transaction if it is known to speak SDP, or at the end of the table.
    /// Context: may sleep. It does not wait.
    pub(crate) fn ask(self: &Arc<Self>, service: &Addr, client: &Addr, waiter: &Arc<W>) -> Known {
        // An address of one link cannot be asked for, and a client must be of the same IP version.
        let (Some(service), Some(client)) = (to_pm(service), to_pm(client)) else {
            return Known::Tcp;
        };
        if service.ip.is_ipv4() != client.ip.is_ipv4() && !client.ip.is_unspecified() {
            return Known::Tcp;
        }
        self.ask_for(Question { service, client }, waiter)
    }

    fn ask_for(self: &Arc<Self>, question: Question, waiter: &Arc<W>) -> Known {
        match self.decide(question, waiter, None) {
            Decision::Known(known) => return known,
            Decision::Begun | Decision::Missing => {}
        }
        let Ok(inquiry) = Inquiry::new(self, question) else {
            return Known::Tcp;
        };
        match self.decide(question, waiter, Some(&inquiry)) {
            Decision::Known(known) => known,
            Decision::Begun => {
                inquiry.kick();
                Known::Asking
            }
            // Not without an inquiry at hand.
            Decision::Missing => Known::Tcp,
        }
    }

    /// Answers a question, or adds the waiter to an inquiry: one that is there, or `fresh`.
    fn decide(
        &self,
        question: Question,
        waiter: &Arc<W>,
        fresh: Option<&Arc<Inquiry<W>>>,
    ) -> Decision {
        let now = now();
        let state = &mut *self.state.lock();
        if state.net.is_none() {
            return Decision::Known(Known::Tcp);
        }
        let service = question.service;
        match state.cache.advise(now, service, self.params.maps_ports) {
            ReachAdvice::Connect(at) => return Decision::Known(Known::Sdp(from_pm(at))),
            ReachAdvice::Tcp => return Decision::Known(Known::Tcp),
            ReachAdvice::Ask => {}
        }
        let mut running = state.running.iter();
        if let Some(running) = running.find(|running| running.core.covers(service)) {
            let inquiry = running.inquiry.clone();
            let joins = running.core.is_waited_for()
                && self.add_waiter(&mut state.waiting, inquiry, question, waiter);
            return Decision::Known(if joins { Known::Asking } else { Known::Tcp });
        }
        if state.running.len() >= self.params.inquiries {
            return Decision::Known(Known::Tcp);
        }
        let Some(fresh) = fresh else {
            return Decision::Missing;
        };
        if !self.add_waiter(&mut state.waiting, fresh.clone(), question, waiter) {
            return Decision::Known(Known::Tcp);
        }
        let is_speaking = state.cache.is_speaking(now, service.ip);
        let running = Running {
            inquiry: fresh.clone(),
            core: PmInquiry::new(now, self.params.timers, service, is_speaking),
            socket: None,
        };
        // There is room, as was just seen.
        let _ = state.running.push_within_capacity(running);
        Decision::Begun
    }

    /// Adds a waiter if there is room.
    fn add_waiter(
        &self,
        waiting: &mut KVVec<Waiting<W>>,
        inquiry: Arc<Inquiry<W>>,
        question: Question,
        waiter: &Arc<W>,
    ) -> bool {
        let entry = Waiting {
            inquiry,
            question,
            waiter: waiter.clone(),
        };
        // What does not fit is dropped here, and the caller has a reference to each part.
        waiting.len() < self.params.waiters && waiting.push_within_capacity(entry).is_ok()
    }

    /// What is known of `service`, without a question to its host: `None` for nothing. Context: any.
    pub(crate) fn known(&self, service: &Addr) -> Option<Known> {
        let service = to_pm(service)?;
        let state = self.state.lock();
        match state.cache.advise(now(), service, self.params.maps_ports) {
            ReachAdvice::Connect(at) => Some(Known::Sdp(from_pm(at))),
            ReachAdvice::Tcp => Some(Known::Tcp),
            ReachAdvice::Ask => None,
        }
    }

    /// A connection by SDP with this host came about. Context: any.
    pub(crate) fn note_spoke(&self, host: &Addr) {
        if let Some(host) = to_pm(host) {
            let mut state = self.state.lock();
            state.cache.handle_sign_of_life(now(), host.ip);
        }
    }

    /// The last time that a connection by SDP with this host came about, as far as is known. Context: any.
    pub(crate) fn last_sign(&self, host: &Addr) -> Option<Instant> {
        self.state.lock().cache.last_sign(to_pm(host)?.ip)
    }

    /// A connection by SDP to `service` failed (SDP-PMC-10, SDP-PMCS-9). `service` is as it was asked
    /// for. Context: any.
    pub(crate) fn note_failed(&self, service: &Addr) {
        if let Some(service) = to_pm(service) {
            let mut state = self.state.lock();
            state.cache.handle_failure(now(), service);
        }
    }

    /// A host has asked our Port Mapper: if it was silent, it is worth asking again. Context: any.
    pub(crate) fn note_asked(&self, host: IpAddr) {
        self.state.lock().cache.handle_asked(host);
    }

    /// Addresses or devices of this host have changed. Context: any.
    pub(crate) fn forget_all(&self) {
        self.state.lock().cache.forget_all();
    }

    /// Ends the inquiries. All that wait get TCP for an answer, and so do later questions.
    ///
    /// After return no socket of the table is open. Context: may sleep. Not for a work item of the
    /// queue.
    pub(crate) fn close(&self) {
        let net = self.state.lock().net.take();
        // Each inquiry, as the memory of the list cannot be freed under the lock.
        while let Some(running) = self.pop_running() {
            drop(running.socket);
            running.inquiry.work.cancel_sync();
        }
        while let Some(waiting) = self.pop_waiting() {
            waiting.waiter.answered(None);
        }
        drop(net);
    }

    fn pop_running(&self) -> Option<Running<W>> {
        self.state.lock().running.pop()
    }

    fn pop_waiting(&self) -> Option<Waiting<W>> {
        self.state.lock().waiting.pop()
    }

    /// The first connection that waits for an inquiry.
    fn take_waiter(&self, inquiry: &Arc<Inquiry<W>>) -> Option<Waiting<W>> {
        let waiting = &mut self.state.lock().waiting;
        let mut entries = waiting.iter();
        let at = entries.position(|entry| Arc::ptr_eq(&entry.inquiry, inquiry))?;
        waiting.remove(at).ok()
    }

    /// The connections that wait for an inquiry use TCP.
    fn release(&self, inquiry: &Arc<Inquiry<W>>) {
        while let Some(waiting) = self.take_waiter(inquiry) {
            waiting.waiter.not_answered();
        }
    }

    /// An inquiry is over.
    fn finish(self: &Arc<Self>, inquiry: &Arc<Inquiry<W>>, outcome: &PmOutcome) {
        let asked = inquiry.question.service;
        let gone = {
            let state = &mut *self.state.lock();
            let mut running = state.running.iter();
            let at = running.position(|running| Arc::ptr_eq(&running.inquiry, inquiry));
            let gone = at.and_then(|at| state.running.remove(at).ok());
            if gone.is_some() {
                state.cache.handle_outcome(now(), asked, outcome);
            }
            gone
        };
        // With its socket, which takes a while.
        drop(gone);
        let mut is_first = true;
        while let Some(waiting) = self.take_waiter(inquiry) {
            let service = waiting.question.service;
            let answer = outcome.answer(asked, service, is_first);
            is_first &= service != asked;
            let at = match answer {
                ReachAnswer::Sdp(at) => Some(from_pm(at)),
                ReachAnswer::Tcp => None,
                ReachAnswer::AskAgain => match self.ask_for(waiting.question, &waiting.waiter) {
                    Known::Sdp(at) => Some(at),
                    Known::Tcp => None,
                    Known::Asking => continue,
                },
            };
            waiting.waiter.answered(at);
        }
    }

    /// Runs `f` on the core of an inquiry, if it is not over.
    fn with<R>(
        &self,
        inquiry: &Arc<Inquiry<W>>,
        f: impl FnOnce(&mut Running<W>) -> R,
    ) -> Option<R> {
        let mut state = self.state.lock();
        let mut running = state.running.iter_mut();
        let found = running.find(|running| Arc::ptr_eq(&running.inquiry, inquiry))?;
        Some(f(found))
    }
}

impl<W: ReachWaiter> Inquiry<W> {
    fn new(table: &Arc<ReachTable<W>>, question: Question) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                table: table.clone(),
                question,
                work <- new_deferred!("rdma_sock_inquiry"),
            }),
            GFP_KERNEL,
        )
    }

    fn kick(self: &Arc<Self>) {
        self.work.kick(self, &self.table.context.setups);
    }

    /// The socket, made by the first run. `None` if the inquiry is over, or cannot begin.
    fn socket(self: &Arc<Self>) -> Option<Arc<UdpSocket<Self>>> {
        let table = &self.table;
        if let Some(socket) = table.with(self, |running| running.socket.clone())? {
            return Some(socket);
        }
        let Ok((socket, client)) = self.make_socket() else {
            table.with(self, |running| running.core.handle_unsent());
            return None;
        };
        let handle = {
            let mut state = table.state.lock();
            state.handle = state.handle.wrapping_add(1);
            state.handle
        };
        let mut kept = Some(socket.clone());
        table.with(self, |running| {
            running.core.begin(now(), client, handle);
            running.socket = kept.take();
        });
        // Still there if the table was closed meanwhile.
        kept.is_none().then_some(socket)
    }

    /// A socket that is connected to the Port Mapper of the host, and the client of the request.
    fn make_socket(self: &Arc<Self>) -> Result<(Arc<UdpSocket<Self>>, PmAddr)> {
        let Question { service, client } = self.question;
        let net = self.table.state.lock().net.clone().ok_or(ENETDOWN)?;
        let family = if service.ip.is_ipv4() {
            Family::V4
        } else {
            Family::V6
        };
        let socket = UdpSocket::new(&net, family, self.clone())?;
        if !client.ip.is_unspecified() {
            socket.bind(&from_pm(PmAddr { port: 0, ..client }))?;
        }
        let port = self.table.params.port;
        socket.connect(&from_pm(PmAddr { port, ..service }))?;
        let local = to_pm(&socket.local_addr()).ok_or(EINVAL)?;
        let client = PmAddr {
            port: client.port,
            ..local
        };
        Ok((Arc::new(socket, GFP_KERNEL)?, client))
    }

    /// Takes what has come.
    fn receive(self: &Arc<Self>, socket: &UdpSocket<Self>) {
        let mut room = [0; ROOM];
        for _ in 0..BUDGET {
            match socket.recv(&mut room) {
                Ok(received) => {
                    let octets = room.get(..received.len).unwrap_or_default();
                    if let Ok(message) = PmMessage::parse(octets) {
                        self.table
                            .with(self, |running| running.core.handle_message(&message));
                    }
                }
                Err(EAGAIN) => return,
                Err(_) => {
                    self.table
                        .with(self, |running| running.core.handle_unreachable());
                    return;
                }
            }
        }
        // Behind the work that waits.
        self.kick();
    }

    fn send(self: &Arc<Self>, socket: &UdpSocket<Self>, octets: &[u8]) {
        let Err(err) = socket.send(octets) else {
            return;
        };
        self.table.with(self, |running| match err {
            // The timer sends it again.
            EAGAIN | ENOBUFS | ENOMEM => {}
            ECONNREFUSED => running.core.handle_unreachable(),
            _ => running.core.handle_unsent(),
        });
    }
}

impl<W: ReachWaiter> Run<0> for Inquiry<W> {
    fn run(this: Arc<Self>) {
        let table = &this.table;
        let socket = this.socket();
        if let Some(socket) = &socket {
            this.receive(socket);
        }
        table.with(&this, |running| running.core.handle_timeout(now()));
        while let Some(step) = table
            .with(&this, |running| running.core.poll_step())
            .flatten()
        {
            match (step, &socket) {
                (InquiryStep::Send(octets), Some(socket)) => this.send(socket, &octets),
                // Nothing is sent before there is a socket.
                (InquiryStep::Send(_), None) => {}
                (InquiryStep::Release, _) => table.release(&this),
                (InquiryStep::Done(outcome), _) => return table.finish(&this, &outcome),
            }
        }
        let deadline = table.with(&this, |running| running.core.poll_timeout());
        if let Some(deadline) = deadline.flatten() {
            let delay = deadline.saturating_since(now()).as_nanos();
            this.work
                .arm(&this, &table.context.setups, jiffies_from_ns(delay));
        }
    }
}

impl<W: ReachWaiter> UdpEvents for Inquiry<W> {
    fn udp_event(this: ArcBorrow<'_, Self>) {
        let this: Arc<Self> = this.into();
        this.kick();
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
mod tests;
