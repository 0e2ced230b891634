// SPDX-License-Identifier: GPL-2.0

//! CLC messages that come when no handshake reads them any longer.
//!
//! A Proposal:
//! A server gives up waiting for a client that sends nothing at all: a middlebox may have taken the
//! option out of the SYN-ACK, and then the connection is plain TCP for the client (`SMCR-TCP-18`,
//! `SMCR-FBK-03`), which may be waiting for the server to speak first. But the client may also just
//! have been slow. The application can send at once; before it reads, its first octets are looked
//! at. If they are the start of a CLC message, the client's handshake has timed out here, and the
//! connection ends as it does for every such timeout (`SMCR-CLC-11`).
//!
//! A Decline: if the RDMA link fails for both sides at the same time, each declines and goes on
//! with TCP. The Decline of the peer is then in front of the application's octets, and is taken
//! away.

use crate::{
    kapi::compat::errno::ECONNRESET,
    proto::{
        smc::clc::{
            Assembler,
            Start, //
        },
        stream::reason::{
            LocalReason,
            Reason, //
        },
    },
    smc::setup::SmcConnection, //
};
use kernel::prelude::*;

/// Octets to inspect: a Decline has fewer.
const FIRST_BYTES: usize = 64;

impl SmcConnection {
    /// Looks at the first octets, if there are any. Context: may sleep.
    ///
    /// Fewer of them than a Proposal's eye catcher has are data: a Proposal comes in one segment.
    pub(crate) fn judge_first_octets(&self) {
        let mut first = [0; FIRST_BYTES];
        let mut sk = self.sk.lock();
        if !self.is_doubtful() {
            // Another reader was quicker.
            return;
        }
        match sk.peek(&mut first) {
            Err(error) if error == EAGAIN => return,
            Ok(count) => {
                let octets = first.get(..count).unwrap_or_default();
                if let Some(len) = Assembler::leading_decline(octets) {
                    // The octets are there, so all of them are taken.
                    let decline = first.get_mut(..len).unwrap_or_default();
                    let _ = sk.recv(decline);
                } else if Assembler::judge(octets) == Start::Message {
                    let reason = Reason::Local(LocalReason::ClcTimeout);
                    self.net.count_abort(self.side, reason);
                    sk.abort(ECONNRESET);
                }
            }
            // recvmsg reports the error.
            Err(_) => {}
        }
        self.set_doubtful(false);
    }
}
