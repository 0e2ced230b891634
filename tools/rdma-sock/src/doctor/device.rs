// SPDX-License-Identifier: GPL-2.0

//! Checks of the RDMA devices and their network devices.

use std::{
    collections::HashSet,
    fs,
    path::Path, //
};

use super::finding::Finding;
use crate::snapshot::{
    Device,
    Owners,
    Snapshot,
    Sources, //
};

/// Bytes of a RoCE v2 packet over IPv6 beside its payload.
const OVERHEAD: u32 = 40 + 8 + 12 + 28 + 4;
/// The payloads that RDMA can have, the largest first.
const RDMA_MTUS: [u32; 5] = [4096, 2048, 1024, 512, 256];
/// The UDP port of RoCE v2.
const ROCE_PORT: u16 = 4791;

/// All checks of devices.
pub(super) fn check(sources: &Sources, snapshot: &Snapshot) -> Vec<Finding> {
    if snapshot.devices.is_empty() {
        return vec![Finding::failure(
            "device",
            "no RDMA device in this network namespace",
            "load the driver of the RDMA card, or make a device in software: `rdma-sock device add \
             NETDEV`",
        )];
    }
    let mut findings = Vec::new();
    for device in &snapshot.devices {
        findings.push(state(device));
        if device.usable == Some(true) {
            findings.push(gids(device));
            findings.extend(mtu(&sources.sys, device));
        }
    }
    if snapshot
        .devices
        .iter()
        .all(|device| device.usable == Some(false))
    {
        findings.push(Finding::failure(
            "device",
            "no RDMA port is usable",
            "see the ports above; SMC-R needs an active port of RoCE",
        ));
    }
    findings.extend(port_4791(sources, snapshot));
    findings
}

fn name(device: &Device) -> String {
    let dev = device.dev.as_deref().unwrap_or("?");
    format!("{dev} port {}", device.port.unwrap_or_default())
}

fn state(device: &Device) -> Finding {
    const SUBJECT: &str = "device";
    let name = name(device);
    let netdev = device.netdev.as_deref().unwrap_or("NETDEV");
    match (device.usable, device.state.as_deref()) {
        (Some(false), Some("active")) => Finding::warning(
            SUBJECT,
            format!("{name} is no port of RoCE"),
            "set the port to Ethernet in the tool of the card",
        ),
        (_, Some("active")) => Finding::good(SUBJECT, format!("{name} on {netdev} is active")),
        (_, state) => Finding::warning(
            SUBJECT,
            format!(
                "{name} on {netdev} is {}",
                state.unwrap_or("in no known state")
            ),
            format!("ip link set {netdev} up, and check the cable"),
        ),
    }
}

fn gids(device: &Device) -> Finding {
    const SUBJECT: &str = "gid";
    let name = name(device);
    let netdev = device.netdev.as_deref().unwrap_or("NETDEV");
    let routable = device
        .gids
        .iter()
        .filter(|gid| !gid.gid.is_unicast_link_local())
        .count();
    match (&device.gid, routable) {
        (Some(gid), 1..) => Finding::good(SUBJECT, format!("{name} has the GID {gid}")),
        (Some(gid), 0) => Finding::warning(
            SUBJECT,
            format!("{name} has the link-local GID {gid} only"),
            format!("ip address add ADDRESS/PREFIX dev {netdev}"),
        ),
        (None, _) => Finding::warning(
            SUBJECT,
            format!("{name} has no GID, its address for RDMA"),
            format!("ip address add ADDRESS/PREFIX dev {netdev}"),
        ),
    }
}

fn mtu(sys: &Path, device: &Device) -> Option<Finding> {
    const SUBJECT: &str = "mtu";
    let netdev = device.netdev.as_deref()?;
    let text = fs::read_to_string(sys.join("class/net").join(netdev).join("mtu")).ok()?;
    let mtu: u32 = text.trim().parse().ok()?;
    let payload = RDMA_MTUS
        .into_iter()
        .find(|payload| payload + OVERHEAD <= mtu);
    Some(match payload {
        Some(payload @ 1024..) => Finding::good(
            SUBJECT,
            format!("{netdev} has MTU {mtu}: RDMA packets of {payload} bytes"),
        ),
        Some(payload) => Finding::warning(
            SUBJECT,
            format!("{netdev} has MTU {mtu}: small RDMA packets of {payload} bytes"),
            format!("ip link set {netdev} mtu 1500, or 4200 where all of the network has it"),
        ),
        None => Finding::failure(
            SUBJECT,
            format!("{netdev} has MTU {mtu}, too small for RDMA"),
            format!("ip link set {netdev} mtu 1500"),
        ),
    })
}

/// A device in software receives by a UDP socket of the kernel, or by a hook that no file shows.
fn port_4791(sources: &Sources, snapshot: &Snapshot) -> Option<Finding> {
    const SUBJECT: &str = "udp-4791";
    let infiniband = sources.sys.join("class/infiniband");
    let is_rxe = |device: &&Device| {
        let parent = infiniband.join(device.dev.as_deref().unwrap_or_default());
        parent.join("parent").exists()
    };
    let rxe = snapshot.devices.iter().find(is_rxe)?;
    let name = name(rxe);
    let mut sockets = HashSet::new();
    for file in ["net/udp", "net/udp6"] {
        let text = fs::read_to_string(sources.proc.join(file)).unwrap_or_default();
        sockets.extend(udp_sockets(&text, ROCE_PORT));
    }
    // The socket of the kernel itself has an inode too, but no program.
    let owners = Owners::find(&sources.proc, &sockets);
    Some(
        match sockets.iter().find_map(|inode| owners.of(*inode).first()) {
            Some(program) => Finding::warning(
                SUBJECT,
                format!(
                    "the program {} has a socket on UDP port {ROCE_PORT}",
                    program.name
                ),
                format!("end it: PID {}", program.pid),
            ),
            None if sockets.is_empty() => Finding::unknown(
                SUBJECT,
                format!("no socket of {name} on UDP port {ROCE_PORT} in this network namespace"),
            ),
            None => Finding::good(SUBJECT, format!("{name} receives on UDP port {ROCE_PORT}")),
        },
    )
}

/// The inodes of the UDP sockets on a port.
fn udp_sockets(text: &str, port: u16) -> Vec<u64> {
    let inode = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let local = words.get(1)?.rsplit_once(':')?.1;
        let fits = u16::from_str_radix(local, 16).ok()? == port;
        words.get(9)?.parse().ok().filter(|_| fits)
    };
    text.lines().filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        doctor::finding::Level,
        snapshot::sample, //
    };

    const UDP: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
  101: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 70 2 0
  102: 00000000:0044 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 71 2 0
";

    fn levels(findings: &[Finding]) -> Vec<(&'static str, Level)> {
        let pair = |finding: &Finding| (finding.subject, finding.level);
        findings.iter().map(pair).collect()
    }

    #[test]
    fn sample_has_a_usable_port_and_one_that_is_down() {
        let root = tempfile::tempdir().unwrap();
        let sources = sample::write(root.path());
        fs::write(sources.sys.join("class/net/eth0/mtu"), "1500\n").unwrap();
        fs::write(sources.sys.join("class/infiniband/rxe0/parent"), "eth0\n").unwrap();
        fs::write(sources.proc.join("net/udp"), UDP).unwrap();
        let snapshot = Snapshot::take(&sources).unwrap();
        assert_eq!(
            levels(&check(&sources, &snapshot)),
            [
                ("device", Level::Good),
                ("gid", Level::Good),
                ("mtu", Level::Good),
                ("device", Level::Warning),
                ("udp-4791", Level::Good),
            ]
        );
    }

    #[test]
    fn udp_port_of_a_program_is_told_from_that_of_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        let sources = sample::write(root.path());
        fs::write(sources.sys.join("class/infiniband/rxe0/parent"), "eth0\n").unwrap();
        fs::write(sources.proc.join("net/udp"), UDP.replace(" 70 ", " 12345 ")).unwrap();
        let snapshot = Snapshot::take(&sources).unwrap();
        let finding = port_4791(&sources, &snapshot).unwrap();
        assert_eq!(finding.level, Level::Warning);
        assert_eq!(finding.fix.as_deref(), Some("end it: PID 900"));
    }

    #[test]
    fn machine_without_a_device_cannot_use_rdma() {
        let root = tempfile::tempdir().unwrap();
        let sources = Sources::below(root.path());
        let findings = check(&sources, &Snapshot::default());
        assert_eq!(levels(&findings), [("device", Level::Failure)]);
        assert!(findings[0].fix.as_ref().unwrap().contains("device add"));
    }

    #[test]
    fn mtu_decides_the_size_of_packets() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("class/net/eth0");
        fs::create_dir_all(&folder).unwrap();
        let device = Device {
            netdev: Some("eth0".into()),
            ..Device::default()
        };
        for (size, level, part) in [
            ("9000", Level::Good, "4096"),
            ("1500", Level::Good, "1024"),
            ("1000", Level::Warning, "512"),
            ("300", Level::Failure, "too small"),
        ] {
            fs::write(folder.join("mtu"), size).unwrap();
            let finding = mtu(root.path(), &device).unwrap();
            assert_eq!(finding.level, level, "{size}");
            assert!(finding.text.contains(part), "{}", finding.text);
        }
    }

    #[test]
    fn sockets_are_found_by_their_port() {
        assert_eq!(udp_sockets(UDP, 4791), [70]);
        assert_eq!(udp_sockets(UDP, 68), [71]);
        assert!(udp_sockets(UDP, 5).is_empty());
    }
}
