#!/usr/bin/env python3
"""Kills a random process of a run at a random moment (SIGKILL): braid, its keeper, a braidd or an application of two clusters
that share memory. Each run must end as docs/OPERATIONS.md promises: in time, with the documented status, the process that
died named first, and no process, shared memory or temporary file left.

    random_kills_test.py BIN [--moments 20] [--seed 1] [--moment K]

Process and moment follow from seed and number; seed 0: any. --moment repeats one; what the processes do at that time may
differ.
"""

import argparse
import collections
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

OPTIONS = ["run", "--quiet", "--clusters", "2", "--compute", "2", "--proxies", "2", "--loss", "0.01"]
PROGRAM, ENDLESS = "jacobi", ["--size", "256", "--iterations", "1000000"]
# From the start of the command. Half of the moments are in the start of the processes, the others later.
START_SECONDS, RUN_SECONDS = 0.3, 1.5
# Ten seconds are peer_death_ms, which none of this needs; many threads on few processors do.
MOST_SECONDS_TO_END = 25.0
NEVER = ("terminate called", "CHECK failed", "Assertion", "Segmentation", "core dumped", "AddressSanitizer")
MARK = "RANDOM_KILLS_TEST"  # the command keeps variables that begin with BRAID_ from its children


def read(path):
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


def marked(mark):
    """Living processes that have the mark in their environment, as pid -> kind. The keeper is a copy of the command."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit() or f"{MARK}={mark}".encode() not in read(folder / "environ").split(b"\0"):
            continue
        name = os.path.basename(read(folder / "cmdline").split(b"\0")[0].decode(errors="replace"))
        kind = {"braidd": "braidd", PROGRAM: "application"}.get(name, "starting")
        if read(folder / "comm").strip() == b"braid-keeper":
            kind = "keeper"
        found[int(folder.name)] = kind
    return found


def names(folders):
    return {str(path) for folder in folders for path in pathlib.Path(folder).iterdir()}


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Moment:
    def __init__(self, bin_folder, seed, number):
        self.bin, self.number = bin_folder, number
        self.random = random.Random(f"{seed}:{number}")
        self.mark = f"{os.getpid()}-{seed}-{number}"
        self.kind, self.victim, self.problems = "nothing", 0, []

    def choose(self, command):
        """One kind of process, then one of that kind: there are more applications than commands."""
        kinds = collections.defaultdict(list)
        for pid, kind in sorted(marked(self.mark).items()):
            kinds["braid" if pid == command.pid else kind].append(pid)
        if not kinds:
            return
        self.kind = self.random.choice(sorted(kinds))
        self.victim = self.random.choice(kinds[self.kind])

    def run(self):
        with tempfile.TemporaryDirectory() as temporary:
            return self.run_in(temporary)

    def run_in(self, temporary):
        """Nothing may be left in that folder for temporary files, nor in /dev/shm."""
        before = names(["/dev/shm", temporary])
        seconds = self.random.uniform(0, START_SECONDS if self.number % 2 == 0 else RUN_SECONDS)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            command = subprocess.Popen([self.bin / "braid", *OPTIONS, self.bin / PROGRAM, *ENDLESS],
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       env={**os.environ, MARK: self.mark, "TMPDIR": temporary})
            time.sleep(seconds)
            self.choose(command)
            try:
                os.kill(self.victim or command.pid, signal.SIGKILL)
            except ProcessLookupError:
                self.kind = "nothing"  # it has just ended by itself: a process that existed for its start
            self.when = seconds
            if self.kind in ("nothing", "keeper", "starting"):
                # Nobody may depend on it; then the run goes on.
                wait_until(lambda: command.poll() is not None, 5)
                self.goes_on = command.poll() is None
                if self.goes_on:
                    command.terminate()
            else:
                self.goes_on = False
            killed = time.monotonic()
            try:
                status = command.wait(MOST_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                self.problems.append(f"the run has not ended after {MOST_SECONDS_TO_END:.0f} s")
                command.kill()
                status = command.wait()
            self.seconds = time.monotonic() - killed
            for file in (out, err):
                file.seek(0)
            self.out, self.err = out.read().decode(errors="replace"), err.read().decode(errors="replace")
        self.check(status)
        if not wait_until(lambda: not marked(self.mark), MOST_SECONDS_TO_END):
            self.problems.append(f"processes are left: {marked(self.mark)}")
            for pid in marked(self.mark):
                os.kill(pid, signal.SIGKILL)
        if not wait_until(lambda: names(["/dev/shm", temporary]) <= before, 2):
            self.problems.append(f"left: {sorted(names(['/dev/shm', temporary]) - before)}")
        return not self.problems

    def check(self, status):
        self.status = status
        for word in NEVER:
            if word in self.err:
                self.problems.append(f"'{word}' is printed")
        if "verified" in self.out:
            self.problems.append("the program says that it has ended")
        if self.goes_on:
            expected = {128 + signal.SIGTERM}
        elif self.kind == "braid":
            expected = {-signal.SIGKILL}
        elif self.kind == "braidd":
            expected = {70}
        elif self.kind == "application":
            expected = {128 + signal.SIGKILL}
        else:
            expected = {70, 128 + signal.SIGKILL}
        if status not in expected:
            self.problems.append(f"status {status} instead of {' or '.join(map(str, sorted(expected)))}")
        if self.goes_on or self.kind in ("braid", "nothing"):
            return
        causes = re.findall(r"^braid: (.*ending the run.*)$", self.err, re.MULTILINE)
        if not causes:
            self.problems.append("no cause is named")
        elif self.kind in ("braidd", "application") and not re.fullmatch(
                rf"{self.kind} of cluster [01] \(pid {self.victim}\) was killed by signal 9 \(Killed\)[^;]*; "
                r"ending the run", causes[0]):
            self.problems.append(f"the first cause that is named: {causes[0]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--moment", type=int, help="this one only")
    args = parser.parse_args()
    if args.seed == 0:
        args.seed = random.randrange(1, 1 << 32)
    numbers = range(args.moments) if args.moment is None else [args.moment]
    print(f"seed {args.seed}", flush=True)
    failed, kinds = [], collections.Counter()
    for number in numbers:
        moment = Moment(args.bin.resolve(), args.seed, number)
        right = moment.run()
        kinds[moment.kind] += 1
        if right and args.moment is None:
            continue
        print(f"moment {number}: {moment.kind} (pid {moment.victim}) after {moment.when:.3f} s; ended with status "
              f"{moment.status} after {moment.seconds:.1f} s; {'; '.join(moment.problems) or 'all as promised'}\n"
              f"{moment.out}{moment.err}", flush=True)
        if not right:
            failed.append(number)
            print(f"to repeat it: {sys.argv[0]} {args.bin} --seed {args.seed} --moment {number}", flush=True)
    print(f"{len(numbers)} moments ({', '.join(f'{kind} {n}' for kind, n in sorted(kinds.items()))}), "
          f"{len(failed)} not as promised: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
