// SPDX-License-Identifier: GPL-2.0

//! Connections that must stay with TCP although SMC-R could carry them.
//!
//! Source: RFC 7609 section 5 (`SMCR-TCP-22`, `SMCR-SEC-06`): what protects the segments of a
//! connection would be bypassed by RDMA.

use crate::{
    kapi::net::{
        msg::Name,
        sock::Sock, //
    },
    proto::stream::reason::Reason, //
};

/// Why this socket is not to use RDMA whatever the peer says. Asked before the SYN and again when
/// the connection is established, as its path is known only then. Context: may sleep.
pub(crate) fn refusal(sk: &Sock) -> Option<Reason> {
    // Policies of the socket, and those of the namespace that apply to its path. Signed segments
    // authenticate the peer, which nothing does on the RDMA path.
    if sk.has_ipsec_policy() || sk.is_path_protected() || sk.has_md5_or_ao() {
        return Some(Reason::Ipsec);
    }
    // A connection that is being taken from one host to another has a history RDMA knows nothing
    // of.
    if sk.is_fastopen_wanted() || sk.is_in_repair() {
        return Some(Reason::OptionUnsupported);
    }
    None
}

/// Why a connection to that address is not even offered to the peer: the option would only cost
/// the peer a handshake that ends in a Decline. Context: may sleep.
pub(crate) fn refusal_to(sk: &Sock, name: &Name) -> Option<Reason> {
    refusal(sk).or_else(|| sk.would_be_protected(name).then_some(Reason::Ipsec))
}
