// SPDX-License-Identifier: GPL-2.0

//! The data side of a connection: the core, the send ring and the messages that wait for a reader.
//!
//! It lives under the stream lock of its connection.

use super::{
    growth::{
        Growth,
        Room, //
    },
    messages::SdpChannelOps, //
};
use crate::{
    fabric::account::Orphan,
    kapi::verbs::{
        channel::{
            Arriving,
            Channel,
            GatherPiece,
            ReceivedBuffer,
            SendFlags,
            SlotMessage,
            WriteSource, //
        },
        sendbuf::SendBuffer, //
    },
    proto::{
        base::time::Instant,
        sdp::{
            conn::{
                ConnTimers,
                Outbound,
                RxBuffer,
                SdpConfig,
                SdpConn, //
            },
            msg::MAX_HEADER,
            setup::SdpTerms,
            sink::{
                RxPlan,
                SinkItem, //
            },
            source::PayloadFrom,
            teardown::EndState,
            violation::SdpViolation, //
        },
        stream::{
            arrivals::Arrivals,
            events::StreamEvents,
            positions::Segment, //
        },
    },
    sock::stats::Traffic, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The data side of a connection that uses SDP.
pub(crate) struct SdpData {
    /// The protocol core of the connection.
    pub(super) core: KBox<SdpConn>,
    /// The queue pair; `None` once the link is down.
    pub(super) channel: Option<Arc<Channel<SdpChannelOps>>>,
    /// The send ring.
    pub(super) sendbuf: Arc<SendBuffer>,
    /// The same, as the device reads it. Dropped with the channel: it keeps the device.
    pub(super) source: Option<WriteSource>,
    /// Messages whose data was not read.
    pub(super) places: Places,
    /// The place of buffer 0 of the link. Places before it, or behind its last one, are those of a link that the
    /// peer has left.
    pub(super) first_place: u16,
    /// A new link comes up, or is due to.
    pub(super) is_moving: bool,
    /// The link is down, and the core does not know it.
    pub(super) is_lost: bool,
    /// The socket has the error of the connection.
    pub(super) is_reported: bool,
    /// The program has ended its reading.
    pub(super) is_shut: bool,
    /// What the program has written is held back until then, at most.
    pub(super) corked_until: Option<Instant>,
    /// The last urgent octet that came.
    pub(super) urgent_octet: u8,
    /// When unread data came, if the program wants to know.
    pub(super) arrivals: Arrivals,
    /// Traffic so far.
    pub(super) counters: Traffic,
    /// The program has closed the connection.
    pub(super) orphan: Option<Orphan>,
    /// The end of the time that a closed connection has for its data.
    pub(super) orphan_until: Option<Instant>,
    /// The size of the memory.
    pub(super) growth: Growth,
}

/// Messages whose data was not read, by the places of their buffers.
pub(super) type Places = KVec<Option<ReceivedBuffer<SdpChannelOps>>>;

/// `count` places without messages. Context: may sleep.
pub(super) fn new_places(count: usize) -> Result<Places> {
    let mut places = KVec::with_capacity(count, GFP_KERNEL)?;
    for _ in 0..count {
        places.push(None, GFP_KERNEL)?;
    }
    Ok(places)
}

/// Makes the core. It is too large to lie on the stack of a caller that goes on.
#[inline(never)]
fn new_core(now: Instant, config: SdpConfig, terms: &SdpTerms) -> Result<KBox<SdpConn>> {
    let place = KBox::<SdpConn>::new_uninit(GFP_KERNEL)?;
    Ok(KBox::write(place, SdpConn::new(now, config, terms)))
}

impl SdpData {
    /// The data side of a connection whose set-up is over. Context: may sleep.
    pub(super) fn new(
        now: Instant,
        terms: &SdpTerms,
        channel: &Arc<Channel<SdpChannelOps>>,
        sendbuf: Arc<SendBuffer>,
        room: Room,
    ) -> Result<KBox<Self>> {
        let config = SdpConfig {
            ring: u32::try_from(sendbuf.len())?,
            wraps: channel.gather_pieces() > 1,
            most_buffer: u32::try_from(channel.most_recv_bytes())?,
            threshold: u32::MAX,
            nudges: 0,
            timers: ConnTimers::DEFAULT,
        };
        let mut core = new_core(now, config, terms)?;
        core.let_pool_grow(room.credits);
        let data = Self {
            core,
            channel: Some(channel.clone()),
            source: Some(WriteSource::Buffer(sendbuf.map(channel.device())?)),
            sendbuf,
            places: new_places(room.buffers.into())?,
            first_place: 0,
            is_moving: false,
            is_lost: false,
            is_reported: false,
            is_shut: false,
            corked_until: None,
            urgent_octet: 0,
            arrivals: Arrivals::default(),
            counters: Traffic::default(),
            orphan: None,
            orphan_until: None,
            growth: Growth::new(room, terms.bufs),
        };
        Ok(KBox::new(data, GFP_KERNEL)?)
    }

    /// Takes a message in that came at the wall-clock time `time`, if the program wants to know.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        time: Option<u64>,
        msg: Arriving<'_, SdpChannelOps>,
    ) {
        self.counters.rx_messages = self.counters.rx_messages.wrapping_add(1);
        let mut head = [0; MAX_HEADER];
        let len = msg.len();
        let head = head.get_mut(..len.min(MAX_HEADER)).unwrap_or_default();
        if msg.read(0, head).is_err() {
            return self.core.abort(now);
        }
        let buffer = RxBuffer {
            slot: self.place_of(msg.number()),
            size: u32::try_from(msg.size()).unwrap_or(0),
            octets: head,
            invalidated: msg.invalidated(),
        };
        let noted = time.map(|time| (time, self.core.recv_positions().1));
        let plan = self.core.handle_head(now, buffer, len);
        if let Some((time, before)) = noted {
            let (read, end) = self.core.recv_positions();
            self.arrivals.note(read, before, end, time);
        }
        self.keep_urgent(&plan, &msg);
        let kept = match plan {
            Ok(RxPlan::Queue { .. }) => self.keep(msg),
            Ok(RxPlan::Append { slot, off, len, .. }) => self.append(slot, &msg, off, len),
            Ok(RxPlan::Free) | Err(_) => Ok(()),
        };
        if kept.is_err() {
            self.core.abort(now);
        }
        self.pass_urgent();
        self.refuse_adverts(now);
    }

    /// Copies an urgent octet that has just come.
    fn keep_urgent(
        &mut self,
        plan: &Result<RxPlan, SdpViolation>,
        msg: &Arriving<'_, SdpChannelOps>,
    ) {
        if !self.core.poll_urgent() {
            return;
        }
        let (Ok(RxPlan::Queue { off, len }) | Ok(RxPlan::Append { off, len, .. })) = plan else {
            return;
        };
        let last = off.saturating_add(*len).saturating_sub(1);
        let mut octet = [0];
        // It lies in the message, or nothing is read.
        if msg
            .read(usize::try_from(last).unwrap_or(usize::MAX), &mut octet)
            .is_ok()
        {
            [self.urgent_octet] = octet;
        }
    }

    /// Takes the urgent octet out of the stream if it is the next one and not in line.
    pub(super) fn pass_urgent(&mut self) {
        if let Some(slot) = self.core.poll_passed() {
            self.forget(slot);
        }
    }

    /// Every octet comes as Data.
    fn refuse_adverts(&mut self, now: Instant) {
        if matches!(self.core.next_received(), SinkItem::Advert { .. }) {
            self.core.refuse_advert(now);
        }
    }

    /// The place of a receive buffer of the link.
    fn place_of(&self, number: u16) -> u16 {
        self.first_place.saturating_add(number)
    }

    /// Keeps a message for a reader.
    fn keep(&mut self, msg: Arriving<'_, SdpChannelOps>) -> Result {
        let place = self.place_of(msg.number());
        let place = self.places.get_mut(usize::from(place));
        *place.ok_or(EINVAL)? = Some(msg.keep());
        Ok(())
    }

    /// Puts the payload of a message behind that of another one.
    fn append(
        &mut self,
        slot: u16,
        msg: &Arriving<'_, SdpChannelOps>,
        off: u32,
        len: u32,
    ) -> Result {
        let place = self.places.get_mut(usize::from(slot)).ok_or(EINVAL)?;
        let last = place.as_mut().ok_or(EINVAL)?;
        last.append(msg, usize::try_from(off)?, usize::try_from(len)?)
    }

    /// The reader has `count` octets more.
    pub(super) fn consume(&mut self, now: Instant, count: u32) {
        let mut left = count;
        while left > 0 {
            let Some((_, _, len)) = self.core.octets_at(0) else {
                break;
            };
            let part = left.min(len);
            if let Some(slot) = self.core.consumed(now, part) {
                self.forget(slot);
            }
            left = left.saturating_sub(part);
        }
        self.pass_urgent();
        self.refuse_adverts(now);
    }

    /// Forgets a message that is read, or that no program will read.
    fn forget(&mut self, slot: u16) {
        if let Some(place) = self.places.get_mut(usize::from(slot)) {
            *place = None;
        }
    }

    /// The program reads no longer.
    pub(super) fn shut_receive(&mut self) {
        self.is_shut = true;
        while let Some(slot) = self.core.shutdown_receive() {
            self.forget(slot);
        }
    }

    /// Posts the receive buffers that the peer may fill. There are spares for one that a reader
    /// still copies from.
    fn post_buffers(&mut self) {
        let wanted = self.core.wanted_buffers();
        let Some(channel) = self.channel.as_ref().filter(|_| wanted > 0) else {
            return;
        };
        match channel.post_buffers(wanted) {
            Ok(posted) => self.core.handle_posted(posted),
            Err(_) => self.is_lost = true,
        }
    }

    /// Posts the messages that are due, or a test of the link. Returns whether one was due and there was no slot for the
    /// first.
    pub(super) fn post_due(&mut self, now: Instant) -> bool {
        self.post_buffers();
        self.change_ring();
        let mut is_first = true;
        loop {
            let (Some(channel), Some(source)) = (&self.channel, &self.source) else {
                return false;
            };
            let is_test = !self.core.has_due();
            if is_test && !self.core.has_test() {
                return false;
            }
            let slot = channel.try_reserve(0);
            let Some(slot) = slot else {
                return is_first;
            };
            if is_test {
                let token = self.core.poll_test(now);
                let posted = token.map_or(Ok(()), |token| slot.post_test(token));
                // The channel says that it is broken.
                self.is_lost |= posted.is_err();
                return false;
            }
            let Some(message) = self.core.poll_transmit(now) else {
                return false;
            };
            is_first = false;
            let segments = match message.payload {
                PayloadFrom::Ring(segments) => segments,
                PayloadFrom::Nothing | PayloadFrom::Lent { .. } => [Segment::default(); 2],
            };
            let pieces = segments.map(|segment| GatherPiece {
                source,
                offset: segment.off,
                len: segment.len,
            });
            let flags = SendFlags {
                solicited: message.solicited,
                signal: message.signal,
            };
            let header = message.header.as_slice();
            let header = match message.invalidate {
                Some(rkey) => SlotMessage::invalidating(header, rkey),
                None => header.into(),
            };
            let posted = slot.post_gathered(message.token, header, &pieces, flags);
            if posted.is_err() {
                // The channel says that it is broken.
                self.is_lost = true;
                return false;
            }
            self.count(&message);
        }
    }

    fn count(&mut self, message: &Outbound) {
        let counters = &mut self.counters;
        counters.tx_messages = counters.tx_messages.wrapping_add(1);
        if let PayloadFrom::Ring(pieces) = &message.payload {
            let octets = pieces.iter().map(|piece| u64::from(piece.len));
            let octets = octets.fold(0, u64::wrapping_add);
            counters.tx_bytes = counters.tx_bytes.wrapping_add(octets);
        }
    }

    /// Runs timers that are due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.core.handle_timeout(now);
        if self.orphan_until.is_some_and(|until| until <= now) {
            self.orphan_until = None;
            if self.core.state() != EndState::Closed {
                self.core.abort(now);
            }
        }
    }

    /// Changes since the last call.
    pub(super) fn events(&mut self) -> StreamEvents {
        let news = self.core.take_events();
        let grows = self.asks_for_buffers() || self.asks_for_halves();
        let moves = self.core.is_moving() && !self.is_moving;
        StreamEvents {
            readable: news.readable,
            writable: news.writable,
            urgent: news.urgent,
            closing: news.over || self.is_lost || grows || moves,
            error: false,
        }
    }

    /// Sets whether later data waits for more.
    pub(super) fn cork(&mut self, now: Instant, corked: bool) {
        self.core.set_corked(corked);
        let until = self.corked_until;
        let until = until.unwrap_or(now.saturating_add(ConnTimers::CORK));
        let waits = corked && self.core.unsent() > 0;
        self.corked_until = waits.then_some(until);
    }
}
