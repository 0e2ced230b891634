// SPDX-License-Identifier: GPL-2.0

//! What `status` makes of the samples.

/// The text for people.
pub(super) const TEXT: &str = "\
Module        rdma_sock 0.1.0 is loaded
Acceleration  shown to root only
RDMA devices  1 of 2 ports usable
  DEVICE  PORT  NETDEV  STATE   USABLE  GID
  rxe0    1     eth0    active  yes     ::ffff:192.0.2.1
  rxe1    1     lo      down    no      -
Connections   1 over RDMA, 1 over TCP, 0 in the handshake, 1 listening
  PID   PROGRAM  MODE    ROLE    STATE   LOCAL                      PEER                         \
SENT      RECEIVED  BY TCP   DEVICE  WHY TCP
  900   curl     smc     client  ACTIVE  192.0.2.1:40000            192.0.2.2:80                 \
64.0 MiB  512 B     0 B      rxe0    -
  31    nginx    tcp     server  tcp     [2001:db8:0:0:0:0:0:2]:80  [2001:db8:0:0:0:0:0:1]:1234  \
0 B       0 B       2.0 KiB  -       peer did not indicate SMC
  30+1  nginx    listen  server  listen  [0:0:0:0:0:0:0:0]:80       [0:0:0:0:0:0:0:0]:0          \
0 B       0 B       0 B      -       -
  `rdma-sock explain` says what to do about connections over TCP
Link groups   1 link
  GROUP  ROLE    PEER              DEVICE  STATE   TYPE    CONNS  RMBS  WRITTEN
  0x1    client  ::ffff:192.0.2.2  rxe0    active  single  1      2     64.0 MiB
Counters
  NAME                      VALUE
  smc_clnt_conns            3
  smc_srv_conns             1
  fallback_clnt             0
  fallback_srv              1
  tx_bytes                  67108864 (64.0 MiB)
  rx_bytes                  512
  tcp_payload_bytes         2048 (2.0 KiB)
  active_conns              1
  link_groups               1
  groups_ended              1
  link_down_device_removed  1
  sdp_clnt_conns            0
  sdp_tx_bytes              0
  sdp_rx_bytes              0
Fallbacks
  PROTO  REASON      NAME                       COUNT
  smc    0x03010000  peer did not indicate SMC  1
  sdp    0x7f000108  peer host has no SDP       4
Aborted
  PROTO  REASON      NAME                               COUNT
  smc    0x7f000005  timeout waiting for a CLC message  2
";

/// The JSON that the manual page documents.
pub(super) const JSON: &str = r#"{
  "schema_version": 1,
  "module": {"loaded": true, "version": "0.1.0"},
  "acceleration": null,
  "devices": [
    {
      "dev": "rxe0", "port": 1, "ifindex": null, "netdev": "eth0", "state": "active",
      "gid": "::ffff:192.0.2.1", "mac": "52:54:00:00:00:01", "usable": true,
      "gids": [
        {"index": 0, "gid": "fe80::5054:ff:fe00:1", "kind": "RoCE v2", "netdev": "eth0"},
        {"index": 1, "gid": "::ffff:192.0.2.1", "kind": "RoCE v2", "netdev": "eth0"}
      ]
    },
    {
      "dev": "rxe1", "port": 1, "ifindex": 1, "netdev": "lo", "state": "down",
      "gid": null, "mac": null, "usable": false, "gids": []
    }
  ],
  "connections": [
    {
      "role": "client", "mode": "smc", "proto": "smc", "state": "ACTIVE",
      "local": "192.0.2.1:40000", "peer": "192.0.2.2:80",
      "reason": "0x00000000", "reason_name": null,
      "tx_bytes": 67108864, "rx_bytes": 512, "tcp_bytes": 0, "ino": 12345, "uid": 1000,
      "processes": [{"pid": 900, "name": "curl"}],
      "lgr": "0x1", "dev": "rxe0", "link": 0
    },
    {
      "role": "server", "mode": "tcp", "proto": "smc", "state": "tcp",
      "local": "[2001:db8:0:0:0:0:0:2]:80", "peer": "[2001:db8:0:0:0:0:0:1]:1234",
      "reason": "0x03010000", "reason_name": "peer-did-not-indicate-SMC",
      "tx_bytes": 0, "rx_bytes": 0, "tcp_bytes": 2048, "ino": 12346, "uid": 0,
      "processes": [{"pid": 31, "name": "nginx"}],
      "lgr": null, "dev": null, "link": null, "cpu": 1
    },
    {
      "role": "server", "mode": "listen", "proto": "smc", "state": "listen",
      "local": "[0:0:0:0:0:0:0:0]:80", "peer": "[0:0:0:0:0:0:0:0]:0",
      "reason": "0x00000000", "reason_name": null,
      "tx_bytes": 0, "rx_bytes": 0, "tcp_bytes": 0, "ino": 12347, "uid": 0,
      "processes": [{"pid": 30, "name": "nginx"}, {"pid": 31, "name": "nginx"}],
      "lgr": null, "dev": null, "link": null
    }
  ],
  "link_groups": [
    {
      "lgr": "0x1", "role": "client", "version": 1, "peer": null,
      "peer_gid": "0:0:0:0:0:ffff:c000:202", "dev": "rxe0", "state": "active", "link": 1,
      "type": "single", "conns": 1, "rmbs": 2, "write_bytes": 67108864, "qpn": "0x11",
      "peer_qpn": "0x12", "port": 1, "send_wr": 48, "recv_wr": 128, "posts": 1030, "wrs": 2060,
      "cqes": 33, "recvs": 12, "uid": "0x5", "peer_uid": "0x6"
    }
  ],
  "counters": {
    "smc_clnt_conns": 3, "smc_srv_conns": 1, "fallback_clnt": 0, "fallback_srv": 1,
    "tx_bytes": 67108864, "rx_bytes": 512, "tcp_payload_bytes": 2048, "active_conns": 1,
    "link_groups": 1, "groups_ended": 1, "link_down_device_removed": 1, "sdp_clnt_conns": 0,
    "sdp_tx_bytes": 0, "sdp_rx_bytes": 0
  },
  "fallback_reasons": [
    {"proto": "smc", "code": "0x03010000", "name": "peer did not indicate SMC", "count": 1},
    {"proto": "sdp", "code": "0x7f000108", "name": "peer host has no SDP", "count": 4}
  ],
  "aborted_reasons": [
    {"proto": "smc", "code": "0x7f000005", "name": "timeout waiting for a CLC message", "count": 2}
  ]
}
"#;
