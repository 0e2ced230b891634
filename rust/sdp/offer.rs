// SPDX-License-Identifier: GPL-2.0

//! What this end offers to a peer, and the size of what it needs for that.

use crate::{
    kapi::{
        net::addr::Addr,
        verbs::{
            channel::{
                ChannelConfig,
                ConnectionConfig,
                RecvPosting, //
            },
            device::Device, //
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
/// Octets of a receive buffer, with the headers. A device acknowledges each message, and completes it at
/// both ends, so that longer ones cost less.
const BUFFER: u32 = 32 << 10;
/// Receive buffers that the peer may fill at the start. It may send data while it has credits for three.
const FIRST: u16 = 4;
/// Least and most receive buffers that it may fill when it sends much.
const BUFFERS: (u16, u16) = (5, 24);
/// Octets of unread data that a socket without SO_RCVBUF can hold.
const RCVBUF: usize = 128 << 10;
/// Receive buffers beside them, at most, which make up for messages that must not be acknowledged.
pub(super) const SPARES: u16 = 8;
/// SrcAvail adverts of the peer at a time.
const ADVERTS: u16 = 16;
/// Messages in flight.
const SENDS: u16 = 32;
/// How often a packet is sent again. Nothing else notices a peer that is silent, and to soft-RoCE seven
/// times have no end.
pub(super) const RESENDS: u8 = 6;
/// Exponent of the time after which a device repeats a message. A device notices a peer that
/// vanished after some 4 s.
pub(super) const ACK_TIMEOUT: u8 = 17;
/// RDMA Reads in flight, if the device can have as many.
pub(super) const READS: u8 = 8;

/// The address in a Hello.
pub(super) fn hello_ip(addr: &Addr) -> IpAddr {
    match addr.as_v4() {
        Some(ip) => IpAddr::from(ip),
        None => IpAddr::from(addr.ip_mapped()),
    }
}

/// RDMA Reads in flight on a device.
pub(super) fn reads_of(device: &Device) -> u8 {
    device.max_reads().min(READS)
}

/// What this end offers to a peer, with `reads` RDMA Reads in flight.
pub(super) fn offer(local: &Addr, peer: &Addr, reads: u8) -> SdpOffer {
    SdpOffer {
        transport: SdpTransport::Annex,
        bufs: FIRST,
        size: BUFFER,
        desired_size: BUFFER,
        max_adverts: ADVERTS,
        depths: ReadDepths {
            ird: reads.into(),
            ord: reads.into(),
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

/// How many receive buffers the peer may fill, of a socket whose SO_RCVBUF is `rcvbuf`, if it has one. Four
/// more than hold that: two are not for data, and the last message in the pool is rarely full.
pub(super) fn most_buffers(rcvbuf: Option<usize>) -> u16 {
    let payload = usize::try_from(BUFFER).unwrap_or(1).saturating_sub(16);
    let full = rcvbuf.unwrap_or(RCVBUF).div_ceil(payload).saturating_add(4);
    let (least, most) = BUFFERS;
    u16::try_from(full).unwrap_or(most).clamp(least, most)
}

/// The queue pair of a connection on a port of a device, whose peer may fill up to `most` receive
/// buffers.
pub(super) fn channel_config(device: &Device, port: u32, most: u16) -> ChannelConfig {
    let reads = reads_of(device);
    ChannelConfig {
        port,
        // The connection manager sets the path of the queue pair.
        gid_index: 0,
        send_slots: SENDS,
        recv_slots: most,
        recv_posting: RecvPosting::OnDemand {
            spares: SPARES,
            later: most.saturating_add(SPARES).saturating_sub(FIRST),
        },
        send_bytes: 36,
        recv_bytes: BUFFER,
        long_bytes: 0,
        // A device that scatters a message to one piece only keeps the buffers as they are.
        recv_halves: device.max_recv_sge() > 1,
        max_writes: 0,
        max_pieces: 2,
        max_unsignalled: SENDS / 2,
        may_invalidate: false,
        // It has no key so far (SDP-GEN-22).
        peer_reads: true,
        connection: ConnectionConfig {
            ack_timeout: ACK_TIMEOUT,
            retries: RESENDS,
            rnr_retries: 7,
            min_rnr_timer: 1,
            max_rd_atomic: reads,
            max_dest_rd_atomic: reads,
            hop_limit: 64,
        },
    }
}
