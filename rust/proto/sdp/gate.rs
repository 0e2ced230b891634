// SPDX-License-Identifier: GPL-2.0

//! Whether a message may be posted now, by all that is no matter of a half-connection's own
//! state: credits, the end, a suspension (SDP-GATE, R-2).
//!
//! What a half-connection forbids is in [`source`](super::source) and [`sink`](super::sink): they
//! plan no message that their state does not allow.

use super::{
    credit::{
        CreditNeed,
        TxCredit, //
    },
    wire::Mid,
};

/// A message to post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateKind {
    /// One with payload, of whatever type.
    Payload,
    /// One without.
    Bare(Mid),
    /// Empty Data that updates credits.
    Update,
    /// Empty Data with OOB_PEND (SDP-CRED-37).
    Announcement,
}

/// What has to happen first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateWait {
    /// The peer has to give credits.
    Credit,
    /// The connection is suspended (SDP-DUP-16).
    Suspended,
    /// Nothing: data never follows DisConn (SDP-CLS-10).
    Ended,
}

/// What the gate looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct GateView<'a> {
    /// Credits.
    pub(super) credit: &'a TxCredit,
    /// A header sent now gives credits.
    pub(super) gives: bool,
    /// A SrcAvail of the peer is not processed.
    pub(super) is_reserved: bool,
    /// Our DisConn is sent.
    pub(super) is_ended: bool,
    /// Nothing may be sent until there is a new link.
    pub(super) is_silent: bool,
}

/// What a message needs of the credits.
const fn need(kind: GateKind) -> CreditNeed {
    match kind {
        GateKind::Payload => CreditNeed::Payload,
        GateKind::Update | GateKind::Bare(Mid::RdmaRdCompl | Mid::SendSm | Mid::SrcAvailCancel) => {
            CreditNeed::Completion
        }
        GateKind::Announcement | GateKind::Bare(_) => CreditNeed::Control,
    }
}

/// Whether the message may be posted now.
pub(super) fn permits(kind: GateKind, view: GateView<'_>) -> Result<(), GateWait> {
    let carries_on = matches!(
        kind,
        GateKind::Payload | GateKind::Bare(Mid::SrcAvail | Mid::DisConn)
    );
    if view.is_silent {
        return Err(GateWait::Suspended);
    }
    if view.is_ended && carries_on {
        return Err(GateWait::Ended);
    }
    let credit = view.credit;
    if !credit.permits(need(kind), view.gives, view.is_reserved) {
        return Err(GateWait::Credit);
    }
    Ok(())
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_sdp_gate))]
mod tests {
    use super::*;
    use crate::proto::sdp::serial::Serial;

    fn found(kind: GateKind, credits: u16, change: fn(&mut GateView<'_>)) -> Result<(), GateWait> {
        let credit = TxCredit::new(Serial::new(1), credits, false);
        let mut view = GateView {
            credit: &credit,
            gives: false,
            is_reserved: false,
            is_ended: false,
            is_silent: false,
        };
        change(&mut view);
        permits(kind, view)
    }

    /// Fewest credits with which each message may go.
    fn least(kind: GateKind, change: fn(&mut GateView<'_>)) -> u16 {
        let goes = |&credits: &u16| found(kind, credits, change).is_ok();
        (0..9).find(goes).unwrap_or(9)
    }

    // SDP-CRED-33, SDP-CRED-37, R-2.
    #[test]
    fn each_kind_of_message_has_its_least_credit() {
        let completions = [Mid::RdmaRdCompl, Mid::SendSm, Mid::SrcAvailCancel];
        for mid in Mid::ALL {
            let kind = GateKind::Bare(mid);
            let reserved = if completions.contains(&mid) { 2 } else { 3 };
            assert_eq!(least(kind, |_| ()), 2);
            assert_eq!(least(kind, |view| view.gives = true), 1);
            assert_eq!(least(kind, |view| view.is_reserved = true), reserved);
        }
        assert_eq!(least(GateKind::Payload, |view| view.gives = true), 3);
        assert_eq!(least(GateKind::Announcement, |_| ()), 2);
        assert_eq!(
            least(GateKind::Update, |view| {
                view.gives = true;
                view.is_reserved = true;
            }),
            1
        );
    }

    // SDP-CLS-10, SDP-CLS-26, SDP-CLS-27, SDP-DUP-16.
    #[test]
    fn nothing_of_our_stream_follows_disconn_and_nothing_a_suspension() {
        for mid in Mid::ALL {
            let kind = GateKind::Bare(mid);
            let ended = found(kind, 9, |view| view.is_ended = true);
            let want = match mid {
                Mid::SrcAvail | Mid::DisConn => Err(GateWait::Ended),
                _ => Ok(()),
            };
            assert_eq!(ended, want);
            let silent = found(kind, 9, |view| view.is_silent = true);
            assert_eq!(silent, Err(GateWait::Suspended));
        }
        let ended = found(GateKind::Payload, 9, |view| view.is_ended = true);
        assert_eq!(ended, Err(GateWait::Ended));
    }
}
