"""tools/fuzz_coverage counts the lines of each fuzzer's own code, and fails where a fuzzer stops to get anywhere."""

import json
import os
import unittest

import tree

NAMES = ["client", "control", "engine", "frame", "handshake", "reassembly", "sealed", "segment"]


class FuzzCoverage(tree.TreeTest):
    def setUp(self):
        super().setUp()
        self.write("tools/fuzz_coverage", (tree.TOOLS / "fuzz_coverage").read_text(), mode=0o755)
        for name in NAMES:
            self.write(f"tests/fuzz/{name}_fuzz.cpp", "")
            self.write(f"tests/fuzz/corpus/{name}/one", "1")
            self.write(f"build/fuzz-coverage/bin/fuzz_{name}", "#!/bin/sh\n", mode=0o755)
        self.write("stubs/cmake", "#!/bin/sh\n", mode=0o755)
        self.write("stubs/llvm-profdata", "#!/bin/sh\n", mode=0o755)
        # Of the fuzzer's name, which is the last word, it prints the report.
        self.write("stubs/llvm-cov", f"#!/bin/sh\nfor last; do :; done\ncat {self.root}/report.$(basename $last)\n", mode=0o755)
        for name in NAMES:
            self.report(name)

    def report(self, name, covered=99, path="dsm/engine/locks.cpp", called=1):
        files = [{"filename": str(self.root / folder), "summary": {"lines": {"covered": covered, "count": 100}}}
                 for folder in ("dsm/engine/locks.cpp", "stack/reassembly.cpp", "stack/sub_connection.cpp", "stack/wire/segment.h",
                                "proxy/daemon/node.cpp")]
        files.append({"filename": "/usr/include/vector", "summary": {"lines": {"covered": 0, "count": 100000}}})
        functions = [{"name": f"{path}:_Z{line}f", "count": count, "filenames": [str(self.root / path)], "regions": [[line, 1]]}
                     for line, count in ((10, 1), (20, called))]
        self.write(f"report.fuzz_{name}", json.dumps({"data": [{"files": files, "functions": functions}]}))

    def run_it(self, *options):
        return self.run_tool(self.root / "tools/fuzz_coverage", *options,
                             env={**os.environ, "PATH": f"{self.root}/stubs:{os.environ['PATH']}"})

    def test_lines_of_the_fuzzers_own_code_are_counted(self):
        result = self.run_it()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"engine +99 +100 +99\.0\n")
        self.assertRegex(result.stdout, r"frame +297 +300 +99\.0\n")
        self.assertIn("2 functions in this code; no fuzzer enters 0", result.stdout)

    def test_a_fuzzer_that_reaches_little_fails_and_is_named(self):
        self.report("control", covered=5)
        result = self.run_it()
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"control +5 +100 +5\.0  less than \d+\n")
        self.assertEqual(result.stdout.count("less than"), 1)

    def test_an_input_that_fails_fails_the_check(self):
        self.write("build/fuzz-coverage/bin/fuzz_frame", "#!/bin/sh\necho CHECK failed\nexit 1\n", mode=0o755)
        result = self.run_it()
        self.assertEqual(result.returncode, 1)
        self.assertIn("CHECK failed\nfuzz_frame: an input fails", result.stdout)

    def test_functions_that_no_fuzzer_enters_are_listed(self):
        for name in NAMES:
            self.report(name, called=0)
        result = self.run_it("--unreached")
        self.assertIn("2 functions in this code; no fuzzer enters 1\ndsm/engine/locks.cpp:20 ", result.stdout)
        self.report("engine", called=1)
        self.assertIn("no fuzzer enters 0", self.run_it().stdout)

    def test_a_fuzzer_without_an_entry_fails(self):
        self.write("tests/fuzz/new_fuzz.cpp", "")
        self.assertNotEqual(self.run_it().returncode, 0)


if __name__ == "__main__":
    unittest.main()
