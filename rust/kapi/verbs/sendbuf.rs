// SPDX-License-Identifier: GPL-2.0

//! Memory that devices read for our RDMA writes and for the payload of messages.

use super::{
    chunk_mapping::ChunkMapping,
    device::Device, //
};
use crate::kapi::mem::{
    cgroup::MemCgroup,
    chunks::Chunks,
    OnFree, //
};
use kernel::{
    iov::IovIterSource,
    prelude::*,
    sync::Arc, //
};

/// A buffer of contiguous pieces, mostly of one. Devices read it through a [`SendMapping`] each.
///
/// Dropped in any context.
pub(crate) struct SendBuffer {
    chunks: Chunks,
    len: usize,
    // Behind the memory: fields are dropped in order.
    _on_free: Option<OnFree>,
}

impl SendBuffer {
    /// Allocates a contiguous buffer that is charged to the root cgroup, for tests. Context: may sleep.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(crate) fn new(len: usize) -> Result<Arc<Self>> {
        Self::charged(len, len, &MemCgroup::ROOT, None)
    }

    /// Allocates a buffer of `len` octets, in pieces of `piece`, that is charged to `cgroup`. A write or
    /// a message needs an entry of its gather list for each piece that it touches. `on_free` is dropped
    /// when the memory is free. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM` early, so that the caller may ask for less; also above the limit of the cgroup.
    pub(crate) fn charged(
        len: usize,
        piece: usize,
        cgroup: &MemCgroup,
        on_free: Option<OnFree>,
    ) -> Result<Arc<Self>> {
        let buffer = Self {
            chunks: Chunks::unset(len, piece.min(len), cgroup)?,
            len,
            _on_free: on_free,
        };
        Ok(Arc::new(buffer, GFP_KERNEL)?)
    }

    /// Size in octets.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether all of it is contiguous.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.chunks.blocks().len() == 1
    }

    /// Maps the buffer for a device, besides any others. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is being removed.
    pub(crate) fn map(self: &Arc<Self>, dev: &Arc<Device>) -> Result<Arc<SendMapping>> {
        // SAFETY: The mapping is dropped before the reference to the buffer.
        let mapping = unsafe { ChunkMapping::to_device(dev, &self.chunks)? };
        Ok(Arc::new(
            SendMapping {
                mapping,
                buffer: self.clone(),
            },
            GFP_KERNEL,
        )?)
    }

    /// Copies up to `len` octets from `iter` to `off`.
    ///
    /// Returns the number copied, which is less than `len` when `iter` is empty or faults. The
    /// caller keeps track of what devices still have to read. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range is not within the buffer; `EFAULT` if nothing could be copied.
    pub(crate) fn copy_from_iter(
        &self,
        off: usize,
        len: usize,
        iter: &mut IovIterSource<'_>,
    ) -> Result<usize> {
        self.check(off, len)?;
        self.chunks.copy_from_iter(off, len, iter)
    }

    /// Copies out into private memory, what a call has copied in. Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range is not within the buffer.
    pub(crate) fn read(&self, off: usize, to: &mut [u8]) -> Result {
        self.check(off, to.len())?;
        self.chunks.read(off, to)
    }

    /// Copies in from private memory. Context: any.
    #[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
    pub(crate) fn write(&self, off: usize, data: &[u8]) -> Result {
        self.check(off, data.len())?;
        self.chunks.write(off, data)
    }

    fn check(&self, off: usize, len: usize) -> Result {
        match off.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(EINVAL),
        }
    }
}

/// A [`SendBuffer`] as one device sees it.
///
/// Writes and messages posted from it hold a reference until they are complete, so it may be given up
/// while the device still reads. Dropped in any context. It keeps the device's driver there.
pub(crate) struct SendMapping {
    // Unmapped before the memory is freed: fields are dropped in order.
    mapping: ChunkMapping,
    buffer: Arc<SendBuffer>,
}

impl SendMapping {
    /// Hands `len` octets at `off` to the device, and calls `f` with the address there and the size of each
    /// contiguous piece. Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` if this is not the mapping for `dev` or the range is not within the buffer, and those of
    /// `f`.
    pub(in crate::kapi) fn for_device(
        &self,
        dev: &Arc<Device>,
        off: usize,
        len: usize,
        f: impl FnMut(u64, u32) -> Result,
    ) -> Result {
        if !self.mapping.is_of(dev) {
            return Err(EINVAL);
        }
        self.buffer.check(off, len)?;
        self.mapping.for_device(off, len, f)
    }
}
