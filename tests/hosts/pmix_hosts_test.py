#!/usr/bin/env python3
"""`mpirun braid run` and `srun --mpi=pmix braid run`: the real mpirun of Open MPI over the real ssh, and the real Slurm. The hosts are
network and UTS namespaces.

    pmix_hosts_test.py BIN [unittest's options]

Needs root, for the namespaces, ip (iproute2), ssh, sshd and mpirun; for Slurm what slurm_hosts_test.py needs. Exit status 77 where the
former are missing; the tests of Slurm are skipped where it does not start.
"""

import os
import shutil
import subprocess
import sys
import time
import unittest

import slurm_network
import ssh_network
from runs import MOST_SECONDS_TO_END, Command, finish, make_folder, node_between, wait_until

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
HOSTS = 3
PROGRAMS = ("jacobi", "sleep", "braidd", "braid-node", "braid")
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Hosts:
    """What both launchers are asked for; `network` and launched() are theirs."""

    def launched(self, ranks, per_host):
        """The words before `braid run` that start so many ranks."""
        raise NotImplementedError

    def run_ranks(self, ranks, per_host, *arguments, **more):
        return Command(BIN, self.launched(ranks, per_host)).run(*arguments, env=self.environment, **more)

    def start_endless(self):
        run = Command(BIN, self.launched(HOSTS, 1)).start("--quiet", "--compute", "1", "sleep", "3600", env=self.environment)
        self.addCleanup(run.kill)
        self.assertTrue(wait_until(lambda: all(self.network.runs_in(host, "sleep") for host in self.network.hosts)),
                        "it did not start")
        return run

    def expect_end(self, run, *words):
        begun = time.monotonic()
        _, err = finish(run)
        self.assertLess(time.monotonic() - begun, MOST_SECONDS_TO_END, err)
        self.assertNotEqual(run.returncode, 0, err)
        for text in words:
            self.assertIn(text, err)
        self.expect_nothing_left()

    def expect_nothing_left(self):
        left = lambda: self.network.left(*PROGRAMS)
        self.assertTrue(wait_until(lambda: not left(), MOST_SECONDS_TO_END), f"left: {left()}")

    def test_a_host_for_each_rank(self):
        run = self.run_ranks(HOSTS, 1, "--quiet", "--compute", "1", f"{BIN}/jacobi", "--size", "128")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(f"{HOSTS} compute nodes", run.stdout)
        self.assertIn("verified", run.stdout)
        self.expect_nothing_left()

    def test_several_ranks_of_a_host_are_clusters_of_it(self):
        run = self.run_ranks(4, 2, "--quiet", "--compute", "1", "sh", "-c", "echo on $(hostname)")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("braid: ", run.stderr)
        self.assertEqual(sorted(run.stdout.splitlines()),
                         ["[c0] on node1", "[c1] on node1", "[c2] on node2", "[c3] on node2"])
        self.expect_nothing_left()

    def test_wrong_use_is_said_and_ends_all_ranks(self):
        run = self.run_ranks(HOSTS, 1, "--clusters", "7", "true")
        self.assertEqual(run.returncode, 64, run.stderr)
        self.assertEqual(run.stderr.count(f"the {HOSTS} hosts have {HOSTS} slots"), 1, run.stderr)
        self.expect_nothing_left()

    def test_a_rank_that_is_killed(self):
        run = self.start_endless()
        for pid in self.network.runs_in(self.network.hosts[1], "braid"):
            os.kill(pid, 9)
        self.expect_end(run, *self.KILLED)

    def test_a_node_that_is_killed(self):
        run = self.start_endless()
        self.network.kill(self.network.hosts[1], "braid-node")
        self.expect_end(run, "host node2 is lost")

    def test_rank_0_is_killed(self):
        run = self.start_endless()
        for pid in self.network.runs_in(self.network.hosts[0], "braid"):
            os.kill(pid, 9)
        self.expect_end(run)

    def test_the_launcher_is_told_to_end(self):
        run = self.start_endless()
        run.terminate()
        self.expect_end(run)

    def test_input_output_and_status(self):
        run = self.run_ranks(HOSTS, 1, "--quiet", "sh", "-c", "cat; [ $BRAID_CLUSTER = 2 ] && exit 5; sleep 3600",
                             input="x\n" * 100_000)
        self.assertEqual(run.returncode, 5, run.stderr)
        self.assertEqual(run.stdout.count("[c0] x\n"), 100_000)
        self.assertIn("application of cluster 2 (host node3, pid ", run.stderr)
        self.assertNotIn("connection", run.stderr)  # of ranks that only ended with the run
        self.expect_nothing_left()


class NoJob(unittest.TestCase):
    def test_what_is_no_job_is_named(self):
        for words, status, variables, *options in (
                ("no PMIx server has started this process: type 'mpirun", 64, {}, "--launcher", "pmix"),
                ("the job has the hosts: leave out --hosts", 64, {}, "--launcher", "pmix", "--hosts", "127.0.0.1"),
                ("3 processes of this command were started, and each would run on these hosts", 64, {"OMPI_COMM_WORLD_SIZE": "3"}, "--hosts",
                 "127.0.0.1"),
                ("4 processes of this command were started, which cannot find each other", 64, {"PMI_SIZE": "4"}),
                ("PMIx: the server of this job does not answer", 70, {"PMIX_RANK": "0", "PMIX_NAMESPACE": "a job that has ended"})):
            with self.subTest(words):
                run = Command(BIN).run(*options, "true", env={**os.environ, **variables})
                self.assertEqual(run.returncode, status, run.stderr)
                self.assertIn(words, run.stderr)


class Mpirun(Hosts, unittest.TestCase):
    KILLED = ("rank 1", "signal 9")

    @classmethod
    def setUpClass(cls):
        folder = make_folder(cls.addClassCleanup)
        cls.network = ssh_network.SshNetwork(folder, HOSTS)
        cls.addClassCleanup(cls.network.remove)
        cls.environment = {**os.environ, **ROOT, "HOME": str(folder)}
        (cls.network.folder / "mpirun_hosts").write_text(
            "".join(f"{cls.network.address(i)} slots=4\n" for i in range(1, HOSTS + 1)))

    def launched(self, ranks, per_host):
        return ["ip", "netns", "exec", self.network.command, "mpirun", "--mca", "plm_rsh_agent", self.network.ssh, "--hostfile",
                str(self.network.folder / "mpirun_hosts"), "--map-by", f"ppr:{per_host}:node", "--bind-to", "none", "-n", str(ranks)]

    def test_ranks_of_one_host(self):
        run = self.run_ranks(2, 2, "--compute", "1", f"{BIN}/jacobi", "--size", "64")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("wire shm", run.stderr)
        self.assertIn("2 clusters of 1 compute node", run.stderr)

    def test_another_version_is_named(self):
        node = node_between(self.network.folder / "node", BIN, r'begin = re.sub(rb"gversion(.)(.)", rb"gversion\g<1>9", begin)')
        run = self.run_ranks(HOSTS, 1, "--braid-node", node, "true")
        self.assertEqual(run.returncode, 70, run.stderr)
        self.assertIn("install the same version on every host", run.stderr)

    def test_a_host_that_gets_no_cluster_ends_with_the_others(self):
        begun = time.monotonic()
        run = self.run_ranks(HOSTS, 1, "--quiet", "--clusters", "2", "hostname")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("braid: ", run.stderr)
        self.assertEqual(sorted(run.stdout.splitlines()), ["[c0] node1", "[c1] node2"])
        self.assertLess(time.monotonic() - begun, MOST_SECONDS_TO_END)

    def test_one_rank_is_no_job(self):
        run = self.run_ranks(1, 1, "--compute", "1", "true")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("2 clusters of 1 compute node", run.stderr)

    def test_plan_of_each_host(self):
        run = self.run_ranks(HOSTS, 1, "--show-plan", "--compute", "1", "true")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual([line for line in run.stdout.splitlines() if line.startswith("node")],
                         [f"node{i}" for i in range(1, HOSTS + 1)])

    def test_the_launcher_is_killed(self):
        run = self.start_endless()
        run.kill()
        self.expect_nothing_left()

    # mpirun itself may wait for hours for a host that is gone.
    def test_a_link_that_stays_down(self):
        run = self.start_endless()
        self.network.inside(self.network.hosts[2], "ip", "link", "set", "eth0", "down")
        self.addCleanup(self.network.inside, self.network.hosts[2], "ip", "link", "set", "eth0", "up")
        self.expect_nothing_left()
        self.network.kill(self.network.command)  # also its ssh, which has our pipes
        for host in self.network.hosts:
            self.network.kill(host, "orted")
        self.assertIn("host node3 is lost: it has said nothing", finish(run)[1])


class Slurm(Hosts, unittest.TestCase):
    KILLED = ("node2: task 1: Killed",)

    @classmethod
    def setUpClass(cls):
        if reason := slurm_network.missing():
            raise unittest.SkipTest(reason)
        cls.network = slurm_network.SlurmNetwork(make_folder(cls.addClassCleanup), HOSTS)
        cls.addClassCleanup(cls.network.remove)
        cls.environment = cls.network.environment
        if not wait_until(cls.network.is_up, 30):
            raise unittest.SkipTest(f"Slurm does not start here: {cls.network.logs()}")

    def tearDown(self):
        subprocess.run([*self.network.before, "scancel", "--user=root"], env=self.environment, check=True)
        self.assertTrue(wait_until(self.network.is_up, 30), "Slurm's nodes are not idle after a test")

    def launched(self, ranks, per_host, mpi="pmix"):
        return [*self.network.before, "srun", "--quiet", f"--mpi={mpi}", f"--nodes={ranks // per_host}", f"--ntasks={ranks}",
                f"--ntasks-per-node={per_host}"]

    def test_ranks_that_do_not_find_each_other_are_told_what_to_type(self):
        for mpi in ("none", "pmi2"):
            run = Command(BIN, self.launched(HOSTS, 1, mpi)).run("true", env=self.environment)
            self.assertEqual(run.returncode, 64, run.stderr)
            self.assertIn(f"{HOSTS} processes of this command were started, which cannot find each other: type 'srun --mpi=pmix braid run",
                          run.stderr)
        run = Command(BIN, self.launched(HOSTS, 1, "none")).run("--quiet", "--launcher", "local", "true", env=self.environment)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_a_braid_node_as_a_job_step_is_told_what_to_type(self):
        for mpi in ("none", "pmix"):
            run = subprocess.run([*self.launched(HOSTS, 1, mpi), f"{BIN}/braid-node"], stdin=subprocess.DEVNULL, capture_output=True,
                                 text=True, check=False, env=self.environment)
            self.assertEqual(run.returncode, 64, run.stderr)
            self.assertIn(f"and {HOSTS} of it were started. Type 'srun --mpi=pmix braid run PROGRAM'", run.stderr)


if __name__ == "__main__":
    reason = ssh_network.missing() or ("" if shutil.which("mpirun") else "mpirun is not installed")
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
