// SPDX-License-Identifier: GPL-2.0

//! Telling the keys of all buffers on a new link: ADD LINK CONTINUATION, RFC 7609, sections
//! 3.5.1.6.3, 3.5.5.2.3 and A.3.3.
//!
//! The server sends requests of two keys each, the client answers each with two of its own. It
//! goes on until both have announced all of theirs, with empty messages of the side that is done
//! first.

use core::ops::DerefMut;

use super::{
    action::{
        Cause,
        LlcKind,
        Role, //
    },
    add::{
        AddStage,
        Adding, //
    },
    add_link_cont::{
        AddLinkCont,
        RTokenPair, //
    },
    group::Group,
    link::LinkSlot,
    msg::LlcBody,
    rtoken::Entry, //
};
use crate::proto::{
    base::{
        time::Instant,
        verbs::RKey, //
    },
    smc::wire::RToken, //
};

/// Keys in one message (LLC-306).
const PAIRS: u8 = 2;

/// Fills a place that is not used.
const NONE: RTokenPair = RTokenPair {
    reference: RKey::new(0),
    token: RToken {
        rkey: RKey::new(0),
        vaddr: 0,
    },
};

impl<S: DerefMut<Target = [Entry]>> Group<S> {
    /// Where the chosen buffers lie on the new link, each by its key on the old one (LLF-31).
    pub(super) fn own_pairs(&self) -> impl Iterator<Item = RTokenPair> + '_ {
        let links = self
            .attempts
            .adding
            .map(|adding| (adding.carrier, adding.slot));
        self.own.listed().filter_map(move |entry| {
            let (carrier, slot) = links?;
            Some(RTokenPair {
                reference: entry.token(carrier)?.rkey,
                token: entry.token(slot)?,
            })
        })
    }

    /// Enters where a buffer of the peer lies on a new link. A buffer that is not known has no use.
    pub(super) fn learn_pair(&mut self, carrier: LinkSlot, slot: LinkSlot, pair: &RTokenPair) {
        if let Some(id) = self.rtokens.find(carrier, pair.reference) {
            self.rtokens.set(id, slot, pair.token);
        }
    }

    /// Sends the next two keys, if there are any (LLF-30 to LLF-34).
    pub(super) fn send_keys(&mut self, now: Instant) {
        let Some(Adding {
            carrier,
            number,
            told,
            left,
            ..
        }) = self.attempts.adding
        else {
            return;
        };
        let mut message = AddLinkCont {
            reply: self.role == Role::Client,
            number,
            left,
            pairs: [NONE; 2],
        };
        let pairs = self.own_pairs().skip(usize::from(told));
        for (place, pair) in message.pairs.iter_mut().zip(pairs) {
            *place = pair;
        }
        if let Some(adding) = &mut self.attempts.adding {
            adding.told = told.saturating_add(PAIRS);
            adding.left = left.saturating_sub(PAIRS);
        }
        let kind = match self.role {
            Role::Server => LlcKind::AddLinkCont,
            Role::Client => LlcKind::Reply,
        };
        self.set_stage(now, AddStage::Keys);
        self.send(carrier, &LlcBody::AddLinkCont(message), kind);
    }

    /// ADD LINK CONTINUATION arrived.
    pub(super) fn on_add_link_cont(&mut self, now: Instant, slot: LinkSlot, message: &AddLinkCont) {
        let unexpected = Cause::Unexpected("ADD LINK CONTINUATION");
        if message.reply != (self.role == Role::Server) {
            return self.fail(now, slot, unexpected);
        }
        let running = self
            .attempts
            .adding
            .filter(|adding| adding.number == message.number && adding.carrier == slot);
        let Some(adding) = running else {
            // It may have crossed the end of the attempt.
            if !self.attempts.failed_with(message.number) {
                self.fail(now, slot, unexpected);
            }
            return;
        };
        match adding.stage {
            AddStage::Keys => {}
            AddStage::Dropping => return,
            _ => return self.fail(now, slot, unexpected),
        }
        // ERR-34. Linux drops buffers that are not in use from its count (DEP-8).
        if adding.peer_left.is_some_and(|left| message.left > left) {
            return self.fail(now, slot, Cause::Mismatch("ADD LINK CONTINUATION"));
        }
        let here = usize::from(message.left.min(PAIRS));
        for pair in message.pairs.iter().take(here) {
            self.learn_pair(slot, adding.slot, pair);
        }
        let peer_left = message.left.saturating_sub(PAIRS);
        if let Some(adding) = &mut self.attempts.adding {
            adding.peer_left = Some(peer_left);
        }
        if self.role == Role::Client {
            self.send_keys(now);
        }
        let left = self.attempts.adding.map_or(0, |adding| adding.left);
        match (self.role, left == 0 && peer_left == 0) {
            (_, true) => self.confirm_added(now),
            (Role::Server, false) => self.send_keys(now),
            (Role::Client, false) => {}
        }
    }
}
