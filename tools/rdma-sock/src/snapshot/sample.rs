// SPDX-License-Identifier: GPL-2.0

//! Samples of the files of a machine, in the form that the module prints.

use std::{
    fs,
    path::Path, //
};

use super::{
    owner::tests::make_process,
    Snapshot,
    Sources, //
};

/// `/proc/net/rdma_sock/stat`
pub(crate) const STAT: &str = "\
smc_clnt_conns 3
smc_srv_conns 1
fallback_clnt 0
fallback_srv 1
tx_bytes 67108864
rx_bytes 512
tcp_payload_bytes 2048
active_conns 1
link_groups 1
fallback_reason_03010000 1
aborted_reason_7f000005 2
groups_ended 1
link_down_device_removed 1
sdp_clnt_conns 0
sdp_tx_bytes 0
sdp_rx_bytes 0
sdp_fallback_reason_7f000108 4
";

/// `/proc/net/rdma_sock/conns`; the second line has a word this tool does not know.
pub(crate) const CONNS: &str = "\
role=client mode=smc state=ACTIVE local=192.0.2.1:40000 peer=192.0.2.2:80 reason=0x00000000 \
tx_bytes=67108864 rx_bytes=512 tcp_bytes=0 ino=12345 uid=1000 lgr=0x1 dev=rxe0 link=0 proto=smc
role=server mode=tcp state=tcp local=[2001:db8:0:0:0:0:0:2]:80 peer=[2001:db8:0:0:0:0:0:1]:1234 \
reason=0x03010000 reason_name=peer-did-not-indicate-SMC tx_bytes=0 rx_bytes=0 tcp_bytes=2048 \
ino=12346 uid=0 proto=smc cpu=1
role=server mode=listen state=listen local=[0:0:0:0:0:0:0:0]:80 peer=[0:0:0:0:0:0:0:0]:0 \
reason=0x00000000 tx_bytes=0 rx_bytes=0 tcp_bytes=0 ino=12347 uid=0 proto=smc
";

/// `/proc/net/rdma_sock/devices`
pub(crate) const DEVICES: &str = "\
dev=rxe0 port=1 netdev=eth0 state=active usable=1
dev=rxe1 port=1 ifindex=1 state=down usable=0
";

/// `/proc/net/rdma_sock/links`
pub(crate) const LINKS: &str = "\
lgr=0x1 role=client version=1 dev=rxe0 port=1 send_wr=48 recv_wr=128 state=active conns=1 rmbs=2 \
qpn=0x11 posts=1030 wrs=2060 cqes=33 recvs=12 write_bytes=67108864 peer_qpn=0x12 \
peer_gid=0:0:0:0:0:ffff:c000:202 link=1 uid=0x5 peer_uid=0x6 type=single
";

/// `/sys/class/infiniband/rxe0/ports/1/gids`, with kind and network device
const GIDS: [[&str; 3]; 2] = [
    ["fe80:0000:0000:0000:5054:00ff:fe00:0001", "RoCE v2", "eth0"],
    ["0000:0000:0000:0000:0000:ffff:c000:0201", "RoCE v2", "eth0"],
];

/// The programs with their sockets.
const PROGRAMS: [(u32, &str, &[u64]); 3] = [
    (900, "curl", &[12345]),
    (31, "nginx", &[12346, 12347]),
    (30, "nginx", &[12347]),
];

/// Writes the samples below a folder.
pub(crate) fn write(root: &Path) -> Sources {
    let sources = Sources::below(root);
    let put = |path: std::path::PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for (name, text) in [
        ("stat", STAT),
        ("conns", CONNS),
        ("devices", DEVICES),
        ("links", LINKS),
    ] {
        put(sources.proc.join("net/rdma_sock").join(name), text);
    }
    for (pid, name, inodes) in PROGRAMS {
        make_process(&sources.proc, pid, name, inodes);
    }
    let port = sources.sys.join("class/infiniband/rxe0/ports/1");
    for (index, [gid, kind, netdev]) in GIDS.iter().enumerate() {
        for (folder, text) in [
            ("gids", gid),
            ("gid_attrs/types", kind),
            ("gid_attrs/ndevs", netdev),
        ] {
            put(port.join(folder).join(index.to_string()), text);
        }
    }
    let net = sources.sys.join("class/net");
    put(net.join("eth0/address"), "52:54:00:00:00:01\n");
    let module = sources.sys.join("module/rdma_sock");
    put(module.join("initstate"), "live\n");
    put(module.join("version"), "0.1.0\n");
    sources
}

/// The samples, read.
pub(crate) fn snapshot() -> Snapshot {
    let root = tempfile::tempdir().unwrap();
    Snapshot::take(&write(root.path())).unwrap()
}
