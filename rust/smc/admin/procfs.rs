// SPDX-License-Identifier: GPL-2.0

//! `/proc/net/rdma_sock/`: what an administrator sees, per network namespace.
//!
//! One record a line, `key=value` fields separated by spaces; new fields may be added at the end.

use crate::{
    kapi::net::proc::{
        Dir,
        File,
        SeqFile,
        SeqShow,
        SeqWrite, //
    },
    proto::smc::{
        clc::{
            Eid,
            EidList,
            Version, //
        },
        llc::Role, //
    },
    smc::{
        engine::{
            engine,
            Engine, //
        },
        group::{
            link::Link,
            link_group::LinkGroup,
            phase::GroupPhase, //
        },
        net::{
            GroupTotals,
            NAME, //
        },
    },
    sock::{
        calls::Rare,
        print::{
            print_ip6,
            print_joined,
            Shown, //
        },
        stats::{
            NetStats,
            Totals, //
        },
    },
};
use kernel::{
    prelude::*,
    seq_print,
    sync::Arc, //
};

/// The folder with its files.
pub(crate) struct ProcDir;

impl Dir for ProcDir {
    const NAME: &'static CStr = c"rdma_sock";
    const FILES: &'static [File] = &[
        File::of::<Stat>(),
        File::of::<Connections>(),
        File::of::<Devices>(),
        File::of::<LinksFile>(),
        File::of_writable::<Ueids>(),
        File::of_writable::<RulesFile>(),
    ];
}

struct Stat;

impl SeqShow for Stat {
    const NAME: &'static CStr = c"stat";

    fn show(net: u64, m: &SeqFile) -> Result {
        let engine = engine().ok_or(ENODEV)?;
        let state = engine.nets.find(net);
        let (buffers, orphans) = match engine.quotas.of(net) {
            Ok(accounts) => (accounts.buffers.used(), accounts.orphans.used()),
            Err(_) => (0, 0),
        };
        let group_totals = state.as_ref().map(|state| state.group_totals());
        let group_totals = group_totals.unwrap_or_default();
        let (totals, active) = match state {
            Some(state) => state.stats.totals()?,
            None => (Totals::none()?, 0),
        };
        let groups = groups_of(&engine, net)?;
        let mut posts = 0u64;
        let mut cqes = 0u64;
        for group in groups.iter() {
            for link in group.inner.lock().links.iter().flatten() {
                let counters = link.channel.counters();
                posts = posts.wrapping_add(counters.posts);
                cqes = cqes.wrapping_add(counters.cqes);
            }
        }
        let [clnt, srv] = totals.established;
        let [fallback_clnt, fallback_srv] = totals.fallback;
        let [aborted_clnt, aborted_srv] = totals.aborted;
        seq_print!(m, "smc_clnt_conns {}\nsmc_srv_conns {}\n", clnt, srv);
        seq_print!(m, "fallback_clnt {}\n", fallback_clnt);
        seq_print!(m, "fallback_srv {}\n", fallback_srv);
        seq_print!(
            m,
            "aborted_clnt {}\naborted_srv {}\n",
            aborted_clnt,
            aborted_srv
        );
        seq_print!(m, "tx_bytes {}\n", totals.traffic.tx_bytes);
        seq_print!(m, "rx_bytes {}\n", totals.traffic.rx_bytes);
        seq_print!(m, "tx_zerocopy_bytes {}\n", totals.traffic.tx_zerocopy);
        seq_print!(m, "tx_writes {}\n", totals.traffic.tx_writes);
        seq_print!(m, "tx_cdc {}\n", totals.traffic.tx_messages);
        seq_print!(m, "rx_cdc {}\n", totals.traffic.rx_messages);
        seq_print!(m, "tx_posts {}\ntx_cqes {}\n", posts, cqes);
        seq_print!(m, "tcp_payload_bytes {}\n", totals.tcp_bytes);
        seq_print!(m, "active_conns {}\nlink_groups {}\n", active, groups.len());
        let forming = groups
            .iter()
            .filter(|group| group.phase() == GroupPhase::Forming);
        seq_print!(m, "forming_groups {}\n", forming.count());
        seq_print!(m, "buffer_bytes {}\norphans {}\n", buffers, orphans);
        seq_print!(m, "spins {}\n", totals.calls.rare(Rare::Spin));
        seq_print!(m, "spins_in_vain {}\n", totals.calls.rare(Rare::SpinInVain));
        print_causes(m, &totals, &group_totals);
        let mut result = Ok(());
        engine.directory.for_each(net, |name, stats| {
            if name != NAME {
                result = result.and(print_protocol(m, name, stats));
            }
        });
        result
    }
}

/// Prints the counts of another protocol, each with its name in front.
fn print_protocol(m: &SeqFile, name: &str, stats: &NetStats) -> Result {
    let (totals, active) = stats.totals()?;
    let [clnt, srv] = totals.established;
    let [fallback_clnt, fallback_srv] = totals.fallback;
    let traffic = totals.traffic;
    seq_print!(m, "{name}_clnt_conns {clnt}\n{name}_srv_conns {srv}\n");
    seq_print!(m, "{name}_fallback_clnt {fallback_clnt}\n");
    seq_print!(m, "{name}_fallback_srv {fallback_srv}\n");
    let [aborted_clnt, aborted_srv] = totals.aborted;
    seq_print!(m, "{name}_aborted_clnt {aborted_clnt}\n");
    seq_print!(m, "{name}_aborted_srv {aborted_srv}\n");
    seq_print!(m, "{name}_active_conns {active}\n");
    seq_print!(m, "{name}_tx_bytes {}\n", traffic.tx_bytes);
    seq_print!(m, "{name}_rx_bytes {}\n", traffic.rx_bytes);
    seq_print!(m, "{name}_tx_messages {}\n", traffic.tx_messages);
    seq_print!(m, "{name}_rx_messages {}\n", traffic.rx_messages);
    seq_print!(m, "{name}_tcp_payload_bytes {}\n", totals.tcp_bytes);
    seq_print!(m, "{name}_spins {}\n", totals.calls.rare(Rare::Spin));
    seq_print!(
        m,
        "{name}_spins_in_vain {}\n",
        totals.calls.rare(Rare::SpinInVain)
    );
    for (code, count) in totals.codes() {
        seq_print!(m, "{name}_fallback_reason_{code:08x} {count}\n");
    }
    for (code, count) in totals.abort_reasons.iter().filter(|(_, count)| *count != 0) {
        seq_print!(m, "{name}_aborted_reason_{code:08x} {count}\n");
    }
    for (rule, count) in totals.violations.iter().filter(|(_, count)| *count != 0) {
        seq_print!(m, "{name}_violation_");
        print_joined(m, rule, "_");
        seq_print!(m, " {count}\n");
    }
    Ok(())
}

/// Prints the counts that have a name each: reasons, rules, causes.
fn print_causes(m: &SeqFile, totals: &Totals, group_totals: &GroupTotals) {
    for (code, count) in totals.codes() {
        seq_print!(m, "fallback_reason_{:08x} {}\n", code, count);
    }
    for (code, count) in totals.abort_reasons.iter().filter(|(_, count)| *count != 0) {
        seq_print!(m, "aborted_reason_{:08x} {}\n", code, count);
    }
    for (rule, count) in totals.violations.iter().filter(|(_, count)| *count != 0) {
        seq_print!(m, "violation_");
        print_joined(m, rule, "_");
        seq_print!(m, " {}\n", count);
    }
    seq_print!(m, "groups_ended {}\n", group_totals.groups_ended);
    for (cause, count) in group_totals
        .links_down
        .iter()
        .filter(|(_, count)| *count != 0)
    {
        seq_print!(m, "link_down_");
        print_joined(m, cause, "_");
        seq_print!(m, " {}\n", count);
    }
}

fn groups_of(engine: &Engine, net: u64) -> Result<KVec<Arc<LinkGroup>>> {
    let mut found = KVec::new();
    let groups = engine.groups.list.lock();
    for group in groups.iter().filter(|group| group.key.net == net) {
        found.push(group.clone(), GFP_KERNEL)?;
    }
    Ok(found)
}

struct Connections;

impl SeqShow for Connections {
    const NAME: &'static CStr = c"conns";

    fn show(net: u64, m: &SeqFile) -> Result {
        let engine = engine().ok_or(ENODEV)?;
        engine
            .directory
            .for_each(net, |_, stats| stats.print_connections(m));
        Ok(())
    }
}

struct Devices;

impl SeqShow for Devices {
    const NAME: &'static CStr = c"devices";

    fn show(net: u64, m: &SeqFile) -> Result {
        let engine = engine().ok_or(ENODEV)?;
        for device in &engine.fabric.devices.known()? {
            for port in 1..=device.phys_ports() {
                let Some(netdev) = device.netdev(port).filter(|dev| dev.net_cookie == net) else {
                    continue;
                };
                let active = device.port_active(port);
                let usable = active && device.is_roce(port);
                seq_print!(m, "dev={} port={}", device.name().as_str(), port);
                seq_print!(m, " ifindex={}", netdev.ifindex);
                let state = if active { "active" } else { "down" };
                seq_print!(m, " state={} usable={}\n", state, u8::from(usable));
            }
        }
        Ok(())
    }
}

struct LinksFile;

impl SeqShow for LinksFile {
    const NAME: &'static CStr = c"links";

    fn show(net: u64, m: &SeqFile) -> Result {
        let engine = engine().ok_or(ENODEV)?;
        for group in groups_of(&engine, net)? {
            let role = match group.role {
                Role::Client => "client",
                Role::Server => "server",
            };
            let inner = group.inner.lock();
            for link in inner.links.iter().flatten() {
                let version = match group.key.version {
                    Version::V1 => 1,
                    Version::V2 => 2,
                };
                seq_print!(m, "lgr={:#x} role={} version={}", group.id, role, version);
                print_link(m, link);
                let state = match group.phase() {
                    GroupPhase::Ready if !inner.is_usable(link.slot) => "inactive",
                    phase => phase.name(),
                };
                seq_print!(m, " state={}", state);
                seq_print!(
                    m,
                    " conns={} rmbs={}",
                    link.handler.uses(),
                    inner.rmbs.len()
                );
                let counters = link.channel.counters();
                seq_print!(m, " qpn={:#x} posts={}", link.channel.qpn(), counters.posts);
                seq_print!(m, " wrs={} cqes={}", counters.wrs, counters.cqes);
                seq_print!(m, " recvs={}", counters.recvs);
                seq_print!(m, " write_bytes={}", counters.write_bytes);
                if let Some(peer) = link.peer.as_ref() {
                    seq_print!(m, " peer_qpn={:#x} peer_gid=", peer.qpn.get());
                    print_ip6(m, &peer.gid.get());
                }
                let llc = inner.llc.as_ref();
                let number = llc.and_then(|llc| llc.number(link.slot));
                let number = number.map_or(0, |number| number.get());
                let shape = llc.map_or("none", |llc| llc.kind().name());
                let peer_uid = llc.and_then(|llc| llc.peer_uid(link.slot)).unwrap_or(0);
                seq_print!(m, " link={} uid={:#x}", number, link.uid);
                seq_print!(m, " peer_uid={:#x} type=", peer_uid);
                print_joined(m, shape, "-");
                seq_print!(m, "\n");
            }
        }
        Ok(())
    }
}

fn print_link(m: &SeqFile, link: &Link) {
    seq_print!(m, " dev={}", link.path.device.name().as_str());
    seq_print!(m, " port={}", link.path.port);
    let (send, recv) = link.slots;
    seq_print!(m, " send_wr={} recv_wr={}", send, recv);
}

/// `/proc/net/rdma_sock/ueids`: one identifier a line. A write replaces all of them.
struct Ueids;

impl SeqShow for Ueids {
    const NAME: &'static CStr = c"ueids";

    fn show(net: u64, m: &SeqFile) -> Result {
        let engine = engine().ok_or(ENODEV)?;
        for eid in engine.eids.of(net).as_slice() {
            seq_print!(m, "{}\n", core::str::from_utf8(eid.name()).unwrap_or("?"));
        }
        Ok(())
    }
}

impl SeqWrite for Ueids {
    /// # Errors
    ///
    /// `EINVAL` for a word that is no identifier, `E2BIG` for more than eight.
    fn write(net: u64, text: &[u8]) -> Result {
        let mut list = EidList::EMPTY;
        let words = text.split(u8::is_ascii_whitespace);
        for word in words.filter(|word| !word.is_empty()) {
            let eid = Eid::new(word).ok_or(EINVAL)?;
            if !list.as_slice().contains(&eid) {
                list.push(eid).map_err(|_| E2BIG)?;
            }
        }
        engine().ok_or(ENODEV)?.eids.set(net, list)
    }
}

/// `/proc/net/rdma_sock/rules`: one rule a line, with the connections that it has decided. A write
/// replaces all of them.
struct RulesFile;

impl SeqShow for RulesFile {
    const NAME: &'static CStr = c"rules";

    fn show(net: u64, m: &SeqFile) -> Result {
        let engine = engine().ok_or(ENODEV)?;
        engine.rules.for_each(net, |rule, hits| {
            seq_print!(m, "{} hits={}\n", Shown(rule), hits);
        });
        Ok(())
    }
}

impl SeqWrite for RulesFile {
    /// # Errors
    ///
    /// `EINVAL` for a line that is no rule, `E2BIG` for too many.
    fn write(net: u64, text: &[u8]) -> Result {
        engine().ok_or(ENODEV)?.rules.replace(net, text)
    }
}
