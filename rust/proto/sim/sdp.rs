// SPDX-License-Identifier: GPL-2.0

//! Two SDP connections, with everything that a link and two applications may do to them.

mod cancels;
mod counters;
mod crowd;
mod end;
mod pair;
mod persist;
mod rude;
mod runs;

use super::{
    for_seeds,
    Rng, //
};
use crate::proto::{
    base::time::{
        Duration,
        Instant, //
    },
    sdp::{
        conn::{
            ConnTimers,
            RxBuffer,
            SdpConfig,
            SdpConn, //
        },
        hello::ReadDepths,
        profile::{
            Profile,
            SdpTransport, //
        },
        setup::{
            SdpTerms,
            SetupRole, //
        },
        sink::{
            ReadOp,
            ReadTo,
            RxPlan,
            SinkItem, //
        },
        source::PayloadFrom, //
    },
};

/// Octets of a stream, by side and position.
fn octet(side: usize, position: u64) -> u8 {
    super::app::pattern(side, position)
}

/// Terms of side `side` of a connection with `bufs` receive buffers of `size` octets.
fn terms(transport: SdpTransport, side: usize, bufs: u16, size: u32) -> SdpTerms {
    SdpTerms {
        profile: Profile::new(transport),
        role: match side {
            0 => SetupRole::Connecting,
            _ => SetupRole::Accepting,
        },
        peer_bufs: bufs,
        peer_size: size,
        peer_adverts: 4,
        bufs,
        size,
        adverts: 4,
        depths: ReadDepths { ird: 3, ord: 3 },
        invalidates: true,
    }
}
