// SPDX-License-Identifier: GPL-2.0

//! Numbers under `/proc/sys/net` that an administrator may change, in a network namespace.
//!
//! C header: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h)

use super::netns::Net;
use crate::bindings;
use core::{
    mem::size_of,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    bindings as kb, ffi,
    prelude::*,
    sync::{
        atomic::Atomic,
        Arc, //
    },
};

/// What is known of a number before it exists.
pub(crate) struct Knob {
    /// The name of the file.
    pub(crate) name: &'static CStr,
    /// The least value that can be written.
    pub(crate) min: i32,
    /// The greatest.
    pub(crate) max: i32,
    /// Only the initial namespace has it.
    pub(crate) initial_only: bool,
}

/// The numbers of a folder.
pub(crate) trait Knobs: Send + Sync + 'static {
    /// The folder below `/proc/sys`.
    const PATH: &'static CStr;
    /// How many there are.
    const COUNT: usize;

    /// All of them, each with its present value. A value may change at any time between the limits.
    fn knobs(&self) -> impl Iterator<Item = (&'static Knob, &Atomic<i32>)>;
}

/// The folder of a namespace with its files. The drop waits for running reads and writes and
/// removes them.
///
/// # Invariants
///
/// `header` is registered. What it points to is in `entries` and `values`, and neither moves.
pub(crate) struct SysctlTable<K: Knobs> {
    header: NonNull<kb::ctl_table_header>,
    _entries: KVec<kb::ctl_table>,
    _values: Arc<K>,
}

// SAFETY: The header is only used by the kernel, under its own lock; the values are `Sync`.
unsafe impl<K: Knobs> Send for SysctlTable<K> {}
// SAFETY: As above.
unsafe impl<K: Knobs> Sync for SysctlTable<K> {}

impl<K: Knobs> SysctlTable<K> {
    /// Shows the numbers to a namespace. The caller drops it before the namespace goes.
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if another module has files of these names.
    pub(crate) fn new(net: &Net, values: Arc<K>) -> Result<Self> {
        let mut entries = KVec::with_capacity(K::COUNT, GFP_KERNEL)?;
        let shown = |knob: &Knob| net.is_initial() || !knob.initial_only;
        for (knob, value) in values.knobs().filter(|(knob, _)| shown(knob)) {
            let entry = kb::ctl_table {
                procname: knob.name.as_char_ptr(),
                data: value.as_ptr().cast(),
                maxlen: ffi::c_int::try_from(size_of::<i32>())?,
                mode: 0o644,
                proc_handler: Some(kb::proc_dointvec_minmax),
                poll: null_mut(),
                extra1: core::ptr::from_ref(&knob.min).cast_mut().cast(),
                extra2: core::ptr::from_ref(&knob.max).cast_mut().cast(),
            };
            entries.push(entry, GFP_KERNEL)?;
        }
        // SAFETY: The namespace is valid. The entries and the values stay where they are until the
        // table is dropped; the names and limits are static. The handler reads and writes whole
        // values, and does not write the limits.
        let header = unsafe {
            bindings::rdma_sock_helper_register_net_sysctl(
                net.as_raw(),
                K::PATH.as_char_ptr(),
                entries.as_mut_ptr(),
                entries.len(),
            )
        };
        // INVARIANT: Just registered; both are on the heap.
        Ok(Self {
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _entries: entries,
            _values: values,
        })
    }
}

impl<K: Knobs> Drop for SysctlTable<K> {
    fn drop(&mut self) {
        // SAFETY: Registered by the type invariants. Waits for users.
        unsafe { bindings::unregister_net_sysctl_table(self.header.as_ptr()) }
    }
}
