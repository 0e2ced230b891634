// SPDX-License-Identifier: GPL-2.0

//! The set-up of a client: address, route, Hello, and the answer of the peer.
//!
//! Source: draft 8.1.1 (SDP-CONN-*, SDP-CS-*); the decisions are in `proto::sdp::setup`. All of it
//! runs in the work item of the set-up.

use super::{
    attempt::{
        Opening,
        Outcome,
        Purpose,
        SdpAttempt, //
    },
    link::SdpLink,
    mail::ReachReply,
    offer::{
        offer,
        reads_of,
        PSN_MASK,
        READS,
        RESENDS,
        SERVICE, //
    },
    reach::Known,
    setup::SdpConnection, //
};
use crate::{
    kapi::{
        base::module::random_u32,
        compat::errno::{
            ENOBUFS,
            ENOTCONN, //
        },
        net::{
            addr::Addr,
            msg::{
                Name,
                OwnedName, //
            },
            sock::Sock, //
        },
        verbs::{
            cm::{
                CmHandle,
                CmReply,
                CmRequestParams,
                PortSpace,
                RdmaIdHandle, //
            },
            device::Device, //
        },
    },
    proto::{
        base::time::{
            Duration,
            Instant, //
        },
        sdp::{
            admission::ProbePolicy,
            hello::ReadDepths,
            setup::{
                Connecting,
                Discovery,
                FallBackReason,
                SdpTerms,
                SetupRefusal,
                SetupStep,
                SetupTimers, //
            },
        },
        stream::{
            reason::{
                LocalReason,
                Reason, //
            },
            rules::Carrier, //
        },
    },
    sock::{
        connection::Mode,
        context::now,
        stats::Side, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Code of the time in which the peer answers: 268 ms.
const RESPONSE: u8 = 16;
/// Code of the time in which this side answers: 1.07 s. The peer sends its reply again then, as TCP its
/// SYN and ACK.
const OWN_RESPONSE: u8 = 18;
/// Attempts to send a request after the first, or the peer's reply; as many as there can be. The time of
/// the set-up ends those of the request. Those of the reply give a busy host time: this side uses the
/// connection already.
const RETRIES: u8 = 15;

/// A depth of the connection manager.
fn depths(reply: &CmReply) -> ReadDepths {
    ReadDepths {
        ird: reply.initiator_depth.into(),
        ord: reply.responder_resources.into(),
    }
}

/// The reason that the administrator sees.
fn reason(fall_back: FallBackReason) -> Reason {
    Reason::Local(match fall_back {
        FallBackReason::Silent => LocalReason::SdpSilent,
        FallBackReason::Refused(refusal) => match refusal {
            SetupRefusal::Denied | SetupRefusal::Absent => LocalReason::SdpAbsent,
            SetupRefusal::Rejected => LocalReason::SdpRefused,
            SetupRefusal::NoListener => LocalReason::SdpNoListener,
            SetupRefusal::Stale => LocalReason::SdpStale,
            SetupRefusal::Busy => LocalReason::SdpBusy,
        },
        FallBackReason::Unresolved => LocalReason::SdpUnreachable,
        FallBackReason::Timeout => LocalReason::SdpTimeout,
        FallBackReason::LinkDown => LocalReason::SdpLinkDown,
        FallBackReason::Memory => return Reason::Memory,
        FallBackReason::Answer(_) | FallBackReason::OutOfPlace => LocalReason::SdpHello,
    })
}

/// Whether an error is one of memory, or of a limit of it.
pub(super) fn is_memory(error: Error) -> bool {
    error == ENOMEM || error == ENOBUFS
}

impl Opening {
    fn handle_mail(&mut self, connection: &Arc<SdpConnection>) {
        let mail = connection.protocol.mail.take();
        let now = now();
        if self.connecting.is_due(now) || mail.refused.is_some() {
            if let Some(sign) = connection.protocol.net.reach.last_sign(&self.target) {
                self.connecting.handle_sign_of_life(sign);
            }
        }
        match mail.mapped {
            Some(ReachReply::Mapped) => self.connecting.handle_mapped(now),
            Some(ReachReply::Absent) => self.note_absent(now),
            Some(ReachReply::Silent) => self.connecting.handle_silence(),
            None => {}
        }
        if mail.is_resolved {
            match self.learn_local(connection) {
                Ok(()) => self.connecting.handle_resolved(now),
                Err(_) => self.connecting.handle_link_down(),
            }
        }
        if mail.is_unresolved {
            self.connecting.handle_unresolved(now);
        }
        if mail.is_down {
            self.connecting.handle_link_down();
        }
        if mail.is_unanswered {
            self.connecting.handle_unanswered();
        }
        if let Some(refusal) = mail.refused {
            self.connecting.handle_refused(now, refusal);
        }
        if let Some(reply) = mail.reply {
            let data = reply.data;
            self.connecting
                .handle_hello_ack(data.as_bytes(), depths(&reply));
        }
        self.connecting.handle_timeout(now);
    }

    fn note_absent(&mut self, now: Instant) {
        self.connecting.handle_refused(now, SetupRefusal::Absent);
    }

    /// Asks the Port Mapper of the peer, unless its answer is known or the administrator wants
    /// something else.
    fn ask(&mut self, connection: &Arc<SdpConnection>) {
        let bound = connection.sk.local_addr();
        let net = &connection.protocol.net;
        let known = match net.settings.values().probe {
            ProbePolicy::PortMapper => {
                net.reach
                    .ask(&self.target, &bound, &connection.protocol.mail)
            }
            ProbePolicy::Connect => {
                let known = net.reach.known(&self.target);
                known.unwrap_or(Known::Sdp(self.target))
            }
            ProbePolicy::Nothing => net.reach.known(&self.target).unwrap_or(Known::Tcp),
        };
        match known {
            Known::Sdp(_) => self.connecting.handle_mapped(now()),
            Known::Tcp => self.note_absent(now()),
            Known::Asking => {}
        }
    }

    /// The device that the route begins at.
    fn device(&self, connection: &SdpConnection) -> Result<Arc<Device>> {
        let resolver = self.resolver.as_ref().ok_or(ENOTCONN)?;
        let devices = connection.protocol.engine.fabric.devices.known()?;
        let device = devices.iter().find(|device| resolver.is_on(device));
        device.cloned().ok_or(ENODEV)
    }

    /// The address that the route begins at goes into Hello.
    fn learn_local(&mut self, connection: &SdpConnection) -> Result {
        let resolver = self.resolver.as_ref().ok_or(ENOTCONN)?;
        let (from, to) = resolver.gids()?;
        if from == to {
            // A peer on this host is quicker by TCP.
            return Err(EINVAL);
        }
        let port = match self.purpose {
            // The peer knows the connection by it.
            Purpose::Move => connection.sk.local_addr().port(),
            Purpose::Connect(_) => match connection.sk.bound_port() {
                0 => connection.protocol.net.next_port(),
                bound => bound,
            },
        };
        let local = Addr::from_mapped(from, port, 0, self.target.as_v4().is_some());
        let device = self.device(connection)?;
        let offer = offer(&local, &self.target, reads_of(&device));
        self.connecting.set_offer(offer);
        self.local = Some(local);
        Ok(())
    }

    /// The address that a program has bound its socket to, in the form of the target's, without a port:
    /// that of TCP is no port of the connection manager. `None` if it has bound none.
    fn source(&self, bound: &Addr) -> Option<Addr> {
        let is_bound = match *bound {
            Addr::V4 { ip, .. } => ip != [0; 4],
            Addr::V6 { ip, .. } => ip != [0; 16],
        };
        let is_v4 = matches!(self.target, Addr::V4 { .. });
        is_bound.then(|| Addr::from_mapped(bound.ip_mapped(), 0, bound.scope(), is_v4))
    }

    /// Begins to resolve the address of the peer, for that time at most.
    fn resolve(&mut self, connection: &Arc<SdpConnection>, within: Duration) -> Result {
        let net = connection.sk.net();
        let resolver = RdmaIdHandle::new(&net, PortSpace::Tcp, connection.protocol.mail.clone())?;
        let source = self.source(&connection.sk.local_addr());
        let resolver = self.resolver.insert(resolver);
        let millis = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
        resolver.resolve_addr(source.as_ref(), &self.target, millis)
    }

    /// Sends the request with Hello.
    fn open_link(&mut self, connection: &Arc<SdpConnection>, hello: &[u8]) -> Result {
        let device = self.device(connection)?;
        let resolver = self.resolver.as_ref().ok_or(ENOTCONN)?;
        let path = resolver.path(&device)?;
        let channel = connection.new_channel(&device, resolver.port()?)?;
        let channel = self.link.channel.insert(channel);
        self.psn = random_u32() & PSN_MASK;
        let handle = CmHandle::new(&device, connection.protocol.mail.clone())?;
        let handle = self.link.handle.insert(handle);
        let reads = reads_of(&device);
        let request = CmRequestParams {
            service_id: SERVICE.saturating_add(self.target.port().into()),
            qpn: channel.qpn(),
            psn: self.psn,
            responder_resources: reads,
            initiator_depth: reads,
            retries: RESENDS,
            rnr_retries: 7,
            remote_response_timeout: RESPONSE,
            local_response_timeout: OWN_RESPONSE,
            max_retries: RETRIES,
            data: hello,
        };
        handle.request(&path, &request)
    }

    /// Connects the queue pair: data may come from now on.
    fn establish(&mut self, connection: &Arc<SdpConnection>, terms: &SdpTerms) -> Result {
        let handle = self.link.handle.as_ref().ok_or(ENOTCONN)?;
        let channel = self.link.channel.as_ref().ok_or(ENOTCONN)?;
        handle.to_rtr(channel, self.psn)?;
        handle.to_rts(channel)?;
        match self.purpose {
            Purpose::Connect(_) => connection.install(now(), terms, channel),
            Purpose::Move => connection.resume(terms, channel),
        }
    }

    fn perform(&mut self, connection: &Arc<SdpConnection>, step: SetupStep) {
        let result = match step {
            SetupStep::AskPortMapper => {
                self.ask(connection);
                Ok(())
            }
            SetupStep::Resolve(within) => self.resolve(connection, within),
            SetupStep::OpenLink(hello) => self.open_link(connection, hello.as_slice()),
            SetupStep::CloseLink => {
                self.link.take_down();
                // There may be another link.
                connection
                    .protocol
                    .engine
                    .services
                    .links
                    .leave(&**connection);
                let _ = connection.protocol.mail.take();
                Ok(())
            }
            SetupStep::Established(terms) => {
                let established = self.establish(connection, &terms);
                self.outcome = match established {
                    Ok(()) => Outcome::Up,
                    Err(error) if is_memory(error) => Outcome::Tcp(Reason::Memory),
                    Err(_) => Outcome::Tcp(Reason::Local(LocalReason::SdpLinkDown)),
                };
                Ok(())
            }
            SetupStep::FallBack(fall_back) => {
                let reach = &connection.protocol.net.reach;
                // They say nothing about the host.
                let is_passing = matches!(
                    fall_back,
                    FallBackReason::Refused(_) | FallBackReason::Memory
                );
                let is_first = matches!(self.purpose, Purpose::Connect(_));
                if is_first && self.local.is_some() && !is_passing {
                    reach.note_failed(&self.target);
                }
                self.outcome = Outcome::Tcp(reason(fall_back));
                Ok(())
            }
            // Those of the accepting end.
            SetupStep::AcceptLink(_) | SetupStep::RejectLink(_) => Ok(()),
        };
        match result {
            Ok(()) => {}
            Err(error) if is_memory(error) => self.connecting.handle_no_memory(),
            Err(_) => self.connecting.handle_link_down(),
        }
    }

    /// Goes on as far as possible.
    fn run(&mut self, connection: &Arc<SdpConnection>) {
        self.handle_mail(connection);
        while let Some(step) = self.connecting.poll_step() {
            self.perform(connection, step);
        }
    }

    /// Goes on as far as possible, unless the outcome is known, and sees that it goes on again. Returns the
    /// outcome. Context: may sleep.
    pub(super) fn advance(&mut self, connection: &Arc<SdpConnection>) -> Outcome {
        if matches!(self.outcome, Outcome::Open) {
            self.run(connection);
        }
        if matches!(self.outcome, Outcome::Open) {
            if let Some(at) = self.connecting.poll_timeout() {
                connection.arm_setup(at);
            }
        }
        self.outcome
    }

    /// Address and route are of no use any longer. A program may keep the sock lock from here on, and the
    /// removal of the device waits for the id. Its drop may wait for handlers, which the caller in
    /// `connect` need not. Context: may sleep.
    pub(super) fn end_resolver(&mut self) {
        drop(self.resolver.take());
    }
}

/// The address that a name stands for, as the programs of the cgroup of `sk` want it. They are asked again
/// when TCP connects. `None` if they refuse it. Context: may sleep.
pub(super) fn target_of(sk: &Sock, name: &OwnedName) -> Option<Addr> {
    let mut asked = *name;
    let refused = sk.lock().pre_connect(&mut asked).is_err();
    asked.addr().filter(|_| !refused)
}

impl SdpConnection {
    /// Begins the set-up of a client. Context: may sleep.
    ///
    /// # Errors
    ///
    /// The reason for which it is TCP's.
    pub(super) fn begin_opening(self: &Arc<Self>, name: &Name) -> Result<(), Reason> {
        let unsuitable = Reason::Local(LocalReason::SdpUnreachable);
        let name = name.to_owned().map_err(|_| unsuitable)?;
        let target = target_of(&self.sk, &name).ok_or(unsuitable)?;
        let net = &self.protocol.net;
        let is_off = net.settings.values().probe == ProbePolicy::Nothing;
        if is_off && net.reach.known(&target).is_none() {
            return Err(Reason::Local(LocalReason::SdpNotAllowed));
        }
        let rules = &self.protocol.engine.rules;
        if let Some(reason) = rules.judge_client(&self.sk, Carrier::Sdp, &target) {
            return Err(reason);
        }
        // Of an address and a device that are not known yet.
        let offer = offer(&target, &target, READS);
        let connecting = Connecting::new(now(), SetupTimers::ANNEX, offer, Discovery::Ask);
        let opening = Opening::new(Purpose::Connect(name), target, connecting);
        let opening = KBox::new(opening, GFP_KERNEL).map_err(|_| Reason::Memory)?;
        let mut attempt = self.protocol.attempt.lock();
        // A shutdown() meanwhile has cancelled it, and cancels no attempt that begins later.
        if !self.is_negotiating() {
            return Err(Reason::Local(LocalReason::SdpNotTried));
        }
        self.protocol.mail.open(self.clone());
        *attempt = Some(SdpAttempt::Opening(opening));
        Ok(())
    }

    /// Goes on with the set-up of a client. Returns whether the attempt is over. Context: may sleep.
    pub(super) fn run_opening(self: &Arc<Self>, opening: &mut Opening) -> bool {
        let Purpose::Connect(name) = opening.purpose else {
            return self.run_moving(opening);
        };
        match opening.advance(self) {
            Outcome::Open => false,
            Outcome::Up => {
                opening.end_resolver();
                self.finish_opening(opening).is_ok()
            }
            Outcome::Tcp(reason) => {
                opening.end_resolver();
                self.open_tcp(&name, reason).is_ok()
            }
        }
    }

    /// The connection has the link of its set-up from now on, and the peer learns that it is up. Context: may
    /// sleep.
    pub(super) fn take_up(&self, link: &mut SdpLink) {
        let link = core::mem::replace(link, SdpLink::NONE);
        // If the peer never gets it, the first message stands for it.
        let handle = link.handle.as_ref();
        let is_ready = handle.is_some_and(|handle| handle.ready_to_use(&[]).is_ok());
        *self.protocol.link.lock() = link;
        if !is_ready {
            self.protocol.mail.note(|mail| mail.is_down = true);
        }
    }

    /// The link is up: tells the program. The program may have the sock lock.
    fn finish_opening(self: &Arc<Self>, opening: &mut Opening) -> Result {
        let local = opening.local.unwrap_or(opening.target);
        {
            let Ok(mut sk) = self.sk.try_lock() else {
                self.retry_setup();
                return Err(EBUSY);
            };
            sk.set_addrs(&local, &opening.target);
        }
        self.setup_locked();
        self.take_up(&mut opening.link);
        self.protocol.net.reach.note_spoke(&opening.target);
        self.count_sdp(Side::Client);
        self.change_mode(Mode::Negotiating, Mode::Stream);
        self.set_keepalive();
        self.tell_connected();
        // What has come meanwhile is for the data side.
        self.kick_closing();
        Ok(())
    }
}
