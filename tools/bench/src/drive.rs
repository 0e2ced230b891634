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
    wire,
    workload::Workload,
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
    path::{
        Path,
        PathBuf, //
    },
    process::{
        Child,
        ChildStdin,
        Command,
        Stdio, //
    },
    time::Instant,
};

/// Where the server listens.
const PORT: u16 = 7001;

/// How long new sockets poll busily before they sleep, in microseconds.
const BUSY_READ: &str = "/proc/sys/net/core/busy_read";

/// For it, in [`Workload::PollPong`]: longer than any round trip.
const BUSY_MICROS: &str = "10000";

/// Command line of the driver.
#[derive(Args)]
pub struct DriveArgs {
    /// Where the two ends are.
    #[arg(long, value_enum, default_value = "namespaces")]
    topology: Topology,
    /// Our module.
    #[arg(long)]
    module: PathBuf,
    /// The file that gets a line of JSON for each measurement.
    #[arg(long)]
    out: PathBuf,
    /// Fewer sizes.
    #[arg(long)]
    quick: bool,
    /// Rounds that are measured.
    #[arg(long)]
    rounds: u32,
    /// For one workload.
    #[arg(long)]
    seconds: f64,
    /// Those that take turns; by default all.
    #[arg(long, value_enum)]
    transport: Vec<Transport>,
    /// Of the network cards; by default the largest, and Ethernet's.
    #[arg(long)]
    mtu: Vec<u32>,
    /// These workloads, in place of the plan's.
    #[arg(long)]
    workload: Vec<Workload>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    let driver = Driver {
        lab: Lab::of(args.topology)?,
        args,
        plan: Plan {
            rounds: args.rounds,
            seconds: args.seconds,
            quick: args.quick,
            wire: args.topology == Topology::Wire,
        },
        server_only: args.topology == Topology::Wire
            && env::var("GUEST").is_ok_and(|guest| guest == "b"),
        start: Instant::now(),
    };
    let mut out = File::create(&args.out).with_context(|| args.out.display().to_string())?;
    let result = driver.all(&mut out);
    driver.lab.down();
    result
}

struct Driver<'a> {
    lab: Lab,
    args: &'a DriveArgs,
    plan: Plan,
    /// Of two kernels, this one has the server.
    server_only: bool,
    start: Instant,
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

    fn all(&self, out: &mut File) -> Result<()> {
        let mtus: &[u32] = match (&self.args.mtu[..], self.args.topology) {
            ([], Topology::Namespaces) => &[LARGE_MTU, SMALL_MTU],
            ([], Topology::Wire) => &[SMALL_MTU],
            (given, _) => given,
        };
        let transports: &[Transport] = match &self.args.transport[..] {
            [] => &Transport::ALL,
            given => given,
        };
        for &mtu in mtus {
            self.lab.up(mtu)?;
            for round in 0..=self.plan.rounds {
                for &transport in transports {
                    let workloads = self.workloads(transport, mtu, round);
                    if !workloads.is_empty() {
                        self.turn(transport, mtu, round, &workloads, out)
                            .with_context(|| format!("{} in round {round}", transport.name()))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn workloads(&self, transport: Transport, mtu: u32, round: u32) -> Vec<Workload> {
        let wanted = &self.args.workload;
        match round {
            0 if !wanted.is_empty() => Vec::new(),
            0 => self.plan.counted(transport, mtu),
            _ if wanted.is_empty() => self.plan.workloads(transport, mtu),
            _ => {
                // Raw verbs and sockets cannot do the same.
                let fits = |workload: &Workload| match workload {
                    Workload::Bulk(_) | Workload::PingPong(_) | Workload::PollPong(_) => true,
                    _ => transport != Transport::Raw,
                };
                wanted.iter().copied().filter(fits).collect()
            }
        }
    }

    /// Waits for the other kernel, if there is one.
    fn meet(&self, name: &str) -> Result<()> {
        if self.args.topology == Topology::Wire {
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
        let name = format!("{mtu}-{round}-{}", transport.name());
        self.load(transport)?;
        let mut server = if self.args.topology == Topology::Namespaces || self.server_only {
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
                let sample = self
                    .measure(transport, mtu, round, workload, server.as_ref())
                    .with_context(|| workload.to_string())?;
                if polls {
                    drop(server.take());
                    fs::write(BUSY_READ, "0")?;
                    server = Some(self.serve(transport)?);
                }
                self.say(&format!(
                    "mtu {mtu} round {round} {:4} {:18} {:12.1} {}{}",
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
            Transport::Ours => {
                lab::run(&format!("insmod {}", self.args.module.display())).map(drop)
            }
            Transport::Tcp | Transport::Raw => Ok(()),
        }
    }

    /// Removes whatever is loaded. Sockets that are closing hold a module for a while.
    fn unload(&self) -> Result<()> {
        for module in ["smc", "rdma_sock"] {
            lab::until("a module to be unused", || {
                if !Path::new("/sys/module").join(module).exists() {
                    return Ok(Some(()));
                }
                Ok(lab::run(&format!("rmmod {module}")).ok().map(drop))
            })?;
        }
        Ok(())
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

    fn client(&self, transport: Transport, workload: Workload) -> Result<Command> {
        let mut command = Command::new(this_program()?);
        match transport {
            Transport::Raw => command.args(["raw-load", "--device", self.lab.near.rdma]),
            _ => command.args(["load", "--family", family(transport)]),
        };
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

    fn measure(
        &self,
        transport: Transport,
        mtu: u32,
        round: u32,
        workload: Workload,
        server: Option<&Server>,
    ) -> Result<Sample> {
        let both = self.args.topology == Topology::Namespaces;
        let far = || match both {
            true => counters::of_end(&self.lab.far, transport),
            false => Ok(Counters::new()),
        };
        let machine = || -> Result<Counters> {
            let mut found = counters::of_machine()?;
            found.insert("server.cpu".into(), server.map_or(0.0, Server::cpu));
            Ok(found)
        };
        let memory = match workload {
            Workload::Idle(_) => free_memory()?,
            _ => 0.0,
        };
        let before = (
            self.count(&self.lab.near, transport, round)?,
            far()?,
            machine()?,
        );
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
        let after = (
            self.count(&self.lab.near, transport, round)?,
            far()?,
            machine()?,
        );
        if let Workload::Idle(count) = workload {
            outcome.value = used / f64::from(count);
        }
        let near = counters::delta(&before.0, &after.0);
        let doubt = counters::proves(transport, &outcome, &near).err();
        Ok(Sample {
            topology: self.args.topology.name().into(),
            mtu,
            round,
            transport: transport.name().into(),
            workload: workload.to_string(),
            outcome,
            doubt: doubt.unwrap_or_default(),
            near,
            far: counters::delta(&before.1, &after.1),
            machine: counters::delta(&before.2, &after.2),
        })
    }
}

fn family(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "tcp",
        _ => "smc",
    }
}
