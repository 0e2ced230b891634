// SPDX-License-Identifier: GPL-2.0

//! Replies of sock_diag for the family of SMC: a socket, and what its connection uses.
//!
//! Format: `include/uapi/linux/smc_diag.h`, and `struct inet_diag_sockid`.

use super::attributes::{
    gid_text,
    Attributes, //
};
use crate::proto::smc::{
    cdc::Report,
    close::CloseState,
    cursor::Wire,
    llc::Role, //
};

/// The family of SMC sockets.
const AF_SMC: u8 = 43;

/// Type numbers of the attributes.
const CONNINFO: u16 = 1;
const LGRINFO: u16 = 2;
const SHUTDOWN: u16 = 3;
const FALLBACK: u16 = 5;

/// Octets of the longest message.
pub(crate) const MAX_BYTES: usize = 320;

/// Octets of a device's name.
const NAME_BYTES: usize = 64;

/// Octets of a GID as text, with the nul behind it.
const GID_BYTES: usize = 40;

/// The reason for a fallback that the peer has asked for; its own reason comes beside it.
pub(crate) const PEER_DECLINED: u32 = 0x0500_0000;

/// What a tool asks for besides the sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    /// The state of the connections.
    pub(crate) connection: bool,
    /// Their link groups.
    pub(crate) group: bool,
}

impl Wants {
    /// Reads the body of a request: family, two octets of padding, bits. What is missing is zero.
    pub(crate) fn of_request(body: &[u8]) -> Self {
        let bits = body.get(3).copied().unwrap_or(0);
        let has = |kind: u16| (bits >> kind.saturating_sub(1)) & 1 != 0;
        Self {
            connection: has(CONNINFO),
            group: has(LGRINFO),
        }
    }
}

/// What carries the data of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// SMC-R, or that is not decided.
    Smcr,
    /// TCP.
    Tcp,
}

/// The state of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiagState {
    /// Not connected yet.
    Init,
    /// It accepts connections.
    Listen,
    /// Data may flow, by TCP.
    Active,
    /// Over.
    Closed,
    /// A connection by RDMA is in this state.
    Close(CloseState),
}

impl DiagState {
    /// The number that tools know it by.
    const fn code(self) -> u8 {
        match self {
            Self::Active | Self::Close(CloseState::Active) => 1,
            Self::Init => 2,
            Self::Closed | Self::Close(CloseState::Closed) => 7,
            Self::Listen => 10,
            Self::Close(CloseState::PeerCloseWait1) => 20,
            Self::Close(CloseState::PeerCloseWait2) => 21,
            Self::Close(CloseState::AppCloseWait1) => 22,
            Self::Close(CloseState::AppCloseWait2) => 23,
            Self::Close(CloseState::AppFinCloseWait) => 24,
            Self::Close(CloseState::PeerFinCloseWait) => 25,
            Self::Close(CloseState::PeerAbortWait) => 26,
            Self::Close(CloseState::ProcessAbort) => 27,
        }
    }
}

/// An address with its port. One of IPv4 is in the first four octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiagAddress {
    /// The octets of the address.
    pub(crate) ip: [u8; 16],
    /// The port.
    pub(crate) port: u16,
}

impl DiagAddress {
    /// A place on IPv4.
    pub(crate) const fn v4([a, b, c, d]: [u8; 4], port: u16) -> Self {
        let ip = [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        Self { ip, port }
    }
}

/// A socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiagSocket {
    /// Its state.
    pub(crate) state: DiagState,
    /// What carries its data.
    pub(crate) carrier: Carrier,
    /// This end.
    pub(crate) local: DiagAddress,
    /// The other end.
    pub(crate) peer: DiagAddress,
    /// The network device that it is bound to, or 0.
    pub(crate) ifindex: u32,
    /// A number unlike that of any other socket.
    pub(crate) cookie: u64,
    /// Its user.
    pub(crate) uid: u32,
    /// Its inode, 0 without a file.
    pub(crate) inode: u64,
    /// What is shut down: receiving (1), sending (2).
    pub(crate) shutdown: u8,
    /// Why it is TCP, and why the peer said so.
    pub(crate) fallback: (u32, u32),
}

/// The connection of a socket by RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiagConnection {
    /// The token that the peer names it by.
    pub(crate) token: u32,
    /// Its positions and flags.
    pub(crate) report: Report,
}

/// The link that a connection writes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiagLink<'a> {
    /// Its number in the group.
    pub(crate) number: u8,
    /// The RDMA device.
    pub(crate) device: &'a [u8],
    /// The port.
    pub(crate) port: u8,
    /// The address of this end.
    pub(crate) gid: [u8; 16],
    /// The address of the other end.
    pub(crate) peer_gid: [u8; 16],
    /// The side in the link group.
    pub(crate) role: Role,
}

/// Writes the message of a socket.
pub(crate) fn encode(
    to: &mut Attributes<'_>,
    socket: &DiagSocket,
    connection: Option<&DiagConnection>,
    link: Option<&DiagLink<'_>>,
) {
    let carrier = match socket.carrier {
        Carrier::Smcr => 0,
        Carrier::Tcp => 1,
    };
    to.raw(&[AF_SMC, socket.state.code(), carrier, 0]);
    to.raw(&socket.local.port.to_be_bytes());
    to.raw(&socket.peer.port.to_be_bytes());
    to.raw(&socket.local.ip);
    to.raw(&socket.peer.ip);
    to.raw(&socket.ifindex.to_ne_bytes());
    let [a, b, c, d, e, f, g, h] = socket.cookie.to_le_bytes();
    // Two numbers, the lower half first.
    to.raw(&u32::from_le_bytes([a, b, c, d]).to_ne_bytes());
    to.raw(&u32::from_le_bytes([e, f, g, h]).to_ne_bytes());
    to.raw(&socket.uid.to_ne_bytes());
    to.raw(&socket.inode.to_ne_bytes());
    to.u8(SHUTDOWN, socket.shutdown);
    let (reason, diagnosis) = socket.fallback;
    let mut fallback = [0; 8];
    let mut value = Attributes::new(&mut fallback);
    value.raw(&reason.to_ne_bytes());
    value.raw(&diagnosis.to_ne_bytes());
    to.put(FALLBACK, &fallback);
    if let Some(connection) = connection {
        put_connection(to, connection);
    }
    if let Some(link) = link {
        put_link(to, link);
    }
}

/// A cursor as tools read it.
fn put_cursor(to: &mut Attributes<'_>, cursor: Wire) {
    to.raw(&[0; 2]);
    to.raw(&cursor.wrap.to_ne_bytes());
    to.raw(&cursor.offset.to_ne_bytes());
}

fn put_connection(to: &mut Attributes<'_>, connection: &DiagConnection) {
    let report = &connection.report;
    let mut octets = [0; 76];
    let mut value = Attributes::new(&mut octets);
    value.raw(&connection.token.to_ne_bytes());
    value.raw(&report.sndbuf.to_ne_bytes());
    value.raw(&report.local_rmbe.to_ne_bytes());
    value.raw(&report.peer_rmbe.to_ne_bytes());
    put_cursor(&mut value, report.received);
    put_cursor(&mut value, report.acknowledged);
    put_cursor(&mut value, report.produced);
    put_cursor(&mut value, report.consumed);
    value.raw(&report.peer_flags);
    value.raw(&report.own_flags);
    put_cursor(&mut value, report.accepted);
    put_cursor(&mut value, report.taken);
    put_cursor(&mut value, report.freed);
    to.put(CONNINFO, &octets);
}

fn put_link(to: &mut Attributes<'_>, link: &DiagLink<'_>) {
    let mut octets = [0; 147];
    let mut value = Attributes::new(&mut octets);
    let padded = |value: &mut Attributes<'_>, text: &[u8], size: usize| {
        // A nul stays behind a name that is too long.
        let text = text.get(..size.saturating_sub(1)).unwrap_or(text);
        value.raw(text);
        for _ in text.len()..size {
            value.raw(&[0]);
        }
    };
    value.raw(&[link.number]);
    padded(&mut value, link.device, NAME_BYTES);
    value.raw(&[link.port]);
    padded(&mut value, &gid_text(link.gid), GID_BYTES);
    padded(&mut value, &gid_text(link.peer_gid), GID_BYTES);
    value.raw(&[match link.role {
        Role::Client => 0,
        Role::Server => 1,
    }]);
    to.put(LGRINFO, &octets);
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_netlink_diag))]
mod tests {
    use super::*;

    const SOCKET: DiagSocket = DiagSocket {
        state: DiagState::Close(CloseState::AppCloseWait1),
        carrier: Carrier::Smcr,
        local: DiagAddress::v4([10, 9, 0, 1], 0x1234),
        peer: DiagAddress::v4([10, 9, 0, 2], 5000),
        ifindex: 7,
        cookie: 0x1122_3344_5566_7788,
        uid: 1000,
        inode: 25031,
        shutdown: 2,
        fallback: (PEER_DECLINED, 0x0303_0008),
    };

    #[test]
    fn socket_has_the_layout_of_the_header_file() {
        let mut room = [0; MAX_BYTES];
        let mut message = Attributes::new(&mut room);
        encode(&mut message, &SOCKET, None, None);
        let octets = message.finish().unwrap_or_default();
        assert_eq!(octets.len(), 64 + 8 + 12);
        assert_eq!(octets[..4], [43, 22, 0, 0]);
        assert_eq!(octets[4..8], [0x12, 0x34, 0x13, 0x88]);
        assert_eq!(octets[8..14], [10, 9, 0, 1, 0, 0]);
        assert_eq!(octets[24..30], [10, 9, 0, 2, 0, 0]);
        assert_eq!(octets[40..44], 7_u32.to_ne_bytes());
        assert_eq!(octets[44..48], 0x5566_7788_u32.to_ne_bytes());
        assert_eq!(octets[48..52], 0x1122_3344_u32.to_ne_bytes());
        assert_eq!(octets[52..56], 1000_u32.to_ne_bytes());
        assert_eq!(octets[56..64], 25031_u64.to_ne_bytes());
        assert_eq!(octets[66..68], 3_u16.to_ne_bytes());
        assert_eq!(octets[68], 2);
        assert_eq!(octets[74..76], 5_u16.to_ne_bytes());
        assert_eq!(octets[76..80], 0x0500_0000_u32.to_ne_bytes());
        assert_eq!(octets[80..84], 0x0303_0008_u32.to_ne_bytes());
    }

    #[test]
    fn longest_message_fits() {
        let cursor = |offset| Wire { wrap: 1, offset };
        let report = Report {
            sndbuf: 1,
            local_rmbe: 2,
            peer_rmbe: 3,
            received: cursor(4),
            acknowledged: cursor(5),
            produced: cursor(6),
            consumed: cursor(7),
            peer_flags: [0x80, 0x40],
            own_flags: [0x10, 0x20],
            accepted: cursor(8),
            taken: cursor(9),
            freed: cursor(10),
        };
        let connection = DiagConnection { token: 11, report };
        let link = DiagLink {
            number: 2,
            device: &[b'x'; 80],
            port: 1,
            gid: [0xab; 16],
            peer_gid: [0; 16],
            role: Role::Server,
        };
        let mut room = [0xff; MAX_BYTES];
        let mut message = Attributes::new(&mut room);
        encode(&mut message, &SOCKET, Some(&connection), Some(&link));
        let octets = message.finish().unwrap_or_default();
        assert_eq!(octets.len(), 84 + 80 + 152);
        let info = &octets[88..164];
        assert_eq!(info[..4], 11_u32.to_ne_bytes());
        assert_eq!(info[12..16], 3_u32.to_ne_bytes());
        assert_eq!(info[18..20], 1_u16.to_ne_bytes());
        assert_eq!(info[20..24], 4_u32.to_ne_bytes());
        assert_eq!(info[48..52], [0x80, 0x40, 0x10, 0x20]);
        assert_eq!(info[72..76], 10_u32.to_ne_bytes());
        let group = &octets[168..315];
        assert_eq!((group[0], group[63], group[64], group[65]), (2, b'x', 0, 1));
        assert_eq!(&group[66..70], b"abab");
        assert_eq!((group[105], group[145], group[146]), (0, 0, 1));
    }

    #[test]
    fn short_request_wants_nothing() {
        assert_eq!(Wants::of_request(&[43, 0]), Wants::default());
        let both = Wants::of_request(&[43, 0, 0, 3]);
        assert!(both.connection && both.group);
        assert!(!Wants::of_request(&[43, 0, 0, 8]).connection);
    }
}
