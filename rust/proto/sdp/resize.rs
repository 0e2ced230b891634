// SPDX-License-Identifier: GPL-2.0

//! The peer asks for receive buffers of another size, draft 10.6 (SDP-RSZ-*). We never ask.

use super::violation::SdpViolation;

/// The smallest, in octets: smaller ones would cost more than they save.
const LEAST: u32 = 2048;

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ResizeState {
    /// There is none.
    Idle,
    /// The new buffers are larger: the answer waits until this number of messages has used the
    /// buffers of the old size up (SDP-RSZ-13, SDP-RSZ-26).
    Growing { old: u64 },
    /// ChRcvBufAck has to be sent.
    Answering,
}

/// The size of our receive buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Resize {
    /// Octets of the buffers that are posted from now on.
    size: u32,
    /// Octets that the peer may rely on.
    told: u32,
    /// Octets of the largest buffers that can be posted.
    most: u32,
    state: ResizeState,
}

impl Resize {
    /// Buffers of `size` octets, in place of which others of up to `most` can be posted.
    pub(super) const fn new(size: u32, most: u32) -> Self {
        Self {
            size,
            told: size,
            most,
            state: ResizeState::Idle,
        }
    }

    /// Octets of the receive buffers that are posted from now on (SDP-RSZ-23, SDP-RSZ-24).
    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    /// Octets that the peer may rely on (SDP-RSZ-15, SDP-RSZ-16).
    pub(super) const fn told(&self) -> u32 {
        self.told
    }

    /// ChRcvBuf has come, with `posted` buffers of the old size in front of any new one
    /// (SDP-RSZ-05 to SDP-RSZ-14).
    pub(super) fn handle_request(&mut self, wanted: u32, posted: u64) -> Result<(), SdpViolation> {
        if self.state != ResizeState::Idle {
            return Err(SdpViolation::Resize);
        }
        self.state = ResizeState::Answering;
        if wanted > self.size {
            let grown = wanted.checked_next_power_of_two().unwrap_or(self.most);
            let grown = core::cmp::min(grown, self.most);
            if grown > self.size {
                self.size = grown;
                self.state = ResizeState::Growing { old: posted };
                self.on_receive(0);
            }
        } else {
            // Not below what is wanted, and not below the floor (SDP-RSZ-08, SDP-RSZ-09).
            let floor = core::cmp::max(wanted, LEAST);
            self.size = core::cmp::min(self.size, floor);
        }
        Ok(())
    }

    /// Messages have come: each has used up the oldest buffer.
    pub(super) fn on_receive(&mut self, count: u64) {
        if let ResizeState::Growing { old } = &mut self.state {
            *old = old.saturating_sub(count);
            if *old == 0 {
                self.state = ResizeState::Answering;
            }
        }
    }

    /// The size that ChRcvBufAck has to tell now (SDP-RSZ-11).
    pub(super) fn answer(&self) -> Option<u32> {
        (self.state == ResizeState::Answering).then_some(self.size)
    }

    /// ChRcvBufAck was posted.
    pub(super) fn on_answer_sent(&mut self) {
        self.state = ResizeState::Idle;
        self.told = self.size;
    }
}

#[cfg(any(test, CONFIG_RDMA_SOCK_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_sock_sdp_resize))]
mod tests {
    use super::*;

    const MOST: u32 = 64 << 10;

    // SDP-RSZ-05 to SDP-RSZ-10, SDP-RSZ-12, SDP-RSZ-14.
    #[test]
    fn new_size_is_as_close_as_the_limits_allow() {
        for (own, wanted, size) in [
            (4096, 8192, 8192),
            (4096, 5000, 8192),
            (4096, 1 << 31, MOST),
            (MOST, 1 << 31, MOST),
            (2 * MOST, 1 << 31, 2 * MOST),
            (4096, 4096, 4096),
            (16384, 4096, 4096),
            (16384, 5000, 5000),
            (16384, 37, LEAST),
            (1024, 37, 1024),
        ] {
            let mut resize = Resize::new(own, MOST);
            assert_eq!(resize.handle_request(wanted, 3), Ok(()));
            assert_eq!(resize.size(), size);
            resize.on_receive(3);
            assert_eq!(resize.answer(), Some(size));
            resize.on_answer_sent();
            assert_eq!((resize.told(), resize.answer()), (size, None));
        }
    }

    // SDP-BUFP-03, SDP-RSZ-13, SDP-RSZ-15, SDP-RSZ-16, SDP-RSZ-26, TST-063, TST-067.
    #[test]
    fn answer_to_a_larger_size_waits_for_the_old_buffers() {
        let mut resize = Resize::new(4096, MOST);
        assert_eq!(resize.handle_request(8192, 2), Ok(()));
        for _ in 0..2 {
            assert_eq!((resize.answer(), resize.told()), (None, 4096));
            assert!(resize.size() >= resize.told());
            resize.on_receive(1);
        }
        assert_eq!((resize.answer(), resize.told()), (Some(8192), 4096));
    }

    // SDP-RSZ-19, SDP-ERR-18.
    #[test]
    fn second_request_before_the_answer_is_refused() {
        for (wanted, posted) in [(8192, 2), (8192, 0), (2048, 2)] {
            let mut resize = Resize::new(4096, MOST);
            assert_eq!(resize.handle_request(wanted, posted), Ok(()));
            let second = resize.handle_request(wanted, posted);
            assert_eq!(second, Err(SdpViolation::Resize));
        }
    }
}
