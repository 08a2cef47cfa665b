#!/usr/bin/env python3
"""`braid run --bind` and `--show-plan`: on which processors proxies and compute nodes of real runs may run, under masks.

    placement_test.py BIN [unittest's options]

Runs have a network namespace of their own where that is possible, because cores that other runs of this one have are not theirs.
Exit status 77 where there are no two cores.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from runs import Command, finish, processes_of, script, wait_until

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
ENDLESS = ("jacobi", "--size", "128", "--iterations", "1000000")


def two_cores():
    """Two processors that this process may use, of different cores; fewer where there are none."""
    found, seen = [], set()
    for number in sorted(os.sched_getaffinity(0)):
        siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
        core = siblings.read_text() if siblings.exists() else str(number)
        if core not in seen:
            seen.add(core)
            found.append(number)
    return found[:2]


CORES = two_cores()


def alone():
    """Words that start a command where no other run is seen; none where that is not permitted."""
    for words in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        # A network over the addresses of the loopback network needs its interface.
        words = [*words, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
            return words
    return []


ALONE = alone()


def threads_of(pid):
    """[(name, processors)] of a process's threads."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text()
        mask = int(re.search(r"^Cpus_allowed:\s*([0-9a-f,]+)$", status, re.M)[1].replace(",", ""), 16)
        found.append((re.search(r"^Name:\t(.*)$", status, re.M)[1], [n for n in range(mask.bit_length()) if mask >> n & 1]))
    return found


class Placement(unittest.TestCase):
    def setUp(self):
        self.braid = Command(BIN, ALONE)

    def run_on(self, processors, *arguments):
        return self.braid.run(*arguments, preexec_fn=lambda: os.sched_setaffinity(0, processors))

    def endless(self, processors, clusters, *options, before=ALONE):
        """A run of a program that takes an hour, in which all processes have begun; [(pids of braidd, of the program)]."""
        others = {name: set(processes_of(name)) for name in ("braidd", "jacobi")}
        command = Command(BIN, before)
        run = subprocess.Popen(command.words("--compute", "1", *options, self.braid.application(ENDLESS[0]), *ENDLESS[1:]),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: os.sched_setaffinity(0, processors))
        self.addCleanup(lambda: (run.terminate(), run.communicate()))

        def own(name):
            return [pid for pid in processes_of(name) if pid not in others[name] and self.descends(pid, run.pid)]

        self.assertTrue(wait_until(lambda: len(own("jacobi")) == clusters and len(own("braidd")) == clusters))
        return run, own("braidd"), own("jacobi")

    @staticmethod
    def descends(pid, from_pid):
        while pid > 1:
            if pid == from_pid:
                return True
            try:
                pid = int(re.search(r"^PPid:\t(\d+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1])
            except OSError:
                return False
        return False

    def expect_threads(self, pid, name, processors):
        """The thread of this name, or the initial one, runs on these only."""
        def is_there():
            return any(thread == name and mask == processors for thread, mask in threads_of(pid))
        self.assertTrue(wait_until(is_there), f"{name} on {processors}: {threads_of(pid)}")

    def test_a_proxy_and_a_compute_node_have_a_core_each(self):
        run, daemons, programs = self.endless(CORES, 1, "--clusters", "1")
        self.expect_threads(programs[0], "jacobi", CORES[1:])
        self.expect_threads(daemons[0], "proxy 0", CORES[:1])
        # The control plane, and the threads that help the compute nodes.
        self.assertIn(("braidd", CORES), threads_of(daemons[0]))
        helpers = [mask for name, mask in threads_of(programs[0]) if name == "jacobi"]
        self.assertGreaterEqual(helpers.count(CORES), 1, threads_of(programs[0]))
        run.terminate()
        _, err = finish(run)
        self.assertNotIn("want a core each", err)

    def test_bind_none_leaves_all_to_the_kernel(self):
        run, daemons, programs = self.endless(CORES, 1, "--clusters", "1", "--bind", "none")
        self.expect_threads(daemons[0], "proxy 0", CORES)
        self.assertEqual({tuple(mask) for _, mask in threads_of(programs[0])}, {tuple(CORES)})
        run.terminate()
        _, err = finish(run)
        self.assertNotIn("want a core each", err)

    def test_a_mask_with_too_few_cores_binds_nothing_and_warns(self):
        one = CORES[:1]
        for options in ((), ("--quiet",)):
            run = self.run_on(one, *options, "--clusters", "1", "--compute", "1", self.braid.application("jacobi"), "--size",
                              "64")
            self.assertEqual(run.returncode, 0, run.stderr)
            warning = "braid: 2 threads (1 cluster of 1 compute node and 1 proxy) want a core each, and there is 1: none is bound"
            self.assertEqual(warning in run.stderr, not options, run.stderr)

    def test_a_second_run_does_not_get_the_cores_of_the_first(self):
        name = self.namespace()
        run, daemons, _ = self.endless(CORES, 1, "--clusters", "1", before=name)
        self.expect_threads(daemons[0], "proxy 0", CORES[:1])
        plan = Command(BIN, name).run("--show-plan", "--clusters", "1", "--compute", "1", "true",
                                      preexec_fn=lambda: os.sched_setaffinity(0, CORES))
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertEqual(plan.stdout.count("another run"), 2, plan.stdout)
        self.assertIn("there are 2, of which other runs have 2", plan.stdout)
        del run

    def namespace(self):
        """Two commands see each other, and no third: in one network namespace."""
        if os.geteuid() != 0 or not ALONE:
            return []
        name = f"braid-placement-{os.getpid()}"
        if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode != 0:
            return []
        self.addCleanup(subprocess.run, ["ip", "netns", "del", name], check=False)
        return ["ip", "netns", "exec", name]

    def test_hosts_that_are_one_machine_share_its_cores(self):
        plan = self.run_on(CORES, "--show-plan", "--hosts", "127.0.0.1,127.0.0.2", "--compute", "1", "true")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertIn("4 threads (2 clusters of 1 compute node and 1 proxy) want a core each", plan.stdout)
        run, daemons, programs = self.endless(CORES, 2, "--hosts", "127.0.0.1,127.0.0.2")
        for daemon, program in zip(daemons, programs):
            self.expect_threads(daemon, "proxy 0", CORES)
            self.assertEqual({tuple(mask) for _, mask in threads_of(program)}, {tuple(CORES)})
        run.terminate()
        _, err = finish(run)
        self.assertEqual(err.count("4 threads"), 1, err)
        run, daemons, programs = self.endless(CORES, 1, "--hosts", "127.0.0.1")
        self.expect_threads(daemons[0], "proxy 0", CORES[:1])
        self.expect_threads(programs[0], "jacobi", CORES[1:])

    # --- cores of the host file

    def hostfile(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "hosts"
        file.write_text(text)
        return ("--hostfile", str(file))

    def test_threads_have_the_cores_of_their_host_only(self):
        both = self.hostfile(f"- {{host: 127.0.0.1, cores: [{CORES[0]}, {CORES[1]}]}}\n")
        _, daemons, programs = self.endless(CORES, 1, *both)
        self.expect_threads(daemons[0], "proxy 0", CORES[:1])
        self.expect_threads(programs[0], "jacobi", CORES[1:])
        helpers = [mask for name, mask in threads_of(programs[0]) if name == "jacobi"]
        self.assertGreaterEqual(helpers.count(CORES), 1, threads_of(programs[0]))

    def test_unbound_threads_of_each_host_roam_on_its_cores(self):
        one_each = self.hostfile(f"127.0.0.1 cores={CORES[0]}\n127.0.0.2 cores={CORES[1]}\n")
        for options, warnings in (((), 2), (("--bind", "none"), 0)):
            with self.subTest(options):
                run, daemons, programs = self.endless(CORES, 2, *one_each, *options)
                for pids in (daemons, programs):
                    masks = []
                    for pid in pids:
                        wait_until(lambda: len(threads_of(pid)) > 1)
                        of_threads = {tuple(mask) for _, mask in threads_of(pid)}
                        self.assertEqual(len(of_threads), 1, threads_of(pid))
                        masks.append(list(of_threads.pop()))
                    self.assertEqual(sorted(masks), [CORES[:1], CORES[1:]])
                run.terminate()
                _, err = finish(run)
                self.assertEqual(err.count("2 threads (1 cluster of 1 compute node and 1 proxy) want a core each, and there is 1 (of"),
                                 warnings, err)

    def test_cores_that_the_host_lacks_are_refused_and_those_of_others_are_left_out(self):
        program = self.braid.application("jacobi")
        for cores, words in ((f"{CORES[0]},1023", "host 127.0.0.2: cores {}: the host has no core 1023, it has "),
                             (f"{CORES[1]}", "host 127.0.0.2: cores {}: the run may use none of them here, but " + str(CORES[0]))):
            hosts = self.hostfile(f"127.0.0.1\n127.0.0.2 cores={cores}\n")
            for options in ((), ("--show-plan",), ("--bind", "none")):
                with self.subTest((cores, options)):
                    run = self.run_on(CORES[:1], *hosts, "--compute", "1", *options, program, "--size", "64")
                    self.assertEqual(run.returncode, 70, run.stderr)
                    self.assertIn(words.format(cores), run.stderr)
        some = self.hostfile(f"127.0.0.1\n127.0.0.2 cores={CORES[0]},{CORES[1]}\n")
        text = "-".join(map(str, CORES)) if CORES[1] == CORES[0] + 1 else ",".join(map(str, CORES))
        warning = f"host 127.0.0.2: cores {text}: the run may not use {CORES[1]} here"
        for options in ((), ("--quiet",)):
            run = self.run_on(CORES[:1], *options, *some, "--compute", "1", program, "--size", "64")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("verified", run.stdout)
            self.assertEqual(warning in run.stderr, not options, run.stderr)
        plan = self.run_on(CORES[:1], "--show-plan", *some, "--compute", "1", "true")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertIn(warning, plan.stdout)

    def test_the_plan_shows_the_cores_of_each_host(self):
        hosts = self.hostfile(f"127.0.0.1 cores={CORES[0]}\n127.0.0.2\n")
        plan = self.run_on(CORES, "--show-plan", *hosts, "--compute", "1", "true")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertIn(f"host 127.0.0.1: cores {CORES[0]} of the host file; its threads run on no others", plan.stdout)
        self.assertNotIn("host 127.0.0.2: cores", plan.stdout)
        both = self.hostfile(f"127.0.0.1 cores={CORES[0]},{CORES[1]}\n")
        plan = self.run_on(CORES, "--show-plan", *both, "--compute", "1", "true")
        self.assertIn(f"proxy 0 of cluster 0 (processor {CORES[0]})", plan.stdout)
        self.assertIn(f"compute node 0 of cluster 0 (processor {CORES[1]})", plan.stdout)

    def test_the_plan_is_shown_and_nothing_is_started(self):
        with tempfile.TemporaryDirectory() as folder:
            mark = pathlib.Path(folder) / "started"
            program = script(pathlib.Path(folder) / "program", f"touch {mark}\n")
            plan = self.run_on(CORES, "--show-plan", "--clusters", "1", "--compute", "1", program)
            self.assertEqual((plan.returncode, plan.stderr), (0, ""))
            self.assertFalse(mark.exists())
        lines = plan.stdout.splitlines()
        self.assertEqual(lines[0].split(), ["package", "NUMA", "cache", "core", "processors", "who"])
        self.assertEqual([line.split(maxsplit=5)[4:] for line in lines[1:3]],
                         [[str(CORES[0]), f"proxy 0 of cluster 0 (processor {CORES[0]})"],
                          [str(CORES[1]), f"compute node 0 of cluster 0 (processor {CORES[1]})"]])
        unbound = self.run_on(CORES, "--show-plan", "--bind", "none", "true")
        self.assertEqual(unbound.returncode, 0, unbound.stderr)
        self.assertIn("--bind none: nothing is bound.", unbound.stdout)
        self.assertNotIn("proxy", unbound.stdout)

    def test_a_daemon_of_ones_own_has_the_setting(self):
        with tempfile.TemporaryDirectory() as folder:
            for processors, mask, warning in ((f"{CORES[1]}", CORES[1:], ""), ("1023", CORES, "refused processor 1023")):
                with self.subTest(processors):
                    config = pathlib.Path(folder) / "node.json"
                    config.write_text(json.dumps({"cluster": 0, "clusters": 1, "address": "10.0.0.1", "links": [], "peers": [],
                                                  "listen_address": f"@braid-placement-{os.getpid()}",
                                                  "processors": processors}))
                    daemon = subprocess.Popen([f"{BIN}/braidd", "--config", str(config)], stderr=subprocess.PIPE, text=True,
                                              preexec_fn=lambda: os.sched_setaffinity(0, CORES))
                    try:
                        wait_until(lambda: any(name == "proxy 0" for name, _ in threads_of(daemon.pid)))
                        self.expect_threads(daemon.pid, "proxy 0", mask)
                    finally:
                        daemon.terminate()
                        _, err = daemon.communicate(timeout=20)
                    self.assertEqual(warning in err, True, err)
                    self.assertEqual("refused" in err, warning != "", err)


if __name__ == "__main__":
    if len(CORES) < 2:
        print("skipped: this process may use one core only")
        sys.exit(77)
    unittest.main()
