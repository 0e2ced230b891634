// SPDX-License-Identifier: GPL-2.0

//! Programs in user space: their contexts, what they pass to calls and get back, and rings that they
//! share with the driver.
//!
//! The interface is that of `rdma_rxe`, which the unmodified library of its provider speaks
//! (RNIC-UAPI-02).
//!
//! A ring is never a reference or a slice: octets are copied in and out by functions of C, each of
//! them once, so the compiler assumes nothing about memory that the user changes at any time
//! (RNIC-SEC-04).
//!
//! C header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h)

use super::{
    completion::Completion,
    memory::OutOfRange, //
};
use crate::bindings;
use core::{
    ptr::{
        null_mut,
        NonNull, //
    },
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
};
use kernel::{
    error::to_result,
    ffi,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// What a program passes to a call of the verbs core for the driver, and the room for its answer.
///
/// # Invariants
///
/// The pointer is null for a call of a kernel program, or valid for the time of the call.
pub(super) struct CallData(*mut bindings::ib_udata);

impl CallData {
    /// # Safety
    ///
    /// `udata` must be what the verbs core passes to the operation that runs.
    pub(super) unsafe fn new(udata: *mut bindings::ib_udata) -> Self {
        // INVARIANT: By this function's contract.
        Self(udata)
    }

    /// As [`Self::new`], for an operation that gets all attributes of the call.
    ///
    /// # Safety
    ///
    /// As for [`Self::new`].
    pub(super) unsafe fn of_bundle(attrs: *mut bindings::uverbs_attr_bundle) -> Self {
        // SAFETY: By this function's contract; the helper takes null.
        unsafe { Self::new(bindings::rdma_sock_helper_bundle_udata(attrs)) }
    }

    /// Whether a program in user space calls.
    pub(super) fn is_user(&self) -> bool {
        !self.0.is_null()
    }

    /// Checks that the program passes nothing to the driver (RNIC-UAPI-03).
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for octets that are not 0, `EFAULT`.
    pub(super) fn expect_empty(&self) -> Result {
        // SAFETY: By the type invariants.
        to_result(unsafe { bindings::rdma_sock_helper_udata_expect_empty(self.0) })
    }

    /// Answers nothing: clears the room of the program.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn respond_empty(&self) -> Result {
        self.expect_empty()?;
        // SAFETY: By the type invariants; no octet is read.
        to_result(unsafe { bindings::rdma_sock_helper_udata_respond(self.0, core::ptr::null(), 0) })
    }

    /// Answers, with zeros behind the answer (RNIC-SEC-07).
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    ///
    /// # Safety
    ///
    /// `T` must be a structure without padding.
    unsafe fn respond<T>(&self, answer: &T) -> Result {
        let from = (&raw const *answer).cast::<ffi::c_void>();
        // SAFETY: By the type invariants and this function's contract.
        to_result(unsafe { bindings::rdma_sock_helper_udata_respond(self.0, from, size_of::<T>()) })
    }

    /// Reads where the program wants to know the place of a new ring: an address in its memory.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the program passes too few octets, `EOPNOTSUPP` for others that are not 0, `EFAULT`.
    pub(super) fn ring_place(&self) -> Result<RingPlace> {
        let mut request = bindings::rxe_modify_srq_cmd { mmap_info_addr: 0 };
        let to = (&raw mut request).cast::<ffi::c_void>();
        // SAFETY: By the type invariants; the structure has room for its size, and takes all values.
        to_result(unsafe {
            bindings::rdma_sock_helper_udata_request(self.0, to, size_of_val(&request))
        })?;
        // SAFETY: By the type invariants; no octet is read.
        to_result(unsafe {
            bindings::rdma_sock_helper_udata_respond(self.0, core::ptr::null(), 0)
        })?;
        Ok(RingPlace(request.mmap_info_addr))
    }

    /// Answers where the ring of a completion queue is.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn respond_cq(&self, ring: &NewRing) -> Result {
        let answer = bindings::rxe_create_cq_resp { mi: ring.place() };
        // SAFETY: The structure has no padding.
        unsafe { self.respond(&answer) }
    }

    /// Answers where the ring of a shared receive queue is.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn respond_srq(&self, ring: &NewRing) -> Result {
        let answer = bindings::rxe_create_srq_resp {
            mi: ring.place(),
            // Only for queues of extended connections.
            srq_num: 0,
            reserved: 0,
        };
        // SAFETY: The structure has no padding.
        unsafe { self.respond(&answer) }
    }

    /// Answers where the rings of a queue pair are; one that takes its receive requests from a shared
    /// queue has no ring for them.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn respond_qp(&self, sends: &NewRing, receives: Option<&NewRing>) -> Result {
        let nothing = bindings::mminfo {
            offset: 0,
            size: 0,
            pad: 0,
        };
        let answer = bindings::rxe_create_qp_resp {
            rq_mi: receives.map_or(nothing, NewRing::place),
            sq_mi: sends.place(),
        };
        // SAFETY: The structure has no padding.
        unsafe { self.respond(&answer) }
    }

    /// Answers the number of an address handle.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn respond_ah(&self, number: u32) -> Result {
        let answer = bindings::rxe_create_ah_resp {
            ah_num: number,
            reserved: 0,
        };
        // SAFETY: The structure has no padding.
        unsafe { self.respond(&answer) }
    }

    /// Makes a ring of at least `len` octets that the program can map.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a call of a kernel program, `ENOMEM`.
    pub(super) fn new_ring(&self, len: usize) -> Result<NewRing> {
        if !self.is_user() {
            return Err(EINVAL);
        }
        let ring = UserRing::new(len)?;
        // SAFETY: By the type invariants; calls of user space have a context.
        let context = unsafe { bindings::rdma_sock_helper_udata_context(self.0) };
        // SAFETY: The context is that of the call. It outlives the object that is being created, which
        // owns the mapping.
        let mapping = unsafe { RingMapping::new(context, &ring)? };
        Ok(NewRing { ring, mapping })
    }
}

/// Where a program wants to know the place of a new ring.
pub(super) struct RingPlace(u64);

impl RingPlace {
    /// Stores the place of a ring in the program's memory. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn store(&self, ring: &NewRing) -> Result {
        let place = ring.place();
        let from = (&raw const place).cast::<ffi::c_void>();
        // SAFETY: The structure is valid and has no padding; the address is checked.
        to_result(unsafe {
            bindings::rdma_sock_helper_store_user(self.0, from, size_of_val(&place))
        })
    }
}

/// A ring that is in no object yet.
pub(crate) struct NewRing {
    ring: Arc<UserRing>,
    /// Was just made, and is in no handle yet.
    pub(super) mapping: RingMapping,
}

impl NewRing {
    /// The ring.
    pub(crate) fn ring(&self) -> &Arc<UserRing> {
        &self.ring
    }

    /// Where the program maps it.
    fn place(&self) -> bindings::mminfo {
        // SAFETY: By the type invariants of the mapping; it is not removed while it is in no handle.
        let offset = unsafe {
            bindings::rdma_sock_helper_mmap_offset(self.mapping.entry.load(Ordering::Relaxed))
        };
        bindings::mminfo {
            offset,
            size: u32::try_from(self.ring.len).unwrap_or_default(),
            pad: 0,
        }
    }
}

/// A ring that is shared with user space.
///
/// # Invariants
///
/// `memory` is valid for `len` octets, whole pages, until this object is dropped.
pub(crate) struct UserRing {
    memory: NonNull<u8>,
    len: usize,
}

// SAFETY: All accesses are by functions of C that any thread may call.
unsafe impl Send for UserRing {}
// SAFETY: As above.
unsafe impl Sync for UserRing {}

impl UserRing {
    /// A ring filled with zeros. Context: may sleep.
    fn new(len: usize) -> Result<Arc<Self>> {
        let len = len
            .max(1)
            .checked_next_multiple_of(PAGE_SIZE)
            .ok_or(ENOMEM)?;
        // SAFETY: No requirements.
        let memory = unsafe { bindings::rdma_sock_helper_ring_alloc(len) };
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(ENOMEM)?;
        // INVARIANT: Just allocated.
        Ok(Arc::new(Self { memory, len }, GFP_KERNEL)?)
    }

    /// The address of a range.
    fn range(&self, at: usize, len: usize) -> Result<*mut ffi::c_void, OutOfRange> {
        let end = at.checked_add(len).ok_or(OutOfRange)?;
        if end > self.len {
            return Err(OutOfRange);
        }
        // SAFETY: By the type invariants the range is inside.
        Ok(unsafe { self.memory.as_ptr().add(at) }.cast())
    }

    /// Copies octets out, each of them once. Context: any.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`].
    pub(crate) fn load(&self, at: usize, to: &mut [u8]) -> Result<(), OutOfRange> {
        let from = self.range(at, to.len())?;
        // SAFETY: The range is valid, and the buffer is elsewhere.
        unsafe {
            bindings::rdma_sock_helper_ring_copy(to.as_mut_ptr().cast(), from, to.len());
        }
        Ok(())
    }

    /// Copies octets in. Context: any.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`].
    pub(crate) fn store(&self, at: usize, from: &[u8]) -> Result<(), OutOfRange> {
        let to = self.range(at, from.len())?;
        // SAFETY: As in `load`.
        unsafe { bindings::rdma_sock_helper_ring_copy(to, from.as_ptr().cast(), from.len()) };
        Ok(())
    }

    /// Copies a completion in. Context: any.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`].
    pub(crate) fn store_completion(
        &self,
        at: usize,
        completion: &Completion,
    ) -> Result<(), OutOfRange> {
        let wc = user_wc(completion);
        let to = self.range(at, size_of_val(&wc))?;
        let from = (&raw const wc).cast::<ffi::c_void>();
        // SAFETY: The range is valid. The structure has no padding.
        unsafe { bindings::rdma_sock_helper_ring_copy(to, from, size_of_val(&wc)) };
        Ok(())
    }

    /// Loads an index; what the user stored before it is visible. Context: any.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], also for an offset that is not aligned.
    pub(crate) fn load_index(&self, at: usize) -> Result<u32, OutOfRange> {
        let from = self.index(at)?;
        // SAFETY: The word is valid and aligned.
        Ok(unsafe { bindings::rdma_sock_helper_ring_load_index(from) })
    }

    /// Stores an index behind everything that was stored before. Context: any.
    ///
    /// # Errors
    ///
    /// As for [`Self::load_index`].
    pub(crate) fn store_index(&self, at: usize, index: u32) -> Result<(), OutOfRange> {
        let to = self.index(at)?;
        // SAFETY: The word is valid and aligned.
        unsafe { bindings::rdma_sock_helper_ring_store_index(to, index) };
        Ok(())
    }

    /// The address of an index: the memory begins with a page.
    fn index(&self, at: usize) -> Result<*mut ffi::c_void, OutOfRange> {
        if at % align_of::<u32>() != 0 {
            return Err(OutOfRange);
        }
        self.range(at, size_of::<u32>())
    }
}

impl Drop for UserRing {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. Mappings of the user keep the pages by references of their own.
        unsafe { bindings::rdma_sock_helper_ring_free(self.memory.as_ptr().cast()) }
    }
}

/// The completion as user space sees it. Its numbers are those of the kernel but for a flag.
fn user_wc(completion: &Completion) -> bindings::ib_uverbs_wc {
    /// `IBV_WC_WITH_INV`.
    const WITH_INVALIDATE: u32 = 1 << 3;

    // SAFETY: All fields are numbers.
    let mut wc: bindings::ib_uverbs_wc = unsafe { core::mem::zeroed() };
    wc.wr_id = completion.id;
    wc.status = completion.status.code();
    wc.opcode = completion.op.code();
    wc.vendor_err = completion.reason;
    wc.byte_len = completion.len;
    wc.qp_num = completion.qpn;
    if let Some(imm) = completion.imm {
        wc.ex.imm_data = u32::from_ne_bytes(imm);
        wc.wc_flags |= bindings::ib_wc_flags_IB_WC_WITH_IMM;
    }
    if let Some(key) = completion.invalidated {
        wc.ex.invalidate_rkey = key;
        wc.wc_flags |= WITH_INVALIDATE;
    }
    if let Some((src_qp, _)) = completion.datagram {
        wc.src_qp = src_qp;
        wc.wc_flags |= bindings::ib_wc_flags_IB_WC_GRH;
    }
    wc.port_num = 1;
    wc
}

/// What the verbs core lists for mappings of a ring.
#[repr(C)]
struct RingEntry {
    /// First, as C knows the structure by the address of this field.
    base: bindings::rdma_user_mmap_entry,
    ring: Arc<UserRing>,
}

/// A ring that a program can map, as long as this object is not removed.
///
/// # Invariants
///
/// The pointer is null, or the `base` of a [`RingEntry`] that is inserted into a context.
pub(super) struct RingMapping {
    entry: AtomicPtr<bindings::rdma_user_mmap_entry>,
}

impl RingMapping {
    /// Lists a ring. Context: may sleep.
    ///
    /// # Safety
    ///
    /// `context` must be valid until [`Self::remove`] was called, or the result is dropped.
    unsafe fn new(context: *mut bindings::ib_ucontext, ring: &Arc<UserRing>) -> Result<Self> {
        const { assert!(core::mem::offset_of!(RingEntry, base) == 0) };
        let entry = KBox::new(
            RingEntry {
                // SAFETY: All fields are numbers or pointers; the core sets them.
                base: unsafe { core::mem::zeroed() },
                ring: ring.clone(),
            },
            GFP_KERNEL,
        )?;
        let entry = KBox::into_raw(entry);
        let base = entry.cast::<bindings::rdma_user_mmap_entry>();
        // SAFETY: By this function's contract. The entry is valid until `mmap_free_raw`.
        let result = unsafe { bindings::rdma_user_mmap_entry_insert(context, base, ring.len) };
        if let Err(err) = to_result(result) {
            // SAFETY: It was not inserted, so it is this function's.
            drop(unsafe { KBox::from_raw(entry) });
            return Err(err);
        }
        // INVARIANT: Just inserted.
        Ok(Self {
            entry: AtomicPtr::new(base),
        })
    }

    /// Ends the possibility to map the ring; mappings stay (RNIC-UAPI-04). Context: may sleep.
    pub(super) fn remove(&self) {
        self.exchange(null_mut());
    }

    /// Goes on with the ring of another mapping. Context: may sleep.
    pub(super) fn adopt(&self, other: &Self) {
        self.exchange(other.entry.swap(null_mut(), Ordering::Relaxed));
    }

    /// Takes an entry that is inserted, or none, and removes the former one.
    fn exchange(&self, next: *mut bindings::rdma_user_mmap_entry) {
        // INVARIANT: Both callers pass null, or what was the entry of another mapping.
        let entry = self.entry.swap(next, Ordering::Relaxed);
        // SAFETY: By the type invariants, and no mapping has it any longer. The function takes null.
        unsafe { bindings::rdma_user_mmap_entry_remove(entry) };
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        self.remove();
    }
}

/// `ib_device_ops::mmap`.
///
/// # Safety
///
/// Only for the verbs core.
pub(super) unsafe extern "C" fn mmap_raw(
    context: *mut bindings::ib_ucontext,
    vma: *mut bindings::vm_area_struct,
) -> ffi::c_int {
    // SAFETY: The core passes a context and an area that is being mapped.
    unsafe {
        let entry = bindings::rdma_user_mmap_entry_get(context, vma);
        if entry.is_null() {
            return EINVAL.to_errno();
        }
        // All entries of this module's devices are of this type, and the reference keeps it.
        let ring = &(*entry.cast::<RingEntry>()).ring;
        let result =
            bindings::rdma_sock_helper_ring_map(vma, ring.memory.as_ptr().cast(), ring.len);
        bindings::rdma_user_mmap_entry_put(entry);
        result
    }
}

/// `ib_device_ops::mmap_free`.
///
/// # Safety
///
/// As for [`mmap_raw`].
pub(super) unsafe extern "C" fn mmap_free_raw(entry: *mut bindings::rdma_user_mmap_entry) {
    // SAFETY: The core calls this once, when the entry has no other reference.
    drop(unsafe { KBox::from_raw(entry.cast::<RingEntry>()) });
}

/// `ib_device_ops::alloc_ucontext`. A context has nothing of its own.
///
/// # Safety
///
/// As for [`mmap_raw`].
pub(super) unsafe extern "C" fn alloc_ucontext_raw(
    _context: *mut bindings::ib_ucontext,
    udata: *mut bindings::ib_udata,
) -> ffi::c_int {
    // SAFETY: The core passes the data of the call.
    let call = unsafe { CallData::new(udata) };
    kernel::error::from_result(|| call.respond_empty().map(|()| 0))
}

/// `ib_device_ops::dealloc_ucontext`.
///
/// # Safety
///
/// As for [`mmap_raw`].
pub(super) unsafe extern "C" fn dealloc_ucontext_raw(_context: *mut bindings::ib_ucontext) {}

/// `ib_device_ops::disassociate_ucontext`: the core destroys the objects of a context whose device goes
/// away, and mappings keep their pages (RNIC-UAPI-06).
///
/// # Safety
///
/// As for [`mmap_raw`].
pub(super) unsafe extern "C" fn disassociate_ucontext_raw(_context: *mut bindings::ib_ucontext) {}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_kapi_user)]
mod tests {
    use super::*;

    #[test]
    fn ring_has_whole_pages_of_zeros() -> Result {
        let ring = UserRing::new(PAGE_SIZE + 1)?;
        let mut octets = [7; 16];
        assert_eq!(ring.load(2 * PAGE_SIZE - 16, &mut octets), Ok(()));
        assert_eq!(octets, [0; 16]);
        assert_eq!(ring.store(PAGE_SIZE - 8, &[5; 16]), Ok(()));
        assert_eq!(ring.load(PAGE_SIZE - 8, &mut octets), Ok(()));
        assert_eq!(octets, [5; 16]);
        Ok(())
    }

    /// RNIC-SEC-05.
    #[test]
    fn range_outside_of_a_ring_is_refused() -> Result {
        let ring = UserRing::new(1)?;
        let mut octets = [0; 16];
        for at in [PAGE_SIZE - 15, PAGE_SIZE, usize::MAX - 15, usize::MAX] {
            assert_eq!(ring.load(at, &mut octets), Err(OutOfRange));
            assert_eq!(ring.store(at, &octets), Err(OutOfRange));
        }
        Ok(())
    }

    #[test]
    fn index_comes_back_and_is_aligned() -> Result {
        let ring = UserRing::new(1)?;
        assert_eq!(ring.store_index(128, u32::MAX), Ok(()));
        assert_eq!(ring.load_index(128), Ok(u32::MAX));
        assert_eq!(ring.load_index(132), Ok(0));
        for at in [1, 130, PAGE_SIZE - 2, PAGE_SIZE] {
            assert_eq!(ring.load_index(at), Err(OutOfRange));
            assert_eq!(ring.store_index(at, 1), Err(OutOfRange));
        }
        Ok(())
    }
}
