// SPDX-License-Identifier: GPL-2.0

//! Measures the sockets of this project, of the C implementation and of TCP, and raw verbs.
//!
//! `serve` and `load` are the two ends of a load generator; `raw-serve` and `raw-load` the same on
//! verbs. `drive` runs everything in a guest, programs that are not ours as well, and leaves a line
//! of JSON for each measurement. On the host, `report` makes a table, a file and plots of them,
//! `targets` sets the targets of several runs beside each other, and `check` compares with what is committed. See `Documentation/performance/index.rst`.

mod bounds;
mod clients;
mod counters;
mod devices;
mod drive;
mod duplex;
mod gate;
mod genl;
mod hello;
mod lab;
mod load;
mod outcome;
mod plan;
mod plot;
mod programs;
mod report;
mod runs;
mod server;
mod sock;
mod stats;
mod table;
mod targets;
mod verbs;
mod wire;
mod workload;

use anyhow::Result;
use clap::Parser;

#[derive(Parser)]
#[command(name = "bench", about, version)]
enum Bench {
    /// Run the server of the load generator
    Serve(server::ServeArgs),
    /// Run the client of the load generator
    Load(load::LoadArgs),
    /// One of the clients that `load` starts
    #[command(hide = true)]
    Ask(load::ToArgs),
    /// Run the server on raw verbs
    RawServe(verbs::ServeArgs),
    /// Run the client on raw verbs
    RawLoad(verbs::LoadArgs),
    /// Run all measurements in a guest
    Drive(drive::DriveArgs),
    /// Make a table, a JSON file and plots from the results of `drive`
    Report(report::ReportArgs),
    /// Print the targets of several runs beside each other
    Targets(runs::TargetsArgs),
    /// Compare the ratios of a run with the committed ratios
    Check(report::CheckArgs),
}

fn main() -> Result<()> {
    match Bench::parse() {
        Bench::Serve(args) => server::run(&args),
        Bench::Load(args) => load::run(&args),
        Bench::Ask(args) => clients::ask(&args.client()?),
        Bench::RawServe(args) => verbs::serve(&args),
        Bench::RawLoad(args) => verbs::load(&args),
        Bench::Drive(args) => drive::run(&args),
        Bench::Report(args) => report::report(&args),
        Bench::Targets(args) => runs::targets(&args),
        Bench::Check(args) => report::check(&args),
    }
}
