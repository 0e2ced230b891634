// SPDX-License-Identifier: GPL-2.0

//! What handlers of the connection managers, and the Port Mapper, leave for a connection.
//!
//! A handler must not wait for another event, so it only notes what has come. The ids of a connection
//! refer to its mailbox, and not to the connection itself, which has the ids.

use super::reach::ReachWaiter;
use crate::kapi::{
    base::sync::{
        new_spinlock_bh,
        SpinLockBh, //
    },
    net::addr::Addr,
    verbs::cm::{
        CmEvent,
        CmId,
        CmOps,
        CmReply,
        RdmaId,
        RdmaIdEvent,
        RdmaIdOps, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Longest time for the route, in milliseconds; the set-up itself waits shorter.
const ROUTE_MS: u32 = 2000;

/// What has come and was not handled.
#[derive(Clone, Copy, Default)]
pub(super) struct SdpMail {
    /// The Port Mapper of the peer has the service, or not.
    pub(super) mapped: Option<bool>,
    /// Address and route are resolved.
    pub(super) is_resolved: bool,
    /// They cannot be.
    pub(super) is_unresolved: bool,
    /// The reply of the peer.
    pub(super) reply: Option<CmReply>,
    /// The peer, or its host, has refused.
    pub(super) is_refused: bool,
    /// RTU.
    pub(super) is_up: bool,
    /// A message of the peer, which may come before RTU.
    pub(super) has_message: bool,
    /// The link is down, or the peer wants it to be.
    pub(super) is_down: bool,
}

/// The connection of a mailbox.
pub(super) trait MailUser: Send + Sync {
    /// Something has come. Context: any.
    fn mail_came(self: Arc<Self>);
}

/// A mailbox with its connection.
struct MailState {
    mail: SdpMail,
    /// From the first id on, until the connection is over.
    user: Option<Arc<dyn MailUser>>,
}

/// The mailbox of a connection. Context of all methods: any.
#[pin_data]
pub(super) struct Mailbox {
    #[pin]
    state: SpinLockBh<MailState>,
}

impl Mailbox {
    /// An empty mailbox without a connection. Context: may sleep.
    pub(super) fn new() -> Result<Arc<Self>> {
        let state = MailState {
            mail: SdpMail::default(),
            user: None,
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- new_spinlock_bh!(state, "rdma_sock_sdp_mail"),
            }),
            GFP_KERNEL,
        )
    }

    /// The connection is notified from now on.
    pub(super) fn open(&self, user: Arc<dyn MailUser>) {
        let mut state = self.state.lock();
        // What has come for an earlier attempt is over.
        state.mail = SdpMail::default();
        state.user = Some(user);
    }

    /// The connection is over, and not notified any longer.
    pub(super) fn close(&self) {
        let user = self.state.lock().user.take();
        drop(user);
    }

    /// Takes what has come.
    pub(super) fn take(&self) -> SdpMail {
        core::mem::take(&mut self.state.lock().mail)
    }

    /// Notes what has come, and notifies the connection.
    pub(super) fn note(&self, f: impl FnOnce(&mut SdpMail)) {
        let user = {
            let mut state = self.state.lock();
            f(&mut state.mail);
            state.user.clone()
        };
        if let Some(user) = user {
            user.mail_came();
        }
    }
}

impl ReachWaiter for Mailbox {
    fn answered(self: &Arc<Self>, at: Option<Addr>) {
        self.note(|mail| mail.mapped = Some(at.is_some()));
    }
}

impl CmOps for Mailbox {
    fn on_event(this: &Arc<Self>, id: &CmId, event: CmEvent) {
        match event {
            CmEvent::Reply(reply) => this.note(|mail| mail.reply = Some(reply)),
            CmEvent::ReadyToUse(_) | CmEvent::Established => this.note(|mail| mail.is_up = true),
            CmEvent::DisconnectRequest(_) => {
                // After an error the connection has ended on this side as well.
                let _ = id.confirm_disconnect(&[]);
                this.note(|mail| mail.is_down = true);
            }
            CmEvent::Rejected { .. } => this.note(|mail| mail.is_refused = true),
            CmEvent::Unanswered(_) | CmEvent::DisconnectReply(_) => {
                this.note(|mail| mail.is_down = true);
            }
            CmEvent::Delayed { .. } | CmEvent::TimewaitExit => {}
        }
    }
}

impl RdmaIdOps for Mailbox {
    fn on_event(this: &Arc<Self>, id: &RdmaId, event: RdmaIdEvent) {
        let is_resolved = match event {
            RdmaIdEvent::AddrResolved if id.resolve_route(ROUTE_MS).is_ok() => return,
            RdmaIdEvent::RouteResolved => true,
            _ => false,
        };
        this.note(|mail| {
            mail.is_resolved |= is_resolved;
            mail.is_unresolved |= !is_resolved;
        });
    }
}
