// SPDX-License-Identifier: GPL-2.0

//! Memory that RDMA reads of this host are written to.
//!
//! The local key of the protection domain stands for the buffer, which is what InfiniBand and RoCE
//! want. On iWARP the peer's response names the buffer by a key of its own: such devices are refused.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    device::Device,
    dma::Mapping, //
};
use crate::{
    bindings,
    kapi::{
        compat::errno::EOPNOTSUPP,
        mem::{
            block::Block,
            cgroup::MemCgroup, //
        },
    },
};
use kernel::{
    iov::IovIterDest,
    prelude::*,
    sync::Arc, //
};

/// A contiguous buffer that one device writes what RDMA reads bring.
///
/// Reads that were posted into it hold a reference until they are complete. It keeps the device's driver
/// there. Dropped in any context.
pub(crate) struct ReadBuffer {
    // Unmapped before the memory is freed: fields are dropped in order.
    mapping: Mapping,
    block: Block,
    len: usize,
}

#[cfg_attr(
    not(CONFIG_RDMA_SOCK_KUNIT_TEST),
    expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
)]
impl ReadBuffer {
    /// Allocates a buffer of `len` octets that is charged to `cgroup`. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the device reads only into registered memory, `ENODEV` if it is being removed,
    /// `ENOMEM` early, so that the caller may ask for less.
    pub(crate) fn new(dev: &Arc<Device>, len: usize, cgroup: &MemCgroup) -> Result<Arc<Self>> {
        if !dev.reads_by_local_key() {
            return Err(EOPNOTSUPP);
        }
        let block = Block::zeroed(len, cgroup)?;
        // SAFETY: The block is that memory, and the mapping is dropped first.
        let mapping = unsafe { Mapping::from_device(dev, block.addr(), block.len())? };
        Ok(Arc::new(
            Self {
                mapping,
                block,
                len,
            },
            GFP_KERNEL,
        )?)
    }

    fn check(&self, off: usize, len: usize) -> Result {
        match off.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(EINVAL),
        }
    }

    /// The `len` octets at `offset` as a work request on `dev` names them, all but the key. Hands them
    /// to the device.
    pub(super) fn sge(&self, dev: &Arc<Device>, offset: u32, len: u32) -> Result<bindings::ib_sge> {
        let (off, size) = (usize::try_from(offset)?, usize::try_from(len)?);
        if !Arc::ptr_eq(dev, self.mapping.device()) {
            return Err(EINVAL);
        }
        self.check(off, size)?;
        self.mapping.sync_for_device(off, size)?;
        Ok(bindings::ib_sge {
            addr: self.mapping.addr(off)?,
            length: len,
            lkey: 0,
        })
    }

    /// Copies out into private memory; for small pieces. Context: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range is not within the buffer.
    pub(crate) fn read(&self, off: usize, to: &mut [u8]) -> Result {
        self.check(off, to.len())?;
        self.mapping.sync_for_cpu(off, to.len())?;
        self.block.read(off, to)
    }

    /// Copies `len` octets at `off` to `iter`; returns how many, which is less when `iter` is full or
    /// faults. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range is not within the buffer; `EFAULT` if nothing could be copied.
    pub(crate) fn copy_to_iter(
        &self,
        off: usize,
        len: usize,
        iter: &mut IovIterDest<'_>,
    ) -> Result<usize> {
        self.check(off, len)?;
        self.mapping.sync_for_cpu(off, len)?;
        self.block.copy_to_iter(off, len, iter)
    }
}
