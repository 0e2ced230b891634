// SPDX-License-Identifier: GPL-2.0

//! Settings under `/proc/sys/net` whose values are text, in a network namespace.
//!
//! C header: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h)

use super::{
    netns::Net,
    sysctl::SysctlFolder, //
};
use core::{
    ffi::CStr as CoreCStr,
    ptr::{
        from_mut,
        null_mut,
        without_provenance_mut, //
    },
};
use kernel::{
    bindings as kb,
    ffi,
    prelude::*,
    sync::Arc, //
};

/// Octets of the longest value, with the NUL behind it.
const ROOM: usize = 512;

/// The settings of a folder. All functions may sleep.
pub(crate) trait TextSettings: Send + Sync + 'static {
    /// The folder below `/proc/sys`.
    const PATH: &'static CStr;
    /// The names of the files.
    const NAMES: &'static [&'static CStr];

    /// Writes the value of the file with that index to the start of `room`; returns its length.
    fn show(&self, index: usize, room: &mut [u8]) -> usize;

    /// Takes a new value.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such value; the present one stays.
    fn store(&self, index: usize, text: &[u8]) -> Result;
}

/// The folder of a namespace with its files. The drop waits for running reads and writes and
/// removes them.
///
/// # Invariants
///
/// What the entries of `_folder` point to is `_values`, which does not move and lives longer.
pub(crate) struct TextTable<T: TextSettings> {
    _folder: SysctlFolder,
    _values: Arc<T>,
}

impl<T: TextSettings> TextTable<T> {
    /// Shows the settings to a namespace. The caller drops it before the namespace goes.
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if another module has files of these names.
    pub(crate) fn new(net: &Net, values: Arc<T>) -> Result<Self> {
        let mut entries = KVec::with_capacity(T::NAMES.len(), GFP_KERNEL)?;
        for (index, name) in T::NAMES.iter().enumerate() {
            let entry = kb::ctl_table {
                procname: name.as_char_ptr(),
                data: Arc::as_ptr(&values).cast_mut().cast(),
                maxlen: ffi::c_int::try_from(ROOM)?,
                mode: 0o644,
                proc_handler: Some(handle::<T>),
                poll: null_mut(),
                extra1: without_provenance_mut(index),
                extra2: null_mut(),
            };
            entries.push(entry, GFP_KERNEL)?;
        }
        // SAFETY: The values stay where they are until the folder is dropped, which is the first field.
        // The names are static, and the handler is that of `T`.
        let folder = unsafe { SysctlFolder::register(net, T::PATH, entries)? };
        // INVARIANT: As just said.
        Ok(Self {
            _folder: folder,
            _values: values,
        })
    }
}

/// Reads or writes a file.
///
/// # Safety
///
/// For the kernel to call, with an entry of a [`TextTable`] of `T`.
unsafe extern "C" fn handle<T: TextSettings>(
    table: *const kb::ctl_table,
    write: ffi::c_int,
    buffer: *mut ffi::c_void,
    lenp: *mut usize,
    ppos: *mut kb::loff_t,
) -> ffi::c_int {
    // SAFETY: The entry is valid during the call, by this function's contract.
    let (data, index) = unsafe { ((*table).data, (*table).extra1.addr()) };
    // SAFETY: An entry points to the values, which live until the table is dropped; that waits for
    // this call.
    let values = unsafe { &*data.cast_const().cast::<T>() };
    let mut room = [0u8; ROOM];
    if write == 0 {
        let (room, _end) = room.split_at_mut(ROOM - 1);
        values.show(index, room);
    }
    let entry = kb::ctl_table {
        data: from_mut(&mut room).cast(),
        maxlen: ROOM as ffi::c_int,
        ..Default::default()
    };
    // SAFETY: The entry has room for its length; the other arguments are those of the kernel.
    let ret = unsafe { kb::proc_dostring(&entry, write, buffer, lenp, ppos) };
    if ret != 0 || write == 0 {
        return ret;
    }
    // The function ends the text with NUL.
    let text = CoreCStr::from_bytes_until_nul(&room).map_or(&[][..], |text| text.to_bytes());
    match values.store(index, text) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
