// SPDX-License-Identifier: GPL-2.0

//! The data side of a connection: the CDC core, and what it sends and receives by.
//!
//! Source: RFC 7609 sections 4.3 to 4.8; the decisions are in `proto::smc::cdc`.
//!
//! The core lives under the stream lock of its connection.

use crate::{
    fabric::account::Orphan,
    kapi::{
        compat::errno::ENOTCONN,
        mem::region::PeerMemory,
        verbs::{
            channel::{
                RdmaWrite,
                ReservedSlot,
                WriteSource, //
            },
            sendbuf::SendBuffer, //
        },
    },
    proto::{
        base::time::Instant,
        smc::{
            cdc::{
                self,
                Conn,
                Transmit, //
            },
            llc::LinkSlot,
            wire::AlertToken, //
        },
        stream::{
            arrivals::Arrivals,
            keepalive::Keepalive, //
        },
    },
    smc::group::{
        completions::{
            ChainOwner,
            LinkHandler,
            Tag,
            LLC_SLOTS, //
        },
        link_group::LinkGroup,
        rmb::{
            Rmbe,
            EYE_CATCHER, //
        },
        route::{
            Next,
            PeerElement,
            Route, //
        },
    },
    sock::{
        lent_pages::LentPages,
        stats::Traffic, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A place for a write that is not used.
const NO_WRITE: RdmaWrite = RdmaWrite {
    offset: 0,
    len: 0,
    rkey: 0,
    raddr: 0,
};

/// A connection's references to device objects. Their drop may sleep.
pub(crate) struct DeviceBinding {
    /// Where it sends.
    pub(crate) route: Route,
    /// The route to move to as soon as no chain is in flight.
    pub(crate) next: Option<Next>,
    pub(crate) rmbe: Rmbe,
    pub(crate) sendbuf: Arc<SendBuffer>,
}

/// The data side of a connection that uses SMC-R.
pub(crate) struct Data {
    /// The protocol core of the connection.
    pub(crate) core: Conn,
    /// The token the peer names this connection by.
    pub(crate) token: AlertToken,
    /// The link group.
    pub(crate) group: Arc<LinkGroup>,
    /// `None` once the link is lost; received data stays readable in `memory`.
    pub(crate) binding: Option<DeviceBinding>,
    /// The memory of the RMB that has the connection's element.
    pub(crate) memory: Arc<PeerMemory>,
    /// Number of the element in `memory`, from 0.
    pub(crate) element: usize,
    /// The element begins with an eye catcher.
    pub(crate) eye_catcher: bool,
    /// Where the peer's element is, whichever link leads there.
    pub(crate) peer_element: PeerElement,
    /// The keepalive timer.
    pub(crate) keepalive: Keepalive,
    /// Pages that programs have lent.
    pub(crate) lent_pages: LentPages,
    /// Traffic so far.
    pub(crate) counters: Traffic,
    /// When unread data came, if the program wants to know.
    pub(crate) arrivals: Arrivals,
    /// The last urgent byte that came.
    pub(crate) urgent_byte: u8,
    /// The program has closed the connection.
    pub(crate) orphan: Option<Orphan>,
}

/// Fills in the writes of a chain as the link takes them; returns those that it has.
fn fill_in<'a>(
    places: &'a mut [RdmaWrite; cdc::MAX_WRITES],
    route: &Route,
    transmit: &Transmit,
) -> &'a [RdmaWrite] {
    let mut count = 0usize;
    // A part that is lent is read from its start to its end.
    let mut skip = transmit.source.map(|source| source.skip);
    for (write, segment) in places.iter_mut().zip(transmit.writes()) {
        let offset = skip.unwrap_or(segment.src_off);
        skip = skip.map(|skip| skip.saturating_add(segment.len));
        *write = RdmaWrite {
            offset,
            len: segment.len,
            rkey: route.rkey,
            raddr: route.base.wrapping_add(u64::from(segment.dst_off)),
        };
        count += 1;
    }
    places.get(..count).unwrap_or_default()
}

impl Data {
    /// Posts the chains that are due. In its `turn` among connections that wait for send slots, the
    /// connection posts one chain, and waits again if another is due. Called with the lock held,
    /// after every input.
    ///
    /// Returns whether a chain was due and there was no slot for the first.
    pub(crate) fn post_due<O: ChainOwner + 'static>(
        &mut self,
        owner: &Arc<O>,
        now: Instant,
        turn: bool,
    ) -> bool {
        let (mut posted, mut denied) = (false, false);
        loop {
            let Some(binding) = self.binding.as_ref() else {
                return false;
            };
            let (route, token) = (&binding.route, self.token);
            let wait = || self.group.tokens.lock().wait_for_slot(token, route.slot());
            let next = self.core.poll_transmit_into(now, || {
                if turn && posted {
                    // The turn scheduler calls again.
                    wait();
                    return None;
                }
                let slot = route.channel.try_reserve(LLC_SLOTS.into()).or_else(|| {
                    wait();
                    // A slot freed before the mark was set woke no waiter: retry.
                    route.channel.try_reserve(LLC_SLOTS.into())
                });
                denied = slot.is_none() && !posted;
                slot
            });
            let Some((slot, transmit)) = next else {
                return denied;
            };
            posted = true;
            if self.post(owner, slot, &transmit).is_err() {
                return false;
            }
        }
    }

    /// Posts a chain. If the link refuses it, the connection pauses and the group learns of it.
    ///
    /// # Errors
    ///
    /// Those of the link, which is broken.
    fn post<O: ChainOwner + 'static>(
        &mut self,
        owner: &Arc<O>,
        slot: ReservedSlot<LinkHandler>,
        transmit: &Transmit,
    ) -> Result {
        let route = &self.binding.as_ref().ok_or(ENOTCONN)?.route;
        let mut places = [NO_WRITE; cdc::MAX_WRITES];
        let writes = fill_in(&mut places, route, transmit);
        let tag = Tag::Cdc(owner.clone(), transmit.token);
        let source = match transmit.source {
            _ if writes.is_empty() => None,
            None => Some(WriteSource::Buffer(route.source.clone())),
            Some(source) => self
                .lent_pages
                .get(source.place)
                .cloned()
                .map(WriteSource::Lent),
        };
        let result = slot.post(tag, source, writes, &transmit.cdc, transmit.signal);
        if let Err((error, _)) = result {
            // The group moves the connection to another link, or ends it.
            self.core.handle_post_failed(transmit.token);
            route.handler().broke();
            return Err(error);
        }
        let bytes = transmit.writes().iter().map(|write| u64::from(write.len));
        let bytes = bytes.fold(0, u64::wrapping_add);
        let counters = &mut self.counters;
        if transmit.source.is_some() {
            counters.tx_zerocopy = counters.tx_zerocopy.wrapping_add(bytes);
        }
        counters.tx_messages = counters.tx_messages.wrapping_add(1);
        counters.tx_bytes = counters.tx_bytes.wrapping_add(bytes);
        let writes = u64::try_from(transmit.writes().len()).unwrap_or(0);
        counters.tx_writes = counters.tx_writes.wrapping_add(writes);
        Ok(())
    }

    /// Copies an urgent byte that just came, before the peer may write there again.
    pub(crate) fn keep_urgent(&mut self) {
        let Some(offset) = self.core.urgent_offset() else {
            return;
        };
        let Ok(offset) = usize::try_from(offset) else {
            return;
        };
        let mut byte = [0];
        // The offset lies in the element, or nothing is read.
        if self.memory.read(self.element, offset, &mut byte).is_ok() {
            [self.urgent_byte] = byte;
        }
    }

    /// Whether the eye catcher is still what it was, if there is one, when a CDC message has come by
    /// a link (`SMCR-RMB-13`).
    pub(crate) fn is_intact(&self, link: LinkSlot) -> bool {
        if !self.eye_catcher {
            return true;
        }
        let mut octets = [0; EYE_CATCHER.len()];
        if let Some(binding) = self.binding.as_ref() {
            binding.rmbe.sync_for_cpu(link, 0, octets.len());
        }
        self.memory.read(self.element, 0, &mut octets).is_ok() && octets == EYE_CATCHER
    }

    /// Lets the CPU see the data that a CDC message has announced, from position `before` on. The
    /// peer wrote them by the link by which the message came.
    pub(crate) fn let_see(&self, link: LinkSlot, before: u64) {
        let Some(binding) = self.binding.as_ref() else {
            return;
        };
        let (read, end) = self.core.recv_positions();
        let length = |from: u64, to: u64| u32::try_from(to.saturating_sub(from));
        let (Ok(skip), Ok(new)) = (length(read, before), length(before, end)) else {
            return;
        };
        for segment in self.core.recv_segments(skip, new) {
            if let (Ok(offset), Ok(len)) =
                (usize::try_from(segment.off), usize::try_from(segment.len))
            {
                binding.rmbe.sync_for_cpu(link, offset, len);
            }
        }
    }

    /// Whether the connection must move, and nothing of it is in flight.
    pub(crate) fn may_move(&self) -> bool {
        !self.core.is_in_flight()
            && self
                .binding
                .as_ref()
                .is_some_and(|binding| binding.next.is_some())
    }
}
