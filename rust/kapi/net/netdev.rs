// SPDX-License-Identifier: GPL-2.0

//! Network devices: the one a connection leaves by, and its subnets.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use super::netns::NetRef;
use crate::bindings;
use kernel::sync::rcu;

/// How many IPv6 prefixes of a device are looked at.
pub(crate) const MAX_PREFIXES: usize = 8;

/// Octets of the longest name of a device, with its nul.
const NAME_BYTES: usize = 16;

/// Numbers of VLANs.
const VLANS: u16 = 4096;

/// The device a connection leaves by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Egress {
    /// The index of the device.
    pub(crate) ifindex: u32,
    /// The index of the device below, if it is a VLAN, otherwise the same.
    pub(crate) base_ifindex: u32,
    /// The Ethernet address.
    pub(crate) mac: [u8; 6],
    /// The VLAN, if it is one.
    pub(crate) vlan: Option<u16>,
    /// The MTU of the path.
    pub(crate) mtu: u32,
    /// It is the loopback device: the other end is an address of this host.
    pub(crate) loopback: bool,
}

impl Egress {
    /// # Safety
    ///
    /// `dev` must be valid, in an RCU read section.
    pub(super) unsafe fn of(dev: *mut bindings::net_device, mtu: u32) -> Option<Self> {
        let (mut mac, mut id) = ([0; 6], 0);
        // SAFETY: By this function's contract; the device below a VLAN stays as long as it.
        unsafe {
            if !bindings::rdma_sock_helper_dev_mac(dev, mac.as_mut_ptr()) {
                return None;
            }
            let base = bindings::rdma_sock_helper_vlan_base(dev, &mut id);
            let ifindex = bindings::rdma_sock_helper_dev_ifindex(dev);
            let (base_ifindex, vlan) = if base.is_null() {
                (ifindex, None)
            } else {
                (bindings::rdma_sock_helper_dev_ifindex(base), Some(id))
            };
            Some(Self {
                ifindex,
                base_ifindex,
                mac,
                vlan,
                mtu,
                loopback: bindings::rdma_sock_helper_dev_is_loopback(dev),
            })
        }
    }
}

/// The name of a device, which is unique in its namespace only.
#[derive(Clone, Copy)]
pub(crate) struct NamedDevice {
    name: [u8; NAME_BYTES],
    /// Cookie of the network namespace.
    pub(crate) net_cookie: u64,
}

impl NamedDevice {
    /// # Safety
    ///
    /// `dev` must be valid, in an RCU read section.
    unsafe fn of(dev: *mut bindings::net_device) -> Self {
        let mut name = [0; NAME_BYTES];
        // SAFETY: By this function's contract; there is room for a name.
        let net_cookie = unsafe {
            bindings::rdma_sock_helper_dev_name(dev, name.as_mut_ptr().cast());
            bindings::rdma_sock_helper_netdev_net_cookie(dev)
        };
        Self { name, net_cookie }
    }

    /// The name.
    pub(crate) fn name(&self) -> &[u8] {
        let mut parts = self.name.split(|octet| *octet == 0);
        parts.next().unwrap_or_default()
    }
}

/// A device with what is below it.
#[derive(Clone, Copy)]
pub(crate) struct Stack {
    /// The device.
    pub(crate) own: NamedDevice,
    /// The one at the bottom, of the first ports of bridges and bonds; often the same.
    pub(crate) lowest: NamedDevice,
    /// The first VLAN in between.
    pub(crate) vlan: Option<u16>,
}

impl Stack {
    /// # Safety
    ///
    /// `dev` must be valid, in an RCU read section.
    pub(super) unsafe fn of(dev: *mut bindings::net_device) -> Self {
        let mut vlan = 0;
        // SAFETY: By this function's contract; what is below a device stays for the section, too.
        unsafe {
            let lowest = bindings::rdma_sock_helper_lowest_dev(dev, &mut vlan);
            Self {
                own: NamedDevice::of(dev),
                lowest: NamedDevice::of(lowest),
                vlan: (vlan < VLANS).then_some(vlan),
            }
        }
    }
}

/// IPv6 prefixes of a device, with their lengths in bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefixes {
    prefixes: [[u8; 16]; MAX_PREFIXES],
    lens: [u8; MAX_PREFIXES],
    count: usize,
}

impl Prefixes {
    /// The prefixes, at most [`MAX_PREFIXES`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = ([u8; 16], u8)> + '_ {
        self.prefixes
            .iter()
            .copied()
            .zip(self.lens.iter().copied())
            .take(self.count)
    }
}

/// Runs `f` with the device of that index, if there is one.
fn with_dev<R>(
    net: &NetRef,
    ifindex: u32,
    f: impl FnOnce(*mut bindings::net_device) -> R,
) -> Option<R> {
    let _guard = rcu::read_lock();
    // SAFETY: The namespace is valid, and this is an RCU read section.
    let dev = unsafe {
        bindings::dev_get_by_index_rcu(net.as_raw().cast(), i32::try_from(ifindex).ok()?)
    };
    (!dev.is_null()).then(|| f(dev))
}

/// The subnet of an IPv4 address of a device: its first address and the length of the mask.
pub(crate) fn ipv4_prefix(net: &NetRef, ifindex: u32, addr: [u8; 4]) -> Option<([u8; 4], u8)> {
    with_dev(net, ifindex, |dev| {
        let (mut subnet, mut len) = (0u32, 0);
        // SAFETY: `with_dev` gives a valid device in an RCU read section.
        let ret = unsafe {
            bindings::rdma_sock_helper_ipv4_prefix(
                dev,
                u32::from_ne_bytes(addr),
                &mut subnet,
                &mut len,
            )
        };
        (ret == 0).then_some((subnet.to_ne_bytes(), len))
    })?
}

/// The prefixes of the IPv6 addresses of a device, without the link-local ones.
pub(crate) fn ipv6_prefixes(net: &NetRef, ifindex: u32) -> Option<Prefixes> {
    with_dev(net, ifindex, |dev| {
        let (mut prefixes, mut lens) = ([[0; 16]; MAX_PREFIXES], [0; MAX_PREFIXES]);
        // SAFETY: As in `ipv4_prefix`; both arrays have the given room.
        let count = unsafe {
            bindings::rdma_sock_helper_ipv6_prefixes(
                dev,
                prefixes.as_mut_ptr().cast(),
                lens.as_mut_ptr(),
                MAX_PREFIXES as u32,
            )
        };
        Prefixes {
            prefixes,
            lens,
            count: usize::try_from(count).unwrap_or(0).min(MAX_PREFIXES),
        }
    })
}
