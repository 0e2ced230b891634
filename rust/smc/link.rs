// SPDX-License-Identifier: GPL-2.0

//! The link of a group: what completions of its queue pair mean.
//!
//! Source: RFC 7609 sections 3.3, 3.4, 4.7 (`SMCR-GEN-12`, `SMCR-CDC-30..32`).
//!
//! Everything here runs in softirq. CDC messages are handled at once, because they are the data
//! path; LLC messages and everything else that may sleep go through the [`Inbox`] to the group's
//! work item.

use super::{
    connection::Connection,
    link_group::LinkGroup,
    now, //
};
use crate::{
    kapi::rdma::{
        channel::ChannelOps,
        wc::WcStatus, //
    },
    proto::{
        cdc,
        llc::Kind,
        ring::ArrayQueue, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// First octet of a CDC message (RFC 7609 A.4).
const CDC_TYPE: u8 = 0xfe;

/// What a send slot carries until its completion.
pub(crate) enum Tag {
    /// Data and a CDC message of a connection.
    Cdc(Arc<Connection>, cdc::Token),
    /// An LLC message.
    Llc(Kind),
}

/// What softirq leaves for the group's work item.
pub(crate) struct Inbox {
    /// LLC messages in order of arrival.
    pub(crate) received: ArrayQueue<[u8; 44], 32>,
    /// LLC sends that completed, and whether well.
    pub(crate) sent: ArrayQueue<(Kind, bool), 32>,
    /// The link is dead.
    pub(crate) broken: bool,
    /// Somebody wants the link tested.
    pub(crate) test: bool,
    /// Something arrived since the work item looked.
    pub(crate) active: bool,
}

impl Inbox {
    pub(crate) const fn new() -> Self {
        Self {
            received: ArrayQueue::new(),
            sent: ArrayQueue::new(),
            broken: false,
            test: false,
            active: false,
        }
    }
}

impl LinkGroup {
    fn kick(this: &Arc<Self>) {
        this.work.kick(this, &this.engine.queue);
    }

    /// Lets connections send that found no slot, each in its turn. Any context, without locks.
    pub(super) fn serve_waiting(this: &Arc<Self>) {
        loop {
            let (connection, others) = {
                let mut tokens = this.tokens.lock();
                (tokens.next_waiting(), tokens.waiting())
            };
            let Some(connection) = connection else { break };
            Connection::transmit(&connection);
            // One that waits again has found no more slots. The next time another has its turn.
            if this.tokens.lock().waiting() > others {
                break;
            }
        }
    }

    fn receive_llc(this: &Arc<Self>, msg: &[u8]) {
        {
            let mut inbox = this.inbox.lock();
            inbox.active = true;
            // A message of another length, or a peer that floods, breaks its own link
            // (`SMCR-ERR-41`).
            let queued = <[u8; 44]>::try_from(msg)
                .map_err(|_| ())
                .and_then(|msg| inbox.received.push(msg).map_err(|_| ()));
            if queued.is_err() {
                inbox.broken = true;
            }
        }
        Self::kick(this);
    }

    fn receive_cdc(this: &Arc<Self>, msg: &[u8]) {
        let Ok(msg) = cdc::Msg::parse(msg) else {
            this.inbox.lock().broken = true;
            Self::kick(this);
            return;
        };
        // A token of no live connection is a late message of one that ended (`SMCR-CDC-36`).
        let connection = this.tokens.lock().get(msg.token);
        if let Some(connection) = connection {
            Connection::receive_cdc(&connection, &msg);
        }
    }
}

/// A link: the queue pair of a group, seen from its completions.
pub(crate) struct Link {
    group: Arc<LinkGroup>,
}

impl Link {
    /// The link of `group`. The channel holds it until it is shut down.
    pub(crate) fn new(group: Arc<LinkGroup>) -> Self {
        Self { group }
    }
}

impl ChannelOps for Link {
    type Tag = Tag;

    fn on_sent(&self, tag: Tag, result: Result<(), WcStatus>) {
        match tag {
            Tag::Cdc(connection, token) => Connection::sent(&connection, token, result.is_ok()),
            Tag::Llc(kind) => {
                {
                    let mut inbox = self.group.inbox.lock();
                    if inbox.sent.push((kind, result.is_ok())).is_err() {
                        inbox.broken = true;
                    }
                }
                LinkGroup::kick(&self.group);
            }
        }
    }

    fn on_received(&self, msg: &[u8]) {
        match msg.first() {
            Some(&CDC_TYPE) => LinkGroup::receive_cdc(&self.group, msg),
            _ => LinkGroup::receive_llc(&self.group, msg),
        }
    }

    fn on_slot_free(&self) {
        LinkGroup::serve_waiting(&self.group);
        // LLC messages may wait too.
        if self.group.llc_waits.load(Relaxed) {
            LinkGroup::kick(&self.group);
        }
    }

    fn on_slot_unused(&self) {
        LinkGroup::kick(&self.group);
    }

    fn on_broken(&self, status: WcStatus) {
        // What was only flushed does not tell why.
        if status != WcStatus::FLUSHED && self.group.engine.may_log(now()) {
            pr_warn!(
                "link group {:#x}: a work request failed: {}\n",
                self.group.id,
                status.name()
            );
        }
        self.group.inbox.lock().broken = true;
        LinkGroup::kick(&self.group);
    }
}
