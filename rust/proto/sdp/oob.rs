// SPDX-License-Identifier: GPL-2.0

//! Urgent data: octets of the stream that are announced ahead and marked, draft 9.5.3 (SDP-OOB-*).

use super::fifo::Fifo;

/// Marks that are open at a time. Another one replaces the newest, as TCP keeps a single one.
const MAX_MARKS: usize = 4;

/// Octets between an announcement and the octet, at most (SDP-OOB-07, SDP-CONST-13).
const REACH: u64 = 65535;

/// An urgent octet that is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SentUrgentMark {
    /// Stream position of the octet (SDP-OOB-02).
    at: u64,
    /// OOB_PEND was sent for it (SDP-OOB-05).
    is_announced: bool,
}

/// The marks of our stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct UrgentTx {
    marks: Fifo<SentUrgentMark, MAX_MARKS>,
}

impl UrgentTx {
    pub(super) const fn new() -> Self {
        Self { marks: Fifo::new() }
    }

    /// The octet at this position is urgent.
    pub(super) fn mark(&mut self, at: u64) {
        let mark = SentUrgentMark {
            at,
            is_announced: false,
        };
        if self.marks.push(mark) {
            return;
        }
        if let Some(last) = self.marks.back_mut() {
            // Announced already: the announcement then stands for the later octet, which TCP
            // would do too.
            last.at = at;
        }
    }

    /// Whether the next message announces a mark: all data that it or an earlier message has sent
    /// or advertised begins at `frontier` or before (SDP-OOB-07, AMB-60).
    pub(super) fn is_due(&self, frontier: u64) -> bool {
        self.next().is_some_and(|mark| {
            let ahead = mark.at.saturating_sub(frontier);
            ahead <= REACH
        })
    }

    /// The oldest mark that is not announced.
    fn next(&self) -> Option<&SentUrgentMark> {
        self.marks.iter().find(|mark| !mark.is_announced)
    }

    /// A message with OOB_PEND was sent: it is for the oldest mark (SDP-OOB-12).
    pub(super) fn on_announced(&mut self) {
        let mut marks = Fifo::new();
        let mut is_done = false;
        for mark in self.marks.iter() {
            let mut mark = *mark;
            if !mark.is_announced && !is_done {
                mark.is_announced = true;
                is_done = true;
            }
            let _ = marks.push(mark);
        }
        self.marks = marks;
    }

    /// Position of the next urgent octet at or behind `from`.
    pub(super) fn next_at(&self, from: u64) -> Option<u64> {
        self.marks.iter().map(|mark| mark.at).find(|&at| at >= from)
    }

    /// Data up to `to` was sent. Whether the last octet was urgent (SDP-OOB-08).
    pub(super) fn on_data(&mut self, to: u64) -> bool {
        let is_marked = self
            .marks
            .front()
            .is_some_and(|mark| mark.at.checked_add(1) == Some(to));
        if is_marked {
            let _ = self.marks.pop();
        }
        is_marked
    }

    /// The stream ends at `end`, before what was marked behind.
    pub(super) fn cut(&mut self, end: u64) {
        while self.marks.back().is_some_and(|mark| mark.at >= end) {
            let _ = self.marks.pop_back();
        }
    }
}

/// Announcements of the peer whose octet has not come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct UrgentRx {
    open: u32,
}

impl UrgentRx {
    /// Takes the flags of a message. Whether urgent data is news to the application
    /// (SDP-OOB-09, AMB-59).
    pub(super) fn handle_flags(&mut self, pending: bool, present: bool) -> bool {
        let is_news = pending || present && self.open == 0;
        if pending {
            self.open = self.open.saturating_add(1);
        }
        if present {
            self.open = self.open.saturating_sub(1);
        }
        is_news
    }

    /// Whether an octet is announced and has not come. An urgent octet that comes meanwhile counts as
    /// data, since TCP knows the last mark only.
    pub(super) const fn is_open(&self) -> bool {
        self.open > 0
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_sdp_oob))]
mod tests {
    use super::*;

    // SDP-OOB-03, SDP-OOB-05, SDP-OOB-07, SDP-OOB-12, TST-231, TST-232.
    #[test]
    fn mark_is_announced_once_and_within_reach() {
        let mut urgent = UrgentTx::new();
        assert!(!urgent.is_due(0));
        urgent.mark(70_000);
        urgent.mark(70_001);
        assert!(!urgent.is_due(70_000 - 65_536));
        assert!(urgent.is_due(70_000 - 65_535));
        urgent.on_announced();
        assert!(!urgent.is_due(70_001 - 65_536));
        assert!(urgent.is_due(70_001 - 65_535));
        urgent.on_announced();
        assert!(!urgent.is_due(70_001));
    }

    // SDP-OOB-02, SDP-OOB-08, SDP-OOB-13.
    #[test]
    fn marked_octet_ends_its_message() {
        let mut urgent = UrgentTx::new();
        urgent.mark(9);
        assert_eq!(urgent.next_at(0), Some(9));
        assert!(!urgent.on_data(9));
        assert_eq!(urgent.next_at(9), Some(9));
        assert!(urgent.on_data(10));
        assert_eq!(urgent.next_at(10), None);
    }

    #[test]
    fn fifth_mark_replaces_the_newest() {
        let mut urgent = UrgentTx::new();
        for at in 0..5 {
            urgent.mark(at * 10);
        }
        assert_eq!(urgent.next_at(21), Some(40));
        urgent.cut(40);
        assert_eq!(urgent.next_at(11), Some(20));
        assert_eq!(urgent.next_at(21), None);
    }

    // SDP-OOB-09, AMB-59.
    #[test]
    fn each_announcement_is_news_once() {
        let mut urgent = UrgentRx::default();
        assert!(urgent.handle_flags(true, false));
        assert!(!urgent.handle_flags(false, true));
        assert!(urgent.handle_flags(false, true));
        assert!(urgent.handle_flags(true, true));
        assert!(!urgent.handle_flags(false, false));
        assert!(urgent.handle_flags(true, false));
        // The older mark's octet, and a new announcement.
        assert!(urgent.handle_flags(true, true));
        assert!(!urgent.handle_flags(false, true));
    }
}
