// SPDX-License-Identifier: GPL-2.0

//! What the LLC machine wants done, and how it names things and failures.

use super::{
    add::PeerOffer,
    delete_link::DeleteReason,
    link::LinkSlot,
    msg::{
        LlcParseError,
        Octets, //
    },
};
use crate::proto::stream::reason::{
    LocalReason,
    Reason, //
};

/// Which end of the TCP connection this side was when the link group was made (LGR-17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The active opener.
    Client,
    /// The passive opener, which alone changes the links (LGR-19).
    Server,
}

/// One of this side's remote memory buffers; the engine chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RmbId(pub(crate) u16);

/// What a message that was sent is. The engine keeps it with the send and gives it back when the
/// send completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LlcKind {
    /// CONFIRM LINK of the server.
    ConfirmLink,
    /// Its reply.
    ConfirmLinkReply,
    /// ADD LINK of the server.
    AddLink,
    /// ADD LINK CONTINUATION of the server.
    AddLinkCont,
    /// The client asks for a link.
    Notice,
    /// DELETE LINK for one link, of the server or as the notice of a client.
    DeleteLink,
    /// Its reply.
    DeleteLinkReply,
    /// DELETE LINK for the whole group.
    DeleteGroup,
    /// CONFIRM RKEY or DELETE RKEY.
    Rkey,
    /// TEST LINK.
    TestLink,
    /// Any other reply.
    Reply,
}

/// Why a link, or with it the link group, is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The peer did not answer this in time (TMR-01).
    NoReply(LlcKind),
    /// This could not be sent (TMR-03).
    SendFailed(LlcKind),
    /// The server's CONFIRM LINK did not come (TMR-04).
    NoConfirmLink,
    /// The server's ADD LINK did not come (TMR-13).
    NoAddLink,
    /// The engine saw the link fail.
    LinkFailed,
    /// What the peer sent is no LLC message (ERR-40, ERR-41).
    Malformed(LlcParseError),
    /// The peer sent this at a time it must not (ERR-41).
    Unexpected(&'static str),
    /// A message of the peer contradicts what is known (ERR-30, ERR-39).
    Mismatch(&'static str),
    /// The peer announced a buffer, but not for this link (ERR-37).
    KeyMissing,
    /// The queue pair could not be made ready.
    NotReady(Reason),
    /// The peer ended it.
    PeerDeleted(DeleteReason),
    /// This side ended it.
    Ended(DeleteReason),
    /// The queue of actions was full; a fault of this implementation.
    Overflow,
}

impl Cause {
    /// A short name for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NoReply(_) => "no reply",
            Self::SendFailed(_) => "send failed",
            Self::NoConfirmLink => "no CONFIRM LINK from the server",
            Self::NoAddLink => "no ADD LINK from the server",
            Self::LinkFailed => "link failed",
            Self::Malformed(_) => "malformed message",
            Self::Unexpected(_) => "unexpected message",
            Self::Mismatch(_) => "message contradicts what is known",
            Self::KeyMissing => "key missing for the link",
            Self::NotReady(_) => "queue pair not ready",
            Self::PeerDeleted(_) => "ended by the peer",
            Self::Ended(_) => "ended",
            Self::Overflow => "too many actions",
        }
    }

    /// The reason to give for the connection whose first contact failed of this.
    pub(crate) const fn reason(self) -> Reason {
        match self {
            Self::NoConfirmLink
            | Self::NoReply(LlcKind::ConfirmLink)
            | Self::SendFailed(LlcKind::ConfirmLink | LlcKind::ConfirmLinkReply) => {
                Reason::TimeoutConfirmLink
            }
            Self::NoAddLink | Self::NoReply(_) | Self::SendFailed(_) => Reason::TimeoutAddLink,
            Self::LinkFailed | Self::PeerDeleted(_) | Self::Ended(_) => Reason::NoActiveLink,
            Self::Malformed(_) | Self::Unexpected(_) | Self::Mismatch(_) | Self::KeyMissing => {
                Reason::Local(LocalReason::LinkProtocol)
            }
            Self::NotReady(reason) => reason,
            Self::Overflow => Reason::Internal,
        }
    }
}

/// How first contact ended without a link group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fail {
    /// Send an SMC Decline and go on with TCP (CLC-413, FBK-07 to FBK-10).
    Decline(Reason),
    /// Reset the TCP connection: the window for a Decline is closed (FBK-14, FBK-16).
    Abort(Reason),
}

/// What the engine has to do, in the order it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LlcAction {
    /// Send this message on this link, and tell when the send has completed.
    Send {
        /// The link.
        slot: LinkSlot,
        /// The message.
        msg: Octets,
        /// To be given back at completion.
        kind: LlcKind,
    },
    /// Move the queue pair of the link to the state in which it can send; answer by `handle_rts`
    /// (LNK-08). Only to a client.
    MoveToRts {
        /// The link.
        slot: LinkSlot,
    },
    /// As `Send`, of a message that is longer: `write_long` gives it, before anything else happens
    /// to the group. Only in SMC-Rv2.
    SendLong {
        /// The link.
        slot: LinkSlot,
        /// To be given back at completion.
        kind: LlcKind,
    },
    /// Make an end for another link, with all buffers on it, and answer by `offer_link` (LLF-11).
    /// Only to a server.
    OfferLink {
        /// The link to be.
        slot: LinkSlot,
        /// Only a port that no link of the group uses is good for it.
        only_new: bool,
    },
    /// Make an end for another link, with all buffers on it and able to receive, and answer by
    /// `accept_link` (LLF-15). Only to a client.
    AcceptLink {
        /// The link to be.
        slot: LinkSlot,
        /// The other end.
        peer: PeerOffer,
        /// Only a port that no link of the group uses is good for it.
        only_new: bool,
    },
    /// Connect the end that was offered, up to the state in which it can send, and answer by
    /// `handle_rts` (LLF-18). Only to a server.
    ConnectLink {
        /// The link.
        slot: LinkSlot,
        /// The other end.
        peer: PeerOffer,
    },
    /// An added link is proven, connections may use it.
    LinkUp {
        /// The link.
        slot: LinkSlot,
    },
    /// An added link will never be proven: free its end.
    DropLink {
        /// The link.
        slot: LinkSlot,
    },
    /// No connection may use the link; at least one other is active (FOV-04, LLF-49). Its
    /// end stays until `LinkDown`.
    MoveConnections {
        /// The link.
        from: LinkSlot,
        /// What was sent on it still completes.
        orderly: bool,
    },
    /// Look whether a port has no link of the group, and if so say it by `request_link` (TMR-18).
    /// Only to a client.
    SuggestLink,
    /// First contact is over, data may flow (RDV-05).
    Ready,
    /// First contact failed. The last action: tear everything down (FBK-19).
    FirstContactFailed(Fail),
    /// The peer knows the buffer (LLF-61).
    RkeyConfirmed(RmbId),
    /// The peer does not take the buffer in; it must not be used (LLF-65).
    RkeyRejected(RmbId),
    /// The peer has forgotten the buffer, it may be freed (LLF-67).
    RkeyDeleted(RmbId),
    /// The link is gone on both sides, as far as can be known: free its end (LLF-43).
    LinkDown {
        /// The link.
        slot: LinkSlot,
        /// Why.
        cause: Cause,
    },
    /// The link group is dead. The last action: reset its connections and free all (FOV-19).
    /// Requests about buffers that have not been answered never will.
    Terminate {
        /// Why.
        cause: Cause,
    },
}
