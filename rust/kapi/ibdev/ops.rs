// SPDX-License-Identifier: GPL-2.0

//! The operations of a device, as safe traits.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    attr::{
        DeviceAttr,
        PortAttr,
        RoceVersions, //
    },
    completion::{
        CqHandle,
        PolledCompletions, //
    },
    device::IbDeviceCall,
    memory::{
        MrKind,
        MrMap, //
    },
    qp::{
        MrAccess,
        QpCaps,
        QpChange,
        QpHandle,
        QpInit,
        QpRecord,
        QpReport, //
    },
    sgid::{
        AddressVector,
        GidProtocol, //
    },
    srq::{
        IbSrqOps,
        SrqAttr,
        SrqHandle,
        UserSrqSizes, //
    },
    stats::{
        StatName,
        StatValues, //
    },
    user::{
        NewRing,
        UserRing, //
    },
    wr::{
        RecvWr,
        SendWr, //
    },
};
use crate::kapi::net::netdev_ref::NetDeviceRef;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A device with one port on an Ethernet.
///
/// Methods may sleep unless their documentation says otherwise. Objects are destroyed by the program
/// that made them, in the order of their dependencies; the device is released after all of them.
pub(crate) trait IbDeviceOps: Send + Sync + Sized + 'static {
    /// Protection domain.
    type Pd: Send + Sync + 'static;
    /// Completion queue.
    type Cq: IbCqOps;
    /// Queue pair.
    type Qp: IbQpOps<Mr = Self::Mr, Ah = Self::Ah>;
    /// Shared receive queue.
    type Srq: IbSrqOps;
    /// Memory region.
    type Mr: IbMrOps;
    /// Memory window.
    type Mw: IbMwOps;
    /// Address handle.
    type Ah: IbAhOps;

    /// Counters of the port (RNIC-STAT-01).
    const COUNTERS: &'static [StatName];

    /// The limits, which are constant.
    fn query_device(&self) -> DeviceAttr;

    /// The versions of RoCE, which are constant.
    fn versions(&self) -> RoceVersions;

    /// The state of the port.
    fn query_port(&self, call: &IbDeviceCall<'_>) -> PortAttr;

    /// Fills in the values of [`Self::COUNTERS`].
    fn read_counters(&self, values: &mut StatValues);

    /// The network device, until its removal begins. The caller may hold the RTNL.
    fn netdev(&self) -> Option<NetDeviceRef>;

    /// An address is entered into the GID table, with the index of its entry.
    fn add_address(&self, index: u16, gid: [u8; 16], protocol: GidProtocol) -> Result;

    /// The entry of an address is removed.
    fn remove_address(&self, index: u16);

    /// Makes a protection domain.
    fn alloc_pd(self: &Arc<Self>) -> Result<Arc<Self::Pd>>;

    /// The sizes of a completion queue of user space with room for `entries`.
    fn user_cq_sizes(&self, entries: u32) -> Result<UserCqSizes>;

    /// The sizes of a queue pair of user space with these capabilities. It takes its receive requests
    /// from a shared queue if `shares`.
    fn user_qp_sizes(&self, caps: QpCaps, shares: bool) -> Result<UserQpSizes>;

    /// The sizes of a shared receive queue of user space with these attributes.
    fn user_srq_sizes(&self, attr: SrqAttr) -> Result<UserSrqSizes>;

    /// Makes a completion queue with room for `entries`. One of user space has a ring.
    fn create_cq(
        self: &Arc<Self>,
        entries: u32,
        handle: CqHandle,
        ring: Option<&Arc<UserRing>>,
    ) -> Result<Arc<Self::Cq>>;

    /// Makes a queue pair. Returns it with its number. One of user space has rings in its handle.
    fn create_qp(
        self: &Arc<Self>,
        init: QpInit<Self::Pd, Self::Cq, Self::Srq>,
    ) -> Result<(Arc<Self::Qp>, u32)>;

    /// Makes a shared receive queue. One of user space has a ring.
    fn create_srq(
        self: &Arc<Self>,
        pd: &Arc<Self::Pd>,
        attr: SrqAttr,
        handle: SrqHandle,
        ring: Option<&Arc<UserRing>>,
    ) -> Result<Arc<Self::Srq>>;

    /// Makes a region of all of the kernel's memory.
    fn linear_mr(self: &Arc<Self>, pd: &Arc<Self::Pd>, access: MrAccess) -> Result<Arc<Self::Mr>>;

    /// Makes a region of pinned memory of user space, whose key gives `access` until it ends.
    fn user_mr(
        self: &Arc<Self>,
        pd: &Arc<Self::Pd>,
        access: MrAccess,
        map: MrMap,
    ) -> Result<Arc<Self::Mr>>;

    /// Makes a region for fast registrations of at most `entries` pages or pieces.
    fn alloc_mr(
        self: &Arc<Self>,
        pd: &Arc<Self::Pd>,
        kind: MrKind,
        entries: u32,
    ) -> Result<Arc<Self::Mr>>;

    /// Ends a region. On return no octet of it is read or written, and its map is dropped.
    ///
    /// # Errors
    ///
    /// `EINVAL` while windows are bound to it.
    fn dereg_mr(self: &Arc<Self>, mr: &Arc<Self::Mr>) -> Result;

    /// Makes a window that is bound to nothing.
    fn alloc_mw(self: &Arc<Self>, pd: &Arc<Self::Pd>, kind: MwKind) -> Result<Arc<Self::Mw>>;

    /// Ends a window. On return no octet is read or written by its key.
    fn dealloc_mw(self: &Arc<Self>, mw: &Arc<Self::Mw>);

    /// Makes an address handle. Context: any.
    fn create_ah(self: &Arc<Self>, pd: &Arc<Self::Pd>, to: AddressVector) -> Result<Arc<Self::Ah>>;

    /// Makes an address handle with a number, for user space (RNIC-AH-02).
    fn create_user_ah(
        self: &Arc<Self>,
        pd: &Arc<Self::Pd>,
        to: AddressVector,
    ) -> Result<Arc<Self::Ah>>;

    /// Gives an address handle another way, for requests that are posted from now on.
    /// Context: any.
    fn modify_ah(self: &Arc<Self>, ah: &Arc<Self::Ah>, to: AddressVector) -> Result;

    /// Runs `f` with the way of an address handle. Context: any.
    fn query_ah(self: &Arc<Self>, ah: &Arc<Self::Ah>, f: &mut dyn FnMut(&AddressVector));

    /// Ends an address handle; its number is not valid any longer. Programs of the kernel, whose handles
    /// have no number, may hold locks.
    fn destroy_ah(self: &Arc<Self>, ah: &Arc<Self::Ah>);

    /// The device is released: there is no object of it left, and no operation is called after this.
    fn released(self: &Arc<Self>);
}

/// The sizes of a completion queue of user space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserCqSizes {
    /// Entries.
    pub(crate) entries: u32,
    /// Octets of the ring.
    pub(crate) ring: usize,
}

/// The sizes of a queue pair of user space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserQpSizes {
    /// What the program is told.
    pub(crate) caps: QpCaps,
    /// Octets of the ring of send work requests.
    pub(crate) sends: usize,
    /// Octets of the ring of receive work requests, unless they come from a shared queue.
    pub(crate) receives: Option<usize>,
}

/// An address handle.
pub(crate) trait IbAhOps: Send + Sync + 'static {
    /// What a work request keeps of it.
    type Way: Send + Sync + 'static;

    /// Its way now, for a request that is posted. Context: any.
    fn way(&self) -> Arc<Self::Way>;

    /// The number that user space names it by; 0 for none.
    fn number(&self) -> u32;
}

/// The type of a memory window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MwKind {
    /// Type 1: for all queue pairs of its domain.
    One,
    /// Type 2B: for the queue pair that binds it.
    Two,
}

/// A memory window.
pub(crate) trait IbMwOps: Send + Sync + 'static {
    /// The first key.
    fn key(&self) -> u32;
}

/// A completion queue.
pub(crate) trait IbCqOps: Send + Sync + 'static {
    /// The handle that it was made with.
    fn handle(&self) -> &CqHandle;

    /// Hands out completions. Context: any.
    fn poll(&self, into: &mut PolledCompletions);

    /// Asks for one call of the completion handler, for a solicited completion if `solicited`.
    /// Returns whether there are completions. Context: any.
    fn request_notify(self: &Arc<Self>, solicited: bool) -> bool;

    /// A queue of user space goes on with a new ring, which has room for `entries` at least, and its
    /// handle adopts it (RNIC-CQ-10).
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are more completions than that.
    fn resize(self: &Arc<Self>, entries: u32, ring: &NewRing) -> Result;

    /// No queue pair uses it any longer. On return no handler is called.
    fn destroy(self: &Arc<Self>);
}

/// A queue pair.
pub(crate) trait IbQpOps: Send + Sync + 'static {
    /// Memory regions of its device.
    type Mr: Send + Sync;
    /// Address handles of its device.
    type Ah: IbAhOps;

    /// The handle that it was made with.
    fn handle(&self) -> &QpHandle;

    /// Its sizes.
    fn caps(&self) -> QpCaps;

    /// Whether it takes datagrams. Context: any.
    fn takes_datagrams(&self) -> bool;

    /// Queues a send work request. Context: any. The program may hold locks, so nothing calls it back.
    fn post_send(&self, wr: SendWr<Self::Mr, Self::Ah>) -> Result;

    /// Queues a receive work request, like [`Self::post_send`]. Context: any.
    fn post_recv(&self, wr: RecvWr) -> Result;

    /// Work requests were queued, like [`Self::post_send`]. Context: any.
    fn posted(self: &Arc<Self>);

    /// User space has filled its ring. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` in a state in which nothing is sent.
    fn doorbell(self: &Arc<Self>) -> Result;

    /// Changes attributes and state.
    fn modify(self: &Arc<Self>, change: &QpChange<'_>) -> Result;

    /// Runs `f` with the attributes.
    fn query(&self, f: &mut dyn FnMut(&QpRecord, &QpReport));

    /// Whether the caller is a handler of a queue that it completes by. Context: any.
    fn is_completing(&self) -> bool;

    /// On return no handler is called, and no completion of it is in a queue. The caller is no handler of it,
    /// nor of a queue that it completes by (RNIC-LIFE-02).
    fn destroy(self: &Arc<Self>);
}

/// A memory region.
pub(crate) trait IbMrOps: Send + Sync + 'static {
    /// The key, local and remote.
    fn key(&self) -> u32;

    /// Runs `f` with the map of the region that the next registration puts in force. Context: any.
    fn update_map<R>(&self, f: impl FnOnce(&mut MrMap) -> R) -> R;
}
