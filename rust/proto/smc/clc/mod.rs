// SPDX-License-Identifier: GPL-2.0

//! CLC messages and the handshake they make, RFC 7609, section 3.5 and appendices A.2 and C.
//!
//! CLC ("connection layer control") messages are the first octets on a TCP connection whose both
//! ends offered SMC. They agree on a link and exchange what is needed to write into each other's
//! memory:
//!
//! ```text
//!   client                                server
//!     | ---- Proposal: who and where am I --> |   proposal.rs
//!     | <--- Accept: my end, F if new link -- |   answer.rs, endpoint.rs
//!     | ---- Confirm: my end ---------------> |   answer.rs, endpoint.rs
//!     | <.... LLC on the link, if it is new .> |   ../llc
//! ```
//!
//! Either side may send a Decline (`decline.rs`) in place of the message the other one waits for,
//! never behind one ("no chase", CLC-410). The connection then stays TCP. Timeouts and octets that
//! are no CLC message end the connection instead (CLC-07, CLC-11), as both sides no longer agree on
//! what the stream means.
//!
//! Version 2 of SMC-R, which is not in the RFC, adds to these messages: `extension.rs` to the
//! Proposal, `first_contact.rs` to Accept and Confirm. The client offers what it can, the server
//! takes the later of the versions both have.
//!
//! [`Assembler`] cuts messages out of the stream without reading beyond them, [`client::Client`]
//! and [`server::Server`] are the two sides of the handshake, [`Machine`] is either of them.

mod answer;
mod assembler;
mod decline;
mod eid;
mod endpoint;
mod error;
mod extension;
mod first_contact;
mod handshake;
mod header;
mod machine;
mod message;
mod networks;
mod proposal;
mod steps;
mod terms;

pub(crate) mod client;
pub(crate) mod server;
pub(crate) mod version;

pub(crate) use self::{
    answer::{
        Addition,
        Answer,
        System, //
    },
    assembler::{
        Assembler,
        Start, //
    },
    eid::{
        Eid,
        EidList, //
    },
    endpoint::Endpoint,
    extension::Extension,
    handshake::{
        Bytes,
        ClcOutcome,
        ClcTimers,
        LlcOutcome, //
    },
    machine::Machine,
    networks::{
        Networks,
        Prefix4,
        Prefix6,
        Prefix6List, //
    },
    proposal::Proposal,
    steps::{
        ClcAction,
        ClcRequest,
        Prepared, //
    },
    terms::{
        GroupLimits,
        Terms,
        Version,
        RELEASE, //
    },
};

// For tests, which build and judge messages themselves.
#[cfg(any(test, fuzzing))]
pub(crate) use self::error::ClcError;
#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
pub(crate) use self::error::ProtocolError;
#[cfg(test)]
pub(crate) use self::error::Reserved;
#[cfg(test)]
pub(crate) use self::first_contact::{
    FirstContact,
    GidList, //
};
#[cfg(any(test, fuzzing, CONFIG_RDMA_SOCK_KUNIT_TEST))]
pub(crate) use self::{
    decline::Decline,
    message::ClcMessage, //
};
