// SPDX-License-Identifier: GPL-2.0

//! The Proposal of a connection, and the end that it reserves for an Accept or a Confirm.
//!
//! Source: RFC 7609 sections 3.5.1.2 to 3.5.2.3 (`SMCR-CLC-122..129`, `SMCR-RDV-20..29`).

use super::{
    reservation::{
        Release,
        Reservation,
        SendMemory, //
    },
    version::{
        self,
        LocalSite, //
    },
};
use crate::{
    fabric::{
        ports::Path,
        quota::Payer, //
    },
    kapi::{
        compat::errno::ECONNABORTED,
        net::netdev::Egress, //
    },
    proto::{
        base::{
            time::Instant,
            verbs::{
                Gid,
                Mac,
                Mtu, //
            },
        },
        smc::{
            buffer_sizing::WantedSize,
            clc::{
                version::{
                    Choice,
                    Site, //
                },
                Addition,
                Answer,
                ClcRequest,
                Endpoint,
                Prepared,
                Proposal, //
            },
            llc::LinkSlot,
            wire::AlertToken, //
        },
        stream::{
            reason::Reason,
            rules::Carrier, //
        },
    },
    smc::{
        group::{
            link_group::{
                Join,
                LinkGroup,
                LocalEnd,
                NamedLink, //
            },
            member::Member,
            phase::{
                GroupPhase,
                Key, //
            },
            rmb::Rmbe,
            rmbs::Taken, //
        },
        setup::SmcConnection, //
    },
    sock::{
        connection::Mode,
        context::now,
        policy,
        stats::Side, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

fn path_and_egress(connection: &SmcConnection) -> Option<(Path, Egress)> {
    let sk = &connection.sk;
    let egress = sk.egress()?;
    // A device on lo serves all addresses of the host by the one it is sure to have.
    let addr = sk.local_addr();
    let ip = if egress.loopback {
        addr.loopback()
    } else {
        addr.ip_mapped()
    };
    let engine = &connection.protocol.engine;
    let path = match engine.pnets.find_path(sk, ip) {
        Some(named) => named,
        None => {
            let devices = &engine.fabric.devices;
            devices.find_path(sk.net_cookie(), &egress, ip)
        }
    };
    Some((path?, egress))
}

/// The device that would carry a connection. Context: may sleep.
pub(crate) fn path(connection: &SmcConnection) -> Option<Path> {
    path_and_egress(connection).map(|(path, _)| path)
}

/// Makes the client's Proposal, or returns the reason for none. Context: may sleep.
pub(crate) fn proposal(connection: &SmcConnection) -> Result<Proposal, Reason> {
    let sk = &connection.sk;
    let rules = &connection.protocol.engine.rules;
    let ruled = rules.judge_client(sk, Carrier::Smc, &sk.peer_addr());
    if let Some(reason) = ruled.or_else(|| policy::refusal(sk)) {
        return Err(reason);
    }
    let (path, egress) = path_and_egress(connection).ok_or(Reason::NoSmcrDevice)?;
    let site = LocalSite {
        connection,
        path: &path,
        egress: Some(&egress),
    };
    let (v1, v2) = (site.networks(), site.offer());
    if v1.is_none() && v2.is_none() {
        return Err(Reason::DifferentPrefix);
    }
    Ok(Proposal {
        peer: connection.protocol.net.peer_id(Some(&path)),
        gid: Gid::new(path.gid.gid),
        mac: Mac::new(path.mac()),
        v1,
        v2,
    })
}

/// The size of the receive buffer a connection is to have.
fn receive_size(connection: &SmcConnection) -> WantedSize {
    WantedSize::of(
        connection.sk.rcvbuf_user(),
        connection.protocol.net.settings.rmem(),
    )
}

/// The size of the send buffer a connection is to have.
fn send_size(connection: &SmcConnection) -> WantedSize {
    WantedSize::of(
        connection.sk.sndbuf_user(),
        connection.protocol.net.settings.wmem(),
    )
}

/// A place in a group, before the token and the buffers.
struct GroupPlace {
    /// The link group.
    group: Arc<LinkGroup>,
    /// The reserved receive buffer.
    rmbe: Rmbe,
    /// The handshake makes the group.
    first_contact: bool,
    /// As in [`Reservation::proven`].
    proven: bool,
    /// Our end of the link, as CLC names it.
    local: LocalEnd,
    /// The version of SMC-R and its terms.
    choice: Choice,
}

/// Prepares our end for what the peer asked for at `since`. `Ok(None)` means that the link group
/// must do something first, and kicks the handshake when it has. Context: may sleep.
pub(crate) fn prepare(
    connection: &Arc<SmcConnection>,
    request: &ClcRequest,
    since: Instant,
) -> Result<Option<Reservation>, Reason> {
    match prepare_once(connection, request, since) {
        // The group has been filled or has ended since it was found, and is not found again.
        Err(Reason::MaxConnectionsError) => prepare_once(connection, request, since),
        prepared => prepared,
    }
}

fn prepare_once(
    connection: &Arc<SmcConnection>,
    request: &ClcRequest,
    since: Instant,
) -> Result<Option<Reservation>, Reason> {
    let payer = payer_of(connection).map_err(|_| Reason::Memory)?;
    let place = match request {
        ClcRequest::Proposal(proposal) => server_place(connection, &payer, proposal, since),
        ClcRequest::Accept(accept) => client_place(connection, &payer, accept),
    }?;
    let Some(place) = place else { return Ok(None) };
    let group = place.group.clone();
    let first_contact = place.first_contact;
    let reservation = match reserve(connection, &payer, place, request) {
        Ok(reservation) => reservation,
        Err(reason) => {
            if first_contact {
                group.abandon();
            }
            return Err(reason);
        }
    };
    Ok(Some(reservation))
}

/// The payer of a connection whose handshake is under way: the listener's cgroup pays for a child.
/// Context: may sleep.
///
/// # Errors
///
/// `ECONNABORTED` when the listener is gone.
fn payer_of(connection: &SmcConnection) -> Result<Payer> {
    let cgroup = match connection.side {
        Side::Client => connection.sk.mem_cgroup(),
        Side::Server => {
            let listener = connection.listener.lock();
            let listener = listener.as_ref().ok_or(ECONNABORTED)?;
            listener.sk().mem_cgroup()
        }
    };
    Payer::new(
        &connection.protocol.engine.quotas,
        &connection.protocol.net.accounts,
        cgroup,
    )
}

#[inline(never)]
fn server_place(
    connection: &Arc<SmcConnection>,
    payer: &Payer,
    proposal: &Proposal,
    since: Instant,
) -> Result<Option<GroupPlace>, Reason> {
    let sk = &connection.sk;
    let rules = &connection.protocol.engine.rules;
    let ruled = rules.judge_server(sk, Carrier::Smc, &sk.local_addr(), &sk.peer_addr());
    if let Some(reason) = ruled.or_else(|| policy::refusal(sk)) {
        return Err(reason);
    }
    let (path, egress) = path_and_egress(connection).ok_or(Reason::NoSmcrDevice)?;
    let site = LocalSite {
        connection,
        path: &path,
        egress: Some(&egress),
    };
    let choice = Choice::of_proposal(&site, proposal)?;
    let suggested = choice.eid.and(proposal.v2.as_ref()).map(|offer| offer.gid);
    let key = Key {
        net: sk.net_cookie(),
        peer: proposal.peer,
        vlan: path.vlan,
        version: choice.terms.version,
        suggested,
    };
    let member: Arc<dyn Member> = connection.clone();
    let joined = connection.protocol.engine.groups.join(
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
    connection: &Arc<SmcConnection>,
    payer: &Payer,
    accept: &Answer,
) -> Result<Option<GroupPlace>, Reason> {
    let sk = &connection.sk;
    let (path, _) = path_and_egress(connection).ok_or(Reason::NoSmcrDevice)?;
    let site = LocalSite {
        connection,
        path: &path,
        egress: None,
    };
    let choice = Choice::of_accept(&site, accept)?;
    let key = Key {
        net: sk.net_cookie(),
        peer: accept.peer,
        vlan: path.vlan,
        version: choice.terms.version,
        suggested: None,
    };
    let end = &accept.endpoint;
    let from = sk.peer_addr().ip_mapped();
    let known = connection
        .protocol
        .engine
        .groups
        .find_client(&key, end, &from);
    if accept.first_contact {
        // The server knows nothing of a link we think we have (`SMCR-AMB-08`). So any host may
        // say that names the link of another: the link is tested, and only for the host itself.
        if let Some(stale) = known.filter(|known| known.proven) {
            stale.group.suspect();
        }
        let group = connection
            .protocol
            .engine
            .groups
            .new_client(key, &path, choice.terms, from);
        let group = group.map_err(|_| Reason::Memory)?;
        if let Some(system) = accept.v2.as_ref().and_then(Addition::system) {
            *group.system.lock() = Some(system);
        }
        return first_place(connection, payer, group, choice).map(Some);
    }
    // `SMCR-CLC-225`: without such a link, or with one that goes, we are out of sync.
    let NamedLink {
        group,
        slot,
        proven,
    } = known.ok_or(Reason::OutOfSync)?;
    let closed = group.tokens.lock().is_closed();
    if !proven && (closed || group.phase() != GroupPhase::Ready) {
        // Not the word that would make the host behind the link doubt it.
        return Err(Reason::NoActiveLink);
    }
    if closed {
        return Err(Reason::OutOfSync);
    }
    next_place(connection, payer, group, (Some(slot), proven), choice)
}

fn first_place(
    connection: &Arc<SmcConnection>,
    payer: &Payer,
    group: Arc<LinkGroup>,
    choice: Choice,
) -> Result<GroupPlace, Reason> {
    let size = group.buffer_size(receive_size(connection));
    match group.bring_up(payer, size) {
        Ok((rmbe, local)) => Ok(GroupPlace {
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
    connection: &Arc<SmcConnection>,
    payer: &Payer,
    group: Arc<LinkGroup>,
    (slot, proven): (Option<LinkSlot>, bool),
    choice: Choice,
) -> Result<Option<GroupPlace>, Reason> {
    let wanted = receive_size(connection);
    let taken = group.take_rmbe(payer, wanted, connection.clone(), now());
    match taken.map_err(|_| Reason::Memory)? {
        Taken::Now(rmbe) => {
            let Some(local) = group.local(slot) else {
                rmbe.retire();
                return Err(Reason::NoActiveLink);
            };
            Ok(Some(GroupPlace {
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

/// This side's end of a connection, as CLC names it. Context: may sleep.
///
/// # Errors
///
/// The RMB has no key on the link.
fn endpoint(local: &LocalEnd, rmbe: &Rmbe, token: AlertToken) -> Result<Endpoint, Reason> {
    let (path, rmb) = (&local.path, rmbe.rmb());
    let rtoken = rmb.token(local.link_use.handler().slot());
    let rtoken = rtoken.ok_or(Reason::NoActiveLink)?;
    Ok(Endpoint {
        gid: Gid::new(path.gid.gid),
        mac: Mac::new(path.mac()),
        qpn: local.qpn,
        rkey: rtoken.rkey,
        rmbe_index: rmbe.index,
        alert_token: token,
        buf_size: rmb.sizes.size,
        mtu: Mtu::from_code(path.gid.mtu_code),
        vaddr: rtoken.vaddr,
        psn: local.psn,
    })
}

/// Makes a connection a member of a group, and `prepare`s what CLC says of this side's end. Context: may
/// sleep.
fn enter(
    connection: &Arc<SmcConnection>,
    group: &LinkGroup,
    prepare: impl FnOnce(AlertToken) -> Result<Prepared, Reason>,
) -> Result<(AlertToken, KBox<Prepared>), Reason> {
    let token = group.tokens.lock().add(connection.clone());
    let token = token.ok_or(Reason::MaxConnectionsError)?;
    let prepared = prepare(token)
        .and_then(|prepared| KBox::new(prepared, GFP_KERNEL).map_err(|_| Reason::Memory));
    match prepared {
        Ok(prepared) => Ok((token, prepared)),
        Err(reason) => {
            drop(group.tokens.lock().remove(token));
            Err(reason)
        }
    }
}

#[inline(never)]
fn reserve(
    connection: &Arc<SmcConnection>,
    payer: &Payer,
    place: GroupPlace,
    request: &ClcRequest,
) -> Result<Reservation, Reason> {
    let GroupPlace {
        group,
        rmbe,
        first_contact,
        proven,
        local,
        choice,
    } = place;
    let v2 = version::addition(&choice, &group.path, first_contact);
    let Ok(memory) = SendMemory::new(send_size(connection), &group, payer) else {
        rmbe.retire();
        return Err(Reason::Memory);
    };
    let entered = enter(connection, &group, |token| {
        Ok(Prepared {
            endpoint: endpoint(&local, &rmbe, token)?,
            first_contact,
            v2,
        })
    });
    let (token, prepared) = match entered {
        Ok(entered) => entered,
        Err(reason) => {
            rmbe.retire();
            return Err(reason);
        }
    };
    let mut reservation = Reservation {
        group,
        prepared,
        hop: choice.hop,
        link_use: local.link_use,
        rmbe,
        memory,
        sendbuf: None,
        token,
        proven,
        peer: None,
    };
    let result = match request {
        // In first contact a server can decline also after Confirm, and a Proposal costs a peer
        // nothing: the send buffer comes when there is more than a Proposal.
        ClcRequest::Proposal(_) if first_contact => Ok(()),
        ClcRequest::Proposal(_) => reservation.make_sendbuf(),
        ClcRequest::Accept(accept) => reservation.connect(&accept.endpoint),
    };
    if let Err(reason) = result {
        release(reservation, connection, Release::Declined);
        return Err(reason);
    }
    Ok(reservation)
}

/// The handshake succeeded: data may flow. Context: may sleep.
pub(crate) fn activate(reservation: Reservation, connection: &Arc<SmcConnection>) -> Result {
    let proven = reservation.proven;
    let (given, peer) = reservation.buffers();
    match reservation.build(&connection.protocol.net.settings) {
        Ok(data) => {
            let [receives, sends] = given;
            let sizes = [receives.octets, sends.octets, peer];
            connection.calls.set_buffers(sizes);
            connection.sk.show_buffers(sends.octets, receives.octets);
            connection.protocol.net.count_buffers(&given);
            let early = {
                let mut slot = connection.stream.lock();
                slot.stream = Some(data);
                connection.set_mode(Mode::Stream);
                slot.early.take()
            };
            match early {
                Some((msg, link)) => connection.receive_cdc(&msg, link),
                // Sends the messages that are due without a call.
                None => drop(connection.update(|_, _| {})),
            }
            // A later change of the option finds the data.
            if connection.sk.keepalive_ms().is_some() {
                connection.set_keepalive();
            }
            // The group, or the link, may have died before it knew the connection.
            let group = connection.look(|data| data.group.clone());
            if let Some(group) = group {
                let member: Arc<dyn Member> = connection.clone();
                group.settle(&member);
                group.resolve_conflict(&member, proven);
            }
            Ok(())
        }
        Err((reservation, error)) => {
            release(reservation, connection, Release::Broken);
            Err(error)
        }
    }
}

/// Releases the reservation of a failed handshake. Context: may sleep.
pub(crate) fn release(reservation: Reservation, connection: &SmcConnection, how: Release) {
    reservation.release(how);
    connection.stream.lock().early = None;
}
