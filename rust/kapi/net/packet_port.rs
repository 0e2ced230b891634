// SPDX-License-Identifier: GPL-2.0

//! Where packets arrive: at a UDP port of a namespace, or by their Ethernet type.
//!
//! C headers: [`include/net/udp_tunnel.h`](srctree/include/net/udp_tunnel.h),
//! [`include/linux/netfilter.h`](srctree/include/linux/netfilter.h)

use super::{
    netns::NetRef,
    packet::{
        NetHeader,
        RxRun, //
    },
};
use crate::{
    bindings,
    kapi::base::sync::wait_for_readers, //
};
use core::{
    marker::PhantomData,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    ffi,
    prelude::*,
    types::Opaque, //
};

/// What is done with packets that arrive.
pub(crate) trait PacketOps: 'static {
    /// UDP port of both versions of IP.
    const PORT: u16;
    /// Type of Ethernet packets.
    const ETHERTYPE: u16;

    /// Packets that arrived together, or one, from the header on that `header` says. Context: softirq.
    fn receive(run: RxRun, header: NetHeader);

    /// Whether another packet of its message follows a packet with this first octet behind the UDP header.
    /// Context: softirq.
    fn goes_on(octet: u8) -> bool;
}

/// How packets reach a UDP port that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// One by one, by the socket.
    Single,
    /// Those that arrive as one are taken before UDP separates them (RNIC-RX-01).
    Together,
    /// So are those that a driver brings one after another, which GRO joins.
    Joined,
}

/// A UDP port of a namespace, of one version of IP.
///
/// # Invariants
///
/// `sock` is a socket of this object's own, which lives as long as the namespace does, and `hook` is a hook of
/// that namespace, or null. Their owner closes them before the namespace ends.
pub(crate) struct UdpPort<T: PacketOps> {
    sock: NonNull<bindings::sock>,
    hook: *mut bindings::rdma_sock_run_hook,
    _receive: PhantomData<fn(T)>,
}

// SAFETY: Sockets may be closed, and hooks be removed, from any thread.
unsafe impl<T: PacketOps> Send for UdpPort<T> {}
// SAFETY: There is nothing that can be done with a shared reference.
unsafe impl<T: PacketOps> Sync for UdpPort<T> {}

impl<T: PacketOps> UdpPort<T> {
    /// Opens the port. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if another socket has it, `EAFNOSUPPORT` without that version of IP, `ENOMEM`.
    pub(crate) fn open(net: &NetRef, ipv6: bool, arrival: Arrival) -> Result<Self> {
        let (receive, receive_run) = if ipv6 {
            (
                Self::receive_raw::<true> as unsafe extern "C" fn(_, _) -> _,
                Self::receive_run_raw::<true> as unsafe extern "C" fn(_),
            )
        } else {
            (
                Self::receive_raw::<false> as unsafe extern "C" fn(_, _) -> _,
                Self::receive_run_raw::<false> as unsafe extern "C" fn(_),
            )
        };
        let join = match arrival {
            Arrival::Joined => Some(Self::join_raw as unsafe extern "C" fn(_, _, _) -> _),
            Arrival::Single | Arrival::Together => None,
        };
        // SAFETY: The namespace is valid, and the functions are for packets of such a socket.
        let sock = unsafe {
            bindings::rdma_sock_helper_udp_port_open(
                net.as_raw(),
                T::PORT,
                ipv6,
                Some(receive),
                join,
            )
        };
        let sock = kernel::error::from_err_ptr(sock)?;
        // INVARIANT: Just made, without a hook.
        let mut port = Self {
            sock: NonNull::new(sock).ok_or(ENOMEM)?,
            hook: null_mut(),
            _receive: PhantomData,
        };
        if arrival != Arrival::Single {
            // SAFETY: As above; the function is for packets of such a hook.
            let hook = unsafe {
                bindings::rdma_sock_helper_run_hook_add(
                    net.as_raw(),
                    T::PORT,
                    ipv6,
                    Some(receive_run),
                )
            };
            // INVARIANT: Just made, or null in a kernel without hooks.
            port.hook = kernel::error::from_err_ptr(hook)?;
        }
        Ok(port)
    }

    /// The header that packets of the port begin with.
    const fn header(ipv6: bool) -> NetHeader {
        if ipv6 {
            NetHeader::Ipv6
        } else {
            NetHeader::Ipv4
        }
    }

    /// # Safety
    ///
    /// Only for sockets of [`Self::open`], with a packet that the function takes.
    unsafe extern "C" fn receive_raw<const IPV6: bool>(
        _sock: *mut bindings::sock,
        skb: *mut bindings::sk_buff,
    ) -> ffi::c_int {
        // SAFETY: By this function's contract; UDP packets have a network header, and the data of IP.
        let run = unsafe { RxRun::one(skb, bindings::rdma_sock_helper_packet_was_cut(skb)) };
        T::receive(run, Self::header(IPV6));
        0
    }

    /// # Safety
    ///
    /// Only for GRO with a socket of [`Self::open`] and a packet for it, behind whose UDP header GRO is.
    unsafe extern "C" fn join_raw(
        sock: *mut bindings::sock,
        head: *mut bindings::list_head,
        skb: *mut bindings::sk_buff,
    ) -> *mut bindings::sk_buff {
        // SAFETY: By this function's contract.
        let octet = unsafe { bindings::rdma_sock_helper_packet_gro_octet(skb) };
        let goes_on = u8::try_from(octet).is_ok_and(T::goes_on);
        // SAFETY: By this function's contract.
        unsafe { bindings::rdma_sock_helper_packet_join(sock, head, skb, goes_on) }
    }

    /// # Safety
    ///
    /// Only for hooks of [`Self::open`], with a list of packets that the function takes.
    unsafe extern "C" fn receive_run_raw<const IPV6: bool>(first: *mut bindings::sk_buff) {
        // SAFETY: By this function's contract; the hook has made the headers of each packet.
        let run = unsafe { RxRun::list(first) };
        T::receive(run, Self::header(IPV6));
    }
}

impl<T: PacketOps> Drop for UdpPort<T> {
    /// Context: may sleep.
    fn drop(&mut self) {
        // SAFETY: By the type invariants, and the namespace is there.
        unsafe {
            bindings::rdma_sock_helper_run_hook_remove(self.hook);
            bindings::rdma_sock_helper_udp_port_close(self.sock.as_ptr());
        }
        // The functions may run for packets that came before.
        wait_for_readers();
        // SAFETY: Nothing runs that uses it.
        unsafe { bindings::rdma_sock_helper_run_hook_free(self.hook) };
    }
}

/// A handler of Ethernet packets of one type, in all namespaces.
///
/// # Invariants
///
/// `handler` is registered.
pub(crate) struct EthernetType<T: PacketOps> {
    handler: KBox<Opaque<bindings::packet_type>>,
    _receive: PhantomData<fn(T)>,
}

// SAFETY: Handlers may be removed from any thread.
unsafe impl<T: PacketOps> Send for EthernetType<T> {}
// SAFETY: There is nothing that can be done with a shared reference.
unsafe impl<T: PacketOps> Sync for EthernetType<T> {}

impl<T: PacketOps> EthernetType<T> {
    /// Registers the handler. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let handler = KBox::new(Opaque::<bindings::packet_type>::zeroed(), GFP_KERNEL)?;
        // SAFETY: The structure is ours. Zero is valid for its other fields.
        unsafe {
            (*handler.get()).type_ = T::ETHERTYPE.to_be();
            (*handler.get()).func = Some(Self::receive_raw);
        }
        // SAFETY: The structure does not move and is removed before it is freed.
        unsafe { bindings::dev_add_pack(handler.get()) };
        // INVARIANT: Just registered.
        Ok(Self {
            handler,
            _receive: PhantomData,
        })
    }

    /// # Safety
    ///
    /// Only for the network stack, with a packet that the function takes.
    unsafe extern "C" fn receive_raw(
        skb: *mut bindings::sk_buff,
        _dev: *mut bindings::net_device,
        _handler: *mut bindings::packet_type,
        _original: *mut bindings::net_device,
    ) -> ffi::c_int {
        // SAFETY: By this function's contract. The helper gives a packet of our own, or none.
        let skb = unsafe { bindings::rdma_sock_helper_packet_unshare(skb) };
        // SAFETY: The packet is ours, and has a network header behind that of Ethernet.
        let run = unsafe { RxRun::one(skb, false) };
        T::receive(run, NetHeader::Ethernet);
        0
    }
}

impl<T: PacketOps> Drop for EthernetType<T> {
    /// Context: may sleep. Waits for calls that run.
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::dev_remove_pack(self.handler.get()) }
    }
}
