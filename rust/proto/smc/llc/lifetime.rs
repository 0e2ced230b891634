// SPDX-License-Identifier: GPL-2.0

//! How long a link group without connections is kept, and when a group that has ended is freed.
//!
//! ```text
//!            idle for IDLE_TIME           server: terminate
//!  Running ----------------------> Ending ------------------> Over, freed at once
//!     |                               |   client: terminate
//!     +-------------------------------+---------------------> Over, freed after LINGER_TIME
//! ```

use super::action::Role;
use crate::proto::base::time::{Duration, Instant};

/// How long a client's queue pairs outlive the end of its group.
///
/// A device may acknowledge a message only after it has delivered it. Without the acknowledgment the
/// server does not learn that its DELETE LINK has arrived.
const LINGER_TIME: Duration = Duration::from_millis(10);

/// How long a server keeps a group without connections (LGR-22).
const IDLE_TIME: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LifetimeState {
    /// The core runs. The time is that at which the server saw the last connection leave.
    Running { idle_since: Option<Instant> },
    /// The core was asked to end the group, and waits for the peer.
    Ending,
    /// The core has ended the group; the engine frees it at this time, or at once.
    Over { until: Option<Instant> },
}

/// The life of a link group beside its protocol.
#[derive(Debug)]
pub(crate) struct Lifetime {
    role: Role,
    state: LifetimeState,
}

impl Lifetime {
    /// A group in first contact.
    pub(crate) const fn new(role: Role) -> Self {
        Self {
            role,
            state: LifetimeState::Running { idle_since: None },
        }
    }

    /// First contact is complete: a group without connections becomes idle from now on.
    pub(crate) fn on_ready(&mut self) {
        if let LifetimeState::Running { idle_since } = &mut self.state {
            *idle_since = None;
        }
    }

    /// Notes the number of connections. Returns `true` once, when a server must ask the core to end
    /// the group, as it had none for ten minutes (LGR-22). A client leaves that to the server.
    pub(crate) fn is_idle_too_long(&mut self, now: Instant, connections: usize) -> bool {
        let (LifetimeState::Running { idle_since }, Role::Server) = (&mut self.state, self.role)
        else {
            return false;
        };
        if connections != 0 {
            *idle_since = None;
            return false;
        }
        let since = *idle_since.get_or_insert(now);
        let is_over = now.saturating_since(since) >= IDLE_TIME;
        if is_over {
            self.state = LifetimeState::Ending;
        }
        is_over
    }

    /// First contact failed, or the first link broke before the core ran: the group ends at once.
    pub(crate) fn fail(&mut self) {
        if self.is_running() {
            self.state = LifetimeState::Over { until: None };
        }
    }

    /// The core has terminated the group.
    pub(crate) fn terminate(&mut self, now: Instant) {
        self.state = LifetimeState::Over {
            until: match self.role {
                Role::Client => Some(now.saturating_add(LINGER_TIME)),
                Role::Server => None,
            },
        };
    }

    /// Whether the core runs.
    pub(crate) const fn is_running(&self) -> bool {
        !matches!(self.state, LifetimeState::Over { .. })
    }

    /// Whether the engine must free the group now.
    pub(crate) fn is_expired(&self, now: Instant) -> bool {
        match self.state {
            LifetimeState::Running { .. } | LifetimeState::Ending => false,
            LifetimeState::Over { until } => until.is_none_or(|until| until <= now),
        }
    }

    /// When to ask [`Self::is_idle_too_long`] or [`Self::is_expired`] again.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            LifetimeState::Running { idle_since } => {
                idle_since.map(|at| at.saturating_add(IDLE_TIME))
            }
            LifetimeState::Ending => None,
            LifetimeState::Over { until } => until,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::smc::llc::testing::{
        after,
        START, //
    };

    const BOTH: [Role; 2] = [Role::Client, Role::Server];

    // LGR-22.
    #[test]
    fn server_without_connections_ends_after_ten_minutes() {
        let mut life = Lifetime::new(Role::Server);
        assert_eq!(life.poll_timeout(), None);
        assert!(!life.is_idle_too_long(START, 0));
        assert_eq!(life.poll_timeout(), Some(after(600)));
        assert!(!life.is_idle_too_long(after(599), 0));
        assert!(life.is_idle_too_long(after(600), 0));
    }

    #[test]
    fn idle_group_asks_for_its_end_once() {
        let mut life = Lifetime::new(Role::Server);
        assert!(!life.is_idle_too_long(START, 0));
        assert!(life.is_idle_too_long(after(600), 0));
        // The peer may take seconds to answer; a deadline in the past would be a busy timer.
        assert_eq!(life.poll_timeout(), None);
        assert!(life.is_running() && !life.is_idle_too_long(after(601), 0));
        life.terminate(after(602));
        assert!(life.is_expired(after(602)));
    }

    // LGR-22.
    #[test]
    fn client_without_connections_leaves_the_end_to_the_server() {
        let mut life = Lifetime::new(Role::Client);
        assert!(!life.is_idle_too_long(START, 0));
        assert!(!life.is_idle_too_long(after(10_000), 0));
        assert_eq!(life.poll_timeout(), None);
    }

    #[test]
    fn idle_time_with_a_new_connection_starts_again() {
        let mut life = Lifetime::new(Role::Server);
        assert!(!life.is_idle_too_long(START, 0));
        assert!(!life.is_idle_too_long(after(500), 1));
        assert_eq!(life.poll_timeout(), None);
        assert!(!life.is_idle_too_long(after(700), 0));
        assert!(!life.is_idle_too_long(after(1299), 0));
        assert!(life.is_idle_too_long(after(1300), 0));
    }

    #[test]
    fn idle_time_of_first_contact_does_not_count() {
        let mut life = Lifetime::new(Role::Server);
        assert!(!life.is_idle_too_long(START, 0));
        life.on_ready();
        assert_eq!(life.poll_timeout(), None);
        assert!(!life.is_idle_too_long(after(600), 0));
    }

    #[test]
    fn terminated_server_is_freed_at_once() {
        let mut life = Lifetime::new(Role::Server);
        assert!(!life.is_expired(START));
        life.terminate(START);
        assert!(!life.is_running() && life.is_expired(START));
        assert_eq!(life.poll_timeout(), None);
    }

    #[test]
    fn terminated_client_is_freed_after_the_linger_time() {
        let mut life = Lifetime::new(Role::Client);
        life.terminate(START);
        let end = START.saturating_add(LINGER_TIME);
        assert!(!life.is_running() && !life.is_expired(START));
        assert_eq!(life.poll_timeout(), Some(end));
        assert!(life.is_expired(end));
    }

    #[test]
    fn failed_group_is_freed_at_once() {
        for role in BOTH {
            let mut life = Lifetime::new(role);
            life.fail();
            assert!(!life.is_running() && life.is_expired(START));
            assert!(!life.is_idle_too_long(after(10_000), 0));
        }
    }

    #[test]
    fn failure_after_the_end_does_not_shorten_the_linger_time() {
        let mut life = Lifetime::new(Role::Client);
        life.terminate(START);
        life.fail();
        assert!(!life.is_expired(START));
    }
}
