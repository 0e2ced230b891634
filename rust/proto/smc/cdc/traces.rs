// SPDX-License-Identifier: GPL-2.0

//! The examples of RFC 7609, 4.5 and 4.7, and what TCP programs expect, as tests of a connection.
//!
//! The RFC uses elements of 10,000 bytes with an eye catcher; its slips are corrected as AMB-29
//! has it.

#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_cdc_traces))]
mod tests {
    use crate::proto::{
        base::time::{
            Duration,
            Instant, //
        },
        smc::{
            cdc::{
                CloseError,
                CloseState,
                CloseTimers,
                Conn,
                ConnConfig,
                Fetch,
                Msg,
                Receive,
                SendError,
                Tcp,
                Transmit,
                Violation, //
            },
            cursor::Wire,
            wire::AlertToken, //
        },
        stream::poll::Mask, //
    };

    /// Something the test needs is not there.
    #[derive(Debug)]
    struct Missing;

    type Outcome = core::result::Result<(), Missing>;

    const T0: Instant = Instant::from_nanos(1_000);

    fn config(element: u32, origin: u32) -> ConnConfig {
        ConnConfig {
            token: AlertToken::new(7),
            sndbuf: 100_000,
            local_rmbe: element,
            peer_rmbe: element,
            origin,
            cork_bytes: 0,
            max_write: 0,
            timers: CloseTimers::DEFAULT,
        }
    }

    /// Two connections with the elements of the RFC's examples.
    fn pair() -> core::result::Result<(Conn, Conn), Missing> {
        let config = config(10_000, 4);
        let a = Conn::new(&config).ok_or(Missing)?;
        let b = Conn::new(&config).ok_or(Missing)?;
        Ok((a, b))
    }

    fn wire(wrap: u16, offset: u32) -> Wire {
        Wire { wrap, offset }
    }

    /// Takes the next chain of `from`, completes it and gives its message to `to`.
    fn carry(from: &mut Conn, to: &mut Conn) -> core::result::Result<(Transmit, Msg), Missing> {
        let transmit = from.poll_transmit(T0).ok_or(Missing)?;
        let message = Msg::parse(&transmit.cdc).map_err(|_| Missing)?;
        from.handle_sent(T0, transmit.token);
        to.handle_cdc(T0, &message).map_err(|_| Missing)?;
        Ok((transmit, message))
    }

    /// Carries all there is, both ways.
    fn settle(a: &mut Conn, b: &mut Conn) {
        for _ in 0..20 {
            while carry(a, b).is_ok() {}
            while carry(b, a).is_ok() {}
        }
    }

    /// The first write of a chain as (source, destination, length).
    fn first(transmit: &Transmit) -> Option<(u32, u32, u32)> {
        transmit
            .writes()
            .first()
            .map(|w| (w.src_off, w.dst_off, w.len))
    }

    // TST-017, CDC-03, CDC-04, CDC-33, WIN-02.
    #[test]
    fn figure_16_small_data_needs_no_update() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 1_000);
        let (transmit, message) = carry(&mut a, &mut b)?;
        assert_eq!(first(&transmit), Some((0, 4, 1_000)));
        assert_eq!(message.produced, wire(0, 1_004));
        assert_eq!(message.consumed, wire(0, 4));
        assert_eq!(message.seq, 1);
        assert_eq!(message.token, AlertToken::new(7));
        assert_eq!(b.recv_available(), 1_000);
        b.read(1_000);
        assert!(!b.wants_transmit(T0));
        assert!(b.poll_transmit(T0).is_none());
        Ok(())
    }

    // TST-018, CDC-39, CDC-09.
    #[test]
    fn figure_17_answer_carries_the_consumer_cursor() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 1_000);
        carry(&mut a, &mut b)?;
        b.read(1_000);
        b.write(T0, 500);
        let (transmit, message) = carry(&mut b, &mut a)?;
        assert_eq!(first(&transmit), Some((0, 4, 500)));
        assert_eq!(message.produced, wire(0, 504));
        assert_eq!(message.consumed, wire(0, 1_004));
        assert_eq!(a.unconsumed(), 0);
        Ok(())
    }

    // TST-019, WIN-02, WIN-08.
    #[test]
    fn figure_18_update_comes_below_half_a_window() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 3_000);
        carry(&mut a, &mut b)?;
        b.read(3_000);
        assert!(!b.wants_transmit(T0));
        a.write(T0, 4_000);
        let (transmit, message) = carry(&mut a, &mut b)?;
        assert_eq!(first(&transmit), Some((3_000, 3_004, 4_000)));
        assert_eq!(message.produced, wire(0, 7_004));
        b.read(4_000);
        assert!(b.wants_transmit(T0));
        let (transmit, message) = carry(&mut b, &mut a)?;
        assert!(transmit.writes().is_empty());
        assert_eq!(message.consumed, wire(0, 7_004));
        assert!(b.poll_transmit(T0).is_none());
        Ok(())
    }

    // TST-021, WIN-07, WIN-03, WIN-11, CDC-54, CDC-55, CDC-57, AMB-38.
    #[test]
    fn figure_19_full_window_sets_and_clears_the_blocked_flag() -> Outcome {
        let (mut a, mut b) = pair()?;
        // Wrap once and stop at 1004, with everything read and reported.
        for count in [9_996, 1_000] {
            a.write(T0, count);
            settle(&mut a, &mut b);
            b.read(count);
            // An answer reports it.
            b.write(T0, 1);
            settle(&mut a, &mut b);
        }
        a.write(T0, 20_000);
        for wrap in [2, 3] {
            let (transmit, message) = carry(&mut a, &mut b)?;
            assert_eq!(transmit.writes().len(), 2);
            assert_eq!(first(&transmit).map(|w| (w.1, w.2)), Some((1_004, 8_996)));
            assert_eq!(
                transmit.writes().last().map(|w| (w.dst_off, w.len)),
                Some((4, 1_000))
            );
            assert_eq!(message.produced, wire(wrap, 1_004));
            assert!(message.flags.blocked);
            assert_eq!(b.recv_available(), 9_996);
            assert!(a.poll_transmit(T0).is_none());
            b.read(9_996);
            assert!(b.wants_transmit(T0));
            let (_, answer) = carry(&mut b, &mut a)?;
            assert_eq!(answer.consumed, wire(wrap, 1_004));
        }
        let (transmit, message) = carry(&mut a, &mut b)?;
        assert_eq!(first(&transmit).map(|w| (w.1, w.2)), Some((1_004, 8)));
        assert_eq!(message.produced, wire(3, 1_012));
        assert!(!message.flags.blocked);
        b.read(8);
        assert!(!b.wants_transmit(T0));
        Ok(())
    }

    // CDC-50, RMB-17.
    #[test]
    fn both_rings_may_wrap_in_one_chain() -> Outcome {
        let mut config = config(1_000, 0);
        config.sndbuf = 700;
        let mut a = Conn::new(&config).ok_or(Missing)?;
        let mut b = Conn::new(&config).ok_or(Missing)?;
        a.write(T0, 600);
        settle(&mut a, &mut b);
        b.read(600);
        settle(&mut a, &mut b);
        let [one, two] = a.send_segments(10_000);
        assert_eq!((one.off, one.len, two.off, two.len), (600, 100, 0, 600));
        a.write(T0, 700);
        let (transmit, message) = carry(&mut a, &mut b)?;
        let mut writes = transmit.writes().iter();
        let mut next = || writes.next().map(|w| (w.src_off, w.dst_off, w.len));
        assert_eq!(next(), Some((600, 600, 100)));
        assert_eq!(next(), Some((0, 700, 300)));
        assert_eq!(next(), Some((300, 0, 300)));
        assert_eq!(next(), None);
        assert_eq!(message.produced, wire(1, 300));
        Ok(())
    }

    // TST-135, WIN-02.
    #[test]
    fn updates_follow_the_examples_of_section_4_5_1() -> Outcome {
        // A buffer of 64K; examples a, b, c.
        for (sent, read, due) in [(14, 14, false), (34, 1, false), (34, 34, true)] {
            let mut a = Conn::new(&config(65_536, 0)).ok_or(Missing)?;
            let mut b = Conn::new(&config(65_536, 0)).ok_or(Missing)?;
            a.write(T0, sent << 10);
            carry(&mut a, &mut b)?;
            b.read(read << 10);
            assert_eq!(b.wants_transmit(T0), due);
        }
        Ok(())
    }

    // WIN-03, WIN-11, TST-136.
    #[test]
    fn blocked_peer_gets_an_update_for_every_byte() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 9_997);
        let (_, message) = carry(&mut a, &mut b)?;
        assert!(message.flags.blocked);
        b.read(1);
        assert!(b.wants_transmit(T0));
        let (_, message) = carry(&mut b, &mut a)?;
        assert_eq!(message.consumed, wire(0, 5));
        // The last byte fills the window again, with nothing left to send (AMB-38).
        let (transmit, message) = carry(&mut a, &mut b)?;
        assert_eq!(first(&transmit).map(|w| (w.1, w.2)), Some((4, 1)));
        assert!(message.flags.blocked);
        // While an update is in flight, small steps wait for its completion.
        b.read(1);
        assert!(b.wants_transmit(T0));
        let update = b.poll_transmit(T0).ok_or(Missing)?;
        b.read(1);
        assert!(!b.wants_transmit(T0));
        b.handle_sent(T0, update.token);
        assert!(b.wants_transmit(T0));
        Ok(())
    }

    // WIN-03, WIN-08, WIN-11.
    #[test]
    fn a_stale_cursor_is_reported_as_soon_as_the_peer_is_blocked() -> Outcome {
        // Otherwise a reader that waits for more than the rest would never wake.
        let (mut a, mut b) = pair()?;
        a.write(T0, 900);
        carry(&mut a, &mut b)?;
        b.read(900);
        assert!(!b.wants_transmit(T0));
        a.write(T0, 20_000);
        let transmit = a.poll_transmit(T0).ok_or(Missing)?;
        let message = Msg::parse(&transmit.cdc).map_err(|_| Missing)?;
        assert!(message.flags.blocked);
        b.handle_cdc(T0, &message).map_err(|_| Missing)?;
        assert!(b.wants_transmit(T0));
        Ok(())
    }

    // WIN-04, WIN-08, CDC-14, TST-136.
    #[test]
    fn requested_update_comes_at_once_and_on_every_read() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 100);
        carry(&mut a, &mut b)?;
        b.read(50);
        assert!(!b.wants_transmit(T0));
        a.write(T0, 100);
        let transmit = a.poll_transmit(T0).ok_or(Missing)?;
        let mut message = Msg::parse(&transmit.cdc).map_err(|_| Missing)?;
        message.flags.update_requested = true;
        b.handle_cdc(T0, &message).map_err(|_| Missing)?;
        assert!(b.wants_transmit(T0));
        carry(&mut b, &mut a)?;
        assert!(b.poll_transmit(T0).is_none());
        b.read(1);
        assert!(b.wants_transmit(T0));
        Ok(())
    }

    #[test]
    fn urgent_data_stays_in_the_stream_and_is_acknowledged() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 500);
        let transmit = a.poll_transmit(T0).ok_or(Missing)?;
        let mut message = Msg::parse(&transmit.cdc).map_err(|_| Missing)?;
        message.flags.urgent_pending = true;
        message.flags.urgent_present = true;
        b.set_inline(true);
        b.take_events();
        b.handle_cdc(T0, &message).map_err(|_| Missing)?;
        let events = b.take_events();
        assert!(events.urgent && events.readable);
        assert_eq!(b.recv_available(), 500);
        b.read(499);
        assert!(!b.wants_transmit(T0));
        b.read(1);
        assert!(b.wants_transmit(T0));
        let (_, answer) = carry(&mut b, &mut a)?;
        assert_eq!(answer.consumed, wire(0, 504));
        Ok(())
    }

    // URG-01, URG-02, URG-04..08, WIN-05, TST-023.
    #[test]
    fn figure_20_urgent_data_with_an_open_window() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write_urgent(T0, 500);
        a.write(T0, 1_000);
        let transmit = a.poll_transmit(T0).ok_or(Missing)?;
        assert_eq!(first(&transmit), Some((0, 4, 500)));
        let message = Msg::parse(&transmit.cdc).map_err(|_| Missing)?;
        let flags = message.flags;
        assert!(flags.urgent_pending && flags.urgent_present && flags.update_requested);
        assert_eq!(message.produced, wire(0, 504));
        b.take_events();
        b.handle_cdc(T0, &message).map_err(|_| Missing)?;
        let events = b.take_events();
        assert!(events.urgent && events.readable);
        assert_eq!(b.urgent_offset(), Some(503));
        assert_eq!(b.urgent_offset(), None);
        assert!(b.poll_mask(1).contains(Mask::URGENT) && !b.is_at_mark());
        assert_eq!(b.recv_until_mark(0), Some(499));
        // Nothing more is written until it is consumed, completed or not.
        assert!(a.poll_transmit(T0).is_none());
        a.handle_sent(T0, transmit.token);
        assert!(a.poll_transmit(T0).is_none());
        // The byte itself is out of band.
        b.read(499);
        assert!(b.wants_transmit(T0));
        assert!(b.is_at_mark());
        assert_eq!((b.recv_available(), b.recv_hint()), (0, 1));
        assert_eq!(b.fetch_urgent(false), Fetch::Here);
        assert_eq!(b.fetch_urgent(true), Fetch::Here);
        assert_eq!(b.fetch_urgent(true), Fetch::Nothing);
        let (_, answer) = carry(&mut b, &mut a)?;
        assert_eq!(answer.consumed, wire(0, 504));
        let (transmit, message) = carry(&mut a, &mut b)?;
        assert_eq!(first(&transmit), Some((500, 504, 1_000)));
        assert_eq!(message.flags, Default::default());
        assert!(b.is_at_mark());
        b.leave_mark();
        assert!(!b.is_at_mark());
        assert_eq!((b.recv_available(), b.recv_hint()), (1_000, 1_000));
        Ok(())
    }

    // URG-03, URG-05, URG-09, TST-024.
    #[test]
    fn figure_21_urgent_data_with_a_closed_window() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 9_996);
        carry(&mut a, &mut b)?;
        a.write_urgent(T0, 500);
        a.write(T0, 1_000);
        let transmit = a.poll_transmit(T0).ok_or(Missing)?;
        assert!(transmit.writes().is_empty());
        let message = Msg::parse(&transmit.cdc).map_err(|_| Missing)?;
        let flags = message.flags;
        assert!(flags.blocked && flags.urgent_pending && !flags.urgent_present);
        a.handle_sent(T0, transmit.token);
        b.take_events();
        b.handle_cdc(T0, &message).map_err(|_| Missing)?;
        let events = b.take_events();
        assert!(events.urgent);
        assert_eq!(b.fetch_urgent(true), Fetch::NotYet);
        assert!(!b.poll_mask(1).contains(Mask::URGENT));
        assert!(a.poll_transmit(T0).is_none());
        b.read(9_996);
        carry(&mut b, &mut a)?;
        let transmit = a.poll_transmit(T0).ok_or(Missing)?;
        let message = Msg::parse(&transmit.cdc).map_err(|_| Missing)?;
        assert!(message.flags.urgent_present && !message.flags.blocked);
        // The mark was announced already.
        b.take_events();
        b.handle_cdc(T0, &message).map_err(|_| Missing)?;
        let events = b.take_events();
        assert!(!events.urgent && events.readable);
        assert!(b.poll_mask(1).contains(Mask::URGENT));
        a.handle_sent(T0, transmit.token);
        assert!(a.poll_transmit(T0).is_none());
        b.read(499);
        carry(&mut b, &mut a)?;
        let (_, message) = carry(&mut a, &mut b)?;
        assert_eq!(message.flags, Default::default());
        Ok(())
    }

    // URG-07: as in TCP only the last mark counts. A peer that knows nothing of the second one still
    // knows the first.
    #[test]
    fn second_mark_takes_the_place_of_the_first() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write_urgent(T0, 4);
        carry(&mut a, &mut b)?;
        assert_eq!(b.recv_until_mark(0), Some(3));
        a.write_urgent(T0, 4);
        b.take_events();
        let (transmit, message) = carry(&mut a, &mut b)?;
        let flags = message.flags;
        assert!(transmit.writes().is_empty() && flags.urgent_present && flags.update_requested);
        assert!(!flags.urgent_pending);
        assert!(b.take_events().urgent);
        assert_eq!(b.fetch_urgent(true), Fetch::NotYet);
        assert_eq!(b.recv_until_mark(0), None);
        assert!(a.poll_transmit(T0).is_none());
        // Another message does not announce it again.
        b.write(T0, 6_000);
        carry(&mut b, &mut a)?;
        a.read(6_000);
        let (_, message) = carry(&mut a, &mut b)?;
        assert!(!message.flags.urgent_pending && message.flags.update_requested);
        assert!(!b.take_events().urgent);
        // What is read before the mark is reported at once, by R.
        b.read(1);
        carry(&mut b, &mut a)?;
        assert!(a.poll_transmit(T0).is_none());
        b.read(3);
        carry(&mut b, &mut a)?;
        let (_, message) = carry(&mut a, &mut b)?;
        assert!(message.flags.urgent_pending && message.flags.urgent_present);
        assert_eq!(b.recv_until_mark(0), Some(3));
        // Two marks that were not sent yet are one.
        a.write_urgent(T0, 1);
        a.write_urgent(T0, 1);
        settle(&mut a, &mut b);
        b.read(4);
        settle(&mut a, &mut b);
        assert_eq!(b.recv_until_mark(0), Some(1));
        assert_eq!(b.recv_available(), 2);
        Ok(())
    }

    // FOV-12: the flags of a message that got lost come again.
    #[test]
    fn urgent_data_moves_with_the_connection() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write_urgent(T0, 4);
        let lost = a.poll_transmit(T0).ok_or(Missing)?;
        a.handle_sent_flushed(lost.token);
        assert!(a.poll_transmit(T0).is_none());
        a.handle_link_switched();
        let (_, message) = carry(&mut a, &mut b)?;
        assert!(message.flags.failover);
        let (transmit, message) = carry(&mut a, &mut b)?;
        assert_eq!(first(&transmit), Some((0, 4, 4)));
        assert_eq!(message.seq, 2);
        assert!(message.flags.urgent_present);
        assert_eq!(b.recv_until_mark(0), Some(3));
        Ok(())
    }

    // CDC-34, AMB-17, TST-149.
    #[test]
    fn old_and_repeated_messages_are_ignored() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 10);
        let (_, one) = carry(&mut a, &mut b)?;
        a.write(T0, 10);
        let (_, two) = carry(&mut a, &mut b)?;
        for message in [one, two] {
            b.take_events();
            b.handle_cdc(T0, &message).map_err(|_| Missing)?;
            let events = b.take_events();
            assert_eq!(events, Default::default());
        }
        assert_eq!(b.recv_available(), 20);
        Ok(())
    }

    // TST-150.
    #[test]
    fn lost_messages_do_no_harm() -> Outcome {
        // CDC-35, CDC-43: each message carries everything.
        let (mut a, mut b) = pair()?;
        a.write(T0, 10);
        let _ = a.poll_transmit(T0).ok_or(Missing)?;
        a.shutdown_write();
        let _ = a.poll_transmit(T0).ok_or(Missing)?;
        b.write(T0, 9_000);
        carry(&mut b, &mut a)?;
        a.read(9_000);
        carry(&mut a, &mut b)?;
        assert_eq!(b.recv_available(), 10);
        assert_eq!(b.state(), CloseState::AppCloseWait1);
        Ok(())
    }

    // CDC-38, CDC-51, SEC-10, TST-149.
    #[test]
    fn impossible_cursors_abort() -> Outcome {
        let good = {
            let (mut a, _) = pair()?;
            a.write(T0, 10);
            let transmit = a.poll_transmit(T0).ok_or(Missing)?;
            Msg::parse(&transmit.cdc).map_err(|_| Missing)?
        };
        for (produced, consumed, violation) in [
            (wire(0, 3), wire(0, 4), Violation::Producer),
            (wire(0, 10_000), wire(0, 4), Violation::Producer),
            (wire(1, 5), wire(0, 4), Violation::Producer),
            (wire(2, 4), wire(0, 4), Violation::Producer),
            (wire(0, 14), wire(0, 5), Violation::Consumer),
            (wire(0, 14), wire(0, 3), Violation::Consumer),
            (wire(0, 14), wire(1, 4), Violation::Consumer),
        ] {
            let (_, mut b) = pair()?;
            let message = Msg {
                produced,
                consumed,
                ..good
            };
            assert_eq!(b.handle_cdc(T0, &message), Err(violation));
            assert_eq!(b.state(), CloseState::PeerAbortWait);
            assert_eq!(b.recv_available(), 0);
            let transmit = b.poll_transmit(T0).ok_or(Missing)?;
            let answer = Msg::parse(&transmit.cdc).map_err(|_| Missing)?;
            assert!(answer.flags.abort);
            assert_eq!(b.report_error(true), Some(CloseError::Reset));
        }
        Ok(())
    }

    // FOV-08, FOV-09, FOV-10, FOV-15, CDC-44, CDC-45, AMB-32, TST-128.
    #[test]
    fn validation_message_shows_a_loss() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 10);
        let (_, mut message) = carry(&mut a, &mut b)?;
        message.flags.failover = true;
        for seq in [0, 1, 0xffff] {
            message.seq = seq;
            assert_eq!(b.handle_cdc(T0, &message), Ok(()));
        }
        // Messages of the old link have a short time to be handled.
        message.seq = 2;
        assert_eq!(b.handle_cdc(T0, &message), Ok(()));
        let deadline = b.poll_timeout().ok_or(Missing)?;
        assert_eq!(b.handle_timeout(deadline), Err(Violation::FailoverLoss));
        assert_eq!(b.report_error(true), Some(CloseError::Reset));
        Ok(())
    }

    // FOV-11, FOV-13, AMB-31, DEP-10: the peer moves while its old link works, and goes back behind
    // what that link delivers late.
    #[test]
    fn cursor_before_late_data_of_the_old_link_is_a_replay() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 10);
        let (_, first) = carry(&mut a, &mut b)?;
        let said = |seq, produced, failover| {
            let mut message = Msg {
                seq,
                produced,
                ..first
            };
            message.flags.failover = failover;
            message
        };
        for (message, available) in [
            (said(first.seq, wire(0, 0), true), 10),
            // The old link delivers what was in flight.
            (said(2, wire(0, 5_000), false), 4_996),
            (said(3, wire(0, 9_999), false), 9_995),
            // The new one begins with what had completed.
            (said(4, wire(0, 14), false), 9_995),
            (said(5, wire(0, 5_000), false), 9_995),
            (said(6, wire(0, 9_999), false), 9_995),
        ] {
            assert_eq!(b.handle_cdc(T0, &message), Ok(()));
            assert_eq!(b.recv_available(), available);
        }
        // Data beyond the old window ends it.
        b.read(9_995);
        while carry(&mut b, &mut a).is_ok() {}
        assert_eq!(b.handle_cdc(T0, &said(7, wire(1, 5_000), false)), Ok(()));
        assert_eq!(b.recv_available(), 4_997);
        let back = said(8, wire(1, 4_000), false);
        assert_eq!(b.handle_cdc(T0, &back), Err(Violation::Producer));
        Ok(())
    }

    // CLS-03, CLS-04, CLS-06, CLS-55, CDC-53.
    #[test]
    fn end_of_stream_comes_behind_the_data() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 30_000);
        a.shutdown_write();
        assert_eq!(a.can_send(), Err(SendError::Pipe));
        // D waits for the window, and goes with the last bytes.
        let mut read = 0_u32;
        for _ in 0..40 {
            while carry(&mut a, &mut b).is_ok() {}
            let count = b.recv_available();
            assert!(count == 0 || b.poll_mask(1).contains(Mask::READABLE));
            if count == 0 {
                break;
            }
            read = read.saturating_add(count);
            b.read(count);
            while carry(&mut b, &mut a).is_ok() {}
        }
        assert_eq!(read, 30_000);
        assert_eq!((b.recv_state(), b.recv_hint()), (Receive::Eof, 1));
        assert_eq!(a.state(), CloseState::PeerCloseWait1);
        // The other direction still works.
        assert_eq!(b.can_send(), Ok(()));
        b.write(T0, 5);
        settle(&mut a, &mut b);
        assert_eq!(a.recv_available(), 5);
        assert_eq!(a.recv_state(), Receive::More);
        Ok(())
    }

    // CLS-02, ABT-01, ABT-02, ABT-03, ABT-04, ABT-06, CDC-42, TST-141.
    #[test]
    fn close_with_unread_data_resets_the_peer() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 5);
        b.write(T0, 6);
        settle(&mut a, &mut b);
        b.close(T0);
        // Not before the A has arrived.
        assert_eq!(b.tcp(), Tcp::Keep);
        settle(&mut a, &mut b);
        assert_eq!(
            (a.state(), b.state()),
            (CloseState::Closed, CloseState::Closed)
        );
        assert_eq!((a.tcp(), b.tcp()), (Tcp::Reset, Tcp::Reset));
        // What had arrived before stays readable, then comes the error, once.
        assert_eq!(a.recv_available(), 6);
        a.read(6);
        assert_eq!(a.recv_state(), Receive::More);
        assert_eq!(a.can_send(), Err(SendError::Unreported));
        assert_eq!(a.report_error(true), Some(CloseError::Reset));
        assert_eq!(a.report_error(true), None);
        assert_eq!(a.recv_state(), Receive::Failed);
        assert_eq!(a.can_send(), Err(SendError::Pipe));
        let all = Mask::READABLE | Mask::WRITABLE | Mask::HANGUP | Mask::READ_HANGUP;
        assert_eq!(a.poll_mask(1), all);
        assert!(b.is_released() && !a.is_released());
        a.close(T0);
        assert!(a.is_released());
        Ok(())
    }

    // CLS-05, TST-141, AMB-24.
    #[test]
    fn write_after_the_peer_closed_succeeds_once() -> Outcome {
        let (mut a, mut b) = pair()?;
        b.close(T0);
        settle(&mut a, &mut b);
        assert_eq!(a.recv_state(), Receive::Eof);
        assert_eq!(a.can_send(), Ok(()));
        a.write(T0, 10);
        settle(&mut a, &mut b);
        assert_eq!(a.report_error(true), Some(CloseError::Pipe));
        assert_eq!(a.can_send(), Err(SendError::Pipe));
        assert_eq!(a.recv_state(), Receive::Eof);
        assert_eq!(
            (a.state(), b.state()),
            (CloseState::Closed, CloseState::Closed)
        );
        assert_eq!((a.tcp(), b.tcp()), (Tcp::Reset, Tcp::Reset));
        Ok(())
    }

    // ABT-09, CLS-18.
    #[test]
    fn data_for_a_closed_socket_resets() -> Outcome {
        let (mut a, mut b) = pair()?;
        // b has closed but cannot say so yet, because a's element is full.
        b.write(T0, 20_000);
        settle(&mut a, &mut b);
        b.close(T0);
        assert_eq!(b.state(), CloseState::Active);
        a.write(T0, 1);
        settle(&mut a, &mut b);
        assert_eq!(a.report_error(true), Some(CloseError::Reset));
        assert!(b.is_released());
        // Data that crosses our C can only be answered by TCP.
        let (mut a, mut b) = pair()?;
        a.write(T0, 1);
        let transmit = a.poll_transmit(T0).ok_or(Missing)?;
        let crossing = Msg::parse(&transmit.cdc).map_err(|_| Missing)?;
        b.close(T0);
        carry(&mut b, &mut a)?;
        assert_eq!(b.tcp(), Tcp::Fin);
        b.handle_cdc(T0, &crossing).map_err(|_| Missing)?;
        assert_eq!(b.tcp(), Tcp::Reset);
        a.handle_tcp_reset(T0);
        settle(&mut a, &mut b);
        assert_eq!(a.recv_state(), Receive::Eof);
        assert_eq!(a.report_error(true), Some(CloseError::Pipe));
        assert!(b.is_released());
        Ok(())
    }

    // CLS-01, CLS-08, CLS-15.
    #[test]
    fn shutdown_of_both_directions_keeps_what_was_received() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 5);
        settle(&mut a, &mut b);
        b.shutdown_both();
        settle(&mut a, &mut b);
        assert_eq!(a.recv_state(), Receive::Eof);
        assert_eq!(b.recv_available(), 5);
        b.read(5);
        assert_eq!(b.recv_state(), Receive::Eof);
        b.close(T0);
        a.close(T0);
        settle(&mut a, &mut b);
        assert!(a.is_released() && b.is_released());
        assert_eq!((a.tcp(), b.tcp()), (Tcp::Fin, Tcp::Fin));
        Ok(())
    }

    // CLS-02, CLS-17.
    #[test]
    fn release_with_data_left_by_a_shutdown_resets() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 5);
        settle(&mut a, &mut b);
        b.shutdown_both();
        settle(&mut a, &mut b);
        // So far only D went, so that the release can still say that data was dropped.
        assert_eq!(b.state(), CloseState::PeerCloseWait1);
        b.close(T0);
        settle(&mut a, &mut b);
        assert_eq!(a.recv_state(), Receive::Eof);
        assert_eq!(a.report_error(true), Some(CloseError::Pipe));
        assert!(b.is_released() && b.tcp() == Tcp::Reset && !b.is_forced());
        Ok(())
    }

    // ABT-02, ABT-06, ABT-08, TST-027.
    #[test]
    fn abort_drops_what_was_not_sent() -> Outcome {
        let (mut a, mut b) = pair()?;
        a.write(T0, 20_000);
        let transmit = a.poll_transmit(T0).ok_or(Missing)?;
        assert_eq!((a.unsent(), a.outstanding()), (10_004, 20_000));
        a.abort(T0);
        assert_eq!((a.unsent(), a.outstanding()), (0, 9_996));
        assert!(!a.is_drained());
        a.handle_sent(T0, transmit.token);
        settle(&mut a, &mut b);
        assert!(a.is_drained());
        assert_eq!(a.report_error(true), Some(CloseError::Aborted));
        assert_eq!(
            (a.state(), b.state()),
            (CloseState::Closed, CloseState::Closed)
        );
        Ok(())
    }

    // CLS-30, CLS-31, TMR-32, TST-140.
    #[test]
    fn silent_peer_does_not_keep_a_closed_connection() -> Outcome {
        let (mut a, _) = pair()?;
        a.close(T0);
        let transmit = a.poll_transmit(T0).ok_or(Missing)?;
        a.handle_sent(T0, transmit.token);
        assert!(a.is_drained());
        assert_eq!(a.state(), CloseState::PeerCloseWait1);
        let deadline = T0.saturating_add(CloseTimers::DEFAULT.close);
        assert_eq!(a.poll_timeout(), Some(deadline));
        a.take_events();
        assert!(a.handle_timeout(T0).is_ok() && !a.take_events().closing);
        assert!(a.handle_timeout(deadline).is_ok() && a.take_events().closing);
        assert!(a.is_released() && a.is_forced() && a.tcp() == Tcp::Reset);
        assert_eq!(a.poll_timeout(), None);
        Ok(())
    }

    // TCR-09, AMB-22, ABT-01, TST-143.
    #[test]
    fn fin_without_close_is_given_time() -> Outcome {
        let (mut a, _) = pair()?;
        a.handle_tcp_fin(T0);
        assert_eq!(a.recv_state(), Receive::More);
        let deadline = a.poll_timeout().ok_or(Missing)?;
        assert!(a.handle_timeout(deadline).is_ok());
        assert_eq!(a.report_error(true), Some(CloseError::Reset));
        assert_eq!(a.state(), CloseState::PeerAbortWait);
        Ok(())
    }

    // ABT-10, FOV-19, GEN-04.
    #[test]
    fn lost_link_is_an_error() -> Outcome {
        let (mut a, mut b) = pair()?;
        b.write(T0, 5);
        carry(&mut b, &mut a)?;
        a.write(T0, 5);
        let transmit = a.poll_transmit(T0).ok_or(Missing)?;
        a.handle_link_lost();
        let events = a.take_events();
        assert!(events.error && events.readable && events.writable && events.closing);
        assert_eq!(a.recv_available(), 5);
        assert_eq!(a.tcp(), Tcp::Reset);
        assert!(a.poll_transmit(T0).is_none());
        a.close(T0);
        assert!(!a.is_released());
        a.handle_sent_flushed(transmit.token);
        assert!(a.take_events().closing);
        assert!(a.is_released());
        Ok(())
    }

    #[test]
    fn corked_data_is_flushed_by_the_timer() -> Outcome {
        let mut config = config(65_536, 0);
        config.cork_bytes = 1_000;
        let mut a = Conn::new(&config).ok_or(Missing)?;
        a.set_corked(true);
        a.write(T0, 999);
        assert!(!a.wants_transmit(T0));
        let deadline = T0.saturating_add(Duration::from_millis(200));
        assert_eq!(a.poll_timeout(), Some(deadline));
        assert!(a.handle_timeout(T0).is_ok() && !a.wants_transmit(T0));
        assert!(a.handle_timeout(deadline).is_ok() && a.wants_transmit(deadline));
        assert_eq!(a.poll_timeout(), None);
        let one = a.poll_transmit(T0).ok_or(Missing)?;
        a.handle_sent(T0, one.token);
        // Enough data, the end of corking, and a shutdown release it as well.
        a.write(T0, 999);
        assert!(!a.wants_transmit(T0));
        a.write(T0, 1);
        assert!(a.wants_transmit(T0));
        let two = a.poll_transmit(T0).ok_or(Missing)?;
        a.handle_sent(T0, two.token);
        a.write(T0, 1);
        assert!(!a.wants_transmit(T0));
        a.set_corked(false);
        assert!(a.wants_transmit(T0));
        let three = a.poll_transmit(T0).ok_or(Missing)?;
        a.handle_sent(T0, three.token);
        a.set_corked(true);
        a.write(T0, 1);
        assert!(!a.wants_transmit(T0));
        a.shutdown_write();
        assert!(a.wants_transmit(T0));
        Ok(())
    }

    #[test]
    fn corked_rest_of_a_chain_is_flushed_by_the_timer() -> Outcome {
        let mut config = config(10_000, 0);
        config.cork_bytes = 1_000;
        let mut a = Conn::new(&config).ok_or(Missing)?;
        let mut b = Conn::new(&config).ok_or(Missing)?;
        a.set_corked(true);
        a.write(T0, 10_500);
        // The window ends the chain.
        let (transmit, _) = carry(&mut a, &mut b)?;
        assert_eq!(first(&transmit), Some((0, 0, 10_000)));
        b.read(10_000);
        carry(&mut b, &mut a)?;
        assert_eq!((a.unsent(), a.wants_transmit(T0)), (500, false));
        let deadline = T0.saturating_add(Duration::from_millis(200));
        assert_eq!(a.poll_timeout(), Some(deadline));
        assert!(a.handle_timeout(deadline).is_ok() && a.wants_transmit(deadline));
        Ok(())
    }

    // WIN-09, WIN-10.
    #[test]
    fn small_data_waits_for_the_chain_before() -> Outcome {
        let mut config = config(65_536, 0);
        config.cork_bytes = 1_000;
        let mut a = Conn::new(&config).ok_or(Missing)?;
        // The writes are too far apart to be a burst.
        let later = T0.saturating_add(Duration::from_millis(1));
        a.write(T0, 10);
        assert!(a.wants_transmit(T0));
        let one = a.poll_transmit(T0).ok_or(Missing)?;
        // The first chain is unsignalled, so the second does not wait for it.
        a.write(T0, 10);
        assert!(!one.signal && a.wants_transmit(T0));
        let two = a.poll_transmit(T0).ok_or(Missing)?;
        a.write(T0, 10);
        assert!(two.signal && !a.wants_transmit(T0));
        a.write(later, 990);
        assert!(a.wants_transmit(later));
        let three = a.poll_transmit(T0).ok_or(Missing)?;
        a.write(T0, 10);
        assert!(three.signal && !a.wants_transmit(T0));
        a.flush();
        assert!(a.wants_transmit(T0));
        let four = a.poll_transmit(T0).ok_or(Missing)?;
        a.write(T0, 10);
        assert!(!four.signal && !a.wants_transmit(T0));
        // Completions are cumulative.
        assert_eq!(a.outstanding(), 1_040);
        a.handle_sent(later, four.token);
        assert!(a.wants_transmit(later));
        assert_eq!(a.outstanding(), 10);
        a.handle_sent(later, one.token);
        assert!(a.wants_transmit(later));
        a.handle_sent(later, three.token);
        assert!(a.wants_transmit(later));
        assert_eq!(a.outstanding(), 10);
        Ok(())
    }

    // AMB-27.
    #[test]
    fn buffers_without_room_make_no_connection() {
        assert!(Conn::new(&config(4, 4)).is_none());
        assert!(Conn::new(&config(5, 4)).is_some());
        let mut none = config(100, 0);
        none.sndbuf = 0;
        assert!(Conn::new(&none).is_none());
    }
}
