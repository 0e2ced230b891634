// SPDX-License-Identifier: GPL-2.0

//! The event with the payload of a connection.

use std::{
    net::{
        IpAddr,
        Ipv6Addr,
        SocketAddr, //
    },
    time::Duration, //
};

use super::event::Reported;

/// The name of the tracepoint, and its system.
pub(super) const SYSTEM: &str = "rdma_sock";
pub(super) const TRACEPOINT: &str = "rdma_sock_payload";

/// A part of the stream of a connection in one direction.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Payload {
    /// Time by the clock of the trace.
    pub(super) time: Duration,
    /// Inode of the socket.
    pub(super) inode: u64,
    /// The program has sent it, and not received.
    pub(super) sent: bool,
    /// Octets of this direction in front of it.
    pub(super) position: u64,
    /// This end.
    pub(super) local: SocketAddr,
    /// The other end.
    pub(super) peer: SocketAddr,
    /// The part.
    pub(super) octets: Vec<u8>,
}

impl Payload {
    /// Reads a line of `trace_pipe`. Total: `None` for another line.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let Reported {
            time,
            tracepoint,
            mut fields,
            ..
        } = Reported::parse(line)?;
        if tracepoint != TRACEPOINT {
            return None;
        }
        let mut end = |addr: &str, port: &str| -> Option<SocketAddr> {
            let addr: Ipv6Addr = fields.text(addr)?.parse().ok()?;
            let port = fields.number(port)?.try_into().ok()?;
            let mapped = addr.to_ipv4_mapped().map(IpAddr::from);
            Some(SocketAddr::new(mapped.unwrap_or(addr.into()), port))
        };
        let (local, peer) = (end("addr", "port")?, end("peer", "peer_port")?);
        Some(Self {
            time,
            inode: fields.number("inode")?,
            sent: fields.number("sent")? != 0,
            position: fields.number("position")?,
            local,
            peer,
            octets: octets(&fields.text("octets")?)?,
        })
    }
}

/// Octets of hexadecimal digits.
fn octets(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let octet = |pair: &[u8]| {
        let [high, low] = pair else { return None };
        let digit = |octet: u8| char::from(octet).to_digit(16);
        u8::try_from((digit(*high)? << 4) | digit(*low)?).ok()
    };
    digits.map(octet).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A line with these fields.
    pub(in super::super) fn line(fields: &str) -> String {
        format!(
            "           redis-7       (      6) [000] d..1.     1.000001: {TRACEPOINT}: {fields}"
        )
    }

    const FIELDS: &str = "net=1 inode=77 sent=1 position=4096 addr=::ffff:10.9.0.1 port=6379 \
                          peer=::ffff:10.9.0.2 peer_port=40000 octets=00ff2b0d";

    #[test]
    fn line_is_read() {
        let payload = Payload::parse(line(FIELDS).as_bytes()).unwrap();
        let wanted = Payload {
            time: Duration::from_micros(1_000_001),
            inode: 77,
            sent: true,
            position: 4096,
            local: "10.9.0.1:6379".parse().unwrap(),
            peer: "10.9.0.2:40000".parse().unwrap(),
            octets: vec![0, 0xff, 0x2b, 0x0d],
        };
        assert_eq!(payload, wanted);
        let inet6 = FIELDS.replace("::ffff:10.9.0.1", "fd00::1");
        let payload = Payload::parse(line(&inet6).as_bytes()).unwrap();
        assert_eq!(payload.local, "[fd00::1]:6379".parse().unwrap());
    }

    #[test]
    fn other_line_is_none() {
        for fields in [
            FIELDS.replace("octets=00", "octets=0"),
            FIELDS.replace("octets=00", "octets=0g"),
            FIELDS.replace("port=6379", "port=65536"),
            FIELDS.replace("position=4096", ""),
            String::new(),
        ] {
            assert_eq!(Payload::parse(line(&fields).as_bytes()), None, "{fields}");
        }
        let other = line(FIELDS).replace(TRACEPOINT, "smc_tx_sendmsg");
        assert_eq!(Payload::parse(other.as_bytes()), None);
    }
}
