// SPDX-License-Identifier: GPL-2.0

//! The command line.

use clap::{
    Args,
    Parser,
    Subcommand, //
};
use std::{
    ffi::OsString,
    path::PathBuf, //
};

use crate::run;

/// Carries the data of TCP programs by RDMA, with the kernel module rdma_sock.
///
/// The module offers SMC sockets. An SMC socket is a TCP socket whose data goes by RDMA if both
/// hosts can do so, and by plain TCP otherwise. RDMA means that the network card of one host writes
/// straight into the memory of another host.
#[derive(Debug, Parser)]
#[command(name = "rdma-sock", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Give selected programs SMC sockets in place of TCP sockets (by BPF; needs root)
    #[command(subcommand)]
    Accel(AccelCommand),

    /// Run one program with SMC sockets in place of TCP sockets (by LD_PRELOAD; without root)
    Run(RunArgs),

    /// Show the module, RDMA devices, connections, link groups and counters
    Status(StatusArgs),

    /// Make, delete and list soft-RoCE devices: RDMA in software, for machines without the hardware
    #[command(subcommand)]
    Device(DeviceCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccelCommand {
    /// Start acceleration, or add selectors to it; it stays on until `accel off` or the next boot
    ///
    /// From now on, selected programs get SMC sockets where they ask for TCP sockets. A program is
    /// selected if any selector matches. Without --cgroup and --comm, every program is selected.
    /// Existing sockets stay as they are.
    On(OnArgs),

    /// Remove selectors, or stop acceleration
    ///
    /// With --cgroup or --comm, only these selectors are removed. Acceleration stops without these
    /// options, and when no selector is left. Existing sockets stay as they are.
    Off(OffArgs),

    /// Show the selectors, each with the number of sockets it has turned into SMC sockets
    Status(StatusArgs),
}

/// Which programs.
#[derive(Args, Debug, Default)]
pub(crate) struct SelectorArgs {
    /// Programs in this cgroup (version 2) and below it; PATH may be relative to the cgroup mount
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Vec<PathBuf>,

    /// Programs of this name, as in /proc/PID/comm of the thread or of the program's first thread
    #[arg(long, value_name = "NAME")]
    pub(crate) comm: Vec<OsString>,

    /// Refused: a socket gets its protocol before its port
    ///
    /// socket(2) sets the protocol, and bind(2) or connect(2) set the port later. Select the program
    /// (--comm) or its cgroup (--cgroup).
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct OnArgs {
    #[command(flatten)]
    pub(crate) selectors: SelectorArgs,

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
pub(crate) struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Preload this library, and not the one installed with this command
    #[arg(long, value_name = "FILE")]
    pub(crate) preload: Option<PathBuf>,

    /// Initial receive buffer of the program's SMC sockets: bytes, or a number with suffix K or M
    #[arg(short = 'r', long, value_name = "SIZE", value_parser = run::parse_size)]
    pub(crate) rcvbuf: Option<u32>,

    /// Initial send buffer of the program's SMC sockets, in the same form
    #[arg(short = 't', long, value_name = "SIZE", value_parser = run::parse_size)]
    pub(crate) sndbuf: Option<u32>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeviceCommand {
    /// Make a soft-RoCE device rxe_NETDEV on a network device
    Add(AddArgs),

    /// Delete a soft-RoCE device, given by its own name or by that of its network device
    Del {
        /// The RDMA device, or its network device
        #[arg(value_name = "DEVICE")]
        name: String,
    },

    /// List the ports of all RDMA devices
    List(StatusArgs),
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
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
    fn device_add_takes_one_device_or_all() {
        assert!(Cli::try_parse_from(["rdma-sock", "device", "add"]).is_err());
        assert!(Cli::try_parse_from(["rdma-sock", "device", "add", "eth0", "--all"]).is_err());
        assert!(Cli::try_parse_from(["rdma-sock", "device", "add", "--all"]).is_ok());
    }
}
