// SPDX-License-Identifier: GPL-2.0

//! The kinds of load, and their names: `pingpong:64`, `rr:200`, `stream:64:cork`.

use crate::programs::Program;
use anyhow::{
    bail,
    Context,
    Error,
    Result, //
};
use std::{
    fmt,
    str::FromStr, //
};

/// How small messages are handed to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// As a new socket does it.
    Default,
    /// With `TCP_NODELAY`.
    NoDelay,
    /// With `TCP_CORK` around each batch.
    Cork,
}

impl Push {
    fn suffix(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::NoDelay => ":nodelay",
            Self::Cork => ":cork",
        }
    }
}

/// What a client that connects knows of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// It has had a connection to it.
    Known,
    /// Nothing.
    Unknown,
    /// Nothing, and the peer's sockets are of TCP.
    TcpOnly,
}

impl PeerKind {
    /// All, in the order of a round.
    pub const ALL: [Self; 3] = [Self::Known, Self::Unknown, Self::TcpOnly];

    fn name(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Unknown => "unknown",
            Self::TcpOnly => "tcp-only",
        }
    }
}

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// The first connection to a peer: connect, one request, its response.
    First,
    /// Connections one after the other, without their requests.
    Setup(PeerKind),
    /// Data one way, in sends of this size.
    Bulk(u32),
    /// Data one way, out of a file in memory, by `sendfile()` calls of this size.
    File(u32),
    /// Data both ways at once, in sends of this size.
    Both(u32),
    /// One message there and back, again and again.
    PingPong(u32),
    /// The same, with receivers that do not sleep: `SO_BUSY_POLL`, or raw verbs that ask the device.
    PollPong(u32),
    /// Messages one way, not waiting for anything.
    Stream {
        /// Size of a message.
        size: u32,
        /// How it is pushed out.
        push: Push,
    },
    /// Batches of requests, then as many responses.
    Pipe {
        /// Size of a message.
        size: u32,
        /// Messages of a batch.
        depth: u32,
        /// How they are pushed out.
        push: Push,
    },
    /// This many connections, one request of [`REQUEST`] octets under way on each.
    Requests(u32),
    /// This many clients that connect, ask once and close.
    Connects(u32),
    /// This many connections that do nothing.
    Idle(u32),
    /// Programs that are not ours.
    Program(Program),
}

/// Octets of a request and of a response in [`Workload::Requests`] and [`Workload::Connects`].
pub const REQUEST: usize = 64;

/// Messages between setting the cork and taking it out, in [`Workload::Stream`].
pub const CORKED: u32 = 16;

/// Whether more of a value is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Rates.
    Higher,
    /// Times and memory.
    Lower,
}

impl Workload {
    /// What its value is measured in.
    pub fn unit(self) -> &'static str {
        match self {
            Self::First | Self::Setup(_) | Self::PingPong(_) | Self::PollPong(_) => "us",
            Self::Bulk(_) | Self::File(_) | Self::Both(_) => "MiB/s",
            Self::Stream { .. } | Self::Pipe { .. } => "msg/s",
            Self::Requests(_) => "req/s",
            Self::Connects(_) => "conn/s",
            Self::Idle(_) => "KiB/conn",
            Self::Program(program) => program.unit(),
        }
    }

    /// Whether its work is octets, and not messages.
    pub fn moves_data(self) -> bool {
        self.unit() == "MiB/s"
    }

    /// Which way its value is better.
    pub fn better(self) -> Better {
        match self.unit() {
            "us" | "KiB/conn" => Better::Lower,
            _ => Better::Higher,
        }
    }

    /// The title of its family, and its place on an x axis.
    pub fn axis(self) -> (String, f64) {
        let of = |name: &str, x: u32| (name.to_string(), f64::from(x));
        match self {
            Self::First => of("First contact", 1),
            Self::Setup(peer) => of(&format!("Connection set-up, {} peer", peer.name()), 1),
            Self::Bulk(size) => of("Bulk, one way, by send size", size),
            Self::File(size) => of("Files, by call size", size),
            Self::Both(size) => of("Bulk, both ways, by send size", size),
            Self::PingPong(size) => of("Ping-pong, by message size", size),
            Self::PollPong(size) => of("Ping-pong, polling, by message size", size),
            Self::Stream { size, push } => {
                of(&format!("Small messages one way{}", push.suffix()), size)
            }
            Self::Pipe { size, push, .. } => {
                of(&format!("Pipelined requests{}", push.suffix()), size)
            }
            Self::Requests(conns) => of("Requests, by connections", conns),
            Self::Connects(clients) => of("Connection rate, by clients", clients),
            Self::Idle(conns) => of("Memory, by idle connections", conns),
            Self::Program(program) => {
                let (name, x) = program.axis();
                of(name, x)
            }
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => write!(f, "first"),
            Self::Setup(peer) => write!(f, "setup:{}", peer.name()),
            Self::Bulk(size) => write!(f, "bulk:{size}"),
            Self::File(size) => write!(f, "file:{size}"),
            Self::Both(size) => write!(f, "both:{size}"),
            Self::PingPong(size) => write!(f, "pingpong:{size}"),
            Self::PollPong(size) => write!(f, "pollpong:{size}"),
            Self::Stream { size, push } => write!(f, "stream:{size}{}", push.suffix()),
            Self::Pipe { size, depth, push } => {
                write!(f, "pipe:{size}:{depth}{}", push.suffix())
            }
            Self::Requests(conns) => write!(f, "rr:{conns}"),
            Self::Connects(clients) => write!(f, "crr:{clients}"),
            Self::Idle(conns) => write!(f, "idle:{conns}"),
            Self::Program(program) => program.fmt(f),
        }
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(name) = text.strip_prefix("setup:") {
            let peer = PeerKind::ALL.into_iter().find(|peer| peer.name() == name);
            let peer = peer.with_context(|| format!("{text} is no workload"))?;
            return Ok(Self::Setup(peer));
        }
        let mut words: Vec<&str> = text.split(':').collect();
        let push = match words.last() {
            Some(&"nodelay") => Push::NoDelay,
            Some(&"cork") => Push::Cork,
            _ => Push::Default,
        };
        if push != Push::Default {
            words.pop();
        }
        let numbers = words
            .iter()
            .skip(1)
            .map(|word| match word.parse::<u32>() {
                Ok(n) if n > 0 && n <= 1 << 30 => Ok(n),
                _ => bail!("{word} in {text} is not a number in range"),
            })
            .collect::<Result<Vec<u32>>>()?;
        let kind = *words.first().context("no workload")?;
        let known = match (kind, numbers.as_slice()) {
            ("stream", &[size]) => Self::Stream { size, push },
            ("pipe", &[size, depth]) => Self::Pipe { size, depth, push },
            _ if push != Push::Default => bail!("{text}: only messages are pushed"),
            ("first", []) => Self::First,
            ("bulk", &[size]) => Self::Bulk(size),
            ("file", &[size]) => Self::File(size),
            ("both", &[size]) => Self::Both(size),
            ("pingpong", &[size]) => Self::PingPong(size),
            ("pollpong", &[size]) => Self::PollPong(size),
            ("rr", &[conns]) => Self::Requests(conns),
            ("crr", &[clients]) => Self::Connects(clients),
            ("idle", &[conns]) => Self::Idle(conns),
            _ => match Program::of(kind, &numbers) {
                Some(program) => Self::Program(program),
                None => bail!("{text} is no workload"),
            },
        };
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for name in [
            "first",
            "setup:known",
            "setup:unknown",
            "setup:tcp-only",
            "bulk:65536",
            "file:65536",
            "both:64",
            "pingpong:1",
            "pollpong:1",
            "stream:64",
            "stream:64:cork",
            "pipe:64:16",
            "pipe:64:16:nodelay",
            "rr:400",
            "crr:8",
            "idle:100",
            "redis-get:200",
            "redis-set:200",
            "wrk:200",
            "wrk-close:32",
            "iperf3",
            "sockperf:64",
        ] {
            let workload: Workload = name.parse().unwrap();
            assert_eq!(workload.to_string(), name);
        }
    }

    #[test]
    fn others_are_refused() {
        for name in [
            "",
            "bulk",
            "bulk:",
            "bulk:0",
            "bulk:x",
            "bulk:1:2",
            "rr:8:cork",
            "setup",
            "setup:1",
            "first:1",
            "cork",
            "wrk",
            "wrk:8:nodelay",
            "iperf3:1",
            "sockperf:13",
        ] {
            assert!(name.parse::<Workload>().is_err(), "{name}");
        }
    }

    #[test]
    fn latencies_are_better_low() {
        assert_eq!(Workload::PingPong(1).better(), Better::Lower);
        assert_eq!(Workload::Idle(1).better(), Better::Lower);
        assert_eq!(Workload::Bulk(1).better(), Better::Higher);
        assert_eq!(Workload::Connects(1).better(), Better::Higher);
        let sockperf = Workload::Program(Program::Sockperf(64));
        assert_eq!(sockperf.better(), Better::Lower);
        assert!(Workload::Program(Program::Iperf3).moves_data());
    }
}
