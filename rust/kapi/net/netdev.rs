// SPDX-License-Identifier: GPL-2.0

//! Network devices: the one a connection leaves by, its subnets, and what happens to devices.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use super::netns::NetRef;
use crate::bindings;
use core::marker::PhantomData;
use kernel::{
    bindings as kb,
    error::to_result,
    ffi,
    prelude::*,
    sync::rcu,
    types::Opaque, //
};

/// `NETDEV_UP`, `NETDEV_DOWN`, `NETDEV_CHANGE`, `NETDEV_UNREGISTER`: `enum netdev_cmd`.
const NETDEV_UP: usize = 1;
const NETDEV_DOWN: usize = 2;
const NETDEV_CHANGE: usize = 4;
const NETDEV_UNREGISTER: usize = 6;

/// How many IPv6 prefixes of a device are looked at.
pub(crate) const MAX_PREFIXES: usize = 8;

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
            })
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

/// What is to be known about a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    /// Whether the device is up.
    pub(crate) up: bool,
    /// Whether it has a carrier.
    pub(crate) carrier: bool,
    /// Its MTU.
    pub(crate) mtu: u32,
    /// Its Ethernet address, if it is an Ethernet device.
    pub(crate) mac: Option<[u8; 6]>,
    /// Its name, filled with zeros.
    pub(crate) name: [u8; 16],
}

impl Info {
    /// Looks at a device. Any context.
    pub(crate) fn by_index(net: &NetRef, ifindex: u32) -> Option<Self> {
        with_dev(net, ifindex, |dev| {
            let (mut mac, mut name) = ([0; 6], [0; 16]);
            // SAFETY: `with_dev` gives a valid device; its name is nul-terminated, and may change
            // while it is read, but not its room.
            unsafe {
                let from = bindings::rdma_sock_helper_dev_name(dev).cast::<u8>();
                for (at, to) in name.iter_mut().take(15).enumerate() {
                    *to = core::ptr::read_volatile(from.add(at));
                    if *to == 0 {
                        break;
                    }
                }
                Info {
                    up: bindings::rdma_sock_helper_dev_up(dev),
                    carrier: bindings::rdma_sock_helper_dev_carrier(dev),
                    mtu: bindings::rdma_sock_helper_dev_mtu(dev),
                    mac: bindings::rdma_sock_helper_dev_mac(dev, mac.as_mut_ptr()).then_some(mac),
                    name,
                }
            }
        })
    }
}

/// What happens to network devices, in all namespaces.
///
/// Called with the RTNL lock held: only to remember and to queue work.
pub(crate) trait NetdevEvents: Send + Sync + 'static {
    /// The device is up and has a carrier.
    fn up(ifindex: u32, net_cookie: u64);
    /// The device is down or lost its carrier.
    fn down(ifindex: u32, net_cookie: u64);
    /// The device goes away.
    fn unregister(ifindex: u32, net_cookie: u64);
}

/// A registered receiver of [`NetdevEvents`].
///
/// # Invariants
///
/// `block` is registered.
pub(crate) struct Notifier<T: NetdevEvents> {
    block: KBox<Opaque<kb::notifier_block>>,
    _events: PhantomData<T>,
}

// SAFETY: The notifier block is only used by the kernel, under RTNL.
unsafe impl<T: NetdevEvents> Send for Notifier<T> {}
// SAFETY: As above.
unsafe impl<T: NetdevEvents> Sync for Notifier<T> {}

impl<T: NetdevEvents> Notifier<T> {
    /// Registers the receiver. It is told about the devices that are there already. May sleep.
    pub(crate) fn new() -> Result<Self> {
        let block = KBox::new(Opaque::zeroed(), GFP_KERNEL)?;
        // SAFETY: The block is ours, and does not move or go before it is unregistered.
        unsafe {
            let block: *mut kb::notifier_block = Opaque::get(&block);
            (*block).notifier_call = Some(Self::on_event);
            to_result(bindings::register_netdevice_notifier(block.cast()))?;
        }
        // INVARIANT: The block was just registered.
        Ok(Self {
            block,
            _events: PhantomData,
        })
    }

    unsafe extern "C" fn on_event(
        _block: *mut kb::notifier_block,
        event: ffi::c_ulong,
        info: *mut ffi::c_void,
    ) -> ffi::c_int {
        // SAFETY: The kernel calls this with a device, which stays meanwhile.
        let (ifindex, cookie, carrier) = unsafe {
            let dev = bindings::rdma_sock_helper_notifier_dev(info);
            (
                bindings::rdma_sock_helper_dev_ifindex(dev),
                bindings::rdma_sock_helper_net_cookie(bindings::rdma_sock_helper_dev_net(dev)),
                bindings::rdma_sock_helper_dev_up(dev)
                    && bindings::rdma_sock_helper_dev_carrier(dev),
            )
        };
        match event as usize {
            NETDEV_UP | NETDEV_CHANGE if carrier => T::up(ifindex, cookie),
            NETDEV_DOWN | NETDEV_CHANGE => T::down(ifindex, cookie),
            NETDEV_UNREGISTER => T::unregister(ifindex, cookie),
            _ => (),
        }
        // `NOTIFY_DONE`.
        0
    }
}

impl<T: NetdevEvents> Drop for Notifier<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. The result only tells of a block that is not registered.
        unsafe { bindings::unregister_netdevice_notifier(Opaque::get(&self.block).cast()) };
    }
}
