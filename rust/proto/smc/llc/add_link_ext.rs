// SPDX-License-Identifier: GPL-2.0

//! What follows ADD LINK in SMC-Rv2: the keys that version 1 sends in ADD LINK CONTINUATION.

use super::{
    add_link_cont::RTokenPair,
    msg::{
        Layout,
        MESSAGE_BYTES, //
    },
};
use crate::proto::{
    base::verbs::{
        Gid,
        RKey, //
    },
    smc::wire::RToken, //
};

/// Where the number of pairs is, behind the first 44 octets.
const COUNT_AT: usize = 26;

/// Octets before the first pair.
const HEAD_BYTES: usize = 28;

/// Octets of a pair.
const PAIR_BYTES: usize = 16;

/// Most pairs.
const MAX_PAIRS: usize = 255;

/// Octets of the longest message.
pub(crate) const MAX_BYTES: usize = 4152;

/// Flag: both ends are on one network, there is no router in between.
const DIRECT: u8 = 0x80;

/// Reads a pair.
fn pair(octets: &[u8]) -> Option<RTokenPair> {
    let (reference, rest) = octets.split_first_chunk::<4>()?;
    let (rkey, rest) = rest.split_first_chunk::<4>()?;
    let vaddr = rest.first_chunk::<8>()?;
    Some(RTokenPair {
        reference: RKey::new(u32::from_be_bytes(*reference)),
        token: RToken {
            rkey: RKey::new(u32::from_be_bytes(*rkey)),
            vaddr: u64::from_be_bytes(*vaddr),
        },
    })
}

/// The pairs in a whole ADD LINK. Linux states more than there are when buffers are not in use
/// (DEP-8): what is there counts.
pub(super) fn pairs(octets: &[u8], layout: Layout) -> impl Iterator<Item = RTokenPair> + '_ {
    let behind = octets.get(MESSAGE_BYTES..).unwrap_or_default();
    let stated = behind
        .get(COUNT_AT..)
        .and_then(|at| at.first_chunk::<2>())
        .map_or(0, |count| layout.value(*count));
    let pairs = behind.get(HEAD_BYTES..).unwrap_or_default();
    pairs
        .chunks_exact(PAIR_BYTES)
        .take(usize::from(stated).min(MAX_PAIRS))
        .filter_map(pair)
}

/// Writes what follows the first 44 octets to `buf`, which begins there. Gives its length; `None`
/// if there is no room.
pub(super) fn emit(
    direct: bool,
    gid: Gid,
    pairs: impl Iterator<Item = RTokenPair>,
    layout: Layout,
    buf: &mut [u8],
) -> Option<usize> {
    let (head, places) = buf.split_at_mut_checked(HEAD_BYTES)?;
    head.fill(0);
    *head.first_mut()? = if direct { DIRECT } else { 0 };
    head.get_mut(2..18)?.copy_from_slice(&gid.get());
    let mut count = 0_u16;
    let mut places = places.chunks_exact_mut(PAIR_BYTES);
    for pair in pairs.take(MAX_PAIRS) {
        let place = places.next()?;
        let (reference, rest) = place.split_at_mut_checked(4)?;
        let (rkey, vaddr) = rest.split_at_mut_checked(4)?;
        reference.copy_from_slice(&pair.reference.get().to_be_bytes());
        rkey.copy_from_slice(&pair.token.rkey.get().to_be_bytes());
        vaddr.copy_from_slice(&pair.token.vaddr.to_be_bytes());
        count = count.checked_add(1)?;
    }
    head.get_mut(COUNT_AT..)?
        .copy_from_slice(&layout.number(count));
    usize::from(count)
        .checked_mul(PAIR_BYTES)?
        .checked_add(HEAD_BYTES)
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_llc_add_link_ext))]
mod tests {
    use super::*;

    /// A pair.
    fn sample(number: u32) -> RTokenPair {
        RTokenPair {
            reference: RKey::new(number),
            token: RToken {
                rkey: RKey::new(number | 0x1000_0000),
                vaddr: u64::from(number) << 32,
            },
        }
    }

    #[test]
    fn pairs_survive() {
        for layout in [Layout::V2, Layout::V2Little] {
            let mut buf = [0; 44 + 28 + 3 * 16 + 5];
            let gid = Gid::new([7; 16]);
            let len = emit(true, gid, (0..3).map(sample), layout, &mut buf[44..]);
            assert_eq!(len, Some(76));
            assert_eq!(buf[44], 0x80);
            assert!(pairs(&buf, layout).eq((0..3).map(sample)));
            // Where there is less than was stated, that counts.
            assert!(pairs(&buf[..44 + 28 + 40], layout).eq((0..2).map(sample)));
            assert_eq!(pairs(&buf[..44 + 27], layout).count(), 0);
            assert_eq!(pairs(&buf[..44], layout).count(), 0);
        }
    }

    #[test]
    fn room_is_needed() {
        let mut buf = [0; 28 + 16];
        let gid = Gid::new([7; 16]);
        let mut written = |count, bytes: usize| {
            let pairs = (0..count).map(sample);
            emit(false, gid, pairs, Layout::V2, &mut buf[..bytes])
        };
        assert_eq!(written(0, 28), Some(28));
        assert_eq!(written(0, 27), None);
        assert_eq!(written(1, 44), Some(44));
        assert_eq!(written(1, 43), None);
        assert_eq!(written(2, 44), None);
    }
}
