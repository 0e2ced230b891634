// SPDX-License-Identifier: GPL-2.0

//! The idle TCP connection below: what the engine does to it, and finds there (TCR-03 to TCR-09).

use super::Conn;
use crate::proto::{
    base::time::Instant,
    smc::close::{
        CloseError,
        Tcp, //
    },
};

/// The TCP connection as the engine finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpFound {
    /// The peer can send.
    Open {
        /// It has sent payload.
        payload: bool,
    },
    /// The FIN of the peer has come.
    Fin,
    /// Both FINs have come, or the connection was reset.
    Closed {
        /// The socket has an error.
        error: bool,
    },
}

/// What the engine must do for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    /// The step of the TCP connection that is due. [`Conn::handle_tcp_done`] follows.
    pub(crate) tcp: Option<Tcp>,
    /// The error that the socket must have after a reset. [`Conn::report_error`] follows.
    pub(crate) error: Option<CloseError>,
    /// The peer has not answered, so its links must be tested.
    pub(crate) silent: bool,
    /// Nothing needs the connection, see [`Conn::is_released`].
    pub(crate) released: bool,
}

impl Conn {
    /// What the engine must do for the end of the connection. It asks after
    /// [`StreamEvents::closing`](crate::proto::smc::cdc::StreamEvents::closing) and each timeout.
    pub(crate) fn poll_ending(&self) -> Ending {
        let tcp = self.tcp();
        let due = tcp != self.tcp_done;
        Ending {
            tcp: due.then_some(tcp),
            error: self.unreported_error(),
            silent: due && self.is_forced(),
            released: self.is_released(),
        }
    }

    /// The engine has done that step of the TCP connection, and has held the lock of the socket for
    /// the step and this call.
    pub(crate) fn handle_tcp_done(&mut self, tcp: Tcp) {
        self.tcp_done = tcp;
    }

    /// The engine has looked at the TCP connection.
    pub(crate) fn handle_tcp(&mut self, now: Instant, found: TcpFound) {
        match (self.tcp_done, found) {
            // The engine has reset it.
            (Tcp::Reset, _) | (_, TcpFound::Open { payload: false }) => {}
            // TCR-03.
            (_, TcpFound::Open { payload: true }) => self.abort(now),
            (_, TcpFound::Fin) => self.handle_tcp_fin(now),
            // After our FIN a closed connection may as well have ended in order.
            (Tcp::Fin, TcpFound::Closed { error: false }) => self.handle_tcp_fin(now),
            (_, TcpFound::Closed { .. }) => self.handle_tcp_reset(now),
        }
    }

    /// Reports the error if the socket has it, and returns it the first time. The engine then wakes
    /// all sleepers. The socket has the error once the engine has reset TCP, or TCP is closed.
    ///
    /// Until the report, no call of the application sees the failure: a TCP socket fails and has the
    /// error at the same moment.
    pub(crate) fn report_error(&mut self, tcp_closed: bool) -> Option<CloseError> {
        if self.tcp_done == Tcp::Reset || tcp_closed {
            self.close.report_error()
        } else {
            None
        }
    }
}
