// SPDX-License-Identifier: GPL-2.0

//! The order of the connections.

use clap::ValueEnum;
use std::cmp::Ordering;

use super::model::Row;

/// The column that connections are sorted by.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum SortKey {
    /// All payload in a second, the highest first
    #[default]
    Rate,
    /// Payload sent by RDMA, the highest first
    Sent,
    /// Payload received by RDMA, the highest first
    Received,
    /// Payload over TCP, the highest first
    Tcp,
    /// Name of the program
    Program,
    /// PID
    Pid,
    /// Address of the peer
    Peer,
    /// smc, sdp, tcp, pending, listen
    Mode,
}

impl SortKey {
    /// The next one, in the order above.
    pub(super) fn next(self) -> Self {
        let all = Self::value_variants();
        let place = all.iter().position(|key| *key == self).unwrap_or_default();
        all.get(place + 1).copied().unwrap_or_default()
    }

    /// The name of the key on the command line.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or(String::new(), |value| value.get_name().to_string())
    }

    /// Compares two rows. Rows that are alike keep a fixed order.
    pub(super) fn compare(self, one: &Row, other: &Row) -> Ordering {
        let (a, b) = (&one.conn, &other.conn);
        let order = match self {
            Self::Rate => other.rate().cmp(&one.rate()),
            Self::Sent => b.tx_bytes.cmp(&a.tx_bytes),
            Self::Received => b.rx_bytes.cmp(&a.rx_bytes),
            Self::Tcp => b.tcp_bytes.cmp(&a.tcp_bytes),
            Self::Program => a.program().cmp(b.program()),
            Self::Pid => pid(one).cmp(&pid(other)),
            Self::Peer => a.peer.cmp(&b.peer),
            Self::Mode => rank(one).cmp(&rank(other)),
        };
        order.then_with(|| (rank(one), a.ino).cmp(&(rank(other), b.ino)))
    }
}

fn pid(row: &Row) -> Option<u32> {
    row.conn.processes.first().map(|process| process.pid)
}

/// Connections with payload come before listeners.
fn rank(row: &Row) -> u8 {
    match row.conn.mode.as_deref() {
        Some("smc") => 0,
        Some("sdp") => 1,
        Some("tcp") => 2,
        Some("pending") => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_key_comes_back_to_the_first() {
        let mut key = SortKey::default();
        for _ in SortKey::value_variants() {
            key = key.next();
        }
        assert_eq!(key, SortKey::default());
        assert_eq!(SortKey::Received.name(), "received");
    }
}
