// SPDX-License-Identifier: GPL-2.0

//! The children of a listener between the network and accept.
//!
//! A listener has one queue, whatever brings its children: TCP, whose queue the work item of the
//! listener empties, and a [`Service`] of a protocol beside TCP. The children may be of different
//! protocols, so the queue knows a child by the trait [`Child`], and a child its listener by
//! [`Listener`].

use crate::{
    kapi::{
        compat::errno::ECONNABORTED,
        net::{
            sock::Sock,
            socket::DetachedSocket, //
        },
    },
    proto::stream::accept::Fullness,
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// A connection that waits for accept, of any protocol.
pub(crate) trait Child: Send + Sync {
    /// Takes its socket, for accept. `None` if it has ended in the queue. Context: may sleep.
    fn take_socket(&self) -> Option<DetachedSocket>;

    /// Ends it after its set-up, as no call will accept it. Context: may sleep.
    fn end_ready(self: Arc<Self>);

    /// Ends it during its set-up, unless it is being delivered or discarded at this moment. Waits for its
    /// work item. Context: may sleep.
    fn end_pending(self: Arc<Self>);
}

/// A listener, as its children and its service see it.
pub(crate) trait Listener: Send + Sync {
    /// Its sock, which listens in TCP. Context: any.
    fn sk(&self) -> &Sock;

    /// Its children. Context: any.
    fn accepts(&self) -> &Mutex<AcceptQueue>;

    /// Whether it withholds its offer while many set-ups are under way. Context: any.
    fn limits(&self) -> bool;

    /// Sets whether it withholds its offer in TCP. Context: may sleep.
    fn withhold(&self, withholds: bool);

    /// Looks soon whether TCP has another child. Context: any.
    fn kick(self: Arc<Self>);
}

/// What brings children to a listener beside TCP. It has a reference to the listener.
///
/// Its drop ends it: from then on it brings no child. That may sleep, and waits for work items and handlers
/// that take the lock of the queue.
pub(crate) trait Service: Send + Sync {
    /// The name of its protocol in `/proc`. Context: any.
    fn name(&self) -> &'static str;
}

/// A child in the queue.
pub(super) struct Place {
    /// How many children came before it.
    number: u64,
    /// The child.
    pub(super) child: Arc<dyn Child>,
}

/// Children of a listener between the network and accept.
///
/// # Invariants
///
/// `ready` is in the order of the numbers.
pub(crate) struct AcceptQueue {
    /// Ready for accept.
    ready: KVec<Place>,
    /// With a set-up under way.
    pending: KVec<Place>,
    /// How many children have come.
    entered: u64,
    /// How long `ready` has filled the backlog.
    pub(super) fullness: Fullness,
    /// The listener is gone.
    pub(super) closed: bool,
    /// What brings children beside TCP.
    pub(super) service: Option<Arc<dyn Service>>,
}

impl AcceptQueue {
    /// An empty queue.
    pub(super) const fn new() -> Self {
        Self {
            ready: KVec::new(),
            pending: KVec::new(),
            entered: 0,
            fullness: Fullness::NONE,
            closed: false,
            service: None,
        }
    }

    /// How many children wait for accept.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many set-ups are under way.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The set-up of a child begins.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn enter(&mut self, child: Arc<dyn Child>) -> Result {
        let number = self.entered;
        self.pending.push(Place { number, child }, GFP_KERNEL)?;
        self.entered = number.wrapping_add(1);
        Ok(())
    }

    /// The set-up of a child is over.
    pub(super) fn leave(&mut self, child: &dyn Child) -> Option<Place> {
        // The table of methods may exist more than once; the object does not.
        let is_it = |place: &Place| core::ptr::addr_eq(&raw const *place.child, child);
        let index = self.pending.iter().position(is_it)?;
        self.pending.remove(index).ok()
    }

    /// A child is ready for accept, which takes the children that are ready in the order in which they
    /// came: a set-up that ends late does not cost a child its turn.
    ///
    /// # Errors
    ///
    /// `ECONNABORTED` if the listener is closed, `ENOMEM`.
    pub(super) fn admit(&mut self, place: Place) -> Result {
        if self.closed {
            return Err(ECONNABORTED);
        }
        self.ready.reserve(1, GFP_KERNEL)?;
        let earlier = |other: &&Place| other.number < place.number;
        let index = self.ready.iter().take_while(earlier).count();
        let inserted = self.ready.insert_within_capacity(index, place);
        inserted.map_err(|_| ENOMEM)
    }

    /// The child that accept is to take.
    pub(super) fn next(&mut self) -> Option<Arc<dyn Child>> {
        Some(self.ready.remove(0).ok()?.child)
    }

    /// Closes the queue. Returns the children that were ready, those that were not, and the service.
    pub(super) fn close(&mut self) -> (KVec<Place>, KVec<Place>, Option<Arc<dyn Service>>) {
        self.closed = true;
        (
            core::mem::take(&mut self.ready),
            core::mem::take(&mut self.pending),
            self.service.take(),
        )
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_sock_sock_accept_queue)]
mod tests {
    use super::*;

    /// A child of a protocol.
    struct First;
    /// A child of another protocol.
    struct Second(u32);

    impl Child for First {
        fn take_socket(&self) -> Option<DetachedSocket> {
            None
        }

        fn end_ready(self: Arc<Self>) {}

        fn end_pending(self: Arc<Self>) {}
    }

    impl Child for Second {
        fn take_socket(&self) -> Option<DetachedSocket> {
            None
        }

        fn end_ready(self: Arc<Self>) {}

        fn end_pending(self: Arc<Self>) {}
    }

    #[test]
    fn children_of_two_protocols_leave_one_by_one() -> Result {
        let first = Arc::new(First, GFP_KERNEL)?;
        let seconds = [
            Arc::new(Second(1), GFP_KERNEL)?,
            Arc::new(Second(1), GFP_KERNEL)?,
        ];
        assert_eq!(seconds[0].0, seconds[1].0);
        let mut queue = AcceptQueue::new();
        queue.enter(seconds[0].clone())?;
        queue.enter(first.clone())?;
        queue.enter(seconds[1].clone())?;
        assert!(queue.leave(&*first).is_some());
        assert_eq!(queue.pending(), 2);
        // One that is not there changes nothing.
        assert!(queue.leave(&*first).is_none());
        assert!(queue.leave(&*seconds[1]).is_some());
        assert_eq!(queue.pending(), 1);
        assert!(queue.leave(&*seconds[0]).is_some());
        assert_eq!((queue.pending(), queue.ready()), (0, 0));
        Ok(())
    }

    #[test]
    fn children_that_are_ready_in_another_order_keep_theirs() -> Result {
        let mut children = KVec::new();
        let mut queue = AcceptQueue::new();
        for number in 0..4 {
            let child = Arc::new(Second(number), GFP_KERNEL)?;
            queue.enter(child.clone())?;
            children.push(child, GFP_KERNEL)?;
        }
        // The second one stays with its set-up.
        for ready in [3, 0, 2] {
            let child = children.get(ready).ok_or(EINVAL)?;
            let place = queue.leave(&**child).ok_or(ENOENT)?;
            queue.admit(place)?;
        }
        assert_eq!((queue.pending(), queue.ready()), (1, 3));
        for wanted in [0, 2, 3] {
            let next = queue.next().ok_or(ENOENT)?;
            let child = children.get(wanted).ok_or(EINVAL)?;
            assert!(core::ptr::addr_eq(&raw const *next, &raw const **child));
        }
        let place = queue
            .leave(&**children.get(1).ok_or(EINVAL)?)
            .ok_or(ENOENT)?;
        let _ = queue.close();
        assert_eq!(queue.admit(place), Err(ECONNABORTED));
        Ok(())
    }
}
