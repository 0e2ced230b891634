// SPDX-License-Identifier: GPL-2.0

//! Receive buffers: RMBs, and the elements (RMBEs) that connections get of them.
//!
//! Source: RFC 7609 sections 2.1, 4.2, 4.4 (`SMCR-RMB-01..25`).
//!
//! An RMB belongs to one link group. It holds several elements of one size, so that most
//! connections need neither a memory registration nor a CONFIRM RKEY exchange of their own. It is
//! registered once for every link, because each link has a protection domain of its own
//! (`SMCR-RMB-07`, `SMCR-RMB-20`). With bounce buffers each registration has a copy of the memory: what the
//! peer writes by a link is in the copy of that link only.

use super::completions::LinkHandler;
use crate::{
    kapi::{
        base::sync::{
            new_spinlock_bh,
            SpinLockBh, //
        },
        mem::{
            cgroup::MemCgroup,
            region::PeerMemory, //
        },
        verbs::{
            channel::Channel,
            mr::Mr,
            pd::Pd, //
        },
    },
    proto::{
        base::{
            time::Instant,
            verbs::RKey, //
        },
        smc::{
            elements::{
                Elements,
                MAX_ELEMENTS, //
            },
            llc::{
                link::MAX_LINKS,
                LinkSlot,
                RmbId, //
            },
            wire::{
                BufSize,
                RToken,
                RmbeIndex, //
            },
        },
    },
    sock::context::now, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What elements begin with if the peer's do, and how much that is (`SMCR-RMB-12`).
pub(crate) const EYE_CATCHER: [u8; 4] = *b"RMBE";
pub(crate) const EYE_CATCHER_BYTES: u32 = 4;

const _: () = assert!(EYE_CATCHER.len() == EYE_CATCHER_BYTES as usize);

/// How far the peer knows an RMB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Being registered at the devices.
    Registering,
    /// Registered; the peer has not confirmed it yet (`SMCR-LLF-61`).
    Announcing,
    /// The peer may write to it.
    Confirmed,
    /// No connection gets an element of it again; the peer must forget it.
    Leaving,
}

/// The sizes of the elements of an RMB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RmbSizes {
    /// The size that a connection wanted.
    pub(crate) wanted: BufSize,
    /// The size of every element, which is smaller if memory was short.
    pub(crate) size: BufSize,
}

/// A registered buffer of several RMBEs.
#[pin_data]
pub(crate) struct Rmb {
    /// Our name for it within the link group.
    pub(crate) id: RmbId,
    pub(crate) sizes: RmbSizes,
    memory: Arc<PeerMemory>,
    /// The cgroup that is charged for the memory. Other cgroups get no element of it.
    cgroup: MemCgroup,
    /// Taken and put in process context only, as the last reference to a registration sleeps.
    #[pin]
    regions: SpinLockBh<[Option<Arc<Mr>>; MAX_LINKS]>,
    #[pin]
    slots: SpinLockBh<Slots>,
}

struct Slots {
    elements: Elements,
    known: Known,
}

impl Rmb {
    /// Wraps memory that no link knows yet. Sleeps for the allocation.
    pub(crate) fn new(
        id: RmbId,
        sizes: RmbSizes,
        memory: Arc<PeerMemory>,
        cgroup: MemCgroup,
        known: Known,
    ) -> Result<Arc<Self>> {
        if memory.elements() > MAX_ELEMENTS {
            return Err(EINVAL);
        }
        let elements = Elements::new(memory.elements());
        Arc::pin_init(
            pin_init!(Self {
                id,
                sizes,
                memory,
                cgroup,
                regions <- new_spinlock_bh!([const { None }; MAX_LINKS], "rdma_sock_rmb_regions"),
                slots <- new_spinlock_bh!(Slots { elements, known }, "rdma_sock_rmb_slots"),
            }),
            GFP_KERNEL,
        )
    }

    /// Octets of all elements.
    pub(crate) fn octets(&self) -> u64 {
        let elements = u64::try_from(self.memory.elements()).unwrap_or(0);
        elements.saturating_mul(self.sizes.size.bytes().into())
    }

    /// Maps the RMB for a link and gets its key there, which peers may use after
    /// [`Self::activate`]. Context: may sleep.
    pub(crate) fn map(&self, slot: LinkSlot, pd: &Arc<Pd>) -> Result {
        let region = Arc::new(Mr::new(pd, self.memory.clone())?, GFP_KERNEL)?;
        let old = match self.regions.lock().get_mut(slot.index()) {
            Some(place) => place.replace(region),
            None => None,
        };
        drop(old);
        Ok(())
    }

    /// Withdraws the registration for a link; on return no peer can write by it.
    /// Context: may sleep.
    pub(crate) fn unmap(&self, slot: LinkSlot) {
        drop(self.take_region(slot));
    }

    /// As above, but the caller drops the registration, in process context.
    pub(crate) fn take_region(&self, slot: LinkSlot) -> Option<Arc<Mr>> {
        let mut regions = self.regions.lock();
        regions.get_mut(slot.index()).and_then(Option::take)
    }

    /// The registration for a link. The caller drops it in process context.
    fn region(&self, slot: LinkSlot) -> Option<Arc<Mr>> {
        self.regions.lock().get(slot.index())?.clone()
    }

    /// Whether the peer could use the RMB on a link. Context: may sleep.
    pub(crate) fn is_active(&self, slot: LinkSlot) -> bool {
        self.region(slot).is_some_and(|region| region.is_active())
    }

    /// Where the peer writes on a link: key and address of the first element. Context: may sleep.
    pub(crate) fn token(&self, slot: LinkSlot) -> Option<RToken> {
        let region = self.region(slot)?;
        Some(RToken {
            rkey: RKey::new(region.rkey()),
            vaddr: region.iova(0).ok()?,
        })
    }

    /// Runs `f` for the registrations of all links. Context: any.
    fn for_each_region(&self, mut f: impl FnMut(&Mr) -> Result) -> Result {
        let regions = self.regions.lock();
        regions.iter().flatten().try_for_each(|region| f(region))
    }

    /// Changes the first `len` octets of an element by `f`, also for the devices. Context: any.
    fn change(&self, element: usize, len: usize, f: impl FnOnce(&PeerMemory) -> Result) -> Result {
        // The CPU must not keep older octets of a device, nor a device wait for the new ones.
        self.for_each_region(|region| region.sync_for_cpu(element, 0, len))?;
        f(&self.memory)?;
        self.for_each_region(|region| region.sync_for_device(element, 0, len))
    }

    /// Zeroes an element. Context: any.
    fn clear(&self, element: usize) -> Result {
        self.change(element, self.memory.element_bytes(), |memory| {
            memory.zero(element)
        })
    }

    /// What the peer knows of the RMB. Context: any.
    pub(crate) fn known(&self) -> Known {
        self.slots.lock().known
    }

    /// Notes the end of an announcement. Context: any.
    pub(crate) fn set_known(&self, known: Known) {
        self.slots.lock().known = known;
    }

    /// Takes a free element, whether the peer has confirmed the RMB or not. Context: any.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Rmbe> {
        let (rmbe, dirty) = self.take_slot(now())?;
        if dirty && self.clear(rmbe.element).is_err() {
            return None;
        }
        Some(rmbe)
    }

    fn take_slot(self: &Arc<Self>, now: Instant) -> Option<(Rmbe, bool)> {
        let (element, dirty) = self.slots.lock().elements.take(now)?;
        // The index on the wire counts from 1 (`SMCR-AMB-19`).
        let index = u8::try_from(element.checked_add(1)?).ok()?;
        let index = RmbeIndex::new(index)?;
        let rmbe = Rmbe {
            rmb: self.clone(),
            element,
            index,
            is_reused: dirty,
            retired: false,
        };
        Some((rmbe, dirty))
    }

    /// Whether this cgroup has paid for the memory. Context: any.
    pub(crate) fn is_of(&self, cgroup: &MemCgroup) -> bool {
        self.cgroup == *cgroup
    }

    /// How many elements rest. Context: any.
    pub(crate) fn resting(&self, now: Instant) -> u32 {
        self.slots.lock().elements.resting(now)
    }

    /// Whether no element is used, nor was since this was asked last. Context: any.
    pub(crate) fn was_idle(&self, now: Instant) -> bool {
        self.slots.lock().elements.was_idle(now)
    }

    /// Makes the key of a link valid at its device. Waits behind what the channel has to send.
    /// Context: may sleep.
    pub(crate) fn activate(&self, slot: LinkSlot, channel: &Channel<LinkHandler>) -> Result {
        channel.activate(&*self.region(slot).ok_or(ENOENT)?)
    }
}

/// One element of an RMB, in the hands of one connection.
pub(crate) struct Rmbe {
    rmb: Arc<Rmb>,
    /// Its number within the memory, from 0.
    pub(crate) element: usize,
    /// Its number on the wire, from 1.
    pub(crate) index: RmbeIndex,
    /// Another connection has had it.
    pub(crate) is_reused: bool,
    retired: bool,
}

impl Rmbe {
    /// The RMB it lies in.
    pub(crate) fn rmb(&self) -> &Arc<Rmb> {
        &self.rmb
    }

    /// The memory it lies in, which outlives the registrations.
    pub(crate) fn memory(&self) -> &Arc<PeerMemory> {
        &self.rmb.memory
    }

    /// Lets the CPU see what the peer wrote by a link, and nothing that it wrote by another one.
    /// Context: any.
    pub(crate) fn sync_for_cpu(&self, link: LinkSlot, offset: usize, len: usize) {
        let regions = self.rmb.regions.lock();
        if let Some(Some(region)) = regions.get(link.index()) {
            // Out of bounds there is nothing to sync, and nothing is read either.
            let _ = region.sync_for_cpu(self.element, offset, len);
        }
    }

    /// Puts the eye catcher in front, where the peer never writes (`SMCR-RMB-15`). Context: any.
    pub(crate) fn mark(&self) -> Result {
        self.rmb.change(self.element, EYE_CATCHER.len(), |memory| {
            memory.write(self.element, 0, &EYE_CATCHER)
        })
    }

    /// Gives the element back for the next connection. All of it is wiped first, also where the
    /// peer wrote without a CDC message. A later peer that advances its cursor without writing then
    /// shows no old data (`SMCR-SEC-09`).
    pub(crate) fn retire(mut self) {
        self.retired = self.rmb.clear(self.element).is_ok();
    }
}

impl Drop for Rmbe {
    fn drop(&mut self) {
        let mut slots = self.rmb.slots.lock();
        if self.retired {
            slots.elements.give(self.element);
        } else {
            // The peer may still write to it, as it did not say that it is done: it rests before
            // another connection gets it (`SMCR-RMB-22`, `SMCR-RMB-23`).
            slots.elements.rest(self.element, now());
        }
    }
}
