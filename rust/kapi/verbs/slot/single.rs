// SPDX-License-Identifier: GPL-2.0

//! Chains of one request that is no message: RDMA reads, and writes without octets.
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

impl<T: ChannelOps> ReservedSlot<T> {
    /// Posts an RDMA read into `buffer`, which is kept until `tag` comes back through
    /// [`ChannelOps::on_sent`]. If that reports success, the octets are there. Context: any.
    ///
    /// # Errors
    ///
    /// The tag comes back at once: `ESHUTDOWN` after a shutdown; `EINVAL` if the read is not within the
    /// buffer or that is mapped for another device; an error of the device.
    #[cfg_attr(
        not(CONFIG_RDMA_SOCK_KUNIT_TEST),
        expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
    )]
    pub(crate) fn post_read(
        self,
        tag: T::Tag,
        buffer: &Arc<ReadBuffer>,
        read: &Read,
    ) -> Result<(), (Error, T::Tag)> {
        let sge = match buffer.sge(&self.channel.device, read.offset, read.len) {
            Ok(sge) => sge,
            Err(error) => return Err((error, tag)),
        };
        let wr = bindings::ib_rdma_wr {
            wr: bindings::ib_send_wr {
                opcode: bindings::ib_wr_opcode_IB_WR_RDMA_READ,
                ..Default::default()
            },
            remote_addr: read.raddr,
            rkey: read.rkey,
        };
        self.post_single(tag, wr, Some((sge, Kept::Sink(buffer.clone()))))
    }

    /// Posts an RDMA write without octets, which tests whether the peer's device answers. It needs no
    /// memory of the peer, whose user does not notice it. `tag` comes back through
    /// [`ChannelOps::on_sent`]. Context: any.
    ///
    /// # Errors
    ///
    /// The tag comes back at once: `ESHUTDOWN` after a shutdown; an error of the device.
    pub(crate) fn post_test(self, tag: T::Tag) -> Result<(), (Error, T::Tag)> {
        let wr = bindings::ib_rdma_wr {
            wr: bindings::ib_send_wr {
                opcode: bindings::ib_wr_opcode_IB_WR_RDMA_WRITE,
                ..Default::default()
            },
            ..Default::default()
        };
        self.post_single(tag, wr, None)
    }

    /// Posts a signalled request. If it names memory, that is `with`, and what the slot keeps for it.
    fn post_single(
        mut self,
        tag: T::Tag,
        mut wr: bindings::ib_rdma_wr,
        with: Option<(bindings::ib_sge, Kept)>,
    ) -> Result<(), (Error, T::Tag)> {
        let Some(slot) = self.channel.send_slot(self.index) else {
            return Err((EINVAL, tag));
        };
        let (mut sge, kept) = with.unzip();
        let mut queue = self.channel.send.lock();
        let Some(path) = &queue.path else {
            return Err((ESHUTDOWN, tag));
        };
        if let Some(sge) = &mut sge {
            sge.lkey = path.qp.pd().lkey();
            wr.wr.sg_list = &raw mut *sge;
            wr.wr.num_sge = 1;
        }
        wr.wr.send_flags = bindings::ib_send_flags_IB_SEND_SIGNALED;
        // SAFETY: The handle owns the slot. The path is there, so the slot is not being swept.
        unsafe {
            wr.wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(&raw mut (*slot).sent);
            SendSlot::keep(slot, tag, kept, true);
        }
        // SAFETY: One request with a handler, which is that of the slot. The slot is part of the channel,
        // which outlives the queue pair, and keeps the memory that the request names until its handler ran.
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
