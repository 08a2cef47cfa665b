#!/usr/bin/env python3
"""Checks that every command in README.md, docs/ and the READMEs of apps/ works as printed: it runs those that can run here.

    tools/check_commands.py [--full] [--static] [--list] [FILE...]

A command is a line of an indented block or of a ```sh fence that begins like one (COMMAND below). It runs after
./tools/quickstart and ./tools/check, in a folder that holds links to the tree's own entries and the files that the page
shows in fences (```cpp, first line `// NAME`), and must end with status 0. A comment on the line before a block
changes this for the whole block; it is visible in the source of the page:

    <!-- runs: 10 s -->         stopped after this time, which is not a failure
    <!-- full: why -->          run with --full only
    <!-- together -->           the first line keeps running while the others run
    <!-- not run: why -->       needs something that is missing here

Whether it is run or not, and in `code` in a sentence too, what a command names must exist: the file, the options (in the
program that they are given to), the preset, the target, the test. So must a path of the tree in `code`.

Exit status 0: no problems; 1: problems, one per line.
"""

import argparse
import dataclasses
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BIN = "build/release/bin/"
LIMIT_S = 100  # for a command without an annotation

COMMAND = re.compile(r"(\./|tools/|build/|bench/|[A-Z_]+=\S+ +\S|(braid|cmake|ctest|ninja|chrt|tshark|git|make|mkdir|cd|python3|ccache) )")
ANNOTATION = re.compile(r"<!-- (runs|full|together|not run)(?:: (.*?))? -->$")
TREE_PATH = re.compile(r"(?:apps|base|bench|cmake|configs|convergence|docs|dsm|examples|proxy|settings|sim|stack|tests|tools)"
                       r"/[\w./*-]*")
WRAPPERS = {"chrt": 3, "sudo": 1, "env": 1, "nice": 1}  # words until the command that they start
FOREIGN = {"cmake", "ctest", "ninja", "tshark", "git", "make", "ccache", "cd", "mkdir", "python3"}


@dataclasses.dataclass
class Command:
    page: str
    line: int
    text: str
    how: str = "run"  # or runs, full, together, not run; `code` for code in a sentence
    detail: str = ""
    block: int = 0

    def where(self):
        return f"{self.page}:{self.line}: {self.text}"


@dataclasses.dataclass
class Page:
    path: str
    commands: list = dataclasses.field(default_factory=list)
    files: dict = dataclasses.field(default_factory=dict)  # name -> text, shown in fences
    problems: list = dataclasses.field(default_factory=list)


def read_page(path, text):
    """The page's commands, in order, and the files that it shows."""
    page = Page(path)
    how, detail, block, fence, shown = "run", "", 0, None, []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if line.startswith("```"):
            if fence is None:
                fence, shown = stripped[3:], []
            else:
                name = re.match(r"(?://|/\*) ([\w.]+)", shown[0]) if shown else None
                if name:
                    page.files[name[1]] = "\n".join(shown[1:]) + "\n"
                fence, how, detail = None, "run", ""
            continue
        if fence is not None and fence != "sh":
            shown.append(line)
            continue
        if annotation := ANNOTATION.match(stripped):
            how, detail, block = annotation[1], annotation[2] or "", number
            if how in ("full", "not run") and not detail:
                page.problems.append(f"{path}:{number}: say why: <!-- {how}: ... -->")
            if how == "runs" and not re.fullmatch(r"\d+ s", detail):
                page.problems.append(f"{path}:{number}: say for how long: <!-- runs: 10 s -->")
        elif stripped.startswith("<!--") and re.match(r"<!-- *(runs?|full|together|not)\b", stripped):
            page.problems.append(f"{path}:{number}: no annotation of tools/check_commands.py: {stripped}")
        elif fence == "sh" or (line.startswith("    ") and stripped):
            if fence == "sh" or COMMAND.match(stripped):
                page.commands.append(Command(path, number, stripped, how, detail, block))
        else:
            if stripped:
                how, detail = "run", ""
                block = number
            for code in re.findall(r"`([^`]+)`", line):
                page.commands.append(Command(path, number, code, "code"))
    return page


class Names:
    """What exists in the tree and in its build."""

    def __init__(self, root):
        self.root = root
        self.bin = root / BIN

    @functools.cached_property
    def presets(self):
        return {p["name"] for p in json.loads((self.root / "CMakePresets.json").read_text())["configurePresets"]}

    @functools.cached_property
    def targets(self):
        listed = subprocess.run(["ninja", "-C", str(self.root / "build/release"), "-t", "targets", "all"],
                              capture_output=True, text=True, check=False).stdout
        return {line.split(":")[0] for line in listed.splitlines()} | {"help", "all", "fuzzers", "install"}

    @functools.cache
    def tests(self, pattern):
        listed = subprocess.run(["ctest", "--test-dir", "build/release", "-N", "-R", pattern], cwd=self.root,
                              capture_output=True, text=True, check=False).stdout
        return int((re.search(r"Total Tests: (\d+)", listed) or [0, 0])[1])

    @functools.cache
    def content(self, file):
        return file.read_bytes()

    def file_of(self, word):
        """The program of a command's first word: a file of the tree, None if there is none."""
        relative = word.removeprefix("./")
        file = self.root / relative
        if not relative.startswith(("build/", "tools/", "bench/", "tests/")) and "/" not in relative:
            file = self.bin / relative
        return file if file.is_file() else None


def simple_commands(text):
    """The words of each of the commands of a line, without comment, variables and wrappers."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split = True
    commands = [[]]
    for word in lexer:
        if word and set(word) <= set("&|;"):
            commands.append([])
        else:
            commands[-1].append(word)
    for words in commands:
        while words and re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        while words and words[0] in WRAPPERS:
            words = words[WRAPPERS[words[0]]:]
        if words:
            yield words


def foreign_problems(words, names, made):
    """What commands of cmake and ctest name: presets, targets, tests. A test of a program that is in `made` is known when that is built."""
    for option, value in zip(words, words[1:]):
        if option == "--preset" and value not in names.presets:
            yield f"there is no preset {value}"
        program = re.match(r"\^(\w+)\.", value)
        if words[0] == "ctest" and option == "-R" and not (program and BIN + program[1] in made) and names.tests(value) == 0:
            yield f"no test's name matches {value}"
    if words[0] == "cmake" and "--target" in words:
        for target in words[words.index("--target") + 1:]:
            if target.startswith("-"):
                break
            if target not in names.targets:
                yield f"there is no target {target}"


def static_problems(command, names, made):
    """What the command names that does not exist; `made`: files that commands before it make, or the page shows."""
    try:
        parts = list(simple_commands(command.text))
    except ValueError as problem:
        yield str(problem)
        return
    for words in parts:
        if words[0] in FOREIGN:
            yield from foreign_problems(words, names, made)
            continue
        if "/" not in words[0]:
            if shutil.which(words[0]) is None:
                yield f"there is no {words[0]} in PATH"
            continue
        program = names.file_of(words[0])
        if program is None:
            if words[0].removeprefix("./") not in made and "fuzz" not in words[0]:
                yield f"there is no {words[0]}"
            continue
        programs = [program] + [found for word in words[1:] if (found := names.file_of(word)) is not None]
        for word in words[1:]:
            option = re.match(r"--?([a-z][\w-]+)", word)
            if word.startswith("--") and option and not any(option[1].encode() in names.content(p) for p in programs):
                yield f"{words[0]} has no option --{option[1]}"
            if word.startswith(("configs/", "examples/", "tests/")) and not list(names.root.glob(word)):
                yield f"there is no {word}"
            if word.startswith("--gtest_filter="):
                listed = subprocess.run([str(program), "--gtest_list_tests", word], capture_output=True, text=True,
                                        check=False)
                if not re.search(r"^  \S", listed.stdout, re.MULTILINE):
                    yield f"no test of {words[0]} matches {word}"


def code_problems(command, names):
    """Problems of `code` in a sentence: a command in it, or a path of the tree."""
    text = command.text
    if TREE_PATH.fullmatch(text) and not text.startswith("tools/") or re.fullmatch(r"tools/[\w./*]+", text):
        if not list(names.root.glob(text.rstrip("/"))) and not list(names.root.glob(text.rstrip("/.") + "*")):
            yield f"there is no {text}"
    elif (names.root / text).is_dir():
        return
    elif re.match(r"(build/|\./tools/|tools/)\S+ ", text) or text.startswith("build/"):
        if not re.search(r"[…{]|<\w+>|\b[A-Z]{2,}\b(?!=)", text):
            yield from static_problems(command, names, set())


def made_by(commands):
    """Names of the files that commands write beside themselves, and paths of the programs that they build."""
    beside = {pathlib.PurePath(name).name for c in commands for name in re.findall(r" -o (\S+)", c.text)}
    targets = {target for c in commands for names in re.findall(r"--build --preset release --target ([\w -]+)", c.text) for target in names.split()}
    return beside | {BIN + target for target in targets}


class Runner:
    """Runs a page's commands in a folder of its own, in order."""

    def __init__(self, root, page, folder):
        self.root = root
        self.folder = pathlib.Path(folder)
        for entry in root.iterdir():
            if entry.name != ".git":
                (self.folder / entry.name).symlink_to(entry)
        for name, text in page.files.items():
            (self.folder / name).write_text(text)

    def start(self, command):
        # CMake and the checks know the tree by its path; everything else leaves what it makes in the folder.
        of_tree = re.match(r"(cmake|ctest|ninja|python3|git) |tools/check_", command.text)
        inside = self.root if of_tree else self.folder
        self.output = tempfile.TemporaryFile()
        return subprocess.Popen(["bash", "-euo", "pipefail", "-c", command.text], cwd=inside, stdin=subprocess.DEVNULL,
                                stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True)

    def printed(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")[-2000:]

    @staticmethod
    def stop(process):
        for number, wait_s in ((signal.SIGINT, 10), (signal.SIGTERM, 5), (signal.SIGKILL, None)):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                pass
            try:
                process.wait(wait_s)
                return
            except subprocess.TimeoutExpired:
                continue

    def run(self, command, limit_s, may_be_stopped=False):
        """A problem, or None."""
        process = self.start(command)
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.stop(process)
            return None if may_be_stopped else f"did not end within {limit_s} s\n{self.printed()}"
        return None if status == 0 else f"ended with status {status}\n{self.printed()}"

    def run_together(self, first, others):
        """Runs `others` while `first` runs; each may need it to have begun."""
        background = self.start(first)
        try:
            for command in others:
                end = time.monotonic() + 30
                while (problem := self.run(command, 20)) and background.poll() is None and time.monotonic() < end:
                    time.sleep(0.2)
                if problem:
                    return problem
            return None
        finally:
            self.stop(background)


def run_page(root, page, full):
    """[(command, problem)] of what failed, and how many were run."""
    failed, count = [], 0
    runnable = [c for c in page.commands if c.how not in ("code", "not run") and (full or c.how != "full")]
    with tempfile.TemporaryDirectory(prefix="braid-commands-") as folder:
        runner = Runner(root, page, folder)
        for command in runnable:
            block = [c for c in runnable if c.block == command.block]
            start = time.monotonic()
            if command.how == "together":
                problem = runner.run_together(command, block[1:]) if command is block[0] else None
            elif command.how == "runs":
                problem = runner.run(command, int(command.detail.split()[0]), may_be_stopped=True)
            else:
                problem = runner.run(command, 3600 if command.how == "full" else LIMIT_S)
            count += 1
            print(f"{time.monotonic() - start:6.1f} s  {command.where()}", flush=True)
            if problem:
                failed.append((command, problem))
    return failed, count


def pages_of(root):
    paths = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("apps/*/README.md")]
    return [path for path in sorted(paths) if path.name != "CHANGELOG.md"]


def check(root, paths, full=False, static=False, listing=False):
    """Prints what is wrong; returns how many problems there are."""
    names, problems, run = Names(root), [], 0
    for path in paths:
        page = read_page(path.relative_to(root).as_posix(), path.read_text())
        if listing:
            for command in page.commands:
                if command.how != "code":
                    print(f"[{command.how}] {command.where()}")
            continue
        problems += page.problems
        commands = [c for c in page.commands if c.how != "code"]
        made = made_by(commands) | set(page.files)
        for command in page.commands:
            found = code_problems(command, names) if command.how == "code" else static_problems(command, names, made)
            problems += [f"{command.where()}: {problem}" for problem in found]
        if not static and commands:
            failed, count = run_page(root, page, full)
            run += count
            problems += [f"{command.where()}: {problem}" for command, problem in failed]
    for problem in problems:
        print(problem)
    if not listing:
        print(f"check_commands: {len(paths)} pages, {run} commands run, {len(problems)} problems")
    return len(problems)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="run those marked `full`, too")
    parser.add_argument("--static", action="store_true", help="run none: only what they name")
    parser.add_argument("--list", action="store_true", help="print the commands and how each is run")
    parser.add_argument("pages", nargs="*", type=pathlib.Path, help="default: all")
    args = parser.parse_args()
    paths = [path.resolve() for path in args.pages] or pages_of(root)
    return 1 if check(root, paths, args.full, args.static, args.list) else 0


if __name__ == "__main__":
    sys.exit(main())
