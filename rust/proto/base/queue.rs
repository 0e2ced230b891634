// SPDX-License-Identifier: GPL-2.0

//! A queue of fixed capacity, for the actions and messages the state machines have yet to hand out.

/// First-in, first-out queue of at most `N` items, without allocation.
///
/// # Invariants
///
/// Exactly the `len` slots from `head` on, modulo `N`, are occupied; `head < N` unless `N` is 0,
/// and `len <= N`.
#[derive(Clone, Debug)]
pub(crate) struct ArrayQueue<T, const N: usize> {
    slots: [Option<T>; N],
    head: usize,
    len: usize,
}

impl<T, const N: usize> ArrayQueue<T, N> {
    /// Makes an empty queue.
    pub(crate) const fn new() -> Self {
        Self {
            slots: [const { None }; N],
            head: 0,
            len: 0,
        }
    }

    /// The slot `offset` behind the head. `None` only if there are no slots at all.
    fn slot(&self, offset: usize) -> Option<usize> {
        // No overflow: both are at most `N`, and no array of items has half of all addresses.
        self.head.wrapping_add(offset).checked_rem(N)
    }

    /// Adds `item` behind all others, or gives it back when the queue is full.
    pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
        if self.is_full() {
            return Err(item);
        }
        match self.slot(self.len).and_then(|at| self.slots.get_mut(at)) {
            Some(slot) => {
                *slot = Some(item);
                self.len = self.len.saturating_add(1);
                Ok(())
            }
            None => Err(item),
        }
    }

    /// Takes the oldest item.
    #[must_use]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = self.slots.get_mut(self.head)?.take()?;
        self.head = self.slot(1)?;
        self.len = self.len.saturating_sub(1);
        Some(item)
    }

    /// The oldest item.
    pub(crate) fn front(&self) -> Option<&T> {
        self.slots.get(self.head)?.as_ref()
    }

    /// Whether there is no item.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there is no room.
    pub(crate) const fn is_full(&self) -> bool {
        self.len >= N
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_queue))]
mod tests {
    use super::*;

    #[test]
    fn items_leave_in_the_order_they_came() {
        let mut queue = ArrayQueue::<u32, 3>::new();
        // The head moves through all slots, at all fill levels.
        let (mut next_in, mut next_out) = (0, 0);
        for round in 0..12 {
            for _ in 0..(1 + round % 3) {
                assert_eq!(queue.push(next_in), Ok(()));
                next_in += 1;
            }
            while let Some(item) = queue.pop() {
                assert_eq!(item, next_out);
                next_out += 1;
            }
            assert_eq!(next_in, next_out);
        }
    }

    #[test]
    fn full_queue_gives_the_item_back() {
        let mut queue = ArrayQueue::<u32, 2>::new();
        assert_eq!(queue.push(1), Ok(()));
        assert_eq!(queue.push(2), Ok(()));
        assert!(queue.is_full());
        assert_eq!(queue.push(3), Err(3));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.push(3), Ok(()));
        assert_eq!(queue.pop(), Some(2));
        assert_eq!(queue.pop(), Some(3));
    }

    #[test]
    fn queue_without_slots_is_empty_and_full() {
        let mut queue = ArrayQueue::<u32, 0>::new();
        assert!(queue.is_empty());
        assert!(queue.is_full());
        assert_eq!(queue.push(1), Err(1));
        assert_eq!(queue.pop(), None);
        assert!(queue.front().is_none());
    }
}
