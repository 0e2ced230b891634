// SPDX-License-Identifier: GPL-2.0

//! The data path of a connection: feeds the CDC core and performs its outputs.
//!
//! Source: RFC 7609 sections 4.3 to 4.8; the decisions are in `proto::cdc`.

use super::{
    conn::data::{
        Data,
        Trigger, //
    },
    connection::Connection,
    context::now, //
};
use crate::{
    kapi::base::{
        alarm::Expire,
        time::{
            jiffies_from_ns,
            real_now_ns, //
        },
    },
    proto::{
        base::time::{
            Duration,
            Instant, //
        },
        smc::cdc::{
            self,
            Events,
            Violation, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

impl Expire for Connection {
    fn expired(self: &Arc<Self>) {
        let _ = self.update(|data, now| data.core.handle_coalesced(now));
    }
}

impl Connection {
    /// Runs `f` on the core, posts the chains that are due, arms the timers and wakes sleepers.
    /// `None` without an SMC side. Context: any.
    pub(crate) fn update<R>(
        self: &Arc<Self>,
        f: impl FnOnce(&mut Data, Instant) -> R,
    ) -> Option<R> {
        let (result, _) = self.update_in(Trigger::Input, f)?;
        Some(result)
    }

    /// The same for any trigger. Also returns whether there was no send slot.
    pub(super) fn update_in<R>(
        self: &Arc<Self>,
        trigger: Trigger,
        f: impl FnOnce(&mut Data, Instant) -> R,
    ) -> Option<(R, bool)> {
        let now = now();
        let (result, events, finished, denied) = {
            let mut slot = self.data.lock();
            let data = slot.data.as_mut()?;
            let result = f(data, now);
            let mut events = data.core.take_events();
            // The work item acts on it in this run.
            events.closing &= trigger != Trigger::Closing;
            let denied = data.pump(self, now, trigger == Trigger::Turn);
            if let Some(at) = data.core.poll_coalesced() {
                self.alarm.arm(self, at.saturating_since(now).as_nanos());
            }
            if let Some(delay) = data.rearm(now) {
                // With the lock held: the timer is what `armed` says.
                let queue = &self.engine.context.closings;
                self.work.arm(self, queue, jiffies_from_ns(delay));
            }
            let Data {
                core, lent_pages, ..
            } = &mut **data;
            (result, events, lent_pages.take_finished(core), denied)
        };
        // Puts pages, outside the lock.
        drop(finished);
        self.announce(events);
        Some((result, denied))
    }

    /// Looks at the core without changing it. Context: any.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&Data) -> R) -> Option<R> {
        self.data.lock().data.as_ref().map(|data| f(data))
    }

    /// Wakes the waiters for the events.
    fn announce(self: &Arc<Self>, events: Events) {
        if events.readable || events.error || events.closing {
            self.news.add(1u32, Relaxed);
        }
        if events.urgent {
            self.sk.signal_urgent();
        }
        if events.readable || events.urgent {
            self.sk.wake_readable();
        }
        if events.writable {
            self.room_came();
        }
        if events.error || events.closing {
            // Also for a close that lingers.
            self.sk.wake_state();
            self.kick_closing();
        }
    }

    /// A CDC message for this connection arrived. Context: softirq.
    pub(crate) fn receive_cdc(self: &Arc<Self>, msg: &cdc::Msg) {
        {
            let mut slot = self.data.lock();
            if slot.data.is_none() {
                // Before the first data, a validation message carries no information
                // (`SMCR-CDC-44`).
                if self.is_negotiating() && !msg.flags.failover {
                    slot.early = Some(*msg);
                }
                return;
            }
        }
        let inline = self.sk.urgent_inline();
        let time = self.sk.wants_time().then(real_now_ns);
        let violation = self.update(|data, now| {
            data.counters.rx_cdc = data.counters.rx_cdc.wrapping_add(1);
            data.keepalive.touch(now);
            data.core.set_inline(inline);
            if !data.is_intact() {
                return data.core.handle_eye_catcher_lost(now).err();
            }
            let (read, before) = data.core.recv_positions();
            let result = data.core.handle_cdc(now, msg);
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
    pub(super) fn report(&self, violation: Violation) {
        self.net.count_violation(violation.name());
        if self.engine.context.may_log() {
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

    /// Takes in the keepalive options of the socket: at the start, and when an option has changed
    /// (`SMCR-KAL-01`). Context: any.
    pub(crate) fn set_keepalive(self: &Arc<Self>) {
        let idle = self.sk.keepalive_ms().map(u64::from);
        let _ = self.update(|data, now| {
            data.keepalive.set(now, idle.map(Duration::from_millis));
        });
    }

    /// Requests a test of the link after `idle` without activity of the connection, unless the link
    /// was in use (`SMCR-KAL-02`). Context: may sleep.
    pub(super) fn check_link(self: &Arc<Self>, idle: Duration) {
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

    /// Starts the data side: sends the messages that are due without a call. Context: any.
    pub(crate) fn begin(self: &Arc<Self>) {
        let _ = self.update(|_, _| {});
    }

    /// It is this connection's turn to send, if there is a free slot. Returns whether there was
    /// none, and it waits again. Context: any.
    pub(crate) fn transmit(self: &Arc<Self>) -> bool {
        self.update_in(Trigger::Turn, |_, _| {})
            .is_some_and(|((), denied)| denied)
    }
}
