// SPDX-License-Identifier: GPL-2.0

//! The module's files below `/proc/net/rdma_sock`.
//!
//! `stat` has a `name value` pair in each line, the others `key=value` words separated by blanks.
//! The kernel may come to tell more than this tool knows: unknown words are kept for the JSON.

use anyhow::{
    Context,
    Result, //
};
use rustix::net;
use serde::Serialize;
use serde_json::{
    Map,
    Value, //
};
use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    path::{
        Path,
        PathBuf, //
    },
};

use super::reason;
use crate::device::Port;

const FOLDER: &str = "/proc/net/rdma_sock";
const REASON_PREFIX: &str = "fallback_reason_";

/// The folder with the files; they are those of one network namespace.
pub(super) struct Files {
    folder: PathBuf,
}

impl Files {
    /// Those of the namespace of this process.
    pub(super) fn in_this_namespace() -> Self {
        Self::below(Path::new(FOLDER))
    }

    /// Those in this folder.
    pub(super) fn below(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
        }
    }

    /// Counters; none without the module.
    pub(super) fn statistics(&self) -> Result<Statistics> {
        Ok(Statistics::parse(&self.read("stat")?.unwrap_or_default()))
    }

    /// Connections; none without the module.
    pub(super) fn connections(&self) -> Result<Vec<Connection>> {
        Ok(records(&self.read("conns")?.unwrap_or_default())
            .map(Connection::from)
            .collect())
    }

    /// Links of link groups; none without the module.
    pub(super) fn links(&self) -> Result<Vec<Link>> {
        Ok(records(&self.read("links")?.unwrap_or_default())
            .map(Link::from)
            .collect())
    }

    /// RDMA devices as the module sees them; `None` without the module.
    pub(super) fn devices(&self) -> Result<Option<Vec<Device>>> {
        let text = self.read("devices")?;
        Ok(text.map(|text| records(&text).map(Device::from).collect()))
    }

    fn read(&self, name: &str) -> Result<Option<String>> {
        let path = self.folder.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }
}

/// A line of `key=value` words. Taking a key removes it, so the unknown keys are left.
struct Record(BTreeMap<String, String>);

/// What is left of a record when all known words are taken; decimal numbers are numbers.
type Other = BTreeMap<String, Value>;

impl Record {
    /// Reads a line. A word without `=` belongs to the value before it, which then has a blank.
    fn parse(line: &str) -> Self {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for word in line.split_ascii_whitespace() {
            match (word.split_once('='), pairs.last_mut()) {
                (Some((key, value)), _) => pairs.push((key.into(), value.into())),
                (None, Some((_, value))) => {
                    value.push(' ');
                    value.push_str(word);
                }
                (None, None) => {}
            }
        }
        Self(pairs.into_iter().collect())
    }

    /// The value of `key`; an empty one counts as absent.
    fn text(&mut self, key: &str) -> Option<String> {
        self.0.remove(key).filter(|value| !value.is_empty())
    }

    /// The value of `key` as a number; one that is not a number stays with the unknown.
    fn number(&mut self, key: &str) -> Option<u64> {
        let number = self.0.get(key)?.parse().ok()?;
        self.0.remove(key);
        Some(number)
    }

    fn other(self) -> Other {
        let value = |text: String| match text.parse::<u64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::from(text),
        };
        self.0
            .into_iter()
            .map(|(key, text)| (key, value(text)))
            .collect()
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        self.number(key).map(|number| number != 0)
    }
}

fn records(text: &str) -> impl Iterator<Item = Record> + '_ {
    text.lines()
        .map(Record::parse)
        .filter(|record| !record.0.is_empty())
}

/// One line of `conns`.
#[derive(Debug, Serialize)]
pub(super) struct Connection {
    /// `client` or `server`.
    pub(super) role: Option<String>,
    /// `smc` (payload goes by RDMA), `tcp` (it fell back) or `pending`.
    pub(super) mode: Option<String>,
    /// State of the connection.
    pub(super) state: Option<String>,
    /// Local address and port.
    pub(super) local: Option<String>,
    /// Address and port of the peer.
    pub(super) peer: Option<String>,
    /// Why TCP: a code as in the Decline message, and its name.
    pub(super) reason: Option<String>,
    /// Name of the reason.
    pub(super) reason_name: Option<String>,
    /// Payload by RDMA.
    pub(super) tx_bytes: Option<u64>,
    /// Payload received by RDMA, in octets.
    pub(super) rx_bytes: Option<u64>,
    /// Payload over TCP, in both directions.
    pub(super) tcp_bytes: Option<u64>,
    /// Inode number of the socket.
    pub(super) ino: Option<u64>,
    /// User that the socket belongs to.
    pub(super) uid: Option<u64>,
    /// ID of the link group.
    pub(super) lgr: Option<String>,
    /// RDMA device.
    pub(super) dev: Option<String>,
    #[serde(flatten)]
    /// Words that this program does not know.
    other: Other,
}

impl From<Record> for Connection {
    fn from(mut record: Record) -> Self {
        let reason = record.text("reason");
        let reason_name = record
            .text("reason_name")
            .filter(|name| name != reason::UNKNOWN);
        Self {
            role: record.text("role"),
            mode: record.text("mode"),
            state: record.text("state"),
            local: record.text("local"),
            peer: record.text("peer"),
            reason_name: reason_name.or_else(|| reason::describe(reason.as_deref()?)),
            reason,
            tx_bytes: record.number("tx_bytes"),
            rx_bytes: record.number("rx_bytes"),
            tcp_bytes: record.number("tcp_bytes"),
            ino: record.number("ino"),
            uid: record.number("uid"),
            lgr: record.text("lgr"),
            dev: record.text("dev"),
            other: record.other(),
        }
    }
}

impl Connection {
    /// The reason for TCP in words, empty for others.
    pub(super) fn why_tcp(&self) -> String {
        if self.mode.as_deref() != Some("tcp") {
            return String::new();
        }
        self.reason_name
            .clone()
            .or_else(|| self.reason.clone())
            .unwrap_or_default()
    }
}

/// One line of `devices`: a port of an RDMA device.
#[derive(Debug, Serialize)]
pub(super) struct Device {
    /// Name of the RDMA device.
    pub(super) dev: Option<String>,
    /// Number of the port, from 1.
    pub(super) port: Option<u64>,
    /// The network device, by number and by name.
    pub(super) ifindex: Option<u64>,
    /// Name of the network device.
    pub(super) netdev: Option<String>,
    /// State of the port.
    pub(super) state: Option<String>,
    /// A GID of the port.
    pub(super) gid: Option<String>,
    /// Ethernet address of the port.
    pub(super) mac: Option<String>,
    /// SMC can use it; `None` without the module, which alone knows.
    pub(super) usable: Option<bool>,
    #[serde(flatten)]
    /// Words that this program does not know.
    other: Other,
}

impl From<Record> for Device {
    fn from(mut record: Record) -> Self {
        let ifindex = record.number("ifindex");
        Self {
            dev: record.text("dev"),
            port: record.number("port"),
            ifindex,
            netdev: record.text("netdev").or_else(|| netdev_name(ifindex?)),
            state: record.text("state"),
            gid: record.text("gid"),
            mac: record.text("mac"),
            usable: record.flag("usable"),
            other: record.other(),
        }
    }
}

impl From<Port> for Device {
    fn from(port: Port) -> Self {
        Self {
            dev: Some(port.device),
            port: Some(port.port.into()),
            ifindex: None,
            netdev: port.netdev,
            state: Some(port.state.to_string()),
            gid: None,
            mac: None,
            usable: None,
            other: Other::new(),
        }
    }
}

/// The name of a network device of this namespace.
fn netdev_name(ifindex: u64) -> Option<String> {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::DGRAM, None).ok()?;
    net::netdevice::index_to_name(socket, ifindex.try_into().ok()?).ok()
}

/// One line of `links`.
#[derive(Debug, Serialize)]
pub(super) struct Link {
    /// ID of the link group.
    pub(super) lgr: Option<String>,
    /// `client` or `server`.
    pub(super) role: Option<String>,
    /// Peer ID of the other stack; this module does not print it.
    pub(super) peer: Option<String>,
    /// GID of the peer's port.
    pub(super) peer_gid: Option<String>,
    /// RDMA device.
    pub(super) dev: Option<String>,
    /// State of the link.
    pub(super) state: Option<String>,
    /// Connections that write by the link.
    pub(super) conns: Option<u64>,
    /// RMBs of the group.
    pub(super) rmbs: Option<u64>,
    /// Number of the queue pair.
    pub(super) qpn: Option<String>,
    /// Number of the peer's queue pair.
    pub(super) peer_qpn: Option<String>,
    #[serde(flatten)]
    /// Words that this program does not know.
    other: Other,
}

impl From<Record> for Link {
    fn from(mut record: Record) -> Self {
        Self {
            lgr: record.text("lgr"),
            role: record.text("role"),
            peer: record.text("peer"),
            peer_gid: record.text("peer_gid"),
            dev: record.text("dev"),
            state: record.text("state"),
            conns: record.number("conns"),
            rmbs: record.number("rmbs"),
            qpn: record.text("qpn"),
            peer_qpn: record.text("peer_qpn"),
            other: record.other(),
        }
    }
}

/// The file `stat`.
#[derive(Debug)]
pub(super) struct Statistics {
    /// In the order of the file; what is not a number stays text.
    pub(super) counters: Map<String, Value>,
    pub(super) fallback_reasons: Vec<reason::Count>,
}

impl Statistics {
    fn parse(text: &str) -> Self {
        let mut counters = Map::new();
        let mut fallback_reasons = Vec::new();
        for line in text.lines() {
            let Some((name, value)) = line.trim().split_once(' ') else {
                continue;
            };
            let number: Option<u64> = value.trim().parse().ok();
            let code = name.strip_prefix(REASON_PREFIX);
            let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
            match (code, number) {
                (Some(code), Some(count)) => fallback_reasons.push(reason::Count::new(code, count)),
                (_, Some(number)) => {
                    counters.insert(name.into(), number.into());
                }
                (_, None) => {
                    counters.insert(name.into(), value.trim().into());
                }
            }
        }
        Self {
            counters,
            fallback_reasons,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_files_mean_no_module() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::below(folder.path());
        assert!(files.devices().unwrap().is_none());
        assert!(files.connections().unwrap().is_empty());
        assert!(files.links().unwrap().is_empty());
        assert!(files.statistics().unwrap().counters.is_empty());
    }

    #[test]
    fn empty_values_count_as_absent_and_unknown_keys_are_kept() {
        let mut parsed = records("role=client lgr= dev= colour=blue\n\n");
        let conn = Connection::from(parsed.next().unwrap());
        assert!(parsed.next().is_none());
        assert_eq!(conn.role.as_deref(), Some("client"));
        assert_eq!(conn.lgr, None);
        assert_eq!(conn.tx_bytes, None);
        assert_eq!(conn.other.get("colour"), Some(&Value::from("blue")));
    }

    #[test]
    fn reason_without_a_name_gets_one() {
        let conn = Connection::from(Record::parse("reason=0x7f000007 reason_name=unknown"));
        assert_eq!(conn.reason_name.as_deref(), Some("TCP chosen by policy"));
        let conn = Connection::from(Record::parse("reason=0x00000000"));
        assert_eq!(conn.reason_name, None);
    }

    #[test]
    fn value_may_have_blanks() {
        let conn = Connection::from(Record::parse("stray reason_name=no route to peer mode=tcp"));
        assert_eq!(conn.why_tcp(), "no route to peer");
    }

    #[test]
    fn value_may_hold_an_equals_sign_and_a_number_may_be_none() {
        let conn = Connection::from(Record::parse("peer=a=b tx_bytes=many"));
        assert_eq!(conn.peer.as_deref(), Some("a=b"));
        assert_eq!(conn.tx_bytes, None);
        assert_eq!(conn.other.get("tx_bytes"), Some(&Value::from("many")));
    }

    #[test]
    fn network_device_is_named_by_its_number() {
        let device = Device::from(Record::parse("dev=rxe0 ifindex=1 usable=1"));
        assert_eq!(device.ifindex, Some(1));
        assert_eq!(device.netdev.as_deref(), Some("lo"));
    }

    #[test]
    fn reasons_are_told_apart_from_counters() {
        let text = "tx_bytes 5\nfallback_reason_03010000 2\nfallback_reason_x 1\nnote hello\nodd\n";
        let Statistics {
            counters,
            fallback_reasons,
        } = Statistics::parse(text);
        assert_eq!(counters.get("tx_bytes"), Some(&Value::from(5)));
        assert_eq!(counters.get("fallback_reason_x"), Some(&Value::from(1)));
        assert_eq!(counters.get("note"), Some(&Value::from("hello")));
        assert_eq!(fallback_reasons.len(), 1);
    }
}
