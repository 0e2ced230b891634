// SPDX-License-Identifier: GPL-2.0

//! Answers of `explain`, and which answer a connection gets.

use serde::Serialize;

use super::{
    plain::PlainSockets,
    table, //
};
use crate::{
    module,
    output::{
        counted,
        paint,
        style, //
    },
    snapshot::{
        reason,
        Connection, //
    },
};

/// Widest line of the text.
const WIDEST: usize = 100;

/// What kind of answer it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// The connections use RDMA.
    Rdma,
    /// The sockets listen.
    Listen,
    /// The handshake of the connections is still running.
    Pending,
    /// The connections use TCP for a reason.
    Tcp,
    /// The program has plain TCP sockets, none of the module.
    Plain,
    /// The module is not loaded.
    Module,
    /// A reason, without a connection.
    Reason,
}

/// One answer, with the connections that it is about.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Finding {
    /// What kind of answer it is.
    pub(super) kind: Kind,
    /// The answer in a few words.
    pub(super) title: String,
    /// Code of the reason for TCP, like "0x03010000".
    pub(super) code: Option<String>,
    /// What it means.
    pub(super) meaning: String,
    /// What to check or change, the likeliest first.
    pub(super) advice: Vec<String>,
    /// The connections.
    pub(super) connections: Vec<Connection>,
}

impl Finding {
    /// The answer for a reason.
    pub(super) fn of_reason(code: u32) -> Self {
        let words = table::find(code);
        Self {
            kind: Kind::Reason,
            title: reason::name(code).into(),
            code: Some(reason::text(code)),
            meaning: words.meaning.into(),
            advice: words.advice.iter().map(|step| step.to_string()).collect(),
            connections: Vec::new(),
        }
    }

    /// The answer for a program without sockets of the module.
    pub(super) fn of_plain(sockets: &PlainSockets) -> Self {
        let name = &sockets.program.name;
        let count = counted(sockets.count, "plain TCP socket");
        let meaning = format!(
            "{name} (PID {}) has {count} and none of the module, so it was not accelerated when it \
             made them.",
            sockets.program.pid
        );
        Self::new(
            Kind::Plain,
            "the program is not accelerated",
            &meaning,
            vec![
                format!(
                    "Select it (`rdma-sock accel on --comm {}`), and restart it.",
                    quoted(name)
                ),
                "Or start it by `rdma-sock run CMD`.".into(),
                "`rdma-sock accel status` shows the selectors, with the number of their sockets."
                    .into(),
            ],
        )
    }

    /// The answer while the module is not loaded.
    pub(super) fn of_absent_module() -> Self {
        Self::new(
            Kind::Module,
            "the module is not loaded",
            "Without the module, all sockets are plain TCP.",
            vec![
                format!("Load it: `modprobe {}`.", module::RDMA_SOCK),
                "`rdma-sock doctor` checks the rest of the machine.".into(),
            ],
        )
    }

    fn new(kind: Kind, title: &str, meaning: &str, advice: Vec<String>) -> Self {
        Self {
            kind,
            title: title.into(),
            code: None,
            meaning: meaning.into(),
            advice,
            connections: Vec::new(),
        }
    }

    /// The answer for a connection.
    fn of(conn: &Connection) -> Self {
        if conn.uses_rdma() {
            let proto = if conn.is("sdp") { "SDP" } else { "SMC-R" };
            let dev = conn.dev.as_deref().unwrap_or("unknown");
            let meaning = match &conn.lgr {
                Some(group) => format!("{proto} carries it over {dev}, in link group {group}."),
                None => format!("{proto} carries it over {dev}."),
            };
            return Self::new(Kind::Rdma, "uses RDMA", &meaning, Vec::new());
        }
        if conn.is("listen") {
            let meaning =
                "It offers RDMA to each client. A client that does not ask for it uses TCP, \
                           and then appears as a connection of its own.";
            return Self::new(Kind::Listen, "listens", meaning, Vec::new());
        }
        if conn.is("pending") {
            let meaning = "The hosts still negotiate. It takes at most a few seconds.";
            return Self::new(Kind::Pending, "is in the handshake", meaning, Vec::new());
        }
        match conn.reason_code() {
            Some(code) => Self {
                kind: Kind::Tcp,
                title: conn.why_tcp(),
                ..Self::of_reason(code)
            },
            None => Self::new(
                Kind::Tcp,
                "uses TCP, for no known reason",
                "The module recorded no reason for it.",
                vec!["`rdma-sock status` counts the reasons of this network namespace.".into()],
            ),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.kind, &self.title, &self.meaning) == (other.kind, &other.title, &other.meaning)
    }

    /// The answers for some connections: those alike share one, TCP first and
    /// listeners last.
    pub(super) fn of_all<'a>(connections: impl Iterator<Item = &'a Connection>) -> Vec<Self> {
        let mut findings: Vec<Self> = Vec::new();
        for conn in connections {
            let new = Self::of(conn);
            match findings.iter_mut().find(|finding| finding.is_like(&new)) {
                Some(finding) => finding.connections.push(conn.clone()),
                None => findings.push(Self {
                    connections: vec![conn.clone()],
                    ..new
                }),
            }
        }
        findings.sort_by_key(|finding| match finding.kind {
            Kind::Tcp => 0,
            Kind::Pending => 1,
            Kind::Rdma => 2,
            _ => 3,
        });
        findings
    }

    /// The answer for people, in lines of this width.
    pub(super) fn text(&self, width: usize) -> String {
        let style = match self.kind {
            Kind::Rdma => style::GOOD,
            Kind::Tcp | Kind::Plain => style::WARNING,
            Kind::Module => style::BAD,
            _ => style::HEADING,
        };
        let mut text = paint(style, &self.title);
        if let Some(code) = &self.code {
            text.push_str(&format!("  {}", paint(style::DIM, code)));
        }
        text.push('\n');
        for conn in &self.connections {
            text.push_str(&format!("  {}\n", name_of(conn)));
        }
        let mut paragraph = |first: &str, words: &str| {
            let options = textwrap::Options::new(width.min(WIDEST))
                .initial_indent(first)
                .subsequent_indent("     ");
            text.push_str(&textwrap::fill(words, options));
            text.push('\n');
        };
        paragraph("     ", &self.meaning);
        for (number, step) in (1..).zip(&self.advice) {
            paragraph(&format!("  {number}. "), step);
        }
        text
    }
}

/// A name as a word of the shell. A program chooses its name, and a user may copy the command.
fn quoted(name: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_.+@:/".contains(c);
    match !name.is_empty() && name.chars().all(harmless) {
        true => name.into(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}

/// A connection in one line.
fn name_of(conn: &Connection) -> String {
    let program = match conn.processes.first() {
        Some(first) => format!("{} (PID {})", first.name, first.pid),
        None => "a program that this user may not see".into(),
    };
    let local = conn.local.as_deref().unwrap_or("?");
    let peer = conn.peer.as_deref().unwrap_or("?");
    match (conn.is("listen"), conn.role.as_deref()) {
        (true, _) => format!("{program}: {local}"),
        (false, Some("server")) => format!("{program}: {local} from {peer}"),
        (false, _) => format!("{program}: {local} to {peer}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_the_shell_would_read_is_quoted() {
        for (name, word) in [
            ("nginx", "nginx"),
            ("redis-server", "redis-server"),
            ("a b", "'a b'"),
            ("x;reboot", "'x;reboot'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(name), word);
        }
    }
}
