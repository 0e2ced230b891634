// SPDX-License-Identifier: GPL-2.0

//! An RDMA device, its ports and their addresses.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/ib_cache.h`](srctree/include/rdma/ib_cache.h)

use super::port::Mtus;
use crate::{
    bindings,
    kapi::{
        compat::{
            new_spinlock_irq,
            SpinLockIrq, //
        },
        net::netns::NetRef, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        rcu,
        Arc, //
    },
    time::msecs_to_jiffies,
    types::Opaque, //
};

/// Longest name of a device, with the terminating nul.
const NAME_BYTES: usize = bindings::IB_DEVICE_NAME_MAX as usize;

/// How many IPv6 prefixes of a network device are looked at.
const MAX_PREFIXES: usize = 8;

/// Used places of all GID tables of a device that are asked for at once.
const MOST_GIDS: usize = 64;

/// How often a removal that has to wait says so.
const REPORT_MS: u32 = 10_000;

/// A copy of the name of a device.
#[derive(Clone, Copy)]
pub(crate) struct DeviceName {
    bytes: [u8; NAME_BYTES],
    len: usize,
}

impl DeviceName {
    /// The name as text; empty if it is not UTF-8.
    pub(crate) fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or("")
    }

    /// The name as octets.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

/// The place of a device on the PCI bus.
#[derive(Clone, Copy, Default)]
pub(crate) struct PciPlace {
    /// Number of the maker.
    pub(crate) vendor: u16,
    /// Number of the model.
    pub(crate) device: u16,
    /// The address, with a nul behind it.
    address: [u8; 16],
}

impl PciPlace {
    /// The address as text.
    pub(crate) fn address(&self) -> &[u8] {
        let mut parts = self.address.split(|octet| *octet == 0);
        parts.next().unwrap_or_default()
    }
}

/// A network device: its index is unique in its namespace only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetdevId {
    /// Interface index.
    pub(crate) ifindex: u32,
    /// Cookie of the network namespace.
    pub(crate) net_cookie: u64,
}

/// Which entry of a port's GID table is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GidWant {
    /// RoCE version 1 entries will do.
    pub(crate) v1: bool,
    /// RoCE version 2 entries will do.
    pub(crate) v2: bool,
    /// Prefer the entry of this address, IPv4 as mapped address.
    pub(crate) ip: Option<[u8; 16]>,
    /// Only entries of network devices in this namespace.
    pub(crate) net_cookie: Option<u64>,
}

/// An address of a port, with what a peer must know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalGid {
    /// Index in the GID table.
    pub(crate) index: u8,
    /// The GID.
    pub(crate) gid: [u8; 16],
    /// Address of the network device.
    pub(crate) mac: [u8; 6],
    /// Active MTU of the port as in the verbs: 1 is 256 octets, 5 is 4096.
    pub(crate) mtu_code: u8,
    /// VLAN of the network device.
    pub(crate) vlan: Option<u16>,
    /// RoCE version 2, otherwise version 1.
    pub(crate) roce_v2: bool,
}

/// What a device offers; does not change.
#[derive(Clone, Copy)]
struct DeviceLimits {
    ports: u32,
    can_register: bool,
    is_iwarp: bool,
    max_qp_wr: u32,
    max_cqe: u32,
    max_send_sge: u32,
    max_recv_sge: u32,
    max_reads: u8,
    max_region_bytes: usize,
}

/// An RDMA device that was announced to this module.
///
/// It may be kept for ever, but once its removal has begun nothing new can be made on it.
///
/// # Invariants
///
/// `raw` is a registered `ib_device` while `users` is not zero: its removal waits for that. `users`
/// never leaves zero again.
#[pin_data]
pub(crate) struct Device {
    raw: NonNull<bindings::ib_device>,
    /// Leases, plus one until the device is retired.
    users: Atomic<i64>,
    /// No new users.
    leaving: Atomic<bool>,
    #[pin]
    unused: Opaque<bindings::completion>,
    #[pin]
    name: SpinLockIrq<DeviceName>,
    limits: DeviceLimits,
    pub(super) mtus: Mtus,
}

// SAFETY: `ib_device` is used from any thread, the other fields are `Send`.
unsafe impl Send for Device {}
// SAFETY: `ib_device` is used from any thread, the other fields are `Sync`.
unsafe impl Sync for Device {}

impl Device {
    /// # Safety
    ///
    /// `raw` is valid, and its driver stays until [`Self::retire`] returned or this failed.
    pub(super) unsafe fn new(raw: NonNull<bindings::ib_device>) -> Result<Arc<Self>> {
        // SAFETY: The device is valid by this function's contract. The name is no longer than the
        // maximum and cannot change while the client is being added.
        let name = unsafe { read_name(raw) };
        // SAFETY: The device is valid by this function's contract.
        let limits = unsafe { read_limits(raw) };
        let mtus = Mtus::new(limits.ports)?;
        // INVARIANT: The driver stays by this function's contract.
        let this = Arc::pin_init(
            pin_init!(Self {
                raw,
                users: Atomic::new(1),
                leaving: Atomic::new(false),
                unused <- Opaque::ffi_init(|slot: *mut bindings::completion| {
                    // SAFETY: `slot` is valid for writes and pinned.
                    unsafe { bindings::init_completion(slot) }
                }),
                name <- new_spinlock_irq!(name, "rdma_sock_device_name"),
                limits,
                mtus,
            }),
            GFP_KERNEL,
        )?;
        this.learn_mtus();
        Ok(this)
    }

    /// The device was renamed.
    ///
    /// # Safety
    ///
    /// The device is not retired, and the name does not change during the call.
    pub(super) unsafe fn renamed(&self) {
        // SAFETY: Valid by the type invariants and this function's contract.
        let name = unsafe { read_name(self.raw) };
        *self.name.lock() = name;
    }

    /// Makes all new uses fail.
    pub(super) fn refuse(&self) {
        // Nobody relies on the order: a use that begins meanwhile is counted and waited for.
        self.leaving.store(true, Relaxed);
    }

    /// Undoes [`Self::refuse`].
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(super) fn accept(&self) {
        self.leaving.store(false, Relaxed);
    }

    /// Waits for the end of all uses. Called once, after [`Self::refuse`]. Sleeps.
    pub(super) fn retire(&self) {
        self.put();
        loop {
            // SAFETY: Initialised by `new`. May sleep.
            let done = unsafe {
                bindings::wait_for_completion_timeout(
                    self.unused.get(),
                    msecs_to_jiffies(REPORT_MS),
                )
            };
            if done != 0 {
                break;
            }
            pr_warn!(
                "{}: removal waits for {} users\n",
                self.name().as_str(),
                self.users.load(Relaxed)
            );
        }
    }

    /// Adds a user unless the device goes away.
    fn get(&self) -> Result {
        if self.leaving.load(Relaxed) {
            return Err(ENODEV);
        }
        let mut users = self.users.load(Relaxed);
        loop {
            if users == 0 {
                return Err(ENODEV);
            }
            match self.users.cmpxchg(users, users + 1, Acquire) {
                Ok(_) => return Ok(()),
                Err(now) => users = now,
            }
        }
    }

    /// Takes a user away. Any context.
    fn put(&self) {
        // Full order: what the user did happens before the removal goes on.
        if self.users.fetch_sub(1, Full) == 1 {
            // SAFETY: Initialised by `new`.
            unsafe { bindings::complete_all(self.unused.get()) };
        }
    }

    /// Runs `f` while the driver is there.
    pub(super) fn with<R>(
        &self,
        f: impl FnOnce(*mut bindings::ib_device) -> Result<R>,
    ) -> Result<R> {
        self.get()?;
        let result = f(self.raw.as_ptr());
        self.put();
        result
    }

    /// Keeps the driver there.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is being removed.
    pub(super) fn lease(self: &Arc<Self>) -> Result<Lease> {
        self.get()?;
        // INVARIANT: The user was just added.
        Ok(Lease(self.clone()))
    }

    /// The name. Any context.
    pub(crate) fn name(&self) -> DeviceName {
        *self.name.lock()
    }

    /// Its place on the PCI bus; all zero elsewhere. Any context.
    pub(crate) fn pci(&self) -> PciPlace {
        let mut place = PciPlace::default();
        // A device that goes has no place any longer.
        let _ = self.with(|raw| {
            let (name, size) = (place.address.as_mut_ptr(), place.address.len());
            let (vendor, device) = (&mut place.vendor, &mut place.device);
            // SAFETY: The driver is there, and all places are valid for writes of their sizes.
            unsafe {
                bindings::rdma_sock_helper_ib_pci(raw, vendor, device, name.cast(), size);
            }
            Ok(())
        });
        place
    }

    /// The name of the device that it is a part of; empty without one. Any context.
    pub(crate) fn parent_name(&self) -> DeviceName {
        let mut bytes = [0; NAME_BYTES];
        // A device that goes has no name any longer.
        let _ = self.with(|raw| {
            let (name, size) = (bytes.as_mut_ptr(), bytes.len());
            // SAFETY: The driver is there, and the place is valid for writes of its size.
            unsafe { bindings::rdma_sock_helper_ib_parent_name(raw, name.cast(), size) };
            Ok(())
        });
        let len = bytes.iter().take_while(|octet| **octet != 0).count();
        DeviceName { bytes, len }
    }

    /// Whether a network namespace may use the device. Any context.
    pub(crate) fn allows(&self, net_cookie: u64) -> bool {
        self.with(|raw| {
            // SAFETY: The driver is there.
            Ok(unsafe { bindings::rdma_sock_helper_ib_allows(raw, net_cookie) })
        })
        .unwrap_or(false)
    }

    /// Number of ports; the first is 1. Any context.
    pub(crate) fn phys_ports(&self) -> u32 {
        self.limits.ports
    }

    pub(super) fn check_port(&self, port: u32) -> Result {
        if (1..=self.limits.ports).contains(&port) {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// Is this a RoCE port? Any context.
    pub(crate) fn is_roce(&self, port: u32) -> bool {
        self.check_port(port).is_ok()
            && self
                .with(|raw| {
                    // SAFETY: The driver is there and the port exists.
                    Ok(unsafe { bindings::rdma_sock_helper_rdma_protocol_roce(raw, port) })
                })
                .unwrap_or(false)
    }

    /// Can memory be registered by work requests? Any context.
    pub(crate) fn can_register(&self) -> bool {
        self.limits.can_register
    }

    /// Can RDMA reads be written to memory that the local key of a protection domain names? Any context.
    pub(super) fn reads_by_local_key(&self) -> bool {
        !self.limits.is_iwarp
    }

    /// Longest queue of work requests. Any context.
    pub(crate) fn max_qp_wr(&self) -> u32 {
        self.limits.max_qp_wr
    }

    /// Longest completion queue. Any context.
    pub(crate) fn max_cqe(&self) -> u32 {
        self.limits.max_cqe
    }

    /// Most pieces of memory that one request can read from. Any context.
    pub(crate) fn max_send_sge(&self) -> u32 {
        self.limits.max_send_sge
    }

    /// Pieces of memory that a receive request names at most. Any context.
    pub(crate) fn max_recv_sge(&self) -> u32 {
        self.limits.max_recv_sge
    }

    /// RDMA Reads and atomics in flight on a queue pair, in each direction. Any context.
    pub(crate) fn max_reads(&self) -> u8 {
        self.limits.max_reads
    }

    /// Largest memory that one registration can cover. Any context.
    pub(crate) fn max_region_bytes(&self) -> usize {
        self.limits.max_region_bytes
    }

    /// Finds an address of `port` that belongs to the network device `ifindex`. Sleeps.
    pub(crate) fn gid_for(&self, port: u32, ifindex: u32, want: &GidWant) -> Option<LocalGid> {
        let mtu_code = self.active_mtu(port).ok()?;
        let mut best: Option<LocalGid> = None;
        for index in self.used_gids(port) {
            let Some((mut gid, netdev)) = self.gid_entry(port, index) else {
                continue;
            };
            if netdev.ifindex != ifindex
                || want
                    .net_cookie
                    .is_some_and(|cookie| cookie != netdev.net_cookie)
                || !(if gid.roce_v2 { want.v2 } else { want.v1 })
            {
                continue;
            }
            gid.mtu_code = mtu_code;
            if want.ip == Some(gid.gid) {
                return Some(gid);
            }
            best = best.or(Some(gid));
        }
        best
    }

    /// Finds an active RoCE port with an address of the network device `ifindex`. Sleeps.
    pub(crate) fn find_port(&self, ifindex: u32, want: &GidWant) -> Option<(u32, LocalGid)> {
        (1..=self.phys_ports())
            .filter(|port| self.is_roce(*port) && self.port_active(*port))
            .find_map(|port| Some((port, self.gid_for(port, ifindex, want)?)))
    }

    /// Finds an address of an active RoCE port whose network device is in the same IP subnet, and in
    /// the same VLAN, as `anchor`, an address of another port. Ports that `taken` names are left
    /// out. Sleeps.
    pub(crate) fn find_neighbour(
        &self,
        anchor: &LocalGid,
        net_cookie: u64,
        taken: impl Fn(u32) -> bool,
    ) -> Option<(u32, LocalGid)> {
        let usable = |port: &u32| !taken(*port) && self.is_roce(*port) && self.port_active(*port);
        (1..=self.phys_ports()).filter(usable).find_map(|port| {
            let mtu_code = self.active_mtu(port).ok()?;
            self.used_gids(port).into_iter().find_map(|index| {
                let (mut gid, netdev) =
                    // SAFETY: The device is valid in this RCU read section.
                    self.gid_entry_of(port, index, |ndev| unsafe { reaches(ndev, &anchor.gid) })?;
                let fits = netdev.net_cookie == net_cookie
                    && gid.vlan == anchor.vlan
                    && gid.roce_v2 == anchor.roce_v2
                    && is_ipv4(&gid.gid) == is_ipv4(&anchor.gid)
                    && !is_link_local(&gid.gid);
                gid.mtu_code = mtu_code;
                fits.then_some((port, gid))
            })
        })
    }

    /// Finds the address of an active RoCE port that `rank` gives most, the first of those. It is told
    /// whether the network device of the address has `near` in a subnet. Context: may sleep.
    pub(crate) fn best_gid(
        &self,
        port: u32,
        near: &[u8; 16],
        rank: impl Fn(&LocalGid, bool) -> Option<u8>,
    ) -> Option<(u8, LocalGid)> {
        if !self.is_roce(port) || !self.port_active(port) {
            return None;
        }
        let mtu_code = self.active_mtu(port).ok()?;
        let ranked = self.used_gids(port).into_iter().filter_map(|index| {
            let mut is_near = false;
            let (gid, _) = self.gid_entry_of(port, index, |ndev| {
                // SAFETY: The device is valid in this RCU read section.
                is_near = unsafe { reaches(ndev, near) };
                true
            })?;
            Some((rank(&gid, is_near)?, LocalGid { mtu_code, ..gid }))
        });
        ranked.reduce(|best, other| if other.0 > best.0 { other } else { best })
    }

    /// An address of `port` that is made of an IPv4 address. Context: may sleep.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(super) fn ipv4_gid(&self, port: u32) -> Option<LocalGid> {
        let mtu_code = self.active_mtu(port).ok()?;
        self.used_gids(port)
            .into_iter()
            .filter_map(|index| self.gid_entry(port, index))
            .find(|(gid, _)| is_ipv4(&gid.gid))
            .map(|(gid, _)| LocalGid { mtu_code, ..gid })
    }

    /// Whether a port still has this address at its place. Sleeps.
    pub(crate) fn has_gid(&self, port: u32, gid: &LocalGid) -> bool {
        let entry = self.gid_entry(port, gid.index);
        entry.is_some_and(|(known, _)| known.gid == gid.gid && known.roce_v2 == gid.roce_v2)
    }

    /// The namespace of the network device that an address of a port belongs to. Context: may sleep.
    pub(crate) fn net_of(&self, port: u32, gid: &LocalGid) -> Option<NetRef> {
        let mut net = None;
        self.gid_entry_of(port, gid.index, |ndev| {
            // SAFETY: The device is valid in this RCU read section.
            let found = NonNull::new(unsafe { bindings::rdma_sock_helper_netdev_get_net(ndev) });
            // SAFETY: We were given a reference.
            net = found.map(|net| unsafe { NetRef::from_owned(net) });
            true
        })?;
        net
    }

    /// The used places of the GID table of a port, as far as work requests can name them; all places if more
    /// than [`MOST_GIDS`] of the device are used. A table has hundreds of places, of which few are used.
    /// Context: may sleep.
    pub(super) fn used_gids(&self, port: u32) -> KVec<u8> {
        self.query_gids(port).unwrap_or_else(|_| {
            let mut all = KVec::new();
            // Without memory there is no address.
            let _ = (0..self.gid_entries(port)).try_for_each(|place| all.push(place, GFP_KERNEL));
            all
        })
    }

    /// The same, or an error if there are too many.
    fn query_gids(&self, port: u32) -> Result<KVec<u8>> {
        const UNUSED: bindings::ib_uverbs_gid_entry = bindings::ib_uverbs_gid_entry {
            gid: [0; 2],
            gid_index: 0,
            port_num: 0,
            gid_type: 0,
            netdev_ifindex: 0,
        };
        let mut entries = KVec::from_elem(UNUSED, MOST_GIDS, GFP_KERNEL)?;
        let count = self.with(|raw| {
            // SAFETY: The driver is there, and there is room for as many entries.
            let count =
                unsafe { bindings::rdma_query_gid_table(raw, entries.as_mut_ptr(), entries.len()) };
            usize::try_from(count).map_err(|_| EINVAL)
        })?;
        let mut places = KVec::with_capacity(count, GFP_KERNEL)?;
        for entry in entries.iter().take(count) {
            if let (true, Ok(place)) = (entry.port_num == port, u8::try_from(entry.gid_index)) {
                places.push(place, GFP_KERNEL)?;
            }
        }
        Ok(places)
    }

    /// Length of the GID table of a port, as far as work requests can name its entries.
    pub(super) fn gid_entries(&self, port: u32) -> u8 {
        let entries = self.with(|raw| {
            self.check_port(port)?;
            // SAFETY: The driver is there and the port exists.
            Ok(unsafe { bindings::rdma_sock_helper_ib_gid_tbl_len(raw, port) })
        });
        // Work requests name an entry by one octet.
        u8::try_from(entries.unwrap_or(0)).unwrap_or(u8::MAX)
    }

    /// Reads an entry of the GID table if it is in use and belongs to a network device.
    pub(super) fn gid_entry(&self, port: u32, index: u8) -> Option<(LocalGid, NetdevId)> {
        self.gid_entry_of(port, index, |_| true)
    }

    /// As [`Self::gid_entry`], if `wanted` agrees with the network device, which it is shown in an
    /// RCU read section.
    fn gid_entry_of(
        &self,
        port: u32,
        index: u8,
        wanted: impl FnOnce(*mut bindings::net_device) -> bool,
    ) -> Option<(LocalGid, NetdevId)> {
        self.with(|raw| {
            // SAFETY: The driver is there and the port exists.
            let attr = unsafe { bindings::rdma_get_gid_attr(raw, port, index.into()) };
            let attr = from_err_ptr(attr.cast_mut())?;
            // SAFETY: We were given a reference.
            let entry = unsafe { read_gid(raw, attr, index, wanted) };
            // SAFETY: This gives the reference back.
            unsafe { bindings::rdma_put_gid_attr(attr) };
            entry
        })
        .ok()
    }
}

/// Keeps the driver of a device there. Dropped in any context.
///
/// # Invariants
///
/// Counted in `users` of the device.
pub(super) struct Lease(Arc<Device>);

impl Lease {
    /// The device.
    pub(super) fn device(&self) -> &Arc<Device> {
        &self.0
    }

    /// The C object, usable while the lease exists.
    pub(super) fn as_raw(&self) -> *mut bindings::ib_device {
        self.0.raw.as_ptr()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.put();
    }
}

/// # Safety
///
/// `raw` is valid.
unsafe fn read_limits(raw: NonNull<bindings::ib_device>) -> DeviceLimits {
    let raw = raw.as_ptr();
    // SAFETY: Valid by this function's contract; all of these read a field.
    unsafe {
        DeviceLimits {
            ports: bindings::rdma_sock_helper_ib_phys_ports(raw),
            can_register: bindings::rdma_sock_helper_ib_can_register(raw),
            is_iwarp: bindings::rdma_sock_helper_ib_is_iwarp(raw),
            max_qp_wr: at_least_0(bindings::rdma_sock_helper_ib_max_qp_wr(raw)),
            max_cqe: at_least_0(bindings::rdma_sock_helper_ib_max_cqe(raw)),
            max_send_sge: bindings::rdma_sock_helper_ib_max_send_sge(raw),
            max_recv_sge: bindings::rdma_sock_helper_ib_max_recv_sge(raw),
            max_reads: u8::try_from(at_least_0(bindings::rdma_sock_helper_ib_max_reads(raw)))
                .unwrap_or(u8::MAX),
            max_region_bytes: usize::try_from(bindings::rdma_sock_helper_ib_max_fast_reg_pages(
                raw,
            ))
            .unwrap_or(usize::MAX)
            .saturating_mul(PAGE_SIZE),
        }
    }
}

fn at_least_0(limit: i32) -> u32 {
    limit.max(0).unsigned_abs()
}

/// # Safety
///
/// `raw` is valid and not renamed during the call.
unsafe fn read_name(raw: NonNull<bindings::ib_device>) -> DeviceName {
    // SAFETY: Valid by this function's contract.
    let from = unsafe { bindings::rdma_sock_helper_ib_device_name(raw.as_ptr()) };
    // SAFETY: The name is a nul-terminated string that stays during the call.
    let from = unsafe { <CStr as kernel::str::CStrExt>::from_char_ptr(from) };
    let mut name = DeviceName {
        bytes: [0; NAME_BYTES],
        len: 0,
    };
    for (to, from) in name.bytes.iter_mut().zip(from.to_bytes()) {
        *to = *from;
        name.len += 1;
    }
    name
}

/// Is this GID made of an IPv4 address?
fn is_ipv4(gid: &[u8; 16]) -> bool {
    gid.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
}

/// Is this GID good on one link only, like those that are made of a MAC address?
fn is_link_local(gid: &[u8; 16]) -> bool {
    gid.starts_with(&[0xfe, 0x80])
}

/// Is the address of a GID in a subnet of the network device?
///
/// # Safety
///
/// `ndev` is valid, in an RCU read section.
unsafe fn reaches(ndev: *mut bindings::net_device, gid: &[u8; 16]) -> bool {
    if is_ipv4(gid) {
        let [.., a, b, c, d] = *gid;
        let (mut subnet, mut len) = (0u32, 0);
        let addr = u32::from_ne_bytes([a, b, c, d]);
        // SAFETY: By this function's contract; both results are valid for writes.
        return unsafe {
            bindings::rdma_sock_helper_ipv4_prefix(ndev, addr, &mut subnet, &mut len) == 0
        };
    }
    let (mut prefixes, mut lens) = ([[0u8; 16]; MAX_PREFIXES], [0u8; MAX_PREFIXES]);
    // SAFETY: By this function's contract; both arrays have the given room.
    let count = unsafe {
        bindings::rdma_sock_helper_ipv6_prefixes(
            ndev,
            prefixes.as_mut_ptr().cast(),
            lens.as_mut_ptr(),
            MAX_PREFIXES as u32,
        )
    };
    let count = usize::try_from(count).unwrap_or(0);
    let addr = u128::from_be_bytes(*gid);
    prefixes.iter().zip(lens).take(count).any(|(prefix, len)| {
        let shift = 128u32.saturating_sub(len.into());
        let differs = addr ^ u128::from_be_bytes(*prefix);
        len != 0 && differs.checked_shr(shift).unwrap_or(0) == 0
    })
}

/// Names a network device, if its namespace may use this RDMA device: in the exclusive mode of RDMA
/// namespaces that is not so by itself.
///
/// # Safety
///
/// Both are valid.
pub(super) unsafe fn netdev_id(
    raw: *mut bindings::ib_device,
    ndev: *mut bindings::net_device,
) -> Result<NetdevId> {
    // SAFETY: Both are valid by this function's contract.
    if !unsafe { bindings::rdma_sock_helper_netdev_allowed(raw, ndev) } {
        return Err(ENODEV);
    }
    // SAFETY: Valid by this function's contract.
    let ifindex = unsafe { bindings::rdma_sock_helper_netdev_ifindex(ndev) };
    Ok(NetdevId {
        ifindex: u32::try_from(ifindex).map_err(|_| ENODEV)?,
        // SAFETY: Valid by this function's contract.
        net_cookie: unsafe { bindings::rdma_sock_helper_netdev_net_cookie(ndev) },
    })
}

/// Reads a referenced entry of a GID table, all but the MTU.
///
/// # Safety
///
/// Both are valid.
unsafe fn read_gid(
    raw: *mut bindings::ib_device,
    attr: *const bindings::ib_gid_attr,
    index: u8,
    wanted: impl FnOnce(*mut bindings::net_device) -> bool,
) -> Result<(LocalGid, NetdevId)> {
    let netdev = {
        let _guard = rcu::read_lock();
        // SAFETY: The entry is valid, and the read lock is held.
        let ndev = from_err_ptr(unsafe { bindings::rdma_read_gid_attr_ndev_rcu(attr) })?;
        if !wanted(ndev) {
            return Err(ENOENT);
        }
        // SAFETY: Valid while the read lock is held.
        unsafe { netdev_id(raw, ndev)? }
    };
    let mut vlan = 0;
    let mut mac = [0; 6];
    // SAFETY: The entry is valid, and both results are valid for writes.
    to_result(unsafe { bindings::rdma_read_gid_l2_fields(attr, &mut vlan, mac.as_mut_ptr()) })?;
    // SAFETY: The entry is valid and does not change while it is referenced. All octets of the union
    // are initialised.
    let (gid, gid_type) = unsafe { (*(*attr).gid.raw, (*attr).gid_type) };
    let roce_v2 = match gid_type {
        bindings::ib_gid_type_IB_GID_TYPE_ROCE => false,
        bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP => true,
        _ => return Err(ENOENT),
    };
    let gid = LocalGid {
        index,
        gid,
        mac,
        mtu_code: 0,
        vlan: (vlan < 0x1000).then_some(vlan),
        roce_v2,
    };
    Ok((gid, netdev))
}
