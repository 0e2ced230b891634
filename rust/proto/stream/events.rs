// SPDX-License-Identifier: GPL-2.0

//! Events of a stream for the engine, and what a reader finds.

/// Changes of a stream since the engine looked last; each flag calls for an action of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamEvents {
    /// Wake readers: data, the end of the stream, or an error.
    pub(crate) readable: bool,
    /// Wake writers: enough space, or an error.
    pub(crate) writable: bool,
    /// Urgent data came or is announced (URG-04).
    pub(crate) urgent: bool,
    /// The state has changed, or a closed stream may be drained, or released.
    pub(crate) closing: bool,
    /// There is a new error, which the engine brings to the socket.
    pub(crate) error: bool,
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

/// What fetching the urgent byte comes to, see `tcp_recv_urg()` of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetch {
    /// There it is.
    Here,
    /// It is announced and has not come.
    NotYet,
    /// There is none, or it is in the stream.
    Nothing,
}
