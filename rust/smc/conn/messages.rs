// SPDX-License-Identifier: GPL-2.0

//! What the link reports of a connection: CDC messages, completions, and a link without a sign of
//! life.
//!
//! Source: RFC 7609 sections 4.3 to 4.8; the decisions are in `proto::smc::cdc`.

use crate::{
    kapi::base::time::real_now_ns,
    proto::{
        base::time::Duration,
        smc::{
            cdc::{
                self,
                Violation, //
            },
            llc::LinkSlot, //
        },
    },
    smc::setup::SmcConnection, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

impl SmcConnection {
    /// A CDC message for this connection arrived by a link. Context: softirq.
    pub(crate) fn receive_cdc(self: &Arc<Self>, msg: &cdc::Msg, link: LinkSlot) {
        {
            let mut slot = self.stream.lock();
            if slot.stream.is_none() {
                // Before the first data, a validation message carries no information
                // (`SMCR-CDC-44`).
                if self.is_negotiating() && !msg.flags.failover {
                    slot.early = Some((*msg, link));
                }
                return;
            }
        }
        let inline = self.sk.urgent_inline();
        let time = self.sk.wants_time().then(real_now_ns);
        let violation = self.update(|data, now| {
            data.counters.rx_messages = data.counters.rx_messages.wrapping_add(1);
            data.keepalive.touch(now);
            data.core.set_inline(inline);
            if !data.is_intact(link) {
                return data.core.handle_eye_catcher_lost(now).err();
            }
            let (read, before) = data.core.recv_positions();
            let result = data.core.handle_cdc(now, msg);
            data.let_see(link, before);
            if let Some(time) = time {
                let (_, end) = data.core.recv_positions();
                data.arrivals.note(read, before, end, time);
            }
            data.keep_urgent();
            result.err()
        });
        if let Some(Some(violation)) = violation {
            self.report(violation);
        }
    }

    /// Counts and logs that the peer broke a rule. Context: any.
    pub(crate) fn report(&self, violation: Violation) {
        self.net.count_violation(violation.name());
        if self.context.may_log() {
            pr_warn!(
                "connection {:#x}: peer violated the protocol: {}\n",
                self.look(|data| data.token.get()).unwrap_or(0),
                violation.name()
            );
        }
    }

    /// A send slot came back. Runs in softirq, or in process context while the channel shuts
    /// down. Context: any.
    pub(crate) fn sent(self: &Arc<Self>, token: cdc::Token, good: bool) {
        let moves = self.update(|data, now| {
            if good {
                data.keepalive.touch(now);
                data.core.handle_sent(now, token);
            } else {
                data.core.handle_sent_flushed(token);
            }
            data.may_move()
        });
        if moves == Some(true) {
            self.kick_closing();
        }
    }

    /// Requests a test of the link after `idle` without activity of the connection, unless the link
    /// was in use (`SMCR-KAL-02`). Context: may sleep.
    pub(crate) fn check_link(self: &Arc<Self>, idle: Duration) {
        let place = self.look(|data| {
            let slot = data.binding.as_ref().map(|binding| binding.route.slot());
            slot.map(|slot| (data.group.clone(), slot))
        });
        let Some(Some((group, slot))) = place else {
            return;
        };
        let seen = group.test_if_idle(slot, idle);
        if let Some(seen) = seen {
            let _ = self.update(|data, _| data.keepalive.touch(seen));
        }
    }
}
