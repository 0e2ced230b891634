// SPDX-License-Identifier: GPL-2.0

//! Receive buffers: RMBs, and the elements (RMBEs) that connections get of them.
//!
//! Source: RFC 7609 sections 2.1, 4.2, 4.4 (`SMCR-RMB-01..25`).
//!
//! An RMB belongs to one link group. It holds several elements of one size, so that most
//! connections need neither a memory registration nor a CONFIRM RKEY exchange of their own.

use super::{
    link::Link,
    now, //
};
use crate::{
    kapi::{
        mem::region::PeerMemory,
        rdma::{
            channel::Channel,
            mr::Mr, //
        },
        sync::{
            new_spinlock_bh,
            SpinLockBh, //
        },
    },
    proto::{
        llc::RmbId,
        time::{
            Duration,
            Instant, //
        },
        wire::{
            BufSize,
            RKey,
            RToken,
            RmbeIndex, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Elements of the first RMB of a link group.
pub(crate) const FIRST_ELEMENTS: usize = 8;
/// Elements of every further one.
pub(crate) const MORE_ELEMENTS: usize = 32;
/// No RMB has more (`SMCR-RMB-02`).
const MAX_ELEMENTS: usize = 64;

/// How long an element rests that the peer has not let go of.
const REST_TIME: Duration = Duration::from_secs(10);

/// How far the peer knows an RMB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Registered; the peer has not confirmed it yet (`SMCR-LLF-61`).
    Announcing,
    /// The peer may write to it.
    Confirmed,
}

/// A registered buffer of several RMBEs. The last reference is dropped in process context, because
/// that takes the registration back.
#[pin_data]
pub(crate) struct Rmb {
    /// Our name for it within the link group.
    pub(crate) id: RmbId,
    /// Size of every element.
    pub(crate) size: BufSize,
    /// Where the peer writes: key and address of the first element.
    pub(crate) token: RToken,
    mr: Mr,
    #[pin]
    slots: SpinLockBh<Slots>,
}

struct Slots {
    /// Bit `n` is set while element `n` is in use, or rests.
    used: u64,
    /// Elements that the peer may still write to, as it did not say that it is done.
    resting: u64,
    /// When the last of them came to rest.
    rests_since: Option<Instant>,
    /// Elements to be wiped before they are used again.
    dirty: u64,
    known: Known,
}

impl Rmb {
    /// Wraps mapped memory. Sleeps for the allocation.
    pub(crate) fn new(id: RmbId, size: BufSize, mr: Mr, known: Known) -> Result<Arc<Self>> {
        if mr.memory().elements() > MAX_ELEMENTS {
            return Err(EINVAL);
        }
        let token = RToken {
            rkey: RKey::new(mr.rkey()),
            vaddr: mr.iova(0)?,
        };
        Arc::pin_init(
            pin_init!(Self {
                id,
                size,
                token,
                mr,
                slots <- new_spinlock_bh!(Slots { used: 0, resting: 0, rests_since: None, dirty: 0, known }, "rdma_sock_rmb_slots"),
            }),
            GFP_KERNEL,
        )
    }

    /// What the peer knows of the RMB. Any context.
    pub(crate) fn known(&self) -> Known {
        self.slots.lock().known
    }

    /// Notes the end of an announcement. Any context.
    pub(crate) fn set_known(&self, known: Known) {
        self.slots.lock().known = known;
    }

    /// Takes a free element, whether the peer has confirmed the RMB or not. Any context.
    pub(crate) fn take(this: &Arc<Self>) -> Option<Rmbe> {
        let (rmbe, dirty) = Self::take_slot(this, now())?;
        if dirty && this.mr.clear(rmbe.element).is_err() {
            return None;
        }
        Some(rmbe)
    }

    fn take_slot(this: &Arc<Self>, now: Instant) -> Option<(Rmbe, bool)> {
        let elements = this.mr.memory().elements();
        let mut slots = this.slots.lock();
        let rested = slots
            .rests_since
            .is_some_and(|since| now.saturating_since(since) >= REST_TIME);
        if rested {
            slots.used &= !slots.resting;
            slots.dirty |= core::mem::take(&mut slots.resting);
            slots.rests_since = None;
        }
        let free = slots.used.trailing_ones();
        let element = usize::try_from(free).ok().filter(|n| *n < elements)?;
        // The index on the wire counts from 1 (`SMCR-AMB-19`).
        let index = u8::try_from(element.checked_add(1)?).ok()?;
        let index = RmbeIndex::new(index)?;
        let bit = 1u64.checked_shl(free)?;
        slots.used |= bit;
        let dirty = slots.dirty & bit != 0;
        slots.dirty &= !bit;
        let rmbe = Rmbe {
            rmb: this.clone(),
            element,
            index,
            retired: false,
        };
        Some((rmbe, dirty))
    }

    /// Makes the key valid at the device. Sleeps.
    pub(crate) fn activate(&self, channel: &Channel<Link>) -> Result {
        channel.activate(&self.mr)
    }
}

/// One element of an RMB, in the hands of one connection.
pub(crate) struct Rmbe {
    rmb: Arc<Rmb>,
    /// Its number within the memory, from 0.
    pub(crate) element: usize,
    /// Its number on the wire, from 1.
    pub(crate) index: RmbeIndex,
    retired: bool,
}

impl Rmbe {
    /// The RMB it lies in.
    pub(crate) fn rmb(&self) -> &Arc<Rmb> {
        &self.rmb
    }

    /// The memory it lies in, which outlives the registration.
    pub(crate) fn memory(&self) -> &Arc<PeerMemory> {
        self.rmb.mr.memory()
    }

    /// Lets the CPU see what the device wrote. Any context.
    pub(crate) fn sync_for_cpu(&self, offset: usize, len: usize) {
        // Out of bounds there is nothing to sync, and nothing is read either.
        let _ = self.rmb.mr.sync_for_cpu(self.element, offset, len);
    }

    /// Gives the element back for the next connection. The content is wiped first, so that a peer
    /// which advances its cursor without writing shows nobody's old data (`SMCR-SEC-09`).
    pub(crate) fn retire(mut self) {
        self.retired = self.rmb.mr.clear(self.element).is_ok();
    }
}

impl Drop for Rmbe {
    fn drop(&mut self) {
        let bit = u32::try_from(self.element)
            .ok()
            .and_then(|n| 1u64.checked_shl(n))
            .unwrap_or(0);
        let mut slots = self.rmb.slots.lock();
        if self.retired {
            slots.used &= !bit;
        } else {
            // The peer may still write to it, as it did not say that it is done: it rests before
            // somebody else gets it (`SMCR-RMB-22`, `SMCR-RMB-23`).
            slots.resting |= bit;
            slots.rests_since = Some(now());
        }
    }
}
