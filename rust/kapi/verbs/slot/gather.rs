// SPDX-License-Identifier: GPL-2.0

//! Messages that the device gathers from a header and from pieces of other memory.
//!
//! The header lies in the buffer of the slot. The payload stays where it is, in a send buffer or in
//! memory that a program has lent, so that the CPU copies it at most once. Drivers copy a request while
//! it is posted: it need not stay.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    Channel,
    ChannelOps,
    Kept,
    ReservedSlot,
    SendPath,
    SendSlot,
    SlotMessage,
    WriteSource, //
};
use crate::{
    bindings,
    kapi::{
        compat::errno::ESHUTDOWN,
        verbs::user_pages::MAX_PIECES, //
    },
};
use core::mem::ManuallyDrop;
use kernel::prelude::*;

/// A piece of the payload of a message.
#[derive(Clone, Copy)]
pub(crate) struct GatherPiece<'a> {
    /// The memory that it lies in.
    pub(crate) source: &'a WriteSource,
    /// Where it starts there.
    pub(crate) offset: u32,
    /// Octets. A piece of none is left out.
    pub(crate) len: u32,
}

/// How a message is posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendFlags {
    /// The message causes a solicited event at the peer.
    pub(crate) solicited: bool,
    /// The message is signalled. If not, the channel signals it all the same now and then, to get
    /// slots back.
    pub(crate) signal: bool,
}

/// The header and the pieces of a message, as a work request names them.
struct GatherList {
    /// The header's comes first, and is filled in when the message is posted.
    sges: [bindings::ib_sge; 1 + MAX_PIECES],
    /// How many of them are used.
    used: usize,
    /// Octets of the pieces.
    bytes: u32,
    /// The memory that the pieces lie in.
    sources: [Option<WriteSource>; 2],
}

impl GatherList {
    /// Hands the pieces to the device of the channel.
    ///
    /// # Errors
    ///
    /// `EINVAL` if one is not within its source, or that is mapped for another device, or there are more
    /// than two sources; `EMSGSIZE` if they lie in more pieces of memory than a message may have, or
    /// have more octets.
    fn new<T: ChannelOps>(channel: &Channel<T>, pieces: &[GatherPiece<'_>]) -> Result<Self> {
        let most = channel.gather_pieces();
        let mut this = Self {
            sges: core::array::from_fn(|_| bindings::ib_sge::default()),
            used: 1,
            bytes: 0,
            sources: [const { None }; 2],
        };
        for piece in pieces {
            if piece.len == 0 {
                continue;
            }
            let off = usize::try_from(piece.offset)?;
            let (sges, used) = (&mut this.sges, &mut this.used);
            let source = piece.source;
            source.for_device(channel.device(), off, piece.len, |addr, length| {
                if *used > most {
                    return Err(EMSGSIZE);
                }
                let sge = sges.get_mut(*used).ok_or(EMSGSIZE)?;
                (sge.addr, sge.length) = (addr, length);
                *used += 1;
                Ok(())
            })?;
            this.bytes = this.bytes.checked_add(piece.len).ok_or(EMSGSIZE)?;
            this.keep(source)?;
        }
        Ok(this)
    }

    /// Keeps a source, unless it is kept already.
    fn keep(&mut self, source: &WriteSource) -> Result {
        for place in &mut self.sources {
            match place {
                Some(kept) if kept.is(source) => return Ok(()),
                Some(_) => {}
                None => {
                    *place = Some(source.clone());
                    return Ok(());
                }
            }
        }
        Err(EINVAL)
    }

    /// Copies the header to the buffer of a slot of the path. Puts it in front, and the local key to all.
    /// The CPU reads an inline header.
    fn put_header(&mut self, path: &SendPath, slot: u16, octets: &[u8], inline: bool) -> Result {
        let length = path.messages.put(slot, octets)?;
        let mut header = path.messages.sge(slot, path.qp.pd().lkey())?;
        header.length = length;
        if inline {
            header.addr = path.messages.cpu_addr(slot)?;
        }
        for sge in &mut self.sges {
            sge.lkey = header.lkey;
        }
        *self.sges.first_mut().ok_or(EINVAL)? = header;
        Ok(())
    }

    /// A request to send the message, which points into the list.
    fn request(
        &mut self,
        invalidate: Option<u32>,
        flags: SendFlags,
        inline: bool,
    ) -> Result<bindings::ib_send_wr> {
        let mut wr = bindings::ib_send_wr {
            opcode: bindings::ib_wr_opcode_IB_WR_SEND,
            sg_list: self.sges.as_mut_ptr(),
            num_sge: i32::try_from(self.used)?,
            ..Default::default()
        };
        if let Some(rkey) = invalidate {
            wr.opcode = bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV;
            wr.ex.invalidate_rkey = ManuallyDrop::new(rkey);
        }
        for (is_set, flag) in [
            (flags.solicited, bindings::ib_send_flags_IB_SEND_SOLICITED),
            (flags.signal, bindings::ib_send_flags_IB_SEND_SIGNALED),
            (inline, bindings::ib_send_flags_IB_SEND_INLINE),
        ] {
            if is_set {
                wr.send_flags |= flag;
            }
        }
        Ok(wr)
    }

    /// Whether the header is the whole message.
    fn is_bare(&self) -> bool {
        self.used == 1
    }
}

impl<T: ChannelOps> ReservedSlot<T> {
    /// Posts a message of `header`, at most as long as [`ChannelConfig::send_bytes`], and of the octets of
    /// `pieces`, in this order. The device reads these where they lie. The peer's receive buffer must
    /// hold the sum. Context: any.
    ///
    /// `tag` comes back through [`ChannelOps::on_sent`], and the sources are kept until then: the octets
    /// must not change before. Without [`SendFlags::signal`] that may be as late as the end of a later
    /// message, if there is one.
    ///
    /// A header without pieces is sent inline if the device can do that.
    ///
    /// [`ChannelConfig::send_bytes`]: crate::kapi::verbs::config::ChannelConfig::send_bytes
    ///
    /// # Errors
    ///
    /// The tag comes back at once: `ESHUTDOWN` after a shutdown; `EINVAL` if the header is empty, a
    /// piece is not within its source, a source is mapped for another device, or there are more than two
    /// sources; `EMSGSIZE` if the header is too long, or the pieces are more than
    /// [`Channel::gather_pieces`] (a piece of lent memory counts for each of its pages); an error of the
    /// device.
    pub(crate) fn post_gathered<'a>(
        mut self,
        tag: T::Tag,
        header: impl Into<SlotMessage<'a>>,
        pieces: &[GatherPiece<'_>],
        flags: SendFlags,
    ) -> Result<(), (Error, T::Tag)> {
        let header = header.into();
        let Some(slot) = self.channel.send_slot(self.index) else {
            return Err((EINVAL, tag));
        };
        if header.octets.is_empty() {
            return Err((EINVAL, tag));
        }
        let mut list = match GatherList::new(&self.channel, pieces) {
            Ok(list) => list,
            Err(error) => return Err((error, tag)),
        };
        let mut queue = self.channel.send.lock();
        let Some(path) = &queue.path else {
            return Err((ESHUTDOWN, tag));
        };
        let inline = list.is_bare() && path.qp.can_inline(path.inline);
        if let Err(error) = list.put_header(path, self.index, header.octets, inline) {
            return Err((error, tag));
        }
        let signal = flags.signal || queue.must_signal(self.last);
        let flags = SendFlags { signal, ..flags };
        let mut wr = match list.request(header.invalidate, flags, inline) {
            Ok(wr) => wr,
            Err(error) => return Err((error, tag)),
        };
        let kept = (!list.is_bare()).then(|| Kept::Gathered(core::mem::take(&mut list.sources)));
        // SAFETY: The handle owns the slot. The path is there, so the slot is not being swept.
        unsafe {
            wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(&raw mut (*slot).sent);
            SendSlot::keep(slot, tag, kept, signal);
        }
        // SAFETY: One request with a handler, which is that of the slot. The slot is part of the channel
        // and the header of the path, which both outlive the queue pair (see `Channel::shutdown`). The
        // slot keeps the sources of the pieces until its handler ran.
        let posted = unsafe { path.qp.post_send(&wr) };
        if let Err((error, _)) = posted {
            // SAFETY: The single request was not posted, so the handle still owns the slot.
            let (tag, kept) = unsafe { SendSlot::take(slot) };
            drop(queue);
            drop(kept);
            return tag.map_or(Ok(()), |tag| Err((error, tag)));
        }
        self.owned = false;
        queue.posted.push(self.index, signal);
        drop(queue);
        self.channel.counters.on_post(&[]);
        self.channel.counters.on_gather(list.bytes);
        Ok(())
    }
}
