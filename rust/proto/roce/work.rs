// SPDX-License-Identifier: GPL-2.0

//! Work requests as the core sees them: kind, length, flags, and the status of a completion.

use super::opcode::{
    Companion,
    Operation, //
};

/// Longest message in octets (RNIC-PSN-05).
pub(crate) const MAX_MESSAGE: u32 = 1 << 31;

/// The kind of a send work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImm,
    /// SEND that invalidates a key of the receiver.
    SendInv,
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate data.
    WriteImm,
    /// RDMA READ.
    Read,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// ATOMIC WRITE of eight octets.
    AtomicWrite,
    /// FLUSH of a range or region.
    Flush,
    /// Registers a memory region; no packet.
    RegMr,
    /// Invalidates a local key; no packet.
    LocalInv,
    /// Binds a memory window; no packet.
    BindMw,
    /// A request that cannot be executed, of a user that fills a ring (RNIC-SEC-02).
    Malformed,
}

impl WorkKind {
    /// The operation and companion of its packets; `None` if it sends none (RNIC-REQ-11).
    pub(crate) const fn operation(self) -> Option<(Operation, Companion)> {
        use Companion::{
            Immediate,
            Invalidate,
            Nothing, //
        };
        match self {
            Self::Send => Some((Operation::Send, Nothing)),
            Self::SendImm => Some((Operation::Send, Immediate)),
            Self::SendInv => Some((Operation::Send, Invalidate)),
            Self::Write => Some((Operation::Write, Nothing)),
            Self::WriteImm => Some((Operation::Write, Immediate)),
            Self::Read => Some((Operation::ReadRequest, Nothing)),
            Self::CompareSwap => Some((Operation::CompareSwap, Nothing)),
            Self::FetchAdd => Some((Operation::FetchAdd, Nothing)),
            Self::AtomicWrite => Some((Operation::AtomicWrite, Nothing)),
            Self::Flush => Some((Operation::Flush, Nothing)),
            Self::RegMr | Self::LocalInv | Self::BindMw | Self::Malformed => None,
        }
    }

    /// Whether it executes in the send queue, without a packet and a PSN (RNIC-REQ-11).
    pub(crate) const fn is_local(self) -> bool {
        self.operation().is_none()
    }

    /// Whether a response completes it, as no acknowledgement does (RNIC-REQ-03, RNIC-REQ-15).
    pub(crate) const fn awaits_response(self) -> bool {
        matches!(
            self,
            Self::Read | Self::CompareSwap | Self::FetchAdd | Self::AtomicWrite | Self::Flush
        )
    }

    /// Whether the receiver has a completion of it.
    pub(crate) const fn completes_receive(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendImm | Self::SendInv | Self::WriteImm
        )
    }

    /// Whether it is one of the two operations that return the previous value of a word.
    pub(crate) const fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }

    /// Whether it starts only after all earlier ones are complete (RNIC-REQ-08).
    pub(crate) const fn awaits_earlier(self) -> bool {
        matches!(self, Self::LocalInv | Self::BindMw)
    }
}

/// A send work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// Kind.
    pub(crate) kind: WorkKind,
    /// Octets of the message; 8 for atomics and ATOMIC WRITE, 0 for local ones. A FLUSH carries its
    /// length in its header only.
    pub(crate) len: u32,
    /// Whether success generates a completion (RNIC-REQ-06).
    pub(crate) signaled: bool,
    /// Whether it waits for earlier READs and atomics (RNIC-REQ-08).
    pub(crate) fence: bool,
    /// Whether the receiver's completion is solicited (RNIC-HDR-06).
    pub(crate) solicited: bool,
}

impl Work {
    /// A signalled request without further flags.
    pub(crate) const fn new(kind: WorkKind, len: u32) -> Self {
        Self {
            kind,
            len,
            signaled: true,
            fence: false,
            solicited: false,
        }
    }
}

/// Number of a send work request on its queue pair, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MsgId(pub(super) u64);

impl MsgId {
    /// The number, from which the engine derives its own slot.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}

/// Defines the status of completions and the functions between number, name and meaning.
macro_rules! statuses {
    ($($(#[$doc:meta])* $variant:ident $code:literal $name:literal;)*) => {
        /// The status of a completion (RNIC-ERR-03, RNIC-GEN-06).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum WorkStatus {
            $($(#[$doc])* $variant,)*
        }

        impl WorkStatus {
            /// All of them.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Decodes the number of the verbs interface; `None` if the device never reports it.
            pub(crate) const fn from_code(code: u32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The number of the verbs interface, which programs of user space read.
            pub(crate) const fn code(self) -> u32 {
                match self {
                    $(Self::$variant => $code,)*
                }
            }

            /// The name, for logs and counters.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

statuses! {
    /// Success.
    Success 0 "success";
    /// The message is too long (RNIC-PSN-05), or longer than the receive buffer (RNIC-RSP-09).
    LocLenErr 1 "local length error";
    /// The request cannot be executed by this queue pair.
    LocQpOpErr 2 "local QP operation error";
    /// A local key does not permit the access (RNIC-REQ-10, RNIC-RSP-10).
    LocProtErr 4 "local protection error";
    /// The queue pair failed before (RNIC-ERR-01).
    WrFlushErr 5 "work request flushed";
    /// Binding a memory window failed.
    MwBindErr 6 "memory window bind error";
    /// The peer's response is malformed (RNIC-RDA-06).
    BadRespErr 7 "bad response error";
    /// The peer refused the request as invalid.
    RemInvReqErr 9 "remote invalid request error";
    /// The peer's key, rights or range do not permit the request.
    RemAccessErr 10 "remote access error";
    /// The peer could not complete the request.
    RemOpErr 11 "remote operation error";
    /// No acknowledgement after all retries (RNIC-TMO-02).
    RetryExcErr 12 "transport retry counter exceeded";
    /// No receive buffer after all retries (RNIC-FLOW-05).
    RnrRetryExcErr 13 "RNR retry counter exceeded";
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_work))]
mod tests {
    use super::*;

    /// RNIC-GEN-06, RNIC-ERR-03.
    #[test]
    fn each_status_has_a_number_and_a_name_of_its_own() {
        let mut count = 0;
        for number in 0..=u32::from(u8::MAX) {
            let Some(status) = WorkStatus::from_code(number) else {
                continue;
            };
            assert_eq!(status.code(), number);
            let same = |other: &&WorkStatus| other.name() == status.name();
            assert_eq!(WorkStatus::ALL.iter().filter(same).count(), 1);
            count += 1;
        }
        assert_eq!(count, WorkStatus::ALL.len());
        assert_eq!(WorkStatus::from_code(u32::MAX), None);
    }
}
