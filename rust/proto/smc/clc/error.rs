// SPDX-License-Identifier: GPL-2.0

//! What can be wrong with a CLC message, RFC 7609, appendix C.6.

/// Why octets are not a CLC message this side can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClcError {
    /// They are no CLC message, or not the expected one: the TCP connection ends (CLC-06, CLC-07).
    Protocol(ProtocolError),
    /// They use a value that is reserved: the answer is a Decline (CLC-08).
    Reserved(Reserved),
}

/// A violation of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolError {
    /// Fewer octets than the message announces, or more.
    Size,
    /// The octets do not start with the eye catcher (CLC-02).
    EyeCatcher,
    /// The octets do not end with the eye catcher (CLC-02).
    Trailer,
    /// No message has this type (CLC-05).
    Type(u8),
    /// Version 0 does not exist (AMB-03).
    Version,
    /// The announced length is impossible for the type (CLC-32).
    Length(u16),
    /// The offset leads out of the message (CLC-105).
    Offset(u16),
    /// More than eight IPv6 prefixes (CLC-109).
    PrefixCount(u8),
    /// A prefix has more significant bits than an address (CLC-107, CLC-113).
    PrefixLength(u8),
    /// More than eight enterprise identifiers.
    EidCount(u8),
    /// The element index is 0 (AMB-19).
    ElementIndex,
}

/// A reserved value in a message that is well-formed otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// An Accept or Confirm of a version that was not proposed (AMB-03).
    Version(u8),
    /// A Proposal that offers no SMC-R of any version (DEP-4), or an Accept or Confirm of another
    /// transport; the bits for versions 1 and 2.
    Transport(u8),
    /// A Proposal that offers SMC-R of version 2 only, and does not say how.
    Extension,
}

impl From<ProtocolError> for ClcError {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

impl From<Reserved> for ClcError {
    fn from(value: Reserved) -> Self {
        Self::Reserved(value)
    }
}
