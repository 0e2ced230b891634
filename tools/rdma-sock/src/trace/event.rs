// SPDX-License-Identifier: GPL-2.0

//! Lines of `trace_pipe`, and the events that they report.
//!
//! ```text
//!         python3-812   (    812) [001] ...1.   123.456789: smc_tx_sendmsg: smc=00000000d1b2 ...
//! ```
//!
//! The kernel pads the name of a task to 16 octets, so a name may have any characters.

use clap::ValueEnum;
use std::{
    str,
    time::Duration, //
};

use crate::snapshot::{
    Process,
    Record, //
};

/// Octets in front of the dash and the number of a task.
const NAME_WIDTH: usize = 16;

/// The events of the module, by a short name and that of the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Kind {
    /// A connection falls back to TCP
    #[value(alias = "smc_switch_to_fallback")]
    Fallback,
    /// A call has taken payload from a program
    #[value(alias = "smc_tx_sendmsg")]
    Sent,
    /// A call has given payload to a program
    #[value(alias = "smc_rx_recvmsg")]
    Received,
    /// A link goes down
    #[value(alias = "smcr_link_down")]
    LinkDown,
}

impl Kind {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Fallback, Self::Sent, Self::Received, Self::LinkDown];

    /// The name on the command line and in the output.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fallback => "fallback",
            Self::Sent => "sent",
            Self::Received => "received",
            Self::LinkDown => "link-down",
        }
    }

    /// The name of the tracepoint.
    pub(super) fn tracepoint(self) -> &'static str {
        match self {
            Self::Fallback => "smc_switch_to_fallback",
            Self::Sent => "smc_tx_sendmsg",
            Self::Received => "smc_rx_recvmsg",
            Self::LinkDown => "smcr_link_down",
        }
    }
}

/// The task in whose context an event was reported.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Task {
    /// Name and number of the thread.
    pub(super) thread: Process,
    /// Number of its process, if the kernel recorded it.
    pub(super) process: Option<u32>,
}

/// What an event says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Detail {
    /// A connection falls back to TCP.
    Fallback {
        /// The sock.
        sock: Option<u64>,
        /// Code of the reason.
        reason: u32,
    },
    /// A call has moved payload.
    Moved {
        /// The sock.
        sock: Option<u64>,
        /// To the peer, and not to the program.
        sent: bool,
        /// Payload in bytes.
        bytes: u64,
        /// RDMA device.
        dev: String,
    },
    /// A link goes down.
    LinkDown {
        /// The link as the kernel names it.
        link: String,
        /// The link group likewise.
        group: String,
        /// State of the link before, as smcr(8) counts states.
        state: i64,
        /// RDMA device.
        dev: String,
        /// Place in the code of the kernel.
        location: String,
    },
}

/// One event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Event {
    /// The task of its context.
    pub(super) task: Task,
    /// The processor.
    pub(super) cpu: u32,
    /// Time by the clock of the trace.
    pub(super) time: Duration,
    /// Cookie of the network namespace.
    pub(super) net: u64,
    /// What it says.
    pub(super) detail: Detail,
}

impl Event {
    /// Which event it is.
    pub(super) fn kind(&self) -> Kind {
        match self.detail {
            Detail::Fallback { .. } => Kind::Fallback,
            Detail::Moved { sent: true, .. } => Kind::Sent,
            Detail::Moved { sent: false, .. } => Kind::Received,
            Detail::LinkDown { .. } => Kind::LinkDown,
        }
    }

    /// The sock of its connection.
    pub(super) fn sock(&self) -> Option<u64> {
        match self.detail {
            Detail::Fallback { sock, .. } | Detail::Moved { sock, .. } => sock,
            Detail::LinkDown { .. } => None,
        }
    }
}

/// A line of `trace_pipe`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Line {
    /// An event of the module.
    Event(Event),
    /// The kernel had no room for events; their number, if it knows.
    Lost(Option<u64>),
    /// Anything else.
    Other,
}

impl Line {
    /// Reads a line, without its end. Total: a line of another form is [`Line::Other`].
    pub(super) fn parse(line: &[u8]) -> Self {
        if let Some(lost) = lost(line) {
            return Self::Lost(lost);
        }
        event(line).map_or(Self::Other, Self::Event)
    }
}

/// `CPU:1 [LOST 12 EVENTS]`
fn lost(line: &[u8]) -> Option<Option<u64>> {
    let text = str::from_utf8(line).ok()?.trim().strip_prefix("CPU:")?;
    let words = text.split_once(" [LOST ")?.1.strip_suffix("EVENTS]")?;
    Some(words.trim().parse().ok())
}

/// A line that reports an event of any kind.
pub(super) struct Reported<'a> {
    /// The task of its context.
    task: Task,
    /// The processor.
    cpu: u32,
    /// Time by the clock of the trace.
    pub(super) time: Duration,
    /// The name of the tracepoint.
    pub(super) tracepoint: &'a str,
    /// What it says.
    pub(super) fields: Record,
}

impl<'a> Reported<'a> {
    /// Reads a line, without its end.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let (name, rest) = line.split_at_checked(NAME_WIDTH)?;
        let name = String::from_utf8_lossy(name);
        let rest = str::from_utf8(rest).ok()?.strip_prefix('-')?;
        let (pid, rest) = rest.split_once(' ')?;
        let mut rest = rest.trim_start();
        let mut process = None;
        if let Some(text) = rest.strip_prefix('(') {
            let (number, behind) = text.split_once(')')?;
            process = number.trim().parse().ok();
            rest = behind.trim_start();
        }
        let (cpu, rest) = rest.strip_prefix('[')?.split_once(']')?;
        // Flags may stand in front of the time.
        let (head, rest) = rest.split_once(": ")?;
        let time = head.split_ascii_whitespace().next_back()?;
        let (tracepoint, fields) = rest.trim_start().split_once(": ")?;
        Some(Self {
            task: Task {
                thread: Process::new(pid.parse().ok()?, name.trim_start()),
                process,
            },
            cpu: cpu.trim().parse().ok()?,
            time: seconds(time)?,
            tracepoint,
            fields: Record::parse(fields),
        })
    }
}

fn event(line: &[u8]) -> Option<Event> {
    let Reported {
        task,
        cpu,
        time,
        tracepoint,
        mut fields,
    } = Reported::parse(line)?;
    Some(Event {
        task,
        cpu,
        time,
        net: fields.number("net")?,
        detail: detail(tracepoint, &mut fields)?,
    })
}

fn detail(tracepoint: &str, fields: &mut Record) -> Option<Detail> {
    let mut text = |key: &str| {
        let text = fields.text(key).unwrap_or_default();
        text.replace(char::is_control, "?")
    };
    Some(match tracepoint {
        "smc_switch_to_fallback" => Detail::Fallback {
            // With smc.ko the TCP socket is another one.
            sock: pointer(&text("clcsk")),
            reason: code(&text("fallback_rsn"))?,
        },
        "smc_tx_sendmsg" | "smc_rx_recvmsg" => Detail::Moved {
            sock: pointer(&text("smc")),
            sent: tracepoint == "smc_tx_sendmsg",
            bytes: text("len").parse().ok()?,
            dev: text("dev"),
        },
        "smcr_link_down" => Detail::LinkDown {
            link: text("lnk"),
            group: text("lgr"),
            state: text("state").parse().ok()?,
            dev: text("dev"),
            location: text("location"),
        },
        _ => return None,
    })
}

/// The code of a reason, which the kernel prints with a sign.
fn code(text: &str) -> Option<u32> {
    let signed: i32 = text.parse().ok()?;
    Some(u32::from_ne_bytes(signed.to_ne_bytes()))
}

/// A pointer; `None` for none, and for one that the kernel hides.
pub(super) fn pointer(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .ok()
        .filter(|value| *value != 0)
}

/// `123.456789`
fn seconds(text: &str) -> Option<Duration> {
    let (whole, part) = text.split_once('.')?;
    let micros: u32 = part.parse().ok().filter(|_| part.len() == 6)?;
    let nanos = micros.checked_mul(1000)?;
    Some(Duration::new(whole.parse().ok()?, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Event {
        match Line::parse(line.as_bytes()) {
            Line::Event(event) => event,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn fallback_has_the_reason_as_its_code() {
        let event = parsed(
            "          rs-tcp-812     (    811) [001] ...1.   123.456789: smc_switch_to_fallback: \
             sk=00000000d1b2c3d4 clcsk=00000000d1b2c3d5 net=4026 fallback_rsn=50397186",
        );
        assert_eq!(event.task.thread, Process::new(812, "rs-tcp"));
        assert_eq!(event.task.process, Some(811));
        assert_eq!((event.cpu, event.net), (1, 4026));
        assert_eq!(event.time, Duration::new(123, 456_789_000));
        assert_eq!(event.kind(), Kind::Fallback);
        let detail = Detail::Fallback {
            sock: Some(0xd1b2_c3d5),
            reason: 0x0301_0002,
        };
        assert_eq!(event.detail, detail);
    }

    #[test]
    fn payload_has_its_device_and_direction() {
        for (tracepoint, kind) in [
            ("smc_tx_sendmsg", Kind::Sent),
            ("smc_rx_recvmsg", Kind::Received),
        ] {
            let event = parsed(&format!(
                "           redis-7       [000] d..1.     1.000001: {tracepoint}: \
                 smc=00000000d1b2c3d4 net=1 len=1000 dev=rs_a"
            ));
            assert_eq!(event.kind(), kind);
            assert_eq!(event.sock(), Some(0xd1b2_c3d4));
            assert_eq!(event.task.process, None);
            let Detail::Moved { bytes, dev, .. } = event.detail else {
                panic!("no payload");
            };
            assert_eq!((bytes, dev.as_str()), (1000, "rs_a"));
        }
    }

    #[test]
    fn place_of_a_link_may_name_a_module() {
        let event = parsed(
            "   kworker/u16:3-44    (-------) [003] .....    99.000000: smcr_link_down: \
             lnk=0000000011 lgr=0000000022 net=1 state=3 dev=rs_b \
             location=link_down+0x12/0x40 [rdma_sock]",
        );
        let Detail::LinkDown {
            state, location, ..
        } = event.detail
        else {
            panic!("no link");
        };
        assert_eq!(state, 3);
        assert_eq!(location, "link_down+0x12/0x40 [rdma_sock]");
        assert_eq!(event.task.thread.name, "kworker/u16:3");
    }

    #[test]
    fn name_of_a_task_may_look_like_the_rest_of_a_line() {
        let event = parsed(
            " a-1 [000] x: y:-7       [000] .....     1.000001: smc_tx_sendmsg: smc=1 net=1 len=5 \
             dev=rs_a",
        );
        assert_eq!(event.task.thread, Process::new(7, "a-1 [000] x: y:"));
        let mut line = b"         \xff\xfea\x1b[2J-7       [000]     1.000001: ".to_vec();
        line.extend(b"smc_tx_sendmsg: smc=1 net=1 len=5 dev=rs_a");
        let Line::Event(event) = Line::parse(&line) else {
            panic!("not read");
        };
        assert_eq!(event.task.thread.name, "\u{fffd}\u{fffd}a?[2J");
    }

    #[test]
    fn lost_events_are_counted() {
        assert_eq!(Line::parse(b"CPU:1 [LOST 12 EVENTS]"), Line::Lost(Some(12)));
        assert_eq!(Line::parse(b"CPU:1 [LOST EVENTS]"), Line::Lost(None));
    }

    #[test]
    fn line_of_another_form_is_no_event() {
        for line in [
            "",
            "# tracer: nop",
            "           redis-7       [000] d..1.     1.000001: sched_switch: prev=1",
            "           redis-7       [000] d..1.     1.000001: smc_tx_sendmsg: smc=1 net=1 len=x",
            "           redis-7       [000] d..1.     1.01: smc_tx_sendmsg: smc=1 net=1 len=1 dev=a",
            "           redis-x       [000] d..1.     1.000001: smc_tx_sendmsg: smc=1 net=1 len=1",
            "           redis-7       [000] d..1.     1.000001: smc_tx_sendmsg: smc=1 len=1 dev=a",
        ] {
            assert_eq!(Line::parse(line.as_bytes()), Line::Other, "{line}");
        }
    }

    #[test]
    fn line_cut_anywhere_is_read_without_a_panic() {
        let line = "   kworker/u16:3-44    (-------) [003] .....    99.000000: smcr_link_down: \
                    lnk=11 lgr=22 net=1 state=3 dev=rs_b location=x+0x1/0x2 [rdma_sock]";
        for length in 0..line.len() {
            let _ = Line::parse(&line.as_bytes()[..length]);
            let _ = Line::parse(&line.as_bytes()[length..]);
        }
    }

    #[test]
    fn hidden_pointer_is_none() {
        assert_eq!(pointer("00000000d1b2c3d4"), Some(0xd1b2_c3d4));
        assert_eq!(pointer("0000000000000000"), None);
        assert_eq!(pointer("(____ptrval____)"), None);
    }
}
