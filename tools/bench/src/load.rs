// SPDX-License-Identifier: GPL-2.0

//! The client of the load generator: runs one workload and says what came of it.

use crate::{
    clients,
    counters::process_time,
    duplex,
    hello::{
        Hello,
        Mode,
        LEN, //
    },
    outcome::Outcome,
    sock::{
        self,
        Family, //
    },
    workload::{
        Push,
        Workload,
        CORKED,
        REQUEST, //
    },
};
use anyhow::{
    bail,
    Context,
    Result, //
};
use clap::Args;
use rustix::{
    buffer::spare_capacity,
    event::epoll,
    fs::MemfdFlags, //
};
use std::{
    fs::File,
    io::{
        self,
        ErrorKind,
        Read,
        Write, //
    },
    net::{
        Shutdown,
        SocketAddr,
        TcpStream, //
    },
    time::{
        Duration,
        Instant, //
    },
};

/// Round trips before those that are measured.
const WARM_UP: u32 = 20;

/// The server and how to reach it, in a command line.
#[derive(Args)]
pub struct ToArgs {
    /// The sockets to use.
    #[arg(long, value_enum)]
    family: Family,
    /// Address and port of the server.
    #[arg(long)]
    peer: SocketAddr,
    /// Duration in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

impl ToArgs {
    /// The client.
    pub fn client(&self) -> Result<Client> {
        Ok(Client {
            family: self.family,
            peer: self.peer,
            time: Duration::try_from_secs_f64(self.seconds).context("--seconds")?,
        })
    }
}

/// Command line of the client.
#[derive(Args)]
pub struct LoadArgs {
    #[command(flatten)]
    to: ToArgs,
    /// Further addresses of the server, for setup: one connection to each, in place of those to
    /// --peer
    #[arg(long)]
    each: Vec<SocketAddr>,
    /// first, setup:PEER, bulk:SIZE, file:SIZE, both:SIZE, pingpong:SIZE, stream:SIZE[:nodelay|:cork],
    /// pipe:SIZE:DEPTH[:nodelay|:cork], rr:CONNECTIONS, crr:CLIENTS, idle:CONNECTIONS
    workload: Workload,
}

/// Runs it and prints the outcome as a line of JSON. With `idle` that line comes when all connections
/// stand, and they are kept until standard input ends.
pub fn run(args: &LoadArgs) -> Result<()> {
    sock::many_files()?;
    let client = args.to.client()?;
    // Local sockets never wait, and have no such options.
    let pushed = |push| match client.family {
        Family::Unix => Push::Default,
        _ => push,
    };
    let before = process_time("self");
    let mut held = Vec::new();
    let mut outcome = match args.workload {
        Workload::First => client.first(),
        Workload::Setup(_) => client.setup(&args.each),
        Workload::Bulk(size) => client.stream(size, Push::Default, true),
        Workload::File(size) => client.file(size),
        Workload::Stream { size, push } => client.stream(size, pushed(push), false),
        Workload::Both(size) => client.both(size),
        Workload::PingPong(size) | Workload::PollPong(size) => {
            client.echo(size, 1, Push::Default, true)
        }
        Workload::Pipe { size, depth, push } => client.echo(size, depth, pushed(push), false),
        Workload::Requests(count) => client.requests(count),
        Workload::Connects(count) => clients::connects(&client, count),
        Workload::Idle(count) => client.idle(count, &mut held),
        Workload::Program(_) => bail!("programs are started by the driver"),
    }
    .with_context(|| args.workload.to_string())?;
    outcome.cpu += process_time("self") - before;
    println!("{}", serde_json::to_string(&outcome)?);
    if !held.is_empty() {
        io::copy(&mut io::stdin(), &mut io::sink())?;
    }
    Ok(())
}

/// Ends a stream of `sent` octets; the seconds since `start` until the server has said that it has
/// them all.
fn await_arrival(stream: &mut TcpStream, start: Instant, sent: u64) -> Result<f64> {
    stream.shutdown(Shutdown::Write)?;
    let mut answer = [0; 8];
    stream.read_exact(&mut answer)?;
    let seconds = start.elapsed().as_secs_f64();
    if u64::from_be_bytes(answer) != sent {
        bail!("the server has {} of {sent}", u64::from_be_bytes(answer));
    }
    Ok(seconds)
}

/// A request and its response.
fn request(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(&Hello::of(Mode::Request, 1).to_bytes())?;
    stream.read_exact(&mut [0; LEN])?;
    Ok(())
}

/// The same time in microseconds.
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The server, the sockets to it, and the length of the run.
pub struct Client {
    /// The sockets to use.
    pub family: Family,
    /// The server.
    pub peer: SocketAddr,
    /// How long to run.
    pub time: Duration,
}

impl Client {
    fn dial(&self) -> Result<TcpStream> {
        sock::dial(self.family, self.peer)
    }

    /// One request and its response on a new connection.
    pub fn ask(&self) -> Result<TcpStream> {
        let mut stream = self.dial()?;
        request(&mut stream)?;
        Ok(stream)
    }

    /// The time of `connect` to addresses one after the other, or to the server's again and again.
    /// Each connection carries a request then, which is not measured.
    fn setup(&self, each: &[SocketAddr]) -> Result<Outcome> {
        let mut times = Vec::new();
        let start = Instant::now();
        let mut dial = |peer| -> Result<()> {
            let begin = Instant::now();
            let mut stream = sock::dial(self.family, peer)?;
            times.push(micros(begin.elapsed()));
            request(&mut stream)
        };
        if each.is_empty() {
            while start.elapsed() < self.time {
                dial(self.peer)?;
            }
        }
        for peer in each {
            dial(*peer)?;
        }
        let count = times.len() as u64;
        let mut outcome = Outcome {
            connections: count,
            messages: count,
            sent: count * REQUEST as u64,
            received: count * REQUEST as u64,
            seconds: start.elapsed().as_secs_f64(),
            ..Outcome::default()
        };
        outcome.set_times(&mut times);
        outcome.value = outcome.p50.context("no connection")?;
        Ok(outcome)
    }

    fn first(&self) -> Result<Outcome> {
        let start = Instant::now();
        let stream = self.ask()?;
        let time = start.elapsed();
        drop(stream);
        Ok(Outcome {
            value: micros(time),
            connections: 1,
            messages: 1,
            sent: REQUEST as u64,
            received: REQUEST as u64,
            seconds: time.as_secs_f64(),
            ..Outcome::default()
        })
    }

    /// Data or messages one way. The time ends when the server has said that it has everything.
    fn stream(&self, size: u32, push: Push, bulk: bool) -> Result<Outcome> {
        let mut stream = self.dial()?;
        if push == Push::NoDelay {
            stream.set_nodelay(true)?;
        }
        stream.write_all(&Hello::of(Mode::Sink, size).to_bytes())?;
        let data = vec![0x5a; size as usize];
        let mut messages = 0u64;
        let start = Instant::now();
        while start.elapsed() < self.time {
            if push == Push::Cork {
                sock::cork(&stream, true)?;
            }
            for _ in 0..CORKED {
                stream.write_all(&data)?;
            }
            if push == Push::Cork {
                sock::cork(&stream, false)?;
            }
            messages += u64::from(CORKED);
        }
        let sent = messages * u64::from(size);
        let seconds = await_arrival(&mut stream, start, sent)?;
        let amount = if bulk {
            sent as f64 / f64::from(1 << 20)
        } else {
            messages as f64
        };
        Ok(Outcome {
            value: amount / seconds,
            connections: 1,
            messages,
            sent: sent + LEN as u64,
            received: 8,
            seconds,
            ..Outcome::default()
        })
    }

    /// Data one way out of a file in memory.
    fn file(&self, size: u32) -> Result<Outcome> {
        let mut stream = self.dial()?;
        stream.write_all(&Hello::of(Mode::Sink, size).to_bytes())?;
        let mut file = File::from(rustix::fs::memfd_create("data", MemfdFlags::CLOEXEC)?);
        file.write_all(&vec![0x5a; size as usize])?;
        let (mut sent, mut calls) = (0u64, 0u64);
        let start = Instant::now();
        while start.elapsed() < self.time {
            let mut offset = 0;
            while offset < u64::from(size) {
                let rest = size as usize - usize::try_from(offset)?;
                sent += rustix::fs::sendfile(&stream, &file, Some(&mut offset), rest)? as u64;
                calls += 1;
            }
        }
        let seconds = await_arrival(&mut stream, start, sent)?;
        Ok(Outcome {
            value: sent as f64 / f64::from(1 << 20) / seconds,
            connections: 1,
            messages: calls,
            sent: sent + LEN as u64,
            received: 8,
            seconds,
            ..Outcome::default()
        })
    }

    fn both(&self, size: u32) -> Result<Outcome> {
        let mut stream = self.dial()?;
        stream.write_all(&Hello::of(Mode::Both, size).to_bytes())?;
        let start = Instant::now();
        let (sent, received) = duplex::run(&stream, size, |_| start.elapsed() >= self.time)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Outcome {
            value: (sent + received) as f64 / f64::from(1 << 20) / seconds,
            connections: 1,
            messages: sent / u64::from(size),
            sent: sent + LEN as u64,
            received,
            seconds,
            ..Outcome::default()
        })
    }

    /// Batches of messages that are sent back.
    fn echo(&self, size: u32, depth: u32, push: Push, latency: bool) -> Result<Outcome> {
        let mut stream = self.dial()?;
        if push == Push::NoDelay {
            stream.set_nodelay(true)?;
        }
        let hello = Hello {
            mode: Mode::Echo,
            size,
            depth,
            push,
        };
        stream.write_all(&hello.to_bytes())?;
        let data = vec![0x5a; size as usize];
        let mut back = vec![0; size as usize * depth as usize];
        let mut times = Vec::new();
        let mut batches = 0u64;
        let mut warm = WARM_UP;
        let mut begin = Instant::now();
        let mut last = begin;
        loop {
            if push == Push::Cork {
                sock::cork(&stream, true)?;
            }
            for _ in 0..depth {
                stream.write_all(&data)?;
            }
            if push == Push::Cork {
                sock::cork(&stream, false)?;
            }
            stream.read_exact(&mut back)?;
            batches += 1;
            let now = Instant::now();
            if warm > 0 {
                warm -= 1;
                begin = now;
            } else {
                times.push(micros(now - last));
                if now - begin >= self.time {
                    break;
                }
            }
            last = now;
        }
        let seconds = begin.elapsed().as_secs_f64();
        let octets = batches * u64::from(depth) * u64::from(size);
        let measured = times.len() as f64 * f64::from(depth);
        let mut outcome = Outcome {
            connections: 1,
            messages: batches * u64::from(depth),
            sent: octets + LEN as u64,
            received: octets,
            seconds,
            ..Outcome::default()
        };
        outcome.set_times(&mut times);
        outcome.value = match outcome.p50 {
            Some(p50) if latency => p50,
            _ => measured / seconds,
        };
        Ok(outcome)
    }

    /// Many connections, a request under way on each.
    fn requests(&self, count: u32) -> Result<Outcome> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut streams = Vec::new();
        for n in 0..u64::from(count) {
            let stream = self.ask()?;
            stream.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(n);
            epoll::add(&poll, &stream, data, epoll::EventFlags::IN)?;
            streams.push((stream, 0usize, Instant::now()));
        }
        let request = [0x5a; REQUEST];
        let mut response = [0; REQUEST];
        let mut times = Vec::new();
        let start = Instant::now();
        for (stream, _, at) in &mut streams {
            *at = Instant::now();
            stream.write_all(&request)?;
        }
        let mut under_way = streams.len();
        let mut events = Vec::with_capacity(256);
        while under_way > 0 {
            events.clear();
            epoll::wait(&poll, spare_capacity(&mut events), None)?;
            for event in &events {
                let n = usize::try_from(event.data.u64())?;
                let (stream, have, at) = &mut streams[n];
                match stream.read(&mut response[*have..]) {
                    Ok(0) => bail!("the server closed connection {n}"),
                    Ok(count) => *have += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    Err(error) => return Err(error.into()),
                }
                if *have < REQUEST {
                    continue;
                }
                *have = 0;
                let now = Instant::now();
                times.push(micros(now - *at));
                if now - start >= self.time {
                    under_way -= 1;
                    continue;
                }
                *at = now;
                stream.write_all(&request)?;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let done = times.len() as u64;
        let all = done + u64::from(count);
        let mut outcome = Outcome {
            value: done as f64 / seconds,
            connections: u64::from(count),
            messages: all,
            sent: all * REQUEST as u64,
            received: all * REQUEST as u64,
            seconds,
            ..Outcome::default()
        };
        outcome.set_times(&mut times);
        Ok(outcome)
    }

    /// Connections that have carried one request. The driver measures the value.
    fn idle(&self, count: u32, held: &mut Vec<TcpStream>) -> Result<Outcome> {
        let start = Instant::now();
        for _ in 0..count {
            held.push(self.ask()?);
        }
        Ok(Outcome {
            connections: u64::from(count),
            messages: u64::from(count),
            sent: u64::from(count) * REQUEST as u64,
            received: u64::from(count) * REQUEST as u64,
            seconds: start.elapsed().as_secs_f64(),
            ..Outcome::default()
        })
    }
}
