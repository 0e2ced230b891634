// SPDX-License-Identifier: GPL-2.0

//! When received bytes came: the software time stamps of SO_TIMESTAMP and SO_TIMESTAMPING.
//!
//! TCP has a time for each packet; here the unit is the message that announced the bytes. A bounded
//! number of messages is kept apart. Beyond it the two oldest count as one, which came when the
//! later of them did.

/// Messages that are kept apart.
const MAX_MARKS: usize = 8;

/// Bytes that came with one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ArrivalMark {
    /// Position of the first.
    start: u64,
    /// Position behind the last.
    end: u64,
    /// Wall-clock time, in nanoseconds since 1970.
    time: u64,
}

/// The times at which unread bytes came.
///
/// # Invariants
///
/// `count` is at most [`MAX_MARKS`]; the marks before it are in the order of their positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals {
    marks: [ArrivalMark; MAX_MARKS],
    count: usize,
}

impl Arrivals {
    fn marks(&self) -> &[ArrivalMark] {
        self.marks.get(..self.count).unwrap_or(&[])
    }

    /// Notes that the bytes from `start` to `end` came at `time`. What lies before `read` is
    /// forgotten.
    pub(crate) fn note(&mut self, read: u64, start: u64, end: u64, time: u64) {
        if start >= end {
            return;
        }
        let stale = self.marks().iter().take_while(|mark| mark.end <= read);
        let stale = stale.count();
        self.marks.rotate_left(stale);
        // INVARIANT: No more than there were; the order is kept.
        self.count = self.count.saturating_sub(stale);
        if self.count == MAX_MARKS {
            let [oldest, next, ..] = &mut self.marks;
            next.start = oldest.start;
            self.marks.rotate_left(1);
            // INVARIANT: One less; the order is kept.
            self.count = MAX_MARKS.saturating_sub(1);
        }
        if let Some(place) = self.marks.get_mut(self.count) {
            *place = ArrivalMark { start, end, time };
            // INVARIANT: The place was there, and the bytes are later than all others.
            self.count = self.count.saturating_add(1);
        }
    }

    /// When the byte at `position` came, if that was noted.
    pub(crate) fn time_of(&self, position: u64) -> Option<u64> {
        let mark = self.marks().iter().find(|mark| position < mark.end)?;
        (mark.start <= position).then_some(mark.time)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_stream_arrivals))]
mod tests {
    use super::*;

    #[test]
    fn each_message_has_its_time() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.time_of(0), None);
        arrivals.note(0, 10, 20, 100);
        arrivals.note(0, 20, 20, 150);
        arrivals.note(0, 20, 21, 200);
        assert_eq!(arrivals.time_of(9), None);
        assert_eq!(arrivals.time_of(10), Some(100));
        assert_eq!(arrivals.time_of(19), Some(100));
        assert_eq!(arrivals.time_of(20), Some(200));
        assert_eq!(arrivals.time_of(21), None);
    }

    #[test]
    fn bytes_without_a_time_between_have_none() {
        let mut arrivals = Arrivals::default();
        arrivals.note(0, 0, 5, 100);
        arrivals.note(0, 8, 9, 200);
        assert_eq!(arrivals.time_of(4), Some(100));
        assert_eq!(arrivals.time_of(6), None);
        assert_eq!(arrivals.time_of(8), Some(200));
    }

    #[test]
    fn oldest_messages_become_one() {
        let mut arrivals = Arrivals::default();
        for n in 0..20 {
            arrivals.note(0, n, n + 1, n + 100);
        }
        assert_eq!(arrivals.time_of(0), Some(112));
        assert_eq!(arrivals.time_of(12), Some(112));
        assert_eq!(arrivals.time_of(13), Some(113));
        assert_eq!(arrivals.time_of(19), Some(119));
    }

    #[test]
    fn read_bytes_are_forgotten() {
        let mut arrivals = Arrivals::default();
        for n in 0..100 {
            arrivals.note(n, n, n + 1, n);
            assert_eq!(arrivals.time_of(n), Some(n));
        }
        assert_eq!(arrivals.marks().len(), 1);
    }
}
