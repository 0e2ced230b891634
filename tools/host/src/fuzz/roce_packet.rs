// SPDX-License-Identifier: GPL-2.0

//! Packets of RoCE: a packet that was read is written and read again as the same one, and the
//! checksum does not depend on how its octets are split.

use crate::proto::roce::{
    crc32::{
        Crc32,
        Slicing, //
    },
    frame::Frame,
    icrc,
    packet::RocePacket, //
};

/// Longest packet that is written again.
const ROOM: usize = 2048;

/// The headers of the network and the transport behind them.
fn frame(octets: &[u8]) {
    for parse in [Frame::parse_ipv4, Frame::parse_ipv6, Frame::parse_grh] {
        let Ok((frame, transport)) = parse(octets) else {
            continue;
        };
        assert!(transport.len() <= octets.len());
        let mut buf = [0; ROOM];
        let headers = frame.emit(&mut buf).unwrap_or(0);
        assert!(headers <= Frame::MAX_LEN);
        let end = headers.saturating_add(transport.len());
        if let Some(room) = buf.get_mut(headers..end) {
            room.copy_from_slice(transport);
            let written = buf.get(..end).unwrap_or(&[]);
            assert_eq!(parse(written), Ok((frame, transport)));
        }
        // A packet with the right checksum passes, and no other one does.
        let end = transport.len().saturating_sub(icrc::ICRC_LEN);
        let (body, tail) = transport.split_at(end);
        if let Some(right) = icrc::icrc_of(&Slicing, &frame, body) {
            let checked = icrc::check(&Slicing, &frame, transport);
            assert_eq!(checked.is_ok(), right == tail);
            let mut sealed = [0; ROOM];
            let len = body.len().saturating_add(right.len());
            for (to, from) in sealed.iter_mut().zip(body.iter().chain(&right)) {
                *to = *from;
            }
            if let Some(sealed) = sealed.get(..len) {
                assert_eq!(icrc::check(&Slicing, &frame, sealed), Ok(body));
            }
            transport_of(body);
        }
    }
}

/// The octets from the BTH to the padding.
fn transport_of(octets: &[u8]) {
    let read = RocePacket::parse(octets);
    if let Ok(packet) = read {
        let mut buf = [0; ROOM];
        if let Some(len) = packet.emit(&mut buf) {
            let again = RocePacket::parse(buf.get(..len).unwrap_or(&[]));
            // The padding count is the smallest one.
            let same = again.map(|again| (again.opcode, again.ext, again.payload));
            assert_eq!(same, Ok((packet.opcode, packet.ext, packet.payload)));
        }
    }
}

/// A packet with the headers of the network, one without, and a checksum in two parts.
pub fn roce_packet(octets: &[u8]) {
    frame(octets);
    transport_of(octets);

    let (split, octets) = octets.split_first().unwrap_or((&0, &[]));
    let (head, tail) = octets.split_at(octets.len().min(usize::from(*split)));
    let whole = Crc32::START.update(octets);
    let first = Crc32::START.update(head);
    assert_eq!(first.update(tail), whole);
    let len = u64::try_from(tail.len()).unwrap_or(0);
    assert_eq!(first.combine(Crc32::START.update(tail), len), whole);
}
