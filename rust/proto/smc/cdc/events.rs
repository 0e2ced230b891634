// SPDX-License-Identifier: GPL-2.0

//! Violations of the peer, and why nothing can be sent.

/// A rule of the protocol that the peer broke. The connection is aborting by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// An impossible producer cursor, or data after the end of data (CDC-38).
    Producer,
    /// An impossible consumer cursor (CDC-38).
    Consumer,
    /// The eye catcher in front of the element was overwritten (RMB-14).
    EyeCatcher,
    /// What the old link said to have delivered is not there (FOV-10).
    FailoverLoss,
}

impl Violation {
    /// A name for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Producer => "impossible producer cursor",
            Self::Consumer => "impossible consumer cursor",
            Self::EyeCatcher => "eye catcher destroyed",
            Self::FailoverLoss => "data lost by failover",
        }
    }
}

/// Why nothing can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// Nothing can be sent. The call fails with the error of the socket, or else with `EPIPE`.
    Pipe,
    /// The connection has failed, and the socket does not have the error yet. The call waits.
    Unreported,
}
