// SPDX-License-Identifier: GPL-2.0

//! The command line.

use clap::{
    Args,
    CommandFactory,
    Parser,
    Subcommand,
    ValueEnum, //
};
use clap_complete::Shell;
use std::{
    ffi::OsString,
    path::PathBuf, //
};

pub(crate) use crate::interval::Interval;
use crate::{
    bench::BenchArgs,
    explain::Subject,
    metrics::Address,
    output,
    proto::Proto,
    report::ReportArgs,
    rule::{
        Peer,
        Ports, //
    },
    run,
    top::SortKey,
    trace::{
        CaptureArgs,
        TraceArgs, //
    },
};

/// Carries the data of TCP programs by RDMA, with the kernel module rdma_sock.
///
/// The module offers sockets of two protocols, SMC-R and SDP. Such a socket is a TCP socket whose data
/// goes by RDMA if both hosts can do so, and by plain TCP otherwise. RDMA means that the network card of one host writes
/// straight into the memory of another host.
#[derive(Debug, Parser)]
#[command(name = "rdma-sock", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Whether output has colours; by default on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Whether output has colours.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Decides for all output of this process.
    pub(crate) fn apply(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Give selected programs sockets of SMC-R or SDP in place of TCP sockets (by BPF; needs root)
    #[command(subcommand)]
    Accel(AccelCommand),

    /// Run one program with sockets of SMC-R or SDP in place of TCP sockets (by LD_PRELOAD; without
    /// root)
    Run(RunArgs),

    /// Show the module, RDMA devices, connections with their programs, link groups and counters
    Status(StatusArgs),

    /// Say why connections use TCP and not RDMA, and what to do about it
    ///
    /// Without an argument, for all connections of the module that use TCP.
    Explain(ExplainArgs),

    /// Show connections with their programs and rates, links and devices, as they change
    Top(TopArgs),

    /// Write counters and gauges for Prometheus, in the format of OpenMetrics
    Metrics(MetricsArgs),

    /// Check whether this machine can use RDMA, and say what to do about each finding
    ///
    /// The exit status is 0 if nothing is wrong, 3 after warnings, and 1 if no connection can use
    /// RDMA.
    Doctor(JsonArgs),

    /// Print the events of the module as they happen: fallbacks, payload, links that go down
    ///
    /// By its tracepoints, in all network namespaces; needs root.
    Trace(TraceArgs),

    /// Write what programs send and receive by RDMA to a file for Wireshark (pcapng)
    ///
    /// RDMA bypasses packet captures. This copies the payload of connections over SMC-R and SDP by a
    /// tracepoint, and writes it as packets of TCP; needs root.
    Capture(CaptureArgs),

    /// Write one HTML file with the state of this machine, for a support case
    ///
    /// It has the findings of `doctor`, connections with their programs, links, devices, counters with
    /// plots, settings and modules, and refers to nothing outside. Root sees the programs of all users.
    Report(ReportArgs),

    /// Measure TCP, SMC-R and SDP between this host and another one, side by side
    ///
    /// A figure is of the transport that it is named after: the tables of the module prove the path,
    /// and a connection that falls back to TCP has its reason in place of figures.
    Bench(BenchArgs),

    /// Make, delete and list devices of RDMA in software, for machines without the hardware
    #[command(subcommand)]
    Device(DeviceCommand),

    /// Say which connections of this network namespace may use RDMA, by peer, port and direction
    ///
    /// The first rule that fits a connection decides. Without one, the connection may use RDMA.
    #[command(subcommand)]
    Rule(RuleCommand),

    /// Bring this machine to what a file says: sysctls, identifiers, devices, rules, acceleration
    ///
    /// The differences are printed, and then the changes are made. The service rdma-sock.service does it
    /// at boot. A part that the file does not have is left as it is.
    Apply(ApplyArgs),

    /// Print a script that lets a shell complete this command
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
}

impl Cli {
    /// Prints a script that lets a shell complete the command.
    pub(crate) fn print_completions(shell: Shell) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Self::command(), "rdma-sock", &mut script);
        output::print(&String::from_utf8(script)?)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccelCommand {
    /// Start acceleration, or add selectors to it; it stays on until `accel off` or the next boot
    ///
    /// From now on, selected programs get sockets of SMC-R or SDP where they ask for TCP sockets. A
    /// program is selected if any selector matches. Without --cgroup, --comm, --netns and --pid,
    /// every program is selected.
    /// Existing sockets stay as they are.
    On(OnArgs),

    /// Remove selectors, or stop acceleration
    ///
    /// With --cgroup, --comm, --netns or --pid, only these selectors are removed. Acceleration stops
    /// without these options, and when no selector is left. Existing sockets stay as they are.
    Off(OffArgs),

    /// Show the selectors, each with its protocol and the number of sockets it has turned
    Status(JsonArgs),
}

/// Which programs.
#[derive(Args, Debug, Default)]
pub(crate) struct SelectorArgs {
    /// Programs in this cgroup (version 2) and below it; PATH may be relative to the cgroup mount, and
    /// "self" is the cgroup of this command
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Vec<PathBuf>,

    /// Programs of this name, as in /proc/PID/comm of the thread or of the program's first thread
    #[arg(long, value_name = "NAME")]
    pub(crate) comm: Vec<OsString>,

    /// Programs in this network namespace: a name of "ip netns", a path such as /proc/PID/ns/net, or
    /// "self", the namespace of this command
    #[arg(long, value_name = "NAME")]
    pub(crate) netns: Vec<PathBuf>,

    /// This process and those that descend from it, as long as the processes between them live
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Vec<u32>,

    /// Refused: a socket gets its protocol before its port
    ///
    /// socket(2) sets the protocol, and bind(2) or connect(2) set the port later. Select the program
    /// (--comm), a process (--pid), its cgroup (--cgroup) or its network namespace (--netns).
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct OnArgs {
    #[command(flatten)]
    pub(crate) selectors: SelectorArgs,

    /// The protocol that the selected programs get; a selector that exists takes the new one
    #[arg(long, value_enum, default_value_t, value_name = "PROTO")]
    pub(crate) proto: Proto,

    /// Do not check for each socket whether the kernel has the protocol
    ///
    /// While the module is not loaded, socket(2) then fails in every selected program. Without
    /// --force, the program gets a plain TCP socket. Use --force if the check cannot find the
    /// kernel's table of protocols. `accel on` without --force turns the check on again.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct OffArgs {
    #[command(flatten)]
    pub(crate) selectors: SelectorArgs,
}

#[derive(Args, Debug)]
pub(crate) struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Print JSON; with --watch one document a line
    #[arg(long)]
    pub(crate) json: bool,

    /// Print it again and again, every 2 or SECONDS seconds
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2"
    )]
    pub(crate) watch: Option<Interval>,
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// A process, a port of either side, or a reason by code or name
    ///
    /// pid:NUMBER and port:NUMBER tell a process from a port.
    #[arg(value_name = "PID|PORT|REASON")]
    pub(crate) subject: Option<Subject>,

    /// List all reasons
    #[arg(long, conflicts_with = "subject")]
    pub(crate) list: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Seconds between two looks at the machine
    #[arg(short, long, default_value = "1", value_name = "SECONDS")]
    pub(crate) interval: Interval,

    /// The column that connections are sorted by
    #[arg(short, long, value_enum, default_value_t, value_name = "COLUMN")]
    pub(crate) sort: SortKey,

    /// Reverse the order
    #[arg(short, long)]
    pub(crate) reverse: bool,

    /// Show only connections with this text in program, PID, address, mode, device or reason
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,

    /// Print one frame as text after an interval, without a terminal
    #[arg(short, long, alias = "once", group = "printed")]
    pub(crate) batch: bool,

    /// Print this number of frames; a picture is of the last one
    #[arg(
        short = 'n',
        long,
        default_value_t = 1,
        value_name = "NUMBER",
        requires = "printed",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub(crate) count: u64,

    /// Columns of the frames
    #[arg(
        long,
        default_value_t = 160,
        value_name = "COLUMNS",
        value_parser = clap::value_parser!(u16).range(40..=1000)
    )]
    pub(crate) width: u16,

    /// Print one frame as an SVG picture
    #[arg(long, group = "printed")]
    pub(crate) svg: bool,
}

#[derive(Args, Debug)]
pub(crate) struct MetricsArgs {
    /// Replace this file for the textfile collector of the node exporter; its name ends in .prom
    #[arg(long, value_name = "PATH")]
    pub(crate) textfile: Option<PathBuf>,

    /// Answer HTTP requests for /metrics at this address; a port alone is one of 127.0.0.1
    #[arg(long, value_name = "ADDRESS", conflicts_with = "textfile")]
    pub(crate) listen: Option<Address>,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Preload this library, and not the one installed with this command
    #[arg(long, value_name = "FILE")]
    pub(crate) preload: Option<PathBuf>,

    /// The protocol that the program gets; RDMA_SOCK_PROTO or smc by default
    #[arg(long, value_enum, value_name = "PROTO")]
    pub(crate) proto: Option<Proto>,

    /// Initial receive buffer of the program's sockets of the protocol: bytes, or a number with suffix K or M
    #[arg(short = 'r', long, value_name = "SIZE", value_parser = run::parse_size)]
    pub(crate) rcvbuf: Option<u32>,

    /// Initial send buffer of these sockets, in the same form
    #[arg(short = 't', long, value_name = "SIZE", value_parser = run::parse_size)]
    pub(crate) sndbuf: Option<u32>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeviceCommand {
    /// Make an RDMA device in software, rsoft_NETDEV or rxe_NETDEV, on a network device
    Add(AddArgs),

    /// Delete an RDMA device in software, given by its own name or by that of its network device
    Del {
        /// The RDMA device, or its network device
        #[arg(value_name = "DEVICE")]
        name: String,
    },

    /// List the ports of all RDMA devices
    List(JsonArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ApplyArgs {
    /// The file
    #[arg(long, default_value = "/etc/rdma-sock.toml", value_name = "PATH")]
    pub(crate) file: PathBuf,

    /// Read the file, complain about the first mistake in it, and change nothing
    #[arg(long)]
    pub(crate) check: bool,

    /// Print the differences and change nothing; the exit status is 3 if there are some
    #[arg(long)]
    pub(crate) diff: bool,

    /// Only write drop-ins for the services of the file into this folder, for systemd's generator
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["check", "diff"])]
    pub(crate) drop_ins: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct AddArgs {
    /// The network device
    #[arg(value_name = "NETDEV")]
    pub(crate) netdev: Option<String>,

    /// Make one on every Ethernet device that is up, is no VLAN and has no RDMA device yet
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RuleCommand {
    /// Show the rules, and the number of connections that each has decided
    List(JsonArgs),

    /// Add a rule behind the others, or at a place, for connections that are made later
    Add(RuleArgs),

    /// Delete a rule
    Delete {
        /// Its number in the list
        number: usize,
    },

    /// Delete all rules
    Flush,

    /// Replace all rules by those in a file, at once; each line has one, as `list` shows it
    Load {
        /// The file; - is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// What a rule allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum RuleAction {
    /// RDMA, if both hosts can
    Rdma,
    /// Plain TCP only
    Tcp,
}

/// The direction of connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum RuleDirection {
    /// Connections that programs of this host accept
    In,
    /// Connections that programs of this host make
    Out,
    /// Both
    Any,
}

#[derive(Args, Debug)]
pub(crate) struct RuleArgs {
    /// What the rule allows
    #[arg(value_enum)]
    pub(crate) action: RuleAction,

    /// The connections that it is for
    #[arg(value_enum)]
    pub(crate) direction: RuleDirection,

    /// Only connections of this protocol
    #[arg(long, value_enum, value_name = "PROTO")]
    pub(crate) proto: Option<Proto>,

    /// Only connections with these hosts: an address, or a network such as 10.1.0.0/16
    #[arg(long, value_name = "NETWORK")]
    pub(crate) peer: Option<Peer>,

    /// Only connections to these ports of the server: a port, or a range such as 8000-8080
    #[arg(long, value_name = "PORTS")]
    pub(crate) port: Option<Ports>,

    /// The place of the rule; 1 is the first
    #[arg(long, value_name = "NUMBER")]
    pub(crate) at: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn completions_know_the_commands() {
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut Cli::command(), "rdma-sock", &mut script);
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("explain") && script.contains("--textfile"));
    }

    #[test]
    fn run_leaves_the_options_of_the_program_alone() {
        for words in [
            &["rdma-sock", "run", "curl", "--json", "-s"][..],
            &["rdma-sock", "run", "--", "curl", "--json", "-s"],
        ] {
            let Command::Run(args) = Cli::try_parse_from(words).unwrap().command else {
                panic!("not run");
            };
            assert_eq!(args.command, ["curl", "--json", "-s"]);
        }
    }

    #[test]
    fn protocol_is_a_word_of_three() {
        let proto = |words: &[&str]| match Cli::try_parse_from(words).unwrap().command {
            Command::Run(args) => args.proto,
            Command::Accel(AccelCommand::On(args)) => Some(args.proto),
            _ => panic!("neither"),
        };
        assert_eq!(proto(&["rdma-sock", "run", "curl"]), None);
        let words = ["rdma-sock", "run", "--proto", "sdp", "curl"];
        assert_eq!(proto(&words), Some(Proto::Sdp));
        assert_eq!(proto(&["rdma-sock", "accel", "on"]), Some(Proto::Smc));
        let words = ["rdma-sock", "accel", "on", "--proto", "auto"];
        assert_eq!(proto(&words), Some(Proto::Auto));
        assert!(Cli::try_parse_from(["rdma-sock", "run", "--proto", "tcp", "curl"]).is_err());
    }

    #[test]
    fn watch_has_an_interval_of_its_own() {
        let watch = |words: &[&str]| match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Status(args)) => Ok(args.watch),
            Ok(_) => panic!("not status"),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(watch(&["rdma-sock", "status"]), Ok(None));
        let two: Interval = "2".parse().unwrap();
        assert_eq!(watch(&["rdma-sock", "status", "--watch"]), Ok(Some(two)));
        let half: Interval = "0.5".parse().unwrap();
        let words = ["rdma-sock", "status", "--watch=0.5", "--json"];
        assert_eq!(watch(&words), Ok(Some(half)));
        let error = watch(&["rdma-sock", "status", "--watch=0"]).unwrap_err();
        assert!(error.contains("number of seconds"), "{error}");
    }

    #[test]
    fn device_add_takes_one_device_or_all() {
        assert!(Cli::try_parse_from(["rdma-sock", "device", "add"]).is_err());
        assert!(Cli::try_parse_from(["rdma-sock", "device", "add", "eth0", "--all"]).is_err());
        assert!(Cli::try_parse_from(["rdma-sock", "device", "add", "--all"]).is_ok());
    }
}
