// SPDX-License-Identifier: GPL-2.0

//! Fields that several files of `/proc/net/rdma_sock/` have.

use crate::kapi::net::{
    addr::Addr,
    proc::SeqFile, //
};
use core::fmt;
use kernel::seq_print;

/// What a protocol core can print, for [`seq_print`].
pub(crate) struct Shown<'a, T>(pub(crate) &'a T);

impl<T: fmt::Display> kernel::fmt::Display for Shown<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Prints ` name=address:port`.
pub(crate) fn print_addr(m: &SeqFile, name: &str, addr: Addr) {
    match addr {
        Addr::V4 {
            ip: [a, b, c, d],
            port,
        } => seq_print!(m, " {}={}.{}.{}.{}:{}", name, a, b, c, d, port),
        Addr::V6 { ip, port, .. } => {
            seq_print!(m, " {}=[", name);
            print_ip6(m, &ip);
            seq_print!(m, "]:{}", port);
        }
    }
}

/// Prints an IPv6 address or a GID, all of its groups.
pub(crate) fn print_ip6(m: &SeqFile, ip: &[u8; 16]) {
    for (n, pair) in ip.chunks_exact(2).enumerate() {
        if let [high, low] = pair {
            let colon = if n == 0 { "" } else { ":" };
            seq_print!(m, "{}{:x}", colon, u16::from_be_bytes([*high, *low]));
        }
    }
}

/// Prints words with something else than a space between them: a space separates fields.
pub(crate) fn print_joined(m: &SeqFile, words: &str, with: &str) {
    let mut before = "";
    for word in words.split(' ') {
        seq_print!(m, "{}{}", before, word);
        before = with;
    }
}
