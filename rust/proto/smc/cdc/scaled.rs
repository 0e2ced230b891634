// SPDX-License-Identifier: GPL-2.0

//! The examples of RFC 7609, section 4.7, with an element that a message can name: 16 KiB, of which
//! 4 octets are the eye catcher (AMB-28).

use super::{
    conn::{
        Conn,
        ConnConfig,
        Transmit, //
    },
    CloseTimers,
    Msg, //
};
use crate::proto::{
    base::time::Instant,
    smc::wire::AlertToken, //
};

const NOW: Instant = Instant::from_nanos(1_000);
const ELEMENT: u32 = 16 << 10;
const ROOM: u32 = ELEMENT - 4;

fn connection() -> Conn {
    let config = ConnConfig {
        token: AlertToken::new(7),
        sndbuf: 100_000,
        local_rmbe: ELEMENT,
        peer_rmbe: ELEMENT,
        origin: 4,
        cork_bytes: 0,
        max_write: 0,
        timers: CloseTimers::DEFAULT,
    };
    Conn::new(&config).expect("the buffers have room")
}

/// Takes the next chain of `from`, completes it and gives its message to `to`.
fn carry(from: &mut Conn, to: &mut Conn) -> (Transmit, Msg) {
    let transmit = from.poll_transmit(NOW).expect("there is something to send");
    let message = Msg::parse(&transmit.cdc).expect("it is a message");
    from.handle_sent(NOW, transmit.token);
    to.handle_cdc(NOW, &message).expect("it is in order");
    (transmit, message)
}

// TST-020, WIN-02, RMB-25.
#[test]
fn update_comes_below_half_of_the_element() {
    let (mut a, mut b) = (connection(), connection());
    a.write(NOW, 5_000);
    let _ = carry(&mut a, &mut b);
    b.read(5_000);
    assert!(!b.wants_transmit(NOW));
    a.write(NOW, 6_000);
    let _ = carry(&mut a, &mut b);
    b.read(6_000);
    assert!(b.wants_transmit(NOW));
    let (transmit, message) = carry(&mut b, &mut a);
    assert!(transmit.writes().is_empty());
    assert_eq!(message.consumed.offset, 11_004);
    // The other direction has cursors of its own.
    assert_eq!((message.produced.wrap, message.produced.offset), (0, 4));
    assert_eq!(a.unconsumed(), 0);
}

// TST-022, WIN-03, WIN-07, CDC-53, CDC-55.
#[test]
fn full_element_wraps_and_blocks() {
    let (mut a, mut b) = (connection(), connection());
    a.write(NOW, 2 * ROOM + 8);
    for wrap in [1, 2] {
        let (transmit, message) = carry(&mut a, &mut b);
        assert_eq!(
            transmit.writes().first().map(|write| write.dst_off),
            Some(4)
        );
        assert_eq!((message.produced.wrap, message.produced.offset), (wrap, 4));
        assert!(message.flags.blocked);
        assert_eq!(b.recv_available(), ROOM);
        assert!(a.poll_transmit(NOW).is_none());
        b.read(ROOM);
        assert!(b.wants_transmit(NOW));
        let (_, answer) = carry(&mut b, &mut a);
        assert_eq!((answer.consumed.wrap, answer.consumed.offset), (wrap, 4));
    }
    let (_, message) = carry(&mut a, &mut b);
    assert_eq!((message.produced.wrap, message.produced.offset), (2, 12));
    assert!(!message.flags.blocked);
    b.read(8);
    assert!(!b.wants_transmit(NOW));
}
