// SPDX-License-Identifier: GPL-2.0

//! Two SDP connections and callers that call anything: neither end sees a violation, no memory is
//! read that was given back, and in the end each has what the other has sent.

use super::input::Input;
use crate::proto::{
    base::time::Instant,
    sdp::{
        conn::{
            ConnTimers,
            RxBuffer,
            SdpConfig,
            SdpConn, //
        },
        hello::ReadDepths,
        msg::HalfMode,
        profile::{
            Profile,
            SdpTransport, //
        },
        setup::{
            SdpTerms,
            SetupRole, //
        },
        sink::{
            ReadTo,
            SinkItem, //
        },
        source::PayloadFrom, //
    },
};
use std::collections::VecDeque;

const NOW: Instant = Instant::from_nanos(1);
/// Octets of the receive buffers.
const SIZE: u32 = 100;

/// Terms of an end with `bufs` receive buffers of `size` octets.
pub(super) fn terms(side: usize, bufs: u16, size: u32) -> SdpTerms {
    SdpTerms {
        profile: Profile::new(SdpTransport::Annex),
        role: match side {
            0 => SetupRole::Connecting,
            _ => SetupRole::Accepting,
        },
        peer_bufs: bufs,
        peer_size: size,
        peer_adverts: 3,
        bufs,
        size,
        adverts: 3,
        depths: ReadDepths { ird: 2, ord: 2 },
        invalidates: true,
    }
}

/// A message in flight: its octets, and the key that it invalidates.
type Flight = (Vec<u8>, Option<u32>);

/// One end.
struct End {
    conn: SdpConn,
    wire: VecDeque<Flight>,
    /// Reads in flight: key and octets.
    reads: VecDeque<(u32, u32)>,
    /// Keys that the peer may use, by place.
    keys: Vec<(usize, u32)>,
    next_key: u32,
    got: u64,
}

impl End {
    fn settle(&mut self) {
        while let SinkItem::Octets { len, .. } = self.conn.next_received() {
            self.got += u64::from(len);
            let _ = self.conn.consumed(NOW, len);
        }
        let wanted = self.conn.wanted_buffers();
        self.conn.handle_posted(wanted);
        self.conn.check();
    }

    fn transmit(&mut self) -> bool {
        let Some(out) = self.conn.poll_transmit(NOW) else {
            return false;
        };
        let mut octets = out.header.as_slice().to_vec();
        let len = match out.payload {
            PayloadFrom::Nothing => 0,
            PayloadFrom::Ring([a, b]) => a.len + b.len,
            PayloadFrom::Lent { len, .. } => len,
        };
        octets.resize(octets.len() + len as usize, 0);
        if let Some(place) = out.register {
            let stag = u32::from_be_bytes(octets[20..24].try_into().unwrap());
            self.keys.push((place, stag));
        }
        self.wire.push_back((octets, out.invalidate));
        self.conn.handle_sent(NOW, out.token);
        true
    }

    fn reclaim(&mut self, rekeys: bool) {
        while let Some(place) = self.conn.poll_invalidate() {
            self.conn.handle_invalidated(place);
            self.keys.retain(|key| key.0 != place);
            if rekeys && self.conn.rekey(place, self.next_key) {
                self.next_key += 1;
            }
        }
        while self.conn.poll_release().is_some() {}
    }
}

fn deliver(ends: &mut [End; 2], from: usize) -> bool {
    let Some((octets, invalidated)) = ends[from].wire.pop_front() else {
        return false;
    };
    let to = &mut ends[1 - from];
    if let Some(stag) = invalidated {
        to.keys.retain(|key| key.1 != stag);
    }
    let buffer = RxBuffer {
        slot: 0,
        size: SIZE,
        octets: &octets,
        invalidated,
    };
    to.conn
        .handle_message(NOW, buffer)
        .expect("a valid message");
    to.settle();
    true
}

fn complete(ends: &mut [End; 2], at: usize) -> bool {
    let Some((stag, len)) = ends[at].reads.pop_front() else {
        return false;
    };
    assert!(ends[1 - at].keys.iter().any(|key| key.1 == stag));
    assert_eq!(ends[at].conn.handle_read(NOW), len);
    ends[at].got += u64::from(len);
    true
}

/// Any schedule.
pub fn sdp_pair(octets: &[u8]) {
    let mut input = Input::new(octets);
    let bufs = 3 + u16::from(input.byte() % 8);
    let mut ends = [0, 1].map(|side| End {
        conn: SdpConn::new(
            NOW,
            SdpConfig {
                ring: 300,
                wraps: true,
                most_buffer: 64 << 10,
                threshold: 40,
                nudges: 0,
                timers: ConnTimers::DEFAULT,
            },
            &terms(side, bufs, SIZE),
        ),
        wire: VecDeque::new(),
        reads: VecDeque::new(),
        keys: vec![],
        next_key: 1,
        got: 0,
    });
    while !input.is_empty() {
        let choice = input.byte();
        let at = usize::from(choice >> 7);
        let end = &mut ends[at];
        match choice & 0xf {
            0..=2 => drop(end.transmit()),
            3..=5 => drop(deliver(&mut ends, at)),
            6 => drop(complete(&mut ends, at)),
            7 => {
                let room = 1 + u32::from(input.byte());
                if let Some(op) = end.conn.begin_read(NOW, ReadTo::Reader, room) {
                    end.reads.push_back((op.advert.stag, op.advert.len));
                }
            }
            8 => end.conn.write(NOW, u32::from(input.byte())),
            9 => {
                let want = end.conn.lendable(u32::from(input.byte()));
                let stag = end.next_key;
                if end.conn.lend(NOW, want, 0, Some(stag)).is_some() {
                    end.next_key += 1;
                }
            }
            10 => drop(end.conn.revoke_sources(NOW)),
            11 => end.conn.refuse_advert(NOW),
            12 => end.conn.want_mode(match choice & 0x30 {
                0 => HalfMode::Buffered,
                0x10 => HalfMode::Combined,
                _ => HalfMode::Pipelined,
            }),
            13 => drop(end.conn.retract(usize::from(input.byte() % 8))),
            14 => end.conn.mark_urgent(),
            _ => end.reclaim(choice & 0x40 != 0),
        }
        ends[at].conn.check();
    }
    finish(&mut ends);
}

/// Refuses what is not read, and lets everything arrive.
fn finish(ends: &mut [End; 2]) {
    let mut now = NOW;
    let mut idle = 0;
    for round in 0.. {
        assert!(round < 1000, "messages without end");
        let mut did = false;
        for at in [0, 1] {
            did |= complete(ends, at);
            if ends[at].conn.refused_and_adverts().1 > 0 {
                ends[at].conn.refuse_advert(NOW);
            }
            did |= ends[at].transmit();
            did |= deliver(ends, at);
            ends[at].reclaim(false);
            ends[at].settle();
        }
        if did {
            continue;
        }
        // Time enough for data to be held no longer, then to ask for an acknowledgement, and for nothing else.
        now = now.saturating_add(ConnTimers::DEFAULT.ask);
        for end in ends.iter_mut() {
            end.conn.handle_timeout(now);
        }
        idle = if ends.iter_mut().any(End::transmit) {
            0
        } else {
            idle + 1
        };
        if idle > 1 {
            break;
        }
    }
    for at in [0, 1] {
        let (sent, owed) = ends[at].conn.sent_and_owed();
        assert_eq!((sent, owed), (ends[1 - at].got, 0));
        assert!(!ends[at].conn.has_unsent(), "data is stuck");
        assert_eq!(ends[at].conn.adverts_and_cancel(), (0, false));
        assert!(!ends[at].conn.has_lent());
    }
}
