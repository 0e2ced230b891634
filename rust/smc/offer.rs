// SPDX-License-Identifier: GPL-2.0

//! Our end of a connection-to-be: the place in a link group, the buffers and the token that an
//! Accept or Confirm tells the peer of.
//!
//! Source: RFC 7609 sections 3.5.1.2 to 3.5.2.3 (`SMCR-CLC-122..129`, `SMCR-RDV-20..29`).

use super::{
    buffers::{
        Taken,
        Wanted, //
    },
    connection::{
        Connection,
        Mode, //
    },
    data::{
        Data,
        Hold, //
    },
    device::Path,
    link_group::{
        Join,
        Key,
        LinkGroup,
        Local,
        NamedLink,
        Phase, //
    },
    member::Member,
    now, policy,
    quota::Payer,
    rmb::{
        Rmbe,
        EYE_CATCHER_BYTES, //
    },
    route::{
        PeerElement,
        Seat, //
    },
    stats::{
        Counters,
        Side, //
    },
    sysctl::Settings,
    version::{
        self,
        Choice, //
    },
};
use crate::{
    kapi::{
        mem::sendbuf::SendBuffer,
        net::{
            addr::Addr,
            netdev::{
                ipv4_prefix,
                ipv6_prefixes,
                Egress, //
            },
            route::NextHop,
            sock::Sock, //
        },
    },
    proto::{
        cdc::{
            Arrivals,
            Config as CdcConfig,
            Conn,
            Tcp,
            Timers as CdcTimers, //
        },
        clc::{
            Answer,
            Endpoint,
            Networks,
            Prefix4,
            Prefix6,
            Prefix6List,
            Prepared,
            Proposal,
            Request, //
        },
        keepalive::Keepalive,
        llc::{
            PeerLink,
            PeerRmbId,
            Slot, //
        },
        reason::Reason,
        time::Instant,
        wire::{AlertToken, BufSize, Gid, Mac, Mtu},
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What is reserved for a connection until the handshake ends.
pub(crate) struct Offer {
    pub(crate) group: Arc<LinkGroup>,
    /// What the peer is told. Boxed, as offers are handed around on a small stack.
    pub(crate) prepared: KBox<Prepared>,
    /// Where packets to the peer go first.
    hop: NextHop,
    /// The place on the link that both sides name in CLC.
    seat: Seat,
    rmbe: Rmbe,
    memory: SendMemory,
    /// Made when the peer's end is known, at the latest.
    sendbuf: Option<Arc<SendBuffer>>,
    token: AlertToken,
    /// The other end of the TCP connection is a host that the group is known to be with.
    proven: bool,
    peer: Option<(Endpoint, PeerRmbId)>,
}

/// Why an offer is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// One side declined, so both know.
    Declined,
    /// The peer declined because it does not know the link.
    OutOfSync,
    /// The handshake broke off.
    Broken,
}

/// The networks a connection's interface is attached to.
pub(super) fn networks(sk: &Sock, egress: &Egress) -> Option<Networks> {
    if egress.loopback {
        return Some(Networks::of_host(sk.local_addr().as_v4().is_some()));
    }
    match sk.local_addr() {
        Addr::V4 { ip, .. } => {
            let (_, len) = ipv4_prefix(&sk.net(), egress.ifindex, ip)?;
            Prefix4::new(ip, len).map(Networks::V4)
        }
        addr @ Addr::V6 { .. } => match addr.as_v4() {
            Some(ip) => {
                let (_, len) = ipv4_prefix(&sk.net(), egress.ifindex, ip)?;
                Prefix4::new(ip, len).map(Networks::V4)
            }
            None => {
                let mut list: Option<Prefix6List> = None;
                for (ip, len) in ipv6_prefixes(&sk.net(), egress.ifindex)?.iter() {
                    let Some(prefix) = Prefix6::new(ip, len) else {
                        continue;
                    };
                    match list.as_mut() {
                        None => list = Some(Prefix6List::new(prefix)),
                        // Eight are all a Proposal holds.
                        Some(list) => drop(list.push(prefix)),
                    }
                }
                list.map(Networks::V6)
            }
        },
    }
}

fn path_and_egress(connection: &Connection) -> Option<(Path, Egress)> {
    let sk = &connection.sk;
    let egress = sk.egress()?;
    // A device on lo serves all addresses of the host by the one it is sure to have.
    let addr = sk.local_addr();
    let ip = match egress.loopback {
        true => addr.loopback(),
        false => addr.ip_mapped(),
    };
    let path = connection.engine.find_path(sk.net_cookie(), &egress, ip)?;
    Some((path, egress))
}

/// The device that would carry a connection. Sleeps.
pub(crate) fn path(connection: &Connection) -> Option<Path> {
    path_and_egress(connection).map(|(path, _)| path)
}

/// Makes the client's Proposal, or says why there is none. Sleeps.
pub(crate) fn proposal(connection: &Connection) -> Result<Proposal, Reason> {
    let sk = &connection.sk;
    if let Some(reason) = policy::refusal(sk) {
        return Err(reason);
    }
    let (path, egress) = path_and_egress(connection).ok_or(Reason::NoSmcrDevice)?;
    let v1 = networks(sk, &egress);
    let v2 = version::extension(connection, &path);
    if v1.is_none() && v2.is_none() {
        return Err(Reason::DifferentPrefix);
    }
    Ok(Proposal {
        peer: connection.net.peer_id(Some(&path)),
        gid: Gid::new(path.gid.gid),
        mac: path.mac(),
        v1,
        v2,
    })
}

/// The size of the receive buffer a connection is to have.
fn receive_size(connection: &Connection) -> Wanted {
    Wanted::of(connection.sk.rcvbuf_user(), connection.net.settings.rmem())
}

/// Size of the send buffer of a connection, and the payer.
struct SendMemory {
    payer: Payer,
    bytes: usize,
}

impl SendMemory {
    fn new(connection: &Connection, group: &LinkGroup, payer: &Payer) -> Result<Self> {
        let wanted = Wanted::of(connection.sk.sndbuf_user(), connection.net.settings.wmem());
        Ok(Self {
            payer: payer.clone(),
            bytes: usize::try_from(group.buffer_size(wanted).bytes())?,
        })
    }

    /// Allocates the buffer, or a smaller one. Sleeps.
    fn allocate(&self) -> Result<Arc<SendBuffer>> {
        let mut bytes = self.bytes;
        let least = usize::try_from(BufSize::MIN.bytes())?;
        loop {
            match self.payer.send_buffer(bytes) {
                Ok(sendbuf) => return Ok(sendbuf),
                Err(error) if bytes <= least => return Err(error),
                Err(_) => bytes /= 2,
            }
        }
    }
}

/// A place in a group, before the token and the buffers.
struct Place {
    group: Arc<LinkGroup>,
    rmbe: Rmbe,
    first_contact: bool,
    /// As in [`Offer::proven`].
    proven: bool,
    local: Local,
    choice: Choice,
}

/// Prepares our end for what the peer asked for at `since`. `Ok(None)` means that the link group must
/// do something first, and kicks the handshake when it has. Sleeps.
pub(crate) fn prepare(
    connection: &Arc<Connection>,
    request: &Request,
    since: Instant,
) -> Result<Option<Offer>, Reason> {
    match prepare_once(connection, request, since) {
        // The group has been filled or has ended since it was found, and is not found again.
        Err(Reason::MaxConnectionsError) => prepare_once(connection, request, since),
        prepared => prepared,
    }
}

fn prepare_once(
    connection: &Arc<Connection>,
    request: &Request,
    since: Instant,
) -> Result<Option<Offer>, Reason> {
    let payer = payer_of(connection).map_err(|_| Reason::Memory)?;
    let place = match request {
        Request::Proposal(proposal) => server_place(connection, &payer, proposal, since),
        Request::Accept(accept) => client_place(connection, &payer, accept),
    }?;
    let Some(place) = place else { return Ok(None) };
    let group = place.group.clone();
    let first_contact = place.first_contact;
    let offer = match make_offer(connection, &payer, place, request) {
        Ok(offer) => offer,
        Err(reason) => {
            if first_contact {
                group.abandon();
            }
            return Err(reason);
        }
    };
    Ok(Some(offer))
}

/// The payer of a connection whose handshake is under way: the listener's cgroup pays for a child.
/// Context: may sleep.
///
/// # Errors
///
/// `ECONNABORTED` when the listener is gone.
fn payer_of(connection: &Connection) -> Result<Payer> {
    let cgroup = match connection.side {
        Side::Client => connection.sk.mem_cgroup(),
        Side::Server => {
            let listener = connection.listener.lock();
            let listener = listener.as_ref().ok_or(ECONNABORTED)?;
            listener.sk.mem_cgroup()
        }
    };
    Payer::new(&connection.engine, &connection.net, cgroup)
}

#[inline(never)]
fn server_place(
    connection: &Arc<Connection>,
    payer: &Payer,
    proposal: &Proposal,
    since: Instant,
) -> Result<Option<Place>, Reason> {
    let sk = &connection.sk;
    if let Some(reason) = policy::refusal(sk) {
        return Err(reason);
    }
    let (path, egress) = path_and_egress(connection).ok_or(Reason::NoSmcrDevice)?;
    let choice = version::choose(connection, &path, &egress, proposal)?;
    let suggested = choice.eid.and(proposal.v2.as_ref()).map(|offer| offer.gid);
    let key = Key {
        net: sk.net_cookie(),
        peer: proposal.peer,
        vlan: path.vlan,
        version: choice.terms.version,
        suggested,
    };
    let member: Arc<dyn Member> = connection.clone();
    let joined = LinkGroup::join(
        &connection.engine,
        key,
        &path,
        choice.terms,
        (&member, sk.peer_addr().ip_mapped()),
        since,
    );
    match joined.map_err(|_| Reason::Memory)? {
        Join::New(group) => first_place(connection, payer, group, choice).map(Some),
        Join::Ready(group) => next_place(connection, payer, group, (None, true), choice),
        Join::Wait => Ok(None),
    }
}

#[inline(never)]
fn client_place(
    connection: &Arc<Connection>,
    payer: &Payer,
    accept: &Answer,
) -> Result<Option<Place>, Reason> {
    let sk = &connection.sk;
    let (path, _) = path_and_egress(connection).ok_or(Reason::NoSmcrDevice)?;
    let choice = version::accept(connection, &path, accept)?;
    let key = Key {
        net: sk.net_cookie(),
        peer: accept.peer,
        vlan: path.vlan,
        version: choice.terms.version,
        suggested: None,
    };
    let end = &accept.endpoint;
    let from = sk.peer_addr().ip_mapped();
    let known = LinkGroup::find_client(&connection.engine, &key, end, &from);
    if accept.first_contact {
        // The server knows nothing of a link we think we have (`SMCR-AMB-08`). So any host may
        // say that names the link of another: the link is tested, and only for the host itself.
        if let Some(stale) = known.filter(|known| known.proven) {
            stale.group.doubt();
        }
        let group = LinkGroup::new_client(&connection.engine, key, &path, choice.terms, from);
        let group = group.map_err(|_| Reason::Memory)?;
        return first_place(connection, payer, group, choice).map(Some);
    }
    // `SMCR-CLC-225`: without such a link, or with one that goes, we are out of sync.
    let NamedLink {
        group,
        slot,
        proven,
    } = known.ok_or(Reason::OutOfSync)?;
    let closed = group.tokens.lock().is_closed();
    if !proven && (closed || group.phase() != Phase::Ready) {
        // Not the word that would make the host behind the link doubt it.
        return Err(Reason::NoActiveLink);
    }
    if closed {
        return Err(Reason::OutOfSync);
    }
    next_place(connection, payer, group, (Some(slot), proven), choice)
}

fn first_place(
    connection: &Arc<Connection>,
    payer: &Payer,
    group: Arc<LinkGroup>,
    choice: Choice,
) -> Result<Place, Reason> {
    let size = group.buffer_size(receive_size(connection));
    match group.bring_up(payer, size) {
        Ok((rmbe, local)) => Ok(Place {
            group,
            rmbe,
            first_contact: true,
            proven: true,
            local,
            choice,
        }),
        Err(_) => {
            group.abandon();
            Err(Reason::Memory)
        }
    }
}

/// A place in a group that is up: on the link the server named, or on any; and whether the group is
/// known to be with the peer.
fn next_place(
    connection: &Arc<Connection>,
    payer: &Payer,
    group: Arc<LinkGroup>,
    (slot, proven): (Option<Slot>, bool),
    choice: Choice,
) -> Result<Option<Place>, Reason> {
    let wanted = receive_size(connection);
    let taken = group.take_rmbe(payer, wanted, connection.clone(), now());
    match taken.map_err(|_| Reason::Memory)? {
        Taken::Now(rmbe) => {
            let Some(local) = group.local(slot) else {
                rmbe.retire();
                return Err(Reason::NoActiveLink);
            };
            Ok(Some(Place {
                group,
                rmbe,
                first_contact: false,
                proven,
                local,
                choice,
            }))
        }
        Taken::Wait => Ok(None),
    }
}

#[inline(never)]
fn make_offer(
    connection: &Arc<Connection>,
    payer: &Payer,
    place: Place,
    request: &Request,
) -> Result<Offer, Reason> {
    let Place {
        group,
        rmbe,
        first_contact,
        proven,
        local,
        choice,
    } = place;
    let v2 = version::addition(&choice, &group.path, first_contact);
    let Ok(memory) = SendMemory::new(connection, &group, payer) else {
        rmbe.retire();
        return Err(Reason::Memory);
    };
    let token = group.tokens.lock().add(connection.clone());
    let Some(token) = token else {
        rmbe.retire();
        return Err(Reason::MaxConnectionsError);
    };
    let rmb = rmbe.rmb();
    let rtoken = rmb.token(local.seat.link().slot());
    let Some(rtoken) = rtoken else {
        drop(group.tokens.lock().remove(token));
        rmbe.retire();
        return Err(Reason::NoActiveLink);
    };
    let path = &local.path;
    let endpoint = Endpoint {
        gid: Gid::new(path.gid.gid),
        mac: path.mac(),
        qpn: local.qpn,
        rkey: rtoken.rkey,
        rmbe_index: rmbe.index,
        alert_token: token,
        buf_size: rmb.size,
        mtu: Mtu::from_code(path.gid.mtu_code),
        vaddr: rtoken.vaddr,
        psn: local.psn,
    };
    let prepared = Prepared {
        endpoint,
        first_contact,
        v2,
    };
    let Ok(prepared) = KBox::new(prepared, GFP_KERNEL) else {
        drop(group.tokens.lock().remove(token));
        rmbe.retire();
        return Err(Reason::Memory);
    };
    // In first contact a server can decline also after Confirm, and a Proposal costs a peer nothing:
    // the send buffer comes when there is more than a Proposal.
    let later = first_contact && matches!(request, Request::Proposal(_));
    let mut offer = Offer {
        group,
        prepared,
        hop: choice.hop,
        seat: local.seat,
        rmbe,
        memory,
        sendbuf: None,
        token,
        proven,
        peer: None,
    };
    let result = match request {
        Request::Proposal(_) if later => Ok(()),
        Request::Proposal(_) => offer.make_sendbuf(),
        Request::Accept(accept) => offer.connect(&accept.endpoint),
    };
    if let Err(reason) = result {
        offer.release(connection, Release::Declined);
        return Err(reason);
    }
    Ok(offer)
}

impl Offer {
    /// Whether the group was made for this connection.
    pub(crate) fn is_first_contact(&self) -> bool {
        self.prepared.first_contact
    }

    /// The peer's end is known: connects the link of a new group, or checks that of an old one,
    /// and learns where to write. Sleeps.
    pub(crate) fn connect(&mut self, peer: &Endpoint) -> Result<(), Reason> {
        if self.sendbuf.is_none() {
            self.make_sendbuf()?;
        }
        let group = &self.group;
        let mut slot = self.seat.link().slot();
        if self.is_first_contact() {
            let own = Mtu::from_code(group.path.gid.mtu_code).unwrap_or(Mtu::M1024);
            let link = PeerLink {
                mac: match self.hop {
                    NextHop::Host => peer.mac,
                    NextHop::Gateway(mac) => Mac::new(mac),
                },
                gid: peer.gid,
                qpn: peer.qpn,
            };
            group
                .connect(&link, peer.psn, peer.path_mtu(own))
                .map_err(|_| Reason::ReadyLink)?;
        } else {
            // A client may have chosen another link than we did; each side writes by its own
            // (`SMCR-CLC-320`, `SMCR-CLC-321`).
            let named = group.link_of_peer(peer.gid, peer.mac, peer.qpn);
            slot = named
                .filter(|named| *named == slot || group.is_active(*named))
                .ok_or(Reason::NoActiveLink)?;
        }
        let rmb = if self.proven {
            let rmb = group.peer_rmb(slot, peer.rtoken());
            let rmb = rmb.ok_or(Reason::RtokenTable)?;
            // The peer gives an RMBE to a new connection that an old one of ours still writes to:
            // the old one is over (`SMCR-RMB-24`).
            group.evict(&Self::element(peer, rmb), None);
            rmb
        } else {
            let rmb = group.known_rmb(slot, peer.rtoken());
            let rmb = rmb.ok_or(Reason::NoActiveLink)?;
            group.expect_conflicts();
            if group.writer(&Self::element(peer, rmb), None).is_some() {
                return Err(Reason::NoActiveLink);
            }
            rmb
        };
        self.peer = Some((*peer, rmb));
        Ok(())
    }

    fn make_sendbuf(&mut self) -> Result<(), Reason> {
        let sendbuf = self.memory.allocate().map_err(|_| Reason::Memory)?;
        self.sendbuf = Some(sendbuf);
        Ok(())
    }

    /// What the peer says is its element.
    fn element(peer: &Endpoint, rmb: PeerRmbId) -> PeerElement {
        PeerElement {
            rmb,
            index: peer.rmbe_index,
            size: peer.buf_size,
        }
    }

    /// The handshake succeeded: data may flow. Sleeps.
    pub(crate) fn activate(self, connection: &Arc<Connection>) -> Result {
        let proven = self.proven;
        match self.build(&connection.net.settings) {
            Ok((data, early_mode)) => {
                let early = {
                    let mut slot = connection.data.lock();
                    slot.data = Some(data);
                    connection.set_mode(early_mode);
                    slot.early.take()
                };
                match early {
                    Some(msg) => connection.receive_cdc(&msg),
                    None => connection.begin(),
                }
                // Whoever changes the option from now on finds the data.
                if connection.sk.keepalive_ms().is_some() {
                    connection.set_keepalive();
                }
                // The group, or the link, may have died while nobody could tell the connection.
                let group = connection.look(|data| data.group.clone());
                if let Some(group) = group {
                    let member: Arc<dyn Member> = connection.clone();
                    group.settle(&member);
                    group.resolve_conflict(&member, proven);
                }
                Ok(())
            }
            Err((offer, error)) => {
                offer.release(connection, Release::Broken);
                Err(error)
            }
        }
    }

    fn build(mut self, settings: &Settings) -> Result<(KBox<Data>, Mode), (Self, Error)> {
        let (Some((peer, rmb)), Some(sendbuf)) = (self.peer, self.sendbuf.take()) else {
            return Err((self, EINVAL));
        };
        let peer_element = Self::element(&peer, rmb);
        let slot = self.seat.link().slot();
        let route = self.group.route(slot, &sendbuf, &peer_element);
        let route = match route {
            Ok(route) => route,
            Err(error) => return Err((self, error)),
        };
        let eye_catcher = self.group.has_eye_catchers();
        if eye_catcher && self.prepared.first_contact {
            // The peer has known the element since before it said so, but leaves the place alone.
            if let Err(error) = self.rmbe.mark() {
                return Err((self, error));
            }
        }
        let config = CdcConfig {
            token: peer.alert_token,
            sndbuf: u32::try_from(sendbuf.len()).unwrap_or(0),
            local_rmbe: self.prepared.endpoint.buf_size.bytes(),
            peer_rmbe: peer.buf_size.bytes(),
            origin: match eye_catcher {
                true => EYE_CATCHER_BYTES,
                false => 0,
            },
            cork_bytes: settings.autocorking_size(),
            max_write: CdcConfig::MAX_WRITE,
            timers: CdcTimers {
                drain_all: settings.orphan_time(),
                ..CdcTimers::DEFAULT
            },
        };
        let Some(core) = Conn::new(&config) else {
            return Err((self, EINVAL));
        };
        let Ok(uninit) = KBox::<Data>::new_uninit(GFP_KERNEL) else {
            return Err((self, ENOMEM));
        };
        let memory = self.rmbe.memory().clone();
        let element = self.rmbe.element;
        let data = Data {
            core,
            token: self.token,
            group: self.group,
            memory,
            element,
            eye_catcher,
            hold: Some(Hold {
                route,
                next: None,
                rmbe: self.rmbe,
                sendbuf,
            }),
            peer_element,
            keepalive: Keepalive::default(),
            armed: None,
            parts: super::lent::Parts::default(),
            counters: Counters::default(),
            tcp: Tcp::Keep,
            arrivals: Arrivals::default(),
            urgent_byte: 0,
            shown: false,
            orphan: None,
        };
        Ok((KBox::write(uninit, data), Mode::Smc))
    }

    /// The handshake came to nothing: gives everything back. A group made for this connection
    /// goes with it (`SMCR-FBK-19`), unless others use it already; one that the peer says it knows
    /// nothing of is put to the test. Sleeps.
    pub(crate) fn release(self, connection: &Arc<Connection>, how: Release) {
        let known = self.group.tokens.lock().remove(self.token);
        drop(known);
        connection.data.lock().early = None;
        match how {
            Release::Declined | Release::OutOfSync => self.rmbe.retire(),
            // The peer may believe that the connection is on, and write.
            Release::Broken => drop(self.rmbe),
        }
        drop(self.sendbuf);
        if self.prepared.first_contact && self.group.abandon() {
            return;
        }
        if how == Release::OutOfSync && self.proven {
            self.group.doubt();
        }
        self.group.connection_left();
    }
}
