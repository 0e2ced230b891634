// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock metrics`: counters and gauges for Prometheus, in the format of OpenMetrics.
//!
//! ```text
//!   family.rs     names, labels and values
//!   text.rs       the text format
//!   textfile.rs   a file for the node exporter
//!   server.rs     HTTP
//! ```

mod family;
mod server;
mod text;
mod textfile;

use anyhow::Result;
use std::rc::Rc;

use crate::{
    cli::MetricsArgs,
    output,
    snapshot::{
        Snapshot,
        Sources, //
    },
};
pub(crate) use server::Address;

/// Reads the machine, and writes the metrics.
fn collect() -> Result<String> {
    text::of(&Snapshot::take_without_programs(
        &Sources::of_this_machine(),
    )?)
}

/// Writes the metrics to standard output, to a file, or to those that ask by HTTP.
pub(crate) fn run(args: &MetricsArgs) -> Result<()> {
    if let Some(address) = args.listen {
        return server::run(address, Rc::new(collect));
    }
    let text = collect()?;
    match &args.textfile {
        Some(path) => textfile::write(path, &text),
        None => output::print(&text),
    }
}
