// SPDX-License-Identifier: GPL-2.0

//! `rdma-sock explain`: why a connection is TCP, and what to do about it.
//!
//! ```text
//!   subject.rs    the argument: a PID, a port or a reason
//!   table.rs      meaning of and advice for each reason of the module
//!   finding.rs    the answers
//!   plain.rs      TCP sockets that are none of the module
//! ```

mod finding;
mod plain;
mod subject;
mod table;

use anstream::adapter::strip_str;
use anyhow::{
    bail,
    Result, //
};
use serde::Serialize;

use crate::{
    cli::ExplainArgs,
    output::{
        self,
        Table, //
    },
    snapshot::{
        reason,
        Connection,
        Snapshot,
        Sources, //
    },
};
use finding::Finding;
pub(crate) use subject::Subject;

const SCHEMA_VERSION: u32 = 1;

/// Everything that `explain --json` prints. `Documentation/schema/explain.json` is its schema.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Explanation {
    /// Version of this format.
    schema_version: u32,
    /// The answers.
    findings: Vec<Finding>,
}

impl Explanation {
    /// The answers for a subject, or for all connections over TCP.
    fn find(sources: &Sources, subject: Option<Subject>) -> Result<Self> {
        let findings = match subject {
            Some(Subject::Reason(code)) => vec![Finding::of_reason(code)],
            _ => {
                let snapshot = Snapshot::take(sources)?;
                of_connections(sources, &snapshot, subject)?
            }
        };
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            findings,
        })
    }

    /// The meaning of all reasons.
    fn of_all_reasons() -> Self {
        let codes = table::TABLE.iter().map(|words| words.reason.code());
        Self {
            schema_version: SCHEMA_VERSION,
            findings: codes.map(Finding::of_reason).collect(),
        }
    }

    fn text(&self, width: usize) -> String {
        if self.findings.is_empty() {
            return "no connection of the module uses TCP\n".into();
        }
        let texts: Vec<String> = self
            .findings
            .iter()
            .map(|finding| finding.text(width))
            .collect();
        texts.join("\n")
    }
}

/// The answers for the connections that a subject names.
fn of_connections(
    sources: &Sources,
    snapshot: &Snapshot,
    subject: Option<Subject>,
) -> Result<Vec<Finding>> {
    let (pid, port) = match subject {
        Some(Subject::Pid(pid)) => (Some(pid), None),
        Some(Subject::Port(port)) => (None, Some(port)),
        Some(Subject::Number(number)) => (Some(number), u16::try_from(number).ok()),
        Some(Subject::Reason(_)) | None => (None, None),
    };
    let named = |conn: &&Connection| {
        let by_pid = conn.processes.iter().any(|found| Some(found.pid) == pid);
        let by_port = port.is_some() && (conn.local_port() == port || conn.peer_port() == port);
        match subject {
            None => conn.is("tcp"),
            Some(_) => by_pid || by_port,
        }
    };
    let mut findings = Finding::of_all(snapshot.connections.iter().filter(named));
    if !snapshot.module.loaded {
        findings.insert(0, Finding::of_absent_module());
    }
    if subject.is_none()
        || findings
            .iter()
            .any(|finding| !finding.connections.is_empty())
    {
        return Ok(findings);
    }
    let process = pid.and_then(|pid| plain::of_process(sources, pid));
    let mut sockets = port.map_or(Vec::new(), |port| plain::of_port(sources, port));
    let known = process.is_some();
    sockets.extend(process.filter(|process| process.count > 0));
    findings.extend(sockets.iter().map(Finding::of_plain));
    if !findings.is_empty() {
        return Ok(findings);
    }
    match subject {
        Some(Subject::Port(port)) => bail!(
            "no TCP socket in this network namespace has the port {port}: `rdma-sock status` lists \
             the module's sockets"
        ),
        _ if known => bail!("the process {} has no TCP socket", pid.unwrap_or_default()),
        Some(Subject::Pid(pid)) => {
            bail!("no process {pid}, or one of another user: root sees the sockets of all")
        }
        _ => bail!(
            "no process and no TCP socket with the port {}; processes of other users need root",
            pid.unwrap_or_default()
        ),
    }
}

/// The answer for one connection, without colours, in lines of this width.
pub(crate) fn text_of(conn: &Connection, width: usize) -> String {
    let findings = Finding::of_all([conn].into_iter());
    let texts = findings.iter().map(|finding| finding.text(width));
    strip_str(&texts.collect::<String>()).to_string()
}

/// The likeliest remedy for a reason, given by its code as text.
pub(crate) fn first_advice(code: &str) -> &'static str {
    let words = table::find(reason::parse_code(code).unwrap_or_default());
    words.advice.first().copied().unwrap_or_default()
}

/// The meaning of a reason.
pub(crate) fn meaning(code: u32) -> &'static str {
    table::find(code).meaning
}

/// A table of the reasons.
fn list() -> String {
    let mut table = Table::new(&["REASON", "NAME"]);
    for words in table::TABLE {
        table.row([
            reason::text(words.reason.code()),
            words.reason.name().to_string(),
        ]);
    }
    table.render()
}

/// Prints the answers.
pub(crate) fn print(args: &ExplainArgs) -> Result<()> {
    let sources = Sources::of_this_machine();
    match (args.list, args.json) {
        (true, true) => output::print_json(&Explanation::of_all_reasons()),
        (true, false) => output::print(&list()),
        (false, json) => {
            let explanation = Explanation::find(&sources, args.subject)?;
            match json {
                true => output::print_json(&explanation),
                false => output::print(&explanation.text(textwrap::termwidth())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        schema,
        snapshot::sample, //
    };
    use finding::Kind;
    use std::fs;

    fn explain(subject: Option<Subject>) -> Result<Explanation> {
        let root = tempfile::tempdir().unwrap();
        let sources = sample::write(root.path());
        Explanation::find(&sources, subject)
    }

    fn kinds(explanation: &Explanation) -> Vec<(Kind, usize)> {
        let findings = explanation.findings.iter();
        findings
            .map(|finding| (finding.kind, finding.connections.len()))
            .collect()
    }

    #[test]
    fn without_a_subject_connections_over_tcp_are_explained() {
        let explanation = explain(None).unwrap();
        assert_eq!(kinds(&explanation), [(Kind::Tcp, 1)]);
        let text = output::plain(&explanation.text(80));
        let expected = "\
peer did not indicate SMC  0x03010000
  nginx (PID 31): [2001:db8:0:0:0:0:0:2]:80 from [2001:db8:0:0:0:0:0:1]:1234
     The TCP handshake of the peer did not offer SMC-R.";
        assert!(text.starts_with(expected), "{text}");
        assert!(
            text.contains("\n  1. Load the module on the peer"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn pid_and_port_name_their_connections_and_tcp_comes_first() {
        let of = |subject| kinds(&explain(Some(subject)).unwrap());
        let nginx = [(Kind::Tcp, 1), (Kind::Listen, 1)];
        assert_eq!(of(Subject::Pid(31)), nginx);
        assert_eq!(of(Subject::Number(31)), nginx);
        assert_eq!(of(Subject::Pid(900)), [(Kind::Rdma, 1)]);
        assert_eq!(of(Subject::Port(40000)), [(Kind::Rdma, 1)]);
        let port = [(Kind::Tcp, 1), (Kind::Rdma, 1), (Kind::Listen, 1)];
        assert_eq!(of(Subject::Number(80)), port);
    }

    #[test]
    fn reason_needs_no_connection() {
        let explanation = explain(Some(Subject::Reason(0x0202_0000))).unwrap();
        assert_eq!(kinds(&explanation), [(Kind::Reason, 0)]);
        assert_eq!(explanation.findings[0].code.as_deref(), Some("0x02020000"));
    }

    #[test]
    fn program_without_sockets_of_the_module_is_not_accelerated() {
        let root = tempfile::tempdir().unwrap();
        let sources = sample::write(root.path());
        let folder = sources.proc.join("31");
        fs::write(sources.proc.join("net/rdma_sock/conns"), "").unwrap();
        fs::create_dir(folder.join("net")).unwrap();
        let heading =
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                       uid  timeout inode\n";
        let line =
            "   0: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     \
                    0        0 12347 1 0000000000000000 100 0 0 10 0\n";
        fs::write(folder.join("net/tcp"), format!("{heading}{line}")).unwrap();
        fs::write(folder.join("net/tcp6"), heading).unwrap();
        let explanation = Explanation::find(&sources, Some(Subject::Pid(31))).unwrap();
        assert_eq!(kinds(&explanation), [(Kind::Plain, 0)]);
        let text = output::plain(&explanation.text(80));
        assert!(text.contains("1 plain TCP socket and none"), "{text}");
        assert!(text.contains("rdma-sock accel on --comm nginx"), "{text}");
    }

    #[test]
    fn subject_without_sockets_gets_an_error() {
        let error = |subject| format!("{:#}", explain(Some(subject)).unwrap_err());
        assert!(error(Subject::Port(9)).contains("no TCP socket"));
        assert!(error(Subject::Pid(77)).contains("no process 77"));
        assert!(error(Subject::Number(77)).contains("no process and no TCP socket"));
    }

    #[test]
    fn absent_module_is_the_first_answer() {
        let root = tempfile::tempdir().unwrap();
        let sources = Sources::below(root.path());
        for subject in [None, Some(Subject::Number(80))] {
            let explanation = Explanation::find(&sources, subject).unwrap();
            assert_eq!(kinds(&explanation), [(Kind::Module, 0)]);
        }
    }

    #[test]
    fn json_has_the_schema_of_the_documentation() {
        let json = |explanation: &Explanation| serde_json::to_value(explanation).unwrap();
        let values = [
            json(&explain(None).unwrap()),
            json(&explain(Some(Subject::Number(80))).unwrap()),
            json(&Explanation::of_all_reasons()),
        ];
        schema::check::<Explanation>("explain", &values);
    }

    #[test]
    fn list_has_a_line_for_each_reason() {
        assert_eq!(list().lines().count(), 1 + table::TABLE.len());
    }
}
