// SPDX-License-Identifier: GPL-2.0

//! A connection in the list of its namespace.

use super::{
    connection::{
        Connection,
        Mode, //
    },
    print::{
        print_addr,
        print_joined, //
    },
    stats::{
        Listed,
        Side,
        Traffic, //
    },
};
use crate::{
    kapi::net::proc::SeqFile,
    proto::stream::reason::Reason, //
};
use kernel::{
    seq_print,
    sync::atomic::Relaxed, //
};

impl Listed for Connection {
    fn counters(&self) -> Traffic {
        self.look(|data| data.counters).unwrap_or_default()
    }

    fn tcp_bytes(&self) -> u64 {
        self.tcp_bytes.load(Relaxed)
    }

    fn is_smc(&self) -> bool {
        self.mode() == Mode::Smc
    }

    fn print(&self, m: &SeqFile) {
        let mode = self.mode();
        let role = match (self.side, mode) {
            (Side::Server, _) | (_, Mode::Listening) => "server",
            (Side::Client, _) => "client",
        };
        let state = self
            .look(|data| data.core.state().name())
            .unwrap_or(mode.name());
        seq_print!(m, "role={} mode={} state={}", role, mode.name(), state);
        print_addr(m, "local", self.sk.local_addr());
        print_addr(m, "peer", self.sk.peer_addr());
        let code = self.reason_code();
        seq_print!(m, " reason={:#010x}", code);
        if code != 0 {
            seq_print!(m, " reason_name=");
            print_joined(m, Reason::from_stored(code).name(), "-");
        }
        let counters = self.counters();
        let (tx, rx) = match mode {
            Mode::Smc => (counters.tx_bytes, counters.rx_bytes),
            _ => (0, 0),
        };
        seq_print!(m, " tx_bytes={} rx_bytes={}", tx, rx);
        seq_print!(m, " tcp_bytes={}", self.tcp_bytes());
        seq_print!(m, " ino={} uid={}", self.sk.ino(), self.sk.uid());
        let group = self.look(|data| {
            let binding = data.binding.as_ref();
            let handler = binding.map(|binding| binding.route.handler().clone());
            (data.group.clone(), handler)
        });
        if let Some((group, handler)) = group {
            seq_print!(m, " lgr={:#x}", group.id);
            if let Some(handler) = handler {
                seq_print!(
                    m,
                    " dev={} link={}",
                    handler.device.name().as_str(),
                    handler.slot().index()
                );
            }
        }
        seq_print!(m, "\n");
    }
}
