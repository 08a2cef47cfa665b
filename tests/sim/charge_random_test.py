#!/usr/bin/env python3
"""Random programs: at every boundary the charges are equal, whether each segment is charged at its start or the plug-in
places the charges where they cost least; and results are equal to those without charges, also with access checks.

    tests/sim/charge_random_test.py --compiler g++ --plugin build/release/sim/charge/braid_charge.so \\
        --link "build/release/sim/charge/libbraid_charge_budget.a ..." [--seeds N] [--first SEED]

A failing seed is printed with the command that reproduces it.
"""

import argparse
import pathlib
import random
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DEPTH = 4
FUNCTIONS = 8


class Program:
    """A terminating C++ program with every kind of control flow."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = ['#include "tests/sim/charge_kernels.h"', "#include <cstring>",
                      "typedef unsigned long long u;", "static u ms[512]; static double ds[512]; static unsigned char cs[1024];",
                      "u* m = ms; double* d = ds; unsigned char* c = cs;",  # behind pointers: that is what is checked
                      "static u fuel = 20000;"]
        self.labels = 0
        self.functions = 0
        for number in range(FUNCTIONS):
            self.function(number)
        self.lines += ["void cpp_kernels() {", "  for (int i = 0; i < 512; ++i) { m[i] = i * 2654435761u; d[i] = i; }"]
        for number in range(FUNCTIONS):
            for value in (0, 1, 7, 1000003):
                self.lines += [f"  fuel = 20000; try {{ observe(\"f{number}\", (int64_t)f{number}(opaque({value}), opaque({value % 13}))); }}",
                               "  catch (int e) { observe(\"threw\", e); }"]
        self.lines += ["}", "extern \"C\" void c_kernels() {}"]

    def choose(self, *ways):
        return self.random.choice(ways)

    def variable(self):
        return self.choose("x", "y", "z", "w")

    def value(self):
        v, w = self.variable(), self.variable()
        return self.choose(v, f"{self.random.randrange(100)}u", f"({v} + {w})", f"({v} * {w})", f"({v} ^ {w} >> 3)",
                           f"({v} / ({w} | 1))", f"m[{v} % 512]", f"(u)d[{v} % 512] % 1000", f"({v} % 7)", f"({v} < {w} ? {v} : 3)")

    def condition(self):
        return self.choose(f"{self.value()} % {self.random.randrange(2, 6)} == 0", f"{self.variable()} < {self.value()}",
                           f"({self.value()} & 5) != 0", f"{self.variable()} % 3 != 1 && {self.value()} % 4 > 1")

    def function(self, number):
        self.functions = number
        self.returns = True
        self.lines.append(f"[[gnu::noinline]] static u f{number}(u x, u y) {{ u z = x ^ 5, w = y + 1;")
        self.lines.append("  if (fuel-- < 100) { fuel = 0; return x; } if (fuel > 1000000) return y;")
        self.block(DEPTH, loop=False)
        self.lines.append("  return x + y * 3 + z * 5 + w * 7; }")

    def block(self, depth, loop):
        for _ in range(self.random.randrange(1, 5)):
            self.statement(depth, loop)

    def statement(self, depth, loop):
        kinds = ["assign"] * 5 + ["store", "store", "observe", "call", "leave"]
        if depth > 0:
            kinds += ["if"] * 4 + ["ifelse"] * 3 + ["for"] * 3 + ["while", "until", "switch", "try", "move"]
        getattr(self, self.random.choice(kinds) + "_")(depth, loop)

    def assign_(self, depth, loop):
        self.lines.append(f"{self.variable()} {self.choose('=', '+=', '^=', '*=')} {self.value()};")

    def store_(self, depth, loop):
        self.lines.append(self.choose(f"m[{self.variable()} % 512] += {self.value()};",
                                      f"d[{self.variable()} % 512] += d[{self.variable()} % 512] * 0.5;"))

    def observe_(self, depth, loop):
        if self.random.randrange(3) == 0:
            self.lines.append(f"observe(\"at\", (int64_t){self.variable()});")

    def call_(self, depth, loop):
        if self.functions > 0:
            self.lines.append(f"{self.variable()} += f{self.random.randrange(self.functions)}({self.value()}, {self.variable()});")

    def leave_(self, depth, loop):
        ways = ["return x;", "throw (int)(y % 1000);"] + (["break;", "continue;"] * 3 if loop else [])
        self.lines.append(f"if ({self.condition()}) {self.choose(*ways)}")

    def move_(self, depth, loop):
        self.lines.append(f"memcpy(c + {self.random.randrange(9)}, c + 512, {self.variable()} % 400);")

    def if_(self, depth, loop):
        self.lines.append(f"if ({self.condition()}) {{")
        self.block(depth - 1, loop)
        self.lines.append("}")

    def ifelse_(self, depth, loop):
        self.if_(depth, loop)
        self.lines.append("else {")
        self.block(depth - 1, loop)
        self.lines.append("}")

    def counter(self):
        self.labels += 1
        return f"i{self.labels}"

    def for_(self, depth, loop):
        i = self.counter()
        end = self.choose(str(self.random.randrange(1, 6)), f"{self.variable()} % 9", "30")
        self.lines.append(f"for (u {i} = 0; {i} < {end}; {i} += {self.random.randrange(1, 3)}) {{")
        if self.random.randrange(2):  # of the form that is charged at its entry
            for _ in range(self.random.randrange(1, 4)):
                self.lines.append(self.choose(f"m[{i} + 3] += {self.variable()};", f"d[{i}] = d[{i} + 1] * 0.25 + d[{i} + 2];",
                                              f"{self.variable()} += m[{i}];"))
        else:
            self.fuelled(depth)
        self.lines.append("}")

    def fuelled(self, depth):
        self.lines.append("if (fuel < 100) break; --fuel;")
        self.block(depth - 1, loop=True)

    def while_(self, depth, loop):
        self.lines.append(f"while ({self.condition()}) {{")
        self.fuelled(depth)
        self.lines.append("}")

    def until_(self, depth, loop):
        self.lines.append("do {")
        self.fuelled(depth)
        self.lines.append(f"}} while ({self.condition()});")

    def switch_(self, depth, loop):
        self.lines.append(f"switch ({self.value()} % 7) {{")
        for case in self.random.sample(range(7), self.random.randrange(2, 7)):
            self.lines.append(f"case {case}: {{")
            self.block(depth - 1, loop=False)
            self.lines.append("}" + self.choose("", " break;", " break;"))
        self.lines.append("default: ++z; }")

    def try_(self, depth, loop):
        self.lines.append("try {")
        self.block(depth - 1, loop)
        self.lines.append(f"}} catch (int e) {{ {self.variable()} += e;")
        self.block(depth - 1, loop)
        self.lines.append("}")

    def text(self):
        return "\n".join(self.lines) + "\n"


def outputs(arguments, folder, seed):
    """What the program of this seed prints plain, charged, charged everywhere, and charged with access checks."""
    source = folder / "program.cpp"
    source.write_text(Program(seed).text())
    charged = [f"-fplugin={arguments.plugin}", "-mno-red-zone"]
    flavours = {"plain": [], "charged": charged, "everywhere": [*charged, "-fplugin-arg-braid_charge-everywhere"],
                "checked": [*charged, "-fplugin-arg-braid_charge-checks"]}
    printed = {}
    for name, options in flavours.items():
        program = folder / name
        level = ("-O1", "-O2", "-O2", "-O3")[seed % 4]
        subprocess.run([arguments.compiler, "-std=c++20", level, "-w", f"-I{ROOT}", *options, str(source), "-o", str(program),
                        *shlex.split(arguments.link)], check=True)
        printed[name] = subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
    return printed


def difference(printed):
    """None, or the first difference between the outputs."""
    results = {name: [line for line in lines if not line.startswith("units")] for name, lines in printed.items()}
    if not results["plain"]:
        return "the program printed nothing"
    for name in results:
        if results[name] != results["plain"]:
            return f"its results differ when it is {name}"
    for number, (one, other) in enumerate(zip(printed["charged"], printed["everywhere"])):
        if one != other:
            return f"line {number + 1}: '{one}', but charged at each segment's start '{other}'"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--link", required=True, help="the observer and what it needs")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=1)
    arguments = parser.parse_args()
    boundaries = 0
    with tempfile.TemporaryDirectory(prefix="braid-charge-") as folder:
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            printed = outputs(arguments, pathlib.Path(folder), seed)
            boundaries += len(printed["charged"]) // 2
            if wrong := difference(printed):
                command = [*sys.argv[:1], "--compiler", arguments.compiler, "--plugin", arguments.plugin, "--link", arguments.link,
                         "--first", str(seed), "--seeds", "1"]
                sys.exit(f"seed {seed}: {wrong}\nreproduce: {shlex.join(command)}")
    print(f"{arguments.seeds} programs, {boundaries} boundaries")


if __name__ == "__main__":
    main()
