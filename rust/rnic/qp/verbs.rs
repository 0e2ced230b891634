// SPDX-License-Identifier: GPL-2.0

//! A queue pair as the verbs core sees it.

use super::{
    pair::QueuePair,
    settings::to_verbs, //
};
use crate::{
    kapi::ibdev::{
        IbCqOps,
        IbQpOps,
        QpCaps,
        QpChange,
        QpHandle,
        QpRecord,
        QpReport,
        RecvWr,
        SendWr, //
    },
    proto::roce::state::Posting,
    rnic::{
        domain::AddressHandle,
        region::Region, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

impl IbQpOps for QueuePair {
    type Mr = Region;
    type Ah = AddressHandle;

    fn handle(&self) -> &QpHandle {
        &self.handle
    }

    fn caps(&self) -> QpCaps {
        self.caps
    }

    fn takes_datagrams(&self) -> bool {
        !self.kind.is_connected()
    }

    fn post_send(&self, wr: SendWr<Region, AddressHandle>) -> Result {
        self.sends.lock().post(wr)
    }

    fn post_recv(&self, wr: RecvWr) -> Result {
        if self.srq.is_some() {
            return Err(EINVAL);
        }
        self.receives.lock().post(wr)
    }

    fn posted(self: &Arc<Self>) {
        self.kick_here();
    }

    fn doorbell(self: &Arc<Self>) -> Result {
        if self.core.lock().state.post_send() == Posting::Refuse {
            return Err(EINVAL);
        }
        self.kick_here();
        Ok(())
    }

    fn modify(self: &Arc<Self>, change: &QpChange<'_>) -> Result {
        self.change(change)
    }

    fn query(&self, f: &mut dyn FnMut(&QpRecord, &QpReport)) {
        let core = self.core.lock();
        let report = QpReport {
            state: to_verbs(core.state),
            draining: core.draining,
            sq_psn: core.requester.as_ref().map(|half| half.next_psn().get()),
            rq_psn: core
                .responder
                .as_ref()
                .map(|half| half.expected_psn().get()),
            caps: self.caps,
        };
        f(&core.record, &report);
    }

    fn is_completing(&self) -> bool {
        self.send_cq.handle().is_calling() || self.recv_cq.handle().is_calling()
    }

    fn destroy(self: &Arc<Self>) {
        self.end();
    }
}
