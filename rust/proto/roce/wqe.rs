// SPDX-License-Identifier: GPL-2.0

//! Work requests in the rings of user space, in the layout of rxe's interface (RNIC-UAPI-01).
//!
//! A request is parsed from a private copy of its slot. Nothing that only the kernel may ask for can
//! come out: neither a registration nor an address of the kernel (RNIC-SEC-02, RNIC-SEC-03).

use super::{
    header::Feth,
    opcode::Service, //
};
use zerocopy::{
    byteorder::native_endian::{
        U16,
        U32,
        U64, //
    },
    FromBytes, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    KnownLayout,
    Unaligned, //
};

/// Octets of a send work request in front of its data.
pub(crate) const SEND_HEAD: u32 = 208;
/// Octets of a receive work request in front of its elements.
pub(crate) const RECEIVE_HEAD: u32 = 40;
/// Octets of a scatter/gather element.
pub(crate) const SGE_LEN: u32 = 16;
/// Octets of an ATOMIC WRITE.
const WORD: u32 = 8;

/// The octets of a send work request in front of its data.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSend {
    /// Number for the completion.
    id: U64,
    /// Unused.
    reserved: U32,
    /// Operation, in the numbers of the verbs interface.
    opcode: U32,
    /// Flags.
    flags: U32,
    /// Immediate data in the order of the wire, or a key.
    ex: [u8; 4],
    /// Depends on the operation.
    operation: [u8; 120],
    /// Working state of rxe, which this device keeps elsewhere.
    state: [u8; 40],
    /// Extent of the data.
    data: RawData,
}

/// The extent of the data of a work request.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawData {
    /// Octets.
    len: U32,
    /// Working state of rxe.
    resid: U32,
    /// Working state of rxe.
    current: U32,
    /// Scatter/gather elements.
    count: U32,
    /// Working state of rxe.
    offset: U32,
    /// Unused.
    reserved: U32,
}

/// The octets of a receive work request in front of its elements.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawReceive {
    /// Number for the completion.
    id: U64,
    /// Unused.
    reserved: [u8; 8],
    /// Extent of the buffer.
    data: RawData,
}

/// The part of a request that names memory of the peer.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRemote {
    /// First octet.
    addr: U64,
    /// Key.
    rkey: U32,
}

/// The part of a request for an atomic operation.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAtomic {
    /// The word.
    addr: U64,
    /// The value to compare with, or to add.
    compare_add: U64,
    /// The new value.
    swap: U64,
    /// Key.
    rkey: U32,
}

/// The part of a request that flushes memory of the peer.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawFlush {
    /// First octet.
    addr: U64,
    /// Octets.
    len: U32,
    /// Key.
    rkey: U32,
    /// Placement types.
    placement: u8,
    /// Selectivity level.
    level: u8,
}

/// The part of a request that binds a memory window.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBind {
    /// First octet, as the region names it.
    addr: U64,
    /// Octets.
    len: U64,
    /// Key of the region.
    lkey: U32,
    /// Key of the window.
    window: U32,
    /// Its next key.
    key: U32,
    /// Rights.
    access: U32,
}

/// The part of a request for a datagram.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDatagram {
    /// Queue pair of the peer.
    qpn: U32,
    /// Its key.
    qkey: U32,
    /// Index of the partition key, of which there is one.
    pkey_index: U16,
    /// Unused.
    reserved: U16,
    /// Number of the address handle.
    handle: U32,
}

/// A scatter/gather element.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawElement {
    /// First octet.
    addr: U64,
    /// Octets.
    len: U32,
    /// Key.
    lkey: U32,
}

/// Memory of the peer that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserRemote {
    /// First octet.
    pub(crate) addr: u64,
    /// Key.
    pub(crate) rkey: u32,
}

/// Memory of the peer that a request flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserFlush {
    /// First octet and key.
    pub(crate) remote: UserRemote,
    /// Octets.
    pub(crate) len: u32,
    /// Whether the range, the region or something else, and in which way.
    pub(crate) scope: Feth,
}

/// Memory that a window gives access to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserBind {
    /// Key of the window.
    pub(crate) window: u32,
    /// Its next key, of which the low bits count.
    pub(crate) key: u32,
    /// Key of the region.
    pub(crate) lkey: u32,
    /// First octet, as the region names it.
    pub(crate) addr: u64,
    /// Octets.
    pub(crate) len: u64,
    /// Rights, in the numbers of the verbs interface.
    pub(crate) access: u32,
}

/// The operation of a send work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserOp {
    /// SEND.
    Send,
    /// SEND with immediate data, in the order of the wire.
    SendImm([u8; 4]),
    /// SEND that invalidates a key of the receiver.
    SendInv(u32),
    /// RDMA WRITE.
    Write(UserRemote),
    /// RDMA WRITE with immediate data.
    WriteImm(UserRemote, [u8; 4]),
    /// RDMA READ.
    Read(UserRemote),
    /// Compare and swap: the value to compare with, and the new one.
    CompareSwap(UserRemote, u64, u64),
    /// Fetch and add.
    FetchAdd(UserRemote, u64),
    /// Invalidates a local key.
    LocalInv(u32),
    /// Binds a memory window.
    BindMw(UserBind),
    /// FLUSH.
    Flush(UserFlush),
    /// ATOMIC WRITE.
    AtomicWrite(UserRemote),
}

impl UserOp {
    /// Whether it sends data of its own.
    const fn sends_data(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendImm(_) | Self::SendInv(_) | Self::Write(_) | Self::WriteImm(..)
        )
    }
}

/// The data of a work request, behind its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserData {
    /// That many scatter/gather elements.
    Elements(usize),
    /// That many octets.
    Inline(usize),
}

/// The destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserDest {
    /// Number of the address handle, not 0.
    pub(crate) handle: u32,
    /// Queue pair.
    pub(crate) qpn: u32,
    /// Its key.
    pub(crate) qkey: u32,
}

/// Limits of a queue pair for the requests of its user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserLimits {
    /// Scatter/gather elements.
    pub(crate) sges: u32,
    /// Octets of inline data.
    pub(crate) inline: u32,
}

/// A send work request of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserSend {
    /// Number for the completion.
    pub(crate) id: u64,
    /// Operation.
    pub(crate) op: UserOp,
    /// Data.
    pub(crate) data: UserData,
    /// Destination of a datagram.
    pub(crate) dest: Option<UserDest>,
    /// Whether success generates a completion.
    pub(crate) signaled: bool,
    /// Whether it waits for earlier READs and atomics.
    pub(crate) fence: bool,
    /// Whether the receiver's completion is solicited.
    pub(crate) solicited: bool,
}

/// A work request cannot be executed (RNIC-SEC-02).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedWqe {
    /// Number for the completion.
    pub(crate) id: u64,
}

/// Flags of a send work request (RNIC-UAPI-08).
mod flag {
    pub(super) const FENCE: u32 = 1;
    pub(super) const SIGNALED: u32 = 2;
    pub(super) const SOLICITED: u32 = 4;
    pub(super) const INLINE: u32 = 8;
    /// For raw Ethernet; ignored.
    pub(super) const IP_CSUM: u32 = 16;
    pub(super) const KNOWN: u32 = FENCE | SIGNALED | SOLICITED | INLINE | IP_CSUM;
}

impl UserSend {
    /// Reads the head of a request of a queue pair with a service.
    ///
    /// # Errors
    ///
    /// [`MalformedWqe`] for an operation or flag that the queue pair does not have, too many elements, or
    /// too many octets of inline data (RNIC-UAPI-08, RNIC-UAPI-09).
    pub(crate) fn parse(
        octets: &[u8],
        service: Service,
        limits: UserLimits,
    ) -> Result<Self, MalformedWqe> {
        let Ok((raw, _)) = RawSend::ref_from_prefix(octets) else {
            return Err(MalformedWqe { id: 0 });
        };
        let id = raw.id.get();
        Self::from_raw(raw, service, limits).ok_or(MalformedWqe { id })
    }

    fn from_raw(raw: &RawSend, service: Service, limits: UserLimits) -> Option<Self> {
        let op = raw.operation()?;
        let dest = match service {
            Service::Ud => {
                if !matches!(op, UserOp::Send | UserOp::SendImm(_)) {
                    return None;
                }
                Some(destination(raw)?)
            }
            Service::Rc | Service::Uc | Service::Cnp => None,
        };
        let flags = raw.flags.get();
        if flags & !flag::KNOWN != 0 {
            return None;
        }
        let data = if matches!(op, UserOp::AtomicWrite(_)) {
            // Its octets are in the request, with the flag for inline data and without.
            if raw.data.len.get() != WORD {
                return None;
            }
            UserData::Inline(usize::try_from(WORD).ok()?)
        } else if flags & flag::INLINE != 0 {
            let len = raw.data.len.get();
            if !op.sends_data() || len > limits.inline {
                return None;
            }
            UserData::Inline(usize::try_from(len).ok()?)
        } else if matches!(
            op,
            UserOp::LocalInv(_) | UserOp::BindMw(_) | UserOp::Flush(_)
        ) {
            UserData::Elements(0)
        } else {
            let count = raw.data.count.get();
            if count > limits.sges {
                return None;
            }
            UserData::Elements(usize::try_from(count).ok()?)
        };
        Some(Self {
            id: raw.id.get(),
            op,
            data,
            dest,
            signaled: flags & flag::SIGNALED != 0,
            fence: flags & flag::FENCE != 0,
            solicited: flags & flag::SOLICITED != 0,
        })
    }
}

impl RawSend {
    fn remote(&self) -> Option<UserRemote> {
        let (raw, _) = RawRemote::ref_from_prefix(&self.operation).ok()?;
        Some(UserRemote {
            addr: raw.addr.get(),
            rkey: raw.rkey.get(),
        })
    }

    /// Where, what to compare with or to add, and what to put.
    fn atomic(&self) -> Option<(UserRemote, u64, u64)> {
        let (raw, _) = RawAtomic::ref_from_prefix(&self.operation).ok()?;
        let remote = UserRemote {
            addr: raw.addr.get(),
            rkey: raw.rkey.get(),
        };
        Some((remote, raw.compare_add.get(), raw.swap.get()))
    }

    fn bind(&self) -> Option<UserBind> {
        let (raw, _) = RawBind::ref_from_prefix(&self.operation).ok()?;
        Some(UserBind {
            window: raw.window.get(),
            key: raw.key.get(),
            lkey: raw.lkey.get(),
            addr: raw.addr.get(),
            len: raw.len.get(),
            access: raw.access.get(),
        })
    }

    fn flush(&self) -> Option<UserFlush> {
        let (raw, _) = RawFlush::ref_from_prefix(&self.operation).ok()?;
        // The header has no room for more.
        if raw.placement > Feth::MAX_PLACEMENT || raw.level > Feth::MAX_LEVEL {
            return None;
        }
        Some(UserFlush {
            remote: UserRemote {
                addr: raw.addr.get(),
                rkey: raw.rkey.get(),
            },
            len: raw.len.get(),
            scope: Feth {
                placement: raw.placement,
                level: raw.level,
            },
        })
    }

    /// The operation, if this device offers it to user space.
    fn operation(&self) -> Option<UserOp> {
        let key = || u32::from_ne_bytes(self.ex);
        Some(match self.opcode.get() {
            0 => UserOp::Write(self.remote()?),
            1 => UserOp::WriteImm(self.remote()?, self.ex),
            2 => UserOp::Send,
            3 => UserOp::SendImm(self.ex),
            4 => UserOp::Read(self.remote()?),
            5 => {
                let (remote, compare, swap) = self.atomic()?;
                UserOp::CompareSwap(remote, compare, swap)
            }
            6 => {
                let (remote, add, _) = self.atomic()?;
                UserOp::FetchAdd(remote, add)
            }
            7 => UserOp::LocalInv(key()),
            8 => UserOp::BindMw(self.bind()?),
            9 => UserOp::SendInv(key()),
            14 => UserOp::Flush(self.flush()?),
            15 => UserOp::AtomicWrite(self.remote()?),
            // The rest is the kernel's or nothing.
            _ => return None,
        })
    }
}

/// The destination of a datagram. Without a handle there is none: an address in the ring would let the
/// user choose its source (RNIC-AH-02).
fn destination(raw: &RawSend) -> Option<UserDest> {
    let (raw, _) = RawDatagram::ref_from_prefix(&raw.operation).ok()?;
    let handle = raw.handle.get();
    (handle != 0).then(|| UserDest {
        handle,
        qpn: raw.qpn.get(),
        qkey: raw.qkey.get(),
    })
}

/// A receive work request of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserReceive {
    /// Number for the completion.
    pub(crate) id: u64,
    /// Scatter/gather elements behind the head.
    pub(crate) count: usize,
}

impl UserReceive {
    /// Reads the head of a request. With more than `sges` elements it has no room at all.
    pub(crate) fn parse(octets: &[u8], sges: u32) -> Self {
        let Ok((raw, _)) = RawReceive::ref_from_prefix(octets) else {
            return Self { id: 0, count: 0 };
        };
        let count = Some(raw.data.count.get()).filter(|count| *count <= sges);
        Self {
            id: raw.id.get(),
            count: count
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(0),
        }
    }
}

/// A scatter/gather element of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserElement {
    /// First octet, as the key's region names it.
    pub(crate) addr: u64,
    /// Octets.
    pub(crate) len: u32,
    /// Key.
    pub(crate) lkey: u32,
}

impl UserElement {
    /// Reads an element; `None` if there are too few octets.
    pub(crate) fn parse(octets: &[u8]) -> Option<Self> {
        let (raw, _) = RawElement::ref_from_prefix(octets).ok()?;
        Some(Self {
            addr: raw.addr.get(),
            len: raw.len.get(),
            lkey: raw.lkey.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: UserLimits = UserLimits {
        sges: 3,
        inline: 48,
    };

    /// The head of a request with these words at these offsets.
    fn head(words: &[(usize, u32)]) -> [u8; 208] {
        let mut octets = [0; 208];
        octets[..8].copy_from_slice(&77_u64.to_ne_bytes());
        for (at, word) in words {
            octets[*at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        octets
    }

    fn parse(service: Service, words: &[(usize, u32)]) -> Result<UserSend, MalformedWqe> {
        UserSend::parse(&head(words), service, LIMITS)
    }

    const MALFORMED: Result<UserSend, MalformedWqe> = Err(MalformedWqe { id: 77 });

    #[test]
    fn write_with_immediate_comes_out() {
        let words = [
            (12, 1),
            (16, 2 | 4),
            (20, 0x0102_0304),
            (24, 0x1000),
            (28, 1),
            (32, 0x55),
            (196, 2),
        ];
        let wr = parse(Service::Rc, &words).unwrap();
        let remote = UserRemote {
            addr: 0x1_0000_1000,
            rkey: 0x55,
        };
        assert_eq!(wr.id, 77);
        assert_eq!(
            wr.op,
            UserOp::WriteImm(remote, 0x0102_0304_u32.to_ne_bytes())
        );
        assert_eq!(wr.data, UserData::Elements(2));
        assert!(wr.signaled && wr.solicited && !wr.fence);
        assert_eq!(wr.dest, None);
    }

    #[test]
    fn atomics_have_their_operands() {
        let words = [
            (12, 5),
            (24, 8),
            (32, 1),
            (40, 2),
            (48, 0x77),
            (16, 1),
            (196, 1),
        ];
        let remote = UserRemote {
            addr: 8,
            rkey: 0x77,
        };
        let wr = parse(Service::Rc, &words).unwrap();
        assert_eq!(wr.op, UserOp::CompareSwap(remote, 1, 2));
        assert!(wr.fence);
        let mut words = words;
        words[0] = (12, 6);
        assert_eq!(
            parse(Service::Rc, &words).unwrap().op,
            UserOp::FetchAdd(remote, 1)
        );
    }

    /// RNIC-MR-14.
    #[test]
    fn window_has_its_range_and_keys() {
        let words = [
            (12, 8),
            (16, 2),
            (24, 0x1000),
            (32, 0x20),
            (36, 1),
            (40, 0xa01),
            (44, 0xb02),
            (48, 0xb03),
            (52, 6),
            // No data, whatever the request says.
            (196, u32::MAX),
        ];
        let wr = parse(Service::Rc, &words).unwrap();
        let bind = UserBind {
            window: 0xb02,
            key: 0xb03,
            lkey: 0xa01,
            addr: 0x1000,
            len: 0x1_0000_0020,
            access: 6,
        };
        assert_eq!(
            (wr.op, wr.data),
            (UserOp::BindMw(bind), UserData::Elements(0))
        );
    }

    /// RNIC-RDA-09, RNIC-UAPI-09.
    #[test]
    fn atomic_write_has_eight_octets_in_the_request() {
        for flags in [0, 8] {
            let words = [(12, 15), (16, flags), (24, 0x1000), (32, 0xa01), (184, 8)];
            let wr = parse(Service::Rc, &words).unwrap();
            let remote = UserRemote {
                addr: 0x1000,
                rkey: 0xa01,
            };
            assert_eq!(
                (wr.op, wr.data),
                (UserOp::AtomicWrite(remote), UserData::Inline(8))
            );
        }
        for len in [0, 4, 7, 9, 16, u32::MAX] {
            assert_eq!(parse(Service::Rc, &[(12, 15), (184, len)]), MALFORMED);
        }
    }

    /// RNIC-RDA-10.
    #[test]
    fn flush_names_range_and_scope_and_sends_no_data() {
        let words = [
            (12, 14),
            (24, 0x1000),
            (32, 64),
            (36, 0xa01),
            (40, 0x0102),
            (196, u32::MAX),
        ];
        let wr = parse(Service::Rc, &words).unwrap();
        let flush = UserFlush {
            remote: UserRemote {
                addr: 0x1000,
                rkey: 0xa01,
            },
            len: 64,
            scope: Feth {
                placement: Feth::PERSISTENT,
                level: Feth::REGION,
            },
        };
        assert_eq!(
            (wr.op, wr.data),
            (UserOp::Flush(flush), UserData::Elements(0))
        );
        for scope in [0x10, 0xff, 0x0401, 0xff01] {
            assert_eq!(parse(Service::Rc, &[(12, 14), (40, scope)]), MALFORMED);
        }
    }

    /// RNIC-SEC-02, RNIC-SEC-03.
    #[test]
    fn operation_that_is_not_offered_is_malformed() {
        let offered = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 15];
        for opcode in (0..=0x200).chain([u32::MAX, 1 << 31]) {
            let len = if opcode == 15 { 8 } else { 0 };
            let parsed = parse(Service::Rc, &[(12, opcode), (184, len)]);
            assert_eq!(parsed.is_ok(), offered.contains(&opcode), "{opcode:#x}");
            if parsed.is_err() {
                assert_eq!(parsed, MALFORMED);
            }
            let datagram = parse(Service::Ud, &[(12, opcode), (36, 5)]);
            assert_eq!(datagram.is_ok(), [2, 3].contains(&opcode), "{opcode:#x}");
        }
    }

    /// RNIC-UAPI-08.
    #[test]
    fn unknown_flag_is_malformed() {
        for bit in 0..32 {
            let parsed = parse(Service::Rc, &[(12, 2), (16, 1 << bit)]);
            assert_eq!(parsed.is_ok(), bit < 5, "{bit}");
        }
    }

    /// RNIC-SEC-04.
    #[test]
    fn too_many_elements_are_malformed() {
        for count in [4, 5, 1 << 31, u32::MAX] {
            assert_eq!(parse(Service::Rc, &[(12, 2), (196, count)]), MALFORMED);
        }
        let wr = parse(Service::Rc, &[(12, 2), (196, 3)]).unwrap();
        assert_eq!(wr.data, UserData::Elements(3));
        // A request without data has no elements.
        let wr = parse(Service::Rc, &[(12, 7), (20, 9), (196, u32::MAX)]).unwrap();
        assert_eq!(
            (wr.op, wr.data),
            (UserOp::LocalInv(9), UserData::Elements(0))
        );
    }

    /// RNIC-UAPI-09.
    #[test]
    fn inline_data_are_bounded_and_only_sent() {
        let wr = parse(Service::Rc, &[(12, 2), (16, 8), (184, 48)]).unwrap();
        assert_eq!(wr.data, UserData::Inline(48));
        for len in [49, 1 << 31, u32::MAX] {
            assert_eq!(
                parse(Service::Rc, &[(12, 2), (16, 8), (184, len)]),
                MALFORMED
            );
        }
        for opcode in [4, 5, 6, 7, 8, 14] {
            assert_eq!(
                parse(Service::Rc, &[(12, opcode), (16, 8), (184, 8)]),
                MALFORMED
            );
        }
    }

    /// RNIC-AH-02.
    #[test]
    fn datagram_without_handle_is_malformed() {
        let words = [(12, 2), (24, 0x123), (28, 0x8000_0001), (36, 0)];
        assert_eq!(parse(Service::Ud, &words), MALFORMED);
        let mut words = words;
        words[3] = (36, 9);
        let wr = parse(Service::Ud, &words).unwrap();
        let dest = UserDest {
            handle: 9,
            qpn: 0x123,
            qkey: 0x8000_0001,
        };
        assert_eq!(wr.dest, Some(dest));
    }

    #[test]
    fn short_copy_is_malformed() {
        let octets = head(&[(12, 2)]);
        assert_eq!(
            UserSend::parse(&octets[..207], Service::Rc, LIMITS),
            Err(MalformedWqe { id: 0 })
        );
    }

    #[test]
    fn receive_with_too_many_elements_has_no_room() {
        let mut octets = [0; 40];
        octets[..8].copy_from_slice(&5_u64.to_ne_bytes());
        for (count, want) in [(0_u32, 0), (2, 2), (3, 0), (u32::MAX, 0)] {
            octets[28..32].copy_from_slice(&count.to_ne_bytes());
            assert_eq!(
                UserReceive::parse(&octets, 2),
                UserReceive { id: 5, count: want }
            );
        }
        assert_eq!(
            UserReceive::parse(&octets[..39], 2),
            UserReceive { id: 0, count: 0 }
        );
    }

    #[test]
    fn element_comes_out() {
        let mut octets = [0; 16];
        octets[..8].copy_from_slice(&0x1234_u64.to_ne_bytes());
        octets[8..12].copy_from_slice(&7_u32.to_ne_bytes());
        octets[12..].copy_from_slice(&0xa01_u32.to_ne_bytes());
        let want = UserElement {
            addr: 0x1234,
            len: 7,
            lkey: 0xa01,
        };
        assert_eq!(UserElement::parse(&octets), Some(want));
        assert_eq!(UserElement::parse(&octets[..15]), None);
    }
}
