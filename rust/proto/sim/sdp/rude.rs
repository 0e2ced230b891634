// SPDX-License-Identifier: GPL-2.0

//! A peer that sends messages at random: nothing it does may break more than its connection.

use super::*;
use crate::proto::sdp::{
    msg::{
        Advert,
        Body,
        HalfMode,
        SdpMessage, //
    },
    profile::WireLayout,
    serial::Serial,
    teardown::EndState,
    wire::BsdhFlags,
};

fn body(rng: &mut Rng) -> Body {
    let number = match rng.range(0, 3) {
        0 => rng.bytes(0, 3),
        1 => rng.bytes(0, 5000),
        2 => 37,
        _ => rng.bytes(0, u32::MAX),
    };
    let advert = Advert {
        len: number.clamp(1, 1 << 31),
        stag: rng.bytes(0, 4),
        va: rng.range(0, 1 << 40),
    };
    let mode = rng.pick(&[HalfMode::Buffered, HalfMode::Combined, HalfMode::Pipelined]);
    match rng.range(0, 17) {
        0 => Body::DisConn,
        1 => Body::AbortConn,
        2 => Body::SendSm,
        3 => Body::RdmaWrCompl(number),
        4 | 5 => Body::RdmaRdCompl(number),
        6 => Body::ModeChange {
            receiver_sends: rng.one_in(3),
            mode,
        },
        7 => Body::SrcAvailCancel,
        8 => Body::SinkAvailCancel,
        9 => Body::ChRcvBuf(number.clamp(37, 1 << 31)),
        10 => Body::SuspComm(rng.range(1, 65535) as u16),
        11 => Body::SinkAvail {
            advert,
            non_discards: rng.bytes(0, 5),
        },
        12 | 13 => Body::SrcAvail(advert),
        _ => Body::Data,
    }
}

/// Sends random messages, most with the right numbers, to a connection that is in use.
fn attack(seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let mut now = Instant::from_nanos(1);
    let terms = terms(SdpTransport::Annex, 0, 8, 1024);
    let config = SdpConfig {
        ring: 16384,
        wraps: true,
        most_buffer: 64 << 10,
        threshold: 1500,
        nudges: 0,
        timers: ConnTimers::DEFAULT,
    };
    let mut conn = SdpConn::new(now, config, &terms);
    let (mut next, mut ack, mut reads, mut accepted) = (1_u32, 0_u32, 0_u32, 0);
    for slot in 0..200_u16 {
        now = now.saturating_add(Duration::from_millis(rng.range(0, 40)));
        conn.handle_timeout(now);
        match rng.range(0, 6) {
            0 => conn.write(now, rng.bytes(1, 3000)),
            1 => drop(conn.lend(now, rng.bytes(1, 4000), 0, Some(rng.bytes(0, 3)))),
            2 => drop(conn.revoke_sources(now)),
            3 => {
                let op = conn.begin_read(now, ReadTo::Reader, rng.bytes(1, 4000));
                reads += u32::from(op.is_some());
            }
            4 if reads > 0 => {
                reads -= 1;
                conn.handle_read(now);
            }
            5 => conn.want_mode(rng.pick(&[HalfMode::Combined, HalfMode::Pipelined])),
            _ => conn.refuse_advert(now),
        }
        while let SinkItem::Octets { len, .. } = conn.next_received() {
            let _ = conn.consumed(now, len);
        }
        conn.handle_posted(conn.wanted_buffers());
        while let Some(out) = conn.poll_transmit(now) {
            let message = u32::from_be_bytes(out.header.as_slice()[8..12].try_into().unwrap());
            ack = message;
            conn.handle_sent(now, out.token);
        }
        while let Some(place) = conn.poll_invalidate() {
            conn.handle_invalidated(place);
        }
        while conn.poll_release().is_some() {}
        let body = body(&mut rng);
        let payload = match body {
            Body::Data | Body::SinkAvail { .. } => rng.bytes(0, 900),
            Body::SrcAvail(advert) => rng.bytes(0, 900.min(advert.len)),
            _ => 0,
        };
        let is_wrong = rng.one_in(60);
        let message = SdpMessage {
            flags: BsdhFlags {
                urgent_present: payload > 0 && body == Body::Data && rng.one_in(9),
                urgent_pending: rng.one_in(9),
                wants_pipelined: rng.one_in(2),
            },
            bufs: rng.pick(&[0, 1, 2, 3, 8, 65535]),
            mseq: Serial::new(next.wrapping_add(u32::from(is_wrong))),
            mseq_ack: Serial::new(ack.wrapping_add(u32::from(rng.one_in(90)))),
            body,
            payload,
        };
        next = next.wrapping_add(1);
        let mut octets = message.emit(WireLayout::IdFirst).as_slice().to_vec();
        octets.resize(octets.len() + payload as usize, 0);
        if rng.one_in(50) {
            let at = rng.range(0, octets.len() as u64 - 1) as usize;
            octets[at] ^= 1 << rng.range(0, 7);
        }
        let buffer = RxBuffer {
            slot,
            size: 1024,
            octets: &octets,
            invalidated: rng.one_in(20).then(|| rng.bytes(0, 3)),
        };
        let result = conn.handle_message(now, buffer);
        conn.check();
        if result.is_err() || conn.state() == EndState::Closed {
            conn.handle_link_down(now);
            while conn.poll_release().is_some() {}
            assert!(!conn.has_lent());
            assert!(conn.poll_transmit(now).is_none());
            break;
        }
        accepted += 1;
    }
    accepted
}

#[test]
fn random_messages_end_the_connection_or_are_taken() {
    for_seeds(1, |seed| {
        let runs = 4000;
        let accepted: u64 = (0..runs).map(|run| attack(seed * runs + run)).sum();
        // Most messages are legal where they come: the attack reaches deep.
        assert!(accepted > runs, "{accepted} messages");
    });
}
