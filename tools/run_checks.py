#!/usr/bin/env python3
"""Builds the presets, runs every check and test, and adds them all up. tools/check installs what this needs first.

    tools/run_checks.py [--full] [--root DIR] [--jobs N]

The last line of the output is the sum over everything, alone on its line: "N passed, N failed", with ", N skipped"
when some were. Each test of ctest counts as one, each check and each build as one. Exit status 0: nothing failed.

What runs in a sanitizer's build is chosen by labels (tests/CMakeLists.txt): `no-asan`, `no-tsan`. A test labelled
`live` has the machine to itself.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
import xml.etree.ElementTree

# Checks of the sources. They need the release preset configured (for its flags), not built.
SOURCE_CHECKS = [
    ("layers", ["tools/check_layers.py"]),
    ("format", ["tools/check_format"]),
    ("headers alone", ["tools/check_headers.py"]),
    ("quickstart is small", ["tools/check_quickstart.py"]),
    ("shell scripts", ["shellcheck", "tools/check", "tools/check_format", "tools/install_packages", "tools/quickstart",
                       ".ci/run"]),
]

# What a person runs first, as that person runs it; needs release built.
RELEASE_CHECKS = [
    ("quickstart", ["tools/quickstart"]),
    ("commands of README and docs", ["tools/check_commands.py"]),
]

# (preset, label of the tests that it leaves out)
PRESETS = [("release", None), ("asan", "no-asan"), ("tsan", "no-tsan")]

# Longer things, with --full only. (What the commands' check leaves out without --full stands in the pages.)
FULL_PRESETS = [("debug", None)]
FULL_CHECKS = [
    ("long commands of README and docs", ["tools/check_commands.py", "--full"]),
    # Every process of every application's run is killed once; the tests above kill some.
    ("every process killed once",
     ["env", "BRAID_STRESS_ALL=1", "build/release/bin/braid_run_stress_test", "--gtest_filter=*Killed*"]),
    # What goes wrong one time in ten shows here: every test that starts processes, until it fails or has run five times.
    ("live tests, again and again",
     ["ctest", "--preset", "release", "--label-regex", "^live$", "--repeat", "until-fail:5",
      "--output-on-failure", "--no-tests=error"]),
]

# Each fuzzer of tests/fuzz searches for so long, two at a time, from its kept inputs: with the same seed at every commit,
# so that what fails there is of the commit, and with one of the moment (0) where it searches long.
FUZZ_SECONDS, FUZZ_SEED = 45, 1
FULL_FUZZ_SECONDS, FULL_FUZZ_SEED = 600, 0

# Of what failed tests printed, the end of the output repeats this much.
MOST_FAILURES_SHOWN = 8
MOST_LINES_SHOWN = 40

SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


@dataclasses.dataclass
class Tally:
    """What was run and how it ended."""

    passed: int = 0
    skipped: list = dataclasses.field(default_factory=list)
    failed: list = dataclasses.field(default_factory=list)
    said: dict = dataclasses.field(default_factory=dict)  # failed test -> what it printed

    def add(self, name, ok):
        if ok:
            self.passed += 1
        else:
            self.failed.append(name)

    def add_junit(self, preset, text):
        """Adds the results that ctest wrote with --output-junit; returns how many tests there were."""
        cases = xml.etree.ElementTree.fromstring(text).findall(".//testcase")
        for case in cases:
            name = f"{preset}: {case.get('name')}"
            skipped = case.find("skipped")
            if case.get("status") == "run" and case.find("failure") is None:
                self.passed += 1
            elif case.get("status") == "disabled" or (
                # Only the test itself may say so. A test whose program is missing is "not run" too, and failed.
                skipped is not None and skipped.get("message", "").startswith("SKIP_")
            ):
                self.skipped.append(name)
            else:
                self.failed.append(name)
                self.said[name] = case.findtext("system-out") or ""
        return len(cases)

    def closing_line(self):
        line = f"{self.passed} passed, {len(self.failed)} failed"
        return f"{line}, {len(self.skipped)} skipped" if self.skipped else line


class Run:
    """One run of checks in one tree."""

    def __init__(self, root, jobs):
        self.root = root
        self.jobs = str(jobs)
        self.tally = Tally()
        self.times = []  # (what, seconds)
        self.environment = {**SANITIZER_OPTIONS, **os.environ}

    def command(self, what, words):
        """Runs a command with its output where ours goes; returns its exit status."""
        print(f"\n=== {what}: {' '.join(words)}", flush=True)
        start = time.monotonic()
        try:
            status = subprocess.run(
                words, cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL, check=False
            ).returncode
        except OSError as problem:
            print(f"{words[0]}: {problem.strerror}", flush=True)
            status = 127
        self.times.append((what, time.monotonic() - start))
        return status

    def check(self, what, words):
        """A check that counts as one; a path among the words is the tree's own."""
        program = self.root / words[0]
        words = [str(program) if program.is_file() else words[0], *words[1:]]
        ok = self.command(what, words) == 0
        self.tally.add(what, ok)
        return ok

    def configure(self, preset):
        return self.check(f"configure {preset}", ["cmake", "--preset", preset, "-DBRAID_TESTS=ON"])

    def build(self, preset):
        # -k 0: one run shows everything that does not compile.
        return self.check(
            f"build {preset}", ["cmake", "--build", "--preset", preset, "--parallel", self.jobs, "--", "-k", "0"]
        )

    def test(self, preset, left_out):
        results = self.root / "build" / preset / "ctest.xml"
        results.unlink(missing_ok=True)
        words = ["ctest", "--preset", preset, "--parallel", self.jobs, "--output-on-failure", "--no-tests=error",
                 "--output-junit", str(results)]
        if left_out:
            words += ["--label-exclude", f"^{left_out}$"]
        if preset == "tsan":
            words = [*without_address_randomisation(), *words]
        status = self.command(f"test {preset}", words)
        failed_before = len(self.tally.failed)
        count = self.tally.add_junit(preset, results.read_text()) if results.is_file() else 0
        if count == 0 or (status != 0 and len(self.tally.failed) == failed_before):
            # ctest has a complaint of its own (no test, a program that cannot list its tests): it must not get lost.
            self.tally.add(f"ctest of {preset} ended with status {status} after {count} tests", False)

    def preset(self, preset, left_out, configured=False):
        if (configured or self.configure(preset)) and self.build(preset):
            self.test(preset, left_out)
            return True
        return False

    def fuzz(self, seconds, seed):
        """Every fuzzer counts as one check; one that finds something says how to see it again."""
        names = sorted(file.name.removesuffix("_fuzz.cpp") for file in self.root.glob("tests/fuzz/*_fuzz.cpp"))
        if not names or not (self.configure("fuzz") and self.build("fuzz")):
            return
        print(f"\n=== fuzz: {seconds} s each: {' '.join(names)}", flush=True)
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(max_workers=min(2, int(self.jobs))) as pool:
            for name, status, said in pool.map(lambda name: self.fuzz_one(name, seconds, seed), names):
                self.tally.add(f"fuzz {name}", status == 0)
                runs = re.findall(r"^#(\d+)\s", said, re.MULTILINE)
                print(f"fuzz_{name}: status {status}, {runs[-1] if runs else 0} inputs", flush=True)
                if status != 0:
                    self.tally.said[f"fuzz {name}"] = said + self.see_again(name, said)
                    print(self.tally.said[f"fuzz {name}"], flush=True)
        self.times.append(("fuzz", time.monotonic() - start))

    def fuzz_one(self, name, seconds, seed):
        found = self.root / "build" / "fuzz" / "found" / name
        found.mkdir(parents=True, exist_ok=True)
        # What is new goes to the first folder; the kept inputs stay as they are.
        words = [str(self.root / "build" / "fuzz" / "bin" / f"fuzz_{name}"), f"-max_total_time={seconds}",
                 f"-seed={seed}", "-timeout=20", "-len_control=0", "-max_len=600", "-rss_limit_mb=3000", f"-artifact_prefix={found}/../{name}-",
                 str(found), str(self.root / "tests" / "fuzz" / "corpus" / name)]
        try:
            run = subprocess.run(words, cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                 timeout=seconds + 300, check=False)
            return name, run.returncode, run.stdout
        except OSError as problem:
            return name, 127, f"{words[0]}: {problem.strerror}\n"
        except subprocess.TimeoutExpired as stuck:
            return name, 124, (stuck.stdout or b"").decode(errors="replace") + f"fuzz_{name} did not end\n"

    @staticmethod
    def see_again(name, said):
        written = re.search(r"Test unit written to (\S+)", said)
        if not written:
            return ""
        return (f"\nagain: build/fuzz/bin/fuzz_{name} {written[1]}\n"
                f"Once it is mended keep that input as tests/fuzz/corpus/{name}/<what it was>.\n")

    def everything(self, full):
        configured = self.configure("release")
        for what, words in SOURCE_CHECKS:
            self.check(what, words)
        for preset, left_out in PRESETS + (FULL_PRESETS if full else []):
            if preset != "release":
                self.preset(preset, left_out)
            elif configured and self.preset(preset, left_out, configured=True):
                for what, words in RELEASE_CHECKS:
                    self.check(what, words)
        self.fuzz(*((FULL_FUZZ_SECONDS, FULL_FUZZ_SEED) if full else (FUZZ_SECONDS, FUZZ_SEED)))
        for what, words in FULL_CHECKS if full else []:
            self.check(what, words)

    def report(self):
        print("\n=== time")
        for what, seconds in self.times:
            print(f"{seconds:8.1f} s  {what}")
        print(f"{sum(seconds for _, seconds in self.times):8.1f} s  in all")
        for title, names in (("skipped", self.tally.skipped), ("failed", self.tally.failed)):
            if names:
                print(f"\n=== {title}")
                for name in names:
                    print(f"  {name}")
        # Again at the end: of a long output often only the end is kept.
        for name, said in list(self.tally.said.items())[:MOST_FAILURES_SHOWN]:
            print(f"\n=== what {name} printed")
            print("\n".join(said.splitlines()[-MOST_LINES_SHOWN:]))
        print(f"\n{self.tally.closing_line()}", flush=True)


def without_address_randomisation():
    """ThreadSanitizer of g++ 12 finds no place for its shadow where the kernel randomises more than 28 bits."""
    bits = pathlib.Path("/proc/sys/vm/mmap_rnd_bits")
    try:
        if int(bits.read_text()) <= 28:
            return []
    except (OSError, ValueError):
        return []
    words = ["setarch", platform.machine(), "--addr-no-randomize"]
    allowed = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    return words if allowed else []


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="also the debug preset and the longer checks")
    parser.add_argument("--root", type=pathlib.Path, default=here, help="the tree to check (default: this one)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="default: one for each core")
    args = parser.parse_args()
    run = Run(args.root.resolve(), args.jobs)
    run.everything(args.full)
    run.report()
    return 1 if run.tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
