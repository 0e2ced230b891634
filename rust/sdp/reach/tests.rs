// SPDX-License-Identifier: GPL-2.0

//! Tests of inquiries, over the loopback device of the initial namespace.

use super::*;
use crate::{
    kapi::base::time::now_ns,
    proto::{
        base::{
            retry::Backoff,
            time::Duration, //
        },
        sdp::pm::msg::PmKind,
    },
    sdp::{
        portmap::{
            PortMapParams,
            PortMapping, //
        },
        test_client::{
            local,
            wait_for,
            TestServices,
            TestSocket,
            PATIENT, //
        },
    },
};
use kernel::{
    new_condvar, new_mutex,
    sync::{
        CondVar,
        Mutex, //
    },
};

/// An answer, and when it came.
type Answer = (Option<Addr>, u64);

/// A connection that waits.
#[pin_data]
struct TestWaiter {
    #[pin]
    answers: Mutex<KVec<Answer>>,
    #[pin]
    changed: CondVar,
}

impl TestWaiter {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                answers <- new_mutex!(KVec::new(), "rdma_sock_test_answers"),
                changed <- new_condvar!("rdma_sock_test_answered"),
            }),
            GFP_KERNEL,
        )
    }

    /// Waits for the one answer.
    fn answer(&self) -> Result<Answer> {
        let answer = wait_for(&self.changed, &self.answers, PATIENT, |all| {
            all.first().copied()
        })?;
        (self.count() == 1).then_some(answer).ok_or(EPROTO)
    }

    fn count(&self) -> usize {
        self.answers.lock().len()
    }
}

impl ReachWaiter for TestWaiter {
    fn answered(self: &Arc<Self>, at: Option<Addr>) {
        // Too little memory shows as a missing answer.
        let _ = self.answers.lock().push((at, now_ns()), GFP_KERNEL);
        self.changed.notify_all();
    }
}

/// Times of an inquiry that ends by answers only, so that a test does not depend on the speed of the
/// machine.
const ENDLESS: PmTimers = PmTimers {
    backoff: Backoff {
        first: Duration::from_secs(100),
        most: Duration::from_secs(100),
    },
    sends: 3,
    patience: Duration::from_secs(100),
};

/// A table, closed at the end.
struct ReachBench {
    context: Arc<Context>,
    table: Arc<ReachTable<TestWaiter>>,
}

impl ReachBench {
    fn new(context: &Arc<Context>, params: &ReachParams) -> Result<Self> {
        Ok(Self {
            context: context.clone(),
            table: ReachTable::new(Net::initial(), context, params)?,
        })
    }

    /// Asks for a service of 127.0.0.`last`.
    fn ask(&self, last: u8, port: u16) -> Result<(Known, Arc<TestWaiter>)> {
        let waiter = TestWaiter::new()?;
        let client = Addr::V4 {
            ip: [0; 4],
            port: 4000,
        };
        let known = self.table.ask(&local(last, port), &client, &waiter);
        Ok((known, waiter))
    }

    /// Asks, where the answer is not known.
    fn waiter(&self, last: u8, port: u16) -> Result<Arc<TestWaiter>> {
        match self.ask(last, port)? {
            (Known::Asking, waiter) => Ok(waiter),
            _ => Err(EPROTO),
        }
    }
}

impl Drop for ReachBench {
    fn drop(&mut self) {
        self.table.close();
        // No run is left that would drop the last reference to the queues.
        self.context.flush();
    }
}

fn context() -> Result<Arc<Context>> {
    Context::new(c"rdma_sock_test", c"rdma_sock_test")
}

fn params(port: u16) -> ReachParams {
    ReachParams {
        port,
        timers: ENDLESS,
        ..ReachParams::DEFAULT
    }
}

/// A Port Mapper that is written by hand, and a table that asks it.
fn by_hand(change: impl FnOnce(&mut ReachParams)) -> Result<(ReachBench, TestSocket)> {
    let context = context()?;
    let server = TestSocket::bound(&context, 1, 0)?;
    let mut params = params(server.port());
    change(&mut params);
    Ok((ReachBench::new(&context, &params)?, server))
}

/// The acceptance of a request.
fn accept(request: &PmMessage, port: u16, time: u8) -> PmMessage {
    PmMessage {
        kind: PmKind::Accept,
        time,
        service: PmAddr {
            port,
            ..request.service
        },
        ..*request
    }
}

#[kernel::macros::kunit_tests(rdma_sock_sdp_reach)]
mod suite {
    use super::*;

    // SDP-PM-01, SDP-PM-11, SDP-PMCS-1, SDP-PMCS-2, SDP-PMCS-5.
    #[test]
    fn service_of_a_port_mapper_is_found_by_one_request() -> Result {
        let context = context()?;
        let mapping = PortMapping::new(
            Net::initial(),
            &context,
            &PortMapParams {
                port: 0,
                ..PortMapParams::DEFAULT
            },
            TestServices::new(255)?,
        )?;
        let port = match mapping.addr().ok_or(EINVAL)? {
            Addr::V4 { port, .. } | Addr::V6 { port, .. } => port,
        };
        let bench = ReachBench::new(&context, &params(port))?;
        let waiter = bench.waiter(1, 80)?;
        assert!(waiter.answer()?.0 == Some(local(1, 80)));
        assert!(bench.ask(1, 80)?.0 == Known::Sdp(local(1, 80)));
        // The host speaks SDP, and has the same ports for it.
        assert!(bench.ask(1, 81)?.0 == Known::Sdp(local(1, 81)));
        assert_eq!(mapping.counts().requests, 1);
        drop(bench);
        drop(mapping);
        context.flush();
        Ok(())
    }

    // SDP-PMX-05, SDP-PMCS-6.
    #[test]
    fn denied_service_is_used_by_tcp() -> Result {
        let (bench, server) = by_hand(|_| ())?;
        let waiter = bench.waiter(1, 81)?;
        let (from, request) = server.message()?;
        let deny = PmMessage {
            kind: PmKind::Deny,
            ..request
        };
        server.send_to(&deny.emit(), &from)?;
        assert!(waiter.answer()?.0.is_none());
        // The host speaks SDP, and the service may have come.
        assert!(bench.ask(1, 81)?.0 == Known::Sdp(local(1, 81)));
        Ok(())
    }

    // No timer expires in this test: what ends the wait is the ICMP error.
    #[test]
    fn closed_port_means_tcp_at_once() -> Result {
        let (bench, server) = by_hand(|_| ())?;
        drop(server);
        let waiter = bench.waiter(1, 80)?;
        assert!(waiter.answer()?.0.is_none());
        assert!(bench.ask(1, 80)?.0 == Known::Tcp);
        assert!(bench.ask(1, 81)?.0 == Known::Tcp);
        // A sign of life makes the host worth asking.
        let host = core::net::Ipv4Addr::new(127, 0, 0, 1).into();
        bench.table.note_asked(host);
        assert!(bench.ask(1, 80)?.0 == Known::Asking);
        Ok(())
    }

    // SDP-PMC-09, SDP-PMCS-4. The transaction has 100 s, so that only the patience ends the wait.
    #[test]
    fn silent_host_means_tcp_after_the_patience_and_may_answer_later() -> Result {
        const PATIENCE: Duration = PmTimers::DEFAULT.patience;
        let (bench, server) = by_hand(|params| params.timers.patience = PATIENCE)?;
        let began = now_ns();
        let waiter = bench.waiter(1, 80)?;
        let (at, ended) = waiter.answer()?;
        assert!(at.is_none());
        let took = ended.saturating_sub(began);
        assert!(took >= PATIENCE.as_nanos());
        assert!(took < Duration::from_secs(20).as_nanos());
        // The transaction goes on, and other connections do not wait for it.
        assert!(bench.ask(1, 80)?.0 == Known::Tcp);
        assert!(bench.ask(1, 81)?.0 == Known::Tcp);
        let (from, request) = server.message()?;
        server.send_to(&accept(&request, 80, 255).emit(), &from)?;
        let (_, ack) = server.message()?;
        assert!(ack.kind == PmKind::Ack);
        // The run that has sent it keeps the outcome before it ends.
        bench.context.flush();
        assert!(bench.ask(1, 80)?.0 == Known::Sdp(local(1, 80)));
        assert_eq!(waiter.count(), 1);
        Ok(())
    }

    // SDP-PMC-01, SDP-PMC-04 to SDP-PMC-06.
    #[test]
    fn request_is_repeated_and_given_up() -> Result {
        let (bench, server) = by_hand(|params| {
            params.timers.backoff = Backoff {
                first: Duration::from_millis(10),
                most: Duration::from_millis(10),
            };
        })?;
        let waiter = bench.waiter(1, 80)?;
        let (_, first) = server.message()?;
        for _ in 1..3 {
            let (_, again) = server.message()?;
            assert!(again == first);
        }
        assert!(waiter.answer()?.0.is_none());
        bench.context.flush();
        assert!(server.recv(0).is_err());
        assert!(bench.ask(1, 80)?.0 == Known::Tcp);
        Ok(())
    }

    // SDP-PMC-02, SDP-PMC-12, SDP-PMF-24: the only true answer is the last.
    #[test]
    fn hostile_answers_are_ignored() -> Result {
        let (bench, server) = by_hand(|_| ())?;
        let waiter = bench.waiter(1, 80)?;
        let (from, request) = server.message()?;
        let forged = accept(&request, 666, 255);
        // Another host than was asked knows all of the request.
        for last in [1, 2] {
            let third = TestSocket::bound(&bench.context, last, 0)?;
            third.send_to(&forged.emit(), &from)?;
        }
        let handle = request.handle.wrapping_add(1);
        let client = PmAddr {
            port: 4001,
            ..request.client
        };
        let service = PmAddr {
            port: 0,
            ..request.service
        };
        for message in [
            PmMessage { handle, ..forged },
            PmMessage { client, ..forged },
            PmMessage { service, ..forged },
            PmMessage {
                kind: PmKind::Ack,
                ..forged
            },
            request,
        ] {
            server.send_to(&message.emit(), &from)?;
        }
        server.send_to(forged.emit().get(..47).unwrap_or_default(), &from)?;
        server.send_to(&[], &from)?;
        server.send_to(&accept(&request, 5000, 255).emit(), &from)?;
        assert!(waiter.answer()?.0 == Some(local(1, 5000)));
        Ok(())
    }

    #[test]
    fn connections_to_one_host_share_a_request() -> Result {
        let (bench, server) = by_hand(|_| ())?;
        let mut waiters = KVec::new();
        for port in [80, 80, 81, 80] {
            waiters.push((port, bench.waiter(1, port)?), GFP_KERNEL)?;
        }
        let (from, request) = server.message()?;
        server.send_to(&accept(&request, 80, 255).emit(), &from)?;
        for (port, waiter) in &waiters {
            assert!(waiter.answer()?.0 == Some(local(1, *port)));
        }
        let (_, ack) = server.message()?;
        assert!(ack.kind == PmKind::Ack);
        assert!(server.recv(0).is_err());
        Ok(())
    }

    // SDP-PMT-13.
    #[test]
    fn answer_for_one_connection_is_used_by_one() -> Result {
        let (bench, server) = by_hand(|params| params.maps_ports = true)?;
        let waiters = [bench.waiter(1, 80)?, bench.waiter(1, 80)?];
        let mut handles = [0; 2];
        for (at, waiter) in waiters.iter().enumerate() {
            let (from, request) = server.message()?;
            assert!(request.kind == PmKind::Req);
            if let Some(handle) = handles.get_mut(at) {
                *handle = request.handle;
            }
            let port = if at == 0 { 5000 } else { 5001 };
            server.send_to(&accept(&request, port, 0).emit(), &from)?;
            assert!(waiter.answer()?.0 == Some(local(1, port)));
            let (_, ack) = server.message()?;
            assert!(ack.kind == PmKind::Ack);
        }
        let [first, second] = handles;
        assert!(first != second);
        assert!(bench.ask(1, 80)?.0 == Known::Asking);
        Ok(())
    }

    // SDP-PMC-14.
    #[test]
    fn request_names_the_address_that_the_connection_comes_from() -> Result {
        let (bench, server) = by_hand(|_| ())?;
        let waiter = TestWaiter::new()?;
        let known = bench.table.ask(&local(1, 80), &local(7, 4711), &waiter);
        assert!(known == Known::Asking);
        let (from, request) = server.message()?;
        assert!(Some(request.client) == to_pm(&local(7, 4711)));
        assert!(request.service.port == 80);
        assert!(to_pm(&from).is_some_and(|from| from.ip == request.client.ip));
        Ok(())
    }

    // SDP-PMC-10, SDP-PMCS-9.
    #[test]
    fn connections_of_a_host_change_its_answer() -> Result {
        let (bench, _server) = by_hand(|_| ())?;
        let table = &bench.table;
        table.note_spoke(&local(1, 0));
        assert!(bench.ask(1, 80)?.0 == Known::Sdp(local(1, 80)));
        table.note_failed(&local(1, 80));
        assert!(bench.ask(1, 80)?.0 == Known::Tcp);
        table.forget_all();
        assert!(bench.ask(1, 80)?.0 == Known::Asking);
        Ok(())
    }

    // SDP-SEC-02.
    #[test]
    fn flood_of_questions_is_bounded_and_ends_at_the_close() -> Result {
        let (bench, _server) = by_hand(|params| {
            params.inquiries = 4;
            params.waiters = 6;
        })?;
        // Sockets that do not answer: one for each host.
        let mut silent = KVec::new();
        let mut asking = KVec::new();
        for last in 11..=20 {
            let socket = TestSocket::bound(&bench.context, last, bench.table.params.port)?;
            silent.push(socket, GFP_KERNEL)?;
            let (known, waiter) = bench.ask(last, 80)?;
            assert!(known == if last < 15 { Known::Asking } else { Known::Tcp });
            if known == Known::Asking {
                asking.push(waiter, GFP_KERNEL)?;
            }
        }
        for number in 0..5 {
            let (known, waiter) = bench.ask(11, 80)?;
            assert!(
                known
                    == if number < 2 {
                        Known::Asking
                    } else {
                        Known::Tcp
                    }
            );
            if known == Known::Asking {
                asking.push(waiter, GFP_KERNEL)?;
            }
        }
        bench.table.close();
        assert_eq!(asking.len(), 6);
        for waiter in &asking {
            assert!(waiter.answer()?.0.is_none());
        }
        assert!(bench.ask(11, 80)?.0 == Known::Tcp);
        Ok(())
    }

    // Each close finds the inquiry at another point.
    #[test]
    fn close_under_way_answers_each_connection_once() -> Result {
        let context = context()?;
        let server = TestSocket::bound(&context, 1, 0)?;
        for round in 0..50 {
            let bench = ReachBench::new(&context, &params(server.port()))?;
            let waiter = bench.waiter(1, 80)?;
            if round % 2 == 1 {
                let (from, request) = server.message()?;
                server.send_to(&accept(&request, 80, 255).emit(), &from)?;
            }
            let table = bench.table.clone();
            drop(bench);
            assert_eq!(waiter.count(), 1);
            // Nothing of the inquiry refers to them.
            assert!(Arc::into_unique_or_drop(waiter).is_some());
            assert!(Arc::into_unique_or_drop(table).is_some());
            while server.recv(0).is_ok() {}
        }
        Ok(())
    }

    #[test]
    fn address_that_cannot_be_asked_for_means_tcp() -> Result {
        let (bench, _server) = by_hand(|_| ())?;
        let waiter = TestWaiter::new()?;
        let of_link = Addr::V6 {
            ip: [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            port: 80,
            scope: 1,
        };
        for (service, client) in [
            (of_link, of_link),
            (local(1, 80), {
                Addr::V6 {
                    ip: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
                    port: 80,
                    scope: 0,
                }
            }),
        ] {
            assert!(bench.table.ask(&service, &client, &waiter) == Known::Tcp);
        }
        Ok(())
    }
}
