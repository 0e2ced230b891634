// SPDX-License-Identifier: GPL-2.0

//! Counts of the buffers of a namespace, a memory cgroup or the host, with shares that end on drop.

use crate::proto::base::quota::fits;
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

/// How much of something there is. Context: any.
pub(crate) struct Account(Atomic<u64>);

impl Account {
    /// An account without any share. Context: may sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(Atomic::new(0u64)), GFP_KERNEL)?)
    }

    /// How much there is.
    pub(crate) fn used(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Adds `more`; `None` if that would exceed `most`.
    pub(crate) fn take(self: &Arc<Self>, more: u64, most: u64) -> Option<AccountShare> {
        let share = self.take_anyway(more, most);
        share.is_within.then_some(share)
    }

    /// Adds `more`, and returns whether that exceeds `most`.
    pub(crate) fn take_anyway(self: &Arc<Self>, more: u64, most: u64) -> AccountShare {
        let before = self.0.fetch_add(more, Relaxed);
        AccountShare {
            account: self.clone(),
            amount: more,
            is_within: fits(before, more, most),
        }
    }
}

/// A part of an [`Account`], given back on drop. Context: any.
pub(crate) struct AccountShare {
    pub(crate) account: Arc<Account>,
    amount: u64,
    is_within: bool,
}

impl Drop for AccountShare {
    fn drop(&mut self) {
        self.account.0.fetch_sub(self.amount, Relaxed);
    }
}

/// A closed connection that still drains, as the namespace counts it.
pub(crate) struct Orphan(AccountShare);

impl Orphan {
    /// Counts one connection, which may exceed `most`. Context: any.
    pub(crate) fn new(account: &Arc<Account>, most: u64) -> Self {
        Self(account.take_anyway(1, most))
    }

    /// Whether there are no more of them than the namespace may have.
    pub(crate) fn is_within_limit(&self) -> bool {
        self.0.is_within
    }
}
