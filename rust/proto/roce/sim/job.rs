// SPDX-License-Identifier: GPL-2.0

//! Work of an application, and how it comes about.

use crate::proto::{
    base::verbs::RKey,
    roce::{
        header::{
            AtomicEth,
            Feth,
            Reth, //
        },
        packet::Extensions,
        work::{
            Work,
            WorkKind, //
        },
    },
    sim::Rng, //
};

/// Address of the memory of each node.
pub(super) const BASE: u64 = 0x7f00_0000_1000;
/// Its octets.
pub(super) const MEMORY: u32 = 8192;
/// The key that gives all rights.
pub(super) const KEY: RKey = RKey::new(0x1234_5601);
/// Octets of a receive buffer.
pub(super) const RECEIVE: u32 = 4096;

/// A send work request with everything that the engine needs for it.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The request.
    pub(super) work: Work,
    /// Source of SEND, WRITE and ATOMIC WRITE.
    pub(super) source: Vec<u8>,
    /// The data of a READ, or the previous value of an atomic operation.
    pub(super) sink: Vec<u8>,
    /// Offset in the memory of the peer.
    pub(super) offset: u32,
    /// Key of that memory.
    pub(super) rkey: RKey,
    /// Immediate data.
    pub(super) imm: [u8; 4],
    /// Key that the peer invalidates.
    pub(super) invalidate: RKey,
    /// New value, or the number to add.
    pub(super) swap_add: u64,
    /// Expected value of CMP SWAP.
    pub(super) compare: u64,
    /// Offset of the part of the source that cannot be read, or of the sink that cannot be written.
    pub(super) fault_at: Option<u32>,
}

impl Job {
    /// Address in the memory of the peer.
    pub(super) fn vaddr(&self) -> u64 {
        BASE + u64::from(self.offset)
    }

    /// The extension headers of the whole message, or of the rest of a READ from `skipped` on.
    pub(super) fn extensions(&self, skipped: u32) -> Extensions {
        let kind = self.work.kind;
        let reth = Reth {
            vaddr: self.vaddr() + u64::from(skipped),
            rkey: self.rkey,
            len: self.work.len - skipped,
        };
        Extensions {
            reth: matches!(
                kind,
                WorkKind::Write
                    | WorkKind::WriteImm
                    | WorkKind::Read
                    | WorkKind::AtomicWrite
                    | WorkKind::Flush
            )
            .then_some(reth),
            atomic: kind.is_atomic().then_some(AtomicEth {
                vaddr: self.vaddr(),
                rkey: self.rkey,
                swap_add: self.swap_add,
                compare: self.compare,
            }),
            feth: (kind == WorkKind::Flush).then_some(Feth {
                placement: Feth::GLOBAL,
                level: Feth::RANGE,
            }),
            imm: matches!(kind, WorkKind::SendImm | WorkKind::WriteImm).then_some(self.imm),
            invalidate: (kind == WorkKind::SendInv).then_some(self.invalidate),
            ..Extensions::default()
        }
    }

    /// Whether it changes the memory of the peer.
    fn writes(&self) -> bool {
        matches!(
            self.work.kind,
            WorkKind::Write
                | WorkKind::WriteImm
                | WorkKind::AtomicWrite
                | WorkKind::CompareSwap
                | WorkKind::FetchAdd
        )
    }

    /// Whether it consumes a receive buffer.
    pub(super) fn consumes_receive(&self) -> bool {
        matches!(
            self.work.kind,
            WorkKind::Send | WorkKind::SendImm | WorkKind::SendInv | WorkKind::WriteImm
        )
    }

    /// Whether the ranges of two jobs overlap.
    fn overlaps(&self, other: &Self) -> bool {
        self.offset < other.offset + other.work.len && other.offset < self.offset + self.work.len
    }

    /// A job of a kind, with random operands.
    pub(super) fn random(rng: &mut Rng, kind: WorkKind, len: u32) -> Self {
        let len = match kind {
            WorkKind::CompareSwap | WorkKind::FetchAdd | WorkKind::AtomicWrite => 8,
            _ if kind.is_local() => 0,
            _ => len,
        };
        let offset = match kind {
            WorkKind::CompareSwap | WorkKind::FetchAdd | WorkKind::AtomicWrite => {
                rng.bytes(0, MEMORY / 8 - 1) * 8
            }
            _ => rng.bytes(0, MEMORY - len),
        };
        Self {
            work: Work {
                kind,
                len,
                signaled: !rng.one_in(3),
                fence: rng.one_in(8),
                solicited: rng.one_in(4),
            },
            source: (0..len).map(|_| rng.next() as u8).collect(),
            sink: vec![0; len as usize],
            offset,
            rkey: KEY,
            imm: (rng.next() as u32).to_be_bytes(),
            invalidate: RKey::new(rng.next() as u32),
            swap_add: rng.next(),
            // Small, so that it is equal at times.
            compare: rng.range(0, 1),
            fault_at: None,
        }
    }
}

/// Work for one node. A job that changes memory which an earlier READ names is fenced, as the READ
/// may be executed again.
pub(super) fn jobs(rng: &mut Rng, count: u64, longest: u32) -> Vec<Job> {
    use WorkKind::*;
    let kinds = [
        Send,
        SendImm,
        SendInv,
        Write,
        WriteImm,
        Read,
        CompareSwap,
        FetchAdd,
        AtomicWrite,
        Flush,
        RegMr,
        LocalInv,
        BindMw,
        Write,
        Read,
        Send,
    ];
    let mut jobs: Vec<Job> = Vec::new();
    let mut reads: Vec<usize> = Vec::new();
    for _ in 0..count {
        let kind = rng.pick(&kinds);
        let len = rng.bytes(0, longest);
        let mut job = Job::random(rng, kind, len);
        if job.writes() && reads.iter().any(|&read| job.overlaps(&jobs[read])) {
            job.work.fence = true;
        }
        if job.work.fence {
            reads.clear();
        }
        if kind == Read {
            reads.push(jobs.len());
        }
        jobs.push(job);
    }
    jobs
}
