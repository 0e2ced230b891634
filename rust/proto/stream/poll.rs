// SPDX-License-Identifier: GPL-2.0

//! What poll reports of a stream socket, by TCP's rules (`tcp_poll` in `net/ipv4/tcp.c`).

use core::ops::BitOr;

/// A set of reports. The bits mean nothing outside: the engine has the numbers of its system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mask(u8);

impl Mask {
    /// Nothing to report.
    pub(crate) const NONE: Self = Self(0);
    /// A read, or accept, returns at once: POLLIN, POLLRDNORM.
    pub(crate) const READABLE: Self = Self(1 << 0);
    /// Urgent data can be read: POLLPRI.
    pub(crate) const URGENT: Self = Self(1 << 1);
    /// A write returns at once: POLLOUT, POLLWRNORM.
    pub(crate) const WRITABLE: Self = Self(1 << 2);
    /// An error, or a message of the error queue, can be taken: POLLERR.
    pub(crate) const ERROR: Self = Self(1 << 3);
    /// Both directions have ended: POLLHUP.
    pub(crate) const HANGUP: Self = Self(1 << 4);
    /// The direction to this side has ended: POLLRDHUP.
    pub(crate) const READ_HANGUP: Self = Self(1 << 5);

    /// Whether all reports of `other` are in this set.
    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// This set, or nothing.
    const fn when(self, condition: bool) -> Self {
        if condition {
            self
        } else {
            Self::NONE
        }
    }
}

impl BitOr for Mask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The part of a connected socket that no stream knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolledSocket {
    /// Bytes that the application wants at least (SO_RCVLOWAT).
    pub(crate) low_water: u32,
    /// A pending error (SO_ERROR).
    pub(crate) error: bool,
    /// The error queue has a message.
    pub(crate) error_queue: bool,
    /// TCP is closed.
    pub(crate) closed: bool,
}

/// A connected stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PollStream {
    /// As many bytes as the application wants can be read.
    pub(crate) data: bool,
    /// The send buffer has enough free space for a writer to wake.
    pub(crate) room: bool,
    /// There is an urgent byte.
    pub(crate) urgent: bool,
    /// The peer writes no more, or the application has shut reading.
    pub(crate) read_ended: bool,
    /// The application has shut writing, or the connection is over.
    pub(crate) write_ended: bool,
    /// The socket has a pending error.
    pub(crate) error: bool,
    /// The error queue has a message.
    pub(crate) error_queue: bool,
}

impl PollStream {
    fn mask(self) -> Mask {
        Mask::READABLE.when(self.data || self.read_ended)
            | Mask::URGENT.when(self.urgent)
            | Mask::WRITABLE.when(self.room || self.write_ended)
            | Mask::ERROR.when(self.error || self.error_queue)
            | Mask::HANGUP.when(self.read_ended && self.write_ended)
            | Mask::READ_HANGUP.when(self.read_ended)
    }
}

/// A socket as poll finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollState {
    /// A listener. It is `ready` with a connection for accept.
    Listening {
        /// Accept returns a connection.
        ready: bool,
    },
    /// A connect that has neither succeeded nor failed.
    Connecting,
    /// A connection.
    Connected(PollStream),
    /// A connection whose failure is not complete. TCP has no such state, so there is no report.
    Failing,
    /// A connection of which nothing is left.
    Gone,
}

impl PollState {
    /// The reports of poll.
    pub(crate) fn mask(self) -> Mask {
        match self {
            Self::Listening { ready } => Mask::READABLE.when(ready),
            Self::Connecting | Self::Failing => Mask::NONE,
            Self::Connected(stream) => stream.mask(),
            Self::Gone => Mask::ERROR | Mask::HANGUP,
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_stream_poll))]
mod tests {
    use super::*;

    const IN: Mask = Mask::READABLE;
    const PRI: Mask = Mask::URGENT;
    const OUT: Mask = Mask::WRITABLE;
    const ERR: Mask = Mask::ERROR;
    const HUP: Mask = Mask::HANGUP;
    const RDHUP: Mask = Mask::READ_HANGUP;

    /// Established, with an empty send buffer and nothing to read.
    const IDLE: PollStream = PollStream {
        data: false,
        room: true,
        urgent: false,
        read_ended: false,
        write_ended: false,
        error: false,
        error_queue: false,
    };
    const FULL: PollStream = PollStream {
        room: false,
        ..IDLE
    };

    #[test]
    fn connection_reports_what_tcp_does() {
        let rows = [
            (IDLE, OUT),
            (FULL, Mask::NONE),
            (PollStream { data: true, ..IDLE }, IN | OUT),
            (PollStream { data: true, ..FULL }, IN),
            // An urgent byte that is not part of the stream.
            (
                PollStream {
                    urgent: true,
                    ..IDLE
                },
                PRI | OUT,
            ),
            // The FIN of the peer, or SHUT_RD.
            (
                PollStream {
                    read_ended: true,
                    ..IDLE
                },
                IN | OUT | RDHUP,
            ),
            (
                PollStream {
                    read_ended: true,
                    ..FULL
                },
                IN | RDHUP,
            ),
            (
                PollStream {
                    data: true,
                    read_ended: true,
                    ..FULL
                },
                IN | RDHUP,
            ),
            // SHUT_WR: a write fails at once, so there is no wait for room.
            (
                PollStream {
                    write_ended: true,
                    ..IDLE
                },
                OUT,
            ),
            (
                PollStream {
                    write_ended: true,
                    ..FULL
                },
                OUT,
            ),
            // A message of MSG_ZEROCOPY or of time stamps.
            (
                PollStream {
                    error_queue: true,
                    ..IDLE
                },
                OUT | ERR,
            ),
            (
                PollStream {
                    error_queue: true,
                    ..FULL
                },
                ERR,
            ),
            // Both FINs, or SHUT_RDWR.
            (
                PollStream {
                    read_ended: true,
                    write_ended: true,
                    ..FULL
                },
                IN | OUT | HUP | RDHUP,
            ),
            // A reset, before and after a call has taken the error.
            (
                PollStream {
                    read_ended: true,
                    write_ended: true,
                    error: true,
                    ..FULL
                },
                IN | OUT | ERR | HUP | RDHUP,
            ),
            (
                PollStream {
                    read_ended: true,
                    write_ended: true,
                    ..IDLE
                },
                IN | OUT | HUP | RDHUP,
            ),
        ];
        for (stream, expected) in rows {
            assert_eq!(PollState::Connected(stream).mask(), expected);
        }
    }

    #[test]
    fn each_report_of_a_connection_has_one_cause() {
        for bits in 0..1u8 << 7 {
            let bit = |n: u8| bits & (1 << n) != 0;
            let stream = PollStream {
                data: bit(0),
                room: bit(1),
                urgent: bit(2),
                read_ended: bit(3),
                write_ended: bit(4),
                error: bit(5),
                error_queue: bit(6),
            };
            let mask = PollState::Connected(stream).mask();
            let [read_ended, write_ended] = [bit(3), bit(4)];
            assert_eq!(mask.contains(IN), bit(0) || read_ended);
            assert_eq!(mask.contains(OUT), bit(1) || write_ended);
            assert_eq!(mask.contains(PRI), bit(2));
            assert_eq!(mask.contains(RDHUP), read_ended);
            assert_eq!(mask.contains(HUP), read_ended && write_ended);
            assert_eq!(mask.contains(ERR), bit(5) || bit(6));
        }
    }

    #[test]
    fn socket_without_a_connection_reports_what_tcp_does() {
        let rows = [
            (PollState::Listening { ready: false }, Mask::NONE),
            (PollState::Listening { ready: true }, IN),
            // SYN-SENT.
            (PollState::Connecting, Mask::NONE),
            (PollState::Failing, Mask::NONE),
            (PollState::Gone, ERR | HUP),
        ];
        for (state, expected) in rows {
            assert_eq!(state.mask(), expected);
        }
    }

    #[test]
    fn reports_have_bits_of_their_own() {
        let all = [IN, PRI, OUT, ERR, HUP, RDHUP];
        for (n, one) in all.iter().enumerate() {
            assert!(one.contains(*one) && one.contains(Mask::NONE));
            assert!(all.iter().skip(n + 1).all(|other| !one.contains(*other)));
        }
    }
}
