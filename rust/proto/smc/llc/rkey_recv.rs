// SPDX-License-Identifier: GPL-2.0

//! What the peer announces and withdraws: CONFIRM RKEY with its continuations, and DELETE RKEY, RFC
//! 7609, section 3.5.5.2. What is known of its buffers stands in [`rtoken`](super::rtoken).

use core::ops::DerefMut;

use super::{
    action::{
        Cause,
        LlcKind, //
    },
    confirm_rkey::{
        ConfirmRkey,
        Other, //
    },
    confirm_rkey_cont::ConfirmRkeyCont,
    delete_rkey::DeleteRkey,
    flow::{
        FlowVerdict,
        LlcRequest, //
    },
    group::Group,
    link::{
        LinkRecord,
        LinkSlot, //
    },
    msg::LlcBody,
    rtoken::{
        Entry,
        PeerRmbId,
        TableFull, //
    },
};
use crate::proto::{
    base::time::Instant,
    smc::wire::RToken, //
};

/// An announcement of the peer that awaits its continuation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Continued {
    /// The buffer.
    id: PeerRmbId,
    /// The link that carries the exchange.
    slot: LinkSlot,
    /// The buffer on it.
    token: RToken,
    /// How many links have yet to be told (LLC-805).
    left: u8,
}

impl<S: DerefMut<Target = [Entry]>> Group<S> {
    /// CONFIRM RKEY arrived.
    pub(super) fn on_confirm_rkey(&mut self, now: Instant, slot: LinkSlot, message: &ConfirmRkey) {
        if message.reply {
            return self.on_confirm_rkey_reply(now, slot, message);
        }
        self.continued = None;
        let mut reply = ConfirmRkey {
            reply: true,
            negative: false,
            retry: false,
            ..*message
        };
        if self.admit(LlcRequest::Rkey) == FlowVerdict::Process {
            // LLF-65, AMB-34: no room is not a matter of time.
            reply.negative = self.learn(slot, message).is_err();
        } else {
            // COL-14, COL-24.
            reply.negative = true;
            reply.retry = true;
        }
        self.send(slot, &LlcBody::ConfirmRkey(reply), LlcKind::Reply);
        if !reply.negative && self.continued.is_none() {
            self.check_keys(now, slot, message.token);
        }
    }

    /// Enters a buffer of the peer.
    fn learn(&mut self, slot: LinkSlot, message: &ConfirmRkey) -> Result<(), TableFull> {
        let id = self.rtokens.insert(slot, message.token)?;
        let here = usize::from(message.count).min(message.others.len());
        self.learn_others(id, message.others.get(..here).unwrap_or_default());
        let left = usize::from(message.count).saturating_sub(here);
        // A peer that has counted its own link as well will send no more (AMB-12).
        let links = self.slots().filter(|(_, link)| !link.is_leaving()).count();
        let all_counted = links == 3 && message.count == 3;
        if left > 0 && !all_counted {
            self.continued = Some(Continued {
                id,
                slot,
                token: message.token,
                left: u8::try_from(left).unwrap_or(u8::MAX),
            });
        }
        Ok(())
    }

    /// Enters where a buffer of the peer lies on further links.
    fn learn_others(&mut self, id: PeerRmbId, others: &[Other]) {
        for other in others {
            // A link that is not known is ending, or not yet in.
            if let Some(slot) = self.slot_of(other.number) {
                self.rtokens.set(id, slot, other.token);
            }
        }
    }

    /// A link for which the peer has not told the key of its new buffer is of no use (ERR-37),
    /// unless it is so new that the announcement may be older: the peer will come back to it.
    fn check_keys(&mut self, now: Instant, slot: LinkSlot, token: RToken) {
        let Some(id) = self.rtokens.find(slot, token.rkey) else {
            return;
        };
        loop {
            let missing = self.slots().find(|(slot, link)| {
                let settled = link.since.saturating_add(self.timers.reply) <= now;
                LinkRecord::is_active(link) && settled && self.rtokens.get(id, *slot).is_none()
            });
            match missing {
                Some((slot, _)) => self.fail(now, slot, Cause::KeyMissing),
                None => return,
            }
            if self.is_over() {
                return;
            }
        }
    }

    /// CONFIRM RKEY CONTINUATION arrived.
    pub(super) fn on_confirm_rkey_cont(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        message: &ConfirmRkeyCont,
    ) {
        if message.reply {
            return self.on_confirm_rkey_cont_reply(now, slot, message);
        }
        let process = self.admit(LlcRequest::Rkey) == FlowVerdict::Process;
        let continued = self
            .continued
            .take()
            .filter(|continued| process && continued.slot == slot);
        let fits = continued.filter(|continued| continued.left == message.left);
        let mut rest = None;
        if let Some(continued) = fits {
            let here = usize::from(message.left).min(message.others.len());
            self.learn_others(continued.id, message.others.get(..here).unwrap_or_default());
            let left = usize::from(message.left).saturating_sub(here);
            rest = Some(left);
            if left > 0 {
                self.continued = Some(Continued {
                    left: u8::try_from(left).unwrap_or(u8::MAX),
                    ..continued
                });
            }
        }
        let reply = ConfirmRkeyCont {
            reply: true,
            negative: rest.is_none(),
            ..*message
        };
        self.send(slot, &LlcBody::ConfirmRkeyCont(reply), LlcKind::Reply);
        if let (Some(0), Some(continued)) = (rest, fits) {
            self.check_keys(now, slot, continued.token);
        }
    }

    /// DELETE RKEY arrived. In SMC-Rv2 it goes on in `octets`.
    pub(super) fn on_delete_rkey(
        &mut self,
        now: Instant,
        slot: LinkSlot,
        message: &DeleteRkey,
        octets: &[u8],
    ) {
        if message.reply {
            return self.on_delete_rkey_reply(now, slot, message);
        }
        let process = self.admit(LlcRequest::Rkey) == FlowVerdict::Process;
        // LLF-69, ERR-38; all of them during another exchange (AMB-16).
        let reply = if self.layout.is_v2() {
            let unknown = message
                .keys()
                .map(|(key, _)| key)
                .chain(DeleteRkey::further_keys(octets))
                .take(usize::from(message.count()))
                .filter(|key| !process || !self.rtokens.remove(slot, *key))
                .fold(0_u8, |count, _| count.saturating_add(1));
            message.reply_v2(unknown)
        } else {
            let error_mask = message
                .keys()
                .filter(|(key, _)| !process || !self.rtokens.remove(slot, *key))
                .fold(0, |mask, (_, bit)| mask | bit);
            message.reply(error_mask)
        };
        self.send(slot, &LlcBody::DeleteRkey(reply), LlcKind::Reply);
    }
}
