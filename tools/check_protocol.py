#!/usr/bin/env python3
"""Checks that every numbered rule of the protocols has code that implements it and a test of it.

    tools/check_protocol.py [ROOT] [--quiet]     exit status 0: clean; 1: problems, one a line

A rule is a row `| SW-7 | what | code | test |` of a table in docs/PROTOCOL.md or docs/protocol_dsm.md. Code and tests
carry its number in a comment. Prints each rule with the files and tests that carry it, then the problems: a rule without
either, a row that names a missing file or test, a number without a rule, a rule of an unlisted series.
"""

import argparse
import dataclasses
import pathlib
import re
import sys

DOCUMENTS = ("docs/PROTOCOL.md", "docs/protocol_dsm.md")
# Series that must be defined in the documents, whoever mentions them.
SERIES = ("IP", "IC", "ARP", "UDP", "SW", "SC", "CV", "PS", "CN", "FO", "PG", "LK", "BR", "SY", "AL", "LZ", "SE")
CODE_FOLDERS = ("stack", "convergence", "proxy", "dsm", "sim")
TEST_FOLDERS = ("tests",)
SOURCE_SUFFIXES = {".h", ".cpp"}

NUMBER = re.compile(rf"\b({'|'.join(SERIES)})-(\d+)\b")
ROW = re.compile(rf"^\|\s*((?:{'|'.join(SERIES)})-\d+)\s*\|")
ANY_ROW = re.compile(r"^\|\s*([A-Z]{2,}-\d+)\s*\|")
QUOTED = re.compile(r"`([^`]+)`")
TEST = re.compile(r"^\s*(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+)\s*,\s*(\w+)\s*\)")
# "Rules PG-1 .. are in docs/protocol_dsm.md" points to rules and implements none.
POINTER = re.compile(r"\bRules?\b.*\bdocs/")


@dataclasses.dataclass
class Rule:
    number: str
    where: str  # document:line
    code_cell: str
    test_cell: str
    code: set = dataclasses.field(default_factory=set)  # files that carry the number
    tests: set = dataclasses.field(default_factory=set)  # Suite.Name that carry it


def sort_key(number):
    series, _, digits = number.partition("-")
    return SERIES.index(series), int(digits)


def read_rules(root, problems):
    rules = {}
    for document in DOCUMENTS:
        path = root / document
        if not path.is_file():
            problems.append(f"{document}: is missing")
            continue
        for line_number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = ANY_ROW.match(line)
            if not match:
                continue
            number, where = match[1], f"{document}:{line_number}"
            if not ROW.match(line):
                problems.append(f"{where}: {number}: its series is not in SERIES, so nothing checks it")
                continue
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) != 4:
                problems.append(f"{where}: {number}: a rule's row has four cells: rule, what, code, test")
                continue
            if number in rules:
                problems.append(f"{where}: {number}: is defined at {rules[number].where} too")
                continue
            rules[number] = Rule(number, where, cells[2], cells[3])
    return rules


def sources(root, folders):
    for folder in folders:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in SOURCE_SUFFIXES and file.is_file():
                yield file.relative_to(root).as_posix(), file.read_text(encoding="utf-8", errors="replace")


def read_code(root, rules, problems):
    for path, text in sources(root, CODE_FOLDERS):
        for line_number, line in enumerate(text.splitlines(), 1):
            if POINTER.search(line):
                continue
            for match in NUMBER.finditer(line):
                if match[0] in rules:
                    rules[match[0]].code.add(path)
                else:
                    problems.append(f"{path}:{line_number}: {match[0]} is not the number of a rule")


def read_tests(root, rules, problems):
    """Returns every test there is. A number belongs to the test in which it stands; before a file's first test, and in
    headers, it belongs to none and must only be a rule's."""
    every_test = set()
    for path, text in sources(root, TEST_FOLDERS):
        test = None
        for line_number, line in enumerate(text.splitlines(), 1):
            begins = TEST.match(line)
            if begins:
                test = f"{begins[1]}.{begins[2]}"
                every_test.add(test)
            elif line.startswith("}"):
                test = None
            for match in NUMBER.finditer(line):
                if match[0] not in rules:
                    problems.append(f"{path}:{line_number}: {match[0]} is not the number of a rule")
                elif test is not None:
                    rules[match[0]].tests.add(test)
    return every_test


def check_rows(root, rules, every_test, problems):
    """Files and tests that the rows name must exist."""
    names = {test.partition(".")[2] for test in every_test}
    suites = {test.partition(".")[0] for test in every_test}
    files = {path for path, _ in sources(root, CODE_FOLDERS)}
    for rule in rules.values():
        for name in QUOTED.findall(rule.code_cell):
            if not name.endswith((".h", ".cpp")):
                continue
            found = [path for path in files if path == name or path.endswith("/" + name)]
            if not found:
                problems.append(f"{rule.where}: {rule.number}: no file {name}")
        named = QUOTED.findall(rule.test_cell)
        for name in named:
            if name.endswith(".*"):
                known = name[:-2] in suites
            else:
                known = name in names or name in every_test
            if not known:
                problems.append(f"{rule.where}: {rule.number}: no test {name}")
        if not named:
            problems.append(f"{rule.where}: {rule.number}: the row names no test")


def check_tree(root):
    """(rules by number, problems)"""
    root = pathlib.Path(root)
    problems = []
    rules = read_rules(root, problems)
    read_code(root, rules, problems)
    every_test = read_tests(root, rules, problems)
    check_rows(root, rules, every_test, problems)
    for rule in rules.values():
        if not rule.code:
            problems.append(f"{rule.where}: {rule.number}: no code carries the number")
        if not rule.tests:
            problems.append(f"{rule.where}: {rule.number}: no test carries the number")
    if not rules:
        problems.append("no rule found")
    return rules, problems


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=here)
    parser.add_argument("--quiet", action="store_true", help="print only problems")
    arguments = parser.parse_args()
    rules, problems = check_tree(arguments.root)
    if not arguments.quiet:
        for number in sorted(rules, key=sort_key):
            rule = rules[number]
            print(f"{number:6} {', '.join(sorted(rule.code)) or '-'}")
            for test in sorted(rule.tests):
                print(f"       {test}")
    for problem in problems:
        print(problem)
    print(f"check_protocol: {len(rules)} rules, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
