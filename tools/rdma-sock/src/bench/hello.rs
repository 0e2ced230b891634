// SPDX-License-Identifier: GPL-2.0

//! What both ends say to each other before and after a measurement.
//!
//! Each message has a fixed size, and all numbers are in network byte order. Magic, version and
//! status stay where they are in all versions, so that ends of different versions understand why
//! they part.
//!
//! ```text
//!   request   magic[4] version[2] task[1] 0[1] size[4] seconds[2] 0[2]
//!   answer    magic[4] version[2] status[1] mode[1] reason[4] 0[4]
//!   receipt   magic[4] 0[4] octets[8]
//! ```

use thiserror::Error;

/// Octets of each message.
pub(super) const LENGTH: usize = 16;
/// The version of the messages.
pub(super) const VERSION: u16 = 1;
/// Largest message of a ping-pong.
pub(super) const LARGEST: u32 = 1 << 16;
/// Longest measurement in seconds.
pub(super) const LONGEST: u16 = 3600;

const MAGIC: &[u8; 4] = b"RSbt";

/// Why a message is none.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub(super) enum HelloError {
    /// The other end speaks something else.
    #[error("it does not speak the language of `rdma-sock bench`")]
    Magic,
    /// The other end has another version of this program.
    #[error(
        "it speaks version {0} of the language of `rdma-sock bench`, and this end version {VERSION}: \
         install the same version of rdma-sock on both"
    )]
    Version(u16),
    /// A value is out of its bounds.
    #[error("it sent a message with a value out of bounds")]
    Value,
    /// The other end refused the request.
    #[error("it refused the request")]
    Refused,
}

/// Reads a message piece by piece; what is not there counts as 0, which no message ends in.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => [0; N],
        }
    }

    fn byte(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }
}

/// Joins pieces to a message.
fn message(pieces: &[&[u8]]) -> [u8; LENGTH] {
    let mut message = [0; LENGTH];
    let octets = pieces.iter().flat_map(|piece| piece.iter());
    for (place, octet) in message.iter_mut().zip(octets) {
        *place = *octet;
    }
    message
}

/// What the server shall do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Task {
    /// Send each message of this size back.
    Echo(u32),
    /// Read to the end, and send a receipt.
    Sink,
}

/// The first message of a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Request {
    /// What to do.
    pub(super) task: Task,
    /// For how long the client measures.
    pub(super) seconds: u16,
}

impl Request {
    /// The octets.
    pub(super) fn to_bytes(self) -> [u8; LENGTH] {
        let (task, size) = match self.task {
            Task::Echo(size) => (1, size),
            Task::Sink => (2, 0),
        };
        message(&[
            MAGIC,
            &VERSION.to_be_bytes(),
            &[task, 0],
            &size.to_be_bytes(),
            &self.seconds.to_be_bytes(),
        ])
    }

    /// Reads them.
    pub(super) fn parse(octets: &[u8; LENGTH]) -> Result<Self, HelloError> {
        let mut fields = begin(octets)?;
        let task = fields.byte();
        let _ = fields.byte();
        let size = u32::from_be_bytes(fields.take());
        let seconds = u16::from_be_bytes(fields.take());
        let task = match (task, size) {
            (1, 1..=LARGEST) => Task::Echo(size),
            (2, 0) => Task::Sink,
            _ => return Err(HelloError::Value),
        };
        match seconds {
            1..=LONGEST => Ok(Self { task, seconds }),
            _ => Err(HelloError::Value),
        }
    }
}

/// Checks magic and version.
fn begin(octets: &[u8; LENGTH]) -> Result<Fields<'_>, HelloError> {
    let mut fields = Fields(octets);
    if fields.take::<4>() != *MAGIC {
        return Err(HelloError::Magic);
    }
    match u16::from_be_bytes(fields.take()) {
        VERSION => Ok(fields),
        other => Err(HelloError::Version(other)),
    }
}

/// What carries a connection, as one end sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mode {
    /// This end does not know.
    Unknown,
    /// TCP.
    Tcp,
    /// RDMA, by SMC-R.
    Smc,
    /// RDMA, by SDP.
    Sdp,
}

impl Mode {
    fn code(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Tcp => 1,
            Self::Smc => 2,
            Self::Sdp => 3,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        let all = [Self::Unknown, Self::Tcp, Self::Smc, Self::Sdp];
        all.into_iter().find(|mode| mode.code() == code)
    }
}

/// The answer of the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Answer {
    /// What carries the connection, as the server sees it.
    pub(super) mode: Mode,
    /// Code of the reason for TCP; 0 for none.
    pub(super) reason: u32,
}

impl Answer {
    /// The octets.
    pub(super) fn to_bytes(self) -> [u8; LENGTH] {
        let status = [0, self.mode.code()];
        let reason = self.reason.to_be_bytes();
        message(&[MAGIC, &VERSION.to_be_bytes(), &status, &reason])
    }

    /// An answer that says no, and which version this end has.
    pub(super) fn refusal() -> [u8; LENGTH] {
        message(&[MAGIC, &VERSION.to_be_bytes(), &[1]])
    }

    /// Reads the octets.
    pub(super) fn parse(octets: &[u8; LENGTH]) -> Result<Self, HelloError> {
        let mut fields = begin(octets)?;
        if fields.byte() != 0 {
            return Err(HelloError::Refused);
        }
        Ok(Self {
            mode: Mode::from_code(fields.byte()).ok_or(HelloError::Value)?,
            reason: u32::from_be_bytes(fields.take()),
        })
    }
}

/// What the server has read until the end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Receipt(pub(super) u64);

impl Receipt {
    /// The octets.
    pub(super) fn to_bytes(self) -> [u8; LENGTH] {
        message(&[MAGIC, &[0; 4], &self.0.to_be_bytes()])
    }

    /// Reads them.
    pub(super) fn parse(octets: &[u8; LENGTH]) -> Result<Self, HelloError> {
        let mut fields = Fields(octets);
        if fields.take::<4>() != *MAGIC {
            return Err(HelloError::Magic);
        }
        let _: [u8; 4] = fields.take();
        Ok(Self(u64::from_be_bytes(fields.take())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: Request = Request {
        task: Task::Echo(64),
        seconds: 3,
    };

    #[test]
    fn messages_are_read_back() {
        let sink = Request {
            task: Task::Sink,
            seconds: LONGEST,
        };
        for request in [ECHO, sink] {
            assert_eq!(Request::parse(&request.to_bytes()), Ok(request));
        }
        for mode in [Mode::Unknown, Mode::Tcp, Mode::Smc, Mode::Sdp] {
            let reason = 0x0301_0000;
            let answer = Answer { mode, reason };
            assert_eq!(Answer::parse(&answer.to_bytes()), Ok(answer));
        }
        let receipt = Receipt(u64::MAX - 1);
        assert_eq!(Receipt::parse(&receipt.to_bytes()), Ok(receipt));
    }

    #[test]
    fn octets_are_as_kept() {
        let expected = *b"RSbt\x00\x01\x01\x00\x00\x00\x00\x40\x00\x03\x00\x00";
        assert_eq!(ECHO.to_bytes(), expected);
        let answer = Answer {
            mode: Mode::Tcp,
            reason: 0x0301_0000,
        };
        let expected = *b"RSbt\x00\x01\x00\x01\x03\x01\x00\x00\x00\x00\x00\x00";
        assert_eq!(answer.to_bytes(), expected);
        assert_eq!(&Receipt(258).to_bytes()[8..], b"\0\0\0\0\0\0\x01\x02");
    }

    #[test]
    fn value_out_of_bounds_is_refused() {
        let octets = ECHO.to_bytes();
        let with = |changes: &[(usize, u8)]| {
            let mut octets = octets;
            for (place, octet) in changes {
                octets[*place] = *octet;
            }
            Request::parse(&octets)
        };
        assert_eq!(with(&[(0, 0)]), Err(HelloError::Magic));
        assert_eq!(with(&[(5, 2)]), Err(HelloError::Version(2)));
        for changes in [
            &[(6, 3)][..],
            &[(6, 2)],
            &[(8, 1)],
            &[(11, 0)],
            &[(12, 255)],
            &[(13, 0)],
        ] {
            assert_eq!(with(changes), Err(HelloError::Value), "{changes:?}");
        }
        assert_eq!(Request::parse(&[0; LENGTH]), Err(HelloError::Magic));
    }

    #[test]
    fn refusal_tells_the_version() {
        assert_eq!(Answer::parse(&Answer::refusal()), Err(HelloError::Refused));
        let mut other = Answer::refusal();
        other[5] = 9;
        assert_eq!(Answer::parse(&other), Err(HelloError::Version(9)));
        let mut octets = Answer::refusal();
        octets[6..8].copy_from_slice(&[0, 4]);
        assert_eq!(Answer::parse(&octets), Err(HelloError::Value));
    }
}
