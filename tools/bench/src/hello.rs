// SPDX-License-Identifier: GPL-2.0

//! What a client says first on a connection: what the server shall do with it.

use crate::workload::{
    Push,
    REQUEST, //
};
use anyhow::{
    bail,
    Result, //
};

const MAGIC: [u8; 4] = *b"RSBN";

/// Octets of a hello: as many as a request, because in [`Mode::Request`] it is the first one.
pub const LEN: usize = REQUEST;

/// What the server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads to the end, and answers how many octets there were behind the hello.
    Sink,
    /// The same, and sends at the same time, until the client's end.
    Both,
    /// Sends every message back.
    Echo,
    /// Sends every request back, the hello included, together with all other such connections.
    Request,
}

/// The message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What to do.
    pub mode: Mode,
    /// Of messages, or of sends.
    pub size: u32,
    /// Messages of a batch; with a cork, the batch that it is set for.
    pub depth: u32,
    /// How the server's messages are pushed out.
    pub push: Push,
}

impl Hello {
    /// One that only names the mode.
    pub fn of(mode: Mode, size: u32) -> Self {
        Self {
            mode,
            size,
            depth: 1,
            push: Push::Default,
        }
    }

    /// The octets.
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = match self.mode {
            Mode::Sink => 1,
            Mode::Both => 2,
            Mode::Echo => 3,
            Mode::Request => 4,
        };
        bytes[5] = match self.push {
            Push::Default => 0,
            Push::NoDelay => 1,
            Push::Cork => 2,
        };
        bytes[8..12].copy_from_slice(&self.size.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.depth.to_be_bytes());
        bytes
    }

    /// Reads it.
    pub fn parse(bytes: &[u8; LEN]) -> Result<Self> {
        if bytes[..4] != MAGIC {
            bail!("not a hello");
        }
        let number = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let hello = Self {
            mode: match bytes[4] {
                1 => Mode::Sink,
                2 => Mode::Both,
                3 => Mode::Echo,
                4 => Mode::Request,
                other => bail!("mode {other}"),
            },
            push: match bytes[5] {
                0 => Push::Default,
                1 => Push::NoDelay,
                2 => Push::Cork,
                other => bail!("push {other}"),
            },
            size: number(8),
            depth: number(12),
        };
        if hello.size == 0 || hello.size > 1 << 30 || hello.depth == 0 {
            bail!("sizes {} and {}", hello.size, hello.depth);
        }
        Ok(hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_back() {
        let hello = Hello {
            mode: Mode::Echo,
            size: 4096,
            depth: 16,
            push: Push::Cork,
        };
        assert_eq!(Hello::parse(&hello.to_bytes()).unwrap(), hello);
    }

    #[test]
    fn nonsense_is_refused() {
        let good = Hello::of(Mode::Sink, 1).to_bytes();
        for at in [0, 4, 5, 8] {
            let mut bad = good;
            bad[at] = 0xff;
            assert!(Hello::parse(&bad).is_err(), "octet {at}");
        }
        assert!(Hello::parse(&[0; LEN]).is_err());
    }
}
