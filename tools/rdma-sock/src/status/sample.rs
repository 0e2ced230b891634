// SPDX-License-Identifier: GPL-2.0

//! Samples of the module's files, and what the command makes of them.

/// `stat`
pub(super) const STAT: &str = "\
smc_clnt_conns 3
tx_bytes 67108864
rx_bytes 512
link_groups 1
fallback_reason_03010000 1
";

/// `conns`; the second line has a word this tool does not know.
pub(super) const CONNS: &str = "\
role=client mode=smc state=active local=192.0.2.1:40000 peer=192.0.2.2:80 reason=0x00000000 \
tx_bytes=67108864 rx_bytes=512 tcp_bytes=0 ino=12345 uid=1000 lgr=0x1 dev=rxe0
role=server mode=tcp state=tcp local=[2001:db8::2]:80 peer=[2001:db8::1]:1234 \
reason=0x03010000 reason_name=peer-did-not-indicate-SMC tx_bytes=0 rx_bytes=0 tcp_bytes=2048 \
ino=12346 uid=0 cpu=1
";

/// `devices`
pub(super) const DEVICES: &str = "\
dev=rxe0 port=1 netdev=eth0 state=active gid=::ffff:192.0.2.1 mac=52:54:00:00:00:01 \
usable=1
dev=rxe1 port=1 ifindex=1 state=down gid= usable=0
";

/// `links`
pub(super) const LINKS: &str = "\
lgr=0x1 role=client dev=rxe0 port=1 state=active conns=1 rmbs=2 qpn=0x11 peer_qpn=0x12 \
peer_gid=::ffff:192.0.2.2
";

/// The text for people.
pub(super) const TEXT: &str = "\
Module        rdma_sock 0.1.0 is loaded
Acceleration  shown to root only
RDMA devices  1 of 2 ports usable
  DEVICE  PORT  NETDEV  STATE   USABLE  GID
  rxe0    1     eth0    active  yes     ::ffff:192.0.2.1
  rxe1    1     lo      down    no      -
Connections   1 over RDMA, 1 over TCP, 0 in the handshake
  MODE  ROLE    STATE   LOCAL             PEER                SENT      RECEIVED  BY TCP   DEVICE  \
WHY TCP
  smc   client  active  192.0.2.1:40000   192.0.2.2:80        64.0 MiB  512 B     0 B      rxe0    -
  tcp   server  tcp     [2001:db8::2]:80  [2001:db8::1]:1234  0 B       0 B       2.0 KiB  -       \
peer-did-not-indicate-SMC
Link groups   1
  GROUP  ROLE    PEER              DEVICE  STATE   CONNS  RMBS
  0x1    client  ::ffff:192.0.2.2  rxe0    active  1      2
Counters
  NAME            VALUE
  smc_clnt_conns  3
  tx_bytes        67108864 (64.0 MiB)
  rx_bytes        512
  link_groups     1
Fallbacks
  REASON      NAME                       COUNT
  0x03010000  peer did not indicate SMC  1
";

/// The JSON that the manual page documents.
pub(super) const JSON: &str = r#"{
  "schema_version": 1,
  "module": {"loaded": true, "version": "0.1.0"},
  "acceleration": null,
  "devices": [
    {
      "dev": "rxe0", "port": 1, "ifindex": null, "netdev": "eth0", "state": "active",
      "gid": "::ffff:192.0.2.1", "mac": "52:54:00:00:00:01", "usable": true
    },
    {
      "dev": "rxe1", "port": 1, "ifindex": 1, "netdev": "lo", "state": "down",
      "gid": null, "mac": null, "usable": false
    }
  ],
  "connections": [
    {
      "role": "client", "mode": "smc", "state": "active",
      "local": "192.0.2.1:40000", "peer": "192.0.2.2:80",
      "reason": "0x00000000", "reason_name": null,
      "tx_bytes": 67108864, "rx_bytes": 512, "tcp_bytes": 0, "ino": 12345, "uid": 1000,
      "lgr": "0x1", "dev": "rxe0"
    },
    {
      "role": "server", "mode": "tcp", "state": "tcp",
      "local": "[2001:db8::2]:80", "peer": "[2001:db8::1]:1234",
      "reason": "0x03010000", "reason_name": "peer-did-not-indicate-SMC",
      "tx_bytes": 0, "rx_bytes": 0, "tcp_bytes": 2048, "ino": 12346, "uid": 0,
      "lgr": null, "dev": null, "cpu": 1
    }
  ],
  "link_groups": [
    {
      "lgr": "0x1", "role": "client", "peer": null, "peer_gid": "::ffff:192.0.2.2", "dev": "rxe0",
      "state": "active", "conns": 1, "rmbs": 2, "qpn": "0x11", "peer_qpn": "0x12", "port": 1
    }
  ],
  "counters": {"smc_clnt_conns": 3, "tx_bytes": 67108864, "rx_bytes": 512, "link_groups": 1},
  "fallback_reasons": [
    {"code": "0x03010000", "name": "peer did not indicate SMC", "count": 1}
  ]
}
"#;
