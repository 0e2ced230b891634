// SPDX-License-Identifier: GPL-2.0

//! The part of a device that its objects use: keys, addresses, and the network device below.

use super::{
    counters::{
        Counter,
        Counters, //
    },
    keys::KeyTable,
    limits,
    numbers::PacketReceiver,
    ports::NetPorts,
    profile::Profile,
    runtime::{
        GsiLookup,
        Runtime, //
    },
};
use crate::{
    kapi::{
        base::sync::{
            new_spinlock_bh,
            SpinLockBh, //
        },
        ibdev::GidProtocol,
        net::{
            netdev_ref::{
                NetDevice,
                NetDeviceRef, //
            },
            packet::RxPacket, //
        },
    },
    proto::base::verbs::Mtu,
};
use core::sync::atomic::{
    AtomicBool,
    Ordering, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What a device holds of the network, until the removal of the network device begins (RNIC-NET-01).
struct Below {
    netdev: Option<NetDeviceRef>,
    /// Ports of its namespace.
    ports: Option<NetPorts>,
}

/// An address of a device.
#[derive(Clone, Copy)]
struct PortAddress {
    index: u16,
    gid: [u8; 16],
    protocol: GidProtocol,
}

/// The part of a device that its objects use.
#[pin_data]
pub(super) struct Node {
    runtime: Arc<Runtime>,
    counters: Counters,
    /// Whether the port was active when its state changed last.
    active: AtomicBool,
    /// Keys of memory regions.
    #[pin]
    keys: KeyTable,
    /// What ends with the network device.
    #[pin]
    below: SpinLockBh<Below>,
    /// Addresses by the index of their entry in the GID table (RNIC-NET-03).
    #[pin]
    addresses: SpinLockBh<KVec<PortAddress>>,
    /// The queue pair of the general services interface.
    #[pin]
    gsi: SpinLockBh<Option<Arc<dyn PacketReceiver>>>,
}

impl Node {
    /// Makes a node. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        runtime: &Arc<Runtime>,
        netdev: NetDeviceRef,
        ports: NetPorts,
    ) -> Result<Arc<Self>> {
        let active = netdev.is_active();
        let counters = Counters::new()?;
        let below = Below {
            netdev: Some(netdev),
            ports: Some(ports),
        };
        Arc::pin_init(
            pin_init!(Self {
                runtime: runtime.clone(),
                counters,
                active: AtomicBool::new(active),
                keys <- KeyTable::new(),
                below <- new_spinlock_bh!(below, "rdma_soft_node_below"),
                addresses <- new_spinlock_bh!(KVec::new(), "rdma_soft_node_addresses"),
                gsi <- new_spinlock_bh!(None, "rdma_soft_node_gsi"),
            }),
            GFP_KERNEL,
        )
    }

    /// What all devices share.
    pub(super) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// What the device behaves like.
    pub(super) fn profile(&self) -> &'static Profile {
        self.runtime.profile()
    }

    /// Counters of the device.
    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts the end of an active state of the port.
    pub(super) fn note_state(&self, active: bool) {
        if self.active.swap(active, Ordering::Relaxed) && !active {
            self.counters.count(Counter::LinkDowned);
        }
    }

    /// Keys of memory regions.
    pub(super) fn keys(&self) -> &KeyTable {
        &self.keys
    }

    /// The network device, until its removal begins.
    pub(super) fn netdev(&self) -> Option<NetDeviceRef> {
        self.below.lock().netdev.clone()
    }

    /// Whether it is on this network device.
    pub(super) fn is_on(&self, netdev: &NetDevice) -> bool {
        let below = self.below.lock();
        below.netdev.as_ref().is_some_and(|own| own.is_same(netdev))
    }

    /// Gives the network device up: it is removed, and waits for the reference. Context: may sleep.
    pub(super) fn leave_netdev(&self) {
        let mut below = self.below.lock();
        let netdev = below.netdev.take();
        let ports = below.ports.take();
        drop(below);
        // Closes the ports if this is the last device of the namespace.
        drop(ports);
        drop(netdev);
    }

    /// MTU of the port now.
    pub(super) fn port_mtu(&self) -> Mtu {
        active_mtu(self.netdev().map_or(0, |netdev| netdev.mtu()))
    }

    /// Enters an address.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn add_address(&self, index: u16, gid: [u8; 16], protocol: GidProtocol) -> Result {
        let address = PortAddress {
            index,
            gid,
            protocol,
        };
        let added = self.addresses.lock().push(address, GFP_ATOMIC);
        self.runtime.end_proofs();
        Ok(added?)
    }

    /// Removes an address.
    pub(super) fn remove_address(&self, index: u16) {
        self.addresses
            .lock()
            .retain(|address| address.index != index);
        self.runtime.end_proofs();
    }

    /// Whether it has an address.
    pub(super) fn has_address(&self, gid: &[u8; 16], protocol: GidProtocol) -> bool {
        let addresses = self.addresses.lock();
        addresses
            .iter()
            .any(|address| address.gid == *gid && address.protocol == protocol)
    }

    /// Whether an address is one of a device of the same namespace (RNIC-IP-09).
    pub(super) fn is_near(&self, gid: &[u8; 16], protocol: GidProtocol) -> bool {
        let net = self.namespace();
        net.is_some_and(|net| self.runtime.owns(net, gid, protocol))
    }

    /// Lists the queue pair of the general services interface.
    ///
    /// # Errors
    ///
    /// `EEXIST` if there is one.
    pub(super) fn set_gsi(&self, pair: Arc<dyn PacketReceiver>) -> Result {
        let mut gsi = self.gsi.lock();
        if gsi.is_some() {
            return Err(EEXIST);
        }
        *gsi = Some(pair);
        Ok(())
    }

    /// Removes the queue pair of the general services interface.
    pub(super) fn clear_gsi(&self) {
        let removed = self.gsi.lock().take();
        drop(removed);
    }
}

impl GsiLookup for Node {
    fn gsi_for(
        &self,
        packet: &RxPacket,
        gid: &[u8; 16],
        protocol: GidProtocol,
    ) -> Option<Arc<dyn PacketReceiver>> {
        let netdev = self.netdev()?;
        if !packet.reaches(&netdev) || !self.has_address(gid, protocol) {
            return None;
        }
        self.gsi.lock().clone()
    }

    fn namespace(&self) -> Option<u64> {
        self.below.lock().ports.as_ref().map(NetPorts::net)
    }

    fn owns(&self, gid: &[u8; 16], protocol: GidProtocol) -> bool {
        self.has_address(gid, protocol)
    }

    fn counters_for(&self, packet: &RxPacket) -> Option<&Counters> {
        let netdev = self.netdev()?;
        packet.reaches(&netdev).then_some(&self.counters)
    }
}

/// The longest payload that fits the network device's MTU with all headers (RNIC-IP-12).
pub(super) fn active_mtu(mtu: u32) -> Mtu {
    let room = mtu.saturating_sub(limits::HEADER_ROOM);
    [Mtu::M4096, Mtu::M2048, Mtu::M1024, Mtu::M512]
        .into_iter()
        .find(|mtu| mtu.octets() <= room)
        .unwrap_or(Mtu::M256)
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_node)]
mod tests {
    use super::*;

    /// RNIC-IP-12.
    #[test]
    fn longest_payload_fits_with_all_headers() {
        for (mtu, longest) in [
            (0, Mtu::M256),
            (591, Mtu::M256),
            (592, Mtu::M512),
            (1_103, Mtu::M512),
            (1_104, Mtu::M1024),
            (1_500, Mtu::M1024),
            (2_128, Mtu::M2048),
            (4_175, Mtu::M2048),
            (4_176, Mtu::M4096),
            (65_535, Mtu::M4096),
        ] {
            assert!(active_mtu(mtu) == longest);
        }
    }
}
