// SPDX-License-Identifier: GPL-2.0

//! An SDP connection against a peer that sends anything and callers that call anything: no place
//! outside a buffer is named, messages are valid, and lent memory comes back at the end.

use super::{
    input::Input,
    sdp_pair::terms, //
};
use crate::proto::{
    base::time::{
        Duration,
        Instant, //
    },
    sdp::{
        conn::{
            ConnTimers,
            Outbound,
            RxBuffer,
            SdpConfig,
            SdpConn, //
        },
        msg::{
            HalfMode,
            SdpMessage, //
        },
        profile::WireLayout,
        sink::{
            ReadTo,
            RxPlan,
            SinkItem, //
        },
        source::PayloadFrom,
        teardown::EndState,
    },
};

/// Octets of the send ring.
const RING: u32 = 300;
/// Octets of the receive buffers.
const SIZE: u32 = 100;

/// Checks a message that is posted; gives its number.
fn check(out: &Outbound) -> u32 {
    let len = match out.payload {
        PayloadFrom::Nothing => 0,
        PayloadFrom::Ring(pieces) => {
            for piece in pieces {
                assert!(piece.len == 0 || piece.off + piece.len <= RING);
            }
            pieces[0].len + pieces[1].len
        }
        PayloadFrom::Lent { len, .. } => len,
    };
    let mut octets = out.header.as_slice().to_vec();
    octets.resize(octets.len() + len as usize, 0);
    assert!(octets.len() <= SIZE as usize);
    let message = SdpMessage::parse(&octets, WireLayout::IdFirst).unwrap();
    message.mseq.get()
}

/// Checks what becomes of a receive buffer.
fn check_plan(plan: RxPlan, octets: usize) {
    match plan {
        RxPlan::Free => {}
        RxPlan::Queue { off, len } => assert_eq!((off + len) as usize, octets),
        RxPlan::Append { at, off, len, .. } => {
            assert_eq!((off + len) as usize, octets);
            assert!(at + len <= SIZE);
        }
    }
}

/// Any sequence of events.
pub fn sdp_conn(octets: &[u8]) {
    let mut input = Input::new(octets);
    let mut now = Instant::from_nanos(1);
    let config = SdpConfig {
        ring: RING,
        wraps: true,
        most_buffer: 64 << 10,
        threshold: 40,
        nudges: 0,
        timers: ConnTimers::DEFAULT,
    };
    let bufs = 3 + u16::from(input.byte() % 8);
    let mut conn = SdpConn::new(now, config, &terms(0, bufs, SIZE));
    let (mut next, mut sent, mut slot, mut reads) = (1_u32, 0_u32, 0_u16, 0_u32);

    while !input.is_empty() {
        match input.byte() % 16 {
            // A message with the right numbers and anything else.
            0..=5 => {
                let mut octets = vec![input.byte(), input.byte() & 7, 0, input.byte()];
                let body = usize::from(input.byte() % 40);
                let len = 16 + body as u32;
                octets.extend(len.to_be_bytes());
                octets.extend(next.to_be_bytes());
                let back = u32::from(input.byte() % 3);
                octets.extend(sent.saturating_sub(back).to_be_bytes());
                octets.extend(input.octets(body));
                octets.resize(len as usize, 0);
                next = next.wrapping_add(1);
                slot = slot.wrapping_add(1);
                let buffer = RxBuffer {
                    slot,
                    size: SIZE,
                    octets: &octets,
                    invalidated: (input.byte() == 0).then_some(1),
                };
                match conn.handle_message(now, buffer) {
                    Ok(plan) => check_plan(plan, octets.len()),
                    Err(_) => assert!(!matches!(conn.state(), EndState::Open)),
                }
            }
            6 => {
                let want = u32::from(input.byte());
                let [a, b] = conn.send_segments(want);
                assert!(a.off + a.len <= RING && b.off + b.len <= RING);
                assert!(a.len + b.len <= want.min(conn.send_room()));
                conn.write(now, want);
            }
            7 => {
                let want = conn.lendable(u32::from(input.byte()));
                let _ = conn.lend(now, want, 0, Some(1));
            }
            8 => {
                let room = u32::from(input.byte());
                reads += u32::from(conn.begin_read(now, ReadTo::Reader, room).is_some());
            }
            9 if reads > 0 => {
                reads -= 1;
                let _ = conn.handle_read(now);
            }
            10 => {
                if let SinkItem::Octets { off, len, .. } = conn.next_received() {
                    assert!(len > 0 && off + len <= SIZE);
                    let _ = conn.consumed(now, u32::from(input.byte()));
                }
            }
            11 => match input.byte() % 8 {
                0 => drop(conn.revoke_sources(now)),
                1 => conn.refuse_advert(now),
                2 => conn.mark_urgent(),
                3 => conn.shutdown_send(),
                4 => drop(conn.shutdown_receive()),
                5 => conn.want_mode(HalfMode::Pipelined),
                6 => conn.want_mode(HalfMode::Combined),
                _ => drop(conn.retract(usize::from(input.byte() % 9))),
            },
            12 => match input.byte() {
                0 => conn.close(now),
                1 => conn.abort(now),
                place => drop(conn.rekey(usize::from(place % 8), 1)),
            },
            13 => {
                now = now.saturating_add(Duration::from_millis(u64::from(input.short())));
                conn.handle_timeout(now);
            }
            14 => {
                if let Some(place) = conn.poll_invalidate() {
                    conn.handle_invalidated(place);
                }
                let _ = conn.poll_release();
                let wanted = conn.wanted_buffers();
                conn.handle_posted(wanted);
            }
            _ => {
                if let Some(out) = conn.poll_transmit(now) {
                    sent = check(&out);
                    conn.handle_sent(now, out.token);
                }
            }
        }
        conn.check();
    }
    conn.abort(now);
    conn.handle_link_down(now);
    while conn.poll_release().is_some() {}
    let is_moving = conn.state() != EndState::Closed;
    assert!(is_moving || !conn.has_lent());
    assert!(is_moving || conn.poll_transmit(now).is_none());
}
