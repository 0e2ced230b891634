// SPDX-License-Identifier: GPL-2.0

//! Timers of a connection, and its end: what the core decides, done to TCP and to the group.
//!
//! Source: RFC 7609 sections 4.7, 4.8 (`SMCR-TCR-03..09`); the decisions are in
//! `proto::smc::close`.

use super::data::Data;
use crate::{
    kapi::{
        compat::errno::{
            ECONNABORTED,
            ECONNRESET, //
        },
        net::sock::TcpState, //
    },
    proto::smc::cdc::{
        CloseError as CoreError,
        Ending,
        Tcp,
        TcpFound, //
    },
    smc::{
        group::phase::GroupPhase,
        setup::SmcConnection, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Frees a data side that is over, with all that it holds of the group. Context: may sleep.
pub(crate) fn release(mut data: KBox<Data>) {
    let known = data.group.tokens.lock().remove(data.token);
    drop(known);
    if let Some(binding) = data.binding.take() {
        if !data.core.is_forced() {
            binding.rmbe.retire();
        }
    }
    let group = data.group.clone();
    drop(data);
    group.connection_left();
}

impl SmcConnection {
    /// Releases the parts of the device after the link is lost; received data stays.
    ///
    /// Context: may sleep.
    fn release_device(&self) {
        let binding = {
            let mut slot = self.stream.lock();
            slot.stream
                .as_mut()
                .filter(|data| data.group.phase() == GroupPhase::Dead)
                .and_then(|data| data.binding.take())
        };
        drop(binding);
    }

    /// Runs timers that are due, and the step of the end that is.
    ///
    /// It does not wait for the sock lock. Context: may sleep. Only the work item of the end calls
    /// it.
    pub(crate) fn run_closing(self: &Arc<Self>) {
        let found = self.update_closing(|data, now| {
            let violation = data.core.handle_timeout(now).err();
            let idle = data.keepalive.handle_timeout(now);
            (data.core.poll_ending(), violation, idle)
        });
        let Some((ending, violation, idle)) = found else {
            return;
        };
        if let Some(violation) = violation {
            self.report(violation);
        }
        self.move_if_idle();
        self.release_device();
        if ending.silent {
            // The peer may be gone with its link.
            if let Some(group) = self.look(|data| data.group.clone()) {
                group.test_links();
            }
        }
        if let Some(idle) = idle {
            self.check_link(idle);
        }
        if self.end_tcp(&ending).is_err() {
            return self.retry_closing();
        }
        self.closing_locked();
        self.report_error(&ending);
        if ending.released {
            self.finish_unless_it_lingers();
        }
    }

    /// Takes the step of the idle TCP connection that is due.
    ///
    /// It does not wait for the sock lock. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a program has the sock lock; nothing is done then.
    fn end_tcp(&self, ending: &Ending) -> Result {
        let Some(tcp) = ending.tcp else {
            return Ok(());
        };
        let mut sk = self.sk.try_lock()?;
        match tcp {
            Tcp::Keep => {}
            Tcp::Fin => sk.shutdown_send(),
            Tcp::Reset => {
                let error = ending.error.map(errno);
                sk.abort(error.unwrap_or(ECONNRESET));
                if let Some(error) = error {
                    // TCP may have ended in order before.
                    sk.set_missing_err(error);
                }
            }
        }
        // With the lock, so that `find_tcp` never takes the end for the peer's.
        if let Some(data) = self.stream.lock().stream.as_mut() {
            data.core.handle_tcp_done(tcp);
        }
        Ok(())
    }

    /// Reports to the core that the sock has the error, if it has, and wakes all sleepers.
    ///
    /// Context: any.
    fn report_error(&self, ending: &Ending) {
        if ending.error.is_none() {
            return;
        }
        let closed = self.sk.tcp_state() == TcpState::Close;
        let reported = match self.stream.lock().stream.as_mut() {
            Some(data) => data.core.report_error(closed).is_some(),
            None => false,
        };
        if reported {
            self.sk.wake_state();
        }
    }

    /// Looks at the idle TCP connection (`SMCR-TCR-03..09`).
    ///
    /// It does not wait for the sock lock. Context: may sleep. Only the work item of the set-up
    /// calls it.
    pub(crate) fn find_tcp(self: &Arc<Self>) {
        let found = {
            // While a segment is processed, its FIN looks like an octet of payload.
            let Ok(sk) = self.sk.try_lock() else {
                return self.retry_setup();
            };
            match sk.tcp_state() {
                TcpState::Close => TcpFound::Closed {
                    error: sk.err() != 0,
                },
                TcpState::CloseWait | TcpState::LastAck | TcpState::Closing => TcpFound::Fin,
                _ => TcpFound::Open {
                    payload: sk.unread() != 0,
                },
            }
        };
        self.setup_locked();
        let _ = self.update(|data, now| data.core.handle_tcp(now, found));
    }
}

/// The errno of an error the core latched.
fn errno(error: CoreError) -> Error {
    match error {
        CoreError::Reset => ECONNRESET,
        CoreError::Pipe => EPIPE,
        CoreError::Aborted => ECONNABORTED,
        CoreError::TimedOut => ETIMEDOUT,
    }
}
