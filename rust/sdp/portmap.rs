// SPDX-License-Identifier: GPL-2.0

//! The Port Mapper server of a network namespace.
//!
//! Datagrams are answered by one work item, which takes a bounded number at a run and does not wait.
//! The core (`proto::sdp::pm::server`) decides about each. Its table is dropped entry by entry as
//! new messages come, so it has no timer.
//!
//! The mapper and its sockets hold each other. [`PortMapping`] breaks that: its drop takes the
//! sockets, after which no event comes, and then waits for the work item.

use super::addr::to_pm;
use crate::{
    kapi::{
        base::{
            sync::{
                new_spinlock_bh,
                SpinLockBh, //
            },
            work::{
                new_deferred,
                Deferred,
                Run, //
            },
        },
        compat::errno::{
            EADDRINUSE,
            EAFNOSUPPORT, //
        },
        net::{
            addr::Addr,
            netns::Net,
            sock::Family,
            udp::{
                UdpEvents,
                UdpNet,
                UdpReceived,
                UdpSocket, //
            },
        },
    },
    proto::sdp::pm::{
        msg::{
            PmAddr,
            PmKind,
            PmMessage,
            PORT, //
        },
        server::{
            PmServer,
            PmService,
            PmTransaction, //
        },
    },
    sock::context::{
        now,
        Context, //
    },
};
use core::net::IpAddr;
use kernel::{
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

/// Datagrams of a socket that one run handles, so that a flood does not keep its worker.
const BUDGET: usize = 64;

/// The listeners of the namespace, as the Port Mapper needs them.
pub(crate) trait PortMapServices: Send + Sync + 'static {
    /// Where a service of this host is by SDP, and for how long that may be kept; `None` if it is
    /// not. `service.ip` is the address that the request was sent to.
    ///
    /// Called by a work item with no lock held. Context: may sleep. It must not wait for a peer.
    fn find(&self, service: PmAddr) -> Option<PmService>;

    /// A host has asked. The address may be forged. Context: may sleep.
    fn asked(&self, _host: IpAddr) {}
}

/// Parameters of a Port Mapper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortMapParams {
    /// The UDP port (SDP-CONST-14); 0 for any.
    pub(crate) port: u16,
    /// Transactions of all clients at a time.
    pub(crate) transactions: usize,
}

impl PortMapParams {
    /// The draft's port.
    pub(crate) const DEFAULT: Self = Self {
        port: PORT,
        transactions: 1024,
    };
}

/// What the Port Mapper has done since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortMapCounts {
    /// PMReq that were read.
    pub(crate) requests: u64,
    /// PMAccept that were sent.
    pub(crate) accepted: u64,
    /// PMDeny that were sent.
    pub(crate) denied: u64,
    /// Datagrams that are no message, or were not sent to an address of this host.
    pub(crate) dropped: u64,
}

type Sockets<S> = [Option<Arc<UdpSocket<PortMapper<S>>>>; 2];

struct PortMapState<S: PortMapServices> {
    server: PmServer<KVVec<Option<PmTransaction>>>,
    counts: PortMapCounts,
    /// For IPv4 and IPv6; empty after the end.
    sockets: Sockets<S>,
}

/// The Port Mapper server of a namespace.
#[pin_data]
pub(crate) struct PortMapper<S: PortMapServices> {
    context: Arc<Context>,
    services: Arc<S>,
    #[pin]
    work: Deferred<Self>,
    #[pin]
    state: SpinLockBh<PortMapState<S>>,
}

/// A Port Mapper that serves, or could not. Dropping it closes its sockets.
///
/// It must be dropped before the `NetOps::exit` of its namespace returns, and not by a work item of
/// its queue. Context of the drop: it may sleep.
pub(crate) struct PortMapping<S: PortMapServices>(Arc<PortMapper<S>>);

#[cfg_attr(
    not(CONFIG_RDMA_SOCK_KUNIT_TEST),
    expect(dead_code, reason = "for later parts of SDP; used by KUnit tests")
)]
impl<S: PortMapServices> PortMapping<S> {
    /// Begins to serve in `net`, with the queue `context.setups`. Context: may sleep.
    ///
    /// If the port is in use, the log says so, and nothing is served: see [`Self::addr`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and errors of the sockets other than `EADDRINUSE`.
    pub(crate) fn new(
        net: &Net,
        context: &Arc<Context>,
        params: &PortMapParams,
        services: Arc<S>,
    ) -> Result<Self> {
        let table = KVVec::from_elem(None, params.transactions, GFP_KERNEL)?;
        let mapper = Arc::pin_init(
            pin_init!(PortMapper {
                context: context.clone(),
                services,
                work <- new_deferred!("rdma_sock_portmap"),
                state <- new_spinlock_bh!(
                    PortMapState {
                        server: PmServer::new(table),
                        counts: PortMapCounts::default(),
                        sockets: [None, None],
                    },
                    "rdma_sock_portmap_state"
                ),
            }),
            GFP_KERNEL,
        )?;
        match mapper.open(&UdpNet::new(net)?, params.port) {
            Ok(sockets) => {
                mapper.state.lock().sockets = sockets;
                // What has come before is found by the first run.
                mapper.work.kick(&mapper, &context.setups);
            }
            Err(EADDRINUSE) => {
                if context.may_log() {
                    pr_warn!(
                        "UDP port {} is in use: SDP services are not announced\n",
                        params.port
                    );
                }
            }
            Err(err) => return Err(err),
        }
        Ok(Self(mapper))
    }

    /// The local address of the IPv4 socket; `None` if nothing is served. Context: any.
    pub(crate) fn addr(&self) -> Option<Addr> {
        let state = self.0.state.lock();
        let [v4, _] = &state.sockets;
        Some(v4.as_ref()?.local_addr())
    }

    /// A connection by SDP has come from `client`, which stands for a lost PMAck (SDP-PMS-03).
    /// Context: any.
    pub(crate) fn note_connect(&self, client: &Addr) {
        if let Some(client) = to_pm(client) {
            self.0.state.lock().server.handle_connect(now(), client);
        }
    }

    /// What was done so far. Context: any.
    pub(crate) fn counts(&self) -> PortMapCounts {
        self.0.state.lock().counts
    }
}

impl<S: PortMapServices> Drop for PortMapping<S> {
    fn drop(&mut self) {
        let sockets = core::mem::take(&mut self.0.state.lock().sockets);
        // A run has references to them, so the last may go with it.
        drop(sockets);
        self.0.work.cancel_sync();
    }
}

impl<S: PortMapServices> PortMapper<S> {
    fn open(self: &Arc<Self>, net: &Arc<UdpNet>, port: u16) -> Result<Sockets<S>> {
        let v4 = self.open_at(net, Family::V4, any_v4(port))?;
        let port = match v4.local_addr() {
            Addr::V4 { port, .. } | Addr::V6 { port, .. } => port,
        };
        let v6 = match self.open_at(net, Family::V6, any_v6(port)) {
            Ok(v6) => Some(v6),
            // The host has no IPv6.
            Err(EAFNOSUPPORT) => None,
            Err(err) => return Err(err),
        };
        Ok([Some(v4), v6])
    }

    fn open_at(
        self: &Arc<Self>,
        net: &Arc<UdpNet>,
        family: Family,
        addr: Addr,
    ) -> Result<Arc<UdpSocket<Self>>> {
        let socket = UdpSocket::new(net, family, self.clone())?;
        socket.bind(&addr)?;
        Ok(Arc::new(socket, GFP_KERNEL)?)
    }

    /// Handles what has come on a socket; whether there may be more.
    fn serve(&self, socket: &UdpSocket<Self>) -> bool {
        let mut room = [0; ROOM];
        for _ in 0..BUDGET {
            // A socket that is not connected has no errors but those of a single datagram.
            let Ok(received) = socket.recv(&mut room) else {
                return false;
            };
            let octets = room.get(..received.len).unwrap_or_default();
            if let Some(answer) = self.answer(&received, octets) {
                // A client asks again for an answer that is lost.
                let _ = socket.send_to(&answer.emit(), &received.from, &received.to);
            }
        }
        true
    }

    fn answer(&self, received: &UdpReceived, octets: &[u8]) -> Option<PmMessage> {
        let Some((message, sender, asked)) = read(received, octets) else {
            let counts = &mut self.state.lock().counts;
            counts.dropped = counts.dropped.wrapping_add(1);
            return None;
        };
        let service = message.service_at(asked);
        let found = service.and_then(|service| self.services.find(service));
        let answer = {
            let mut state = self.state.lock();
            let answer = state.server.handle_message(now(), sender, &message, found);
            let counts = &mut state.counts;
            if let Some(answer) = &answer {
                counts.requests = counts.requests.wrapping_add(1);
                match answer.kind {
                    PmKind::Accept => counts.accepted = counts.accepted.wrapping_add(1),
                    _ => counts.denied = counts.denied.wrapping_add(1),
                }
            }
            answer
        };
        if answer.is_some() {
            self.services.asked(sender);
        }
        answer
    }
}

/// Octets of a datagram that are looked at. The longest message known is that of `iwpmd`
/// (SDP-PMF-25).
const ROOM: usize = 64;

/// The message, its sender, and the address that it was sent to.
fn read(received: &UdpReceived, octets: &[u8]) -> Option<(PmMessage, IpAddr, IpAddr)> {
    if !received.is_direct {
        return None;
    }
    let message = PmMessage::parse(octets).ok()?;
    let sender = to_pm(&received.from)?;
    let asked = to_pm(&received.to)?;
    Some((message, sender.ip, asked.ip))
}

impl<S: PortMapServices> Run<0> for PortMapper<S> {
    fn run(this: Arc<Self>) {
        let sockets = this.state.lock().sockets.clone();
        let mut has_more = false;
        for socket in sockets.iter().flatten() {
            has_more |= this.serve(socket);
        }
        if has_more {
            // Behind the work that waits.
            this.work.kick(&this, &this.context.setups);
        }
    }
}

impl<S: PortMapServices> UdpEvents for PortMapper<S> {
    fn udp_event(this: ArcBorrow<'_, Self>) {
        let this: Arc<Self> = this.into();
        this.work.kick(&this, &this.context.setups);
    }
}

const fn any_v4(port: u16) -> Addr {
    Addr::V4 { ip: [0; 4], port }
}

const fn any_v6(port: u16) -> Addr {
    Addr::V6 {
        ip: [0; 16],
        port,
        scope: 0,
    }
}

#[cfg(CONFIG_RDMA_SOCK_KUNIT_TEST)]
mod tests;
