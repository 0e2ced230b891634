// SPDX-License-Identifier: GPL-2.0

//! A byte stream over RDMA as the socket engine sees it.
//!
//! A protocol implements [`Stream`] for the data side of its connections. The engine copies between
//! programs and the memory that a stream names, waits, and wakes; the stream decides.

use super::{
    lent_pages::Finished,
    stats::Traffic, //
};
use crate::{
    kapi::{
        net::sock::TcpState,
        verbs::{
            device::Device,
            sendbuf::SendBuffer,
            user_pages::LentMemory, //
        },
    },
    proto::{
        base::time::Instant,
        stream::{
            events::{
                Fetch,
                Receive,
                StreamEvents, //
            },
            info::StreamInfo,
            keepalive::KeepaliveTimes,
            poll,
            positions::Segment, //
        },
    },
};
use kernel::{
    iov::IovIterDest,
    prelude::*,
    sync::Arc, //
};

/// How a message is sent.
#[derive(Clone, Copy)]
pub(crate) struct SendFlags {
    /// There is more to come.
    pub(crate) corked: bool,
    /// It shall not be delayed.
    pub(crate) nodelay: bool,
}

/// What a writer finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendState {
    /// Room for at least one byte.
    Open,
    /// No room yet, or an error that the socket does not have yet: the writer waits.
    Full,
    /// Nothing can be sent.
    Broken,
}

/// Memory that a reader copies from.
pub(crate) trait Readable {
    /// Copies `len` bytes from `offset` on to a program; returns how many were copied.
    ///
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` if no byte could be copied.
    fn copy_to_iter(&self, offset: usize, len: usize, to: &mut IovIterDest<'_>) -> Result<usize>;

    /// Copies bytes from `offset` on to private memory. Context: any.
    fn read(&self, offset: usize, to: &mut [u8]) -> Result;
}

/// Received data: where it lies, up to two pieces, and when the last of it came.
pub(crate) struct Received<M> {
    /// The memory that has it.
    pub(crate) memory: M,
    /// Its pieces.
    pub(crate) segments: [Segment; 2],
    /// Time of arrival of the last byte in nanoseconds, if the program wants to know.
    pub(crate) time: Option<u64>,
}

/// Where the device reads lent pages. Context: any.
pub(crate) trait LendTarget {
    /// The device.
    fn device(&self) -> &Arc<Device>;

    /// Pieces of memory that a work request reads, at most.
    fn pieces(&self) -> usize;
}

/// The data side of a connection.
///
/// The engine calls the methods with the stream lock of the connection held, a spinlock with bottom
/// halves off. They take constant time and allocate nothing. Context: any.
pub(crate) trait Stream: Send + Sized + 'static {
    /// The connection that owns the stream.
    type Owner: Send + Sync + 'static;
    /// What arrives for the stream before it exists.
    type Early: Default + Send + Unpin;
    /// Memory that received data lies in.
    type Memory: Readable;
    /// Where the device reads lent pages.
    type Target: LendTarget;

    // What a writer does.

    /// What a writer finds.
    fn send_state(&self) -> SendState;
    /// The peer has as many unread bytes as its buffer holds.
    fn is_peer_full(&self) -> bool {
        false
    }
    /// Where a writer of `want` bytes copies them to; `None` without a device.
    fn send_memory(&self, want: u32) -> Option<(&Arc<SendBuffer>, [Segment; 2])>;
    /// Sets how later writes are sent.
    fn set_flags(&mut self, flags: SendFlags);
    /// `bytes` more are in the segments that [`Self::send_memory`] named; the last is urgent or not.
    fn write(&mut self, now: Instant, bytes: u32, urgent: bool);
    /// Where up to `want` bytes can be lent to, and how many; `None` if a writer must copy them.
    fn lend_target(&self, want: u32) -> Option<(Self::Target, u32)>;
    /// Lends pages that were mapped for `target`. `false` if the stream has moved meanwhile.
    fn lend(&mut self, now: Instant, target: &Self::Target, memory: &Arc<LentMemory>) -> bool;
    /// Takes out the lent pages that are finished.
    fn take_finished(&mut self) -> Option<Finished>;

    // Coalescing.

    /// Data is held back, or waits for a completion.
    fn holds_back(&self) -> bool;
    /// Sends what is held back.
    fn flush(&mut self);
    /// When coalesced data is sent at the latest; `None` if nothing is coalesced.
    fn poll_coalesced(&self) -> Option<Instant>;
    /// The time of [`Self::poll_coalesced`] has come.
    fn handle_coalesced(&mut self, now: Instant);
    /// A reader that does not wait has found nothing.
    fn on_empty_read(&mut self);
    /// Sets whether later writes are corked.
    fn set_corked(&mut self, corked: bool);

    // What a reader does.

    /// Urgent bytes are part of the stream.
    fn is_inline(&self) -> bool;
    /// Sets whether urgent bytes are part of the stream.
    fn set_inline(&mut self, inline: bool);
    /// Bytes that can be read.
    fn recv_available(&self) -> u32;
    /// Bytes in front of the urgent mark, behind `skip` bytes; `None` without a mark.
    fn recv_until_mark(&self, skip: u32) -> Option<u32>;
    /// The reader goes past the mark that is next.
    fn leave_mark(&mut self);
    /// What a reader without data is to do.
    fn recv_state(&self) -> Receive;
    /// `count` bytes behind `skip` bytes, which are there.
    fn received(&self, skip: u32, count: u32) -> Received<Self::Memory>;
    /// The program has `bytes` more.
    fn read(&mut self, bytes: u32);
    /// What `TCP_INQ` reports: unread bytes, or 1 at the end of the stream.
    fn recv_hint(&self) -> u32;
    /// The last urgent byte, and whether it is there; `take` marks it as read.
    fn fetch_urgent(&mut self, take: bool) -> (Fetch, u8);
    /// The urgent mark is next.
    fn is_at_mark(&self) -> bool;

    // Its state and its end.

    /// Bytes that the peer has not acknowledged. A caller that asks until it is 0 gets there.
    fn outstanding(&mut self) -> u32;
    /// Bytes that were not posted yet.
    fn unsent(&self) -> u32;
    /// Neither side has ended the stream for good.
    fn is_connected(&self) -> bool;
    /// Ends the stream for reading, for writing, or both.
    fn shutdown(&mut self, read: bool, write: bool);
    /// The program has closed the socket.
    fn close(&mut self, now: Instant);
    /// Ends the stream by a reset.
    fn abort(&mut self, now: Instant);
    /// The peer has all data.
    fn is_drained(&self) -> bool;
    /// The stream is over.
    fn is_closed(&self) -> bool;
    /// What poll reports for a socket in this state.
    fn poll_state(&self, socket: &poll::PolledSocket) -> poll::PollState;
    /// The state of TCP that a program sees, if it is not that of the TCP connection.
    fn shown_state(&self) -> Option<TcpState>;
    /// The figures of `TCP_INFO`; `None` for those of TCP.
    fn info(&self, now: Instant) -> Option<StreamInfo>;
    /// A name of the state, for `/proc`.
    fn state_name(&self) -> &'static str;
    /// Traffic so far.
    fn traffic(&self) -> Traffic;

    // What the engine performs.

    /// Changes since the last call.
    fn take_events(&mut self) -> StreamEvents;
    /// Posts what is due. In its `turn` among connections that wait for send slots, a stream posts
    /// one chain. Returns whether a chain was due and there was no slot for the first.
    fn pump(&mut self, owner: &Arc<Self::Owner>, now: Instant, turn: bool) -> bool;
    /// When the work item of the end has something to do.
    fn poll_timeout(&self) -> Option<Instant>;
    /// For how long the program wants to wait for a peer that may be gone.
    fn set_keepalive(&mut self, now: Instant, times: KeepaliveTimes);
}
