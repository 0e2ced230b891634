// SPDX-License-Identifier: GPL-2.0

//! A queue of fixed capacity whose items can be looked at and changed in place.

/// First-in, first-out queue of at most `N` items, without allocation.
///
/// # Invariants
///
/// The first `len` slots are occupied, the others are not; `len <= N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fifo<T: Copy, const N: usize> {
    slots: [Option<T>; N],
    len: usize,
}

impl<T: Copy, const N: usize> Fifo<T, N> {
    /// An empty queue.
    pub(crate) const fn new() -> Self {
        Self {
            slots: [None; N],
            len: 0,
        }
    }

    /// Number of items.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no item.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item behind all others; `false` if there is no room.
    pub(crate) fn push(&mut self, item: T) -> bool {
        match self.slots.get_mut(self.len) {
            Some(slot) => {
                *slot = Some(item);
                self.len = self.len.saturating_add(1);
                true
            }
            None => false,
        }
    }

    /// Takes the oldest item. Costs a move of the others, which are few.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let first = self.slots.first_mut()?.take()?;
        self.slots.rotate_left(1);
        self.len = self.len.saturating_sub(1);
        Some(first)
    }

    /// The oldest item.
    pub(crate) fn front(&self) -> Option<&T> {
        self.slots.first()?.as_ref()
    }

    /// The oldest item, to change it.
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.slots.first_mut()?.as_mut()
    }

    /// The newest item.
    pub(crate) fn back(&self) -> Option<&T> {
        self.slots.get(self.len.checked_sub(1)?)?.as_ref()
    }

    /// The newest item, to change it.
    pub(crate) fn back_mut(&mut self) -> Option<&mut T> {
        self.slots.get_mut(self.len.checked_sub(1)?)?.as_mut()
    }

    /// Takes the newest item.
    pub(crate) fn pop_back(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        self.len = last;
        self.slots.get_mut(last)?.take()
    }

    /// All items, the oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Drops all items.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_sdp_fifo))]
mod tests {
    use super::*;

    #[test]
    fn items_leave_in_order_at_both_ends() {
        let mut fifo = Fifo::<u32, 3>::new();
        assert!((1..=3).all(|item| fifo.push(item)));
        assert!(!fifo.push(4));
        assert_eq!((fifo.front(), fifo.back()), (Some(&1), Some(&3)));
        assert_eq!(fifo.pop(), Some(1));
        assert_eq!(fifo.pop_back(), Some(3));
        assert!(fifo.push(5));
        assert!(fifo.iter().eq(&[2, 5]));
        if let Some(front) = fifo.front_mut() {
            *front = 7;
        }
        if let Some(back) = fifo.back_mut() {
            *back = 8;
        }
        assert_eq!(
            (fifo.pop(), fifo.pop(), fifo.pop()),
            (Some(7), Some(8), None)
        );
        assert!(fifo.is_empty());
    }
}
