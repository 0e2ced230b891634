// SPDX-License-Identifier: GPL-2.0

//! Events of a connection for the engine.

#[cfg(doc)]
use super::conn::Conn;

/// Changes since [`Conn::take_events`]; each flag calls for an action of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events {
    /// Wake readers: data, the end of the stream, or an error.
    pub(crate) readable: bool,
    /// Wake writers: enough space, or an error.
    pub(crate) writable: bool,
    /// Urgent data came or is announced (URG-04).
    pub(crate) urgent: bool,
    /// State, [`Conn::tcp`], [`Conn::is_released`] or, after a shutdown or close,
    /// [`Conn::is_drained`] may have changed.
    pub(crate) closing: bool,
    /// There is a new error, which the engine brings to the socket.
    pub(crate) error: bool,
}

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

/// What a reader without data is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receive {
    /// Wait.
    More,
    /// Return 0: the stream is at its end.
    Eof,
    /// Fail with the error of the socket, or return 0 if another call has taken that error.
    Failed,
}
