// SPDX-License-Identifier: GPL-2.0

//! Memory for octets that is zero at first.

use kernel::{
    alloc::{
        AllocError,
        Flags, //
    },
    prelude::*, //
};

/// `len` octets of zero.
///
/// `KVec::from_elem` writes one octet after the other, which takes longer than all else that is done with
/// a packet. With `GFP_KERNEL` it may sleep. Context: any.
///
/// # Errors
///
/// Without memory.
pub(crate) fn zeroed(len: usize, flags: Flags) -> Result<KVec<u8>, AllocError> {
    let mut octets = KVec::with_capacity(len, flags)?;
    let room = octets.spare_capacity_mut().as_mut_ptr();
    // SAFETY: There is room for `len` octets behind none, and these are written before they count.
    unsafe {
        room.write_bytes(0, len);
        octets.inc_len(len);
    }
    Ok(octets)
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_kapi_octets)]
mod tests {
    use super::*;

    #[test]
    fn new_octets_are_zero() -> Result {
        for len in [0, 1, 7, 512, 4096, 65_537] {
            // What was there before is not.
            let used = KVec::from_elem(0xff_u8, len, GFP_KERNEL)?;
            drop(used);
            let octets = zeroed(len, GFP_KERNEL)?;
            assert_eq!(octets.len(), len);
            assert!(octets.iter().all(|octet| *octet == 0));
        }
        Ok(())
    }
}
