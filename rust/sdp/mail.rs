// SPDX-License-Identifier: GPL-2.0

//! What handlers of the connection managers, and the Port Mapper, leave for a connection.
//!
//! A handler must not wait for another event, so it only notes what has come. The ids of a connection
//! refer to its mailbox, and not to the connection itself, which has the ids.

use super::reach::ReachWaiter;
use crate::{
    kapi::{
        base::sync::{
            new_spinlock_bh,
            SpinLockBh, //
        },
        net::addr::Addr,
        verbs::cm::{
            CmEvent,
            CmId,
            CmMessage,
            CmOps,
            CmReply,
            RdmaId,
            RdmaIdEvent,
            RdmaIdOps,
            RejectReason, //
        },
    },
    proto::sdp::setup::SetupRefusal, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Longest time for the route, in milliseconds; the set-up itself waits shorter.
const ROUTE_MS: u32 = 2000;

/// What has become of a question to a Port Mapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReachReply {
    /// The service is there.
    Mapped,
    /// It is not, or the host has no Port Mapper.
    Absent,
    /// The host has not answered.
    Silent,
}

/// What has come and was not handled.
#[derive(Clone, Copy, Default)]
pub(super) struct SdpMail {
    /// What has become of the question to the Port Mapper of the peer.
    pub(super) mapped: Option<ReachReply>,
    /// Address and route are resolved.
    pub(super) is_resolved: bool,
    /// The address is not, in the time of the try.
    pub(super) is_unresolved: bool,
    /// The reply of the peer.
    pub(super) reply: Option<CmReply>,
    /// The peer, or its host, has refused.
    pub(super) refused: Option<SetupRefusal>,
    /// The peer has not answered the request, or the reply.
    pub(super) is_unanswered: bool,
    /// RTU.
    pub(super) is_up: bool,
    /// A message of the peer, which may come before RTU.
    pub(super) has_message: bool,
    /// The link is down, or the peer wants it to be, or there cannot be one.
    pub(super) is_down: bool,
}

/// What a rejection of the connection manager means.
fn refusal(reason: RejectReason) -> SetupRefusal {
    match reason {
        RejectReason::STALE_CONN | RejectReason::DUPLICATE_ID => SetupRefusal::Stale,
        RejectReason::NO_RESOURCES | RejectReason::NO_QP | RejectReason::TIMEOUT => {
            SetupRefusal::Busy
        }
        RejectReason::INVALID_SERVICE_ID => SetupRefusal::NoListener,
        _ => SetupRefusal::Rejected,
    }
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
        let reply = match at {
            Some(_) => ReachReply::Mapped,
            None => ReachReply::Absent,
        };
        self.note(|mail| mail.mapped = Some(reply));
    }

    fn not_answered(self: &Arc<Self>) {
        self.note(|mail| mail.mapped = Some(ReachReply::Silent));
    }
}

impl CmOps for Mailbox {
    fn on_event(self: &Arc<Self>, id: &CmId, event: CmEvent) {
        match event {
            CmEvent::Reply(reply) => self.note(|mail| mail.reply = Some(reply)),
            CmEvent::ReadyToUse(_) => self.note(|mail| mail.is_up = true),
            CmEvent::DisconnectRequest(_) => {
                // After an error the connection has ended on this side as well.
                let _ = id.confirm_disconnect(&[]);
                self.note(|mail| mail.is_down = true);
            }
            CmEvent::Rejected { reason, .. } => {
                self.note(|mail| mail.refused = Some(refusal(reason)));
            }
            CmEvent::Unanswered(CmMessage::Request | CmMessage::Reply) => {
                self.note(|mail| mail.is_unanswered = true);
            }
            CmEvent::Unanswered(_) | CmEvent::DisconnectReply(_) => {
                self.note(|mail| mail.is_down = true);
            }
            CmEvent::Delayed { .. } | CmEvent::TimewaitExit => {}
        }
    }
}

impl RdmaIdOps for Mailbox {
    fn on_event(self: &Arc<Self>, id: &RdmaId, event: RdmaIdEvent) {
        match event {
            RdmaIdEvent::AddrResolved if id.resolve_route(ROUTE_MS).is_ok() => {}
            RdmaIdEvent::RouteResolved => self.note(|mail| mail.is_resolved = true),
            RdmaIdEvent::AddrFailed(error) if error == ETIMEDOUT => {
                self.note(|mail| mail.is_unresolved = true);
            }
            _ => self.note(|mail| mail.is_down = true),
        }
    }
}
