// SPDX-License-Identifier: GPL-2.0

//! Why a connection is not, or no longer, carried by SMC-R.
//!
//! RFC 7609 leaves the diagnosis of an SMC Decline to the implementation (CLC-403, DEP-9). The
//! codes are those Linux has sent for years, so that existing tools can name them. Reasons that
//! only this side can know are kept apart in [`LocalReason`] and never travel: a Decline carries
//! [`Reason::Configuration`] in their place.

/// Defines [`Reason`] from one table, so that codes, names and variants cannot disagree.
macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal;)*) => {
        /// A reason for falling back to TCP or for giving up a connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Reason {
            $($(#[$doc])* $variant,)*
            /// A reason that never travels.
            Local(LocalReason),
            /// A code of the peer that is not in the table.
            Unknown(u32),
        }

        impl Reason {
            /// Every reason of the table.
            #[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code for statistics and sock_diag.
            pub(crate) const fn code(self) -> u32 {
                match self {
                    $(Self::$variant => $code,)*
                    Self::Local(local) => local.code(),
                    Self::Unknown(code) => code,
                }
            }

            /// A short name for people.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Local(local) => local.name(),
                    Self::Unknown(_) => "unknown",
                }
            }

            /// Reads the diagnosis of a Decline. Total: other codes are kept as they are.
            pub(crate) const fn from_code(code: u32) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    _ => Self::Unknown(code),
                }
            }
        }
    };
}

reasons! {
    /// No memory for the connection.
    Memory = 0x0101_0000, "out of memory";
    /// The peer's CONFIRM LINK did not come in time.
    TimeoutConfirmLink = 0x0201_0000, "timeout waiting for CONFIRM LINK";
    /// The peer's ADD LINK did not come in time.
    TimeoutAddLink = 0x0202_0000, "timeout waiting for ADD LINK";
    /// Local set-up does not allow it.
    Configuration = 0x0300_0000, "configuration error";
    /// The peer did not offer SMC in its TCP option.
    PeerNoSmc = 0x0301_0000, "peer did not indicate SMC";
    /// The connection is protected by IPsec (SEC-06).
    Ipsec = 0x0302_0000, "IPsec in use";
    /// No device at all.
    NoSmcDevice = 0x0303_0000, "no SMC device found";
    /// No internal shared memory device.
    NoSmcdDevice = 0x0303_0001, "no SMC-D device found";
    /// No RDMA device that reaches the peer.
    NoSmcrDevice = 0x0303_0002, "no SMC-R device found";
    /// No internal shared memory device of version 2.
    NoIsmV2 = 0x0303_0003, "hardware has no ISMv2 support";
    /// The peer sent no extension of version 2.
    NoV2Extension = 0x0303_0004, "peer sent no SMCv2 extension";
    /// The peer sent no SMC-D extension of version 2.
    NoV2dExtension = 0x0303_0005, "peer sent no SMC-Dv2 extension";
    /// The peer sent no system enterprise identifier.
    NoSeid = 0x0303_0006, "peer sent no SEID";
    /// No SMC-D device of version 2.
    NoSmcdV2Device = 0x0303_0007, "no SMC-Dv2 device found";
    /// No user-defined enterprise identifier in common.
    NoUeid = 0x0303_0008, "peer sent no common UEID";
    /// Releases could not be agreed on.
    ReleaseError = 0x0303_0009, "release negotiation failed";
    /// The number of connections could not be agreed on.
    MaxConnectionsError = 0x0303_000a, "maximum connections negotiation failed";
    /// The number of links could not be agreed on.
    MaxLinksError = 0x0303_000b, "maximum links negotiation failed";
    /// The peer chose a transport that was not offered.
    ModeUnsupported = 0x0304_0000, "no supported SMC mode found";
    /// An element's eye catcher was destroyed.
    RmbeEyeCatcher = 0x0305_0000, "peer has eye catcher in RMBE";
    /// A socket option needs TCP.
    OptionUnsupported = 0x0306_0000, "fastopen or other unsupported socket option";
    /// Client and server are not in the same subnet (CLC-126, CLC-127).
    DifferentPrefix = 0x0307_0000, "IP prefix or subnet mismatch";
    /// The VLAN could not be determined.
    VlanLookup = 0x0308_0000, "cannot determine VLAN";
    /// The VLAN could not be registered.
    VlanRegister = 0x0309_0000, "cannot register VLAN";
    /// The link group has no active link.
    NoActiveLink = 0x030a_0000, "no active link in link group";
    /// No link of the link group matches what the server named (CLC-225).
    NoServerLink = 0x030b_0000, "link of server not found";
    /// No version in common.
    VersionMismatch = 0x030c_0000, "SMC version mismatch";
    /// Too many direct memory buffers.
    MaxBuffers = 0x030d_0000, "limit of memory buffers reached";
    /// No route to the peer.
    NoRoute = 0x030e_0000, "no route to peer";
    /// Only an indirect route, which is not allowed.
    NoIndirectRoute = 0x030f_0000, "indirect route not supported";
    /// The sides disagree on whether the link group exists (CLC-416).
    OutOfSync = 0x0400_0000, "link groups out of sync";
    /// The peer declined.
    PeerDeclined = 0x0500_0000, "peer declined";
    /// A fault of this implementation.
    Internal = 0x0999_0000, "internal error";
    /// The remote token could not be stored.
    RtokenTable = 0x0999_0001, "cannot store remote token";
    /// The queue pair could not be connected.
    ReadyLink = 0x0999_0002, "cannot make queue pair ready";
    /// The memory could not be registered.
    RegisterBuffer = 0x0999_0003, "cannot register memory";
}

/// Reasons that never leave this side; their codes are outside of those any peer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocalReason {
    /// The peer or a middlebox echoes TCP options it does not know, so its option means nothing.
    OptionEchoed,
    /// The TCP header had no room for the option.
    OptionNoRoom,
    /// The peer's octets are no CLC message (CLC-06).
    ClcProtocol,
    /// The peer's LLC or CDC message breaks the protocol.
    LinkProtocol,
    /// The peer's CLC message did not come in time (CLC-11).
    ClcTimeout,
    /// The TCP connection ended during the handshake.
    TcpClosed,
    /// A rule of the administrator allows only TCP.
    Policy,
    /// The client of an SDP listener connected by TCP.
    SdpNotTried,
    /// No device, no route, or an address of this host.
    SdpUnreachable,
    /// The host of the peer does not answer to the Port Mapper.
    SdpSilent,
    /// The peer, or its host, refused SDP.
    SdpRefused,
    /// The peer did not answer in time.
    SdpTimeout,
    /// The link went down during the set-up.
    SdpLinkDown,
    /// The Hello or HelloAck of the peer is not valid.
    SdpHello,
    /// The host of the peer is known to have no SDP, or its Port Mapper has said so.
    SdpAbsent,
    /// The connection manager of the peer has no listener for the service.
    SdpNoListener,
    /// The peer knows an older connection with the queue pair, each time.
    SdpStale,
    /// The peer has no room for another connection.
    SdpBusy,
    /// The administrator allows no SDP with this peer or port.
    SdpNotAllowed,
}

impl LocalReason {
    /// Every local reason.
    pub(crate) const ALL: &'static [Self] = &[
        Self::OptionEchoed,
        Self::OptionNoRoom,
        Self::ClcProtocol,
        Self::LinkProtocol,
        Self::ClcTimeout,
        Self::TcpClosed,
        Self::Policy,
        Self::SdpNotTried,
        Self::SdpUnreachable,
        Self::SdpSilent,
        Self::SdpRefused,
        Self::SdpTimeout,
        Self::SdpLinkDown,
        Self::SdpHello,
        Self::SdpAbsent,
        Self::SdpNoListener,
        Self::SdpStale,
        Self::SdpBusy,
        Self::SdpNotAllowed,
    ];

    /// The code for statistics and sock_diag.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::OptionEchoed => 0x7f00_0001,
            Self::OptionNoRoom => 0x7f00_0002,
            Self::ClcProtocol => 0x7f00_0003,
            Self::LinkProtocol => 0x7f00_0004,
            Self::ClcTimeout => 0x7f00_0005,
            Self::TcpClosed => 0x7f00_0006,
            Self::Policy => 0x7f00_0007,
            Self::SdpNotTried => 0x7f00_0101,
            Self::SdpUnreachable => 0x7f00_0102,
            Self::SdpSilent => 0x7f00_0103,
            Self::SdpRefused => 0x7f00_0104,
            Self::SdpTimeout => 0x7f00_0105,
            Self::SdpLinkDown => 0x7f00_0106,
            Self::SdpHello => 0x7f00_0107,
            Self::SdpAbsent => 0x7f00_0108,
            Self::SdpNoListener => 0x7f00_0109,
            Self::SdpStale => 0x7f00_010a,
            Self::SdpBusy => 0x7f00_010b,
            Self::SdpNotAllowed => 0x7f00_010c,
        }
    }

    /// A short name for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OptionEchoed => "peer echoes unknown TCP options",
            Self::OptionNoRoom => "no room for the TCP option",
            Self::ClcProtocol => "peer broke the CLC protocol",
            Self::LinkProtocol => "peer broke the protocol of the link",
            Self::ClcTimeout => "timeout waiting for a CLC message",
            Self::TcpClosed => "TCP connection ended during the handshake",
            Self::Policy => "TCP chosen by policy",
            Self::SdpNotTried => "peer connected by TCP",
            Self::SdpUnreachable => "no RDMA path to peer",
            Self::SdpSilent => "peer host silent to Port Mapper",
            Self::SdpRefused => "peer refused SDP",
            Self::SdpTimeout => "timeout waiting for SDP answer",
            Self::SdpLinkDown => "RDMA link down during SDP set-up",
            Self::SdpHello => "peer sent invalid Hello",
            Self::SdpAbsent => "peer host has no SDP",
            Self::SdpNoListener => "peer has no SDP listener for the port",
            Self::SdpStale => "peer knows an older connection with the queue pair",
            Self::SdpBusy => "peer has no room for another SDP connection",
            Self::SdpNotAllowed => "SDP not allowed by sysctl",
        }
    }
}

impl Reason {
    /// Reads a code this side stored by [`Self::code`]. Unlike one a peer sent, it may be local.
    pub(crate) fn from_stored(code: u32) -> Self {
        LocalReason::ALL
            .iter()
            .find(|local| local.code() == code)
            .map_or(Self::from_code(code), |local| Self::Local(*local))
    }

    /// The diagnosis to put in a Decline.
    pub(crate) const fn wire(self) -> u32 {
        match self {
            Self::Local(_) => Self::Configuration.code(),
            other => other.code(),
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_proto_reason))]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code()), *reason);
            assert_eq!(reason.wire(), reason.code());
            assert!(!reason.name().is_empty());
        }
        assert_eq!(Reason::ALL.len(), 36);
    }

    #[test]
    fn unknown_codes_survive() {
        assert_eq!(Reason::from_code(0xdead_beef), Reason::Unknown(0xdead_beef));
        assert_eq!(Reason::Unknown(0xdead_beef).wire(), 0xdead_beef);
        assert_eq!(Reason::Unknown(7).name(), "unknown");
    }

    #[test]
    fn local_reasons_never_travel() {
        for local in LocalReason::ALL {
            let reason = Reason::Local(*local);
            assert_eq!(reason.wire(), 0x0300_0000);
            assert_eq!(
                Reason::from_code(reason.code()),
                Reason::Unknown(local.code())
            );
            assert!(!reason.name().is_empty());
        }
    }

    #[test]
    fn stored_codes_read_back() {
        for local in LocalReason::ALL {
            let reason = Reason::Local(*local);
            assert_eq!(Reason::from_stored(reason.code()), reason);
        }
        for reason in Reason::ALL {
            assert_eq!(Reason::from_stored(reason.code()), *reason);
        }
        assert_eq!(Reason::from_stored(7), Reason::Unknown(7));
    }

    #[test]
    fn deployed_codes_are_kept() {
        assert_eq!(Reason::OutOfSync.code(), 0x0400_0000);
        assert_eq!(Reason::from_code(0x0301_0000), Reason::PeerNoSmc);
        assert_eq!(Reason::from_code(0x0999_0003), Reason::RegisterBuffer);
    }
}
