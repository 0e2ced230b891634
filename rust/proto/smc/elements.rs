// SPDX-License-Identifier: GPL-2.0

//! Which elements of an RMB are free, in use, or resting (RMB-22, RMB-23).
//!
//! An element rests when its connection ended without a word of the peer, which may still write to
//! it. Each rests for a time of its own, so that one that comes to rest does not keep the others.

use crate::proto::base::time::{
    Duration,
    Instant, //
};

/// No RMB has more elements (RMB-02).
pub(crate) const MAX_ELEMENTS: usize = 64;

/// How long an element rests.
pub(crate) const REST_TIME: Duration = Duration::from_secs(10);

/// The elements of one RMB.
#[derive(Clone, Debug)]
pub(crate) struct Elements {
    /// Number of elements, at most [`MAX_ELEMENTS`].
    count: usize,
    /// Bit `n` is set while element `n` is in use, or rests.
    used: u64,
    /// Those of them that rest.
    resting: u64,
    /// Since when, for each that rests.
    since: [Instant; MAX_ELEMENTS],
    /// Elements to be wiped before they are used again.
    dirty: u64,
    /// An element was taken since [`Self::was_idle`] was asked last.
    taken: bool,
}

/// The bit of an element; none for one that cannot be.
fn bit(element: usize) -> u64 {
    let shift = u32::try_from(element).unwrap_or(u32::MAX);
    1u64.checked_shl(shift).unwrap_or(0)
}

impl Elements {
    /// So many free elements, at most [`MAX_ELEMENTS`].
    pub(crate) fn new(count: usize) -> Self {
        Self {
            count: core::cmp::min(count, MAX_ELEMENTS),
            used: 0,
            resting: 0,
            since: [Instant::from_nanos(0); MAX_ELEMENTS],
            dirty: 0,
            taken: false,
        }
    }

    /// Frees the elements that have rested.
    fn wake(&mut self, now: Instant) {
        if self.resting == 0 {
            return;
        }
        for (element, since) in self.since.iter().enumerate() {
            let bit = bit(element);
            if self.resting & bit != 0 && now.saturating_since(*since) >= REST_TIME {
                self.resting &= !bit;
                self.used &= !bit;
                self.dirty |= bit;
            }
        }
    }

    /// Takes a free element: its number, and whether it must be wiped first.
    pub(crate) fn take(&mut self, now: Instant) -> Option<(usize, bool)> {
        self.wake(now);
        let free = usize::try_from(self.used.trailing_ones()).ok()?;
        let element = Some(free).filter(|free| *free < self.count)?;
        let bit = bit(element);
        let dirty = self.dirty & bit != 0;
        self.used |= bit;
        self.dirty &= !bit;
        self.taken = true;
        Some((element, dirty))
    }

    /// An element is free and wiped.
    pub(crate) fn give(&mut self, element: usize) {
        self.used &= !bit(element);
    }

    /// An element comes to rest.
    pub(crate) fn rest(&mut self, element: usize, now: Instant) {
        if let Some(since) = self.since.get_mut(element) {
            *since = now;
            self.resting |= bit(element);
        }
    }

    /// How many elements rest.
    pub(crate) fn resting(&mut self, now: Instant) -> u32 {
        self.wake(now);
        self.resting.count_ones()
    }

    /// Whether all elements are free, and none was taken since this was asked last.
    pub(crate) fn was_idle(&mut self, now: Instant) -> bool {
        self.wake(now);
        let taken = core::mem::take(&mut self.taken);
        self.used == 0 && !taken
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_elements))]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000_000_000_000);

    fn after(seconds: u64) -> Instant {
        START.saturating_add(Duration::from_secs(seconds))
    }

    // RMB-02.
    #[test]
    fn elements_taken_are_different_and_no_more_than_there_are() {
        let mut elements = Elements::new(3);
        let taken = [0; 4].map(|_| elements.take(START));
        assert_eq!(
            taken,
            [Some((0, false)), Some((1, false)), Some((2, false)), None]
        );
        elements.give(1);
        assert_eq!(elements.take(START), Some((1, false)));
        let mut all = Elements::new(1000);
        for n in 0..MAX_ELEMENTS {
            assert_eq!(all.take(START), Some((n, false)));
        }
        assert_eq!(all.take(START), None);
    }

    // RMB-22, RMB-23.
    #[test]
    fn element_that_rested_is_taken_dirty() {
        let mut elements = Elements::new(1);
        assert_eq!(elements.take(START), Some((0, false)));
        elements.rest(0, START);
        assert_eq!(elements.take(after(9)), None);
        assert_eq!(elements.resting(after(9)), 1);
        assert_eq!(elements.take(after(10)), Some((0, true)));
        assert_eq!(elements.resting(after(10)), 0);
        elements.give(0);
        assert_eq!(elements.take(after(10)), Some((0, false)));
    }

    #[test]
    fn rest_is_not_prolonged_by_that_of_another() {
        let mut elements = Elements::new(3);
        for n in 0..3 {
            assert_eq!(elements.take(START), Some((n, false)));
        }
        elements.rest(0, START);
        elements.rest(1, after(5));
        elements.rest(2, after(9));
        assert_eq!(elements.take(after(9)), None);
        assert_eq!(elements.take(after(10)), Some((0, true)));
        assert_eq!(elements.take(after(14)), None);
        assert_eq!(elements.take(after(15)), Some((1, true)));
        assert_eq!(elements.resting(after(18)), 1);
        assert_eq!(elements.take(after(19)), Some((2, true)));
    }

    #[test]
    fn idle_is_one_that_nothing_used_since_the_last_look() {
        let mut elements = Elements::new(2);
        assert!(elements.was_idle(START));
        let _ = elements.take(START);
        assert!(!elements.was_idle(START));
        elements.give(0);
        assert!(elements.was_idle(START));
        let _ = elements.take(START);
        elements.give(0);
        assert!(!elements.was_idle(START));
        assert!(elements.was_idle(START));
        let _ = elements.take(START);
        elements.rest(0, START);
        assert!(!elements.was_idle(START));
        assert!(!elements.was_idle(after(9)));
        assert!(elements.was_idle(after(10)));
    }
}
