// SPDX-License-Identifier: GPL-2.0

//! The work items of a connection, and its timer for coalesced data.
//!
//! No work item waits for the lock of a sock, which a program can hold as long as it likes.

use super::{
    connection::{
        Connection,
        Mode,
        Protocol,
        CLOSING,
        SETUP, //
    },
    listen,
    stream::Stream, //
};
use crate::kapi::base::{
    alarm::Expire,
    work::Run, //
};
use kernel::sync::Arc;

impl<P: Protocol> Run<SETUP> for Connection<P> {
    fn run(this: Arc<Self>) {
        if this.is_doomed() {
            return this.reset_doomed();
        }
        match this.mode() {
            Mode::Connecting | Mode::Negotiating => P::step(&this),
            Mode::Stream => P::after_setup(&this),
            Mode::Listening => listen::take_children(&this),
            Mode::Tcp => {}
        }
    }
}

impl<P: Protocol> Run<CLOSING> for Connection<P> {
    fn run(this: Arc<Self>) {
        P::closing(&this);
    }
}

impl<P: Protocol> Expire for Connection<P> {
    fn expired(self: &Arc<Self>) {
        let _ = self.update(|stream, now| stream.handle_coalesced(now));
    }
}
