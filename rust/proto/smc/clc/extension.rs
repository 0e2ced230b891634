// SPDX-License-Identifier: GPL-2.0

//! The part of a Proposal that offers SMC-R version 2 ("client options area").
//!
//! ```text
//!   octet 0  count of EIDs          24  most connections
//!         1  count of ISM GIDs      25  most links
//!         3  release (high half)    26  features
//!         6  offset of the SMC-D    28  reserved
//!            extension              40  EIDs, 32 octets each
//!         8  GID, RoCE version 2
//! ```
//!
//! What offers SMC-D behind it is skipped.

use super::{
    eid::{
        Eid,
        EidList,
        EID_BYTES, //
    },
    error::ProtocolError, //
};
use crate::proto::base::verbs::Gid;
use zerocopy::{
    byteorder::network_endian::U16,
    FromBytes,
    IntoBytes, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// The octets in front of the identifiers.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    /// Number of identifiers behind these octets.
    eids: u8,
    /// Number of SMC-D GIDs; this side offers none.
    ism_gids: u8,
    /// Reserved.
    reserved: u8,
    /// Latest release of version 2, in the high four bits.
    release: u8,
    /// Reserved.
    reserved_too: [u8; 2],
    /// Offset of the SMC-D part; 0 without one.
    smcd_offset: U16,
    /// GID of the RDMA port, of RoCE version 2.
    gid: [u8; 16],
    /// Most connections of a link group, from release 1 on.
    max_conns: u8,
    /// Most links of a link group, from release 1 on.
    max_links: u8,
    /// Mask of optional features, from release 1 on.
    features: U16,
    /// Reserved.
    reserved_more: [u8; 12],
}

/// A client's offer of SMC-R version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extension {
    /// GID of the RDMA port the client suggests, of RoCE version 2.
    pub(crate) gid: Gid,
    /// Latest release of version 2 the client knows.
    pub(crate) release: u8,
    /// Most connections of a link group; means something from release 1 on.
    pub(crate) max_conns: u8,
    /// Most links of a link group; means something from release 1 on.
    pub(crate) max_links: u8,
    /// Supplemental features, none of which is known here.
    pub(crate) features: u16,
    /// Names of which the server must have one.
    pub(crate) eids: EidList,
}

impl Extension {
    /// Reads the octets at the start of `area`; what follows belongs to others.
    pub(super) fn parse(area: &[u8]) -> Result<Self, ProtocolError> {
        let (raw, rest) = Raw::ref_from_prefix(area).map_err(|_| ProtocolError::Size)?;
        let (octets, _) =
            <[[u8; EID_BYTES]]>::ref_from_prefix_with_elems(rest, usize::from(raw.eids))
                .map_err(|_| ProtocolError::Size)?;
        let mut eids = EidList::EMPTY;
        for eid in octets {
            eids.push(Eid::from_octets(*eid))
                .map_err(|_| ProtocolError::EidCount(raw.eids))?;
        }
        Ok(Self {
            gid: Gid::new(raw.gid),
            release: raw.release >> 4,
            max_conns: raw.max_conns,
            max_links: raw.max_links,
            features: raw.features.get(),
            eids,
        })
    }

    /// How many octets there are.
    pub(super) fn len(&self) -> Option<usize> {
        let eids = self.eids.as_slice().len().checked_mul(EID_BYTES)?;
        size_of::<Raw>().checked_add(eids)
    }

    /// Writes the octets to the start of `area`.
    pub(super) fn emit(&self, area: &mut [u8]) -> Option<()> {
        let eids = self.eids.as_slice();
        let raw = Raw {
            eids: u8::try_from(eids.len()).ok()?,
            ism_gids: 0,
            reserved: 0,
            release: self.release << 4,
            reserved_too: [0; 2],
            smcd_offset: U16::new(0),
            gid: self.gid.get(),
            max_conns: self.max_conns,
            max_links: self.max_links,
            features: self.features.into(),
            reserved_more: [0; 12],
        };
        raw.write_to_prefix(area).ok()?;
        let mut rest = area.get_mut(size_of::<Raw>()..)?;
        for eid in eids {
            let (place, behind) = rest.split_at_mut_checked(EID_BYTES)?;
            place.copy_from_slice(&eid.octets());
            rest = behind;
        }
        Some(())
    }
}
