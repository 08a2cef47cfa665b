#!/usr/bin/env python3
"""`braid run --launcher slurm` inside allocations of the real Slurm: munged, slurmctld, and a slurmd in a network and UTS
namespace for each of two hosts.

    slurm_hosts_test.py BIN [unittest's options]

Needs root, ip (iproute2), and Debian's slurm-wlm and munge; exit status 77 where they are missing, or where a slurmd does not
start (it wants the kernel's cgroups).
"""

import json
import os
import subprocess
import sys
import time
import unittest

from runs import MOST_SECONDS_TO_END, Command, finish, make_folder, node_between, wait_until
from slurm_network import SALLOC, SlurmNetwork, missing

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
HOSTS = 2
# Each node is told the credential that the first one on any host was told.
OTHERS_CREDENTIAL = """found = re.search(rb"MUNGE:[^:]*:", begin)
try:
    open("{folder}/first.lock", "x").close()
    with open("{folder}/first.new", "wb") as first:
        first.write(found[0])
    os.rename("{folder}/first.new", "{folder}/first")
except FileExistsError:
    while not os.path.exists("{folder}/first"):
        time.sleep(0.01)
    with open("{folder}/first", "rb") as first:
        begin = begin.replace(found[0], first.read())
"""

class SlurmHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.network = SlurmNetwork(make_folder(cls.addClassCleanup), HOSTS)
        cls.addClassCleanup(cls.network.remove)
        cls.network.wait_or_skip()

    def setUp(self):
        # A job's name server knows no node: Slurm's addresses are used.
        self.braid = Command(BIN, [*self.network.before, SALLOC, "--quiet"])

    def run_in(self, allocation, *arguments, **more):
        self.braid.before.extend(allocation)
        return self.braid.run("--quiet", "--launcher", "slurm", *arguments, env=self.network.environment, **more)

    def test_an_allocation_says_hosts_and_slots(self):
        for tasks, clusters in ((1, 2), (2, 4)):
            with self.subTest(tasks):
                self.setUp()
                run = self.run_in(["--nodes=2", f"--ntasks-per-node={tasks}"], self.braid.application("jacobi"), "--size",
                                  "128")
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn(f"{2 * clusters} compute nodes", run.stdout)
                self.assertIn("verified", run.stdout)
        self.expect_nothing_left()

    def test_what_the_users_own_steps_want_changes_nothing(self):
        # Each would have a run that hears nothing of its nodes, or a host's clusters on the cores of one task.
        wishes = ("SLURM_LABELIO=1", "SLURM_STDINMODE=none", "SLURM_STDOUTMODE=none", "SLURM_STDERRMODE=none", "SLURM_EXACT=1",
                  "SRUN_CPUS_PER_TASK=1", "SLURM_EXCLUSIVE=1", "SLURM_DISTRIBUTION=cyclic")
        self.braid.before.extend(["--nodes=2", "--ntasks-per-node=2", "env", *wishes])
        run = self.braid.run("--quiet", "--launcher", "slurm", "sh", "-c", "cat; grep Cpus_allowed_list /proc/self/status; echo heard >&2", input="x\n",
                             env=self.network.environment)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("[c0] x\n", run.stdout)
        self.assertEqual(run.stderr.count("heard"), 4, run.stderr)

    def test_a_heterogeneous_job_is_named(self):
        # Slurm takes half a minute to begin one.
        run = Command(BIN).run("--launcher", "slurm", "true", env={**self.network.environment, "SLURM_HET_SIZE": "2"})
        self.assertEqual(run.returncode, 64, run.stderr)
        self.assertIn("this is a heterogeneous job, of 2 parts", run.stderr)

    def test_named_hosts_have_slurms_addresses(self):
        self.braid.before.extend(["--nodes=2", "--ntasks-per-node=1"])
        run = self.braid.run("--quiet", "--hosts", "node1,node2", "hostname", env=self.network.environment)
        self.assertEqual((run.returncode, sorted(run.stdout.splitlines())), (0, ["[c0] node1", "[c1] node2"]), run.stderr)

    def test_a_run_on_one_host_of_several_says_so(self):
        line = "this allocation has 2 hosts, and the run uses this one only: --launcher slurm takes all"
        for nodes, options, is_said in ((2, (), True), (2, ("--launcher", "local"), False), (2, ("--quiet",), False), (1, (), False)):
            with self.subTest((nodes, options)):
                self.setUp()
                self.braid.before.append(f"--nodes={nodes}")
                run = self.braid.run(*options, "--compute", "1", "true", env=self.network.environment)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertEqual(line in run.stderr, is_said, run.stderr)

    def test_a_node_that_nobody_speaks_to_says_so(self):
        run = subprocess.run([*self.network.before, "srun", "--quiet", "--nodes=1", f"{BIN}/braid-node"], env=self.network.environment,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
        self.assertEqual(run.returncode, 64, run.stderr)
        self.assertIn("its standard input ended before a word came", run.stderr)

    def test_input_output_and_status(self):
        run = self.run_in(["--nodes=2", "--ntasks-per-node=1"], "sh", "-c", "cat; hostname; exit 5", input="x\n" * 100_000)
        self.assertEqual(run.returncode, 5, run.stderr)
        self.assertEqual(run.stdout.count("[c0] x\n"), 100_000)
        self.assertTrue("[c0] node1" in run.stdout or "[c1] node2" in run.stdout)

    def test_the_plan_of_the_nodes_of_an_allocation(self):
        run = self.run_in(["--nodes=2", "--ntasks-per-node=1"], "--show-plan", "--compute", "1", "true")
        self.assertEqual(run.returncode, 0, run.stderr)  # srun may say that its configuration binds nothing
        self.assertEqual([line for line in run.stdout.splitlines() if line.startswith("node")], ["node1", "node2"])
        self.assertEqual(run.stdout.count("who"), 2, run.stdout)

    def test_packets_are_sealed_and_srun_is_not_told_the_secret(self):
        # srun's streams are plain. A braid-node that keeps what it is told:
        node = node_between(self.network.folder / "node", BIN,
                            f'open("{self.network.folder}/told-" + str(os.getpid()), "wb").write(begin)')
        report = self.network.folder / "report.json"
        run = self.run_in(["--nodes=2", "--ntasks-per-node=1"], "--braid-node", node, "--report", str(report),
                          self.braid.application("jacobi"), "--size", "128")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("plain", json.loads(report.read_text())["security"])
        told = [file.read_bytes() for file in self.network.folder.glob("told-*")]
        self.assertEqual(len(told), HOSTS)
        for text in told:
            self.assertIn(b"jcredential", text)
            self.assertIn(b"MUNGE:", text)
            self.assertNotIn(b"fsecretX", text)

    def test_a_credential_of_another_host_is_refused(self):
        # Each can be opened once, by one host: the second is given that of the first.
        node = node_between(self.network.folder / "node", BIN, OTHERS_CREDENTIAL.format(folder=self.network.folder))
        run = self.run_in(["--nodes=2", "--ntasks-per-node=1"], "--braid-node", node, "true")
        self.assertEqual(run.returncode, 70, run.stderr)
        self.assertIn("the run's secret cannot be read from what MUNGE has made of it", run.stderr)

    def test_more_clusters_than_tasks_are_refused(self):
        run = self.run_in(["--nodes=2", "--ntasks-per-node=1"], "--clusters", "3", "true")
        self.assertEqual(run.returncode, 64)
        self.assertIn("the 2 hosts have 2 slots", run.stderr)

    def start_on_both(self, *program):
        self.braid.before.extend(["--nodes=2", "--ntasks-per-node=1"])
        run = self.braid.start("--quiet", "--launcher", "slurm", *program, env=self.network.environment)
        self.addCleanup(run.kill)
        self.assertTrue(wait_until(lambda: all(self.network.runs_in(host, program[0]) for host in self.network.hosts)))
        return run

    def test_a_job_that_is_cancelled_leaves_nothing(self):
        run = self.start_on_both("sleep", "3600")
        begun = time.monotonic()
        subprocess.run(["ip", "netns", "exec", self.network.command, "scancel", "--user=root"], env=self.network.environment,
                       check=True)
        finish(run)
        self.assertNotEqual(run.returncode, 0)
        self.assertLess(time.monotonic() - begun, MOST_SECONDS_TO_END)
        self.expect_nothing_left()

    def test_a_host_whose_step_is_killed_is_named(self):
        run = self.start_on_both("sleep", "3600")
        begun = time.monotonic()
        self.network.kill(self.network.hosts[1], "slurmstepd")
        _, errors = finish(run)
        self.assertEqual(run.returncode, 70)
        self.assertLess(time.monotonic() - begun, MOST_SECONDS_TO_END)
        self.assertIn("host node2 is lost", errors)
        self.expect_nothing_left()

    def test_a_host_that_loses_its_slurmd_goes_on_and_gets_no_other_run(self):
        end = self.network.folder / "end"
        run = self.start_on_both("sh", "-c", f"until [ -e {end} ]; do sleep 0.1; done")
        self.network.kill(self.network.hosts[1], "slurmd")
        self.addCleanup(self.network.wait_or_skip)
        self.addCleanup(self.network.start_slurmd, 2)
        self.addCleanup(end.unlink)
        other = self.run_in([], "true")
        self.assertEqual(other.returncode, 70, other.stderr)
        self.assertIn("host node2 is lost: srun exited with status", other.stderr)
        self.assertIsNone(run.poll())
        end.touch()
        _, errors = finish(run)
        self.assertEqual(run.returncode, 0, errors)
        self.expect_nothing_left()

    def expect_nothing_left(self):
        left = lambda: self.network.left("jacobi", "sleep", "braidd", "braid-node")
        self.assertTrue(wait_until(lambda: not left(), MOST_SECONDS_TO_END), f"left: {left()}")


if __name__ == "__main__":
    if reason := missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
