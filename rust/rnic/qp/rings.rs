// SPDX-License-Identifier: GPL-2.0

//! The queues of a queue pair of user space: rings that the program fills (RNIC-UAPI).
//!
//! They belong to the protocol state. A work request is copied out once, when it is taken, and checked
//! in the copy; a slot is free again when its request completes. The program may write anything to a
//! ring at any time: the indices of this side are kept here, and its own is only masked (RNIC-SEC-04,
//! RNIC-SEC-05).

use super::queues::Send;
use crate::{
    kapi::ibdev::{
        QpCaps,
        QpRings,
        RecvWr,
        RemoteAddr,
        SendOp,
        SendWr,
        UdDest,
        UserQpSizes,
        UserRing,
        WrData,
        WrSge,
        MAX_WR_INLINE, //
    },
    proto::roce::{
        opcode::Service,
        ring::{
            RingShape,
            CONSUMER_AT,
            PRODUCER_AT,
            SHAPE_AT, //
        },
        wqe::{
            MalformedWqe,
            UserData,
            UserElement,
            UserLimits,
            UserOp,
            UserReceive,
            UserRemote,
            UserSend,
            RECEIVE_HEAD,
            SEND_HEAD,
            SGE_LEN, //
        },
    },
    rnic::{
        domain::Domain,
        limits,
        region::Region, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Octets of the heads, and of an element.
const SEND_LEN: usize = 208;
const RECEIVE_LEN: usize = 40;
const ELEMENT_LEN: usize = 16;

/// The rings of a queue pair with these sizes, of which `caps` says what the rounding gave
/// (RNIC-QPS-08).
struct Shapes {
    sends: RingShape,
    receives: RingShape,
    caps: QpCaps,
}

impl Shapes {
    /// # Errors
    ///
    /// `EINVAL` for sizes beyond the limits.
    fn new(caps: QpCaps) -> Result<Self> {
        let inline = u32::try_from(MAX_WR_INLINE)?;
        let sends = RingShape::of_sends(caps.max_send_wr, caps.max_send_sge, caps.max_inline);
        let receives = RingShape::of_receives(caps.max_recv_wr, caps.max_recv_sge);
        let (sends, receives) = (sends.ok_or(EINVAL)?, receives.ok_or(EINVAL)?);
        let elements = |room: u32| (room / SGE_LEN).min(limits::MAX_SGE);
        let room = sends.room_behind(SEND_HEAD);
        let caps = QpCaps {
            max_send_wr: sends.entries(),
            max_recv_wr: receives.entries(),
            max_send_sge: elements(room),
            max_recv_sge: elements(receives.room_behind(RECEIVE_HEAD)),
            max_inline: room.min(inline),
        };
        Ok(Self {
            sends,
            receives,
            caps,
        })
    }
}

/// The sizes of a queue pair of user space.
///
/// # Errors
///
/// `EINVAL` for sizes beyond the limits.
pub(crate) fn user_sizes(caps: QpCaps) -> Result<UserQpSizes> {
    if caps.max_send_wr > limits::MAX_QP_WR
        || caps.max_recv_wr > limits::MAX_QP_WR
        || caps.max_send_sge > limits::MAX_SGE
        || caps.max_recv_sge > limits::MAX_SGE
        || caps.max_inline > u32::try_from(MAX_WR_INLINE)?
    {
        return Err(EINVAL);
    }
    let shapes = Shapes::new(caps)?;
    Ok(UserQpSizes {
        caps: shapes.caps,
        sends: usize::try_from(shapes.sends.octets())?,
        receives: usize::try_from(shapes.receives.octets())?,
    })
}

/// A ring that a program fills.
///
/// # Invariants
///
/// `head` and `next` are indices, and at most as many slots as the ring has entries are between them.
struct UserQueue {
    ring: Arc<UserRing>,
    shape: RingShape,
    /// Slot of the oldest request that is not complete.
    head: u32,
    /// Slot of the next request that is taken.
    next: u32,
}

impl UserQueue {
    /// Tells the library the shape of a new ring.
    fn new(ring: Arc<UserRing>, shape: RingShape) -> Result<Self> {
        let [bits, mask] = shape.words();
        let mut words = [0; 8];
        let (first, last) = words.split_at_mut(4);
        first.copy_from_slice(&bits.to_ne_bytes());
        last.copy_from_slice(&mask.to_ne_bytes());
        ring.store(SHAPE_AT, &words).map_err(|_| EINVAL)?;
        Ok(Self {
            ring,
            shape,
            head: 0,
            next: 0,
        })
    }

    /// The offset of the slot of the next request, if there is one.
    fn peek(&self) -> Option<usize> {
        // A full ring has no other request, whatever the program says (RNIC-SEC-06).
        if self.shape.used(self.next, self.head) >= self.shape.entries() {
            return None;
        }
        let producer = self.ring.load_index(PRODUCER_AT).ok()?;
        (self.shape.used(producer, self.next) > 0).then(|| self.shape.slot_at(self.next))
    }

    /// Takes the request of [`Self::peek`].
    fn advance(&mut self) {
        self.next = self.shape.after(self.next);
    }

    /// Frees the slots of the oldest requests, which are complete.
    fn release(&mut self, count: u64) {
        let taken = u64::from(self.shape.used(self.next, self.head));
        for _ in 0..count.min(taken) {
            self.head = self.shape.after(self.head);
        }
        self.publish();
    }

    /// Forgets all requests.
    fn clear(&mut self) {
        // Cannot fail: each ring has a header.
        let producer = self.ring.load_index(PRODUCER_AT).unwrap_or_default();
        self.next = producer & self.shape.entries();
        self.head = self.next;
        self.publish();
    }

    /// Tells the program which slots are free.
    fn publish(&self) {
        // Cannot fail, as above.
        let _ = self.ring.store_index(CONSUMER_AT, self.head);
    }

    /// Copies elements out.
    fn elements(&self, at: usize, count: usize) -> Result<WrData> {
        WrData::user_elements(count, |index| {
            let mut octets = [0; ELEMENT_LEN];
            let offset = index.checked_mul(ELEMENT_LEN)?.checked_add(at)?;
            self.ring.load(offset, &mut octets).ok()?;
            let element = UserElement::parse(&octets)?;
            Some(WrSge::of_user(element.addr, element.len, element.lkey))
        })
    }
}

/// The ring of send work requests.
pub(super) struct RingSends {
    queue: UserQueue,
    limits: UserLimits,
    service: Service,
}

impl RingSends {
    /// Takes the next request. One that cannot be executed comes out as such (RNIC-SEC-02).
    pub(super) fn take(&mut self, domain: &Domain) -> Option<Send> {
        let at = self.queue.peek()?;
        let mut head = [0; SEND_LEN];
        self.queue.ring.load(at, &mut head).ok()?;
        self.queue.advance();
        let parsed = UserSend::parse(&head, self.service, self.limits);
        let id = match parsed {
            Ok(wr) => wr.id,
            Err(MalformedWqe { id }) => id,
        };
        let wr = parsed.ok().and_then(|wr| self.request(&wr, at, domain));
        Some(wr.unwrap_or(SendWr {
            id,
            op: SendOp::Malformed,
            data: WrData::EMPTY,
            dest: None,
            signaled: true,
            fence: false,
            solicited: false,
        }))
    }

    /// The request with its data.
    fn request(&self, wr: &UserSend, at: usize, domain: &Domain) -> Option<Send> {
        let at = at.checked_add(SEND_LEN)?;
        let dest = match wr.dest {
            Some(dest) => Some(UdDest {
                ah: domain.find_handle(dest.handle)?,
                qpn: dest.qpn,
                qkey: dest.qkey,
            }),
            None => None,
        };
        let data = match wr.data {
            UserData::Elements(count) => self.queue.elements(at, count),
            UserData::Inline(len) => {
                WrData::user_inline(len, |octets| self.queue.ring.load(at, octets).ok())
            }
        };
        Some(SendWr {
            id: wr.id,
            op: operation(wr.op),
            data: data.ok()?,
            dest,
            signaled: wr.signaled,
            fence: wr.fence,
            solicited: wr.solicited,
        })
    }

    /// Frees the slots of the oldest requests, which are complete.
    pub(super) fn release(&mut self, count: u64) {
        self.queue.release(count);
    }
}

/// The operation of a request of user space, none of which only the kernel may ask for.
fn operation(op: UserOp) -> SendOp<Region> {
    let at = |remote: UserRemote| RemoteAddr {
        addr: remote.addr,
        rkey: remote.rkey,
    };
    match op {
        UserOp::Send => SendOp::Send,
        UserOp::SendImm(imm) => SendOp::SendImm(imm),
        UserOp::SendInv(key) => SendOp::SendInv(key),
        UserOp::Write(remote) => SendOp::Write(at(remote)),
        UserOp::WriteImm(remote, imm) => SendOp::WriteImm(at(remote), imm),
        UserOp::Read(remote) => SendOp::Read(at(remote)),
        UserOp::CompareSwap(remote, compare, swap) => {
            SendOp::CompareSwap(at(remote), compare, swap)
        }
        UserOp::FetchAdd(remote, add) => SendOp::FetchAdd(at(remote), add),
        UserOp::LocalInv(key) => SendOp::LocalInv(key),
    }
}

/// The ring of receive work requests.
pub(super) struct RingReceives {
    queue: UserQueue,
    /// Elements of a request.
    sges: u32,
    /// The copy of the next request, once it was looked at.
    copy: Option<RecvWr>,
}

impl RingReceives {
    /// The next request.
    pub(super) fn peek(&mut self) -> Option<&RecvWr> {
        if self.copy.is_none() {
            let at = self.queue.peek()?;
            let mut head = [0; RECEIVE_LEN];
            self.queue.ring.load(at, &mut head).ok()?;
            let wr = UserReceive::parse(&head, self.sges);
            let elements = self.queue.elements(at.checked_add(RECEIVE_LEN)?, wr.count);
            self.queue.advance();
            self.copy = Some(RecvWr {
                id: wr.id,
                data: elements.unwrap_or(WrData::EMPTY),
            });
        }
        self.copy.as_ref()
    }

    /// Takes the next request.
    pub(super) fn take(&mut self) -> Option<RecvWr> {
        self.peek()?;
        self.copy.take()
    }

    /// Frees the slot of the oldest request, which is complete.
    pub(super) fn release(&mut self) {
        self.queue.release(1);
    }
}

/// Both rings of a queue pair.
pub(super) struct UserQueues {
    /// Of send work requests.
    pub(super) sends: RingSends,
    /// Of receive work requests.
    pub(super) receives: RingReceives,
}

impl UserQueues {
    /// The queues in rings of a queue pair with the sizes that [`user_sizes`] gave.
    ///
    /// # Errors
    ///
    /// `EINVAL` for rings that are too short.
    // A frame of its own: that of its caller holds a whole queue pair.
    #[inline(never)]
    pub(super) fn new(rings: QpRings, caps: QpCaps, service: Service) -> Result<Self> {
        let shapes = Shapes::new(caps)?;
        let sends = RingSends {
            queue: UserQueue::new(rings.sends, shapes.sends)?,
            limits: UserLimits {
                sges: caps.max_send_sge,
                inline: caps.max_inline,
            },
            service,
        };
        let receives = RingReceives {
            queue: UserQueue::new(rings.receives, shapes.receives)?,
            sges: caps.max_recv_sge,
            copy: None,
        };
        Ok(Self { sends, receives })
    }

    /// Forgets all requests (RNIC-QPS-04).
    pub(super) fn clear(&mut self) {
        self.sends.queue.clear();
        self.receives.copy = None;
        self.receives.queue.clear();
    }
}
