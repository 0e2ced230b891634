// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock status`: the state of the module in this network namespace.
//!
//! ```text
//!   text.rs     the report for people
//!   watch.rs    the report again and again
//! ```

#[cfg(test)]
mod sample;
mod text;
mod watch;

use anyhow::Result;
use serde::Serialize;
use serde_json::{
    Map,
    Value, //
};

use crate::{
    accel,
    cli::StatusArgs,
    module::Module,
    output,
    snapshot::{
        Connection,
        Device,
        Link,
        ReasonCount,
        Snapshot,
        Sources,
        Statistics, //
    },
};

const SCHEMA_VERSION: u32 = 1;

/// Everything that `status --json` prints. `Documentation/schema/status.json` is its schema.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Report {
    /// Version of this format.
    schema_version: u32,
    /// The kernel module.
    module: Module,
    /// Acceleration by BPF; null if this user may not see it.
    acceleration: Option<accel::Report>,
    /// Ports of RDMA devices.
    devices: Vec<Device>,
    /// Sockets of this network namespace.
    connections: Vec<Connection>,
    /// Links of its link groups.
    link_groups: Vec<Link>,
    /// Counters of the module, by name.
    counters: Map<String, Value>,
    /// Fallbacks by their reason.
    fallback_reasons: Vec<ReasonCount>,
    /// Handshakes that ended in a reset, by their reason.
    aborted_reasons: Vec<ReasonCount>,
}

impl Report {
    fn collect(sources: &Sources) -> Result<Self> {
        let snapshot = Snapshot::take(sources)?;
        Ok(Self::new(snapshot, accel::Report::collect().ok()))
    }

    fn new(snapshot: Snapshot, acceleration: Option<accel::Report>) -> Self {
        let Statistics {
            counters,
            fallback_reasons,
            aborted_reasons,
        } = snapshot.statistics;
        Self {
            schema_version: SCHEMA_VERSION,
            module: snapshot.module,
            acceleration,
            devices: snapshot.devices,
            connections: snapshot.connections,
            link_groups: snapshot.links,
            counters,
            fallback_reasons,
            aborted_reasons,
        }
    }
}

/// Prints the report, with `--watch` until the reader or the user ends it.
pub(crate) fn print(args: &StatusArgs) -> Result<()> {
    let sources = Sources::of_this_machine();
    if let Some(interval) = args.watch {
        return watch::run(&sources, interval, args.json);
    }
    let report = Report::collect(&sources)?;
    match args.json {
        true => output::print_json(&report),
        false => output::print(&report.text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        schema,
        snapshot, //
    };

    fn sample() -> Report {
        Report::new(snapshot::sample::snapshot(), None)
    }

    #[test]
    fn json_of_the_samples_is_as_documented() {
        let expected: Value = serde_json::from_str(sample::JSON).unwrap();
        assert_eq!(serde_json::to_value(sample()).unwrap(), expected);
    }

    #[test]
    fn json_of_the_samples_has_the_schema_of_the_documentation() {
        let json = serde_json::to_value(sample()).unwrap();
        schema::check::<Report>("status", &[json]);
    }

    #[test]
    fn text_of_the_samples_is_as_kept() {
        assert_eq!(output::plain(&sample().text()), sample::TEXT);
    }

    #[test]
    fn text_without_module_says_so() {
        let text = output::plain(&Report::new(Snapshot::default(), None).text());
        assert!(text.contains("rdma_sock is not loaded"));
        assert!(text.contains("0 over RDMA, 0 over TCP"));
    }
}
