// SPDX-License-Identifier: GPL-2.0

//! The two ends that are measured: namespaces of one kernel, joined by a veth pair, or two kernels on
//! a wire. Each end has an RDMA device in software on its network card: one of rdma_rxe or of rdma_soft.

use anyhow::{
    bail,
    Context,
    Result, //
};
use rustix::thread::{
    move_into_link_name_space,
    LinkNameSpaceType, //
};
use std::{
    env, fs,
    net::SocketAddr,
    os::fd::AsFd,
    path::{
        Path,
        PathBuf, //
    },
    process::Command,
    thread,
    time::{
        Duration,
        Instant, //
    },
};

/// Further addresses that a server can have, each of them once: to a client that has not seen them,
/// peers that it does not know.
const STRANGERS: std::ops::RangeInclusive<u8> = 101..=124;

/// How long anything in the lab may take to come about.
const PATIENCE: Duration = Duration::from_secs(20);

/// The network card of each of two kernels.
const CARD: &str = "net0";

/// Where the two ends are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Topology {
    /// Two namespaces of one kernel.
    Namespaces,
    /// Two kernels.
    Wire,
    /// The same with devices of rdma_soft, in turns with those of rdma_rxe.
    WireSoft,
    /// Two namespaces of one kernel, with devices of rdma_soft in place of those of rdma_rxe.
    Rsoft,
    /// The same with all packets on the network (`direct=0`).
    Packets,
    /// The same with devices of rdma_rxe, in turns with the two before.
    Rxe,
    /// As `Packets`, with queue pairs that run in tasks.
    InTasks,
    /// As `Packets`, with an acknowledgment for each message.
    SingleAcks,
    /// As `Packets`, with completions that reach their queue one by one.
    SingleCompletions,
    /// As `Packets`, with checksums by the kernel, be it slow.
    KernelChecksums,
    /// As `Packets`, with packets that pass the network one by one.
    OneByOne,
    /// As `Packets`, with packets that UDP gives to the device one by one.
    ByUdp,
    /// As `WireSoft`, with packets that arrive one after another and are not joined.
    NotJoined,
}

impl Topology {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Wire => "wire",
            Self::WireSoft => "wire-soft",
            Self::NotJoined => "not-joined",
            Self::Rsoft => "rsoft",
            Self::Packets => "packets",
            Self::Rxe => "rxe",
            Self::InTasks => "in-tasks",
            Self::SingleAcks => "single-acks",
            Self::SingleCompletions => "single-completions",
            Self::KernelChecksums => "kernel-checksums",
            Self::OneByOne => "one-by-one",
            Self::ByUdp => "by-udp",
        }
    }

    /// Those that lack one of the fast paths.
    pub const SLOWER: [Self; 7] = [
        Self::InTasks,
        Self::SingleAcks,
        Self::SingleCompletions,
        Self::KernelChecksums,
        Self::OneByOne,
        Self::ByUdp,
        Self::NotJoined,
    ];

    /// The topology with all fast paths, of one that lacks one.
    pub fn with_all_paths(self) -> Self {
        match self {
            Self::NotJoined => Self::WireSoft,
            _ => Self::Packets,
        }
    }

    /// Whether its devices are those of rdma_soft.
    pub fn is_soft(self) -> bool {
        self.link_type() == "rsoft"
    }

    /// Parameters of rdma_soft.
    fn parameters(self) -> &'static str {
        match self {
            Self::Packets => "direct=0",
            Self::InTasks => "direct=0 plain=1",
            Self::SingleAcks => "direct=0 plain=2",
            Self::SingleCompletions => "direct=0 plain=4",
            Self::KernelChecksums => "direct=0 plain=8",
            Self::NotJoined => "plain=16",
            Self::OneByOne => "direct=0 together=0",
            Self::ByUdp => "direct=0 hook=0",
            Self::Namespaces | Self::Wire | Self::WireSoft | Self::Rsoft | Self::Rxe => "",
        }
    }

    /// Whether both ends are in this kernel.
    pub fn is_one_kernel(self) -> bool {
        !matches!(self, Self::Wire | Self::WireSoft | Self::NotJoined)
    }

    /// Whether only one of both can be there: they have the same namespaces or the same card, and modules
    /// with other parameters.
    pub fn excludes(self, other: Self) -> bool {
        self.is_soft() && other.is_soft() || !self.is_one_kernel() && !other.is_one_kernel()
    }

    /// The link type of its RDMA devices.
    fn link_type(self) -> &'static str {
        match self {
            Self::Namespaces | Self::Wire | Self::Rxe => "rxe",
            _ => "rsoft",
        }
    }
}

/// One end.
#[derive(Clone, Debug)]
pub struct End {
    /// `None` if it is the kernel's own namespace.
    namespace: Option<&'static str>,
    /// The network card.
    pub netdev: &'static str,
    /// The RDMA device.
    pub rdma: &'static str,
    /// The link type of that device.
    link_type: &'static str,
    /// The IPv4 address.
    pub addr: String,
}

/// Runs a command to its end.
pub fn run(line: &str) -> Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (program, args) = words.split_first().context("no command")?;
    let output = Command::new(program)
        .args(args)
        .output()
        .with_context(|| line.to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{line}: {}: {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Polls until there is an answer, for work that the kernel does later without an event.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if start.elapsed() > PATIENCE {
            bail!("waited in vain for {what}");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Unloads a module, unless it is not there. Sockets that are closing may hold it for a while.
pub fn unload(module: &str) -> Result<()> {
    until("a module to be unused", || {
        let gone = !Path::new("/sys/module").join(module).exists();
        Ok((gone || run(&format!("rmmod {module}")).is_ok()).then_some(()))
    })
}

impl End {
    /// Runs `f` in the end's network namespace, with everything that it starts.
    pub fn within<T: Send>(&self, f: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let Some(name) = self.namespace else {
            return f();
        };
        let file = fs::File::open(Path::new("/run/netns").join(name)).context(name)?;
        // A thread of its own, as a thread cannot always come back.
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                        .context(name)?;
                    f()
                })
                .join()
                .ok()
                .context("a thread of the driver panicked")?
        })
    }

    /// Address with a port.
    pub fn at(&self, port: u16) -> Result<SocketAddr> {
        Ok(format!("{}:{port}", self.addr).parse()?)
    }

    /// The further addresses, in the network of the first one.
    pub fn strangers(&self) -> Vec<String> {
        let network = self
            .addr
            .rsplit_once('.')
            .map_or("", |(network, _)| network);
        STRANGERS.map(|host| format!("{network}.{host}")).collect()
    }

    /// Gives the end its further addresses, or takes them away, and waits for the RDMA device.
    pub fn set_strangers(&self, there: bool) -> Result<()> {
        let verb = if there { "add" } else { "delete" };
        self.within(|| {
            for addr in self.strangers() {
                run(&format!("ip address {verb} {addr}/24 dev {}", self.netdev))?;
            }
            Ok(())
        })?;
        for addr in self.strangers().into_iter().filter(|_| there) {
            self.await_gid(&addr)?;
        }
        Ok(())
    }

    /// Makes the namespace, and gives it the network card with an MTU and the address.
    fn place(&self, mtu: u32) -> Result<()> {
        let (dev, name) = (self.netdev, self.namespace.unwrap_or_default());
        run(&format!("ip netns add {name}"))?;
        run(&format!("ip link set {dev} netns {name}"))?;
        run(&format!("ip -n {name} link set lo up"))?;
        run(&format!("ip -n {name} link set {dev} mtu {mtu}"))?;
        run(&format!(
            "ip -n {name} address add {}/24 dev {dev}",
            self.addr
        ))?;
        run(&format!("ip -n {name} link set {dev} up")).map(drop)
    }

    /// Settings that keep ports and backlogs from being what is measured.
    fn settle(&self) -> Result<()> {
        self.within(|| {
            for (name, value) in [
                ("core/somaxconn", "4096"),
                ("ipv4/ip_local_port_range", "1024 65535"),
                ("ipv4/tcp_tw_reuse", "1"),
                ("ipv4/tcp_max_tw_buckets", "1024"),
                ("ipv4/tcp_max_syn_backlog", "4096"),
                ("ipv4/tcp_syncookies", "0"),
                // Peers that refuse a datagram are many addresses of one host here.
                ("ipv4/icmp_ratelimit", "0"),
            ] {
                let file = Path::new("/proc/sys/net").join(name);
                // Some exist in the first namespace only.
                if file.exists() {
                    fs::write(&file, value).with_context(|| file.display().to_string())?;
                }
            }
            Ok(())
        })
    }

    /// Makes the RDMA device, and waits until it knows the address.
    fn add_rdma(&self) -> Result<()> {
        let (rdma, link_type, netdev) = (self.rdma, self.link_type, self.netdev);
        self.within(|| {
            run(&format!(
                "rdma link add {rdma} type {link_type} netdev {netdev}"
            ))
        })?;
        self.await_gid(&self.addr)
    }

    /// Waits until the RDMA device knows an address.
    fn await_gid(&self, addr: &str) -> Result<()> {
        let rdma = self.rdma;
        let ip: std::net::Ipv4Addr = addr.parse()?;
        let [a, b, c, d] = ip.octets();
        let gid = format!("0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}");
        let folder = format!("/sys/class/infiniband/{rdma}/ports/1/gids");
        until("the address of an RDMA device", || {
            for entry in fs::read_dir(&folder)? {
                // The places without an address cannot be read.
                if fs::read_to_string(entry?.path()).is_ok_and(|text| text.trim() == gid) {
                    return Ok(Some(()));
                }
            }
            Ok(None)
        })
    }

    fn remove_rdma(&self) {
        // It may not be there.
        let _ = run(&format!("rdma link delete {}", self.rdma));
    }
}

/// Both ends: the client's and the server's. Of two kernels the other one has the second.
pub struct Lab {
    topology: Topology,
    /// The file of rdma_soft, if each set-up loads it anew.
    soft: Option<PathBuf>,
    /// The client's end.
    pub near: End,
    /// The server's end.
    pub far: End,
}

impl Lab {
    /// The ends of a topology, which need not exist yet.
    pub fn of(topology: Topology, soft: Option<PathBuf>) -> Result<Self> {
        let end = |namespace, netdev, rdma, addr: &str| End {
            namespace,
            netdev,
            rdma,
            link_type: topology.link_type(),
            addr: addr.to_string(),
        };
        let (near, far) = match topology {
            Topology::Namespaces | Topology::Rxe => (
                end(Some("bench-a"), "ba", "rdma_a", "10.8.0.1"),
                end(Some("bench-b"), "bb", "rdma_b", "10.8.0.2"),
            ),
            Topology::Wire => (
                end(None, CARD, "rxe0", "192.168.77.1"),
                end(None, CARD, "rxe0", "192.168.77.2"),
            ),
            Topology::WireSoft | Topology::NotJoined => (
                end(None, CARD, "rsoft0", "192.168.77.1"),
                end(None, CARD, "rsoft0", "192.168.77.2"),
            ),
            _ => (
                end(Some("soft-a"), "sa", "soft_a", "10.7.0.1"),
                end(Some("soft-b"), "sb", "soft_b", "10.7.0.2"),
            ),
        };
        if !topology.is_one_kernel() {
            let guest = env::var("GUEST").context("GUEST")?;
            if guest != "a" && guest != "b" {
                bail!("GUEST is {guest}");
            }
        }
        Ok(Self {
            topology,
            soft,
            near,
            far,
        })
    }

    /// Ends that are of this kernel.
    fn here(&self) -> Vec<&End> {
        match self.topology {
            _ if self.topology.is_one_kernel() => vec![&self.near, &self.far],
            _ if env::var("GUEST").is_ok_and(|guest| guest == "b") => vec![&self.far],
            _ => vec![&self.near],
        }
    }

    /// Sets everything up with an MTU of the network cards.
    pub fn up(&self, mtu: u32) -> Result<()> {
        self.down();
        match self.topology {
            // The card cannot be set down; its MTU is the guest's. Both drivers want the same UDP port.
            Topology::Wire => {
                unload("rdma_soft")?;
                run("modprobe rdma_rxe")?;
            }
            Topology::WireSoft | Topology::NotJoined => unload("rdma_rxe")?,
            _ => {
                let (near, far) = (self.near.netdev, self.far.netdev);
                run(&format!("ip link add {near} type veth peer name {far}"))?;
                for end in self.here() {
                    end.place(mtu)?;
                }
            }
        }
        self.load_soft()?;
        for end in self.here() {
            end.settle()?;
            end.add_rdma()?;
        }
        Ok(())
    }

    /// Loads rdma_soft anew, with the parameters of the topology. All its devices are gone.
    fn load_soft(&self) -> Result<()> {
        let Some(soft) = self.soft.as_ref().filter(|_| self.topology.is_soft()) else {
            return Ok(());
        };
        unload("rdma_soft")?;
        let parameters = self.topology.parameters();
        run(&format!("insmod {} roce=2 {parameters}", soft.display())).map(drop)
    }

    /// Does something while there are no RDMA devices.
    pub fn without_rdma<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        for end in self.here() {
            end.remove_rdma();
        }
        let result = f();
        for end in self.here() {
            end.add_rdma()?;
        }
        result
    }

    /// Takes everything down.
    pub fn down(&self) {
        for end in self.here() {
            end.remove_rdma();
            if let Some(name) = end.namespace {
                // It may not be there.
                let _ = run(&format!("ip netns delete {name}"));
            }
        }
        if self.topology.is_one_kernel() {
            // A namespace goes later than its name, and takes its card with it then.
            let _ = run(&format!("ip link delete {}", self.near.netdev));
        }
    }
}
