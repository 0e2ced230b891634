// SPDX-License-Identifier: GPL-2.0

//! How large the buffers of a connection are that asks for no size.
//!
//! A connection that is one of few gets the whole default: with less, a bulk transfer stands still
//! while the window update is under way, and each side is woken for each part of it. One of many
//! gets less, as together they have enough under way, and most of many are idle. RMBs grow in number
//! of elements as elements get smaller, so that one takes about as much memory as the next, and a new
//! one is seldom needed.

use super::wire::BufSize;

/// The most memory of an RMB that has several elements.
const RMB_BYTES: u32 = 1 << 20;

/// One row of the buffer sizing table.
struct SizingStep {
    /// The row is for fewer other connections than this.
    before: usize,
    /// The default size is halved this number of times.
    halvings: u8,
    /// Most elements of a new RMB.
    elements: u32,
}

const STEPS: [SizingStep; 3] = [
    SizingStep {
        before: 4,
        halvings: 0,
        elements: 2,
    },
    SizingStep {
        before: 16,
        halvings: 2,
        elements: 12,
    },
    SizingStep {
        before: 64,
        halvings: 3,
        elements: 24,
    },
];

/// The row for all further connections.
const REST: SizingStep = SizingStep {
    before: usize::MAX,
    halvings: 4,
    elements: 48,
};

/// The row for a connection that has `others` beside it in its link group.
fn step(others: usize) -> &'static SizingStep {
    let found = STEPS.iter().find(|step| others < step.before);
    found.unwrap_or(&REST)
}

/// The size that a buffer should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WantedSize {
    /// The user has set it.
    Exactly(BufSize),
    /// The default; one of many connections gets less.
    Default(BufSize),
}

impl WantedSize {
    /// Rounds the octets that the user set, which the socket layer stores doubled, or else `default`
    /// octets.
    pub(crate) fn of(user: Option<usize>, default: u32) -> Self {
        match user {
            Some(doubled) => {
                let bytes = u32::try_from(doubled / 2).unwrap_or(u32::MAX);
                Self::Exactly(BufSize::for_bytes(bytes))
            }
            None => Self::Default(BufSize::for_bytes(default)),
        }
    }

    /// The size of a buffer beside `others` connections of the group, if these share their memory.
    pub(crate) fn size(self, shares: bool, others: usize) -> BufSize {
        match self {
            Self::Default(size) if shares => {
                let halvings = step(others).halvings;
                let bytes = size.bytes().checked_shr(halvings.into()).unwrap_or(0);
                BufSize::for_bytes(bytes)
            }
            Self::Default(size) | Self::Exactly(size) => size,
        }
    }

    /// Whether a buffer that is free already, and larger than `size`, serves as well.
    pub(crate) fn accepts(self, free: BufSize, size: BufSize) -> bool {
        match self {
            Self::Default(most) => free > size && free <= most,
            Self::Exactly(_) => false,
        }
    }
}

/// Number of elements of size `size` in the next RMB, beside `others` connections of the group.
pub(crate) fn elements(size: BufSize, others: usize) -> usize {
    let most = RMB_BYTES.checked_div(size.bytes()).unwrap_or(1);
    let elements = core::cmp::min(step(others).elements, core::cmp::max(most, 1));
    usize::try_from(elements).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: BufSize = BufSize::for_bytes(256 << 10);

    fn size(size: BufSize, others: usize) -> BufSize {
        WantedSize::Default(size).size(true, others)
    }

    #[test]
    fn size_set_by_the_user_is_kept_among_many_connections() {
        let wanted = WantedSize::of(Some(2 * (64 << 10)), 128 << 10);
        assert_eq!(wanted, WantedSize::Exactly(BufSize::for_bytes(64 << 10)));
        assert_eq!(wanted.size(true, 200).bytes(), 64 << 10);
        assert_eq!(WantedSize::Default(DEFAULT).size(false, 200), DEFAULT);
    }

    #[test]
    fn larger_free_buffer_serves_a_default_up_to_its_whole_size() {
        let (small, large) = (BufSize::for_bytes(16 << 10), BufSize::for_bytes(512 << 10));
        let wanted = WantedSize::Default(DEFAULT);
        assert!(wanted.accepts(DEFAULT, small));
        assert!(!wanted.accepts(small, small) && !wanted.accepts(large, small));
        assert!(!WantedSize::Exactly(small).accepts(DEFAULT, small));
    }

    #[test]
    fn size_shrinks_with_connections_to_the_smallest() {
        let sizes =
            [0, 3, 4, 15, 16, 63, 64, 254].map(|others| size(DEFAULT, others).bytes() >> 10);
        assert_eq!(sizes, [256, 256, 64, 64, 32, 32, 16, 16]);
        assert_eq!(size(BufSize::MIN, 200), BufSize::MIN);
        assert_eq!(size(BufSize::MAX, 200).bytes(), 256 << 10);
    }

    #[test]
    fn rmbs_are_of_bounded_size() {
        for code in 0..=5 {
            let size = BufSize::from_code(code).unwrap_or(BufSize::MIN);
            for others in 0..300 {
                let elements = elements(size, others);
                let bytes = elements as u64 * u64::from(size.bytes());
                assert!((1..=48).contains(&elements) && bytes <= u64::from(RMB_BYTES));
            }
        }
        assert_eq!(elements(DEFAULT, 0), 2);
    }

    // 255 connections of a group together have less than an eighth of what the default would be.
    #[test]
    fn a_full_group_is_bounded() {
        let sum: u32 = (0..255).map(|others| size(DEFAULT, others).bytes()).sum();
        assert!(sum < 255 * DEFAULT.bytes() / 8, "{sum}");
    }
}
