// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock bench`: TCP, SMC-R and SDP between two hosts, side by side.
//!
//! ```text
//!   hello.rs      messages of both ends
//!   socket.rs     sockets of each transport, and what carries them
//!   server.rs     the end that answers
//!   client.rs     the end that measures
//!   outcome.rs    results as text and JSON
//!   picture.rs    results as SVG
//! ```

mod client;
mod hello;
mod outcome;
mod picture;
mod server;
mod socket;

use anyhow::{
    bail,
    Context,
    Result, //
};
use clap::Args;
use std::{
    fs,
    net::{
        SocketAddr,
        ToSocketAddrs, //
    },
    path::PathBuf,
    process::ExitCode,
};

use crate::{
    output,
    snapshot::Sources, //
};
use client::Client;
use outcome::{
    BenchReport,
    Outcome, //
};
use socket::Transport;

/// Size of the messages of a ping-pong.
const MESSAGE: usize = 64;
/// Size of the calls of the other measurement.
const BULK: usize = 128 << 10;

/// With what to measure, and how.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// The other host, on which `rdma-sock bench --serve` runs
    #[arg(value_name = "HOST", required_unless_present = "serve")]
    host: Option<String>,

    /// Be the other end, until the command is ended
    #[arg(long, conflicts_with_all = ["host", "seconds", "transport", "svg", "json"])]
    serve: bool,

    /// The port of TCP; those of SMC-R and SDP are the next two
    #[arg(
        short,
        long,
        default_value_t = 7470,
        value_name = "PORT",
        value_parser = clap::value_parser!(u16).range(1..=65533)
    )]
    port: u16,

    /// Length of each of the two measurements of a transport
    #[arg(
        short,
        long,
        default_value_t = 3,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u16).range(1..=i64::from(hello::LONGEST))
    )]
    seconds: u16,

    /// Only this transport; may be given several times
    #[arg(short, long, value_enum, value_name = "TRANSPORT")]
    transport: Vec<Transport>,

    /// Write the plot to this file too
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Measures or serves; the exit status is 1 if there are no figures at all.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode> {
    if args.serve {
        server::run(args.port)?;
        return Ok(ExitCode::SUCCESS);
    }
    let host = args.host.as_deref().context("no host given")?;
    let client = Client {
        sources: Sources::of_this_machine(),
        seconds: args.seconds,
    };
    let (address, outcomes) = measure(&client, args, host)?;
    let report = BenchReport::new(host, address, args.seconds, outcomes);
    if let Some(file) = &args.svg {
        let cannot = || format!("cannot write {}", file.display());
        fs::write(file, picture::svg_of(&report)?).with_context(cannot)?;
    }
    match args.json {
        true => output::print_json(&report)?,
        false => output::print(&report.text())?,
    }
    Ok(match report.has_figures() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Measures the transports with the first address of a host that has a figure.
fn measure(
    client: &Client,
    args: &BenchArgs,
    host: &str,
) -> Result<(SocketAddr, Vec<(Transport, Outcome)>)> {
    let cannot = || format!("cannot find the host {host}");
    let addresses = (host, args.port).to_socket_addrs().with_context(cannot)?;
    let mut last = None;
    for address in addresses {
        let outcomes: Vec<(Transport, Outcome)> = Transport::ALL
            .into_iter()
            .filter(|transport| args.transport.is_empty() || args.transport.contains(transport))
            .map(|transport| {
                let server = SocketAddr::new(address.ip(), transport.port(args.port));
                (transport, client.measure(transport, server))
            })
            .collect();
        let failed = |(_, outcome): &(_, Outcome)| matches!(outcome, Outcome::Failed(_));
        let all_failed = outcomes.iter().all(failed);
        last = Some((address, outcomes));
        if !all_failed {
            break;
        }
    }
    match last {
        Some(found) => Ok(found),
        None => bail!("the host {host} has no address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    #[test]
    fn either_a_host_or_serving_is_asked_for() {
        let parse = |words: &[&str]| Line::try_parse_from([&["bench"], words].concat());
        assert!(parse(&[]).is_err());
        assert!(parse(&["db1", "--serve"]).is_err());
        assert!(parse(&["--serve", "--json"]).is_err());
        assert!(parse(&["--serve", "--port", "65534"]).is_err());
        assert!(parse(&["--serve", "--port", "80"]).unwrap().args.serve);
        let args = parse(&["db1", "-t", "smc", "-t", "sdp"]).unwrap().args;
        assert_eq!(args.transport, [Transport::Smc, Transport::Sdp]);
        assert_eq!((args.port, args.seconds), (7470, 3));
    }
}
