#!/usr/bin/env python3
"""`braid plan` as a user has it: it simulates what it needs, and its figures are those of `braid sim`.

    plan_command_test.py BIN [unittest arguments]
"""

import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1])
APP = "water --molecules 27 --iterations 1"
MACHINE = ("--nodes", 8, "--cluster-size", 2, "--model", "alewife-1997", "--seeds", 2, "--max-nis", 1)


def braid(*words, expect=0):
    run = subprocess.run([BIN / "braid", *map(str, words)], capture_output=True, text=True, timeout=250, check=False)
    if run.returncode != expect:
        raise AssertionError(f"{words}: status {run.returncode}\n{run.stdout}\n{run.stderr}")
    return run


class Plan(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_what_it_cannot_do_is_refused_with_the_cure(self):
        plan = ("plan", "--app", "jacobi")
        for words, status, said in (
                ((*plan, *MACHINE, "-o", "-"), 73, "-: results are a folder of files"),
                ((*plan, *MACHINE, "-o", __file__), 73, "is a file, and results are a folder"),
                ((*plan, "--cluster-size", 2, "-o", "x"), 64, "say how many compute nodes all clusters have together with --nodes"),
                ((*plan, "--nodes", 2048, "--cluster-size", 1, "-o", "x"), 64, "are 2048 clusters of 1, and a machine has at most 1024"),
                ((*plan, *MACHINE, "--set", "simulation.mode=no-delay", "-o", self.folder / "x"), 64, "'simulation.mode' is what 'braid plan' chooses"),
                ((*plan, *MACHINE, "--seeds", 3, "-o", "x"), 64, "--seeds is given twice, and has one value"),
                (("plan", "--app", "jacobi --size '6 4'", *MACHINE, "-o", "x"), 64, "quotes and backslashes mean nothing")):
            self.assertIn(said, braid(*words, expect=status).stderr)

    def test_recommendation_and_its_figures(self):
        done = braid("plan", "--app", APP, *MACHINE, "-o", self.folder / "plan")
        self.assertIn(f"{APP}: 4 clusters of 2 compute nodes, model alewife-1997, seeds 1 to 2\n", done.stdout)
        recommended = re.search(r"Recommended for each cluster: (.*)\.\n", done.stdout)[1]
        rows = {row[1]: row for row in re.finditer(r"^\| (\d.*?) \| ([\d.]+) \[.*?\] \| (.*?) \|$", done.stdout, re.MULTILINE)}
        self.assertEqual(rows[recommended][3], "recommended")
        self.assertEqual(len(rows), done.stdout.count("\n| ") - 1, "each is told once")
        self.assertIn("1 proxy, 1 NI, rr", rows)
        self.assertIn("2 proxies, 1 NI, rr", rows)
        points = (self.folder / "plan" / "steps" / "points.csv").read_text().splitlines()[1:]
        self.assertEqual(len(points), 2 * len(rows), "the tables have all that was simulated")
        # The same by hand.
        times = {}
        for proxies in (1, 2):
            times[proxies] = []
            for seed in (1, 2):
                report = self.folder / "report.json"
                braid("sim", "--quiet", "--clusters", 4, "--compute", 2, "--proxies", proxies, "--model", "alewife-1997",
                      "--seed", seed, "--report", report, *APP.split())
                times[proxies].append(json.loads(report.read_text())["parallel_cycles"])
        for proxies, name in ((1, "1 proxy, 1 NI, rr"), (2, "2 proxies, 1 NI, rr")):
            self.assertAlmostEqual(float(rows[name][2]), statistics.median(times[proxies]) * 1e-6, delta=2e-3)
        gain = 1 - statistics.median(two / one for one, two in zip(times[1], times[2]))
        self.assertEqual("1 proxy," in recommended, gain < 0.03, done.stdout)
        # What is known is not simulated again.
        again = braid("plan", "--app", APP, *MACHINE, "-o", self.folder / "plan")
        self.assertEqual(again.stdout, done.stdout)
        self.assertNotRegex(again.stderr, r"[1-9]\d* left")

    def test_a_live_run_says_what_to_plan_for(self):
        report = self.folder / "run.json"
        report.write_text(json.dumps({"command": [str(BIN / "water"), *APP.split()[1:]], "wall_seconds": 1.5,
                                      "configuration": {"clusters": 2, "compute": 2, "proxies": 1}}))
        done = braid("plan", "--from", report, "--seeds", 1, "--max-proxies", 1, "-o", self.folder / "plan")
        self.assertIn(f"{APP}: 2 clusters of 2 compute nodes, model modern, seeds 1 to 1\n{report}: 1.500 s live; proxies of each "
                      "cluster: 1\n",
                      done.stdout)

    def test_wrong_uses_are_refused_with_the_cure(self):
        out = ("-o", self.folder / "plan")
        nonsense = self.folder / "nonsense.json"
        nonsense.write_text('{"configuration": 3}')
        simulated = self.folder / "simulated.json"
        braid("sim", "--clusters", 2, "--compute", 1, "--quiet", "--report", simulated, "jacobi", "--size", 64)
        for words, status, text in (
                (("--nodes", 8, *out), 64, "name a program with --app"),
                (("--app", APP, "--nodes", 8, *out), 64, "--cluster-size"),
                (("--app", APP, "--nodes", 9, "--cluster-size", 2, *out), 64, "is not a multiple of the 2"),
                (("--app", APP, "--nodes", 2, "--cluster-size", 2, *out), 64, "one needs no proxies"),
                (("--app", APP, *MACHINE), 64, "name a folder"),
                (("--app", APP, *MACHINE, *out, "--set", "proxies"), 64, "is not KEY=VALUE"),
                (("--app", APP, *MACHINE, *out, "--set", "no.such=1"), 64, "no.such"),
                (("--app", APP, *MACHINE, *out, "--set", "nis=2"), 64, "'nis' is what 'braid plan' chooses"),
                (("--app", APP, *MACHINE, *out, "--set", "transport.ack_delay_us=20000"), 78,
                 "--set transport.ack_delay_us: ack_delay_us (20000) must be shorter than min_rto_us (20000)"),
                (("--app", "no_such_program", *MACHINE, *out), 78, "no_such_program"),
                (("--from", nonsense, *out), 78, "is no report of 'braid run --report', or cut short; let it write one\n"),
                (("--from", simulated, *out), 78, "is the report of a simulation; name one of 'braid run --report'"),
                (("--from", self.folder / "none.json", *out), 78, "none.json")):
            with self.subTest(words=words):
                self.assertIn(text, braid("plan", *words, expect=status).stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
