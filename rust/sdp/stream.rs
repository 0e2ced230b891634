// SPDX-License-Identifier: GPL-2.0

//! The data side of SDP as the socket engine sees it.

use super::{
    data::SdpData,
    messages::SdpChannelOps,
    offer::ACK_TIMEOUT,
    setup::SdpConnection, //
};
use crate::{
    kapi::{
        net::sock::TcpState,
        verbs::{
            channel::{
                Channel,
                ReceivedPart, //
            },
            device::Device,
            sendbuf::SendBuffer,
            user_pages::LentMemory, //
        },
    },
    proto::{
        base::time::{
            earliest,
            Duration,
            Instant, //
        },
        sdp::{
            sink::SinkItem,
            teardown::EndState, //
        },
        stream::{
            events::{
                Fetch,
                Receive,
                StreamEvents, //
            },
            info::StreamInfo,
            keepalive::KeepaliveTimes,
            poll::{
                PollState,
                PollStream,
                PolledSocket, //
            },
            positions::Segment, //
        },
    },
    sock::{
        context::now,
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

/// The part of a received message that a reader copies from.
pub(crate) struct MessageMemory(Option<ReceivedPart<SdpChannelOps>>);

impl Readable for MessageMemory {
    fn copy_to_iter(&self, offset: usize, len: usize, to: &mut IovIterDest<'_>) -> Result<usize> {
        let part = self.0.as_ref().ok_or(EFAULT)?;
        part.copy_to_iter(offset, len, to)
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result {
        self.0.as_ref().ok_or(EFAULT)?.read(offset, to)
    }
}

impl LendTarget for Arc<Channel<SdpChannelOps>> {
    fn device(&self) -> &Arc<Device> {
        Channel::device(self)
    }

    fn pieces(&self) -> usize {
        Channel::pieces(self)
    }
}

impl SdpData {
    /// Whether no data comes, besides that of the queue.
    fn is_read_ended(&self) -> bool {
        self.is_shut || self.core.is_peer_done() || self.core.state() == EndState::Closed
    }
}

impl Stream for SdpData {
    type Owner = SdpConnection;
    /// The data side exists before the peer can send.
    type Early = ();
    type Memory = MessageMemory;
    type Target = Arc<Channel<SdpChannelOps>>;

    fn send_state(&self) -> SendState {
        match self.core.can_send() {
            // What is written waits for a new link that comes up.
            Ok(()) if self.channel.is_none() && !self.is_moving => SendState::Full,
            Ok(()) if self.growth.is_changing() => SendState::Full,
            Ok(()) if self.core.send_room() == 0 => SendState::Full,
            Ok(()) => SendState::Open,
            Err(Some(_)) if !self.is_reported => SendState::Full,
            Err(_) => SendState::Broken,
        }
    }

    fn send_memory(&self, want: u32) -> Option<(&Arc<SendBuffer>, [Segment; 2])> {
        Some((&self.sendbuf, self.core.send_segments(want)))
    }

    fn set_flags(&mut self, flags: SendFlags) {
        self.core.set_prompt(flags.nodelay);
        self.cork(now(), flags.corked);
    }

    fn write(&mut self, now: Instant, bytes: u32, urgent: bool) {
        self.core.write(now, bytes);
        if urgent {
            self.core.mark_urgent();
        }
        if self.corked_until.is_none() && self.core.is_corked() {
            self.cork(now, true);
        }
    }

    fn lend_target(&self, _want: u32) -> Option<(Self::Target, u32)> {
        None
    }

    fn lend(&mut self, _now: Instant, _target: &Self::Target, _memory: &Arc<LentMemory>) -> bool {
        false
    }

    fn take_finished(&mut self) -> Option<Finished> {
        None
    }

    fn holds_back(&self) -> bool {
        self.core.is_gathering()
    }

    fn flush(&mut self) {
        self.core.set_prompt(true);
        self.cork(now(), false);
    }

    fn poll_coalesced(&self) -> Option<Instant> {
        earliest(self.corked_until, self.core.poll_coalesced())
    }

    fn handle_coalesced(&mut self, now: Instant) {
        self.core.handle_coalesced(now);
        if self.corked_until.is_some_and(|at| at <= now) {
            self.cork(now, false);
        }
    }

    fn on_empty_read(&mut self) {
        self.core.on_empty_read();
    }

    fn set_corked(&mut self, corked: bool) {
        self.cork(now(), corked);
    }

    fn is_inline(&self) -> bool {
        self.core.urgent().is_inline()
    }

    fn set_inline(&mut self, inline: bool) {
        self.core.set_inline(inline);
        self.pass_urgent();
    }

    fn recv_available(&self) -> u32 {
        u32::try_from(self.core.readable_octets()).unwrap_or(u32::MAX)
    }

    fn recv_until_mark(&self, skip: u32) -> Option<u32> {
        let (next, _) = self.core.recv_positions();
        self.core.urgent().until_mark(next, skip)
    }

    fn leave_mark(&mut self) {
        self.core.leave_mark();
    }

    fn recv_state(&self) -> Receive {
        match self.core.next_received() {
            SinkItem::End => Receive::Eof,
            SinkItem::Octets { .. } | SinkItem::Advert { .. } => Receive::More,
            SinkItem::Nothing if self.is_shut => Receive::Eof,
            SinkItem::Nothing => match self.core.read_error() {
                Some(_) if self.is_reported => Receive::Failed,
                Some(_) => Receive::More,
                None if self.core.state() == EndState::Closed => Receive::Eof,
                None => Receive::More,
            },
        }
    }

    fn received(&self, skip: u32, count: u32) -> Received<MessageMemory> {
        let found = self.core.octets_at(skip);
        let (slot, off, len) = found.unwrap_or((u16::MAX, 0, 0));
        let len = len.min(count);
        let (next, _) = self.core.recv_positions();
        let last = u64::from(skip.saturating_add(len)).saturating_sub(1);
        let message = self.places.get(usize::from(slot)).and_then(Option::as_ref);
        let part = message.and_then(|message| {
            let (off, len) = (usize::try_from(off).ok()?, usize::try_from(len).ok()?);
            message.part(off, len).ok()
        });
        Received {
            memory: MessageMemory(part),
            segments: [Segment { off: 0, len }, Segment::default()],
            time: self.arrivals.time_of(next.saturating_add(last)),
        }
    }

    fn read(&mut self, bytes: u32) {
        let total = &mut self.counters.rx_bytes;
        *total = total.wrapping_add(u64::from(bytes));
        self.consume(now(), bytes);
    }

    fn recv_hint(&self) -> u32 {
        // As with TCP, the end of the peer counts as one octet.
        let end = u32::from(self.core.is_peer_done());
        // So does the urgent octet that the reader stands at, though a read skips it.
        let skipped = u32::from(self.core.urgent().is_passed());
        self.recv_available()
            .saturating_add(skipped)
            .saturating_add(end)
    }

    fn fetch_urgent(&mut self, take: bool) -> (Fetch, u8) {
        (self.core.fetch_urgent(take), self.urgent_octet)
    }

    fn is_at_mark(&self) -> bool {
        let (next, _) = self.core.recv_positions();
        self.core.urgent().is_at_mark(next)
    }

    fn outstanding(&mut self) -> u32 {
        self.core.outstanding()
    }

    fn unsent(&self) -> u32 {
        u32::try_from(self.core.unsent()).unwrap_or(u32::MAX)
    }

    fn is_connected(&self) -> bool {
        self.core.state() != EndState::Closed
    }

    fn shutdown(&mut self, read: bool, write: bool) {
        if read {
            // As with TCP, data that has come, or comes, stays readable.
            self.is_shut = true;
        }
        if write {
            self.core.shutdown_send();
        }
    }

    fn close(&mut self, now: Instant) {
        self.core.close(now);
        self.shut_receive();
    }

    fn abort(&mut self, now: Instant) {
        self.core.abort(now);
    }

    fn is_drained(&self) -> bool {
        !self.core.has_unsent()
    }

    fn is_closed(&self) -> bool {
        self.core.state() == EndState::Closed && self.channel.is_none()
    }

    fn poll_state(&self, socket: &PolledSocket) -> PollState {
        let error = self.core.read_error().is_some();
        if error && !self.is_reported {
            return PollState::Failing;
        }
        let read_ended = self.is_read_ended();
        let available = self.recv_available();
        let ring = u32::try_from(self.sendbuf.len()).unwrap_or(u32::MAX);
        PollState::Connected(PollStream {
            data: available > 0 && available >= socket.low_water,
            room: self.core.send_room() >= ring / 3 && !self.growth.is_changing(),
            urgent: self.core.urgent().is_urgent(),
            read_ended,
            write_ended: self.core.can_send().is_err(),
            error: socket.error,
            error_queue: socket.error_queue,
        })
    }

    fn shown_state(&self) -> Option<TcpState> {
        Some(match self.core.state() {
            EndState::Open | EndState::Draining => TcpState::Established,
            EndState::FinSent => TcpState::FinWait2,
            EndState::PeerDone | EndState::PeerDoneDraining => TcpState::CloseWait,
            EndState::LastSent => TcpState::LastAck,
            EndState::Ending => TcpState::TimeWait,
            EndState::Aborting { .. } | EndState::Closed => TcpState::Close,
        })
    }

    fn info(&self, now: Instant) -> Option<StreamInfo> {
        Some(StreamInfo {
            rto: Duration::from_ack_code(ACK_TIMEOUT),
            ..self.core.info(now)
        })
    }

    fn state_name(&self) -> &'static str {
        self.core.state().name()
    }

    fn traffic(&self) -> Traffic {
        self.counters
    }

    fn take_events(&mut self) -> StreamEvents {
        self.events()
    }

    fn pump(&mut self, _owner: &Arc<SdpConnection>, now: Instant, _turn: bool) -> bool {
        self.post_due(now)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        earliest(self.core.poll_timeout(), self.orphan_until)
    }

    fn set_keepalive(&mut self, now: Instant, times: KeepaliveTimes) {
        self.core.set_patience(now, times.idle, times.stalled);
    }
}
