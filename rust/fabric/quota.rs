// SPDX-License-Identifier: GPL-2.0

//! The payer of buffers, and how much a namespace and the host may have.
//!
//! Buffers are charged to the memory cgroup of the socket they are for; that of a connection which
//! no program has accepted yet is the listener's. Of a cgroup they take a part only. Besides, each
//! counts against the limits of its network namespace and of the host. See decision 011.

use super::account::{
    Account,
    AccountShare,
    Orphan, //
};
use crate::{
    kapi::{
        compat::errno::ENOBUFS,
        mem::{
            cgroup::MemCgroup,
            region::PeerMemory,
            OnFree, //
        },
        verbs::sendbuf::SendBuffer, //
    },
    proto::base::quota::{
        part_of_cgroup,
        Caps, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// What there is of the buffers of a memory cgroup, from the first to the last of them.
struct CgroupAccount {
    cgroup: MemCgroup,
    account: Arc<Account>,
}

/// Where the limits of a network namespace are set. Context: any.
pub(crate) trait QuotaLimits: Send + Sync {
    /// The limits now.
    fn caps(&self) -> Caps;
}

/// The counts of a network namespace.
pub(crate) struct NetAccounts {
    /// Octets of buffers.
    pub(crate) buffers: Arc<Account>,
    /// Connections without a file, after their close.
    pub(crate) orphans: Arc<Account>,
    /// The limits of both.
    limits: Arc<dyn QuotaLimits>,
}

impl NetAccounts {
    /// Accounts without a charge. Context: may sleep.
    pub(crate) fn new(limits: Arc<dyn QuotaLimits>) -> Result<Arc<Self>> {
        let accounts = Self {
            buffers: Account::new()?,
            orphans: Account::new()?,
            limits,
        };
        Ok(Arc::new(accounts, GFP_KERNEL)?)
    }

    /// The limits of the namespace. Context: any.
    pub(crate) fn caps(&self) -> Caps {
        self.limits.caps()
    }

    /// Counts a closed connection that still drains. Context: any.
    pub(crate) fn count_orphan(&self) -> Orphan {
        Orphan::new(&self.orphans, self.caps().orphans)
    }
}

/// The accounts of a namespace.
struct NetEntry {
    cookie: u64,
    accounts: Arc<NetAccounts>,
}

/// The counts of buffers of the host, for all protocols.
#[pin_data]
pub(crate) struct Quotas {
    /// Octets of buffers of all namespaces.
    buffers: Arc<Account>,
    /// Those of each memory cgroup with a limit.
    #[pin]
    cgroups: Mutex<KVec<CgroupAccount>>,
    /// Those of each namespace, from its beginning.
    #[pin]
    nets: Mutex<KVec<NetEntry>>,
}

/// The payer of the buffers of a connection.
#[derive(Clone)]
pub(crate) struct Payer {
    cgroup: MemCgroup,
    /// A share that keeps the account of the cgroup; `None` for the root.
    of_cgroup: Option<Arc<AccountShare>>,
    net: Arc<NetAccounts>,
    quotas: Arc<Quotas>,
}

impl Payer {
    /// A payer in a memory cgroup and a namespace. Context: may sleep.
    pub(crate) fn new(
        quotas: &Arc<Quotas>,
        net: &Arc<NetAccounts>,
        cgroup: MemCgroup,
    ) -> Result<Self> {
        let of_cgroup = if cgroup.is_root() {
            None
        } else {
            Some(quotas.join_cgroup(&cgroup)?)
        };
        Ok(Self {
            cgroup,
            of_cgroup,
            net: net.clone(),
            quotas: quotas.clone(),
        })
    }

    /// The cgroup that is charged.
    pub(crate) fn cgroup(&self) -> &MemCgroup {
        &self.cgroup
    }

    /// Counts octets against the limits of the cgroup, of the namespace and of the host.
    ///
    /// For memory that is charged to [`Self::cgroup`] and keeps what this returns. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` above a limit; `ENOMEM`.
    pub(crate) fn count(&self, bytes: usize) -> Result<OnFree> {
        let bytes = u64::try_from(bytes)?;
        let caps = self.net.caps();
        let host = self.quotas.buffers.take(bytes, caps.host_bytes);
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

    /// Memory that a peer writes: elements of `bytes`, in pieces of `piece`. Context: may sleep.
    pub(crate) fn peer_memory(
        &self,
        elements: usize,
        bytes: usize,
        piece: usize,
    ) -> Result<Arc<PeerMemory>> {
        let all = elements.checked_mul(bytes).ok_or(EINVAL)?;
        PeerMemory::charged(elements, bytes, piece, &self.cgroup, Some(self.count(all)?))
    }

    /// A send buffer in pieces of `piece`. Context: may sleep.
    pub(crate) fn send_buffer(&self, bytes: usize, piece: usize) -> Result<Arc<SendBuffer>> {
        SendBuffer::charged(bytes, piece, &self.cgroup, Some(self.count(bytes)?))
    }
}

impl Quotas {
    /// Accounts without a charge. Context: may sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let buffers = Account::new()?;
        Arc::pin_init(
            pin_init!(Self {
                buffers,
                cgroups <- new_mutex!(KVec::new(), "rdma_sock_cgroups"),
                nets <- new_mutex!(KVec::new(), "rdma_sock_net_accounts"),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes the accounts of a namespace that comes, with its limits. Context: may sleep.
    pub(crate) fn enter(&self, cookie: u64, limits: Arc<dyn QuotaLimits>) -> Result {
        let accounts = NetAccounts::new(limits)?;
        let entry = NetEntry { cookie, accounts };
        Ok(self.nets.lock().push(entry, GFP_KERNEL)?)
    }

    /// A namespace goes. What its sockets have left stays counted. Context: may sleep.
    pub(crate) fn forget(&self, cookie: u64) {
        self.nets.lock().retain(|net| net.cookie != cookie);
    }

    /// The accounts of a namespace. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is no such namespace.
    pub(crate) fn of(&self, cookie: u64) -> Result<Arc<NetAccounts>> {
        let nets = self.nets.lock();
        let found = nets.iter().find(|net| net.cookie == cookie);
        found.map(|net| net.accounts.clone()).ok_or(ENOENT)
    }

    /// Finds or makes the account of a cgroup, which stays while there is a share of it.
    /// Context: may sleep.
    fn join_cgroup(&self, cgroup: &MemCgroup) -> Result<Arc<AccountShare>> {
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
}
