// SPDX-License-Identifier: GPL-2.0

//! Packets: building, sending, and reading those that arrived.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use super::{
    netdev_ref::NetDevice,
    sender::Sender, //
};
use crate::bindings;
use core::ptr::{
    null_mut,
    NonNull, //
};
use kernel::{
    error::to_result,
    ffi,
    prelude::*, //
};

/// Memory for one packet at a time, by which its receiver in the same kernel recognises the packet.
///
/// # Invariants
///
/// The pointer is to pages of which this object has a reference.
pub(crate) struct PacketPage(NonNull<bindings::page>);

// SAFETY: Pages may be released anywhere.
unsafe impl Send for PacketPage {}
// SAFETY: A shared reference only compares the pointer.
unsafe impl Sync for PacketPage {}

impl PacketPage {
    /// Memory of its own. Context: any.
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: The helper has no preconditions.
        let page = unsafe { bindings::rdma_sock_helper_packet_page_alloc() };
        // INVARIANT: Just made.
        NonNull::new(page).map(Self)
    }

    /// A packet with room for `head` octets from the network header on, and for `rest` octets in this
    /// memory. `None` without memory, or as long as an earlier packet has this memory. Context: any.
    pub(crate) fn packet(&mut self, head: usize, rest: usize) -> Option<TxPacket> {
        let (mut octets, mut behind) = (null_mut(), null_mut());
        // SAFETY: The page is valid by the type invariants, and the results are valid for writes.
        let skb = unsafe {
            bindings::rdma_sock_helper_packet_alloc_on(
                self.0.as_ptr(),
                u32::try_from(head).ok()?,
                u32::try_from(rest).ok()?,
                &mut octets,
                &mut behind,
            )
        };
        let (skb, octets) = (NonNull::new(skb)?, NonNull::new(octets)?);
        let behind = NonNull::new(behind)?;
        // The caller may read what it has not written.
        // SAFETY: The helper gives that number of octets of each, and nothing else has them: only this
        // object and the packet have a reference to the page.
        unsafe {
            octets.write_bytes(0, head);
            behind.write_bytes(0, rest);
        }
        // INVARIANT: Just made.
        Some(TxPacket {
            skb,
            octets,
            len: head,
            behind: Some((behind, rest)),
        })
    }
}

impl Drop for PacketPage {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_sock_helper_packet_page_put(self.0.as_ptr()) }
    }
}

/// A packet that is being built.
///
/// # Invariants
///
/// `skb` is valid and this object's own; `octets` are `len` octets of it, and `behind` are the octets
/// behind them, if they are elsewhere. Nothing else accesses any of them.
pub(crate) struct TxPacket {
    skb: NonNull<bindings::sk_buff>,
    octets: NonNull<u8>,
    len: usize,
    behind: Option<(NonNull<u8>, usize)>,
}

impl TxPacket {
    /// A packet with room for `len` octets from the network header on, filled with what was in the
    /// memory. Context: any.
    pub(crate) fn new(len: usize) -> Option<Self> {
        let mut octets = null_mut();
        // SAFETY: The result is valid for writes.
        let skb = unsafe {
            bindings::rdma_sock_helper_packet_alloc(u32::try_from(len).ok()?, &mut octets)
        };
        let (skb, octets) = (NonNull::new(skb)?, NonNull::new(octets)?);
        // The caller may read what it has not written.
        // SAFETY: The helper gives that number of octets.
        unsafe { octets.write_bytes(0, len) };
        // INVARIANT: Just made.
        Some(Self {
            skb,
            octets,
            len,
            behind: None,
        })
    }

    /// The first `head` octets, and those behind them; `None` if there are fewer, or if another number
    /// of octets is elsewhere.
    pub(crate) fn split(&mut self, head: usize) -> Option<(&mut [u8], &mut [u8])> {
        // SAFETY: By the type invariants, and they were initialised when the packet was made.
        let octets = unsafe { core::slice::from_raw_parts_mut(self.octets.as_ptr(), self.len) };
        match self.behind {
            None => octets.split_at_mut_checked(head),
            // SAFETY: As above.
            Some((behind, len)) => (head == self.len).then_some((octets, unsafe {
                core::slice::from_raw_parts_mut(behind.as_ptr(), len)
            })),
        }
    }

    /// Octets from the network header on.
    pub(crate) fn len(&self) -> usize {
        let behind = self.behind.map_or(0, |(_, len)| len);
        self.len.saturating_add(behind)
    }

    fn into_raw(self) -> *mut bindings::sk_buff {
        core::mem::ManuallyDrop::new(self).skb.as_ptr()
    }

    /// Sends the packet, which begins with headers of IPv4 and UDP, from an address of `dev`. With `local`
    /// it may be one to this host itself. Context: softirq.
    ///
    /// # Errors
    ///
    /// Without a route that leaves by the device; that the packet was not dropped is no promise that
    /// it arrives.
    pub(crate) fn send_ipv4(self, dev: &NetDevice, sender: &Sender, local: bool) -> Result<Sent> {
        let skb = self.into_raw();
        // SAFETY: The helper consumes the packet; the device and the socket are valid.
        sent(unsafe {
            bindings::rdma_sock_helper_packet_send_v4(skb, dev.as_raw(), sender.as_raw(), local)
        })
    }

    /// Sends the packet, which begins with headers of IPv6 and UDP, like [`Self::send_ipv4`].
    /// Context: softirq.
    ///
    /// # Errors
    ///
    /// As for [`Self::send_ipv4`].
    pub(crate) fn send_ipv6(self, dev: &NetDevice, sender: &Sender, local: bool) -> Result<Sent> {
        let skb = self.into_raw();
        // SAFETY: As in `send_ipv4`.
        sent(unsafe {
            bindings::rdma_sock_helper_packet_send_v6(skb, dev.as_raw(), sender.as_raw(), local)
        })
    }

    /// Sends the packet behind an Ethernet header of that type. Context: softirq.
    ///
    /// # Errors
    ///
    /// Those of the device.
    pub(crate) fn send_ethernet(
        self,
        dev: &NetDevice,
        sender: &Sender,
        kind: u16,
        to: &[u8; 6],
    ) -> Result<Sent> {
        let (skb, sender) = (self.into_raw(), sender.as_raw());
        // SAFETY: As in `send_ipv4`; the address has the length that Ethernet wants.
        sent(unsafe {
            bindings::rdma_sock_helper_packet_send_eth(skb, dev.as_raw(), kind, to.as_ptr(), sender)
        })
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
impl TxPacket {
    /// Lets a sender pay for the packet. Returns whether there was memory for what else it gets.
    pub(super) fn charge_of_test(&self, sender: &Sender) -> bool {
        // SAFETY: The packet and the socket are valid by their type invariants.
        unsafe { bindings::rdma_sock_helper_test_packet_hold(self.skb.as_ptr(), sender.as_raw()) }
    }
}

impl Drop for TxPacket {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_sock_helper_packet_free(self.skb.as_ptr()) }
    }
}

/// Packets of the same addresses and ports, which the network takes together. Each has headers of its own,
/// and arrives as if it had been alone.
///
/// # Invariants
///
/// `last` is the last packet behind `first`, null if there is none.
pub(crate) struct TxRun {
    first: TxPacket,
    last: *mut bindings::sk_buff,
    packets: u32,
    octets: usize,
}

impl TxRun {
    /// A run of one packet, which begins with headers of IP and UDP.
    pub(crate) fn new(first: TxPacket) -> Self {
        let octets = first.len();
        // INVARIANT: There is no other packet.
        Self {
            first,
            last: null_mut(),
            packets: 1,
            octets,
        }
    }

    /// Appends a packet with the next identification, if it has an IPv4 header. Context: any.
    ///
    /// # Errors
    ///
    /// The packet, if it has more octets than the first one, or the run would have too many.
    pub(crate) fn push(&mut self, next: TxPacket) -> Result<(), TxPacket> {
        let octets = next.len();
        // SAFETY: Both are valid and ours, and `last` is by the type invariants.
        let taken = unsafe {
            bindings::rdma_sock_helper_packet_append(
                self.first.skb.as_ptr(),
                &mut self.last,
                next.skb.as_ptr(),
            )
        };
        if !taken {
            return Err(next);
        }
        // INVARIANT: The first one has it now, and the helper has set `last`.
        let _ = next.into_raw();
        self.packets = self.packets.saturating_add(1);
        self.octets = self.octets.saturating_add(octets);
        Ok(())
    }

    /// Packets, and their octets from the network header on.
    pub(crate) const fn size(&self) -> (u32, usize) {
        (self.packets, self.octets)
    }

    /// The packet that is sent in the name of all.
    pub(crate) fn into_packet(self) -> TxPacket {
        self.first
    }
}

/// What became of a packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The network of this host took it.
    Taken,
    /// A queue of this host is full. It lost this packet, or another one.
    Congested,
}

/// The result of a function of the network that sends.
///
/// # Errors
///
/// Its own.
fn sent(result: ffi::c_int) -> Result<Sent> {
    /// `NET_XMIT_MASK`: any of these bits says that a queue is full.
    const CONGESTED: ffi::c_int = 0x0f;
    to_result(result)?;
    Ok(if result & CONGESTED == 0 {
        Sent::Taken
    } else {
        Sent::Congested
    })
}

/// The header that a received packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetHeader {
    /// IPv4, with UDP behind it.
    Ipv4,
    /// IPv6, with UDP behind it.
    Ipv6,
    /// What follows the Ethernet header.
    Ethernet,
}

/// A received packet.
///
/// # Invariants
///
/// `skb` is valid and this object's own; `octets` are `len` octets of it.
pub(crate) struct RxPacket {
    skb: NonNull<bindings::sk_buff>,
    octets: NonNull<u8>,
    len: usize,
    /// Whether it arrived in fragments.
    was_cut: bool,
    /// The page that the octets behind its headers arrived in. The reference keeps the address from
    /// being used for another page.
    page: Option<PacketPage>,
}

// SAFETY: Packets may be read and freed anywhere.
unsafe impl Send for RxPacket {}

impl RxPacket {
    /// Takes a packet; `None`, and it is freed, if there is no memory for its octets in one piece.
    ///
    /// # Safety
    ///
    /// `skb` must be a packet with a network header that the caller gives away.
    unsafe fn new(skb: NonNull<bindings::sk_buff>, was_cut: bool) -> Option<Self> {
        let (mut octets, mut len) = (core::ptr::null(), 0);
        // Before the view, which copies the octets.
        // SAFETY: By this function's contract.
        let page = unsafe { bindings::rdma_sock_helper_packet_page(skb.as_ptr()) };
        // INVARIANT: The helper gives a reference.
        let page = NonNull::new(page).map(PacketPage);
        // SAFETY: By this function's contract; the results are valid for writes.
        let viewed =
            unsafe { bindings::rdma_sock_helper_packet_view(skb.as_ptr(), &mut octets, &mut len) };
        let view = NonNull::new(octets.cast_mut())
            .filter(|_| viewed)
            .zip(usize::try_from(len).ok());
        match view {
            // INVARIANT: The helper gives that number of octets of the packet.
            Some((octets, len)) => Some(Self {
                skb,
                octets,
                len,
                was_cut,
                page,
            }),
            None => {
                // SAFETY: The packet is ours.
                unsafe { bindings::rdma_sock_helper_packet_free(skb.as_ptr()) };
                None
            }
        }
    }

    /// The octets from the network header on.
    pub(crate) fn octets(&self) -> &[u8] {
        // SAFETY: By the type invariants. A packet that was received is not changed.
        unsafe { core::slice::from_raw_parts(self.octets.as_ptr(), self.len) }
    }

    /// Whether its octets arrived in a page of their own, as those of [`PacketPage::packet`] do.
    pub(crate) const fn has_page(&self) -> bool {
        self.page.is_some()
    }

    /// Whether it is a packet that was sent from this memory, and nothing has copied it since.
    pub(crate) fn is_on(&self, page: &PacketPage) -> bool {
        self.page.as_ref().is_some_and(|own| own.0 == page.0)
    }

    /// Whether IP has put it together from fragments.
    pub(crate) const fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Whether it arrived where packets for addresses of `dev` arrive: on the device, on a VLAN of it,
    /// or, from this host, on the loopback device of its namespace or on its L3 master. Context: softirq.
    /// Only while the packet is received.
    pub(crate) fn reaches(&self, dev: &NetDevice) -> bool {
        // SAFETY: By the type invariants the packet is valid, and its device stays in this context.
        unsafe {
            let arrived = bindings::rdma_sock_helper_packet_dev(self.skb.as_ptr());
            !arrived.is_null() && bindings::rdma_sock_helper_dev_reaches(arrived, dev.as_raw())
        }
    }
}

impl Drop for RxPacket {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_sock_helper_packet_free(self.skb.as_ptr()) }
    }
}

/// Packets of the same addresses and ports that arrived together, or one packet. Those that find no memory
/// are left out.
///
/// # Invariants
///
/// `first` is null, or the first of a list of packets with a network header that are this object's own.
pub(crate) struct RxRun {
    first: *mut bindings::sk_buff,
    was_cut: bool,
}

impl RxRun {
    /// Takes one packet; none if the pointer is null.
    ///
    /// # Safety
    ///
    /// `skb` must be null, or a packet with a network header that the caller gives away.
    pub(super) unsafe fn one(skb: *mut bindings::sk_buff, was_cut: bool) -> Self {
        if !skb.is_null() {
            // Its sender may have more, which it keeps.
            // SAFETY: By this function's contract.
            unsafe { bindings::rdma_sock_helper_packet_unlink(skb) };
        }
        // INVARIANT: By this function's contract; nothing follows the packet.
        Self {
            first: skb,
            was_cut,
        }
    }

    /// Takes packets that arrived together.
    ///
    /// # Safety
    ///
    /// `first` must be the first of a list of packets with a network header that the caller gives away.
    pub(super) const unsafe fn list(first: *mut bindings::sk_buff) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            first,
            was_cut: false,
        }
    }
}

impl Iterator for RxRun {
    type Item = RxPacket;

    /// Context: any.
    fn next(&mut self) -> Option<RxPacket> {
        while let Some(skb) = NonNull::new(self.first) {
            // SAFETY: By the type invariants. The packet is given away, and its followers are ours.
            let packet = unsafe {
                self.first = bindings::rdma_sock_helper_packet_unlink(skb.as_ptr());
                RxPacket::new(skb, self.was_cut)
            };
            if packet.is_some() {
                return packet;
            }
        }
        None
    }
}

impl Drop for RxRun {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_sock_helper_packets_free(self.first) }
    }
}

#[cfg(CONFIG_RDMA_SOFT_KUNIT_TEST)]
#[kernel::macros::kunit_tests(rdma_soft_kapi_packet)]
mod tests {
    use super::*;
    use crate::kapi::net::sender::with_sender;

    /// RNIC-TX-06: a packet that a full queue dropped is no error, and one that another was dropped for.
    #[test]
    fn full_queue_is_congestion() {
        let ignored = sent(0x10);
        assert!(matches!(
            (sent(0), ignored),
            (Ok(Sent::Taken), Ok(Sent::Taken))
        ));
        for code in [1, 2] {
            assert!(matches!(sent(code), Ok(Sent::Congested)));
        }
        assert!(sent(-1).is_err());
    }

    /// RNIC-TX-05.
    #[test]
    fn memory_of_a_packet_is_not_used_again_while_it_is_there() -> Result {
        let mut page = PacketPage::new().ok_or(ENOMEM)?;
        let mut first = page.packet(28, 100).ok_or(ENOMEM)?;
        let (_, rest) = first.split(28).ok_or(EINVAL)?;
        rest.fill(7);
        assert!(page.packet(28, 100).is_none());
        let (_, rest) = first.split(28).ok_or(EINVAL)?;
        assert!(rest.iter().all(|octet| *octet == 7));
        // Its receiver has it, and knows the memory.
        // SAFETY: The packet has a network header, and is given away.
        let arrived =
            unsafe { RxPacket::new(NonNull::new(first.into_raw()).ok_or(EINVAL)?, false) };
        let arrived = arrived.ok_or(ENOMEM)?;
        assert!(arrived.is_on(&page));
        assert!(page.packet(28, 100).is_none());
        drop(arrived);
        assert!(page.packet(28, 100).is_some());
        Ok(())
    }

    /// RNIC-TX-03.
    #[test]
    fn run_takes_packets_that_are_no_longer_than_its_first() -> Result {
        let packet = |payload: usize| {
            let mut packet = TxPacket::new(28 + payload)?;
            let (front, _) = packet.split(1)?;
            front.fill(0x45);
            Some(packet)
        };
        let mut run = TxRun::new(packet(100).ok_or(ENOMEM)?);
        for payload in [100, 100, 7] {
            assert!(run.push(packet(payload).ok_or(ENOMEM)?).is_ok());
        }
        assert_eq!(run.size(), (4, 4 * 28 + 307));
        // It stays as it is, and goes alone.
        let longer = run.push(packet(101).ok_or(ENOMEM)?).err().ok_or(EINVAL)?;
        assert_eq!(longer.len(), 129);
        assert!(run.push(packet(0).ok_or(ENOMEM)?).is_err());
        assert_eq!(run.size().0, 4);
        // No more octets than fit one packet of IP.
        let mut large = TxRun::new(packet(4096).ok_or(ENOMEM)?);
        let mut packets = 1;
        while large.push(packet(4096).ok_or(ENOMEM)?).is_ok() {
            packets += 1;
        }
        assert_eq!((packets, large.size().0), (15, 15));
        Ok(())
    }

    /// RNIC-RX-04: what waits for its queue pair holds nothing of its sender, nor of the way it came.
    #[test]
    fn received_packet_keeps_no_socket_route_or_connection() -> Result {
        with_sender(|sender| {
            let mut packet = TxPacket::new(64).ok_or(ENOMEM)?;
            let (front, _) = packet.split(64).ok_or(EINVAL)?;
            front.fill(9);
            let held = packet.charge_of_test(&sender);
            let is_free = |skb: NonNull<bindings::sk_buff>| {
                // SAFETY: The packet is valid as long as its owner, and read only.
                unsafe { bindings::rdma_sock_helper_test_packet_is_free(skb.as_ptr()) }
            };
            assert!(held && !is_free(packet.skb));
            let skb = NonNull::new(packet.into_raw()).ok_or(EINVAL)?;
            // SAFETY: The packet has a network header, and is given away.
            let arrived = unsafe { RxPacket::new(skb, false) }.ok_or(ENOMEM)?;
            assert!(is_free(arrived.skb));
            assert!(arrived.octets() == [9; 64]);
            Ok(())
        })
    }
}
