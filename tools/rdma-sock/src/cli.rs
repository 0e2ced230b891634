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

/// Carries TCP programs over RDMA with the rdma_sock kernel module.
#[derive(Debug, Parser)]
#[command(name = "rdma-sock", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Turn the TCP sockets of selected programs into SMC sockets (BPF; needs root)
    #[command(subcommand)]
    Accel(AccelCommand),

    /// Run one program with its TCP sockets turned into SMC sockets (LD_PRELOAD)
    Run(RunArgs),

    /// Show the module, the RDMA devices, the connections and the counters
    Status(StatusArgs),

    /// Soft-RoCE devices for machines without RDMA hardware
    #[command(subcommand)]
    Device(DeviceCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccelCommand {
    /// Start acceleration, or add selectors to it; it stays on until `accel off`
    ///
    /// Sockets that selected programs create from now on are turned; a program is selected if any
    /// selector matches. Without --cgroup and --comm, all programs are selected.
    On(OnArgs),

    /// Take selectors away, or stop acceleration altogether
    ///
    /// With --cgroup or --comm only these selectors are removed. Without, or when no selector is
    /// left, the program is detached. Sockets that exist are not touched.
    Off(OffArgs),

    /// Show the selectors and how many sockets each has turned
    Status(StatusArgs),
}

/// Which programs.
#[derive(Args, Debug, Default)]
pub(crate) struct SelectorArgs {
    /// Programs in this cgroup (version 2) and below it; a path, also relative to the cgroup mount
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Vec<PathBuf>,

    /// Programs of this name (as in /proc/PID/comm, of the thread or of the whole program)
    #[arg(long, value_name = "NAME")]
    pub(crate) comm: Vec<OsString>,

    /// Refused: the port of a socket is not known when its protocol is chosen
    ///
    /// A socket gets its protocol from socket(2), and its port only from bind(2) or connect(2)
    /// later. Select the program or its cgroup.
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct OnArgs {
    #[command(flatten)]
    pub(crate) selectors: SelectorArgs,

    /// Do not check for each socket that the kernel has the protocol
    ///
    /// While the module is not loaded, socket(2) then fails in every selected program. Of use on
    /// kernels that do not let the check find what it needs; `accel on` without it checks again.
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
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// The library to preload, instead of the one installed with this tool
    #[arg(long, value_name = "FILE")]
    pub(crate) preload: Option<PathBuf>,

    /// Size of the receive buffer of its SMC sockets, in octets, or with K or M behind it
    #[arg(short = 'r', long, value_name = "SIZE", value_parser = run::parse_size)]
    pub(crate) rcvbuf: Option<u32>,

    /// Size of the send buffer of its SMC sockets, in the same way
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

    /// Delete a soft-RoCE device, named by itself or by its network device
    Del {
        /// The RDMA device or the network device under it
        #[arg(value_name = "DEVICE")]
        name: String,
    },

    /// List all RDMA devices
    List(StatusArgs),
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct AddArgs {
    /// The network device
    #[arg(value_name = "NETDEV")]
    pub(crate) netdev: Option<String>,

    /// On every Ethernet device that is up and has no RDMA device yet
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
