// SPDX-License-Identifier: GPL-2.0

//! Lines of `trace_pipe`, as they come.

use anyhow::{
    Context,
    Result, //
};
use std::{
    fs::File,
    io::{
        self,
        ErrorKind,
        Read, //
    },
    mem,
    time::Duration, //
};
use tokio::{
    net::unix::pipe::Receiver,
    task::yield_now,
    time::sleep, //
};

/// Octets of one reading, and longest line.
pub(super) const CHUNK: usize = 1 << 16;
/// Time after which the pipe is read even if the kernel has not woken this process.
const PULSE: Duration = Duration::from_secs(1);

/// The pipe of an instance.
pub(super) struct Pipe {
    file: File,
    /// The same, to wait for events.
    events: Receiver,
    lines: Lines,
    chunk: Vec<u8>,
}

impl Pipe {
    /// Takes a file that does not block.
    pub(super) fn new(file: File) -> Result<Self> {
        const CANNOT: &str = "cannot wait for events";
        let events = Receiver::from_file_unchecked(file.try_clone().context(CANNOT)?);
        Ok(Self {
            file,
            events: events.context(CANNOT)?,
            lines: Lines::default(),
            chunk: vec![0; CHUNK],
        })
    }

    /// Waits until there may be something. Signals are handled also if there always is.
    pub(super) async fn ready(&self) -> Result<()> {
        yield_now().await;
        tokio::select! {
            ready = self.events.readable() => ready.context("cannot wait for events"),
            () = sleep(PULSE) => Ok(()),
        }
    }

    /// The next lines; `None` if there are none now.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Vec<u8>>>> {
        loop {
            match self.read() {
                Ok(0) => return Ok(None),
                Ok(length) => {
                    let octets = self.chunk.get(..length).unwrap_or_default();
                    return Ok(Some(self.lines.add(octets)));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot read events"),
            }
        }
    }

    /// Reads what is there, also if the kernel has not reported it.
    fn read(&mut self) -> io::Result<usize> {
        match self.events.try_read(&mut self.chunk) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                (&self.file).read(&mut self.chunk)
            }
            result => result,
        }
    }
}

/// Splits what comes into lines.
#[derive(Debug, Default)]
struct Lines {
    /// The start of a line whose end has not come.
    rest: Vec<u8>,
}

impl Lines {
    /// The lines that are complete now, without their ends. A line that is too long is dropped.
    fn add(&mut self, octets: &[u8]) -> Vec<Vec<u8>> {
        self.rest.extend_from_slice(octets);
        let all = mem::take(&mut self.rest);
        let mut parts: Vec<&[u8]> = all.split(|octet| *octet == b'\n').collect();
        let rest = parts.pop().unwrap_or_default();
        if rest.len() <= CHUNK {
            self.rest = rest.to_vec();
        }
        parts.into_iter().map(<[u8]>::to_vec).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_in_two_parts_is_joined() {
        const LINE: &[u8] = b"smc_tx_sendmsg: smc=1 net=1 len=5 dev=rs_a\n";
        for at in 0..LINE.len() {
            let mut lines = Lines::default();
            let (first, second) = LINE.split_at(at);
            assert!(lines.add(first).is_empty());
            assert_eq!(lines.add(second), [LINE.strip_suffix(b"\n").unwrap()]);
            assert!(lines.rest.is_empty());
        }
    }

    #[test]
    fn line_without_an_end_is_dropped() {
        let mut lines = Lines::default();
        for _ in 0..10 {
            assert!(lines.add(&vec![b'x'; CHUNK]).is_empty());
            assert!(lines.rest.len() <= CHUNK);
        }
    }
}
