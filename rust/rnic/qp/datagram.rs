// SPDX-License-Identifier: GPL-2.0

//! Datagrams that arrive (RNIC-UD).

use super::{
    events::PendingEvents,
    pair::{
        Core,
        QueuePair, //
    },
};
use crate::{
    kapi::ibdev::{
        CompletionStatus,
        DatagramProtocol,
        GidProtocol, //
    },
    proto::roce::{
        datagram::{
            grh_area,
            Datagram,
            GRH_LEN, //
        },
        frame::Frame,
        packet::RocePacket,
        responder::RequestHeader, //
    },
    rnic::{
        memory::scatter,
        wire::addresses, //
    },
};

impl QueuePair {
    /// Handles a datagram, or drops it (RNIC-UD-02, RNIC-UD-04).
    pub(super) fn take_datagram(
        &self,
        core: &mut Core,
        events: &mut PendingEvents,
        frame: &Frame,
        transport: &[u8],
    ) {
        let Ok(packet) = RocePacket::parse(transport) else {
            return;
        };
        let header = RequestHeader::new(&packet);
        let Ok(datagram) = Datagram::check(&header, core.qkey, self.port_mtu()) else {
            return;
        };
        // A buffer that is too short stays for the next datagram.
        let Ok(len) = datagram.place(self.next_room(core)) else {
            return;
        };
        let Some(wr) = self.next_receive(core) else {
            return;
        };
        let area = grh_area(frame);
        let stored = scatter(&self.domain, &wr.data, 0, &area)
            .and_then(|()| scatter(&self.domain, &wr.data, GRH_LEN, packet.payload));
        let (_, _, protocol) = addresses(&frame.route);
        let protocol = match protocol {
            GidProtocol::RoceV1 => DatagramProtocol::RoceV1,
            GidProtocol::Ipv4 => DatagramProtocol::Ipv4,
            GidProtocol::Ipv6 => DatagramProtocol::Ipv6,
        };
        self.complete_receive(core, &wr, datagram.solicited, events, |completion| {
            completion.len = len;
            completion.imm = datagram.imm;
            completion.datagram = Some((datagram.src_qp.get(), protocol));
            if stored.is_err() {
                completion.status = CompletionStatus::LocalProtection;
            }
        });
    }
}
