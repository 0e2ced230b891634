// SPDX-License-Identifier: GPL-2.0

//! The network: it loses, repeats, delays and damages packets.

use crate::proto::{
    base::time::{
        Duration,
        Instant, //
    },
    roce::responder::RequestHeader,
    sim::Rng, //
};

/// The number of packets per fault of each kind; 0 for no faults.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// Packets that vanish.
    pub(super) loss: u64,
    /// Packets that arrive twice.
    pub(super) duplication: u64,
    /// Packets that are overtaken.
    pub(super) delay: u64,
    /// Packets with bits inverted.
    pub(super) damage: u64,
}

impl Faults {
    /// Whether a fault happens now.
    fn strikes(rng: &mut Rng, odds: u64) -> bool {
        odds > 0 && rng.one_in(odds)
    }
}

/// What a node sends.
#[derive(Clone, Debug)]
pub(super) enum Load {
    /// A packet, with the headers of the network and the checksum.
    Frame(Vec<u8>),
    /// A run of packets that leaves out the network, with its payload (RNIC-DIR-03).
    Run(RequestHeader, Vec<u8>),
}

/// A packet in flight.
struct Flying {
    at: Instant,
    /// Order of packets that arrive at the same time.
    serial: u64,
    /// The node that gets it.
    to: usize,
    load: Load,
}

/// All packets in flight.
pub(super) struct Fabric {
    faults: Faults,
    latency: u64,
    flying: Vec<Flying>,
    serial: u64,
    /// Whether a node is cut off.
    pub(super) cut: [bool; 2],
}

impl Fabric {
    /// A network with a latency in microseconds.
    pub(super) fn new(faults: Faults, latency: u64) -> Self {
        Self {
            faults,
            latency,
            flying: Vec::new(),
            serial: 0,
            cut: [false; 2],
        }
    }

    /// Sends a packet to a node.
    pub(super) fn send(&mut self, rng: &mut Rng, now: Instant, to: usize, load: &Load) {
        if self.cut[to] {
            return;
        }
        let copies = 1 + u64::from(Faults::strikes(rng, self.faults.duplication));
        for _ in 0..copies {
            if Faults::strikes(rng, self.faults.loss) {
                continue;
            }
            let mut micros = self.latency;
            if Faults::strikes(rng, self.faults.delay) {
                micros += rng.range(1, self.latency * 10);
            }
            let mut load = load.clone();
            if let Load::Frame(octets) = &mut load {
                if Faults::strikes(rng, self.faults.damage) {
                    for _ in 0..rng.range(1, 3) {
                        let at = rng.range(0, octets.len() as u64 - 1) as usize;
                        octets[at] ^= 1 << rng.range(0, 7);
                    }
                }
            }
            self.serial += 1;
            self.flying.push(Flying {
                at: now.saturating_add(Duration::from_micros(micros)),
                serial: self.serial,
                to,
                load,
            });
        }
    }

    /// The time of the next arrival.
    pub(super) fn next(&self) -> Option<Instant> {
        self.flying.iter().map(|flying| flying.at).min()
    }

    /// The next packet that has arrived.
    pub(super) fn arrived(&mut self, now: Instant) -> Option<(usize, Load)> {
        let (place, _) = self
            .flying
            .iter()
            .enumerate()
            .filter(|(_, flying)| flying.at <= now)
            .min_by_key(|(_, flying)| (flying.at, flying.serial))?;
        let flying = self.flying.swap_remove(place);
        (!self.cut[flying.to]).then_some((flying.to, flying.load))
    }
}
