// SPDX-License-Identifier: GPL-2.0

//! Parsers: what was understood can be written and is understood in the same way again.

use crate::proto::smc::{
    cdc::Msg,
    clc::{
        Assembler,
        ClcError,
        ClcMessage, //
    },
    llc::{
        self,
        Layout, //
    },
    tcpopt::{
        decide_syn_out,
        decide_synack_out,
        judge_synack,
        scan,
        syn_allows_smc,
        Nonce,
        OptionVerdict,
        MAX_OPTIONS, //
    },
};

/// A CLC message, at once and in pieces.
pub fn clc_message(octets: &[u8]) {
    let whole = ClcMessage::parse(octets);
    if let Ok(message) = whole {
        let mut buf = [0; 600];
        let len = message.emit(&mut buf).unwrap_or(0);
        assert_eq!(ClcMessage::parse(buf.get(..len).unwrap_or(&[])), whole);
    }

    let mut assembler = Assembler::new();
    let mut rest = octets;
    let mut taken = 0_usize;
    while !rest.is_empty() {
        let room = assembler.room();
        assert!(!room.is_empty());
        let count = room.len().min(rest.len());
        let (piece, tail) = rest.split_at(count);
        for (to, from) in room.iter_mut().zip(piece) {
            *to = *from;
        }
        rest = tail;
        taken = taken.saturating_add(count);
        match assembler.filled(count) {
            Ok(None) => {}
            // The first message of the octets, and not one octet more.
            Ok(Some(message)) => {
                let first = octets.get(..taken).unwrap_or(&[]);
                assert_eq!(ClcMessage::parse(first), Ok(message));
                return;
            }
            Err(ClcError::Reserved(value)) => {
                let first = octets.get(..taken).unwrap_or(&[]);
                assert_eq!(ClcMessage::parse(first), Err(ClcError::Reserved(value)));
                return;
            }
            Err(ClcError::Protocol(_)) => {
                assert!(whole.is_err());
                return;
            }
        }
    }
    assert!(whole.is_err());
}

/// An LLC message in both layouts.
pub fn llc_message(octets: &[u8]) {
    for layout in [Layout::Rfc, Layout::Linux, Layout::V2, Layout::V2Little] {
        let read = llc::msg::LlcBody::parse(octets, layout);
        if let Ok(message) = read {
            if let Some(written) = message.emit(layout) {
                assert_eq!(llc::msg::LlcBody::parse(&written, layout), read);
            }
        }
    }
}

/// A CDC message.
pub fn cdc_message(octets: &[u8]) {
    let read = Msg::parse(octets);
    if let Ok(message) = read {
        assert_eq!(Msg::parse(&message.emit()), read);
    }
}

/// The options of a SYN and of a SYN-ACK.
pub fn tcp_option(octets: &[u8]) {
    let (seed, octets) = octets.split_first().unwrap_or((&0, &[]));
    let nonce = Nonce::new(u32::from(*seed));
    let (own, other) = octets.split_at(octets.len().min(usize::from(*seed)));
    assert!(scan(own).len_used <= own.len());
    for (verdict, before) in [
        (decide_syn_out(own, nonce), own),
        (decide_synack_out(other, own), own),
    ] {
        let OptionVerdict::Add(add) = verdict else {
            continue;
        };
        let mut all = [0; MAX_OPTIONS];
        let len = before.len().saturating_add(add.as_slice().len());
        assert!(len <= all.len() && len % 4 == 0);
        for (to, from) in all.iter_mut().zip(before.iter().chain(add.as_slice())) {
            *to = *from;
        }
        let found = scan(all.get(..len).unwrap_or(&[]));
        assert!(found.smc && !found.malformed && !found.auth);
    }
    assert!(!syn_allows_smc(other) || scan(other).smc);
    assert!(judge_synack(own, nonce).is_err() || scan(own).smc);
}
