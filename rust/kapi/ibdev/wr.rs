// SPDX-License-Identifier: GPL-2.0

//! Work requests of kernel programs.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    memory::{
        WrSge,
        MAX_WR_SGE, //
    },
    ops::IbAhOps,
    qp::MrAccess,
    shell::Shell, //
};
use crate::bindings;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Octets of inline data, at most.
pub(crate) const MAX_WR_INLINE: usize = 256;

/// The data of a work request.
#[derive(Clone, Copy)]
pub(crate) enum WrData {
    /// Memory that stays until the completion: the elements, and their number.
    Elements([WrSge; MAX_WR_SGE], usize),
    /// A copy of the octets, and their number (RNIC-REQ-09).
    Inline([u8; MAX_WR_INLINE], usize),
}

impl WrData {
    /// No octets.
    pub(crate) const EMPTY: Self = Self::Elements([WrSge::EMPTY; MAX_WR_SGE], 0);

    /// # Errors
    ///
    /// `EINVAL` for more elements than there is room for.
    ///
    /// # Safety
    ///
    /// `list` must have `count` elements of a work request that a kernel program posts.
    unsafe fn from_elements(list: *const bindings::ib_sge, count: i32) -> Result<Self> {
        let count = usize::try_from(count)?;
        if count > MAX_WR_SGE {
            return Err(EINVAL);
        }
        let mut elements = [WrSge::EMPTY; MAX_WR_SGE];
        for (index, element) in elements.iter_mut().enumerate().take(count) {
            // SAFETY: By this function's contract.
            *element = unsafe { WrSge::new(&*list.add(index)) };
        }
        Ok(Self::Elements(elements, count))
    }

    /// # Errors
    ///
    /// `EINVAL` for more octets than there is room for.
    ///
    /// # Safety
    ///
    /// As for [`Self::from_elements`]; the addresses must be valid now.
    unsafe fn inline(list: *const bindings::ib_sge, count: i32) -> Result<Self> {
        let mut octets = [0; MAX_WR_INLINE];
        let mut used = 0_usize;
        for index in 0..usize::try_from(count)? {
            // SAFETY: By this function's contract.
            let element = unsafe { &*list.add(index) };
            let len = usize::try_from(element.length)?;
            let room = octets.get_mut(used..).and_then(|rest| rest.get_mut(..len));
            // SAFETY: As above. No key is checked.
            unsafe { WrSge::read_inline(element, room.ok_or(EINVAL)?) };
            used += len;
        }
        Ok(Self::Inline(octets, used))
    }

    /// Elements of a work request of user space, up to [`MAX_WR_SGE`], which `next` reads one by one.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more, or if `next` has none.
    pub(crate) fn user_elements(
        count: usize,
        mut next: impl FnMut(usize) -> Option<WrSge>,
    ) -> Result<Self> {
        let mut elements = [WrSge::EMPTY; MAX_WR_SGE];
        let used = elements.get_mut(..count).ok_or(EINVAL)?;
        for (index, element) in used.iter_mut().enumerate() {
            *element = next(index).ok_or(EINVAL)?;
        }
        Ok(Self::Elements(elements, count))
    }

    /// Inline data of a work request of user space, up to [`MAX_WR_INLINE`] octets, which `read` copies.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more, or if `read` fails.
    pub(crate) fn user_inline(
        len: usize,
        read: impl FnOnce(&mut [u8]) -> Option<()>,
    ) -> Result<Self> {
        let mut octets = [0; MAX_WR_INLINE];
        octets.get_mut(..len).and_then(read).ok_or(EINVAL)?;
        Ok(Self::Inline(octets, len))
    }

    /// Number of elements.
    pub(crate) fn elements(&self) -> u32 {
        match self {
            Self::Elements(_, count) => u32::try_from(*count).unwrap_or(u32::MAX),
            Self::Inline(..) => 0,
        }
    }

    /// Octets of the message; `None` if they do not fit 32 bits.
    pub(crate) fn len(&self) -> Option<u32> {
        match self {
            Self::Elements(elements, count) => elements
                .iter()
                .take(*count)
                .try_fold(0_u32, |sum, element| sum.checked_add(element.len())),
            Self::Inline(_, len) => u32::try_from(*len).ok(),
        }
    }
}

/// The peer's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteAddr {
    /// First octet.
    pub(crate) addr: u64,
    /// Key.
    pub(crate) rkey: u32,
}

/// The registration of a memory region.
pub(crate) struct MrRegistration<M> {
    /// The region.
    pub(crate) mr: Arc<M>,
    /// Its new key.
    pub(crate) key: u32,
    /// Its rights.
    pub(crate) access: MrAccess,
    /// The address of its first octet.
    pub(crate) iova: u64,
}

/// The memory that a window gives access to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowBinding {
    /// Key of the window.
    pub(crate) window: u32,
    /// Its next key, of which the low bits count.
    pub(crate) key: u32,
    /// Key of the region.
    pub(crate) lkey: u32,
    /// First octet, as the region names it.
    pub(crate) addr: u64,
    /// Octets.
    pub(crate) len: u64,
    /// Rights, as the program codes them: [`WindowAccess::new`].
    pub(crate) access: u32,
}

/// The rights of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowAccess {
    /// Rights of the peer.
    pub(crate) rights: MrAccess,
    /// Whether the peer names the first octet by 0.
    pub(crate) zero_based: bool,
}

impl WindowAccess {
    /// # Errors
    ///
    /// `EINVAL` for rights that a window does not have (RNIC-MR-09).
    pub(crate) fn new(flags: u32) -> Result<Self> {
        const KNOWN: u32 = bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
            | bindings::ib_access_flags_IB_ACCESS_REMOTE_READ
            | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;
        const ZERO: u32 = bindings::ib_access_flags_IB_ZERO_BASED;
        // A window has no local key, so that this right has no effect; programs ask for it.
        const LOCAL: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE;
        if flags & !(KNOWN | ZERO | LOCAL) != 0 {
            return Err(EINVAL);
        }
        Ok(Self {
            rights: MrAccess::new((flags & KNOWN) as i32)?,
            zero_based: flags & ZERO != 0,
        })
    }
}

/// What of the peer's memory a FLUSH is about, and in which way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushScope {
    /// Octets.
    pub(crate) len: u32,
    /// Placement types, as the packet codes them.
    pub(crate) placement: u8,
    /// Selectivity level, as the packet codes it.
    pub(crate) level: u8,
}

/// The operation of a send work request.
pub(crate) enum SendOp<M> {
    /// SEND.
    Send,
    /// SEND with immediate data, in the order of the wire.
    SendImm([u8; 4]),
    /// SEND that invalidates a key of the receiver.
    SendInv(u32),
    /// RDMA WRITE.
    Write(RemoteAddr),
    /// RDMA WRITE with immediate data.
    WriteImm(RemoteAddr, [u8; 4]),
    /// RDMA READ.
    Read(RemoteAddr),
    /// Compare and swap: the value to compare with, and the new one.
    CompareSwap(RemoteAddr, u64, u64),
    /// Fetch and add.
    FetchAdd(RemoteAddr, u64),
    /// Invalidates a local key.
    LocalInv(u32),
    /// Registers memory.
    RegMr(MrRegistration<M>),
    /// Binds a memory window. Kernel programs have none.
    BindMw(WindowBinding),
    /// ATOMIC WRITE.
    AtomicWrite(RemoteAddr),
    /// FLUSH. Kernel programs have none.
    Flush(RemoteAddr, FlushScope),
    /// A request of user space that cannot be executed (RNIC-SEC-02).
    Malformed,
}

impl<M: Send + Sync> MrRegistration<M> {
    /// Reads a request to register memory. Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` for rights that the device lacks.
    ///
    /// # Safety
    ///
    /// The region must be one of a device with regions `M`.
    unsafe fn new(reg: &bindings::ib_reg_wr) -> Result<Self> {
        let (mut iova, mut len, mut page_size) = (0, 0, 0);
        // SAFETY: By this function's contract.
        let mr = unsafe {
            bindings::rdma_sock_helper_ibmr_extent(reg.mr, &mut iova, &mut len, &mut page_size);
            Shell::<bindings::ib_mr, M>::core(reg.mr).clone()
        };
        Ok(Self {
            mr,
            key: reg.key,
            access: MrAccess::new(reg.access)?,
            iova,
        })
    }
}

impl<M: Send + Sync> SendOp<M> {
    /// Reads the operation of a work request. Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device lacks it.
    ///
    /// # Safety
    ///
    /// As for [`SendWr::new`].
    unsafe fn new(raw: *const bindings::ib_send_wr, datagram: bool) -> Result<Self> {
        // SAFETY: By this function's contract.
        let wr = unsafe { &*raw };
        // SAFETY: All variants are octets.
        let (imm, key) = unsafe { (wr.ex.imm_data.to_ne_bytes(), *wr.ex.invalidate_rkey) };
        // SAFETY: Only used for operations whose request is of this type.
        let remote = || unsafe {
            let rdma = &*raw.cast::<bindings::ib_rdma_wr>();
            RemoteAddr {
                addr: rdma.remote_addr,
                rkey: rdma.rkey,
            }
        };
        // SAFETY: As above.
        let atomic = || unsafe {
            let atomic = &*raw.cast::<bindings::ib_atomic_wr>();
            let at = RemoteAddr {
                addr: atomic.remote_addr,
                rkey: atomic.rkey,
            };
            (at, atomic.compare_add, atomic.swap)
        };
        Ok(match wr.opcode {
            bindings::ib_wr_opcode_IB_WR_SEND => Self::Send,
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => Self::SendImm(imm),
            _ if datagram => return Err(EINVAL),
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => Self::SendInv(key),
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE => Self::Write(remote()),
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => Self::WriteImm(remote(), imm),
            bindings::ib_wr_opcode_IB_WR_RDMA_READ => Self::Read(remote()),
            bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => {
                let (at, compare, swap) = atomic();
                Self::CompareSwap(at, compare, swap)
            }
            bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => {
                let (at, add, _) = atomic();
                Self::FetchAdd(at, add)
            }
            bindings::ib_wr_opcode_IB_WR_ATOMIC_WRITE => Self::AtomicWrite(remote()),
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => Self::LocalInv(key),
            bindings::ib_wr_opcode_IB_WR_REG_MR => {
                // SAFETY: A request with this operation is of this type, with a region of the device.
                Self::RegMr(unsafe { MrRegistration::new(&*raw.cast())? })
            }
            _ => return Err(EINVAL),
        })
    }

    /// Whether the data of the request is sent.
    fn sends_data(&self) -> bool {
        !matches!(
            self,
            Self::Read(_)
                | Self::CompareSwap(..)
                | Self::FetchAdd(..)
                | Self::LocalInv(_)
                | Self::RegMr(_)
                | Self::BindMw(_)
                | Self::Flush(..)
                | Self::Malformed
        )
    }
}

/// The destination of a datagram.
pub(crate) struct UdDest<A: IbAhOps> {
    /// The way of the address handle when the request was posted.
    pub(crate) way: Arc<A::Way>,
    /// Queue pair.
    pub(crate) qpn: u32,
    /// Its key.
    pub(crate) qkey: u32,
}

/// A send work request.
pub(crate) struct SendWr<M, A: IbAhOps> {
    /// Number for the completion.
    pub(crate) id: u64,
    /// Operation.
    pub(crate) op: SendOp<M>,
    /// Data to send, or the room for the data of a READ.
    pub(crate) data: WrData,
    /// Destination of a datagram.
    pub(crate) dest: Option<UdDest<A>>,
    /// Whether success generates a completion.
    pub(crate) signaled: bool,
    /// Whether it waits for earlier READs and atomics.
    pub(crate) fence: bool,
    /// Whether the receiver's completion is solicited.
    pub(crate) solicited: bool,
}

impl<M: Send + Sync, A: IbAhOps> SendWr<M, A> {
    /// Reads a work request. Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an operation that the device lacks, or too much data.
    ///
    /// # Safety
    ///
    /// `raw` must be a work request that a kernel program posts to a queue pair whose device has
    /// regions `M` and address handles `A`. It takes datagrams if `datagram` says so.
    pub(super) unsafe fn new(raw: *const bindings::ib_send_wr, datagram: bool) -> Result<Self> {
        // SAFETY: By this function's contract.
        let wr = unsafe { &*raw };
        // SAFETY: By this function's contract.
        let op = unsafe { SendOp::new(raw, datagram)? };
        let flags = wr.send_flags;
        // SAFETY: By this function's contract.
        let data = unsafe {
            match op {
                SendOp::LocalInv(_) | SendOp::RegMr(_) => WrData::EMPTY,
                _ if op.sends_data() && flags & bindings::ib_send_flags_IB_SEND_INLINE != 0 => {
                    WrData::inline(wr.sg_list, wr.num_sge)?
                }
                _ => WrData::from_elements(wr.sg_list, wr.num_sge)?,
            }
        };
        // SAFETY: A request of a queue pair for datagrams is of this type, with a handle of the device.
        let dest = datagram.then(|| unsafe {
            let ud = &*raw.cast::<bindings::ib_ud_wr>();
            UdDest {
                way: Shell::<bindings::ib_ah, A>::core(ud.ah).way(),
                qpn: ud.remote_qpn,
                qkey: ud.remote_qkey,
            }
        });
        Ok(Self {
            // SAFETY: Both variants are a number of this size.
            id: unsafe { *wr.__bindgen_anon_1.wr_id },
            op,
            data,
            dest,
            signaled: flags & bindings::ib_send_flags_IB_SEND_SIGNALED != 0,
            fence: flags & bindings::ib_send_flags_IB_SEND_FENCE != 0,
            solicited: flags & bindings::ib_send_flags_IB_SEND_SOLICITED != 0,
        })
    }
}

/// A receive work request.
#[derive(Clone, Copy)]
pub(crate) struct RecvWr {
    /// Number for the completion.
    pub(crate) id: u64,
    /// The buffer.
    pub(crate) data: WrData,
}

impl RecvWr {
    /// Nothing.
    pub(crate) const EMPTY: Self = Self {
        id: 0,
        data: WrData::EMPTY,
    };

    /// Reads a work request. Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too many elements.
    ///
    /// # Safety
    ///
    /// `raw` must be a work request that a kernel program posts.
    pub(super) unsafe fn new(raw: &bindings::ib_recv_wr) -> Result<Self> {
        Ok(Self {
            // SAFETY: Both variants are a number of this size.
            id: unsafe { *raw.__bindgen_anon_1.wr_id },
            // SAFETY: By this function's contract.
            data: unsafe { WrData::from_elements(raw.sg_list, raw.num_sge)? },
        })
    }
}
