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

/// Files of a folder that are registered. The drop waits for running reads and writes and removes
/// them.
///
/// # Invariants
///
/// `header` is registered for `_entries`, which do not move.
pub(super) struct SysctlFolder {
    header: NonNull<kb::ctl_table_header>,
    _entries: KVec<kb::ctl_table>,
}

// SAFETY: The header is only used by the kernel, under its own lock.
unsafe impl Send for SysctlFolder {}
// SAFETY: As above.
unsafe impl Sync for SysctlFolder {}

impl SysctlFolder {
    /// Registers files. The caller drops the folder before the namespace goes. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if another module has files of these names.
    ///
    /// # Safety
    ///
    /// What the entries point to stays valid until the folder is dropped, and is what their handlers
    /// need.
    pub(super) unsafe fn register(
        net: &Net,
        path: &'static CStr,
        mut entries: KVec<kb::ctl_table>,
    ) -> Result<Self> {
        // SAFETY: The namespace is valid. The entries stay where they are until the folder is
        // dropped; the rest is by this function's contract.
        let header = unsafe {
            bindings::rdma_sock_helper_register_net_sysctl(
                net.as_raw(),
                path.as_char_ptr(),
                entries.as_mut_ptr(),
                entries.len(),
            )
        };
        // INVARIANT: Just registered; the entries are on the heap.
        Ok(Self {
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _entries: entries,
        })
    }
}

impl Drop for SysctlFolder {
    fn drop(&mut self) {
        // SAFETY: Registered by the type invariants. Waits for users.
        unsafe { bindings::unregister_net_sysctl_table(self.header.as_ptr()) }
    }
}

/// The folder of a namespace with its files. The drop waits for running reads and writes and
/// removes them.
///
/// # Invariants
///
/// What the entries of `_folder` point to is `_values`, which does not move and lives longer.
pub(crate) struct SysctlTable<K: Knobs> {
    _folder: SysctlFolder,
    _values: Arc<K>,
}

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
        // SAFETY: The values stay where they are until the folder is dropped, which is the first field;
        // the names and limits are static. The handler reads and writes whole values, and does not
        // write the limits.
        let folder = unsafe { SysctlFolder::register(net, K::PATH, entries)? };
        // INVARIANT: As just said.
        Ok(Self {
            _folder: folder,
            _values: values,
        })
    }
}
