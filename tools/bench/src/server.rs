// SPDX-License-Identifier: GPL-2.0

//! The server of the load generator. One loop accepts connections and answers requests; a
//! connection of another kind gets a thread of its own.

use crate::{
    duplex,
    hello::{
        Hello,
        Mode,
        LEN, //
    },
    sock::{
        self,
        Family, //
    },
    workload::Push,
};
use anyhow::{
    Context,
    Result, //
};
use clap::Args;
use rustix::{
    buffer::spare_capacity,
    event::epoll,
    io::Errno, //
};
use std::{
    collections::HashMap,
    io::{
        self,
        ErrorKind,
        Read,
        Write, //
    },
    net::{
        SocketAddr,
        TcpListener,
        TcpStream, //
    },
    os::fd::AsRawFd,
    process, thread,
};

/// Octets that a reader asks for at once.
pub const READ: usize = 256 << 10;

/// What the listener is called among the events.
const LISTENER: u64 = u64::MAX;

/// Command line of the server.
#[derive(Args)]
pub struct ServeArgs {
    /// The sockets to use.
    #[arg(long, value_enum)]
    family: Family,
    /// Address and port to listen on.
    #[arg(long)]
    at: SocketAddr,
}

/// Serves until standard input ends. Prints `ready` when connections can be made.
pub fn run(args: &ServeArgs) -> Result<()> {
    sock::many_files()?;
    let listener = sock::serve(args.family, args.at)?;
    println!("ready");
    thread::spawn(|| {
        // An error means that the parent process is gone.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
    serve(&listener)
}

/// A connection in the loop.
struct Client {
    stream: TcpStream,
    /// Octets of a request that is not complete, then of a response that could not be sent.
    buffer: [u8; LEN],
    have: usize,
    greeted: bool,
}

/// What became of a connection.
enum Fate {
    Stays,
    Leaves(Hello),
    Over,
}

fn serve(listener: &TcpListener) -> Result<()> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let watch = epoll::EventFlags::IN;
    listener.set_nonblocking(true)?;
    epoll::add(&poll, listener, epoll::EventData::new_u64(LISTENER), watch)?;
    let mut clients: HashMap<u64, Client> = HashMap::new();
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        epoll::wait(&poll, spare_capacity(&mut events), None)?;
        for event in &events {
            let name = event.data.u64();
            if name == LISTENER {
                while let Some(stream) = accept(listener)? {
                    stream.set_nonblocking(true)?;
                    let name = u64::try_from(stream.as_raw_fd())?;
                    epoll::add(&poll, &stream, epoll::EventData::new_u64(name), watch)?;
                    clients.insert(name, Client::new(stream));
                }
                continue;
            }
            let Some(client) = clients.get_mut(&name) else {
                continue;
            };
            let fate = client.turn().unwrap_or(Fate::Over);
            if matches!(fate, Fate::Stays) {
                continue;
            }
            let client = clients.remove(&name).context("a client that was there")?;
            if let Fate::Leaves(hello) = fate {
                epoll::delete(&poll, &client.stream)?;
                client.stream.set_nonblocking(false)?;
                // A client that goes away ends its own connection and nothing else.
                thread::spawn(move || attend(client.stream, hello));
            }
        }
    }
}

/// The next connection, if there is one. One that failed before it was taken is passed over.
fn accept(listener: &TcpListener) -> Result<Option<TcpStream>> {
    loop {
        match sock::accept(listener) {
            Ok(stream) => return Ok(Some(stream)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::CONNABORTED | Errno::INTR) => {}
            Err(error) => return Err(error).context("accept"),
        }
    }
}

impl Client {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: [0; LEN],
            have: 0,
            greeted: false,
        }
    }

    /// There is something to read. Answers a request once it is complete: as only one is under way
    /// on a connection, there is always room for the response.
    fn turn(&mut self) -> Result<Fate> {
        match self.stream.read(&mut self.buffer[self.have..]) {
            Ok(0) => return Ok(Fate::Over),
            Ok(count) => self.have += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Fate::Stays),
            Err(error) => return Err(error.into()),
        }
        if self.have < LEN {
            return Ok(Fate::Stays);
        }
        self.have = 0;
        if !self.greeted {
            let hello = Hello::parse(&self.buffer)?;
            self.greeted = true;
            if hello.mode != Mode::Request {
                return Ok(Fate::Leaves(hello));
            }
        }
        self.stream.write_all(&self.buffer)?;
        Ok(Fate::Stays)
    }
}

/// Does what the client asked for.
fn attend(stream: TcpStream, hello: Hello) -> Result<()> {
    if hello.push == Push::NoDelay {
        stream.set_nodelay(true)?;
    }
    match hello.mode {
        Mode::Sink => sink(stream),
        Mode::Both => both(&stream, hello.size),
        Mode::Echo => echo(stream, hello),
        Mode::Request => Ok(()),
    }
}

/// Reads to the end and returns how much there was.
pub fn drain(stream: &mut TcpStream) -> io::Result<u64> {
    let mut buffer = vec![0; READ];
    let mut total = 0;
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(total),
            count => total += count as u64,
        }
    }
}

fn sink(mut stream: TcpStream) -> Result<()> {
    let total = drain(&mut stream)?;
    stream.write_all(&total.to_be_bytes())?;
    Ok(())
}

fn both(stream: &TcpStream, size: u32) -> Result<()> {
    duplex::run(stream, size, |over| over)?;
    Ok(())
}

/// Sends back each message by a send of its own.
fn echo(mut stream: TcpStream, hello: Hello) -> Result<()> {
    let size = hello.size as usize;
    let batch = size * hello.depth as usize;
    let mut buffer = vec![0; batch];
    let mut have = 0;
    let mut answered = 0;
    loop {
        let count = stream.read(&mut buffer[have..])?;
        if count == 0 {
            return Ok(());
        }
        have += count;
        if hello.push == Push::Cork && answered == 0 && have >= size {
            sock::cork(&stream, true)?;
        }
        while have - answered >= size {
            stream.write_all(&buffer[answered..answered + size])?;
            answered += size;
        }
        if answered == batch {
            if hello.push == Push::Cork {
                sock::cork(&stream, false)?;
            }
            have = 0;
            answered = 0;
        }
    }
}
