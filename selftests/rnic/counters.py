#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Counters of a device, and what `rdma resource` shows of its objects.

Covers RNIC-STAT-01, RNIC-QPS-06, RNIC-PSN-06, RNIC-NET-02, RNIC-RUN-03.
"""

import json
import pathlib
import sys

import ktap
import rsoft
import topology
import user
from ktap import equal
from topology import all_gone, command, exchange, expect_smc, pair, until

FOLDER = pathlib.Path("/sys/class/infiniband/rs_b/ports/1/hw_counters")
# What rdma_rxe has, too.
KNOWN = {"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_rnr_err",
         "send_rnr_err", "rcvd_seq_err", "retry_exceeded_err", "retry_rnr_exceeded_err",
         "completer_retry_err", "send_err", "link_downed", "rdma_sends", "rdma_recvs", "sent_bytes",
         "rcvd_bytes"}
# What the device has beside these, and beside the reasons to drop a packet.
OWN = {"sent_runs", "rcvd_runs", "direct_pkts", "direct_bytes", "direct_runs", "direct_proofs",
       "direct_refused", "inline_posts", "queued_posts", "ksoftirqd_wakes", "qp_runs",
       "local_ack_timeout_err", "implied_nak_seq_err", "rcvd_nak_invalid", "rcvd_nak_access",
       "rcvd_nak_operation", "send_nak_sequence", "send_nak_invalid", "send_nak_access",
       "send_nak_operation", "duplicate_answer", "ghost_answer", "rx_icrc_encapsulated"}
# Refusals of the case `reasons` of user_rings.
REFUSALS = {"invalid": 1, "access": 2, "operation": 1}


def resources(kind, device):
    """The objects of a device of one kind."""
    # Queue pairs belong to a port, the others to the device.
    of = ("link", device + "/1") if kind == "qp" else ("dev", device)
    return json.loads(command("rdma", "-j", "resource", "show", kind, *of))


def connected(device):
    """The connected queue pairs of a device."""
    return [pair for pair in resources("qp", device) if pair["type"] == "RC"]


def agree():
    """Whether each side has received what the other one has sent."""
    left, right = rsoft.counters("rs_a"), rsoft.counters("rs_b")
    return all(one[sent] == other[received]
               for one, other in ((left, right), (right, left))
               for sent, received in (("sent_pkts", "rcvd_pkts"), ("sent_bytes", "rcvd_bytes"),
                                      ("rdma_sends", "rdma_recvs")))


def counters_have_known_names():
    """Those of rdma_rxe, and one for each reason to drop a packet; all begin with 0."""
    found = rsoft.counters()
    names = {file.name for file in FOLDER.iterdir()} - {"lifespan"}
    drops = {name for name in names if name.startswith("drop_")}
    equal(names - drops, KNOWN | OWN, "counters")
    equal(names - set(found), set(), "counters that the command lacks")
    equal("drop_inbox_full" in drops, True, "a counter of full inboxes")
    equal({name: found[name] for name in found if name.startswith("drop_") and found[name]}, {},
          "packets that were dropped")
    equal(rsoft.counter("sent_pkts"), found["sent_pkts"], "the file and the command")


def both_sides_count_the_same():
    """Packets, octets and messages of a connection, without a loss."""
    before = rsoft.counters()
    client, server = pair()
    with client, server:
        expect_smc(client, server)
        exchange(client, server, 500000)
        until(agree, "equal counters of both sides")
        now = rsoft.counters()
        # All octets of payload, and headers of at least 44 octets a packet.
        grown = now["rcvd_bytes"] - before["rcvd_bytes"]
        packets = now["rcvd_pkts"] - before["rcvd_pkts"]
        equal(grown >= 500000 + 44 * packets, True, "%d octets of %d packets" % (grown, packets))
        for name in "rx_icrc_encapsulated", "send_err":
            equal(now[name], 0, name)
        # On a busy machine an acknowledgement may be late: then this side may have a packet twice. And a
        # processor that sends in place of another may overtake it: then this side asks again.
        there = rsoft.counters("rs_a")
        repeats, twice = there["completer_retry_err"], now["duplicate_request"]
        asked, gaps = there["rcvd_seq_err"], now["out_of_seq_request"]
        equal(repeats + asked > 0 or twice == 0, True, "%d packets twice" % twice)
        equal(asked > 0 or gaps == 0, True, "%d gaps" % gaps)
    all_gone()


def posts_of_handlers_are_counted():
    """They wait until the handler ends."""
    def queued():
        return sum(rsoft.counters(device)["queued_posts"] for device in ("rs_a", "rs_b"))

    before = queued()
    client, server = pair()
    with client, server:
        expect_smc(client, server)
        exchange(client, server, 100000)
        equal(queued() > before, True, "posts that waited")
    all_gone()


def doorbells_run_the_queue_pair_at_once():
    """Those of a program in user space, which holds no locks of the kernel."""
    before = rsoft.counters("rs_a")
    user.rings("bystander")
    now = rsoft.counters("rs_a")
    # The program rings one doorbell for each of its requests.
    grown = {name: now[name] - before[name] for name in ("inline_posts", "rdma_sends")}
    equal(grown["inline_posts"] >= grown["rdma_sends"] > 0, True, str(grown))


def posts_with_interrupts_off_wake_ksoftirqd():
    """Datagrams of the connection manager: the kernel holds a lock when it posts them."""
    def woken():
        return sum(rsoft.counter("ksoftirqd_wakes", device) for device in ("rs_a", "rs_b"))

    before = woken()
    user.ping("4")
    until(lambda: woken() > before, "posts that woke ksoftirqd")


def refusals_are_counted_by_their_codes():
    """On both sides, for requests that differ in what is wrong with them."""
    names = [("rs_a", "rcvd_nak_" + code) for code in REFUSALS]
    names += [("rs_b", "send_nak_" + code) for code in REFUSALS]
    names.append(("rs_a", "retry_rnr_exceeded_err"))
    before = {(device, name): rsoft.counters(device)[name] for device, name in names}
    user.rings("reasons")
    wanted = {(device, name): before[device, name] + REFUSALS.get(name.rsplit("_", 1)[1], 1)
              for device, name in names}
    until(lambda: {(device, name): rsoft.counter(name, device) for device, name in names} == wanted,
          "counters %s" % wanted)


def resources_show_the_connection():
    """Each side's queue pair names the other one; keys, queues and domains are listed."""
    client, server = pair()
    with client, server:
        expect_smc(client, server)
        left, right = connected("rs_a"), connected("rs_b")
        equal([one["state"] for one in left + right], ["RTS"] * (len(left) + len(right)), "states")
        equal({one["lqpn"] for one in left}, {one["rqpn"] for one in right}, "numbers of a")
        equal({one["lqpn"] for one in right}, {one["rqpn"] for one in left}, "numbers of b")
        before = {one["lqpn"]: one["sq-psn"] for one in left}
        exchange(client, server, 10000)
        equal(any(one["sq-psn"] != before[one["lqpn"]] for one in connected("rs_a")), True,
              "sequence numbers go on")
        for kind in "cq", "mr", "pd":
            equal(len(resources(kind, "rs_a")) > 0, True, kind)
    all_gone()


def losses_are_counted():
    """The sender repeats packets; the receiver sees gaps."""
    def counts():
        return [sum(rsoft.counter(name, device) for device in ("rs_a", "rs_b"))
                for name in ("completer_retry_err", "out_of_seq_request", "send_nak_sequence")]

    client, server = pair()
    with client, server:
        expect_smc(client, server)
        before = counts()

        def counted():
            exchange(client, server, 1000000)
            return all(now > then for now, then in zip(counts(), before))
        with rsoft.losses(3):
            until(counted, "counters of losses", 10 * topology.BOUND)
        equal(rsoft.counter("retry_exceeded_err"), 0, "requests that failed")
    all_gone()


def dead_peer_is_counted():
    """Requests to a device that does not answer fail after their last repetition."""
    client, server = pair()
    with client, server:
        expect_smc(client, server)
        exchange(client, server, 1000)
        command("tc", "-n", "rs-b", "qdisc", "add", "dev", "vb", "root", "netem", "loss", "100%")
        try:
            topology.error_of(server.send, bytes(1000))
            until(lambda: rsoft.counter("retry_exceeded_err") > 0, "requests that failed")
        finally:
            command("tc", "-n", "rs-b", "qdisc", "delete", "dev", "vb", "root")
    all_gone()


def port_that_goes_down_is_counted():
    """Each time that a port has no carrier."""
    with rsoft.counted("link_downed", 1, "rs_a"):
        command("ip", "-n", "rs-a", "link", "set", "va", "down")
    command("ip", "-n", "rs-a", "link", "set", "va", "up")


def main():
    """Runs the tests with devices of rdma_soft."""
    topology.need_module()
    rsoft.load("2", direct=False)
    # The stack drops what waits for a busy processor beyond this number of packets.
    backlog = command("sysctl", "-n", "net.core.netdev_max_backlog").strip()
    command("sysctl", "-qw", "net.core.netdev_max_backlog=10000")
    try:
        topology.netns("up")
        for name in "ib_uverbs", "rdma_ucm":
            command("modprobe", name, check=False)
        return ktap.run([counters_have_known_names, both_sides_count_the_same, posts_of_handlers_are_counted,
                         doorbells_run_the_queue_pair_at_once, posts_with_interrupts_off_wake_ksoftirqd,
                         refusals_are_counted_by_their_codes, resources_show_the_connection,
                         losses_are_counted, dead_peer_is_counted, port_that_goes_down_is_counted])
    finally:
        command("sysctl", "-qw", "net.core.netdev_max_backlog=" + backlog)
        rsoft.unload()


if __name__ == "__main__":
    sys.exit(main())
