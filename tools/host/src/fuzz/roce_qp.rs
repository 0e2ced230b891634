// SPDX-License-Identifier: GPL-2.0

//! Both halves of a queue pair against a peer that sends anything and a device that calls anything:
//! limits are kept, each request completes once and in order, and nothing runs without end.

use super::input::Input;
use crate::proto::{
    base::{
        time::{
            Duration,
            Instant, //
        },
        verbs::{
            Mtu,
            Psn,
            RKey, //
        },
    },
    roce::{
        aeth::{
            RnrTimer,
            Syndrome, //
        },
        header::{
            Aeth,
            AtomicEth,
            Feth,
            Reth, //
        },
        opcode::{
            Opcode,
            Position,
            Service, //
        },
        packet::Extensions,
        reason::Reason,
        requester::{
            Requester,
            RequesterConfig,
            RetryLimits,
            SendRecord,
            SendStep, //
        },
        responder::{
            ExecuteError,
            RemoteAccess,
            ReplyPacket,
            RequestHeader,
            Resource,
            Responder,
            ResponderConfig,
            Ruling, //
        },
        work::{
            MsgId,
            Work,
            WorkKind, //
        },
    },
};

/// Places of the send queue.
const DEPTH: usize = 6;
/// More steps than any loop of the device takes.
const MANY: usize = 10_000;
/// First PSNs of both directions.
const FIRST: Psn = Psn::new(0xff_fff8);

const KINDS: [WorkKind; 13] = [
    WorkKind::Send,
    WorkKind::SendImm,
    WorkKind::SendInv,
    WorkKind::Write,
    WorkKind::WriteImm,
    WorkKind::Read,
    WorkKind::CompareSwap,
    WorkKind::FetchAdd,
    WorkKind::AtomicWrite,
    WorkKind::Flush,
    WorkKind::RegMr,
    WorkKind::LocalInv,
    WorkKind::BindMw,
];

/// A PSN that is near the first ones, or anywhere.
fn psn(input: &mut Input<'_>) -> Psn {
    match input.byte() {
        0xff => Psn::new(input.word()),
        near => FIRST
            .after(u32::from(near))
            .after(u32::MAX.wrapping_sub(15)),
    }
}

/// A length that is short, or any.
fn len(input: &mut Input<'_>) -> u32 {
    match input.byte() {
        0xff => input.word(),
        short => u32::from(short).saturating_mul(8),
    }
}

/// The sending half, and counts of its requests.
struct Sender {
    /// The requester.
    core: Requester<Vec<SendRecord>>,
    /// Requests that were posted.
    posted: u64,
    /// Requests that are complete.
    completed: u64,
    /// Whether one of them failed.
    failed: bool,
    /// The local request that is executed.
    local: Option<MsgId>,
    /// Most packets in flight.
    window: u32,
    /// Whether packets need no acknowledgement.
    unreliable: bool,
}

impl Sender {
    /// A requester with settings from the input.
    fn new(input: &mut Input<'_>, service: Service) -> Self {
        let shape = input.byte();
        let window = u32::from(shape & 7).max(1);
        let config = RequesterConfig {
            service,
            mtu: Mtu::M256,
            first_psn: FIRST,
            max_rd_atomic: u32::from(shape >> 6),
            retry: RetryLimits {
                timeout: Some(Duration::from_micros(10)),
                retries: (shape >> 4) & 3,
                rnr_retries: 3,
                probe: 2,
            },
            window_packets: window,
            window_octets: u32::MAX,
        };
        Self {
            core: Requester::new(&config, vec![SendRecord::EMPTY; DEPTH]),
            posted: 0,
            completed: 0,
            failed: false,
            local: None,
            window,
            unreliable: service == Service::Uc,
        }
    }

    /// Takes all completions: each request has one, in order, and none succeeds after a failure.
    fn complete(&mut self) {
        while let Some(done) = self.core.poll_complete() {
            assert_eq!(done.msg.get(), self.completed);
            assert!(!self.failed || done.result == Err(Reason::Flushed));
            self.completed = self.completed.saturating_add(1);
            self.failed |= done.result.is_err();
            assert!(!self.failed || done.reported);
            assert!(self.completed <= self.posted);
        }
        assert!(self.posted.saturating_sub(self.completed) <= DEPTH as u64);
    }

    /// Takes all steps.
    fn transmit(&mut self, now: Instant) {
        for round in 0.. {
            // A long message of an unreliable service has no window.
            if round == MANY {
                assert!(self.unreliable);
                return;
            }
            match self.core.poll_transmit(now, 3) {
                Some(SendStep::Packets(burst)) => {
                    assert!(!self.core.is_failed() && self.local.is_none());
                    assert!((1..=3).contains(&burst.packets) && burst.packets <= self.window);
                    assert!(burst.msg.get() >= self.completed && burst.msg.get() < self.posted);
                    for count in 0..burst.packets {
                        let index = burst.index.saturating_add(count);
                        assert!(burst.plan.packet(index).is_some());
                    }
                }
                Some(SendStep::Local(msg)) => self.local = Some(msg),
                None => return,
            }
        }
    }

    /// One event.
    fn event(&mut self, now: Instant, input: &mut Input<'_>) {
        let aeth = |input: &mut Input<'_>| Aeth {
            syndrome: Syndrome::from_octet(input.byte()),
            msn: 0,
        };
        match input.byte() % 12 {
            0 | 1 => {
                let kind = KINDS[usize::from(input.byte()) % KINDS.len()];
                let flags = input.byte();
                let work = Work {
                    kind,
                    len: len(input),
                    signaled: flags & 1 != 0,
                    fence: flags & 2 != 0,
                    solicited: false,
                };
                let full = self.posted.saturating_sub(self.completed) >= DEPTH as u64;
                let posted = self.core.post(work);
                assert_eq!(posted.is_err(), full);
                if let Ok(msg) = posted {
                    assert_eq!(msg.get(), self.posted);
                    self.posted = self.posted.saturating_add(1);
                }
            }
            2 | 3 => {
                let psn = psn(input);
                let aeth = aeth(input);
                let near = psn.get() % 2 == 0;
                self.core.handle_ack(now, psn, &aeth, near);
            }
            4 => {
                let psn = psn(input);
                self.core.handle_ack(
                    now,
                    psn,
                    &Aeth {
                        syndrome: Some(Syndrome::ACK),
                        msn: 0,
                    },
                    false,
                );
            }
            5 | 6 => {
                let psn = psn(input);
                let shape = input.byte();
                let position = Position::new(shape & 1 != 0, shape & 2 != 0);
                let aeth = aeth(input);
                let aeth = Some(&aeth).filter(|_| shape & 4 == 0);
                let len = if shape & 8 == 0 {
                    256
                } else {
                    usize::from(input.short())
                };
                let delivery = self
                    .core
                    .handle_read_response(now, psn, position, aeth, len);
                if let Ok(delivery) = delivery {
                    assert_eq!(delivery.len as usize, len);
                    if shape & 0x80 != 0 {
                        self.core.fail(delivery.msg, Reason::SinkDenied);
                    }
                }
            }
            7 => {
                let psn = psn(input);
                let aeth = aeth(input);
                let _ = self.core.handle_atomic_ack(now, psn, &aeth);
            }
            8 => {
                self.core.handle_timeout(now);
            }
            9 => {
                if let Some(msg) = self.local.take() {
                    let result = match input.bool() {
                        true => Err(Reason::NotBound),
                        false => Ok(()),
                    };
                    self.core.local_done(msg, result);
                }
            }
            _ => match input.byte() % 3 {
                0 => self.core.pause(),
                1 => {
                    if self.core.resume() && self.failed && self.completed == self.posted {
                        self.failed = false;
                        self.local = None;
                    }
                }
                _ => self.core.flush(),
            },
        }
    }
}

/// A request of any kind.
fn request(input: &mut Input<'_>) -> RequestHeader {
    let opcode = Opcode::ALL[usize::from(input.byte()) % Opcode::ALL.len()];
    let shape = input.byte();
    let reth = Reth {
        vaddr: u64::from(input.byte()),
        rkey: RKey::new(1),
        len: len(input),
    };
    RequestHeader {
        opcode,
        psn: psn(input),
        packets: if shape & 0x10 == 0 {
            1
        } else {
            1 + u32::from(input.byte())
        },
        ack_req: shape & 1 != 0,
        solicited: false,
        ext: Extensions {
            reth: Some(reth).filter(|_| shape & 2 == 0),
            feth: Some(Feth {
                placement: shape >> 6,
                level: 0,
            }),
            atomic: Some(AtomicEth {
                vaddr: reth.vaddr,
                rkey: reth.rkey,
                swap_add: 0,
                compare: 0,
            })
            .filter(|_| shape & 4 == 0),
            ..Extensions::default()
        },
        len: if shape & 8 == 0 { 256 } else { len(input) },
    }
}

/// Follows rulings to their end.
fn rule(core: &mut Responder<Vec<Resource>>, mut ruling: Ruling, input: &mut Input<'_>) {
    for round in 0.. {
        assert!(round < 8);
        let fine = input.byte() & 7 != 7;
        ruling = match ruling {
            Ruling::NeedReceive if fine => core.grant_receive(len(input)),
            Ruling::NeedReceive => core.refuse_receive(),
            Ruling::NeedKey(_) if fine => core.grant_key(),
            Ruling::NeedKey(_) => core.refuse_key(),
            Ruling::Place(_) | Ruling::Flush(_) if fine => core.executed(Ok(())),
            Ruling::Place(_) => core.executed(Err(match input.bool() {
                true => ExecuteError::ReceiveFault,
                false => ExecuteError::SourceGone,
            })),
            Ruling::Flush(_) => core.executed(Err(ExecuteError::KeyGone)),
            Ruling::Atomic(_) if fine => core.executed_atomic(Ok(1)),
            Ruling::Atomic(_) => core.executed_atomic(Err(ExecuteError::KeyGone)),
            Ruling::Done(settled) => {
                assert!(!settled.failed || core.is_failed());
                return;
            }
            Ruling::Drop(_) => return,
        };
    }
}

/// One event of the receiving half.
fn receive(core: &mut Responder<Vec<Resource>>, input: &mut Input<'_>) {
    let before = core.expected_psn();
    match input.byte() % 8 {
        0 => {
            let ruling = core.handle_unknown(psn(input));
            rule(core, ruling, input);
        }
        1..=3 => {
            let mut acks = 0;
            // At most a message of 2^31 octets in bursts of 2^20 packets, and two resources.
            for round in 0.. {
                assert!(round < 64);
                match core.poll_reply(1 << 20) {
                    Some(ReplyPacket::Read(burst)) => {
                        assert!(burst.packets > 0);
                        if input.byte() == 0xff {
                            core.read_failed(&burst, burst.psn);
                        }
                    }
                    Some(ReplyPacket::Ack { .. }) => acks += 1,
                    Some(_) => {}
                    None => break,
                }
            }
            assert!(acks <= 1);
            assert_eq!(core.expected_psn(), before);
        }
        4 if input.byte() == 0 => {
            core.flush();
        }
        _ => {
            let mut header = request(input);
            if input.bool() {
                header.psn = before;
            }
            let ruling = core.handle_request(&header);
            rule(core, ruling, input);
        }
    }
    // RNIC-RSP-15: the expected PSN never goes back on a reliable connection; a READ may take half
    // the circle.
    let moved = core.expected_psn().get().wrapping_sub(before.get()) & Psn::MAX;
    assert!(moved <= Psn::HALF || core.is_failed());
}

/// Any sequence of events on both halves.
pub fn roce_qp(octets: &[u8]) {
    let mut input = Input::new(octets);
    let service = match input.byte() {
        0xf0..=0xff => Service::Uc,
        _ => Service::Rc,
    };
    let mut sender = Sender::new(&mut input, service);
    let flags = input.byte();
    let config = ResponderConfig {
        service: Service::Rc,
        mtu: Mtu::M256,
        first_psn: FIRST,
        access: RemoteAccess {
            write: flags & 1 == 0,
            read: flags & 2 == 0,
            atomic: flags & 4 == 0,
            flush: flags & 8 == 0,
        },
        rnr_timer: match RnrTimer::new(1) {
            Some(timer) => timer,
            None => return,
        },
    };
    let mut responder = Responder::new(&config, vec![Resource::EMPTY; 2]);
    let mut now = Instant::from_nanos(1);
    while !input.is_empty() {
        now = now.saturating_add(Duration::from_micros(u64::from(input.byte() & 0x3f)));
        if input.byte() & 1 == 0 {
            sender.event(now, &mut input);
            sender.transmit(now);
            sender.complete();
        } else {
            receive(&mut responder, &mut input);
        }
    }
    // Flushing completes the rest in every state.
    sender.core.flush();
    sender.complete();
    assert_eq!(sender.completed, sender.posted);
}
