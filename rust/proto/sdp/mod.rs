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
//! | Our sending half, and its SrcAvail adverts       | 9, 11           | [`source`]    |
//! | Memory that the stream is sent from              | 9.2             | [`extents`]   |
//! | SinkAvail adverts of the peer                    | 9.5.1           | [`discards`]  |
//! | Our receiving half, and the peer's adverts       | 9, 11           | [`sink`]      |
//! | Urgent data                                      | 9.5.3           | [`oob`]       |
//! | What a connection measures of itself             | -               | [`meter`]     |
//! | Receive buffers of another size                  | 10.6            | [`resize`]    |
//! | Moves of the peer                                | 13              | [`suspend`]   |
//! | The end                                          | 8.2             | [`teardown`]  |
//! | A peer that gives no credits                     | -               | [`persist`]   |
//! | Whether a message may be posted                  | 10.5, 8.2, 13   | [`gate`]      |
//! | All of it together                               | -               | [`conn`]      |
//! | Which services are there by SDP                  | 7               | [`pm`]        |
//! | Which connections a host takes part in           | 15              | [`admission`] |
//!
//! References such as `SDP-CRED-04` name rows of the project's requirement list. These rules are
//! this implementation's own:
//!
//! | Rule | What                                                                                  |
//! |------|---------------------------------------------------------------------------------------|
//! | R-1  | What is due is state, and becomes a message when it is posted                         |
//! | R-2  | While a SrcAvail of the peer is open, the second credit is kept for what ends it      |
//! | R-3  | A message that is held back from acknowledgement is made up for by a spare buffer     |
//! | R-4  | A cancel without an end aborts the connection                                         |
//! | R-5  | One late answer to a cancel that was over before is ignored                           |
//! | R-6  | Over MPA the connecting end sends first, and again if a driver may have lost it       |
//! | R-7  | A refusal that was not sent is void when a cancel comes                               |
//! | R-8  | Data that lacks nothing but an acknowledgement asks for it                            |
//! | R-9  | A SinkAvail that refused data used up voids the SrcAvail sent before that data        |

pub(crate) mod admission;
pub(crate) mod conn;
pub(crate) mod credit;
pub(crate) mod discards;
pub(crate) mod extents;
pub(crate) mod fifo;
pub(crate) mod gate;
pub(crate) mod hello;
#[cfg(test)]
mod hex;
pub(crate) mod meter;
pub(crate) mod msg;
pub(crate) mod oob;
pub(crate) mod persist;
pub(crate) mod pm;
pub(crate) mod policy;
pub(crate) mod profile;
pub(crate) mod resize;
pub(crate) mod serial;
pub(crate) mod setup;
pub(crate) mod sink;
pub(crate) mod source;
pub(crate) mod suspend;
pub(crate) mod teardown;
pub(crate) mod violation;
pub(crate) mod wire;
