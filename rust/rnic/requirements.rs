// SPDX-License-Identifier: GPL-2.0

//! Kernels that the module is built for (RNIC-GEN-01).
//!
//! Sections with softirqs off are assumed to run without a task switch (RNIC-MR-06), memory to have an address
//! of the kernel at all times, and words to be those of the processor that user space has.

/// Properties of a kernel.
#[derive(Clone, Copy)]
struct KernelProperties {
    /// Bits of an address.
    bits: u32,
    /// The least significant octet of a word comes first.
    little_endian: bool,
    /// Some memory has no address of the kernel.
    high_memory: bool,
    /// Sections with softirqs off may be preempted.
    real_time: bool,
}

impl KernelProperties {
    /// The kernel that the module is built for.
    const THIS: Self = Self {
        bits: usize::BITS,
        little_endian: cfg!(target_endian = "little"),
        high_memory: cfg!(CONFIG_HIGHMEM),
        real_time: cfg!(CONFIG_PREEMPT_RT),
    };

    /// Whether the module works there.
    const fn suffice(self) -> bool {
        self.bits == 64 && self.little_endian && !self.high_memory && !self.real_time
    }
}

/// Fails to build for a kernel that does not suffice.
pub(super) const fn check() {
    assert!(
        KernelProperties::THIS.suffice(),
        "rdma_soft needs a kernel of 64 bits, little endian, without HIGHMEM and PREEMPT_RT"
    );
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_requirements)]
mod tests {
    use super::*;

    /// RNIC-GEN-01: a build for any other kernel fails.
    #[test]
    fn kernel_with_another_property_does_not_suffice() {
        let this = KernelProperties::THIS;
        assert!(this.suffice());
        let others = [
            KernelProperties { bits: 32, ..this },
            KernelProperties {
                little_endian: false,
                ..this
            },
            KernelProperties {
                high_memory: true,
                ..this
            },
            KernelProperties {
                real_time: true,
                ..this
            },
        ];
        for other in others {
            assert!(!other.suffice());
        }
    }
}
