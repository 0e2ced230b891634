// SPDX-License-Identifier: GPL-2.0

//! Credits: receive buffers of the peer that our messages may use, and ours that its may use,
//! draft 10 (SDP-BUFP-*, SDP-CRED-*).
//!
//! Inside, messages are counted in 64 bits; on the wire the counts are numbers of 32 bits. The
//! *edge* of a direction is the count up to which its sender may send: messages acknowledged, and
//! the buffers posted beyond them.

use super::serial::Serial;

/// Extra receive buffers, at most, that make up for messages held back.
pub(crate) const MAX_SPARES: u64 = 8;

/// Why the numbers in a header are a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreditFault {
    /// The peer acknowledges what was not sent, or takes an acknowledgement back (SDP-ERR-04).
    Ack,
    /// A message is missing, or came twice (SDP-ERR-03).
    Sequence,
    /// No receive buffer was posted for the message (SDP-ERR-20).
    Overrun,
    /// Payload in one of the last two receive buffers (SDP-CRED-30).
    Reserve,
}

/// What a message needs of the credits (SDP-CRED-33).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CreditNeed {
    /// It has payload.
    Payload,
    /// It has none, but may wait while the last reserve is kept for reports of reads.
    Control,
    /// It has none, and ends a transfer of the peer or updates credits.
    Completion,
}

/// What our messages may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TxCredit {
    /// Number of our first message.
    first: u32,
    /// Messages sent.
    sent: u64,
    /// Messages that the peer has acknowledged.
    acked: u64,
    /// Count up to which we may send.
    edge: u64,
    /// Buffers that the peer had at the start.
    initial: u64,
    /// Buffers that it had when it sent its last message.
    bufs: u64,
    /// Count of our last message with payload.
    last_payload: u64,
    /// The peer has acknowledged something, so that its acknowledgements are not ambiguous.
    is_certain: bool,
}

impl TxCredit {
    /// Starts with the `bufs` of Hello or HelloAck (SDP-CRED-06). `used`: HelloAck has taken one
    /// of them (SDP-CRED-09).
    pub(crate) fn new(first: Serial, bufs: u16, used: bool) -> Self {
        let initial = u64::from(bufs).saturating_sub(u64::from(used));
        Self {
            first: first.get(),
            sent: 0,
            acked: 0,
            edge: initial,
            initial,
            bufs: initial,
            last_payload: 0,
            is_certain: false,
        }
    }

    /// Whether MSeqAck 0 may mean that nothing has arrived, or that message 0 has (AMB-05).
    const fn is_ambiguous(&self, ack: Serial) -> bool {
        self.first == 0 && ack.get() == 0 && !self.is_certain
    }

    /// Takes the credits of a message of the peer (SDP-CRED-01, SDP-CRED-03).
    pub(crate) fn handle_header(&mut self, bufs: u16, ack: Serial) -> Result<(), CreditFault> {
        let first = Serial::new(self.first);
        let acked = if self.is_ambiguous(ack) {
            // The formula of the draft takes message 0 for received, if it was sent.
            core::cmp::min(self.sent, 1)
        } else if self.first == 0 && ack.get() == 0 && self.acked <= 1 {
            1
        } else {
            ack.count(first, self.sent).ok_or(CreditFault::Ack)?
        };
        if acked > self.sent || acked < self.acked {
            return Err(CreditFault::Ack);
        }
        if !self.is_ambiguous(ack) && acked > 0 {
            self.is_certain = true;
        }
        self.acked = acked;
        self.bufs = u64::from(bufs);
        self.edge = acked.saturating_add(u64::from(bufs));
        if self.first == 0 && !self.is_certain {
            // Counted as if nothing had arrived, no more than that are in flight (AMB-05).
            self.edge = core::cmp::min(self.edge, core::cmp::max(u64::from(bufs), self.initial));
        }
        Ok(())
    }

    /// Messages that may be sent (SDP-CRED-05).
    pub(crate) const fn available(&self) -> u64 {
        self.edge.saturating_sub(self.sent)
    }

    /// Whether a message may be sent (SDP-CRED-30 to SDP-CRED-33, SDP-CRED-36). `gives`: it gives
    /// the peer credits that it does not know of. `is_reserved`: a SrcAvail of the peer is in
    /// process here, so that the second credit is kept.
    pub(crate) const fn permits(&self, need: CreditNeed, gives: bool, is_reserved: bool) -> bool {
        match (self.available(), need) {
            (3.., _) => true,
            (2, CreditNeed::Completion) => true,
            (2, CreditNeed::Control) => !is_reserved,
            (1, CreditNeed::Completion) => gives,
            (1, CreditNeed::Control) => gives && !is_reserved,
            _ => false,
        }
    }

    /// Counts a message as sent and gives its number (SDP-CRED-04, SDP-ORD-01).
    pub(crate) fn on_send(&mut self, payload: bool) -> Serial {
        self.sent = self.sent.saturating_add(1);
        if payload {
            self.last_payload = self.sent;
        }
        Serial::of_count(Serial::new(self.first), self.sent)
    }

    /// Whether data waits for nothing but an acknowledgement of messages without payload, as the
    /// peer has buffers for it. No rule makes it acknowledge these while we have two credits, so
    /// that another message has to ask for that.
    pub(crate) const fn lacks_ack(&self) -> bool {
        let is_ambiguous = self.first == 0 && !self.is_certain && self.sent == 1;
        let is_open = self.sent > self.acked && self.last_payload <= self.acked || is_ambiguous;
        self.available() == 2 && self.bufs >= 3 && is_open
    }

    /// Receive buffers of the peer: messages that may be in flight.
    pub(crate) const fn bufs(&self) -> u64 {
        self.bufs
    }

    /// Messages sent.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Messages that the peer has acknowledged.
    pub(crate) const fn acked(&self) -> u64 {
        self.acked
    }
}

/// What the peer's messages may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RxWindow {
    /// Number of the peer's first message; unknown until it is there (AMB-04).
    first: Option<u32>,
    /// Messages received.
    received: u64,
    /// Receive buffers posted and not used.
    posted: u64,
    /// Edge that the peer knows from our last header.
    told: u64,
    /// Highest count that may be acknowledged, if there is one (SDP-SRCX-06).
    hold: Option<u64>,
    /// Buffers that are posted when no data waits.
    target: u64,
    /// How many that may become.
    most: u64,
    /// The peer knows its credits for certain, so that payload in the reserve is a violation.
    is_strict: bool,
    /// Extra buffers that make up for messages held back.
    spares: u64,
    /// A message with payload has come since our last header.
    has_payload: bool,
    /// The buffers in our last header were too few for payload.
    told_few: bool,
}

impl RxWindow {
    /// Starts with `bufs` posted, as Hello or HelloAck said (SDP-CONN-04, SDP-CONN-16). `used`:
    /// HelloAck takes one of them, and none is posted for it (SDP-CRED-09).
    pub(crate) fn new(bufs: u16, used: bool) -> Self {
        let posted = u64::from(bufs).saturating_sub(u64::from(used));
        Self {
            first: None,
            received: 0,
            posted,
            told: posted,
            hold: None,
            target: u64::from(bufs),
            most: u64::from(bufs),
            is_strict: false,
            spares: MAX_SPARES,
            // HelloAck has left the peer with fewer than it was told (AMB-06).
            has_payload: used,
            told_few: false,
        }
    }

    /// Does not make up for messages held back, to show why it must be done.
    #[cfg(test)]
    pub(crate) fn drop_spares(&mut self) {
        self.spares = 0;
    }

    /// Lets the pool grow to `most` buffers. A peer may post more at any time (SDP-BSDH-17), which the
    /// next header says.
    pub(crate) fn let_grow(&mut self, most: u16) {
        self.most = core::cmp::max(self.target, most.into());
    }

    /// How many buffers it may grow to.
    pub(crate) fn most(&self) -> u16 {
        u16::try_from(self.most).unwrap_or(u16::MAX)
    }

    /// There is no memory for more than `bufs` buffers at the moment.
    pub(crate) fn limit(&mut self, bufs: u16) {
        self.target = core::cmp::min(self.target, bufs.into());
    }

    /// Buffers that the pool should have, posted or not.
    pub(crate) fn pool(&self) -> u16 {
        let pool = self.target.saturating_add(self.wanted_spares());
        u16::try_from(pool).unwrap_or(u16::MAX)
    }

    /// Fixes the number of the first message, so that a test can start near the wrap.
    #[cfg(test)]
    pub(crate) fn expect_first(&mut self, first: Serial) {
        self.first = Some(first.get());
    }

    /// Counts a message that has arrived (SDP-BSDH-25, SDP-ORD-02). The first one has number 0 or
    /// 1 (AMB-04).
    pub(crate) fn on_receive(&mut self, mseq: Serial, payload: bool) -> Result<(), CreditFault> {
        let first = match (self.first, mseq.get()) {
            (Some(first), _) => first,
            (None, first @ (0 | 1)) => first,
            (None, _) => return Err(CreditFault::Sequence),
        };
        let count = self.received.saturating_add(1);
        if Serial::of_count(Serial::new(first), count) != mseq {
            return Err(CreditFault::Sequence);
        }
        // While nothing was acknowledged beyond doubt, the formula may give one credit too many.
        self.is_strict |= first != 0;
        let least = if payload && self.is_strict { 3 } else { 1 };
        if self.posted < least {
            return Err(match self.posted {
                0 => CreditFault::Overrun,
                _ => CreditFault::Reserve,
            });
        }
        self.first = Some(first);
        self.received = count;
        self.posted = self.posted.saturating_sub(1);
        self.has_payload |= payload;
        // The peer may send no more data: it sends faster than it hears of free buffers.
        if payload && self.peer_credit() <= 2 {
            self.target = core::cmp::min(self.target.saturating_mul(2), self.most);
        }
        Ok(())
    }

    /// Counts receive buffers that were posted (SDP-BSDH-17).
    pub(crate) fn on_post(&mut self, count: u16) {
        let posted = self.posted.saturating_add(u64::from(count));
        self.posted = core::cmp::min(posted, u64::from(u16::MAX));
    }

    /// Receive buffers to post now, while `queued` others hold data that waits for the reader.
    /// While acknowledgements are held back there are more of them (R-3, AMB-15).
    pub(crate) fn wanted(&self, queued: u64) -> u16 {
        let used = self.posted.saturating_add(queued);
        let wanted = u64::from(self.pool()).saturating_sub(used);
        u16::try_from(wanted).unwrap_or(u16::MAX)
    }

    /// Buffers that make up for messages held back.
    fn wanted_spares(&self) -> u64 {
        let held = self.received.saturating_sub(self.ack());
        core::cmp::min(held, self.spares)
    }

    /// Messages acknowledged by the next header.
    fn ack(&self) -> u64 {
        match self.hold {
            Some(hold) => core::cmp::min(hold, self.received),
            None => self.received,
        }
    }

    /// The edge that a header sent now gives the peer for certain.
    fn edge(&self) -> u64 {
        let ack = self.ack();
        // The peer cannot tell an acknowledgement of message 0 from none (AMB-05).
        let is_ambiguous = self.first == Some(0) && ack <= 1;
        let known = if is_ambiguous { 0 } else { ack };
        known.saturating_add(self.posted)
    }

    /// Messages received.
    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    /// Holds acknowledgements back: nothing from message `count` on is acknowledged.
    pub(crate) fn hold_before(&mut self, count: u64) {
        self.hold = Some(count.saturating_sub(1));
    }

    /// Ends that.
    pub(crate) fn release(&mut self) {
        self.hold = None;
    }

    /// Whether acknowledgements are held back.
    #[cfg(any(test, fuzzing))]
    pub(crate) const fn is_held(&self) -> bool {
        self.hold.is_some()
    }

    /// Bufs and MSeqAck of a header that is sent now, in one snapshot (SDP-BSDH-23).
    pub(crate) fn on_header(&mut self) -> (u16, Serial) {
        let ack = self.ack();
        self.told = self.edge();
        self.has_payload = false;
        self.told_few = self.posted < 3;
        // From here on the peer cannot take message 0 for not received (AMB-05).
        self.is_strict |= ack > 1;
        let bufs = u16::try_from(self.posted).unwrap_or(u16::MAX);
        let serial = match (self.first, ack) {
            // Nothing has arrived (SDP-BSDH-22).
            (None, _) | (_, 0) if self.first.is_none_or(|first| first < 2) => Serial::new(0),
            (first, _) => Serial::of_count(Serial::new(first.unwrap_or(0)), ack),
        };
        (bufs, serial)
    }

    /// Whether a header sent now gives the peer credits that it does not know of (SDP-CRED-38).
    pub(crate) fn gives(&self) -> bool {
        self.edge() > self.told
    }

    /// Receive buffers that are posted and not used.
    pub(crate) const fn posted(&self) -> u64 {
        self.posted
    }

    /// Credits that the peer can have at most.
    pub(crate) const fn peer_credit(&self) -> u64 {
        self.told.saturating_sub(self.received)
    }

    /// Whether a message must be sent for nothing but credits: the peer has at most one
    /// (SDP-CRED-34), half of the buffers are news to it (SDP-CRED-41), or it could
    /// send no more data and can now (SDP-CRED-21). Two idle peers do not answer each other without end
    /// (SDP-CRED-23).
    pub(crate) fn wants_update(&self) -> bool {
        let credit = self.peer_credit();
        let news = self.edge().saturating_sub(self.told);
        // A pool of three would answer each single message.
        let half = core::cmp::max(self.target >> 1, 2);
        // The peer may not count on its second message before we acknowledge it (AMB-05).
        let is_ambiguous = self.first == Some(0) && !self.is_strict && self.ack() > 1;
        let is_open_again = self.told_few && self.posted >= 3;
        let is_short = credit <= 2 && (self.has_payload || is_ambiguous || is_open_again);
        self.gives() && (credit <= 1 || news >= half || is_short)
    }
}

#[cfg(test)]
mod tests;
