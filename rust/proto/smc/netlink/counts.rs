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
    to.nest(7, |to| {
        to.nest(2, |to| {
            sizes(to, 1, &Sizes::default());
            sizes(to, 2, &Sizes::default());
            sizes(to, 3, &counts.tx_sizes);
            sizes(to, 4, &counts.rx_sizes);
            for kind in [5, 6] {
                to.nest(kind, |to| (1..=7).for_each(|kind| to.u64(kind, 0)));
            }
            to.u64(7, client_1);
            to.u64(8, client_2);
            to.u64(9, server_1);
            to.u64(10, server_2);
            for kind in 11..=15 {
                to.u64(kind, 0);
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
