#!/usr/bin/env python3
"""`braid run --hosts` over the OpenSSH client and server: four network namespaces, with one file system, are the hosts. Each has
an sshd; a bridge joins them and the namespace in which the command runs.

    ssh_hosts_test.py BIN [unittest's options]

Needs root, for the namespaces, ip (iproute2), ssh and sshd; exit status 77 where they are missing.
"""

import os
import subprocess
import sys
import time
import unittest

from programs import PTHREADS
from runs import PROGRAMS, finish, may_fix_addresses, script, wait_until
from ssh_network import SshHostsTest, missing

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
HOSTS = 4
# Of marker_program.cpp.
MARKER = b"only-for-the-members-of-this-run"
# Writes what crosses any interface of its namespace to a file.
LISTENER = """
import socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
with open(sys.argv[1], "wb", buffering=0) as frames:
    while True:
        frames.write(link.recv(1 << 17))
"""


class SshHosts(SshHostsTest):
    binaries = BIN
    count = HOSTS

    def setUp(self):
        super().setUp()
        # The hosts are one machine, and do not see which of its cores another one has taken.
        self.options = ["--quiet", "--bind", "none", *self.names]

    def test_programs(self):
        for program, *arguments in PROGRAMS:
            with self.subTest(program):
                run = self.braid.run(*self.options, "--per-host", "1", "--compute", "1", self.braid.application(program),
                                     *arguments)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn("verified", run.stdout)
        self.expect_nothing_left()

    @unittest.skipUnless(may_fix_addresses(), "personality() is refused here")
    def test_a_program_whose_main_runs_once(self):
        source = self.folder / "threads.c"
        source.write_text(PTHREADS)
        subprocess.run([f"{BIN}/braid-cc", "--pthreads", "-O1", str(source), "-o", str(self.folder / "threads")], check=True)
        for slots in ("1", "2"):
            with self.subTest(slots):
                run = self.braid.run(*self.options, "--per-host", slots, "--compute", "1", str(self.folder / "threads"))
                self.assertEqual((run.returncode, run.stdout), (0, "[c0] 0 wrong, total right\n"), run.stderr)
        self.expect_nothing_left()

    def test_long_paths_that_lose_packets(self):
        for program, *arguments in (("jacobi", "--size", "128", "--iterations", "3"), ("tsp", "--cities", "9"),
                                    ("fft", "--points", "256")):
            with self.subTest(program):
                begun = time.monotonic()
                run = self.braid.run(*self.names, "--bind", "none", "--delay", "20", "--loss", "0.01", "--per-host", "1", "--compute", "1",
                                     self.braid.application(program), *arguments)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn("verified", run.stdout)
                self.assertIn("loss 0.01, ", run.stderr)
                self.assertIn("delay 20 ms", run.stderr)
                # The start, every barrier and every page take a round trip each.
                self.assertGreater(time.monotonic() - begun, 10 * 0.040)
        self.expect_nothing_left()

    def test_each_host_tells_who_would_run_where(self):
        processor = min(os.sched_getaffinity(0))
        node = script(self.folder / "node", f'exec taskset -c {processor} {BIN}/braid-node "$@"\n')
        run = self.braid.run(*self.names, "--braid-node", node, "--show-plan", "--compute", "1", "true")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        heads = [line for line in run.stdout.splitlines() if line.startswith("node")]
        self.assertEqual(heads, [f"node{i}" for i in range(1, HOSTS + 1)])
        self.assertEqual(run.stdout.count("2 threads (1 cluster of 1 compute node and 1 proxy) want a core each, and there is 1"),
                         HOSTS, run.stdout)
        run = self.braid.run(*self.names, "--braid-node", node, "--compute", "1", self.braid.application("jacobi"), "--size",
                             "64", "--iterations", "1")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr.count("want a core each, and there is 1"), HOSTS, "each host warns of itself")
        hosts = self.folder / "cores"
        text = (self.folder / "hosts").read_text()
        hosts.write_text(text.replace("node2", f"node2, cores: {processor}").replace("node3", "node3, cores: 1023"))
        run = self.braid.run("--hostfile", str(hosts), *self.names[2:], "--clusters", "2", "--show-plan", "--compute", "1", "true")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn(f"cores {processor} of the host file", run.stdout.split("node2")[1])
        self.assertNotIn("of the host file", run.stdout.split("node2")[0])
        run = self.braid.run("--hostfile", str(hosts), *self.names[2:], self.braid.application("jacobi"))
        self.assertEqual(run.returncode, 70, run.stderr)
        self.assertIn("host node3: cores 1023: the host has no core 1023", run.stderr)
        silent = script(self.folder / "silent", "exit 3\n")
        run = self.braid.run(*self.names, "--braid-node", silent, "--show-plan", "true")
        self.assertEqual((run.returncode, run.stdout), (70, ""))
        self.assertIn("host node1: ssh exited with status 3", run.stderr)

    def test_two_clusters_on_each_host_and_proxies(self):
        run = self.braid.run(*self.options, "--per-host", "2", "--compute", "1", "--proxies", "2",
                             self.braid.application("jacobi"), "--size", "256")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("8 compute nodes", run.stdout)

    def test_input_and_output(self):
        run = self.braid.run(*self.options, "cat", input="a line\n" * 100_000)
        self.assertEqual((run.returncode, run.stdout), (0, "[c0] a line\n" * 100_000), run.stderr)

    def test_nobody_on_the_bridge_reads_what_programs_share(self):
        for options, is_read in (((), False), (("--security", "required"), False), (("--security", "off"), True)):
            with self.subTest(options):
                frames = self.folder / f"frames{len(list(self.folder.glob('frames*')))}"
                self.network.start(self.network.bridge, sys.executable, "-c", LISTENER, str(frames))
                self.assertTrue(wait_until(frames.exists))
                run = self.braid.run(*self.options, *options, "--compute", "1", self.braid.application("marker_program"))
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn("verified", run.stdout)
                self.assertEqual("security is off" in run.stderr, is_read)
                # Nothing more comes: all that crossed the bridge is in the file.
                self.assertGreater(frames.stat().st_size, 2048 * len(MARKER))
                self.assertEqual(MARKER in frames.read_bytes(), is_read)

    def test_a_path_that_takes_shorter_packets_is_named(self):
        self.network.inside(self.network.hosts[1], "ip", "link", "set", "eth0", "mtu", "1400")
        run = self.braid.run(*self.options, self.braid.application("jacobi"))
        self.assertEqual(run.returncode, 70)
        self.assertIn("takes packets of 1400: set at most 1400", run.stderr)
        run = self.braid.run(*self.options, "--mtu", "1400", self.braid.application("jacobi"), "--size", "128")
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_a_host_that_cannot_be_reached_is_named(self):
        self.network.kill(self.network.hosts[2], "sshd")
        run = self.braid.run(*self.options, "true")
        self.assertEqual(run.returncode, 70)
        self.assertIn("host node3 is lost: ssh exited with status 255 before its braid-node had answered", run.stderr)
        self.assertIn("[node3] ssh: connect to host 10.77.0.3 port 22: Connection refused", run.stderr)

    def test_a_host_that_dies(self):
        run = self.endless("--bind", "none", "--compute", "1")
        self.network.kill(self.network.hosts[1])
        self.expect_end(run, 70, "host node2 is lost")

    def test_a_connection_that_dies(self):
        run = self.endless("--bind", "none", "--compute", "1")
        self.network.kill(self.network.command, "ssh")
        self.expect_end(run, 70, "is lost: ssh was killed by signal 9")

    def test_a_link_that_is_down_for_2_s(self):
        run = self.endless("--bind", "none", "--compute", "1")
        self.set_link("down")
        time.sleep(2)
        self.set_link("up")
        time.sleep(10)  # longer than a lost host or connection would take to end it
        self.assertIsNone(run.poll(), "the run did not live on")
        run.terminate()
        self.expect_end(run, 143)

    def test_a_link_that_stays_down(self):
        run = self.endless("--bind", "none", "--compute", "1")
        self.set_link("down")
        self.expect_end(run, 70, "host node4 is lost: it has said nothing")

    def set_link(self, state):
        self.network.inside(self.network.hosts[3], "ip", "link", "set", "eth0", state)


if __name__ == "__main__":
    if reason := missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
