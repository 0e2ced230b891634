// SPDX-License-Identifier: GPL-2.0

//! Sockets of TCP that are none of the module: why nothing is listed for a program.

use procfs::{
    net::TcpNetEntry,
    process::{
        FDTarget,
        Process, //
    },
};
use std::{
    collections::HashSet,
    process, //
};

use crate::snapshot::{
    self,
    Owners,
    Sources, //
};

/// The plain TCP sockets of one program.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct PlainSockets {
    /// The program.
    pub(super) program: snapshot::Process,
    /// Number of its TCP sockets.
    pub(super) count: usize,
}

/// The TCP sockets of a process; `None` if there is no such process, or this user may not see them.
pub(super) fn of_process(sources: &Sources, pid: u32) -> Option<PlainSockets> {
    let process = Process::new_with_root(sources.proc.join(pid.to_string())).ok()?;
    let name = process.stat().ok()?.comm;
    let tcp: HashSet<u64> = table(&process).iter().map(|entry| entry.inode).collect();
    let mut open = HashSet::new();
    for fd in process.fd().ok()?.flatten() {
        match fd.target {
            FDTarget::Socket(inode) if tcp.contains(&inode) => {
                open.insert(inode);
            }
            _ => {}
        }
    }
    Some(PlainSockets {
        program: snapshot::Process::new(pid, &name),
        count: open.len(),
    })
}

/// The programs with TCP sockets of a port in this network namespace.
pub(super) fn of_port(sources: &Sources, port: u16) -> Vec<PlainSockets> {
    let own = sources.proc.join(process::id().to_string());
    let Ok(own) = Process::new_with_root(own) else {
        return Vec::new();
    };
    let inodes = table(&own)
        .iter()
        .filter(|entry| entry.local_address.port() == port || entry.remote_address.port() == port)
        .map(|entry| entry.inode)
        // The kernel prints 0 for sockets that no program has.
        .filter(|inode| *inode != 0)
        .collect();
    let owners = Owners::find(&sources.proc, &inodes);
    let mut found: Vec<PlainSockets> = Vec::new();
    for program in inodes.iter().flat_map(|inode| owners.of(*inode)) {
        match found.iter_mut().find(|entry| entry.program == *program) {
            Some(entry) => entry.count += 1,
            None => found.push(PlainSockets {
                program: program.clone(),
                count: 1,
            }),
        }
    }
    found.sort_by_key(|entry| entry.program.pid);
    found
}

/// The TCP sockets in the network namespace of a process.
fn table(process: &Process) -> Vec<TcpNetEntry> {
    let mut entries = process.tcp().unwrap_or_default();
    entries.extend(process.tcp6().unwrap_or_default());
    entries
}
