// SPDX-License-Identifier: GPL-2.0

//! Settings of a network namespace: `/proc/sys/net/smc/`.
//!
//! Names and units are those of the C implementation, so that existing settings keep their meaning.
//! A change applies to objects that are made afterwards.

use crate::{
    kapi::{
        mem::host_kbytes,
        net::{
            netns::Net,
            sysctl::{
                Knob,
                Knobs,
                SysctlTable, //
            },
        },
    },
    proto::{
        base::{
            quota::{
                kbytes,
                lesser,
                part_of_memory,
                Caps, //
            },
            time::Duration, //
        },
        smc::{
            buffer_kind::BufferKind,
            clc::GroupLimits,
            wire::BufSize, //
        },
        stream::spin::SpinLimit, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
};

/// Defines [`Settings`] from one table, so that a value cannot go without a file.
macro_rules! settings {
    ($(
        $(#[$doc:meta])*
        $field:ident: $name:literal = $default:expr, $min:expr, $max:expr $(, $initial:ident)?;
    )*) => {
        /// The values of a network namespace. Context: any.
        pub(crate) struct Settings {
            $($(#[$doc])* $field: Atomic<i32>,)*
        }

        impl Settings {
            /// The defaults. Context: may sleep.
            pub(crate) fn new() -> Result<Arc<Self>> {
                let values = Self { $($field: Atomic::new($default),)* };
                Ok(Arc::new(values, GFP_KERNEL)?)
            }
        }

        impl Knobs for Settings {
            const PATH: &'static CStr = c"net/smc";
            const COUNT: usize = [$($name),*].len();

            fn knobs(&self) -> impl Iterator<Item = (&'static Knob, &Atomic<i32>)> {
                [$(
                    (
                        const {
                            &Knob {
                                name: $name,
                                min: $min,
                                max: $max,
                                initial_only: false $(|| !stringify!($initial).is_empty())?,
                            }
                        },
                        &self.$field,
                    ),
                )*]
                .into_iter()
            }
        }
    };
}

settings! {
    /// Octets of payload that may wait for more while earlier data is under way.
    autocorking_size: c"autocorking_size" = 64 << 10, 0, i32::MAX;
    /// Seconds of silence before a link is tested, 0 for never (`SMCR-KAL-02`).
    testlink_time: c"smcr_testlink_time" = 30, 0, i32::MAX;
    /// Octets of the send buffer of a socket without SO_SNDBUF.
    wmem: c"wmem" = 256 << 10, MIN_BUFFER, i32::MAX / 2;
    /// Octets of the receive buffer of a socket without SO_RCVBUF.
    rmem: c"rmem" = 256 << 10, MIN_BUFFER, i32::MAX / 2;
    /// Whether buffers are contiguous, in pieces, or what can be had.
    buf_type: c"smcr_buf_type" = 0, 0, 2;
    /// Most links of a link group, not counting an asymmetric one (`SMCR-LGR-10`).
    max_links: c"smcr_max_links_per_lgr" = 2, 1, LINKS;
    /// Most connections of a link group.
    max_conns: c"smcr_max_conns_per_lgr" = 255, 16, 255;
    /// Whether new sockets limit the handshakes of those that listen.
    limit_handshakes: c"limit_smc_hs" = 0, 0, 1;
    /// Whether these two become less for connections that have many beside them.
    share_buffers: c"smcr_share_buffers" = 1, 0, 1;
    /// Messages that can be in flight on a link.
    max_send_wr: c"smcr_max_send_wr" = 48, 2, MAX_WRS;
    /// Messages that can arrive on a link before any is handled.
    max_recv_wr: c"smcr_max_recv_wr" = 128, 2, MAX_WRS;
    /// Microseconds that a call may spin before it sleeps.
    spin_us: c"smcr_spin_us" = SpinLimit::DEFAULT, 0, SpinLimit::MOST;
    /// KiB of buffers of the namespace.
    max_kbytes: c"smcr_max_kbytes" = part_of_memory(host_kbytes(), NET_PART), 0, i32::MAX;
    /// KiB of buffers of all namespaces.
    host_max_kbytes: c"smcr_host_max_kbytes" = part_of_memory(host_kbytes(), HOST_PART), 0, i32::MAX, initial;
    /// Link groups in first contact.
    max_forming: c"smcr_max_forming_lgrs" = 256, 0, i32::MAX;
    /// Those of them with one peer.
    max_forming_per_peer: c"smcr_max_forming_lgrs_per_peer" = 16, 0, i32::MAX;
    /// Connections without a file, after their close.
    max_orphans: c"smcr_max_orphans" = 16384, 0, i32::MAX;
    /// Seconds that such a connection has to get rid of its data.
    orphan_time: c"smcr_orphan_time" = 600, 1, i32::MAX;
}

/// The part of the memory that buffers of a namespace may take, by default.
const NET_PART: u64 = 8;

/// The same for all together.
const HOST_PART: u64 = 4;

/// The least buffer that the protocol knows.
const MIN_BUFFER: i32 = 16 << 10;

/// The most links that a group has places for.
const LINKS: i32 = 8;

/// The most messages of a link in either direction.
const MAX_WRS: i32 = 2048;

impl Settings {
    /// Octets of payload that may wait for more while earlier data is under way.
    pub(crate) fn autocorking_size(&self) -> u32 {
        u32::try_from(self.autocorking_size.load(Relaxed)).unwrap_or(0)
    }

    /// Silence before a link is tested; zero for never.
    pub(crate) fn testlink_time(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.testlink_time.load(Relaxed)).unwrap_or(0))
    }

    /// How long a call may spin before it sleeps.
    pub(crate) fn longest_spin(&self) -> Duration {
        SpinLimit::span(self.spin_us.load(Relaxed))
    }

    /// Octets of the send buffer of a socket that asks for none.
    pub(crate) fn wmem(&self) -> u32 {
        size(&self.wmem)
    }

    /// Octets of the receive buffer of a socket that asks for none.
    pub(crate) fn rmem(&self) -> u32 {
        size(&self.rmem)
    }

    /// The kind of the buffers of a new link group.
    pub(crate) fn buffer_kind(&self) -> BufferKind {
        BufferKind::of_setting(self.buf_type.load(Relaxed))
    }

    /// Whether these two become less for connections that have many beside them.
    pub(crate) fn shares_buffers(&self) -> bool {
        self.share_buffers.load(Relaxed) != 0
    }

    /// What this side wants of a new link group.
    pub(crate) fn limits(&self) -> GroupLimits {
        let number = |value: &Atomic<i32>| u8::try_from(value.load(Relaxed)).unwrap_or(1);
        GroupLimits {
            max_conns: number(&self.max_conns),
            max_links: number(&self.max_links),
        }
    }

    /// Whether a new socket limits its handshakes.
    pub(crate) fn limits_handshakes(&self) -> bool {
        self.limit_handshakes.load(Relaxed) != 0
    }

    /// Sets that for later sockets.
    pub(crate) fn set_limits_handshakes(&self, limits: bool) {
        self.limit_handshakes.store(limits.into(), Relaxed);
    }

    /// Effective values of the namespace: its own, up to those of the initial one.
    pub(crate) fn caps(&self, initial: &Self) -> Caps {
        let least = |own: &Atomic<i32>, initial: &Atomic<i32>| {
            lesser(own.load(Relaxed), initial.load(Relaxed))
        };
        let count = |own, initial| usize::try_from(least(own, initial)).unwrap_or(usize::MAX);
        let host = &initial.host_max_kbytes;
        Caps {
            bytes: kbytes(least(&self.max_kbytes, &initial.max_kbytes)),
            host_bytes: kbytes(least(host, host)),
            forming: count(&self.max_forming, &initial.max_forming),
            forming_per_peer: count(&self.max_forming_per_peer, &initial.max_forming_per_peer),
            orphans: u64::from(least(&self.max_orphans, &initial.max_orphans)),
            orphan_time: self.orphan_time(),
        }
    }

    /// Time that a closed connection has to drain, in seconds.
    pub(crate) fn orphan_time(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.orphan_time.load(Relaxed)).unwrap_or(1))
    }

    /// Messages that can be in flight on a new link.
    pub(crate) fn send_slots(&self) -> u16 {
        slots(&self.max_send_wr)
    }

    /// How many messages of a new link can arrive before any is handled.
    pub(crate) fn recv_slots(&self) -> u16 {
        slots(&self.max_recv_wr)
    }
}

fn size(value: &Atomic<i32>) -> u32 {
    u32::try_from(value.load(Relaxed)).unwrap_or(BufSize::MIN.bytes())
}

fn slots(value: &Atomic<i32>) -> u16 {
    u16::try_from(value.load(Relaxed)).unwrap_or(1)
}

/// The settings of a namespace, from its beginning.
pub(crate) struct NetSettings {
    cookie: u64,
    values: Arc<Settings>,
    /// The files, once sockets can be made.
    table: Option<SysctlTable<Settings>>,
}

/// The values of all namespaces.
#[pin_data]
pub(crate) struct Sysctls {
    /// The values of the initial namespace, which bound those of all.
    pub(crate) host: Arc<Settings>,
    #[pin]
    nets: Mutex<KVec<NetSettings>>,
}

impl Sysctls {
    /// The values of no namespace yet. Context: may sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let host = Settings::new()?;
        Arc::pin_init(
            pin_init!(Self {
                host,
                nets <- new_mutex!(KVec::new(), "rdma_sock_settings"),
            }),
            GFP_KERNEL,
        )
    }

    /// The values of a namespace. Context: may sleep.
    pub(crate) fn of(&self, net_cookie: u64) -> Result<Arc<Settings>> {
        let nets = self.nets.lock();
        let found = nets.iter().find(|net| net.cookie == net_cookie);
        found.map(|net| net.values.clone()).ok_or(ENOENT)
    }

    /// A namespace comes. Context: may sleep.
    pub(crate) fn add(&self, net: &Net) -> Result {
        let values = if net.is_initial() {
            self.host.clone()
        } else {
            Settings::new()?
        };
        let net = NetSettings {
            cookie: net.cookie(),
            values,
            table: None,
        };
        self.nets.lock().push(net, GFP_KERNEL)?;
        Ok(())
    }

    /// A namespace goes. Context: may sleep.
    pub(crate) fn remove(&self, net_cookie: u64) {
        self.nets.lock().retain(|net| net.cookie != net_cookie);
    }

    /// Puts the files of a namespace in place of those it has. Context: may sleep.
    pub(crate) fn set_table(&self, net_cookie: u64, table: Option<SysctlTable<Settings>>) {
        let old = {
            let mut nets = self.nets.lock();
            let found = nets.iter_mut().find(|net| net.cookie == net_cookie);
            match found {
                Some(net) => core::mem::replace(&mut net.table, table),
                None => table,
            }
        };
        // Waits for running reads and writes, without the lock.
        drop(old);
    }
}
