#!/usr/bin/env python3
"""Checks that every header of the project compiles alone, with the project's own flags, and twice in one file.

    tools/check_headers.py [--root DIR] [--build DIR] [--jobs N] [HEADER...]

The flags are those of the compile command nearest to the header in BUILD/compile_commands.json, so a configured
build folder is needed (build/release by default), a built one is not. Exit status 0: all compile; 1: the headers named
on the output do not; 2: the check could not run.

Most of the time would go into reading the same again for each header. So headers are read in chains, one compiler for each: a header
comes after others only if it includes them and all that they include. And what the first of a chain includes of STANDARD, itself or
through headers of the project, comes precompiled where many others include the same. Neither hides anything: what was read
before a header is what it includes anyway. The headers of a chain that does not compile are compiled one by one.
"""

import argparse
import collections
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SKIPPED_FOLDERS = {"build", "docs"}
INCLUDE_FLAGS = ("-I", "-isystem", "-iquote")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.MULTILINE)
# What takes the compiler long to read, and how many thousand lines each adds to the others, about.
STANDARD = {"algorithm": 8, "array": 2, "atomic": 12, "boost/lockfree/spsc_queue.hpp": 30, "charconv": 2, "deque": 3, "fmt/core.h": 15,
            "functional": 8, "gtest/gtest.h": 40, "map": 5, "memory": 12, "mutex": 10, "nlohmann/json.hpp": 60, "optional": 2, "span": 3,
            "string": 15, "string_view": 5, "thread": 15, "variant": 2, "vector": 4}
# To precompile a header takes about as long as to read it this many times.
COST_OF_PRECOMPILING = 5


def headers_of(root):
    for file in sorted(root.rglob("*.h")):
        path = file.relative_to(root)
        if path.parts[0] not in SKIPPED_FOLDERS and not path.parts[0].startswith("."):
            yield path


class Flags:
    """The compiler and flags of each source folder, from compile_commands.json."""

    def __init__(self, root, database):
        self.by_folder = {}
        self.includes = []  # of all commands: a header may be in a folder without a source file
        for entry in json.loads(database.read_text()):
            source = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
            if source.suffix not in {".cpp", ".cc"} or root.resolve() not in source.parents:
                continue
            words = entry["arguments"] if "arguments" in entry else shlex.split(entry["command"])
            compiler, flags, includes = self._split(words)
            self.by_folder.setdefault(source.parent.relative_to(root.resolve()), (compiler, flags))
            for include in includes:
                if include not in self.includes:
                    self.includes.append(include)

    @staticmethod
    def _split(words):
        """(compiler, flags that hold for any file, include flags), without launcher, input and output."""
        words = list(words)
        if pathlib.Path(words[0]).name == "ccache":
            words.pop(0)
        compiler, flags, includes = words[0], [], []
        generated = re.compile("-(O.?|g[0-3]?|f(PIC|PIE|pic|pie))")  # they say what is generated, and nothing is
        rest = iter(words[1:])
        for word in rest:
            if word in ("-o", "-MF", "-MT", "-MQ", "-include"):  # a precompiled header would hide what is missing
                next(rest)
            elif word in INCLUDE_FLAGS:
                includes.append((word, next(rest)))
            elif word.startswith(INCLUDE_FLAGS):
                includes.append((word,))
            elif word.startswith("-") and word not in ("-c", "-MD", "-MMD") and not generated.fullmatch(word):
                flags.append(word)
        return compiler, flags, includes

    def groups(self, headers):
        """The headers of each command, as a tuple."""
        result = collections.defaultdict(list)
        for header in headers:
            result[tuple(self.command(header))].append(header)
        return result

    def command(self, header):
        """The command that checks a C++ file as if it lay beside the header; how the file is given must follow."""
        for folder in header.parents:
            below = [f for f in self.by_folder if f == folder or folder in f.parents]
            if below:
                compiler, flags = self.by_folder[min(below)]
                break
        includes = [word for include in self.includes for word in include]
        return [compiler, *flags, *includes, "-fsyntax-only"]


class Included:
    """What a header includes, itself or through headers of the project: those as paths from the root, others as they are written."""

    def __init__(self, root):
        self._root = root

    @functools.cache
    def __call__(self, header):
        result = set()
        for kind, name in INCLUDE.findall((self._root / header).read_text()):
            files = [pathlib.Path(name), header.parent / name] if kind == '"' else []
            file = next((f for f in files if f != header and (self._root / f).is_file()), None)
            result |= {name} if file is None else {file} | self(file)
        return frozenset(result)


def chains_of(headers, included):
    """Splits headers into as few lists as possible in which each header includes the one before it, and all that this one includes.
    (Kuhn's matching: each header gets at most one that follows it.)"""
    order = sorted(headers, key=lambda header: (len(included(header)), header))
    followers = {header: [other for other in order if included(header) | {header} <= included(other)] for header in order}
    before = {}  # header -> the one before it in its chain

    def place(header, tried):
        for other in followers[header]:
            if other not in tried:
                tried.add(other)
                if other not in before or place(before[other], tried):
                    before[other] = header
                    return True
        return False

    for header in order:
        place(header, set())
    after = {header: other for other, header in before.items()}
    chains = []
    for header in order:
        if header not in before:
            chains.append([header])
            while chains[-1][-1] in after:
                chains[-1].append(after[chains[-1][-1]])
    return chains


class Standard:
    """What headers include of STANDARD, precompiled in a folder where it is worth it."""

    def __init__(self, root, included, flags, headers, folder):
        self._root = root
        self._folder = folder
        self.best = dict.fromkeys(headers, frozenset())  # header -> what comes precompiled
        self._files = {}  # (command, names) -> the file that includes them
        for command, group in flags.groups(headers).items():
            self._choose(command, {header: frozenset(included(header) & STANDARD.keys()) for header in group})

    def _choose(self, command, included):
        """Takes what saves most, again and again, while that is more than it costs."""
        candidates = {one & other for one in included.values() for other in included.values()}

        def lines(names):
            return sum(STANDARD[name] for name in names)

        def saved(names):
            return sum(max(0, lines(names) - lines(self.best[header])) for header, all_names in included.items() if names <= all_names)

        while candidates:
            gain, _, names = max((saved(names) - COST_OF_PRECOMPILING * lines(names), sorted(names), names) for names in candidates)
            if gain <= 0:
                return
            self._files[command, names] = self._folder / f"standard_{len(self._files)}.h"
            for header, all_names in included.items():
                if names <= all_names and lines(names) > lines(self.best[header]):
                    self.best[header] = names

    def precompile(self, pool):
        def one(item):
            (command, names), file = item
            file.write_text("".join(f"#include <{name}>\n" for name in sorted(names)))
            # Where it fails the file is read instead.
            subprocess.run([*(word for word in command if word != "-fsyntax-only"), "-x", "c++-header", str(file), "-o", f"{file}.gch"],
                           cwd=self._root, capture_output=True, check=False)

        list(pool.map(one, self._files.items()))

    def words(self, command, header):
        """Those that the command needs to take them; none for a header that is no chain's first."""
        file = self._files.get((tuple(command), self.best.get(header)))
        return ["-include", str(file)] if file else []


def compiles(root, flags, standard, chain):
    """None, or the compiler's messages. Each header is included twice, to find missing guards too."""
    text = "".join(f'#include "{header.as_posix()}"\n' * 2 for header in chain)
    command = flags.command(chain[0])
    done = subprocess.run([*command, *standard.words(command, chain[0]), "-x", "c++", "-"], input=text, cwd=root, capture_output=True,
                          text=True, check=False)
    return None if done.returncode == 0 else done.stderr


def compile_alone(root, flags, standard, chain):
    """Of each header of the chain: None, or the compiler's messages."""
    if compiles(root, flags, standard, chain) is None:
        return [(header, None) for header in chain]
    return [(header, compiles(root, flags, standard, [header])) for header in chain]


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=here)
    parser.add_argument("--build", type=pathlib.Path, help="default: ROOT/build/release")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("headers", nargs="*", type=pathlib.Path, help="from the root; default: all")
    args = parser.parse_args()

    database = (args.build or args.root / "build/release") / "compile_commands.json"
    if not database.is_file():
        print(f"check_headers: {database} is missing: configure first, cmake --preset release", file=sys.stderr)
        return 2
    flags = Flags(args.root, database)
    if not flags.by_folder:
        print(f"check_headers: {database} names no C++ source under {args.root}", file=sys.stderr)
        return 2
    headers = args.headers or list(headers_of(args.root))
    if not headers:
        print(f"check_headers: no header under {args.root}", file=sys.stderr)
        return 2

    bad = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        included = Included(args.root)
        chains = [chain for group in flags.groups(headers).values() for chain in chains_of(group, included)]
        standard = Standard(args.root, included, flags, [chain[0] for chain in chains], pathlib.Path(folder))
        standard.precompile(pool)
        for results in pool.map(lambda chain: compile_alone(args.root, flags, standard, chain), chains):
            for header, messages in results:
                if messages is not None:
                    bad += 1
                    print(f"{header}: does not compile alone:\n{messages}")
    print(f"check_headers: {len(headers)} headers, {bad} do not compile alone")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
