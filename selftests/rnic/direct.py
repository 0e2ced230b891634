#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Packets between two devices of one kernel that leave out the network: where they may, and where not.

Covers RNIC-GEN-05, RNIC-DIR-01, RNIC-DIR-04, RNIC-DIR-06, RNIC-DIR-07, RNIC-DIR-08, RNIC-DIR-09,
RNIC-SEC-11.
"""

import contextlib
import json
import pathlib
import subprocess
import sys
import time

import ktap
import rsoft
import topology
import user
from ktap import equal
from topology import Child, all_gone, command, exchange, expect_smc, known, pair, receive, until

SIZE = 1 << 20
# A namespace with the addresses of side a that has no way to side b, and one at its other end.
STRANGERS = {"c": ("vc", "10.9.0.1"), "d": ("vd", "10.9.0.2")}
# Seconds until no way is proven any longer.
RECHECK = 1.0
# Seconds for a way to be proven. Each attempt that fails on a busy machine doubles the pause to the next one,
# up to 64 s.
PROOF = 200
PARAMETER = pathlib.Path("/sys/module/rdma_soft/parameters/direct")


def count(name):
    """A counter of both devices together."""
    return sum(rsoft.counters("rs_" + side)[name] for side in "ab")


def frames(side):
    """Packets that the network device of a side has sent."""
    shown, = json.loads(command("ip", "-n", "rs-" + side, "-j", "-s", "link", "show", "v" + side))
    return shown["stats64"]["tx"]["packets"]


def is_proven(client, server):
    """Exchanges data: whether those of both directions leave out the network. A way that takes longer than
    20 ms is not proven, and is tried again after a second at the earliest."""
    before = [rsoft.counters("rs_" + side)["direct_bytes"] for side in "ab"]
    exchange(client, server, 50000)
    return all(rsoft.counters("rs_" + side)["direct_bytes"] - was >= 50000
               for side, was in zip("ab", before))


@contextlib.contextmanager
def connection(direct=True):
    """A connection; if `direct`, its devices have proven the way to each other."""
    client, server = pair()
    with client, server:
        expect_smc(client, server)
        exchange(client, server, 100000)
        if direct:
            until(lambda: is_proven(client, server), "a proven way", PROOF)
        yield client, server


def data_leave_out_the_network():
    """Octets pass unchanged; a few packets a second prove the way, and those of TCP set it up."""
    with connection() as (client, server):
        while True:
            refused, begin = count("direct_refused"), time.monotonic()
            network, octets, packets = frames("a") + frames("b"), count("direct_bytes"), count("direct_pkts")
            runs = count("direct_runs")
            exchange(client, server, SIZE)
            if count("direct_refused") == refused:
                break
            until(lambda: is_proven(client, server), "a way that is proven again")
        equal(count("direct_bytes") - octets >= 2 * SIZE, True, "octets that left out the network")
        # A run has 64 packets at most.
        runs = count("direct_runs") - runs
        equal(runs >= 2 * SIZE // (64 * 4096), True, "%d runs that the receiver copied" % runs)
        passed = frames("a") + frames("b") - network
        most = (count("direct_pkts") - packets) / 10 + 20 * (1 + time.monotonic() - begin)
        equal(passed <= most, True, "%d packets of the network" % passed)
        equal(count("direct_proofs") >= 2, True, "ways that were proven")
    all_gone()


def way_is_proven_again_each_second():
    """A proof holds for a second, and a new one follows with the next packet."""
    with connection() as (client, server):
        before, begin = count("direct_proofs"), time.monotonic()
        # Of a busy machine a proof may come too late.
        while (time.monotonic() < begin + 3 * RECHECK + 0.5 or
               count("direct_proofs") - before < 3 and time.monotonic() < begin + topology.BOUND):
            client.sendall(b"ping")
            equal(receive(server, 4), b"ping", "data")
            server.sendall(b"pong")
            equal(receive(client, 4), b"pong", "data")
        proofs, seconds = count("direct_proofs") - before, time.monotonic() - begin
        equal(3 <= proofs <= 2 * (seconds / RECHECK + 1), True, "%d proofs in %.1f s" % (proofs, seconds))
    all_gone()


@contextlib.contextmanager
def traffic():
    """Data from a to b without end, for the block."""
    with connection() as (client, server):
        def send():
            server.close()
            with contextlib.suppress(OSError):
                while True:
                    client.sendall(known("stream", 65536))

        def read():
            client.close()
            with contextlib.suppress(OSError):
                while server.recv(65536):
                    pass
        children = [Child(send), Child(read)]
        try:
            before = count("direct_pkts")
            until(lambda: count("direct_pkts") > before + 100, "traffic")
            yield
        finally:
            for child in children:
                child.give_up()


def expect_silence(devices):
    """Fails if one of the devices sends packets past the network within half a second."""
    def sent():
        return [rsoft.counters(device)["direct_pkts"] for device in devices]

    before = sent()
    time.sleep(0.5)
    equal(sent(), before, "packets that left out the network")


def filter_stops_data_within_a_second():
    """Packets that a rule of nftables drops arrive no longer than a proof holds."""
    with traffic():
        with rsoft.rule("ip", "udp dport 4791 drop"):
            time.sleep(RECHECK + 0.3)
            # What b sends still arrives.
            expect_silence(["rs_a"])
            equal(count("direct_refused") > 0, True, "attempts to prove the way")
    all_gone()


def pulled_cable_stops_data_at_once():
    """A network device that goes down ends the proof."""
    with traffic():
        command("ip", "-n", "rs-a", "link", "set", "va", "down")
        expect_silence(["rs_a", "rs_b"])
    topology.netns("up")


def slow_network_keeps_the_data():
    """A packet that takes long proves nothing: all packets take the network, in order."""
    topology.netns("up")
    words = ("qdisc", "add", "dev", "va", "root", "netem", "delay", "60ms")
    command("tc", "-n", "rs-a", *words)
    client, server = pair()
    with client, server:
        expect_smc(client, server)
        exchange(client, server, 100000)
        found = rsoft.counters("rs_a")
        equal(found["direct_pkts"], 0, "packets of a that left out the network")
        equal(found["direct_refused"] > 0, True, "attempts to prove the way")
    command("tc", "-n", "rs-a", "qdisc", "delete", "dev", "va", "root")
    all_gone()


def program_of_user_space_uses_it():
    """A queue pair of user space leaves out the network, too."""
    topology.netns("up")
    until(lambda: grows_by_rings("bystander") > 20, "packets that left out the network")


def grows_by_rings(case):
    """Packets that leave out the network in a case of the program of user space."""
    before = count("direct_pkts")
    user.rings(case)
    return count("direct_pkts") - before


def queue_pair_is_its_own_peer():
    """Its packets come back past the network, and no run of it begins within another."""
    until(lambda: grows_by_rings("itself") > 200, "packets that left out the network")


def soon_asked():
    """How many of 6 messages arrive before the time that their receiver, which has no request, asks for."""
    return int(user.rings("soon asked"))


def receiver_without_a_request_is_asked_soon():
    """As a repetition costs no packet (RNIC-DIR-10). The first one may prove the way."""
    soon = soon_asked()
    equal(soon > 0, True, "%d messages that arrived soon" % soon)


def strangers(word):
    """Makes or removes the namespaces of the strangers."""
    for side in STRANGERS:
        command("rdma", "link", "delete", "rs_" + side, check=False)
        command("ip", "netns", "delete", "rs-" + side, check=False)
    if word == "down":
        return
    for side in STRANGERS:
        command("ip", "netns", "add", "rs-" + side)
    command("ip", "link", "add", "vc", "netns", "rs-c", "type", "veth", "peer", "name", "vd", "netns", "rs-d")
    for side, (netdev, address) in STRANGERS.items():
        command("ip", "-n", "rs-" + side, "address", "add", address + "/24", "dev", netdev)
        command("ip", "-n", "rs-" + side, "link", "set", netdev, "up")
        command("ip", "netns", "exec", "rs-" + side, "rdma", "link", "add", "rs_" + side, "type", "rsoft",
                "netdev", netdev)
        user.ADDRESSES["4"][side] = address
        topology.await_gid("rs_" + side, address)


def container_with_the_same_addresses_reaches_its_own_network_only():
    """A queue pair with the addresses of side a, and all numbers right, in a namespace without a way to
    side b: its packets go where its network leads, and nowhere else."""
    topology.netns("up")
    strangers("up")
    try:
        dropped = rsoft.counters("rs_b")["drop_netdev"]
        with subprocess.Popen(["ip", "netns", "exec", "rs-c", user.RINGS, "rs_c", user.gid_index("c"), "rs_b",
                               user.gid_index("b"), "isolated"],
                              stdout=subprocess.PIPE, text=True) as running:
            said, _ = running.communicate(timeout=2 * topology.BOUND)
        equal(running.returncode, 0, said)
        found = rsoft.counters("rs_c")
        equal(found["direct_pkts"], 0, "packets of the stranger that left out the network")
        equal(found["direct_refused"] > 0, True, "attempts of the stranger to prove the way")
        equal(rsoft.counters("rs_b")["drop_netdev"] > dropped, True, "packets that arrived elsewhere")
    finally:
        strangers("down")


def devices_have_version(version):
    """Makes devices with one version of RoCE."""
    rsoft.unload()
    rsoft.load(version)
    topology.netns("up")


def switch_leaves_all_to_the_network():
    """With direct=0 nothing leaves out the network."""
    rsoft.unload()
    rsoft.load("2", direct=False)
    topology.netns("up")
    with connection(direct=False) as (client, server):
        exchange(client, server, SIZE)
        for name in "direct_pkts", "direct_bytes", "direct_proofs", "direct_refused":
            equal(count(name), 0, name)
    all_gone()
    equal(soon_asked(), 0, "messages that arrived before the time of the receiver")


def switch_takes_effect_under_traffic():
    """The parameter of the module may change at any time."""
    with traffic():
        PARAMETER.write_text("0", encoding="ascii")
        try:
            expect_silence(["rs_a", "rs_b"])
        finally:
            PARAMETER.write_text("1", encoding="ascii")
        before = count("direct_pkts")
        until(lambda: count("direct_pkts") > before + 1000, "packets that leave out the network")
    all_gone()


def case_ends_alike(case):
    """A case of the program of user space, which checks all its completions, without the direct path.
    `user.py` runs it with that."""
    equal(grows_by_rings(case), 0, "packets that left out the network")


def main():
    """Runs the tests with devices of rdma_soft."""
    topology.need_module()
    for name in "ib_uverbs", "rdma_ucm":
        command("modprobe", name, check=False)
    tests = []
    for version in "12":
        for function, *arguments in ((devices_have_version, version), (data_leave_out_the_network,),
                                     (way_is_proven_again_each_second,),
                                     (pulled_cable_stops_data_at_once,), (slow_network_keeps_the_data,)):
            tests.append(ktap.named("RoCE v%s: %s" % (version, function.__name__), function, *arguments))
    tests += [filter_stops_data_within_a_second, switch_takes_effect_under_traffic, program_of_user_space_uses_it,
              queue_pair_is_its_own_peer, receiver_without_a_request_is_asked_soon,
              container_with_the_same_addresses_reaches_its_own_network_only, switch_leaves_all_to_the_network]
    tests += [ktap.named("direct=0: " + case, case_ends_alike, case) for case in user.CASES]
    rsoft.load()
    return rsoft.run(tests)


if __name__ == "__main__":
    sys.exit(main())
