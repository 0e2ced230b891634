// SPDX-License-Identifier: GPL-2.0

//! How a work request ended.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::bindings;
use kernel::{
    prelude::*,
    str::CStrExt, //
};

/// Why a work request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WcStatus(bindings::ib_wc_status);

impl WcStatus {
    /// The request was not executed because the queue pair was in error or shut down.
    pub(crate) const FLUSHED: Self = Self(bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR);
    /// The device of the peer did not answer, as often as the request was repeated.
    pub(crate) const RETRY_EXCEEDED: Self = Self(bindings::ib_wc_status_IB_WC_RETRY_EXC_ERR);
    /// The request could not be posted.
    pub(crate) const GENERAL: Self = Self(bindings::ib_wc_status_IB_WC_GENERAL_ERR);

    /// Turns the status of a completion into a result.
    pub(super) fn check(status: bindings::ib_wc_status) -> Result<(), Self> {
        if status == bindings::ib_wc_status_IB_WC_SUCCESS {
            Ok(())
        } else {
            Err(Self(status))
        }
    }

    /// The kernel's text for the status.
    pub(crate) fn name(self) -> &'static str {
        // SAFETY: Returns a string constant for every number.
        let text = unsafe { bindings::ib_wc_status_msg(self.0) };
        // SAFETY: The string constants live while `ib_core` is loaded, which this module keeps by
        // linking to it.
        let text: &'static CStr = unsafe { <CStr as CStrExt>::from_char_ptr(text) };
        text.to_str().unwrap_or("unknown")
    }
}
