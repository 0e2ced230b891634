// SPDX-License-Identifier: GPL-2.0

//! Files in `/proc/net`, in every network namespace.
//!
//! C header: [`include/linux/proc_fs.h`](srctree/include/linux/proc_fs.h)

use super::netns::{
    Net,
    NetOps,
    NetRegistration, //
};
use crate::bindings;
use core::marker::PhantomData;
use kernel::{
    bindings as kb,
    error::from_result,
    ffi,
    prelude::*, //
};

pub(crate) use kernel::seq_file::SeqFile;

/// The content of a file.
pub(crate) trait SeqShow: 'static {
    /// The name of the file.
    const NAME: &'static CStr;

    /// Writes the content as seen by the namespace with that cookie. Context: may sleep.
    fn show(net_cookie: u64, m: &SeqFile) -> Result;
}

/// The content of a file that an administrator may write as well.
pub(crate) trait SeqWrite: SeqShow {
    /// Takes what was written, all at once, for the namespace with that cookie. Context: may sleep.
    fn write(net_cookie: u64, text: &[u8]) -> Result;
}

type Show = unsafe extern "C" fn(*mut kb::seq_file, *mut ffi::c_void) -> ffi::c_int;
type WriteFn = unsafe extern "C" fn(*mut kb::file, *mut ffi::c_char, usize) -> ffi::c_int;

/// A file of a [`Dir`].
#[derive(Clone, Copy)]
pub(crate) struct File {
    name: &'static CStr,
    show: Show,
    write: Option<WriteFn>,
}

impl File {
    /// The file that shows `S`.
    pub(crate) const fn of<S: SeqShow>() -> Self {
        Self {
            name: S::NAME,
            show: show::<S>,
            write: None,
        }
    }

    /// The file that shows `S` and takes what is written.
    pub(crate) const fn of_writable<S: SeqWrite>() -> Self {
        Self {
            name: S::NAME,
            show: show::<S>,
            write: Some(write::<S>),
        }
    }
}

/// # Safety
///
/// Called by the kernel for a file made by `proc_create_net_single`.
unsafe extern "C" fn show<S: SeqShow>(m: *mut kb::seq_file, _data: *mut ffi::c_void) -> ffi::c_int {
    // SAFETY: The kernel calls this for an open file of `proc_create_net_single`, in whose
    // namespace the opener was, and which exists as long as its proc files.
    let cookie =
        unsafe { bindings::rdma_sock_helper_net_cookie(bindings::rdma_sock_helper_seq_net(m)) };
    // SAFETY: The seq file is only used by this call.
    let m = unsafe { SeqFile::from_raw(m) };
    from_result(|| S::show(cookie, m).map(|()| 0))
}

/// # Safety
///
/// Called by the kernel for a file made by `proc_create_net_single_write`.
unsafe extern "C" fn write<S: SeqWrite>(
    file: *mut kb::file,
    text: *mut ffi::c_char,
    len: usize,
) -> ffi::c_int {
    from_result(|| {
        // SAFETY: The kernel calls this for an open file of that kind.
        let net = unsafe { bindings::rdma_sock_helper_seq_file_net(file.cast()) };
        if net.is_null() {
            return Err(EPERM);
        }
        // SAFETY: The namespace is that of the open file.
        let cookie = unsafe { bindings::rdma_sock_helper_net_cookie(net) };
        // SAFETY: The kernel has copied `len` octets, for this call alone.
        let text = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), len) };
        S::write(cookie, text).map(|()| 0)
    })
}

/// A folder of `/proc/net` with its files.
pub(crate) trait Dir: Send + Sync + 'static {
    /// The name of the folder.
    const NAME: &'static CStr;
    /// What is in it.
    const FILES: &'static [File];
}

/// A folder that exists in all namespaces. The drop waits for running reads and removes it.
pub(crate) struct NetProc<D: Dir>(
    #[expect(dead_code, reason = "for its drop")] NetRegistration<Ops<D>>,
);

impl<D: Dir> NetProc<D> {
    /// Makes the folder and its files. Context: may sleep.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(NetRegistration::new()?))
    }
}

struct Ops<D>(PhantomData<D>);

impl<D: Dir> NetOps for Ops<D> {
    fn init(net: &Net) -> Result {
        // SAFETY: The namespace is valid; the name is a string that lives forever.
        let dir =
            unsafe { bindings::rdma_sock_helper_proc_mkdir(net.as_raw(), D::NAME.as_char_ptr()) };
        if dir.is_null() {
            return Err(ENOMEM);
        }
        for file in D::FILES {
            // SAFETY: The folder was just made, the names live forever, and the function is one for
            // such files.
            let entry = unsafe {
                bindings::rdma_sock_helper_proc_single(
                    file.name.as_char_ptr(),
                    dir,
                    Some(file.show),
                    file.write,
                )
            };
            if entry.is_null() {
                Self::exit(net);
                return Err(ENOMEM);
            }
        }
        Ok(())
    }

    fn exit(net: &Net) {
        // SAFETY: The namespace is valid; the function waits for running reads.
        unsafe { bindings::rdma_sock_helper_proc_rmdir(net.as_raw(), D::NAME.as_char_ptr()) }
    }
}
