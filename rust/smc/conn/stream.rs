// SPDX-License-Identifier: GPL-2.0

//! The data side of SMC-R as the socket engine sees it.

use super::data::Data;
use crate::{
    kapi::{
        mem::region::PeerMemory,
        net::sock::TcpState,
        verbs::{
            channel::Channel,
            device::Device,
            sendbuf::SendBuffer,
            user_pages::LentMemory, //
        },
    },
    proto::{
        base::time::{
            earliest,
            Instant, //
        },
        smc::{
            cdc::{
                self,
                Segment,
                SendError, //
            },
            llc::LinkSlot, //
        },
        stream::{
            events::{
                Fetch,
                Receive,
                StreamEvents, //
            },
            info::StreamInfo,
            keepalive::KeepaliveTimes,
            poll, //
        },
    },
    smc::{
        group::completions::LinkHandler,
        setup::SmcConnection, //
    },
    sock::{
        lent_pages::Finished,
        stats::Traffic,
        stream::{
            LendTarget,
            Readable,
            Received,
            SendFlags,
            SendState,
            Stream, //
        },
    },
};
use kernel::{
    iov::IovIterDest,
    prelude::*,
    sync::Arc, //
};

/// The element of an RMB that the peer writes to.
pub(crate) struct ElementMemory {
    memory: Arc<PeerMemory>,
    element: usize,
}

impl Readable for ElementMemory {
    fn copy_to_iter(&self, offset: usize, len: usize, to: &mut IovIterDest<'_>) -> Result<usize> {
        self.memory.copy_to_iter(self.element, offset, len, to)
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result {
        self.memory.read(self.element, offset, to)
    }
}

impl LendTarget for Arc<Channel<LinkHandler>> {
    fn device(&self) -> &Arc<Device> {
        Channel::device(self)
    }

    fn pieces(&self) -> usize {
        Channel::pieces(self)
    }
}

impl Stream for Data {
    type Owner = SmcConnection;
    /// The newest CDC message that came before the handshake was over, and its link. Every message
    /// carries the whole state, so one is enough (`SMCR-CDC-35`, `SMCR-RDV-27`).
    type Early = Option<(cdc::Msg, LinkSlot)>;
    type Memory = ElementMemory;
    type Target = Arc<Channel<LinkHandler>>;

    fn send_state(&self) -> SendState {
        match self.core.can_send() {
            Ok(()) if self.core.send_room() == 0 => SendState::Full,
            Ok(()) => SendState::Open,
            Err(SendError::Unreported) => SendState::Full,
            Err(SendError::Pipe) => SendState::Broken,
        }
    }

    fn is_peer_full(&self) -> bool {
        self.core.is_peer_full()
    }

    fn send_memory(&self, want: u32) -> Option<(&Arc<SendBuffer>, [Segment; 2])> {
        let buffer = &self.binding.as_ref()?.sendbuf;
        Some((buffer, self.core.send_segments(want)))
    }

    fn set_flags(&mut self, flags: SendFlags) {
        self.core.set_corked(flags.corked);
        self.core.set_nodelay(flags.nodelay);
    }

    fn write(&mut self, now: Instant, bytes: u32, urgent: bool) {
        if urgent {
            self.core.write_urgent(now, bytes);
        } else {
            self.core.write(now, bytes);
        }
    }

    fn lend_target(&self, want: u32) -> Option<(Self::Target, u32)> {
        let most = self.core.lendable(want);
        let channel = &self.binding.as_ref()?.route.channel;
        (most != 0).then(|| (channel.clone(), most))
    }

    fn lend(&mut self, now: Instant, target: &Self::Target, memory: &Arc<LentMemory>) -> bool {
        let is_there = |route: &Self::Target| Arc::ptr_eq(route, target);
        let binding = self.binding.as_ref();
        if !binding.is_some_and(|binding| is_there(&binding.route.channel)) {
            return false;
        }
        let Ok(len) = u32::try_from(memory.len()) else {
            return false;
        };
        let Some(place) = self.core.lend(now, len) else {
            return false;
        };
        self.lent_pages.put(place, memory.clone());
        true
    }

    fn take_finished(&mut self) -> Option<Finished> {
        let core = &self.core;
        self.lent_pages.take_finished(|place| core.is_lent(place))
    }

    fn holds_back(&self) -> bool {
        self.core.holds_back()
    }

    fn flush(&mut self) {
        self.core.flush();
    }

    fn poll_coalesced(&self) -> Option<Instant> {
        self.core.poll_coalesced()
    }

    fn handle_coalesced(&mut self, now: Instant) {
        self.core.handle_coalesced(now);
    }

    fn on_empty_read(&mut self) {
        self.core.on_empty_read();
    }

    fn set_corked(&mut self, corked: bool) {
        self.core.set_corked(corked);
    }

    fn is_inline(&self) -> bool {
        self.core.is_inline()
    }

    fn set_inline(&mut self, inline: bool) {
        self.core.set_inline(inline);
    }

    fn recv_available(&self) -> u32 {
        self.core.recv_available()
    }

    fn recv_until_mark(&self, skip: u32) -> Option<u32> {
        self.core.recv_until_mark(skip)
    }

    fn leave_mark(&mut self) {
        self.core.leave_mark();
    }

    fn recv_state(&self) -> Receive {
        self.core.recv_state()
    }

    fn received(&self, skip: u32, count: u32) -> Received<ElementMemory> {
        let (next, _) = self.core.recv_positions();
        let last = u64::from(skip.saturating_add(count)).saturating_sub(1);
        Received {
            memory: ElementMemory {
                memory: self.memory.clone(),
                element: self.element,
            },
            segments: self.core.recv_segments(skip, count),
            time: self.arrivals.time_of(next.saturating_add(last)),
        }
    }

    fn read(&mut self, bytes: u32) {
        let total = &mut self.counters.rx_bytes;
        *total = total.wrapping_add(u64::from(bytes));
        self.core.read(bytes);
    }

    fn recv_hint(&self) -> u32 {
        self.core.recv_hint()
    }

    fn fetch_urgent(&mut self, take: bool) -> (Fetch, u8) {
        (self.core.fetch_urgent(take), self.urgent_byte)
    }

    fn is_at_mark(&self) -> bool {
        self.core.is_at_mark()
    }

    fn outstanding(&mut self) -> u32 {
        // A program that polls SIOCOUTQ until it is 0 depends on a signalled chain.
        self.core.want_completion();
        self.core.outstanding()
    }

    fn unsent(&self) -> u32 {
        self.core.unsent()
    }

    fn is_connected(&self) -> bool {
        self.core.is_connected()
    }

    fn shutdown(&mut self, read: bool, write: bool) {
        match (read, write) {
            (true, true) => self.core.shutdown_both(),
            (true, false) => self.core.shutdown_read(),
            (false, true) => self.core.shutdown_write(),
            (false, false) => {}
        }
    }

    fn close(&mut self, now: Instant) {
        self.core.close(now);
    }

    fn abort(&mut self, now: Instant) {
        self.core.abort(now);
    }

    fn is_drained(&self) -> bool {
        self.core.is_drained()
    }

    fn is_closed(&self) -> bool {
        self.core.is_closed()
    }

    fn poll_state(&self, socket: &poll::PolledSocket) -> poll::PollState {
        self.core.poll_state(socket)
    }

    fn shown_state(&self) -> Option<TcpState> {
        None
    }

    fn info(&self, _now: Instant) -> Option<StreamInfo> {
        None
    }

    fn state_name(&self) -> &'static str {
        self.core.state().name()
    }

    fn traffic(&self) -> Traffic {
        self.counters
    }

    fn take_events(&mut self) -> StreamEvents {
        self.core.take_events()
    }

    fn pump(&mut self, owner: &Arc<SmcConnection>, now: Instant, turn: bool) -> bool {
        self.post_due(owner, now, turn)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        earliest(self.core.poll_timeout(), self.keepalive.poll_timeout())
    }

    fn set_keepalive(&mut self, now: Instant, times: KeepaliveTimes) {
        self.keepalive.set(now, times.idle);
    }
}
