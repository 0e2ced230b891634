// SPDX-License-Identifier: GPL-2.0

//! A connection against a peer that sends anything and callers that call anything: no place outside
//! a buffer is named, and what is written never overtakes what the peer has read.

use super::input::Input;
use crate::proto::{
    base::time::{
        Duration,
        Instant, //
    },
    smc::{
        cdc::{
            CloseTimers,
            Conn,
            ConnConfig,
            Msg,
            Segment,
            Transmit, //
        },
        cursor::Wire,
        wire::AlertToken, //
    },
};

/// Sizes that wrap soon.
const SIZES: [u32; 4] = [40, 57, 64, 90];

/// The segment lies in a buffer of `size` bytes behind `origin`.
fn check(segment: Segment, origin: u32, size: u32) {
    let end = segment.off.checked_add(segment.len);
    assert!(segment.len == 0 || segment.off >= origin && end.is_some_and(|end| end <= size));
}

/// Any sequence of events.
pub fn cdc_conn(octets: &[u8]) {
    let mut input = Input::new(octets);
    let shape = input.byte();
    let size = |shift: u8| SIZES[usize::from((shape >> shift) & 3)];
    let config = ConnConfig {
        token: AlertToken::new(1),
        sndbuf: size(0),
        local_rmbe: size(2),
        peer_rmbe: size(4),
        origin: if shape & 0x40 != 0 { 4 } else { 0 },
        cork_bytes: if shape & 0x80 != 0 { 20 } else { 0 },
        max_write: 0,
        timers: CloseTimers::DEFAULT,
    };
    let Some(mut conn) = Conn::new(&config) else {
        return;
    };
    let mut now = Instant::from_nanos(1);
    let mut seq = 0_u16;
    let mut flying: Option<Transmit> = None;

    while !input.is_empty() {
        match input.byte() % 16 {
            0..=3 => {
                // The octets behind the cursors are the flags, which parsing takes as they are.
                let mut octets = [0; 44];
                octets[0] = 0xfe;
                octets[1] = 44;
                octets[24..28].copy_from_slice(&input.array::<4>());
                if let Ok(mut message) = Msg::parse(&octets) {
                    seq = seq.wrapping_add(u16::from(input.byte() % 3));
                    message.seq = seq;
                    message.produced = wire(&mut input);
                    message.consumed = wire(&mut input);
                    if conn.handle_cdc(now, &message).is_err() {
                        assert_eq!(conn.recv_available(), 0);
                    }
                }
            }
            4..=5 => {
                let want = u32::from(input.byte());
                let room = conn.send_room();
                assert!(room <= config.sndbuf);
                let [a, b] = conn.send_segments(want);
                check(a, 0, config.sndbuf);
                check(b, 0, config.sndbuf);
                assert!(a.len.saturating_add(b.len) <= want.min(room));
                conn.write(now, want);
            }
            6..=7 => {
                let available = conn.recv_available();
                assert!(available <= config.local_rmbe.saturating_sub(config.origin));
                let (skip, max) = (u32::from(input.byte()), u32::from(input.byte()));
                let [a, b] = conn.recv_segments(skip, max);
                check(a, config.origin, config.local_rmbe);
                check(b, config.origin, config.local_rmbe);
                assert!(a.len.saturating_add(b.len) <= available.saturating_sub(skip).min(max));
                conn.read(max);
            }
            8..=10 => {
                if let Some(transmit) = conn.poll_transmit(now) {
                    let mut bytes = 0_u32;
                    for write in transmit.writes() {
                        let (len, off) = (write.len, write.src_off);
                        check(Segment { off, len }, 0, config.sndbuf);
                        let off = write.dst_off;
                        check(Segment { off, len }, config.origin, config.peer_rmbe);
                        bytes = bytes.saturating_add(len);
                    }
                    assert!(bytes <= config.peer_rmbe.saturating_sub(config.origin));
                    assert!(Msg::parse(&transmit.cdc).is_ok());
                    if input.byte() == 0 {
                        conn.handle_post_failed(transmit.token);
                        conn.handle_link_switched();
                    } else {
                        flying = Some(transmit);
                    }
                }
            }
            11 => {
                if let Some(transmit) = flying.take() {
                    conn.handle_sent(now, transmit.token);
                }
            }
            12 => {
                now = now.saturating_add(Duration::from_millis(u64::from(input.short())));
                let _ = conn.handle_timeout(now);
            }
            13 => conn.set_corked(input.bool()),
            14 if input.bool() => conn.on_empty_read(),
            14 => conn.flush(),
            _ => match input.byte() {
                0 => conn.shutdown_write(),
                1 => conn.shutdown_read(),
                2 => conn.shutdown_both(),
                3 => conn.close(now),
                4 => conn.abort(now),
                5 => conn.handle_tcp_reset(now),
                6 => conn.handle_tcp_fin(now),
                7 => conn.handle_link_lost(),
                _ => return,
            },
        }
    }
}

/// A cursor that is near the ring, or anywhere.
fn wire(input: &mut Input<'_>) -> Wire {
    let near = input.byte();
    if near == 0xff {
        return Wire {
            wrap: input.short(),
            offset: input.word(),
        };
    }
    Wire {
        wrap: u16::from(near >> 7),
        offset: u32::from(near & 0x7f),
    }
}
