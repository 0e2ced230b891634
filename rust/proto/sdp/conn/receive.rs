// SPDX-License-Identifier: GPL-2.0

//! What the peer sends.

use super::SdpConn;
use crate::proto::{
    base::time::Instant,
    sdp::{
        msg::{
            Body,
            HalfMode,
            SdpMessage, //
        },
        resize::CrossedRequest,
        sink::{
            CancelEffect,
            Payload,
            RxPlan, //
        },
        teardown::EndError,
        violation::SdpViolation,
    },
};

/// A receive buffer with a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RxBuffer<'a> {
    /// The engine's number of the buffer.
    pub(crate) slot: u16,
    /// Octets that the buffer holds.
    pub(crate) size: u32,
    /// The message.
    pub(crate) octets: &'a [u8],
    /// The STag that the message has invalidated.
    pub(crate) invalidated: Option<u32>,
}

/// The payload of a message in a receive buffer.
fn payload(message: &SdpMessage, buffer: &RxBuffer<'_>) -> Payload {
    Payload {
        slot: buffer.slot,
        size: buffer.size,
        // Exact: a header has at most 36 octets.
        off: u32::try_from(message.header_len()).unwrap_or(0),
        len: message.payload,
        is_marked: message.flags.urgent_present,
    }
}

impl SdpConn {
    /// A message has come whole, as [`Self::handle_head`].
    pub(crate) fn handle_message(
        &mut self,
        now: Instant,
        buffer: RxBuffer<'_>,
    ) -> Result<RxPlan, SdpViolation> {
        self.handle_head(now, buffer, buffer.octets.len())
    }

    /// A message of `total` octets has come. Says what becomes of its buffer. A violation has ended
    /// the connection already, and the buffer is free (SDP-ABT-06, SDP-ORD-02).
    ///
    /// The octets of `buffer` are all of the message, or at least those of the longest header.
    pub(crate) fn handle_head(
        &mut self,
        now: Instant,
        buffer: RxBuffer<'_>,
        total: usize,
    ) -> Result<RxPlan, SdpViolation> {
        if !self.end.is_live() {
            return self.handle_late_message(buffer, total);
        }
        let result = self.take_message(now, buffer, total);
        if result.is_err() {
            self.break_off(now, EndError::Protocol);
        }
        if self.is_read_blocked && self.tx.available() >= 2 {
            self.is_read_blocked = false;
            self.events.readable = true;
        }
        self.note_end();
        self.rearm(now);
        result
    }

    /// While AbortConn waits for credits, those of the peer's messages count (AMB-37).
    fn handle_late_message(
        &mut self,
        buffer: RxBuffer<'_>,
        total: usize,
    ) -> Result<RxPlan, SdpViolation> {
        if self.end.is_abort_due() {
            let message = SdpMessage::parse_head(buffer.octets, total, self.profile.layout)?;
            self.tx.handle_header(message.bufs, message.mseq_ack)?;
        }
        Ok(RxPlan::Free)
    }

    fn take_message(
        &mut self,
        now: Instant,
        buffer: RxBuffer<'_>,
        total: usize,
    ) -> Result<RxPlan, SdpViolation> {
        let message = SdpMessage::parse_head(buffer.octets, total, self.profile.layout)?;
        if self.suspend.is_active() {
            // The peer has said that it sends nothing (SDP-DUP-14, SDP-ERR-19).
            return Err(SdpViolation::Suspend);
        }
        self.tx.handle_header(message.bufs, message.mseq_ack)?;
        self.rx.on_receive(message.mseq, message.payload > 0)?;
        self.resize.on_receive(1);
        self.source.on_acked(self.tx.acked());
        let is_report = matches!(message.body, Body::RdmaRdCompl(_));
        if buffer.invalidated.is_some() && !is_report {
            return Err(SdpViolation::Invalidated);
        }
        self.keepalive.touch(now);
        let flags = message.flags;
        if self
            .announced
            .handle_flags(flags.urgent_pending, flags.urgent_present)
        {
            self.events.urgent = true;
        }
        if flags.urgent_pending {
            let _ = self.urgent.announce();
        }
        if message.payload > 0 && self.end.is_released() {
            // As TCP resets: no program will ever read it.
            self.break_off(now, EndError::Aborted);
            return Ok(RxPlan::Free);
        }
        let plan = self.take_body(now, &message, buffer)?;
        if plan != RxPlan::Free {
            self.meter.on_received(now, message.payload);
            self.note_mark(flags.urgent_present);
        }
        Ok(plan)
    }

    /// The last octet of the queue is urgent, if it `is_marked` (SDP-OOB-08).
    fn note_mark(&mut self, is_marked: bool) {
        if !is_marked || self.announced.is_open() {
            return;
        }
        let end = self.read.saturating_add(self.sink.octets());
        if let Some(at) = end.checked_sub(1) {
            self.is_urgent_new = self.urgent.present(at, self.read).is_some();
        }
    }

    fn take_disconn(&mut self, now: Instant) -> Result<(), SdpViolation> {
        let is_first = !self.end.is_peer_done();
        self.end.handle_disconn(now)?;
        if is_first {
            self.sink.handle_end()?;
            self.events.readable = true;
        }
        Ok(())
    }

    fn take_body(
        &mut self,
        now: Instant,
        message: &SdpMessage,
        buffer: RxBuffer<'_>,
    ) -> Result<RxPlan, SdpViolation> {
        let payload = payload(message, &buffer);
        match message.body {
            Body::Data => return self.take_data(payload),
            Body::SrcAvail(advert) => {
                let plan = self.sink.handle_src_avail(advert, payload)?;
                self.events.readable = true;
                return Ok(plan);
            }
            Body::SinkAvail { non_discards, .. } => {
                self.source.handle_sink_avail(non_discards)?;
                return self.take_data(payload);
            }
            Body::RdmaRdCompl(count) => {
                self.source.handle_report(count, buffer.invalidated)?;
                // An answer: the next one has its own time.
                self.advert_at = None;
                self.events.writable = true;
            }
            Body::SendSm => {
                self.source.handle_refusal(self.tx.acked())?;
                self.advert_at = None;
            }
            Body::SrcAvailCancel => {
                if self.sink.handle_src_cancel() == CancelEffect::Hold {
                    self.rx.hold_before(self.rx.received());
                }
            }
            Body::SinkAvailCancel => self.source.handle_sink_cancel(),
            // We send no SinkAvail.
            Body::RdmaWrCompl(_) | Body::SinkCancelAck => return Err(SdpViolation::NoSinkAvail),
            Body::ModeChange {
                receiver_sends,
                mode,
            } => self.take_mode_change(receiver_sends, mode)?,
            Body::ChRcvBuf(wanted) => {
                let crossed = self.request.handle_request(self.role, self.tx.acked());
                if crossed == CrossedRequest::Answer {
                    self.resize.handle_request(wanted)?;
                }
            }
            Body::ChRcvBufAck(told) => {
                let size = self.request.handle_answer(told, self.source.peer_size())?;
                self.source.set_peer_size(size);
                self.events.writable = true;
            }
            Body::SuspComm(port) => self.suspend.handle_request(now, port)?,
            // We send no SuspComm.
            Body::SuspCommAck => return Err(SdpViolation::Suspend),
            Body::DisConn => self.take_disconn(now)?,
            Body::AbortConn => self.end.handle_abort(),
        }
        Ok(RxPlan::Free)
    }

    fn take_data(&mut self, payload: Payload) -> Result<RxPlan, SdpViolation> {
        if payload.len == 0 {
            return Ok(RxPlan::Free);
        }
        let plan = self.sink.handle_data(payload)?;
        self.events.readable = true;
        if !self.source.has_unsent() && !self.source.is_in_flight() {
            self.coalescer.note_answer();
        }
        Ok(plan)
    }

    /// S says whose half it is (SDP-MCH-03, SDP-MT-02).
    fn take_mode_change(
        &mut self,
        receiver_sends: bool,
        mode: HalfMode,
    ) -> Result<(), SdpViolation> {
        if receiver_sends {
            self.source.handle_mode_change(mode)
        } else {
            self.sink.handle_mode_change(mode)
        }
    }
}
