// SPDX-License-Identifier: GPL-2.0

//! A connection for the tests of this folder.

use super::{
    CloseTimers,
    Conn,
    ConnConfig, //
};
use crate::proto::{
    base::time::Instant,
    smc::wire::AlertToken, //
};

/// When the tests begin.
pub(super) const T0: Instant = Instant::from_nanos(1_000);

/// A connection with buffers of 64 KiB, before its first message.
pub(super) fn connection() -> Conn {
    let config = ConnConfig {
        token: AlertToken::new(7),
        sndbuf: 65_536,
        local_rmbe: 65_536,
        peer_rmbe: 65_536,
        origin: 0,
        cork_bytes: 0,
        max_write: 0,
        timers: CloseTimers::DEFAULT,
    };
    Conn::new(&config).unwrap()
}
