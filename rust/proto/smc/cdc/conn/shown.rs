// SPDX-License-Identifier: GPL-2.0

//! What an administrator sees of a connection.

use super::Conn;
use crate::proto::smc::cursor::Wire;

/// The positions and flags of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Octets of the send buffer.
    pub(crate) sndbuf: u32,
    /// Octets of our element.
    pub(crate) local_rmbe: u32,
    /// Octets of the peer's element.
    pub(crate) peer_rmbe: u32,
    /// The peer's producer cursor.
    pub(crate) received: Wire,
    /// The peer's consumer cursor.
    pub(crate) acknowledged: Wire,
    /// Our producer cursor.
    pub(crate) produced: Wire,
    /// Our consumer cursor, which the peer may not know yet.
    pub(crate) consumed: Wire,
    /// The two octets of flags of the peer's last message.
    pub(crate) peer_flags: [u8; 2],
    /// Those of our last message.
    pub(crate) own_flags: [u8; 2],
    /// In the send buffer, the end of what the program wrote.
    pub(crate) accepted: Wire,
    /// The end of what the link was given.
    pub(crate) taken: Wire,
    /// The end of what the link has delivered.
    pub(crate) freed: Wire,
}

impl Conn {
    /// The positions and flags.
    pub(crate) fn report(&self) -> Report {
        let [accepted, taken, freed] = self.tx.shown();
        Report {
            sndbuf: self.tx.sizes().0,
            local_rmbe: self.rx.size(),
            peer_rmbe: self.tx.sizes().1,
            received: self.rx.produced().wire(),
            acknowledged: self.tx.acked().wire(),
            produced: self.tx.produced().wire(),
            consumed: self.rx.consumed().wire(),
            peer_flags: self.heard.octets(),
            own_flags: self.said.octets(),
            accepted: accepted.wire(),
            taken: taken.wire(),
            freed: freed.wire(),
        }
    }

    /// Whether nothing more is received, and whether nothing more is sent.
    pub(crate) fn shut(&self) -> (bool, bool) {
        let received = self.close.is_read_shut() || self.close.stream_has_ended();
        (received, !self.close.is_open_for_sending())
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_cdc_shown))]
mod tests {
    use super::*;
    use crate::proto::{
        base::time::Instant,
        smc::{
            cdc::ConnConfig,
            close::CloseTimers,
            wire::AlertToken, //
        },
    };

    #[test]
    fn report_has_what_was_written_and_sent() -> Result<(), ()> {
        let now = Instant::from_nanos(1);
        let config = ConnConfig {
            token: AlertToken::new(7),
            sndbuf: 1 << 16,
            local_rmbe: 1 << 15,
            peer_rmbe: 1 << 14,
            origin: 0,
            cork_bytes: 0,
            max_write: 0,
            timers: CloseTimers::DEFAULT,
        };
        let mut conn = Conn::new(&config).ok_or(())?;
        conn.write(now, 100);
        let report = conn.report();
        let sizes = (report.sndbuf, report.local_rmbe, report.peer_rmbe);
        assert_eq!(sizes, (1 << 16, 1 << 15, 1 << 14));
        assert_eq!((report.accepted.offset, report.taken.offset), (100, 0));
        assert_eq!(report.own_flags, [0, 0]);
        conn.poll_transmit(now).ok_or(())?;
        let report = conn.report();
        assert_eq!((report.taken.offset, report.produced.offset), (100, 100));
        assert_eq!(report.freed.offset, 0);
        assert_eq!(conn.shut(), (false, false));
        conn.shutdown_write();
        conn.poll_transmit(now).ok_or(())?;
        assert_eq!(conn.report().own_flags, [0, 0x80]);
        assert_eq!(conn.shut(), (false, true));
        Ok(())
    }
}
