// SPDX-License-Identifier: GPL-2.0

//! The payer of buffers, and how much a namespace and the host may have.
//!
//! Buffers are charged to the memory cgroup of the socket they are for; that of a connection which no
//! program has accepted yet is the listener's. Besides, each counts against the limits of its network
//! namespace and of the host. See decision 011.

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
    fn take(this: &Arc<Self>, more: u64, most: u64) -> Option<Share> {
        let share = Self::take_anyway(this, more, most);
        share.is_within.then_some(share)
    }

    /// Adds `more`, and tells whether that exceeds `most`.
    fn take_anyway(this: &Arc<Self>, more: u64, most: u64) -> Share {
        let before = this.0.fetch_add(more, Relaxed);
        Share {
            account: this.clone(),
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

/// The payer of the buffers of a connection.
#[derive(Clone)]
pub(crate) struct Payer {
    cgroup: MemCgroup,
    net: Arc<NetState>,
    engine: Arc<Engine>,
}

impl Payer {
    /// The payer of a connection whose handshake is under way; `None` when its listener is gone.
    /// Sleeps.
    pub(crate) fn of(connection: &Connection) -> Option<Self> {
        let cgroup = match connection.side {
            Side::Client => connection.sk.mem_cgroup(),
            Side::Server => {
                let listener = connection.listener.lock();
                listener.as_ref()?.sk.mem_cgroup()
            }
        };
        Some(Self {
            cgroup,
            net: connection.net.clone(),
            engine: connection.engine.clone(),
        })
    }

    /// The cgroup that is charged.
    pub(crate) fn cgroup(&self) -> &MemCgroup {
        &self.cgroup
    }

    /// Counts octets against the limits of the namespace and of the host.
    fn count(&self, bytes: usize) -> Result<OnFree> {
        let bytes = u64::try_from(bytes)?;
        let caps = self.engine.caps(&self.net.settings);
        let host = Account::take(&self.engine.buffers, bytes, caps.host_bytes);
        let net = Account::take(&self.net.buffers, bytes, caps.bytes);
        let (Some(host), Some(net)) = (host, net) else {
            return Err(ENOBUFS);
        };
        Ok(KBox::new((host, net), GFP_KERNEL)?)
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
    /// What holds for a namespace with these settings. Any context.
    pub(crate) fn caps(&self, settings: &Settings) -> Caps {
        settings.caps(&self.host)
    }
}

impl NetState {
    /// Counts a closed connection that still drains. Any context.
    pub(crate) fn count_orphan(&self, engine: &Engine) -> Orphan {
        let most = engine.caps(&self.settings).orphans;
        Orphan(Account::take_anyway(&self.orphans, 1, most))
    }
}
