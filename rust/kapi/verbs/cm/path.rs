// SPDX-License-Identifier: GPL-2.0

//! The way to a peer, as a request names it.

use crate::{
    bindings,
    kapi::verbs::device::{
        Device,
        Lease,
        LocalGid, //
    },
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::Arc, //
};

/// The default partition.
const DEFAULT_PKEY: u16 = 0xffff;
/// `packet_life_time` of a path unless the engine sets it: 67 ms.
const LIFE_TIME: u8 = 14;

/// A reference to an entry of a GID table. Dropped before the lease of its device.
///
/// # Invariants
///
/// The entry is valid, and this object owns a reference.
struct GidAttr(NonNull<bindings::ib_gid_attr>);

// SAFETY: References to entries may be used and put anywhere.
unsafe impl Send for GidAttr {}
// SAFETY: As for `Send`.
unsafe impl Sync for GidAttr {}

impl Drop for GidAttr {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_put_gid_attr(self.0.as_ptr()) };
    }
}

/// A peer on RoCE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoceTarget {
    /// Its GID.
    pub(crate) gid: [u8; 16],
    /// Its Ethernet address, or that of the next hop to it.
    pub(crate) mac: [u8; 6],
    /// Hops that a packet may make.
    pub(crate) hop_limit: u8,
    /// Traffic class of the packets.
    pub(crate) traffic_class: u8,
}

/// A path from a port of a device to a peer, with the entry of the GID table that it begins at.
///
/// # Invariants
///
/// `rec` and `sgid` are of the same port of the leased device, and that is its `port`.
pub(crate) struct CmPath {
    rec: bindings::sa_path_rec,
    port: u32,
    // Put before the lease.
    sgid: GidAttr,
    lease: Lease,
}

// SAFETY: The record holds plain values, and the other fields are `Send`.
unsafe impl Send for CmPath {}
// SAFETY: As for `Send`, `Sync`.
unsafe impl Sync for CmPath {}

/// The record of a path of RoCE.
fn record(
    local: &LocalGid,
    target: &RoceTarget,
    rec_type: bindings::sa_path_rec_type,
) -> Result<bindings::sa_path_rec> {
    let exactly = u8::try_from(bindings::ib_sa_selector_IB_SA_EQ)?;
    let mut rec = bindings::sa_path_rec {
        sgid: bindings::ib_gid {
            raw: ManuallyDrop::new(local.gid),
        },
        dgid: bindings::ib_gid {
            raw: ManuallyDrop::new(target.gid),
        },
        hop_limit: target.hop_limit,
        traffic_class: target.traffic_class,
        reversible: 1,
        pkey: DEFAULT_PKEY.to_be(),
        mtu_selector: exactly,
        mtu: local.mtu_code,
        rate_selector: exactly,
        packet_life_time_selector: exactly,
        packet_life_time: LIFE_TIME,
        rec_type,
        ..Default::default()
    };
    // The connection manager need not resolve what is known.
    rec.__bindgen_anon_1.roce = ManuallyDrop::new(bindings::sa_path_rec_roce {
        route_resolved: true,
        dmac: target.mac,
    });
    Ok(rec)
}

impl CmPath {
    /// A path of a RoCE port to a peer whose Ethernet address is known. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port that is not RoCE; `ENOENT` if its table does not have `local` at that place;
    /// `ENODEV` if the device is being removed.
    pub(crate) fn roce(
        device: &Arc<Device>,
        port: u32,
        local: &LocalGid,
        target: &RoceTarget,
    ) -> Result<Self> {
        if !device.is_roce(port) {
            return Err(EINVAL);
        }
        let lease = device.lease()?;
        // SAFETY: The driver is there and the port exists, as it is RoCE.
        let attr = unsafe { bindings::rdma_get_gid_attr(lease.as_raw(), port, local.index.into()) };
        let attr = from_err_ptr(attr.cast_mut())?;
        // INVARIANT: The reference was just given to this side.
        let sgid = GidAttr(NonNull::new(attr).ok_or(ENOENT)?);
        // SAFETY: The entry is valid and does not change while it is referenced. All octets of the
        // union are initialised.
        let (gid, gid_type) = unsafe { (*(*attr).gid.raw, (*attr).gid_type) };
        let rec_type = match gid_type {
            bindings::ib_gid_type_IB_GID_TYPE_ROCE => {
                bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V1
            }
            _ => bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V2,
        };
        let is_v2 = rec_type == bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V2;
        if gid != local.gid || is_v2 != local.roce_v2 {
            return Err(ENOENT);
        }
        // INVARIANT: Both are of the port, and the device is leased.
        Ok(Self {
            rec: record(local, target, rec_type)?,
            port,
            sgid,
            lease,
        })
    }

    /// Copies a path, and takes a reference to the entry that it begins at.
    ///
    /// # Safety
    ///
    /// `attr` is valid, and an entry of `port` of the leased device; `rec` begins there.
    pub(super) unsafe fn from_raw(
        lease: Lease,
        port: u32,
        rec: &bindings::sa_path_rec,
        attr: NonNull<bindings::ib_gid_attr>,
    ) -> Self {
        // SAFETY: By this function's contract.
        unsafe { bindings::rdma_hold_gid_attr(attr.as_ptr()) };
        // SAFETY: The record holds plain values, and the reference outlives the read.
        let rec = unsafe { core::ptr::read(rec) };
        // INVARIANT: By this function's contract.
        Self {
            rec,
            port,
            sgid: GidAttr(attr),
            lease,
        }
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        self.lease.device()
    }

    /// The port.
    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    /// The GID that it begins at.
    pub(crate) fn local_gid(&self) -> [u8; 16] {
        // SAFETY: All octets of the union are initialised.
        unsafe { *self.rec.sgid.raw }
    }

    /// The GID of the peer.
    pub(crate) fn remote_gid(&self) -> [u8; 16] {
        // SAFETY: All octets of the union are initialised.
        unsafe { *self.rec.dgid.raw }
    }

    /// The Ethernet address of the peer or of the next hop; none if the path is not of RoCE.
    pub(crate) fn mac(&self) -> Option<[u8; 6]> {
        let roce = matches!(
            self.rec.rec_type,
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V1
                | bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V2
        );
        // SAFETY: This is the field of the union that records of RoCE use.
        roce.then(|| unsafe { self.rec.__bindgen_anon_1.roce.dmac })
    }

    /// Sets the time that a packet is in flight at most: 4.096 µs times two to the power of `code`.
    ///
    /// A request waits twice as long for the answer, plus the time that the peer needs to answer.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a code above 31.
    pub(crate) fn set_life_time(&mut self, code: u8) -> Result {
        if code > 31 {
            return Err(EINVAL);
        }
        self.rec.packet_life_time = code;
        Ok(())
    }

    /// Runs `f` with a copy of the record, which it may change, and the entry that it begins at.
    pub(super) fn with_raw<R>(
        &self,
        f: impl FnOnce(*mut bindings::sa_path_rec, *const bindings::ib_gid_attr) -> R,
    ) -> R {
        // SAFETY: The record holds plain values.
        let mut rec = unsafe { core::ptr::read(&self.rec) };
        f(&mut rec, self.sgid.0.as_ptr())
    }
}
