// SPDX-License-Identifier: GPL-2.0

//! The family `SMC_PNETID`: entries of the table of physical networks, as `smc_pnet` reads them.
//!
//! Format: `include/uapi/linux/smc.h`.

use super::attributes::Attributes;
use crate::proto::smc::pnet::{
    Entry,
    Place,
    MAX_ENTRIES, //
};

/// Lists entries; the one command that has replies.
pub(crate) const GET: u8 = 1;
/// Adds entries.
pub(crate) const ADD: u8 = 2;
/// Removes the entries of an id.
pub(crate) const REMOVE: u8 = 3;
/// Removes all entries.
pub(crate) const FLUSH: u8 = 4;

/// Octets of the attributes of the longest entry.
pub(crate) const MAX_BYTES: usize = 24 + 8 + 68 + 8;

// All entries of a namespace fit one reply, each with the heads of its message: a tool reads 16384
// octets at a time, less what belongs to the buffer, and the last message.
const _: () = assert!(MAX_ENTRIES * (MAX_BYTES + 20) <= 16384 - 320 - 16);

/// What a tool reads in place of a name.
const NO_NAME: &[u8] = b"n/a";

/// What a tool reads in place of a port.
const NO_PORT: u8 = 0xff;

/// Writes an entry: tools want all four attributes.
pub(crate) fn encode_entry(to: &mut Attributes<'_>, entry: &Entry) {
    let (netdev, device, port) = match &entry.place {
        Place::Netdev(name) => (name.octets(), NO_NAME, NO_PORT),
        Place::Port(name, port) => (NO_NAME, name.octets(), *port),
    };
    to.text(1, entry.id.octets());
    to.text(2, netdev);
    to.text(3, device);
    to.u8(4, port);
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_netlink_pnetid))]
mod tests {
    use super::*;
    use crate::proto::smc::pnet::{
        PnetId,
        Text, //
    };

    fn encoded(place: Option<Place>, room: &mut [u8]) -> &[u8] {
        let id = PnetId::new(b"ABCDEFGHIJKLMNOP");
        let mut message = Attributes::new(room);
        if let (Some(id), Some(place)) = (id, place) {
            encode_entry(&mut message, &Entry { id, place });
        }
        message.finish().unwrap_or_default()
    }

    #[test]
    fn network_device_has_no_port() {
        let mut room = [0; MAX_BYTES];
        let octets = encoded(Text::new(b"eth0").map(Place::Netdev), &mut room);
        assert_eq!(octets[..2], 21_u16.to_ne_bytes());
        assert_eq!(&octets[4..21], b"ABCDEFGHIJKLMNOP\0");
        assert_eq!(&octets[28..33], b"eth0\0");
        assert_eq!(&octets[40..44], b"n/a\0");
        assert_eq!(octets[48], 255);
        assert_eq!(octets.len(), 52);
    }

    #[test]
    fn longest_port_fits() {
        let mut room = [0; MAX_BYTES];
        let place = Text::new(&[b'x'; 63]).map(|name| Place::Port(name, 2));
        let octets = encoded(place, &mut room);
        assert_eq!(octets.len(), MAX_BYTES);
        assert_eq!(&octets[28..32], b"n/a\0");
        assert_eq!(octets[36..99], [b'x'; 63]);
        assert_eq!(octets[104], 2);
    }
}
