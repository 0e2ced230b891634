// SPDX-License-Identifier: GPL-2.0

//! One side of the simulation: a group and an engine that does what it says, and that watches over
//! what it may say.

use std::collections::BTreeMap;

use super::{
    fabric::{
        Device,
        QpStage, //
    },
    Random, //
};
use crate::proto::{
    base::{
        time::Instant,
        verbs::{
            Gid,
            Mac,
            Mtu,
            Psn,
            Qpn,
            RKey, //
        },
    },
    smc::{
        llc::{
            action::{
                RmbId,
                Role, //
            },
            add::{
                LinkOffer,
                PeerOffer, //
            },
            group::{
                Group,
                GroupConfig,
                GroupTimers, //
            },
            link::{
                LinkSlot,
                LocalLink,
                PeerLink,
                Port, //
            },
            msg::Layout,
            rtoken::Entry,
            testing::START, //
        },
        wire::{
            LinkNum,
            RToken, //
        },
    },
};

/// Most buffers of a side.
const RMBS: usize = 12;

/// What first contact, and the group behind it, came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Open,
    Ready,
    Declined,
    Aborted,
    Terminated,
}

/// A buffer of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Confirming,
    Confirmed,
    Deleting,
}

/// A port of a side.
pub(super) fn port(side: usize, number: u8) -> Port {
    let side = side as u8;
    Port {
        mac: Mac::new([2, 0, 0, 0, side, number]),
        gid: Gid::new([side + 1, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    }
}

/// The token of a buffer at a queue pair.
pub(super) fn token(side: usize, rmb: u16, qpn: u32) -> RToken {
    let base = if side == 0 { 0x1000_0000 } else { 0x2000_0000 };
    RToken {
        rkey: RKey::new(base + (qpn << 12) + u32::from(rmb)),
        vaddr: (u64::from(rmb) << 20) + (u64::from(qpn) << 40),
    }
}

/// One side.
pub(super) struct Peer {
    pub(super) group: Group<Vec<Entry>>,
    pub(super) device: Device,
    pub(super) outcome: Outcome,
    pub(super) was_ready: bool,
    next_rmb: u16,
    /// The own buffers the peer knows, or is about to know.
    pub(super) rmbs: BTreeMap<u16, Known>,
    /// The links that connections use.
    pub(super) connections: Vec<LinkSlot>,
    /// When the last message of a queue pair arrives: they keep their order.
    pub(super) last: BTreeMap<u32, Instant>,
    /// What the group has asked for.
    pub(super) asked: Option<(LinkSlot, Option<PeerOffer>, bool)>,
}

impl Peer {
    pub(super) fn new(role: Role, ports: u8, max_links: u8, layout: Layout) -> Self {
        let side = usize::from(role == Role::Server);
        let device = Device::new(side, ports);
        let (here, there) = (port(side, 0), port(1 - side, 0));
        let config = GroupConfig {
            role,
            local: LocalLink {
                mac: here.mac,
                gid: here.gid,
                qpn: Qpn::new(device.ends[0].qpn),
                uid: 1,
            },
            peer: PeerLink {
                mac: there.mac,
                gid: there.gid,
                qpn: Qpn::new(device.ends[0].peer.unwrap_or(0)),
            },
            number: LinkNum::new(1),
            max_links,
            max_conns: 0,
            direct: true,
            layout,
            timers: GroupTimers::default(),
        };
        let rows = || vec![Entry::EMPTY; RMBS];
        let mut group = Group::new(&config, rows(), rows());
        // The buffer that CLC has announced.
        let first = token(side, 0, device.ends[0].qpn);
        assert_eq!(group.own_rmb(RmbId(0), LinkSlot::FIRST, first), Ok(()));
        let theirs = token(1 - side, 0, device.ends[0].peer.unwrap_or(0));
        assert!(group.peer_rmb(LinkSlot::FIRST, theirs).is_ok());
        Self {
            group,
            device,
            outcome: Outcome::Open,
            was_ready: false,
            next_rmb: 1,
            rmbs: BTreeMap::from([(0, Known::Confirmed)]),
            connections: vec![LinkSlot::FIRST],
            last: BTreeMap::new(),
            asked: None,
        }
    }

    /// Which end of the TCP connection this side was.
    fn side(&self) -> usize {
        self.device.side
    }

    /// When the last message of a queue pair arrives.
    pub(super) fn order_of(&self, qpn: u32) -> Instant {
        self.last.get(&qpn).copied().unwrap_or(START)
    }

    pub(super) fn start(&mut self, now: Instant) {
        if let (1, Some(end)) = (self.side(), self.device.at(LinkSlot::FIRST)) {
            end.stage = QpStage::Sends;
        }
        self.group.start(now);
    }

    /// The queue pairs and buffers of the moment.
    fn tokens(&self, rmb: u16) -> Vec<(LinkSlot, RToken)> {
        let ends = self.device.ends.iter();
        ends.map(|end| (end.slot, token(self.side(), rmb, end.qpn)))
            .collect()
    }

    /// A new buffer.
    pub(super) fn announce(&mut self, now: Instant, random: &mut Random) {
        if self.rmbs.len() >= RMBS - 3 && !random.percent(10) {
            return;
        }
        let rmb = self.next_rmb;
        let tokens = self.tokens(rmb);
        if !tokens.is_empty() && self.group.confirm_rkey(now, RmbId(rmb), &tokens).is_ok() {
            self.next_rmb += 1;
            self.rmbs.insert(rmb, Known::Confirming);
        }
    }

    /// Withdraws a buffer, whether it was announced or not.
    pub(super) fn withdraw(&mut self, now: Instant, random: &mut Random) {
        let known: Vec<_> = self.rmbs.keys().copied().filter(|rmb| *rmb != 0).collect();
        if let Some(rmb) = random.pick(&known) {
            assert!(self.group.is_over() || self.group.delete_rkey(now, RmbId(rmb)));
            self.rmbs.insert(rmb, Known::Deleting);
        }
    }

    /// Makes an end for a link, if there is a port for it.
    pub(super) fn make_end(
        &mut self,
        slot: LinkSlot,
        good: bool,
        random: &mut Random,
    ) -> Option<LinkOffer> {
        let (asked, wanted, only_new) = self.asked?;
        if asked != slot || !good || self.device.at(slot).is_some() {
            return None;
        }
        self.asked = None;
        let (unused, used) = self.device.choice();
        let number = random.pick(&unused).or_else(|| {
            let used = random.pick(&used);
            // Now and then it does not care for the rule.
            used.filter(|_| !only_new || random.percent(5))
        })?;
        let qpn = self.device.make(slot, number);
        if let (Some(wanted), Some(end)) = (wanted, self.device.at(slot)) {
            end.peer = Some(wanted.link.qpn.get());
            end.stage = QpStage::Receives;
        }
        let side = self.side();
        let rmbs: Vec<_> = self.rmbs.keys().copied().collect();
        for rmb in rmbs {
            self.group
                .set_token(RmbId(rmb), slot, token(side, rmb, qpn));
        }
        let port = port(side, number);
        Some(LinkOffer {
            local: LocalLink {
                mac: port.mac,
                gid: port.gid,
                qpn: Qpn::new(qpn),
                uid: qpn,
            },
            psn: Psn::new(qpn),
            mtu: Mtu::M1024,
        })
    }

    /// What has to hold at any time.
    pub(super) fn check(&self) {
        for slot in self.group.active() {
            let end = self.device.ends.iter().find(|end| end.slot == slot);
            assert!(end.is_some(), "{slot:?} is active without an end");
        }
        assert_eq!(
            self.group.is_over(),
            !matches!(self.outcome, Outcome::Open | Outcome::Ready)
        );
    }
}
