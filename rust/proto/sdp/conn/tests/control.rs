// SPDX-License-Identifier: GPL-2.0

//! Modes, SinkAvail, sizes of buffers, suspension.

use super::*;

const DATA: Body = Body::Data;

pub(super) fn change(receiver_sends: bool, mode: HalfMode) -> Body {
    Body::ModeChange {
        receiver_sends,
        mode,
    }
}

/// A connection whose half where we send is in a mode.
pub(super) fn sending_in(mode: HalfMode) -> Script {
    let mut script = Script::new();
    if mode != HalfMode::Combined {
        script.conn.want_mode(mode);
        assert_eq!(script.hear(), [(change(false, mode), 0)]);
    }
    assert_eq!(script.conn.send_mode(), mode);
    script
}

/// A connection whose half where the peer sends is in a mode.
pub(super) fn receiving_in(mode: HalfMode) -> Script {
    let mut script = Script::new();
    if mode != HalfMode::Combined {
        script.tell(change(false, mode)).unwrap();
    }
    script
}

pub(super) const MODES: [HalfMode; 3] =
    [HalfMode::Buffered, HalfMode::Combined, HalfMode::Pipelined];

// SDP-MT-01 to SDP-MT-03, SDP-MT-08, SDP-MT-64, SDP-M31-1, SDP-M31-2, SDP-M31-5, SDP-M30-6.
#[test]
fn mode_change_of_the_peer_follows_the_edges_that_it_is_master_of() {
    for from in MODES {
        for to in MODES {
            let found = receiving_in(from).tell(change(false, to));
            let good = matches!(
                (from, to),
                (HalfMode::Combined, HalfMode::Buffered | HalfMode::Pipelined)
                    | (HalfMode::Pipelined, HalfMode::Combined)
            );
            assert_eq!(found.is_ok(), good, "{from:?} to {to:?}, peer sends");
            let found = sending_in(from).tell(change(true, to));
            let good = (from, to) == (HalfMode::Buffered, HalfMode::Combined);
            assert_eq!(found.is_ok(), good, "{from:?} to {to:?}, we send");
        }
    }
}

// SDP-MT-21, TST-200: not while a SrcAvail is open.
#[test]
fn mode_change_to_buffered_during_an_advert_is_a_violation() {
    let mut script = Script::new();
    script.src_avail(5000, 10).unwrap();
    let found = script.tell(change(false, HalfMode::Buffered));
    assert_eq!(found, Err(SdpViolation::ModeChange));
}

// SDP-MCH-02, SDP-MODE-08, SDP-MODE-17, SDP-MODE-23, SDP-ERR-10, SDP-ERR-12, TST-109.
#[test]
fn adverts_of_the_peer_are_those_of_its_mode() {
    let mode = Err(SdpViolation::SrcAvailMode);
    assert_eq!(receiving_in(HalfMode::Buffered).src_avail(5000, 10), mode);
    let mut script = receiving_in(HalfMode::Pipelined);
    assert_eq!(script.clone().src_avail(5000, 10), mode);
    for _ in 0..4 {
        script.src_avail(5000, 0).unwrap();
    }
    let many = Err(SdpViolation::TooManyAdverts);
    assert_eq!(script.src_avail(5000, 0), many);
}

// SDP-MCH-02, SDP-BUFP-08, SDP-M31-3, SDP-M31-4, SDP-MT-30, TST-201.
#[test]
fn large_reader_ends_buffered_mode() {
    let mut script = receiving_in(HalfMode::Buffered);
    script.conn.note_reader(4000);
    assert_eq!(script.hear(), []);
    script.conn.note_reader(4064);
    assert_eq!(script.hear(), [(change(true, HalfMode::Combined), 0)]);
    assert_eq!(script.hear(), []);
    assert!(script.src_avail(5000, 10).is_ok());
}

// SDP-MCH-02, SDP-M30-4, SDP-MODE-09, SDP-MT-04, SDP-MT-09, TST-212.
#[test]
fn peer_that_refuses_all_adverts_gets_none() {
    let mut script = Script::new();
    for _ in 0..32 {
        let place = script.conn.lend(at(0), 2000, 0, Some(1)).unwrap();
        let heard = script.hear();
        assert!(matches!(heard[..], [(Body::SrcAvail(_), 512)]));
        script.tell(Body::SendSm).unwrap();
        let heard = script.hear();
        assert!(heard
            .iter()
            .all(|(body, _)| !matches!(body, Body::SrcAvail(_))));
        assert_eq!(script.conn.poll_invalidate(), Some(place));
        script.conn.handle_invalidated(place);
        assert_eq!(script.conn.poll_release(), Some(place));
        script.data(0).unwrap();
    }
    assert_eq!(script.conn.send_mode(), HalfMode::Buffered);
    script.conn.lend(at(0), 2000, 0, Some(1));
    assert_eq!(script.hear(), [(DATA, 1000), (DATA, 1000)]);
    script.tell(change(true, HalfMode::Combined)).unwrap();
    script.conn.lend(at(0), 2000, 0, Some(1));
    assert!(matches!(script.hear()[..], [(Body::SrcAvail(_), 512)]));
}

// A peer that takes adverts in Combined Mode only never sees ModeChange.
#[test]
fn peer_of_ofed_gets_no_mode_change() {
    let mut terms = terms(SdpTransport::Annex, SetupRole::Connecting);
    terms.profile.dialect = Dialect::CombinedOnly;
    let mut script = Script::with(&terms);
    script.conn.want_mode(HalfMode::Pipelined);
    assert_eq!(script.hear(), []);
}

/// Two adverts of ours in Pipelined Mode, of 3000 octets each.
fn pipelined() -> Script {
    let mut script = sending_in(HalfMode::Pipelined);
    for stag in [1, 2] {
        script.conn.lend(at(0), 3000, 0, Some(stag));
    }
    let heard = script.hear();
    assert!(matches!(
        heard[..],
        [(Body::SrcAvail(_), 0), (Body::SrcAvail(_), 0)]
    ));
    script
}

pub(super) fn sink_avail(
    script: &mut Script,
    non_discards: u32,
    payload: u32,
) -> Result<RxPlan, SdpViolation> {
    let body = Body::SinkAvail {
        advert: Advert {
            len: 5000,
            stag: 9,
            va: 0,
        },
        non_discards,
    };
    script.tell_all(BsdhFlags::default(), body, payload, None)
}

// SDP-RZS-04, SDP-MODE-17, SDP-MODE-19 to SDP-MODE-21, SDP-RZK-19, TST-110.
#[test]
fn refusal_of_the_first_of_two_adverts_leaves_the_second() {
    let mut script = pipelined();
    script.conn.write(at(0), 10);
    assert_eq!(script.hear(), []);
    script.tell(Body::SendSm).unwrap();
    assert_eq!(script.hear(), [(DATA, 1000); 3]);
    script.tell(Body::RdmaRdCompl(3000)).unwrap();
    assert_eq!(script.hear(), [(DATA, 10)]);
}

// SDP-GEN-21, SDP-WZS-03, SDP-MODE-25, SDP-MODE-27, SDP-FBS-01, SDP-LS-5, SDP-LX-1.
#[test]
fn valid_sink_avail_makes_data_of_our_adverts() {
    let mut script = pipelined();
    sink_avail(&mut script, 0, 0).unwrap();
    assert_eq!(script.conn.poll_invalidate(), Some(0));
    assert_eq!(script.conn.poll_invalidate(), Some(1));
    assert_eq!(script.hear(), [(DATA, 1000); 6]);
    let none = Err(SdpViolation::NoSrcAvail);
    assert_eq!(script.tell(Body::RdmaRdCompl(1)), none);
}

// SDP-MODE-31, SDP-STALE-07, SDP-STALE-11, TST-156.
#[test]
fn stale_sink_avail_leaves_our_adverts_alone() {
    let mut script = sending_in(HalfMode::Pipelined);
    script.conn.write(at(0), 10);
    assert_eq!(script.hear(), [(DATA, 10)]);
    script.conn.lend(at(0), 3000, 0, Some(1));
    assert!(matches!(script.hear()[..], [(Body::SrcAvail(_), 0)]));
    sink_avail(&mut script, 0, 0).unwrap();
    script.tell(Body::RdmaRdCompl(3000)).unwrap();
}

// the peer had the SinkAvail out when the second advert came, and has dropped that.
#[test]
fn sink_avail_used_up_by_refused_data_voids_the_adverts_before_it() {
    let mut script = pipelined();
    script.tell(Body::SendSm).unwrap();
    assert_eq!(script.hear(), [(DATA, 1000); 3]);
    // No advert follows those that may be void.
    script.conn.lend(at(0), 3000, 0, Some(3));
    assert_eq!(script.hear(), []);
    sink_avail(&mut script, 0, 0).unwrap();
    let none = Err(SdpViolation::NoSrcAvail);
    assert_eq!(script.clone().tell(Body::RdmaRdCompl(3000)), none);
    assert_eq!(script.hear()[..3], [(DATA, 1000); 3]);
}

// SDP-ERR-11, SDP-MT-56, SDP-MT-63, SDP-TRN-07, TST-208.
#[test]
fn sink_avail_outside_of_pipelined_mode_is_a_violation_except_late() {
    for mode in [HalfMode::Combined, HalfMode::Buffered] {
        let found = sink_avail(&mut sending_in(mode), 0, 0);
        assert_eq!(found, Err(SdpViolation::SinkAvailMode));
    }
    let mut script = sending_in(HalfMode::Pipelined);
    script.conn.want_mode(HalfMode::Combined);
    let before = script.ack;
    assert_eq!(script.hear(), [(change(false, HalfMode::Combined), 0)]);
    let acked = core::mem::replace(&mut script.ack, before);
    // Its payload is of the other direction, and is kept.
    let plan = sink_avail(&mut script, 0, 20);
    assert_eq!(plan, Ok(RxPlan::Queue { off: 36, len: 20 }));
    script.ack = acked;
    script.data(0).unwrap();
    let found = sink_avail(&mut script, 0, 0);
    assert_eq!(found, Err(SdpViolation::SinkAvailMode));
}

// SDP-F28, SDP-MT-53 to SDP-MT-57, SDP-MT-62, TST-204, TST-205, TST-213.
#[test]
fn adverts_are_issued_again_by_the_rules_of_combined_mode() {
    let mut script = pipelined();
    let before = script.ack;
    script.conn.want_mode(HalfMode::Combined);
    assert_eq!(script.hear(), [(change(false, HalfMode::Combined), 0)]);
    // Carried over (AMB-28), until a valid SinkAvail shows that the peer has dropped them.
    script.ack = before;
    script.conn.want_mode(HalfMode::Pipelined);
    sink_avail(&mut script, 0, 0).unwrap();
    while let Some(place) = script.conn.poll_invalidate() {
        script.conn.handle_invalidated(place);
        assert!(script.conn.rekey(place, 70));
    }
    let (message, _) = script.hear_all().unwrap();
    assert!(matches!(message.body, Body::SrcAvail(advert) if advert.len == 3000));
    assert_eq!(message.payload, 512);
    assert_eq!(script.hear(), []);
    // Another one changes nothing, and the mode waits for the acknowledgement.
    script.ack = before;
    sink_avail(&mut script, 0, 0).unwrap();
    assert_eq!(script.conn.poll_invalidate(), None);
    assert_eq!(script.hear(), []);
    script.ack = message.mseq.get();
    script.data(0).unwrap();
    assert_eq!(script.hear()[0], (change(false, HalfMode::Pipelined), 0));
}

// SDP-SNKA-01, SDP-SNKX-02, SDP-SNKX-04, SDP-SNKX-08, SDP-SNKX-09, TST-177.
#[test]
fn cancel_of_sink_avail_is_answered_if_one_was_left() {
    let mut script = sending_in(HalfMode::Pipelined);
    script.tell(Body::SinkAvailCancel).unwrap();
    assert_eq!(script.hear(), []);
    sink_avail(&mut script, 0, 0).unwrap();
    sink_avail(&mut script, 0, 0).unwrap();
    script.tell(Body::SinkAvailCancel).unwrap();
    assert_eq!(script.hear(), [(Body::SinkCancelAck, 0)]);
    assert_eq!(script.conn.sink_avails(), 0);
    let mut script = sending_in(HalfMode::Pipelined);
    for _ in 0..4 {
        sink_avail(&mut script, 0, 0).unwrap();
    }
    let many = sink_avail(&mut script, 0, 0);
    assert_eq!(many, Err(SdpViolation::TooManyAdverts));
}

// SDP-RSZ-11, SDP-RSZ-13, SDP-RSZ-23, SDP-RSZ-24, TST-063.
#[test]
fn larger_buffers_are_posted_before_the_answer() {
    let mut script = Script::new();
    script.tell(Body::ChRcvBuf(5000)).unwrap();
    assert_eq!(
        (script.conn.wanted_size(), script.hear()),
        (Some(8192), vec![])
    );
    assert_eq!(script.conn.buffer_size(), 1016);
    script.conn.grow_buffers(true);
    assert_eq!(
        (script.conn.wanted_size(), script.conn.buffer_size()),
        (None, 8192)
    );
    for _ in 0..10 {
        let answers = script.hear();
        assert!(answers.iter().all(|(body, _)| *body == DATA));
        script.data(0).unwrap();
    }
    assert_eq!(script.hear(), [(Body::ChRcvBufAck(8192), 0)]);
    assert_eq!(
        script.tell(Body::ChRcvBufAck(8192)),
        Err(SdpViolation::Resize)
    );
}

// SDP-DUP-06, SDP-DUP-13, SDP-DUP-15 to SDP-DUP-19, SDP-DUP-27, SDP-DUP-31, SDP-DS-1 to SDP-DS-4,
// SDP-TS-14, AMB-49, TST-310, TST-312, TST-313, TST-318.
#[test]
fn suspended_connection_goes_on_over_a_new_link() {
    let mut script = Script::new();
    script.data(30).unwrap();
    script.conn.lend(at(0), 3000, 0, Some(1));
    assert!(matches!(script.hear()[..], [(Body::SrcAvail(_), 512)]));
    script.tell(Body::SuspComm(5001)).unwrap();
    script.conn.write(at(0), 8);
    let (message, out) = script.hear_all().unwrap();
    assert_eq!(message.body, Body::SuspCommAck);
    assert!(out.solicited && out.signal);
    assert_eq!(script.conn.poll_move(), None);
    script.conn.handle_sent(at(0), out.token);
    assert_eq!(script.conn.poll_move(), Some(5001));
    script.conn.handle_link_down(at(0));
    assert_eq!(script.conn.state(), EndState::Open);
    assert_eq!(script.hear(), []);
    let mut new = terms(SdpTransport::Annex, SetupRole::Connecting);
    (new.bufs, new.peer_bufs) = (7, 9);
    script.conn.resume(at(10), &new, true);
    assert_eq!((script.conn.posted(), script.conn.tx.available()), (7, 9));
    script.next = 1;
    script.ack = 0;
    assert_eq!(script.conn.readable_octets(), 30);
    let heard = script.hear();
    assert_eq!(heard, [(DATA, 1000), (DATA, 1000), (DATA, 488), (DATA, 8)]);
    assert!(script.data(5).is_ok());
}

// SDP-DS-5.
#[test]
fn move_that_fails_ends_the_connection() {
    let mut script = Script::new();
    script.data(30).unwrap();
    script.tell(Body::SuspComm(5001)).unwrap();
    let (_, out) = script.hear_all().unwrap();
    assert!(!script.conn.is_moving());
    script.conn.handle_sent(at(0), out.token);
    assert!(script.conn.is_moving());
    script.conn.handle_link_down(at(0));
    assert_eq!(script.conn.read_error(), None);
    script.conn.handle_move_failed(at(1));
    assert!(!script.conn.is_moving());
    assert_eq!(script.conn.read_error(), Some(EndError::Reset));
    // A new link would come too late.
    let terms = terms(SdpTransport::Annex, SetupRole::Connecting);
    script.conn.resume(at(2), &terms, true);
    assert_eq!(script.conn.state(), EndState::Closed);
}

// SDP-DUP-14, SDP-ERR-19.
#[test]
fn message_after_a_suspension_is_a_violation() {
    let mut script = Script::new();
    script.tell(Body::SuspComm(5001)).unwrap();
    assert_eq!(script.data(0), Err(SdpViolation::Suspend));
    assert_eq!(
        Script::new().tell(Body::SuspCommAck),
        Err(SdpViolation::Suspend)
    );
}

// SDP-TMR-9, SDP-DS-5.
#[test]
fn suspension_that_takes_too_long_ends_the_connection() {
    let mut script = Script::new();
    script.tell(Body::SuspComm(5001)).unwrap();
    script.hear();
    script.wait(29_999);
    assert_eq!(script.conn.read_error(), None);
    script.wait(1);
    assert_eq!(script.conn.read_error(), Some(EndError::TimedOut));
}
