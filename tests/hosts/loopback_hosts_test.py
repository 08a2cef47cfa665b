#!/usr/bin/env python3
"""`braid run --hosts` with addresses of the loopback network as hosts, which needs no right: programs over several hosts,
their input, output, environment and status, wrong use, and the death of every process that belongs to a run.

    loopback_hosts_test.py BIN [unittest's options]
"""

import json
import os
import pathlib
import shutil
import signal
import sys
import time
import unittest

from runs import MOST_SECONDS_TO_END, CommandTest, finish, processes_of, script, wait_until

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
TWO, FOUR = "127.0.0.1,127.0.0.2", "127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4"
# Everything everywhere has ended so long after a death (docs/OPERATIONS.md).
# A braid-node that is told of another version than it was sent.
OTHER_VERSION = f"""#!/usr/bin/env python3
import os, re, subprocess
node = subprocess.Popen(["{BIN}/braid-node"], stdin=subprocess.PIPE)
while bytes := os.read(0, 65536):
    node.stdin.write(re.sub(rb"(gversione)\\d", rb"\\g<1>9", bytes))
    node.stdin.flush()
"""


def cbor(value):
    """As RFC 8949 has it: short texts, small numbers, short maps and lists."""
    if isinstance(value, str):
        return bytes([0x60 + len(value)]) + value.encode()
    if isinstance(value, dict):
        return bytes([0xA0 + len(value)]) + b"".join(cbor(k) + cbor(v) for k, v in value.items())
    if isinstance(value, list):
        return bytes([0x80 + len(value)]) + b"".join(map(cbor, value))
    return bytes([value])


def message(value):
    text = cbor(value)
    return len(text).to_bytes(4, "little") + text


class HostsTest(CommandTest):
    binaries = BIN

    def script(self, text):
        return script(self.folder / "program", text)

    def expect_refusal(self, status, words, *arguments):
        run = self.braid.run("--quiet", *arguments, "true")
        self.assertEqual((run.returncode, run.stdout), (status, ""), run.stderr)
        self.assertIn(words, run.stderr)


class Programs(HostsTest):
    def test_clusters_of_several_hosts_share_memory(self):
        for hosts, clusters in ((TWO, 2), (FOUR, 4), ("127.0.0.1:2,127.0.0.2:2", 4), ("127.0.0.9", 1)):
            with self.subTest(hosts):
                report = self.folder / "report.json"
                run = self.braid.run("--hosts", hosts, "--report", str(report), self.braid.application("jacobi"),
                                     "--size", "256")
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn(f"{2 * clusters} compute nodes", run.stdout)
                self.assertIn("verified", run.stdout)
                written = json.loads(report.read_text())
                names = [cluster["host"] for cluster in written["clusters"]]
                slots = [host.partition(":") for host in hosts.split(",")]
                self.assertEqual(names, [name for name, _, count in slots for _ in range(int(count or 1))])
                self.assertEqual(written["configuration"]["wire"], "udp")
                self.assertTrue(all(cluster["application"]["report"]["nodes"] for cluster in written["clusters"]))
                received = [proxy["messages_received"] for cluster in written["clusters"] for proxy in cluster["proxies"]]
                self.assertEqual(len(received), clusters)
                self.assertTrue(clusters == 1 or all(received), received)

    def test_a_lock_a_tree_and_a_queue(self):
        for program, *arguments in (("water", "--molecules", "64"), ("barnes", "--bodies", "256"), ("tsp", "--cities", "9")):
            with self.subTest(program):
                run = self.braid.run("--quiet", "--hosts", FOUR, "--compute", "1", self.braid.application(program),
                                     *arguments)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn("verified", run.stdout)

    def test_sixteen_hosts(self):
        hosts = ",".join(f"127.0.0.{i}" for i in range(1, 17))
        run = self.braid.run("--quiet", "--hosts", hosts, "--compute", "1", self.braid.application("jacobi"), "--size", "64",
                             "--iterations", "1")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("16 compute nodes", run.stdout)

    def test_hosts_that_others_start(self):
        ssh = script(self.folder / "ssh", 'while [ $# -gt 1 ]; do shift; done; export DEPTH=$((DEPTH + 1)); exec sh -c "$1"\n')
        hosts = ",".join(f"127.0.0.{i}" for i in range(1, 41))
        for fan_out, depth in (((), 2), (("--ssh-fan-out", "0"), 1), (("--ssh-fan-out", "3"), 4)):
            with self.subTest(fan_out):
                program = self.script("echo $DEPTH\n")
                run = self.braid.run("--quiet", "--hosts", hosts, "--launcher", "ssh", "--ssh", ssh, *fan_out, "--bind", "none", program)
                self.assertEqual(run.returncode, 0, run.stderr)
                depths = [int(line.split()[1]) for line in run.stdout.splitlines()]
                self.assertEqual((len(depths), max(depths)), (40, depth))

    def test_lossy_networks(self):
        run = self.braid.run("--quiet", "--hosts", "127.0.0.1:2,127.0.0.2", "--loss", "0.01", "--seed", "5",
                             self.braid.application("jacobi"), "--size", "256")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("verified", run.stdout)


class WhatGoesThereAndBack(HostsTest):
    def test_input_output_environment_folder_and_arguments(self):
        program = self.script('read line; echo "$line $GREETING $HOME_OF $1 in $(pwd)"; wc -c; echo wrong >&2\n')
        run = self.braid.run("--quiet", "--hosts", TWO, "-x", "GREETING", "-x", "HOME_OF=you", "--folder", "/",
                             program, "a b", input="first\n" + "x" * 3_000_000,
                             env={**os.environ, "GREETING": "hello"})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(sorted(run.stdout.splitlines()), sorted([
            "[c0] first hello you a b in /", "[c0] 3000000", "[c1]  hello you a b in /", "[c1] 0"]))
        self.assertEqual(sorted(run.stderr.splitlines()), ["[c0] wrong", "[c1] wrong"])

    def test_a_variable_replaces_that_of_the_host(self):
        run = self.braid.run("--quiet", "--hosts", TWO, "-x", "THREADS=3", "-x", "THREADS=a\n b", "printenv", "THREADS",
                             env={**os.environ, "THREADS": "2"})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(sorted(run.stdout.splitlines()), ["[c0]  b", "[c0] a", "[c1]  b", "[c1] a"])

    def test_much_output_is_complete(self):
        program = self.script('i=0; while [ $i -lt 20000 ]; do echo "line $i of many"; i=$((i + 1)); done\n')
        run = self.braid.run("--quiet", "--hosts", TWO, program)
        self.assertEqual(run.returncode, 0, run.stderr)
        for cluster in range(2):
            own = [line for line in run.stdout.splitlines() if line.startswith(f"[c{cluster}]")]
            self.assertEqual(own, [f"[c{cluster}] line {i} of many" for i in range(20000)])

    def test_no_line_is_torn_by_those_of_other_hosts(self):
        program = self.script('yes "of $BRAID_CLUSTER" | head -c 700000\n')
        run = self.braid.run("--quiet", "--hosts", FOUR, program)
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = run.stdout.splitlines()
        for cluster in range(4):
            self.assertEqual(lines.count(f"[c{cluster}] of {cluster}"), 700000 // 5)
        self.assertEqual(len(lines), 4 * 700000 // 5)

    def test_a_program_that_is_sent(self):
        run = self.braid.run("--quiet", "--hosts", TWO, "--send", self.braid.application("jacobi"), "--size", "64")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("verified", run.stdout)

    def big_program(self):
        """A whole program, with more behind it than pipes and buffers hold."""
        program = self.folder / "program"
        shutil.copy(self.braid.application("jacobi"), program)
        os.truncate(program, 300 << 20)
        return str(program)

    # Longer than a message may be; it goes in parts, and its time is not that of the start.
    def test_a_long_program_that_is_sent(self):
        run = self.braid.start("--quiet", "--hosts", TWO, "--start-timeout", "2000", "--send", self.big_program(), "--size", "64")
        out, err = finish(run)
        self.assertEqual(run.returncode, 0, err)
        self.assertIn("verified", out)

    def test_the_sending_of_a_program_can_be_ended(self):
        # The node reads a part every second, but lives.
        node = script(self.folder / "slow", f"while head -c 65536; do sleep 1; done | {BIN}/braid-node\n")
        run = self.braid.start("--quiet", "--hosts", "127.0.0.1", "--start-timeout", "1000", "--braid-node", node, "--send",
                               self.big_program())
        self.addCleanup(run.kill)
        time.sleep(3)
        self.assertIsNone(run.poll(), "the sending counted as a start that takes too long")
        begun = time.monotonic()
        run.send_signal(signal.SIGINT)
        _, err = finish(run)
        self.assertEqual((run.returncode, err), (130, ""))
        self.assertLess(time.monotonic() - begun, MOST_SECONDS_TO_END)

    def test_the_status_is_that_of_the_process_that_failed(self):
        program = self.script('[ "$BRAID_CLUSTER" = 1 ] && exit 7; sleep 60\n')
        begun = time.monotonic()
        run = self.braid.run("--quiet", "--hosts", TWO, program)
        self.assertEqual(run.returncode, 7)
        self.assertRegex(run.stderr, r"application of cluster 1 \(host 127\.0\.0\.2, pid \d+\) exited with status 7")
        self.assertLess(time.monotonic() - begun, MOST_SECONDS_TO_END)


class Hostfiles(HostsTest):
    def clusters_of(self, text, *options):
        file = self.folder / "hosts"
        file.write_text(text)
        run = self.braid.run("--quiet", "--hostfile", str(file), *options, self.script("echo $BRAID_CLUSTERS"))
        return (run.returncode, sorted(set(run.stdout.split()) - {f"[c{k}]" for k in range(9)}), run.stderr)

    def test_lines_and_yaml(self):
        self.assertEqual(self.clusters_of("# two\n127.0.0.1 slots=2 max_slots=4\n\n127.0.0.2:1 # last\n"), (0, ["3"], ""))
        self.assertEqual(self.clusters_of("127.0.0.1 slots = 2 max-slots= 4\n127.0.0.2 slots =1\n"), (0, ["3"], ""))
        self.assertEqual(self.clusters_of("- {host: 127.0.0.1, slots: 2}\n- host: 127.0.0.2\n"), (0, ["3"], ""))
        self.assertEqual(self.clusters_of("127.0.0.1 slots=2\n127.0.0.2\n", "--clusters", "2"), (0, ["2"], ""))
        self.assertEqual(self.clusters_of("127.0.0.1 slots=4\n127.0.0.2\n", "--per-host", "2"), (0, ["4"], ""))

    def test_files_as_other_systems_write_them(self):
        for text in ("127.0.0.1 slots=2\r\n127.0.0.2\r\n", "- {host: 127.0.0.1, slots: 2}\r\n- host: 127.0.0.2\r\n"):
            for mark in ("", "\ufeff"):
                with self.subTest(text=text, mark=mark):
                    self.assertEqual(self.clusters_of(mark + text), (0, ["3"], ""))

    def test_several_addresses_are_several_interfaces(self):
        status, clusters, problem = self.clusters_of(
            "- {host: 127.0.0.1, addresses: [127.0.1.1, 127.0.1.2]}\n- {host: 127.0.0.2, addresses: [127.0.2.1, 127.0.2.2]}\n",
            "--proxies", "2")
        self.assertEqual((status, clusters), (0, ["2"]), problem)

    def test_hosts_with_different_numbers_of_proxies(self):
        hosts, report = self.folder / "hosts", self.folder / "report.json"
        hosts.write_text("- {host: 127.0.0.1, slots: 2, proxies: 3}\n- {host: 127.0.0.2, proxies: 1}\n- {host: 127.0.0.3}\n")
        for options in ((), ("--all-pairs",), ("--security", "required", "--peer", "round-robin"), ("--loss", "0.01")):
            with self.subTest(options):
                run = self.braid.run("--hostfile", str(hosts), "--proxies", "2", "--compute", "1", "--report", str(report), *options,
                                     self.braid.application("water"), "--molecules", "64")
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn("verified", run.stdout)
                self.assertIn("4 clusters of 1 compute node and 1 to 3 proxies", run.stderr)
                proxies = [cluster["proxies"] for cluster in json.loads(report.read_text())["clusters"]]
                self.assertEqual([len(all) for all in proxies], [3, 3, 1, 2])
                self.assertTrue(all(sum(proxy["messages_received"] for proxy in each) for each in proxies))
        plan = self.braid.run("--hostfile", str(hosts), "--proxies", "2", "--compute", "1", "--show-plan", "true")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        if "proxies) want a core each" in plan.stdout:
            self.assertIn("13 threads (4 clusters of 1 compute node and 1 to 3 proxies) want a core each", plan.stdout)

    def test_lines_have_the_keys_of_yaml_too(self):
        hosts, report = self.folder / "hosts", self.folder / "report.json"
        hosts.write_text("127.0.0.1 slots=2 proxies=3 addresses=127.0.1.1,127.0.1.2\n127.0.0.2 addresses=127.0.2.1,127.0.2.2\n")
        run = self.braid.run("--hostfile", str(hosts), "--proxies", "2", "--compute", "1", "--report", str(report),
                             self.braid.application("jacobi"), "--size", "128")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual([len(cluster["proxies"]) for cluster in json.loads(report.read_text())["clusters"]], [3, 3, 2])

    def test_hosts_have_different_numbers_of_addresses(self):
        hosts, report = self.folder / "hosts", self.folder / "report.json"
        hosts.write_text("- {host: 127.0.0.1, slots: 2, addresses: [127.0.1.1, 127.0.1.2, 127.0.1.3], proxies: 3}\n"
                         "- {host: 127.0.0.2, addresses: [127.0.2.1]}\n"
                         "- {host: 127.0.0.3, addresses: [127.0.3.1, 127.0.3.2]}\n")
        for options in ((), ("--all-pairs",)):
            with self.subTest(options=options):
                run = self.braid.run("--hostfile", str(hosts), "--proxies", "2", "--compute", "1", "--report", str(report), *options,
                                     self.braid.application("jacobi"), "--size", "256")
                self.assertEqual(run.returncode, 0, run.stderr)
                proxies = [cluster["proxies"] for cluster in json.loads(report.read_text())["clusters"]]
                self.assertEqual([len(all) for all in proxies], [3, 3, 2, 2])
                self.assertTrue(all(proxy["messages_received"] for each in proxies[2:] for proxy in each))
        run = self.braid.run("--hostfile", str(hosts), "--nis", "3", "--proxies", "3", "--compute", "1", "true")
        self.assertEqual(run.returncode, 64)
        self.assertIn("--nis 3: host 127.0.0.2 has 1 address; leave the option out", run.stderr)

    def test_each_address_of_a_host_has_a_proxy(self):
        status, clusters, problem = self.clusters_of(
            "- {host: 127.0.0.1, addresses: [127.0.1.1, 127.0.1.2], proxies: 1}\n- {host: 127.0.0.2, addresses: [127.0.2.1, 127.0.2.2]}\n",
            "--proxies", "2")
        self.assertEqual((status, clusters), (64, []))
        self.assertIn("host 127.0.0.1: 2 addresses for 1 proxies", problem)

    def test_what_is_wrong_is_named_with_its_place(self):
        for text, words in (("127.0.0.1 slot=2\n", "hosts:1: 'slot=2' is not known"),
                            ("127.0.0.1\n127.0.0.2 slots=0\n", "hosts:2: '0' slots"),
                            ("hosts:\n  - {host: 127.0.0.1}\n", "a file in YAML is a list: - {host: NAME}"),
                            ("", "no host is named"),
                            ("- {host: a, slots: many}\n", "'many' slots"),
                            ("127.0.0.1\x01\n", "has a control character"),
                            ("- {host: a, proxies: 0}\n", "'0' proxies; allowed: 1 to 32"),
                            ("- {host: a, cores: 3-1}\n", "'3-1' cores; a list of processors from 0 to 1023 is wanted, as 0-3,8"),
                            ("- {host: a, cores: [0-1, 1024]}\n", "'1024' cores"),
                            ("- {host: a, cores: []}\n", "allowed: host: NAME"),
                            ("- {host: a, cores: [[0]]}\n", "a list of processors is wanted"),
                            ("- {host: a, cores: 0-3, 8}\n", "hosts:1"),
                            ("127.0.0.1 cores=\n", "hosts:1: '' cores"),
                            ("127.0.0.1 cores=0;1\n", "hosts:1: '0;1' cores"),
                            ("127.0.0.1 proxies=0\n", "hosts:1: '0' proxies; allowed: 1 to 32"),
                            ("127.0.0.1 addresses=\n", "hosts:1: addresses: ''; an IPv4 address is wanted"),
                            ("127.0.0.1 addresses=127.0.1.1,x\n", "hosts:1: addresses: 'x'"),
                            ("- {host: a, address: 10.0.0.1}\n", "key 'address'"),
                            ("- {host: a, addresses: [b]}\n", "an IPv4 address is wanted"),
                            ("- {slots: 1}\n", "key 'host' is missing"),
                            ("127.0.0.1 slots=2 slots=3\n", "hosts:1: 'slots' is given twice"),
                            ("127.0.0.1 slots= proxies = 2\n", "hosts:1: '' slots"),
                            ("[::1] slots=2\n", "hosts:1: '[::1]': an IPv6 address"),
                            ("- {host: '::1'}\n", "only a name or an IPv4 address"),
                            ("- {host: '127.0.0.1:2'}\n", "the number of clusters is at 'slots'"),
                            ("-oProxyCommand=x\n", "a list of hosts is wanted")):
            with self.subTest(text):
                status, clusters, problem = self.clusters_of(text)
                self.assertEqual((status, clusters), (78, []))
                self.assertIn(words, problem)


class WrongUse(HostsTest):
    def test_it_is_named_before_anything_starts(self):
        for words, *arguments in (
                ("the 2 hosts have 2 slots", "--hosts", TWO, "--clusters", "3"),
                ("between hosts it is udp", "--hosts", TWO, "--wire", "shm"),
                ("it has no IPv4 address", "--hosts", "no-such-host.invalid"),
                ("a loopback address is not reached", "--hosts", "127.0.0.1,192.0.2.1"),
                ("it is named twice", "--hosts", "127.0.0.1,127.0.0.1"),
                ("'0' slots", "--hosts", "127.0.0.1:0"),
                ("is no name of a host", "--hosts", "-oProxyCommand=reboot"),
                ("an IPv6 address", "--hosts", "::1"),
                ("there is no such variable", "--hosts", TWO, "-x", "NO_SUCH_VARIABLE"),
                ("the run itself sets the variables BRAID_", "--hosts", TWO, "-x", "BRAID_CLUSTER=9"),
                ("--per-host is of --hosts", "--per-host", "2"),
                ("give one of them", "--hosts", TWO, "--hostfile", "x"),
                ("allowed: auto, local, pmix, ssh, slurm", "--hosts", TWO, "--launcher", "rsh"),
                ("not inside an allocation", "--hosts", TWO, "--launcher", "slurm"),
                ("starts nodes on this host only", "--hosts", "192.0.2.1", "--launcher", "local"),
                ("host 127.0.0.1 has 1 address;", "--hosts", TWO, "--nis", "2", "--proxies", "2")):
            with self.subTest(arguments):
                self.expect_refusal(64, words, *arguments)

    def test_hosts_that_cannot_do_it_are_named(self):
        self.expect_refusal(70, "the working folder /no/such", "--hosts", TWO, "--folder", "/no/such")
        self.expect_refusal(70, "false exited with status 1 before its braid-node had answered", "--hosts", TWO,
                            "--launcher", "ssh", "--ssh", "false")
        self.expect_refusal(70, "is in no folder of PATH", "--hosts", TWO, "--launcher", "ssh", "--ssh", "no-such-ssh")
        # It says what it is told, which is no greeting.
        self.expect_refusal(70, "s the braid-node of host 127.0.0.1 has not answered; ", "--hosts", "127.0.0.1", "--braid-node", "/bin/cat",
                            "--start-timeout", "500")

    def test_what_a_host_does_not_have_is_named(self):
        program = self.script("exit 0\n")
        node = script(self.folder / "node", f"rm -f {program}; exec {BIN}/braid-node\n")
        run = self.braid.run("--quiet", "--hosts", "127.0.0.1", "--braid-node", node, program)
        self.assertEqual(run.returncode, 70, run.stderr)
        self.assertIn(f"{program}: No such file or directory; put the program there too (a shared file system), executable, or send it", run.stderr)
        self.expect_refusal(70, "--capture: /proc/captures: No such file or directory; name a folder that this user may make on every host",
                            "--hosts", "127.0.0.1", "--capture", "/proc/captures")

    def test_control_c_while_a_host_does_not_answer(self):
        run = self.braid.start("--quiet", "--hosts", TWO, "--braid-node", "/bin/cat", "true")
        self.addCleanup(run.kill)
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        _, err = finish(run)
        self.assertEqual((run.returncode, err), (130, ""))

    def test_another_version_is_named(self):
        node = self.folder / "node"
        node.write_text(OTHER_VERSION)
        node.chmod(0o755)
        self.expect_refusal(70, "install the same version on every host", "--hosts", "127.0.0.1", "--braid-node", str(node))

    def test_what_is_no_message_ends_the_run(self):
        for name, said in (("too long", b"\xff\xff\xff\x7f"),
                           ("no map", b"\x01\x00\x00\x00\x01"),
                           ("no CBOR", b"\x01\x00\x00\x00\xff"),
                           ("another host's cluster", message({"is": "ready", "cluster": 7})),
                           ("a process that was not asked for", message({"is": "ended", "role": "application", "cluster": 0,
                                                                         "status": 0})),
                           ("a word where a number is", message({"is": "state", "clusters": [{"cluster": "x"}]}))):
            with self.subTest(name):
                (self.folder / "said").write_bytes(b"\nbraid-node 1\n" + said)
                node = self.script(f"cat {self.folder}/said; cat >/dev/null\n")
                self.expect_refusal(70, "is no message of a braid-node", "--hosts", "127.0.0.1", "--braid-node", node)

    def test_what_a_login_shell_says_is_shown(self):
        node = self.script(f"echo welcome to this host; exec {BIN}/braid-node\n")
        run = self.braid.run("--quiet", "--hosts", "127.0.0.1", "--braid-node", node, "true")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("[127.0.0.1] welcome to this host", run.stderr)

    def test_what_is_said_instead_of_an_answer_is_shown(self):
        for words, shown in (("echo 'no account'; exit 1", "[127.0.0.1] no account\nbraid: host 127.0.0.1 is lost"),
                             ("echo one; printf two; exit 1", "[127.0.0.1] one\n[127.0.0.1] two\nbraid: "),
                             ("echo 'a moment'; sleep 30", "[127.0.0.1] a moment\nbraid: after 1.0 s the braid-node of host 127.0.0.1 has not answered")):
            with self.subTest(words):
                self.expect_refusal(70, shown, "--hosts", "127.0.0.1", "--start-timeout", "1000", "--braid-node", self.script(words + "\n"))

    def test_endless_words_before_the_answer_are_cut(self):
        run = self.braid.run("--quiet", "--hosts", "127.0.0.1", "--start-timeout", "1000", "--braid-node", self.script("exec yes\n"), "true")
        self.assertEqual(run.returncode, 70)
        self.assertLess(len(run.stderr), 100_000)
        self.assertIn("has not answered", run.stderr)

    def test_what_is_said_again_is_not_shown(self):
        # Among what a node is told is the run's secret.
        node = self.script("echo 'before it'; cat\n")
        run = self.braid.run("--quiet", "--hosts", "127.0.0.1,127.0.0.2", "--start-timeout", "1000", "--braid-node", node, "true")
        self.assertEqual(run.returncode, 70)
        lines = [line for line in run.stderr.splitlines() if not line.startswith("braid: ")]
        self.assertEqual(sorted(lines), ["[127.0.0.1] before it", "[127.0.0.2] before it"])

    def test_a_node_that_answers_late_is_waited_for(self):
        # For a minute, and not for 4 s as later.
        node = self.script(f"sleep 6; exec {BIN}/braid-node\n")
        run = self.braid.run("--quiet", "--hosts", "127.0.0.1", "--braid-node", node, "true")
        self.assertEqual(run.returncode, 0, run.stderr)


class Deaths(HostsTest):
    """A run whose program would take an hour; the number of seconds marks its processes."""

    def start(self, mark):
        self.mark = str(mark)
        run = self.braid.start("--quiet", "--hosts", FOUR, "sleep", self.mark)
        self.addCleanup(run.kill)
        if not wait_until(lambda: len(self.sleepers()) == 4):
            run.terminate()
            self.fail(f"only {len(self.sleepers())} of 4 processes have started; {finish(run)}")
        return run

    def sleepers(self):
        return processes_of("sleep", self.mark)

    def agents(self, run):
        return [int(pid) for pid in pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
                if b"braid-node" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]

    def expect_end(self, run, agents, status, words):
        begun = time.monotonic()
        _, err = finish(run)
        self.assertLess(time.monotonic() - begun, MOST_SECONDS_TO_END)
        self.assertEqual(run.returncode, status, err)
        self.assertIn(words, err)
        self.expect_nothing_left(agents)

    def expect_nothing_left(self, agents):
        alive = lambda: self.sleepers() + [pid for pid in agents if pathlib.Path(f"/proc/{pid}/exe").exists()]
        self.assertTrue(wait_until(lambda: not alive(), MOST_SECONDS_TO_END), f"left: {alive()}")

    def test_a_host_whose_node_is_killed(self):
        run = self.start(3601)
        agents = self.agents(run)
        os.kill(agents[2], signal.SIGKILL)
        self.expect_end(run, agents, 70, "host 127.0.0.3 is lost")

    def test_a_host_that_says_nothing_any_more(self):
        run = self.start(3602)
        agents = self.agents(run)
        os.kill(agents[1], signal.SIGSTOP)
        self.expect_end(run, agents, 70, "host 127.0.0.2 is lost: it has said nothing")

    def test_the_command_is_killed(self):
        run = self.start(3603)
        agents = self.agents(run)
        run.kill()
        finish(run)
        self.expect_nothing_left(agents)

    def test_the_command_is_stopped_for_a_while(self):
        run = self.start(3604)
        agents = self.agents(run)
        run.send_signal(signal.SIGSTOP)
        # Its nodes take it for lost and end; when it goes on, it finds that out.
        self.assertTrue(wait_until(lambda: not self.sleepers(), MOST_SECONDS_TO_END))
        run.send_signal(signal.SIGCONT)
        self.expect_end(run, agents, 70, "is lost")

    def test_control_c_and_termination(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                run = self.start(3605)
                agents = self.agents(run)
                run.send_signal(number)
                self.expect_end(run, agents, 128 + number, "")

    def test_a_daemon_that_is_killed(self):
        run = self.start(3606)
        agents = self.agents(run)
        # Of this run: the only ones whose grandparent is one of its nodes.
        daemons = [pid for agent in agents for pid in processes_of("braidd")
                   if f"\nPPid:\t{agent}\n" in pathlib.Path(f"/proc/{pid}/status").read_text()]
        os.kill(daemons[-1], signal.SIGKILL)
        self.expect_end(run, agents, 70, "was killed by signal 9")


if __name__ == "__main__":
    unittest.main()
