// SPDX-License-Identifier: GPL-2.0

//! The attempts of a link group to get another link: the one that runs, the numbers of earlier ones,
//! and the time of the next one, RFC 7609, sections 3.5.1.3 and C.7.

use super::{
    accept::AcceptNotice,
    add::{
        AddStage,
        Adding, //
    },
    link::LinkSlot, //
};
use crate::proto::{
    base::time::{
        earliest,
        Duration,
        Instant, //
    },
    smc::wire::LinkNum, //
};

/// Most doublings of the time between two attempts (TMR-30).
const MAX_DOUBLINGS: u8 = 4;

/// The attempts of a group to get another link. At most one runs.
#[derive(Debug)]
pub(super) struct Attempts {
    /// The attempt that runs.
    pub(super) adding: Option<Adding>,
    /// Server: another link is wanted.
    pub(super) wanted: bool,
    /// Server: the link on which a client of SMC-Rv2 has asked for a link and awaits a reply.
    asked: Option<LinkSlot>,
    /// Client: the ports to announce to the server.
    notice: Option<AcceptNotice>,
    /// The number that the last link got (LNK-02).
    last: LinkNum,
    /// The number of the last attempt that failed: messages about it may still arrive.
    failed: Option<LinkNum>,
    /// When the next attempt is due (TMR-30).
    retry_at: Option<Instant>,
    /// How many attempts have failed since a link was added, at most [`MAX_DOUBLINGS`].
    retries: u8,
}

impl Attempts {
    /// Makes the state of a group whose first link has this number.
    pub(super) const fn new(first: LinkNum) -> Self {
        Self {
            adding: None,
            wanted: false,
            asked: None,
            notice: None,
            last: first,
            failed: None,
            retry_at: None,
            retries: 0,
        }
    }

    /// Starts an attempt at a link in this place. The engine makes this side's end first.
    pub(super) fn begin(&mut self, slot: LinkSlot, carrier: LinkSlot, deadline: Instant) {
        self.adding = Some(Adding {
            slot,
            carrier,
            number: LinkNum::new(0),
            stage: AddStage::Asking,
            deadline,
            told: 0,
            left: 0,
            peer_left: None,
            broken: false,
            wanted: None,
        });
    }

    /// The attempt that runs, if it is for this link and in this stage.
    pub(super) fn at(&self, slot: LinkSlot, stage: AddStage) -> Option<Adding> {
        self.adding
            .filter(|adding| adding.slot == slot && adding.stage == stage)
    }

    /// Ends the attempt that runs, because the link works. The time between attempts is short again.
    pub(super) fn succeed(&mut self) -> Option<Adding> {
        let adding = self.adding.take()?;
        self.retries = 0;
        self.retry_at = None;
        Some(adding)
    }

    /// Ends the attempt that runs without a link.
    pub(super) fn fail(&mut self) -> Option<Adding> {
        let adding = self.adding.take()?;
        self.failed = Some(adding.number);
        Some(adding)
    }

    /// Whether the last attempt that failed had this number.
    pub(super) fn failed_with(&self, number: LinkNum) -> bool {
        self.failed == Some(number)
    }

    /// Sets the time of the next attempt. Each failure doubles `first`; zero means never.
    pub(super) fn arm_retry(&mut self, now: Instant, first: Duration) {
        if first == Duration::ZERO {
            return;
        }
        let factor = 1_u64.checked_shl(u32::from(self.retries)).unwrap_or(1);
        let wait = first.saturating_mul(factor);
        self.retries = self.retries.saturating_add(1).min(MAX_DOUBLINGS);
        self.retry_at = Some(now.saturating_add(wait));
    }

    /// Forgets the time of the next attempt: the peer's own attempt comes before it (COL-32).
    pub(super) fn cancel_retry(&mut self) {
        self.retry_at = None;
    }

    /// Takes the time of the next attempt if it has come.
    pub(super) fn take_due_retry(&mut self, now: Instant) -> bool {
        let is_due = self.retry_at.is_some_and(|at| at <= now);
        if is_due {
            self.retry_at = None;
        }
        is_due
    }

    /// When the attempt that runs expires, or the next one is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        earliest(self.adding.map(|adding| adding.deadline), self.retry_at)
    }

    /// The next number that no link has, and that none had for as long as possible (LNK-02,
    /// AMB-35). `is_used` says whether a link has a number.
    pub(super) fn next_number(&self, is_used: impl Fn(LinkNum) -> bool) -> LinkNum {
        let after = |number: LinkNum| LinkNum::new(number.get().checked_add(1).unwrap_or(1));
        let mut number = after(self.last);
        while is_used(number) {
            number = after(number);
        }
        number
    }

    /// Server: an ADD LINK with this number goes to the client, which is the reply to its request.
    pub(super) fn requested(&mut self, number: LinkNum) {
        self.last = number;
        self.asked = None;
    }

    /// Whether the last link got this number.
    pub(super) fn is_last(&self, number: LinkNum) -> bool {
        self.last == number
    }

    /// Server: a client of SMC-Rv2 has asked for a link on this one.
    pub(super) fn ask(&mut self, slot: LinkSlot) {
        self.asked = Some(slot);
    }

    /// Server: takes the request of a client that awaits a reply.
    pub(super) fn take_asked(&mut self) -> Option<LinkSlot> {
        self.asked.take()
    }

    /// Client: the ports to announce. They replace those that were not announced yet.
    pub(super) fn announce(&mut self, notice: AcceptNotice) {
        self.notice = Some(notice);
    }

    /// Client: takes the ports to announce, unless an attempt runs.
    pub(super) fn take_notice(&mut self) -> Option<AcceptNotice> {
        if self.adding.is_some() {
            return None;
        }
        self.notice.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_after_the_last_skips_zero_and_numbers_in_use() {
        let attempts = Attempts::new(LinkNum::new(254));
        let used = [LinkNum::new(255), LinkNum::new(1)];
        let number = attempts.next_number(|number| used.contains(&number));
        assert_eq!(number, LinkNum::new(2));
    }

    #[test]
    fn retry_time_doubles_until_a_link_is_added() {
        let first = Duration::from_secs(60);
        let start = Instant::default();
        let mut attempts = Attempts::new(LinkNum::new(1));
        for seconds in [60, 120, 240, 480, 960, 960] {
            attempts.arm_retry(start, first);
            let at = attempts.deadline().expect("a retry is armed");
            assert!(!attempts.take_due_retry(start));
            assert!(attempts.take_due_retry(at));
            assert_eq!(at.saturating_since(start), Duration::from_secs(seconds));
        }
        attempts.begin(LinkSlot::FIRST, LinkSlot::FIRST, start);
        assert!(attempts.succeed().is_some());
        attempts.arm_retry(start, first);
        assert_eq!(attempts.deadline(), Some(start.saturating_add(first)));
    }

    #[test]
    fn retry_time_of_zero_arms_nothing() {
        let mut attempts = Attempts::new(LinkNum::new(1));
        attempts.arm_retry(Instant::default(), Duration::ZERO);
        assert_eq!(attempts.deadline(), None);
    }

    #[test]
    fn failed_attempt_keeps_its_number() {
        let mut attempts = Attempts::new(LinkNum::new(1));
        assert!(attempts.fail().is_none());
        attempts.begin(LinkSlot::FIRST, LinkSlot::FIRST, Instant::default());
        if let Some(adding) = &mut attempts.adding {
            adding.number = LinkNum::new(7);
        }
        assert!(attempts.fail().is_some());
        assert!(attempts.failed_with(LinkNum::new(7)));
        assert!(!attempts.failed_with(LinkNum::new(1)));
    }
}
