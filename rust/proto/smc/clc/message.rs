// SPDX-License-Identifier: GPL-2.0

//! Any CLC message, RFC 7609, appendix A.2.

use super::{
    answer::Answer,
    decline::Decline,
    error::ClcError,
    header::{
        self,
        ClcKind, //
    },
    proposal::Proposal, //
};

/// One CLC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClcMessage {
    /// From the client, first.
    Proposal(Proposal),
    /// From the server.
    Accept(Answer),
    /// From the client, second.
    Confirm(Answer),
    /// From either, in place of another message.
    Decline(Decline),
}

impl ClcMessage {
    /// Reads a whole message; `octets` must have exactly the announced length.
    ///
    /// # Errors
    ///
    /// [`ClcError::Protocol`] when this is no CLC message, [`ClcError::Reserved`] when it is one that
    /// uses what this implementation does not know.
    pub(crate) fn parse(octets: &[u8]) -> Result<Self, ClcError> {
        let (header, body) = header::open(octets)?;
        match header.kind {
            ClcKind::Proposal => Proposal::parse(&header, body).map(Self::Proposal),
            ClcKind::Accept => Answer::parse(&header, body).map(Self::Accept),
            ClcKind::Confirm => Answer::parse(&header, body).map(Self::Confirm),
            ClcKind::Decline => Decline::parse(&header, body).map(Self::Decline),
        }
    }

    /// Writes the message; gives its length, or `None` if `buf` is too short.
    pub(crate) fn emit(&self, buf: &mut [u8]) -> Option<usize> {
        match self {
            Self::Proposal(proposal) => proposal.emit(buf),
            Self::Accept(answer) => answer.emit(buf, ClcKind::Accept),
            Self::Confirm(answer) => answer.emit(buf, ClcKind::Confirm),
            Self::Decline(decline) => decline.emit(buf),
        }
    }
}
