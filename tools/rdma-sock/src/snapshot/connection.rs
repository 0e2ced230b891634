// SPDX-License-Identifier: GPL-2.0

//! Sockets of the module: the lines of the file `conns`, with the programs that have them open.

use serde::Serialize;

use super::{
    owner::Process,
    reason,
    record::{
        Other,
        Record, //
    },
};

/// One line of `conns`.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Connection {
    /// "client" or "server".
    pub(crate) role: Option<String>,
    /// "smc" or "sdp" (payload by RDMA), "tcp" (after a fallback), "pending" (in the handshake) or
    /// "listen".
    pub(crate) mode: Option<String>,
    /// The protocol that the program asked for: "smc" or "sdp".
    pub(crate) proto: Option<String>,
    /// State of the connection.
    pub(crate) state: Option<String>,
    /// Local address and port.
    pub(crate) local: Option<String>,
    /// Address and port of the peer.
    pub(crate) peer: Option<String>,
    /// Code of the reason for TCP, like "0x03010000"; zero if there is none.
    pub(crate) reason: Option<String>,
    /// Name of the reason.
    pub(crate) reason_name: Option<String>,
    /// Payload sent by RDMA, in bytes.
    pub(crate) tx_bytes: Option<u64>,
    /// Payload received by RDMA, in bytes.
    pub(crate) rx_bytes: Option<u64>,
    /// Payload over TCP in both directions, in bytes.
    pub(crate) tcp_bytes: Option<u64>,
    /// Inode number of the socket.
    pub(crate) ino: Option<u64>,
    /// Number of the user that owns the socket.
    pub(crate) uid: Option<u64>,
    /// Programs that have the socket open, as far as this user may see them.
    pub(crate) processes: Vec<Process>,
    /// Number of the link group.
    pub(crate) lgr: Option<String>,
    /// RDMA device.
    pub(crate) dev: Option<String>,
    /// Index of the connection's link in the group.
    pub(crate) link: Option<u64>,
    /// Words that this version of the program does not know.
    #[serde(flatten)]
    pub(crate) other: Other,
}

impl From<Record> for Connection {
    fn from(mut record: Record) -> Self {
        let reason = record.text("reason");
        let reason_name = record
            .text("reason_name")
            .filter(|name| name != reason::UNKNOWN);
        let code = reason.as_deref().and_then(reason::parse_code);
        Self {
            role: record.text("role"),
            mode: record.text("mode"),
            proto: record.text("proto"),
            state: record.text("state"),
            local: record.text("local"),
            peer: record.text("peer"),
            reason_name: reason_name.or_else(|| {
                code.filter(|code| *code != 0)
                    .map(|code| reason::name(code).into())
            }),
            reason,
            tx_bytes: record.number("tx_bytes"),
            rx_bytes: record.number("rx_bytes"),
            tcp_bytes: record.number("tcp_bytes"),
            ino: record.number("ino"),
            uid: record.number("uid"),
            processes: Vec::new(),
            lgr: record.text("lgr"),
            dev: record.text("dev"),
            link: record.number("link"),
            other: record.other(),
        }
    }
}

impl Connection {
    /// Whether it is in this mode.
    pub(crate) fn is(&self, mode: &str) -> bool {
        self.mode.as_deref() == Some(mode)
    }

    /// Whether its payload goes by RDMA.
    pub(crate) fn uses_rdma(&self) -> bool {
        self.is("smc") || self.is("sdp")
    }

    /// The code of the reason for TCP; none for other connections.
    pub(crate) fn reason_code(&self) -> Option<u32> {
        let code = self.reason.as_deref().and_then(reason::parse_code)?;
        (code != 0 && !self.uses_rdma()).then_some(code)
    }

    /// The reason for TCP in words, empty for others.
    pub(crate) fn why_tcp(&self) -> String {
        if !self.is("tcp") {
            return String::new();
        }
        match self.reason_code().map(reason::name) {
            Some(name) if name != reason::UNKNOWN => name.into(),
            // A reason that only the kernel knows.
            _ => match (&self.reason_name, self.reason_code()) {
                (Some(name), _) => name.replace('-', " "),
                (None, Some(code)) => reason::text(code),
                (None, None) => String::new(),
            },
        }
    }

    /// Name of the program, or of the first of them; empty if unknown.
    pub(crate) fn program(&self) -> &str {
        self.processes.first().map_or("", |first| &first.name)
    }

    /// Number of the process, or of the first of them with the count of the others.
    pub(crate) fn pid_text(&self) -> String {
        match self.processes.as_slice() {
            [] => String::new(),
            [only] => only.pid.to_string(),
            [first, others @ ..] => format!("{}+{}", first.pid, others.len()),
        }
    }

    /// Port of this side.
    pub(crate) fn local_port(&self) -> Option<u16> {
        port(self.local.as_deref()?)
    }

    /// Port of the peer.
    pub(crate) fn peer_port(&self) -> Option<u16> {
        port(self.peer.as_deref()?)
    }
}

fn port(address: &str) -> Option<u16> {
    address.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn connection(line: &str) -> Connection {
        Record::parse(line).into()
    }

    #[test]
    fn empty_values_count_as_absent_and_unknown_keys_are_kept() {
        let conn = connection("role=client lgr= dev= colour=blue");
        assert_eq!(conn.role.as_deref(), Some("client"));
        assert_eq!(conn.lgr, None);
        assert_eq!(conn.tx_bytes, None);
        assert_eq!(conn.other.get("colour"), Some(&Value::from("blue")));
    }

    #[test]
    fn reason_without_a_name_gets_one() {
        let conn = connection("reason=0x7f000007 reason_name=unknown");
        assert_eq!(conn.reason_name.as_deref(), Some("TCP chosen by policy"));
        assert_eq!(connection("reason=0x00000000").reason_name, None);
    }

    #[test]
    fn why_tcp_has_the_words_of_the_table_or_those_of_the_kernel() {
        let conn = connection("mode=tcp reason=0x03010000 reason_name=peer-did-not-indicate-SMC");
        assert_eq!(conn.why_tcp(), "peer did not indicate SMC");
        let conn = connection("mode=tcp reason=0x0999ffff reason_name=a-later-reason");
        assert_eq!(conn.why_tcp(), "a later reason");
        let conn = connection("mode=smc reason=0x03010000");
        assert_eq!(conn.why_tcp(), "");
        assert_eq!(connection("mode=tcp reason=0x00000000").why_tcp(), "");
    }

    #[test]
    fn ports_are_behind_the_last_colon() {
        let conn = connection("local=192.0.2.1:80 peer=[2001:db8:0:0:0:0:0:1]:1234");
        assert_eq!(conn.local_port(), Some(80));
        assert_eq!(conn.peer_port(), Some(1234));
    }

    #[test]
    fn several_processes_are_counted() {
        let process = |pid| Process {
            pid,
            name: "nginx".into(),
        };
        let mut conn = Connection::default();
        assert_eq!((conn.program(), conn.pid_text().as_str()), ("", ""));
        conn.processes = vec![process(7)];
        assert_eq!((conn.program(), conn.pid_text().as_str()), ("nginx", "7"));
        conn.processes.push(process(8));
        assert_eq!(conn.pid_text(), "7+1");
    }
}
