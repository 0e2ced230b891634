// SPDX-License-Identifier: GPL-2.0

//! A connection against a peer whose messages the test writes itself.

mod adverts;
mod basics;
mod control;
mod modes;
mod patience;
mod urgent;

use super::{
    receive::RxBuffer,
    *, //
};
use crate::proto::sdp::{
    hello::ReadDepths,
    msg::{
        Advert,
        Body,
        SdpMessage, //
    },
    serial::Serial,
    sink::{
        ReadTo,
        RxPlan,
        SinkItem, //
    },
    source::PayloadFrom,
    teardown::{
        EndError,
        EndState, //
    },
    violation::SdpViolation,
    wire::BsdhFlags,
};

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

pub(super) fn terms(transport: SdpTransport, role: SetupRole) -> SdpTerms {
    SdpTerms {
        profile: Profile::new(transport),
        role,
        peer_bufs: 10,
        peer_size: 1016,
        peer_adverts: 4,
        bufs: 10,
        size: 1016,
        adverts: 4,
        depths: ReadDepths { ird: 4, ord: 4 },
        invalidates: true,
    }
}

pub(super) fn config() -> SdpConfig {
    SdpConfig {
        ring: 65536,
        wraps: true,
        most_buffer: 64 << 10,
        threshold: 2000,
        nudges: 5,
        timers: ConnTimers::DEFAULT,
    }
}

/// A connection, and what its peer has seen and sent.
#[derive(Clone)]
pub(super) struct Script {
    pub(super) conn: SdpConn,
    now: Instant,
    /// Number of the peer's next message.
    next: u32,
    /// Number of our last message that the peer acknowledges.
    ack: u32,
    /// Receive buffers of the peer.
    bufs: u16,
    /// Posts receive buffers at once.
    posts: bool,
    slot: u16,
}

impl Script {
    pub(super) fn new() -> Self {
        Self::with(&terms(SdpTransport::Annex, SetupRole::Connecting))
    }

    pub(super) fn with(terms: &SdpTerms) -> Self {
        Self {
            conn: SdpConn::new(at(0), config(), terms),
            now: at(0),
            next: terms.profile.first_mseq.get(),
            ack: 0,
            bufs: terms.peer_bufs,
            posts: true,
            slot: 0,
        }
    }

    /// Gives a message of the peer to the connection.
    pub(super) fn tell_all(
        &mut self,
        flags: BsdhFlags,
        body: Body,
        payload: u32,
        invalidated: Option<u32>,
    ) -> Result<RxPlan, SdpViolation> {
        let message = SdpMessage {
            flags,
            bufs: self.bufs,
            mseq: Serial::new(self.next),
            mseq_ack: Serial::new(self.ack),
            body,
            payload,
        };
        self.next = self.next.wrapping_add(1);
        self.slot += 1;
        let layout = self.conn.profile.layout;
        let mut octets = message.emit(layout).as_slice().to_vec();
        octets.resize(octets.len() + payload as usize, 0);
        let plan = self.conn.handle_message(
            self.now,
            RxBuffer {
                slot: self.slot,
                size: 1016,
                octets: &octets,
                invalidated,
            },
        );
        self.conn.check();
        if self.posts {
            self.post();
        }
        plan
    }

    pub(super) fn post(&mut self) -> u16 {
        let wanted = self.conn.wanted_buffers();
        self.conn.handle_posted(wanted);
        wanted
    }

    pub(super) fn tell(&mut self, body: Body) -> Result<RxPlan, SdpViolation> {
        self.tell_all(BsdhFlags::default(), body, 0, None)
    }

    pub(super) fn data(&mut self, len: u32) -> Result<RxPlan, SdpViolation> {
        self.tell_all(BsdhFlags::default(), Body::Data, len, None)
    }

    /// SrcAvail of the peer.
    pub(super) fn src_avail(&mut self, len: u32, payload: u32) -> Result<RxPlan, SdpViolation> {
        let advert = Advert {
            len,
            stag: 0x77,
            va: 0x5000,
        };
        self.tell_all(BsdhFlags::default(), Body::SrcAvail(advert), payload, None)
    }

    /// The next message of the connection; the peer acknowledges it from now on.
    pub(super) fn hear_all(&mut self) -> Option<(SdpMessage, Outbound)> {
        let out = self.conn.poll_transmit(self.now)?;
        self.conn.check();
        let mut octets = out.header.as_slice().to_vec();
        let payload = match out.payload {
            PayloadFrom::Nothing => 0,
            PayloadFrom::Ring([a, b]) => a.len + b.len,
            PayloadFrom::Lent { len, .. } => len,
        };
        octets.resize(octets.len() + payload as usize, 0);
        let message = SdpMessage::parse(&octets, self.conn.profile.layout).unwrap();
        self.ack = message.mseq.get();
        Some((message, out))
    }

    /// The bodies of all messages of the connection that are due, with their payload.
    pub(super) fn hear(&mut self) -> Vec<(Body, u32)> {
        let mut heard = vec![];
        while let Some((message, out)) = self.hear_all() {
            heard.push((message.body, message.payload));
            self.conn.handle_sent(self.now, out.token);
        }
        heard
    }

    /// Time passes.
    pub(super) fn wait(&mut self, millis: u64) {
        self.now = self.now.saturating_add(Duration::from_millis(millis));
        self.conn.handle_timeout(self.now);
    }
}
