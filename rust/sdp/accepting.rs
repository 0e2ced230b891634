// SPDX-License-Identifier: GPL-2.0

//! The set-up of a listener's child: Hello, HelloAck, and the link.
//!
//! Source: draft 8.1.1 (SDP-CONN-10 to SDP-CONN-21). `listening` has checked the request; the rest runs
//! in the work item of the set-up.

use super::{
    attempt::{
        Accepted,
        SdpAttempt, //
    },
    link::SdpLink,
    offer::{
        PSN_MASK,
        READS, //
    },
    opening::is_memory,
    setup::SdpConnection, //
};
use crate::{
    kapi::{
        base::module::random_u32,
        compat::errno::ENOTCONN,
        verbs::cm::{
            CmReplyParams,
            RejectReason, //
        },
    },
    proto::{
        sdp::setup::SetupStep,
        stream::reason::{
            LocalReason,
            Reason, //
        },
    },
    sock::{
        connection::Mode,
        context::now,
        listen,
        stats::Side, //
    },
};
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
                let (answer, reason) = if is_memory(error) {
                    (RejectReason::NO_RESOURCES, Reason::Memory)
                } else {
                    (RejectReason::CONSUMER_DEFINED, LINK_DOWN)
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
        // RTU may be late, or lost: then the reply is repeated, and the peer sends RTU again.
        if mail.is_up || mail.has_message {
            self.accepting.handle_link_up();
        }
        let is_late = self.accepting.poll_timeout().is_some_and(|at| at <= now());
        let reason = if is_late || mail.is_unanswered {
            Reason::Local(LocalReason::SdpTimeout)
        } else {
            LINK_DOWN
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
    pub(super) fn begin_accepting(self: &Arc<Self>, accepted: KBox<Accepted>) {
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
}
