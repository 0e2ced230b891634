// SPDX-License-Identifier: GPL-2.0

//! The commands of the family `SMC_GEN_NETLINK`, and its short replies.
//!
//! Format: `include/uapi/linux/smc.h`.

use super::attributes::Attributes;
use crate::proto::smc::clc::{
    Eid,
    RELEASE, //
};

/// What SMC can do here.
pub(crate) const SYSTEM: u8 = 1;
/// The link groups.
pub(crate) const GROUPS: u8 = 2;
/// The link groups with their links.
pub(crate) const LINKS: u8 = 3;
/// The RDMA devices.
pub(crate) const DEVICES: u8 = 6;
/// The counts of a namespace.
pub(crate) const COUNTS: u8 = 7;
/// The reasons of fallbacks.
pub(crate) const FALLBACKS: u8 = 8;
/// The enterprise identifiers, and their changes.
pub(crate) const EIDS: u8 = 9;
/// Adds an identifier.
pub(crate) const ADD_EID: u8 = 10;
/// Removes an identifier.
pub(crate) const REMOVE_EID: u8 = 11;
/// Removes all identifiers.
pub(crate) const FLUSH_EIDS: u8 = 12;
/// The identifier of this system, which SMC-D has.
pub(crate) const SYSTEM_EID: u8 = 13;
/// Whether listeners limit handshakes.
pub(crate) const LIMIT: u8 = 16;
/// They do.
pub(crate) const ENABLE_LIMIT: u8 = 17;
/// They do not.
pub(crate) const DISABLE_LIMIT: u8 = 18;

/// The version of SMC.
const VERSION: u8 = 2;

/// Octets of the name of a host.
const HOST_BYTES: usize = 32;

/// Writes what SMC can do on the host of that name. Tools accept no type number above 6 here.
pub(crate) fn encode_system(to: &mut Attributes<'_>, host: &[u8]) {
    to.nest(1, |to| {
        to.u8(1, VERSION);
        to.u8(2, RELEASE);
        // No SMC-D.
        to.u8(3, 0);
        let mut name = [b' '; HOST_BYTES];
        for (place, octet) in name.iter_mut().zip(host) {
            *place = *octet;
        }
        to.text(4, &name);
        to.u8(6, 1);
    });
}

/// Writes an enterprise identifier.
pub(crate) fn encode_eid(to: &mut Attributes<'_>, eid: Eid) {
    to.text(1, &eid.octets());
}

/// Reads the identifier of a request: 32 octets, the last of which may be blanks, and a nul.
pub(crate) fn eid_of_request(value: &[u8]) -> Option<Eid> {
    let [name @ .., 0] = value else {
        return None;
    };
    if name.len() == 32 {
        Eid::new(name)
    } else {
        None
    }
}

/// Writes whether listeners limit handshakes.
pub(crate) fn encode_limit(to: &mut Attributes<'_>, limits: bool) {
    to.u8(1, limits.into());
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_netlink_commands))]
mod tests {
    use super::*;

    #[test]
    fn name_of_the_host_is_filled_up() {
        let mut room = [0; 96];
        let mut message = Attributes::new(&mut room);
        encode_system(&mut message, b"lab");
        let octets = message.finish().unwrap_or_default();
        assert_eq!(octets.len(), 4 + 3 * 8 + 40 + 8);
        assert_eq!(octets[2..4], 0x8001_u16.to_ne_bytes());
        assert_eq!(octets[28..30], 37_u16.to_ne_bytes());
        assert_eq!(&octets[32..37], b"lab  ");
        assert_eq!(octets[64], 0);
        assert_eq!(octets[72], 1);
    }

    #[test]
    fn identifier_of_a_request_has_all_its_octets() {
        let mut name = [b' '; 33];
        name[..5].copy_from_slice(b"LAB.1");
        name[32] = 0;
        assert_eq!(eid_of_request(&name), Eid::new(b"LAB.1"));
        assert_eq!(eid_of_request(&name[1..]), None);
        name[0] = b'l';
        assert_eq!(eid_of_request(&name), None);
        name[0] = b' ';
        assert_eq!(eid_of_request(&name), None);
        assert_eq!(eid_of_request(b"LAB\0"), None);
        assert_eq!(eid_of_request(b""), None);
        assert_eq!(eid_of_request(&[b'A'; 33]), None);
    }
}
