// SPDX-License-Identifier: GPL-2.0

//! The fast paths of the devices, but the one that leaves out the network. Each can be switched off, and changes
//! nothing but the time that work takes.

use super::parameters::{
    flag,
    Settings, //
};
use crate::kapi::net::packet_port::Arrival;
use kernel::prelude::*;

/// Queue pairs run in tasks of the kernel.
const IN_TASKS: u8 = 1;
/// Each message has an acknowledgment of its own.
const SINGLE_ACKS: u8 = 2;
/// Each completion reaches its queue by itself.
const SINGLE_COMPLETIONS: u8 = 4;
/// The kernel computes the checksums of packets, be it slow.
const KERNEL_CHECKSUMS: u8 = 8;
/// Packets that a driver brings one after another pass the network so.
const NOT_JOINED: u8 = 16;

/// Which of the fast paths are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FastPaths {
    /// Packets of a message pass the network together (RNIC-TX-03).
    pub(super) together: bool,
    /// Packets that arrive together are taken before UDP separates them (RNIC-RX-01).
    pub(super) hook: bool,
    /// Queue pairs run in the context of what they run for, and in softirq (RNIC-RUN-03).
    pub(super) inline: bool,
    /// One acknowledgment answers all messages of a run.
    pub(super) coalesce: bool,
    /// Completions of a run reach their queue together (RNIC-CQ-09).
    pub(super) batch: bool,
    /// Checksums by the module where the kernel has no instructions for them (RNIC-DATA-05).
    pub(super) own_checksum: bool,
    /// Packets that a driver brings one after another pass the network together, if the hook takes them so
    /// (RNIC-RX-01).
    pub(super) join: bool,
}

impl FastPaths {
    /// All of them.
    #[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
    pub(super) const ALL: Self = Self {
        together: true,
        hook: true,
        inline: true,
        coalesce: true,
        batch: true,
        own_checksum: true,
        join: true,
    };

    /// Those that the parameters of the module leave on.
    ///
    /// # Errors
    ///
    /// `EINVAL` for numbers that a parameter does not have.
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        let plain = settings.plain;
        if plain & !(IN_TASKS | SINGLE_ACKS | SINGLE_COMPLETIONS | KERNEL_CHECKSUMS | NOT_JOINED)
            != 0
        {
            return Err(EINVAL);
        }
        Ok(Self {
            together: flag(settings.together)?,
            hook: flag(settings.hook)?,
            inline: plain & IN_TASKS == 0,
            coalesce: plain & SINGLE_ACKS == 0,
            batch: plain & SINGLE_COMPLETIONS == 0,
            own_checksum: plain & KERNEL_CHECKSUMS == 0,
            join: plain & NOT_JOINED == 0,
        })
    }

    /// How packets arrive that belong together.
    pub(super) const fn arrival(&self) -> Arrival {
        match (self.hook, self.join) {
            (false, _) => Arrival::Single,
            (true, false) => Arrival::Together,
            (true, true) => Arrival::Joined,
        }
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_fast_paths)]
mod tests {
    use super::*;

    /// The parameters by default, but for one.
    fn with(change: impl FnOnce(&mut Settings)) -> Result<FastPaths> {
        let mut settings = Settings {
            roce: 3,
            together: 1,
            hook: 1,
            strict: 0,
            dma: 0,
            plain: 0,
        };
        change(&mut settings);
        FastPaths::new(&settings)
    }

    #[test]
    fn parameter_switches_off_its_path_and_no_other() -> Result {
        let off = |paths: FastPaths| {
            [
                paths.together,
                paths.hook,
                paths.inline,
                paths.coalesce,
                paths.batch,
                paths.own_checksum,
                paths.join,
            ]
            .map(|on| !on)
        };
        assert_eq!(with(|_| ())?, FastPaths::ALL);
        let changed = [
            with(|settings| settings.together = 0)?,
            with(|settings| settings.hook = 0)?,
            with(|settings| settings.plain = 1)?,
            with(|settings| settings.plain = 2)?,
            with(|settings| settings.plain = 4)?,
            with(|settings| settings.plain = 8)?,
            with(|settings| settings.plain = 16)?,
        ];
        for (index, &paths) in changed.iter().enumerate() {
            let mut expected = [false; 7];
            if let Some(place) = expected.get_mut(index) {
                *place = true;
            }
            assert_eq!(off(paths), expected);
        }
        Ok(())
    }

    #[test]
    fn packets_join_only_for_the_hook() -> Result {
        assert_eq!(with(|_| ())?.arrival(), Arrival::Joined);
        assert_eq!(
            with(|settings| settings.plain = 16)?.arrival(),
            Arrival::Together
        );
        assert_eq!(
            with(|settings| settings.hook = 0)?.arrival(),
            Arrival::Single
        );
        Ok(())
    }

    #[test]
    fn number_that_a_parameter_does_not_have_is_refused() {
        for refused in [
            with(|settings| settings.together = 255),
            with(|settings| settings.hook = 2),
            with(|settings| settings.plain = 32),
        ] {
            assert!(refused.err() == Some(EINVAL));
        }
    }
}
