// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock`: the administrator's side of the `rdma_sock` kernel module.
//!
//! | command  | file          | what it does                                                |
//! |----------|---------------|-------------------------------------------------------------|
//! | `accel`  | `accel/`      | gives selected programs sockets of SMC or SDP, by BPF        |
//! | `run`    | `run.rs`      | the same for one program, by `LD_PRELOAD`                    |
//! | `status` | `status/`     | what the module is doing                                     |
//! | `device` | `device/`     | RDMA devices in software, for machines without the hardware  |
//!
//! All unsafe code is in the libraries: this crate has none.

#![forbid(unsafe_code)]

mod accel;
mod cli;
mod device;
mod module;
mod output;
mod proto;
mod run;
mod status;

use clap::Parser;
use std::process::ExitCode;

use cli::{
    AccelCommand,
    Cli,
    Command, //
};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Accel(AccelCommand::On(args)) => accel::on(&args),
        Command::Accel(AccelCommand::Off(args)) => accel::off(&args),
        Command::Accel(AccelCommand::Status(args)) => accel::print_status(args.json),
        Command::Run(args) => return run::exec(&args),
        Command::Status(args) => status::print(args.json),
        Command::Device(command) => device::execute(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}
