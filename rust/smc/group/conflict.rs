// SPDX-License-Identifier: GPL-2.0

//! Two connections that were given the same element of the peer: which of them ends.
//!
//! Source: RFC 7609 section 4.4 (`SMCR-RMB-24`).

use super::{
    link_group::LinkGroup,
    member::{
        is_same,
        Member, //
    },
    route::PeerElement, //
};
use kernel::sync::{
    atomic::Relaxed,
    Arc, //
};

impl LinkGroup {
    /// The connection, other than `but`, that writes to an element of the peer. Context: may sleep.
    #[inline(never)]
    pub(crate) fn writer(
        &self,
        element: &PeerElement,
        but: Option<&Arc<dyn Member>>,
    ) -> Option<Arc<dyn Member>> {
        self.members().find(|member| {
            let is_other = but.is_none_or(|but| !is_same(but, member));
            let known = member.peer_element();
            is_other
                && known
                    .is_some_and(|known| known.rmb == element.rmb && known.index == element.index)
        })
    }

    /// Aborts the connection, other than `but`, that still writes to an element of the peer, if
    /// there is one (`SMCR-RMB-24`). Context: may sleep.
    pub(crate) fn evict(&self, element: &PeerElement, but: Option<&Arc<dyn Member>>) {
        if let Some(member) = self.writer(element, but) {
            member.reset();
        }
    }

    /// A host that the group is not known to be with has named an element. Context: any.
    pub(crate) fn expect_conflicts(&self) {
        self.conflicts.store(true, Relaxed);
    }

    /// A connection has become active. If another one has the same element of the peer, one of
    /// them ends: that whose element was named by a host the group is not known to be with.
    /// Context: may sleep.
    pub(crate) fn resolve_conflict(&self, member: &Arc<dyn Member>, proven: bool) {
        if !self.conflicts.load(Relaxed) {
            return;
        }
        let Some(element) = member.peer_element() else {
            return;
        };
        if proven {
            self.evict(&element, Some(member));
        } else if self.writer(&element, Some(member)).is_some() {
            member.clone().reset();
        }
    }
}
