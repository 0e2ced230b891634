// SPDX-License-Identifier: GPL-2.0

//! The model: requests are executed at once, one after the other.

use super::job::Job;
use crate::proto::roce::work::WorkKind;

/// A receive buffer that the model completes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReceivedMessage {
    /// Octets of the message.
    pub(super) len: u32,
    /// Whether it was a WRITE.
    pub(super) write: bool,
    /// Immediate data.
    pub(super) imm: Option<[u8; 4]>,
    /// Key that was invalidated.
    pub(super) invalidated: Option<u32>,
    /// Whether the completion is solicited.
    pub(super) solicited: bool,
    /// Octets in the buffer.
    pub(super) data: Vec<u8>,
}

/// The results of all jobs of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct ExpectedResult {
    /// The peer's memory.
    pub(super) memory: Vec<u8>,
    /// The peer's receive buffers.
    pub(super) received: Vec<ReceivedMessage>,
    /// The sinks of the jobs.
    pub(super) sinks: Vec<Vec<u8>>,
}

/// Executes jobs on the memory of the peer.
pub(super) fn execute(jobs: &[Job], memory: &[u8]) -> ExpectedResult {
    let mut outcome = ExpectedResult {
        memory: memory.to_vec(),
        ..ExpectedResult::default()
    };
    for job in jobs {
        let range = job.offset as usize..(job.offset + job.work.len) as usize;
        let word = |memory: &[u8]| {
            let octets = memory[job.offset as usize..][..8].try_into().unwrap();
            u64::from_le_bytes(octets)
        };
        let mut sink = vec![0; job.work.len as usize];
        match job.work.kind {
            WorkKind::Write | WorkKind::WriteImm | WorkKind::AtomicWrite => {
                outcome.memory[range].copy_from_slice(&job.source);
            }
            WorkKind::Read => sink.copy_from_slice(&outcome.memory[range]),
            WorkKind::CompareSwap => {
                let original = word(&outcome.memory);
                if original == job.compare {
                    outcome.memory[range].copy_from_slice(&job.swap_add.to_le_bytes());
                }
                sink = original.to_le_bytes().to_vec();
            }
            WorkKind::FetchAdd => {
                let original = word(&outcome.memory);
                let sum = original.wrapping_add(job.swap_add);
                outcome.memory[range].copy_from_slice(&sum.to_le_bytes());
                sink = original.to_le_bytes().to_vec();
            }
            _ => {}
        }
        outcome.sinks.push(sink);
        if job.consumes_receive() {
            let ext = job.extensions(0);
            let write = job.work.kind == WorkKind::WriteImm;
            outcome.received.push(ReceivedMessage {
                len: job.work.len,
                write,
                imm: ext.imm,
                invalidated: ext.invalidate.map(|key| key.get()),
                solicited: job.work.solicited,
                data: if write {
                    Vec::new()
                } else {
                    job.source.clone()
                },
            });
        }
    }
    outcome
}
