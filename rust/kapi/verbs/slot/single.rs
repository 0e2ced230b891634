// SPDX-License-Identifier: GPL-2.0

//! Chains of one request that is no message: RDMA reads.
//!
//! The request uses the completion handler of the slot's message, so it takes part in the order of
//! completions as a message does. Drivers copy a request while it is posted: it need not stay.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    ChannelOps,
    Kept,
    ReadBuffer,
    ReservedSlot,
    SendSlot, //
};
use crate::{
    bindings,
    kapi::compat::errno::ESHUTDOWN, //
};
use core::mem::ManuallyDrop;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// An RDMA read from the memory of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// Where it starts in the buffer.
    pub(crate) offset: u32,
    /// Octets.
    pub(crate) len: u32,
    /// Key of the peer's memory.
    pub(crate) rkey: u32,
    /// Address in the peer's memory.
    pub(crate) raddr: u64,
}

#[cfg_attr(
    not(CONFIG_RDMA_SOCK_KUNIT_TEST),
    expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
)]
impl<T: ChannelOps> ReservedSlot<T> {
    /// Posts an RDMA read into `buffer`, which is kept until `tag` comes back through
    /// [`ChannelOps::on_sent`]. If that reports success, the octets are there. Context: any.
    ///
    /// # Errors
    ///
    /// The tag comes back at once: `ESHUTDOWN` after a shutdown; `EINVAL` if the read is not within the
    /// buffer or that is mapped for another device; an error of the device.
    pub(crate) fn post_read(
        mut self,
        tag: T::Tag,
        buffer: &Arc<ReadBuffer>,
        read: &Read,
    ) -> Result<(), (Error, T::Tag)> {
        let Some(slot) = self.channel.send_slot(self.index) else {
            return Err((EINVAL, tag));
        };
        let mut sge = match buffer.sge(&self.channel.device, read.offset, read.len) {
            Ok(sge) => sge,
            Err(error) => return Err((error, tag)),
        };
        let mut queue = self.channel.send.lock();
        let Some(path) = &queue.path else {
            return Err((ESHUTDOWN, tag));
        };
        sge.lkey = path.qp.pd().lkey();
        let mut wr = bindings::ib_rdma_wr {
            remote_addr: read.raddr,
            rkey: read.rkey,
            ..Default::default()
        };
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ;
        wr.wr.send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED;
        wr.wr.sg_list = &raw mut sge;
        wr.wr.num_sge = 1;
        // SAFETY: The handle owns the slot. The path is there, so the slot is not being swept.
        unsafe {
            wr.wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(&raw mut (*slot).sent);
            SendSlot::keep(slot, tag, Some(Kept::Sink(buffer.clone())), true);
        }
        // SAFETY: One request with a handler, which is that of the slot. The slot is part of the channel,
        // which outlives the queue pair, and keeps the buffer until its handler ran.
        let posted = unsafe { path.qp.post_send(&wr.wr) };
        if let Err((error, _)) = posted {
            // SAFETY: The single request was not posted, so the handle still owns the slot.
            let (tag, kept) = unsafe { SendSlot::take(slot) };
            drop(queue);
            drop(kept);
            return tag.map_or(Ok(()), |tag| Err((error, tag)));
        }
        self.owned = false;
        queue.posted.push(self.index, true);
        drop(queue);
        self.channel.counters.on_post(&[]);
        Ok(())
    }
}
