// SPDX-License-Identifier: GPL-2.0

//! The set-up of a listener's child: Hello, HelloAck, and the link.
//!
//! Source: draft 8.1.1 (SDP-CONN-10 to SDP-CONN-21). A request is checked in the handler of the
//! connection manager; the rest runs in the work item of the set-up.

use super::{
    attempt::{
        Accepted,
        SdpAttempt, //
    },
    link::SdpLink,
    offer::{
        hello_ip,
        offer,
        PSN_MASK,
        READS, //
    },
    opening::is_memory,
    services::{
        gid_addr,
        ServiceListener, //
    },
    setup::SdpConnection, //
};
use crate::{
    kapi::{
        base::module::random_u32,
        compat::errno::ENOTCONN,
        net::{
            addr::Addr,
            netdev::{
                ipv4_prefix,
                ipv6_prefixes, //
            },
            sock::Sock, //
        },
        verbs::{
            cm::{
                CmReplyParams,
                CmRequest,
                CmRequestInfo,
                RejectReason, //
            },
            device::Device,
        },
    },
    proto::{
        base::network::is_in_network,
        sdp::{
            admission::AcceptPolicy,
            hello::{
                HelloRest,
                ReadDepths, //
            },
            setup::{
                Accepting,
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
        listen,
        stats::Side, //
    },
};
use core::net::IpAddr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What becomes of a set-up.
enum Verdict {
    /// Go on.
    Open,
    /// The link is up.
    Up,
    /// There is no connection, for this reason.
    Failed(Reason),
}

/// The reason of a set-up whose peer went away.
const LINK_DOWN: Reason = Reason::Local(LocalReason::SdpLinkDown);

impl Accepted {
    /// Sends the reply with HelloAck.
    fn reply(&mut self, connection: &Arc<SdpConnection>, ack: &[u8]) -> Result {
        let terms = self.accepting.terms().ok_or(ENOTCONN)?;
        let handle = self.link.handle.as_ref().ok_or(ENOTCONN)?;
        let channel = connection.new_channel(&self.device, self.port)?;
        let channel = self.link.channel.insert(channel);
        let psn = random_u32() & PSN_MASK;
        handle.to_rtr(channel, psn)?;
        handle.to_rts(channel)?;
        connection.install(now(), &terms, channel)?;
        handle.reply(&CmReplyParams {
            qpn: channel.qpn(),
            psn,
            responder_resources: u8::try_from(terms.depths.ird).unwrap_or(READS),
            initiator_depth: u8::try_from(terms.depths.ord).unwrap_or(READS),
            rnr_retries: 7,
            data: ack,
        })
    }

    fn run(&mut self, connection: &Arc<SdpConnection>) -> Verdict {
        if let Some(ack) = self.answer.take() {
            if let Err(error) = self.reply(connection, ack.as_slice()) {
                let (answer, reason) = match is_memory(error) {
                    true => (RejectReason::NO_RESOURCES, Reason::Memory),
                    false => (RejectReason::CONSUMER_DEFINED, LINK_DOWN),
                };
                if let Some(handle) = self.link.handle.as_ref() {
                    let _ = handle.reject(answer, &[]);
                }
                return Verdict::Failed(reason);
            }
        }
        let mail = connection.protocol.mail.take();
        if mail.is_down || mail.is_unanswered || mail.refused.is_some() {
            self.accepting.handle_link_down();
        }
        if mail.has_message {
            // RTU may be lost, or late.
            if let Some(handle) = self.link.handle.as_ref() {
                let _ = handle.note_message();
            }
        }
        if mail.is_up || mail.has_message {
            self.accepting.handle_link_up();
        }
        let is_late = self.accepting.poll_timeout().is_some_and(|at| at <= now());
        let reason = match is_late || mail.is_unanswered {
            true => Reason::Local(LocalReason::SdpTimeout),
            false => LINK_DOWN,
        };
        self.accepting.handle_timeout(now());
        let mut verdict = Verdict::Open;
        while let Some(step) = self.accepting.poll_step() {
            verdict = match step {
                SetupStep::Established(_) => Verdict::Up,
                _ => Verdict::Failed(reason),
            };
        }
        verdict
    }
}

impl SdpConnection {
    /// Goes on with the set-up of a child. Returns whether the attempt is over. Context: may sleep.
    pub(super) fn run_accepting(self: &Arc<Self>, accepted: &mut Accepted) -> bool {
        match accepted.run(self) {
            Verdict::Open => {
                if let Some(at) = accepted.accepting.poll_timeout() {
                    self.arm_setup(at);
                }
                false
            }
            Verdict::Up => {
                let link = core::mem::replace(&mut accepted.link, SdpLink::NONE);
                *self.protocol.link.lock() = link;
                true
            }
            Verdict::Failed(reason) => {
                self.net.count_abort(Side::Server, reason);
                self.set_mode(Mode::Tcp);
                true
            }
        }
    }

    /// Hands a child to accept whose link is up, or ends it. Context: may sleep.
    pub(super) fn settle_child(self: &Arc<Self>) {
        if self.protocol.link.lock().channel.is_none() {
            return listen::discard(self);
        }
        self.protocol.net.reach.note_spoke(&self.sk.peer_addr());
        self.count_sdp(Side::Server);
        self.change_mode(Mode::Negotiating, Mode::Stream);
        self.set_keepalive();
        listen::deliver(self);
        // What has come meanwhile is for the data side.
        self.kick_closing();
    }

    /// Begins the set-up of a child, unless its listener is closed. Context: may sleep.
    fn begin_accepting(self: &Arc<Self>, accepted: KBox<Accepted>) {
        let mut attempt = self.protocol.attempt.lock();
        // The close of the listener takes it away, and then cancels the attempt that it finds.
        if self.listener.lock().is_none() {
            drop(attempt);
            self.set_mode(Mode::Tcp);
            drop(accepted);
            listen::discard(self);
            return;
        }
        self.protocol.mail.open(self.clone());
        *attempt = Some(SdpAttempt::Accepting(accepted));
        drop(attempt);
        self.kick_setup();
    }

    /// The child of a request for `local` that may become a connection.
    fn admit(
        self: &Arc<Self>,
        info: &CmRequestInfo,
        device: &Arc<Device>,
        local: &Addr,
    ) -> Result<(Arc<Self>, KBox<Accepted>), Refusal> {
        let ifindex = info.netdev.map_or(0, |netdev| netdev.ifindex);
        let unknown = gid_addr(info.remote_gid, 0, ifindex);
        self.check_policy(local, &unknown, ifindex)?;
        let mut accepting =
            Accepting::new(now(), SetupTimers::DEFAULT, offer(local, &unknown), false);
        let depths = ReadDepths {
            ird: info.initiator_depth.into(),
            ord: info.responder_resources.into(),
        };
        let hello = accepting.handle_hello(now(), info.data.as_bytes(), depths);
        let (Some(hello), Some(SetupStep::AcceptLink(answer))) = (hello, accepting.poll_step())
        else {
            return Err(Refusal::HELLO);
        };
        let HelloRest::Annex { addrs, .. } = hello.rest else {
            return Err(Refusal::HELLO);
        };
        // The addresses are a claim: those that packets go to are the GIDs.
        let is_claimed = |claimed: IpAddr, addr: &Addr| claimed == hello_ip(addr);
        if !is_claimed(addrs.source, &unknown) || !is_claimed(addrs.destination, local) {
            return Err(Refusal::HELLO);
        }
        if listen::is_full(self) {
            return Err(Refusal::BUSY);
        }
        let half_opens = &self.protocol.net.half_opens;
        let place = half_opens.begin(local.port(), unknown.ip_mapped())?;
        let accepted = Accepted {
            accepting,
            answer: Some(answer),
            device: device.clone(),
            port: info.port,
            link: SdpLink::NONE,
            _place: place,
        };
        let accepted = KBox::new(accepted, GFP_KERNEL).map_err(Error::from)?;
        let peer = gid_addr(info.remote_gid, addrs.port, ifindex);
        let detached = self.sk.new_child(local, &peer)?;
        let child = listen::enter_child(self, detached, true)?;
        child.set_mode(Mode::Negotiating);
        Ok((child, accepted))
    }
}

/// Why a request becomes no connection.
struct Refusal {
    answer: RejectReason,
    reason: Reason,
}

impl Refusal {
    /// Hello is not valid, or names other addresses than the packets.
    const HELLO: Self = Self {
        answer: RejectReason::CONSUMER_DEFINED,
        reason: Reason::Local(LocalReason::SdpHello),
    };
    /// There is no room at the moment.
    const BUSY: Self = Self {
        answer: RejectReason::NO_RESOURCES,
        reason: Reason::Local(LocalReason::SdpBusy),
    };
    /// The administrator has no such peer.
    const PEER: Self = Self {
        answer: RejectReason::CONSUMER_DEFINED,
        reason: Reason::Local(LocalReason::SdpNotAllowed),
    };
    /// The administrator has no such service.
    const SERVICE: Self = Self {
        answer: RejectReason::INVALID_SERVICE_ID,
        reason: Reason::Local(LocalReason::SdpNotAllowed),
    };
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            error if error == ENOMEM => Self {
                answer: RejectReason::NO_RESOURCES,
                reason: Reason::Memory,
            },
            _ => Self::BUSY,
        }
    }
}

impl SdpConnection {
    /// Whether the administrator allows a connection of `peer` to `local`. Its values and networks are too
    /// large to lie on the stack of a caller that goes on. Context: may sleep.
    #[inline(never)]
    fn check_policy(&self, local: &Addr, peer: &Addr, ifindex: u32) -> Result<(), Refusal> {
        let values = self.protocol.net.settings.values();
        if values.accept == AcceptPolicy::Off || !values.ports.has(local.port()) {
            return Err(Refusal::SERVICE);
        }
        let rules = &self.protocol.engine.rules;
        if let Some(reason) = rules.judge_server(&self.sk, Carrier::Sdp, local, peer) {
            return Err(Refusal {
                reason,
                ..Refusal::PEER
            });
        }
        let in_subnet = || self.shares_subnet(local, peer, ifindex);
        match values.accept.admits(in_subnet) {
            true => Ok(()),
            false => Err(Refusal::PEER),
        }
    }

    /// Whether a peer is in an IP subnet of an interface. Context: may sleep.
    fn shares_subnet(&self, local: &Addr, peer: &Addr, ifindex: u32) -> bool {
        let net = self.sk.net();
        match (local.as_v4(), peer.as_v4()) {
            (Some(local), Some(peer)) => {
                let subnet = ipv4_prefix(&net, ifindex, local);
                subnet.is_some_and(|(subnet, bits)| is_in_network(&subnet, bits, &peer))
            }
            (None, None) => {
                let peer = peer.ip_mapped();
                let prefixes = ipv6_prefixes(&net, ifindex);
                let of_link = is_in_network(&LINK_LOCAL, LINK_LOCAL_BITS, &peer);
                of_link
                    || prefixes.is_some_and(|prefixes| {
                        let mut prefixes = prefixes.iter();
                        prefixes.any(|(prefix, bits)| is_in_network(&prefix, bits, &peer))
                    })
            }
            _ => false,
        }
    }
}

/// The addresses of one link, fe80::/10.
const LINK_LOCAL: [u8; 2] = [0xfe, 0x80];
const LINK_LOCAL_BITS: u8 = 10;

impl ServiceListener for SdpConnection {
    fn sk(&self) -> &Sock {
        &self.sk
    }

    fn serve(self: Arc<Self>, request: CmRequest<'_>, device: &Arc<Device>, local: &Addr) {
        match self.admit(request.info(), device, local) {
            Ok((child, mut accepted)) => match request.take(child.protocol.mail.clone()) {
                Ok(handle) => {
                    accepted.link.handle = Some(handle);
                    child.begin_accepting(accepted);
                }
                Err(_) => listen::discard(&child),
            },
            Err(Refusal { answer, reason }) => {
                self.net.count_abort(Side::Server, reason);
                let _ = request.reject(answer, &[]);
            }
        }
    }
}
