#!/usr/bin/env python3
"""`braid calibrate` as a user has it: a file that simulations take, and a prediction. Times are not judged.

    calibration_test.py BIN SOURCES [unittest arguments]
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1])
SOURCES = pathlib.Path(sys.argv[2])

# Costs that noise may reduce to zero.
MAY_BE_ZERO = {"hand_over_byte", "diff_byte", "wire_byte"}


def braid(*words, folder=BIN):
    return subprocess.run([folder / "braid", *words], capture_output=True, text=True, timeout=500, check=False)


PROGRAMS = ["jacobi", "matmul", "gauss", "water", "tsp", "fft", "barnes", "unstructured"]

ERROR = r" +\d+\.\d+ s +\d+\.\d+ s \([+-]\d+ %\) +\d+\.\d+ s \([+-]\d+ %\)\n"


def costs_of(path):
    found = re.findall(r'^  (\w+): \{value: ([0-9.e+-]+), source: "(.+)"\}$', path.read_text(), re.MULTILINE)
    return {key: float(value) for key, value, _ in found}, [source for _, _, source in found]


def keys():
    """The costs that a model must have."""
    return set(re.findall(r'cost<&M::(\w+)>', (SOURCES / "settings/cost_model.cpp").read_text()))


class Calibration(unittest.TestCase):
    def test_quick_calibration_measures_everything_and_predicts_live_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "mine.yaml")
            file.write_text("stale " * 10000)  # nothing of it is left
            run = braid("calibrate", "--quick", "-o", file)
            self.assertEqual(run.returncode, 0, run.stderr)
            costs, sources = costs_of(file)
            self.assertEqual(set(costs), keys() | set(PROGRAMS))
            self.assertNotIn("stale", file.read_text())
            for key, value in costs.items():
                if key not in MAY_BE_ZERO:
                    self.assertGreater(value, 0, key)
            self.assertEqual(len(set(sources)) > 20, True)
            for source in sources:
                self.assertRegex(source, r"; .+, 20\d\d-\d\d-\d\d$")

            # Both are of one measurement.
            self.assertAlmostEqual(costs["twin"] / costs["page_byte"], 4096, delta=10)

            # A program with a unit is predicted with the mean of the others' units, any other with its own. Only runs
            # with a processor for each thread are compared.
            for program in PROGRAMS:
                self.assertGreater(costs[program], 0)
                self.assertRegex(run.stdout, rf"{program} .* others' +1 x 1 {ERROR}")
                for nodes, threads in (("1 x 1", 1), ("1 x 2", 2), ("2 x 1", 4)):
                    compared = ERROR if threads <= len(os.sched_getaffinity(0)) else r" +\d+\.\d+ s +not compared\n"
                    self.assertRegex(run.stdout, rf"{program} .* its own +{nodes} {compared}")
            self.assertLessEqual(min(costs[p] for p in PROGRAMS), costs["unit"])
            self.assertGreaterEqual(max(costs[p] for p in PROGRAMS), costs["unit"])
            self.assertIn("Times are those that the programs\nprint", run.stdout)
            self.assertEqual("4 threads and this machine has" in run.stdout, len(os.sched_getaffinity(0)) < 4)
            self.assertIn("water", file.read_text())

            again = braid("sim", "--model", file, "jacobi", "--size", "64", "--iterations", "2")
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertIn("model modern", again.stderr)
            self.assertIn("verified", again.stdout)
            self.assertNotIn("has no unit for this one", again.stderr)
            # A program with another name is priced with the mean.
            text = re.sub(r"\n  jacobi: .*", "", file.read_text())
            file.write_text(text)
            unknown = braid("sim", "--model", file, "jacobi", "--size", "64", "--iterations", "2")
            self.assertEqual(unknown.returncode, 0, unknown.stderr)
            if "runs differ, and computing takes" not in unknown.stderr:  # by the clock there are no units
                self.assertIn("model modern has no unit for this one", unknown.stderr)

    def test_the_included_model_has_a_name(self):
        run = braid("sim", "--model", "modern", "jacobi", "--size", "64", "--iterations", "2")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("model modern", run.stderr)
        costs, _ = costs_of(SOURCES / "configs/models/modern.yaml")
        self.assertEqual(set(costs), keys() | set(PROGRAMS))

    def test_a_file_that_cannot_be_written_is_named_before_anything_is_measured(self):
        run = braid("calibrate", "-o", "/nowhere/mine.yaml")
        self.assertEqual(run.returncode, 73)
        self.assertIn("--output: /nowhere/mine.yaml cannot be written: No such file or directory", run.stderr)
        self.assertNotIn("stages", run.stderr)

    def test_wrong_usage(self):
        run = braid("calibrate", "--quik")
        self.assertEqual(run.returncode, 64)
        self.assertIn("--quik", run.stderr)
        self.assertIn("see 'braid calibrate --help'", run.stderr)

    def test_a_command_without_its_programs_says_which_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(BIN / "braid", folder)
            run = braid("calibrate", "-o", f"{folder}/mine.yaml", folder=pathlib.Path(folder))
            self.assertEqual(run.returncode, 70)
            self.assertIn("cannot start", run.stderr)
            self.assertIn("braid-times: No such file or directory", run.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
