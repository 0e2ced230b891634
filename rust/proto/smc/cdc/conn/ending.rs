// SPDX-License-Identifier: GPL-2.0

//! The end of a connection: what the application, TCP and the link do to it, and what of that the
//! engine sees, RFC 7609, section 4.8. The states are in [`crate::proto::smc::close`].

use super::Conn;
use crate::proto::{
    base::time::Instant,
    smc::close::{
        CloseError,
        CloseState,
        Tcp, //
    },
};

/// What of the end of a connection the engine can see.
pub(super) type Observable = (CloseState, Tcp, Option<CloseError>, [bool; 2]);

impl Conn {
    /// shutdown(SHUT_WR): D goes after all data (CLS-53, CLS-55, CLS-61).
    pub(crate) fn shutdown_write(&mut self) {
        let before = self.observable();
        self.close.shutdown_write();
        self.note_changes(before);
    }

    /// shutdown(SHUT_RD): of no concern to the peer (CLS-01).
    pub(crate) fn shutdown_read(&mut self) {
        let before = self.observable();
        self.close.shutdown_read();
        self.note_changes(before);
        self.events.readable = true;
    }

    /// shutdown(SHUT_RDWR): as a close, except that unread data stays readable (CLS-01).
    pub(crate) fn shutdown_both(&mut self) {
        let before = self.observable();
        self.close.shutdown_both(self.rx.available() > 0);
        self.note_changes(before);
        self.events.readable = true;
    }

    /// The application has released the socket: aborts with unread data, else C goes after all data
    /// (CLS-02, CLS-03, CLS-08).
    pub(crate) fn close(&mut self, now: Instant) {
        let before = self.observable();
        self.close.close(now, self.rx.available() > 0);
        self.note_changes(before);
        self.events.closing = true;
    }

    /// This side gives up the connection: SO_LINGER with time 0, an administrator, module exit.
    pub(crate) fn abort(&mut self, now: Instant) {
        let before = self.observable();
        self.close.abort(now, CloseError::Aborted);
        self.note_changes(before);
    }

    /// The TCP connection was reset (TCR-06).
    pub(crate) fn handle_tcp_reset(&mut self, now: Instant) {
        let before = self.observable();
        self.close.handle_tcp_reset(now);
        self.note_changes(before);
    }

    /// The TCP connection got a FIN (TCR-09).
    pub(crate) fn handle_tcp_fin(&mut self, now: Instant) {
        let before = self.observable();
        self.close.handle_tcp_fin(now);
        self.note_changes(before);
    }

    /// The last link to the peer is gone (CLS-76). Transmission ends.
    pub(crate) fn handle_link_lost(&mut self) {
        let before = self.observable();
        self.close.handle_link_lost();
        self.tx.end_lending();
        self.note_changes(before);
        // What the engine holds of the link must go in any state.
        self.events.closing = true;
    }

    /// The state, for people.
    pub(crate) fn state(&self) -> CloseState {
        self.close.state()
    }

    /// Whether shutdown(2) finds a connection; otherwise it is `ENOTCONN`.
    pub(crate) fn is_connected(&self) -> bool {
        self.close.is_alive()
    }

    /// Whether the peer writes to our element no more (CLS-13).
    pub(crate) fn is_closed(&self) -> bool {
        self.close.state() == CloseState::Closed
    }

    /// Whether the buffers and the token can be used again: the connection is closed, released by
    /// the application and without a chain in flight, and its last message was delivered, unless
    /// the peer is gone.
    pub(crate) fn is_released(&self) -> bool {
        let settled = !self.tx.is_undelivered() || self.close.is_lost() || self.close.is_forced();
        self.is_closed() && self.close.is_released() && !self.tx.is_in_flight() && settled
    }

    /// Whether the connection is closed without a word of the peer, which could then still write to
    /// our element: reuse is legal (RMB-23), but after deregistering it is also safe.
    pub(crate) fn is_forced(&self) -> bool {
        self.close.is_forced()
    }

    /// How the engine must end the TCP connection. Changes from `Keep` to `Fin` to `Reset` only.
    /// Waits for our last message to arrive, because a FIN or RST must not overtake it (AMB-22).
    pub(crate) fn tcp(&self) -> Tcp {
        let settled = !self.tx.is_undelivered() && !self.close.is_abort_due();
        if settled || self.close.is_lost() || self.close.is_forced() {
            self.close.tcp()
        } else {
            Tcp::Keep
        }
    }

    /// What the engine can see of the end.
    pub(super) fn observable(&self) -> Observable {
        (
            self.close.state(),
            self.tcp(),
            self.close.error(),
            [
                self.is_released(),
                // Only a program that waits in close needs it.
                !self.close.is_open_for_sending() && self.is_drained(),
            ],
        )
    }

    /// Tidies up after an input, and notes in the events what changed since `before`.
    pub(super) fn note_changes(&mut self, before: Observable) {
        if !self.close.is_alive() {
            // ABT-06. Data received before stays readable.
            self.tx.purge();
        }
        let after = self.observable();
        let (state, _, error, _) = before;
        let failed = error.is_none() && after.2.is_some();
        let died = state != after.0 && !self.close.is_alive();
        self.events.readable |= failed || died;
        self.events.writable |= failed || died;
        self.events.closing |= before != after;
        self.events.error |= failed;
    }
}
