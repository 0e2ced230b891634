// SPDX-License-Identifier: GPL-2.0

//! What each reason for TCP means, and what an administrator can do about it.
//!
//! The reasons are those of the module's own table. A test checks that each of them is here.

use crate::snapshot::reason::{
    LocalReason,
    LocalReason as Local,
    Reason, //
};

/// The words for a reason.
#[derive(Debug)]
pub(super) struct Words {
    /// The reason.
    pub(super) reason: Reason,
    /// What happened.
    pub(super) meaning: &'static str,
    /// What to check or change, the likeliest first.
    pub(super) advice: &'static [&'static str],
}

/// The words for codes of the peer that this version does not know.
pub(super) const UNKNOWN: Words = Words {
    reason: Reason::Unknown(0),
    meaning: "The peer sent this code, which this version does not know.",
    advice: &["Look the code up in the documents of the peer's implementation."],
};

/// The words for a code.
pub(super) fn find(code: u32) -> &'static Words {
    let reason = Reason::from_stored(code);
    TABLE
        .iter()
        .find(|words| words.reason == reason)
        .unwrap_or(&UNKNOWN)
}

const fn words(reason: Reason, meaning: &'static str, advice: &'static [&'static str]) -> Words {
    Words {
        reason,
        meaning,
        advice,
    }
}

const fn local(
    reason: LocalReason,
    meaning: &'static str,
    advice: &'static [&'static str],
) -> Words {
    words(Reason::Local(reason), meaning, advice)
}

/// Advice that several reasons share.
const REPORT: &str = "Report it with the lines of the kernel log around that moment (`dmesg`).";
const UPDATE_PEER: &str = "Update the SMC implementation of the peer.";
const SMCD: &str = "The peer speaks of SMC-D, which needs a mainframe. Offer it SMC-R.";
const PATH_4791: &str =
    "Let UDP port 4791 (RoCE v2) through every firewall on the path: `rdma-sock doctor` checks \
     this host.";
const PATH_MTU: &str =
    "Check that packets as long as the RDMA MTU pass: `ping -M do -s 4168 PEER` for an MTU of 4096.";
const MEMORY: &str =
    "Compare `buffer_bytes` of `rdma-sock status` with `sysctl net.smc.smcr_max_kbytes` and \
     `net.smc.smcr_host_max_kbytes`, and raise the limit that is reached.";
const ROUTE_DEVICE: &str =
    "Find the network device of the route (`ip route get PEER`). It needs an active RDMA device in \
     this network namespace: `rdma-sock status` shows those, `rdma-sock device add NETDEV` makes \
     one in software.";

/// All reasons.
pub(super) const TABLE: &[Words] = &[
    words(
        Reason::Memory,
        "One of the hosts had no memory for buffers or queues, or a limit of it is reached: that of \
         the memory cgroup, of the network namespace or of the host.",
        &[
            MEMORY,
            "Check the limit of the program's memory cgroup (`memory.max`): buffers take half of \
             it at most.",
        ],
    ),
    words(
        Reason::TimeoutConfirmLink,
        "The two hosts agreed on RDMA over TCP, but no RDMA packet of the peer arrived.",
        &[PATH_4791, PATH_MTU, "Check that both RDMA ports are active: `rdma link show`."],
    ),
    words(
        Reason::TimeoutAddLink,
        "The first link works, but the peer did not answer when a second one was set up.",
        &[PATH_4791, PATH_MTU],
    ),
    words(
        Reason::Configuration,
        "The peer has buffers beyond 512 KiB with version 1 or an MTU that is reserved, or it has a \
         reason that it does not send.",
        &["Look at the reason on the peer: `rdma-sock status` there, or `smcss -a`."],
    ),
    words(
        Reason::PeerNoSmc,
        "The TCP handshake of the peer did not offer SMC-R. The peer has no SMC-R, does not use it \
         for that program, or a device in between removed the TCP option.",
        &[
            "Load the module on the peer: `rdma-sock status` there.",
            "Give the program of the peer sockets of SMC-R: `rdma-sock accel on --comm NAME` or \
             `rdma-sock run` there. Restart it, as existing sockets stay TCP.",
            "Look for the option in SYN and SYN-ACK on both hosts: `tcpdump 'tcp[tcpflags] & \
             tcp-syn != 0'` shows `exp-e2d4`. If only one host sees it, a firewall or load \
             balancer removes TCP option 254.",
        ],
    ),
    words(
        Reason::Ipsec,
        "IPsec protects the path, or TCP signs the segments (MD5 or AO). RDMA would go around it.",
        &["Nothing is wrong. For RDMA, exempt this traffic from the policy (`ip xfrm policy`)."],
    ),
    words(
        Reason::NoSmcDevice,
        "The peer found no device for SMC. The C implementation says so on soft-RoCE if the hosts \
         have no enterprise identifier in common.",
        &[
            "Give both hosts the same enterprise identifier: `echo NAME >\
             /proc/net/rdma_sock/ueids` here, `smcr ueid add NAME` there.",
            "Check the RDMA devices of the peer: `rdma link show` there.",
        ],
    ),
    words(Reason::NoSmcdDevice, "The peer has no device for SMC-D.", &[SMCD]),
    words(
        Reason::NoSmcrDevice,
        "This host or the peer has no active RDMA port on the network device of the route.",
        &[
            ROUTE_DEVICE,
            "A VLAN uses the RDMA device of the interface below it. A bridge or veth does not use \
             that of another interface.",
        ],
    ),
    words(Reason::NoIsmV2, "The hardware of the peer has no SMC-Dv2.", &[SMCD]),
    words(
        Reason::NoV2Extension,
        "The peer offers only version 2 of SMC, and leaves out how.",
        &[UPDATE_PEER],
    ),
    words(Reason::NoV2dExtension, "The peer misses data of SMC-Dv2.", &[SMCD]),
    words(Reason::NoSeid, "The peer misses a system identifier of SMC-D.", &[SMCD]),
    words(Reason::NoSmcdV2Device, "The peer has no device for SMC-Dv2.", &[SMCD]),
    words(
        Reason::NoUeid,
        "The hosts are in different IP subnets, which needs version 2 of SMC, and they have no \
         enterprise identifier in common.",
        &["Write the same identifier on both hosts: `echo NAME >/proc/net/rdma_sock/ueids`."],
    ),
    words(
        Reason::ReleaseError,
        "The hosts could not agree on a release of version 2 of SMC.",
        &[UPDATE_PEER],
    ),
    words(
        Reason::MaxConnectionsError,
        "The hosts could not agree on the number of connections of a link group, or the group has \
         no place for another one.",
        &["Compare `sysctl net.smc.smcr_max_conns_per_lgr` of both hosts: 16 to 255."],
    ),
    words(
        Reason::MaxLinksError,
        "The hosts could not agree on the number of links of a link group.",
        &["Compare `sysctl net.smc.smcr_max_links_per_lgr` of both hosts; `smc.ko` takes 1 or 2."],
    ),
    words(
        Reason::ModeUnsupported,
        "The peer offers no SMC-R, but SMC-D only.",
        &["Give the peer an RDMA device on the network device of the route."],
    ),
    words(
        Reason::RmbeEyeCatcher,
        "The peer declines buffers with eye catchers, and this module's buffers have none.",
        &[UPDATE_PEER],
    ),
    words(
        Reason::OptionUnsupported,
        "The program asked for TCP fast open, or its socket is being restored (TCP_REPAIR).",
        &["Turn fast open off in the program, if RDMA matters more."],
    ),
    words(
        Reason::DifferentPrefix,
        "Client and server are not in one IP subnet, and the hosts do not use version 2 of SMC.",
        &[
            "Write the same enterprise identifier on both hosts, which allows version 2: `echo NAME \
             >/proc/net/rdma_sock/ueids`.",
            "Or put both addresses into one subnet, with the same prefix length.",
        ],
    ),
    words(
        Reason::VlanLookup,
        "The peer could not find out the VLAN of the connection.",
        &["Check the VLAN of the network device on the peer (`ip -d link show`)."],
    ),
    words(
        Reason::VlanRegister,
        "The peer could not register the VLAN at its device.",
        &["Check the VLAN of the network device on the peer (`ip -d link show`)."],
    ),
    words(
        Reason::NoActiveLink,
        "The link group died during the handshake, or the peer named a link that it does not have.",
        &[
            "Look for the end of links in the kernel log: `dmesg | grep 'link group'`.",
            "Check that the RDMA port stays up: `rdma link show`.",
        ],
    ),
    words(
        Reason::NoServerLink,
        "The peer does not find the link that the server named.",
        &["The next connection makes a new link group. If it comes again, update the peer."],
    ),
    words(
        Reason::VersionMismatch,
        "A message has a version of SMC that the hosts did not agree on.",
        &[UPDATE_PEER],
    ),
    words(
        Reason::MaxBuffers,
        "The peer has no place for another buffer.",
        &["Close connections with this peer, or raise the limits of the peer."],
    ),
    words(
        Reason::NoRoute,
        "There is no next hop to the RDMA address of the client, or it is of the other IP version.",
        &["Check the route to the GID of the peer: `rdma-sock status` there, `ip route get` here."],
    ),
    words(
        Reason::NoIndirectRoute,
        "One host reaches the other through a gateway, and the other does not.",
        &["Compare `ip route get` of both directions, and make both direct or both indirect."],
    ),
    words(
        Reason::OutOfSync,
        "The server meant a link group that the client does not have, for example after a reboot.",
        &["None: the server tests the link and drops the group. Later connections use a new one."],
    ),
    words(
        Reason::PeerDeclined,
        "The peer declined, without a reason.",
        &["Look at the reason on the peer: `rdma-sock status` there, or `smcss -a`."],
    ),
    words(Reason::Internal, "This is a fault of an implementation of SMC.", &[REPORT]),
    words(
        Reason::RtokenTable,
        "The peer has more than 255 buffers in the link group.",
        &["Lower `sysctl net.smc.smcr_max_conns_per_lgr`: further connections use another group."],
    ),
    words(
        Reason::ReadyLink,
        "The RDMA device refused the queue pair, or the two ports cannot reach each other.",
        &[
            "Check that both ports use the same version of RoCE, and have GIDs of the same IP \
             version: `rdma-sock status --json`.",
            "Compare the MTU of both network devices.",
        ],
    ),
    words(
        Reason::RegisterBuffer,
        "The RDMA device of the peer could not register the memory of a buffer.",
        &["Check the limits of the device on the peer: `rdma resource show`."],
    ),
    local(
        Local::OptionEchoed,
        "The SYN-ACK repeats TCP options that it does not know, so its option means nothing.",
        &["Connect around the device in between (firewall, load balancer) that does so."],
    ),
    local(
        Local::OptionNoRoom,
        "The SYN had no room for the TCP option of SMC-R.",
        &["Turn off what fills the TCP header for this connection, such as fast open."],
    ),
    local(
        Local::ClcProtocol,
        "The peer sent bytes that are no handshake of SMC, or a message at the wrong time.",
        &[
            "Check that no proxy in between ends the TCP connection.",
            UPDATE_PEER,
        ],
    ),
    local(
        Local::LinkProtocol,
        "The peer sent a message on the RDMA link that breaks the protocol.",
        &[UPDATE_PEER, REPORT],
    ),
    local(
        Local::ClcTimeout,
        "The peer was silent for 6 seconds in the middle of the handshake.",
        &["Check the load of the peer, and the loss of packets on the path (`nstat`)."],
    ),
    local(
        Local::TcpClosed,
        "The peer closed or reset the TCP connection during the handshake.",
        &["Look at the program of the peer: it may have ended, or have given up waiting."],
    ),
    local(
        Local::Policy,
        "A rule of this host allows only TCP for the connection.",
        &["Look the rules up: `rdma-sock rule list`."],
    ),
    local(
        Local::SdpNotTried,
        "The client of this listener of SDP connected by TCP.",
        &[
            "Give the program of the peer sockets of SDP: `rdma-sock accel on --comm NAME --proto \
             sdp` there. Restart it.",
            "If the peer tried, its own reason says more: `rdma-sock explain` there.",
        ],
    ),
    local(
        Local::SdpUnreachable,
        "There is no RDMA device for the route, no route, or the address is one of this host.",
        &[ROUTE_DEVICE],
    ),
    local(
        Local::SdpSilent,
        "The Port Mapper of the peer did not answer for 150 ms.",
        &[
            "Load the module on the peer.",
            "Let UDP port 3935 (Port Mapper) through every firewall on the path.",
            "For a peer without a Port Mapper: `sysctl net.rdma_sock.sdp_probe=cm`.",
        ],
    ),
    local(
        Local::SdpRefused,
        "The peer refused the connection of SDP.",
        &["Check `sysctl net.rdma_sock.sdp_accept` and `net.rdma_sock.sdp_ports` of the peer."],
    ),
    local(
        Local::SdpTimeout,
        "The peer did not answer to the request of SDP, or to its reply.",
        &[PATH_4791, PATH_MTU],
    ),
    local(
        Local::SdpLinkDown,
        "The RDMA link went down during the set-up, or the peer gave up.",
        &["Check that both RDMA ports stay up: `rdma link show`, and the kernel log."],
    ),
    local(
        Local::SdpHello,
        "The first message of the peer is not valid, or names other addresses than its packets.",
        &["Check that no address translation is in between.", UPDATE_PEER],
    ),
    local(
        Local::SdpAbsent,
        "The peer has no SDP: its Port Mapper said so, or its UDP port 3935 is closed.",
        &[
            "Load the module on the peer.",
            "This host asks again after 10 minutes.",
        ],
    ),
    local(
        Local::SdpNoListener,
        "The peer has SDP, but no listener of SDP on that port.",
        &[
            "Give the server sockets of SDP: `rdma-sock accel on --comm NAME --proto sdp` on the \
             peer. Restart it.",
        ],
    ),
    local(
        Local::SdpStale,
        "The peer took eight new queue pairs for old ones.",
        &["None: it ends when the peer has forgotten its old connections."],
    ),
    local(
        Local::SdpBusy,
        "The peer has too many set-ups under way, or the backlog of its listener is full.",
        &["Raise the backlog of the server (`listen`, `sysctl net.core.somaxconn`) on the peer."],
    ),
    local(
        Local::SdpNotAllowed,
        "The settings of this host do not allow SDP with this peer or port.",
        &[
            "Client: `sysctl net.rdma_sock.sdp_probe` is `none`.",
            "Listener: `sysctl net.rdma_sock.sdp_accept` or `net.rdma_sock.sdp_ports`.",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;
    use std::fs;

    fn all() -> Vec<Reason> {
        let local = LocalReason::ALL.iter().map(|local| Reason::Local(*local));
        Reason::ALL.iter().copied().chain(local).collect()
    }

    #[test]
    fn table_has_each_reason_of_the_module_once() {
        for reason in all() {
            let count = TABLE.iter().filter(|words| words.reason == reason).count();
            assert_eq!(count, 1, "{reason:?}");
            assert_eq!(find(reason.code()).reason, reason);
        }
        assert_eq!(TABLE.len(), all().len());
        assert_eq!(find(0xdead_beef).meaning, UNKNOWN.meaning);
    }

    #[test]
    fn words_are_sentences() {
        for words in TABLE.iter().chain([&UNKNOWN]) {
            assert!(!words.advice.is_empty(), "{:?}", words.reason);
            for text in [words.meaning].iter().chain(words.advice) {
                assert!(text.ends_with('.') || text.ends_with('`'), "{text}");
                assert!(!text.contains("  "), "{text}");
            }
        }
    }

    #[test]
    fn document_of_the_reasons_has_each_code() {
        let document = fs::read_to_string(schema::documentation("reasons.rst")).unwrap();
        // The document abbreviates the four that a peer with SMC-D sends.
        let abbreviated = [
            Reason::NoIsmV2,
            Reason::NoV2dExtension,
            Reason::NoSeid,
            Reason::NoSmcdV2Device,
        ];
        for reason in all() {
            let code = format!("{:#010x}", reason.code());
            let there = document.contains(&code) || abbreviated.contains(&reason);
            assert!(there, "{code} {}", reason.name());
        }
    }
}
