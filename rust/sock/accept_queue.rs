// SPDX-License-Identifier: GPL-2.0

//! The children of a listener between the network and accept.
//!
//! A listener has one queue, whatever brings its children: TCP, whose queue the work item of the
//! listener empties, and a [`Service`] of a protocol beside TCP. The children may be of different
//! protocols, so the queue knows a child by the trait [`Child`], and a child its listener by
//! [`Listener`].

use crate::kapi::net::{
    sock::Sock,
    socket::DetachedSocket, //
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

/// Children of a listener between the network and accept.
pub(crate) struct AcceptQueue {
    /// Ready, in order.
    pub(super) ready: KVec<Arc<dyn Child>>,
    /// With a set-up under way.
    pub(super) pending: KVec<Arc<dyn Child>>,
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
            closed: false,
            service: None,
        }
    }

    /// The set-up of a child is over.
    pub(super) fn forget(&mut self, child: &dyn Child) {
        // The table of methods may exist more than once; the object does not.
        self.pending
            .retain(|known| !core::ptr::addr_eq(&raw const **known, child));
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
        queue.pending.push(seconds[0].clone(), GFP_KERNEL)?;
        queue.pending.push(first.clone(), GFP_KERNEL)?;
        queue.pending.push(seconds[1].clone(), GFP_KERNEL)?;
        queue.forget(&*first);
        assert_eq!(queue.pending.len(), 2);
        // One that is not there changes nothing.
        queue.forget(&*first);
        queue.forget(&*seconds[1]);
        assert_eq!(queue.pending.len(), 1);
        queue.forget(&*seconds[0]);
        assert!(queue.pending.is_empty() && queue.ready.is_empty());
        Ok(())
    }
}
