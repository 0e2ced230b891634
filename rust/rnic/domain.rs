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
    ibdev::{
        AddressVector,
        IbAhOps, //
    },
};
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
        let handle = AddressHandle {
            domain: self.clone(),
            to,
            number,
        };
        let handle = Arc::new(handle, GFP_ATOMIC)?;
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

/// An address handle. A work request that names it keeps it (RNIC-UD-06).
pub(crate) struct AddressHandle {
    /// Its protection domain.
    pub(super) domain: Arc<Domain>,
    /// The way to the peer.
    pub(super) to: AddressVector,
    /// The number for user space; 0 for none.
    pub(super) number: u32,
}

impl IbAhOps for AddressHandle {
    fn number(&self) -> u32 {
        self.number
    }
}
