#!/usr/bin/env python3
"""Checks that every header of the project compiles alone, with the project's own flags, and twice in one file.

    tools/check_headers.py [--root DIR] [--build DIR] [--jobs N] [HEADER...]

The flags are those of the compile command nearest to the header in BUILD/compile_commands.json, so a configured
build folder is needed (build/release by default), a built one is not. Exit status 0: all compile; 1: the headers named
on the output do not; 2: the check could not run.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

SKIPPED_FOLDERS = {"build", "docs"}
INCLUDE_FLAGS = ("-I", "-isystem", "-iquote")


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
        rest = iter(words[1:])
        for word in rest:
            if word in ("-o", "-MF", "-MT", "-MQ", "-include"):  # a precompiled header would hide what is missing
                next(rest)
            elif word in INCLUDE_FLAGS:
                includes.append((word, next(rest)))
            elif word.startswith(INCLUDE_FLAGS):
                includes.append((word,))
            elif word.startswith("-") and word not in ("-c", "-MD", "-MMD"):
                flags.append(word)
        return compiler, flags, includes

    def command(self, header):
        """The command that reads a C++ file on standard input as if it lay beside the header."""
        for folder in header.parents:
            below = [f for f in self.by_folder if f == folder or folder in f.parents]
            if below:
                compiler, flags = self.by_folder[min(below)]
                break
        includes = [word for include in self.includes for word in include]
        return [compiler, *flags, *includes, "-fsyntax-only", "-x", "c++", "-"]


def compiles_alone(root, flags, header):
    """None, or the compiler's messages. The header is included twice, to find missing guards too."""
    text = f'#include "{header.as_posix()}"\n' * 2
    done = subprocess.run(
        flags.command(header), input=text, cwd=root, capture_output=True, text=True, check=False
    )
    return None if done.returncode == 0 else done.stderr


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
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for header, messages in zip(headers, pool.map(lambda h: compiles_alone(args.root, flags, h), headers)):
            if messages is not None:
                bad += 1
                print(f"{header}: does not compile alone:\n{messages}")
    print(f"check_headers: {len(headers)} headers, {bad} do not compile alone")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
