// SPDX-License-Identifier: GPL-2.0

//! One stack of the simulation of whole stacks: its buffers, its link, the ends of its connections.

use super::app::App;
use crate::proto::{
    base::{
        time::Instant,
        verbs::{
            Gid,
            Mac,
            Mtu,
            Psn,
            Qpn,
            RKey, //
        },
    },
    smc::{
        cdc::{
            Conn,
            Msg,
            Token,
            WriteSeg, //
        },
        clc::{
            Assembler,
            ClcOutcome,
            Endpoint,
            LlcOutcome,
            Machine, //
        },
        llc::{
            self,
            rtoken::Entry,
            Group,
            Layout,
            LinkSlot,
            LlcKind,
            LocalLink,
            PeerLink,
            RmbId,
            Role, //
        },
        wire::{
            AlertToken,
            BufSize,
            LinkNum,
            PeerId,
            RToken,
            RmbeIndex, //
        },
    },
};
use std::collections::{
    BTreeMap,
    VecDeque, //
};

/// The side that opens connections; the other one is the server.
pub(super) const CLIENT: usize = 0;
pub(super) const SIZE: BufSize = BufSize::MIN;
pub(super) const ELEMENTS: usize = 2;
/// Writes and messages that a side has under way at most.
pub(super) const SLOTS: usize = 8;

/// A remote memory buffer.
pub(super) struct Rmb {
    pub(super) token: RToken,
    /// The peer knows it, or learns of it with the elements that are given out.
    pub(super) usable: bool,
    pub(super) deleting: bool,
    pub(super) used: [bool; ELEMENTS],
    pub(super) memory: Vec<u8>,
}

/// What the link carries, in order.
pub(super) enum Packet {
    Write(usize, WriteSeg, RToken),
    Send([u8; 44], Done),
}

/// Whose completion it is.
pub(super) enum Done {
    Llc(LlcKind),
    Cdc(usize, Token),
}

/// One end of a connection.
pub(super) struct Half {
    /// The CLC handshake.
    pub(super) machine: Machine,
    /// Assembles CLC messages from `stream`.
    pub(super) assembler: Box<Assembler>,
    /// Octets of the peer that TCP has ready.
    pub(super) stream: VecDeque<u8>,
    /// Preparing waits until the peer knows this buffer.
    pub(super) awaits_rmb: Option<usize>,
    /// The handshake makes the link group.
    pub(super) first_contact: bool,
    /// The machine waits for the LLC side.
    pub(super) links: bool,
    /// Numbers of the buffer and of the element in it.
    pub(super) element: Option<(usize, usize)>,
    /// The peer's end, once known.
    pub(super) peer: Option<Endpoint>,
    /// How the handshake ended.
    pub(super) outcome: Option<ClcOutcome>,
    /// A CDC message that came before the end of the handshake.
    pub(super) early: Option<Msg>,
    /// The data core, once the handshake has succeeded.
    pub(super) conn: Option<Conn>,
    /// The peer has reset the TCP connection.
    pub(super) tcp_reset: bool,
    /// The application.
    pub(super) app: App,
    /// The send ring.
    pub(super) ring: Vec<u8>,
    /// There may be something to transmit.
    pub(super) pending: bool,
    /// The element has been given back.
    pub(super) released: bool,
}

/// One stack.
pub(super) struct Host {
    /// The link group, once there is one.
    pub(super) group: Option<Group<Vec<Entry>>>,
    /// Its queue pair receives.
    pub(super) connected: bool,
    /// First contact is over.
    pub(super) ready: bool,
    /// The group has ended.
    pub(super) over: bool,
    /// Its queue pair sends.
    pub(super) rts: bool,
    /// Buffers that the peer writes, by number.
    pub(super) rmbs: Vec<Rmb>,
    /// Connections by alert token.
    pub(super) tokens: BTreeMap<u32, usize>,
    /// Posted packets, in order.
    pub(super) out: VecDeque<Packet>,
    /// Completions that were not handled.
    pub(super) done: VecDeque<Done>,
    /// LLC messages that were not handled.
    pub(super) inbox: VecDeque<[u8; 44]>,
    /// The ends of all connections, by number.
    pub(super) ends: Vec<Half>,
}

pub(super) fn mac(side: usize) -> Mac {
    Mac::new([2, 0, 0, 0, 1, side as u8])
}

pub(super) fn gid(side: usize) -> Gid {
    Gid::new([
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, side as u8,
    ])
}

pub(super) fn qpn(side: usize) -> Qpn {
    Qpn::new(0x10 + side as u32)
}

pub(super) fn peer_id(side: usize) -> PeerId {
    PeerId::from_parts(7, mac(side))
}

impl Host {
    pub(super) fn new() -> Self {
        Self {
            group: None,
            connected: false,
            ready: false,
            over: false,
            rts: false,
            rmbs: Vec::new(),
            tokens: BTreeMap::new(),
            out: VecDeque::new(),
            done: VecDeque::new(),
            inbox: VecDeque::new(),
            ends: Vec::new(),
        }
    }

    pub(super) fn slots(&self) -> usize {
        SLOTS.saturating_sub(self.out.len() + self.done.len())
    }

    /// Makes the link group of a first contact.
    pub(super) fn make_group(&mut self, side: usize, peer: &Endpoint) {
        let server = side != CLIENT;
        let config = llc::GroupConfig {
            role: if server { Role::Server } else { Role::Client },
            local: LocalLink {
                mac: mac(side),
                gid: gid(side),
                qpn: qpn(side),
                uid: 1 + side as u32,
            },
            peer: PeerLink {
                mac: peer.mac,
                gid: peer.gid,
                qpn: peer.qpn,
            },
            number: LinkNum::new(u8::from(server)),
            max_links: 2,
            max_conns: 0,
            direct: true,
            layout: Layout::Linux,
            timers: llc::GroupTimers::default(),
        };
        let rows = || vec![Entry::EMPTY; 255];
        self.group = Some(Group::new(&config, rows(), rows()));
        self.tell_first_rmb();
        self.connected = true;
    }

    /// Tells the link group, once there is one, of the buffer that Accept or Confirm announces.
    pub(super) fn tell_first_rmb(&mut self) {
        if let (Some(group), Some(rmb)) = (self.group.as_mut(), self.rmbs.first()) {
            assert!(group.own_rmb(RmbId(0), LinkSlot::FIRST, rmb.token).is_ok());
        }
    }

    /// A free element of a buffer; makes a buffer if there is none.
    pub(super) fn reserve(&mut self, side: usize) -> (usize, usize) {
        let free = self.rmbs.iter().enumerate().find_map(|(rmb, r)| {
            let element = r.used.iter().position(|used| !used)?;
            (!r.deleting).then_some((rmb, element))
        });
        let (rmb, element) = free.unwrap_or_else(|| {
            let number = self.rmbs.len() as u32;
            self.rmbs.push(Rmb {
                token: RToken {
                    rkey: RKey::new(((side as u32 + 1) << 24) | number),
                    vaddr: ((side as u64 + 1) << 40) | (u64::from(number) << 20),
                },
                usable: false,
                deleting: false,
                used: [false; ELEMENTS],
                memory: vec![0; SIZE.bytes() as usize * ELEMENTS],
            });
            (self.rmbs.len() - 1, 0)
        });
        self.rmbs[rmb].used[element] = true;
        (rmb, element)
    }

    /// Addresses and key of an end, as the peer gets them.
    pub(super) fn endpoint(&self, side: usize, c: usize) -> Endpoint {
        let (rmb, element) = self.ends[c].element.unwrap();
        let token = self.rmbs[rmb].token;
        Endpoint {
            gid: gid(side),
            mac: mac(side),
            qpn: qpn(side),
            rkey: token.rkey,
            rmbe_index: RmbeIndex::new(element as u8 + 1).unwrap(),
            alert_token: AlertToken::new(alert(side, c)),
            buf_size: SIZE,
            mtu: Some(Mtu::M1024),
            vaddr: token.vaddr,
            psn: Psn::new(5),
        }
    }

    /// Gives back the element of an end.
    pub(super) fn release(&mut self, side: usize, c: usize) {
        self.tokens.remove(&alert(side, c));
        if let Some((rmb, element)) = self.ends[c].element.take() {
            self.rmbs[rmb].used[element] = false;
        }
        self.ends[c].released = true;
    }

    /// Tells a machine how its link came out.
    pub(super) fn tell_llc(&mut self, now: Instant, outcome: LlcOutcome) {
        for end in self.ends.iter_mut().filter(|end| end.links) {
            end.links = false;
            end.machine.handle_llc(now, outcome);
        }
    }
}

pub(super) fn alert(side: usize, c: usize) -> u32 {
    0xa000_0000 + (side as u32) * 0x1000 + c as u32
}
