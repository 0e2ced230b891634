// SPDX-License-Identifier: GPL-2.0

//! PNET ids: names of physical networks, which an administrator gives to network devices and to
//! ports of RDMA devices.
//!
//! A connection whose network device has an id uses a port with the same id, and no other port.
//!
//! Names and limits: `include/uapi/linux/smc.h`, `include/net/smc.h`.

/// The most entries of a namespace: a reply with all of them fits the buffer of a tool.
pub(crate) const MAX_ENTRIES: usize = 120;

/// The ports of an RDMA device that can have an id.
const MAX_PORTS: u8 = 2;

/// A text of at most `N` octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text<const N: usize> {
    octets: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    /// The text, unless it is too long.
    pub(crate) fn new(text: &[u8]) -> Option<Self> {
        let mut octets = [0; N];
        octets.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self {
            octets,
            len: text.len(),
        })
    }

    /// The octets.
    pub(crate) fn octets(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }
}

/// The name of a network device.
pub(crate) type NetdevName = Text<15>;
/// The name of an RDMA device.
pub(crate) type DeviceName = Text<63>;

/// The name of a physical network: capital letters and digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PnetId(Text<16>);

/// Blanks as the kernel's C code knows them.
const fn is_blank(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t'..=b'\r')
}

/// The text without the blanks around it.
fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text {
        if !is_blank(*first) {
            break;
        }
        text = rest;
    }
    while let [rest @ .., last] = text {
        if !is_blank(*last) {
            break;
        }
        text = rest;
    }
    text
}

impl PnetId {
    /// The name in a text of letters and digits, with blanks around it.
    pub(crate) fn new(text: &[u8]) -> Option<Self> {
        let mut id = Text::new(trimmed(text))?;
        let is_name = !id.octets().is_empty() && id.octets().iter().all(u8::is_ascii_alphanumeric);
        id.octets.make_ascii_uppercase();
        is_name.then_some(Self(id))
    }

    /// The octets.
    pub(crate) fn octets(&self) -> &[u8] {
        self.0.octets()
    }

    /// Whether a request means this name. It ends at a blank, and must be in capitals.
    pub(crate) fn is_named(&self, request: &[u8]) -> bool {
        request.split(|octet| *octet == b' ').next() == Some(self.octets())
    }
}

/// What has an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A network device.
    Netdev(NetdevName),
    /// A port of an RDMA device.
    Port(DeviceName, u8),
}

/// An entry of the table of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The id.
    pub(crate) id: PnetId,
    /// What has it.
    pub(crate) place: Place,
}

/// What a request asks to enter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted<'a> {
    /// The id.
    pub(crate) id: Option<&'a [u8]>,
    /// The network device.
    pub(crate) netdev: Option<&'a [u8]>,
    /// The RDMA device.
    pub(crate) device: Option<&'a [u8]>,
    /// Its port, 1 if the request names none.
    pub(crate) port: Option<u8>,
}

impl Wanted<'_> {
    /// The entries to make; `None` if the request is invalid. Ports have ids in the initial
    /// namespace only.
    pub(crate) fn entries(&self, is_initial: bool) -> Option<[Option<Entry>; 2]> {
        let id = PnetId::new(self.id?)?;
        let netdev = match self.netdev {
            Some(name) => Some(Place::Netdev(Text::new(name)?)),
            None => None,
        };
        let port = match self.device.filter(|_| is_initial) {
            Some(name) => {
                let port = self.port.unwrap_or(1);
                if !(1..=MAX_PORTS).contains(&port) {
                    return None;
                }
                Some(Place::Port(Text::new(trimmed(name))?, port))
            }
            None => None,
        };
        Some([netdev, port].map(|place| place.map(|place| Entry { id, place })))
    }
}

/// The names of an RDMA device: its own, and that of the device it is a part of, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    /// Its own.
    pub(crate) own: &'a [u8],
    /// That of its parent.
    pub(crate) parent: &'a [u8],
}

impl Names<'_> {
    /// Whether an entry is about the device.
    pub(crate) fn has(&self, name: &DeviceName) -> bool {
        let name = name.octets();
        !name.is_empty() && (name == self.own || name == self.parent)
    }
}

/// The id of a network device.
pub(crate) fn id_of_netdev(entries: &[Entry], name: &[u8]) -> Option<PnetId> {
    let found = entries.iter().find(|entry| match &entry.place {
        Place::Netdev(known) => known.octets() == name,
        Place::Port(..) => false,
    });
    found.map(|entry| entry.id)
}

/// The id of a port.
pub(crate) fn id_of_port(entries: &[Entry], names: &Names<'_>, port: u32) -> Option<PnetId> {
    let found = entries.iter().find(|entry| match &entry.place {
        Place::Netdev(_) => false,
        Place::Port(known, number) => u32::from(*number) == port && names.has(known),
    });
    found.map(|entry| entry.id)
}

/// Whether a table can have another entry. A network device has one id, and so has an RDMA device:
/// as with the C implementation, a second port needs the other name of its device. `names` are
/// those of the device that the entry is about, if it exists.
pub(crate) fn admits(entries: &[Entry], entry: &Entry, names: Option<&Names<'_>>) -> bool {
    match &entry.place {
        Place::Netdev(name) => id_of_netdev(entries, name.octets()).is_none(),
        Place::Port(name, port) => {
            let is_known = entries.iter().any(|known| match &known.place {
                Place::Netdev(_) => false,
                Place::Port(known, _) => known == name,
            });
            let id = names.and_then(|names| id_of_port(entries, names, (*port).into()));
            !is_known && id.is_none()
        }
    }
}

/// Whether some network device and some port of the table have an id in common.
pub(crate) fn joins(netdevs: &[Entry], ports: &[Entry]) -> bool {
    ports.iter().any(|port| {
        matches!(port.place, Place::Port(..))
            && netdevs
                .iter()
                .any(|netdev| matches!(netdev.place, Place::Netdev(_)) && netdev.id == port.id)
    })
}

/// An address of a port that has the id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// The GID.
    pub(crate) gid: [u8; 16],
    /// The VLAN of its network device.
    pub(crate) vlan: Option<u16>,
    /// RoCE version 2, otherwise version 1.
    pub(crate) roce_v2: bool,
    /// Its network device has the wanted address in a subnet.
    pub(crate) is_near: bool,
}

/// The address that a search is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// The address of the connection, or of the first link; IPv4 in mapped form.
    pub(crate) ip: [u8; 16],
    /// The VLAN of the connection.
    pub(crate) vlan: Option<u16>,
    /// The version of RoCE of the first link, for another link.
    pub(crate) beside: Option<bool>,
}

const fn is_ipv4(gid: &[u8; 16]) -> bool {
    matches!(gid, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..])
}

const fn is_link_local(gid: &[u8; 16]) -> bool {
    matches!(gid, [0xfe, second, ..] if *second & 0xc0 == 0x80)
}

impl Search {
    /// How well an address serves: the more, the better; `None` if it does not.
    ///
    /// The id says that the port reaches the network of the connection. Frames of RoCE version 1
    /// need no more. Packets of version 2 need a route, which is most likely there for an address
    /// in the subnet of the connection, and between addresses of one family.
    pub(crate) fn rank(&self, candidate: &Candidate) -> Option<u8> {
        let Candidate { gid, roce_v2, .. } = candidate;
        let is_alike = is_ipv4(gid) == is_ipv4(&self.ip);
        let is_routed = *roce_v2 && !is_link_local(gid);
        if candidate.vlan != self.vlan {
            return None;
        }
        if let Some(version) = self.beside {
            let serves = !version || (is_routed && is_alike);
            if version != *roce_v2 || !serves {
                return None;
            }
        }
        Some(if *gid == self.ip {
            5
        } else if candidate.is_near && is_alike && !is_link_local(gid) {
            4
        } else if !*roce_v2 {
            3
        } else if is_routed && is_alike {
            2
        } else {
            u8::from(is_routed)
        })
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_pnet))]
mod tests {
    use super::*;

    fn entry(wanted: Wanted<'_>) -> Option<Entry> {
        let [netdev, port] = wanted.entries(true)?;
        netdev.or(port)
    }

    fn netdev(id: &'static [u8], name: &'static [u8]) -> Option<Entry> {
        entry(Wanted {
            id: Some(id),
            netdev: Some(name),
            ..Wanted::default()
        })
    }

    fn port(id: &'static [u8], name: &'static [u8], port: u8) -> Option<Entry> {
        entry(Wanted {
            id: Some(id),
            device: Some(name),
            port: Some(port),
            ..Wanted::default()
        })
    }

    #[test]
    fn name_of_letters_and_digits_is_in_capitals() {
        let net = PnetId::new(b"NET1");
        assert!(net.is_some_and(|id| id.octets() == b"NET1"));
        assert_eq!(PnetId::new(b"net1"), net);
        assert_eq!(PnetId::new(b" \tNeT1 \n"), net);
        let longest = PnetId::new(b"ABCDEFGHIJKLMNOP");
        assert!(longest.is_some_and(|id| id.octets() == b"ABCDEFGHIJKLMNOP"));
    }

    #[test]
    fn name_with_other_octets_is_none() {
        let names: [&[u8]; 8] = [
            b"",
            b"  ",
            b"A B",
            b"A-B",
            b"A.B",
            b"\xe9",
            b"ABCDEFGHIJKLMNOPQ",
            b"A\0",
        ];
        for name in names {
            assert_eq!(PnetId::new(name), None);
        }
    }

    #[test]
    fn request_names_an_id_up_to_a_blank_in_capitals() {
        let is_named = |name| PnetId::new(b"NET1").is_some_and(|id| id.is_named(name));
        assert!(is_named(b"NET1"));
        assert!(is_named(b"NET1 X"));
        for name in [&b"net1"[..], b"NET", b"NET12", b"", b" NET1"] {
            assert!(!is_named(name));
        }
    }

    #[test]
    fn request_makes_an_entry_for_each_name() {
        let wanted = Wanted {
            id: Some(b"NET1"),
            netdev: Some(b"eth0"),
            device: Some(b" mlx5_0 "),
            port: None,
        };
        let [eth, ib] = wanted.entries(true).unwrap_or_default();
        assert_eq!(eth, netdev(b"NET1", b"eth0"));
        assert_eq!(ib, port(b"NET1", b"mlx5_0", 1));
        let [eth, ib] = wanted.entries(false).unwrap_or_default();
        assert_eq!((eth, ib), (netdev(b"NET1", b"eth0"), None));
    }

    #[test]
    fn request_of_a_wrong_port_is_invalid_where_ports_have_ids() {
        for number in [0, 3, 255] {
            let wanted = Wanted {
                id: Some(b"NET1"),
                device: Some(b"mlx5_0"),
                port: Some(number),
                ..Wanted::default()
            };
            assert_eq!(wanted.entries(true), None);
            assert_eq!(wanted.entries(false), Some([None, None]));
        }
        assert_eq!(Wanted::default().entries(true), None);
    }

    #[test]
    fn device_has_one_id() {
        let (Some(eth), Some(ib)) = (netdev(b"A", b"eth0"), port(b"A", b"mlx5_0", 1)) else {
            unreachable!();
        };
        let table = [eth, ib];
        let admits = |entry: Option<Entry>, names| {
            entry.is_some_and(|entry| super::admits(&table, &entry, names))
        };
        assert!(!admits(netdev(b"B", b"eth0"), None));
        assert!(admits(netdev(b"A", b"eth1"), None));
        assert!(!admits(port(b"B", b"mlx5_0", 2), None));
        assert!(admits(port(b"B", b"0000:01:00.0", 1), None));
        // Both are names of one device.
        let names = Names {
            own: b"mlx5_0",
            parent: b"0000:01:00.0",
        };
        assert!(!admits(port(b"B", b"0000:01:00.0", 1), Some(&names)));
        assert!(admits(port(b"B", b"0000:01:00.0", 2), Some(&names)));
    }

    #[test]
    fn id_is_found_by_each_name() {
        let (Some(eth), Some(ib)) = (netdev(b"A", b"eth0"), port(b"B", b"0000:01:00.0", 2)) else {
            unreachable!();
        };
        let table = [eth, ib];
        assert_eq!(id_of_netdev(&table, b"eth0"), PnetId::new(b"A"));
        assert_eq!(id_of_netdev(&table, b"eth"), None);
        let mut names = Names {
            own: b"mlx5_0",
            parent: b"0000:01:00.0",
        };
        assert_eq!(id_of_port(&table, &names, 2), PnetId::new(b"B"));
        assert_eq!(id_of_port(&table, &names, 1), None);
        names.parent = b"";
        assert_eq!(id_of_port(&table, &names, 2), None);
    }

    #[test]
    fn entry_without_a_name_is_about_no_device() {
        let Some(entry) = port(b"A", b"", 1) else {
            unreachable!();
        };
        let names = Names {
            own: b"rxe0",
            parent: b"",
        };
        assert_eq!(id_of_port(&[entry], &names, 1), None);
    }

    #[test]
    fn tables_join_by_a_common_id_of_both_kinds() {
        let (Some(eth), Some(one), Some(two)) = (
            netdev(b"A", b"eth0"),
            port(b"A", b"rxe0", 1),
            port(b"B", b"rxe1", 1),
        ) else {
            unreachable!();
        };
        assert!(joins(&[eth], &[two, one]));
        assert!(!joins(&[eth], &[two]));
        assert!(!joins(&[two], &[two]));
        assert!(!joins(&[eth], &[eth]));
    }

    const IP: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1];
    const OTHER_IP: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 8, 0, 1];
    const IPV6: [u8; 16] = [0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    const LINK_LOCAL: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    const SEARCH: Search = Search {
        ip: IP,
        vlan: None,
        beside: None,
    };

    fn candidate(gid: [u8; 16], roce_v2: bool, is_near: bool) -> Candidate {
        Candidate {
            gid,
            vlan: None,
            roce_v2,
            is_near,
        }
    }

    #[test]
    fn addresses_rank_by_how_sure_they_reach_the_peer() {
        let ranks = [
            candidate(LINK_LOCAL, true, false),
            candidate(IPV6, true, true),
            candidate(OTHER_IP, true, false),
            candidate(LINK_LOCAL, false, true),
            candidate(OTHER_IP, true, true),
            candidate(IP, true, true),
        ]
        .map(|candidate| SEARCH.rank(&candidate));
        assert_eq!(ranks, [0, 1, 2, 3, 4, 5].map(Some));
    }

    #[test]
    fn address_of_another_vlan_does_not_serve() {
        let mut tagged = candidate(IP, true, true);
        tagged.vlan = Some(5);
        assert_eq!(SEARCH.rank(&tagged), None);
        let vlan = Some(5);
        assert_eq!(Search { vlan, ..SEARCH }.rank(&tagged), Some(5));
    }

    #[test]
    fn another_link_has_the_version_and_family_of_the_first() {
        let beside = |version| Search {
            beside: Some(version),
            ..SEARCH
        };
        let other = candidate(OTHER_IP, true, false);
        assert_eq!(beside(true).rank(&other), Some(2));
        assert_eq!(beside(false).rank(&other), None);
        assert_eq!(beside(true).rank(&candidate(IPV6, true, true)), None);
        assert_eq!(beside(true).rank(&candidate(LINK_LOCAL, true, false)), None);
        assert_eq!(
            beside(false).rank(&candidate(LINK_LOCAL, false, false)),
            Some(3)
        );
    }
}
