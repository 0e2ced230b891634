// SPDX-License-Identifier: GPL-2.0

//! What a device behaves like: itself, or for tests an adapter of silicon with its limits and habits.
//!
//! The limits hold for programs of the kernel. Rings of user space have the layout and the limits of the
//! device itself, whatever the profile says.

use super::limits;

/// Limits and habits of a device.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Profile {
    /// Work requests of a queue.
    pub(super) max_qp_wr: u32,
    /// Scatter/gather elements of a work request.
    pub(super) max_sge: u32,
    /// Octets of a message that a work request can contain.
    pub(super) max_inline: u32,
    /// Entries of a completion queue.
    pub(super) max_cqe: u32,
    /// READs and atomics in flight on a queue pair.
    pub(super) max_rd_atomic: u32,
    /// Pages of a fast registration.
    pub(super) max_fast_reg_pages: u32,
    /// Whether completions show up late, in batches, and queues overtake each other; and whether the
    /// octets of a WRITE are placed late, the last ones first.
    pub(super) is_late: bool,
}

/// The device itself.
const PLAIN: Profile = Profile {
    max_qp_wr: limits::MAX_QP_WR,
    max_sge: limits::MAX_SGE,
    max_inline: limits::MAX_INLINE,
    max_cqe: limits::MAX_CQE,
    max_rd_atomic: limits::MAX_RD_ATOMIC,
    max_fast_reg_pages: limits::MAX_FAST_REG_PAGES,
    is_late: false,
};

/// Modelled on mlx5 with a ConnectX-5: 8 READs in flight less than most have, and a kernel program gets
/// no inline data.
const MLX5: Profile = Profile {
    max_rd_atomic: 16,
    max_inline: 0,
    is_late: true,
    ..PLAIN
};

/// Modelled on bnxt_re: few elements, and fast registrations of one level of page tables.
const BNXT_RE: Profile = Profile {
    max_sge: 6,
    max_inline: 96,
    max_rd_atomic: 126,
    max_fast_reg_pages: 512,
    is_late: true,
    ..PLAIN
};

/// Modelled on irdma with an E810: odd numbers everywhere.
const IRDMA: Profile = Profile {
    max_qp_wr: 4_063,
    max_sge: 13,
    max_inline: 101,
    max_rd_atomic: 127,
    max_fast_reg_pages: 512,
    is_late: true,
    ..PLAIN
};

/// Modelled on hns with a HIP08: short queues, and two elements for messages that are received.
const HNS: Profile = Profile {
    max_qp_wr: 1_024,
    max_sge: 2,
    max_inline: 32,
    max_cqe: 8_192,
    max_rd_atomic: 8,
    max_fast_reg_pages: 256,
    is_late: true,
};

impl Profile {
    /// The profile of that number: 0 for the device itself, 1 to 4 for the adapters.
    pub(super) const fn new(number: u8) -> Option<&'static Self> {
        match number {
            0 => Some(&PLAIN),
            1 => Some(&MLX5),
            2 => Some(&BNXT_RE),
            3 => Some(&IRDMA),
            4 => Some(&HNS),
            _ => None,
        }
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_profile)]
mod tests {
    use super::*;

    /// A ring of the device holds what a profile promises.
    #[test]
    fn profiles_promise_no_more_than_the_device_has() {
        for profile in (0..=u8::MAX).map_while(Profile::new) {
            assert!(profile.max_qp_wr <= PLAIN.max_qp_wr && profile.max_sge <= PLAIN.max_sge);
            assert!(profile.max_inline <= PLAIN.max_inline && profile.max_cqe <= PLAIN.max_cqe);
            assert!(profile.max_rd_atomic <= PLAIN.max_rd_atomic);
            assert!(profile.max_fast_reg_pages <= PLAIN.max_fast_reg_pages);
        }
        assert!(Profile::new(4).is_some() && Profile::new(5).is_none());
    }
}
