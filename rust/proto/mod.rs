// SPDX-License-Identifier: GPL-2.0

//! The protocol cores: formats and state machines, without any input or output.
//!
//! Everything here takes octets, events and the time as arguments and answers with values; nothing
//! locks, allocates, prints, sleeps or looks at a clock. The engines own all effects. The same files
//! are compiled into the modules and, by `tools/host`, into a host crate where they are tested with
//! properties and simulated peers.
//!
//! | What                                       | Folder     |
//! |--------------------------------------------|------------|
//! | Time, queues and retries of any protocol   | [`base`]   |
//! | Byte streams of any protocol               | [`stream`] |
//! | SMC-R, RFC 7609                            | [`smc`]    |
//! | SDP, draft-pinkerton-iwarp-sdp-01          | [`sdp`]    |
//! | Transport of the software RNIC             | `roce`     |
//!
//! Inputs are methods `handle_x(now, …)`, outputs are `poll_x()`; plain verbs are commands of the
//! layer above. References such as `CLC-101` name rows of the project's requirement list.

#![forbid(unsafe_code)]

pub(crate) mod base;
// The device mounts it when there is one.
#[cfg(any(test, fuzzing))]
pub(crate) mod roce;
#[cfg_attr(
    not(any(test, fuzzing)),
    expect(dead_code, reason = "for the zero copy that does not exist yet")
)]
pub(crate) mod sdp;
pub(crate) mod smc;
pub(crate) mod stream;

#[cfg(test)]
mod sim;
