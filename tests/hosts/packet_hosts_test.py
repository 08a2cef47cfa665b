#!/usr/bin/env python3
"""`braid run --hosts --wire af_packet`: see interface_hosts.py.

    packet_hosts_test.py BIN [unittest's options]

Needs root, ip (iproute2), ssh and sshd; exit status 77 where they are missing.
"""

import os
import sys
import unittest

import interface_hosts
from interface_hosts import HOSTS
from ssh_network import missing

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
# On a link of its own, which the heartbeat does not use, the program's wire outlives more.
OUTAGE_SECONDS = float(os.environ.get("BRAID_OUTAGE_SECONDS", "3"))


class PacketHosts(interface_hosts.InterfaceHosts):
    binaries = BIN
    wire = "af_packet"

    def test_clusters_of_a_host_share_its_interface(self):
        proxies = self.expect_verified("--per-host", "2", "--proxies", "2", self.braid.application("jacobi"), "--size", "256")
        self.assertEqual([proxy["misdirected"] for proxy in proxies], [0] * 16)
        self.assertTrue(all(proxy["packets_received"] for proxy in proxies))
        self.expect_nothing_left()

    def test_a_link_of_the_wire_alone_is_down_for_long(self):
        """Beside the network by which hosts are reached."""
        # On one bridge a host's interfaces would answer by ARP for each other.
        self.network.add_bridge("bridge1")
        for i, host in enumerate(self.network.hosts, 1):
            self.network.add_interface(host, f"data{i}", "eth1", f"10.78.0.{i}", "bridge1")
        (self.folder / "hosts").write_text(
            "".join(f"- {{host: node{i}, addresses: [10.78.0.{i}]}}\n" for i in range(1, HOSTS + 1)))
        run = self.endless("--peer-death", str(round(1000 * (OUTAGE_SECONDS + 10))))
        self.expect_outlived(run, "eth1", OUTAGE_SECONDS)

    def test_refusals(self):
        self.common_refusals()


if __name__ == "__main__":
    if reason := missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
