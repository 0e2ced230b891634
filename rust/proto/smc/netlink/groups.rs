// SPDX-License-Identifier: GPL-2.0

//! Link groups, their links, and devices, as `smcr` reads them.

use super::attributes::{
    gid_text,
    Attributes, //
};
use crate::proto::smc::{
    buffer_kind::BufferKind,
    clc::{
        System,
        Terms,
        Version, //
    },
    llc::{
        Role,
        Shape, //
    },
    pnet::PnetId,
};

/// Octets of the longest message.
pub(crate) const MAX_BYTES: usize = 384;

/// The version of a link group that has a release.
const VERSION_2: u8 = 2;

/// A link group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupInfo {
    /// Its number.
    pub(crate) id: u32,
    /// The side in it.
    pub(crate) role: Role,
    /// How its links lie.
    pub(crate) shape: Shape,
    /// Its connections.
    pub(crate) connections: u32,
    /// Its VLAN.
    pub(crate) vlan: Option<u16>,
    /// The network namespace.
    pub(crate) net: u64,
    /// The physical network of its first link.
    pub(crate) pnet: Option<PnetId>,
    /// The kind of the buffers.
    pub(crate) buffers: BufferKind,
    /// Octets of send buffers.
    pub(crate) sndbuf: u64,
    /// Octets of receive buffers.
    pub(crate) rmb: u64,
    /// What was agreed on.
    pub(crate) terms: Terms,
    /// What the peer said of itself, in version 2.
    pub(crate) system: Option<System>,
}

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// No connection may use it.
    Inactive,
    /// It is being set up.
    Activating,
    /// Connections may use it.
    Active,
}

/// A link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkInfo<'a> {
    /// Its number in the group.
    pub(crate) number: u8,
    /// Its state.
    pub(crate) state: LinkState,
    /// Connections that write by it.
    pub(crate) connections: u32,
    /// The RDMA device.
    pub(crate) device: &'a [u8],
    /// The port.
    pub(crate) port: u8,
    /// The network device of the port, or 0.
    pub(crate) ifindex: u32,
    /// The names of the link: ours, the peer's.
    pub(crate) uids: (u32, u32),
    /// The addresses: ours, the peer's.
    pub(crate) gids: ([u8; 16], [u8; 16]),
}

/// A port of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortInfo {
    /// The network device.
    pub(crate) ifindex: u32,
    /// It carries data.
    pub(crate) is_active: bool,
    /// Links on it.
    pub(crate) links: u32,
    /// The physical network that a user has named.
    pub(crate) pnet: Option<PnetId>,
}

/// Numbers of a device on the PCI bus; zero for a device elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PciInfo<'a> {
    /// The maker.
    pub(crate) vendor: u16,
    /// The model.
    pub(crate) device: u16,
    /// The address.
    pub(crate) address: &'a [u8],
}

/// An RDMA device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceInfo<'a> {
    /// Its name.
    pub(crate) name: &'a [u8],
    /// Some link group depends on it alone.
    pub(crate) is_critical: bool,
    /// Its place on the PCI bus.
    pub(crate) pci: PciInfo<'a>,
    /// The first two ports, as far as the asker's namespace has their network devices.
    pub(crate) ports: [Option<PortInfo>; 2],
}

/// At most that many octets of a text.
fn limited(text: &[u8], octets: usize) -> &[u8] {
    text.get(..octets).unwrap_or(text)
}

/// The octets of an id, none without one.
fn id_octets(id: &Option<PnetId>) -> &[u8] {
    id.as_ref().map_or(&[], PnetId::octets)
}

/// Writes a link group. Tools want the low octet of its number to be zero.
pub(crate) fn encode_group(to: &mut Attributes<'_>, group: &GroupInfo) {
    to.nest(2, |to| {
        to.u32(1, group.id << 8);
        to.u32(6, group.connections);
        to.u8(
            2,
            match group.role {
                Role::Client => 0,
                Role::Server => 1,
            },
        );
        to.u8(
            3,
            match group.shape {
                Shape::None => 0,
                Shape::Single => 1,
                Shape::Symmetric => 2,
                Shape::AsymmetricPeer => 3,
                Shape::AsymmetricLocal => 4,
            },
        );
        to.u8(11, group.buffers.number());
        let [_, vlan] = group.vlan.unwrap_or(0).to_be_bytes();
        to.u8(5, vlan);
        to.u64(9, group.net);
        to.text(4, id_octets(&group.pnet));
        to.uint(12, group.sndbuf);
        to.uint(13, group.rmb);
        if group.terms.version == Version::V2 {
            put_version_2(to, &group.terms, group.system.as_ref());
        }
    });
}

fn put_version_2(to: &mut Attributes<'_>, terms: &Terms, system: Option<&System>) {
    to.nest(7, |to| {
        to.u8(0, VERSION_2);
        to.u8(1, terms.release);
        if let Some(system) = system {
            to.u8(2, system.os);
            to.text(3, &system.eid.octets());
            let is_text = system.host.is_ascii();
            to.text(4, if is_text { &system.host } else { b"" });
        }
    });
    to.nest(8, |to| {
        to.u8(1, terms.direct.into());
        to.u8(2, terms.max_conns);
        to.u8(3, terms.max_links);
    });
}

/// Writes a link. Its group comes before it.
pub(crate) fn encode_link(to: &mut Attributes<'_>, link: &LinkInfo<'_>) {
    let state = match link.state {
        LinkState::Inactive => 1,
        LinkState::Activating => 2,
        LinkState::Active => 3,
    };
    let ((uid, peer_uid), (gid, peer_gid)) = (link.uids, link.gids);
    to.nest(3, |to| {
        to.u8(1, link.number);
        to.u8(3, link.port);
        to.u32(7, link.ifindex);
        to.text(2, limited(link.device, 64));
        // Octets as in messages to the peer.
        to.put(8, &uid.to_be_bytes());
        to.put(9, &peer_uid.to_be_bytes());
        to.u32(6, link.connections);
        to.u32(10, state);
        to.text(4, &gid_text(gid));
        to.text(5, &gid_text(peer_gid));
    });
}

/// Writes a device. Tools want all numbers of the bus.
pub(crate) fn encode_device(to: &mut Attributes<'_>, device: &DeviceInfo<'_>) {
    to.nest(6, |to| {
        to.u8(2, device.is_critical.into());
        to.u32(3, 0);
        to.u16(4, 0);
        to.u16(5, device.pci.vendor);
        to.u16(6, device.pci.device);
        to.text(7, limited(device.pci.address, 15));
        to.text(10, limited(device.name, 64));
        for (port, kind) in device.ports.iter().zip([8, 9]) {
            let Some(port) = port else { continue };
            to.nest(kind, |to| {
                to.u8(1, port.pnet.is_some().into());
                to.text(2, id_octets(&port.pnet));
                to.u32(3, port.ifindex);
                to.u8(5, 1);
                to.u8(4, port.is_active.into());
                to.u32(6, port.links);
            });
        }
    });
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_netlink_groups))]
mod tests {
    use super::*;
    use crate::proto::smc::clc::Eid;

    const TERMS: Terms = Terms {
        version: Version::V2,
        release: 1,
        max_conns: 200,
        max_links: 4,
        direct: true,
    };
    const GROUP: GroupInfo = GroupInfo {
        id: 0x12,
        role: Role::Server,
        shape: Shape::AsymmetricLocal,
        connections: 9,
        vlan: Some(0x1ab),
        net: 5,
        pnet: None,
        buffers: BufferKind::Mixed,
        sndbuf: 1 << 33,
        rmb: 1 << 17,
        terms: TERMS,
        system: Some(System {
            eid: Eid::from_octets([b'E'; 32]),
            os: 2,
            host: [b'h'; 32],
        }),
    };

    /// The attributes in octets: type without the bit of nests, and value.
    fn attributes(octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
        let mut rest = octets;
        core::iter::from_fn(move || {
            let (head, _) = rest.split_at_checked(4)?;
            let size = usize::from(u16::from_ne_bytes([head[0], head[1]]));
            let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
            let value = rest.get(4..size)?;
            rest = rest.get(size.next_multiple_of(4)..)?;
            Some((kind, value))
        })
    }

    fn value(octets: &[u8], kind: u16) -> &[u8] {
        let found = attributes(octets).find(|(known, _)| *known == kind);
        found.map_or(&[], |(_, value)| value)
    }

    #[test]
    fn group_of_version_2_has_its_terms() {
        let mut room = [0; MAX_BYTES];
        let mut message = Attributes::new(&mut room);
        encode_group(&mut message, &GROUP);
        let octets = message.finish().unwrap_or_default();
        let group = value(octets, 2);
        assert_eq!(value(group, 1), 0x1200_u32.to_ne_bytes());
        assert_eq!((value(group, 2), value(group, 3)), (&[1][..], &[4][..]));
        assert_eq!(value(group, 5), [0xab]);
        assert_eq!(value(group, 11), [2]);
        assert_eq!(value(group, 4), [0]);
        assert_eq!(value(group, 12), (1_u64 << 33).to_ne_bytes());
        assert_eq!(value(group, 13), (1_u32 << 17).to_ne_bytes());
        let common = value(group, 7);
        assert_eq!((value(common, 0), value(common, 1)), (&[2][..], &[1][..]));
        assert_eq!(value(common, 3).len(), 33);
        assert_eq!(value(value(group, 8), 2), [200]);
    }

    #[test]
    fn group_of_version_1_has_no_terms() {
        let mut room = [0; MAX_BYTES];
        let mut message = Attributes::new(&mut room);
        let terms = Terms {
            version: Version::V1,
            ..TERMS
        };
        encode_group(&mut message, &GroupInfo { terms, ..GROUP });
        let octets = message.finish().unwrap_or_default();
        let kinds = attributes(value(octets, 2)).map(|(kind, _)| kind);
        assert!(!kinds.into_iter().any(|kind| kind == 7 || kind == 8));
    }

    #[test]
    fn longest_link_fits_and_has_its_names_in_wire_order() {
        let link = LinkInfo {
            number: 1,
            state: LinkState::Active,
            connections: 3,
            device: &[b'x'; 70],
            port: 2,
            ifindex: 4,
            uids: (0x101, 0x201),
            gids: ([0xff; 16], [0; 16]),
        };
        let mut room = [0; MAX_BYTES];
        let mut message = Attributes::new(&mut room);
        encode_link(&mut message, &link);
        let octets = message.finish().unwrap_or_default();
        let link = value(octets, 3);
        assert_eq!(value(link, 2).len(), 65);
        assert_eq!(value(link, 8), [0, 0, 1, 1]);
        assert_eq!(value(link, 9), [0, 0, 2, 1]);
        assert_eq!(value(link, 4).len(), 40);
        assert_eq!(value(link, 10), 3_u32.to_ne_bytes());
    }

    #[test]
    fn device_without_a_bus_has_all_its_numbers() {
        let port = PortInfo {
            ifindex: 3,
            is_active: true,
            links: 2,
            pnet: None,
        };
        let device = DeviceInfo {
            name: b"rxe0",
            is_critical: true,
            pci: PciInfo::default(),
            ports: [Some(port), None],
        };
        let mut room = [0; MAX_BYTES];
        let mut message = Attributes::new(&mut room);
        encode_device(&mut message, &device);
        let octets = message.finish().unwrap_or_default();
        let device = value(octets, 6);
        for (kind, size) in [(2, 1), (3, 4), (4, 2), (5, 2), (6, 2), (7, 1), (10, 5)] {
            assert_eq!(value(device, kind).len(), size);
        }
        assert_eq!(value(value(device, 8), 3), 3_u32.to_ne_bytes());
        assert_eq!(value(value(device, 8), 1), [0]);
        assert_eq!(value(value(device, 8), 2), [0]);
        assert!(value(device, 9).is_empty());
    }

    #[test]
    fn longest_device_and_group_fit_with_their_ids() {
        let pnet = PnetId::new(b"ABCDEFGHIJKLMNOP");
        let port = PortInfo {
            ifindex: 3,
            is_active: true,
            links: 2,
            pnet,
        };
        let device = DeviceInfo {
            name: &[b'x'; 70],
            is_critical: true,
            pci: PciInfo {
                address: &[b'0'; 16],
                ..PciInfo::default()
            },
            ports: [Some(port), Some(port)],
        };
        let mut room = [0; MAX_BYTES];
        let mut message = Attributes::new(&mut room);
        encode_device(&mut message, &device);
        let octets = message.finish().unwrap_or_default();
        let port = value(value(octets, 6), 9);
        assert_eq!(
            (value(port, 1), value(port, 2)),
            (&[1][..], &b"ABCDEFGHIJKLMNOP\0"[..])
        );
        let mut room = [0; MAX_BYTES];
        let mut message = Attributes::new(&mut room);
        encode_group(&mut message, &GroupInfo { pnet, ..GROUP });
        let octets = message.finish().unwrap_or_default();
        assert_eq!(value(value(octets, 2), 4), b"ABCDEFGHIJKLMNOP\0");
    }
}
