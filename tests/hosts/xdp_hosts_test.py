#!/usr/bin/env python3
"""`braid run --hosts --wire af_xdp`: four network namespaces joined by a bridge are the hosts, with an sshd in each, whose traffic
goes over the same interfaces.

    xdp_hosts_test.py BIN [unittest's options]

Needs root, ip (iproute2), ethtool, ssh and sshd; exit status 77 where they are missing.
"""

import json
import shutil
import subprocess
import sys
import unittest

from network import do, missing_xdp
from runs import finish, wait_until
from ssh_network import SshHostsTest, missing

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
HOSTS = 4
MOST_SECONDS_TO_END = 10
OUTAGE_SECONDS = 2


class XdpHosts(SshHostsTest):
    binaries = BIN
    count = HOSTS

    def setUp(self):
        super().setUp()
        self.names += ["--bind", "none", "--compute", "1", "--wire", "af_xdp"]

    def programs(self):
        """On how many hosts the interface has an XDP program."""
        return sum("prog/xdp" in self.network.inside(host, "ip", "link", "show", "dev", "eth0").stdout for host in self.network.hosts)

    def expect_nothing_left(self):
        left = lambda: self.network.left("jacobi", "braidd", "braid-node")
        self.assertTrue(wait_until(lambda: not left(), MOST_SECONDS_TO_END), f"left: {left()}")
        self.assertEqual(self.programs(), 0, "a program is left at an interface")

    def refusal(self, *arguments):
        run = self.braid.run(*arguments, self.braid.application("jacobi"), "--size", "64", "--iterations", "1")
        self.assertNotEqual(run.returncode, 0, run.stdout)
        return run.stderr

    def test_programs_are_verified_and_sealed(self):
        for program, *arguments in (("jacobi", "--size", "256"), ("fft",), ("tsp", "--cities", "9")):
            with self.subTest(program):
                run = self.braid.run(*self.names, self.braid.application(program), *arguments)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn("verified", run.stdout)
                self.assertIn("wire af_xdp", run.stderr)
                self.assertIn("packets sealed", run.stderr)
        run = self.braid.run(*self.names, "--loss", "0.01", "--delay", "2", self.braid.application("jacobi"), "--size", "128",
                             "--iterations", "3")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("verified", run.stdout)
        self.expect_nothing_left()

    def test_packets_in_the_queue_of_another_proxy_are_handed_over(self):
        for host in self.network.hosts:
            try:
                self.network.inside(host, "ethtool", "-L", "eth0", "rx", "2", "tx", "2")
            except subprocess.CalledProcessError as refused:
                self.skipTest(f"no veth of two queues: {refused.stderr}")
        report = self.folder / "report.json"
        run = self.braid.run(*self.names, "--proxies", "2", "--report", str(report), self.braid.application("jacobi"), "--size", "256")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("verified", run.stdout)
        # A bridge sends by one queue, so all packets come by the first.
        for cluster in json.loads(report.read_text())["clusters"]:
            self.assertGreater(cluster["proxies"][0]["misdirected"], 0)
            self.assertGreater(cluster["proxies"][1]["packets_received"], 0)
        self.expect_nothing_left()

    def test_the_kernel_keeps_its_traffic_and_outages_are_outlived(self):
        run = self.endless()
        self.assertEqual(self.programs(), HOSTS)
        host = self.network.hosts[0]
        self.network.inside(host, "ping", "-c", "2", "-i", "0.2", "-W", "5", self.network.address(2))
        shell = do("ip", "netns", "exec", self.network.command, *self.network.ssh.split(), "node1", "echo", "here").stdout
        self.assertEqual(shell, "here\n")
        self.network.inside(host, "ip", "link", "set", "eth0", "down")
        self.assertFalse(wait_until(lambda: not self.network.runs_in(host, "jacobi"), OUTAGE_SECONDS))
        self.network.inside(host, "ip", "link", "set", "eth0", "up")
        packets = lambda: int(self.network.inside(host, "cat", "/sys/class/net/eth0/statistics/rx_packets").stdout)
        before = packets()
        self.assertTrue(wait_until(lambda: packets() > before + 1000), "the run does not go on")
        run.terminate()
        finish(run)
        self.assertEqual(run.returncode, 128 + 15)
        self.expect_nothing_left()

    def test_a_killed_daemon_leaves_no_program(self):
        run = self.endless()
        self.network.kill(self.network.hosts[1], "braidd")
        _, err = finish(run)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("node2", err)
        self.expect_nothing_left()
        again = self.braid.run(*self.names, "--quiet", self.braid.application("jacobi"), "--size", "64", "--iterations", "1")
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_refusals(self):
        self.assertIn("--wire af_xdp: is for --hosts or --hostfile, and neither is given; on one host take shm or udp",
                      self.refusal("--wire", "af_xdp"))
        self.assertIn("--wire af_xdp: node1 has 2 clusters, and an interface serves one; give --per-host 1, or take udp",
                      self.refusal(*self.names, "--per-host", "2"))
        self.assertIn("the hosts have addresses of the loopback network, which is no Ethernet; take udp",
                      self.refusal("--hosts", "127.0.0.1,127.0.0.2", "--wire", "af_xdp"))
        self.assertIn("--fragmentation: ip is not possible over AF_XDP", self.refusal(*self.names, "--fragmentation", "ip"))
        self.assertIn("9000 is too long for wire af_xdp", self.refusal(*self.names, "--mtu", "9000"))
        self.assertIn("takes packets of 1500", self.refusal(*self.names, "--mtu", "2000"))
        self.network.inside(self.network.hosts[2], "ethtool", "-L", "eth0", "rx", "1", "tx", "1")
        self.assertIn("eth0 has one queue and 2 proxies need one each", self.refusal(*self.names, "--proxies", "2"))


if __name__ == "__main__":
    reason = missing() or missing_xdp() or ("" if shutil.which("ethtool") else "ethtool is not installed")
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
