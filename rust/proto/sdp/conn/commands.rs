// SPDX-License-Identifier: GPL-2.0

//! What the application does, and what the engine does for it.

use super::SdpConn;
use crate::proto::{
    base::time::{
        Duration,
        Instant, //
    },
    sdp::{
        msg::HalfMode,
        policy,
        profile::Dialect,
        sink::{
            ReadOp,
            ReadTo,
            SinkItem, //
        },
        teardown::{
            EndError,
            EndState, //
        },
    },
    stream::{
        events::Fetch,
        info::StreamInfo,
        positions::Segment,
        urgent::UrgentReader, //
    },
};

impl SdpConn {
    // Sending.

    /// Whether the application may write; otherwise why not. `None`: it has ended its direction
    /// (SDP-CLS-04, SDP-ERRNO-5).
    pub(crate) fn can_send(&self) -> Result<(), Option<EndError>> {
        if self.end.is_open_for_sending() {
            Ok(())
        } else {
            Err(self.end.error())
        }
    }

    /// Free octets of the send ring.
    pub(crate) fn send_room(&self) -> u32 {
        self.source.room()
    }

    /// Octets of the stream that the send ring holds.
    pub(crate) fn outstanding(&self) -> u32 {
        self.source.outstanding()
    }

    /// The send ring is another one from now on, of `octets` octets. `false`, and nothing has changed,
    /// while the old one holds data that the peer may not have.
    pub(crate) fn resize_ring(&mut self, octets: u32) -> bool {
        self.source.resize_ring(octets)
    }

    /// Where to copy up to `want` octets to. The second piece may be empty.
    pub(crate) fn send_segments(&self, want: u32) -> [Segment; 2] {
        self.source.segments(want)
    }

    /// Accepts octets that the engine has copied to where [`Self::send_segments`] said.
    pub(crate) fn write(&mut self, now: Instant, count: u32) {
        if self.end.is_open_for_sending() {
            let is_first = !self.source.has_unsent();
            self.source.accept(count);
            self.coalescer
                .note_write(now, is_first && self.source.is_patient());
            self.hold();
            self.rearm(now);
        }
    }

    /// Passes on whether small data is held.
    pub(super) fn hold(&mut self) {
        self.source.set_held(self.coalescer.until().is_some());
    }

    /// When to call [`Self::handle_coalesced`]: small data is held until then.
    pub(crate) const fn poll_coalesced(&self) -> Option<Instant> {
        self.coalescer.until()
    }

    /// Small data has been held for long enough, if it is that late.
    pub(crate) fn handle_coalesced(&mut self, now: Instant) {
        if self.coalescer.until().is_some_and(|at| at <= now) {
            self.end_hold();
        }
    }

    /// Holds small data no longer.
    pub(super) fn end_hold(&mut self) {
        self.coalescer.end();
        self.hold();
    }

    /// Notes a read that found no data: probably no write follows.
    pub(crate) fn on_empty_read(&mut self) {
        self.coalescer.note_look();
        self.hold();
    }

    /// The last octet that was written is urgent (SDP-OOB-01).
    pub(crate) fn mark_urgent(&mut self) {
        self.source.mark_urgent();
    }

    /// How many of `want` octets the application may lend; 0 if none.
    pub(crate) fn lendable(&self, want: u32) -> u32 {
        self.source.lendable(want)
    }

    /// Accepts octets that the application lends; gives their place. `stag` is a key of the device
    /// for them, which is registered with the message that advertises it, and `va` the tagged
    /// offset of the first octet. `None`: nothing was taken.
    pub(crate) fn lend(
        &mut self,
        now: Instant,
        count: u32,
        va: u64,
        stag: Option<u32>,
    ) -> Option<usize> {
        if !self.end.is_open_for_sending() {
            return None;
        }
        let place = self.source.lend(count, va, stag);
        self.rearm(now);
        place
    }

    /// Takes all adverts back: a timeout, a signal (SDP-SRCX-01). `true`: the peer has to answer
    /// first, and what it has not read is sent as Data then.
    pub(crate) fn revoke_sources(&mut self, now: Instant) -> bool {
        let waits = self.end.is_live() && self.source.revoke();
        self.rearm(now);
        waits
    }

    /// Gives the unsent end of the last lent part back to the application; gives its octets.
    /// `None`: the peer may read it, or has refused to, so that it has to be sent.
    pub(crate) fn retract(&mut self, place: usize) -> Option<u64> {
        self.source.retract(place)
    }

    /// Sets whether small data goes at once (TCP_NODELAY). Otherwise it waits while data is in flight, as
    /// Nagle's algorithm has it.
    pub(crate) fn set_prompt(&mut self, prompt: bool) {
        self.source.set_prompt(prompt);
        if prompt {
            self.end_hold();
        }
    }

    /// Whether small data waits for more of it, or for the completion of data in flight.
    pub(crate) fn is_gathering(&self) -> bool {
        let waits = self.coalescer.until().is_some() || self.source.is_gathering();
        self.source.unsent() > 0 && !self.source.is_corked() && waits
    }

    /// Sets whether the application has more data to write (MSG_MORE, TCP_CORK).
    pub(crate) fn set_corked(&mut self, corked: bool) {
        if corked != self.source.is_corked() {
            self.end_hold();
        }
        self.source.set_corked(corked);
    }

    /// Whether the application has more data to write.
    pub(crate) fn is_corked(&self) -> bool {
        self.source.is_corked()
    }

    /// Changes our mode when the rules allow it (SDP-MT-11). The peer must know modes.
    pub(crate) fn want_mode(&mut self, mode: HalfMode) {
        self.source.want_mode(mode);
    }

    /// The key of lent memory that the engine has to invalidate (SDP-STAG-02).
    pub(crate) fn poll_invalidate(&mut self) -> Option<usize> {
        self.source.poll_invalidate()
    }

    /// That key is invalid.
    pub(crate) fn handle_invalidated(&mut self, place: usize) {
        self.source.on_invalidated(place);
    }

    /// Gives lent memory a fresh key, so that it can be advertised again (SDP-STAG-06).
    pub(crate) fn rekey(&mut self, place: usize, stag: u32) -> bool {
        self.source.rekey(place, stag)
    }

    /// Lent memory that neither the link nor the peer uses from now on.
    pub(crate) fn poll_release(&mut self) -> Option<usize> {
        self.source.poll_release()
    }

    /// Whether the application has lent memory that is in use.
    pub(crate) fn has_lent(&self) -> bool {
        self.source.has_lent()
    }

    /// Octets that wait to be sent or advertised.
    pub(crate) fn unsent(&self) -> u64 {
        self.source.unsent()
    }

    /// Whether data waits to be sent or advertised.
    pub(crate) fn has_unsent(&self) -> bool {
        self.source.has_unsent()
    }

    // Receiving.

    /// What a reader finds. The end of the stream stays clean when the link breaks later, but not
    /// when the peer aborts (SDP-CLS-14, SDP-ABT-07).
    pub(crate) fn next_received(&self) -> SinkItem {
        match self.sink.next() {
            SinkItem::End if self.end.is_aborted() => SinkItem::Nothing,
            item => item,
        }
    }

    /// Whether the peer has ended its direction in order: no data comes behind that of the queue.
    pub(crate) const fn is_peer_done(&self) -> bool {
        self.end.is_peer_done() && !self.end.is_aborted()
    }

    /// Why there is nothing more to read, once [`Self::next_received`] has nothing.
    pub(crate) const fn read_error(&self) -> Option<EndError> {
        self.end.error()
    }

    /// Octets that wait for a reader.
    pub(crate) fn readable_octets(&self) -> u64 {
        self.sink.octets()
    }

    /// The buffer with the octet that is `skip` octets behind the next one to read, the octet's
    /// offset in it, and the octets from there to its end.
    pub(crate) fn octets_at(&self, skip: u32) -> Option<(u16, u32, u32)> {
        self.sink.octets_at(skip)
    }

    /// The reader has consumed octets of the first buffer. Gives the buffer if it is free now.
    pub(crate) fn consumed(&mut self, now: Instant, count: u32) -> Option<u16> {
        let there = self.sink.octets_at(0).map_or(0, |(_, _, len)| len);
        let count = core::cmp::min(count, there);
        let free = self.sink.consume(count);
        if count > 0 {
            self.read = self.read.saturating_add(u64::from(count));
            self.urgent.advance(self.read);
        }
        self.rearm(now);
        free
    }

    /// Positions in the stream of the next octet to read, and of the one behind the last that came.
    pub(crate) fn recv_positions(&self) -> (u64, u64) {
        (self.read, self.read.saturating_add(self.sink.octets()))
    }

    // Urgent data.

    /// Sets whether urgent octets are part of the stream (SO_OOBINLINE). [`Self::poll_passed`]
    /// follows, also after each message and each read.
    pub(crate) fn set_inline(&mut self, inline: bool) {
        self.urgent.set_inline(inline);
    }

    /// The urgent octet as the reader sees it.
    pub(crate) const fn urgent(&self) -> &UrgentReader {
        &self.urgent
    }

    /// Whether the last octet of the message that was just taken in is the urgent one, which the
    /// engine has to copy. Only the first call says so.
    pub(crate) fn poll_urgent(&mut self) -> bool {
        core::mem::take(&mut self.is_urgent_new)
    }

    /// Takes the urgent octet out of the stream if it is the next one and not in line. Gives the
    /// buffer, which is free then.
    pub(crate) fn poll_passed(&mut self) -> Option<u16> {
        if !self.urgent.takes_out(self.read) {
            return None;
        }
        self.read = self.read.saturating_add(1);
        self.sink.consume(1)
    }

    /// What recv(MSG_OOB) finds; with `take` the octet counts as fetched.
    pub(crate) fn fetch_urgent(&mut self, take: bool) -> Fetch {
        self.urgent.fetch(take)
    }

    /// The reader at the mark goes on behind it.
    pub(crate) fn leave_mark(&mut self) {
        self.urgent.leave_mark();
    }

    // A peer that may be gone.

    /// Sets after which idle time the peer is tested, and how long data may wait without any
    /// progress (SO_KEEPALIVE, TCP_USER_TIMEOUT). `None`: never, and for any time.
    pub(crate) fn set_patience(
        &mut self,
        now: Instant,
        idle: Option<Duration>,
        stalled: Option<Duration>,
    ) {
        self.keepalive.set(now, idle);
        self.is_probing &= idle.is_some();
        self.patience = stalled;
        self.stall_at = None;
        self.rearm(now);
    }

    /// Sets how many tests a peer has that lets a closed connection wait (`tcp_orphan_retries`).
    pub(crate) fn set_orphan_tests(&mut self, most: u8) {
        self.config.timers.persist.most = most;
    }

    /// The device has tried in vain to reach the peer: the link will go down (SDP-ERRNO-9).
    pub(crate) fn handle_silence(&mut self) {
        self.is_silent = true;
    }

    /// The figures of the connection, but for the time after which the device repeats a message.
    pub(crate) fn info(&self, now: Instant) -> StreamInfo {
        let (tx, rx) = (&self.tx, &self.rx);
        let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        // The last two buffers are not for payload (SDP-CRED-30).
        let octets = |bufs: u64, size: u32| small(bufs.saturating_sub(2)).saturating_mul(size);
        let send_mss = self.source.payload_limit();
        let recv_mss = self.resize.size().saturating_sub(16);
        StreamInfo {
            rto: Duration::ZERO,
            send_mss,
            recv_mss,
            in_flight: self.meter.in_flight(tx.sent(), tx.acked()),
            window: small(tx.bufs()),
            send_window: octets(tx.available(), send_mss),
            recv_window: octets(rx.peer_credit(), recv_mss),
            unsent: small(self.source.unsent()),
            meter: self.meter.figures(now, tx.sent(), rx.received()),
        }
    }

    /// A reader with a buffer of `len` octets has come. In Buffered Mode it may be worth a change
    /// (SDP-M31-3).
    pub(crate) fn note_reader(&mut self, len: u32) {
        let is_full = self.profile.dialect == Dialect::Full;
        if is_full && policy::suits_combined(len, self.resize.told()) {
            self.sink.want_combined();
        }
    }

    /// Begins an RDMA Read of up to `room` octets of the first advert. `None`: not now. A report of
    /// the read takes a credit, which must be there before.
    pub(crate) fn begin_read(&mut self, now: Instant, to: ReadTo, room: u32) -> Option<ReadOp> {
        let is_poor = self.keeps_reserve && self.tx.available() < 2;
        self.is_read_blocked = is_poor;
        if is_poor || self.suspend.is_active() || !self.end.is_live() {
            return None;
        }
        let op = self.sink.begin_read(to, room);
        self.rearm(now);
        op
    }

    /// The oldest RDMA Read has completed. Gives its octets if they are the reader's.
    pub(crate) fn handle_read(&mut self, now: Instant) -> u32 {
        let count = self.sink.handle_read();
        self.read = self.read.saturating_add(u64::from(count));
        self.events.readable = true;
        self.rearm(now);
        count
    }

    /// The rest of the first advert does not suit the reader, and shall come as Data (SDP-RZK-03).
    pub(crate) fn refuse_advert(&mut self, now: Instant) {
        self.sink.refuse();
        self.rearm(now);
    }

    /// The application reads no longer: what comes is dropped. Gives the buffers that are free
    /// now, one with each call.
    pub(crate) fn shutdown_receive(&mut self) -> Option<u16> {
        self.sink.shut()
    }

    // Receive buffers.

    /// Lets the pool of receive buffers grow to `most` of them, when the peer sends much.
    pub(crate) fn let_pool_grow(&mut self, most: u16) {
        self.rx.let_grow(most);
    }

    /// Receive buffers that the connection should have, posted or not.
    pub(crate) fn pool_size(&self) -> u16 {
        if self.end.is_live() {
            self.rx.pool()
        } else {
            0
        }
    }

    /// There is no memory for more than `bufs` receive buffers at the moment.
    pub(crate) fn limit_pool(&mut self, bufs: u16) {
        self.rx.limit(bufs);
    }

    /// Receive buffers to post now.
    pub(crate) fn wanted_buffers(&self) -> u16 {
        if self.end.is_live() {
            self.rx.wanted(self.sink.queued())
        } else {
            0
        }
    }

    /// Their size in octets.
    pub(crate) const fn buffer_size(&self) -> u32 {
        self.resize.size()
    }

    /// Octets of the larger receive buffers that the peer wants, while it waits for
    /// [`Self::grow_buffers`].
    pub(crate) fn wanted_size(&self) -> Option<u32> {
        self.resize.wanted()
    }

    /// All receive buffers that are posted from now on have the wanted size if there `is_memory`.
    pub(crate) fn grow_buffers(&mut self, is_memory: bool) {
        self.resize.grow(is_memory, self.rx.posted());
    }

    /// Receive buffers were posted.
    pub(crate) fn handle_posted(&mut self, count: u16) {
        self.rx.on_post(count);
    }

    // The end.

    /// Where the connection stands.
    pub(crate) const fn state(&self) -> EndState {
        self.end.state()
    }

    /// Whether no program has the socket.
    pub(crate) const fn is_released(&self) -> bool {
        self.end.is_released()
    }

    /// The application ends its direction (SDP-CLS-06).
    pub(crate) fn shutdown_send(&mut self) {
        // There will be no more of it.
        self.set_corked(false);
        self.set_prompt(true);
        self.end.end_sending();
    }

    /// The application closes the socket. Data that it has not read is lost, which the peer has to
    /// know, as with TCP. A connection that has ended before signals its end again: the engine frees it
    /// now.
    pub(crate) fn close(&mut self, now: Instant) {
        self.end.release(now);
        if self.sink.octets() > 0 {
            self.break_off(now, EndError::Aborted);
        } else {
            self.shutdown_send();
            self.note_end();
        }
        self.rearm(now);
    }

    /// This side aborts.
    pub(crate) fn abort(&mut self, now: Instant) {
        self.break_off(now, EndError::Aborted);
        self.rearm(now);
    }

    /// Ends the connection for a reason (SDP-ABT-01 to SDP-ABT-03).
    pub(super) fn break_off(&mut self, now: Instant, error: EndError) {
        self.end.abort(now, error, !self.suspend.is_silent());
        self.note_end();
    }

    /// Signals the end to the engine.
    pub(super) fn note_end(&mut self) {
        if !self.end.is_live() {
            self.events.over = true;
            self.events.readable = true;
            self.events.writable = true;
        }
    }

    /// Whether the engine has to take the link down. Only the first call says so.
    pub(crate) fn poll_take_down(&mut self) -> bool {
        self.end.poll_take_down()
    }

    /// The port to connect to, at the peer's address and from our port, when the link is closed
    /// (SDP-DUP-17, SDP-DUP-18). Only the first call says so.
    pub(crate) fn poll_move(&mut self) -> Option<u16> {
        self.suspend.poll_move()
    }

    /// Whether the link is, or may be, down while another one comes up.
    pub(crate) fn is_moving(&self) -> bool {
        self.suspend.is_moving() && self.end.is_live()
    }

    /// The other link has not come up (SDP-DS-5).
    pub(crate) fn handle_move_failed(&mut self, now: Instant) {
        self.suspend.give_up();
        self.handle_link_down(now);
    }

    /// The link is down, and no work request is left.
    pub(crate) fn handle_link_down(&mut self, now: Instant) {
        if self.is_moving() {
            return;
        }
        let error = if self.is_silent {
            EndError::TimedOut
        } else {
            EndError::Reset
        };
        self.end.handle_link_down(error);
        self.source.on_link_down();
        self.sink.on_link_down();
        self.rx.release();
        self.note_end();
        self.rearm(now);
    }
}
