// SPDX-License-Identifier: GPL-2.0

//! Every event in every state of the teardown.

use super::*;

const TIMERS: EndTimers = EndTimers::DEFAULT;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    AppEnds,
    Drained,
    DisConn,
    AbortConn,
    Completed,
    LinkDown,
    LocalAbort,
    AbortCompleted,
}

const ALL: [Happens; 8] = [
    Happens::AppEnds,
    Happens::Drained,
    Happens::DisConn,
    Happens::AbortConn,
    Happens::Completed,
    Happens::LinkDown,
    Happens::LocalAbort,
    Happens::AbortCompleted,
];

/// `None`: it cannot happen.
fn apply(mut end: Teardown, event: Happens) -> Option<Result<Teardown, SdpViolation>> {
    let now = at(1);
    match event {
        Happens::AppEnds => end.end_sending(),
        Happens::Drained if end.is_disconn_due() => end.on_disconn_sent(now),
        Happens::Drained if end.is_abort_due() => end.on_abort_sent(),
        Happens::Drained => return None,
        Happens::DisConn => {
            if let Err(violation) = end.handle_disconn(now) {
                return Some(Err(violation));
            }
        }
        Happens::AbortConn => end.handle_abort(),
        Happens::Completed if end.is_sent() && !end.is_completed => {
            end.on_disconn_completed(now);
        }
        Happens::Completed => return None,
        Happens::LinkDown => end.handle_link_down(EndError::Reset),
        Happens::LocalAbort => end.abort(now, EndError::Aborted, true),
        Happens::AbortCompleted if end.state == (EndState::Aborting { is_sent: true }) => {
            end.on_abort_completed();
        }
        Happens::AbortCompleted => return None,
    }
    Some(Ok(end))
}

/// A machine in a state, by the shortest way there.
fn reach(way: &[Happens]) -> Teardown {
    way.iter().fold(Teardown::new(TIMERS), |end, &event| {
        apply(end, event).unwrap().unwrap()
    })
}

/// What the table says: the next state, its error, and whether the link is taken down.
type Row = Option<Result<(EndState, Option<EndError>, bool), SdpViolation>>;

// SDP-CLS-07, SDP-CLS-08, SDP-CLS-12, SDP-CLS-14, SDP-CLS-19, SDP-CLS-22 to SDP-CLS-24, SDP-ABT-01
// to SDP-ABT-04, SDP-ABT-07, SDP-ABT-08, SDP-TS-1 to SDP-TS-13, SDP-ERR-21, TST-250, TST-255 to
// TST-259.
#[test]
fn every_state_does_what_the_table_says() {
    use EndState::{
        Aborting,
        Closed,
        Draining,
        Ending,
        FinSent,
        LastSent,
        Open,
        PeerDone,
        PeerDoneDraining, //
    };
    use Happens::*;
    let to = |state| Some(Ok((state, None, false)));
    let reset = Some(Ok((Closed, Some(EndError::Reset), true)));
    let lost = Some(Ok((Closed, Some(EndError::Reset), false)));
    let aborted = Some(Ok((Closed, Some(EndError::Aborted), true)));
    let fault = Some(Err(SdpViolation::AfterDisConn));
    let say = Some(Ok((
        Aborting { is_sent: false },
        Some(EndError::Aborted),
        false,
    )));
    let said = Some(Ok((
        Aborting { is_sent: true },
        Some(EndError::Aborted),
        false,
    )));
    let good = Some(Ok((Closed, None, true)));
    let over = Some(Ok((Closed, None, false)));
    // Columns in the order of `ALL`.
    let table: [(&[Happens], [Row; 8]); 12] = [
        (
            &[],
            [
                to(Draining),
                None,
                to(PeerDone),
                reset,
                None,
                lost,
                aborted,
                None,
            ],
        ),
        (
            &[AppEnds],
            [
                to(Draining),
                to(FinSent),
                to(PeerDoneDraining),
                reset,
                None,
                lost,
                aborted,
                None,
            ],
        ),
        (
            &[AppEnds, Drained],
            [
                to(FinSent),
                None,
                to(Ending),
                reset,
                to(FinSent),
                lost,
                say,
                None,
            ],
        ),
        (
            &[AppEnds, Drained, Completed],
            [to(FinSent), None, to(Ending), reset, None, lost, say, None],
        ),
        (
            &[DisConn],
            [
                to(PeerDoneDraining),
                None,
                fault,
                reset,
                None,
                lost,
                aborted,
                None,
            ],
        ),
        (
            &[AppEnds, DisConn],
            [
                to(PeerDoneDraining),
                to(LastSent),
                fault,
                reset,
                None,
                lost,
                aborted,
                None,
            ],
        ),
        (
            &[AppEnds, DisConn, Drained],
            [to(LastSent), None, fault, reset, good, lost, say, None],
        ),
        (
            &[AppEnds, Drained, DisConn],
            [to(Ending), None, fault, reset, to(Ending), over, say, None],
        ),
        (
            &[AppEnds, Drained, DisConn, Completed],
            [to(Ending), None, fault, reset, None, over, say, None],
        ),
        (
            &[AppEnds, Drained, LocalAbort],
            [
                say,
                said,
                say,
                reset,
                None,
                Some(Ok((Closed, Some(EndError::Aborted), false))),
                say,
                None,
            ],
        ),
        (
            &[AppEnds, Drained, LocalAbort, Drained],
            [
                said,
                None,
                said,
                reset,
                None,
                Some(Ok((Closed, Some(EndError::Aborted), false))),
                said,
                aborted,
            ],
        ),
        (
            &[AppEnds, DisConn, Drained, Completed, LinkDown],
            [over, None, over, reset, None, over, over, None],
        ),
    ];
    for (way, rows) in table {
        let start = reach(way);
        for (event, want) in ALL.into_iter().zip(rows) {
            let found = apply(start, event).map(|result| {
                result.map(|mut end| {
                    let down = end.poll_take_down();
                    assert!(!end.poll_take_down());
                    (end.state(), end.error(), down)
                })
            });
            assert_eq!(found, want, "{way:?}, then {event:?}");
        }
    }
}

// SDP-TMR-5, SDP-TMR-6, AMB-37, TST-260.
#[test]
fn each_wait_for_the_end_is_bounded() {
    use Happens::*;
    let reset = EndError::TimedOut;
    for (way, released, span, want) in [
        (&[AppEnds, Drained][..], false, None, None),
        (&[AppEnds, Drained], true, Some(TIMERS.fin), Some(reset)),
        // The completion of ours may never come.
        (&[AppEnds, Drained, DisConn], true, Some(TIMERS.fin), None),
        (
            &[AppEnds, Drained, DisConn, Completed],
            true,
            Some(TIMERS.ending),
            None,
        ),
        (
            &[AppEnds, Drained, Completed, DisConn],
            true,
            Some(TIMERS.ending),
            None,
        ),
        (
            &[AppEnds, Drained, LocalAbort],
            false,
            Some(TIMERS.abort),
            Some(EndError::Aborted),
        ),
        (&[AppEnds, DisConn, Drained], false, None, None),
        (
            &[AppEnds, DisConn, Drained],
            true,
            Some(TIMERS.fin),
            Some(reset),
        ),
    ] {
        let mut end = Teardown::new(TIMERS);
        if released {
            end.release(at(1));
        }
        for &event in way {
            end = apply(end, event).unwrap().unwrap();
        }
        let deadline = span.map(|span| at(1).saturating_add(span));
        assert_eq!(end.poll_timeout(), deadline, "{way:?}");
        let Some(deadline) = deadline else {
            continue;
        };
        end.handle_timeout(Instant::from_nanos(deadline.as_nanos() - 1));
        assert_eq!(end.poll_timeout(), Some(deadline));
        end.handle_timeout(deadline);
        // A peer that sends no DisConn is aborted first.
        if let Some(again) = end.poll_timeout() {
            assert!(end.is_abort_due());
            end.handle_timeout(again);
        }
        assert_eq!((end.state(), end.error()), (EndState::Closed, want));
        assert!(end.poll_take_down());
    }
}

#[test]
fn release_while_the_peer_has_not_ended_starts_the_timer() {
    use Happens::*;
    for way in [&[AppEnds, Drained][..], &[AppEnds, DisConn, Drained]] {
        let mut end = reach(way);
        end.release(at(5));
        assert_eq!(end.poll_timeout(), Some(at(5).saturating_add(TIMERS.fin)));
    }
}

// AMB-37: without a link there is no message.
#[test]
fn abort_without_a_link_says_nothing() {
    let mut end = reach(&[Happens::AppEnds, Happens::Drained]);
    end.abort(at(5), EndError::TimedOut, false);
    assert_eq!(
        (end.state(), end.error()),
        (EndState::Closed, Some(EndError::TimedOut))
    );
}

// AMB-49, TST-318.
#[test]
fn new_link_has_both_disconn_again() {
    use Happens::*;
    for (way, state, repeats) in [
        (&[][..], EndState::Open, false),
        (&[AppEnds, Drained], EndState::Draining, false),
        (&[DisConn], EndState::PeerDone, true),
        (
            &[AppEnds, DisConn, Drained],
            EndState::PeerDoneDraining,
            true,
        ),
        (
            &[AppEnds, Drained, DisConn],
            EndState::PeerDoneDraining,
            true,
        ),
    ] {
        let mut end = reach(way);
        end.resume();
        assert_eq!(end.state(), state);
        if repeats {
            assert_eq!(end.handle_disconn(at(1)), Ok(()));
            assert_eq!(end.handle_disconn(at(1)), Err(SdpViolation::AfterDisConn));
        }
    }
}
