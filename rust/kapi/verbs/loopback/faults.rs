// SPDX-License-Identifier: GPL-2.0

//! Tests of channels of which the device refuses a step.

use super::{
    unless_skipped,
    with_bench,
    with_loop,
    Probe, //
};
use crate::kapi::{
    compat::errno::ESHUTDOWN,
    verbs::pd::Pd, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

#[kernel::macros::kunit_tests(rdma_sock_kapi_verbs_faults)]
mod tests {
    use super::*;

    /// A queue pair in RESET has no way to the error state: draining it makes the kernel warn, which
    /// fails the run.
    #[test]
    fn channel_that_does_not_open_is_not_drained() -> Result {
        let (error, ops) = unless_skipped!(with_bench(false, |bench| {
            let pd = Pd::new(&bench.device)?;
            let probe = Probe::new()?;
            // No buffers can be mapped: the queue pair stays in RESET.
            bench.device.refuse();
            let error = bench.open(&pd, &probe).err();
            bench.device.accept();
            Ok((error, Arc::into_unique_or_drop(probe).is_some()))
        }));
        assert_eq!(error, Some(ENODEV));
        // Nothing refers to the operations: the channel is gone.
        assert!(ops);
        Ok(())
    }

    #[test]
    fn channel_of_a_queue_pair_that_stays_keeps_what_handlers_use() -> Result {
        let outcome = unless_skipped!(with_loop(|_, _, channel, probe| {
            let kept = channel.try_reserve(0).ok_or(EBUSY)?;
            channel.hold_qp(true)?;
            channel.shutdown();
            let refused = (channel.is_open(), channel.is_over());
            let late = kept.post(50, None, &[], &[0; 44], true);
            let late = matches!(late, Err((ESHUTDOWN, 50)));
            channel.hold_qp(false)?;
            channel.shutdown();
            let broken = probe.seen.lock().broken.len();
            Ok((refused, late, channel.is_over(), broken))
        }));
        assert_eq!(outcome, ((false, false), true, true, 0));
        Ok(())
    }
}
