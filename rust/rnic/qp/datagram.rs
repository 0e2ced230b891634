// SPDX-License-Identifier: GPL-2.0

//! Datagrams that arrive (RNIC-UD).

use super::{
    events::{
        set_result,
        PendingEvents, //
    },
    pair::{
        Core,
        QueuePair, //
    },
};
use crate::{
    kapi::ibdev::{
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
        reason::Reason,
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
        let packet = match RocePacket::parse(transport) {
            Ok(packet) => packet,
            Err(error) => return self.count_malformed(error),
        };
        let header = RequestHeader::new(&packet);
        let datagram = match Datagram::check(&header, core.qkey, self.port_mtu()) {
            Ok(datagram) => datagram,
            Err(reason) => return self.count_lost_datagram(reason),
        };
        // A buffer that is too short stays for the next datagram.
        let taken = self.take_receive_if(core, |wr| {
            let room = wr.map(|wr| Self::room_of(&wr.data));
            datagram.place(room)
        });
        let (wr, len) = match taken {
            Ok((Some(wr), len)) => (wr, len),
            Ok((None, _)) => return,
            Err(reason) => return self.count_lost_datagram(reason),
        };
        let area = grh_area(frame);
        let domain = self.receive_domain();
        let stored = scatter(domain, &wr.data, 0, &area)
            .and_then(|()| scatter(domain, &wr.data, GRH_LEN, packet.payload));
        let protocol = addresses(&frame.route).protocol;
        let protocol = match protocol {
            GidProtocol::RoceV1 => DatagramProtocol::RoceV1,
            GidProtocol::Ipv4 => DatagramProtocol::Ipv4,
            GidProtocol::Ipv6 => DatagramProtocol::Ipv6,
        };
        self.complete_receive(core, &wr, datagram.solicited, events, |completion| {
            completion.len = len;
            completion.imm = datagram.imm;
            completion.datagram = Some((datagram.src_qp.get(), protocol));
            set_result(completion, stored.map_err(|_| Reason::ReceiveDenied));
        });
    }
}
