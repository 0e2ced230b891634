// SPDX-License-Identifier: GPL-2.0

//! What tests of both sides of the Port Mapper share: a socket that asks or answers by hand, and
//! services.

use super::{addr::to_pm, portmap::PortMapServices};
use crate::{
    kapi::{
        base::work::{
            new_deferred,
            Deferred,
            Run, //
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
            LEN, //
        },
        server::PmService,
    },
    sock::context::Context,
};
use core::net::IpAddr;
use kernel::{
    new_condvar, new_mutex,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow,
        CondVar,
        CondVarTimeoutResult,
        Mutex, //
    },
    time::{
        msecs_to_jiffies,
        Jiffies, //
    },
};

/// Longest wait for what must come, in milliseconds.
pub(super) const PATIENT: u32 = 20_000;

/// Waits on `changed` until `f` has a result.
pub(super) fn wait_for<T: Unpin, R>(
    changed: &CondVar,
    lock: &Mutex<T>,
    millis: u32,
    mut f: impl FnMut(&mut T) -> Option<R>,
) -> Result<R> {
    let mut left: Jiffies = msecs_to_jiffies(millis);
    let mut guard = lock.lock();
    loop {
        if let Some(found) = f(&mut guard) {
            return Ok(found);
        }
        match changed.wait_interruptible_timeout(&mut guard, left) {
            CondVarTimeoutResult::Woken { jiffies } => left = jiffies,
            CondVarTimeoutResult::Timeout => return Err(ETIMEDOUT),
            CondVarTimeoutResult::Signal { .. } => return Err(EINTR),
        }
    }
}

/// Wakes a test when its socket has an event.
#[pin_data]
pub(super) struct Bell {
    context: Arc<Context>,
    #[pin]
    work: Deferred<Bell>,
    #[pin]
    lock: Mutex<()>,
    #[pin]
    changed: CondVar,
}

impl Run<0> for Bell {
    fn run(this: Arc<Self>) {
        drop(this.lock.lock());
        this.changed.notify_all();
    }
}

impl UdpEvents for Bell {
    fn udp_event(this: ArcBorrow<'_, Self>) {
        let this = Arc::from(this);
        this.work.kick(&this, &this.context.closings);
    }
}

/// Waits for the work item at the end, which would drop the last reference to its queue.
struct BellEnd(Arc<Bell>);

impl Drop for BellEnd {
    fn drop(&mut self) {
        self.0.work.cancel_sync();
    }
}

/// A UDP socket for a test to ask and answer by hand.
pub(super) struct TestSocket {
    /// Goes first: then there are no events.
    socket: UdpSocket<Bell>,
    bell: BellEnd,
}

impl TestSocket {
    fn new(context: &Arc<Context>) -> Result<Self> {
        let bell = Arc::pin_init(
            pin_init!(Bell {
                context: context.clone(),
                work <- new_deferred!("rdma_sock_test_bell"),
                lock <- new_mutex!((), "rdma_sock_test_bell"),
                changed <- new_condvar!("rdma_sock_test_bell"),
            }),
            GFP_KERNEL,
        )?;
        let net = UdpNet::new(Net::initial())?;
        let socket = UdpSocket::new(&net, Family::V4, bell.clone())?;
        let bell = BellEnd(bell);
        Ok(Self { socket, bell })
    }

    /// One that is bound to 127.0.0.`last` and a port, or any port.
    pub(super) fn bound(context: &Arc<Context>, last: u8, port: u16) -> Result<Self> {
        let this = Self::new(context)?;
        this.socket.bind(&local(last, port))?;
        Ok(this)
    }

    /// The port of the socket.
    pub(super) fn port(&self) -> u16 {
        match self.socket.local_addr() {
            Addr::V4 { port, .. } | Addr::V6 { port, .. } => port,
        }
    }

    /// Waits for a datagram.
    pub(super) fn recv(&self, millis: u32) -> Result<(UdpReceived, [u8; LEN])> {
        let bell = &self.bell.0;
        wait_for(&bell.changed, &bell.lock, millis, |()| {
            let mut room = [0; LEN];
            match self.socket.recv(&mut room) {
                Ok(received) => Some(Ok((received, room))),
                Err(EAGAIN) => None,
                Err(err) => Some(Err(err)),
            }
        })?
    }

    /// Waits for a message; with its sender.
    pub(super) fn message(&self) -> Result<(Addr, PmMessage)> {
        let (received, octets) = self.recv(PATIENT)?;
        let message = PmMessage::parse(&octets).map_err(|_| EPROTO)?;
        Ok((received.from, message))
    }

    /// Sends a datagram from the address that the socket is bound to.
    pub(super) fn send_to(&self, octets: &[u8], to: &Addr) -> Result {
        self.socket.send_to(octets, to, &self.socket.local_addr())
    }
}

/// A client that asks 127.0.0.`last` by hand.
pub(super) struct TestClient {
    socket: TestSocket,
    service: PmAddr,
    client: PmAddr,
}

impl TestClient {
    pub(super) fn new(context: &Arc<Context>, last: u8, port: u16) -> Result<Self> {
        let socket = TestSocket::new(context)?;
        socket.socket.bind(&local(1, 0))?;
        socket.socket.connect(&local(last, port))?;
        Ok(Self {
            client: to_pm(&socket.socket.local_addr()).ok_or(EINVAL)?,
            service: to_pm(&local(last, 0)).ok_or(EINVAL)?,
            socket,
        })
    }

    /// A request for a service of the host that is asked.
    pub(super) fn request(&self, port: u16, handle: u64) -> PmMessage {
        PmMessage {
            kind: PmKind::Req,
            time: 0,
            service: PmAddr {
                port,
                ..self.service
            },
            client: self.client,
            handle,
        }
    }

    /// The address of the client.
    pub(super) fn addr(&self) -> Addr {
        self.socket.socket.local_addr()
    }

    pub(super) fn send(&self, octets: &[u8]) -> Result {
        self.socket.socket.send(octets)
    }

    /// Waits for a message that has the length of one.
    pub(super) fn recv(&self, millis: u32) -> Result<[u8; LEN]> {
        let (received, octets) = self.socket.recv(millis)?;
        (received.len == LEN).then_some(octets).ok_or(EPROTO)
    }

    pub(super) fn try_recv(&self) -> Option<UdpReceived> {
        self.socket.socket.recv(&mut [0; LEN]).ok()
    }
}

/// Services on port 80 of each address, and the hosts that have asked.
#[pin_data]
pub(super) struct TestServices {
    time: u8,
    #[pin]
    asked: Mutex<KVec<IpAddr>>,
}

impl TestServices {
    pub(super) fn new(time: u8) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                time,
                asked <- new_mutex!(KVec::new(), "rdma_sock_test_asked"),
            }),
            GFP_KERNEL,
        )
    }

    /// How many requests of a host were answered.
    pub(super) fn asked_by(&self, ip: [u8; 4]) -> usize {
        let ip = IpAddr::from(ip);
        self.asked.lock().iter().filter(|host| **host == ip).count()
    }
}

impl PortMapServices for TestServices {
    fn find(&self, service: PmAddr) -> Option<PmService> {
        let time = self.time;
        (service.port == 80).then_some(PmService { at: service, time })
    }

    fn asked(&self, host: IpAddr) {
        // Too little memory shows as a count that is too low.
        let _ = self.asked.lock().push(host, GFP_KERNEL);
    }
}

/// An address of the loopback device.
pub(super) fn local(last: u8, port: u16) -> Addr {
    Addr::V4 {
        ip: [127, 0, 0, last],
        port,
    }
}
