// SPDX-License-Identifier: GPL-2.0

//! An instance of tracefs: a trace of its own, which disturbs no other one.

use anyhow::{
    bail,
    Context,
    Result, //
};
use rustix::fs::OFlags;
use std::{
    fs::{
        self,
        File,
        OpenOptions, //
    },
    io::{
        ErrorKind,
        Write, //
    },
    os::unix::fs::OpenOptionsExt,
    path::{
        Path,
        PathBuf, //
    },
};

use crate::{
    module,
    output, //
};

/// Where tracefs is mounted, and where older systems have it.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// What the names of instances begin with, in front of the PID.
const PREFIX: &str = "rdma-sock-";

/// Finds tracefs, with the events of a system, below a folder.
pub(super) fn find(root: &Path, system: &str) -> Result<PathBuf> {
    let mut refused = None;
    for place in PLACES {
        let folder = root.join(place);
        match fs::metadata(folder.join("events")) {
            Ok(_) => return with_events(folder, system),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => refused = Some(folder),
            Err(_) => {}
        }
    }
    match refused {
        Some(folder) => bail!("only root may trace: no access to {}", folder.display()),
        None => bail!(
            "no tracefs: `mount -t tracefs nodev /sys/kernel/tracing`; a kernel without \
             CONFIG_TRACING has none"
        ),
    }
}

fn with_events(folder: PathBuf, system: &str) -> Result<PathBuf> {
    match fs::metadata(folder.join("events").join(system)) {
        Ok(_) => Ok(folder),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("only root may trace: no access to {}", folder.display())
        }
        Err(_) => bail!(
            "no events of {system}: {} is not loaded, or was built without tracepoints: `modprobe {}`",
            module::RDMA_SOCK,
            module::RDMA_SOCK
        ),
    }
}

/// An instance. Dropping it turns its events off and removes it, for which its pipe must be closed.
pub(super) struct Instance(PathBuf);

impl Instance {
    /// Makes the instance of a process, and removes those of processes that have ended.
    pub(super) fn create(tracefs: &Path, pid: u32) -> Result<Self> {
        let folder = tracefs.join("instances");
        let names = fs::read_dir(&folder).into_iter().flatten().flatten();
        for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
            if ended(&name, |pid| Path::new("/proc").join(pid).exists()) {
                // Another one may remove it at the same time.
                let _ = fs::remove_dir(folder.join(name));
            }
        }
        let path = folder.join(format!("{PREFIX}{pid}"));
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self(path)),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                bail!("only root may trace: cannot make {}", path.display())
            }
            Err(error) => Err(error).with_context(|| format!("cannot make {}", path.display())),
        }
    }

    /// Sets how the instance writes events, and opens its pipe, which does not block. With
    /// `hash_pointers` it prints pointers as hashes, as `/proc` does by default.
    pub(super) fn open(&self, hash_pointers: bool) -> Result<File> {
        self.set("trace_clock", "mono")?;
        // Readers wake at the first event.
        self.set("buffer_percent", "0")?;
        self.set("options/hash-ptr", if hash_pointers { "1" } else { "0" })?;
        // Without it the number of the thread is all that is known.
        let _ = self.set("options/record-tgid", "1");
        let path = self.0.join("trace_pipe");
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits());
        OpenOptions::new()
            .read(true)
            .custom_flags(nonblocking.unwrap_or_default())
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))
    }

    /// Turns an event of a system on.
    pub(super) fn enable(&self, system: &str, tracepoint: &str) -> Result<()> {
        self.set(&format!("events/{system}/{tracepoint}/enable"), "1")
    }

    /// Turns it off.
    pub(super) fn disable(&self, system: &str, tracepoint: &str) -> Result<()> {
        self.set(&format!("events/{system}/{tracepoint}/enable"), "0")
    }

    /// Has the kernel report an event only where the filter fits.
    pub(super) fn set_filter(&self, system: &str, tracepoint: &str, filter: &str) -> Result<()> {
        self.set(&format!("events/{system}/{tracepoint}/filter"), filter)
    }

    /// Sets how many KiB of events of each processor wait for a reader.
    pub(super) fn set_room(&self, kbytes: u32) -> Result<()> {
        self.set("buffer_size_kb", &kbytes.to_string())
    }

    fn set(&self, name: &str, value: &str) -> Result<()> {
        let path = self.0.join(name);
        let written = OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| file.write_all(value.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The module may have gone, and its events with it.
        let _ = self.set("events/enable", "0");
        if let Err(error) = fs::remove_dir(&self.0) {
            output::note(&format!("cannot remove {}: {error}", self.0.display()));
        }
    }
}

/// Whether an instance is one of a process of this program that has ended.
fn ended(name: &str, runs: impl Fn(&str) -> bool) -> bool {
    let Some(pid) = name.strip_prefix(PREFIX) else {
        return false;
    };
    pid.parse::<u32>().is_ok() && !runs(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(root: &Path) -> String {
        format!("{:#}", find(root, "smc").unwrap_err())
    }

    #[test]
    fn missing_part_is_named() {
        let root = tempfile::tempdir().unwrap();
        assert!(error(root.path()).contains("mount -t tracefs"));
        let folder = root.path().join(PLACES[1]);
        fs::create_dir_all(folder.join("events")).unwrap();
        assert!(error(root.path()).contains("modprobe rdma_sock"));
        fs::create_dir_all(folder.join("events/smc")).unwrap();
        assert_eq!(find(root.path(), "smc").unwrap(), folder);
        assert!(find(root.path(), "rdma_sock").is_err());
    }

    #[test]
    fn only_instances_of_ended_processes_are_removed() {
        let runs = |pid: &str| pid == "7";
        assert!(ended("rdma-sock-8", runs));
        for name in ["rdma-sock-7", "rdma-sock-", "rdma-sock-x", "perf-8", "8"] {
            assert!(!ended(name, runs), "{name}");
        }
    }

    #[test]
    fn instance_is_removed_in_the_end() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("instances")).unwrap();
        let instance = Instance::create(root.path(), 1).unwrap();
        assert!(root.path().join("instances/rdma-sock-1").is_dir());
        let error = format!("{:#}", instance.open(true).unwrap_err());
        assert!(error.contains("trace_clock"), "{error}");
        drop(instance);
        assert!(!root.path().join("instances/rdma-sock-1").exists());
    }
}
