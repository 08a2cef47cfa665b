#!/usr/bin/env python3
"""Builds the presets, runs every check and test, and counts the results. tools/check first installs what this needs.

    tools/run_checks.py [--full] [--root DIR] [--jobs N] [--most-minutes N]

The last line of the output is the sum, alone on its line: "N passed, N failed", with ", N skipped" if some were
skipped. Each test of ctest counts as one, each check and each build as one. Exit status 0: nothing failed.

While a preset is tested, the next ones are built with what the tests leave of the processors: most tests that start processes
wait more than they compute. What runs in a sanitizer's build is chosen by labels (tests/CMakeLists.txt): all but
`no-asan`, only `threads`. A test labelled `live` runs alone. Of the others, those of one GoogleTest program run in one process of it, or a few for a long one
(not in ThreadSanitizer's build), because to start a process takes longer than most of them; ctest starts one for each test. Each test runs once, where it notices
most: those of the command `braid` and of processes in the release build, the others in AddressSanitizer's. With --full both have all.

On a slow machine --most-minutes ends the whole in time: what is not ready for its tests by then is skipped and named, but for the release build.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

# Checks of the sources. They need the release preset configured (for its flags) but not built.
SOURCE_CHECKS = [
    ("layers", ["tools/check_layers.py"]),
    ("format", ["tools/check_format"]),
    ("headers alone", ["tools/check_headers.py"]),
    ("quickstart is small", ["tools/check_quickstart.py"]),
    ("shell scripts", ["shellcheck", "tools/check", "tools/check_format", "tools/install_packages", "tools/quickstart",
                       ".ci/run"]),
]

# The commands that a user runs first, unchanged; they need release built.
RELEASE_CHECKS = [
    ("quickstart", ["tools/quickstart"]),
    ("commands of README and docs", ["tools/check_commands.py"]),
]

# (preset, which tests are configured (cmake/options.cmake), the words by which ctest chooses among them)
PRESETS = [("release", "commands", []), ("asan", "units", ["--label-exclude", "^(no-asan|live|command)$"]),
           ("tsan", "", ["--label-regex", "^threads$"])]

# With --full. (The pages mark the commands that check_commands.py runs only with --full.)
FULL_PRESETS = [("release", "", []), ("asan", "", ["--label-exclude", "^no-asan$"]), PRESETS[-1], ("debug", "", [])]
FULL_CHECKS = [
    ("long commands of README and docs", ["tools/check_commands.py", "--full"]),
    # Every process of every application's run is killed once; the tests above kill some.
    ("every process killed once",
     ["env", "BRAID_STRESS_ALL=1", "build/release/bin/braid_run_stress_test", "--gtest_filter=*Killed*"]),
    # The test among those above makes 10^6.
    ("memory after 10^8 lock operations",
     ["env", "BRAID_LOCK_OPERATIONS=100000000", "build/release/bin/dsm_engine_allocation_test", "--gtest_filter=*Memory*"]),
    # The tests among those above explore some lazy machines only.
    ("machines of the explorer, lazy 1", ["build/release/bin/engine_explorer", "--suite", "1", "--lazy"]),
    ("machines of the explorer, lazy 2", ["build/release/bin/engine_explorer", "--suite", "2", "--lazy"]),
    ("lines that the fuzzers reach", ["tools/fuzz_coverage"]),
    # The tests among those above take the first 1,500 and 1,000.
    ("10,000 worlds", ["build/release/bin/fault_simulation", "--seeds", "10000", "--jobs", "2"]),
    ("5,000 worlds with shared memory", ["build/release/bin/fault_simulation", "--shared-memory", "--seeds", "5000", "--jobs", "2"]),
    # Any of a run's processes at any moment; the test among those above takes 20.
    ("processes killed at 1,000 random moments",
     ["python3", "tests/live/random_kills_test.py", "build/release/bin", "--moments", "1000", "--seed", "0"]),
    # The test among those above takes one.
    ("a study interrupted at 20 random moments",
     ["python3", "tests/cli/study_bytes_test.py", "build/release/bin", "--moments", "20", "--seed", "0", "Bytes.test_killed_and_interrupted_at_random_moments"]),
    # The test among those above takes some of the allocations only.
    ("every refusal at a start",
     ["env", "BRAID_FAIL_ALL=1", "python3", "tests/live/failing_start_test.py", "build/release/bin"]),
    # The test among those above takes 3 s.
    ("a link down for 20 s",
     ["sh", "-c", "BRAID_OUTAGE_SECONDS=20 python3 tests/hosts/packet_hosts_test.py build/release/bin -k for_long || [ $? = 77 ]"]),
    # Finds failures that occur one time in ten: every test that starts processes, until it fails or has run five times.
    ("live tests, repeated",
     ["ctest", "--preset", "release", "--label-regex", "^live$", "--repeat", "until-fail:5",
      "--output-on-failure", "--no-tests=error"]),
]

# How long each fuzzer of tests/fuzz searches at least, two at a time, from its kept inputs. The seed is the same at every commit,
# so that a failure is caused by the commit; a long search takes a random seed (0).
FUZZ_SECONDS, FUZZ_SEED = 20, 1
# Who may be in the middle of a network may try longer.
FUZZ_SECONDS_OF = {"handshake": 45, "sealed": 45}
FULL_FUZZ_SECONDS, FULL_FUZZ_SEED = 600, 0
# The longest input, in bytes: some 100 operations. Longer ones of these two cost time and reach nothing more.
FUZZ_MAX_BYTES, FUZZ_MAX_BYTES_OF = 600, {"handshake": 300, "sealed": 300, "engine": 400}

# Without a heap frame for each call: the preset asan runs the kept inputs with them.
FUZZ_OPTIONS = {"ASAN_OPTIONS": "detect_stack_use_after_return=0:strict_string_checks=1"}

# Before a command: no signal is ignored because somebody before us ignored it (ctest does the same).
PLAIN_SIGNALS = ["env", "--default-signal"]

# GoogleTest programs whose few tests take long: they begin, so that nobody waits for them at the end.
FIRST_PROGRAMS = ("world_test", "node_test")

# GoogleTest programs that would be the last to end by far: their tests are divided among so many processes.
SHARDS_OF = {"node_test": 4}

# How long all tests of a GoogleTest program may take together.
LONGEST_PROGRAM_SECONDS = 1800

# The end of the output repeats this much of the output of failed tests.
MOST_FAILURES_SHOWN = 8
MOST_LINES_SHOWN = 40

SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


@dataclasses.dataclass
class Tally:
    """The results of all checks and tests."""

    passed: int = 0
    skipped: list = dataclasses.field(default_factory=list)
    failed: list = dataclasses.field(default_factory=list)
    output: dict = dataclasses.field(default_factory=dict)  # failed test -> what it printed

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
                # Only the test itself may report this. A test whose program is missing is "not run" too, but counts as failed.
                skipped is not None and skipped.get("message", "").startswith("SKIP_")
            ):
                self.skipped.append(name)
            else:
                self.failed.append(name)
                self.output[name] = case.findtext("system-out") or ""
        return len(cases)

    def add_googletest(self, prefix, text):
        """Adds the results that a GoogleTest program wrote with --gtest_output; returns how many tests there were."""
        cases = xml.etree.ElementTree.fromstring(text).findall(".//testcase")
        for case in cases:
            name = f"{prefix}.{case.get('classname')}.{case.get('name')}"
            if case.find("failure") is not None:
                self.failed.append(name)
                self.output[name] = "\n".join(failure.get("message", "") for failure in case.findall("failure"))
            elif case.get("result") == "skipped":
                self.skipped.append(name)
            elif case.get("status") == "run":
                self.passed += 1
        return len(cases)

    def closing_line(self):
        line = f"{self.passed} passed, {len(self.failed)} failed"
        return f"{line}, {len(self.skipped)} skipped" if self.skipped else line


def configuration_of(preset, tests):
    """The command, as the variable that says which tests is one of the environment: nothing of it stays in the build folder's cache."""
    return ["env", f"BRAID_TESTS_OF={tests}", "cmake", "--preset", preset, "-DBRAID_TESTS=ON"]


def run_within(seconds, words, folder, environment):
    """(exit status, output) of a command: 127 if it cannot start, 124 if it does not end in time."""
    try:
        run = subprocess.run(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, check=False)
        return run.returncode, run.stdout
    except OSError as problem:
        return 127, f"{words[0]}: {problem.strerror}\n"
    except subprocess.TimeoutExpired as stuck:
        return 124, (stuck.stdout or b"").decode(errors="replace") + f"{' '.join(words)} did not end in {seconds} s\n"


class Builds:
    """Configures and builds presets one after the other, beside whatever else runs: at the lowest priority, except while
    somebody waits for one. `presets`: name -> which tests are configured; `configured`: names of those that are."""

    def __init__(self, presets, configured, jobs, root, environment):
        self._presets = presets
        self._configured = configured
        self._jobs = jobs
        self._root = root
        self._environment = environment
        self._lock = threading.Lock()
        self._waited_for = None
        self._process = None
        self._is_over = False
        self._pool = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self._results = {preset: self._pool.submit(self._make, preset) for preset in presets}

    def wait(self, preset, most_seconds):
        """Returns its results: (what, words, output, exit status, seconds) of each command. Raises TimeoutError after so long, None: never."""
        with self._lock:
            self._waited_for = preset
            self._renice(0)
        try:
            results = self._results[preset].result(most_seconds)
        except concurrent.futures.TimeoutError:
            raise TimeoutError from None
        with self._lock:
            self._waited_for = None
            self._renice(19)
        return results

    def end(self):
        """Ends what is not ready."""
        with self._lock:
            self._is_over = True
            if self._process is not None:
                # Not SIGKILL: ninja ends its compilers, which are other groups.
                os.killpg(self._process.pid, signal.SIGTERM)
        self._pool.shutdown(cancel_futures=True)

    def _make(self, preset):
        results = []
        if preset not in self._configured:
            results.append(self._command(f"configure {preset}", configuration_of(preset, self._presets[preset])))
        if all(status == 0 for _, _, _, status, _ in results):
            # -k 0: one run shows all files that do not compile.
            results.append(self._command(f"build {preset}", ["cmake", "--build", "--preset", preset, "--parallel",
                                                             self._jobs, "--", "-k", "0"]))
        return results

    def _command(self, what, words):
        start = time.monotonic()
        with tempfile.TemporaryFile() as output:
            with self._lock:
                if self._is_over:
                    return what, words, "", -1, 0
                try:
                    self._process = subprocess.Popen(words, cwd=self._root, env=self._environment, stdin=subprocess.DEVNULL,
                                                     stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
                except OSError as problem:
                    return what, words, f"{words[0]}: {problem.strerror}", 127, 0
                if self._waited_for is None:
                    self._renice(19)
            # It stays a zombie, whose number no other process can get, until nobody sends it signals any more.
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            with self._lock:
                status = self._process.wait()
                self._process = None
            output.seek(0)
            return what, words, output.read().decode(errors="replace"), status, time.monotonic() - start

    def _renice(self, priority):
        if self._process is None:
            return
        # If it is not permitted, or the process has ended, it only takes longer where others compute, too.
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpriority(os.PRIO_PGRP, self._process.pid, priority)
        # Where the kernel shares processors among sessions first (sched(7), autogroup) that alone would change nothing.
        with contextlib.suppress(OSError):
            pathlib.Path(f"/proc/{self._process.pid}/autogroup").write_text(str(priority))


class Run:
    """One run of checks in one tree."""

    def __init__(self, root, jobs, most_minutes=None):
        """`most_minutes`: after so long no build but the release build is waited for or tested. None: they take what they take."""
        self.root = root
        self.most_minutes = most_minutes
        self.jobs = str(jobs)
        self.tally = Tally()
        self.start = time.monotonic()
        self.times = []  # (what, seconds)
        self.environment = {**SANITIZER_OPTIONS, **os.environ}

    def command(self, what, words):
        """Runs a command, which inherits our output; returns its exit status."""
        print(f"\n=== {what}: {' '.join(words)}", flush=True)
        start = time.monotonic()
        try:
            status = subprocess.run(words, cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL, check=False).returncode
        except OSError as problem:
            print(f"{words[0]}: {problem.strerror}", flush=True)
            status = 127
        self.times.append((what, time.monotonic() - start))
        return status

    def check(self, what, words):
        """Runs a check that counts as one. A path among the words is relative to the tree."""
        program = self.root / words[0]
        words = [str(program) if program.is_file() else words[0], *words[1:]]
        ok = self.command(what, words) == 0
        self.tally.add(what, ok)
        return ok

    def configure(self, preset, tests):
        return self.check(f"configure {preset}", configuration_of(preset, tests))

    def finish_build(self, builds, preset):
        """Waits for it; returns whether it has succeeded. Raises TimeoutError."""
        left = None
        if self.most_minutes is not None and preset != "release":
            left = self.start + 60 * self.most_minutes - time.monotonic()
            if left <= 0:  # its tests would take time, too
                raise TimeoutError
        for what, words, output, status, seconds in builds.wait(preset, left):
            print(f"\n=== {what}: {' '.join(words)}\n{output}", flush=True)
            self.times.append((what, seconds))
            self.tally.add(what, status == 0)
        return status == 0

    def test(self, preset, choice):
        # A report of ThreadSanitizer should name the test that it is of, and not what other tests have left.
        programs = self.googletest_programs(preset, choice) if preset != "tsan" else {}
        self.googletest(preset, programs)
        results = self.root / "build" / preset / "ctest.xml"
        results.unlink(missing_ok=True)
        words = ["ctest", "--preset", preset, "--parallel", self.jobs, "--output-on-failure", "--no-tests=error",
                 "--output-junit", str(results), *choice]
        if programs:
            names = "|".join(re.escape(program.name) for program in programs)
            words += ["--exclude-regex", rf"^({names})\."]
        if preset == "tsan":
            words = [*without_address_randomisation(), *words]
        status = self.command(f"test {preset}", words)
        failed_before = len(self.tally.failed)
        count = self.tally.add_junit(preset, results.read_text()) if results.is_file() else 0
        if count == 0 or (status != 0 and len(self.tally.failed) == failed_before):
            # An error of ctest itself (no test, a program that cannot list its tests) must count, too.
            self.tally.add(f"ctest of {preset} ended with status {status} after {count} tests", False)

    def googletest_programs(self, preset, choice):
        """Those whose tests, all of them, need not run alone: program -> how many tests ctest knows of it, the longest first."""
        words = ["ctest", "--preset", preset, "--show-only=json-v1", *choice]
        try:
            listed = subprocess.run(words, cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                    check=False).stdout
            tests = json.loads(listed[listed.index("{"):])["tests"]  # what the programs print when they are asked may stand before it
        except (OSError, ValueError, KeyError):
            return {}  # ctest says so itself when it is to run them
        counts, others = collections.Counter(), set()
        for test in tests:
            words = test.get("command", [])
            if not any(word.startswith("--gtest_filter=") for word in words):
                continue
            program = pathlib.Path(words[0])
            special = {"ENVIRONMENT", "RUN_SERIAL", "WILL_FAIL", "DISABLED"} & {
                one["name"] for one in test.get("properties", []) if one["value"] is not False}
            if special or not test["name"].startswith(f"{program.name}."):
                others.add(program)
            counts[program] += 1
        chosen = sorted(counts, key=lambda program: (program.name not in FIRST_PROGRAMS, -counts[program]))
        return {program: counts[program] for program in chosen if program not in others}

    def googletest(self, preset, programs):
        """Runs each program once, with all its tests, or in parts at once (SHARDS_OF). One that does not reach its end is one failure more."""
        if not programs:
            return
        print(f"\n=== test {preset}: {len(programs)} GoogleTest programs with {sum(programs.values())} tests", flush=True)
        start = time.monotonic()
        parts = [(program, shard, shards) for program in programs for shards in [SHARDS_OF.get(program.name, 1)] for shard in range(shards)]
        counts, bad_ends = collections.Counter(), {}
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(int(self.jobs)) as pool:
            def result_of(program, shard):
                return pathlib.Path(folder) / f"{program.name}.{shard}.xml"

            def run_part(program, shard, shards):
                return self.googletest_one([*PLAIN_SIGNALS, f"GTEST_TOTAL_SHARDS={shards}", f"GTEST_SHARD_INDEX={shard}", str(program),
                                            f"--gtest_output=xml:{result_of(program, shard)}"], self.root / "build" / preset)

            for (program, shard, shards), (status, output, seconds) in zip(parts, pool.map(lambda part: run_part(*part), parts)):
                name = f"{preset}: {program.name}"
                print(f"{program.name}: status {status}, {seconds:.1f} s", flush=True)
                failed_before = len(self.tally.failed)
                result = result_of(program, shard)
                counts[program] += self.tally.add_googletest(name, result.read_text()) if result.is_file() else 0
                has_failed = len(self.tally.failed) > failed_before
                if status != 0 or has_failed:
                    print(output, flush=True)
                if status != 0 and not has_failed:
                    bad_ends.setdefault(program, (status, output))
                if shard + 1 < shards:
                    continue
                if counts[program] < programs[program]:
                    bad_ends.setdefault(program, (status, output))
                if program in bad_ends:
                    status, output = bad_ends[program]
                    self.tally.add(f"{name} ended with status {status} after {counts[program]} of {programs[program]} tests", False)
                    self.tally.output[self.tally.failed[-1]] = output
        self.times.append((f"test {preset}, GoogleTest programs", time.monotonic() - start))

    def googletest_one(self, words, folder):
        """(status, output, seconds) of a program."""
        start = time.monotonic()
        status, output = run_within(LONGEST_PROGRAM_SECONDS, words, folder, self.environment)
        return status, output, time.monotonic() - start

    def fuzzers(self):
        return sorted(file.name.removesuffix("_fuzz.cpp") for file in self.root.glob("tests/fuzz/*_fuzz.cpp"))

    def fuzz(self, seconds, seed):
        """Every fuzzer counts as one check. If one finds something, the command that repeats it is printed."""
        names = self.fuzzers()
        print(f"\n=== fuzz, {seconds} s or more each: {' '.join(names)}", flush=True)
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(max_workers=min(2, int(self.jobs))) as pool:
            for name, status, output in pool.map(lambda name: self.fuzz_one(name, max(seconds, FUZZ_SECONDS_OF.get(name, 0)), seed), names):
                self.tally.add(f"fuzz {name}", status == 0)
                runs = re.findall(r"^#(\d+)\s", output, re.MULTILINE)
                print(f"fuzz_{name}: status {status}, {runs[-1] if runs else 0} inputs", flush=True)
                if status != 0:
                    self.tally.output[f"fuzz {name}"] = output + self.how_to_repeat(name, output)
                    print(self.tally.output[f"fuzz {name}"], flush=True)
        self.times.append(("fuzz", time.monotonic() - start))

    def fuzz_one(self, name, seconds, seed):
        found = self.root / "build" / "fuzz" / "found" / name
        found.mkdir(parents=True, exist_ok=True)
        # New inputs are written to the first folder; the kept inputs are not changed.
        words = [str(self.root / "build" / "fuzz" / "bin" / f"fuzz_{name}"), f"-max_total_time={seconds}",
                 f"-seed={seed}", "-timeout=20", "-len_control=0", f"-max_len={FUZZ_MAX_BYTES_OF.get(name, FUZZ_MAX_BYTES)}",
                 # Their bookkeeping takes longer than many an input: weights of inputs, names of new functions.
                 "-entropic=0", "-print_funcs=0",
                 "-rss_limit_mb=3000", f"-artifact_prefix={found}/../{name}-",
                 str(found), str(self.root / "tests" / "fuzz" / "corpus" / name)]
        return name, *run_within(seconds + 300, words, self.root, {**self.environment, **FUZZ_OPTIONS})

    @staticmethod
    def how_to_repeat(name, output):
        written = re.search(r"Test unit written to (\S+)", output)
        if not written:
            return ""
        return (f"\nto repeat it: build/fuzz/bin/fuzz_{name} {written[1]}\n"
                f"When it is corrected keep that input as tests/fuzz/corpus/{name}/<description>.\n")

    def everything(self, full):
        if full:
            self.environment["BRAID_LONG_TESTS"] = "1"
        presets = {preset: (tests, choice) for preset, tests, choice in (FULL_PRESETS if full else PRESETS)}
        configured = self.configure("release", presets["release"][0])
        for what, words in SOURCE_CHECKS:
            self.check(what, words)
        if not configured:
            del presets["release"]
        builds = Builds({**{preset: tests for preset, (tests, _) in presets.items()}, **({"fuzz": ""} if self.fuzzers() else {})},
                        ["release"], self.jobs, self.root, self.environment)
        left = [*presets, *(["fuzz"] if self.fuzzers() else [])]
        try:
            while left:
                if self.finish_build(builds, left[0]):
                    self.test_build(left[0], presets, full)
                del left[0]
        except TimeoutError:
            print(f"\n=== skipped after {self.most_minutes} minutes: {' '.join(left)}", flush=True)
            self.tally.skipped += [f"{preset}: not ready for its tests after {self.most_minutes} minutes" for preset in left]
        finally:
            builds.end()
        for what, words in FULL_CHECKS if full else []:
            self.check(what, words)

    def test_build(self, preset, presets, full):
        if preset == "fuzz":
            self.fuzz(*((FULL_FUZZ_SECONDS, FULL_FUZZ_SEED) if full else (FUZZ_SECONDS, FUZZ_SEED)))
            return
        self.test(preset, presets[preset][1])
        for what, words in RELEASE_CHECKS if preset == "release" else []:
            self.check(what, words)

    def report(self):
        print("\n=== time (a build runs beside the tests before it)")
        for what, seconds in self.times:
            print(f"{seconds:8.1f} s  {what}")
        print(f"{time.monotonic() - self.start:8.1f} s  total")
        for title, names in (("skipped", self.tally.skipped), ("failed", self.tally.failed)):
            if names:
                print(f"\n=== {title}")
                for name in names:
                    print(f"  {name}")
        # Repeated at the end, because often only the end of a long output is kept.
        for name, output in list(self.tally.output.items())[:MOST_FAILURES_SHOWN]:
            print(f"\n=== what {name} printed")
            print("\n".join(output.splitlines()[-MOST_LINES_SHOWN:]))
        print(f"\n{self.tally.closing_line()}", flush=True)


def without_address_randomisation():
    """ThreadSanitizer of g++ 12 cannot place its shadow memory if the kernel randomises more than 28 bits."""
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
    parser.add_argument("--most-minutes", type=float, metavar="N", help="then skip what is not ready for its tests, but for the release build (default: nothing)")
    args = parser.parse_args()
    run = Run(args.root.resolve(), args.jobs, args.most_minutes)
    run.everything(args.full)
    run.report()
    return 1 if run.tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
