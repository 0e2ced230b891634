// SPDX-License-Identifier: GPL-2.0

//! How far a link group is, and what a failure then means to the connection that made it, RFC 7609,
//! sections C.2, C.3 and C.7.

use super::{
    action::{
        Cause,
        Fail,
        LlcKind, //
    },
    delete_link::DeleteLink,
    link::LinkSlot, //
};
use crate::proto::{
    base::time::Instant,
    stream::reason::Reason, //
};

/// How far a link group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkPhase {
    /// Made, not started.
    Idle,
    /// Server: CONFIRM LINK was sent, its reply is awaited (LLF-02).
    Confirming {
        /// TMR-10.
        deadline: Instant,
        /// Whether it is known to have arrived.
        delivered: bool,
        /// When to repeat it; `None` if it was repeated.
        repeat_at: Option<Instant>,
    },
    /// The attempt for a second link is under way (RDV-06).
    Second,
    /// Client: CONFIRM LINK is awaited.
    AwaitConfirm {
        /// TMR-04.
        deadline: Instant,
    },
    /// Client: the engine has to move the queue pair (LNK-08).
    AwaitRts {
        /// When first contact is given up.
        deadline: Instant,
    },
    /// Client: the reply to CONFIRM LINK was sent, ADD LINK is awaited.
    AwaitAdd {
        /// TMR-13.
        deadline: Instant,
        /// Whether the reply is known to have arrived.
        delivered: bool,
    },
    /// In use.
    Ready,
    /// DELETE LINK for the group was sent.
    Ending {
        /// TMR-23, TMR-24.
        deadline: Instant,
        /// Why.
        cause: Cause,
        /// The message.
        request: DeleteLink,
        /// The link that carries it.
        carrier: LinkSlot,
    },
    /// Dead.
    Over,
}

impl LinkPhase {
    /// Whether first contact is not over, one way or another.
    pub(super) const fn is_first_contact(self) -> bool {
        !matches!(self, Self::Ready | Self::Ending { .. } | Self::Over)
    }

    /// When there is something to do before that.
    pub(super) const fn repeat_at(self) -> Option<Instant> {
        match self {
            Self::Confirming { repeat_at, .. } => repeat_at,
            _ => None,
        }
    }

    /// When waiting ends.
    pub(super) const fn deadline(self) -> Option<Instant> {
        match self {
            Self::Confirming { deadline, .. }
            | Self::AwaitConfirm { deadline }
            | Self::AwaitRts { deadline }
            | Self::AwaitAdd { deadline, .. }
            | Self::Ending { deadline, .. } => Some(deadline),
            Self::Idle | Self::Second | Self::Ready | Self::Over => None,
        }
    }

    /// Why the group ends, if that is decided.
    pub(super) const fn end_cause(self) -> Option<Cause> {
        match self {
            Self::Ending { cause, .. } => Some(cause),
            _ => None,
        }
    }

    /// What a failure in this phase means to the connection (CLC-413, C.3).
    pub(super) const fn verdict(self, cause: Cause) -> Fail {
        let reason = cause.reason();
        match self {
            Self::Idle
            | Self::Confirming {
                delivered: false, ..
            }
            | Self::AwaitConfirm { .. }
            | Self::AwaitRts { .. }
            | Self::AwaitAdd {
                delivered: false, ..
            } => Fail::Decline(reason),
            _ => Fail::Abort(reason),
        }
    }

    /// What the end of waiting in this phase means to the connection, if it is first contact.
    pub(super) const fn timeout_verdict(self) -> Option<Fail> {
        let cause = match self {
            // Not delivered means that it could not be sent (TMR-05); else TMR-10.
            Self::Confirming { .. } => Cause::NoReply(LlcKind::ConfirmLink),
            // The server may be about to decline, but did not do so in time (TMR-04).
            Self::AwaitConfirm { .. } => {
                return Some(Fail::Abort(Cause::NoConfirmLink.reason()));
            }
            Self::AwaitRts { .. } => Cause::NotReady(Reason::ReadyLink),
            // TMR-06.
            Self::AwaitAdd {
                delivered: false, ..
            } => Cause::SendFailed(LlcKind::ConfirmLinkReply),
            // TMR-13.
            Self::AwaitAdd { .. } => Cause::NoAddLink,
            // The attempt has its own timers.
            Self::Idle | Self::Second | Self::Ready | Self::Ending { .. } | Self::Over => {
                return None;
            }
        };
        Some(self.verdict(cause))
    }
}
