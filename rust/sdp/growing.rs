// SPDX-License-Identifier: GPL-2.0

//! The memory of a connection, which grows with its use.
//!
//! An idle connection has few receive buffers and a small send ring. When the peer sends faster than it
//! hears of free buffers, the core wants more of them, and the work item of the end adds them. When a
//! writer finds the ring full, it makes a larger one. That takes the place of the old one as soon as the
//! peer has all data of that; until then no writer finds room, so that none copies to the wrong one.

use super::{
    data::SdpData,
    growth::Ring,
    messages::SdpChannelOps,
    setup::SdpConnection, //
};
use crate::{
    kapi::verbs::channel::{
        Channel,
        WriteSource, //
    },
    proto::sdp::conn::ConnTimers,
    sock::context::now, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

impl SdpData {
    /// Whether the work item has to add receive buffers. Only the first call says so.
    pub(super) fn asks_for_buffers(&mut self) -> bool {
        let growth = &mut self.growth;
        if self.core.pool_size() <= growth.buffers || growth.is_asked {
            return false;
        }
        if !growth.may_ask() {
            self.core.limit_pool(growth.buffers);
            return false;
        }
        growth.is_asked = true;
        true
    }

    /// Whether the work item has to make the receive buffers larger.
    pub(super) fn asks_for_halves(&self) -> bool {
        self.core.wanted_size().is_some()
    }

    /// The channel that lacks a receive buffer. `None`: it has all that were asked for.
    fn short_channel(&mut self) -> Option<Arc<Channel<SdpChannelOps>>> {
        let growth = &mut self.growth;
        let most = self.core.pool_size().min(growth.room.buffers);
        let channel = self.channel.clone();
        let channel = channel.filter(|_| growth.is_asked && growth.buffers < most);
        growth.is_asked &= channel.is_some();
        channel
    }

    /// A receive buffer was added, or there is no memory for it.
    fn note_buffer(&mut self, added: bool) {
        let growth = &mut self.growth;
        if added {
            growth.buffers = growth.buffers.saturating_add(1);
        } else {
            growth.after = Some(now().saturating_add(ConnTimers::MEMORY_PAUSE));
            self.core.limit_pool(growth.buffers);
        }
    }

    /// The channel of a connection whose ring is not as large as it may be, and that size.
    fn wants_ring(&self) -> Option<(Arc<Channel<SdpChannelOps>>, usize)> {
        let growth = &self.growth;
        let is_small = self.sendbuf.len() < growth.room.ring && !growth.is_changing();
        let may = is_small && growth.may_ask() && self.core.can_send().is_ok();
        let channel = self.channel.clone().filter(|_| may)?;
        Some((channel, growth.room.ring))
    }

    /// Whether that is the channel of the link. The link may have gone, or moved to another device, while the
    /// stream was not locked.
    fn is_using(&self, channel: &Arc<Channel<SdpChannelOps>>) -> bool {
        let used = self.channel.as_ref();
        used.is_some_and(|used| Arc::ptr_eq(used, channel))
    }

    /// Takes the next ring, if there is one and the one in use is empty.
    pub(super) fn change_ring(&mut self) {
        let Some((buffer, _)) = &self.growth.next_ring else {
            return;
        };
        let octets = u32::try_from(buffer.len()).unwrap_or(0);
        if self.source.is_none() || !self.core.resize_ring(octets) {
            return;
        }
        if let Some((buffer, source)) = self.growth.take_ring() {
            self.sendbuf = buffer;
            self.source = Some(source);
        }
    }
}

impl SdpConnection {
    /// Adds the receive buffers that the core wants. Context: may sleep. Only the work item of the end
    /// calls it.
    pub(super) fn add_buffers(self: &Arc<Self>) {
        let next = || self.stream.lock().stream.as_mut()?.short_channel();
        while let Some(channel) = next() {
            let added = self.add_buffer(&channel).is_ok();
            let _ = self.update(|data, _| data.note_buffer(added));
        }
    }

    fn add_buffer(&self, channel: &Channel<SdpChannelOps>) -> Result {
        let payer = self.payer()?;
        let counted = payer.count(channel.added_bytes())?;
        channel.add_buffer(payer.cgroup(), Some(counted))
    }

    /// Makes the receive buffers as large as the peer wants them, or notes that there is no memory for that.
    /// Context: may sleep. Only the work item of the end calls it.
    pub(super) fn add_halves(self: &Arc<Self>) {
        let found = self.look(|data| data.channel.clone().filter(|_| data.asks_for_halves()));
        let Some(channel) = found.flatten() else {
            return;
        };
        let made = self.extend_buffers(&channel);
        let _ = self.update(|data, _| data.core.grow_buffers(made.is_ok()));
    }

    fn extend_buffers(&self, channel: &Channel<SdpChannelOps>) -> Result {
        let payer = self.payer()?;
        channel.extend_buffers(payer.cgroup(), || {
            Ok(Some(payer.count(channel.recv_bytes())?))
        })
    }

    /// A writer has found no room: makes the send ring as large as it may be. Context: may sleep.
    pub(super) fn grow_ring(self: &Arc<Self>) {
        let Some(Some((channel, octets))) = self.look(SdpData::wants_ring) else {
            return;
        };
        let made = self.new_ring(&channel, octets);
        let _ = self.update(|data, now| match made {
            Ok(ring) if data.is_using(&channel) => data.growth.next_ring = Some(ring),
            Ok(_) => {}
            Err(_) => data.growth.after = Some(now.saturating_add(ConnTimers::MEMORY_PAUSE)),
        });
    }

    fn new_ring(&self, channel: &Channel<SdpChannelOps>, octets: usize) -> Result<Ring> {
        let buffer = self.payer()?.send_buffer(octets, octets)?;
        let source = WriteSource::Buffer(buffer.map(channel.device())?);
        Ok((buffer, source))
    }
}
