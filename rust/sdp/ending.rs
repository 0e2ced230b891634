// SPDX-License-Identifier: GPL-2.0

//! Timers of a connection, and its end: what the core decides, done to the link and to the socket.
//!
//! Source: draft 8.2 (SDP-CLS-*, SDP-ABT-*); the decisions are in `proto::sdp::teardown`.

use super::{
    link::SdpLink,
    setup::SdpConnection, //
};
use crate::{
    kapi::compat::errno::{
        ECONNABORTED,
        ECONNRESET,
        EPROTO, //
    },
    proto::sdp::teardown::{
        EndError,
        EndState, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The errno of the error of a connection.
fn errno(error: EndError) -> Error {
    match error {
        EndError::Reset => ECONNRESET,
        EndError::Aborted => ECONNABORTED,
        EndError::Protocol => EPROTO,
        EndError::TimedOut => ETIMEDOUT,
    }
}

impl SdpConnection {
    /// Runs timers that are due, and the step of the end that is.
    ///
    /// It does not wait for the sock lock. Context: may sleep. Only the work item of the end calls
    /// it.
    pub(super) fn run_closing(self: &Arc<Self>) {
        if self.is_negotiating() {
            // The set-up reads the mail.
            return;
        }
        if self.is_moving() {
            return self.wait_for_move();
        }
        let mail = self.protocol.mail.take();
        let is_down = mail.is_down || mail.is_unanswered || mail.refused.is_some();
        let found = self.update_closing(|data, now| {
            data.handle_timeout(now);
            data.core.poll_take_down() || data.is_lost || is_down
        });
        let Some(takes_down) = found else {
            return;
        };
        if takes_down {
            self.lose_link();
        }
        if let Some(port) = self.poll_move() {
            self.lose_link();
            return self.begin_moving(port);
        }
        if takes_down {
            self.leave_device();
        }
        self.add_halves();
        self.add_buffers();
        if self.report_error().is_err() {
            return self.retry_closing();
        }
        self.closing_locked();
        let is_over = self.look(|data| {
            let is_closed = data.core.state() == EndState::Closed && data.channel.is_none();
            is_closed && data.core.is_released()
        });
        if is_over == Some(true) {
            self.finish_unless_it_lingers();
        }
    }

    /// The port that the peer has moved to; the connection waits for the new link from then on.
    fn poll_move(&self) -> Option<u16> {
        let mut slot = self.stream.lock();
        let data = slot.stream.as_mut()?;
        let port = data.core.poll_move()?;
        data.is_moving = true;
        Some(port)
    }

    /// Runs timers while a new link comes up. If the connection has ended, so does the set-up.
    fn wait_for_move(self: &Arc<Self>) {
        let is_live = self.update_closing(|data, now| {
            data.handle_timeout(now);
            data.core.is_moving()
        });
        if is_live == Some(false) {
            self.kick_setup();
        }
    }

    /// Takes the link down, if there is one, and lets the core know. Context: may sleep.
    pub(super) fn take_link_down(self: &Arc<Self>) {
        self.lose_link();
        self.leave_device();
    }

    /// Frees the link, if there is one, and what the data side has on the device. The connection still gets
    /// mail. Context: may sleep.
    pub(super) fn lose_link(self: &Arc<Self>) {
        let link = core::mem::replace(&mut *self.protocol.link.lock(), SdpLink::NONE);
        drop(link);
        let held = self.update(|data, now| {
            data.is_lost = false;
            data.core.handle_link_down(now);
            (
                data.channel.take(),
                data.source.take(),
                data.growth.take_ring(),
            )
        });
        drop(held);
    }

    /// The connection has nothing on a device from now on, and gets no mail. Context: may sleep.
    pub(super) fn leave_device(&self) {
        self.protocol.engine.services.links.leave(self);
        self.protocol.mail.close();
    }

    /// Brings the error of the connection to the socket, and wakes all sleepers.
    ///
    /// It does not wait for the sock lock. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a program has the sock lock; nothing is done then.
    fn report_error(&self) -> Result {
        let error = self.look(|data| data.core.read_error().filter(|_| !data.is_reported));
        let Some(error) = error.flatten() else {
            return Ok(());
        };
        {
            let mut sk = self.sk.try_lock()?;
            sk.set_err(errno(error));
            if let Some(data) = self.stream.lock().stream.as_mut() {
                data.is_reported = true;
            }
        }
        self.sk.wake_state();
        Ok(())
    }
}
