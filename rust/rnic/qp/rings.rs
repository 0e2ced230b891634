// SPDX-License-Identifier: GPL-2.0

//! The queues of a queue pair of user space: rings that the program fills (RNIC-UAPI).
//!
//! They belong to the protocol state. A slot is free again when its request completes.

use super::queues::Send;
use crate::{
    kapi::ibdev::{
        FlushScope,
        IbAhOps,
        QpCaps,
        QpRings,
        RemoteAddr,
        SendOp,
        SendWr,
        UdDest,
        UserQpSizes,
        WindowBinding,
        WrData,
        MAX_WR_INLINE, //
    },
    proto::roce::{
        opcode::Service,
        ring::RingShape,
        wqe::{
            MalformedWqe,
            UserData,
            UserLimits,
            UserOp,
            UserRemote,
            UserSend,
            SEND_HEAD,
            SGE_LEN, //
        },
    },
    rnic::{
        domain::Domain,
        limits,
        region::Region,
        user_queue::{
            receive_elements,
            RingReceives,
            UserQueue, //
        },
    },
};
use kernel::prelude::*;

/// Octets of the head of a send work request.
const SEND_LEN: usize = 208;

/// The rings of a queue pair with these sizes, of which `caps` says what the rounding gave
/// (RNIC-QPS-08).
struct Shapes {
    sends: RingShape,
    /// `None` if receive requests come from a shared queue.
    receives: Option<RingShape>,
    caps: QpCaps,
}

impl Shapes {
    /// # Errors
    ///
    /// `EINVAL` for sizes beyond the limits.
    fn new(caps: QpCaps, shares: bool) -> Result<Self> {
        let inline = u32::try_from(MAX_WR_INLINE)?;
        let sends = RingShape::of_sends(caps.max_send_wr, caps.max_send_sge, caps.max_inline);
        let sends = sends.ok_or(EINVAL)?;
        let receives = if shares {
            None
        } else {
            let shape = RingShape::of_receives(caps.max_recv_wr, caps.max_recv_sge);
            Some(shape.ok_or(EINVAL)?)
        };
        let room = sends.room_behind(SEND_HEAD);
        let caps = QpCaps {
            max_send_wr: sends.entries(),
            max_recv_wr: receives.map_or(0, RingShape::entries),
            max_send_sge: (room / SGE_LEN).min(limits::MAX_SGE),
            max_recv_sge: receives.map_or(0, receive_elements),
            max_inline: room.min(inline),
        };
        Ok(Self {
            sends,
            receives,
            caps,
        })
    }
}

/// The sizes of a queue pair of user space, which takes its receive requests from a shared queue if
/// `shares`.
///
/// # Errors
///
/// `EINVAL` for sizes beyond the limits.
pub(crate) fn user_sizes(caps: QpCaps, shares: bool) -> Result<UserQpSizes> {
    if caps.max_send_wr > limits::MAX_QP_WR
        || caps.max_recv_wr > limits::MAX_QP_WR
        || caps.max_send_sge > limits::MAX_SGE
        || caps.max_recv_sge > limits::MAX_SGE
        || caps.max_inline > u32::try_from(MAX_WR_INLINE)?
    {
        return Err(EINVAL);
    }
    let shapes = Shapes::new(caps, shares)?;
    let receives = match shapes.receives {
        Some(shape) => Some(usize::try_from(shape.octets())?),
        None => None,
    };
    Ok(UserQpSizes {
        caps: shapes.caps,
        sends: usize::try_from(shapes.sends.octets())?,
        receives,
    })
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
        self.queue.load(at, &mut head)?;
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
                way: domain.find_handle(dest.handle)?.way(),
                qpn: dest.qpn,
                qkey: dest.qkey,
            }),
            None => None,
        };
        let data = match wr.data {
            UserData::Elements(count) => self.queue.elements(at, count),
            UserData::Inline(len) => WrData::user_inline(len, |octets| self.queue.load(at, octets)),
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
        UserOp::AtomicWrite(remote) => SendOp::AtomicWrite(at(remote)),
        UserOp::Flush(flush) => SendOp::Flush(
            at(flush.remote),
            FlushScope {
                len: flush.len,
                placement: flush.scope.placement,
                level: flush.scope.level,
            },
        ),
        UserOp::LocalInv(key) => SendOp::LocalInv(key),
        UserOp::BindMw(bind) => SendOp::BindMw(WindowBinding {
            window: bind.window,
            key: bind.key,
            lkey: bind.lkey,
            addr: bind.addr,
            len: bind.len,
            access: bind.access,
        }),
    }
}

/// Both rings of a queue pair.
pub(super) struct UserQueues {
    /// Of send work requests.
    pub(super) sends: RingSends,
    /// Of receive work requests, unless they come from a shared queue.
    pub(super) receives: Option<RingReceives>,
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
        let shapes = Shapes::new(caps, rings.receives.is_none())?;
        let sends = RingSends {
            queue: UserQueue::new(rings.sends, shapes.sends)?,
            limits: UserLimits {
                sges: caps.max_send_sge,
                inline: caps.max_inline,
            },
            service,
        };
        let receives = match rings.receives.zip(shapes.receives) {
            Some((ring, shape)) => Some(RingReceives::new(ring, shape, caps.max_recv_sge)?),
            None => None,
        };
        Ok(Self { sends, receives })
    }

    /// Forgets all requests (RNIC-QPS-04).
    pub(super) fn clear(&mut self) {
        self.sends.queue.clear();
        if let Some(receives) = &mut self.receives {
            receives.clear();
        }
    }
}
