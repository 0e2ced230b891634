// SPDX-License-Identifier: GPL-2.0

//! What differs between SDP over iWARP and SDP over InfiniBand or RoCE.

use super::serial::Serial;

/// The order of the fields inside the 32-bit words of a header (SDP-WIRE-01, AMB-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireLayout {
    /// The message identifier is the first octet, as in the SDP of InfiniBand (WIRE-B).
    IdFirst,
    /// The message identifier is the fourth octet, as the figures of the draft can be read
    /// (WIRE-L).
    IdLast,
}

/// How Hello and HelloAck reach the peer, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SdpTransport {
    /// InfiniBand and RoCE: in the private data of CM REQ and REP, in the form of InfiniBand.
    Annex,
    /// iWARP by the connection manager: in the private data of the MPA request and reply.
    Iwcm,
    /// iWARP by the letter of the draft: Hello ahead of MPA, HelloAck as the first Send.
    Strict,
}

/// What a peer understands of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// All of the draft.
    Full,
    /// Bcopy and Read Zcopy in Combined Mode with a single advert, as OFED implements it.
    CombinedOnly,
}

/// What a connection has to know of its transport and of its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    /// How the set-up messages travel.
    pub(crate) transport: SdpTransport,
    /// Layout of every header.
    pub(crate) layout: WireLayout,
    /// Number of our first message behind Hello or HelloAck (SDP-BSDH-19, AMB-04, SDP-IB-19).
    pub(crate) first_mseq: Serial,
    /// What the peer understands.
    pub(crate) dialect: Dialect,
}

impl Profile {
    /// The profile of a transport, with a peer that understands all.
    pub(crate) const fn new(transport: SdpTransport) -> Self {
        let first = match transport {
            SdpTransport::Annex => 1,
            SdpTransport::Iwcm | SdpTransport::Strict => 0,
        };
        Self {
            transport,
            layout: WireLayout::IdFirst,
            first_mseq: Serial::new(first),
            dialect: Dialect::Full,
        }
    }

    /// Whether HelloAck takes up a receive buffer and a credit (SDP-CRED-09, SDP-IB-04).
    pub(crate) const fn acks_in_band(self) -> bool {
        matches!(self.transport, SdpTransport::Strict)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_sdp_profile))]
mod tests {
    use super::*;

    // AMB-04, SDP-IB-19, SDP-CRED-09, SDP-IB-04.
    #[test]
    fn profile_of_each_transport_has_its_first_number() {
        for (transport, first, in_band) in [
            (SdpTransport::Annex, 1, false),
            (SdpTransport::Iwcm, 0, false),
            (SdpTransport::Strict, 0, true),
        ] {
            let profile = Profile::new(transport);
            assert_eq!(profile.first_mseq.get(), first);
            assert_eq!(profile.acks_in_band(), in_band);
            assert_eq!(profile.layout, WireLayout::IdFirst);
        }
    }
}
