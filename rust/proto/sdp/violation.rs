// SPDX-License-Identifier: GPL-2.0

//! What a peer may not do. Each ends the connection (SDP-ABT-06).

use super::{
    credit::CreditFault,
    msg::Malformed, //
};

/// A rule that the peer has broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SdpViolation {
    /// The message itself is not valid.
    Malformed(Malformed),
    /// Its numbers or its use of credits are not.
    Credit(CreditFault),
    /// A report or a refusal, and no SrcAvail of ours is out (SDP-ERR-07).
    NoSrcAvail,
    /// A report of more octets than are left (SDP-RZS-17).
    ReadTooMuch,
    /// Another STag was invalidated than the one that the message completes (SDP-ERR-05).
    Invalidated,
    /// A report or an answer for a SinkAvail, and none of ours is out (SDP-ERR-08).
    NoSinkAvail,
    /// SinkAvail while the half-connection is not Pipelined (SDP-ERR-11).
    SinkAvailMode,
    /// SrcAvail with payload that the mode forbids, or in Buffered Mode (SDP-ERR-10).
    SrcAvailMode,
    /// A second SrcAvail in Combined Mode (SDP-ERR-13).
    SecondSrcAvail,
    /// More adverts than MaxAdverts (SDP-ERR-12).
    TooManyAdverts,
    /// Payload while a SrcAvail is out (SDP-MODE-14, SDP-MODE-19).
    PayloadBehindSrcAvail,
    /// ModeChange of the wrong role, to the current mode or along no edge (SDP-ERR-14).
    ModeChange,
    /// Data or SrcAvail behind DisConn, or a second DisConn (SDP-ERR-17).
    AfterDisConn,
    /// ChRcvBuf while one is open, or an answer to no request (SDP-ERR-18).
    Resize,
    /// A message behind SuspComm, or too soon a second one, or an answer to none (SDP-ERR-19).
    Suspend,
}

impl From<Malformed> for SdpViolation {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<CreditFault> for SdpViolation {
    fn from(fault: CreditFault) -> Self {
        Self::Credit(fault)
    }
}
