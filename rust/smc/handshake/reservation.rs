// SPDX-License-Identifier: GPL-2.0

//! Our end of a connection-to-be, reserved until the handshake ends: the place on a link, the
//! buffers and the token.
//!
//! Source: RFC 7609 sections 3.5.1.2 to 3.5.2.3 (`SMCR-CLC-122..129`, `SMCR-RDV-20..29`).

use crate::{
    fabric::quota::Payer,
    kapi::verbs::sendbuf::SendBuffer,
    proto::{
        base::verbs::Mtu,
        smc::{
            buffer_kind::BufferKind,
            buffer_sizing::WantedSize,
            cdc::{
                CloseTimers as CdcTimers,
                Conn,
                ConnConfig as CdcConfig, //
            },
            clc::{
                version::Hop,
                Endpoint,
                Prepared, //
            },
            llc::{
                PeerLink,
                PeerRmbId, //
            },
            wire::{
                AlertToken,
                BufSize, //
            },
        },
        stream::{
            arrivals::Arrivals,
            keepalive::Keepalive,
            reason::Reason, //
        },
    },
    smc::{
        admin::sysctl::Settings,
        conn::data::{
            Data,
            DeviceBinding, //
        },
        group::{
            link_group::LinkGroup,
            rmb::{
                Rmbe,
                EYE_CATCHER_BYTES, //
            },
            route::{
                LinkUse,
                PeerElement, //
            },
        },
        net::GivenBuffer,
    },
    sock::{
        lent_pages::LentPages,
        stats::Traffic, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Size of the send buffer of a connection, and the payer.
pub(crate) struct SendMemory {
    payer: Payer,
    /// Size of the buffer.
    bytes: usize,
    /// Whether it is contiguous.
    kind: BufferKind,
}

impl SendMemory {
    /// That of a buffer of the size `wanted`.
    pub(crate) fn new(wanted: WantedSize, group: &LinkGroup, payer: &Payer) -> Result<Self> {
        Ok(Self {
            payer: payer.clone(),
            bytes: usize::try_from(group.buffer_size(wanted).bytes())?,
            kind: group.buffers,
        })
    }

    /// Allocates the buffer, or a smaller one. Context: may sleep.
    fn allocate(&self) -> Result<Arc<SendBuffer>> {
        let mut bytes = self.bytes;
        let least = usize::try_from(BufSize::MIN.bytes())?;
        loop {
            let sendbuf = self.kind.make(u32::try_from(bytes)?, |piece| {
                self.payer.send_buffer(bytes, usize::try_from(piece)?)
            });
            if sendbuf.is_ok() || bytes <= least {
                return sendbuf;
            }
            bytes /= 2;
        }
    }
}

/// The buffers, token and link of a connection until its handshake ends.
pub(crate) struct Reservation {
    /// The link group.
    pub(crate) group: Arc<LinkGroup>,
    /// This side's end, as the peer gets it. Boxed, as reservations are moved on a small stack.
    pub(crate) prepared: KBox<Prepared>,
    /// Where packets to the peer go first.
    pub(crate) hop: Hop,
    /// The place on the link that both sides name in CLC.
    pub(crate) link_use: LinkUse,
    /// The receive buffer.
    pub(crate) rmbe: Rmbe,
    /// Size and payer of the send buffer.
    pub(crate) memory: SendMemory,
    /// Made when the peer's end is known, at the latest.
    pub(crate) sendbuf: Option<Arc<SendBuffer>>,
    /// Alert token of the connection.
    pub(crate) token: AlertToken,
    /// The other end of the TCP connection is a host that the group is known to be with.
    pub(crate) proven: bool,
    /// The peer's end and its RMB, once known.
    pub(crate) peer: Option<(Endpoint, PeerRmbId)>,
}

/// Why a reservation is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// One side declined, so both know.
    Declined,
    /// The peer declined because it does not know the link.
    OutOfSync,
    /// The handshake broke off.
    Broken,
}

impl Reservation {
    /// Whether the group was made for this connection.
    pub(crate) fn is_first_contact(&self) -> bool {
        self.prepared.first_contact
    }

    /// The peer's end is known: connects the link of a new group, or checks that of an old one,
    /// and learns where to write. Context: may sleep.
    pub(crate) fn connect(&mut self, peer: &Endpoint) -> Result<(), Reason> {
        if self.sendbuf.is_none() {
            self.make_sendbuf()?;
        }
        let group = &self.group;
        let mut slot = self.link_use.handler().slot();
        if self.is_first_contact() {
            let own = Mtu::from_code(group.path.gid.mtu_code).unwrap_or(Mtu::M1024);
            let link = PeerLink {
                mac: match self.hop {
                    Hop::Host => peer.mac,
                    Hop::Gateway(mac) => mac,
                },
                gid: peer.gid,
                qpn: peer.qpn,
            };
            group
                .connect(&link, peer.psn, peer.path_mtu(own))
                .map_err(|_| Reason::ReadyLink)?;
        } else {
            // A client may have chosen another link than we did; each side writes by its own
            // (`SMCR-CLC-320`, `SMCR-CLC-321`).
            let named = group.link_of_peer(peer.gid, peer.mac, peer.qpn);
            slot = named
                .filter(|named| *named == slot || group.is_active(*named))
                .ok_or(Reason::NoActiveLink)?;
        }
        let rmb = if self.proven {
            let rmb = group.peer_rmb(slot, peer.rtoken());
            let rmb = rmb.ok_or(Reason::RtokenTable)?;
            // The peer gives an RMBE to a new connection that an old one of ours still writes to:
            // the old one is over (`SMCR-RMB-24`).
            group.evict(&Self::element(peer, rmb), None);
            rmb
        } else {
            let rmb = group.known_rmb(slot, peer.rtoken());
            let rmb = rmb.ok_or(Reason::NoActiveLink)?;
            group.expect_conflicts();
            if group.writer(&Self::element(peer, rmb), None).is_some() {
                return Err(Reason::NoActiveLink);
            }
            rmb
        };
        self.peer = Some((*peer, rmb));
        Ok(())
    }

    /// Allocates the send buffer. Context: may sleep.
    pub(crate) fn make_sendbuf(&mut self) -> Result<(), Reason> {
        let sendbuf = self.memory.allocate().map_err(|_| Reason::Memory)?;
        self.sendbuf = Some(sendbuf);
        Ok(())
    }

    /// What the connection gets: to receive, to send; and the size of the peer's element.
    pub(crate) fn buffers(&self) -> ([GivenBuffer; 2], u32) {
        let sendbuf = self.sendbuf.as_ref().map_or(0, |buffer| buffer.len());
        let received = self.rmbe.rmb().sizes;
        let receives = GivenBuffer {
            octets: self.prepared.endpoint.buf_size.bytes(),
            is_reused: self.rmbe.is_reused,
            is_smaller: received.size < received.wanted,
        };
        let sends = GivenBuffer {
            octets: u32::try_from(sendbuf).unwrap_or(0),
            is_reused: false,
            is_smaller: sendbuf < self.memory.bytes,
        };
        let peer = self.peer.as_ref();
        let peer = peer.map_or(0, |(peer, _)| peer.buf_size.bytes());
        ([receives, sends], peer)
    }

    /// The element that the peer has named.
    fn element(peer: &Endpoint, rmb: PeerRmbId) -> PeerElement {
        PeerElement {
            rmb,
            index: peer.rmbe_index,
            size: peer.buf_size,
        }
    }

    /// The parameters of the core.
    fn config(
        &self,
        peer: &Endpoint,
        sendbuf: &SendBuffer,
        eye_catcher: bool,
        settings: &Settings,
    ) -> CdcConfig {
        CdcConfig {
            token: peer.alert_token,
            sndbuf: u32::try_from(sendbuf.len()).unwrap_or(0),
            local_rmbe: self.prepared.endpoint.buf_size.bytes(),
            peer_rmbe: peer.buf_size.bytes(),
            origin: if eye_catcher { EYE_CATCHER_BYTES } else { 0 },
            cork_bytes: settings.autocorking_size(),
            max_write: if sendbuf.is_contiguous() {
                CdcConfig::MAX_WRITE
            } else {
                BufferKind::PIECES_WRITE
            },
            timers: CdcTimers {
                drain_all: settings.orphan_time(),
                ..CdcTimers::DEFAULT
            },
        }
    }

    /// The data side of the connection, with the core in its first state. Context: may sleep.
    ///
    /// # Errors
    ///
    /// The reservation comes back.
    pub(crate) fn build(mut self, settings: &Settings) -> Result<KBox<Data>, (Self, Error)> {
        let (Some((peer, rmb)), Some(sendbuf)) = (self.peer, self.sendbuf.take()) else {
            return Err((self, EINVAL));
        };
        let peer_element = Self::element(&peer, rmb);
        let slot = self.link_use.handler().slot();
        let route = self.group.route(slot, &sendbuf, &peer_element);
        let route = match route {
            Ok(route) => route,
            Err(error) => return Err((self, error)),
        };
        let eye_catcher = self.group.has_eye_catchers();
        if eye_catcher && self.prepared.first_contact {
            // The peer has known the element since before it said so, but leaves the place alone.
            if let Err(error) = self.rmbe.mark() {
                return Err((self, error));
            }
        }
        let config = self.config(&peer, &sendbuf, eye_catcher, settings);
        let Some(core) = Conn::new(&config) else {
            return Err((self, EINVAL));
        };
        let Ok(uninit) = KBox::<Data>::new_uninit(GFP_KERNEL) else {
            return Err((self, ENOMEM));
        };
        let memory = self.rmbe.memory().clone();
        let element = self.rmbe.element;
        let data = Data {
            core,
            token: self.token,
            group: self.group,
            memory,
            element,
            eye_catcher,
            binding: Some(DeviceBinding {
                route,
                next: None,
                rmbe: self.rmbe,
                sendbuf,
            }),
            peer_element,
            keepalive: Keepalive::default(),
            lent_pages: LentPages::default(),
            counters: Traffic::default(),
            arrivals: Arrivals::default(),
            urgent_byte: 0,
            orphan: None,
        };
        Ok(KBox::write(uninit, data))
    }

    /// Releases all parts after a failed handshake. A group made for this connection goes with it
    /// (`SMCR-FBK-19`), unless others use it already. The link of a group that the peer denies to
    /// know is tested. Context: may sleep.
    pub(crate) fn release(self, how: Release) {
        let known = self.group.tokens.lock().remove(self.token);
        drop(known);
        match how {
            Release::Declined | Release::OutOfSync => self.rmbe.retire(),
            // The peer may believe that the connection is on, and write.
            Release::Broken => drop(self.rmbe),
        }
        drop(self.sendbuf);
        if self.prepared.first_contact {
            if self.group.abandon() {
                return;
            }
            self.group.end_founding();
        }
        if how == Release::OutOfSync && self.proven {
            self.group.suspect();
        }
        self.group.connection_left();
    }
}
