// SPDX-License-Identifier: GPL-2.0

//! Traces of one responder: the order of its checks, its replies, and duplicates.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "this is a test: to panic is how it fails"
)]

mod reasons;
mod refusals;
mod replies;
mod requests;

use super::*;
use crate::proto::{
    base::verbs::Mtu,
    roce::{
        aeth::NakCounts,
        header::{
            AtomicEth,
            Feth,
            Reth, //
        },
        opcode::Opcode,
        packet::Extensions,
        work::WorkKind, //
    },
};

/// Octets of a full packet.
const FULL: u32 = 256;
const KEY: RKey = RKey::new(7);
const RNR: Syndrome = Syndrome::RnrNak(match RnrTimer::new(12) {
    Some(timer) => timer,
    None => panic!(),
});
const INVALID: Syndrome = Syndrome::Nak(NakCode::InvalidRequest);
const ACCESS: Syndrome = Syndrome::Nak(NakCode::RemoteAccess);
const SEQUENCE: Syndrome = Syndrome::Nak(NakCode::Sequence);

const CONFIG: ResponderConfig = ResponderConfig {
    service: Service::Rc,
    mtu: Mtu::M256,
    first_psn: Psn::new(0xff_fffe),
    access: RemoteAccess {
        write: true,
        read: true,
        atomic: true,
        flush: true,
    },
    rnr_timer: match RnrTimer::new(12) {
        Some(timer) => timer,
        None => panic!(),
    },
};

/// A responder with two resources, whose packets are numbered from 0.
struct ReceiveBench {
    core: Responder<Vec<Resource>>,
}

impl ReceiveBench {
    fn new(config: ResponderConfig) -> Self {
        Self {
            core: Responder::new(&config, vec![Resource::EMPTY; 2]),
        }
    }

    fn request(&mut self, header: RequestHeader) -> Ruling {
        self.core.handle_request(&header)
    }

    /// Handles a request with a receive buffer, a key and memory that permit everything.
    fn accept(&mut self, header: RequestHeader) -> Settled {
        let mut ruling = self.request(header);
        loop {
            ruling = match ruling {
                Ruling::NeedReceive => self.core.grant_receive(1_000),
                Ruling::NeedKey(_) => self.core.grant_key(),
                Ruling::Place(_) | Ruling::Flush(_) => self.core.executed(Ok(())),
                Ruling::Atomic(_) => self.core.executed_atomic(Ok(99)),
                Ruling::Done(settled) => return settled,
                Ruling::Drop(reason) => panic!("{reason:?}"),
            };
        }
    }

    /// The next reply, as octets of its kind: PSN number, syndrome, MSN.
    fn ack(&mut self) -> Option<(i32, Syndrome, u32)> {
        match self.core.poll_reply(100)? {
            ReplyPacket::Ack { psn, syndrome, msn } => Some((number(psn), syndrome, msn)),
            other => panic!("{other:?}"),
        }
    }

    /// The next reply, which is a READ response: PSN number, offset, first packet, packets.
    fn read(&mut self, room: u32) -> (i32, u64, u32, u32) {
        match self.core.poll_reply(room) {
            Some(ReplyPacket::Read(burst)) => {
                (number(burst.psn), burst.vaddr, burst.index, burst.packets)
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The distance of a PSN from the first one.
fn number(psn: Psn) -> i32 {
    psn.distance(CONFIG.first_psn)
}

fn header(opcode: Opcode, number: u32, len: u32) -> RequestHeader {
    RequestHeader {
        opcode,
        psn: CONFIG.first_psn.after(number),
        packets: 1,
        ack_req: false,
        solicited: false,
        ext: Extensions::default(),
        len,
    }
}

/// A packet with a range: at the address that is the key's, unless it is not.
fn ranged(opcode: Opcode, number: u32, len: u32, vaddr: u64, total: u32) -> RequestHeader {
    let reth = Reth {
        vaddr,
        rkey: KEY,
        len: total,
    };
    RequestHeader {
        ext: Extensions {
            reth: Some(reth),
            imm: Some([1, 2, 3, 4]),
            ..Extensions::default()
        },
        ..header(opcode, number, len)
    }
}

/// A run of packets.
fn run(packets: u32, header: RequestHeader) -> RequestHeader {
    RequestHeader { packets, ..header }
}

fn read(number: u32, vaddr: u64, total: u32) -> RequestHeader {
    ranged(Opcode::RcReadRequest, number, 0, vaddr, total)
}

fn atomic(number: u32, vaddr: u64) -> RequestHeader {
    let eth = AtomicEth {
        vaddr,
        rkey: KEY,
        swap_add: 5,
        compare: 6,
    };
    RequestHeader {
        ext: Extensions {
            atomic: Some(eth),
            ..Extensions::default()
        },
        ..header(Opcode::RcCompareSwap, number, 0)
    }
}

fn flush(number: u32, placement: u8, level: u8) -> RequestHeader {
    let mut header = ranged(Opcode::RcFlush, number, 0, 8, 64);
    header.ext.feth = Some(Feth { placement, level });
    header
}

fn asking(header: RequestHeader) -> RequestHeader {
    RequestHeader {
        ack_req: true,
        ..header
    }
}

impl ReceiveBench {
    /// Grants a receive buffer and executes.
    fn accept_granted(&mut self) -> Settled {
        self.core.grant_receive(9);
        match self.core.executed(Ok(())) {
            Ruling::Done(settled) => settled,
            other => panic!("{other:?}"),
        }
    }
}

const UC: ResponderConfig = ResponderConfig {
    service: Service::Uc,
    ..CONFIG
};
