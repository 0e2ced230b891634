// SPDX-License-Identifier: GPL-2.0

//! UDP ports of namespaces, and the way of a packet to its queue pair (RNIC-RX).

use super::{
    counters::Counter,
    runtime::RUNTIME,
    wire::{
        addresses,
        parse_frame,
        ETHERTYPE, //
    },
};
use crate::{
    kapi::{
        compat::errno::EAFNOSUPPORT,
        net::{
            netns::NetRef,
            packet::{
                NetHeader,
                PacketOps,
                RxPacket,
                UdpPort, //
            },
        },
    },
    proto::roce::{
        frame::UDP_PORT,
        header::Bth, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// The number of the general services interface.
const GSI: u32 = 1;

/// Receives packets of RoCE.
pub(super) struct RocePackets;

impl PacketOps for RocePackets {
    const PORT: u16 = UDP_PORT;
    const ETHERTYPE: u16 = ETHERTYPE;

    fn receive(packet: RxPacket, header: NetHeader) {
        let Some(runtime) = RUNTIME.get() else {
            return;
        };
        // RNIC-ICRC-08.
        if packet.was_cut() {
            runtime.count_unclaimed(&packet, Counter::DropNetwork);
            return;
        }
        let Ok((frame, transport)) = parse_frame(header, packet.octets()) else {
            runtime.count_unclaimed(&packet, Counter::DropNetwork);
            return;
        };
        let Some((bth, _)) = Bth::parse(transport) else {
            runtime.count_unclaimed(&packet, Counter::DropHeader);
            return;
        };
        let number = bth.dest_qp.get();
        let pair = if number == GSI {
            let to = addresses(&frame.route);
            runtime.find_gsi(&packet, &to.dst, to.protocol)
        } else {
            runtime.numbers().find(number)
        };
        match pair {
            Some(pair) => pair.receive(packet, header),
            None => runtime.count_unclaimed(&packet, Counter::DropUnknownQp),
        }
    }
}

/// The open ports of a namespace. They do not keep it: its end removes the network devices, and then no
/// device uses the ports.
struct OpenPorts {
    /// The cookie of the namespace.
    net: u64,
    /// Devices that use them.
    users: usize,
    _ipv4: UdpPort<RocePackets>,
    /// `None` where there is no IPv6.
    _ipv6: Option<UdpPort<RocePackets>>,
}

/// The ports of all namespaces with a device.
#[pin_data]
pub(super) struct PortTable {
    /// Taken below the RTNL.
    #[pin]
    open: Mutex<KVec<OpenPorts>>,
}

impl PortTable {
    /// A table without ports. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                open <- new_mutex!(KVec::new(), "rdma_soft_ports"),
            }),
            GFP_KERNEL,
        )
    }

    /// Opens the ports of a namespace, or uses them as well. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if another driver has them, `ENOMEM`.
    fn open(&self, net: &NetRef) -> Result {
        let mut open = self.open.lock();
        if let Some(ports) = open.iter_mut().find(|ports| ports.net == net.cookie()) {
            ports.users = ports.users.saturating_add(1);
            return Ok(());
        }
        let ipv4 = UdpPort::open(net, false)?;
        let ipv6 = match UdpPort::open(net, true) {
            Ok(port) => Some(port),
            Err(err) if err == EAFNOSUPPORT => None,
            Err(err) => return Err(err),
        };
        open.push(
            OpenPorts {
                net: net.cookie(),
                users: 1,
                _ipv4: ipv4,
                _ipv6: ipv6,
            },
            GFP_KERNEL,
        )?;
        Ok(())
    }

    /// Ends a use; the last one closes the ports. Context: may sleep.
    fn close(&self, net: u64) {
        let mut open = self.open.lock();
        let unused = open.iter_mut().position(|ports| {
            let own = ports.net == net;
            if own {
                ports.users = ports.users.saturating_sub(1);
            }
            own && ports.users == 0
        });
        let closed = unused.and_then(|index| open.remove(index).ok());
        drop(open);
        drop(closed);
    }
}

/// The use of a namespace's ports by a device.
pub(super) struct NetPorts {
    table: Arc<PortTable>,
    /// The cookie of the namespace.
    net: u64,
}

impl NetPorts {
    /// The cookie of the namespace.
    pub(super) const fn net(&self) -> u64 {
        self.net
    }

    /// Opens the ports. Context: may sleep.
    ///
    /// # Errors
    ///
    /// Those of the ports.
    pub(super) fn open(table: &Arc<PortTable>, net: &NetRef) -> Result<Self> {
        table.open(net)?;
        Ok(Self {
            table: table.clone(),
            net: net.cookie(),
        })
    }
}

impl Drop for NetPorts {
    fn drop(&mut self) {
        self.table.close(self.net);
    }
}
