// SPDX-License-Identifier: GPL-2.0

//! Safe names for the part of libibverbs that is needed: one device, one queue pair, one registered
//! buffer. All unsafe code of the crate is here.
//!
//! [`Endpoint`] owns the objects and gives them back in the order that the library asks for. Nothing
//! that points into it leaves this file.

use anyhow::{
    bail,
    Context,
    Result, //
};
use std::{
    alloc::{
        alloc_zeroed,
        dealloc,
        handle_alloc_error,
        Layout, //
    },
    ffi::{
        c_int,
        c_void,
        CStr, //
    },
    io, mem,
    ptr::{
        self,
        NonNull, //
    },
    sync::atomic::{
        AtomicU8,
        Ordering::{
            Acquire,
            Relaxed, //
        },
    },
};

/// What bindgen made of the header.
#[allow(
    missing_docs,
    dead_code,
    unsafe_op_in_unsafe_fn,
    unused_qualifications,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/verbs.rs"));
}

use bindings::*;

/// The only port of a soft-RoCE device.
const PORT: u8 = 1;

/// Page size, which buffers are aligned to.
const PAGE: usize = 4096;

/// What one end has to know of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Number of the queue pair.
    pub qpn: u32,
    /// Its address.
    pub gid: [u8; 16],
    /// Key of the buffer.
    pub rkey: u32,
    /// Address of the buffer.
    pub addr: u64,
}

/// What a work request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes into the peer's buffer, at an offset.
    Write(usize),
    /// Sends a message of the buffer's first octets.
    Send,
}

/// A completion that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// A work request that asked for it.
    Sent,
    /// A message came.
    Received,
}

/// A page-aligned buffer that a peer may write into.
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

impl Memory {
    fn new(size: usize) -> Result<Self> {
        let layout = Layout::from_size_align(size.max(1), PAGE)?;
        // SAFETY: The size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Ok(Self { start, layout }),
            None => handle_alloc_error(layout),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: It was allocated with this layout, and is not registered: the endpoint drops the
        // registration first.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// A reliable connection with what it needs.
pub struct Endpoint {
    /// The open device.
    context: NonNull<ibv_context>,
    /// Protection domain of `qp` and `mr`.
    pd: NonNull<ibv_pd>,
    /// Completion channel on which a sleeping wait blocks.
    channel: NonNull<ibv_comp_channel>,
    /// Completion queue of sends and receives.
    cq: NonNull<ibv_cq>,
    /// The queue pair.
    qp: NonNull<ibv_qp>,
    /// Registration of `memory`.
    mr: NonNull<ibv_mr>,
    /// The buffer that both sides read and write.
    memory: Memory,
    /// GID of the local port.
    gid: [u8; 16],
    /// Index of that GID in the table of the port.
    gid_index: u8,
    /// MTU of the path, as verbs encode it.
    mtu: ibv_mtu,
}

fn made<T>(object: *mut T, what: &'static str) -> Result<NonNull<T>> {
    NonNull::new(object).ok_or_else(|| {
        let error = io::Error::last_os_error();
        anyhow::Error::new(error).context(what)
    })
}

fn check(result: c_int, what: &'static str) -> Result<()> {
    match result {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error.abs())).context(what),
    }
}

fn open(name: &str) -> Result<NonNull<ibv_context>> {
    let mut count = 0;
    // SAFETY: The argument may be written to.
    let list = made(unsafe { ibv_get_device_list(&mut count) }, "RDMA devices")?;
    let mut context = None;
    for n in 0..usize::try_from(count)? {
        // SAFETY: The list has `count` entries.
        let entry = unsafe { list.as_ptr().add(n) };
        // SAFETY: The entry is one of the list's.
        let device = unsafe { *entry };
        // SAFETY: The entry is a device, until the list is freed.
        let known = unsafe { ibv_get_device_name(device) };
        // SAFETY: A name is a string that lives as long as the device.
        let known = unsafe { CStr::from_ptr(known) };
        if known.to_str() == Ok(name) {
            // SAFETY: As above.
            context = Some(made(unsafe { ibv_open_device(device) }, "ibv_open_device"));
            break;
        }
    }
    // SAFETY: The list came from ibv_get_device_list(), and no entry is used after this.
    unsafe { ibv_free_device_list(list.as_ptr()) };
    context.with_context(|| format!("there is no RDMA device {name}"))?
}

/// The first entry of the table that is an IPv4 address.
fn find_gid(context: NonNull<ibv_context>) -> Result<(u8, [u8; 16])> {
    for index in 0..64u8 {
        // SAFETY: All zeros is a GID.
        let mut gid: ibv_gid = unsafe { mem::zeroed() };
        // SAFETY: The context is open, the GID may be written to.
        let result = unsafe { ibv_query_gid(context.as_ptr(), PORT, c_int::from(index), &mut gid) };
        if result != 0 {
            break;
        }
        // SAFETY: Any octets are a GID in this form.
        let raw = unsafe { gid.raw };
        if raw[..10] == [0; 10] && raw[10..12] == [0xff; 2] {
            return Ok((index, raw));
        }
    }
    bail!("the RDMA device has no IPv4 address")
}

fn query_mtu(context: NonNull<ibv_context>) -> Result<ibv_mtu> {
    // SAFETY: All zeros is a port's attributes.
    let mut port: ibv_port_attr = unsafe { mem::zeroed() };
    // The structure grew; the function of this name fills its older and smaller form.
    let compat = ptr::from_mut(&mut port).cast::<_compat_ibv_port_attr>();
    // SAFETY: The context is open, and what the function fills is not larger than `port`.
    let result = unsafe { ibv_query_port(context.as_ptr(), PORT, compat) };
    check(result, "ibv_query_port")?;
    Ok(port.active_mtu)
}

impl Endpoint {
    /// On the named device, with a buffer of `size` octets and room for `depth` work requests.
    pub fn new(device: &str, size: usize, depth: u32) -> Result<Self> {
        let context = open(device)?;
        let (gid_index, gid) = find_gid(context)?;
        let mtu = query_mtu(context)?;
        let memory = Memory::new(size)?;
        // A failure below ends the program, and the kernel takes back what was made before it.
        // SAFETY: The context is open.
        let pd = made(unsafe { ibv_alloc_pd(context.as_ptr()) }, "ibv_alloc_pd")?;
        let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
        let start = memory.start.as_ptr().cast::<c_void>();
        // SAFETY: The memory has this size, and lives longer than the registration.
        let mr = unsafe { ibv_reg_mr(pd.as_ptr(), start, size, c_int::try_from(access)?) };
        let mr = made(mr, "ibv_reg_mr")?;
        // SAFETY: The context is open.
        let channel = unsafe { ibv_create_comp_channel(context.as_ptr()) };
        let channel = made(channel, "ibv_create_comp_channel")?;
        let entries = c_int::try_from(2 * depth)?;
        // SAFETY: The context is open, the channel is of it.
        let cq = unsafe {
            ibv_create_cq(
                context.as_ptr(),
                entries,
                ptr::null_mut(),
                channel.as_ptr(),
                0,
            )
        };
        let cq = made(cq, "ibv_create_cq")?;
        // SAFETY: All zeros is a queue pair's attributes.
        let mut init: ibv_qp_init_attr = unsafe { mem::zeroed() };
        init.send_cq = cq.as_ptr();
        init.recv_cq = cq.as_ptr();
        init.qp_type = IBV_QPT_RC;
        init.cap.max_send_wr = depth;
        init.cap.max_recv_wr = depth;
        init.cap.max_send_sge = 1;
        init.cap.max_recv_sge = 1;
        // SAFETY: The domain and the queues are of one context.
        let qp = unsafe { ibv_create_qp(pd.as_ptr(), &mut init) };
        let qp = made(qp, "ibv_create_qp")?;
        Ok(Self {
            context,
            pd,
            channel,
            cq,
            qp,
            mr,
            memory,
            gid,
            gid_index,
            mtu,
        })
    }

    /// What the peer needs.
    pub fn address(&self) -> Address {
        // SAFETY: The queue pair lives as long as this.
        let qpn = unsafe { self.qp.as_ref() }.qp_num;
        // SAFETY: The registration lives as long as this.
        let rkey = unsafe { self.mr.as_ref() }.rkey;
        Address {
            qpn,
            gid: self.gid,
            rkey,
            addr: self.memory.start.as_ptr() as u64,
        }
    }

    fn modify(&self, attr: &mut ibv_qp_attr, mask: ibv_qp_attr_mask) -> Result<()> {
        // SAFETY: The queue pair is alive, and the mask names fields that are filled.
        let result = unsafe { ibv_modify_qp(self.qp.as_ptr(), attr, c_int::try_from(mask)?) };
        check(result, "ibv_modify_qp")
    }

    /// Makes the queue pair ready to talk to the peer's.
    pub fn connect(&self, peer: &Address) -> Result<()> {
        let zeroed = || {
            // SAFETY: All zeros is a queue pair's attributes.
            unsafe { mem::zeroed::<ibv_qp_attr>() }
        };
        let mut attr = zeroed();
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = PORT;
        attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        self.modify(
            &mut attr,
            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        )?;
        let mut attr = zeroed();
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = self.mtu;
        attr.dest_qp_num = peer.qpn;
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 5;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = PORT;
        attr.ah_attr.grh.dgid.raw = peer.gid;
        attr.ah_attr.grh.sgid_index = self.gid_index;
        attr.ah_attr.grh.hop_limit = 64;
        self.modify(
            &mut attr,
            IBV_QP_STATE
                | IBV_QP_AV
                | IBV_QP_PATH_MTU
                | IBV_QP_DEST_QPN
                | IBV_QP_RQ_PSN
                | IBV_QP_MAX_DEST_RD_ATOMIC
                | IBV_QP_MIN_RNR_TIMER,
        )?;
        let mut attr = zeroed();
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 15;
        attr.retry_cnt = 7;
        attr.rnr_retry = 7;
        attr.max_rd_atomic = 1;
        self.modify(
            &mut attr,
            IBV_QP_STATE
                | IBV_QP_TIMEOUT
                | IBV_QP_RETRY_CNT
                | IBV_QP_RNR_RETRY
                | IBV_QP_SQ_PSN
                | IBV_QP_MAX_QP_RD_ATOMIC,
        )
    }

    fn sge(&self, offset: usize, len: usize) -> Result<ibv_sge> {
        let end = offset.checked_add(len).context("a range")?;
        if end > self.memory.layout.size() {
            bail!("{end} is beyond the buffer");
        }
        // SAFETY: The registration lives as long as this.
        let lkey = unsafe { self.mr.as_ref() }.lkey;
        Ok(ibv_sge {
            addr: self.memory.start.as_ptr() as u64 + offset as u64,
            length: u32::try_from(len)?,
            lkey,
        })
    }

    /// Posts a work request for the buffer's `len` octets at `offset`.
    pub fn post(
        &self,
        peer: &Address,
        op: Op,
        offset: usize,
        len: usize,
        signaled: bool,
    ) -> Result<()> {
        let mut sge = self.sge(offset, len)?;
        // SAFETY: The request points to `sge`.
        unsafe { self.post_send(&mut request(peer, op, &mut sge, signaled)) }
    }

    /// Posts a write of the buffer's `len` octets at `offset` to the peer's start, and a message of
    /// the first `message` of them behind it, at once.
    pub fn post_pair(
        &self,
        peer: &Address,
        offset: usize,
        len: usize,
        message: usize,
        signaled: bool,
    ) -> Result<()> {
        let mut data = self.sge(offset, len)?;
        let mut told = self.sge(offset, message)?;
        let mut send = request(peer, Op::Send, &mut told, signaled);
        let mut write = request(peer, Op::Write(0), &mut data, false);
        write.next = &mut send;
        // SAFETY: The requests point to each other, and to what is above.
        unsafe { self.post_send(&mut write) }
    }

    /// Posts a chain of requests.
    ///
    /// # Safety
    ///
    /// They are valid, with what they point to.
    unsafe fn post_send(&self, wr: &mut ibv_send_wr) -> Result<()> {
        let mut bad = ptr::null_mut();
        // SAFETY: The context is open.
        let post = unsafe { self.context.as_ref() }.ops.post_send;
        let post = post.context("post_send")?;
        // SAFETY: The queue pair is of this context, the requests are valid by this function's
        // contract, and the data lives as long as the queue pair.
        let result = unsafe { post(self.qp.as_ptr(), wr, &mut bad) };
        check(result, "ibv_post_send")
    }

    /// Gives a message of at most `len` octets a place at the buffer's start.
    pub fn post_receive(&self, len: usize) -> Result<()> {
        let mut sge = self.sge(0, len)?;
        // SAFETY: All zeros is a work request.
        let mut wr: ibv_recv_wr = unsafe { mem::zeroed() };
        wr.sg_list = &mut sge;
        wr.num_sge = 1;
        let mut bad = ptr::null_mut();
        // SAFETY: The context is open.
        let post = unsafe { self.context.as_ref() }.ops.post_recv;
        let post = post.context("post_recv")?;
        // SAFETY: As for `post`.
        let result = unsafe { post(self.qp.as_ptr(), &mut wr, &mut bad) };
        check(result, "ibv_post_recv")
    }

    /// The next completion, if there is one.
    pub fn poll(&self) -> Result<Option<Done>> {
        // SAFETY: All zeros is a completion.
        let mut wc: ibv_wc = unsafe { mem::zeroed() };
        // SAFETY: The context is open.
        let poll = unsafe { self.context.as_ref() }.ops.poll_cq;
        let poll = poll.context("poll_cq")?;
        // SAFETY: The queue is of this context, and there is room for one completion.
        match unsafe { poll(self.cq.as_ptr(), 1, &mut wc) } {
            0 => Ok(None),
            1 if wc.status != IBV_WC_SUCCESS => bail!("a work request failed: {}", wc.status),
            1 if wc.opcode & IBV_WC_RECV != 0 => Ok(Some(Done::Received)),
            1 => Ok(Some(Done::Sent)),
            error => bail!("ibv_poll_cq: {error}"),
        }
    }

    /// The next completion, sleeping until there is one.
    pub fn wait(&self) -> Result<Done> {
        loop {
            if let Some(done) = self.poll()? {
                return Ok(done);
            }
            // SAFETY: The context is open.
            let arm = unsafe { self.context.as_ref() }.ops.req_notify_cq;
            let arm = arm.context("req_notify_cq")?;
            // SAFETY: The queue is of this context.
            check(unsafe { arm(self.cq.as_ptr(), 0) }, "ibv_req_notify_cq")?;
            // What came before it was armed raises no event.
            if let Some(done) = self.poll()? {
                return Ok(done);
            }
            let mut cq = ptr::null_mut();
            let mut own = ptr::null_mut();
            // SAFETY: The channel is alive, and both may be written to.
            let result = unsafe { ibv_get_cq_event(self.channel.as_ptr(), &mut cq, &mut own) };
            if result != 0 {
                return Err(io::Error::last_os_error()).context("ibv_get_cq_event");
            }
            // SAFETY: There was one event of this queue.
            unsafe { ibv_ack_cq_events(self.cq.as_ptr(), 1) };
        }
    }

    /// An octet of the buffer, which the device may be writing at this moment. What was written
    /// before it is seen, too.
    pub fn octet(&self, at: usize) -> Result<u8> {
        self.atomic(at).map(|octet| octet.load(Acquire))
    }

    /// Changes an octet of the buffer.
    pub fn set_octet(&self, at: usize, value: u8) -> Result<()> {
        self.atomic(at).map(|octet| octet.store(value, Relaxed))
    }

    fn atomic(&self, at: usize) -> Result<&AtomicU8> {
        if at >= self.memory.layout.size() {
            bail!("{at} is beyond the buffer");
        }
        // SAFETY: The octet is in the buffer.
        let octet = unsafe { self.memory.start.as_ptr().add(at) };
        // SAFETY: It lives as long as this object, which makes only atomic references to it, and
        // the device writes whole octets.
        Ok(unsafe { AtomicU8::from_ptr(octet) })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: The queue pair was made by the library, and is not used after this.
        unsafe { ibv_destroy_qp(self.qp.as_ptr()) };
        // SAFETY: The same, and no queue pair uses it.
        unsafe { ibv_destroy_cq(self.cq.as_ptr()) };
        // SAFETY: The same, and no queue uses it.
        unsafe { ibv_destroy_comp_channel(self.channel.as_ptr()) };
        // SAFETY: The same, and no work request uses it.
        unsafe { ibv_dereg_mr(self.mr.as_ptr()) };
        // SAFETY: The same, and nothing is left in it.
        unsafe { ibv_dealloc_pd(self.pd.as_ptr()) };
        // SAFETY: The same.
        unsafe { ibv_close_device(self.context.as_ptr()) };
    }
}

/// A work request for one piece of memory.
fn request(peer: &Address, op: Op, sge: &mut ibv_sge, signaled: bool) -> ibv_send_wr {
    // SAFETY: All zeros is a work request.
    let mut wr: ibv_send_wr = unsafe { mem::zeroed() };
    wr.sg_list = sge;
    wr.num_sge = 1;
    wr.send_flags = if signaled { IBV_SEND_SIGNALED } else { 0 };
    wr.opcode = IBV_WR_SEND;
    if let Op::Write(at) = op {
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.wr.rdma.remote_addr = peer.addr + at as u64;
        wr.wr.rdma.rkey = peer.rkey;
    }
    wr
}
