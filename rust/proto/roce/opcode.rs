// SPDX-License-Identifier: GPL-2.0

//! Opcodes of the transport: one table with code, name and meaning (RNIC-HDR-03, RNIC-GEN-06).

/// The transport service that an opcode belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification, which no queue pair type owns.
    Cnp,
}

impl Service {
    /// The service that the three high bits of any opcode name, defined or not.
    pub(crate) const fn of_code(code: u8) -> Option<Self> {
        match code >> 5 {
            0 => Some(Self::Rc),
            1 => Some(Self::Uc),
            3 => Some(Self::Ud),
            4 => Some(Self::Cnp),
            _ => None,
        }
    }
}

/// The operation that a packet is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// SEND into a receive buffer.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response, also the answer to FLUSH and ATOMIC WRITE.
    ReadResponse,
    /// Acknowledge, positive or negative.
    Acknowledge,
    /// The answer to CMP SWAP and FETCH ADD.
    AtomicAcknowledge,
    /// Atomic compare and swap.
    CompareSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// FLUSH (annex A19).
    Flush,
    /// ATOMIC WRITE (annex A19).
    AtomicWrite,
    /// Congestion notification packet.
    Notification,
}

impl Operation {
    /// Whether the packet goes from a responder to a requester.
    pub(crate) const fn is_response(self) -> bool {
        matches!(
            self,
            Self::ReadResponse | Self::Acknowledge | Self::AtomicAcknowledge
        )
    }
}

/// The place of a packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// First of several.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several.
    Last,
    /// The only one.
    Only,
}

impl Position {
    /// The place of packet `first`, `last` or both.
    pub(crate) const fn new(first: bool, last: bool) -> Self {
        match (first, last) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }

    /// Whether a message starts here.
    pub(crate) const fn starts(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether a message ends here.
    pub(crate) const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// The value that the end of a SEND or WRITE carries for the receiver's completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Companion {
    /// None.
    Nothing,
    /// Four octets of immediate data.
    Immediate,
    /// A key that the receiver invalidates.
    Invalidate,
}

/// Defines the opcodes and the three functions between code, name and meaning.
macro_rules! opcodes {
    ($($name:ident $code:literal $service:ident $operation:ident $position:ident
       $companion:ident;)*) => {
        /// An opcode of the base transport header.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Opcode {
            $(
                #[doc = concat!("Code ", stringify!($code), ".")]
                $name,
            )*
        }

        impl Opcode {
            /// All opcodes.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Decodes the first octet of a packet; `None` if it is not in the table.
            pub(crate) const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The first octet of a packet.
            pub(crate) const fn code(self) -> u8 {
                match self {
                    $(Self::$name => $code,)*
                }
            }

            /// The name, for logs and counters.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The service.
            pub(crate) const fn service(self) -> Service {
                match self {
                    $(Self::$name => Service::$service,)*
                }
            }

            /// The operation.
            pub(crate) const fn operation(self) -> Operation {
                match self {
                    $(Self::$name => Operation::$operation,)*
                }
            }

            /// The place in the message.
            pub(crate) const fn position(self) -> Position {
                match self {
                    $(Self::$name => Position::$position,)*
                }
            }

            /// The companion value.
            pub(crate) const fn companion(self) -> Companion {
                match self {
                    $(Self::$name => Companion::$companion,)*
                }
            }

            /// The opcode with exactly this meaning.
            const fn from_meaning(
                service: Service,
                operation: Operation,
                position: Position,
                companion: Companion,
            ) -> Option<Self> {
                match (service, operation, position, companion) {
                    $((
                        Service::$service,
                        Operation::$operation,
                        Position::$position,
                        Companion::$companion,
                    ) => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    RcSendFirst             0x00 Rc Send First Nothing;
    RcSendMiddle            0x01 Rc Send Middle Nothing;
    RcSendLast              0x02 Rc Send Last Nothing;
    RcSendLastImm           0x03 Rc Send Last Immediate;
    RcSendOnly              0x04 Rc Send Only Nothing;
    RcSendOnlyImm           0x05 Rc Send Only Immediate;
    RcWriteFirst            0x06 Rc Write First Nothing;
    RcWriteMiddle           0x07 Rc Write Middle Nothing;
    RcWriteLast             0x08 Rc Write Last Nothing;
    RcWriteLastImm          0x09 Rc Write Last Immediate;
    RcWriteOnly             0x0a Rc Write Only Nothing;
    RcWriteOnlyImm          0x0b Rc Write Only Immediate;
    RcReadRequest           0x0c Rc ReadRequest Only Nothing;
    RcReadResponseFirst     0x0d Rc ReadResponse First Nothing;
    RcReadResponseMiddle    0x0e Rc ReadResponse Middle Nothing;
    RcReadResponseLast      0x0f Rc ReadResponse Last Nothing;
    RcReadResponseOnly      0x10 Rc ReadResponse Only Nothing;
    RcAcknowledge           0x11 Rc Acknowledge Only Nothing;
    RcAtomicAcknowledge     0x12 Rc AtomicAcknowledge Only Nothing;
    RcCompareSwap           0x13 Rc CompareSwap Only Nothing;
    RcFetchAdd              0x14 Rc FetchAdd Only Nothing;
    RcSendLastInv           0x16 Rc Send Last Invalidate;
    RcSendOnlyInv           0x17 Rc Send Only Invalidate;
    RcFlush                 0x1c Rc Flush Only Nothing;
    RcAtomicWrite           0x1d Rc AtomicWrite Only Nothing;
    UcSendFirst             0x20 Uc Send First Nothing;
    UcSendMiddle            0x21 Uc Send Middle Nothing;
    UcSendLast              0x22 Uc Send Last Nothing;
    UcSendLastImm           0x23 Uc Send Last Immediate;
    UcSendOnly              0x24 Uc Send Only Nothing;
    UcSendOnlyImm           0x25 Uc Send Only Immediate;
    UcWriteFirst            0x26 Uc Write First Nothing;
    UcWriteMiddle           0x27 Uc Write Middle Nothing;
    UcWriteLast             0x28 Uc Write Last Nothing;
    UcWriteLastImm          0x29 Uc Write Last Immediate;
    UcWriteOnly             0x2a Uc Write Only Nothing;
    UcWriteOnlyImm          0x2b Uc Write Only Immediate;
    UdSendOnly              0x64 Ud Send Only Nothing;
    UdSendOnlyImm           0x65 Ud Send Only Immediate;
    Cnp                     0x81 Cnp Notification Only Nothing;
}

impl Opcode {
    /// The opcode of a packet; `None` if the service has no such packet. Only the end of a message
    /// carries the companion, which is left out before.
    pub(crate) const fn find(
        service: Service,
        operation: Operation,
        position: Position,
        companion: Companion,
    ) -> Option<Self> {
        let companion = if position.ends() {
            companion
        } else {
            Companion::Nothing
        };
        Self::from_meaning(service, operation, position, companion)
    }
}

#[cfg(any(test, CONFIG_RDMA_SOFT_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(rdma_soft_roce_opcode))]
mod tests {
    use super::*;

    /// RNIC-HDR-03, RNIC-GEN-06.
    #[test]
    fn defined_codes_are_those_of_the_standard() {
        let mut count = 0;
        for code in 0..=u8::MAX {
            let defined = matches!(
                code,
                0x00..=0x14 | 0x16 | 0x17 | 0x1c | 0x1d | 0x20..=0x2b | 0x64 | 0x65 | 0x81
            );
            match Opcode::from_code(code) {
                Some(opcode) => {
                    assert!(defined);
                    assert_eq!(opcode.code(), code);
                    assert_eq!(Some(opcode.service()), Service::of_code(code));
                    count += 1;
                }
                None => assert!(!defined),
            }
        }
        assert_eq!(count, Opcode::ALL.len());
    }

    /// RNIC-GEN-06, RNIC-REQ-13.
    #[test]
    fn every_opcode_is_found_by_its_meaning() {
        for &opcode in Opcode::ALL {
            let found = Opcode::find(
                opcode.service(),
                opcode.operation(),
                opcode.position(),
                opcode.companion(),
            );
            assert_eq!(found, Some(opcode));
            let same = |other: &&Opcode| other.name() == opcode.name();
            assert_eq!(Opcode::ALL.iter().filter(same).count(), 1);
        }
    }

    #[test]
    fn companion_of_first_packet_is_left_out() {
        assert_eq!(
            Opcode::find(
                Service::Rc,
                Operation::Send,
                Position::First,
                Companion::Immediate
            ),
            Some(Opcode::RcSendFirst)
        );
        assert_eq!(
            Opcode::find(
                Service::Uc,
                Operation::ReadRequest,
                Position::Only,
                Companion::Nothing
            ),
            None
        );
    }

    #[test]
    fn code_of_unknown_service_has_none() {
        assert_eq!(Service::of_code(0x40), None);
        assert_eq!(Service::of_code(0xa0), None);
        assert_eq!(Service::of_code(0x1f), Some(Service::Rc));
    }
}
