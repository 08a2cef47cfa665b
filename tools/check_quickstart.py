#!/usr/bin/env python3
"""Checks that the first command stays small: what tools/quickstart builds, and what it needs to configure.

    tools/check_quickstart.py [--build FOLDER] [--most N]

Exit status 0: clean; 1: what is wrong, one a line. It reads the steps of the target `quickstart` in a configured build
folder, and configures the tree once more as a machine would that has only the packages of tools/packages.txt.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

# The most objects that may be compiled. A new source file of a library or a program is a reason to raise it; anything that is
# not needed by `braid run`, `braid sim`, `braid study`, `braid fit`, `braid report`, `braid calibrate` or the compilers for
# programs is not.
MOST_OBJECTS = 438

# The programs that `braid` needs: each must be among the outputs.
MUST_BUILD = ("bin/braid", "bin/braidd", "bin/braid-times", "bin/jacobi", "bin/sim/jacobi", "sim/charge/braid_charge.so",
              "lib/braid_pthreads.o", "lib/braid_pthreads_sim.o")

# The empty source file of a precompiled header (cmake/precompiled_headers.cmake).
PRECOMPILED = re.compile(r"/braid_precompiled\w*\.cpp$")

# Packages that only tests and benches need, as CMake and as the sources name them.
TEST_PACKAGES = ("GTest", "benchmark", "Python3")
TEST_HEADERS = re.compile(r"/(gtest|gmock|benchmark)/")


def commands_of(build):
    """The commands that build the target, one for each output."""
    result = subprocess.run(["ninja", "-C", str(build), "-t", "commands", "quickstart"],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"check_quickstart: {build}: {result.stdout.strip() or result.stderr.strip()}")
    return result.stdout.splitlines()


def objects_of(commands):
    """[(source, object)] of the commands that compile, without the empty ones that own a precompiled header."""
    compiled = []
    for line in commands:
        source, target = re.search(r" -c (\S+)", line), re.search(r" -o (\S+\.o)\b", line)
        if source and target and not PRECOMPILED.search(source[1]):
            compiled.append((source[1], target[1]))
    return compiled


def problems_of(commands, root, most=MOST_OBJECTS):
    """The problems of the list of commands, in sentences."""
    compiled = objects_of(commands)
    for source, _ in compiled:
        area = pathlib.PurePath(source).relative_to(root).parts if source.startswith(f"{root}/") else ("",)
        if area[0] == "tests" or (area[0] == "bench" and not area[-1].startswith("stage_times")):
            yield f"{'/'.join(area)} is compiled: the target quickstart is for what `braid` offers"
    if len(compiled) > most:
        yield f"{len(compiled)} objects are compiled, and {most} are allowed (MOST_OBJECTS)"
    for output in MUST_BUILD:
        if not any(re.search(rf"(-o |/){re.escape(output)}( |$)", line) for line in commands):
            yield f"{output} is not built"


def configured_without_tests(root):
    """Configures the tree without what only tests need; returns (commands, problem or None)."""
    with tempfile.TemporaryDirectory(prefix="braid-quickstart-") as folder:
        hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in TEST_PACKAGES]
        result = subprocess.run(["cmake", "-S", str(root), "-B", folder, "-G", "Ninja",
                                 "-DCMAKE_BUILD_TYPE=RelWithDebInfo", *hidden],
                                capture_output=True, text=True, check=False)
        if result.returncode != 0:
            return [], f"without the packages of tests cmake cannot configure:\n{result.stderr}"
        return commands_of(folder), None


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=root / "build" / "release")
    parser.add_argument("--most", type=int, default=MOST_OBJECTS, help=f"objects (default: {MOST_OBJECTS})")
    args = parser.parse_args()
    commands = commands_of(args.build)
    problems = list(problems_of(commands, root, args.most))
    alone, problem = configured_without_tests(root)
    if problem:
        problems.append(problem)
    elif len(objects_of(alone)) != len(objects_of(commands)):
        problems.append(f"{len(objects_of(commands))} objects here, {len(objects_of(alone))} where the packages of tests "
                        "are missing")
    for problem in problems:
        print(f"quickstart: {problem}")
    print(f"check_quickstart: {len(objects_of(commands))} objects, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
