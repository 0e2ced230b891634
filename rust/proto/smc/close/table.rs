// SPDX-License-Identifier: GPL-2.0

//! Every state that can be reached, against the table of RFC 7609, 4.8 (CLS-51 to CLS-76, TST-025).

mod tests {
    use super::super::*;
    use std::collections::{
        BTreeSet,
        HashSet,
        VecDeque, //
    };

    /// All deadlines are moved here, so that the set of states is finite.
    const SOON: Instant = Instant::from_nanos(1_000_000);
    const NOW: Instant = Instant::from_nanos(1);

    /// What can happen to a connection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Event {
        ShutdownWrite,
        ShutdownRead,
        ShutdownBoth { unread: bool },
        Close { unread: bool },
        Abort,
        TcpReset,
        TcpFin,
        LinkLost,
        Notices(Notices, bool),
        Unsent,
        Announce { drained: bool },
        AbortSent,
        Timeout { stalled: bool },
        Progress,
        ReportError,
    }

    fn events() -> Vec<Event> {
        let mut events = vec![
            Event::ShutdownWrite,
            Event::ShutdownRead,
            Event::Abort,
            Event::TcpReset,
            Event::TcpFin,
            Event::LinkLost,
            Event::Unsent,
            Event::AbortSent,
            Event::Progress,
            Event::ReportError,
        ];
        for yes in [false, true] {
            events.extend([
                Event::ShutdownBoth { unread: yes },
                Event::Close { unread: yes },
                Event::Announce { drained: yes },
                Event::Timeout { stalled: yes },
            ]);
            for bits in 0..8 {
                let notices = Notices {
                    done: bits & 1 != 0,
                    closed: bits & 2 != 0,
                    abort: bits & 4 != 0,
                };
                events.push(Event::Notices(notices, yes));
            }
        }
        events
    }

    /// What happens next, or `None` if it cannot happen.
    fn next(mut c: Close, event: Event) -> Option<Close> {
        match event {
            Event::ShutdownWrite => c.shutdown_write(),
            Event::ShutdownRead => c.shutdown_read(),
            Event::ShutdownBoth { unread } => c.shutdown_both(unread),
            Event::Close { unread } => c.close(NOW, unread),
            Event::Abort => c.abort(NOW, CloseError::Aborted),
            Event::TcpReset => c.handle_tcp_reset(NOW),
            Event::TcpFin => c.handle_tcp_fin(NOW),
            Event::LinkLost => c.handle_link_lost(),
            // Once D or C was sent nothing is unsent.
            Event::Notices(_, true) | Event::Unsent if c.sent.done || c.sent.closed => return None,
            Event::Notices(notices, unsent) => c.handle_notices(NOW, notices, unsent),
            Event::Unsent => c.handle_unsent(NOW),
            Event::Announce { drained } => {
                let notice = c.due(drained)?;
                c.handle_announced(NOW, notice);
            }
            Event::AbortSent if c.sent.abort => c.handle_abort_sent(),
            Event::AbortSent => return None,
            Event::Timeout { stalled } => {
                c.poll_timeout()?;
                c.handle_timeout(SOON, stalled);
            }
            Event::Progress => c.progress(NOW),
            Event::ReportError => {
                c.report_error()?;
            }
        }
        c.guard = c.guard.map(|_| SOON);
        c.fin_guard = c.fin_guard.map(|_| SOON);
        Some(c)
    }

    /// All states that can be reached, with all steps between them.
    fn explore() -> (Vec<Close>, Vec<(Close, Event, Close)>) {
        let start = Close::new(CloseTimers::DEFAULT);
        let mut seen = HashSet::from([format!("{start:?}")]);
        let mut queue = VecDeque::from([start]);
        let (mut states, mut steps) = (Vec::new(), Vec::new());
        let events = events();
        while let Some(from) = queue.pop_front() {
            states.push(from);
            for &event in &events {
                let Some(to) = next(from, event) else {
                    continue;
                };
                steps.push((from, event, to));
                if seen.insert(format!("{to:?}")) {
                    queue.push_back(to);
                }
            }
        }
        (states, steps)
    }

    /// The kind of an event in the table.
    fn kind(from: &Close, event: Event, to: &Close) -> &'static str {
        match event {
            Event::Announce { .. } if to.sent.abort != from.sent.abort => "A sent",
            Event::Announce { .. } if to.sent.closed != from.sent.closed => "C sent",
            Event::Announce { .. } => "D sent",
            Event::Notices(n, _) if n.abort && !from.received.abort => "A",
            Event::Notices(..) if to.state == CloseState::PeerAbortWait => "unsent",
            Event::Notices(..) if from.received.closed || to.received.closed => "C",
            Event::Notices(..) => "D",
            Event::Unsent => "unsent",
            Event::Close { unread: true } => "close unread",
            Event::Abort => "abort",
            Event::TcpReset => "RST",
            Event::LinkLost => "lost",
            Event::AbortSent => "A done",
            Event::Timeout { .. } => "timer",
            Event::ShutdownWrite
            | Event::ShutdownRead
            | Event::ShutdownBoth { .. }
            | Event::Close { .. }
            | Event::TcpFin
            | Event::Progress
            | Event::ReportError => "other",
        }
    }

    /// All transitions that may be taken, and must be possible.
    fn table() -> BTreeSet<(&'static str, &'static str, &'static str)> {
        use CloseState as S;
        let mut table = BTreeSet::new();
        let mut row = |from: &[S], event: &'static str, to: S| {
            for from in from {
                table.insert((from.name(), event, to.name()));
            }
        };
        // CLS-52, CLS-53.
        row(&[S::Active], "C sent", S::PeerCloseWait1);
        row(&[S::Active], "D sent", S::PeerCloseWait1);
        // CLS-56.
        row(&[S::Active], "D", S::AppCloseWait1);
        row(&[S::Active], "C", S::AppCloseWait1);
        // CLS-57.
        row(&[S::PeerCloseWait1], "D", S::PeerCloseWait2);
        // CLS-58, CLS-59.
        let peer_close_wait = [S::PeerCloseWait1, S::PeerCloseWait2];
        row(&peer_close_wait, "C", S::Closed);
        row(&peer_close_wait, "C", S::AppFinCloseWait);
        // CLS-60.
        row(&[S::AppFinCloseWait], "C sent", S::Closed);
        // CLS-61.
        row(&[S::AppCloseWait1], "D sent", S::AppCloseWait2);
        // CLS-62, CLS-63.
        let app_close_wait = [S::AppCloseWait1, S::AppCloseWait2];
        row(&app_close_wait, "C sent", S::Closed);
        row(&app_close_wait, "C sent", S::PeerFinCloseWait);
        // CLS-64.
        row(&[S::PeerFinCloseWait], "C", S::Closed);
        // CLS-05, CLS-65: also if the data is only written after C.
        row(&[S::Active, S::AppCloseWait1], "unsent", S::PeerAbortWait);
        // CLS-31, CLS-66.
        let after_c = [S::PeerCloseWait1, S::PeerCloseWait2, S::PeerFinCloseWait];
        row(&after_c, "timer", S::Closed);
        // CLS-54, CLS-67, CLS-72, and a released connection that stands still, or TCR-09.
        let before_c = [
            S::Active,
            S::PeerCloseWait1,
            S::PeerCloseWait2,
            S::AppFinCloseWait,
            S::AppCloseWait1,
            S::AppCloseWait2,
        ];
        for event in ["close unread", "abort", "RST", "timer"] {
            row(&before_c, event, S::PeerAbortWait);
        }
        // CLS-68, CLS-69.
        row(&[S::PeerAbortWait], "A", S::Closed);
        row(&[S::PeerAbortWait], "timer", S::Closed);
        // ABT-07 with our A still here.
        row(&[S::PeerAbortWait], "A", S::ProcessAbort);
        // CLS-70, CLS-71.
        row(&before_c, "A", S::ProcessAbort);
        row(&[S::ProcessAbort], "A done", S::Closed);
        row(&[S::ProcessAbort], "timer", S::Closed);
        // CLS-73.
        row(&after_c, "A", S::Closed);
        // CLS-74.
        row(&[S::PeerAbortWait], "A sent", S::Closed);
        row(&[S::PeerAbortWait], "C", S::Closed);
        // CLS-76.
        row(&before_c, "lost", S::Closed);
        let waiting = [S::PeerFinCloseWait, S::PeerAbortWait, S::ProcessAbort];
        row(&waiting, "lost", S::Closed);
        table
    }

    // CLS-01..18, ABT-02..06, CLS-30, CLS-31, TMR-32, TCR-06, TCR-07.
    #[test]
    fn exactly_the_listed_transitions_occur() {
        let (states, steps) = explore();
        assert!(states.len() > 1_000);
        let occurring: BTreeSet<_> = steps
            .iter()
            .filter(|(from, _, to)| from.state != to.state)
            .map(|(from, event, to)| (from.state.name(), kind(from, *event, to), to.state.name()))
            .collect();
        let listed = table();
        let unlisted: Vec<_> = occurring.difference(&listed).collect();
        let missing: Vec<_> = listed.difference(&occurring).collect();
        assert!(unlisted.is_empty(), "not in the table: {unlisted:#?}");
        assert!(missing.is_empty(), "never taken: {missing:#?}");
    }

    // ABT-09, CLS-13.
    #[test]
    fn states_agree_with_what_was_announced() {
        for c in explore().0 {
            let (sent, received) = (c.sent, c.received);
            let peer = received.done || received.closed;
            let ok = match c.state {
                CloseState::Active => !sent.done && !sent.closed && !peer,
                CloseState::PeerCloseWait1 => (sent.done || sent.closed) && !peer,
                CloseState::PeerCloseWait2 => {
                    (sent.done || sent.closed) && received.done && !received.closed
                }
                CloseState::AppFinCloseWait => sent.done && !sent.closed && received.closed,
                CloseState::AppCloseWait1 => !sent.done && !sent.closed && peer,
                CloseState::AppCloseWait2 => sent.done && !sent.closed && peer,
                CloseState::PeerFinCloseWait => sent.closed && received.done && !received.closed,
                CloseState::PeerAbortWait => !sent.closed && (sent.abort != c.abort_due),
                CloseState::ProcessAbort => {
                    received.abort && !sent.closed && (sent.abort != c.abort_due)
                }
                CloseState::Closed => c.guard.is_none() && c.fin_guard.is_none(),
            };
            assert!(ok, "{c:?}");
            assert!(!(sent.closed && sent.abort), "{c:?}");
            assert!(!c.is_alive() || !received.abort, "{c:?}");
            assert!(c.state == CloseState::Closed || !c.lost, "{c:?}");
        }
    }

    // CDC-43, TCR-05, TCR-08, AMB-18.
    #[test]
    fn nothing_is_taken_back() {
        for (from, event, to) in explore().1 {
            let kept = |before: Notices, after: Notices| {
                (!before.done || after.done)
                    && (!before.closed || after.closed)
                    && (!before.abort || after.abort)
            };
            let grows = kept(from.sent, to.sent)
                && kept(from.received, to.received)
                && to.wanted >= from.wanted
                && (!from.reset || to.reset)
                && (!from.released || to.released)
                && (!from.read_shut || to.read_shut)
                && (from.error.is_none() || to.error == from.error)
                && (!from.reported || to.reported)
                && (from.state != CloseState::Closed || to.state == CloseState::Closed)
                && (from.is_alive() || !to.is_alive());
            assert!(grows, "{from:?} {event:?} {to:?}");
            // CDC-41: C and A are the last word.
            if from.sent.closed || from.sent.abort {
                assert!(from.due(true).is_none() && from.due(false).is_none());
                assert_eq!(from.sent, to.sent);
            }
            // TCP ends after SMC-R, and a reset stays a reset.
            let rank = |c: &Close| match c.tcp() {
                Tcp::Keep => 0,
                Tcp::Fin => 1,
                Tcp::Reset => 2,
            };
            assert!(rank(&from) <= rank(&to), "{from:?} {event:?} {to:?}");
        }
    }

    // CLS-30, ABT-05, TMR-32, TST-140.
    #[test]
    fn released_connection_ends_by_time_alone() {
        for mut c in explore().0 {
            if !c.released {
                // Neither does an abort depend on the application.
                let aborts = matches!(
                    c.state,
                    CloseState::PeerAbortWait | CloseState::ProcessAbort
                );
                if !aborts {
                    continue;
                }
            }
            let first = c;
            for _ in 0..4 {
                if let Some(at) = c.poll_timeout() {
                    c.handle_timeout(at, false);
                }
            }
            assert_eq!(c.state, CloseState::Closed, "{first:?}");
        }
    }

    // CLS-13, CLS-14, ABT-04, ABT-08, TST-026.
    #[test]
    fn released_connection_ends_with_a_willing_peer() {
        for mut c in explore().0 {
            if !c.released || c.lost {
                continue;
            }
            let first = c;
            // The peer answers as it should: by A to A, and by C to C or D.
            for _ in 0..4 {
                if let Some(notice) = c.due(true) {
                    c.handle_announced(NOW, notice);
                }
                if c.sent.abort {
                    c.handle_abort_sent();
                }
                let answer = Notices {
                    closed: c.sent.closed,
                    abort: c.sent.abort,
                    ..Notices::default()
                };
                c.handle_notices(NOW, answer, false);
            }
            assert_eq!(c.state, CloseState::Closed, "{first:?}");
            assert_eq!(c.forced, first.forced, "{first:?}");
        }
    }

    // ABT-03, ABT-06.
    #[test]
    fn errors_come_with_the_end_of_life() {
        for (from, event, to) in explore().1 {
            assert!(!to.reported || to.error.is_some(), "{event:?} {to:?}");
            if from.error.is_none() && to.error.is_some() {
                assert!(!to.reported, "{from:?} {event:?} {to:?}");
                assert!(to.reset, "{from:?} {event:?} {to:?}");
                assert!(
                    !to.is_alive() || to.sent.closed,
                    "{from:?} {event:?} {to:?}"
                );
            }
            // The peer's FIN makes a reset an EPIPE, as in TCP.
            if event == Event::TcpReset && from.is_alive() && from.error.is_none() {
                let expected = if from.peer_is_done() {
                    CloseError::Pipe
                } else {
                    CloseError::Reset
                };
                assert_eq!(to.error, Some(expected));
            }
        }
    }
}
