// SPDX-License-Identifier: GPL-2.0

//! UDP ports of namespaces, and the way of a packet to its queue pair (RNIC-RX).

use super::{
    counters::Counter,
    numbers::PacketReceiver,
    runtime::{
        Runtime,
        RUNTIME, //
    },
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
                RxPacket,
                RxRun, //
            },
            packet_port::{
                Arrival,
                PacketOps,
                UdpPort, //
            },
        },
    },
    proto::roce::{
        frame::{
            RoceRoute,
            UDP_PORT, //
        },
        header::Bth,
        opcode::Opcode, //
    },
};
use core::mem::take;
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

    fn goes_on(octet: u8) -> bool {
        Opcode::from_code(octet).is_some_and(|opcode| !opcode.position().ends())
    }

    fn receive(run: RxRun, header: NetHeader) {
        let Some(runtime) = RUNTIME.get() else {
            return;
        };
        let mut batch = Batch::default();
        for packet in run {
            match destination(&packet, header) {
                Ok((number, route)) => batch.add(&runtime, packet, header, number, &route),
                Err(reason) => runtime.count_unclaimed(&packet, reason),
            }
        }
        batch.flush();
    }
}

/// The number of the queue pair that a packet is for, and the packet's addresses.
///
/// # Errors
///
/// What counts the packet.
fn destination(packet: &RxPacket, header: NetHeader) -> Result<(u32, RoceRoute), Counter> {
    // RNIC-ICRC-08.
    if packet.was_cut() {
        return Err(Counter::DropNetwork);
    }
    let (frame, transport) =
        parse_frame(header, packet.octets()).map_err(|_| Counter::DropNetwork)?;
    let (bth, _) = Bth::parse(transport).ok_or(Counter::DropHeader)?;
    Ok((bth.dest_qp.get(), frame.route))
}

/// Packets for one queue pair, which handles them in one run (RNIC-RX-01).
#[derive(Default)]
struct Batch {
    number: u32,
    pair: Option<Arc<dyn PacketReceiver>>,
    /// Packets that it has taken.
    packets: u32,
}

impl Batch {
    /// Gives a packet to the queue pair with a number, or counts it.
    fn add(
        &mut self,
        runtime: &Runtime,
        packet: RxPacket,
        header: NetHeader,
        number: u32,
        route: &RoceRoute,
    ) {
        // The interface for general services depends on the addresses.
        if self.number != number || number == GSI {
            self.flush();
            self.number = number;
            self.pair = if number == GSI {
                let to = addresses(route);
                runtime.find_gsi(&packet, &to.dst, to.protocol)
            } else {
                runtime.numbers().find(number)
            };
        }
        let Some(pair) = &self.pair else {
            return runtime.count_unclaimed(&packet, Counter::DropUnknownQp);
        };
        if pair.receive(packet, header) {
            self.packets = self.packets.saturating_add(1);
        }
    }

    /// Has the queue pair handle its packets.
    fn flush(&mut self) {
        let packets = take(&mut self.packets);
        if let Some(pair) = self.pair.take().filter(|_| packets > 0) {
            pair.handle(packets);
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
    /// How packets arrive that belong together.
    arrival: Arrival,
    /// Taken below the RTNL.
    #[pin]
    open: Mutex<KVec<OpenPorts>>,
}

impl PortTable {
    /// A table without ports, at which packets arrive so that belong together. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(arrival: Arrival) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                arrival,
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
        let ipv4 = UdpPort::open(net, false, self.arrival)?;
        let ipv6 = match UdpPort::open(net, true, self.arrival) {
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
