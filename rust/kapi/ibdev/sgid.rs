// SPDX-License-Identifier: GPL-2.0

//! Source GIDs and address vectors.
//!
//! C header: [`include/rdma/ib_cache.h`](srctree/include/rdma/ib_cache.h)

use crate::{
    bindings,
    kapi::net::netdev_ref::NetDeviceRef, //
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::prelude::*;

/// The protocol of a GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GidProtocol {
    /// RoCE v1.
    RoceV1,
    /// RoCE v2 over IPv4.
    Ipv4,
    /// RoCE v2 over IPv6.
    Ipv6,
}

/// GID and protocol of an entry.
pub(super) fn protocol_of(attr: &bindings::ib_gid_attr) -> ([u8; 16], GidProtocol) {
    // SAFETY: Both views of a GID are octets.
    let gid = unsafe { *attr.gid.raw };
    let protocol = match gid {
        _ if attr.gid_type == bindings::ib_gid_type_IB_GID_TYPE_ROCE => GidProtocol::RoceV1,
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..] => GidProtocol::Ipv4,
        _ => GidProtocol::Ipv6,
    };
    (gid, protocol)
}

/// A reference to an entry of the GID table. The entry stays in the table's memory; its address may be
/// gone from the network device.
///
/// # Invariants
///
/// The pointer is valid and this object owns a reference.
pub(crate) struct SgidAttr(NonNull<bindings::ib_gid_attr>);

// SAFETY: References to entries may be used and dropped anywhere.
unsafe impl Send for SgidAttr {}
// SAFETY: As above.
unsafe impl Sync for SgidAttr {}

impl SgidAttr {
    /// Takes a reference. Context: any.
    ///
    /// # Safety
    ///
    /// `attr` must be an entry that the caller may take a reference to.
    unsafe fn hold(attr: NonNull<bindings::ib_gid_attr>) -> Self {
        // SAFETY: By this function's contract.
        unsafe { bindings::rdma_hold_gid_attr(attr.as_ptr()) };
        // INVARIANT: Just taken.
        Self(attr)
    }

    /// The GID.
    pub(crate) fn gid(&self) -> [u8; 16] {
        // SAFETY: By the type invariants; the fields are constant.
        protocol_of(unsafe { self.0.as_ref() }).0
    }

    /// The protocol.
    pub(crate) fn protocol(&self) -> GidProtocol {
        // SAFETY: By the type invariants; the fields are constant.
        protocol_of(unsafe { self.0.as_ref() }).1
    }

    /// The network device that has the address; `None` once the entry is being removed. Context: any.
    pub(crate) fn netdev(&self) -> Option<NetDeviceRef> {
        // SAFETY: By the type invariants. The helper takes a reference.
        let netdev = unsafe { bindings::rdma_sock_helper_gid_netdev(self.0.as_ptr()) };
        // SAFETY: The device is the one that the helper took a reference to.
        NonNull::new(netdev).map(|netdev| unsafe { NetDeviceRef::from_raw(netdev) })
    }
}

impl Clone for SgidAttr {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariants there is a reference.
        unsafe { Self::hold(self.0) }
    }
}

impl Drop for SgidAttr {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_put_gid_attr(self.0.as_ptr()) }
    }
}

/// The way to a peer.
#[derive(Clone)]
pub(crate) struct AddressVector {
    /// Source.
    pub(crate) sgid: SgidAttr,
    /// Its index in the GID table.
    sgid_index: u8,
    /// Destination GID; an IPv4 address in its mapped form.
    pub(crate) dgid: [u8; 16],
    /// Flow label of IPv6, or 0.
    pub(crate) flow_label: u32,
    /// Hop limit or time to live.
    pub(crate) hop_limit: u8,
    /// Traffic class or type of service.
    pub(crate) traffic_class: u8,
    /// Ethernet address of the next hop, for RoCE v1.
    pub(crate) dmac: [u8; 6],
}

impl AddressVector {
    /// # Errors
    ///
    /// `EINVAL` for an address of another port, without a GRH, or of another link layer
    /// (RNIC-AH-01).
    ///
    /// # Safety
    ///
    /// `attr` must be an attribute that the verbs core passes to a driver: with the entry of the
    /// source's GID.
    pub(super) unsafe fn new(attr: &bindings::rdma_ah_attr) -> Result<Self> {
        let roce = attr.type_ == bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
        let global = u32::from(attr.ah_flags) & bindings::ib_ah_flags_IB_AH_GRH != 0;
        let sgid = NonNull::new(attr.grh.sgid_attr.cast_mut()).ok_or(EINVAL)?;
        if !roce || !global || attr.port_num != 1 {
            return Err(EINVAL);
        }
        Ok(Self {
            // SAFETY: By this function's contract.
            sgid: unsafe { SgidAttr::hold(sgid) },
            sgid_index: attr.grh.sgid_index,
            // SAFETY: Both views of a GID are octets.
            dgid: unsafe { *attr.grh.dgid.raw },
            flow_label: attr.grh.flow_label,
            hop_limit: attr.grh.hop_limit,
            traffic_class: attr.grh.traffic_class,
            // SAFETY: The type is RoCE.
            dmac: unsafe { attr.__bindgen_anon_1.roce.dmac },
        })
    }

    /// Fills in the structure of the verbs core, which gets no reference to the source (RNIC-AH-01).
    pub(super) fn fill(&self, attr: &mut bindings::rdma_ah_attr) {
        // SAFETY: All fields are numbers or pointers.
        *attr = unsafe { core::mem::zeroed() };
        attr.type_ = bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
        attr.port_num = 1;
        attr.ah_flags = bindings::ib_ah_flags_IB_AH_GRH as u8;
        attr.grh.dgid.raw = ManuallyDrop::new(self.dgid);
        attr.grh.flow_label = self.flow_label;
        attr.grh.sgid_index = self.sgid_index;
        attr.grh.hop_limit = self.hop_limit;
        attr.grh.traffic_class = self.traffic_class;
        let dmac = self.dmac;
        attr.__bindgen_anon_1.roce = ManuallyDrop::new(bindings::roce_ah_attr { dmac });
    }
}
