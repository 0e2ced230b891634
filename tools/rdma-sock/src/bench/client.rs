// SPDX-License-Identifier: GPL-2.0

//! The side that measures.
//!
//! A figure counts only if the tables of the module say that the transport carried the connection, at
//! its beginning and at its end.

use anyhow::{
    bail,
    ensure,
    Context,
    Result, //
};
use rustix::io::Errno;
use std::{
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

use super::{
    hello::{
        Answer,
        Mode,
        Receipt,
        Request,
        Task,
        LENGTH, //
    },
    outcome::{
        Figures,
        Latency,
        Outcome,
        Throughput, //
    },
    socket::{
        Carrier,
        Transport, //
    },
    BULK, MESSAGE,
};
use crate::snapshot::Sources;

/// Rounds of a ping-pong that are not measured.
const WARM_UP: u32 = 100;

/// Most measured rounds of a ping-pong, which bounds the memory.
const ROUNDS: usize = 4_000_000;

/// How to measure.
pub(super) struct Client {
    /// The tables of this machine.
    pub(super) sources: Sources,
    /// Length of each measurement, in seconds.
    pub(super) seconds: u16,
}

/// A connection whose server has answered.
struct Begun {
    stream: TcpStream,
    carrier: Carrier,
}

/// How a connection begins.
enum Beginning {
    /// As asked for.
    Good(Begun),
    /// It is TCP; code of the reason.
    FellBack(Option<u32>),
}

impl Client {
    /// Measures a transport with the server at this address.
    pub(super) fn measure(&self, transport: Transport, server: SocketAddr) -> Outcome {
        match self.try_measure(transport, server) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(explain(transport, server, &error)),
        }
    }

    fn try_measure(&self, transport: Transport, server: SocketAddr) -> Result<Outcome> {
        let size = u32::try_from(MESSAGE)?;
        let begun = match self.begin(transport, server, Task::Echo(size))? {
            Beginning::Good(begun) => begun,
            Beginning::FellBack(reason) => return Ok(Outcome::FellBack(reason)),
        };
        let dev = begun.carrier.dev.clone();
        let latency = self.ping(transport, begun).context("ping-pong")?;
        let begun = match self.begin(transport, server, Task::Sink)? {
            Beginning::Good(begun) => begun,
            Beginning::FellBack(reason) => return Ok(Outcome::FellBack(reason)),
        };
        let throughput = self.bulk(transport, begun).context("bulk")?;
        Ok(Outcome::Measured(Figures {
            dev,
            latency,
            throughput,
        }))
    }

    fn length(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// Connects, and lets the server say what it sees.
    fn begin(&self, transport: Transport, server: SocketAddr, task: Task) -> Result<Beginning> {
        let mut stream = transport.connect(server)?;
        let seconds = self.seconds;
        stream.write_all(&Request { task, seconds }.to_bytes())?;
        let mut octets = [0; LENGTH];
        stream
            .read_exact(&mut octets)
            .context("it sent no answer")?;
        let answer = Answer::parse(&octets)?;
        let carrier = Carrier::find(&self.sources, transport, &stream)?;
        let wanted = transport.mode();
        match carrier.mode {
            Mode::Tcp if wanted != Mode::Tcp => {
                let others = Some(answer.reason).filter(|reason| *reason != 0);
                return Ok(Beginning::FellBack(carrier.reason.or(others)));
            }
            Mode::Unknown => bail!(
                "the path is not known: rdma_sock is not loaded here, or another module has the \
                 protocol"
            ),
            mode if mode == wanted => {}
            _ => bail!(
                "the path is another one: this program is accelerated itself, see `rdma-sock accel \
                 status`"
            ),
        }
        let agreed = answer.mode == wanted || answer.mode == Mode::Unknown;
        ensure!(agreed, "the server sees another path than this end");
        Ok(Beginning::Good(Begun { stream, carrier }))
    }

    /// Checks in the end that all payload went as it began.
    fn prove(&self, transport: Transport, begun: &Begun, sent: u64) -> Result<()> {
        let now = Carrier::find(&self.sources, transport, &begun.stream)?;
        ensure!(
            now.mode == transport.mode(),
            "the connection changed its path during the measurement"
        );
        let by_rdma = now.tx_bytes.saturating_sub(begun.carrier.tx_bytes);
        ensure!(
            transport == Transport::Tcp || by_rdma >= sent,
            "only {by_rdma} of {sent} bytes went by RDMA"
        );
        Ok(())
    }

    fn ping(&self, transport: Transport, mut begun: Begun) -> Result<Latency> {
        let mut rounds = Vec::new();
        let mut number: u32 = 0;
        let mut message = [0; MESSAGE];
        let mut back = [0; MESSAGE];
        let mut start = Instant::now();
        while rounds.len() < ROUNDS {
            number = number.wrapping_add(1);
            for (place, octet) in message.iter_mut().zip(number.to_be_bytes()) {
                *place = octet;
            }
            let sent = Instant::now();
            begun.stream.write_all(&message)?;
            begun.stream.read_exact(&mut back)?;
            let time = sent.elapsed();
            ensure!(message == back, "another message came back");
            if number == WARM_UP {
                start = Instant::now();
            }
            if number > WARM_UP {
                rounds.push(time);
            }
            if number > WARM_UP && start.elapsed() >= self.length() {
                break;
            }
        }
        let sent = u64::from(number).saturating_mul(u64::try_from(MESSAGE)?);
        self.prove(transport, &begun, sent)?;
        begun.stream.shutdown(Shutdown::Write)?;
        Latency::of(rounds).context("not one round")
    }

    fn bulk(&self, transport: Transport, mut begun: Begun) -> Result<Throughput> {
        let buffer = vec![0x5a; BULK];
        let mut sent: u64 = 0;
        let start = Instant::now();
        while start.elapsed() < self.length() {
            let length = begun.stream.write(&buffer)?;
            sent = sent.saturating_add(u64::try_from(length)?);
        }
        begun.stream.shutdown(Shutdown::Write)?;
        let mut octets = [0; LENGTH];
        begun
            .stream
            .read_exact(&mut octets)
            .context("it sent no receipt")?;
        let elapsed = start.elapsed();
        let Receipt(received) = Receipt::parse(&octets)?;
        ensure!(
            received == sent,
            "{received} bytes arrived of {sent} that were sent"
        );
        self.prove(transport, &begun, sent)?;
        Ok(Throughput::of(sent, elapsed))
    }
}

/// An error in words, with what to do about the usual ones.
fn explain(transport: Transport, server: SocketAddr, error: &anyhow::Error) -> String {
    let kind = error.chain().find_map(|cause| {
        let errno = cause.downcast_ref::<Errno>();
        match (cause.downcast_ref::<io::Error>(), errno) {
            (Some(error), _) => Some(error.kind()),
            // The limit of connect(2) has passed.
            (None, Some(&Errno::INPROGRESS)) => Some(ErrorKind::TimedOut),
            (None, errno) => errno.map(|errno| io::Error::from(*errno).kind()),
        }
    });
    let port = server.port();
    match kind {
        Some(ErrorKind::ConnectionRefused) => format!(
            "port {port} is closed: the other end does not serve {}; run `rdma-sock bench --serve` \
             there",
            transport.name()
        ),
        Some(ErrorKind::UnexpectedEof) => format!(
            "the other end closed the connection: port {port} is none of `rdma-sock bench --serve`, \
             or it has too many clients"
        ),
        Some(ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            format!("the other end is silent: {error:#}")
        }
        _ => format!("{error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{
        server,
        socket::tests::list, //
    };
    use std::{
        net::{
            Ipv4Addr,
            TcpListener, //
        },
        thread,
    };

    fn client(root: &std::path::Path) -> Client {
        Client {
            sources: Sources::below(root),
            seconds: 1,
        }
    }

    /// A server that answers one client with these octets, and then ends.
    fn answering(octets: Vec<u8>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; LENGTH]).unwrap();
            stream.write_all(&octets).unwrap();
        });
        address
    }

    fn failure(server: SocketAddr) -> String {
        let root = tempfile::tempdir().unwrap();
        match client(root.path()).measure(Transport::Tcp, server) {
            Outcome::Failed(error) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn loopback_by_tcp_is_measured() {
        let root = tempfile::tempdir().unwrap();
        let server = server::tests::start();
        let outcome = client(root.path()).measure(Transport::Tcp, server);
        let Outcome::Measured(figures) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(figures.latency.rounds > 0);
        assert!(figures.latency.p50_us <= figures.latency.p99_us);
        assert!(figures.throughput.bytes >= 1 << 17);
        assert!(figures.throughput.seconds >= 1.0);
    }

    #[test]
    fn server_of_another_kind_is_named_as_such() {
        assert!(failure(answering(b"HTTP/1.1 400 Bad".to_vec())).contains("does not speak"));
        assert!(failure(answering(b"short".to_vec())).contains("closed the connection"));
        let mut other = Answer::refusal();
        other[5] = 9;
        let error = failure(answering(other.to_vec()));
        assert!(
            error.contains("version 9") && error.contains("same version"),
            "{error}"
        );
        assert!(failure(answering(Answer::refusal().to_vec())).contains("refused"));
    }

    #[test]
    fn closed_port_says_what_to_run() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert!(failure(address).contains("rdma-sock bench --serve"));
    }

    #[test]
    fn server_that_sees_another_path_is_no_proof() {
        let answer = Answer {
            mode: Mode::Smc,
            reason: 0,
        };
        let error = failure(answering(answer.to_bytes().to_vec()));
        assert!(error.contains("sees another path"), "{error}");
    }

    #[test]
    fn payload_that_did_not_go_by_rdma_is_found() {
        let server = server::tests::start();
        let root = tempfile::tempdir().unwrap();
        let stream = Transport::Tcp.connect(server).unwrap();
        let carrier = Carrier {
            mode: Mode::Smc,
            reason: None,
            dev: None,
            tx_bytes: 10,
            rx_bytes: 0,
        };
        let begun = Begun { stream, carrier };
        let prove = |words: &str| {
            let client = Client {
                sources: list(root.path(), &begun.stream, words),
                seconds: 1,
            };
            client
                .prove(Transport::Smc, &begun, 100)
                .map_err(|error| error.to_string())
        };
        assert_eq!(prove("mode=smc tx_bytes=110"), Ok(()));
        let error = prove("mode=smc tx_bytes=109").unwrap_err();
        assert!(error.contains("only 99 of 100 bytes"), "{error}");
        let error = prove("mode=tcp reason=0x03010000 tx_bytes=110").unwrap_err();
        assert!(error.contains("changed its path"), "{error}");
    }
}
