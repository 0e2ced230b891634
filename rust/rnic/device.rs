// SPDX-License-Identifier: GPL-2.0

//! A device as the verbs core sees it: its attributes, its objects, and its life.

use super::{
    counters::COUNTER_NAMES,
    cq::CompletionQueue,
    domain::{
        AddressHandle,
        Domain, //
    },
    limits,
    node::{
        active_mtu,
        Node, //
    },
    qp::{
        user_sizes,
        QueuePair, //
    },
    region::Region,
    srq::{
        self,
        SharedQueue, //
    },
    window::Window,
};
use crate::{
    kapi::{
        base::module::random_u32,
        ibdev::{
            AddressVector,
            CqHandle,
            DeviceAttr,
            GidProtocol,
            IbAhOps,
            IbDeviceCall,
            IbDeviceOps,
            IbMrOps,
            IbMwOps,
            MrAccess,
            MrKind,
            MrMap,
            MwKind,
            PortAttr,
            QpCaps,
            QpInit,
            RoceVersions,
            SrqAttr,
            SrqHandle,
            StatName,
            StatValues,
            UserCqSizes,
            UserQpSizes,
            UserRing,
            UserSrqSizes, //
        },
        net::netdev_ref::NetDeviceRef,
    },
    proto::roce::{
        ring::RingShape,
        work::MAX_MESSAGE, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Version that programs see as that of the firmware.
const VERSION: u64 = 1;

/// What happens when a device is released.
pub(super) trait DeviceOwner: Send + Sync {
    /// The verbs core has released the device. Context: may sleep.
    fn released(&self, device: &Arc<SoftDevice>);
}

/// A device of the type `rsoft`.
pub(super) struct SoftDevice {
    /// Where it is listed.
    owner: Arc<dyn DeviceOwner>,
    /// GUID of the node, and of its port.
    guid: [u8; 8],
    /// Versions of RoCE that it has.
    versions: RoceVersions,
    /// What its objects use.
    node: Arc<Node>,
}

impl SoftDevice {
    /// Makes a device that is not registered yet. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        owner: Arc<dyn DeviceOwner>,
        node: Arc<Node>,
        versions: RoceVersions,
    ) -> Result<Arc<Self>> {
        let address = node.netdev().and_then(|netdev| netdev.address());
        let device = Self {
            owner,
            guid: guid_of(address.unwrap_or_else(random_address)),
            versions,
            node,
        };
        Ok(Arc::new(device, GFP_KERNEL)?)
    }

    /// The GUID of the node.
    pub(super) fn guid(&self) -> [u8; 8] {
        self.guid
    }

    /// What its objects use.
    pub(super) fn node(&self) -> &Arc<Node> {
        &self.node
    }
}

impl IbDeviceOps for SoftDevice {
    type Pd = Domain;
    type Cq = CompletionQueue;
    type Qp = QueuePair;
    type Srq = SharedQueue;
    type Mr = Region;
    type Mw = Window;
    type Ah = AddressHandle;

    const COUNTERS: &'static [StatName] = COUNTER_NAMES;

    fn query_device(&self) -> DeviceAttr {
        let profile = self.node.profile();
        DeviceAttr {
            fw_version: VERSION,
            guid: self.guid,
            max_mr_size: limits::MAX_MR_SIZE,
            page_sizes: limits::PAGE_SIZES,
            max_qp: limits::MAX_QP,
            max_qp_wr: profile.max_qp_wr,
            max_sge: profile.max_sge,
            max_srq: limits::MAX_SRQ,
            max_cq: limits::MAX_CQ,
            max_cqe: profile.max_cqe,
            max_mr: limits::MAX_MR,
            max_mw: limits::MAX_MW,
            max_pd: limits::MAX_PD,
            max_ah: limits::MAX_AH,
            max_rd_atomic: profile.max_rd_atomic,
            max_fast_reg_pages: profile.max_fast_reg_pages,
            ack_delay: limits::ACK_DELAY,
        }
    }

    fn versions(&self) -> RoceVersions {
        self.versions
    }

    fn query_port(&self, call: &IbDeviceCall<'_>) -> PortAttr {
        let speed = call.ethernet_speed();
        let netdev = self.netdev();
        let phys_mtu = netdev.as_ref().map_or(0, |netdev| netdev.mtu());
        PortAttr {
            active: netdev.is_some_and(|netdev| netdev.is_active()),
            active_mtu: active_mtu(phys_mtu).code(),
            phys_mtu,
            max_message: MAX_MESSAGE,
            speed,
        }
    }

    fn read_counters(&self, values: &mut StatValues) {
        self.node.counters().read(values);
    }

    fn netdev(&self) -> Option<NetDeviceRef> {
        self.node.netdev()
    }

    fn add_address(&self, index: u16, gid: [u8; 16], protocol: GidProtocol) -> Result {
        self.node.add_address(index, gid, protocol)
    }

    fn remove_address(&self, index: u16) {
        self.node.remove_address(index);
    }

    fn alloc_pd(self: &Arc<Self>) -> Result<Arc<Domain>> {
        Domain::new(&self.node)
    }

    fn user_cq_sizes(&self, entries: u32) -> Result<UserCqSizes> {
        if entries > limits::MAX_CQE {
            return Err(EINVAL);
        }
        let shape = RingShape::of_completions(entries).ok_or(EINVAL)?;
        Ok(UserCqSizes {
            entries: shape.entries(),
            ring: usize::try_from(shape.octets())?,
        })
    }

    fn user_qp_sizes(&self, caps: QpCaps, shares: bool) -> Result<UserQpSizes> {
        user_sizes(caps, shares)
    }

    fn user_srq_sizes(&self, attr: SrqAttr) -> Result<UserSrqSizes> {
        srq::user_sizes(attr)
    }

    fn create_cq(
        self: &Arc<Self>,
        entries: u32,
        handle: CqHandle,
        ring: Option<&Arc<UserRing>>,
    ) -> Result<Arc<CompletionQueue>> {
        if entries > self.node.profile().max_cqe && ring.is_none() {
            return Err(EINVAL);
        }
        CompletionQueue::new(self.node.runtime(), entries, handle, ring)
    }

    fn create_qp(
        self: &Arc<Self>,
        init: QpInit<Domain, CompletionQueue, SharedQueue>,
    ) -> Result<(Arc<QueuePair>, u32)> {
        QueuePair::create(init)
    }

    fn create_srq(
        self: &Arc<Self>,
        pd: &Arc<Domain>,
        attr: SrqAttr,
        handle: SrqHandle,
        ring: Option<&Arc<UserRing>>,
    ) -> Result<Arc<SharedQueue>> {
        SharedQueue::new(pd, attr, handle, ring)
    }

    fn linear_mr(self: &Arc<Self>, pd: &Arc<Domain>, access: MrAccess) -> Result<Arc<Region>> {
        self.node
            .keys()
            .add(|key| Region::linear(&pd.tag, key, access))
    }

    fn user_mr(
        self: &Arc<Self>,
        pd: &Arc<Domain>,
        access: MrAccess,
        map: MrMap,
    ) -> Result<Arc<Region>> {
        self.node
            .keys()
            .add(|key| Region::pinned(&pd.tag, key, access, map))
    }

    fn alloc_mr(
        self: &Arc<Self>,
        pd: &Arc<Domain>,
        kind: MrKind,
        entries: u32,
    ) -> Result<Arc<Region>> {
        if entries > self.node.profile().max_fast_reg_pages {
            return Err(EINVAL);
        }
        let entries = usize::try_from(entries)?;
        self.node
            .keys()
            .add(|key| Region::fast(&pd.tag, key, kind, entries))
    }

    fn dereg_mr(self: &Arc<Self>, mr: &Arc<Region>) -> Result {
        mr.end()?;
        self.node.keys().remove(mr.key());
        Ok(())
    }

    fn alloc_mw(self: &Arc<Self>, pd: &Arc<Domain>, kind: MwKind) -> Result<Arc<Window>> {
        self.node.keys().add(|key| Window::new(&pd.tag, key, kind))
    }

    fn dealloc_mw(self: &Arc<Self>, mw: &Arc<Window>) {
        mw.end();
        self.node.keys().remove(mw.key());
    }

    fn create_ah(
        self: &Arc<Self>,
        pd: &Arc<Domain>,
        to: AddressVector,
    ) -> Result<Arc<AddressHandle>> {
        AddressHandle::new(pd, to, 0)
    }

    fn create_user_ah(
        self: &Arc<Self>,
        pd: &Arc<Domain>,
        to: AddressVector,
    ) -> Result<Arc<AddressHandle>> {
        pd.add_handle(to)
    }

    fn modify_ah(self: &Arc<Self>, ah: &Arc<AddressHandle>, to: AddressVector) -> Result {
        ah.lead(to)
    }

    fn query_ah(self: &Arc<Self>, ah: &Arc<AddressHandle>, f: &mut dyn FnMut(&AddressVector)) {
        f(&ah.way().to);
    }

    fn destroy_ah(self: &Arc<Self>, ah: &Arc<AddressHandle>) {
        if ah.number != 0 {
            ah.domain.remove_handle(ah.number);
        }
    }

    fn released(self: &Arc<Self>) {
        self.owner.released(self);
    }
}

/// A locally administered address.
fn random_address() -> [u8; 6] {
    let [a, b, c, d] = random_u32().to_ne_bytes();
    [0x02, 0, a, b, c, d]
}

/// The EUI-64 of an Ethernet address.
fn guid_of(mac: [u8; 6]) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac;
    [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
}
