// SPDX-License-Identifier: GPL-2.0

//! Tests of the Port Mapper server, over the loopback device of the initial namespace.

use super::*;
use crate::sdp::test_client::{
    TestClient,
    TestServices,
    PATIENT, //
};

/// A Port Mapper on a free port that serves port 80 of each address.
struct Mapper {
    context: Arc<Context>,
    services: Arc<TestServices>,
    mapping: Option<PortMapping<TestServices>>,
    port: u16,
}

impl Mapper {
    fn new() -> Result<Self> {
        let context = Context::new(c"rdma_sock_test", c"rdma_sock_test")?;
        let services = TestServices::new(120)?;
        let params = PortMapParams {
            port: 0,
            ..PortMapParams::DEFAULT
        };
        let net = Net::initial();
        let mapping = PortMapping::new(net, &context, &params, services.clone())?;
        let port = match mapping.addr().ok_or(EADDRINUSE)? {
            Addr::V4 { port, .. } | Addr::V6 { port, .. } => port,
        };
        Ok(Self {
            context,
            services,
            mapping: Some(mapping),
            port,
        })
    }

    fn client(&self, last: u8) -> Result<TestClient> {
        TestClient::new(&self.context, last, self.port)
    }

    fn counts(&self) -> PortMapCounts {
        let mapping = self.mapping.as_ref();
        mapping.map_or_else(Default::default, PortMapping::counts)
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        drop(self.mapping.take());
        // No run is left that would drop the last reference to the queues.
        self.context.flush();
    }
}

#[kernel::macros::kunit_tests(rdma_sock_sdp_portmap)]
mod suite {
    use super::*;

    // SDP-PMX-01, SDP-PMX-02, SDP-PMX-04, SDP-PMF-16, SDP-PMF-19, SDP-PMF-21.
    #[test]
    fn service_is_accepted_and_another_denied_at_each_address() -> Result {
        let mapper = Mapper::new()?;
        for last in [1, 2] {
            let client = mapper.client(last)?;
            for (port, kind) in [(80, PmKind::Accept), (81, PmKind::Deny)] {
                let request = client.request(port, 7);
                client.send(&request.emit())?;
                let answer = client.recv(PATIENT)?;
                let wanted = PmMessage {
                    kind,
                    time: if kind == PmKind::Accept { 120 } else { 0 },
                    ..request
                };
                assert!(answer == wanted.emit());
            }
        }
        let counts = mapper.counts();
        assert_eq!((counts.requests, counts.accepted, counts.denied), (4, 2, 2));
        assert_eq!(mapper.services.asked_by([127, 0, 0, 1]), 4);
        Ok(())
    }

    // SDP-PMF-24, SDP-PMS-08: the last message is answered, and only that.
    #[test]
    fn hostile_datagrams_are_not_answered() -> Result {
        let mapper = Mapper::new()?;
        let client = mapper.client(1)?;
        let request = client.request(80, 7);
        let octets = request.emit();
        client.send(&[])?;
        client.send(octets.get(..47).unwrap_or_default())?;
        client.send(&[0xff; 48])?;
        for kind in [PmKind::Accept, PmKind::Ack, PmKind::Deny] {
            client.send(&PmMessage { kind, ..request }.emit())?;
        }
        client.send(
            &PmMessage {
                handle: 8,
                ..request
            }
            .emit(),
        )?;
        let answer = PmMessage {
            kind: PmKind::Accept,
            time: 120,
            handle: 8,
            ..request
        };
        assert!(client.recv(PATIENT)? == answer.emit());
        assert!(client.try_recv().is_none());
        assert_eq!(mapper.counts().dropped, 3);
        Ok(())
    }

    // SDP-PM-02: a mapper that answered for other hosts would vouch for them.
    #[test]
    fn service_of_another_host_is_denied() -> Result {
        let mapper = Mapper::new()?;
        let client = mapper.client(1)?;
        let mut request = client.request(80, 7);
        request.service.ip = core::net::Ipv4Addr::new(127, 0, 0, 2).into();
        client.send(&request.emit())?;
        let denied = PmMessage {
            kind: PmKind::Deny,
            ..request
        };
        assert!(client.recv(PATIENT)? == denied.emit());
        Ok(())
    }

    // SDP-PMF-25.
    #[test]
    fn longer_request_is_answered_with_a_plain_message() -> Result {
        let mapper = Mapper::new()?;
        let client = mapper.client(1)?;
        let request = client.request(80, 7);
        let mut octets = [0xee; 100];
        for (to, from) in octets.iter_mut().zip(request.emit()) {
            *to = from;
        }
        client.send(&octets)?;
        let answer = PmMessage {
            kind: PmKind::Accept,
            time: 120,
            ..request
        };
        assert!(client.recv(PATIENT)? == answer.emit());
        Ok(())
    }

    // SDP-PMS-03, SDP-PMSS-7, SDP-PMSS-10: the connection stands for a lost PMAck.
    #[test]
    fn request_after_its_connection_is_answered_as_before() -> Result {
        let mapper = Mapper::new()?;
        let client = mapper.client(1)?;
        let request = client.request(80, 7).emit();
        client.send(&request)?;
        let first = client.recv(PATIENT)?;
        let mapping = mapper.mapping.as_ref().ok_or(EINVAL)?;
        mapping.note_connect(&client.addr());
        client.send(&request)?;
        assert!(client.recv(PATIENT)? == first);
        Ok(())
    }

    #[test]
    fn flood_leaves_the_mapper_answering() -> Result {
        let mapper = Mapper::new()?;
        let client = mapper.client(1)?;
        for handle in 0..2000 {
            client.send(&client.request(80, handle).emit())?;
        }
        // The socket may have dropped some of the requests, or of the answers.
        let last = client.request(80, 9999);
        let wanted = PmMessage {
            kind: PmKind::Accept,
            time: 120,
            ..last
        };
        let mut found = false;
        for _ in 0..100 {
            client.send(&last.emit())?;
            while let Ok(answer) = client.recv(200) {
                found |= answer == wanted.emit();
            }
            if found {
                break;
            }
        }
        assert!(found);
        Ok(())
    }

    #[test]
    fn port_in_use_turns_the_mapper_off() -> Result {
        let mapper = Mapper::new()?;
        let params = PortMapParams {
            port: mapper.port,
            ..PortMapParams::DEFAULT
        };
        let services = mapper.services.clone();
        let second = PortMapping::new(Net::initial(), &mapper.context, &params, services)?;
        assert!(second.addr().is_none());
        Ok(())
    }

    #[test]
    fn port_is_free_after_the_drop() -> Result {
        let mut mapper = Mapper::new()?;
        let client = mapper.client(1)?;
        client.send(&client.request(80, 7).emit())?;
        drop(mapper.mapping.take());
        let params = PortMapParams {
            port: mapper.port,
            ..PortMapParams::DEFAULT
        };
        let services = mapper.services.clone();
        let second = PortMapping::new(Net::initial(), &mapper.context, &params, services)?;
        assert!(second.addr().is_some());
        mapper.mapping = Some(second);
        Ok(())
    }
}
