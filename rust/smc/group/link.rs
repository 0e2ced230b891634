// SPDX-License-Identifier: GPL-2.0

//! Our side of a link: a queue pair with what belongs to it.
//!
//! Source: RFC 7609 sections 2.2, 3.5.1 (`SMCR-LNK-01..11`, `SMCR-RMB-07`).
//!
//! An end is made in INIT, is connected (RTR) when the peer's end is known, and can send (RTS)
//! when the peer's may have something to receive. It is owned by its link group and worked on with
//! the group's mutex held.

use super::{
    completions::{
        LinkHandler,
        LinkOwner,
        LlcMessage,
        Tag,
        LLC_SLOTS,
        RECV_BYTES, //
    },
    rmb::Rmb, //
};
use crate::{
    fabric::ports::Path,
    kapi::verbs::{
        channel::{
            Channel,
            ChannelConfig,
            ConnectionConfig,
            Peer as ChannelPeer,
            RecvPosting, //
        },
        device::Device,
        pd::Pd, //
    },
    proto::{
        base::{
            queue::ArrayQueue,
            verbs::{
                Gid,
                Mac,
                Mtu,
                Psn,
                Qpn, //
            },
        },
        smc::{
            cdc,
            llc::{
                self,
                LinkSlot,
                LlcKind,
                LocalLink,
                PeerLink, //
            },
        },
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// Octets that a message of version 2 may have; its length is limited to that.
const LONG_BYTES: u16 = 8192;

const _: () = assert!(LONG_BYTES as usize >= llc::LONG_BYTES);

/// Octets of a message of version 1 (`SMCR-GEN-12`).
const SHORT_BYTES: u16 = 44;
/// Most receive requests that are posted again at once.
const MAX_RECV_BATCH: u16 = 16;
/// Longest run of unsignalled chains.
const MAX_UNSIGNALLED: u16 = 16;

const _: () = assert!(SHORT_BYTES as usize <= RECV_BYTES);

/// Parameters of the connection of the queue pairs. To soft-RoCE seven retries have no end. RDMA reads
/// are not used.
const CONNECTION: ConnectionConfig = ConnectionConfig {
    ack_timeout: 16,
    retries: 7,
    rnr_retries: 7,
    min_rnr_timer: 1,
    max_rd_atomic: 1,
    max_dest_rd_atomic: 1,
    hop_limit: 64,
};

/// Least number of slots of a device that has fewer than the administrator wants.
const LEAST_SLOTS: u16 = 16;

/// The configuration of a new end.
pub(crate) struct LinkConfig {
    /// Messages of connections that can be in flight.
    pub(crate) send_slots: u16,
    /// Messages that can arrive before any is handled.
    pub(crate) recv_slots: u16,
    /// LLC messages may be longer than 44 octets.
    pub(crate) has_long_messages: bool,
    /// Our name for the link, unlike that of any other (`SMCR-LNK-03`).
    pub(crate) uid: u32,
}

/// How many receive requests, out of `slots`, the channel posts again at once.
fn recv_posting(slots: u16) -> RecvPosting {
    RecvPosting::Batch((slots / 4).clamp(1, MAX_RECV_BATCH))
}

/// Our side of a link.
pub(crate) struct Link {
    /// Its place in the group.
    pub(crate) slot: LinkSlot,
    /// Our name for the link, unlike that of any other (`SMCR-LNK-03`).
    pub(crate) uid: u32,
    /// Device, port and address.
    pub(crate) path: Path,
    /// Our initial packet sequence number.
    pub(crate) psn: Psn,
    /// The path MTU both agreed on, once the peer's is known.
    pub(crate) mtu: Mtu,
    /// The other end, once it is known.
    pub(crate) peer: Option<PeerLink>,
    /// The queue pair.
    pub(crate) channel: Arc<Channel<LinkHandler>>,
    /// Messages of connections that can be in flight, and messages that can arrive before any is
    /// handled.
    pub(crate) slots: (u16, u16),
    /// What completions do.
    pub(crate) handler: Arc<LinkHandler>,
    /// The protection domain: no two links share one.
    pd: Arc<Pd>,
    /// The queue pair can send.
    pub(crate) sends: bool,
    /// Memory can be registered by the queue pair.
    pub(crate) registers: bool,
    /// LLC knows that the link is dead.
    pub(crate) failed: bool,
    /// The queue pair has ended, and all that was posted has come back.
    pub(crate) closed: bool,
    /// LLC messages that found no send slot.
    unsent: ArrayQueue<(LlcKind, LlcMessage), 8>,
}

/// Opens a channel, with fewer slots if the device has not that many; `config` has the number
/// then. Context: may sleep.
fn open_channel(
    pd: &Arc<Pd>,
    config: &mut ChannelConfig,
    handler: &Arc<LinkHandler>,
) -> Result<Arc<Channel<LinkHandler>>> {
    loop {
        match Channel::new(pd, config, handler.clone()) {
            Err(error)
                if (error == EINVAL || error == ENOMEM)
                    && config.send_slots.max(config.recv_slots) > LEAST_SLOTS =>
            {
                let fewer = |slots: u16| slots.min(LEAST_SLOTS.max(slots / 2));
                config.send_slots = fewer(config.send_slots);
                config.recv_slots = fewer(config.recv_slots);
                config.recv_posting = recv_posting(config.recv_slots);
            }
            other => return other,
        }
    }
}

impl Link {
    /// Returns the GID of the peer's end. Zero while the peer has not named it.
    pub(crate) fn peer_gid(&self) -> [u8; 16] {
        self.peer.as_ref().map_or([0; 16], |peer| peer.gid.get())
    }

    /// Makes a queue pair in INIT, with receive requests (`SMCR-LNK-05`, `SMCR-LNK-11`).
    /// Context: may sleep.
    pub(crate) fn new(
        owner: Arc<dyn LinkOwner>,
        slot: LinkSlot,
        path: &Path,
        wanted: &LinkConfig,
    ) -> Result<KBox<Self>> {
        let pd = Pd::new(&path.device)?;
        let mut config = ChannelConfig {
            port: path.port,
            gid_index: path.gid.index,
            send_slots: wanted.send_slots.saturating_add(LLC_SLOTS),
            recv_slots: wanted.recv_slots,
            recv_posting: recv_posting(wanted.recv_slots),
            send_bytes: SHORT_BYTES,
            recv_bytes: u32::try_from(RECV_BYTES)?,
            recv_halves: false,
            long_bytes: if wanted.has_long_messages {
                LONG_BYTES
            } else {
                0
            },
            max_writes: u8::try_from(cdc::MAX_WRITES)?,
            max_pieces: 0,
            max_unsignalled: MAX_UNSIGNALLED,
            may_invalidate: false,
            peer_reads: false,
            connection: CONNECTION,
        };
        let place = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let handler = LinkHandler::new(owner, slot, &path.device, wanted.has_long_messages)?;
        let channel = open_channel(&pd, &mut config, &handler)?;
        Ok(KBox::write(
            place,
            Self {
                slot,
                uid: wanted.uid,
                path: path.clone(),
                psn: Psn::new(crate::kapi::base::module::random_u32()),
                mtu: Mtu::from_code(path.gid.mtu_code).unwrap_or(Mtu::M1024),
                peer: None,
                channel,
                slots: (
                    config.send_slots.saturating_sub(LLC_SLOTS),
                    config.recv_slots,
                ),
                handler,
                pd,
                sends: false,
                registers: false,
                failed: false,
                closed: false,
                unsent: ArrayQueue::new(),
            },
        ))
    }

    /// Number of the queue pair.
    pub(crate) fn qpn(&self) -> Qpn {
        Qpn::new(self.channel.qpn())
    }

    /// The end as LLC announces it.
    pub(crate) fn local(&self) -> LocalLink {
        LocalLink {
            mac: Mac::new(self.path.mac()),
            gid: Gid::new(self.path.gid.gid),
            qpn: self.qpn(),
            uid: self.uid,
        }
    }

    /// Whether it uses this device.
    pub(crate) fn is_on(&self, device: &Arc<Device>) -> bool {
        Arc::ptr_eq(&self.path.device, device)
    }

    /// Whether it uses this port of the device.
    pub(crate) fn is_on_port(&self, device: &Arc<Device>, port: u32) -> bool {
        self.is_on(device) && self.path.port == port
    }

    /// Gets a key for the RMB on this link, which may be announced to the peer (`SMCR-RMB-20`).
    /// Context: may sleep.
    pub(crate) fn map(&self, rmb: &Rmb) -> Result {
        rmb.map(self.slot, &self.pd)
    }

    /// Connects to the peer's queue pair: RTR (`SMCR-LNK-06`, `SMCR-LNK-09`). Context: may sleep.
    pub(crate) fn connect(&mut self, peer: &PeerLink, psn: Psn, mtu: Mtu) -> Result {
        self.channel.to_rtr(&ChannelPeer {
            qpn: peer.qpn.get(),
            rq_psn: psn.get(),
            mtu_code: mtu.code(),
            gid: peer.gid.get(),
            mac: peer.mac.get(),
        })?;
        self.mtu = mtu;
        self.peer = Some(*peer);
        Ok(())
    }

    /// Lets the queue pair send: RTS (`SMCR-LNK-07`, `SMCR-LNK-08`). Context: may sleep.
    pub(crate) fn start_sending(&mut self) -> Result {
        self.channel.to_rts(self.psn.get())?;
        self.sends = true;
        self.registers = true;
        Ok(())
    }

    /// Makes the keys of these RMBs valid. Nothing has been sent on the link yet, so that it does
    /// not wait for the peer. Context: may sleep.
    pub(crate) fn activate(&self, rmbs: &[Arc<Rmb>]) -> Result {
        rmbs.iter()
            .try_for_each(|rmb| rmb.activate(self.slot, &self.channel))
    }

    /// Queues an LLC message behind those that wait for a send slot. `false` if there are too many.
    pub(crate) fn queue(&mut self, kind: LlcKind, msg: LlcMessage) -> bool {
        self.unsent.push((kind, msg)).is_ok()
    }

    /// Posts what waits for a send slot, in order. Returns what could not be sent.
    pub(crate) fn post_unsent(&mut self) -> Option<LlcKind> {
        // Set before the search, so that a slot that comes back meanwhile is noticed.
        let waits = &self.handler.llc_waits;
        waits.store(!self.unsent.is_empty(), Relaxed);
        while let Some((kind, msg)) = self.unsent.front() {
            let kind = *kind;
            // `on_slot_free` continues.
            let slot = self.channel.try_reserve(0)?;
            let posted = match msg {
                LlcMessage::Short(msg) => slot.post(Tag::Llc(kind), None, &[], msg, true),
                LlcMessage::Long(msg) => slot.post_long(Tag::Llc(kind), msg),
            };
            match posted {
                // The completion of the posted long message continues.
                Err((error, _)) if error == EBUSY => return None,
                _ => drop(self.unsent.pop()),
            }
            if posted.is_err() {
                return Some(kind);
            }
        }
        waits.store(false, Relaxed);
        None
    }

    /// Ends the queue pair: all that was posted comes back, and the peer writes no more by this
    /// link. Then takes the registrations back. Context: may sleep.
    pub(crate) fn close(&self, rmbs: &[Arc<Rmb>]) {
        self.channel.shutdown();
        for rmb in rmbs {
            rmb.unmap(self.slot);
        }
    }
}
