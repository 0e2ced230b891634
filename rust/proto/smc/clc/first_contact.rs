// SPDX-License-Identifier: GPL-2.0

//! What Accept and Confirm of SMC-R version 2 add on first contact.
//!
//! ```text
//!   octet 0  D: no gateway in between   (0x80)
//!         1  operating system, release  (halves)
//!         4  name of the host, 32 octets
//!        36  most connections, most links, features, vendor options, reserved: from release 1 on
//!        52  or 36: in Confirm, the client's GIDs: count, 3 reserved, 16 octets each
//! ```

use super::{
    error::ProtocolError,
    terms::LIMITS_RELEASE, //
};
use crate::proto::{
    base::verbs::Gid,
    stream::reason::Reason, //
};
use zerocopy::{
    byteorder::network_endian::{
        U16,
        U32, //
    },
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

/// Octets of a host's name.
pub(crate) const HOST_BYTES: usize = 32;

/// Most GIDs of a Confirm that are kept.
pub(crate) const MAX_GIDS: usize = 8;

/// No gateway is between the hosts.
const DIRECT: u8 = 0x80;

/// The operating system that Linux calls itself.
const OS_LINUX: u8 = 2;

/// The octets of every release.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    flags: u8,
    os_release: u8,
    reserved: [u8; 2],
    host: [u8; HOST_BYTES],
}

/// The octets that release 1 added.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLimits {
    max_conns: u8,
    max_links: u8,
    features: U16,
    vendor: U32,
    reserved: [u8; 8],
}

/// The octets in front of the GIDs.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawGids {
    count: u8,
    reserved: [u8; 3],
}

/// GIDs of the client that the server may use for further links.
///
/// # Invariants
///
/// `count` is at most [`MAX_GIDS`]; places from `count` on are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GidList {
    list: [Gid; MAX_GIDS],
    count: u8,
}

impl GidList {
    /// No GIDs.
    pub(crate) const EMPTY: Self = Self {
        list: [Gid::new([0; 16]); MAX_GIDS],
        count: 0,
    };

    /// Adds a GID; beyond the eighth they are left out.
    pub(crate) fn push(&mut self, gid: Gid) {
        if let Some(place) = self.list.get_mut(usize::from(self.count)) {
            *place = gid;
            // INVARIANT: `count` was less than the number of places.
            self.count = self.count.saturating_add(1);
        }
    }

    /// The GIDs.
    pub(crate) fn as_slice(&self) -> &[Gid] {
        self.list.get(..usize::from(self.count)).unwrap_or(&[])
    }
}

/// The extension of first contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstContact {
    /// The sender reaches the receiver without a gateway.
    pub(crate) direct: bool,
    /// The sender's operating system, as a number.
    pub(crate) os: u8,
    /// The release both use.
    pub(crate) release: u8,
    /// The sender's name, for people.
    pub(crate) host: [u8; HOST_BYTES],
    /// Most connections of the link group, from release 1 on.
    pub(crate) max_conns: u8,
    /// Most links of the link group, from release 1 on.
    pub(crate) max_links: u8,
    /// Supplemental features both support, from release 1 on.
    pub(crate) features: u16,
    /// In Confirm, what else the client can be reached at.
    pub(crate) gids: GidList,
}

impl FirstContact {
    /// What a host without a name says that has nothing to say.
    pub(crate) const NOTHING: Self = Self {
        direct: false,
        os: OS_LINUX,
        release: 0,
        host: [b' '; HOST_BYTES],
        max_conns: 0,
        max_links: 0,
        features: 0,
        gids: GidList::EMPTY,
    };

    /// Reads the octets up to the trailer. Octets that later releases may add are ignored.
    pub(super) fn parse(area: &[u8], with_gids: bool) -> Result<Self, ProtocolError> {
        let (raw, mut rest) = Raw::ref_from_prefix(area).map_err(|_| ProtocolError::Size)?;
        let mut first = Self {
            direct: raw.flags & DIRECT != 0,
            os: raw.os_release >> 4,
            release: raw.os_release & 0x0f,
            host: raw.host,
            ..Self::NOTHING
        };
        // Release 0 has no limits, but a sender that knows release 1 leaves room for them. The
        // GIDs, which fill the rest exactly, show whether it did.
        let later = RawLimits::ref_from_prefix(rest);
        if first.release >= LIMITS_RELEASE {
            let (limits, behind) = later.map_err(|_| ProtocolError::Size)?;
            first.max_conns = limits.max_conns;
            first.max_links = limits.max_links;
            first.features = limits.features.get();
            rest = behind;
        } else if let Ok((_, behind)) = later {
            if !with_gids || !is_filled_by_gids(rest) {
                rest = behind;
            }
        }
        if with_gids {
            first.gids = read_gids(rest)?;
        }
        Ok(first)
    }

    /// Whether the client's Confirm repeats the terms of the Accept, which are these.
    ///
    /// # Errors
    ///
    /// The reason for the Decline.
    pub(super) fn repeated_in(&self, confirm: Option<&Self>) -> Result<(), Reason> {
        let confirm = confirm.ok_or(Reason::ReleaseError)?;
        if confirm.release != self.release {
            return Err(Reason::ReleaseError);
        }
        if self.release < LIMITS_RELEASE {
            return Ok(());
        }
        if confirm.max_conns != self.max_conns {
            return Err(Reason::MaxConnectionsError);
        }
        if confirm.max_links != self.max_links {
            return Err(Reason::MaxLinksError);
        }
        Ok(())
    }

    /// How many octets there are.
    pub(super) fn len(&self, with_gids: bool) -> Option<usize> {
        let len = size_of::<Raw>().checked_add(size_of::<RawLimits>())?;
        if !with_gids {
            return Some(len);
        }
        let gids = self.gids.as_slice().len().checked_mul(16)?;
        len.checked_add(size_of::<RawGids>())?.checked_add(gids)
    }

    /// Writes the octets to the start of `area`. The room for the limits is there in all releases,
    /// as deployed peers have it.
    pub(super) fn emit(&self, area: &mut [u8], with_gids: bool) -> Option<()> {
        let raw = Raw {
            flags: if self.direct { DIRECT } else { 0 },
            os_release: (self.os << 4) | (self.release & 0x0f),
            reserved: [0; 2],
            host: self.host,
        };
        raw.write_to_prefix(area).ok()?;
        let rest = area.get_mut(size_of::<Raw>()..)?;
        let limited = self.release >= LIMITS_RELEASE;
        let limits = RawLimits {
            max_conns: if limited { self.max_conns } else { 0 },
            max_links: if limited { self.max_links } else { 0 },
            features: if limited { self.features } else { 0 }.into(),
            vendor: U32::new(0),
            reserved: [0; 8],
        };
        limits.write_to_prefix(rest).ok()?;
        if !with_gids {
            return Some(());
        }
        let gids = self.gids.as_slice();
        let rest = rest.get_mut(size_of::<RawLimits>()..)?;
        let head = RawGids {
            count: u8::try_from(gids.len()).ok()?,
            reserved: [0; 3],
        };
        head.write_to_prefix(rest).ok()?;
        let mut rest = rest.get_mut(size_of::<RawGids>()..)?;
        for gid in gids {
            let (place, behind) = rest.split_at_mut_checked(16)?;
            place.copy_from_slice(&gid.get());
            rest = behind;
        }
        Some(())
    }
}

/// Whether a list of GIDs is all of `area`.
fn is_filled_by_gids(area: &[u8]) -> bool {
    RawGids::ref_from_prefix(area)
        .is_ok_and(|(head, rest)| usize::from(head.count).checked_mul(16) == Some(rest.len()))
}

/// Reads a list of GIDs.
fn read_gids(area: &[u8]) -> Result<GidList, ProtocolError> {
    let (head, rest) = RawGids::ref_from_prefix(area).map_err(|_| ProtocolError::Size)?;
    let (octets, _) = <[[u8; 16]]>::ref_from_prefix_with_elems(rest, usize::from(head.count))
        .map_err(|_| ProtocolError::Size)?;
    let mut gids = GidList::EMPTY;
    for gid in octets {
        gids.push(Gid::new(*gid));
    }
    Ok(gids)
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_first_contact))]
mod tests {
    use super::*;

    /// What an Accept or Confirm says.
    const fn first(release: u8, max_conns: u8, max_links: u8) -> FirstContact {
        FirstContact {
            release,
            max_conns,
            max_links,
            ..FirstContact::NOTHING
        }
    }

    #[test]
    fn confirm_must_repeat_the_terms() {
        let accept = first(1, 100, 2);
        assert_eq!(accept.repeated_in(Some(&first(1, 100, 2))), Ok(()));
        let release = Err(Reason::ReleaseError);
        assert_eq!(accept.repeated_in(Some(&first(0, 100, 2))), release);
        assert_eq!(accept.repeated_in(None), release);
        let conns = Err(Reason::MaxConnectionsError);
        assert_eq!(accept.repeated_in(Some(&first(1, 99, 2))), conns);
        let links = Err(Reason::MaxLinksError);
        assert_eq!(accept.repeated_in(Some(&first(1, 100, 1))), links);
        assert_eq!(first(0, 9, 9).repeated_in(Some(&first(0, 7, 7))), Ok(()));
    }

    #[test]
    fn eight_gids_are_kept() {
        let mut gids = GidList::EMPTY;
        for n in 0..12 {
            gids.push(Gid::new([n; 16]));
        }
        assert_eq!(gids.as_slice().len(), MAX_GIDS);
        let mut area = [0; 4 + 16 * 12];
        for (n, octet) in area.iter_mut().enumerate() {
            *octet = u8::try_from(n.saturating_sub(4) / 16).unwrap_or(0);
        }
        area[0] = 12;
        assert_eq!(read_gids(&area), Ok(gids));
        assert_eq!(read_gids(&area[..195]), Err(ProtocolError::Size));
    }
}
