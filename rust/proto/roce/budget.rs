// SPDX-License-Identifier: GPL-2.0

//! How many packets a run of a queue pair sends, and which half sends them (RNIC-RUN-04, RNIC-RDA-12).
//!
//! Requests and replies share the packets of a run. Requests come first, and leave to the replies that are
//! due as many packets as these need, up to half of all. So neither half waits for the end of the other: a
//! long response and requests without end alternate.

use crate::proto::base::verbs::Mtu;

/// Octets of the payload of a run, at most.
const MAX_OCTETS: u32 = 256 << 10;

// The longest packets are no exception.
const _: () = assert!(Mtu::M4096.octets_of(RunBudget::PACKETS) <= MAX_OCTETS);

/// The packets that a run may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunBudget {
    /// Packets of the run.
    most: u32,
    /// Those that are left.
    left: u32,
    /// Those of them that requests leave to replies.
    kept: u32,
    /// Whether requests had no packet left.
    cut: bool,
}

impl RunBudget {
    /// Packets of a run, at most.
    pub(crate) const PACKETS: u32 = 64;

    /// The budget of a run that may send `most` packets, with that many replies due.
    pub(crate) fn new(most: u32, replies: u32) -> Self {
        let most = most.min(Self::PACKETS);
        Self {
            most,
            left: most,
            kept: replies.min(most >> 1),
            cut: false,
        }
    }

    /// Packets that requests may take.
    pub(crate) const fn requests(&self) -> u32 {
        self.left.saturating_sub(self.kept)
    }

    /// No request is sent any longer.
    pub(crate) const fn end_requests(&mut self) {
        self.cut = self.requests() == 0;
        self.kept = 0;
    }

    /// Packets that replies may take.
    pub(crate) const fn replies(&self) -> u32 {
        self.left
    }

    /// Packets are sent.
    pub(crate) const fn take(&mut self, packets: u32) {
        self.left = self.left.saturating_sub(packets);
    }

    /// Whether a packet was sent.
    pub(crate) const fn has_sent(&self) -> bool {
        self.left < self.most
    }

    /// Whether another run may have more to send.
    pub(crate) const fn is_spent(&self) -> bool {
        self.most == Self::PACKETS && (self.cut || self.left == 0)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_budget))]
mod tests {
    use super::*;

    /// Packets of each half in a run with that many of each to send.
    fn run(requests: u32, replies: u32) -> (u32, u32, bool) {
        let mut budget = RunBudget::new(u32::MAX, replies);
        let sent = requests.min(budget.requests());
        budget.take(sent);
        budget.end_requests();
        let replied = replies.min(budget.replies());
        budget.take(replied);
        (sent, replied, budget.is_spent())
    }

    /// RNIC-RUN-04.
    #[test]
    fn run_sends_no_more_than_its_packets() {
        for (requests, replies, sent, replied, more) in [
            (0, 0, 0, 0, false),
            (63, 0, 63, 0, false),
            (64, 0, 64, 0, true),
            (1_000, 0, 64, 0, true),
            (0, 1_000, 0, 64, true),
            (10, 1_000, 10, 54, true),
            (1_000, 10, 54, 10, true),
        ] {
            assert_eq!(run(requests, replies), (sent, replied, more));
        }
    }

    /// RNIC-RUN-04, RNIC-RDA-12.
    #[test]
    fn neither_half_waits_for_the_end_of_the_other() {
        assert_eq!(run(u32::MAX, u32::MAX), (32, 32, true));
        // One acknowledgement does not wait for requests without end.
        assert_eq!(run(u32::MAX, 1), (63, 1, true));
    }

    #[test]
    fn share_that_replies_do_not_take_asks_for_another_run() {
        let mut budget = RunBudget::new(RunBudget::PACKETS, 32);
        budget.take(budget.requests());
        budget.end_requests();
        assert!(budget.is_spent());
    }

    /// RNIC-DIR-01: a packet that proves the way, and none while its proof is under way.
    #[test]
    fn run_of_one_packet_sends_one_and_ends() {
        for (most, packets) in [(1, 1), (0, 0)] {
            let mut budget = RunBudget::new(most, 9);
            assert!(!budget.has_sent());
            budget.take(budget.requests());
            budget.end_requests();
            budget.take(budget.replies());
            assert_eq!(budget.has_sent(), packets > 0);
            assert!(!budget.is_spent());
        }
    }
}
