// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC (ICRC) of a packet (RNIC-ICRC-01 to RNIC-ICRC-07).

use super::{
    crc32::{
        Crc32,
        CrcRoutine, //
    },
    frame::Frame,
    header::BTH_LEN, //
};

/// Octets of the checksum.
pub(crate) const ICRC_LEN: usize = 4;

/// The state after the eight octets of ones that stand for a local route header (RNIC-ICRC-05).
const SEED: Crc32 = Crc32::from_state(0xdebb_20e3);

/// The octet of the BTH that switches may change, and that counts as ones (RNIC-ICRC-02).
const VARIANT_OCTET: usize = 4;

/// An ICRC that is being computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Icrc(Crc32);

impl Icrc {
    /// Starts with the headers of the network and the BTH.
    pub(crate) fn start(frame: &Frame, bth: &[u8; BTH_LEN]) -> Self {
        let mut masked = *bth;
        if let Some(octet) = masked.get_mut(VARIANT_OCTET) {
            *octet = 0xff;
        }
        Self(frame.update_masked(SEED).update(&masked))
    }

    /// Continues with the octets behind the BTH: extension headers, payload and padding.
    #[must_use]
    pub(crate) fn update(self, routine: &impl CrcRoutine, octets: &[u8]) -> Self {
        Self(routine.update(self.0, octets))
    }

    /// The octets behind the padding (RNIC-ICRC-01).
    pub(crate) const fn octets(self) -> [u8; ICRC_LEN] {
        self.0.value().to_le_bytes()
    }
}

/// Why a packet is dropped before its headers are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IcrcError {
    /// There is no room for a BTH and a checksum (RNIC-HDR-07).
    Truncated,
    /// The checksum is wrong (RNIC-ICRC-06).
    Mismatch,
}

/// The checksum of `transport`, the octets from the BTH to the padding; `None` if they are fewer
/// than a BTH. The routine is for what may be long (RNIC-DATA-05).
pub(crate) fn icrc_of(
    routine: &impl CrcRoutine,
    frame: &Frame,
    transport: &[u8],
) -> Option<[u8; ICRC_LEN]> {
    let (bth, rest) = transport.split_first_chunk::<BTH_LEN>()?;
    Some(Icrc::start(frame, bth).update(routine, rest).octets())
}

/// Checks the octets from the BTH to the ICRC and returns those before the ICRC (RNIC-ICRC-06).
///
/// # Errors
///
/// See [`IcrcError`].
pub(crate) fn check<'a>(
    routine: &impl CrcRoutine,
    frame: &Frame,
    octets: &'a [u8],
) -> Result<&'a [u8], IcrcError> {
    let (transport, icrc) = octets
        .split_last_chunk::<ICRC_LEN>()
        .ok_or(IcrcError::Truncated)?;
    let expected = icrc_of(routine, frame, transport).ok_or(IcrcError::Truncated)?;
    if expected == *icrc {
        Ok(transport)
    } else {
        Err(IcrcError::Mismatch)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_icrc))]
mod tests {
    use super::*;

    /// RNIC-ICRC-05.
    #[test]
    fn seed_is_the_state_after_eight_octets_of_ones() {
        assert_eq!(Crc32::START.update(&[0xff; 8]), SEED);
    }
}
