// SPDX-License-Identifier: GPL-2.0

//! Number of concurrent handshakes of a listener.
//!
//! A child whose client agreed on SMC-R waits for its handshake before `accept` sees it (TCP-19). A
//! client that stalls its handshake must cost neither other clients nor much memory. So handshakes
//! take no place of the backlog, and the listener offers SMC-R to new clients only while it has
//! few: with many, new clients get plain TCP, which `accept` sees at once.

use crate::proto::base::time::Duration;

/// Handshakes of a listener that are many if the administrator limits them, whatever its backlog.
const MANY_LIMITED: usize = 64;
/// Handshakes that are not many, however small the backlog.
const FEW: usize = 64;
/// Handshakes that are many, however large the backlog.
const MANY: usize = 1024;
/// Most handshakes, as a multiple of the number that is many. The surplus are clients that
/// got the offer before the listener withheld it: those in TCP's two queues.
const SURPLUS: usize = 4;

/// When a listener tries again to take a child that it had no memory for. No event reports that there
/// is memory again.
pub(crate) const MEMORY_RETRY: Duration = Duration::from_millis(100);

/// Handshakes from which on the listener withholds its offer.
const fn many(backlog: usize) -> usize {
    if backlog < FEW {
        FEW
    } else if backlog < MANY {
        backlog
    } else {
        MANY
    }
}

/// Whether a listener with `handshakes` in progress withholds the offer from new clients for now.
/// With `limited` the administrator allows fewer handshakes than memory does.
pub(crate) const fn withholds_offer(handshakes: usize, backlog: usize, limited: bool) -> bool {
    if limited && (handshakes >= MANY_LIMITED || handshakes > backlog / 2) {
        return true;
    }
    handshakes >= many(backlog)
}

/// Whether a listener with `handshakes` in progress resets the next client that agreed on SMC-R.
pub(crate) const fn refuses_handshake(handshakes: usize, backlog: usize) -> bool {
    handshakes >= many(backlog).saturating_mul(SURPLUS)
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_accept))]
mod tests {
    use super::*;

    #[test]
    fn listener_without_memory_retries_before_its_client_gives_up() {
        // A client waits some seconds for the answer to its Proposal.
        assert!(MEMORY_RETRY < Duration::from_secs(1));
        assert!(MEMORY_RETRY > Duration::from_millis(10));
    }

    #[test]
    fn limited_listener_with_half_its_backlog_withholds() {
        assert!(!withholds_offer(0, 0, true) && withholds_offer(1, 0, true));
        assert!(!withholds_offer(8, 16, true) && withholds_offer(9, 16, true));
        assert!(!withholds_offer(63, 4096, true) && withholds_offer(64, 4096, true));
    }

    #[test]
    fn listener_with_many_handshakes_withholds() {
        assert!(!withholds_offer(63, 8, false) && withholds_offer(64, 8, false));
        assert!(!withholds_offer(510, 511, false) && withholds_offer(511, 511, false));
        assert!(!withholds_offer(1023, 4096, false) && withholds_offer(1024, 4096, false));
    }

    #[test]
    fn handshakes_of_any_backlog_are_bounded() {
        for backlog in [0, 8, 64, 511, 4096, usize::MAX] {
            assert!(refuses_handshake(4096, backlog));
            assert!(!refuses_handshake(many(backlog), backlog));
        }
    }
}
