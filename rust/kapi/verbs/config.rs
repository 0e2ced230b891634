// SPDX-License-Identifier: GPL-2.0

//! Parameters of a channel, which its user chooses by its protocol.

use super::{
    device::Device,
    user_pages::MAX_PIECES, //
};
use kernel::prelude::*;

/// Requests besides those of the slots: one registration, and one for draining.
const EXTRA_WRS: u32 = 2;

/// When receive buffers are posted whose messages have been dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RecvPosting {
    /// By the channel, when this many of them wait.
    Batch(u16),
    /// By the user, with [`Channel::post_buffers`](super::channel::Channel::post_buffers), as the
    /// credits of its protocol say. Received messages may be appended to others.
    OnDemand {
        /// Buffers besides [`ChannelConfig::recv_slots`] that are not posted at the start.
        spares: u16,
        /// How many of all these buffers have no memory at the start: they get it from
        /// [`Channel::add_buffer`](super::channel::Channel::add_buffer). Only for buffers that have a
        /// block of pages each.
        later: u16,
    },
}

/// Parameters of a channel.
///
/// # Memory
///
/// The receive buffers take `recv_bytes` for each of `recv_slots` and of the spares, or of the batch
/// less 1, as far as they have memory. The send slots take `send_bytes` each. Buffers of more than 8 KiB have a block of pages
/// each, a power of two of them. Smaller ones share blocks of 16 KiB (with pages of 4 KiB), the last of
/// which has the least power of two of pages that holds the rest. `long_bytes` are taken twice. A block
/// is contiguous, which fragmented memory may not allow: after `ENOMEM`, ask for smaller buffers.
/// [`Channel::buffer_bytes`](super::channel::Channel::buffer_bytes) has the sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelConfig {
    /// Port of the device.
    pub(crate) port: u32,
    /// Index of our address in the GID table of the port.
    pub(crate) gid_index: u8,
    /// Chains that can be in flight.
    pub(crate) send_slots: u16,
    /// Messages that can arrive before any is handled. The peer must not have more in flight.
    pub(crate) recv_slots: u16,
    /// When receive buffers are posted again.
    pub(crate) recv_posting: RecvPosting,
    /// Octets of the longest message that [`Slot::post`](super::channel::Slot::post) sends.
    pub(crate) send_bytes: u16,
    /// Octets of a receive buffer. More than a page should be a power of two.
    pub(crate) recv_bytes: u32,
    /// Octets of the longest message, if some do not fit `send_bytes` or `recv_bytes`; else 0.
    pub(crate) long_bytes: u16,
    /// Receive buffers may get second halves, by
    /// [`Channel::extend_buffers`](super::channel::Channel::extend_buffers). Then `long_bytes` is 0, and
    /// `recv_bytes` are more than 8 KiB.
    pub(crate) recv_halves: bool,
    /// Most RDMA writes in front of a message.
    pub(crate) max_writes: u8,
    /// Most pieces of memory that a message is gathered from, besides its header; up to 17. Devices may
    /// have fewer: see [`Channel::gather_pieces`](super::channel::Channel::gather_pieces).
    pub(crate) max_pieces: u8,
    /// Longest run of unsignalled chains.
    pub(crate) max_unsignalled: u16,
    /// The peer's messages may invalidate keys of this host. If not, one that does breaks the channel.
    pub(crate) may_invalidate: bool,
    /// The peer may read memory of this host that is registered for it.
    pub(crate) peer_reads: bool,
    /// Parameters of the connection.
    pub(crate) connection: ConnectionConfig,
}

/// Parameters of the connection of two queue pairs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionConfig {
    /// Local ACK timeout: 4.096 µs times two to this power.
    pub(crate) ack_timeout: u8,
    /// Attempts after a timeout, up to 7.
    pub(crate) retries: u8,
    /// Attempts when the receiver has no buffer ready; 7 is without end.
    pub(crate) rnr_retries: u8,
    /// Code of the time that a sender waits when no buffer is ready here; 1 is 10 µs.
    pub(crate) min_rnr_timer: u8,
    /// RDMA reads of this side that can be in flight.
    pub(crate) max_rd_atomic: u8,
    /// RDMA reads of the peer that can be in flight.
    pub(crate) max_dest_rd_atomic: u8,
    /// Hops that a packet may make.
    pub(crate) hop_limit: u8,
}

/// Sizes of the queues.
#[derive(Clone, Copy)]
pub(super) struct Depth {
    /// Requests in the send queue.
    pub(super) send: u32,
    /// Requests in the receive queue.
    pub(super) recv: u32,
    /// Octets that are wanted inside of send requests.
    pub(super) inline: u32,
    /// Pieces of memory that a send request names at most.
    pub(super) send_sges: u32,
    /// Pieces of memory that a receive request names.
    pub(super) recv_sges: u32,
}

impl ChannelConfig {
    /// Receive slots: those that wait for their batch are not posted, nor are spares.
    pub(super) fn recv_buffers(&self) -> Result<u16> {
        let waiting = match self.recv_posting {
            RecvPosting::Batch(batch) => batch.checked_sub(1).ok_or(EINVAL)?,
            RecvPosting::OnDemand { spares, .. } => spares,
        };
        self.recv_slots.checked_add(waiting).ok_or(EINVAL)
    }

    /// Receive slots that have memory at the start.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are too many slots, or none of them has memory.
    pub(crate) fn first_buffers(&self) -> Result<u16> {
        let later = match self.recv_posting {
            RecvPosting::Batch(_) => 0,
            RecvPosting::OnDemand { later, .. } => later,
        };
        let first = self.recv_buffers()?.checked_sub(later).ok_or(EINVAL)?;
        if first == 0 {
            return Err(EINVAL);
        }
        Ok(first)
    }

    /// Octets of the receive buffers for messages that have memory at the start.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are too many.
    pub(crate) fn recv_buffer_bytes(&self) -> Result<usize> {
        let each = usize::try_from(self.recv_bytes)?;
        each.checked_mul(self.first_buffers()?.into()).ok_or(EINVAL)
    }

    /// How many receive slots are posted at the start.
    pub(super) fn first_posted(&self) -> usize {
        match self.recv_posting {
            RecvPosting::Batch(_) => usize::MAX,
            RecvPosting::OnDemand { .. } => self.recv_slots.into(),
        }
    }

    /// How many receive slots that wait are posted without being asked for.
    pub(super) fn posted_at_once(&self) -> usize {
        match self.recv_posting {
            RecvPosting::Batch(batch) => batch.into(),
            RecvPosting::OnDemand { .. } => usize::MAX,
        }
    }

    /// Whether the user may append to received messages.
    pub(super) fn may_append(&self) -> bool {
        matches!(self.recv_posting, RecvPosting::OnDemand { .. })
    }

    /// Requests of a send slot.
    pub(super) fn wrs_per_slot(&self) -> u32 {
        u32::from(self.max_writes) + 1
    }

    /// Sizes of the queues on `device`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device cannot hold that many requests, or a parameter that must not be 0 is.
    pub(super) fn depth(&self, device: &Device) -> Result<Depth> {
        let most_pieces = u32::try_from(MAX_PIECES)?;
        let lent = match self.max_writes {
            0 => 1,
            _ => most_pieces,
        };
        // The header lies in a piece of its own.
        let gathered = u32::from(self.max_pieces).min(most_pieces) + 1;
        let depth = Depth {
            send: u32::from(self.send_slots) * self.wrs_per_slot() + EXTRA_WRS,
            recv: u32::from(self.recv_buffers()?) + EXTRA_WRS,
            inline: self.send_bytes.into(),
            send_sges: device.max_send_sge().clamp(1, lent.max(gathered)),
            recv_sges: 1 + u32::from(self.long_bytes != 0 || self.recv_halves),
        };
        let some = [
            self.send_slots.into(),
            self.recv_slots.into(),
            self.send_bytes.into(),
            self.recv_bytes,
        ];
        let most = device.max_qp_wr().min(device.max_cqe());
        if self.recv_halves && self.long_bytes != 0 {
            return Err(EINVAL);
        }
        if some.contains(&0) || depth.send.max(depth.recv) > most {
            return Err(EINVAL);
        }
        Ok(depth)
    }
}
