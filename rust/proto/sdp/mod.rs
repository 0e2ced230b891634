// SPDX-License-Identifier: GPL-2.0

//! The Sockets Direct Protocol, draft-pinkerton-iwarp-sdp-01: formats and state machines.
//!
//! | What                                             | Draft           | File          |
//! |--------------------------------------------------|-----------------|---------------|
//! | Sequence numbers that wrap                       | 5               | [`serial`]    |
//! | What differs between iWARP and InfiniBand        | -               | [`profile`]   |
//! | Base header, and message identifiers             | 6.1             | [`wire`]      |
//! | The messages of a connection                     | 6.2 to 6.5      | [`msg`]       |
//! | The two messages of the set-up                   | 6.2.1, 6.2.2    | [`hello`]     |
//! | How a connection comes about                     | 8.1             | [`setup`]     |
//! | Credits of both directions                       | 10              | [`credit`]    |
//!
//! References such as `SDP-CRED-04` name rows of the project's requirement list, `R-2` rules that
//! this implementation adds.

pub(crate) mod credit;
pub(crate) mod hello;
pub(crate) mod msg;
pub(crate) mod profile;
pub(crate) mod serial;
pub(crate) mod setup;
pub(crate) mod wire;
