// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock trace`: the tracepoints of the module in words, as they are hit; and `rdma-sock capture`.
//!
//! ```text
//!   event.rs      lines of trace_pipe
//!   pipe.rs       how they come
//!   socket.rs     addresses and programs of the sockets
//!   tracefs.rs    an instance of tracefs
//!   line.rs       what is printed
//!   capture.rs    the command capture
//!   payload.rs    the event with payload
//!   pcapng.rs     payload as packets in a file
//! ```

mod capture;
mod event;
mod line;
mod payload;
mod pcapng;
mod pipe;
mod socket;
mod tracefs;

pub(crate) use capture::{
    run as capture,
    CaptureArgs, //
};

use anyhow::{
    Context,
    Result, //
};
use clap::Args;
use nix::time::{
    clock_gettime,
    ClockId, //
};
use std::{
    fs,
    path::Path,
    process,
    time::{
        Duration,
        Instant,
        SystemTime,
        UNIX_EPOCH, //
    },
};
use tokio::{
    runtime,
    signal::unix::{
        signal,
        SignalKind, //
    },
    time::sleep,
};

use crate::{
    clock::Utc,
    output,
    snapshot::Sources, //
};
use event::{
    Event,
    Kind,
    Line, //
};
use line::TraceLine;
use pipe::Pipe;
use socket::{
    Socket,
    Sockets, //
};
use tracefs::Instance;

/// A socket may fall back before TCP has it in its tables; this is the time until the second look.
const SECOND_LOOK: Duration = Duration::from_millis(20);

/// The system of the events, which is that of `smc.ko`.
const SYSTEM: &str = "smc";

/// Where the kernel says how it prints pointers in `/proc`.
const KPTR_RESTRICT: &str = "sys/kernel/kptr_restrict";

/// What to trace.
#[derive(Args, Debug)]
pub(crate) struct TraceArgs {
    /// Only this event; may be given several times
    #[arg(short, long, value_enum, value_name = "EVENT")]
    event: Vec<Kind>,

    /// Only connections with this port on either side
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,

    /// Only connections of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// End after this number of events
    #[arg(
        short = 'n',
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    count: Option<u64>,

    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

impl TraceArgs {
    /// The chosen events, in the order of their definition.
    fn kinds(&self) -> Vec<Kind> {
        let chosen = |kind: &Kind| self.event.is_empty() || self.event.contains(kind);
        Kind::ALL.into_iter().filter(chosen).collect()
    }

    /// Whether an event is wanted. One whose connection is unknown has no port.
    fn wants(&self, event: &Event, socket: Option<&Socket>) -> bool {
        let port = |port| socket.is_some_and(|socket| socket.has_port(port));
        let pid = |pid| {
            let mut owners = socket.map_or(&[][..], |socket| &socket.processes).iter();
            let task = &event.task;
            owners.any(|owner| owner.pid == pid)
                || (event.sock().is_some() && (task.thread.pid == pid || task.process == Some(pid)))
        };
        self.port.is_none_or(port) && self.pid.is_none_or(pid)
    }
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flow {
    Continue,
    Leave,
}

/// Prints events until the user, the reader or the count ends it.
pub(crate) fn run(args: &TraceArgs) -> Result<()> {
    let tracefs = tracefs::find(Path::new("/"), SYSTEM)?;
    runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?
        .block_on(follow(args, &tracefs))
}

async fn follow(args: &TraceArgs, tracefs: &Path) -> Result<()> {
    let proc = Sources::of_this_machine().proc;
    // Caught before the instance exists, so that it is always removed.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let instance = Instance::create(tracefs, process::id())?;
    // Declared behind the instance, and so closed before it is removed.
    let mut pipe = Pipe::new(instance.open(hashes_pointers(&proc))?)?;
    let kinds = args.kinds();
    for kind in &kinds {
        instance.enable(SYSTEM, kind.tracepoint())?;
    }
    output::note(&format!(
        "tracing {}; Ctrl-C to leave",
        output::counted(kinds.len(), "event")
    ));
    let mut session = Session::new(args, &proc);
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
            ready = pipe.ready() => ready?,
        }
        if session.drain(&mut pipe).await? == Flow::Leave {
            return Ok(());
        }
    }
}

/// Whether `/proc` shows hashes of pointers to this user, as events then must.
fn hashes_pointers(proc: &Path) -> bool {
    let text = fs::read_to_string(proc.join(KPTR_RESTRICT)).unwrap_or_default();
    text.trim() != "1"
}

/// Lines as they come, and what is known of their sockets.
struct Session<'a> {
    args: &'a TraceArgs,
    sockets: Sockets,
    printed: u64,
}

impl<'a> Session<'a> {
    fn new(args: &'a TraceArgs, proc: &Path) -> Self {
        Self {
            args,
            sockets: Sockets::new(proc),
            printed: 0,
        }
    }

    /// Prints some of what is in the pipe: a signal must not wait for all, which may never come to an end.
    async fn drain(&mut self, pipe: &mut Pipe) -> Result<Flow> {
        let lines = pipe.next()?.unwrap_or_default();
        let lines: Vec<Line> = lines.iter().map(|line| Line::parse(line)).collect();
        self.look_up(&lines).await;
        for line in lines {
            if self.print(&line)? == Flow::Leave {
                return Ok(Flow::Leave);
            }
        }
        Ok(Flow::Continue)
    }

    /// Reads the tables of sockets, if one of the lines needs it.
    async fn look_up(&mut self, lines: &[Line]) {
        let socks = |wanted: fn(&Event) -> bool| {
            let sock = move |line: &Line| match line {
                Line::Event(event) if wanted(event) => event.sock(),
                _ => None,
            };
            lines.iter().filter_map(sock)
        };
        let now = Instant::now();
        let mut firsts: Vec<u64> = socks(|event| event.kind() == Kind::Fallback).collect();
        let known = socks(|_| true).all(|sock| !self.sockets.wants(sock, false, now));
        if known && firsts.is_empty() {
            return;
        }
        self.sockets.read(now);
        for sock in &firsts {
            self.sockets.forget_old(*sock);
        }
        firsts.retain(|sock| self.sockets.get(*sock).is_none());
        if !firsts.is_empty() {
            sleep(SECOND_LOOK).await;
            self.sockets.read(Instant::now());
        }
    }

    fn print(&mut self, line: &Line) -> Result<Flow> {
        let text = match line {
            Line::Other => return Ok(Flow::Continue),
            Line::Lost(count) if self.args.json => one_line(&TraceLine::lost(*count))?,
            Line::Lost(count) => line::lost_text(*count),
            Line::Event(event) => {
                let socket = event.sock().and_then(|sock| self.sockets.get(sock));
                if !self.args.wants(event, socket) {
                    return Ok(Flow::Continue);
                }
                self.printed = self.printed.saturating_add(1);
                let time = time_of(event)?;
                match self.args.json {
                    true => one_line(&TraceLine::new(event, time, socket))?,
                    false => line::text(event, time, socket),
                }
            }
        };
        let enough = self.args.count.is_some_and(|count| self.printed >= count);
        Ok(match output::print_while_read(&text)? && !enough {
            true => Flow::Continue,
            false => Flow::Leave,
        })
    }
}

fn one_line(line: &TraceLine) -> Result<String> {
    Ok(serde_json::to_string(line)? + "\n")
}

/// The time of the wall clock at which an event was, which has that of the monotonic clock.
fn time_of(event: &Event) -> Result<Utc> {
    Ok(Utc::now().before(age(event.time)?))
}

/// The same as time since the epoch.
fn time_since_epoch(time: Duration) -> Result<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok(now.unwrap_or_default().saturating_sub(age(time)?))
}

/// How long ago it was by the monotonic clock.
fn age(time: Duration) -> Result<Duration> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).context("cannot read the clock")?;
    Ok(Duration::from(now).saturating_sub(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Process;

    const LINE: &str = "           redis-7       (      6) [000] d..1.     1.000001: \
        smc_tx_sendmsg: smc=1 net=1 len=5 dev=rs_a";

    fn args() -> TraceArgs {
        TraceArgs {
            event: Vec::new(),
            port: None,
            pid: None,
            count: None,
            json: false,
        }
    }

    fn event() -> Event {
        match Line::parse(LINE.as_bytes()) {
            Line::Event(event) => event,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn filters_choose_by_port_and_process() {
        let socket = Socket {
            local: "10.9.0.1:40000".parse().unwrap(),
            peer: "10.9.0.2:7000".parse().unwrap(),
            processes: vec![Process::new(9, "redis")],
        };
        let wants = |port, pid, socket| {
            let args = TraceArgs {
                port,
                pid,
                ..args()
            };
            args.wants(&event(), socket)
        };
        assert!(wants(None, None, None));
        for port in [40000, 7000] {
            assert!(wants(Some(port), None, Some(&socket)));
            assert!(!wants(Some(port), None, None));
        }
        assert!(!wants(Some(1), None, Some(&socket)));
        for pid in [6, 7, 9] {
            assert!(wants(None, Some(pid), Some(&socket)));
        }
        assert!(!wants(None, Some(8), Some(&socket)));
        assert!(!wants(Some(7000), Some(8), Some(&socket)));
    }

    #[test]
    fn all_events_are_chosen_by_default() {
        assert_eq!(args().kinds(), Kind::ALL);
        let chosen = TraceArgs {
            event: vec![Kind::LinkDown, Kind::Fallback],
            ..args()
        };
        assert_eq!(chosen.kinds(), [Kind::Fallback, Kind::LinkDown]);
    }

    #[test]
    fn names_of_the_kernel_choose_events_too() {
        for kind in Kind::ALL {
            for name in [kind.name(), kind.tracepoint()] {
                use clap::ValueEnum;
                assert_eq!(Kind::from_str(name, false), Ok(kind));
            }
        }
    }
}
