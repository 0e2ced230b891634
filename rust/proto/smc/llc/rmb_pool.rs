// SPDX-License-Identifier: GPL-2.0

//! When a link group makes another RMB, and when it returns unused ones.
//!
//! Source: RFC 7609 sections 2.1 and 3.5.5.2 (`SMCR-RMB-03`, `SMCR-LLF-65`, `SMCR-LLF-67`).

use super::rtoken::MAX_RMBS;
use crate::proto::base::time::{Duration, Instant};

/// A group with this number of resting elements makes no other RMB. Handshakes that break off leave
/// elements at rest, and a peer can break off any number of them.
const MAX_RESTING: u32 = 64;

/// Time between two searches for unused RMBs. A group returns an RMB that was unused in between.
const RETURN_TIME: Duration = Duration::from_secs(10);

/// Time for which connections are declined instead of announcing another RMB to a peer that has
/// refused one.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// The times that decide over the RMBs of a group.
#[derive(Debug)]
pub(crate) struct RmbPool {
    /// Time of the next search for unused RMBs.
    return_at: Option<Instant>,
    /// Time at which the peer refused an RMB last.
    refused_at: Option<Instant>,
}

impl RmbPool {
    /// No search and no refusal yet.
    pub(crate) const fn new() -> Self {
        Self {
            return_at: None,
            refused_at: None,
        }
    }

    /// Whether the engine must search for unused RMBs now, out of `rmbs`. The first RMB stays.
    pub(crate) fn is_search_due(&mut self, now: Instant, rmbs: usize) -> bool {
        if rmbs < 2 {
            self.return_at = None;
            return false;
        }
        let next = now.saturating_add(RETURN_TIME);
        let is_due = *self.return_at.get_or_insert(next) <= now;
        if is_due {
            self.return_at = Some(next);
        }
        is_due
    }

    /// When to ask [`Self::is_search_due`] again.
    pub(crate) const fn poll_timeout(&self) -> Option<Instant> {
        self.return_at
    }

    /// The peer has refused an RMB.
    pub(crate) fn on_refused(&mut self, now: Instant) {
        self.refused_at = Some(now);
    }

    /// Whether connections may wait for an RMB that is not announced yet.
    pub(crate) fn may_wait(&self, now: Instant, rmbs: usize) -> bool {
        let refused = self.refused_at;
        let is_refused = refused.is_some_and(|at| now.saturating_since(at) < REFUSAL_TIME);
        !is_refused && rmbs < MAX_RMBS
    }

    /// Whether the group may make another RMB while elements rest; the numbers are of each RMB.
    pub(crate) fn may_add(resting: impl Iterator<Item = u32>) -> bool {
        resting.fold(0, u32::saturating_add) < MAX_RESTING
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::smc::llc::testing::{
        after,
        START, //
    };

    #[test]
    fn search_is_due_every_ten_seconds_with_two_rmbs() {
        let mut pool = RmbPool::new();
        assert!(!pool.is_search_due(START, 2));
        assert_eq!(pool.poll_timeout(), Some(after(10)));
        assert!(!pool.is_search_due(after(9), 2));
        assert!(pool.is_search_due(after(10), 2));
        assert_eq!(pool.poll_timeout(), Some(after(20)));
        assert!(!pool.is_search_due(after(10), 2));
    }

    #[test]
    fn only_rmb_is_never_searched() {
        let mut pool = RmbPool::new();
        assert!(!pool.is_search_due(START, 2));
        assert!(!pool.is_search_due(after(10), 1));
        assert_eq!(pool.poll_timeout(), None);
        assert!(!pool.is_search_due(after(30), 2));
        assert_eq!(pool.poll_timeout(), Some(after(40)));
    }

    // LLF-65.
    #[test]
    fn refused_rmb_declines_connections_for_a_second() {
        let mut pool = RmbPool::new();
        assert!(pool.may_wait(START, 1));
        pool.on_refused(START);
        assert!(!pool.may_wait(START, 1));
        assert!(pool.may_wait(after(1), 1));
    }

    // RMB-03.
    #[test]
    fn group_with_255_rmbs_makes_no_other() {
        let pool = RmbPool::new();
        assert!(pool.may_wait(START, 254) && !pool.may_wait(START, 255));
    }

    #[test]
    fn resting_elements_of_all_rmbs_count() {
        assert!(RmbPool::may_add([31, 32].into_iter()));
        assert!(!RmbPool::may_add([32, 32].into_iter()));
        assert!(!RmbPool::may_add([u32::MAX, 1].into_iter()));
    }
}
