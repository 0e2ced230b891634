// SPDX-License-Identifier: GPL-2.0

//! Completions of one run of a queue pair, which go to their queue together (RNIC-CQ-09).

use crate::rnic::cq::{
    CompletionQueue,
    NewCompletion, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Completions that wait for the others of their run, at most.
const MOST: usize = 64;

/// Completions for one queue, in their order.
pub(super) struct CompletionBatch {
    /// Completions that wait for others, at most.
    most: usize,
    waiting: KVVec<NewCompletion>,
}

impl CompletionBatch {
    /// No completions; without `batch` none waits for others.
    pub(super) const fn new(batch: bool) -> Self {
        Self {
            most: if batch { MOST } else { 0 },
            waiting: KVVec::new(),
        }
    }

    /// Adds a completion for `queue`. Returns whether there was a place for all that went to the queue:
    /// those that were waiting go when they are many, or when there is no memory for one more.
    /// Context: any.
    pub(super) fn add(&mut self, queue: &Arc<CompletionQueue>, new: NewCompletion) -> bool {
        if self.most == 0 {
            return queue.push(&[new]);
        }
        let mut placed = true;
        if self.waiting.len() >= self.most {
            placed = self.flush(queue);
        }
        if self.waiting.push(new, GFP_ATOMIC).is_ok() {
            return placed;
        }
        let waiting = self.flush(queue);
        queue.push(&[new]) && waiting && placed
    }

    /// Gives all completions to their queue. Returns whether there was a place for each. Context: any.
    pub(super) fn flush(&mut self, queue: &Arc<CompletionQueue>) -> bool {
        if self.waiting.is_empty() {
            return true;
        }
        let placed = queue.push(&self.waiting);
        self.waiting.clear();
        placed
    }
}
