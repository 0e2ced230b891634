// SPDX-License-Identifier: GPL-2.0

//! Tests of UDP sockets, over the loopback device of the initial namespace.

use super::*;
use crate::kapi::{
    base::work::{
        new_deferred,
        Deferred,
        Run,
        WorkQueue, //
    },
    compat::errno::{
        EADDRINUSE,
        EAFNOSUPPORT,
        ECONNREFUSED, //
    },
};
use kernel::{
    new_condvar,
    new_mutex,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        CondVar,
        CondVarTimeoutResult,
        Mutex, //
    },
    time::msecs_to_jiffies, //
};

/// Longest wait for an event.
const PATIENCE_MS: u32 = 20_000;

/// Counts the events of its socket.
#[pin_data]
struct UdpProbe {
    queue: Arc<WorkQueue>,
    events: Atomic<u32>,
    #[pin]
    work: Deferred<UdpProbe>,
    #[pin]
    runs: Mutex<u32>,
    #[pin]
    changed: CondVar,
}

impl UdpEvents for UdpProbe {
    fn udp_event(this: ArcBorrow<'_, Self>) {
        this.events.add(1, Relaxed);
        let this = Arc::from(this);
        this.work.kick(&this, &this.queue);
    }
}

impl Run<0> for UdpProbe {
    fn run(this: Arc<Self>) {
        *this.runs.lock() += 1;
        this.changed.notify_all();
    }
}

impl UdpProbe {
    fn new(queue: &Arc<WorkQueue>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                queue: queue.clone(),
                events: Atomic::new(0),
                work <- new_deferred!("rdma_sock_test_udp"),
                runs <- new_mutex!(0, "rdma_sock_test_runs"),
                changed <- new_condvar!("rdma_sock_test_ran"),
            }),
            GFP_KERNEL,
        )
    }

    /// Waits until `f` has a result, which it is asked for at first and after each event.
    fn wait<R>(&self, mut f: impl FnMut() -> Result<R>) -> Result<R> {
        let mut left = msecs_to_jiffies(PATIENCE_MS);
        let mut runs = self.runs.lock();
        loop {
            match f() {
                Err(EAGAIN) => {}
                other => return other,
            }
            match self.changed.wait_interruptible_timeout(&mut runs, left) {
                CondVarTimeoutResult::Woken { jiffies } => left = jiffies,
                CondVarTimeoutResult::Timeout => return Err(ETIMEDOUT),
                CondVarTimeoutResult::Signal { .. } => return Err(EINTR),
            }
        }
    }
}

/// A socket with its probe.
struct Side {
    socket: UdpSocket<UdpProbe>,
    probe: Arc<UdpProbe>,
}

impl Side {
    fn recv(&self) -> Result<(UdpReceived, [u8; 8])> {
        self.probe.wait(|| {
            let mut room = [0; 8];
            self.socket.recv(&mut room).map(|received| (received, room))
        })
    }
}

/// Makes sockets. Its drop comes after theirs.
struct UdpBench {
    queue: Arc<WorkQueue>,
    net: Arc<UdpNet>,
}

impl UdpBench {
    fn new() -> Result<Self> {
        Ok(Self {
            queue: Arc::new(WorkQueue::new(c"rdma_sock_test")?, GFP_KERNEL)?,
            net: UdpNet::new(Net::initial())?,
        })
    }

    fn side(&self, family: Family) -> Result<Side> {
        let probe = UdpProbe::new(&self.queue)?;
        let socket = UdpSocket::new(&self.net, family, probe.clone())?;
        Ok(Side { socket, probe })
    }

    fn bound(&self, addr: Addr) -> Result<Side> {
        let side = self.side(match addr {
            Addr::V4 { .. } => Family::V4,
            Addr::V6 { .. } => Family::V6,
        })?;
        side.socket.bind(&addr)?;
        Ok(side)
    }

    fn connected(&self, addr: Addr) -> Result<Side> {
        let side = self.side(match addr {
            Addr::V4 { .. } => Family::V4,
            Addr::V6 { .. } => Family::V6,
        })?;
        side.socket.connect(&addr)?;
        Ok(side)
    }
}

impl Drop for UdpBench {
    fn drop(&mut self) {
        // No run is left that would drop the last reference to the queue.
        self.queue.flush();
    }
}

fn v4(last: u8, port: u16) -> Addr {
    Addr::V4 {
        ip: [127, 0, 0, last],
        port,
    }
}

const ANY_V4: Addr = Addr::V4 {
    ip: [0; 4],
    port: 0,
};

fn v6(last: u8, port: u16) -> Addr {
    Addr::V6 {
        ip: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last],
        port,
        scope: 0,
    }
}

fn port_of(side: &Side) -> u16 {
    match side.socket.local_addr() {
        Addr::V4 { port, .. } | Addr::V6 { port, .. } => port,
    }
}

/// Fails a test from within a function that it calls.
fn check(is_so: bool) -> Result {
    is_so.then_some(()).ok_or(EPROTO)
}

/// A request from `client` to `server`, and the answer from the address that was asked.
fn exchange(client: &Side, server: &Side, asked: Addr) -> Result {
    client.socket.send(b"question")?;
    let (received, octets) = server.recv()?;
    check(&octets == b"question" && received.len == 8 && received.is_direct)?;
    check(received.from == client.socket.local_addr())?;
    check(received.to.ip_mapped() == asked.ip_mapped())?;
    server
        .socket
        .send_to(b"answers", &received.from, &received.to)?;
    let (received, octets) = client.recv()?;
    check(&octets == b"answers\0" && received.len == 7)?;
    check(received.from == asked)
}

/// Opens a socket that is sent to, and drops it, again and again.
fn open_and_drop(bench: &UdpBench, to: Addr) -> Result {
    for round in 0..100 {
        let Side { socket, probe } = bench.bound(to)?;
        // Every second socket is dropped whatever runs.
        if round % 2 == 0 {
            let mut room = [0; 8];
            probe.wait(|| socket.recv(&mut room))?;
        }
        drop(socket);
        // No callback has the owner. Its work item may, which ends here.
        probe.work.cancel_sync();
        check(Arc::into_unique_or_drop(probe).is_some())?;
    }
    Ok(())
}

#[kernel::macros::kunit_tests(rdma_sock_kapi_net_udp)]
mod suite {
    use super::*;

    // The socket of the client is connected, so that an answer from another address is lost.
    #[test]
    fn answer_leaves_from_the_address_that_was_asked() -> Result {
        let bench = UdpBench::new()?;
        let server = bench.bound(ANY_V4)?;
        for last in [1, 2] {
            let asked = v4(last, port_of(&server));
            let client = bench.connected(asked)?;
            exchange(&client, &server, asked)?;
        }
        Ok(())
    }

    #[test]
    fn exchange_works_over_ipv6() -> Result {
        let bench = UdpBench::new()?;
        let server = match bench.bound(v6(0, 0)) {
            Err(EAFNOSUPPORT) => return Ok(()),
            other => other?,
        };
        let asked = v6(1, port_of(&server));
        let client = bench.connected(asked)?;
        exchange(&client, &server, asked)?;
        // Another socket may have the port for IPv4.
        bench.bound(v4(1, port_of(&server)))?;
        Ok(())
    }

    #[test]
    fn closed_port_gives_an_error_by_an_event() -> Result {
        let bench = UdpBench::new()?;
        let mut targets = KVec::new();
        targets.push(bench.bound(v4(1, 0))?, GFP_KERNEL)?;
        match bench.bound(v6(1, 0)) {
            Err(EAFNOSUPPORT) => {}
            other => targets.push(other?, GFP_KERNEL)?,
        }
        while let Some(target) = targets.pop() {
            let addr = target.socket.local_addr();
            let client = bench.connected(addr)?;
            drop(target);
            client.socket.send(b"question")?;
            assert!(client.recv().is_err_and(|err| err == ECONNREFUSED));
            assert!(client.probe.events.load(Relaxed) > 0);
            // It is reported once.
            let mut room = [0; 8];
            assert!(client
                .socket
                .recv(&mut room)
                .is_err_and(|err| err == EAGAIN));
        }
        Ok(())
    }

    #[test]
    fn datagram_of_a_third_socket_does_not_come_to_a_connected_one() -> Result {
        let bench = UdpBench::new()?;
        let peer = bench.bound(v4(1, 0))?;
        let client = bench.connected(peer.socket.local_addr())?;
        let third = bench.bound(v4(1, 0))?;
        let (to, from) = (client.socket.local_addr(), v4(1, 0));
        third.socket.send_to(b"forgery!", &to, &from)?;
        peer.socket.send_to(b"genuine!", &to, &from)?;
        let (received, octets) = client.recv()?;
        assert_eq!(&octets, b"genuine!");
        assert!(received.from == peer.socket.local_addr());
        Ok(())
    }

    #[test]
    fn port_in_use_is_reported() -> Result {
        let bench = UdpBench::new()?;
        let first = bench.bound(ANY_V4)?;
        let second = bench.bound(v4(1, port_of(&first)));
        assert!(second.is_err_and(|err| err == EADDRINUSE));
        Ok(())
    }

    #[test]
    fn closed_socket_calls_nothing_back() -> Result {
        let bench = UdpBench::new()?;
        let side = bench.bound(v4(1, 0))?;
        let client = bench.connected(side.socket.local_addr())?;
        let other = bench.bound(v4(1, 0))?;
        client.socket.send(b"question")?;
        side.recv()?;
        let Side { socket, probe } = side;
        let to = socket.local_addr();
        drop(socket);
        let events = probe.events.load(Relaxed);
        other.socket.send_to(b"question", &to, &v4(1, 0))?;
        // The loopback device keeps the order, so the datagram above was handled before this one.
        other
            .socket
            .send_to(b"question", &other.socket.local_addr(), &v4(1, 0))?;
        other.recv()?;
        assert_eq!(probe.events.load(Relaxed), events);
        // Nothing else refers to the owner: its work item may still.
        bench.queue.flush();
        assert!(Arc::into_unique_or_drop(probe).is_some());
        Ok(())
    }

    /// Sends to a port in a work item until it is stopped.
    #[pin_data]
    struct Sender {
        queue: Arc<WorkQueue>,
        side: Side,
        to: Addr,
        is_stopped: Atomic<u32>,
        #[pin]
        work: Deferred<Sender>,
    }

    impl Run<0> for Sender {
        fn run(this: Arc<Self>) {
            for _ in 0..64 {
                // A full queue is no error here.
                let _ = this.side.socket.send_to(b"question", &this.to, &v4(1, 0));
            }
            if this.is_stopped.load(Relaxed) == 0 {
                this.work.kick(&this, &this.queue);
            }
        }
    }

    #[test]
    fn drop_is_safe_while_callbacks_run() -> Result {
        let bench = UdpBench::new()?;
        let to = bench.bound(v4(1, 0))?.socket.local_addr();
        let side = bench.bound(v4(1, 0))?;
        let queue = bench.queue.clone();
        let sender = Arc::pin_init(
            pin_init!(Sender {
                queue,
                side,
                to,
                is_stopped: Atomic::new(0),
                work <- new_deferred!("rdma_sock_test_sender"),
            }),
            GFP_KERNEL,
        )?;
        sender.work.kick(&sender, &bench.queue);
        let outcome = open_and_drop(&bench, to);
        sender.is_stopped.store(1, Relaxed);
        sender.work.cancel_sync();
        outcome
    }

    #[test]
    fn memory_of_datagrams_that_wait_is_bounded() -> Result {
        const SENT: usize = 4000;
        let bench = UdpBench::new()?;
        let side = bench.bound(v4(1, 0))?;
        let other = bench.bound(v4(1, 0))?;
        let to = side.socket.local_addr();
        for _ in 0..SENT {
            other.socket.send_to(b"question", &to, &v4(1, 0))?;
        }
        side.recv()?;
        let mut count = 1;
        let mut room = [0; 8];
        while side.socket.recv(&mut room).is_ok() {
            count += 1;
        }
        // The kernel charges more than this for each, and doubles the limit. Without one of its own
        // the socket would take more.
        const CHARGE: usize = 512;
        let most = 2 * usize::try_from(RECEIVE_BYTES)? / CHARGE;
        assert!(count <= most);
        Ok(())
    }
}
