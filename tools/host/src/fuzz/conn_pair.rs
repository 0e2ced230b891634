// SPDX-License-Identifier: GPL-2.0

//! Two connections against each other, with everything that callers may do in any order: neither
//! takes the other's messages for wrong, each byte arrives once and in its place, and all written
//! data arrives in the end unless an input ended the connection.

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
            Token, //
        },
        wire::AlertToken, //
    },
};
use std::collections::VecDeque;

/// Sizes that wrap soon.
const SIZES: [u32; 4] = [40, 57, 64, 90];
/// Largest of them.
const ROOM: usize = 90;

/// A chain in flight: writes as (place, octets), and the message behind them.
struct Chain {
    writes: Vec<(usize, Vec<u8>)>,
    cdc: [u8; 44],
    token: Token,
}

/// One end with its memory.
struct Side {
    /// The core.
    conn: Conn,
    /// The send ring.
    ring: [u8; ROOM],
    /// The receive element that the other side writes.
    element: [u8; ROOM],
    /// Bytes that its program wrote.
    written: u64,
    /// Bytes that its program read.
    read: u64,
    /// Chains in flight, in order.
    flying: VecDeque<Chain>,
    /// Chains that arrived and have not been reported.
    arrived: VecDeque<Token>,
}

/// The byte at a position of a stream.
fn pattern(at: u64) -> u8 {
    (at ^ (at >> 7)) as u8
}

impl Side {
    fn new(shape: u8, token: u32) -> Option<Self> {
        let size = |shift: u8| SIZES[usize::from((shape >> shift) & 3)];
        let (local, peer) = if token == 1 { (2, 4) } else { (4, 2) };
        let conn = Conn::new(&ConnConfig {
            token: AlertToken::new(token),
            sndbuf: size(0),
            local_rmbe: size(local),
            peer_rmbe: size(peer),
            origin: if shape & 0x40 != 0 { 4 } else { 0 },
            cork_bytes: if shape & 0x80 != 0 { 20 } else { 0 },
            max_write: 0,
            timers: CloseTimers::DEFAULT,
        })?;
        Some(Self {
            conn,
            ring: [0; ROOM],
            element: [0; ROOM],
            written: 0,
            read: 0,
            flying: VecDeque::new(),
            arrived: VecDeque::new(),
        })
    }

    /// The program writes up to `want` bytes.
    fn send(&mut self, now: Instant, want: u32) {
        if self.conn.can_send().is_err() {
            return;
        }
        let mut count = 0_u32;
        for segment in self.conn.send_segments(want) {
            for at in 0..segment.len {
                let place = (segment.off + at) as usize;
                self.ring[place] = pattern(self.written + u64::from(count));
                count += 1;
            }
        }
        self.written += u64::from(count);
        self.conn.write(now, count);
    }

    /// The program reads up to `want` bytes, and checks them.
    fn receive(&mut self, want: u32) {
        let mut count = 0_u32;
        for segment in self.conn.recv_segments(0, want) {
            for at in 0..segment.len {
                let got = self.element[(segment.off + at) as usize];
                assert_eq!(got, pattern(self.read + u64::from(count)), "another byte");
                count += 1;
            }
        }
        self.read += u64::from(count);
        self.conn.read(count);
    }

    /// Posts the next chain, or finds that the link is dead and moves to another. Returns whether
    /// there was a chain.
    fn transmit(&mut self, now: Instant, fails: bool) -> bool {
        let Some(transmit) = self.conn.poll_transmit(now) else {
            return false;
        };
        if fails {
            // The link is dead, and with it all that it has not delivered.
            self.conn.handle_post_failed(transmit.token);
            let flying = self.flying.drain(..).map(|chain| chain.token);
            for token in self.arrived.drain(..).chain(flying) {
                self.conn.handle_sent_flushed(token);
            }
            assert!(!self.conn.is_in_flight(), "a chain that never comes back");
            self.conn.handle_link_switched();
            return true;
        }
        let piece = |from: u32, len: u32| {
            let from = from as usize;
            self.ring[from..from + len as usize].to_vec()
        };
        self.flying.push_back(Chain {
            writes: transmit
                .writes()
                .iter()
                .map(|write| (write.dst_off as usize, piece(write.src_off, write.len)))
                .collect(),
            cdc: transmit.cdc,
            token: transmit.token,
        });
        true
    }
}

/// The oldest chain of `from` arrives at `to`. Returns whether there was one.
fn deliver(now: Instant, from: &mut Side, to: &mut Side) -> bool {
    let Some(chain) = from.flying.pop_front() else {
        return false;
    };
    for (place, octets) in &chain.writes {
        to.element[*place..*place + octets.len()].copy_from_slice(octets);
    }
    let Ok(message) = Msg::parse(&chain.cdc) else {
        panic!("a message of ours is none");
    };
    let result = to.conn.handle_cdc(now, &message);
    assert!(
        result.is_ok() || to.conn.peer_done(),
        "a message of ours is wrong"
    );
    from.arrived.push_back(chain.token);
    true
}

/// Any sequence of calls and events on both ends.
pub fn conn_pair(octets: &[u8]) {
    let mut input = Input::new(octets);
    let shape = input.byte();
    let (Some(mut a), Some(mut b)) = (Side::new(shape, 1), Side::new(shape, 2)) else {
        return;
    };
    let mut now = Instant::from_nanos(1);
    let mut ended = false;

    while !input.is_empty() {
        let choice = input.byte();
        let (side, other) = match choice & 0x80 {
            0 => (&mut a, &mut b),
            _ => (&mut b, &mut a),
        };
        match choice % 16 {
            0..=3 => side.send(now, u32::from(input.byte())),
            4..=6 => side.receive(u32::from(input.byte())),
            7..=8 => {
                side.transmit(now, false);
            }
            9..=10 => {
                deliver(now, side, other);
            }
            11 => {
                if let Some(token) = side.arrived.pop_front() {
                    side.conn.handle_sent(now, token);
                }
            }
            12 => {
                side.transmit(now, true);
            }
            13 => {
                // Shorter than all timeouts.
                now = now.saturating_add(Duration::from_millis(u64::from(input.byte() & 31)));
                let _ = side.conn.handle_timeout(now);
            }
            14 => side.conn.set_corked(input.bool()),
            _ => {
                let how = input.byte();
                ended |= how < 6;
                match how {
                    0 => side.conn.shutdown_write(),
                    1 => side.conn.shutdown_read(),
                    2 => side.conn.shutdown_both(),
                    3 => side.conn.close(now),
                    4 => side.conn.abort(now),
                    5 => side.conn.handle_tcp_reset(now),
                    _ => {
                        side.conn.flush();
                        continue;
                    }
                }
            }
        }
    }
    if !ended {
        settle(now, &mut a, &mut b);
    }
}

/// One end does all it can for data to arrive. Returns whether there was anything.
fn turn(now: Instant, side: &mut Side, other: &mut Side) -> bool {
    side.conn.set_corked(false);
    side.conn.flush();
    let mut moved = side.transmit(now, false) | deliver(now, side, other);
    if let Some(token) = side.arrived.pop_front() {
        side.conn.handle_sent(now, token);
        moved = true;
    }
    let before = side.read;
    side.receive(u32::MAX);
    moved || side.read != before
}

/// Checks that all written data arrives, as no input has ended the connection.
fn settle(mut now: Instant, a: &mut Side, b: &mut Side) {
    loop {
        let mut moved = false;
        moved |= turn(now, a, b);
        moved |= turn(now, b, a);
        if !moved {
            // What waits for a timer is not lost.
            let due = [a.conn.poll_timeout(), b.conn.poll_timeout()];
            let Some(at) = due.into_iter().flatten().min() else {
                break;
            };
            if at.saturating_since(now) > Duration::from_secs(1) {
                break;
            }
            now = now.max(at);
            let _ = a.conn.handle_timeout(now);
            let _ = b.conn.handle_timeout(now);
        }
    }
    assert_eq!((a.written, b.written), (b.read, a.read), "bytes are lost");
}
