// SPDX-License-Identifier: GPL-2.0

//! The side that answers: it echoes messages, or counts octets.
//!
//! A client gets no memory but its message of a ping-pong, no time beyond what it asked for, and no
//! say about files or programs. Surplus clients are dropped.

use anyhow::{
    bail,
    ensure,
    Context,
    Result, //
};
use std::{
    io::{
        Read,
        Write, //
    },
    net::{
        IpAddr,
        Ipv4Addr,
        Ipv6Addr,
        SocketAddr,
        TcpListener,
        TcpStream, //
    },
    sync::{
        atomic::{
            AtomicUsize,
            Ordering, //
        },
        Arc,
    },
    thread,
    time::{
        Duration,
        Instant, //
    },
};

use super::{
    hello::{
        Answer,
        HelloError,
        Receipt,
        Request,
        Task,
        LENGTH, //
    },
    socket::{
        prepare,
        Carrier,
        Transport, //
    },
    BULK,
};
use crate::{
    output,
    snapshot::Sources, //
};

/// Most clients at a time.
const CLIENTS: usize = 16;
/// Time that a client gets beyond that of its measurement.
const GRACE: Duration = Duration::from_secs(30);
/// Time until the next try if no client can be accepted.
const RETRY: Duration = Duration::from_millis(100);

/// Listens on the ports of all transports until the process ends.
pub(super) fn run(first: u16) -> Result<()> {
    let mut listeners = Vec::new();
    let mut offers = Vec::new();
    for transport in Transport::ALL {
        let port = transport.port(first);
        let addresses: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let found = addresses.map(|address| transport.listen((address, port).into()));
        let [v4, v6] = found;
        // A host may lack either version of IP; the error of the first says why there is none.
        match (v4, v6) {
            (Err(error), Err(_)) if transport == Transport::Tcp => return Err(error),
            (Err(error), Err(_)) => output::note(&format!("no {}: {error:#}", transport.name())),
            (v4, v6) => {
                offers.push(format!("{} on {port}", transport.name()));
                let both = [v4, v6].into_iter().flatten();
                listeners.extend(both.map(|listener| (transport, listener)));
            }
        }
    }
    output::note(&format!("serving {}; Ctrl-C to leave", offers.join(", ")));
    let server = Arc::new(Server::new(Sources::of_this_machine()));
    let threads: Vec<_> = listeners
        .into_iter()
        .map(|(transport, listener)| {
            let server = server.clone();
            thread::spawn(move || server.accept(transport, &listener))
        })
        .collect();
    for thread in threads {
        if thread.join().is_err() {
            bail!("a listener ended");
        }
    }
    Ok(())
}

/// What all clients share.
pub(super) struct Server {
    sources: Sources,
    clients: AtomicUsize,
}

impl Server {
    /// Makes one without clients.
    pub(super) fn new(sources: Sources) -> Self {
        Self {
            sources,
            clients: AtomicUsize::new(0),
        }
    }

    /// Serves each client in a thread.
    pub(super) fn accept(self: &Arc<Self>, transport: Transport, listener: &TcpListener) {
        loop {
            match listener.accept() {
                Ok((stream, peer)) => self.start(transport, stream, peer),
                // Such as too many open files, or a client that has gone.
                Err(_) => thread::sleep(RETRY),
            }
        }
    }

    fn start(self: &Arc<Self>, transport: Transport, stream: TcpStream, peer: SocketAddr) {
        let seat = Seat::take(self);
        let Some(seat) = seat else {
            return;
        };
        let serve = move || {
            if let Err(error) = seat.0.serve(transport, stream) {
                output::note(&format!("client {peer}: {error:#}"));
            }
        };
        if let Err(error) = thread::Builder::new().spawn(serve) {
            output::note(&format!("client {peer}: {error}"));
        }
    }

    fn serve(&self, transport: Transport, mut stream: TcpStream) -> Result<()> {
        prepare(&stream)?;
        let mut octets = [0; LENGTH];
        stream
            .read_exact(&mut octets)
            .context("it sent no request")?;
        let request = match Request::parse(&octets) {
            Ok(request) => request,
            Err(HelloError::Magic) => return Err(HelloError::Magic.into()),
            Err(error) => {
                stream.write_all(&Answer::refusal())?;
                return Err(error.into());
            }
        };
        let carrier = Carrier::find(&self.sources, transport, &stream)?;
        let answer = Answer {
            mode: carrier.mode,
            reason: carrier.reason.unwrap_or_default(),
        };
        stream.write_all(&answer.to_bytes())?;
        let limit = Duration::from_secs(request.seconds.into()).saturating_add(GRACE);
        let end = Instant::now().checked_add(limit).context("no such time")?;
        match request.task {
            Task::Echo(size) => echo(stream, usize::try_from(size)?, end),
            Task::Sink => sink(stream, end),
        }
    }
}

/// The place of a client.
struct Seat(Arc<Server>);

impl Seat {
    fn take(server: &Arc<Server>) -> Option<Self> {
        let one_more = |clients: usize| (clients < CLIENTS).then(|| clients.saturating_add(1));
        let clients = &server.clients;
        clients
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()?;
        Some(Self(server.clone()))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends messages back until the client has no more.
fn echo(mut stream: TcpStream, size: usize, end: Instant) -> Result<()> {
    let mut message = vec![0; size];
    loop {
        let first = stream.read(&mut message)?;
        if first == 0 {
            return Ok(());
        }
        stream.read_exact(message.get_mut(first..).unwrap_or_default())?;
        stream.write_all(&message)?;
        ensure!(Instant::now() < end, "it took longer than it asked for");
    }
}

/// Reads to the end, and says how much it was.
fn sink(mut stream: TcpStream, end: Instant) -> Result<()> {
    let mut buffer = vec![0; BULK];
    let mut octets: u64 = 0;
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        octets = octets.saturating_add(u64::try_from(length)?);
        ensure!(Instant::now() < end, "it took longer than it asked for");
    }
    stream.write_all(&Receipt(octets).to_bytes())?;
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::hello::VERSION;

    /// A server of TCP on loopback without the module, and its address.
    pub(crate) fn start() -> SocketAddr {
        let folder = tempfile::tempdir().unwrap();
        let listener = Transport::Tcp
            .listen((Ipv4Addr::LOCALHOST, 0).into())
            .unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::new(Server::new(Sources::below(folder.path())));
        thread::spawn(move || server.accept(Transport::Tcp, &listener));
        address
    }

    fn say(octets: &[u8]) -> (TcpStream, Vec<u8>) {
        let mut stream = Transport::Tcp.connect(start()).unwrap();
        stream.write_all(octets).unwrap();
        let mut answer = vec![0; LENGTH];
        let length = stream.read(&mut answer).unwrap_or_default();
        answer.truncate(length);
        (stream, answer)
    }

    fn request(task: Task) -> [u8; LENGTH] {
        Request { task, seconds: 1 }.to_bytes()
    }

    #[test]
    fn client_of_another_language_gets_no_answer() {
        let (_, answer) = say(b"GET / HTTP/1.1\r\n");
        assert!(answer.is_empty());
    }

    #[test]
    fn client_of_another_version_learns_that_of_the_server() {
        let mut octets = request(Task::Sink);
        octets[5] = 7;
        let (_, answer) = say(&octets);
        assert_eq!(answer[4..6], VERSION.to_be_bytes());
        assert_eq!(answer, Answer::refusal());
    }

    #[test]
    fn messages_come_back_and_octets_are_counted() {
        let (mut stream, answer) = say(&request(Task::Echo(5)));
        let answer = Answer::parse(&answer.try_into().unwrap()).unwrap();
        assert_eq!(answer.reason, 0);
        let mut back = [0; 5];
        for part in [&b"he"[..], b"llo"] {
            stream.write_all(part).unwrap();
        }
        stream.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"hello");

        let (mut stream, _) = say(&request(Task::Sink));
        stream.write_all(&[1; 1000]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut octets = [0; LENGTH];
        stream.read_exact(&mut octets).unwrap();
        assert_eq!(Receipt::parse(&octets), Ok(Receipt(1000)));
    }

    #[test]
    fn surplus_clients_get_no_seat() {
        let server = Arc::new(Server::new(Sources::of_this_machine()));
        let mut seats: Vec<Option<Seat>> = (0..=CLIENTS).map(|_| Seat::take(&server)).collect();
        assert!(seats.pop().unwrap().is_none());
        assert!(seats.pop().unwrap().is_some());
        assert!(Seat::take(&server).is_some());
    }
}
