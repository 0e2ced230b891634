// SPDX-License-Identifier: GPL-2.0

//! Packets that arrive, requests of the peer, and replies (RNIC-RSP).

use super::{
    events::{
        set_result,
        PendingEvents, //
    },
    inbox::Arrived,
    pair::{
        Core,
        QueuePair, //
    },
};
use crate::{
    kapi::{
        ibdev::{
            CompletedOp,
            IbQpType,
            WordChange, //
        },
        net::packet::{
            NetHeader,
            RxPacket, //
        },
    },
    proto::{
        base::{
            time::Instant,
            verbs::{
                Psn,
                Qpn, //
            },
        },
        roce::{
            aeth::Syndrome,
            budget::RunBudget,
            header::{
                Aeth,
                Bth, //
            },
            icrc,
            opcode::{
                Opcode,
                Service, //
            },
            packet::{
                Extensions,
                PacketError,
                RocePacket, //
            },
            plan::PlannedPacket,
            responder::{
                AtomicOperation,
                AtomicTask,
                ExecuteError,
                Placement,
                PlacementTarget,
                QpEvent,
                ReadBurst,
                RemoteRange,
                RemoteRight,
                ReplyPacket,
                RequestHeader,
                Resource,
                Responder,
                Ruling,
                Settled, //
            },
        },
    },
    rnic::{
        counters::Counter,
        direct_packet::PacketAddresses,
        loan::Loan,
        memory::scatter,
        packet_head::PacketHead,
        region::{
            KeyedMemory,
            RegionAccess,
            Right, //
        },
        wire::{
            addresses,
            parse_frame,
            Outlet,
            PayloadFault,
            PeerPath, //
        },
    },
};
use core::{
    convert::Infallible,
    mem::take,
    sync::atomic::{
        fence,
        Ordering, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The payload of a request.
#[derive(Clone, Copy)]
enum Payload<'a> {
    /// A copy of the octets.
    Octets(&'a [u8]),
    /// The peer has them.
    Lent(&'a Loan),
}

/// The receiving half of a queue pair of this module.
type Half = Responder<KVVec<Resource>>;

/// The head of a packet of a READ response, without its payload.
fn read_head(
    burst: &ReadBurst,
    planned: &PlannedPacket,
    peer: Qpn,
    psn: Psn,
) -> Option<PacketHead> {
    Some(PacketHead {
        bth: Bth::new(planned.opcode.code(), peer, psn),
        opcode: planned.opcode,
        ext: burst.extensions(),
        len: usize::try_from(planned.len).ok()?,
    })
}

impl QueuePair {
    /// Handles a packet, after the checks that drop it silently (RNIC-RSP-01, RNIC-ICRC-06).
    pub(super) fn take_packet(
        self: &Arc<Self>,
        core: &mut Core,
        events: &mut PendingEvents,
        now: Instant,
        arrived: &Arrived,
    ) {
        match arrived {
            Arrived::Packet(packet, header) => {
                self.take_frame(core, events, now, packet, *header);
            }
            Arrived::Direct(packet) => {
                if !self.knows(core, &packet.addresses) {
                    return self.count(Counter::DropAddress);
                }
                match packet.lent_request() {
                    Some((header, loan)) => {
                        self.rule(core, events, Payload::Lent(loan), |half| {
                            half.handle_request(&header)
                        });
                    }
                    None => self.take_transport(core, events, now, &packet.packet(), true),
                }
            }
        }
    }

    /// Whether packets with these addresses are for this queue pair.
    fn knows(&self, core: &mut Core, addresses: &PacketAddresses) -> bool {
        let PacketAddresses { src, dst, protocol } = addresses;
        match self.kind {
            IbQpType::Rc | IbQpType::Uc => {
                let right = core.to.as_ref().is_some_and(|to| {
                    Self::is_from(to, src, dst) && to.sgid.protocol() == *protocol
                });
                right && self.has_own_address(core)
            }
            IbQpType::Ud | IbQpType::Gsi => self.domain.node.has_address(dst, *protocol),
        }
    }

    /// Whether the address of a connection's own end is still there (RNIC-NET-04).
    fn has_own_address(&self, core: &mut Core) -> bool {
        // Looked up again after each change of what a way depends on.
        let epoch = self.domain.node.runtime().epoch();
        if core.addressed != Some(epoch) {
            let there = core.to.as_ref().and_then(|to| to.sgid.netdev()).is_some();
            core.addressed = there.then_some(epoch);
        }
        core.addressed.is_some()
    }

    /// Looks up whether the peer's address is one of this namespace, after each change of what a way depends
    /// on (RNIC-IP-09).
    pub(super) fn note_nearness(&self, core: &mut Core) {
        let node = &self.domain.node;
        let epoch = node.runtime().epoch();
        if let (Some(to), false) = (&core.to, core.near.is_some_and(|(at, _)| at == epoch)) {
            core.near = Some((epoch, node.is_near(&to.dgid, to.sgid.protocol())));
        }
    }

    /// Handles a packet of the network.
    fn take_frame(
        self: &Arc<Self>,
        core: &mut Core,
        events: &mut PendingEvents,
        now: Instant,
        arrived: &RxPacket,
        header: NetHeader,
    ) {
        let Ok((frame, rest)) = parse_frame(header, arrived.octets()) else {
            return self.count(Counter::DropNetwork);
        };
        // What comes from elsewhere costs no checksum (RNIC-SEC-09).
        if !self.knows(core, &addresses(&frame.route)) {
            return self.count(Counter::DropAddress);
        }
        let checksum = self.domain.node.runtime().checksum();
        let Ok(transport) = icrc::check(&checksum, &frame, rest) else {
            return self.count(Counter::DropIcrc);
        };
        if !self.kind.is_connected() {
            self.take_datagram(core, events, &frame, transport);
            return;
        }
        if arrived.has_page() && self.kind == IbQpType::Rc {
            // Perhaps the sender is in this kernel, and waits for that.
            let numbers = self.domain.node.runtime().numbers();
            if let Some(sender) = numbers.find(core.peer.get()) {
                sender.note_arrival(arrived, self.number);
            }
        }
        match RocePacket::parse(transport) {
            Ok(packet) => self.take_transport(core, events, now, &packet, false),
            Err(PacketError::Opcode(bth)) if Service::of_code(bth.code) == Some(Service::Rc) => {
                self.rule(core, events, Payload::Octets(&[]), |half| {
                    half.handle_unknown(bth.psn)
                });
            }
            Err(error) => self.count_malformed(error),
        }
    }

    /// Handles a packet of a connection; one that is `near` came past the network.
    fn take_transport(
        &self,
        core: &mut Core,
        events: &mut PendingEvents,
        now: Instant,
        packet: &RocePacket<'_>,
        near: bool,
    ) {
        if !packet.opcode.operation().is_response() {
            let header = RequestHeader::new(packet);
            self.rule(core, events, Payload::Octets(packet.payload), |half| {
                half.handle_request(&header)
            });
        } else if self.kind == IbQpType::Rc && packet.opcode.service() == Service::Rc {
            self.take_answer(core, now, packet, near);
        } else {
            // An unreliable connection gets no answers.
            self.count(Counter::DropService);
        }
    }

    /// Follows the rulings on a request until it is over.
    fn rule(
        &self,
        core: &mut Core,
        events: &mut PendingEvents,
        payload: Payload<'_>,
        first: impl FnOnce(&mut Half) -> Ruling,
    ) {
        let Some(mut responder) = core.responder.take() else {
            return;
        };
        let mut ruling = first(&mut responder);
        let settled = loop {
            ruling = match ruling {
                Ruling::Drop(reason) => {
                    self.count_dropped(reason);
                    break None;
                }
                Ruling::Done(settled) => break Some(settled),
                Ruling::NeedReceive => {
                    let taken = self.take_receive_if(core, |_| Ok::<_, Infallible>(()));
                    core.receiving = taken.ok().and_then(|(wr, ())| wr);
                    match &core.receiving {
                        Some(wr) => responder.grant_receive(Self::room_of(&wr.data)),
                        None => responder.refuse_receive(),
                    }
                }
                Ruling::NeedKey(range) => {
                    if self.permits(&range) {
                        responder.grant_key()
                    } else {
                        responder.refuse_key()
                    }
                }
                Ruling::Place(placement) => {
                    let result = self.place(core, events, &placement, payload);
                    responder.executed(result)
                }
                Ruling::Atomic(task) => {
                    self.place_late(core, events);
                    let result = self.execute_atomic(&task);
                    responder.executed_atomic(result)
                }
                Ruling::Flush(_) => {
                    self.place_late(core, events);
                    // The memory is the host's own: its caches have the earlier writes already.
                    fence(Ordering::SeqCst);
                    responder.executed(Ok(()))
                }
            };
        };
        core.responder = Some(responder);
        if let Some(settled) = settled {
            self.settle(core, events, &settled);
        }
    }

    /// The access of the peer to a range.
    fn remote(&self, right: Right, key: u32, addr: u64) -> RegionAccess<'_> {
        RegionAccess {
            domain: &self.domain.tag,
            pair: Some(&self.tag),
            key,
            right,
            addr,
        }
    }

    /// Whether a key permits an access of the peer (RNIC-RSP-07).
    fn permits(&self, range: &RemoteRange) -> bool {
        let right = match range.right {
            RemoteRight::Write => Right::RemoteWrite,
            RemoteRight::Read => Right::RemoteRead,
            RemoteRight::Atomic => Right::RemoteAtomic,
            RemoteRight::FlushRange | RemoteRight::FlushRegion => Right::RemoteFlush,
            // No memory of this device survives a loss of power.
            RemoteRight::Persist => return false,
        };
        let access = self.remote(right, range.rkey.get(), range.vaddr);
        let keys = self.domain.node.keys();
        if range.right == RemoteRight::FlushRegion {
            let region = keys.find_region(access.key);
            return region.is_some_and(|region| region.check_whole(&access).is_ok());
        }
        keys.check(&access, u64::from(range.len)).is_ok()
    }

    /// Copies the payload of a request.
    fn place(
        &self,
        core: &mut Core,
        events: &mut PendingEvents,
        placement: &Placement,
        payload: Payload<'_>,
    ) -> Result<(), ExecuteError> {
        match payload {
            Payload::Octets(octets) => {
                self.place_octets(core, events, placement, placement.offset, octets)?;
            }
            Payload::Lent(loan) => {
                let mut piece = take(&mut core.piece);
                let placed = self.place_lent(core, events, placement, loan, &mut piece);
                core.piece = piece;
                placed?;
            }
        }
        let Some(key) = placement.invalidate else {
            return Ok(());
        };
        self.place_late(core, events);
        self.domain
            .node
            .keys()
            .invalidate(&self.domain.tag, key.get(), Some(&self.tag))
            .map_err(|_| ExecuteError::NotInvalidated)
    }

    /// Copies a payload that the peer lends, in pieces that stay in the cache of the processor.
    fn place_lent(
        &self,
        core: &mut Core,
        events: &mut PendingEvents,
        placement: &Placement,
        loan: &Loan,
        piece: &mut [u8],
    ) -> Result<(), ExecuteError> {
        let mut done = 0_u32;
        while done < placement.len {
            let left = usize::try_from(placement.len.saturating_sub(done)).unwrap_or(usize::MAX);
            let len = left.min(piece.len());
            let octets = piece
                .get_mut(..len)
                .filter(|octets| !octets.is_empty())
                .ok_or(ExecuteError::SourceGone)?;
            loan.lender
                .copy(loan, done, octets)
                .map_err(|_| ExecuteError::SourceGone)?;
            let at = placement.offset.saturating_add(done);
            self.place_octets(core, events, placement, at, octets)?;
            done = done.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
        }
        Ok(())
    }

    /// Copies octets of a payload to `offset` in its memory.
    fn place_octets(
        &self,
        core: &mut Core,
        events: &mut PendingEvents,
        placement: &Placement,
        offset: u32,
        payload: &[u8],
    ) -> Result<(), ExecuteError> {
        let keys = self.domain.node.keys();
        match placement.target {
            PlacementTarget::Receive => {
                let wr = core.receiving.as_ref().ok_or(ExecuteError::ReceiveFault)?;
                scatter(self.receive_domain(), &wr.data, offset, payload)
                    .map_err(|_| ExecuteError::ReceiveFault)?;
            }
            PlacementTarget::Memory(..) if payload.is_empty() => {}
            PlacementTarget::Memory(vaddr, key) => {
                let addr = vaddr.wrapping_add(u64::from(offset));
                let access = self.remote(Right::RemoteWrite, key.get(), addr);
                let word = payload.first_chunk().filter(|_| placement.word);
                // Messages stay in their order.
                if word.is_some() || offset == 0 {
                    self.place_late(core, events);
                }
                let stored = match word {
                    Some(word) => {
                        let store = WordChange::Store(u64::from_ne_bytes(*word));
                        keys.change_word(&access, store).map(|_| ())
                    }
                    None if self.domain.node.profile().is_late => keys
                        .check(&access, u64::try_from(payload.len()).unwrap_or(u64::MAX))
                        .and_then(|()| {
                            if core.late.push(access.key, addr, payload) {
                                return Ok(());
                            }
                            self.place_late(core, events);
                            keys.write(&access, payload)
                        }),
                    None => keys.write(&access, payload),
                };
                stored.map_err(|_| ExecuteError::KeyGone)?;
            }
        }
        Ok(())
    }

    /// Places the octets that wait, the last ones first. If the memory has gone meanwhile, the queue pair
    /// fails.
    pub(super) fn place_late(&self, core: &mut Core, events: &mut PendingEvents) {
        let keys = self.domain.node.keys();
        let pieces = core.late.take();
        let placed = pieces.iter().rev().all(|piece| {
            let access = self.remote(Right::RemoteWrite, piece.key, piece.addr);
            keys.write(&access, &piece.octets).is_ok()
        });
        if !placed {
            events.access_error = true;
            self.fail(core, true);
        }
    }

    /// Executes an atomic operation (RNIC-RDA-07).
    fn execute_atomic(&self, task: &AtomicTask) -> Result<u64, ExecuteError> {
        let access = self.remote(Right::RemoteAtomic, task.rkey.get(), task.vaddr);
        let change = match task.operation {
            AtomicOperation::CompareSwap { compare, swap } => {
                WordChange::CompareSwap(compare, swap)
            }
            AtomicOperation::FetchAdd(add) => WordChange::FetchAdd(add),
        };
        self.domain
            .node
            .keys()
            .change_word(&access, change)
            .map_err(|_| ExecuteError::KeyGone)
    }

    /// Takes the result of a request.
    fn settle(&self, core: &mut Core, events: &mut PendingEvents, settled: &Settled) {
        if let Some(done) = &settled.receive {
            self.place_late(core, events);
            if let Some(wr) = core.receiving.take() {
                self.complete_receive(core, &wr, done.solicited, events, |completion| {
                    set_result(completion, done.result);
                    completion.len = done.len;
                    completion.imm = done.imm;
                    completion.invalidated = done.invalidated.map(|key| key.get());
                    if done.write {
                        completion.op = CompletedOp::ReceiveWrite;
                    }
                });
            }
        }
        match settled.event {
            Some(QpEvent::RequestError) => events.request_error = true,
            Some(QpEvent::AccessError) => events.access_error = true,
            None => {}
        }
        if settled.failed {
            // The refusal acknowledges all requests before it.
            self.place_late(core, events);
            self.fail(core, true);
        }
    }

    /// Sends what the responder owes, up to the budget (RNIC-RSP-16, RNIC-RDA-12).
    pub(super) fn reply(
        &self,
        core: &mut Core,
        events: &mut PendingEvents,
        outlet: Outlet<'_>,
        budget: &mut RunBudget,
    ) {
        while let Some(reply) = core
            .responder
            .as_mut()
            .and_then(|half| half.poll_reply(budget.replies()))
        {
            let (opcode, psn, aeth, original) = match reply {
                ReplyPacket::Read(burst) => {
                    budget.take(burst.packets);
                    self.send_read(core, events, &burst, outlet);
                    continue;
                }
                ReplyPacket::Atomic { psn, msn, original } => (
                    Opcode::RcAtomicAcknowledge,
                    psn,
                    (Syndrome::ACK, msn),
                    Some(original),
                ),
                ReplyPacket::Empty { psn, msn } => {
                    (Opcode::RcReadResponseOnly, psn, (Syndrome::ACK, msn), None)
                }
                ReplyPacket::Ack { psn, syndrome, msn } => {
                    (Opcode::RcAcknowledge, psn, (syndrome, msn), None)
                }
            };
            budget.take(1);
            let (syndrome, msn) = aeth;
            let head = PacketHead {
                bth: Bth::new(opcode.code(), core.peer, psn),
                opcode,
                ext: Extensions {
                    aeth: Some(Aeth {
                        syndrome: Some(syndrome),
                        msn,
                    }),
                    original,
                    ..Extensions::default()
                },
                len: 0,
            };
            core.ident = core.ident.wrapping_add(1);
            if let Some(way) = core.way(self.egress(), outlet) {
                // There is no payload to copy.
                let _ = way.send(&head, core.ident, |_| Ok(()));
            }
        }
    }

    /// Sends packets of a READ response.
    fn send_read(
        &self,
        core: &mut Core,
        events: &mut PendingEvents,
        burst: &ReadBurst,
        outlet: Outlet<'_>,
    ) {
        let Core {
            to,
            near,
            peer,
            port,
            ident,
            ..
        } = core;
        let near = near.is_some_and(|(_, near)| near);
        let to = to.as_ref();
        let way = to.and_then(|to| PeerPath::new(to, *port, self.egress(), outlet, near));
        // Without the source address packets are lost (RNIC-NET-04).
        let Some(way) = way else {
            return;
        };
        let (keys, mut run, mut failed) = (self.domain.node.keys(), way.run(), None);
        for count in 0..burst.packets {
            let psn = burst.psn.after(count);
            let Some(planned) = burst.plan.packet(burst.index.saturating_add(count)) else {
                return;
            };
            let Some(head) = read_head(burst, &planned, *peer, psn) else {
                return;
            };
            let addr = burst.vaddr.wrapping_add(u64::from(planned.offset));
            let access = self.remote(Right::RemoteRead, burst.rkey.get(), addr);
            *ident = ident.wrapping_add(1);
            let sent = run.send(&head, *ident, |payload| {
                if payload.is_empty() {
                    return Ok(());
                }
                keys.read(&access, payload).map_err(|_| PayloadFault)
            });
            if sent.is_err() {
                failed = Some(psn);
                break;
            }
        }
        drop(run);
        drop(way);
        let settled = failed.and_then(|psn| {
            let half = core.responder.as_mut()?;
            Some(half.read_failed(burst, psn))
        });
        if let Some(settled) = settled {
            self.settle(core, events, &settled);
        }
    }
}
