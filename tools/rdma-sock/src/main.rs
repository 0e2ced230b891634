// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock`: the administrator's side of the `rdma_sock` kernel module.
//!
//! | command   | file        | what it does                                          |
//! |-----------|-------------|-------------------------------------------------------|
//! | `accel`   | `accel/`    | gives selected programs sockets of SMC or SDP, by BPF |
//! | `run`     | `run.rs`    | the same for one program, by `LD_PRELOAD`             |
//! | `status`  | `status/`   | the state of the module, which `snapshot/` reads      |
//! | `explain` | `explain/`  | why a connection is TCP, and what to do about it      |
//! | `top`     | `top/`      | connections, links and devices as they change         |
//! | `metrics` | `metrics/`  | counters and gauges for Prometheus                    |
//! | `doctor`  | `doctor/`   | whether this machine can use RDMA                     |
//! | `trace`   | `trace/`    | events of the module's tracepoints, in words          |
//! | `capture` | `trace/`    | payload of connections, in a file for Wireshark       |
//! | `report`  | `report/`   | the state of the machine as one HTML file             |
//! | `bench`   | `bench/`    | TCP, SMC-R and SDP to another host, side by side      |
//! | `device`  | `device/`   | RDMA devices in software, without the hardware        |
//! | `rule`    | `rule.rs`   | which connections may use RDMA                        |
//! | `apply`   | `apply/`    | all of it as a file says, at boot                     |
//!
//! All unsafe code is in the libraries: this crate has none.

#![forbid(unsafe_code)]

mod accel;
mod apply;
mod bench;
mod cli;
mod clock;
mod device;
mod doctor;
mod explain;
mod interval;
#[cfg(test)]
mod manual;
mod metrics;
mod module;
mod netns;
mod output;
mod proto;
mod report;
mod rule;
mod run;
#[cfg(test)]
mod schema;
mod snapshot;
mod status;
mod top;
mod trace;

use clap::Parser;
use std::process::ExitCode;

use cli::{
    AccelCommand,
    Cli,
    Command, //
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.color.apply();
    let result = match cli.command {
        Command::Accel(AccelCommand::On(args)) => accel::on(&args),
        Command::Accel(AccelCommand::Off(args)) => accel::off(&args),
        Command::Accel(AccelCommand::Status(args)) => accel::print_status(args.json),
        Command::Run(args) => return run::exec(&args),
        Command::Doctor(args) => match doctor::run(&args) {
            Ok(status) => return status,
            Err(error) => Err(error),
        },
        Command::Apply(args) => match apply::run(&args) {
            Ok(status) => return status,
            Err(error) => Err(error),
        },
        Command::Status(args) => status::print(&args),
        Command::Explain(args) => explain::print(&args),
        Command::Top(args) => top::run(&args),
        Command::Metrics(args) => metrics::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Capture(args) => trace::capture(&args),
        Command::Report(args) => report::run(&args),
        Command::Bench(args) => match bench::run(&args) {
            Ok(status) => return status,
            Err(error) => Err(error),
        },
        Command::Device(command) => device::execute(&command),
        Command::Rule(command) => rule::execute(&command),
        Command::Completions { shell } => Cli::print_completions(shell),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}
