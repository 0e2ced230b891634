// SPDX-License-Identifier: GPL-2.0

//! What we send: one message with each call, chosen and formatted at that moment.

use super::SdpConn;
use crate::proto::{
    base::time::Instant,
    sdp::{
        gate::{
            self,
            GateKind,
            GateView, //
        },
        msg::{
            Body,
            HeaderOctets,
            SdpMessage, //
        },
        profile::SdpTransport,
        setup::SetupRole,
        source::{
            AdvertPlan,
            DataPlan,
            PayloadFrom, //
        },
        teardown::EndState,
        wire::{
            BsdhFlags,
            Mid, //
        },
    },
};

/// What a completed message means besides its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Nothing,
    DisConn,
    AbortConn,
    SuspCommAck,
    /// The test of a link, which is no message.
    Test,
}

/// Identifies a message at its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SdpToken {
    /// Count of the message.
    count: u64,
    /// Stream position when it was posted.
    position: u64,
    meaning: Meaning,
}

/// A message to post.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outbound {
    /// The headers.
    pub(crate) header: HeaderOctets,
    /// The payload behind them.
    pub(crate) payload: PayloadFrom,
    /// The message has the solicited event (SDP-SE-01, SDP-SE-02).
    pub(crate) solicited: bool,
    /// The STag that it invalidates at the peer (SDP-RZK-17).
    pub(crate) invalidate: Option<u32>,
    /// Lent memory whose key has to be registered in front of it.
    pub(crate) register: Option<usize>,
    /// Whether it asks for a completion. That of a later message stands for it otherwise.
    pub(crate) signal: bool,
    /// Identifies it in [`SdpConn::handle_sent`].
    pub(crate) token: SdpToken,
}

/// A message that may be sent now.
enum MessageChoice {
    /// One without payload.
    Bare(Body),
    /// RdmaRdCompl with the STag that it invalidates.
    Report(u32, Option<u32>),
    /// SrcAvail.
    Advert(AdvertPlan),
    /// Data with payload.
    Data(DataPlan),
    /// ModeChange for the half where the peer sends.
    SinkMode(Body),
}

impl MessageChoice {
    /// The body, and where the payload is and how long.
    fn content(&self) -> (Body, PayloadFrom, u32) {
        match self {
            Self::Bare(body) | Self::SinkMode(body) => (*body, PayloadFrom::Nothing, 0),
            Self::Report(count, _) => (Body::RdmaRdCompl(*count), PayloadFrom::Nothing, 0),
            Self::Advert(plan) => (Body::SrcAvail(plan.advert), plan.from, plan.payload),
            Self::Data(plan) => (Body::Data, plan.from, plan.len),
        }
    }
}

/// The kinds of messages that are due, as far as the gate was asked.
enum Due {
    /// This one, and it may go.
    Go(MessageChoice),
    /// One is due that may not go, so that none behind it may.
    Blocked,
    /// None.
    Idle,
}

impl SdpConn {
    fn may(&self, kind: GateKind) -> bool {
        let view = GateView {
            credit: &self.tx,
            gives: self.rx.gives(),
            is_reserved: self.keeps_reserve && self.sink.is_reserved(),
            is_ended: matches!(
                self.end.state(),
                EndState::FinSent | EndState::LastSent | EndState::Ending
            ),
            is_silent: self.suspend.is_silent(),
        };
        gate::permits(kind, view).is_ok()
    }

    fn due(&self, choice: MessageChoice) -> Due {
        let kind = match &choice {
            MessageChoice::Bare(body) | MessageChoice::SinkMode(body) => GateKind::Bare(body.mid()),
            MessageChoice::Report(..) => GateKind::Bare(Mid::RdmaRdCompl),
            MessageChoice::Advert(plan) if plan.payload == 0 => GateKind::Bare(Mid::SrcAvail),
            MessageChoice::Advert(_) | MessageChoice::Data(_) => GateKind::Payload,
        };
        if self.may(kind) {
            Due::Go(choice)
        } else {
            Due::Blocked
        }
    }

    /// The first message that is due.
    fn first_due(&self) -> Due {
        if self.end.is_abort_due() {
            return self.due(MessageChoice::Bare(Body::AbortConn));
        }
        if let Some((count, stag)) = self.sink.report() {
            let stag = stag.filter(|_| self.invalidates);
            return self.due(MessageChoice::Report(count, stag));
        }
        if self.sink.is_refusal_due() {
            return self.due(MessageChoice::Bare(Body::SendSm));
        }
        if self.source.owes_cancel_ack() {
            return self.due(MessageChoice::Bare(Body::SinkCancelAck));
        }
        if self.suspend.is_active() {
            let is_due = self.suspend.is_answer_due() && !self.sink.is_in_process();
            return if is_due {
                self.due(MessageChoice::Bare(Body::SuspCommAck))
            } else {
                Due::Idle
            };
        }
        if self.source.is_cancel_due() {
            return self.due(MessageChoice::Bare(Body::SrcAvailCancel));
        }
        if let Some(size) = self.resize.answer() {
            return self.due(MessageChoice::Bare(Body::ChRcvBufAck(size)));
        }
        if let Some(size) = self.request_due() {
            return self.due(MessageChoice::Bare(Body::ChRcvBuf(size)));
        }
        if let Some(mode) = self.source.mode_change() {
            return self.due(MessageChoice::Bare(Body::ModeChange {
                receiver_sends: false,
                mode,
            }));
        }
        if let Some(mode) = self.sink.mode_change() {
            return self.due(MessageChoice::SinkMode(Body::ModeChange {
                receiver_sends: true,
                mode,
            }));
        }
        if let Some(plan) = self.source.next_advert() {
            return self.due(MessageChoice::Advert(plan));
        }
        if let Some(plan) = self.source.next_data() {
            return self.due(MessageChoice::Data(plan));
        }
        if self.end.is_disconn_due() && self.source.is_drained() {
            return self.due(MessageChoice::Bare(Body::DisConn));
        }
        Due::Idle
    }

    /// The size of receive buffers that the peer has to be asked for. One request at a time is out, of
    /// either end, unless they cross.
    fn request_due(&self) -> Option<u32> {
        let may = self.end.is_open_for_sending() && self.resize.is_idle();
        self.request.due().filter(|_| may)
    }

    fn choose(&self) -> Option<MessageChoice> {
        let is_over = !self.end.is_live() && !self.end.is_abort_due();
        // Over MPA the accepting end is silent until the first message.
        if is_over || self.suspend.is_silent() || self.is_mute() {
            return None;
        }
        let is_blocked = match self.first_due() {
            Due::Go(choice) => return Some(choice),
            Due::Blocked => true,
            Due::Idle => false,
        };
        if !self.end.is_live() {
            return None;
        }
        let announces = self.source.is_urgent_due() && self.may(GateKind::Announcement);
        let opens = self.is_opening && self.may(GateKind::Announcement);
        let updates = self.rx.wants_update() && self.may(GateKind::Update);
        let may_ask = self.role == SetupRole::Connecting || self.is_asking;
        let asks = is_blocked && may_ask && self.tx.lacks_ack();
        (announces || opens || updates || asks && self.may(GateKind::Announcement))
            .then_some(MessageChoice::Bare(Body::Data))
    }

    /// Whether this end may not send before the peer has.
    fn is_mute(&self) -> bool {
        self.profile.transport == SdpTransport::Iwcm
            && self.role == SetupRole::Accepting
            && self.rx.received() == 0
    }

    /// Whether [`Self::poll_test`] has a test.
    pub(crate) fn has_test(&self) -> bool {
        let may = self.end.is_live() && !self.suspend.is_silent() && !self.is_mute();
        self.is_probing && !self.is_probe_out && may && !self.has_due()
    }

    /// A test of the link, to be posted as an RDMA Write without octets (SDP-KA-03). It takes no credit,
    /// as the peer may have none to give. It asks for a completion, which has the token.
    #[must_use]
    pub(crate) fn poll_test(&mut self, now: Instant) -> Option<SdpToken> {
        if !self.has_test() {
            return None;
        }
        self.is_probing = false;
        self.is_probe_out = true;
        self.rearm(now);
        Some(SdpToken {
            count: self.tx.sent(),
            position: self.source.position(),
            meaning: Meaning::Test,
        })
    }

    /// Whether [`Self::poll_transmit`] has a message.
    pub(crate) fn has_due(&self) -> bool {
        self.choose().is_some()
    }

    /// The next message to post.
    #[must_use]
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Outbound> {
        let Some(choice) = self.choose() else {
            // Data that is held no longer may wait for an acknowledgement now.
            self.rearm(now);
            return None;
        };
        let (body, from, payload) = choice.content();
        let mut flags = BsdhFlags {
            urgent_pending: self.source.is_urgent_due(),
            ..BsdhFlags::default()
        };
        // Numbers, buffers and the effects of sending belong to this moment.
        let mseq = self.tx.on_send(payload > 0);
        let count = self.tx.sent();
        let (bufs, mseq_ack) = self.rx.on_header();
        if flags.urgent_pending {
            self.source.on_urgent_sent();
        }
        let (meaning, marked) = self.sent(now, &choice, count);
        flags.urgent_present = marked;
        self.is_opening = false;
        self.is_asking = false;
        // Any message tests the peer, if its completion is awaited.
        let probes = core::mem::take(&mut self.is_probing);
        let message = SdpMessage {
            flags,
            bufs,
            mseq,
            mseq_ack,
            body,
            payload,
        };
        let is_urgent = flags.urgent_pending || flags.urgent_present;
        let mid = body.mid();
        let signal = payload > 0 && self.source.take_signal(&from);
        let signal = signal || meaning != Meaning::Nothing || probes;
        self.meter.on_sent(now, count, payload, signal);
        if payload > 0 {
            self.coalescer.note_chain();
            self.hold();
            if signal {
                self.coalescer.note_posted(now, count);
            }
        }
        self.rearm(now);
        Some(Outbound {
            header: message.emit(self.profile.layout),
            payload: from,
            solicited: mid.is_solicited() || mid == Mid::Data && is_urgent,
            invalidate: match choice {
                MessageChoice::Report(_, stag) => stag,
                _ => None,
            },
            register: match choice {
                MessageChoice::Advert(plan) => Some(plan.place),
                _ => None,
            },
            signal,
            token: SdpToken {
                count,
                position: self.source.position(),
                meaning,
            },
        })
    }

    /// What sending the message changes. Gives its meaning, and whether it ends with an urgent
    /// octet.
    fn sent(&mut self, now: Instant, choice: &MessageChoice, count: u64) -> (Meaning, bool) {
        match choice {
            MessageChoice::Report(..) => {
                if self.sink.on_report_sent() {
                    self.rx.release();
                }
            }
            MessageChoice::Advert(plan) => self.source.on_advert_sent(plan, count),
            MessageChoice::Data(plan) => {
                let is_full = plan.len == self.source.payload_limit();
                self.request.on_data_sent(is_full);
                return (Meaning::Nothing, self.source.on_data_sent(plan, count));
            }
            MessageChoice::SinkMode(_) => self.sink.on_mode_change_sent(),
            MessageChoice::Bare(body) => return (self.bare_sent(now, body, count), false),
        }
        (Meaning::Nothing, false)
    }

    fn bare_sent(&mut self, now: Instant, body: &Body, count: u64) -> Meaning {
        match body {
            Body::SendSm => self.sink.on_refusal_sent(),
            Body::SinkCancelAck => self.source.on_cancel_ack_sent(),
            Body::SrcAvailCancel => self.source.on_cancel_sent(count),
            Body::ChRcvBuf(_) => self.request.on_sent(count),
            Body::ChRcvBufAck(_) => self.resize.on_answer_sent(),
            Body::ModeChange { mode, .. } => self.source.on_mode_change_sent(*mode, count),
            Body::DisConn => {
                self.end.on_disconn_sent(now);
                return Meaning::DisConn;
            }
            Body::AbortConn => {
                self.end.on_abort_sent();
                return Meaning::AbortConn;
            }
            Body::SuspCommAck => {
                self.suspend.on_answer_sent();
                return Meaning::SuspCommAck;
            }
            _ => {}
        }
        Meaning::Nothing
    }

    /// A message has completed, and all before it.
    pub(crate) fn handle_sent(&mut self, now: Instant, token: SdpToken) {
        let room = self.source.room();
        self.source.on_completed(token.count, token.position);
        self.events.writable |= self.source.room() > room;
        self.meter.on_completed(now, token.count, token.position);
        self.coalescer.note_completed(now, token.count);
        self.keepalive.touch(now);
        match token.meaning {
            Meaning::Nothing => {}
            Meaning::DisConn => self.end.on_disconn_completed(now),
            Meaning::AbortConn => self.end.on_abort_completed(),
            Meaning::SuspCommAck => self.suspend.on_answer_completed(),
            Meaning::Test => self.is_probe_out = false,
        }
        self.note_end();
        self.rearm(now);
    }
}
