// SPDX-License-Identifier: GPL-2.0

//! Private data: octets of the engines inside of messages of a connection manager.

use core::fmt;
use kernel::{
    ffi::c_void,
    prelude::*, //
};

/// Longest private data that a connection manager reports.
const MAX: usize = 255;

/// A copy of the private data of a received message.
///
/// The messages of `ib_cm` have no length field: the data fills the message, with zeros behind what
/// the peer gave.
#[derive(Clone, Copy)]
pub(crate) struct PrivateData {
    octets: [u8; MAX],
    len: u8,
}

impl PrivateData {
    /// No data.
    pub(crate) const EMPTY: Self = Self {
        octets: [0; MAX],
        len: 0,
    };

    /// Copies `len` octets; none if the pointer is null.
    ///
    /// # Safety
    ///
    /// `from` is null or valid for reads of `len` octets.
    pub(super) unsafe fn copy(from: *const c_void, len: u8) -> Self {
        let mut data = Self::EMPTY;
        if from.is_null() {
            return data;
        }
        // SAFETY: By this function's contract.
        let from = unsafe { core::slice::from_raw_parts(from.cast::<u8>(), len.into()) };
        for (to, from) in data.octets.iter_mut().zip(from) {
            *to = *from;
        }
        data.len = len;
        data
    }

    /// The octets.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.octets.get(..self.len.into()).unwrap_or(&[])
    }
}

impl fmt::Debug for PrivateData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", self.as_bytes())
    }
}

/// Pointer and length of data that is sent, if it is not longer than `max`.
///
/// # Errors
///
/// `EMSGSIZE` if it is.
pub(super) fn parts(data: &[u8], max: u32) -> Result<(*const c_void, u8)> {
    let len = u8::try_from(data.len()).map_err(|_| EMSGSIZE)?;
    if u32::from(len) > max {
        return Err(EMSGSIZE);
    }
    if len == 0 {
        return Ok((core::ptr::null(), 0));
    }
    Ok((data.as_ptr().cast(), len))
}
