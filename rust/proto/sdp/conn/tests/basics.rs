// SPDX-License-Identifier: GPL-2.0

//! Bcopy, credits, urgent data and the end.

use super::*;

const DATA: Body = Body::Data;

// SDP-GEN-18, SDP-BC-01, SDP-BC-03, SDP-BUFP-06, SDP-BUFP-12, SDP-BUFP-13, SDP-CRED-30.
#[test]
fn stream_goes_in_messages_of_the_peers_size_and_keeps_two_credits() {
    let mut script = Script::new();
    script.conn.write(at(0), 2500);
    assert_eq!(script.hear(), [(DATA, 1000), (DATA, 1000), (DATA, 500)]);
    script.conn.write(at(0), 20_000);
    let heard = script.hear();
    // Ten credits at the start, of which two are kept.
    assert_eq!(heard.len(), 5);
    assert_eq!(script.conn.tx.available(), 2);
    script.data(0).unwrap();
    assert_eq!(script.hear().len(), 8);
}

// SDP-BSDH-16, SDP-BSDH-18, SDP-BSDH-20, SDP-BSDH-21, SDP-BSDH-23, SDP-SE-02.
#[test]
fn header_is_made_when_the_message_is_posted() {
    let mut script = Script::new();
    script.posts = false;
    script.conn.write(at(0), 10);
    script.data(7).unwrap();
    script.data(0).unwrap();
    let (message, out) = script.hear_all().unwrap();
    assert_eq!(
        (message.mseq, message.mseq_ack),
        (Serial::new(1), Serial::new(2))
    );
    assert_eq!((message.bufs, message.payload), (8, 10));
    assert!(!out.solicited && out.signal && out.invalidate.is_none());
    let header = [0xff, 0, 0, 8, 0, 0, 0, 26, 0, 0, 0, 1, 0, 0, 0, 2];
    assert_eq!(out.header.as_slice(), header);
}

#[test]
fn ring_is_free_when_its_data_is_completed() {
    let mut script = Script::new();
    script.conn.write(at(0), 3000);
    assert_eq!(script.conn.send_room(), 65536 - 3000);
    let mut tokens = vec![];
    while let Some((_, out)) = script.hear_all() {
        tokens.push((out.token, out.signal));
    }
    // The last one is signalled, and stands for the others.
    assert_eq!(
        tokens.iter().map(|token| token.1).collect::<Vec<_>>(),
        [false, false, true]
    );
    script.conn.handle_sent(at(0), tokens[1].0);
    assert_eq!(script.conn.send_room(), 65536 - 1000);
    script.conn.handle_sent(at(0), tokens[2].0);
    assert_eq!(script.conn.send_room(), 65536);
}

#[test]
fn full_ring_goes_in_full_messages() {
    let terms = SdpTerms {
        peer_size: 8192,
        ..terms(SdpTransport::Annex, SetupRole::Connecting)
    };
    let mut script = Script::with(&terms);
    // 8 messages of 8176 octets leave 128 of the ring.
    assert_eq!(script.conn.send_room(), 65536 - 128);
    script.conn.write(at(0), u32::MAX);
    assert_eq!(
        (script.conn.send_room(), script.conn.outstanding()),
        (0, 65536 - 128)
    );
    let mut payloads = vec![];
    let mut last = None;
    while let Some((message, out)) = script.hear_all() {
        payloads.push(message.payload);
        last = Some(out.token);
    }
    assert_eq!(payloads, [8176; 8]);
    script.conn.handle_sent(at(0), last.unwrap());
    assert_eq!(
        (script.conn.send_room(), script.conn.outstanding()),
        (65536 - 128, 0)
    );
}

// A writer that is woken and finds no room would sleep on, and nothing would wake it again.
#[test]
fn completion_that_frees_nothing_does_not_wake_a_writer() {
    let mut script = Script::new();
    script.conn.write(at(0), 65536);
    let mut last = None;
    while let Some((_, out)) = script.hear_all() {
        last = Some(out.token);
    }
    script.conn.handle_sent(at(0), last.unwrap());
    assert!(script.conn.take_events().writable);
    let room = script.conn.send_room();
    assert_eq!(room, 8000);
    script.conn.write(at(0), room);
    // The peer has no buffers for payload. Its own data is answered.
    script.bufs = 2;
    for _ in 0..6 {
        script.data(900).unwrap();
        let _ = script.conn.consumed(at(0), 900);
        script.post();
    }
    let (message, update) = script.hear_all().unwrap();
    assert_eq!((message.body, message.payload), (DATA, 0));
    let _ = script.conn.take_events();
    script.conn.handle_sent(at(0), update.token);
    assert_eq!(script.conn.send_room(), 0);
    assert!(!script.conn.take_events().writable);
}

#[test]
fn ring_wraps_into_a_second_segment() {
    let mut script = Script::new();
    for millis in 0..66 {
        script.conn.write(at(millis), 999);
        let (_, out) = script.hear_all().unwrap();
        script.conn.handle_sent(at(0), out.token);
        if let PayloadFrom::Ring([first, second]) = out.payload {
            assert_eq!(first.len + second.len, 999);
            assert!(second.len == 0 || first.off + first.len == 65536 && second.off == 0);
        }
        script.data(0).unwrap();
    }
    let [first, second] = script.conn.send_segments(65536);
    assert_eq!(
        (first.off, first.len + second.len),
        (66 * 999 - 65536, 65536)
    );
}

#[test]
fn message_ends_with_the_ring_when_it_may_not_wrap() {
    let mut script = Script::new();
    let config = SdpConfig {
        wraps: false,
        most_buffer: 1016,
        ..config()
    };
    let terms = terms(SdpTransport::Annex, SetupRole::Connecting);
    script.conn = SdpConn::new(at(0), config, &terms);
    // Also a corked writer's, though the message is not full.
    script.conn.set_corked(true);
    let mut sent = 0;
    while sent < 70_000 {
        script.conn.write(at(0), 1000);
        while let Some((message, out)) = script.hear_all() {
            let place = sent % 65536;
            let whole = (65536 - place).min(1000);
            assert_eq!(message.payload, whole);
            let PayloadFrom::Ring([first, second]) = out.payload else {
                panic!("{:?}", out.payload);
            };
            assert_eq!((first.off, first.len, second.len), (place, whole, 0));
            script.conn.handle_sent(at(0), out.token);
            script.data(0).unwrap();
            sent += whole;
        }
    }
}

// SDP-MTU-03.
#[test]
fn corked_data_waits_for_a_full_message() {
    let mut script = Script::new();
    script.conn.set_corked(true);
    script.conn.write(at(0), 1400);
    assert_eq!(script.hear(), [(DATA, 1000)]);
    script.conn.set_corked(false);
    assert_eq!(script.hear(), [(DATA, 400)]);
}

// A ring that is smaller than the peer's buffers holds no full message.
#[test]
fn corked_data_that_fills_the_ring_goes() {
    let terms = SdpTerms {
        peer_size: 1 << 20,
        ..terms(SdpTransport::Annex, SetupRole::Connecting)
    };
    let mut script = Script::with(&terms);
    script.conn.set_corked(true);
    script.conn.write(at(0), 65535);
    assert!(script.hear().is_empty());
    script.conn.write(at(0), 1);
    assert_eq!(script.hear(), [(DATA, 65536)]);
}

// SDP-MTU-03.
#[test]
fn small_data_waits_for_data_in_flight() {
    let mut script = Script::new();
    // Writes are no burst.
    let mut millis = 0;
    let mut send = |script: &mut Script, count| {
        millis += 1;
        script.conn.write(at(millis), count);
        let mut heard = vec![];
        while let Some((message, out)) = script.hear_all() {
            heard.push((message.payload, out));
        }
        heard
    };
    let sizes = |heard: &[(u32, Outbound)]| heard.iter().map(|one| one.0).collect::<Vec<_>>();
    // Nothing is in flight: it goes, and its completion is asked for.
    let first = send(&mut script, 10);
    assert_eq!(sizes(&first), [10]);
    assert!(first[0].1.signal && !script.conn.is_gathering());
    assert_eq!(sizes(&send(&mut script, 20)), []);
    assert!(script.conn.is_gathering());
    // Full messages go, and the last one stands for what waits behind it.
    let full = send(&mut script, 2000);
    assert_eq!(sizes(&full), [1000, 1000]);
    assert!(!full[0].1.signal && full[1].1.signal);
    script.conn.handle_sent(at(0), first[0].1.token);
    assert_eq!(sizes(&send(&mut script, 5)), []);
    script.conn.handle_sent(at(0), full[1].1.token);
    let rest = send(&mut script, 0);
    assert_eq!(sizes(&rest), [25]);
    // The peer's acknowledgement does as well as the completion.
    assert_eq!(sizes(&send(&mut script, 1)), []);
    script.data(7).unwrap();
    assert_eq!(sizes(&send(&mut script, 0)), [1]);
    // TCP_NODELAY, and the end.
    script.conn.set_prompt(true);
    assert_eq!(sizes(&send(&mut script, 2)), [2]);
    script.conn.set_prompt(false);
    assert_eq!(sizes(&send(&mut script, 3)), []);
    script.conn.shutdown_send();
    assert_eq!(script.hear(), [(DATA, 3), (Body::DisConn, 0)]);
}

// SDP-MTU-03.
#[test]
fn burst_of_small_writes_is_held() {
    let mut script = Script::new();
    let after = |micros: u64| Instant::from_nanos(micros * 1_000);
    let mut sizes = vec![];
    // The link completes a message before the next write.
    for n in 0..20 {
        script.conn.write(after(n), 10);
        sizes.extend(script.hear().into_iter().map(|(_, payload)| payload));
    }
    assert_eq!(sizes, [10, 10]);
    assert!(script.conn.is_gathering());
    let until = script.conn.poll_coalesced().unwrap();
    assert!(until > after(20) && until < after(200));
    script.conn.handle_coalesced(after(20));
    assert_eq!(script.hear(), []);
    script.conn.handle_coalesced(until);
    assert_eq!(script.conn.poll_coalesced(), None);
    assert_eq!(script.hear(), [(DATA, 180)]);
    // A full message goes, as does what the application does not want to wait.
    for (n, end) in [
        SdpConn::on_empty_read as fn(&mut SdpConn),
        |conn| conn.set_prompt(true),
        |conn| conn.set_corked(true),
        SdpConn::shutdown_send,
    ]
    .into_iter()
    .enumerate()
    {
        let mut script = Script::new();
        for _ in 0..3 {
            script.conn.write(at(0), 10);
            let _ = script.hear();
        }
        assert!(script.conn.poll_coalesced().is_some(), "{n}");
        end(&mut script.conn);
        assert_eq!(script.conn.poll_coalesced(), None, "{n}");
    }
    let mut script = Script::new();
    for size in [10, 10, 1990] {
        script.conn.write(at(0), size);
        let _ = script.hear();
    }
    assert_eq!(script.conn.unsent(), 0);
    assert_eq!(script.conn.poll_coalesced(), None);
}

// SDP-BC-06, SDP-UBUF-04, TST-085.
#[test]
fn small_messages_share_a_buffer() {
    let mut script = Script::new();
    assert_eq!(script.data(100), Ok(RxPlan::Queue { off: 16, len: 100 }));
    let append = RxPlan::Append {
        slot: 1,
        at: 116,
        off: 16,
        len: 50,
    };
    assert_eq!(script.data(50), Ok(append));
    assert_eq!(script.data(1000), Ok(RxPlan::Queue { off: 16, len: 1000 }));
    let octets = |slot, off, len| SinkItem::Octets {
        slot,
        off,
        len,
        is_marked: false,
    };
    assert_eq!(script.conn.next_received(), octets(1, 16, 150));
    assert_eq!(script.conn.consumed(at(0), 120), None);
    assert_eq!(script.conn.next_received(), octets(1, 136, 30));
    assert_eq!(script.conn.consumed(at(0), 30), Some(1));
    assert_eq!(script.conn.next_received(), octets(3, 16, 1000));
}

// SDP-CRED-39: data that waits for a slow reader never takes the last two buffers.
#[test]
fn queued_data_keeps_its_buffer_until_it_is_read() {
    let mut script = Script::new();
    for count in 0..8 {
        assert_eq!(script.conn.sink.queued(), count);
        script.data(1000).unwrap();
    }
    assert_eq!(script.conn.wanted_buffers(), 0);
    assert_eq!(script.conn.rx.posted(), 2);
    let reserve = SdpViolation::Credit(super::super::super::credit::CreditFault::Reserve);
    assert_eq!(script.clone().data(1), Err(reserve));
    script.data(0).unwrap();
    assert_eq!(script.conn.consumed(at(0), 1000), Some(1));
    assert_eq!(script.post(), 1);
}

// SDP-CRED-21, SDP-CRED-34, SDP-CRED-35, SDP-DATA-03, TST-043.
#[test]
fn one_way_stream_is_answered_by_updates_alone() {
    let mut script = Script::new();
    let mut updates = 0;
    for count in 0..40 {
        script.data(900).unwrap();
        let _ = script.conn.consumed(at(0), 900);
        script.post();
        let heard = script.hear();
        assert!(heard.iter().all(|message| *message == (DATA, 0)));
        updates += heard.len();
        assert!(script.conn.rx.peer_credit() > 2, "message {count}");
    }
    assert_eq!(updates, 8);
}

// SDP-BSDH-03, SDP-OOB-02, SDP-OOB-03, SDP-OOB-05, SDP-OOB-06, SDP-OOB-08, SDP-OOB-10, SDP-SE-T4,
// TST-230, TST-235.
#[test]
fn urgent_octet_is_announced_and_ends_its_message() {
    let mut script = Script::new();
    script.conn.set_prompt(true);
    script.conn.write(at(0), 1500);
    script.conn.mark_urgent();
    script.conn.write(at(0), 10);
    let mut heard = vec![];
    while let Some((message, out)) = script.hear_all() {
        let flags = message.flags;
        let urgent = (flags.urgent_pending, flags.urgent_present);
        assert_eq!(out.solicited, flags.urgent_pending || flags.urgent_present);
        heard.push((message.payload, urgent));
    }
    let want = [
        (1000, (true, false)),
        (500, (false, true)),
        (10, (false, false)),
    ];
    assert_eq!(heard, want);
}

// SDP-CRED-37, SDP-OOB-04, SDP-OOB-11, TST-052.
#[test]
fn announcement_without_payload_uses_a_reserved_credit() {
    let mut script = Script::new();
    script.conn.write(at(0), 8000);
    assert_eq!(script.hear().len(), 8);
    script.conn.write(at(0), 100);
    script.conn.mark_urgent();
    let (message, out) = script.hear_all().unwrap();
    assert_eq!((message.body, message.payload), (DATA, 0));
    assert!(message.flags.urgent_pending && !message.flags.urgent_present && out.solicited);
    assert!(script.hear_all().is_none());
}

// SDP-OOB-09, AMB-59.
#[test]
fn urgent_octet_of_the_peer_is_marked_and_signalled() {
    let mut script = Script::new();
    let flags = |urgent_pending, urgent_present| BsdhFlags {
        urgent_pending,
        urgent_present,
        wants_pipelined: false,
    };
    script.tell_all(flags(true, false), DATA, 0, None).unwrap();
    assert!(script.conn.take_events().urgent);
    script.tell_all(flags(false, true), DATA, 5, None).unwrap();
    assert!(!script.conn.take_events().urgent);
    // Data behind the mark is not put into the same buffer.
    let next = script.data(5).unwrap();
    assert_eq!(next, RxPlan::Queue { off: 16, len: 5 });
    assert!(matches!(
        script.conn.next_received(),
        SinkItem::Octets {
            len: 5,
            is_marked: true,
            ..
        }
    ));
}

// SDP-CLS-04, SDP-CLS-06, SDP-CLS-08, SDP-CLS-10, SDP-CLS-11, SDP-CLS-15, SDP-SOCK-19, SDP-TS-1,
// SDP-TS-5, TST-251.
#[test]
fn first_end_drains_its_stream_and_leaves_the_link_to_the_peer() {
    let mut script = Script::new();
    script.conn.write(at(0), 10_000);
    script.conn.shutdown_send();
    assert_eq!(script.conn.can_send(), Err(None));
    assert_eq!(script.hear().len(), 8);
    script.data(0).unwrap();
    assert_eq!(
        script.hear(),
        [(DATA, 1000), (DATA, 1000), (Body::DisConn, 0)]
    );
    assert_eq!(script.conn.state(), EndState::FinSent);
    // The other direction goes on (SDP-CLS-05, SDP-CLS-11).
    script.data(10).unwrap();
    script.tell(Body::DisConn).unwrap();
    assert!(matches!(
        script.conn.next_received(),
        SinkItem::Octets { .. }
    ));
    let _ = script.conn.consumed(at(0), 10);
    assert_eq!(script.conn.next_received(), SinkItem::End);
    assert!(!script.conn.poll_take_down());
    script.conn.handle_link_down(at(1));
    assert_eq!(
        (script.conn.state(), script.conn.read_error()),
        (EndState::Closed, None)
    );
}

// SDP-CLS-20, SDP-CLS-22 to SDP-CLS-24, SDP-TS-4.
#[test]
fn second_end_takes_the_link_down_when_its_disconn_is_completed() {
    let mut script = Script::new();
    script.tell(Body::DisConn).unwrap();
    assert_eq!(script.conn.next_received(), SinkItem::End);
    script.conn.write(at(0), 5);
    script.conn.close(at(0));
    let (_, data) = script.hear_all().unwrap();
    let (message, out) = script.hear_all().unwrap();
    assert_eq!(message.body, Body::DisConn);
    assert!(out.signal && !out.solicited);
    script.conn.handle_sent(at(0), data.token);
    assert!(!script.conn.poll_take_down());
    script.conn.handle_sent(at(0), out.token);
    assert!(script.conn.poll_take_down());
    assert_eq!(script.conn.read_error(), None);
}

// SDP-ABT-01, SDP-ABT-08, AMB-37, TST-256, TST-260.
#[test]
fn abort_after_disconn_says_so_and_waits_for_credit() {
    let mut script = Script::new();
    script.conn.write(at(0), 8000);
    script.hear();
    script.conn.shutdown_send();
    assert_eq!(script.hear(), [(Body::DisConn, 0)]);
    script.conn.abort(at(0));
    assert_eq!(script.hear(), []);
    script.bufs = 10;
    script.data(0).unwrap();
    let (message, out) = script.hear_all().unwrap();
    assert_eq!(message.body, Body::AbortConn);
    assert!(out.solicited && !script.conn.poll_take_down());
    script.conn.handle_sent(at(0), out.token);
    assert!(script.conn.poll_take_down());
    assert_eq!(script.conn.read_error(), Some(EndError::Aborted));
}

// SDP-ABT-02, SDP-ABT-03, TST-257.
#[test]
fn abort_before_disconn_takes_the_link_down_in_silence() {
    let mut script = Script::new();
    script.conn.write(at(0), 100);
    script.conn.abort(at(0));
    assert!(script.conn.poll_take_down());
    assert_eq!(script.hear(), []);
    assert_eq!(script.conn.wanted_buffers(), 0);
}

// The engine may have taken the link down, and looked for the end, between the two.
#[test]
fn close_after_the_end_signals_the_end_again() {
    let mut script = Script::new();
    script.conn.abort(at(0));
    assert!(script.conn.poll_take_down() && script.conn.take_events().over);
    script.conn.handle_link_down(at(0));
    let _ = script.conn.take_events();
    assert!(!script.conn.is_released());
    script.conn.close(at(0));
    assert!(script.conn.is_released() && script.conn.take_events().over);
}

#[test]
fn close_with_unread_data_aborts_and_so_does_data_after_it() {
    let mut script = Script::new();
    script.data(10).unwrap();
    script.conn.close(at(0));
    assert!(script.conn.poll_take_down());
    let mut script = Script::new();
    script.conn.close(at(0));
    assert_eq!(script.hear(), [(Body::DisConn, 0)]);
    assert_eq!(script.data(10), Ok(RxPlan::Free));
    assert_eq!(script.hear(), [(Body::AbortConn, 0)]);
}

// SDP-CLS-27, SDP-ERR-17, SDP-ERR-21, SDP-ABT-06, SDP-ABT-07, TST-258, TST-262.
#[test]
fn data_after_disconn_is_a_violation_and_abortconn_an_end() {
    let after = Err(SdpViolation::AfterDisConn);
    for tell in [
        (|script: &mut Script| script.data(1)) as fn(&mut Script) -> _,
        |script| script.src_avail(5000, 10),
        |script| script.tell(Body::DisConn),
    ] {
        let mut script = Script::new();
        script.tell(Body::DisConn).unwrap();
        assert_eq!(tell(&mut script), after);
        assert_eq!(script.conn.read_error(), Some(EndError::Protocol));
        assert!(script.conn.poll_take_down());
    }
    let mut script = Script::new();
    script.tell(Body::DisConn).unwrap();
    assert_eq!(script.conn.next_received(), SinkItem::End);
    script.tell(Body::AbortConn).unwrap();
    assert_eq!(script.conn.next_received(), SinkItem::Nothing);
    let mut script = Script::new();
    script.tell(Body::AbortConn).unwrap();
    assert_eq!(script.conn.read_error(), Some(EndError::Reset));
    assert!(script.conn.take_events().over);
}

// SDP-CLS-14, SDP-CLS-15, SDP-TS-12: a link that goes down in CLOSE_WAIT breaks sending only.
#[test]
fn link_down_after_the_peers_disconn_leaves_a_clean_end_to_the_reader() {
    let mut script = Script::new();
    script.data(3).unwrap();
    script.tell(Body::DisConn).unwrap();
    script.conn.handle_link_down(at(1));
    let _ = script.conn.consumed(at(1), 3);
    assert_eq!(script.conn.next_received(), SinkItem::End);
    assert_eq!(script.conn.can_send(), Err(Some(EndError::Reset)));
}

// SDP-IB-25, R-6.
#[test]
fn connecting_end_over_mpa_sends_first_and_the_other_waits_for_it() {
    let mut script = Script::with(&terms(SdpTransport::Iwcm, SetupRole::Connecting));
    assert_eq!(script.hear(), [(DATA, 0)]);
    for _ in 0..5 {
        assert_eq!(script.hear(), []);
        script.wait(200);
        assert_eq!(script.hear(), [(DATA, 0)]);
    }
    script.wait(200);
    assert_eq!(script.hear(), []);
    let mut script = Script::with(&terms(SdpTransport::Iwcm, SetupRole::Accepting));
    script.conn.write(at(0), 5);
    assert_eq!(script.hear(), []);
    script.data(0).unwrap();
    assert_eq!(script.hear(), [(DATA, 5)]);
}

// no rule makes the peer acknowledge an update while we have two credits.
#[test]
fn data_that_waits_for_an_acknowledgement_asks_for_it() {
    for role in [SetupRole::Connecting, SetupRole::Accepting] {
        let mut terms = terms(SdpTransport::Annex, role);
        terms.peer_bufs = 3;
        let mut script = Script::with(&terms);
        script.conn.want_mode(HalfMode::Pipelined);
        let before = script.ack;
        let change = script.hear();
        assert_eq!(change.len(), 1);
        script.ack = before;
        script.conn.write(at(0), 10);
        if role == SetupRole::Accepting {
            assert_eq!(script.hear(), []);
            script.wait(5);
        }
        assert_eq!(script.hear(), [(DATA, 0)]);
        script.wait(100);
        assert_eq!(script.hear(), []);
        script.data(0).unwrap();
        assert_eq!(script.hear(), [(DATA, 10)]);
    }
}

// SDP-BUFP-06, SDP-BUFP-07, SDP-BUFP-12, SDP-BUFP-13, TST-048.
#[test]
fn peer_with_the_smallest_buffers_gets_small_messages() {
    let mut terms = terms(SdpTransport::Annex, SetupRole::Connecting);
    terms.peer_size = 37;
    let mut script = Script::with(&terms);
    script.conn.write(at(0), 50);
    assert_eq!(script.hear(), [(DATA, 21), (DATA, 21), (DATA, 8)]);
    script.conn.lend(at(0), 2000, 0, Some(1));
    assert!(matches!(script.hear()[..], [(Body::SrcAvail(_), 5)]));
}

// SDP-CLS-04, SDP-CLS-17, SDP-CLS-18, SDP-CLS-20 to SDP-CLS-22, SDP-SOCK-20, SDP-TS-2, SDP-TS-3,
// TST-253.
#[test]
fn peer_that_has_ended_is_sent_to_until_the_application_ends() {
    let mut script = Script::new();
    script.tell(Body::DisConn).unwrap();
    assert!(script.conn.take_events().readable);
    assert_eq!(script.conn.can_send(), Ok(()));
    for _ in 0..2 {
        assert_eq!(script.conn.next_received(), SinkItem::End);
        script.conn.write(at(0), 700);
        assert_eq!(script.hear(), [(DATA, 700)]);
    }
    script.conn.write(at(0), 30);
    script.conn.shutdown_send();
    assert_eq!(script.conn.can_send(), Err(None));
    script.conn.write(at(0), 40);
    assert_eq!(script.conn.lend(at(0), 3000, 0, Some(1)), None);
    assert_eq!(script.hear(), [(DATA, 30), (Body::DisConn, 0)]);
}

// SDP-CLS-15, SDP-ABT-05, TST-255, TST-263.
#[test]
fn broken_connection_keeps_what_has_come_and_drops_what_was_not_sent() {
    let mut script = Script::new();
    script.data(30).unwrap();
    script.conn.write(at(0), 20_000);
    assert_eq!(script.hear().len(), 8);
    script.conn.lend(at(0), 3000, 0, Some(1));
    assert!(script.conn.has_unsent());
    script.conn.handle_link_down(at(1));
    assert_eq!(script.hear(), []);
    assert!(!script.conn.has_unsent());
    assert_eq!(script.conn.send_room(), 65536);
    assert_eq!(script.conn.poll_release(), Some(0));
    assert_eq!(script.conn.readable_octets(), 30);
    assert_eq!(script.conn.consumed(at(1), 30), Some(1));
    assert_eq!(script.conn.next_received(), SinkItem::Nothing);
    assert_eq!(script.conn.read_error(), Some(EndError::Reset));
}
