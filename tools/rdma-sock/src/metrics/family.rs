// SPDX-License-Identifier: GPL-2.0

//! The metrics of a snapshot: names, labels and values.

use serde_json::Value;

use crate::snapshot::{
    ReasonCount,
    Snapshot, //
};

/// The protocols, with the beginning of their counters.
const PROTOCOLS: [(&str, &str); 2] = [("smc", ""), ("sdp", "sdp_")];

/// Whether a value only rises.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Counter,
    Gauge,
}

/// Names and values of labels.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A metric with all of its values.
#[derive(Debug)]
pub(super) struct Family {
    /// The name without the suffix of counters.
    pub(super) name: &'static str,
    /// One sentence for people.
    pub(super) help: &'static str,
    /// Whether the values only rise.
    pub(super) kind: Kind,
    /// Values by their labels.
    pub(super) values: Vec<(Labels, u64)>,
}

impl Family {
    fn new(kind: Kind, name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            kind,
            values: Vec::new(),
        }
    }

    fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(Kind::Gauge, name, help)
    }

    fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(Kind::Counter, name, help)
    }

    fn with<const N: usize>(mut self, labels: [(&'static str, &str); N], value: u64) -> Self {
        let labels = labels.map(|(name, value)| (name, value.to_string()));
        self.values.push((labels.into(), value));
        self
    }

    /// Adds the value of a counter of the module, if the module has it.
    fn with_counter<const N: usize>(
        self,
        snapshot: &Snapshot,
        counter: &str,
        labels: [(&'static str, &str); N],
    ) -> Self {
        let value = snapshot.statistics.counters.get(counter);
        match value.and_then(Value::as_u64) {
            Some(value) => self.with(labels, value),
            None => self,
        }
    }

    /// Adds a counter that each protocol has for clients and servers.
    fn with_roles(mut self, snapshot: &Snapshot, name: impl Fn(&str, &str) -> String) -> Self {
        for (proto, prefix) in PROTOCOLS {
            for (role, short) in [("client", "clnt"), ("server", "srv")] {
                let counter = name(prefix, short);
                let labels = [("proto", proto), ("role", role)];
                self = self.with_counter(snapshot, &counter, labels);
            }
        }
        self
    }

    /// Adds a counter that each protocol has.
    fn with_protocols(mut self, snapshot: &Snapshot, name: &str) -> Self {
        for (proto, prefix) in PROTOCOLS {
            let counter = format!("{prefix}{name}");
            self = self.with_counter(snapshot, &counter, [("proto", proto)]);
        }
        self
    }

    fn with_reasons(mut self, reasons: &[ReasonCount]) -> Self {
        for reason in reasons {
            let labels = [
                ("proto", reason.proto),
                ("code", &reason.code),
                ("reason", reason.name),
            ];
            self = self.with(labels, reason.count);
        }
        self
    }

    /// Adds the counters whose names begin so, with the rest of the name as a label.
    fn with_beginning(mut self, snapshot: &Snapshot, name: &str, label: &'static str) -> Self {
        let named = |proto: (&'static str, &str), counter: &str| {
            let rest = counter.strip_prefix(proto.1)?.strip_prefix(name)?;
            Some((proto.0, rest.to_string()))
        };
        for (counter, value) in &snapshot.statistics.counters {
            let found = PROTOCOLS
                .into_iter()
                .find_map(|proto| named(proto, counter));
            if let (Some((proto, rest)), Some(value)) = (found, value.as_u64()) {
                self = self.with([("proto", proto), (label, &rest)], value);
            }
        }
        self
    }
}

/// All metrics of a snapshot.
pub(super) fn of(snapshot: &Snapshot) -> Vec<Family> {
    let mut families = of_module(snapshot);
    families.extend(of_traffic(snapshot));
    families.extend(of_links(snapshot));
    families
}

fn of_module(snapshot: &Snapshot) -> Vec<Family> {
    let module = &snapshot.module;
    let loaded = Family::gauge(
        "rdma_sock_module_loaded",
        "Whether the module is loaded (1 or 0)",
    )
    .with(
        [("version", module.version.as_deref().unwrap_or(""))],
        module.loaded.into(),
    );
    let mut sockets = Family::gauge(
        "rdma_sock_connections",
        "Present sockets of the module, by the protocol asked for and the mode",
    );
    for (proto, _) in PROTOCOLS {
        for mode in [proto, "tcp", "pending", "listen"] {
            let is = |conn: &&_| is_of(conn, proto, mode);
            let count = snapshot.connections.iter().filter(is).count();
            let value = u64::try_from(count).unwrap_or(u64::MAX);
            sockets = sockets.with([("proto", proto), ("mode", mode)], value);
        }
    }
    let name =
        |middle: &'static str| move |prefix: &str, role: &str| format!("{prefix}{middle}_{role}");
    vec![
        loaded,
        sockets,
        Family::counter("rdma_sock_established", "Connections that came to use RDMA").with_roles(
            snapshot,
            |prefix, role| match prefix {
                "" => format!("smc_{role}_conns"),
                prefix => format!("{prefix}{role}_conns"),
            },
        ),
        Family::counter("rdma_sock_fallbacks", "Connections that fell back to TCP")
            .with_roles(snapshot, name("fallback")),
        Family::counter(
            "rdma_sock_aborted",
            "Connections that were reset during the handshake",
        )
        .with_roles(snapshot, name("aborted")),
        Family::counter(
            "rdma_sock_fallback_reasons",
            "Connections that fell back to TCP, by the reason",
        )
        .with_reasons(&snapshot.statistics.fallback_reasons),
        Family::counter(
            "rdma_sock_aborted_reasons",
            "Connections that were reset during the handshake, by the reason",
        )
        .with_reasons(&snapshot.statistics.aborted_reasons),
        Family::counter(
            "rdma_sock_violations",
            "Connections aborted because the peer broke a rule",
        )
        .with_beginning(snapshot, "violation_", "rule"),
    ]
}

fn is_of(conn: &crate::snapshot::Connection, proto: &str, mode: &str) -> bool {
    conn.proto.as_deref().unwrap_or("smc") == proto && conn.is(mode)
}

fn of_traffic(snapshot: &Snapshot) -> Vec<Family> {
    let mut payload = Family::counter(
        "rdma_sock_rdma_payload_bytes",
        "Payload by RDMA: written to peers, and read by programs",
    );
    for (proto, prefix) in PROTOCOLS {
        for (direction, name) in [("sent", "tx_bytes"), ("received", "rx_bytes")] {
            let labels = [("proto", proto), ("direction", direction)];
            payload = payload.with_counter(snapshot, &format!("{prefix}{name}"), labels);
        }
    }
    let simple = |family: Family, counter: &str| family.with_counter(snapshot, counter, []);
    vec![
        payload,
        Family::counter(
            "rdma_sock_tcp_payload_bytes",
            "Payload of the module's sockets over TCP, in both directions",
        )
        .with_protocols(snapshot, "tcp_payload_bytes"),
        simple(
            Family::counter(
                "rdma_sock_zerocopy_bytes",
                "Payload written to peers without a copy",
            ),
            "tx_zerocopy_bytes",
        ),
        simple(
            Family::counter("rdma_sock_rdma_writes", "RDMA writes of payload"),
            "tx_writes",
        ),
        Family::counter(
            "rdma_sock_cdc_messages",
            "CDC messages, which announce written and read data",
        )
        .with_counter(snapshot, "tx_cdc", [("direction", "sent")])
        .with_counter(snapshot, "rx_cdc", [("direction", "received")]),
        simple(
            Family::gauge("rdma_sock_buffer_bytes", "Present receive and send buffers"),
            "buffer_bytes",
        ),
        simple(
            Family::gauge(
                "rdma_sock_orphans",
                "Present connections over RDMA that the program has closed",
            ),
            "orphans",
        ),
    ]
}

fn of_links(snapshot: &Snapshot) -> Vec<Family> {
    let simple = |family: Family, counter: &str| family.with_counter(snapshot, counter, []);
    let mut links = Family::gauge("rdma_sock_links", "Present links, by their state");
    for state in ["forming", "active", "inactive", "dead"] {
        let is = |link: &&crate::snapshot::Link| link.state.as_deref() == Some(state);
        let count = snapshot.links.iter().filter(is).count();
        links = links.with([("state", state)], u64::try_from(count).unwrap_or(u64::MAX));
    }
    let mut usable = Family::gauge(
        "rdma_sock_device_usable",
        "Whether the module can use the port of the RDMA device (1 or 0)",
    );
    for device in &snapshot.devices {
        let port = device.port.unwrap_or_default().to_string();
        let labels = [
            ("device", device.dev.as_deref().unwrap_or("")),
            ("port", &port),
            ("netdev", device.netdev.as_deref().unwrap_or("")),
        ];
        usable = usable.with(labels, (device.usable == Some(true)).into());
    }
    vec![
        simple(
            Family::gauge("rdma_sock_link_groups", "Present link groups"),
            "link_groups",
        ),
        simple(
            Family::gauge(
                "rdma_sock_forming_link_groups",
                "Present link groups in first contact",
            ),
            "forming_groups",
        ),
        simple(
            Family::counter("rdma_sock_link_groups_ended", "Link groups that ended"),
            "groups_ended",
        ),
        links,
        Family::counter("rdma_sock_links_down", "Links that went down, by the cause")
            .with_beginning(snapshot, "link_down_", "cause"),
        usable,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::sample;

    fn values(name: &str) -> Vec<(String, u64)> {
        let families = of(&sample::snapshot());
        let family = families.iter().find(|family| family.name == name);
        let text = |(labels, value): &(Labels, u64)| {
            let words: Vec<&str> = labels.iter().map(|(_, word)| word.as_str()).collect();
            (words.join(","), *value)
        };
        family.unwrap().values.iter().map(text).collect()
    }

    fn value(name: &str, labels: &str) -> Option<u64> {
        let found = values(name).into_iter().find(|(words, _)| words == labels);
        found.map(|(_, value)| value)
    }

    #[test]
    fn sockets_are_counted_by_protocol_and_mode() {
        assert_eq!(value("rdma_sock_connections", "smc,smc"), Some(1));
        assert_eq!(value("rdma_sock_connections", "smc,tcp"), Some(1));
        assert_eq!(value("rdma_sock_connections", "smc,listen"), Some(1));
        assert_eq!(value("rdma_sock_connections", "sdp,sdp"), Some(0));
    }

    #[test]
    fn counters_of_both_protocols_get_labels() {
        assert_eq!(value("rdma_sock_established", "smc,client"), Some(3));
        assert_eq!(value("rdma_sock_established", "sdp,client"), Some(0));
        let payload = "rdma_sock_rdma_payload_bytes";
        assert_eq!(value(payload, "smc,sent"), Some(64 << 20));
        let reason = "sdp,0x7f000108,peer host has no SDP";
        assert_eq!(value("rdma_sock_fallback_reasons", reason), Some(4));
        assert_eq!(value("rdma_sock_links_down", "smc,device_removed"), Some(1));
    }

    #[test]
    fn counter_that_the_module_lacks_has_no_value() {
        assert!(values("rdma_sock_orphans").is_empty());
    }

    #[test]
    fn names_are_those_of_one_namespace_and_unique() {
        let families = of(&sample::snapshot());
        let mut names: Vec<&str> = families.iter().map(|family| family.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| name.starts_with("rdma_sock_")));
        assert!(
            names.iter().all(|name| !name.ends_with("_total")),
            "the encoder adds it"
        );
    }
}
