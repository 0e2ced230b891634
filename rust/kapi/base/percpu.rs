// SPDX-License-Identifier: GPL-2.0

//! Numbers that all processors count up at once.
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h)

use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    ffi,
    prelude::*, //
};

/// Numbers of each processor, which are summed when they are read (RNIC-STAT-01).
///
/// A processor adds to memory that is its own, in cache lines of their own. So processors that count at the
/// same time do not wait for each other. There is memory for each possible processor, and what one
/// has counted stays when it goes offline.
///
/// # Invariants
///
/// The pointer is what the helper has allocated for `len` numbers, and this object owns it.
pub(crate) struct PerCpuNumbers {
    numbers: NonNull<ffi::c_void>,
    len: usize,
}

// SAFETY: The memory is no processor's or thread's own: it may be freed anywhere.
unsafe impl Send for PerCpuNumbers {}
// SAFETY: The helpers may be called by all processors at a time.
unsafe impl Sync for PerCpuNumbers {}

impl PerCpuNumbers {
    /// As many numbers, all of which are 0. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also for none, and for more than a few thousand.
    pub(crate) fn new(len: usize) -> Result<Self> {
        // SAFETY: The helper takes any number.
        let numbers = unsafe { bindings::rdma_sock_helper_percpu_alloc(len) };
        // INVARIANT: Just allocated.
        Ok(Self {
            numbers: NonNull::new(numbers).ok_or(ENOMEM)?,
            len,
        })
    }

    /// Adds to a number; nothing happens if there is none at the index. Context: any.
    pub(crate) fn add(&self, index: usize, value: u64) {
        if index < self.len {
            // SAFETY: By the type invariants, for an index that is one of a number.
            unsafe { bindings::rdma_sock_helper_percpu_add(self.numbers.as_ptr(), index, value) }
        }
    }

    /// The sum of a number over all processors, 0 if there is none at the index. Additions that happen
    /// meanwhile may be part of it or not. Context: any.
    pub(crate) fn sum(&self, index: usize) -> u64 {
        if index >= self.len {
            return 0;
        }
        // SAFETY: By the type invariants, for an index that is one of a number.
        unsafe { bindings::rdma_sock_helper_percpu_sum(self.numbers.as_ptr(), index) }
    }
}

impl Drop for PerCpuNumbers {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. Nothing uses the numbers any longer.
        unsafe { bindings::rdma_sock_helper_percpu_free(self.numbers.as_ptr()) }
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_percpu)]
mod tests {
    use super::*;
    use crate::kapi::base::work::{
        new_deferred,
        Deferred,
        Run,
        WorkQueue, //
    };
    use core::{
        ptr,
        sync::atomic::{
            AtomicU64,
            Ordering, //
        },
    };
    use kernel::sync::Arc;

    /// Numbers of a test.
    const LEN: usize = 9;
    /// Additions of a task.
    const ADDITIONS: u64 = 200_000;

    /// Adds to two numbers: a task to the first, and interrupts to both.
    #[pin_data]
    struct Adder {
        #[pin]
        work: Deferred<Adder>,
        numbers: PerCpuNumbers,
        /// Interrupts so far.
        interrupts: AtomicU64,
    }

    impl Run<0> for Adder {
        fn run(this: Arc<Self>) {
            for _ in 0..ADDITIONS {
                this.numbers.add(0, 1);
            }
        }
    }

    impl Adder {
        fn new() -> Result<Arc<Self>> {
            let numbers = PerCpuNumbers::new(LEN)?;
            Arc::pin_init(
                pin_init!(Self {
                    work <- new_deferred!("rdma_soft_test_adder"),
                    numbers,
                    interrupts: AtomicU64::new(0),
                }),
                GFP_KERNEL,
            )
        }

        /// Interrupts all processors.
        fn interrupt_all(&self) {
            let context = ptr::from_ref(self).cast_mut().cast();
            // SAFETY: The function is for such a context. It does not run any longer on return.
            unsafe { bindings::rdma_sock_helper_test_on_each_cpu(Some(add_raw), context) }
        }
    }

    /// # Safety
    ///
    /// Only for [`Adder::interrupt_all`].
    unsafe extern "C" fn add_raw(context: *mut ffi::c_void) {
        // SAFETY: By this function's contract.
        let adder = unsafe { &*context.cast::<Adder>() };
        adder.numbers.add(0, 1);
        adder.numbers.add(LEN - 1, 1 << 40);
        adder.interrupts.fetch_add(1, Ordering::Relaxed);
    }

    /// RNIC-STAT-01.
    #[test]
    fn numbers_of_all_processors_are_summed() -> Result {
        let adder = Adder::new()?;
        for _ in 0..20 {
            adder.interrupt_all();
        }
        let interrupts = adder.interrupts.load(Ordering::Relaxed);
        assert!(interrupts >= 20);
        assert_eq!(adder.numbers.sum(0), interrupts);
        assert_eq!(adder.numbers.sum(LEN - 1), interrupts << 40);
        assert!((1..LEN - 1).all(|index| adder.numbers.sum(index) == 0));
        Ok(())
    }

    /// RNIC-STAT-01: tasks that move between processors, and interrupts that come in between.
    #[test]
    fn no_addition_of_tasks_and_interrupts_is_lost() -> Result {
        let queue = WorkQueue::new(c"rdma_soft_test")?;
        let adder = Adder::new()?;
        adder.work.kick(&adder, &queue);
        for _ in 0..200 {
            adder.interrupt_all();
            for _ in 0..ADDITIONS / 1_000 {
                adder.numbers.add(0, 1);
            }
        }
        queue.flush();
        let interrupts = adder.interrupts.load(Ordering::Relaxed);
        let wanted = ADDITIONS + ADDITIONS / 5 + interrupts;
        assert_eq!(adder.numbers.sum(0), wanted);
        assert_eq!(adder.numbers.sum(LEN - 1), interrupts << 40);
        Ok(())
    }

    /// RNIC-STAT-01.
    #[test]
    fn numbers_of_a_processor_begin_with_a_cache_line() -> Result {
        for len in [1, 7, 8, LEN, 100] {
            // Two at a time, as memory behind the first must not be in its last line.
            let sets = [PerCpuNumbers::new(len)?, PerCpuNumbers::new(len)?];
            for set in &sets {
                // SAFETY: The memory is there.
                assert!(unsafe {
                    bindings::rdma_sock_helper_test_percpu_is_aligned(set.numbers.as_ptr())
                });
            }
        }
        Ok(())
    }

    #[test]
    fn index_beyond_the_last_number_does_nothing() -> Result {
        let numbers = PerCpuNumbers::new(2)?;
        for index in [2, 3, usize::MAX] {
            numbers.add(index, 1);
            assert_eq!(numbers.sum(index), 0);
        }
        assert_eq!((numbers.sum(0), numbers.sum(1)), (0, 0));
        assert!(PerCpuNumbers::new(0).is_err());
        assert!(PerCpuNumbers::new(usize::MAX).is_err());
        Ok(())
    }
}
