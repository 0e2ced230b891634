// SPDX-License-Identifier: GPL-2.0

//! Where the last urgent byte of a received stream is, by the rules of TCP: only the last mark counts.
//!
//! Out of band, the byte is consumed as soon as it is the next one: the engine has copied it when it
//! came. For the application the mark stays where it was.

use super::{
    events::Fetch,
    positions::distance, //
};

/// An urgent byte that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReadMark {
    /// Its position.
    at: u64,
    /// The application has fetched the byte.
    fetched: bool,
    /// The byte was taken out of the stream, which goes on behind it.
    passed: bool,
}

/// The urgent byte as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UrgentReader {
    /// Urgent data is announced and has not come.
    pending: bool,
    /// The mark, until reading has passed it.
    mark: Option<ReadMark>,
    /// Urgent bytes are part of the stream (SO_OOBINLINE).
    inline: bool,
}

impl UrgentReader {
    /// No urgent data so far.
    pub(crate) const NONE: Self = Self {
        pending: false,
        mark: None,
        inline: false,
    };

    /// Urgent data is announced. A mark that was not reached is forgotten, and its byte stays in the
    /// stream, as in `tcp_check_urg()` of Linux. Returns whether that is new.
    pub(crate) fn announce(&mut self) -> bool {
        self.mark = None;
        !core::mem::replace(&mut self.pending, true)
    }

    /// The announcement was wrong.
    pub(crate) fn withdraw(&mut self) {
        self.pending = false;
    }

    /// The byte at `at` has come and is urgent, while the reader is at `next`. Returns whether it was
    /// announced, or `None` if the mark is known or read already.
    pub(crate) fn present(&mut self, at: u64, next: u64) -> Option<bool> {
        let was_pending = core::mem::take(&mut self.pending);
        if at < next || self.mark.is_some_and(|mark| mark.at >= at) {
            return None;
        }
        self.mark = Some(ReadMark {
            at,
            fetched: false,
            passed: false,
        });
        Some(was_pending)
    }

    /// The reader has come to `next`.
    pub(crate) fn advance(&mut self, next: u64) {
        self.mark = self.mark.filter(|mark| mark.at >= next);
    }

    /// Whether the byte at `next` has to be taken out of the stream now. Said once.
    pub(crate) fn takes_out(&mut self, next: u64) -> bool {
        match self.mark.as_mut() {
            Some(mark) if !self.inline && mark.at == next && !mark.passed => {
                mark.passed = true;
                true
            }
            _ => false,
        }
    }

    /// Sets whether urgent bytes are part of the stream.
    pub(crate) fn set_inline(&mut self, inline: bool) {
        self.inline = inline;
    }

    /// Whether they are.
    pub(crate) const fn is_inline(&self) -> bool {
        self.inline
    }

    /// The byte in front of the reader was taken out of the stream, and the reader is at the mark.
    pub(crate) fn is_passed(&self) -> bool {
        self.mark.is_some_and(|mark| mark.passed)
    }

    /// Whether the reader, at `next`, stands at the mark (SIOCATMARK).
    pub(crate) fn is_at_mark(&self, next: u64) -> bool {
        self.mark.is_some_and(|mark| mark.passed || mark.at == next)
    }

    /// Bytes from the one after `skip` up to the mark, for a reader at `next`; `None` without one.
    pub(crate) fn until_mark(&self, next: u64, skip: u32) -> Option<u32> {
        let from = next.saturating_add(u64::from(skip));
        match self.mark {
            Some(mark) if mark.passed => (skip == 0).then_some(0),
            Some(mark) if mark.at >= from => Some(distance(from, mark.at)),
            _ => None,
        }
    }

    /// The reader goes on behind the mark it stands at.
    pub(crate) fn leave_mark(&mut self) {
        self.mark = self.mark.filter(|mark| !mark.passed);
    }

    /// Whether the application can fetch the urgent byte; with `take` it does.
    pub(crate) fn fetch(&mut self, take: bool) -> Fetch {
        match self.mark.as_mut() {
            _ if self.inline => Fetch::Nothing,
            Some(mark) if mark.fetched => Fetch::Nothing,
            Some(mark) => {
                mark.fetched = take;
                Fetch::Here
            }
            None if self.pending => Fetch::NotYet,
            None => Fetch::Nothing,
        }
    }

    /// Whether poll reports POLLPRI.
    pub(crate) fn is_urgent(&self) -> bool {
        self.mark.is_some_and(|mark| !mark.fetched)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_stream_urgent))]
mod tests {
    use super::*;

    #[test]
    fn byte_is_fetched_once() {
        let mut urgent = UrgentReader::NONE;
        assert_eq!(urgent.fetch(true), Fetch::Nothing);
        assert!(urgent.announce());
        assert!(!urgent.announce());
        assert_eq!(urgent.fetch(true), Fetch::NotYet);
        assert_eq!(urgent.present(2, 0), Some(true));
        assert!(urgent.is_urgent());
        assert_eq!(urgent.fetch(false), Fetch::Here);
        assert_eq!(urgent.fetch(true), Fetch::Here);
        assert_eq!(urgent.fetch(true), Fetch::Nothing);
        assert!(!urgent.is_urgent());
    }

    #[test]
    fn reader_stops_at_the_mark_and_the_byte_is_skipped() {
        let mut urgent = UrgentReader::NONE;
        assert_eq!(urgent.present(2, 0), Some(false));
        assert_eq!(urgent.until_mark(0, 0), Some(2));
        assert_eq!(urgent.until_mark(0, 1), Some(1));
        assert!(!urgent.takes_out(0));
        urgent.advance(2);
        assert!(urgent.is_at_mark(2));
        assert!(urgent.takes_out(2));
        assert!(!urgent.takes_out(2));
        assert!(urgent.is_passed() && urgent.is_at_mark(3));
        assert_eq!(urgent.until_mark(3, 0), Some(0));
        urgent.leave_mark();
        assert!(!urgent.is_at_mark(3));
        assert_eq!(urgent.until_mark(3, 0), None);
    }

    #[test]
    fn byte_in_line_stays_in_the_stream() {
        let mut urgent = UrgentReader::NONE;
        urgent.set_inline(true);
        assert_eq!(urgent.present(2, 0), Some(false));
        assert!(!urgent.takes_out(2));
        assert_eq!(urgent.fetch(true), Fetch::Nothing);
        assert!(urgent.is_at_mark(2));
        urgent.advance(3);
        assert!(!urgent.is_at_mark(3) && !urgent.is_urgent());
    }

    #[test]
    fn later_mark_replaces_the_one_before() {
        let mut urgent = UrgentReader::NONE;
        assert_eq!(urgent.present(2, 0), Some(false));
        assert_eq!(urgent.present(2, 0), None);
        assert!(urgent.announce());
        assert_eq!(urgent.until_mark(0, 0), None);
        assert_eq!(urgent.present(5, 0), Some(true));
        assert_eq!(urgent.until_mark(0, 0), Some(5));
        assert_eq!(urgent.present(4, 5), None);
    }
}
