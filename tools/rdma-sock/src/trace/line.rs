// SPDX-License-Identifier: GPL-2.0

//! Lines for people, and JSON for programs.

use serde::Serialize;

use super::{
    event::{
        Detail,
        Event, //
    },
    socket::Socket,
};
use crate::{
    clock::Utc,
    explain,
    output::{
        bytes,
        paint,
        style, //
    },
    snapshot::{
        reason,
        Process, //
    },
};

const SCHEMA_VERSION: u32 = 1;

/// The state of a link that is being set up, as smcr(8) counts states.
const ACTIVATING: i64 = 2;

/// One line of `trace --json`. `Documentation/schema/trace.json` is its schema.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TraceLine {
    /// Version of this format.
    schema_version: u32,
    /// "fallback", "sent", "received", "link-down", or "lost" where the kernel had no room for events.
    event: &'static str,
    /// Time in UTC, as RFC 3339 writes it.
    time: Option<String>,
    /// The thread in whose context the kernel reported the event; often a worker of the kernel.
    thread: Option<Process>,
    /// Number of the processor.
    cpu: Option<u32>,
    /// Cookie of the network namespace.
    net: Option<u64>,
    /// Programs that have the socket open.
    processes: Vec<Process>,
    /// Local address and port, if the socket was found.
    local: Option<String>,
    /// Address and port of the peer, likewise.
    peer: Option<String>,
    /// Code of the reason for TCP, like "0x03010000".
    reason: Option<String>,
    /// Name of the reason.
    reason_name: Option<&'static str>,
    /// What the reason means.
    meaning: Option<&'static str>,
    /// Payload in bytes.
    bytes: Option<u64>,
    /// RDMA device.
    dev: Option<String>,
    /// The link, as the kernel tells links apart.
    link: Option<String>,
    /// The link group, likewise.
    lgr: Option<String>,
    /// State of the link before: 2 in first contact or while it was added, 3 active.
    state: Option<i64>,
    /// Place in the code of the kernel.
    location: Option<String>,
    /// Number of lost events, if the kernel knows it.
    count: Option<u64>,
}

impl TraceLine {
    /// Describes an event of this time.
    pub(super) fn new(event: &Event, time: Utc, socket: Option<&Socket>) -> Self {
        let line = Self {
            schema_version: SCHEMA_VERSION,
            event: event.kind().name(),
            time: Some(time.to_string()),
            thread: Some(event.task.thread.clone()),
            cpu: Some(event.cpu),
            net: Some(event.net),
            processes: socket.map_or(Vec::new(), |socket| socket.processes.clone()),
            local: socket.map(|socket| socket.local.to_string()),
            peer: socket.map(|socket| socket.peer.to_string()),
            ..Self::default()
        };
        match event.detail.clone() {
            Detail::Fallback { reason, .. } => Self {
                reason: Some(reason::text(reason)),
                reason_name: Some(reason::name(reason)),
                meaning: Some(explain::meaning(reason)),
                ..line
            },
            Detail::Moved { bytes, dev, .. } => Self {
                bytes: Some(bytes),
                dev: Some(dev),
                ..line
            },
            Detail::LinkDown {
                link,
                group,
                state,
                dev,
                location,
            } => Self {
                link: Some(link),
                lgr: Some(group),
                state: Some(state),
                dev: Some(dev),
                location: Some(location),
                ..line
            },
        }
    }

    /// Reports lost events.
    pub(super) fn lost(count: Option<u64>) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            event: "lost",
            count,
            ..Self::default()
        }
    }
}

/// An event of this time for people.
pub(super) fn text(event: &Event, time: Utc, socket: Option<&Socket>) -> String {
    let thread = &event.task.thread;
    let pid = event.task.process.unwrap_or(thread.pid);
    let program = match socket.map(|socket| socket.processes.as_slice()) {
        Some([first, ..]) => format!("{} (PID {})", first.name, first.pid),
        _ => format!("{} (PID {pid})", thread.name),
    };
    let addresses = |arrow: &str| match socket {
        Some(socket) => format!("{} {arrow} {}", socket.local, socket.peer),
        None => "a connection that has ended".into(),
    };
    let (style, words) = match &event.detail {
        Detail::Fallback { reason, .. } => (
            style::WARNING,
            format!(
                "{program}  {}  uses TCP: {} ({})",
                addresses("--"),
                reason::name(*reason),
                reason::text(*reason)
            ),
        ),
        Detail::Moved {
            sent,
            bytes: count,
            dev,
            ..
        } => {
            let arrow = if *sent { "->" } else { "<-" };
            let count = bytes(*count);
            let words = format!("{program}  {}  {count} by {dev}", addresses(arrow));
            (style::GOOD, words)
        }
        Detail::LinkDown { state, dev, .. } => {
            let before = match *state {
                ACTIVATING => "was being set up (first contact, or another link)",
                _ => "was active",
            };
            let words = format!("a link of {dev} goes down; it {before}");
            (style::BAD, words)
        }
    };
    format!(
        "{}  {}  {words}\n",
        paint(style::DIM, time.time_of_day()),
        paint(style, format_args!("{:<9}", event.kind().name()))
    )
}

/// Lost events for people.
pub(super) fn lost_text(count: Option<u64>) -> String {
    let count = count.map_or("some".into(), |count| count.to_string());
    let words = format!("{count} events are lost: the kernel had no room for them");
    format!("{}\n", paint(style::BAD, words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        output::plain,
        schema,
        trace::event::Line, //
    };
    use std::time::Duration;

    const FALLBACK: &str = "          rs-tcp-812     (    811) [001] ...1.   123.456789: \
        smc_switch_to_fallback: sk=1 clcsk=1 net=4026 fallback_rsn=50397184";
    const SENT: &str = "           redis-7       [000] d..1.     1.000001: smc_tx_sendmsg: smc=1 \
        net=1 len=2048 dev=rs_a";
    const DOWN: &str = "   kworker/u16:3-44    (-------) [003] .....    99.000000: \
        smcr_link_down: lnk=11 lgr=22 net=1 state=2 dev=rs_b location=x+0x1/0x2 [rdma_sock]";

    fn event(line: &str) -> Event {
        match Line::parse(line.as_bytes()) {
            Line::Event(event) => event,
            other => panic!("{other:?}"),
        }
    }

    fn socket() -> Socket {
        Socket {
            local: "10.9.0.1:40000".parse().unwrap(),
            peer: "[fd09::2]:7000".parse().unwrap(),
            processes: vec![Process::new(9, "curl")],
        }
    }

    fn midnight() -> Utc {
        Utc::now().before(Duration::from_secs(u64::MAX))
    }

    #[test]
    fn text_of_recorded_lines_is_as_kept() {
        let known = socket();
        let text = |line, socket| plain(&text(&event(line), midnight(), socket));
        assert_eq!(
            text(FALLBACK, Some(&known)),
            "00:00:00.000000Z  fallback   curl (PID 9)  10.9.0.1:40000 -- [fd09::2]:7000  uses TCP: \
             peer did not indicate SMC (0x03010000)\n"
        );
        assert_eq!(
            text(FALLBACK, None),
            "00:00:00.000000Z  fallback   rs-tcp (PID 811)  a connection that has ended  uses TCP: \
             peer did not indicate SMC (0x03010000)\n"
        );
        assert_eq!(
            text(SENT, Some(&known)),
            "00:00:00.000000Z  sent       curl (PID 9)  10.9.0.1:40000 -> [fd09::2]:7000  2.0 KiB by \
             rs_a\n"
        );
        assert_eq!(
            text(DOWN, None),
            "00:00:00.000000Z  link-down  a link of rs_b goes down; it was being set up (first \
             contact, or another link)\n"
        );
    }

    #[test]
    fn json_has_the_schema_of_the_documentation() {
        let json = |line| {
            let line = TraceLine::new(&event(line), midnight(), Some(&socket()));
            serde_json::to_value(line).unwrap()
        };
        let values = [FALLBACK, SENT, DOWN].map(json);
        assert_eq!(values[0]["reason"], "0x03010000");
        assert_eq!(values[0]["time"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(values[1]["bytes"], 2048);
        assert_eq!(values[2]["state"], 2);
        let lost = serde_json::to_value(TraceLine::lost(Some(3))).unwrap();
        assert_eq!(
            (&lost["event"], &lost["count"]),
            (&"lost".into(), &3.into())
        );
        schema::check::<TraceLine>("trace", &[values.as_slice(), &[lost]].concat());
    }
}
