"""Runs `braid run --hosts` and `braid study --on` for the tests of this folder."""

import os
import pathlib
import stat
import subprocess
import tempfile
import time
import unittest

# All applications, in sizes that take a moment.
PROGRAMS = (("jacobi", "--size", "256"), ("matmul", "--size", "64"), ("water", "--molecules", "64"), ("barnes", "--bodies", "256"), ("fft",),
            ("gauss", "--size", "64"), ("tsp", "--cities", "9"), ("unstructured",))
# Longer than any of these runs takes; then it is killed and the test fails.
MOST_SECONDS = 120
# Within which a run has ended everywhere after the death of a part: 10 s, and 20 more beside other work.
MOST_SECONDS_TO_END = 30


class Command:
    """A subcommand of a build's `braid`, started behind some words (`ip netns exec`)."""

    def __init__(self, binaries, before=(), subcommand="run"):
        self.binaries = pathlib.Path(binaries)
        self.before = list(before)
        self.subcommand = subcommand

    def words(self, *arguments):
        return [*self.before, str(self.binaries / "braid"), self.subcommand, *arguments]

    def run(self, *arguments, stdin=subprocess.DEVNULL, input=None, **more):
        """Runs to the end and returns the finished process with its outputs as text."""
        source = {"input": input} if input is not None else {"stdin": stdin}
        return subprocess.run(self.words(*arguments), **source, capture_output=True, text=True, timeout=MOST_SECONDS,
                              check=False, **more)

    def start(self, *arguments, **more):
        """Starts it; the caller ends it."""
        return subprocess.Popen(self.words(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **more)

    def application(self, name):
        return str(self.binaries / name)


def make_folder(add_cleanup):
    """An empty folder, removed by what `add_cleanup`, a test's addCleanup or a class's addClassCleanup, is given."""
    folder = tempfile.TemporaryDirectory()
    add_cleanup(folder.cleanup)
    return pathlib.Path(folder.name)


class CommandTest(unittest.TestCase):
    """Tests of `braid run` of the build in `binaries`: each has `braid`, a Command, and a folder of its own."""

    binaries = None

    def setUp(self):
        self.braid = Command(self.binaries)
        self.folder = make_folder(self.addCleanup)


def script(path, text):
    """Makes a program of the shell's; returns its path."""
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


# A braid-node that is told something else than it was sent, or of which the test is told what it was sent.
BETWEEN = """#!/usr/bin/env python3
import os, re, subprocess, sys, time
def change(begin):
{change}
    return begin
node = subprocess.Popen(["{binaries}/braid-node"], stdin=subprocess.PIPE)
bytes = b""
while len(bytes) < 4 or len(bytes) < 4 + int.from_bytes(bytes[:4], "little"):
    bytes += os.read(0, 65536) or sys.exit(1)
bytes = change(bytes)
while bytes:
    node.stdin.write(bytes)
    node.stdin.flush()
    bytes = os.read(0, 65536)
"""


def node_between(path, binaries, change):
    """Makes one: `change` are lines of Python that see its first message as `begin`. Returns its path."""
    path.write_text(BETWEEN.format(binaries=binaries, change="".join(f"    {line}\n" for line in change.splitlines())))
    path.chmod(0o755)
    return str(path)


def finish(run):
    """The outputs of a started run that is about to end."""
    out, err = run.communicate(timeout=MOST_SECONDS)
    return out, err


def may_fix_addresses():
    """Whether a program may start without randomised addresses; some containers forbid it."""
    return subprocess.run(["setarch", "--addr-no-randomize", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def processes_of(program, *words):
    """Living processes of this program that have all these words in their command line."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            line = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if line and os.path.basename(line[0].decode(errors="replace")) == program:
            if all(word.encode() in line for word in words):
                found.append(int(folder.name))
    return found


def copies_in_memory(pid, bytes):
    """How often they are in the memory of this process. PermissionError: it may not be looked at."""
    copies = 0
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            parts = line.split(None, 5)
            first, end = (int(address, 16) for address in parts[0].split("-"))
            # The processor's own pages have no bytes to read.
            if not parts[1].startswith("r") or parts[-1].startswith(("[vvar", "[vsyscall")):
                continue
            while first < end:
                part = os.pread(memory.fileno(), min(end - first, 1 << 24), first)
                copies += part.count(bytes)
                if not part:
                    break
                first += len(part)
    return copies


def wait_until(condition, seconds=60):
    """Waits for the condition; false if it does not come."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
