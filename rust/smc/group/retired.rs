// SPDX-License-Identifier: GPL-2.0

//! Links that have left their group, while their queue pairs are drained.
//!
//! Draining takes a grace period and more, in which the group lock must be free: first contact with
//! a peer that has one port ends with an unused link. So links without connections leave the group at
//! once, and the device in a work item of their own.

use super::link_group::{
    Inner,
    LinkGroup,
    Retired,
    CLOSE, //
};
use crate::{
    kapi::base::work::Run,
    proto::smc::llc::LinkSlot, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

impl Retired {
    /// Ends the queue pair, and takes the registrations back. Context: may sleep.
    fn close(self, group: &LinkGroup) {
        self.link.close(&[]);
        drop(self.regions);
        group.set_port(self.link.slot, None);
    }
}

impl LinkGroup {
    /// Lets a link leave the group that no connection writes by. `false` if there is no memory for
    /// that, or no such end. Context: may sleep.
    pub(crate) fn retire_link(self: &Arc<Self>, inner: &mut Inner, slot: LinkSlot) -> bool {
        let regions = KVec::with_capacity(inner.rmbs.len(), GFP_KERNEL);
        let mut retired = self.retired.lock();
        let (Ok(mut regions), Ok(())) = (regions, retired.reserve(1, GFP_KERNEL)) else {
            return false;
        };
        let Some(link) = inner.links.get_mut(slot.index()).and_then(Option::take) else {
            return false;
        };
        for rmb in inner.rmbs.iter() {
            if let Some(region) = rmb.take_region(link.slot) {
                let _ = regions.push_within_capacity(region);
            }
        }
        let _ = retired.push_within_capacity(Retired { link, regions });
        drop(retired);
        self.close_work.kick(self, &self.context.links);
        true
    }

    /// Waits until the retired links have left their devices. Context: may sleep.
    pub(crate) fn close_retired(&self) {
        self.close_work.cancel_sync();
        self.close_next_retired();
    }

    /// Closes what there is, one after the other.
    fn close_next_retired(&self) {
        loop {
            let next = self.retired.lock().pop();
            let Some(retired) = next else { break };
            retired.close(self);
        }
    }
}

impl Run<CLOSE> for LinkGroup {
    fn run(this: Arc<Self>) {
        this.close_next_retired();
    }
}
