// SPDX-License-Identifier: GPL-2.0

//! What the live view knows: the last snapshot, rates, and the choices of the user.
//!
//! The model reads no file and no clock: snapshots and keys come in, rows come out.

use std::{
    collections::HashMap,
    time::Duration, //
};

use super::{
    history::History,
    rates::Rates,
    sort::SortKey, //
};
use crate::snapshot::{
    Connection,
    Link,
    Snapshot, //
};

/// Number of values behind the large curves, and behind the small ones.
const LONG: usize = 256;
const SHORT: usize = 16;

/// Counters of all connections, by their direction.
const TOTALS: [[&str; 2]; 3] = [
    ["tx_bytes", "sdp_tx_bytes"],
    ["rx_bytes", "sdp_rx_bytes"],
    ["tcp_payload_bytes", "sdp_tcp_payload_bytes"],
];

/// What stays the same of a connection.
type Key = (u64, Option<String>);

/// The counters that have rates.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Counter {
    Sent(Key),
    Received(Key),
    Tcp(Key),
    Written(String, u64),
    Total(usize),
}

/// A connection with its rates.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The connection.
    pub(super) conn: Connection,
    /// Payload sent by RDMA, in bytes per second.
    pub(super) sent: u64,
    /// Payload received by RDMA, in bytes per second.
    pub(super) received: u64,
    /// Payload over TCP in both directions, in bytes per second.
    pub(super) tcp: u64,
    /// All of it, over the last rounds.
    pub(super) history: History,
}

impl Row {
    /// All payload, in bytes per second.
    pub(super) fn rate(&self) -> u64 {
        self.sent
            .saturating_add(self.received)
            .saturating_add(self.tcp)
    }

    fn key(&self) -> Key {
        key(&self.conn)
    }
}

/// A link with its rate.
#[derive(Clone, Debug)]
pub(super) struct LinkRow {
    /// The link.
    pub(super) link: Link,
    /// Bytes in RDMA writes, per second.
    pub(super) written: u64,
}

/// What covers the tables.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Popup {
    /// Nothing.
    #[default]
    None,
    /// The keys.
    Help,
    /// Why the selected connection is TCP.
    Explain,
}

/// Everything that the view shows.
#[derive(Debug)]
pub(super) struct Model {
    /// The last snapshot.
    pub(super) snapshot: Snapshot,
    /// One line on acceleration; none if this user may not see it.
    pub(super) acceleration: Option<String>,
    /// Bytes per second of all connections: sent and received by RDMA, and over TCP.
    pub(super) totals: [History; 3],
    /// Links with their rates.
    pub(super) links: Vec<LinkRow>,
    /// The column that connections are sorted by.
    pub(super) sort: SortKey,
    /// The order is reversed.
    pub(super) reverse: bool,
    /// Connections without this text are hidden.
    pub(super) filter: String,
    /// Keys change the filter.
    pub(super) editing: bool,
    /// Snapshots are not shown.
    pub(super) paused: bool,
    /// What covers the tables.
    pub(super) popup: Popup,
    /// The last snapshot failed for this reason.
    pub(super) error: Option<String>,
    rows: Vec<Row>,
    selected: Option<Key>,
    rates: Rates<Counter>,
}

impl Model {
    /// Makes a model before the first snapshot.
    pub(super) fn new(sort: SortKey, filter: String) -> Self {
        Self {
            snapshot: Snapshot::default(),
            acceleration: None,
            totals: [(); 3].map(|()| History::new(LONG)),
            links: Vec::new(),
            sort,
            reverse: false,
            filter,
            editing: false,
            paused: false,
            popup: Popup::None,
            error: None,
            rows: Vec::new(),
            selected: None,
            rates: Rates::new(),
        }
    }

    /// Takes a snapshot, and the time since the last one.
    pub(super) fn update(&mut self, snapshot: Snapshot, elapsed: Option<Duration>) {
        self.error = None;
        self.rates.begin(elapsed);
        for (index, (history, names)) in self.totals.iter_mut().zip(TOTALS).enumerate() {
            let values = names.map(|name| snapshot.statistics.count(name));
            let rate = self.rates.note(Counter::Total(index), values.iter().sum());
            if elapsed.is_some() {
                history.push(rate);
            }
        }
        let mut histories: HashMap<Key, History> = self
            .rows
            .drain(..)
            .map(|row| (row.key(), row.history))
            .collect();
        for conn in &snapshot.connections {
            let key = key(conn);
            let mut rate = |counter: fn(Key) -> Counter, value: Option<u64>| {
                self.rates
                    .note(counter(key.clone()), value.unwrap_or_default())
            };
            let mut row = Row {
                conn: conn.clone(),
                sent: rate(Counter::Sent, conn.tx_bytes),
                received: rate(Counter::Received, conn.rx_bytes),
                tcp: rate(Counter::Tcp, conn.tcp_bytes),
                history: histories
                    .remove(&key)
                    .unwrap_or_else(|| History::new(SHORT)),
            };
            row.history.push(row.rate());
            self.rows.push(row);
        }
        self.links = Vec::new();
        for link in &snapshot.links {
            let group = link.lgr.clone().unwrap_or_default();
            let counter = Counter::Written(group, link.link.unwrap_or_default());
            self.links.push(LinkRow {
                link: link.clone(),
                written: self
                    .rates
                    .note(counter, link.write_bytes.unwrap_or_default()),
            });
        }
        self.snapshot = snapshot;
    }

    /// The connections that the filter shows, in their order.
    pub(super) fn visible(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| self.shows(row)).collect();
        rows.sort_by(|one, other| self.sort.compare(one, other));
        if self.reverse {
            rows.reverse();
        }
        rows
    }

    fn shows(&self, row: &Row) -> bool {
        let wanted = self.filter.to_lowercase();
        let conn = &row.conn;
        let fields = [&conn.mode, &conn.proto, &conn.local, &conn.peer, &conn.dev]
            .map(|field| field.clone().unwrap_or_default());
        let names = conn
            .processes
            .iter()
            .map(|process| format!("{} {}", process.pid, process.name));
        let mut texts = fields.into_iter().chain(names).chain([conn.why_tcp()]);
        wanted.is_empty() || texts.any(|text| text.to_lowercase().contains(&wanted))
    }

    /// The place of the selected connection among the visible ones.
    pub(super) fn selected_place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.visible().iter().position(|row| row.key() == *selected)
    }

    /// The selected connection.
    pub(super) fn selected(&self) -> Option<&Connection> {
        let place = self.selected_place()?;
        Some(&self.visible().get(place)?.conn)
    }

    /// Moves the selection down by this many connections, or up. The first move selects the first.
    pub(super) fn select(&mut self, by: isize) {
        let visible = self.visible();
        let last = visible.len().saturating_sub(1);
        let place = match self.selected_place() {
            Some(place) => place.saturating_add_signed(by).min(last),
            None => 0,
        };
        self.selected = visible.get(place).map(|row| row.key());
    }
}

fn key(conn: &Connection) -> Key {
    (conn.ino.unwrap_or_default(), conn.peer.clone())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::snapshot::sample;

    /// The samples, and a second later 1 MiB more sent, and 1 KiB more over TCP.
    pub(crate) fn model() -> Model {
        let mut model = Model::new(SortKey::default(), String::new());
        let first = sample::snapshot();
        let mut second = first.clone();
        second.connections[0].tx_bytes = Some((64 << 20) + (1 << 20));
        second.connections[1].tcp_bytes = Some(2048 + 1024);
        second.links[0].write_bytes = Some((64 << 20) + (2 << 20));
        let counters = &mut second.statistics.counters;
        counters.insert("tx_bytes".into(), ((64u64 << 20) + (1 << 20)).into());
        counters.insert("tcp_payload_bytes".into(), (2048u64 + 1024).into());
        model.update(first, None);
        model.update(second, Some(Duration::from_secs(1)));
        model
    }

    fn programs(model: &Model) -> Vec<String> {
        let visible = model.visible();
        let name = |row: &&Row| format!("{} {}", row.conn.program(), row.conn.pid_text());
        visible.iter().map(name).collect()
    }

    #[test]
    fn rates_come_from_two_snapshots() {
        let model = model();
        let rows = model.visible();
        assert_eq!(rows[0].sent, 1 << 20);
        assert_eq!((rows[1].tcp, rows[1].rate()), (1024, 1024));
        assert_eq!(model.links[0].written, 2 << 20);
        let totals: Vec<u64> = model.totals.iter().map(History::last).collect();
        assert_eq!(totals, [1 << 20, 0, 1024]);
    }

    #[test]
    fn order_follows_the_key_and_its_direction() {
        let mut model = model();
        assert_eq!(programs(&model), ["curl 900", "nginx 31", "nginx 30+1"]);
        model.sort = SortKey::Pid;
        assert_eq!(programs(&model), ["nginx 30+1", "nginx 31", "curl 900"]);
        model.reverse = true;
        assert_eq!(programs(&model), ["curl 900", "nginx 31", "nginx 30+1"]);
        model.sort = SortKey::Tcp;
        assert_eq!(programs(&model)[2], "nginx 31");
    }

    #[test]
    fn filter_hides_connections_without_its_text() {
        let mut model = model();
        for (filter, count) in [
            ("NGINX", 2),
            ("900", 1),
            ("indicate", 1),
            ("rxe0", 1),
            ("x", 3),
        ] {
            model.filter = filter.into();
            assert_eq!(model.visible().len(), count, "{filter}");
        }
        model.filter = "absent".into();
        assert!(model.visible().is_empty());
        model.select(1);
        assert!(model.selected().is_none());
    }

    #[test]
    fn selection_follows_its_connection() {
        let mut model = model();
        assert!(model.selected().is_none());
        model.select(1);
        assert_eq!(model.selected().unwrap().program(), "curl");
        model.select(5);
        assert_eq!(model.selected_place(), Some(2));
        model.select(-1);
        assert_eq!(model.selected().unwrap().ino, Some(12346));
        model.reverse = true;
        assert_eq!(model.selected().unwrap().ino, Some(12346));
        model.filter = "curl".into();
        assert!(model.selected().is_none(), "hidden");
    }

    #[test]
    fn connection_that_ended_is_no_longer_shown() {
        let mut model = model();
        model.select(1);
        model.update(Snapshot::default(), Some(Duration::from_secs(1)));
        assert!(model.visible().is_empty());
        assert!(model.selected().is_none());
        assert_eq!(model.totals[0].last(), 0, "the module was unloaded");
    }
}
