// SPDX-License-Identifier: GPL-2.0

//! Ports, queue pairs and what happens to messages between them.

use crate::proto::smc::llc::link::LinkSlot;

/// How far a queue pair is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum QpStage {
    Init,
    Receives,
    Sends,
}

/// A queue pair of one side.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) slot: LinkSlot,
    pub(super) qpn: u32,
    pub(super) port: u8,
    /// The queue pair it is connected to.
    pub(super) peer: Option<u32>,
    pub(super) stage: QpStage,
    /// Nothing leaves or arrives.
    pub(super) dead: bool,
    /// What is sent arrives, but its sender never knows.
    pub(super) deaf: bool,
    /// The group has said that connections may use it.
    pub(super) up: bool,
    /// The group has withdrawn the permission.
    pub(super) left: bool,
}

/// A port of one side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adapter {
    pub(super) alive: bool,
}

/// The device of one side.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) side: usize,
    pub(super) ports: Vec<Adapter>,
    pub(super) ends: Vec<End>,
    next_qpn: u32,
}

impl Device {
    /// A device with some ports, and the queue pair of the first link on the first of them.
    pub(super) fn new(side: usize, ports: u8) -> Self {
        let mut device = Self {
            side,
            ports: vec![Adapter { alive: true }; usize::from(ports)],
            ends: Vec::new(),
            next_qpn: 0x100 * (side as u32 + 1),
        };
        let first = device.make(LinkSlot::FIRST, 0);
        device.ends[0].peer = Some(0x100 * (2 - side as u32) + 1);
        device.ends[0].stage = QpStage::Receives;
        assert_eq!(first, 0x100 * (side as u32 + 1) + 1);
        device
    }

    /// Makes a queue pair.
    pub(super) fn make(&mut self, slot: LinkSlot, port: u8) -> u32 {
        self.next_qpn += 1;
        self.ends.push(End {
            slot,
            qpn: self.next_qpn,
            port,
            peer: None,
            stage: QpStage::Init,
            dead: !self.ports[usize::from(port)].alive,
            deaf: false,
            up: false,
            left: false,
        });
        self.next_qpn
    }

    /// The queue pair of a link.
    pub(super) fn at(&mut self, slot: LinkSlot) -> Option<&mut End> {
        self.ends.iter_mut().find(|end| end.slot == slot)
    }

    /// A queue pair by its number.
    pub(super) fn by_qpn(&mut self, qpn: u32) -> Option<&mut End> {
        self.ends.iter_mut().find(|end| end.qpn == qpn)
    }

    /// Takes the queue pair of a link away.
    pub(super) fn free(&mut self, slot: LinkSlot) -> Option<End> {
        let at = self.ends.iter().position(|end| end.slot == slot)?;
        Some(self.ends.remove(at))
    }

    /// Ports that live and have no link, and then the others that live.
    pub(super) fn choice(&self) -> (Vec<u8>, Vec<u8>) {
        let alive = (0..self.ports.len() as u8).filter(|port| self.ports[usize::from(*port)].alive);
        alive.partition(|port| self.ends.iter().all(|end| end.port != *port))
    }
}
