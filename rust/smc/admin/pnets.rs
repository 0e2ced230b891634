// SPDX-License-Identifier: GPL-2.0

//! The tables of physical networks, and the ports that connections get by them.
//!
//! Each namespace has ids for its network devices, and the initial one for the ports of all RDMA
//! devices. An entry is about the device that has its name at the time of a connection. What is
//! found by an id may be in another namespace, so the tables are those of the host's administrator.

use crate::{
    fabric::ports::{
        DeviceList,
        Path, //
    },
    kapi::{
        net::{
            netdev::Stack,
            netns::Net,
            sock::Sock, //
        },
        verbs::device::{
            Device,
            LocalGid, //
        },
    },
    proto::smc::pnet::{
        admits,
        id_of_netdev,
        id_of_port,
        joins,
        Candidate,
        Entry,
        Names,
        Place,
        PnetId,
        Search,
        Wanted,
        MAX_ENTRIES, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
};

/// The table of a namespace that has entries.
struct Table {
    cookie: u64,
    is_initial: bool,
    entries: KVec<Entry>,
}

/// The tables of all namespaces.
#[pin_data]
pub(crate) struct Pnets {
    devices: Arc<DeviceList>,
    /// A leaf lock.
    #[pin]
    tables: Mutex<KVec<Table>>,
    /// Some network device and some port have an id in common.
    in_use: Atomic<bool>,
}

/// Runs `f` with the names of a device.
fn with_names<R>(device: &Device, f: impl FnOnce(&Names<'_>) -> R) -> R {
    let (own, parent) = (device.name(), device.parent_name());
    f(&Names {
        own: own.as_bytes(),
        parent: parent.as_bytes(),
    })
}

impl Pnets {
    /// No namespace has entries. Context: may sleep.
    pub(crate) fn new(devices: &Arc<DeviceList>) -> Result<Arc<Self>> {
        let devices = devices.clone();
        let tables = new_mutex!(KVec::new(), "rdma_sock_pnets");
        Arc::pin_init(
            pin_init!(Self {
                devices,
                tables <- tables,
                in_use: Atomic::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Copies the entries of a namespace. Context: may sleep.
    pub(crate) fn of(&self, net_cookie: u64) -> Result<KVec<Entry>> {
        let tables = self.tables.lock();
        let mut entries = KVec::new();
        if let Some(table) = tables.iter().find(|table| table.cookie == net_cookie) {
            entries.extend_from_slice(&table.entries, GFP_KERNEL)?;
        }
        Ok(entries)
    }

    /// Adds the entries that a request wants. The cgroup of the caller is charged for them.
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the request is invalid, `EEXIST` if there is nothing to add, `ENOSPC` if the
    /// table is full.
    pub(crate) fn add(&self, net: &Net, wanted: &Wanted<'_>) -> Result {
        let is_initial = net.is_initial();
        let entries = wanted.entries(is_initial).ok_or(EINVAL)?;
        let mut is_new = false;
        for entry in entries.into_iter().flatten() {
            match self.add_entry(net.cookie(), is_initial, entry) {
                Ok(()) => is_new = true,
                Err(error) if error == EEXIST => {}
                Err(error) => return Err(error),
            }
        }
        if is_new {
            Ok(())
        } else {
            Err(EEXIST)
        }
    }

    fn add_entry(&self, cookie: u64, is_initial: bool, entry: Entry) -> Result {
        if let Place::Port(name, _) = &entry.place {
            for device in &self.devices.known()? {
                let tried = with_names(device, |names| {
                    let is_it = names.has(name);
                    is_it.then(|| self.enter(cookie, is_initial, entry, Some(names)))
                });
                if let Some(result) = tried {
                    return result;
                }
            }
        }
        self.enter(cookie, is_initial, entry, None)
    }

    /// Enters an entry, about the device of these names if there is one.
    fn enter(
        &self,
        cookie: u64,
        is_initial: bool,
        entry: Entry,
        names: Option<&Names<'_>>,
    ) -> Result {
        let mut tables = self.tables.lock();
        if !tables.iter().any(|table| table.cookie == cookie) {
            let table = Table {
                cookie,
                is_initial,
                entries: KVec::new(),
            };
            tables.push(table, GFP_KERNEL_ACCOUNT)?;
        }
        let mut found = tables.iter_mut();
        let table = found.find(|table| table.cookie == cookie).ok_or(ENOENT)?;
        if !admits(&table.entries, &entry, names) {
            return Err(EEXIST);
        }
        if table.entries.len() >= MAX_ENTRIES {
            return Err(ENOSPC);
        }
        table.entries.push(entry, GFP_KERNEL_ACCOUNT)?;
        self.changed(&tables);
        Ok(())
    }

    /// Removes the entries of an id from the table of a namespace. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none.
    pub(crate) fn remove(&self, net_cookie: u64, id: &[u8]) -> Result {
        let mut tables = self.tables.lock();
        let mut found = tables.iter_mut();
        let table = found.find(|table| table.cookie == net_cookie);
        let entries = &mut table.ok_or(ENOENT)?.entries;
        let before = entries.len();
        entries.retain(|entry| !entry.id.is_named(id));
        if entries.len() == before {
            return Err(ENOENT);
        }
        self.changed(&tables);
        Ok(())
    }

    /// Removes all entries of a namespace. Context: may sleep.
    pub(crate) fn forget(&self, net_cookie: u64) {
        let mut tables = self.tables.lock();
        tables.retain(|table| table.cookie != net_cookie);
        self.changed(&tables);
    }

    /// Notes whether the tables are in use.
    fn changed(&self, tables: &[Table]) {
        let ports = tables.iter().find(|table| table.is_initial);
        let in_use = ports.is_some_and(|ports| {
            let mut tables = tables.iter();
            tables.any(|netdevs| joins(&netdevs.entries, &ports.entries))
        });
        // A connection that begins meanwhile follows the tables of before.
        self.in_use.store(in_use, Relaxed);
    }

    /// Whether some connection may get a port by an id. Context: any.
    pub(crate) fn is_in_use(&self) -> bool {
        self.in_use.load(Relaxed)
    }

    /// The id of a port. Context: may sleep.
    pub(crate) fn of_port(&self, device: &Device, port: u32) -> Option<PnetId> {
        with_names(device, |names| {
            let tables = self.tables.lock();
            let table = tables.iter().find(|table| table.is_initial)?;
            id_of_port(&table.entries, names, port)
        })
    }

    /// The id of the network device of a connection: that of the device at the bottom, or its own.
    fn of_netdev(&self, stack: &Stack) -> Option<PnetId> {
        let tables = self.tables.lock();
        [&stack.lowest, &stack.own].into_iter().find_map(|dev| {
            let mut found = tables.iter();
            let table = found.find(|table| table.cookie == dev.net_cookie)?;
            id_of_netdev(&table.entries, dev.name())
        })
    }

    /// Finds the best port with an id, of those that `may_use` allows.
    fn find(
        &self,
        net_cookie: u64,
        id: PnetId,
        search: &Search,
        may_use: impl Fn(&Arc<Device>, u32) -> bool,
    ) -> Option<Path> {
        let may_use = |device: &Arc<Device>, port| {
            self.of_port(device, port) == Some(id) && may_use(device, port)
        };
        let rank = |gid: &LocalGid, is_near| {
            search.rank(&Candidate {
                gid: gid.gid,
                vlan: gid.vlan,
                roce_v2: gid.roce_v2,
                is_near,
            })
        };
        self.devices
            .find_ranked(net_cookie, &search.ip, may_use, rank)
    }

    /// Finds the path of a connection from the address `ip` if its network device has an id; `None`
    /// if it has none. Context: may sleep.
    pub(crate) fn find_path(&self, sk: &Sock, ip: [u8; 16]) -> Option<Option<Path>> {
        let stack = sk.stack()?;
        let id = self.of_netdev(&stack)?;
        let search = Search {
            ip,
            vlan: stack.vlan,
            beside: None,
        };
        Some(self.find(sk.net_cookie(), id, &search, |_, _| true))
    }

    /// Finds a port for another link beside `path`, of a group of that namespace: one with the same
    /// id, or without one. Context: may sleep.
    pub(crate) fn find_other(
        &self,
        net_cookie: u64,
        path: &Path,
        taken: impl Fn(&Arc<Device>, u32) -> bool,
    ) -> Option<Path> {
        let Some(id) = self.of_port(&path.device, path.port) else {
            return self.devices.find_other(net_cookie, path, |device, port| {
                taken(device, port) || self.of_port(device, port).is_some()
            });
        };
        let search = Search {
            ip: path.gid.gid,
            vlan: path.gid.vlan,
            beside: Some(path.gid.roce_v2),
        };
        // A group leaves its namespace only if its first link has done so.
        let is_own = |device: &Device, port| {
            let netdev = device.netdev(port);
            netdev.is_some_and(|netdev| netdev.net_cookie == net_cookie)
        };
        let is_inside = is_own(&path.device, path.port);
        self.find(net_cookie, id, &search, |device, port| {
            !taken(device, port) && (!is_inside || is_own(device, port))
        })
    }
}
