// SPDX-License-Identifier: GPL-2.0

//! The connections and counts of all protocols, by network namespace, for the files in `/proc`.

use super::stats::NetStats;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// The statistics of a protocol in a namespace.
struct DirectoryEntry {
    cookie: u64,
    protocol: &'static str,
    stats: Arc<NetStats>,
}

/// The statistics of all protocols.
#[pin_data]
pub(crate) struct Directory {
    #[pin]
    list: Mutex<KVec<DirectoryEntry>>,
}

impl Directory {
    /// No statistics so far. Context: may sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let list = new_mutex!(KVec::new(), "rdma_sock_directory");
        Arc::pin_init(pin_init!(Self { list <- list }), GFP_KERNEL)
    }

    /// Adds the statistics of a protocol in a namespace. Context: may sleep.
    pub(crate) fn enter(
        &self,
        cookie: u64,
        protocol: &'static str,
        stats: &Arc<NetStats>,
    ) -> Result {
        let entry = DirectoryEntry {
            cookie,
            protocol,
            stats: stats.clone(),
        };
        Ok(self.list.lock().push(entry, GFP_KERNEL)?)
    }

    /// The namespace is gone. Context: may sleep.
    pub(crate) fn forget(&self, cookie: u64) {
        self.list.lock().retain(|entry| entry.cookie != cookie);
    }

    /// Calls `f` with the name and the statistics of each protocol in a namespace. Context: may sleep.
    pub(crate) fn for_each(&self, cookie: u64, mut f: impl FnMut(&'static str, &NetStats)) {
        let list = self.list.lock();
        for entry in list.iter().filter(|entry| entry.cookie == cookie) {
            f(entry.protocol, &entry.stats);
        }
    }
}
