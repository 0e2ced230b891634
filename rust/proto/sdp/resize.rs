// SPDX-License-Identifier: GPL-2.0

//! Receive buffers of another size, draft 10.6 (SDP-RSZ-*): the peer asks for ours, and we ask for
//! larger ones of the peer's.

use super::{
    setup::SetupRole,
    violation::SdpViolation, //
};

/// The smallest receive buffers that we tell a peer of, in octets: smaller ones would cost more than they
/// save.
const LEAST: u32 = 2048;

/// Where a request of the peer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ResizeState {
    /// There is none.
    Idle,
    /// The engine has to find memory for buffers of this number of octets.
    Asking { grown: u32 },
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

    /// Whether no request of the peer waits for its answer.
    pub(super) fn is_idle(&self) -> bool {
        self.state == ResizeState::Idle
    }

    /// ChRcvBuf has come (SDP-RSZ-05 to SDP-RSZ-14).
    pub(super) fn handle_request(&mut self, wanted: u32) -> Result<(), SdpViolation> {
        if self.state != ResizeState::Idle {
            return Err(SdpViolation::Resize);
        }
        self.state = ResizeState::Answering;
        if wanted > self.size {
            let grown = wanted.checked_next_power_of_two().unwrap_or(self.most);
            let grown = core::cmp::min(grown, self.most);
            if grown > self.size {
                self.state = ResizeState::Asking { grown };
            }
        } else {
            // Not below what is wanted, and not below the floor (SDP-RSZ-08, SDP-RSZ-09).
            let floor = core::cmp::max(wanted, LEAST);
            self.size = core::cmp::min(self.size, floor);
        }
        Ok(())
    }

    /// Octets of the larger buffers that the peer wants and the engine may have memory for.
    pub(super) fn wanted(&self) -> Option<u32> {
        match self.state {
            ResizeState::Asking { grown } => Some(grown),
            _ => None,
        }
    }

    /// The engine posts buffers of the wanted size from now on if there `is_memory`. `posted` buffers of
    /// the old size are in front of them.
    pub(super) fn grow(&mut self, is_memory: bool, posted: u64) {
        let ResizeState::Asking { grown } = self.state else {
            return;
        };
        if is_memory {
            self.size = grown;
            self.state = ResizeState::Growing { old: posted };
            self.on_receive(0);
        } else {
            self.state = ResizeState::Answering;
        }
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

/// Full messages, less the others, after which larger buffers of the peer are worth a request.
const FULL: u8 = 16;

/// Where our request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RequestState {
    /// So many more messages were full than not.
    Counting(u8),
    /// ChRcvBuf was sent, as message `count`.
    Open { count: u64 },
    /// The peer has answered, or has no larger ones (SDP-RSZ-17).
    Over,
}

/// Our request for larger receive buffers of the peer. We never ask for smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SizeRequest {
    /// Octets to ask for.
    wanted: u32,
    state: RequestState,
}

/// What becomes of a request of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CrossedRequest {
    /// It is answered.
    Answer,
    /// It crossed ours, which is the one that counts (SDP-RSZ-20).
    Disregard,
}

impl SizeRequest {
    /// Asks for `wanted` octets when messages to buffers of `size` octets are full. Not at all, if that is
    /// not more.
    pub(super) const fn new(wanted: u32, size: u32) -> Self {
        let state = if wanted > size {
            RequestState::Counting(0)
        } else {
            RequestState::Over
        };
        Self { wanted, state }
    }

    /// A message with payload was sent.
    pub(super) fn on_data_sent(&mut self, is_full: bool) {
        if let RequestState::Counting(full) = &mut self.state {
            *full = if is_full {
                full.saturating_add(1)
            } else {
                full.saturating_sub(1)
            };
        }
    }

    /// The size that ChRcvBuf has to ask for now.
    pub(super) fn due(&self) -> Option<u32> {
        match self.state {
            RequestState::Counting(FULL..) => Some(self.wanted),
            _ => None,
        }
    }

    /// ChRcvBuf was posted as message `count`.
    pub(super) fn on_sent(&mut self, count: u64) {
        self.state = RequestState::Open { count };
    }

    /// ChRcvBufAck has come, while messages had up to `size` octets (SDP-RSZ-03, SDP-RSZ-04). The new
    /// size, of which no more is used than was asked for.
    pub(super) fn handle_answer(&mut self, told: u32, size: u32) -> Result<u32, SdpViolation> {
        let is_open = matches!(self.state, RequestState::Open { .. });
        if !is_open || told < size {
            return Err(SdpViolation::Resize);
        }
        self.state = RequestState::Over;
        Ok(core::cmp::min(told, core::cmp::max(self.wanted, size)))
    }

    /// ChRcvBuf has come from a peer that had `acked` messages of ours. The requests have crossed if the
    /// peer did not have ours; then that of the connecting end is void (SDP-RSZ-20, SDP-RSZ-21).
    pub(super) fn handle_request(&mut self, role: SetupRole, acked: u64) -> CrossedRequest {
        match self.state {
            RequestState::Open { count } if acked < count => match role {
                SetupRole::Accepting => CrossedRequest::Disregard,
                SetupRole::Connecting => {
                    self.state = RequestState::Counting(0);
                    CrossedRequest::Answer
                }
            },
            _ => CrossedRequest::Answer,
        }
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
            assert_eq!(resize.handle_request(wanted), Ok(()));
            assert_eq!(resize.wanted(), (size > own).then_some(size));
            resize.grow(true, 3);
            assert_eq!(resize.size(), size);
            resize.on_receive(3);
            assert_eq!(resize.answer(), Some(size));
            resize.on_answer_sent();
            assert_eq!((resize.told(), resize.answer()), (size, None));
        }
    }

    // SDP-RSZ-14.
    #[test]
    fn lack_of_memory_is_answered_with_the_old_size() {
        let mut resize = Resize::new(4096, MOST);
        assert_eq!(resize.handle_request(8192), Ok(()));
        assert_eq!((resize.answer(), resize.is_idle()), (None, false));
        resize.grow(false, 3);
        assert_eq!((resize.size(), resize.answer()), (4096, Some(4096)));
        resize.on_answer_sent();
        assert!(resize.is_idle());
        // No request waits for it.
        resize.grow(true, 3);
        assert_eq!((resize.size(), resize.answer()), (4096, None));
    }

    // SDP-BUFP-03, SDP-RSZ-13, SDP-RSZ-15, SDP-RSZ-16, SDP-RSZ-26, TST-063, TST-067.
    #[test]
    fn answer_to_a_larger_size_waits_for_the_old_buffers() {
        let mut resize = Resize::new(4096, MOST);
        assert_eq!(resize.handle_request(8192), Ok(()));
        // A message that comes while memory is looked for uses a buffer that is not counted later.
        resize.on_receive(1);
        resize.grow(true, 2);
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
        for (wanted, memory) in [(8192, None), (8192, Some(2)), (8192, Some(0)), (2048, None)] {
            let mut resize = Resize::new(4096, MOST);
            assert_eq!(resize.handle_request(wanted), Ok(()));
            if let Some(posted) = memory {
                resize.grow(true, posted);
            }
            assert_eq!(resize.handle_request(wanted), Err(SdpViolation::Resize));
        }
    }

    // SDP-RSZ-03, SDP-RSZ-04, SDP-RSZ-17.
    #[test]
    fn larger_buffers_are_asked_for_once() {
        for told in [4096, 8192, MOST, 1 << 31] {
            let mut request = SizeRequest::new(MOST, 4096);
            for _ in 0..FULL - 1 {
                request.on_data_sent(true);
                request.on_data_sent(true);
                request.on_data_sent(false);
                assert_eq!(request.due(), None);
                request.on_data_sent(false);
                request.on_data_sent(true);
            }
            request.on_data_sent(true);
            assert_eq!(request.due(), Some(MOST));
            request.on_sent(40);
            assert_eq!(request.due(), None);
            assert_eq!(request.handle_answer(told, 4096), Ok(told.min(MOST)));
            for _ in 0..2 * FULL {
                request.on_data_sent(true);
            }
            assert_eq!(request.due(), None);
            assert_eq!(request.handle_answer(told, told), Err(SdpViolation::Resize));
        }
    }

    #[test]
    fn answer_is_refused_without_a_request_and_with_a_smaller_size() {
        let mut request = SizeRequest::new(MOST, 4096);
        assert_eq!(request.handle_answer(8192, 4096), Err(SdpViolation::Resize));
        request.on_sent(1);
        assert_eq!(request.handle_answer(4095, 4096), Err(SdpViolation::Resize));
        // Buffers that are large enough from the start.
        let mut request = SizeRequest::new(MOST, MOST);
        for _ in 0..2 * FULL {
            request.on_data_sent(true);
        }
        assert_eq!(request.due(), None);
    }

    // SDP-RSZ-20, SDP-RSZ-21.
    #[test]
    fn of_requests_that_cross_that_of_the_accepting_end_counts() {
        let sent = |count| {
            let mut request = SizeRequest::new(MOST, 4096);
            request.on_sent(count);
            request
        };
        let mut request = sent(9);
        let crossed = request.handle_request(SetupRole::Accepting, 8);
        assert_eq!(crossed, CrossedRequest::Disregard);
        assert_eq!(request.handle_answer(8192, 4096), Ok(8192));
        let mut request = sent(9);
        let crossed = request.handle_request(SetupRole::Connecting, 8);
        assert_eq!(crossed, CrossedRequest::Answer);
        assert_eq!(request.handle_answer(8192, 4096), Err(SdpViolation::Resize));
        // A peer that had ours answers it.
        for role in [SetupRole::Accepting, SetupRole::Connecting] {
            let mut request = sent(9);
            assert_eq!(request.handle_request(role, 9), CrossedRequest::Answer);
            assert_eq!(request.handle_answer(8192, 4096), Ok(8192));
            let mut none = SizeRequest::new(MOST, 4096);
            assert_eq!(none.handle_request(role, 9), CrossedRequest::Answer);
        }
    }
}
