// SPDX-License-Identifier: GPL-2.0

//! A node: an engine around one queue pair, which copies, checks keys and builds packets.

use super::{
    fabric::{
        Fabric,
        Load, //
    },
    job::{
        Job,
        BASE,
        KEY,
        MEMORY,
        RECEIVE, //
    },
    model::ReceivedMessage, //
};
use crate::proto::{
    base::{
        time::Instant,
        verbs::{
            Psn,
            Qpn, //
        },
    },
    roce::{
        aeth::Syndrome,
        crc32::Slicing,
        frame::{
            Frame,
            RoceRoute, //
        },
        header::{
            Aeth,
            Bth, //
        },
        icrc,
        opcode::{
            Opcode,
            Operation, //
        },
        packet::{
            Extensions,
            PacketError,
            RocePacket, //
        },
        reason::Reason,
        requester::{
            Burst,
            Requester,
            SendRecord,
            SendStep, //
        },
        responder::{
            AtomicOperation,
            AtomicTask,
            ExecuteError,
            Placement,
            PlacementTarget,
            ReadBurst,
            ReplyPacket,
            RequestHeader,
            Resource,
            Responder,
            Ruling,
            Settled, //
        },
        work::{
            MsgId,
            WorkKind,
            WorkStatus, //
        },
    },
    sim::Rng, //
};
use std::collections::VecDeque;

/// A receive buffer.
pub(super) struct Buffer {
    pub(super) capacity: u32,
    pub(super) data: Vec<u8>,
    /// Whether it cannot be written.
    pub(super) fault: bool,
}

/// One side.
pub(super) struct Node {
    /// 0 or 1; the peer has the other number.
    pub(super) index: usize,
    /// Headers of the network, the same in both directions.
    pub(super) route: RoceRoute,
    /// The sending half.
    pub(super) requester: Requester<Vec<SendRecord>>,
    /// The receiving half.
    pub(super) responder: Responder<Vec<Resource>>,
    /// The memory that the peer may access.
    pub(super) memory: Vec<u8>,
    /// All work, in the order of posting.
    pub(super) jobs: Vec<Job>,
    /// Jobs that were posted.
    pub(super) posted: usize,
    /// Receive buffers that are posted.
    pub(super) buffers: VecDeque<Buffer>,
    /// Buffers that were posted so far.
    pub(super) posted_buffers: u64,
    /// The number of the buffer that cannot be written.
    pub(super) faulty: Option<u64>,
    /// The receive buffer of the current message.
    current: Option<Buffer>,
    /// Successful receive completions.
    pub(super) received: Vec<ReceivedMessage>,
    /// Status of the receive buffer that failed.
    pub(super) receive_error: Option<WorkStatus>,
    /// Send completions: number, status, reported.
    pub(super) completed: Vec<(u64, WorkStatus, bool)>,
    /// NAKs that this side queued.
    pub(super) naks: Vec<Syndrome>,
    /// Whether keys are refused from now on.
    pub(super) revoked: bool,
    /// Whether the queue pair is in state ERR.
    pub(super) failed: bool,
    /// A receive buffer is refused once in this number of requests, though there may be one.
    pub(super) starve: u64,
    /// Bursts leave out the network once in this number; 0 for never.
    pub(super) direct: u64,
}

impl Node {
    pub(super) fn new(
        index: usize,
        route: RoceRoute,
        requester: Requester<Vec<SendRecord>>,
        responder: Responder<Vec<Resource>>,
        memory: Vec<u8>,
        jobs: Vec<Job>,
    ) -> Self {
        Self {
            index,
            route,
            requester,
            responder,
            memory,
            jobs,
            posted: 0,
            buffers: VecDeque::new(),
            posted_buffers: 0,
            faulty: None,
            current: None,
            received: Vec::new(),
            receive_error: None,
            completed: Vec::new(),
            naks: Vec::new(),
            revoked: false,
            failed: false,
            starve: 0,
            direct: 0,
        }
    }

    /// Whether all jobs are complete.
    pub(super) fn is_done(&self) -> bool {
        self.completed.len() == self.jobs.len()
    }

    /// Posts jobs until the queue is full, at most `most`.
    pub(super) fn post(&mut self, most: u64) {
        for _ in 0..most {
            let Some(job) = self.jobs.get(self.posted) else {
                return;
            };
            match self.requester.post(job.work) {
                Ok(msg) => {
                    assert_eq!(msg.get(), self.posted as u64);
                    self.posted += 1;
                }
                Err(_) => return,
            }
        }
    }

    /// Posts a receive buffer.
    pub(super) fn post_buffer(&mut self) {
        if self.buffers.len() < 8 {
            self.buffers.push_back(Buffer {
                capacity: RECEIVE,
                data: vec![0; RECEIVE as usize],
                fault: self.faulty == Some(self.posted_buffers),
            });
            self.posted_buffers += 1;
        }
    }

    /// Sends a packet to the other node.
    fn send(&self, rng: &mut Rng, net: &mut Fabric, now: Instant, packet: &RocePacket<'_>) {
        let mut transport = [0; 5000];
        let len = packet.emit(&mut transport).unwrap();
        let transport = &transport[..len];
        let frame = self.route.frame(len).unwrap();
        let mut octets = vec![0; Frame::MAX_LEN];
        let headers = frame.emit(&mut octets).unwrap();
        octets.truncate(headers);
        octets.extend_from_slice(transport);
        octets.extend_from_slice(&icrc::icrc_of(&Slicing, &frame, transport).unwrap());
        net.send(rng, now, 1 - self.index, &Load::Frame(octets));
    }

    /// A header to the other node.
    fn bth(&self, opcode: Opcode, psn: Psn) -> Bth {
        Bth::new(
            opcode.code(),
            Qpn::new(0x10_0010 + 1 - self.index as u32),
            psn,
        )
    }

    /// Sends and completes all that the queue pair has.
    pub(super) fn pump(&mut self, rng: &mut Rng, net: &mut Fabric, now: Instant) {
        loop {
            let room = rng.bytes(1, 8);
            match self.requester.poll_transmit(now, room) {
                Some(SendStep::Packets(burst)) => {
                    assert!(burst.packets <= room && burst.packets > 0);
                    self.send_burst(rng, net, now, &burst);
                }
                Some(SendStep::Local(msg)) => {
                    let fault = self.jobs[msg.get() as usize].fault_at.is_some();
                    let result = if fault {
                        Err(Reason::NotRegistered)
                    } else {
                        Ok(())
                    };
                    self.requester.local_done(msg, result);
                }
                None => break,
            }
        }
        self.complete();
    }

    /// Takes completions.
    pub(super) fn complete(&mut self) {
        while let Some(done) = self.requester.poll_complete() {
            self.completed
                .push((done.msg.get(), done.status(), done.reported));
        }
        if self.requester.is_failed() && !self.failed {
            self.fail();
        }
    }

    /// Starts messages again after a pause.
    pub(super) fn resume(&mut self) {
        if self.requester.is_drained() {
            // All that was posted before is complete, or was not started.
            assert_eq!(self.requester.poll_timeout(), None);
        }
        if !self.requester.is_failed() {
            assert!(self.requester.resume());
        }
    }

    /// Enters state ERR.
    pub(super) fn fail(&mut self) {
        self.failed = true;
        self.requester.flush();
        // A NAK that ends the queue pair is still sent.
        if !self.responder.is_failed() && self.responder.flush() {
            self.current = None;
        }
    }

    /// Sends a burst as a run (RNIC-DIR-03).
    fn send_run(&mut self, rng: &mut Rng, net: &mut Fabric, now: Instant, burst: &Burst) {
        let job = self.jobs[burst.msg.get() as usize].clone();
        let planned = burst.run().unwrap();
        let end = planned.offset + planned.len;
        if job.fault_at.is_some_and(|fault| fault < end) && job.work.kind != WorkKind::Read {
            self.requester.fail(burst.msg, Reason::SourceDenied);
            return;
        }
        let packet = RocePacket {
            bth: self.bth(planned.opcode, burst.psn),
            opcode: planned.opcode,
            ext: job.extensions(0),
            payload: &job.source[planned.offset as usize..end as usize],
        };
        let header = RequestHeader {
            packets: burst.packets,
            ack_req: burst.ack_req,
            solicited: burst.solicits(),
            ..RequestHeader::new(&packet)
        };
        let load = Load::Run(header, packet.payload.to_vec());
        net.send(rng, now, 1 - self.index, &load);
    }

    fn send_burst(&mut self, rng: &mut Rng, net: &mut Fabric, now: Instant, burst: &Burst) {
        let brings = matches!(burst.plan.operation, Operation::Send | Operation::Write);
        if brings && self.direct > 0 && rng.one_in(self.direct) {
            return self.send_run(rng, net, now, burst);
        }
        let job = self.jobs[burst.msg.get() as usize].clone();
        for count in 0..burst.packets {
            let planned = burst.plan.packet(burst.index + count).unwrap();
            let end = planned.offset + planned.len;
            if job.fault_at.is_some_and(|fault| fault < end) && job.work.kind != WorkKind::Read {
                self.requester.fail(burst.msg, Reason::SourceDenied);
                return;
            }
            let last = count + 1 == burst.packets;
            let ends = last && burst.ends_message();
            assert_eq!(ends, planned.opcode.position().ends());
            let mut bth = self.bth(planned.opcode, burst.psn.after(count));
            bth.ack_req = last && burst.ack_req;
            bth.solicited = ends && job.work.solicited;
            let skipped = if job.work.kind == WorkKind::Read {
                burst.offset
            } else {
                0
            };
            // Headers that the opcode does not have are not written.
            let packet = RocePacket {
                bth,
                opcode: planned.opcode,
                ext: job.extensions(skipped),
                payload: &job.source[planned.offset as usize..end as usize],
            };
            self.send(rng, net, now, &packet);
        }
    }

    /// Takes what the other node has sent.
    pub(super) fn receive(&mut self, rng: &mut Rng, now: Instant, load: &Load) {
        match load {
            Load::Frame(octets) => self.receive_frame(rng, now, octets),
            Load::Run(header, payload) => {
                let ruling = self.responder.handle_request(header);
                self.rule(rng, ruling, payload);
            }
        }
    }

    /// Takes a packet from the network.
    fn receive_frame(&mut self, rng: &mut Rng, now: Instant, octets: &[u8]) {
        let parsed = match self.route {
            RoceRoute::V2Ipv4(..) => Frame::parse_ipv4(octets),
            RoceRoute::V2Ipv6(..) => Frame::parse_ipv6(octets),
            RoceRoute::V1(_) => Frame::parse_grh(octets),
        };
        let Ok((frame, rest)) = parsed else {
            return;
        };
        let Ok(transport) = icrc::check(&Slicing, &frame, rest) else {
            return;
        };
        match RocePacket::parse(transport) {
            Ok(packet) if packet.opcode.operation().is_response() => {
                self.handle_response(now, &packet);
            }
            Ok(packet) => self.handle_request(rng, &packet),
            Err(PacketError::Opcode(bth)) => {
                let ruling = self.responder.handle_unknown(bth.psn);
                self.rule(rng, ruling, &[]);
            }
            Err(error) => panic!("{error:?} with the right checksum"),
        }
    }

    fn handle_response(&mut self, now: Instant, packet: &RocePacket<'_>) {
        let psn = packet.bth.psn;
        let aeth = packet.ext.aeth.as_ref();
        match packet.opcode.operation() {
            Operation::Acknowledge => {
                // One of the two asks as if its peer were near.
                let near = self.index == 1;
                self.requester.handle_ack(now, psn, aeth.unwrap(), near);
            }
            Operation::AtomicAcknowledge => {
                let original = packet.ext.original.unwrap();
                if let Ok(msg) = self.requester.handle_atomic_ack(now, psn, aeth.unwrap()) {
                    self.deliver(msg, 0, &original.to_le_bytes());
                }
            }
            _ => {
                let position = packet.opcode.position();
                let len = packet.payload.len();
                let delivery = self
                    .requester
                    .handle_read_response(now, psn, position, aeth, len);
                if let Ok(delivery) = delivery {
                    assert_eq!(delivery.len as usize, len);
                    self.deliver(delivery.msg, delivery.offset, packet.payload);
                }
            }
        }
        self.complete();
    }

    /// Stores data of a response.
    fn deliver(&mut self, msg: MsgId, offset: u32, data: &[u8]) {
        let job = &mut self.jobs[msg.get() as usize];
        if job
            .fault_at
            .is_some_and(|fault| fault < offset + data.len() as u32)
        {
            self.requester.fail(msg, Reason::SinkDenied);
        } else {
            // FLUSH and ATOMIC WRITE bring nothing.
            job.sink[offset as usize..][..data.len()].copy_from_slice(data);
        }
    }

    fn handle_request(&mut self, rng: &mut Rng, packet: &RocePacket<'_>) {
        let ruling = self.responder.handle_request(&RequestHeader::new(packet));
        self.rule(rng, ruling, packet.payload);
    }

    /// Follows the rulings until the request is over.
    fn rule(&mut self, rng: &mut Rng, mut ruling: Ruling, payload: &[u8]) {
        loop {
            ruling = match ruling {
                Ruling::Drop(_) => return,
                Ruling::NeedReceive => self.take_buffer(rng),
                Ruling::NeedKey(range) => {
                    let start = range.vaddr.wrapping_sub(BASE);
                    let inside = start
                        .checked_add(u64::from(range.len))
                        .is_some_and(|end| end <= u64::from(MEMORY));
                    if inside && range.rkey == KEY && !self.revoked {
                        self.responder.grant_key()
                    } else {
                        self.responder.refuse_key()
                    }
                }
                Ruling::Place(placement) => {
                    let result = self.place(&placement, payload);
                    self.responder.executed(result)
                }
                Ruling::Atomic(task) => {
                    let original = self.atomic(&task);
                    self.responder.executed_atomic(Ok(original))
                }
                Ruling::Flush(_) => self.responder.executed(Ok(())),
                Ruling::Done(settled) => {
                    self.settle(&settled);
                    return;
                }
            };
        }
    }

    fn take_buffer(&mut self, rng: &mut Rng) -> Ruling {
        if self.starve > 0 && rng.one_in(self.starve) {
            return self.responder.refuse_receive();
        }
        match self.buffers.pop_front() {
            Some(buffer) => {
                assert!(self.current.is_none());
                let capacity = buffer.capacity;
                self.current = Some(buffer);
                self.responder.grant_receive(capacity)
            }
            None => self.responder.refuse_receive(),
        }
    }

    fn place(&mut self, placement: &Placement, payload: &[u8]) -> Result<(), ExecuteError> {
        assert_eq!(placement.len as usize, payload.len());
        assert!(!placement.word || payload.len() == 8);
        let (room, start) = match placement.target {
            PlacementTarget::Receive => {
                let buffer = self.current.as_mut().unwrap();
                if buffer.fault {
                    return Err(ExecuteError::ReceiveFault);
                }
                (&mut buffer.data, placement.offset as usize)
            }
            PlacementTarget::Memory(..) if payload.is_empty() => return Ok(()),
            PlacementTarget::Memory(vaddr, key) => {
                assert_eq!(key, KEY);
                if self.revoked {
                    return Err(ExecuteError::KeyGone);
                }
                let start = vaddr - BASE + u64::from(placement.offset);
                (&mut self.memory, start as usize)
            }
        };
        room[start..start + payload.len()].copy_from_slice(payload);
        Ok(())
    }

    fn atomic(&mut self, task: &AtomicTask) -> u64 {
        let word = &mut self.memory[(task.vaddr - BASE) as usize..][..8];
        let original = u64::from_le_bytes((&*word).try_into().unwrap());
        let new = match task.operation {
            AtomicOperation::CompareSwap { compare, swap } if compare == original => swap,
            AtomicOperation::CompareSwap { .. } => original,
            AtomicOperation::FetchAdd(add) => original.wrapping_add(add),
        };
        word.copy_from_slice(&new.to_le_bytes());
        original
    }

    fn settle(&mut self, settled: &Settled) {
        if let Some(done) = &settled.receive {
            let buffer = self.current.take().unwrap();
            if done.result.is_ok() {
                let len = if done.write { 0 } else { done.len as usize };
                self.received.push(ReceivedMessage {
                    len: done.len,
                    write: done.write,
                    imm: done.imm,
                    invalidated: done.invalidated.map(|key| key.get()),
                    solicited: done.solicited,
                    data: buffer.data[..len].to_vec(),
                });
            } else {
                assert!(self.receive_error.is_none());
                self.receive_error = Some(done.status());
            }
        }
        self.naks.extend(settled.nak);
        if settled.failed {
            assert!(self.responder.is_failed());
            self.requester.flush();
            self.complete();
        }
    }

    /// Sends everything that the responder owes.
    pub(super) fn reply(&mut self, rng: &mut Rng, net: &mut Fabric, now: Instant) {
        loop {
            let room = rng.bytes(1, 8);
            let Some(reply) = self.responder.poll_reply(room) else {
                return;
            };
            let aeth = |syndrome, msn| {
                Some(Aeth {
                    syndrome: Some(syndrome),
                    msn,
                })
            };
            let (opcode, psn, ext) = match reply {
                ReplyPacket::Read(burst) => {
                    self.send_read(rng, net, now, &burst);
                    continue;
                }
                ReplyPacket::Atomic { psn, msn, original } => {
                    let ext = Extensions {
                        aeth: aeth(Syndrome::ACK, msn),
                        original: Some(original),
                        ..Extensions::default()
                    };
                    (Opcode::RcAtomicAcknowledge, psn, ext)
                }
                ReplyPacket::Empty { psn, msn } => {
                    let ext = Extensions {
                        aeth: aeth(Syndrome::ACK, msn),
                        ..Extensions::default()
                    };
                    (Opcode::RcReadResponseOnly, psn, ext)
                }
                ReplyPacket::Ack { psn, syndrome, msn } => {
                    let ext = Extensions {
                        aeth: aeth(syndrome, msn),
                        ..Extensions::default()
                    };
                    (Opcode::RcAcknowledge, psn, ext)
                }
            };
            let packet = RocePacket {
                bth: self.bth(opcode, psn),
                opcode,
                ext,
                payload: &[],
            };
            self.send(rng, net, now, &packet);
        }
    }

    fn send_read(&mut self, rng: &mut Rng, net: &mut Fabric, now: Instant, burst: &ReadBurst) {
        for count in 0..burst.packets {
            let planned = burst.plan.packet(burst.index + count).unwrap();
            let psn = burst.psn.after(count);
            if self.revoked && planned.len > 0 {
                let settled = self.responder.read_failed(burst, psn);
                self.settle(&settled);
                return;
            }
            let start = (burst.vaddr - BASE) as usize + planned.offset as usize;
            let start = if planned.len == 0 { 0 } else { start };
            let packet = RocePacket {
                bth: self.bth(planned.opcode, psn),
                opcode: planned.opcode,
                ext: burst.extensions(),
                payload: &self.memory[start..start + planned.len as usize],
            };
            self.send(rng, net, now, &packet);
        }
    }
}
