// SPDX-License-Identifier: GPL-2.0

//! A listener as clients of SDP find it: which requests become its children.
//!
//! Source: draft 8.1.1 (SDP-CONN-10 to SDP-CONN-21). All of it runs in handlers of the connection
//! manager. The listener is a socket of SDP, or one that serves clients of another protocol, too.

use super::{
    attempt::Accepted,
    engine::SdpEngine,
    link::SdpLink,
    net::{
        SdpNet,
        NAME, //
    },
    offer::{
        hello_ip,
        offer,
        reads_of, //
    },
    services::{
        gid_addr,
        ServiceListener, //
    },
    setup::{
        make,
        SdpConnection, //
    },
};
use crate::{
    kapi::{
        net::{
            addr::Addr,
            netdev::{
                ipv4_prefix,
                ipv6_prefixes, //
            },
            sock::Sock, //
        },
        verbs::{
            cm::{
                CmRequest,
                CmRequestInfo,
                RejectReason, //
            },
            device::Device,
        },
    },
    proto::{
        base::network::is_in_network,
        sdp::{
            admission::AcceptPolicy,
            hello::{
                HelloRest,
                ReadDepths, //
            },
            setup::{
                Accepting,
                SetupStep,
                SetupTimers, //
            },
        },
        stream::{
            reason::{
                LocalReason,
                Reason, //
            },
            rules::Carrier, //
        },
    },
    sock::{
        accept_queue::{
            Listener,
            Service, //
        },
        connection::Mode,
        context::now,
        listen,
        stats::Side, //
    },
};
use core::net::IpAddr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A listener, for requests.
struct SdpListener {
    /// The registries of the host.
    engine: Arc<SdpEngine>,
    /// The network namespace.
    net: Arc<SdpNet>,
    /// The socket with the queue.
    listener: Arc<dyn Listener>,
}

/// The service of a listener, which clients find until it is dropped.
struct SdpService(Arc<SdpListener>);

impl Service for SdpService {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl Drop for SdpService {
    fn drop(&mut self) {
        self.0.engine.services.remove(&*self.0);
    }
}

/// Lets clients find a listener, whose port TCP has. Context: may sleep.
///
/// # Errors
///
/// `ENOMEM`; `ENOENT` if the namespace goes.
pub(super) fn serve(
    engine: &Arc<SdpEngine>,
    listener: Arc<dyn Listener>,
) -> Result<Arc<dyn Service>> {
    let net = listener.sk().net();
    let found = SdpListener {
        engine: engine.clone(),
        net: engine.nets.state(&net)?,
        listener,
    };
    found.net.serve_mapper(&net);
    let found = Arc::new(found, GFP_KERNEL)?;
    let service = Arc::new(SdpService(found.clone()), GFP_KERNEL)?;
    engine.services.add(found)?;
    Ok(service)
}

/// Why a request becomes no connection.
struct Refusal {
    answer: RejectReason,
    reason: Reason,
}

impl Refusal {
    /// Hello is not valid, or names other addresses than the packets.
    const HELLO: Self = Self {
        answer: RejectReason::CONSUMER_DEFINED,
        reason: Reason::Local(LocalReason::SdpHello),
    };
    /// There is no room at the moment.
    const BUSY: Self = Self {
        answer: RejectReason::NO_RESOURCES,
        reason: Reason::Local(LocalReason::SdpBusy),
    };
    /// The administrator has no such peer.
    const PEER: Self = Self {
        answer: RejectReason::CONSUMER_DEFINED,
        reason: Reason::Local(LocalReason::SdpNotAllowed),
    };
    /// The administrator has no such service.
    const SERVICE: Self = Self {
        answer: RejectReason::INVALID_SERVICE_ID,
        reason: Reason::Local(LocalReason::SdpNotAllowed),
    };
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            error if error == ENOMEM => Self {
                answer: RejectReason::NO_RESOURCES,
                reason: Reason::Memory,
            },
            _ => Self::BUSY,
        }
    }
}

/// The addresses of one link, fe80::/10.
const LINK_LOCAL: [u8; 2] = [0xfe, 0x80];
const LINK_LOCAL_BITS: u8 = 10;

impl SdpListener {
    /// Whether the administrator allows a connection of `peer` to `local`. Its values and networks are too
    /// large to lie on the stack of a caller that goes on. Context: may sleep.
    #[inline(never)]
    fn check_policy(&self, local: &Addr, peer: &Addr, ifindex: u32) -> Result<(), Refusal> {
        let values = self.net.settings.values();
        if values.accept == AcceptPolicy::Off || !values.ports.has(local.port()) {
            return Err(Refusal::SERVICE);
        }
        let rules = &self.engine.rules;
        if let Some(reason) = rules.judge_server(self.sk(), Carrier::Sdp, local, peer) {
            return Err(Refusal {
                reason,
                ..Refusal::PEER
            });
        }
        let in_subnet = || self.shares_subnet(local, peer, ifindex);
        if !values.accept.admits(in_subnet) {
            return Err(Refusal::PEER);
        }
        Ok(())
    }

    /// Whether a peer is in an IP subnet of an interface. Context: may sleep.
    fn shares_subnet(&self, local: &Addr, peer: &Addr, ifindex: u32) -> bool {
        let net = self.sk().net();
        match (local.as_v4(), peer.as_v4()) {
            (Some(local), Some(peer)) => {
                let subnet = ipv4_prefix(&net, ifindex, local);
                subnet.is_some_and(|(subnet, bits)| is_in_network(&subnet, bits, &peer))
            }
            (None, None) => {
                let peer = peer.ip_mapped();
                let prefixes = ipv6_prefixes(&net, ifindex);
                let of_link = is_in_network(&LINK_LOCAL, LINK_LOCAL_BITS, &peer);
                of_link
                    || prefixes.is_some_and(|prefixes| {
                        let mut prefixes = prefixes.iter();
                        prefixes.any(|(prefix, bits)| is_in_network(&prefix, bits, &peer))
                    })
            }
            _ => false,
        }
    }

    /// The child of a request for `local` that may become a connection.
    fn admit(
        &self,
        info: &CmRequestInfo,
        device: &Arc<Device>,
        local: &Addr,
    ) -> Result<(Arc<SdpConnection>, KBox<Accepted>), Refusal> {
        let ifindex = info.netdev.map_or(0, |netdev| netdev.ifindex);
        let unknown = gid_addr(info.remote_gid, 0, ifindex);
        self.check_policy(local, &unknown, ifindex)?;
        let mut accepting = Accepting::new(
            now(),
            SetupTimers::DEFAULT,
            offer(local, &unknown, reads_of(device)),
            false,
        );
        let depths = ReadDepths {
            ird: info.initiator_depth.into(),
            ord: info.responder_resources.into(),
        };
        let hello = accepting.handle_hello(now(), info.data.as_bytes(), depths);
        let (Some(hello), Some(SetupStep::AcceptLink(answer))) = (hello, accepting.poll_step())
        else {
            return Err(Refusal::HELLO);
        };
        let HelloRest::Annex { addrs, .. } = hello.rest else {
            return Err(Refusal::HELLO);
        };
        // The addresses are a claim: those that packets go to are the GIDs.
        let is_claimed = |claimed: IpAddr, addr: &Addr| claimed == hello_ip(addr);
        if !is_claimed(addrs.source, &unknown) || !is_claimed(addrs.destination, local) {
            return Err(Refusal::HELLO);
        }
        if listen::is_full(&*self.listener) {
            return Err(Refusal::BUSY);
        }
        let half_opens = &self.net.half_opens;
        let place = half_opens.begin(local.port(), unknown.ip_mapped())?;
        let accepted = Accepted {
            accepting,
            answer: Some(answer),
            device: device.clone(),
            port: info.port,
            link: SdpLink::NONE,
            _place: place,
        };
        let accepted = KBox::new(accepted, GFP_KERNEL).map_err(Error::from)?;
        let peer = gid_addr(info.remote_gid, addrs.port, ifindex);
        let detached = self.sk().new_child(local, &peer)?;
        let child = make(&self.engine, detached.sk_ref(), Side::Server)?;
        listen::enter_child(self.listener.clone(), &child, detached, true)?;
        child.set_mode(Mode::Negotiating);
        Ok((child, accepted))
    }
}

impl ServiceListener for SdpListener {
    fn sk(&self) -> &Sock {
        self.listener.sk()
    }

    fn serve(self: Arc<Self>, request: CmRequest<'_>, device: &Arc<Device>, local: &Addr) {
        match self.admit(request.info(), device, local) {
            Ok((child, mut accepted)) => match request.take(child.protocol.mail.clone()) {
                Ok(handle) => {
                    accepted.link.handle = Some(handle);
                    child.begin_accepting(accepted);
                }
                Err(_) => listen::discard(&child),
            },
            Err(Refusal { answer, reason }) => {
                self.net.stats.count_abort(Side::Server, reason);
                let _ = request.reject(answer, &[]);
            }
        }
    }
}
