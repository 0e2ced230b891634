// SPDX-License-Identifier: GPL-2.0

//! Tests of the addresses of a port.

use super::{
    unless_skipped,
    with_bench, //
};
use kernel::prelude::*;

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_gids)]
mod tests {
    use super::*;

    #[test]
    fn used_places_are_those_that_a_look_at_each_finds() -> Result {
        let result = with_bench(false, |bench| {
            let (device, port) = (&bench.device, bench.port);
            let mut each = KVec::new();
            for place in 0..device.gid_entries(port) {
                if device.gid_entry(port, place).is_some() {
                    each.push(place, GFP_KERNEL)?;
                }
            }
            Ok((device.used_gids(port), each, device.used_gids(u32::MAX)))
        });
        let (used, each, none) = unless_skipped!(result);
        assert!(each.contains(&0) && each.len() < 64);
        assert_eq!(used.as_slice(), each.as_slice());
        assert_eq!(none.len(), 0);
        Ok(())
    }
}
