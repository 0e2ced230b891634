// SPDX-License-Identifier: GPL-2.0

//! The routine for the checksums of packets, chosen when the module is loaded (RNIC-DATA-05).

use crate::{
    kapi::base::crc32,
    proto::roce::{
        crc32::{
            Crc32,
            CrcRoutine,
            Slicing, //
        },
        crc_check::is_right, //
    },
};
use kernel::prelude::*;

/// A routine for the checksums of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketChecksum {
    /// That of the kernel.
    Kernel,
    /// That of this module, which needs no instructions of the processor for it.
    Own,
}

impl PacketChecksum {
    /// The kernel's routine if it is fast or this module's own shall not be used, which it is else.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the routine computes wrong sums.
    pub(super) fn choose(own: bool) -> Result<Self> {
        let chosen = Self::preferred(crc32::is_fast() || !own);
        admit(&chosen)?;
        pr_info!("checksums of packets by {}\n", chosen.name());
        Ok(chosen)
    }

    /// The routine for a kernel whose own one is fast or not.
    const fn preferred(is_fast: bool) -> Self {
        if is_fast {
            Self::Kernel
        } else {
            Self::Own
        }
    }

    /// The name, for the log.
    const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "crc32_le of the kernel",
            Self::Own => "slicing by 8 in four lanes",
        }
    }
}

impl CrcRoutine for PacketChecksum {
    fn update(&self, state: Crc32, octets: &[u8]) -> Crc32 {
        match self {
            Self::Kernel => Crc32::from_state(crc32::update(state.state(), octets)),
            Self::Own => Slicing.update(state, octets),
        }
    }
}

/// Refuses a routine that computes wrong sums.
///
/// # Errors
///
/// `EINVAL`.
fn admit(routine: &impl CrcRoutine) -> Result {
    if is_right(routine) {
        return Ok(());
    }
    pr_err!("the routine for CRC-32 computes wrong sums\n");
    Err(EINVAL)
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_checksum)]
mod tests {
    use super::*;

    /// A routine that loses the last octet of a long packet.
    struct Broken;

    impl CrcRoutine for Broken {
        fn update(&self, state: Crc32, octets: &[u8]) -> Crc32 {
            let len = octets.len().min(4_095);
            state.update(octets.get(..len).unwrap_or_default())
        }
    }

    /// RNIC-DATA-05.
    #[test]
    fn routine_of_the_kernel_is_chosen_only_if_it_is_fast() {
        assert!(PacketChecksum::preferred(true) == PacketChecksum::Kernel);
        assert!(PacketChecksum::preferred(false) == PacketChecksum::Own);
        assert!(PacketChecksum::Kernel.name() != PacketChecksum::Own.name());
    }

    /// RNIC-DATA-05.
    #[test]
    fn wrong_routine_is_refused_and_both_others_are_not() -> Result {
        admit(&PacketChecksum::Kernel)?;
        admit(&PacketChecksum::Own)?;
        assert!(admit(&Broken).err() == Some(EINVAL));
        Ok(())
    }
}
