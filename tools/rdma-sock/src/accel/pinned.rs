// SPDX-License-Identifier: GPL-2.0

//! The BPF program and its maps, pinned below the BPF file system.
//!
//! The pin of the link keeps the program attached; it is made last and removed first, so a folder
//! without it is what an interrupted run left and is cleared away.

use anyhow::{
    anyhow,
    bail,
    Context,
    Result, //
};
use libbpf_rs::{
    set_print,
    ErrorKind,
    Link,
    MapCore,
    MapFlags,
    MapHandle,
    ObjectBuilder,
    PrintLevel, //
};
use std::{
    fs::{
        self,
        DirBuilder,
        Metadata, //
    },
    io,
    os::unix::fs::{
        DirBuilderExt,
        MetadataExt, //
    },
    path::{
        Path,
        PathBuf, //
    },
    sync::Mutex, //
};

use crate::proto::Proto;

use super::{
    kernel::{
        self,
        ProtocolLists, //
    },
    selector::{
        ProcessId,
        Selector,
        COMM_LEN, //
    },
};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/accel.bpf.o"));

/// Version of the layouts shared with the program; of what is pinned as well.
const ACCEL_ABI: u32 = 4;

const FOLDER: &str = "rdma-sock";

/// Whose the folder has to be, and the bits that let others write to it.
const ROOT: u32 = 0;
const WRITE_BY_OTHERS: u32 = 0o022;
const FOLDER_MODE: u32 = 0o700;
const LINK: &str = "link";
const CONFIG: &str = "config";
const CGROUPS: &str = "cgroups";
const COMMS: &str = "comms";
const PROCESSES: &str = "processes";
const NAMESPACES: &str = "namespaces";
const COUNTERS: &str = "counters";
const MAPS: [&str; 6] = [CONFIG, CGROUPS, COMMS, PROCESSES, NAMESPACES, COUNTERS];

/// Keys of `counters`: `enum accel_counter`.
const COUNTER_TURNED: u32 = 0;
const COUNTER_UNREGISTERED: u32 = 1;

/// `struct accel_config`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Config {
    abi: u32,
    protocols: Option<ProtocolLists>,
}

impl Config {
    const SIZE: usize = 24;

    fn new(protocols: Option<ProtocolLists>) -> Self {
        Self {
            abi: ACCEL_ABI,
            protocols,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let unguarded = u32::from(self.protocols.is_none());
        let (inet, inet6) = self
            .protocols
            .map_or((0, 0), |lists| (lists.inet, lists.inet6));
        let parts: [&[u8]; 4] = [
            &self.abi.to_ne_bytes(),
            &unguarded.to_ne_bytes(),
            &inet.to_ne_bytes(),
            &inet6.to_ne_bytes(),
        ];
        parts.concat()
    }

    fn decode(octets: &[u8]) -> Option<Self> {
        let octets: &[u8; Self::SIZE] = octets.try_into().ok()?;
        let (abi, rest) = octets.split_first_chunk()?;
        let (unguarded, rest) = rest.split_first_chunk()?;
        let (inet, rest) = rest.split_first_chunk()?;
        let (inet6, _) = rest.split_first_chunk()?;
        let lists = ProtocolLists {
            inet: u64::from_ne_bytes(*inet),
            inet6: u64::from_ne_bytes(*inet6),
        };
        Some(Self {
            abi: u32::from_ne_bytes(*abi),
            protocols: (u32::from_ne_bytes(*unguarded) == 0).then_some(lists),
        })
    }
}

/// `struct accel_selector`: what the programs of a selector get, and how many sockets have got it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Rule {
    pub(super) sockets: u64,
    pub(super) proto: Proto,
}

impl Rule {
    const SIZE: usize = 16;

    fn encode(&self) -> Vec<u8> {
        let [first, second] = self.proto.numbers();
        let parts: [&[u8]; 3] = [
            &self.sockets.to_ne_bytes(),
            &first.to_ne_bytes(),
            &second.to_ne_bytes(),
        ];
        parts.concat()
    }

    fn decode(octets: &[u8]) -> Option<Self> {
        let octets: &[u8; Self::SIZE] = octets.try_into().ok()?;
        let (sockets, rest) = octets.split_first_chunk()?;
        let (first, rest) = rest.split_first_chunk()?;
        let (second, _) = rest.split_first_chunk()?;
        let numbers = [u32::from_ne_bytes(*first), u32::from_ne_bytes(*second)];
        Some(Self {
            sockets: u64::from_ne_bytes(*sockets),
            proto: Proto::from_numbers(numbers)?,
        })
    }
}

/// Sockets of selected programs since the program was attached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    pub(super) turned: u64,
    pub(super) unregistered: u64,
}

/// The maps of the attached program.
pub(super) struct Pinned {
    config: MapHandle,
    cgroups: MapHandle,
    comms: MapHandle,
    processes: MapHandle,
    namespaces: MapHandle,
    counters: MapHandle,
}

impl Pinned {
    /// Opens the maps; none if no program is attached.
    pub(super) fn open() -> Result<Option<Self>> {
        let dir = folder();
        if !check_folder(&dir)? {
            return Ok(None);
        }
        let link = dir.join(LINK);
        if !link
            .try_exists()
            .with_context(|| link.display().to_string())?
        {
            return Ok(None);
        }
        let pinned = Self::open_maps(&dir)
            .context("acceleration is damaged (`rdma-sock accel off` clears it)")?;
        pinned.read_config()?;
        Ok(Some(pinned))
    }

    /// Loads and attaches the program with these selectors, and pins it.
    pub(super) fn attach(
        protocols: Option<ProtocolLists>,
        selectors: &[Selector],
        proto: Proto,
    ) -> Result<()> {
        remove()?;
        let result = Self::try_attach(protocols, selectors, proto);
        if result.is_err() {
            // The first error is the one to tell.
            let _ = remove();
        }
        result
    }

    fn try_attach(
        protocols: Option<ProtocolLists>,
        selectors: &[Selector],
        proto: Proto,
    ) -> Result<()> {
        let mut object = ObjectBuilder::default()
            .open_memory(OBJECT)
            .and_then(libbpf_rs::OpenObject::load)
            .map_err(|error| explain(error, "load"))?;
        let dir = folder();
        DirBuilder::new()
            .mode(FOLDER_MODE)
            .create(&dir)
            .with_context(|| dir.display().to_string())?;
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if MAPS.contains(&name.as_str()) {
                let path = dir.join(&name);
                map.pin(&path)
                    .with_context(|| format!("cannot pin {}", path.display()))?;
            }
        }
        let pinned = Self::open_maps(&dir)?;
        pinned.write(Config::new(protocols), selectors, proto)?;

        let program = object
            .progs_mut()
            .next()
            .context("no program in the BPF object")?;
        let mut link = program
            .attach_trace()
            .map_err(|error| explain(error, "attach"))?;
        let path = dir.join(LINK);
        link.pin(&path)
            .with_context(|| format!("cannot pin {}", path.display()))
    }

    fn open_maps(dir: &Path) -> Result<Self> {
        let map = |name: &str| {
            let path = dir.join(name);
            MapHandle::from_pinned_path(&path)
                .with_context(|| format!("cannot open {}", path.display()))
        };
        Ok(Self {
            config: map(CONFIG)?,
            cgroups: map(CGROUPS)?,
            comms: map(COMMS)?,
            processes: map(PROCESSES)?,
            namespaces: map(NAMESPACES)?,
            counters: map(COUNTERS)?,
        })
    }

    /// Adds selectors to the attached program; those it has already go on counting.
    pub(super) fn update(
        &self,
        protocols: Option<ProtocolLists>,
        selectors: &[Selector],
        proto: Proto,
    ) -> Result<()> {
        self.write(Config::new(protocols), selectors, proto)
    }

    fn write(&self, config: Config, selectors: &[Selector], proto: Proto) -> Result<()> {
        self.config
            .update(&0u32.to_ne_bytes(), &config.encode(), MapFlags::ANY)
            .context("cannot write the configuration of the BPF program")?;
        for selector in selectors {
            let (map, key) = self.place(selector);
            let known = map.lookup(&key, MapFlags::ANY)?;
            let known = known.map(|value| decode_rule(&value)).transpose()?;
            if known.is_some_and(|rule| rule.proto == proto) {
                continue;
            }
            // The sockets that are made between the two calls are not counted.
            let sockets = known.map_or(0, |rule| rule.sockets);
            let rule = Rule { sockets, proto };
            map.update(&key, &rule.encode(), MapFlags::ANY)
                .context("cannot add the selector")?;
        }
        Ok(())
    }

    /// Removes a selector; false if there was none.
    pub(super) fn delete(&self, selector: &Selector) -> Result<bool> {
        let (map, key) = self.place(selector);
        match map.delete(&key) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).context("cannot remove the selector"),
        }
    }

    /// All selectors with what they do.
    pub(super) fn selectors(&self) -> Result<Vec<(Selector, Rule)>> {
        let mut found = Vec::new();
        for (map, decode) in [
            (&self.comms, decode_comm as fn(&[u8]) -> Option<Selector>),
            (&self.processes, decode_process),
            (&self.cgroups, decode_cgroup),
            (&self.namespaces, decode_netns),
        ] {
            for key in map.keys() {
                let selector = decode(&key).context("unexpected key in a BPF map")?;
                // Another run may have removed it meanwhile.
                if let Some(value) = map.lookup(&key, MapFlags::ANY)? {
                    found.push((selector, decode_rule(&value)?));
                }
            }
        }
        found.sort_unstable_by_key(|(selector, _)| *selector);
        Ok(found)
    }

    /// The counters, over all processors.
    pub(super) fn counters(&self) -> Result<Counters> {
        let counter = |key: u32| -> Result<u64> {
            let values = self
                .counters
                .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)?;
            let values = values.context("a counter of the BPF program is missing")?;
            values.iter().map(|value| decode_count(value)).sum()
        };
        Ok(Counters {
            turned: counter(COUNTER_TURNED)?,
            unregistered: counter(COUNTER_UNREGISTERED)?,
        })
    }

    /// Are sockets turned only while the kernel has the protocol?
    pub(super) fn is_guarded(&self) -> Result<bool> {
        Ok(self.read_config()?.protocols.is_some())
    }

    fn read_config(&self) -> Result<Config> {
        let octets = self.config.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?;
        let config = octets.as_deref().and_then(Config::decode);
        let config = config.filter(|config| config.abi == ACCEL_ABI);
        config.context("another version started acceleration: run `rdma-sock accel off` first")
    }

    fn place(&self, selector: &Selector) -> (&MapHandle, Vec<u8>) {
        match selector {
            Selector::Comm(comm) => (&self.comms, comm.to_vec()),
            Selector::Process(process) => (&self.processes, encode_process(process)),
            Selector::Cgroup(id) => (&self.cgroups, id.to_ne_bytes().to_vec()),
            Selector::Netns(cookie) => (&self.namespaces, cookie.to_ne_bytes().to_vec()),
        }
    }
}

/// Detaches the program, if there is one, and removes all pins.
pub(super) fn remove() -> Result<()> {
    let dir = folder();
    if !check_folder(&dir)? {
        return Ok(());
    }
    capture_messages();
    // With a descriptor the kernel detaches the program when that is closed; by its name alone, it
    // would do so some time after this tool has ended.
    let link = Link::open(dir.join(LINK)).ok();
    for name in std::iter::once(LINK).chain(MAPS) {
        let path = dir.join(name);
        ignore_absence(fs::remove_file(&path)).with_context(|| path.display().to_string())?;
    }
    drop(link);
    ignore_absence(fs::remove_dir(&dir)).with_context(|| dir.display().to_string())
}

/// Refuses a folder that a user has made, or can write to: pins in it may be anything. A
/// world-writable BPF file system is sticky, so root's folder cannot be replaced after the check.
/// False if there is no folder.
fn check_folder(dir: &Path) -> Result<bool> {
    let found = match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found.with_context(|| dir.display().to_string())?,
    };
    check_owner(&found, ROOT).with_context(|| {
        format!(
            "{} is not trusted: remove it, and mount the BPF file system with mode 0700",
            dir.display()
        )
    })?;
    Ok(true)
}

/// Is this a folder of `owner` to which no other user can write?
fn check_owner(found: &Metadata, owner: u32) -> Result<()> {
    if !found.is_dir() {
        bail!("not a folder");
    }
    if found.uid() != owner {
        bail!("owned by user {}, not by user {owner}", found.uid());
    }
    if found.mode() & WRITE_BY_OTHERS != 0 {
        bail!("mode {:04o} lets other users write", found.mode() & 0o7777);
    }
    Ok(())
}

fn ignore_absence(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn folder() -> PathBuf {
    Path::new(kernel::BPF_FS).join(FOLDER)
}

fn decode_comm(key: &[u8]) -> Option<Selector> {
    <[u8; COMM_LEN]>::try_from(key).ok().map(Selector::Comm)
}

/// `struct accel_process`.
fn encode_process(process: &ProcessId) -> Vec<u8> {
    let parts: [&[u8]; 3] = [
        &process.start.to_ne_bytes(),
        &process.pid.to_ne_bytes(),
        &[0; 4],
    ];
    parts.concat()
}

fn decode_process(key: &[u8]) -> Option<Selector> {
    let (start, rest) = key.split_first_chunk()?;
    let (pid, rest) = rest.split_first_chunk()?;
    (rest.len() == 4).then_some(Selector::Process(ProcessId {
        pid: u32::from_ne_bytes(*pid),
        start: u64::from_ne_bytes(*start),
    }))
}

fn decode_cgroup(key: &[u8]) -> Option<Selector> {
    key.try_into()
        .ok()
        .map(u64::from_ne_bytes)
        .map(Selector::Cgroup)
}

fn decode_netns(key: &[u8]) -> Option<Selector> {
    key.try_into()
        .ok()
        .map(u64::from_ne_bytes)
        .map(Selector::Netns)
}

fn decode_count(value: &[u8]) -> Result<u64> {
    let octets = value.try_into().context("unexpected value in a BPF map")?;
    Ok(u64::from_ne_bytes(octets))
}

fn decode_rule(value: &[u8]) -> Result<Rule> {
    Rule::decode(value).context("unexpected value in a BPF map")
}

/// What libbpf had to say; only of interest if something fails.
static MESSAGES: Mutex<String> = Mutex::new(String::new());

/// Keeps libbpf from writing to standard error.
fn capture_messages() {
    set_print(Some((PrintLevel::Info, |_, message| {
        if let Ok(mut messages) = MESSAGES.lock() {
            messages.push_str(&message);
        }
    })));
}

/// Adds the likely cause and libbpf's messages to an error of it.
fn explain(error: libbpf_rs::Error, what: &str) -> anyhow::Error {
    let messages = MESSAGES
        .lock()
        .map(|messages| messages.clone())
        .unwrap_or_default();
    let cause = match error.kind() {
        ErrorKind::PermissionDenied => {
            "not permitted (needs CAP_SYS_ADMIN, and a kernel without the confidentiality lockdown)"
        }
        _ => "this kernel may lack CONFIG_MPTCP or CONFIG_BPF_JIT",
    };
    anyhow!("{}", messages.trim())
        .context(error)
        .context(format!(
            "cannot {what} the BPF program for {}: {cause}",
            kernel::HOOK
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTS: ProtocolLists = ProtocolLists {
        inet: 0xffff_ffff_83a0_1050,
        inet6: 0xffff_ffff_83a0_c110,
    };

    #[test]
    fn configuration_has_the_layout_of_the_program() {
        let octets = Config::new(Some(LISTS)).encode();
        let expected = [
            &4u32.to_ne_bytes()[..],
            &0u32.to_ne_bytes(),
            &LISTS.inet.to_ne_bytes(),
            &LISTS.inet6.to_ne_bytes(),
        ];
        assert_eq!(octets, expected.concat());
        assert_eq!(octets.len(), Config::SIZE);
    }

    #[test]
    fn configuration_survives_the_map() {
        for config in [Config::new(Some(LISTS)), Config::new(None)] {
            assert_eq!(Config::decode(&config.encode()), Some(config));
        }
        assert_eq!(Config::decode(&[0; Config::SIZE - 1]), None);
    }

    #[test]
    fn rule_has_the_layout_of_the_program_and_survives_the_map() {
        let rule = Rule {
            sockets: 7,
            proto: Proto::Auto,
        };
        let expected = [
            &7u64.to_ne_bytes()[..],
            &258u32.to_ne_bytes(),
            &256u32.to_ne_bytes(),
        ];
        assert_eq!(rule.encode(), expected.concat());
        assert_eq!(Rule::decode(&rule.encode()), Some(rule));
        assert_eq!(Rule::decode(&[0; Rule::SIZE]), None);
        assert_eq!(Rule::decode(&[0; 8]), None);
    }

    #[test]
    fn program_has_the_maps_that_are_pinned_and_their_sizes() {
        let object = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        let sizes = |name: &str| {
            let map = object.maps().find(|map| map.name() == name).unwrap();
            (map.key_size() as usize, map.value_size() as usize)
        };
        assert_eq!(sizes(CONFIG), (4, Config::SIZE));
        assert_eq!(sizes(CGROUPS), (8, Rule::SIZE));
        assert_eq!(sizes(COMMS), (COMM_LEN, Rule::SIZE));
        assert_eq!(sizes(PROCESSES), (16, Rule::SIZE));
        assert_eq!(sizes(NAMESPACES), (8, Rule::SIZE));
        assert_eq!(sizes(COUNTERS), (4, 8));
    }

    #[test]
    fn folder_that_others_own_or_write_is_refused() {
        use std::os::unix::fs::{
            symlink,
            PermissionsExt, //
        };
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(FOLDER);
        let check = |owner| check_owner(&fs::symlink_metadata(&dir).unwrap(), owner);
        DirBuilder::new().mode(FOLDER_MODE).create(&dir).unwrap();
        let own = fs::symlink_metadata(&dir).unwrap().uid();
        assert!(check(own).is_ok());
        let error = check(own + 1).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("owned by user {own}, not by user {}", own + 1)
        );
        for mode in [0o720, 0o702, 0o1777] {
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            let error = check(own).unwrap_err().to_string();
            assert_eq!(error, format!("mode {mode:04o} lets other users write"));
        }
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(check(own).is_ok());

        let other = root.path().join("other");
        fs::rename(&dir, &other).unwrap();
        symlink(&other, &dir).unwrap();
        assert_eq!(check(own).unwrap_err().to_string(), "not a folder");
    }

    #[test]
    fn folder_that_is_not_there_is_no_error() {
        let root = tempfile::tempdir().unwrap();
        assert!(!check_folder(&root.path().join(FOLDER)).unwrap());
    }

    #[test]
    fn keys_decode_to_their_selectors() {
        let comm = *b"curl\0\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(decode_comm(&comm), Some(Selector::Comm(comm)));
        assert_eq!(
            decode_cgroup(&7u64.to_ne_bytes()),
            Some(Selector::Cgroup(7))
        );
        assert_eq!(decode_cgroup(&[0; 4]), None);
        assert_eq!(decode_netns(&7u64.to_ne_bytes()), Some(Selector::Netns(7)));
        assert_eq!(decode_netns(&[0; 4]), None);
        let process = ProcessId {
            pid: 77,
            start: 1 << 40,
        };
        let key = encode_process(&process);
        assert_eq!(decode_process(&key), Some(Selector::Process(process)));
        assert_eq!(decode_process(&key[..12]), None);
    }
}
