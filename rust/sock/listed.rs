// SPDX-License-Identifier: GPL-2.0

//! A connection in the list of its namespace.

use super::{
    calls::Calls,
    connection::{
        Connection,
        Mode,
        Protocol, //
    },
    listen,
    print::{
        print_addr,
        print_joined, //
    },
    stats::{
        Listed,
        Side,
        Traffic, //
    },
    stream::Stream, //
};
use crate::{
    kapi::net::proc::SeqFile,
    proto::stream::reason::Reason, //
};
use core::any::Any;
use kernel::{
    seq_print,
    sync::atomic::Relaxed, //
};

/// A name of the mode, for `/proc`.
const fn name<P: Protocol>(mode: Mode) -> &'static str {
    match mode {
        Mode::Tcp => "tcp",
        Mode::Connecting | Mode::Negotiating => "pending",
        Mode::Stream => P::NAME,
        Mode::Listening => "listen",
    }
}

impl<P: Protocol> Listed for Connection<P> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn traffic(&self) -> Traffic {
        self.look(Stream::traffic).unwrap_or_default()
    }

    fn tcp_bytes(&self) -> u64 {
        self.tcp_bytes.load(Relaxed)
    }

    fn calls(&self) -> Calls {
        self.calls.read()
    }

    fn is_stream(&self) -> bool {
        self.mode() == Mode::Stream
    }

    fn print(&self, m: &SeqFile) {
        let mode = self.mode();
        let role = match (self.side, mode) {
            (Side::Server, _) | (_, Mode::Listening) => "server",
            (Side::Client, _) => "client",
        };
        let name = name::<P>(mode);
        let state = self.look(Stream::state_name).unwrap_or(name);
        seq_print!(m, "role={} mode={} state={}", role, name, state);
        print_addr(m, "local", self.sk.local_addr());
        print_addr(m, "peer", self.sk.peer_addr());
        let code = self.reason_code();
        seq_print!(m, " reason={:#010x}", code);
        if code != 0 {
            seq_print!(m, " reason_name=");
            print_joined(m, Reason::from_stored(code).name(), "-");
        }
        let traffic = self.traffic();
        let (tx, rx) = match mode {
            Mode::Stream => (traffic.tx_bytes, traffic.rx_bytes),
            _ => (0, 0),
        };
        seq_print!(m, " tx_bytes={} rx_bytes={}", tx, rx);
        seq_print!(m, " tcp_bytes={}", self.tcp_bytes());
        seq_print!(m, " ino={} uid={}", self.sk.ino(), self.sk.uid());
        if mode == Mode::Listening {
            seq_print!(m, " ready={}", listen::ready(self));
            let service = listen::service_name(self).filter(|name| *name != P::NAME);
            if let Some(service) = service {
                seq_print!(m, " also={}", service);
            }
        }
        P::print(self, m);
        seq_print!(m, " proto={}\n", P::NAME);
    }
}
