// SPDX-License-Identifier: GPL-2.0

//! What a device and its port report about themselves.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::bindings;
use kernel::ffi;

/// The limits of a device (RNIC-LIM-01).
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceAttr {
    /// Version of the firmware, or of the driver that stands for it.
    pub(crate) fw_version: u64,
    /// GUID of the system.
    pub(crate) guid: [u8; 8],
    /// Longest memory region in octets.
    pub(crate) max_mr_size: u64,
    /// Sizes of pages of a memory region, one bit for each power of two.
    pub(crate) page_sizes: u64,
    /// Queue pairs.
    pub(crate) max_qp: u32,
    /// Work requests of a queue.
    pub(crate) max_qp_wr: u32,
    /// Scatter/gather elements of a work request.
    pub(crate) max_sge: u32,
    /// Shared receive queues.
    pub(crate) max_srq: u32,
    /// Completion queues.
    pub(crate) max_cq: u32,
    /// Entries of a completion queue.
    pub(crate) max_cqe: u32,
    /// Memory regions.
    pub(crate) max_mr: u32,
    /// Memory windows.
    pub(crate) max_mw: u32,
    /// Protection domains.
    pub(crate) max_pd: u32,
    /// Address handles.
    pub(crate) max_ah: u32,
    /// READs and atomics in flight on a queue pair, as a requester and as a responder.
    pub(crate) max_rd_atomic: u32,
    /// Pages of a fast registration.
    pub(crate) max_fast_reg_pages: u32,
    /// Time that the device takes to acknowledge: 4.096 us times a power of two.
    pub(crate) ack_delay: u8,
}

impl DeviceAttr {
    /// Fills in the structure of the verbs core, all other fields of which stay 0.
    pub(super) fn fill(&self, attr: &mut bindings::ib_device_attr) {
        attr.fw_ver = self.fw_version;
        attr.sys_image_guid = u64::from_ne_bytes(self.guid);
        attr.max_mr_size = self.max_mr_size;
        attr.page_size_cap = self.page_sizes;
        attr.max_qp = count(self.max_qp);
        attr.max_qp_wr = count(self.max_qp_wr);
        attr.vendor_id = NO_VENDOR;
        attr.device_cap_flags = DEVICE_CAPS;
        attr.kernel_cap_flags = KERNEL_CAPS;
        attr.max_send_sge = count(self.max_sge);
        attr.max_recv_sge = count(self.max_sge);
        attr.max_sge_rd = count(self.max_sge);
        attr.max_srq = count(self.max_srq);
        attr.max_srq_wr = count(self.max_qp_wr);
        attr.max_srq_sge = count(self.max_sge);
        attr.max_cq = count(self.max_cq);
        attr.max_cqe = count(self.max_cqe);
        attr.max_mr = count(self.max_mr);
        attr.max_mw = count(self.max_mw);
        attr.max_pd = count(self.max_pd);
        attr.max_ah = count(self.max_ah);
        attr.max_qp_rd_atom = count(self.max_rd_atomic);
        attr.max_res_rd_atom = count(self.max_rd_atomic.saturating_mul(self.max_qp));
        attr.max_qp_init_rd_atom = count(self.max_rd_atomic);
        attr.atomic_cap = bindings::ib_atomic_cap_IB_ATOMIC_GLOB;
        attr.max_fast_reg_page_list_len = self.max_fast_reg_pages;
        attr.max_pkeys = 1;
        attr.local_ca_ack_delay = self.ack_delay;
    }
}

/// A count as the verbs core has it: `u32`, or `int` in some kernels. The limits of this module are
/// far below the largest `int`.
fn count<T: TryFrom<u32> + Default>(limit: u32) -> T {
    T::try_from(limit).unwrap_or_default()
}

/// What kernel and user space programs may expect.
const DEVICE_CAPS: u64 = bindings::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW_TYPE_2B as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_RC_RNR_NAK_GEN as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_SRQ_RESIZE as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_SYS_IMAGE_GUID as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_PORT_ACTIVE_EVENT as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_CURR_QP_STATE_MOD as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_FLUSH_GLOBAL as u64
    | bindings::ib_device_cap_flags_IB_DEVICE_ATOMIC_WRITE as u64;

/// The number of a vendor that has none of the organizationally unique identifiers.
const NO_VENDOR: u32 = 0x00ff_ffff;

/// What only kernel programs may expect: links can be deleted, regions can be made of pieces of any
/// length, and the local key of the device is valid for all of the kernel's memory.
const KERNEL_CAPS: u64 = bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG as u64
    | bindings::ib_kernel_cap_flags_IBK_SG_GAPS_REG as u64
    | bindings::ib_kernel_cap_flags_IBK_LOCAL_DMA_LKEY as u64;

/// Speed of a port, as the verbs core codes it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PortSpeed {
    pub(super) speed: u16,
    pub(super) width: u8,
}

/// The state of a port (RNIC-NET-02).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortAttr {
    /// Whether it carries packets.
    pub(crate) active: bool,
    /// Code of the longest payload of a packet now.
    pub(crate) active_mtu: u8,
    /// MTU of the network device in octets.
    pub(crate) phys_mtu: u32,
    /// Longest message in octets.
    pub(crate) max_message: u32,
    /// Speed.
    pub(crate) speed: PortSpeed,
}

/// The versions of RoCE that a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoceVersions {
    /// Version 1: behind an Ethernet header.
    V1,
    /// Version 2: in UDP.
    V2,
    /// Both; each address is in the GID table twice.
    Both,
}

impl RoceVersions {
    /// The capabilities of a port for the verbs core, with the connection manager and management
    /// datagrams.
    pub(super) const fn core_caps(self) -> u32 {
        match self {
            Self::V1 => bindings::RDMA_CORE_PORT_IBA_ROCE,
            Self::V2 => bindings::RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP,
            Self::Both => {
                bindings::RDMA_CORE_PORT_IBA_ROCE | bindings::RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP
            }
        }
    }
}

/// Entries of a GID table: each address takes two, one for each version of RoCE.
pub(super) const GID_TABLE_LEN: ffi::c_int = 256;

/// Entries of a partition key table: RoCE has the default partition only.
pub(super) const PKEY_TABLE_LEN: u16 = 1;

/// Longest management datagram in octets.
pub(super) const MAX_MAD: u32 = 256;

impl PortAttr {
    /// Fills in the structure of the verbs core, all other fields of which stay as they are.
    pub(super) fn fill(&self, attr: &mut bindings::ib_port_attr) {
        attr.state = if self.active {
            bindings::ib_port_state_IB_PORT_ACTIVE
        } else {
            bindings::ib_port_state_IB_PORT_DOWN
        };
        attr.phys_state = if self.active {
            bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP as u8
        } else {
            bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED as u8
        };
        attr.max_mtu = bindings::ib_mtu_IB_MTU_4096;
        attr.active_mtu = u32::from(self.active_mtu);
        attr.phys_mtu = self.phys_mtu;
        attr.gid_tbl_len = GID_TABLE_LEN;
        attr.pkey_tbl_len = PKEY_TABLE_LEN;
        attr.max_msg_sz = self.max_message;
        attr.max_vl_num = 1;
        attr.active_speed = self.speed.speed;
        attr.active_width = self.speed.width;
        attr.set_ip_gids(1);
    }
}
