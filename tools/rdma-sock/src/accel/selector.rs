// SPDX-License-Identifier: GPL-2.0

//! Which programs are selected: by name, process, cgroup or network namespace, as keys of the BPF maps.

use anyhow::{
    ensure,
    Context,
    Result, //
};
use procfs::process::Process;
use rustix::fs::statfs;
use serde::Serialize;
use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::MetadataExt, //
    },
    path::{
        Path,
        PathBuf, //
    },
};

use crate::netns;

/// `TASK_COMM_LEN`: a name of 15 octets and a NUL.
pub(super) const COMM_LEN: usize = 16;

const CGROUP2_SUPER_MAGIC: i64 = 0x6367_7270;
const MOUNTS: &str = "/proc/self/mountinfo";
const OWN_CGROUP: &str = "/proc/self/cgroup";
/// Names a cgroup or a namespace that may have been removed, by its number.
const ID_PREFIX: &str = "id:";
/// Names the cgroup of this process.
const OWN: &str = "self";
/// The cgroup in which systemd runs the commands of a service that has delegated its own.
const CONTROL: &str = "/.control";

/// A process. Numbers are used again, so its start belongs to it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct ProcessId {
    /// Its number in the first PID namespace.
    pub(super) pid: u32,
    /// When it was started, in clock ticks since boot.
    pub(super) start: u64,
}

/// One way to select programs.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Selector {
    /// A name as the kernel keeps it: cut off, padded with NUL.
    Comm([u8; COMM_LEN]),
    /// A process and those that descend from it.
    Process(ProcessId),
    /// The number of a cgroup of version 2; those below it are meant as well.
    Cgroup(u64),
    /// The cookie of a network namespace.
    Netns(u64),
}

/// A selector for people and programs.
#[derive(Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Description {
    /// Every program.
    All,
    /// Programs by name.
    Comm { comm: String },
    /// A process and those that descend from it; without a name if it has ended.
    Process { pid: u32, comm: Option<String> },
    /// Programs by cgroup; without a path if that cgroup is gone.
    Cgroup { id: u64, path: Option<PathBuf> },
    /// Programs by network namespace; without a name if none is known.
    Netns { cookie: u64, name: Option<String> },
}

impl Selector {
    /// All programs: those in and below the root cgroup, whose number is the same everywhere.
    pub(crate) const EVERYTHING: Self = Self::Cgroup(1);

    /// Selects programs by name.
    pub(crate) fn from_comm(name: &OsStr) -> Result<Self> {
        let name = name.as_bytes();
        let shown = String::from_utf8_lossy(name);
        ensure!(!name.is_empty(), "--comm: the name is empty");
        ensure!(
            !name.starts_with(b"/") && !name.starts_with(b"./"),
            "--comm {shown}: give the name of the program, not its path"
        );
        let mut comm = [0; COMM_LEN];
        // The kernel cuts names the same way.
        for (to, from) in comm.iter_mut().take(COMM_LEN - 1).zip(name) {
            *to = *from;
        }
        Ok(Self::Comm(comm))
    }

    /// Selects a process and those that descend from it.
    pub(crate) fn from_pid(pid: u32) -> Result<Self> {
        let found = running(pid).with_context(|| format!("--pid {pid}: no such process"))?;
        Ok(Self::Process(found.0))
    }

    /// Whether this selects by a process of this number, which may have ended.
    pub(super) fn is_of_pid(&self, wanted: u32) -> bool {
        matches!(self, Self::Process(ProcessId { pid, .. }) if *pid == wanted)
    }

    /// Selects programs by the path of their cgroup, by `id:NUMBER`, or by `self`.
    pub(crate) fn from_cgroup(path: &Path) -> Result<Self> {
        if let Some(id) = path.to_str().and_then(|text| text.strip_prefix(ID_PREFIX)) {
            return id
                .parse()
                .map(Self::Cgroup)
                .with_context(|| format!("--cgroup {ID_PREFIX}{id}"));
        }
        let own = match path == Path::new(OWN) {
            true => Some(own_cgroup()?),
            false => None,
        };
        let path = own.as_deref().unwrap_or(path);
        let below_mount = cgroup_mount().map(|mount| mount.join(path));
        let found = match below_mount {
            Some(below_mount) if path.is_relative() && below_mount.exists() => below_mount,
            _ => path.to_path_buf(),
        };
        let context = || format!("--cgroup {}", path.display());
        let fs = statfs(&found).with_context(context)?;
        // The type of the field differs between architectures.
        #[allow(clippy::unnecessary_cast, reason = "not unnecessary everywhere")]
        let magic = fs.f_type as i64;
        let data = fs::metadata(&found).with_context(context)?;
        ensure!(
            magic == CGROUP2_SUPER_MAGIC && data.is_dir(),
            "--cgroup {}: not a cgroup of version 2",
            path.display()
        );
        // The number of the directory is what the kernel calls the id of the cgroup.
        Ok(Self::Cgroup(data.ino()))
    }

    /// Selects programs by their network namespace: by its name, its path, `self`, or `id:COOKIE`.
    pub(crate) fn from_netns(name: &Path) -> Result<Self> {
        let context = || format!("--netns {}", name.display());
        let cookie = match name.to_str().and_then(|text| text.strip_prefix(ID_PREFIX)) {
            Some(id) => id.parse().with_context(context)?,
            None => netns::cookie(name).with_context(context)?,
        };
        Ok(Self::Netns(cookie))
    }

    /// Puts the selector into words.
    pub(crate) fn describe(&self) -> Description {
        match *self {
            Self::EVERYTHING => Description::All,
            Self::Comm(comm) => {
                let name = comm.split(|&byte| byte == 0).next().unwrap_or_default();
                Description::Comm {
                    comm: String::from_utf8_lossy(name).into_owned(),
                }
            }
            Self::Process(process) => Description::Process {
                pid: process.pid,
                comm: running(process.pid)
                    .filter(|(found, _)| *found == process)
                    .map(|(_, comm)| comm),
            },
            Self::Cgroup(id) => Description::Cgroup {
                id,
                path: cgroup_mount().and_then(|mount| find_inode(&mount, id)),
            },
            Self::Netns(cookie) => Description::Netns {
                cookie,
                name: netns::name_of(cookie),
            },
        }
    }
}

impl Description {
    /// The kind and the value, for a table.
    pub(crate) fn words(&self) -> (String, String) {
        match self {
            Self::All => ("all".into(), "every program".into()),
            Self::Comm { comm } => ("comm".into(), comm.clone()),
            Self::Process { pid, comm } => {
                let comm = comm.as_deref().unwrap_or("has ended");
                ("pid".into(), format!("{pid} ({comm})"))
            }
            Self::Cgroup {
                path: Some(path), ..
            } => ("cgroup".into(), path.display().to_string()),
            Self::Cgroup { id, path: None } => (
                "cgroup".into(),
                format!("{ID_PREFIX}{id} (no such cgroup here)"),
            ),
            Self::Netns {
                name: Some(name), ..
            } => ("netns".into(), name.clone()),
            Self::Netns { cookie, name: None } => (
                "netns".into(),
                format!("{ID_PREFIX}{cookie} (no such name here)"),
            ),
        }
    }
}

/// The process with this number, and its name.
fn running(pid: u32) -> Option<(ProcessId, String)> {
    let stat = Process::new(i32::try_from(pid).ok()?).ok()?.stat().ok()?;
    let start = stat.starttime;
    Some((ProcessId { pid, start }, stat.comm))
}

/// Where the cgroups of version 2 are mounted.
fn cgroup_mount() -> Option<PathBuf> {
    parse_cgroup_mount(&fs::read_to_string(MOUNTS).ok()?)
}

/// The path of this process' cgroup below the mount.
fn own_cgroup() -> Result<PathBuf> {
    let text = fs::read_to_string(OWN_CGROUP).context(OWN_CGROUP)?;
    parse_own_cgroup(&text).with_context(|| format!("--cgroup {OWN}: no cgroup of version 2"))
}

fn parse_own_cgroup(text: &str) -> Option<PathBuf> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let path = path.strip_suffix(CONTROL).unwrap_or(path);
    // The root itself is the mount.
    Some(PathBuf::from(match path {
        "" => ".",
        path => path,
    }))
}

fn parse_cgroup_mount(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        // The optional fields before the separator vary in number.
        let (front, back) = line.split_once(" - ")?;
        let is_cgroup2 = back.split(' ').next() == Some("cgroup2");
        let mount_point = front.split(' ').nth(4)?;
        is_cgroup2.then(|| PathBuf::from(mount_point))
    })
}

/// Finds the directory with this number in the tree at `dir`.
fn find_inode(dir: &Path, inode: u64) -> Option<PathBuf> {
    if fs::metadata(dir).ok()?.ino() == inode {
        return Some(dir.to_path_buf());
    }
    let entries = fs::read_dir(dir).ok()?.flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .find_map(|entry| find_inode(&entry.path(), inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_padded_and_cut_like_the_kernel_does() {
        let Selector::Comm(comm) = Selector::from_comm(OsStr::new("curl")).unwrap() else {
            panic!("not by name");
        };
        assert_eq!(&comm, b"curl\0\0\0\0\0\0\0\0\0\0\0\0");
        let Selector::Comm(comm) = Selector::from_comm(OsStr::new("redis-benchmark-long")).unwrap()
        else {
            panic!("not by name");
        };
        assert_eq!(&comm, b"redis-benchmark\0");
    }

    #[test]
    fn empty_name_and_path_are_refused() {
        assert!(Selector::from_comm(OsStr::new("")).is_err());
        assert!(Selector::from_comm(OsStr::new("/usr/bin/curl")).is_err());
    }

    #[test]
    fn directory_that_is_no_cgroup_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Selector::from_cgroup(dir.path()).is_err());
        assert!(Selector::from_cgroup(&dir.path().join("missing")).is_err());
    }

    #[test]
    fn cgroup_may_be_named_by_number() {
        assert_eq!(
            Selector::from_cgroup(Path::new("id:77")).unwrap(),
            Selector::Cgroup(77)
        );
        assert!(Selector::from_cgroup(Path::new("id:x")).is_err());
    }

    #[test]
    fn namespace_may_be_named_by_cookie() {
        let selector = Selector::from_netns(Path::new("id:77")).unwrap();
        assert_eq!(selector, Selector::Netns(77));
        let (kind, value) = Selector::Netns(u64::MAX).describe().words();
        assert_eq!(kind, "netns");
        assert_eq!(value, format!("id:{} (no such name here)", u64::MAX));
        assert!(Selector::from_netns(Path::new("id:x")).is_err());
    }

    #[test]
    fn process_is_known_by_its_number_and_start() {
        let own = std::process::id();
        let selector = Selector::from_pid(own).unwrap();
        assert!(selector.is_of_pid(own) && !selector.is_of_pid(own + 1));
        assert!(!Selector::EVERYTHING.is_of_pid(1));
        let (kind, value) = selector.describe().words();
        assert_eq!(kind, "pid");
        assert!(value.starts_with(&format!("{own} (")), "{value}");
        // A later process of the same number is another one.
        let Selector::Process(mut process) = selector else {
            panic!("not by process");
        };
        process.start += 1;
        let (_, value) = Selector::Process(process).describe().words();
        assert_eq!(value, format!("{own} (has ended)"));
        assert!(Selector::from_pid(u32::MAX).is_err());
    }

    #[test]
    fn own_cgroup_is_that_of_the_service() {
        let parse = |text| parse_own_cgroup(text).map(|path| path.display().to_string());
        let text = "1:cpu:/x\n0::/system.slice/a.service\n";
        assert_eq!(parse(text).as_deref(), Some("system.slice/a.service"));
        let text = "0::/system.slice/a.service/.control\n";
        assert_eq!(parse(text).as_deref(), Some("system.slice/a.service"));
        assert_eq!(parse("0::/\n").as_deref(), Some("."));
        assert_eq!(parse("1:cpu:/x\n"), None);
    }

    #[test]
    fn descriptions_have_stable_json() {
        let json = |selector: Selector| serde_json::to_string(&selector.describe()).unwrap();
        assert_eq!(json(Selector::EVERYTHING), r#"{"kind":"all"}"#);
        assert_eq!(
            json(Selector::from_comm(OsStr::new("curl")).unwrap()),
            r#"{"kind":"comm","comm":"curl"}"#
        );
        assert_eq!(
            json(Selector::Cgroup(u64::MAX)),
            r#"{"kind":"cgroup","id":18446744073709551615,"path":null}"#
        );
        assert_eq!(
            json(Selector::Netns(u64::MAX)),
            r#"{"kind":"netns","cookie":18446744073709551615,"name":null}"#
        );
    }

    #[test]
    fn mount_of_cgroups_is_found_in_hybrid_layouts() {
        let mounts = "\
22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:10 master:2 - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/cpu rw,nosuid shared:11 - cgroup cgroup rw,cpu
";
        assert_eq!(
            parse_cgroup_mount(mounts).unwrap(),
            Path::new("/sys/fs/cgroup/unified")
        );
        assert!(parse_cgroup_mount("").is_none());
    }

    #[test]
    fn directory_is_found_by_its_number() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b");
        fs::create_dir_all(&dir).unwrap();
        let inode = fs::metadata(&dir).unwrap().ino();
        assert_eq!(find_inode(root.path(), inode).unwrap(), dir);
    }
}
