// SPDX-License-Identifier: GPL-2.0

//! The half of a connection where we receive: the queue of data, SrcAvail adverts of the peer, and
//! what we read of them, draft 9.2 and 9.5.4 (SDP-RZK-*, SDP-SRCX-*).
//!
//! In the stream, adverts lie behind all data of the queue: data may follow an advert only when
//! the advert is processed, and then what was read of it is in the queue or with the reader.

use super::{
    discards::MAX_ADVERTS,
    fifo::Fifo,
    msg::{
        Advert,
        HalfMode, //
    },
    violation::SdpViolation,
};

/// Receive buffers and read buffers that hold data, at most.
pub(crate) const MAX_QUEUE: usize = 80;

/// RDMA Reads in flight, at most.
pub(crate) const MAX_READS: usize = 16;

/// Payload of at most this number of octets is put behind that of the buffer before (SDP-UBUF-04).
const APPENDED: u32 = 2048;

/// A buffer with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SinkEntry {
    /// The engine's number of the buffer.
    slot: u16,
    /// Offset of the first octet that is not consumed.
    off: u32,
    /// Octets that are not consumed.
    len: u32,
    /// Octets that the buffer holds.
    size: u32,
    /// Its last octet is urgent.
    is_marked: bool,
    /// It is a receive buffer.
    is_pooled: bool,
}

/// A SrcAvail of the peer that is not processed (SDP-ST-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PeerAdvert {
    /// What may be read.
    advert: Advert,
    /// Octets at its start that came as payload.
    payload: u32,
    /// Octets behind these that are read or being read.
    started: u32,
    /// Octets of them that are read.
    read: u32,
    /// Octets of them that the peer knows of.
    reported: u32,
    /// The rest shall come as Data.
    is_refused: bool,
}

impl PeerAdvert {
    /// Octets that no read has been started for.
    fn unstarted(&self) -> u32 {
        let came = self.payload.saturating_add(self.started);
        self.advert.len.saturating_sub(came)
    }

    /// Octets that the peer does not know we have.
    fn left(&self) -> u32 {
        let came = self.payload.saturating_add(self.reported);
        self.advert.len.saturating_sub(came)
    }

    /// Whether a read was started whose report has not been sent (SDP-LK-3, SDP-LK-4).
    const fn is_in_process(&self) -> bool {
        self.started > self.reported
    }
}

/// Where a SrcAvailCancel of the peer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SinkCancel {
    /// There is none.
    None,
    /// Reads in flight have to end and to be reported. Whether anything is cut off then.
    Draining { is_cut: bool },
    /// SendSm has to be sent (SDP-SRCX-10).
    Refusing,
}

/// What has to happen to acknowledgements when the peer cancels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CancelEffect {
    /// Nothing.
    Nothing,
    /// They are held before the cancel (SDP-SRCX-06).
    Hold,
}

/// Where an RDMA Read puts its octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReadTo {
    /// To the reader: they are consumed when they are there.
    Reader,
    /// Into a buffer of the engine, which becomes part of the queue.
    Buffer(u16),
}

/// An RDMA Read that is not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PendingRead {
    to: ReadTo,
    len: u32,
}

/// An RDMA Read to post (SDP-RZK-24). Reads complete in the order in which they were begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadOp {
    /// What to read.
    pub(crate) advert: Advert,
    /// Where to.
    pub(crate) to: ReadTo,
}

/// What a reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SinkItem {
    /// Octets in a buffer.
    Octets {
        /// The engine's number of the buffer.
        slot: u16,
        /// Offset of the first octet.
        off: u32,
        /// Octets.
        len: u32,
        /// The last one is urgent.
        is_marked: bool,
    },
    /// Octets in memory of the peer that can be read.
    Advert {
        /// Octets that no read has been started for.
        left: u32,
    },
    /// The end of the stream.
    End,
    /// Nothing so far.
    Nothing,
}

/// What becomes of a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RxPlan {
    /// It is free.
    Free,
    /// It holds data from `off` on.
    Queue {
        /// Offset of the payload in the message.
        off: u32,
        /// Octets of payload.
        len: u32,
    },
    /// The engine copies its payload behind that of another buffer, and it is free then.
    Append {
        /// The other buffer.
        slot: u16,
        /// Offset in it.
        at: u32,
        /// Offset of the payload in the message.
        off: u32,
        /// Octets of payload.
        len: u32,
    },
}

/// Payload of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    /// The engine's number of the receive buffer.
    pub(super) slot: u16,
    /// Octets that the buffer holds.
    pub(super) size: u32,
    /// Offset of the payload.
    pub(super) off: u32,
    /// Octets of payload.
    pub(super) len: u32,
    /// The last one is urgent.
    pub(super) is_marked: bool,
}

/// Our receiving half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sink {
    /// Adverts that we take at a time.
    max_adverts: u16,
    /// Reads in flight, at most.
    depth: u16,
    /// The peer's mode.
    mode: HalfMode,
    /// The reader would like Combined Mode.
    wants_combined: bool,
    /// Data that waits for the reader, the oldest first.
    queue: Fifo<SinkEntry, MAX_QUEUE>,
    /// What can be read behind it.
    adverts: Fifo<PeerAdvert, MAX_ADVERTS>,
    /// Reads in flight; all are of the first advert.
    reads: Fifo<PendingRead, MAX_READS>,
    /// Octets that we have refused to read, and that have not come as Data (SDP-ST-15).
    owed: u64,
    /// The peer's cancel.
    cancel: SinkCancel,
    /// The peer has sent DisConn.
    is_ended: bool,
    /// The application reads no longer.
    is_shut: bool,
}

impl Sink {
    pub(super) const fn new(max_adverts: u16, depth: u16) -> Self {
        Self {
            max_adverts,
            depth,
            mode: HalfMode::Combined,
            wants_combined: false,
            queue: Fifo::new(),
            adverts: Fifo::new(),
            reads: Fifo::new(),
            owed: 0,
            cancel: SinkCancel::None,
            is_ended: false,
            is_shut: false,
        }
    }

    // What the peer sends.

    /// Whether payload may come now (SDP-MODE-14, SDP-MODE-19, SDP-RZK-19, SDP-CLS-27).
    fn check_payload(&mut self, len: u32) -> Result<(), SdpViolation> {
        if self.is_ended {
            return Err(SdpViolation::AfterDisConn);
        }
        let is_open = self.adverts.is_empty() && self.cancel == SinkCancel::None;
        if !is_open && u64::from(len) > self.owed {
            return Err(SdpViolation::PayloadBehindSrcAvail);
        }
        self.owed = self.owed.saturating_sub(u64::from(len));
        Ok(())
    }

    /// Payload of Data or SinkAvail.
    pub(super) fn handle_data(&mut self, payload: Payload) -> Result<RxPlan, SdpViolation> {
        self.check_payload(payload.len)?;
        Ok(self.store(payload))
    }

    /// Finds a place for payload.
    fn store(&mut self, payload: Payload) -> RxPlan {
        let Payload {
            slot,
            size,
            off,
            len,
            is_marked,
        } = payload;
        if self.is_shut {
            return RxPlan::Free;
        }
        if let Some(last) = self.queue.back_mut() {
            let at = last.off.saturating_add(last.len);
            let fits = at.saturating_add(len) <= last.size;
            if fits && len <= APPENDED && last.is_pooled && !last.is_marked {
                last.len = last.len.saturating_add(len);
                last.is_marked = is_marked;
                return RxPlan::Append {
                    slot: last.slot,
                    at,
                    off,
                    len,
                };
            }
        }
        // Always fits: there are fewer receive buffers than entries, and reads keep room.
        let _ = self.queue.push(SinkEntry {
            slot,
            off,
            len,
            size,
            is_marked,
            is_pooled: true,
        });
        RxPlan::Queue { off, len }
    }

    /// SrcAvail (SDP-ERR-10, SDP-ERR-12, SDP-ERR-13, SDP-MODE-13, SDP-MODE-17).
    pub(super) fn handle_src_avail(
        &mut self,
        advert: Advert,
        payload: Payload,
    ) -> Result<RxPlan, SdpViolation> {
        if self.is_ended {
            return Err(SdpViolation::AfterDisConn);
        }
        let has_payload = payload.len > 0;
        match self.mode {
            HalfMode::Buffered => return Err(SdpViolation::SrcAvailMode),
            HalfMode::Combined if !has_payload => return Err(SdpViolation::SrcAvailMode),
            HalfMode::Pipelined if has_payload => return Err(SdpViolation::SrcAvailMode),
            HalfMode::Combined if !self.adverts.is_empty() || self.owed > 0 => {
                return Err(SdpViolation::SecondSrcAvail);
            }
            _ => {}
        }
        if self.cancel != SinkCancel::None {
            // Not before its cancel is processed (SDP-SRCX-11).
            return Err(SdpViolation::SecondSrcAvail);
        }
        if self.adverts.len() >= usize::from(self.max_adverts) {
            return Err(SdpViolation::TooManyAdverts);
        }
        let peer = PeerAdvert {
            advert,
            payload: payload.len,
            started: 0,
            read: 0,
            reported: 0,
            // If all of it is payload there is nothing to read, and SendSm ends it.
            is_refused: self.is_shut || payload.len == advert.len,
        };
        let plan = if has_payload {
            self.store(payload)
        } else {
            RxPlan::Free
        };
        if !self.adverts.push(peer) {
            return Err(SdpViolation::TooManyAdverts);
        }
        Ok(plan)
    }

    /// SrcAvailCancel (SDP-SRCX-03 to SDP-SRCX-10). An advert whose SendSm was not sent is not
    /// processed, so that the cancel is for it too.
    pub(super) fn handle_src_cancel(&mut self) -> CancelEffect {
        if self.adverts.is_empty() || self.cancel != SinkCancel::None {
            return CancelEffect::Nothing;
        }
        let has_others = self.adverts.len() > 1;
        match self.adverts.front().copied() {
            Some(mut head) if head.is_in_process() => {
                head.is_refused = false;
                let is_cut = has_others || head.unstarted() > 0;
                self.adverts.clear();
                let _ = self.adverts.push(head);
                self.cancel = SinkCancel::Draining { is_cut };
                CancelEffect::Hold
            }
            _ => {
                self.adverts.clear();
                self.cancel = SinkCancel::Refusing;
                CancelEffect::Nothing
            }
        }
    }

    /// ModeChange of the master for this half (SDP-M31-1, SDP-M31-2, SDP-M31-5, SDP-MT-64).
    pub(super) fn handle_mode_change(&mut self, mode: HalfMode) -> Result<(), SdpViolation> {
        let is_edge = match (self.mode, mode) {
            (HalfMode::Combined, HalfMode::Buffered) => self.adverts.is_empty(),
            (HalfMode::Combined, HalfMode::Pipelined) => true,
            (HalfMode::Pipelined, HalfMode::Combined) => true,
            _ => false,
        };
        if !is_edge {
            return Err(SdpViolation::ModeChange);
        }
        self.mode = mode;
        Ok(())
    }

    /// DisConn (SDP-DISC-01, SDP-ERR-17).
    pub(super) fn handle_end(&mut self) -> Result<(), SdpViolation> {
        if self.is_ended {
            return Err(SdpViolation::AfterDisConn);
        }
        self.is_ended = true;
        Ok(())
    }

    // The reader.

    /// What a reader finds next.
    pub(super) fn next(&self) -> SinkItem {
        if let Some(entry) = self.queue.front() {
            return SinkItem::Octets {
                slot: entry.slot,
                off: entry.off,
                len: entry.len,
                is_marked: entry.is_marked,
            };
        }
        if self.owed == 0 && self.cancel == SinkCancel::None {
            if let Some(head) = self.adverts.front() {
                if !head.is_refused && head.unstarted() > 0 {
                    return SinkItem::Advert {
                        left: head.unstarted(),
                    };
                }
                return SinkItem::Nothing;
            }
            if self.is_ended {
                return SinkItem::End;
            }
        }
        SinkItem::Nothing
    }

    /// The reader has consumed octets of the first buffer. Gives the buffer if it is empty.
    pub(super) fn consume(&mut self, count: u32) -> Option<u16> {
        let entry = self.queue.front_mut()?;
        let count = core::cmp::min(count, entry.len);
        entry.off = entry.off.saturating_add(count);
        entry.len = entry.len.saturating_sub(count);
        match entry.len {
            0 => self.queue.pop().map(|entry| entry.slot),
            _ => None,
        }
    }

    /// The buffer with the octet that is `skip` octets behind the first, the octet's offset in it,
    /// and the octets from there to its end.
    pub(super) fn octets_at(&self, skip: u32) -> Option<(u16, u32, u32)> {
        let mut skip = skip;
        for entry in self.queue.iter() {
            match entry.len.checked_sub(skip) {
                Some(len) if len > 0 => {
                    return Some((entry.slot, entry.off.saturating_add(skip), len));
                }
                _ => skip = skip.saturating_sub(entry.len),
            }
        }
        None
    }

    /// Receive buffers that hold data.
    pub(super) fn queued(&self) -> u64 {
        let pooled = self.queue.iter().filter(|entry| entry.is_pooled);
        u64::try_from(pooled.count()).unwrap_or(u64::MAX)
    }

    /// Octets of the queue.
    pub(super) fn octets(&self) -> u64 {
        self.queue.iter().fold(0, |sum: u64, entry| {
            sum.saturating_add(u64::from(entry.len))
        })
    }

    /// Begins an RDMA Read of up to `room` octets (SDP-RZK-04, SDP-RZK-05, SDP-RZK-23).
    pub(super) fn begin_read(&mut self, to: ReadTo, room: u32) -> Option<ReadOp> {
        let depth = core::cmp::min(usize::from(self.depth), MAX_READS);
        let buffers = self.reads.iter();
        let buffers = buffers.filter(|read| matches!(read.to, ReadTo::Buffer(_)));
        let waiting = self.queue.len().saturating_add(buffers.count());
        let is_in_order = match to {
            ReadTo::Reader => waiting == 0,
            // A receive buffer finds room at any time.
            ReadTo::Buffer(_) => waiting < MAX_QUEUE >> 3,
        };
        let is_open = self.cancel == SinkCancel::None && self.owed == 0;
        if self.reads.len() >= depth || !is_in_order || !is_open {
            return None;
        }
        let head = self.adverts.front_mut()?;
        let len = core::cmp::min(head.unstarted(), room);
        if len == 0 || head.is_refused {
            return None;
        }
        let skip = head.payload.saturating_add(head.started);
        let op = ReadOp {
            advert: Advert {
                len,
                stag: head.advert.stag,
                va: head.advert.va.saturating_add(u64::from(skip)),
            },
            to,
        };
        head.started = head.started.saturating_add(len);
        let _ = self.reads.push(PendingRead { to, len });
        Some(op)
    }

    /// The oldest RDMA Read is completed. Gives its octets if they are the reader's.
    pub(super) fn handle_read(&mut self) -> u32 {
        let Some(read) = self.reads.pop() else {
            return 0;
        };
        if let Some(head) = self.adverts.front_mut() {
            head.read = head.read.saturating_add(read.len);
        }
        match read.to {
            ReadTo::Reader => read.len,
            ReadTo::Buffer(slot) => {
                // Always fits: the read was begun with room for it.
                let _ = self.queue.push(SinkEntry {
                    slot,
                    off: 0,
                    len: read.len,
                    size: read.len,
                    is_marked: false,
                    is_pooled: false,
                });
                0
            }
        }
    }

    /// The rest of the first advert shall come as Data (SDP-RZK-01, SDP-RZK-03, SDP-FBK-01).
    pub(super) fn refuse(&mut self) {
        if self.cancel == SinkCancel::None {
            if let Some(head) = self.adverts.front_mut() {
                head.is_refused = true;
            }
        }
    }

    /// Whether the first advert waits for a reader.
    pub(super) fn is_waiting(&self) -> bool {
        let head = self.adverts.front();
        let is_idle = head.is_some_and(|head| !head.is_refused && head.unstarted() > 0);
        is_idle && self.reads.is_empty() && self.owed == 0
    }

    /// The application reads no longer: what comes is dropped. Gives the buffers, one by one.
    pub(super) fn shut(&mut self) -> Option<u16> {
        self.is_shut = true;
        self.refuse();
        self.queue.pop().map(|entry| entry.slot)
    }

    /// A reader whose buffer suits adverts waits in Buffered Mode (SDP-M31-3).
    pub(super) fn want_combined(&mut self) {
        self.wants_combined = self.mode == HalfMode::Buffered;
    }

    // What has to be sent.

    /// The RdmaRdCompl to send now: its octets, and the STag that it invalidates if it is the last
    /// for its advert (SDP-RZK-08 to SDP-RZK-14, SDP-RZK-17, SDP-STAG-03).
    pub(super) fn report(&self) -> Option<(u32, Option<u32>)> {
        let head = self.adverts.front()?;
        let count = head.read.saturating_sub(head.reported);
        if count == 0 || !self.reads.is_empty() {
            return None;
        }
        Some((count, (count == head.left()).then_some(head.advert.stag)))
    }

    /// RdmaRdCompl was posted. Whether acknowledgements are free again (SDP-SRCX-06).
    pub(super) fn on_report_sent(&mut self) -> bool {
        let Some(head) = self.adverts.front_mut() else {
            return false;
        };
        head.reported = head.read;
        let is_done = head.left() == 0;
        if let SinkCancel::Draining { is_cut } = self.cancel {
            self.adverts.clear();
            self.cancel = if is_cut {
                SinkCancel::Refusing
            } else {
                SinkCancel::None
            };
            return true;
        }
        if is_done {
            let _ = self.adverts.pop();
            self.refuse_if_shut();
        }
        false
    }

    /// Whether SendSm has to be sent (SDP-RZK-03, SDP-SRCX-10).
    pub(super) fn is_refusal_due(&self) -> bool {
        match self.cancel {
            SinkCancel::Refusing => true,
            SinkCancel::Draining { .. } => false,
            SinkCancel::None => {
                let head = self.adverts.front();
                head.is_some_and(|head| head.is_refused && !head.is_in_process())
            }
        }
    }

    /// SendSm was posted (SDP-RZK-20, SDP-LK-5).
    pub(super) fn on_refusal_sent(&mut self) {
        if self.cancel == SinkCancel::Refusing {
            self.cancel = SinkCancel::None;
            return;
        }
        if let Some(head) = self.adverts.pop() {
            self.owed = self.owed.saturating_add(u64::from(head.left()));
        }
        self.refuse_if_shut();
    }

    fn refuse_if_shut(&mut self) {
        if self.is_shut {
            self.refuse();
        }
    }

    /// Whether a SrcAvail of the peer is not processed: the second credit is kept for what ends it
    ///
    pub(super) fn is_reserved(&self) -> bool {
        !self.adverts.is_empty() || self.cancel != SinkCancel::None
    }

    /// Whether reads are in flight or not reported.
    pub(super) fn is_in_process(&self) -> bool {
        self.adverts.front().is_some_and(PeerAdvert::is_in_process)
    }

    /// The ModeChange to send now: we are the master in Buffered Mode (SDP-MT-30, SDP-M31-4).
    pub(super) fn mode_change(&self) -> Option<HalfMode> {
        let due = self.mode == HalfMode::Buffered && self.wants_combined;
        due.then_some(HalfMode::Combined)
    }

    /// That ModeChange was posted.
    pub(super) fn on_mode_change_sent(&mut self) {
        self.mode = HalfMode::Combined;
        self.wants_combined = false;
    }

    /// The link is down: adverts are gone, data of the queue is not.
    pub(super) fn on_link_down(&mut self) {
        self.adverts.clear();
        self.reads.clear();
        self.owed = 0;
        self.cancel = SinkCancel::None;
    }

    /// A new link continues the stream (SDP-DUP-05, SDP-DUP-26, AMB-49).
    pub(super) fn resume(&mut self, max_adverts: u16, depth: u16) {
        self.on_link_down();
        self.max_adverts = max_adverts;
        self.depth = depth;
        self.mode = HalfMode::Combined;
        self.wants_combined = false;
    }

    /// Whether acknowledgements are held back for a cancel.
    #[cfg(any(test, fuzzing))]
    pub(super) const fn is_draining(&self) -> bool {
        matches!(self.cancel, SinkCancel::Draining { .. })
    }

    /// Octets that we have refused and that have not come, and adverts that are not processed.
    #[cfg(any(test, fuzzing))]
    pub(super) fn refused_and_adverts(&self) -> (u64, usize) {
        (self.owed, self.adverts.len())
    }

    /// Checks what holds at any time.
    #[cfg(any(test, fuzzing))]
    pub(super) fn check(&self) {
        assert!(self.adverts.len() <= usize::from(self.max_adverts));
        for (at, advert) in self.adverts.iter().enumerate() {
            assert!(advert.reported <= advert.read && advert.read <= advert.started);
            assert!(advert.payload + advert.started <= advert.advert.len);
            assert!(at == 0 || advert.started == 0);
        }
        assert!(self.owed == 0 || self.reads.is_empty());
    }
}
