// SPDX-License-Identifier: GPL-2.0

//! Counts of a namespace, as `smcr stats` reads them.

use super::attributes::Attributes;
use crate::proto::stream::sizes::CLASSES;

/// Octets of the longest message.
pub(crate) const MAX_BYTES: usize = 1536;

/// Counts by sizes.
pub(crate) type Sizes = [u64; CLASSES];

/// The counts of a namespace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Calls that sent something, by the octets asked for.
    pub(crate) tx_sizes: Sizes,
    /// Calls that received something, by its octets.
    pub(crate) rx_sizes: Sizes,
    /// Handshakes as client and as server that ended in SMC: version 1, version 2.
    pub(crate) established: [[u64; 2]; 2],
    /// Handshakes as client and as server that ended the connection.
    pub(crate) aborted: [u64; 2],
    /// Octets received and sent.
    pub(crate) bytes: [u64; 2],
    /// Calls that receive and that send.
    pub(crate) calls: [u64; 2],
    /// Octets of buffers in use, to receive and to send.
    pub(crate) usage: [u64; 2],
    /// Buffers that connections got, to receive and to send.
    pub(crate) buffers: [Buffers; 2],
    /// Calls of splice() from a socket.
    pub(crate) splices: u64,
    /// Calls that took TCP_CORK back.
    pub(crate) uncorks: u64,
    /// Calls that set TCP_NODELAY.
    pub(crate) nodelays: u64,
    /// Calls for urgent data.
    pub(crate) urgents: u64,
}

/// Counts of buffers of a direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Buffers {
    /// By their sizes.
    pub(crate) sizes: Sizes,
    /// Calls that sent more than the peer's buffer holds.
    pub(crate) small_at_peer: u64,
    /// Calls that sent more than the buffer holds, or read less than there was.
    pub(crate) small: u64,
    /// Calls that found the peer's buffer full.
    pub(crate) full_at_peer: u64,
    /// Calls that found the buffer full.
    pub(crate) full: u64,
    /// Those that another connection has had.
    pub(crate) reused: u64,
    /// New ones.
    pub(crate) made: u64,
    /// Those smaller than wanted.
    pub(crate) smaller: u64,
}

impl Buffers {
    /// In the order of the types.
    const fn in_order(&self) -> [u64; 7] {
        [
            self.small_at_peer,
            self.small,
            self.full_at_peer,
            self.full,
            self.reused,
            self.made,
            self.smaller,
        ]
    }
}

/// Writes the counts. Tools want each nest of a technology.
pub(crate) fn encode_counts(to: &mut Attributes<'_>, counts: &Counts) {
    let sizes = |to: &mut Attributes<'_>, kind, sizes: &Sizes| {
        to.nest(kind, |to| {
            for (kind, count) in (1..).zip(sizes) {
                to.u64(kind, *count);
            }
        });
    };
    let [[client_1, client_2], [server_1, server_2]] = counts.established;
    let ([client_errors, server_errors], [rx, tx]) = (counts.aborted, counts.bytes);
    let ([rx_calls, tx_calls], [rx_usage, tx_usage]) = (counts.calls, counts.usage);
    let [received, sent] = &counts.buffers;
    to.nest(7, |to| {
        to.nest(2, |to| {
            sizes(to, 1, &sent.sizes);
            sizes(to, 2, &received.sizes);
            sizes(to, 3, &counts.tx_sizes);
            sizes(to, 4, &counts.rx_sizes);
            for (kind, buffers) in [(5, sent), (6, received)] {
                to.nest(kind, |to| {
                    for (kind, count) in (1..).zip(buffers.in_order()) {
                        to.u64(kind, count);
                    }
                });
            }
            to.u64(7, client_1);
            to.u64(8, client_2);
            to.u64(9, server_1);
            to.u64(10, server_2);
            // sendfile() is no call of its own.
            let rare = [
                0,
                counts.splices,
                counts.uncorks,
                counts.nodelays,
                counts.urgents,
            ];
            for (kind, count) in (11..).zip(rare) {
                to.u64(kind, count);
            }
            to.u64(16, rx);
            to.u64(17, tx);
            to.u64(18, rx_calls);
            to.u64(19, tx_calls);
            to.uint(20, rx_usage);
            to.uint(21, tx_usage);
        });
        to.u64(3, client_errors);
        to.u64(4, server_errors);
    });
}

/// A reason of fallbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fallback {
    /// They were the server's.
    pub(crate) is_server: bool,
    /// The reason.
    pub(crate) code: u32,
    /// How often it came.
    pub(crate) count: u64,
}

/// Writes a reason of fallbacks; the first has the totals of client and server as well.
pub(crate) fn encode_fallback(
    to: &mut Attributes<'_>,
    fallback: &Fallback,
    totals: Option<[u64; 2]>,
) {
    to.nest(8, |to| {
        to.u8(1, fallback.is_server.into());
        if let Some([client, server]) = totals {
            to.u64(2, server);
            to.u64(3, client);
        }
        to.u32(4, fallback.code);
        to.u16(5, u16::try_from(fallback.count).unwrap_or(u16::MAX));
    });
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_netlink_counts))]
mod tests {
    use super::*;

    #[test]
    fn counts_fit_with_the_longest_numbers() {
        let counts = Counts {
            usage: [u64::MAX; 2],
            bytes: [3, 4],
            nodelays: 5,
            buffers: [
                Buffers::default(),
                Buffers {
                    full: 6,
                    ..Buffers::default()
                },
            ],
            ..Counts::default()
        };
        let mut room = [0; MAX_BYTES];
        let mut message = Attributes::new(&mut room);
        encode_counts(&mut message, &counts);
        let octets = message.finish().unwrap_or_default();
        let class = 4 + 9 * 12;
        let stats = 4 + 7 * 12;
        assert_eq!(
            octets.len(),
            4 + 4 + 4 * class + 2 * stats + 15 * 12 + 2 * 12
        );
        let rx_bytes = 8 + 4 * class + 2 * stats + 9 * 12;
        assert_eq!(octets[rx_bytes + 2..rx_bytes + 4], 16_u16.to_ne_bytes());
        assert_eq!(octets[rx_bytes + 4..rx_bytes + 12], 3_u64.to_ne_bytes());
        let nodelay = rx_bytes - 2 * 12;
        assert_eq!(octets[nodelay + 2..nodelay + 4], 14_u16.to_ne_bytes());
        assert_eq!(octets[nodelay + 4..nodelay + 12], 5_u64.to_ne_bytes());
        let full = 8 + 4 * class + 4 + 3 * 12;
        assert_eq!(octets[full + 2..full + 4], 4_u16.to_ne_bytes());
        assert_eq!(octets[full + 4..full + 12], 6_u64.to_ne_bytes());
    }

    #[test]
    fn first_reason_has_both_totals() {
        let fallback = Fallback {
            is_server: true,
            code: 0x0303_0000,
            count: 70_000,
        };
        let mut room = [0; 64];
        let mut message = Attributes::new(&mut room);
        encode_fallback(&mut message, &fallback, Some([1, 2]));
        let octets = message.finish().unwrap_or_default();
        assert_eq!(octets.len(), 4 + 8 + 12 + 12 + 8 + 8);
        assert_eq!(octets[16..24], 2_u64.to_ne_bytes());
        assert_eq!(octets[28..36], 1_u64.to_ne_bytes());
        assert_eq!(octets[48..50], u16::MAX.to_ne_bytes());
    }
}
