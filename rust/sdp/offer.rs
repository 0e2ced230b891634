// SPDX-License-Identifier: GPL-2.0

//! What this end offers to a peer, and the size of what it needs for that.

use crate::{
    kapi::{
        net::addr::Addr,
        verbs::channel::{
            ChannelConfig,
            ConnectionConfig,
            RecvPosting, //
        },
    },
    proto::sdp::{
        hello::{
            HelloAddrs,
            ReadDepths, //
        },
        profile::SdpTransport,
        setup::SdpOffer, //
    },
};
use core::net::IpAddr;

/// The service ids of SDP: this, and the port.
pub(super) const SERVICE: u64 = 0x1_0000;
/// Sequence numbers of packets have these bits.
pub(super) const PSN_MASK: u32 = 0xff_ffff;
/// Octets of a receive buffer, with the headers.
const BUFFER: u32 = 16 << 10;
/// Receive buffers that the peer may fill.
const BUFFERS: u16 = 13;
/// Receive buffers beside them, which make up for messages that must not be acknowledged.
const SPARES: u16 = 8;
/// SrcAvail adverts of the peer at a time.
const ADVERTS: u16 = 16;
/// Messages in flight.
const SENDS: u16 = 32;
/// How often a packet is sent again. Nothing else notices a peer that is silent, and to soft-RoCE seven
/// times have no end.
pub(super) const RESENDS: u8 = 6;
/// RDMA Reads in flight.
pub(super) const READS: u8 = 8;

/// The address in a Hello.
pub(super) fn hello_ip(addr: &Addr) -> IpAddr {
    match addr.as_v4() {
        Some(ip) => IpAddr::from(ip),
        None => IpAddr::from(addr.ip_mapped()),
    }
}

/// What this end offers to a peer.
pub(super) fn offer(local: &Addr, peer: &Addr) -> SdpOffer {
    SdpOffer {
        transport: SdpTransport::Annex,
        bufs: BUFFERS,
        size: BUFFER,
        desired_size: BUFFER,
        max_adverts: ADVERTS,
        depths: ReadDepths {
            ird: READS.into(),
            ord: READS.into(),
        },
        // No memory of this end is advertised.
        invalidates: false,
        addrs: HelloAddrs {
            port: local.port(),
            source: hello_ip(local),
            destination: hello_ip(peer),
        },
    }
}

/// The queue pair of a connection on a port.
pub(super) fn channel_config(port: u32) -> ChannelConfig {
    ChannelConfig {
        port,
        // The connection manager sets the path of the queue pair.
        gid_index: 0,
        send_slots: SENDS,
        recv_slots: BUFFERS,
        recv_posting: RecvPosting::OnDemand { spares: SPARES },
        send_bytes: 36,
        recv_bytes: BUFFER,
        long_bytes: 0,
        max_writes: 0,
        max_pieces: 2,
        max_unsignalled: SENDS / 2,
        may_invalidate: false,
        peer_reads: false,
        connection: ConnectionConfig {
            // A peer that vanishes is noticed after some 4 s.
            ack_timeout: 17,
            retries: RESENDS,
            rnr_retries: 7,
            min_rnr_timer: 1,
            max_rd_atomic: READS,
            max_dest_rd_atomic: READS,
            hop_limit: 64,
        },
    }
}
