// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock capture`: the payload of connections over RDMA, in a file for Wireshark.

use anyhow::{
    bail,
    ensure,
    Context,
    Result, //
};
use clap::{
    ArgGroup,
    Args, //
};
use rustix::termios::isatty;
use std::{
    fs::OpenOptions,
    io::{
        self,
        BufWriter,
        Write, //
    },
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::{
        Path,
        PathBuf, //
    },
    process,
};
use tokio::{
    runtime,
    signal::unix::{
        signal,
        SignalKind, //
    },
};

use super::{
    event::Line,
    payload::{
        Payload,
        SYSTEM,
        TRACEPOINT, //
    },
    pcapng::PacketFile,
    pipe::Pipe,
    time_since_epoch,
    tracefs::{
        self,
        Instance, //
    },
    Flow, //
};
use crate::{
    netns,
    output, //
};

/// Standard output in place of a file.
const STDOUT: &str = "-";
/// KiB of events that wait for this command, for each processor.
const ROOM: u32 = 16 << 10;
/// Others must not read what programs have sent.
const MODE: u32 = 0o600;

/// What to capture.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("which").required(true).multiple(true).args(["port", "peer"])))]
pub(crate) struct CaptureArgs {
    /// Only connections with this port on either side
    #[arg(short, long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// Only connections to or from this address
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<IpAddr>,

    /// Only connections in this network namespace: a name of "ip netns", a path such as /proc/PID/ns/net, or
    /// "self", that of this command
    #[arg(long, value_name = "NAME", default_value = netns::OWN)]
    netns: PathBuf,

    /// End after this number of packets
    #[arg(short = 'n', long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// The file, "-" for standard output; a file that exists is overwritten
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl CaptureArgs {
    /// The filter of the event: what the kernel does not report at all.
    fn filter(&self, net_cookie: u64) -> String {
        let mut filter = format!("net_cookie == {net_cookie}");
        if let Some(port) = self.port {
            filter += &format!(" && (port == {port} || peer_port == {port})");
        }
        filter
    }

    /// Whether a payload is wanted that the filter lets pass.
    fn wants(&self, payload: &Payload) -> bool {
        self.peer.is_none_or(|peer| payload.peer.ip() == peer)
    }

    /// Opens the file.
    fn open(&self) -> Result<Box<dyn Write>> {
        if self.file == Path::new(STDOUT) {
            let stdout = io::stdout();
            ensure!(
                !isatty(&stdout),
                "standard output is a terminal: name a file"
            );
            return Ok(Box::new(stdout.lock()));
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(MODE)
            .open(&self.file);
        Ok(Box::new(file.with_context(|| {
            format!("cannot write {}", self.file.display())
        })?))
    }
}

/// Writes packets until the user or the count ends it.
pub(crate) fn run(args: &CaptureArgs) -> Result<()> {
    let tracefs = tracefs::find(Path::new("/"), SYSTEM)?;
    let cookie = netns::cookie(&args.netns)?;
    runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?
        .block_on(follow(args, &tracefs, cookie))
}

async fn follow(args: &CaptureArgs, tracefs: &Path, net_cookie: u64) -> Result<()> {
    // Caught before the instance exists, so that it is always removed.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut session = Session {
        args,
        packets: PacketFile::new(BufWriter::new(args.open()?))?,
        written: 0,
        lost: Some(0),
    };
    session.flush()?;
    let instance = Instance::create(tracefs, process::id())?;
    // Declared behind the instance, and so closed before it is removed.
    let mut pipe = Pipe::new(instance.open(true)?)?;
    instance.set_room(ROOM)?;
    instance.set_filter(SYSTEM, TRACEPOINT, &args.filter(net_cookie))?;
    instance.enable(SYSTEM, TRACEPOINT)?;
    output::note("capturing; Ctrl-C to leave");
    loop {
        let signalled = tokio::select! {
            _ = interrupt.recv() => true,
            _ = terminate.recv() => true,
            _ = hangup.recv() => true,
            ready = pipe.ready() => ready.map(|()| false)?,
        };
        if signalled {
            // What was moved before the signal belongs to the file.
            instance.disable(SYSTEM, TRACEPOINT)?;
            while session.drain(&mut pipe)? == Drained::Some {}
            return session.end();
        }
        if session.drain(&mut pipe)? == Drained::Enough {
            return session.end();
        }
    }
}

/// How far the pipe was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Drained {
    /// There is nothing left.
    All,
    /// There may be more.
    Some,
    /// The file has as many packets as were wanted.
    Enough,
}

/// The file, and what became of events.
struct Session<'a> {
    args: &'a CaptureArgs,
    packets: PacketFile<BufWriter<Box<dyn Write>>>,
    written: u64,
    /// Events that the kernel had no room for, if it knows their number.
    lost: Option<u64>,
}

impl Session<'_> {
    /// Writes some of what is in the pipe.
    fn drain(&mut self, pipe: &mut Pipe) -> Result<Drained> {
        let Some(lines) = pipe.next()? else {
            // A reader of the file sees whole packets.
            self.flush()?;
            return Ok(Drained::All);
        };
        for line in lines {
            if self.write(&line)? == Flow::Leave {
                return Ok(Drained::Enough);
            }
        }
        Ok(Drained::Some)
    }

    fn write(&mut self, line: &[u8]) -> Result<Flow> {
        let Some(payload) = Payload::parse(line) else {
            if let Line::Lost(count) = Line::parse(line) {
                self.lost = self
                    .lost
                    .zip(count)
                    .map(|(all, more)| all.saturating_add(more));
            }
            return Ok(Flow::Continue);
        };
        if !self.args.wants(&payload) {
            return Ok(Flow::Continue);
        }
        self.packets
            .write(time_since_epoch(payload.time)?, &payload)?;
        self.written = self.written.saturating_add(1);
        let enough = self.args.count.is_some_and(|count| self.written >= count);
        Ok(if enough { Flow::Leave } else { Flow::Continue })
    }

    fn flush(&mut self) -> Result<()> {
        let flushed = self.packets.get_mut().flush();
        flushed.context("cannot write the file")
    }

    /// The end of the file.
    fn end(mut self) -> Result<()> {
        self.flush()?;
        output::note(&output::counted(self.written, "packet"));
        match self.lost {
            Some(0) => Ok(()),
            Some(count) => bail!(
                "{} lost: the file has gaps",
                output::counted(count, "event")
            ),
            None => bail!("events lost: the file has gaps"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;

    fn args(words: &[&str]) -> CaptureArgs {
        let words = ["rdma-sock", "capture"].iter().chain(words);
        match Cli::try_parse_from(words).unwrap().command {
            crate::cli::Command::Capture(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_way_to_choose_connections_is_needed() {
        assert!(Cli::try_parse_from(["rdma-sock", "capture", "-"]).is_err());
        assert!(Cli::try_parse_from(["rdma-sock", "capture", "--port", "0", "-"]).is_err());
        let both = args(&["--port", "80", "--peer", "10.9.0.1", "-"]);
        assert_eq!(
            both.filter(7),
            "net_cookie == 7 && (port == 80 || peer_port == 80)"
        );
        assert_eq!(
            args(&["--peer", "fd00::1", "-"]).filter(7),
            "net_cookie == 7"
        );
    }

    #[test]
    fn address_of_the_peer_chooses_connections() {
        let line = super::super::payload::tests::line(
            "net=1 inode=77 sent=1 position=0 addr=::ffff:10.9.0.1 port=80 peer=::ffff:10.9.0.2 \
             peer_port=40000 octets=00",
        );
        let payload = Payload::parse(line.as_bytes()).unwrap();
        assert!(args(&["--peer", "10.9.0.2", "-"]).wants(&payload));
        assert!(!args(&["--peer", "10.9.0.1", "-"]).wants(&payload));
        assert!(args(&["--port", "80", "-"]).wants(&payload));
    }

    #[test]
    fn file_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("payload.pcapng");
        let args = args(&["--port", "80", path.to_str().unwrap()]);
        let mut packets = PacketFile::new(args.open().unwrap()).unwrap();
        packets.get_mut().flush().unwrap();
        let data = std::fs::metadata(&path).unwrap();
        assert_eq!(data.permissions().mode() & 0o777, MODE);
        assert!(data.len() > 0);
    }
}
