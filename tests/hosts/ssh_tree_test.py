#!/usr/bin/env python3
"""`braid run --hosts` where hosts start other hosts by ssh: seven network namespaces with an sshd in each, of which nobody starts more than two, so the
run starts node1 and node2, node1 starts node3 and node5, node2 node4 and node6, and node3 node7.

    ssh_tree_test.py BIN [unittest's options]

Needs root, for the namespaces, ip (iproute2), ssh and sshd; exit status 77 where they are missing.
"""

import os
import pathlib
import signal
import sys
import unittest

from runs import finish, script
from ssh_network import SshHostsTest, missing

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
HOSTS = 7
STARTED_BY = {"node1": 2, "node2": 2, "node3": 1}


class SshTree(SshHostsTest):
    binaries = BIN
    count = HOSTS
    of_runs = (*SshHostsTest.of_runs, "ssh", "sleep")

    def setUp(self):
        super().setUp()
        self.names += ["--ssh-fan-out", "2", "--bind", "none", "--compute", "1"]

    def host(self, name):
        return self.network.hosts[int(name.removeprefix("node")) - 1]

    def relay(self, name):
        """The process there that the others are started by."""
        return next(pid for pid in self.network.runs_in(self.host(name), "braid-node")
                    if b"--relay-hosts" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())

    def test_output_input_status_and_who_started_whom(self):
        run = self.braid.run(*self.names, "--quiet", self.braid.application("jacobi"), "--size", "64", "--iterations", "2")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("7 compute nodes", run.stdout)
        self.assertIn("verified", run.stdout)
        program = script(self.folder / "program", 'wc -c; hostname; yes "of $(hostname)" | head -c 200000; echo wrong >&2; [ $(hostname) != node7 ] || exit 9\n')
        run = self.braid.run(*self.names, "--quiet", "--stdin", "all", program, input="x" * 300_000)
        self.assertEqual(run.returncode, 9, run.stderr[-2000:])
        self.assertRegex(run.stderr, r"application of cluster 6 \(host node7, pid \d+\) exited with status 9")
        self.assertEqual([line for line in run.stdout.splitlines() if "[" in line[1:]], [], "torn lines")
        own = [line for line in run.stdout.splitlines() if line.startswith("[c6]")]
        self.assertEqual(own[:2], ["[c6] 300000", "[c6] node7"])
        self.assertEqual(len("\n".join(line.removeprefix("[c6] ") for line in own[2:])), 200_000)
        self.assertIn("[c6] wrong\n", run.stderr)
        run = self.endless()
        clients = {name: len(self.network.runs_in(self.host(name), "ssh")) for name in (f"node{i}" for i in range(1, HOSTS + 1))}
        self.assertEqual({name: count for name, count in clients.items() if count}, STARTED_BY)
        self.assertEqual(len(self.network.runs_in(self.network.command, "ssh")), 2)
        run.send_signal(signal.SIGINT)
        self.expect_end(run, 128 + signal.SIGINT)

    def test_a_relay_that_answers_late_is_waited_for(self):
        node = script(self.folder / "node", f'[ $(hostname) != node1 ] || sleep 6; exec {BIN}/braid-node "$@"\n')
        run = self.braid.run(*self.names, "--quiet", "--braid-node", node, "true")
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_deaths(self):
        for words, kill in (
                ("host node3 is lost: ssh exited with status", lambda: self.signal_relay("node3", signal.SIGKILL)),
                ("host node1 is lost: ssh exited with status", lambda: self.signal_relay("node1", signal.SIGKILL)),
                ("host node7 is lost: ssh exited with status", lambda: self.network.kill(self.host("node7"), "braid-node")),
                ("host node6 is lost: ssh was killed by signal 9", lambda: self.kill_client_of("node2", "node6")),
                ("host node3 is lost: it has said nothing for 4 s", lambda: self.set_link("node3", "down"))):
            with self.subTest(words):
                run = self.endless()
                kill()
                self.expect_end(run, 70, words)

    def test_the_command_is_killed(self):
        run = self.endless()
        run.kill()
        finish(run)
        self.expect_nothing_left()

    def test_a_host_that_cannot_be_reached_is_named(self):
        self.network.kill(self.host("node7"), "sshd")
        run = self.braid.start(*self.names, "--quiet", "sleep", "100")
        self.expect_end(run, 70, "[node7] ssh: connect to host 10.77.0.7 port 22: Connection refused",
                        "host node7 is lost: ssh exited with status 255 before its braid-node had answered")

    def signal_relay(self, name, number):
        os.kill(self.relay(name), number)

    def kill_client_of(self, name, other):
        for pid in self.network.runs_in(self.host(name), "ssh"):
            if other.encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)

    def set_link(self, name, state):
        self.network.inside(self.host(name), "ip", "link", "set", "eth0", state)


if __name__ == "__main__":
    if reason := missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
