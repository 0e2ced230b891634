// SPDX-License-Identifier: GPL-2.0

//! States of a queue pair: legal transitions, their effects, and the order of flushing
//! (RNIC-QPS-02, RNIC-QPS-05, RNIC-ERR-01, RNIC-ERR-02, RNIC-ERR-06).

use super::opcode::Service;

/// The state of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpState {
    /// New: nothing is posted.
    Reset,
    /// Receive buffers may be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Send queue drained: no message starts.
    Sqd,
    /// Send queue error of an unreliable service.
    Sqe,
    /// Everything is flushed.
    Err,
}

/// The effect of a transition on the two halves of the queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    /// Only attributes change.
    Attributes,
    /// Both queues are emptied without completions (RNIC-QPS-04).
    Clear,
    /// The receiving half starts: a new responder.
    StartReceive,
    /// The sending half starts: a new requester.
    StartSend,
    /// The sending half pauses.
    PauseSend,
    /// The sending half goes on.
    ResumeSend,
    /// Both halves are flushed (RNIC-ERR-05).
    Flush,
}

/// The fate of a work request that is posted (RNIC-ERR-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posting {
    /// The call fails.
    Refuse,
    /// The request is queued.
    Queue,
    /// The request completes with a flush error.
    Flush,
}

impl QpState {
    /// The effect of a change to `next`; `None` if it is illegal (RNIC-QPS-02).
    pub(crate) const fn change(self, next: Self, service: Service) -> Option<Transition> {
        match (self, next) {
            (_, Self::Reset) => Some(Transition::Clear),
            (Self::Reset, Self::Err) => Some(Transition::Flush),
            (Self::Reset, Self::Init) | (Self::Init, Self::Init) => Some(Transition::Attributes),
            (Self::Init, Self::Rtr) => Some(Transition::StartReceive),
            (Self::Rtr, Self::Rts) => Some(Transition::StartSend),
            (Self::Rts, Self::Rts) | (Self::Sqd, Self::Sqd) => Some(Transition::Attributes),
            (Self::Rts, Self::Sqd) => Some(Transition::PauseSend),
            (Self::Sqd, Self::Rts) => Some(Transition::ResumeSend),
            (Self::Sqe, Self::Rts) => match service {
                // RNIC-UD-11.
                Service::Uc | Service::Ud => Some(Transition::ResumeSend),
                Service::Rc | Service::Cnp => None,
            },
            (Self::Err, Self::Err) => Some(Transition::Attributes),
            (_, Self::Err) => Some(Transition::Flush),
            _ => None,
        }
    }

    /// The state after a send work request failed (RNIC-UD-11, RNIC-ERR-05).
    pub(crate) const fn after_send_error(service: Service) -> Self {
        match service {
            Service::Uc | Service::Ud => Self::Sqe,
            Service::Rc | Service::Cnp => Self::Err,
        }
    }

    /// Whether packets are received (RNIC-RSP-01, RNIC-QPS-05).
    pub(crate) const fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
    }

    /// The fate of a send work request that is posted in this state.
    pub(crate) const fn post_send(self) -> Posting {
        match self {
            Self::Reset | Self::Init | Self::Rtr => Posting::Refuse,
            Self::Rts | Self::Sqd => Posting::Queue,
            Self::Sqe | Self::Err => Posting::Flush,
        }
    }

    /// The fate of a receive work request that is posted in this state.
    pub(crate) const fn post_receive(self) -> Posting {
        match self {
            Self::Reset => Posting::Refuse,
            Self::Init | Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe => Posting::Queue,
            Self::Err => Posting::Flush,
        }
    }
}

/// A step of flushing the receiving half, in the order of the list (RNIC-ERR-02).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveFlush {
    /// The receive buffer of the current message completes with a flush error.
    Current,
    /// All buffers of the receive queue complete with a flush error, in the order of posting.
    Queue,
    /// The application is informed that no buffer of the shared queue is in use any longer.
    LastReached,
}

impl ReceiveFlush {
    /// The steps for a queue pair that has taken a buffer for its current message (`taken`), and
    /// whose buffers come from a shared receive queue (`shared`).
    pub(crate) fn steps(taken: bool, shared: bool) -> impl Iterator<Item = Self> {
        let current = taken.then_some(Self::Current);
        let rest = if shared {
            Self::LastReached
        } else {
            Self::Queue
        };
        current.into_iter().chain([rest])
    }
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_state))]
mod tests {
    use super::*;

    const ALL: [QpState; 7] = [
        QpState::Reset,
        QpState::Init,
        QpState::Rtr,
        QpState::Rts,
        QpState::Sqd,
        QpState::Sqe,
        QpState::Err,
    ];

    /// The legal changes, a line for each state: to RESET, INIT, RTR, RTS, SQD, SQE, ERR.
    fn table(service: Service) -> [[bool; 7]; 7] {
        ALL.map(|from| ALL.map(|to| from.change(to, service).is_some()))
    }

    /// RNIC-QPS-02, RNIC-UD-11.
    #[test]
    fn legal_transitions_are_those_of_the_standard() {
        let mut expected = [
            [1, 1, 0, 0, 0, 0, 1],
            [1, 1, 1, 0, 0, 0, 1],
            [1, 0, 0, 1, 0, 0, 1],
            [1, 0, 0, 1, 1, 0, 1],
            [1, 0, 0, 1, 1, 0, 1],
            [1, 0, 0, 0, 0, 0, 1],
            [1, 0, 0, 0, 0, 0, 1],
        ]
        .map(|line| line.map(|legal| legal == 1));
        assert_eq!(table(Service::Rc), expected);
        expected[5][3] = true;
        assert_eq!(table(Service::Uc), expected);
        assert_eq!(table(Service::Ud), expected);
    }

    /// RNIC-QPS-04, RNIC-QPS-05, RNIC-ERR-05.
    #[test]
    fn transitions_start_and_stop_the_halves() {
        use QpState::{
            Init,
            Reset,
            Rtr,
            Rts,
            Sqd,
            Sqe, //
        };
        let change = |from: QpState, to| from.change(to, Service::Rc);
        assert_eq!(change(Init, Rtr), Some(Transition::StartReceive));
        assert_eq!(change(Rtr, Rts), Some(Transition::StartSend));
        assert_eq!(change(Rts, Sqd), Some(Transition::PauseSend));
        assert_eq!(change(Sqd, Rts), Some(Transition::ResumeSend));
        assert_eq!(change(Rts, Rts), Some(Transition::Attributes));
        for from in ALL {
            assert_eq!(change(from, Reset), Some(Transition::Clear));
            let flushes = change(from, QpState::Err) == Some(Transition::Flush);
            assert_eq!(flushes, from != QpState::Err);
        }
        assert_eq!(QpState::after_send_error(Service::Rc), QpState::Err);
        assert_eq!(QpState::after_send_error(Service::Ud), Sqe);
    }

    /// RNIC-ERR-06.
    #[test]
    fn work_on_a_failed_queue_pair_is_flushed() {
        use Posting::*;
        assert_eq!(
            ALL.map(QpState::post_send),
            [Refuse, Refuse, Refuse, Queue, Queue, Flush, Flush]
        );
        assert_eq!(
            ALL.map(QpState::post_receive),
            [Refuse, Queue, Queue, Queue, Queue, Queue, Flush]
        );
    }

    /// RNIC-RSP-01.
    #[test]
    fn packets_are_received_from_rtr_to_sqe() {
        assert_eq!(
            ALL.map(QpState::receives),
            [false, false, true, true, true, true, false]
        );
    }

    /// RNIC-ERR-02.
    #[test]
    fn current_receive_buffer_is_flushed_first() {
        use ReceiveFlush::*;
        assert!(ReceiveFlush::steps(true, false).eq([Current, Queue]));
        assert!(ReceiveFlush::steps(false, false).eq([Queue]));
        assert!(ReceiveFlush::steps(true, true).eq([Current, LastReached]));
        assert!(ReceiveFlush::steps(false, true).eq([LastReached]));
    }
}
