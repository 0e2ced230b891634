// SPDX-License-Identifier: GPL-2.0

//! Which requests lend their octets to a peer of the same kernel (RNIC-DIR-11).
//!
//! A peer copies the octets of a run of packets from the memory of the request, which belongs to the
//! program again as soon as the request completes. So a loan ends there, whatever became of the run: it
//! may wait in a queue of the peer still.

use super::work::MsgId;

/// The requests of a send queue that are not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoanBook {
    /// How often the requests began with number 0.
    term: u64,
    /// Number of the first request that is not complete.
    first: u64,
}

/// The octets of a request, as long as it is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoanId {
    term: u64,
    number: u64,
}

impl LoanBook {
    /// That of a queue without requests.
    pub(crate) const fn new() -> Self {
        Self { term: 0, first: 0 }
    }

    /// A request lends its octets.
    pub(crate) const fn lend(&self, msg: MsgId) -> LoanId {
        LoanId {
            term: self.term,
            number: msg.get(),
        }
    }

    /// Whether the octets may be copied now.
    pub(crate) const fn permits(&self, loan: LoanId) -> bool {
        loan.term == self.term && loan.number >= self.first
    }

    /// A request completes, and with it all before it.
    pub(crate) fn complete(&mut self, msg: MsgId) {
        self.first = self.first.max(msg.get().wrapping_add(1));
    }

    /// The queue is reset: no request is left, and the next one has number 0.
    pub(crate) fn restart(&mut self) {
        self.term = self.term.wrapping_add(1);
        self.first = 0;
    }
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_loan))]
mod tests {
    use super::*;

    /// RNIC-DIR-11.
    #[test]
    fn loan_ends_with_its_request() {
        let mut book = LoanBook::new();
        let loans = [0, 1, 2].map(|number| book.lend(MsgId(number)));
        assert!(loans.iter().all(|loan| book.permits(*loan)));
        book.complete(MsgId(1));
        assert_eq!(loans.map(|loan| book.permits(loan)), [false, false, true]);
        // A repetition of a request that is complete lends nothing.
        assert!(!book.permits(book.lend(MsgId(1))));
        book.complete(MsgId(0));
        assert!(!book.permits(loans[1]) && book.permits(loans[2]));
    }

    #[test]
    fn reset_queue_ends_all_loans_and_numbers_begin_again() {
        let mut book = LoanBook::new();
        book.complete(MsgId(4));
        let before = book.lend(MsgId(5));
        book.restart();
        assert!(!book.permits(before));
        assert!(book.permits(book.lend(MsgId(0))));
        // The number is right, the term is not.
        book.restart();
        let now = book.lend(MsgId(5));
        assert!(book.permits(now) && !book.permits(before));
    }
}
