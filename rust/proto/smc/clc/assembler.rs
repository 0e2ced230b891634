// SPDX-License-Identifier: GPL-2.0

//! Cuts CLC messages out of the TCP stream, RFC 7609, appendix C.6.

use super::{
    error::ClcError,
    header::{
        announced_len,
        LEAD_LEN,
        MAX_LEN, //
    },
    message::ClcMessage, //
};
use crate::proto::smc::wire::EYE_CATCHER;

/// What the first octets on a TCP connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The start of a CLC message.
    Message,
    /// Something else.
    Foreign,
    /// Too few to tell.
    Unclear,
}

/// Collects the octets of one message at a time.
///
/// Never asks for an octet beyond the message, because what follows a Decline belongs to the
/// application (CLC-04, AMB-44).
///
/// # Invariants
///
/// `filled < wanted <= MAX_LEN`.
#[derive(Clone, Debug)]
pub(crate) struct Assembler {
    buf: [u8; MAX_LEN],
    filled: usize,
    wanted: usize,
}

impl Assembler {
    /// Makes one that waits for the start of a message.
    pub(crate) const fn new() -> Self {
        // INVARIANT: No octet is there, some are wanted.
        Self {
            buf: [0; MAX_LEN],
            filled: 0,
            wanted: LEAD_LEN,
        }
    }

    /// Judges octets that may be the start of a message, or a part of that, without consuming them.
    pub(crate) fn judge(octets: &[u8]) -> Start {
        if octets
            .iter()
            .zip(EYE_CATCHER)
            .any(|(got, want)| *got != want)
        {
            Start::Foreign
        } else if octets.len() < EYE_CATCHER.len() {
            Start::Unclear
        } else {
            Start::Message
        }
    }

    /// The length of the Decline that `octets` begin with, if they do and it is complete.
    pub(crate) fn leading_decline(octets: &[u8]) -> Option<usize> {
        let len = announced_len(octets.get(..LEAD_LEN)?).ok()??;
        match ClcMessage::parse(octets.get(..len)?) {
            Ok(ClcMessage::Decline(_)) => Some(len),
            _ => None,
        }
    }

    /// Where to put the next octets: as many as may be read now, and never none.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.buf
            .get_mut(self.filled..self.wanted)
            .unwrap_or_default()
    }

    /// Whether a message has begun but is not complete.
    pub(crate) const fn is_started(&self) -> bool {
        self.filled > 0
    }

    /// Takes note that the first `count` octets of [`Self::room`] were filled.
    ///
    /// Gives the message when it is complete, and is then ready for the next one. After an error
    /// the position in the stream is lost, except after [`ClcError::Reserved`], which consumed exactly
    /// one message.
    pub(crate) fn filled(&mut self, count: usize) -> Result<Option<ClcMessage>, ClcError> {
        self.filled = self.filled.saturating_add(count).min(self.wanted);
        let octets = self.buf.get(..self.filled).unwrap_or_default();
        let Some(len) = announced_len(octets)? else {
            return Ok(None);
        };
        if self.filled < len {
            self.wanted = len;
            return Ok(None);
        }
        let message = ClcMessage::parse(octets);
        // INVARIANT: As in `new()`.
        self.filled = 0;
        self.wanted = LEAD_LEN;
        message.map(Some)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_clc_assembler))]
mod tests {
    use super::*;
    use crate::proto::smc::clc::ProtocolError;

    /// SMCR-VEC-06 and what the application sends behind it.
    const STREAM: &[u8] = &[
        0xe2, 0xd4, 0xc3, 0xd9, 4, 0, 28, 0x18, 0x12, 0x34, 2, 0, 0, 0, 11, 1, 4, 0, 0, 0, 0, 0, 0,
        0, 0xe2, 0xd4, 0xc3, 0xd9, b'G', b'E', b'T', b' ', b'/',
    ];

    /// Feeds `stream` in pieces of at most `step` octets; gives the message and what is left.
    fn feed(
        assembler: &mut Assembler,
        mut stream: &'static [u8],
        step: usize,
    ) -> Result<(Option<ClcMessage>, &'static [u8]), ClcError> {
        while !stream.is_empty() {
            let room = assembler.room();
            let count = room.len().min(step).min(stream.len());
            room[..count].copy_from_slice(&stream[..count]);
            stream = &stream[count..];
            if let Some(message) = assembler.filled(count)? {
                return Ok((Some(message), stream));
            }
        }
        Ok((None, stream))
    }

    // CLC-01, CLC-04.
    #[test]
    fn message_is_cut_out_whatever_the_pieces() -> Result<(), ClcError> {
        let mut assembler = Assembler::new();
        for step in 1..=40 {
            let (message, rest) = feed(&mut assembler, STREAM, step)?;
            assert_eq!(message, ClcMessage::parse(&STREAM[..28]).ok());
            assert!(message.is_some());
            assert_eq!(rest, b"GET /");
            assert!(!assembler.is_started());
            assert_eq!(assembler.room().len(), LEAD_LEN);
        }
        Ok(())
    }

    #[test]
    fn incomplete_message_waits() -> Result<(), ClcError> {
        let mut assembler = Assembler::new();
        let (message, _) = feed(&mut assembler, &STREAM[..27], 8)?;
        assert!(message.is_none());
        assert!(assembler.is_started());
        assert_eq!(assembler.room().len(), 1);
        assert_eq!(assembler.room().len(), 1);
        Ok(())
    }

    // CLC-06, TST-109.
    #[test]
    fn application_data_is_recognised_at_its_first_octet() {
        let mut assembler = Assembler::new();
        let error = ProtocolError::EyeCatcher;
        let found = feed(&mut assembler, &STREAM[28..29], 1);
        assert_eq!(found, Err(error.into()));
    }

    #[test]
    fn nothing_read_changes_nothing() {
        let mut assembler = Assembler::new();
        assert_eq!(assembler.filled(0), Ok(None));
        assert_eq!(assembler.room().len(), LEAD_LEN);
    }

    // CLC-06, CLC-32, TST-109.
    #[test]
    fn too_long_message_is_rejected_at_once() {
        let mut assembler = Assembler::new();
        let found = feed(
            &mut assembler,
            &[0xe2, 0xd4, 0xc3, 0xd9, 1, 0xff, 0xff, 0x20],
            8,
        );
        assert_eq!(found, Err(ProtocolError::Length(0xffff).into()));
    }

    #[test]
    fn eye_catcher_shows_the_start() {
        for len in 0..STREAM.len() {
            let octets = STREAM.get(..len).unwrap_or(&[]);
            let want = if len < 4 {
                Start::Unclear
            } else {
                Start::Message
            };
            assert_eq!(Assembler::judge(octets), want);
        }
        for octets in [
            &b"G"[..],
            b"GET /",
            &[0xe2, 0xd4, 0],
            &[0xe2, 0xd4, 0xc3, 0xc4],
        ] {
            assert_eq!(Assembler::judge(octets), Start::Foreign);
        }
    }

    #[test]
    fn decline_in_front_of_data_is_found_with_its_length() {
        assert_eq!(Assembler::leading_decline(STREAM), Some(28));
        assert_eq!(Assembler::leading_decline(&STREAM[..28]), Some(28));
        assert_eq!(Assembler::leading_decline(&STREAM[..27]), None);
        assert_eq!(Assembler::leading_decline(&STREAM[28..]), None);
        assert_eq!(Assembler::leading_decline(&[]), None);
    }
}
