// SPDX-License-Identifier: GPL-2.0

//! A connection against a peer that sends anything, and callers that call anything.
//!
//! Whatever happens, nothing panics, no place outside a buffer is named, no byte is named that was
//! not there, and the connection can be brought to its end.

use super::{
    for_seeds,
    Rng, //
};
use crate::proto::{
    base::time::{
        Duration,
        Instant, //
    },
    smc::{
        cdc::{
            msg::Flags,
            CloseState,
            CloseTimers,
            Conn,
            ConnConfig,
            Msg,
            Segment,
            TcpFound,
            Token, //
        },
        cursor::Wire,
        wire::AlertToken, //
    },
};

const ORIGIN: u32 = 4;
const SIZES: [u32; 3] = [40, 57, 90];

fn config(rng: &mut Rng) -> ConnConfig {
    ConnConfig {
        token: AlertToken::new(1),
        sndbuf: rng.pick(&SIZES),
        local_rmbe: rng.pick(&SIZES),
        peer_rmbe: rng.pick(&SIZES),
        origin: ORIGIN,
        cork_bytes: rng.pick(&[0, 10, 1_000]),
        max_write: rng.pick(&[0, 3]),
        timers: CloseTimers::DEFAULT,
    }
}

/// A message that is sometimes nearly right.
fn message(rng: &mut Rng, seq: &mut u16, size: u32) -> Msg {
    *seq = seq.wrapping_add(1);
    let wire = |rng: &mut Rng| Wire {
        wrap: rng.pick(&[0, 0, 0, 1, 2, 3, u16::MAX]),
        offset: match rng.range(0, 9) {
            0 => rng.pick(&[0, 3, u32::MAX, 1 << 31]),
            _ => rng.bytes(ORIGIN, size),
        },
    };
    Msg {
        seq: match rng.range(0, 9) {
            0 => u16::try_from(rng.range(0, 0xffff)).unwrap(),
            _ => *seq,
        },
        token: AlertToken::new(0),
        produced: wire(rng),
        consumed: wire(rng),
        flags: Flags {
            blocked: rng.one_in(3),
            urgent_pending: rng.one_in(9),
            urgent_present: rng.one_in(9),
            update_requested: rng.one_in(9),
            failover: rng.one_in(50),
            done: rng.one_in(50),
            closed: rng.one_in(50),
            abort: rng.one_in(100),
        },
    }
}

/// Both parts lie in the buffer, do not overlap, and make `count` bytes at most.
fn check_segments(segments: [Segment; 2], origin: u32, size: u32, count: u32) {
    let [a, b] = segments;
    for s in [a, b] {
        assert!(s.len == 0 || (s.off >= origin && s.off < size && s.len <= size - s.off));
    }
    assert!(a.len + b.len <= count);
    assert!(b.len == 0 || (b.off == origin && b.off + b.len <= a.off));
}

// SEC-10, CDC-38, TST-149.
#[test]
fn nothing_a_peer_sends_names_a_place_outside() {
    for_seeds(3_000, |seed| {
        let mut rng = Rng::new(seed);
        let config = config(&mut rng);
        let mut conn = Conn::new(&config).unwrap();
        let mut now = Instant::from_nanos(0);
        let mut seq = 0;
        let mut tokens: Vec<Token> = Vec::new();
        for _ in 0..300 {
            let any = rng.bytes(0, 200);
            match rng.range(0, 38) {
                0..=5 => {
                    let size = std::cmp::max(config.local_rmbe, config.peer_rmbe);
                    let message = message(&mut rng, &mut seq, size);
                    if conn.handle_cdc(now, &message).is_err() {
                        assert!(conn.state() != CloseState::Active);
                        assert_eq!(conn.recv_available(), 0);
                    }
                }
                6..=9 => {
                    let room = conn.send_room();
                    let segments = conn.send_segments(any);
                    check_segments(segments, 0, config.sndbuf, any.min(room));
                    if rng.one_in(4) {
                        conn.lend(now, any);
                    } else {
                        conn.write(now, any);
                    }
                }
                10..=13 => {
                    let available = conn.recv_available();
                    assert!(available <= config.local_rmbe - ORIGIN);
                    let skip = rng.bytes(0, 100);
                    let segments = conn.recv_segments(skip, any);
                    let count = any.min(available.saturating_sub(skip));
                    check_segments(segments, ORIGIN, config.local_rmbe, count);
                    conn.read(any);
                }
                14..=17 => {
                    if let Some(transmit) = conn.poll_transmit(now) {
                        for w in transmit.writes() {
                            let src = Segment {
                                off: w.src_off,
                                len: w.len,
                            };
                            let dst = Segment {
                                off: w.dst_off,
                                len: w.len,
                            };
                            check_segments([src, Segment::default()], 0, config.sndbuf, w.len);
                            check_segments(
                                [dst, Segment::default()],
                                ORIGIN,
                                config.peer_rmbe,
                                w.len,
                            );
                        }
                        if rng.one_in(3) {
                            conn.handle_post_failed(transmit.token);
                        } else {
                            tokens.push(transmit.token);
                        }
                    }
                }
                18..=21 if !tokens.is_empty() => {
                    // Any order, some twice.
                    let token = rng.pick(&tokens);
                    conn.handle_sent(now, token);
                }
                22 => conn.set_corked(rng.one_in(2)),
                23 if rng.one_in(2) => conn.on_empty_read(),
                23 => conn.flush(),
                24 => {
                    now = now.saturating_add(Duration::from_secs(u64::from(any)));
                    let _ = conn.handle_timeout(now);
                }
                25 => {
                    conn.report_error(rng.one_in(2));
                }
                26 if rng.one_in(5) => {
                    conn.shutdown_write();
                }
                27 if rng.one_in(5) => {
                    conn.shutdown_both();
                }
                28 if rng.one_in(9) => {
                    conn.handle_tcp_reset(now);
                }
                29 if rng.one_in(9) => {
                    conn.abort(now);
                }
                38 if rng.one_in(2) => {
                    if let Some(tcp) = conn.poll_ending().tcp {
                        conn.handle_tcp_done(tcp);
                    }
                }
                38 if rng.one_in(5) => {
                    let found = rng.pick(&[
                        TcpFound::Open { payload: false },
                        TcpFound::Open { payload: true },
                        TcpFound::Fin,
                        TcpFound::Closed { error: false },
                        TcpFound::Closed { error: true },
                    ]);
                    conn.handle_tcp(now, found);
                }
                30 if rng.one_in(9) => {
                    conn.handle_link_lost();
                }
                31 => conn.handle_link_paused(),
                32 => {
                    conn.handle_link_switched();
                }
                33 if !tokens.is_empty() => {
                    let token = rng.pick(&tokens);
                    conn.handle_sent_flushed(token);
                }
                34 => conn.set_nodelay(rng.one_in(2)),
                35 => {
                    now = now.saturating_add(Duration::from_micros(u64::from(any)));
                    conn.handle_coalesced(now);
                }
                36 if conn.holds_back() => conn.flush(),
                37 => {
                    if let Some(part) = conn.poll_recall() {
                        let len = part.to[0].len + part.to[1].len;
                        check_segments(part.to, 0, config.sndbuf, len);
                        conn.handle_copied(&part);
                    }
                }
                _ => {
                    conn.handle_tcp_fin(now);
                }
            }
            assert!(conn.send_room() <= config.sndbuf);
            assert!(conn.unsent() <= conn.outstanding());
            assert!(conn.outstanding() <= config.sndbuf);
        }
        // The end comes by time, whatever the peer did.
        conn.close(now);
        conn.handle_link_switched();
        while let Some(part) = conn.poll_recall() {
            conn.handle_copied(&part);
        }
        for _ in 0..6 {
            while let Some(transmit) = conn.poll_transmit(now) {
                tokens.push(transmit.token);
            }
            if let Some(&last) = tokens.last() {
                conn.handle_sent(now, last);
            }
            if let Some(at) = conn.next_timeout() {
                now = std::cmp::max(now, at);
                let _ = conn.handle_timeout(now);
            }
        }
        assert!(conn.is_released(), "{conn:#?}");
    });
}
