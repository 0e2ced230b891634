// SPDX-License-Identifier: GPL-2.0

//! Cached state and MTU of the ports of a device.
//!
//! Many drivers take the routing netlink lock to answer, and any namespace can keep that lock busy. So
//! handshakes query no driver: the verbs core caches the state by events, and a device queries the MTU
//! again only when the MTU of the network device has changed.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/ib_cache.h`](srctree/include/rdma/ib_cache.h)

use super::device::{
    netdev_id,
    Device,
    NetdevId, //
};
use crate::bindings;
use kernel::{
    error::to_result,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

/// An active MTU, and the MTU of the network device when the driver told it.
#[derive(Clone, Copy)]
struct PortMtu {
    netdev: u32,
    code: u8,
}

impl PortMtu {
    /// In one word; 0 stands for none, as there is no code 0.
    fn to_word(self) -> u64 {
        u64::from(self.netdev) << 8 | u64::from(self.code)
    }

    fn from_word(word: u64) -> Option<Self> {
        let [.., a, b, c, d, code] = word.to_be_bytes();
        (code != 0).then_some(Self {
            netdev: u32::from_be_bytes([a, b, c, d]),
            code,
        })
    }
}

/// The MTUs of the ports of a device, as [`PortMtu::to_word`].
pub(super) struct Mtus(KVec<Atomic<u64>>);

impl Mtus {
    /// Knows none of `ports` ports. May sleep.
    pub(super) fn new(ports: u32) -> Result<Self> {
        let mut words = KVec::new();
        for _ in 0..ports {
            words.push(Atomic::new(0u64), GFP_KERNEL)?;
        }
        Ok(Self(words))
    }

    /// The word of a port, counted from 1.
    fn of(&self, port: u32) -> Result<&Atomic<u64>> {
        let index = port.checked_sub(1).ok_or(EINVAL)?;
        self.0.get(usize::try_from(index)?).ok_or(EINVAL)
    }
}

impl Device {
    /// Is the port usable, as the last event left it? Any context.
    pub(crate) fn port_active(&self, port: u32) -> bool {
        let state = self.with(|raw| {
            self.check_port(port)?;
            let mut state = bindings::ib_port_state_IB_PORT_NOP;
            // SAFETY: The driver is there, the port exists and `state` is valid for writes.
            to_result(unsafe { bindings::ib_get_cached_port_state(raw, port, &mut state) })?;
            Ok(state)
        });
        state == Ok(bindings::ib_port_state_IB_PORT_ACTIVE)
    }

    /// The code of the active MTU of a port. Sleeps; waits for the routing netlink lock only if the MTU
    /// of the network device has changed.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port that does not exist, `ENODEV` if the device is being removed, or has no
    /// network device, and those of the driver.
    pub(super) fn active_mtu(&self, port: u32) -> Result<u8> {
        let word = self.mtus.of(port)?;
        let netdev = self.netdev_mtu(port)?;
        // One word that depends on nothing else.
        match PortMtu::from_word(word.load(Relaxed)) {
            Some(mtu) if mtu.netdev == netdev => return Ok(mtu.code),
            _ => {}
        }
        // Drivers learn of the change under the lock: after this they know it.
        // SAFETY: Sleeps, and nothing that is taken inside of that lock is held: to ask a driver may
        // take it, too.
        unsafe { bindings::rdma_sock_helper_rtnl_barrier() };
        let mtu = PortMtu {
            netdev: self.netdev_mtu(port)?,
            code: self.query_mtu(port)?,
        };
        word.store(mtu.to_word(), Relaxed);
        Ok(mtu.code)
    }

    /// Asks the driver for all MTUs, as far as it knows. Sleeps.
    pub(super) fn learn_mtus(&self) {
        for port in 1..=self.phys_ports() {
            // It is asked for again when it is needed.
            let _ = self.active_mtu(port);
        }
    }

    /// Asks the driver for the active MTU of a port. Sleeps.
    fn query_mtu(&self, port: u32) -> Result<u8> {
        self.check_port(port)?;
        self.with(|raw| {
            let mut attr = bindings::ib_port_attr::default();
            // SAFETY: The driver is there, the port exists and `attr` is valid for writes.
            to_result(unsafe { bindings::ib_query_port(raw, port, &mut attr) })?;
            u8::try_from(attr.active_mtu).map_err(|_| EINVAL)
        })
    }

    /// The network device under a port. May sleep.
    pub(crate) fn netdev(&self, port: u32) -> Option<NetdevId> {
        // SAFETY: Both are valid during the call.
        self.with_netdev(port, |raw, ndev| unsafe { netdev_id(raw, ndev) })
            .ok()
    }

    /// The MTU of the network device under a port. May sleep.
    fn netdev_mtu(&self, port: u32) -> Result<u32> {
        self.with_netdev(port, |_, ndev| {
            // SAFETY: Valid during the call; reads a field.
            Ok(unsafe { bindings::rdma_sock_helper_netdev_mtu(ndev) })
        })
    }

    /// Runs `f` with the device and the network device under a port, which are valid meanwhile.
    fn with_netdev<R>(
        &self,
        port: u32,
        f: impl FnOnce(*mut bindings::ib_device, *mut bindings::net_device) -> Result<R>,
    ) -> Result<R> {
        self.check_port(port)?;
        self.with(|raw| {
            // SAFETY: The driver is there and the port exists.
            let ndev = unsafe { bindings::ib_device_get_netdev(raw, port) };
            if ndev.is_null() {
                return Err(ENODEV);
            }
            let result = f(raw, ndev);
            // SAFETY: This gives the reference back that we were given.
            unsafe { bindings::rdma_sock_helper_netdev_put(ndev) };
            result
        })
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_port)]
mod tests {
    use super::*;

    #[test]
    fn mtu_survives_its_word() {
        for (netdev, code) in [(1500, 3), (0, 1), (u32::MAX, 5), (68, u8::MAX)] {
            let mtu = PortMtu::from_word(PortMtu { netdev, code }.to_word());
            assert_eq!(mtu.map(|mtu| (mtu.netdev, mtu.code)), Some((netdev, code)));
        }
        assert!(PortMtu::from_word(0).is_none());
    }
}
