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
    proto::sdp::{
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
    Open,
    Up,
    Failed,
}

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
            if self.reply(connection, ack.as_slice()).is_err() {
                if let Some(handle) = self.link.handle.as_ref() {
                    let _ = handle.reject(RejectReason::NO_RESOURCES, &[]);
                }
                return Verdict::Failed;
            }
        }
        let mail = connection.protocol.mail.take();
        if mail.is_down || mail.is_refused {
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
        self.accepting.handle_timeout(now());
        let mut verdict = Verdict::Open;
        while let Some(step) = self.accepting.poll_step() {
            verdict = match step {
                SetupStep::Established(_) => Verdict::Up,
                _ => Verdict::Failed,
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
            Verdict::Failed => {
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
        self.count_sdp(Side::Server);
        self.change_mode(Mode::Negotiating, Mode::Stream);
        self.set_keepalive();
        listen::deliver(self);
        // What has come meanwhile is for the data side.
        self.kick_closing();
    }

    /// Begins the set-up of a child. Context: may sleep.
    fn begin_accepting(self: &Arc<Self>, accepted: KBox<Accepted>) {
        self.protocol.mail.open(self.clone());
        *self.protocol.attempt.lock() = Some(SdpAttempt::Accepting(accepted));
        self.kick_setup();
    }

    /// The child of a request for `local` that may become a connection.
    fn admit(
        self: &Arc<Self>,
        info: &CmRequestInfo,
        device: &Arc<Device>,
        local: &Addr,
    ) -> Result<(Arc<Self>, KBox<Accepted>)> {
        let ifindex = info.netdev.map_or(0, |netdev| netdev.ifindex);
        let unknown = gid_addr(info.remote_gid, 0, ifindex);
        let mut accepting =
            Accepting::new(now(), SetupTimers::DEFAULT, offer(local, &unknown), false);
        let depths = ReadDepths {
            ird: info.initiator_depth.into(),
            ord: info.responder_resources.into(),
        };
        let hello = accepting.handle_hello(now(), info.data.as_bytes(), depths);
        let (Some(hello), Some(SetupStep::AcceptLink(answer))) = (hello, accepting.poll_step())
        else {
            return Err(EINVAL);
        };
        let HelloRest::Annex { addrs, .. } = hello.rest else {
            return Err(EINVAL);
        };
        // The addresses are a claim: those that packets go to are the GIDs.
        let is_claimed = |claimed: IpAddr, addr: &Addr| claimed == hello_ip(addr);
        if !is_claimed(addrs.source, &unknown) || !is_claimed(addrs.destination, local) {
            return Err(EINVAL);
        }
        let accepted = Accepted {
            accepting,
            answer: Some(answer),
            device: device.clone(),
            port: info.port,
            link: SdpLink::NONE,
        };
        let accepted = KBox::new(accepted, GFP_KERNEL)?;
        let peer = gid_addr(info.remote_gid, addrs.port, ifindex);
        let detached = self.sk.new_child(local, &peer)?;
        let child = listen::enter_child(self, detached, true)?;
        child.set_mode(Mode::Negotiating);
        Ok((child, accepted))
    }
}

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
            Err(error) => {
                let reason = match error {
                    error if error == EINVAL => RejectReason::CONSUMER_DEFINED,
                    _ => RejectReason::NO_RESOURCES,
                };
                let _ = request.reject(reason, &[]);
            }
        }
    }
}
