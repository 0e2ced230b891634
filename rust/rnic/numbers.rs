// SPDX-License-Identifier: GPL-2.0

//! Numbers of queue pairs, unique in the module, and the queue pairs behind them.

use super::direct_packet::DirectPacket;
use crate::{
    kapi::{
        base::{
            module::random_u32,
            sync::{
                new_spinlock_bh,
                SpinLockBh, //
            },
        },
        net::packet::{
            NetHeader,
            RxPacket, //
        },
    },
    proto::base::verbs::Qpn,
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::Arc, //
};

/// The first number: smaller ones are special, or typical of other devices.
const FIRST: u32 = 0x10_0000;
/// The last number: the highest stands for multicast.
const LAST: u32 = 0xff_fffe;

/// A queue pair, as the network knows it.
pub(super) trait PacketReceiver: Send + Sync {
    /// Takes a packet that arrived (RNIC-RX-03), unless it arrived elsewhere than packets for its device
    /// (RNIC-IP-08). Returns whether it did; the caller has it handled then. Context: softirq.
    fn receive(&self, packet: RxPacket, header: NetHeader) -> bool;

    /// Handles packets soon that it has taken, and that arrived together. Context: softirq.
    fn handle(self: Arc<Self>, packets: u32);

    /// Takes a packet that the sender of this kernel gives it. Returns whether it did; the caller
    /// kicks it then. Context: softirq.
    fn receive_direct(&self, packet: KBox<DirectPacket>) -> bool;

    /// A packet that it may have sent has arrived at its peer, the queue pair `at` (RNIC-DIR-01).
    /// Context: softirq.
    fn note_arrival(self: Arc<Self>, packet: &RxPacket, at: Qpn);

    /// Runs its work item soon. Context: any.
    fn wake(self: Arc<Self>);
}

/// Queue pairs by their number.
struct Numbers {
    /// `None` while a number is taken for a queue pair that is being made.
    pairs: RBTree<u32, Option<Arc<dyn PacketReceiver>>>,
    /// Where the search for an unused number begins: no number is used again at once.
    next: u32,
}

/// The numbers of queue pairs.
#[pin_data]
pub(super) struct NumberTable {
    #[pin]
    numbers: SpinLockBh<Numbers>,
}

impl NumberTable {
    /// A table without queue pairs, with a random start (RNIC-SEC-08).
    pub(super) fn new() -> impl PinInit<Self> {
        let numbers = Numbers {
            pairs: RBTree::new(),
            next: random_u32(),
        };
        pin_init!(Self {
            numbers <- new_spinlock_bh!(numbers, "rdma_soft_numbers"),
        })
    }

    /// Takes an unused number. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn reserve(&self) -> Result<u32> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut numbers = self.numbers.lock();
        // Ends: memory is used up long before the numbers are.
        loop {
            let number = numbers.next;
            numbers.next = number.wrapping_add(1);
            if !(FIRST..=LAST).contains(&number) {
                numbers.next = FIRST.wrapping_add(number % (LAST - FIRST));
                continue;
            }
            if numbers.pairs.get(&number).is_none() {
                numbers.pairs.insert(node.into_node(number, None));
                return Ok(number);
            }
        }
    }

    /// Gives a reserved number to its queue pair.
    pub(super) fn set(&self, number: u32, pair: Arc<dyn PacketReceiver>) {
        let mut numbers = self.numbers.lock();
        if let Some(place) = numbers.pairs.get_mut(&number) {
            *place = Some(pair);
        }
    }

    /// Frees a number. Packets find the queue pair no longer (RNIC-LIFE-01).
    pub(super) fn remove(&self, number: u32) {
        let mut numbers = self.numbers.lock();
        let removed = numbers.pairs.remove_node(&number);
        drop(numbers);
        drop(removed);
    }

    /// The queue pair with a number.
    pub(super) fn find(&self, number: u32) -> Option<Arc<dyn PacketReceiver>> {
        let numbers = self.numbers.lock();
        numbers.pairs.get(&number)?.clone()
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_numbers)]
mod tests {
    use super::*;
    use core::sync::atomic::{
        AtomicU32,
        Ordering, //
    };

    /// Counts its calls.
    struct Woken(AtomicU32);

    impl PacketReceiver for Woken {
        fn receive(&self, _packet: RxPacket, _header: NetHeader) -> bool {
            false
        }

        fn handle(self: Arc<Self>, _packets: u32) {}

        fn receive_direct(&self, _packet: KBox<DirectPacket>) -> bool {
            false
        }

        fn note_arrival(self: Arc<Self>, _packet: &RxPacket, _at: Qpn) {}

        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// RNIC-LIFE-01, RNIC-SEC-08.
    #[test]
    fn removed_number_is_not_found_and_its_references_stay() -> Result {
        let table = KBox::pin_init(NumberTable::new(), GFP_KERNEL)?;
        let number = table.reserve()?;
        assert!((FIRST..=LAST).contains(&number));
        // It is being made.
        assert!(table.find(number).is_none());
        let woken = Arc::new(Woken(AtomicU32::new(0)), GFP_KERNEL)?;
        table.as_ref().set(number, woken.clone());
        let found = table.find(number).ok_or(ENOENT)?;
        table.remove(number);
        assert!(table.find(number).is_none());
        found.wake();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        // Another one gets another number.
        let other = table.reserve()?;
        assert!(other != number);
        table.remove(other);
        Ok(())
    }
}
