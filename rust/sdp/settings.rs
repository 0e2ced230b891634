// SPDX-License-Identifier: GPL-2.0

//! Settings of a network namespace: `/proc/sys/net/rdma_sock/`.
//!
//! A change applies to connections that are made afterwards.

use crate::{
    kapi::net::{
        netns::Net,
        sysctl_text::{
            TextSettings,
            TextTable, //
        },
    },
    proto::{
        base::time::Duration,
        sdp::admission::{
            AcceptPolicy,
            PortList,
            PreferPolicy,
            ProbePolicy,
            Word, //
        },
        stream::spin::SpinLimit, //
    },
};
use core::fmt::{
    self,
    Write, //
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

/// The values of a namespace.
#[derive(Clone, Copy)]
pub(super) struct SdpValues {
    /// What clients do about unknown hosts.
    pub(super) probe: ProbePolicy,
    /// The peers of listeners.
    pub(super) accept: AcceptPolicy,
    /// The ports of listeners.
    pub(super) ports: PortList,
    /// What clients do that may use another protocol, too.
    pub(super) prefer: PreferPolicy,
}

/// The settings of a namespace.
#[pin_data]
pub(super) struct SdpSettings {
    #[pin]
    values: Mutex<SdpValues>,
    /// Microseconds that a call may spin before it sleeps.
    spin_us: Atomic<i32>,
}

impl SdpSettings {
    fn new() -> Result<Arc<Self>> {
        let values = SdpValues {
            probe: ProbePolicy::default(),
            accept: AcceptPolicy::default(),
            ports: PortList::ALL,
            prefer: PreferPolicy::default(),
        };
        Arc::pin_init(
            pin_init!(Self {
                values <- new_mutex!(values, "rdma_sock_sdp_values"),
                spin_us: Atomic::new(SpinLimit::DEFAULT),
            }),
            GFP_KERNEL,
        )
    }

    /// How long a call may spin before it sleeps. Context: any.
    pub(super) fn longest_spin(&self) -> Duration {
        SpinLimit::span(self.spin_us.load(Relaxed))
    }

    /// The values now. Context: may sleep.
    pub(super) fn values(&self) -> SdpValues {
        *self.values.lock()
    }
}

/// Text in a room of fixed size. What does not fit is left out.
struct Text<'a> {
    room: &'a mut [u8],
    len: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for octet in text.bytes() {
            let place = self.room.get_mut(self.len).ok_or(fmt::Error)?;
            *place = octet;
            self.len = self.len.saturating_add(1);
        }
        Ok(())
    }
}

fn write_ports(text: &mut Text<'_>, ports: &PortList) -> fmt::Result {
    for (number, range) in ports.ranges().enumerate() {
        if number != 0 {
            text.write_str(",")?;
        }
        write!(text, "{range}")?;
    }
    Ok(())
}

impl TextSettings for SdpSettings {
    const PATH: &'static CStr = c"net/rdma_sock";
    const NAMES: &'static [&'static CStr] = &[
        c"sdp_probe",
        c"sdp_accept",
        c"sdp_ports",
        c"sdp_prefer",
        c"sdp_spin_us",
    ];

    fn show(&self, index: usize, room: &mut [u8]) -> usize {
        let values = self.values();
        let mut text = Text { room, len: 0 };
        let written = match index {
            0 => text.write_str(values.probe.word()),
            1 => text.write_str(values.accept.word()),
            2 => write_ports(&mut text, &values.ports),
            3 => text.write_str(values.prefer.word()),
            _ => write!(text, "{}", self.spin_us.load(Relaxed)),
        };
        // The longest value fits.
        written.map_or(0, |()| text.len)
    }

    fn store(&self, index: usize, text: &[u8]) -> Result {
        let mut values = self.values.lock();
        match index {
            0 => values.probe = Word::from_text(text).ok_or(EINVAL)?,
            1 => values.accept = Word::from_text(text).ok_or(EINVAL)?,
            2 => values.ports = PortList::from_text(text).ok_or(EINVAL)?,
            3 => values.prefer = Word::from_text(text).ok_or(EINVAL)?,
            _ => {
                let micros = SpinLimit::from_text(text).ok_or(EINVAL)?;
                self.spin_us.store(micros, Relaxed);
            }
        }
        Ok(())
    }
}

/// The settings of a namespace, with their files.
struct SdpNetSettings {
    cookie: u64,
    values: Arc<SdpSettings>,
    _table: TextTable<SdpSettings>,
}

/// The settings of all namespaces.
#[pin_data]
pub(super) struct SdpSysctls {
    #[pin]
    nets: Mutex<KVec<SdpNetSettings>>,
}

impl SdpSysctls {
    /// The settings of no namespace so far. Context: may sleep.
    pub(super) fn new() -> Result<Arc<Self>> {
        let nets = new_mutex!(KVec::new(), "rdma_sock_sdp_settings");
        Arc::pin_init(pin_init!(Self { nets <- nets }), GFP_KERNEL)
    }

    /// The settings of a namespace. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is no such namespace.
    pub(super) fn of(&self, cookie: u64) -> Result<Arc<SdpSettings>> {
        let nets = self.nets.lock();
        let found = nets.iter().find(|net| net.cookie == cookie);
        found.map(|net| net.values.clone()).ok_or(ENOENT)
    }

    /// A namespace comes. Context: may sleep.
    pub(super) fn add(&self, net: &Net) -> Result {
        let values = SdpSettings::new()?;
        let settings = SdpNetSettings {
            cookie: net.cookie(),
            _table: TextTable::new(net, values.clone())?,
            values,
        };
        Ok(self.nets.lock().push(settings, GFP_KERNEL)?)
    }

    /// A namespace goes. Context: may sleep.
    pub(super) fn remove(&self, cookie: u64) {
        let gone = {
            let mut nets = self.nets.lock();
            let at = nets.iter().position(|net| net.cookie == cookie);
            at.and_then(|at| nets.remove(at).ok())
        };
        // Waits for running reads and writes, without the lock.
        drop(gone);
    }
}
