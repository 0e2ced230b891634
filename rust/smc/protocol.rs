// SPDX-License-Identifier: GPL-2.0

//! SMC-R as the socket engine uses it.

use super::{
    conn::{
        data::Data,
        ending, //
    },
    engine::{
        engine,
        Engine, //
    },
    net::NAME,
    setup::{
        SmcConnection,
        SmcSetup, //
    },
};
use crate::{
    kapi::{
        base::module::random_u32,
        compat::errno::EOPNOTSUPP,
        net::{
            msg::Name,
            proc::SeqFile,
            sock::Sock,
            socket::Socket,
            sockopt::{
                GetOpt,
                SetOpt,
                SOL_SMC, //
            },
            trace::{
                trace_fallback,
                Moved, //
            },
            uapi::SMC_LIMIT_HS, //
        },
    },
    proto::{
        base::time::Duration,
        stream::{
            reason::Reason,
            rules::Carrier, //
        },
    },
    sock::{
        connect::context_or_new,
        connection::{
            Connection,
            Protocol, //
        },
        listen,
        policy,
        stats::Side, //
    },
};
use kernel::{
    prelude::*,
    seq_print,
    sync::{
        aref::ARef,
        atomic::Relaxed,
        Arc, //
    },
};

/// Makes the context of a socket. Context: may sleep.
fn make(engine: &Arc<Engine>, sk: ARef<Sock>, side: Side) -> Result<Arc<SmcConnection>> {
    let net = engine.nets.state(sk.net_cookie())?;
    let limits = net.settings.limits_handshakes();
    let setup = SmcSetup::new(engine, &net);
    Connection::new(&engine.context, &net.stats, sk, side, limits, setup)
}

impl Protocol for SmcSetup {
    type Stream = Data;
    const NAME: &'static str = NAME;
    const LEVEL: i32 = SOL_SMC;
    const BESIDE_TCP: bool = false;
    const NOT_AGREED: Reason = Reason::PeerNoSmc;

    fn connection(sk: ARef<Sock>, side: Side) -> Result<Arc<SmcConnection>> {
        make(&engine().ok_or(ENODEV)?, sk, side)
    }

    fn child(listener: &SmcConnection, sk: ARef<Sock>) -> Result<Arc<SmcConnection>> {
        make(&listener.protocol.engine, sk, Side::Server)
    }

    fn opt_out(connection: &SmcConnection, name: &Name) -> Option<Reason> {
        let sk = &connection.sk;
        let engine = &connection.protocol.engine;
        if !engine.fabric.devices.serve(sk.net_cookie()) && !engine.pnets.is_in_use() {
            return Some(Reason::NoSmcrDevice);
        }
        let refusal = || policy::refusal_to(sk, name);
        engine
            .rules
            .judge_call(sk, Carrier::Smc, name)
            .or_else(refusal)
    }

    /// # Errors
    ///
    /// Always: TCP carries the offer.
    fn offer(sock: &Socket, side: Side) {
        sock.enable_option(match side {
            Side::Client => random_u32(),
            Side::Server => 0,
        });
    }

    fn withdraw(sock: &Socket) {
        sock.disable_option();
    }

    fn withhold(sk: &Sock, withholds: bool) {
        sk.withhold_option(withholds);
    }

    fn agreed(sk: &Sock) -> bool {
        sk.take_syn()
    }

    fn step(connection: &Arc<SmcConnection>) {
        connection.run_handshake();
    }

    fn negotiate(child: &Arc<SmcConnection>) -> Result {
        child.begin_server()
    }

    fn cancel(connection: &Arc<SmcConnection>) -> bool {
        connection.cancel_handshake()
    }

    fn judge_first(connection: &SmcConnection) {
        connection.judge_first_octets();
    }

    fn fell_back(connection: &SmcConnection, reason: Reason) {
        trace_fallback(&connection.sk, reason.code());
    }

    fn longest_spin(connection: &SmcConnection) -> Duration {
        connection.protocol.net.settings.longest_spin()
    }

    fn moved(connection: &SmcConnection, how: Moved, octets: usize) {
        if !how.is_traced() {
            return;
        }
        let device = connection.look(|data| {
            let binding = data.binding.as_ref()?;
            Some(binding.route.handler().device.clone())
        });
        let name = device.flatten().map(|device| device.name());
        let name = name.as_ref().map_or(&[][..], |name| name.as_bytes());
        how.trace(&connection.sk, octets, name);
    }

    fn after_setup(connection: &Arc<SmcConnection>) {
        connection.find_tcp();
    }

    fn close(connection: &Arc<SmcConnection>, abort: bool) {
        let orphan = connection.protocol.net.accounts.count_orphan();
        // As TCP does, whose limit is `tcp_max_orphans`.
        let abort = abort || !orphan.is_within_limit();
        let _ = connection.update(|data, now| {
            data.orphan = Some(orphan);
            if abort {
                data.core.abort(now);
            }
            data.core.close(now);
        });
    }

    fn closing(connection: &Arc<SmcConnection>) {
        connection.run_closing();
    }

    fn release(data: KBox<Data>) {
        ending::release(data);
    }

    /// # Errors
    ///
    /// `EOPNOTSUPP` for an unknown option.
    fn set_option(sock: &Socket, opt: &mut SetOpt) -> Result {
        if opt.name != SMC_LIMIT_HS {
            return Err(EOPNOTSUPP);
        }
        let on = opt.read_int()? != 0;
        let connection = context_or_new::<Self>(sock, Side::Client).ok_or(ENOMEM)?;
        listen::limit(&connection, on);
        Ok(())
    }

    /// # Errors
    ///
    /// `EOPNOTSUPP` for an unknown option.
    fn get_option(sock: &Socket, opt: &mut GetOpt) -> Result {
        opt.room()?;
        if opt.name != SMC_LIMIT_HS {
            return Err(EOPNOTSUPP);
        }
        let connection = context_or_new::<Self>(sock, Side::Client).ok_or(ENOMEM)?;
        opt.write_int(connection.limits.load(Relaxed).into())
    }

    fn print(connection: &SmcConnection, m: &SeqFile) {
        let group = connection.look(|data| {
            let binding = data.binding.as_ref();
            let handler = binding.map(|binding| binding.route.handler().clone());
            (data.group.clone(), handler)
        });
        let Some((group, handler)) = group else {
            return;
        };
        seq_print!(m, " lgr={:#x}", group.id);
        if let Some(handler) = handler {
            let device = &handler.device;
            seq_print!(m, " dev={}", device.name().as_str());
            seq_print!(m, " link={}", handler.slot().index());
        }
    }
}
