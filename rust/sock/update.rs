// SPDX-License-Identifier: GPL-2.0

//! One step of a stream: an input, the posts that follow, timers and wakes.
//!
//! The stream lives under a spinlock with bottom halves off that is held for a few steps of
//! arithmetic and one post at a time. User data is copied outside of it: writers and readers are
//! kept apart from their own kind by the socket lock, and from the device by the positions.

use super::{
    connection::{
        Connection,
        Protocol,
        StreamSlot, //
    },
    context::now,
    stream::Stream, //
};
use crate::{
    kapi::base::time::jiffies_from_ns,
    proto::{
        base::time::{
            Duration,
            Instant, //
        },
        stream::{
            events::StreamEvents,
            keepalive::KeepaliveTimes, //
        },
    },
};
use kernel::sync::{
    atomic::Relaxed,
    Arc, //
};

/// The trigger of an update.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trigger {
    /// A call, a message, a completion, a timer.
    Input,
    /// The connection's turn to use a send slot.
    Turn,
    /// The work item that performs the end of the connection.
    Closing,
}

impl<S: Stream> StreamSlot<S> {
    /// The delay to arm the timer of the end with, in nanoseconds, if it must fire earlier than it
    /// is armed for.
    fn rearm(&mut self, now: Instant) -> Option<u64> {
        let at = self.stream.as_ref()?.poll_timeout()?;
        if self.armed.is_some_and(|armed| armed <= at) {
            return None;
        }
        self.armed = Some(at);
        Some(at.saturating_since(now).as_nanos())
    }
}

impl<P: Protocol> Connection<P> {
    /// Runs `f` on the stream, posts what is due, arms the timers and wakes sleepers. `None` without
    /// a stream. Context: any.
    pub(crate) fn update<R>(
        self: &Arc<Self>,
        f: impl FnOnce(&mut P::Stream, Instant) -> R,
    ) -> Option<R> {
        let (result, _) = self.update_in(Trigger::Input, f)?;
        Some(result)
    }

    /// The same in the work item of the end, which acts on the result itself. Context: may sleep.
    pub(crate) fn update_closing<R>(
        self: &Arc<Self>,
        f: impl FnOnce(&mut P::Stream, Instant) -> R,
    ) -> Option<R> {
        let (result, _) = self.update_in(Trigger::Closing, f)?;
        Some(result)
    }

    /// It is this connection's turn to send, if there is a free slot. Returns whether there was
    /// none, and it waits again. Context: any.
    pub(crate) fn transmit(self: &Arc<Self>) -> bool {
        self.update_in(Trigger::Turn, |_, _| {})
            .is_some_and(|((), denied)| denied)
    }

    /// The same for any trigger. Also returns whether there was no send slot.
    fn update_in<R>(
        self: &Arc<Self>,
        trigger: Trigger,
        f: impl FnOnce(&mut P::Stream, Instant) -> R,
    ) -> Option<(R, bool)> {
        let now = now();
        let (result, events, finished, denied) = {
            let mut slot = self.stream.lock();
            if trigger == Trigger::Closing {
                slot.armed = None;
            }
            let stream = slot.stream.as_mut()?;
            let result = f(stream, now);
            let mut events = stream.take_events();
            // The work item acts on it in this run.
            events.closing &= trigger != Trigger::Closing;
            let denied = stream.pump(self, now, trigger == Trigger::Turn);
            if let Some(at) = stream.poll_coalesced() {
                self.alarm.arm(self, at.saturating_since(now).as_nanos());
            }
            let finished = stream.take_finished();
            if let Some(delay) = slot.rearm(now) {
                // With the lock held: the timer is what `armed` says.
                self.closing_work
                    .arm(self, &self.context.closings, jiffies_from_ns(delay));
            }
            (result, events, finished, denied)
        };
        // Puts pages, outside the lock.
        drop(finished);
        self.announce(events);
        Some((result, denied))
    }

    /// Looks at the stream without changing it. Context: any.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&P::Stream) -> R) -> Option<R> {
        self.stream.lock().stream.as_ref().map(|stream| f(stream))
    }

    /// Wakes the waiters for the events.
    fn announce(self: &Arc<Self>, events: StreamEvents) {
        if events.readable || events.writable || events.error || events.closing {
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

    /// Takes in the keepalive options of the socket: at the start, and when an option has changed
    /// (`SMCR-KAL-01`). Context: any.
    pub(crate) fn set_keepalive(self: &Arc<Self>) {
        let span = |millis: u32| Duration::from_millis(millis.into());
        let times = KeepaliveTimes {
            idle: self.sk.keepalive_ms().map(span),
            stalled: self.sk.user_timeout_ms().map(span),
        };
        let _ = self.update(|stream, now| stream.set_keepalive(now, times));
    }
}
