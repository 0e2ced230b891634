// SPDX-License-Identifier: GPL-2.0

//! One end: the connection, its memory and its application.
//!
//! The application sleeps like the callers of a socket: only an event wakes its reader and its
//! writer, so that a forgotten event stalls the run and is found.

use super::*;
use crate::proto::sdp::{
    extents::MAX_EXTENTS,
    teardown::{
        EndError,
        EndState, //
    },
};
use std::collections::{
    BTreeMap,
    VecDeque, //
};

/// What memory holds when it is not the connection's.
const POISON: u8 = 0xdd;

/// Memory that the application has lent.
pub(super) struct LentMemory {
    octets: Vec<u8>,
    /// Tagged offset of the first octet.
    va: u64,
    /// Its key.
    stag: Option<u32>,
    /// The device knows the key.
    is_valid: bool,
}

/// How an application ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manners {
    /// Writes all, ends its direction, reads to the end, closes.
    HalfClose,
    /// Closes at some time, whatever there is to read or to write.
    CloseEarly,
    /// Aborts at some time.
    Abort,
    /// Does nothing at all.
    Idle,
}

/// What an application does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    pub(super) manners: Manners,
    /// Octets that it writes in all.
    pub(super) to_write: u64,
    /// Lends some of what it writes.
    pub(super) lends: bool,
    /// Takes adverts back now and then.
    pub(super) cancels: bool,
    /// Refuses adverts now and then.
    pub(super) refuses: bool,
    /// Writes urgent octets now and then.
    pub(super) urgent: bool,
    /// Changes modes now and then.
    pub(super) changes_mode: bool,
    /// Changes its send ring now and then.
    pub(super) changes_ring: bool,
}

/// One end.
pub(super) struct SdpEnd {
    side: usize,
    pub(super) conn: SdpConn,
    pub(super) habits: Habits,
    ring: Vec<u8>,
    lent: [Option<LentMemory>; MAX_EXTENTS],
    next_stag: u32,
    /// Places whose key the device invalidates.
    invalidating: VecDeque<usize>,
    /// Buffers that hold data or are posted, by their number.
    pub(super) buffers: BTreeMap<u16, Vec<u8>>,
    /// Receive buffers in the order in which they were posted.
    pub(super) posted: VecDeque<u16>,
    next_slot: u16,
    /// Octets written, without those that were taken back.
    pub(super) written: u64,
    /// Octets read.
    pub(super) read: u64,
    has_shut: bool,
    pub(super) has_closed: bool,
    pub(super) saw_end: bool,
    is_reader_asleep: bool,
    is_writer_asleep: bool,
    /// Urgent octets announced, and found.
    pub(super) urgent_found: u64,
    pub(super) urgent_sent: u64,
}

impl SdpEnd {
    pub(super) fn new(side: usize, conn: SdpConn, habits: Habits, ring: u32) -> Self {
        let mut end = Self {
            side,
            conn,
            habits,
            ring: vec![POISON; ring as usize],
            lent: Default::default(),
            next_stag: 1,
            invalidating: VecDeque::new(),
            buffers: BTreeMap::new(),
            posted: VecDeque::new(),
            next_slot: 0,
            written: 0,
            read: 0,
            has_shut: false,
            has_closed: false,
            saw_end: false,
            is_reader_asleep: false,
            is_writer_asleep: false,
            urgent_found: 0,
            urgent_sent: 0,
        };
        // On some transports HelloAck has used one of those posted.
        for _ in 0..end.conn.posted() {
            end.post_one();
        }
        end
    }

    fn slot(&mut self, size: usize) -> u16 {
        while self.buffers.contains_key(&self.next_slot) {
            self.next_slot = self.next_slot.wrapping_add(1);
        }
        let slot = self.next_slot;
        self.next_slot = self.next_slot.wrapping_add(1);
        self.buffers.insert(slot, vec![POISON; size]);
        slot
    }

    fn post_one(&mut self) {
        let size = self.conn.buffer_size() as usize;
        let slot = self.slot(size);
        self.posted.push_back(slot);
    }

    /// Posts receive buffers; whether there were any to post.
    pub(super) fn post(&mut self) -> bool {
        if self.conn.wanted_size().is_some() {
            // As if memory were there most of the time.
            self.conn.grow_buffers(self.next_slot % 4 != 0);
        }
        let wanted = self.conn.wanted_buffers();
        for _ in 0..wanted {
            self.post_one();
        }
        self.conn.handle_posted(wanted);
        wanted > 0
    }

    // Memory as the device sees it.

    /// Reads payload as the device does while it sends.
    pub(super) fn payload(&self, from: &PayloadFrom) -> Vec<u8> {
        match from {
            PayloadFrom::Nothing => vec![],
            PayloadFrom::Ring(pieces) => pieces
                .iter()
                .flat_map(|piece| &self.ring[piece.off as usize..][..piece.len as usize])
                .copied()
                .collect(),
            PayloadFrom::Lent { place, off, len } => {
                let memory = self.lent[*place].as_ref().expect("memory is lent");
                memory.octets[*off as usize..][..*len as usize].to_vec()
            }
        }
    }

    /// The key of a place becomes valid in front of the message that advertises it.
    pub(super) fn register(&mut self, place: usize) {
        let memory = self.lent[place].as_mut().expect("memory is lent");
        assert!(memory.stag.is_some() && !memory.is_valid);
        memory.is_valid = true;
    }

    /// The peer reads.
    pub(super) fn read_by_peer(&self, op: &ReadOp) -> Vec<u8> {
        let memory = self
            .lent
            .iter()
            .flatten()
            .find(|memory| memory.is_valid && memory.stag == Some(op.advert.stag))
            .expect("a read by a valid key");
        let off = op.advert.va.checked_sub(memory.va).expect("a read inside") as usize;
        memory.octets[off..][..op.advert.len as usize].to_vec()
    }

    /// The peer invalidates a key.
    pub(super) fn invalidate_by_peer(&mut self, stag: u32) {
        let memory = self.lent.iter_mut().flatten();
        let mut valid = memory.filter(|memory| memory.is_valid && memory.stag == Some(stag));
        valid.next().expect("a valid key").is_valid = false;
    }

    /// Begins to invalidate keys, and gives memory back; whether there was anything to do.
    pub(super) fn reclaim(&mut self) -> bool {
        let mut did = false;
        while let Some(place) = self.conn.poll_invalidate() {
            self.invalidating.push_back(place);
            did = true;
        }
        while let Some(place) = self.conn.poll_release() {
            let memory = self.lent[place].take().expect("memory is lent");
            assert!(!memory.is_valid || self.conn.state() == EndState::Closed);
            did = true;
        }
        did
    }

    /// The device has invalidated a key; whether one was waiting.
    pub(super) fn invalidated(&mut self, rng: &mut Rng) -> bool {
        let Some(place) = self.invalidating.pop_front() else {
            return false;
        };
        let memory = self.lent[place].as_mut().expect("memory is lent");
        assert!(memory.is_valid);
        memory.is_valid = false;
        memory.stag = None;
        self.conn.handle_invalidated(place);
        if rng.one_in(2) {
            let stag = self.next_stag;
            if self.conn.rekey(place, stag) {
                self.next_stag += 1;
                self.lent[place].as_mut().unwrap().stag = Some(stag);
            }
        }
        true
    }

    /// The link is down: the device has forgotten all.
    pub(super) fn link_down(&mut self, now: Instant) {
        self.invalidating.clear();
        for memory in self.lent.iter_mut().flatten() {
            memory.is_valid = false;
        }
        self.conn.handle_link_down(now);
        self.reclaim();
        assert!(!self.conn.has_lent(), "lent memory after the end");
    }

    // The application.

    /// Takes events.
    pub(super) fn wake(&mut self) {
        let events = self.conn.take_events();
        self.is_reader_asleep &= !(events.readable || events.over);
        self.is_writer_asleep &= !(events.writable || events.over);
    }

    /// Lets the writer do something; whether it could.
    pub(super) fn write(&mut self, rng: &mut Rng, now: Instant) -> bool {
        let is_idle = self.habits.manners == Manners::Idle;
        if is_idle || self.has_shut || self.has_closed || self.is_writer_asleep {
            return false;
        }
        if self.conn.can_send().is_err() {
            self.has_shut = true;
            return true;
        }
        let left = self.habits.to_write - self.written;
        if left == 0 {
            if self.habits.manners == Manners::HalfClose {
                self.conn.shutdown_send();
            }
            self.has_shut = true;
            return true;
        }
        let want = rng.bytes(1, 9000).min(left.try_into().unwrap_or(u32::MAX));
        let lendable = self.conn.lendable(want);
        if self.habits.lends && rng.one_in(2) && lendable > 0 {
            self.lend(rng, now, lendable);
            return true;
        }
        let count = want.min(self.conn.send_room());
        if count == 0 {
            self.is_writer_asleep = true;
            return false;
        }
        let mut position = self.written;
        for piece in self.conn.send_segments(count) {
            for at in 0..piece.len {
                self.ring[(piece.off + at) as usize] = octet(self.side, position);
                position += 1;
            }
        }
        self.conn.write(now, count);
        self.written += u64::from(count);
        if self.habits.urgent && rng.one_in(8) {
            self.conn.mark_urgent();
            self.urgent_sent += 1;
        }
        true
    }

    fn lend(&mut self, rng: &mut Rng, now: Instant, count: u32) {
        let stag = (!rng.one_in(4)).then_some(self.next_stag);
        let va = rng.range(0, 1 << 40);
        if let Some(place) = self.conn.lend(now, count, va, stag) {
            self.next_stag += 1;
            let start = self.written;
            let end = start + u64::from(count);
            self.lent[place] = Some(LentMemory {
                octets: (start..end).map(|at| octet(self.side, at)).collect(),
                va,
                stag,
                is_valid: false,
            });
            self.written = end;
        }
    }

    /// Takes adverts back, and perhaps what was lent; changes modes.
    pub(super) fn interfere(&mut self, rng: &mut Rng, now: Instant) {
        if self.habits.changes_mode && rng.one_in(40) {
            self.conn.want_mode(rng.pick(&[
                crate::proto::sdp::msg::HalfMode::Buffered,
                crate::proto::sdp::msg::HalfMode::Combined,
                crate::proto::sdp::msg::HalfMode::Pipelined,
            ]));
        }
        if self.habits.changes_ring && rng.one_in(10) {
            let octets = rng.pick(&[500, 4096, 16384]);
            if self.conn.resize_ring(octets) {
                self.ring = vec![POISON; octets as usize];
                self.is_writer_asleep = false;
            }
        }
        if self.habits.cancels && rng.one_in(20) {
            let _ = self.conn.revoke_sources(now);
        }
        if self.habits.cancels && !self.has_shut && rng.one_in(20) {
            let place = rng.range(0, MAX_EXTENTS as u64 - 1) as usize;
            if let Some(count) = self.conn.retract(place) {
                self.written -= count;
                // It knows that there is room.
                self.is_writer_asleep = false;
            }
        }
        match self.habits.manners {
            Manners::CloseEarly if !self.has_closed && rng.one_in(300) => self.close(now),
            Manners::Abort if !self.has_closed && rng.one_in(300) => {
                self.has_closed = true;
                self.conn.abort(now);
            }
            _ => {}
        }
    }

    /// Closes the socket.
    pub(super) fn close(&mut self, now: Instant) {
        self.has_closed = true;
        self.has_shut = true;
        self.conn.close(now);
    }

    /// Checks octets that the reader gets.
    pub(super) fn check(&mut self, octets: &[u8]) {
        for found in octets {
            let want = octet(1 - self.side, self.read);
            assert_eq!(
                *found,
                want,
                "octet {} of side {}",
                self.read,
                1 - self.side
            );
            self.read += 1;
        }
    }

    /// Lets the reader do something; gives a read that it begins. `None`: it sleeps.
    pub(super) fn read(&mut self, rng: &mut Rng, now: Instant) -> Option<Option<ReadOp>> {
        let is_idle = self.habits.manners == Manners::Idle;
        if is_idle || self.has_closed || self.is_reader_asleep {
            return None;
        }
        match self.conn.next_received() {
            SinkItem::Octets {
                slot,
                off,
                len,
                is_marked,
            } => {
                let count = rng.bytes(1, len);
                let octets = self.buffers[&slot][off as usize..][..count as usize].to_vec();
                self.check(&octets);
                self.urgent_found += u64::from(is_marked && count == len);
                if let Some(free) = self.conn.consumed(now, count) {
                    assert_eq!(free, slot);
                    self.buffers.remove(&free);
                }
                Some(None)
            }
            SinkItem::Advert { .. } => {
                if self.habits.refuses && rng.one_in(4) {
                    self.conn.refuse_advert(now);
                    return Some(None);
                }
                let room = rng.bytes(1, 6000);
                let to = if rng.one_in(2) {
                    ReadTo::Reader
                } else {
                    ReadTo::Buffer(self.slot(0))
                };
                let op = self.conn.begin_read(now, to, room);
                match (op, to) {
                    (Some(_), _) => return Some(op),
                    (None, ReadTo::Buffer(slot)) => drop(self.buffers.remove(&slot)),
                    (None, ReadTo::Reader) => {}
                }
                self.is_reader_asleep = true;
                None
            }
            SinkItem::End => {
                self.saw_end = true;
                if self.has_shut || self.conn.state() == EndState::Closed {
                    self.close(now);
                    return Some(None);
                }
                None
            }
            SinkItem::Nothing if self.conn.read_error().is_some() => {
                self.close(now);
                Some(None)
            }
            SinkItem::Nothing => {
                self.is_reader_asleep = true;
                None
            }
        }
    }

    /// The oldest read has completed.
    pub(super) fn complete(&mut self, now: Instant, op: &ReadOp, octets: Vec<u8>) {
        let mine = self.conn.handle_read(now);
        match op.to {
            ReadTo::Reader => {
                assert_eq!(mine as usize, octets.len());
                self.check(&octets);
            }
            ReadTo::Buffer(slot) => {
                assert_eq!(mine, 0);
                self.buffers.insert(slot, octets);
            }
        }
    }

    /// Whether the end is clean, and all was read.
    pub(super) fn error(&self) -> Option<EndError> {
        self.conn.read_error()
    }
}
