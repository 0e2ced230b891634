// SPDX-License-Identifier: GPL-2.0

//! Programs that are not ours, as Debian has them: a server at the far end, a client at the near one.
//! Both use SMC by the preload library, whichever module is loaded, or TCP without it.

mod output;
mod process;

pub use process::{
    preload_library,
    Server, //
};

use crate::{
    lab::End,
    outcome::Outcome, //
};
use anyhow::{
    anyhow,
    bail,
    Result, //
};
use std::{
    env,
    fmt,
    net::SocketAddr,
    path::Path,
    process::Command, //
};

/// Octets of a value of redis.
const VALUE: u32 = 64;

/// Requests that redis-benchmark makes for each second that others run: it stops by their number.
const REDIS_REQUESTS: f64 = 5_000.0;

/// Connections for which wrk runs one second at least: it makes all of them first.
const CONNECTIONS: f64 = 50.0;

/// The file that nginx serves, and its octets.
const FILE: &str = "1k";
const FILE_OCTETS: usize = 1024;

/// What nginx is told apart from its address and the names of files: as Debian configures it, with
/// room for all connections, which are not closed after a number of requests.
const NGINX: &str = "\
user root;
daemon off;
error_log stderr;
worker_processes 1;
events { worker_connections 4096; }
";
const NGINX_HTTP: &str =
    "access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;";

/// A program and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// redis-benchmark with this number of connections reads a value.
    RedisGet(u32),
    /// The same, writing it.
    RedisSet(u32),
    /// wrk with this number of connections asks nginx for a small file.
    Wrk(u32),
    /// The same with a connection for each request.
    WrkClose(u32),
    /// iperf3 sends as fast as it can.
    Iperf3,
    /// sockperf sends a message of this size there and back.
    Sockperf(u32),
}

impl Program {
    /// By the words of a workload's name.
    pub fn of(kind: &str, numbers: &[u32]) -> Option<Self> {
        match (kind, numbers) {
            ("redis-get", &[conns]) => Some(Self::RedisGet(conns)),
            ("redis-set", &[conns]) => Some(Self::RedisSet(conns)),
            ("wrk", &[conns]) => Some(Self::Wrk(conns)),
            ("wrk-close", &[conns]) => Some(Self::WrkClose(conns)),
            ("iperf3", []) => Some(Self::Iperf3),
            // The header of sockperf takes 14 octets.
            ("sockperf", &[size]) if size >= 14 => Some(Self::Sockperf(size)),
            _ => None,
        }
    }

    /// What its value is measured in.
    pub fn unit(self) -> &'static str {
        match self {
            Self::RedisGet(_) | Self::RedisSet(_) | Self::Wrk(_) | Self::WrkClose(_) => "req/s",
            Self::Iperf3 => "MiB/s",
            Self::Sockperf(_) => "us",
        }
    }

    /// The title of its family, and its place on an x axis.
    pub fn axis(self) -> (&'static str, u32) {
        match self {
            Self::RedisGet(conns) => ("redis-benchmark GET, by connections", conns),
            Self::RedisSet(conns) => ("redis-benchmark SET, by connections", conns),
            Self::Wrk(conns) => ("wrk and nginx, by connections", conns),
            Self::WrkClose(conns) => ("wrk and nginx, closing, by connections", conns),
            Self::Iperf3 => ("iperf3", 1),
            Self::Sockperf(size) => ("sockperf ping-pong, by message size", size),
        }
    }

    /// The names of the server and of the client.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::RedisGet(_) | Self::RedisSet(_) => ("redis-server", "redis-benchmark"),
            Self::Wrk(_) | Self::WrkClose(_) => ("nginx", "wrk"),
            Self::Iperf3 => ("iperf3", "iperf3"),
            Self::Sockperf(_) => ("sockperf", "sockperf"),
        }
    }

    /// Where its server listens: the port it has by itself, so that no program meets what another has
    /// left behind.
    fn port(self) -> u16 {
        match self {
            Self::RedisGet(_) | Self::RedisSet(_) => 6379,
            Self::Wrk(_) | Self::WrkClose(_) => 8080,
            Self::Iperf3 => 5201,
            Self::Sockperf(_) => 11111,
        }
    }

    /// Its server's command line, and the files it needs in `folder`.
    fn server(self, at: SocketAddr, folder: &Path) -> Result<Command> {
        let (ip, port) = (at.ip().to_string(), at.port().to_string());
        let mut command = Command::new(self.names().0);
        command.current_dir(folder);
        match self {
            Self::RedisGet(_) | Self::RedisSet(_) => {
                command
                    .args(["--bind", &ip, "--port", &port])
                    .args(["--protected-mode", "no", "--save", "", "--appendonly", "no"])
                    .arg("--unixsocket")
                    .arg(folder.join("redis"));
            }
            Self::Wrk(_) | Self::WrkClose(_) => {
                let dir = folder.display();
                let text = format!(
                    "{NGINX}pid {dir}/pid;\nhttp {{ {NGINX_HTTP}\n\
                     server {{ listen {at} backlog=4096; root {dir}; }} }}\n"
                );
                let file = folder.join("nginx.conf");
                std::fs::write(&file, text)?;
                std::fs::write(folder.join(FILE), [b'x'; FILE_OCTETS])?;
                command.args(["-e", "stderr", "-c"]).arg(file);
            }
            Self::Iperf3 => {
                command.args(["-s", "-B", &ip, "-p", &port]);
            }
            Self::Sockperf(_) => {
                // The others take an address that closed connections still have without being asked.
                command
                    .args(["server", "--tcp", "--uc-reuseaddr"])
                    .args(["-i", &ip, "-p", &port]);
            }
        }
        Ok(command)
    }

    /// The command that prepares the server before the measurement, without the network.
    fn prepare(self, folder: &Path) -> Option<Command> {
        let Self::RedisGet(_) = self else {
            return None;
        };
        // A value to read.
        let mut command = Command::new("redis-benchmark");
        command
            .arg("-s")
            .arg(folder.join("redis"))
            .args(["-c", "1", "-n", "1", "-d", &VALUE.to_string()])
            .args(["-t", "set", "-q"]);
        Some(command)
    }

    /// Its client's command line.
    fn client(self, at: SocketAddr, seconds: f64) -> Command {
        let (ip, port) = (at.ip().to_string(), at.port().to_string());
        let time = self.whole_seconds(seconds);
        let mut command = Command::new(self.names().1);
        match self {
            Self::RedisGet(conns) | Self::RedisSet(conns) => {
                let test = self.redis_test().to_lowercase();
                command
                    .args(["-h", &ip, "-p", &port, "-t", &test, "--csv"])
                    .args(["-c", &conns.to_string(), "-d", &VALUE.to_string()])
                    .args(["-n", &redis_requests(seconds).to_string()]);
            }
            Self::Wrk(conns) | Self::WrkClose(conns) => {
                command
                    .args(["-t1", "-c", &conns.to_string(), "-d", &time, "--latency"])
                    .args(self.wrk_headers().iter().flat_map(|header| ["-H", header]))
                    .arg(format!("http://{at}/{FILE}"));
            }
            Self::Iperf3 => {
                command.args(["-c", &ip, "-p", &port, "-t", &time, "-J"]);
            }
            Self::Sockperf(size) => {
                command
                    .args(["ping-pong", "--tcp", "-i", &ip, "-p", &port])
                    .args(["-m", &size.to_string(), "-t", &time, "--full-rtt"]);
            }
        }
        command
    }

    /// What came of it, by what the client has printed.
    fn outcome(self, said: &str, at: SocketAddr, seconds: f64) -> Result<Outcome> {
        let mut outcome = match self {
            Self::RedisGet(_) | Self::RedisSet(_) => {
                output::redis(said, self.redis_test(), redis_requests(seconds))?
            }
            Self::Wrk(_) | Self::WrkClose(_) => output::wrk(said)?,
            Self::Iperf3 => output::iperf3(said)?,
            Self::Sockperf(size) => output::sockperf(said, size)?,
        };
        // At least; some of them make one more to ask for something.
        outcome.connections = match self {
            Self::RedisGet(conns) | Self::RedisSet(conns) | Self::Wrk(conns) => conns.into(),
            Self::WrkClose(_) => outcome.messages,
            // The other one carries what the ends have to tell each other.
            Self::Iperf3 => 2,
            Self::Sockperf(_) => 1,
        };
        // Requests whose text is known.
        let each = match self {
            Self::RedisGet(_) => Some((redis_words(&["GET", KEY]), Some(redis_value()))),
            Self::RedisSet(_) => {
                let value = "x".repeat(VALUE as usize);
                let response = "+OK\r\n".len() as u64;
                Some((redis_words(&["SET", KEY, &value]), Some(response)))
            }
            Self::Wrk(_) | Self::WrkClose(_) => Some((self.wrk_request(at), None)),
            Self::Iperf3 | Self::Sockperf(_) => None,
        };
        if let Some((request, response)) = each {
            outcome.sent = outcome.messages * request;
            if let Some(response) = response {
                outcome.received = outcome.messages * response;
            }
        }
        Ok(outcome)
    }

    /// How many seconds its client runs, as all but redis-benchmark take whole ones. wrk begins to
    /// count when it begins to connect, which should not take most of the time.
    fn whole_seconds(self, seconds: f64) -> String {
        let least = match self {
            Self::Wrk(conns) => f64::from(conns) / CONNECTIONS,
            _ => 1.0,
        };
        format!("{:.0}", seconds.max(least).max(1.0).ceil())
    }

    fn redis_test(self) -> &'static str {
        match self {
            Self::RedisSet(_) => "SET",
            _ => "GET",
        }
    }

    fn wrk_headers(self) -> &'static [&'static str] {
        match self {
            Self::WrkClose(_) => &["Connection: close"],
            _ => &[],
        }
    }

    /// Octets of a request of wrk.
    fn wrk_request(self, at: SocketAddr) -> u64 {
        let mut text = format!("GET /{FILE} HTTP/1.1\r\nHost: {at}\r\n");
        for header in self.wrk_headers() {
            text += header;
            text += "\r\n";
        }
        (text + "\r\n").len() as u64
    }
}

/// The key that redis-benchmark uses if it is not asked for random ones.
const KEY: &str = "key:__rand_int__";

/// Octets of a request to redis.
fn redis_words(words: &[&str]) -> u64 {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text += &format!("${}\r\n{word}\r\n", word.len());
    }
    text.len() as u64
}

/// Octets of a response of redis with a value.
fn redis_value() -> u64 {
    format!("${VALUE}\r\n\r\n").len() as u64 + u64::from(VALUE)
}

fn redis_requests(seconds: f64) -> u64 {
    (seconds * REDIS_REQUESTS).ceil().max(1.0) as u64
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RedisGet(conns) => write!(f, "redis-get:{conns}"),
            Self::RedisSet(conns) => write!(f, "redis-set:{conns}"),
            Self::Wrk(conns) => write!(f, "wrk:{conns}"),
            Self::WrkClose(conns) => write!(f, "wrk-close:{conns}"),
            Self::Iperf3 => write!(f, "iperf3"),
            Self::Sockperf(size) => write!(f, "sockperf:{size}"),
        }
    }
}

/// Whether this guest has what these programs need; better known before an hour of measuring.
pub fn check(programs: &[Program]) -> Result<()> {
    let path = env::var_os("PATH").unwrap_or_default();
    for program in programs {
        let (server, client) = program.names();
        for name in [server, client] {
            if !env::split_paths(&path).any(|folder| folder.join(name).is_file()) {
                bail!(
                    "{program}: this guest has no {name}: its package belongs into \
                     scripts/rootfs.packages"
                );
            }
        }
    }
    Ok(())
}

/// Runs a client at `near` against a server that was started before.
pub fn run(server: &Server, near: &End, seconds: f64) -> Result<Outcome> {
    let (program, at) = (server.program(), server.at());
    let ran = server.run(near, program.client(at, seconds))?;
    let mut outcome = program
        .outcome(&ran.said, at, seconds)
        .map_err(|error| anyhow!("{error:#}; printed was: {}", process::tail(&ran.said)))?;
    outcome.cpu = ran.cpu;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> SocketAddr {
        "10.8.0.2:8080".parse().unwrap()
    }

    fn words(command: &Command) -> String {
        let words: Vec<_> = command
            .get_args()
            .map(|arg| arg.to_string_lossy())
            .collect();
        words.join(" ")
    }

    #[test]
    fn requests_have_known_sizes() {
        assert_eq!(redis_words(&["GET", KEY]), 36);
        assert_eq!(redis_words(&["SET", KEY, "VXK"]), 45);
        assert_eq!(redis_value(), 71);
        assert_eq!(Program::Wrk(1).wrk_request(at()), 41);
        assert_eq!(Program::WrkClose(1).wrk_request(at()), 60);
    }

    #[test]
    fn times_are_whole_seconds_or_requests() {
        let wrk = words(&Program::WrkClose(32).client(at(), 0.4));
        assert_eq!(
            wrk,
            "-t1 -c 32 -d 1 --latency -H Connection: close http://10.8.0.2:8080/1k"
        );
        let redis = words(&Program::RedisGet(200).client(at(), 0.4));
        assert!(
            redis.ends_with("-t get --csv -c 200 -d 64 -n 2000"),
            "{redis}"
        );
        assert!(words(&Program::Iperf3.client(at(), 2.0)).contains("-t 2 "));
        assert!(words(&Program::Wrk(200).client(at(), 2.0)).contains("-d 4 "));
        assert!(words(&Program::Wrk(16).client(at(), 2.0)).contains("-d 2 "));
    }

    #[test]
    fn outcomes_are_completed() {
        let said = "  10 requests in 1.00s, 12.00KB read\nRequests/sec: 10.00\n";
        let outcome = Program::WrkClose(2).outcome(said, at(), 1.0).unwrap();
        assert_eq!((outcome.connections, outcome.sent), (10, 600));
        assert_eq!(outcome.received, 12 << 10);
        let outcome = Program::Wrk(2).outcome(said, at(), 1.0).unwrap();
        assert_eq!((outcome.connections, outcome.sent), (2, 410));
    }

    #[test]
    fn missing_program_is_named() {
        assert!(check(&[]).is_ok());
        let error = check(&[Program::Sockperf(64)]).err().map(|e| e.to_string());
        if let Some(error) = error {
            assert!(error.starts_with("sockperf:64: this guest has no sockperf"));
        }
    }
}
