// SPDX-License-Identifier: GPL-2.0

//! The driver, in the guest: sets the lab up, takes turns between the implementations, runs the
//! workloads, and writes down what they gave and what the kernel counted.

use crate::{
    counters::{
        self,
        Counters,
        Transport, //
    },
    genl::Smc,
    lab::{
        self,
        End,
        Lab,
        Topology, //
    },
    outcome::Outcome,
    plan::{
        Plan,
        LARGE_MTU,
        SMALL_MTU, //
    },
    programs::{
        self,
        Program, //
    },
    wire,
    workload::{
        PeerKind,
        Workload, //
    },
};
use anyhow::{
    bail,
    Context,
    Result, //
};
use clap::Args;
use serde::{
    Deserialize,
    Serialize, //
};
use std::{
    env,
    fs::{
        self,
        File, //
    },
    io::{
        BufRead,
        BufReader,
        Write, //
    },
    path::PathBuf,
    process::{
        Child,
        ChildStdin,
        Command,
        Stdio, //
    },
    thread,
    time::{
        Duration,
        Instant, //
    },
};

/// Where the server listens.
const PORT: u16 = 7001;

/// Longer than the kernel caches the counters of a device: 10 ms, in ticks of up to 10 ms.
const COUNTERS_KEPT: Duration = Duration::from_millis(30);

/// How long new sockets poll busily before they sleep, in microseconds.
const BUSY_READ: &str = "/proc/sys/net/core/busy_read";

/// For it, in [`Workload::PollPong`]: longer than any round trip.
const BUSY_MICROS: &str = "10000";

/// Command line of the driver.
#[derive(Args)]
pub struct DriveArgs {
    /// Placement of the two ends; several are measured in turns, round by round.
    #[arg(long, value_enum, default_value = "namespaces")]
    topology: Vec<Topology>,
    /// File of rdma_soft, loaded for each topology with its devices; by default it is there.
    #[arg(long)]
    soft: Option<PathBuf>,
    /// File of the module under test.
    #[arg(long)]
    module: PathBuf,
    /// Output file, with a line of JSON for each measurement.
    #[arg(long)]
    out: PathBuf,
    /// Measure fewer sizes.
    #[arg(long)]
    quick: bool,
    /// Number of measured rounds.
    #[arg(long)]
    rounds: u32,
    /// Duration of one workload.
    #[arg(long)]
    seconds: f64,
    /// Transports to measure in turns; by default all.
    #[arg(long, value_enum)]
    transport: Vec<Transport>,
    /// MTUs of the network cards; by default the largest, and that of Ethernet.
    #[arg(long)]
    mtu: Vec<u32>,
    /// Workloads to measure; by default those of the plan.
    #[arg(long)]
    workload: Vec<Workload>,
}

/// One measurement.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// [`Topology::name`].
    pub topology: String,
    /// Of the network cards.
    pub mtu: u32,
    /// 0 is the round that only counts.
    pub round: u32,
    /// [`Transport::name`].
    pub transport: String,
    /// The workload's name.
    pub workload: String,
    /// What the client says.
    pub outcome: Outcome,
    /// What does not fit the path that was meant; empty if everything does.
    pub doubt: String,
    /// What the client's end counted.
    pub near: Counters,
    /// What the server's end counted.
    pub far: Counters,
    /// What the machine counted, and the server's processor time.
    pub machine: Counters,
}

/// Runs the plan.
pub fn run(args: &DriveArgs) -> Result<()> {
    let start = Instant::now();
    let driver = |&topology: &Topology| -> Result<Driver<'_>> {
        Ok(Driver {
            lab: Lab::of(topology, args.soft.clone())?,
            topology,
            args,
            plan: Plan {
                rounds: args.rounds,
                seconds: args.seconds,
                quick: args.quick,
                topology,
            },
            server_only: !topology.is_one_kernel()
                && env::var("GUEST").is_ok_and(|guest| guest == "b"),
            start,
        })
    };
    let drivers: Vec<Driver<'_>> = args.topology.iter().map(driver).collect::<Result<_>>()?;
    let mut out = File::create(&args.out).with_context(|| args.out.display().to_string())?;
    let result = all(&drivers, &mut out);
    for driver in &drivers {
        driver.lab.down();
    }
    result
}

/// Measures all topologies in turns.
fn all(drivers: &[Driver<'_>], out: &mut File) -> Result<()> {
    for driver in drivers {
        driver.check_programs()?;
    }
    let takes_turns = |topology: Topology| {
        let mut others = drivers.iter().filter(|driver| driver.topology != topology);
        others.any(|driver| driver.topology.excludes(topology))
    };
    let mtus = drivers.first().map_or(Vec::new(), Driver::mtus);
    for mtu in mtus {
        let rounds = drivers.iter().map(|driver| driver.plan.rounds).max();
        for round in 0..=rounds.unwrap_or(0) {
            for driver in drivers {
                if driver.has_work(mtu, round) {
                    if round == 0 || takes_turns(driver.topology) {
                        driver.lab.up(mtu)?;
                    }
                    driver.round(mtu, round, out)?;
                }
            }
        }
    }
    Ok(())
}

struct Driver<'a> {
    lab: Lab,
    topology: Topology,
    args: &'a DriveArgs,
    plan: Plan,
    /// Of two kernels, this one has the server.
    server_only: bool,
    start: Instant,
}

/// What is counted at one time.
struct Snapshot {
    near: Counters,
    far: Counters,
    machine: Counters,
}

/// What a workload gave, and what was counted around it.
struct Run {
    outcome: Outcome,
    before: Snapshot,
    after: Snapshot,
}

/// A server process; ends with this value.
struct Server {
    child: Child,
    // Its end is the server's.
    stdin: Option<ChildStdin>,
}

impl Server {
    fn start(end: &End, command: &mut Command) -> Result<Self> {
        end.within(|| {
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .context("a server")?;
            let stdin = child.stdin.take();
            let stdout = child.stdout.take().context("a pipe")?;
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line)?;
            if line.trim() != "ready" {
                bail!("the server did not start");
            }
            Ok(Self { child, stdin })
        })
    }

    /// Its processor time in seconds.
    fn cpu(&self) -> f64 {
        counters::process_time(&self.child.id().to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It ends because its input has.
        let _ = self.child.wait();
    }
}

/// Free memory in KiB, counting what the kernel can take back at once.
fn free_memory() -> Result<f64> {
    fs::write("/proc/sys/vm/drop_caches", "3")?;
    let text = fs::read_to_string("/proc/meminfo")?;
    let free = text
        .lines()
        .filter(|line| {
            ["MemFree:", "Buffers:", "Cached:", "SReclaimable:"]
                .iter()
                .any(|name| line.starts_with(name))
        })
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok())
        .sum();
    Ok(free)
}

fn this_program() -> Result<PathBuf> {
    env::current_exe().context("the path of this program")
}

impl Driver<'_> {
    fn say(&self, what: &str) {
        println!("bench {:6.1} s: {what}", self.start.elapsed().as_secs_f64());
    }

    /// MTUs of the network cards.
    fn mtus(&self) -> Vec<u32> {
        match &self.args.mtu[..] {
            [] if !self.topology.is_one_kernel() => vec![SMALL_MTU],
            [] if Topology::SLOWER.contains(&self.topology) => vec![LARGE_MTU],
            // A short run compares devices with one MTU.
            [] if self.plan.quick && self.topology != Topology::Namespaces => vec![LARGE_MTU],
            [] => vec![LARGE_MTU, SMALL_MTU],
            given => given.to_vec(),
        }
    }

    fn transports(&self) -> &[Transport] {
        match &self.args.transport[..] {
            [] => &Transport::ALL,
            given => given,
        }
    }

    /// Whether a round measures anything. The first one sets up what the others measure.
    fn has_work(&self, mtu: u32, round: u32) -> bool {
        let mut transports = self.transports().iter();
        round == 0 || transports.any(|&transport| !self.workloads(transport, mtu, round).is_empty())
    }

    /// All implementations, one after the other.
    fn round(&self, mtu: u32, round: u32, out: &mut File) -> Result<()> {
        for &transport in self.transports() {
            let workloads = self.workloads(transport, mtu, round);
            if !workloads.is_empty() {
                self.turn(transport, mtu, round, &workloads, out)
                    .with_context(|| format!("{} in round {round}", transport.name()))?;
            }
        }
        Ok(())
    }

    /// Whether all programs of the run are there, and what they need.
    fn check_programs(&self) -> Result<()> {
        let mut planned = Vec::new();
        for &transport in self.transports() {
            for mtu in self.mtus() {
                for workload in self.workloads(transport, mtu, 1) {
                    if let Workload::Program(program) = workload {
                        planned.push(program);
                        self.preload(transport)?;
                    }
                }
            }
        }
        programs::check(&planned)
    }

    /// What makes programs use a transport.
    fn preload(&self, transport: Transport) -> Result<Option<PathBuf>> {
        match transport {
            Transport::C | Transport::Ours => programs::preload_library().map(Some),
            Transport::Tcp | Transport::Raw | Transport::Unix => Ok(None),
            // The plan has no programs for it.
            Transport::Sdp => Ok(None),
        }
    }

    fn workloads(&self, transport: Transport, mtu: u32, round: u32) -> Vec<Workload> {
        let wanted = &self.args.workload;
        match round {
            0 if !wanted.is_empty() => Vec::new(),
            0 => self.plan.counted(transport, mtu),
            _ if wanted.is_empty() => self.plan.workloads(transport, mtu),
            _ => self.plan.some(transport, mtu, wanted),
        }
    }

    /// Waits for the other kernel, if there is one.
    fn meet(&self, name: &str) -> Result<()> {
        if !self.topology.is_one_kernel() {
            lab::run(&format!("guest-sync {name}"))?;
        }
        Ok(())
    }

    /// One implementation's part of a round.
    fn turn(
        &self,
        transport: Transport,
        mtu: u32,
        round: u32,
        workloads: &[Workload],
        out: &mut File,
    ) -> Result<()> {
        let name = format!(
            "{}-{mtu}-{round}-{}",
            self.topology.name(),
            transport.name()
        );
        self.load(transport)?;
        let mut server = if self.topology.is_one_kernel() || self.server_only {
            Some(self.serve(transport)?)
        } else {
            None
        };
        self.meet(&format!("begin-{name}"))?;
        if !self.server_only {
            if round == 0 {
                wire::install(&self.lab.near)?;
            }
            for &workload in workloads {
                let polls = matches!(workload, Workload::PollPong(_))
                    && transport != Transport::Raw
                    && server.is_some();
                if polls {
                    // Sockets take the setting when they are made.
                    drop(server.take());
                    fs::write(BUSY_READ, BUSY_MICROS)?;
                    server = Some(self.serve(transport)?);
                }
                let of_peer = match workload {
                    Workload::Setup(peer) => Some(peer),
                    _ => None,
                };
                if let Some(peer) = of_peer {
                    drop(server.take());
                    server = Some(self.serve_peer(transport, peer)?);
                }
                let sample = self
                    .measure(transport, mtu, round, workload, server.as_ref())
                    .with_context(|| workload.to_string())?;
                if let Some(peer) = of_peer {
                    drop(server.take());
                    self.forget_peer(transport, peer)?;
                    server = Some(self.serve(transport)?);
                }
                if polls {
                    drop(server.take());
                    fs::write(BUSY_READ, "0")?;
                    server = Some(self.serve(transport)?);
                }
                self.say(&format!(
                    "{} mtu {mtu} round {round} {:4} {:18} {:12.1} {}{}",
                    sample.topology,
                    sample.transport,
                    sample.workload,
                    sample.outcome.value,
                    workload.unit(),
                    if sample.doubt.is_empty() {
                        ""
                    } else {
                        "  DOUBTFUL"
                    },
                ));
                if !sample.doubt.is_empty() {
                    self.say(&sample.doubt);
                }
                writeln!(out, "{}", serde_json::to_string(&sample)?)?;
            }
            if round == 0 {
                wire::remove(&self.lab.near)?;
            }
        }
        self.meet(&format!("end-{name}"))?;
        drop(server);
        self.unload()
    }

    fn load(&self, transport: Transport) -> Result<()> {
        match transport {
            Transport::C => {
                lab::run("modprobe smc")?;
                self.lab.near.within(|| Smc::open()?.add_eid())
            }
            Transport::Ours | Transport::Sdp => {
                lab::run(&format!("insmod {}", self.args.module.display())).map(drop)
            }
            Transport::Tcp | Transport::Raw | Transport::Unix => Ok(()),
        }
    }

    /// Removes whatever is loaded, so that the next one finds nothing of it.
    fn unload(&self) -> Result<()> {
        let unloaded = self.try_unload();
        if unloaded.is_ok() || !self.topology.is_one_kernel() {
            return unloaded;
        }
        // Seen with the C implementation for more than a minute, after a program whose time was over
        // had gone away with most of its connections in the handshake.
        self.say("connections hold a module; their devices are made anew");
        self.lab.without_rdma(|| self.try_unload())
    }

    /// Unloads whatever carries sockets.
    fn try_unload(&self) -> Result<()> {
        ["smc", "rdma_sock"].into_iter().try_for_each(lab::unload)
    }

    fn serve(&self, transport: Transport) -> Result<Server> {
        let mut command = Command::new(this_program()?);
        let at = self.lab.far.at(PORT)?.to_string();
        match transport {
            Transport::Raw => command
                .args(["raw-serve", "--at", &at])
                .args(["--device", self.lab.far.rdma]),
            _ => command
                .args(["serve", "--at", &at])
                .args(["--family", family(transport)]),
        };
        Server::start(&self.lab.far, &mut command)
    }

    /// A server on all addresses, as the client of [`Workload::Setup`] is to meet it.
    fn serve_peer(&self, transport: Transport, peer: PeerKind) -> Result<Server> {
        let carried = match peer {
            PeerKind::Known | PeerKind::Unknown => transport,
            PeerKind::TcpOnly => {
                // A namespace that has had a listener of SDP answers for its ports.
                self.unload()?;
                self.load(transport)?;
                Transport::Tcp
            }
        };
        if peer != PeerKind::Known {
            self.lab.far.set_strangers(true)?;
        }
        let mut command = Command::new(this_program()?);
        command
            .args(["serve", "--at", &format!("0.0.0.0:{PORT}")])
            .args(["--family", family(carried)]);
        Server::start(&self.lab.far, &mut command)
    }

    /// The end of it.
    fn forget_peer(&self, transport: Transport, peer: PeerKind) -> Result<()> {
        if peer != PeerKind::Known {
            self.lab.far.set_strangers(false)?;
        }
        if peer == PeerKind::TcpOnly {
            self.unload()?;
            self.load(transport)?;
        }
        Ok(())
    }

    fn client(&self, transport: Transport, workload: Workload) -> Result<Command> {
        let mut command = Command::new(this_program()?);
        match transport {
            Transport::Raw => command.args(["raw-load", "--device", self.lab.near.rdma]),
            _ => command.args(["load", "--family", family(transport)]),
        };
        if let Workload::Setup(PeerKind::Unknown | PeerKind::TcpOnly) = workload {
            for addr in self.lab.far.strangers() {
                command.args(["--each", &format!("{addr}:{PORT}")]);
            }
        }
        command
            .args(["--peer", &self.lab.far.at(PORT)?.to_string()])
            .args(["--seconds", &self.plan.seconds.to_string()])
            .arg(workload.to_string());
        Ok(command)
    }

    /// What an end counts, and its packets in the round that counts them.
    fn count(&self, end: &End, transport: Transport, round: u32) -> Result<Counters> {
        let mut found = counters::of_end(end, transport)?;
        if round == 0 && end.netdev == self.lab.near.netdev {
            found.extend(wire::read(end)?);
        }
        Ok(found)
    }

    /// What is counted now.
    fn snapshot(&self, transport: Transport, round: u32, server_cpu: f64) -> Result<Snapshot> {
        let far = if self.topology.is_one_kernel() {
            counters::of_end(&self.lab.far, transport)?
        } else {
            Counters::new()
        };
        let mut machine = counters::of_machine()?;
        machine.insert("server.cpu".into(), server_cpu);
        Ok(Snapshot {
            near: self.count(&self.lab.near, transport, round)?,
            far,
            machine,
        })
    }

    fn measure(
        &self,
        transport: Transport,
        mtu: u32,
        round: u32,
        workload: Workload,
        server: Option<&Server>,
    ) -> Result<Sample> {
        let mut sample = Sample {
            topology: self.topology.name().into(),
            mtu,
            round,
            transport: transport.name().into(),
            workload: workload.to_string(),
            ..Sample::default()
        };
        let run = match workload {
            Workload::Program(program) => self.run_program(transport, round, program),
            _ => match self.run_client(transport, round, workload, server) {
                // It is compared with: what it cannot carry ends no run.
                Err(error) if transport == Transport::C => Err(error),
                run => Ok(run?),
            },
        };
        match run {
            Ok(run) => {
                sample.near = counters::delta(&run.before.near, &run.after.near);
                sample.far = counters::delta(&run.before.far, &run.after.far);
                sample.machine = counters::delta(&run.before.machine, &run.after.machine);
                let carried = match workload {
                    Workload::Setup(PeerKind::TcpOnly) => Transport::Tcp,
                    _ => transport,
                };
                let doubt = counters::proves(carried, &run.outcome, &sample.near).err();
                sample.doubt = doubt.unwrap_or_default();
                sample.outcome = run.outcome;
            }
            // Only this figure is lost if a program does not get on with a transport, or C fails.
            Err(error) => sample.doubt = format!("{error:#}"),
        }
        Ok(sample)
    }

    /// One workload of the load generator.
    fn run_client(
        &self,
        transport: Transport,
        round: u32,
        workload: Workload,
        server: Option<&Server>,
    ) -> Result<Run> {
        let cpu = || server.map_or(0.0, Server::cpu);
        let memory = match workload {
            Workload::Idle(_) => free_memory()?,
            _ => 0.0,
        };
        let before = self.snapshot(transport, round, cpu())?;
        let start = Instant::now();
        let (mut outcome, used) = self.lab.near.within(|| {
            let mut command = self.client(transport, workload)?;
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .context("a client")?;
            let stdout = child.stdout.take().context("a pipe")?;
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line)?;
            // Idle connections stand as long as the client's input is open.
            let used = match workload {
                Workload::Idle(_) => memory - free_memory()?,
                _ => 0.0,
            };
            drop(child.stdin.take());
            if !child.wait()?.success() {
                bail!("the client failed");
            }
            let outcome: Outcome = serde_json::from_str(&line).context("the client's answer")?;
            Ok((outcome, used))
        })?;
        thread::sleep(COUNTERS_KEPT.saturating_sub(start.elapsed()));
        let after = self.snapshot(transport, round, cpu())?;
        if let Workload::Idle(count) = workload {
            outcome.value = used / f64::from(count);
        }
        Ok(Run {
            outcome,
            before,
            after,
        })
    }

    /// One of programs that are not ours, with a server of its own.
    fn run_program(&self, transport: Transport, round: u32, program: Program) -> Result<Run> {
        let preload = self.preload(transport)?;
        let server = programs::Server::start(program, &self.lab.far, preload)?;
        let before = self.snapshot(transport, round, server.cpu())?;
        let outcome = programs::run(&server, &self.lab.near, self.plan.seconds)?;
        let after = self.snapshot(transport, round, server.cpu())?;
        Ok(Run {
            outcome,
            before,
            after,
        })
    }
}

fn family(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "tcp",
        Transport::Unix => "unix",
        Transport::Sdp => "sdp",
        _ => "smc",
    }
}
