// SPDX-License-Identifier: GPL-2.0

//! Changes of a queue pair's state, and its end (RNIC-QPS).

use super::{
    pair::{
        Core,
        QueuePair, //
    },
    settings::{
        from_verbs,
        to_verbs,
        QpSettings, //
    },
};
use crate::{
    kapi::{
        base::octets::zeroed,
        ibdev::{
            GidProtocol,
            IbQpType,
            QpChange, //
        },
    },
    proto::{
        base::verbs::Mtu,
        roce::{
            datagram::GSI_QKEY,
            requester::{
                ack_timeout,
                Requester,
                RequesterConfig,
                RetryLimits,
                SendRecord, //
            },
            responder::{
                RemoteAccess,
                Resource,
                Responder,
                ResponderConfig, //
            },
            state::{
                QpState,
                Transition, //
            },
        },
    },
    rnic::wire::source_port,
};
use core::mem::take;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Request packets in flight (RNIC-PSN-04).
const WINDOW_PACKETS: u32 = 512;
/// Octets of requests in flight.
const WINDOW_OCTETS: u32 = 1 << 20;
/// Packets after a time-out until the peer answers (RNIC-TMO-05).
const PROBE_PACKETS: u32 = 16;

/// Octets of the piece in which a receiver copies what the peer lends: it stays in the nearest cache.
const PIECE: usize = 8_192;

/// The same for an adapter that places octets late, the last pieces first: short, to have many.
const LATE_PIECE: usize = 4_096;

/// The memory of the half that a change starts.
struct HalfMemory {
    /// READs and atomics that the receiving half can repeat.
    resources: KVVec<Resource>,
    /// Room of the receiving half for a piece of what the peer lends.
    piece: KVec<u8>,
    /// Records of requests of the sending half.
    records: KVVec<SendRecord>,
}

impl QueuePair {
    /// The memory of the half that a change starts. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the receiving half lacks an attribute.
    fn half_memory(&self, effect: Transition, config: &QpSettings) -> Result<HalfMemory> {
        let mut resources = KVVec::new();
        let mut piece = KVec::new();
        let mut records = KVVec::new();
        match effect {
            Transition::StartReceive if self.kind.is_connected() => {
                let count = usize::from(config.max_dest_rd_atomic);
                resources.resize(count, Resource::EMPTY, GFP_KERNEL_ACCOUNT)?;
                if config.to.is_none() || config.mtu.is_none() {
                    return Err(EINVAL);
                }
                if self.kind == IbQpType::Rc {
                    let is_late = self.domain.node.profile().is_late;
                    let octets = if is_late { LATE_PIECE } else { PIECE };
                    piece = zeroed(octets, GFP_KERNEL_ACCOUNT)?;
                }
            }
            Transition::StartSend => {
                let count = usize::try_from(self.caps.max_send_wr)?;
                records.resize(count, SendRecord::EMPTY, GFP_KERNEL_ACCOUNT)?;
            }
            _ => {}
        }
        Ok(HalfMemory {
            resources,
            piece,
            records,
        })
    }

    /// The state that a change leads to from `state`, and its effect.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is illegal there.
    fn effect(&self, state: QpState, change: &QpChange<'_>) -> Result<(QpState, Transition)> {
        let next = from_verbs(change.target(to_verbs(state))?);
        let effect = state.change(next, self.service()).ok_or(EINVAL)?;
        Ok((next, effect))
    }

    /// Changes attributes and state. Context: may sleep.
    pub(super) fn change(self: &Arc<Self>, change: &QpChange<'_>) -> Result {
        let mut config = self.config.lock();
        let state = self.core.lock().state;
        let (_, effect) = self.effect(state, change)?;
        let port_mtu = self.port_mtu();
        config.take(change, port_mtu, self.domain.node.profile())?;
        // Before the lock.
        let memory = self.half_memory(effect, &config)?;
        let mut core = self.core.lock();
        // The queue pair may have failed in between: no half starts from there.
        let (next, effect) = self.effect(core.state, change)?;
        core.record.merge(change);
        self.path.lock().forget();
        core.qkey = match self.kind {
            IbQpType::Gsi => GSI_QKEY,
            IbQpType::Rc | IbQpType::Uc | IbQpType::Ud => config.qkey,
        };
        match effect {
            Transition::StartReceive => self.start_receive(&mut core, &config, port_mtu, memory),
            Transition::StartSend => self.start_send(&mut core, &config, memory.records),
            Transition::PauseSend => {
                if let Some(requester) = &mut core.requester {
                    requester.pause();
                }
                core.draining = true;
                core.reports_drained = change.drained_event().is_some_and(|asked| asked != 0);
            }
            Transition::ResumeSend => {
                if core.requester.as_mut().is_some_and(|half| !half.resume()) {
                    return Err(EINVAL);
                }
                core.draining = false;
            }
            Transition::Flush => self.start_flush(&mut core),
            Transition::Clear => self.stop(&mut core),
            Transition::Attributes => {}
        }
        if let Some(responder) = &mut core.responder {
            responder.permit(remote_access(&config), config.min_rnr_timer);
        }
        core.state = next;
        self.apply_posting(next);
        drop(core);
        if effect == Transition::Clear {
            *config = QpSettings::new();
            self.forget_requests();
            self.send_cq.purge(self.handle.token());
            self.recv_cq.purge(self.handle.token());
        }
        self.kick();
        Ok(())
    }

    /// MTU of the port now.
    pub(super) fn port_mtu(&self) -> Mtu {
        self.domain.node.port_mtu()
    }

    /// Tells the queues what becomes of requests.
    pub(super) fn apply_posting(&self, state: QpState) {
        self.sends.lock().set_posting(state.post_send());
        self.receives.lock().set_posting(state.post_receive());
    }

    /// Enters state RTR.
    fn start_receive(
        &self,
        core: &mut Core,
        config: &QpSettings,
        port_mtu: Mtu,
        memory: HalfMemory,
    ) {
        core.peer = config.peer;
        core.mtu = config.mtu.unwrap_or(port_mtu);
        core.to.clone_from(&config.to);
        core.addressed = None;
        core.near = None;
        let label = config.to.as_ref().map_or(0, |to| match to.sgid.protocol() {
            GidProtocol::RoceV1 => 0,
            GidProtocol::Ipv4 | GidProtocol::Ipv6 => to.flow_label,
        });
        core.port = source_port(label, self.number, config.peer);
        if !self.kind.is_connected() {
            return;
        }
        let settings = ResponderConfig {
            service: self.service(),
            mtu: core.mtu,
            first_psn: config.rq_psn,
            access: remote_access(config),
            rnr_timer: config.min_rnr_timer,
        };
        core.piece = memory.piece;
        core.responder = Some(Responder::new(&settings, memory.resources));
    }

    /// Enters state RTS.
    fn start_send(&self, core: &mut Core, config: &QpSettings, records: KVVec<SendRecord>) {
        let settings = RequesterConfig {
            service: self.service(),
            mtu: core.mtu,
            first_psn: config.sq_psn,
            max_rd_atomic: u32::from(config.max_rd_atomic),
            retry: RetryLimits {
                timeout: ack_timeout(config.timeout),
                retries: config.retries,
                rnr_retries: config.rnr_retries,
                probe: PROBE_PACKETS,
            },
            window_packets: WINDOW_PACKETS,
            window_octets: WINDOW_OCTETS,
        };
        core.requester = Some(Requester::new(&settings, records));
    }

    /// Enters state ERR: the work item flushes all requests (RNIC-ERR-05).
    fn start_flush(&self, core: &mut Core) {
        if let Some(requester) = &mut core.requester {
            requester.flush();
        }
        if let Some(responder) = &mut core.responder {
            responder.flush();
        }
        drop(core.late.take());
    }

    /// Enters state RESET: nothing is sent, received or completed (RNIC-QPS-04).
    fn stop(&self, core: &mut Core) {
        self.count_events(core);
        core.requester = None;
        core.responder = None;
        core.receiving = None;
        // No request is left for the peer to copy.
        self.lender.restart();
        core.to = None;
        drop(core.late.take());
        core.draining = false;
        if core.failed.take().is_some() {
            self.send_cq.forget_failed(self.number);
            self.recv_cq.forget_failed(self.number);
        }
        core.last_receive = false;
        for place in core.taken.iter_mut() {
            *place = None;
        }
        if let Some(rings) = &mut core.rings {
            rings.clear();
        }
    }

    /// Forgets all requests that are posted. None is posted meanwhile.
    fn forget_requests(&self) {
        // Requests hold references that are not dropped with interrupts off.
        loop {
            let taken = self.sends.lock().take();
            if taken.is_none() {
                break;
            }
        }
        self.sends.lock().restart();
        self.receives.lock().clear();
        loop {
            let arrived = self.inbox.lock().pop();
            if arrived.is_none() {
                break;
            }
        }
    }

    /// Destroys the queue pair (RNIC-LIFE-03). Context: may sleep.
    ///
    /// Waits for the work items, the timer and handlers of completions. A packet that found the queue
    /// pair before only finds a closed inbox.
    pub(super) fn end(self: &Arc<Self>) {
        let node = &self.domain.node;
        if self.kind == IbQpType::Gsi {
            node.clear_gsi();
        } else {
            node.runtime().numbers().remove(self.number.get());
        }
        self.inbox.lock().close();
        let mut core = self.core.lock();
        core.dead = true;
        self.stop(&mut core);
        let taken = take(&mut core.taken);
        drop(core);
        drop(taken);
        self.lender.close();
        self.apply_posting(QpState::Reset);
        // From here on no run arms the timer, or waits for room.
        self.room.end_wait();
        self.alarm.cancel_sync();
        self.retry.cancel_sync();
        self.work.cancel_sync();
        self.forget_requests();
        self.send_cq.purge(self.handle.token());
        self.recv_cq.purge(self.handle.token());
    }
}

/// What the peer may do.
fn remote_access(config: &QpSettings) -> RemoteAccess {
    RemoteAccess {
        write: config.access.remote_write,
        read: config.access.remote_read,
        atomic: config.access.remote_atomic,
        flush: config.access.remote_flush,
    }
}
