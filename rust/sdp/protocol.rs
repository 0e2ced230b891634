// SPDX-License-Identifier: GPL-2.0

//! SDP as the socket engine uses it.

use super::{
    attempt::SdpAttempt,
    data::SdpData,
    engine::engine,
    listening,
    net::NAME,
    prefer,
    setup::{
        make,
        SdpConnection,
        SdpSetup, //
    },
    AF_INET6_SDP,
    AF_INET_SDP, //
};
use crate::{
    kapi::net::{
        addr::{
            AF_INET,
            AF_INET6, //
        },
        msg::Name,
        proc::SeqFile,
        sock::Sock, //
    },
    proto::{
        base::time::Duration,
        stream::{
            reason::{
                LocalReason,
                Reason, //
            },
            rules::Carrier, //
        },
    },
    sock::{
        accept_queue::{
            Listener,
            Service, //
        },
        connection::Protocol,
        policy,
        stats::Side, //
    },
};
use kernel::{
    prelude::*,
    seq_print,
    sync::{
        aref::ARef,
        Arc, //
    },
};

/// The level of SDP's own options of programs that were made for other implementations.
const SOL_SDP: i32 = 27;

impl Protocol for SdpSetup {
    type Stream = SdpData;
    const NAME: &'static str = NAME;
    const LEVEL: i32 = SOL_SDP;
    const ALIASES: &'static [(u16, u16)] = &[(AF_INET_SDP, AF_INET), (AF_INET6_SDP, AF_INET6)];
    const BESIDE_TCP: bool = true;
    const NOT_AGREED: Reason = Reason::Local(LocalReason::SdpNotTried);

    fn connection(sk: ARef<Sock>, side: Side) -> Result<Arc<SdpConnection>> {
        make(&engine().ok_or(ENODEV)?, sk, side)
    }

    fn child(listener: &SdpConnection, sk: ARef<Sock>) -> Result<Arc<SdpConnection>> {
        make(&listener.protocol.engine, sk, Side::Server)
    }

    fn opt_out(connection: &SdpConnection, name: &Name) -> Option<Reason> {
        let sk = &connection.sk;
        let devices = &connection.protocol.engine.fabric.devices;
        if !devices.serve(sk.net_cookie()) {
            return Some(Reason::Local(LocalReason::SdpUnreachable));
        }
        let rules = &connection.protocol.engine.rules;
        let ruled = rules.judge_call(sk, Carrier::Sdp, name);
        ruled.or_else(|| policy::refusal_to(sk, name))
    }

    fn is_preferred(sk: &Sock, name: &Name) -> bool {
        prefer::is_preferred(sk, name).unwrap_or(false)
    }

    fn open(connection: &Arc<SdpConnection>, name: &Name) -> Result<(), Reason> {
        connection.begin_opening(name)
    }

    fn serve(listener: Arc<dyn Listener>) -> Option<Arc<dyn Service>> {
        listening::serve(&engine()?, listener).ok()
    }

    fn step(connection: &Arc<SdpConnection>) {
        connection.run_setup();
    }

    fn after_setup(connection: &Arc<SdpConnection>) {
        connection.run_setup();
    }

    fn has_no_room(connection: &Arc<SdpConnection>) {
        connection.grow_ring();
    }

    fn cancel(connection: &Arc<SdpConnection>) -> bool {
        let was_open = {
            let mut attempt = connection.protocol.attempt.lock();
            let was_open = attempt.is_some();
            connection.end_attempt(&mut attempt);
            was_open
        };
        if was_open && connection.protocol.link.lock().channel.is_none() {
            // The data side may have been there before the connection got the link, which is down now.
            connection.take_link_down();
            connection.end_stream();
        }
        was_open
    }

    fn longest_spin(connection: &SdpConnection) -> Duration {
        connection.protocol.net.settings.longest_spin()
    }

    fn close(connection: &Arc<SdpConnection>, abort: bool) {
        let accounts = &connection.protocol.net.accounts;
        let orphan = accounts.count_orphan();
        let time = accounts.caps().orphan_time;
        // As TCP does, whose limit is `tcp_max_orphans`.
        let abort = abort || !orphan.is_within_limit();
        let tests = connection.sk.orphan_retries();
        let _ = connection.update(|data, now| {
            data.core.set_orphan_tests(tests);
            data.orphan = Some(orphan);
            data.orphan_until = Some(now.saturating_add(time));
            if abort {
                data.core.abort(now);
            }
            data.core.close(now);
            data.shut_receive();
        });
    }

    fn closing(connection: &Arc<SdpConnection>) {
        connection.run_closing();
    }

    fn release(data: KBox<SdpData>) {
        drop(data);
    }

    fn print(connection: &SdpConnection, m: &SeqFile) {
        let device = connection.look(|data| {
            let channel = data.channel.as_ref();
            channel.map(|channel| channel.device().name())
        });
        if let Some(Some(device)) = device {
            seq_print!(m, " dev={}", device.as_str());
        }
    }
}

impl SdpConnection {
    /// Frees an attempt that is over. Without a link, the connection has nothing on a device then.
    /// The caller has the lock: the next attempt may come at once.
    fn end_attempt(&self, attempt: &mut Option<SdpAttempt>) {
        *attempt = None;
        if self.protocol.link.lock().channel.is_none() {
            self.leave_device();
        }
    }

    /// Goes on with the set-up. Context: may sleep. Only its work item calls it.
    fn run_setup(self: &Arc<Self>) {
        let mut attempt = self.protocol.attempt.lock();
        let is_over = match &mut *attempt {
            None => return,
            Some(SdpAttempt::Opening(opening)) => self.run_opening(opening),
            Some(SdpAttempt::Accepting(accepted)) => self.run_accepting(accepted),
        };
        if !is_over {
            return;
        }
        let is_child = matches!(*attempt, Some(SdpAttempt::Accepting(_)));
        self.end_attempt(&mut attempt);
        drop(attempt);
        if is_child {
            self.settle_child();
        }
    }
}
