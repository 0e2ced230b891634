// SPDX-License-Identifier: GPL-2.0

//! Raw verbs: what the device can do without anything above it. A reliable connection between two
//! programs, bandwidth by RDMA write, round trips by send (sleeping) and by RDMA write (polling), and
//! requests and responses as SMC-R puts them on the wire: a write and a message that announces it.

mod ffi;

use crate::{
    counters::process_time,
    load::micros,
    outcome::Outcome,
    workload::{
        Workload,
        REQUEST, //
    },
};
use anyhow::{
    bail,
    Context,
    Result, //
};
use clap::Args;
use ffi::{
    Address,
    Done,
    Endpoint,
    Op, //
};
use rustix::process::getppid;
use serde_json::{
    json,
    Value, //
};
use std::{
    hint,
    io::{
        self,
        BufRead,
        BufReader,
        Write, //
    },
    net::{
        SocketAddr,
        TcpListener,
        TcpStream, //
    },
    process, thread,
    time::{
        Duration,
        Instant, //
    },
};

/// Work requests that may be under way.
const DEPTH: u32 = 64;

/// Work requests of which one is signalled.
const SIGNAL: u32 = 16;

/// Requests that are under way at most: each takes two work requests.
const WINDOW: u32 = DEPTH / 2 - SIGNAL / 2;

/// Octets of the message behind a write, as in SMC-R.
const TOLD: usize = 44;

/// Round trips before those that are measured.
const WARM_UP: u32 = 20;

/// System calls whose time is measured.
const CALLS: u32 = 2000;

/// What the first octet of a message says.
const MORE: u8 = 0;
const LAST: u8 = 1;

/// Command line of the server.
#[derive(Args)]
pub struct ServeArgs {
    /// Name of the RDMA device.
    #[arg(long)]
    device: String,
    /// Address and port to listen on, for the TCP connection that sets up the verbs connection.
    #[arg(long)]
    at: SocketAddr,
}

/// Command line of the client.
#[derive(Args)]
pub struct LoadArgs {
    /// Name of the RDMA device.
    #[arg(long)]
    device: String,
    /// Address and port of the server.
    #[arg(long)]
    peer: SocketAddr,
    /// Duration in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// bulk:SIZE, pingpong:SIZE, pollpong:SIZE, rr:REQUESTS
    workload: Workload,
}

fn size_of(workload: Workload) -> Result<usize> {
    match workload {
        Workload::Bulk(size) | Workload::PingPong(size) | Workload::PollPong(size) => {
            Ok(size as usize)
        }
        Workload::Requests(_) => Ok(REQUEST),
        other => bail!("{other} needs sockets"),
    }
}

/// An end of a connection with its halves of the buffer: what comes in, and what goes out.
struct Peer {
    end: Endpoint,
    other: Address,
    size: usize,
    /// Work requests since one asked for its completion.
    unsignaled: u32,
    control: BufReader<TcpStream>,
}

/// Says where this end is.
fn introduce(stream: &mut TcpStream, workload: Workload, own: &Address) -> Result<()> {
    let text = json!({
        "workload": workload.to_string(),
        "qpn": own.qpn,
        "gid": own.gid,
        "rkey": own.rkey,
        "addr": own.addr,
    });
    writeln!(stream, "{text}").context("the control connection")
}

/// Learns where the other end is.
fn learn(control: &mut BufReader<TcpStream>) -> Result<(Workload, Address)> {
    let mut line = String::new();
    control.read_line(&mut line)?;
    let said: Value = serde_json::from_str(&line).context("the peer's address")?;
    let number = |name: &str| said[name].as_u64().context("a number");
    let octets: Vec<u8> = serde_json::from_value(said["gid"].clone())?;
    let address = Address {
        qpn: u32::try_from(number("qpn")?)?,
        gid: octets.try_into().ok().context("a GID")?,
        rkey: u32::try_from(number("rkey")?)?,
        addr: number("addr")?,
    };
    let workload = said["workload"].as_str().context("a workload")?;
    Ok((workload.parse()?, address))
}

impl Peer {
    fn client(device: &str, mut stream: TcpStream, workload: Workload) -> Result<Self> {
        let size = size_of(workload)?;
        let end = Endpoint::new(device, 2 * size, DEPTH)?;
        introduce(&mut stream, workload, &end.address())?;
        let mut control = BufReader::new(stream);
        let (_, other) = learn(&mut control)?;
        end.connect(&other)?;
        Self::ready(end, other, size, control)
    }

    fn server(device: &str, stream: TcpStream) -> Result<(Self, Workload)> {
        let mut control = BufReader::new(stream);
        let (workload, other) = learn(&mut control)?;
        let size = size_of(workload)?;
        let end = Endpoint::new(device, 2 * size, DEPTH)?;
        end.connect(&other)?;
        introduce(control.get_mut(), workload, &end.address())?;
        Ok((Self::ready(end, other, size, control)?, workload))
    }

    /// Both ends are connected once each has said so; from then on there is a place for a message.
    fn ready(
        end: Endpoint,
        other: Address,
        size: usize,
        mut control: BufReader<TcpStream>,
    ) -> Result<Self> {
        for _ in 0..WINDOW {
            end.post_receive(size)?;
        }
        writeln!(control.get_mut(), "ready")?;
        let mut line = String::new();
        control.read_line(&mut line)?;
        if line.trim() != "ready" {
            bail!("the peer is not ready");
        }
        Ok(Self {
            end,
            other,
            size,
            unsignaled: 0,
            control,
        })
    }

    /// Counts requests; returns whether the last of them must be signalled.
    fn count(&mut self, requests: u32) -> bool {
        self.unsignaled += requests;
        let signaled = self.unsignaled >= SIGNAL;
        if signaled {
            self.unsignaled = 0;
        }
        signaled
    }

    fn post(&mut self, op: Op) -> Result<bool> {
        let signaled = self.count(1);
        self.end
            .post(&self.other, op, self.size, self.size, signaled)?;
        Ok(signaled)
    }

    /// Waits for a message, asleep or not, and says whether it is the last one.
    fn receive(&self, asleep: bool) -> Result<bool> {
        loop {
            let done = match asleep {
                true => Some(self.end.wait()?),
                false => self.end.poll()?,
            };
            if done == Some(Done::Received) {
                break;
            }
            hint::spin_loop();
        }
        let last = self.end.octet(0)? == LAST;
        self.end.post_receive(self.size)?;
        Ok(last)
    }

    /// Sends a message as SMC-R does: a write, and a message that announces it.
    fn send(&mut self, what: u8) -> Result<()> {
        self.end.set_octet(self.size, what)?;
        let signaled = self.count(2);
        let Self {
            end, other, size, ..
        } = self;
        end.post_pair(other, *size, *size, TOLD.min(*size), signaled)
    }
}

/// Serves until standard input ends.
pub fn serve(args: &ServeArgs) -> Result<()> {
    let listener = TcpListener::bind(args.at)?;
    println!("ready");
    thread::spawn(|| {
        // An error means that the parent process is gone.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
    for stream in listener.incoming() {
        let (peer, workload) = Peer::server(&args.device, stream?)?;
        attend(peer, workload)?;
    }
    Ok(())
}

fn attend(mut peer: Peer, workload: Workload) -> Result<()> {
    let asleep = !matches!(workload, Workload::PollPong(_));
    if !matches!(workload, Workload::Bulk(_)) {
        loop {
            let last = peer.receive(asleep)?;
            peer.send(MORE)?;
            if last {
                break;
            }
        }
    }
    // The client closes when it has everything.
    peer.control.read_line(&mut String::new())?;
    Ok(())
}

/// Runs a workload and prints the outcome as a line of JSON.
pub fn load(args: &LoadArgs) -> Result<()> {
    let time = Duration::try_from_secs_f64(args.seconds).context("--seconds")?;
    let before = process_time("self");
    let stream = TcpStream::connect(args.peer)?;
    let peer = Peer::client(&args.device, stream, args.workload)?;
    let mut outcome = match args.workload {
        Workload::Bulk(_) => bulk(peer, time),
        Workload::PingPong(_) => pingpong(peer, time, true),
        Workload::PollPong(_) => pingpong(peer, time, false).map(|outcome| Outcome {
            call: Some(call_time()),
            ..outcome
        }),
        Workload::Requests(count) => requests(peer, count, time),
        other => bail!("{other} needs sockets"),
    }?;
    outcome.connections = 1;
    outcome.cpu = process_time("self") - before;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// The time of a system call that does nothing, in microseconds.
fn call_time() -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        hint::black_box(getppid());
    }
    micros(start.elapsed()) / f64::from(CALLS)
}

fn bulk(mut peer: Peer, time: Duration) -> Result<Outcome> {
    let mut messages = 0u64;
    let mut under_way = 0;
    let start = Instant::now();
    loop {
        let over = start.elapsed() >= time;
        while !over && under_way < DEPTH - SIGNAL {
            peer.post(Op::Write(0))?;
            under_way += 1;
            messages += 1;
        }
        if over {
            break;
        }
        peer.end.wait()?;
        under_way -= SIGNAL;
        while peer.end.poll()?.is_some() {
            under_way -= SIGNAL;
        }
    }
    // One that asks for its completion ends the row: all before it are over then, too.
    while !peer.post(Op::Write(0))? {
        messages += 1;
        under_way += 1;
    }
    messages += 1;
    under_way += 1;
    while under_way > 0 {
        peer.end.wait()?;
        under_way -= SIGNAL;
    }
    let seconds = start.elapsed().as_secs_f64();
    let sent = messages * peer.size as u64;
    Ok(Outcome {
        value: sent as f64 / f64::from(1 << 20) / seconds,
        messages,
        sent,
        seconds,
        ..Outcome::default()
    })
}

/// Requests and responses, as many in flight as fit on a queue pair, up to `count`.
fn requests(mut peer: Peer, count: u32, time: Duration) -> Result<Outcome> {
    let start = Instant::now();
    let mut under_way = count.min(WINDOW);
    for _ in 0..under_way {
        peer.send(MORE)?;
    }
    let mut messages = 0u64;
    while under_way > 0 {
        peer.receive(true)?;
        messages += 1;
        if start.elapsed() < time {
            peer.send(MORE)?;
        } else {
            under_way -= 1;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    peer.send(LAST)?;
    peer.receive(true)?;
    let octets = messages * peer.size as u64;
    Ok(Outcome {
        value: messages as f64 / seconds,
        messages,
        sent: octets,
        received: octets,
        seconds,
        ..Outcome::default()
    })
}

/// Round trips: the time of each, after some that are not measured.
fn trips(
    peer: &mut Peer,
    time: Duration,
    mut trip: impl FnMut(&mut Peer, bool) -> Result<()>,
) -> Result<Outcome> {
    let mut times = Vec::new();
    let mut messages = 0;
    for _ in 0..WARM_UP {
        trip(peer, false)?;
        messages += 1;
    }
    let start = Instant::now();
    let mut last = start;
    loop {
        let over = last - start >= time;
        trip(peer, over)?;
        messages += 1;
        let now = Instant::now();
        times.push(micros(now - last));
        last = now;
        if over {
            break;
        }
    }
    let octets = messages * peer.size as u64;
    let mut outcome = Outcome {
        messages,
        sent: octets,
        received: octets,
        seconds: start.elapsed().as_secs_f64(),
        ..Outcome::default()
    };
    outcome.set_times(&mut times);
    outcome.value = outcome.p50.unwrap_or_default();
    Ok(outcome)
}

fn pingpong(mut peer: Peer, time: Duration, asleep: bool) -> Result<Outcome> {
    trips(&mut peer, time, |peer, over| {
        peer.send(if over { LAST } else { MORE })?;
        peer.receive(asleep).map(drop)
    })
}
