// SPDX-License-Identifier: GPL-2.0

//! Our own changes of modes, and what each mode lets both ends do.

use super::{
    control::{
        change,
        receiving_in,
        sending_in,
        sink_avail,
        MODES, //
    },
    *,
};
use crate::proto::sdp::wire::Mid;

const DATA: Body = Body::Data;

// SDP-MT-01 to SDP-MT-03, SDP-MT-05, SDP-MT-20, SDP-MT-40, SDP-MT-50, SDP-MT-52, SDP-MT-53,
// TST-209.
#[test]
fn own_mode_changes_follow_the_edges_that_we_are_master_of() {
    use HalfMode::{
        Buffered,
        Combined,
        Pipelined, //
    };
    for from in MODES {
        for to in MODES {
            let mut script = sending_in(from);
            script.conn.want_mode(to);
            let want = match (from, to) {
                (Buffered, _) | (Combined, Combined) | (Pipelined, Pipelined) => None,
                // By way of Combined Mode.
                (Pipelined, Buffered) => Some(Combined),
                (_, to) => Some(to),
            };
            let heard = script.hear();
            let changes: Vec<_> = want
                .map(|mode| (change(false, mode), 0))
                .into_iter()
                .collect();
            assert_eq!(heard, changes, "{from:?} to {to:?}");
            assert_eq!(script.conn.send_mode(), want.unwrap_or(from));
            script.data(0).unwrap();
            let rest: &[_] = match (from, to) {
                (Pipelined, Buffered) => &[(change(false, Buffered), 0)],
                _ => &[],
            };
            assert_eq!(script.hear(), rest);
        }
    }
}

/// A connection that has an advert of 3000 octets out.
fn advertising() -> Script {
    let mut script = Script::new();
    script.conn.lend(at(0), 3000, 0, Some(1));
    assert!(matches!(script.hear()[..], [(Body::SrcAvail(_), 512)]));
    script
}

// SDP-MT-20, SDP-MT-21, SDP-M30-2, AMB-67, TST-200.
#[test]
fn change_to_buffered_waits_until_the_advert_is_processed() {
    let mut script = advertising();
    script.conn.want_mode(HalfMode::Buffered);
    script.tell(Body::RdmaRdCompl(2487)).unwrap();
    assert_eq!(script.hear(), []);
    let mut refused = script.clone();
    script.tell(Body::RdmaRdCompl(1)).unwrap();
    assert_eq!(script.hear(), [(change(false, HalfMode::Buffered), 0)]);
    refused.tell(Body::SendSm).unwrap();
    let heard = refused.hear();
    assert_eq!(heard, [(change(false, HalfMode::Buffered), 0), (DATA, 1)]);
}

// SDP-MT-40, SDP-M30-3, TST-202.
#[test]
fn change_to_pipelined_does_not_wait_for_the_advert() {
    let mut script = advertising();
    script.conn.want_mode(HalfMode::Pipelined);
    assert_eq!(script.hear(), [(change(false, HalfMode::Pipelined), 0)]);
    script.conn.lend(at(0), 3000, 0, Some(2));
    assert!(matches!(script.hear()[..], [(Body::SrcAvail(_), 0)]));
    script.tell(Body::RdmaRdCompl(3000 - 512)).unwrap();
    script.tell(Body::RdmaRdCompl(3000)).unwrap();
}

// SDP-RZS-03, SDP-RZS-04, SDP-MODE-02, SDP-MODE-08 to SDP-MODE-11, SDP-MODE-13, SDP-MODE-16,
// SDP-MODE-17, SDP-MT-07, SDP-MT-09, TST-211.
#[test]
fn each_mode_sends_by_its_own_mechanisms() {
    for mode in MODES {
        let mut script = sending_in(mode);
        script.conn.write(at(0), 5);
        assert_eq!(script.hear(), [(DATA, 5)]);
        script.conn.lend(at(0), 1999, 0, Some(1));
        assert_eq!(script.hear(), [(DATA, 1000), (DATA, 999)]);
        script.data(0).unwrap();
        script.conn.lend(at(0), 2000, 0, Some(2));
        let heard = script.hear();
        match mode {
            HalfMode::Buffered => assert_eq!(heard, [(DATA, 1000), (DATA, 1000)]),
            HalfMode::Combined => assert!(matches!(heard[..], [(Body::SrcAvail(_), 512)])),
            HalfMode::Pipelined => assert!(matches!(heard[..], [(Body::SrcAvail(_), 0)])),
        }
    }
}

// SDP-MCH-02, SDP-MCH-03, SDP-MODE-03, SDP-MODE-04, SDP-CONN-21, SDP-CONN-28, TST-033.
#[test]
fn both_directions_start_combined_and_change_alone() {
    let mode = Err(SdpViolation::SrcAvailMode);
    for role in [SetupRole::Connecting, SetupRole::Accepting] {
        let mut script = Script::with(&terms(SdpTransport::Annex, role));
        assert_eq!(script.conn.send_mode(), HalfMode::Combined);
        assert_eq!(script.clone().src_avail(5000, 0), mode);
        assert!(script.clone().src_avail(5000, 9).is_ok());
        script.tell(change(false, HalfMode::Pipelined)).unwrap();
        assert_eq!(script.conn.send_mode(), HalfMode::Combined);
        assert_eq!(script.clone().src_avail(5000, 9), mode);
        assert!(script.src_avail(5000, 0).is_ok());
    }
    let mut script = sending_in(HalfMode::Pipelined);
    assert_eq!(script.clone().src_avail(5000, 0), mode);
    assert!(script.src_avail(5000, 9).is_ok());
}

// SDP-MODE-23, SDP-MODE-24, TST-116.
#[test]
fn adverts_are_never_more_than_the_peer_takes() {
    for peer_adverts in [1, 2, 4] {
        let mut terms = terms(SdpTransport::Annex, SetupRole::Connecting);
        terms.peer_adverts = peer_adverts;
        let mut script = Script::with(&terms);
        script.conn.want_mode(HalfMode::Pipelined);
        assert_eq!(script.hear().len(), 1);
        for stag in 0..6 {
            script.conn.lend(at(0), 2000, 0, Some(stag));
        }
        let mut adverts = usize::from(peer_adverts);
        assert_eq!(script.hear().len(), adverts);
        while adverts < 6 {
            script.tell(Body::RdmaRdCompl(1999)).unwrap();
            assert_eq!(script.hear(), []);
            script.tell(Body::RdmaRdCompl(1)).unwrap();
            assert_eq!(script.hear().len(), 1);
            adverts += 1;
        }
    }
}

// SDP-MODE-12, SDP-MODE-18, SDP-TRN-07.
#[test]
fn receiving_half_takes_every_mechanism_of_its_mode() {
    for (mode, sample) in [(HalfMode::Combined, 10), (HalfMode::Pipelined, 0)] {
        let mut script = receiving_in(mode);
        // A Transaction takes the half where we send.
        script.conn.want_mode(HalfMode::Pipelined);
        assert_eq!(script.hear(), [(change(false, HalfMode::Pipelined), 0)]);
        assert_eq!(script.data(900), Ok(RxPlan::Queue { off: 16, len: 900 }));
        let plan = sink_avail(&mut script, 0, 500);
        assert_eq!(plan, Ok(RxPlan::Queue { off: 36, len: 500 }));
        assert!(script.src_avail(5000, sample).is_ok());
        assert_eq!(
            script.conn.consumed(at(0), 900),
            Some(2 - u16::from(sample > 0))
        );
        assert_eq!(script.conn.readable_octets(), u64::from(500 + sample));
        if mode == HalfMode::Pipelined {
            assert!(script.src_avail(5000, 0).is_ok());
        }
    }
}

// SDP-BSDH-09, SDP-BSDH-10, SDP-BSDH-13, SDP-BSDH-14, SDP-M30-1, AMB-66, TST-210: we do not follow
// it.
#[test]
fn hint_of_the_peer_for_a_mode_changes_nothing() {
    let hint = BsdhFlags {
        wants_pipelined: true,
        ..BsdhFlags::default()
    };
    for (body, payload) in [
        (DATA, 3),
        (DATA, 0),
        (Body::RdmaRdCompl(10), 0),
        (Body::SendSm, 0),
        (Body::DisConn, 0),
    ] {
        let mut script = advertising();
        assert!(script.tell_all(hint, body, payload, None).is_ok());
        assert_eq!(script.conn.send_mode(), HalfMode::Combined);
        let heard = script.hear();
        assert!(heard.iter().all(|message| message.0 == DATA), "{body:?}");
    }
    let mut script = sending_in(HalfMode::Buffered);
    assert!(script.tell_all(hint, DATA, 3, None).is_ok());
    assert_eq!(script.hear(), []);
}

// SDP-BSDH-11, SDP-BSDH-12.
#[test]
fn hint_for_a_mode_is_never_given() {
    let mut script = advertising();
    script.conn.set_prompt(true);
    let mut mids = vec![];
    let mut hear = |script: &mut Script| {
        while let Some((message, _)) = script.hear_all() {
            assert!(!message.flags.wants_pipelined);
            mids.push(message.body.mid());
        }
    };
    script.src_avail(3000, 10).unwrap();
    let _ = script.conn.consumed(at(0), 10);
    let read = script.conn.begin_read(at(0), ReadTo::Reader, 500);
    assert!(read.is_some());
    script.conn.handle_read(at(0));
    script.conn.refuse_advert(at(0));
    hear(&mut script);
    script.tell(Body::ChRcvBuf(1016)).unwrap();
    hear(&mut script);
    script.conn.revoke_sources(at(0));
    hear(&mut script);
    script.tell(Body::SendSm).unwrap();
    hear(&mut script);
    script.conn.want_mode(HalfMode::Pipelined);
    script.conn.shutdown_send();
    hear(&mut script);
    let want = [
        Mid::RdmaRdCompl,
        Mid::SendSm,
        Mid::ChRcvBufAck,
        Mid::SrcAvailCancel,
        Mid::Data,
        Mid::Data,
        Mid::Data,
        Mid::ModeChange,
        Mid::DisConn,
    ];
    assert_eq!(mids, want);
}
