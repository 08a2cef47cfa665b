#!/usr/bin/env python3
"""`braid fit` as a user has it: it finds the numbers of a machine whose figures it is given, and predicts what it has not seen.

    fit_command_test.py BIN [unittest arguments]
"""

import csv
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1])
STAGES, UNIT = 1.5, 3


def braid(*words, expect=0):
    run = subprocess.run([BIN / "braid", *map(str, words)], capture_output=True, text=True, timeout=250, check=False)
    if run.returncode != expect:
        raise AssertionError(f"{words}: status {run.returncode}\n{run.stdout}\n{run.stderr}")
    return run.stdout + run.stderr


STUDY = """
applications: [{application: water, arguments: [--molecules, 27, --iterations, 1]}]
base: {protocol: mgs, compute: %d, simulation: {model: %s}}
vary: [{clusters: [4]}, {faults.seed: [1, 2, 3]}]
"""
TARGETS = """
model: alewife-1997
name: found
study: one.yaml
predict: two.yaml
tolerance: 0.01
fit:
  - {number: stages, target: idle_cycles, value: %.6g, least: 0.1, most: 10, source: a known machine}
  - {number: unit, target: utilisation, value: %.6g, least: 1, most: 50, source: a known machine}
"""


def median(folder, figure):
    with (folder / "points.csv").open(newline="", encoding="utf-8") as file:
        return statistics.median(figure(row) for row in csv.DictReader(file))


class Fit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")
        return self.folder / name

    def known_machine(self):
        """The file of a model whose stages take STAGES times as long and whose unit is UNIT cycles."""
        lines, proxy = [], False
        for line in (BIN / "models" / "alewife-1997.yaml").read_text(encoding="utf-8").splitlines():
            proxy = line == "  # A proxy" or (proxy and line != "  # The network")
            if proxy and "{value: " in line or line.startswith("  unit:"):
                key, rest = line.split("{value: ", 1)
                value, source = rest.split(",", 1)
                line = f"{key}{{value: {float(value) * STAGES if proxy else UNIT:.4g},{source}"
            lines.append(line)
        return self.write("known.yaml", "\n".join(lines) + "\n")

    def test_what_cannot_be_fitted_is_refused_before_anything_is_simulated(self):
        self.write("one.yaml", STUDY % (1, "alewife-1997"))
        self.write("two.yaml", STUDY % (2, "alewife-1997"))
        good, out = TARGETS % (6000, 0.3), self.folder / "out"
        for change, words in (
                (("name: found", "name: ../found"), "key 'name': must be the name of a model"),
                (("two.yaml", "three.yaml"), "three.yaml: cannot be read"),
                (("model: alewife-1997", "model: alewife"), "there is no cost model 'alewife'; there are: alewife-1997")):
            self.assertIn(words, braid("fit", self.write("targets.yaml", good.replace(*change)), "-o", out, expect=78))
        targets = self.write("targets.yaml", good)
        for study, words in (("engine: live", "live runs have no part in a fit"), ("base: {cycles: {unit: 3}}", "is fitted ('unit')"),
                             ("base: {simulation: {mode: no-delay}}", "has a point with simulation.mode no-delay")):
            text = STUDY % (1, "alewife-1997")
            base = "base: {protocol: mgs, compute: 1, simulation: {model: alewife-1997"
            text = {"engine: live": text + "engine: live\n", "base: {cycles: {unit: 3}}": text.replace(base, base.replace("base: {", "base: {cycles: {unit: 3}, ")),
                    "base: {simulation: {mode: no-delay}}": text.replace(base, base + ", mode: no-delay")}[study]
            self.write("one.yaml", text)
            self.assertIn(words, braid("fit", targets, "-o", out, expect=78))
        self.assertIn("results are a folder", braid("fit", targets, "-o", "-", expect=73))
        self.assertIn("is a file, and results are a folder", braid("fit", targets, "-o", targets, expect=73))
        self.assertFalse(out.exists())

    def test_the_numbers_of_a_known_machine_are_found(self):
        known = self.write("known-study.yaml", STUDY % (1, self.known_machine()))
        braid("study", known, "-o", self.folder / "known")
        waits = ("wait_to_send_cycles", "wait_for_link_cycles", "wait_to_receive_cycles")
        idle = median(self.folder / "known", lambda row: float(row["message_cycles"]) - sum(float(row[w]) for w in waits))
        utilisation = median(self.folder / "known", lambda row: float(row["utilisation"]))
        self.write("one.yaml", STUDY % (1, "alewife-1997"))
        self.write("two.yaml", STUDY % (2, "alewife-1997"))
        targets = self.write("targets.yaml", TARGETS % (idle, utilisation))
        output = braid("fit", targets, "-o", self.folder / "out")
        model = (self.folder / "out" / "found.yaml").read_text(encoding="utf-8")
        unit = float(model.split("  unit: {value: ")[1].split(",")[0])
        window_send = float(model.split("  window_send: {value: ")[1].split(",")[0])
        self.assertAlmostEqual(unit / UNIT, 1, delta=0.05)
        self.assertAlmostEqual(window_send / (STAGES * 508.2), 1, delta=0.02)
        # The log is in the model: what was fitted to what, and every round.
        rounds = [line for line in model.splitlines() if line.startswith("#  ") and line.split()[1].isdigit()]
        self.assertGreater(len(rounds), 1)
        self.assertIn("a known machine", model)
        self.assertIn(f"# Taken: round {len(rounds)}.", model)
        # What it predicts is what the model gives to anyone.
        braid("study", self.write("again.yaml", STUDY % (2, self.folder / "out" / "found.yaml")), "-o", self.folder / "again")
        times = [median(self.folder / f, lambda row: float(row["message_cycles"])) for f in ("again", "out/predicted")]
        self.assertEqual(times[0], times[1])
        self.assertIn(f"(3 seeds) | {times[0]:.0f} [", output)
        # The same search gives the same model.
        braid("fit", targets, "-o", self.folder / "other")
        self.assertEqual((self.folder / "other" / "found.yaml").read_text(encoding="utf-8"), model)

    def test_a_target_that_cannot_be_met_is_a_failure(self):
        self.write("one.yaml", STUDY % (1, "alewife-1997"))
        targets = self.write("targets.yaml", (TARGETS % (9e6, 0.9)).replace("predict: two.yaml\n", "rounds: 2\n"))
        output = braid("fit", targets, "-o", self.folder / "out", expect=1)
        self.assertIn("misses a target by more than the tolerance", output)

    def test_larger_clusters_are_not_fitted_to(self):
        self.write("one.yaml", STUDY % (2, "alewife-1997"))
        targets = self.write("targets.yaml", TARGETS % (6000, 0.3))
        self.assertIn("clusters of 2 compute nodes and 1 proxies; a fit is to clusters of one",
                      braid("fit", targets, "-o", self.folder / "out", expect=78))
        self.assertFalse((self.folder / "out").exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
