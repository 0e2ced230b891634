// SPDX-License-Identifier: GPL-2.0

//! Requests of this side: from a work request to packets, and from answers to completions
//! (RNIC-REQ).

use super::{
    events::{
        set_result,
        PendingEvents, //
    },
    pair::{
        Core,
        QueuePair, //
    },
    queues::{
        Destination,
        Send, //
    },
};
use crate::{
    kapi::ibdev::{
        AddressVector,
        CompletedOp,
        IbQpType,
        RemoteAddr,
        SendOp,
        WindowBinding,
        WrData, //
    },
    proto::{
        base::{
            time::Instant,
            verbs::{
                Qpn,
                RKey, //
            },
        },
        roce::{
            budget::RunBudget,
            datagram::{
                check_send,
                outgoing_qkey, //
            },
            header::{
                AtomicEth,
                Bth,
                Deth,
                Feth,
                Reth, //
            },
            opcode::Operation,
            packet::{
                Extensions,
                RocePacket, //
            },
            plan::PlannedPacket,
            reason::Reason,
            requester::{
                Burst,
                SendStep, //
            },
            work::{
                MsgId,
                Work,
                WorkKind, //
            },
        },
    },
    rnic::{
        counters::Counter,
        cq::NewCompletion,
        loan::Loan,
        memory::{
            check,
            gather,
            scatter, //
        },
        packet_head::PacketHead,
        receives::place_of,
        region::{
            AccessDenied,
            Region, //
        },
        wire::{
            source_port,
            Outlet,
            PeerPath, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Work requests of a run (RNIC-SEC-06).
const POSTS: u32 = 256;

/// Octets that a run has at least if the receiver copies them: for fewer, a copy costs less than the loan.
const LENT_OCTETS: u32 = 512;

/// The kind of a work request for the protocol.
fn kind_of(op: &SendOp<Region>) -> WorkKind {
    match op {
        SendOp::Send => WorkKind::Send,
        SendOp::SendImm(_) => WorkKind::SendImm,
        SendOp::SendInv(_) => WorkKind::SendInv,
        SendOp::Write(_) => WorkKind::Write,
        SendOp::WriteImm(..) => WorkKind::WriteImm,
        SendOp::Read(_) => WorkKind::Read,
        SendOp::CompareSwap(..) => WorkKind::CompareSwap,
        SendOp::FetchAdd(..) => WorkKind::FetchAdd,
        SendOp::LocalInv(_) => WorkKind::LocalInv,
        SendOp::RegMr(_) => WorkKind::RegMr,
        SendOp::BindMw(_) => WorkKind::BindMw,
        SendOp::AtomicWrite(_) => WorkKind::AtomicWrite,
        SendOp::Flush(..) => WorkKind::Flush,
        SendOp::Malformed => WorkKind::Malformed,
    }
}

/// The operation of its completion.
fn completed(op: &SendOp<Region>) -> CompletedOp {
    match op {
        SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) | SendOp::Malformed => {
            CompletedOp::Send
        }
        SendOp::Write(_) | SendOp::WriteImm(..) => CompletedOp::Write,
        SendOp::Read(_) => CompletedOp::Read,
        SendOp::CompareSwap(..) => CompletedOp::CompareSwap,
        SendOp::FetchAdd(..) => CompletedOp::FetchAdd,
        SendOp::LocalInv(_) => CompletedOp::LocalInv,
        SendOp::RegMr(_) => CompletedOp::RegMr,
        SendOp::BindMw(_) => CompletedOp::BindMw,
        SendOp::AtomicWrite(_) => CompletedOp::AtomicWrite,
        SendOp::Flush(..) => CompletedOp::Flush,
    }
}

/// The work request as the protocol sees it.
fn work_of(wr: &Send, signal_all: bool) -> Work {
    Work {
        kind: kind_of(&wr.op),
        // Too many octets give a length that the protocol refuses.
        len: wr.data.len().unwrap_or(u32::MAX),
        signaled: wr.signaled || signal_all,
        fence: wr.fence,
        solicited: wr.solicited,
    }
}

/// The work request that a number stands for.
fn find(taken: &KVVec<Option<Send>>, msg: MsgId) -> Option<&Send> {
    taken.get(place_of(msg.get(), taken.len())?)?.as_ref()
}

/// The head of packet `count` of a burst, or of the run that begins there, without the payload.
fn head_of(
    burst: &Burst,
    planned: &PlannedPacket,
    count: u32,
    last: bool,
    dest: Qpn,
    ext: Extensions,
) -> Result<PacketHead, Reason> {
    let mut bth = Bth::new(planned.opcode.code(), dest, burst.psn.after(count));
    bth.ack_req = last && burst.ack_req;
    bth.solicited = last && burst.solicits();
    Ok(PacketHead {
        bth,
        opcode: planned.opcode,
        ext,
        len: usize::try_from(planned.len).map_err(|_| Reason::Inconsistent)?,
    })
}

/// The headers of a work request, from octet `offset` of its message on. The opcode of a packet says
/// which of them it has.
fn headers(wr: &Send, burst: &Burst) -> Extensions {
    let mut ext = Extensions::default();
    let reth = |at: &RemoteAddr, offset: u32, len: u32| Reth {
        vaddr: at.addr.wrapping_add(u64::from(offset)),
        rkey: RKey::new(at.rkey),
        len,
    };
    let atomic = |at: &RemoteAddr, swap_add, compare| AtomicEth {
        vaddr: at.addr,
        rkey: RKey::new(at.rkey),
        swap_add,
        compare,
    };
    match &wr.op {
        SendOp::Send
        | SendOp::LocalInv(_)
        | SendOp::RegMr(_)
        | SendOp::BindMw(_)
        | SendOp::Malformed => {}
        SendOp::SendImm(imm) => ext.imm = Some(*imm),
        SendOp::SendInv(key) => ext.invalidate = Some(RKey::new(*key)),
        SendOp::Write(at) | SendOp::AtomicWrite(at) => {
            ext.reth = Some(reth(at, 0, burst.work.len));
        }
        SendOp::Flush(at, scope) => {
            ext.reth = Some(reth(at, 0, scope.len));
            ext.feth = Some(Feth {
                placement: scope.placement,
                level: scope.level,
            });
        }
        SendOp::WriteImm(at, imm) => {
            ext.reth = Some(reth(at, 0, burst.work.len));
            ext.imm = Some(*imm);
        }
        SendOp::Read(at) => ext.reth = Some(reth(at, burst.offset, burst.rest)),
        SendOp::CompareSwap(at, compare, swap) => ext.atomic = Some(atomic(at, *swap, *compare)),
        SendOp::FetchAdd(at, add) => ext.atomic = Some(atomic(at, *add, 0)),
    }
    ext
}

impl QueuePair {
    /// Takes work requests that were posted (RNIC-REQ-01). Returns whether there may be more than the
    /// budget.
    pub(super) fn take_posts(&self, core: &mut Core, events: &mut PendingEvents) -> bool {
        for _ in 0..POSTS {
            let Some(wr) = self.next_send(core) else {
                return false;
            };
            let Some(requester) = &mut core.requester else {
                // The queue pair failed before it could send.
                self.release_sends(core, 1);
                self.complete_send(core, &wr, Err(Reason::Flushed), events);
                continue;
            };
            // Cannot fail: the queue of the program has as many places.
            let Ok(msg) = requester.post(work_of(&wr, self.signal_all)) else {
                continue;
            };
            let place = place_of(msg.get(), core.taken.len());
            if let Some(place) = place.and_then(|place| core.taken.get_mut(place)) {
                *place = Some(wr);
            }
        }
        true
    }

    /// Sends packets and executes local requests.
    pub(super) fn transmit(
        &self,
        core: &mut Core,
        now: Instant,
        outlet: Outlet<'_>,
        budget: &mut RunBudget,
    ) {
        while let Some(step) = core
            .requester
            .as_mut()
            .and_then(|half| half.poll_transmit(now, budget.requests()))
        {
            match step {
                SendStep::Packets(burst) => {
                    budget.take(burst.packets);
                    if let Err(reason) = self.send_burst(core, &burst, outlet) {
                        if let Some(requester) = &mut core.requester {
                            requester.fail(burst.msg, reason);
                        }
                    }
                }
                SendStep::Local(msg) => {
                    let result = self.execute_local(core, msg);
                    if let Some(requester) = &mut core.requester {
                        requester.local_done(msg, result);
                    }
                }
            }
        }
    }

    /// Executes a request without packets (RNIC-REQ-11, RNIC-REQ-12, RNIC-MR-08, RNIC-MR-14).
    fn execute_local(&self, core: &Core, msg: MsgId) -> Result<(), Reason> {
        match find(&core.taken, msg).map(|wr| &wr.op) {
            Some(SendOp::RegMr(reg)) => reg
                .mr
                .register(&self.domain.tag, reg.key, reg.access, reg.iova)
                .map_err(|_| Reason::NotRegistered),
            Some(SendOp::LocalInv(key)) => self
                .domain
                .node
                .keys()
                .invalidate(&self.domain.tag, *key, None)
                .map_err(|_| Reason::NotInvalidated),
            Some(SendOp::BindMw(binding)) => {
                self.bind_window(binding).map_err(|_| Reason::NotBound)
            }
            _ => Err(Reason::Inconsistent),
        }
    }

    /// Binds a memory window, or ends what one of type 1 is bound to (RNIC-MR-14).
    fn bind_window(&self, binding: &WindowBinding) -> Result<(), AccessDenied> {
        let keys = self.domain.node.keys();
        let window = keys.find_window(binding.window).ok_or(AccessDenied)?;
        let region = if binding.len == 0 {
            None
        } else {
            Some(keys.find_region(binding.lkey).ok_or(AccessDenied)?)
        };
        window.bind(&self.domain.tag, &self.tag, binding, region)
    }

    /// The header of a datagram of `len` octets.
    fn datagram_head(&self, dest: &Destination, len: u32, qkey: u32) -> Result<Deth, Reason> {
        let same = Arc::ptr_eq(&dest.way.domain, &self.domain);
        check_send(len, self.port_mtu(), same)?;
        Ok(Deth {
            qkey: outgoing_qkey(dest.qkey, qkey),
            src_qp: self.number,
        })
    }

    /// The way of a datagram; `None` once its address is gone.
    fn datagram_path<'a>(
        &'a self,
        dest: &'a Destination,
        outlet: Outlet<'a>,
    ) -> Option<PeerPath<'a>> {
        let to = &dest.way.to;
        let port = source_port(to.flow_label, self.number, Qpn::new(dest.qpn));
        let near = self.domain.node.is_near(&to.dgid, to.sgid.protocol());
        PeerPath::new(to, port, self.egress(), outlet, near)
    }

    /// Lends the octets of a run, which the receiver may read from now on.
    fn loan_of(&self, msg: MsgId, wr: &Send, run: &PlannedPacket) -> Result<Loan, Reason> {
        check(&self.domain, &wr.data, run.offset, run.len).map_err(|_| Reason::SourceDenied)?;
        Ok(self.lender.lend(msg, &wr.data, run.offset, run.len))
    }

    /// Sends the packets of a burst (RNIC-REQ-10).
    fn send_burst(&self, core: &mut Core, burst: &Burst, outlet: Outlet<'_>) -> Result<(), Reason> {
        let Core {
            taken,
            to,
            near,
            peer,
            port,
            ident,
            qkey,
            ..
        } = core;
        let egress = self.egress();
        let wr = find(taken, burst.msg).ok_or(Reason::Inconsistent)?;
        let mut ext = headers(wr, burst);
        let (way, dest) = match &wr.dest {
            Some(dest) => {
                ext.deth = Some(self.datagram_head(dest, burst.work.len, *qkey)?);
                (self.datagram_path(dest, outlet), Qpn::new(dest.qpn))
            }
            None => {
                let near = near.is_some_and(|(_, near)| near);
                let way = to
                    .as_ref()
                    .and_then(|to| PeerPath::new(to, *port, egress, outlet, near));
                (way, *peer)
            }
        };
        // Without the source address packets are lost (RNIC-NET-04).
        let Some(way) = way else {
            let counters = egress.counters;
            counters.add(Counter::SendErrors, burst.packets.into());
            return Ok(());
        };
        if let (Outlet::Direct(receiver), Some(run)) = (outlet, burst.run()) {
            if run.len >= LENT_OCTETS {
                let head = head_of(burst, &run, 0, true, dest, ext)?;
                let loan = self.loan_of(burst.msg, wr, &run)?;
                way.lend(receiver, &head, burst.packets, run.wire_len, loan);
                return Ok(());
            }
        }
        let mut run = way.run();
        for count in 0..burst.packets {
            let index = burst.index.saturating_add(count);
            let planned = burst.plan.packet(index).ok_or(Reason::Inconsistent)?;
            let last = count.saturating_add(1) == burst.packets;
            let head = head_of(burst, &planned, count, last, dest, ext)?;
            *ident = ident.wrapping_add(1);
            run.send(&head, *ident, |payload| {
                gather(&self.domain, &wr.data, planned.offset, payload)
            })
            .map_err(|_| Reason::SourceDenied)?;
        }
        let congested = run.finish();
        drop(way);
        if let Some(requester) = core.requester.as_mut().filter(|_| congested) {
            requester.handle_congestion();
        }
        Ok(())
    }

    /// Handles a packet that answers requests of this side. `near` says whether it came past the network.
    pub(super) fn take_answer(
        &self,
        core: &mut Core,
        now: Instant,
        packet: &RocePacket<'_>,
        near: bool,
    ) {
        let Some(requester) = &mut core.requester else {
            return;
        };
        let psn = packet.bth.psn;
        let aeth = packet.ext.aeth.as_ref();
        match (packet.opcode.operation(), aeth) {
            (Operation::Acknowledge, Some(aeth)) => {
                requester.handle_ack(now, psn, aeth, near);
            }
            (Operation::AtomicAcknowledge, Some(aeth)) => {
                if let Ok(msg) = requester.handle_atomic_ack(now, psn, aeth) {
                    let original = packet.ext.original.unwrap_or_default();
                    self.deliver(core, msg, 0, &original.to_ne_bytes());
                }
            }
            (Operation::ReadResponse, aeth) => {
                let position = packet.opcode.position();
                let len = packet.payload.len();
                let delivery = requester.handle_read_response(now, psn, position, aeth, len);
                if let Ok(delivery) = delivery {
                    self.deliver(core, delivery.msg, delivery.offset, packet.payload);
                }
            }
            _ => {}
        }
    }

    /// Stores the data of a response.
    fn deliver(&self, core: &mut Core, msg: MsgId, offset: u32, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let stored = find(&core.taken, msg)
            .is_some_and(|wr| scatter(&self.domain, &wr.data, offset, data).is_ok());
        if !stored {
            if let Some(requester) = &mut core.requester {
                requester.fail(msg, Reason::SinkDenied);
            }
        }
    }

    /// Completes requests (RNIC-REQ-06).
    pub(super) fn complete_sends(&self, core: &mut Core, events: &mut PendingEvents) {
        let mut released = 0_u64;
        loop {
            let Some(done) = core
                .requester
                .as_mut()
                .and_then(|half| half.poll_complete())
            else {
                break;
            };
            released = released.wrapping_add(1);
            if self.kind == IbQpType::Rc {
                // The program may change the memory from now on.
                self.lender.complete(done.msg);
            }
            let place = place_of(done.msg.get(), core.taken.len());
            let wr = place.and_then(|place| core.taken.get_mut(place)?.take());
            if let Some(wr) = wr {
                self.count_completed(&wr, done.result);
                if done.reported {
                    // A program that sees the completion may post at once.
                    self.release_sends(core, released);
                    released = 0;
                    self.complete_send(core, &wr, done.result, events);
                }
            }
        }
        if released > 0 {
            self.release_sends(core, released);
        }
    }

    /// Counts a request that completes.
    fn count_completed(&self, wr: &Send, result: Result<(), Reason>) {
        let counter = match result {
            Ok(()) if completed(&wr.op) == CompletedOp::Send => Counter::Sends,
            Err(Reason::NoAnswer | Reason::Losses) => Counter::RetriesExceeded,
            Err(Reason::PeerNotReady) => Counter::RnrRetriesExceeded,
            _ => return,
        };
        self.count(counter);
    }

    fn complete_send(
        &self,
        core: &mut Core,
        wr: &Send,
        result: Result<(), Reason>,
        events: &mut PendingEvents,
    ) {
        let mut completion = self.completion(wr.id, completed(&wr.op));
        set_result(&mut completion, result);
        completion.len = wr.data.len().unwrap_or_default();
        let new = NewCompletion {
            completion,
            solicited: false,
        };
        if !core.sent.add(&self.send_cq, new) {
            events.fatal = true;
        }
    }

    /// Whether an address vector has these addresses, from the view of a receiver (RNIC-IP-06).
    pub(super) fn is_from(to: &AddressVector, src: &[u8; 16], dst: &[u8; 16]) -> bool {
        to.dgid == *src && to.sgid.gid() == *dst
    }

    /// Octets of the room of a receive request.
    pub(super) fn room_of(data: &WrData) -> u32 {
        data.len().unwrap_or_default()
    }
}
