// SPDX-License-Identifier: GPL-2.0

//! A TCP option on SYN and SYN-ACK by which both ends of a connection agree on something.
//!
//! Two ways lead there, and the rest of the module does not see which one is taken:
//! - a kernel with CONFIG_SMC has it built in, for the option of SMC (`tcp_sock::syn_smc`);
//! - for any other kernel there is [`netfilter`], which adds and looks for the option in segments of
//!   our sockets only, as an [`OptionPolicy`] says.
//!
//! What is remembered is in the [`Attachment`] of the sock (and, for a connection that is not yet
//! one, in the copy of the SYN that TCP itself keeps), so there is no table that could grow.
//!
//! C header: [`include/linux/tcp.h`](srctree/include/linux/tcp.h)

mod netfilter;

use super::{
    events::Attachment,
    sock::Sock,
    socket::Socket, //
};
use crate::{
    bindings,
    kapi::compat::errno::EOPNOTSUPP, //
};
use core::{
    marker::PhantomData,
    ptr,
    sync::atomic::{
        AtomicPtr,
        AtomicU32,
        Ordering, //
    },
};
use kernel::{
    prelude::*,
    sync::rcu, //
};

/// The option is wanted on segments of this sock.
const ENABLED: u32 = 1;
/// The peer's SYN-ACK agreed.
const AGREED: u32 = 2;
/// The SYN-ACK repeated what the SYN had, of which nothing follows.
const ECHOED: u32 = 4;
/// The listener withholds the option from new connections.
const WITHHELD: u32 = 8;

/// The longest options of a TCP header.
const MAX_OPTIONS: usize = 40;

/// The value of `tcp_sock::save_syn` by which we know that the user did not ask for it. TCP treats
/// it like 1, which keeps the headers from the network header on.
const SAVE_SYN_OURS: u8 = 3;

/// What to do with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookVerdict {
    /// Leave it as it is.
    Leave,
    /// Append octets to its TCP options.
    Add {
        /// The octets.
        bytes: [u8; 16],
        /// How many of them; a multiple of 4.
        len: usize,
    },
}

/// What a SYN-ACK says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SynAckAnswer {
    /// Yes.
    Agreed,
    /// Nothing.
    Silent,
    /// What the SYN had, whatever it was.
    Echo,
}

/// Decides about the option. The options given are what follows the fixed part of the TCP header.
///
/// All functions run in softirq and only compute.
pub(crate) trait OptionPolicy: Send + Sync + 'static {
    /// A SYN of a client whose connection has this nonce is sent, with the given options so far.
    fn syn_out(nonce: u32, options: &[u8]) -> HookVerdict;

    /// A SYN-ACK with the given options answers a SYN.
    fn synack_out(syn_options: &[u8], options: &[u8]) -> HookVerdict;

    /// What the options of a SYN-ACK say to the SYN of that nonce.
    fn synack_in(nonce: u32, options: &[u8]) -> SynAckAnswer;

    /// Whether a SYN asks for agreement, so that [`Self::synack_out`] adds the option if it fits.
    fn syn_agrees(syn_options: &[u8]) -> bool;
}

/// The functions of an [`OptionPolicy`].
struct PolicyTable {
    syn_out: fn(u32, &[u8]) -> HookVerdict,
    synack_out: fn(&[u8], &[u8]) -> HookVerdict,
    synack_in: fn(u32, &[u8]) -> SynAckAnswer,
    syn_agrees: fn(&[u8]) -> bool,
}

/// Which way the option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendKind {
    /// The kernel's if it has one, otherwise netfilter.
    Auto,
    /// The one built into kernels with CONFIG_SMC.
    Kernel,
    /// Netfilter hooks.
    Netfilter,
}

/// The policy in use; null unless the netfilter back end is registered.
static POLICY: AtomicPtr<PolicyTable> = AtomicPtr::new(ptr::null_mut());

fn policy() -> Option<&'static PolicyTable> {
    let policy = POLICY.load(Ordering::Acquire);
    // SAFETY: The policy is freed by the drop of the back end, after the hooks are gone and no
    // socket is left: only hooks and sockets call this.
    (!policy.is_null()).then(|| unsafe { &*policy })
}

/// The back end that is registered. There is one at a time.
///
/// # Invariants
///
/// `policy` is null, or came from a `KBox` and is owned by this object.
pub(crate) struct Backend<P: OptionPolicy> {
    hooks: Option<netfilter::Hooks>,
    policy: *mut PolicyTable,
    _policy: PhantomData<P>,
}

// SAFETY: The policy holds functions only.
unsafe impl<P: OptionPolicy> Send for Backend<P> {}
// SAFETY: As above.
unsafe impl<P: OptionPolicy> Sync for Backend<P> {}

impl<P: OptionPolicy> Backend<P> {
    /// Registers a back end: `EOPNOTSUPP` if the kernel's is asked for and there is none.
    /// Context: may sleep.
    pub(crate) fn register(kind: BackendKind) -> Result<Self> {
        // SAFETY: Always safe to call.
        let built_in = unsafe { bindings::rdma_sock_helper_has_syn_smc() };
        if kind == BackendKind::Kernel && !built_in {
            return Err(EOPNOTSUPP);
        }
        if built_in && kind != BackendKind::Netfilter {
            // SAFETY: The static key exists in such a kernel.
            unsafe { bindings::rdma_sock_helper_have_smc(true) };
            return Ok(Self {
                hooks: None,
                policy: ptr::null_mut(),
                _policy: PhantomData,
            });
        }
        let policy = KBox::new(
            PolicyTable {
                syn_out: P::syn_out,
                synack_out: P::synack_out,
                synack_in: P::synack_in,
                syn_agrees: P::syn_agrees,
            },
            GFP_KERNEL,
        )?;
        // INVARIANT: The policy is owned by this object.
        let mut this = Self {
            hooks: None,
            policy: KBox::into_raw(policy),
            _policy: PhantomData,
        };
        POLICY.store(this.policy, Ordering::Release);
        this.hooks = Some(netfilter::Hooks::new()?);
        Ok(this)
    }
}

impl<P: OptionPolicy> Drop for Backend<P> {
    fn drop(&mut self) {
        if self.policy.is_null() {
            // SAFETY: The static key exists, see `register`.
            unsafe { bindings::rdma_sock_helper_have_smc(false) };
            return;
        }
        // Waits for the hooks that run.
        self.hooks = None;
        POLICY.store(ptr::null_mut(), Ordering::Release);
        // SAFETY: By the type invariants. The policy has no user left, see `policy`.
        drop(unsafe { KBox::from_raw(self.policy) });
    }
}

impl Socket {
    /// Asks for the option on the SYN of a connection that is not begun yet, or on the SYN-ACKs of
    /// a listener. `nonce` is given to the policy. Without a context, see [`Socket::attach`],
    /// nothing happens. Context: may sleep.
    pub(crate) fn enable_option(&self, nonce: u32) {
        self.option_word(|option, place| {
            let guard = self.sk().lock();
            place.store(nonce, Ordering::Relaxed);
            option.store(ENABLED, Ordering::Relaxed);
            if policy().is_some() {
                save_syn(&guard, SAVE_SYN_OURS);
            } else {
                // SAFETY: The sock is valid and locked. The function stays as long as the module,
                // which our sockets hold; of the children of a listener it is not called.
                unsafe {
                    bindings::rdma_sock_helper_set_hs_congested(guard.as_raw(), Some(withholds));
                    bindings::rdma_sock_helper_set_syn_smc(guard.as_raw(), true);
                }
            }
        });
    }

    /// Takes [`Self::enable_option`] back. Context: may sleep.
    pub(crate) fn disable_option(&self) {
        self.option_word(|option, _| {
            let guard = self.sk().lock();
            option.store(0, Ordering::Relaxed);
            save_syn(&guard, 0);
            // SAFETY: The sock is valid and locked.
            unsafe {
                bindings::rdma_sock_helper_set_syn_smc(guard.as_raw(), false);
                bindings::rdma_sock_helper_set_hs_congested(guard.as_raw(), None);
            }
        });
    }

    /// Puts right what the user's TCP_SAVE_SYN has changed.
    pub(super) fn keep_saving_syn(&self) {
        self.option_word(|option, _| {
            if is_enabled(option) && !is_withheld(option) && policy().is_some() {
                save_syn(&self.sk().lock(), SAVE_SYN_OURS);
            }
        });
    }

    /// Whether TCP keeps the SYNs for us and not for the user.
    pub(super) fn saves_syn_for_us(&self) -> bool {
        self.sk().save_syn() == SAVE_SYN_OURS
    }
}

/// Sets `save_syn` unless the user has set it.
fn save_syn(sk: &Sock, value: u8) {
    let user = match sk.save_syn() {
        SAVE_SYN_OURS => 0,
        user => user,
    };
    if user == 0 {
        // SAFETY: The sock is valid; the callers hold its lock.
        unsafe { bindings::rdma_sock_helper_tcp_set_save_syn(sk.as_raw(), value) }
    }
}

impl Sock {
    fn save_syn(&self) -> u8 {
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_tcp_save_syn(self.as_raw()) }
    }

    /// Whether the server agreed, for a client that is established. Context: any.
    pub(crate) fn peer_agreed(&self) -> bool {
        let word = {
            let _guard = rcu::read_lock();
            let att = Attachment::of(self.as_raw());
            if att.is_null() {
                0
            } else {
                // `Acquire` pairs with the release in `set_answer`.
                // SAFETY: The attachment is freed after a grace period.
                unsafe { (*att).option.load(Ordering::Acquire) }
            }
        };
        if policy().is_some() {
            return word & AGREED != 0;
        }
        // When both ends open at once, TCP does not look whether the peer's SYN had the option.
        // SAFETY: The sock is valid.
        unsafe {
            bindings::rdma_sock_helper_syn_smc(self.as_raw())
                && bindings::rdma_sock_helper_rx_smc(self.as_raw())
        }
    }

    /// Whether the SYN of this new child of a listener asked for the option, so that its SYN-ACK
    /// had it. Frees the copy of the SYN unless the user of the listener wants it: the answer is
    /// given once. Context: may sleep.
    pub(crate) fn take_syn(&self) -> bool {
        let mut options = [0; MAX_OPTIONS];
        let guard = self.lock();
        // SAFETY: The sock is valid. Under its lock the copy is freed by this thread only.
        let len = unsafe {
            let len =
                bindings::rdma_sock_helper_tcp_syn_options(guard.as_raw(), options.as_mut_ptr());
            // The listener may have withheld the option when it made the child, so `save_syn` is 0.
            if matches!(guard.save_syn(), 0 | SAVE_SYN_OURS) {
                bindings::rdma_sock_helper_tcp_saved_syn_free(guard.as_raw());
                bindings::rdma_sock_helper_tcp_set_save_syn(guard.as_raw(), 0);
            }
            usize::try_from(len).unwrap_or(0)
        };
        drop(guard);
        match policy() {
            Some(policy) => options
                .get(..len)
                .is_some_and(|options| (policy.syn_agrees)(options)),
            // SAFETY: The sock is valid.
            None => unsafe { bindings::rdma_sock_helper_syn_smc(self.as_raw()) },
        }
    }

    /// Whether a client's SYN-ACK only repeated the options of the SYN. Context: any.
    pub(crate) fn peer_echoes(&self) -> bool {
        let _guard = rcu::read_lock();
        let att = Attachment::of(self.as_raw());
        // `Acquire` pairs with the release in `set_answer`.
        // SAFETY: The attachment is freed after a grace period.
        !att.is_null() && unsafe { (*att).option.load(Ordering::Acquire) } & ECHOED != 0
    }

    /// Lets a listener withhold the option from new connections, or offer it again. A SYN that has
    /// arrived stays with its answer.
    ///
    /// With the netfilter back end this waits for the next call while a program's call holds the
    /// lock of the sock, and a listener whose program keeps the SYNs withholds nothing.
    /// Context: any. Never called from interrupts.
    pub(crate) fn withhold_option(&self, on: bool) {
        let _guard = rcu::read_lock();
        let att = Attachment::of(self.as_raw());
        if att.is_null() {
            return;
        }
        // SAFETY: The attachment is freed after a grace period.
        let option = unsafe { &(*att).option };
        // Nothing is ordered by it.
        if on {
            option.fetch_or(WITHHELD, Ordering::Relaxed);
        } else {
            option.fetch_and(!WITHHELD, Ordering::Relaxed);
        }
        if policy().is_none() || !is_enabled(option) {
            return;
        }
        // TCP decides once for each SYN whether it keeps a copy, and without one there is no
        // option.
        let (from, to) = if on {
            (SAVE_SYN_OURS, 0)
        } else {
            (0, SAVE_SYN_OURS)
        };
        // SAFETY: The sock is valid.
        unsafe { bindings::rdma_sock_helper_tcp_swap_save_syn(self.as_raw(), from, to) }
    }
}

/// Whether the option is wanted on segments of the sock with this word.
fn is_enabled(option: &AtomicU32) -> bool {
    option.load(Ordering::Relaxed) & ENABLED != 0
}

/// Whether the listener with this word withholds the option.
fn is_withheld(option: &AtomicU32) -> bool {
    option.load(Ordering::Relaxed) & WITHHELD != 0
}

/// Whether a listener withholds the option, for TCP. Once for each SYN.
///
/// # Safety
///
/// Called by TCP with a listener of ours, in an RCU read section.
unsafe extern "C" fn withholds(sk: *const bindings::sock) -> bool {
    let att = Attachment::of(sk.cast_mut());
    // SAFETY: The attachment is freed after a grace period.
    !att.is_null() && is_withheld(unsafe { &(*att).option })
}

/// Stores the answer of the peer's SYN-ACK.
fn set_answer(option: &AtomicU32, answer: SynAckAnswer) {
    let word = match answer {
        SynAckAnswer::Agreed => AGREED,
        SynAckAnswer::Silent => 0,
        SynAckAnswer::Echo => ECHOED,
    };
    let rest = option.load(Ordering::Relaxed) & !(AGREED | ECHOED);
    // `Release` pairs with the loads in `peer_agreed` and `peer_echoes`. This is the only writer of
    // the word while the sock waits for a SYN-ACK, and TCP handles one at a time.
    option.store(rest | word, Ordering::Release);
}
