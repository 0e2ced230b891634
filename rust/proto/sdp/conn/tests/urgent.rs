// SPDX-License-Identifier: GPL-2.0

//! The urgent octet of the peer, as a reader sees it.

use super::{
    at,
    Script, //
};
use crate::proto::{
    sdp::{
        msg::Body,
        sink::SinkItem,
        wire::BsdhFlags, //
    },
    stream::events::Fetch, //
};

impl Script {
    /// Data of the peer with the flags OOB_PEND and OOB_PRES.
    fn urgent(&mut self, len: u32, pending: bool, present: bool) {
        let flags = BsdhFlags {
            urgent_pending: pending,
            urgent_present: present,
            ..BsdhFlags::default()
        };
        self.tell_all(flags, Body::Data, len, None).unwrap();
    }

    fn is_at_mark(&self) -> bool {
        let (next, _) = self.conn.recv_positions();
        self.conn.urgent().is_at_mark(next)
    }
}

// SDP-OOB-09, SDP-OOB-11.
#[test]
fn urgent_octet_leaves_the_stream_when_the_reader_is_there() {
    let mut script = Script::new();
    script.urgent(3, true, true);
    assert!(script.conn.take_events().urgent);
    assert!(script.conn.poll_urgent());
    assert!(!script.conn.poll_urgent());
    script.data(2).unwrap();
    assert_eq!(script.conn.poll_passed(), None);
    assert_eq!(script.conn.urgent().until_mark(0, 0), Some(2));
    assert_eq!(script.conn.consumed(at(0), 2), None);
    assert!(script.is_at_mark());
    // Its buffer is free.
    assert_eq!(script.conn.poll_passed(), Some(1));
    assert_eq!(script.conn.poll_passed(), None);
    assert!(script.is_at_mark());
    assert_eq!(script.conn.readable_octets(), 2);
    assert_eq!(script.conn.fetch_urgent(true), Fetch::Here);
    script.conn.leave_mark();
    assert_eq!(script.conn.consumed(at(0), 2), Some(2));
    assert_eq!(script.conn.recv_positions(), (5, 5));
    assert_eq!(script.conn.next_received(), SinkItem::Nothing);
}

#[test]
fn urgent_octet_in_line_is_read_with_the_stream() {
    let mut script = Script::new();
    script.conn.set_inline(true);
    script.urgent(1, false, true);
    assert!(script.conn.take_events().urgent);
    assert_eq!(script.conn.poll_passed(), None);
    assert!(script.is_at_mark());
    assert_eq!(script.conn.fetch_urgent(true), Fetch::Nothing);
    assert_eq!(script.conn.consumed(at(0), 1), Some(1));
    assert!(!script.is_at_mark());
}

// As in TCP, the octet is expected from its announcement on, and the last one counts.
#[test]
fn announcement_of_another_octet_makes_data_of_the_first() {
    let mut script = Script::new();
    script.urgent(0, true, false);
    assert_eq!(script.conn.fetch_urgent(true), Fetch::NotYet);
    script.urgent(2, true, true);
    assert_eq!(script.conn.fetch_urgent(true), Fetch::NotYet);
    assert!(!script.conn.poll_urgent());
    script.urgent(4, false, true);
    assert!(script.conn.poll_urgent());
    assert_eq!(script.conn.urgent().until_mark(0, 0), Some(5));
    assert_eq!(script.conn.fetch_urgent(true), Fetch::Here);
}
