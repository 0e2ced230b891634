// SPDX-License-Identifier: GPL-2.0

//! Protection domains and address handles.

use super::{
    limits,
    node::Node,
    region::DomainTag, //
};
use crate::kapi::{
    base::sync::{
        new_spinlock_bh,
        SpinLockBh, //
    },
    compat::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    ibdev::{
        AddressVector,
        IbAhOps, //
    },
};
use core::mem::replace;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::Arc, //
};

/// Address handles of user space, by their numbers.
struct UserHandles {
    handles: RBTree<u32, Arc<AddressHandle>>,
    /// Handles.
    count: u32,
    /// Where the search for an unused number begins: no number is used again at once.
    next: u32,
}

/// A protection domain: keys and address handles of another one give no access (RNIC-MR-04).
#[pin_data]
pub(super) struct Domain {
    /// Its device.
    pub(super) node: Arc<Node>,
    /// What its memory regions know of it.
    pub(super) tag: Arc<DomainTag>,
    /// What user space names by numbers (RNIC-AH-02).
    #[pin]
    handles: SpinLockBh<UserHandles>,
}

impl Domain {
    /// Makes a domain of a device. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(node: &Arc<Node>) -> Result<Arc<Self>> {
        let tag = Arc::new(DomainTag, GFP_KERNEL)?;
        let handles = UserHandles {
            handles: RBTree::new(),
            count: 0,
            next: 1,
        };
        Arc::pin_init(
            pin_init!(Self {
                node: node.clone(),
                tag,
                handles <- new_spinlock_bh!(handles, "rdma_soft_handles"),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes an address handle with a number. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if there are too many.
    pub(super) fn add_handle(self: &Arc<Self>, to: AddressVector) -> Result<Arc<AddressHandle>> {
        let reservation = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut handles = self.handles.lock();
        if handles.count >= limits::MAX_AH {
            return Err(ENOMEM);
        }
        // Ends, as there are fewer handles than numbers.
        let number = loop {
            let number = handles.next;
            handles.next = number.wrapping_add(1);
            if number != 0 && handles.handles.get(&number).is_none() {
                break number;
            }
        };
        let handle = AddressHandle::new(self, to, number)?;
        let node = reservation.into_node(number, handle.clone());
        handles.handles.insert(node);
        handles.count = handles.count.saturating_add(1);
        Ok(handle)
    }

    /// Removes an address handle with a number.
    pub(super) fn remove_handle(&self, number: u32) {
        let mut handles = self.handles.lock();
        let removed = handles.handles.remove_node(&number);
        if removed.is_some() {
            handles.count = handles.count.saturating_sub(1);
        }
        drop(handles);
        drop(removed);
    }

    /// The address handle with a number.
    pub(super) fn find_handle(&self, number: u32) -> Option<Arc<AddressHandle>> {
        self.handles.lock().handles.get(&number).cloned()
    }
}

/// The way that an address handle names. A work request keeps that of the time at which it was posted
/// (RNIC-UD-06).
pub(crate) struct HandleWay {
    /// The protection domain of the handle.
    pub(super) domain: Arc<Domain>,
    /// The way to the peer.
    pub(super) to: AddressVector,
}

/// An address handle.
#[pin_data]
pub(crate) struct AddressHandle {
    /// Its protection domain.
    pub(super) domain: Arc<Domain>,
    /// Its way now. Programs call with their locks held (RNIC-AH-01).
    #[pin]
    way: SpinLockIrq<Arc<HandleWay>>,
    /// The number for user space; 0 for none.
    pub(super) number: u32,
}

impl AddressHandle {
    /// Makes a handle. Context: any.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(domain: &Arc<Domain>, to: AddressVector, number: u32) -> Result<Arc<Self>> {
        let way = HandleWay::new(domain, to)?;
        Arc::pin_init(
            pin_init!(Self {
                domain: domain.clone(),
                way <- new_spinlock_irq!(way, "rdma_soft_handle"),
                number,
            }),
            GFP_ATOMIC,
        )
    }

    /// Leads requests that are posted from now on another way. Context: any.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing changes.
    pub(super) fn lead(&self, to: AddressVector) -> Result {
        let way = HandleWay::new(&self.domain, to)?;
        let former = replace(&mut *self.way.lock(), way);
        drop(former);
        Ok(())
    }
}

impl HandleWay {
    fn new(domain: &Arc<Domain>, to: AddressVector) -> Result<Arc<Self>> {
        let way = Self {
            domain: domain.clone(),
            to,
        };
        Ok(Arc::new(way, GFP_ATOMIC)?)
    }
}

impl IbAhOps for AddressHandle {
    type Way = HandleWay;

    fn way(&self) -> Arc<HandleWay> {
        self.way.lock().clone()
    }

    fn number(&self) -> u32 {
        self.number
    }
}
