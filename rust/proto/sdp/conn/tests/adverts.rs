// SPDX-License-Identifier: GPL-2.0

//! SrcAvail of both ends: reads, refusals, cancels.

use super::*;

const DATA: Body = Body::Data;

/// A connection whose stream begins with lent memory of 10000 octets, which it has advertised.
fn advertised() -> Script {
    let mut script = Script::new();
    let place = script.conn.lend(at(0), 10_000, 0x9000, Some(0x42));
    assert_eq!(place, Some(0));
    let (message, out) = script.hear_all().unwrap();
    let advert = Advert {
        len: 10_000,
        stag: 0x42,
        va: 0x9000,
    };
    assert_eq!(
        (message.body, message.payload),
        (Body::SrcAvail(advert), 512)
    );
    assert_eq!(out.register, Some(0));
    assert!(out.signal && !out.solicited);
    script.conn.handle_sent(at(0), out.token);
    script
}

/// Gives back what is free; whether that was all lent memory.
fn releases(script: &mut Script) -> bool {
    while let Some(place) = script.conn.poll_invalidate() {
        assert_eq!(script.conn.poll_release(), None);
        script.conn.handle_invalidated(place);
    }
    while script.conn.poll_release().is_some() {}
    !script.conn.has_lent()
}

// SDP-SRC-06, SDP-SRC-07, SDP-RZS-01, SDP-RZS-03, SDP-RZS-05 to SDP-RZS-07, SDP-RZS-09, SDP-RZS-12,
// SDP-MODE-11, SDP-MODE-13 to SDP-MODE-15, SDP-LS-1 to SDP-LS-3, TST-102, TST-105, TST-108.
#[test]
fn advert_is_read_in_parts_and_released_at_its_end() {
    let mut script = advertised();
    script.conn.write(at(0), 100);
    assert_eq!(script.hear(), []);
    script.tell(Body::RdmaRdCompl(9000)).unwrap();
    assert_eq!(script.hear(), []);
    assert!(!releases(&mut script));
    script.tell(Body::RdmaRdCompl(488)).unwrap();
    assert_eq!(script.hear(), [(DATA, 100)]);
    assert!(releases(&mut script));
}

// SDP-STAG-01, SDP-RZS-11, SDP-ERR-05, TST-104.
#[test]
fn report_may_invalidate_only_the_key_that_it_completes() {
    let mut script = advertised();
    let report = |script: &mut Script, count, stag| {
        script.tell_all(
            BsdhFlags::default(),
            Body::RdmaRdCompl(count),
            0,
            Some(stag),
        )
    };
    let wrong = Err(SdpViolation::Invalidated);
    assert_eq!(report(&mut script.clone(), 9488, 0x43), wrong);
    assert_eq!(report(&mut script.clone(), 9000, 0x42), wrong);
    let data = script
        .clone()
        .tell_all(BsdhFlags::default(), DATA, 0, Some(0x42));
    assert_eq!(data, wrong);
    assert!(report(&mut script, 9488, 0x42).is_ok());
    assert_eq!(script.conn.poll_invalidate(), None);
    assert!(releases(&mut script));
}

// SDP-RZS-17, SDP-ERR-07, TST-107.
#[test]
fn report_or_refusal_of_nothing_is_a_violation() {
    let none = Err(SdpViolation::NoSrcAvail);
    assert_eq!(Script::new().tell(Body::RdmaRdCompl(1)), none);
    assert_eq!(Script::new().tell(Body::SendSm), none);
    let much = Err(SdpViolation::ReadTooMuch);
    assert_eq!(advertised().tell(Body::RdmaRdCompl(9489)), much);
    let sink = Err(SdpViolation::NoSinkAvail);
    assert_eq!(Script::new().tell(Body::RdmaWrCompl(1)), sink);
    assert_eq!(Script::new().tell(Body::SinkCancelAck), sink);
}

// SDP-RZS-13 to SDP-RZS-16, SDP-FBK-02, SDP-STAG-05, TST-103.
#[test]
fn rest_of_a_refused_advert_goes_as_data_from_lent_memory() {
    let mut script = advertised();
    script.tell(Body::RdmaRdCompl(8000)).unwrap();
    script.tell(Body::SendSm).unwrap();
    let mut off = 8512;
    while let Some((message, out)) = script.hear_all() {
        let len = message.payload;
        assert_eq!(out.payload, PayloadFrom::Lent { place: 0, off, len });
        off += u64::from(len);
        script.conn.handle_sent(at(0), out.token);
    }
    assert_eq!(off, 10_000);
    assert!(releases(&mut script));
}

// SDP-BUFP-09, SDP-MODE-02, SDP-MODE-10: below the threshold, or without a key, lent memory goes as
// Data.
#[test]
fn small_lent_memory_is_gathered() {
    for (len, stag) in [(1999, Some(1)), (3000, None)] {
        let mut script = Script::new();
        script.conn.lend(at(0), len, 0, stag);
        let heard = script.hear();
        assert!(heard.iter().all(|message| message.0 == DATA));
        assert!(releases(&mut script));
    }
}

// SDP-BSDH-04, SDP-OOB-13, TST-233: the urgent octet is never part of an advert.
#[test]
fn advert_ends_before_an_urgent_octet() {
    let mut script = Script::new();
    script.conn.lend(at(0), 5000, 0, Some(7));
    script.conn.mark_urgent();
    let (message, _) = script.hear_all().unwrap();
    assert!(matches!(message.body, Body::SrcAvail(advert) if advert.len == 4999));
    assert!(message.flags.urgent_pending);
    script.tell(Body::RdmaRdCompl(4999 - 512)).unwrap();
    let (message, _) = script.hear_all().unwrap();
    assert!(message.flags.urgent_present && message.payload == 1);
}

// SDP-SRCX-01, SDP-SRCX-12, AMB-12, AMB-14, SDP-LS-6, TST-170, TST-183.
#[test]
fn cancelled_advert_is_unsent_data_again() {
    let mut script = advertised();
    script.tell(Body::RdmaRdCompl(1000)).unwrap();
    assert!(script.conn.revoke_sources(at(0)));
    assert_eq!(script.hear(), [(Body::SrcAvailCancel, 0)]);
    assert!(script.conn.retract(0).is_none());
    script.tell(Body::RdmaRdCompl(500)).unwrap();
    script.tell(Body::SendSm).unwrap();
    assert_eq!(script.conn.retract(0), Some(10_000 - 512 - 1500));
    assert!(releases(&mut script));
    assert_eq!(script.hear(), []);
}

// SDP-SRCX-14, AMB-13, R-5, TST-175.
#[test]
fn refusal_that_crossed_the_cancel_leaves_its_rest_to_be_sent() {
    let mut script = advertised();
    script.conn.revoke_sources(at(0));
    let before = script.ack;
    let (message, _) = script.hear_all().unwrap();
    assert_eq!(message.body, Body::SrcAvailCancel);
    script.ack = before;
    script.tell(Body::SendSm).unwrap();
    assert_eq!(script.conn.retract(0), Some(0));
    let sum: u32 = script.hear().iter().map(|message| message.1).sum();
    script.data(0).unwrap();
    let rest: u32 = script.hear().iter().map(|message| message.1).sum();
    assert_eq!(sum + rest, 10_000 - 512);
    // A late answer to the cancel is ignored once.
    script.tell(Body::SendSm).unwrap();
    let again = script.tell(Body::SendSm);
    assert_eq!(again, Err(SdpViolation::NoSrcAvail));
}

// SDP-SRCX-12: all adverts may be read although the cancel was sent.
#[test]
fn cancel_is_processed_by_the_last_report() {
    let mut script = advertised();
    script.conn.revoke_sources(at(0));
    assert_eq!(script.hear(), [(Body::SrcAvailCancel, 0)]);
    assert!(script.conn.cancel_at.is_some());
    script.tell(Body::RdmaRdCompl(9488)).unwrap();
    assert!(script.conn.cancel_at.is_none());
    assert!(releases(&mut script));
}

// R-4, SDP-TMR-8.
#[test]
fn advert_without_an_answer_is_cancelled_and_then_the_connection_aborted() {
    let mut script = advertised();
    script.wait(999);
    assert_eq!(script.hear(), []);
    script.wait(1);
    assert_eq!(script.hear(), [(Body::SrcAvailCancel, 0)]);
    script.wait(9_999);
    assert_eq!(script.conn.read_error(), None);
    script.wait(1);
    assert_eq!(script.conn.read_error(), Some(EndError::TimedOut));
    assert!(!releases(&mut script.clone()));
    script.conn.handle_link_down(script.now);
    assert!(releases(&mut script));
}

/// A connection that has an advert of the peer of 10000 octets with 100 of payload.
fn offered() -> Script {
    let mut script = Script::new();
    let plan = script.src_avail(10_000, 100);
    assert_eq!(plan, Ok(RxPlan::Queue { off: 32, len: 100 }));
    script
}

fn read(script: &mut Script, to: ReadTo, room: u32) -> Option<(u64, u32)> {
    let op = script.conn.begin_read(at(0), to, room)?;
    assert_eq!((op.to, op.advert.stag), (to, 0x77));
    Some((op.advert.va, op.advert.len))
}

// SDP-RZK-02, SDP-RZK-04, SDP-RZK-06 to SDP-RZK-09, SDP-RZK-12 to SDP-RZK-14, SDP-RZK-17,
// SDP-RZK-18, SDP-RDC-03 to SDP-RDC-05, SDP-MODE-29, SDP-LK-3, SDP-LK-4, TST-100 to TST-102,
// TST-115.
#[test]
fn advert_of_the_peer_is_read_behind_its_payload() {
    let mut script = offered();
    assert_eq!(read(&mut script, ReadTo::Reader, 5000), None);
    assert_eq!(script.conn.consumed(at(0), 100), Some(1));
    assert_eq!(script.conn.next_received(), SinkItem::Advert { left: 9900 });
    assert_eq!(
        read(&mut script, ReadTo::Reader, 5000),
        Some((0x5000 + 100, 5000))
    );
    assert_eq!(script.hear(), []);
    assert_eq!(script.conn.handle_read(at(0)), 5000);
    let (message, out) = script.hear_all().unwrap();
    assert_eq!(message.body, Body::RdmaRdCompl(5000));
    assert!(out.solicited && out.invalidate.is_none());
    assert_eq!(
        read(&mut script, ReadTo::Reader, 9000),
        Some((0x5000 + 5100, 4900))
    );
    assert_eq!(script.conn.handle_read(at(0)), 4900);
    let (message, out) = script.hear_all().unwrap();
    assert_eq!(message.body, Body::RdmaRdCompl(4900));
    assert!(out.solicited);
    assert_eq!(out.invalidate, Some(0x77));
    assert_eq!(script.conn.next_received(), SinkItem::Nothing);
    assert_eq!(script.data(10), Ok(RxPlan::Queue { off: 16, len: 10 }));
}

// SDP-IB-10: without the capability no key is invalidated.
#[test]
fn final_report_to_a_peer_without_the_capability_invalidates_nothing() {
    let mut terms = terms(SdpTransport::Annex, SetupRole::Accepting);
    terms.invalidates = false;
    let mut script = Script::with(&terms);
    script.src_avail(3000, 100).unwrap();
    assert!(read(&mut script, ReadTo::Buffer(90), 2900).is_some());
    script.conn.handle_read(at(0));
    let (message, out) = script.hear_all().unwrap();
    assert_eq!(message.body, Body::RdmaRdCompl(2900));
    assert_eq!(out.invalidate, None);
}

// SDP-RZK-05, SDP-RZK-23, TST-111.
#[test]
fn prefetched_octets_are_queued_in_order_and_reads_are_limited() {
    let mut script = offered();
    for slot in 0..4 {
        assert!(read(&mut script, ReadTo::Buffer(90 + slot), 1000).is_some());
    }
    assert_eq!(read(&mut script, ReadTo::Buffer(99), 1000), None);
    for _ in 0..4 {
        assert_eq!(script.conn.handle_read(at(0)), 0);
    }
    assert_eq!(script.hear(), [(Body::RdmaRdCompl(4000), 0)]);
    let mut slots = vec![];
    while let SinkItem::Octets { slot, len, .. } = script.conn.next_received() {
        slots.push((slot, len));
        let _ = script.conn.consumed(at(0), len);
    }
    assert_eq!(
        slots,
        [(1, 100), (90, 1000), (91, 1000), (92, 1000), (93, 1000)]
    );
}

// SDP-SSM-01, SDP-RZK-03, SDP-RZK-15, SDP-RZK-19, SDP-RZK-20, SDP-FBK-01, SDP-LK-5, TST-103.
#[test]
fn refused_rest_comes_as_data_before_anything_else() {
    let mut script = offered();
    let _ = script.conn.consumed(at(0), 100);
    assert!(read(&mut script, ReadTo::Reader, 4000).is_some());
    script.conn.refuse_advert(at(0));
    assert_eq!(script.hear(), []);
    script.conn.handle_read(at(0));
    assert_eq!(
        script.hear(),
        [(Body::RdmaRdCompl(4000), 0), (Body::SendSm, 0)]
    );
    assert!(!script.conn.sink.is_reserved());
    let second = script.clone().src_avail(5000, 100);
    assert_eq!(second, Err(SdpViolation::SecondSrcAvail));
    for _ in 0..5 {
        script.data(1000).unwrap();
        let _ = script.conn.consumed(at(0), 1000);
        script.post();
    }
    assert!(script.clone().src_avail(5000, 100).is_err());
    script.data(900).unwrap();
    assert!(script.src_avail(5000, 100).is_ok());
}

#[test]
fn advert_that_is_all_payload_is_ended_by_a_refusal() {
    let mut script = Script::new();
    script.src_avail(100, 100).unwrap();
    assert_eq!(script.hear(), [(Body::SendSm, 0)]);
    assert!(script.data(5).is_ok());
}

// SDP-MODE-13, SDP-MODE-14, SDP-ERR-10, SDP-ERR-13.
#[test]
fn payload_or_advert_behind_an_advert_is_a_violation() {
    let behind = Err(SdpViolation::PayloadBehindSrcAvail);
    assert_eq!(offered().data(1), behind);
    assert!(offered().data(0).is_ok());
    let second = Err(SdpViolation::SecondSrcAvail);
    assert_eq!(offered().src_avail(500, 1), second);
    let mode = Err(SdpViolation::SrcAvailMode);
    assert_eq!(Script::new().src_avail(500, 0), mode);
}

// SDP-SRCX-03, SDP-SRCX-05, SDP-SRCX-10, SDP-LK-6.
#[test]
fn cancel_of_an_advert_that_is_not_begun_has_one_refusal() {
    let mut script = offered();
    script.tell(Body::SrcAvailCancel).unwrap();
    let (message, out) = script.hear_all().unwrap();
    assert_eq!(
        (message.body, message.mseq_ack),
        (Body::SendSm, Serial::new(2))
    );
    assert!(out.solicited);
    assert_eq!(script.hear(), []);
    // Nothing is owed (AMB-12); payload stays (AMB-14); a late cancel is ignored.
    assert_eq!(script.conn.readable_octets(), 100);
    script.tell(Body::SrcAvailCancel).unwrap();
    assert_eq!(script.hear(), []);
    assert!(script.src_avail(5000, 100).is_ok());
}

// SDP-SRCX-04, SDP-SRCX-06 to SDP-SRCX-10, SDP-SRCX-15, SDP-LK-7.
#[test]
fn cancel_during_a_read_holds_acknowledgements_until_the_report() {
    let mut script = offered();
    let _ = script.conn.consumed(at(0), 100);
    assert!(read(&mut script, ReadTo::Reader, 4000).is_some());
    script.tell(Body::SrcAvailCancel).unwrap();
    assert_eq!(read(&mut script, ReadTo::Reader, 4000), None);
    script.conn.write(at(0), 10);
    let (message, _) = script.hear_all().unwrap();
    assert_eq!(message.mseq_ack, Serial::new(1));
    script.conn.handle_read(at(0));
    let (message, out) = script.hear_all().unwrap();
    assert_eq!(
        (message.body, message.mseq_ack),
        (Body::RdmaRdCompl(4000), Serial::new(1))
    );
    assert_eq!(out.invalidate, None);
    let (message, _) = script.hear_all().unwrap();
    assert_eq!(
        (message.body, message.mseq_ack),
        (Body::SendSm, Serial::new(2))
    );
    assert_eq!(script.hear(), []);
}

// SDP-SRCX-12: nothing was cut off, so that no refusal follows.
#[test]
fn cancel_during_the_last_read_has_a_report_only() {
    let mut script = offered();
    let _ = script.conn.consumed(at(0), 100);
    assert!(read(&mut script, ReadTo::Reader, 9900).is_some());
    script.tell(Body::SrcAvailCancel).unwrap();
    script.conn.handle_read(at(0));
    assert_eq!(script.hear(), [(Body::RdmaRdCompl(9900), 0)]);
    assert!(script.data(1).is_ok());
}

// R-7, SDP-SRCX-17: the hardest race. The refusal was decided, and had no credit.
#[test]
fn refusal_that_was_not_sent_is_replaced_by_the_one_for_the_cancel() {
    let mut script = offered();
    script.bufs = 0;
    script.data(0).unwrap();
    script.conn.refuse_advert(at(0));
    assert_eq!(script.hear(), []);
    script.bufs = 10;
    script.tell(Body::SrcAvailCancel).unwrap();
    assert_eq!(script.hear(), [(Body::SendSm, 0)]);
    // Nothing is owed: a new advert is no violation.
    assert!(script.src_avail(5000, 100).is_ok());
}

// SDP-DL-01 to SDP-DL-03, SDP-TMR-8, TST-114.
#[test]
fn adverts_of_both_ends_without_readers_are_resolved() {
    let mut script = advertised();
    script.src_avail(10_000, 100).unwrap();
    script.wait(99);
    assert_eq!(script.hear(), []);
    script.wait(1);
    assert_eq!(script.hear(), [(Body::SendSm, 0)]);
}

// SDP-CLS-28: our adverts are not touched by the peer's DisConn.
#[test]
fn peer_that_has_ended_reads_on() {
    let mut script = advertised();
    script.tell(Body::DisConn).unwrap();
    script.tell(Body::RdmaRdCompl(9488)).unwrap();
    assert!(releases(&mut script));
}

// SDP-SSM-01, SDP-GEN-21, SDP-RZK-22, TST-083: a shut reader refuses, and drops what comes.
#[test]
fn shut_reader_refuses_adverts_and_drops_data() {
    let mut script = offered();
    assert_eq!(script.conn.shutdown_receive(), Some(1));
    assert_eq!(script.conn.shutdown_receive(), None);
    assert_eq!(script.hear(), [(Body::SendSm, 0)]);
    assert_eq!(script.data(1000), Ok(RxPlan::Free));
    assert_eq!(script.conn.next_received(), SinkItem::Nothing);
}

// SDP-RZK-10, SDP-RZK-11, SDP-RZK-21, SDP-MODE-23.
#[test]
fn adverts_of_the_peer_are_read_and_reported_one_after_the_other() {
    let mut script = Script::new();
    let mode = Body::ModeChange {
        receiver_sends: false,
        mode: HalfMode::Pipelined,
    };
    script.tell(mode).unwrap();
    for stag in [1, 2, 3] {
        let advert = Advert {
            len: 3000,
            stag,
            va: 0,
        };
        script.tell(Body::SrcAvail(advert)).unwrap();
    }
    for stag in [1, 2, 3] {
        for want in [Some((stag, 2000)), Some((stag, 1000)), None] {
            let op = script.conn.begin_read(at(0), ReadTo::Reader, 2000);
            assert_eq!(op.map(|op| (op.advert.stag, op.advert.len)), want);
        }
        // No report while a read is in flight, as it would be one for a part only.
        script.conn.handle_read(at(0));
        assert!(script.hear_all().is_none());
        script.conn.handle_read(at(0));
        let (message, out) = script.hear_all().unwrap();
        assert_eq!(message.body, Body::RdmaRdCompl(3000));
        assert_eq!(out.invalidate, Some(stag));
    }
}

// SDP-SRCX-11, TST-174.
#[test]
fn no_advert_is_sent_before_the_cancel_is_processed() {
    let mut script = advertised();
    script.conn.lend(at(0), 3000, 0, Some(0x43));
    script.conn.revoke_sources(at(0));
    assert_eq!(script.hear(), [(Body::SrcAvailCancel, 0)]);
    script.tell(Body::RdmaRdCompl(9000)).unwrap();
    assert_eq!(script.hear(), []);
    script.tell(Body::SendSm).unwrap();
    let heard = script.hear();
    assert_eq!(heard[0], (DATA, 488));
    assert!(matches!(heard[1], (Body::SrcAvail(advert), _) if advert.stag == 0x43));
}

// SDP-SRC-05, TST-112.
#[test]
fn advert_may_begin_at_any_octet() {
    for shift in 0..64 {
        let mut script = Script::new();
        script.conn.lend(at(0), 2001, 0x9000 + shift, Some(1));
        let (message, _) = script.hear_all().unwrap();
        let advert = Advert {
            len: 2001,
            stag: 1,
            va: 0x9000 + shift,
        };
        assert_eq!(message.body, Body::SrcAvail(advert));
        let theirs = Advert {
            stag: 0x77,
            ..advert
        };
        script
            .tell_all(BsdhFlags::default(), Body::SrcAvail(theirs), 7, None)
            .unwrap();
        let _ = script.conn.consumed(at(0), 7);
        let found = read(&mut script, ReadTo::Reader, 3);
        assert_eq!(found, Some((0x9000 + shift + 7, 3)));
    }
}

// SDP-CLS-03, SDP-CLS-06, TST-252.
#[test]
fn end_waits_until_the_advert_is_processed() {
    let mut script = advertised();
    script.conn.shutdown_send();
    script.tell(Body::RdmaRdCompl(9000)).unwrap();
    assert_eq!(script.hear(), []);
    let mut refused = script.clone();
    script.tell(Body::RdmaRdCompl(488)).unwrap();
    assert_eq!(script.hear(), [(Body::DisConn, 0)]);
    refused.tell(Body::SendSm).unwrap();
    assert_eq!(refused.hear(), [(DATA, 488), (Body::DisConn, 0)]);
    assert!(!script.conn.poll_take_down() && !refused.conn.poll_take_down());
}
