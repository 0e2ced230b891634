// SPDX-License-Identifier: GPL-2.0

//! What all devices share: the workqueue, the numbers of queue pairs, and the way of a packet to its
//! queue pair.

use super::{
    checksum::PacketChecksum,
    counters::{
        Counter,
        Counters, //
    },
    fast_paths::FastPaths,
    numbers::{
        NumberTable,
        PacketReceiver, //
    },
    profile::Profile, //
};
use crate::kapi::{
    base::{
        sync::{
            new_spinlock_bh,
            Global,
            SpinLockBh, //
        },
        work::WorkQueue, //
    },
    ibdev::GidProtocol,
    net::packet::RxPacket,
};
use core::sync::atomic::{
    AtomicU64,
    Ordering, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The runtime, for packets, which the kernel gives no context.
pub(super) static RUNTIME: Global<Runtime> = Global::new();

/// A device, as the network knows it.
pub(super) trait GsiLookup: Send + Sync {
    /// The general services interface, if a packet to an address is for this device.
    /// Context: softirq. Only while the packet is received.
    fn gsi_for(
        &self,
        packet: &RxPacket,
        gid: &[u8; 16],
        protocol: GidProtocol,
    ) -> Option<Arc<dyn PacketReceiver>>;

    /// The cookie of its namespace, until the removal of its network device begins. Context: any.
    fn namespace(&self) -> Option<u64>;

    /// Whether it has an address. Context: any.
    fn owns(&self, gid: &[u8; 16], protocol: GidProtocol) -> bool;

    /// The counters, if a packet arrived where packets for this device do.
    /// Context: softirq. Only while the packet is received.
    fn counters_for(&self, packet: &RxPacket) -> Option<&Counters>;
}

/// What all devices share.
#[pin_data]
pub(super) struct Runtime {
    /// Runs the work items of queue pairs and completion queues.
    runs: WorkQueue,
    /// Runs what timers of queue pairs ask for, and closes their senders.
    timers: WorkQueue,
    /// Queue pairs.
    #[pin]
    numbers: NumberTable,
    /// Devices.
    #[pin]
    devices: SpinLockBh<KVec<Arc<dyn GsiLookup>>>,
    /// Which of the fast paths are on.
    paths: FastPaths,
    /// What the devices behave like.
    profile: &'static Profile,
    /// Computes the checksums of packets.
    checksum: PacketChecksum,
    /// Changes with anything that the way of a packet depends on (RNIC-DIR-08).
    epoch: AtomicU64,
}

impl Runtime {
    /// Makes the runtime; `profile` says what the devices behave like. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        paths: FastPaths,
        profile: &'static Profile,
        checksum: PacketChecksum,
    ) -> Result<Arc<Self>> {
        let runs = if paths.inline {
            WorkQueue::new_softirq(c"rdma_soft")?
        } else {
            WorkQueue::new(c"rdma_soft")?
        };
        let timers = WorkQueue::new_ordered(c"rdma_soft_timers")?;
        Arc::pin_init(
            pin_init!(Self {
                runs,
                timers,
                numbers <- NumberTable::new(),
                devices <- new_spinlock_bh!(KVec::new(), "rdma_soft_runtime_devices"),
                paths,
                profile,
                checksum,
                epoch: AtomicU64::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Runs work items in softirq. One that is kicked while it runs goes to the tail.
    ///
    /// The kernel runs them for 2 ms at a time, or until another task has to run. Its thread of normal priority,
    /// `ksoftirqd`, runs what is left then (RNIC-RUN-04). They run in tasks where [`FastPaths::inline`] is off.
    pub(super) fn runs(&self) -> &WorkQueue {
        &self.runs
    }

    /// Runs what timers of queue pairs ask for and closes their senders, one after the other, in a task.
    ///
    /// Timers go on without any program. As softirqs, those of many queue pairs that wait for receive
    /// requests would take a processor from all programs. A task gets its share.
    pub(super) fn timers(&self) -> &WorkQueue {
        &self.timers
    }

    /// Queue pairs.
    pub(super) fn numbers(&self) -> &NumberTable {
        &self.numbers
    }

    /// Which of the fast paths are on.
    pub(super) const fn paths(&self) -> &FastPaths {
        &self.paths
    }

    /// What the devices behave like.
    pub(super) fn profile(&self) -> &'static Profile {
        self.profile
    }

    /// Computes the checksums of packets.
    pub(super) fn checksum(&self) -> PacketChecksum {
        self.checksum
    }

    /// A number that is another one after each change of what the way of a packet depends on.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Something that the way of a packet depends on has changed: all proofs end. Context: any.
    pub(super) fn end_proofs(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Lists a device. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn add(&self, device: Arc<dyn GsiLookup>) -> Result {
        Ok(self.devices.lock().push(device, GFP_ATOMIC)?)
    }

    /// Removes a device.
    pub(super) fn remove(&self, device: &Arc<dyn GsiLookup>) {
        let mut devices = self.devices.lock();
        let removed = devices
            .iter()
            .position(|listed| Arc::ptr_eq(listed, device))
            .and_then(|index| devices.remove(index).ok());
        drop(devices);
        drop(removed);
    }

    /// The general services interface that a packet to an address is for.
    /// Context: softirq. Only while the packet is received.
    pub(super) fn find_gsi(
        &self,
        packet: &RxPacket,
        gid: &[u8; 16],
        protocol: GidProtocol,
    ) -> Option<Arc<dyn PacketReceiver>> {
        let devices = self.devices.lock();
        devices
            .iter()
            .find_map(|device| device.gsi_for(packet, gid, protocol))
    }

    /// Whether an address is one of a device of a namespace (RNIC-IP-09). Context: any.
    pub(super) fn owns(&self, net: u64, gid: &[u8; 16], protocol: GidProtocol) -> bool {
        let devices = self.devices.lock();
        devices
            .iter()
            .any(|device| device.namespace() == Some(net) && device.owns(gid, protocol))
    }

    /// Counts a packet that is for no queue pair, for a device that it may have been meant for
    /// (RNIC-SEC-10). Context: softirq. Only while the packet is received.
    pub(super) fn count_unclaimed(&self, packet: &RxPacket, counter: Counter) {
        let devices = self.devices.lock();
        let counters = devices
            .iter()
            .find_map(|device| device.counters_for(packet));
        if let Some(counters) = counters {
            counters.count(counter);
        }
    }
}
