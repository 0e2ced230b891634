// SPDX-License-Identifier: GPL-2.0

//! The commands of `smcr` and `smcd`: what they see and change in their network namespace.
//!
//! A link group whose mutex is taken for long shows no links: a dump does not wait for it, as the
//! core may hold a lock of all generic netlink families.

use crate::{
    kapi::{
        base::{
            module::with_hostname,
            time::sleep_ms, //
        },
        compat::errno::EOPNOTSUPP,
        net::{
            genl::Commands,
            netlink::{
                Dump,
                Progress, //
            },
            netns::Net, //
        },
        verbs::device::Device, //
    },
    proto::smc::{
        clc::EidList,
        llc::Shape,
        netlink::{
            attributes::Attributes,
            commands::{
                self as command,
                eid_of_request, //
                encode_eid,
                encode_limit,
                encode_system,
            },
            counts::{
                self,
                encode_counts,
                encode_fallback,
                Buffers,
                Counts,
                Fallback, //
            },
            diag::PEER_DECLINED,
            groups::{
                encode_device,
                encode_group,
                encode_link,
                DeviceInfo,
                GroupInfo,
                LinkInfo,
                LinkState,
                PciInfo,
                PortInfo,
                MAX_BYTES, //
            },
        },
    },
    smc::{
        admin::pnets::Pnets,
        engine::{
            engine,
            Engine, //
        },
        group::{
            link::Link,
            link_group::{
                Inner,
                LinkGroup, //
            },
            phase::GroupPhase, //
        },
        setup::SmcConnection, //
    },
    sock::{
        calls::Rare,
        stats::Side, //
    },
};
use core::ops::Deref;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// How often a dump looks whether the mutex of a group is free, a millisecond apart.
const TRIES: u32 = 20;

/// The commands.
pub(crate) struct SmcCommands;

impl Commands for SmcCommands {
    fn dump(number: u8, dump: &mut Dump) -> Result<Progress> {
        let engine = engine().ok_or(ENODEV)?;
        let net = dump.net().cookie();
        match number {
            command::SYSTEM => once(dump, put_system),
            command::GROUPS => put_groups(&engine, net, dump, false),
            command::LINKS => put_groups(&engine, net, dump, true),
            command::DEVICES => put_devices(&engine, net, dump),
            command::COUNTS => once(dump, |dump| put_counts(&engine, net, dump)),
            command::FALLBACKS => put_fallbacks(&engine, net, dump),
            command::EIDS => put_eids(&engine, net, dump),
            command::SYSTEM_EID => once(dump, |dump| dump.put(command::SYSTEM_EID, &[])),
            command::LIMIT => once(dump, |dump| put_limit(&engine, net, dump)),
            // There is no SMC-D.
            _ => Ok(Progress::Done),
        }
    }

    fn change(number: u8, net: &Net, value: Option<&[u8]>) -> Result {
        let engine = engine().ok_or(ENODEV)?;
        let net = net.cookie();
        let value = || value.ok_or(EINVAL);
        match number {
            command::ADD_EID => engine
                .eids
                .add(net, eid_of_request(value()?).ok_or(EINVAL)?),
            command::REMOVE_EID => engine
                .eids
                .remove(net, eid_of_request(value()?).ok_or(ENOENT)?),
            command::FLUSH_EIDS => engine.eids.set(net, EidList::EMPTY),
            command::ENABLE_LIMIT | command::DISABLE_LIMIT => {
                let limits = number == command::ENABLE_LIMIT;
                engine.sysctls.of(net)?.set_limits_handshakes(limits);
                Ok(())
            }
            _ => Err(EOPNOTSUPP),
        }
    }
}

/// A dump of one message.
fn once(dump: &mut Dump, put: impl FnOnce(&mut Dump) -> Result) -> Result<Progress> {
    if *dump.place() == 0 {
        *dump.place() = 1;
        put(dump)?;
    }
    Ok(Progress::Done)
}

/// A dump of the rows from the number that it kept on. `put` fails with `EMSGSIZE` if the buffer is
/// full.
pub(super) fn rows<T>(
    dump: &mut Dump,
    items: impl Iterator<Item = T>,
    mut put: impl FnMut(&mut Dump, bool, T) -> Result,
) -> Result<Progress> {
    let mut done = *dump.place();
    for item in items.skip(usize::try_from(done)?) {
        match put(dump, done == 0, item) {
            Err(error) if error == EMSGSIZE => return Ok(Progress::Full),
            other => other?,
        }
        done = done.saturating_add(1);
        *dump.place() = done;
    }
    Ok(Progress::Done)
}

#[inline(never)]
fn put_system(dump: &mut Dump) -> Result {
    let mut room = [0; 128];
    let mut message = Attributes::new(&mut room);
    with_hostname(|name| encode_system(&mut message, name));
    dump.put(command::SYSTEM, message.finish().ok_or(EINVAL)?)
}

fn put_limit(engine: &Engine, net: u64, dump: &mut Dump) -> Result {
    let mut room = [0; 16];
    let mut message = Attributes::new(&mut room);
    encode_limit(&mut message, engine.sysctls.of(net)?.limits_handshakes());
    dump.put(command::LIMIT, message.finish().ok_or(EINVAL)?)
}

fn put_eids(engine: &Engine, net: u64, dump: &mut Dump) -> Result<Progress> {
    let eids = engine.eids.of(net);
    rows(dump, eids.as_slice().iter(), |dump, _, eid| {
        let mut room = [0; 48];
        let mut message = Attributes::new(&mut room);
        encode_eid(&mut message, *eid);
        dump.put(command::EIDS, message.finish().ok_or(EINVAL)?)
    })
}

fn put_counts(engine: &Engine, net: u64, dump: &mut Dump) -> Result {
    let mut counts = Counts::default();
    if let Some(state) = engine.nets.find(net) {
        let (totals, _) = state.stats.totals()?;
        counts.established = state.group_totals().established;
        counts.aborted = totals.aborted;
        counts.bytes = [totals.traffic.rx_bytes, totals.traffic.tx_bytes];
        counts.calls = totals.calls.calls;
        [counts.rx_sizes, counts.tx_sizes] = totals.calls.sizes;
        let rare = |what| totals.calls.rare(what);
        counts.splices = rare(Rare::Splice);
        counts.uncorks = rare(Rare::Uncork);
        counts.nodelays = rare(Rare::Nodelay);
        counts.urgents = rare(Rare::Urgent);
        counts.buffers = state.group_totals().buffers.map(|given| Buffers {
            sizes: given.sizes,
            reused: given.reused,
            made: given.made,
            smaller: given.smaller,
            ..Buffers::default()
        });
        let [received, sent] = &mut counts.buffers;
        received.small = rare(Rare::ReadsPart);
        received.full = rare(Rare::ReadsFull);
        sent.small_at_peer = rare(Rare::ExceedsPeer);
        sent.small = rare(Rare::ExceedsBuffer);
        sent.full_at_peer = rare(Rare::PeerFull);
        sent.full = rare(Rare::NoRoom);
        counts.usage = buffers_in_use(engine, net);
    }
    let mut room = KVec::from_elem(0_u8, counts::MAX_BYTES, GFP_KERNEL)?;
    let mut message = Attributes::new(&mut room);
    encode_counts(&mut message, &counts);
    dump.put(command::COUNTS, message.finish().ok_or(EINVAL)?)
}

/// Octets of the buffers that connections have: to receive, to send.
fn buffers_in_use(engine: &Engine, net: u64) -> [u64; 2] {
    let mut sum = [0_u64; 2];
    let Some(state) = engine.nets.find(net) else {
        return sum;
    };
    let mut last = 0;
    while let Some((number, listed)) = state.stats.after(last) {
        last = number;
        let connection = listed.as_any().downcast_ref::<SmcConnection>();
        let report = connection.and_then(|connection| connection.look(|data| data.core.report()));
        let sizes = report.map_or([0; 2], |report| [report.local_rmbe, report.sndbuf]);
        for (total, octets) in sum.iter_mut().zip(sizes) {
            *total = total.saturating_add(octets.into());
        }
    }
    sum
}

fn put_fallbacks(engine: &Engine, net: u64, dump: &mut Dump) -> Result<Progress> {
    let Some(state) = engine.nets.find(net) else {
        return Ok(Progress::Done);
    };
    let (totals, _) = state.stats.totals()?;
    let reasons = totals.reasons.iter().filter(|(_, count)| *count != 0);
    rows(dump, reasons, |dump, is_first, (cause, count)| {
        let fallback = Fallback {
            is_server: cause.side == Side::Server,
            code: if cause.by_peer {
                PEER_DECLINED
            } else {
                cause.code
            },
            count: *count,
        };
        let mut room = [0; 64];
        let mut message = Attributes::new(&mut room);
        encode_fallback(&mut message, &fallback, is_first.then_some(totals.fallback));
        dump.put(command::FALLBACKS, message.finish().ok_or(EINVAL)?)
    })
}

/// The groups of a namespace.
fn groups_of(engine: &Engine, net: u64) -> Result<KVec<Arc<LinkGroup>>> {
    let mut found = KVec::new();
    for group in engine.groups.list.lock().iter() {
        if group.key.net == net && group.phase() != GroupPhase::Dead {
            found.push(group.clone(), GFP_KERNEL)?;
        }
    }
    Ok(found)
}

/// Puts the groups of a namespace, each with its links or all without.
fn put_groups(engine: &Engine, net: u64, dump: &mut Dump, links: bool) -> Result<Progress> {
    let groups = groups_of(engine, net)?;
    // The number of the last group shown: others come and go.
    let mut last = *dump.place();
    loop {
        let later = groups.iter().filter(|group| u64::from(group.id) > last);
        let Some(group) = later.min_by_key(|group| group.id) else {
            return Ok(Progress::Done);
        };
        let before = dump.len();
        match put_group(dump, group, links) {
            Err(error) if error == EMSGSIZE => {
                // The tool takes the links for those of the group in front of them.
                dump.cut(before);
                return Ok(Progress::Full);
            }
            other => other?,
        }
        last = group.id.into();
        *dump.place() = last;
    }
}

/// Octets of the send buffers of a group's connections.
fn send_octets(group: &LinkGroup) -> u64 {
    let buffers = group.members().filter_map(|member| member.send_buffer());
    let sizes = buffers.map(|buffer| u64::try_from(buffer.len()).unwrap_or(0));
    sizes.fold(0, u64::saturating_add)
}

/// The parts of a group that its mutex protects, unless that is taken for long.
fn inner_of(group: &LinkGroup) -> Option<impl Deref<Target = Inner> + '_> {
    for _ in 0..TRIES {
        if let Some(inner) = group.inner.try_lock() {
            return Some(inner);
        }
        sleep_ms(1);
    }
    None
}

fn put_group(dump: &mut Dump, group: &LinkGroup, links: bool) -> Result {
    let sndbuf = send_octets(group);
    let inner = inner_of(group);
    put_group_alone(dump, group, inner.as_deref(), sndbuf, links)?;
    let Some(inner) = inner.filter(|_| links) else {
        return Ok(());
    };
    for link in inner.links.iter().flatten() {
        // As with C, not those that no connection may use.
        let state = state_of(group, &inner, link);
        if state != LinkState::Inactive {
            put_link(dump, group, &inner, link, state)?;
        }
    }
    Ok(())
}

fn state_of(group: &LinkGroup, inner: &Inner, link: &Link) -> LinkState {
    match group.phase() {
        GroupPhase::Forming => LinkState::Activating,
        GroupPhase::Ready if inner.is_usable(link.slot) => LinkState::Active,
        GroupPhase::Ready | GroupPhase::Dead => LinkState::Inactive,
    }
}

#[inline(never)]
fn put_group_alone(
    dump: &mut Dump,
    group: &LinkGroup,
    inner: Option<&Inner>,
    sndbuf: u64,
    links: bool,
) -> Result {
    let llc = inner.and_then(|inner| inner.llc.as_ref());
    let rmbs = inner.map_or(&[][..], |inner| &inner.rmbs);
    let rmb = rmbs
        .iter()
        .map(|rmb| rmb.octets())
        .fold(0, u64::saturating_add);
    // A lock that is taken within the literal is held to its end, and the table of names may sleep.
    let connections = group.tokens.lock().live();
    let system = *group.system.lock();
    let info = GroupInfo {
        id: group.id,
        role: group.role,
        shape: llc.map_or(Shape::None, |llc| llc.kind()),
        connections: u32::try_from(connections).unwrap_or(u32::MAX),
        vlan: group.key.vlan,
        net: group.key.net,
        pnet: group
            .groups
            .pnets
            .of_port(&group.path.device, group.path.port),
        buffers: group.buffers,
        sndbuf,
        rmb,
        terms: group.terms,
        system,
    };
    let mut room = [0; MAX_BYTES];
    let mut message = Attributes::new(&mut room);
    encode_group(&mut message, &info);
    let number = if links {
        command::LINKS
    } else {
        command::GROUPS
    };
    dump.put(number, message.finish().ok_or(EINVAL)?)
}

#[inline(never)]
fn put_link(
    dump: &mut Dump,
    group: &LinkGroup,
    inner: &Inner,
    link: &Link,
    state: LinkState,
) -> Result {
    let llc = inner.llc.as_ref();
    let number = llc.and_then(|llc| llc.number(link.slot));
    let netdev = link.path.device.netdev(link.path.port);
    let netdev = netdev.filter(|netdev| netdev.net_cookie == group.key.net);
    let name = link.path.device.name();
    let info = LinkInfo {
        number: number.map_or(0, |number| number.get()),
        state,
        connections: u32::try_from(link.handler.uses()).unwrap_or(0),
        device: name.as_bytes(),
        port: u8::try_from(link.path.port).unwrap_or(0),
        ifindex: netdev.map_or(0, |netdev| netdev.ifindex),
        uids: (
            link.uid,
            llc.and_then(|llc| llc.peer_uid(link.slot)).unwrap_or(0),
        ),
        gids: (link.path.gid.gid, link.peer_gid()),
    };
    let mut room = [0; MAX_BYTES];
    let mut message = Attributes::new(&mut room);
    encode_link(&mut message, &info);
    dump.put(command::LINKS, message.finish().ok_or(EINVAL)?)
}

/// How many links of a group that connections may use are on a port.
fn links_on(group: &LinkGroup, device: &Arc<Device>, number: u32) -> u32 {
    if !group.is_on_port(device, number) {
        return 0;
    }
    inner_of(group).map_or(0, |inner| {
        let links = inner.links.iter().flatten();
        let here = links.filter(|link| {
            link.is_on_port(device, number) && state_of(group, &inner, link) == LinkState::Active
        });
        u32::try_from(here.count()).unwrap_or(u32::MAX)
    })
}

/// The first two ports of a device whose network devices are in the namespace.
fn ports_of(
    pnets: &Pnets,
    device: &Arc<Device>,
    net: u64,
    groups: &[Arc<LinkGroup>],
) -> ([Option<PortInfo>; 2], bool) {
    let mut ports = [None; 2];
    let mut is_any = false;
    for number in 1..=device.phys_ports() {
        let netdev = device.netdev(number);
        let Some(netdev) = netdev.filter(|netdev| netdev.net_cookie == net) else {
            continue;
        };
        is_any = true;
        let links = groups.iter().map(|group| links_on(group, device, number));
        let info = PortInfo {
            ifindex: netdev.ifindex,
            is_active: device.port_active(number),
            links: links.fold(0, u32::saturating_add),
            pnet: pnets.of_port(device, number),
        };
        for (place, known) in ports.iter_mut().zip(1..) {
            if known == number {
                *place = Some(info);
            }
        }
    }
    (ports, is_any)
}

/// Whether a group would lose its only way with the device.
fn depends(group: &LinkGroup, device: &Arc<Device>) -> bool {
    group.is_on(device)
        && inner_of(group).is_some_and(|inner| {
            let shape = inner.llc.as_ref().map(|llc| llc.kind());
            matches!(shape, Some(Shape::Single | Shape::AsymmetricLocal))
        })
}

fn put_devices(engine: &Engine, net: u64, dump: &mut Dump) -> Result<Progress> {
    let groups = groups_of(engine, net)?;
    let devices = engine.fabric.devices.known()?;
    rows(dump, devices.iter(), |dump, _, device| {
        let (ports, is_any) = ports_of(&engine.pnets, device, net, &groups);
        if !is_any {
            return Ok(());
        }
        put_device(
            dump,
            device,
            ports,
            groups.iter().any(|group| depends(group, device)),
        )
    })
}

#[inline(never)]
fn put_device(
    dump: &mut Dump,
    device: &Device,
    ports: [Option<PortInfo>; 2],
    is_critical: bool,
) -> Result {
    let (name, place) = (device.name(), device.pci());
    let info = DeviceInfo {
        name: name.as_bytes(),
        is_critical,
        pci: PciInfo {
            vendor: place.vendor,
            device: place.device,
            address: place.address(),
        },
        ports,
    };
    let mut room = [0; MAX_BYTES];
    let mut message = Attributes::new(&mut room);
    encode_device(&mut message, &info);
    dump.put(command::DEVICES, message.finish().ok_or(EINVAL)?)
}
