// SPDX-License-Identifier: GPL-2.0

//! The state of the module in this network namespace, read from `/proc` and `/sys`.
//!
//! ```text
//!   record.rs       lines of key=value words
//!   connection.rs   /proc/net/rdma_sock/conns
//!   link.rs         /proc/net/rdma_sock/links
//!   device.rs       /proc/net/rdma_sock/devices, with sysfs
//!   gid.rs          /sys/class/infiniband/DEV/ports/N/gids
//!   statistics.rs   /proc/net/rdma_sock/stat
//!   owner.rs        /proc/PID/fd: the programs of the sockets
//!   reason.rs       names of the reasons for TCP
//! ```

mod connection;
mod device;
mod gid;
mod link;
mod owner;
pub(crate) mod reason;
mod record;
#[cfg(test)]
pub(crate) mod sample;
mod statistics;

use anyhow::{
    Context,
    Result, //
};
use rustix::io::Errno;
use std::{
    collections::HashSet,
    fs,
    io::{
        self,
        ErrorKind, //
    },
    path::{
        Path,
        PathBuf, //
    },
};

use crate::module::Module;
pub(crate) use connection::Connection;
pub(crate) use device::Device;
pub(crate) use link::Link;
#[cfg(test)]
pub(crate) use owner::tests::make_process;
pub(crate) use owner::{
    Owners,
    Process, //
};
use record::records;
pub(crate) use record::Record;
pub(crate) use statistics::{
    ReasonCount,
    Statistics, //
};

/// The folders that everything is read from.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// `/proc`
    pub(crate) proc: PathBuf,
    /// `/sys`
    pub(crate) sys: PathBuf,
}

impl Sources {
    /// Those of this machine and of the network namespace of this process.
    pub(crate) fn of_this_machine() -> Self {
        Self::below(Path::new("/"))
    }

    /// Those below a folder.
    pub(crate) fn below(root: &Path) -> Self {
        Self {
            proc: root.join("proc"),
            sys: root.join("sys"),
        }
    }

    /// Reads a file; `None` if there is no such file.
    pub(crate) fn read(path: &Path) -> Result<Option<String>> {
        match fs::read_to_string(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn file(&self, name: &str) -> Result<Option<String>> {
        Self::read(&self.proc.join("net/rdma_sock").join(name))
    }

    /// Counters; none without the module.
    pub(crate) fn statistics(&self) -> Result<Statistics> {
        Ok(Statistics::parse(&self.file("stat")?.unwrap_or_default()))
    }

    /// Connections without their programs; none without the module.
    pub(crate) fn connections(&self) -> Result<Vec<Connection>> {
        Ok(records(&self.file("conns")?.unwrap_or_default())
            .map(Connection::from)
            .collect())
    }

    /// Links of link groups; none without the module.
    pub(crate) fn links(&self) -> Result<Vec<Link>> {
        Ok(records(&self.file("links")?.unwrap_or_default())
            .map(Link::from)
            .collect())
    }

    /// Ports of RDMA devices as the module sees them. Without the module, as the kernel does.
    pub(crate) fn devices(&self) -> Result<Vec<Device>> {
        let devices: Vec<Device> = match self.file("devices")? {
            Some(text) => records(&text).map(Device::from).collect(),
            // A machine without RDMA has none.
            None => crate::device::list()
                .unwrap_or_default()
                .into_iter()
                .map(Device::from)
                .collect(),
        };
        let complete = |device: Device| device.complete(&self.sys);
        Ok(devices.into_iter().map(complete).collect())
    }

    /// The programs of these connections.
    pub(crate) fn owners(&self, connections: &[Connection]) -> Owners {
        let inodes: HashSet<u64> = connections.iter().filter_map(|conn| conn.ino).collect();
        Owners::find(&self.proc, &inodes)
    }
}

/// Whether there is no such file, or its module is just being unloaded.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::NODEV)
}

/// Everything at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// The kernel module.
    pub(crate) module: Module,
    /// Ports of RDMA devices.
    pub(crate) devices: Vec<Device>,
    /// Connections with their programs.
    pub(crate) connections: Vec<Connection>,
    /// Links of link groups.
    pub(crate) links: Vec<Link>,
    /// Counters.
    pub(crate) statistics: Statistics,
}

impl Snapshot {
    /// Reads everything.
    pub(crate) fn take(sources: &Sources) -> Result<Self> {
        let mut snapshot = Self::take_without_programs(sources)?;
        let owners = sources.owners(&snapshot.connections);
        for conn in &mut snapshot.connections {
            conn.processes = conn.ino.map_or(Vec::new(), |ino| owners.of(ino).to_vec());
        }
        Ok(snapshot)
    }

    /// Reads everything except the programs of the sockets, which takes the longest.
    pub(crate) fn take_without_programs(sources: &Sources) -> Result<Self> {
        Ok(Self {
            module: Module::find_below(&sources.sys),
            devices: sources.devices()?,
            connections: sources.connections()?,
            links: sources.links()?,
            statistics: sources.statistics()?,
        })
    }

    /// Number of connections in a mode.
    pub(crate) fn count(&self, mode: &str) -> usize {
        self.connections.iter().filter(|conn| conn.is(mode)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_files_mean_no_module() {
        let folder = tempfile::tempdir().unwrap();
        let sources = Sources::below(folder.path());
        assert!(sources.connections().unwrap().is_empty());
        assert!(sources.links().unwrap().is_empty());
        assert!(sources.statistics().unwrap().counters.is_empty());
    }

    #[test]
    fn module_that_is_being_unloaded_counts_as_absent() {
        assert!(is_absent(&Errno::NODEV.into()));
        assert!(!is_absent(&Errno::ACCESS.into()));
    }

    #[test]
    fn file_that_cannot_be_read_is_an_error_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc/net/rdma_sock/conns")).unwrap();
        let error = Sources::below(folder.path()).connections().unwrap_err();
        assert!(format!("{error:#}").contains("net/rdma_sock/conns"));
    }

    #[test]
    fn snapshot_of_the_sample_has_its_programs() {
        let snapshot = sample::snapshot();
        assert!(snapshot.module.loaded);
        let programs: Vec<&str> = snapshot
            .connections
            .iter()
            .map(Connection::program)
            .collect();
        assert_eq!(programs, ["curl", "nginx", "nginx"]);
        assert_eq!(snapshot.count("tcp"), 1);
    }
}
