// SPDX-License-Identifier: GPL-2.0

//! The payer of buffers, and how much a namespace and the host may have.
//!
//! Buffers are charged to the memory cgroup of the socket they are for; that of a connection which no
//! program has accepted yet is the listener's. Of a cgroup they take a part only. Besides, each counts
//! against the limits of its network namespace and of the host. See decision 011.

use super::{
    connection::{
        Connection,
        Side, //
    },
    stats::NetState,
    sysctl::Settings,
    Engine, //
};
use crate::{
    kapi::mem::{
        cgroup::MemCgroup,
        region::PeerMemory,
        sendbuf::SendBuffer,
        OnFree, //
    },
    proto::quota::{
        fits,
        part_of_cgroup,
        Caps, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// How much of something there is. Any context.
pub(crate) struct Account(Atomic<u64>);

impl Account {
    /// Nothing yet. Sleeps.
    pub(super) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(Atomic::new(0u64)), GFP_KERNEL)?)
    }

    /// How much there is.
    pub(crate) fn used(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Adds `more`; `None` if that would exceed `most`.
    fn take(self: &Arc<Self>, more: u64, most: u64) -> Option<Share> {
        let share = self.take_anyway(more, most);
        share.is_within.then_some(share)
    }

    /// Adds `more`, and tells whether that exceeds `most`.
    fn take_anyway(self: &Arc<Self>, more: u64, most: u64) -> Share {
        let before = self.0.fetch_add(more, Relaxed);
        Share {
            account: self.clone(),
            amount: more,
            is_within: fits(before, more, most),
        }
    }
}

/// A part of an [`Account`], given back on drop. Any context.
pub(crate) struct Share {
    account: Arc<Account>,
    amount: u64,
    is_within: bool,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.account.0.fetch_sub(self.amount, Relaxed);
    }
}

/// A closed connection that still drains, as the namespace counts it.
pub(crate) struct Orphan(Share);

impl Orphan {
    /// Whether there are no more of them than the namespace may have.
    pub(crate) fn is_within_limit(&self) -> bool {
        self.0.is_within
    }
}

/// What there is of the buffers of a memory cgroup, from the first to the last of them.
pub(super) struct CgroupAccount {
    cgroup: MemCgroup,
    account: Arc<Account>,
}

/// The payer of the buffers of a connection.
#[derive(Clone)]
pub(crate) struct Payer {
    cgroup: MemCgroup,
    /// A share that keeps the account of the cgroup; `None` for the root.
    of_cgroup: Option<Arc<Share>>,
    net: Arc<NetState>,
    engine: Arc<Engine>,
}

impl Payer {
    /// The payer of a connection whose handshake is under way. Sleeps.
    ///
    /// # Errors
    ///
    /// `ECONNABORTED` when its listener is gone.
    pub(crate) fn of(connection: &Connection) -> Result<Self> {
        let cgroup = match connection.side {
            Side::Client => connection.sk.mem_cgroup(),
            Side::Server => {
                let listener = connection.listener.lock();
                let listener = listener.as_ref().ok_or(ECONNABORTED)?;
                listener.sk.mem_cgroup()
            }
        };
        let of_cgroup = match cgroup.is_root() {
            true => None,
            false => Some(connection.engine.join_cgroup(&cgroup)?),
        };
        Ok(Self {
            cgroup,
            of_cgroup,
            net: connection.net.clone(),
            engine: connection.engine.clone(),
        })
    }

    /// The cgroup that is charged.
    pub(crate) fn cgroup(&self) -> &MemCgroup {
        &self.cgroup
    }

    /// Counts octets against the limits of the cgroup, of the namespace and of the host.
    fn count(&self, bytes: usize) -> Result<OnFree> {
        let bytes = u64::try_from(bytes)?;
        let caps = self.engine.caps(&self.net.settings);
        let host = self.engine.buffers.take(bytes, caps.host_bytes);
        let net = self.net.buffers.take(bytes, caps.bytes);
        let (Some(host), Some(net)) = (host, net) else {
            return Err(ENOBUFS);
        };
        let most = part_of_cgroup(self.cgroup.limit());
        let cgroup = match self.of_cgroup.as_ref() {
            Some(member) => {
                let share = member.account.take(bytes, most);
                Some(share.ok_or(ENOBUFS)?)
            }
            None => None,
        };
        Ok(KBox::new((host, net, cgroup), GFP_KERNEL)?)
    }

    /// Memory that a peer writes. Sleeps.
    pub(crate) fn peer_memory(&self, elements: usize, bytes: usize) -> Result<Arc<PeerMemory>> {
        let all = elements.checked_mul(bytes).ok_or(EINVAL)?;
        PeerMemory::charged(elements, bytes, &self.cgroup, Some(self.count(all)?))
    }

    /// A send buffer. Sleeps.
    pub(crate) fn send_buffer(&self, bytes: usize) -> Result<Arc<SendBuffer>> {
        SendBuffer::charged(bytes, &self.cgroup, Some(self.count(bytes)?))
    }
}

impl Engine {
    /// Finds or makes the account of a cgroup, which stays while there is a share of it. Sleeps.
    fn join_cgroup(&self, cgroup: &MemCgroup) -> Result<Arc<Share>> {
        // So small that it does not matter.
        let join = |account: &Arc<Account>| Arc::new(account.take_anyway(1, u64::MAX), GFP_KERNEL);
        let mut cgroups = self.cgroups.lock();
        let known = cgroups.iter().find(|known| known.cgroup == *cgroup);
        if let Some(account) = known.map(|known| known.account.clone()) {
            return Ok(join(&account)?);
        }
        // Shares are only taken from a share, or here.
        cgroups.retain(|known| known.account.used() != 0);
        let account = Account::new()?;
        let share = join(&account)?;
        let new = CgroupAccount {
            cgroup: cgroup.clone(),
            account,
        };
        cgroups.push(new, GFP_KERNEL)?;
        Ok(share)
    }

    /// What holds for a namespace with these settings. Any context.
    pub(crate) fn caps(&self, settings: &Settings) -> Caps {
        settings.caps(&self.host)
    }
}

impl NetState {
    /// Counts a closed connection that still drains. Any context.
    pub(crate) fn count_orphan(&self, engine: &Engine) -> Orphan {
        let most = engine.caps(&self.settings).orphans;
        Orphan(self.orphans.take_anyway(1, most))
    }
}
