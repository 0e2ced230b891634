// SPDX-License-Identifier: GPL-2.0

//! The mode of our sending half: we are its master but in Buffered Mode, draft 12 (SDP-MT-*).

use super::Source;
use crate::proto::sdp::{
    msg::HalfMode,
    violation::SdpViolation, //
};

impl Source {
    /// Our mode.
    pub(in crate::proto::sdp) const fn mode(&self) -> HalfMode {
        self.mode
    }

    /// Changes to a mode as soon as the rules allow it (SDP-MT-11).
    pub(in crate::proto::sdp) fn want_mode(&mut self, mode: HalfMode) {
        if self.limits.can_change_mode {
            self.wanted = Some(mode);
        }
    }

    /// The ModeChange to send now (SDP-MT-01 to SDP-MT-03, SDP-MT-21, SDP-MT-40, SDP-MT-53).
    pub(in crate::proto::sdp) fn mode_change(&self) -> Option<HalfMode> {
        let wanted = self.wanted.filter(|&wanted| wanted != self.mode)?;
        match (self.mode, wanted) {
            // The peer is the master.
            (HalfMode::Buffered, _) => None,
            (HalfMode::Combined, _) if self.discards.is_leaving() => None,
            (HalfMode::Combined, HalfMode::Buffered) if !self.adverts.is_empty() => None,
            (HalfMode::Combined, mode) => Some(mode),
            (HalfMode::Pipelined, _) => Some(HalfMode::Combined),
        }
    }

    /// ModeChange was posted as message `count` (SDP-MT-05, SDP-F28).
    pub(in crate::proto::sdp) fn on_mode_change_sent(&mut self, mode: HalfMode, count: u64) {
        if self.mode == HalfMode::Pipelined && self.discards.leave_pipelined(count) {
            self.void_adverts();
            self.end_cancel_if_idle();
        }
        self.mode = mode;
        self.refusals = 0;
        if self.wanted == Some(mode) {
            self.wanted = None;
        }
    }

    /// ModeChange of the peer for this half: it is the master in Buffered Mode only (SDP-M30-6).
    pub(in crate::proto::sdp) fn handle_mode_change(
        &mut self,
        mode: HalfMode,
    ) -> Result<(), SdpViolation> {
        if (self.mode, mode) != (HalfMode::Buffered, HalfMode::Combined) {
            return Err(SdpViolation::ModeChange);
        }
        self.mode = mode;
        self.refusals = 0;
        Ok(())
    }
}
