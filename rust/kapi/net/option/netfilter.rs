// SPDX-License-Identifier: GPL-2.0

//! The option by netfilter hooks, for kernels that do not know it.
//!
//! Segments are changed in the first hook of the local output, before any rule of an administrator
//! sees them, and looked at in the last hook of the local input, when all rules have let them pass.
//!
//! - A SYN of one of our sockets gets the option if the policy says so.
//! - A SYN-ACK gets it if the SYN had it, of which TCP keeps a copy with its request sock
//!   (`save_syn`). When TCP answers with a cookie there is no request sock, so no option, and nothing
//!   is kept.
//! - A SYN-ACK that arrives for one of our connecting sockets is judged by the policy.
//!
//! Both ends must come to the same conclusion. So a segment that should get the option but cannot,
//! for lack of memory, is dropped, as if lost. A SYN-ACK without room for the option leaves the
//! server with a connection that expects a message; the first octets of the client show it that
//! there is none.
//!
//! TCP moves and frees the copy of a SYN while a SYN-ACK to a repeated SYN is under way. The hook
//! therefore only reads it, and drops what it read if the copy has left the request sock meanwhile.
//!
//! A segment passes the local output twice if a VRF or a tunnel sends it on. It keeps what the
//! first pass gave it.
//!
//! C header: [`include/linux/netfilter.h`](srctree/include/linux/netfilter.h)

use super::{
    super::{
        events::Attachment,
        family,
        netns::{
            Net,
            NetOps,
            NetRegistration, //
        },
    },
    is_enabled,
    policy,
    set_answer,
    HookVerdict,
    PolicyTable, //
};
use crate::bindings;
use core::{
    ptr,
    slice, //
};
use kernel::{
    bindings as kb,
    error::to_result,
    ffi,
    prelude::*,
    types::Opaque, //
};

/// `NF_DROP`, `NF_ACCEPT`.
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
/// `NFPROTO_IPV4`, `NFPROTO_IPV6`.
const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// `NF_INET_LOCAL_IN`, `NF_INET_LOCAL_OUT`.
const LOCAL_IN: u32 = 1;
const LOCAL_OUT: u32 = 3;
/// `TCP_SYN_SENT`, `TCP_NEW_SYN_RECV`.
const SYN_SENT: u8 = 2;
const NEW_SYN_RECV: u8 = 12;
/// The fixed part of the TCP header, and the longest header.
const HEADER: usize = 20;
const MAX_HEADER: usize = 60;
/// Flags in octet 13 of the TCP header.
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
/// Where the acknowledged number, the header length and the flags are.
const ACK_SEQ_AT: usize = 8;
const DOFF_AT: usize = 12;
const FLAGS_AT: usize = 13;

/// The hooks in all network namespaces.
pub(super) struct Hooks(
    #[expect(dead_code, reason = "for its drop")] NetRegistration<PerNamespace>,
);

impl Hooks {
    /// Registers the hooks. Context: may sleep.
    pub(super) fn new() -> Result<Self> {
        Ok(Self(NetRegistration::new()?))
    }
}

/// The descriptions of the hooks, which are the same in all namespaces.
#[repr(transparent)]
struct HookTable(Opaque<[bindings::nf_hook_ops; 4]>);

// SAFETY: The kernel only reads the descriptions.
unsafe impl Sync for HookTable {}

static TABLE: HookTable = HookTable(Opaque::new([
    hook(IPV4, LOCAL_OUT, i32::MIN, on_local_out),
    hook(IPV6, LOCAL_OUT, i32::MIN, on_local_out),
    hook(IPV4, LOCAL_IN, i32::MAX, on_local_in),
    hook(IPV6, LOCAL_IN, i32::MAX, on_local_in),
]));

/// The type of a hook function.
type HookFn = unsafe extern "C" fn(
    *mut ffi::c_void,
    *mut kb::sk_buff,
    *const bindings::nf_hook_state,
) -> ffi::c_uint;

const fn hook(pf: u8, hooknum: u32, priority: i32, f: HookFn) -> bindings::nf_hook_ops {
    // SAFETY: The structure is plain data for which all zeros is the state before the user fills
    // it.
    let mut ops: bindings::nf_hook_ops = unsafe { core::mem::zeroed() };
    ops.hook = Some(f);
    ops.pf = pf;
    ops.hooknum = hooknum;
    ops.priority = priority;
    ops
}

struct PerNamespace;

impl NetOps for PerNamespace {
    fn init(net: &Net) -> Result {
        // SAFETY: The namespace is valid, and the table lives as long as the module, which
        // unregisters it before it goes.
        to_result(unsafe {
            bindings::nf_register_net_hooks(net.as_raw().cast(), TABLE.0.get().cast(), 4)
        })
    }

    fn exit(net: &Net) {
        // SAFETY: `init` registered the hooks in this namespace.
        unsafe { bindings::nf_unregister_net_hooks(net.as_raw().cast(), TABLE.0.get().cast(), 4) }
    }
}

/// The attachment of a full sock that is a socket of ours and wants the option.
///
/// # Safety
///
/// `sk` must be a valid full sock, in an RCU read section, where the result may be used.
unsafe fn ours(sk: *mut bindings::sock) -> Option<*const Attachment> {
    // SAFETY: By this function's contract. The socket of a sock is freed after a grace period.
    unsafe {
        if !bindings::rdma_sock_helper_sk_is_tcp(sk) {
            return None;
        }
        let socket: *mut kb::socket = bindings::rdma_sock_helper_sk_socket(sk).cast();
        if socket.is_null() || !family::is_ours(ptr::read_volatile(&raw const (*socket).ops)) {
            return None;
        }
        let att = Attachment::of(sk);
        (!att.is_null() && is_enabled(&(*att).option)).then_some(att)
    }
}

/// Sees every segment of the local output.
///
/// # Safety
///
/// Called by netfilter.
unsafe extern "C" fn on_local_out(
    _priv: *mut ffi::c_void,
    skb: *mut kb::sk_buff,
    state: *const bindings::nf_hook_state,
) -> ffi::c_uint {
    // SAFETY: Netfilter gives a valid segment, in an RCU read section. If it has a sock, that is
    // valid, too, and its state shows its kind.
    unsafe {
        let skb = skb.cast();
        let sk = bindings::rdma_sock_helper_skb_sk(skb);
        if sk.is_null() {
            return ACCEPT;
        }
        let sk_state = bindings::rdma_sock_helper_sk_state(sk);
        let (SYN_SENT | NEW_SYN_RECV, Some(policy)) = (sk_state, policy()) else {
            return ACCEPT;
        };
        let pf = (*state).pf;
        if sk_state == SYN_SENT {
            syn_out(policy, sk, skb, pf)
        } else {
            synack_out(policy, sk, skb, pf)
        }
    }
}

/// # Safety
///
/// As for [`on_local_out`]; `sk` must be in `TCP_SYN_SENT`.
unsafe fn syn_out(
    policy: &PolicyTable,
    sk: *mut bindings::sock,
    skb: *mut bindings::sk_buff,
    pf: u8,
) -> u32 {
    // SAFETY: By this function's contract; a sock in this state is a full one.
    unsafe {
        let (Some(att), Some(header)) = (ours(sk), header_of(skb, pf, SYN)) else {
            return ACCEPT;
        };
        let nonce = (*att).nonce.load(core::sync::atomic::Ordering::Relaxed);
        let options = header.get(HEADER..).unwrap_or(&[]);
        match (policy.syn_out)(nonce, options) {
            HookVerdict::Leave => ACCEPT,
            HookVerdict::Add { bytes, len } => append(skb, pf, bytes.get(..len).unwrap_or(&[])),
        }
    }
}

/// # Safety
///
/// As for [`on_local_out`]; `sk` must be in `TCP_NEW_SYN_RECV`.
unsafe fn synack_out(
    policy: &PolicyTable,
    sk: *mut bindings::sock,
    skb: *mut bindings::sk_buff,
    pf: u8,
) -> u32 {
    // SAFETY: By this function's contract. The segment holds the request sock, and that its
    // listener. `syn` has the room that the function wants.
    unsafe {
        let listener = bindings::rdma_sock_helper_rsk_listener(sk);
        if listener.is_null() || ours(listener).is_none() {
            return ACCEPT;
        }
        let mut syn = [0; MAX_HEADER - HEADER];
        let len = bindings::rdma_sock_helper_rsk_syn_options(sk, syn.as_mut_ptr());
        let syn_options = syn.get(..usize::try_from(len).unwrap_or(0)).unwrap_or(&[]);
        if syn_options.is_empty() {
            return ACCEPT;
        }
        let Some(header) = header_of(skb, pf, SYN | ACK) else {
            return ACCEPT;
        };
        let options = header.get(HEADER..).unwrap_or(&[]);
        match (policy.synack_out)(syn_options, options) {
            HookVerdict::Leave => ACCEPT,
            HookVerdict::Add { bytes, len } => append(skb, pf, bytes.get(..len).unwrap_or(&[])),
        }
    }
}

/// The TCP header of an outgoing segment, if it follows the IP header, and the segment has no data
/// and exactly these of the flags SYN, ACK, RST and FIN.
///
/// # Safety
///
/// `skb` must be a packet of the family `pf` in the local output. The header must not be used after
/// it is changed.
unsafe fn header_of<'a>(skb: *mut bindings::sk_buff, pf: u8, flags: u8) -> Option<&'a [u8]> {
    // SAFETY: By this function's contract.
    unsafe {
        if !bindings::rdma_sock_helper_skb_is_plain_tcp(skb, pf) {
            return None;
        }
        let len = usize::try_from(bindings::rdma_sock_helper_skb_tail_len(skb)).ok()?;
        if !(HEADER..=MAX_HEADER).contains(&len) {
            return None;
        }
        let header =
            slice::from_raw_parts(bindings::rdma_sock_helper_skb_tcp(skb).cast_const(), len);
        let doff = usize::from(header.get(DOFF_AT)? >> 4) * 4;
        let is = header.get(FLAGS_AT)? & (SYN | ACK | RST | FIN);
        (doff == len && is == flags).then_some(header)
    }
}

/// Appends octets to the TCP header of a segment without data.
///
/// # Safety
///
/// [`header_of`] must have found the header, and no reference to it may be left.
unsafe fn append(skb: *mut bindings::sk_buff, pf: u8, octets: &[u8]) -> u32 {
    let words = octets.len() / 4;
    let Ok(len) = u32::try_from(octets.len()) else {
        return ACCEPT;
    };
    // SAFETY: By this function's contract the header is linear and the last of the segment. The
    // segment becomes private to us with room for the octets.
    unsafe {
        let old = bindings::rdma_sock_helper_skb_tail_len(skb);
        if old + len > MAX_HEADER as u32 || len == 0 || len % 4 != 0 {
            return ACCEPT;
        }
        let room = bindings::rdma_sock_helper_skb_append(skb, len);
        if room.is_null() {
            return DROP;
        }
        ptr::copy_nonoverlapping(octets.as_ptr(), room, octets.len());
        let doff = bindings::rdma_sock_helper_skb_tcp(skb).add(DOFF_AT);
        // No more than 15 words, see above.
        *doff = doff.read().wrapping_add((words as u8) << 4);
        bindings::rdma_sock_helper_skb_lengthen(skb, pf);
        bindings::rdma_sock_helper_skb_tcp_csum(skb, pf);
    }
    ACCEPT
}

/// Sees every segment of the local input.
///
/// # Safety
///
/// Called by netfilter.
unsafe extern "C" fn on_local_in(
    _priv: *mut ffi::c_void,
    skb: *mut kb::sk_buff,
    state: *const bindings::nf_hook_state,
) -> ffi::c_uint {
    let mut offset = 0;
    // SAFETY: Netfilter gives a valid segment, in an RCU read section; the IP header is linear. A
    // sock that was looked up is held until it is put.
    unsafe {
        let (pf, net) = ((*state).pf, (*state).net);
        let skb = skb.cast();
        if !bindings::rdma_sock_helper_skb_pull_tcp(skb, pf, &mut offset) {
            return ACCEPT;
        }
        let Some(policy) = policy() else {
            return ACCEPT;
        };
        let sk = bindings::rdma_sock_helper_skb_lookup(net, skb, pf, offset);
        if sk.is_null() {
            return ACCEPT;
        }
        if bindings::rdma_sock_helper_sk_state(sk) == SYN_SENT {
            synack_in(policy, sk, skb, offset);
        }
        bindings::rdma_sock_helper_sock_gen_put(sk);
    }
    ACCEPT
}

/// # Safety
///
/// As for [`on_local_in`]; `sk` must be in `TCP_SYN_SENT`, and the TCP header with its options be
/// linear, at `offset`.
unsafe fn synack_in(
    policy: &PolicyTable,
    sk: *mut bindings::sock,
    skb: *mut bindings::sk_buff,
    offset: u32,
) {
    // SAFETY: By this function's contract; a sock in this state is a full one.
    unsafe {
        let Some(att) = ours(sk) else {
            return;
        };
        let mut header = [0; MAX_HEADER];
        let len = bindings::rdma_sock_helper_skb_header(skb, offset, header.as_mut_ptr());
        let Some(header) = header.get(..usize::try_from(len).unwrap_or(0)) else {
            return;
        };
        let rest = header.get(ACK_SEQ_AT..).unwrap_or(&[]);
        // Only the answer to our SYN, which carried no data and is all that was written so far.
        // (`snd_nxt` is advanced only after the SYN has left.)
        let acked = rest.first_chunk().map(|a| u32::from_be_bytes(*a));
        if acked != Some(bindings::rdma_sock_helper_tcp_write_seq(sk)) {
            return;
        }
        let nonce = (*att).nonce.load(core::sync::atomic::Ordering::Relaxed);
        let options = header.get(HEADER..).unwrap_or(&[]);
        set_answer(&(*att).option, (policy.synack_in)(nonce, options));
    }
}
