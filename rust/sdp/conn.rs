// SPDX-License-Identifier: GPL-2.0

//! A connection as its channel, its ids and its device see it.

use super::{
    data::SdpData,
    growth::{
        most_ring,
        Room,
        FIRST_RING, //
    },
    links::DeviceUser,
    mail::MailUser,
    messages::{
        ChannelUser,
        SdpChannelOps, //
    },
    offer::{
        channel_config,
        most_buffers,
        SPARES, //
    },
    setup::SdpConnection, //
};
use crate::{
    fabric::quota::Payer,
    kapi::{
        base::time::real_now_ns,
        verbs::{
            channel::{
                Arriving,
                Channel, //
            },
            device::Device,
            pd::Pd, //
        },
    },
    proto::{
        base::time::Instant,
        sdp::{
            conn::SdpToken,
            setup::SdpTerms, //
        },
    },
    sock::stats::Side,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

impl MailUser for SdpConnection {
    fn mail_came(self: Arc<Self>) {
        if self.is_negotiating() || self.is_moving() {
            self.kick_setup();
        } else {
            self.kick_closing();
        }
    }
}

impl ChannelUser for SdpConnection {
    fn sent(self: Arc<Self>, token: SdpToken) {
        let _ = self.update(|data, now| data.core.handle_sent(now, token));
    }

    fn received(self: Arc<Self>, msg: Arriving<'_, SdpChannelOps>) {
        let inline = self.sk.urgent_inline();
        let time = self.sk.wants_time().then(real_now_ns);
        let _ = self.update(|data, now| {
            data.core.set_inline(inline);
            data.receive(now, time, msg);
        });
        if self.is_negotiating() {
            self.protocol.mail.note(|mail| mail.has_message = true);
        }
    }

    fn slot_free(self: Arc<Self>) {
        let _ = self.transmit();
    }

    fn slot_unused(self: Arc<Self>) {
        self.kick_closing();
    }

    fn broken(self: Arc<Self>, is_silent: bool) {
        if is_silent {
            let _ = self.update(|data, _| data.core.handle_silence());
        }
        self.protocol.mail.note(|mail| mail.is_down = true);
    }
}

impl DeviceUser for SdpConnection {
    fn lose_device(self: Arc<Self>) {
        let is_set_up = {
            let mut attempt = self.protocol.attempt.lock();
            if let Some(attempt) = &mut *attempt {
                attempt.lose_device();
            }
            attempt.is_some()
        };
        if is_set_up {
            // The set-up ends by the mail, or has just ended.
            self.lose_link();
            self.protocol.mail.note(|mail| mail.is_down = true);
        } else {
            self.take_link_down();
        }
    }
}

impl SdpConnection {
    /// Makes a queue pair with its receive buffers posted. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device goes, `EINVAL` if it has no queues of that size, `ENOBUFS` above a limit
    /// of memory, `ENOMEM`.
    pub(super) fn new_channel(
        self: &Arc<Self>,
        device: &Arc<Device>,
        port: u32,
    ) -> Result<Arc<Channel<SdpChannelOps>>> {
        let most = most_buffers(self.sk.rcvbuf_user());
        let config = channel_config(device, port, most);
        let ops = SdpChannelOps::new(self.clone())?;
        let payer = self.payer()?;
        let counted = payer.count(config.recv_buffer_bytes()?)?;
        // From here on the removal of the device finds the connection.
        let links = &self.protocol.engine.services.links;
        links.enter(device, self.clone())?;
        let pd = Pd::new(device)?;
        Channel::charged(&pd, &config, payer.cgroup(), Some(counted), ops)
    }

    /// The payer of the buffers: the memory cgroup of the socket, or of the listener before accept.
    pub(super) fn payer(&self) -> Result<Payer> {
        let protocol = &self.protocol;
        // The sock of a child is made by a work item, which has no cgroup.
        let listener = self.listener.lock().clone();
        let cgroup = match listener {
            Some(listener) => listener.sk().mem_cgroup(),
            None => self.sk.mem_cgroup(),
        };
        Payer::new(&protocol.engine.quotas, &protocol.net.accounts, cgroup)
    }

    /// Gives the connection its data side, before the peer can send. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOBUFS` above a limit of memory.
    pub(super) fn install(
        self: &Arc<Self>,
        now: Instant,
        terms: &SdpTerms,
        channel: &Arc<Channel<SdpChannelOps>>,
    ) -> Result {
        let sendbuf = self.payer()?.send_buffer(FIRST_RING, FIRST_RING)?;
        let buffers = channel.recv_slots();
        let room = Room {
            credits: buffers.saturating_sub(SPARES),
            buffers,
            ring: most_ring(self.sk.sndbuf_user()),
        };
        let data = SdpData::new(now, terms, channel, sendbuf, room)?;
        self.stream.lock().stream = Some(data);
        Ok(())
    }

    /// Counts the connection as one that uses SDP. Context: any.
    pub(super) fn count_sdp(&self, side: Side) {
        self.net.count_established(side);
    }
}
