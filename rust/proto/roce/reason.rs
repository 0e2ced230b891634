// SPDX-License-Identifier: GPL-2.0

//! Why a work request failed: finer than the status of its completion (RNIC-ERR-04).
//!
//! A completion with an error carries the code of its reason, in `vendor_err`. The table here is the list
//! of codes; `Documentation/soft-rnic.rst` explains each of them to programs, whose authors rely on the
//! numbers. A code never gets another meaning.

use super::work::WorkStatus;

/// Defines the reasons: code, status of the completion, name.
macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $status:ident, $name:literal;)*) => {
        /// Why a work request failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Reason {
            $($(#[$doc])* $variant,)*
        }

        impl Reason {
            /// All reasons, in the order of their codes.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code, which is not 0.
            pub(crate) const fn code(self) -> u32 {
                match self {
                    $(Self::$variant => $code,)*
                }
            }

            /// The status of the completion (RNIC-ERR-03).
            pub(crate) const fn status(self) -> WorkStatus {
                match self {
                    $(Self::$variant => WorkStatus::$status,)*
                }
            }

            /// The name, for documentation and logs (RNIC-GEN-06).
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

reasons! {
    // The request itself, or memory of this side.

    /// A program in user space filled its ring with something else than a request (RNIC-SEC-02).
    Malformed = 0x101, LocQpOpErr, "malformed request";
    /// The service of the queue pair does not have the operation.
    OtherService = 0x102, LocQpOpErr, "operation of another service";
    /// The queue pair may have no READ in flight (RNIC-REQ-15).
    NoReads = 0x103, LocQpOpErr, "no READs permitted";
    /// The message is longer than the service permits (RNIC-PSN-05, RNIC-UD-01).
    TooLong = 0x104, LocLenErr, "message too long";
    /// The operand is not one of eight octets.
    NoWord = 0x105, LocLenErr, "operand of another length";
    /// A local key does not permit to read the octets that are sent (RNIC-REQ-10).
    SourceDenied = 0x106, LocProtErr, "source not readable";
    /// A local key does not permit to write the octets of a response (RNIC-REQ-10).
    SinkDenied = 0x107, LocProtErr, "destination not writable";
    /// The region cannot be registered like that (RNIC-REQ-12).
    NotRegistered = 0x108, LocQpOpErr, "registration refused";
    /// The local key cannot be invalidated (RNIC-REQ-12).
    NotInvalidated = 0x109, LocQpOpErr, "invalidation refused";
    /// The window cannot be bound like that (RNIC-MR-14).
    NotBound = 0x10a, MwBindErr, "binding refused";
    /// The address handle is one of another protection domain (RNIC-UD-06).
    OtherDomain = 0x10b, LocQpOpErr, "address handle of another domain";
    /// The device contradicts itself.
    Inconsistent = 0x10c, LocQpOpErr, "error of the device";

    // What the peer answered, or that it did not.

    /// The peer refused the request as invalid.
    PeerInvalid = 0x201, RemInvReqErr, "NAK: invalid request";
    /// The peer refused the access to its memory.
    PeerAccess = 0x202, RemAccessErr, "NAK: remote access error";
    /// The peer failed to execute the request.
    PeerOperation = 0x203, RemOpErr, "NAK: remote operational error";
    /// The peer had no receive request after all retries (RNIC-FLOW-05).
    PeerNotReady = 0x204, RnrRetryExcErr, "peer not ready";
    /// The peer was silent after all retries (RNIC-TMO-02).
    NoAnswer = 0x205, RetryExcErr, "no answer";
    /// The peer missed packets, or this side missed answers, after all retries (RNIC-TMO-04).
    Losses = 0x206, RetryExcErr, "repeated losses";
    /// The acknowledgement has a reserved syndrome (RNIC-RDA-06).
    BadSyndrome = 0x207, BadRespErr, "unknown acknowledgement";
    /// The response is one to another operation (RNIC-RDA-06).
    OtherResponse = 0x208, BadRespErr, "response to another operation";
    /// The response has another length or place than the request asks for (RNIC-RDA-06).
    BadResponse = 0x209, BadRespErr, "response of another length";

    // A request of the peer, with the receive request that it took.

    /// The packet is not one that follows the last one (RNIC-RSP-03).
    OutOfOrder = 0x301, RemInvReqErr, "packet out of its message";
    /// The queue pair does not permit the operation, or not like that (RNIC-RSP-04).
    NotPermitted = 0x302, RemInvReqErr, "operation not permitted";
    /// Payload and length of the message contradict each other (RNIC-RSP-05).
    BadLength = 0x303, RemInvReqErr, "wrong length of a request";
    /// There are more READs in flight than the queue pair has room for (RNIC-RDA-01).
    TooManyReads = 0x304, RemInvReqErr, "too many READs";
    /// No service has the opcode (RNIC-HDR-03).
    UnknownOpcode = 0x305, RemInvReqErr, "unknown opcode";
    /// The key does not permit the access (RNIC-RSP-07).
    KeyRefused = 0x306, RemAccessErr, "key does not permit the access";
    /// The key went away within the message (RNIC-RSP-21).
    KeyGone = 0x307, RemAccessErr, "key gone within a message";
    /// The message is longer than the receive buffer (RNIC-RSP-09).
    ReceiveTooShort = 0x308, LocLenErr, "receive buffer too short";
    /// A local key does not permit to write the receive buffer (RNIC-RSP-10).
    ReceiveDenied = 0x309, LocProtErr, "receive buffer not writable";
    /// The key that the message names cannot be invalidated (RNIC-RSP-18).
    KeyKept = 0x30a, RemInvReqErr, "key of a message not invalidated";

    // Neither.

    /// The queue pair failed before, or the program has ended it (RNIC-ERR-01, RNIC-ERR-06).
    Flushed = 0x401, WrFlushErr, "flushed";
}

impl WorkStatus {
    /// The status of a request with this result.
    pub(crate) const fn of(result: Result<(), Reason>) -> Self {
        match result {
            Ok(()) => Self::Success,
            Err(reason) => reason.status(),
        }
    }
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_reason))]
mod tests {
    use super::*;

    /// RNIC-ERR-04, RNIC-GEN-06.
    #[test]
    fn each_reason_has_a_code_and_a_name_of_its_own() {
        let codes = || Reason::ALL.iter().map(|reason| reason.code());
        // Ascending, and so none of them twice.
        assert!(codes().zip(codes().skip(1)).all(|(one, next)| one < next));
        assert!(codes().all(|code| code != 0));
        for reason in Reason::ALL {
            let same = |other: &&Reason| other.name() == reason.name();
            assert!(!reason.name().is_empty());
            assert_eq!(Reason::ALL.iter().filter(same).count(), 1);
        }
    }

    /// RNIC-ERR-03, RNIC-ERR-04.
    #[test]
    fn each_status_of_an_error_has_a_reason() {
        use WorkStatus::*;
        for status in [
            LocLenErr,
            LocProtErr,
            LocQpOpErr,
            MwBindErr,
            BadRespErr,
            RemInvReqErr,
            RemAccessErr,
            RemOpErr,
            RetryExcErr,
            RnrRetryExcErr,
            WrFlushErr,
        ] {
            assert!(Reason::ALL.iter().any(|reason| reason.status() == status));
        }
        assert!(Reason::ALL.iter().all(|reason| reason.status() != Success));
        assert_eq!(WorkStatus::of(Ok(())), Success);
        assert_eq!(WorkStatus::of(Err(Reason::NoAnswer)), RetryExcErr);
    }
}

#[cfg(test)]
mod documentation {
    use super::*;

    /// RNIC-ERR-04: the list for programs has the codes, and no others.
    #[test]
    fn each_reason_is_documented() {
        let pages = include_str!("../../../Documentation/soft-rnic.rst");
        let mut documented = Vec::new();
        for line in pages.lines().filter(|line| line.starts_with("``0x")) {
            let mut words = line.split("``");
            let code = words.nth(1).and_then(|code| code.strip_prefix("0x"));
            let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
            documented.push((code, line.contains("``IBV_WC_")));
        }
        let listed: Vec<_> = Reason::ALL
            .iter()
            .map(|reason| (Some(reason.code()), true))
            .collect();
        assert_eq!(documented, listed);
    }
}
