#!/usr/bin/env python3
"""The tables of a study and the page of `braid report` are the same bytes, however the study was run: one point after the other, beside other
work, with other addresses, in another folder, and killed or interrupted at random moments and run on.

    study_bytes_test.py BIN [--moments 3] [--seed 1] [unittest arguments]

The moments follow from the seed, which is printed; seed 0: any. What the processes do at a moment may differ. With BRAID_LONG_TESTS=1 the study
has all eight applications instead of four.
"""

import argparse
import json
import os
import pathlib
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

IS_LONG = os.environ.get("BRAID_LONG_TESTS") == "1"
parser = argparse.ArgumentParser()
parser.add_argument("bin", type=pathlib.Path)
parser.add_argument("--moments", type=int, default=3)
parser.add_argument("--seed", type=int, default=1)
OPTIONS, OTHERS = parser.parse_known_args()
BIN = OPTIONS.bin.resolve()

# Small problems: with locks whose order races decide, jitter, losses, and every kind of point.
APPLICATIONS = ("tsp, arguments: [--cities, 7]", "unstructured, arguments: [--nodes, 200, --edges, 1200]",
                "barnes, arguments: [--bodies, 128, --iterations, 1]", "water, arguments: [--molecules, 27, --iterations, 1]")
OTHER_APPLICATIONS = ("jacobi, arguments: [--size, 64, --iterations, 3]", "matmul, arguments: [--size, 48]",
                      "gauss, arguments: [--size, 48]", "fft, arguments: [--points, 1024]")
STUDY = f"""
applications: [{", ".join(f"{{application: {words}}}" for words in APPLICATIONS + (OTHER_APPLICATIONS if IS_LONG else ()))}]
base:
  compute: 2
  simulation: {{model: alewife-1997}}
vary:
  - clusters: [2, 4]
    protocol: [eager, mgs]
    proxies: [1, 2]
    faults.loss: [0, 0.01]
  - simulation.mode: [real, no-contention]
"""
TABLES = ("points.csv", "queues.csv", "mva.csv")
NO_RANDOM_ADDRESSES = ("setarch", platform.machine(), "--addr-no-randomize")


def environment(**more):
    return {"PATH": f"{BIN}:/usr/bin:/bin", **more}


class Bytes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.place = pathlib.Path(place.name)
        start = time.monotonic()
        cls.expected = cls.study(cls.place / "first")
        cls.seconds = time.monotonic() - start
        study = json.loads((cls.place / "first" / "out" / "study.json").read_text())
        if not study["points"][0]["report"]["deterministic"]:
            raise unittest.SkipTest("programs are not charged by the compiler plug-in")
        assert study["missing"] == 0 and not study["failed"], study["failed"]
        rows = cls.expected["points.csv"].count(b"\n") - 1
        assert rows == (32 if IS_LONG else 16), rows

    @staticmethod
    def words(*options):
        return [str(BIN / "braid"), "study", "small.yaml", "-o", "out", *options]

    @classmethod
    def study(cls, folder, *options, before=(), env=None):
        """Runs the study there, or what is left of it; its tables and its page."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "small.yaml").write_text(STUDY)
        for words in (cls.words(*options), [str(BIN / "braid"), "report", "out", "-o", "page.html"]):
            done = subprocess.run([*before, *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False,
                                  env=env or environment())
            if done.returncode != 0:
                raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return {**{name: (folder / "out" / name).read_bytes() for name in TABLES}, "page": (folder / "page.html").read_bytes()}

    def same(self, found):
        for name, text in self.expected.items():
            self.assertTrue(text == found[name], f"{name} differs:\n" + "\n".join(
                f"- {one.decode()[:300]}\n+ {other.decode()[:300]}"
                for one, other in zip(text.splitlines(), found[name].splitlines()) if one != other)[:3000])

    def test_one_after_the_other(self):
        self.same(self.study(self.place / "one", "--jobs", "1"))

    def test_beside_other_work(self):
        burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
        try:
            self.same(self.study(self.place / "busy", "--jobs", "4"))
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()

    def test_with_other_addresses(self):
        if subprocess.run([*NO_RANDOM_ADDRESSES, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("the kernel's addresses cannot be fixed here")
        self.same(self.study(self.place / "fixed", before=NO_RANDOM_ADDRESSES))
        # A longer environment moves the stacks.
        self.same(self.study(self.place / "moved", env=environment(LONG="x" * 12345)))

    def test_in_another_folder(self):
        self.same(self.study(self.place / "a much longer name, with blanks" / "and one in it" / "deep"))

    def test_killed_and_interrupted_at_random_moments(self):
        seed = OPTIONS.seed or random.SystemRandom().randrange(1, 1 << 32)
        print(f"seed {seed}", flush=True)
        draw = random.Random(seed)
        for moment in range(OPTIONS.moments):
            folder = self.place / "interrupted"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            (folder / "small.yaml").write_text(STUDY)
            stops, running = 0, True
            while running and stops < 4:
                after, sign = draw.uniform(0, 0.6) * self.seconds, draw.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
                with subprocess.Popen(self.words(), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()) as command:
                    try:
                        command.wait(after)
                        running = False
                    except subprocess.TimeoutExpired:
                        command.send_signal(sign)
                        stops += 1
                        running = command.wait(60) != 0  # 0: it was ready before the signal came
            with self.subTest(seed=seed, moment=moment, stops=stops):
                self.same(self.study(folder))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *OTHERS])
